/* A CUDA driver of our own for tests: the same symbols, host memory behind them, a clock that counts bytes, and failures on request.
 *
 * Everything runs at once when it is issued. ECH_FAKE_CUDA_FAIL=N makes the N-th call (from 1) return an error; every call checks its handles, and
 * what is still held at the end is counted in fake_cuda_held() (looked up by the tests). A release that fails has still
 * released. ECH_FAKE_CUDA_BYTES is the card's memory. */
#include "sim/replay/cuda_blas.h"
#include "sim/replay/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define CARD_BYTES (getenv("ECH_FAKE_CUDA_BYTES") ? strtoull(getenv("ECH_FAKE_CUDA_BYTES"), NULL, 10) : (size_t)1 << 28)

#define PROTOTYPE(member, symbol, parameters) EchCuResult symbol parameters;
ECH_CU_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(member, symbol, parameters) int symbol parameters;
ECH_CUBLAS_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, LAUNCH_FAILED = 719 };

typedef struct Block {
    struct Block *next;
    char *data;
    size_t bytes;
    int host;
} Block;

struct EchCuStreamOpaque {
    double clock; /* Nanoseconds */
    int capturing;
};
struct EchCuEventOpaque {
    double clock;
    int recorded;
};
struct EchCuModuleOpaque {
    int unused;
};
struct EchCuFunctionOpaque {
    char name[32];
};

static Block *blocks;
static size_t used;
static long held, calls;
static int ready, current;
static struct EchCuFunctionOpaque functions[8];
static struct EchCuStreamOpaque null_stream;
static char pool, graph;
static double graph_clock;

EXPORT long fake_cuda_held(void);
EXPORT long fake_cuda_calls(void);
EXPORT void fake_cuda_reset(void);

long fake_cuda_held(void)
{
    return held;
}

long fake_cuda_calls(void)
{
    return calls;
}

void fake_cuda_reset(void)
{
    calls = 0;
}

/* True if this call is to fail. */
static int failing(void)
{
    const char *fail = getenv("ECH_FAKE_CUDA_FAIL");
    calls++;
    return fail && strtol(fail, NULL, 10) == calls;
}

#define ENTER()                                                                                                                                      \
    do {                                                                                                                                             \
        if (failing())                                                                                                                               \
            return LAUNCH_FAILED;                                                                                                                    \
        if (!ready)                                                                                                                                  \
            return NOT_INITIALIZED;                                                                                                                  \
    } while (0)
#define ENTER_CONTEXT()                                                                                                                              \
    do {                                                                                                                                             \
        ENTER();                                                                                                                                     \
        if (!current)                                                                                                                                \
            return INVALID_CONTEXT;                                                                                                                  \
    } while (0)

static Block *block_at(const void *pointer, size_t bytes)
{
    for (Block *b = blocks; b; b = b->next) {
        if ((const char *)pointer >= b->data && (const char *)pointer + bytes <= b->data + b->bytes)
            return b;
    }
    return NULL;
}

static EchCuResult take(void **ret, size_t bytes, int host)
{
    if (bytes == 0)
        return INVALID_VALUE;
    if (!host && used + bytes > CARD_BYTES)
        return ECH_CU_ERROR_OUT_OF_MEMORY;
    Block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->data = malloc(bytes);
    if (!b->data)
        abort();
    b->bytes = bytes;
    b->host = host;
    b->next = blocks;
    blocks = b;
    if (!host)
        used += bytes;
    held++;
    *ret = b->data;
    return 0;
}

static EchCuResult give(const void *pointer, int host)
{
    for (Block **at = &blocks; *at; at = &(*at)->next) {
        Block *b = *at;
        if (b->data != pointer || b->host != host)
            continue;
        *at = b->next;
        if (!host)
            used -= b->bytes;
        free(b->data);
        free(b);
        held--;
        return 0;
    }
    return INVALID_VALUE;
}

static struct EchCuStreamOpaque *stream_of(EchCuStream stream)
{
    return stream ? stream : &null_stream;
}

