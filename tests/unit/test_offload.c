/* The offload pass: what waits on the host, in closed form on the engine; and on every shipped program, what may not change. */
#include "models/device/device_yaml.h"
#include "tests/support/made.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A gigabyte takes 10 ms through the memory and 100 ms over the link. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n";
static const EchTime ms = ECH_TEST_MS;
static const EchBytes GB = 1000000000;

static EchTrace *saved(void)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, 2 * GB);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    return ech_test_finish(b);
}

/* Made, 400 ms idle, read. Waiting for both copies; for the one back; for none, where that is fetched ahead. */
static const struct {
    const char *specs[3];
    EchTime makespan;
    EchBytes hbm, host;
} on_saved[] = {
    {{NULL}, 420, 3, 0},
    {{"offload", NULL}, 620, 2, 1},
    {{"offload:overlap=true", NULL}, 520, 3, 1},             /* "large" is there before the array has left */
    {{"offload:overlap=true", "prefetch", NULL}, 420, 4, 1}, /* and there again before the one kernel between that it can begin beside */
    {{"offload:idle=2.1", NULL}, 420, 3, 0},                 /* 400 ms idle for 200 of copies */
    {{"offload:idle=2", NULL}, 620, 2, 1},
    {{"offload:above=1.1GB", NULL}, 420, 3, 0},
    {{"offload:names=b*", NULL}, 420, 3, 0},
    {{"offload:memory=3GB", NULL}, 420, 3, 0},
    {{"offload:memory=2GB", NULL}, 620, 2, 1},
    {{"offload:what=arguments", NULL}, 420, 3, 0},
};

START_TEST(between_uses)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = saved();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, on_saved[_i].specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - on_saved[_i].makespan * ms) <= 10, "%d: %" G_GINT64_FORMAT, _i, run->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), on_saved[_i].hbm * GB);
    ck_assert_uint_eq(ech_test_peak(run, "host"), on_saved[_i].host * GB);
}
END_TEST

/* What cannot go is said, too, where all that can has gone: "large" alone has more. */
START_TEST(too_little)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    static const char *const specs[] = {"offload:memory=1GB", NULL};
    g_autoptr(EchTrace) in = saved();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_ptr_ne(out, in);
    ck_assert(ech_test_says(diag, "1.86 GiB are left at the fullest moment"));
}
END_TEST

/* Says which: there is room, or what could go is in use when there is least. */
START_TEST(why_nothing)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    static const char *const specs[][2] = {{"offload:memory=3.1GB", NULL}, {"offload:memory=2GB", NULL}};
    static const char *const said[] = {"it holds 2.79 GiB at its fullest, no more than the 2.89 GiB that it may",
                                       "what could go is in use at its fullest moment"};
    for (size_t k = 0; k < G_N_ELEMENTS(said); k++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false),
              weight = ech_test_buffer(b, "weight", 512, ECH_ROLE_PARAMETER, true);
        (void)ech_test_put(b, ECH_OP_ALLOC, a);
        ech_test_kernel(b, 0, a, ECH_WRITE, GB);
        ech_test_kernel(b, 400 * ms, weight, ECH_READ, 512);
        (void)ech_test_put(b, ECH_OP_ALLOC, large);
        ech_test_kernel(b, 0, a, ECH_READ, GB);
        (void)ech_test_put(b, ECH_OP_FREE, large);
        (void)ech_test_put(b, ECH_OP_FREE, a);
        g_autoptr(EchTrace) in = ech_test_finish(b);
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs[k]);
        ck_assert_msg(ech_test_says(diag, said[k]), "%s", ech_diag_remarks(diag)[0]);
    }
}
END_TEST

/* A loop that never runs makes no pause: 100 ms between two uses are none of the 200 that copies take. */
START_TEST(around_no_iterations)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    static const char *const specs[] = {"offload", NULL};
    for (unsigned trips = 0; trips < 2; trips++) {
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, a);
        ech_test_kernel(b, 0, a, ECH_WRITE, GB);
        (void)ech_test_put(b, ECH_OP_ALLOC, large);
        ech_test_kernel(b, 100 * ms, large, ECH_WRITE, 2 * GB);
        EchId loop = ech_test_put(b, ECH_OP_LOOP, 1);
        ech_trace_builder_peek_op(b, loop)->bytes = trips;
        ech_test_kernel(b, 400 * ms, large, ECH_WRITE, 2 * GB);
        (void)ech_test_put(b, ECH_OP_FREE, large);
        ech_test_kernel(b, 0, a, ECH_READ, GB);
        (void)ech_test_put(b, ECH_OP_FREE, a);
        g_autoptr(EchTrace) in = ech_test_finish(b);
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
        ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), trips > 0 ? 2 : 0);
    }
}
END_TEST

/* Copies that nobody waits for: what is fetched must have arrived before, however early the fetch could begin; also the first slices of a loop's. */
static const struct {
    const char *specs[3];
    EchTime between, makespan;
    unsigned arrays; /* that the gigabyte lies in; of two nobody lets go, and the loop is the last that runs */
} on_short[] = {
    {{"offload:overlap=true,idle=0", NULL}, 150, 10 + 150 + 100 + 10, 1},             /* the fetch begins behind the kernel between */
    {{"offload:overlap=true,idle=0", "prefetch", NULL}, 150, 10 + 100 + 100 + 10, 1}, /* out, and back at once */
    {{"offload:overlap=true,idle=0", NULL}, 20, 10 + 100 + 10 * (10 + 1), 1},
    {{"offload:overlap=true,idle=0", "prefetch:depth=2", NULL}, 20, 10 + 100 + (10 + 2) * 10, 1}, /* two more than needed are fetched */
    {{"offload:overlap=true,idle=0", "prefetch:depth=0", NULL}, 20, 10 + 100 + 10 * (10 + 1), 1},
    /* Copies back are in order: only the first of all can come while the second array still leaves. */
    {{"offload:overlap=true,idle=0", NULL}, 20, 5 + 100 + (5 + 1) + 9 * (2 * 5 + 1), 2},
    {{"offload:overlap=true,idle=0", "prefetch:depth=2", NULL}, 20, 5 + 100 + (2 * (10 + 2) - 1) * 5, 2},
};

