/* A chip with stationary weights: the tile rules by hand, their counters, and TPU v1's six workloads against its hardware counters and its published what-ifs.
 */
#include "tests/tpu_v1_table.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEAR(got, expected, tolerance)                                                                                                                         \
    ck_assert_msg(fabs((got) - (expected)) <= (tolerance), "%g, expected %g within %g", (double)(got), (double)(expected), (double)(tolerance))

/* 1 GHz: a cycle is 1000 ps. A tile of 16 x 16 takes 100 cycles to load and 16 to shift. */
static const EchStationaryModel small = {.clock_hz = 1e9, .rows = 16, .columns = 16, .load = 100, .fifo = 4, .accumulators = 64, .wait = 0};

static EchStationaryCounters run(const EchStationaryModel *model, const EchStationaryStep *steps, size_t n, const EchStationaryProduct *products,
                                 const uint32_t *deps, EchTime *ends)
{
    EchStationaryCounters c;
    ech_stationary_run(model, steps, n, products, deps, ends, NULL, &c);
    NEAR(c.active + c.weight_stall + c.weight_shift + c.non_matrix, c.cycles, 1e-6 * c.cycles);
    ck_assert_double_le(c.dependency + c.input, c.non_matrix + 1e-6 * c.cycles);
    ck_assert_double_le(c.useful, c.active + 1e-6 * c.cycles);
    return c;
}

static EchStationaryProduct product(uint64_t m, uint64_t n, uint64_t k)
{
    return (EchStationaryProduct){.m = m, .n = n, .k = k, .taps = 1, .copies = 1, .lhs_bits = 8, .rhs_bits = 8};
}

static EchStationaryStep step_of(uint32_t first, uint32_t n)
{
    return (EchStationaryStep){.kind = ECH_STATIONARY_PRODUCT, .first_product = first, .n_products = n, .result_bits = 8};
}

/* One tile: load, shift, as many rows as the batch, and those rows through the activation unit. */
START_TEST(one_tile)
{
    const EchStationaryProduct products[] = {product(10, 8, 16)};
    const EchStationaryStep step = step_of(0, 1);
    EchTime end;
    EchStationaryCounters c = run(&small, &step, 1, products, NULL, &end);
    ck_assert_int_eq(end, (100 + 16 + 10 + 10) * 1000);
    NEAR(c.active, 10, 1e-9);
    NEAR(c.useful, 5, 1e-9);
    NEAR(c.weight_stall, 100, 1e-9);
    NEAR(c.weight_shift, 16, 1e-9);
    NEAR(c.non_matrix, 10, 1e-9);
    NEAR(c.tiles, 1, 0);
}
END_TEST

/* Bound by memory: a tile every 100 cycles. Bound by rows: 30 a tile and pass, shifts hidden under them. 16 bits on one side: twice the cycles, both: four
 * times. */
START_TEST(bounds)
{
    const EchStationaryProduct thin[] = {product(10, 16, 160)};
    const EchStationaryStep step = step_of(0, 1);
    EchTime end;
    EchStationaryCounters c = run(&small, &step, 1, thin, NULL, &end);
    ck_assert_int_eq(end, (10 * 100 + 16 + 10 + 10) * 1000);
    NEAR(c.weight_shift, 160, 1e-9);
    NEAR(c.active, 100, 1e-9);
    EchStationaryModel quick = small;
    quick.load = 1;
    const unsigned bits[][3] = {{8, 8, 1}, {16, 8, 2}, {8, 16, 2}, {16, 16, 4}};
    for (size_t i = 0; i < G_N_ELEMENTS(bits); i++) {
        EchStationaryProduct wide[] = {product(30, 16, 160)};
        wide[0].lhs_bits = bits[i][0];
        wide[0].rhs_bits = bits[i][1];
        c = run(&quick, &step, 1, wide, NULL, &end);
        NEAR(c.active, 300 * bits[i][2], 1e-9);
        NEAR(c.weight_bytes, 10 * 256 * (bits[i][1] / 8), 1e-9);
        ck_assert_int_eq(end, (1 * (bits[i][1] / 8) + 16 + 300 * bits[i][2] + 30) * INT64_C(1000));
    }
}
END_TEST

