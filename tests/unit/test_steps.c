/* Steps between marks of a recorded program. */
#include "sim/report/steps.h"
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

int main(void)
{
    Suite *suite = suite_create("steps");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, numbered);
    tcase_add_test(tcase, by_optimizer);
    tcase_add_test(tcase, by_optimizers_of_each_parameter);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