START_TEST(out_before_back)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    const unsigned n = on_short[_i].arrays;
    EchId arrays[2] = {ECH_NONE, ECH_NONE};
    for (unsigned k = 0; k < n; k++) {
        arrays[k] = ech_test_buffer(b, "a", GB / n, ECH_ROLE_ACTIVATION, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, arrays[k]);
        ech_test_kernel(b, 0, arrays[k], ECH_WRITE, GB / n);
    }
    ech_test_kernel(b, on_short[_i].between * ms, ECH_NONE, ECH_READ, 0);
    EchId slices = _i < 2 ? ECH_NONE : ech_test_loop(b, 10);
    ech_test_kernel(b, 0, arrays[0], ECH_READ, slices == ECH_NONE ? GB : GB / 10 / n);
    if (n > 1)
        ech_trace_builder_use(b, arrays[1], ECH_READ, GB / 10 / n, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (slices != ECH_NONE)
        ech_test_close_loop(b, slices);
    if (n == 1)
        (void)ech_test_put(b, ECH_OP_FREE, arrays[0]);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, on_short[_i].specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - on_short[_i].makespan * ms) <= 100, "%d: %" G_GINT64_FORMAT, _i, run->makespan);
}
END_TEST

/* What goes by other names, too, stays: a view of it is read late. */
START_TEST(views_stay)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    for (int late = 0; late < 2; late++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), view = ech_test_buffer(b, "view", GB / 2, ECH_ROLE_ACTIVATION, false);
        ech_trace_builder_peek_buffer(b, view)->alias_of = a;
        (void)ech_test_put(b, ECH_OP_ALLOC, a);
        ech_test_kernel(b, 0, a, ECH_WRITE, GB);
        ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
        ech_test_kernel(b, 0, late ? view : a, ECH_READ, GB / 2);
        (void)ech_test_put(b, ECH_OP_FREE, a);
        g_autoptr(EchTrace) in = ech_test_finish(b);
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"offload", NULL});
        ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 0);
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_msg(llabs(run->makespan - 415 * ms) <= 10, "%" G_GINT64_FORMAT, run->makespan);
    }
}
END_TEST

/* Made in two halves: nothing is fetched before there is anything. */
START_TEST(in_parts)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB / 2);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB / 2);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 2);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - 620 * ms) <= 10, "%" G_GINT64_FORMAT, run->makespan);
}
END_TEST

/* An argument that the step writes over at its end: there when it is needed, and the new one goes back. */
START_TEST(argument)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId state = ech_test_buffer(b, "state", GB, ECH_ROLE_OPTIMIZER, true), weights = ech_test_buffer(b, "weights", GB, ECH_ROLE_PARAMETER, true);
    ech_test_kernel(b, 400 * ms, weights, ECH_READ, GB);
    ech_test_kernel(b, 0, state, ECH_READ, GB);
    ech_trace_builder_use(b, state, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload:what=arguments,names=st*", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    EchTime update = before->makespan - 400 * ms; /* reads and writes a gigabyte */
    ck_assert_msg(llabs(run->makespan - (400 * ms + 200 * ms + update)) <= 10, "%" G_GINT64_FORMAT, run->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 2 * GB);
    ck_assert_uint_eq(ech_test_peak(run, "host"), GB);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 2);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_WAIT), 1);
}
END_TEST

/* What a loop stacks goes out slice by slice, and comes back so in the loop after it; filling the stack with zeros is not needed. */
START_TEST(stack)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId stack_of = ech_test_buffer(b, "stack", GB, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, stack_of);
    ech_test_kernel(b, 0, stack_of, ECH_WRITE, GB);
    EchId forward = ech_test_loop(b, 10);
    ech_test_kernel(b, 40 * ms, stack_of, ECH_WRITE, GB / 10);
    ech_test_close_loop(b, forward);
    EchId backward = ech_test_loop(b, 10);
    ech_test_kernel(b, 40 * ms, stack_of, ECH_READ, GB / 10);
    ech_test_close_loop(b, backward);
    (void)ech_test_put(b, ECH_OP_FREE, stack_of);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const waits[] = {"offload", NULL}, *const overlaps[] = {"offload:overlap=true", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, waits);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - 1000 * ms) <= 100, "%" G_GINT64_FORMAT, run->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB / 10);
    ck_assert_uint_eq(ech_test_peak(run, "host"), GB);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_KERNEL), 2);
    for (size_t i = 0; i < run->n_links; i++)
        ck_assert(run->links[i].forward == GB && run->links[i].backward == GB);
    /* Only the last slice's way out is waited for, and every slice's way back. */
    g_autoptr(EchTrace) beside = ech_test_pass(in, device, diag, overlaps);
    g_autoptr(EchRun) overlapped = ech_test_replay(beside, device);
    ck_assert_msg(llabs(overlapped->makespan - 910 * ms) <= 100, "%" G_GINT64_FORMAT, overlapped->makespan);
}
END_TEST

/* Of an array that a loop stacks and one that is kept whole the former alone, whatever they are called. */
START_TEST(stacks_alone)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId layers = ech_test_buffer(b, "fusion.1", GB, ECH_ROLE_ACTIVATION, false), whole = ech_test_buffer(b, "fusion.2", GB / 2, ECH_ROLE_ACTIVATION, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, layers);
    (void)ech_test_put(b, ECH_OP_ALLOC, whole);
    ech_test_kernel(b, 0, whole, ECH_WRITE, GB / 2);
    EchId forward = ech_test_loop(b, 10);
    ech_test_kernel(b, 40 * ms, layers, ECH_WRITE, GB / 10);
    ech_test_close_loop(b, forward);
    EchId backward = ech_test_loop(b, 10);
    ech_test_kernel(b, 40 * ms, layers, ECH_READ, GB / 10);
    ech_test_close_loop(b, backward);
    ech_test_kernel(b, 0, whole, ECH_READ, GB / 2);
    (void)ech_test_put(b, ECH_OP_FREE, layers);
    (void)ech_test_put(b, ECH_OP_FREE, whole);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {_i == 0 ? "offload:what=activations,idle=0,names=stacks" : "offload:what=activations,idle=0", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(run, "host"), _i == 0 ? GB : GB + GB / 2);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), _i == 0 ? GB / 2 + GB / 10 : GB / 2);
}
END_TEST

