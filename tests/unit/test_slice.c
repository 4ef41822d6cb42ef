/* The slice pass: kernels that update stacked arrays in place, a slice at a time. Traces made by hand, and what compilers make of the same asked for. */
#include "models/device/device_yaml.h"
#include "tests/support/made.h"

#include <check.h>
#include <math.h>

/* A gigabyte takes 10 ms through the memory and 100 ms over the link. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 80GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  matrix: {peaks: {bf16: 100TFLOP/s}}\n  vector: {peaks: {f32: 10TFLOP/s}}\n";
static const EchTime ms = ECH_TEST_MS;
static const EchBytes GB = 1000000000, large = 4000000000; /* 10 x 1000 x 100000 f32 */

static EchId array(EchTraceBuilder *b, const char *name, const char *shape, EchBytes bytes)
{
    EchId id = ech_test_buffer(b, name, bytes, ECH_ROLE_PARAMETER, true);
    ech_trace_builder_peek_buffer(b, id)->shape = ech_trace_builder_string(b, shape, -1);
    return id;
}

/* What of the update is another, and in how many slices it goes then. */
static const struct {
    const char *weights, *gradient, *launch, *spec;
    EchBytes gradient_bytes, beside, written;
    bool in_place, matrix;
    uint64_t slices;
} updates[] = {
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 10},
    {"f32[10,1000,100000]{2,1,0:T(8,128)}", "bf16[10,1000,100000]{2,1,0:T(8,128)(2,1)}", NULL, "slice", 2000000000, 4, 4000000000, true, false, 10},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice:names=w*", 4000000000, 4, 4000000000, true, false, 10},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice:names=v*", 4000000000, 4, 4000000000, true, false, 0},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice:above=5GB", 4000000000, 4, 4000000000, true, false, 0},
    /* Elements may hang on each other: it does not work in place, or multiplies matrices. */
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, false, false, 0},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, true, 0},
    /* No stack, one that does not lie layer after layer, one of a single layer, and one of too many: of features, before heads. */
    {"f32[10000,100000]{1,0}", "f32[10000,100000]{1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 0},
    {"f32[10,1000,100000]{2,0,1}", "f32[10,1000,100000]{2,0,1}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 0},
    {"f32[1,10000,100000]{2,1,0}", "f32[1,10000,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 0},
    {"f32[10000,1000,100]{2,1,0}", "f32[10000,1000,100]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 0},
    {"f32[500,2,1000]{2,1,0}", "f32[500,2,1000]{2,1,0}", NULL, "slice", 4000000, 4, 4000000, true, false, 0},
    {"f32[10,1000,100000]", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 0},
    /* Of another shape, read in part, and with more beside it than rates are. */
    {"f32[10,1000,100000]{2,1,0}", "f32[1000,10,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 4000000000, true, false, 0},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 400000000, 4, 4000000000, true, false, 0},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 4000000000, 409600, 4000000000, true, false, 0},
    {"f32[10,1000,100000]{2,1,0}", "f32[10,1000,100000]{2,1,0}", NULL, "slice", 4000000000, 4, 2000000000, true, false, 0},
};

static EchTrace *update(int i)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchBytes size = updates[i].written < GB ? updates[i].written : large;
    EchId w = array(b, "w", updates[i].weights, size), g = array(b, "g", updates[i].gradient, size);
    EchId rate = array(b, "rate", "f32[102400]{0}", 409600);
    ech_trace_builder_peek_buffer(b, g)->bytes = MAX(updates[i].gradient_bytes, size / 2);
    ech_test_kernel(b, 0, g, ECH_READ, updates[i].gradient_bytes);
    ech_trace_builder_use(b, rate, ECH_READ, updates[i].beside, ECH_PATTERN_STREAM, ECH_INFERRED);
    if (updates[i].in_place)
        ech_trace_builder_use(b, w, ECH_READ, updates[i].written, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(b, w, ECH_WRITE, updates[i].written, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_work(b, updates[i].matrix ? ECH_WORK_MATRIX : ECH_WORK_VECTOR, ECH_DTYPE_F32, 3000000000, ECH_INFERRED);
    return ech_test_finish(b);
}

START_TEST(which)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    const char *const specs[] = {updates[_i].spec, NULL};
    g_autoptr(EchTrace) in = update(_i);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_int_eq(out != in, updates[_i].slices > 0);
    ck_assert(ech_test_says(diag, updates[_i].slices ? "slice: 1 kernel that updates 3.73 GiB in place does it 10 slices one after the other"
                                                     : "slice: left the trace as it is"));
    if (updates[_i].slices == 0)
        return;
    const EchOp *loop = ech_test_op(out, ECH_OP_LOOP, NULL), *kernel = ech_test_op(out, ECH_OP_KERNEL, NULL);
    ck_assert_uint_eq(loop->bytes, updates[_i].slices);
    ck_assert_uint_eq(loop->target, 1);
    for (uint32_t u = 0; u < kernel->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(out)[kernel->first_use + u];
        EchBytes whole = u == 0 ? updates[_i].gradient_bytes : u == 1 ? 0 : large;
        ck_assert_uint_eq(use->bytes, whole ? whole / 10 : updates[_i].beside);
    }
    ck_assert_uint_eq(ech_trace_work(out)[kernel->first_work].count, 300000000);
    g_autoptr(EchRun) before = ech_test_replay(in, device), after = ech_test_replay(out, device);
    ck_assert_int_le(llabs(before->makespan - after->makespan), 1000);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), ech_test_peak(after, "hbm"));
}
END_TEST

/* Blocks one after the other, one array of which has three dimensions: no layers. */
START_TEST(mostly_others)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    for (unsigned k = 0; k < 3; k++) {
        EchId w = array(b, "w", k == 0 ? updates[0].weights : "f32[10000,100000]{1,0}", large);
        ech_test_kernel(b, 0, w, ECH_READ, large);
        ech_trace_builder_use(b, w, ECH_WRITE, large, ECH_PATTERN_STREAM, ECH_INFERRED);
    }
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"slice", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert(out == in);
    ck_assert(ech_test_says(diag, "slice: left the trace as it is: most of what is updated in place is no stack of layers"));
}
END_TEST

/* What the program makes itself, of the rows of a batch, is no stack of layers, and counts for nothing where there are some. */
START_TEST(of_what_is_given)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    for (unsigned k = 0; k < 3; k++) {
        bool given = k == 0 && _i == 1;
        EchId w = array(b, "w", given ? updates[0].weights : "f32[20,1000,50000]{2,1,0}", large);
        ech_trace_builder_peek_buffer(b, w)->role = given ? ECH_ROLE_PARAMETER : ECH_ROLE_TEMPORARY;
        ech_trace_builder_peek_buffer(b, w)->resident = given;
        if (!given)
            (void)ech_test_put(b, ECH_OP_ALLOC, w);
        ech_test_kernel(b, 0, w, ECH_READ, large);
        ech_trace_builder_use(b, w, ECH_WRITE, large, ECH_PATTERN_STREAM, ECH_INFERRED);
        if (!given)
            (void)ech_test_put(b, ECH_OP_FREE, w);
    }
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"slice", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_int_eq(out != in, _i);
    ck_assert(ech_test_says(diag, _i ? "slice: 1 kernel that updates 3.73 GiB" : "slice: left the trace as it is: no kernel updates stacked arrays"));
}
END_TEST

