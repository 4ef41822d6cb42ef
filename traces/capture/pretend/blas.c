/* cuBLAS and cuBLASLt: products by their shapes; which kernel the library would take is the model's business. */
#include "pretend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cudaDataType of library_types.h. */
static const struct {
    int type;
    const char *name;
    unsigned bits;
} types[] = {{0, "f32", 32},  {1, "f64", 64},   {2, "f16", 16},      {3, "s8", 8},      {4, "c64", 64},     {5, "c128", 128},
             {10, "s32", 32}, {14, "bf16", 16}, {28, "f8e4m3fn", 8}, {29, "f8e5m2", 8}, {33, "f4e2m1fn", 4}};

static unsigned bits_of(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type)
            return types[i].bits;
    }
    return 32;
}

/* Of one element; two of 4 bits share a byte. */
static unsigned bytes_of(int type)
{
    return bits_of(type) < 8 ? 1 : bits_of(type) / 8;
}

static uint64_t bytes_of_all(uint64_t elements, int type)
{
    return elements / 8 * bits_of(type) + (elements % 8 * bits_of(type) + 7) / 8;
}

static const char *name_of(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type)
            return types[i].name;
    }
    return "f32";
}

typedef struct {
    void *stream;
    int math_mode, pointer_mode;
} Handle;

/* CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_COMPUTE_16F, _32F, _32F_FAST_TF32, CUBLAS_GEMM_DEFAULT, CUDA_R_16F. */
enum { MATH_TF32 = 3, COMPUTE_F16 = 64, COMPUTE_F32 = 68, COMPUTE_TF32 = 77, DEFAULT = -1, F16 = 2 };

typedef struct {
    uint64_t batch, m, n, k;
    int a, b, c;             /* types */
    bool a_turned, b_turned; /* as the caller says it: column by column */
    bool adds, tf32;
    const void *at[4]; /* of a, b, c (NULL where it is the result), and of the result */
    const void *bias;  /* added, or the gradient of what was */
    bool bias_written;
    uint64_t places; /* addresses and strides in bytes, one or'ed to the other: its lowest bit is what all are aligned to */
} Product;

/* A matrix in @places: its address, and the bytes from a column to the next and from a matrix to the next. */
static uint64_t place(const void *address, int type, long long leading, long long stride)
{
    return (uint64_t)(uintptr_t)address | bytes_of_all((uint64_t)leading, type) | bytes_of_all((uint64_t)stride, type);
}

/* Accesses are of 16 bytes where everything is aligned to that. */
#define WIDEST_ACCESS 16

/* Libraries are column by column: their m is a row-major caller's n. */
static void write_product(void *stream, const char *name, const Product *p)
{
    uint64_t a = bytes_of_all(p->batch * p->m * p->k, p->a), b = bytes_of_all(p->batch * p->k * p->n, p->b), c = bytes_of_all(p->batch * p->m * p->n, p->c);
    uint64_t turned = (p->a_turned ? 0 : p->batch * p->m * p->k) + (p->b_turned ? p->batch * p->k * p->n : 0);
    bool vector = p->m == 1 || p->n == 1;
    char launch[256];
    int at = snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu operand_bytes=%u class=%s", (unsigned long long)p->batch, (unsigned long long)p->n,
                      (unsigned long long)p->m, (unsigned long long)p->k, bytes_of(p->a), vector ? "vector" : "product");
    if (turned > 0 && at > 0 && (size_t)at < sizeof launch)
        snprintf(launch + at, sizeof launch - (size_t)at, " turned=%llu", (unsigned long long)turned);
    /* Tensor cores fed from shared memory take nothing less aligned: an older kernel does it, by narrower accesses. */
    uint64_t aligned = p->places & -p->places;
    at = (int)strlen(launch);
    if (!vector && aligned > 0 && aligned < WIDEST_ACCESS && bytes_of(p->a) <= 2)
        snprintf(launch + at, sizeof launch - (size_t)at, " arithmetic=mma alignment=%u", aligned > bytes_of(p->a) ? (unsigned)aligned / bytes_of(p->a) : 1);
    const char *dtype = p->a == 0 && p->tf32 ? "tf32" : name_of(p->a);
    pretend_use(PRETEND_READS, p->at[0], a);
    pretend_use(PRETEND_READS, p->at[1], b);
    pretend_use(PRETEND_READS, p->adds ? p->at[2] : NULL, c);
    pretend_use(p->adds && !p->at[2] ? PRETEND_UPDATES : PRETEND_WRITES, p->at[3], c);
    pretend_use(p->bias_written ? PRETEND_WRITES : PRETEND_READS, p->bias, p->m * bytes_of(p->c));
    pretend_library_kernel(stream, name, launch, a + b + (p->adds ? c : 0), c, 2 * p->batch * p->m * p->n * p->k, dtype);
}

