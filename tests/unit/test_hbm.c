/* The closed form of DRAM efficiency against a cycle-level simulator of our own, that simulator against DRAMsim3, and both against what GPUs were measured to
 * reach. */
#include "tests/unit/dram_sim.h"

#include "models/device/device_yaml.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define POINTS(x) (100 * (x))

/* The simulator is ten times slower under sanitizers: there every third case will do. */
#if defined(__SANITIZE_ADDRESS__)
enum { EVERY = 3 };
#else
enum { EVERY = 1 };
#endif

/* What DRAMsim3 @ 2981759 models as HBM2_4Gb_x128: whole 128-bit channels, all banks refreshed at once. */
static const EchHbm dramsim = {"HBM2_4Gb_x128", "DRAMsim3", 64,    2048, 16,   4,    32,    2000,    14000,  14000,  14000, 34000, 2000, 2000, 4000, 6000,
                               30000,           4000,       16000, 6000, 8000, 4000, 13000, 3900000, 260000, 160000, false};

/* One channel of it, kept full for 300,000 cycles by a driver of ours (requests of 64 bytes, the next one offered as soon as one is taken; writes 256 MiB above
 * reads); bytes over the bus' peak. */
static const struct {
    EchHbmPattern pattern;
    double efficiency;
} recorded[] = {
    {{ECH_HBM_STREAM, 2048, 0, 1}, 0.9222},    {{ECH_HBM_STREAM, 2048, 0, 0}, 0.9189},  {{ECH_HBM_STREAM, 2048, 0, 0.5}, 0.7329},
    {{ECH_HBM_STREAM, 2048, 0, 0.75}, 0.8363}, {{ECH_HBM_STRIDED, 64, 256, 1}, 0.9204}, {{ECH_HBM_STRIDED, 64, 1024, 1}, 0.4909},
    {{ECH_HBM_STRIDED, 64, 4096, 1}, 0.2456},  {{ECH_HBM_RANDOM, 64, 0, 1}, 0.2458},    {{ECH_HBM_RANDOM, 128, 0, 1}, 0.4907},
    {{ECH_HBM_RANDOM, 256, 0, 1}, 0.9150},     {{ECH_HBM_RANDOM, 1024, 0, 1}, 0.9159},  {{ECH_HBM_RANDOM, 64, 0, 0}, 0.2452},
    {{ECH_HBM_RANDOM, 64, 0, 0.5}, 0.2445},    {{ECH_HBM_RANDOM, 256, 0, 0.5}, 0.6943},
};

START_TEST(test_against_dramsim3)
{
    if (_i % EVERY != 0)
        return;
    double own = sim_efficiency(&dramsim, &recorded[_i].pattern, 60000000), model = ech_hbm_share(&dramsim, &recorded[_i].pattern).efficiency;
    ck_assert_msg(fabs(POINTS(own - recorded[_i].efficiency)) < 5, "case %d: our simulator %.3f, DRAMsim3 %.3f", _i, own, recorded[_i].efficiency);
    ck_assert_msg(fabs(POINTS(model - recorded[_i].efficiency)) < 6, "case %d: model %.3f, DRAMsim3 %.3f", _i, model, recorded[_i].efficiency);
}
END_TEST

static const EchHbmPattern patterns[] = {
    {ECH_HBM_STREAM, 1024, 0, 1},    {ECH_HBM_STREAM, 1024, 0, 0},     {ECH_HBM_STREAM, 1024, 0, 0.5}, {ECH_HBM_STREAM, 1024, 0, 0.75},
    {ECH_HBM_STRIDED, 64, 256, 1},   {ECH_HBM_STRIDED, 64, 1024, 1},   {ECH_HBM_STRIDED, 64, 4096, 1}, {ECH_HBM_STRIDED, 64, 16384, 1},
    {ECH_HBM_STRIDED, 128, 5120, 1}, {ECH_HBM_STRIDED, 256, 65536, 1}, {ECH_HBM_RANDOM, 32, 0, 1},     {ECH_HBM_RANDOM, 48, 0, 1},
    {ECH_HBM_RANDOM, 64, 0, 1},      {ECH_HBM_RANDOM, 128, 0, 1},      {ECH_HBM_RANDOM, 256, 0, 1},    {ECH_HBM_RANDOM, 1024, 0, 1},
    {ECH_HBM_RANDOM, 64, 0, 0},      {ECH_HBM_RANDOM, 256, 0, 0},      {ECH_HBM_RANDOM, 64, 0, 0.5},   {ECH_HBM_RANDOM, 256, 0, 0.5},
    {ECH_HBM_RANDOM, 256, 0, 0.75},
};

