/* What a trace needs of the machine: where each buffer lives, how large scratch and arena are, and whether all of it fits. */
#include "sim/replay/cuda_private.h"

#include "sim/base/error.h"

#include <string.h>

#define MOST_PINNED ((EchBytes)16 << 30)    /* Pinning takes a second for a few GiB */
#define UNKNOWN_CACHE ((EchBytes)128 << 20) /* No GPU's is larger so far */

bool ech_cuda_is_host(const EchTrace *trace, EchId memory)
{
    const char *name = ech_trace_memory(trace, memory);
    return g_str_has_prefix(name, "host") || g_str_has_prefix(name, "pinned") || g_str_has_prefix(name, "pageable");
}

bool ech_cuda_is_pinned(const EchTrace *trace, EchId memory)
{
    return ech_cuda_is_host(trace, memory) && !strstr(ech_trace_memory(trace, memory), "pageable");
}

static int by_offset(gconstpointer a, gconstpointer b, gpointer data)
{
    const Engine *e = data;
    const EchBuffer *x = &ech_trace_buffers(e->trace)[*(const EchId *)a], *y = &ech_trace_buffers(e->trace)[*(const EchId *)b];
    return x->memory != y->memory ? (x->memory > y->memory) - (x->memory < y->memory) : (x->offset > y->offset) - (x->offset < y->offset);
}

/* In a compiler's plan buffers lie where others have lain: what is written to one changes another. */
static void find_overlaps(Engine *e)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    g_autoptr(GArray) fixed = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        if (e->places[i].fixed)
            g_array_append_val(fixed, i);
    }
    g_array_sort_with_data(fixed, by_offset, e);
    EchId furthest = ECH_NONE;
    for (guint i = 0; i < fixed->len; i++) {
        EchId id = g_array_index(fixed, EchId, i);
        const EchBuffer *buffer = &buffers[id], *before = furthest == ECH_NONE ? NULL : &buffers[furthest];
        bool same = before && before->memory == buffer->memory;
        if (same && buffer->offset < before->offset + before->bytes)
            e->places[id].overlaps = e->places[furthest].overlaps = 1;
        if (!same || buffer->offset + buffer->bytes > before->offset + before->bytes)
            furthest = id;
    }
}

/* What each buffer is: where, fixed or not, written or not. */
static void classify_buffers(Engine *e)
{
    const EchTrace *trace = e->trace;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        Place *p = &e->places[i];
        p->is_host = ech_cuda_is_host(trace, buffers[i].memory);
        p->pinned = ech_cuda_is_pinned(trace, buffers[i].memory);
        if (buffers[i].alias_of != ECH_NONE || buffers[i].bytes == 0)
            continue;
        if (buffers[i].offset != ECH_OFFSET_NONE && e->options->alloc == ECH_CUDA_ALLOC_AUTO) {
            Block *block = &e->blocks[buffers[i].memory];
            p->fixed = 1;
            p->offset = buffers[i].offset;
            block->bytes = MAX(block->bytes, buffers[i].offset + buffers[i].bytes);
        }
    }
    /* Pinning takes milliseconds, and runtimes keep pinned memory; so do we. */
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        Place *p = &e->places[i];
        p->kept = p->is_host && !p->fixed && buffers[i].alias_of == ECH_NONE && buffers[i].bytes > 0;
    }
    /* Kernels here work on scratch; only copies write to buffers. */
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        for (uint32_t u = op->first_use; op->kind == ECH_OP_COPY && u < op->first_use + op->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            uint64_t offset;
            if (use->access == ECH_WRITE)
                e->places[ech_buffer_root(buffers, use->buffer, &offset)].written = 1;
        }
    }
    find_overlaps(e);
}

/* Bytes that one op moves or multiplies at most, for the scratch that it does so on. */
static EchBytes largest_op(const Engine *e)
{
    EchBytes largest = 1 << 20;
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        const EchOp *op = &ech_trace_ops(e->trace)[i];
        EchBytes reads = 0, writes = 0, inputs = 0, output = 0;
        EchGemm gemm;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(e->trace)[u];
            EchBytes *sum = use->access == ECH_READ ? &reads : &writes;
            *sum = ech_bytes_add(*sum, use->bytes);
        }
        if (e->blas && op->kind == ECH_OP_KERNEL && ech_cuda_gemm_of(e->trace, op, &gemm))
            ech_cuda_gemm_bytes(&gemm, &inputs, &output);
        EchBytes copied = op->kind == ECH_OP_COPY ? op->bytes : 0;
        largest = MAX(largest, MAX(MAX(copied, MAX(reads, writes)), MAX(inputs, output)));
    }
    return largest;
}

