/* The fuse pass: an optimizer's kernels over lists as one, on traces made by hand. */
#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/pass/pass.h"
#include "tests/support/made.h"

#include <check.h>
#include <string.h>

/* A gigabyte takes 10 ms through the memory and 100 ms over the link. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 80GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n";
static const EchTime ms = ECH_TEST_MS;
static const EchBytes GB = 1000000000;
enum { N = 3 }; /* parameters of a gigabyte */

typedef struct {
    EchTraceBuilder *b;
    EchId parameters[N], gradients[N], moments[N];
    const char *optimizer;
} Made;

static void kernel(Made *m, const char *operator, const EchId * reads, const EchId *more, const EchId *writes)
{
    ech_test_kernel(m->b, 0, ECH_NONE, ECH_READ, 0);
    for (unsigned k = 0; reads && k < N; k++)
        ech_trace_builder_use(m->b, reads[k], ECH_READ, GB, ECH_PATTERN_STREAM, ECH_INFERRED);
    for (unsigned k = 0; more && k < N; k++)
        ech_trace_builder_use(m->b, more[k], ECH_READ, GB, ECH_PATTERN_STREAM, ECH_INFERRED);
    for (unsigned k = 0; writes && k < N; k++)
        ech_trace_builder_use(m->b, writes[k], ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_INFERRED);
    g_autofree char *stack = m->optimizer ? g_strdup_printf("aten::%s\nOptimizer.step#%s.step", operator, m->optimizer) : g_strdup_printf("aten::%s", operator);
    ech_trace_builder_peek_op(m->b, (EchId)ech_trace_builder_n_ops(m->b) - 1)->stack = ech_trace_builder_string(m->b, stack, -1);
}

static void put_all(Made *m, EchOpKind kind, const EchId *buffers)
{
    for (unsigned k = 0; k < N; k++)
        (void)ech_test_put(m->b, kind, buffers[k]);
}

/* Momentum by the gradient, its root times the rate, the parameters by that: 3 + 2 + 3 lists moved and one made, where one kernel reads three and writes two.
 */
static void step(Made *m, bool read_by_others)
{
    EchId root[N];
    for (unsigned k = 0; k < N; k++)
        root[k] = ech_test_buffer(m->b, "root", GB, ECH_ROLE_TEMPORARY, false);
    kernel(m, "_foreach_addcmul_", m->moments, m->gradients, m->moments);
    put_all(m, ECH_OP_ALLOC, root);
    kernel(m, "_foreach_sqrt", m->moments, NULL, root);
    if (read_by_others) {
        const char *optimizer = m->optimizer;
        m->optimizer = NULL;
        kernel(m, "norm", root, NULL, NULL);
        m->optimizer = optimizer;
    }
    kernel(m, "_foreach_addcdiv_", m->parameters, root, m->parameters);
    put_all(m, ECH_OP_FREE, root);
}

static EchTrace *made(const char *optimizer, unsigned steps, bool read_by_others)
{
    Made m = {.b = ech_test_begin(), .optimizer = optimizer};
    for (unsigned k = 0; k < N; k++) {
        m.parameters[k] = ech_test_buffer(m.b, "p", GB, ECH_ROLE_PARAMETER, true);
        m.gradients[k] = ech_test_buffer(m.b, "g", GB, ECH_ROLE_GRADIENT, true);
        m.moments[k] = ech_test_buffer(m.b, "m", GB, ECH_ROLE_OPTIMIZER, true);
    }
    for (unsigned k = 0; k < steps; k++) {
        m.optimizer = NULL;
        kernel(&m, "mm", m.parameters, NULL, m.gradients);
        m.optimizer = optimizer;
        step(&m, read_by_others);
    }
    EchTrace *trace = ech_test_finish(m.b);
    ech_trace_builder_free(m.b);
    return trace;
}

/* Kernels, gigabytes at most, and milliseconds: forty for each product, then each list of three gigabytes thirty. */
static const struct {
    const char *optimizer;
    unsigned steps;
    bool read_by_others;
    unsigned kernels, most;
    EchTime time;
} cases[] = {
    {"AdamW", 1, false, 1 + 1, 9, 60 + 5 * 30},
    {"Adam", 2, false, 2 * (1 + 1), 9, 2 * (60 + 5 * 30)},
    {"SGD", 1, false, 1 + 1, 9, 60 + 5 * 30},
    {"Adagrad", 1, false, 1 + 1, 9, 60 + 5 * 30},
    {"RMSprop", 1, false, 1 + 3, 12, 60 + 8 * 30},                      /* has none of one kernel */
    {"AdamW", 1, true, 1 + 1 + 1 + 1, 12, 60 + (2 + 2) * 30 + 30 + 90}, /* what others read between is made: two kernels, and the third alone */
};

