/* Expandable segments: pages mapped into a reservation of addresses as requests need them (CUDACachingAllocator.cpp, "CCA", of PyTorch 2.6.0). */
#include "models/alloc/pytorch_private.h"

/* Maps the first @bytes bytes of an unmapped block, whole pages; the block then is free and in the set (CCA:2239-2394). */
static bool map_block(PyTorch *self, uint32_t at, EchBytes bytes)
{
    Block block = self->blocks[at];
    const Segment *segment = &self->segments[block.segment];
    EchBytes whole = ech_round_up(bytes, segment->page);
    if (!ech_device_memory_map(&self->base.memory, segment->page, whole / segment->page))
        return false;
    ech_alloc_count_reserved(&self->base, whole, 0);
    pull_unmapped(self, at);
    self->blocks[at].mapped = true;
    if (whole < block.bytes) {
        Block rest = {.address = block.address + whole, .bytes = block.bytes - whole, .pool = block.pool, .segment = block.segment};
        put_unmapped(self, ech_pytorch_splice(self, rest, at, block.next));
        self->blocks[at].bytes = whole;
    }
    ech_pytorch_try_merge(self, at, self->blocks[at].prev);
    ech_pytorch_try_merge(self, at, self->blocks[at].next);
    put(self, at);
    self->total += whole;
    count(self, RESERVED_BYTES, self->pools[block.pool].small, (int64_t)whole);
    self->device_allocs++;
    return true;
}

/* Pages wholly inside a free block go back; what is cut off at its ends stays free (CCA:3025-3069). */
static void unmap_block(PyTorch *self, uint32_t at)
{
    Block block = self->blocks[at];
    Segment *segment = &self->segments[block.segment];
    EchBytes offset = block.address - segment->address;
    EchBytes begin = ech_round_up(offset, segment->page), end = (offset + block.bytes) / segment->page * segment->page;
    if (begin >= end)
        return;
    EchBytes bytes = end - begin, before = begin - offset, after = offset + block.bytes - end;
    pull(self, at);
    ech_device_memory_unmap(&self->base.memory, segment->page, bytes / segment->page);
    ech_alloc_count_reserved(&self->base, 0, bytes);
    if (before) {
        Block piece = {.address = block.address, .bytes = before, .pool = block.pool, .segment = block.segment, .mapped = true};
        put(self, ech_pytorch_splice(self, piece, self->blocks[at].prev, at));
    }
    if (after) {
        Block piece = {.address = block.address + before + bytes, .bytes = after, .pool = block.pool, .segment = block.segment, .mapped = true};
        put(self, ech_pytorch_splice(self, piece, at, self->blocks[at].next));
    }
    self->blocks[at].address = block.address + before;
    self->blocks[at].bytes = bytes;
    self->blocks[at].mapped = false;
    ech_pytorch_try_merge(self, at, self->blocks[at].prev);
    ech_pytorch_try_merge(self, at, self->blocks[at].next);
    put_unmapped(self, at);
    self->total -= bytes;
    count(self, RESERVED_BYTES, self->pools[block.pool].small, -(int64_t)bytes);
    self->device_frees++;
    ech_pytorch_count_given(self, block.pool, true);
}

/* The same, and a reservation without pages goes too (CCA:3061-3066). False where the block has no whole page. */
bool ech_pytorch_unmap(PyTorch *self, uint32_t at)
{
    unmap_block(self, at);
    if (self->blocks[at].mapped)
        return false;
    if (!is_split(&self->blocks[at])) {
        pull_unmapped(self, at);
        ech_pytorch_drop_segment(self, self->blocks[at].segment);
        ech_pytorch_drop_block(self, at);
        self->base.stats.segments_freed++;
    }
    return true;
}

static uint32_t find_expandable_block(PyTorch *self, uint32_t pool, EchBytes size)
{
    for (EchTreeIter it = ech_tree_first(&self->pools[pool].unmapped); it.leaf; it = ech_tree_next(it)) {
        uint32_t at = ech_tree_iter_value(it), prev = self->blocks[at].prev;
        if (prev && allocatable(&self->blocks[prev]))
            at = prev;
        EchBytes bytes = 0;
        for (uint32_t c = at; bytes < size && c && allocatable(&self->blocks[c]); c = self->blocks[c].next)
            bytes += self->blocks[c].bytes;
        if (bytes >= size)
            return at;
    }
    if (self->base.memory.n_reservations == UINT16_MAX)
        return 0; /* the top 16 bits of an address are its reservation's number */
    EchBytes page = self->pools[pool].small ? ECH_PYTORCH_SMALL_BUFFER : self->conf.large_buffer;
    /* Also for a request that it is too small for: the reservation is made, all of it cannot be mapped, and it stays (CCA:2239-2294, 2371-2376); since 2.15
     * it is given up at once. */
    Segment segment = {.bytes = ech_round_up(self->reserve, page), .page = page};
    uint32_t reservation;
    segment.address = ech_device_memory_reserve(&self->base.memory, self->pools[pool].stream, self->pools[pool].small, &reservation);
    if (segment.bytes < size && (self->conf.release >= 15 || self->conf.reserve > 0))
        return 0;
    segment.reservation = (int32_t)reservation;
    segment.number = self->base.n_segments++;
    self->base.stats.segments_allocated++;
    Block block = {.address = segment.address, .bytes = segment.bytes, .pool = pool, .segment = ech_pytorch_new_segment(self, segment)};
    uint32_t at = ech_pytorch_new_block(self, block);
    put_unmapped(self, at);
    return at;
}

uint32_t ech_pytorch_allocate_expandable(PyTorch *self, uint32_t pool, EchBytes size)
{
    uint32_t at = find_expandable_block(self, pool, size);
    if (!at || (!self->blocks[at].mapped && !map_block(self, at, MIN(self->blocks[at].bytes, size))))
        return 0;
    while (self->blocks[at].bytes < size) {
        uint32_t next = self->blocks[at].next;
        if (!map_block(self, next, MIN(size - self->blocks[at].bytes, self->blocks[next].bytes)))
            return 0;
        at = next;
    }
    pull(self, at);
    return at;
}
