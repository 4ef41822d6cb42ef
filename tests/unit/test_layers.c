/* SCALE-Sim layers as kernels: priced by the kernel model on a TPU, padding included. */
#include "sim/experiment/experiment.h"
#include "sim/report/counters.h"
#include "sim/trace/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <unistd.h>

static EchResult *run_layers(const char *text, const char *device)
{
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "layers.csv", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    const EchExperimentOverrides overrides = {.trace = path, .device = device, .engine = "native"};
    EchResult *result = ech_test_run(&overrides);
    return result;
}

static EchTime time_of(const EchResult *result, unsigned kernel)
{
    for (size_t i = 0; i < result->run->n_prices; i++)
        if (ech_trace_ops(result->trace)[i].kind == ECH_OP_KERNEL && kernel-- == 0)
            return result->run->prices[i].alone;
    return 0;
}

START_TEST(priced_by_the_model)
{
    EchResult *tpu = run_layers("Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
                                "a, 56, 56, 3, 3, 64, 64, 1,\nb, 56, 56, 3, 3, 128, 128, 1,\nDPc, 56, 56, 3, 3, 64, 1, 1,\n",
                                "tpu-v5e");
    ck_assert_uint_eq(tpu->run->provenance.kernels[ECH_PRICE_MODEL], 2);
    ck_assert_uint_eq(tpu->run->provenance.kernels[ECH_PRICE_ROOFLINE], 1); /* depthwise: no product */
    ck_assert_int_gt(time_of(tpu, 1), time_of(tpu, 0));
    ck_assert_int_lt(time_of(tpu, 1), 4 * time_of(tpu, 0)); /* four times the work, but half of the lanes were idle */
    EchResult *gpu = run_layers("Layer, M, N, K,\nfc, 1024, 1024, 1024,\n", "h100-sxm");
    ck_assert_uint_eq(gpu->run->provenance.kernels[ECH_PRICE_ROOFLINE], 1);
    ech_result_free(tpu);
    ech_result_free(gpu);
}
END_TEST

/* Kept as a trace of ours they take as long. */
START_TEST(kept_as_a_trace)
{
    static const char text[] = "Layer, M, N, K,\nhalf, 16384, 64, 4096,\nfull, 16384, 128, 4096,\n";
    GError *error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text, &error);
    ck_assert_ok(import != NULL, error);
    g_autoptr(GString) kept = ech_trace_file_print(import->trace);
    EchResult *layers = run_layers(text, "tpu-v5e"), *again = run_layers(kept->str, "tpu-v5e");
    ck_assert_uint_eq(again->run->provenance.kernels[ECH_PRICE_MODEL], 2);
    ck_assert_int_eq(again->run->makespan, layers->run->makespan);
    ech_result_free(layers);
    ech_result_free(again);
}
END_TEST

/* A head dimension of 64 fills half of the columns of a matrix unit: as slow as one of 128. */
START_TEST(padding_counts)
{
    EchResult *heads = run_layers("Layer, M, N, K,\nhalf, 16384, 64, 4096,\nfull, 16384, 128, 4096,\ntwo, 16384, 256, 4096,\n", "tpu-v3");
    EchTime half = time_of(heads, 0), full = time_of(heads, 1), two = time_of(heads, 2);
    ck_assert_int_le(half, full);
    ck_assert_int_gt(half, full * 9 / 10);
    ck_assert_int_gt(two, full * 14 / 10);
    ech_result_free(heads);
}
END_TEST

/* On a chip whose weights stay in its array: 9 tiles of 64 KiB at 30 GiB/s, two of which come while the layer before is worked off. */
START_TEST(stationary_weights)
{
    EchResult *layers = run_layers("Layer, M, N, K,\nfirst, 96, 600, 600,\nsecond, 96, 600, 600,\nlong, 4096, 256, 256,\n", "tpu-v1");
    ck_assert_uint_eq(layers->run->provenance.kernels[ECH_PRICE_MODEL], 3);
    EchTime tile = 65536 * INT64_C(1000000000000) / (INT64_C(30) << 30), first = time_of(layers, 0), second = time_of(layers, 1);
    ck_assert_int_gt(first, 9 * tile);
    ck_assert_int_lt(first, 9 * tile + tile);
    ck_assert_int_gt(second, 8 * tile);
    ck_assert_int_lt(second, 9 * tile + tile / 10);
    ck_assert_int_gt(time_of(layers, 2), INT64_C(4096) * 1000000 / 700); /* a row a cycle */
    EchReport report = ech_result_report(layers);
    EchStationaryCounters counters;
    double clock;
    ck_assert(ech_report_counters(&report, &counters, &clock));
    ck_assert_double_eq_tol(counters.cycles / clock * 1e12, (double)layers->run->makespan, 1e12 / clock);
    ech_result_free(layers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layers");
    TCase *tests = tcase_create("layers");
    tcase_add_test(tests, priced_by_the_model);
    tcase_add_test(tests, kept_as_a_trace);
    tcase_add_test(tests, padding_counts);
    tcase_add_test(tests, stationary_weights);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
