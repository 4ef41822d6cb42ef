#include "sim/replay/cuda.h"

#include "models/alloc/alloc.h"
#include "sim/base/error.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN UINT32_C(0x5ca1ab1e)
#define MOST_PINNED ((EchBytes)16 << 30) /* Pinning takes a second for a few GiB */

static const char *const alloc_names[] = {"auto", "malloc", "async", "vmm", "arena", NULL};

const EchParam ech_cuda_params[] = {
    {"gpu", ECH_PARAM_U64, offsetof(EchCudaOptions, gpu), "0", NULL, "1023", NULL, "ordinal of the GPU"},
    {"warmups", ECH_PARAM_U64, offsetof(EchCudaOptions, warmups), "2", NULL, "1000", NULL, "replays before those that count"},
    {"repeats", ECH_PARAM_U64, offsetof(EchCudaOptions, repeats), "10", "1", "10000", NULL, "replays measured"},
    {"alloc", ECH_PARAM_ENUM, offsetof(EchCudaOptions, alloc), "auto", NULL, NULL, alloc_names,
     "who allocates: cuMemAlloc, cuMemAllocAsync, the driver's virtual memory, or an allocator of ours over an arena; auto: the trace's own offsets in one "
     "block, else malloc"},
    {"allocator", ECH_PARAM_STRING, offsetof(EchCudaOptions, allocator), NULL, NULL, NULL, NULL, "allocator of the arena"},
    {"release_threshold", ECH_PARAM_BYTES, offsetof(EchCudaOptions, release_threshold), "0", NULL, NULL, NULL, "bytes the driver's pool keeps"},
    {"graph", ECH_PARAM_BOOL, offsetof(EchCudaOptions, graph), "false", NULL, NULL, NULL, "replay as one CUDA graph"},
    {"scale", ECH_PARAM_BOOL, offsetof(EchCudaOptions, scale), "false", NULL, NULL, NULL, "scale down what is larger than the card"},
    {"verify", ECH_PARAM_BOOL, offsetof(EchCudaOptions, verify), "true", NULL, NULL, NULL, "check buffers that nothing writes"},
    {"blas", ECH_PARAM_BOOL, offsetof(EchCudaOptions, blas), "true", NULL, NULL, NULL, "matrix products by cuBLAS where it is installed"},
    {"max_ops", ECH_PARAM_U64, offsetof(EchCudaOptions, max_ops), "100000", "1", "10000000", NULL, "most op instances"},
    {0},
};

/* A buffer of the trace on the machine. */
typedef struct {
    EchCuPointer device; /* 0: none */
    void *host;          /* Pinned or pageable */
    EchBytes bytes;      /* After scaling */
    uint64_t offset;     /* In the block of its memory, where fixed */
    EchBytes mapped;     /* alloc=vmm: bytes of the mapping */
    unsigned long long physical;
    uint32_t range;                                      /* alloc=arena: the allocator's id of what it was given */
    uint8_t is_host, pinned, written, live, fixed, kept; /* kept: host memory that lives from set-up to the end */
} Place;

/* What a FREE has given back, from the point on that @queue has reached at @end. */
typedef struct {
    uint32_t range; /* Of the arena; ECH_NONE: the driver's pool knows */
    EchId queue;
    EchCuEvent end;
    bool released; /* To the allocator, for the same queue; others wait for the end */
} Freed;

/* What buffers with fixed offsets share: one block per memory of the trace. */
typedef struct {
    EchCuPointer device;
    void *host;
    EchBytes bytes;
} Block;

/* End events of the newest instances of an op: ring[instance % depth]. */
typedef struct {
    EchCuEvent *begin, *end; /* One per instance, in order of issue */
    uint64_t n, room;
} Instances;

typedef struct {
    const EchTrace *trace;
    const EchCudaOptions *options;
    const EchCuDriver *cu;
    EchCuGpu gpu;
    EchPrices *prices;
    EchCuModule module;
    EchCuFunction stream_kernel, fma_kernel, mma_kernel, spin_kernel, verify_kernel, noise_kernel;
    EchCuStream *streams; /* One per queue */
    size_t n_streams;
    Place *places; /* One per buffer */
    Instances *instances;
    bool *needed; /* Ops that another queue waits for: their end needs an event in graph mode too */
    EchCuEvent base;
    EchCuEvent *done;     /* Per stream, for the end of a replay */
    EchCuPointer scratch; /* Traffic of kernels without buffers, and of copies without buffers: two halves */
    EchBytes scratch_bytes;
    EchBytes host_scratch_bytes; /* 0: no copy needs it */
    void *host_scratch;
    EchCuPointer sink;
    EchBytes cursor; /* Where the next kernel streams from, so that kernels do not find their bytes in the cache */
    EchCuPointer arena;
    EchAllocator *allocator;
    uint32_t next_range;
    GArray *freed; /* Freed whose end has not come yet as far as is known */
    Block *blocks; /* One per memory of the trace */
    const EchDevice *device;
    const EchCuBlas *blas;
    EchCuBlasHandle blas_handle;
    EchCuPointer workspace;
    size_t workspace_bytes;
    size_t granularity;            /* alloc=vmm */
    bool several_queues;           /* Allocate and free */
    bool synchronous;              /* The driver stops for allocations on the way, so nothing can be issued ahead */
    size_t free_before, free_idle; /* Before and after set-up */
    bool noting;                   /* Memory is looked at in this replay */
    EchCudaRun *run;
    GArray **durations; /* Per op: EchTime, one a repeat */
    GArray **starts;
    GArray *marks;                  /* EchCuEvent: begins and ends of loops, in order of issue; made once and used again in every replay */
    guint n_marks;                  /* Of this replay */
    bool timed;                     /* This replay records events around every op; the others only where queues wait, for the makespan */
    double fitting;                 /* Above 0: the trace did not fit, and would at this scale */
    EchTime kernel_gap;             /* The same of a kernel: what an empty one between two events takes more than one of many in a row */
    EchTime gap;                    /* Between two events with nothing between them: taken off what is measured of an op */
    uint64_t n_replays;             /* Done */
    uint64_t n_clipped;             /* Kernels that moved less than they should */
    uint64_t issued, issued_before; /* Instances of this replay, and of the one before */
    uint64_t n_late;                /* Measured replays that were issued no faster than the GPU ran them */
    gint64 issue_begin, issue_us;   /* When the issuing of this replay began; how long it took at best, 0 before that is known */
} Engine;

#define CU(e, member, what, error, ...) ech_cuda_check((e)->cu, (e)->cu->member(__VA_ARGS__), #member, what, error)

static bool synchronize(Engine *e, GError **error)
{
    return ech_cuda_check(e->cu, e->cu->context_synchronize(), "cuCtxSynchronize", "waiting for the GPU", error);
}

void ech_cuda_run_free(EchCudaRun *run)
{
    if (!run)
        return;
    g_free(run->ops);
    g_free(run->makespans);
    g_free(run->gpu);
    if (run->trace)
        ech_trace_unref(run->trace);
    ech_diag_free(run->diag);
    g_free(run);
}

static uint64_t shrunk(uint64_t bytes, double scale)
{
    uint64_t small = (uint64_t)((double)bytes * scale);
    return bytes == 0 ? 0 : MAX(small, (uint64_t)16);
}

