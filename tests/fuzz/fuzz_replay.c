/* Traces made of the input's bytes (loops in loops, buffers that turn over, copies, collectives, dependencies on iterations before), replayed on a small
 * device: no sooner than the bounds say and no later, the same where steady iterations are run one by one, the same again, and what the report tells of it adds
 * up. */
#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/report/report.h"
#include "sim/report/timeline.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_DEPTH = 3, MAX_OPS = 60, MAX_BUFFERS = 16, N_QUEUES = 5, HBM = 0, HOST = 1 };

static const char device_text[] = "name: small\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8MB, read: 100GB/s, write: 80GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 9GB/s, both_ways: 15GB/s, setup: 2us}\n"
                                  "  peers: {from: hbm, to: hbm, to_device: 20GB/s, from_device: 20GB/s, latency: 1us}\n"
                                  "units:\n  matrix: {peaks: {bf16: 100GFLOP/s}}\n  vector: {peaks: {f32: 10GFLOP/s}}\n"
                                  "runtime: {launch_ps: 3000000}\n";

typedef struct {
    const uint8_t *at, *end;
    EchTraceBuilder *b;
    EchId queues[N_QUEUES];
    EchBytes bytes[MAX_BUFFERS];
    bool live[MAX_BUFFERS];
    unsigned n_ops, n_events;
} Maker;

static unsigned take(Maker *m, unsigned below)
{
    return m->at < m->end ? *m->at++ % below : 0;
}

static EchId add(Maker *m, EchOpKind kind, unsigned queue)
{
    EchOp op = ech_op_init(kind);
    g_autofree char *name = g_strdup_printf("op %u", m->n_ops++ % 9);
    op.name = ech_trace_builder_string(m->b, name, -1);
    op.queue = m->queues[queue];
    return ech_trace_builder_op(m->b, op);
}

/* Of ops [first, now) of this body. */
static void depend(Maker *m, EchId first, bool carried)
{
    EchId now = (EchId)ech_trace_builder_n_ops(m->b) - 1;
    unsigned n = take(m, 3);
    for (unsigned i = 0; i < n && now > first; i++) {
        EchId on = first + take(m, MIN(now - first, 255));
        for (EchId k = first; k <= on; k++) { /* what lies in a loop is its */
            const EchOp *op = ech_trace_builder_peek_op(m->b, k);
            if (op->kind == ECH_OP_LOOP && op->target != ECH_NONE && on > k && on <= k + op->target)
                on = k;
        }
        ech_trace_builder_dep(m->b, on, carried && take(m, 4) == 0 ? 1 + take(m, 3) : 0);
    }
}

static void use(Maker *m, unsigned most)
{
    unsigned n = take(m, most + 1);
    for (unsigned i = 0; i < n; i++) {
        unsigned buffer = take(m, MAX_BUFFERS);
        if (m->live[buffer])
            ech_trace_builder_use(m->b, buffer, take(m, 2) ? ECH_WRITE : ECH_READ, m->bytes[buffer], ECH_PATTERN_STREAM, ECH_KNOWN);
    }
}

static void copy(Maker *m)
{
    bool in = take(m, 2);
    EchOp *op = ech_trace_builder_peek_op(m->b, add(m, ECH_OP_COPY, in ? 1 : 2));
    op->memory_from = in ? HOST : HBM;
    op->memory_to = in ? HBM : HOST;
    op->bytes = (EchBytes)take(m, 200) * 10000;
}

static void kernel(Maker *m)
{
    EchOp *op = ech_trace_builder_peek_op(m->b, add(m, ECH_OP_KERNEL, take(m, 3) ? 0 : 4));
    unsigned how = take(m, 4);
    if (how == 1)
        op->recorded.duration = (EchTime)take(m, 200) * 777777;
    else if (how == 2)
        ech_trace_builder_work(m->b, take(m, 2) ? ECH_WORK_MATRIX : ECH_WORK_VECTOR, ECH_DTYPE_F32, (uint64_t)take(m, 200) * 1000, ECH_KNOWN);
    use(m, 3);
}