/* Of the device's memory that a buffer takes where the driver gives it out: in whole pages, of which small ones share some (calibrate measures both; these are
 * those of every GPU so far). */
static EchBytes footprint(const Engine *e, EchBytes bytes)
{
    const EchBytes page = 2 << 20, shared = 1 << 20;
    EchCudaAlloc alloc = (EchCudaAlloc)e->options->alloc;
    bool driver = alloc == ECH_CUDA_ALLOC_AUTO || alloc == ECH_CUDA_ALLOC_MALLOC;
    return ech_round_up(bytes, alloc == ECH_CUDA_ALLOC_VMM || (driver && bytes > shared) ? page : 512);
}

/* Most bytes alive on the device by the trace's own allocations, in its order; all of them together, loops once; whether the driver would stop for one. */
static EchBytes peak_of_buffers(Engine *e, EchBytes *ret_total)
{
    *ret_total = 0;
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    EchBytes live = 0, peak;
    EchId queue = ECH_NONE;
    bool stops = e->options->alloc == ECH_CUDA_ALLOC_AUTO || e->options->alloc == ECH_CUDA_ALLOC_MALLOC || e->options->alloc == ECH_CUDA_ALLOC_VMM;
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        const Place *p = &e->places[i];
        if (buffers[i].alias_of == ECH_NONE && !p->is_host && !p->fixed && (buffers[i].resident || e->options->graph))
            live = ech_bytes_add(live, footprint(e, buffers[i].bytes));
    }
    peak = live;
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        const EchOp *op = &ech_trace_ops(e->trace)[i];
        if ((op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE) || e->options->graph)
            continue;
        const Place *p = &e->places[op->target];
        if (p->fixed || p->kept)
            continue;
        if (op->kind == ECH_OP_ALLOC && !p->is_host)
            *ret_total = ech_bytes_add(*ret_total, buffers[op->target].bytes);
        e->several_queues |= queue != ECH_NONE && queue != op->queue;
        /* Where several queues allocate and free, the host waits for them; see settle_frees. */
        e->synchronous |=
            p->is_host || stops || ((e->options->alloc == ECH_CUDA_ALLOC_ARENA || e->options->alloc == ECH_CUDA_ALLOC_ASYNC) && e->several_queues);
        queue = op->queue;
        if (p->is_host)
            continue;
        EchBytes bytes = footprint(e, buffers[op->target].bytes);
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, bytes) : live - MIN(live, bytes);
        peak = MAX(peak, live);
    }
    return peak;
}

static bool take_blocks(Engine *e, GError **error)
{
    for (size_t i = 0; i < ech_trace_n_memories(e->trace); i++) {
        Block *block = &e->blocks[i];
        if (block->bytes == 0)
            continue;
        block->bytes = block->bytes + 256;
        if (ech_cuda_is_host(e->trace, (EchId)i)) {
            if (!ech_cuda_take_host(e, block->bytes, ech_cuda_is_pinned(e->trace, (EchId)i), &block->host, error))
                return false;
        } else if (!CU(e, allocate, "allocating the program's memory", error, &block->device, block->bytes)) {
            return false;
        }
    }
    return true;
}

static bool take_arena(Engine *e, EchBytes arena, GError **error)
{
    EchBytes bytes = ech_round_up(arena, 1 << 21);
    if (!CU(e, allocate, "allocating the arena", error, &e->arena, bytes))
        return false;
    EchAllocDevice device = {.capacity = bytes, .granule = 0};
    e->allocator = ech_allocator_new(e->options->allocator ? e->options->allocator : "best_fit", &device, error);
    return e->allocator != NULL;
}

