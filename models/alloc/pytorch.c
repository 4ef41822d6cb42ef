/* PyTorch's CUDA caching allocator, release 2.6.0 and the settings of later ones.
 *
 * Free blocks are kept per (pool, stream) in a tree by (bytes, address), because blocks never change streams; what walks "the whole
 * pool in order" in the original does not depend on the order between streams. Facts: c10/cuda/CUDACachingAllocator.cpp ("CCA") and
 * CUDAAllocatorConfig.cpp ("CFG") of PyTorch 2.6.0. */
#include "models/alloc/pytorch.h"
#include "models/alloc/class.h"
#include "models/alloc/tree.h"
#include "sim/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* CCA:121-128. */
static const EchBytes MIN_BLOCK = 512;
static const EchBytes SMALL_SIZE = UINT64_C(1) << 20;
static const EchBytes SMALL_BUFFER = UINT64_C(2) << 20;
static const EchBytes MIN_LARGE = UINT64_C(10) << 20;
static const EchBytes ROUND_LARGE = UINT64_C(2) << 20;
static const EchBytes MIB = UINT64_C(1) << 20;
enum { N_DIVISIONS = 16 };

typedef struct {
    uint64_t address;
    EchBytes bytes;
    EchBytes requested;
    uint64_t gc_base;    /* the pool's calls when it was last put into the free set */
    uint32_t prev, next; /* neighbours in the segment, 0 none; next also links spare blocks */
    uint32_t pool;       /* of pools */
    uint32_t segment;    /* of segments */
    uint32_t events;     /* outstanding */
    uint32_t uses;       /* list of other streams, 0 none */
    bool allocated, mapped;
} Block;
G_STATIC_ASSERT(sizeof(Block) == 64); /* a cache line, and laid out so */

typedef struct {
    uint64_t address; /* of the range or the reservation */
    EchBytes bytes;   /* 0: slot is spare, number is the next one + 1 */
    EchBytes page;    /* 0: cudaMalloc */
    uint32_t number;
    int32_t reservation;
} Segment;

/* Free blocks of one stream in one of the two pools. */
typedef struct {
    uint32_t stream;
    bool small;
    EchTree free;     /* (bytes, address) */
    EchTree unmapped; /* (address, 0) */
} Pool;

/* Events of one stream, oldest first: items[head..n), of which those below done are complete. */
typedef struct {
    uint32_t stream;
    uint32_t head, done, n, allocated;
    uint32_t *blocks;
    uint32_t next_ready; /* while ready: number of the next ready one + 1 */
    bool ready;          /* some are complete and not yet processed */
} Events;

typedef struct {
    uint32_t stream, next;
} Use;

typedef struct {
    int64_t current, peak, allocated, freed;
} Stat;