/* Two kernels of a loop that take slices of one array: the same where more would be more than the array has, else one each, as keys and values that are
 * stacked together. */
START_TEST(slices_apart)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    const EchBytes each = _i == 0 ? GB / 10 : GB / 20;
    EchId cache = ech_test_buffer(b, "cache", GB, ECH_ROLE_PARAMETER, true), layers = ech_test_loop(b, 10);
    ech_test_kernel(b, 0, cache, ECH_READ, each);
    ech_test_kernel(b, 0, cache, ECH_READ, each);
    ech_test_close_loop(b, layers);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload:what=arguments,idle=0", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB / 10);
    for (size_t i = 0; i < run->n_links; i++)
        ck_assert_uint_eq(run->links[i].forward, GB);
}
END_TEST

/* Used whole by a loop: fetched once before it. It stands on the device until the loop is over, and then no more. */
START_TEST(whole_in_loop)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    EchId twice = ech_test_loop(b, 2);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    ech_test_close_loop(b, twice);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(llabs(run->makespan - (10 + 100 + 400 + 100 + 2 * 10 + 400 + 100 + 10) * ms) <= 100, "%" G_GINT64_FORMAT, run->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB);
}
END_TEST

/* A gigabyte from the host, on a queue of its own. */
static EchOp copy_in(EchTraceBuilder *b)
{
    EchOp copy = ech_op_init(ECH_OP_COPY);
    copy.queue = ech_trace_builder_queue(b, "copies", ECH_QUEUE_COPY, 0);
    copy.name = ech_trace_builder_string(b, "copy", -1);
    copy.memory_from = ech_trace_builder_memory(b, "host");
    copy.memory_to = ech_trace_builder_memory(b, "hbm");
    copy.bytes = GB;
    return copy;
}

/* Brought by a copy of another queue, which waits for a kernel: it leaves when it has come, not before, and the copy still waits. */
START_TEST(other_queues)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 40 * ms, ECH_NONE, ECH_READ, 0);
    EchId waited = (EchId)ech_trace_builder_n_ops(b) - 1;
    EchOp copy = copy_in(b);
    EchId from = ech_test_buffer(b, "from", GB, ECH_ROLE_PARAMETER, true);
    ech_trace_builder_peek_buffer(b, from)->memory = copy.memory_from;
    EchId made = ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, from, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, a, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, waited, 0);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    ech_trace_builder_dep(b, made, 0);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload:idle=0", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    /* The kernel; in, out; the core waits for that; then works, fetches and reads. */
    ck_assert_msg(llabs(run->makespan - (40 + 100 + 100 + 400 + 100 + 10) * ms) <= 100, "%" G_GINT64_FORMAT, run->makespan);
}
END_TEST

/* Read whole by a copy of another queue that is under way until a loop, which takes slices of it: what stood for it is given back once the copy is over. */
START_TEST(read_before_its_slices)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId stack_of = ech_test_buffer(b, "stack", GB, ECH_ROLE_PARAMETER, true), there = ech_test_buffer(b, "there", GB, ECH_ROLE_UNKNOWN, true);
    EchOp copy = copy_in(b);
    copy.memory_from = copy.memory_to;
    EchId read = ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, stack_of, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, there, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    EchId loop = ech_test_loop(b, 10);
    ech_trace_builder_dep(b, read, 0);
    ech_test_kernel(b, 40 * ms, stack_of, ECH_READ, GB / 10);
    ech_test_close_loop(b, loop);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload:what=arguments,names=stack", "plan", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    const EchOp *first_free = ech_test_op(out, ECH_OP_FREE, "stack"), *wait = first_free - 1;
    ck_assert_uint_eq(wait->kind, ECH_OP_WAIT);
    ck_assert_uint_eq(wait->n_deps, 2); /* and what brought it */
    ck_assert_ptr_eq(&ech_trace_ops(out)[ech_trace_deps(out)[wait->first_dep].op], ech_test_op(out, ECH_OP_COPY, "copy"));
    ck_assert(!ech_test_says(diag, "plan: left the trace as it is"));
}
END_TEST

/* Sent on by a copy of another queue while what computes goes on: it is on the device until that is waited for, and does not come a second time for what
 * reads it meanwhile. */
START_TEST(sent_on)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), there = ech_test_buffer(b, "there", GB, ECH_ROLE_UNKNOWN, true);
    EchOp copy = copy_in(b);
    ech_trace_builder_peek_buffer(b, there)->memory = copy.memory_from;
    copy.memory_to = copy.memory_from;
    copy.memory_from = ech_trace_builder_memory(b, "hbm");
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    EchId before = (EchId)ech_trace_builder_n_ops(b) - 1, made = ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, a, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, there, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, before, 0);
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    ech_test_kernel(b, 40 * ms, ECH_NONE, ECH_READ, 0);
    (void)ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
    ech_trace_builder_dep(b, made, 0);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"offload:idle=0", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(ech_test_says(diag, "1 copies there (954 MiB) and 1 back (954 MiB)"), "%s", ech_diag_remarks(diag)[0]);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB);
    /* Written, out; a kernel; in, and out again for the copy, beside which a kernel reads it and another works. */
    ck_assert_msg(llabs(run->makespan - (10 + 100 + 400 + 100 + 100) * ms) <= 100, "%" G_GINT64_FORMAT, run->makespan);
}
END_TEST

