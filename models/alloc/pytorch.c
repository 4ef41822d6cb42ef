/* PyTorch's CUDA caching allocator, release 2.6.0 and the settings of later ones; told "release:2.N", what was found to differ in that one.
 *
 * Free blocks are kept per (pool, stream) in a tree by (bytes, address), because blocks never change streams; what walks "the whole
 * pool in order" in the original does not depend on the order between streams. Facts: c10/cuda/CUDACachingAllocator.cpp ("CCA") and
 * CUDAAllocatorConfig.cpp ("CFG") of PyTorch 2.6.0; pytorch_conf.c reads the settings. */
#include "models/alloc/pytorch_private.h"
#include "sim/base/error.h"

#include <math.h>
#include <string.h>

static const EchBytes MIN_LARGE = UINT64_C(10) << 20;
static const EchBytes ROUND_LARGE = UINT64_C(2) << 20;

/* ---- blocks, segments, pools ---- */

uint32_t ech_pytorch_new_block(PyTorch *self, Block block)
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

void ech_pytorch_drop_block(PyTorch *self, uint32_t at)
{
    self->blocks[at] = (Block){.next = self->spare_block};
    self->spare_block = at;
}

uint32_t ech_pytorch_new_segment(PyTorch *self, Segment segment)
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

void ech_pytorch_drop_segment(PyTorch *self, uint32_t at)
{
    self->segments[at] = (Segment){.number = self->spare_segment};
    self->spare_segment = at + 1;
}

/* The pool of @stream, n_pools where it has none. */
uint32_t ech_pytorch_find_pool(const PyTorch *self, uint32_t stream, bool small)
{
    EchTreeKey key = ech_tree_key(stream, small);
    EchTreeIter it = ech_tree_lower_bound(&self->pool_index, key);
    return it.leaf && ech_tree_iter_key(it) == key ? ech_tree_iter_value(it) : self->n_pools;
}

uint32_t ech_pytorch_pool_of(PyTorch *self, uint32_t stream, bool small, bool private, bool captured)
{
    uint32_t last = self->last_pool[small];
    if (last < self->n_pools && self->pools[last].stream == stream && self->pools[last].small == small)
        return last;
    last = ech_pytorch_find_pool(self, stream, small);
    if (last == self->n_pools) {
        self->n_pools++;
        if ((last & (last - 1)) == 0)
            self->pools = g_renew(Pool, self->pools, last ? last * 2 : 2);
        self->pools[last] = (Pool){.stream = stream, .small = small, .private = private, .captured = captured};
        ech_tree_insert(&self->pool_index, ech_tree_key(stream, small), last);
    }
    self->last_pool[small] = last;
    return last;
}

/* Joins @from, a neighbour of @at or 0, into @at. Its bytes, or 0 where it stays. @at is in no set. */
EchBytes ech_pytorch_try_merge(PyTorch *self, uint32_t at, uint32_t from)
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
    ech_pytorch_drop_block(self, from);
    return bytes;
}

/* A new block between @prev and @next (neighbours or 0). */
uint32_t ech_pytorch_splice(PyTorch *self, Block block, uint32_t prev, uint32_t next)
{
    block.prev = prev;
    block.next = next;
    uint32_t at = ech_pytorch_new_block(self, block);
    if (prev)
        self->blocks[prev].next = at;
    if (next)
        self->blocks[next].prev = at;
    return at;
}

