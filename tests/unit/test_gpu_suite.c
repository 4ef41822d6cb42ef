/* The whole sequence for a GPU, over the fake driver: calibrated, predicted, replayed and written down, every case within its goal. Nothing here ran on a GPU.
 */
#include "sim/experiment/gpu_suite_private.h"
#include "sim/trace/file.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

static EchGpuSuite *run(const EchGpuSuiteOptions *options)
{
    g_autoptr(GError) error = NULL;
    EchGpuSuite *suite = ech_gpu_suite_run(options, NULL, NULL, &error);
    ck_assert_ok(suite != NULL, error);
    return suite;
}

static const EchGpuCase *find(const EchGpuSuite *suite, const char *name)
{
    for (size_t i = 0; i < suite->n_cases; i++) {
        if (strcmp(suite->cases[i].name, name) == 0)
            return &suite->cases[i];
    }
    ck_abort_msg("no case %s", name);
    return NULL;
}

/* Also: one stage dies, then hangs, and costs only its row; a second call does only what is missing. No other is to reach its limit, for the fake works on
 * processors that others may need. */
START_TEST(every_case_is_within_its_goal)
{
    ech_test_fake_cuda("268435456");
    g_autofree char *folder = g_dir_make_tmp("echelon-suite-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
    static const char *const missing[] = {"/nonexistent/program.hlo.txt.gz", NULL};
    EchGpuSuiteOptions options = {.folder = folder,
                                  .name = "fake",
                                  .date = "2026-01-02",
                                  .command = "test",
                                  .repeats = 1,
                                  .no_shipped_programs = true,
                                  .programs = missing,
                                  .stage_limit = 600};
    g_setenv("ECH_FAKE_CUDA_MAP", "crash", TRUE);
    g_autoptr(EchGpuSuite) suite = run(&options);
    ck_assert_uint_ge(suite->n_cases, 15);
    for (size_t i = 0; i + 1 < suite->n_cases; i++) {
        const EchGpuCase *row = &suite->cases[i];
        if (strcmp(row->name, "fragments-mapped") == 0)
            continue;
        ck_assert_msg(!row->error, "%s: %s", row->name, row->error);
        ck_assert_msg(row->measured > 0 && row->predicted > 0 && row->memory_measured > 0, "%s", row->name);
        g_autofree char *trace_name = g_strdup_printf("%s.ech", row->name), *json_name = g_strdup_printf("%s.json", row->name);
        g_autofree char *trace_path = g_build_filename(folder, trace_name, NULL), *json_path = g_build_filename(folder, json_name, NULL);
        g_autofree char *text = NULL;
        size_t length;
        g_autoptr(GError) error = NULL;
        ck_assert(g_file_get_contents(trace_path, &text, &length, NULL));
        g_autoptr(EchTrace) trace = ech_trace_file_read(text, length, trace_name, &error);
        ck_assert_ok(trace != NULL, error);
        ck_assert(g_file_test(json_path, G_FILE_TEST_IS_REGULAR));
    }
    /* What ended the calibration at first has been left out of it. */
    ck_assert_msg(strstr(suite->calibration, "mapping: left out, for it ended an earlier try") != NULL, "%s", suite->calibration);
    /* Only the program that is not there and the stage that died have failed, and their rows say why. Calls of the driver take this fake's host some time and
     * its clock none, so the case that consists of them may come out too long. */
    const EchGpuCase *calls = find(suite, "fragments-cudaMalloc");
    ck_assert_int_gt(calls->predicted, calls->measured);
    size_t expected = (double)calls->predicted > 1.05 * (double)calls->measured ? 3 : 2;
    ck_assert_msg(suite->missed == expected, "%zu cases missed their goals:\n%s", suite->missed, suite->table);
    ck_assert_str_eq(find(suite, "fragments-mapped")->error, "the process died of signal 9");
    ck_assert_ptr_nonnull(suite->cases[suite->n_cases - 1].error);
    ck_assert_ptr_nonnull(strstr(suite->table, "/nonexistent/program.hlo.txt.gz"));
    ck_assert_ptr_nonnull(strstr(suite->table, "| streaming-2-buffers |"));
    ck_assert_ptr_nonnull(strstr(suite->table, "2026-01-02"));
    /* How far its repeats differ stands behind the error of copies, where they do. */
    ck_assert_double_eq(find(suite, "copy-ladder")->copies_interval, 0);
    ck_assert_ptr_null(strstr(suite->table, "±"));
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_test_device(suite->device_path, NULL);

    /* As if killed in the middle of one stage: that, and what failed, is done again; the rest stands. */
    g_autofree char *cut = g_build_filename(folder, "products.row", NULL), *before = NULL, *after = NULL;
    ck_assert_int_eq(g_unlink(cut), 0);
    ck_assert(g_file_get_contents(suite->device_path, &before, NULL, NULL));
    g_setenv("ECH_FAKE_CUDA_MAP", "hang", TRUE);
    options.stage_limit = 3;
    g_autoptr(EchGpuSuite) second = run(&options);
    ck_assert(g_file_get_contents(second->device_path, &after, NULL, NULL));
    ck_assert_str_eq(before, after);
    ck_assert_uint_eq(second->kept, suite->n_cases - 3);
    ck_assert_str_eq(find(second, "fragments-mapped")->error, "no end after 3 s: ended by force");
    ck_assert_int_eq(find(second, "copy-ladder")->measured, find(suite, "copy-ladder")->measured);
    ck_assert_int_gt(find(second, "products")->measured, 0);
    /* Tried twice, it is not tried again. */
    g_autoptr(EchGpuSuite) third = run(&options);
    ck_assert_uint_eq(third->kept, third->n_cases);
}
END_TEST

START_TEST(what_the_budget_does_not_reach_is_left)
{
    ech_test_fake_cuda("16777216");
    g_autofree char *folder = g_dir_make_tmp("echelon-suite-XXXXXX", NULL);
    EchGpuSuiteOptions options = {
        .folder = folder, .name = "fake", .date = "2026-01-02", .command = "test", .repeats = 1, .no_shipped_programs = true, .budget = 0.001};
    g_autoptr(EchGpuSuite) suite = run(&options);
    ck_assert_uint_eq(suite->left, suite->n_cases);
    ck_assert_uint_eq(suite->missed, 0);
    ck_assert_ptr_nonnull(strstr(suite->table, "| copy-ladder |  | not reached in the budget |"));
    /* Another GPU in its place: what was calibrated on the first is no file of the second. */
    g_autofree char *known = g_build_filename(folder, "gpu.txt", NULL), *text = NULL;
    ck_assert(g_file_get_contents(known, &text, NULL, NULL));
    ck_assert(g_str_has_prefix(text, "abababababababababababababababab\nFake GPU 0, driver for CUDA 13.0"));
    ck_assert(g_file_set_contents(known, "cdcd\nOther\n", -1, NULL));
    ck_assert(g_file_set_contents(suite->device_path, "nonsense", -1, NULL));
    g_autoptr(EchGpuSuite) second = run(&options);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_test_device(second->device_path, NULL);
}
END_TEST

/* A trace of one copy of @bytes, in FOLDER/NAME/step.ech. */
static char *write_step(const char *folder, const char *name, EchBytes bytes)
{
    g_autofree char *of = g_build_filename(folder, name, NULL), *path = g_build_filename(of, "step.ech", NULL);
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("ech");
    EchId memories[] = {ech_trace_builder_memory(b, "host"), ech_trace_builder_memory(b, "hbm")}, buffers[2];
    for (unsigned i = 0; i < 2; i++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.memory = memories[i];
        buffer.bytes = bytes;
        buffer.resident = 1;
        buffers[i] = ech_trace_builder_buffer(b, buffer);
    }
    EchOp op = ech_op_init(ECH_OP_COPY);
    op.queue = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0);
    op.memory_from = memories[0];
    op.memory_to = memories[1];
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    ech_trace_builder_op(b, op);
    ech_trace_builder_use(b, buffers[0], ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, buffers[1], ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    ck_assert_int_eq(g_mkdir_with_parents(of, 0777), 0);
    ck_assert_ok(ech_trace_file_write(trace, path, &error), error);
    return g_steal_pointer(&path);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
}

/* Two programs of one name are two cases, and a program that was written anew is measured anew. */
START_TEST(programs_are_told_apart)
{
    ech_test_fake_cuda("268435456");
    g_autofree char *folder = g_dir_make_tmp("echelon-suite-XXXXXX", NULL), *small = write_step(folder, "a", 1 << 20),
                    *large = write_step(folder, "b\xe9", 8 << 20); /* a name of no UTF-8 */
    const char *const programs[] = {small, large, NULL};
    EchGpuSuiteOptions options = {
        .folder = folder, .name = "fake", .date = "2026-01-02", .command = "test", .repeats = 1, .no_shipped_programs = true, .programs = programs};
    /* As if an earlier call had calibrated this GPU, and the other cases had failed twice. */
    write_file(folder, "gpu.txt", "abababababababababababababababab\nFake GPU 0, driver for CUDA 13.0\n");
    g_autofree char *device = NULL;
    ck_assert(g_file_get_contents(ECH_SOURCE_DIR "/configs/devices/h100-sxm.yaml", &device, NULL, NULL));
    write_file(folder, "device.yaml", device);
    for (size_t i = 0; i < ech_gpu_n_recipes; i++) {
        g_autofree char *name = g_strdup_printf("%s.row", ech_gpu_recipes[i].name);
        write_file(folder, name, "[row]\ntries=2\nerror=left out\n");
    }
    g_autoptr(EchGpuSuite) suite = run(&options);
    const EchGpuCase *first = find(suite, "step.ech"), *second = find(suite, "step.ech-2");
    ck_assert_msg(!first->error && !second->error, "%s, %s", first->error, second->error);
    ck_assert_msg(second->predicted > 4 * first->predicted, "%" G_GINT64_FORMAT " beside %" G_GINT64_FORMAT, second->predicted, first->predicted);
    g_free(write_step(folder, "a", 32 << 20));
    g_autoptr(EchGpuSuite) again = run(&options);
    ck_assert_int_gt(find(again, "step.ech")->predicted, second->predicted);
    ck_assert_int_eq(find(again, "step.ech-2")->measured, second->measured);
}
END_TEST

typedef struct {
    const char *path;
    unsigned steps; /* That it takes before it hangs, or ends */
    bool hangs;
} Steps;

static bool take_steps(void *data, GError **error)
{
    const Steps *steps = data;
    for (unsigned i = 0; i < steps->steps; i++) {
        if (!g_file_set_contents(steps->path, "step", -1, error))
            return false;
        g_usleep(100000);
    }
    while (steps->hangs)
        g_usleep(G_USEC_PER_SEC);
    return true;
}

/* One step that hangs does not cost the time of all; many steps together may take longer than one. */
START_TEST(a_step_that_hangs_is_ended_before_the_whole)
{
    g_autofree char *folder = g_dir_make_tmp("echelon-suite-XXXXXX", NULL), *path = g_build_filename(folder, "calibration.step", NULL);
    EchGpuLimit limit = {.seconds = 300, .step_seconds = 2, .step = path};
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_gpu_in_child(take_steps, &(Steps){.path = path, .steps = 30}, &limit, &error), error);
    ck_assert(!ech_gpu_in_child(take_steps, &(Steps){.path = path, .steps = 2, .hangs = true}, &limit, &error));
    ck_assert_str_eq(error->message, "no end after 2 s: ended by force");
    g_clear_error(&error);
    limit.seconds = 1;
    ck_assert(!ech_gpu_in_child(take_steps, &(Steps){.path = path, .steps = 100}, &limit, &error));
    ck_assert_str_eq(error->message, "no end after 1 s: ended by force");
}
END_TEST

START_TEST(without_a_gpu_it_says_so)
{
    g_setenv("ECHELON_LIBCUDA", "/nonexistent/libcuda.so.1", TRUE);
    g_autofree char *folder = g_dir_make_tmp("echelon-suite-XXXXXX", NULL);
    EchGpuSuiteOptions options = {.folder = folder, .name = "fake", .date = "2026-01-02", .command = "test"};
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_gpu_suite_run(&options, NULL, NULL, &error));
    ck_assert_msg(g_str_has_prefix(error->message, "no NVIDIA driver here: "), "%s", error->message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_suite");
    TCase *tests = tcase_create("gpu_suite");
    tcase_add_test(tests, every_case_is_within_its_goal);
    tcase_add_test(tests, what_the_budget_does_not_reach_is_left);
    tcase_add_test(tests, programs_are_told_apart);
    tcase_add_test(tests, a_step_that_hangs_is_ended_before_the_whole);
    tcase_add_test(tests, without_a_gpu_it_says_so);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
