/* What is done in the place of kernels and copies: bytes streamed, operations, products by cuBLAS, time waited for, real copies. */
#include "models/kernel/measured.h"
#include "sim/replay/cuda_private.h"

#include <string.h>

bool ech_cuda_launch(Engine *e, EchCuFunction function, unsigned blocks, unsigned threads, EchCuStream stream, void **parameters, GError **error)
{
    return CU(e, launch, "launching a kernel", error, function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}

static bool load_kernels(Engine *e, GError **error)
{
    const struct {
        const char *name;
        EchCuFunction *function;
    } kernels[] = {{"echelon_stream", &e->stream_kernel}, {"echelon_fma", &e->fma_kernel},     {"echelon_mma", &e->mma_kernel},
                   {"echelon_spin", &e->spin_kernel},     {"echelon_noise", &e->noise_kernel}, {"echelon_verify", &e->verify_kernel}};
    if (!ech_cuda_load_kernels(e->cu, &e->module, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        if (!CU(e, module_function, "loading kernels", error, kernels[i].function, e->module, kernels[i].name))
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
        if (!ech_cuda_launch(e, kernels[i].function, 1, 32, e->streams[0], kernels[i].parameters, error))
            return false;
    }
    return synchronize(e, error);
}

static bool multiplies(const Engine *e, EchId at)
{
    return ech_trace_ops(e->trace)[at].kind == ECH_OP_KERNEL && ech_cuda_does(e->trace, at, e->prices, e->device) == ECH_CUDA_MULTIPLIES;
}

bool ech_cuda_heats(const Engine *e)
{
    bool any = false;
    for (size_t i = 0; !any && ech_measured_burst(e->device, "bf16", false) > 1.02 && i < ech_trace_n_ops(e->trace); i++) {
        EchGemm gemm;
        any =
            multiplies(e, (EchId)i) && ech_cuda_gemm_of(e->trace, &ech_trace_ops(e->trace)[i], &gemm) && ech_cuda_gemm_operations(&gemm) > ECH_CUDA_GEMM_HEATS;
    }
    return any;
}

/* cuBLAS where it is; where not, a remark. */
static bool start_blas(Engine *e, GError **error)
{
    g_autoptr(GError) absent = NULL;
    bool any = false;
    for (size_t i = 0; !any && i < ech_trace_n_ops(e->trace); i++)
        any = multiplies(e, (EchId)i);
    e->blas = e->options->blas && any ? ech_cuda_blas(&absent) : NULL;
    if (e->blas && !ech_cuda_blas_check(e->blas->create(&e->blas_handle), "cublasCreate_v2", "starting cuBLAS", &absent))
        e->blas = NULL;
    if (absent)
        ech_diag_remark(e->run->diag, "%s; matrix products run on a tensor-core kernel of ours, which reaches less than cuBLAS on newer GPUs", absent->message);
    if (!e->blas)
        return true;
    e->workspace_bytes = MIN((size_t)32 << 20, e->gpu.total_memory / 64 / 256 * 256);
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        EchCuPointer *workspace = &e->workspaces[ech_trace_ops(e->trace)[i].queue];
        if (*workspace == 0 && multiplies(e, (EchId)i) && !CU(e, allocate, "allocating cuBLAS's workspace", error, workspace, e->workspace_bytes))
            return false;
    }
    return true;
}

bool ech_cuda_start_work(Engine *e, GError **error)
{
    return load_kernels(e, error) && touch_kernels(e, error) && start_blas(e, error);
}

/* Numbers by chance: what products take in power, and so in time, depends on them. */
bool ech_cuda_fill_scratch(Engine *e, GError **error)
{
    uint64_t words = e->scratch_bytes / 8;
    uint32_t seed = 7;
    void *parameters[] = {&e->scratch, &words, &seed};
    return ech_cuda_launch(e, e->noise_kernel, (unsigned)e->gpu.multiprocessors * 8, 256, e->streams[0], parameters, error);
}

/* Where in each half of the scratch the next @bytes lie: behind what was used last, so that no kernel finds its bytes in the cache. */
static EchBytes next_place(Engine *e, EchBytes bytes)
{
    EchBytes at = e->cursor + bytes > e->scratch_bytes / 2 ? 0 : e->cursor;
    e->cursor = at + ech_round_up(bytes, 256);
    return at;
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
    EchCuPointer source = e->scratch + next_place(e, MAX(reads, writes) * 16), target = source + e->scratch_bytes / 2;
    void *parameters[] = {&source, &target, &reads, &writes, &sink};
    return ech_cuda_launch(e, e->stream_kernel, (unsigned)e->gpu.multiprocessors * 8, 512, stream, parameters, error);
}

bool ech_cuda_issue_reads(Engine *e, EchBytes bytes, EchCuStream stream, GError **error)
{
    EchCuPointer source = e->scratch + next_place(e, bytes), sink = e->sink;
    uint64_t reads = bytes / 16, writes = 0;
    void *parameters[] = {&source, &source, &reads, &writes, &sink};
    return ech_cuda_launch(e, e->stream_kernel, (unsigned)e->gpu.multiprocessors * 8, 512, stream, parameters, error);
}

bool ech_cuda_issue_vector(Engine *e, uint64_t operations, EchCuStream stream, GError **error)
{
    unsigned blocks = (unsigned)MAX(e->gpu.multiprocessors, 1) * 4, threads = 256;
    uint64_t rounds = operations / ((uint64_t)blocks * threads * 32) + 1; /* A thread's round is 32 */
    float factor = 0.999F;
    void *parameters[] = {&rounds, &factor, &e->sink};
    return ech_cuda_launch(e, e->fma_kernel, blocks, threads, stream, parameters, error);
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
            e->n_reshaped += !gemm.known;
            EchCuPointer from = e->scratch + next_place(e, MAX(inputs, output)), to = from + e->scratch_bytes / 2;
            return ech_cuda_gemm_issue(e->blas, e->blas_handle, &gemm, from, to, e->workspaces[op->queue], e->workspace_bytes, stream, error);
        }
    }
    if (on_matrix) {
        e->n_reshaped += e->blas != NULL;
        /* A warp's round is 4 products of 16x8x16: 16384 operations. */
        uint64_t rounds = matrix / ((uint64_t)blocks * (threads / 32) * 16384) + 1;
        void *parameters[] = {&rounds, &sink};
        return ech_cuda_launch(e, e->mma_kernel, blocks, threads, stream, parameters, error);
    }
    return ech_cuda_issue_vector(e, vector, stream, error);
}

