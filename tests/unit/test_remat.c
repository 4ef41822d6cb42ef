/* The rematerialisation pass: what is made again, in closed form on the engine; and on shipped programs, what may not change. */
#include "models/device/device_yaml.h"
#include "sim/pass/remat.h"
#include "sim/report/report.h"
#include "tests/support/made.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A gigabyte takes 10 ms through the memory. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n  matrix: {peaks: {f32: 10GFLOP/s}}\n";
static const EchTime ms = ECH_TEST_MS;
static const EchBytes GB = 1000000000;

/* Reads @from, computes for @time and writes @to. */
static void make(EchTraceBuilder *b, EchWorkUnit unit, EchTime time, EchId from, EchId to, EchBytes bytes)
{
    (void)ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_use(b, from, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, to, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_work(b, unit, ECH_DTYPE_F32, (uint64_t)(time / ms) * 10000000, ECH_KNOWN);
}

/* A pause for those that wait, in which the device is full. */
static void pass_time(EchTraceBuilder *b, EchId large)
{
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, 2 * GB);
    (void)ech_test_put(b, ECH_OP_FREE, large);
}

enum { ACCOUNTED = 256, COUNTER = 512 }; /* bytes */

typedef enum { READ_AT_ONCE = 1, OVERWRITTEN = 2, ACCOUNT = 4, COUNTED = 8, VIEWED = 16 } Kept;
/* ACCOUNT: what makes it keeps statistics, which the next step updates too. COUNTED: it reads a counter, which goes on.
 * VIEWED: it is read by another name, too. */

/* An array made of weights in 50 ms, read in 10, kept for 400, and read by a product that takes 30. */
static EchTrace *kept(Kept how)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    EchId counter = how & COUNTED ? ech_test_buffer(b, "counter", COUNTER, ECH_ROLE_UNKNOWN, true) : ECH_NONE;
    EchId statistics = how & ACCOUNT ? ech_test_buffer(b, "statistics", ACCOUNTED, ECH_ROLE_UNKNOWN, true) : ECH_NONE;
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 50 * ms, weights, a, GB);
    for (int access = ECH_READ; how & ACCOUNT && access <= ECH_WRITE; access++)
        ech_trace_builder_use(b, statistics, (EchAccess)access, ACCOUNTED, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (how & COUNTED)
        ech_trace_builder_use(b, counter, ECH_READ, COUNTER, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (how & READ_AT_ONCE)
        ech_test_kernel(b, 0, a, ECH_READ, GB);
    if (how & VIEWED) {
        EchId view = ech_test_buffer(b, "view", GB, ECH_ROLE_ACTIVATION, false);
        ech_trace_builder_peek_buffer(b, view)->alias_of = a;
        ech_test_kernel(b, 0, view, ECH_READ, GB);
    }
    pass_time(b, large);
    if (how & OVERWRITTEN)
        ech_test_kernel(b, 0, weights, ECH_WRITE, GB);
    if (how & COUNTED)
        ech_test_kernel(b, 0, counter, ECH_WRITE, COUNTER);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    return ech_test_finish(b);
}

static const struct {
    const char *spec;
    Kept how;
    EchTime makespan;
    EchBytes hbm;
} on_kept[] = {
    {"unplan", READ_AT_ONCE, 490, 4},
    {"remat", READ_AT_ONCE, 540, 3},
    {"remat", 0, 480, 3},                          /* nobody reads it before: it is made later */
    {"remat", READ_AT_ONCE | OVERWRITTEN, 500, 4}, /* what it is made of is gone */
    {"remat", READ_AT_ONCE | VIEWED, 500, 4},
    {"remat", READ_AT_ONCE | ACCOUNT, 540, 3},
    {"remat", READ_AT_ONCE | COUNTED, 540, 3},
    {"remat:products=false", READ_AT_ONCE, 490, 4},
    {"remat:above=1.1GB", READ_AT_ONCE, 490, 4},
    {"remat:names=b*", READ_AT_ONCE, 490, 4},
    {"remat:names=a", READ_AT_ONCE, 540, 3},
    {"remat:keep=a", READ_AT_ONCE, 490, 4},
    {"remat:keep=b*", READ_AT_ONCE, 540, 3},
    {"remat:memory=4GB", READ_AT_ONCE, 490, 4},
    {"remat:memory=3.5GB", READ_AT_ONCE, 540, 3},
};

START_TEST(between_uses)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = kept(on_kept[_i].how);
    const char *const specs[] = {on_kept[_i].spec, NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - on_kept[_i].makespan * ms) <= 10000, "%d: %" G_GINT64_FORMAT, _i, run->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"),
                      on_kept[_i].hbm * GB + (on_kept[_i].how & ACCOUNT ? ACCOUNTED : 0) + (on_kept[_i].how & COUNTED ? COUNTER : 0));
}
END_TEST

/* Says which: it has enough room, or nothing that could be made again is away when it has least. */
START_TEST(why_nothing)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    static const char *const specs[][2] = {{"remat:memory=4GB", NULL}, {"remat:names=a", NULL}};
    static const char *const said[] = {"it holds 3.73 GiB at its fullest, no more than the 3.73 GiB that it may",
                                       "of the 4.66 GiB that it holds at its fullest, making arrays again (1 could be) saves nothing"};
    for (size_t k = 0; k < G_N_ELEMENTS(said); k++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = NULL;
        g_autoptr(EchTrace) in = kept(READ_AT_ONCE);
        if (k == 1) { /* it is fullest afterwards */
            b = ech_trace_builder_new_from(in);
            EchId more = ech_test_buffer(b, "more", 3 * GB - 1000, ECH_ROLE_TEMPORARY, false);
            (void)ech_test_put(b, ECH_OP_ALLOC, more);
            ech_test_kernel(b, 0, more, ECH_WRITE, GB);
            (void)ech_test_put(b, ECH_OP_FREE, more);
            ech_trace_unref(in);
            in = ech_test_finish(b);
        }
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs[k]);
        ck_assert_msg(ech_test_says(diag, said[k]), "%s", ech_diag_remarks(diag)[0]);
    }
}
END_TEST

/* A chain of functions, each result kept for its product, of 4 MiB. */
static EchTrace *chain_of(int n, const EchDevice *device)
{
    GError *error = NULL;
    g_autoptr(GString) text = g_string_new("HloModule chain, is_scheduled=true\n\nENTRY %main (p: f32[1048576]) -> f32[1048576] {\n"
                                           "  %p = f32[1048576]{0} parameter(0)\n  %a0 = f32[1048576]{0} tanh(%p)\n");
    for (int k = 1; k < n; k++)
        g_string_append_printf(text, "  %%a%d = f32[1048576]{0} tanh(%%a%d)\n", k, k - 1);
    g_string_append_printf(text, "  %%b%d = f32[1048576]{0} negate(%%a%d)\n", n, n - 1);
    for (int k = n; k-- > 0;)
        g_string_append_printf(text, "  %s%%b%d = f32[1048576]{0} multiply(%%b%d, %%a%d)\n", k == 0 ? "ROOT " : "", k, k + 1, k);
    g_string_append(text, "}\n");
    g_autoptr(EchProgram) program = ech_test_program(text->str, device->name);
    g_autoptr(EchDiag) diag = ech_diag_new();
    EchTrace *made = ech_program_lower(program, device, NULL, diag, &error);
    ck_assert_ok(made != NULL, error);
    return made;
}

/* What makes a result again runs inside its reader, but no more than a compiler would fuse, and takes the time of all its instructions there. */
START_TEST(fused_chain)
{
    enum { MOST_INSIDE = 64 };
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchTrace) in = chain_of(200, device);
    g_autoptr(EchDiag) diag = ech_diag_new();
    static const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    uint32_t most = 0;
    uint64_t done = 0;
    for (size_t i = 0; i < ech_trace_n_ops(out); i++)
        most = MAX(most, ech_trace_ops(out)[i].n_work);
    for (size_t k = 0; k < ech_trace_n_work(out); k++)
        done += ech_trace_work(out)[k].unit == ECH_WORK_TRANSCENDENTAL ? ech_trace_work(out)[k].count : 0;
    ck_assert_uint_gt(most, 10);
    ck_assert_uint_le(most, MOST_INSIDE + 1);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    /* A tanh issues some 20 instructions an element on 132 x 128 lanes of 1.98 GHz at the most. */
    ck_assert_int_gt(run->makespan, (EchTime)((double)done * 20 / (132.0 * 128 * 1.98e9) * 1e12));
}
END_TEST

/* More arrays than there are tries for, one by one: nearly all are made again nevertheless. */
START_TEST(many_arrays)
{
    enum { N = 1600, MB = 4 << 20 };
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchTrace) in = chain_of(N, device);
    g_autoptr(EchDiag) diag = ech_diag_new();
    static const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_auto(EchSurvey) before = {0}, after = {0};
    ck_assert(ech_survey_init(&before, in, device) && ech_survey_init(&after, out, device));
    EchBytes most[2] = {0, 0};
    for (size_t i = 0; i < before.n; i++)
        most[0] = MAX(most[0], before.live[i]);
    for (size_t i = 0; i < after.n; i++)
        most[1] = MAX(most[1], after.live[i]);
    ck_assert_uint_ge(most[0], (EchBytes)N * MB);
    ck_assert_uint_le(most[1], (EchBytes)N / 50 * MB);
}
END_TEST

/* What nobody reads stays, but where another array (_i: elsewhere) begins in its place, as what it held, and is made again for its only reader: then neither
 * is made before. */
START_TEST(in_place)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false),
          out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false), same[2];
    EchBuffer place = ech_buffer_init();
    place.bytes = GB;
    place.role = ECH_ROLE_ACTIVATION;
    place.memory = 0;
    for (int i = 0; i < 2; i++) {
        place.name = ech_trace_builder_string(b, i ? "after" : "before", -1);
        place.offset = i && _i ? GB : 0;
        same[i] = ech_trace_builder_buffer(b, place);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, same[0]);
    make(b, ECH_WORK_MATRIX, 50 * ms, weights, same[0], GB);
    (void)ech_test_put(b, ECH_OP_FREE, same[0]);
    (void)ech_test_put(b, ECH_OP_ALLOC, same[1]);
    make(b, ECH_WORK_VECTOR, 40 * ms, weights, same[1], GB);
    pass_time(b, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, same[1], out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, same[1]);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) made = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(made, device), as_it_was = ech_test_replay(in, device);
    ck_assert_int_eq(as_it_was->makespan / ms, 520);
    ck_assert_int_eq(run->makespan / ms, _i ? 520 : 470);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 3 * GB);
}
END_TEST

/* What an array is made of is gone by then too: it runs again first, once for both that need it. */
START_TEST(chain)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), t = ech_test_buffer(b, "t", GB, ECH_ROLE_TEMPORARY, false),
          a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), c = ech_test_buffer(b, "c", GB, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 4 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, t);
    make(b, ECH_WORK_MATRIX, 50 * ms, weights, t, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 60 * ms, t, a, GB);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, c);
    make(b, ECH_WORK_MATRIX, 70 * ms, t, c, GB);
    ech_test_kernel(b, 0, c, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_FREE, t);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, GB);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, c, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, c);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL}, *const one[] = {"remat:memory=6GB", NULL};
    g_autoptr(EchTrace) both = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchTrace) cheaper = ech_test_pass(in, device, diag, one);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    g_autoptr(EchRun) run = ech_test_replay(both, device);
    g_autoptr(EchRun) first = ech_test_replay(cheaper, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 7 * GB);
    ck_assert_msg(llabs(run->makespan - before->makespan - (50 + 60 + 70) * ms) <= 10, "%" G_GINT64_FORMAT, run->makespan - before->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 5 * GB);
    ck_assert_msg(llabs(first->makespan - before->makespan - (50 + 60) * ms) <= 10, "%" G_GINT64_FORMAT, first->makespan - before->makespan);
    ck_assert_uint_eq(ech_test_peak(first, "hbm"), 6 * GB);
}
END_TEST

/* What is made of an array that is kept is made later, of that: the array's own kernel stays, and an estimate of the same bytes. */
START_TEST(made_of_what_is_kept)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), x = ech_test_buffer(b, "x", GB, ECH_ROLE_ACTIVATION, false),
          a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false),
          out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    make(b, ECH_WORK_MATRIX, 50 * ms, weights, x, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 10 * ms, x, a, GB);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->estimate = 30 * ms; /* its bytes take 20 */
    pass_time(b, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) made = ech_test_pass(in, device, diag, (const char *const[]){"remat:names=a", NULL});
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(made, device);
    ck_assert_int_eq(before->makespan / ms, 50 + 20 + 400 + 30);
    ck_assert_int_eq(run->makespan / ms, 50 + 400 + 20 + 30);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 5 * GB);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 4 * GB);
    size_t estimated = 0;
    for (size_t i = 0; i < ech_trace_n_ops(made); i++)
        estimated += ech_trace_ops(made)[i].estimate == 30 * ms;
    ck_assert_uint_eq(estimated, 1);
}
END_TEST