/* Every size times @scale, operations as they are. */
static EchTrace *scale_trace(const EchTrace *trace, double scale, GError **error)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new(ech_trace_format(trace));
    for (EchId i = 0; i < ech_trace_n_strings(trace); i++)
        ech_trace_builder_string(b, ech_trace_string(trace, i), -1);
    for (EchId i = 0; i < ech_trace_n_memories(trace); i++)
        ech_trace_builder_memory(b, ech_trace_memory(trace, i));
    for (EchId i = 0; i < ech_trace_n_queues(trace); i++) {
        const EchQueue *queue = &ech_trace_queues(trace)[i];
        ech_trace_builder_queue(b, ech_trace_string(trace, queue->name), (EchQueueKind)queue->kind, queue->device);
    }
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        EchBuffer buffer = ech_trace_buffers(trace)[i];
        const EchBuffer *parent = buffer.alias_of == ECH_NONE ? NULL : ech_trace_builder_peek_buffer(b, buffer.alias_of);
        buffer.bytes = shrunk(buffer.bytes, scale);
        buffer.rounded = shrunk(buffer.rounded, scale);
        buffer.dense = shrunk(buffer.dense, scale);
        buffer.alias_offset = (uint64_t)((double)buffer.alias_offset * scale);
        if (parent && buffer.alias_offset + buffer.bytes > parent->bytes)
            buffer.alias_offset = parent->bytes - MIN(parent->bytes, buffer.bytes);
        if (parent)
            buffer.bytes = MIN(buffer.bytes, parent->bytes);
        if (buffer.offset != ECH_OFFSET_NONE)
            buffer.offset = (uint64_t)((double)buffer.offset * scale);
        ech_trace_builder_buffer(b, buffer);
    }
    for (EchId i = 0; i < ech_trace_n_ops(trace); i++) {
        EchOp op = ech_trace_ops(trace)[i];
        if (op.kind == ECH_OP_COPY || op.kind == ECH_OP_ALLOC || op.kind == ECH_OP_FREE)
            op.bytes = shrunk(op.bytes, scale);
        ech_trace_builder_op(b, op);
        for (uint32_t u = op.first_use; u < op.first_use + op.n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            ech_trace_builder_use(b, use->buffer, (EchAccess)use->access, shrunk(use->bytes, scale), (EchPattern)use->pattern, (EchOrigin)use->origin);
        }
        for (uint32_t d = op.first_dep; d < op.first_dep + op.n_deps; d++)
            ech_trace_builder_dep(b, ech_trace_deps(trace)[d].op, ech_trace_deps(trace)[d].distance);
        for (uint32_t w = op.first_work; w < op.first_work + op.n_work; w++) {
            const EchWork *work = &ech_trace_work(trace)[w];
            ech_trace_builder_work(b, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
        }
    }
    const char *value;
    for (size_t i = 0;; i++) {
        const char *key = ech_trace_property(trace, i, &value);
        if (!key)
            break;
        ech_trace_builder_set_property(b, key, value);
    }
    return ech_trace_builder_finish(b, error);
}

static EchId root_of(const EchBuffer *buffers, EchId id, uint64_t *ret_offset)
{
    uint64_t offset = 0;
    for (; buffers[id].alias_of != ECH_NONE; id = buffers[id].alias_of)
        offset += buffers[id].alias_offset;
    if (ret_offset)
        *ret_offset = offset;
    return id;
}

static bool name_is_host(const char *name)
{
    return g_str_has_prefix(name, "host") || g_str_has_prefix(name, "pinned") || g_str_has_prefix(name, "pageable");
}

/* ---- memory ---- */

static bool take_host(Engine *e, EchBytes bytes, bool pinned, void **ret, GError **error)
{
    if (pinned)
        return CU(e, host_allocate, "allocating pinned memory", error, ret, bytes, 0);
    *ret = g_try_malloc(bytes);
    if (!*ret) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no %" G_GUINT64_FORMAT " bytes of host memory", bytes);
        return false;
    }
    memset(*ret, 0, bytes); /* Pages that were never written cost nothing to read */
    return true;
}

static bool give_host(Engine *e, void *host, bool pinned, GError **error)
{
    if (pinned)
        return CU(e, host_release, "freeing pinned memory", error, host);
    g_free(host);
    return true;
}

/* Before an allocation. What was freed and has passed goes back to the allocator; so does what the queue that asks now has freed itself, since it runs in
 * order. Where others have freed, the host first waits for the asking queue, so that the memory is as it is when the queue comes here: allocation coupled to
 * the GPU's time. */
static bool settle_frees(Engine *e, EchId queue, GError **error)
{
    bool others = false;
    for (guint i = 0; i < e->freed->len; i++) {
        const Freed *freed = &g_array_index(e->freed, Freed, i);
        others |= freed->queue != queue && (!freed->released || freed->range == ECH_NONE);
    }
    if (others && !CU(e, stream_synchronize, "waiting to allocate", error, e->streams[queue]))
        return false;
    guint kept = 0;
    for (guint i = 0; i < e->freed->len; i++) {
        Freed *freed = &g_array_index(e->freed, Freed, i);
        EchCuResult state = e->cu->event_query(freed->end);
        if (state != 0 && state != ECH_CU_ERROR_NOT_READY)
            return ech_cuda_check(e->cu, state, "cuEventQuery", "looking for freed memory", error);
        if (!freed->released && (state == 0 || freed->queue == queue)) {
            ech_allocator_release(e->allocator, freed->range);
            freed->released = true;
        }
        if (state == 0)
            continue;
        if (freed->range != ECH_NONE && freed->released && freed->queue != queue &&
            !CU(e, stream_wait, "waiting for freed memory", error, e->streams[queue], freed->end, 0))
            return false;
        g_array_index(e->freed, Freed, kept++) = *freed;
    }
    g_array_set_size(e->freed, kept);
    return true;
}

/* Takes a range of the arena; while it is full and something freed is still in use, waits for that. */
static bool take_range(Engine *e, EchId buffer, EchId queue, GError **error)
{
    Place *p = &e->places[buffer];
    EchAllocRequest request = {.id = e->next_range++, .bytes = p->bytes};
    EchPlacement placement;
    if (!settle_frees(e, queue, error))
        return false;
    while (ech_allocator_alloc(e->allocator, &request, &placement) != ECH_FIT_OK) {
        if (e->freed->len == 0) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "buffer %u of %" G_GUINT64_FORMAT " bytes does not fit the arena under %s", buffer, p->bytes,
                        ech_allocator_name(e->allocator));
            return false;
        }
        if (!CU(e, event_synchronize, "waiting for freed memory", error, g_array_index(e->freed, Freed, 0).end) || !settle_frees(e, queue, error))
            return false;
    }
    p->range = request.id;
    p->device = e->arena + placement.address;
    e->run->arena_extent = MAX(e->run->arena_extent, placement.address + p->bytes);
    return true;
}

/* Physical memory of the GPU behind a range of addresses of its own. What was made before a failure is given back. */
static bool map_buffer(Engine *e, Place *p, GError **error)
{
    EchBytes bytes = ech_round_up(p->bytes, e->granularity);
    EchCuAllocationProp prop = {.type = ECH_CU_ALLOCATION_PINNED, .location = {ECH_CU_LOCATION_DEVICE, e->gpu.device}};
    EchCuAccess access = {.location = prop.location, .flags = ECH_CU_ACCESS_READ_WRITE};
    EchCuPointer address = 0;
    unsigned long long physical = 0;
    if (!CU(e, address_reserve, "reserving addresses", error, &address, bytes, 0, 0, 0))
        return false;
    bool made = CU(e, physical_create, "taking physical memory", error, &physical, bytes, &prop, 0);
    bool mapped = made && CU(e, map, "mapping memory", error, address, bytes, 0, physical, 0);
    if (mapped && CU(e, set_access, "opening mapped memory", error, address, bytes, &access, 1)) {
        p->device = address;
        p->physical = physical;
        p->mapped = bytes;
        return true;
    }
    if (mapped)
        e->cu->unmap(address, bytes);
    if (made)
        e->cu->physical_release(physical);
    e->cu->address_free(address, bytes);
    return false;
}

static bool unmap_buffer(Engine *e, EchCuPointer address, EchBytes bytes, unsigned long long physical, GError **error)
{
    EchCuResult unmapped = e->cu->unmap(address, bytes), released = e->cu->physical_release(physical), freed = e->cu->address_free(address, bytes);
    return ech_cuda_check(e->cu, unmapped, "cuMemUnmap", "unmapping memory", error) &&
           ech_cuda_check(e->cu, released, "cuMemRelease", "giving back physical memory", error) &&
           ech_cuda_check(e->cu, freed, "cuMemAddressFree", "giving back addresses", error);
}

static bool place_buffer(Engine *e, EchId id, EchId queue, GError **error)
{
    EchCuStream stream = e->streams[queue];
    Place *p = &e->places[id];
    if (p->live || p->bytes == 0)
        return true;
    if (p->fixed) {
        const Block *block = &e->blocks[ech_trace_buffers(e->trace)[id].memory];
        if (p->is_host)
            p->host = (char *)block->host + p->offset;
        else
            p->device = block->device + p->offset;
        p->live = 1;
        return true;
    }
    if (p->is_host) {
        if (!take_host(e, p->bytes, p->pinned, &p->host, error))
            return false;
        p->live = 1;
        return true;
    }
    switch ((EchCudaAlloc)e->options->alloc) {
    case ECH_CUDA_ALLOC_VMM:
        if (!map_buffer(e, p, error))
            return false;
        break;
    case ECH_CUDA_ALLOC_AUTO:
    case ECH_CUDA_ALLOC_MALLOC:
        if (!CU(e, allocate, "allocating a buffer", error, &p->device, p->bytes))
            return false;
        break;
    case ECH_CUDA_ALLOC_ASYNC:
        if (!settle_frees(e, queue, error) || !CU(e, allocate_async, "allocating a buffer from the pool", error, &p->device, p->bytes, stream))
            return false;
        break;
    case ECH_CUDA_ALLOC_ARENA:
        if (!take_range(e, id, queue, error))
            return false;
        break;
    case ECH_N_CUDA_ALLOCS: g_assert_not_reached();
    }
    p->live = 1;
    return true;
}