typedef enum {
    ALLOCATION,
    SEGMENT,
    ACTIVE,
    INACTIVE_SPLIT,
    ALLOCATED_BYTES,
    RESERVED_BYTES,
    ACTIVE_BYTES,
    INACTIVE_SPLIT_BYTES,
    REQUESTED_BYTES,
    N_STATS
} StatKind;
static const char *const stat_names[N_STATS] = {
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes"};

typedef struct {
    EchAllocator base;
    /* Settings. */
    EchBytes max_split, max_non_split_rounding, large_buffer;
    double gc_threshold, fraction;
    bool expandable, has_fraction, non_split_given;
    GString *idle, *native; /* while settings are read: those that change no placement, and those of the native allocator; "a, b" */
    uint32_t divisions[N_DIVISIONS];
    EchBytes allowed;
    /* State. */
    Block *blocks;
    uint32_t n_blocks, allocated_blocks, spare_block;
    Segment *segments;
    uint32_t n_segments, spare_segment; /* spare: slot + 1 */
    Pool *pools;
    uint32_t n_pools, last_pool[2];
    EchTree pool_index; /* (stream, small) to a number of pools */
    Events *events;
    uint32_t n_events, first_ready; /* ready: number + 1 */
    EchTree event_index;            /* (stream, 0) */
    Use *uses;
    uint32_t n_uses, allocated_uses, spare_use;
    uint64_t calls[2];      /* get_free_block calls: large, small */
    EchBytes total;         /* total_allocated_memory: of all segments and mapped pages */
    Stat stats[N_STATS][3]; /* all, small, large */
    Stat oversize_allocations, oversize_segments;
    int64_t retries, ooms, syncs, device_allocs, device_frees, rejections;
} PyTorch;

/* ---- statistics ---- */

static inline void stat_add(Stat *stat, int64_t n)
{
    stat->current += n;
    stat->peak = MAX(stat->peak, stat->current);
    stat->allocated += n;
}

static inline void stat_sub(Stat *stat, int64_t n)
{
    stat->current -= n;
    stat->freed += n;
}

/* Five of them an event: without a branch. */
static inline void stat_change(Stat *stat, int64_t n)
{
    stat->current += n;
    stat->peak = MAX(stat->peak, stat->current);
    stat->allocated += n > 0 ? n : 0;
    stat->freed -= n < 0 ? n : 0;
}

static inline void count(PyTorch *self, StatKind kind, bool small, int64_t n)
{
    stat_change(&self->stats[kind][0], n);
    stat_change(&self->stats[kind][2 - small], n);
}

/* ---- blocks, segments, pools ---- */

static uint32_t new_block(PyTorch *self, Block block)
{
    uint32_t at = self->spare_block;
    if (at) {
        self->spare_block = self->blocks[at].next;
    } else {
        if (self->n_blocks == self->allocated_blocks) {
            self->allocated_blocks = self->allocated_blocks ? self->allocated_blocks * 2 : 256;
            Block *blocks = g_aligned_alloc(self->allocated_blocks, sizeof(Block), sizeof(Block));
            if (self->n_blocks)
                memcpy(blocks, self->blocks, self->n_blocks * sizeof *blocks);
            g_aligned_free(self->blocks);
            self->blocks = blocks;
            if (self->n_blocks == 0)
                self->blocks[self->n_blocks++] = (Block){0};
        }
        at = self->n_blocks++;
    }
    self->blocks[at] = block;
    return at;
}

static void drop_block(PyTorch *self, uint32_t at)
{
    self->blocks[at] = (Block){.next = self->spare_block};
    self->spare_block = at;
}

static uint32_t new_segment(PyTorch *self, Segment segment)
{
    uint32_t at;
    if (self->spare_segment) {
        at = self->spare_segment - 1;
        self->spare_segment = self->segments[at].number;
    } else {
        at = self->n_segments++;
        if ((at & (at - 1)) == 0) /* grow at powers of two */
            self->segments = g_renew(Segment, self->segments, at ? at * 2 : 2);
    }
    self->segments[at] = segment;
    return at;
}

static void drop_segment(PyTorch *self, uint32_t at)
{
    self->segments[at] = (Segment){.number = self->spare_segment};
    self->spare_segment = at + 1;
}

static bool is_expandable(const PyTorch *self, const Block *block)
{
    return self->segments[block->segment].page != 0;
}

static bool is_split(const Block *block)
{
    return block->prev || block->next;
}

static uint32_t pool_of(PyTorch *self, uint32_t stream, bool small)
{
    uint32_t last = self->last_pool[small];
    if (last < self->n_pools && self->pools[last].stream == stream && self->pools[last].small == small)
        return last;
    EchTreeKey key = ech_tree_key(stream, small);
    EchTreeIter it = ech_tree_lower_bound(&self->pool_index, key);
    if (it.leaf && ech_tree_iter_key(it) == key) {
        last = ech_tree_iter_value(it);
    } else {
        last = self->n_pools++;
        if ((last & (last - 1)) == 0)
            self->pools = g_renew(Pool, self->pools, last ? last * 2 : 2);
        self->pools[last] = (Pool){.stream = stream, .small = small};
        ech_tree_insert(&self->pool_index, key, last);
    }
    self->last_pool[small] = last;
    return last;
}

static void put(PyTorch *self, uint32_t at)
{
    Block *block = &self->blocks[at];
    Pool *pool = &self->pools[block->pool];
    block->gc_base = self->calls[pool->small];
    ech_tree_insert(&pool->free, ech_tree_key(block->bytes, block->address), at);
}

static void pull(PyTorch *self, uint32_t at)
{
    const Block *block = &self->blocks[at];
    ech_tree_remove(&self->pools[block->pool].free, ech_tree_key(block->bytes, block->address));
}

static void put_unmapped(PyTorch *self, uint32_t at)
{
    ech_tree_insert(&self->pools[self->blocks[at].pool].unmapped, ech_tree_key(self->blocks[at].address, 0), at);
}

static void pull_unmapped(PyTorch *self, uint32_t at)
{
    ech_tree_remove(&self->pools[self->blocks[at].pool].unmapped, ech_tree_key(self->blocks[at].address, 0));
}

static bool allocatable(const Block *block)
{
    return !block->allocated && block->events == 0 && block->uses == 0;
}

/* Joins @from, a neighbour of @at or 0, into @at. Its bytes, or 0 where it stays. @at is in no set. */
static EchBytes try_merge(PyTorch *self, uint32_t at, uint32_t from)
{
    Block *blocks = self->blocks, *to = &blocks[at], *other = &blocks[from];
    if (!from || !allocatable(other) || other->mapped != to->mapped)
        return 0;
    if (other->mapped)
        pull(self, from);
    else
        pull_unmapped(self, from);
    if (to->prev == from) {
        to->address = other->address;
        to->prev = other->prev;
        if (to->prev)
            blocks[to->prev].next = at;
    } else {
        to->next = other->next;
        if (to->next)
            blocks[to->next].prev = at;
    }
    EchBytes bytes = other->bytes;
    to->bytes += bytes;
    drop_block(self, from);
    return bytes;
}

/* A new block between @prev and @next (neighbours or 0). */
static uint32_t splice(PyTorch *self, Block block, uint32_t prev, uint32_t next)
{
    block.prev = prev;
    block.next = next;
    uint32_t at = new_block(self, block);
    if (prev)
        self->blocks[prev].next = at;
    if (next)
        self->blocks[next].prev = at;
    return at;
}

/* ---- rounding (CCA:2043-2074, CFG:26-43) ---- */

static unsigned log2_floor(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

static EchBytes round_size(const PyTorch *self, EchBytes bytes)
{
    if (bytes < MIN_BLOCK)
        return MIN_BLOCK;
    int index = CLAMP((int)log2_floor(bytes) - 20, 0, N_DIVISIONS - 1);
    uint32_t divisions = self->divisions[index];
    if (divisions > 1 && bytes > MIN_BLOCK * divisions) {
        if ((bytes & (bytes - 1)) == 0)
            return bytes;
        EchBytes floor = UINT64_C(1) << log2_floor(bytes), step = floor >> log2_floor(divisions);
        return step ? ech_round_up(bytes, step) : floor << 1;
    }
    return (bytes + MIN_BLOCK - 1) & ~(MIN_BLOCK - 1);
}

static EchBytes segment_size(const PyTorch *self, EchBytes size)
{
    if (size <= SMALL_SIZE)
        return SMALL_BUFFER;
    if (size < MIN_LARGE)
        return self->large_buffer;
    return ech_round_up(size, ROUND_LARGE);
}

/* ---- events ---- */

static void free_block(PyTorch *self, uint32_t at)
{
    const Block *block = &self->blocks[at];
    bool small = self->pools[block->pool].small, expandable = is_expandable(self, block);
    EchBytes bytes = block->bytes, requested = block->requested;
    int64_t blocks = 0, split_bytes = 0;
    uint32_t neighbours[2] = {block->prev, block->next};
    for (int i = 0; i < 2; i++) {
        EchBytes joined = try_merge(self, at, neighbours[i]);
        blocks -= joined > 0;
        split_bytes -= (int64_t)joined;
    }
    put(self, at);
    block = &self->blocks[at];
    if (is_split(block)) {
        blocks++;
        split_bytes += (int64_t)block->bytes;
    }
    if (!expandable) {
        count(self, INACTIVE_SPLIT, small, blocks);
        count(self, INACTIVE_SPLIT_BYTES, small, split_bytes);
    }
    count(self, ACTIVE, small, -1);
    count(self, ACTIVE_BYTES, small, -(int64_t)bytes);
    count(self, REQUESTED_BYTES, small, -(int64_t)requested);
}

static Events *events_of(PyTorch *self, uint32_t stream)
{
    EchTreeKey key = ech_tree_key(stream, 0);
    EchTreeIter it = ech_tree_lower_bound(&self->event_index, key);
    if (it.leaf && ech_tree_iter_key(it) == key)
        return &self->events[ech_tree_iter_value(it)];
    uint32_t at = self->n_events++;
    if ((at & (at - 1)) == 0)
        self->events = g_renew(Events, self->events, at ? at * 2 : 2);
    self->events[at] = (Events){.stream = stream};
    ech_tree_insert(&self->event_index, key, at);
    return &self->events[at];
}

static void record_event(PyTorch *self, uint32_t stream, uint32_t block)
{
    Events *events = events_of(self, stream);
    if (events->n == events->allocated) {
        uint32_t waiting = events->n - events->head;
        if (waiting > events->allocated / 2 || events->allocated == 0) {
            events->allocated = events->allocated ? events->allocated * 2 : 16;
            events->blocks = g_renew(uint32_t, events->blocks, events->allocated);
        }
        memmove(events->blocks, events->blocks + events->head, waiting * sizeof *events->blocks);
        events->done -= events->head;
        events->n = waiting;
        events->head = 0;
    }
    events->blocks[events->n++] = block;
}

/* Frees the blocks whose last event is complete. */
static void process_events(PyTorch *self)
{
    while (self->first_ready) {
        Events *events = &self->events[self->first_ready - 1];
        self->first_ready = events->next_ready;
        events->ready = false;
        while (events->head < events->done) {
            uint32_t at = events->blocks[events->head++];
            if (--self->blocks[at].events == 0)
                free_block(self, at);
        }
    }
}

static void complete(PyTorch *self, Events *events)
{
    if (events->n == events->done)
        return;
    events->done = events->n;
    if (events->ready)
        return;
    events->ready = true;
    events->next_ready = self->first_ready;
    self->first_ready = (uint32_t)(events - self->events) + 1;
}

static void synchronize(PyTorch *self)
{
    self->syncs++;
    for (uint32_t i = 0; i < self->n_events; i++)
        complete(self, &self->events[i]);
    process_events(self);
}

static void pytorch_stream_done(EchAllocator *base, uint32_t stream)
{
    PyTorch *self = (PyTorch *)base;
    complete(self, events_of(self, stream));
}

static void pytorch_record_stream(EchAllocator *base, uint32_t id, const EchLive *live, uint32_t stream)
{
    (void)id;
    PyTorch *self = (PyTorch *)base;
    Block *block = &self->blocks[live->handle];
    if (self->pools[block->pool].stream == stream)
        return;
    for (uint32_t use = block->uses; use; use = self->uses[use].next) {
        if (self->uses[use].stream == stream)
            return;
    }
    uint32_t at = self->spare_use;
    if (at) {
        self->spare_use = self->uses[at].next;
    } else {
        if (self->n_uses == self->allocated_uses) {
            self->allocated_uses = self->allocated_uses ? self->allocated_uses * 2 : 64;
            self->uses = g_renew(Use, self->uses, self->allocated_uses);
            if (self->n_uses == 0)
                self->uses[self->n_uses++] = (Use){0};
        }
        at = self->n_uses++;
    }
    self->uses[at] = (Use){stream, block->uses};
    block->uses = at;
}

/* ---- giving memory back ---- */

static void release_block(PyTorch *self, uint32_t at)
{
    Block block = self->blocks[at];
    bool small = self->pools[block.pool].small;
    pull(self, at);
    ech_alloc_give_segment(&self->base, block.address, block.bytes);
    self->total -= block.bytes;
    count(self, SEGMENT, small, -1);
    count(self, RESERVED_BYTES, small, -(int64_t)block.bytes);
    self->device_frees++;
    if (block.bytes >= self->max_split)
        stat_sub(&self->oversize_segments, 1);
    drop_segment(self, block.segment);
    drop_block(self, at);
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
        put(self, splice(self, piece, self->blocks[at].prev, at));
    }
    if (after) {
        Block piece = {.address = block.address + before + bytes, .bytes = after, .pool = block.pool, .segment = block.segment, .mapped = true};
        put(self, splice(self, piece, at, self->blocks[at].next));
    }
    self->blocks[at].address = block.address + before;
    self->blocks[at].bytes = bytes;
    self->blocks[at].mapped = false;
    try_merge(self, at, self->blocks[at].prev);
    try_merge(self, at, self->blocks[at].next);
    put_unmapped(self, at);
    self->total -= bytes;
    count(self, RESERVED_BYTES, self->pools[block.pool].small, -(int64_t)bytes);
    self->device_frees++;
}

static void release_pool(PyTorch *self, bool small)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < self->n_pools; i++) {
        if (self->pools[i].small != small)
            continue;
        g_array_set_size(found, 0);
        for (EchTreeIter it = ech_tree_first(&self->pools[i].free); it.leaf; it = ech_tree_next(it)) {
            uint32_t at = ech_tree_iter_value(it);
            if (is_expandable(self, &self->blocks[at]) || !is_split(&self->blocks[at]))
                g_array_append_val(found, at);
        }
        for (guint j = 0; j < found->len; j++) {
            uint32_t at = g_array_index(found, uint32_t, j);
            if (!is_expandable(self, &self->blocks[at])) {
                release_block(self, at);
                continue;
            }
            unmap_block(self, at);
            if (!is_split(&self->blocks[at]) && !self->blocks[at].mapped) {
                pull_unmapped(self, at);
                drop_segment(self, self->blocks[at].segment);
                drop_block(self, at);
                self->base.stats.segments_freed++;
            }
        }
    }
}

