/* Both fidelities of the tile pipeline: the recurrence, and every activity on the engine. They agree to the picosecond. */
#include "models/kernel/pipeline.h"
#include "models/device/device_yaml.h"
#include "sim/experiment/product.h"
#include "sim/replay/replay.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* As many copies of one array can be under way as it has buffers; each lands on a queue of its own. */
static uint32_t landings_of(const EchPipeline *pipeline, uint32_t operand)
{
    uint32_t buffers = pipeline->operands[operand].buffers;
    return (buffers > 0 ? buffers : 2) + 1;
}

/* Every copy and every compute an op of its own with its duration as recorded time; a copy's latency is an op behind it on a queue of its own. */
static EchTrace *trace_of(const EchPipeline *pipeline, GError **error)
{
    g_autoptr(EchPipelineExpansion) expansion = ech_pipeline_expand(pipeline, error);
    if (expansion == NULL)
        return NULL;
    static const char *const names[] = {"compute", "copy in", "copy out"}, *const queue_names[] = {"core", "copies in", "copies out"};
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("pipeline");
    EchId queues[3], strings[3];
    for (unsigned i = 0; i < 3; i++) {
        queues[i] = ech_trace_builder_queue(builder, queue_names[i], i == 0 ? ECH_QUEUE_COMPUTE : ECH_QUEUE_COPY, 0);
        strings[i] = ech_trace_builder_string(builder, names[i], -1);
    }
    EchId landing = ech_trace_builder_string(builder, "landing", -1);
    g_autofree EchId *ends = g_new(EchId, MAX(expansion->n_activities, 1));
    uint32_t landed[ECH_PIPELINE_MAX_OPERANDS] = {0};
    for (size_t i = 0; i < expansion->n_activities; i++) {
        const EchPipelineActivity *activity = &expansion->activities[i];
        EchOp op = ech_op_init(ECH_OP_KERNEL);
        op.name = strings[activity->kind];
        op.queue = queues[activity->queue];
        op.recorded.duration = activity->duration;
        ends[i] = ech_trace_builder_op(builder, op);
        for (uint32_t d = 0; d < activity->n_dependencies; d++)
            ech_trace_builder_dep(builder, ends[expansion->dependencies[activity->first_dependency + d]], 0);
        if (activity->tail > 0) {
            g_autofree char *queue =
                g_strdup_printf("landing %u.%u", activity->operand, landed[activity->operand]++ % landings_of(pipeline, activity->operand));
            EchOp tail = ech_op_init(ECH_OP_KERNEL);
            tail.name = landing;
            tail.queue = ech_trace_builder_queue(builder, queue, ECH_QUEUE_COPY, 0);
            tail.recorded.duration = activity->tail;
            EchId copy = ends[i];
            ends[i] = ech_trace_builder_op(builder, tail);
            ech_trace_builder_dep(builder, copy, 0);
        }
    }
    return ech_trace_builder_finish(builder, error);
}

START_TEST(engine_agrees)
{
    GRand *random = g_rand_new_with_seed((guint32)ech_test_seed_of(20261122));
    GError *error = NULL;
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
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
        g_autoptr(EchTrace) trace = trace_of(&pipeline, &error);
        ck_assert_ok(trace != NULL, error);
        EchReplayOptions options = {0};
        ech_params_defaults(ech_replay_params, &options);
        ck_assert(ech_params_parse(ech_replay_params, &options, "engine=native,kernel_time=recorded,overhead=false", &error));
        g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
        ech_params_clear(ech_replay_params, &options);
        ck_assert_ok(run != NULL, error);
        ck_assert_msg(run->makespan == result.total, "case %u: engine %" G_GINT64_FORMAT ", recurrence %" G_GINT64_FORMAT, i, run->makespan, result.total);
    }
    g_rand_free(random);
}
END_TEST

/* A product as a workload of an experiment, priced by the device: its schedule evaluated directly, which the report's stalls come from, says the same as
 * the engine. Rates make whole picoseconds, as the engine's clock is finer than that. */
START_TEST(workload_agrees)
{
    GRand *random = g_rand_new_with_seed((guint32)ech_test_seed_of(20261123));
    for (unsigned i = 0; i < 60; i++) {
        static const char *const rates[] = {"125GB/s", "500GB/s", "1TB/s", "2TB/s"}, *const types[] = {"bf16", "f32", "s8"};
        g_autofree char *text = g_strdup_printf(
            "name: t\nfamily: tpu\ncompiler: v%s\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 16GiB, read: %s, write: %s, latency: %dps}\n"
            "  vector: {kind: vector, space: 1, capacity: 1GiB, read: 1000000GB/s, write: 1000000GB/s}\n"
            "  host: {kind: host-pinned, space: 5, capacity: 64GiB}\n"
            "units:\n  matrix: {rows: 128, columns: 128, clock: 1GHz, peaks: {bf16: 1TFLOP/s, f32: 1TFLOP/s, s8: 1TOP/s}}\n"
            "runtime: {grid_step_ps: %dps}\n",
            g_rand_boolean(random) ? "5e" : "6e", rates[g_rand_int_range(random, 0, 4)], rates[g_rand_int_range(random, 0, 4)],
            g_rand_boolean(random) ? g_rand_int_range(random, 1, 1000000) : 0, g_rand_int_range(random, 0, 500000));
        GError *error = NULL;
        g_autoptr(EchYamlNode) root = ech_yaml_parse(text, strlen(text), "d.yaml", &error);
        g_autoptr(EchDevice) device = root ? ech_device_load_yaml(root, NULL, &error) : NULL;
        ck_assert_ok(device != NULL, error);
        g_autofree char *spec =
            g_strdup_printf("m=%d,n=%d,k=%d,block_m=%d,block_n=%d,block_k=%d,buffers=%u,dtype=%s", g_rand_int_range(random, 1, 1000),
                            g_rand_int_range(random, 1, 1000), g_rand_int_range(random, 1, 1000), 128 << g_rand_int_range(random, 0, 3),
                            128 << g_rand_int_range(random, 0, 3), 128 << g_rand_int_range(random, 0, 3), i % 5 + 1, types[g_rand_int_range(random, 0, 3)]);
        EchProductOptions product = {0};
        ech_params_defaults(ech_product_params, &product);
        ck_assert(ech_params_parse(ech_product_params, &product, spec, &error));
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTrace) trace = ech_product_trace(&product, device, diag, &error);
        ech_params_clear(ech_product_params, &product);
        ck_assert_ok(trace != NULL, error);
        EchReplayOptions options = {0};
        ech_params_defaults(ech_replay_params, &options);
        ck_assert(ech_params_parse(ech_replay_params, &options, "engine=native", &error));
        g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
        ech_params_clear(ech_replay_params, &options);
        ck_assert_ok(run != NULL, error);
        const char *recurrence = ech_trace_get_property(trace, "recurrence_ps");
        ck_assert_ptr_nonnull(recurrence);
        ck_assert_msg(run->makespan == g_ascii_strtoll(recurrence, NULL, 10), "case %u, %s: engine %" G_GINT64_FORMAT ", recurrence %s", i, spec, run->makespan,
                      recurrence);
    }
    g_rand_free(random);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("pipeline on the engine");
    TCase *test = tcase_create("pipeline");
    tcase_add_test(test, engine_agrees);
    tcase_add_test(test, workload_agrees);
    suite_add_tcase(suite, test);
    return ech_test_main(suite);
}
