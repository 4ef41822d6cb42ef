/* PyTorch's allocator of pinned host memory (torch.Tensor.pin_memory, DataLoader(pin_memory=True)): a request takes a block of the next power of two, blocks
 * are never split, joined or given back but by empty_cache, and one in use by a copy comes back when the copy is done. Facts: ATen/core/CachingHostAllocator.h
 * of PyTorch 2.6, 2.9, 2.13 and 2.15, and ATen/cuda/CachingHostAllocator.cpp, whose pages are the operating system's.
 *
 * Not modelled: background threads, which look for finished copies at times of their own, and blocks that a captured graph keeps. */
#include "models/alloc/class.h"
#include "models/alloc/pytorch_conf.h"

enum { PAGE = 4096, CLASSES = 65 };

typedef struct {
    uint64_t address;
    EchBytes bytes;
    GArray *uses;    /* streams (uint32_t), or NULL */
    uint32_t events; /* outstanding */
    uint32_t segment, next;
    bool used, reserved; /* reserved: of the segment taken at first, which stays */
} Block;

/* An event behind a copy: of the block that was freed. */
typedef struct {
    uint32_t stream, block;
    uint64_t number;
} Event;

typedef struct {
    uint32_t stream;
    uint64_t done; /* events up to this number are complete */
} Stream;

typedef struct {
    EchAllocator base;
    EchPyTorchConf conf;
    GArray *blocks;          /* Block; number 0 is none */
    uint32_t spare;          /* list of dropped ones */
    uint32_t *free[CLASSES]; /* by the power of two that holds them, last freed last */
    uint32_t n_free[CLASSES], allocated_free[CLASSES];
    GArray *events; /* Event, oldest first, from event_head on */
    guint event_head;
    uint64_t n_events;
    GArray *streams; /* Stream */
    uint64_t reserve_at, reserve_end;
    uint32_t reserve_segment;
} Pinned;

static Block *block_at(const Pinned *self, uint32_t at)
{
    return &g_array_index(self->blocks, Block, at);
}

/* The power of two that holds @bytes, which are at least 1. */
static unsigned class_of(EchBytes bytes)
{
    return bytes > 1 ? 64u - (unsigned)__builtin_clzll(bytes - 1) : 0;
}

/* What is of the reserved segment cannot go back, and is nobody's from here on: the real one drops its block, and never goes back in the segment. */
static void give(Pinned *self, uint32_t at)
{
    Block *block = block_at(self, at);
    if (block->reserved)
        return;
    ech_alloc_give_segment(&self->base, block->address, block->bytes);
    *block = (Block){.next = self->spare};
    self->spare = at;
}

static void put(Pinned *self, uint32_t at)
{
    unsigned k = class_of(block_at(self, at)->bytes);
    if (block_at(self, at)->bytes > self->conf.pinned_cached) {
        give(self, at);
        return;
    }
    if (self->n_free[k] == self->allocated_free[k]) {
        self->allocated_free[k] = self->allocated_free[k] ? self->allocated_free[k] * 2 : 16;
        self->free[k] = g_renew(uint32_t, self->free[k], self->allocated_free[k]);
    }
    self->free[k][self->n_free[k]++] = at;
}

/* The block freed last that is large enough: in a class all are but where pinned_max_round_threshold_mb left some unrounded. 0: none. */
static uint32_t pull(Pinned *self, EchBytes bytes)
{
    unsigned k = class_of(bytes);
    for (uint32_t i = self->n_free[k]; i-- > 0;) {
        uint32_t at = self->free[k][i];
        if (block_at(self, at)->bytes < bytes)
            continue;
        for (uint32_t j = i + 1; j < self->n_free[k]; j++)
            self->free[k][j - 1] = self->free[k][j];
        self->n_free[k]--;
        return at;
    }
    return 0;
}