START_TEST(one_kernel)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = made(cases[_i].optimizer, cases[_i].steps, cases[_i].read_by_others);
    const char *const specs[] = {"fuse", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_KERNEL), cases[_i].kernels);
    ck_assert_uint_eq(ech_test_peak(run, "hbm") / GB, cases[_i].most);
    ck_assert_int_eq((run->makespan + ms / 2) / ms, cases[_i].time);
}
END_TEST

/* Gradients go as they are done, 100 ms each, and parameters come back, each when the host has read three gigabytes for it and written two; the host has both,
 * too, and the moments. */
static const struct {
    const char *optimizer;
    unsigned steps;
    bool read_by_others;
    unsigned kernels, most, most_there;
    EchTime time, slower; /* where the host's processors read and write 20 GB/s: 250 ms for each */
} on_host[] = {
    {"AdamW", 1, false, 1 + N, 6, 9, 60 + 300 + 300, 60 + 300 + 750 + 100},
    {"RMSprop", 2, false, 2 * (1 + N), 6, 9, 2 * (60 + 300 + 300), 2 * (60 + 300 + 750 + 100)},
    /* What others read between is there all the same, and what is before it changes no parameter: the host is not asked for that. */
    {"SGD", 1, true, 1 + 1 + N, 9, 9, 60 + 300 + 300 + 30, 60 + 300 + 450 + 100 + 30},
};

START_TEST(runs_on_host)
{
    g_autofree char *quick = g_strconcat(device_text, "runtime: {processor_rate: 100TB/s}\n", NULL);
    g_autofree char *text = g_strconcat(device_text, "runtime: {processor_rate: 20GB/s}\n", NULL);
    g_autoptr(EchDevice) device = ech_test_device_yaml(quick), slow = ech_test_device_yaml(text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = made(on_host[_i].optimizer, on_host[_i].steps, on_host[_i].read_by_others);
    const char *const specs[] = {"fuse:where=host", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_KERNEL), on_host[_i].kernels);
    ck_assert_uint_eq(ech_test_peak(run, "hbm") / GB, on_host[_i].most);
    ck_assert_uint_eq(ech_test_peak(run, "host") / GB, on_host[_i].most_there);
    ck_assert_int_eq((run->makespan + ms / 2) / ms, on_host[_i].time);
    g_autoptr(EchRun) slower = ech_test_replay(out, slow);
    ck_assert_int_eq((slower->makespan + ms / 2) / ms, on_host[_i].slower);
    for (size_t i = 0; i < ech_trace_n_ops(out); i++) {
        const EchOp *op = &ech_trace_ops(out)[i];
        if (op->kind == ECH_OP_COPY && op->memory_to == ech_trace_find_memory(out, "hbm")) /* which is the optimizer's work still */
            ck_assert(op->stack != ECH_NONE && strstr(ech_trace_string(out, op->stack), "Optimizer.step#"));
    }
}
END_TEST

/* Mixed precision, as DeepSpeed has it: the optimizer updates weights of its own, and the model's are made of those behind it. Gradients go in 300 ms; the host
 * reads six gigabytes and writes three, then three and three for the model's, which come back in 300. */
START_TEST(weights_of_its_own)
{
    g_autofree char *quick = g_strconcat(device_text, "runtime: {processor_rate: 100TB/s}\n", NULL);
    g_autofree char *text = g_strconcat(device_text, "runtime: {processor_rate: 20GB/s}\n", NULL);
    g_autoptr(EchDevice) device = ech_test_device_yaml(quick), slow = ech_test_device_yaml(text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    Made m = {.b = ech_test_begin()};
    EchId own[N];
    for (unsigned k = 0; k < N; k++) {
        m.parameters[k] = ech_test_buffer(m.b, "p", GB, ECH_ROLE_PARAMETER, true);
        m.gradients[k] = ech_test_buffer(m.b, "g", GB, ECH_ROLE_GRADIENT, true);
        own[k] = ech_test_buffer(m.b, "own", GB, ECH_ROLE_OPTIMIZER, true);
    }
    kernel(&m, "mm", m.parameters, NULL, m.gradients);
    m.optimizer = "FusedAdam";
    kernel(&m, "multi_tensor_adam", own, m.gradients, own);
    m.optimizer = NULL;
    kernel(&m, "copy_", own, NULL, m.parameters);
    g_autoptr(EchTrace) in = ech_test_finish(m.b);
    ech_trace_builder_free(m.b);
    const char *const specs[] = {"fuse:where=host", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device), slower = ech_test_replay(out, slow);
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_peak(run, "hbm") / GB, 6);
    ck_assert_uint_eq(ech_test_peak(run, "host") / GB, 6);
    ck_assert_int_eq((run->makespan + ms / 2) / ms, 60 + 300 + 300);
    ck_assert_int_eq((slower->makespan + ms / 2) / ms, 60 + 300 + 450 + 300 + 300);
}
END_TEST

