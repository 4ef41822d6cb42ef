/* XLA programs as import formats: HLO text and HloProto, with the buffer assignment that lies beside. */
#include "sim/import/hlo.h"

#include "sim/base/error.h"

#include <string.h>

void ech_hlo_count_records(const EchProgram *program, EchDiag *records)
{
    for (size_t i = 0; i < program->n_instructions; i++)
        ech_diag_note(records, program->instructions[i].opcode_name, 1);
}

static const char *const program_suffixes[] = {".hlo.txt", ".hlo.pb", ".hlo", ".txt", ".pb", ""};
static const char *const assignment_suffixes[] = {".buffer-assignment.txt", "-buffer-assignment.txt"};

/* The first file beside @path that holds the buffer assignment of the same stem; owned by the caller, or NULL. */
static char *find_assignment(const char *path)
{
    g_autofree char *base = g_strdup(path);
    if (g_str_has_suffix(base, ".gz"))
        base[strlen(base) - 3] = '\0';
    for (size_t i = 0; i < G_N_ELEMENTS(program_suffixes); i++) {
        if (!g_str_has_suffix(base, program_suffixes[i]))
            continue;
        g_autofree char *stem = g_strndup(base, strlen(base) - strlen(program_suffixes[i]));
        /* XLA dumps the assignment after optimisation and the text again after code generation. */
        g_autofree char *after = NULL;
        char *codegen = strstr(stem, "after_codegen");
        if (codegen)
            after = g_strdup_printf("%.*safter_optimizations%s", (int)(codegen - stem), stem, codegen + strlen("after_codegen"));
        const char *const stems[] = {stem, after};
        for (size_t j = 0; j < G_N_ELEMENTS(stems) * G_N_ELEMENTS(assignment_suffixes) * 2; j++) {
            const char *one = stems[j / 4];
            if (!one)
                continue;
            g_autofree char *candidate = g_strconcat(one, assignment_suffixes[j / 2 % 2], j % 2 ? ".gz" : "", NULL);
            if (g_file_test(candidate, G_FILE_TEST_IS_REGULAR))
                return g_steal_pointer(&candidate);
        }
    }
    return NULL;
}

static bool read_beside(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    if (options && options->ignore_beside)
        return true;
    g_autofree char *path = find_assignment(ech_source_path(source));
    if (!path)
        return true;
    g_autoptr(EchSource) beside = ech_source_open(path, error);
    g_autoptr(GBytes) bytes = beside ? ech_source_bytes(beside, 0, error) : NULL;
    if (!bytes)
        return false;
    gsize n;
    const char *text = g_bytes_get_data(bytes, &n);
    if (!ech_hlo_read_assignment(ret->program, text ? text : "", n, path, ret->diag, error))
        return false;
    ech_diag_remark(ret->diag, "buffer assignment taken from %s", path);
    return true;
}

static bool read_with(EchProgram *(*read)(GBytes *, const char *, const char *, EchDiag *, GError **), EchSource *source, const EchImportOptions *options,
                      EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    ret->program = read(bytes, ech_source_path(source), options ? options->device : NULL, ret->diag, error);
    if (!ret->program)
        return false;
    ech_hlo_count_records(ret->program, ret->records);
    return ret->program->assignment || read_beside(source, options, ret, error);
}

static int probe_text(const uint8_t *head, size_t n)
{
    size_t at = 0;
    while (at < n && g_ascii_isspace(head[at]))
        at++;
    if (n - at >= 10 && memcmp(head + at, "HloModule ", 10) == 0)
        return 2;
    /* A log may come first. */
    return memchr(head, '\0', n) == NULL && g_strstr_len((const char *)head, (gssize)n, "\nHloModule ") ? 1 : 0;
}

static bool read_text(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    return read_with(ech_hlo_read_text, source, options, ret, error);
}

const EchImportClass ech_import_hlo = {
    .name = "hlo",
    .summary = "XLA program as HLO text: compiled.as_text(), XLA dumps; buffer assignment beside it",
    .probe = probe_text,
    .read = read_text,
};

static bool read_proto(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    return read_with(ech_hlo_read_proto, source, options, ret, error);
}

const EchImportClass ech_import_hlo_proto = {
    .name = "hlo_proto",
    .summary = "XLA program as HloProto or HloModuleProto, with the buffer assignment inside",
    .probe = ech_hlo_probe_proto,
    .read = read_proto,
};
