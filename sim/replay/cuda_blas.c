#include "sim/replay/cuda_blas.h"

#include "sim/base/error.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

static bool load(EchCuBlas *blas, GError **error)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL};
    const char *name = g_getenv("ECHELON_LIBCUBLAS");
    g_autofree char *why = NULL;
    if (name && !*name) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "cuBLAS is switched off by ECHELON_LIBCUBLAS");
        return false;
    }
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : ech_cuda_open_library(names, &why);
    if (!library) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND,
                    "no cuBLAS here (%s); expected libcublas.so.11 to .13 among the system's libraries, a toolkit's or a Python "
                    "environment's, or named by ECHELON_LIBCUBLAS",
                    why ? why : dlerror());
        return false;
    }
#define ECH_CUBLAS_LOAD(member, symbol, parameters)                                                                                                            \
    {                                                                                                                                                          \
        void *found = dlsym(library, #symbol);                                                                                                                 \
        if (!found) {                                                                                                                                          \
            g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "cuBLAS has no %s; expected version 11.3 or newer", #symbol);                                     \
            dlclose(library);                                                                                                                                  \
            return false;                                                                                                                                      \
        }                                                                                                                                                      \
        memcpy(&blas->member, &found, sizeof found);                                                                                                           \
    }
    ECH_CUBLAS_FUNCTIONS(ECH_CUBLAS_LOAD)
#undef ECH_CUBLAS_LOAD
    return true;
}

const EchCuBlas *ech_cuda_blas(GError **error)
{
    static EchCuBlas blas;
    static bool loaded;
    if (!loaded) {
        EchCuBlas fresh;
        if (!load(&fresh, error))
            return NULL;
        blas = fresh;
        loaded = true;
    }
    return &blas;
}

bool ech_cuda_blas_check(int status, const char *symbol, const char *what, GError **error)
{
    if (status == 0)
        return true;
    static const struct {
        int status;
        const char *name;
    } names[] = {{1, "CUBLAS_STATUS_NOT_INITIALIZED"}, {3, "CUBLAS_STATUS_ALLOC_FAILED"},      {7, "CUBLAS_STATUS_INVALID_VALUE"},
                 {8, "CUBLAS_STATUS_ARCH_MISMATCH"},   {13, "CUBLAS_STATUS_EXECUTION_FAILED"}, {14, "CUBLAS_STATUS_INTERNAL_ERROR"},
                 {15, "CUBLAS_STATUS_NOT_SUPPORTED"}};
    const char *name = "unknown status";
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        name = names[i].status == status ? names[i].name : name;
    g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s: %s (%d) while %s", symbol, name, status, what);
    return false;
}

/* cudaDataType of inputs and output, cublasComputeType; sizes follow ech_dtype_bits. */
typedef struct {
    EchDtype dtype;
    int input, output, compute, output_bytes;
} GemmType;
static const GemmType gemm_types[] = {
    {ECH_DTYPE_BF16, ECH_CUBLAS_BF16, ECH_CUBLAS_BF16, ECH_CUBLAS_COMPUTE_F32, 2}, {ECH_DTYPE_F16, ECH_CUBLAS_F16, ECH_CUBLAS_F16, ECH_CUBLAS_COMPUTE_F32, 2},
    {ECH_DTYPE_F32, ECH_CUBLAS_F32, ECH_CUBLAS_F32, ECH_CUBLAS_COMPUTE_TF32, 4},   {ECH_DTYPE_F64, ECH_CUBLAS_F64, ECH_CUBLAS_F64, ECH_CUBLAS_COMPUTE_F64, 8},
    {ECH_DTYPE_S8, ECH_CUBLAS_S8, ECH_CUBLAS_S32, ECH_CUBLAS_COMPUTE_S32, 4},
};

static const GemmType *gemm_type(EchDtype dtype)
{
    for (size_t i = 0; i < G_N_ELEMENTS(gemm_types); i++) {
        if (gemm_types[i].dtype == dtype)
            return &gemm_types[i];
    }
    return NULL;
}

bool ech_cuda_gemm_is_odd(const EchGemm *gemm)
{
    return gemm->m % 8 || gemm->n % 8 || gemm->k % 8;
}

uint64_t ech_cuda_gemm_operations(const EchGemm *gemm)
{
    return 2 * (uint64_t)gemm->m * (uint64_t)gemm->n * (uint64_t)gemm->k * (uint64_t)gemm->batch * gemm->times;
}

void ech_cuda_gemm_bytes(const EchGemm *gemm, EchBytes *ret_inputs, EchBytes *ret_output)
{
    const GemmType *type = gemm_type((EchDtype)gemm->dtype);
    EchBytes element = ech_dtype_bits((EchDtype)gemm->dtype) / 8, batch = (EchBytes)gemm->batch;
    *ret_inputs =
        batch * (ech_round_up((EchBytes)gemm->m * (EchBytes)gemm->k * element, 256) + ech_round_up((EchBytes)gemm->k * (EchBytes)gemm->n * element, 256));
    *ret_output = batch * (EchBytes)gemm->m * (EchBytes)gemm->n * (EchBytes)(type ? type->output_bytes : 0);
}

bool ech_cuda_gemm_cube(EchDtype dtype, uint64_t operations, EchGemm *ret)
{
    if (operations == 0 || !gemm_type(dtype))
        return false;
    double side = cbrt((double)operations / 2);
    uint64_t edge = side >= 8192 ? 8192 : MAX((uint64_t)(side / 128 + 0.5), 1) * 128;
    uint64_t inner = operations / (2 * edge * edge), times = inner / 8192 + 1;
    inner = MAX((inner / times + 4) / 8 * 8, 8);
    *ret = (EchGemm){.dtype = (uint8_t)dtype, .known = false, .m = (int)edge, .n = (int)edge, .k = (int)inner, .batch = 1, .times = times};
    return true;
}