/* What hangs on a chain of 300 operations is made again, with all of them; what hangs on 600 stays. */
START_TEST(long_chain)
{
    unsigned links = _i ? 600 : 300;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId from = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true);
    for (unsigned i = 0; i < links; i++) {
        EchId to = ech_test_buffer(b, "t", GB, ECH_ROLE_ACTIVATION, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, to);
        make(b, ECH_WORK_MATRIX, 50 * ms, from, to, GB);
        if (i > 0)
            (void)ech_test_put(b, ECH_OP_FREE, from);
        from = to;
    }
    EchId large = ech_test_buffer(b, "large", 4 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, GB);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, from, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, from);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) trace = ech_test_pass(in, device, diag, specs);
    ck_assert(ech_test_says(diag, _i ? "kept: too much would have to run again" : "made again instead of kept: 300 kernels run again"));
}
END_TEST

/* As @from is read and @to written, where PyTorch says @where. */
static void run_in(EchTraceBuilder *b, const char *where, EchTime time, EchId from, EchId to, EchBytes bytes)
{
    make(b, ECH_WORK_MATRIX, time, from, to, bytes);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, where, -1);
}

/* torch.utils.checkpoint around each of two layers: what they are given, which autograd would not keep, stays until their gradients are done and no longer,
 * what they make but their results is made again. What another module makes stays. */
START_TEST(modules_of_pytorch)
{
    enum { LAYERS = 2 };
    const EchBytes half = GB / 2;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), x[LAYERS + 1], made[LAYERS], gradient[LAYERS + 1];
    for (unsigned k = 0; k <= LAYERS; k++) {
        x[k] = ech_test_buffer(b, "x", half, ECH_ROLE_ACTIVATION, false);
        gradient[k] = ech_test_buffer(b, "gradient", half, ECH_ROLE_TEMPORARY, false);
    }
    for (unsigned k = 0; k < LAYERS; k++)
        made[k] = ech_test_buffer(b, "made", 4 * half, ECH_ROLE_ACTIVATION, false);
    static const char *const layers[] = {"nn.Module: layers.0 Block\nmain", "nn.Module: layers.1 Block\nmain"}, *const inside[] = {
                                                                                                                    "linear.py:7\nnn.Module: layers.0 Block",
                                                                                                                    "linear.py:7\nnn.Module: layers.1 Block"};
    (void)ech_test_put(b, ECH_OP_ALLOC, x[0]);
    run_in(b, "nn.Module: embedding Embedding\nmain", 50 * ms, weights, x[0], half);
    for (unsigned k = 0; k < LAYERS; k++) {
        (void)ech_test_put(b, ECH_OP_ALLOC, made[k]);
        run_in(b, layers[k], (k + 7) * 100 * ms, x[k], made[k], half);
        (void)ech_test_put(b, ECH_OP_FREE, x[k]);
        (void)ech_test_put(b, ECH_OP_ALLOC, x[k + 1]);
        run_in(b, inside[k], 50 * ms, made[k], x[k + 1], half);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient[LAYERS]);
    run_in(b, "loss\nmain", 50 * ms, x[LAYERS], gradient[LAYERS], half);
    (void)ech_test_put(b, ECH_OP_FREE, x[LAYERS]);
    for (unsigned k = LAYERS; k-- > 0;) {
        g_autofree char *where = g_strdup_printf("autograd::engine::evaluate_function: MulBackward0\n%s", layers[k]);
        (void)ech_test_put(b, ECH_OP_ALLOC, gradient[k]);
        run_in(b, where, 50 * ms, gradient[k + 1], gradient[k], half);
        ech_trace_builder_use(b, made[k], ECH_READ, half, ECH_PATTERN_STREAM, ECH_KNOWN);
        (void)ech_test_put(b, ECH_OP_FREE, made[k]);
        (void)ech_test_put(b, ECH_OP_FREE, gradient[k + 1]);
    }
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 12 * half); /* weights, both that were made, the last result and its gradient */
    static const struct {
        const char *spec;
        EchTime more;
        EchBytes halves;
    } cases[] = {{"remat:modules=layers.*", 1500, 10},
                 {"remat:modules=layers.1", 800, 13},
                 {"remat:modules=layers.0", 700, 9},
                 {"remat:modules=embedding", 0, 12},
                 {"remat:modules=layers.0+layers.1", 1500, 10}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){cases[i].spec, NULL});
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_msg(llabs(run->makespan - before->makespan - cases[i].more * ms) <= 10, "%s: %" G_GINT64_FORMAT " ps more", cases[i].spec,
                      run->makespan - before->makespan);
        ck_assert_msg(ech_test_peak(run, "hbm") == cases[i].halves * half, "%s: %" G_GUINT64_FORMAT, cases[i].spec, ech_test_peak(run, "hbm"));
    }
    /* Left as it is, it is what it was: a compiler's places are in it. */
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=decoder.*", NULL});
    ck_assert(ech_test_says(diag, "left the trace as it is: no module of PyTorch whose path fits 'decoder.*'") && out == in);
}
END_TEST

static EchOp *named(EchTraceBuilder *b, const char *name, const char *where)
{
    EchOp *o = ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1);
    o->name = ech_trace_builder_string(b, name, -1);
    o->stack = ech_trace_builder_string(b, where, -1);
    return o;
}

/* A module's kernels all run again up to the last whose result its own gradient reads, be that kept for others: parts of a call of a library, of which only the
 * first is known to use anything, what counts batches, and what clone() copies; and the host waits again where it did. What comes behind it does not, and
 * products stay where they may not run. */
START_TEST(all_of_a_module)
{
    static const char layer[] = "aten::op\nnn.Module: layers.0 Block\nmain", conv[] = "aten::cudnn_convolution\nnn.Module: layers.0 Block\nmain",
                      back[] = "autograd::engine::evaluate_function: ReluBackward0\nnn.Module: layers.0 Block\nmain",
                      *const names[] = {"convolution", "relayout", "counter", "clone", "in place", "result", "behind"};
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    const EchBytes part = GB / 4;
    EchId x = ech_test_buffer(b, "x", part, ECH_ROLE_ACTIVATION, true), nowhere = ech_test_buffer(b, "nowhere", 0, ECH_ROLE_UNKNOWN, true),
          batches = ech_test_buffer(b, "batches", 8, ECH_ROLE_PARAMETER, true), y = ech_test_buffer(b, "y", part, ECH_ROLE_TEMPORARY, false),
          made = ech_test_buffer(b, "made", part, ECH_ROLE_ACTIVATION, false), result = ech_test_buffer(b, "result", part, ECH_ROLE_ACTIVATION, false),
          behind = ech_test_buffer(b, "behind", part, ECH_ROLE_ACTIVATION, false), gradient = ech_test_buffer(b, "gradient", part, ECH_ROLE_TEMPORARY, false);
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
    ech_trace_builder_set_property(b, "host_order", "as asked");
    (void)ech_test_put(b, ECH_OP_ALLOC, y);
    make(b, ECH_WORK_MATRIX, ms, x, y, part);
    (void)named(b, names[0], conv);
    ech_test_kernel(b, ms, nowhere, ECH_WRITE, part);
    (void)named(b, names[1], conv);
    ech_test_kernel(b, ms, batches, ECH_WRITE, 8);
    (void)named(b, names[2], layer);
    (void)ech_test_put(b, ECH_OP_ALLOC, made);
    (void)ech_test_put(b, ECH_OP_COPY, ECH_NONE);
    EchOp *copy = named(b, names[3], layer);
    copy->memory_from = copy->memory_to = ech_trace_builder_peek_buffer(b, y)->memory;
    copy->bytes = part;
    ech_trace_builder_use(b, y, ECH_READ, part, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, made, ECH_WRITE, part, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, y);
    make(b, ECH_WORK_VECTOR, ms, made, made, part);
    (void)named(b, names[4], layer);
    EchId waited = (EchId)ech_trace_builder_n_ops(b) - 1, wait = ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
    ech_trace_builder_dep(b, waited, 0);
    ech_trace_builder_peek_op(b, wait)->queue = host;
    (void)ech_test_put(b, ECH_OP_ALLOC, result);
    make(b, ECH_WORK_VECTOR, ms, made, result, part);
    (void)named(b, names[5], layer);
    (void)ech_test_put(b, ECH_OP_ALLOC, behind);
    make(b, ECH_WORK_VECTOR, ms, result, behind, part);
    (void)named(b, names[6], layer);
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient);
    make(b, ECH_WORK_VECTOR, ms, behind, gradient, part);
    (void)named(b, "loss", "loss\nmain");
    (void)ech_test_put(b, ECH_OP_FREE, behind);
    make(b, ECH_WORK_VECTOR, ms, result, gradient, part);
    (void)named(b, "gradient", back);
    make(b, ECH_WORK_VECTOR, ms, made, gradient, part);
    (void)named(b, "gradient", back);
    (void)ech_test_put(b, ECH_OP_FREE, made);
    (void)ech_test_put(b, ECH_OP_FREE, result);
    (void)ech_test_put(b, ECH_OP_FREE, gradient);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*", NULL}),
                        kept = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*,products=false", NULL});
    for (size_t k = 0; k < G_N_ELEMENTS(names); k++) {
        unsigned n = 0, of_kept = 0;
        for (size_t i = 0; i < ech_trace_n_ops(out); i++)
            n += ech_op_is_work(&ech_trace_ops(out)[i]) && strcmp(ech_trace_string(out, ech_trace_ops(out)[i].name), names[k]) == 0;
        for (size_t i = 0; i < ech_trace_n_ops(kept); i++)
            of_kept += ech_op_is_work(&ech_trace_ops(kept)[i]) && strcmp(ech_trace_string(kept, ech_trace_ops(kept)[i].name), names[k]) == 0;
        ck_assert_msg(n == (k == 6 ? 1 : 2), "%s: %u times", names[k], n);
        ck_assert_msg(k != 0 || of_kept == 1, "%s: %u times", names[k], of_kept);
    }
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_WAIT), 2);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert(run->completed);
}
END_TEST

/* torch.utils.checkpoint with a policy that keeps products: what one makes stays though autograd would not keep it, and it does not run again; what is made of
 * that does. Nothing of that waits on the host then, where activations do. */
START_TEST(products_of_modules)
{
    const EchBytes half = GB / 2;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), x = ech_test_buffer(b, "x", half, ECH_ROLE_TEMPORARY, false),
          product = ech_test_buffer(b, "product", half, ECH_ROLE_TEMPORARY, false), made = ech_test_buffer(b, "made", 4 * half, ECH_ROLE_ACTIVATION, false),
          y = ech_test_buffer(b, "y", half, ECH_ROLE_TEMPORARY, false), large = ech_test_buffer(b, "large", 6 * half, ECH_ROLE_TEMPORARY, false),
          gradient = ech_test_buffer(b, "gradient", half, ECH_ROLE_TEMPORARY, false);
    static const char layer[] = "nn.Module: layers.0 Block\nmain",
                      back[] = "autograd::engine::evaluate_function: MulBackward0\nnn.Module: layers.0 Block\nmain";
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    run_in(b, "nn.Module: embedding Embedding\nmain", 50 * ms, weights, x, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, product);
    run_in(b, layer, 100 * ms, x, product, half);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    (void)ech_test_put(b, ECH_OP_ALLOC, made);
    make(b, ECH_WORK_VECTOR, 70 * ms, product, made, half);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, layer, -1);
    (void)ech_test_put(b, ECH_OP_FREE, product);
    (void)ech_test_put(b, ECH_OP_ALLOC, y);
    run_in(b, layer, 100 * ms, made, y, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    run_in(b, "loss\nmain", 50 * ms, y, large, half);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_FREE, y);
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient);
    run_in(b, back, 50 * ms, made, gradient, half);
    (void)ech_test_put(b, ECH_OP_FREE, made);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 13 * half); /* weights, what was made, y and what the loss takes */
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*,products=false", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 11 * half); /* x and the product instead */
    ck_assert_msg(llabs(run->makespan - before->makespan - 70 * ms) <= 10, "%" G_GINT64_FORMAT, run->makespan - before->makespan);
    for (size_t i = 0; i < ech_trace_n_buffers(out); i++)
        ck_assert_int_ne(ech_trace_buffers(out)[i].role, ECH_ROLE_ACTIVATION);
}
END_TEST

/* One graph that torch.compile made of two layers: the kernel that begins the second adds up what the first was given and made, where the former lay; a product
 * takes the place of another's result, a gradient that of what it was made of. A checkpoint of each layer has all of these apart: it keeps what the layers are
 * given, and runs each kernel before the backward pass of its own layer again, once. */
START_TEST(compiled_modules)
{
    const EchBytes half = GB / 2;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), x = ech_test_buffer(b, "x", half, ECH_ROLE_ACTIVATION, false),
          made[2] = {ech_test_buffer(b, "made 0", 4 * half, ECH_ROLE_ACTIVATION, false), ech_test_buffer(b, "made 1", 4 * half, ECH_ROLE_ACTIVATION, false)},
          result = ech_test_buffer(b, "result", half, ECH_ROLE_TEMPORARY, false), large = ech_test_buffer(b, "large", 4 * half, ECH_ROLE_TEMPORARY, false);
