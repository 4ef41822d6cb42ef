/* cudaMallocAsync's pool as documented (CUDA programming guide, stream-ordered memory allocator: reuse policies): what a stream has freed it may have again at
 * once, another stream where it comes after the free by an event, or where the free is over on the device; where the device has no more memory, by a wait that
 * the driver inserts. Memory above the release threshold is given back at a synchronisation.
 *
 * The placement policy, the granularity and the growth step are not documented. Here: best fit by (bytes, address), 512 bytes; one range of addresses, to which
 * pieces of 32 MiB are mapped as it grows, and which gives whole free pieces back. On an H100 (driver 13.0) a pool that 500 allocations of 64 KiB to 32 MiB
 * left 504 MiB in use of held 544 and 512 MiB in two runs, and another gave a stream nothing of what one had freed that no event put it behind
 * (validation/cuda_engine.md). A request that would fail although as many bytes are free has free pages of the pool moved together for it (NVIDIA's
 * introduction to the allocator, 2021: unused memory of the pool is remapped to a contiguous part of the address space). */
#include "models/alloc/bfc.h"
#include "models/alloc/class.h"
#include "models/alloc/pytorch_conf.h"
#include "models/alloc/tree.h"

#include <string.h>

enum { COMMON = 0 }; /* pool 0: free for every stream; pool k: freed on a stream, not yet complete there */

typedef struct {
    uint64_t address;
    EchBytes bytes;
    uint32_t prev, next;
    uint32_t segment; /* of segments */
    uint32_t pool;    /* free: where; used: where it will be */
    uint64_t stamp;   /* When its youngest part was freed; of a used one 0, or when it will be. */
    uint32_t loose;   /* 1 + place among its pool's loose blocks, or 0 */
    bool used;
} Block;

/* A range of addresses with memory behind all of it. */
typedef struct {
    uint64_t address, end;
    uint32_t last, next; /* last: its last block, 0 where it is empty; next: spare segment */
} Segment;

typedef struct {
    uint32_t stream;
    EchTree free;    /* (bytes, address) */
    uint64_t passed; /* What was freed up to then is in COMMON. */
    GArray *loose;   /* Blocks that are not joined with their neighbours, or NULL */
} Pool;

typedef struct {
    EchAllocator base;
    EchBytes release_threshold, growth, preallocated;
    uint64_t follow_events, opportunistic, internal, remap;
    Block *blocks;
    uint32_t n_blocks, allocated_blocks, spare_block;
    Segment *segments;
    uint32_t n_segments, spare_segment, live_segments;
    uint32_t growing; /* The segment at the end, which grows, and is there when it is empty, too. */
    uint32_t reservation;
    bool has_small_pieces; /* The device was nearly full once. */
    uint64_t base_address;
    Pool *pools;
    uint32_t n_pools, last_pool;
    EchTree pool_index;
    uint64_t stamp; /* Of the youngest free. */
    int64_t waits, trims, remapped;
} Async;

static const EchParam params[] = {
    {"release_threshold", ECH_PARAM_BYTES, offsetof(Async, release_threshold), "0", NULL, NULL, NULL,
     "bytes kept at a synchronisation (cudaMemPoolAttrReleaseThreshold)"},
    {"reuse_event_dependencies", ECH_PARAM_BOOL, offsetof(Async, follow_events), "true", NULL, NULL, NULL,
     "a stream that comes after a free by an event may reuse (cudaMemPoolReuseFollowEventDependencies)"},
    {"reuse_opportunistic", ECH_PARAM_BOOL, offsetof(Async, opportunistic), "true", NULL, NULL, NULL,
     "another stream may reuse what is complete (cudaMemPoolReuseAllowOpportunistic)"},
    {"reuse_internal_dependencies", ECH_PARAM_BOOL, offsetof(Async, internal), "true", NULL, NULL, NULL,
     "where the device has no more, the driver may insert a wait to reuse (cudaMemPoolReuseAllowInternalDependencies)"},
    {"remap", ECH_PARAM_BOOL, offsetof(Async, remap), "true", NULL, NULL, NULL, "free pages are moved together for a request that would fail"},
    {"growth", ECH_PARAM_BYTES, offsetof(Async, growth), "32MiB", "2MiB", "1TiB", NULL, "pieces that it takes from the device (measured on an H100)"},
    {0},
};

