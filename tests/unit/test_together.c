/* Ranks that are replayed together: closed forms of pipelines, who waits for whom, what is not waited for. */
#include "sim/replay/replay.h"

#include "sim/base/error.h"
#include "sim/report/ranks.h"
#include "sim/trace/meets.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STAGES = 8 };

/* One unit that does an operation in a picosecond, a memory of 1000 bytes, and a link between devices on which bytes take next to nothing. */
static EchDevice *make_device(void)
{
    EchDevice *device = ech_device_new();
    device->name = g_strdup("test");
    device->summary = g_strdup("");
    device->family = g_strdup("gpu");
    device->compiler = g_strdup("");
    device->cores = 1;
    device->n_memories = 1;
    device->memories = g_new0(EchMemory, 1);
    device->memories[0] = (EchMemory){.name = g_strdup("hbm"), .kind = ECH_MEM_HBM, .capacity = 1000, .available = 1000, .read = 1, .write = 1, .both = 1};
    device->n_links = 1;
    device->links = g_new0(EchLink, 1);
    device->links[0] = (EchLink){.name = g_strdup("nvlink"), .nominal = ECH_PS_PER_S, .to_device = ECH_PS_PER_S, .from_device = ECH_PS_PER_S, .ports = 1};
    device->n_units = 1;
    device->units = g_new0(EchUnit, 1);
    device->units[0] = (EchUnit){.name = g_strdup("matrix"), .kind = ECH_UNIT_MATRIX, .count = 1, .n_peaks = 1, .peaks = g_new0(EchPeak, 1)};
    device->units[0].peaks[0] = (EchPeak){.dtype = g_strdup("bf16"), .ops = ECH_PS_PER_S};
    return device;
}

typedef struct {
    EchTraceBuilder *b;
    EchId work, messages[2]; /* queues: of kernels, of what is received, of what is sent */
    uint64_t met[64];        /* by group */
} Rank;

static Rank rank_new(void)
{
    Rank r = {.b = ech_trace_builder_new("test")};
    (void)ech_trace_builder_memory(r.b, "hbm");
    r.work = ech_trace_builder_queue(r.b, "work", ECH_QUEUE_COMPUTE, 0);
    r.messages[0] = ech_trace_builder_queue(r.b, "in", ECH_QUEUE_COLLECTIVE, 0);
    r.messages[1] = ech_trace_builder_queue(r.b, "out", ECH_QUEUE_COLLECTIVE, 0);
    return r;
}

static EchId add_kernel(Rank *r, EchTime time, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.name = ech_trace_builder_string(r->b, "kernel", -1);
    op.queue = r->work;
    EchId id = ech_trace_builder_op(r->b, op);
    ech_trace_builder_work(r->b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, (uint64_t)time, ECH_KNOWN);
    if (after != ECH_NONE)
        ech_trace_builder_dep(r->b, after, 0);
    return id;
}

/* What meets @words on @queue; bytes take a picosecond each. */
static EchId add_collective(Rank *r, EchId queue, EchCollective kind, EchBytes bytes, const char *words, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_COLLECTIVE);
    op.name = ech_trace_builder_string(r->b, ech_collective_name(kind), -1);
    op.collective = (uint8_t)kind;
    op.queue = queue;
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    op.memory_from = 2;
    op.launch = ech_trace_builder_string(r->b, words, -1);
    EchId id = ech_trace_builder_op(r->b, op);
    if (after != ECH_NONE)
        ech_trace_builder_dep(r->b, after, 0);
    return id;
}

static EchId add_message(Rank *r, bool sends, uint64_t group, EchBytes buffer, EchBytes bytes, EchId after)
{
    g_autoptr(GString) words = g_string_new(NULL);
    ech_meets_print(words, (EchMeeting){.group = group, .times = r->met[group]++, .sends = sends, .buffer = sends ? buffer : 0});
    return add_collective(r, r->messages[sends], sends ? ECH_COLLECTIVE_SEND : ECH_COLLECTIVE_RECV, bytes, words->str, after);
}