static void collective(Maker *m)
{
    EchOp *op = ech_trace_builder_peek_op(m->b, add(m, ECH_OP_COLLECTIVE, 3));
    op->collective = (uint8_t)(1 + take(m, ECH_N_COLLECTIVES - 1));
    op->memory_from = 2 + take(m, 3);
    op->bytes = (EchBytes)take(m, 200) * 10000;
}

/* Lets one of the buffers begin or end; @queue does. */
static void turn(Maker *m, unsigned buffer, unsigned queue)
{
    EchOp *op = ech_trace_builder_peek_op(m->b, add(m, m->live[buffer] ? ECH_OP_FREE : ECH_OP_ALLOC, queue));
    op->target = buffer;
    op->bytes = m->bytes[buffer];
    m->live[buffer] = !m->live[buffer];
}

static void body(Maker *m, unsigned depth, EchId first)
{
    bool before[MAX_BUFFERS];
    memcpy(before, m->live, sizeof before);
    unsigned n = 1 + take(m, 8);
    for (unsigned i = 0; i < n && m->n_ops < MAX_OPS; i++) {
        switch (take(m, 8)) {
        case 0:
        case 1: kernel(m); break;
        case 2: copy(m); break;
        case 3: collective(m); break;
        case 4:
        case 5: turn(m, take(m, MAX_BUFFERS), take(m, 8) ? 0 : 4); break;
        case 6:
            if (depth < MAX_DEPTH) {
                EchId loop = add(m, ECH_OP_LOOP, take(m, 8) ? 0 : 4);
                ech_trace_builder_peek_op(m->b, loop)->bytes = take(m, 64);
                ech_trace_builder_peek_op(m->b, loop)->bytes_origin = ECH_KNOWN;
                depend(m, first, false);
                body(m, depth + 1, loop + 1);
                ech_trace_builder_peek_op(m->b, loop)->target = (EchId)ech_trace_builder_n_ops(m->b) - loop - 1;
                continue;
            }
            break;
        default: add(m, ECH_OP_WAIT, take(m, N_QUEUES)); break;
        }
        depend(m, first, depth > 0);
    }
    for (unsigned k = 0; k < MAX_BUFFERS && depth > 0; k++)
        if (m->live[k] != before[k])
            turn(m, k, 0);
}

static EchTrace *make(const uint8_t *data, size_t size)
{
    Maker m = {.at = data, .end = data + size, .b = ech_trace_builder_new("fuzz")};
    (void)ech_trace_builder_memory(m.b, "hbm");
    (void)ech_trace_builder_memory(m.b, "host");
    static const EchQueueKind kinds[N_QUEUES] = {ECH_QUEUE_COMPUTE, ECH_QUEUE_COPY, ECH_QUEUE_COPY, ECH_QUEUE_COLLECTIVE, ECH_QUEUE_COMPUTE};
    static const char *const names[N_QUEUES] = {"core", "in", "out", "peers", "second"};
    for (unsigned q = 0; q < N_QUEUES; q++)
        m.queues[q] = ech_trace_builder_queue(m.b, names[q], kinds[q], 0);
    for (unsigned k = 0; k < MAX_BUFFERS; k++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.memory = k < 3 * MAX_BUFFERS / 4 ? HBM : HOST;
        buffer.bytes = m.bytes[k] = (EchBytes)take(&m, 200) * 5000;
        buffer.resident = m.live[k] = take(&m, 4) == 0;
        buffer.name = ech_trace_builder_string(m.b, names[k % N_QUEUES], -1);
        (void)ech_trace_builder_buffer(m.b, buffer);
    }
    while (m.at < m.end && m.n_ops < MAX_OPS)
        body(&m, 0, 0);
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(m.b, &error);
    if (!trace && !g_error_matches(error, ECH_ERROR, ECH_ERROR_VERIFY)) /* what depends on an iteration before may name a loop's own */
        abort();
    ech_trace_builder_free(m.b);
    return trace;
}