static uint32_t pool_of(Async *self, uint32_t stream)
{
    if (self->last_pool && self->pools[self->last_pool].stream == stream)
        return self->last_pool;
    EchTreeKey key = ech_tree_key(stream, 0);
    EchTreeIter it = ech_tree_lower_bound(&self->pool_index, key);
    uint32_t at;
    if (it.leaf && ech_tree_iter_key(it) == key) {
        at = ech_tree_iter_value(it);
    } else {
        at = self->n_pools++;
        if ((at & (at - 1)) == 0)
            self->pools = g_renew(Pool, self->pools, at ? at * 2 : 2);
        self->pools[at] = (Pool){.stream = stream};
        ech_tree_insert(&self->pool_index, key, at);
    }
    self->last_pool = at;
    return at;
}

/* PYTORCH_CUDA_ALLOC_CONF with backend:cudaMallocAsync keeps everything, and counts what was asked for (CUDAMallocAsyncAllocator.cpp). */
static bool configure_pytorch(Async *self, const char *text, GError **error)
{
    EchAllocator *base = &self->base;
    g_auto(EchPyTorchConf) conf = {0};
    if (!ech_pytorch_conf_read(text, &conf, error))
        return false;
    self->release_threshold = UINT64_MAX;
    if (conf.has_fraction)
        base->limit = (EchBytes)(conf.fraction * (double)base->total);
    if (conf.native)
        base->note = g_strdup_printf("this backend ignores %s; %s", conf.native, base->class->note);
    return true;
}

/* XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async: what BFC would preallocate is taken at the start and kept; without that nothing is.
 * TF_GPU_ALLOCATOR=cuda_malloc_async: as much as BFC would have is kept. TF_DETERMINISTIC_ALLOCATOR: blocks stay with their stream (gpu_helpers.cc and
 * gpu_cudamallocasync_allocator.cc of XLA, gpu_process_state.cc of TensorFlow). */
static bool configure_framework(Async *self, bool tensorflow, const char *text, GError **error)
{
    bool preallocate;
    if (!ech_bfc_share(tensorflow, text, self->base.total, &self->base.memory.capacity, &self->release_threshold, &preallocate, error))
        return false;
    if (strstr(text, "TF_DETERMINISTIC_ALLOCATOR=1") || strstr(text, "TF_DETERMINISTIC_ALLOCATOR=true"))
        self->opportunistic = self->internal = 0;
    if (tensorflow)
        return true;
    self->preallocated = preallocate ? self->release_threshold : 0;
    self->release_threshold = self->preallocated;
    return true;
}

static bool async_configure(EchAllocator *base, const char *text, GError **error)
{
    Async *self = (Async *)base;
    if (text && (strstr(text, "backend:cudaMallocAsync") || strstr(text, "backend:hipMallocAsync")))
        return configure_pytorch(self, text, error);
    if (text && strstr(text, "XLA_PYTHON_CLIENT_ALLOCATOR="))
        return configure_framework(self, false, text, error);
    if (text && strstr(text, "TF_GPU_ALLOCATOR="))
        return configure_framework(self, true, text, error);
    return ech_params_parse(params, self, text, error);
}

static void async_done(EchAllocator *base)
{
    Async *self = (Async *)base;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        ech_tree_clear(&self->pools[i].free);
        if (self->pools[i].loose)
            g_array_unref(self->pools[i].loose);
    }
    ech_tree_clear(&self->pool_index);
    g_free(self->pools);
    g_free(self->blocks);
    g_free(self->segments);
}