static void release_cached(PyTorch *self)
{
    synchronize(self);
    release_pool(self, false);
    release_pool(self, true);
}

/* Gives back the oversize blocks it takes to make room for @size (CCA:2811-2857). */
static bool release_available(PyTorch *self, uint32_t pool, EchBytes size)
{
    if (self->max_split == UINT64_MAX)
        return false;
    EchTree *tree = &self->pools[pool].free;
    EchBytes wanted = MAX(size, self->max_split), released = 0;
    EchTreeIter it = ech_tree_lower_bound(tree, ech_tree_key(wanted, 0));
    if (it.leaf && !is_expandable(self, &self->blocks[ech_tree_iter_value(it)])) {
        release_block(self, ech_tree_iter_value(it));
        return true;
    }
    EchTreeKey bound = it.leaf ? ech_tree_iter_key(it) : ech_tree_key(UINT64_MAX, UINT64_MAX);
    while (released < wanted) {
        EchTreeIter after = ech_tree_lower_bound(tree, bound);
        EchTreeIter before = after.leaf ? ech_tree_prev(after) : ech_tree_last(tree);
        if (!before.leaf)
            break;
        bound = ech_tree_iter_key(before);
        uint32_t at = ech_tree_iter_value(before);
        EchBytes bytes = self->blocks[at].bytes;
        if (bytes < self->max_split)
            break;
        if (is_expandable(self, &self->blocks[at]))
            continue;
        release_block(self, at);
        released += bytes;
    }
    return released >= wanted;
}

