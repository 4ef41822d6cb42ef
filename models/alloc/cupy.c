/* CuPy's memory pool: per stream the smallest free block that is large enough, cut to size; else a cudaMalloc of just those bytes. */
#include "models/alloc/chunks.h"
#include "models/alloc/class.h"
#include "models/alloc/tree.h"
#include "sim/base/error.h"

#include <string.h>

enum { UNIT = 512 };
/* A key of the tree has 32 bits for a block's units. */
static const EchBytes MOST = (EchBytes)UINT32_MAX * UNIT;

typedef struct {
    uint64_t address;
    EchBytes bytes; /* 0: given back, next is the next spare one + 1 */
    uint32_t stream, number, next;
} Segment;

typedef struct {
    EchAllocator base;
    char *limit_text;
    EchBytes limit; /* 0: none */
    EchBytes share_below;
    EchChunks chunks;
    EchTree free; /* (stream and units, address) */
    Segment *segments;
    uint32_t n_segments, spare;
} Cupy;

static const EchParam params[] = {
    {"CUPY_GPU_MEMORY_LIMIT", ECH_PARAM_STRING, offsetof(Cupy, limit_text), NULL, NULL, NULL, NULL,
     "most that the pool may hold: bytes, or a share of the device's memory (50%)"},
    {"share_below", ECH_PARAM_BYTES, offsetof(Cupy, share_below), "1MiB", NULL, "1GiB", NULL,
     "what the driver is asked for up to here shares its pages of 2 MiB with others (assumed)"},
    {0},
};

static bool cupy_init(EchAllocator *base, GError **error)
{
    Cupy *self = (Cupy *)base;
    base->memory.granule = UNIT;
    base->memory.capacity = MIN(base->memory.capacity, MOST);
    base->limit = MIN(base->limit, MOST);
    if (!self->limit_text)
        return true;
    size_t n = strlen(self->limit_text);
    if (n && self->limit_text[n - 1] == '%') {
        char *end;
        double percent = g_ascii_strtod(self->limit_text, &end);
        if (end != self->limit_text + n - 1 || !(percent >= 0 && percent <= 100)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "CUPY_GPU_MEMORY_LIMIT: '%s' is no share of the memory; expected something like 50%%",
                        self->limit_text);
            return false;
        }
        self->limit = (EchBytes)(percent / 100 * (double)base->total);
    } else if (!ech_parse_bytes(self->limit_text, &self->limit, error)) {
        return false;
    }
    if (self->limit)
        base->limit = MIN(base->limit, self->limit);
    return true;
}

static void cupy_done(EchAllocator *base)
{
    Cupy *self = (Cupy *)base;
    ech_chunks_clear(&self->chunks);
    ech_tree_clear(&self->free);
    g_free(self->segments);
}

static EchTreeKey key_of(uint32_t stream, EchBytes bytes, uint64_t address)
{
    return ech_tree_key((uint64_t)stream << 32 | bytes / UNIT, address);
}

static EchTreeKey key_of_chunk(const Cupy *self, uint32_t at)
{
    const EchChunk *chunk = &self->chunks.items[at];
    return key_of(self->segments[chunk->segment].stream, chunk->bytes, chunk->address);
}

static void put(Cupy *self, uint32_t at)
{
    ech_tree_insert(&self->free, key_of_chunk(self, at), at);
}

static void pull(void *data, uint32_t at)
{
    ech_tree_remove(&((Cupy *)data)->free, key_of_chunk(data, at));
}

/* What @bytes take of the device. */
static EchBytes pages_of(const Cupy *self, EchBytes bytes)
{
    return bytes > self->share_below ? ech_round_up(bytes, ECH_GRANULE) : bytes;
}

/* A cudaMalloc; false where the device refuses it. */
static bool take(Cupy *self, EchBytes bytes, uint32_t stream, uint32_t *ret_chunk)
{
    EchAllocator *base = &self->base;
    Segment segment = {.bytes = bytes, .stream = stream};
    if (!ech_device_memory_take(&base->memory, pages_of(self, bytes), &segment.address))
        return false;
    segment.number = base->n_segments++;
    base->stats.segments_allocated++;
    ech_alloc_count_reserved(base, bytes, 0);
    uint32_t at;
    if (self->spare) {
        at = self->spare - 1;
        self->spare = self->segments[at].next;
    } else {
        at = self->n_segments++;
        if ((at & (at - 1)) == 0) /* grow at powers of two */
            self->segments = g_renew(Segment, self->segments, at ? at * 2 : 2);
    }
    self->segments[at] = segment;
    *ret_chunk = ech_chunks_add(&self->chunks, segment.address, bytes, at);
    return true;
}