/* Gives a buffer back in whatever state it is; used by FREE ops and by the clean-up. */
static bool release_buffer(Engine *e, EchId id, EchCuStream stream, GError **error)
{
    Place *p = &e->places[id];
    if (!p->live)
        return true;
    p->live = 0;
    EchCuPointer pointer = p->device;
    void *host = g_steal_pointer(&p->host);
    p->device = 0;
    if (p->fixed)
        return true;
    if (p->is_host)
        return give_host(e, host, p->pinned, error);
    switch ((EchCudaAlloc)e->options->alloc) {
    case ECH_CUDA_ALLOC_VMM: {
        /* What is still in use must not be unmapped. */
        bool idle = synchronize(e, error);
        return unmap_buffer(e, pointer, p->mapped, p->physical, idle ? error : NULL) && idle;
    }
    case ECH_CUDA_ALLOC_AUTO:
    case ECH_CUDA_ALLOC_MALLOC: return CU(e, release, "freeing a buffer", error, pointer);
    case ECH_CUDA_ALLOC_ASYNC: return CU(e, release_async, "freeing a buffer to the pool", error, pointer, stream);
    case ECH_CUDA_ALLOC_ARENA: ech_allocator_release(e->allocator, p->range); return true;
    case ECH_N_CUDA_ALLOCS: break;
    }
    g_assert_not_reached();
}

/* Only in one replay: every one takes the same memory, and asking takes time. */
static bool note_memory(Engine *e, GError **error)
{
    size_t available, total;
    if (!e->noting)
        return true;
    if (!CU(e, memory_info, "asking for free memory", error, &available, &total))
        return false;
    if (e->free_before > available)
        e->run->peak_used = MAX(e->run->peak_used, (EchBytes)(e->free_before - available));
    return true;
}

/* ---- issuing ---- */

static bool launch(Engine *e, EchCuFunction function, unsigned blocks, unsigned threads, EchCuStream stream, void **parameters, GError **error)
{
    return CU(e, launch, "launching a kernel", error, function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}

/* Streams the bytes read and written through the port of @memory of the device file, over scratch. */
static bool issue_stream(Engine *e, const EchOp *op, uint32_t memory, EchCuStream stream, GError **error)
{
    const char *port = e->device->memories[memory].name;
    const EchUse *uses = ech_trace_uses(e->trace) + op->first_use;
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    uint64_t reads = 0, writes = 0;
    for (uint32_t i = 0; i < op->n_uses; i++) {
        if (strcmp(ech_trace_memory(e->trace, buffers[uses[i].buffer].memory), port) != 0)
            continue;
        *(uses[i].access == ECH_READ ? &reads : &writes) += uses[i].bytes / 16;
    }
    EchCuPointer sink = e->sink;
    uint64_t half = e->scratch_bytes / 2 / 16;
    e->n_clipped += reads > half || writes > half;
    reads = CLAMP(reads, writes == 0, half);
    writes = MIN(writes, half);
    if (e->cursor + MAX(reads, writes) * 16 > e->scratch_bytes / 2)
        e->cursor = 0;
    EchCuPointer source = e->scratch + e->cursor, target = source + e->scratch_bytes / 2;
    e->cursor += ech_round_up(MAX(reads, writes) * 16, 256);
    void *parameters[] = {&source, &target, &reads, &writes, &sink};
    return launch(e, e->stream_kernel, (unsigned)e->gpu.multiprocessors * 8, 512, stream, parameters, error);
}

static bool issue_arithmetic(Engine *e, const EchOp *op, bool on_matrix, EchCuStream stream, GError **error)
{
    const EchWork *work = ech_trace_work(e->trace) + op->first_work;
    uint64_t matrix = 0, vector = 0;
    for (uint32_t i = 0; i < op->n_work; i++)
        *(work[i].unit == ECH_WORK_MATRIX ? &matrix : &vector) += work[i].count;
    unsigned blocks = (unsigned)e->gpu.multiprocessors * 4, threads = 256;
    EchCuPointer sink = e->sink;
    EchGemm gemm;
    if (on_matrix && e->blas && ech_cuda_gemm_of(e->trace, op, &gemm)) {
        EchBytes inputs, output;
        ech_cuda_gemm_bytes(&gemm, &inputs, &output);
        if (MAX(inputs, output) > e->scratch_bytes / 2 && ech_cuda_gemm_cube((EchDtype)gemm.dtype, ech_cuda_gemm_operations(&gemm), &gemm))
            ech_cuda_gemm_bytes(&gemm, &inputs, &output);
        if (MAX(inputs, output) <= e->scratch_bytes / 2) {
            e->run->by_blas += 1;
            return ech_cuda_gemm_issue(e->blas, e->blas_handle, &gemm, e->scratch, e->scratch + e->scratch_bytes / 2, e->workspace, e->workspace_bytes, stream,
                                       error);
        }
    }
    if (on_matrix) {
        /* A warp's round is 4 products of 16x8x16: 16384 operations. */
        uint64_t rounds = matrix / ((uint64_t)blocks * (threads / 32) * 16384) + 1;
        void *parameters[] = {&rounds, &sink};
        return launch(e, e->mma_kernel, blocks, threads, stream, parameters, error);
    }
    uint64_t rounds = vector / ((uint64_t)blocks * threads * 32) + 1;
    float factor = 0.999F;
    void *parameters[] = {&rounds, &factor, &sink};
    return launch(e, e->fma_kernel, blocks, threads, stream, parameters, error);
}

static bool issue_spin(Engine *e, EchTime time, EchCuStream stream, GError **error)
{
    uint64_t nanoseconds = (uint64_t)(time / ECH_PS_PER_NS);
    void *parameters[] = {&nanoseconds};
    return launch(e, e->spin_kernel, 1, 1, stream, parameters, error);
}

EchCudaDoes ech_cuda_does(const EchPrices *prices, const EchDevice *device, const EchPrice *price)
{
    if (price->source != ECH_PRICE_ROOFLINE || price->bound == ECH_NONE)
        return ECH_CUDA_SPINS;
    if (prices->kinds[price->bound] != ECH_RESOURCE_UNIT) {
        bool hbm = prices->kinds[price->bound] == ECH_RESOURCE_PORT && device->memories[prices->owners[price->bound]].kind == ECH_MEM_HBM;
        return hbm ? ECH_CUDA_STREAMS : ECH_CUDA_SPINS;
    }
    EchUnitKind unit = device->units[prices->owners[price->bound]].kind;
    return unit == ECH_UNIT_MATRIX ? ECH_CUDA_MULTIPLIES : unit == ECH_UNIT_VECTOR ? ECH_CUDA_COMPUTES : ECH_CUDA_SPINS;
}

static bool issue_kernel(Engine *e, EchId at, const EchOp *op, EchCuStream stream, GError **error)
{
    const EchPrice *price = &e->prices->prices[at];
    switch (ech_cuda_does(e->prices, e->device, price)) {
    case ECH_CUDA_STREAMS: return issue_stream(e, op, e->prices->owners[price->bound], stream, error);
    case ECH_CUDA_MULTIPLIES: return issue_arithmetic(e, op, true, stream, error);
    case ECH_CUDA_COMPUTES: return issue_arithmetic(e, op, false, stream, error);
    case ECH_CUDA_SPINS: break;
    }
    /* The launch comes by itself. */
    EchTime launch = (EchTime)ech_device_number(e->device, "runtime.launch_ps", 0);
    return issue_spin(e, MAX(price->alone - launch, 0), stream, error);
}

static bool issue_copy(Engine *e, const EchOp *op, EchCuStream stream, GError **error)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    const EchUse *uses = ech_trace_uses(e->trace) + op->first_use;
    bool from_host = name_is_host(ech_trace_memory(e->trace, op->memory_from));
    bool to_host = name_is_host(ech_trace_memory(e->trace, op->memory_to));
    EchBytes bytes = op->bytes;
    EchCuPointer source = 0, target = 0;
    void *host_source = NULL, *host_target = NULL;
    for (uint32_t i = 0; i < MIN(op->n_uses, 2u); i++) {
        uint64_t offset;
        Place *p = &e->places[root_of(buffers, uses[i].buffer, &offset)];
        if (!p->live || offset + bytes > p->bytes)
            continue;
        if (p->is_host)
            *(i == 0 ? &host_source : &host_target) = (char *)p->host + offset;
        else
            *(i == 0 ? &source : &target) = p->device + offset;
    }
    /* Copies of no buffer move scratch. */
    if ((from_host && !host_source) || (to_host && !host_target))
        bytes = MIN(bytes, e->host_scratch_bytes);
    if ((!from_host && !source) || (!to_host && !target))
        bytes = MIN(bytes, e->scratch_bytes / 2);
    source = source ? source : e->scratch;
    target = target ? target : e->scratch + e->scratch_bytes / 2;
    host_source = host_source ? host_source : e->host_scratch;
    host_target = host_target ? host_target : e->host_scratch;
    if (bytes == 0)
        return true;
    if (from_host && to_host) {
        if (!e->options->graph && !CU(e, stream_synchronize, "waiting to copy on the host", error, stream))
            return false;
        memmove(host_target, host_source, bytes);
        return true;
    }
    if (from_host)
        return CU(e, copy_to_device, "copying to the device", error, target, host_source, bytes, stream);
    if (to_host)
        return CU(e, copy_from_device, "copying from the device", error, host_target, source, bytes, stream);
    return CU(e, copy_on_device, "copying on the device", error, target, source, bytes, stream);
}

