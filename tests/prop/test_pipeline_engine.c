/* Both fidelities of the tile pipeline: the recurrence, and every activity on the engine. They agree to the picosecond. */
#include "models/kernel/pipeline.h"
#include "sim/experiment/pipeline_trace.h"
#include "sim/replay/replay.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST(engine_agrees)
{
    const guint32 seed = 20261122;
    printf("seed %u\n", seed);
    GRand *random = g_rand_new_with_seed(seed);
    GError *error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("tpu-v5e", NULL, &error);
    ck_assert_ptr_nonnull(device);
    for (unsigned i = 0; i < 60; i++) {
        EchPipelineProduct product = {.m = (uint64_t)g_rand_int_range(random, 1, 1500),
                                      .n = (uint64_t)g_rand_int_range(random, 1, 1500),
                                      .k = (uint64_t)g_rand_int_range(random, 1, 1500),
                                      .bits = 16,
                                      .out_bits = 16,
                                      .bm = 128u << g_rand_int_range(random, 0, 3),
                                      .bn = 128u << g_rand_int_range(random, 0, 3),
                                      .bk = 128u << g_rand_int_range(random, 0, 3),
                                      .buffers = (uint32_t)g_rand_int_range(random, 1, 5),
                                      .macs_per_second = g_rand_double_range(random, 1e12, 1e14),
                                      .step_overhead = g_rand_int_range(random, 0, 500000),
                                      .read = (EchRate)g_rand_int_range(random, 1, 2000) * 1000000000u,
                                      .write = (EchRate)g_rand_int_range(random, 1, 2000) * 1000000000u,
                                      .setup = g_rand_int_range(random, 0, 100000),
                                      .latency = g_rand_boolean(random) ? g_rand_int_range(random, 1, 1000000) : 0,
                                      .shared_port = g_rand_boolean(random)};
        EchPipelineOperand operands[3];
        EchPipeline pipeline;
        EchPipelineResult result;
        ech_pipeline_product(&product, operands, &pipeline);
        operands[0].lookahead = g_rand_boolean(random);
        ech_pipeline_run(&pipeline, &result);
        g_autoptr(EchTrace) trace = ech_pipeline_trace(&pipeline, &error);
        ck_assert_msg(trace != NULL, "%s", error ? error->message : "");
        EchReplayOptions options = {0};
        ech_params_defaults(ech_replay_params, &options);
        ck_assert(ech_params_parse(ech_replay_params, &options, "engine=native,kernel_time=recorded,overhead=false", &error));
        g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
        ech_params_clear(ech_replay_params, &options);
        ck_assert_msg(run != NULL, "%s", error ? error->message : "");
        ck_assert_msg(run->makespan == result.total, "case %u: engine %" G_GINT64_FORMAT ", recurrence %" G_GINT64_FORMAT, i, run->makespan, result.total);
    }
    g_rand_free(random);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pipeline on the engine");
    TCase *test = tcase_create("pipeline");
    tcase_set_timeout(test, 120);
    tcase_add_test(test, engine_agrees);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