static EchTrace *finish(Rank *r)
{
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(r->b, &error);
    ck_assert_ok(trace != NULL, error);
    ech_trace_builder_free(r->b);
    return trace;
}

/* Replays and frees the @traces[n]; false with *error where they cannot be. */
static bool replay(EchTrace **traces, size_t n, EchRun **runs, GError **error)
{
    g_autoptr(EchDevice) device = make_device();
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    EchReplayRank ranks[MAX_STAGES];
    for (size_t i = 0; i < n; i++)
        ranks[i] = (EchReplayRank){traces[i], device, NULL, &options, (uint32_t)i};
    bool ok = ech_replay_run_together(ranks, n, runs, error);
    ech_params_clear(ech_replay_params, &options);
    for (size_t i = 0; i < n; i++)
        ech_trace_unref(traces[i]);
    for (size_t i = 0; ok && i < n; i++)
        if (runs[i]->completed) {
            ck_assert_int_le(runs[i]->lower_bound, runs[i]->makespan + 1 + (EchTime)runs[i]->ops);
            ck_assert_int_le(runs[i]->makespan, runs[i]->serial + 1 + (EchTime)runs[i]->ops);
        }
    return ok;
}

static void must_replay(EchTrace **traces, size_t n, EchRun **runs)
{
    g_autoptr(GError) error = NULL;
    ck_assert_ok(replay(traces, n, runs, &error), error);
}

static void free_runs(EchRun **runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ech_run_free(runs[i]);
}

/* Reports on runs of @traces, which stay the caller's. */
static EchRanks *ranks_of(EchTrace *const *traces, EchRun *const *runs, const EchDevice *device, EchReport *reports, size_t n)
{
    for (size_t i = 0; i < n; i++)
        reports[i] = (EchReport){.title = "r", .trace_path = "r", .format = "test", .trace = traces[i], .device = device, .run = runs[i]};
    return ech_ranks_new(reports, n);
}