/* CCA:2629-2686. */
static void garbage_collect(PyTorch *self)
{
    EchBytes threshold = (EchBytes)(self->gc_threshold * (double)self->allowed);
    if (self->total <= threshold)
        return;
    EchBytes target = self->total - threshold, reclaimed = 0;
    uint64_t total_age = 0, n = 0;
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < self->n_pools; i++) {
        if (self->pools[i].small)
            continue;
        for (EchTreeIter it = ech_tree_first(&self->pools[i].free); it.leaf; it = ech_tree_next(it)) {
            uint32_t at = ech_tree_iter_value(it);
            if (is_split(&self->blocks[at]))
                continue;
            total_age += self->calls[0] - self->blocks[at].gc_base;
            n++;
            if (!is_expandable(self, &self->blocks[at]))
                g_array_append_val(candidates, at);
        }
    }
    bool freed = n > 0;
    while (reclaimed < target && freed && n > 0) {
        double limit = (double)total_age / (double)n;
        freed = false;
        guint kept = 0;
        for (guint i = 0; i < candidates->len; i++) {
            uint32_t at = g_array_index(candidates, uint32_t, i);
            uint64_t age = self->calls[0] - self->blocks[at].gc_base;
            if ((double)age < limit) {
                g_array_index(candidates, uint32_t, kept++) = at;
                continue;
            }
            freed = true;
            reclaimed += self->blocks[at].bytes;
            total_age -= age;
            n--;
            release_block(self, at);
        }
        g_array_set_size(candidates, kept);
    }
}

/* ---- finding and making blocks ---- */

static EchBytes expandable_size(const PyTorch *self, const Block *block)
{
    EchBytes bytes = block->bytes;
    if (block->next && !self->blocks[block->next].mapped)
        bytes += self->blocks[block->next].bytes;
    return bytes;
}

/* Takes the block out of the free set; 0 if none will do (CCA:2560-2618). */
static uint32_t get_free_block(PyTorch *self, uint32_t pool, EchBytes size)
{
    if (self->has_fraction && self->gc_threshold > 0)
        self->calls[self->pools[pool].small]++;
    EchTree *tree = &self->pools[pool].free;
    EchTreeIter it = ech_tree_lower_bound(tree, ech_tree_key(size, 0));
    if (!it.leaf)
        return 0;
    uint32_t at = ech_tree_iter_value(it);
    if (!self->expandable && is_expandable(self, &self->blocks[at])) {
        /* Segments of a start state from when the option was on. */
        while (it.leaf && is_expandable(self, &self->blocks[ech_tree_iter_value(it)]))
            it = ech_tree_next(it);
        if (!it.leaf)
            return 0;
        at = ech_tree_iter_value(it);
    } else if (is_expandable(self, &self->blocks[at])) {
        for (;;) {
            EchTreeIter next = ech_tree_next(it);
            if (!next.leaf || !is_expandable(self, &self->blocks[at]))
                break;
            uint32_t other = ech_tree_iter_value(next);
            if (expandable_size(self, &self->blocks[other]) >= expandable_size(self, &self->blocks[at]))
                break;
            it = next;
            at = other;
        }
    }
    EchBytes bytes = self->blocks[at].bytes;
    if (size < self->max_split && bytes >= self->max_split)
        return 0;
    if (size >= self->max_split && bytes >= ech_bytes_add(size, self->max_non_split_rounding))
        return 0;
    ech_tree_remove_at(tree, it);
    return at;
}

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
        put_unmapped(self, splice(self, rest, at, block.next));
        self->blocks[at].bytes = whole;
    }
    try_merge(self, at, self->blocks[at].prev);
    try_merge(self, at, self->blocks[at].next);
    put(self, at);
    self->total += whole;
    count(self, RESERVED_BYTES, self->pools[block.pool].small, (int64_t)whole);
    self->device_allocs++;
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
    EchBytes capacity = self->base.memory.capacity, page = self->pools[pool].small ? SMALL_BUFFER : self->large_buffer;
    Segment segment = {.bytes = ech_round_up(capacity + capacity / 8, page), .page = page, .number = self->base.n_segments++};
    if (segment.bytes < size)
        return 0;
    uint32_t reservation;
    segment.address = ech_device_memory_reserve(&self->base.memory, &reservation);
    segment.reservation = (int32_t)reservation;
    self->base.stats.segments_allocated++;
    Block block = {.address = segment.address, .bytes = segment.bytes, .pool = pool, .segment = new_segment(self, segment)};
    uint32_t at = new_block(self, block);
    put_unmapped(self, at);
    return at;
}

static uint32_t allocate_expandable(PyTorch *self, uint32_t pool, EchBytes size)
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

static uint32_t alloc_block(PyTorch *self, uint32_t pool, EchBytes size, bool retry)
{
    EchBytes whole = segment_size(self, size);
    self->retries += retry;
    if (self->has_fraction && ech_bytes_add(self->total, whole) > self->allowed)
        return 0;
    if (self->expandable)
        return allocate_expandable(self, pool, size);
    uint64_t address;
    uint32_t number;
    if (!ech_alloc_take_segment(&self->base, whole, &address, &number))
        return 0;
    bool small = self->pools[pool].small;
    self->total += whole;
    Segment segment = {.address = address, .bytes = whole, .number = number, .reservation = -1};
    Block block = {.address = address, .bytes = whole, .pool = pool, .segment = new_segment(self, segment), .mapped = true};
    count(self, SEGMENT, small, 1);
    count(self, RESERVED_BYTES, small, (int64_t)whole);
    if (whole >= self->max_split)
        stat_add(&self->oversize_segments, 1);
    self->device_allocs++;
    return new_block(self, block);
}