PRETEND_EXPORT int cublasCreate_v2(void **ret)
{
    *ret = calloc(1, sizeof(Handle));
    return *ret ? 0 : 3; /* CUBLAS_STATUS_ALLOC_FAILED */
}

PRETEND_EXPORT int cublasDestroy_v2(void *handle)
{
    free(handle);
    return 0;
}

PRETEND_EXPORT int cublasSetStream_v2(void *handle, void *stream)
{
    ((Handle *)handle)->stream = stream;
    return 0;
}

PRETEND_EXPORT int cublasGetStream_v2(void *handle, void **ret)
{
    *ret = ((Handle *)handle)->stream;
    return 0;
}

PRETEND_EXPORT int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    (void)handle;
    (void)workspace;
    (void)bytes;
    return 0;
}

PRETEND_EXPORT int cublasSetMathMode(void *handle, int mode)
{
    ((Handle *)handle)->math_mode = mode;
    return 0;
}

PRETEND_EXPORT int cublasGetMathMode(void *handle, int *ret)
{
    *ret = ((Handle *)handle)->math_mode;
    return 0;
}

PRETEND_EXPORT int cublasSetPointerMode_v2(void *handle, int mode)
{
    ((Handle *)handle)->pointer_mode = mode;
    return 0;
}

PRETEND_EXPORT int cublasGetPointerMode_v2(void *handle, int *ret)
{
    *ret = ((Handle *)handle)->pointer_mode;
    return 0;
}

PRETEND_EXPORT int cublasSetSmCountTarget(void *handle, int count)
{
    (void)handle;
    (void)count;
    return 0;
}

/* Bytes of alpha and beta: cublasComputeType_t is of f16 (64, 65), f64 (70, 71), else of f32; of complex numbers two. */
static size_t scale_bytes(int compute, int type)
{
    size_t number = compute == 64 || compute == 65 ? 2 : compute == 70 || compute == 71 ? 8 : 4;
    return type == 4 || type == 5 ? 2 * number : number;
}

static bool adds(const void *handle, const void *beta, size_t bytes)
{
    uint8_t zeros[16] = {0};
    return beta && ((const Handle *)handle)->pointer_mode == 0 && memcmp(beta, zeros, bytes < 16 ? bytes : 16) != 0;
}

/* What every product of this handle is asked by, of f32 where nothing else is said. */
static Product asked(const void *handle, int ta, int tb, int m, int n, int k, const void *beta, size_t beta_bytes)
{
    return (Product){.batch = 1,
                     .m = (uint64_t)m,
                     .n = (uint64_t)n,
                     .k = (uint64_t)k,
                     .a_turned = ta != 0,
                     .b_turned = tb != 0,
                     .adds = adds(handle, beta, beta_bytes),
                     .tf32 = ((const Handle *)handle)->math_mode == MATH_TF32};
}