static uint32_t new_block(Async *self, Block block)
{
    uint32_t at = self->spare_block;
    if (at) {
        self->spare_block = self->blocks[at].next;
    } else {
        if (self->n_blocks == self->allocated_blocks) {
            self->allocated_blocks = self->allocated_blocks ? self->allocated_blocks * 2 : 256;
            self->blocks = g_renew(Block, self->blocks, self->allocated_blocks);
            if (self->n_blocks == 0)
                self->blocks[self->n_blocks++] = (Block){0};
        }
        at = self->n_blocks++;
    }
    self->blocks[at] = block;
    return at;
}

static void drop_block(Async *self, uint32_t at)
{
    self->blocks[at] = (Block){.next = self->spare_block};
    self->spare_block = at;
}

static EchTreeKey key_of(const Block *block)
{
    return ech_tree_key(block->bytes, block->address);
}

/* Takes a free block out of its pool. */
static void pull(Async *self, uint32_t at)
{
    Block *block = &self->blocks[at];
    Pool *pool = &self->pools[block->pool];
    ech_tree_remove(&pool->free, key_of(block));
    if (block->loose == 0)
        return;
    self->blocks[g_array_index(pool->loose, uint32_t, pool->loose->len - 1)].loose = block->loose; /* The last one takes its place */
    g_array_remove_index_fast(pool->loose, block->loose - 1);
    block->loose = 0;
}

/* The free block @next, in no pool, becomes part of @at before it. */
static void join(Async *self, uint32_t at, uint32_t next)
{
    Block *blocks = self->blocks;
    blocks[at].bytes += blocks[next].bytes;
    blocks[at].stamp = MAX(blocks[at].stamp, blocks[next].stamp);
    blocks[at].next = blocks[next].next;
    if (blocks[at].next)
        blocks[blocks[at].next].prev = at;
    else
        self->segments[blocks[at].segment].last = at;
    drop_block(self, next);
}

/* Joins a free block with free neighbours of its pool and puts it there. */
static void put_joined(Async *self, uint32_t at)
{
    Block *blocks = self->blocks;
    uint32_t pool = blocks[at].pool, next = blocks[at].next, prev = blocks[at].prev;
    blocks[at].used = false;
    if (next && !blocks[next].used && blocks[next].pool == pool) {
        pull(self, next);
        join(self, at, next);
    }
    if (prev && !blocks[prev].used && blocks[prev].pool == pool) {
        pull(self, prev);
        join(self, prev, at);
        at = prev;
    }
    ech_tree_insert(&self->pools[pool].free, key_of(&blocks[at]), at);
}

/* Where there are several streams, another one may have some of what this one has freed before the rest, with which it is not joined before that is needed. */
static void put(Async *self, uint32_t at)
{
    Block *block = &self->blocks[at];
    Pool *pool = &self->pools[block->pool];
    if (block->pool == COMMON || self->n_pools <= 2) {
        put_joined(self, at);
        return;
    }
    if (!pool->loose)
        pool->loose = g_array_new(FALSE, FALSE, sizeof at);
    block->used = false;
    g_array_append_val(pool->loose, at);
    block->loose = pool->loose->len;
    ech_tree_insert(&pool->free, key_of(block), at);
}

/* True where there was something to join. */
static bool join_loose(Async *self, uint32_t pool)
{
    GArray *loose = self->pools[pool].loose;
    bool any = loose && loose->len > 0;
    while (loose && loose->len > 0) {
        uint32_t at = g_array_index(loose, uint32_t, loose->len - 1);
        pull(self, at);
        put_joined(self, at);
    }
    return any;
}

