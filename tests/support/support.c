#include "tests/support/support.h"
#include "models/device/device_yaml.h"
#include "sim/base/file.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check's limit, read when a case is made: against tests that hang, not those of a slow or busy machine. CTest's is later, so that the test has a name. */
static __attribute__((constructor)) void set_time_limit(void)
{
    g_setenv("CK_DEFAULT_TIMEOUT", "1000", FALSE);
}

int ech_test_main(Suite *suite)
{
    g_autofree char *folder = g_strdup(ECH_BINARY_DIR "/tests/files-XXXXXX");
    if (!g_mkdtemp(folder) || !g_setenv("TMPDIR", folder, TRUE)) {
        perror(folder);
        return EXIT_FAILURE;
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    ech_remove_tree(folder);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

bool ech_test_lacks(const char *path)
{
    if (g_file_test(path, G_FILE_TEST_EXISTS))
        return false;
    g_print("skipped: %s is not there\n", path);
    return true;
}

EchImport *ech_test_import(const char *path, const EchImportOptions *options)
{
    GError *error = NULL;
    EchImport *import = ech_import_file(path, NULL, options, &error);
    ck_assert_ok(import != NULL, error);
    return import;
}

EchImport *ech_test_corpus(const char *name, const char *format)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus", name, NULL);
    EchImport *import = ech_test_import(path, NULL);
    if (format)
        ck_assert_str_eq(import->format, format);
    return import;
}

EchImport *ech_test_try_corpus(const char *name, GError **error)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus", name, NULL);
    return ech_import_file(path, NULL, NULL, error);
}

EchImport *ech_test_text(const char *text, GError **error)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "text");
    return ech_import_source(source, NULL, NULL, error);
}

char *ech_test_database(const char *sql)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_dir_make_tmp("database-XXXXXX", &error);
    ck_assert_ok(folder, error);
    char *path = g_build_filename(folder, "made.sqlite", NULL);
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    return path;
}

const EchBuffer *ech_test_find_buffer(const EchTrace *trace, const char *name)
{
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *b = &ech_trace_buffers(trace)[i];
        if (strcmp(ech_trace_string(trace, b->name), name) == 0)
            return b;
    }
    ck_abort_msg("no buffer %s", name);
    return NULL;
}

bool ech_test_says(const EchDiag *diag, const char *text)
{
    for (const char *const *remark = ech_diag_remarks(diag); *remark; remark++) {
        if (strstr(*remark, text))
            return true;
    }
    return false;
}

EchImport *ech_test_hlo(const char *text, const char *device)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "text");
    EchImportOptions options = {.device = device, .ignore_beside = true};
    GError *error = NULL;
    EchImport *import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(import != NULL, error);
    return import;
}

EchProgram *ech_test_program(const char *text, const char *device)
{
    g_autoptr(EchImport) import = ech_test_hlo(text, device);
    return ech_program_ref(import->program);
}

void ech_test_assign(EchImport *import)
{
    if (import->program->assignment)
        return;
    GError *error = NULL;
    EchProgramAssignment *made = ech_program_assign(import->program, 0, import->diag, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(import->program, made, "made by echelon");
}

char *ech_test_device_of(const char *program)
{
    const char *chip = strrchr(program, '.') + 1;
    return strcmp(chip, "h100") == 0 ? g_strdup("h100-sxm") : g_strdup_printf("tpu-%s", chip);
}

EchDevice *ech_test_device(const char *name, const char *const *settings)
{
    GError *error = NULL;
    EchDevice *device = ech_device_load(name, settings, &error);
    ck_assert_ok(device != NULL, error);
    return device;
}

EchDevice *ech_test_device_yaml(const char *text)
{
    GError *error = NULL;
    g_autoptr(EchYamlNode) root = ech_yaml_parse(text, strlen(text), "test.yaml", &error);
    EchDevice *device = root ? ech_device_load_yaml(root, NULL, &error) : NULL;
    ck_assert_ok(device != NULL, error);
    return device;
}

EchRun *ech_test_replay(const EchTrace *trace, const EchDevice *device)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    GError *error = NULL;
    EchRun *run = ech_replay_run(trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ok(run != NULL, error);
    return run;
}

EchResult *ech_test_run(const EchExperimentOverrides *overrides)
{
    GError *error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    EchResult *result = ech_experiment_run(experiment, 0, &error);
    ck_assert_ok(result != NULL, error);
    return result;
}

EchId ech_test_instruction(const EchProgram *program, const char *name)
{
    for (EchId i = 0; i < program->n_instructions; i++) {
        if (strcmp(program->instructions[i].name, name) == 0)
            return i;
    }
    ck_abort_msg("no instruction %s", name);
    return ECH_NONE;
}

const EchOp *ech_test_op(const EchTrace *trace, EchOpKind kind, const char *name)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind == kind && (!name || strcmp(ech_trace_string(trace, op->name), name) == 0))
            return op;
    }
    ck_abort_msg("no %s %s", ech_op_kind_name(kind), name ? name : "at all");
    return NULL;
}

size_t ech_test_count(const EchTrace *trace, EchOpKind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        n += ech_trace_ops(trace)[i].kind == kind;
    return n;
}
