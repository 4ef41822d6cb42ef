/* The compiler's estimates in runs: whose they are, and how they are carried to another device. */
#include "sim/base/error.h"
#include "sim/experiment/experiment.h"
#include "tests/support/support.h"

#include <check.h>

/* A shipped program as one run. */
static EchResult *run_on(const char *trace, const char *device, const char *setting)
{
    g_autofree char *path = g_strconcat(ECH_SOURCE_DIR "/traces/", trace, NULL);
    const char *settings[] = {setting, NULL};
    const EchExperimentOverrides overrides = {.trace = path, .device = device, .engine = "native", .settings = setting ? settings : NULL};
    return ech_test_run(&overrides);
}

/* On the chip it was compiled for the estimates stand; on another, or with other settings, they are scaled, or replaced where the device's constants were
 * fitted to measured kernels; a GPU has a roofline of its own. */
START_TEST(whose_estimates)
{
    EchResult *own = run_on("mlp_none.v5e", "tpu-v5e", NULL), *other = run_on("mlp_none.v5e", "tpu-v5p", NULL),
              *fitted = run_on("mlp_none.v5e", "tpu-v6e", NULL), *slow = run_on("mlp_none.v5e", "tpu-v5e", "device.memories.hbm.read=x0.5"),
              *link = run_on("mlp_none.v5e", "tpu-v5e", "device.links.host.to_device=x0.5"), *gpu = run_on("mlp_none.v5e", "h100-sxm", NULL);
    ck_assert_uint_eq(link->run->provenance.kernels[ECH_PRICE_ESTIMATE], own->run->provenance.kernels[ECH_PRICE_ESTIMATE]);
    ck_assert_uint_gt(own->run->provenance.kernels[ECH_PRICE_ESTIMATE], 0);
    ck_assert_uint_eq(own->run->provenance.kernels[ECH_PRICE_ESTIMATE_SCALED], 0);
    ck_assert_uint_eq(other->run->provenance.kernels[ECH_PRICE_ESTIMATE], 0);
    ck_assert_uint_eq(other->run->provenance.kernels[ECH_PRICE_ESTIMATE_SCALED], own->run->provenance.kernels[ECH_PRICE_ESTIMATE]);
    ck_assert_uint_eq(fitted->run->provenance.kernels[ECH_PRICE_ESTIMATE_SCALED], 0);
    ck_assert_uint_ge(fitted->run->provenance.kernels[ECH_PRICE_MODEL], own->run->provenance.kernels[ECH_PRICE_ESTIMATE]);
    ck_assert_uint_gt(slow->run->provenance.kernels[ECH_PRICE_ESTIMATE_SCALED], 0);
    ck_assert_uint_eq(gpu->run->provenance.kernels[ECH_PRICE_ESTIMATE] + gpu->run->provenance.kernels[ECH_PRICE_ESTIMATE_SCALED], 0);
    ck_assert_uint_gt(gpu->run->provenance.kernels[ECH_PRICE_ROOFLINE], 0);
    ck_assert_int_lt(other->run->makespan, own->run->makespan);
    ck_assert_int_ge(slow->run->makespan, own->run->makespan);
    ck_assert_str_eq(ech_trace_get_property(other->trace, "estimates_scaled_from"), "tpu-v5e");
    ech_result_free(own);
    ech_result_free(other);
    ech_result_free(fitted);
    ech_result_free(slow);
    ech_result_free(link);
    ech_result_free(gpu);
}
END_TEST

/* No kernel of the shipped GPT steps is priced beyond belief: windows over whole rows are reductions. */
START_TEST(no_kernel_dwarfs_the_rest)
{
    static const char *const programs[] = {"gpt_offload.v5e", "gpt_nothing.v5e", "gpt_everything.v5e"};
    EchResult *result = run_on(programs[_i], "tpu-v5e", NULL);
    for (size_t i = 0; i < result->run->n_prices; i++)
        if (ech_trace_ops(result->trace)[i].kind == ECH_OP_KERNEL)
            ck_assert_int_lt(result->run->prices[i].alone, result->run->makespan / 10);
    ech_result_free(result);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("estimates");
    TCase *tests = tcase_create("estimates");
    tcase_add_test(tests, whose_estimates);
    tcase_add_loop_test(tests, no_kernel_dwarfs_the_rest, 0, 3);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