/* The FIFO fills while an earlier step holds the unit up: four tiles of the next layer are there when it ends, with one place only one and the next. */
START_TEST(fifo)
{
    const EchStationaryProduct products[] = {product(1, 16, 16), product(1, 16, 64)};
    EchStationaryStep steps[] = {step_of(0, 1), {.kind = ECH_STATIONARY_VECTOR, .moved = 16000, .first_dep = 0, .n_deps = 1}, step_of(1, 1)};
    steps[2].first_dep = 1;
    steps[2].n_deps = 1;
    const uint32_t deps[] = {0, 1};
    EchTime ends[3];
    EchStationaryCounters deep = run(&small, steps, 3, products, deps, ends);
    EchTime quick = ends[2] - ends[1];
    EchStationaryModel shallow = small;
    shallow.fifo = 1;
    EchStationaryCounters flat = run(&shallow, steps, 3, products, deps, ends);
    NEAR(deep.weight_stall, 100, 1e-9); /* the very first */
    ck_assert_int_eq(quick, (4 + 3 * 15 + 1) * 1000);
    ck_assert_int_gt(ends[2] - ends[1], quick);
    ck_assert_double_gt(flat.weight_stall, deep.weight_stall);
    /* and the synchronisation delays the reader, not the weights */
    EchStationaryModel slow = small;
    slow.wait = 50;
    EchStationaryCounters waiting = run(&slow, steps, 3, products, deps, ends);
    NEAR(waiting.cycles, deep.cycles + 100, 1e-9);
    NEAR(waiting.dependency, deep.dependency + 50 + 50, 1e-9);
}
END_TEST

/* Half of the accumulators a pass, so that activation hides; weights are then read again for every pass. */
START_TEST(passes)
{
    const EchStationaryProduct products[] = {product(64, 16, 160)};
    const EchStationaryStep step = step_of(0, 1);
    EchStationaryModel quick = small;
    quick.load = 20;
    EchTime end;
    EchStationaryCounters c = run(&quick, &step, 1, products, NULL, &end);
    NEAR(c.tiles, 20, 0);
    ck_assert_int_eq(end, (20 + 16 + 640 + 32) * 1000);
    /* With slow weights, one pass over all of them is better. */
    c = run(&small, &step, 1, products, NULL, &end);
    NEAR(c.tiles, 10, 0);
}
END_TEST

/* 600 x 600 takes 9 steps and 18 us on 256 x 256, 4 steps and 32 us on 512 x 512 (section 7 of the paper). */
START_TEST(six_hundred)
{
    const struct {
        const char *rows, *columns;
        double tiles, us;
    } cases[] = {{NULL, NULL, 9, 18}, {"units.matrix.rows=512", "units.matrix.columns=512", 4, 32}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *const settings[] = {cases[i].rows, cases[i].columns, NULL};
        g_autoptr(EchDevice) device = ech_test_device("tpu-v1", settings);
        EchStationaryModel model;
        ck_assert(device != NULL && ech_stationary_model_init(&model, device));
        const EchStationaryProduct products[] = {product(1, 600, 600)};
        const EchStationaryStep step = step_of(0, 1);
        EchTime end;
        EchStationaryCounters c = run(&model, &step, 1, products, NULL, &end);
        NEAR(c.tiles, cases[i].tiles, 0);
        NEAR((double)end * 1e-6, cases[i].us, 0.05 * cases[i].us);
    }
    g_autoptr(EchDevice) later = ech_test_device("tpu-v3", NULL);
    EchStationaryModel none;
    ck_assert(later != NULL && !ech_stationary_model_init(&none, later));
}
END_TEST

/* The host's link is taken wherever on the device it ends: in v1's on-chip memory, in v5e's HBM. */
START_TEST(host_link)
{
    static const char *const names[] = {"tpu-v1", "tpu-v5e"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(EchDevice) device = ech_test_device(names[i], NULL);
        const EchMemory *host = ech_device_memory(device, "host"), *vector = ech_device_memory(device, "vector"), *hbm = ech_device_memory(device, "hbm");
        bool forward = false;
        const EchLink *link = ech_device_link(device, "host");
        ck_assert(ech_device_transfer_link(device, host, vector, &forward) == link && forward);
        ck_assert(ech_device_transfer_link(device, vector, host, &forward) == link && !forward);
        ck_assert(ech_device_transfer_link(device, host, hbm, &forward) == link && forward);
        ck_assert_ptr_null(ech_device_transfer_link(device, vector, hbm, &forward));
        ck_assert_ptr_null(ech_device_transfer_link(device, host, host, &forward));
    }
}
END_TEST

