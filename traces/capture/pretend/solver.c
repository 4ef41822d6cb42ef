/* cuBLAS beside its products, and cuSOLVER: factorisations and solves by their sizes. Workspaces are assumed: a panel of 64 columns. */
#include "pretend.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 64 };

int cublasGetStream_v2(void *handle, void **ret);

/* The four types of a name: bytes of an element, of which two numbers are a complex one, and what its kernels are of. */
typedef struct {
    unsigned bytes;
    bool is_complex;
    const char *name;
} Type;
static const Type type_S = {4, false, "f32"}, type_D = {8, false, "f64"}, type_C = {8, true, "f32"}, type_Z = {16, true, "f64"};

/* cudaDataType. */
static const Type *type_of(int type)
{
    return type == 1 ? &type_D : type == 4 ? &type_C : type == 5 ? &type_Z : &type_S;
}

static void *blas_stream(void *handle)
{
    void *stream = NULL;
    cublasGetStream_v2(handle, &stream);
    return stream;
}

/* What a routine reads, works on in place and writes; NULL: nothing. */
typedef struct {
    const void *read[3], *updated[2], *written[3];
} Uses;

static void use(Uses uses)
{
    pretend_uses(uses.read, 3, uses.written, 3);
    for (size_t i = 0; i < 2; i++)
        pretend_use(PRETEND_UPDATES, uses.updated[i], 0);
}

/* [m, k] x [k, n], @batch times; a complex product is four. */
static int write_product(void *stream, const char *name, const Type *type, uint64_t batch, uint64_t m, uint64_t n, uint64_t k)
{
    char launch[192];
    uint64_t parts = type->is_complex ? 4 : 1, depth = k * parts;
    snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu operand_bytes=%u class=%s", (unsigned long long)batch, (unsigned long long)m,
             (unsigned long long)n, (unsigned long long)depth, type->bytes, m == 1 || n == 1 ? "vector" : "product");
    pretend_library_kernel(stream, name, launch, batch * (m * k + k * n) * type->bytes, batch * m * n * type->bytes, 2 * parts * batch * m * n * k, type->name);
    return 0;
}

/* @batch of [m, n] with @k right-hand sides. */
static int write_routine(void *stream, const char *name, const char *routine, const Type *type, uint64_t batch, uint64_t m, uint64_t n, uint64_t k)
{
    char launch[192];
    uint64_t bytes = batch * m * n * type->bytes, sides = batch * m * k * type->bytes;
    if (bytes == 0) {
        pretend_no_uses();
        return 0;
    }
    snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu operand_bytes=%u class=solver routine=%s", (unsigned long long)batch, (unsigned long long)m,
             (unsigned long long)n, (unsigned long long)k, type->bytes, routine);
    pretend_library_kernel(stream, name, launch, bytes + sides, k ? sides : bytes, 0, type->name);
    return 0;
}

/* [m, n] made of as many elements and of @more. */
static int write_elements(void *stream, const char *name, const char *kind, const Type *type, uint64_t m, uint64_t n, uint64_t more)
{
    char launch[128];
    if (m * n == 0) {
        pretend_no_uses();
        return 0;
    }
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s", (unsigned long long)(m * n), type->bytes, kind);
    pretend_library_kernel(stream, name, launch, (m * n + more) * type->bytes, m * n * type->bytes, 0, NULL);
    return 0;
}

/* ---- cuBLAS ---- */

/* As the library tells it, which asks a handle of its own. */
PRETEND_EXPORT int cublasGetVersion_v2(void *handle, int *ret)
{
    (void)handle;
    static const char *const libraries[] = {"libcublas.so.13", "libcublas.so.12", NULL};
    void *symbol = pretend_real_symbol("cublasGetProperty", libraries);
    int (*property)(int, int *), parts[3] = {0};
    memcpy(&property, &symbol, sizeof property);
    for (int i = 0; i < 3; i++)
        if (!symbol || property(i, &parts[i]) != 0)
            return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */
    *ret = parts[0] * 10000 + parts[1] * 100 + parts[2];
    return 0;
}

