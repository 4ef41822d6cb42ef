/* What libraries look for before they work at all, and calls of the smaller libraries. */
#include "pretend.h"

#include "models/kernel/fft.h"

#include <dlfcn.h>
#include <stdio.h>

/* ---- the driver's names that cuDNN wants to find before it says what its engines that are compiled at run time can do; it calls none of them then ---- */

enum { DRIVER_NOT_SUPPORTED = 801 };

/* Weak: where driver.c answers one, its answer stands. */
#define LOOKED_UP(name)                                                                                                                                        \
    __attribute__((visibility("default"), weak)) int name(void);                                                                                               \
    int name(void)                                                                                                                                             \
    {                                                                                                                                                          \
        return DRIVER_NOT_SUPPORTED;                                                                                                                           \
    }

LOOKED_UP(cuCtxGetLimit)
LOOKED_UP(cuCtxPopCurrent)
LOOKED_UP(cuCtxPushCurrent)
LOOKED_UP(cuStreamGetCtx)
LOOKED_UP(cuLaunchKernel)
LOOKED_UP(cuLaunchCooperativeKernel)
LOOKED_UP(cuLaunchKernelEx)
LOOKED_UP(cuLibraryLoadData)
LOOKED_UP(cuLibraryLoadFromFile)
LOOKED_UP(cuLibraryGetKernel)
LOOKED_UP(cuLibraryUnload)
LOOKED_UP(cuKernelGetFunction)
LOOKED_UP(cuOccupancyMaxPotentialClusterSize)

static int not_found(void)
{
    return 500; /* CUDA_ERROR_NOT_FOUND */
}

/* Tables of functions that NVIDIA's libraries alone know. NVRTC looks at the size of one, its first word, whether or not it was told that there is none, and
 * nvJitLink calls what stands behind it; what is built on the shared runtime does without. A runtime that is linked into a file whose symbols were
 * stripped (linked.c) gives up here. */
__attribute__((visibility("default"), weak)) int cuGetExportTable(const void **ret, const void *id);
int cuGetExportTable(const void **ret, const void *id)
{
    (void)id;
    Dl_info caller;
    if (!pretend_is_of_cuda(__builtin_return_address(0)) && dladdr(__builtin_return_address(0), &caller) && caller.dli_fname) {
        char what[512];
        snprintf(
            what, sizeof what,
            "%s has CUDA's runtime linked into it and no table of symbols by which it could be reached: it finds no GPU (nvcc -cudart shared links the other)",
            caller.dli_fname);
        pretend_say_once(what);
    }
    static const struct {
        size_t bytes;
        int (*functions[7])(void);
    } empty = {sizeof(size_t), {not_found, not_found, not_found, not_found, not_found, not_found, not_found}};
    *ret = &empty;
    return not_found();
}

/* ---- cuFFT ---- */

#define MAX_PLANS 4096

typedef struct {
    bool used, brings_work; /* its caller brings the work area */
    void *stream, *work;
    uint64_t read, written;
    EchFft fft;
    unsigned bytes; /* of a complex number */
} Plan;

static Plan plans[MAX_PLANS];

static Plan *plan_of(int handle)
{
    return handle > 0 && handle < MAX_PLANS && plans[handle].used ? &plans[handle] : NULL;
}

enum { FFT_INVALID_PLAN = 1, FFT_ALLOC_FAILED = 2, FFT_INVALID_VALUE = 4 };

PRETEND_EXPORT int cufftCreate(int *ret)
{
    pretend_lock();
    int handle = 1;
    while (handle < MAX_PLANS && plans[handle].used)
        handle++;
    if (handle < MAX_PLANS)
        plans[handle] = (Plan){.used = true};
    pretend_unlock();
    if (handle == MAX_PLANS)
        return FFT_ALLOC_FAILED;
    *ret = handle;
    return 0;
}

PRETEND_EXPORT int cufftDestroy(int handle)
{
    pretend_lock();
    Plan *plan = plan_of(handle);
    if (plan) {
        plan->used = false;
        pretend_free(plan->work, NULL, false);
    }
    pretend_unlock();
    return plan ? 0 : FFT_INVALID_PLAN;
}

PRETEND_EXPORT int cufftSetAutoAllocation(int handle, int automatic)
{
    Plan *plan = plan_of(handle);
    if (!plan)
        return FFT_INVALID_PLAN;
    plan->brings_work = !automatic;
    return 0;
}

PRETEND_EXPORT int cufftSetWorkArea(int handle, void *memory)
{
    (void)memory;
    return plan_of(handle) ? 0 : FFT_INVALID_PLAN;
}