static int ask(const void *handle, const char *name, Product *product, const void *a, const void *b, const void *c)
{
    product->at[0] = a;
    product->at[1] = b;
    product->at[3] = c;
    write_product(((const Handle *)handle)->stream, name, product);
    return 0;
}

PRETEND_EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb,
                                  const void *beta, void *c, int ldc)
{
    (void)alpha, (void)lda, (void)ldb, (void)ldc;
    Product product = asked(handle, ta, tb, m, n, k, beta, 4);
    return ask(handle, "cublasSgemm", &product, a, b, c);
}

PRETEND_EXPORT int cublasDgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb,
                                  const void *beta, void *c, int ldc)
{
    (void)alpha, (void)lda, (void)ldb, (void)ldc;
    Product product = asked(handle, ta, tb, m, n, k, beta, 8);
    product.a = product.b = product.c = 1;
    product.tf32 = false;
    return ask(handle, "cublasDgemm", &product, a, b, c);
}

PRETEND_EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b,
                                int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    (void)alpha, (void)algorithm;
    Product product = asked(handle, ta, tb, m, n, k, beta, scale_bytes(compute, c_type));
    product.a = a_type;
    product.b = b_type;
    product.c = c_type;
    product.tf32 = product.tf32 || compute == COMPUTE_TF32;
    product.places = place(a, a_type, lda, 0) | place(b, b_type, ldb, 0) | place(c, c_type, ldc, 0);
    return ask(handle, "cublasGemmEx", &product, a, b, c);
}

PRETEND_EXPORT int cublasSgemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b,
                                 int b_type, int ldb, const void *beta, void *c, int c_type, int ldc)
{
    return cublasGemmEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, COMPUTE_F32, DEFAULT);
}

PRETEND_EXPORT int cublasSgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, long long stride_a,
                                             const void *b, int ldb, long long stride_b, const void *beta, void *c, int ldc, long long stride_c, int batch)
{
    (void)alpha, (void)lda, (void)stride_a, (void)ldb, (void)stride_b, (void)ldc, (void)stride_c;
    Product product = asked(handle, ta, tb, m, n, k, beta, 4);
    product.batch = (uint64_t)batch;
    return ask(handle, "cublasSgemmStridedBatched", &product, a, b, c);
}

PRETEND_EXPORT int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
                                              long long stride_a, const void *b, int b_type, int ldb, long long stride_b, const void *beta, void *c, int c_type,
                                              int ldc, long long stride_c, int batch, int compute, int algorithm)
{
    (void)alpha, (void)algorithm;
    Product product = asked(handle, ta, tb, m, n, k, beta, scale_bytes(compute, c_type));
    product.batch = (uint64_t)batch;
    product.a = a_type;
    product.b = b_type;
    product.c = c_type;
    product.tf32 = product.tf32 || compute == COMPUTE_TF32;
    product.places = place(a, a_type, lda, stride_a) | place(b, b_type, ldb, stride_b) | place(c, c_type, ldc, stride_c);
    return ask(handle, "cublasGemmStridedBatchedEx", &product, a, b, c);
}

/* Each matrix at an address that lies in device memory: which arrays they are in is not told, but where the addresses are. */
PRETEND_EXPORT int cublasGemmBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *const *a, int a_type, int lda,
                                       const void *const *b, int b_type, int ldb, const void *beta, void *const *c, int c_type, int ldc, int batch, int compute,
                                       int algorithm)
{
    uint64_t addresses = (uint64_t)batch * sizeof *a;
    pretend_use(PRETEND_READS, a, addresses);
    pretend_use(PRETEND_READS, b, addresses);
    pretend_use(PRETEND_READS, c, addresses);
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, NULL, a_type, lda, 0, NULL, b_type, ldb, 0, beta, NULL, c_type, ldc, 0, batch, compute,
                                      algorithm);
}

PRETEND_EXPORT int cublasHgemm(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb,
                               const void *beta, void *c, int ldc)
{
    return cublasGemmEx(handle, ta, tb, m, n, k, alpha, a, F16, lda, b, F16, ldb, beta, c, F16, ldc, COMPUTE_F16, DEFAULT);
}

