/* The kernel model: what a price is made of, that it moves the right way, and that it never breaks. */
#include "models/kernel/kernel.h"
#include "models/kernel/memo.h"
#include "sim/experiment/validate.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static EchLayout layout(const char *text)
{
    EchLayout ret;
    GError *error = NULL;
    ck_assert_ok(ech_layout_parse(text, strlen(text), &ret, NULL, &error), error);
    return ret;
}

static EchDevice *device(const char *name, const char *setting)
{
    const char *settings[] = {setting, NULL};
    return ech_test_device(name, settings);
}

static EchKernelCost price_product(const EchDevice *chip, uint64_t m, uint64_t k, uint64_t n)
{
    EchKernelModel model;
    ck_assert(ech_kernel_model_init(&model, chip, ECH_KERNEL_HARDWARE, NULL));
    g_autofree char *a = g_strdup_printf("bf16[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]{1,0:T(8,128)}", m, k);
    g_autofree char *b = g_strdup_printf("bf16[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]{1,0:T(8,128)}", k, n);
    g_autofree char *c = g_strdup_printf("bf16[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]{1,0:T(8,128)}", m, n);
    EchLayout operands[] = {layout(a), layout(b)}, result = layout(c);
    EchKernel kernel = {.kind = ECH_KERNEL_CONTRACTION,
                        .results = &result,
                        .n_results = 1,
                        .operands = operands,
                        .n_operands = 2,
                        .lhs = 0,
                        .rhs = 1,
                        .fused = true,
                        .contraction = {.batch = 1, .m = m, .n = n, .k = k, .taps = 1, .passes = 1}};
    EchKernelCost cost;
    ech_kernel_price(&model, &kernel, true, &cost);
    return cost;
}

START_TEST(parts_add_up)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    static const uint64_t sizes[] = {8, 100, 128, 1000, 4096};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 5; j++) {
            EchKernelCost cost = price_product(chip, sizes[i], sizes[j], sizes[4 - i]);
            ck_assert_int_eq(cost.time, cost.compute + cost.hbm + cost.space + cost.port + cost.latency + cost.fill + cost.overhead);
            ck_assert_int_gt(cost.time, 0);
            ck_assert_int_ge(cost.fill, 0);
            ck_assert_uint_le(cost.vmem, UINT64_C(16) << 20);
        }
    }
}
END_TEST

/* A large product comes near the unit's peak and never above what the fit allows; a thin one is bound by its weights. */
START_TEST(bounds)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    EchKernelCost cost = price_product(chip, 8192, 8192, 8192);
    double ideal = 2.0 * 8192 * 8192 * 8192 / 197e12 * 1e12;
    ck_assert_double_gt((double)cost.time, 0.97 * ideal);
    ck_assert_double_lt((double)cost.time, 1.25 * ideal);
    EchKernelCost thin = price_product(chip, 8, 8192, 8192);
    double bytes = 2.0 * 8192 * 8192 / 819e9 * 1e12;
    ck_assert_double_gt((double)thin.time, bytes);
    ck_assert_double_lt((double)thin.time, 1.6 * bytes);
}
END_TEST

/* More bandwidth never makes a kernel slower; half of it makes a thin product almost twice as slow. */
START_TEST(counterfactuals)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    g_autoptr(EchDevice) half = device("tpu-v5e", "memories.hbm.read=x0.5");
    EchKernelCost base = price_product(chip, 8, 8192, 8192), slow = price_product(half, 8, 8192, 8192);
    double ratio = (double)slow.time / (double)base.time;
    ck_assert_double_gt(ratio, 1.7);
    ck_assert_double_lt(ratio, 2.05);
    g_autoptr(EchDevice) small = device("tpu-v5e", "memories.vector.kernel_reserved=4MiB");
    EchKernelCost wide = price_product(chip, 4096, 4096, 4096), narrow = price_product(small, 4096, 4096, 4096);
    ck_assert_int_gt(narrow.time, wide.time);
    ck_assert_uint_le(narrow.vmem, UINT64_C(4) << 20);
}
END_TEST

