/* PyTorch's CUDA caching allocator, release 2.6.0 and the settings of later ones; told "release:2.N", what was found to differ in that one.
 *
 * Free blocks are kept per (pool, stream) in a tree by (bytes, address), because blocks never change streams; what walks "the whole
 * pool in order" in the original does not depend on the order between streams. Facts: c10/cuda/CUDACachingAllocator.cpp ("CCA") and
 * CUDAAllocatorConfig.cpp ("CFG") of PyTorch 2.6.0; pytorch_conf.c reads the settings. */
#include "models/alloc/pytorch_conf.h"
#include "models/alloc/class.h"
#include "models/alloc/tree.h"
#include "sim/base/error.h"

#include <math.h>
#include <string.h>

/* CCA:121-128. */
static const EchBytes MIN_BLOCK = ECH_PYTORCH_MIN_BLOCK;
static const EchBytes SMALL_SIZE = UINT64_C(1) << 20;
static const EchBytes SMALL_BUFFER = UINT64_C(2) << 20;
static const EchBytes MIN_LARGE = UINT64_C(10) << 20;
static const EchBytes ROUND_LARGE = UINT64_C(2) << 20;

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
    uint32_t age; /* number of the block in the order they were made */
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
    bool private, done; /* of a graph or a MemPool, which keeps it until it is released */
    EchTree free;       /* (bytes, address) */
    EchTree unmapped;   /* (address, 0) */
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
    EchPyTorchConf conf;
    EchBytes allowed;                              /* of the device: by per_process_memory_fraction */
    EchBytes most;                                 /* the same, as throw_on_cudamalloc_oom counts it; UINT64_MAX without that */
    EchBytes reserve;                              /* addresses of an expandable segment, before it is rounded to pages */
    bool limited;                                  /* per_process_memory_fraction is given */
    enum { BY_ADDRESS, BY_BLOCK, BY_SEGMENT } tie; /* of free blocks of a size */
    uint32_t made;                                 /* blocks */
    bool collects;                                 /* blocks that were not used for long are given back */
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
    bool rejected; /* the request at hand is, by throw_on_cudamalloc_oom */
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
    self->blocks[at].age = ++self->made;
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

static uint32_t pool_of(PyTorch *self, uint32_t stream, bool small, bool private)
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
        self->pools[last] = (Pool){.stream = stream, .small = small, .private = private};
        ech_tree_insert(&self->pool_index, key, last);
    }
    self->last_pool[small] = last;
    return last;
}

/* Where a free block stands among those of its size: the lowest address first; in 2.12 the block that was made first, since 2.13 the oldest segment. */
static EchTreeKey place_of(const PyTorch *self, const Block *block)
{
    switch (self->tie) {
    case BY_BLOCK: return ech_tree_key(block->bytes, block->age);
    case BY_SEGMENT: {
        const Segment *segment = &self->segments[block->segment];
        return ech_tree_key(block->bytes, (uint64_t)segment->number << 40 | (block->address - segment->address) / MIN_BLOCK);
    }
    case BY_ADDRESS: break;
    }
    return ech_tree_key(block->bytes, block->address);
}

static void put(PyTorch *self, uint32_t at)
{
    Block *block = &self->blocks[at];
    Pool *pool = &self->pools[block->pool];
    block->gc_base = self->calls[pool->small];
    ech_tree_insert(&pool->free, place_of(self, block), at);
}