static Stream *stream_of(Pinned *self, uint32_t number)
{
    for (guint i = 0; i < self->streams->len; i++) {
        Stream *stream = &g_array_index(self->streams, Stream, i);
        if (stream->stream == number)
            return stream;
    }
    Stream stream = {.stream = number};
    g_array_append_val(self->streams, stream);
    return &g_array_index(self->streams, Stream, self->streams->len - 1);
}

/* Up to the oldest event that is not complete, whatever its stream. */
static void process_events(Pinned *self)
{
    while (self->event_head < self->events->len) {
        Event event = g_array_index(self->events, Event, self->event_head);
        if (event.number > stream_of(self, event.stream)->done)
            break;
        self->event_head++;
        if (--block_at(self, event.block)->events == 0)
            put(self, event.block);
    }
    if (self->event_head > self->events->len / 2) {
        g_array_remove_range(self->events, 0, self->event_head);
        self->event_head = 0;
    }
}

/* A new block of whole bytes, from the reserved segment while that lasts. 0: refused. */
static uint32_t make(Pinned *self, EchBytes bytes)
{
    Block block = {.bytes = bytes};
    EchBytes pages = ech_round_up(bytes, PAGE);
    if (pages >= bytes && pages <= self->reserve_end - self->reserve_at) {
        block.address = self->reserve_at;
        block.segment = self->reserve_segment;
        block.reserved = true;
        self->reserve_at += pages;
    } else if (!ech_alloc_take_segment(&self->base, bytes, &block.address, &block.segment)) {
        return 0;
    }
    uint32_t at = self->spare;
    if (at) {
        self->spare = block_at(self, at)->next;
        *block_at(self, at) = block;
        return at;
    }
    g_array_append_val(self->blocks, block);
    return self->blocks->len - 1;
}

static bool pinned_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Pinned *self = (Pinned *)base;
    process_events(self);
    EchBytes bytes = request->bytes;
    if (bytes > UINT64_C(1) << 62)
        return false;
    if (bytes <= self->conf.pinned_round && bytes <= self->conf.pinned_cached)
        bytes = UINT64_C(1) << class_of(bytes);
    uint32_t at = pull(self, bytes);
    if (!at)
        at = make(self, bytes);
    if (!at)
        return false;
    Block *block = block_at(self, at);
    block->used = true;
    live->address = block->address;
    live->rounded = block->bytes;
    live->handle = at;
    live->segment = block->segment;
    ret->offset = block->reserved ? block->address - (self->reserve_end - self->conf.pinned_reserve) : 0;
    return true;
}

static void pinned_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Pinned *self = (Pinned *)base;
    Block *block = block_at(self, live->handle);
    block->used = false;
    if (!block->uses) {
        put(self, live->handle);
        return;
    }
    block->events = block->uses->len;
    for (guint i = 0; i < block->uses->len; i++) {
        Event event = {g_array_index(block->uses, uint32_t, i), live->handle, ++self->n_events};
        g_array_append_val(self->events, event);
    }
    g_clear_pointer(&block->uses, g_array_unref);
}

static void pinned_record_stream(EchAllocator *base, uint32_t id, const EchLive *live, uint32_t stream)
{
    (void)id;
    Block *block = block_at((Pinned *)base, live->handle);
    if (!block->uses)
        block->uses = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (guint i = 0; i < block->uses->len; i++) {
        if (g_array_index(block->uses, uint32_t, i) == stream)
            return;
    }
    g_array_append_val(block->uses, stream);
}

static void pinned_stream_done(EchAllocator *base, uint32_t stream)
{
    Pinned *self = (Pinned *)base;
    stream_of(self, stream)->done = self->n_events;
}

static void pinned_empty_cache(EchAllocator *base)
{
    Pinned *self = (Pinned *)base;
    process_events(self);
    for (unsigned k = 0; k < CLASSES; k++) {
        for (uint32_t i = 0; i < self->n_free[k]; i++)
            give(self, self->free[k][i]);
        self->n_free[k] = 0;
    }
}