static bool should_split(const PyTorch *self, bool small, EchBytes bytes, EchBytes size)
{
    EchBytes remaining = bytes - size;
    if (small || self->expandable)
        return remaining >= MIN_BLOCK;
    return size < self->max_split && remaining > SMALL_SIZE;
}

static bool pytorch_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    PyTorch *self = (PyTorch *)base;
    if (request->bytes > UINT64_C(1) << 62)
        return false;
    process_events(self);
    EchBytes size = round_size(self, request->bytes);
    bool small = size <= SMALL_SIZE;
    uint32_t pool = pool_of(self, request->stream, small);
    uint32_t at = get_free_block(self, pool, size);
    if (!at) {
        if (self->has_fraction && self->gc_threshold > 0)
            garbage_collect(self);
        at = alloc_block(self, pool, size, false);
        if (!at && release_available(self, pool, size))
            at = alloc_block(self, pool, size, false);
        if (!at) {
            release_cached(self);
            at = alloc_block(self, pool, size, true);
        }
        if (!at) {
            self->ooms++;
            return false;
        }
    }
    bool was_split = is_split(&self->blocks[at]), expandable = is_expandable(self, &self->blocks[at]);
    if (should_split(self, small, self->blocks[at].bytes, size)) {
        Block low = self->blocks[at];
        low.bytes = size;
        uint32_t rest = at;
        at = splice(self, low, low.prev, rest);
        self->blocks[rest].address += size;
        self->blocks[rest].bytes -= size;
        put(self, rest);
        if (was_split && !expandable) {
            count(self, INACTIVE_SPLIT_BYTES, small, -(int64_t)size);
        } else if (!expandable) {
            count(self, INACTIVE_SPLIT_BYTES, small, (int64_t)self->blocks[rest].bytes);
            count(self, INACTIVE_SPLIT, small, 1);
        }
    } else if (was_split && !expandable) {
        count(self, INACTIVE_SPLIT_BYTES, small, -(int64_t)self->blocks[at].bytes);
        count(self, INACTIVE_SPLIT, small, -1);
    }
    Block *block = &self->blocks[at];
    const Segment *segment = &self->segments[block->segment];
    block->allocated = true;
    block->requested = request->bytes;
    count(self, ALLOCATION, small, 1);
    count(self, ALLOCATED_BYTES, small, (int64_t)block->bytes);
    count(self, ACTIVE, small, 1);
    count(self, ACTIVE_BYTES, small, (int64_t)block->bytes);
    count(self, REQUESTED_BYTES, small, (int64_t)block->requested);
    if (block->bytes >= self->max_split)
        stat_add(&self->oversize_allocations, 1);
    live->address = block->address;
    live->rounded = block->bytes;
    live->handle = at;
    live->segment = segment->number;
    ret->offset = block->address - segment->address;
    ret->reservation = segment->reservation;
    return true;
}

static void pytorch_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    PyTorch *self = (PyTorch *)base;
    uint32_t at = live->handle;
    Block *block = &self->blocks[at];
    bool small = self->pools[block->pool].small;
    block->allocated = false;
    count(self, ALLOCATION, small, -1);
    count(self, ALLOCATED_BYTES, small, -(int64_t)block->bytes);
    if (block->bytes >= self->max_split)
        stat_sub(&self->oversize_allocations, 1);
    if (!block->uses) {
        free_block(self, at);
        return;
    }
    for (uint32_t use = block->uses; use;) {
        Use item = self->uses[use];
        record_event(self, item.stream, at);
        block->events++;
        self->uses[use].next = self->spare_use;
        self->spare_use = use;
        use = item.next;
    }
    block->uses = 0;
}

static void pytorch_prefetch(const EchAllocator *base, const EchLive *live, unsigned stage)
{
    const Block *blocks = ((const PyTorch *)base)->blocks, *block = &blocks[live->handle];
    if (stage == 0) {
        __builtin_prefetch(block);
    } else {
        __builtin_prefetch(&blocks[block->prev]);
        __builtin_prefetch(&blocks[block->next]);
    }
}

/* What a recorded allocator gave back to the device (empty_cache, or another process's pressure). */
static bool pytorch_give_back(EchAllocator *base, uint64_t address, EchBytes bytes)
{
    PyTorch *self = (PyTorch *)base;
    process_events(self);
    for (uint32_t i = 0; i < self->n_pools; i++) {
        for (EchTreeIter it = ech_tree_first(&self->pools[i].free); it.leaf; it = ech_tree_next(it)) {
            uint32_t at = ech_tree_iter_value(it);
            const Block *block = &self->blocks[at];
            if (address < block->address || address - block->address >= block->bytes)
                continue;
            if (!is_expandable(self, block)) {
                if (is_split(block))
                    return false;
                release_block(self, at);
                return true;
            }
            /* Pages of a free block: exactly these, if the block is a whole one of them. */
            (void)bytes;
            unmap_block(self, at);
            return !self->blocks[at].mapped;
        }
    }
    return false;
}

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
    uint32_t at = splice(self, block, prev, 0);
    if (!block.allocated)
        return at;
    count(self, ALLOCATION, small, 1);
    count(self, ALLOCATED_BYTES, small, (int64_t)block.bytes);
    count(self, ACTIVE, small, 1);
    count(self, ACTIVE_BYTES, small, (int64_t)block.bytes);
    count(self, REQUESTED_BYTES, small, (int64_t)block.requested);
    return at;
}

