/* cuSPARSE of CUDA 12 and later: products of a sparse matrix with dense ones, priced by what they gather. Matrices are described by the library's own
 * functions, which ask nothing of a GPU, and read by them; what works on a handle is ours. How many elements a result has that is sparse itself hangs on
 * values: such operations are refused. */
#include "pretend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPARSE_OK, SPARSE_ALLOC_FAILED = 2, SPARSE_INVALID_VALUE = 3, SPARSE_NOT_SUPPORTED = 10 };

typedef struct {
    void *stream;
    int mode;
} Handle;

PRETEND_EXPORT int cusparseCreate(void **ret)
{
    *ret = calloc(1, sizeof(Handle));
    return *ret ? SPARSE_OK : SPARSE_ALLOC_FAILED;
}

PRETEND_EXPORT int cusparseDestroy(void *handle)
{
    free(handle);
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseSetStream(void *handle, void *stream)
{
    ((Handle *)handle)->stream = stream;
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseGetStream(void *handle, void **ret)
{
    *ret = ((const Handle *)handle)->stream;
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseSetPointerMode(void *handle, int mode)
{
    ((Handle *)handle)->mode = mode;
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseGetPointerMode(void *handle, int *ret)
{
    *ret = ((const Handle *)handle)->mode;
    return SPARSE_OK;
}

static bool find_real(const char *name, void *ret)
{
    static const char *const libraries[] = {"libcusparse.so.12", "libcusparse.so.13", NULL};
    void *found = pretend_real_symbol(name, libraries);
    memcpy(ret, &found, sizeof found);
    return found != NULL;
}

PRETEND_EXPORT int cusparseGetVersion(void *handle, int *ret)
{
    (void)handle;
    int (*property)(int, int *), parts[3] = {0};
    for (int i = 0; i < 3; i++)
        if (!find_real("cusparseGetProperty", &property) || property(i, &parts[i]) != SPARSE_OK)
            return SPARSE_NOT_SUPPORTED;
    *ret = parts[0] * 1000 + parts[1] * 100 + parts[2];
    return SPARSE_OK;
}

/* ---- matrices, as the library describes them ---- */

typedef struct {
    uint64_t rows, columns, nonzeros, bytes; /* bytes: of an element */
    const void *offsets, *indices, *values;  /* offsets: an index for each element, too, or one for each row or column and one more */
    uint64_t offsets_bytes, indices_bytes;   /* of the whole arrays */
} Sparse;

typedef struct {
    uint64_t rows, columns, batch, bytes;
    const void *values;
} Dense;

/* cudaDataType. */
static uint64_t value_bytes(int type)
{
    switch (type) {
    case 3: return 1; /* of whole numbers */
    case 2:
    case 14: return 2; /* halves */
    case 1:
    case 4: return 8; /* doubles, complex */
    case 5: return 16;
    default: return 4;
    }
}

/* cusparseIndexType_t. */
static uint64_t index_bytes(int type)
{
    return type == 1 ? 2 : type == 3 ? 8 : 4;
}

static bool sparse_of(const void *matrix, Sparse *ret)
{
    enum { CSR = 1, CSC, COO };
    int (*format)(const void *, int *), kind = 0, of_offsets = 0, of_indices = 0, base = 0, type = 0;
    int (*compressed)(const void *, int64_t *, int64_t *, int64_t *, const void **, const void **, const void **, int *, int *, int *, int *);
    int (*pairs)(const void *, int64_t *, int64_t *, int64_t *, const void **, const void **, const void **, int *, int *, int *);
    int64_t rows = 0, columns = 0, nonzeros = 0;
    Sparse of = {0};
    if (!find_real("cusparseSpMatGetFormat", &format) || format(matrix, &kind) != SPARSE_OK)
        return false;
    if ((kind == CSR || kind == CSC) && find_real(kind == CSR ? "cusparseConstCsrGet" : "cusparseConstCscGet", &compressed)) {
        if (compressed(matrix, &rows, &columns, &nonzeros, &of.offsets, &of.indices, &of.values, &of_offsets, &of_indices, &base, &type) != SPARSE_OK)
            return false;
        of.offsets_bytes = ((uint64_t)(kind == CSR ? rows : columns) + 1) * index_bytes(of_offsets);
    } else if (kind == COO && find_real("cusparseConstCooGet", &pairs)) {
        if (pairs(matrix, &rows, &columns, &nonzeros, &of.offsets, &of.indices, &of.values, &of_indices, &base, &type) != SPARSE_OK)
            return false;
        of.offsets_bytes = (uint64_t)nonzeros * index_bytes(of_indices);
    } else {
        return false;
    }
    of.rows = (uint64_t)rows, of.columns = (uint64_t)columns, of.nonzeros = (uint64_t)nonzeros, of.bytes = value_bytes(type);
    of.indices_bytes = of.nonzeros * index_bytes(of_indices);
    *ret = of;
    return true;
}

static bool dense_of(const void *matrix, Dense *ret)
{
    int (*get)(const void *, int64_t *, int64_t *, int64_t *, const void **, int *, int *), (*batch)(const void *, int *, int64_t *);
    int64_t rows, columns, leading, stride;
    int type, order, n = 1;
    const void *values;
    if (!find_real("cusparseConstDnMatGet", &get) || get(matrix, &rows, &columns, &leading, &values, &type, &order) != SPARSE_OK)
        return false;
    if (find_real("cusparseDnMatGetStridedBatch", &batch))
        batch(matrix, &n, &stride);
    *ret = (Dense){(uint64_t)rows, (uint64_t)columns, n > 1 ? (uint64_t)n : 1, value_bytes(type), values};
    return true;
}

static bool vector_of(const void *vector, Dense *ret)
{
    int (*get)(const void *, int64_t *, const void **, int *), type;
    int64_t size;
    const void *values;
    if (!find_real("cusparseConstDnVecGet", &get) || get(vector, &size, &values, &type) != SPARSE_OK)
        return false;
    *ret = (Dense){(uint64_t)size, 1, 1, value_bytes(type), values};
    return true;
}

/* ---- products ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t use_structure(const Sparse *a)
{
    pretend_use(PRETEND_READS, a->offsets, a->offsets_bytes);
    pretend_use(PRETEND_READS, a->indices, a->indices_bytes);
    return a->offsets_bytes + a->indices_bytes;
}

static uint64_t use_whole(PretendUse how, const Dense *dense)
{
    uint64_t bytes = dense->rows * dense->columns * dense->batch * dense->bytes;
    pretend_use(how, dense->values, bytes);
    return bytes;
}

static void write_gather(void *handle, const char *name, uint64_t elements, uint64_t bytes, uint64_t read, uint64_t written)
{
    char launch[96];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%llu class=gather", (unsigned long long)elements, (unsigned long long)bytes);
    pretend_library_kernel(((const Handle *)handle)->stream, name, launch, read, written, 0, NULL);
}

/* Each element of @a picks a row of @b, of which those that any picks are read once. */
static int write_product(void *handle, const char *name, const Sparse *a, const Dense *b, const Dense *c, bool b_turned)
{
    uint64_t rows = b_turned ? b->columns : b->rows, width = b_turned ? b->rows : b->columns;
    uint64_t read = use_structure(a) + a->nonzeros * a->bytes;
    pretend_use(PRETEND_READS, a->values, a->nonzeros * a->bytes);
    use_whole(PRETEND_READS, b);
    read += least(a->nonzeros, rows) * width * b->batch * b->bytes;
    write_gather(handle, name, a->nonzeros * width * b->batch, b->bytes, read, use_whole(PRETEND_WRITES, c));
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseSpMM(void *handle, int turned, int b_turned, const void *alpha, const void *a, const void *b, const void *beta, const void *c,
                                int type, int algorithm, void *work)
{
    (void)turned, (void)alpha, (void)beta, (void)type, (void)algorithm, (void)work;
    Sparse of;
    Dense with, to;
    if (!sparse_of(a, &of) || !dense_of(b, &with) || !dense_of(c, &to))
        return SPARSE_NOT_SUPPORTED;
    return write_product(handle, "cusparseSpMM", &of, &with, &to, b_turned);
}

PRETEND_EXPORT int cusparseSpMV(void *handle, int turned, const void *alpha, const void *a, const void *x, const void *beta, const void *y, int type,
                                int algorithm, void *work)
{
    (void)turned, (void)alpha, (void)beta, (void)type, (void)algorithm, (void)work;
    Sparse of;
    Dense with, to;
    if (!sparse_of(a, &of) || !vector_of(x, &with) || !vector_of(y, &to))
        return SPARSE_NOT_SUPPORTED;
    return write_product(handle, "cusparseSpMV", &of, &with, &to, false);
}

/* A row of @a times a column of @b for each element of @c. */
PRETEND_EXPORT int cusparseSDDMM(void *handle, int a_turned, int b_turned, const void *alpha, const void *a, const void *b, const void *beta, const void *c,
                                 int type, int algorithm, void *work)
{
    (void)b_turned, (void)alpha, (void)beta, (void)type, (void)algorithm, (void)work;
    Sparse to;
    Dense left, right;
    if (!sparse_of(c, &to) || !dense_of(a, &left) || !dense_of(b, &right))
        return SPARSE_NOT_SUPPORTED;
    uint64_t depth = a_turned ? left.rows : left.columns, written = to.nonzeros * to.bytes, read = use_structure(&to);
    use_whole(PRETEND_READS, &left);
    use_whole(PRETEND_READS, &right);
    read += (least(to.nonzeros, to.rows) + least(to.nonzeros, to.columns)) * depth * left.batch * left.bytes;
    pretend_use(PRETEND_WRITES, to.values, written);
    write_gather(handle, "cusparseSDDMM", to.nonzeros * depth * left.batch, left.bytes, read, written * left.batch);
    return SPARSE_OK;
}

/* What products take beside their operands: assumed to be nothing. */
#define NO_WORK(name, ...)                                                                                                                                     \
    PRETEND_EXPORT int cusparse##name##_bufferSize(__VA_ARGS__, int type, int algorithm, size_t *ret)                                                          \
    {                                                                                                                                                          \
        (void)handle, (void)turned, (void)alpha, (void)a, (void)b, (void)beta, (void)c, (void)type, (void)algorithm;                                           \
        *ret = 0;                                                                                                                                              \
        return SPARSE_OK;                                                                                                                                      \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cusparse##name##_preprocess(__VA_ARGS__, int type, int algorithm, void *work)                                                           \
    {                                                                                                                                                          \
        (void)handle, (void)turned, (void)alpha, (void)a, (void)b, (void)beta, (void)c, (void)type, (void)algorithm, (void)work;                               \
        return SPARSE_OK;                                                                                                                                      \
    }
NO_WORK(SpMV, void *handle, int turned, const void *alpha, const void *a, const void *b, const void *beta, const void *c)
#define MATRICES                                                                                                                                               \
    void *handle, int turned, __attribute__((unused)) int b_turned, const void *alpha, const void *a, const void *b, const void *beta, const void *c
NO_WORK(SpMM, MATRICES)
NO_WORK(SDDMM, MATRICES)

/* ---- the order of elements ---- */

PRETEND_EXPORT int cusparseXcoo2csr(void *handle, const int *rows, int nonzeros, int n_rows, int *offsets, int base)
{
    if (nonzeros < 0 || n_rows < 0)
        return SPARSE_INVALID_VALUE;
    (void)base;
    uint64_t read = (uint64_t)nonzeros * sizeof(int), written = ((uint64_t)n_rows + 1) * sizeof(int);
    pretend_use(PRETEND_READS, rows, read);
    pretend_use(PRETEND_WRITES, offsets, written);
    write_gather(handle, "cusparseXcoo2csr", (uint64_t)nonzeros, sizeof(int), read, written);
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseXcsr2coo(void *handle, const int *offsets, int nonzeros, int n_rows, int *rows, int base)
{
    if (nonzeros < 0 || n_rows < 0)
        return SPARSE_INVALID_VALUE;
    (void)base;
    uint64_t read = ((uint64_t)n_rows + 1) * sizeof(int), written = (uint64_t)nonzeros * sizeof(int);
    pretend_use(PRETEND_READS, offsets, read);
    pretend_use(PRETEND_WRITES, rows, written);
    write_gather(handle, "cusparseXcsr2coo", (uint64_t)nonzeros, sizeof(int), read, written);
    return SPARSE_OK;
}

PRETEND_EXPORT int cusparseCreateIdentityPermutation(void *handle, int n, int *ret)
{
    if (n < 0)
        return SPARSE_INVALID_VALUE;
    char launch[96];
    snprintf(launch, sizeof launch, "elements=%d operand_bytes=4 class=fill", n);
    pretend_use(PRETEND_WRITES, ret, (uint64_t)n * sizeof(int));
    pretend_library_kernel(((const Handle *)handle)->stream, "cusparseCreateIdentityPermutation", launch, 0, (uint64_t)n * sizeof(int), 0, NULL);
    return SPARSE_OK;
}

/* Each element with its row, its column and its place; a radix sort has another array of as many to write to. */
enum { SORTED_BYTES = 3 * sizeof(int) };

static int write_sort(void *handle, const char *name, int nonzeros, int *rows, int *columns, int *places)
{
    if (nonzeros < 0)
        return SPARSE_INVALID_VALUE;
    char launch[128];
    uint64_t n = (uint64_t)nonzeros;
    snprintf(launch, sizeof launch, "rows=1x%llu operand_bytes=%d class=sort routine=radix keys=8", (unsigned long long)n, SORTED_BYTES);
    pretend_use(PRETEND_UPDATES, rows, n * sizeof(int));
    pretend_use(PRETEND_UPDATES, columns, n * sizeof(int));
    pretend_use(PRETEND_UPDATES, places, n * sizeof(int));
    pretend_library_kernel(((const Handle *)handle)->stream, name, launch, n * SORTED_BYTES, n * SORTED_BYTES, 0, NULL);
    return SPARSE_OK;
}

#define SORT(name)                                                                                                                                             \
    PRETEND_EXPORT int cusparse##name(void *handle, int rows, int columns, int nonzeros, int *of_rows, int *of_columns, int *places, void *work)               \
    {                                                                                                                                                          \
        (void)rows, (void)columns, (void)work;                                                                                                                 \
        return write_sort(handle, "cusparse" #name, nonzeros, of_rows, of_columns, places);                                                                    \
    }
SORT(XcoosortByRow)
SORT(XcoosortByColumn)

#define SORT_COMPRESSED(name)                                                                                                                                  \
    PRETEND_EXPORT int cusparse##name(void *handle, int rows, int columns, int nonzeros, const void *kind, const int *offsets, int *indices, int *places,      \
                                      void *work)                                                                                                              \
    {                                                                                                                                                          \
        (void)rows, (void)columns, (void)kind, (void)offsets, (void)work;                                                                                      \
        return write_sort(handle, "cusparse" #name, nonzeros, NULL, indices, places);                                                                          \
    }
SORT_COMPRESSED(Xcsrsort)
SORT_COMPRESSED(Xcscsort)

#define SORT_WORK(name)                                                                                                                                        \
    PRETEND_EXPORT int cusparse##name##_bufferSizeExt(void *handle, int rows, int columns, int nonzeros, const int *a, const int *b, size_t *ret)              \
    {                                                                                                                                                          \
        (void)handle, (void)rows, (void)columns, (void)a, (void)b;                                                                                             \
        *ret = (size_t)nonzeros * SORTED_BYTES;                                                                                                                \
        return nonzeros < 0 ? SPARSE_INVALID_VALUE : SPARSE_OK;                                                                                                \
    }
SORT_WORK(Xcoosort)
SORT_WORK(Xcsrsort)
SORT_WORK(Xcscsort)

/* ---- what is not pretended: without these the real library would work on our handle ---- */

#define NO_SPARSE(name) PRETEND_REFUSED(cusparse##name, SPARSE_NOT_SUPPORTED)
NO_SPARSE(Axpby)
NO_SPARSE(Csr2cscEx2)
NO_SPARSE(Csr2cscEx2_bufferSize)
NO_SPARSE(DenseToSparse_analysis)
NO_SPARSE(DenseToSparse_bufferSize)
NO_SPARSE(DenseToSparse_convert)
NO_SPARSE(Gather)
NO_SPARSE(Rot)
NO_SPARSE(Scatter)
NO_SPARSE(SpGEAM)
NO_SPARSE(SpGEAM_bufferSize)
NO_SPARSE(SpGEAM_nnz)
NO_SPARSE(SpGEMM_compute)
NO_SPARSE(SpGEMM_copy)
NO_SPARSE(SpGEMM_estimateMemory)
NO_SPARSE(SpGEMM_workEstimation)
NO_SPARSE(SpGEMMreuse_compute)
NO_SPARSE(SpGEMMreuse_copy)
NO_SPARSE(SpGEMMreuse_nnz)
NO_SPARSE(SpGEMMreuse_workEstimation)
NO_SPARSE(SpMMOp_createPlan)
NO_SPARSE(SpMVGeneric)
NO_SPARSE(SpMVGeneric_bufferSize)
NO_SPARSE(SpMVGeneric_preprocess)
NO_SPARSE(SpMVOp)
NO_SPARSE(SpMVOp_bufferSize)
NO_SPARSE(SpMVOp_createDescr)
NO_SPARSE(SpMVOp_createPlan)
NO_SPARSE(SpMVOp_setGlobalUserData)
NO_SPARSE(SpMatConvert)
NO_SPARSE(SpMatConvert_analysis)
NO_SPARSE(SpMatConvert_bufferSize)
NO_SPARSE(SpSM_analysis)
NO_SPARSE(SpSM_bufferSize)
NO_SPARSE(SpSM_solve)
NO_SPARSE(SpSM_updateMatrix)
NO_SPARSE(SpSV_analysis)
NO_SPARSE(SpSV_bufferSize)
NO_SPARSE(SpSV_solve)
NO_SPARSE(SpSV_updateMatrix)
NO_SPARSE(SpVV)
NO_SPARSE(SpVV_bufferSize)
NO_SPARSE(SparseToDense)
NO_SPARSE(SparseToDense_bufferSize)
NO_SPARSE(Xbsric02_zeroPivot)
NO_SPARSE(Xbsrilu02_zeroPivot)
NO_SPARSE(Xbsrsm2_zeroPivot)
NO_SPARSE(Xbsrsv2_zeroPivot)
NO_SPARSE(Xcsr2bsrNnz)
NO_SPARSE(Xcsr2gebsrNnz)
NO_SPARSE(Xcsrgeam2Nnz)
NO_SPARSE(Xcsric02_zeroPivot)
NO_SPARSE(Xcsrilu02_zeroPivot)
NO_SPARSE(Xgebsr2csr)
NO_SPARSE(Xgebsr2gebsrNnz)

#define NO_PRUNING(name) NO_SPARSE(S##name) NO_SPARSE(D##name) NO_SPARSE(H##name)
NO_PRUNING(pruneCsr2csr)
NO_PRUNING(pruneCsr2csrByPercentage)
NO_PRUNING(pruneCsr2csrByPercentage_bufferSizeExt)
NO_PRUNING(pruneCsr2csrNnz)
NO_PRUNING(pruneCsr2csrNnzByPercentage)
NO_PRUNING(pruneCsr2csr_bufferSizeExt)
NO_PRUNING(pruneDense2csr)
NO_PRUNING(pruneDense2csrByPercentage)
NO_PRUNING(pruneDense2csrByPercentage_bufferSizeExt)
NO_PRUNING(pruneDense2csrNnz)
NO_PRUNING(pruneDense2csrNnzByPercentage)
NO_PRUNING(pruneDense2csr_bufferSizeExt)

#define NO_TYPE(name) NO_SPARSE(S##name) NO_SPARSE(D##name) NO_SPARSE(C##name) NO_SPARSE(Z##name)
NO_TYPE(bsr2csr)
NO_TYPE(bsric02)
NO_TYPE(bsric02_analysis)
NO_TYPE(bsric02_bufferSize)
NO_TYPE(bsric02_bufferSizeExt)
NO_TYPE(bsrilu02)
NO_TYPE(bsrilu02_analysis)
NO_TYPE(bsrilu02_bufferSize)
NO_TYPE(bsrilu02_bufferSizeExt)
NO_TYPE(bsrilu02_numericBoost)
NO_TYPE(bsrmm)
NO_TYPE(bsrmv)
NO_TYPE(bsrsm2_analysis)
NO_TYPE(bsrsm2_bufferSize)
NO_TYPE(bsrsm2_bufferSizeExt)
NO_TYPE(bsrsm2_solve)
NO_TYPE(bsrsv2_analysis)
NO_TYPE(bsrsv2_bufferSize)
NO_TYPE(bsrsv2_bufferSizeExt)
NO_TYPE(bsrsv2_solve)
NO_TYPE(bsrxmv)
NO_TYPE(csr2bsr)
NO_TYPE(csr2csr_compress)
NO_TYPE(csr2csru)
NO_TYPE(csr2gebsr)
NO_TYPE(csr2gebsr_bufferSize)
NO_TYPE(csr2gebsr_bufferSizeExt)
NO_TYPE(csrcolor)
NO_TYPE(csrgeam2)
NO_TYPE(csrgeam2_bufferSizeExt)
NO_TYPE(csric02)
NO_TYPE(csric02_analysis)
NO_TYPE(csric02_bufferSize)
NO_TYPE(csric02_bufferSizeExt)
NO_TYPE(csrilu02)
NO_TYPE(csrilu02_analysis)
NO_TYPE(csrilu02_bufferSize)
NO_TYPE(csrilu02_bufferSizeExt)
NO_TYPE(csrilu02_numericBoost)
NO_TYPE(csru2csr)
NO_TYPE(csru2csr_bufferSizeExt)
NO_TYPE(gebsr2csr)
NO_TYPE(gebsr2gebsc)
NO_TYPE(gebsr2gebsc_bufferSize)
NO_TYPE(gebsr2gebsc_bufferSizeExt)
NO_TYPE(gebsr2gebsr)
NO_TYPE(gebsr2gebsr_bufferSize)
NO_TYPE(gebsr2gebsr_bufferSizeExt)
NO_TYPE(gemvi)
NO_TYPE(gemvi_bufferSize)
NO_TYPE(gpsvInterleavedBatch)
NO_TYPE(gpsvInterleavedBatch_bufferSizeExt)
NO_TYPE(gtsv2)
NO_TYPE(gtsv2StridedBatch)
NO_TYPE(gtsv2StridedBatch_bufferSizeExt)
NO_TYPE(gtsv2_bufferSizeExt)
NO_TYPE(gtsv2_nopivot)
NO_TYPE(gtsv2_nopivot_bufferSizeExt)
NO_TYPE(gtsvInterleavedBatch)
NO_TYPE(gtsvInterleavedBatch_bufferSizeExt)
NO_TYPE(nnz)
NO_TYPE(nnz_compress)