/* Sizes beyond what is run tile by tile go on at the same rate; absurd ones end too. */
START_TEST(large)
{
    const EchStationaryStep step = step_of(0, 1);
    EchTime end;
    const EchStationaryProduct many[] = {product(10, 16, 16 * 1000000)};
    EchStationaryCounters c = run(&small, &step, 1, many, NULL, &end);
    NEAR(c.tiles, 1e6, 1);
    NEAR((double)end, 1e6 * 100 * 1000, 1e8 * 1e-3);
    const EchStationaryProduct absurd[] = {{.m = UINT64_MAX, .n = UINT64_MAX, .k = UINT64_MAX, .taps = 7, .copies = 9, .lhs_bits = 64, .rhs_bits = 64}};
    c = run(&small, &step, 1, absurd, NULL, &end);
    ck_assert_int_eq(end, ECH_TIME_MAX);
    ck_assert(isfinite(c.cycles));
    const EchStationaryStep nothing = {.kind = ECH_STATIONARY_PRODUCT};
    c = run(&small, &nothing, 1, NULL, NULL, &end);
    ck_assert_int_eq(end, 0);
}
END_TEST

/* Random programs: the counters add up; more bandwidth, a deeper FIFO or no wait never slow one down. */
START_TEST(random_programs)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)_i);
    EchStationaryStep steps[24];
    EchStationaryProduct products[48];
    uint32_t deps[48], n_products = 0, n_deps = 0;
    for (uint32_t s = 0; s < G_N_ELEMENTS(steps); s++) {
        int kind = g_rand_int_range(rand, 0, 5);
        steps[s] = (EchStationaryStep){.kind = kind < 3 ? ECH_STATIONARY_PRODUCT : kind == 3 ? ECH_STATIONARY_VECTOR : ECH_STATIONARY_TRANSFER};
        steps[s].first_product = n_products;
        steps[s].first_dep = n_deps;
        if (s > 0 && steps[s - 1].kind == ECH_STATIONARY_TRANSFER) {
            steps[s].kind = ECH_STATIONARY_WAIT;
            deps[n_deps++] = s - 1;
        } else if (s > 0 && g_rand_boolean(rand)) {
            deps[n_deps++] = (uint32_t)g_rand_int_range(rand, 0, (gint32)s);
        }
        steps[s].n_deps = n_deps - steps[s].first_dep;
        steps[s].result_bits = g_rand_boolean(rand) ? 8 : 16;
        steps[s].moved = (EchBytes)g_rand_int_range(rand, 0, 4000);
        steps[s].transfer = g_rand_int_range(rand, 0, 1000000);
        steps[s].to_device = g_rand_boolean(rand);
        for (int i = g_rand_int_range(rand, 1, 3); steps[s].kind == ECH_STATIONARY_PRODUCT && i > 0; i--) {
            products[n_products] =
                product((uint64_t)g_rand_int_range(rand, 1, 200), (uint64_t)g_rand_int_range(rand, 1, 100), (uint64_t)g_rand_int_range(rand, 1, 100));
            products[n_products].taps = (uint64_t)g_rand_int_range(rand, 1, 4);
            products[n_products++].lhs_bits = g_rand_boolean(rand) ? 8 : 16;
            steps[s].n_products++;
        }
    }
    EchTime ends[G_N_ELEMENTS(steps)];
    EchStationaryModel model = small;
    model.wait = 30;
    EchStationaryCounters base = run(&model, steps, G_N_ELEMENTS(steps), products, deps, ends);
    EchStationaryModel deeper = model, prompt = model;
    deeper.fifo = 9;
    prompt.wait = 0;
    ck_assert_double_le(run(&deeper, steps, G_N_ELEMENTS(steps), products, deps, ends).cycles, base.cycles + 1e-6);
    ck_assert_double_le(run(&prompt, steps, G_N_ELEMENTS(steps), products, deps, ends).cycles, base.cycles + 1e-6);
}
END_TEST