static bool pytorch_seed(EchAllocator *base, const EchSeedBlock *blocks, size_t n, GError **error)
{
    PyTorch *self = (PyTorch *)base;
    for (size_t i = 0; i < n;) {
        const EchSeedBlock *first = &blocks[i];
        bool small = first->small_pool;
        uint32_t pool = pool_of(self, first->stream, small), slot;
        Segment segment = {.address = first->segment_address, .bytes = first->segment_bytes, .number = base->n_segments++, .reservation = -1};
        EchBytes page = small ? SMALL_BUFFER : self->large_buffer;
        if (first->address != first->segment_address || first->segment_bytes == 0)
            return seed_error(error, first, "does not begin its segment");
        if (first->segment_bytes > base->memory.capacity - base->memory.used)
            return seed_error(error, first, "the device's memory is smaller than what was recorded; expected a larger --capacity");
        bool expandable = first->expandable && first->segment_bytes % page == 0;
        if (expandable) {
            /* Every mapped range stands for a segment of its own that cannot grow: where its reservation ends is not recorded. */
            segment.page = page;
            if (!ech_device_memory_map(&base->memory, page, first->segment_bytes / page))
                return seed_error(error, first, "cannot be mapped");
            base->stats.segments_allocated++;
        } else {
            if (!ech_device_memory_take_at(&base->memory, first->segment_address, first->segment_bytes))
                return seed_error(error, first, "overlaps another segment");
            base->stats.segments_allocated++;
            count(self, SEGMENT, small, 1);
        }
        ech_alloc_count_reserved(base, first->segment_bytes, 0);
        self->total += first->segment_bytes;
        count(self, RESERVED_BYTES, small, (int64_t)first->segment_bytes);
        slot = new_segment(self, segment);
        uint32_t prev = 0;
        uint64_t at = first->address;
        for (; i < n && blocks[i].segment_address == first->segment_address; i++) {
            if (blocks[i].address != at || blocks[i].bytes == 0 || at + blocks[i].bytes - first->segment_address > first->segment_bytes)
                return seed_error(error, &blocks[i], "the blocks of a segment do not tile it");
            at += blocks[i].bytes;
            prev = seed_block(self, &blocks[i], pool, slot, prev);
            if (blocks[i].id == UINT32_MAX)
                continue;
            EchLive live = {
                .requested = blocks[i].requested, .rounded = blocks[i].bytes, .address = blocks[i].address, .handle = prev, .segment = segment.number};
            if (!ech_alloc_seed_live(base, blocks[i].id, &live))
                return seed_error(error, &blocks[i], "its id is given twice");
        }
        if (at != first->segment_address + first->segment_bytes)
            return seed_error(error, first, "the blocks of its segment do not tile it");
        for (uint32_t block = prev; block; block = self->blocks[block].prev) {
            if (self->blocks[block].allocated)
                continue;
            put(self, block);
            if (is_split(&self->blocks[block]) && !expandable) {
                count(self, INACTIVE_SPLIT, small, 1);
                count(self, INACTIVE_SPLIT_BYTES, small, (int64_t)self->blocks[block].bytes);
            }
        }
    }
    return true;
}

static void pytorch_done(EchAllocator *base)
{
    PyTorch *self = (PyTorch *)base;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        ech_tree_clear(&self->pools[i].free);
        ech_tree_clear(&self->pools[i].unmapped);
    }
    for (uint32_t i = 0; i < self->n_events; i++)
        g_free(self->events[i].blocks);
    ech_tree_clear(&self->pool_index);
    ech_tree_clear(&self->event_index);
    g_free(self->pools);
    g_free(self->events);
    g_aligned_free(self->blocks);
    g_free(self->segments);
    g_free(self->uses);
}

static void pytorch_shape(const EchAllocator *base, EchAllocShape *ret)
{
    const PyTorch *self = (const PyTorch *)base;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        ech_alloc_add_tree(ret, self->pools[i].free.n, self->pools[i].free.height + 1);
        ech_alloc_add_tree(ret, self->pools[i].unmapped.n, self->pools[i].unmapped.height + 1);
    }
}

static EchBytes pytorch_largest(const EchAllocator *base)
{
    const PyTorch *self = (const PyTorch *)base;
    EchBytes largest = 0;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        EchTreeIter it = ech_tree_last(&self->pools[i].free);
        if (it.leaf)
            largest = MAX(largest, self->blocks[ech_tree_iter_value(it)].bytes);
    }
    return largest;
}

static void pytorch_walk(const EchAllocator *base, GArray *out)
{
    const PyTorch *self = (const PyTorch *)base;
    for (uint32_t at = 1; at < self->n_blocks; at++) {
        const Block *block = &self->blocks[at];
        if (!block->mapped || block->allocated)
            continue;
        EchAllocBlock found = {.segment = self->segments[block->segment].number, .address = block->address, .bytes = block->bytes, .id = UINT32_MAX};
        found.state = block->events ? ECH_BLOCK_PENDING : ECH_BLOCK_FREE;
        found.stream = self->pools[block->pool].stream;
        g_array_append_val(out, found);
    }
}

/* torch.cuda.memory_stats' keys (c10/core/CachingDeviceAllocator.h). */
static void add_stat(GArray *out, const char *name, const char *pool, const Stat *stat)
{
    const int64_t values[] = {stat->current, stat->peak, stat->allocated, stat->freed};
    static const char *const fields[] = {"current", "peak", "allocated", "freed"};
    for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
        g_autofree char *key = g_strjoin(".", name, pool ? pool : fields[i], pool ? fields[i] : NULL, NULL);
        ech_alloc_add_stat(out, g_intern_string(key), values[i]);
    }
}

static void pytorch_own_stats(EchAllocator *base, GArray *out)
{
    const PyTorch *self = (const PyTorch *)base;
    static const char *const pools[] = {"all", "small_pool", "large_pool"};
    for (unsigned kind = 0; kind < N_STATS; kind++) {
        for (unsigned pool = 0; pool < 3; pool++)
            add_stat(out, stat_names[kind], pools[pool], &self->stats[kind][pool]);
    }
    add_stat(out, "oversize_allocations", NULL, &self->oversize_allocations);
    add_stat(out, "oversize_segments", NULL, &self->oversize_segments);
    ech_alloc_add_stat(out, "num_alloc_retries", self->retries);
    ech_alloc_add_stat(out, "num_ooms", self->ooms);
    ech_alloc_add_stat(out, "num_sync_all_streams", self->syncs);
    ech_alloc_add_stat(out, "num_device_alloc", self->device_allocs);
    ech_alloc_add_stat(out, "num_device_free", self->device_frees);
    ech_alloc_add_stat(out, "max_split_size", self->max_split == UINT64_MAX ? -1 : (int64_t)self->max_split);
}

/* ---- PYTORCH_CUDA_ALLOC_CONF (CFG:46-346) ---- */

typedef enum {
    SET_MAX_SPLIT,
    SET_NON_SPLIT,
    SET_GC,
    SET_DIVISIONS,
    SET_BACKEND,
    SET_EXPANDABLE,
    SET_FRACTION,
    SET_LARGE_SEGMENT,
    SET_RELEASE,
    /* Accepted: these change no placement of device memory. */
    SET_FLAG,
    SET_THREADS,
    SET_NUMBER,
    SET_ANY,
} Setting;

