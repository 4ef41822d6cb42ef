/* Address-ordered best fit over one range: the smallest free chunk that is large enough, the lowest address among equals. */
#include "models/alloc/chunks.h"
#include "models/alloc/range.h"
#include "models/alloc/tree.h"

typedef struct {
    EchAllocator base;
    EchBytes limit, alignment;
    EchChunks chunks;
    EchTree free; /* (bytes, address) */
} BestFit;

static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(BestFit, limit), NULL, NULL, NULL, NULL, "bytes of the range; the device's capacity if not given"},
    {"alignment", ECH_PARAM_BYTES, offsetof(BestFit, alignment), "256", "1", "1GiB", NULL, "sizes are rounded up to a multiple of it"},
    {0},
};

static void put(BestFit *self, uint32_t at)
{
    const EchChunk *chunk = &self->chunks.items[at];
    ech_tree_insert(&self->free, ech_tree_key(chunk->bytes, chunk->address), at);
}

static void pull(void *data, uint32_t at)
{
    BestFit *self = data;
    const EchChunk *chunk = &self->chunks.items[at];
    ech_tree_remove(&self->free, ech_tree_key(chunk->bytes, chunk->address));
}

static bool best_fit_init(EchAllocator *base, GError **error)
{
    (void)error;
    BestFit *self = (BestFit *)base;
    ech_range_init(base, &self->limit, self->alignment);
    if (self->limit)
        put(self, ech_chunks_add(&self->chunks, 0, self->limit, 0));
    return true;
}

static void best_fit_done(EchAllocator *base)
{
    BestFit *self = (BestFit *)base;
    ech_chunks_clear(&self->chunks);
    ech_tree_clear(&self->free);
}

static bool best_fit_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    BestFit *self = (BestFit *)base;
    EchBytes bytes = ech_round_up(request->bytes, self->alignment);
    if (bytes < request->bytes)
        return false;
    EchTreeIter it = ech_tree_lower_bound(&self->free, ech_tree_key(bytes, 0));
    EchBytes most = ech_range_most(base); /* the last chunk may reach past it */
    while (it.leaf && self->chunks.items[ech_tree_iter_value(it)].address + bytes > most)
        it = ech_tree_next(it);
    if (!it.leaf)
        return false;
    uint32_t at = ech_tree_iter_value(it);
    ech_tree_remove_at(&self->free, it);
    if (self->chunks.items[at].bytes > bytes)
        put(self, ech_chunks_split(&self->chunks, at, bytes));
    self->chunks.items[at].used = 1;
    live->handle = at;
    ech_range_place(base, self->chunks.items[at].address, bytes, live, ret);
    return true;
}

static void best_fit_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    BestFit *self = (BestFit *)base;
    put(self, ech_chunks_free(&self->chunks, live->handle, pull, self));
}

static EchBytes best_fit_largest(const EchAllocator *base)
{
    const BestFit *self = (const BestFit *)base;
    EchBytes largest = 0, end = base->stats.reserved;
    unsigned seen = 0;
    /* Only the last chunk can reach past what is reserved, so the second largest decides if that one does. */
    for (EchTreeIter it = ech_tree_last(&self->free); it.leaf && seen < 2; it = ech_tree_prev(it), seen++) {
        const EchChunk *chunk = &self->chunks.items[ech_tree_iter_value(it)];
        if (chunk->address < end)
            largest = MAX(largest, MIN(chunk->bytes, end - chunk->address));
    }
    return largest;
}

static void best_fit_walk(const EchAllocator *base, GArray *out)
{
    const BestFit *self = (const BestFit *)base;
    for (EchTreeIter it = ech_tree_first(&self->free); it.leaf; it = ech_tree_next(it)) {
        const EchChunk *chunk = &self->chunks.items[ech_tree_iter_value(it)];
        ech_range_add_free(base, chunk->address, chunk->bytes, out);
    }
}

const EchAllocClass ech_alloc_best_fit = {
    .name = "best_fit",
    .summary = "address-ordered best fit over one range",
    .source = "Knuth, The Art of Computer Programming 1, 2.5",
    .size = sizeof(BestFit),
    .params = params,
    .init = best_fit_init,
    .done = best_fit_done,
    .alloc = best_fit_alloc,
    .release = best_fit_release,
    .largest_free = best_fit_largest,
    .walk_free = best_fit_walk,
};