static void pinned_walk(const EchAllocator *base, GArray *out)
{
    const Pinned *self = (const Pinned *)base;
    for (guint at = 1; at < self->blocks->len; at++) {
        const Block *block = block_at(self, at);
        EchAllocBlock rest = {.segment = block->segment, .state = ECH_BLOCK_FREE, .address = block->address + block->bytes, .id = UINT32_MAX};
        rest.bytes = ech_round_up(block->bytes, PAGE) - block->bytes;
        if (block->reserved && rest.bytes) /* of its last page: nobody's */
            g_array_append_val(out, rest);
        if (block->used || block->bytes == 0)
            continue;
        EchAllocBlock found = {.segment = block->segment, .address = block->address, .bytes = block->bytes, .id = UINT32_MAX};
        found.state = block->events ? ECH_BLOCK_PENDING : ECH_BLOCK_FREE;
        g_array_append_val(out, found);
    }
    if (self->reserve_at < self->reserve_end) {
        EchAllocBlock rest = {.segment = self->reserve_segment, .address = self->reserve_at, .bytes = self->reserve_end - self->reserve_at, .id = UINT32_MAX};
        rest.state = ECH_BLOCK_FREE;
        g_array_append_val(out, rest);
    }
}

static EchBytes pinned_largest(const EchAllocator *base)
{
    const Pinned *self = (const Pinned *)base;
    EchBytes largest = self->reserve_end - self->reserve_at;
    for (unsigned k = 0; k < CLASSES; k++) {
        for (uint32_t i = 0; i < self->n_free[k]; i++)
            largest = MAX(largest, block_at(self, self->free[k][i])->bytes);
    }
    return largest;
}

static void pinned_done(EchAllocator *base)
{
    Pinned *self = (Pinned *)base;
    for (guint at = 1; self->blocks && at < self->blocks->len; at++)
        g_clear_pointer(&block_at(self, at)->uses, g_array_unref);
    for (unsigned k = 0; k < CLASSES; k++)
        g_free(self->free[k]);
    g_clear_pointer(&self->blocks, g_array_unref);
    g_clear_pointer(&self->events, g_array_unref);
    g_clear_pointer(&self->streams, g_array_unref);
    ech_pytorch_conf_clear(&self->conf);
}

static bool pinned_configure(EchAllocator *base, const char *text, GError **error)
{
    Pinned *self = (Pinned *)base;
    if (!ech_pytorch_conf_read(text, &self->conf, error))
        return false;
    base->memory.granule = PAGE;
    const Block none = {0};
    self->blocks = g_array_new(FALSE, FALSE, sizeof(Block));
    g_array_append_val(self->blocks, none);
    self->events = g_array_new(FALSE, FALSE, sizeof(Event));
    self->streams = g_array_new(FALSE, FALSE, sizeof(Stream));
    if (self->conf.pinned_reserve && ech_alloc_take_segment(base, self->conf.pinned_reserve, &self->reserve_at, &self->reserve_segment))
        self->reserve_end = self->reserve_at + self->conf.pinned_reserve;
    return true;
}

const EchAllocClass ech_alloc_pytorch_pinned = {
    .name = "pytorch_pinned",
    .summary = "PyTorch's allocator of pinned host memory; everything after 'pytorch_pinned:' is PYTORCH_CUDA_ALLOC_CONF",
    .source = "PyTorch 2.6 to 2.15: ATen/core/CachingHostAllocator.h",
    .size = sizeof(Pinned),
    .configure = pinned_configure,
    .done = pinned_done,
    .alloc = pinned_alloc,
    .release = pinned_release,
    .record_stream = pinned_record_stream,
    .stream_done = pinned_stream_done,
    .empty_cache = pinned_empty_cache,
    .largest_free = pinned_largest,
    .walk_free = pinned_walk,
};