/* What an offload after it moves: slices, each waited for, or beside one another. An update of 120 ms, copies of 400 each way. */
static const struct {
    const char *specs[3];
    EchTime makespan;
    EchBytes hbm;
} offloaded[] = {
    {{"offload:what=arguments,names=w", NULL}, 120 + 800, 8000000000},
    {{"slice", "offload:what=arguments,names=w", NULL}, 120 + 800, 4400000000},
    {{"slice", "offload:what=arguments,names=w,overlap=true", NULL}, 12 + 400 + 9 * 12 + 40, 0},
};

START_TEST(then_offloaded)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = update(0);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, offloaded[_i].specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - offloaded[_i].makespan * ms) <= ms / 1000, "%" G_GINT64_FORMAT, run->makespan);
    if (offloaded[_i].hbm)
        ck_assert_uint_eq(ech_test_peak(run, "hbm") - 409600, offloaded[_i].hbm);
    ck_assert_uint_eq(ech_test_peak(run, "host"), large);
}
END_TEST

/* Inside of a loop, with what waits for it and what it waits for; how it is launched goes by the slice. */
static const struct {
    const char *whole, *slice;
} launches[] = {
    {"grid=1000x1x1 block=128x1x1 elements=1000000000 operand_bytes=4", "grid=100x1x1 block=128x1x1 elements=100000000 operand_bytes=4"},
    {"compute_ps=1000 hbm_ps=5000 vmem_bytes=4096 vector=1", "compute_ps=100 hbm_ps=500 vmem_bytes=4096 vector=1"},
    {"unknown", "unknown"},
};

