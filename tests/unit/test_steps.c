/* Steps between marks of a recorded program, and one alone. */
#include "sim/base/error.h"
#include "sim/experiment/experiment.h"
#include "sim/report/steps.h"
#include "sim/trace/step.h"
#include "tests/support/made.h"

#include <check.h>

static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n";

static void mark(EchTraceBuilder *b, EchId queue, const char *name, EchTime start)
{
    EchId op = ech_test_put(b, ECH_OP_MARK, ECH_NONE);
    EchId text = ech_trace_builder_string(b, name, -1);
    EchOp *made = ech_trace_builder_peek_op(b, op);
    made->queue = queue;
    made->name = text;
    made->recorded = (EchRecorded){start, ECH_TEST_MS};
}

/* Something on a queue of its own that takes @time. */
static void beside(EchTraceBuilder *b, EchId queue, EchTime time)
{
    ech_test_kernel(b, time, ECH_NONE, ECH_READ, 0);
    ech_trace_builder_peek_op(b, (EchId)(ech_trace_builder_n_ops(b) - 1))->queue = queue;
}

/* A kernel of @time that ranges of @stack asked for. */
static void asked(EchTraceBuilder *b, EchTime time, EchId stack)
{
    ech_test_kernel(b, time, ECH_NONE, ECH_READ, 0);
    ech_trace_builder_peek_op(b, (EchId)(ech_trace_builder_n_ops(b) - 1))->stack = stack;
}

static EchStep *steps_of(EchTraceBuilder *b, EchTrace **ret_trace, size_t *ret_n)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    *ret_trace = ech_test_finish(b);
    g_autoptr(EchRun) run = ech_test_replay(*ret_trace, device);
    EchReport report = {.title = "steps", .trace = *ret_trace, .device = device, .run = run};
    return ech_report_steps(&report, ret_n);
}

/* Where nothing but copies is between marks, a step ends with the last of them. */
START_TEST(of_copies)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
    EchId hbm = ech_trace_builder_memory(b, "hbm"), memory = ech_trace_builder_memory(b, "host");
    for (int i = 0; i < 3; i++) {
        g_autofree char *name = g_strdup_printf("step %d", i);
        mark(b, host, name, i * ECH_TEST_MS);
        for (int k = 0; k < 2; k++) {
            EchOp *copy = ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_COPY, ECH_NONE));
            copy->memory_from = hbm;
            copy->memory_to = memory;
            copy->bytes = 4096;
        }
    }
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    size_t n;
    g_autofree EchTraceStep *steps = ech_trace_steps(trace, &n);
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(steps[1].last, steps[2].mark - 1);
}
END_TEST

/* One of copies alone, between two of kernels, is one like any, and the list goes on behind it. */
START_TEST(of_copies_among_kernels)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
    EchId hbm = ech_trace_builder_memory(b, "hbm");
    for (int i = 0; i < 3; i++) {
        g_autofree char *name = g_strdup_printf("step %d", i);
        mark(b, host, name, i * ECH_TEST_MS);
        if (i == 1) {
            EchOp *copy = ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_COPY, ECH_NONE));
            copy->queue = 0;
            copy->memory_from = copy->memory_to = hbm;
            copy->bytes = 50000000;
        } else {
            ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
        }
    }
    g_autoptr(EchTrace) trace = NULL;
    size_t n;
    g_autofree EchStep *steps = steps_of(b, &trace, &n);
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(steps[1].kernels, 0);
    ck_assert_int_ge(steps[1].end - steps[1].start, ECH_TEST_MS / 2);
    ck_assert_uint_eq(steps[2].kernels, 1);
}
END_TEST

/* XLA's programs are steps where nothing else is: those of the one that runs for most of the time, on the first device. @_i: with numbered marks, which go
 * before; with another program that takes longer, but ran once; with several, none of which takes half. */