/* since: 10 * minor of the first release that knows it, for release:2.N; 0: always. */
static const struct {
    const char *name;
    Setting setting;
    unsigned since;
} settings[] = {
    {"max_split_size_mb", SET_MAX_SPLIT, 0},
    {"max_non_split_rounding_mb", SET_NON_SPLIT, 0},
    {"garbage_collection_threshold", SET_GC, 0},
    {"roundup_power2_divisions", SET_DIVISIONS, 0},
    {"backend", SET_BACKEND, 0},
    {"expandable_segments", SET_EXPANDABLE, 0},
    {"release_lock_on_cudamalloc", SET_FLAG, 0},
    {"release_lock_on_hipmalloc", SET_FLAG, 0},
    {"pinned_use_cuda_host_register", SET_FLAG, 0},
    {"pinned_use_hip_host_register", SET_FLAG, 0},
    {"pinned_num_register_threads", SET_THREADS, 0},
    {"pinned_use_background_threads", SET_FLAG, 0},
    /* Later than 2.6 (facts of c10/core/AllocatorConfig.h, main). */
    {"per_process_memory_fraction", SET_FRACTION, 9},
    {"graph_capture_record_stream_reuse", SET_FLAG, 9},
    {"pinned_reserve_segment_size_mb", SET_NUMBER, 9},
    {"large_segment_size_mb", SET_LARGE_SEGMENT, 11},
    {"throw_on_cudamalloc_oom", SET_FLAG, 13},
    {"expandable_segments_reserve", SET_ANY, 13},
    {"expandable_segments_reserve_by_class", SET_ANY, 13},
    {"release", SET_RELEASE, 0},
};

static bool bad(GError **error, const char *name, const char *value, const char *expected)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is not %s", name, value, expected);
    return false;
}

static bool boolean(const char *name, const char *value, bool *ret, GError **error)
{
    bool yes = strcmp(value, "True") == 0 || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!yes && strcmp(value, "False") != 0 && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return bad(error, name, value, "True or False");
    *ret = yes;
    return true;
}

static bool fraction(const char *name, const char *value, bool with_one, double *ret, GError **error)
{
    char *end;
    double number = g_ascii_strtod(value, &end);
    if (end == value || *end || !isfinite(number) || number <= 0 || number > 1 || (number == 1 && !with_one))
        return bad(error, name, value, with_one ? "a fraction in (0, 1]" : "a fraction in (0, 1)");
    *ret = number;
    return true;
}

/* "4", or "[256:1,512:2,>:8]": a key sets its entry, the first key all below it too, '>' everything from the last key on. */
static bool divisions(PyTorch *self, const char *name, const char *value, GError **error)
{
    uint64_t number;
    if (*value != '[') {
        if (!ech_parse_u64(value, &number, NULL) || number == 0 || number > 1u << 30 || (number & (number - 1)))
            return bad(error, name, value, "a power of two, or a list like [256:1,512:2,>:8]");
        for (unsigned i = 0; i < N_DIVISIONS; i++)
            self->divisions[i] = (uint32_t)number;
        return true;
    }
    size_t n = strlen(value);
    if (value[n - 1] != ']')
        return bad(error, name, value, "a list that ends with ]");
    g_autofree char *inside = g_strndup(value + 1, n - 2);
    g_auto(GStrv) items = g_strsplit(inside, ",", -1);
    bool first = true;
    unsigned last = 0;
    for (char **item = items; *item; item++) {
        char *colon = strchr(*item, ':');
        if (!colon || !ech_parse_u64(colon + 1, &number, NULL) || number > 1u << 30 || (number & (number - 1)))
            return bad(error, name, *item, "SIZE:DIVISIONS with a power of two");
        *colon = '\0';
        if (strcmp(*item, ">") == 0) {
            for (unsigned i = last; i < N_DIVISIONS; i++)
                self->divisions[i] = (uint32_t)number;
            continue;
        }
        uint64_t key;
        if (!ech_parse_u64(*item, &key, NULL) || key == 0 || (key & (key - 1)))
            return bad(error, name, *item, "a size in MiB that is a power of two, or >");
        last = MIN(log2_floor(key), (unsigned)N_DIVISIONS - 1);
        for (unsigned i = first ? 0 : last; i <= last; i++)
            self->divisions[i] = (uint32_t)number;
        first = false;
    }
    return true;
}

static bool megabytes(const char *name, const char *value, uint64_t least, EchBytes *ret, GError **error)
{
    uint64_t number;
    if (!ech_parse_u64(value, &number, NULL))
        return bad(error, name, value, "a whole number of MiB, without a unit");
    if (number < least) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is too small; expected at least %" G_GUINT64_FORMAT " (MiB)", name, value, least);
        return false;
    }
    *ret = ech_bytes_mul(number, MIB);
    return true;
}

