/* Size-class slabs: a request takes a slot of its class in a slab of one device range; the slab with room at the lowest address serves first,
 * its lowest free slot first. Empty slabs go back to the device. What is larger than an eighth of a slab gets a range of its own.
 * Classes: four per power of two, as in jemalloc. */
#include "models/alloc/class.h"
#include "models/alloc/tree.h"
#include "sim/base/error.h"

typedef struct {
    uint64_t address;
    EchBytes bytes;                       /* 0: spare, next is the next one + 1 */
    EchBytes slot;                        /* 0: one large allocation */
    uint64_t *used;                       /* a bit per slot */
    uint32_t n_slots, n_used, first_free; /* first_free: no free slot below */
    uint32_t class_, number, next;
} Slab;

typedef struct {
    EchAllocator base;
    EchBytes slab_bytes, smallest;
    Slab *slabs;
    uint32_t n_slabs, spare;
    EchTree with_room; /* (class, address) */
} SlabAllocator;

static const EchParam params[] = {
    {"slab", ECH_PARAM_BYTES, offsetof(SlabAllocator, slab_bytes), "2MiB", "4KiB", "1GiB", NULL, "bytes of a slab; whole granules of the device are best"},
    {"smallest", ECH_PARAM_BYTES, offsetof(SlabAllocator, smallest), "256", "16", "1MiB", NULL, "bytes of the smallest class; a power of two"},
    {0},
};

static bool slab_init(EchAllocator *base, GError **error)
{
    SlabAllocator *self = (SlabAllocator *)base;
    if (self->smallest & (self->smallest - 1)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "smallest: '%" G_GUINT64_FORMAT "' is no power of two", self->smallest);
        return false;
    }
    if (self->smallest > self->slab_bytes) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "smallest: '%" G_GUINT64_FORMAT "' is more than a slab of %" G_GUINT64_FORMAT " bytes holds",
                    self->smallest, self->slab_bytes);
        return false;
    }
    return true;
}

static void slab_done(EchAllocator *base)
{
    SlabAllocator *self = (SlabAllocator *)base;
    for (uint32_t i = 0; i < self->n_slabs; i++)
        g_free(self->slabs[i].used);
    g_free(self->slabs);
    ech_tree_clear(&self->with_room);
}

/* Number of a class and its slot size: smallest, then 5/4, 6/4, 7/4, 8/4 of each power. */
static uint32_t class_of(const SlabAllocator *self, EchBytes bytes, EchBytes *ret_slot)
{
    if (bytes <= self->smallest) {
        *ret_slot = self->smallest;
        return 0;
    }
    unsigned power = 63u - (unsigned)__builtin_clzll(bytes - 1); /* 2^power < bytes <= 2^(power+1) */
    EchBytes base = UINT64_C(1) << power, step = MAX(base / 4, (EchBytes)1);
    EchBytes slot = base + (bytes - base + step - 1) / step * step;
    *ret_slot = slot;
    return 4 * power + (uint32_t)((slot - base) / step);
}

static uint32_t new_slab(SlabAllocator *self, EchBytes bytes, EchBytes slot, uint32_t class_)
{
    uint64_t address;
    uint32_t number, at;
    if (!ech_alloc_take_segment(&self->base, bytes, &address, &number))
        return UINT32_MAX;
    if (self->spare) {
        at = self->spare - 1;
        self->spare = self->slabs[at].next;
    } else {
        at = self->n_slabs++;
        if ((at & (at - 1)) == 0)
            self->slabs = g_renew(Slab, self->slabs, at ? at * 2 : 2);
    }
    Slab slab = {.address = address, .bytes = bytes, .slot = slot, .class_ = class_, .number = number};
    if (slot) {
        slab.n_slots = (uint32_t)(bytes / slot);
        slab.used = g_new0(uint64_t, slab.n_slots / 64 + 1);
        ech_tree_insert(&self->with_room, ech_tree_key(class_, address), at);
    }
    self->slabs[at] = slab;
    return at;
}