/* What was freed in a pool up to @stamp is free for all. */
static void complete(Async *self, uint32_t pool, uint64_t stamp)
{
    EchTree *tree = &self->pools[pool].free;
    g_autoptr(GArray) found = NULL;
    if (pool == COMMON || stamp <= self->pools[pool].passed)
        return;
    self->pools[pool].passed = stamp;
    for (EchTreeIter it = ech_tree_first(tree); it.leaf; it = ech_tree_next(it)) {
        uint32_t at = ech_tree_iter_value(it);
        if (self->blocks[at].stamp > stamp)
            continue;
        if (!found)
            found = g_array_new(FALSE, FALSE, sizeof at);
        g_array_append_val(found, at);
    }
    for (guint i = 0; found && i < found->len; i++) {
        uint32_t at = g_array_index(found, uint32_t, i);
        pull(self, at);
        self->blocks[at].pool = COMMON;
        put(self, at);
    }
}

static void complete_all(Async *self)
{
    for (uint32_t pool = 1; pool < self->n_pools; pool++)
        complete(self, pool, self->stamp);
}

/* A slot for a segment. */
static uint32_t new_segment(Async *self, Segment segment)
{
    uint32_t at;
    if (self->spare_segment) {
        at = self->spare_segment - 1;
        self->spare_segment = self->segments[at].next;
    } else {
        at = self->n_segments++;
        if ((at & (at - 1)) == 0)
            self->segments = g_renew(Segment, self->segments, at ? at * 2 : 2);
    }
    self->segments[at] = segment;
    self->live_segments++;
    return at;
}

/* A segment without blocks, at @at as long as it has none. */
static void empty_segment(Async *self, uint32_t slot, uint64_t at)
{
    if (slot == self->growing) {
        self->segments[slot] = (Segment){.address = at, .end = at};
    } else {
        self->segments[slot] = (Segment){.next = self->spare_segment};
        self->spare_segment = slot + 1;
        self->live_segments--;
    }
    if (self->live_segments == 1 && !self->segments[self->growing].last) /* No need to go on where it was */
        self->segments[self->growing].address = self->segments[self->growing].end = self->base_address;
}

/* Gives the memory [from, to) of the free block @at, which is in no tree, back to the device; what stays of its segment on either side becomes a segment of its
 * own. */
static void cut_pages(Async *self, uint32_t at, uint64_t from, uint64_t to)
{
    Block block = self->blocks[at];
    Segment segment = self->segments[block.segment];
    uint32_t left = block.prev, right = block.next, slot = block.segment;
    uint64_t end = block.address + block.bytes;
    Block piece = {.pool = block.pool, .stamp = block.stamp, .segment = slot};
    drop_block(self, at);
    if (from > block.address) {
        piece.address = block.address;
        piece.bytes = from - block.address;
        piece.prev = block.prev;
        left = new_block(self, piece);
        if (block.prev)
            self->blocks[block.prev].next = left;
    } else if (left) {
        self->blocks[left].next = 0;
    }
    if (left) {
        self->segments[slot].end = from;
        self->segments[slot].last = left;
    }
    if (from > block.address)
        put(self, left);
    if (end > to || right) {
        segment.address = to;
        if (left)
            slot = new_segment(self, segment);
        else
            self->segments[slot] = segment;
        if (self->growing == block.segment)
            self->growing = slot;
        if (right)
            self->blocks[right].prev = 0;
        for (uint32_t b = right; b; b = self->blocks[b].next)
            self->blocks[b].segment = slot;
        if (end > to) {
            piece = (Block){.address = to, .bytes = end - to, .next = right, .pool = block.pool, .stamp = block.stamp, .segment = slot};
            uint32_t rest = new_block(self, piece);
            if (right)
                self->blocks[right].prev = rest;
            else
                self->segments[slot].last = rest;
            put(self, rest);
        }
    } else if (!left) {
        empty_segment(self, slot, from);
    }
    ech_device_memory_give_pages(&self->base.memory, to - from);
    ech_alloc_count_reserved(&self->base, 0, to - from);
    self->base.stats.segments_freed++;
}

