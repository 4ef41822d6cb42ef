/* Advice on layouts: what padding costs, the cheapest order, GPU alignment, tiles and waves. */
#include "models/layout/advice.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* On a v5e. */
static EchLayoutAdvice advise(const char *text)
{
    EchLayout layout;
    GError *error = NULL;
    ck_assert_ok(ech_layout_parse(text, strlen(text), &layout, NULL, &error), error);
    if (layout.n_tiles == 0)
        ech_layout_choose_tiles(&layout, 5);
    EchLayoutAdvice advice;
    ech_layout_advise(&layout, ECH_LAYOUT_TPU, 5, &advice);
    return advice;
}

START_TEST(dimensions)
{
    EchLayoutAdvice advice = advise("bf16[8,1024,16,64]{3,2,1,0:T(8,128)(2,1)}");
    ck_assert_uint_eq(advice.dense, 16777216);
    ck_assert_uint_eq(advice.padded, 33554432);
    ck_assert_uint_eq(advice.dims[3].padded, 128);
    ck_assert_uint_eq(advice.dims[3].lost, 16777216);
    ck_assert_uint_eq(advice.dims[2].lost, 0);
    ck_assert(advice.has_better);
    ck_assert_uint_eq(advice.better_bytes, 16777216);
    advice = advise("f32[1024,1]");
    ck_assert_uint_eq(advice.padded, 524288);
    ck_assert_uint_eq(advice.better_bytes, 4096);
    ck_assert_uint_eq(advice.better.order[0], 0);
    advice = advise("f32[8,128]{1,0:T(8,128)}");
    ck_assert(!advice.has_better);
    ck_assert_double_eq(advice.waste, 0);
}
END_TEST

START_TEST(generations)
{
    ck_assert_uint_eq(ech_layout_generation("v5e"), 5);
    ck_assert_uint_eq(ech_layout_generation("tpu7x"), 7);
    ck_assert_uint_eq(ech_layout_generation("tpu-v3"), 3);
    ck_assert_uint_eq(ech_layout_generation("h100"), 0);
    ck_assert_uint_eq(ech_layout_generation(""), 0);
}
END_TEST

START_TEST(gpu)
{
    EchGpuAlignment alignment = ech_gpu_alignment(64, 16);
    ck_assert(alignment.usable && alignment.best);
    alignment = ech_gpu_alignment(1000, 16);
    ck_assert(alignment.usable && !alignment.best);
    ck_assert_uint_eq(alignment.next_best, 1024);
    ck_assert_uint_eq(ech_gpu_alignment(1ull << 60, 32).row_bytes, 1ull << 62);
    ck_assert_uint_eq(ech_gpu_alignment(9, 4).row_bytes, 4);
    alignment = ech_gpu_alignment(1001, 16);
    ck_assert(!alignment.usable);
    ck_assert_uint_eq(alignment.next_usable, 1008);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("advice");
    TCase *test = tcase_create("advice");
    tcase_add_test(test, dimensions);
    tcase_add_test(test, generations);
    tcase_add_test(test, gpu);
    suite_add_tcase(suite, test);
    return ech_test_main(suite);
}