/* An array that is there from before and fetched into twice: it stays where it was taken, and what comes second starts when the first has been used. */
START_TEST(fetched_into_twice)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId array = ech_test_buffer(b, "array", GB, ECH_ROLE_TEMPORARY, false), from = ech_test_buffer(b, "from", GB, ECH_ROLE_PARAMETER, true);
    EchOp copy = copy_in(b);
    ech_trace_builder_peek_buffer(b, from)->memory = copy.memory_from;
    (void)ech_test_put(b, ECH_OP_ALLOC, array);
    ech_test_kernel(b, 10 * ms, ECH_NONE, ECH_READ, 0);
    for (int i = 0; i < 2; i++) {
        ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
        EchId before = (EchId)ech_trace_builder_n_ops(b) - 1, made = ech_trace_builder_op(b, copy);
        ech_trace_builder_use(b, from, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, array, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_dep(b, before, 0);
        ech_test_kernel(b, 0, array, ECH_READ, GB);
        ech_trace_builder_dep(b, made, 0);
    }
    (void)ech_test_put(b, ECH_OP_FREE, array);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"prefetch", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(out, device);
    ck_assert_msg(llabs(before->makespan - (10 + 2 * (400 + 100 + 10)) * ms) <= 100, "%" G_GINT64_FORMAT, before->makespan);
    /* Both copies, of 100 ms each, lie under kernels of 400 now. */
    ck_assert_msg(llabs(run->makespan - (10 + 2 * (400 + 10)) * ms) <= 100, "%" G_GINT64_FORMAT, run->makespan);
    ck_assert_int_eq(ech_trace_ops(out)[0].kind, ECH_OP_ALLOC);
}
END_TEST

/* In a loop a copy waits for a kernel that comes after it, of the iteration before: it still does, whatever is written anew. */
START_TEST(waits_for_what_comes_later)
{
    static const char *const specs[][2] = {{"serial", NULL}, {"offload:idle=0", NULL}, {"remat:above=1", NULL}};
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId array = ech_test_buffer(b, "array", GB, ECH_ROLE_TEMPORARY, false), loop = ech_test_loop(b, 3);
    ech_trace_builder_peek_buffer(b, array)->loop = loop;
    EchOp copy = copy_in(b);
    EchId made = ech_trace_builder_op(b, copy);
    ech_trace_builder_dep(b, made + 2, 1);
    (void)ech_test_put(b, ECH_OP_ALLOC, array);
    ech_test_kernel(b, 10 * ms, array, ECH_WRITE, GB);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 10 * ms, array, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_FREE, array);
    ech_test_close_loop(b, loop);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    for (size_t k = 0; k < G_N_ELEMENTS(specs); k++) {
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs[k]);
        bool waits = false;
        for (EchId i = 0; i < ech_trace_n_ops(out); i++) {
            const EchOp *op = &ech_trace_ops(out)[i];
            for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++) {
                const EchDep *dep = &ech_trace_deps(out)[d];
                waits |= strcmp(ech_trace_string(out, op->name), "copy") == 0 && dep->distance == 1 && dep->op > i &&
                         ech_trace_ops(out)[dep->op].kind == ECH_OP_KERNEL;
            }
        }
        ck_assert_msg(waits, "%s", specs[k][0]);
    }
}
END_TEST

/* To get down to a size, what lies idle for longest goes. */
START_TEST(least_harm)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId early = ech_test_buffer(b, "early", GB, ECH_ROLE_ACTIVATION, false), late = ech_test_buffer(b, "late", 2 * GB, ECH_ROLE_ACTIVATION, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, early);
    ech_test_kernel(b, 0, early, ECH_WRITE, GB);
    ech_test_kernel(b, 300 * ms, ECH_NONE, ECH_READ, 0);
    (void)ech_test_put(b, ECH_OP_ALLOC, late);
    ech_test_kernel(b, 0, late, ECH_WRITE, 2 * GB);
    ech_test_kernel(b, 300 * ms, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 0, late, ECH_READ, 2 * GB);
    (void)ech_test_put(b, ECH_OP_FREE, late);
    ech_test_kernel(b, 0, early, ECH_READ, GB);
    (void)ech_test_put(b, ECH_OP_FREE, early);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload:memory=2GB,idle=0", NULL}, *const impossible[] = {"offload:memory=0.5GB,idle=0", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_str_eq(ech_trace_memory(out, ech_trace_buffers(out)[early].memory), "host");
    ck_assert_str_eq(ech_trace_memory(out, ech_trace_buffers(out)[late].memory), "hbm");
    g_autoptr(EchDiag) said = ech_diag_new();
    g_autoptr(EchTrace) most = ech_test_pass(in, device, said, impossible);
    ck_assert_str_eq(ech_trace_memory(most, ech_trace_buffers(most)[late].memory), "hbm"); /* at its fullest it is in use */
    ck_assert_ptr_nonnull(strstr(ech_diag_remarks(said)[0], "1.86 GiB"));
}
END_TEST

/* Whatever is asked for: the result is a trace that verifies, no moment holds more than before where copies are waited for, and each kernel still runs, but
 * for those that fill stacks. */
static const char *const programs[] = {"gpt_nothing.v5e", "gpt_everything.v6e", "mlp_none.h100", "adam_none.v5e", "gpt_unrolled_kept.h100", "sharded_mlp.v6e"};
static const char *const asked[] = {"offload:idle=0,above=4KiB", "offload:what=arguments,above=4KiB", "offload:what=results,above=4KiB,idle=0",
                                    "offload:idle=0.3,memory=8MiB,above=4KiB", "offload:idle=0,above=4KiB,overlap=true"};

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
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_msg(run->completed && run->fits, "%s, %s", programs[_i], asked[k]);
        if (strstr(asked[k], "overlap") == NULL)
            ck_assert_msg(ech_test_peak(run, "hbm") <= ech_test_peak(before, "hbm"), "%s, %s", programs[_i], asked[k]);
        ck_assert_uint_le(ech_test_count(out, ECH_OP_KERNEL), ech_test_count(in, ECH_OP_KERNEL));
        ck_assert_uint_ge(ech_test_count(out, ECH_OP_KERNEL) + 8, ech_test_count(in, ECH_OP_KERNEL));
        g_autoptr(EchTrace) again = ech_test_pass(in, device, diag, specs);
        ck_assert_uint_eq(ech_trace_hash(out), ech_trace_hash(again));
    }
}
END_TEST