static void near(EchTime got, EchTime want, EchTime slack)
{
    ck_assert_msg(llabs(got - want) <= slack, "got %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT, got, want);
}

/* ---- pipelines ---- */

enum { FORWARD = 1000000, BACKWARD = 2000000 /* ps */, GROUPS = MAX_STAGES };

static EchId forward_of(Rank *r, size_t stage, size_t p)
{
    EchId got = stage > 0 ? add_message(r, false, stage, 0, 1, ECH_NONE) : ECH_NONE;
    EchId done = add_kernel(r, FORWARD, got);
    if (stage + 1 < p)
        add_message(r, true, stage + 1, 0, 1, done);
    return done;
}

static EchId backward_of(Rank *r, size_t stage, size_t p)
{
    EchId got = stage + 1 < p ? add_message(r, false, GROUPS + stage + 1, 0, 1, ECH_NONE) : ECH_NONE;
    EchId done = add_kernel(r, BACKWARD, got);
    if (stage > 0)
        add_message(r, true, GROUPS + stage, 0, 1, done);
    return done;
}

/* GPipe, or one forward pass and one backward in turn: Narayanan et al., 2104.04473, figures 3 and 4. */
static EchTrace *stage_trace(size_t stage, size_t p, size_t m, bool in_turn)
{
    Rank r = rank_new();
    size_t ahead = in_turn ? MIN(m, p - stage) : m, done = 0;
    for (size_t i = 0; i < ahead; i++)
        forward_of(&r, stage, p);
    for (size_t i = ahead; i < m; i++, done++) {
        backward_of(&r, stage, p);
        forward_of(&r, stage, p);
    }
    for (; done < m; done++)
        backward_of(&r, stage, p);
    return finish(&r);
}

/* Of equal stages: (m + p - 1) of a forward and a backward pass, (p - 1) / m of the work's time a bubble (2104.04473, section 2.2.1). */
START_TEST(the_bubble_of_equal_stages)
{
    static const struct {
        size_t p, m;
    } cases[] = {{1, 4}, {2, 2}, {4, 4}, {4, 8}, {8, 24}};
    size_t p = cases[_i / 2].p, m = cases[_i / 2].m;
    EchTrace *traces[MAX_STAGES];
    EchRun *runs[MAX_STAGES];
    for (size_t stage = 0; stage < p; stage++)
        traces[stage] = stage_trace(stage, p, m, _i % 2 > 0);
    must_replay(traces, p, runs);
    EchTime last = 0, slack = (EchTime)(20 * p * m); /* a picosecond or two a message */
    for (size_t stage = 0; stage < p; stage++) {
        last = MAX(last, runs[stage]->makespan);
        near(runs[stage]->queues[0].busy, (EchTime)m * (FORWARD + BACKWARD), slack);
    }
    near(last, (EchTime)(m + p - 1) * (FORWARD + BACKWARD), slack);
    near(runs[0]->makespan, last, slack); /* the first stage ends last */
    free_runs(runs, p);
}
END_TEST

/* ---- who waits for whom ---- */

START_TEST(what_is_received_waits_for_what_is_sent)
{
    Rank a = rank_new(), b = rank_new();
    EchId slow = add_kernel(&a, 5000, ECH_NONE);
    add_message(&a, true, 7, 0, 100, slow);
    EchId got = add_message(&b, false, 7, 0, 100, ECH_NONE);
    add_kernel(&b, 10, got);
    EchTrace *traces[] = {finish(&a), finish(&b)};
    EchRun *runs[2];
    must_replay(traces, 2, runs);
    near(runs[0]->makespan, 5100, 3);
    near(runs[1]->makespan, 5110, 3);
    near(runs[1]->waits[ECH_WAIT_PEERS], 5000, 2);
    ck_assert_int_eq(runs[0]->waits[ECH_WAIT_PEERS], 0);
    ck_assert_uint_eq(runs[1]->spans[0].awaited, 0);
    free_runs(runs, 2);
}
END_TEST

static EchTime within(const EchRankTimes *rank, int state, EchTime from, EchTime to)
{
    EchTime sum = 0;
    for (size_t s = 0; s < rank->n_stretches; s++)
        if ((int)rank->stretches[s].state == state)
            sum += MAX(MIN(rank->stretches[s].end, to) - MAX(rank->stretches[s].start, from), 0);
    return sum;
}

/* What the page draws: each rank's stretches, or, of more than @most, what it does for most of each part of the time. */
static void check_drawn(const EchRanks *ranks, size_t most)
{
    g_autoptr(GString) text = ech_report_ranks_details(ranks, most);
    g_autoptr(JsonParser) parser = json_parser_new();
    GError *error = NULL;
    ck_assert_ok(json_parser_load_from_data(parser, text->str, (gssize)text->len, &error), error);
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    EchTime end = json_object_get_int_member(root, "makespan");
    for (guint i = 0; i < ranks->n; i++) {
        const EchRankTimes *rank = &ranks->ranks[i];
        EchTime own = ranks->reports[i].run->makespan;
        ck_assert_int_le(own, end);
        JsonArray *drawn = json_array_get_array_element(json_object_get_array_member(root, "ranks"), i);
        guint n = json_array_get_length(drawn);
        ck_assert_uint_ge(n, 2);
        for (guint k = 0; k < n; k++) {
            JsonArray *one = json_array_get_array_element(drawn, k);
            EchTime start = json_array_get_int_element(one, 0),
                    next = k + 1 < n ? json_array_get_int_element(json_array_get_array_element(drawn, k + 1), 0) : own;
            int state = (int)json_array_get_int_element(one, 1);
            if (k + 1 == n) {
                ck_assert(start == own && state == ECH_N_RANK_STATES);
                continue;
            }
            ck_assert(k > 0 || start == 0);
            ck_assert_int_gt(next, start);
            if (rank->n_stretches <= most) {
                ck_assert_int_eq(within(rank, state, start, next), next - start);
                continue;
            }
            for (size_t bin = 0; bin < most; bin++) {
                EchTime from = end * (EchTime)bin / (EchTime)most, to = end * (EchTime)(bin + 1) / (EchTime)most;
                for (int s = 0; s < ECH_N_RANK_STATES && start <= from + 1 && from + 1 < next; s++)
                    ck_assert_int_ge(within(rank, state, from, to) + 2, within(rank, s, from, to));
            }
        }
    }
}

/* Of three, the first waits 2000 for the last, of which that one runs kernels all the time; the second 1000. What is told adds up. */
START_TEST(who_waits_for_whom)
{
    EchTrace *traces[3];
    EchRun *runs[3];
    EchReport reports[3];
    g_autoptr(EchDevice) device = make_device();
    for (size_t i = 0; i < 3; i++) {
        Rank r = rank_new();
        EchId before = add_kernel(&r, 1000 * (EchTime)(i + 1), ECH_NONE);
        EchId met = add_collective(&r, r.messages[0], ECH_COLLECTIVE_BROADCAST, 100, "devices=3 stride=1 meets=ab/0", before);
        add_kernel(&r, 500, met);
        traces[i] = finish(&r);
        (void)ech_trace_ref(traces[i]);
    }
    must_replay(traces, 3, runs);
    g_autoptr(EchRanks) ranks = ranks_of(traces, runs, device, reports, 3);
    ck_assert_uint_eq(ranks->n_waits, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const EchRankWait *wait = &ranks->waits[i];
        ck_assert(wait->rank == i && wait->awaited == 2 && wait->times == 1 && strcmp(wait->at, "broadcast") == 0);
        near(wait->time, 2000 - 1000 * (EchTime)i, 2);
        ck_assert_int_eq(wait->meanwhile[ECH_RANK_KERNELS], wait->time);
    }
    for (size_t i = 0; i < 3; i++) {
        const EchRankTimes *rank = &ranks->ranks[i];
        EchTime sum = 0, at = 0;
        for (int s = 0; s < ECH_N_RANK_STATES; s++)
            sum += rank->times[s];
        ck_assert_int_eq(sum, runs[i]->makespan);
        for (size_t s = 0; s < rank->n_stretches; at = rank->stretches[s++].end)
            ck_assert_int_eq(rank->stretches[s].start, at);
        ck_assert_int_eq(at, runs[i]->makespan);
        near(rank->times[ECH_RANK_KERNELS], 1500 + 1000 * (EchTime)i, 2);
        near(rank->times[ECH_RANK_WAITS], 2000 - 1000 * (EchTime)i, 2);
    }
    check_drawn(ranks, 100);
    check_drawn(ranks, 1);
    check_drawn(ranks, 2);
    size_t n_shares;
    EchShare *shares = ech_report_critical_path(&reports[0], &n_shares);
    EchTime all = 0, waited = 0;
    for (size_t i = 0; i < n_shares; i++) {
        all += shares[i].time;
        waited += strcmp(shares[i].name, "waiting for other devices") == 0 ? shares[i].time : 0;
    }
    ech_shares_free(shares, n_shares);
    ck_assert_int_eq(all, runs[0]->makespan);
    near(waited, 2000, 2);
    EchRankSlowest slowest;
    ck_assert(ech_ranks_slowest(ranks, &slowest));
    ck_assert(slowest.rank == 2 && strcmp(slowest.name, "kernel") == 0);
    near(slowest.waited, 3000, 3);
    near(slowest.own, 3500, 2);
    near(slowest.others, 1500, 2); /* of an even number the lesser of the middle ones */
    free_runs(runs, 3);
    for (size_t i = 0; i < 3; i++)
        ech_trace_unref(traces[i]);
}
END_TEST

/* A collective of three begins on each when the last has come. */
START_TEST(collectives_begin_together)
{
    EchTrace *traces[3];
    EchRun *runs[3];
    for (size_t i = 0; i < 3; i++) {
        Rank r = rank_new();
        EchId before = add_kernel(&r, 1000 * (EchTime)(i + 1), ECH_NONE);
        add_collective(&r, r.messages[0], ECH_COLLECTIVE_BROADCAST, 10, "devices=3 stride=1 meets=ab/0", before);
        traces[i] = finish(&r);
    }
    must_replay(traces, 3, runs);
    for (size_t i = 0; i < 3; i++) {
        near(runs[i]->waits[ECH_WAIT_PEERS], 2000 - 1000 * (EchTime)i, 2);
        near(runs[i]->makespan, runs[2]->makespan, 2);
    }
    free_runs(runs, 3);
}
END_TEST

/* Until the channel's buffer is full: the third message of 100 bytes does not fit 250. */
START_TEST(buffered_messages_are_sent_ahead)
{
    Rank a = rank_new(), b = rank_new();
    for (int i = 0; i < 3; i++)
        add_message(&a, true, 7, 250, 100, ECH_NONE);
    EchId late = add_kernel(&b, 50000, ECH_NONE);
    for (int i = 0; i < 3; i++)
        late = add_message(&b, false, 7, 0, 100, late);
    EchTrace *traces[] = {finish(&a), finish(&b)};
    EchRun *runs[2];
    must_replay(traces, 2, runs);
    ck_assert_uint_eq(runs[0]->n_spans, 3);
    near(runs[0]->spans[1].end, 200, 4);
    near(runs[0]->spans[2].start, 50200, 6); /* its receiver comes to it after the two before */
    free_runs(runs, 2);
}
END_TEST

/* An exchange waits for both ways at once; one after the other, each side would wait for the other's second. */
START_TEST(an_exchange_meets_both_ways)
{
    static const struct {
        const char *first[2], *second[2]; /* words of the two ops of each rank, or one */
        bool ends;
    } cases[] = {{{"meets=1/0>0,2/0", "meets=1/0,2/0>0"}, {NULL, NULL}, true}, {{"meets=1/0>0", "meets=2/0>0"}, {"meets=2/0", "meets=1/0"}, false}};
    EchTrace *traces[2];
    EchRun *runs[2];
    for (size_t i = 0; i < 2; i++) {
        Rank r = rank_new();
        add_collective(&r, r.messages[0], ECH_COLLECTIVE_PERMUTE, 10, cases[_i].first[i], ECH_NONE);
        if (cases[_i].second[i])
            add_collective(&r, r.messages[0], ECH_COLLECTIVE_RECV, 10, cases[_i].second[i], ECH_NONE);
        traces[i] = finish(&r);
    }
    g_autoptr(GError) error = NULL;
    ck_assert_int_eq(replay(traces, 2, runs, &error), cases[_i].ends);
    if (cases[_i].ends)
        free_runs(runs, 2);
    else
        ck_assert_msg(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED) && strstr(error->message, "waits in turn"), "%s", error->message);
}
END_TEST

