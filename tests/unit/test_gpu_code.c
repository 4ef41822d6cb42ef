/* Kernels that are told by their own code (EchGpuLaunch): what limits them, and how long they take against what others published. */
#include "models/kernel/gpu.h"

#include "sim/base/error.h"
#include "sim/replay/replay.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

static double microseconds(const char *device_name, const char *text, EchGpuCode code)
{
    g_autoptr(EchDevice) device = ech_test_device(device_name, NULL);
    EchGpuLaunch launch;
    ck_assert(ech_gpu_launch_parse(text, &launch));
    EchGpuCodeCost cost = {0};
    bool told = ech_gpu_code_cost(&launch, device, &code, &cost);
    ck_assert(told == (launch.issued > 0));
    return (double)(cost.busy + cost.waits) * 1e-6;
}

/* Each limit by itself, on an H100 SXM of 132 multiprocessors at 1.98 GHz, and an A40 of 84 at 1.74, whose multiprocessors load and store half a warp a clock.
 */
START_TEST(test_limits)
{
    static const struct {
        const char *device, *launch;
        EchGpuCode code;
        double microseconds;
    } rows[] = {
        {"h100-sxm", "grid=132 block=256 issued=528000000", {0, 0, 0}, 1e6 / 1980},                              /* four schedulers */
        {"h100-sxm", "grid=12 block=256 issued=48000000", {0, 0, 0}, 1e6 / 1980},                                /* of as many as there are blocks */
        {"h100-sxm", "grid=132 block=256 issued=1 access=132000000x132000000", {0, 0, 0}, 1e6 / 1980},           /* a warp a clock */
        {"h100-sxm", "grid=132 block=256 issued=1 access=132000000x264000000", {0, 0, 0}, 2e6 / 1980},           /* a wavefront a clock */
        {"a40", "grid=84 block=256 issued=1 access=84000000x84000000", {0, 0, 0}, 2e6 / 1740},                   /* half a warp a clock */
        {"h100-sxm", "grid=132 block=256 issued=1 fetched=8100000000", {0, 0, 0}, 1000},                         /* L2, 8.1 TB/s */
        {"h100-sxm", "grid=132 block=256 issued=1 atomics=126562500x1", {0, 0, 0}, 1000},                        /* a sector read and one written */
        {"h100-sxm", "grid=132 block=256 issued=1 atomics=1980000x1980000", {0, 0, 0}, 1000},                    /* all by one unit, each clock */
        {"h100-sxm", "grid=132 block=256 issued=1 units=33450000000x0x0", {0, 0, 0}, 1000},                      /* 66.9 TFLOP/s, two a lane */
        {"h100-sxm", "grid=132 block=256 issued=1 units=0x16750000000x0", {0, 0, 0}, 1000},                      /* of 64 bits */
        {"h100-sxm", "grid=132 block=256 issued=1 units=0x0x4180000000", {0, 0, 0}, 1000},                       /* special functions */
        {"h100-sxm", "grid=132 block=256 issued=1", {0, 0, 7e-6}, 7},                                            /* units */
        {"h100-sxm", "grid=1 block=32 issued=1 path=1980000x0", {0, 0, 0}, 1000},                                /* what one warp waits for */
        {"h100-sxm", "grid=264 block=1024 issued=1 path=52272000x0", {0, 0, 0}, 100},                            /* 264 blocks have room at once, */
        {"h100-sxm", "grid=265 block=1024 issued=1 path=52470000x0", {0, 0, 0}, 200},                            /* one more has not, */
        {"h100-sxm", "grid=264 block=1024 registers=64 issued=1 path=52272000x0", {0, 0, 0}, 200},               /* nor many that need so many registers, */
        {"h100-sxm", "grid=264 block=32 shared=200000 issued=1 path=52272000x0", {0, 0, 0}, 200},                /* or so much memory */
        {"h100-sxm", "grid=1 block=32 issued=1 fetched=1000000000 path=0x1000", {0, 0, 0}, 142},                 /* trips to L2 */
        {"h100-sxm", "grid=1 block=32 issued=1 path=0x1000", {0, 0, 0}, 1000 * 0.316 * 1.6},                     /* and to memory */
        {"h100-sxm", "grid=132 block=32 issued=528000000 path=132000000x0 barriers=0", {0, 0, 0}, 1e6 / 1980},   /* warps drift apart, */
        {"h100-sxm", "grid=132 block=32 issued=528000000 path=132000000x0 barriers=132", {0, 0, 0}, 2e6 / 1980}, /* or wait for each other */
        {"h100-sxm", "grid=132 block=256", {1e9, 1e9, 1}, 0},                                                    /* not told */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        double got = microseconds(rows[i].device, rows[i].launch, rows[i].code);
        ck_assert_msg(fabs(got - rows[i].microseconds) <= 0.005 * rows[i].microseconds, "%s: %.3f us, expected %.3f", rows[i].launch, got,
                      rows[i].microseconds);
    }
}
END_TEST