/* Adam's moments, moved from a program compiled without offload: what XLA's compiler then makes of the program that asks for it, latency hiding off. */
static const struct {
    const char *chip, *device;
} compiled[] = {{"a100", "a100-80"}, {"h100", "h100-sxm"}};

START_TEST(as_compiled)
{
    g_autofree char *without = g_strdup_printf(ECH_SHARED "/traces/gpu_aot/adam4_base.%s.off.hlo.txt.gz", compiled[_i].chip);
    g_autofree char *with = g_strdup_printf(ECH_SHARED "/traces/gpu_aot/adam4_offload.%s.off.hlo.txt.gz", compiled[_i].chip);
    if (ech_test_lacks(without))
        return;
    const char *passes[] = {"offload:what=arguments,names=*state*", NULL};
    const EchExperimentOverrides moved = {.trace = without, .device = compiled[_i].device, .engine = "native", .passes = passes},
                                 otherwise = {.trace = with, .device = compiled[_i].device, .engine = "native"};
    g_autoptr(EchResult) predicted = ech_test_run(&moved);
    g_autoptr(EchResult) made = ech_test_run(&otherwise);
    ck_assert_int_le(llabs((int64_t)ech_test_peak(predicted->run, "hbm") - (int64_t)ech_test_peak(made->run, "hbm")), 4096); /* scalars */
    double ratio = (double)predicted->run->makespan / (double)made->run->makespan;
    ck_assert_msg(fabs(ratio - 1) < 1e-3, "%g", ratio);
}
END_TEST

/* Of two arrays that are there before the backward pass reads them, the one that the forward pass made waits on the host, not the zeros of a gradient, which
 * the compiler has written early. */
START_TEST(made_early)
{
    static const char *const makers[] = {"jit(f)/jvp()/exp", "jit(f)/transpose(jvp())/broadcast_in_dim"};
    static const char *const others[] = {"jit(f)/jvp()/dot_general", "jit(f)/transpose(jvp())/mul"};
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId array = ech_test_buffer(b, "array", GB, ECH_ROLE_TEMPORARY, false), other = ech_test_buffer(b, "other", GB, ECH_ROLE_TEMPORARY, true);
    const struct {
        const char *operation;
        EchId buffer;
        EchAccess access;
    } kernels[] = {{makers[_i], array, ECH_WRITE}, {others[0], other, ECH_WRITE}, {others[1], other, ECH_READ}, {others[1], array, ECH_READ}};
    (void)ech_test_put(b, ECH_OP_ALLOC, array);
    for (size_t k = 0; k < G_N_ELEMENTS(kernels); k++) {
        ech_test_kernel(b, 100 * ms, kernels[k].buffer, kernels[k].access, GB);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, kernels[k].operation, -1);
    }
    (void)ech_test_put(b, ECH_OP_FREE, array);
    g_autoptr(EchTrace) in = ech_test_finish(b), out = ech_test_pass(in, device, diag, (const char *const[]){"offload:what=activations,idle=0", NULL});
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), _i == 0 ? 2 : 0);
}
END_TEST

/* As save_on_cpu has it: out and back once for each operator that saved the array, however many kernels its gradient takes. */
START_TEST(once_an_operator)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    static const char *const stacks[] = {"aten::sigmoid\nSiluBackward0\nautograd::engine::evaluate_function: SiluBackward0",
                                         "aten::mul\nSiluBackward0\nautograd::engine::evaluate_function: SiluBackward0",
                                         "aten::mm\nMmBackward0\nautograd::engine::evaluate_function: MmBackward0"};
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false), large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, 2 * GB);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    for (size_t k = 0; k < G_N_ELEMENTS(stacks); k++) {
        ech_test_kernel(b, 0, a, ECH_READ, GB);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, stacks[k], -1);
    }
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const each[] = {"offload:what=activations,idle=0,each=true", NULL}, *const once[] = {"offload:what=activations,idle=0", NULL};
    g_autoptr(EchTrace) all = ech_test_pass(in, device, diag, each), one = ech_test_pass(in, device, diag, once);
    ck_assert_uint_eq(ech_test_count(all, ECH_OP_COPY), 2 + 2);
    ck_assert_uint_eq(ech_test_count(one, ECH_OP_COPY), 1 + 1);
}
END_TEST

/* Each operator that saves an array has it copied, one whose gradient reads nothing of it, too (a loss goes by its sizes); where that alone keeps it, until
 * that has run. Of a half (chunk()) a half is copied. */
static const struct {
    bool alone, halves;
    unsigned copies;
    EchBytes moved, peak;
} unread[] = {
    {false, false, 2, 2 * GB, 3 * GB}, /* while it comes back for the loss beside the loss's own gradient there is room that "large" had */
    {true, false, 1, GB, 3 * GB},
    {false, true, 3, 2 * GB, 3 * GB},
};

