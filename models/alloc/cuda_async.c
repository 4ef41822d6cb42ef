/* cudaMallocAsync's pool as documented (CUDA runtime API, stream ordered memory allocator): reuse in stream order, across streams after
 * completion or by an inserted wait, memory above the release threshold given back at a synchronisation.
 *
 * The placement policy, the granularity and the growth step are not documented. Here: best fit by (bytes, address), 512 bytes, ranges of at
 * least 32 MiB (assumed). A request that would fail although as many bytes are free has free pages of the pool moved together for it (NVIDIA's introduction
 * to the allocator, 2021: unused memory of the pool is remapped to a contiguous part of the address space). */
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
    uint32_t pool;    /* free: where; used: the stream's pool */
    bool used;
} Block;

typedef struct {
    uint64_t address;
    uint32_t number, next;
} Segment;

typedef struct {
    uint32_t stream;
    EchTree free;  /* (bytes, address) */
    EchTree whole; /* those that are all of their segment */
} Pool;

typedef struct {
    EchAllocator base;
    EchBytes release_threshold, growth, preallocated;
    uint64_t opportunistic, internal, remap;
    Block *blocks;
    uint32_t n_blocks, allocated_blocks, spare_block;
    Segment *segments;
    uint32_t n_segments, spare_segment;
    Pool *pools;
    uint32_t n_pools, last_pool;
    EchTree pool_index;
    int64_t waits, trims, remapped;
} Async;