/* A stream's time grows by its bytes, and its view decides what 16-bit results cost. */
START_TEST(streams)
{
    g_autoptr(EchDevice) chip = device("tpu-v6e", NULL);
    EchKernelModel hardware, compiler;
    ck_assert(ech_kernel_model_init(&hardware, chip, ECH_KERNEL_HARDWARE, NULL));
    ck_assert(ech_kernel_model_init(&compiler, chip, ECH_KERNEL_COMPILER, NULL));
    EchLayout wide = layout("bf16[8192,4096]{1,0:T(8,128)(2,1)}");
    EchKernel kernel = {.kind = ECH_KERNEL_STREAM, .results = &wide, .n_results = 1, .operands = &wide, .n_operands = 1, .fused = true, .body = {.simple = 1}};
    EchKernelCost real, estimate;
    ech_kernel_price(&hardware, &kernel, true, &real);
    ech_kernel_price(&compiler, &kernel, true, &estimate);
    ck_assert_int_lt(real.time, estimate.time);
    ck_assert_uint_eq(real.hbm_read, UINT64_C(8192) * 4096 * 2);
    ck_assert_uint_eq(real.hbm_written, real.hbm_read);
    EchLayout scalar = layout("f32[]");
    kernel.results = kernel.operands = &scalar;
    ech_kernel_price(&hardware, &kernel, false, &real);
    ck_assert_uint_eq(real.hbm_read, 0);
    ck_assert_int_gt(real.time, 0);
}
END_TEST

static EchKernelCost price_as(const EchDevice *chip, EchKernelView view, const EchKernel *kernel)
{
    EchKernelModel model;
    EchKernelCost cost;
    ck_assert(ech_kernel_model_init(&model, chip, view, NULL));
    ech_kernel_price(&model, kernel, false, &cost);
    return cost;
}

/* The bandwidth that a copy reaches by its size is a fixed time before the first byte and one rate: half of it or less at 2 MiB, nearly all at 128 MiB. */
START_TEST(size_ramp)
{
    g_autoptr(EchDevice) chip = device("tpu7x", NULL);
    double before = 0, rate = (double)ech_device_memory_kind(chip, ECH_MEM_HBM)->read;
    EchTime fixed = 0;
    for (unsigned mib = 2; mib <= 1024; mib *= 2) {
        g_autofree char *text = g_strdup_printf("bf16[%u]{0:T(1024)(128)(2,1)}", mib << 19);
        EchLayout vector = layout(text);
        EchKernel kernel = {.kind = ECH_KERNEL_COPY, .results = &vector, .n_results = 1, .operands = &vector, .n_operands = 1};
        EchKernelCost cost = price_as(chip, ECH_KERNEL_HARDWARE, &kernel);
        double bytes = 2.0 * 1048576 * mib, reached = bytes / ((double)cost.time * 1e-12);
        ck_assert_double_gt(reached, before);
        before = reached;
        if (mib == 2) {
            ck_assert_double_lt(reached, rate / 2);
            fixed = cost.time - (EchTime)(bytes / rate * 1e12);
        }
        if (mib == 128)
            ck_assert_double_gt(reached, 0.97 * rate);
        ck_assert_double_lt(fabs((double)(cost.time - fixed) / (bytes / rate * 1e12) - 1), 1e-3);
    }
}
END_TEST

/* What windows take: a core that has one step fetches nothing ahead; a copy holds what it reads and what it writes; parts of f32 operands in several
 * passes lie beside them. */