START_TEST(saved_unread)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId a = ech_test_buffer(b, "a", GB, unread[_i].alone ? ECH_ROLE_TEMPORARY : ECH_ROLE_ACTIVATION, false),
          large = ech_test_buffer(b, "large", 3 * GB, ECH_ROLE_TEMPORARY, false), loss = ech_test_buffer(b, "loss", 8, ECH_ROLE_PARAMETER, true);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB);
    ech_test_kernel(b, 0, a, ECH_READ, GB / 1024); /* what it looks up */
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, "aten::nll_loss_forward\naten::nll_loss", -1);
    (void)ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_kernel(b, 400 * ms, large, ECH_WRITE, 3 * GB);
    (void)ech_test_put(b, ECH_OP_FREE, large);
    static const char *const stacks[] = {"aten::nll_loss_backward\nautograd::engine::evaluate_function: NllLossBackward0",
                                         "aten::_log_softmax_backward_data\nautograd::engine::evaluate_function: LogSoftmaxBackward0",
                                         "aten::mul\nautograd::engine::evaluate_function: MulBackward0"};
    for (unsigned k = 0; k < (unread[_i].alone ? 1u : unread[_i].halves ? 3u : 2u); k++) {
        ech_test_kernel(b, 0, k == 0 ? loss : a, k == 0 ? ECH_WRITE : ECH_READ, k == 0 ? 8 : unread[_i].halves ? GB / 2 : GB);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, stacks[k], -1);
    }
    (void)ech_test_put(b, ECH_OP_FREE, a);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const each[] = {"offload:what=activations,idle=0,each=true", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, each);
    EchBytes moved = 0;
    for (size_t i = 0; i < ech_trace_n_ops(out); i++)
        moved += ech_trace_ops(out)[i].kind == ECH_OP_COPY ? ech_trace_ops(out)[i].bytes : 0;
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 2 * unread[_i].copies);
    ck_assert_msg(llabs((int64_t)(moved - 2 * unread[_i].moved)) < 8, "%" G_GUINT64_FORMAT, moved); /* shares of it are rounded */
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), unread[_i].peak + 256); /* the loss */
}
END_TEST

/* Parameters are saved as well, by the last operator before whose gradient reads them, and stay: a table that is looked up and multiplied by goes out once.
 * What a checkpoint runs again keeps nothing by such hooks. */
static const struct {
    const char *forward[3], *backward[3];
    unsigned copies;
} of_parameters[] = {
    {{"aten::embedding\nModel", "aten::mm\nhead", NULL}, {"MmBackward0", NULL}, 1},
    {{"aten::mm\na", "aten::mm\nb", NULL}, {"MmBackward0", "MulBackward0", NULL}, 2},
    {{"aten::mm\na", NULL}, {"MmBackward0", "MmBackward0", NULL}, 1},                 /* two kernels of one gradient */
    {{"aten::mm\na", "aten::mm\na", NULL}, {"MmBackward0", "MulBackward0", NULL}, 2}, /* a module that runs twice */
    {{"aten::mm\na", "aten::mm\nnn.Module: Block: b\nautograd::engine::evaluate_function: torch.utils.checkpoint", NULL}, {"MmBackward0", NULL}, 0},
    {{"aten::mm\na", NULL}, {NULL}, 0},
};

START_TEST(parameters_saved)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId weight = ech_test_buffer(b, "w", GB, ECH_ROLE_PARAMETER, true), a = ech_test_buffer(b, "a", GB, ECH_ROLE_ACTIVATION, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, GB);
    for (const char *const *of = of_parameters[_i].forward; *of; of++) {
        ech_test_kernel(b, 400 * ms, weight, ECH_READ, GB);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, *of, -1);
    }
    for (const char *const *gradient = of_parameters[_i].backward; *gradient; gradient++) {
        g_autofree char *operators = g_strdup_printf("aten::mm\nautograd::engine::evaluate_function: %s", *gradient);
        ech_test_kernel(b, 0, weight, ECH_READ, GB);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, operators, -1);
    }
    ech_test_kernel(b, 0, a, ECH_READ, GB);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack =
        ech_trace_builder_string(b, "aten::mul\nautograd::engine::evaluate_function: PowBackward0", -1);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    ech_test_kernel(b, 0, weight, ECH_WRITE, GB);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const each[] = {"offload:what=activations,idle=0,each=true", NULL}, *const once[] = {"offload:what=activations,idle=0", NULL};
    const char *const stashed[] = {"offload:what=activations,idle=0,each=true,overlap=true,stash=5", NULL};
    g_autoptr(EchTrace) all = ech_test_pass(in, device, diag, each), one = ech_test_pass(in, device, diag, once),
                        few = ech_test_pass(in, device, diag, stashed);
    ck_assert_uint_eq(ech_test_count(all, ECH_OP_COPY), 2 + 2 * of_parameters[_i].copies);
    ck_assert_uint_eq(ech_test_count(few, ECH_OP_COPY), 2);
    ck_assert_uint_eq(ech_test_count(one, ECH_OP_COPY), 2);
    g_autoptr(EchRun) run = ech_test_replay(all, device);
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), 2 * GB); /* the parameter and what it is beside, activation or copy */
}
END_TEST

/* What fits for sure: not where only arrays that a compiler may bring back early make the room. */
static const struct {
    const char *trace, *device, *spec, *available;
    bool sure;
    const char *before; /* a pass, or NULL */
} early[] = {
    {"adam_none.v5e", "tpu-v5e", "offload:what=arguments,names=state*", "2000MiB", false, NULL},
    {"adam_none.v5e", "tpu-v5e", "offload:what=arguments,names=state*", "2800MiB", true, NULL},
    {"adam_none.h100", "h100-sxm", "offload:what=arguments,names=state*", "2000MiB", false, NULL},
    {"gpt_unrolled_kept.h100", "h100-sxm", "offload", "120MiB", false, NULL},
    {"gpt_unrolled_kept.h100", "h100-sxm", "offload", "190MiB", true, NULL},             /* as it would without */
    {"checkpointed/llama_scan.v5p", "tpu-v5p", "offload:idle=0", "1200MiB", true, NULL}, /* slice by slice */
    /* Made again besides: as it would with neither, but for what goes slice by slice. */
    {"gpt_unrolled_kept.h100", "h100-sxm", "offload:idle=0", "180MiB", false, "remat"},
    {"checkpointed/llama_scan.v5p", "tpu-v5p", "offload:names=*_general*", "1600MiB", true, "remat:keep=*_general*"},
};

START_TEST(fetched_early)
{
    g_autofree char *trace = g_strconcat(ECH_SOURCE_DIR "/traces/", early[_i].trace, NULL);
    g_autofree char *set = g_strconcat("device.memories.hbm.available=", early[_i].available, NULL);
    const char *passes[] = {early[_i].before ? early[_i].before : early[_i].spec, early[_i].before ? early[_i].spec : NULL, NULL}, *sets[] = {set, NULL};
    const EchExperimentOverrides changed = {.trace = trace, .device = early[_i].device, .engine = "native", .passes = passes, .settings = sets};
    g_autoptr(EchResult) result = ech_test_run(&changed);
    EchReport report = ech_result_report(result);
    ck_assert(ech_report_fits(&report));
    ck_assert_int_eq(ech_report_may_need(&report) == 0, early[_i].sure);
}
END_TEST

