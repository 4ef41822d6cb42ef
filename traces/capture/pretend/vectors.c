/* cuBLAS's operations on vectors: every element once, however far apart (distances between elements are taken as 1). What is returned on the host is 0, or the
 * first element's number. */
#include "pretend.h"

#include <stdio.h>
#include <string.h>

int cublasGetStream_v2(void *handle, void **ret);
int cublasGetPointerMode_v2(void *handle, int *ret);

/* Of @elements of @bytes each; NULL: no such vector. */
static void write_vectors(void *handle, const char *name, const char *class, uint64_t elements, unsigned bytes, const void *read, const void *other,
                          void *written, void *also)
{
    uint64_t all = elements * bytes;
    void *stream = NULL;
    cublasGetStream_v2(handle, &stream);
    char launch[96];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s", (unsigned long long)elements, bytes, class);
    pretend_use(PRETEND_READS, read, all);
    pretend_use(PRETEND_READS, other, all);
    pretend_use(PRETEND_WRITES, written, all);
    pretend_use(PRETEND_WRITES, also, all);
    pretend_library_kernel(stream, name, launch, (read ? all : 0) + (other ? all : 0), (written ? all : 0) + (also ? all : 0), 0, NULL);
}

/* @ret, of @result bytes, lies on the host unless the handle says otherwise; @first: an index, which begins at 1. */
static int write_reduction(void *handle, const char *name, int n, unsigned bytes, const void *x, const void *y, void *ret, unsigned result, bool first)
{
    int on_device = 0;
    cublasGetPointerMode_v2(handle, &on_device);
    write_vectors(handle, name, "reduce", n > 0 ? (uint64_t)n : 0, bytes, x, y, NULL, NULL);
    if (on_device)
        return 0;
    memset(ret, 0, result);
    if (first && n > 0)
        memset(ret, 1, 1);
    pretend_looked();
    return 0;
}

#define ELEMENTS (n > 0 ? (uint64_t)n : 0)

#define VECTORS(T, bytes)                                                                                                                                      \
    PRETEND_EXPORT int cublas##T##axpy_v2(void *handle, int n, const void *alpha, const void *x, int step_x, void *y, int step_y)                              \
    {                                                                                                                                                          \
        (void)alpha, (void)step_x, (void)step_y;                                                                                                               \
        write_vectors(handle, "cublas" #T "axpy", "elementwise", ELEMENTS, bytes, x, y, y, NULL);                                                              \
        return 0;                                                                                                                                              \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##copy_v2(void *handle, int n, const void *x, int step_x, void *y, int step_y)                                                 \
    {                                                                                                                                                          \
        (void)step_x, (void)step_y;                                                                                                                            \
        write_vectors(handle, "cublas" #T "copy", "elementwise", ELEMENTS, bytes, x, NULL, y, NULL);                                                           \
        return 0;                                                                                                                                              \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cublas##T##swap_v2(void *handle, int n, void *x, int step_x, void *y, int step_y)                                                       \
    {                                                                                                                                                          \
        (void)step_x, (void)step_y;                                                                                                                            \
        write_vectors(handle, "cublas" #T "swap", "elementwise", ELEMENTS, bytes, x, y, x, y);                                                                 \
        return 0;                                                                                                                                              \
    }
VECTORS(S, 4)
VECTORS(D, 8)
VECTORS(C, 8)
VECTORS(Z, 16)

#define SCALE(name, bytes)                                                                                                                                     \
    PRETEND_EXPORT int cublas##name##_v2(void *handle, int n, const void *alpha, void *x, int step)                                                            \
    {                                                                                                                                                          \
        (void)alpha, (void)step;                                                                                                                               \
        write_vectors(handle, "cublas" #name, "elementwise", ELEMENTS, bytes, x, NULL, x, NULL);                                                               \
        return 0;                                                                                                                                              \
    }
SCALE(Sscal, 4)
SCALE(Dscal, 8)
SCALE(Cscal, 8)
SCALE(Zscal, 16)
SCALE(Csscal, 8)
SCALE(Zdscal, 16)

/* A product of two vectors that is added to a matrix: what it reads is the matrix. */
#define OUTER(name, bytes)                                                                                                                                     \
    PRETEND_EXPORT int cublas##name##_v2(void *handle, int m, int n, const void *alpha, const void *x, int step_x, const void *y, int step_y, void *a,         \
                                         int leading)                                                                                                          \
    {                                                                                                                                                          \
        (void)alpha, (void)x, (void)step_x, (void)y, (void)step_y, (void)leading;                                                                              \
        write_vectors(handle, "cublas" #name, "elementwise", m > 0 ? (uint64_t)m * ELEMENTS : 0, bytes, a, NULL, a, NULL);                                     \
        return 0;                                                                                                                                              \
    }
OUTER(Sger, 4)
OUTER(Dger, 8)
OUTER(Cgeru, 8)
OUTER(Cgerc, 8)
OUTER(Zgeru, 16)
OUTER(Zgerc, 16)

#define REDUCE(name, bytes, result, first)                                                                                                                     \
    PRETEND_EXPORT int cublas##name##_v2(void *handle, int n, const void *x, int step, void *ret)                                                              \
    {                                                                                                                                                          \
        (void)step;                                                                                                                                            \
        return write_reduction(handle, "cublas" #name, n, bytes, x, NULL, ret, result, first);                                                                 \
    }
REDUCE(Snrm2, 4, 4, false)
REDUCE(Dnrm2, 8, 8, false)
REDUCE(Scnrm2, 8, 4, false)
REDUCE(Dznrm2, 16, 8, false)
REDUCE(Sasum, 4, 4, false)
REDUCE(Dasum, 8, 8, false)
REDUCE(Scasum, 8, 4, false)
REDUCE(Dzasum, 16, 8, false)
REDUCE(Isamax, 4, 4, true)
REDUCE(Idamax, 8, 4, true)
REDUCE(Icamax, 8, 4, true)
REDUCE(Izamax, 16, 4, true)
REDUCE(Isamin, 4, 4, true)
REDUCE(Idamin, 8, 4, true)
REDUCE(Icamin, 8, 4, true)
REDUCE(Izamin, 16, 4, true)

#define DOT(name, bytes)                                                                                                                                       \
    PRETEND_EXPORT int cublas##name##_v2(void *handle, int n, const void *x, int step_x, const void *y, int step_y, void *ret)                                 \
    {                                                                                                                                                          \
        (void)step_x, (void)step_y;                                                                                                                            \
        return write_reduction(handle, "cublas" #name, n, bytes, x, y, ret, bytes, false);                                                                     \
    }
DOT(Sdot, 4)
DOT(Ddot, 8)
DOT(Cdotu, 8)
DOT(Cdotc, 8)
DOT(Zdotu, 16)
DOT(Zdotc, 16)

PRETEND_EXPORT int cublasDotEx(void *handle, int n, const void *x, int type, int step_x, const void *y, int type_y, int step_y, void *ret, int type_ret,
                               int type_inside)
{
    enum { DOUBLE = 1, HALF = 2, COMPLEX = 4, COMPLEX_DOUBLE = 5, BF16 = 14 }; /* cudaDataType; else f32 */
    (void)step_x, (void)type_y, (void)step_y, (void)type_ret, (void)type_inside;
    unsigned bytes = type == HALF || type == BF16 ? 2 : type == DOUBLE || type == COMPLEX ? 8 : type == COMPLEX_DOUBLE ? 16 : 4;
    return write_reduction(handle, "cublasDotEx", n, bytes, x, y, ret, bytes, false);
}
