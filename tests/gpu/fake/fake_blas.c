/* cuBLAS. */
#include "tests/gpu/fake/fake.h"

#include <math.h>

static char library;
static int n_handles; /* Not destroyed */
static EchCuStream blas_stream;

static long plain;

/* Products whose inputs were not noise: on a GPU they would take less power than any program's, and so less time. */
EXPORT long fake_cuda_plain_products(void);
long fake_cuda_plain_products(void)
{
    return plain;
}

static struct {
    const void *workspace;
    EchCuStream stream;
} last_users[64];
static const void *blas_workspace;
static long shared;

/* Products given a workspace that another queue, which still has work, was the last to multiply with: on a GPU both would write to it. */
EXPORT long fake_cuda_shared_workspaces(void);
long fake_cuda_shared_workspaces(void)
{
    return shared;
}

static void note_user(const void *workspace, EchCuStream stream)
{
    size_t i = 0, n = sizeof last_users / sizeof *last_users;
    while (i < n - 1 && last_users[i].workspace && last_users[i].workspace != workspace)
        i++;
    EchCuStream before = last_users[i].workspace == workspace ? last_users[i].stream : NULL;
    if (before && before != stream) {
        const struct EchCuStreamOpaque *at = fake.streams;
        while (at && at != before)
            at = at->next;
        shared += at && (at->first || fake.capturing);
    }
    last_users[i].workspace = workspace;
    last_users[i].stream = stream;
}

static int is_noise(const void *pointer, size_t bytes)
{
    const Block *block = fake_block_at(pointer, bytes);
    return block && (const char *)pointer + bytes <= block->data + block->noise;
}

/* A kernel for each type, odd sides or not, and small, middling and large results. */
static void load_kernel(int type, int odd, size_t results)
{
    static char loaded[16][2][3];
    char *is = &loaded[type & 15][odd != 0][results < 1 << 18 ? 0 : results < 1 << 22 ? 1 : 2];
    if (!*is)
        fake_load_code();
    *is = 1;
}

static void know_handle(EchCuBlasHandle handle, const char *symbol)
{
    if ((void *)handle != &library || n_handles == 0)
        fake_misused(symbol, "a handle that is not there");
}

EXPORT int cublasCreate_v2(EchCuBlasHandle *ret)
{
    ENTER_CONTEXT();
    *ret = (EchCuBlasHandle)(void *)&library;
    n_handles++;
    blas_stream = NULL;
    blas_workspace = NULL;
    fake.held++;
    return 0;
}

/* Other streams than the one it was given may be gone; that one may not, for it is the library's until it is given another. */
EXPORT int cublasDestroy_v2(EchCuBlasHandle handle)
{
    int fails = fake_failing();
    know_handle(handle, __func__);
    fake_enter_release(__func__);
    fake_know_stream(blas_stream, __func__);
    n_handles--;
    blas_stream = NULL;
    fake.held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT int cublasGetVersion_v2(EchCuBlasHandle handle, int *ret)
{
    ENTER_CONTEXT();
    know_handle(handle, __func__);
    *ret = 130000;
    return 0;
}

EXPORT int cublasSetStream_v2(EchCuBlasHandle handle, EchCuStream stream)
{
    ENTER_CONTEXT();
    know_handle(handle, __func__);
    fake_know_stream(stream, __func__);
    blas_stream = stream;
    blas_workspace = NULL; /* The library's own, from its pool */
    return 0;
}

EXPORT int cublasSetWorkspace_v2(EchCuBlasHandle handle, void *workspace, size_t bytes)
{
    ENTER_CONTEXT();
    know_handle(handle, __func__);
    blas_workspace = workspace;
    return (uintptr_t)workspace % 256 == 0 && fake_block_at(workspace, bytes) ? 0 : BLAS_INVALID_VALUE;
}

/* Of the table of types in the manual of cublasGemmStridedBatchedEx. */
static int is_known(int input, int output, int compute)
{
    static const int known[][3] = {{ECH_CUBLAS_BF16, ECH_CUBLAS_BF16, ECH_CUBLAS_COMPUTE_F32}, {ECH_CUBLAS_F16, ECH_CUBLAS_F16, ECH_CUBLAS_COMPUTE_F32},
                                   {ECH_CUBLAS_F32, ECH_CUBLAS_F32, ECH_CUBLAS_COMPUTE_F32},   {ECH_CUBLAS_F32, ECH_CUBLAS_F32, ECH_CUBLAS_COMPUTE_TF32},
                                   {ECH_CUBLAS_F64, ECH_CUBLAS_F64, ECH_CUBLAS_COMPUTE_F64},   {ECH_CUBLAS_S8, ECH_CUBLAS_S32, ECH_CUBLAS_COMPUTE_S32}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i][0] == input && known[i][1] == output && known[i][2] == compute)
            return 1;
    }
    return 0;
}