START_TEST(windows_on_chip)
{
    g_autoptr(EchDevice) one = device("tpu-v5e", NULL), two = device("tpu-v5p", NULL);
    EchLayout wide = layout("f32[1024,1024]{1,0:T(8,128)}");
    EchKernel kernel = {.kind = ECH_KERNEL_STREAM,
                        .results = &wide,
                        .n_results = 1,
                        .operands = &wide,
                        .n_operands = 1,
                        .fused = true,
                        .body = {.simple = 1},
                        .windows = {.n_output = 2, .n_iterations = 2, .output = {64, 8}, .iterations = {2, 1}, .buffers = 2}};
    EchBytes window = UINT64_C(64) * 8 * 1024 * 4;
    ck_assert_uint_eq(price_as(one, ECH_KERNEL_HARDWARE, &kernel).vmem, 2 * 2 * window);
    ck_assert_uint_eq(price_as(two, ECH_KERNEL_HARDWARE, &kernel).vmem, 2 * window);
    kernel.kind = ECH_KERNEL_COPY;
    ck_assert_uint_eq(price_as(one, ECH_KERNEL_HARDWARE, &kernel).vmem, 2 * 2 * window);
    kernel.windows.buffers = 0; /* turned round: the compiler names no depth, and two windows are held all the same */
    kernel.windows.n_input = 2;
    kernel.windows.input[0] = 32;
    kernel.windows.input[1] = 8;
    ck_assert_uint_eq(price_as(one, ECH_KERNEL_HARDWARE, &kernel).vmem, 2 * (window + window / 2));
    EchLayout operands[] = {layout("f32[512,512]{1,0:T(8,128)}"), layout("f32[512,512]{1,0:T(8,128)}")}, result = layout("f32[512,512]{1,0:T(8,128)}");
    EchKernel product = {.kind = ECH_KERNEL_CONTRACTION,
                         .results = &result,
                         .n_results = 1,
                         .operands = operands,
                         .n_operands = 2,
                         .rhs = 1,
                         .fused = true,
                         .contraction = {.batch = 1, .m = 512, .n = 512, .k = 512, .taps = 1, .passes = 6},
                         .windows = {.n_kernel = 2,
                                     .n_output = 2,
                                     .n_input = 2,
                                     .n_iterations = 3,
                                     .kernel = {64, 4},
                                     .output = {64, 4},
                                     .input = {64, 4},
                                     .iterations = {1, 1, 1},
                                     .buffers = 2}};
    ck_assert_uint_eq(price_as(one, ECH_KERNEL_HARDWARE, &product).vmem, UINT64_C(512) * 512 * (3 * 4 + 10 + 8));
}
END_TEST

/* Where operands lie decides how many copies a product starts with: on chip there is nothing to wait for. */
START_TEST(operands_on_chip)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    EchTime last = 0;
    static const char *const places[][3] = {{"S(1)", "S(1)", "S(1)"}, {"S(1)", "S(1)", ""}, {"S(1)", "", ""}, {"", "", ""}};
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        EchLayout arrays[3];
        for (size_t k = 0; k < 3; k++) {
            g_autofree char *text = g_strdup_printf("bf16[256,256]{1,0:T(8,128)(2,1)%s}", places[i][k]);
            arrays[k] = layout(text);
        }
        EchKernel kernel = {.kind = ECH_KERNEL_CONTRACTION,
                            .results = &arrays[2],
                            .n_results = 1,
                            .operands = arrays,
                            .n_operands = 2,
                            .lhs = 0,
                            .rhs = 1,
                            .fused = true,
                            .contraction = {.batch = 1, .m = 256, .n = 256, .k = 256, .taps = 1, .passes = 1},
                            .windows = {.n_kernel = 2,
                                        .n_output = 2,
                                        .n_input = 2,
                                        .n_iterations = 3,
                                        .buffers = 2,
                                        .kernel = {32, 2},
                                        .output = {32, 2},
                                        .input = {32, 2},
                                        .iterations = {1, 1, 1}}};
        EchKernelCost cost = price_as(chip, ECH_KERNEL_HARDWARE, &kernel);
        ck_assert_int_gt(cost.time, last + (i > 0 ? 900 * ECH_PS_PER_NS : 0)); /* a copy's latency more each: 1.2 us on this chip */
        last = cost.time;
    }
    ck_assert_int_lt(last, 10 * ECH_PS_PER_US);
}
END_TEST

/* Two cores that share a device's kernels halve what steps cost one after the other, not what the memory takes. */
START_TEST(cores_share_steps)
{
    g_autoptr(EchDevice) both = device("tpu-v5p", NULL);
    g_autoptr(EchDevice) one = device("tpu-v5p", "kernel.megacore=1");
    EchLayout array = layout("f32[8192,1024]{1,0:T(8,128)}");
    EchKernel kernel = {.kind = ECH_KERNEL_STREAM,
                        .results = &array,
                        .n_results = 1,
                        .operands = &array,
                        .n_operands = 1,
                        .fused = true,
                        .body = {.simple = 1},
                        .windows = {.n_output = 2, .n_iterations = 2, .buffers = 2, .output = {16, 8}, .iterations = {64, 1}}};
    EchKernelCost two = price_as(both, ECH_KERNEL_COMPILER, &kernel), single = price_as(one, ECH_KERNEL_COMPILER, &kernel);
    ck_assert_int_le(llabs(single.latency - 2 * two.latency), 2);
    ck_assert_int_eq(single.hbm, two.hbm);
}
END_TEST

