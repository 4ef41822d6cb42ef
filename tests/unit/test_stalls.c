/* Where the time of tiles goes: exact sums, and every reason where it must show. */
#include "models/kernel/grid.h"
#include "models/kernel/stalls.h"
#include "tests/support/support.h"

#include <check.h>

static EchPipelineProduct product_of(uint64_t size, uint64_t block, uint32_t buffers)
{
    return (EchPipelineProduct){.m = size,
                                .n = size,
                                .k = size,
                                .bits = 16,
                                .out_bits = 16,
                                .bm = block,
                                .bn = block,
                                .bk = block,
                                .buffers = buffers,
                                .macs_per_second = 98.5e12,
                                .read = UINT64_C(737000000000),
                                .write = UINT64_C(737000000000),
                                .shared_port = true};
}

static EchStalls stalls_of(const EchPipelineProduct *product, EchTime *ret_total)
{
    EchPipelineOperand operands[3];
    EchPipeline pipeline;
    EchPipelineResult result;
    EchStalls stalls;
    ech_pipeline_product(product, operands, &pipeline);
    ck_assert(ech_pipeline_check(&pipeline, NULL));
    ech_pipeline_run(&pipeline, &result);
    ech_pipeline_stalls(&pipeline, &stalls);
    *ret_total = result.total;
    return stalls;
}

/* Sizes, blocks, buffers and rates at random: the parts are never negative and add up to the schedule's time, to the picosecond. */
START_TEST(parts_add_up)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)_i + 1);
    for (int i = 0; i < 40; i++) {
        EchPipelineProduct product = product_of(128, 128, (uint32_t)g_rand_int_range(random, 1, 5));
        product.m = (uint64_t)g_rand_int_range(random, 1, 2000);
        product.n = (uint64_t)g_rand_int_range(random, 1, 2000);
        product.k = (uint64_t)g_rand_int_range(random, 1, 2000);
        product.bm = (uint64_t)g_rand_int_range(random, 1, 5) * 128;
        product.bn = (uint64_t)g_rand_int_range(random, 1, 5) * 128;
        product.bk = (uint64_t)g_rand_int_range(random, 1, 5) * 128;
        product.latency = g_rand_int_range(random, 0, 2000) * ECH_PS_PER_NS;
        product.step_overhead = g_rand_int_range(random, 0, 500) * ECH_PS_PER_NS;
        product.setup = g_rand_int_range(random, 0, 300) * ECH_PS_PER_NS;
        product.port = g_rand_boolean(random) ? UINT64_C(1000000000000) : 0;
        product.shared_port = g_rand_boolean(random);
        EchTime total;
        EchStalls stalls = stalls_of(&product, &total);
        for (unsigned k = 0; k < ECH_N_STALLS; k++)
            ck_assert_msg(stalls.at[k] >= 0, "seed %d, case %d: %s is %" G_GINT64_FORMAT, _i + 1, i, ech_stall_name((EchStall)k), stalls.at[k]);
        ck_assert_int_eq(ech_stalls_total(&stalls), total);
    }
}
END_TEST

/* One thing changed at a time, and its reason appears. */
START_TEST(every_reason_shows)
{
    EchTime total;
    EchPipelineProduct fast = product_of(2048, 512, 2);
    fast.read = fast.write = UINT64_C(100000000000000);
    EchStalls stalls = stalls_of(&fast, &total);
    ck_assert_int_gt(stalls.at[ECH_STALL_COMPUTE], total * 95 / 100);
    ck_assert_int_eq(stalls.at[ECH_STALL_LATENCY] + stalls.at[ECH_STALL_OVERHEAD] + stalls.at[ECH_STALL_PORT], 0);

    EchPipelineProduct slow = product_of(2048, 256, 2);
    slow.read = slow.write = UINT64_C(50000000000);
    stalls = stalls_of(&slow, &total);
    ck_assert_int_gt(stalls.at[ECH_STALL_HBM], total / 2);

    EchPipelineProduct late = fast;
    late.latency = 200 * ECH_PS_PER_US;
    stalls = stalls_of(&late, &total);
    ck_assert_int_gt(stalls.at[ECH_STALL_LATENCY] + stalls.at[ECH_STALL_SPACE], total / 2);

    EchPipelineProduct alone = product_of(2048, 512, 1); /* nothing is fetched ahead */
    stalls = stalls_of(&alone, &total);
    ck_assert_int_gt(stalls.at[ECH_STALL_SPACE], total / 10);

    EchPipelineProduct choked = fast;
    choked.port = UINT64_C(100000000000);
    EchTime unchoked = stalls_of(&fast, &total).at[ECH_STALL_COMPUTE];
    stalls = stalls_of(&choked, &total);
    ck_assert_int_gt(stalls.at[ECH_STALL_PORT], total / 2);
    ck_assert_int_eq(stalls.at[ECH_STALL_COMPUTE], unchoked);

    EchPipelineProduct steps = fast;
    steps.step_overhead = 330 * ECH_PS_PER_NS;
    stalls = stalls_of(&steps, &total);
    ck_assert_int_eq(stalls.at[ECH_STALL_OVERHEAD], 64 * 330 * ECH_PS_PER_NS);

    EchPipelineProduct one = product_of(512, 512, 2); /* a single block: fetched, computed, stored */
    stalls = stalls_of(&one, &total);
    ck_assert_int_eq(stalls.at[ECH_STALL_FILL] + stalls.at[ECH_STALL_COMPUTE], total);
}
END_TEST