/* The events around the next instance of an op; made once and used again in every replay. */
static bool instance_events(Engine *e, EchId at, EchCuEvent **ret_begin, EchCuEvent **ret_end, GError **error)
{
    Instances *in = &e->instances[at];
    if (in->n == in->room) {
        in->room = MAX(in->room * 2, 1);
        in->begin = g_renew(EchCuEvent, in->begin, in->room);
        in->end = g_renew(EchCuEvent, in->end, in->room);
        memset(in->begin + in->n, 0, (in->room - in->n) * sizeof *in->begin);
        memset(in->end + in->n, 0, (in->room - in->n) * sizeof *in->end);
    }
    if (!in->begin[in->n] && !CU(e, event_create, "making an event", error, &in->begin[in->n], ECH_CU_EVENT_DEFAULT))
        return false;
    if (!in->end[in->n] && !CU(e, event_create, "making an event", error, &in->end[in->n], ECH_CU_EVENT_DEFAULT))
        return false;
    *ret_begin = &in->begin[in->n];
    *ret_end = &in->end[in->n];
    in->n++;
    return true;
}

static bool next_mark(Engine *e, EchCuStream stream, EchCuEvent *ret, GError **error)
{
    if (e->n_marks == e->marks->len) {
        EchCuEvent made = NULL;
        if (!CU(e, event_create, "making an event", error, &made, ECH_CU_EVENT_DISABLE_TIMING))
            return false;
        g_array_append_val(e->marks, made);
    }
    *ret = g_array_index(e->marks, EchCuEvent, e->n_marks++);
    return CU(e, event_record, "recording an event", error, *ret, stream);
}

/* A FREE in the trace: at once, but of an arena or a pool when its queue has come to it. */
static bool free_buffer(Engine *e, EchId id, EchId queue, GError **error)
{
    Place *p = &e->places[id];
    bool arena = e->options->alloc == ECH_CUDA_ALLOC_ARENA, pool = e->options->alloc == ECH_CUDA_ALLOC_ASYNC;
    /* Where one queue does all of it, its order is enough, and an event between kernels takes time that no allocator's program takes. */
    bool wait = (arena || pool) && !p->is_host && p->live && e->several_queues;
    Freed freed = {.range = arena ? p->range : ECH_NONE, .queue = queue, .released = pool};
    if ((!wait || pool) && !release_buffer(e, id, e->streams[queue], error))
        return false;
    if (!wait)
        return true;
    if (!next_mark(e, e->streams[queue], &freed.end, error))
        return false;
    g_array_append_val(e->freed, freed);
    p->live = 0;
    p->device = 0;
    return true;
}

/* For op @at: nothing but its end, where another queue waits for it. */
static bool mark_end(Engine *e, EchId at, EchCuStream stream, GError **error)
{
    EchCuEvent *begin, *end;
    return !e->needed[at] || (instance_events(e, at, &begin, &end, error) && CU(e, event_record, "recording an event", error, *end, stream));
}

static bool wait_for(Engine *e, EchId at, GError **error)
{
    const EchOp *ops = ech_trace_ops(e->trace), *op = &ops[at];
    const EchDep *deps = ech_trace_deps(e->trace) + op->first_dep;
    for (uint32_t i = 0; i < op->n_deps; i++) {
        EchId on = deps[i].op;
        bool around = ops[on].kind == ECH_OP_LOOP && on < at && at <= on + ops[on].target;
        if (ops[on].queue == op->queue || around)
            continue;
        const Instances *in = &e->instances[deps[i].op];
        /* An op later in the body has not been issued in this iteration yet: its newest instance is one iteration back. */
        uint64_t back = deps[i].distance - (deps[i].distance > 0 && deps[i].op >= at ? 1 : 0);
        if (in->n <= back)
            continue;
        if (!CU(e, stream_wait, "making a queue wait", error, e->streams[op->queue], in->end[in->n - 1 - back], 0))
            return false;
    }
    return true;
}

static bool issue_op(Engine *e, EchId at, GError **error)
{
    const EchOp *op = &ech_trace_ops(e->trace)[at];
    EchCuStream stream = e->streams[op->queue];
    if (++e->issued > e->options->max_ops) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "more than %" G_GUINT64_FORMAT " op instances; expected max_ops to allow them",
                    e->options->max_ops);
        return false;
    }
    if (!wait_for(e, at, error))
        return false;
    switch ((EchOpKind)op->kind) {
    case ECH_OP_ALLOC: return (e->options->graph || (place_buffer(e, op->target, op->queue, error) && note_memory(e, error))) && mark_end(e, at, stream, error);
    case ECH_OP_FREE:
        return (e->options->graph || e->places[op->target].kept || free_buffer(e, op->target, op->queue, error)) && mark_end(e, at, stream, error);
    case ECH_OP_KERNEL:
    case ECH_OP_COPY:
    case ECH_OP_COLLECTIVE:
    case ECH_OP_WAIT:
    case ECH_OP_SIGNAL: break;
    case ECH_OP_LOOP:
    case ECH_OP_MARK: return mark_end(e, at, stream, error);
    case ECH_N_OP_KINDS: g_assert_not_reached();
    }
    EchCuEvent *begin, *end;
    if (!instance_events(e, at, &begin, &end, error))
        return false;
    if (e->timed && !CU(e, event_record, "recording an event", error, *begin, stream))
        return false;
    bool ok = true;
    if (op->kind == ECH_OP_KERNEL)
        ok = issue_kernel(e, at, op, stream, error);
    else if (op->kind == ECH_OP_COPY)
        ok = issue_copy(e, op, stream, error);
    else if (op->kind == ECH_OP_COLLECTIVE)
        ok = issue_spin(e, e->prices->prices[at].alone, stream, error);
    if (!ok)
        return false;
    return (!e->timed && !e->needed[at]) || CU(e, event_record, "recording an event", error, *end, stream);
}

/* Queues with work in a loop's body, but its own: ret[n_queues]. */
static void body_queues(const Engine *e, EchId loop, bool *ret)
{
    const EchOp *ops = ech_trace_ops(e->trace);
    memset(ret, 0, MAX(ech_trace_n_queues(e->trace), 1) * sizeof *ret);
    for (EchId at = loop + 1; at <= loop + ops[loop].target; at++)
        ret[ops[at].queue] = ops[at].queue != ops[loop].queue;
}

/* A body begins when its loop's own queue has come to it and what the loop depends on is over; the loop ends when all queues have left the body. */
static bool enter_loop(Engine *e, EchId loop, GError **error)
{
    EchCuStream home = e->streams[ech_trace_ops(e->trace)[loop].queue];
    g_autofree bool *others = g_new0(bool, MAX(ech_trace_n_queues(e->trace), 1));
    EchCuEvent begin;
    if (!wait_for(e, loop, error) || !next_mark(e, home, &begin, error))
        return false;
    body_queues(e, loop, others);
    for (size_t q = 0; q < e->n_streams; q++) {
        if (others[q] && !CU(e, stream_wait, "making a queue wait for a loop", error, e->streams[q], begin, 0))
            return false;
    }
    return true;
}

static bool leave_loop(Engine *e, EchId loop, GError **error)
{
    EchCuStream home = e->streams[ech_trace_ops(e->trace)[loop].queue];
    g_autofree bool *others = g_new0(bool, MAX(ech_trace_n_queues(e->trace), 1));
    body_queues(e, loop, others);
    for (size_t q = 0; q < e->n_streams; q++) {
        EchCuEvent end;
        if (others[q] && (!next_mark(e, e->streams[q], &end, error) || !CU(e, stream_wait, "making a loop wait for a queue", error, home, end, 0)))
            return false;
    }
    return mark_end(e, loop, home, error);
}