START_TEST(of_programs)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId programs[2] = {ech_trace_builder_queue(b, ECH_QUEUE_OF_PROGRAMS, ECH_QUEUE_HOST, 0),
                         ech_trace_builder_queue(b, ECH_QUEUE_OF_PROGRAMS, ECH_QUEUE_HOST, 1)};
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
    for (int i = 0; i < 3; i++) {
        mark(b, programs[0], "jit_split(1)", i * 9 * ECH_TEST_MS);
        mark(b, programs[0], "jit_split(1)", i * 9 * ECH_TEST_MS);
        ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
        for (int device = 0; device < 2; device++) {
            mark(b, programs[device], "jit_step(2)", (i * 9 + 2) * ECH_TEST_MS);
            ech_trace_builder_peek_op(b, (EchId)(ech_trace_builder_n_ops(b) - 1))->recorded.duration = 5 * ECH_TEST_MS;
            ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
        }
        g_autofree char *name = g_strdup_printf("step %d", i);
        if (_i == 1 && i < 2)
            mark(b, host, name, (i * 9 + 8) * ECH_TEST_MS);
        if (_i == 3)
            mark(b, programs[0], "jit_a(3)", 0);
    }
    ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    if (_i >= 2) {
        mark(b, programs[0], "jit_long(4)", 30 * ECH_TEST_MS);
        ech_trace_builder_peek_op(b, (EchId)(ech_trace_builder_n_ops(b) - 1))->recorded.duration = (_i == 2 ? 8 : 20) * ECH_TEST_MS;
        ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    }
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    size_t n;
    g_autofree EchTraceStep *steps = ech_trace_steps(trace, &n);
    static const size_t expected[] = {3, 2, 3, 0};
    ck_assert_uint_eq(n, expected[_i]);
    for (size_t i = 0; i < n; i++) {
        const EchOp *op = &ech_trace_ops(trace)[steps[i].mark];
        ck_assert_str_eq(ech_trace_string(trace, op->name), _i == 1 ? (i == 0 ? "step 0" : "step 1") : "jit_step(2)");
        ck_assert_uint_eq(ech_trace_queues(trace)[op->queue].device, 0);
    }
}
END_TEST

/* Calls of the module with most kernels outside of others are steps (a prompt, then tokens), but where something is trained. @_i: an optimizer steps
 * once; a server's own marks go before; an encoder that is called more often has fewer
 * kernels, and what another module makes of it at the end is of no step. */