/* Every preset, refreshed bank by bank and all at once; the worst and the mean difference are printed. */
START_TEST(test_against_simulator)
{
    static const char *const kinds[] = {"stream", "strided", "random"};
    double worst = 0, sum = 0;
    size_t n = 0;
    EchHbm dram = *ech_hbm_preset(ech_hbm_names()[_i / 2]);
    dram.per_bank = _i % 2 == 0;
    for (size_t i = (size_t)_i % EVERY; i < G_N_ELEMENTS(patterns); i += EVERY) {
        const EchHbmPattern *p = &patterns[i];
        double simulated = sim_efficiency(&dram, p, 24000000);
        EchHbmShare share = ech_hbm_share(&dram, p);
        double off = POINTS(share.efficiency - simulated);
        worst = fabs(off) > fabs(worst) ? off : worst;
        sum += fabs(off);
        n++;
        ck_assert_msg(fabs(off) < 5, "%s%s: %s, runs of %d, stride %d, %.0f %% reads: model %.3f, simulated %.3f", dram.name,
                      dram.per_bank ? "" : ", all banks", kinds[p->kind], (int)p->run, (int)p->stride, 100 * p->reads, share.efficiency, simulated);
    }
    ck_assert_msg(sum / (double)n < 3, "%s: %.2f points on average", dram.name, sum / (double)n);
    printf("%s, %s refreshed: %.2f points on average, worst %+.1f, of %zu patterns\n", dram.name, dram.per_bank ? "one bank at a time" : "all banks",
           sum / (double)n, worst, n);
}
END_TEST

/* RRZE gpu-benches, share of the data sheet's rate: writes only, reads only, one of each, three reads to a write. 0: bound by the kernel's occupancy, not by
 * its memory. */
static const struct {
    const char *gpu, *dram;
    double shares[4];
} measured[] = {
    {"V100", "hbm2", {0.997, 0.963, 0.899, 0.876}},
    {"A100 40 GB", "hbm2e", {0.990, 0.965, 0.889, 0.884}},
    {"H100 PCIe", "hbm2e", {0.990, 0.975, 0.836, 0.898}},
};

START_TEST(test_against_gpus)
{
    static const double reads[] = {0, 1, 0.5, 0.75};
    for (size_t i = 0; i < 4; i++) {
        EchHbmPattern stream = {ECH_HBM_STREAM, 1024, 0, reads[i]};
        double share = ech_hbm_share(ech_hbm_preset(measured[_i].dram), &stream).efficiency;
        ck_assert_msg(fabs(POINTS(share - measured[_i].shares[i])) < 6, "%s, %.0f %% reads: model %.3f, measured %.3f", measured[_i].gpu, 100 * reads[i], share,
                      measured[_i].shares[i]);
    }
}
END_TEST

START_TEST(test_bounds)
{
    const guint32 seed = 20261121;
    GRand *random = g_rand_new_with_seed(seed);
    for (int i = 0; i < 20000; i++) {
        const EchHbm *dram = ech_hbm_preset(ech_hbm_names()[g_rand_int_range(random, 0, 4)]);
        EchHbmPattern p = {(EchHbmKind)g_rand_int_range(random, 0, 3), (uint64_t)g_rand_int_range(random, 1, 8192),
                           (uint64_t)g_rand_int_range(random, 1, 100000), g_rand_double(random)};
        EchHbmShare share = ech_hbm_share(dram, &p);
        ck_assert_msg(share.efficiency > 0 && share.efficiency <= 1 && share.granularity <= 1 && share.activation <= 1 + 1e-9 && share.turnaround <= 1 &&
                          share.refresh <= 1,
                      "seed %u, case %d", seed, i);
        ck_assert(ech_hbm_slowdown(dram, &p) >= 1);
        /* Longer runs are never slower. */
        EchHbmPattern longer = p;
        longer.run = ech_round_up(p.run, dram->burst_bytes) * 2;
        longer.stride = p.stride * 2;
        if (p.kind == ECH_HBM_RANDOM && longer.run <= dram->row_bytes / 4)
            ck_assert_msg(ech_hbm_share(dram, &longer).efficiency > share.efficiency * 0.97, "seed %u, case %d: run %d", seed, i, (int)p.run);
    }
    g_rand_free(random);
}
END_TEST

