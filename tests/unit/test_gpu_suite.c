/* The whole sequence for a GPU, over the fake driver: calibrated, predicted, replayed and written down, every case within its goal. Nothing here ran on a GPU.
 */
#include "sim/experiment/gpu_suite.h"
#include "sim/trace/file.h"

#include <check.h>
#include <dlfcn.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FAKE ECH_BINARY_DIR "/tests/libfake_cuda.so"

static void remove_folder(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_unlink(path);
    }
    g_rmdir(folder);
}

START_TEST(every_case_is_within_its_goal)
{
    g_setenv("ECHELON_LIBCUDA", FAKE, TRUE);
    g_setenv("ECHELON_LIBCUBLAS", FAKE, TRUE);
    g_setenv("ECH_FAKE_CUDA_BYTES", "268435456", TRUE);
    g_autofree char *folder = g_dir_make_tmp("echelon-suite-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
    static const char *const missing[] = {"/nonexistent/program.hlo.txt.gz", NULL};
    const EchGpuSuiteOptions options = {
        .folder = folder, .name = "fake", .date = "2026-01-02", .command = "test", .repeats = 1, .no_shipped_programs = true, .programs = missing};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchGpuSuite) suite = ech_gpu_suite_run(&options, NULL, NULL, &error);
    ck_assert_msg(suite != NULL, "%s", error ? error->message : "");
    ck_assert_uint_ge(suite->n_cases, 15);
    for (size_t i = 0; i + 1 < suite->n_cases; i++) {
        const EchGpuCase *row = &suite->cases[i];
        ck_assert_msg(!row->error, "%s: %s", row->name, row->error);
        ck_assert_msg(row->measured > 0 && row->predicted > 0 && row->memory_measured > 0, "%s", row->name);
        g_autofree char *trace_name = g_strdup_printf("%s.ech", row->name), *json_name = g_strdup_printf("%s.json", row->name);
        g_autofree char *trace_path = g_build_filename(folder, trace_name, NULL), *json_path = g_build_filename(folder, json_name, NULL);
        g_autofree char *text = NULL;
        size_t length;
        ck_assert(g_file_get_contents(trace_path, &text, &length, NULL));
        g_autoptr(EchTrace) trace = ech_trace_file_read(text, length, trace_name, &error);
        ck_assert_msg(trace != NULL, "%s", error ? error->message : "");
        ck_assert(g_file_test(json_path, G_FILE_TEST_IS_REGULAR));
    }
    /* Only the program that is not there has failed, and its row says why. */
    ck_assert_msg(suite->missed == 1, "%zu cases missed their goals:\n%s", suite->missed, suite->table);
    ck_assert_ptr_nonnull(suite->cases[suite->n_cases - 1].error);
    ck_assert_ptr_nonnull(strstr(suite->table, "/nonexistent/program.hlo.txt.gz"));
    ck_assert_ptr_nonnull(strstr(suite->table, "| streaming-2-buffers |"));
    ck_assert_ptr_nonnull(strstr(suite->table, "2026-01-02"));
    g_autoptr(EchDevice) device = ech_device_load(suite->device_path, NULL, &error);
    ck_assert_msg(device != NULL, "%s", error ? error->message : "");
    void *library = dlopen(FAKE, RTLD_NOW);
    void *found = dlsym(library, "fake_cuda_held");
    long (*held)(void);
    memcpy(&held, &found, sizeof held);
    ck_assert_int_eq(held(), 0);
    remove_folder(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_suite");
    TCase *tests = tcase_create("gpu_suite");
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, every_case_is_within_its_goal);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