/* Elements of the op's uses one way: the largest, and the next where it is wanted. */
static void sides(const EchTrace *trace, const EchOp *op, EchAccess access, uint64_t largest[2])
{
    largest[0] = largest[1] = 0;
    for (uint32_t i = op->first_use; i < op->first_use + op->n_uses; i++) {
        const EchUse *use = &ech_trace_uses(trace)[i];
        const EchBuffer *buffer = &ech_trace_buffers(trace)[use->buffer];
        unsigned bits = ech_dtype_bits((EchDtype)buffer->dtype);
        if (use->access != access || bits < 8)
            continue;
        uint64_t elements = (buffer->dense ? MIN(buffer->dense, use->bytes) : use->bytes) / (bits / 8);
        if (elements > largest[0]) {
            largest[1] = largest[0];
            largest[0] = elements;
        } else if (elements > largest[1]) {
            largest[1] = elements;
        }
    }
}

bool ech_cuda_gemm_of(const EchTrace *trace, const EchOp *op, EchGemm *ret)
{
    uint64_t operations = 0, most = 0;
    EchDtype dtype = ECH_DTYPE_NONE;
    for (uint32_t i = op->first_work; i < op->first_work + op->n_work; i++) {
        const EchWork *work = &ech_trace_work(trace)[i];
        if (work->unit != ECH_WORK_MATRIX)
            continue;
        operations = ech_bytes_add(operations, work->count);
        if (work->count > most) {
            most = work->count;
            dtype = (EchDtype)work->dtype;
        }
    }
    if (operations == 0 || !gemm_type(dtype))
        return false;
    uint64_t in[2], out[2];
    sides(trace, op, ECH_READ, in);
    sides(trace, op, ECH_WRITE, out);
    /* With b products of m x k and k x n: A = bmk, B = bkn, C = bmn, operations = 2bmnk. */
    uint64_t k = out[0] ? operations / 2 / out[0] : 0;
    if (k > 0 && in[1] > 0 && operations % 2 == 0 && k * out[0] == operations / 2 && in[0] % k == 0 && in[1] % k == 0) {
        uint64_t bm = in[0] / k, bn = in[1] / k;
        uint64_t product = bm <= UINT64_MAX / bn ? bm * bn : 0, b = product / out[0];
        /* 8-bit products come in multiples of 4 only. */
        uint64_t step = dtype == ECH_DTYPE_S8 ? 4 : 1;
        if (b > 0 && bm / b % step == 0 && bn / b % step == 0 && k % step == 0 && product % out[0] == 0 && bm % b == 0 && bn % b == 0 && bm / b <= INT32_MAX &&
            bn / b <= INT32_MAX && k <= INT32_MAX && b <= INT32_MAX) {
            *ret = (EchGemm){.dtype = (uint8_t)dtype, .known = true, .m = (int)(bm / b), .n = (int)(bn / b), .k = (int)k, .batch = (int)b, .times = 1};
            return true;
        }
    }
    return ech_cuda_gemm_cube(dtype, operations, ret);
}

bool ech_cuda_gemm_issue(const EchCuBlas *blas, EchCuBlasHandle handle, const EchGemm *gemm, EchCuPointer inputs, EchCuPointer output, EchCuPointer workspace,
                         size_t workspace_bytes, EchCuStream stream, GError **error)
{
    static const float one_f = 1, zero_f = 0;
    static const double one_d = 1, zero_d = 0;
    static const int one_i = 1, zero_i = 0;
    const GemmType *type = gemm_type((EchDtype)gemm->dtype);
    g_assert(type);
    const void *one = type->dtype == ECH_DTYPE_F64 ? (const void *)&one_d : type->dtype == ECH_DTYPE_S8 ? (const void *)&one_i : (const void *)&one_f;
    const void *zero = type->dtype == ECH_DTYPE_F64 ? (const void *)&zero_d : type->dtype == ECH_DTYPE_S8 ? (const void *)&zero_i : (const void *)&zero_f;
    EchBytes element = ech_dtype_bits(type->dtype) / 8;
    long long a = (long long)gemm->m * gemm->k, b = (long long)gemm->k * gemm->n, c = (long long)gemm->m * gemm->n;
    EchCuPointer second = inputs + (EchBytes)gemm->batch * ech_round_up((EchBytes)a * element, 256);
    /* Choosing a queue also forgets the workspace. */
    if (!ech_cuda_blas_check(blas->set_stream(handle, stream), "cublasSetStream_v2", "choosing a queue", error) ||
        !ech_cuda_blas_check(blas->set_workspace(handle, (void *)(uintptr_t)workspace, workspace_bytes), "cublasSetWorkspace_v2", "choosing a queue", error))
        return false;
    /* 8-bit integers only come as transposed times plain. */
    bool transposed = type->dtype == ECH_DTYPE_S8;
    for (uint64_t i = 0; i < gemm->times; i++) {
        int status = blas->gemm(handle, transposed ? ECH_CUBLAS_TRANSPOSED : ECH_CUBLAS_PLAIN, ECH_CUBLAS_PLAIN, gemm->m, gemm->n, gemm->k, one,
                                (const void *)(uintptr_t)inputs, type->input, transposed ? gemm->k : gemm->m, a, (const void *)(uintptr_t)second, type->input,
                                gemm->k, b, zero, (void *)(uintptr_t)output, type->output, gemm->m, c, gemm->batch, type->compute, ECH_CUBLAS_DEFAULT);
        if (!ech_cuda_blas_check(status, "cublasGemmStridedBatchedEx", "multiplying matrices", error))
            return false;
    }
    return true;
}