/* Numbers of a device file that no chip has: a price all the same. */
START_TEST(absurd_numbers)
{
    static const char *const settings[] = {"kernel.megacore=4294967296", "kernel.megacore=1e30",    "kernel.megacore=-1",         "kernel.window_bytes=-1",
                                           "kernel.window_bytes=1e30",   "kernel.step_cycles=1e30", "kernel.matrix_efficiency=0", "kernel.stage_weights=-1"};
    g_autoptr(EchDevice) chip = device("tpu-v5p", settings[_i]);
    EchKernelCost cost = price_product(chip, 1000, 1000, 1000);
    ck_assert_int_gt(cost.time, 0);
    ck_assert_uint_gt(cost.blocks.steps, 0);
    ck_assert_uint_lt(cost.vmem, UINT64_C(1) << 40);
}
END_TEST

/* Where no blocks of a product fit, the compiler would have cut it otherwise: it is priced as if they did, not by thousands of steps of the smallest. */
START_TEST(blocks_that_fit_nowhere)
{
    g_autoptr(EchDevice) chip = device("tpu-v5p", NULL), small = device("tpu-v5p", "kernel.window_bytes=4096"),
                         large = device("tpu-v5p", "kernel.window_bytes=1e12");
    EchKernelCost usual = price_product(chip, 1024, 1024, 1024), none = price_product(small, 1024, 1024, 1024), all = price_product(large, 1024, 1024, 1024);
    ck_assert_int_eq(none.time, all.time);
    ck_assert_int_le(none.time, usual.time);
}
END_TEST

/* A copy that keeps its lanes moves bytes; one that makes them rows passes every register through the cross-lane unit. */
START_TEST(relayouts)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    EchLayout from = layout("f32[64,1024,1024]{2,1,0:T(8,128)}"), rows = layout("f32[64,1024,1024]{2,0,1:T(8,128)}"),
              lanes = layout("f32[64,1024,1024]{1,2,0:T(8,128)}");
    EchKernel kernel = {.kind = ECH_KERNEL_COPY, .results = &rows, .n_results = 1, .operands = &from, .n_operands = 1};
    EchKernelCost plain = price_as(chip, ECH_KERNEL_HARDWARE, &kernel);
    kernel.results = &lanes;
    EchKernelCost crossed = price_as(chip, ECH_KERNEL_HARDWARE, &kernel);
    ck_assert_int_eq(plain.compute, 0);
    ck_assert_int_gt(crossed.compute, 200 * ECH_PS_PER_US); /* 65536 registers, 5 cycles each */
    ck_assert_int_gt(crossed.time, plain.time + crossed.compute / 2);
}
END_TEST

/* Small products of a batch go into a step together. */
START_TEST(batches)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    EchKernelModel model;
    ck_assert(ech_kernel_model_init(&model, chip, ECH_KERNEL_COMPILER, NULL));
    EchLayout operands[] = {layout("bf16[64,128,64]{2,1,0:T(8,128)(2,1)}"), layout("bf16[64,64,128]{2,1,0:T(8,128)(2,1)}")},
              result = layout("bf16[64,128,128]{2,1,0:T(8,128)(2,1)}");
    EchKernel kernel = {.kind = ECH_KERNEL_CONTRACTION,
                        .results = &result,
                        .n_results = 1,
                        .operands = operands,
                        .n_operands = 2,
                        .lhs = 0,
                        .rhs = 1,
                        .fused = true,
                        .contraction = {.batch = 64, .m = 128, .n = 128, .k = 64, .taps = 1, .passes = 1}};
    EchKernelCost cost;
    ech_kernel_price(&model, &kernel, true, &cost);
    ck_assert_uint_ge(cost.blocks.batch, 8);
    ck_assert_uint_le(cost.blocks.steps, 8);
    ck_assert_uint_le(cost.vmem, model.budget);
    ck_assert_int_lt(cost.time, 40 * ECH_PS_PER_US); /* the compiler says 16.5 us */
}
END_TEST

