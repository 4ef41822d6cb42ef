/* Processes on one device: closed forms of turns and of kernels side by side, whose memory it is, what is refused. */
#include "sim/replay/replay.h"

#include "sim/base/error.h"
#include "sim/report/ranks.h"
#include "tests/support/made.h"
#include "tests/support/support.h"

#include <stdlib.h>

static const EchTime ms = ECH_TEST_MS;
enum { MOST = 4 };

typedef struct {
    EchTraceBuilder *b;
    EchId hbm, work, copies; /* queues: of kernels, of copies */
} Process;

static Process process_new(void)
{
    Process p = {.b = ech_trace_builder_new("test")};
    p.hbm = ech_trace_builder_memory(p.b, "hbm");
    p.work = ech_trace_builder_queue(p.b, "work", ECH_QUEUE_COMPUTE, 0);
    p.copies = ech_trace_builder_queue(p.b, "copies", ECH_QUEUE_COPY, 0);
    return p;
}

static EchId add(Process *p, EchOp op, EchTime time, EchId after)
{
    op.recorded = (EchRecorded){0, time};
    EchId id = ech_trace_builder_op(p->b, op);
    if (after != ECH_NONE)
        ech_trace_builder_dep(p->b, after, 0);
    return id;
}

/* One of @blocks blocks of 1024 threads, of which an H100's multiprocessors hold two each; 0: it does not say. */
static EchId add_kernel(Process *p, EchTime time, unsigned blocks, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    g_autofree char *launch = g_strdup_printf("grid=%ux1x1 block=1024x1x1", blocks);
    op.name = ech_trace_builder_string(p->b, "kernel", -1);
    op.queue = p->work;
    op.launch = blocks > 0 ? ech_trace_builder_string(p->b, launch, -1) : ECH_NONE;
    return add(p, op, time, after);
}

static EchId add_copy(Process *p, EchTime time, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_COPY);
    op.name = ech_trace_builder_string(p->b, "copy", -1);
    op.queue = p->copies;
    op.memory_from = ech_trace_builder_memory(p->b, "host");
    op.memory_to = p->hbm;
    return add(p, op, time, after);
}

static void add_alloc(Process *p, EchBytes bytes)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(p->b, "array", -1);
    buffer.memory = p->hbm;
    buffer.bytes = bytes;
    EchOp op = ech_op_init(ECH_OP_ALLOC);
    op.target = ech_trace_builder_buffer(p->b, buffer);
    op.queue = p->work;
    ech_trace_builder_op(p->b, op);
}

static EchTrace *finish(Process *p)
{
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(p->b, &error);
    ck_assert_ok(trace != NULL, error);
    ech_trace_builder_free(p->b);
    return trace;
}

static EchTrace *kernels(unsigned n, EchTime time, unsigned blocks)
{
    Process p = process_new();
    for (unsigned i = 0; i < n; i++)
        add_kernel(&p, time, blocks, ECH_NONE);
    return finish(&p);
}

static EchDevice *h100(void)
{
    const char *const settings[] = {"memories.hbm.available=1000MiB", "runtime.driver.context_bytes=0", NULL};
    EchDevice *device = ech_test_device("h100-sxm", settings);
    return device;
}

static bool replay(EchTrace **traces, size_t n, const EchDevice *device, EchSharing share, EchRun **runs, GError **error)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.share = share;
    options.overhead = 0;
    EchReplayRank ranks[MOST];
    for (size_t i = 0; i < n; i++)
        ranks[i] = (EchReplayRank){traces[i], device, NULL, &options, (uint32_t)i};
    bool ok = ech_replay_run_together(ranks, n, runs, error);
    ech_params_clear(ech_replay_params, &options);
    return ok;
}

/* Makespans in tenths of a millisecond. */
static void expect(EchTrace **traces, size_t n, EchSharing share, const int *tenths)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = h100();
    EchRun *runs[MOST];
    ck_assert_ok(replay(traces, n, device, share, runs, &error), error);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(llabs(runs[i]->makespan - tenths[i] * ms / 10) <= 20, "process %zu of %zu: got %" G_GINT64_FORMAT " ps, expected %d tenths of a ms", i, n,
                      runs[i]->makespan, tenths[i]);
        ck_assert_int_eq(runs[i]->share, share);
        ech_run_free(runs[i]);
        ech_trace_unref(traces[i]);
    }
}

