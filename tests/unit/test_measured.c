/* Measured kernels of a device file: their points exactly, between and beyond them by the rules of measured.h, and what-ifs on top of them. */
#include "models/device/device_yaml.h"
#include "models/kernel/measured.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>

static const char base[] = "name: m\nsummary: m\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, capacity: 8GiB, read: 1000GB/s, write: 1000GB/s}\nunits:\n  "
                           "vector: {count: 1, clock: 1000000000, peaks: {f32: 1TOP/s}}\n";
static const char numbers[] = "kernel:\n  products:\n    bf16: {1024x1024: 0.5, 1024x4096: 0.8, 4096x1024: 0.6, 4096x4096: 0.9}\n"
                              "    f16: {4096x512: 0.4, 512x512: 0.2, 1024x512: 0.3}\n"
                              "  products_odd:\n    bf16: {1023x1023: 0.25}\n    f32: {128x128: 0.5, 256x256: 0.5}\n"
                              "  stream_extra: {1MiB: 2us, 16MiB: 5us}\n";

static EchDevice *load(const char *more)
{
    g_autofree char *text = g_strconcat(base, more, NULL);
    return ech_test_device_yaml(text);
}

START_TEST(products_by_shape)
{
    g_autoptr(EchDevice) device = load(numbers);
    g_autoptr(EchMeasured) measured = ech_measured_new(device);
    ck_assert_ptr_nonnull(measured);
    /* The points. */
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 1024, 1024, 1024, 1), 0.5, 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 4096, 4096, 1024, 1), 0.6, 1e-9);
    /* Half-way by logarithms: the geometric mean. An oblong, or a batch, counts by its area. */
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 1024, 1024, 2048, 1), sqrt(0.5 * 0.8), 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 1024, 4096, 1024, 1), sqrt(0.5 * 0.6), 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 1024, 1024, 1024, 4), sqrt(0.5 * 0.6), 1e-9);
    /* Larger: the share stays. Smaller: the time does. */
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 16384, 16384, 16384, 1), 0.9, 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 512, 512, 512, 1), 0.5 / 8, 1e-9);
    /* Of several steps, in whatever order they stand, those on both sides. */
    ck_assert_double_eq_tol(ech_measured_product(measured, "f16", 512, 512, 512, 1), 0.2, 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "f16", 512, 1024, 512, 1), sqrt(0.2 * 0.3), 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "f16", 1024, 1024, 4096, 1), 0.3, 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "f16", 2048, 2048, 512, 1), sqrt(0.3 * 0.4), 1e-9);
    ck_assert_double_eq_tol(ech_measured_product(measured, "f16", 4096, 4096, 512, 1), 0.4, 1e-9);
    /* Sides that are no multiples of 8 have a table of their own. */
    ck_assert_double_ge(ech_measured_product(measured, "bf16", 1032, 1032, 1032, 1), 0.5);
    ck_assert_double_eq_tol(ech_measured_product(measured, "bf16", 1023, 1023, 1023, 1), 0.25, 1e-9);
    /* A table with holes is none, and neither is one of another type. */
    ck_assert_double_eq(ech_measured_product(measured, "f32", 128, 128, 128, 1), 0);
    ck_assert_double_eq(ech_measured_product(measured, "s8", 128, 128, 128, 1), 0);
    ck_assert_double_eq(ech_measured_product(NULL, "bf16", 128, 128, 128, 1), 0);
}
END_TEST

START_TEST(streams_by_size)
{
    g_autoptr(EchDevice) device = load(numbers), bare = load("");
    g_autoptr(EchMeasured) measured = ech_measured_new(device);
    ck_assert_int_eq(ech_measured_stream_extra(measured, 1 << 20), 2000000);
    ck_assert_int_eq(ech_measured_stream_extra(measured, 1 << 10), 2000000);
    ck_assert_int_eq(ech_measured_stream_extra(measured, (EchBytes)17 << 19), 3500000);
    ck_assert_int_eq(ech_measured_stream_extra(measured, (EchBytes)1 << 40), 5000000);
    ck_assert_int_eq(ech_measured_stream_extra(measured, 0), 0);
    ck_assert_ptr_null(ech_measured_new(bare));
    ck_assert_int_eq(ech_measured_stream_extra(NULL, 1 << 20), 0);
}
END_TEST

/* The same size in other words. */
START_TEST(a_size_given_twice)
{
    g_autoptr(EchDevice) device = load("kernel: {stream_extra: {1MiB: 2us, 1024KiB: 2us}}\n");
    g_autoptr(EchMeasured) measured = ech_measured_new(device);
    ck_assert_int_eq(ech_measured_stream_extra(measured, 1 << 20), 2000000);
}
END_TEST

/* All of the time or nothing; where power begins to bind, 1.1 to 2.5 = 1.27 times the limit: at 79 % of the time. */
START_TEST(products_that_rest_run_faster)
{
    static const struct {
        double burst, duty, rate;
    } known[] = {{1.1, 0, 1.1}, {1.1, 0.05, 1.1}, {1.1, 0.78, 1.1}, {1.1, 0.9, 1.0430}, {1.1, 1, 1}, {0.98, 0.1, 1}, {1.3, 0.6, 1.2267}};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        double rate = ech_measured_duty_rate(NULL, known[i].burst, known[i].duty);
        ck_assert_msg(fabs(rate - known[i].rate) < 1e-4, "%g of the time: %g, expected %g", known[i].duty, rate, known[i].rate);
    }
}
END_TEST