static void pull(PyTorch *self, uint32_t at)
{
    const Block *block = &self->blocks[at];
    ech_tree_remove(&self->pools[block->pool].free, place_of(self, block));
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

static EchBytes segment_size(const PyTorch *self, EchBytes size)
{
    if (size <= SMALL_SIZE)
        return SMALL_BUFFER;
    if (size < MIN_LARGE)
        return self->conf.large_buffer;
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
    if (block.bytes >= self->conf.max_split)
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

/* The same, and a reservation without pages goes too (CCA:3061-3066). False where the block has no whole page. */
static bool unmap_or_drop(PyTorch *self, uint32_t at)
{
    unmap_block(self, at);
    if (self->blocks[at].mapped)
        return false;
    if (!is_split(&self->blocks[at])) {
        pull_unmapped(self, at);
        drop_segment(self, self->blocks[at].segment);
        drop_block(self, at);
        self->base.stats.segments_freed++;
    }
    return true;
}

static void release_pool(PyTorch *self, bool small)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < self->n_pools; i++) {
        if (self->pools[i].small != small || (self->pools[i].private && !self->pools[i].done))
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
            unmap_or_drop(self, at);
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
    if (self->conf.max_split == UINT64_MAX)
        return false;
    EchTree *tree = &self->pools[pool].free;
    EchBytes wanted = MAX(size, self->conf.max_split), released = 0;
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
        if (bytes < self->conf.max_split)
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
    EchBytes threshold = (EchBytes)(self->conf.gc_threshold * (double)self->allowed);
    if (self->total <= threshold)
        return;
    EchBytes target = self->total - threshold, reclaimed = 0;
    uint64_t total_age = 0, n = 0;
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < self->n_pools; i++) {
        if (self->pools[i].small || self->pools[i].private)
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
    if (self->collects && !self->pools[pool].private)
        self->calls[self->pools[pool].small]++;
    EchTree *tree = &self->pools[pool].free;
    EchTreeIter it = ech_tree_lower_bound(tree, ech_tree_key(size, 0));
    if (!it.leaf)
        return 0;
    uint32_t at = ech_tree_iter_value(it);
    if (!self->conf.expandable && is_expandable(self, &self->blocks[at])) {
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
    if (size < self->conf.max_split && bytes >= self->conf.max_split)
        return 0;
    if (size >= self->conf.max_split && bytes >= ech_bytes_add(size, self->conf.max_non_split_rounding))
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
    if (self->base.memory.n_reservations == UINT16_MAX)
        return 0; /* the top 16 bits of an address are its reservation's number */
    EchBytes page = self->pools[pool].small ? SMALL_BUFFER : self->conf.large_buffer;
    /* Also for a request that it is too small for: the reservation is made, all of it cannot be mapped, and it stays (CCA:2239-2294, 2371-2376); since 2.15
     * it is given up at once. */
    Segment segment = {.bytes = ech_round_up(self->reserve, page), .page = page};
    uint32_t reservation;
    segment.address = ech_device_memory_reserve(&self->base.memory, &reservation);
    if (segment.bytes < size && (self->conf.release >= 15 || self->conf.reserve > 0))
        return 0;
    segment.reservation = (int32_t)reservation;
    segment.number = self->base.n_segments++;
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
    if (self->limited && ech_bytes_add(self->total, whole) > self->allowed)
        return 0;
    self->rejected = ech_bytes_add(self->total, whole) > self->most;
    if (self->rejected)
        return 0;
    if (self->conf.expandable)
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
    if (whole >= self->conf.max_split)
        stat_add(&self->oversize_segments, 1);
    self->device_allocs++;
    return new_block(self, block);
}

static bool should_split(const PyTorch *self, bool small, EchBytes bytes, EchBytes size)
{
    EchBytes remaining = bytes - size;
    if (small || self->conf.expandable)
        return remaining >= MIN_BLOCK;
    return size < self->conf.max_split && remaining > SMALL_SIZE;
}

/* Where no free block will do: gives back what has been idle for long, takes from the device, and gives back more and tries again. 0: out of memory, also
 * by throw_on_cudamalloc_oom, which gives nothing back. What is captured must not wait for the device, so nothing is given back for it; for a MemPool's
 * requests neither up to 2.12, and since then it is, but who asks for a private pool is not told. */
static uint32_t make_block(PyTorch *self, uint32_t pool, EchBytes size)
{
    if (self->collects)
        garbage_collect(self);
    self->rejected = false;
    uint32_t at = alloc_block(self, pool, size, false);
    if (!at && !self->rejected && release_available(self, pool, size))
        at = alloc_block(self, pool, size, false);
    if (!at && !self->rejected && !self->pools[pool].private) {
        release_cached(self);
        at = alloc_block(self, pool, size, true);
    }
    self->rejections += self->rejected;
    self->ooms += at == 0 && !self->rejected;
    return at;
}

/* The first @size bytes of a block that is in no set; what is left over becomes free where it is worth keeping. */
static uint32_t cut(PyTorch *self, uint32_t at, EchBytes size, bool small)
{
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
    return at;
}

static bool pytorch_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    PyTorch *self = (PyTorch *)base;
    if (request->bytes >= UINT64_C(1) << 60)
        return false;           /* refused before anything else is done ("more than 1EB", NativeCachingAllocator::allocate) */
    if (!request->private_pool) /* a capture must not ask the device */
        process_events(self);
    EchBytes size = ech_pytorch_round(&self->conf, request->bytes);
    bool small = size <= SMALL_SIZE;
    uint32_t pool = pool_of(self, request->stream, small, request->private_pool);
    uint32_t at = get_free_block(self, pool, size);
    if (!at)
        at = make_block(self, pool, size);
    if (!at)
        return false;
    at = cut(self, at, size, small);
    Block *block = &self->blocks[at];
    const Segment *segment = &self->segments[block->segment];
    block->allocated = true;
    block->requested = request->bytes;
    count(self, ALLOCATION, small, 1);
    count(self, ALLOCATED_BYTES, small, (int64_t)block->bytes);
    count(self, ACTIVE, small, 1);
    count(self, ACTIVE_BYTES, small, (int64_t)block->bytes);
    count(self, REQUESTED_BYTES, small, (int64_t)block->requested);
    if (block->bytes >= self->conf.max_split)
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
    if (block->bytes >= self->conf.max_split)
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
    (void)bytes; /* all of the free block or of its pages */
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
            return unmap_or_drop(self, at);
        }
    }
    return false;
}

