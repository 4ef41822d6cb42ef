/* Start states: a recording of PyTorch's caching allocator that begins mid-run is laid out as its first state was. */
#include "models/alloc/pytorch_private.h"
#include "sim/base/error.h"

static bool seed_error(GError **error, const EchSeedBlock *block, const char *what)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "start state: block at 0x%" G_GINT64_MODIFIER "x: %s", block->address, what);
    return false;
}

/* A block of the start state, after @prev in its segment. */
static uint32_t seed_block(PyTorch *self, const EchSeedBlock *seed, uint32_t pool, uint32_t segment, uint32_t prev)
{
    bool small = seed->small_pool;
    Block block = {.address = seed->address, .bytes = seed->bytes, .requested = seed->requested, .pool = pool, .segment = segment, .mapped = true};
    block.allocated = seed->id != UINT32_MAX;
    uint32_t at = ech_pytorch_splice(self, block, prev, 0);
    if (!block.allocated)
        return at;
    self->pools[pool].n_allocated++;
    count(self, ALLOCATION, small, 1);
    count(self, ALLOCATED_BYTES, small, (int64_t)block.bytes);
    count(self, ACTIVE, small, 1);
    count(self, ACTIVE_BYTES, small, (int64_t)block.bytes);
    count(self, REQUESTED_BYTES, small, (int64_t)block.requested);
    if (block.bytes >= self->conf.max_split)
        stat_add(&self->oversize_allocations, 1);
    return at;
}

/* A segment of the start state that is being laid out. Mapped ranges of one stream and pool are ranges of one reservation, which has room for an eighth more
 * than the device's memory: it goes on growing behind its last range, and into the holes between them. */
typedef struct {
    uint32_t slot, pool, last; /* last: its last block so far, 0 for none */
    uint64_t end;              /* of that */
    bool open, grows;
} Seeding;

static bool seed_take(PyTorch *self, const EchSeedBlock *first, const Segment *segment, GError **error)
{
    EchAllocator *base = &self->base;
    if (first->segment_bytes > base->memory.capacity - base->memory.used)
        return seed_error(error, first, "the device's memory is smaller than what was recorded; expected a larger --capacity");
    if (segment->page) {
        if (!ech_device_memory_map(&base->memory, segment->page, first->segment_bytes / segment->page))
            return seed_error(error, first, "cannot be mapped");
    } else {
        if (!ech_device_memory_take_at(&base->memory, first->segment_address, first->segment_bytes))
            return seed_error(error, first, "overlaps another segment");
        count(self, SEGMENT, first->small_pool, 1);
        if (first->segment_bytes >= self->conf.max_split)
            stat_add(&self->oversize_segments, 1);
    }
    ech_alloc_count_reserved(base, first->segment_bytes, 0);
    self->total += first->segment_bytes;
    count(self, RESERVED_BYTES, first->small_pool, (int64_t)first->segment_bytes);
    return true;
}

/* The unmapped rest of a reservation up to @end. */
static void seed_hole(PyTorch *self, Seeding *seeding, uint64_t end)
{
    if (end <= seeding->end)
        return;
    Block hole = {.address = seeding->end, .bytes = end - seeding->end, .pool = seeding->pool, .segment = seeding->slot};
    seeding->last = ech_pytorch_splice(self, hole, seeding->last, 0);
    seeding->end = end;
}

/* The segment is complete; no other begins before @limit. */
static void seed_close(PyTorch *self, Seeding *seeding, uint64_t limit)
{
    if (!seeding->open)
        return;
    Segment *segment = &self->segments[seeding->slot];
    bool small = self->pools[seeding->pool].small;
    if (seeding->grows) {
        segment->bytes = MIN(segment->bytes, (limit - segment->address) / segment->page * segment->page);
        seed_hole(self, seeding, segment->address + segment->bytes);
    }
    for (uint32_t block = seeding->last; block; block = self->blocks[block].prev) {
        if (!self->blocks[block].mapped) {
            put_unmapped(self, block);
        } else if (!self->blocks[block].allocated) {
            put(self, block);
            if (is_split(&self->blocks[block]) && !seeding->grows) {
                count(self, INACTIVE_SPLIT, small, 1);
                count(self, INACTIVE_SPLIT_BYTES, small, (int64_t)self->blocks[block].bytes);
            }
        }
    }
    seeding->open = false;
}