static const EchParam params[] = {
    {"release_threshold", ECH_PARAM_BYTES, offsetof(Async, release_threshold), "0", NULL, NULL, NULL,
     "bytes kept at a synchronisation (cudaMemPoolAttrReleaseThreshold)"},
    {"reuse_opportunistic", ECH_PARAM_BOOL, offsetof(Async, opportunistic), "true", NULL, NULL, NULL,
     "another stream may reuse what is complete (cudaMemPoolReuseAllowOpportunistic)"},
    {"reuse_internal_dependencies", ECH_PARAM_BOOL, offsetof(Async, internal), "true", NULL, NULL, NULL,
     "the driver may insert a wait to reuse (cudaMemPoolReuseAllowInternalDependencies)"},
    {"remap", ECH_PARAM_BOOL, offsetof(Async, remap), "true", NULL, NULL, NULL, "free pages are moved together for a request that would fail"},
    {"growth", ECH_PARAM_BYTES, offsetof(Async, growth), "32MiB", "2MiB", "1TiB", NULL, "least bytes taken from the device at once (assumed)"},
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
        ech_tree_clear(&self->pools[i].whole);
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

static bool is_whole(const Block *block)
{
    return !block->prev && !block->next;
}

/* Takes a free block out of its pool. */
static void pull(Async *self, uint32_t at)
{
    const Block *block = &self->blocks[at];
    ech_tree_remove(&self->pools[block->pool].free, key_of(block));
    if (is_whole(block))
        ech_tree_remove(&self->pools[block->pool].whole, key_of(block));
}

/* Joins a free block with free neighbours of its pool and puts it there. */
static void put(Async *self, uint32_t at)
{
    Block *blocks = self->blocks;
    uint32_t pool = blocks[at].pool, next = blocks[at].next, prev = blocks[at].prev;
    blocks[at].used = false;
    if (next && !blocks[next].used && blocks[next].pool == pool) {
        pull(self, next);
        blocks[at].bytes += blocks[next].bytes;
        blocks[at].next = blocks[next].next;
        if (blocks[at].next)
            blocks[blocks[at].next].prev = at;
        drop_block(self, next);
    }
    if (prev && !blocks[prev].used && blocks[prev].pool == pool) {
        pull(self, prev);
        blocks[prev].bytes += blocks[at].bytes;
        blocks[prev].next = blocks[at].next;
        if (blocks[prev].next)
            blocks[blocks[prev].next].prev = prev;
        drop_block(self, at);
        at = prev;
    }
    ech_tree_insert(&self->pools[pool].free, key_of(&blocks[at]), at);
    if (is_whole(&blocks[at]))
        ech_tree_insert(&self->pools[pool].whole, key_of(&blocks[at]), at);
}

/* What was freed on a stream is complete: free for all. */
static void complete(Async *self, uint32_t pool)
{
    EchTree *tree = &self->pools[pool].free;
    for (EchTreeIter it = ech_tree_first(tree); it.leaf; it = ech_tree_first(tree)) {
        uint32_t at = ech_tree_iter_value(it);
        pull(self, at);
        self->blocks[at].pool = COMMON;
        put(self, at);
    }
}

/* Gives whole free segments of a pool back until no more than @keep bytes are reserved; the smallest first, so that little more goes than must. */
static void trim(Async *self, uint32_t pool, EchBytes keep)
{
    for (EchTreeIter it; self->base.stats.reserved > keep && (it = ech_tree_first(&self->pools[pool].whole)).leaf; self->trims++) {
        uint32_t at = ech_tree_iter_value(it);
        Block block = self->blocks[at];
        pull(self, at);
        ech_alloc_give_segment(&self->base, block.address, block.bytes);
        self->segments[block.segment] = (Segment){.next = self->spare_segment};
        self->spare_segment = block.segment + 1;
        drop_block(self, at);
    }
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
    return at;
}

/* Takes the pages [from, to) out of the free block @at, which is in no tree; what stays of its segment on either side becomes a segment of its own, under
 * the same number. */
static void cut_pages(Async *self, uint32_t at, uint64_t from, uint64_t to)
{
    Block block = self->blocks[at];
    Segment segment = self->segments[block.segment];
    uint32_t left = block.prev, right = block.next, slot = block.segment;
    uint64_t end = block.address + block.bytes;
    drop_block(self, at);
    if (from > block.address) {
        left = new_block(self, (Block){.address = block.address, .bytes = from - block.address, .prev = block.prev, .segment = slot});
        if (block.prev)
            self->blocks[block.prev].next = left;
        put(self, left);
    } else if (left) {
        self->blocks[left].next = 0;
    }
    if (end > to || right) {
        segment.address = to;
        if (left)
            slot = new_segment(self, segment);
        else
            self->segments[slot] = segment;
        if (right)
            self->blocks[right].prev = 0;
        for (uint32_t b = right; b; b = self->blocks[b].next)
            self->blocks[b].segment = slot;
        if (end > to) {
            uint32_t rest = new_block(self, (Block){.address = to, .bytes = end - to, .next = right, .segment = slot});
            if (right)
                self->blocks[right].prev = rest;
            put(self, rest);
        }
    }
    ech_device_memory_give(&self->base.memory, from, to - from);
    ech_alloc_count_reserved(&self->base, 0, to - from);
    self->remapped += (int64_t)(to - from);
}

/* Unmaps whole pages of free blocks until the device has @bytes, the largest first; false, and nothing done, where there are not as many. */
static bool gather_pages(Async *self, EchBytes bytes)
{
    EchTree *tree = &self->pools[COMMON].free;
    EchBytes granule = self->base.memory.granule, whole = ech_round_up(bytes, granule), there = self->base.memory.capacity - self->base.memory.used;
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (EchTreeIter it = ech_tree_last(tree); it.leaf && there < whole; it = ech_tree_prev(it)) {
        uint32_t at = ech_tree_iter_value(it);
        const Block *block = &self->blocks[at];
        uint64_t from = ech_round_up(block->address, granule), to = (block->address + block->bytes) / granule * granule;
        if (block->bytes < granule)
            break;
        /* Whole segments were given back before. */
        if (to > from && !is_whole(block)) {
            there += to - from;
            g_array_append_val(found, at);
        }
    }
    if (there < whole)
        return false;
    for (guint i = 0; i < found->len; i++) {
        uint32_t at = g_array_index(found, uint32_t, i);
        const Block *block = &self->blocks[at];
        uint64_t from = ech_round_up(block->address, granule), to = (block->address + block->bytes) / granule * granule;
        pull(self, at);
        cut_pages(self, at, from, to);
    }
    return true;
}

static void async_stream_done(EchAllocator *base, uint32_t stream)
{
    Async *self = (Async *)base;
    uint32_t pool = pool_of(self, stream);
    if (self->opportunistic)
        complete(self, pool);
    trim(self, pool, self->release_threshold);
    trim(self, COMMON, self->release_threshold);
}

/* PyTorch's backend synchronises and trims its pool to nothing. */
static void async_empty_cache(EchAllocator *base)
{
    Async *self = (Async *)base;
    for (uint32_t other = 1; other < self->n_pools; other++)
        complete(self, other);
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

static uint32_t grow(Async *self, EchBytes bytes)
{
    EchBytes whole = ech_round_up(MAX(bytes, self->growth), self->base.memory.granule);
    uint64_t address;
    uint32_t number, at;
    if (!ech_alloc_take_segment(&self->base, whole, &address, &number)) {
        whole = ech_round_up(bytes, self->base.memory.granule);
        if (!ech_alloc_take_segment(&self->base, whole, &address, &number))
            return 0;
    }
    at = new_segment(self, (Segment){.address = address, .number = number});
    return new_block(self, (Block){.address = address, .bytes = whole, .segment = at, .pool = COMMON});
}

static bool async_init(EchAllocator *base, GError **error)
{
    (void)error;
    Async *self = (Async *)base;
    self->pools = g_new0(Pool, 2);
    self->n_pools = 1;
    uint32_t at = self->preallocated ? grow(self, self->preallocated) : 0;
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
    for (uint32_t other = 1; !at && self->internal && other < self->n_pools; other++) {
        at = take_from(self, other, bytes);
        self->waits += at != 0;
    }
    if (!at)
        at = grow(self, bytes);
    if (!at) {
        /* Out of memory: everything is synchronised and given back before failing. */
        for (uint32_t other = 1; other < self->n_pools; other++)
            complete(self, other);
        at = take_from(self, COMMON, bytes);
        if (!at) {
            trim(self, COMMON, 0);
            at = grow(self, bytes);
        }
        if (!at && self->remap && gather_pages(self, bytes))
            at = grow(self, bytes);
        if (!at)
            return false;
    }
    Block block = self->blocks[at];
    self->blocks[at].used = true;
    if (block.bytes > bytes) {
        Block rest = {
            .address = block.address + bytes, .bytes = block.bytes - bytes, .prev = at, .next = block.next, .segment = block.segment, .pool = block.pool};
        self->blocks[at].bytes = bytes;
        uint32_t tail = new_block(self, rest);
        self->blocks[at].next = tail;
        if (block.next)
            self->blocks[block.next].prev = tail;
        put(self, tail);
    }
    self->blocks[at].pool = pool;
    const Segment *segment = &self->segments[block.segment];
    live->address = block.address;
    live->rounded = bytes;
    live->handle = at;
    live->segment = segment->number;
    ret->offset = block.address - segment->address;
    return true;
}

static void async_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    put((Async *)base, live->handle);
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
            EchAllocBlock found = {.segment = self->segments[block->segment].number, .address = block->address, .bytes = block->bytes, .id = UINT32_MAX};
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
    .empty_cache = async_empty_cache,
    .largest_free = async_largest,
    .walk_free = async_walk,
    .own_stats = async_own_stats,
};
