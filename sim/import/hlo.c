/* XLA programs as import formats: HLO text and HloProto, with the buffer assignment that lies beside. */
#include "sim/import/hlo.h"

#include "sim/import/json_stream.h"

#include <string.h>

/* Counts instructions by opcode. */
static void count_records(const EchProgram *program, EchDiag *records)
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
    ech_diag_source(ret->diag, "buffer assignment", path);
    return true;
}

/* "v5e" as a device of ours: "tpu-v5e"; NULL for any other word. Static. */
static const char *tpu_named(const char *word, size_t n)
{
    static const char *const devices[] = {"tpu-v1", "tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu7x", "tpu-8i"};
    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++) {
        const char *bare = g_str_has_prefix(devices[i], "tpu-") ? devices[i] + 4 : devices[i];
        if ((strlen(bare) == n && memcmp(bare, word, n) == 0) || (strlen(devices[i]) == n && memcmp(devices[i], word, n) == 0))
            return devices[i];
    }
    return NULL;
}

/* What captures note beside a program, in STEM.json. */
typedef struct {
    const char *chip;     /* Static, or NULL. */
    char *refusal;        /* Owned, or NULL. */
    GPtrArray *arguments; /* Owned: texts of integers by the parameter's number (ech_program_set_arguments), or NULL. */
} Notes;

enum { MOST_REFUSAL = 600, MOST_ARGUMENTS = 1 << 16 };

/* The sentences of a compiler's message: what comes before its tables, blanks joined, at most a paragraph. */
static char *sentences(const char *text)
{
    g_autoptr(GString) out = g_string_new(NULL);
    for (const char *at = text; *at && !(at[0] == '\n' && at[1] == '\n'); at++) {
        bool blank = g_ascii_isspace(*at);
        if (blank ? out->len > 0 && out->str[out->len - 1] != ' ' : true)
            g_string_append_c(out, blank ? ' ' : *at);
    }
    g_autofree char *valid = g_utf8_make_valid(g_strchomp(out->str), -1);
    glong n = g_utf8_strlen(valid, -1);
    if (n <= MOST_REFUSAL)
        return g_steal_pointer(&valid);
    g_autofree char *cut = g_utf8_substring(valid, 0, MOST_REFUSAL);
    return g_strconcat(cut, "...", NULL);
}

/* {"4": "1,2,3"}. False where it is something else. */
static bool read_arguments(EchJson *json, GPtrArray **ret)
{
    if (ech_json_next(json) != ECH_JSON_OBJECT || *ret)
        return false;
    g_autoptr(GPtrArray) arguments = g_ptr_array_new_with_free_func(g_free);
    EchJsonToken token;
    while ((token = ech_json_next(json)) == ECH_JSON_KEY) {
        int64_t number = -1;
        size_t n;
        const char *key = ech_json_text(json, &n);
        (void)ech_program_numbers(key, n, &number, 1);
        if (ech_json_next(json) != ECH_JSON_STRING)
            return false;
        if (number < 0 || number >= MOST_ARGUMENTS)
            continue;
        if (arguments->len <= number)
            g_ptr_array_set_size(arguments, (int)number + 1);
        g_free(arguments->pdata[number]);
        arguments->pdata[number] = g_strdup(ech_json_text(json, NULL));
    }
    *ret = g_steal_pointer(&arguments);
    return token == ECH_JSON_OBJECT_END;
}

/* Anything but such notes says nothing. */
static Notes read_notes(const char *path)
{
    Notes notes = {NULL, NULL, NULL};
    g_autofree char *base = g_strdup(path);
    if (g_str_has_suffix(base, ".gz"))
        base[strlen(base) - 3] = '\0';
    g_autofree char *found = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(program_suffixes) && !found; i++) {
        if (!g_str_has_suffix(base, program_suffixes[i]))
            continue;
        g_autofree char *stem = g_strndup(base, strlen(base) - strlen(program_suffixes[i]));
        if (g_str_has_suffix(stem, ".before"))
            stem[strlen(stem) - strlen(".before")] = '\0';
        g_autofree char *name = g_strconcat(stem, ".json", NULL);
        if (strcmp(name, path) != 0 && g_file_test(name, G_FILE_TEST_IS_REGULAR))
            found = g_steal_pointer(&name);
    }
    g_autoptr(EchSource) source = found ? ech_source_open(found, NULL) : NULL;
    g_autoptr(EchJson) json = source ? ech_json_new(source) : NULL;
    if (!json || ech_json_next(json) != ECH_JSON_OBJECT)
        return notes;
    g_autofree char *whole = NULL;
    while (ech_json_next(json) == ECH_JSON_KEY) {
        if (strcmp(ech_json_text(json, NULL), "arguments") == 0) {
            if (!read_arguments(json, &notes.arguments))
                break;
            continue;
        }
        bool chip = strcmp(ech_json_text(json, NULL), "chip") == 0, refused = strcmp(ech_json_text(json, NULL), "refused") == 0;
        if (!chip && !refused && strcmp(ech_json_text(json, NULL), "error") != 0) {
            if (!ech_json_skip(json))
                break;
            continue;
        }
        size_t n;
        EchJsonToken token = ech_json_next(json);
        const char *text = token == ECH_JSON_STRING ? ech_json_text(json, &n) : NULL;
        if (token != ECH_JSON_STRING && token != ECH_JSON_NULL)
            break;
        if (text && chip)
            notes.chip = tpu_named(text, n);
        else if (text && *text) {
            char **of = refused ? &notes.refusal : &whole;
            g_free(*of);
            *of = sentences(text);
        }
    }
    if (!notes.refusal)
        notes.refusal = g_steal_pointer(&whole);
    return notes;
}