/* What a program's products ask for: weights are the side in the weight memory, rows those of the other; widths are those that are multiplied; a loop's
 * condition or a tuple is no step. */
START_TEST(programs)
{
#define HEAD "HloModule p, is_scheduled=true\n"
    static const struct {
        const char *text;
        double tiles, active, useful, weight_bytes;
    } cases[] = {
        /* rows on the left, a result of 32 bits */
        {HEAD "ENTRY p {\n  %x = s8[10,256]{1,0:T(1,256)S(1)} parameter(0)\n  %w = s8[256,512]{1,0:T(256,256)} parameter(1)\n"
              "  ROOT %d = s32[10,512]{1,0:T(1,256)S(1)} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
         2, 20, 20, 2 * 65536},
        /* the same product written the other way round, weights of 16 bits */
        {HEAD "ENTRY p {\n  %x = s8[256,10]{1,0:T(1,256)S(1)} parameter(0)\n  %w = s16[512,256]{1,0:T(256,256)} parameter(1)\n"
              "  ROOT %d = s32[512,10]{1,0:T(1,256)S(1)} dot(%w, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
         2, 40, 40, 4 * 65536},
        /* sums of 32 bits made activations of 8 on the way in; 300 deep: two tiles, 59 % of them used */
        {HEAD "%f (a: s32[10,300], b: s8[300,256]) -> s32[10,256] {\n  %a = s32[10,300]{1,0:T(1,256)S(1)} parameter(0)\n"
              "  %b = s8[300,256]{1,0:T(256,256)} parameter(1)\n  %n = s8[10,300]{1,0:T(1,256)} convert(%a)\n"
              "  ROOT %d = s32[10,256]{1,0:T(1,256)S(1)} dot(%n, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
              "ENTRY p {\n  %x = s32[10,300]{1,0:T(1,256)S(1)} parameter(0)\n  %w = s8[300,256]{1,0:T(256,256)} parameter(1)\n"
              "  ROOT %y = s32[10,256]{1,0:T(1,256)S(1)} fusion(%x, %w), kind=kOutput, calls=%f\n}\n",
         2, 20, 20 * 300.0 / 512, 2 * 65536},
        /* nothing but element-wise work */
        {HEAD "ENTRY p {\n  %x = s8[10,256]{1,0:T(1,256)S(1)} parameter(0)\n  ROOT %y = s8[10,256]{1,0:T(1,256)S(1)} negate(%x)\n}\n", 0, 0, 0, 0},
    };
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "v1.hlo.txt", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        ck_assert(g_file_set_contents(path, cases[i].text, -1, NULL));
        EchStationaryCounters c;
        double clock;
        char *error = NULL;
        ck_assert_msg(tpu_v1_run_file(path, NULL, &c, &clock, &error) > 0, "case %zu: %s", i, error);
        NEAR(c.tiles, cases[i].tiles, 0);
        NEAR(c.active, cases[i].active, 0);
        NEAR(c.useful, cases[i].useful, 1);
        NEAR(c.weight_bytes, cases[i].weight_bytes, 0);
    }
}
END_TEST

/* Table 3: every counter within five points; the replay takes as long as the counters say. */
START_TEST(counters)
{
    const TpuV1Row *row = &tpu_v1_rows[_i];
    EchStationaryCounters c;
    double clock;
    char *error = NULL;
    EchTime makespan = tpu_v1_run(row->name, NULL, &c, &clock, &error);
    ck_assert_msg(makespan > 0, "%s: %s", row->name, error);
    NEAR(100 * c.active / c.cycles, row->active, 5);
    NEAR(100 * c.useful / c.cycles, row->useful, 5);
    NEAR(100 * (c.active - c.useful) / c.cycles, row->unused, 5);
    NEAR(100 * c.weight_stall / c.cycles, row->stall, 5);
    NEAR(100 * c.weight_shift / c.cycles, row->shift, 5);
    NEAR(100 * c.non_matrix / c.cycles, row->non_matrix, 5);
    NEAR((double)makespan, c.cycles / clock * 1e12, 1e12 / clock); /* reported in whole cycles */
}
END_TEST