/* Copies that overlap hold on to what they take out: where that has no room in what the device may hold, the program waits for them, and what fetches earlier
 * keeps to it, too. It never takes longer than where all are waited for. */
static const char *const held[] = {"gpt_unrolled_kept.h100", "gpt_everything.h100", "gpt_everything.v5e"};

START_TEST(overlap_within)
{
    g_autofree char *name = ech_test_device_of(held[_i]);
    g_autoptr(EchDevice) device = ech_test_device(name, NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = ech_test_shipped(held[_i], device, diag);
    const char *const bare[] = {"unplan", NULL}, *const all[] = {"offload:idle=0", "unplan", NULL};
    g_autoptr(EchTrace) kept = ech_test_pass(in, device, diag, bare), least = ech_test_pass(in, device, diag, all);
    g_autoptr(EchRun) before = ech_test_replay(kept, device), away = ech_test_replay(least, device);
    EchBytes most = ech_test_peak(before, "hbm"), fewest = ech_test_peak(away, "hbm");
    for (unsigned k = 1; k < 8; k++) {
        EchBytes memory = fewest + (most - fewest) * k / 8;
        EchTime waited = 0;
        for (unsigned how = 0; how < 3; how++) {
            g_autofree char *spec = g_strdup_printf("offload:idle=0,overlap=%s,memory=%" G_GUINT64_FORMAT "B", how > 0 ? "true" : "false", memory);
            const char *const specs[] = {spec, how == 2 ? "prefetch" : "unplan", "unplan", NULL};
            g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
            g_autoptr(EchRun) run = ech_test_replay(out, device);
            ck_assert_msg(run->completed && ech_test_peak(run, "hbm") <= memory, "%s, %s, %u: %" G_GUINT64_FORMAT, held[_i], spec, how,
                          ech_test_peak(run, "hbm"));
            waited = how == 0 ? run->makespan : waited;
            ck_assert_msg(run->makespan / 1000 <= waited / 995, "%s, %s, %u: %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, held[_i], spec, how, run->makespan,
                          waited);
        }
    }
}
END_TEST

/* As many copies to the host under way as may be, and what is made next; in a loop, too. */
static const struct {
    const char *spec;
    bool loop;
    unsigned most; /* GB on the device */
} stashes[] = {
    {"offload:idle=0,overlap=true", false, 6},         {"offload:idle=0,overlap=true,stash=1", false, 2}, {"offload:idle=0,overlap=true,stash=3", false, 4},
    {"offload:idle=0,overlap=true,stash=9", false, 6}, {"offload:idle=0,overlap=true,stash=1", true, 2},  {"offload:idle=0,overlap=true,stash=3", true, 4},
};

START_TEST(stash)
{
    enum { N = 6 };
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId arrays[N], loop = stashes[_i].loop ? ech_test_loop(b, 2) : ECH_NONE;
    for (unsigned k = 0; k < N; k++) {
        arrays[k] = ech_test_buffer(b, "saved", GB, ECH_ROLE_TEMPORARY, false);
        ech_trace_builder_peek_buffer(b, arrays[k])->loop = loop;
        (void)ech_test_put(b, ECH_OP_ALLOC, arrays[k]);
        ech_test_kernel(b, ms, arrays[k], ECH_WRITE, GB);
    }
    ech_test_kernel(b, 2000 * ms, ECH_NONE, ECH_READ, 0);
    for (unsigned k = 0; k < N; k++) {
        ech_test_kernel(b, ms, arrays[k], ECH_READ, GB);
        (void)ech_test_put(b, ECH_OP_FREE, arrays[k]);
    }
    if (loop != ECH_NONE)
        ech_test_close_loop(b, loop);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {stashes[_i].spec, NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_peak(run, "hbm") / GB, stashes[_i].most);
}
END_TEST

/* A parameter that the host updates, whose like has been there all the time: on the host it is that, comes when it is read, and never goes. */
START_TEST(at_home)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0), dma = ech_trace_builder_queue(b, "dma host>hbm", ECH_QUEUE_COPY, 0);
    EchId w = ech_test_buffer(b, "w", GB, ECH_ROLE_PARAMETER, true), master = ech_test_buffer(b, "master", GB, ECH_ROLE_PARAMETER, true);
    ech_trace_builder_peek_buffer(b, master)->memory = ech_trace_builder_memory(b, "host");
    ech_test_kernel(b, 0, w, ECH_READ, GB);
    EchId read = ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    EchId update = ech_test_put(b, ECH_OP_KERNEL, ECH_NONE);
    ech_trace_builder_peek_op(b, update)->queue = host;
    ech_trace_builder_use(b, master, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, read, 0);
    EchOp copy = ech_op_init(ECH_OP_COPY);
    copy.queue = dma;
    copy.memory_from = ech_trace_builder_memory(b, "host");
    copy.memory_to = ech_trace_builder_memory(b, "hbm");
    copy.bytes = GB;
    EchId brought = ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, master, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, w, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, update, 0);
    (void)ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
    ech_trace_builder_dep(b, brought, 0);
    ech_test_kernel(b, 400 * ms, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 0, w, ECH_READ, GB);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    const char *const specs[] = {"offload:what=arguments", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 2);
    for (size_t i = 0; i < ech_trace_n_ops(out); i++)
        if (ech_trace_ops(out)[i].kind == ECH_OP_COPY)
            ck_assert_uint_eq(ech_trace_ops(out)[i].memory_to, ech_trace_find_memory(out, "hbm"));
    ck_assert_uint_eq(ech_test_peak(run, "host"), GB);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB);
    /* And the host's update, which the program waits for as before. */
    ck_assert_int_ge(run->makespan, (100 + 10 + 400 + 100 + 10) * ms);
    ck_assert_int_le(run->makespan, (100 + 10 + 400 + 100 + 10 + 20) * ms);
}
END_TEST