/* Issues [first, end), loops expanded. */
static bool issue_range(Engine *e, EchId first, EchId end, GError **error)
{
    const EchOp *ops = ech_trace_ops(e->trace);
    for (EchId at = first; at < end; at++) {
        if (ops[at].kind != ECH_OP_LOOP) {
            if (!issue_op(e, at, error))
                return false;
            continue;
        }
        if (!enter_loop(e, at, error))
            return false;
        for (uint64_t trip = 0; trip < ops[at].bytes; trip++) {
            if (!issue_range(e, at + 1, at + 1 + ops[at].target, error))
                return false;
        }
        if (!leave_loop(e, at, error))
            return false;
        at += ops[at].target;
    }
    return true;
}

/* Keeps the GPU busy while the replay is issued, so that a queue never waits for the host that fills it: as long as issuing has taken at best, and half as
 * much again. (At best: the driver makes the host wait where a thousand launches lie ahead of the GPU, and that would count for more each time.) */
static bool head_start(Engine *e, GError **error)
{
    e->issue_begin = g_get_monotonic_time();
    if (e->synchronous || e->issued_before == 0)
        return true;
    gint64 us = MAX((gint64)e->issued_before * 8, e->issue_us + e->issue_us / 2);
    /* A graph's first launch also takes it to the GPU. */
    us += 100 + (e->options->graph ? 2000 + (gint64)e->issued_before * 20 : 0);
    return issue_spin(e, MIN(us, 100000) * ECH_PS_PER_US, e->streams[0], error);
}

static void end_issue(Engine *e)
{
    /* The clock's first event has passed already: queues may have waited for the host. */
    if (e->n_replays >= e->options->warmups && !e->synchronous && e->cu->event_query(e->base) == 0)
        e->n_late++;
    gint64 us = g_get_monotonic_time() - e->issue_begin;
    if (e->issued_before > 0) /* Code is loaded in the first */
        e->issue_us = e->issue_us > 0 ? MIN(e->issue_us, us) : us;
}

/* Every stream waits for the base event, so that all start together; afterwards the first stream waits for all. */
static bool fork_streams(Engine *e, GError **error)
{
    if (!CU(e, event_record, "starting the clock", error, e->base, e->streams[0]))
        return false;
    for (size_t i = 1; i < e->n_streams; i++) {
        if (!CU(e, stream_wait, "starting the queues together", error, e->streams[i], e->base, 0))
            return false;
    }
    return true;
}

static bool join_streams(Engine *e, GError **error)
{
    for (size_t i = 1; i < e->n_streams; i++) {
        if (!CU(e, event_record, "ending a queue", error, e->done[i], e->streams[i]) ||
            !CU(e, stream_wait, "ending the queues together", error, e->streams[0], e->done[i], 0))
            return false;
    }
    return true;
}

static bool elapsed(Engine *e, EchCuEvent begin, EchCuEvent end, EchTime *ret, GError **error)
{
    float ms = 0;
    if (!CU(e, event_elapsed, "reading a time", error, &ms, begin, end))
        return false;
    *ret = (EchTime)((double)ms * 1e9);
    return true;
}

static bool collect(Engine *e, GError **error)
{
    for (EchId at = 0; at < ech_trace_n_ops(e->trace); at++) {
        EchOpKind kind = (EchOpKind)ech_trace_ops(e->trace)[at].kind;
        if (kind == ECH_OP_LOOP || kind == ECH_OP_ALLOC || kind == ECH_OP_FREE || kind == ECH_OP_MARK)
            continue;
        Instances *in = &e->instances[at];
        EchTime total = 0, start = ECH_TIME_NONE;
        for (uint64_t i = 0; i < in->n; i++) {
            EchTime time, from;
            if (!elapsed(e, in->begin[i], in->end[i], &time, error))
                return false;
            if (i == 0) {
                if (!elapsed(e, e->base, in->begin[i], &from, error))
                    return false;
                start = from;
            }
            total += MAX(time - (kind == ECH_OP_KERNEL || kind == ECH_OP_COLLECTIVE ? e->kernel_gap : e->gap), 0);
        }
        if (in->n > 0) {
            g_array_append_val(e->durations[at], total);
            g_array_append_val(e->starts[at], start);
            e->run->ops[at].instances = in->n;
        }
    }
    return true;
}

static void forget_instances(Engine *e)
{
    e->issued_before = e->issued;
    e->n_marks = 0;
    e->cursor = 0;
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++)
        e->instances[i].n = 0;
    e->issued = 0;
}

/* Whether a buffer is filled with the pattern before a replay and looked at after it: whole, aligned words that nothing writes. */
static bool verifiable(const Engine *e, const Place *p)
{
    return e->options->verify && p->live && !p->is_host && !p->written && p->bytes >= 4 && p->device % 4 == 0;
}

static bool reset_buffers(Engine *e, bool resident, GError **error)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        if (buffers[i].alias_of != ECH_NONE)
            continue;
        if (!resident) {
            if (!e->places[i].kept && !release_buffer(e, i, e->streams[0], error))
                return false;
            continue;
        }
        if (!buffers[i].resident && !e->options->graph)
            continue;
        if (!place_buffer(e, i, 0, error))
            return false;
        const Place *p = &e->places[i];
        if (verifiable(e, p) && !CU(e, fill, "filling a buffer", error, p->device, PATTERN, p->bytes / 4, e->streams[0]))
            return false;
    }
    return synchronize(e, error) && note_memory(e, error);
}

static bool verify_buffers(Engine *e, GError **error)
{
    uint32_t differing = 0;
    if (!CU(e, fill, "clearing a counter", error, e->sink, 0, 1, e->streams[0]))
        return false;
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        const Place *p = &e->places[i];
        if (!verifiable(e, p) || !ech_trace_buffers(e->trace)[i].resident)
            continue;
        uint64_t words = p->bytes / 4;
        uint32_t pattern = PATTERN;
        EchCuPointer data = p->device, counter = e->sink;
        void *parameters[] = {&data, &words, &pattern, &counter};
        if (!launch(e, e->verify_kernel, (unsigned)e->gpu.multiprocessors * 4, 256, e->streams[0], parameters, error))
            return false;
    }
    if (!CU(e, copy_from_device, "reading a counter", error, &differing, e->sink, sizeof differing, e->streams[0]) ||
        !CU(e, stream_synchronize, "waiting for the GPU", error, e->streams[0]))
        return false;
    e->run->differing += differing;
    return true;
}

/* Code is loaded when it is first used, into device memory: what is missing between the replays since then is not the trace's. */
static bool discount_code(Engine *e, GError **error)
{
    size_t available, total;
    if (e->options->alloc == ECH_CUDA_ALLOC_ASYNC || e->n_replays != 1)
        return true;
    if (!CU(e, memory_info, "asking for free memory", error, &available, &total))
        return false;
    e->free_before -= e->free_idle > available ? MIN(e->free_idle - available, e->free_before) : 0;
    return true;
}

typedef enum { WARM_UP, MEASURE_MAKESPAN, MEASURE_OPS } Purpose;