PRETEND_EXPORT int cufftSetStream(int handle, void *stream)
{
    Plan *plan = plan_of(handle);
    if (!plan)
        return FFT_INVALID_PLAN;
    plan->stream = stream;
    return 0;
}

/* cudaDataType: bytes of an element, and whether it is complex. */
static unsigned fft_bytes(int type, bool *ret_complex)
{
    static const struct {
        int type;
        unsigned bytes;
        bool is_complex;
    } types[] = {{0, 4, false}, {1, 8, false}, {2, 2, false}, {4, 8, true}, {5, 16, true}, {6, 4, true}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) {
            *ret_complex = types[i].is_complex;
            return types[i].bytes;
        }
    }
    *ret_complex = true;
    return 8;
}

PRETEND_EXPORT int cufftXtMakePlanMany(int handle, int rank, long long *n, long long *in_embed, long long in_stride, long long in_distance, int in_type,
                                       long long *out_embed, long long out_stride, long long out_distance, int out_type, long long batch, size_t *ret_work,
                                       int type)
{
    (void)in_embed, (void)in_stride, (void)in_distance, (void)out_embed, (void)out_stride, (void)out_distance, (void)type;
    Plan *plan = plan_of(handle);
    if (!plan)
        return FFT_INVALID_PLAN;
    if (rank < 1 || rank > 3 || batch < 1)
        return FFT_INVALID_VALUE;
    bool in_complex, out_complex;
    unsigned in_bytes = fft_bytes(in_type, &in_complex), out_bytes = fft_bytes(out_type, &out_complex), number = in_complex ? in_bytes : 2 * in_bytes;
    uint64_t lengths[3], all = (uint64_t)batch, half = (uint64_t)batch;
    for (int d = 0; d < rank; d++) {
        if (n[d] < 1)
            return FFT_INVALID_VALUE;
        lengths[d] = (uint64_t)n[d];
        all *= lengths[d];
        half *= d == rank - 1 ? lengths[d] / 2 + 1 : lengths[d];
    }
    bool real = !in_complex || !out_complex;
    *plan = (Plan){.used = true,
                   .brings_work = plan->brings_work,
                   .stream = plan->stream,
                   .work = plan->work,
                   .read = (in_complex && real ? half : all) * in_bytes,
                   .written = (out_complex && real ? half : all) * out_bytes,
                   .fft = ech_fft_of(lengths, (unsigned)rank, (uint64_t)batch, number, real),
                   .bytes = number};
    *ret_work = (size_t)plan->fft.work;
    if (plan->brings_work || *ret_work == 0)
        return 0;
    pretend_free(plan->work, NULL, false);
    plan->work = pretend_allocate(pretend_current_device(), *ret_work, PRETEND_DEVICE, NULL, false);
    return plan->work ? 0 : FFT_ALLOC_FAILED;
}

PRETEND_EXPORT int cufftXtExec(int handle, void *in, void *out, int direction)
{
    (void)direction;
    const Plan *plan = plan_of(handle);
    if (!plan || plan->fft.points == 0)
        return FFT_INVALID_PLAN;
    const EchFft *fft = &plan->fft;
    char launch[200];
    snprintf(launch, sizeof launch, "rows=%llux%u elements=%llu operand_bytes=%u class=fft instructions=%u passes=%u",
             (unsigned long long)((fft->points + fft->block - 1) / fft->block), fft->block, (unsigned long long)fft->points, plan->bytes,
             fft->instructions < 60000 ? fft->instructions : 60000, fft->passes < 1000 ? fft->passes : 1000);
    pretend_use(PRETEND_READS, in, plan->read);
    pretend_use(PRETEND_WRITES, out, plan->written);
    pretend_library_kernel(plan->stream, "cufft", launch, plan->read, plan->written, 0, NULL);
    return 0;
}

/* By cufftType, whose lowest four bits tell which side is real, the ones above the precision. */
PRETEND_EXPORT int cufftMakePlanMany64(int handle, int rank, long long *n, long long *in_embed, long long in_stride, long long in_distance,
                                       long long *out_embed, long long out_stride, long long out_distance, int type, long long batch, size_t *ret_work)
{
    (void)in_embed, (void)in_stride, (void)in_distance, (void)out_embed, (void)out_stride, (void)out_distance;
    enum { REAL_TO_COMPLEX = 0xa, COMPLEX_TO_REAL = 0xc, DOUBLE = 0x60 };
    bool is_double = (type & 0xf0) == DOUBLE;
    int real = is_double ? 1 : 0, complex = is_double ? 5 : 4;
    size_t work = 0;
    return cufftXtMakePlanMany(handle, rank, n, NULL, 1, 0, (type & 0xf) == REAL_TO_COMPLEX ? real : complex, NULL, 1, 0,
                               (type & 0xf) == COMPLEX_TO_REAL ? real : complex, batch, ret_work ? ret_work : &work, complex);
}