/* Gives whole free pieces of a pool back, those of its largest blocks first, until no more than @keep bytes are reserved. */
static void trim(Async *self, uint32_t pool, EchBytes keep)
{
    EchTree *tree = &self->pools[pool].free;
    for (EchTreeIter it = ech_tree_last(tree); self->base.stats.reserved > keep && it.leaf;) {
        uint32_t at = ech_tree_iter_value(it);
        Block block = self->blocks[at];
        if (block.bytes < (self->has_small_pieces ? self->base.memory.granule : self->growth))
            return;
        Segment segment = self->segments[block.segment];
        uint64_t end = block.address + block.bytes, from = segment.address + ech_round_up(block.address - segment.address, self->growth), to = end;
        if (end < segment.end)
            to = segment.address + (end - segment.address) / self->growth * self->growth;
        if (to <= from) {
            it = ech_tree_prev(it);
            continue;
        }
        EchBytes excess = self->base.stats.reserved - keep;
        if (to - from > excess && (to - from - excess) / self->growth > 0)
            from += (to - from - excess) / self->growth * self->growth;
        pull(self, at);
        cut_pages(self, at, from, to);
        self->trims++;
        it = ech_tree_last(tree);
    }
}

/* The free block at the end, where @pool may have it, or 0. */
static uint32_t tail_for(const Async *self, uint32_t pool)
{
    uint32_t last = self->segments[self->growing].last;
    if (!last) /* There may be no blocks at all. */
        return 0;
    const Block *block = &self->blocks[last];
    return !block->used && (block->pool == COMMON || block->pool == pool) ? last : 0;
}

/* Unmaps whole pages of free blocks, the largest first, until the device has what a block of @bytes for @pool lacks; false, and nothing done, where there are
 * not as many. */
static bool gather_pages(Async *self, uint32_t pool, EchBytes bytes)
{
    EchTree *tree = &self->pools[COMMON].free;
    uint32_t tail = tail_for(self, pool);
    EchBytes granule = self->base.memory.granule, whole = ech_round_up(bytes - (tail ? self->blocks[tail].bytes : 0), granule),
             there = ech_device_memory_left(&self->base.memory);
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (EchTreeIter it = ech_tree_last(tree); it.leaf && there < whole; it = ech_tree_prev(it)) {
        uint32_t at = ech_tree_iter_value(it);
        const Block *block = &self->blocks[at];
        uint64_t from = ech_round_up(block->address, granule), to = (block->address + block->bytes) / granule * granule;
        if (block->bytes < granule)
            break;
        if (to > from && at != tail) {
            there += to - from;
            g_array_append_val(found, at);
        }
    }
    if (there < whole)
        return false;
    self->has_small_pieces = true;
    for (guint i = 0; i < found->len; i++) {
        uint32_t at = g_array_index(found, uint32_t, i);
        const Block *block = &self->blocks[at];
        uint64_t from = ech_round_up(block->address, granule), to = (block->address + block->bytes) / granule * granule;
        pull(self, at);
        cut_pages(self, at, from, to);
        self->remapped += (int64_t)(to - from);
    }
    return true;
}

static void async_stream_done(EchAllocator *base, uint32_t stream)
{
    Async *self = (Async *)base;
    uint32_t pool = pool_of(self, stream);
    if (self->opportunistic)
        complete(self, pool, self->stamp);
    trim(self, pool, self->release_threshold);
    trim(self, COMMON, self->release_threshold);
}

static void async_free_on(EchAllocator *base, uint32_t id, const EchLive *live, uint32_t stream, uint64_t stamp)
{
    (void)id;
    Async *self = (Async *)base;
    self->stamp = MAX(self->stamp, stamp);
    self->blocks[live->handle].pool = pool_of(self, stream);
    self->blocks[live->handle].stamp = stamp;
}

static void async_ordered(EchAllocator *base, uint32_t stream, uint64_t stamp)
{
    Async *self = (Async *)base;
    if (self->follow_events)
        complete(self, pool_of(self, stream), stamp);
}