#define GRAPH(layer) "aten::mm\nnn.Module: layers." layer " (Block)\n## Call CompiledFxGraph f ##\nCompiledFunction\nnn.Module: GPT"
#define BACK(layer) "autograd::engine::evaluate_function: CompiledFunctionBackward\nnn.Module: layers." layer " (Block)\nnn.Module: GPT"
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    run_in(b, "nn.Module: embedding (Embedding)\nCompiledFunction\nnn.Module: GPT", 50 * ms, weights, x, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, made[0]);
    run_in(b, GRAPH("0"), 100 * ms, x, made[0], 4 * half);
    (void)ech_test_put(b, ECH_OP_ALLOC, result);
    run_in(b, GRAPH("0"), 1000 * ms, made[0], result, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, made[1]);
    run_in(b, GRAPH("1"), 200 * ms, x, made[1], 4 * half);
    ech_trace_builder_use(b, result, ECH_READ, half, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, x, ECH_WRITE, half, ECH_PATTERN_STREAM, ECH_KNOWN);
    run_in(b, GRAPH("1"), 2000 * ms, made[1], result, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    run_in(b, "loss", 50 * ms, result, large, half);
    ech_trace_builder_use(b, x, ECH_READ, half, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, result);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    for (int k = 2; k-- > 0;) {
        run_in(b, k ? BACK("1") : BACK("0"), 50 * ms, made[k], made[k], 4 * half);
        (void)ech_test_put(b, ECH_OP_FREE, made[k]);
    }
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 16 * half); /* weights, x, both that were made, the result, what the loss takes */
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - before->makespan - 300 * ms) <= 10, "%" G_GINT64_FORMAT " ps more", run->makespan - before->makespan);
    ck_assert(ech_test_says(diag, "2 arrays (3.73 GiB) made again instead of kept: 2 kernels run again"));
    /* Weights, what both layers were given, and in the second's backward pass what is made again, and the gradient beside it. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 12 * half);
#undef GRAPH
#undef BACK
}
END_TEST

/* A graph that leaves weights' gradients for its end, where they read what both layers made: with each layer checkpointed they are computed in its own backward
 * pass, so that no more than one layer's is there at a time; what casts them, and what is added to, goes with them. Behind a wait they stay. */
START_TEST(gradients_left_for_the_end)
{
    const EchBytes part = 1 << 27;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    static const char *const forward[] = {"aten::mm\nnn.Module: layers.0 (Block)\n## Call CompiledFxGraph f ##\nCompiledFunction\nnn.Module: GPT",
                                          "aten::mm\nnn.Module: layers.1 (Block)\n## Call CompiledFxGraph f ##\nCompiledFunction\nnn.Module: GPT"},
                             *const back[] = {"autograd::engine::evaluate_function: CompiledFunctionBackward\nnn.Module: layers.0 (Block)\nnn.Module: GPT",
                                              "autograd::engine::evaluate_function: CompiledFunctionBackward\nnn.Module: layers.1 (Block)\nnn.Module: GPT"};
    EchId x[3], made[2], gradient[3], weights[2], sum = ech_test_buffer(b, "sum", part, ECH_ROLE_GRADIENT, true);
    for (unsigned k = 0; k < 3; k++) {
        x[k] = ech_test_buffer(b, "x", part, ECH_ROLE_TEMPORARY, k == 0);
        gradient[k] = ech_test_buffer(b, "gradient", part, ECH_ROLE_TEMPORARY, false);
    }
    for (unsigned k = 0; k < 2; k++) {
        made[k] = ech_test_buffer(b, "made", 8 * part, ECH_ROLE_ACTIVATION, false);
        weights[k] = ech_test_buffer(b, "weight's", part, ECH_ROLE_GRADIENT, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, made[k]);
        run_in(b, forward[k], 100 * ms, x[k], made[k], 8 * part);
        (void)ech_test_put(b, ECH_OP_ALLOC, x[k + 1]);
        run_in(b, forward[k], 100 * ms, made[k], x[k + 1], part);
        if (k > 0)
            (void)ech_test_put(b, ECH_OP_FREE, x[k]);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient[2]);
    run_in(b, "autograd::engine::evaluate_function: LossBackward0", 50 * ms, x[2], gradient[2], part);
    (void)ech_test_put(b, ECH_OP_FREE, x[2]);
    for (unsigned k = 2; k-- > 0;) {
        (void)ech_test_put(b, ECH_OP_ALLOC, gradient[k]);
        run_in(b, back[k], 50 * ms, gradient[k + 1], gradient[k], part);
    }
    if (_i == 1) /* for what they may need */
        (void)ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
    for (unsigned k = 2; k-- > 0;) {
        (void)ech_test_put(b, ECH_OP_ALLOC, weights[k]);
        run_in(b, back[k], 50 * ms, made[k], weights[k], part);
        ech_trace_builder_use(b, gradient[k + 1], ECH_READ, part, ECH_PATTERN_STREAM, ECH_KNOWN);
        (void)ech_test_put(b, ECH_OP_FREE, made[k]);
        (void)ech_test_put(b, ECH_OP_FREE, gradient[k + 1]);
        run_in(b, back[k], 50 * ms, weights[k], sum, part); /* both add to it, in their order */
        ech_trace_builder_use(b, sum, ECH_READ, part, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    for (unsigned k = 2; k-- > 0;)
        (void)ech_test_put(b, ECH_OP_FREE, weights[k]); /* when the optimizer's step is over */
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 22 * part); /* x, the sum, both that were made, three gradients, a weight's */
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    /* The last layer is made for its own backward pass alone, which comes next: once. */
    ck_assert_msg(llabs(run->makespan - before->makespan - 100 * ms) <= 10, "%" G_GINT64_FORMAT, run->makespan - before->makespan);
    ck_assert_msg(ech_test_peak(run, "hbm") == (_i == 0 ? 14 : 15) * part, "%" G_GUINT64_FORMAT, ech_test_peak(run, "hbm") / part);
}
END_TEST

/* A layer that torch.compile made one graph of runs again whole, its last product, too; as a part of a larger graph it does not. */
START_TEST(modules_compiled_by_themselves)
{
    static const char *const forward[] = {"aten::mm\n## Call CompiledFxGraph f ##\nCompiledFunction\nnn.Module: layers.0 (Block)\nnn.Module: GPT",
                                          "aten::mm\nnn.Module: layers.0 (Block)\n## Call CompiledFxGraph f ##\nCompiledFunction\nnn.Module: GPT"};
    static const char back[] = "autograd::engine::evaluate_function: CompiledFunctionBackward\nnn.Module: layers.0 (Block)\nnn.Module: GPT";
    const EchBytes half = GB / 2;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    for (int apart = 0; apart < 2; apart++) {
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId x = ech_test_buffer(b, "x", half, ECH_ROLE_TEMPORARY, true), made = ech_test_buffer(b, "made", 4 * half, ECH_ROLE_ACTIVATION, false),
              y = ech_test_buffer(b, "y", half, ECH_ROLE_TEMPORARY, false), large = ech_test_buffer(b, "large", 6 * half, ECH_ROLE_TEMPORARY, false);
        for (int step = 0; step < 2; step++) {
            (void)ech_test_put(b, ECH_OP_ALLOC, made);
            run_in(b, forward[!apart], 100 * ms, x, made, 4 * half);
            (void)ech_test_put(b, ECH_OP_ALLOC, y);
            run_in(b, forward[!apart], 1000 * ms, made, y, half);
            (void)ech_test_put(b, ECH_OP_ALLOC, large);
            run_in(b, "loss", 50 * ms, y, large, half);
            (void)ech_test_put(b, ECH_OP_FREE, y);
            (void)ech_test_put(b, ECH_OP_FREE, large);
            run_in(b, back, 50 * ms, made, x, half);
            (void)ech_test_put(b, ECH_OP_FREE, made);
            made = ech_test_buffer(b, "made", 4 * half, ECH_ROLE_ACTIVATION, false);
            y = ech_test_buffer(b, "y", half, ECH_ROLE_TEMPORARY, false);
            large = ech_test_buffer(b, "large", 6 * half, ECH_ROLE_TEMPORARY, false);
        }
        g_autoptr(EchTrace) in = ech_test_finish(b);
        g_autoptr(EchRun) before = ech_test_replay(in, device);
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*", NULL});
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_uint_eq(ech_test_peak(before, "hbm"), 12 * half);
        ck_assert_uint_eq(ech_test_peak(run, "hbm"), 8 * half); /* x, y and what the loss takes */
        ck_assert_msg(llabs(run->makespan - before->makespan - (apart ? 2200 : 200) * ms) <= 10, "%d: %" G_GINT64_FORMAT, apart,
                      run->makespan - before->makespan);
    }
}
END_TEST

/* Under autocast what it casts of weights stays until it ends, by when what is cast of biases goes, though checkpoint() would not keep it: it is made again all
 * the same. */
START_TEST(autocast_of_modules)
{
    const EchBytes half = GB / 2, small = 1 << 20;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weight = ech_test_buffer(b, "weight", GB, ECH_ROLE_PARAMETER, true), cast = ech_test_buffer(b, "cast", half, ECH_ROLE_ACTIVATION, false),
          y = ech_test_buffer(b, "y", half, ECH_ROLE_TEMPORARY, false), large = ech_test_buffer(b, "large", 6 * half, ECH_ROLE_TEMPORARY, false),
          later = ech_test_buffer(b, "later", 6 * half, ECH_ROLE_TEMPORARY, false), gradient = ech_test_buffer(b, "gradient", half, ECH_ROLE_TEMPORARY, false),
          bias[2], cast_bias[2];
    static const char layer[] = "nn.Module: layers.0 Block\nmain", casts[] = "aten::_to_copy\nnn.Module: layers.0 Block\nmain",
                      back[] = "autograd::engine::evaluate_function: MulBackward0\nnn.Module: layers.0 Block\nmain";
    for (int k = 0; k < 2; k++) {
        bias[k] = ech_test_buffer(b, "bias", small, ECH_ROLE_PARAMETER, true);
        cast_bias[k] = ech_test_buffer(b, "cast", small, ECH_ROLE_TEMPORARY, false);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, cast);
    run_in(b, casts, 50 * ms, weight, cast, half);
    for (int k = 0; k < 2; k++) {
        (void)ech_test_put(b, ECH_OP_ALLOC, cast_bias[k]);
        run_in(b, casts, 0, bias[k], cast_bias[k], small);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, y);
    run_in(b, layer, 100 * ms, cast, y, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, large); /* still under autocast */
    run_in(b, "loss\nmain", 50 * ms, y, large, half);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_FREE, cast_bias[0]);
    (void)ech_test_put(b, ECH_OP_FREE, cast_bias[1]);
    (void)ech_test_put(b, ECH_OP_ALLOC, later);
    run_in(b, "loss\nmain", 50 * ms, y, later, half);
    (void)ech_test_put(b, ECH_OP_FREE, later);
    (void)ech_test_put(b, ECH_OP_FREE, y);
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient);
    run_in(b, back, 50 * ms, cast, gradient, half);
    (void)ech_test_put(b, ECH_OP_FREE, cast);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - before->makespan - 50 * ms) <= 10, "%" G_GINT64_FORMAT, run->makespan - before->makespan);
    /* weight and biases, the cast weight and biases, y and large, as without; it is gone by later. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), ech_test_peak(before, "hbm"));
    const EchMemoryRun *memory = ech_report_memory(run, "hbm");
    ck_assert_int_lt(memory->peak_at, 250 * ms);
}
END_TEST

/* What runs again in a backward pass reads the weights that fully_shard has gathered for that: not those that it let go, and none stays for it. */
START_TEST(gathered_for_modules)
{
    const EchBytes half = GB / 2;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId shard = ech_test_buffer(b, "shard", half, ECH_ROLE_PARAMETER, true), x = ech_test_buffer(b, "x", half, ECH_ROLE_TEMPORARY, true), whole[2],
          made = ech_test_buffer(b, "made", 4 * half, ECH_ROLE_ACTIVATION, false), y = ech_test_buffer(b, "y", half, ECH_ROLE_TEMPORARY, false),
          large = ech_test_buffer(b, "large", 6 * half, ECH_ROLE_TEMPORARY, false), gradient = ech_test_buffer(b, "gradient", half, ECH_ROLE_TEMPORARY, false);
    static const char layer[] = "nn.Module: layers.0 Block\nmain", gathers[] = "FSDP::all_gather_copy_out (layers.0)\nnn.Module: layers.0 Block\nmain",
                      back[] = "autograd::engine::evaluate_function: MulBackward0\nnn.Module: layers.0 Block\nmain",
                      again[] = "FSDP::all_gather_copy_out (layers.0)\nautograd::engine::evaluate_function: MulBackward0\nnn.Module: layers.0 Block\nmain";
    for (int k = 0; k < 2; k++)
        whole[k] = ech_test_buffer(b, k ? "whole again" : "whole", half, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, whole[0]);
    run_in(b, gathers, 0, shard, whole[0], half);
    (void)ech_test_put(b, ECH_OP_ALLOC, made);
    run_in(b, layer, 100 * ms, x, made, half);
    ech_trace_builder_use(b, whole[0], ECH_READ, half, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_ALLOC, y);
    run_in(b, layer, 50 * ms, made, y, half);
    (void)ech_test_put(b, ECH_OP_FREE, whole[0]);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    run_in(b, "loss\nmain", 50 * ms, y, large, half);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_FREE, y);
    (void)ech_test_put(b, ECH_OP_ALLOC, whole[1]);
    run_in(b, again, 0, shard, whole[1], half);
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient);
    run_in(b, back, 50 * ms, made, gradient, half);
    (void)ech_test_put(b, ECH_OP_FREE, made);
    (void)ech_test_put(b, ECH_OP_FREE, whole[1]);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 13 * half); /* the shard, x, what was made, y and large */
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"remat:modules=layers.*", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 9 * half);
    size_t reads[2] = {0, 0};
    for (size_t i = 0; i < ech_trace_n_ops(out); i++)
        for (uint32_t u = 0; u < ech_trace_ops(out)[i].n_uses; u++) {
            const EchUse *use = &ech_trace_uses(out)[ech_trace_ops(out)[i].first_use + u];
            for (int k = 0; k < 2; k++)
                reads[k] += use->access == ECH_READ && use->buffer == whole[k];
        }
    ck_assert_uint_eq(reads[0], 1);
    ck_assert_uint_eq(reads[1], 1);
}
END_TEST