START_TEST(by_calls_of_a_module)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "nvtx", ECH_QUEUE_HOST, 0);
    ech_test_kernel(b, 5 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    for (int i = 0; i < (_i == 3 ? 4 : 1); i++)
        mark(b, host, "nn.Module: Encoder", 0);
    ech_test_kernel(b, 4 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    for (int i = 0; i < 3; i++) {
        if (_i == 2)
            mark(b, host, i == 0 ? "server step: 500 tokens of 2 requests" : "server step: 2 tokens of 2 requests", 0);
        mark(b, host, "nn.Module: Decoder", 0);
        ech_test_kernel(b, (i == 0 ? 3 : 1) * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    }
    if (_i == 1)
        mark(b, host, "Optimizer.step#SGD.step", 0);
    if (_i == 3) {
        mark(b, host, "nn.Module: Vae", 0);
        ech_test_kernel(b, 7 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    }
    g_autoptr(EchTrace) trace = NULL;
    size_t n;
    g_autofree EchStep *steps = steps_of(b, &trace, &n);
    static const size_t expected[] = {3, 0, 3, 3};
    ck_assert_uint_eq(n, expected[_i]);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(steps[i].name, _i != 2  ? "nn.Module: Decoder"
                                        : i == 0 ? "server step: 500 tokens of 2 requests"
                                                 : "server step: 2 tokens of 2 requests");
        ck_assert_int_eq(steps[i].end - steps[i].start, (i == 0 ? 3 : 1) * ECH_TEST_MS);
    }
}
END_TEST

/* The first step begins when what was asked for before it has ended, though its host works beside that. */
START_TEST(host_ahead)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "nvtx", ECH_QUEUE_HOST, 0), pins = ech_trace_builder_queue(b, "pins", ECH_QUEUE_HOST, 0);
    ech_test_kernel(b, 5 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    for (int i = 0; i < 2; i++) {
        mark(b, host, i == 0 ? "step 1" : "step 2", 0);
        beside(b, pins, ECH_TEST_MS);
        ech_test_kernel(b, 3 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    }
    g_autoptr(EchTrace) trace = NULL;
    size_t n;
    g_autofree EchStep *steps = steps_of(b, &trace, &n);
    ck_assert_uint_eq(n, 2);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(steps[i].end - steps[i].start, 3 * ECH_TEST_MS);
}
END_TEST

/* A step ends with the last of its kernels, on whichever queue; what was issued before the first mark is of none, and so is a mark on the device's side. */
START_TEST(numbered)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0), other = ech_trace_builder_queue(b, "other", ECH_QUEUE_COMPUTE, 0);
    mark(b, host, "warm-up 1", 0);
    ech_test_kernel(b, 7 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    mark(b, host, "ProfilerStep#9", 10 * ECH_TEST_MS);
    mark(b, 0, "ProfilerStep#9", 10 * ECH_TEST_MS);
    ech_test_kernel(b, 2 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    mark(b, host, "Optimizer.step#Adam.step", 11 * ECH_TEST_MS);
    EchId state = ech_test_buffer(b, "state", 1 << 20, ECH_ROLE_OPTIMIZER, false), saved = ech_test_buffer(b, "saved", 3 << 20, ECH_ROLE_ACTIVATION, false);
    ech_test_put(b, ECH_OP_ALLOC, state);
    ech_test_kernel(b, ECH_TEST_MS, state, ECH_WRITE, 1);
    mark(b, host, "ProfilerStep#10", 30 * ECH_TEST_MS);
    ech_test_put(b, ECH_OP_ALLOC, saved);
    ech_test_kernel(b, 2 * ECH_TEST_MS, saved, ECH_WRITE, 1);
    ech_test_put(b, ECH_OP_FREE, saved);
    mark(b, host, "Optimizer.step#Adam.step", 31 * ECH_TEST_MS);
    mark(b, host, "Optimizer.step#Adam.step", 32 * ECH_TEST_MS);
    beside(b, other, 100 * ECH_TEST_MS);
    mark(b, host, "ProfilerStep#11", 35 * ECH_TEST_MS);
    g_autoptr(EchTrace) trace = NULL;
    size_t n;
    g_autofree EchStep *steps = steps_of(b, &trace, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(steps[0].name, "ProfilerStep#9");
    ck_assert_uint_eq(steps[0].kernels, 2);
    ck_assert_uint_eq(steps[1].kernels, 2);
    ck_assert_int_eq(steps[0].recorded, 20 * ECH_TEST_MS);
    ck_assert_int_eq(steps[1].recorded, 5 * ECH_TEST_MS);
    /* The other queue is free from the start and takes half the unit, until it has it alone. */
    ck_assert_int_eq(steps[0].start, 14 * ECH_TEST_MS);
    ck_assert_int_eq(steps[0].end, 20 * ECH_TEST_MS);
    ck_assert_int_eq(steps[1].start, steps[0].end);
    ck_assert_int_eq(steps[1].end, 112 * ECH_TEST_MS);
    ck_assert_uint_eq(steps[0].peak, 1 << 20);
    ck_assert_uint_eq(steps[1].peak, 4 << 20);
}
END_TEST

/* Nothing is numbered: from one optimizer's step to the next. What follows the last one is no step. */
START_TEST(by_optimizer)
{
    for (unsigned marks = 1; marks <= 3; marks++) {
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
        for (unsigned i = 0; i < marks; i++) {
            mark(b, host, "forward", ECH_TIME_NONE);
            mark(b, host, "Optimizer.step#SGD.step", ECH_TIME_NONE);
            ech_test_kernel(b, (i + 1) * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
        }
        g_autoptr(EchTrace) trace = NULL;
        size_t n;
        g_autofree EchStep *steps = steps_of(b, &trace, &n);
        ck_assert_uint_eq(n, marks - 1);
        if (n == 2) {
            ck_assert_int_eq(steps[0].recorded, ECH_TIME_NONE);
            ck_assert_int_eq(steps[0].end, ECH_TEST_MS);
            ck_assert_int_eq(steps[1].end - steps[1].start, 2 * ECH_TEST_MS);
        }
    }
}
END_TEST

/* An optimizer for each parameter, within the backward pass: a step is from the first one after a forward pass to the next such. */
START_TEST(by_optimizers_of_each_parameter)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
    EchId module = ech_trace_builder_string(b, "nn.Module: layers.0 (Linear)", -1),
          node = ech_trace_builder_string(b, "nn.Module: layers.0 (Linear)\nautograd::engine::evaluate_function: CheckpointFunctionBackward", -1);
    for (unsigned step = 0; step < 3; step++) {
        asked(b, ECH_TEST_MS, module);
        for (unsigned parameter = 0; parameter < 4; parameter++) {
            asked(b, 2 * ECH_TEST_MS, node);
            mark(b, host, "Optimizer.step#AdamW.step", ECH_TIME_NONE);
        }
    }
    g_autoptr(EchTrace) trace = NULL;
    size_t n;
    g_autofree EchStep *steps = steps_of(b, &trace, &n);
    ck_assert_uint_eq(n, 2);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(steps[i].kernels, 5);
        ck_assert_int_eq(steps[i].end - steps[i].start, 9 * ECH_TEST_MS);
    }
}
END_TEST

/* A step of one of several optimizers, which writes @parameter. */
static void step_of(EchTraceBuilder *b, EchId queue, EchId parameter)
{
    mark(b, queue, "Optimizer.step#Adam.step", ECH_TIME_NONE);
    ech_test_kernel(b, ECH_TEST_MS, parameter, ECH_WRITE, 4);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, "Optimizer.step#Adam.step", -1);
}

/* Several optimizers of one class, told apart by what they write: a step goes from one of them to its next, with all others in between; also where it is cut
 * out. Where none has all others in between, or there is but one, each step is one. */
START_TEST(by_optimizers_in_turn)
{
    static const struct {
        const char *order; /* which optimizer, one after the other */
        size_t steps, kernels;
    } cases[] = {{"aabaabaab", 2, 6}, {"abcabcabc", 2, 6}, {"aaabab", 1, 4}, {"aaaabbbbaaaabbbb", 15, 2}, {"aaaa", 3, 2}, {"aab", 2, 2}};
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0), module = ech_trace_builder_string(b, "nn.Module: layers.0 (Linear)", -1),
              written[3];
        for (size_t k = 0; k < G_N_ELEMENTS(written); k++)
            written[k] = ech_test_buffer(b, "parameter", 4, ECH_ROLE_PARAMETER, true);
        for (const char *at = cases[c].order; *at; at++) {
            asked(b, ECH_TEST_MS, module);
            step_of(b, host, written[*at - 'a']);
        }
        g_autoptr(EchTrace) trace = NULL;
        size_t n, n_alone;
        g_autofree EchStep *steps = steps_of(b, &trace, &n);
        ck_assert_msg(n == cases[c].steps, "%s: %zu", cases[c].order, n);
        ck_assert_uint_eq(steps[n - 1].kernels, cases[c].kernels);
        ck_assert(steps[n - 1].others == (cases[c].kernels > 2));
        g_autofree EchTraceStep *parts = ech_trace_steps(trace, &n);
        GError *error = NULL;
        g_autoptr(EchTrace) part = ech_trace_part(trace, parts[n - 1].mark, parts[n - 1].next + 1, &error);
        ck_assert_ok(part != NULL, error);
        g_autofree EchTraceStep *alone = ech_trace_steps(part, &n_alone);
        ck_assert_uint_eq(n_alone, 1);
        ck_assert(alone[0].others == (cases[c].kernels > 2));
    }
}
END_TEST