static bool set_one(PyTorch *self, const char *name, const char *value, unsigned *release, GError **error)
{
    const char *names[G_N_ELEMENTS(settings) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
        names[i] = settings[i].name;
        if (strcmp(settings[i].name, name) != 0)
            continue;
        if (settings[i].since > *release) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is newer than PyTorch 2.%u", name, *release);
            return false;
        }
        bool flag;
        uint64_t number;
        Setting setting = settings[i].setting;
        if (setting >= SET_FLAG)
            g_string_append_printf(self->idle, "%s%s", self->idle->len ? ", " : "", name);
        if (setting != SET_BACKEND && setting != SET_FRACTION && setting != SET_RELEASE)
            g_string_append_printf(self->native, "%s%s", self->native->len ? ", " : "", name);
        switch (settings[i].setting) {
        /* Checked once more when large_segment_size_mb is known. */
        case SET_MAX_SPLIT: return megabytes(name, value, 1, &self->max_split, error);
        case SET_NON_SPLIT: self->non_split_given = true; return megabytes(name, value, 1, &self->max_non_split_rounding, error);
        case SET_LARGE_SEGMENT: return megabytes(name, value, 11, &self->large_buffer, error);
        case SET_GC: return fraction(name, value, false, &self->gc_threshold, error);
        case SET_FRACTION: self->has_fraction = true; return fraction(name, value, true, &self->fraction, error);
        case SET_DIVISIONS: return divisions(self, name, value, error);
        case SET_EXPANDABLE: return boolean(name, value, &self->expandable, error);
        case SET_FLAG: return boolean(name, value, &flag, error);
        case SET_BACKEND:
            if (strcmp(value, "native") == 0 || strcmp(value, "cudaMallocAsync") == 0 || strcmp(value, "hipMallocAsync") == 0)
                return true;
            return bad(error, name, value, "native or cudaMallocAsync");
        case SET_RELEASE: {
            uint64_t minor;
            if (strncmp(value, "2.", 2) != 0 || !ech_parse_u64(value + 2, &minor, NULL) || minor < 1 || minor > 99)
                return bad(error, name, value, "a release like 2.6");
            *release = (unsigned)minor;
            return true;
        }
        case SET_THREADS:
            return (ech_parse_u64(value, &number, NULL) && number && number <= 128 && (number & (number - 1)) == 0) ||
                   bad(error, name, value, "a power of two up to 128");
        case SET_NUMBER: return (ech_parse_u64(value, &number, NULL) && number) || bad(error, name, value, "a number above 0");
        case SET_ANY: return true;
        }
    }
    const char *nearest = ech_nearest_name(name, names);
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
    if (nearest)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting of PYTORCH_CUDA_ALLOC_CONF; did you mean '%s'?", name, nearest);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting of PYTORCH_CUDA_ALLOC_CONF; expected %s", name, all);
    return false;
}

static bool read_settings(PyTorch *self, const char *text, GError **error)
{
    self->max_split = UINT64_MAX;
    self->max_non_split_rounding = UINT64_C(20) << 20;
    self->large_buffer = UINT64_C(20) << 20;
    unsigned release = 99;
    /* Blanks and quotes do not matter to PyTorch's own reader either. */
    g_autoptr(GString) clean = g_string_new(NULL);
    for (const char *at = text ? text : ""; *at; at++) {
        if (*at != ' ' && *at != '\'' && *at != '"')
            g_string_append_c(clean, *at);
    }
    for (const char *at = clean->str; *at;) {
        unsigned depth = 0;
        const char *end = at;
        for (; *end && (depth > 0 || *end != ','); end++)
            depth += *end == '[' ? 1 : *end == ']' && depth > 0 ? -1u : 0;
        g_autofree char *item = g_strndup(at, (gsize)(end - at));
        at = *end ? end + 1 : end;
        if (!*item)
            continue;
        char *colon = strchr(item, ':');
        if (!colon)
            return bad(error, "PYTORCH_CUDA_ALLOC_CONF", item, "of the form KEY:VALUE");
        *colon = '\0';
        if (!set_one(self, item, colon + 1, &release, error))
            return false;
    }
    const struct {
        const char *name;
        EchBytes bytes;
    } least[] = {{"max_split_size_mb", self->max_split}, {"max_non_split_rounding_mb", self->non_split_given ? self->max_non_split_rounding : UINT64_MAX}};
    for (size_t i = 0; i < G_N_ELEMENTS(least); i++) {
        if (least[i].bytes >= self->large_buffer)
            continue;
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "%s: '%" G_GUINT64_FORMAT "' is too small; expected at least a large segment's %" G_GUINT64_FORMAT " (MiB)", least[i].name,
                    least[i].bytes >> 20, self->large_buffer >> 20);
        return false;
    }
    return true;
}

static bool with_lists(PyTorch *self, const char *text, GError **error)
{
    self->idle = g_string_new(NULL);
    self->native = g_string_new(NULL);
    return read_settings(self, text, error);
}

bool ech_pytorch_is_setting(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
        if (strcmp(settings[i].name, name) == 0)
            return true;
    }
    return false;
}

static void drop_lists(PyTorch *self)
{
    g_string_free(g_steal_pointer(&self->idle), TRUE);
    g_string_free(g_steal_pointer(&self->native), TRUE);
}

bool ech_pytorch_conf_read(const char *text, EchPyTorchConf *ret, GError **error)
{
    PyTorch scratch = {0};
    bool ok = with_lists(&scratch, text, error);
    if (ok)
        *ret = (EchPyTorchConf){scratch.has_fraction ? scratch.fraction : 0, scratch.native->len ? g_strdup(scratch.native->str) : NULL};
    drop_lists(&scratch);
    return ok;
}

static bool pytorch_configure(EchAllocator *base, const char *text, GError **error)
{
    PyTorch *self = (PyTorch *)base;
    bool ok = with_lists(self, text, error);
    g_autoptr(GString) note = g_string_new(NULL);
    if (self->gc_threshold > 0 && !self->has_fraction)
        g_string_append(note, "garbage_collection_threshold does nothing without per_process_memory_fraction (torch.cuda.set_per_process_memory_fraction)");
    if (self->idle->len)
        g_string_append_printf(note, "%s%s: changes no placement of device memory", note->len ? "; " : "", self->idle->str);
    if (note->len)
        base->note = g_strdup(note->str);
    drop_lists(self);
    if (!ok)
        return false;
    self->allowed = base->memory.capacity;
    if (self->has_fraction) {
        self->allowed = (EchBytes)(self->fraction * (double)base->memory.capacity);
        base->limit = self->allowed;
    }
    return true;
}

const EchAllocClass ech_alloc_pytorch = {
    .name = "pytorch",
    .summary = "PyTorch's CUDA caching allocator; everything after 'pytorch:' is PYTORCH_CUDA_ALLOC_CONF",
    .source = "PyTorch 2.6.0: c10/cuda/CUDACachingAllocator.cpp, CUDAAllocatorConfig.cpp; later settings from c10/core/AllocatorConfig.h",
    .size = sizeof(PyTorch),
    .configure = pytorch_configure,
    .done = pytorch_done,
    .alloc = pytorch_alloc,
    .release = pytorch_release,
    .record_stream = pytorch_record_stream,
    .stream_done = pytorch_stream_done,
    .shape = pytorch_shape,
    .prefetch = pytorch_prefetch,
    .give_back = pytorch_give_back,
    .seed = pytorch_seed,
    .largest_free = pytorch_largest,
    .walk_free = pytorch_walk,
    .own_stats = pytorch_own_stats,
};