static EchRun *replay(const EchTrace *trace, const EchDevice *device, bool skip, bool keep_going)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.skip_steady = skip;
    options.keep_going = keep_going;
    options.max_ops = 20000;
    g_autoptr(GError) error = NULL;
    EchRun *run = ech_replay_run(trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    g_assert((run != NULL) == (error == NULL));
    return run;
}

static bool near(double a, double b, double slack)
{
    return ABS(a - b) <= slack + 1e-9 * ABS(b);
}

/* Of two runs of one trace. */
static void check_alike(const EchRun *a, const EchRun *b)
{
    double slack = 4 * (double)b->ops + 10;
    g_assert_cmpuint(a->ops, ==, b->ops);
    g_assert_cmpint(a->fits, ==, b->fits);
    g_assert_true(near((double)a->makespan, (double)b->makespan, slack));
    for (size_t i = 0; i < a->n_memories; i++) {
        g_assert_cmpuint(a->memories[i].peak_live, ==, b->memories[i].peak_live);
        g_assert_cmpuint(a->memories[i].end_live, ==, b->memories[i].end_live);
        g_assert_cmpuint(a->memories[i].allocs, ==, b->memories[i].allocs);
        g_assert_cmpuint(a->memories[i].frees, ==, b->memories[i].frees);
        g_assert_cmpuint(a->memories[i].read, ==, b->memories[i].read);
        g_assert_cmpuint(a->memories[i].written, ==, b->memories[i].written);
    }
    for (size_t i = 0; i < a->n_links; i++) {
        g_assert_cmpuint(a->links[i].forward, ==, b->links[i].forward);
        g_assert_cmpuint(a->links[i].backward, ==, b->links[i].backward);
        g_assert_cmpuint(a->links[i].transfers, ==, b->links[i].transfers);
        g_assert_true(near((double)a->links[i].busy, (double)b->links[i].busy, slack));
    }
    for (int w = 0; w < ECH_N_WAITS; w++)
        g_assert_true(near((double)a->waits[w], (double)b->waits[w], 4 * slack + 1e-6 * (double)b->makespan));
    for (size_t q = 0; q < a->n_queues; q++)
        g_assert_true(near((double)a->queues[q].busy, (double)b->queues[q].busy, slack));
}

static void check_report(const EchTrace *trace, const EchDevice *device, const EchRun *run)
{
    EchReport report = {.title = "t", .trace_path = "t.ech", .format = "fuzz", .trace = trace, .device = device, .run = run};
    size_t n;
    EchShare *shares = ech_report_critical_path(&report, &n);
    EchTime sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += shares[i].time;
    ech_shares_free(shares, n);
    g_assert_cmpint(sum, ==, run->makespan);
    g_autoptr(GString) summary = ech_report_summary(&report, 100);
    JsonNode *json = ech_report_json(&report);
    json_node_unref(json);
    g_autoptr(GString) chrome = ech_report_chrome(&report), details = ech_report_details(&report, 100);
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(&report), pprof = ech_report_pprof(&report, ECH_PPROF_TIME);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EchDevice *device;
    if (!device) {
        g_autoptr(EchYamlNode) root = ech_yaml_parse(device_text, strlen(device_text), "device", NULL);
        device = root ? ech_device_from_yaml(root, NULL) : NULL;
        g_assert(device);
    }
    bool keep_going = size > 0 && data[size - 1] & 1;
    g_autoptr(EchTrace) trace = make(data, size);
    if (!trace)
        return 0;
    g_autoptr(EchRun) run = replay(trace, device, true, keep_going), again = replay(trace, device, true, keep_going),
                      each = replay(trace, device, false, keep_going);
    g_assert((run != NULL) == (again != NULL));
    if (!run)
        return 0;
    g_assert_cmpint(run->makespan, ==, again->makespan);
    if (run->completed && run->fits) {
        g_assert_cmpint(run->makespan, >=, run->lower_bound - (EchTime)run->ops - 1);
        g_assert_cmpint(run->makespan, <=, ech_time_add(run->serial, (EchTime)run->ops + 1));
    }
    check_report(trace, device, run);
    if (each)
        check_alike(run, each);
    return 0;
}