static void async_passed(EchAllocator *base, uint64_t stamp)
{
    Async *self = (Async *)base;
    for (uint32_t pool = 1; self->opportunistic && pool < self->n_pools; pool++)
        complete(self, pool, stamp);
}

/* PyTorch's backend synchronises and trims its pool to nothing. */
static void async_empty_cache(EchAllocator *base)
{
    Async *self = (Async *)base;
    complete_all(self);
    trim(self, COMMON, 0);
}

static uint32_t take_from(Async *self, uint32_t pool, EchBytes bytes)
{
    EchTreeIter it = ech_tree_lower_bound(&self->pools[pool].free, ech_tree_key(bytes, 0));
    if (!it.leaf)
        return 0;
    uint32_t at = ech_tree_iter_value(it);
    pull(self, at);
    return at;
}

/* @bytes more at the end: a block in no pool; 0 where the device has no more. */
static uint32_t extend(Async *self, EchBytes bytes)
{
    if (!ech_device_memory_take_pages(&self->base.memory, bytes))
        return 0;
    self->base.stats.segments_allocated++;
    ech_alloc_count_reserved(&self->base, bytes, 0);
    Segment *segment = &self->segments[self->growing];
    uint32_t last = segment->last, at = new_block(self, (Block){.address = segment->end, .bytes = bytes, .prev = last, .segment = self->growing});
    if (last)
        self->blocks[last].next = at;
    segment->end += bytes;
    segment->last = at;
    return at;
}

/* A block of at least @bytes for @pool, in no pool: what is free for it at the end, and new pieces. 0 where the device has no more. */
static uint32_t grow(Async *self, uint32_t pool, EchBytes bytes)
{
    uint32_t tail = tail_for(self, pool);
    EchBytes lacks = bytes - (tail ? self->blocks[tail].bytes : 0);
    uint32_t at = extend(self, ech_round_up(lacks, self->growth));
    if (!at) {
        at = extend(self, ech_round_up(lacks, self->base.memory.granule));
        self->has_small_pieces |= at != 0;
    }
    if (!at || !tail)
        return at;
    pull(self, tail);
    join(self, tail, at);
    self->blocks[tail].pool = COMMON; /* What is left of it will be of the new piece */
    self->blocks[tail].stamp = 0;
    return tail;
}

static bool async_init(EchAllocator *base, GError **error)
{
    (void)error;
    Async *self = (Async *)base;
    self->pools = g_new0(Pool, 2);
    self->n_pools = 1;
    self->growth = ech_round_up(self->growth, base->memory.granule);
    self->base_address = ech_device_memory_reserve(&base->memory, 0, false, &self->reservation);
    self->growing = new_segment(self, (Segment){.address = self->base_address, .end = self->base_address});
    uint32_t at = self->preallocated ? grow(self, COMMON, self->preallocated) : 0;
    if (at)
        put(self, at);
    return true;
}