#define BLAS(T)                                                                                                                                                \
    PRETEND_EXPORT int cublas##T##gemv_v2(void *handle, int turned, int m, int n, const void *alpha, const void *a, int lda, const void *x, int step_x,        \
                                          const void *beta, void *y, int step_y)                                                                               \
    {                                                                                                                                                          \
        (void)alpha, (void)a, (void)lda, (void)x, (void)step_x, (void)beta, (void)y, (void)step_y;                                                             \
        use((Uses){.read = {a, x}, .updated = {y}});                                                                                                           \
        return write_product(blas_stream(handle), "cublas" #T "gemv", &type_##T, 1, (uint64_t)(turned ? n : m), 1, (uint64_t)(turned ? m : n));                \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##gemmBatched(void *handle, int turned_a, int turned_b, int m, int n, int k, const void *alpha, const void *a, int lda,        \
                                              const void *b, int ldb, const void *beta, void *c, int ldc, int batch)                                           \
    {                                                                                                                                                          \
        (void)turned_a, (void)turned_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;                                   \
        use((Uses){.read = {a, b, c}});                                                                                                                        \
        return write_product(blas_stream(handle), "cublas" #T "gemmBatched", &type_##T, (uint64_t)batch, (uint64_t)n, (uint64_t)m, (uint64_t)k);               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##trsm_v2(void *handle, int side, int half, int turned, int diagonal, int m, int n, const void *alpha, const void *a, int lda, \
                                          void *b, int ldb)                                                                                                    \
    {                                                                                                                                                          \
        (void)half, (void)turned, (void)diagonal, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb;                                                         \
        uint64_t of = (uint64_t)(side ? n : m);                                                                                                                \
        use((Uses){.read = {a}, .updated = {b}});                                                                                                              \
        return write_routine(blas_stream(handle), "cublas" #T "trsm", "triangular", &type_##T, 1, of, of, (uint64_t)(side ? m : n));                           \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##trsmBatched(void *handle, int side, int half, int turned, int diagonal, int m, int n, const void *alpha, const void *a,      \
                                              int lda, void *b, int ldb, int batch)                                                                            \
    {                                                                                                                                                          \
        (void)half, (void)turned, (void)diagonal, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb;                                                         \
        uint64_t of = (uint64_t)(side ? n : m);                                                                                                                \
        use((Uses){.read = {a, b}});                                                                                                                           \
        return write_routine(blas_stream(handle), "cublas" #T "trsmBatched", "triangular", &type_##T, (uint64_t)batch, of, of, (uint64_t)(side ? m : n));      \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##getrfBatched(void *handle, int n, void *a, int lda, int *pivots, int *info, int batch)                                       \
    {                                                                                                                                                          \
        (void)a, (void)lda, (void)pivots, (void)info;                                                                                                          \
        use((Uses){.read = {a}, .written = {pivots, info}});                                                                                                   \
        return write_routine(blas_stream(handle), "cublas" #T "getrfBatched", "lu", &type_##T, (uint64_t)batch, (uint64_t)n, (uint64_t)n, 0);                  \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##getrsBatched(void *handle, int turned, int n, int sides, const void *a, int lda, const int *pivots, void *b, int ldb,        \
                                               int *info, int batch)                                                                                           \
    {                                                                                                                                                          \
        (void)turned, (void)a, (void)lda, (void)pivots, (void)b, (void)ldb;                                                                                    \
        if (info)                                                                                                                                              \
            *info = 0;                                                                                                                                         \
        use((Uses){.read = {a, pivots, b}});                                                                                                                   \
        return write_routine(blas_stream(handle), "cublas" #T "getrsBatched", "triangular", &type_##T, (uint64_t)batch, (uint64_t)n, (uint64_t)n,              \
                             2 * (uint64_t)sides);                                                                                                             \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##geqrfBatched(void *handle, int m, int n, void *a, int lda, void *tau, int *info, int batch)                                  \
    {                                                                                                                                                          \
        (void)a, (void)lda, (void)tau;                                                                                                                         \
        if (info)                                                                                                                                              \
            *info = 0;                                                                                                                                         \
        use((Uses){.read = {a, tau}});                                                                                                                         \
        return write_routine(blas_stream(handle), "cublas" #T "geqrfBatched", "qr", &type_##T, (uint64_t)batch, (uint64_t)m, (uint64_t)n, 0);                  \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##gelsBatched(void *handle, int turned, int m, int n, int sides, void *a, int lda, void *c, int ldc, int *info,                \
                                              int *device_info, int batch)                                                                                     \
    {                                                                                                                                                          \
        (void)turned, (void)sides, (void)a, (void)lda, (void)c, (void)ldc, (void)device_info;                                                                  \
        if (info)                                                                                                                                              \
            *info = 0;                                                                                                                                         \
        use((Uses){.read = {a, c}, .written = {device_info}});                                                                                                 \
        return write_routine(blas_stream(handle), "cublas" #T "gelsBatched", "qr", &type_##T, (uint64_t)batch, (uint64_t)m, (uint64_t)n, 0);                   \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##geam(void *handle, int turned_a, int turned_b, int m, int n, const void *alpha, const void *a, int lda, const void *beta,    \
                                       const void *b, int ldb, void *c, int ldc)                                                                               \
    {                                                                                                                                                          \
        (void)alpha, (void)lda, (void)beta, (void)ldb, (void)ldc;                                                                                              \
        use((Uses){.read = {a, b != a ? b : NULL}, .written = {c}});                                                                                           \
        return write_elements(blas_stream(handle), "cublas" #T "geam", turned_a || turned_b ? "relayout" : "elementwise", &type_##T, (uint64_t)m, (uint64_t)n, \
                              b && b != a ? (uint64_t)m * (uint64_t)n : 0);                                                                                    \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##dgmm(void *handle, int side, int m, int n, const void *a, int lda, const void *x, int step, void *c, int ldc)                \
    {                                                                                                                                                          \
        (void)lda, (void)step, (void)ldc;                                                                                                                      \
        use((Uses){.read = {a, x}, .written = {c}});                                                                                                           \
        return write_elements(blas_stream(handle), "cublas" #T "dgmm", "elementwise", &type_##T, (uint64_t)m, (uint64_t)n, (uint64_t)(side ? n : m));          \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##getriBatched(void *handle, int n, const void *a, int lda, const int *pivots, void *c, int ldc, int *info, int batch)         \
    {                                                                                                                                                          \
        (void)lda, (void)ldc;                                                                                                                                  \
        use((Uses){.read = {a, pivots, c}, .written = {info}});                                                                                                \
        return write_routine(blas_stream(handle), "cublas" #T "getriBatched", "triangular", &type_##T, (uint64_t)batch, (uint64_t)n, (uint64_t)n,              \
                             2 * (uint64_t)n);                                                                                                                 \
    }
BLAS(S)
BLAS(D)
BLAS(C)
BLAS(Z)

#define COMPLEX_PRODUCTS(T)                                                                                                                                    \
    PRETEND_EXPORT int cublas##T##gemm_v2(void *handle, int turned_a, int turned_b, int m, int n, int k, const void *alpha, const void *a, int lda,            \
                                          const void *b, int ldb, const void *beta, void *c, int ldc)                                                          \
    {                                                                                                                                                          \
        (void)turned_a, (void)turned_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;                                   \
        use((Uses){.read = {a, b}, .written = {c}});                                                                                                           \
        return write_product(blas_stream(handle), "cublas" #T "gemm", &type_##T, 1, (uint64_t)n, (uint64_t)m, (uint64_t)k);                                    \
    }
COMPLEX_PRODUCTS(C)
COMPLEX_PRODUCTS(Z)

#define STRIDED_PRODUCTS(T)                                                                                                                                    \
    PRETEND_EXPORT int cublas##T##gemmStridedBatched(void *handle, int turned_a, int turned_b, int m, int n, int k, const void *alpha, const void *a, int lda, \
                                                     long long stride_a, const void *b, int ldb, long long stride_b, const void *beta, void *c, int ldc,       \
                                                     long long stride_c, int batch)                                                                            \
    {                                                                                                                                                          \
        (void)turned_a, (void)turned_b, (void)alpha, (void)a, (void)lda, (void)stride_a, (void)b, (void)ldb, (void)stride_b, (void)beta, (void)c, (void)ldc;   \
        (void)stride_c;                                                                                                                                        \
        use((Uses){.read = {a, b}, .written = {c}});                                                                                                           \
        return write_product(blas_stream(handle), "cublas" #T "gemmStridedBatched", &type_##T, (uint64_t)batch, (uint64_t)n, (uint64_t)m, (uint64_t)k);        \
    }
STRIDED_PRODUCTS(D)
STRIDED_PRODUCTS(C)
STRIDED_PRODUCTS(Z)

/* ---- cuSOLVER ---- */

typedef struct {
    void *stream;
} Handle;

PRETEND_EXPORT int cusolverDnCreate(void **ret)
{
    *ret = calloc(1, sizeof(Handle));
    return *ret ? 0 : 2; /* CUSOLVER_STATUS_ALLOC_FAILED */
}

PRETEND_EXPORT int cusolverDnDestroy(void *handle)
{
    free(handle);
    return 0;
}

PRETEND_EXPORT int cusolverDnSetStream(void *handle, void *stream)
{
    ((Handle *)handle)->stream = stream;
    return 0;
}

PRETEND_EXPORT int cusolverDnGetStream(void *handle, void **ret)
{
    *ret = ((Handle *)handle)->stream;
    return 0;
}

static int parameters; /* their address stands for them */

#define MAKES(make, end)                                                                                                                                       \
    PRETEND_EXPORT int make(void **ret)                                                                                                                        \
    {                                                                                                                                                          \
        *ret = &parameters;                                                                                                                                    \
        return 0;                                                                                                                                              \
    }                                                                                                                                                          \
    PRETEND_EXPORT int end(void *made)                                                                                                                         \
    {                                                                                                                                                          \
        (void)made;                                                                                                                                            \
        return 0;                                                                                                                                              \
    }
MAKES(cusolverDnCreateParams, cusolverDnDestroyParams)
MAKES(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
MAKES(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

#define SWEEPS(name)                                                                                                                                           \
    PRETEND_EXPORT int cusolverDnX##name##SetTolerance(void *info, double tolerance)                                                                           \
    {                                                                                                                                                          \
        (void)info, (void)tolerance;                                                                                                                           \
        return 0;                                                                                                                                              \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDnX##name##SetMaxSweeps(void *info, int sweeps)                                                                                 \
    {                                                                                                                                                          \
        (void)info, (void)sweeps;                                                                                                                              \
        return 0;                                                                                                                                              \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDnX##name##SetSortEig(void *info, int sorted)                                                                                   \
    {                                                                                                                                                          \
        (void)info, (void)sorted;                                                                                                                              \
        return 0;                                                                                                                                              \
    }
SWEEPS(gesvdj)
SWEEPS(syevj)

static int panel(int64_t m, int64_t n, int *ret)
{
    int64_t elements = (m > n ? m : n) * PANEL;
    *ret = (int)(elements < INT32_MAX ? elements : INT32_MAX);
    return 0;
}

/* Of eigenvalues by dividing (1024 of them in f32 on an H100, CUDA 13.0: 17.4 MB) the library keeps matrices and columns; of Jacobi's singular values (512) two
 * matrices besides. */
#define EIGEN_SQUARES 4
#define EIGEN_COLUMNS 160

static int with_squares(int status, int m, int n, int squares, int *ret)
{
    int64_t more = m > 0 && n > 0 ? (int64_t)m * n * squares : 0;
    *ret = more < INT32_MAX - *ret ? *ret + (int)more : INT32_MAX;
    return status;
}

static int routine(void *handle, const char *name, const char *which, const Type *type, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return write_routine(((Handle *)handle)->stream, name, which, type, (uint64_t)batch, (uint64_t)m, (uint64_t)n, (uint64_t)k);
}

#define SOLVER(T, orgqr, ormqr, syevd, syevj)                                                                                                                  \
    PRETEND_EXPORT int cusolverDn##T##potrf_bufferSize(void *handle, int half, int n, void *a, int lda, int *ret)                                              \
    {                                                                                                                                                          \
        (void)handle, (void)half, (void)a, (void)lda;                                                                                                          \
        return panel(n, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##potrf(void *handle, int half, int n, void *a, int lda, void *work, int room, int *info)                                  \
    {                                                                                                                                                          \
        (void)half, (void)a, (void)lda, (void)work, (void)room, (void)info;                                                                                    \
        use((Uses){.updated = {a}, .written = {info}});                                                                                                        \
        return routine(handle, "cusolverDn" #T "potrf", "cholesky", &type_##T, 1, n, n, 0);                                                                    \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##potrfBatched(void *handle, int half, int n, void *a, int lda, int *info, int batch)                                      \
    {                                                                                                                                                          \
        (void)half, (void)a, (void)lda, (void)info;                                                                                                            \
        use((Uses){.read = {a}, .written = {info}});                                                                                                           \
        return routine(handle, "cusolverDn" #T "potrfBatched", "cholesky", &type_##T, batch, n, n, 0);                                                         \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##potrs(void *handle, int half, int n, int sides, const void *a, int lda, void *b, int ldb, int *info)                     \
    {                                                                                                                                                          \
        (void)half, (void)a, (void)lda, (void)b, (void)ldb, (void)info;                                                                                        \
        use((Uses){.read = {a}, .updated = {b}, .written = {info}});                                                                                           \
        return routine(handle, "cusolverDn" #T "potrs", "triangular", &type_##T, 1, n, n, 2 * (int64_t)sides);                                                 \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##potrsBatched(void *handle, int half, int n, int sides, void *a, int lda, void *b, int ldb, int *info, int batch)         \
    {                                                                                                                                                          \
        (void)half, (void)a, (void)lda, (void)b, (void)ldb, (void)info;                                                                                        \
        use((Uses){.read = {a, b}, .written = {info}});                                                                                                        \
        return routine(handle, "cusolverDn" #T "potrsBatched", "triangular", &type_##T, batch, n, n, 2 * (int64_t)sides);                                      \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##getrf_bufferSize(void *handle, int m, int n, void *a, int lda, int *ret)                                                 \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)lda;                                                                                                                      \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##getrf(void *handle, int m, int n, void *a, int lda, void *work, int *pivots, int *info)                                  \
    {                                                                                                                                                          \
        (void)a, (void)lda, (void)work, (void)pivots, (void)info;                                                                                              \
        use((Uses){.updated = {a}, .written = {pivots, info}});                                                                                                \
        return routine(handle, "cusolverDn" #T "getrf", "lu", &type_##T, 1, m, n, 0);                                                                          \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##getrs(void *handle, int turned, int n, int sides, const void *a, int lda, const int *pivots, void *b, int ldb,           \
                                            int *info)                                                                                                         \
    {                                                                                                                                                          \
        (void)turned, (void)a, (void)lda, (void)pivots, (void)b, (void)ldb, (void)info;                                                                        \
        use((Uses){.read = {a, pivots}, .updated = {b}, .written = {info}});                                                                                   \
        return routine(handle, "cusolverDn" #T "getrs", "triangular", &type_##T, 1, n, n, 2 * (int64_t)sides);                                                 \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##geqrf_bufferSize(void *handle, int m, int n, void *a, int lda, int *ret)                                                 \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)lda;                                                                                                                      \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##geqrf(void *handle, int m, int n, void *a, int lda, void *tau, void *work, int room, int *info)                          \
    {                                                                                                                                                          \
        (void)a, (void)lda, (void)tau, (void)work, (void)room, (void)info;                                                                                     \
        use((Uses){.updated = {a}, .written = {tau, info}});                                                                                                   \
        return routine(handle, "cusolverDn" #T "geqrf", "qr", &type_##T, 1, m, n, 0);                                                                          \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##orgqr##_bufferSize(void *handle, int m, int n, int k, const void *a, int lda, const void *tau, int *ret)                 \
    {                                                                                                                                                          \
        (void)handle, (void)k, (void)a, (void)lda, (void)tau;                                                                                                  \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##orgqr(void *handle, int m, int n, int k, void *a, int lda, const void *tau, void *work, int room, int *info)             \
    {                                                                                                                                                          \
        (void)k, (void)a, (void)lda, (void)tau, (void)work, (void)room, (void)info;                                                                            \
        use((Uses){.read = {tau}, .updated = {a}, .written = {info}});                                                                                         \
        return routine(handle, "cusolverDn" #T #orgqr, "orthogonal", &type_##T, 1, m, n, 0);                                                                   \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##ormqr##_bufferSize(void *handle, int side, int turned, int m, int n, int k, const void *a, int lda, const void *tau,     \
                                                         const void *c, int ldc, int *ret)                                                                     \
    {                                                                                                                                                          \
        (void)handle, (void)side, (void)turned, (void)k, (void)a, (void)lda, (void)tau, (void)c, (void)ldc;                                                    \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##ormqr(void *handle, int side, int turned, int m, int n, int k, const void *a, int lda, const void *tau, void *c,         \
                                            int ldc, void *work, int room, int *info)                                                                          \
    {                                                                                                                                                          \
        (void)side, (void)turned, (void)k, (void)a, (void)lda, (void)tau, (void)c, (void)ldc, (void)work, (void)room, (void)info;                              \
        use((Uses){.read = {a, tau}, .updated = {c}, .written = {info}});                                                                                      \
        return routine(handle, "cusolverDn" #T #ormqr, "orthogonal", &type_##T, 1, m, n, 0);                                                                   \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##syevd##_bufferSize(void *handle, int vectors, int half, int n, const void *a, int lda, const void *w, int *ret)          \
    {                                                                                                                                                          \
        (void)handle, (void)vectors, (void)half, (void)a, (void)lda, (void)w;                                                                                  \
        return panel(n, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##syevd(void *handle, int vectors, int half, int n, void *a, int lda, void *w, void *work, int room, int *info)            \
    {                                                                                                                                                          \
        (void)vectors, (void)half, (void)a, (void)lda, (void)w, (void)work, (void)room, (void)info;                                                            \
        use((Uses){.updated = {a}, .written = {w, info}});                                                                                                     \
        return routine(handle, "cusolverDn" #T #syevd, "eigen", &type_##T, 1, n, n, 0);                                                                        \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##syevj##Batched_bufferSize(void *handle, int vectors, int half, int n, const void *a, int lda, const void *w, int *ret,   \
                                                                void *info, int batch)                                                                         \
    {                                                                                                                                                          \
        (void)handle, (void)vectors, (void)half, (void)a, (void)lda, (void)w, (void)info, (void)batch;                                                         \
        return panel(n, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##syevj##Batched(void *handle, int vectors, int half, int n, void *a, int lda, void *w, void *work, int room, int *info,   \
                                                     void *how, int batch)                                                                                     \
    {                                                                                                                                                          \
        (void)vectors, (void)half, (void)a, (void)lda, (void)w, (void)work, (void)room, (void)info, (void)how;                                                 \
        use((Uses){.updated = {a}, .written = {w, info}});                                                                                                     \
        return routine(handle, "cusolverDn" #T #syevj "Batched", "eigen", &type_##T, batch, n, n, 0);                                                          \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvd_bufferSize(void *handle, int m, int n, int *ret)                                                                   \
    {                                                                                                                                                          \
        (void)handle;                                                                                                                                          \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvd(void *handle, signed char left, signed char right, int m, int n, void *a, int lda, void *s, void *u, int ldu,      \
                                            void *v, int ldv, void *work, int room, void *real, int *info)                                                     \
    {                                                                                                                                                          \
        (void)left, (void)right, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)work, (void)room, (void)real, (void)info;          \
        use((Uses){.updated = {a}, .written = {s, u, v}});                                                                                                     \
        return routine(handle, "cusolverDn" #T "gesvd", "singular", &type_##T, 1, m, n, 0);                                                                    \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvdj_bufferSize(void *handle, int vectors, int economic, int m, int n, const void *a, int lda, const void *s,          \
                                                        const void *u, int ldu, const void *v, int ldv, int *ret, void *how)                                   \
    {                                                                                                                                                          \
        (void)handle, (void)vectors, (void)economic, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)how;                           \
        return with_squares(panel(m, n, ret), m, n, 2, ret);                                                                                                   \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvdj(void *handle, int vectors, int economic, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *v,      \
                                             int ldv, void *work, int room, int *info, void *how)                                                              \
    {                                                                                                                                                          \
        (void)vectors, (void)economic, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)work, (void)room, (void)info, (void)how;     \
        use((Uses){.updated = {a}, .written = {s, u, v}});                                                                                                     \
        return routine(handle, "cusolverDn" #T "gesvdj", "singular", &type_##T, 1, m, n, 0);                                                                   \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvdjBatched_bufferSize(void *handle, int vectors, int m, int n, const void *a, int lda, const void *s, const void *u,  \
                                                               int ldu, const void *v, int ldv, int *ret, void *how, int batch)                                \
    {                                                                                                                                                          \
        (void)handle, (void)vectors, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)how, (void)batch;                              \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvdjBatched(void *handle, int vectors, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *v, int ldv,    \
                                                    void *work, int room, int *info, void *how, int batch)                                                     \
    {                                                                                                                                                          \
        (void)vectors, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)work, (void)room, (void)info, (void)how;                     \
        use((Uses){.updated = {a}, .written = {s, u, v}});                                                                                                     \
        return routine(handle, "cusolverDn" #T "gesvdjBatched", "singular", &type_##T, batch, m, n, 0);                                                        \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvdaStridedBatched_bufferSize(void *handle, int vectors, int rank, int m, int n, const void *a, int lda,               \
                                                                      long long step, const void *s, long long step_s, const void *u, int ldu,                 \
                                                                      long long step_u, const void *v, int ldv, long long step_v, int *ret, int batch)         \
    {                                                                                                                                                          \
        (void)handle, (void)vectors, (void)rank, (void)a, (void)lda, (void)step, (void)s, (void)step_s, (void)u, (void)ldu, (void)step_u, (void)v, (void)ldv;  \
        (void)step_v, (void)batch;                                                                                                                             \
        return panel(m, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##gesvdaStridedBatched(void *handle, int vectors, int rank, int m, int n, const void *a, int lda, long long step, void *s, \
                                                           long long step_s, void *u, int ldu, long long step_u, void *v, int ldv, long long step_v,           \
                                                           void *work, int room, int *info, double *residuals, int batch)                                      \
    {                                                                                                                                                          \
        (void)vectors, (void)rank, (void)lda, (void)step, (void)step_s, (void)ldu, (void)step_u, (void)ldv, (void)step_v, (void)work, (void)room, (void)info;  \
        for (int i = 0; residuals && i < batch; i++)                                                                                                           \
            residuals[i] = 0;                                                                                                                                  \
        use((Uses){.read = {a}, .written = {s, u, v}});                                                                                                        \
        return routine(handle, "cusolverDn" #T "gesvdaStridedBatched", "singular", &type_##T, batch, m, n, 0);                                                 \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##sytrf_bufferSize(void *handle, int n, void *a, int lda, int *ret)                                                        \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)lda;                                                                                                                      \
        return panel(n, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##sytrf(void *handle, int half, int n, void *a, int lda, int *pivots, void *work, int room, int *info)                     \
    {                                                                                                                                                          \
        (void)half, (void)lda, (void)work, (void)room;                                                                                                         \
        use((Uses){.updated = {a}, .written = {pivots, info}});                                                                                                \
        return routine(handle, "cusolverDn" #T "sytrf", "cholesky", &type_##T, 1, n, n, 0);                                                                    \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##syevj##_bufferSize(void *handle, int vectors, int half, int n, const void *a, int lda, const void *w, int *ret,          \
                                                         void *how)                                                                                            \
    {                                                                                                                                                          \
        (void)handle, (void)vectors, (void)half, (void)a, (void)lda, (void)w, (void)how;                                                                       \
        return panel(n, n, ret);                                                                                                                               \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusolverDn##T##syevj(void *handle, int vectors, int half, int n, void *a, int lda, void *w, void *work, int room, int *info, void *how) \
    {                                                                                                                                                          \
        (void)vectors, (void)half, (void)lda, (void)work, (void)room, (void)how;                                                                               \
        use((Uses){.updated = {a}, .written = {w, info}});                                                                                                     \
        return routine(handle, "cusolverDn" #T #syevj, "eigen", &type_##T, 1, n, n, 0);                                                                        \
    }
SOLVER(S, orgqr, ormqr, syevd, syevj)
SOLVER(D, orgqr, ormqr, syevd, syevj)
SOLVER(C, ungqr, unmqr, heevd, heevj)
SOLVER(Z, ungqr, unmqr, heevd, heevj)

/* Sizes of 64 bits. */
static int panel_bytes(int64_t m, int64_t n, int type, size_t *ret_device, size_t *ret_host)
{
    *ret_device = (size_t)(m > n ? m : n) * PANEL * type_of(type)->bytes;
    *ret_host = 0;
    return 0;
}

PRETEND_EXPORT int cusolverDnXpotrf_bufferSize(void *handle, void *how, int half, int64_t n, int type, const void *a, int64_t lda, int compute,
                                               size_t *ret_device, size_t *ret_host)
{
    (void)handle, (void)how, (void)half, (void)a, (void)lda, (void)compute;
    return panel_bytes(n, n, type, ret_device, ret_host);
}

PRETEND_EXPORT int cusolverDnXpotrf(void *handle, void *how, int half, int64_t n, int type, void *a, int64_t lda, int compute, void *device,
                                    size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    (void)how, (void)half, (void)a, (void)lda, (void)compute, (void)device, (void)device_bytes, (void)host, (void)host_bytes, (void)info;
    use((Uses){.updated = {a}, .written = {info}});
    return routine(handle, "cusolverDnXpotrf", "cholesky", type_of(type), 1, n, n, 0);
}

PRETEND_EXPORT int cusolverDnXpotrs(void *handle, void *how, int half, int64_t n, int64_t sides, int type, const void *a, int64_t lda, int type_b, void *b,
                                    int64_t ldb, int *info)
{
    (void)how, (void)half, (void)a, (void)lda, (void)type_b, (void)b, (void)ldb, (void)info;
    use((Uses){.read = {a}, .updated = {b}, .written = {info}});
    return routine(handle, "cusolverDnXpotrs", "triangular", type_of(type), 1, n, n, 2 * sides);
}

PRETEND_EXPORT int cusolverDnXgeqrf_bufferSize(void *handle, void *how, int64_t m, int64_t n, int type, const void *a, int64_t lda, int type_tau,
                                               const void *tau, int compute, size_t *ret_device, size_t *ret_host)
{
    (void)handle, (void)how, (void)a, (void)lda, (void)type_tau, (void)tau, (void)compute;
    return panel_bytes(m, n, type, ret_device, ret_host);
}

PRETEND_EXPORT int cusolverDnXgeqrf(void *handle, void *how, int64_t m, int64_t n, int type, void *a, int64_t lda, int type_tau, void *tau, int compute,
                                    void *device, size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    (void)how, (void)a, (void)lda, (void)type_tau, (void)tau, (void)compute, (void)device, (void)device_bytes, (void)host, (void)host_bytes, (void)info;
    use((Uses){.updated = {a}, .written = {tau, info}});
    return routine(handle, "cusolverDnXgeqrf", "qr", type_of(type), 1, m, n, 0);
}

PRETEND_EXPORT int cusolverDnXsyevd_bufferSize(void *handle, void *how, int vectors, int half, int64_t n, int type, const void *a, int64_t lda, int type_w,
                                               const void *w, int compute, size_t *ret_device, size_t *ret_host)
{
    (void)handle, (void)how, (void)vectors, (void)half, (void)a, (void)lda, (void)type_w, (void)w, (void)compute;
    int status = panel_bytes(n, n, type, ret_device, ret_host);
    *ret_device = (size_t)n * ((size_t)n * EIGEN_SQUARES + EIGEN_COLUMNS) * type_of(type)->bytes;
    return status;
}

PRETEND_EXPORT int cusolverDnXsyevd(void *handle, void *how, int vectors, int half, int64_t n, int type, void *a, int64_t lda, int type_w, void *w, int compute,
                                    void *device, size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    (void)how, (void)vectors, (void)half, (void)a, (void)lda, (void)type_w, (void)w, (void)compute, (void)device, (void)device_bytes, (void)host;
    (void)host_bytes, (void)info;
    use((Uses){.updated = {a}, .written = {w, info}});
    return routine(handle, "cusolverDnXsyevd", "eigen", type_of(type), 1, n, n, 0);
}

PRETEND_EXPORT int cusolverDnXsyevBatched_bufferSize(void *handle, void *how, int vectors, int half, int64_t n, int type, const void *a, int64_t lda,
                                                     int type_w, const void *w, int compute, size_t *ret_device, size_t *ret_host, int64_t batch)
{
    (void)handle, (void)how, (void)vectors, (void)half, (void)a, (void)lda, (void)type_w, (void)w, (void)compute, (void)batch;
    return panel_bytes(n, n, type, ret_device, ret_host);
}

PRETEND_EXPORT int cusolverDnXsyevBatched(void *handle, void *how, int vectors, int half, int64_t n, int type, void *a, int64_t lda, int type_w, void *w,
                                          int compute, void *device, size_t device_bytes, void *host, size_t host_bytes, int *info, int64_t batch)
{
    (void)how, (void)vectors, (void)half, (void)a, (void)lda, (void)type_w, (void)w, (void)compute, (void)device, (void)device_bytes, (void)host;
    (void)host_bytes, (void)info;
    use((Uses){.updated = {a}, .written = {w, info}});
    return routine(handle, "cusolverDnXsyevBatched", "eigen", type_of(type), batch, n, n, 0);
}

/* Symmetric matrices of any sign are factored as Cholesky's are, and solved by two triangles. */
PRETEND_EXPORT int cusolverDnXsytrs_bufferSize(void *handle, int half, int64_t n, int64_t sides, int type, const void *a, int64_t lda, const int64_t *pivots,
                                               int type_b, void *b, int64_t ldb, size_t *ret_device, size_t *ret_host)
{
    (void)handle, (void)half, (void)sides, (void)a, (void)lda, (void)pivots, (void)type_b, (void)b, (void)ldb;
    return panel_bytes(n, n, type, ret_device, ret_host);
}

PRETEND_EXPORT int cusolverDnXsytrs(void *handle, int half, int64_t n, int64_t sides, int type, const void *a, int64_t lda, const int64_t *pivots, int type_b,
                                    void *b, int64_t ldb, void *device, size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    (void)half, (void)lda, (void)type_b, (void)ldb, (void)device, (void)device_bytes, (void)host, (void)host_bytes;
    use((Uses){.read = {a, pivots}, .updated = {b}, .written = {info}});
    return routine(handle, "cusolverDnXsytrs", "triangular", type_of(type), 1, n, n, 2 * sides);
}

/* Of matrices that are not symmetric: priced as the symmetric ones, which take less. */
PRETEND_EXPORT int cusolverDnXgeev_bufferSize(void *handle, void *how, int left, int right, int64_t n, int type, const void *a, int64_t lda, int type_w,
                                              const void *w, int type_l, const void *l, int64_t ldl, int type_r, const void *r, int64_t ldr, int compute,
                                              size_t *ret_device, size_t *ret_host)
{
    (void)handle, (void)how, (void)left, (void)right, (void)a, (void)lda, (void)type_w, (void)w, (void)type_l, (void)l, (void)ldl, (void)type_r, (void)r;
    (void)ldr, (void)compute;
    return panel_bytes(n, n, type, ret_device, ret_host);
}

PRETEND_EXPORT int cusolverDnXgeev(void *handle, void *how, int left, int right, int64_t n, int type, void *a, int64_t lda, int type_w, void *w, int type_l,
                                   void *l, int64_t ldl, int type_r, void *r, int64_t ldr, int compute, void *device, size_t device_bytes, void *host,
                                   size_t host_bytes, int *info)
{
    (void)how, (void)left, (void)right, (void)lda, (void)type_w, (void)type_l, (void)ldl, (void)type_r, (void)ldr, (void)compute, (void)device;
    (void)device_bytes, (void)host, (void)host_bytes, (void)info;
    use((Uses){.updated = {a}, .written = {w, l, r}});
    return routine(handle, "cusolverDnXgeev", "eigen", type_of(type), 1, n, n, 0);
}