static EchBytes segment_size(const PyTorch *self, EchBytes size)
{
    if (size <= ECH_PYTORCH_SMALL_SIZE)
        return ECH_PYTORCH_SMALL_BUFFER;
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
        EchBytes joined = ech_pytorch_try_merge(self, at, neighbours[i]);
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
void ech_pytorch_process_events(PyTorch *self)
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

void ech_pytorch_synchronize(PyTorch *self)
{
    self->syncs++;
    for (uint32_t i = 0; i < self->n_events; i++)
        complete(self, &self->events[i]);
    ech_pytorch_process_events(self);
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

static uint32_t alloc_block(PyTorch *self, uint32_t pool, EchBytes size, bool retry)
{
    EchBytes whole = segment_size(self, size);
    self->retries += retry;
    if (self->limited && ech_bytes_add(self->total, whole) > self->allowed)
        return 0;
    self->rejected = ech_bytes_add(self->total, whole) > self->most;
    if (self->rejected)
        return 0;
    if (self->conf.expandable) {
        uint32_t at = ech_pytorch_allocate_expandable(self, pool, size);
        self->pools[pool].mallocs += at != 0;
        return at;
    }
    uint64_t address;
    uint32_t number;
    if (!ech_alloc_take_segment(&self->base, whole, &address, &number))
        return 0;
    bool small = self->pools[pool].small;
    self->total += whole;
    self->pools[pool].mallocs++;
    Segment segment = {.address = address, .bytes = whole, .number = number, .reservation = -1};
    Block block = {.address = address, .bytes = whole, .pool = pool, .segment = ech_pytorch_new_segment(self, segment), .mapped = true};
    count(self, SEGMENT, small, 1);
    count(self, RESERVED_BYTES, small, (int64_t)whole);
    if (whole >= self->conf.max_split)
        stat_add(&self->oversize_segments, 1);
    self->device_allocs++;
    return ech_pytorch_new_block(self, block);
}

static bool should_split(const PyTorch *self, bool small, EchBytes bytes, EchBytes size)
{
    EchBytes remaining = bytes - size;
    if (small || self->conf.expandable)
        return remaining >= ECH_PYTORCH_MIN_BLOCK;
    return size < self->conf.max_split && remaining > ECH_PYTORCH_SMALL_SIZE;
}

/* Where no free block will do: gives back what has been idle for long, takes from the device, and gives back more and tries again. 0: out of memory, also
 * by throw_on_cudamalloc_oom, which gives nothing back. What is @captured must not wait for the device, so nothing is given back for it. */
static uint32_t make_block(PyTorch *self, uint32_t pool, EchBytes size, bool captured)
{
    if (self->collects)
        ech_pytorch_garbage_collect(self);
    self->rejected = false;
    uint32_t at = alloc_block(self, pool, size, false);
    if (!at && !self->rejected && ech_pytorch_release_available(self, pool, size))
        at = alloc_block(self, pool, size, false);
    if (!at && !self->rejected && !captured) {
        ech_pytorch_release_cached(self);
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
        at = ech_pytorch_splice(self, low, low.prev, rest);
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
        return false; /* refused before anything else is done ("more than 1EB", NativeCachingAllocator::allocate) */
    /* A capture must not ask the device; up to 2.12 a MemPool's requests count as one. */
    bool captured = request->private_pool && (request->captured || self->conf.release < 13);
    if (!captured)
        ech_pytorch_process_events(self);
    EchBytes size = ech_pytorch_round(&self->conf, request->bytes);
    bool small = size <= ECH_PYTORCH_SMALL_SIZE;
    uint32_t pool = ech_pytorch_pool_of(self, request->stream, small, request->private_pool, request->captured);
    uint32_t at = get_free_block(self, pool, size);
    if (!at)
        at = make_block(self, pool, size, captured);
    if (!at)
        return false;
    at = cut(self, at, size, small);
    Block *block = &self->blocks[at];
    const Segment *segment = &self->segments[block->segment];
    block->allocated = true;
    self->pools[pool].n_allocated++;
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
    self->pools[block->pool].n_allocated--;
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

static void pytorch_set_expandable(EchAllocator *base, bool on)
{
    ((PyTorch *)base)->conf.expandable = on;
}

static void pytorch_pool_done(EchAllocator *base, uint32_t stream)
{
    PyTorch *self = (PyTorch *)base;
    bool at_once = false;
    for (int small = 0; small < 2; small++) { /* its large pool first */
        uint32_t at = ech_pytorch_find_pool(self, stream, small);
        if (at == self->n_pools)
            continue;
        Pool *pool = &self->pools[at];
        bool again = pool->done;
        pool->done = true;
        if (pool->private && pool->touched && !again)
            ech_pytorch_touch(self, at);
        if (!pool->private || pool->captured)
            continue;
        at_once = true;
        ech_pytorch_release_pool(self, at);
    }
    self->syncs += at_once;
    for (int small = 0; small < 2 && at_once; small++) {
        uint32_t at = ech_pytorch_find_pool(self, stream, small);
        if (at < self->n_pools)
            ech_pytorch_forget(self, at);
    }
}

static EchBytes pytorch_kept(const EchAllocator *base, uint32_t stream, bool private_pool)
{
    const PyTorch *self = (const PyTorch *)base;
    EchBytes kept = 0;
    for (uint32_t i = 0; i < self->n_pools; i++) {
        const Pool *pool = &self->pools[i];
        bool given = pool->private ? pool->stream == stream || (pool->done && !pool->forgotten && !private_pool) : !private_pool;
        if (given)
            continue;
        for (EchTreeIter it = ech_tree_first(&pool->free); it.leaf; it = ech_tree_next(it))
            kept += self->blocks[ech_tree_iter_value(it)].bytes;
    }
    return kept;
}

static void pytorch_empty_cache(EchAllocator *base)
{
    ech_pytorch_release_cached((PyTorch *)base);
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
    g_free(self->touched);
    g_free(self->events);
    g_aligned_free(self->blocks);
    g_free(self->segments);
    g_free(self->uses);
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

static const char *const stat_names[N_STATS] = {
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes"};

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
    self->most = !conf->reject ? UINT64_MAX : self->limited ? (EchBytes)(conf->fraction * (double)base->total) : capacity;
    if (self->limited) {
        double allowed = conf->fraction * (double)base->total; /* setMemoryFraction() of CUDACachingAllocator.cpp */
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
    .set_expandable = pytorch_set_expandable,
    .kept = pytorch_kept,
    .prefetch = pytorch_prefetch,
    .give_back = ech_pytorch_give_back,
    .empty_cache = pytorch_empty_cache,
    .seed = ech_pytorch_seed,
    .largest_free = pytorch_largest,
    .walk_free = pytorch_walk,
    .own_stats = pytorch_own_stats,
};