static bool async_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Async *self = (Async *)base;
    EchBytes held = base->stats.requested;
    if (request->bytes > base->memory.capacity || held > base->limit || request->bytes > base->limit - held)
        return false;
    EchBytes bytes = ech_round_up(request->bytes, 512);
    uint32_t pool = pool_of(self, request->stream);
    uint32_t at = take_from(self, pool, bytes);
    if (!at)
        at = take_from(self, COMMON, bytes);
    if (!at && join_loose(self, pool))
        at = take_from(self, pool, bytes);
    if (!at)
        at = grow(self, pool, bytes);
    for (uint32_t other = 1; !at && self->internal && other < self->n_pools; other++) {
        join_loose(self, other);
        at = take_from(self, other, bytes);
        self->waits += at != 0;
    }
    if (!at) {
        /* Out of memory: everything is synchronised and given back before failing. */
        complete_all(self);
        at = take_from(self, COMMON, bytes);
        if (!at) {
            trim(self, COMMON, 0);
            at = grow(self, pool, bytes);
        }
        if (!at && self->remap && gather_pages(self, pool, bytes))
            at = grow(self, pool, bytes);
        if (!at)
            return false;
    }
    Block block = self->blocks[at];
    self->blocks[at].used = true;
    if (block.bytes > bytes) {
        Block rest = {.address = block.address + bytes,
                      .bytes = block.bytes - bytes,
                      .prev = at,
                      .next = block.next,
                      .segment = block.segment,
                      .pool = block.pool,
                      .stamp = block.stamp};
        self->blocks[at].bytes = bytes;
        uint32_t tail = new_block(self, rest);
        self->blocks[at].next = tail;
        if (block.next)
            self->blocks[block.next].prev = tail;
        else
            self->segments[block.segment].last = tail;
        put(self, tail);
    }
    self->blocks[at].pool = pool;
    self->blocks[at].stamp = 0; /* Known when it is freed */
    live->address = block.address;
    live->rounded = bytes;
    live->handle = at;
    live->segment = self->reservation;
    ret->offset = block.address - self->base_address;
    return true;
}

static void async_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Async *self = (Async *)base;
    Block *block = &self->blocks[live->handle];
    if (block->stamp == 0)
        block->stamp = ++self->stamp;
    put(self, live->handle);
}

static EchBytes async_largest(const EchAllocator *base)
{
    const Async *self = (const Async *)base;
    EchBytes largest = 0;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        EchTreeIter it = ech_tree_last(&self->pools[i].free);
        if (it.leaf)
            largest = MAX(largest, self->blocks[ech_tree_iter_value(it)].bytes);
    }
    return largest;
}

static void async_walk(const EchAllocator *base, GArray *out)
{
    const Async *self = (const Async *)base;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        for (EchTreeIter it = ech_tree_first(&self->pools[i].free); it.leaf; it = ech_tree_next(it)) {
            const Block *block = &self->blocks[ech_tree_iter_value(it)];
            EchAllocBlock found = {.segment = self->reservation, .address = block->address, .bytes = block->bytes, .id = UINT32_MAX};
            found.state = ECH_BLOCK_FREE;
            found.stream = self->pools[i].stream;
            g_array_append_val(out, found);
        }
    }
}

static void async_own_stats(EchAllocator *base, GArray *out)
{
    const Async *self = (const Async *)base;
    ech_alloc_add_stat(out, "cudaMemPoolAttrReservedMemCurrent", (int64_t)base->stats.reserved);
    ech_alloc_add_stat(out, "cudaMemPoolAttrReservedMemHigh", (int64_t)base->stats.peak_reserved);
    ech_alloc_add_stat(out, "cudaMemPoolAttrUsedMemCurrent", (int64_t)base->stats.live);
    ech_alloc_add_stat(out, "cudaMemPoolAttrUsedMemHigh", (int64_t)base->stats.peak_live);
    ech_alloc_add_stat(out, "inserted_waits", self->waits);
    ech_alloc_add_stat(out, "ranges_given_back", self->trims);
    ech_alloc_add_stat(out, "remapped_bytes", self->remapped);
}

const EchAllocClass ech_alloc_cuda_async = {
    .name = "cuda_async",
    .summary = "cudaMallocAsync's stream-ordered pool; its placement is a model",
    .source = "CUDA runtime API, stream ordered memory allocator and cudaMemPoolAttr",
    .note = "placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what "
            "NVIDIA says, and users report more fragmentation",
    .size = sizeof(Async),
    .params = params,
    .configure = async_configure,
    .init = async_init,
    .done = async_done,
    .alloc = async_alloc,
    .release = async_release,
    .stream_done = async_stream_done,
    .free_on = async_free_on,
    .ordered = async_ordered,
    .passed = async_passed,
    .empty_cache = async_empty_cache,
    .largest_free = async_largest,
    .walk_free = async_walk,
    .own_stats = async_own_stats,
};