static bool replay_once(Engine *e, Purpose purpose, GError **error)
{
    EchTime makespan;
    e->timed = purpose == MEASURE_OPS;
    /* The second, since code is loaded in the first. */
    bool only = e->options->warmups == 0 && e->options->repeats == 1 && e->options->graph;
    e->noting = e->n_replays == (only ? 0 : 1);
    forget_instances(e);
    if (!reset_buffers(e, true, error))
        return false;
    if (e->options->graph) {
        EchCuGraph graph = NULL;
        EchCuGraphExec exec = NULL;
        bool ok = CU(e, capture_begin, "capturing a graph", error, e->streams[0], ECH_CU_CAPTURE_RELAXED) && fork_streams(e, error) &&
                  issue_range(e, 0, (EchId)ech_trace_n_ops(e->trace), error) && join_streams(e, error);
        /* A capture must be ended even if issuing failed; the first error is the one to tell. */
        EchCuResult ended = e->cu->capture_end(e->streams[0], &graph);
        ok = ok && ech_cuda_check(e->cu, ended, "cuStreamEndCapture", "capturing a graph", error) &&
             CU(e, graph_instantiate, "making a graph", error, &exec, graph, 0) && head_start(e, error) &&
             CU(e, event_record, "starting the clock", error, e->base, e->streams[0]) && CU(e, graph_launch, "launching a graph", error, exec, e->streams[0]) &&
             CU(e, event_record, "stopping the clock", error, e->done[0], e->streams[0]) &&
             CU(e, event_synchronize, "waiting for a graph", error, e->done[0]) && elapsed(e, e->base, e->done[0], &makespan, error);
        if (exec)
            e->cu->graph_exec_destroy(exec);
        if (graph)
            e->cu->graph_destroy(graph);
        if (!ok)
            return false;
    } else {
        if (!head_start(e, error) || !fork_streams(e, error) || !issue_range(e, 0, (EchId)ech_trace_n_ops(e->trace), error) || !join_streams(e, error) ||
            !CU(e, event_record, "stopping the clock", error, e->done[0], e->streams[0]))
            return false;
        end_issue(e);
        if (!CU(e, event_synchronize, "waiting for the replay", error, e->done[0]) || !elapsed(e, e->base, e->done[0], &makespan, error) ||
            (e->timed && !collect(e, error)))
            return false;
    }
    if (purpose == MEASURE_MAKESPAN) {
        e->run->makespans[e->run->n_makespans++] = makespan;
        if (e->options->verify && !verify_buffers(e, error))
            return false;
    }
    if (!synchronize(e, error))
        return false;
    for (guint i = 0; i < e->freed->len; i++) {
        if (!g_array_index(e->freed, Freed, i).released)
            ech_allocator_release(e->allocator, g_array_index(e->freed, Freed, i).range);
    }
    g_array_set_size(e->freed, 0);
    e->n_replays++;
    return reset_buffers(e, false, error) && synchronize(e, error) && discount_code(e, error);
}

/* ---- set-up ---- */

static int by_time(const void *a, const void *b)
{
    EchTime x = *(const EchTime *)a, y = *(const EchTime *)b;
    return (x > y) - (x < y);
}

/* Median and, by ranks n/2 -+ 0.98 sqrt(n), a 95 % confidence interval of the median of independent repeats. Sorts. */
static EchTime median(EchTime *times, size_t n, EchTime *ret_low, EchTime *ret_high)
{
    qsort(times, n, sizeof *times, by_time);
    size_t half = 0;
    while ((half + 1) * (half + 1) * 100 <= n * 96)
        half++;
    *ret_low = times[n / 2 > half ? n / 2 - half : 0];
    *ret_high = times[MIN(n / 2 + half, n - 1)];
    return n % 2 ? times[n / 2] : times[n / 2 - 1] + (times[n / 2] - times[n / 2 - 1]) / 2;
}

static void summarise(Engine *e)
{
    EchCudaRun *run = e->run;
    g_autofree EchTime *sorted = g_memdup2(run->makespans, run->n_makespans * sizeof *run->makespans);
    run->makespan = median(sorted, run->n_makespans, &run->low, &run->high);
    for (size_t i = 0; i < run->n_ops; i++) {
        EchCudaOp *op = &run->ops[i];
        op->start = op->duration = op->low = op->high = ECH_TIME_NONE;
        if (e->durations[i]->len == 0)
            continue;
        EchTime low, high;
        op->start = median((EchTime *)(void *)e->starts[i]->data, e->starts[i]->len, &low, &high);
        op->duration = median((EchTime *)(void *)e->durations[i]->data, e->durations[i]->len, &op->low, &op->high);
    }
}

static bool load_kernels(Engine *e, GError **error)
{
    return ech_cuda_load_kernels(e->cu, &e->module, error) &&
           CU(e, module_function, "loading kernels", error, &e->stream_kernel, e->module, "echelon_stream") &&
           CU(e, module_function, "loading kernels", error, &e->fma_kernel, e->module, "echelon_fma") &&
           CU(e, module_function, "loading kernels", error, &e->mma_kernel, e->module, "echelon_mma") &&
           CU(e, module_function, "loading kernels", error, &e->spin_kernel, e->module, "echelon_spin") &&
           CU(e, module_function, "loading kernels", error, &e->noise_kernel, e->module, "echelon_noise") &&
           CU(e, module_function, "loading kernels", error, &e->verify_kernel, e->module, "echelon_verify");
}

/* What each buffer is: where, fixed or not, written or not. */
static void classify_buffers(Engine *e)
{
    const EchTrace *trace = e->trace;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        const char *memory = ech_trace_memory(trace, buffers[i].memory);
        Place *p = &e->places[i];
        p->is_host = name_is_host(memory);
        p->pinned = p->is_host && !strstr(memory, "pageable");
        if (buffers[i].alias_of != ECH_NONE || buffers[i].bytes == 0)
            continue;
        if (buffers[i].offset != ECH_OFFSET_NONE && e->options->alloc == ECH_CUDA_ALLOC_AUTO) {
            Block *block = &e->blocks[buffers[i].memory];
            p->fixed = 1;
            block->bytes = MAX(block->bytes, buffers[i].offset + buffers[i].bytes);
        }
    }
    /* Pinning takes milliseconds, and runtimes keep pinned memory; so do we. */
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        Place *p = &e->places[i];
        p->kept = p->is_host && !p->fixed && buffers[i].alias_of == ECH_NONE && buffers[i].bytes > 0;
    }
    for (size_t i = 0; i < ech_trace_n_uses(trace); i++) {
        const EchUse *use = &ech_trace_uses(trace)[i];
        if (use->access == ECH_WRITE)
            e->places[root_of(buffers, use->buffer, NULL)].written = 1;
    }
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
            live = ech_bytes_add(live, ech_round_up(buffers[i].bytes, 512));
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
        EchBytes bytes = ech_round_up(buffers[op->target].bytes, 512);
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, bytes) : live - MIN(live, bytes);
        peak = MAX(peak, live);
    }
    return peak;
}

static bool take_blocks(Engine *e, GError **error)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        Place *p = &e->places[i];
        if (!p->fixed)
            continue;
        p->offset = buffers[i].offset;
    }
    for (size_t i = 0; i < ech_trace_n_memories(e->trace); i++) {
        Block *block = &e->blocks[i];
        if (block->bytes == 0)
            continue;
        block->bytes = block->bytes + 256;
        if (name_is_host(ech_trace_memory(e->trace, (EchId)i))) {
            if (!take_host(e, block->bytes, true, &block->host, error))
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

/* Host memory that is held from set-up to the end, and the largest copy to or from the host. */
static EchBytes host_bytes(const Engine *e, EchBytes *ret_copy)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    EchBytes sum = 0;
    *ret_copy = 0;
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++)
        sum = ech_bytes_add(sum, e->places[i].kept ? buffers[i].bytes : 0);
    for (size_t i = 0; i < ech_trace_n_memories(e->trace); i++)
        sum = ech_bytes_add(sum, name_is_host(ech_trace_memory(e->trace, (EchId)i)) ? e->blocks[i].bytes : 0);
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        const EchOp *op = &ech_trace_ops(e->trace)[i];
        if (op->kind == ECH_OP_COPY && (name_is_host(ech_trace_memory(e->trace, op->memory_from)) || name_is_host(ech_trace_memory(e->trace, op->memory_to))))
            *ret_copy = MAX(*ret_copy, op->bytes);
    }
    return sum;
}

/* Sizes of everything: buffers, the scratch that kernels stream over, the arena; the scale that makes them fit. */
static bool plan_memory(Engine *e, GError **error)
{
    const EchTrace *trace = e->trace;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    classify_buffers(e);
    EchBytes all, peak = peak_of_buffers(e, &all), fixed = 0;
    for (size_t i = 0; i < ech_trace_n_memories(trace); i++) {
        if (!name_is_host(ech_trace_memory(trace, (EchId)i)))
            fixed = ech_bytes_add(fixed, e->blocks[i].bytes);
    }
    size_t available, total;
    if (!CU(e, memory_info, "asking for free memory", error, &available, &total))
        return false;
    EchBytes copy, pinned = host_bytes(e, &copy);
    if (ech_bytes_add(pinned, copy) > MOST_PINNED) {
        e->fitting = 0.98 * (double)MOST_PINNED / (double)ech_bytes_add(pinned, copy);
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "the trace needs %" G_GUINT64_FORMAT " bytes of host memory; expected at most %" G_GUINT64_FORMAT
                    ", since pinning takes long, or scale=true (--cuda scale=true)",
                    ech_bytes_add(pinned, copy), MOST_PINNED);
        return false;
    }
    /* Kernels stream over many times what the cache holds, so that none finds the bytes of those before it. */
    EchBytes half = MAX(largest_op(e), 8 * (EchBytes)MAX(e->gpu.l2_bytes, 0));
    EchBytes scratch = MIN(ech_round_up(half, 4096), (EchBytes)available / 8) * 2;
    EchBytes room = (EchBytes)available - (EchBytes)available / 20;
    room = room > scratch ? room - scratch : 0;
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
    e->scratch_bytes = ech_round_up(scratch, 8192);
    e->host_scratch_bytes = copy;
    if (!CU(e, allocate, "allocating scratch", error, &e->scratch, e->scratch_bytes) || !CU(e, allocate, "allocating scratch", error, &e->sink, 256) ||
        (copy > 0 && !CU(e, host_allocate, "allocating pinned scratch", error, &e->host_scratch, copy, 0)) ||
        !CU(e, memory_info, "asking for free memory", error, &e->free_before, &total))
        return false;
    /* Queues may run ahead of each other: more may be alive than in the trace's order. */
    arena = MIN(MAX(arena, ech_bytes_add(all, arena)), room - MIN(room, fixed));
    return take_blocks(e, error) && (e->options->alloc != ECH_CUDA_ALLOC_ARENA || take_arena(e, arena, error));
}