/* Nobody waits for ranks that are not given, for words that nobody else has, or for a rank that has run out of memory. */
START_TEST(who_is_not_there_is_not_waited_for)
{
    Rank a = rank_new(), b = rank_new();
    add_collective(&a, a.messages[0], ECH_COLLECTIVE_ALL_REDUCE, 10, "devices=2 stride=1 meets=5/0", ECH_NONE);
    add_collective(&a, a.messages[0], ECH_COLLECTIVE_ALL_REDUCE, 10, "devices=2 stride=1", ECH_NONE);
    EchId before = add_message(&a, false, 7, 0, 10, ECH_NONE);
    add_kernel(&a, 20, before);
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(b.b, "large", -1);
    buffer.memory = 0;
    buffer.bytes = 2000;
    EchOp op = ech_op_init(ECH_OP_ALLOC);
    op.name = buffer.name;
    op.queue = b.work;
    op.target = ech_trace_builder_buffer(b.b, buffer);
    EchId alloc = ech_trace_builder_op(b.b, op);
    add_message(&b, true, 7, 0, 10, alloc);
    EchTrace *traces[] = {finish(&a), finish(&b)};
    EchRun *runs[2];
    must_replay(traces, 2, runs);
    ck_assert(runs[0]->fits && runs[0]->completed && !runs[1]->fits && !runs[1]->completed);
    ck_assert_uint_eq(ech_diag_count(runs[0]->diag, "collectives_of_absent_ranks"), 1);
    ck_assert_uint_eq(ech_diag_count(runs[0]->diag, "collectives_that_say_nobody"), 1);
    ck_assert_int_eq(runs[0]->waits[ECH_WAIT_PEERS], 0);
    free_runs(runs, 2);
}
END_TEST