PRETEND_EXPORT int cublasHgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, long long stride_a,
                                             const void *b, int ldb, long long stride_b, const void *beta, void *c, int ldc, long long stride_c, int batch)
{
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, F16, lda, stride_a, b, F16, ldb, stride_b, beta, c, F16, ldc, stride_c, batch,
                                      COMPUTE_F16, DEFAULT);
}

PRETEND_EXPORT int cublasHgemmBatched(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *const *a, int lda, const void *const *b,
                                      int ldb, const void *beta, void *const *c, int ldc, int batch)
{
    return cublasGemmBatchedEx(handle, ta, tb, m, n, k, alpha, a, F16, lda, b, F16, ldb, beta, c, F16, ldc, batch, COMPUTE_F16, DEFAULT);
}

/* ---- cuBLASLt ---- */

PRETEND_EXPORT size_t cublasLtGetVersion(void)
{
    return 130000;
}

typedef struct {
    int compute, scale;
    int32_t transpose_a, transpose_b, epilogue;
    const void *bias, *kept; /* kept: what an activation needs for its gradient */
} Operation;

typedef struct {
    int type;
    uint64_t rows, columns;
    int64_t leading, stride;
    int32_t batch;
} Layout;

PRETEND_EXPORT int cublasLtCreate(void **ret)
{
    return cublasCreate_v2(ret);
}

PRETEND_EXPORT int cublasLtDestroy(void *handle)
{
    return cublasDestroy_v2(handle);
}

/* In room of the caller's own, as inline functions of cublasLt.h have it: 32 words, of which ours takes fewer; so of a layout and of a preference, 8 words. */
PRETEND_EXPORT int cublasLtMatmulDescInit_internal(void *operation, size_t bytes, int compute, int scale)
{
    if (bytes < sizeof(Operation))
        return 3;
    memset(operation, 0, bytes);
    *(Operation *)operation = (Operation){.compute = compute, .scale = scale};
    return 0;
}

PRETEND_EXPORT int cublasLtMatmulDescCreate(void **ret, int compute, int scale)
{
    Operation *operation = malloc(sizeof *operation);
    if (!operation)
        return 3;
    *ret = operation;
    return cublasLtMatmulDescInit_internal(operation, sizeof *operation, compute, scale);
}

PRETEND_EXPORT int cublasLtMatmulDescDestroy(void *operation)
{
    free(operation);
    return 0;
}

/* cublasLtMatmulDescAttributes_t: 3 TRANSA, 4 TRANSB, 7 EPILOGUE, 8 BIAS_POINTER, 11 EPILOGUE_AUX_POINTER. */
PRETEND_EXPORT int cublasLtMatmulDescSetAttribute(void *operation, int attribute, const void *value, size_t bytes)
{
    Operation *o = operation;
    if (attribute == 3 && bytes >= sizeof o->transpose_a)
        memcpy(&o->transpose_a, value, sizeof o->transpose_a);
    if (attribute == 4 && bytes >= sizeof o->transpose_b)
        memcpy(&o->transpose_b, value, sizeof o->transpose_b);
    if (attribute == 7 && bytes >= sizeof o->epilogue)
        memcpy(&o->epilogue, value, sizeof o->epilogue);
    if (attribute == 8 && bytes >= sizeof o->bias)
        memcpy(&o->bias, value, sizeof o->bias);
    if (attribute == 11 && bytes >= sizeof o->kept)
        memcpy(&o->kept, value, sizeof o->kept);
    return 0;
}

PRETEND_EXPORT int cublasLtMatrixLayoutInit_internal(void *layout, size_t bytes, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    if (bytes < sizeof(Layout))
        return 3;
    memset(layout, 0, bytes);
    *(Layout *)layout = (Layout){.type = type, .rows = rows, .columns = columns, .leading = leading, .batch = 1};
    return 0;
}

