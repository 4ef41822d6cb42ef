/* Address-ordered best fit over one range: the smallest free chunk that is large enough, the lowest address among equals. */
#include "models/alloc/chunks.h"
#include "models/alloc/class.h"
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

static void pull(BestFit *self, uint32_t at)
{
    const EchChunk *chunk = &self->chunks.items[at];
    ech_tree_remove(&self->free, ech_tree_key(chunk->bytes, chunk->address));
}

static bool best_fit_init(EchAllocator *base, GError **error)
{
    (void)error;
    BestFit *self = (BestFit *)base;
    if (self->limit == 0 || self->limit > base->limit)
        self->limit = base->limit;
    self->limit -= self->limit % self->alignment;
    base->limit = self->limit;
    base->n_segments = 1;
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
    if (!it.leaf)
        return false;
    uint32_t at = ech_tree_iter_value(it);
    ech_tree_remove_at(&self->free, it);
    if (self->chunks.items[at].bytes > bytes)
        put(self, ech_chunks_split(&self->chunks, at, bytes));
    EchChunk *chunk = &self->chunks.items[at];
    chunk->used = 1;
    if (chunk->address + bytes > base->stats.reserved)
        ech_alloc_count_reserved(base, chunk->address + bytes - base->stats.reserved, 0);
    live->address = ret->offset = chunk->address;
    live->rounded = bytes;
    live->handle = at;
    live->segment = 0;
    return true;
}

static void best_fit_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    BestFit *self = (BestFit *)base;
    EchChunk *items = self->chunks.items;
    uint32_t at = live->handle;
    items[at].used = 0;
    uint32_t next = items[at].next, prev = items[at].prev;
    if (next && !items[next].used) {
        pull(self, next);
        ech_chunks_absorb_next(&self->chunks, at);
    }
    if (prev && !items[prev].used) {
        pull(self, prev);
        ech_chunks_absorb_next(&self->chunks, prev);
        at = prev;
    }
    put(self, at);
}

/* Only what lies below the high-water mark counts as reserved. */
static EchBytes reserved_part(const EchAllocator *base, const EchChunk *chunk)
{
    EchBytes end = base->stats.reserved;
    return chunk->address >= end ? 0 : MIN(chunk->bytes, end - chunk->address);
}

static EchBytes best_fit_largest(const EchAllocator *base)
{
    const BestFit *self = (const BestFit *)base;
    EchBytes largest = 0;
    unsigned seen = 0;
    /* Only the last chunk can reach past the mark, so the second largest decides if that one does. */
    for (EchTreeIter it = ech_tree_last(&self->free); it.leaf && seen < 2; it = ech_tree_prev(it), seen++)
        largest = MAX(largest, reserved_part(base, &self->chunks.items[ech_tree_iter_value(it)]));
    return largest;
}

static void best_fit_walk(const EchAllocator *base, GArray *out)
{
    const BestFit *self = (const BestFit *)base;
    for (EchTreeIter it = ech_tree_first(&self->free); it.leaf; it = ech_tree_next(it)) {
        const EchChunk *chunk = &self->chunks.items[ech_tree_iter_value(it)];
        EchAllocBlock block = {.state = ECH_BLOCK_FREE, .address = chunk->address, .bytes = reserved_part(base, chunk), .id = UINT32_MAX};
        if (block.bytes)
            g_array_append_val(out, block);
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