/* cuBLAS where it is; where not, a remark. */
static bool start_blas(Engine *e, GError **error)
{
    g_autoptr(GError) absent = NULL;
    bool multiplies = false;
    for (size_t i = 0; !multiplies && i < ech_trace_n_ops(e->trace); i++)
        multiplies = ech_trace_ops(e->trace)[i].kind == ECH_OP_KERNEL && ech_cuda_does(e->prices, e->device, &e->prices->prices[i]) == ECH_CUDA_MULTIPLIES;
    e->blas = e->options->blas && multiplies ? ech_cuda_blas(&absent) : NULL;
    if (e->blas && !ech_cuda_blas_check(e->blas->create(&e->blas_handle), "cublasCreate_v2", "starting cuBLAS", &absent))
        e->blas = NULL;
    if (absent)
        ech_diag_remark(e->run->diag, "%s; matrix products run on a tensor-core kernel of ours, which reaches less than cuBLAS on newer GPUs", absent->message);
    if (!e->blas)
        return true;
    e->workspace_bytes = MIN((size_t)32 << 20, e->gpu.total_memory / 64 / 256 * 256);
    return CU(e, allocate, "allocating cuBLAS's workspace", error, &e->workspace, e->workspace_bytes);
}

/* A kernel that does nothing. Not the spinning one: reading its clock takes time. */
static bool issue_empty(Engine *e, GError **error)
{
    EchCuPointer nowhere = 0;
    uint64_t none = 0;
    void *parameters[] = {&nowhere, &nowhere, &none, &none, &nowhere};
    return launch(e, e->stream_kernel, 1, 32, e->streams[0], parameters, error);
}

/* Time between two events with @kernels empty kernels between them, in a queue that never waits for the host. */
static bool time_empty(Engine *e, unsigned kernels, EchTime *ret, GError **error)
{
    EchTime times[7], low, high;
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
        if (!issue_spin(e, (20 + 10 * (EchTime)kernels) * ECH_PS_PER_US, e->streams[0], error) ||
            !CU(e, event_record, "recording an event", error, e->base, e->streams[0]))
            return false;
        for (unsigned k = 0; k < kernels; k++) {
            if (!issue_empty(e, error))
                return false;
        }
        if (!CU(e, event_record, "recording an event", error, e->done[0], e->streams[0]) ||
            !CU(e, event_synchronize, "waiting for an event", error, e->done[0]) || !elapsed(e, e->base, e->done[0], &times[i], error))
            return false;
    }
    *ret = median(times, G_N_ELEMENTS(times), &low, &high);
    return true;
}

/* What events around an op cost. A kernel between two of them also starts later than one behind another: that, too, no program has that records none. */
static bool measure_gap(Engine *e, GError **error)
{
    enum { ROW = 17 };
    EchTime one, row;
    if (!time_empty(e, 0, &e->gap, error) || !time_empty(e, 1, &one, error) || !time_empty(e, ROW, &row, error))
        return false;
    e->kernel_gap = MAX(one - (row - one) / (ROW - 1), e->gap);
    return true;
}

static bool check_gpu(const Engine *e, GError **error)
{
    bool lacks_vmm = e->options->alloc == ECH_CUDA_ALLOC_VMM && !e->gpu.has_vmm, lacks_pools = e->options->alloc == ECH_CUDA_ALLOC_ASYNC && !e->gpu.has_pools;
    if (lacks_vmm || lacks_pools)
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s has no %s; expected another alloc", e->gpu.name,
                    lacks_vmm ? "virtual memory management" : "memory pools");
    return !lacks_vmm && !lacks_pools;
}

static bool make_streams(Engine *e, GError **error)
{
    for (e->n_streams = 0; e->n_streams < MAX(ech_trace_n_queues(e->trace), 1); e->n_streams++) {
        if (!CU(e, stream_create, "making a stream", error, &e->streams[e->n_streams], ECH_CU_STREAM_NON_BLOCKING) ||
            !CU(e, event_create, "making an event", error, &e->done[e->n_streams], ECH_CU_EVENT_DEFAULT))
            return false;
    }
    return true;
}

/* The driver loads a kernel's code when it is first launched, into device memory: here, before that is looked at, by launches that do nothing. */
static bool touch_kernels(Engine *e, GError **error)
{
    EchCuPointer nowhere = 0;
    uint64_t none = 0;
    uint32_t zero = 0;
    float factor = 1;
    void *stream[] = {&nowhere, &nowhere, &none, &none, &nowhere}, *fma[] = {&none, &factor, &nowhere}, *mma[] = {&none, &nowhere}, *spin[] = {&none};
    void *verify[] = {&nowhere, &none, &zero, &nowhere}, *noise[] = {&nowhere, &none, &zero};
    const struct {
        EchCuFunction function;
        void **parameters;
    } kernels[] = {{e->stream_kernel, stream}, {e->fma_kernel, fma},       {e->mma_kernel, mma},
                   {e->spin_kernel, spin},     {e->verify_kernel, verify}, {e->noise_kernel, noise}};
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        if (!launch(e, kernels[i].function, 1, 32, e->streams[0], kernels[i].parameters, error))
            return false;
    }
    return synchronize(e, error);
}

static bool set_up(Engine *e, GError **error)
{
    const EchTrace *trace = e->trace;
    if (!load_kernels(e, error) || !make_streams(e, error) || !touch_kernels(e, error) || !start_blas(e, error) || !plan_memory(e, error))
        return false;
    EchCuAllocationProp prop = {.type = ECH_CU_ALLOCATION_PINNED, .location = {ECH_CU_LOCATION_DEVICE, e->gpu.device}};
    if (e->options->alloc == ECH_CUDA_ALLOC_VMM && !CU(e, granularity, "asking for the pages' size", error, &e->granularity, &prop, ECH_CU_GRANULARITY_MINIMUM))
        return false;
    /* What products multiply: what they take in power, and so in time, depends on it. */
    uint64_t words = e->scratch_bytes / 8;
    uint32_t seed = 7;
    void *parameters[] = {&e->scratch, &words, &seed};
    if (!launch(e, e->noise_kernel, (unsigned)e->gpu.multiprocessors * 8, 256, e->streams[0], parameters, error))
        return false;
    if (e->options->alloc == ECH_CUDA_ALLOC_ASYNC) {
        EchCuPool pool;
        uint64_t threshold = e->options->release_threshold, none = 0;
        /* What an earlier replay of this process left in the pool is not this one's. */
        if (!CU(e, default_pool, "finding the memory pool", error, &pool, e->gpu.device) || !CU(e, pool_trim, "emptying the memory pool", error, pool, 0) ||
            !CU(e, pool_set, "setting up the memory pool", error, pool, ECH_CU_POOL_RESERVED_HIGH, &none) ||
            !CU(e, pool_set, "setting up the memory pool", error, pool, ECH_CU_POOL_RELEASE_THRESHOLD, &threshold))
            return false;
    }
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (e->places[i].kept && !place_buffer(e, i, 0, error))
            return false;
    }
    const EchOp *ops = ech_trace_ops(trace);
    for (EchId at = 0; at < ech_trace_n_ops(trace); at++) {
        for (uint32_t d = ops[at].first_dep; d < ops[at].first_dep + ops[at].n_deps; d++) {
            EchId on = ech_trace_deps(trace)[d].op;
            e->needed[on] |= ops[on].queue != ops[at].queue;
        }
    }
    size_t total;
    return CU(e, event_create, "making an event", error, &e->base, ECH_CU_EVENT_DEFAULT) && measure_gap(e, error) &&
           CU(e, memory_info, "asking for free memory", error, &e->free_idle, &total);
}