PRETEND_EXPORT int cublasLtMatrixLayoutCreate(void **ret, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    Layout *layout = malloc(sizeof *layout);
    if (!layout)
        return 3;
    *ret = layout;
    return cublasLtMatrixLayoutInit_internal(layout, sizeof *layout, type, rows, columns, leading);
}

PRETEND_EXPORT int cublasLtMatrixLayoutDestroy(void *layout)
{
    free(layout);
    return 0;
}

/* cublasLtMatrixLayoutAttribute_t: 5 BATCH_COUNT, 6 STRIDED_BATCH_OFFSET. */
PRETEND_EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes)
{
    Layout *l = layout;
    if (attribute == 5 && bytes >= sizeof l->batch)
        memcpy(&l->batch, value, sizeof l->batch);
    if (attribute == 6 && bytes >= sizeof l->stride)
        memcpy(&l->stride, value, sizeof l->stride);
    return 0;
}

PRETEND_EXPORT int cublasLtMatmulPreferenceInit_internal(void *preference, size_t bytes)
{
    memset(preference, 0, bytes);
    return 0;
}

PRETEND_EXPORT int cublasLtMatmulPreferenceCreate(void **ret)
{
    *ret = calloc(1, 8);
    return *ret ? 0 : 3;
}

PRETEND_EXPORT int cublasLtMatmulPreferenceDestroy(void *preference)
{
    free(preference);
    return 0;
}

PRETEND_EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes)
{
    (void)preference, (void)attribute, (void)value, (void)bytes;
    return 0;
}

/* cublasLtMatmulHeuristicResult_t: algorithm 64 bytes, workspace, state, waves, reserved. */
PRETEND_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int room, void *ret,
                                                  int *ret_n)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    if (room > 0)
        memset(ret, 0, 96);
    *ret_n = room > 0;
    return 0;
}

PRETEND_EXPORT int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
                                  const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algorithm, void *workspace,
                                  size_t workspace_bytes, void *stream)
{
    (void)handle, (void)alpha, (void)c_layout, (void)algorithm, (void)workspace, (void)workspace_bytes;
    const Operation *o = operation;
    const Layout *la = a_layout, *lb = b_layout, *ld = d_layout;
    static const uint8_t zeros[16] = {0};
    bool add = beta && memcmp(beta, zeros, bytes_of(o->scale)) != 0;
    /* cublasLtEpilogue_t: a bias is added (4), its gradient is made (256, 512); a gradient reads what was kept (64 and 8 with 128), else that is written. */
    enum { GRADIENT_OF_BIAS = 256 | 512, KEPT = 128, GRADIENT = 64 | 8 };
    if (o->epilogue & KEPT)
        pretend_use(o->epilogue & GRADIENT ? PRETEND_READS : PRETEND_WRITES, o->kept, 0);
    write_product(stream, "cublasLtMatmul",
                  &(Product){.batch = (uint64_t)(ld->batch > 0 ? ld->batch : 1),
                             .m = ld->rows,
                             .n = ld->columns,
                             .k = o->transpose_a ? la->rows : la->columns,
                             .a = la->type,
                             .b = lb->type,
                             .c = ld->type,
                             .a_turned = o->transpose_a != 0,
                             .b_turned = o->transpose_b != 0,
                             .adds = add,
                             .tf32 = o->compute == COMPUTE_TF32,
                             .at = {a, b, c != d ? c : NULL, d},
                             .bias = o->epilogue & (4 | GRADIENT_OF_BIAS) ? o->bias : NULL,
                             .bias_written = o->epilogue & GRADIENT_OF_BIAS,
                             .places = place(a, la->type, la->leading, la->stride) | place(b, lb->type, lb->leading, lb->stride) |
                                       place(d, ld->type, ld->leading, ld->stride)});
    return 0;
}