static void pytorch_pool_done(EchAllocator *base, uint32_t stream)
{
    PyTorch *self = (PyTorch *)base;
    for (uint32_t i = 0; i < self->n_pools; i++)
        self->pools[i].done |= self->pools[i].stream == stream;
}

static void pytorch_empty_cache(EchAllocator *base)
{
    release_cached((PyTorch *)base);
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
    seeding->last = splice(self, hole, seeding->last, 0);
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
    EchBytes page = first->small_pool ? SMALL_BUFFER : self->conf.large_buffer;
    uint32_t pool = pool_of(self, first->stream, first->small_pool, first->private_pool);
    bool grows = first->expandable && first->segment_bytes % page == 0;
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
    *seeding = (Seeding){.slot = new_segment(self, segment), .pool = pool, .end = first->segment_address, .open = true, .grows = grows};
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

static bool pytorch_seed(EchAllocator *base, const EchSeedBlock *blocks, size_t n, GError **error)
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

static void pytorch_done(EchAllocator *base)
{
    PyTorch *self = (PyTorch *)base;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        ech_tree_clear(&self->pools[i].free);
        ech_tree_clear(&self->pools[i].unmapped);
    }
    for (uint32_t i = 0; i < self->n_events; i++)
        g_free(self->events[i].blocks);
    ech_pytorch_conf_clear(&self->conf);
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
    ech_alloc_add_stat(out, "num_oom_rejections", self->rejections);
    ech_alloc_add_stat(out, "max_split_size", self->conf.max_split == UINT64_MAX ? -1 : (int64_t)self->conf.max_split);
}

static bool pytorch_configure(EchAllocator *base, const char *text, GError **error)
{
    PyTorch *self = (PyTorch *)base;
    if (!ech_pytorch_conf_read(text, &self->conf, error))
        return false;
    const EchPyTorchConf *conf = &self->conf;
    EchBytes capacity = base->memory.capacity, full = ech_bytes_add(capacity, capacity / 8);
    double reserve = conf->reserve * (conf->reserve_in_gib ? (double)(UINT64_C(1) << 30) : (double)capacity);
    self->reserve = conf->reserve > 0 && reserve < (double)full ? (EchBytes)reserve : full;
    self->limited = conf->has_fraction && (conf->release < 10 || conf->fraction < 1);
    self->tie = conf->release < 12 ? BY_ADDRESS : conf->release == 12 ? BY_BLOCK : BY_SEGMENT;
    self->collects = self->limited && conf->gc_threshold > 0;
    self->allowed = capacity;
    self->most = !conf->reject ? UINT64_MAX : self->limited ? (EchBytes)(conf->fraction * (double)capacity) : capacity;
    if (self->limited) {
        double allowed = conf->fraction * (double)capacity;
        self->allowed = base->limit = (EchBytes)(conf->release >= 13 ? round(allowed) : allowed);
    }
    g_autoptr(GString) note = g_string_new(NULL);
    if (conf->gc_threshold > 0 && !self->collects)
        g_string_append_printf(note,
                               "garbage_collection_threshold does nothing without per_process_memory_fraction%s (torch.cuda.set_per_process_memory_fraction)",
                               conf->has_fraction ? " below 1" : "");
    if (conf->idle)
        g_string_append_printf(note, "%s%s: changes no placement of device memory", note->len ? "; " : "", conf->idle);
    if (conf->expandable && self->reserve < capacity)
        g_string_append_printf(note, "%sno request may exceed what expandable_segments_reserve reserves: %" G_GUINT64_FORMAT " MiB", note->len ? "; " : "",
                               ech_round_up(self->reserve, conf->large_buffer) >> 20);
    if (note->len)
        base->note = g_strdup(note->str);
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
    .pool_done = pytorch_pool_done,
    .shape = pytorch_shape,
    .prefetch = pytorch_prefetch,
    .give_back = pytorch_give_back,
    .empty_cache = pytorch_empty_cache,
    .seed = pytorch_seed,
    .largest_free = pytorch_largest,
    .walk_free = pytorch_walk,
    .own_stats = pytorch_own_stats,
};
