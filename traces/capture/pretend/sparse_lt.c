/* cuSPARSELt: products with a matrix of which two in four elements are zeros, which its tensor cores take at twice the rate. What its caller has room for, 512
 * bytes each, holds what it was told. */
#include "pretend.h"

#include <stdio.h>
#include <string.h>

enum { OK, INVALID_VALUE = 3, NOT_SUPPORTED = 10, ROOM = 512 };

typedef struct {
    uint64_t rows, columns, batch;
    int type; /* cudaDataType */
    bool structured, by_rows;
} Matrix;

typedef struct {
    Matrix a, b, d;
    bool a_turned, b_turned;
    const void *bias;
} Operation; /* a plan is one, too */
_Static_assert(sizeof(Operation) <= ROOM && sizeof(Matrix) <= ROOM, "the caller has room for them");

static const char *name_of(int type)
{
    switch (type) {
    case 2: return "f16";
    case 3: return "s8";
    case 14: return "bf16";
    case 28: return "f8e4m3fn";
    case 29: return "f8e5m2";
    default: return "tf32";
    }
}

static uint64_t bytes_of(int type)
{
    return type == 3 || type == 28 || type == 29 ? 1 : type == 2 || type == 14 ? 2 : 4;
}

static uint64_t elements_of(const Matrix *matrix)
{
    return matrix->rows * matrix->columns * matrix->batch;
}

/* Half of the elements, and for each pair of these where they stand: two bits each, but one for elements of 4 bytes, of which one in two is kept. */
static uint64_t stored_bytes(const Matrix *matrix)
{
    uint64_t elements = elements_of(matrix), bytes = bytes_of(matrix->type);
    return matrix->structured ? elements / 2 * bytes + (bytes == 4 ? elements / 4 : elements / 2) / 4 : elements * bytes;
}

PRETEND_EXPORT int cusparseLtInit(void *handle)
{
    memset(handle, 0, ROOM);
    return OK;
}

PRETEND_EXPORT int cusparseLtDenseDescriptorInit(const void *handle, Matrix *ret, int64_t rows, int64_t columns, int64_t leading, uint32_t alignment, int type,
                                                 int order)
{
    enum { BY_ROWS = 2 };
    (void)handle, (void)leading, (void)alignment;
    if (rows < 1 || columns < 1)
        return INVALID_VALUE;
    *ret = (Matrix){.rows = (uint64_t)rows, .columns = (uint64_t)columns, .batch = 1, .type = type, .by_rows = order == BY_ROWS};
    return OK;
}

PRETEND_EXPORT int cusparseLtStructuredDescriptorInit(const void *handle, Matrix *ret, int64_t rows, int64_t columns, int64_t leading, uint32_t alignment,
                                                      int type, int order, int sparsity)
{
    (void)sparsity;
    int status = cusparseLtDenseDescriptorInit(handle, ret, rows, columns, leading, alignment, type, order);
    if (status == OK)
        ret->structured = true;
    return status;
}

PRETEND_EXPORT int cusparseLtMatDescSetAttribute(const void *handle, Matrix *matrix, int attribute, const void *value, size_t bytes)
{
    (void)handle;
    int32_t batch = 1;
    if (attribute == 0 && bytes == sizeof batch) { /* CUSPARSELT_MAT_NUM_BATCHES */
        memcpy(&batch, value, sizeof batch);
        matrix->batch = batch > 0 ? (uint64_t)batch : 1;
    }
    return OK;
}

PRETEND_EXPORT int cusparseLtMatmulDescriptorInit(const void *handle, Operation *ret, int a_turned, int b_turned, const Matrix *a, const Matrix *b,
                                                  const Matrix *c, const Matrix *d, int compute)
{
    (void)handle, (void)c, (void)compute;
    *ret = (Operation){.a = *a, .b = *b, .d = *d, .a_turned = a_turned != 0, .b_turned = b_turned != 0};
    return OK;
}

PRETEND_EXPORT int cusparseLtMatmulDescSetAttribute(const void *handle, Operation *operation, int attribute, const void *value, size_t bytes)
{
    (void)handle;
    if (attribute == 8 && bytes == sizeof operation->bias) /* CUSPARSELT_MATMUL_BIAS_POINTER */
        memcpy(&operation->bias, value, sizeof operation->bias);
    return OK;
}

/* One algorithm, of one part. */
PRETEND_EXPORT int cusparseLtMatmulAlgGetAttribute(const void *handle, const void *selection, int attribute, void *ret, size_t bytes)
{
    (void)handle, (void)selection;
    const int32_t value = attribute == 1 || attribute == 3 || attribute == 4; /* CONFIG_MAX_ID, SPLIT_K, SPLIT_K_MODE */
    if (bytes < sizeof value)
        return INVALID_VALUE;
    memset(ret, 0, bytes);
    memcpy(ret, &value, sizeof value);
    return OK;
}

PRETEND_EXPORT int cusparseLtMatmulPlanInit(const void *handle, Operation *ret, const Operation *operation, const void *selection)
{
    (void)handle, (void)selection;
    *ret = *operation;
    return OK;
}

PRETEND_EXPORT int cusparseLtMatmulGetWorkspace(const void *handle, const void *plan, size_t *ret)
{
    (void)handle, (void)plan;
    *ret = 0;
    return OK;
}

#define NOTHING_TO_DO(name)                                                                                                                                    \
    PRETEND_EXPORT int name(void)                                                                                                                              \
    {                                                                                                                                                          \
        return OK;                                                                                                                                             \
    }