bool ech_cuda_issue_spin(Engine *e, EchTime time, EchCuStream stream, GError **error)
{
    uint64_t nanoseconds = (uint64_t)(MAX(time - e->spin_extra, 0) / ECH_PS_PER_NS);
    void *parameters[] = {&nanoseconds};
    return ech_cuda_launch(e, e->spin_kernel, 1, 1, stream, parameters, error);
}

/* A kernel that does nothing. Not the spinning one: reading its clock takes time. */
bool ech_cuda_issue_empty(Engine *e, EchCuStream stream, GError **error)
{
    EchCuPointer nowhere = 0;
    uint64_t none = 0;
    void *parameters[] = {&nowhere, &nowhere, &none, &none, &nowhere};
    return ech_cuda_launch(e, e->stream_kernel, 1, 32, stream, parameters, error);
}

/* Whether there is a kernel for most of an op's vector operations. */
static bool computes(const EchTrace *trace, const EchOp *op)
{
    const EchWork *work = ech_trace_work(trace) + op->first_work, *most = NULL;
    for (uint32_t i = 0; i < op->n_work; i++)
        most = work[i].unit != ECH_WORK_MATRIX && (!most || work[i].count > most->count) ? &work[i] : most;
    return !most || most->dtype != ECH_DTYPE_F64;
}

