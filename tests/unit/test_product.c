/* A tiled product as a workload: its schedule in closed form on the engine, what its windows take, and the pad pass on its arrays. */
#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/experiment/product.h"
#include "sim/pass/pass.h"
#include "sim/replay/replay.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* 1 MAC a picosecond is 2 TFLOP/s; 128 x 128 x 128 blocks take 2,097,152 ps. 64 KiB at 65.536 GB/s take 1 us. */
static const char device_text[] =
    "name: t\nfamily: tpu\ncompiler: v5e\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 16GiB, read: 65.536GB/s, write: 65.536GB/s}\n"
    "  vector: {kind: vector, space: 1, capacity: 1MiB, kernel_reserved: 256KiB}\n"
    "  host: {kind: host-pinned, space: 5, capacity: 64GiB}\n"
    "units:\n  matrix: {rows: 128, columns: 128, clock: 1GHz, peaks: {bf16: 2TFLOP/s}}\n"
    "runtime: {grid_step_ps: 100ns}\n";

static EchTrace *make(const char *spec, const EchDevice *device, EchDiag *diag)
{
    GError *error = NULL;
    EchProductOptions options = {0};
    ech_params_defaults(ech_product_params, &options);
    ck_assert(ech_params_parse(ech_product_params, &options, spec, &error));
    EchTrace *trace = ech_product_trace(&options, device, diag, &error);
    ech_params_clear(ech_product_params, &options);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

/* Five steps along k: both blocks of a step are 64 KiB together, 1 us; a product with its step 2.197152 us; the result of 32 KiB 0.5 us. */
static const struct {
    uint64_t buffers;
    EchTime makespan;
} schedules[] = {
    {1, 5 * (1000000 + 2197152) + 500000},        /* nothing is fetched ahead */
    {2, 1000000 + 5 * INT64_C(2197152) + 500000}, /* all but the first fetch under the product before */
    {3, 1000000 + 5 * INT64_C(2197152) + 500000}, /* further ahead cannot help what is bound by its unit */
};

START_TEST(test_schedule)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    for (int wide = 0; wide < 2; wide++) { /* a result of 32 bits is stored in twice the time */
        g_autofree char *spec =
            g_strdup_printf("m=128,n=128,k=640,block_m=128,block_n=128,block_k=128,buffers=%d%s", (int)schedules[_i].buffers, wide ? ",result=f32" : "");
        g_autoptr(EchTrace) trace = make(spec, device, diag);
        g_autoptr(EchRun) run = ech_test_replay(trace, device);
        EchTime makespan = schedules[_i].makespan + (wide ? 500000 : 0);
        ck_assert_msg(llabs(run->makespan - makespan) <= 5, "%s: %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT, spec, run->makespan, makespan);
        for (size_t i = 0; i < run->n_memories; i++) {
            if (strcmp(run->memories[i].name, "hbm") == 0)
                ck_assert(run->memories[i].read == 5 * 65536 && run->memories[i].written == (wide ? 65536 : 32768));
            if (strcmp(run->memories[i].name, "vector") == 0) /* inputs' windows, two of the result, an f32 accumulator */
                ck_assert_uint_eq(run->memories[i].peak_live, schedules[_i].buffers * 65536 + (wide ? 2 * 65536 : 2 * 32768) + 65536);
        }
    }
}
END_TEST

START_TEST(test_windows_that_do_not_fit)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = make("m=512,n=512,k=512,block_m=256,block_n=512,block_k=512", device, diag);
    const char *const *remarks = ech_diag_remarks(diag);
    ck_assert_ptr_nonnull(remarks[0]);
    ck_assert_ptr_nonnull(strstr(remarks[0], "more than the 256 KiB that the compiler keeps for kernels"));
    g_autoptr(EchRun) run = ech_test_replay(trace, device);
    ck_assert(!run->fits);
    ck_assert_str_eq(run->failure.memory, "vector");
}
END_TEST