/* One rank together with nobody is that rank. */
START_TEST(one_rank_is_the_run)
{
    g_autoptr(EchImport) import = ech_test_import(ECH_SOURCE_DIR "/traces/gpt_pytorch.h100/gpt.pretend.gz", NULL);
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    const EchReplayRank rank = {.trace = import->trace, .device = device, .options = &options};
    g_autoptr(EchRun) alone = ech_test_replay(import->trace, device);
    EchRun *together;
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_replay_run_together(&rank, 1, &together, &error), error);
    ck_assert_int_eq(together->makespan, alone->makespan);
    ck_assert_uint_eq(together->n_spans, alone->n_spans);
    ck_assert_int_eq(together->serial, alone->serial);
    ech_run_free(together);
    ech_params_clear(ech_replay_params, &options);
}
END_TEST

/* Said where no rank says whom it meets, and only there; of one rank nothing is to be said. */
START_TEST(ranks_that_say_nobody_are_told_so)
{
    for (size_t i = 0; i < 3; i++) {
        Rank a = rank_new(), b = rank_new();
        add_collective(&a, a.messages[0], ECH_COLLECTIVE_ALL_REDUCE, 10, i == 1 ? "devices=2 stride=1 meets=5/0" : "devices=2 stride=1", ECH_NONE);
        add_collective(&b, b.messages[0], ECH_COLLECTIVE_ALL_REDUCE, 10, i == 1 ? "devices=2 stride=1 meets=5/0" : "devices=2 stride=1", ECH_NONE);
        EchTrace *traces[] = {finish(&a), finish(&b)};
        EchRun *runs[2];
        size_t n = i == 2 ? 1 : 2, said = 0;
        must_replay(traces, n, runs);
        for (size_t r = 0; r < n; r++)
            said += ech_test_says(runs[r]->diag, "each is replayed by itself");
        ck_assert_uint_eq(said, i == 0 ? 2 : 0);
        free_runs(runs, n);
        if (n == 1)
            ech_trace_unref(traces[1]);
    }
}
END_TEST

