/* The replay: closed forms on hand-made traces and devices, both engines; loops, space, waits, what does not fit. */
#include "sim/replay/replay.h"

#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/replay/price.h"
#include "sim/trace/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KB UINT64_C(1000)
#define MB UINT64_C(1000000)
#define GB UINT64_C(1000000000)

static const EchEngine engines[] = {ECH_ENGINE_NATIVE, ECH_ENGINE_SIMGRID};

/* hbm 1 TB/s, 100 MB; host; a link of 100 GB/s each way; a matrix unit of 1 TFLOP/s. */
static EchDevice *make_device(EchRate both_ways)
{
    EchDevice *device = ech_device_new();
    device->name = g_strdup("test");
    device->summary = g_strdup("");
    device->family = g_strdup("gpu");
    device->compiler = g_strdup("");
    device->cores = 1;
    device->n_memories = 2;
    device->memories = g_new0(EchMemory, 2);
    device->memories[0] = (EchMemory){
        .name = g_strdup("hbm"), .kind = ECH_MEM_HBM, .capacity = 100 * MB, .available = 100 * MB, .read = 1000 * GB, .write = 1000 * GB, .both = 1000 * GB};
    device->memories[1] = (EchMemory){.name = g_strdup("host"), .kind = ECH_MEM_HOST_PINNED, .space = 5, .capacity = 1000 * GB, .available = 1000 * GB};
    device->n_links = 1;
    device->links = g_new0(EchLink, 1);
    device->links[0] = (EchLink){.name = g_strdup("host"),
                                 .from = 1,
                                 .to = 0,
                                 .nominal = 100 * GB,
                                 .to_device = 100 * GB,
                                 .from_device = 100 * GB,
                                 .both_ways = both_ways,
                                 .engines_to = 1,
                                 .engines_from = 1,
                                 .ports = 1};
    device->n_units = 1;
    device->units = g_new0(EchUnit, 1);
    device->units[0] = (EchUnit){.name = g_strdup("matrix"), .kind = ECH_UNIT_MATRIX, .count = 1, .n_peaks = 1, .peaks = g_new0(EchPeak, 1)};
    device->units[0].peaks[0] = (EchPeak){.dtype = g_strdup("bf16"), .ops = 1000 * GB};
    return device;
}

/* The same with an hbm of twice the rate. */
static EchDevice *make_fast_device(void)
{
    EchDevice *device = make_device(0);
    device->memories[0].read *= 2;
    device->memories[0].write *= 2;
    device->memories[0].both *= 2;
    device->hash = 1;
    return device;
}

static void add_number(EchDevice *device, const char *path, double value)
{
    device->numbers = g_renew(EchDeviceNumber, device->numbers, device->n_numbers + 1);
    device->numbers[device->n_numbers++] = (EchDeviceNumber){.path = g_strdup(path), .value = value, .source = g_strdup("test")};
}

/* The same whose queues learn of each other's ends so much later. */
static void add_waits(EchDevice *device, double kernel_ps, double copy_ps)
{
    add_number(device, "runtime.wait_ps", kernel_ps);
    add_number(device, "runtime.wait_copy_ps", copy_ps);
}

typedef struct {
    EchTraceBuilder *b;
    EchId hbm, host, core, in, out;
} Maker;

static Maker maker_new(void)
{
    Maker m = {.b = ech_trace_builder_new("test")};
    m.hbm = ech_trace_builder_memory(m.b, "hbm");
    m.host = ech_trace_builder_memory(m.b, "host");
    m.core = ech_trace_builder_queue(m.b, "core", ECH_QUEUE_COMPUTE, 0);
    m.in = ech_trace_builder_queue(m.b, "dma in", ECH_QUEUE_COPY, 0);
    m.out = ech_trace_builder_queue(m.b, "dma out", ECH_QUEUE_COPY, 0);
    return m;
}

static EchId add_op(Maker *m, EchOpKind kind, EchId queue)
{
    EchOp op = ech_op_init(kind);
    op.name = ech_trace_builder_string(m->b, ech_op_kind_name(kind), -1);
    op.queue = queue;
    return ech_trace_builder_op(m->b, op);
}

static EchId add_kernel(Maker *m, EchId queue, uint64_t flops)
{
    EchId id = add_op(m, ECH_OP_KERNEL, queue);
    if (flops > 0)
        ech_trace_builder_work(m->b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, flops, ECH_KNOWN);
    return id;
}

static EchId add_copy(Maker *m, EchId queue, EchId from, EchId to, EchBytes bytes)
{
    EchId id = add_op(m, ECH_OP_COPY, queue);
    EchOp *op = ech_trace_builder_peek_op(m->b, id);
    op->memory_from = from;
    op->memory_to = to;
    op->bytes = bytes;
    op->bytes_origin = ECH_KNOWN;
    return id;
}

static EchId add_buffer(Maker *m, EchId memory, EchBytes bytes, bool resident)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(m->b, "buffer", -1);
    buffer.memory = memory;
    buffer.bytes = bytes;
    buffer.resident = resident;
    return ech_trace_builder_buffer(m->b, buffer);
}

static EchId add_target(Maker *m, EchOpKind kind, EchId queue, EchId target)
{
    EchId id = add_op(m, kind, queue);
    ech_trace_builder_peek_op(m->b, id)->target = target;
    return id;
}

static EchId add_loop(Maker *m, EchId queue, uint32_t body, uint64_t trips)
{
    EchId id = add_target(m, ECH_OP_LOOP, queue, body);
    ech_trace_builder_peek_op(m->b, id)->bytes = trips;
    ech_trace_builder_peek_op(m->b, id)->bytes_origin = ECH_KNOWN;
    return id;
}

static EchTrace *finish(Maker *m)
{
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(m->b, &error);
    ck_assert_ok(trace != NULL, error);
    ech_trace_builder_free(m->b);
    return trace;
}

static EchReplayOptions default_options(EchEngine engine)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = engine;
    return options;
}

static EchRun *replay(const EchTrace *trace, const EchDevice *device, EchReplayOptions options)
{
    g_autoptr(GError) error = NULL;
    EchRun *run = ech_replay_run(trace, device, NULL, &options, &error);
    ck_assert_ok(run != NULL, error);
    bool gave_up = ech_test_says(run->diag, "SimGrid's solver gave up");
    ck_assert_str_eq(run->provenance.engine, options.engine == ECH_ENGINE_SIMGRID && !gave_up ? "simgrid" : "native");
    ech_params_clear(ech_replay_params, &options);
    /* Holds for every complete run. */
    if (run->completed) {
        EchTime slack = 1 + (EchTime)run->ops;
        ck_assert_int_le(run->lower_bound, run->makespan + slack);
        ck_assert_int_le(run->makespan, run->serial + slack);
    }
    return run;
}

/* By the native engine; @skip: a loop's steady state is skipped. */
static EchRun *replay_skipping(const EchTrace *trace, const EchDevice *device, bool skip)
{
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    options.skip_steady = skip;
    return replay(trace, device, options);
}

static bool have(EchEngine engine)
{
    g_autoptr(GError) error = NULL;
    if (engine != ECH_ENGINE_SIMGRID || ech_simgrid_module(&error))
        return true;
    printf("skipped on simgrid: %s\n", error->message);
    return false;
}

static void near(EchTime got, EchTime want, uint64_t ops, EchEngine engine)
{
    EchTime slack = engine == ECH_ENGINE_SIMGRID ? want / 1000000000 + 1 : (EchTime)(ops / 10000) + 1;
    ck_assert_msg(llabs(got - want) <= slack, "got %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT, got, want);
}

/* A WAIT ends when the newest SIGNAL of its event before it has: not with what its queue does after that, nor with the one before. */
START_TEST(events_release_those_who_wait)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    for (unsigned k = 1; k <= 2; k++) {
        add_kernel(&m, m.core, k * 5 * MB);
        add_target(&m, ECH_OP_SIGNAL, m.core, 4);
        add_target(&m, ECH_OP_SIGNAL, m.core, 3);
    }
    add_kernel(&m, m.core, 60 * MB);
    add_target(&m, ECH_OP_WAIT, m.in, 3); /* from 15 us on */
    EchId copy = add_copy(&m, m.in, m.host, m.hbm, MB);
    add_target(&m, ECH_OP_SIGNAL, m.core, 3);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    bool seen = false;
    for (size_t i = 0; i < run->n_spans; i++)
        if (run->spans[i].op == copy) {
            near(run->spans[i].start, 15 * ECH_PS_PER_US, 9, engine);
            seen = true;
        }
    ck_assert(seen);
    near(run->makespan, 75 * ECH_PS_PER_US, 9, engine);
    near(run->waits[ECH_WAIT_DEPENDENCY], 15 * ECH_PS_PER_US, 9, engine);
}
END_TEST