/* free_all_blocks(): every free block that is a whole cudaMalloc. */
static void free_all_blocks(EchAllocator *base)
{
    Cupy *self = (Cupy *)base;
    EchTreeIter it = ech_tree_first(&self->free);
    while (it.leaf) {
        EchTreeKey key = ech_tree_iter_key(it);
        uint32_t at = ech_tree_iter_value(it);
        const EchChunk *chunk = &self->chunks.items[at];
        if (chunk->prev || chunk->next) {
            it = ech_tree_next(it);
            continue;
        }
        Segment *segment = &self->segments[chunk->segment];
        ech_device_memory_give(&base->memory, segment->address, pages_of(self, segment->bytes));
        base->stats.segments_freed++;
        ech_alloc_count_reserved(base, 0, segment->bytes);
        uint32_t spare = chunk->segment + 1;
        *segment = (Segment){.next = self->spare};
        self->spare = spare;
        ech_tree_remove_at(&self->free, it);
        ech_chunks_drop(&self->chunks, at);
        it = ech_tree_lower_bound(&self->free, key);
    }
}

/* Whether @bytes more are within the limit, after giving back what is cached where that is needed; releases to 13 give nothing back for it. */
static bool make_room(Cupy *self, EchBytes bytes)
{
    if (bytes > self->limit)
        return false;
    if (bytes > self->limit - self->base.stats.reserved)
        free_all_blocks(&self->base);
    return bytes <= self->limit - self->base.stats.reserved;
}

static bool cupy_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Cupy *self = (Cupy *)base;
    if (request->bytes > MOST) {
        free_all_blocks(base);
        return false;
    }
    EchBytes bytes = ech_round_up(request->bytes, UNIT);
    EchTreeIter it = ech_tree_lower_bound(&self->free, key_of(request->stream, bytes, 0));
    uint32_t at;
    if (it.leaf && (uint64_t)(ech_tree_iter_key(it) >> 96) == request->stream) {
        at = ech_tree_iter_value(it);
        ech_tree_remove_at(&self->free, it);
        if (self->chunks.items[at].bytes > bytes)
            put(self, ech_chunks_split(&self->chunks, at, bytes));
    } else {
        if (self->limit && !make_room(self, bytes))
            return false;
        if (!take(self, bytes, request->stream, &at)) {
            free_all_blocks(base);
            if (!take(self, bytes, request->stream, &at))
                return false;
        }
    }
    EchChunk *chunk = &self->chunks.items[at];
    const Segment *segment = &self->segments[chunk->segment];
    chunk->used = 1;
    live->address = chunk->address;
    live->rounded = bytes;
    live->handle = at;
    live->segment = segment->number;
    ret->offset = chunk->address - segment->address;
    return true;
}

static void cupy_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Cupy *self = (Cupy *)base;
    put(self, ech_chunks_free(&self->chunks, live->handle, pull, self));
}

static void cupy_walk(const EchAllocator *base, GArray *out)
{
    const Cupy *self = (const Cupy *)base;
    for (EchTreeIter it = ech_tree_first(&self->free); it.leaf; it = ech_tree_next(it)) {
        const EchChunk *chunk = &self->chunks.items[ech_tree_iter_value(it)];
        const Segment *segment = &self->segments[chunk->segment];
        EchAllocBlock block = {
            .segment = segment->number, .state = ECH_BLOCK_FREE, .address = chunk->address, .bytes = chunk->bytes, .id = UINT32_MAX, .stream = segment->stream};
        g_array_append_val(out, block);
    }
}

/* Methods of cupy.cuda.MemoryPool. */
static void cupy_own_stats(EchAllocator *base, GArray *out)
{
    const Cupy *self = (const Cupy *)base;
    ech_alloc_add_stat(out, "used_bytes", (int64_t)base->stats.live);
    ech_alloc_add_stat(out, "free_bytes", (int64_t)(base->stats.reserved - base->stats.live));
    ech_alloc_add_stat(out, "total_bytes", (int64_t)base->stats.reserved);
    ech_alloc_add_stat(out, "n_free_blocks", (int64_t)self->free.n);
}

const EchAllocClass ech_alloc_cupy = {
    .name = "cupy",
    .summary = "CuPy's memory pool: best fit by stream, segments as large as what is asked for",
    .source = "cupy/cupy 005d7598: cupy/cuda/memory.pyx (SingleDeviceMemoryPool)",
    .note = "of free blocks of one size CuPy takes any (the order of a Python set); here the one at the lowest address",
    .size = sizeof(Cupy),
    .params = params,
    .init = cupy_init,
    .done = cupy_done,
    .alloc = cupy_alloc,
    .release = cupy_release,
    .walk_free = cupy_walk,
    .own_stats = cupy_own_stats,
    .empty_cache = free_all_blocks,
};
