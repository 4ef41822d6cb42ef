/* Binary buddies over one range: blocks of 2^k bytes at multiples of their size; a freed block joins its buddy. */
#include "models/alloc/range.h"
#include "models/alloc/tree.h"
#include "sim/base/error.h"

typedef struct {
    EchAllocator base;
    EchBytes limit, smallest;
    EchTree free; /* (order, address) */
} Buddy;

static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(Buddy, limit), NULL, NULL, NULL, NULL, "bytes of the range; the device's capacity if not given"},
    {"smallest", ECH_PARAM_BYTES, offsetof(Buddy, smallest), "256", "1", "1GiB", NULL, "bytes of the smallest block; a power of two"},
    {0},
};

static unsigned order_of(EchBytes bytes)
{
    return bytes <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(bytes - 1);
}

static bool buddy_init(EchAllocator *base, GError **error)
{
    Buddy *self = (Buddy *)base;
    if (self->smallest & (self->smallest - 1)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "smallest: '%" G_GUINT64_FORMAT "' is no power of two", self->smallest);
        return false;
    }
    ech_range_init(base, &self->limit, self->smallest);
    /* A range that is no power of two is the sum of the powers in it, the largest first: each then lies at a multiple of its size. */
    uint64_t at = 0;
    for (int order = 62; order >= 0; order--) {
        EchBytes bytes = UINT64_C(1) << order;
        if (self->limit & bytes) {
            ech_tree_insert(&self->free, ech_tree_key((uint64_t)order, at), 0);
            at += bytes;
        }
    }
    return true;
}

static void buddy_done(EchAllocator *base)
{
    ech_tree_clear(&((Buddy *)base)->free);
}

static bool buddy_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Buddy *self = (Buddy *)base;
    if (request->bytes > self->limit)
        return false;
    unsigned order = order_of(MAX(request->bytes, self->smallest));
    EchTreeIter it = ech_tree_lower_bound(&self->free, ech_tree_key(order, 0));
    EchBytes most = ech_range_most(base);
    while (it.leaf && (uint64_t)ech_tree_iter_key(it) + (UINT64_C(1) << order) > most)
        it = ech_tree_next(it);
    if (!it.leaf)
        return false;
    unsigned have = (unsigned)(ech_tree_iter_key(it) >> 64);
    uint64_t address = (uint64_t)ech_tree_iter_key(it);
    ech_tree_remove_at(&self->free, it);
    while (have > order) {
        have--;
        ech_tree_insert(&self->free, ech_tree_key(have, address + (UINT64_C(1) << have)), 0);
    }
    ech_range_place(base, address, UINT64_C(1) << order, live, ret);
    return true;
}

static void buddy_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Buddy *self = (Buddy *)base;
    unsigned order = order_of(live->rounded);
    uint64_t address = live->address;
    while (ech_tree_remove(&self->free, ech_tree_key(order, address ^ UINT64_C(1) << order))) {
        address &= ~(UINT64_C(1) << order);
        order++;
    }
    ech_tree_insert(&self->free, ech_tree_key(order, address), 0);
}

static void buddy_walk(const EchAllocator *base, GArray *out)
{
    const Buddy *self = (const Buddy *)base;
    for (EchTreeIter it = ech_tree_first(&self->free); it.leaf; it = ech_tree_next(it)) {
        EchBytes bytes = UINT64_C(1) << (unsigned)(ech_tree_iter_key(it) >> 64);
        ech_range_add_free(base, (uint64_t)ech_tree_iter_key(it), bytes, out);
    }
}

const EchAllocClass ech_alloc_buddy = {
    .name = "buddy",
    .summary = "binary buddies over one range",
    .source = "Knowlton, CACM 8(10), 1965",
    .size = sizeof(Buddy),
    .params = params,
    .init = buddy_init,
    .done = buddy_done,
    .alloc = buddy_alloc,
    .release = buddy_release,
    .walk_free = buddy_walk,
};