START_TEST(launched_in_a_loop)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId w = array(b, "w", updates[0].weights, large), other = ech_test_buffer(b, "other", GB, ECH_ROLE_PARAMETER, true);
    EchId loop = ech_test_loop(b, 3);
    for (unsigned k = 0; k < 3; k++) {
        ech_test_kernel(b, 0, k == 1 ? w : other, ECH_READ, k == 1 ? large : GB);
        EchId kernel = (EchId)ech_trace_builder_n_ops(b) - 1;
        if (k == 1) {
            ech_trace_builder_use(b, w, ECH_WRITE, large, ECH_PATTERN_STREAM, ECH_INFERRED);
            ech_trace_builder_peek_op(b, kernel)->launch = ech_trace_builder_string(b, launches[_i].whole, -1);
            ech_trace_builder_peek_op(b, kernel)->name = ech_trace_builder_string(b, "update", -1);
            ech_trace_builder_peek_op(b, kernel)->estimate = 200 * ms;
        }
        if (k > 0)
            ech_trace_builder_dep(b, kernel - 1, 0);
    }
    ech_test_close_loop(b, loop);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"slice", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    const EchOp *ops = ech_trace_ops(out), *kernel = ech_test_op(out, ECH_OP_KERNEL, "update");
    ck_assert_uint_eq(ech_trace_n_ops(out), ech_trace_n_ops(in) + 1);
    ck_assert_uint_eq(ops[0].target, 4);
    ck_assert_str_eq(ech_trace_string(out, kernel->launch), launches[_i].slice);
    ck_assert_int_eq(kernel->estimate, 20 * ms);
    /* The loop stands where the kernel stood. */
    ck_assert_uint_eq(ech_trace_deps(out)[ops[2].first_dep].op, 1);
    ck_assert_uint_eq(ech_trace_deps(out)[ops[4].first_dep].op, 2);
    ck_assert_uint_eq(kernel->n_deps, 0);
}
END_TEST

/* Adam over stacks, without offload: what the pass says of its update by layers with the moments on the host, and what the compiler makes of that; and
 * moments brought back whole, which need more than they do without offload. */
static const struct {
    const char *chip, *device, *offload;
    double least, most; /* of the memory compiled */
} compiled[] = {
    {"v5e", "tpu-v5e", "offload:what=arguments,names=moments*,overlap=true", 0.7, 1.02},
    {"v6e", "tpu-v6e", "offload:what=arguments,names=moments*,overlap=true", 0.85, 1.02},
    {"h100", "h100-sxm", "offload:what=arguments,names=moments*", 0.93, 1.02},
};

START_TEST(as_compiled)
{
    g_autofree char *none = g_strdup_printf(ECH_SOURCE_DIR "/traces/adam_stacked_none.%s", compiled[_i].chip);
    g_autofree char *layers = g_strdup_printf(ECH_SOURCE_DIR "/traces/adam_stacked_layers.%s", compiled[_i].chip);
    g_autofree char *whole = g_strdup_printf(ECH_SOURCE_DIR "/traces/adam_stacked_whole.%s", compiled[_i].chip);
    const char *passes[] = {"slice", compiled[_i].offload, NULL};
    const EchExperimentOverrides told = {.trace = none, .device = compiled[_i].device, .engine = "native", .passes = passes},
                                 base = {.trace = none, .device = compiled[_i].device, .engine = "native"},
                                 asked = {.trace = layers, .device = compiled[_i].device, .engine = "native"},
                                 at_once = {.trace = whole, .device = compiled[_i].device, .engine = "native"};
    g_autoptr(EchResult) predicted = ech_test_run(&told), made = ech_test_run(&asked), kept = ech_test_run(&base), brought = ech_test_run(&at_once);
    double memory = (double)ech_test_peak(predicted->run, "hbm") / (double)ech_test_peak(made->run, "hbm");
    double time = (double)predicted->run->makespan / (double)made->run->makespan;
    ck_assert_msg(memory >= compiled[_i].least && memory <= compiled[_i].most, "memory %g", memory);
    ck_assert_msg(fabs(time - 1) < 0.1, "time %g", time);
    ck_assert_uint_eq(ech_test_peak(predicted->run, "host"), ech_test_peak(made->run, "host"));
    ck_assert_uint_lt(2 * ech_test_peak(made->run, "hbm"), ech_test_peak(kept->run, "hbm"));
    ck_assert_uint_gt(ech_test_peak(brought->run, "hbm"), ech_test_peak(kept->run, "hbm"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slice");
    TCase *tcase = tcase_create("slice");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, which, 0, G_N_ELEMENTS(updates));
    tcase_add_test(tcase, mostly_others);
    tcase_add_loop_test(tcase, of_what_is_given, 0, 2);
    tcase_add_loop_test(tcase, then_offloaded, 0, G_N_ELEMENTS(offloaded));
    tcase_add_loop_test(tcase, launched_in_a_loop, 0, G_N_ELEMENTS(launches));
    tcase_add_loop_test(tcase, as_compiled, 0, G_N_ELEMENTS(compiled));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