EXPORT int cublasGemmStridedBatchedEx(EchCuBlasHandle handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a,
                                      int type_a, int lda, long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta,
                                      void *c, int type_c, int ldc, long long stride_c, int batch, int compute, int algorithm)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    size_t element = type_a == 3 ? 1 : type_a == 1 ? 8 : type_a == 0 ? 4 : 2, result = type_c == 1 ? 8 : type_c == 0 || type_c == 10 ? 4 : 2;
    know_handle(handle, __func__);
    fake_know_stream(blas_stream, __func__);
    if (blas_workspace && !fake_block_at(blas_workspace, 1))
        fake_misused(__func__, "a workspace that was given back");
    if (!is_known(type_a, type_c, compute) || (type_a == ECH_CUBLAS_S8 && (!transpose_a || lda % 4 || ldb % 4)) || (uintptr_t)a % element ||
        (uintptr_t)b % element || (uintptr_t)c % result)
        return NOT_SUPPORTED;
    if (blas_workspace)
        note_user(blas_workspace, blas_stream);
    if (m <= 0 || n <= 0 || k <= 0 || batch <= 0 || !alpha || !beta || type_a != type_b || transpose_b || algorithm != -1 || lda < (transpose_a ? k : m) ||
        ldb < k || ldc < m || stride_a < (long long)m * k || stride_b < (long long)k * n || stride_c < (long long)m * n ||
        !fake_block_at(a, (size_t)batch * (size_t)stride_a * element) || !fake_block_at(b, (size_t)batch * (size_t)stride_b * element) ||
        !fake_block_at(c, (size_t)batch * (size_t)stride_c * result))
        return BLAS_INVALID_VALUE;
    plain += !is_noise(a, (size_t)batch * (size_t)stride_a * element) || !is_noise(b, (size_t)batch * (size_t)stride_b * element);
    load_kernel(type_a, m % 8 || n % 8 || k % 8, (size_t)m * (size_t)n);
    const FakeFigures *figures = fake_figures();
    double full = figures->blas * (type_a == 0 ? figures->tf32 : type_a == 1 ? figures->wide : 1);
    if (fake_real()) {
        /* Tiles of 128 x 128 in waves; a prologue as long as so many steps of k. */
        double tiles = (double)((m + 127) / 128) * ((n + 127) / 128) * batch, waves = ceil(tiles / figures->wave);
        double uneven = m % 8 || n % 8 || k % 8 ? figures->uneven : 1;
        double operations = waves * figures->wave * 128 * 128 * 2.0 * (k + figures->prologue), sides[] = {(double)m * k, (double)k * n, (double)m * n},
               moved = 0;
        const void *places[] = {a, b, c};
        for (int i = 0; i < 3; i++) {
            size_t bytes = (size_t)(sides[i] * batch * (double)(i < 2 ? element : result));
            moved += (double)bytes / (fake_is_cached(places[i], bytes) ? figures->cache / figures->port : 1);
        }
        /* What is not in the cache comes through the port. */
        if (moved / figures->port > operations / (full * uneven))
            return fake_issue_work(blas_stream, PORT, figures->launch, moved, figures->port);
        return fake_issue_work(blas_stream, OPERATIONS, figures->launch, operations, full * uneven);
    }
    return fake_issue_work(blas_stream, OPERATIONS, figures->launch, 2.0 * m * n * k * batch, m % 2 || n % 2 || k % 2 ? .7 * full : full);
}