/* What autograd saves of a module and its backward pass does not read goes when the module has used it, and does not come back; what another module, or the
 * backward pass, reads as well, stays. */
START_TEST(saved_for_nothing)
{
    const EchBytes half = GB / 2;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), added = ech_test_buffer(b, "added", 4 * half, ECH_ROLE_TEMPORARY, false),
          y = ech_test_buffer(b, "y", half, ECH_ROLE_TEMPORARY, false), large = ech_test_buffer(b, "large", 6 * half, ECH_ROLE_TEMPORARY, false),
          gradient = ech_test_buffer(b, "gradient", half, ECH_ROLE_TEMPORARY, false);
    static const char layer[] = "nn.Module: layers.0 Block\nmain",
                      back[] = "autograd::engine::evaluate_function: IndexAddBackward0\nnn.Module: layers.0 Block\nmain";
    (void)ech_test_put(b, ECH_OP_ALLOC, added);
    run_in(b, layer, 50 * ms, weights, added, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, y);
    run_in(b, layer, 50 * ms, added, y, half);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    run_in(b, _i == 1 ? "nn.Module: head Linear\nmain" : "loss\nmain", 50 * ms, _i == 1 ? added : y, large, half);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, gradient);
    run_in(b, back, 50 * ms, y, gradient, half);
    (void)ech_test_put(b, ECH_OP_FREE, added);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    GError *error = NULL;
    g_auto(EchSurvey) survey = {0};
    ck_assert(ech_survey_init(&survey, in, device));
    g_autoptr(EchTrace) out = ech_remat_keep_inputs(&survey, "layers.*", true, &error);
    ck_assert_ok(out != NULL, error);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 13 * half);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), (_i == 1 ? 13 : 9) * half);
}
END_TEST

/* An array whose halves two kernels make, one after the other: both run again, in one place. Where it is read in between, what the first made is not known. */
START_TEST(halves)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB / 2, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 20 * ms, weights, a, GB / 2);
    if (_i == 1)
        ech_test_kernel(b, 0, a, ECH_READ, GB / 2);
    make(b, ECH_WORK_MATRIX, 30 * ms, weights, a, GB / 2);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    pass_time(b, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(changed, device);
    EchTime more = _i == 0 ? (20 + 30) * ms : 0;
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 3 * GB + GB / 2);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), _i == 0 ? 2 * GB + GB / 2 : 3 * GB + GB / 2);
    ck_assert_msg(llabs(run->makespan - before->makespan - more) <= 10000, "%d: %" G_GINT64_FORMAT, _i, run->makespan - before->makespan);
}
END_TEST

/* An array made of weights in a smaller type, which are let go early and cannot be made again once the weights are updated: they stay, but not where they are
 * written over, too. */
START_TEST(stays_longer)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), smaller = ech_test_buffer(b, "smaller", GB / 10, ECH_ROLE_TEMPORARY, false),
          a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false),
          out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, smaller);
    make(b, ECH_WORK_VECTOR, 20 * ms, weights, smaller, GB / 10);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 50 * ms, smaller, a, GB / 10);
    ech_trace_builder_use(b, a, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (_i == 1)
        ech_test_kernel(b, 0, smaller, ECH_WRITE, GB / 10);
    (void)ech_test_put(b, ECH_OP_FREE, smaller);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    pass_time(b, large);
    ech_test_kernel(b, 0, weights, ECH_WRITE, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(changed, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 4 * GB);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), _i == 0 ? 3 * GB + GB / 10 : 4 * GB);
    ck_assert_msg(llabs(run->makespan - before->makespan - (_i == 0 ? 50 * ms : 0)) <= 10000, "%d: %" G_GINT64_FORMAT, _i, run->makespan - before->makespan);
}
END_TEST

/* A kernel that moves 2 GB, 20 ms, beside operations of 40 ms, and half of whose bytes is not kept: by how it was estimated, in ms, what it takes then. */
static const struct {
    EchTime whole, less;
} estimated[] = {{40, 40}, {50, 45}, {60, 50}, {80, 70}, {30, 30}};

START_TEST(fewer_bytes)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB / 2, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false),
          c = ech_test_buffer(b, "c", GB / 2, ECH_ROLE_OUTPUT, true), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 40 * ms, weights, c, GB / 2);
    ech_trace_builder_use(b, a, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    EchId first = (EchId)ech_trace_builder_n_ops(b) - 1;
    ech_trace_builder_peek_op(b, first)->estimate = estimated[_i].whole * ms;
    EchId between = (EchId)ech_trace_builder_n_ops(b) + 1;
    pass_time(b, large);
    ech_test_kernel(b, 30 * ms, a, ECH_READ, GB);
    ech_trace_builder_dep(b, between, 0);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    const EchOp *o = ech_trace_ops(out);
    while (o->kind != ECH_OP_KERNEL)
        o++;
    ck_assert_uint_eq(o->n_uses, 2);
    ck_assert_int_eq(o->estimate, estimated[_i].less * ms);
}
END_TEST

/* Of two arrays that one product makes, where products are kept, that which is made of the other one's is made of it again by who reads them. Without products
 * there is nothing to keep, and with other names neither goes. */
static const struct {
    const char *spec;
    EchProduct one, other;
    bool goes;
} beside[] = {
    {"remat:products=false", ECH_PRODUCT_RESULT, ECH_PRODUCT_BESIDE, true}, {"remat:products=false", ECH_PRODUCT_BATCH, ECH_PRODUCT_BESIDE, true},
    {"remat:products=false", ECH_PRODUCT_NONE, ECH_PRODUCT_NONE, false},    {"remat:products=false", ECH_PRODUCT_RESULT, ECH_PRODUCT_NONE, false},
    {"remat:keep=products", ECH_PRODUCT_RESULT, ECH_PRODUCT_BESIDE, true},  {"remat:products=false,keep=oth*", ECH_PRODUCT_RESULT, ECH_PRODUCT_BESIDE, false},
};

START_TEST(beside_a_result)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB / 10, ECH_ROLE_PARAMETER, true), one = ech_test_buffer(b, "one", GB, ECH_ROLE_ACTIVATION, false),
          other = ech_test_buffer(b, "other", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
    ech_trace_builder_peek_buffer(b, one)->product = (uint8_t)beside[_i].one;
    ech_trace_builder_peek_buffer(b, other)->product = (uint8_t)beside[_i].other;
    (void)ech_test_put(b, ECH_OP_ALLOC, one);
    (void)ech_test_put(b, ECH_OP_ALLOC, other);
    make(b, ECH_WORK_MATRIX, 40 * ms, weights, one, GB);
    ech_trace_builder_use(b, other, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    EchId between = (EchId)ech_trace_builder_n_ops(b) + 1;
    pass_time(b, large);
    ech_test_kernel(b, 30 * ms, one, ECH_READ, GB);
    ech_trace_builder_use(b, other, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, between, 0);
    (void)ech_test_put(b, ECH_OP_FREE, other);
    (void)ech_test_put(b, ECH_OP_FREE, one);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){beside[_i].spec, NULL});
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 4 * GB + GB / 10);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), (beside[_i].goes ? 3 : 4) * GB + GB / 10);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_KERNEL), 3);
}
END_TEST

/* An array made without products that nobody reads for 400 ms, or @n alike by one kernel. */
static EchTrace *streamed(unsigned n)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
    EchId other = n > 1 ? ech_test_buffer(b, "other", GB, ECH_ROLE_ACTIVATION, false) : ECH_NONE;
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    if (n > 1)
        (void)ech_test_put(b, ECH_OP_ALLOC, other);
    make(b, ECH_WORK_VECTOR, 10 * ms, weights, a, GB);
    if (n > 1)
        ech_trace_builder_use(b, other, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, GB);
    EchId between = (EchId)ech_trace_builder_n_ops(b) - 1;
    (void)ech_test_put(b, ECH_OP_FREE, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_VECTOR, 5 * ms, a, out, GB);
    ech_trace_builder_dep(b, between, 0);
    if (n > 1) {
        ech_trace_builder_use(b, other, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        (void)ech_test_put(b, ECH_OP_FREE, other);
    }
    (void)ech_test_put(b, ECH_OP_FREE, a);
    return ech_test_finish(b);
}

/* What needs no product runs inside what reads it: only what it reads is read twice. Nor does it matter how many arrays it makes. */
START_TEST(fused)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = streamed((unsigned)_i + 1);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) out_trace = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    g_autoptr(EchRun) run = ech_test_replay(out_trace, device);
    /* The first kernel had no reader but the last one, which does its work now. */
    ck_assert_uint_eq(ech_test_count(out_trace, ECH_OP_KERNEL), 2);
    ck_assert_msg(llabs(before->makespan - run->makespan - 20 * (_i + 1) * ms) <= 10, "%" G_GINT64_FORMAT, before->makespan - run->makespan);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), (EchBytes)(4 + _i) * GB);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 3 * GB);
}
END_TEST

static EchTrace *record(EchTrace *trace)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new_from(trace);
    for (EchId i = 0; i < ech_trace_builder_n_ops(b); i++)
        if (ech_trace_builder_peek_op(b, i)->kind == ECH_OP_KERNEL)
            ech_trace_builder_peek_op(b, i)->recorded = (EchRecorded){.start = (EchTime)i * 1000 * ms, .duration = 100 * ms};
    return ech_test_finish(b);
}

/* Recorded kernels are not fused, and take as long again as they took. */
START_TEST(recorded)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) one = _i == 0 ? kept(READ_AT_ONCE) : streamed(1);
    g_autoptr(EchTrace) in = record(one);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    /* The streamed one's first kernel is only moved. */
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_KERNEL), ech_test_count(in, ECH_OP_KERNEL) + (_i == 0));
    for (size_t i = 0; i < ech_trace_n_ops(out); i++)
        if (ech_trace_ops(out)[i].kind == ECH_OP_KERNEL)
            ck_assert_int_eq(ech_trace_ops(out)[i].recorded.duration, 100 * ms);
}
END_TEST

/* A scan and its gradient: the stack, which begins as zeros or a copy of them, is not kept, but what each iteration begins with is, a tenth of it. _i == 2: the
 * gradient copies its slice first, which it need not where that is made in the same place; _i == 3: the stack is turned round before, which goes with it; _i ==
 * 4: as _i == 2, by a copy among the kernels, as in a CUDA graph; _i == 5: as _i == 2, and the copy is turned round for the kernel that reads it. */