/* What a cache of transformers' holds stays, though a copy of it goes out and comes back. */
START_TEST(cached_besides)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    for (int cached = 0; cached < 2; cached++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId k = ech_test_buffer(b, "k", GB, ECH_ROLE_ACTIVATION, false), a = ech_test_buffer(b, "a", GB / 100, ECH_ROLE_ACTIVATION, false),
              large = ech_test_buffer(b, "large", 2 * GB, ECH_ROLE_TEMPORARY, false);
        EchId by = ech_trace_builder_string(b, cached ? "/transformers/cache_utils.py:136:update" : "/transformers/modeling.py:136:forward", -1);
        ech_trace_builder_peek_buffer(b, k)->stack = by;
        (void)ech_test_put(b, ECH_OP_ALLOC, k);
        (void)ech_test_put(b, ECH_OP_ALLOC, a);
        ech_test_kernel(b, 0, a, ECH_WRITE, GB / 100);
        ech_test_kernel(b, 0, k, ECH_WRITE, GB);
        ech_test_kernel(b, 0, k, ECH_READ, GB);
        (void)ech_test_put(b, ECH_OP_ALLOC, large);
        ech_test_kernel(b, 400 * ms, large, ECH_WRITE, 2 * GB);
        (void)ech_test_put(b, ECH_OP_FREE, large);
        ech_test_kernel(b, 0, k, ECH_READ, GB);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack =
            ech_trace_builder_string(b, "aten::mm\nautograd::engine::evaluate_function: MmBackward0", -1);
        (void)ech_test_put(b, ECH_OP_FREE, k);
        ech_test_kernel(b, 0, a, ECH_READ, GB / 100);
        ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack =
            ech_trace_builder_string(b, "aten::mul\nautograd::engine::evaluate_function: MulBackward0", -1);
        (void)ech_test_put(b, ECH_OP_FREE, a);
        g_autoptr(EchTrace) in = ech_test_finish(b);
        const char *const specs[] = {"offload:what=activations,idle=0,each=true", NULL};
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 4);
        ck_assert_uint_eq(ech_test_peak(run, "hbm"), (cached ? 3 : 2) * GB);
    }
}
END_TEST

/* What transformers asks for before it loads parameters is as much as these, and as those of them that stay. */
START_TEST(warmed_for_what_stays)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    for (int goal = 0; goal < 2; goal++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId warm = ech_test_buffer(b, "warm", 2 * GB, ECH_ROLE_TEMPORARY, false), a = ech_test_buffer(b, "a", GB, ECH_ROLE_PARAMETER, false),
              c = ech_test_buffer(b, "c", GB, ECH_ROLE_PARAMETER, false);
        EchId by = ech_trace_builder_string(b, "transformers/modeling_utils.py:5240:caching_allocator_warmup\ntrain.py:7:<module>", -1);
        ech_trace_builder_peek_buffer(b, warm)->stack = by;
        (void)ech_test_put(b, ECH_OP_ALLOC, warm);
        (void)ech_test_put(b, ECH_OP_FREE, warm);
        (void)ech_test_put(b, ECH_OP_ALLOC, a);
        (void)ech_test_put(b, ECH_OP_ALLOC, c);
        for (int i = 0; i < 2; i++) {
            ech_test_kernel(b, 400 * ms, a, ECH_READ, GB);
            ech_test_kernel(b, 400 * ms, c, ECH_READ, GB);
        }
        g_autoptr(EchTrace) in = ech_test_finish(b);
        const char *const specs[] = {goal ? "offload:what=arguments,each=true,memory=1GB" : "offload:what=arguments,each=true", NULL};
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_uint_eq(ech_test_peak(run, "hbm"), GB);
        ck_assert_uint_eq(ech_trace_buffers(out)[warm].bytes, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("offload");
    TCase *tcase = tcase_create("offload");
    tcase_add_test(tcase, too_little);
    tcase_add_test(tcase, why_nothing);
    tcase_add_test(tcase, around_no_iterations);
    tcase_add_loop_test(tcase, between_uses, 0, G_N_ELEMENTS(on_saved));
    tcase_add_loop_test(tcase, out_before_back, 0, G_N_ELEMENTS(on_short));
    tcase_add_test(tcase, in_parts);
    tcase_add_test(tcase, views_stay);
    tcase_add_test(tcase, argument);
    tcase_add_test(tcase, at_home);
    tcase_add_test(tcase, warmed_for_what_stays);
    tcase_add_test(tcase, cached_besides);
    tcase_add_test(tcase, read_before_its_slices);
    tcase_add_test(tcase, stack);
    tcase_add_loop_test(tcase, stacks_alone, 0, 2);
    tcase_add_loop_test(tcase, slices_apart, 0, 2);
    tcase_add_test(tcase, whole_in_loop);
    tcase_add_test(tcase, other_queues);
    tcase_add_test(tcase, sent_on);
    tcase_add_test(tcase, fetched_into_twice);
    tcase_add_test(tcase, waits_for_what_comes_later);
    tcase_add_test(tcase, least_harm);
    tcase_add_loop_test(tcase, made_early, 0, 2);
    tcase_add_loop_test(tcase, shipped, 0, G_N_ELEMENTS(programs));
    tcase_add_test(tcase, once_an_operator);
    tcase_add_loop_test(tcase, saved_unread, 0, G_N_ELEMENTS(unread));
    tcase_add_loop_test(tcase, parameters_saved, 0, G_N_ELEMENTS(of_parameters));
    tcase_add_loop_test(tcase, fetched_early, 0, G_N_ELEMENTS(early));
    tcase_add_loop_test(tcase, as_compiled, 0, G_N_ELEMENTS(compiled));
    tcase_add_loop_test(tcase, overlap_within, 0, G_N_ELEMENTS(held));
    tcase_add_loop_test(tcase, stash, 0, G_N_ELEMENTS(stashes));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