START_TEST(tables)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    static const char header[] =
        "chip,mode,case,kind,flops,instr,opcode,fusion,out,operands,body,estimated_cycles,kernel_window,output_window,input_window,iterations,buffering,"
        "scoped_vmem,emitter,cost_model\n";
    static const char *const bad[] = {
        "v5e,hbm,a,b,0,i,add,,\"f32[8,128\",,add:1,1,,,,,2,0,,\n",
        "v5e,hbm,a,b,0,i,add,,\"f32[8,128]\",,add:x,1,,,,,2,0,,\n",
        "v5e,hbm,a,b,0,i,add,,\"f32[8,128]\",,add:1,x,,,,,2,0,,\n",
        "v5e,hbm,a,b,0,i,add,,\"f32[8,128]\",,add:1,1,,0 1,,,2,0,,\n",
        "short,row\n",
        "v5e,hbm,a,b,0,i,add,,\"f32[8,128]\",,add:1,1,,1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1,,,2,0,,\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *text = g_strconcat(header, bad[i], NULL);
        g_autoptr(GError) error = NULL;
        ck_assert(ech_validate_is_table(text, strlen(text)));
        ck_assert_ptr_null(ech_validate_table("t.csv", text, strlen(text), chip, false, &error));
        ck_assert_msg(g_str_has_prefix(error->message, "t.csv:2: "), "%s", error->message);
    }
    /* A convolution in three dimensions has nine bounds. */
    static const char deep[] =
        "v5e,hbm,a,b,0,i,add,,\"f32[8,128]{1,0:T(8,128)}\",\"f32[8,128]{1,0:T(8,128)}\",add:1,2000,1 1 1 1 1 1 1 1 1,1 1,,1 1,2,8192,,\n";
    g_autofree char *with = g_strconcat(header, deep, NULL);
    g_autoptr(EchValidation) nine = ech_validate_table("t.csv", with, strlen(with), chip, false, NULL);
    ck_assert_ptr_nonnull(nine);
    ck_assert_uint_eq(nine->n_pairs, 1);
    static const char good[] = "v5e,hbm,a,b,0,i,add,,\"f32[8,128]{1,0:T(8,128)}\",\"f32[8,128]{1,0:T(8,128)}\",add:1,2000,,1 1,,1 1,2,8192,,\n";
    g_autofree char *text = g_strconcat(header, good, NULL);
    GError *error = NULL;
    g_autoptr(EchValidation) validation = ech_validate_table("t.csv", text, strlen(text), chip, false, &error);
    ck_assert_ptr_nonnull(validation);
    ck_assert_uint_eq(validation->n_pairs, 1);
    ck_assert_str_eq(validation->pairs[0].name, "hbm/a/i");
    ck_assert_uint_eq(validation->pairs[0].vmem_predicted, 8192);
}
END_TEST