START_TEST(stack)
{
    const bool copies = _i == 2 || _i >= 4, kernel = _i != 4;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", GB / 100, ECH_ROLE_ACTIVATION, false), stacked = ech_test_buffer(b, "stacked", GB, ECH_ROLE_TEMPORARY, false),
          out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 100);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    EchId zeros = ech_test_buffer(b, "zeros", GB, ECH_ROLE_CONSTANT, true);
    ech_test_kernel(b, 0, stacked, ECH_WRITE, GB); /* all overwritten */
    if (_i == 1)
        ech_trace_builder_use(b, zeros, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    EchId forward = ech_test_loop(b, 10);
    (void)ech_test_put(b, ECH_OP_KERNEL, ECH_NONE); /* widens x tenfold */
    ech_trace_builder_use(b, x, ECH_READ, GB / 100, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, stacked, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_F32, 40 * UINT64_C(10000000), ECH_KNOWN);
    make(b, ECH_WORK_MATRIX, 20 * ms, x, x, GB / 100);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    if (_i == 3) {
        EchId turned = ech_test_buffer(b, "turned", GB, ECH_ROLE_TEMPORARY, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, turned);
        ech_test_kernel(b, 0, stacked, ECH_READ, GB);
        ech_trace_builder_use(b, turned, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        (void)ech_test_put(b, ECH_OP_FREE, stacked);
        stacked = turned;
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    EchId backward = ech_test_loop(b, 10), slice = ech_test_buffer(b, "slice", GB / 10, ECH_ROLE_TEMPORARY, false),
          round = ech_test_buffer(b, "round", GB / 10, ECH_ROLE_TEMPORARY, false);
    ech_trace_builder_peek_buffer(b, slice)->loop = ech_trace_builder_peek_buffer(b, round)->loop = backward;
    if (copies) {
        (void)ech_test_put(b, ECH_OP_ALLOC, slice);
        EchOp *copy = ech_trace_builder_peek_op(b, ech_test_put(b, kernel ? ECH_OP_KERNEL : ECH_OP_COPY, ECH_NONE));
        copy->bytes = kernel ? 0 : GB / 10;
        copy->memory_from = copy->memory_to = kernel ? ECH_NONE : ech_trace_builder_memory(b, "hbm");
        ech_trace_builder_use(b, stacked, ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, slice, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    if (_i == 5) {
        (void)ech_test_put(b, ECH_OP_ALLOC, round);
        ech_test_kernel(b, 0, slice, ECH_READ, GB / 10);
        ech_trace_builder_use(b, round, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    make(b, ECH_WORK_MATRIX, 30 * ms, _i == 5 ? round : copies ? slice : stacked, out, GB / 10);
    if (copies)
        (void)ech_test_put(b, ECH_OP_FREE, slice);
    if (_i == 5)
        (void)ech_test_put(b, ECH_OP_FREE, round);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    static const EchBytes most[] = {2 * 1000 + 100, 2 * 1000 + 100, 2 * 1000 + 200, 3 * 1000, 2 * 1000 + 200, 2 * 1000 + 300};
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), most[_i] * (GB / 1000));
    /* The zeros, the stacked x, a slice made again, and the output. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB + 10 * (GB / 100) + GB / 10 + GB / 10);
    /* Widening runs in the second loop only; zeros are not put there, nor slices copied, nor is all of it; x is copied ten times, read and written. */
    ck_assert_msg(llabs(run->makespan - (before->makespan - (MIN(1 + _i, 3) + 2 * (_i == 5)) * 10 * ms + 10 * (ms / 5))) <= 100,
                  "%" G_GINT64_FORMAT " %" G_GINT64_FORMAT, before->makespan, run->makespan);
}
END_TEST

/* The op of a trace that writes buffer @name, the @nth. */
static const EchOp *nth_writer(const EchTrace *t, const char *name, unsigned nth)
{
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(t)[u];
            const char *other = ech_trace_string(t, ech_trace_buffers(t)[use->buffer].name);
            if (use->access == ECH_WRITE && strcmp(other, name) == 0 && nth-- == 0)
                return op;
        }
    }
    return NULL;
}

static bool reads(const EchTrace *t, const EchOp *op, const char *name)
{
    bool found = false;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(t)[u];
        found |= use->access == ECH_READ && strcmp(ech_trace_string(t, ech_trace_buffers(t)[use->buffer].name), name) == 0;
    }
    return found;
}

/* Attention's softmax in a scan on a GPU, whose exponentials are stacked: where they are not, exponentials, sum and quotient are one kernel, which reads scores
 * and mask. The mask, made before, is made anew in what runs again. */
START_TEST(softmax)
{
    g_autoptr(GString) text = g_string_new(device_text);
    g_string_replace(text, "family: other", "family: gpu", 0);
    g_autoptr(EchDevice) device = ech_test_device_yaml(text->str);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    const EchBytes slice = GB / 10;
    EchId x = ech_test_buffer(b, "x", GB / 100, ECH_ROLE_ACTIVATION, false), stacked = ech_test_buffer(b, "stacked", GB, ECH_ROLE_TEMPORARY, false),
          out = ech_test_buffer(b, "out", slice, ECH_ROLE_OUTPUT, false), mask = ech_test_buffer(b, "mask", slice, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 100);
    (void)ech_test_put(b, ECH_OP_ALLOC, mask);
    ech_test_kernel(b, 0, mask, ECH_WRITE, slice);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    EchId forward = ech_test_loop(b, 10);
    static const char *const names[] = {"scores", "exponentials", "sum", "quotient"};
    EchId made[G_N_ELEMENTS(names)];
    for (size_t k = 0; k < G_N_ELEMENTS(names); k++) {
        made[k] = ech_test_buffer(b, names[k], k == 2 ? GB / 1000 : slice, ECH_ROLE_TEMPORARY, false);
        ech_trace_builder_peek_buffer(b, made[k])->loop = forward;
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, made[0]);
    make(b, ECH_WORK_MATRIX, 10 * ms, x, made[0], GB / 100);
    (void)ech_test_put(b, ECH_OP_ALLOC, made[1]);
    make(b, ECH_WORK_VECTOR, 1 * ms, made[0], made[1], slice);
    ech_trace_builder_use(b, mask, ECH_READ, slice, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, made[0]);
    ech_test_kernel(b, 0, made[1], ECH_READ, slice);
    ech_trace_builder_use(b, stacked, ECH_WRITE, slice, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_ALLOC, made[2]);
    ech_test_kernel(b, 1 * ms, made[1], ECH_READ, slice);
    ech_trace_builder_use(b, made[2], ECH_WRITE, GB / 1000, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_ALLOC, made[3]);
    make(b, ECH_WORK_VECTOR, 1 * ms, made[1], made[3], slice);
    ech_trace_builder_use(b, made[2], ECH_READ, GB / 1000, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, made[1]);
    (void)ech_test_put(b, ECH_OP_FREE, made[2]);
    make(b, ECH_WORK_MATRIX, 10 * ms, made[3], x, GB / 100);
    (void)ech_test_put(b, ECH_OP_FREE, made[3]);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 30 * ms, stacked, out, slice);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    (void)ech_test_put(b, ECH_OP_FREE, mask);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    const EchOp *one = nth_writer(changed, "quotient", 0), *again = nth_writer(changed, "exponentials", 0);
    ck_assert_ptr_nonnull(one);
    ck_assert(reads(changed, one, "scores") && reads(changed, one, "mask") && !reads(changed, one, "exponentials") && !reads(changed, one, "sum"));
    ck_assert_ptr_null(nth_writer(changed, "sum", 0));
    ck_assert_ptr_nonnull(again);
    ck_assert(reads(changed, again, "scores") && !reads(changed, again, "mask"));
    ck_assert_ptr_null(nth_writer(changed, "exponentials", 1));
    ck_assert(ech_test_says(diag, "2 kernels run inside those that read what they make"));
}
END_TEST

/* What an iteration copies for the next goes with the kernel that reads it there, which comes before it. */
START_TEST(copied_for_the_next)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId mask = ech_test_buffer(b, "mask", GB / 10, ECH_ROLE_PARAMETER, true), copied = ech_test_buffer(b, "copied", GB / 10, ECH_ROLE_TEMPORARY, false),
          x = ech_test_buffer(b, "x", GB / 100, ECH_ROLE_ACTIVATION, false), stacked = ech_test_buffer(b, "stacked", GB, ECH_ROLE_TEMPORARY, false),
          out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, true);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 100);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    (void)ech_test_put(b, ECH_OP_ALLOC, copied);
    EchId forward = ECH_NONE;
    for (int k = 0; k < 2; k++) {
        if (k == 1) {
            forward = ech_test_loop(b, 10);
            make(b, ECH_WORK_MATRIX, 40 * ms, copied, stacked, GB / 10);
            ech_trace_builder_use(b, x, ECH_READ, GB / 100, ECH_PATTERN_STREAM, ECH_KNOWN);
            make(b, ECH_WORK_MATRIX, 20 * ms, x, x, GB / 100);
        }
        EchId copy = ech_test_put(b, ECH_OP_COPY, ECH_NONE);
        EchOp *o = ech_trace_builder_peek_op(b, copy);
        o->memory_from = o->memory_to = ech_trace_builder_peek_buffer(b, mask)->memory;
        o->bytes = GB / 10;
        ech_trace_builder_use(b, mask, ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, copied, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, copied);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 30 * ms, stacked, out, GB / 10);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, (const char *const[]){"remat", NULL});
    ck_assert_uint_eq(ech_test_count(in, ECH_OP_COPY), 2);
    ck_assert_uint_eq(ech_test_count(changed, ECH_OP_COPY), 0);
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    ck_assert_uint_lt(ech_test_peak(run, "hbm"), GB);
}
END_TEST

/* What an iteration makes for the next, brought back on chip in two parts that end where the whole begins: the stack is made of it again, each slice of its
 * own, which is stacked instead. */
START_TEST(parts_for_the_next)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", GB / 100, ECH_ROLE_ACTIVATION, false), next = ech_test_buffer(b, "next", GB / 100, ECH_ROLE_ACTIVATION, false),
          stacked = ech_test_buffer(b, "stacked", GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, true), parts[2];
    EchBuffer *whole = ech_trace_builder_peek_buffer(b, x);
    whole->memory = ech_trace_builder_memory(b, "vector");
    whole->offset = 0;
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 100);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    EchId forward = ech_test_loop(b, 10);
    ech_trace_builder_peek_buffer(b, next)->loop = forward;
    make(b, ECH_WORK_MATRIX, 40 * ms, x, stacked, GB / 10);
    ech_trace_builder_peek_use(b, ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->first_use)->bytes = GB / 100;
    (void)ech_test_put(b, ECH_OP_ALLOC, next);
    make(b, ECH_WORK_MATRIX, 20 * ms, x, next, GB / 100);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    for (int k = 0; k < 2; k++) {
        parts[k] = ech_test_buffer(b, "part", GB / 200, ECH_ROLE_TEMPORARY, false);
        EchBuffer *part = ech_trace_builder_peek_buffer(b, parts[k]);
        part->memory = ech_trace_builder_memory(b, "vector");
        part->offset = (uint64_t)k * (GB / 200);
        part->loop = forward;
        (void)ech_test_put(b, ECH_OP_ALLOC, parts[k]);
        EchId copy = ech_test_put(b, ECH_OP_COPY, ECH_NONE);
        EchOp *o = ech_trace_builder_peek_op(b, copy);
        o->memory_from = ech_trace_builder_peek_buffer(b, next)->memory;
        o->memory_to = ech_trace_builder_memory(b, "vector");
        o->bytes = GB / 200;
        ech_trace_builder_use(b, next, ECH_READ, GB / 200, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, parts[k], ECH_WRITE, GB / 200, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    (void)ech_test_put(b, ECH_OP_FREE, next);
    for (int k = 0; k < 2; k++)
        (void)ech_test_put(b, ECH_OP_FREE, parts[k]);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 30 * ms, stacked, out, GB / 10);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, (const char *const[]){"remat", NULL});
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    /* The stacked x, a slice, and the output. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 10 * (GB / 100) + GB / 10 + GB / 10);
}
END_TEST

/* Around a scan and its gradient nothing is made again, unless its name is asked for: jax.checkpoint is around the scan's body. */
START_TEST(outside_of_a_scan)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB / 10, ECH_ROLE_PARAMETER, true), cast = ech_test_buffer(b, "cast", GB / 10, ECH_ROLE_TEMPORARY, false),
          x = ech_test_buffer(b, "x", GB / 100, ECH_ROLE_ACTIVATION, false), stacked = ech_test_buffer(b, "stacked", GB, ECH_ROLE_TEMPORARY, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, true);
    (void)ech_test_put(b, ECH_OP_ALLOC, cast);
    make(b, ECH_WORK_VECTOR, 0, weights, cast, GB / 10);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 100);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    EchId forward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 40 * ms, cast, stacked, GB / 10);
    ech_trace_builder_use(b, x, ECH_READ, GB / 100, ECH_PATTERN_STREAM, ECH_KNOWN);
    make(b, ECH_WORK_MATRIX, 20 * ms, x, x, GB / 100);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    pass_time(b, large);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 30 * ms, stacked, out, GB / 10);
    ech_trace_builder_use(b, cast, ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    (void)ech_test_put(b, ECH_OP_FREE, cast);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) scan = ech_test_pass(in, device, diag, (const char *const[]){"remat", NULL});
    ck_assert_ptr_nonnull(nth_writer(scan, "cast", 0));
    ck_assert_ptr_null(nth_writer(scan, "cast", 1));
    ck_assert(ech_test_says(diag, "1 array (95.4 MiB) kept: a loss's, or outside of loops"));
    g_autoptr(EchTrace) named = ech_test_pass(in, device, diag, (const char *const[]){"remat:names=cast", NULL});
    ck_assert_ptr_nonnull(nth_writer(named, "cast", 1));
}
END_TEST

