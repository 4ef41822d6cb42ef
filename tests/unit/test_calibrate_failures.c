/* Calibration over the fake driver where something fails or is not there: nothing is kept, and what can be done without leaves a whole file. */
#include "sim/base/error.h"
#include "sim/experiment/calibrate.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static EchFakeCuda fake;

/* The kernels' own PTX, from the parameters that calibration gives them, touches nothing but its buffers. */
START_TEST(kernels_stay_within_buffers)
{
    fake = ech_test_fake_cuda("67108864");
    g_setenv("ECH_FAKE_CUDA_PTX", "1000", TRUE);
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_str_eq(c->failures, "");
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

/* Whatever call fails, nothing is kept; a file comes of it where it can do without, and loads. The calls of a loop are alike: all of the first, then
 * some of all parts. */
START_TEST(every_call_fails_cleanly)
{
    fake = ech_test_fake_cuda("16777216");
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    fake.reset();
    g_autoptr(EchCalibration) whole = ech_calibrate(0, NULL, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(whole);
    long n = fake.calls();
    ck_assert_int_gt(n, 2000);
    for (long i = 1; i <= n; i += i < 20 ? 1 : n / 15) {
        g_autofree char *number = g_strdup_printf("%ld", i);
        g_setenv("ECH_FAKE_CUDA_FAIL", number, TRUE);
        fake.reset();
        g_autoptr(GError) error = NULL;
        g_autoptr(EchCalibration) c = ech_calibrate(0, NULL, NULL, NULL, &error);
        g_unsetenv("ECH_FAKE_CUDA_FAIL");
        ck_assert((c == NULL) == (error != NULL));
        ck_assert_ok(!error || g_error_matches(error, ECH_ERROR, ECH_ERROR_BACKEND), error);
        ck_assert_msg(fake.held() == 0, "call %ld of %ld failed and left %ld things held", i, n, fake.held());
        /* What can be done without leaves a file that is whole without it. */
        g_autofree char *yaml = c ? ech_calibration_yaml(c, "fake", "2026-11-25", &error) : NULL;
        ck_assert_msg(!c || yaml, "call %ld of %ld failed: %s", i, n, error ? error->message : "");
    }
}
END_TEST

static void note_step(unsigned done, unsigned total, const char *what, void *data)
{
    (void)done, (void)total;
    if (what)
        *(const char **)data = what;
}

/* A kernel that fails takes all of the context with it: the step it failed in is told, for the next try to leave out, not one that came after it. */
START_TEST(a_lost_context_is_told_of_its_step)
{
    fake = ech_test_fake_cuda("16777216");
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    g_autoptr(GHashTable) blamed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (unsigned i = 100; i < 12000; i += 197) {
        g_autofree char *number = g_strdup_printf("%u", i);
        const char *step = NULL;
        g_setenv("ECH_FAKE_CUDA_FAULT", number, TRUE);
        fake.reset();
        g_autoptr(GError) error = NULL;
        g_autoptr(EchCalibration) c = ech_calibrate(0, NULL, note_step, &step, &error);
        ck_assert((c == NULL) == (error != NULL));
        if (c)
            break;
        ck_assert_msg(step && g_str_has_prefix(error->message, step), "in '%s': %s", step, error->message);
        g_hash_table_add(blamed, g_strdup(step));
        ck_assert_int_eq(fake.held(), 0);
    }
    /* Of those that a file can do without. */
    ck_assert(g_hash_table_contains(blamed, "graphs") || g_hash_table_contains(blamed, "queues that wait"));
    ck_assert(g_hash_table_contains(blamed, "streaming kernels"));
    g_unsetenv("ECH_FAKE_CUDA_FAULT");
    fake.reset();
}
END_TEST

/* Where little can be pinned copies are measured up to that. */
START_TEST(little_is_pinned_where_more_is_refused)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    fake = ech_test_fake_cuda("134217728");
    g_setenv("ECH_FAKE_CUDA_PINNED", "10000000", TRUE);
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_uint_eq(c->pinned[0].bytes[c->pinned[0].n - 1], 8 << 20);
    ck_assert_double_eq_tol(c->pinned[0].rate, 20e9, 20e6);
    ck_assert_int_eq(fake.held(), 0);
}
END_TEST

START_TEST(without_cublas_the_file_is_whole)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    fake = ech_test_fake_cuda("16777216");
    g_setenv("ECHELON_LIBCUBLAS", "", TRUE);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_int_eq(c->blas_version, 0);
    g_autofree char *yaml = ech_calibration_yaml(c, "bare", "2026-01-02", &error);
    ck_assert_ok(yaml != NULL, error);
    ck_assert_ptr_nonnull(strstr(yaml, "mma.sync without cuBLAS"));
}
END_TEST

START_TEST(without_a_gpu_it_says_so)
{
    g_setenv("ECHELON_LIBCUDA", "/nonexistent/libcuda.so.1", TRUE);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_calibrate(0, NULL, NULL, NULL, &error));
    ck_assert(g_str_has_prefix(error->message, "no NVIDIA driver here: "));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibrate_failures");
    TCase *tests = tcase_create("calibrate_failures");
    tcase_add_test(tests, kernels_stay_within_buffers);
    tcase_add_test(tests, every_call_fails_cleanly);
    tcase_add_test(tests, a_lost_context_is_told_of_its_step);
    tcase_add_test(tests, little_is_pinned_where_more_is_refused);
    tcase_add_test(tests, without_cublas_the_file_is_whole);
    tcase_add_test(tests, without_a_gpu_it_says_so);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