/* State in 8 bits is a quarter, and a 64th for scales; each parameter has a kernel, which the host of PyTorch waits for. */
START_TEST(state_in_8_bits)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = made(_i ? "RMSprop" : "AdamW", 1, false);
    const char *const specs[] = {"fuse:state=8bit", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    const EchBytes state = N * (GB / 4 + 4 * ((GB / 4 + 255) / 256));
    ck_assert(run->completed);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_KERNEL), 1 + N);
    ck_assert_uint_le(ech_test_peak(run, "hbm") - (6 * GB + state), N * 512); /* as the memory aligns */
    /* Parameters are read and written, gradients read, state read and written. */
    ck_assert_int_eq((run->makespan + ms / 2) / ms, 60 + 3 * 30 + (EchTime)(2 * state / (GB / 10)));
    ck_assert(ech_test_says(diag, "what rounding does to training is not told"));
    GError *error = NULL;
    g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    g_ptr_array_add(passes, ech_pass_new("fuse:where=host,state=8bit", NULL));
    EchTrace *none = ech_passes_run_trace(passes, device, in, diag, &error);
    ck_assert_ptr_null(none);
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    g_clear_error(&error);
}
END_TEST

/* Without state there is nothing to round. */
START_TEST(no_state_in_8_bits)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    Made m = {.b = ech_test_begin(), .optimizer = "SGD"};
    for (unsigned k = 0; k < N; k++) {
        m.parameters[k] = ech_test_buffer(m.b, "p", GB, ECH_ROLE_PARAMETER, true);
        m.gradients[k] = ech_test_buffer(m.b, "g", GB, ECH_ROLE_GRADIENT, true);
    }
    kernel(&m, "_foreach_add_", m.parameters, m.gradients, m.parameters);
    g_autoptr(EchTrace) in = ech_test_finish(m.b);
    ech_trace_builder_free(m.b);
    const char *const specs[] = {"fuse:state=8bit", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_ptr_eq(out, in);
    ck_assert(ech_test_says(diag, "left the optimizer as it is: it has no state"));
}
END_TEST

/* What is one kernel already is said to be. */
START_TEST(already)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    Made m = {.b = ech_test_begin(), .optimizer = NULL};
    for (unsigned k = 0; k < N; k++)
        m.parameters[k] = ech_test_buffer(m.b, "p", GB, ECH_ROLE_PARAMETER, true);
    kernel(&m, "mm", m.parameters, NULL, NULL);
    ech_trace_builder_peek_op(m.b, (EchId)ech_trace_builder_n_ops(m.b) - 1)->stack =
        ech_trace_builder_string(m.b, "aten::_fused_adamw_\nOptimizer.step#AdamW.step", -1);
    g_autoptr(EchTrace) in = ech_test_finish(m.b);
    ech_trace_builder_free(m.b);
    const char *const specs[] = {"fuse", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_ptr_eq(out, in);
    ck_assert(ech_test_says(diag, "left the optimizer as it is: it is one kernel already"));
}
END_TEST

/* No program of PyTorch's has loops: what has is left as it is, whole. */
START_TEST(beside_a_loop)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    Made m = {.b = ech_test_begin(), .optimizer = NULL};
    for (unsigned k = 0; k < N; k++) {
        m.parameters[k] = ech_test_buffer(m.b, "p", GB, ECH_ROLE_PARAMETER, true);
        m.gradients[k] = ech_test_buffer(m.b, "g", GB, ECH_ROLE_GRADIENT, true);
        m.moments[k] = ech_test_buffer(m.b, "m", GB, ECH_ROLE_OPTIMIZER, true);
    }
    EchId loop = ech_test_loop(m.b, 2);
    kernel(&m, "mm", m.parameters, NULL, m.gradients);
    ech_test_close_loop(m.b, loop);
    m.optimizer = "AdamW";
    step(&m, false);
    g_autoptr(EchTrace) in = ech_test_finish(m.b);
    ech_trace_builder_free(m.b);
    const char *const specs[] = {_i ? "fuse:where=host" : "fuse", NULL};
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, specs);
    ck_assert_ptr_eq(out, in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fuse");
    TCase *tcase = tcase_create("fuse");
    tcase_add_loop_test(tcase, one_kernel, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tcase, weights_of_its_own);
    tcase_add_loop_test(tcase, runs_on_host, 0, G_N_ELEMENTS(on_host));
    tcase_add_loop_test(tcase, beside_a_loop, 0, 2);
    tcase_add_test(tcase, already);
    tcase_add_loop_test(tcase, state_in_8_bits, 0, 2);
    tcase_add_test(tcase, no_state_in_8_bits);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