/* A host's wait that meets @words: of what hangs on nothing else. */
static EchId add_host(Rank *r, EchId queue, const char *words, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_WAIT);
    op.name = ech_trace_builder_string(r->b, "barrier", -1);
    op.queue = queue;
    op.launch = ech_trace_builder_string(r->b, words, -1);
    EchId id = ech_trace_builder_op(r->b, op);
    if (after != ECH_NONE)
        ech_trace_builder_dep(r->b, after, 0);
    return id;
}

/* Two hosts hear what a third tells, each when it comes to it: neither waits for the other, and the third for nobody. What nobody tells nobody waits for. */
START_TEST(hosts_wait_for_who_tells)
{
    EchTrace *traces[3];
    EchRun *runs[3];
    static const EchTime comes[] = {3000, 1000, 9000}, goes[] = {3000, 3000, 9000};
    for (size_t i = 0; i < 3; i++) {
        Rank r = rank_new();
        EchId host = ech_trace_builder_queue(r.b, "host", ECH_QUEUE_HOST, 0);
        EchId kernel = add_kernel(&r, comes[i], ECH_NONE);
        EchId met = add_host(&r, host, i == 0 ? "meets=ab/0>1" : "meets=ab/0<", kernel);
        met = add_host(&r, host, "meets=cd/0<", met);
        add_kernel(&r, 500, met);
        traces[i] = finish(&r);
    }
    must_replay(traces, 3, runs);
    for (size_t i = 0; i < 3; i++) {
        near(runs[i]->waits[ECH_WAIT_PEERS], goes[i] - comes[i], 2);
        near(runs[i]->makespan, goes[i] + 500, 3);
    }
    ck_assert_uint_eq(ech_diag_count(runs[0]->diag, "collectives_of_absent_ranks"), 1);
    free_runs(runs, 3);
}
END_TEST