/* The chip in the names of the file and of its folder: "step.v5e.hlo.txt". Static, or NULL. */
static const char *chip_in_name(const char *path)
{
    g_autofree char *name = g_path_get_basename(path), *folder = g_path_get_dirname(path), *parent = g_path_get_basename(folder);
    const char *const names[] = {name, parent};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_auto(GStrv) words = g_strsplit_set(names[i], "._", 64);
        for (char **word = words; *word; word++) {
            const char *chip = tpu_named(*word, strlen(*word));
            if (chip)
                return chip;
        }
    }
    return NULL;
}

/* XLA's text does not name the chip it was compiled for, but a capture's notes or file names do; else it is taken for the one that is asked for. */
static const char *chip_of(const char *path, const char *noted, const char *asked, EchDiag *diag)
{
    const char *chip = noted ? noted : path ? chip_in_name(path) : NULL;
    if (chip && asked && strcmp(chip, asked) != 0)
        ech_diag_remark(diag, "the program was compiled for %s, says %s", chip, noted ? "the capture's .json beside it" : "its file's name");
    return chip ? chip : asked;
}

/* A program without a schedule: made ready for one, and given one of ours. */
static bool schedule(EchImport *ret, const char *chip, GError **error)
{
    g_autoptr(EchProgram) prepared = ech_program_prepare(ret->program, chip, ret->diag, error);
    EchProgram *scheduled = prepared ? ech_program_schedule(prepared, ret->diag, error) : NULL;
    if (!scheduled)
        return false;
    ech_program_unref(ret->program);
    ret->program = scheduled;
    return true;
}

static bool read_with(EchProgram *(*read)(GBytes *, const char *, const char *, EchDiag *, GError **), EchSource *source, const EchImportOptions *options,
                      EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    const char *asked = options ? options->device : NULL, *chip = NULL;
    ret->program = read(bytes, ech_source_path(source), asked, ret->diag, error);
    if (!ret->program)
        return false;
    count_records(ret->program, ret->records);
    bool ours = !ret->program->scheduled && !ret->program->assignment;
    Notes notes = ech_source_path(source) ? read_notes(ech_source_path(source)) : (Notes){NULL, NULL, NULL};
    if (notes.arguments && ech_program_set_arguments(ret->program, notes.arguments))
        ech_diag_remark(
            ret->diag,
            "Pallas kernels choose their steps, conditionals their branch and loops how often they run by integers that the program is given: by those of "
            "its last call, which the capture noted");
    g_clear_pointer(&notes.arguments, g_ptr_array_unref);
    if (ours)
        g_free(notes.refusal); /* What was refused is what a compiler made of it. */
    else
        ret->refusal = notes.refusal;
    /* What is not compiled yet may not say for what it will be: then for the device that is asked for. */
    if (ret->program->platform == ECH_PLATFORM_TPU || ours)
        chip = chip_of(ech_source_path(source), notes.chip, asked, ret->diag);
    if (ret->program->platform == ECH_PLATFORM_TPU && chip && g_strcmp0(chip, asked) != 0 && !ech_program_set_chip(ret->program, chip, error))
        return false;
    bool tpu = ret->program->platform == ECH_PLATFORM_TPU || (chip && tpu_named(chip, strlen(chip)));
    if (ours && !schedule(ret, tpu ? chip : NULL, error))
        return false;
    return ret->program->assignment || read_beside(source, options, ret, error);
}

static int probe_text(const uint8_t *head, size_t n)
{
    size_t at = ech_head_begin(head, n);
    while (at < n && head[at] == ' ')
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
