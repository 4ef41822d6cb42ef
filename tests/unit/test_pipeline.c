/* The tile pipeline: hand-made schedules, the closed form, published numbers, and both fidelities against each other. */
#include "tests/pallas_table.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

static EchPipelineOperand stream(bool output, uint64_t steps, uint64_t bytes, uint32_t buffers)
{
    return (EchPipelineOperand){
        .output = output, .n_dims = 2, .axis = {0, -1}, .extent = {steps * 8, bytes / 8}, .block = {8, bytes / 8}, .bits = 8, .buffers = buffers};
}

/* When each queue runs its own activities in order. */
static EchTime end_of(const EchPipelineExpansion *expansion)
{
    g_autofree EchTime *ends = g_new(EchTime, MAX(expansion->n_activities, 1));
    EchTime queues[3] = {0}, last = 0;
    for (size_t i = 0; i < expansion->n_activities; i++) {
        const EchPipelineActivity *activity = &expansion->activities[i];
        EchTime start = queues[activity->queue];
        for (uint32_t d = 0; d < activity->n_dependencies; d++)
            start = MAX(start, ends[expansion->dependencies[activity->first_dependency + d]]);
        queues[activity->queue] = ech_time_add(start, activity->duration);
        ends[i] = ech_time_add(queues[activity->queue], activity->tail);
        last = MAX(last, ends[i]);
    }
    return last;
}

static EchPipelineResult run(const EchPipeline *pipeline)
{
    EchPipelineResult result;
    GError *error = NULL;
    ck_assert_ok(ech_pipeline_check(pipeline, &error), error);
    ech_pipeline_run(pipeline, &result);
    g_autoptr(EchPipelineExpansion) expansion = ech_pipeline_expand(pipeline, &error);
    ck_assert_ptr_nonnull(expansion);
    ck_assert_int_eq(end_of(expansion), result.total);
    ck_assert_int_eq(result.total, result.compute + result.overhead + result.fill + result.wait_in + result.wait_out + result.drain);
    return result;
}

/* 8 equal steps of t each way and t of compute: 6 of 8 slots computing, as the documentation draws it. */
START_TEST(three_stages)
{
    EchPipelineOperand operands[] = {stream(false, 6, 8192, 0), stream(true, 6, 8192, 0)};
    EchPipeline pipeline = {.n_axes = 1,
                            .grid = {6},
                            .operands = operands,
                            .n_operands = 2,
                            .compute = 8192,
                            .read = UINT64_C(1000000000000),
                            .write = UINT64_C(1000000000000),
                            .rows = 8,
                            .lanes = 128};
    EchPipelineResult result = run(&pipeline);
    ck_assert_int_eq(result.total, 8 * 8192);
    ck_assert_int_eq(result.fill, 8192);
    ck_assert_int_eq(result.drain, 8192);
    ck_assert_uint_eq(result.vmem, 4 * 8192);
}
END_TEST

/* Steps of months: their sum is no time, and says so. */
START_TEST(steps_of_months)
{
    EchPipelineOperand operands[] = {stream(false, 16, 8192, 0), stream(true, 16, 8192, 0)};
    EchPipeline pipeline = {.n_axes = 1,
                            .grid = {16},
                            .operands = operands,
                            .n_operands = 2,
                            .compute = INT64_C(1) << 60,
                            .step_overhead = INT64_C(1) << 60,
                            .read = UINT64_C(1000000000000),
                            .write = UINT64_C(1000000000000)};
    EchPipelineResult result;
    ech_pipeline_run(&pipeline, &result);
    ck_assert_int_eq(result.compute, ECH_TIME_MAX);
    ck_assert_int_eq(result.overhead, ECH_TIME_MAX);
    ck_assert_int_eq(result.total, ECH_TIME_MAX);
    EchPipelineProduct endless = {.m = 1 << 20,
                                  .n = 1 << 20,
                                  .k = 1 << 20,
                                  .bits = 16,
                                  .out_bits = 16,
                                  .bm = 1 << 20,
                                  .bn = 1 << 20,
                                  .bk = 1 << 20,
                                  .macs_per_second = 1,
                                  .read = 1,
                                  .write = 1};
    EchPipelineOperand three[3];
    ech_pipeline_product(&endless, three, &pipeline);
    ck_assert_int_eq(pipeline.compute, ECH_TIME_MAX);
}
END_TEST