EXPORT EchCuResult cuInit(unsigned flags)
{
    if (failing() || flags)
        return INVALID_VALUE;
    ready = 1;
    return 0;
}

EXPORT EchCuResult cuDriverGetVersion(int *ret)
{
    ENTER();
    *ret = 13000;
    return 0;
}

EXPORT EchCuResult cuDeviceGetCount(int *ret)
{
    ENTER();
    *ret = getenv("ECH_FAKE_CUDA_NONE") ? 0 : 1;
    return 0;
}

EXPORT EchCuResult cuDeviceGet(EchCuDevice *ret, int ordinal)
{
    ENTER();
    *ret = ordinal;
    return ordinal == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDeviceGetName(char *ret, int length, EchCuDevice device)
{
    ENTER();
    snprintf(ret, (size_t)length, "Fake GPU %d", device);
    return 0;
}

EXPORT EchCuResult cuDeviceTotalMem_v2(size_t *ret, EchCuDevice device)
{
    ENTER();
    *ret = CARD_BYTES;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDeviceGetAttribute(int *ret, int attribute, EchCuDevice device)
{
    ENTER();
    *ret = attribute == ECH_CU_ATTRIBUTE_MULTIPROCESSORS ? 4 : attribute == ECH_CU_ATTRIBUTE_MAJOR ? 9 : 1;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDevicePrimaryCtxRetain(EchCuContext *ret, EchCuDevice device)
{
    ENTER();
    held++;
    *ret = (EchCuContext)(void *)&pool;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDevicePrimaryCtxRelease_v2(EchCuDevice device)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuCtxSetCurrent(EchCuContext context)
{
    ENTER();
    current = context != NULL;
    return 0;
}

EXPORT EchCuResult cuCtxSynchronize(void)
{
    ENTER_CONTEXT();
    return 0;
}

EXPORT EchCuResult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    ENTER_CONTEXT();
    *ret_total = CARD_BYTES;
    *ret_free = CARD_BYTES - used;
    return 0;
}

EXPORT EchCuResult cuMemAlloc_v2(EchCuPointer *ret, size_t bytes)
{
    ENTER_CONTEXT();
    void *data;
    EchCuResult result = take(&data, bytes, 0);
    if (result == 0)
        *ret = (EchCuPointer)(uintptr_t)data;
    return result;
}

EXPORT EchCuResult cuMemFree_v2(EchCuPointer pointer)
{
    int fails = failing();
    EchCuResult result = give((void *)(uintptr_t)pointer, 0);
    return fails ? LAUNCH_FAILED : result;
}

EXPORT EchCuResult cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    return take(ret, bytes, 1);
}

EXPORT EchCuResult cuMemFreeHost(void *pointer)
{
    int fails = failing();
    EchCuResult result = give(pointer, 1);
    return fails ? LAUNCH_FAILED : result;
}

EXPORT EchCuResult cuMemAllocAsync(EchCuPointer *ret, size_t bytes, EchCuStream stream)
{
    (void)stream;
    return cuMemAlloc_v2(ret, bytes);
}

EXPORT EchCuResult cuMemFreeAsync(EchCuPointer pointer, EchCuStream stream)
{
    (void)stream;
    return cuMemFree_v2(pointer);
}

EXPORT EchCuResult cuDeviceGetDefaultMemPool(EchCuPool *ret, EchCuDevice device)
{
    ENTER_CONTEXT();
    *ret = (EchCuPool)(void *)&pool;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemPoolGetAttribute(EchCuPool which, int attribute, void *ret)
{
    ENTER_CONTEXT();
    uint64_t value = used;
    memcpy(ret, &value, sizeof value);
    return (void *)which == &pool && attribute > 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemPoolSetAttribute(EchCuPool which, int attribute, void *value)
{
    ENTER_CONTEXT();
    return (void *)which == &pool && attribute > 0 && value ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemPoolTrimTo(EchCuPool which, size_t keep)
{
    ENTER_CONTEXT();
    (void)keep;
    return (void *)which == &pool ? 0 : INVALID_VALUE;
}

/* 20 bytes a nanosecond over the link, 1000 on the device. */
static EchCuResult copy(void *target, const void *source, size_t bytes, EchCuStream stream, double rate, int to_host, int from_host)
{
    Block *t = block_at(target, bytes), *s = block_at(source, bytes);
    if ((!to_host && (!t || t->host)) || (!from_host && (!s || s->host)))
        return INVALID_VALUE;
    if (!stream_of(stream)->capturing)
        memmove(target, source, bytes);
    stream_of(stream)->clock += 5000 + (double)bytes / rate;
    return 0;
}

EXPORT EchCuResult cuMemcpyHtoDAsync_v2(EchCuPointer target, const void *source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    return copy((void *)(uintptr_t)target, source, bytes, stream, 20, 0, 1);
}

EXPORT EchCuResult cuMemcpyDtoHAsync_v2(void *target, EchCuPointer source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    return copy(target, (void *)(uintptr_t)source, bytes, stream, 20, 1, 0);
}

EXPORT EchCuResult cuMemcpyDtoDAsync_v2(EchCuPointer target, EchCuPointer source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    return copy((void *)(uintptr_t)target, (void *)(uintptr_t)source, bytes, stream, 1000, 0, 0);
}

EXPORT EchCuResult cuMemsetD32Async(EchCuPointer target, unsigned value, size_t words, EchCuStream stream)
{
    ENTER_CONTEXT();
    uint32_t *data = (uint32_t *)(uintptr_t)target;
    if (!block_at(data, words * 4))
        return INVALID_VALUE;
    for (size_t i = 0; i < words; i++)
        data[i] = value;
    stream_of(stream)->clock += (double)words * 4 / 1000;
    return 0;
}

EXPORT EchCuResult cuStreamCreate(EchCuStream *ret, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    *ret = calloc(1, sizeof **ret);
    held++;
    return 0;
}

EXPORT EchCuResult cuStreamDestroy_v2(EchCuStream stream)
{
    int fails = failing();
    free(stream);
    held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuStreamSynchronize(EchCuStream stream)
{
    ENTER_CONTEXT();
    (void)stream;
    return 0;
}

EXPORT EchCuResult cuStreamWaitEvent(EchCuStream stream, EchCuEvent event, unsigned flags)
{
    ENTER_CONTEXT();
    if (!event || flags)
        return INVALID_HANDLE;
    if (event->clock > stream_of(stream)->clock)
        stream_of(stream)->clock = event->clock;
    return 0;
}

EXPORT EchCuResult cuStreamBeginCapture_v2(EchCuStream stream, int mode)
{
    ENTER_CONTEXT();
    stream->capturing = mode == ECH_CU_CAPTURE_RELAXED;
    graph_clock = stream->clock;
    return 0;
}

EXPORT EchCuResult cuStreamEndCapture(EchCuStream stream, EchCuGraph *ret)
{
    ENTER_CONTEXT();
    if (!stream->capturing)
        return INVALID_HANDLE;
    stream->capturing = 0;
    graph_clock = stream->clock - graph_clock;
    held++;
    *ret = (EchCuGraph)(void *)&graph;
    return 0;
}

EXPORT EchCuResult cuGraphInstantiateWithFlags(EchCuGraphExec *ret, EchCuGraph from, unsigned long long flags)
{
    ENTER_CONTEXT();
    if ((void *)from != &graph || flags)
        return INVALID_HANDLE;
    held++;
    *ret = (EchCuGraphExec)(void *)&graph;
    return 0;
}

EXPORT EchCuResult cuGraphLaunch(EchCuGraphExec exec, EchCuStream stream)
{
    ENTER_CONTEXT();
    stream_of(stream)->clock += graph_clock;
    return (void *)exec == &graph ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuGraphExecDestroy(EchCuGraphExec exec)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : (void *)exec == &graph ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuGraphDestroy(EchCuGraph which)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : (void *)which == &graph ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuEventCreate(EchCuEvent *ret, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    *ret = calloc(1, sizeof **ret);
    held++;
    return 0;
}

EXPORT EchCuResult cuEventDestroy_v2(EchCuEvent event)
{
    int fails = failing();
    free(event);
    held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuEventRecord(EchCuEvent event, EchCuStream stream)
{
    ENTER_CONTEXT();
    if (!event)
        return INVALID_HANDLE;
    event->clock = stream_of(stream)->clock;
    event->recorded = 1;
    return 0;
}

EXPORT EchCuResult cuEventSynchronize(EchCuEvent event)
{
    ENTER_CONTEXT();
    return event && event->recorded ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuEventElapsedTime(float *ret_ms, EchCuEvent begin, EchCuEvent end)
{
    ENTER_CONTEXT();
    if (!begin || !end || !begin->recorded || !end->recorded)
        return INVALID_HANDLE;
    *ret_ms = (float)((end->clock - begin->clock) / 1e6);
    return 0;
}

EXPORT EchCuResult cuModuleLoadData(EchCuModule *ret, const void *image)
{
    ENTER_CONTEXT();
    if (!strstr(image, ".entry echelon_stream"))
        return INVALID_VALUE;
    *ret = calloc(1, sizeof **ret);
    held++;
    return 0;
}

EXPORT EchCuResult cuModuleUnload(EchCuModule module)
{
    int fails = failing();
    free(module);
    held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuModuleGetFunction(EchCuFunction *ret, EchCuModule module, const char *name)
{
    ENTER_CONTEXT();
    if (!module)
        return INVALID_HANDLE;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].name[0] == '\0')
            snprintf(functions[i].name, sizeof functions[i].name, "%s", name);
        if (strcmp(functions[i].name, name) == 0) {
            *ret = &functions[i];
            return 0;
        }
    }
    return INVALID_VALUE;
}

/* Kernels do on the host what they would do to memory, and take the time of their bytes or operations. */
static EchCuResult run_kernel(const char *name, void **parameters, struct EchCuStreamOpaque *stream, unsigned threads)
{
    if (strcmp(name, "echelon_stream") == 0) {
        uint64_t reads = *(uint64_t *)parameters[2], writes = *(uint64_t *)parameters[3];
        if (!block_at((void *)(uintptr_t)*(EchCuPointer *)parameters[0], reads * 16) || !block_at((void *)(uintptr_t)*(EchCuPointer *)parameters[1], writes * 16))
            return LAUNCH_FAILED;
        memset((void *)(uintptr_t)*(EchCuPointer *)parameters[1], 1, writes * 16);
        stream->clock += (double)(reads + writes) * 16 / 2000;
    } else if (strcmp(name, "echelon_spin") == 0) {
        stream->clock += (double)*(uint64_t *)parameters[0];
    } else if (strcmp(name, "echelon_fma") == 0) {
        stream->clock += (double)*(uint64_t *)parameters[0] * threads * 32 / 1000;
    } else if (strcmp(name, "echelon_mma") == 0) {
        stream->clock += (double)*(uint64_t *)parameters[0] * (threads / 32.0) * 16384 / 100000;
    } else if (strcmp(name, "echelon_verify") == 0) {
        const uint32_t *data = (const uint32_t *)(uintptr_t)*(EchCuPointer *)parameters[0];
        uint64_t words = *(uint64_t *)parameters[1];
        uint32_t pattern = *(uint32_t *)parameters[2], *differing = (uint32_t *)(uintptr_t)*(EchCuPointer *)parameters[3];
        if (!block_at(data, words * 4) || !block_at(differing, 4))
            return LAUNCH_FAILED;
        for (uint64_t i = 0; i < words; i++)
            *differing += data[i] != pattern;
    }
    return 0;
}

EXPORT EchCuResult cuLaunchKernel(EchCuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, EchCuStream stream, void **parameters, void **extra)
{
    ENTER_CONTEXT();
    if (!function || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return INVALID_VALUE;
    stream_of(stream)->clock += 2000;
    return run_kernel(function->name, parameters, stream_of(stream), grid_x * block_x);
}

EXPORT EchCuResult cuGetErrorName(EchCuResult result, const char **ret)
{
    *ret = result == ECH_CU_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : result == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

EXPORT EchCuResult cuMemGetAllocationGranularity(size_t *ret, const EchCuAllocationProp *prop, int option)
{
    ENTER_CONTEXT();
    *ret = (size_t)2 << 20;
    return prop && option >= 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemAddressReserve(EchCuPointer *ret, size_t bytes, size_t alignment, EchCuPointer hint, unsigned long long flags)
{
    (void)alignment, (void)hint, (void)flags;
    return cuMemAlloc_v2(ret, bytes);
}

EXPORT EchCuResult cuMemAddressFree(EchCuPointer pointer, size_t bytes)
{
    (void)bytes;
    return cuMemFree_v2(pointer);
}

EXPORT EchCuResult cuMemCreate(unsigned long long *ret, size_t bytes, const EchCuAllocationProp *prop, unsigned long long flags)
{
    ENTER_CONTEXT();
    *ret = 1;
    held++;
    return bytes > 0 && prop && !flags ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemRelease(unsigned long long handle)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : handle == 1 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemMap(EchCuPointer pointer, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags)
{
    ENTER_CONTEXT();
    return block_at((void *)(uintptr_t)pointer, bytes) && offset == 0 && handle == 1 && !flags ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemUnmap(EchCuPointer pointer, size_t bytes)
{
    ENTER_CONTEXT();
    return block_at((void *)(uintptr_t)pointer, bytes) ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemSetAccess(EchCuPointer pointer, size_t bytes, const EchCuAccess *access, size_t n)
{
    ENTER_CONTEXT();
    return block_at((void *)(uintptr_t)pointer, bytes) && access && n == 1 ? 0 : INVALID_VALUE;
}

/* ---- cuBLAS ---- */

static EchCuStream blas_stream;

EXPORT int cublasCreate_v2(EchCuBlasHandle *ret)
{
    ENTER_CONTEXT();
    *ret = (EchCuBlasHandle)(void *)&pool;
    held++;
    return 0;
}

EXPORT int cublasDestroy_v2(EchCuBlasHandle handle)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : (void *)handle == &pool ? 0 : INVALID_VALUE;
}

EXPORT int cublasGetVersion_v2(EchCuBlasHandle handle, int *ret)
{
    ENTER_CONTEXT();
    *ret = 130000;
    return (void *)handle == &pool ? 0 : INVALID_VALUE;
}

EXPORT int cublasSetStream_v2(EchCuBlasHandle handle, EchCuStream stream)
{
    ENTER_CONTEXT();
    blas_stream = stream;
    return (void *)handle == &pool ? 0 : INVALID_VALUE;
}

EXPORT int cublasSetWorkspace_v2(EchCuBlasHandle handle, void *workspace, size_t bytes)
{
    ENTER_CONTEXT();
    return (void *)handle == &pool && block_at(workspace, bytes) ? 0 : INVALID_VALUE;
}

/* 200 operations a picosecond, 4 us to start. */
EXPORT int cublasGemmStridedBatchedEx(EchCuBlasHandle handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                                      long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta, void *c, int type_c, int ldc,
                                      long long stride_c, int batch, int compute, int algorithm)
{
    ENTER_CONTEXT();
    size_t element = type_a == 3 ? 1 : type_a == 1 ? 8 : type_a == 0 ? 4 : 2, result = type_c == 1 ? 8 : type_c == 0 || type_c == 10 ? 4 : 2;
    (void)compute;
    if ((void *)handle != &pool || m <= 0 || n <= 0 || k <= 0 || batch <= 0 || !alpha || !beta || type_a != type_b || transpose_b || algorithm != -1 ||
        lda < (transpose_a ? k : m) || ldb < k || ldc < m || stride_a < (long long)m * k || stride_b < (long long)k * n || stride_c < (long long)m * n ||
        !block_at(a, (size_t)batch * (size_t)stride_a * element) || !block_at(b, (size_t)batch * (size_t)stride_b * element) ||
        !block_at(c, (size_t)batch * (size_t)stride_c * result))
        return INVALID_VALUE;
    stream_of(blas_stream)->clock += 4000 + 2.0 * m * n * k * batch / 200000;
    return 0;
}