PRETEND_EXPORT int cufftMakePlanMany(int handle, int rank, int *n, int *in_embed, int in_stride, int in_distance, int *out_embed, int out_stride,
                                     int out_distance, int type, int batch, size_t *ret_work)
{
    (void)in_embed, (void)in_stride, (void)in_distance, (void)out_embed, (void)out_stride, (void)out_distance;
    if (rank < 1 || rank > 3)
        return FFT_INVALID_VALUE;
    long long lengths[3];
    for (int d = 0; d < rank; d++)
        lengths[d] = n[d];
    return cufftMakePlanMany64(handle, rank, lengths, NULL, 1, 0, NULL, 1, 0, type, batch, ret_work);
}

PRETEND_EXPORT int cufftPlanMany(int *ret, int rank, int *n, int *in_embed, int in_stride, int in_distance, int *out_embed, int out_stride, int out_distance,
                                 int type, int batch)
{
    int status = cufftCreate(ret);
    return status != 0 ? status : cufftMakePlanMany(*ret, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride, out_distance, type, batch, NULL);
}

PRETEND_EXPORT int cufftMakePlan1d(int handle, int x, int type, int batch, size_t *ret_work)
{
    return cufftMakePlanMany(handle, 1, &x, NULL, 1, 0, NULL, 1, 0, type, batch, ret_work);
}

PRETEND_EXPORT int cufftMakePlan2d(int handle, int x, int y, int type, size_t *ret_work)
{
    return cufftMakePlanMany(handle, 2, (int[]){x, y}, NULL, 1, 0, NULL, 1, 0, type, 1, ret_work);
}

PRETEND_EXPORT int cufftMakePlan3d(int handle, int x, int y, int z, int type, size_t *ret_work)
{
    return cufftMakePlanMany(handle, 3, (int[]){x, y, z}, NULL, 1, 0, NULL, 1, 0, type, 1, ret_work);
}

PRETEND_EXPORT int cufftPlan1d(int *ret, int x, int type, int batch)
{
    return cufftPlanMany(ret, 1, &x, NULL, 1, 0, NULL, 1, 0, type, batch);
}

PRETEND_EXPORT int cufftPlan2d(int *ret, int x, int y, int type)
{
    return cufftPlanMany(ret, 2, (int[]){x, y}, NULL, 1, 0, NULL, 1, 0, type, 1);
}

PRETEND_EXPORT int cufftPlan3d(int *ret, int x, int y, int z, int type)
{
    return cufftPlanMany(ret, 3, (int[]){x, y, z}, NULL, 1, 0, NULL, 1, 0, type, 1);
}

#define FFT_TO(name)                                                                                                                                           \
    PRETEND_EXPORT int name(int handle, void *in, void *out, int direction)                                                                                    \
    {                                                                                                                                                          \
        return cufftXtExec(handle, in, out, direction);                                                                                                        \
    }
FFT_TO(cufftExecC2C)
FFT_TO(cufftExecZ2Z)

#define FFT_OF_REAL(name)                                                                                                                                      \
    PRETEND_EXPORT int name(int handle, void *in, void *out)                                                                                                   \
    {                                                                                                                                                          \
        return cufftXtExec(handle, in, out, 0);                                                                                                                \
    }
FFT_OF_REAL(cufftExecR2C)
FFT_OF_REAL(cufftExecC2R)
FFT_OF_REAL(cufftExecD2Z)
FFT_OF_REAL(cufftExecZ2D)

/* ---- what is not pretended: one line that names it, and the library's own "not supported" ---- */

