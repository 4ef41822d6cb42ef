/* The prefetch pass on straight code, in closed form on the engine: when fetches from the host start, and what keeps them where they are. */
#include "models/device/device_yaml.h"
#include "tests/support/made.h"

#include <check.h>
#include <string.h>

/* 200 MB take 20 ms over the link, each way. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n";
static const EchTime ms = ECH_TEST_MS;
static const EchBytes MB = 1000000;

enum { MADE = 1, FULL = 2, RESIDENT = 4, SENT = 8 };

/* Three kernels of 20 ms, then @n fetches and the kernel of 20 ms that waits for them. MADE: what is fetched leaves the device beside the third. FULL: the
 * third has all memory but 100 MB. RESIDENT: what it goes into is there from the beginning. SENT: something leaves the device once memory for the first is
 * taken. */
static EchTrace *fetching(unsigned n, unsigned how)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId in = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0), out = ech_trace_builder_queue(b, "out", ECH_QUEUE_COPY, 0);
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host"),
          left = ech_test_buffer(b, "left", 200 * MB, ECH_ROLE_UNKNOWN, true), there[2], here[2], copies[2];
    EchId large = ech_test_buffer(b, "large", 7700 * MB, ECH_ROLE_TEMPORARY, false), last = ECH_NONE, sent = ECH_NONE;
    for (unsigned k = 0; k < n; k++) {
        there[k] = ech_test_buffer(b, "there", 200 * MB, ECH_ROLE_UNKNOWN, true);
        ech_trace_builder_peek_buffer(b, there[k])->memory = host;
        here[k] = ech_test_buffer(b, "here", 200 * MB, ECH_ROLE_UNKNOWN, how & RESIDENT);
    }
    for (unsigned k = 0; k < 3; k++) {
        if (k == 2 && how & MADE) {
            EchOp copy = ech_op_init(ECH_OP_COPY);
            copy.name = ech_trace_builder_string(b, "sent", -1);
            copy.queue = out;
            copy.memory_from = hbm;
            copy.memory_to = host;
            copy.bytes = 200 * MB;
            sent = ech_trace_builder_op(b, copy);
            ech_trace_builder_use(b, left, ECH_READ, copy.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
            ech_trace_builder_use(b, there[0], ECH_WRITE, copy.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
            ech_trace_builder_dep(b, last, 0);
        }
        if (k == 2 && how & FULL)
            (void)ech_test_put(b, ECH_OP_ALLOC, large);
        last = (EchId)ech_trace_builder_n_ops(b);
        ech_test_kernel(b, 20 * ms, ECH_NONE, ECH_READ, 0);
        if (k == 2 && how & FULL)
            (void)ech_test_put(b, ECH_OP_FREE, large);
    }
    for (unsigned k = 0; k < n; k++) {
        EchId taken = how & RESIDENT ? ECH_NONE : ech_test_put(b, ECH_OP_ALLOC, here[k]);
        EchOp copy = ech_op_init(ECH_OP_COPY);
        copy.name = ech_trace_builder_string(b, "fetch", -1);
        copy.queue = in;
        copy.memory_from = host;
        copy.memory_to = hbm;
        copy.bytes = 200 * MB;
        copies[k] = ech_trace_builder_op(b, copy);
        ech_trace_builder_use(b, there[k], ECH_READ, copy.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, here[k], ECH_WRITE, copy.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_dep(b, last, 0);
        if (sent != ECH_NONE)
            ech_trace_builder_dep(b, sent, 0);
        if (k == 0 && how & SENT) {
            copy.name = ech_trace_builder_string(b, "sent", -1);
            copy.queue = out;
            copy.memory_from = hbm;
            copy.memory_to = host;
            (void)ech_trace_builder_op(b, copy);
            ech_trace_builder_dep(b, taken, 0);
        }
    }
    for (unsigned k = 0; k < n; k++) {
        (void)ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
        ech_trace_builder_dep(b, copies[k], 0);
    }
    ech_test_kernel(b, 20 * ms, here[0], ECH_READ, 200 * MB);
    for (unsigned k = 0; k < n && !(how & RESIDENT); k++)
        (void)ech_test_put(b, ECH_OP_FREE, here[k]);
    return ech_test_finish(b);
}

static const struct {
    const char *spec;
    unsigned n, how;
    EchTime starts[2], makespan; /* ms */
    EchBytes hbm;                /* MB */
    const char *says;
} cases[] = {
    {"prefetch", 1, 0, {40}, 80, 400, "prefetch: 1 fetch from the host starts earlier (191 MiB), by 20 ms of computing at most"},
    {"prefetch", 1, RESIDENT, {40}, 80, 400, "by 20 ms of computing at most"},
    {"prefetch:lookahead=1.5", 1, 0, {20}, 80, 400, "by 40 ms of computing at most"},
    {"prefetch:lookahead=2", 1, 0, {20}, 80, 400, "by 40 ms of computing at most"},
    {"prefetch:lookahead=0", 1, 0, {60}, 100, 400, "left 1 fetch in place: they start early enough already"},
    {"prefetch:above=201MB", 1, 0, {60}, 100, 400, "nothing is fetched from the host by a copy of its own"},
    {"prefetch:above=200MB", 1, 0, {40}, 80, 400, "1 fetch from the host"},
    {"prefetch:budget=199MB", 1, 0, {60}, 100, 400, "left 1 fetch in place: no memory is free to hold it longer"},
    {"prefetch:budget=200MB", 1, 0, {40}, 80, 400, "it takes up to 191 MiB more"},
    {"prefetch", 1, FULL, {60}, 100, 7900, "left 1 fetch in place: no memory is free to hold it longer"},
    {"prefetch", 1, MADE, {60}, 100, 400, "1 fetch from the host"}, /* no sooner than it has left */
    /* One behind the other on the link, in their order; of two that find room for one only, neither overtakes. */
    {"prefetch", 2, 0, {20, 40}, 80, 600, "2 fetches from the host start earlier (381 MiB), by 40 ms of computing at most"},
    {"prefetch:budget=200MB", 2, 0, {60, 80}, 120, 600, "left 1 fetch in place: they follow another fetch at once"},
};

START_TEST(straight)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = fetching(cases[_i].n, cases[_i].how);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){cases[_i].spec, NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    unsigned found = 0;
    for (EchId op = 0; op < ech_trace_n_ops(out); op++) {
        if (g_strcmp0(ech_trace_string(out, ech_trace_ops(out)[op].name), "fetch") != 0)
            continue;
        for (size_t i = 0; i < run->n_spans; i++)
            if (run->spans[i].op == op)
                ck_assert_msg(run->spans[i].start / ms == cases[_i].starts[found], "%d: starts at %" G_GINT64_FORMAT, _i, run->spans[i].start);
        found++;
    }
    ck_assert_uint_eq(found, cases[_i].n);
    ck_assert_msg(run->makespan / ms == cases[_i].makespan, "%d: %" G_GINT64_FORMAT, _i, run->makespan);
    ck_assert_uint_eq(ech_test_peak(run, "hbm"), cases[_i].hbm * MB);
    ck_assert_msg(ech_test_says(diag, cases[_i].says), "%d: %s", _i, ech_diag_remarks(diag)[0]);
}
END_TEST

/* Memory is taken earlier for what is fetched earlier; what began once it was taken does not. */
START_TEST(order_stays)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = fetching(1, SENT);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"prefetch", NULL});
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    unsigned found = 0;
    for (size_t i = 0; i < run->n_spans; i++) {
        const char *name = ech_trace_string(out, ech_trace_ops(out)[run->spans[i].op].name);
        bool fetch = strcmp(name, "fetch") == 0;
        if (!fetch && strcmp(name, "sent") != 0)
            continue;
        ck_assert_msg(run->spans[i].start / ms == (fetch ? 40 : 60), "%s: %" G_GINT64_FORMAT, name, run->spans[i].start);
        found++;
    }
    ck_assert_uint_eq(found, 2);
}
END_TEST