/* Blocks left to us fit into what the compiler keeps for kernels, and the schedule says where its time goes. */
START_TEST(test_searched)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = make("m=512,n=512,k=512,block_m=0", device, diag);
    const char *const *remarks = ech_diag_remarks(diag);
    ck_assert(g_str_has_prefix(remarks[0], "matmul: blocks of "));
    g_autoptr(EchTrace) same = make("m=512,n=512,k=512,block_m=128,block_n=128,block_k=128", device, diag);
    g_autoptr(EchRun) ours = ech_test_replay(trace, device), theirs = ech_test_replay(same, device);
    ck_assert_int_le(ours->makespan, theirs->makespan);
    EchTime parts = 0;
    static const char *const names[] = {"compute", "hbm", "space", "vmem_port", "dma_latency", "fill_drain", "step_overhead"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *key = g_strconcat("stall.", names[i], NULL);
        const char *value = ech_trace_get_property(trace, key);
        ck_assert(value != NULL);
        parts += (EchTime)g_ascii_strtoll(value, NULL, 10);
    }
    ck_assert_int_ge(parts, 512LL * 512 * 512); /* a multiply-add a picosecond */
    ck_assert_int_lt(llabs(parts - ours->makespan), ours->makespan / 20);
}
END_TEST

START_TEST(test_refused)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    static const char *const specs[] = {"dtype=bf17", "result=pred[", "m=1048576,n=1048576,k=1048576,block_m=1,block_n=1,block_k=1"};
    for (size_t i = 0; i < G_N_ELEMENTS(specs); i++) {
        g_autoptr(GError) error = NULL;
        EchProductOptions options = {0};
        ech_params_defaults(ech_product_params, &options);
        bool parsed = ech_params_parse(ech_product_params, &options, specs[i], &error);
        g_autoptr(EchTrace) trace = parsed ? ech_product_trace(&options, device, diag, &error) : NULL;
        ech_params_clear(ech_product_params, &options);
        ck_assert_ptr_null(trace);
        ck_assert_ptr_nonnull(error);
    }
}
END_TEST

/* [256, 64] row-major takes 128 lanes; its windows' bytes and the copies' go with it. */
START_TEST(test_pad)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = make("m=256,n=256,k=64,block_m=256,block_n=256,block_k=64", device, diag);
    const EchBuffer *lhs = &ech_trace_buffers(trace)[0];
    ck_assert_uint_eq(lhs->bytes, 65536);
    ck_assert_uint_eq(lhs->dense, 32768);
    static const struct {
        const char *spec;
        uint64_t lhs, read;
    } wanted[] = {{"pad:tiles=dense", 32768, 65536}, {"pad:tiles=row_major", 65536, 65536 + 32768}, {"pad:align=128KiB", 131072, 131072 * 2}};
    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        GError *error = NULL;
        g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
        EchPass *pass = ech_pass_new(wanted[i].spec, &error);
        ck_assert_ok(pass != NULL, error);
        g_ptr_array_add(passes, pass);
        g_autoptr(EchTrace) padded = ech_passes_run_trace(passes, device, trace, diag, &error);
        ck_assert_ok(padded != NULL, error);
        ck_assert_uint_eq(ech_trace_buffers(padded)[0].bytes, wanted[i].lhs);
        g_autoptr(EchRun) run = ech_test_replay(padded, device);
        for (size_t m = 0; m < run->n_memories; m++) {
            if (strcmp(run->memories[m].name, "hbm") == 0)
                ck_assert_msg(run->memories[m].read == wanted[i].read, "%s: %" G_GUINT64_FORMAT " read", wanted[i].spec, run->memories[m].read);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("product");
    TCase *tests = tcase_create("product");
    tcase_add_loop_test(tests, test_schedule, 0, G_N_ELEMENTS(schedules));
    tcase_add_test(tests, test_windows_that_do_not_fit);
    tcase_add_test(tests, test_searched);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_pad);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