/* Scaling a kernel's parts to another time keeps the sum exact. */
START_TEST(scaled_parts_add_up)
{
    EchKernelCost cost = {.time = 1000, .compute = 333, .hbm = 211, .space = 101, .port = 7, .latency = 199, .fill = 100, .overhead = 49};
    EchStalls parts, sum = {{0}};
    ech_kernel_stalls(&cost, &parts);
    ck_assert_int_eq(ech_stalls_total(&parts), 1000);
    ech_stalls_add(&sum, &parts, 777);
    ck_assert_int_eq(ech_stalls_total(&sum), 777);
    ech_stalls_add(&sum, &parts, ECH_TIME_MAX / 4);
    ck_assert_int_eq(ech_stalls_total(&sum), ECH_TIME_MAX / 4 + 777);
}
END_TEST

/* A kernel that its author wrote waits for HBM or for the link it sends over, whichever is slower; its steps and the units that are busy longer are told. */
START_TEST(grids_tell_what_they_wait_for)
{
    const EchKernelModel model = {.sublanes = 8,
                                  .lanes = 128,
                                  .cores = 1,
                                  .clock_hz = 1e12,
                                  .hbm = 10,
                                  .unit = &(EchUnit){.rows = 128, .columns = 128, .count = 1},
                                  .bundle = {.vector = 1, .transcendental = 1, .lanes = 1, .load = 1, .store = 1, .link = 10}};
    EchKernelGrid grid = {.steps = 10, .vector = 1000, .read = 100000, .parallel = 1};
    EchKernelCost cost;
    ech_kernel_grid_price(&model, &grid, 0, &cost);
    ck_assert_int_eq(cost.hbm, 10000 - 1000 - 10 * ECH_KERNEL_GRID_STEP_CYCLES);
    ck_assert_int_eq(cost.overhead, 10 * ECH_KERNEL_GRID_STEP_CYCLES);
    ck_assert(cost.link == 0 && cost.by_vector);
    EchTime without = cost.time;
    grid.sent = 200000;
    ech_kernel_grid_price(&model, &grid, 0, &cost);
    ck_assert_int_eq(cost.time, without + 10000);
    ck_assert_int_eq(cost.link, 20000 - 1000 - 10 * ECH_KERNEL_GRID_STEP_CYCLES);
    ck_assert_int_eq(cost.hbm, 0);
    EchStalls stalls;
    ech_kernel_stalls(&cost, &stalls);
    ck_assert_int_eq(stalls.at[ECH_STALL_LINK], cost.link);
    ck_assert_int_eq(ech_stalls_total(&stalls), cost.time);
}
END_TEST

/* What a trace says of a kernel's inside is what was put there. */
START_TEST(insides_are_read_as_written)
{
    EchKernelInside inside = {.vmem = 8192, .by_vector = true}, read;
    for (unsigned i = 0; i < ECH_N_STALLS; i++)
        inside.stalls.at[i] = i == ECH_STALL_SPACE ? 0 : 1000 + (EchTime)i;
    g_autoptr(GString) text = g_string_new(NULL);
    ech_kernel_inside_print(&inside, text);
    ck_assert(ech_kernel_inside_parse(text->str, &read));
    for (unsigned i = 0; i < ECH_N_STALLS; i++)
        ck_assert_int_eq(read.stalls.at[i], inside.stalls.at[i]);
    ck_assert_uint_eq(read.vmem, 8192);
    ck_assert(read.by_vector);
    ck_assert(!ech_kernel_inside_parse("grid=96 block=128", &read));
    ck_assert(ech_kernel_inside_parse("compute_ps=99999999999999999999999 hbm_ps=-1", &read));
    ck_assert_int_gt(ech_stalls_total(&read.stalls), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stalls");
    TCase *tcase = tcase_create("stalls");
    tcase_add_loop_test(tcase, parts_add_up, 0, 4);
    tcase_add_test(tcase, every_reason_shows);
    tcase_add_test(tcase, scaled_parts_add_up);
    tcase_add_test(tcase, grids_tell_what_they_wait_for);
    tcase_add_test(tcase, insides_are_read_as_written);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
