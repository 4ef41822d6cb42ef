/* Which bytes of what is used were used shortly before. */
#include "sim/import/reuse.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static EchReuse *reuse;

/* What of the range was used before, with at most as many bytes since as each limit says: "0 0 2 2 2 2", in MiB. */
static const char *take(uint64_t from, uint64_t to, bool written)
{
    static char text[120];
    uint64_t near[ECH_GPU_NEAR] = {0};
    ech_reuse_take(reuse, from * MIB, (to - from) * MIB, written, near);
    for (size_t i = 0, at = 0; i < ECH_GPU_NEAR; i++)
        at += (size_t)g_snprintf(text + at, (gulong)(sizeof text - at), "%s%" G_GUINT64_FORMAT, i > 0 ? " " : "", near[i] / MIB);
    return text;
}

static void setup(void)
{
    reuse = ech_reuse_new();
}

static void teardown(void)
{
    ech_reuse_free(reuse);
}

/* Limits are 4, 8, ... 128 MiB. */
START_TEST(distances)
{
    ck_assert_uint_eq(ech_gpu_near_limit(0), 4 * MIB);
    ck_assert_uint_eq(ech_gpu_near_limit(ECH_GPU_NEAR - 1), ECH_GPU_NEAR_MOST);
    ck_assert_str_eq(take(0, 2, false), "0 0 0 0 0 0");
    ck_assert_str_eq(take(0, 2, false), "2 2 2 2 2 2");
    (void)take(100, 106, false);
    ck_assert_str_eq(take(0, 2, false), "0 2 2 2 2 2"); /* 6 since */
    (void)take(100, 106, false);
    (void)take(100, 106, false); /* each byte counts once */
    ck_assert_str_eq(take(0, 2, false), "0 2 2 2 2 2");
    (void)take(200, 329, false);
    ck_assert_str_eq(take(0, 2, false), "0 0 0 0 0 0"); /* 129 since */
}
END_TEST

/* A use of a part leaves the rest where it was; one over several finds each where it was. */
START_TEST(parts)
{
    (void)take(0, 10, false);
    (void)take(100, 105, false);
    ck_assert_str_eq(take(4, 6, false), "0 0 2 2 2 2");      /* behind 5, and in a range of 10 */
    ck_assert_str_eq(take(0, 4, false), "0 0 4 4 4 4");      /* behind 2, 5 and the 4 that are left above it */
    ck_assert_str_eq(take(2, 12, false), "2 4 8 8 8 8");     /* 2 of the newest, of 4; 2 behind that; 4 behind 5 more; and 2 never */
    ck_assert_str_eq(take(0, 20, false), "0 0 12 12 12 12"); /* the newest, of 10, and 2 behind that */
}
END_TEST

/* What is written was near only where it had been written: a cache writes it back once. Reading does not change that. */
START_TEST(writes)
{
    (void)take(0, 2, false);
    ck_assert_str_eq(take(0, 2, true), "0 0 0 0 0 0");
    ck_assert_str_eq(take(0, 2, true), "2 2 2 2 2 2");
    ck_assert_str_eq(take(0, 2, false), "2 2 2 2 2 2");
    ck_assert_str_eq(take(0, 2, true), "2 2 2 2 2 2");
    (void)take(0, 8, false); /* a quarter of it was written */
    ck_assert_str_eq(take(0, 2, true), "0 0 0 0 0 0");
}
END_TEST

/* However small the pieces, and wherever they lie. */
START_TEST(many_pieces)
{
    uint64_t near[ECH_GPU_NEAR] = {0};
    for (uint64_t i = 0; i < 5000; i++)
        ech_reuse_take(reuse, i * 64, 32, false, near);
    ck_assert_uint_eq(near[ECH_GPU_NEAR - 1], 0);
    for (uint64_t i = 4500; i < 5000; i++)
        ech_reuse_take(reuse, i * 64 + 8, 8, true, near); /* parts each in three */
    ech_reuse_take(reuse, 4999 * 64, 32, false, near);
    ck_assert_uint_eq(near[ECH_GPU_NEAR - 1], 32);
    ech_reuse_take(reuse, 0, 32, false, near); /* forgotten */
    ech_reuse_take(reuse, UINT64_MAX - 10, UINT64_MAX, false, near);
    ech_reuse_take(reuse, 7, 0, false, near);
    ck_assert_uint_eq(near[ECH_GPU_NEAR - 1], 32);
    ech_reuse_take(reuse, UINT64_MAX - 20, 15, true, near);
    ck_assert_uint_eq(near[ECH_GPU_NEAR - 1], 32);
    ech_reuse_take(reuse, UINT64_MAX - 20, 15, true, near);
    ck_assert_uint_eq(near[ECH_GPU_NEAR - 1], 47);
}
END_TEST

/* What of it L2 has: what was used three quarters of a limit ago, less the more of L2 that is. */
START_TEST(found_in_l2)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL); /* 50 MiB */
    EchGpuLaunch launch;
    ck_assert(ech_gpu_launch_parse("grid=8x1x1 block=128x1x1 near=1048576x1048576x1048576x1048576x3145728x4194304", &launch));
    ck_assert_uint_eq(launch.near[4], 3 * MIB);
    ck_assert_double_eq_tol((double)ech_gpu_near_bytes(&launch, device, 10 * MIB) / MIB, (1 - 3.0 / 50) + 2 * (1 - 48.0 / 50), 0.001);
    ck_assert_double_eq_tol((double)ech_gpu_near_bytes(&launch, device, MIB / 2) / MIB, (1 - 3.0 / 50) / 2, 0.001); /* no more than it moves */
    g_autoptr(GString) text = g_string_new(NULL);
    ech_gpu_launch_print(&launch, text);
    ck_assert_str_eq(text->str, "grid=8x1x1 block=128x1x1 near=1048576x1048576x1048576x1048576x3145728x4194304");
    memset(launch.near, 0, sizeof launch.near);
    ck_assert_uint_eq(ech_gpu_near_bytes(&launch, device, 10 * MIB), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reuse");
    TCase *tests = tcase_create("reuse");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, distances);
    tcase_add_test(tests, parts);
    tcase_add_test(tests, writes);
    tcase_add_test(tests, many_pieces);
    tcase_add_test(tests, found_in_l2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