/* A barrier among hosts is what each tells and hears: all go on when the last has come. */
START_TEST(hosts_meet_at_a_barrier)
{
    EchTrace *traces[3];
    EchRun *runs[3];
    for (size_t i = 0; i < 3; i++) {
        Rank r = rank_new();
        EchId host = ech_trace_builder_queue(r.b, "host", ECH_QUEUE_HOST, 0);
        EchId met = add_host(&r, host, "meets=ab/0>1", add_kernel(&r, 1000 * (EchTime)(i + 1), ECH_NONE));
        add_kernel(&r, 500, add_host(&r, host, "meets=ab/0<", met));
        traces[i] = finish(&r);
    }
    must_replay(traces, 3, runs);
    for (size_t i = 0; i < 3; i++) {
        near(runs[i]->waits[ECH_WAIT_PEERS], 2000 - 1000 * (EchTime)i, 2);
        near(runs[i]->makespan, 3500, 3);
    }
    free_runs(runs, 3);
}
END_TEST

START_TEST(loops_meet_nobody)
{
    Rank r = rank_new();
    EchOp op = ech_op_init(ECH_OP_LOOP);
    op.queue = r.work;
    op.target = 1;
    op.bytes = 3;
    ech_trace_builder_op(r.b, op);
    add_kernel(&r, 10, ECH_NONE);
    if (_i)
        add_message(&r, true, 1, 0, 1, ECH_NONE);
    EchTrace *trace = finish(&r);
    EchRun *run;
    g_autoptr(GError) error = NULL;
    ck_assert(replay(&trace, 1, &run, &error) == !_i);
    if (_i) {
        ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
        return;
    }
    near(run->makespan, 30, 2);
    free_runs(&run, 1);
}
END_TEST

START_TEST(words)
{
    g_autoptr(GString) out = g_string_new("devices=2 stride=1 ");
    ech_meets_print(out, (EchMeeting){.group = 0x4be1, .times = 12});
    ech_meets_print(out, (EchMeeting){.group = UINT64_MAX, .times = 0, .sends = true, .buffer = 8388608});
    ech_meets_print(out, (EchMeeting){.group = 0x5, .hears = true});
    ck_assert_str_eq(out->str, "devices=2 stride=1 meets=4be1/12,ffffffffffffffff/0>8388608,5/0<");
    const char *at = ech_meets_of(out->str);
    EchMeeting meeting;
    ck_assert(ech_meets_next(&at, &meeting) && meeting.group == 0x4be1 && meeting.times == 12 && !meeting.sends);
    ck_assert(ech_meets_next(&at, &meeting) && meeting.group == UINT64_MAX && meeting.sends && meeting.buffer == 8388608);
    ck_assert(ech_meets_next(&at, &meeting) && meeting.group == 5 && meeting.hears && !meeting.sends && meeting.buffer == 0);
    ck_assert(!ech_meets_next(&at, &meeting));
    g_autofree char *again = ech_meets_again(out->str), *plain = ech_meets_again("devices=2");
    ck_assert_str_eq(again, "devices=2 stride=1 meets=8000000000004be1/12,7fffffffffffffff/0>8388608,8000000000000005/0<");
    ck_assert_str_eq(plain, "devices=2");
    static const char *const broken[] = {"devices=2", "meets=", "meets=xy/1", "meets=12", "meets=12/", "meets=12/3>"};
    for (size_t i = 0; i < G_N_ELEMENTS(broken); i++) {
        at = ech_meets_of(broken[i]);
        ck_assert_msg(!ech_meets_next(&at, &meeting), "%s", broken[i]);
    }
}
END_TEST

