/** @file cuda_blas.h
 * cuBLAS by dlopen, for matrix products whose shapes are known, and the shapes themselves.
 *
 * A machine without cuBLAS is no error: the engine then burns the operations on its own tensor-core kernel. ECHELON_LIBCUBLAS names
 * another library to load ("" for none): the tests' fake.
 */
#pragma once
#include "sim/replay/cuda_driver.h"
#include "sim/trace/trace.h"

typedef struct EchCuBlasOpaque *EchCuBlasHandle;
typedef int EchCuBlasStatus, EchCuBlasTranspose, EchCuBlasType, EchCuBlasCompute, EchCuBlasAlgorithm; /**< Enumerations, of an int's size. */

/** cudaDataType, cublasComputeType_t, cublasOperation_t, cublasGemmAlgo_t. */
enum {
    ECH_CUBLAS_F32 = 0,
    ECH_CUBLAS_F64 = 1,
    ECH_CUBLAS_F16 = 2,
    ECH_CUBLAS_S8 = 3,
    ECH_CUBLAS_S32 = 10,
    ECH_CUBLAS_BF16 = 14,
    ECH_CUBLAS_COMPUTE_F32 = 68,
    ECH_CUBLAS_COMPUTE_F64 = 70,
    ECH_CUBLAS_COMPUTE_S32 = 72,
    ECH_CUBLAS_COMPUTE_TF32 = 77,
    ECH_CUBLAS_PLAIN = 0,
    ECH_CUBLAS_TRANSPOSED = 1,
    ECH_CUBLAS_DEFAULT = -1,
};

/* ECH_CUBLAS(result, member, symbol, parameters): every function in use. */
#define ECH_CUBLAS_FUNCTIONS(X)                                                                                                                                \
    X(create, cublasCreate_v2, (EchCuBlasHandle * ret))                                                                                                        \
    X(destroy, cublasDestroy_v2, (EchCuBlasHandle handle))                                                                                                     \
    X(version, cublasGetVersion_v2, (EchCuBlasHandle handle, int *ret))                                                                                        \
    X(set_stream, cublasSetStream_v2, (EchCuBlasHandle handle, EchCuStream stream))                                                                            \
    X(set_workspace, cublasSetWorkspace_v2, (EchCuBlasHandle handle, void *workspace, size_t bytes))                                                           \
    X(gemm, cublasGemmStridedBatchedEx,                                                                                                                        \
      (EchCuBlasHandle handle, EchCuBlasTranspose transpose_a, EchCuBlasTranspose transpose_b, int m, int n, int k, const void *alpha, const void *a,          \
       EchCuBlasType type_a, int lda, long long stride_a, const void *b, EchCuBlasType type_b, int ldb, long long stride_b, const void *beta, void *c,         \
       EchCuBlasType type_c, int ldc, long long stride_c, int batch, EchCuBlasCompute compute, EchCuBlasAlgorithm algorithm))

typedef struct {
#define ECH_CUBLAS_MEMBER(member, symbol, parameters) EchCuBlasStatus(*member) parameters;
    ECH_CUBLAS_FUNCTIONS(ECH_CUBLAS_MEMBER)
#undef ECH_CUBLAS_MEMBER
} EchCuBlas;

/** The library's functions, or NULL and ECH_ERROR_BACKEND saying what is missing. Borrowed, never unloaded. */
const EchCuBlas *ech_cuda_blas(GError **error);
/** True on success; otherwise ECH_ERROR_BACKEND "cublasCreate_v2: CUBLAS_STATUS_ALLOC_FAILED (3) while WHAT". */
bool ech_cuda_blas_check(int status, const char *symbol, const char *what, GError **error);

/** A matrix product as cuBLAS is asked for it: @times times, @batch products of m x k and k x n each. */
typedef struct {
    uint8_t dtype; /**< EchDtype of the inputs. */
    bool known;    /**< The trace's own shape; false: a shape of ours with as many operations. */
    int m, n, k, batch;
    uint64_t times;
} EchGemm;

/** Operations of a product that many in a row bring a GPU to its limits of power: calibration measures those after half a second of them, others at once. */
#define ECH_CUDA_GEMM_HEATS UINT64_C(20000000000)
/** The product that an op's matrix work of one dtype is. From its operands where two reads and a write are the three sides of a product with exactly these
 * operations, else a cube of about as many. False: no matrix work, or of a dtype that cuBLAS does not take here (8-bit floats). */
bool ech_cuda_gemm_of(const EchTrace *trace, const EchOp *op, EchGemm *ret);
/** A cube (sides a multiple of 128, the inner one of 8) of @operations of @dtype. */
bool ech_cuda_gemm_cube(EchDtype dtype, uint64_t operations, EchGemm *ret);
/** Whether one of its sides is one that no vector access is aligned to. */
bool ech_cuda_gemm_is_odd(const EchGemm *gemm);
/** Operations of it. */
uint64_t ech_cuda_gemm_operations(const EchGemm *gemm);
/** Bytes of the two inputs, and of the output. */
void ech_cuda_gemm_bytes(const EchGemm *gemm, EchBytes *ret_inputs, EchBytes *ret_output);
/** Issues it on @stream; @inputs and @output hold at least the bytes above. cuBLAS asks for a workspace of 32 MiB on Hopper. */
bool ech_cuda_gemm_issue(const EchCuBlas *blas, EchCuBlasHandle handle, const EchGemm *gemm, EchCuPointer inputs, EchCuPointer output, EchCuPointer workspace,
                         size_t workspace_bytes, EchCuStream stream, GError **error);