static bool slab_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    SlabAllocator *self = (SlabAllocator *)base;
    if (request->bytes > base->limit)
        return false;
    EchBytes slot = 0;
    uint32_t at = UINT32_MAX;
    if (request->bytes > self->slab_bytes / 8) {
        at = new_slab(self, ech_round_up(request->bytes, self->base.memory.granule), 0, 0);
        if (at == UINT32_MAX)
            return false;
        live->rounded = self->slabs[at].bytes;
        live->address = self->slabs[at].address;
        ret->offset = 0;
    } else {
        uint32_t class_ = class_of(self, request->bytes, &slot);
        EchTreeIter it = ech_tree_lower_bound(&self->with_room, ech_tree_key(class_, 0));
        at = it.leaf && (uint64_t)(ech_tree_iter_key(it) >> 64) == class_ ? ech_tree_iter_value(it) : new_slab(self, self->slab_bytes, slot, class_);
        if (at == UINT32_MAX)
            return false;
        Slab *slab = &self->slabs[at];
        g_assert(slab->used); /* cut into slots */
        uint32_t word = slab->first_free / 64;
        while (slab->used[word] == UINT64_MAX)
            word++;
        uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(~slab->used[word]);
        slab->used[word] |= UINT64_C(1) << index % 64;
        slab->first_free = index + 1;
        if (++slab->n_used == slab->n_slots)
            ech_tree_remove(&self->with_room, ech_tree_key(class_, slab->address));
        live->rounded = slot;
        live->address = slab->address + index * slot;
        ret->offset = index * slot;
    }
    live->handle = at;
    live->segment = self->slabs[at].number;
    return true;
}

static void slab_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    SlabAllocator *self = (SlabAllocator *)base;
    Slab *slab = &self->slabs[live->handle];
    if (slab->slot) {
        uint32_t index = (uint32_t)((live->address - slab->address) / slab->slot);
        slab->used[index / 64] &= ~(UINT64_C(1) << index % 64);
        slab->first_free = MIN(slab->first_free, index);
        if (slab->n_used-- == slab->n_slots)
            ech_tree_insert(&self->with_room, ech_tree_key(slab->class_, slab->address), live->handle);
        if (slab->n_used > 0)
            return;
        ech_tree_remove(&self->with_room, ech_tree_key(slab->class_, slab->address));
    }
    ech_alloc_give_segment(base, slab->address, slab->bytes);
    g_free(slab->used);
    *slab = (Slab){.next = self->spare};
    self->spare = live->handle + 1;
}

/* Runs of free slots; the rest behind the last slot counts as free too. */
static void slab_walk(const EchAllocator *base, GArray *out)
{
    const SlabAllocator *self = (const SlabAllocator *)base;
    for (uint32_t i = 0; i < self->n_slabs; i++) {
        const Slab *slab = &self->slabs[i];
        EchBytes end = slab->slot ? slab->bytes : 0;
        for (EchBytes at = 0; at < end;) {
            uint32_t index = (uint32_t)(at / slab->slot);
            if (index < slab->n_slots && (slab->used[index / 64] >> index % 64 & 1)) {
                at += slab->slot;
                continue;
            }
            EchBytes from = at;
            while (index < slab->n_slots && !(slab->used[index / 64] >> index % 64 & 1))
                index++;
            at = index == slab->n_slots ? slab->bytes : index * slab->slot;
            EchAllocBlock block = {.segment = slab->number, .state = ECH_BLOCK_FREE, .address = slab->address + from, .bytes = at - from, .id = UINT32_MAX};
            g_array_append_val(out, block);
        }
    }
}

/* No block is usable beyond its slot: the largest slot with room. */
static EchBytes slab_largest(const EchAllocator *base)
{
    const SlabAllocator *self = (const SlabAllocator *)base;
    EchTreeIter it = ech_tree_last(&self->with_room);
    return it.leaf ? self->slabs[ech_tree_iter_value(it)].slot : 0;
}

const EchAllocClass ech_alloc_slab = {
    .name = "slab",
    .summary = "size-class slabs, large requests straight from the device",
    .source = "Bonwick, USENIX 1994; classes as in jemalloc",
    .size = sizeof(SlabAllocator),
    .params = params,
    .init = slab_init,
    .done = slab_done,
    .alloc = slab_alloc,
    .release = slab_release,
    .largest_free = slab_largest,
    .walk_free = slab_walk,
};