/* A kernel that fills the chip has it to itself half of the time; eighths of it lie side by side. */
START_TEST(side_by_side)
{
    EchTrace *full[] = {kernels(2, ms, 264), kernels(2, ms, 300)};
    expect(full, 2, ECH_SHARE_MPS, (int[]){40, 40});
    EchTrace *unsaid[] = {kernels(2, ms, 0), kernels(1, ms, 0)};
    expect(unsaid, 2, ECH_SHARE_MPS, (int[]){30, 20});
    EchTrace *small[] = {kernels(2, ms, 33), kernels(2, ms, 33), kernels(2, ms, 33), kernels(2, ms, 33)};
    expect(small, 4, ECH_SHARE_MPS, (int[]){20, 20, 20, 20});
    EchTrace *three[] = {kernels(1, ms, 132), kernels(1, ms, 132), kernels(1, ms, 132)}; /* half a chip each */
    expect(three, 3, ECH_SHARE_MPS, (int[]){15, 15, 15});
    EchTrace *apart[] = {kernels(2, ms, 264), kernels(2, ms, 264)};
    expect(apart, 2, ECH_SHARE_NONE, (int[]){20, 20});
}
END_TEST

/* Turns of 2 ms, a change takes 0.07; here 0.1. */
START_TEST(by_turns)
{
    g_autoptr(GError) error = NULL;
    const char *const settings[] = {"runtime.switch_ps=100us", NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", settings);
    EchTrace *traces[] = {kernels(4, ms, 33), kernels(4, ms, 33)}; /* small ones, too, lie in turn */
    EchRun *runs[2];
    ck_assert_ok(replay(traces, 2, device, ECH_SHARE_SLICES, runs, &error), error);
    ck_assert_int_le(llabs(runs[0]->makespan - 62 * ms / 10), 20); /* 0 to 2, 4.2 to 6.2 */
    ck_assert_int_le(llabs(runs[1]->makespan - 83 * ms / 10), 20); /* 2.1 to 4.1, 6.3 to 8.3 */
    ck_assert_int_le(llabs(runs[0]->waits[ECH_WAIT_PEERS] - 22 * ms / 10), 20);
    ck_assert_int_le(llabs(runs[1]->waits[ECH_WAIT_PEERS] - (21 + 22) * ms / 10), 20);
    for (size_t i = 0; i < 2; i++) {
        ech_run_free(runs[i]);
        ech_trace_unref(traces[i]);
    }
}
END_TEST

/* Who has had nothing on the device for 0.2 ms leaves it to others before its time is over; who is alone keeps it. A copy goes beside another's kernels. */
START_TEST(idle_turns_end)
{
    g_autoptr(GError) error = NULL;
    const char *const settings[] = {"runtime.switch_ps=100us", NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", settings);
    Process p = process_new();
    EchId kernel = add_kernel(&p, ms / 2, 33, ECH_NONE), copy = add_copy(&p, ms, kernel);
    add_kernel(&p, ms / 2, 33, copy);
    EchTrace *traces[] = {finish(&p), kernels(5, ms, 33)};
    EchRun *runs[2];
    ck_assert_ok(replay(traces, 2, device, ECH_SHARE_SLICES, runs, &error), error);
    ck_assert_int_le(llabs(runs[0]->makespan - 34 * ms / 10), 20); /* 0 to 0.5; copy to 1.5; 2.9 to 3.4: the other's turn is 0.8 to 2.8 */
    ck_assert_int_le(llabs(runs[1]->makespan - 65 * ms / 10), 20); /* 0.8 to 2.8, and, the first being over, 3.5 to 6.5 */
    for (size_t i = 0; i < 2; i++) {
        ech_run_free(runs[i]);
        ech_trace_unref(traces[i]);
    }
}
END_TEST

/* Of 1000 MiB one has 600 when the other asks for as much: that one stops, and leaves what it had to the first. */
START_TEST(memory_is_shared)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = h100();
    for (int counted = 0; counted < 2; counted++) {
        Process first = process_new(), second = process_new();
        add_alloc(&first, UINT64_C(600) << 20);
        add_kernel(&first, 3 * ms, 0, ECH_NONE);
        add_alloc(&first, UINT64_C(350) << 20);
        add_kernel(&second, ms, 0, ECH_NONE);
        add_alloc(&second, UINT64_C(100) << 20);
        add_kernel(&second, ms, 0, ECH_NONE);
        add_alloc(&second, UINT64_C(600) << 20);
        EchTrace *traces[] = {finish(&first), finish(&second)};
        EchReplayOptions options = {0};
        ech_params_defaults(ech_replay_params, &options);
        options.share = ECH_SHARE_MPS;
        options.allocator_on = !counted;
        EchReplayRank ranks[] = {{traces[0], device, NULL, &options, 0}, {traces[1], device, NULL, &options, 1}};
        EchRun *runs[2];
        ck_assert_ok(ech_replay_run_together(ranks, 2, runs, &error), error);
        ck_assert(runs[0]->fits && !runs[1]->fits);
        ck_assert_uint_eq(runs[1]->failure.elsewhere, UINT64_C(600) << 20);
        ck_assert_uint_eq(runs[1]->failure.asked, UINT64_C(600) << 20);
        EchReport reports[2];
        for (size_t i = 0; i < 2; i++)
            reports[i] = (EchReport){.title = "r", .trace_path = "r", .format = "test", .trace = traces[i], .device = device, .run = runs[i]};
        EchRanks *told = ech_ranks_new(reports, 2);
        g_autoptr(GString) text = ech_report_ranks_text("two", told, NULL, 0);
        ck_assert_msg(strstr(text->str, "THEY DO NOT FIT: process 1.") != NULL, "%s", text->str);
        ck_assert_msg(strstr(text->str, "at most 950 MiB of 1000 MiB of hbm.") != NULL, "%s", text->str);
        ck_assert_msg(strstr(text->str, "and the other processes on the device have 600 MiB") != NULL, "%s", text->str);
        ech_ranks_free(told);
        ech_params_clear(ech_replay_params, &options);
        for (size_t i = 0; i < 2; i++) {
            ech_run_free(runs[i]);
            ech_trace_unref(traces[i]);
        }
    }
}
END_TEST

/* Loops run as often as they say, iteration by iteration. */
START_TEST(loops_take_turns)
{
    EchTrace *traces[2];
    for (size_t i = 0; i < 2; i++) {
        Process p = process_new();
        EchOp op = ech_op_init(ECH_OP_LOOP);
        op.queue = p.work;
        op.target = 1;
        op.bytes = 20;
        ech_trace_builder_op(p.b, op);
        add_kernel(&p, ms, 264, ECH_NONE);
        traces[i] = finish(&p);
    }
    expect(traces, 2, ECH_SHARE_MPS, (int[]){400, 400});
}
END_TEST

START_TEST(refusals)
{
    g_autoptr(EchTrace) trace = kernels(1, ms, 0);
    g_autoptr(EchDevice) gpu = h100(), other = ech_test_device("a100-80", NULL), tpu = ech_test_device("tpu-v5e", NULL);
    EchReplayOptions options = {0}, none = {0};
    ech_params_defaults(ech_replay_params, &options);
    ech_params_defaults(ech_replay_params, &none);
    options.share = ECH_SHARE_SLICES;
    const struct {
        EchReplayRank ranks[2];
        const char *says;
    } cases[] = {{{{trace, gpu, NULL, &options, 0}, {trace, other, NULL, &options, 1}}, "process 1 is to share another device"},
                 {{{trace, gpu, NULL, &options, 0}, {trace, gpu, NULL, &none, 1}}, "process 1 is to share another device"},
                 {{{trace, tpu, NULL, &options, 0}, {trace, tpu, NULL, &options, 1}}, "is no GPU"}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        EchRun *runs[2];
        ck_assert(!ech_replay_run_together(cases[i].ranks, 2, runs, &error));
        ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
        ck_assert_msg(strstr(error->message, cases[i].says) != NULL, "%s", error->message);
    }
    g_autoptr(GError) error = NULL;
    ck_assert(ech_replay_run(trace, gpu, NULL, &options, &error) == NULL);
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    ech_params_clear(ech_replay_params, &options);
    ech_params_clear(ech_replay_params, &none);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sharing");
    TCase *cases = tcase_create("sharing");
    tcase_add_test(cases, side_by_side);
    tcase_add_test(cases, by_turns);
    tcase_add_test(cases, idle_turns_end);
    tcase_add_test(cases, memory_is_shared);
    tcase_add_test(cases, loops_take_turns);
    tcase_add_test(cases, refusals);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