NOTHING_TO_DO(cusparseLtDestroy)
NOTHING_TO_DO(cusparseLtMatDescriptorDestroy)
NOTHING_TO_DO(cusparseLtMatmulAlgSelectionDestroy)
NOTHING_TO_DO(cusparseLtMatmulAlgSelectionInit)
NOTHING_TO_DO(cusparseLtMatmulAlgSetAttribute)
NOTHING_TO_DO(cusparseLtMatmulPlanDestroy)

/* ---- what is launched ---- */

static int write_relayout(void *stream, const char *name, const Matrix *matrix, const void *from, void *to, uint64_t written)
{
    char launch[96];
    uint64_t bytes = bytes_of(matrix->type), read = elements_of(matrix) * bytes;
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%llu class=strided", (unsigned long long)elements_of(matrix), (unsigned long long)bytes);
    pretend_use(PRETEND_READS, from, read);
    pretend_use(PRETEND_WRITES, to, written);
    pretend_library_kernel(stream, name, launch, read, written, 0, NULL);
    return OK;
}

/* Of scratch memory it is taken to need none. */
PRETEND_EXPORT int cusparseLtSpMMACompressedSize2(const void *handle, const Matrix *matrix, size_t *ret, size_t *ret_scratch)
{
    (void)handle;
    *ret = stored_bytes(matrix);
    *ret_scratch = 0;
    return OK;
}

PRETEND_EXPORT int cusparseLtSpMMACompressedSize(const void *handle, const Operation *plan, size_t *ret, size_t *ret_scratch)
{
    return cusparseLtSpMMACompressedSize2(handle, plan->a.structured ? &plan->a : &plan->b, ret, ret_scratch);
}

PRETEND_EXPORT int cusparseLtSpMMACompress2(const void *handle, const Matrix *matrix, int is_a, int turned, const void *dense, void *to, void *scratch,
                                            void *stream)
{
    (void)handle, (void)is_a, (void)turned, (void)scratch;
    return write_relayout(stream, "cusparseLtSpMMACompress", matrix, dense, to, stored_bytes(matrix));
}

PRETEND_EXPORT int cusparseLtSpMMACompress(const void *handle, const Operation *plan, const void *dense, void *to, void *scratch, void *stream)
{
    return cusparseLtSpMMACompress2(handle, plan->a.structured ? &plan->a : &plan->b, plan->a.structured, 0, dense, to, scratch, stream);
}

PRETEND_EXPORT int cusparseLtSpMMAPrune2(const void *handle, const Matrix *matrix, int is_a, int turned, const void *from, void *to, int how, void *stream)
{
    (void)handle, (void)is_a, (void)turned, (void)how;
    return write_relayout(stream, "cusparseLtSpMMAPrune", matrix, from, to, elements_of(matrix) * bytes_of(matrix->type));
}

PRETEND_EXPORT int cusparseLtSpMMAPrune(const void *handle, const Operation *operation, const void *from, void *to, int how, void *stream)
{
    return cusparseLtSpMMAPrune2(handle, operation->a.structured ? &operation->a : &operation->b, operation->a.structured, 0, from, to, how, stream);
}

/* Half of the multiplications: the others are with zeros. */
PRETEND_EXPORT int cusparseLtMatmul(const void *handle, const Operation *plan, const void *alpha, const void *a, const void *b, const void *beta, const void *c,
                                    void *d, void *workspace, void **streams, int32_t n_streams)
{
    (void)handle, (void)alpha, (void)workspace;
    float add = 0;
    if (beta)
        memcpy(&add, beta, sizeof add);
    const bool adds = add > 0 || add < 0;
    const uint64_t read_a = stored_bytes(&plan->a), read_b = stored_bytes(&plan->b), written = stored_bytes(&plan->d);
    const uint64_t depth = (plan->a_turned ? plan->a.rows : plan->a.columns) / 2, m = plan->d.rows, n = plan->d.columns;
    char launch[192];
    snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu operand_bytes=%llu class=product", (unsigned long long)plan->d.batch,
             (unsigned long long)(plan->d.by_rows ? m : n), (unsigned long long)(plan->d.by_rows ? n : m), (unsigned long long)depth,
             (unsigned long long)bytes_of(plan->a.type));
    pretend_use(PRETEND_READS, a, read_a);
    pretend_use(PRETEND_READS, b, read_b);
    pretend_use(PRETEND_READS, adds && c != d ? c : NULL, written);
    pretend_use(PRETEND_READS, plan->bias, 0);
    pretend_use(adds && c == d ? PRETEND_UPDATES : PRETEND_WRITES, d, written);
    pretend_library_kernel(n_streams > 0 && streams ? streams[0] : NULL, "cusparseLtMatmul", launch, read_a + read_b + (adds ? written : 0), written,
                           2 * plan->d.batch * m * n * depth, name_of(plan->a.type));
    return OK;
}

/* As often as it is asked for, once. */
PRETEND_EXPORT int cusparseLtMatmulSearch(const void *handle, Operation *plan, const void *alpha, const void *a, const void *b, const void *beta, const void *c,
                                          void *d, void *workspace, void **streams, int32_t n_streams)
{
    return cusparseLtMatmul(handle, plan, alpha, a, b, beta, c, d, workspace, streams, n_streams);
}

#define NO_SPARSE(name) PRETEND_REFUSED(name, NOT_SUPPORTED)
NO_SPARSE(cusparseLtMatDescGetAttribute)
NO_SPARSE(cusparseLtMatmulDescGetAttribute)
NO_SPARSE(cusparseLtSpMMAPruneCheck)
NO_SPARSE(cusparseLtSpMMAPruneCheck2)