EchCudaDoes ech_cuda_does(const EchTrace *trace, EchId at, const EchPrices *prices, const EchDevice *device)
{
    const EchOp *op = &ech_trace_ops(trace)[at];
    const EchPrice *price = &prices->prices[at];
    EchGemm gemm;
    if ((price->source != ECH_PRICE_ROOFLINE && price->source != ECH_PRICE_CODE) || price->bound == ECH_NONE)
        return ECH_CUDA_SPINS;
    if (prices->kinds[price->bound] != ECH_RESOURCE_UNIT) {
        bool hbm = prices->kinds[price->bound] == ECH_RESOURCE_PORT && device->memories[prices->owners[price->bound]].kind == ECH_MEM_HBM;
        return hbm ? ECH_CUDA_STREAMS : ECH_CUDA_SPINS;
    }
    EchUnitKind unit = device->units[prices->owners[price->bound]].kind;
    if (unit == ECH_UNIT_MATRIX && ech_cuda_gemm_of(trace, op, &gemm))
        return ECH_CUDA_MULTIPLIES;
    return unit == ECH_UNIT_VECTOR && computes(trace, op) ? ECH_CUDA_COMPUTES : ECH_CUDA_SPINS;
}

bool ech_cuda_issue_kernel(Engine *e, EchId at, const EchOp *op, EchCuStream stream, GError **error)
{
    const EchPrice *price = &e->prices->prices[at];
    switch (ech_cuda_does(e->trace, at, e->prices, e->device)) {
    case ECH_CUDA_STREAMS: return issue_stream(e, op, e->prices->owners[price->bound], stream, error);
    case ECH_CUDA_MULTIPLIES: return issue_arithmetic(e, op, true, stream, error);
    case ECH_CUDA_COMPUTES: return issue_arithmetic(e, op, false, stream, error);
    case ECH_CUDA_SPINS: break;
    }
    EchTime launch = (EchTime)ech_device_number(e->device, "runtime.launch_ps", 0); /* Comes by itself */
    return ech_cuda_issue_spin(e, MAX(price->alone - launch, 0), stream, error);
}

bool ech_cuda_issue_copy(Engine *e, const EchOp *op, EchCuStream stream, GError **error)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    const EchUse *uses = ech_trace_uses(e->trace) + op->first_use;
    bool from_host = ech_cuda_is_host(e->trace, op->memory_from);
    bool to_host = ech_cuda_is_host(e->trace, op->memory_to);
    bool from_pinned = ech_cuda_is_pinned(e->trace, op->memory_from), to_pinned = ech_cuda_is_pinned(e->trace, op->memory_to);
    EchBytes bytes = op->bytes;
    EchCuPointer source = 0, target = 0;
    void *host_source = NULL, *host_target = NULL;
    for (uint32_t i = 0; i < MIN(op->n_uses, 2u); i++) {
        uint64_t offset;
        Place *p = &e->places[ech_buffer_root(buffers, uses[i].buffer, &offset)];
        if (!p->live || offset + bytes > p->bytes)
            continue;
        if (p->is_host)
            *(i == 0 ? &host_source : &host_target) = (char *)p->host + offset;
        else
            *(i == 0 ? &source : &target) = p->device + offset;
    }
    /* Copies of no buffer move scratch. */
    if ((from_host && !host_source) || (to_host && !host_target))
        bytes = MIN(bytes, MIN(from_host ? e->host_scratch_bytes[from_pinned] : bytes, to_host ? e->host_scratch_bytes[to_pinned] : bytes));
    if ((!from_host && !source) || (!to_host && !target))
        bytes = MIN(bytes, e->scratch_bytes / 2);
    source = source ? source : e->scratch;
    target = target ? target : e->scratch + e->scratch_bytes / 2;
    host_source = host_source ? host_source : e->host_scratch[from_pinned];
    host_target = host_target ? host_target : e->host_scratch[to_pinned];
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