/* Gives everything back, whatever was reached. Errors here come after the one worth telling, so they are dropped. */
static void tear_down(Engine *e)
{
    if (e->gpu.context) {
        e->cu->context_synchronize();
        for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++)
            release_buffer(e, i, e->n_streams > 0 ? e->streams[0] : NULL, NULL);
        for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
            for (uint64_t k = 0; k < e->instances[i].room; k++) {
                if (e->instances[i].begin[k])
                    e->cu->event_destroy(e->instances[i].begin[k]);
                if (e->instances[i].end[k])
                    e->cu->event_destroy(e->instances[i].end[k]);
            }
        }
        for (size_t i = 0; i < MAX(ech_trace_n_queues(e->trace), 1); i++) {
            if (e->done[i])
                e->cu->event_destroy(e->done[i]);
            if (e->streams[i])
                e->cu->stream_destroy(e->streams[i]);
        }
        for (guint i = 0; i < e->marks->len; i++)
            e->cu->event_destroy(g_array_index(e->marks, EchCuEvent, i));
        if (e->base)
            e->cu->event_destroy(e->base);
        if (e->scratch)
            e->cu->release(e->scratch);
        if (e->sink)
            e->cu->release(e->sink);
        if (e->arena)
            e->cu->release(e->arena);
        for (size_t i = 0; i < ech_trace_n_memories(e->trace); i++) {
            if (e->blocks[i].device)
                e->cu->release(e->blocks[i].device);
            if (e->blocks[i].host)
                give_host(e, e->blocks[i].host, true, NULL);
        }
        if (e->blas && e->blas_handle)
            e->blas->destroy(e->blas_handle);
        if (e->workspace)
            e->cu->release(e->workspace);
        if (e->host_scratch)
            e->cu->host_release(e->host_scratch);
        if (e->module)
            e->cu->module_unload(e->module);
        ech_cuda_close(e->cu, &e->gpu);
    }
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        g_free(e->instances[i].begin);
        g_free(e->instances[i].end);
        g_array_unref(e->durations[i]);
        g_array_unref(e->starts[i]);
    }
    ech_allocator_free(e->allocator);
    ech_prices_free(e->prices);
    g_free(e->durations);
    g_free(e->starts);
    g_free(e->instances);
    g_free(e->places);
    g_free(e->streams);
    g_free(e->done);
    g_free(e->needed);
    g_free(e->blocks);
    g_array_unref(e->marks);
    g_array_unref(e->freed);
}

/* Clocks rise only under load, and one replay may be over before they have: a fifth of a second of arithmetic. */
static bool warm_clocks(Engine *e, GError **error)
{
    enum { LAUNCHES = 20 };
    unsigned blocks = (unsigned)MAX(e->gpu.multiprocessors, 1) * 4, threads = 256;
    /* 10 ms each at two operations a clock on 128 lanes of each multiprocessor; a thread's round is 32. */
    double peak = MAX(e->gpu.multiprocessors, 1) * 256.0 * (e->gpu.clock_khz > 0 ? e->gpu.clock_khz : 1500000) * 1e3;
    uint64_t rounds = (uint64_t)(peak * 0.01 / ((double)blocks * threads * 32)) + 1;
    float factor = 0.999F;
    EchCuPointer sink = e->sink;
    void *parameters[] = {&rounds, &factor, &sink};
    for (unsigned i = 0; i < LAUNCHES; i++) {
        if (!launch(e, e->fma_kernel, blocks, threads, e->streams[0], parameters, error))
            return false;
    }
    return synchronize(e, error);
}

static bool replay_all(Engine *e, GError **error)
{
    if (e->options->warmups > 0 && !warm_clocks(e, error))
        return false;
    for (uint64_t i = 0; i < e->options->warmups; i++) {
        if (!replay_once(e, WARM_UP, error))
            return false;
    }
    for (uint64_t i = 0; i < e->options->repeats; i++) {
        if (!replay_once(e, MEASURE_MAKESPAN, error) || (!e->options->graph && !replay_once(e, MEASURE_OPS, error)))
            return false;
    }
    if (e->options->alloc == ECH_CUDA_ALLOC_ASYNC) {
        EchCuPool pool;
        if (!CU(e, default_pool, "finding the memory pool", error, &pool, e->gpu.device) ||
            !CU(e, pool_get, "reading the memory pool", error, pool, ECH_CU_POOL_RESERVED_HIGH, &e->run->pool_reserved))
            return false;
    }
    summarise(e);
    if (e->n_late > 0)
        ech_diag_remark(
            e->run->diag,
            "%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
            " replays were still being issued when the GPU had begun (a thousand launches fill its queue, pageable copies make the host wait): short "
            "operations may have waited for the host",
            e->n_late, e->n_replays - MIN(e->n_replays, e->options->warmups));
    if (e->n_clipped > 0)
        ech_diag_remark(e->run->diag,
                        "kernels that move more than %" G_GUINT64_FORMAT " bytes one way were measured with that much: an eighth of what the GPU had free",
                        e->scratch_bytes / 2);
    return true;
}

/* @ret_fitting: above 0 where the trace does not fit, and would at this scale. */
static EchCudaRun *replay(EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchCudaOptions *options, double *ret_fitting,
                          GError **error)
{
    size_t n_ops = ech_trace_n_ops(trace), n_queues = MAX(ech_trace_n_queues(trace), 1);
    Engine e = {.trace = trace, .options = options, .cu = ech_cuda_driver(error)};
    if (!e.cu)
        return NULL;
    g_autoptr(EchCudaRun) run = e.run = g_new0(EchCudaRun, 1);
    run->diag = ech_diag_new();
    run->trace = ech_trace_ref(trace);
    run->scale = 1;
    run->ops = g_new0(EchCudaOp, n_ops + 1);
    run->n_ops = n_ops;
    run->makespans = g_new0(EchTime, options->repeats);
    EchPriceOptions pricing = {.kernel_time = ECH_KERNEL_TIME_ROOFLINE, .overhead = true, .copy_curve = true};
    e.prices = ech_prices_new(trace, device, reference, &pricing, run->diag, error);
    if (!e.prices)
        return NULL;
    e.places = g_new0(Place, ech_trace_n_buffers(trace) + 1);
    e.instances = g_new0(Instances, n_ops + 1);
    e.durations = g_new0(GArray *, n_ops + 1);
    e.starts = g_new0(GArray *, n_ops + 1);
    e.needed = g_new0(bool, n_ops + 1);
    e.freed = g_array_new(FALSE, FALSE, sizeof(Freed));
    e.marks = g_array_new(FALSE, FALSE, sizeof(EchCuEvent));
    e.blocks = g_new0(Block, ech_trace_n_memories(trace) + 1);
    e.device = device;
    e.streams = g_new0(EchCuStream, n_queues);
    e.done = g_new0(EchCuEvent, n_queues);
    for (size_t i = 0; i < n_ops; i++) {
        e.durations[i] = g_array_new(FALSE, FALSE, sizeof(EchTime));
        e.starts[i] = g_array_new(FALSE, FALSE, sizeof(EchTime));
    }
    bool ok = ech_cuda_open(e.cu, (int)options->gpu, &e.gpu, error);
    if (ok) {
        run->gpu = g_strdup(e.gpu.name);
        run->driver_version = e.gpu.driver_version;
        ok = check_gpu(&e, error) && set_up(&e, error) && replay_all(&e, error);
    }
    tear_down(&e);
    *ret_fitting = e.fitting;
    return ok ? g_steal_pointer(&run) : NULL;
}

EchCudaRun *ech_cuda_replay(EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchCudaOptions *options, GError **error)
{
    g_autoptr(GError) own = NULL;
    double fitting = 0;
    EchCudaRun *run = replay(trace, device, reference, options, &fitting, &own);
    if (run || !(fitting > 0) || !options->scale) {
        if (own)
            g_propagate_error(error, g_steal_pointer(&own));
        return run;
    }
    EchCudaOptions small = *options;
    small.verify = 0; /* Neighbours of a plan overlap by a few bytes when it is scaled */
    /* What the engine needs beside the trace does not shrink in step: a second and third try. */
    double scale = 1;
    for (int i = 0; !run && fitting > 0 && i < 8; i++) {
        scale *= fitting;
        fitting = 0;
        g_clear_error(&own);
        g_autoptr(EchTrace) scaled = scale_trace(trace, scale, &own);
        run = scaled ? replay(scaled, device, reference, &small, &fitting, &own) : NULL;
    }
    if (!run) {
        g_propagate_error(error, g_steal_pointer(&own));
        return NULL;
    }
    run->scale = scale;
    ech_diag_remark(run->diag, "every size was scaled by %.4f to fit the GPU; operations were not, and buffers were not verified", scale);
    return run;
}