/* One buffer: nothing overlaps. */
START_TEST(one_buffer)
{
    EchPipelineOperand operands[] = {stream(false, 5, 4096, 1), stream(true, 5, 2048, 1)};
    EchPipeline pipeline = {.n_axes = 1,
                            .grid = {5},
                            .operands = operands,
                            .n_operands = 2,
                            .compute = 1000,
                            .step_overhead = 10,
                            .read = UINT64_C(1000000000000),
                            .write = UINT64_C(1000000000000),
                            .rows = 8,
                            .lanes = 128};
    ck_assert_int_eq(run(&pipeline).total, 5 * (4096 + 1000 + 10 + 2048));
}
END_TEST

/* Equal steps: fill, then the slowest stage a step, then drain. */
START_TEST(closed_form)
{
    for (unsigned which = 0; which < 3; which++) {
        uint64_t in = which == 0 ? 65536 : 8192, out = which == 1 ? 65536 : 8192;
        EchTime compute = which == 2 ? 65536 : 8192, slowest = 65536;
        EchPipelineOperand operands[] = {stream(false, 20, in, 2), stream(true, 20, out, 2)};
        EchPipeline pipeline = {.n_axes = 1,
                                .grid = {20},
                                .operands = operands,
                                .n_operands = 2,
                                .compute = compute,
                                .read = UINT64_C(1000000000000),
                                .write = UINT64_C(1000000000000),
                                .rows = 8,
                                .lanes = 128};
        ck_assert_int_eq(run(&pipeline).total, (EchTime)in + 19 * slowest + compute + (EchTime)out);
    }
}
END_TEST

/* A product's revisited blocks copy nothing, its accumulator goes out once a tile, its edges are cut. */
START_TEST(revisits)
{
    EchPipelineProduct product = {.m = 600,
                                  .n = 256,
                                  .k = 512,
                                  .bits = 16,
                                  .out_bits = 16,
                                  .bm = 256,
                                  .bn = 128,
                                  .bk = 512,
                                  .macs_per_second = 1e14,
                                  .read = 1000000000,
                                  .write = 1000000000};
    EchPipelineOperand operands[3];
    EchPipeline pipeline;
    ech_pipeline_product(&product, operands, &pipeline);
    EchPipelineResult result = run(&pipeline);
    ck_assert_uint_eq(result.steps, 6);
    ck_assert_uint_eq(result.copies_out, 6);
    ck_assert_uint_eq(result.copies_in, 3 + 6);         /* lhs once a row of tiles, rhs every step */
    ck_assert_uint_eq(result.bytes_out, 600 * 256 * 2); /* 600 = 256 + 256 + 88 */
    ck_assert_uint_eq(result.bytes_in, 600 * 512 * 2 + 3 * 512 * 256 * 2);
    product.m = 601; /* the last block is cut to whole tiles: 96 rows */
    ech_pipeline_product(&product, operands, &pipeline);
    ck_assert_uint_eq(run(&pipeline).bytes_out, 608 * 256 * 2);
}
END_TEST

/* Blocks that are the whole array are copied once, outside the loop. */
START_TEST(whole_blocks)
{
    EchPipelineOperand operands[] = {
        stream(false, 4, 8192, 2), {.n_dims = 2, .axis = {-1, -1}, .extent = {8, 128}, .block = {8, 128}, .bits = 32}, stream(true, 4, 8192, 2)};
    EchPipeline pipeline = {.n_axes = 1,
                            .grid = {4},
                            .operands = operands,
                            .n_operands = 3,
                            .compute = 100,
                            .read = UINT64_C(1000000000000),
                            .write = UINT64_C(1000000000000),
                            .rows = 8,
                            .lanes = 128};
    EchPipelineResult result = run(&pipeline);
    ck_assert_uint_eq(result.copies_in, 5);
    ck_assert_uint_eq(result.vmem, 4 * 8192 + 4096);
}
END_TEST