/* What a kernel reads of the host's memory comes over the link, what it writes there goes out over it. */
START_TEST(kernels_reach_the_host_over_its_link)
{
    for (int writes = 0; writes < 2; writes++) {
        Maker m = maker_new();
        EchId there = add_buffer(&m, m.host, 30 * MB, true);
        add_kernel(&m, m.core, 1000);
        ech_trace_builder_use(m.b, there, writes ? ECH_WRITE : ECH_READ, 10 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        device->links[0].from_device = 50 * GB;
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        near(run->makespan, (writes ? 200 : 100) * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
        ck_assert_uint_eq(run->links[0].forward, writes ? 0 : 10 * MB);
        ck_assert_uint_eq(run->links[0].backward, writes ? 10 * MB : 0);
        ck_assert_double_eq_tol(run->links[0].utilisation, writes ? 1.0 / 3 : 2.0 / 3, 1e-6);
        ck_assert_int_eq(run->links[0].busy_forward, writes ? 0 : 100 * ECH_PS_PER_US);
        ck_assert_int_eq(run->links[0].busy_backward, writes ? 200 * ECH_PS_PER_US : 0);
        ck_assert_int_eq(run->links[0].busy, (writes ? 200 : 100) * ECH_PS_PER_US);
    }
}
END_TEST

/* A second device whose memory a process only named is nothing to speak of; one that holds something is, and so is the first. */
START_TEST(memories_that_are_not_there)
{
    for (int held = 0; held < 3; held++) {
        Maker m = maker_new();
        EchId a = add_buffer(&m, m.hbm, MB, true), other = ech_trace_builder_memory(m.b, "hbm:1");
        if (held == 1)
            add_buffer(&m, other, MB, true);
        add_kernel(&m, m.core, MB);
        ech_trace_builder_use(m.b, a, ECH_READ, MB, ECH_PATTERN_STREAM, ECH_KNOWN);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        if (held == 2)
            device->memories[0].name[0] = 'H';
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        ck_assert(ech_test_says(run->diag, "has no memory 'hbm:1'") == (held == 1));
        ck_assert(ech_test_says(run->diag, "has no memory 'hbm':") == (held == 2));
    }
}
END_TEST

/* As many bytes as there are may live at once, and no more. */
START_TEST(memory_fills_to_its_last_byte)
{
    for (EchBytes i = 0; i < 4; i++) {
        EchBytes more = i % 2;
        Maker m = maker_new();
        EchId a = add_buffer(&m, m.hbm, 60 * MB, true), b = add_buffer(&m, m.hbm, 40 * MB + more, false);
        add_kernel(&m, m.core, MB);
        ech_trace_builder_use(m.b, a, ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
        add_target(&m, ECH_OP_ALLOC, m.core, b);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.allocator_on = i < 2; /* or by counting alone */
        g_autoptr(EchRun) run = replay(trace, device, options);
        ck_assert(run->fits == (more == 0));
        ck_assert_uint_eq(run->memories[0].peak_live, more ? 60 * MB : 100 * MB);
        ck_assert_uint_eq(run->memories[0].peak_reserved, run->memories[0].peak_live);
    }
}
END_TEST

/* Spans are kept up to the number that was asked for, and the others counted. What takes no time has none. */
START_TEST(spans_are_kept_up_to_a_number)
{
    for (uint64_t most = 2; most <= 4; most++) {
        Maker m = maker_new();
        EchId buffer = add_buffer(&m, m.hbm, MB, false);
        for (int i = 0; i < 3; i++) {
            add_target(&m, ECH_OP_ALLOC, m.core, buffer);
            add_kernel(&m, m.core, MB);
            add_target(&m, ECH_OP_FREE, m.core, buffer);
        }
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.max_spans = most;
        g_autoptr(EchRun) run = replay(trace, device, options);
        ck_assert_uint_eq(run->n_spans, MIN(most, 3));
        ck_assert_uint_eq(run->spans_left_out, 3 - MIN(most, 3));
    }
}
END_TEST

/* However few points of what lives when are kept, the fullest instant is one of them, and they end as the run does. */
START_TEST(few_points_keep_the_peak)
{
    const EchBytes mib = 1024 * 1024; /* as allocators round */
    for (unsigned fullest = 0; fullest < 80; fullest += 3) {
        Maker m = maker_new();
        add_buffer(&m, m.hbm, mib, true);
        for (unsigned i = 0; i < 40; i++) {
            EchId buffer = add_buffer(&m, m.hbm, (i == fullest % 40 ? 50 : 1 + i % 7) * mib, false);
            add_target(&m, ECH_OP_ALLOC, m.core, buffer);
            add_kernel(&m, m.core, MB);
            add_target(&m, ECH_OP_FREE, m.core, buffer);
            add_kernel(&m, m.core, MB);
        }
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.max_points = fullest < 40 ? 16 : 17;
        g_autoptr(EchRun) run = replay(trace, device, options);
        const EchMemoryRun *hbm = &run->memories[0];
        EchBytes most = 0;
        for (size_t i = 0; i < hbm->n_series; i++) {
            most = MAX(most, hbm->series[i].live);
            ck_assert(i == 0 || hbm->series[i].time >= hbm->series[i - 1].time);
        }
        ck_assert_uint_le(hbm->n_series, options.max_points);
        ck_assert_uint_eq(hbm->peak_live, 51 * mib);
        ck_assert_uint_eq(most, hbm->peak_live);
        ck_assert_uint_eq(hbm->series[hbm->n_series - 1].live, mib);
    }
}
END_TEST

/* A copy within the device is launched as a kernel is, one into another memory of it waits for that memory; neither where such times are left out. */
START_TEST(copies_inside_the_device)
{
    for (int i = 0; i < 4; i++) {
        Maker m = maker_new();
        add_copy(&m, m.core, m.hbm, i & 1 ? ech_trace_builder_memory(m.b, "beside") : m.hbm, 50 * MB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        device->memories = g_renew(EchMemory, device->memories, 3);
        device->memories[device->n_memories++] = (EchMemory){.name = g_strdup("beside"),
                                                             .kind = ECH_MEM_COMMON,
                                                             .capacity = 100 * MB,
                                                             .available = 100 * MB,
                                                             .read = 1000 * GB,
                                                             .write = 1000 * GB,
                                                             .both = 1000 * GB,
                                                             .latency = 3 * ECH_PS_PER_US};
        add_number(device, "runtime.launch_ps", 5.0 * ECH_PS_PER_US);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.overhead = i < 2;
        g_autoptr(EchRun) run = replay(trace, device, options);
        /* 50 us at each port; within one memory both go through the same. */
        near(run->makespan, ((i & 1 ? 50 : 100) + (i >= 2 ? 0 : i & 1 ? 3 : 5)) * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* Loops whose count nobody knows take the count that was asked for; those that tell theirs keep it. */
START_TEST(unknown_loops_take_the_count_asked_for)
{
    static const struct {
        EchOrigin origin;
        uint64_t asked, trips;
    } cases[] = {{ECH_ASSUMED, 7, 7}, {ECH_ASSUMED, 0, 3}, {ECH_KNOWN, 7, 3}, {ECH_INFERRED, 7, 3}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        Maker m = maker_new();
        EchId loop = add_loop(&m, m.core, 1, 3);
        ech_trace_builder_peek_op(m.b, loop)->bytes_origin = (uint8_t)cases[i].origin;
        add_kernel(&m, m.core, MB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.trips = cases[i].asked;
        g_autoptr(EchRun) run = replay(trace, device, options);
        near(run->makespan, (EchTime)cases[i].trips * ECH_PS_PER_US, 8, ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* An engine that comes free goes to the copy that waits, not to one that gets there in the same instant: of three of 10 us each at one engine, the second ends
 * at 20 us. */
START_TEST(engine_in_turn)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    add_kernel(&m, m.core, 10 * MB);
    add_copy(&m, m.in, m.host, m.hbm, MB);
    EchId second = add_copy(&m, m.out, m.host, m.hbm, MB);
    add_copy(&m, m.core, m.host, m.hbm, MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    near(run->makespan, 30 * ECH_PS_PER_US, 4, engine);
    near(run->waits[ECH_WAIT_LINK], 20 * ECH_PS_PER_US, 4, engine); /* 10 us each of the others */
    for (size_t i = 0; i < run->n_spans; i++)
        if (run->spans[i].op == second)
            near(run->spans[i].end, 20 * ECH_PS_PER_US, 4, engine);
}
END_TEST

/* What a rank sends goes out over its link, what it receives comes in. */
START_TEST(messages_have_directions)
{
    static const EchCollective ways[] = {ECH_COLLECTIVE_SEND, ECH_COLLECTIVE_RECV};
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        Maker m = maker_new();
        EchId op = add_op(&m, ECH_OP_COLLECTIVE, m.core);
        ech_trace_builder_peek_op(m.b, op)->collective = (uint8_t)ways[i];
        ech_trace_builder_peek_op(m.b, op)->memory_from = 2;
        ech_trace_builder_peek_op(m.b, op)->bytes = MB;
        ech_trace_builder_peek_op(m.b, op)->bytes_origin = ECH_KNOWN;
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        device->links[0].from = 0;
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        ck_assert_uint_eq(run->links[0].forward, i == 0 ? MB : 0);
        ck_assert_uint_eq(run->links[0].backward, i == 0 ? 0 : MB);
        ck_assert_int_eq(run->links[0].busy_forward, i == 0 ? run->makespan : 0);
        ck_assert_int_eq(run->links[0].busy_backward, i == 0 ? 0 : run->makespan);
    }
}
END_TEST

/* A link carries no more than its two directions do, whatever its both_ways says. */
START_TEST(link_in_full_use)
{
    Maker m = maker_new();
    add_copy(&m, m.in, m.host, m.hbm, MB);
    add_copy(&m, m.out, m.hbm, m.host, MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(400 * GB);
    g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
    near(run->makespan, 10 * ECH_PS_PER_US, 2, ECH_ENGINE_NATIVE);
    ck_assert_double_eq_tol(run->links[0].utilisation, 1, 1e-6);
}
END_TEST

START_TEST(serial_chain)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    for (int i = 0; i < 3000; i++) {
        add_copy(&m, m.in, m.host, m.hbm, 1000003);
        EchId copy = (EchId)ech_trace_builder_n_ops(m.b) - 1;
        add_kernel(&m, m.core, 777);
        ech_trace_builder_dep(m.b, copy, 0);
        EchId kernel = (EchId)ech_trace_builder_n_ops(m.b) - 1;
        add_copy(&m, m.out, m.hbm, m.host, 13);
        ech_trace_builder_dep(m.b, kernel, 0);
        if (i > 0)
            ech_trace_builder_dep(m.b, copy - 1, 0);
        /* The next copy in waits for this copy out. */
        if (i < 2999) {
            add_op(&m, ECH_OP_WAIT, m.in);
            ech_trace_builder_dep(m.b, kernel + 1, 0);
        }
    }
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    /* Per turn 10000030 + 777 + 130 ps. */
    near(run->makespan, INT64_C(3000) * 10000937, 9000, engine);
    ck_assert_uint_eq(run->links[0].forward, 3000 * UINT64_C(1000003));
    ck_assert_uint_eq(run->links[0].backward, 3000 * UINT64_C(13));
    ck_assert_str_eq(run->provenance.engine, engine == ECH_ENGINE_NATIVE ? "native" : "simgrid");
}
END_TEST

/* Two copies in the same direction on a link with two engines share it; with one they queue. */
START_TEST(two_fair_copies)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    for (uint32_t n = 1; n <= 2; n++) {
        Maker m = maker_new();
        add_copy(&m, m.in, m.host, m.hbm, 10 * MB);
        add_copy(&m, m.out, m.host, m.hbm, 30 * MB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        device->links[0].engines_to = n;
        g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
        near(run->makespan, 400 * ECH_PS_PER_US, 2, engine);
        ck_assert_uint_eq(run->n_spans, 2);
        near(run->spans[0].end, n == 2 ? 200 * ECH_PS_PER_US : 100 * ECH_PS_PER_US, 2, engine);
        near(run->waits[ECH_WAIT_LINK], n == 2 ? 200 * ECH_PS_PER_US : 100 * ECH_PS_PER_US, 2, engine);
        near(run->links[0].busy, 400 * ECH_PS_PER_US, 2, engine);
    }
}
END_TEST

/* A kernel that streams 40 MB of memory beside a copy of 10 MB over a link as fast as the port: both at half rate until the copy ends. */
START_TEST(compute_against_copy_on_one_port)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId buffer = add_buffer(&m, m.hbm, 40 * MB, true);
    add_kernel(&m, m.core, 1000);
    ech_trace_builder_use(m.b, buffer, ECH_READ, 40 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    add_copy(&m, m.in, m.host, m.hbm, 10 * MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    device->links[0].to_device = 1000 * GB;
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    near(run->spans[0].end, 20 * ECH_PS_PER_US, 2, engine);
    near(run->makespan, 50 * ECH_PS_PER_US, 2, engine);
    near(run->waits[ECH_WAIT_MEMORY_PORT], 20 * ECH_PS_PER_US, 2, engine);
    ck_assert_uint_eq(run->memories[0].read, 40 * MB);
    ck_assert_uint_eq(run->memories[0].written, 10 * MB);
    near(run->memories[0].busy, 50 * ECH_PS_PER_US, 2, engine);
    ck_assert_str_eq(run->resources[run->spans[0].resource], "hbm");
}
END_TEST

/* What is read and what is written has its own rate; what is both at once that of the mixture, where it is known. */
START_TEST(reads_and_writes_have_their_rates)
{
    static const struct {
        EchRate both;
        EchBytes read, written;
        EchTime us;
    } cases[] = {{0, 30 * MB, 0, 30},        {0, 0, 30 * MB, 60},        {0, 30 * MB, 20 * MB, 30 + 40},       {0, 10 * MB, 30 * MB, 10 + 60},
                 {800 * GB, 30 * MB, 0, 30}, {800 * GB, 0, 30 * MB, 60}, {800 * GB, 30 * MB, 20 * MB, 10 + 50}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        Maker m = maker_new();
        EchId from = add_buffer(&m, m.hbm, 30 * MB, true), to = add_buffer(&m, m.hbm, 30 * MB, true);
        add_kernel(&m, m.core, 0);
        if (cases[i].read)
            ech_trace_builder_use(m.b, from, ECH_READ, cases[i].read, ECH_PATTERN_STREAM, ECH_KNOWN);
        if (cases[i].written)
            ech_trace_builder_use(m.b, to, ECH_WRITE, cases[i].written, ECH_PATTERN_STREAM, ECH_KNOWN);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchTraceBuilder) turned = ech_trace_builder_new_from(trace);
        g_autoptr(EchDevice) device = make_device(0);
        device->memories[0].write = 500 * GB;
        device->memories[0].both = cases[i].both;
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        near(run->makespan, cases[i].us * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
        /* The other way round, too. */
        device->memories[0].read = 500 * GB;
        device->memories[0].write = 1000 * GB;
        EchUse *uses = ech_trace_builder_peek_use(turned, 0);
        for (size_t u = 0; u < ech_trace_n_uses(trace); u++)
            uses[u].access = uses[u].access == ECH_READ ? ECH_WRITE : ECH_READ;
        g_autoptr(EchTrace) back = ech_trace_builder_finish(turned, NULL);
        g_autoptr(EchRun) same = replay(back, device, default_options(ECH_ENGINE_NATIVE));
        near(same->makespan, cases[i].us * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* Accesses that do not follow one another take as much longer as the memory's timing says, where that is known. */
START_TEST(scattered_accesses_take_longer)
{
    EchTime took[2][ECH_N_PATTERNS];
    for (int known = 0; known < 2; known++) {
        for (int pattern = 0; pattern < ECH_N_PATTERNS; pattern++) {
            Maker m = maker_new();
            EchId from = add_buffer(&m, m.hbm, 30 * MB, true);
            add_kernel(&m, m.core, 0);
            ech_trace_builder_use(m.b, from, ECH_READ, 30 * MB, (EchPattern)pattern, ECH_KNOWN);
            g_autoptr(EchTrace) trace = finish(&m);
            g_autoptr(EchDevice) device = make_device(0);
            if (known)
                device->memories[0].dram = g_strdup("hbm3");
            g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
            took[known][pattern] = run->makespan;
        }
    }
    for (int pattern = 0; pattern < ECH_N_PATTERNS; pattern++)
        ck_assert_int_eq(took[0][pattern], 30 * ECH_PS_PER_US);
    ck_assert_int_eq(took[1][ECH_PATTERN_STREAM], 30 * ECH_PS_PER_US);
    ck_assert_int_gt(took[1][ECH_PATTERN_RANDOM], 45 * ECH_PS_PER_US);
}
END_TEST

/* Both directions together reach 150 GB/s, not 200. */
START_TEST(both_ways_share_a_total)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    add_copy(&m, m.in, m.host, m.hbm, 15 * MB);
    add_copy(&m, m.out, m.hbm, m.host, 30 * MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(150 * GB);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    /* 75 GB/s each for 200 us, then the rest of 15 MB at 100 GB/s. */
    near(run->spans[0].end, 200 * ECH_PS_PER_US, 2, engine);
    near(run->makespan, 350 * ECH_PS_PER_US, 2, engine);
    near(run->links[0].busy_forward, 200 * ECH_PS_PER_US, 2, engine);
    near(run->links[0].busy_backward, 350 * ECH_PS_PER_US, 2, engine);
}
END_TEST

/* L layers, copies one ahead of computing with two buffers: copy + (L - 1) max(copy, compute) + compute. */
static EchTrace *pipeline(uint64_t layers, EchBytes bytes, uint64_t flops)
{
    Maker m = maker_new();
    EchId loop = add_loop(&m, m.core, 2, layers);
    EchId copy = add_copy(&m, m.in, m.host, m.hbm, bytes);
    ech_trace_builder_dep(m.b, loop + 2, 2); /* The buffer of two layers ago must be free. */
    add_kernel(&m, m.core, flops);
    ech_trace_builder_dep(m.b, copy, 0);
    add_kernel(&m, m.core, 0);
    return finish(&m);
}

START_TEST(double_buffered_pipeline)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    static const struct {
        uint64_t layers;
        EchBytes bytes;
        uint64_t flops;
    } cases[] = {{1, MB, 5 * MB}, {7, MB, 20 * MB}, {7, MB, 3 * MB}, {100, 1000003, 7777777}, {1000, 333333, 7777777}, {0, MB, MB}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchTrace) trace = pipeline(cases[i].layers, cases[i].bytes, cases[i].flops);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(engine);
        g_autoptr(EchRun) run = replay(trace, device, options);
        EchTime copy = (EchTime)cases[i].bytes * 10, compute = (EchTime)cases[i].flops;
        EchTime want = cases[i].layers ? copy + (EchTime)(cases[i].layers - 1) * MAX(copy, compute) + compute : 0;
        near(run->makespan, want, 2 * cases[i].layers, engine);
        ck_assert_uint_eq(run->ops, 2 * cases[i].layers + 2);
        if (cases[i].layers >= 100)
            ck_assert_uint_lt(run->provenance.executed, 60);
        options = default_options(engine);
        options.skip_steady = 0;
        g_autoptr(EchRun) slow = replay(trace, device, options);
        near(slow->makespan, want, 2 * cases[i].layers, engine);
        ck_assert_uint_eq(slow->provenance.executed, slow->ops);
        ck_assert_uint_eq(run->links[0].forward, slow->links[0].forward);
        ck_assert_uint_eq(run->memories[0].written, slow->memories[0].written);
        near(run->links[0].busy, slow->links[0].busy, 2 * cases[i].layers, engine);
        ck_assert(run->units[0].flops == slow->units[0].flops);
    }
}
END_TEST

/* By hand: kernels and copies that take turns in three queues, each released by the one before. What had ended long before is known at once. */
START_TEST(queues_learn_of_each_other_later)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    enum { KERNEL = 5000000, WAIT = 700000, WAIT_COPY = 2000000, PASSED = 300000 };
    Maker m = maker_new();
    EchId other = ech_trace_builder_queue(m.b, "other", ECH_QUEUE_COMPUTE, 0);
    EchId first = add_kernel(&m, m.core, KERNEL), copy = add_copy(&m, m.in, m.host, m.hbm, MB); /* 10 us */
    ech_trace_builder_dep(m.b, first, 0);
    add_kernel(&m, m.core, 3 * KERNEL);
    EchId last = add_kernel(&m, m.core, KERNEL); /* The copy has ended 3 us before: nothing is left of the wait */
    ech_trace_builder_dep(m.b, copy, 0);
    add_kernel(&m, other, KERNEL);
    ech_trace_builder_dep(m.b, last, 0);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    add_waits(device, WAIT, WAIT_COPY);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    near(run->makespan, 6 * KERNEL + WAIT, 10, engine);
    near(run->links[0].busy, 10 * ECH_PS_PER_US, 10, engine);
    ck_assert_int_le(run->makespan, run->serial);
    add_number(device, "runtime.wait_passed_ps", PASSED); /* But looking takes a moment */
    g_autoptr(EchRun) looking = replay(trace, device, default_options(engine));
    near(looking->makespan, 6 * KERNEL + WAIT + PASSED, 10, engine);
    ck_assert_int_le(looking->makespan, looking->serial);
    EchReplayOptions bare = default_options(engine);
    bare.overhead = 0;
    g_autoptr(EchRun) ideal = replay(trace, device, bare);
    near(ideal->makespan, 6 * KERNEL, 10, engine);
}
END_TEST

/* A kernel, then two copies, each released by the kernel's queue, which only waits for the first, and a kernel: what lies between copies over a link is not
 * what lies between such a copy and a kernel. Over and over, a kernel's queue never tells of the copies before it. Copies within a memory are as kernels. */
START_TEST(queues_without_work_pass_copies_on)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    enum { KERNEL = 5000000, WAIT = 700000, WAIT_COPY = 2000000, THROUGH = 300000, LAPS = 100 };
    for (unsigned c = 0; c < 8; c++) {
        uint64_t laps = c & 1 ? LAPS : 1;
        bool within = c & 2, told = c & 4;
        Maker m = maker_new();
        add_loop(&m, m.core, 7, laps);
        add_kernel(&m, m.core, KERNEL);
        EchId before = add_op(&m, ECH_OP_MARK, m.core);
        for (unsigned i = 0; i < 2; i++) {
            EchId copy = add_copy(&m, m.in, within ? m.hbm : m.host, m.hbm, MB);
            ech_trace_builder_dep(m.b, before, 0);
            before = add_op(&m, ECH_OP_MARK, m.core);
            ech_trace_builder_dep(m.b, copy, 0);
        }
        add_kernel(&m, m.core, KERNEL);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) bare = make_device(0), device = make_device(0);
        g_autoptr(EchRun) at_once = replay(trace, bare, default_options(engine));
        add_waits(device, WAIT, WAIT_COPY);
        if (told)
            add_number(device, "runtime.wait_through_ps", THROUGH);
        EchTime waits = within ? 4 * WAIT_COPY : 2 * WAIT_COPY + 2 * (told ? THROUGH : WAIT), want = at_once->makespan + (EchTime)laps * waits;
        EchReplayOptions options = default_options(engine);
        g_autoptr(EchRun) run = replay(trace, device, options);
        near(run->makespan, want, 20 * laps, engine);
        ck_assert_int_le(run->makespan, run->serial);
        options = default_options(engine);
        options.skip_steady = 0;
        g_autoptr(EchRun) slow = replay(trace, device, options);
        near(slow->makespan, want, 20 * laps, engine);
    }
}
END_TEST

/* What an operation had to share most is told by what it met itself, not by what was shared before it. */
START_TEST(who_was_in_the_way)
{
    Maker m = maker_new();
    EchId second = ech_trace_builder_queue(m.b, "second", ECH_QUEUE_COMPUTE, 0), in2 = ech_trace_builder_queue(m.b, "in 2", ECH_QUEUE_COPY, 0);
    EchId data = add_buffer(&m, m.hbm, 90 * MB, true);
    EchId before[2];
    for (int i = 0; i < 2; i++) { /* memory at twice its rate for 180 us */
        before[i] = add_kernel(&m, i ? second : m.core, 0);
        ech_trace_builder_use(m.b, data, ECH_READ, 90 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    EchId copies[2];
    for (int i = 0; i < 2; i++) { /* then a link at twice its rate, memory a little above its own */
        copies[i] = add_copy(&m, i ? in2 : m.in, m.host, m.hbm, 5 * MB);
        ech_trace_builder_dep(m.b, before[0], 0);
        ech_trace_builder_dep(m.b, before[1], 0);
    }
    add_kernel(&m, m.core, 0);
    ech_trace_builder_use(m.b, data, ECH_READ, 90 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    device->links[0].engines_to = 2;
    g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
    for (size_t i = 0; i < run->n_spans; i++) {
        if (run->spans[i].op == before[0])
            ck_assert_str_eq(run->resources[run->spans[i].resource], "hbm");
        if (run->spans[i].op == copies[0])
            ck_assert_msg(strstr(run->resources[run->spans[i].resource], "host"), "%s", run->resources[run->spans[i].resource]);
    }
}
END_TEST

/* A wait of one kind alone. */
START_TEST(copies_alone_are_learnt_of_later)
{
    for (int of_copies = 0; of_copies < 2; of_copies++) {
        Maker m = maker_new();
        EchId copy = add_copy(&m, m.in, m.host, m.hbm, MB); /* 10 us */
        EchId kernel = add_kernel(&m, m.core, 5000000);
        ech_trace_builder_dep(m.b, copy, 0);
        add_kernel(&m, ech_trace_builder_queue(m.b, "other", ECH_QUEUE_COMPUTE, 0), 5000000);
        ech_trace_builder_dep(m.b, kernel, 0);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        add_waits(device, of_copies ? 0 : 700000, of_copies ? 2000000 : 0);
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        near(run->makespan, 20 * ECH_PS_PER_US + (of_copies ? 2000000 : 700000), 10, ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* 10^6 iterations of copies that share the port with computing, an odd number of picoseconds each: skipping changes nothing. */
START_TEST(steady_loops_are_skipped_exactly)
{
    EchTime makespans[2];
    uint64_t executed[2];
    for (uint64_t skip = 0; skip < 2; skip++) {
        Maker m = maker_new();
        EchId weights = add_buffer(&m, m.hbm, 8 * MB, true);
        EchId loop = add_loop(&m, m.core, 3, 200000);
        EchId in = add_copy(&m, m.in, m.host, m.hbm, 1234567);
        ech_trace_builder_dep(m.b, loop + 2, 2);
        add_kernel(&m, m.core, 3333);
        ech_trace_builder_dep(m.b, in, 0);
        ech_trace_builder_use(m.b, weights, ECH_READ, 7654321, ECH_PATTERN_STREAM, ECH_KNOWN);
        add_copy(&m, m.out, m.hbm, m.host, 1111111);
        ech_trace_builder_dep(m.b, loop + 2, 0);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(150 * GB);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.skip_steady = skip;
        options.max_spans = 100;
        g_autoptr(EchRun) run = replay(trace, device, options);
        makespans[skip] = run->makespan;
        executed[skip] = run->provenance.executed;
        ck_assert_uint_eq(run->ops, 600001);
        ck_assert_uint_eq(run->memories[0].read, UINT64_C(200000) * (7654321 + 1111111));
        if (skip)
            ck_assert_uint_eq(run->n_skips, 1);
    }
    ck_assert_int_le(llabs(makespans[0] - makespans[1]), 60);
    ck_assert_uint_eq(executed[0], 600001);
    ck_assert_uint_lt(executed[1], 200);
}
END_TEST

/* One queue of a loop allocates all iterations ahead of the one that uses and frees them, whichever has the loop: time does not grow with the square of the
 * trips. */
START_TEST(queues_run_far_apart)
{
    enum { TRIPS = 60000, FLOPS = 1000, ROOM = 100 * MB };
    for (int i = 0; i < 4; i++) {
        const EchBytes bytes = i & 1 ? 4096 : 1024;
        Maker m = maker_new();
        EchId buffer = add_buffer(&m, m.hbm, bytes, false), other = ech_trace_builder_queue(m.b, "other", ECH_QUEUE_COMPUTE, 0);
        add_loop(&m, i & 2 ? other : m.core, 3, TRIPS);
        EchId alloc = add_target(&m, ECH_OP_ALLOC, m.core, buffer), kernel = add_kernel(&m, other, FLOPS);
        ech_trace_builder_use(m.b, buffer, ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_dep(m.b, alloc, 0);
        add_target(&m, ECH_OP_FREE, other, buffer);
        ck_assert_uint_eq(kernel, alloc + 1);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.max_spans = 100;
        g_autoptr(EchRun) run = replay(trace, device, options);
        ck_assert(run->completed && run->fits);
        near(run->makespan, (EchTime)TRIPS * FLOPS, TRIPS, ECH_ENGINE_NATIVE);
        ck_assert_uint_eq(run->memories[0].peak_live, MIN(TRIPS * bytes, ROOM / bytes * bytes));
        ck_assert_uint_eq(run->memories[0].end_live, 0);
    }
}
END_TEST

START_TEST(nested_loops_and_inner_steady_states)
{
    EchTime makespans[2];
    for (uint64_t skip = 0; skip < 2; skip++) {
        Maker m = maker_new();
        add_loop(&m, m.core, 5, 40);
        EchId in = add_copy(&m, m.in, m.host, m.hbm, 50001);
        EchId inner = add_loop(&m, m.core, 2, 30);
        ech_trace_builder_dep(m.b, in, 0);
        add_kernel(&m, m.core, 100001);
        add_copy(&m, m.out, m.hbm, m.host, 10007);
        ech_trace_builder_dep(m.b, inner + 1, 0);
        add_kernel(&m, m.core, 1009);
        ech_trace_builder_dep(m.b, inner, 0);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(150 * GB);
        g_autoptr(EchRun) run = replay_skipping(trace, device, skip);
        makespans[skip] = run->makespan;
        ck_assert_uint_eq(run->ops, 1 + 40 * (3 + 30 * 2));
        ck_assert_uint_eq(run->links[0].backward, 40 * 30 * UINT64_C(10007));
        if (skip)
            ck_assert_uint_lt(run->provenance.executed, 1000);
    }
    ck_assert_int_le(llabs(makespans[0] - makespans[1]), 2);
}
END_TEST

/*
 * A value that a loop carries: the body frees the last iteration's while a slower queue still reads it, and allocates its own. Never more than two are there,
 * in nested loops too, and skipping changes nothing.
 */
START_TEST(carried_buffers_turn_over)
{
    for (uint64_t outer = 1; outer <= 3; outer += 2) {
        EchBytes peaks[2];
        uint64_t allocs[2];
        EchTime makespans[2];
        for (uint64_t skip = 0; skip < 2; skip++) {
            Maker m = maker_new();
            EchId carried = add_buffer(&m, m.hbm, 10240 * KB, false);
            EchId there = add_buffer(&m, m.host, 10240 * KB, true);
            add_loop(&m, m.core, 9, outer);
            add_target(&m, ECH_OP_ALLOC, m.core, carried);
            EchId first = add_kernel(&m, m.core, 1000);
            ech_trace_builder_use(m.b, carried, ECH_WRITE, 10240 * KB, ECH_PATTERN_STREAM, ECH_KNOWN);
            EchId loop = add_loop(&m, m.core, 4, 50);
            ech_trace_builder_dep(m.b, first, 0);
            EchId out = add_copy(&m, m.out, m.hbm, m.host, 10240 * KB);
            ech_trace_builder_dep(m.b, loop + 4, 1);
            ech_trace_builder_use(m.b, carried, ECH_READ, 10240 * KB, ECH_PATTERN_STREAM, ECH_KNOWN);
            ech_trace_builder_use(m.b, there, ECH_WRITE, 10240 * KB, ECH_PATTERN_STREAM, ECH_KNOWN);
            add_target(&m, ECH_OP_FREE, m.core, carried);
            add_target(&m, ECH_OP_ALLOC, m.core, carried);
            add_kernel(&m, m.core, 1000);
            ech_trace_builder_dep(m.b, out, 0);
            ech_trace_builder_use(m.b, carried, ECH_WRITE, 10240 * KB, ECH_PATTERN_STREAM, ECH_KNOWN);
            add_target(&m, ECH_OP_FREE, m.core, carried);
            add_kernel(&m, m.core, 1000);
            g_autoptr(EchTrace) trace = finish(&m);
            g_autoptr(EchDevice) device = make_device(0);
            g_autoptr(EchRun) run = replay_skipping(trace, device, skip);
            ck_assert(run->fits);
            peaks[skip] = run->memories[0].peak_live;
            makespans[skip] = run->makespan;
            allocs[skip] = run->memories[0].allocs;
            ck_assert_uint_eq(run->memories[0].allocs, run->memories[0].frees);
            if (skip)
                ck_assert_uint_lt(run->provenance.executed, 100 * outer);
        }
        ck_assert_uint_eq(peaks[0], 20480 * KB);
        ck_assert_uint_eq(peaks[1], 20480 * KB);
        ck_assert_uint_eq(allocs[0], outer * 51);
        ck_assert_uint_eq(allocs[1], outer * 51);
        ck_assert_int_le(llabs(makespans[0] - makespans[1]), 2 * (EchTime)outer);
    }
}
END_TEST

/* Four ports, two devices: the operand goes over one of them, both ways at once. Bytes are what was sent, not the share of the link it took. */
START_TEST(collectives_count_the_bytes_they_send)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId id = add_op(&m, ECH_OP_COLLECTIVE, m.core);
    EchOp *op = ech_trace_builder_peek_op(m.b, id);
    op->collective = ECH_COLLECTIVE_ALL_GATHER;
    op->memory_from = 2;
    op->bytes = 45 * MB;
    op->bytes_origin = ECH_KNOWN;
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    g_free(device->family);
    device->family = g_strdup("tpu");
    device->links = g_renew(EchLink, device->links, 2);
    device->links[1] = (EchLink){.name = g_strdup("ici"), .nominal = 50 * GB, .to_device = 45 * GB, .from_device = 45 * GB, .ports = 4};
    device->n_links = 2;
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    near(run->makespan, 1000000000, 2, engine);
    ck_assert_uint_eq(run->links[1].forward, 45 * MB);
    ck_assert_uint_eq(run->links[1].backward, 45 * MB);
    near(run->links[1].busy_forward, 1000000000, 2, engine);
    near(run->links[1].busy_backward, 1000000000, 2, engine);
    ck_assert_msg(run->links[1].utilisation > .2499 && run->links[1].utilisation < .2501, "%g", run->links[1].utilisation);
}
END_TEST

/* Of two hosts' eight each, a device sends seven eighths to the others of its host and the rest to the other host, whichever takes longer. */
START_TEST(collectives_count_what_leaves_the_host)
{
    g_autoptr(EchDevice) device =
        ech_test_device("h100-sxm", (const char *const[]){_i ? "links.nvlink.to_device=1GB/s" : "links.network.to_device=1GB/s", NULL});
    Maker m = maker_new();
    EchId id = add_op(&m, ECH_OP_COLLECTIVE, m.core);
    EchOp *op = ech_trace_builder_peek_op(m.b, id);
    op->collective = ECH_COLLECTIVE_ALL_GATHER;
    op->memory_from = 16;
    op->bytes = 80 * MB;
    op->bytes_origin = ECH_KNOWN;
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
    for (size_t i = 0; i < run->n_links; i++) {
        EchBytes want = strcmp(run->links[i].name, "nvlink") == 0 ? 15 * 70 * MB : strcmp(run->links[i].name, "network") == 0 ? 15 * 10 * MB : 0;
        ck_assert_uint_eq(run->links[i].forward, want);
        ck_assert_uint_eq(run->links[i].backward, want);
    }
}
END_TEST

/* What goes to another device's memory, or comes from there, goes over what joins them: ports of 25 GB/s each; where there is no such link over the host's, of
 * 100 GB/s, or, where devices do not reach each other, over the host's memory. */
START_TEST(copies_to_peers)
{
    static const EchTime times[] = {2 * ECH_PS_PER_MS, ECH_PS_PER_MS, 1449275363};
    for (int i = 0; i < 6; i++) {
        Maker m = maker_new();
        EchId peer = ech_trace_builder_memory(m.b, "hbm:1");
        add_copy(&m, m.core, i & 1 ? peer : m.hbm, i & 1 ? m.hbm : peer, 100 * MB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        device->links = g_renew(EchLink, device->links, 2);
        device->links[1] = (EchLink){.name = g_strdup("nvlink"), .nominal = 25 * GB, .to_device = 25 * GB, .from_device = 25 * GB, .ports = 2};
        device->links[1].from = device->links[1].to = device->links[0].from;
        device->n_links = i < 2 ? 2 : 1;
        if (i >= 4)
            add_number(device, "runtime.driver.peer_share", 0.69);
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        near(run->makespan, times[i / 2], 2, ECH_ENGINE_NATIVE);
        if (i < 2)
            ck_assert_uint_eq(i ? run->links[1].backward : run->links[1].forward, 100 * MB);
        if (i >= 2)
            g_free(device->links[1].name);
    }
}
END_TEST

/* A collective between GPUs holds 24 of an H100's 132 multiprocessors while it runs: a kernel of 100 ms on all of them takes 132 / 108 of that beside it. What
 * has few blocks, what memory bounds and what was recorded take what they take alone; and so does the collective. */
START_TEST(collectives_hold_multiprocessors)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    ck_assert_ok(device != NULL, error);
    enum { ON_ALL, ON_FEW, BY_MEMORY, RECORDED, N_CASES };
    for (int c = 0; c < N_CASES; c++) {
        EchTime times[2], collective[2];
        for (int beside = 0; beside < 2; beside++) {
            Maker m = maker_new();
            EchId buffer = add_buffer(&m, m.hbm, 60 * GB, true), gather = ECH_NONE;
            EchId kernel = add_kernel(&m, m.core, c == BY_MEMORY ? 0 : 98940 * UINT64_C(1000000000));
            if (c == BY_MEMORY)
                ech_trace_builder_use(m.b, buffer, ECH_READ, 60 * GB, ECH_PATTERN_STREAM, ECH_KNOWN);
            EchOp *op = ech_trace_builder_peek_op(m.b, kernel);
            if (c == ON_FEW)
                op->launch = ech_trace_builder_string(m.b, "grid=54x1x1 block=128x1x1", -1);
            if (c == RECORDED)
                op->recorded = (EchRecorded){0, 100 * ECH_PS_PER_MS};
            if (beside) {
                gather = add_op(&m, ECH_OP_COLLECTIVE, m.in);
                op = ech_trace_builder_peek_op(m.b, gather);
                op->collective = ECH_COLLECTIVE_ALL_GATHER;
                op->memory_from = 8;
                op->bytes = 10 * GB;
                op->bytes_origin = ECH_KNOWN;
            }
            g_autoptr(EchTrace) trace = finish(&m);
            g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
            for (size_t i = 0; i < run->n_spans; i++) {
                if (run->spans[i].op == kernel)
                    times[beside] = run->spans[i].end - run->spans[i].start;
                if (run->spans[i].op == gather)
                    collective[c == ON_ALL] = run->spans[i].end - run->spans[i].start;
                if (run->spans[i].op == kernel && beside)
                    ck_assert_int_eq(run->spans[i].waits[ECH_WAIT_COMPUTE] > 0, c == ON_ALL);
            }
        }
        double longer = (double)times[1] / (double)times[0];
        ck_assert_msg(fabs(longer - (c == ON_ALL ? 132.0 / 108 : 1)) < 1e-3, "case %d: %g times as long", c, longer);
        ck_assert(c == ON_ALL || collective[0] == collective[1]);
    }
}
END_TEST

/* Products of an H100 have their tiles from the beginning: of 132 blocks those that find no multiprocessor beside a collective wait for the others, so that one
 * takes twice as long; one of 64 tiles takes what it takes alone. A B200 gives tiles out as it goes: 148 / 124. */
START_TEST(products_wait_for_a_second_round)
{
    static const struct {
        const char *device, *launch;
        double longer;
    } cases[] = {{"h100-sxm", "product=1x65536x8192x65536 operand_bytes=2", 2},
                 {"h100-sxm", "product=1x1024x2048x16777216 operand_bytes=2 grid=8x8x1 block=384x1x1", 1},
                 {"b200", "product=1x65536x8192x65536 operand_bytes=2", 148.0 / 124}};
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDevice) device = ech_device_load(cases[c].device, NULL, &error);
        ck_assert_ok(device != NULL, error);
        EchTime times[2];
        for (int beside = 0; beside < 2; beside++) {
            Maker m = maker_new();
            EchId kernel = add_kernel(&m, m.core, 2 * UINT64_C(65536) * 8192 * 65536);
            EchOp *op = ech_trace_builder_peek_op(m.b, kernel);
            op->name =
                ech_trace_builder_string(m.b, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_execute_kernel__5x_cublas", -1);
            op->launch = ech_trace_builder_string(m.b, cases[c].launch, -1);
            if (beside) {
                op = ech_trace_builder_peek_op(m.b, add_op(&m, ECH_OP_COLLECTIVE, m.in));
                op->collective = ECH_COLLECTIVE_ALL_GATHER;
                op->memory_from = 8;
                op->bytes = 1000 * GB;
                op->bytes_origin = ECH_KNOWN;
            }
            g_autoptr(EchTrace) trace = finish(&m);
            EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
            options.products_duty = 0;
            g_autoptr(EchRun) run = replay(trace, device, options);
            for (size_t i = 0; i < run->n_spans; i++)
                if (run->spans[i].op == kernel)
                    times[beside] = run->spans[i].end - run->spans[i].start;
        }
        double longer = (double)times[1] / (double)times[0];
        ck_assert_msg(fabs(longer - cases[c].longer) < 1e-2, "case %zu: %g times as long", c, longer);
    }
}
END_TEST

/* An H100's and a B200's own power hold products in a row of a tenth of a second and more, of a loop's iterations too that are not run one by one,
 * and not shorter ones, nor what lanes multiply; nobody says what an A100's does. */
START_TEST(own_power_holds_long_products)
{
    static const struct {
        const char *device;
        uint64_t k, trips;
        double longer;
        bool lanes;
    } cases[] = {{"h100-sxm", 16384, 1, 1, false},      {"h100-sxm", 131072, 1, 1 / 0.83, false}, {"h100-sxm", 2048, 64, 1 / 0.83, false},
                 {"b200", 262144, 1, 1 / 0.853, false}, {"a100-80", 131072, 1, 1, false},         {"h100-sxm", 131072, 1, 1, true}};
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDevice) device = ech_device_load(cases[c].device, NULL, &error);
        ck_assert_ok(device != NULL, error);
        EchTime times[2];
        for (int settled = 0; settled < 2; settled++) {
            Maker m = maker_new();
            if (cases[c].trips > 1)
                add_loop(&m, m.core, 1, cases[c].trips);
            EchOp *op = ech_trace_builder_peek_op(m.b, add_kernel(&m, m.core, 2 * UINT64_C(65536) * 8192 * cases[c].k));
            g_autofree char *launch = g_strdup_printf("product=1x65536x8192x%" G_GUINT64_FORMAT " operand_bytes=%d", cases[c].k, cases[c].lanes ? 4 : 2);
            op->name = ech_trace_builder_string(m.b, cases[c].lanes ? "ampere_sgemm_128x128_tn" : "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", -1);
            op->launch = ech_trace_builder_string(m.b, launch, -1);
            g_autoptr(EchTrace) trace = finish(&m);
            EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
            options.products_duty = settled ? -1 : 0;
            g_autoptr(EchRun) run = replay(trace, device, options);
            times[settled] = run->makespan;
        }
        double longer = (double)times[1] / (double)times[0];
        ck_assert_msg(fabs(longer - cases[c].longer) < 1e-2, "case %zu: %g times as long, %g ms", c, longer, (double)times[0] / 1e9);
    }
}
END_TEST

/* What a GPU's profile says that a collective took stands, with what it waited for others; another link changes what is the collective's own. */
START_TEST(recorded_collectives_keep_their_waits)
{
    Maker m = maker_new();
    EchId id = add_op(&m, ECH_OP_COLLECTIVE, m.core);
    EchOp *op = ech_trace_builder_peek_op(m.b, id);
    op->collective = ECH_COLLECTIVE_ALL_GATHER;
    op->memory_from = 2;
    op->bytes = 45 * MB;
    op->bytes_origin = ECH_KNOWN;
    op->recorded = (EchRecorded){0, 3 * ECH_PS_PER_MS};
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0), slow = make_device(0), none = make_device(0);
    EchDevice *const devices[] = {device, slow};
    for (size_t i = 0; i < 2; i++) {
        EchRate rate = (i ? 15 : 45) * GB;
        devices[i]->links = g_renew(EchLink, devices[i]->links, 2);
        devices[i]->links[1] = (EchLink){.name = g_strdup("nvlink"), .nominal = rate, .to_device = rate, .from_device = rate, .ports = 1};
        devices[i]->n_links = 2;
        devices[i]->hash = i + 1;
    }
    struct {
        const EchDevice *device, *reference;
        EchKernelTime times;
        EchTime ms;
    } cases[] = {{device, NULL, ECH_KERNEL_TIME_AUTO, 3},     {device, NULL, ECH_KERNEL_TIME_MODEL, 1}, {slow, device, ECH_KERNEL_TIME_AUTO, 5},
                 {slow, device, ECH_KERNEL_TIME_RECORDED, 5}, {slow, device, ECH_KERNEL_TIME_MODEL, 3}, {none, NULL, ECH_KERNEL_TIME_MODEL, 3},
                 {none, device, ECH_KERNEL_TIME_AUTO, 3},     {device, none, ECH_KERNEL_TIME_AUTO, 3},  {device, slow, ECH_KERNEL_TIME_AUTO, 1}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.kernel_time = cases[i].times;
        g_autoptr(GError) error = NULL;
        g_autoptr(EchRun) run = ech_replay_run(trace, cases[i].device, cases[i].reference, &options, &error);
        ck_assert_ok(run != NULL, error);
        ck_assert_msg(run->makespan / ECH_PS_PER_US == cases[i].ms * 1000, "case %zu takes %g ms", i, (double)run->makespan / 1e9);
        const char *missing = "test has no link between devices";
        ck_assert_msg(ech_test_says(run->diag, missing) == (cases[i].device == none), "case %zu", i);
        ech_params_clear(ech_replay_params, &options);
    }
}
END_TEST

/* A device's file that says of memory beyond it, but not what leads there. */
START_TEST(copies_without_a_link_are_told)
{
    static const char head[] = "name: test\nfamily: other\nmemories:\n  hbm: {kind: hbm, capacity: 1GB, read: 4GB/s}\n  chip: {kind: vector, capacity: 1GB}\n"
                               "  host: {kind: host-pinned, capacity: 1GB, read: 2GB/s}\nunits: {matrix: {peaks: {bf16: 1TFLOP/s}}}\n";
    static const char *const links[] = {"", "links: {host: {from: host, to: hbm, to_device: 1GB/s, from_device: 1GB/s}}\n"};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text("echelon-trace 1 \"by hand\"\nstrings 0\nmemories 3\n\"hbm\"\n\"host\"\n\"chip\"\nqueues 1\ncopy 0 \"dma\"\n"
                                                "buffers 3\nb \"a\" m=0 bytes=1000000 resident=1\nb \"b\" m=1 bytes=1000000 resident=1\n"
                                                "b \"c\" m=2 bytes=1000000 resident=1\nops 2\ncopy \"out\" q=0 from=0 to=1 bytes=1000000 r=0:1000000 "
                                                "w=1:1000000\ncopy \"in\" q=0 from=0 to=2 bytes=1000000 r=0:1000000 w=2:1000000\n",
                                                &error);
    ck_assert_ok(import != NULL, error);
    for (size_t i = 0; i < G_N_ELEMENTS(links); i++) {
        g_autofree char *text = g_strconcat(head, links[i], NULL);
        g_autoptr(EchDevice) device = ech_test_device_yaml(text);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        g_autoptr(EchRun) run = ech_replay_run(import->trace, device, NULL, &options, &error);
        ck_assert_ok(run != NULL, error);
        ck_assert_int_eq(run->makespan / ECH_PS_PER_US, i ? 1250 : 750);
        ck_assert(ech_test_says(run->diag, "1 copy joins the device with memory beyond it to which test has no link") == (i == 0));
        ech_params_clear(ech_replay_params, &options);
    }
}
END_TEST

/* On 4 x 4 chips: sent up and down one axis at once, and gathered along the other, nothing waits; sent the same way, one after the other. */
START_TEST(ways_of_a_torus_are_links_of_their_own)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    static const struct {
        const char *launch;
        EchCollective type;
        EchBytes bytes;
    } sent[] = {{"devices=16 stride=1", ECH_COLLECTIVE_PERMUTE, 45 * MB},
                {"devices=16 stride=1 back", ECH_COLLECTIVE_PERMUTE, 45 * MB},
                {"devices=16 stride=4", ECH_COLLECTIVE_ALL_GATHER, 30 * MB},
                {"devices=16 stride=1", ECH_COLLECTIVE_PERMUTE, 45 * MB}};
    for (size_t n = 3; n <= 4; n++) {
        Maker m = maker_new();
        for (size_t i = 0; i < n; i++) {
            g_autofree char *name = g_strdup_printf("way %zu", i);
            EchId id = add_op(&m, ECH_OP_COLLECTIVE, ech_trace_builder_queue(m.b, name, ECH_QUEUE_COLLECTIVE, 0));
            EchId launch = ech_trace_builder_string(m.b, sent[i].launch, -1);
            EchOp *op = ech_trace_builder_peek_op(m.b, id);
            op->collective = (uint8_t)sent[i].type;
            op->memory_from = 4;
            op->bytes = sent[i].bytes;
            op->bytes_origin = ECH_KNOWN;
            op->launch = launch;
        }
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_free(device->family);
        device->family = g_strdup("tpu");
        device->links = g_renew(EchLink, device->links, 2);
        device->links[1] = (EchLink){.name = g_strdup("ici"), .nominal = 50 * GB, .to_device = 45 * GB, .from_device = 45 * GB, .ports = 4};
        device->n_links = 2;
        g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
        near(run->makespan, n == 3 ? 1000000000 : 2000000000, 4, engine);
        ck_assert_uint_eq(run->links[1].forward, (n == 4 ? 225 : 180) * MB);
    }
}
END_TEST

/* A recording in which the host was late twice: once before a kernel, once before a copy that waits for it. With gaps kept the replay takes what was recorded.
 */
START_TEST(recorded_gaps_are_kept_on_request)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    const EchTime us = ECH_PS_PER_US;
    EchId a = add_kernel(&m, m.core, 0), b = add_kernel(&m, m.core, 0);
    EchId c = add_copy(&m, m.out, m.hbm, m.host, 1 * MB);
    ech_trace_builder_dep(m.b, b, 0);
    ech_trace_builder_peek_op(m.b, a)->recorded = (EchRecorded){100 * us, 10 * us};
    ech_trace_builder_peek_op(m.b, b)->recorded = (EchRecorded){130 * us, 10 * us};
    ech_trace_builder_peek_op(m.b, c)->recorded = (EchRecorded){145 * us, 10 * us};
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    EchReplayOptions options = default_options(engine);
    g_autoptr(EchRun) tight = replay(trace, device, options);
    near(tight->makespan, 30 * us, 3, engine);
    ck_assert_int_eq(tight->waits[ECH_WAIT_HOST], 0);
    ck_assert(ech_test_says(tight->diag, "recorded, it took 55 us from the first operation to the last"));
    options.host_gaps = 1;
    g_autoptr(EchRun) kept = replay(trace, device, options);
    near(kept->makespan, 55 * us, 3, engine);
    near(kept->waits[ECH_WAIT_HOST], 25 * us, 3, engine);
    ck_assert_int_le(kept->makespan, kept->serial);
    ck_assert(!ech_test_says(kept->diag, "recorded, it took"));
}
END_TEST

/* A recorded duration is the device's alone: what of it no rate shortens takes nothing of the host's gap before it, on a slower device either. */
START_TEST(gaps_stay_on_other_devices)
{
    const EchTime us = ECH_PS_PER_US;
    Maker m = maker_new();
    EchId a = add_kernel(&m, m.core, 10 * MB), b = add_kernel(&m, m.core, 10 * MB);
    ech_trace_builder_peek_op(m.b, a)->recorded = (EchRecorded){100 * us, 12 * us};
    ech_trace_builder_peek_op(m.b, b)->recorded = (EchRecorded){132 * us, 12 * us};
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0), slow = make_device(0);
    slow->units[0].peaks[0].ops /= 2;
    slow->hash = 1;
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    options.host_gaps = 1;
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = ech_replay_run(trace, slow, device, &options, &error);
    ck_assert_ok(run != NULL, error);
    near(run->waits[ECH_WAIT_HOST], 20 * us, 2, ECH_ENGINE_NATIVE);
    near(run->makespan, 64 * us, 2, ECH_ENGINE_NATIVE);
    ech_params_clear(ech_replay_params, &options);
}
END_TEST

/* A kernel recorded at twice what the model says of it: twice the model's time on a GPU with the same kernels, 1.41 times on one with others, where a product
 * has none of its tile. What the model does not know goes by its bytes. Each is told with its share. */
START_TEST(recorded_times_are_carried)
{
    g_autoptr(EchDevice) from = ech_test_device("a100-80", NULL);
    static const char launch[] = "grid=40x40x1 block=128x1x1 product=1x5120x5120x1024 operand_bytes=2";
    EchGpuKernel kernel = {.read = 20 << 20, .written = 50 << 20, .operations = 2.0 * 5120 * 5120 * 1024, .dtype = "f16"};
    static const char name[] = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn";
    ech_gpu_name(name, &kernel.name);
    ck_assert(ech_gpu_launch_parse(launch, &kernel.launch));
    EchGpuKernel there = kernel;
    EchGpuCost tiled, model;
    bool lanes = false;
    ck_assert(ech_gpu_kernel_price(from, &kernel, &tiled));
    ech_gpu_kernel_elsewhere(&there, from, from, &lanes);
    ck_assert(ech_gpu_kernel_price(from, &there, &model));
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("kineto");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(b, "hbm");
    buffer.resident = 1;
    EchId data = ech_trace_builder_buffer(b, buffer), queue = ech_trace_builder_queue(b, "stream 7", ECH_QUEUE_COMPUTE, 0);
    EchTime recorded = 2 * model.time;
    for (size_t i = 0; i < 2; i++) {
        EchOp op = ech_op_init(ECH_OP_KERNEL);
        op.queue = queue;
        op.name = ech_trace_builder_string(b, i ? "of_no_class" : name, -1);
        op.launch = i ? ECH_NONE : ech_trace_builder_string(b, launch, -1);
        op.recorded = (EchRecorded){(EchTime)i * recorded, recorded};
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, data, ECH_READ, kernel.read, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, data, ECH_WRITE, kernel.written, ECH_PATTERN_STREAM, ECH_KNOWN);
        if (i == 0)
            ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_F16, (uint64_t)kernel.operations, ECH_KNOWN);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    static const char *const devices[] = {"a100-40", "h100-sxm", "mi300x"};
    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++) {
        g_autoptr(EchDevice) to = ech_test_device(devices[i], NULL);
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchPrices) prices = ech_prices_new(trace, to, from, &(EchPriceOptions){.kernel_time = ECH_KERNEL_TIME_AUTO}, diag);
        EchGpuKernel elsewhere = kernel;
        EchGpuCost here;
        if (i > 0)
            ech_gpu_kernel_elsewhere(&elsewhere, from, to, &lanes);
        ck_assert(ech_gpu_kernel_price(to, &elsewhere, &here));
        double expected = (double)here.time * (i == 0 ? (double)recorded / (double)tiled.time : sqrt((double)recorded / (double)model.time));
        ck_assert_double_le(fabs((double)prices->prices[0].alone / expected - 1), 1e-6);
        ck_assert_uint_eq(prices->prices[0].source, ECH_PRICE_RECORDED_SCALED);
        ck_assert_int_lt(prices->prices[1].alone, recorded * 14 / 10);
        g_autofree char *said = g_strjoinv("\n", (char **)(uintptr_t)ech_diag_remarks(diag));
        ck_assert_ptr_nonnull(strstr(said, i == 0 ? "50.0 % by the ratio of the kernel model's times" : "50.0 % by the kernel model's times of what"));
        ck_assert_ptr_nonnull(strstr(said, "50.0 % by bytes and operations alone"));
    }
    ck_assert(!lanes);
}
END_TEST

/* A recording of two streams in which the second was late by 6 us, beside the first, and the third kernel by 20 us more, beside nothing. The first is kept, at
 * the speed of the work beside it; the second is not. A copy takes what was recorded of it, whatever the link's rate, and as much longer as the link is slower.
 */
START_TEST(what_did_not_run_together_does_not)
{
    const EchTime us = ECH_PS_PER_US;
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("kineto");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    EchId queues[2] = {ech_trace_builder_queue(b, "stream 7", ECH_QUEUE_COMPUTE, 0), ech_trace_builder_queue(b, "stream 8", ECH_QUEUE_COMPUTE, 0)};
    static const struct {
        int queue, start, duration;
    } ops[] = {{0, 0, 10}, {1, 6, 10}, {0, 36, 4}};
    for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
        EchOp op = ech_op_init(i == 2 ? ECH_OP_COPY : ECH_OP_KERNEL);
        op.queue = queues[ops[i].queue];
        op.recorded = (EchRecorded){ops[i].start * us, ops[i].duration * us};
        if (i == 2) {
            op.memory_from = host;
            op.memory_to = hbm;
            op.bytes = 100 << 20;
            op.bytes_origin = ECH_KNOWN;
        }
        ech_trace_builder_op(b, op);
        if (i == 2)
            ech_trace_builder_dep(b, 1, 0);
    }
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    static const char *const halved[] = {"links.host.to_device=x0.5", "links.host.latency=0", "links.host.setup=0", NULL}, *const plain[] = {
                                                                                                                               "links.host.latency=0",
                                                                                                                               "links.host.setup=0", NULL};
    g_autoptr(EchDevice) device = ech_test_device("a100-40", plain), slow = ech_test_device("a100-40", halved);
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    g_autoptr(EchRun) run = replay(trace, device, options);
    ck_assert_int_eq(run->makespan, 20 * us); /* 6 beside the first, 10, then 4 */
    ck_assert_int_eq(run->waits[ECH_WAIT_HOST], 6 * us);
    ck_assert_int_lt(run->serial, 26 * us); /* what they take, not once more what they lay beside */
    options = default_options(ECH_ENGINE_NATIVE);
    options.host_gaps = 1;
    g_autoptr(EchRun) kept = replay(trace, device, options);
    ck_assert_int_eq(kept->makespan, 40 * us);
    options = default_options(ECH_ENGINE_NATIVE);
    g_autoptr(EchRun) slower = ech_replay_run(trace, slow, device, &options, NULL);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ptr_nonnull(slower);
    /* The copy takes twice as long, and the 6 us as much longer as all work together does: 28 us for 24. */
    ck_assert_int_eq(slower->makespan, (7 + 10 + 8) * us);
}
END_TEST

/* PyTorch frees a cached segment to make room: the cudaFree waits for the kernel asked for before it, and the kernel behind waits for it. */
START_TEST(an_emptied_cache_stalls_the_device)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    const EchTime us = ECH_PS_PER_US;
    g_autofree char *text = NULL;
    gsize n;
    ck_assert(g_file_get_contents(ECH_SOURCE_DIR "/tests/golden/data/retry.ech", &text, &n, NULL));
    g_autoptr(EchTrace) trace = ech_trace_file_read(text, n, "retry.ech", NULL);
    ck_assert_ptr_nonnull(trace);
    static const char *const full[] = {"memories.hbm.available=64MiB", "runtime.driver.malloc_ps=100us", "runtime.driver.free_ps=50us", NULL},
                             *const roomy[] = {"memories.hbm.available=256MiB", "runtime.driver.malloc_ps=100us", "runtime.driver.free_ps=50us", NULL};
    g_autoptr(EchDevice) small = ech_test_device("h100-sxm", full), large = ech_test_device("h100-sxm", roomy);
    ck_assert(small && large);
    EchReplayOptions options = default_options(engine);
    options.allocator = g_strdup("pytorch:");
    g_autoptr(EchRun) stalled = replay(trace, small, options);
    ck_assert(stalled->fits);
    /* 10 ms, then a cudaFree and a cudaMalloc, then 1 ms. */
    near(stalled->makespan, (10000 + 50 + 100 + 1000) * us, 3, engine);
    ck_assert_int_gt(stalled->waits[ECH_WAIT_ALLOCATOR], 9000 * us);
    options = default_options(engine);
    options.allocator = g_strdup("pytorch:");
    g_autoptr(EchRun) free_running = replay(trace, large, options);
    near(free_running->makespan, 11000 * us, 3, engine);
    ck_assert_int_eq(free_running->waits[ECH_WAIT_ALLOCATOR], 0);
    /* Nothing is kept: the first free waits for nothing, the last ones for the kernels. */
    options = default_options(engine);
    options.allocator = g_strdup("platform");
    g_autoptr(EchRun) platform = replay(trace, large, options);
    ck_assert(platform->fits);
    ck_assert_int_gt(platform->waits[ECH_WAIT_ALLOCATOR], 0);
    ck_assert_int_ge(platform->makespan, 11000 * us);
    options = default_options(engine);
    options.allocator = g_strdup("pytorch:");
    options.overhead = 0;
    g_autoptr(EchRun) free_of_charge = replay(trace, small, options);
    near(free_of_charge->makespan, 11000 * us, 3, engine);
}
END_TEST

/* A kernel that reads as fast as it can beside a copy: each keeps the share of its rate that was measured, and its own rate alone. */
START_TEST(copies_and_kernels_slow_each_other)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId data = add_buffer(&m, m.hbm, 10 * MB, true);
    add_kernel(&m, m.core, 0);
    ech_trace_builder_use(m.b, data, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    EchId copy = add_copy(&m, m.in, m.host, m.hbm, 45 * MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0), ideal = make_device(0);
    add_number(device, "kernel.beside_copies_share", 0.8);
    add_number(device, "kernel.copies_beside_share", 0.9);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine)), plain = replay(trace, ideal, default_options(engine));
    /* 45 MB at 90 GB/s; by then 400 MB are read at 800 GB/s, the other 600 follow at 1000. */
    near(run->makespan, 1100 * ECH_PS_PER_US, 2, engine);
    for (size_t i = 0; i < run->n_spans; i++) {
        if (run->spans[i].op == copy)
            near(run->spans[i].end, 500 * ECH_PS_PER_US, 2, engine);
    }
    /* What copies inside device memory reach was measured too: half of a byte read and written each would be 0.5. */
    Maker inside = maker_new();
    add_copy(&inside, inside.core, inside.hbm, inside.hbm, 100 * MB);
    g_autoptr(EchTrace) moved = finish(&inside);
    g_autoptr(EchRun) usual = replay(moved, ideal, default_options(engine));
    add_number(device, "kernel.copy_share", 0.4);
    g_autoptr(EchRun) measured = replay(moved, device, default_options(engine));
    near(usual->makespan, 200 * ECH_PS_PER_US, 1, engine);
    near(measured->makespan, 250 * ECH_PS_PER_US, 1, engine);
    /* Its bytes of the port: 450 us in which 100 of 1000 GB/s are the copy's. */
    near(plain->makespan, 1045 * ECH_PS_PER_US, 2, engine);
}
END_TEST

/* Each way has its own shares. */
START_TEST(each_way_slows_as_it_was_measured)
{
    static const char *const keys[][2] = {{"kernel.beside_copies_share", "kernel.copies_beside_share"},
                                          {"kernel.beside_copies_from_share", "kernel.copies_beside_from_share"}};
    for (int way = 0; way < 2; way++)
        for (int measured = 0; measured < 2; measured++) {
            Maker m = maker_new();
            EchId data = add_buffer(&m, m.hbm, 10 * MB, true);
            add_kernel(&m, m.core, 0);
            ech_trace_builder_use(m.b, data, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
            add_copy(&m, m.in, way ? m.hbm : m.host, way ? m.host : m.hbm, 45 * MB);
            g_autoptr(EchTrace) trace = finish(&m);
            g_autoptr(EchDevice) device = make_device(0);
            add_number(device, keys[measured][0], 0.8);
            add_number(device, keys[measured][1], 0.9);
            g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
            near(run->makespan, (way == measured ? 1100 : 1045) * ECH_PS_PER_US, 2, ECH_ENGINE_NATIVE);
        }
}
END_TEST

/* Copies both ways at once beside such a kernel keep a share of what they do together without one. */
START_TEST(copies_both_ways_keep_a_share_beside_kernels)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    for (unsigned kernel = 0; kernel < 2; kernel++) {
        Maker m = maker_new();
        EchId data = add_buffer(&m, m.hbm, 10 * MB, true);
        if (kernel) {
            add_kernel(&m, m.core, 0);
            ech_trace_builder_use(m.b, data, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        }
        EchId copies[2] = {add_copy(&m, m.in, m.host, m.hbm, 40 * MB), add_copy(&m, m.out, m.hbm, m.host, 40 * MB)};
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(160 * GB);
        add_number(device, "kernel.copies_both_beside_share", 0.8);
        g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
        /* 80 GB/s each, or 64. */
        for (size_t i = 0; i < run->n_spans; i++) {
            if (run->spans[i].op == copies[0] || run->spans[i].op == copies[1])
                near(run->spans[i].end, (kernel ? 625 : 500) * ECH_PS_PER_US, 2, engine);
        }
    }
}
END_TEST

/* Large products were measured at what power leaves them, small ones at what they do after a pause: each gets the rate of the duty that is asked for. */
START_TEST(products_have_the_rate_of_their_duty)
{
    static const struct {
        double duty;
        EchTime large_us, small_us;
    } cases[] = {{-1, 30000, 1000}, {0, 24000, 1000}, {1, 30000, 1250}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        Maker m = maker_new();
        add_kernel(&m, m.core, 30 * GB);
        EchId small = add_kernel(&m, m.core, GB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        add_number(device, "kernel.unpadded_share", 1);
        add_number(device, "kernel.burst_share", 1.25);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.products_duty = cases[i].duty;
        g_autoptr(EchRun) run = replay(trace, device, options);
        for (size_t k = 0; k < run->n_spans; k++)
            near(run->spans[k].end - run->spans[k].start, (run->spans[k].op == small ? cases[i].small_us : cases[i].large_us) * ECH_PS_PER_US, 1,
                 ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* The burst is of smaller products: the largest, of 0.96 of what those would do after a pause, takes all of the time what was measured so. */
START_TEST(the_largest_product_all_of_the_time_is_as_measured)
{
    static const struct {
        double duty;
        EchTime us;
    } cases[] = {{0, 27500}, {0.5, 27500}, {0.85, 30000}, {1, 33000}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        Maker m = maker_new();
        add_kernel(&m, m.core, 33 * GB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        add_number(device, "kernel.products.bf16.2304x2304", 0.96);
        add_number(device, "kernel.burst_share", 1.25);
        add_number(device, "kernel.duty_rates.50", 1.2);
        add_number(device, "kernel.duty_rates.70", 1.15);
        add_number(device, "kernel.duty_rates.85", 1.1);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.products_duty = cases[i].duty;
        g_autoptr(EchRun) run = replay(trace, device, options);
        near(run->spans[0].end - run->spans[0].start, cases[i].us * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* Two buffers taken, each before a kernel of 60 us, and given back behind both. */
static EchTrace *allocated_ahead(void)
{
    Maker m = maker_new();
    EchId buffers[2];
    for (unsigned i = 0; i < 2; i++) {
        buffers[i] = add_buffer(&m, m.hbm, MB, false);
        add_target(&m, ECH_OP_ALLOC, m.core, buffers[i]);
        add_kernel(&m, m.core, 60 * MB); /* 60 us */
    }
    for (unsigned i = 0; i < 2; i++)
        add_target(&m, ECH_OP_FREE, m.core, buffers[i]);
    return finish(&m);
}

/* A cudaMalloc waits for nothing: the host makes it while the kernel before it runs. A cudaFree waits for that. */
START_TEST(the_host_allocates_ahead)
{
    g_autoptr(EchTrace) trace = allocated_ahead();
    g_autoptr(EchDevice) device = make_device(0);
    add_number(device, "runtime.driver.malloc_ps", 100e6);
    add_number(device, "runtime.driver.free_ps", 30e6);
    add_number(device, "runtime.submit_ps", 2e6);
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    options.allocator = g_strdup("platform");
    /* Without such calls it has asked for all of it long before. */
    Maker plain = maker_new();
    for (unsigned i = 0; i < 3; i++)
        add_kernel(&plain, plain.core, MB);
    g_autoptr(EchTrace) kernels = finish(&plain);
    g_autoptr(EchRun) ahead = replay(kernels, device, options);
    ck_assert_int_eq(ahead->makespan, 3 * ECH_PS_PER_US);
    options = default_options(ECH_ENGINE_NATIVE);
    options.allocator = g_strdup("platform");
    g_autoptr(EchRun) run = replay(trace, device, options);
    /* 100 and 2, then 100 while the first kernel runs, 2, the second kernel, two frees. */
    ck_assert_msg(run->makespan == (100 + 2 + 100 + 2 + 60 + 30 + 30) * ECH_PS_PER_US, "%g us", (double)run->makespan / 1e6);
}
END_TEST

/* What the call takes where the device is at work, or that it waits for that; of a cudaFree the kernel's way there and back, but where the one before has
 * waited already. */
START_TEST(the_host_allocates_beside_kernels)
{
    static const struct {
        bool waits, mapped;
        EchTime us;
    } cases[] = {{false, false, 100 + 2 + 130 + 2 + 60 + 7 + 30 + 30},
                 {true, false, 100 + 2 + 60 + 7 + 100 + 2 + 60 + 7 + 30 + 30},
                 {false, true, 100 + 2 + 130 + 2 + 60 + 7 + 30 + 30},
                 {true, true, 100 + 2 + 60 + 7 + 100 + 2 + 60 + 7 + 30 + 30}};
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_autoptr(EchTrace) trace = allocated_ahead();
        g_autoptr(EchDevice) device = make_device(0);
        add_number(device, cases[c].mapped ? "runtime.driver.map_ps" : "runtime.driver.malloc_ps", 100e6);
        add_number(device, cases[c].mapped ? "runtime.driver.map_beside_ps" : "runtime.driver.malloc_beside_ps", cases[c].waits ? 100e6 : 130e6);
        add_number(device, cases[c].mapped ? "runtime.driver.unmap_ps" : "runtime.driver.free_ps", 30e6);
        add_number(device, cases[c].mapped ? "runtime.driver.map_waits" : "runtime.driver.malloc_waits", cases[c].waits);
        add_number(device, "runtime.submit_ps", 2e6);
        add_number(device, "runtime.trip_ps", 7e6);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.allocator = g_strdup(cases[c].mapped ? "platform:mapped=true" : "platform");
        g_autoptr(EchRun) run = replay(trace, device, options);
        ck_assert_msg(run->makespan == cases[c].us * ECH_PS_PER_US, "case %zu takes %g us, expected %g", c, (double)run->makespan / 1e6, (double)cases[c].us);
    }
}
END_TEST

/* What is mapped takes time by calls, by pieces of physical memory and by pages of them; nothing of it is priced as a cudaMalloc. */
START_TEST(mapping_is_priced_by_pieces)
{
    static const struct {
        const char *allocator;
        EchBytes bytes;
        bool pieces_known;
        EchTime us, again; /* and when all of it is asked for once more */
    } cases[] = {
        {"platform:mapped=true", 10 << 20, true, 70 + 4 * 1 + 50 + 4 * 2, 70 + 4 * 1 + 50 + 4 * 2},
        {"platform:mapped=true", 1, true, 70 + 50, 70 + 50},
        {"platform", 10 << 20, true, 500 + 400, 500 + 400},
        /* Three pieces of 20 MiB in one go, kept when they are freed. */
        {"pytorch:expandable_segments:True", 50 << 20, true, 70 + 2 * 60 + 27 * 1, 0},
        {"pytorch:expandable_segments:True", 1 << 20, true, 70, 0},
        {"pytorch:expandable_segments:True", 50 << 20, false, 3 * 70, 0},
    };
    static const struct {
        const char *path;
        EchTime us;
    } numbers[] = {{"runtime.driver.malloc_ps", 500}, {"runtime.driver.free_ps", 400},     {"runtime.driver.map_ps", 70},
                   {"runtime.driver.unmap_ps", 50},   {"runtime.driver.map_piece_ps", 60}, {"runtime.driver.unmap_piece_ps", 40},
                   {"runtime.driver.map_page_ps", 1}, {"runtime.driver.unmap_page_ps", 2}};
    for (size_t c = 0; c < 2 * G_N_ELEMENTS(cases); c++) {
        size_t i = c / 2;
        Maker m = maker_new();
        for (size_t times = 0; times <= c % 2; times++) {
            EchId a = add_buffer(&m, m.hbm, cases[i].bytes, false);
            add_target(&m, ECH_OP_ALLOC, m.core, a);
            add_target(&m, ECH_OP_FREE, m.core, a);
        }
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        for (size_t n = 0; n < (cases[i].pieces_known ? G_N_ELEMENTS(numbers) : 4); n++)
            add_number(device, numbers[n].path, (double)(numbers[n].us * ECH_PS_PER_US));
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        options.allocator = g_strdup(cases[i].allocator);
        g_autoptr(EchRun) run = replay(trace, device, options);
        EchTime us = cases[i].us + (c % 2 ? cases[i].again : 0);
        ck_assert_msg(run->makespan == us * ECH_PS_PER_US, "case %zu takes %g us, expected %g", c, (double)run->makespan / 1e6, (double)us);
    }
}
END_TEST

/* Memory is free when its last transfer ends, not when FREE is reached; who needs it waits for that. */
START_TEST(allocation_waits_for_a_transfer)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId a = add_buffer(&m, m.hbm, 60 * MB, false), b = add_buffer(&m, m.hbm, 60 * MB, false);
    EchId alloc = add_target(&m, ECH_OP_ALLOC, m.core, a);
    EchId there = add_buffer(&m, m.host, 60 * MB, true);
    add_copy(&m, m.out, m.hbm, m.host, 60 * MB);
    ech_trace_builder_dep(m.b, alloc, 0);
    ech_trace_builder_use(m.b, a, ECH_READ, 60 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(m.b, there, ECH_WRITE, 60 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    add_target(&m, ECH_OP_FREE, m.core, a);
    add_target(&m, ECH_OP_ALLOC, m.core, b);
    add_kernel(&m, m.core, MB);
    ech_trace_builder_use(m.b, b, ECH_WRITE, MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    ck_assert(run->fits && run->completed);
    near(run->makespan, 601 * ECH_PS_PER_US, 5, engine);
    near(run->waits[ECH_WAIT_SPACE], 600 * ECH_PS_PER_US, 5, engine);
    ck_assert_uint_ge(run->memories[0].peak_live, 60 * MB);
    ck_assert_uint_lt(run->memories[0].peak_live, 61 * MB);
    ck_assert_uint_eq(run->n_placed, 3);
    near(run->placed[1].end, 600 * ECH_PS_PER_US, 5, engine);
    ck_assert_uint_eq(run->memories[0].n_series, 2); /* The second begins as the first ends. */
}
END_TEST

/* Of a host and a device with one memory, what either lets go is room for the other, and what neither does is refused for want of it. */
START_TEST(one_memory_is_waited_for_by_both)
{
    EchEngine engine = engines[_i / 4];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId holds = _i & 1 ? m.host : m.hbm, asks = _i & 1 ? m.hbm : m.host;
    bool freed = _i & 2;
    EchId a = add_buffer(&m, holds, 60 * MB, false), b = add_buffer(&m, asks, 60 * MB, false), c = add_buffer(&m, asks, MB, false);
    EchId first = add_target(&m, ECH_OP_ALLOC, m.core, a);
    add_target(&m, ECH_OP_ALLOC, m.in, c);
    EchId second = add_target(&m, ECH_OP_ALLOC, m.out, b);
    ech_trace_builder_dep(m.b, first, 0);
    add_kernel(&m, m.core, 5 * MB);
    add_target(&m, ECH_OP_FREE, m.core, freed ? a : c);
    if (!freed) /* each waits for the other */
        ech_trace_builder_dep(m.b, second, 0);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    device->memories[1].capacity = device->memories[1].available = 100 * MB;
    device->memories[1].within = 1;
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    ck_assert(run->fits == freed);
    if (freed)
        near(run->waits[ECH_WAIT_SPACE], 5 * ECH_PS_PER_US, 4, engine);
    else
        ck_assert_int_eq(run->failure.fit, ECH_FIT_FULL);
}
END_TEST

/* A host that asks for one thing after another frees nothing while it waits for memory: only what it let go before may still come. */
START_TEST(a_waiting_host_frees_nothing)
{
    for (int i = 0; i < 8; i++) {
        bool host = i & 1, freed_before = i & 2;
        Maker m = maker_new();
        EchId holder = i & 4 ? m.out : m.core;
        if (host)
            ech_trace_builder_set_property(m.b, "time_zero_ps", "0");
        EchId a = add_buffer(&m, m.hbm, 60 * MB, false), b = add_buffer(&m, m.hbm, 60 * MB, false), wanted = ECH_NONE;
        EchId first = add_target(&m, ECH_OP_ALLOC, holder, a);
        add_kernel(&m, holder, 5 * MB);
        if (!freed_before) {
            wanted = add_target(&m, ECH_OP_ALLOC, m.in, b);
            ech_trace_builder_dep(m.b, first, 0);
        }
        add_target(&m, ECH_OP_FREE, holder, a);
        if (freed_before) {
            add_target(&m, ECH_OP_ALLOC, m.in, b);
            ech_trace_builder_dep(m.b, first, 0);
        }
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        ck_assert(run->fits == (!host || freed_before));
        if (!run->fits)
            ck_assert_uint_eq(run->failure.op, wanted);
        else
            near(run->waits[ECH_WAIT_SPACE], 5 * ECH_PS_PER_US, 4, ECH_ENGINE_NATIVE);
    }
}
END_TEST

START_TEST(what_does_not_fit_is_a_result)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId a = add_buffer(&m, m.hbm, 30 * MB, true), b = add_buffer(&m, m.hbm, 50 * MB, false), c = add_buffer(&m, m.hbm, 40 * MB, false);
    add_kernel(&m, m.core, 5 * MB);
    EchId alloc = add_target(&m, ECH_OP_ALLOC, m.core, b);
    (void)alloc;
    EchId fails = add_target(&m, ECH_OP_ALLOC, m.core, c);
    add_kernel(&m, m.core, 5 * MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    g_autoptr(EchRun) run = replay(trace, device, default_options(engine));
    ck_assert(!run->fits && !run->completed);
    ck_assert_str_eq(run->failure.memory, "hbm");
    ck_assert_uint_eq(run->failure.op, fails);
    ck_assert_uint_eq(run->failure.buffer, c);
    near(run->failure.time, 5 * ECH_PS_PER_US, 4, engine);
    ck_assert_uint_eq(run->failure.asked, 40 * MB);
    ck_assert_uint_eq(run->failure.n_holders, 2);
    ck_assert_uint_eq(run->failure.holders[0].buffer, b);
    ck_assert_uint_eq(run->failure.holders[1].buffer, a);
    EchReplayOptions options = default_options(engine);
    options.keep_going = 1;
    g_autoptr(EchRun) on = replay(trace, device, options);
    ck_assert(!on->fits && on->completed);
    near(on->makespan, 10 * ECH_PS_PER_US, 4, engine);
}
END_TEST

/* Nor does an ALLOC that failed once nothing else could go on, of a buffer that is made anew, leave anything behind that others would wait for. */
START_TEST(what_failed_is_not_waited_for)
{
    EchEngine engine = engines[_i];
    if (!have(engine))
        return;
    Maker m = maker_new();
    EchId x = add_buffer(&m, m.hbm, 60 * MB, false), y = add_buffer(&m, m.hbm, 60 * MB, false), z = add_buffer(&m, m.hbm, 200 * MB, false);
    add_target(&m, ECH_OP_ALLOC, m.core, x);
    add_loop(&m, m.core, 6, 2);
    add_kernel(&m, m.core, 5 * MB);
    ech_trace_builder_use(m.b, x, ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
    add_target(&m, ECH_OP_FREE, m.core, x);
    add_kernel(&m, m.core, 5 * MB); /* y takes the room */
    EchId made = add_target(&m, ECH_OP_ALLOC, m.core, x);
    add_kernel(&m, m.out, 5 * MB);
    ech_trace_builder_use(m.b, x, ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(m.b, made, 0);
    add_kernel(&m, m.core, 5 * MB);
    add_target(&m, ECH_OP_FREE, m.core, x);
    add_target(&m, ECH_OP_SIGNAL, m.core, 1);
    add_target(&m, ECH_OP_ALLOC, m.in, y);
    add_target(&m, ECH_OP_WAIT, m.in, 1);
    add_target(&m, ECH_OP_FREE, m.in, y);
    add_target(&m, ECH_OP_WAIT, m.out, 1);
    add_copy(&m, m.out, m.hbm, m.host, 100 * MB); /* for a millisecond */
    add_kernel(&m, m.core, 5 * MB);
    add_target(&m, ECH_OP_ALLOC, m.core, z);
    add_kernel(&m, m.core, 5 * MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    EchReplayOptions options = default_options(engine);
    options.keep_going = 1;
    g_autoptr(EchRun) run = replay(trace, device, options);
    ck_assert(!run->fits && run->completed);
    near(run->failure.time, 10 * ECH_PS_PER_US, 20, engine);
    near(run->makespan, 1040 * ECH_PS_PER_US, 20, engine); /* of the copy, which the last kernel does not wait for */
}
END_TEST

/* What a library takes of the device is none of the allocator's, which has so much less, and of whose cache a library gets nothing. */
START_TEST(libraries_take_of_the_device)
{
    static const struct {
        EchBytes first, last; /* of the program: before the library's 50 MB, and after */
        bool freed;           /* the first, before the library asks */
        EchBytes reserved, kept;
        EchFit fit;
    } cases[] = {{30 * MB, 12 * MB, false, 44040192, 0, ECH_FIT_OK},
                 {30 * MB, 40 * MB, false, 31457280, 0, ECH_FIT_FULL},
                 {60 * MB, 0, true, 60817408, 60817408, ECH_FIT_FRAGMENTED}};
    const EchBytes beside = 50331648; /* in whole 2 MiB */
    Maker m = maker_new();
    EchId a = add_buffer(&m, m.hbm, cases[_i].first, false), b = add_buffer(&m, m.hbm, 50 * MB, false), c = add_buffer(&m, m.hbm, cases[_i].last, false);
    ech_trace_builder_peek_buffer(m.b, b)->direct = 1;
    add_target(&m, ECH_OP_ALLOC, m.core, a);
    if (cases[_i].freed)
        add_target(&m, ECH_OP_FREE, m.core, a);
    add_target(&m, ECH_OP_ALLOC, m.core, b);
    add_target(&m, ECH_OP_ALLOC, m.core, c);
    add_kernel(&m, m.core, 5 * MB);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    g_free(options.allocator);
    options.allocator = g_strdup("pytorch");
    g_autoptr(EchRun) run = replay(trace, device, options);
    const EchMemoryRun *hbm = &run->memories[0];
    ck_assert_int_eq(run->fits, cases[_i].fit == ECH_FIT_OK);
    ck_assert_uint_eq(hbm->alloc.peak_reserved, cases[_i].reserved);
    ck_assert_uint_eq(hbm->alloc.peak_direct, cases[_i].freed ? 0 : beside);
    ck_assert_uint_eq(hbm->peak_reserved, cases[_i].reserved + hbm->alloc.peak_direct);
    if (run->fits)
        return;
    ck_assert_int_eq(run->failure.fit, cases[_i].fit);
    ck_assert_uint_eq(run->failure.buffer, cases[_i].freed ? b : c);
    ck_assert_uint_eq(run->failure.direct, hbm->alloc.peak_direct);
    ck_assert_uint_eq(run->failure.reserved, hbm->peak_reserved);
    ck_assert_uint_eq(run->failure.kept, cases[_i].kept);
}
END_TEST

START_TEST(fixed_offsets_are_checked_against_what_is_available)
{
    for (int i = 0; i < 2; i++) {
        Maker m = maker_new();
        EchId a = add_buffer(&m, m.hbm, 30 * MB, true);
        ech_trace_builder_peek_buffer(m.b, a)->offset = i ? 80 * MB : 70 * MB;
        add_kernel(&m, m.core, 1);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        ck_assert(run->fits == (i == 0) && run->completed);
        ck_assert_uint_eq(run->memories[0].fixed_extent, i ? 110 * MB : 100 * MB);
        ck_assert_str_eq(run->memories[0].allocator, "fixed");
    }
}
END_TEST

/* n copies of b bytes on one queue take n max(set-up, b / rate), after the first set-up. */
START_TEST(copies_are_submitted_ahead)
{
    for (int i = 0; i < 2; i++) {
        EchBytes bytes = i ? 100 * KB : 2 * MB;
        Maker m = maker_new();
        for (int k = 0; k < 50; k++)
            add_copy(&m, m.in, m.host, m.hbm, bytes);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        device->links[0].setup = 6 * ECH_PS_PER_US;
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        EchTime transfer = (EchTime)bytes * 10, setup = 6 * ECH_PS_PER_US;
        near(run->makespan, i ? 50 * setup + transfer : setup + 50 * transfer, 50, ECH_ENGINE_NATIVE);
    }
}
END_TEST

static EchTrace *random_trace(guint32 seed)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    Maker m = maker_new();
    EchId queues[4] = {m.core, m.in, m.out, ech_trace_builder_queue(m.b, "second core", ECH_QUEUE_COMPUTE, 0)};
    EchId buffers[6];
    for (int i = 0; i < 6; i++)
        buffers[i] = add_buffer(&m, m.hbm, (EchBytes)g_rand_int_range(rand, 1000, 5000000), true);
    uint32_t n = (uint32_t)g_rand_int_range(rand, 5, 60);
    uint32_t loop_end = 0;
    uint32_t loop = 0;
    EchId made = ECH_NONE; /* By every iteration, so that only some of them have room at a time. */
    for (uint32_t i = 0; i < n; i++) {
        EchId queue = queues[g_rand_int_range(rand, 0, 4)], id;
        if (i >= loop_end && i + 6 < n && g_rand_int_range(rand, 0, 8) == 0) {
            loop = i;
            loop_end = i + 1 + (uint32_t)g_rand_int_range(rand, 1, 6);
            add_loop(&m, queue, loop_end - i - 1, (uint64_t)g_rand_int_range(rand, 0, 60));
            bool makes = loop_end - i > 3 && g_rand_boolean(rand);
            made = makes ? add_buffer(&m, m.hbm, (EchBytes)g_rand_int_range(rand, 10000000, 45000000), false) : ECH_NONE;
            continue;
        }
        if (made != ECH_NONE && (i == loop + 1 || i == loop_end - 1)) {
            add_target(&m, i == loop + 1 ? ECH_OP_ALLOC : ECH_OP_FREE, queue, made);
            continue;
        }
        int kind = g_rand_int_range(rand, 0, 4);
        if (kind == 0) {
            id = add_copy(&m, queue, m.host, m.hbm, (EchBytes)g_rand_int_range(rand, 1, 3000000));
        } else if (kind == 1) {
            id = add_copy(&m, queue, m.hbm, m.host, (EchBytes)g_rand_int_range(rand, 1, 3000000));
        } else {
            id = add_kernel(&m, queue, (uint64_t)g_rand_int_range(rand, 1, 30000000));
            bool own = made != ECH_NONE && i < loop_end;
            ech_trace_builder_use(m.b, own ? made : buffers[g_rand_int_range(rand, 0, 6)], kind == 2 ? ECH_READ : ECH_WRITE,
                                  (EchBytes)g_rand_int_range(rand, 1, 30000000), ECH_PATTERN_STREAM, ECH_KNOWN);
        }
        bool body = i < loop_end;
        uint32_t first = body ? loop + 1 : 0;
        if (i > first && g_rand_boolean(rand)) {
            uint32_t on = (uint32_t)g_rand_int_range(rand, (gint32)first, (gint32)i);
            if (body || loop_end == 0 || on >= loop_end || on < loop || on == loop)
                ech_trace_builder_dep(m.b, on, body && g_rand_boolean(rand) ? 1 : 0);
        }
        (void)id;
    }
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(m.b, &error);
    ech_trace_builder_free(m.b);
    g_clear_error(&error); /* A dependency into an earlier loop's body: not a case. */
    return trace;
}

static void near_count(guint32 seed, const char *what, int64_t skipped, int64_t all, const EchRun *run)
{
    ck_assert_msg(llabs(skipped - all) <= 4 + 4 * (int64_t)run->ops,
                  "seed %u: %s %" G_GINT64_FORMAT " with skipping, %" G_GINT64_FORMAT " without, of %" G_GINT64_FORMAT, seed, what, skipped, all,
                  run->makespan);
}

/* All that a run counts, with iterations skipped and without: equal but for a picosecond of rounding an operation. */
static void same_counts(guint32 seed, const EchRun *skipped, const EchRun *all)
{
    ck_assert(skipped->fits == all->fits);
    ck_assert_uint_eq(skipped->ops, all->ops);
    for (int w = 0; w < ECH_N_WAITS; w++)
        near_count(seed, ech_wait_name((EchWait)w), skipped->waits[w], all->waits[w], all);
    for (size_t i = 0; i < all->n_queues; i++) {
        near_count(seed, "busy queue", skipped->queues[i].busy, all->queues[i].busy, all);
        ck_assert_uint_eq(skipped->queues[i].ops, all->queues[i].ops);
        for (int w = 0; w < ECH_N_WAITS; w++)
            near_count(seed, ech_wait_name((EchWait)w), skipped->queues[i].waits[w], all->queues[i].waits[w], all);
    }
    for (size_t i = 0; i < all->n_links; i++) {
        near_count(seed, "busy to device", skipped->links[i].busy_forward, all->links[i].busy_forward, all);
        near_count(seed, "busy from device", skipped->links[i].busy_backward, all->links[i].busy_backward, all);
        near_count(seed, "busy link", skipped->links[i].busy, all->links[i].busy, all);
        ck_assert_uint_eq(skipped->links[i].transfers, all->links[i].transfers);
        ck_assert_uint_eq(skipped->links[i].forward, all->links[i].forward);
        ck_assert_uint_eq(skipped->links[i].backward, all->links[i].backward);
    }
    for (size_t i = 0; i < all->n_memories; i++) {
        const EchMemoryRun *a = &skipped->memories[i], *b = &all->memories[i];
        ck_assert_uint_eq(a->peak_live, b->peak_live);
        ck_assert_uint_eq(a->allocs, b->allocs);
        ck_assert_uint_eq(a->frees, b->frees);
        ck_assert_uint_eq(a->read, b->read);
        ck_assert_uint_eq(a->written, b->written);
        near_count(seed, "busy memory", a->busy, b->busy, all);
    }
}

START_TEST(random_traces_agree)
{
    guint32 seed = 77000 + (guint32)_i;
    g_autoptr(EchTrace) trace = random_trace(seed);
    if (!trace)
        return;
    g_autoptr(EchDevice) device = make_device(_i % 2 ? 150 * GB : 0);
    device->links[0].setup = _i % 3 ? 0 : 2 * ECH_PS_PER_US;
    device->links[0].engines_to = 1 + (uint32_t)_i % 2;
    if (_i % 5 > 2)
        add_waits(device, 40001, 70003);
    if (_i % 5 > 3)
        add_number(device, "runtime.wait_passed_ps", 10007);
    g_autoptr(EchRun) native = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
    g_autoptr(EchRun) again = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
    ck_assert_uint_eq(native->n_spans, again->n_spans);
    ck_assert_int_eq(memcmp(native->spans, again->spans, native->n_spans * sizeof *native->spans), 0);
    EchReplayOptions whole = default_options(ECH_ENGINE_NATIVE);
    whole.skip_steady = 0;
    g_autoptr(EchRun) slow = replay(trace, device, whole);
    ck_assert_msg(llabs(native->makespan - slow->makespan) <= 1 + (EchTime)slow->ops / 1000,
                  "seed %u: %" G_GINT64_FORMAT " with skipping, %" G_GINT64_FORMAT " without", seed, native->makespan, slow->makespan);
    same_counts(seed, native, slow);
    if (native->n_skips)
        if (!have(ECH_ENGINE_SIMGRID))
            return;
    EchReplayOptions options = default_options(ECH_ENGINE_SIMGRID);
    options.skip_steady = 0;
    g_autoptr(EchRun) reference = replay(trace, device, options);
    ck_assert_msg(llabs(slow->makespan - reference->makespan) <= 2 + reference->makespan / 1000000000,
                  "seed %u: native %" G_GINT64_FORMAT ", simgrid %" G_GINT64_FORMAT, seed, slow->makespan, reference->makespan);
}
END_TEST

/* Loops up to four deep, from op @first on, with what they hold between them; returns behind the last op. */
static uint32_t add_nest(GRand *rand, Maker *m, const EchId *queues, const EchId *buffers, uint32_t depth, uint32_t first)
{
    uint32_t n = first, n_ops = (uint32_t)g_rand_int_range(rand, 1, 6);
    EchId own = queues[g_rand_int_range(rand, 0, 4)], made = ECH_NONE;
    if (g_rand_int_range(rand, 0, 3) == 0) {
        made = add_buffer(m, m->hbm, (EchBytes)g_rand_int_range(rand, 1000000, 30000000), false);
        n = add_target(m, ECH_OP_ALLOC, own, made) + 1;
    }
    for (uint32_t k = 0; k < n_ops; k++) {
        EchId queue = queues[g_rand_int_range(rand, 0, 4)];
        int kind = g_rand_int_range(rand, 0, depth < 3 ? 6 : 4);
        if (kind >= 4) {
            EchId loop = add_loop(m, queue, 0, (uint64_t)g_rand_int_range(rand, 0, depth == 0 ? 60 : 14));
            n = add_nest(rand, m, queues, buffers, depth + 1, loop + 1);
            ech_trace_builder_peek_op(m->b, loop)->target = n - loop - 1;
            continue;
        }
        if (kind < 2) {
            add_copy(m, queue, kind ? m->hbm : m->host, kind ? m->host : m->hbm, (EchBytes)g_rand_int_range(rand, 0, 3000000));
        } else {
            add_kernel(m, queue, (uint64_t)g_rand_int_range(rand, 0, 30000000));
            EchBytes bytes = (EchBytes)g_rand_int_range(rand, 1, 30000000);
            EchId used = made != ECH_NONE && g_rand_boolean(rand) ? made : buffers[g_rand_int_range(rand, 0, 6)];
            ech_trace_builder_use(m->b, used, kind == 2 ? ECH_READ : ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        }
        if (n > first && g_rand_boolean(rand)) {
            uint32_t on = (uint32_t)g_rand_int_range(rand, (gint32)first, (gint32)n);
            ech_trace_builder_dep(m->b, on, depth > 0 && g_rand_boolean(rand) ? (uint32_t)g_rand_int_range(rand, 1, 4) : 0);
        }
        n++;
    }
    return made == ECH_NONE ? n : add_target(m, ECH_OP_FREE, queues[g_rand_int_range(rand, 0, 4)], made) + 1;
}

/* A steady state is one only if the loops inside began as they did before, too: how long an op waited for its queue hangs on that. */
START_TEST(random_nests_are_skipped_exactly)
{
    guint32 seed = 100260 + (guint32)_i;
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    Maker m = maker_new();
    EchId queues[4] = {m.core, m.in, m.out, ech_trace_builder_queue(m.b, "second core", ECH_QUEUE_COMPUTE, 0)}, buffers[6];
    for (int i = 0; i < 6; i++)
        buffers[i] = add_buffer(&m, m.hbm, (EchBytes)g_rand_int_range(rand, 1000, 5000000), true);
    uint32_t n = add_nest(rand, &m, queues, buffers, 0, 0);
    add_nest(rand, &m, queues, buffers, 0, n);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(m.b, &error);
    ech_trace_builder_free(m.b);
    if (!trace) /* a dependency into another loop's body */
        return;
    g_autoptr(EchDevice) device = make_device(seed % 2 ? 150 * GB : 0);
    device->links[0].setup = seed % 3 ? 0 : 2 * ECH_PS_PER_US;
    g_autoptr(EchRun) skipped = replay_skipping(trace, device, true), all = replay_skipping(trace, device, false);
    ck_assert_msg(llabs(skipped->makespan - all->makespan) <= 1 + (EchTime)all->ops / 1000,
                  "seed %u: %" G_GINT64_FORMAT " with skipping, %" G_GINT64_FORMAT " without", seed, skipped->makespan, all->makespan);
    same_counts(seed, skipped, all);
}
END_TEST

START_TEST(too_many_operations_are_refused)
{
    Maker m = maker_new();
    add_loop(&m, m.core, 1, 1000000);
    add_kernel(&m, m.core, 7);
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0);
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    options.max_ops = 1000;
    options.skip_steady = 0;
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_replay_run(trace, device, NULL, &options, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    options.skip_steady = 1;
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, NULL);
    ck_assert_ptr_nonnull(run);
    near(run->makespan, 7000000, 1000000, ECH_ENGINE_NATIVE);
    /* As many as there may be are not too many: ten kernels of a loop. */
    for (uint64_t most = 9; most <= 10; most++) {
        Maker few = maker_new();
        add_loop(&few, few.core, 1, 10);
        add_kernel(&few, few.core, 7);
        g_autoptr(EchTrace) ten = finish(&few);
        options.skip_steady = 0;
        options.max_ops = most;
        g_autoptr(EchRun) all = ech_replay_run(ten, device, NULL, &options, NULL);
        ck_assert_int_eq(all != NULL, most == 10);
    }
}
END_TEST

/* Iterations of 1 ms: of the first loop so many that in 64 bits of picoseconds nearly nothing is left of them. */
START_TEST(loops_that_never_end_are_refused)
{
    static const uint64_t trips[] = {(UINT64_C(1) << 55) + 40, UINT64_C(6000000000)};
    for (size_t i = 0; i < G_N_ELEMENTS(trips); i++) {
        Maker m = maker_new();
        add_loop(&m, m.core, 1, trips[i]);
        add_kernel(&m, m.core, GB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
        ck_assert(!run && g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
        ck_assert_msg(strstr(error->message, "46 days") != NULL, "%s", error->message);
    }
}
END_TEST

/* So are operations: of sizes that one alone takes too long for, whichever engine. */
START_TEST(sizes_that_never_end_are_refused)
{
    static const EchBytes sizes[] = {UINT64_C(5000000) * 100 * GB, UINT64_MAX};
    for (size_t i = 0; i < 2 * G_N_ELEMENTS(sizes); i++) {
        Maker m = maker_new();
        add_copy(&m, m.core, m.hbm, m.host, sizes[i / 2]);
        add_kernel(&m, m.core, GB);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        EchReplayOptions options = default_options(i % 2 ? ECH_ENGINE_SIMGRID : ECH_ENGINE_NATIVE);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
        ck_assert(!run && g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
        ck_assert_msg(strstr(error->message, "46 days") != NULL, "%s", error->message);
    }
}
END_TEST

/* A collective that sends and receives over a link with one engine a way: who waits for either goes on when it ends. */
START_TEST(copies_go_on_after_an_exchange)
{
    for (int out = 0; out < 2; out++) {
        Maker m = maker_new();
        EchId peers = ech_trace_builder_queue(m.b, "peers", ECH_QUEUE_COLLECTIVE, 0);
        EchOp *reduce = ech_trace_builder_peek_op(m.b, add_op(&m, ECH_OP_COLLECTIVE, peers));
        reduce->collective = ECH_COLLECTIVE_ALL_REDUCE;
        reduce->memory_from = 2;
        reduce->bytes = 10 * MB;
        EchId first = add_kernel(&m, m.core, 10 * MB); /* takes a while, so that the copy is the later one */
        add_copy(&m, out ? m.out : m.in, out ? m.hbm : m.host, out ? m.host : m.hbm, MB);
        ech_trace_builder_dep(m.b, first, 0);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_free(device->links[0].name);
        device->links[0].name = g_strdup("nvlink"); /* of host and device, as in a superchip */
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        ck_assert(run->completed);
        near(run->makespan, 110 * ECH_PS_PER_US, 2, ECH_ENGINE_NATIVE);
    }
}
END_TEST

/* A buffer that a loop frees and allocates anew while another queue still uses it, freed at last on that queue: as if it were freed on the loop's own. */
START_TEST(buffers_may_be_freed_on_two_queues)
{
    EchBytes peak = 0;
    for (int variant = 0; variant < 4; variant++) {
        Maker m = maker_new();
        EchId second = ech_trace_builder_queue(m.b, "second", ECH_QUEUE_COMPUTE, 0);
        EchId buffer = add_buffer(&m, m.hbm, MB, true);
        EchId loop = add_loop(&m, m.core, 4, 200);
        EchId user = add_kernel(&m, second, 10 * GB);
        ech_trace_builder_use(m.b, buffer, ECH_READ, MB, ECH_PATTERN_STREAM, ECH_KNOWN);
        add_target(&m, ECH_OP_FREE, m.core, buffer);
        add_target(&m, ECH_OP_ALLOC, m.core, buffer);
        add_kernel(&m, m.core, GB);
        ech_trace_builder_dep(m.b, user, 2);
        add_target(&m, ECH_OP_FREE, variant & 1 ? second : m.core, buffer);
        ech_trace_builder_dep(m.b, loop, 0);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_autoptr(EchRun) run = replay_skipping(trace, device, variant & 2);
        ck_assert(run->completed);
        ck_assert_uint_eq(run->memories[0].allocs, run->memories[0].frees);
        ck_assert_uint_eq(run->memories[0].end_live, 0);
        if (variant == 0)
            peak = run->memories[0].peak_live;
        ck_assert_uint_gt(peak, 3 * MB + MB / 2);
        ck_assert_uint_eq(run->memories[0].peak_live, peak);
    }
}
END_TEST

/* What one iteration allocates another queue frees, or uses, in the next: not before it is there. */
START_TEST(buffers_of_the_iteration_before_are_awaited)
{
    for (int variant = 0; variant < 4; variant++) {
        Maker m = maker_new();
        EchId second = ech_trace_builder_queue(m.b, "second", ECH_QUEUE_COMPUTE, 0);
        EchId buffer = add_buffer(&m, m.hbm, MB, true);
        bool uses = variant & 1;
        add_loop(&m, m.core, uses ? 4 : 3, 20);
        if (uses) {
            add_kernel(&m, second, MB);
            ech_trace_builder_use(m.b, buffer, ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
        }
        add_target(&m, ECH_OP_FREE, uses ? m.core : second, buffer);
        add_kernel(&m, m.core, GB);
        add_target(&m, ECH_OP_ALLOC, m.core, buffer);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_autoptr(EchRun) run = replay_skipping(trace, device, variant & 2);
        ck_assert(run->completed);
        ck_assert_uint_eq(run->memories[0].allocs, 20 + 1); /* and what is there from the start */
        ck_assert_uint_eq(run->memories[0].frees, 20);
        ck_assert_uint_le(run->memories[0].peak_live, MB + MB / 2);
        for (size_t i = 0; variant == 1 && i < run->n_spans; i++) { /* the users begin when the iteration before has ended */
            const EchSpan *span = &run->spans[i];
            if (span->queue == second)
                ck_assert_int_ge(span->start, (EchTime)span->iteration * ECH_PS_PER_MS);
        }
    }
}
END_TEST

/* A loop allocates a buffer anew, time after time, and another queue frees the last one behind it: not an earlier one, and not before. A loop that never runs
 * makes none to wait for. */
START_TEST(last_allocations_of_loops_are_awaited)
{
    for (uint64_t trips = 0; trips < 4; trips++) {
        Maker m = maker_new();
        EchId second = ech_trace_builder_queue(m.b, "second", ECH_QUEUE_COMPUTE, 0);
        EchId buffer = add_buffer(&m, m.hbm, MB, true);
        add_loop(&m, m.core, 3, trips);
        add_target(&m, ECH_OP_FREE, m.core, buffer);
        add_kernel(&m, m.core, GB);
        add_target(&m, ECH_OP_ALLOC, m.core, buffer);
        add_target(&m, ECH_OP_FREE, second, buffer);
        g_autoptr(EchTrace) trace = finish(&m);
        g_autoptr(EchDevice) device = make_device(0);
        g_autoptr(EchRun) run = replay(trace, device, default_options(ECH_ENGINE_NATIVE));
        ck_assert(run->completed);
        ck_assert_uint_eq(run->memories[0].end_live, 0);
        ck_assert_uint_eq(run->memories[0].frees, run->memories[0].allocs);
    }
}
END_TEST

/* An estimate becomes amounts, so that a faster memory shows. */
START_TEST(estimates_follow_the_device)
{
    Maker m = maker_new();
    EchId a = add_buffer(&m, m.hbm, 30 * MB, true);
    EchId kernel = add_kernel(&m, m.core, 1000);
    ech_trace_builder_use(m.b, a, ECH_READ, 30 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_peek_op(m.b, kernel)->estimate = 40 * ECH_PS_PER_US;
    ech_trace_builder_peek_op(m.b, kernel)->estimate_origin = ECH_KNOWN;
    g_autoptr(EchTrace) trace = finish(&m);
    g_autoptr(EchDevice) device = make_device(0), twice = make_fast_device();
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, NULL);
    near(run->makespan, 40 * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    ck_assert_uint_eq(run->provenance.kernels[ECH_PRICE_ESTIMATE], 1);
    g_autoptr(EchRun) fast = ech_replay_run(trace, twice, device, &options, NULL);
    /* 2.446 us are fill and drain, the rest halves. */
    near(fast->makespan, INT64_C(2446000) + (40 * ECH_PS_PER_US - 2446000) / 2, 1, ECH_ENGINE_NATIVE);
    options.kernel_time = ECH_KERNEL_TIME_ROOFLINE;
    g_autoptr(EchRun) roofline = ech_replay_run(trace, device, NULL, &options, NULL);
    near(roofline->makespan, 30 * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    /* Memory bounds it, but not where the reads are a small part of the estimate. */
    ck_assert_uint_lt(run->spans[0].resource, run->n_resources);
    Maker slow = maker_new();
    a = add_buffer(&slow, slow.hbm, 30 * MB, true);
    kernel = add_kernel(&slow, slow.core, 1000);
    ech_trace_builder_use(slow.b, a, ECH_READ, 30 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_peek_op(slow.b, kernel)->estimate = 100 * ECH_PS_PER_US;
    ech_trace_builder_peek_op(slow.b, kernel)->estimate_origin = ECH_KNOWN;
    g_autoptr(EchTrace) waiting = finish(&slow);
    options.kernel_time = ECH_KERNEL_TIME_AUTO;
    g_autoptr(EchRun) waited = ech_replay_run(waiting, device, NULL, &options, NULL);
    near(waited->makespan, 100 * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    ck_assert_uint_eq(waited->spans[0].resource, ECH_NONE);
}
END_TEST

/* A kernel that reads 30 MB of hbm and was recorded to take @duration. */
static Maker maker_with_recorded(EchTime duration)
{
    Maker m = maker_new();
    EchId read = add_buffer(&m, m.hbm, 30 * MB, true);
    EchId kernel = add_kernel(&m, m.core, 0);
    ech_trace_builder_use(m.b, read, ECH_READ, 30 * MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_peek_op(m.b, kernel)->recorded = (EchRecorded){0, duration};
    return m;
}

/* A GPU kernel recorded a little above its roofline has its memory busy all along; one recorded at several times of it waits for something else, and leaves
 * the memory to a copy beside it. */
START_TEST(recorded_kernels_take_what_they_move)
{
    static const struct {
        int64_t recorded_us;
        double together_us; /* with a copy of 3 MB, 30 us alone */
        double twice_us;    /* alone, memory of twice the rate */
    } rows[] = {{40, 43, 2.446 + (40 - 2.446) / 2}, {200, 200, 100}};
    Maker m = maker_with_recorded(rows[_i].recorded_us * ECH_PS_PER_US);
    g_autoptr(EchTrace) alone = finish(&m);
    m = maker_with_recorded(rows[_i].recorded_us * ECH_PS_PER_US);
    add_copy(&m, m.in, m.host, m.hbm, 3 * MB);
    g_autoptr(EchTrace) beside = finish(&m);
    g_autoptr(EchDevice) device = make_device(0), twice = make_fast_device();
    EchReplayOptions options = default_options(ECH_ENGINE_NATIVE);
    g_autoptr(EchRun) run = ech_replay_run(alone, device, device, &options, NULL), both = ech_replay_run(beside, device, device, &options, NULL),
                      fast = ech_replay_run(alone, twice, device, &options, NULL);
    near(run->makespan, rows[_i].recorded_us * ECH_PS_PER_US, 1, ECH_ENGINE_NATIVE);
    ck_assert_double_eq_tol((double)both->makespan / 1e6, rows[_i].together_us, 0.3);
    ck_assert_double_eq_tol((double)fast->makespan / 1e6, rows[_i].twice_us, 0.001);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *tests = tcase_create("replay");
    tcase_add_loop_test(tests, serial_chain, 0, 2);
    tcase_add_loop_test(tests, engine_in_turn, 0, 2);
    tcase_add_loop_test(tests, events_release_those_who_wait, 0, G_N_ELEMENTS(engines));
    tcase_add_test(tests, kernels_reach_the_host_over_its_link);
    tcase_add_test(tests, memories_that_are_not_there);
    tcase_add_test(tests, memory_fills_to_its_last_byte);
    tcase_add_test(tests, spans_are_kept_up_to_a_number);
    tcase_add_test(tests, few_points_keep_the_peak);
    tcase_add_test(tests, copies_inside_the_device);
    tcase_add_test(tests, unknown_loops_take_the_count_asked_for);
    tcase_add_test(tests, collectives_hold_multiprocessors);
    tcase_add_test(tests, products_wait_for_a_second_round);
    tcase_add_test(tests, own_power_holds_long_products);
    tcase_add_test(tests, messages_have_directions);
    tcase_add_test(tests, link_in_full_use);
    tcase_add_test(tests, gaps_stay_on_other_devices);
    tcase_add_test(tests, recorded_times_are_carried);
    tcase_add_loop_test(tests, two_fair_copies, 0, 2);
    tcase_add_loop_test(tests, compute_against_copy_on_one_port, 0, 2);
    tcase_add_test(tests, who_was_in_the_way);
    tcase_add_test(tests, copies_alone_are_learnt_of_later);
    tcase_add_test(tests, reads_and_writes_have_their_rates);
    tcase_add_test(tests, scattered_accesses_take_longer);
    tcase_add_loop_test(tests, both_ways_share_a_total, 0, 2);
    tcase_add_loop_test(tests, queues_without_work_pass_copies_on, 0, 2);
    tcase_add_loop_test(tests, queues_learn_of_each_other_later, 0, 2);
    tcase_add_loop_test(tests, double_buffered_pipeline, 0, 2);
    tcase_add_test(tests, steady_loops_are_skipped_exactly);
    tcase_add_test(tests, queues_run_far_apart);
    tcase_add_test(tests, nested_loops_and_inner_steady_states);
    tcase_add_test(tests, carried_buffers_turn_over);
    tcase_add_loop_test(tests, recorded_gaps_are_kept_on_request, 0, 2);
    tcase_add_test(tests, what_did_not_run_together_does_not);
    tcase_add_loop_test(tests, an_emptied_cache_stalls_the_device, 0, 2);
    tcase_add_loop_test(tests, collectives_count_the_bytes_they_send, 0, 2);
    tcase_add_loop_test(tests, collectives_count_what_leaves_the_host, 0, 2);
    tcase_add_test(tests, recorded_collectives_keep_their_waits);
    tcase_add_test(tests, copies_without_a_link_are_told);
    tcase_add_loop_test(tests, ways_of_a_torus_are_links_of_their_own, 0, 2);
    tcase_add_loop_test(tests, allocation_waits_for_a_transfer, 0, 2);
    tcase_add_loop_test(tests, copies_and_kernels_slow_each_other, 0, 2);
    tcase_add_loop_test(tests, copies_both_ways_keep_a_share_beside_kernels, 0, 2);
    tcase_add_test(tests, each_way_slows_as_it_was_measured);
    tcase_add_test(tests, mapping_is_priced_by_pieces);
    tcase_add_test(tests, the_host_allocates_ahead);
    tcase_add_test(tests, the_host_allocates_beside_kernels);
    tcase_add_test(tests, products_have_the_rate_of_their_duty);
    tcase_add_test(tests, the_largest_product_all_of_the_time_is_as_measured);
    tcase_add_loop_test(tests, one_memory_is_waited_for_by_both, 0, 4 * G_N_ELEMENTS(engines));
    tcase_add_test(tests, a_waiting_host_frees_nothing);
    tcase_add_loop_test(tests, what_failed_is_not_waited_for, 0, G_N_ELEMENTS(engines));
    tcase_add_loop_test(tests, what_does_not_fit_is_a_result, 0, 2);
    tcase_add_loop_test(tests, libraries_take_of_the_device, 0, 3);
    tcase_add_test(tests, fixed_offsets_are_checked_against_what_is_available);
    tcase_add_test(tests, copies_are_submitted_ahead);
    tcase_add_test(tests, too_many_operations_are_refused);
    tcase_add_test(tests, loops_that_never_end_are_refused);
    tcase_add_test(tests, sizes_that_never_end_are_refused);
    tcase_add_test(tests, copies_to_peers);
    tcase_add_test(tests, copies_go_on_after_an_exchange);
    tcase_add_test(tests, buffers_may_be_freed_on_two_queues);
    tcase_add_test(tests, buffers_of_the_iteration_before_are_awaited);
    tcase_add_test(tests, last_allocations_of_loops_are_awaited);
    tcase_add_test(tests, estimates_follow_the_device);
    tcase_add_loop_test(tests, recorded_kernels_take_what_they_move, 0, 2);
    const char *cases = g_getenv("ECHELON_TEST_CASES");
    tcase_add_loop_test(tests, random_traces_agree, 0, cases ? atoi(cases) : 40);
    tcase_add_loop_test(tests, random_nests_are_skipped_exactly, 0, cases ? atoi(cases) : 40);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