START_TEST(test_device)
{
    GError *error = NULL;
    static const char text[] =
        "name: t\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, dram: hbm3, capacity: 16GiB, read: 800GB/s, write: 800GB/s}\n  host: {kind: host-pinned, "
        "capacity: 64GiB}\nlinks:\n  host: {from: host, to: hbm, to_device: 1GB/s, from_device: 1GB/s}\nunits:\n  matrix: {peaks: {bf16: 1TFLOP/s}}\n";
    g_autoptr(EchYamlNode) root = ech_yaml_parse(text, strlen(text), "t.yaml", &error);
    static const char *const slower[] = {"dram.t_faw=60ns", "dram.per_bank=0", NULL};
    g_autoptr(EchDevice) device = ech_device_load_yaml(root, NULL, &error);
    g_autoptr(EchDevice) changed = device ? ech_device_load_yaml(root, slower, &error) : NULL;
    ck_assert_ok(device && changed, error);
    EchHbm dram;
    const EchHbmPattern pattern = {ECH_HBM_RANDOM, 64, 0, 1};
    ck_assert(ech_hbm_of(device, ech_device_memory(device, "hbm"), &dram));
    double before = ech_hbm_share(&dram, &pattern).efficiency;
    ck_assert(ech_hbm_of(changed, ech_device_memory(changed, "hbm"), &dram));
    ck_assert(dram.t_faw == 60000 && !dram.per_bank);
    ck_assert(ech_hbm_share(&dram, &pattern).efficiency < before / 3);
    ck_assert(!ech_hbm_of(device, ech_device_memory(device, "host"), &dram));
    static const char bad[] = "name: t\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, dram: hbm33, capacity: 16GiB}\n";
    g_autoptr(EchYamlNode) bad_root = ech_yaml_parse(bad, strlen(bad), "t.yaml", &error);
    g_autoptr(EchDevice) none = ech_device_load_yaml(bad_root, NULL, &error);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(error->message, "did you mean 'hbm3'"));
    g_clear_error(&error);
}
END_TEST

static EchHbmPattern met(const char *text, EchHbmKind kind, double *ret_moved)
{
    EchLayout layout;
    ck_assert(ech_layout_parse(text, strlen(text), &layout, NULL, NULL));
    return ech_hbm_of_layout(&layout, kind, 64, 1, ret_moved);
}

/* What lies together, by layout: a lane row of a tile, with its neighbours where words hold several; a tile; a whole row; a granule of it. */
START_TEST(layouts)
{
    double moved;
    EchHbmPattern p = met("f32[50257,768]{1,0:T(8,128)}", ECH_HBM_RANDOM, &moved);
    ck_assert(p.run == 512 && moved == 1);
    p = met("bf16[50257,768]{1,0:T(8,128)(2,1)}", ECH_HBM_RANDOM, &moved);
    ck_assert(p.run == 512 && moved == 2);
    p = met("s8[50257,768]{1,0:T(32,128)(4,1)}", ECH_HBM_RANDOM, &moved);
    ck_assert(p.run == 512 && moved == 4);
    p = met("f32[50257,64]{1,0:T(8,128)}", ECH_HBM_RANDOM, &moved);
    ck_assert(p.run == 256 && moved == 1);
    p = met("f32[4096,2048]{1,0:T(8,128)}", ECH_HBM_STRIDED, &moved);
    ck_assert(p.run == 4096 && p.stride == 16 * 4096 && moved == 1);
    p = met("f32[4096,2048]{0,1:T(8,128)}", ECH_HBM_STRIDED, &moved); /* the lanes run along the first dimension */
    ck_assert(p.run == 4096 && p.stride == 32 * 4096);
    p = met("f32[50257,768]{1,0}", ECH_HBM_RANDOM, &moved);
    ck_assert(p.run == 3072 && moved == 1);
    p = met("f32[50257,768]{1,0}", ECH_HBM_STRIDED, &moved);
    ck_assert(p.run == 64 && p.stride == 3072 && moved == 1);
    /* Whole tiles lose next to nothing; a granule of each row loses most. */
    const EchHbm *dram = ech_hbm_preset("hbm2e");
    EchHbmPattern tiles = met("f32[4096,2048]{1,0:T(8,128)}", ECH_HBM_STRIDED, &moved), granules = met("f32[4096,2048]{1,0}", ECH_HBM_STRIDED, &moved);
    ck_assert_double_lt(ech_hbm_slowdown(dram, &tiles), 1.1);
    ck_assert_double_gt(ech_hbm_slowdown(dram, &granules), 1.5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hbm");
    TCase *tests = tcase_create("hbm");
    tcase_add_loop_test(tests, test_against_dramsim3, 0, G_N_ELEMENTS(recorded));
    tcase_add_loop_test(tests, test_against_simulator, 0, 8);
    tcase_add_loop_test(tests, test_against_gpus, 0, G_N_ELEMENTS(measured));
    tcase_add_test(tests, test_bounds);
    tcase_add_test(tests, test_device);
    tcase_add_test(tests, layouts);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