/* More buffers, more bandwidth, less latency, lookahead: never slower. Random pipelines; both fidelities agree. */
START_TEST(random_pipelines)
{
    GRand *random = g_rand_new_with_seed(20261121);
    for (unsigned i = 0; i < 400; i++) {
        EchPipelineProduct product = {.m = (uint64_t)g_rand_int_range(random, 1, 2000),
                                      .n = (uint64_t)g_rand_int_range(random, 1, 2000),
                                      .k = (uint64_t)g_rand_int_range(random, 1, 2000),
                                      .bits = 16,
                                      .out_bits = 32,
                                      .bm = 128u << g_rand_int_range(random, 0, 4),
                                      .bn = 128u << g_rand_int_range(random, 0, 4),
                                      .bk = 128u << g_rand_int_range(random, 0, 4),
                                      .buffers = (uint32_t)g_rand_int_range(random, 1, 6),
                                      .macs_per_second = g_rand_double_range(random, 1e12, 1e14),
                                      .step_overhead = g_rand_int_range(random, 0, 500000),
                                      .read = (EchRate)g_rand_int_range(random, 1, 2000) * 1000000000u,
                                      .write = (EchRate)g_rand_int_range(random, 1, 2000) * 1000000000u,
                                      .setup = g_rand_int_range(random, 0, 100000),
                                      .latency = g_rand_int_range(random, 0, 1000000),
                                      .shared_port = g_rand_boolean(random),
                                      .cores = (uint32_t)g_rand_int_range(random, 1, 3)};
        EchPipelineOperand operands[3];
        EchPipeline pipeline;
        ech_pipeline_product(&product, operands, &pipeline);
        operands[0].lookahead = g_rand_boolean(random);
        operands[1].lookahead = g_rand_boolean(random);
        EchPipelineResult result = run(&pipeline);
        ck_assert_int_ge(result.total, result.compute + result.overhead);
        ck_assert_int_ge(result.total, result.busy_in);
        if (!product.shared_port) { /* with one port for both directions an early read can hold a write up */
            operands[0].buffers = operands[1].buffers = product.buffers + 1;
            EchPipelineResult deeper = run(&pipeline);
            ck_assert_msg(deeper.total <= result.total + result.total / 50, "case %u: %" G_GINT64_FORMAT " with one buffer more, %" G_GINT64_FORMAT " before",
                          i, deeper.total, result.total);
        }
    }
    g_rand_free(random);
}
END_TEST

/* Jax's published matmuls on TPU v5e. */
START_TEST(published)
{
    double sum = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(pallas_rows); i++) {
        const PallasRow *row = &pallas_rows[i];
        double error = pallas_predicted(row) / row->seconds - 1;
        printf("%" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "): %+.1f%%\n", row->size, row->bm, row->bk, row->bn,
               100 * error);
        sum += fabs(error);
    }
    ck_assert_double_lt(sum / 6, 0.06);
}
END_TEST

START_TEST(search)
{
    EchPipelineProduct product = {.m = 4096,
                                  .n = 4096,
                                  .k = 4096,
                                  .bits = 16,
                                  .out_bits = 16,
                                  .macs_per_second = 197e12 / 2,
                                  .step_overhead = 330 * ECH_PS_PER_NS,
                                  .read = UINT64_C(819000000000),
                                  .write = UINT64_C(819000000000),
                                  .shared_port = true};
    EchPipelineProduct best;
    EchPipelineResult result;
    size_t tried = ech_pipeline_search(&product, UINT64_C(16) << 20, 3, &best, &result);
    ck_assert_uint_gt(tried, 20);
    ck_assert_uint_le(result.vmem, UINT64_C(16) << 20);
    double ideal = 4096.0 * 4096 * 4096 / (197e12 / 2) * 1e12;
    ck_assert_double_lt((double)result.total, 1.2 * ideal);
    ck_assert_uint_eq(ech_pipeline_search(&product, 1024, 2, &best, &result), 0);
}
END_TEST

START_TEST(refusals)
{
    EchPipelineOperand operand = stream(false, 4, 8192, 2);
    EchPipeline pipeline = {.n_axes = 1, .grid = {4}, .operands = &operand, .n_operands = 1, .read = 1};
    GError *error = NULL;
    ck_assert(ech_pipeline_check(&pipeline, NULL));
    pipeline.grid[0] = 0;
    ck_assert(!ech_pipeline_check(&pipeline, &error));
    g_clear_error(&error);
    pipeline.grid[0] = UINT64_MAX;
    ck_assert(!ech_pipeline_check(&pipeline, NULL));
    pipeline.grid[0] = 4;
    operand.axis[0] = 3;
    ck_assert(!ech_pipeline_check(&pipeline, NULL));
    operand.axis[0] = 0;
    pipeline.read = 0;
    ck_assert(!ech_pipeline_check(&pipeline, NULL));
    pipeline.read = 1;
    pipeline.grid[0] = UINT64_C(1) << 24;
    ck_assert_ptr_null(ech_pipeline_expand(&pipeline, &error));
    g_clear_error(&error);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pipeline");
    TCase *test = tcase_create("pipeline");
    tcase_add_test(test, three_stages);
    tcase_add_test(test, steps_of_months);
    tcase_add_test(test, one_buffer);
    tcase_add_test(test, closed_form);
    tcase_add_test(test, revisits);
    tcase_add_test(test, whole_blocks);
    tcase_add_test(test, random_pipelines);
    tcase_add_test(test, published);
    tcase_add_test(test, search);
    tcase_add_test(test, refusals);
    suite_add_tcase(suite, test);
    return ech_test_main(suite);
}