/* What `capture --pretend` tells of others' kernels (nvcc 13.0), and milliseconds that they published. */
static const struct {
    const char *device, *name;
    double read, written, operations;
    const char *launch;
    double published;
} kernels[] = {
    /* Steps of a product of 4096 x 4096 in f32: siboehm/SGEMM_CUDA, README.md. */
    {"rtx-a6000", "sgemm_naive", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=128x128 block=32x32 registers=36 issued=21491613696 access=4295990875x73047568207 fetched=17783667596 path=470761472x16793600", 444.8},
    {"rtx-a6000", "sgemm_global_mem_coalesce", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=128x128 block=1024 registers=40 issued=11827937280 access=4295966056x8591408004 fetched=17314063853 path=336543744x16793600", 69.19},
    {"rtx-a6000", "sgemm_shared_mem_block", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=128x128 block=1024 shared=8192 registers=36 issued=5589970795 access=2953807933x3625423159 fetched=17313548984 path=338493440x2113536 "
     "barriers=4194304",
     46.12},
    {"rtx-a6000", "sgemm1DBlocktiling", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=64x64 block=512 shared=4096 registers=44 issued=4066680835 access=940557412x1075313225 fetched=8723054723 path=352686080x2101248 barriers=4194304",
     16.22},
    {"rtx-a6000", "sgemm2DBlocktiling", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=32x32 block=256 shared=8192 registers=128 issued=3107497923 access=202402658x813629780 fetched=4890282137 path=417932288x524288 barriers=1048576",
     8.605},
    {"rtx-a6000", "sgemmVectorize", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=32x32 block=256 shared=8192 registers=116 issued=2816420247 access=163840933x807376885 fetched=4490795134 path=406938624x525312 barriers=1048576",
     7.536},
    {"rtx-a6000", "sgemmResolveBankConflicts", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=32x32 block=256 shared=8192 registers=104 issued=2996792446 access=377758654x555392779 fetched=4465205965 path=402752512x525312 barriers=1048576",
     8.477},
    {"rtx-a6000", "sgemmResolveBankExtraCol", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=32x32 block=256 shared=8352 registers=108 issued=3005100713 access=327423430x1260301792 fetched=4481707965 path=409035776x525312 barriers=1048576",
     8.35},
    {"rtx-a6000", "sgemmAutotuned", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=32x32 block=256 shared=16384 registers=100 issued=2860364602 access=163845964x807386435 fetched=4489601161 path=403784704x263168 barriers=524288",
     6.969},
    {"rtx-a6000", "sgemmWarptiling", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=32x32 block=128 shared=16384 registers=168 issued=2632376699 access=130260557x471552940 fetched=4416016587 path=726205440x262144 barriers=524288",
     6.311},
    {"rtx-a6000", "sgemmDoubleBuffering", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=16x32 block=256 shared=49152 registers=170 issued=2605266562 access=118824082x351305236 fetched=3393715615 path=364154368x65536 barriers=197120",
     7.954},
    /* Transposes of 32768 x 32768 floats: yencal/gpu-matrix-transpose, README.md. */
    {"h100-sxm", "TransposeNaive", 4.295e+09, 4.295e+09, 0,
     "grid=1024x1024 block=32x32 issued=503316480 access=67108863x1140850688 fetched=38654705663 path=26214400x1048576 atomics=2147483648x0", 18.06},
    {"h100-sxm", "TransposeBankConflicts", 4.295e+09, 4.295e+09, 0,
     "grid=1024x1024 block=32x32 shared=5120 issued=1073741824 access=134217727x1207959552 fetched=8589934591 path=81788928x1048576 barriers=1048576", 8.623},
    {"h100-sxm", "TransposeNoBankConflicts", 4.295e+09, 4.295e+09, 0,
     "grid=1024x1024 block=32x32 shared=5248 issued=1006632960 access=134217727x167772160 fetched=8589934591 path=77594624x1048576 barriers=1048576", 5.072},
    {"h100-sxm", "TransposeNoBankConflictsCoarsen", 4.295e+09, 4.295e+09, 0,
     "grid=1024x1024 block=32x16 shared=5248 issued=587202560 access=134217727x167772160 fetched=8589934591 path=63963136x1048576 barriers=1048576", 3.601},
    {"h100-sxm", "TransposeNoBankConflictsCoarsen", 4.295e+09, 4.295e+09, 0,
     "grid=1024x1024 block=32x8 shared=5248 issued=369098752 access=134217727x167772160 fetched=8589934591 path=72351744x1048576 barriers=1048576", 3.098},
    {"h100-sxm", "TransposeVec4Coarsen", 4.295e+09, 4.295e+09, 0,
     "grid=512x512 block=16x8 shared=17664 issued=128974848 access=83886080x201326591 fetched=8589934591 path=27262976x262144 barriers=262144", 2.921},
    /* Held out: steps of such a product, and softmax of 1024 x 65536: annanyapr/Fast-CUDA-Kernels, README.md. */
    {"rtx-4090", "gemm_naive", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=128x128 block=32x32 registers=40 issued=11825840128 access=4295978279x73047354029 fetched=17783666022 path=336478208x16793600", 216.3},
    {"rtx-4090", "gemm_memory_coalesce", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=128x128 block=32x32 registers=40 issued=11825840128 access=4295978279x8591432449 fetched=17314064044 path=336478208x16793600", 28.12},
    {"rtx-4090", "gemm_memory_blocking", 6.819e+07, 6.711e+07, 1.375e+11,
     "grid=128x128 block=1024 shared=8192 registers=38 issued=5854206296 access=2953818296x3625435878 fetched=17313549218 path=355172352x2113536 "
     "barriers=4194304",
     20.85},
    {"rtx-4090", "gemm_2D_blocktiling", 2.013e+08, 6.711e+07, 1.375e+11,
     "grid=64x64 block=64 shared=4096 registers=128 issued=3068490108 access=269439163x1081434392 fetched=9140704061 path=1652969472x2101248 barriers=4194304",
     3.694},
    {"rtx-4090", "soft_max_kernel_naive", 2.684e+08, 2.684e+08, 2.483e+09,
     "grid=4 block=256 registers=38 issued=87556672 access=5827559x186481910 fetched=5098830842 path=6816388x131084", 22.47},
    {"rtx-4090", "soft_max_kernel_shared_memory", 2.684e+08, 2.684e+08, 2.483e+09,
     "grid=1024 block=256 shared=2048 registers=36 issued=126136320 access=10575872x14770176 fetched=536870912 path=50809856x262144 barriers=9216", 0.9085},
    {"rtx-4090", "soft_max_kernel_shuffle", 2.684e+08, 2.684e+08, 2.545e+09,
     "grid=1024 block=256 shared=64 registers=34 issued=122961920 access=6307840x10502144 fetched=536870912 path=50324480x262144 barriers=1024", 0.9084},
};

START_TEST(test_published)
{
    double sums[3] = {0};
    size_t n[3] = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        size_t group = strcmp(kernels[i].device, "rtx-a6000") == 0 ? 0 : strcmp(kernels[i].device, "h100-sxm") == 0 ? 1 : 2;
        g_autoptr(EchDevice) device = ech_test_device(kernels[i].device, NULL);
        double rate = (double)ech_unit_peak(ech_device_unit(device, ECH_UNIT_VECTOR), "f32");
        double told =
            microseconds(kernels[i].device, kernels[i].launch, (EchGpuCode){kernels[i].read, kernels[i].written, kernels[i].operations / rate}) / 1000;
        printf("%-10s %-32s %8.3f ms published, %8.3f told, %+.0f %%\n", kernels[i].device, kernels[i].name, kernels[i].published, told,
               100 * (told / kernels[i].published - 1));
        sums[group] += fabs(told / kernels[i].published - 1);
        n[group]++;
    }
    ck_assert_double_le(sums[0] / (double)n[0], 0.10);
    ck_assert_double_le(sums[1] / (double)n[1], 0.10);
    ck_assert_double_le(sums[2] / (double)n[2], 0.10);
}
END_TEST

/* Atomics, likewise. */
static const struct {
    const char *device, *name;
    double read, written;
    const char *launch;
    double published;
    bool is_held_out;
} atomics[] = {
    /* Sums of 2^25 numbers: "CUDA Kernel Study: Reduction", an A6000. */
    {"rtx-a6000", "reduction_atomic<float>", 1.342e8, 4,
     "grid=131072 block=256 registers=8 issued=9437184 access=2097152x3145728 fetched=171966464 path=2097152x262144 atomics=99614720x99614720", 55.93, false},
    {"rtx-a6000", "reduction_atomic<int>", 1.342e8, 4,
     "grid=131072 block=256 registers=10 issued=9437184 access=2097152x3145728 fetched=171966464 path=2097152x262144 atomics=1048576x1048576", 0.6175, true},
    {"rtx-a6000", "reduction_atomic_shm<float>", 1.342e8, 4,
     "grid=131072 block=256 shared=16 registers=8 issued=15073280 access=2490368x36044800 fetched=142606336 path=2354708480x262144 barriers=262144 "
     "atomics=262144x262144",
     3.021, false},
    /* 256 counters in global memory, of 2^30 bytes: yencal/gpu-histogram-optimization. */
    {"h100-sxm", "HistogramGlobalAtomic", 1.074e9, 1024,
     "grid=4224 block=512 issued=302337024 access=67110912x335554560 fetched=31673241600 path=33610368x4194432 atomics=956097121x478055477", 276.1, false},
    /* PyTorch's scatter_add_ of 4096 x 4096 floats to any place of their row: traces/gpu_h100-sxm and gpu_h200, operators.csv; here a plain kernel's. */
    {"h100-sxm", "scatter", 2.684e8, 6.711e7,
     "grid=131072 block=128 issued=11534336 access=1572864x18874368 fetched=1275068416 path=6422528x262144 atomics=33554432x6826", 0.2581, false},
    {"h200", "scatter", 2.684e8, 6.711e7,
     "grid=131072 block=128 issued=11534336 access=1572864x18874368 fetched=1275068416 path=6422528x262144 atomics=33554432x6826", 0.2234, true},
    /* Sums of two arrays of 8192 x 8192 floats, of which each half warp has a column: the same. */
    {"rtx-3080", "array_add_not_coalesced", 5.369e8, 2.684e8,
     "grid=512x512 block=16x16 registers=12 issued=33554432 access=6291455x100663295 fetched=1610612735 path=6553600x262144 units=67108864x0x0 "
     "atomics=67108863x0",
     2.128, true},
    {"rtx-3060", "array_add_not_coalesced", 5.369e8, 2.684e8,
     "grid=512x512 block=16x16 registers=12 issued=33554432 access=6291455x100663295 fetched=1610612735 path=6553600x262144 units=67108864x0x0 "
     "atomics=67108863x0",
     4.661, true},
    /* Blocks that add 512 counters each to those in global memory: R100001/Programming-Massively-Parallel-Processors. */
    {"rtx-3080", "histogram_shared", 2.684e8, 2048,
     "grid=1048576 block=64 shared=2048 registers=10 issued=291504128 access=54525952x60676877 fetched=4563402752 path=442499072x9437184 barriers=2097152 "
     "atomics=67108864x16777216",
     11.31, true},
    {"rtx-3080", "histogram_shared", 2.684e8, 2048,
     "grid=262144 block=256 shared=2048 registers=10 issued=102760448 access=16777216x22937600 fetched=1342177280 path=39845888x786432 barriers=524288 "
     "atomics=16777216x4194304",
     2.843, true},
    {"rtx-3060", "histogram_shared", 2.684e8, 2048,
     "grid=1048576 block=64 shared=2048 registers=10 issued=291504128 access=54525952x60676877 fetched=4563402752 path=442499072x9437184 barriers=2097152 "
     "atomics=67108864x16777216",
     11.59, true},
    {"rtx-3060", "histogram_shared", 2.684e8, 2048,
     "grid=262144 block=256 shared=2048 registers=10 issued=102760448 access=16777216x22937600 fetched=1342177280 path=39845888x786432 barriers=524288 "
     "atomics=16777216x4194304",
     2.895, true},
};

START_TEST(test_published_atomics)
{
    double sums[2] = {0};
    size_t n[2] = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(atomics); i++) {
        double told = microseconds(atomics[i].device, atomics[i].launch, (EchGpuCode){atomics[i].read, atomics[i].written, 0}) / 1000;
        printf("%-10s %-32s %8.3f ms published, %8.3f told, %+.0f %%\n", atomics[i].device, atomics[i].name, atomics[i].published, told,
               100 * (told / atomics[i].published - 1));
        sums[atomics[i].is_held_out] += fabs(told / atomics[i].published - 1);
        n[atomics[i].is_held_out]++;
    }
    ck_assert_double_le(sums[0] / (double)n[0], 0.06);
    ck_assert_double_le(sums[1] / (double)n[1], 0.12);
}
END_TEST

/* Of its tensor cores' rate an H100 gives a warp less than four together, other devices what their files have, and nothing above the data sheet's. */
START_TEST(test_share_of_tensor_cores)
{
    static const struct {
        const char *device, *launch;
        double share;
    } rows[] = {
        {"h100-sxm", "grid=1 arithmetic=wgmma", 0.87},
        {"h100-sxm", "grid=1 arithmetic=mma", 0.62},
        {"rtx-a6000", "grid=1 arithmetic=mma", 0.886},
        {"rtx-5090", "grid=1 arithmetic=mma", 1},
        {"h100-sxm", "grid=1", 1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(EchDevice) device = ech_test_device(rows[i].device, NULL);
        EchGpuLaunch launch;
        ck_assert(ech_gpu_launch_parse(rows[i].launch, &launch));
        ck_assert_double_eq_tol(ech_gpu_code_share(&launch, device), rows[i].share, 1e-9);
    }
}
END_TEST

/* Its code says more than its name, but of what tensor cores do; and where it says what its warps wait for, the first access is among that. */
START_TEST(test_over_the_name)
{
    static const struct {
        const char *kernel;
        EchPriceSource source;
        double microseconds; /* 0: whatever the class takes */
    } rows[] = {
        {"\"transpose(float*)\" q=0 r=0:4096 launch=\"grid=132 block=256 issued=528000000\"", ECH_PRICE_ROOFLINE, 1e6 / 1980 + 0.5056},
        {"\"transpose(float*)\" q=0 r=0:4096 launch=\"grid=132 block=256 issued=1 path=264000000x0\"", ECH_PRICE_CODE, 2e6 / 1980},
        {"\"product(float*)\" q=0 r=0:4096 work=matrix:bf16:989400000000 launch=\"grid=132 block=256 arithmetic=wgmma issued=1 path=1x0\"", ECH_PRICE_CODE,
         1e3 / 0.87},
        {"\"transpose(float*)\" q=0 r=0:4096 launch=\"grid=132 block=256\"", ECH_PRICE_MODEL, 0},
        {"\"flash_fwd_kernel(float*)\" q=0 r=0:4096 work=matrix:bf16:1000000000 launch=\"grid=132 block=256 issued=528000000\"", ECH_PRICE_MODEL, 0},
    };
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf("echelon-trace 1 \"test\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\nbuffers 1\n"
                                                "b \"a\" m=0 bytes=4096 resident=1\nops 1\nkernel %s\n",
                                                rows[i].kernel);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_test_text(text, &error);
        ck_assert_ok(import, error);
        EchReplayOptions options = {0};
        ech_params_defaults(ech_replay_params, &options);
        g_autoptr(EchRun) run = ech_replay_run(import->trace, device, NULL, &options, &error);
        ech_params_clear(ech_replay_params, &options);
        ck_assert_ok(run, error);
        ck_assert_msg(run->prices[0].source == rows[i].source, "%s: %d", rows[i].kernel, run->prices[0].source);
        double got = (double)run->makespan * 1e-6;
        if (rows[i].microseconds > 0)
            ck_assert_msg(fabs(got - rows[i].microseconds) < 0.01 * rows[i].microseconds, "%s: %.3f us", rows[i].kernel, got);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_code");
    TCase *tcase = tcase_create("gpu_code");
    tcase_add_test(tcase, test_limits);
    tcase_add_test(tcase, test_published);
    tcase_add_test(tcase, test_published_atomics);
    tcase_add_test(tcase, test_share_of_tensor_cores);
    tcase_add_test(tcase, test_over_the_name);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