/* Collectives of group 1, of so many bytes and such recorded times; the trace is the caller's. */
static EchTrace *recorded(const EchBytes *bytes, const EchTime *times, size_t n)
{
    Rank r = rank_new();
    ech_trace_builder_set_property(r.b, ECH_TRACE_MEETS_COUNTED, "1");
    for (size_t i = 0; i < n; i++) {
        g_autofree char *meets = g_strdup_printf("meets=1/%zu", i);
        EchOp *op = ech_trace_builder_peek_op(r.b, add_collective(&r, r.messages[0], ECH_COLLECTIVE_ALL_REDUCE, bytes[i], meets, ECH_NONE));
        op->memory_from = 0;
        op->recorded.duration = times[i];
    }
    return finish(&r);
}

/* A recorded collective takes as long as with who came last; a recording that begins later is brought to meet the same. */
START_TEST(recorded_collectives_meet)
{
    static const EchBytes bytes[] = {100, 200, 300, 100, 200, 300};
    static const EchTime first[] = {50, 10, 10, 10, 10, 10}, second[] = {10, 10, 70, 10, 10};
    static const char *const met[] = {"meets=1/1", "meets=1/2", "meets=1/3", "meets=1/4", "meets=1/5"};
    for (int whole = 0; whole < 2; whole++) { /* the second has not recorded the first collective, or not the last */
        EchTrace *traces[] = {recorded(bytes, first, 6), recorded(bytes + (whole ? 0 : 1), second, 5)};
        uint64_t settled = 0;
        g_autoptr(GError) error = NULL;
        ck_assert_ok(ech_meets_join(traces, 2, &settled, &error), error);
        ck_assert_uint_eq(settled, whole ? 2 : 1);
        for (size_t i = 0; i < 5; i++) {
            const EchOp *op = &ech_trace_ops(traces[1])[i];
            ck_assert_str_eq(ech_trace_string(traces[1], op->launch), whole ? (i ? met[i - 1] : "meets=1/0") : met[i]);
            ck_assert_int_eq(op->recorded.duration, 10);
            ck_assert_uint_eq(op->memory_from, 2);
        }
        ck_assert_int_eq(ech_trace_ops(traces[0])[0].recorded.duration, whole ? 10 : 50); /* nobody else's */
        ck_assert_uint_eq(ech_trace_ops(traces[0])[0].memory_from, whole ? 2 : 0);
        ech_trace_unref(traces[0]);
        ech_trace_unref(traces[1]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("together");
    TCase *cases = tcase_create("together");
    tcase_add_loop_test(cases, the_bubble_of_equal_stages, 0, 10);
    tcase_add_test(cases, what_is_received_waits_for_what_is_sent);
    tcase_add_test(cases, who_waits_for_whom);
    tcase_add_test(cases, collectives_begin_together);
    tcase_add_test(cases, buffered_messages_are_sent_ahead);
    tcase_add_loop_test(cases, an_exchange_meets_both_ways, 0, 2);
    tcase_add_test(cases, who_is_not_there_is_not_waited_for);
    tcase_add_test(cases, one_rank_is_the_run);
    tcase_add_test(cases, hosts_wait_for_who_tells);
    tcase_add_test(cases, ranks_that_say_nobody_are_told_so);
    tcase_add_test(cases, hosts_meet_at_a_barrier);
    tcase_add_loop_test(cases, loops_meet_nobody, 0, 2);
    tcase_add_test(cases, words);
    tcase_add_test(cases, recorded_collectives_meet);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