/* Where not all calls are given as many rows, the last step with as many as most have stands for all; the last, where all have others. */
START_TEST(of_usual_batches)
{
    static const struct {
        const char *rows; /* of each step */
        size_t usual;
    } cases[] = {{"883", 1}, {"83", 0}, {"8838", 3}, {"338", 1}, {"8765", 3}, {"88", 1}};
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId host = ech_trace_builder_queue(b, "host", ECH_QUEUE_HOST, 0);
        ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
        mark(b, host, "Optimizer.step#AdamW.step", ECH_TIME_NONE);
        for (const char *at = cases[c].rows; *at; at++) {
            g_autofree char *name = g_strdup_printf(ECH_MARK_GIVEN, (uint64_t)(*at - '0'));
            mark(b, host, name, ECH_TIME_NONE);
            ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
            mark(b, host, "Optimizer.step#AdamW.step", ECH_TIME_NONE);
        }
        g_autoptr(EchTrace) trace = ech_test_finish(b);
        size_t n;
        g_autofree EchTraceStep *steps = ech_trace_steps(trace, &n);
        ck_assert_uint_eq(n, strlen(cases[c].rows));
        ck_assert_uint_eq(steps[n - 1].rows, (uint64_t)(cases[c].rows[n - 1] - '0'));
        ck_assert_msg(ech_trace_usual_step(steps, n) == cases[c].usual, "%s: %zu", cases[c].rows, ech_trace_usual_step(steps, n));
    }
}
END_TEST

