/* Whose the device's time is, by the ranges that operations were asked for in. */
#include "sim/report/origins.h"
#include "tests/support/made.h"

#include <check.h>

#define MLP "nn.Module: layers.0.mlp (MLP)"
#define NODE "autograd::engine::evaluate_function: "

static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                  "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n";

/* Kernels of 1, 2, 4, 8... ms, asked for so: their sums tell which ones are in. */
static EchAsker *askers_of(const char *const *asked, size_t n_asked, size_t *ret_n)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    for (size_t i = 0; i < n_asked; i++) {
        ech_test_kernel(b, (EchTime)(1 << i) * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
        EchId stack = ech_trace_builder_string(b, asked[i], -1);
        ech_trace_builder_peek_op(b, (EchId)(ech_trace_builder_n_ops(b) - 1))->stack = stack;
    }
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    g_autoptr(EchRun) run = ech_test_replay(trace, device);
    EchReport report = {.title = "askers", .trace = trace, .device = device, .run = run};
    return ech_report_askers(&report, ret_n);
}

START_TEST(by_pass)
{
    static const char *const asked[] = {"aten::mm\n" MLP, "aten::mm\n" MLP "\n" NODE "CheckpointFunctionBackward", "aten::mm\n" NODE "MmBackward0\n" MLP,
                                        /* a checkpoint whose node runs a backward pass of its own */
                                        "aten::mm\n" NODE "MmBackward0\n" MLP "\n" NODE "CheckpointFunctionBackward"};
    size_t n;
    EchAsker *askers = askers_of(asked, G_N_ELEMENTS(asked), &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(askers[0].name, "layers.*.mlp (MLP)");
    ck_assert_int_eq(askers[0].forward, ECH_TEST_MS);
    ck_assert_int_eq(askers[0].again, 2 * ECH_TEST_MS);
    ck_assert_int_eq(askers[0].backward, (4 + 8) * ECH_TEST_MS);
    ech_askers_free(askers, n);
}
END_TEST

/* Operators of TensorFlow's, of a layer each, forward and backward; one that no layer made. */
START_TEST(by_scope)
{
    static const char *const asked[] = {"tf::net/dense_1/MatMul (MatMul)", "tf::net/dense_1/Relu (Relu)",
                                        "tf::gradient_tape/net/dense_1/MatMul/MatMul_1 (MatMul)", "tf::Mul (Mul)", "tf::kernel (Variable)"};
    size_t n;
    EchAsker *askers = askers_of(asked, G_N_ELEMENTS(asked), &n);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(askers[0].name, "variables");
    ck_assert_str_eq(askers[1].name, "Mul");
    ck_assert_str_eq(askers[2].name, "net/dense_1");
    ck_assert_int_eq(askers[2].forward, (1 + 2) * ECH_TEST_MS);
    ck_assert_int_eq(askers[2].backward, 4 * ECH_TEST_MS);
    ech_askers_free(askers, n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("askers");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, by_pass);
    tcase_add_test(tcase, by_scope);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