/* Nor are logits, which are no block's, where a program's blocks come one after the other. */
START_TEST(logits_are_kept)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    EchBytes most[2];
    for (int k = 0; k < 2; k++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), logits = ech_test_buffer(b, "logits", GB, ECH_ROLE_TEMPORARY, false),
              large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false);
        ech_trace_builder_peek_buffer(b, logits)->shape = ech_trace_builder_string(b, "f32[7812,32000]{1,0}", -1);
        if (k == 0)
            ech_trace_builder_set_property(b, ECH_TRACE_LOGITS, "249984000/32000");
        (void)ech_test_put(b, ECH_OP_ALLOC, logits);
        make(b, ECH_WORK_MATRIX, 50 * ms, weights, logits, GB);
        ech_test_kernel(b, 0, logits, ECH_READ, GB);
        pass_time(b, large);
        (void)ech_test_put(b, ECH_OP_ALLOC, out);
        make(b, ECH_WORK_MATRIX, 30 * ms, logits, out, GB);
        (void)ech_test_put(b, ECH_OP_FREE, logits);
        g_autoptr(EchTrace) in = ech_test_finish(b);
        g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, (const char *const[]){"remat", NULL});
        g_autoptr(EchRun) run = ech_test_replay(changed, device);
        most[k] = ech_test_peak(run, "hbm");
    }
    ck_assert_uint_eq(most[0], most[1] + GB);
}
END_TEST

/* A kernel that copies slices of two stacks goes, too. _i == 1: but not where what is made of a copy is made again later in the iteration, from the copy. */
START_TEST(two_copies)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", GB / 100, ECH_ROLE_ACTIVATION, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, true), stacks[2],
          slices[2], later = ech_test_buffer(b, "later", GB, ECH_ROLE_TEMPORARY, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 100);
    for (int k = 0; k < 2; k++) {
        stacks[k] = ech_test_buffer(b, "stack", GB, ECH_ROLE_TEMPORARY, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, stacks[k]);
    }
    EchId forward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 40 * ms, x, stacks[0], GB / 10);
    ech_trace_builder_peek_use(b, ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->first_use)->bytes = GB / 100;
    ech_trace_builder_use(b, stacks[1], ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    make(b, ECH_WORK_MATRIX, 20 * ms, x, x, GB / 100);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    EchId backward = ech_test_loop(b, 10);
    for (int k = 0; k < 2; k++) {
        slices[k] = ech_test_buffer(b, "slice", GB / 10, ECH_ROLE_TEMPORARY, false);
        ech_trace_builder_peek_buffer(b, slices[k])->loop = backward;
        (void)ech_test_put(b, ECH_OP_ALLOC, slices[k]);
    }
    ech_trace_builder_peek_buffer(b, later)->loop = ech_trace_builder_peek_buffer(b, large)->loop = backward;
    (void)ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    for (int k = 0; k < 2; k++)
        ech_trace_builder_use(b, stacks[k], ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    for (int k = 0; k < 2; k++)
        ech_trace_builder_use(b, slices[k], ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (_i == 1) {
        (void)ech_test_put(b, ECH_OP_ALLOC, later);
        make(b, ECH_WORK_MATRIX, 10 * ms, slices[0], later, GB);
        ech_trace_builder_peek_use(b, ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->first_use)->bytes = GB / 10;
        ech_test_kernel(b, 0, later, ECH_READ, GB);
        pass_time(b, large);
        ech_test_kernel(b, 0, later, ECH_READ, GB);
        (void)ech_test_put(b, ECH_OP_FREE, later);
    }
    for (int k = 0; k < 2; k++)
        make(b, ECH_WORK_MATRIX, 30 * ms, slices[k], out, GB / 10);
    for (int k = 0; k < 2; k++)
        (void)ech_test_put(b, ECH_OP_FREE, slices[k]);
    ech_test_close_loop(b, backward);
    for (int k = 0; k < 2; k++)
        (void)ech_test_put(b, ECH_OP_FREE, stacks[k]);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    /* x stacked, a slice of each, and the output; of one of them, the copy; and the large one, while the later one is gone. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 10 * (GB / 100) + 2 * (GB / 10) + GB / 10 + (_i == 1 ? 2 * GB : 0));
}
END_TEST

/* A scan of scans and its gradient: neither the outer's stack is kept, nor what the inner one, run again in the gradient, would stack up there. */
START_TEST(scan_of_scans)
{
    const EchBytes part = UINT64_C(512) * 2000;
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", part, ECH_ROLE_ACTIVATION, false), stacked = ech_test_buffer(b, "stacked", 500 * part, ECH_ROLE_TEMPORARY, false),
          inner = ech_test_buffer(b, "inner", 100 * part, ECH_ROLE_TEMPORARY, false),
          slice = ech_test_buffer(b, "slice", 100 * part, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", part, ECH_ROLE_OUTPUT, true);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, part);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    EchId forward = ech_test_loop(b, 5);
    ech_trace_builder_peek_buffer(b, inner)->loop = forward;
    (void)ech_test_put(b, ECH_OP_ALLOC, inner);
    EchId within = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 4 * ms, x, inner, part);
    ech_trace_builder_peek_use(b, ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->first_use + 1)->bytes = 10 * part;
    make(b, ECH_WORK_MATRIX, 2 * ms, x, x, part);
    ech_test_close_loop(b, within);
    ech_test_kernel(b, 0, inner, ECH_READ, 100 * part);
    ech_trace_builder_use(b, stacked, ECH_WRITE, 100 * part, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, inner);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    EchId backward = ech_test_loop(b, 5);
    ech_trace_builder_peek_buffer(b, slice)->loop = backward;
    (void)ech_test_put(b, ECH_OP_ALLOC, slice);
    ech_test_kernel(b, 0, stacked, ECH_READ, 100 * part);
    ech_trace_builder_use(b, slice, ECH_WRITE, 100 * part, ECH_PATTERN_STREAM, ECH_KNOWN);
    within = ech_test_loop(b, 10);
    ech_test_kernel(b, 3 * ms, slice, ECH_READ, 10 * part);
    ech_trace_builder_use(b, out, ECH_WRITE, part, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_test_close_loop(b, within);
    (void)ech_test_put(b, ECH_OP_FREE, slice);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), 602 * part);
    static const char *const least[] = {"remat", NULL}, *const less[] = {"remat:memory=300MiB", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, least), enough = ech_test_pass(in, device, diag, less);
    g_autoptr(EchRun) run = ech_test_replay(changed, device), other = ech_test_replay(enough, device);
    /* x as each of five iterations, and within one each of ten, begins with it; a slice, and the output. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), (5 + 10 + 10 + 1) * part);
    ck_assert(ech_test_says(diag, "the bodies of both would be under jax.checkpoint"));
    ck_assert_uint_le(ech_test_peak(other, "hbm"), UINT64_C(300) << 20);
    ck_assert_int_le(other->makespan, run->makespan);
}
END_TEST

/* A loop that takes slices of an array from outside of it, which is made again whole before the loop, takes no more of it than it did. */
START_TEST(slices)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 50 * ms, weights, a, GB);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    pass_time(b, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    EchId loop = ech_test_loop(b, 10);
    make(b, ECH_WORK_VECTOR, 0, a, out, GB / 10);
    ech_test_close_loop(b, loop);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(changed, device);
    ck_assert_msg(llabs(run->makespan - before->makespan - 50 * ms) <= 10000, "%" G_GINT64_FORMAT, run->makespan - before->makespan);
    ck_assert_uint_lt(ech_test_peak(run, "hbm"), ech_test_peak(before, "hbm"));
}
END_TEST

/* Where not all has room on chip, that goes there which saves most bytes for its size: what each iteration of a loop that runs again uses, before what the loop
 * makes. */
START_TEST(on_chip)
{
    g_autofree char *text = g_strconcat(device_text, "", NULL);
    char *at = strstr(text, "units:");
    g_autofree char *with =
        g_strdup_printf("%.*s  vector: {kind: vector, space: 1, capacity: 120MB, read: 1TB/s, write: 1TB/s}\n%s", (int)(at - text), text, at);
    g_autoptr(EchDevice) device = ech_test_device_yaml(with);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB / 10, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, false),
          own = ech_test_buffer(b, "own", GB / 20, ECH_ROLE_TEMPORARY, false);
    ech_trace_builder_peek_buffer(b, own)->memory = ech_trace_builder_memory(b, "vector");
    ech_trace_builder_peek_buffer(b, own)->offset = 0;
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    EchId loop = ech_test_loop(b, 10);
    ech_trace_builder_peek_buffer(b, own)->loop = loop;
    (void)ech_test_put(b, ECH_OP_ALLOC, own);
    make(b, ECH_WORK_MATRIX, 5 * ms, weights, own, GB / 20);
    make(b, ECH_WORK_MATRIX, 5 * ms, own, a, GB / 100);
    (void)ech_test_put(b, ECH_OP_FREE, own);
    ech_test_close_loop(b, loop);
    ech_test_kernel(b, 0, a, ECH_READ, GB / 10);
    pass_time(b, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB / 10);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    const EchOp *ops = ech_trace_ops(changed);
    uint32_t own_on_chip = 0, a_on_chip = 0;
    for (size_t i = 0; i < ech_trace_n_ops(changed); i++) {
        const EchBuffer *of = ops[i].kind == ECH_OP_ALLOC ? &ech_trace_buffers(changed)[ops[i].target] : NULL;
        bool there = of != NULL && strcmp(ech_trace_memory(changed, of->memory), "vector") == 0;
        own_on_chip += there && of->bytes == GB / 20;
        a_on_chip += there && of->bytes == GB / 10;
    }
    ck_assert_uint_eq(own_on_chip, 2);
    ck_assert_uint_eq(a_on_chip, 0);
}
END_TEST

/* Where nobody knows where arrays lie on chip, they take room all the same, and what the program is said to need there does not decide. One array is made
 * again, so that much is there at once. */
START_TEST(beside_unplaced)
{
    static const struct {
        EchBytes unplaced;
        bool room;
    } cases[] = {{GB / 20, true}, {GB / 10, false}};
    const char *at = strstr(device_text, "units:");
    g_autofree char *with =
        g_strdup_printf("%.*s  vector: {kind: vector, space: 1, capacity: 120MB, read: 1TB/s, write: 1TB/s}\n%s", (int)(at - device_text), device_text, at);
    g_autoptr(EchDevice) device = ech_test_device_yaml(with);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB / 20, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB / 20, ECH_ROLE_OUTPUT, false),
          there = ech_test_buffer(b, "there", cases[_i].unplaced, ECH_ROLE_TEMPORARY, false);
    ech_trace_builder_peek_buffer(b, weights)->offset = 0;
    ech_trace_builder_peek_buffer(b, there)->memory = ech_trace_builder_memory(b, "vector");
    ech_trace_builder_set_property(b, "unplaced.vector", "200 MB");
    ech_trace_builder_set_property(b, "memory_analysis.argument", "0");
    ech_trace_builder_set_property(b, "memory_analysis.space_1", "200000000");
    (void)ech_test_put(b, ECH_OP_ALLOC, there);
    ech_test_kernel(b, ms, there, ECH_WRITE, GB / 20);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    make(b, ECH_WORK_MATRIX, 5 * ms, weights, a, GB / 20);
    ech_test_kernel(b, 0, a, ECH_READ, GB / 20);
    pass_time(b, large);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB / 20);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    ech_test_kernel(b, ms, there, ECH_READ, GB / 20);
    (void)ech_test_put(b, ECH_OP_FREE, there);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    ck_assert_uint_eq(ech_test_peak(run, "vector"), cases[_i].unplaced + (cases[_i].room ? GB / 20 : 0));
    const EchReport report = {.title = "t", .trace = changed, .device = device, .run = run};
    ck_assert(ech_report_fits(&report));
    g_autofree char *once = g_strdup_printf("%" G_GUINT64_FORMAT, GB / 20);
    ck_assert_str_eq(ech_trace_get_property(changed, "remat_at_once_bytes"), once);
}
END_TEST

/* How a loop of ten iterations makes an array: the first is what loops are that gather what a product reads shard by shard. */
typedef enum {
    LOOP_PARTS,        /* a part of it an iteration, by way of a buffer of the iteration's own */
    LOOP_SUM = 1,      /* all of it, from what the iteration before left; it begins as what a kernel makes */
    LOOP_SHARD = 2,    /* of a shard that one iteration hands to the next, which begins as a copy of the weights, and is let go in between */
    LOOP_STATE = 4,    /* of what stays after the step, and is changed as it goes */
    LOOP_UPDATED = 8,  /* of weights that are updated before it is needed again */
    LOOP_PRODUCTS = 16 /* by matrix products */
} Looped;

