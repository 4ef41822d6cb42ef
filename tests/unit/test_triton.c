/* Pallas kernels for GPUs, read from their own code: JAX's causal attention as XLA was given it. */
#include "sim/program/triton.h"
#include "sim/experiment/experiment.h"
#include "tests/support/support.h"

#define ATTENTION ECH_SOURCE_DIR "/traces/triton_attention.h100"

/* Two sequences, eight heads, 4096 long in blocks of 128, 128 wide. */
enum { HEADS = 2 * 8, BLOCKS = 32, BLOCK = 128, WIDTH = 128 };

START_TEST(work_of_causal_attention)
{
    g_autoptr(EchImport) import = ech_test_import(ATTENTION, NULL);
    const EchProgram *p = import->program;
    unsigned found = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchKernelGrid *grid = ech_program_grid(p, (EchId)k);
        if (!grid)
            continue;
        found++;
        ck_assert(!grid->assumed);
        ck_assert_double_eq(grid->steps, HEADS * BLOCKS);
        /* Scores and their sum of values, up to the diagonal. */
        double pairs = HEADS * (BLOCKS * (BLOCKS + 1) / 2.0) * BLOCK * BLOCK;
        ck_assert_double_eq(grid->operations, pairs * WIDTH * 2 * 2);
        ck_assert_uint_eq(ech_program_work(p, (EchId)k).matrix, (uint64_t)grid->operations);
        ck_assert_double_gt(grid->transcendental * 1024, pairs); /* an exponential each */
        ck_assert_double_lt(grid->transcendental * 1024, pairs * 1.1);
    }
    ck_assert_uint_eq(found, 1);
}
END_TEST

/* Code that is cut off or changed anywhere is refused, or read as something. */
START_TEST(broken_code)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/mosaic/triton", NULL), *code = NULL;
    gsize n;
    GError *error = NULL;
    ck_assert_ok(g_file_get_contents(path, &code, &n, &error), error);
    const uint64_t grid[3] = {2, 1, 1};
    EchTritonWork work;
    ck_assert_ok(ech_triton_read((const uint8_t *)code, n, grid, &work, &error), error);
    for (gsize cut = 0; cut < n; cut++) {
        ck_assert(!ech_triton_read((const uint8_t *)code, cut, grid, &work, &error));
        ck_assert_ptr_nonnull(error);
        g_clear_error(&error);
    }
    for (gsize at = 0; at < n; at++) {
        code[at] ^= 0x15;
        if (!ech_triton_read((const uint8_t *)code, n, grid, &work, &error))
            ck_assert_ptr_nonnull(error);
        g_clear_error(&error);
        code[at] ^= 0x15;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("triton");
    TCase *tcase = tcase_create("triton");
    tcase_add_test(tcase, work_of_causal_attention);
    tcase_add_test(tcase, broken_code);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