/* A loop of four: each iteration fetches two arrays, 20 ms each, and has a kernel of 50 ms that waits for both itself. @inner: so does a loop inside. */
static EchTrace *fetching_two(bool inner)
{
    enum { N = 2 };
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId in = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0), host = ech_trace_builder_memory(b, "host"), there[N], here[N], copies[N];
    for (unsigned k = 0; k < N; k++) {
        there[k] = ech_test_buffer(b, "there", 200 * MB, ECH_ROLE_UNKNOWN, true);
        ech_trace_builder_peek_buffer(b, there[k])->memory = host;
        here[k] = ech_test_buffer(b, "here", 200 * MB, ECH_ROLE_UNKNOWN, false);
    }
    EchId loop = ech_test_loop(b, 4);
    for (unsigned k = 0; k < N; k++) {
        ech_trace_builder_peek_buffer(b, here[k])->loop = loop;
        EchId made = ech_test_put(b, ECH_OP_ALLOC, here[k]);
        copies[k] = ech_test_put(b, ECH_OP_COPY, ECH_NONE);
        EchOp *copy = ech_trace_builder_peek_op(b, copies[k]);
        copy->queue = in;
        copy->memory_from = host;
        copy->memory_to = ech_trace_builder_memory(b, "hbm");
        copy->bytes = 200 * MB;
        ech_trace_builder_use(b, there[k], ECH_READ, copy->bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, here[k], ECH_WRITE, copy->bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_dep(b, made, 0);
    }
    ech_test_kernel(b, 50 * ms, here[0], ECH_READ, 200 * MB);
    ech_trace_builder_use(b, here[1], ECH_READ, 200 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    for (unsigned k = 0; k < N; k++)
        ech_trace_builder_dep(b, copies[k], 0);
    if (inner) {
        EchId within = ech_test_loop(b, 2);
        ech_test_kernel(b, 0, here[0], ECH_READ, MB);
        ech_trace_builder_dep(b, copies[0], 0);
        ech_test_close_loop(b, within);
    }
    for (unsigned k = 0; k < N; k++)
        (void)ech_test_put(b, ECH_OP_FREE, here[k]);
    ech_test_close_loop(b, loop);
    return ech_test_finish(b);
}

/* A kernel that waits for two fetches waits for both of an iteration before; a loop inside cannot wait for one of those. */
START_TEST(two_for_one)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = fetching_two(_i == 1);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"prefetch", NULL});
    g_autoptr(EchRun) before = ech_test_replay(in, device), run = ech_test_replay(out, device);
    ck_assert_int_eq(before->makespan / ms, 4 * (40 + 50));
    /* Both before the loop, then beside the kernels, and once more than needed. */
    ck_assert_msg(run->makespan / ms == (_i == 0 ? 40 + 4 * 50 : 4 * 90 - 3 * 20), "%d: %" G_GINT64_FORMAT, _i, run->makespan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prefetch");
    TCase *tests = tcase_create("prefetch");
    tcase_add_loop_test(tests, straight, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tests, order_stays);
    tcase_add_loop_test(tests, two_for_one, 0, 2);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