/* An array made of weights by a loop that takes 10 ms an iteration, read at once, kept for 400 ms and read by a product that takes 30 ms. */
static EchTrace *made_by_loop(Looped how)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB, ECH_ROLE_OUTPUT, false),
          own = ech_test_buffer(b, "own", GB / 10, ECH_ROLE_TEMPORARY, false), shard = ech_test_buffer(b, "shard", GB / 10, ECH_ROLE_TEMPORARY, false);
    EchId state = how & LOOP_STATE ? ech_test_buffer(b, "state", GB / 10, ECH_ROLE_UNKNOWN, true) : ECH_NONE;
    EchWorkUnit unit = how & LOOP_PRODUCTS ? ECH_WORK_MATRIX : ECH_WORK_VECTOR;
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    if (how & LOOP_SUM)
        make(b, unit, 20 * ms, weights, a, GB);
    if (how & LOOP_SHARD) {
        (void)ech_test_put(b, ECH_OP_ALLOC, shard);
        make(b, unit, 20 * ms, weights, shard, GB / 10);
    }
    EchId loop = ech_test_loop(b, 10);
    ech_trace_builder_peek_buffer(b, own)->loop = loop;
    (void)ech_test_put(b, ECH_OP_ALLOC, own);
    make(b, unit, 5 * ms, weights, own, GB / 10);
    if (how & LOOP_STATE) {
        ech_trace_builder_use(b, state, ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, state, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    if (how & LOOP_SHARD) {
        ech_trace_builder_use(b, shard, ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
        (void)ech_test_put(b, ECH_OP_FREE, shard);
        (void)ech_test_put(b, ECH_OP_ALLOC, shard);
        make(b, unit, 0, own, shard, GB / 10);
    }
    make(b, unit, 5 * ms, how & LOOP_SUM ? a : own, a, how & LOOP_SUM ? GB : GB / 10);
    EchOp gather = ech_op_init(ECH_OP_COLLECTIVE);
    gather.collective = ECH_COLLECTIVE_PERMUTE;
    gather.launch = ech_trace_builder_string(b, "devices=8 stride=1", -1);
    gather.queue = ech_trace_builder_queue(b, "permutes +1", ECH_QUEUE_COLLECTIVE, 0);
    gather.memory_from = 8;
    EchId permuted = ech_trace_builder_op(b, gather);
    ech_trace_builder_dep(b, permuted - 1, 0);
    EchId wait = ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
    ech_trace_builder_dep(b, wait - 1, 0);
    (void)ech_test_put(b, ECH_OP_FREE, own);
    ech_test_close_loop(b, loop);
    if (how & LOOP_SHARD)
        (void)ech_test_put(b, ECH_OP_FREE, shard);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    pass_time(b, large);
    if (how & LOOP_UPDATED)
        ech_test_kernel(b, 0, weights, ECH_WRITE, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    make(b, ECH_WORK_MATRIX, 30 * ms, a, out, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    return ech_test_finish(b);
}

/* Time and memory of a loop that runs again: MB that the device holds at its fullest, and ms that are added. */
static const struct {
    Looped how;
    const char *spec;
    EchTime more;
    EchBytes kept, hbm; /* kept: without the pass */
} on_looped[] = {
    {LOOP_PARTS, "remat", 100, 4000, 3100},
    {LOOP_SUM, "remat", 20 + 10 * (5 + 20), 4000, 3100},      /* what it begins as runs again, too, and is changed where it is */
    {LOOP_SHARD, "remat", 20 + 10 * (5 + 2 + 5), 4000, 3200}, /* the shard beside it, for as long as it takes */
    {LOOP_STATE, "remat", 0, 4100, 4100},                     /* what it changes stays changed: it cannot begin as it did */
    {LOOP_UPDATED, "remat", 0, 4000, 4000},
    {LOOP_PRODUCTS, "remat", 100, 4000, 3100},
    {LOOP_PRODUCTS, "remat:products=false", 0, 4000, 4000},
};

START_TEST(whole_loop)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = made_by_loop(on_looped[_i].how);
    const char *const specs[] = {on_looped[_i].spec, NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), on_looped[_i].kept * (GB / 1000));
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), on_looped[_i].hbm * (GB / 1000));
    ck_assert_msg(llabs(run->makespan - before->makespan - on_looped[_i].more * ms) <= 10000, "%d: %" G_GINT64_FORMAT, _i, run->makespan - before->makespan);
    size_t times = on_looped[_i].more > 0 ? 2 : 1;
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_LOOP), times);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COLLECTIVE), times);
}
END_TEST

/* A scan and its gradient, which takes what two kernels made of a product in each iteration. A policy that keeps products stacks that in the place of both, in
 * its own type, once where a compiler made it twice: half a gigabyte or one for two. */
static const struct {
    const char *spec;
    EchProduct product;
    EchDtype own;
    const char *again; /* how the kernel is called whose result the second one takes; NULL: the first one's */
    EchBytes stacked;  /* MB, of what was stacked */
} stackings[] = {
    {"remat:products=false", ECH_PRODUCT_RESULT, ECH_DTYPE_NONE, NULL, 1000}, {"remat:products=false", ECH_PRODUCT_BATCH, ECH_DTYPE_BF16, NULL, 500},
    {"remat:keep=products", ECH_PRODUCT_RESULT, ECH_DTYPE_BF16, NULL, 500},   {"remat:products=false", ECH_PRODUCT_RESULT, ECH_DTYPE_BF16, "m.remat2", 500},
    {"remat:products=false", ECH_PRODUCT_RESULT, ECH_DTYPE_BF16, "n", 1000},  {"remat:products=false", ECH_PRODUCT_NONE, ECH_DTYPE_NONE, NULL, 2000},
    {"remat:keep=neither", ECH_PRODUCT_RESULT, ECH_DTYPE_BF16, NULL, 10},
};

START_TEST(stacked_products)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", GB / 1000, ECH_ROLE_ACTIVATION, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, true), stacks[2],
          made[2];
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 1000);
    for (int k = 0; k < 2; k++) {
        stacks[k] = ech_test_buffer(b, k == 0 ? "one" : "two", GB, ECH_ROLE_TEMPORARY, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, stacks[k]);
    }
    EchId forward = ech_test_loop(b, 10);
    for (int k = 0; k < (stackings[_i].again ? 2 : 1); k++) {
        made[k] = ech_test_buffer(b, "made", GB / 10, ECH_ROLE_TEMPORARY, false);
        EchBuffer *buffer = ech_trace_builder_peek_buffer(b, made[k]);
        buffer->loop = forward;
        buffer->dtype = ECH_DTYPE_F32;
        buffer->product = (uint8_t)stackings[_i].product;
        buffer->product_dtype = (uint8_t)stackings[_i].own;
        (void)ech_test_put(b, ECH_OP_ALLOC, made[k]);
        make(b, ECH_WORK_MATRIX, 40 * ms, x, made[k], GB / 1000);
        ech_trace_builder_peek_use(b, (uint32_t)ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->first_use + 1)->bytes = GB / 10;
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->name = ech_trace_builder_string(b, k == 0 ? "m" : stackings[_i].again, -1);
    }
    for (int k = 0; k < 2; k++)
        make(b, ECH_WORK_VECTOR, 0, made[stackings[_i].again ? k : 0], stacks[k], GB / 10);
    for (int k = 0; k < (stackings[_i].again ? 2 : 1); k++)
        (void)ech_test_put(b, ECH_OP_FREE, made[k]);
    make(b, ECH_WORK_VECTOR, 20 * ms, x, x, GB / 1000);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_VECTOR, 30 * ms, stacks[0], out, GB / 10);
    ech_trace_builder_use(b, stacks[1], ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacks[0]);
    (void)ech_test_put(b, ECH_OP_FREE, stacks[1]);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, (const char *const[]){stackings[_i].spec, NULL});
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    EchBytes most = ech_test_peak(run, "hbm"), rest = GB / 10 + GB / 1000 + 4096; /* the output, and x; what an iteration makes, once or twice */
    ck_assert_uint_ge(most, stackings[_i].stacked * (GB / 1000) + GB / 10);
    ck_assert_uint_le(most, stackings[_i].stacked * (GB / 1000) + rest + 2 * (GB / 10));
    ck_assert_int_eq(ech_test_says(diag, "are kept of products that iterations make"), stackings[_i].stacked == 500 || stackings[_i].stacked == 1000);
}
END_TEST

/* A scan that stacks a product's result as it is, and something made of it as well: with products kept the gradient makes the latter of its slice of the stack
 * that there is; the product is not stacked once more. */
START_TEST(stacks_that_are_kept)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", GB / 1000, ECH_ROLE_ACTIVATION, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, true),
          one = ech_test_buffer(b, "one", GB, ECH_ROLE_TEMPORARY, false), two = ech_test_buffer(b, "two", GB, ECH_ROLE_TEMPORARY, false),
          made = ech_test_buffer(b, "made", GB / 10, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 1000);
    (void)ech_test_put(b, ECH_OP_ALLOC, one);
    (void)ech_test_put(b, ECH_OP_ALLOC, two);
    EchId forward = ech_test_loop(b, 10);
    ech_trace_builder_peek_buffer(b, made)->loop = forward;
    ech_trace_builder_peek_buffer(b, made)->product = ech_trace_builder_peek_buffer(b, one)->product = ECH_PRODUCT_RESULT;
    (void)ech_test_put(b, ECH_OP_ALLOC, made);
    make(b, ECH_WORK_MATRIX, 40 * ms, x, made, GB / 1000);
    ech_trace_builder_peek_use(b, (uint32_t)ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->first_use + 1)->bytes = GB / 10;
    make(b, ECH_WORK_VECTOR, 5 * ms, made, two, GB / 10);
    ech_test_kernel(b, 0, made, ECH_READ, GB / 10);
    ech_trace_builder_use(b, one, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, made);
    make(b, ECH_WORK_VECTOR, 20 * ms, x, x, GB / 1000);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_VECTOR, 30 * ms, one, out, GB / 10);
    ech_trace_builder_use(b, two, ECH_READ, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, one);
    (void)ech_test_put(b, ECH_OP_FREE, two);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, (const char *const[]){"remat:keep=products", NULL});
    g_autoptr(EchRun) run = ech_test_replay(changed, device);
    ck_assert_uint_ge(ech_test_peak(run, "hbm"), GB + GB / 10);
    ck_assert_uint_le(ech_test_peak(run, "hbm"), GB + 3 * (GB / 10) + GB / 1000 + 4096);
    ck_assert_int_eq(ech_test_says(diag, "are kept of products that iterations make"), 0);
}
END_TEST

/* A scan and its gradient, whose slices a loop inside of the scan makes: that runs again inside of the gradient's. _i == 1: on chip, where something small lay
 * by chance before, which is no part of it. */
START_TEST(loop_in_stack)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId x = ech_test_buffer(b, "x", GB / 125, ECH_ROLE_ACTIVATION, false), stacked = ech_test_buffer(b, "stacked", GB, ECH_ROLE_TEMPORARY, false),
          slice = ech_test_buffer(b, "slice", GB / 10, ECH_ROLE_TEMPORARY, false), out = ech_test_buffer(b, "out", GB / 10, ECH_ROLE_OUTPUT, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, x);
    ech_test_kernel(b, 0, x, ECH_WRITE, GB / 125);
    (void)ech_test_put(b, ECH_OP_ALLOC, stacked);
    EchId forward = ech_test_loop(b, 10);
    ech_trace_builder_peek_buffer(b, slice)->loop = forward;
    if (_i == 1) {
        EchId small = ech_test_buffer(b, "small", GB / 1000, ECH_ROLE_TEMPORARY, false);
        EchBuffer *before = ech_trace_builder_peek_buffer(b, small), *lies = ech_trace_builder_peek_buffer(b, slice);
        before->loop = forward;
        before->memory = lies->memory = ech_trace_builder_memory(b, "vector");
        before->offset = lies->offset = 0;
        (void)ech_test_put(b, ECH_OP_ALLOC, small);
        make(b, ECH_WORK_VECTOR, 0, x, small, GB / 1000);
        (void)ech_test_put(b, ECH_OP_FREE, small);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, slice);
    EchId inner = ech_test_loop(b, 5);
    make(b, ECH_WORK_MATRIX, 8 * ms, x, slice, GB / 125);
    ech_test_close_loop(b, inner);
    ech_test_kernel(b, 0, slice, ECH_READ, GB / 10);
    ech_trace_builder_use(b, stacked, ECH_WRITE, GB / 10, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, slice);
    make(b, ECH_WORK_MATRIX, 20 * ms, x, x, GB / 125);
    ech_test_close_loop(b, forward);
    (void)ech_test_put(b, ECH_OP_FREE, x);
    (void)ech_test_put(b, ECH_OP_ALLOC, out);
    EchId backward = ech_test_loop(b, 10);
    make(b, ECH_WORK_MATRIX, 30 * ms, stacked, out, GB / 10);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stacked);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"remat", NULL};
    g_autoptr(EchTrace) changed = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(changed, device);
    if (_i == 1) {
        ck_assert_uint_lt(ech_test_peak(run, "hbm"), GB / 2);
        return;
    }
    ck_assert_uint_eq(ech_test_peak(before, "hbm"), GB + GB / 125 + GB / 10);
    /* The stacked x, what the inner loop makes again, and the output. */
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 10 * (GB / 125) + GB / 10 + GB / 10);
    /* The inner loop runs in the second only; its result is not copied to the stack, read and written, any more; x is copied ten times. */
    ck_assert_msg(llabs(run->makespan - (before->makespan + 10 * (4 * ms / 25 - 2 * ms))) <= 100000, "%" G_GINT64_FORMAT " %" G_GINT64_FORMAT, before->makespan,
                  run->makespan);
}
END_TEST