/* cuBLAS's of rotations, of symmetric, banded and packed matrices and of triangles. */
#define NO_BLAS(name) PRETEND_REFUSED(name, 15)
#define NO_BLAS_OF(T)                                                                                                                                          \
    NO_BLAS(cublas##T##gbmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##gemvBatched)                                                                                                                            \
    NO_BLAS(cublas##T##gemvStridedBatched)                                                                                                                     \
    NO_BLAS(cublas##T##matinvBatched)                                                                                                                          \
    NO_BLAS(cublas##T##rot_v2)                                                                                                                                 \
    NO_BLAS(cublas##T##rotg_v2)                                                                                                                                \
    NO_BLAS(cublas##T##symm_v2)                                                                                                                                \
    NO_BLAS(cublas##T##symv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##syr2_v2)                                                                                                                                \
    NO_BLAS(cublas##T##syr2k_v2)                                                                                                                               \
    NO_BLAS(cublas##T##syr_v2)                                                                                                                                 \
    NO_BLAS(cublas##T##syrk_v2)                                                                                                                                \
    NO_BLAS(cublas##T##syrkx)                                                                                                                                  \
    NO_BLAS(cublas##T##tbmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##tbsv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##tpmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##tpsv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##tpttr)                                                                                                                                  \
    NO_BLAS(cublas##T##trmm_v2)                                                                                                                                \
    NO_BLAS(cublas##T##trmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##trsv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##trttp)
#define NO_BLAS_OF_REAL(T)                                                                                                                                     \
    NO_BLAS(cublas##T##rotm_v2)                                                                                                                                \
    NO_BLAS(cublas##T##rotmg_v2)                                                                                                                               \
    NO_BLAS(cublas##T##sbmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##spmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##spr2_v2)                                                                                                                                \
    NO_BLAS(cublas##T##spr_v2)                                                                                                                                 \
    NO_BLAS(cublas##T##gemmGroupedBatched)
#define NO_BLAS_OF_COMPLEX(T)                                                                                                                                  \
    NO_BLAS(cublas##T##gemm3m)                                                                                                                                 \
    NO_BLAS(cublas##T##hbmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##hemm_v2)                                                                                                                                \
    NO_BLAS(cublas##T##hemv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##her2_v2)                                                                                                                                \
    NO_BLAS(cublas##T##her2k_v2)                                                                                                                               \
    NO_BLAS(cublas##T##her_v2)                                                                                                                                 \
    NO_BLAS(cublas##T##herk_v2)                                                                                                                                \
    NO_BLAS(cublas##T##herkx)                                                                                                                                  \
    NO_BLAS(cublas##T##hpmv_v2)                                                                                                                                \
    NO_BLAS(cublas##T##hpr2_v2)                                                                                                                                \
    NO_BLAS(cublas##T##hpr_v2)
NO_BLAS_OF(S)
NO_BLAS_OF(D)
NO_BLAS_OF(C)
NO_BLAS_OF(Z)
NO_BLAS_OF_REAL(S)
NO_BLAS_OF_REAL(D)
NO_BLAS_OF_COMPLEX(C)
NO_BLAS_OF_COMPLEX(Z)
NO_BLAS(cublasCsrot_v2)
NO_BLAS(cublasZdrot_v2)
NO_BLAS(cublasGetMatrixAsync)
NO_BLAS(cublasGetVectorAsync)
NO_BLAS(cublasSetMatrixAsync)
NO_BLAS(cublasSetVectorAsync)
NO_BLAS(cublasCgemm3mBatched)
NO_BLAS(cublasCgemm3mEx)
NO_BLAS(cublasCgemm3mStridedBatched)
NO_BLAS(cublasCgemmEx)
NO_BLAS(cublasCherk3mEx)
NO_BLAS(cublasCherkEx)
NO_BLAS(cublasCsyrk3mEx)
NO_BLAS(cublasCsyrkEx)
NO_BLAS(cublasGemmGroupedBatchedEx)
NO_BLAS(cublasHSHgemvBatched)
NO_BLAS(cublasHSHgemvStridedBatched)
NO_BLAS(cublasHSSgemvBatched)
NO_BLAS(cublasHSSgemvStridedBatched)
NO_BLAS(cublasTSSgemvBatched)
NO_BLAS(cublasTSSgemvStridedBatched)
NO_BLAS(cublasTSTgemvBatched)
NO_BLAS(cublasTSTgemvStridedBatched)
NO_BLAS(cublasAsumEx)
NO_BLAS(cublasAxpyEx)
NO_BLAS(cublasCopyEx)
NO_BLAS(cublasDotcEx)
NO_BLAS(cublasIamaxEx)
NO_BLAS(cublasIaminEx)
NO_BLAS(cublasNrm2Ex)
NO_BLAS(cublasRotEx)
NO_BLAS(cublasRotgEx)
NO_BLAS(cublasRotmEx)
NO_BLAS(cublasRotmgEx)
NO_BLAS(cublasScalEx)
NO_BLAS(cublasSwapEx)
NO_BLAS(cublasUint8gemmBias)

/* Algorithms by their numbers. */
NO_BLAS(cublasLtGroupedMatrixLayoutInit_internal)
NO_BLAS(cublasLtMatmulAlgoInit)
NO_BLAS(cublasLtMatmulAlgoCheck)
NO_BLAS(cublasLtMatmulAlgoConfigGetAttribute)
NO_BLAS(cublasLtMatmulAlgoConfigSetAttribute)