/* What is alive is resident, what was waited for has been, what is left has the numbers that it had. */
START_TEST(one_alone)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId other = ech_trace_builder_queue(b, "other", ECH_QUEUE_COMPUTE, 0);
    EchId gone = ech_test_buffer(b, "gone", 1000, ECH_ROLE_TEMPORARY, false), kept = ech_test_buffer(b, "kept", 2000, ECH_ROLE_ACTIVATION, false),
          made = ech_test_buffer(b, "made", 3000, ECH_ROLE_TEMPORARY, false);
    EchBuffer view = *ech_trace_builder_peek_buffer(b, kept);
    view.alias_of = kept;
    view.alias_offset = 1000;
    view.bytes = 500;
    EchId alias = ech_trace_builder_buffer(b, view);
    ech_test_put(b, ECH_OP_ALLOC, gone);
    ech_test_put(b, ECH_OP_ALLOC, kept);
    ech_test_kernel(b, ECH_TEST_MS, gone, ECH_WRITE, 1);
    ech_test_put(b, ECH_OP_FREE, gone);
    ech_test_put(b, ECH_OP_SIGNAL, 7);
    EchId begin = (EchId)ech_trace_builder_n_ops(b);
    EchId been = ech_test_put(b, ECH_OP_WAIT, 7), first = ech_test_put(b, ECH_OP_ALLOC, made);
    ech_test_kernel(b, ECH_TEST_MS, alias, ECH_READ, 1);
    ech_trace_builder_dep(b, begin - 3, 0);
    ech_trace_builder_dep(b, first, 0);
    ech_test_put(b, ECH_OP_SIGNAL, 8);
    EchId loop = ech_test_loop(b, 3);
    EchId waits = ech_test_put(b, ECH_OP_WAIT, 8);
    ech_trace_builder_peek_op(b, waits)->queue = ech_trace_builder_peek_op(b, loop)->queue = other;
    ech_test_close_loop(b, loop);
    EchId end = (EchId)ech_trace_builder_n_ops(b);
    ech_test_put(b, ECH_OP_FREE, kept);
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) part = ech_trace_part(trace, begin, end, &error);
    ck_assert_ok(part != NULL, error);
    const EchOp *ops = ech_trace_ops(part);
    ck_assert_uint_eq(ech_trace_n_ops(part), end - begin);
    ck_assert_int_eq(ops[been - begin].kind, ECH_OP_MARK);
    ck_assert_uint_eq(ops[been - begin].target, ECH_NONE);
    ck_assert_uint_eq(ops[2].n_deps, 1);
    ck_assert_uint_eq(ech_trace_deps(part)[ops[2].first_dep].op, first - begin);
    ck_assert_int_eq(ops[waits - begin].kind, ECH_OP_WAIT);
    ck_assert_uint_eq(ops[waits - begin].target, 8);
    const EchBuffer *buffers = ech_trace_buffers(part);
    ck_assert(!buffers[gone].resident && buffers[gone].bytes == 0);
    ck_assert(buffers[kept].resident && buffers[kept].bytes == 2000);
    ck_assert(buffers[alias].alias_of == kept && buffers[alias].alias_offset == 1000 && buffers[alias].bytes == 500);
    ck_assert(!buffers[made].resident && buffers[made].bytes == 3000);
    /* Neither end within the loop. */
    ck_assert_ptr_null(ech_trace_part(trace, waits, end, &error));
    ck_assert_int_eq(error->code, ECH_ERROR_UNSUPPORTED);
    g_clear_error(&error);
    ck_assert_ptr_null(ech_trace_part(trace, begin, waits, &error));
    ck_assert_int_eq(error->code, ECH_ERROR_UNSUPPORTED);
}
END_TEST