/* As measured between rests, where all three were: the points, lines between them and to all of the time, the law below. */
START_TEST(products_that_rest_run_as_measured)
{
    g_autoptr(EchDevice) device = load("kernel:\n  duty_rates: {50: 1.2, 70: 1.18, 85: 1.1}\n"), holes = load("kernel:\n  duty_rates: {50: 1.2, 85: 1.1}\n");
    static const struct {
        double burst, duty, rate;
    } known[] = {{1.3, 0, 1.3},     {1.3, 0.5, 1.2}, {1.3, 0.6, 1.19},  {1.3, 0.7, 1.18}, {1.3, 0.85, 1.1},
                 {1.3, 0.94, 1.04}, {1.3, 1, 1},     {1.15, 0.7, 1.15}, {1.3, 0.25, 1.3}, {2, 0.25, 1.5834}};
    ck_assert(ech_measured_has_duty_rates(device) && !ech_measured_has_duty_rates(holes));
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        double rate = ech_measured_duty_rate(device, known[i].burst, known[i].duty);
        ck_assert_msg(fabs(rate - known[i].rate) < 1e-4, "%g of the time: %g, expected %g", known[i].duty, rate, known[i].rate);
        ck_assert_double_eq(ech_measured_duty_rate(holes, known[i].burst, known[i].duty), ech_measured_duty_rate(NULL, known[i].burst, known[i].duty));
    }
}
END_TEST

/* What draws less power is worth less of the duty: at a burst of 1 as much as keeps just below the limit. */
START_TEST(cooler_products_count_for_less)
{
    g_autoptr(EchDevice) bare = load(""), told = load("kernel:\n  burst_share: 1.1\n  bursts: {bf16: 1.1, f32: 1.03}\n  bursts_odd: {bf16: 0.99}\n");
    ck_assert_double_eq(ech_measured_duty_weight(1.1, 1.1), 1);
    ck_assert_double_eq_tol(ech_measured_duty_weight(1.1, 1), 0.788, 1e-3);
    ck_assert_double_eq(ech_measured_duty_weight(0.9, 0.9), 1);
    ck_assert_double_eq(ech_measured_burst(bare, "bf16", false), 1);
    ck_assert_double_eq(ech_measured_burst(told, "bf16", false), 1.1);
    ck_assert_double_eq(ech_measured_burst(told, "f32", false), 1.03);
    ck_assert_double_eq(ech_measured_burst(told, "f16", false), 1.1); /* Nothing said of it: as bf16 */
    ck_assert_double_eq(ech_measured_burst(told, "bf16", true), 1);
    ck_assert_double_eq(ech_measured_burst(told, "f32", true), 1);
}
END_TEST

/* What the largest reach of the burst of smaller ones, which was measured; those that power does not hold back, of the rate of all of the time. */
START_TEST(the_largest_products_have_a_burst_of_their_own)
{
    g_autoptr(EchDevice) told = load("kernel:\n  burst_share: 1.25\n  products:\n    bf16: {1024x1024: 0.5, 2048x1024: 0.96}\n"),
                         low = load("kernel:\n  burst_share: 1.25\n  products:\n    bf16: {1024x1024: 0.7}\n");
    g_autoptr(EchMeasured) measured = ech_measured_new(told), lower = ech_measured_new(low);
    double operations = 2.0 * 2048 * 2048 * 1024;
    ck_assert_double_eq_tol(ech_measured_largest_burst(measured, told, operations - 1), 1.2, 1e-9);
    ck_assert_double_eq_tol(ech_measured_largest_burst(measured, told, operations), 1, 1e-9);
    ck_assert_double_eq(ech_measured_largest_burst(NULL, told, 0), 1.25);
    ck_assert_double_eq(ech_measured_largest_burst(lower, low, 0), 1);
}
END_TEST

/* A GPU that looks far back sees the mean, one that does not what runs. */
START_TEST(heat_fades)
{
    ck_assert_double_eq_tol(ech_measured_heat(1e9, 20, 50), 0.4, 1e-6);
    ck_assert_double_eq_tol(ech_measured_heat(0, 20, 50), 0.4, 1e-12);
    ck_assert_double_eq_tol(ech_measured_heat(1e-3, 20, 50), 1, 1e-3);
    ck_assert_double_eq_tol(ech_measured_heat(7, 20, 20), 1, 1e-12);
    ck_assert_double_eq(ech_measured_heat(7, 0, 20), 0);
    /* Step by step: on for 20 of every 50, a constant of 10. */
    double level = 0, sum = 0;
    for (unsigned i = 0; i < 1000000; i++) {
        bool on = i % 50000 < 20000, last = i >= 950000;
        level += ((on ? 1 : 0) - level) * 1e-3 / 10;
        sum += on && last ? level : 0;
    }
    ck_assert_double_eq_tol(ech_measured_heat(10, 20, 50), sum / 20000, 1e-3);
    /* At 1.1 half of the burst is lost where the load has come to 0.89 of what is seen in the end. */
    double constant = ech_measured_heat_constant(1.1, 20);
    ck_assert_double_eq_tol(pow((1.1 + 1) / 2, -2.5), 1 - exp(-20 / constant), 1e-9);
    ck_assert_double_eq(ech_measured_heat_constant(1, 20), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("measured");
    TCase *tests = tcase_create("measured");
    tcase_add_test(tests, products_by_shape);
    tcase_add_test(tests, streams_by_size);
    tcase_add_test(tests, a_size_given_twice);
    tcase_add_test(tests, products_that_rest_run_faster);
    tcase_add_test(tests, products_that_rest_run_as_measured);
    tcase_add_test(tests, cooler_products_count_for_less);
    tcase_add_test(tests, the_largest_products_have_a_burst_of_their_own);
    tcase_add_test(tests, heat_fades);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