/* Host memory that is held from set-up to the end, with scratch for the largest copies of each kind of it. */
static EchBytes host_bytes(Engine *e)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    EchBytes sum = 0;
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++)
        sum = ech_bytes_add(sum, e->places[i].kept ? buffers[i].bytes : 0);
    for (size_t i = 0; i < ech_trace_n_memories(e->trace); i++)
        sum = ech_bytes_add(sum, ech_cuda_is_host(e->trace, (EchId)i) ? e->blocks[i].bytes : 0);
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        const EchOp *op = &ech_trace_ops(e->trace)[i];
        const EchId sides[] = {op->memory_from, op->memory_to};
        for (size_t s = 0; op->kind == ECH_OP_COPY && s < G_N_ELEMENTS(sides); s++) {
            EchBytes *scratch = &e->host_scratch_bytes[ech_cuda_is_pinned(e->trace, sides[s])];
            *scratch = ech_cuda_is_host(e->trace, sides[s]) ? MAX(*scratch, op->bytes) : *scratch;
        }
    }
    return ech_bytes_add(sum, ech_bytes_add(e->host_scratch_bytes[false], e->host_scratch_bytes[true]));
}

static bool take_host_scratch(Engine *e, GError **error)
{
    for (unsigned pinned = 0; pinned < 2; pinned++) {
        EchBytes bytes = e->host_scratch_bytes[pinned];
        if (bytes > 0 && !ech_cuda_take_host(e, bytes, pinned, &e->host_scratch[pinned], error))
            return false;
    }
    return true;
}

/* Sizes of everything: buffers, the scratch that kernels stream over, the arena; the scale that makes them fit. */
bool ech_cuda_plan_memory(Engine *e, GError **error)
{
    const EchTrace *trace = e->trace;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    classify_buffers(e);
    EchBytes all, peak = peak_of_buffers(e, &all), fixed = 0;
    for (size_t i = 0; i < ech_trace_n_memories(trace); i++) {
        if (!ech_cuda_is_host(trace, (EchId)i))
            fixed = ech_bytes_add(fixed, e->blocks[i].bytes);
    }
    size_t available, total;
    if (!CU(e, memory_info, "asking for free memory", error, &available, &total))
        return false;
    EchBytes host = host_bytes(e);
    if (host > MOST_PINNED) {
        e->fitting = 0.98 * (double)MOST_PINNED / (double)host;
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "the trace needs %" G_GUINT64_FORMAT " bytes of host memory; expected at most %" G_GUINT64_FORMAT
                    ", since pinning takes long, or scale=true (--cuda scale=true)",
                    host, MOST_PINNED);
        return false;
    }
    /* Kernels stream over many times what the cache holds, so that none finds the bytes of those before it. */
    EchBytes half = MAX(largest_op(e), 8 * (e->gpu.l2_bytes > 0 ? (EchBytes)e->gpu.l2_bytes : UNKNOWN_CACHE));
    EchBytes usable = (EchBytes)available - (EchBytes)available / 20, least = MIN(ech_round_up(half, 8192), (EchBytes)available / 8 / 8192 * 8192);
    EchBytes room = usable > 2 * least ? usable - 2 * least : 0;
    EchBytes arena = ech_bytes_add(peak, peak / 4 + (1 << 21));
    EchBytes wanted = ech_bytes_add(fixed, e->options->alloc == ECH_CUDA_ALLOC_ARENA ? arena : ech_bytes_add(peak, 1 << 21));
    if (wanted > room) {
        e->fitting = 0.98 * (double)room / (double)wanted;
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "the trace needs %" G_GUINT64_FORMAT " bytes of device memory, the GPU has %" G_GUINT64_FORMAT
                    " free; expected less, or scale=true (--cuda scale=true)",
                    wanted, room);
        return false;
    }
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++)
        e->places[i].bytes = buffers[i].alias_of == ECH_NONE && buffers[i].bytes > 0 ? buffers[i].bytes : 0;
    /* A trace that leaves room has its largest kernels done whole; half of what is left stays for queues that run ahead of each other. */
    e->scratch_bytes = 2 * MAX(least, MIN(ech_round_up(half, 8192), (usable - wanted) / 4 / 8192 * 8192));
    room = usable - e->scratch_bytes;
    if (!CU(e, allocate, "allocating scratch", error, &e->scratch, e->scratch_bytes) || !CU(e, allocate, "allocating scratch", error, &e->sink, 256) ||
        !take_host_scratch(e, error) || !CU(e, memory_info, "asking for free memory", error, &e->free_before, &total))
        return false;
    /* Queues may run ahead of each other: more may be alive than in the trace's order. */
    arena = MIN(MAX(arena, ech_bytes_add(all, arena)), room - MIN(room, fixed));
    return take_blocks(e, error) && (e->options->alloc != ECH_CUDA_ALLOC_ARENA || take_arena(e, arena, error));
}