/* What @trace does from @begin on, after what came before. */
static EchRun *run_from(EchTrace *trace, EchId begin, const char *allocator, EchTrace **ret_part)
{
    g_autoptr(GError) error = NULL;
    *ret_part = ech_trace_part(trace, begin, (EchId)ech_trace_n_ops(trace), &error);
    ck_assert_ok(*ret_part != NULL, error);
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_free(options.allocator);
    options.allocator = g_strdup(allocator);
    options.whole = trace;
    options.n_before = begin;
    EchRun *run = ech_replay_run(*ret_part, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ok(run != NULL, error);
    return run;
}

/* Nothing of what was held before is asked for again where it has no room: then the program would not have come so far. */
START_TEST(no_room_before)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId large = ech_test_buffer(b, "large", 6000000000, ECH_ROLE_TEMPORARY, false),
          small = ech_test_buffer(b, "small", 3000000000, ECH_ROLE_TEMPORARY, false);
    ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_put(b, ECH_OP_ALLOC, small);
    ech_test_put(b, ECH_OP_FREE, large);
    ech_test_kernel(b, ECH_TEST_MS, small, ECH_READ, 1);
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    g_autoptr(EchTrace) part = NULL;
    g_autoptr(EchRun) run = run_from(trace, 3, "best_fit", &part);
    ck_assert(!run->fits && !run->completed);
    ck_assert(run->failure.op == ECH_NONE && run->failure.buffer == small);
    ck_assert_uint_eq(run->failure.n_holders, 1);
    ck_assert_uint_eq(run->failure.holders[0].buffer, large);
    ck_assert_uint_eq(run->failure.asked, 3000000000);
    ck_assert_uint_ge(run->failure.live, 6000000000);
}
END_TEST

/* What was reserved before a step and given back by then is not reserved in it. */
START_TEST(given_back_before)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId large = ech_test_buffer(b, "large", 6000000000, ECH_ROLE_TEMPORARY, false),
          small = ech_test_buffer(b, "small", 3000000000, ECH_ROLE_TEMPORARY, false);
    ech_test_put(b, ECH_OP_ALLOC, large);
    ech_test_put(b, ECH_OP_FREE, large);
    ech_test_put(b, ECH_OP_ALLOC, small);
    ech_test_kernel(b, ECH_TEST_MS, small, ECH_READ, 1);
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    g_autoptr(EchTrace) part = NULL;
    g_autoptr(EchRun) run = run_from(trace, 2, "platform", &part);
    const EchMemoryRun *hbm = &run->memories[0];
    ck_assert_str_eq(hbm->name, "hbm");
    ck_assert_uint_ge(hbm->peak_reserved, 3000000000);
    ck_assert_uint_lt(hbm->peak_reserved, 3100000000);
    ck_assert_uint_eq(hbm->alloc.peak_reserved, hbm->peak_reserved);
    ck_assert_uint_eq(hbm->alloc.peak_taken, hbm->peak_reserved);
}
END_TEST

static EchResult *run_capture(const char *name, const char *step)
{
    g_autofree char *path = g_strconcat(ECH_SOURCE_DIR "/traces/", name, NULL);
    const char *const settings[] = {"replay.engine=native", NULL};
    const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm", .step = step, .settings = settings};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    EchResult *result = ech_experiment_run(experiment, 0, &error);
    ck_assert_ok(result != NULL, error);
    return result;
}

/* A step alone takes what it takes in the run of all: the host is as far ahead of the device when it begins. */
static const char *const captures[] = {"data_parallel_pytorch.h100/ddp.pretend.gz",
                                       "data_parallel_pytorch.h100/fsdp.pretend.gz",
                                       "data_parallel_pytorch.h100/zero1.pretend.gz",
                                       "data_parallel_pytorch.h100/zero2.pretend.gz",
                                       "gpt_pytorch.h100",
                                       "gpt_pytorch_compiled.h100/whole.pretend.gz",
                                       "gpt_pytorch_measures.h100/save_on_cpu.pretend.gz",
                                       "pipeline_pytorch.h100/rank1.pretend.gz",
                                       "gpu_h100-sxm/torch_pretended.1293.pretend.gz"};