/* Whatever is asked for: the result verifies, nothing is read before it is made, no moment holds more than the fullest did, products are never fewer, and the
 * same comes out twice. */
static const char *const programs[] = {"gpt_everything.v5e", "gpt_everything.v6e", "gpt_everything.h100", "gpt_unrolled_kept.h100",
                                       "mlp_none.h100",      "adam_none.v5e",      "mlp_activations.v6e", "sharded_mlp.v6e"};
static const char *const asked[] = {"remat:above=1", "remat:above=1,products=false", "remat:memory=12MiB"};

/* Reads of what nothing has written, in the order of the trace; what a loop makes for the next iteration is there. */
static size_t unmade(const EchTrace *trace)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autofree bool *made = g_new0(bool, ech_trace_n_buffers(trace) + 1);
    size_t n = 0;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
            for (int writes = 0; writes < 2; writes++)
                for (uint32_t u = 0; u < ech_trace_ops(trace)[i].n_uses; u++) {
                    const EchUse *use = &ech_trace_uses(trace)[ech_trace_ops(trace)[i].first_use + u];
                    EchId root = use->buffer;
                    while (buffers[root].alias_of != ECH_NONE)
                        root = buffers[root].alias_of;
                    /* What stays from one iteration, or from outside, is made in the first round. */
                    if (writes)
                        made[root] |= use->access == ECH_WRITE && (buffers[root].loop == ECH_NONE || round == 1);
                    else if (round == 1)
                        n += use->access == ECH_READ && !made[root] && !buffers[root].resident;
                }
    return n;
}

static uint64_t products(const EchTrace *trace)
{
    uint64_t all = 0, runs = 1;
    size_t end = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *o = &ech_trace_ops(trace)[i];
        if (o->kind == ECH_OP_LOOP && i >= end) {
            runs = o->bytes;
            end = i + 1 + o->target;
        }
        for (uint32_t w = 0; w < o->n_work; w++)
            if (ech_trace_work(trace)[o->first_work + w].unit == ECH_WORK_MATRIX)
                all += ech_trace_work(trace)[o->first_work + w].count * (i < end ? runs : 1);
    }
    return all;
}

START_TEST(shipped)
{
    g_autofree char *device_name = ech_test_device_of(programs[_i]);
    g_autoptr(EchDevice) device = ech_test_device(device_name, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) lowered = ech_test_shipped(programs[_i], device, diag);
    const char *const bare[] = {"unplan", NULL};
    g_autoptr(EchTrace) in = ech_test_pass(lowered, device, diag, bare);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    for (size_t k = 0; k < G_N_ELEMENTS(asked); k++) {
        const char *const specs[] = {asked[k], NULL};
        g_autoptr(EchTrace) out = ech_test_pass(lowered, device, diag, specs);
        g_autoptr(EchTrace) bare_out = ech_test_pass(out, device, diag, bare);
        g_autoptr(EchRun) run = ech_test_replay(bare_out, device);
        ck_assert_msg(run->completed && run->fits, "%s, %s", programs[_i], asked[k]);
        ck_assert_msg(ech_test_peak(run, "hbm") <= ech_test_peak(before, "hbm"), "%s, %s", programs[_i], asked[k]);
        ck_assert_msg(unmade(out) <= unmade(lowered), "%s, %s: %zu, %zu", programs[_i], asked[k], unmade(out), unmade(lowered));
        ck_assert_uint_ge(products(out), products(lowered));
        if (strstr(asked[k], "products=false") != NULL)
            ck_assert_uint_eq(products(out), products(lowered));
        g_autoptr(EchTrace) again = ech_test_pass(lowered, device, diag, specs);
        ck_assert_uint_eq(ech_trace_hash(out), ech_trace_hash(again));
    }
}
END_TEST

/* What may take more memory takes no more time. */
static const char *const loosened[] = {"gpt_everything.v5e", "gpt_everything.v6e", "gpt_everything.h100", "gpt_unrolled_kept.h100"};

START_TEST(looser)
{
    g_autofree char *device_name = ech_test_device_of(loosened[_i]);
    g_autoptr(EchDevice) device = ech_test_device(device_name, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = ech_test_shipped(loosened[_i], device, diag);
    const char *const bare[] = {"unplan", NULL}, *const all[] = {"remat", "unplan", NULL};
    g_autoptr(EchTrace) kept = ech_test_pass(in, device, diag, bare), least = ech_test_pass(in, device, diag, all);
    g_autoptr(EchRun) as_is = ech_test_replay(kept, device), low = ech_test_replay(least, device);
    EchBytes most = ech_test_peak(as_is, "hbm"), fewest = ech_test_peak(low, "hbm");
    EchTime before = INT64_MAX;
    for (unsigned k = 0; k < 8; k++) {
        g_autofree char *spec = g_strdup_printf("remat:memory=%" G_GUINT64_FORMAT "B", fewest + (most - fewest) * k / 8);
        const char *const specs[] = {spec, "unplan", NULL};
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_msg(run->makespan / 1000 <= before / 995, "%s, %s: %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT, loosened[_i], spec, run->makespan, before);
        before = MIN(before, run->makespan);
    }
}
END_TEST

/* Programs compiled with everything kept, under the pass, against what the compilers make of jax.checkpoint around each layer: what the device needs. The pass
 * keeps more: what a compiler would not even begin to stack, and it knows only the kernels that there are. */
static const struct {
    const char *kept, *again, *device;
    double most;
} compiled[] = {
    {"gpu_aot/gpt6_base.h100.off", "gpu_aot/gpt6_remat.h100.off", "h100-sxm", 1.3},
    {"tpu_aot/gpt_4x512_save.v5e", "tpu_aot/gpt_4x512_nothing.v5e", "tpu-v5e", 1.2}}; /* two arrays as large as its logits wait for the head's gradient */

START_TEST(as_compiled)
{
    g_autofree char *without = g_strdup_printf(ECH_SHARED "/traces/%s.hlo.txt.gz", compiled[_i].kept);
    g_autofree char *with = g_strdup_printf(ECH_SHARED "/traces/%s.hlo.txt.gz", compiled[_i].again);
    if (ech_test_lacks(without))
        return;
    const char *passes[] = {"remat", NULL};
    const EchExperimentOverrides changed = {.trace = without, .device = compiled[_i].device, .engine = "native", .passes = passes},
                                 otherwise = {.trace = with, .device = compiled[_i].device, .engine = "native"};
    g_autoptr(EchResult) predicted = ech_test_run(&changed);
    g_autoptr(EchResult) made = ech_test_run(&otherwise);
    double ratio = (double)ech_test_peak(predicted->run, "hbm") / (double)ech_test_peak(made->run, "hbm");
    ck_assert_msg(ratio > 0.95 && ratio < compiled[_i].most, "%g", ratio);
}
END_TEST

/* The same, where both were compiled for this (traces/checkpointed, its compiled figures by the same commands with save=nothing): between that compiler's need
 * and 1.2 times less (ech_remat_margin). What a program needs on chip has room, too. */
static const struct {
    const char *kept;
    EchBytes again;
} blocks[] = {
    {"llama_scan.v5p", 656552096},   /* what an iteration begins with is copied there by the one before; half of VMEM is the compiler's */
    {"moe_scan.v6e", 596379200},     /* stacks that one by one save nothing; a sort in place */
    {"llama_blocks.v6e", 770258560}, /* what kernels make on chip and copies put away */
    {"gpt_split.v6e", 251539968},    /* products over split weights, which are loops */
};

START_TEST(as_blocks)
{
    g_autofree char *device = ech_test_device_of(blocks[_i].kept), *trace = g_strconcat(ECH_SOURCE_DIR "/traces/checkpointed/", blocks[_i].kept, NULL);
    const char *passes[] = {"remat", "plan", NULL};
    const EchExperimentOverrides changed = {.trace = trace, .device = device, .engine = "native", .passes = passes};
    g_autoptr(EchResult) predicted = ech_test_run(&changed);
    double times = (double)blocks[_i].again / (double)ech_test_peak(predicted->run, "hbm");
    ck_assert_msg(times > 0.9 && times < 1.2, "%s: %g", blocks[_i].kept, times);
    ck_assert(predicted->run->fits);
}
END_TEST

/* A verdict that the pass alone is not sure enough of. */
START_TEST(narrow)
{
    g_autofree char *trace = g_strdup(ECH_SOURCE_DIR "/traces/checkpointed/llama_blocks.v6e");
    const char *passes[] = {"remat", "plan", NULL};
    static const struct {
        const char *available;
        bool fits, sure;
    } rooms[] = {{"650MiB", false, false}, {"735MiB", true, false}, {"820MiB", true, true}};
    for (size_t k = 0; k < G_N_ELEMENTS(rooms); k++) {
        g_autofree char *set = g_strconcat("device.memories.hbm.available=", rooms[k].available, NULL);
        const char *sets[] = {set, NULL};
        const EchExperimentOverrides changed = {.trace = trace, .device = "tpu-v6e", .engine = "native", .passes = passes, .settings = sets};
        g_autoptr(EchResult) result = ech_test_run(&changed);
        EchReport report = ech_result_report(result);
        ck_assert_int_eq(ech_report_fits(&report), rooms[k].fits);
        ck_assert_int_eq(ech_report_fits(&report) && ech_report_may_need(&report) == 0, rooms[k].sure);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remat");
    TCase *tcase = tcase_create("remat");
    tcase_add_loop_test(tcase, between_uses, 0, G_N_ELEMENTS(on_kept));
    tcase_add_loop_test(tcase, in_place, 0, 2);
    tcase_add_test(tcase, chain);
    tcase_add_test(tcase, made_of_what_is_kept);
    tcase_add_loop_test(tcase, long_chain, 0, 2);
    tcase_add_loop_test(tcase, halves, 0, 2);
    tcase_add_test(tcase, modules_of_pytorch);
    tcase_add_test(tcase, all_of_a_module);
    tcase_add_test(tcase, products_of_modules);
    tcase_add_test(tcase, compiled_modules);
    tcase_add_loop_test(tcase, gradients_left_for_the_end, 0, 2);
    tcase_add_test(tcase, modules_compiled_by_themselves);
    tcase_add_test(tcase, autocast_of_modules);
    tcase_add_test(tcase, gathered_for_modules);
    tcase_add_loop_test(tcase, saved_for_nothing, 0, 2);
    tcase_add_loop_test(tcase, stays_longer, 0, 2);
    tcase_add_loop_test(tcase, fewer_bytes, 0, G_N_ELEMENTS(estimated));
    tcase_add_loop_test(tcase, beside_a_result, 0, G_N_ELEMENTS(beside));
    tcase_add_loop_test(tcase, fused, 0, 2);
    tcase_add_loop_test(tcase, recorded, 0, 2);
    tcase_add_loop_test(tcase, stack, 0, 6);
    tcase_add_test(tcase, softmax);
    tcase_add_test(tcase, scan_of_scans);
    tcase_add_test(tcase, copied_for_the_next);
    tcase_add_test(tcase, parts_for_the_next);
    tcase_add_test(tcase, outside_of_a_scan);
    tcase_add_test(tcase, logits_are_kept);
    tcase_add_loop_test(tcase, two_copies, 0, 2);
    tcase_add_test(tcase, slices);
    tcase_add_test(tcase, on_chip);
    tcase_add_loop_test(tcase, beside_unplaced, 0, 2);
    tcase_add_loop_test(tcase, whole_loop, 0, G_N_ELEMENTS(on_looped));
    tcase_add_loop_test(tcase, loop_in_stack, 0, 2);
    tcase_add_loop_test(tcase, stacked_products, 0, G_N_ELEMENTS(stackings));
    tcase_add_test(tcase, stacks_that_are_kept);
    tcase_add_loop_test(tcase, shipped, 0, G_N_ELEMENTS(programs));
    tcase_add_loop_test(tcase, looser, 0, G_N_ELEMENTS(loosened));
    tcase_add_loop_test(tcase, as_compiled, 0, G_N_ELEMENTS(compiled));
    tcase_add_loop_test(tcase, as_blocks, 0, G_N_ELEMENTS(blocks));
    tcase_add_test(tcase, narrow);
    tcase_add_test(tcase, why_nothing);
    tcase_add_test(tcase, fused_chain);
    tcase_add_test(tcase, many_arrays);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