/* A remembered price is the one that would be computed, whatever the kernel differs in from those that were asked for before. */
START_TEST(memories_do_not_mix)
{
    g_autoptr(EchDevice) chip = device("tpu-v5e", NULL);
    EchKernelModel models[2];
    ck_assert(ech_kernel_model_init(&models[0], chip, ECH_KERNEL_HARDWARE, NULL) && ech_kernel_model_init(&models[1], chip, ECH_KERNEL_COMPILER, NULL));
    static const char *const texts[] = {"bf16[1000,4096]{1,0:T(8,128)(2,1)}",           "f32[1000,4096]{1,0:T(8,128)}",
                                        "bf16[4096,1000]{1,0:T(8,128)(2,1)}",           "bf16[1000,4096]{0,1:T(8,128)(2,1)}",
                                        "bf16[1000,4096]{1,0:T(8,128)(2,1)S(1)}",       "bf16[1000,4096]{1,0:T(16,128)(2,1)}",
                                        "bf16[1000,4096]{1,0:T(8,128)(2,1)L(1048576)}", "bf16[1000,4096]{1,0:T(8,128)(2,1)E(32)}"};
    EchLayout layouts[G_N_ELEMENTS(texts)];
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        layouts[i] = layout(texts[i]);
    const EchLayout square = layout("bf16[4096,4096]{1,0:T(8,128)(2,1)}");
    const EchBytes few[] = {1 << 20, 1 << 20, 1 << 20};
    const uint8_t sides[2][3] = {{ECH_KERNEL_SIDE_LHS, ECH_KERNEL_SIDE_RHS, ECH_KERNEL_SIDE_LHS},
                                 {ECH_KERNEL_SIDE_LHS, ECH_KERNEL_SIDE_RHS, ECH_KERNEL_SIDE_RHS}};
    g_autoptr(EchKernelMemo) memo = ech_kernel_memo_new();
    unsigned differ = 0;
    for (unsigned round = 0; round < 2; round++) /* all are remembered in the second */
        for (unsigned kind = 0; kind < 2; kind++) {
            EchTime plain = 0;
            for (unsigned change = 0; change < 20 + 2 * G_N_ELEMENTS(texts); change++) {
                EchLayout operands[] = {layouts[0], square, square}, result = layouts[0];
                EchKernel kernel = {.kind = kind ? ECH_KERNEL_CONTRACTION : ECH_KERNEL_STREAM,
                                    .results = &result,
                                    .n_results = 1,
                                    .operands = operands,
                                    .n_operands = 3,
                                    .rhs = 1,
                                    .fused = true,
                                    .body = {.simple = 1},
                                    .contraction = {.batch = 1, .m = 1000, .n = 4096, .k = 4096, .taps = 1, .passes = 1}};
                bool own_tiles = true;
                const EchKernelModel *model = &models[0];
                switch (change) {
                case 0: break;
                case 1: kernel.operand_bytes = few; break;
                case 2: kernel.result_bytes = few; break;
                case 3: kernel.sides = sides[0]; break;
                case 4: kernel.sides = sides[1]; break;
                case 5: kernel.body.simple = 300; break;
                case 6: kernel.body.transcendental = 100; break;
                case 7: kernel.body.reduce = 2; break;
                case 8: kernel.contraction.m = 500; break;
                case 9: kernel.contraction.passes = 6; break;
                case 10: kernel.contraction.lhs_transposed = true; break;
                case 11: kernel.fused = false; break;
                case 12: kernel.n_operands = 2; break;
                case 13: kernel.rhs = 2; break;
                case 14: own_tiles = false; break;
                case 15: model = &models[1]; break;
                case 16: kernel.body.spread = 1e5; break;
                case 17: kernel.kind = ECH_KERNEL_COPY; break;
                case 18:
                    kernel.kind = ECH_KERNEL_GATHER;
                    kernel.gathered_rows = 77;
                    break;
                case 19:
                    kernel.kind = ECH_KERNEL_GATHER;
                    kernel.gathered_rows = 7700;
                    break;
                default: *(change % 2 ? &operands[0] : &result) = layouts[(change - 20) / 2];
                }
                EchKernelCost computed = {0}, asked = {0};
                ech_kernel_price(model, &kernel, own_tiles, &computed);
                ech_kernel_memo_price(memo, model, &kernel, own_tiles, &asked);
                ck_assert_msg(asked.time == computed.time && asked.vmem == computed.vmem && asked.hbm_read == computed.hbm_read && asked.macs == computed.macs,
                              "kind %u, change %u: %" G_GINT64_FORMAT " ps, not %" G_GINT64_FORMAT, kind, change, asked.time, computed.time);
                plain = change ? plain : computed.time;
                differ += computed.time != plain;
            }
        }
    ck_assert_uint_gt(differ, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel");
    TCase *test = tcase_create("kernel");
    tcase_add_test(test, parts_add_up);
    tcase_add_test(test, bounds);
    tcase_add_test(test, counterfactuals);
    tcase_add_test(test, streams);
    tcase_add_test(test, size_ramp);
    tcase_add_test(test, windows_on_chip);
    tcase_add_test(test, operands_on_chip);
    tcase_add_test(test, cores_share_steps);
    tcase_add_loop_test(test, absurd_numbers, 0, 8);
    tcase_add_test(test, blocks_that_fit_nowhere);
    tcase_add_test(test, relayouts);
    tcase_add_test(test, batches);
    tcase_add_test(test, memories_do_not_mix);
    tcase_add_test(test, tables);
    suite_add_tcase(suite, test);
    return ech_test_main(suite);
}