START_TEST(alone_as_in_the_whole)
{
    g_autoptr(EchResult) whole = run_capture(captures[_i], NULL), alone = run_capture(captures[_i], "last");
    EchReport report = ech_result_report(whole), of_step = ech_result_report(alone);
    size_t n, one;
    g_autofree EchStep *steps = ech_report_steps(&report, &n);
    g_autofree EchStep *step = ech_report_steps(&of_step, &one);
    ck_assert_uint_ge(n, 1);
    EchTime told = steps[n - 1].end - steps[n - 1].start;
    ck_assert_int_le(ABS(alone->run->makespan - told), told / 1000);
    ck_assert_int_ge(alone->run->makespan, alone->run->lower_bound);
    ck_assert_int_le(alone->run->makespan, alone->run->serial);
    if (one > 0)
        ck_assert_int_eq(step[0].start, 0);
}
END_TEST

/* Runs of XLA's programs on a GPU that is not there: of a loop that calls several, one each time, the one with most to do; what ran once or is another loop's
 * tells none. Of two devices, which run the same, one run is one step. */
START_TEST(by_programs_runs)
{
    enum { LOSS = 3, UPDATE, OTHER, INSTRUCTION };
    g_autoptr(GString) text = g_string_new("echelon-pretend 1\nclock 1\ndevice 80000000000 0 2 \"h100-sxm\"\nname 1 \"k(float const*, float*)\"\n"
                                           "name 2 \"range\"\nname 3 \"jit_loss\"\nname 4 \"jit_update\"\nname 5 \"jit_draw\"\nname 6 \"fusion\"\n"
                                           "alloc 1 0 0 1000000000 268435456 3 0\nalloc 1 1 0 2000000000 268435456 3 0\n");
    static const struct {
        int program, bytes;
    } loop[] = {{OTHER, 1 << 20}, {OTHER, 1 << 20}, {LOSS, 100 << 20}, {UPDATE, 60 << 20}};
    unsigned time = 2, run = 0;
    for (int round = 0; round < 4; round++)
        for (size_t k = 0; k < G_N_ELEMENTS(loop); k++) {
            run++;
            for (int device = 0; device < 2; device++)
                g_string_append_printf(text, "kernel %u %d 0 1 4096 1 1 256 1 1 0\nuses 1 %d000000000 %d\nof %u %d 7 6\n", time++, device, device + 1,
                                       loop[k].bytes, run, loop[k].program);
        }
    g_string_append(text, "end\n");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text->str, &error);
    ck_assert_ok(import != NULL, error);
    size_t n;
    g_autofree EchTraceStep *steps = ech_trace_steps(import->trace, &n);
    ck_assert_uint_eq(n, 4);
    for (size_t i = 0; i < n; i++) {
        const char *name = ech_trace_string(import->trace, ech_trace_ops(import->trace)[steps[i].mark].name);
        ck_assert_str_eq(name, "jit_loss(7)");
        size_t kernels = 0;
        for (EchId op = steps[i].mark; op < steps[i].end; op++)
            kernels += ech_trace_ops(import->trace)[op].kind == ECH_OP_KERNEL;
        ck_assert_uint_eq(kernels, i + 1 < n ? 8 : 4);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("steps");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, of_copies);
    tcase_add_loop_test(tcase, of_programs, 0, 4);
    tcase_add_loop_test(tcase, by_calls_of_a_module, 0, 4);
    tcase_add_test(tcase, host_ahead);
    tcase_add_test(tcase, of_copies_among_kernels);
    tcase_add_test(tcase, numbered);
    tcase_add_test(tcase, by_optimizer);
    tcase_add_test(tcase, by_optimizers_of_each_parameter);
    tcase_add_test(tcase, by_optimizers_in_turn);
    tcase_add_test(tcase, of_usual_batches);
    tcase_add_test(tcase, one_alone);
    tcase_add_test(tcase, no_room_before);
    tcase_add_test(tcase, given_back_before);
    tcase_add_loop_test(tcase, alone_as_in_the_whole, 0, G_N_ELEMENTS(captures));
    tcase_add_test(tcase, by_programs_runs);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