/* Begins the segment of @first, or goes on in the reservation that is open. */
static bool seed_open(PyTorch *self, Seeding *seeding, const EchSeedBlock *first, GError **error)
{
    EchAllocator *base = &self->base;
    EchBytes page = first->small_pool ? ECH_PYTORCH_SMALL_BUFFER : self->conf.large_buffer;
    uint32_t pool = ech_pytorch_pool_of(self, first->stream, first->small_pool, first->private_pool, false);
    bool grows = first->expandable && first->segment_bytes % page == 0;
    self->pools[pool].mallocs += grows ? INT32_MAX : 1; /* how many requests mapped the pages is not known: never forgotten */
    if (first->address != first->segment_address || first->segment_bytes == 0 || first->segment_bytes > UINT64_MAX - first->segment_address)
        return seed_error(error, first, "does not begin its segment");
    if (seeding->open) {
        const Segment *open = &self->segments[seeding->slot];
        bool inside = first->segment_address >= seeding->end && (first->segment_address - open->address) % page == 0 &&
                      first->segment_address + first->segment_bytes - open->address <= open->bytes;
        if (seeding->grows && grows && seeding->pool == pool && inside) {
            seed_hole(self, seeding, first->segment_address);
            return seed_take(self, first, open, error);
        }
        seed_close(self, seeding, MAX(first->segment_address, seeding->end));
    }
    Segment segment = {.address = first->segment_address, .bytes = first->segment_bytes, .page = grows ? page : 0, .reservation = -1};
    if (grows)
        segment.bytes = MIN(MAX(ech_round_up(self->reserve, page), segment.bytes), (UINT64_MAX - segment.address) / page * page);
    if (!seed_take(self, first, &segment, error))
        return false;
    segment.number = base->n_segments++;
    base->stats.segments_allocated++;
    *seeding = (Seeding){.slot = ech_pytorch_new_segment(self, segment), .pool = pool, .end = first->segment_address, .open = true, .grows = grows};
    return true;
}

/* The blocks of the range that blocks[0] begins; *ret_n of the n. */
static bool seed_blocks(PyTorch *self, Seeding *seeding, const EchSeedBlock *blocks, size_t n, size_t *ret_n, GError **error)
{
    const EchSeedBlock *first = &blocks[0];
    uint64_t at = first->address;
    size_t i = 0;
    for (; i < n && blocks[i].segment_address == first->segment_address; i++) {
        if (blocks[i].address != at || blocks[i].bytes == 0 || blocks[i].bytes > first->segment_bytes - (at - first->segment_address))
            return seed_error(error, &blocks[i], "the blocks of a segment do not tile it");
        at += blocks[i].bytes;
        seeding->last = seed_block(self, &blocks[i], seeding->pool, seeding->slot, seeding->last);
        if (blocks[i].id == UINT32_MAX)
            continue;
        EchLive live = {.requested = blocks[i].requested,
                        .rounded = blocks[i].bytes,
                        .address = blocks[i].address,
                        .handle = seeding->last,
                        .segment = self->segments[seeding->slot].number};
        if (!ech_alloc_seed_live(&self->base, blocks[i].id, &live))
            return seed_error(error, &blocks[i], "its id is given twice");
    }
    if (at - first->segment_address != first->segment_bytes)
        return seed_error(error, first, "the blocks of its segment do not tile it");
    seeding->end = at;
    *ret_n = i;
    return true;
}

bool ech_pytorch_seed(EchAllocator *base, const EchSeedBlock *blocks, size_t n, GError **error)
{
    PyTorch *self = (PyTorch *)base;
    Seeding seeding = {0};
    for (size_t i = 0; i < n;) {
        size_t read;
        if (!seed_open(self, &seeding, &blocks[i], error) || !seed_blocks(self, &seeding, &blocks[i], n - i, &read, error))
            return false;
        i += read;
    }
    seed_close(self, &seeding, UINT64_MAX);
    return true;
}