/* What a program says was measured stands beside what the model counts. */
START_TEST(measured)
{
    const EchExperimentOverrides overrides = {.trace = ECH_SOURCE_DIR "/traces/mlp0.v1", .device = "tpu-v1", .engine = "native"};
    GError *error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    g_autoptr(EchResult) result = experiment ? ech_experiment_run(experiment, 0, &error) : NULL;
    ck_assert_ok(result != NULL, error);
    EchReport report = ech_result_report(result);
    GString *text = ech_report_summary(&report, 0);
    ck_assert_ptr_nonnull(strstr(text->str, "Counters of the matrix unit"));
    ck_assert_ptr_nonnull(strstr(text->str, "(53.9)"));
    g_string_free(text, TRUE);
    JsonNode *node = ech_report_json(&report);
    JsonObject *shown = json_object_get_object_member(json_node_get_object(node), "matrix_counters");
    NEAR(json_object_get_double_member(json_object_get_object_member(shown, "measured"), "weight_stall"), 0.539, 1e-9);
    NEAR(json_object_get_double_member(shown, "weight_stall"), 0.539, 0.05);
    json_node_unref(node);
}
END_TEST

/* Figure 11 and section 7, hosts left out as there: means over the six. */
static void what_if(const char *const *settings, double *ret_gain, double *ret_geometric, double *ret_weighted)
{
    char *error = NULL;
    ck_assert_msg(tpu_v1_what_if(settings, ret_gain, ret_geometric, ret_weighted, &error), "%s", error);
}

START_TEST(four_times_the_memory)
{
    static const char *const settings[] = {TPU_V1_NO_HOST, TPU_V1_MEMORY_X4, NULL};
    double gain[6], geometric, weighted;
    what_if(settings, gain, &geometric, &weighted);
    NEAR(weighted, 3, 0.3); /* "3X on average" */
    for (unsigned i = 0; i < 4; i++)
        NEAR(gain[i], 3, 0.75);
    NEAR(gain[4], 1, 0.05); /* "little benefit" for CNNs */
    ck_assert_double_lt(gain[5], 1.5);
}
END_TEST

START_TEST(gddr5)
{
    static const char *const settings[] = {TPU_V1_NO_HOST, TPU_V1_GDDR5, NULL};
    double gain[6], geometric, weighted;
    what_if(settings, gain, &geometric, &weighted);
    NEAR(geometric, 2.6, 0.26);
    NEAR(weighted, 3.9, 0.39);
}
END_TEST

START_TEST(four_times_the_clock)
{
    static const char *const settings[] = {TPU_V1_NO_HOST, TPU_V1_CLOCK_X4, NULL};
    double gain[6], geometric, weighted;
    what_if(settings, gain, &geometric, &weighted);
    for (unsigned i = 0; i < 4; i++)
        NEAR(gain[i], 1, 0.12); /* "almost no impact" */
    NEAR((gain[4] + gain[5]) / 2, 2, 0.3);
    ck_assert_double_lt(weighted, 1.2);
}
END_TEST

START_TEST(twice_the_matrix)
{
    static const char *const settings[] = {TPU_V1_NO_HOST, TPU_V1_MATRIX_X2, NULL};
    double gain[6], geometric, weighted;
    what_if(settings, gain, &geometric, &weighted);
    ck_assert_double_lt(weighted, 1); /* "slightly degrades" */
    ck_assert_double_gt(weighted, 0.75);
    NEAR(gain[3], 18.0 / 32, 0.06); /* LSTM1's 600 x 600 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stationary");
    TCase *model = tcase_create("model"), *chip = tcase_create("tpu-v1");
    tcase_add_test(model, one_tile);
    tcase_add_test(model, bounds);
    tcase_add_test(model, fifo);
    tcase_add_test(model, passes);
    tcase_add_test(model, six_hundred);
    tcase_add_test(model, host_link);
    tcase_add_test(model, large);
    tcase_add_loop_test(model, random_programs, 0, 200);
    tcase_add_test(chip, programs);
    tcase_add_loop_test(chip, counters, 0, G_N_ELEMENTS(tpu_v1_rows));
    tcase_add_test(chip, measured);
    tcase_add_test(chip, four_times_the_memory);
    tcase_add_test(chip, gddr5);
    tcase_add_test(chip, four_times_the_clock);
    tcase_add_test(chip, twice_the_matrix);
    suite_add_tcase(suite, model);
    suite_add_tcase(suite, chip);
    return ech_test_main(suite);
}
