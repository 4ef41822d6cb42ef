/* Programs: compiled by libtpu for the chips that it describes, kept as it leaves them, and "run". */
#include "plugin.h"
#include "header.h"
#include "sim/base/file.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct PJRT_LoadedExecutable {
    PJRT_Executable *executable; /* libtpu's, shared with whoever asked for it */
    uint64_t number;             /* in the capture; 0: it was not written down */
    char *name;
    TpuHeader header;
    int *types;          /* types[n_results], PJRT's */
    size_t n_results, n; /* devices that it is for */
    PJRT_LogicalIds *ids;
    GByteArray *assignment; /* a serialized DeviceAssignmentProto */
    EchBytes temporary;
    bool deleted;
};

static GHashTable *shared; /* PJRT_Executable -> how many have it; under the lock */
static GHashTable *names;  /* folder -> how many programs of that name */
static uint64_t last_program;

/* libtpu writes all that it compiles into one folder: one at a time. */
static GMutex compiling;
static char *dump;

/* ---- what the compiler leaves ---- */

static void clear_folder(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *inside = g_build_filename(path, name, NULL);
        ech_remove_tree(inside);
    }
}

static pid_t maker;

static void remove_dump(void)
{
    if (dump && getpid() == maker)
        ech_remove_tree(dump);
}

/* libtpu reads its flags when it first compiles; what Python puts into the environment until then does not have those that are not Python's. */
static void ask_for_dump(void)
{
    const char *flags = getenv("XLA_FLAGS");
    if (!dump || (flags && strstr(flags, dump)))
        return;
    g_autofree char *more = g_strdup_printf("%s%s--xla_dump_to=%s --xla_dump_hlo_as_text --xla_dump_large_constants --xla_dump_hlo_module_re=.",
                                            flags ? flags : "", flags && *flags ? " " : "", dump);
    setenv("XLA_FLAGS", more, 1);
}

void tpu_programs_begin(void)
{
    dump = g_dir_make_tmp("echelon-tpu-XXXXXX", NULL);
    if (!dump)
        return;
    maker = getpid();
    atexit(remove_dump);
    ask_for_dump();
}

/* The largest of the dumps that end so: the others are of modules that the compiler took out of the program. */
static char *dumped(const char *end)
{
    g_autoptr(GDir) dir = dump ? g_dir_open(dump, 0, NULL) : NULL;
    char *best = NULL;
    goffset most = -1;
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        if (!g_str_has_suffix(name, end) || strstr(name, ".cpu_after"))
            continue;
        g_autofree char *path = g_build_filename(dump, name, NULL);
        FILE *file = fopen(path, "r");
        goffset size = file && fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
        if (file)
            fclose(file);
        if (size > most) {
            most = size;
            g_free(best);
            best = g_steal_pointer(&path);
        }
    }
    return best;
}

/* What is told of the @n letters of a path: what lies below the current folder; elsewhere what follows site-packages, or its last two parts. */
static char *shortened(const char *whole, size_t n)
{
    g_autofree char *path = g_strndup(whole, n), *here = g_get_current_dir();
    const char *library = strstr(path, "site-packages/"), *shown = library ? library : strstr(path, "dist-packages/");
    if (!shown && g_str_has_prefix(path, here) && path[strlen(here)] == '/')
        shown = path + strlen(here) + 1;
    if (!shown) {
        shown = strrchr(path, '/');
        while (shown > path && shown[-1] != '/')
            shown--;
    }
    return g_strdup(shown);
}

/* @line with its paths shortened, which stand behind @before each: in the table of files ` "/home/me/train.py"`, or in lines themselves. */
static char *with_short_paths(const char *line, const char *before)
{
    g_autoptr(GString) out = g_string_new(NULL);
    for (const char *at; (at = strstr(line, before)) != NULL;) {
        at += strlen(before);
        size_t n = strcspn(at, "\"");
        g_autofree char *path = *at == '/' ? shortened(at, n) : g_strndup(at, n);
        g_string_append_len(out, line, at - line);
        g_string_append(out, path);
        line = at + n;
    }
    g_string_append(out, line);
    return g_string_free(g_steal_pointer(&out), FALSE);
}

/* A Pallas kernel's lists of blocks are worth keeping, a table of weights is not. */
static void write_line(gzFile out, const char *line, bool in_names)
{
    enum { LONG = 65536 };
    static const char opens[] = " constant({";
    g_autofree char *other = with_short_paths(line, in_names ? " \"" : "source_file=\"");
    const char *constant = !in_names && strlen(other) > LONG ? strstr(other, opens) : NULL, *close = constant ? strstr(constant, "})") : NULL;
    if (close)
        gzprintf(out, "%.*s%s...%s\n", (int)(constant - other), other, opens, close);
    else
        gzputs(out, other), gzputc(out, '\n');
}

static bool keep_text(const char *from, const char *to)
{
    g_autofree char *text = NULL;
    if (!g_file_get_contents(from, &text, NULL, NULL))
        return false;
    gzFile out = gzopen(to, "wb9");
    bool in_names = false;
    for (char *line = text, *end; out && *line; line = end) {
        end = line + strcspn(line, "\n");
        bool whole = *end == '\n';
        *end = '\0';
        in_names = strcmp(line, "FileNames") == 0 || (in_names && *line);
        write_line(out, line, in_names);
        end += whole;
    }
    return out && gzclose(out) == Z_OK;
}

static void add_stats(JsonBuilder *json, PJRT_Executable *executable, EchBytes *ret_temporary)
{
    PJRT_Executable_GetCompiledMemoryStats_Args stats = {.struct_size = sizeof stats, .executable = executable};
    g_autofree char *unknown = executable ? tpu_failed(tpu_real->Executable_GetCompiledMemoryStats, &stats) : g_strdup("");
    json_builder_set_member_name(json, "memory_analysis");
    json_builder_begin_object(json);
    const struct {
        const char *name;
        int64_t bytes;
    } rows[] = {{"alias_size_in_bytes", stats.alias_size_in_bytes},
                {"argument_size_in_bytes", stats.argument_size_in_bytes},
                {"output_size_in_bytes", stats.output_size_in_bytes},
                {"temp_size_in_bytes", stats.temp_size_in_bytes},
                {"host_alias_size_in_bytes", stats.host_alias_size_in_bytes},
                {"host_argument_size_in_bytes", stats.host_argument_size_in_bytes},
                {"host_output_size_in_bytes", stats.host_output_size_in_bytes},
                {"host_temp_size_in_bytes", stats.host_temp_size_in_bytes},
                {"peak_memory_in_bytes", stats.peak_memory_in_bytes}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows) && !unknown; i++) {
        json_builder_set_member_name(json, rows[i].name);
        json_builder_add_int_value(json, rows[i].bytes);
    }
    json_builder_end_object(json);
    *ret_temporary = unknown ? 0 : (EchBytes)MAX(stats.temp_size_in_bytes, 0);
}

/* What captures note beside a program (sim/import/hlo.c). */
static void keep_notes(const char *path, PJRT_Executable *executable, const char *refused, EchBytes *ret_temporary)
{
    g_autoptr(JsonBuilder) json = json_builder_new();
    const char *chip = getenv("ECHELON_PRETEND_CHIP");
    json_builder_begin_object(json);
    json_builder_set_member_name(json, "chip");
    json_builder_add_string_value(json, chip ? chip : "");
    json_builder_set_member_name(json, "codegen");
    json_builder_add_boolean_value(json, TRUE);
    for (unsigned k = 0; k < 2; k++) {
        json_builder_set_member_name(json, k == 0 ? "error" : "refused");
        if (refused)
            json_builder_add_string_value(json, refused);
        else
            json_builder_add_null_value(json);
    }
    add_stats(json, executable, ret_temporary);
    json_builder_end_object(json);
    g_autoptr(JsonNode) root = json_builder_get_root(json);
    g_autoptr(JsonGenerator) generator = json_generator_new();
    json_generator_set_pretty(generator, TRUE);
    json_generator_set_indent(generator, 1);
    json_generator_set_root(generator, root);
    if (path)
        json_generator_to_file(generator, path, NULL);
}

/* NAME, and from the second program of a name on NAME.2, NAME.3... */
static char *new_name(const char *module)
{
    char *name = g_strdup(*module ? module : "program");
    for (char *at = name; *at; at++)
        if (!g_ascii_isalnum(*at) && *at != '_' && *at != '-')
            *at = '_';
    if (!names)
        names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    unsigned before = GPOINTER_TO_UINT(g_hash_table_lookup(names, name));
    g_hash_table_insert(names, g_strdup(name), GUINT_TO_POINTER(before + 1));
    if (before > 0) {
        char *again = g_strdup_printf("%s.%u", name, before + 1);
        g_free(name);
        return again;
    }
    return name;
}

/* The module's name, from its text's first line. */
static char *name_of(const char *line)
{
    static const char word[] = "HloModule ";
    const char *begin = g_str_has_prefix(line, word) ? line + strlen(word) : line;
    return g_strndup(begin, strcspn(begin, ", \n"));
}

static char *first_line(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t n = file ? getline(&line, &room, file) : -1;
    char *copy = n > 0 ? g_strndup(line, (size_t)n) : NULL;
    free(line); /* getline's own */
    if (file)
        fclose(file);
    return copy;
}

/* Moves what the compiler left to the program's folder; its first line, NULL: it left nothing. @refused: why there is no executable. */
static char *keep_program(PJRT_Executable *executable, const char *refused, char **ret_name, EchBytes *ret_temporary)
{
    g_autofree char *generated = dumped(".after_codegen.txt"), *scheduled = generated ? NULL : dumped(".after_optimizations.txt");
    g_autofree char *assignment = dumped(".after_optimizations-buffer-assignment.txt");
    const char *text = generated ? generated : scheduled;
    char *line = first_line(text);
    const char *all = line ? tpu_record_folder() : NULL;
    *ret_name = NULL;
    if (all) {
        g_autofree char *module = name_of(line);
        *ret_name = new_name(module);
        g_autofree char *folder = g_build_filename(all, *ret_name, NULL), *stem = g_build_filename(folder, "program", NULL);
        g_autofree char *hlo = g_strconcat(stem, ".hlo.txt.gz", NULL), *plan = g_strconcat(stem, ".buffer-assignment.txt.gz", NULL),
                        *notes = g_strconcat(stem, ".json", NULL);
        if (g_mkdir_with_parents(folder, 0777) != 0 || !keep_text(text, hlo))
            fprintf(stderr, "echelon capture: %s cannot be written: %s\n", hlo, g_strerror(errno));
        if (assignment)
            keep_text(assignment, plan);
        keep_notes(notes, executable, refused, ret_temporary);
    } else {
        keep_notes(NULL, executable, refused, ret_temporary);
    }
    if (dump)
        clear_folder(dump);
    return line;
}

/* ---- executables ---- */

static void share(PJRT_Executable *executable)
{
    if (!shared)
        shared = g_hash_table_new(NULL, NULL);
    g_hash_table_insert(shared, executable, GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(shared, executable)) + 1));
}

PJRT_Error *tpu_Executable_Destroy(PJRT_Executable_Destroy_Args *args)
{
    tpu_lock();
    unsigned have = shared && args->executable ? GPOINTER_TO_UINT(g_hash_table_lookup(shared, args->executable)) : 0;
    if (have > 1)
        g_hash_table_insert(shared, args->executable, GUINT_TO_POINTER(have - 1));
    else if (have == 1)
        g_hash_table_remove(shared, args->executable);
    tpu_unlock();
    return have > 1 ? NULL : tpu_real->Executable_Destroy(args);
}

static void append_varint(GByteArray *bytes, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        g_byte_array_append(bytes, (const uint8_t[]){(uint8_t)(value | 0x80)}, 1);
    g_byte_array_append(bytes, (const uint8_t[]){(uint8_t)value}, 1);
}

/* xla.DeviceAssignmentProto: replica_count 1, computation_count 2, computation_devices 3 { replica_device_ids 1 }. */
static GByteArray *assignment_of(size_t replicas, size_t partitions)
{
    GByteArray *bytes = g_byte_array_new();
    append_varint(bytes, 1 << 3);
    append_varint(bytes, replicas);
    append_varint(bytes, 2 << 3);
    append_varint(bytes, partitions);
    for (size_t p = 0; p < partitions; p++) {
        g_autoptr(GByteArray) ids = g_byte_array_new(), inside = g_byte_array_new();
        for (size_t r = 0; r < replicas; r++)
            append_varint(ids, (uint64_t)tpu_client.list[r * partitions + p]->id);
        append_varint(inside, 1 << 3 | 2);
        append_varint(inside, ids->len);
        g_byte_array_append(inside, ids->data, ids->len);
        append_varint(bytes, 3 << 3 | 2);
        append_varint(bytes, inside->len);
        g_byte_array_append(bytes, inside->data, inside->len);
    }
    return bytes;
}

static void free_loaded(PJRT_LoadedExecutable *loaded)
{
    tpu_header_clear(&loaded->header);
    g_clear_pointer(&loaded->assignment, g_byte_array_unref);
    g_free(loaded->types);
    g_free(loaded->ids);
    g_free(loaded->name);
    g_free(loaded);
}

/* Fills in what running it needs; NULL and an error where its text and libtpu do not agree on it. */
static PJRT_LoadedExecutable *load(PJRT_Executable *executable, const char *line, PJRT_Error **error)
{
    PJRT_LoadedExecutable *loaded = g_new0(PJRT_LoadedExecutable, 1);
    loaded->executable = executable;
    PJRT_Executable_OutputElementTypes_Args types = {.struct_size = sizeof types, .executable = executable};
    PJRT_Executable_NumReplicas_Args replicas = {.struct_size = sizeof replicas, .executable = executable};
    PJRT_Executable_NumPartitions_Args partitions = {.struct_size = sizeof partitions, .executable = executable};
    g_autofree char *a = tpu_failed(tpu_real->Executable_OutputElementTypes, &types), *b = tpu_failed(tpu_real->Executable_NumReplicas, &replicas),
                    *c = tpu_failed(tpu_real->Executable_NumPartitions, &partitions);
    bool good = !a && !b && !c && line && tpu_header_read(line, &loaded->header) && loaded->header.results->len == types.num_output_types;
    size_t asked = good ? replicas.num_replicas * partitions.num_partitions : 0;
    if (!good || asked == 0 || asked > tpu_client.n) {
        *error = tpu_error(PJRT_INTERNAL, "echelon capture: %s",
                           asked > tpu_client.n ? "a program for more chips than there are (--gpus)"
                           : line               ? "the compiler's text of a program does not tell its arguments and results"
                                                : "the compiler left no text of a program (XLA_FLAGS=--xla_dump_to is echelon's)");
        free_loaded(loaded);
        return NULL;
    }
    loaded->n_results = types.num_output_types;
    loaded->types = g_memdup2(types.output_types, loaded->n_results * sizeof *loaded->types);
    loaded->n = MIN(asked, tpu_client.n_own);
    loaded->ids = g_new0(PJRT_LogicalIds, loaded->n);
    for (size_t i = 0; i < loaded->n; i++) {
        size_t device = tpu_client.first + i;
        loaded->ids[i] = (PJRT_LogicalIds){(int)(device / partitions.num_partitions), (int)(device % partitions.num_partitions)};
    }
    loaded->assignment = assignment_of(replicas.num_replicas, partitions.num_partitions);
    return loaded;
}

PJRT_Error *tpu_Client_Compile(PJRT_Client_Compile_Args *args)
{
    PJRT_Compile_Args compile = {.struct_size = sizeof compile,
                                 .topology = tpu_client.topology,
                                 .program = args->program,
                                 .compile_options = args->compile_options,
                                 .compile_options_size = args->compile_options_size};
    g_mutex_lock(&compiling);
    ask_for_dump();
    PJRT_Error *error = tpu_real->Compile(&compile);
    g_autofree char *refused = error ? tpu_error_text(error) : NULL;
    char *name;
    EchBytes temporary = 0;
    g_autofree char *line = keep_program(error ? NULL : compile.executable, refused, &name, &temporary);
    g_mutex_unlock(&compiling);
    PJRT_LoadedExecutable *loaded = NULL;
    if (!error) {
        loaded = load(compile.executable, line, &error);
        if (error)
            tpu_real->Executable_Destroy(
                &(PJRT_Executable_Destroy_Args){.struct_size = sizeof(PJRT_Executable_Destroy_Args), .executable = compile.executable});
    }
    if (error) {
        g_autofree char *base = name ? g_path_get_basename(tpu_record_folder()) : NULL;
        if (name && refused)
            fprintf(stderr, "echelon capture: %s/%s: refused: %.*s\n", base, name, (int)strcspn(refused, "\n"), refused);
        g_free(name);
        return error;
    }
    loaded->name = name;
    loaded->temporary = temporary;
    tpu_lock();
    share(loaded->executable);
    if (name) {
        loaded->number = ++last_program;
        tpu_record("program", "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " \"%s\"", loaded->number, temporary, name);
    }
    tpu_unlock();
    args->executable = loaded;
    return NULL;
}

/* Of what was compiled for a topology, and not by us: its text is not at hand. */
PJRT_Error *tpu_Client_Load(PJRT_Client_Load_Args *args)
{
    (void)args;
    return tpu_error(PJRT_UNIMPLEMENTED, "echelon capture: a program that was compiled ahead of time cannot be loaded: there is no TPU");
}

PJRT_Error *tpu_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args)
{
    if (!args->executable)
        return NULL;
    PJRT_Executable_Destroy_Args gone = {.struct_size = sizeof gone, .executable = args->executable->executable};
    PJRT_Error *error = tpu_Executable_Destroy(&gone);
    free_loaded(args->executable);
    return error;
}

PJRT_Error *tpu_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args)
{
    args->executable = args->loaded_executable->executable;
    tpu_lock();
    share(args->executable);
    tpu_unlock();
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args *args)
{
    args->addressable_devices = tpu_client.list + tpu_client.first;
    args->num_addressable_devices = args->executable->n;
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_AddressableDeviceLogicalIds(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args *args)
{
    args->addressable_device_logical_ids = args->executable->ids;
    args->num_addressable_device_logical_ids = args->executable->n;
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args *args)
{
    args->serialized_bytes = (const char *)args->executable->assignment->data;
    args->serialized_bytes_size = args->executable->assignment->len;
    args->serialized_device_assignment = NULL;
    args->serialized_device_assignment_deleter = tpu_nothing;
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args *args)
{
    args->executable->deleted = true;
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args *args)
{
    args->is_deleted = args->executable->deleted;
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args *args)
{
    PJRT_Executable_Fingerprint_Args found = {.struct_size = sizeof found, .executable = args->executable->executable};
    PJRT_Error *error = tpu_real->Executable_Fingerprint(&found);
    args->executable_fingerprint = found.executable_fingerprint;
    args->executable_fingerprint_size = found.executable_fingerprint_size;
    return error;
}

/* ---- running ---- */

static bool may_be_given(const PJRT_ExecuteOptions *options, int32_t parameter)
{
    for (size_t i = 0; options && i < options->num_non_donatable_input_indices; i++)
        if (options->non_donatable_input_indices[i] == parameter)
            return false;
    return true;
}

/* The array in whose place result @k is to lie, or NULL. */
static PJRT_Buffer *place_of(const PJRT_LoadedExecutable *loaded, size_t k, PJRT_Buffer *const *arguments, size_t n, const PJRT_ExecuteOptions *options)
{
    int32_t parameter = g_array_index(loaded->header.places, int32_t, k);
    bool given = parameter >= 0 && (size_t)parameter < n && may_be_given(options, parameter) && !arguments[parameter]->gone;
    return given ? arguments[parameter] : NULL;
}

static PJRT_Error *run_on(const PJRT_LoadedExecutable *loaded, PJRT_Device *device, PJRT_Buffer *const *arguments, size_t n, const PJRT_ExecuteOptions *options,
                          PJRT_Buffer **results)
{
    g_autoptr(GString) line = g_string_new(NULL);
    g_string_append_printf(line, "%zu %" G_GUINT64_FORMAT " %zu", tpu_own_index(device), loaded->number, n);
    for (size_t i = 0; i < n; i++) {
        if (arguments[i]->gone)
            return tpu_error(PJRT_INVALID_ARGUMENT, "argument %zu of %s was deleted or donated", i, loaded->name ? loaded->name : "a program");
        g_string_append_printf(line, " %" G_GUINT64_FORMAT, arguments[i]->number);
    }
    g_string_append_printf(line, " %zu", loaded->n_results);
    PJRT_Error *error = NULL;
    size_t made = 0;
    g_autofree uint64_t *given = g_new0(uint64_t, loaded->n_results + 1); /* arguments in whose places results lie */
    for (; made < loaded->n_results && !error; made += !error) {
        const EchLayout *shape = &g_array_index(loaded->header.results, EchLayout, made);
        PJRT_Buffer *place = place_of(loaded, made, arguments, n, options);
        given[made] = place ? place->number : 0;
        g_string_append_printf(line, " %" G_GUINT64_FORMAT, given[made]);
        results[made] = tpu_array_of_program(loaded->types[made], shape, &device->memories[shape->space == 5 ? TPU_PINNED : TPU_HBM], place, &error);
        if (results[made])
            g_string_append_printf(line, " %" G_GUINT64_FORMAT, results[made]->number);
    }
    if (!error)
        error = tpu_room(device, loaded->temporary, "allocating the program's temporaries");
    if (error) {
        for (size_t i = 0; i < made; i++) {
            tpu_array_let_go(results[i]);
            g_free(results[i]);
            if (given[i] > 0) /* gone with the run that was not */
                tpu_record("free", "%" G_GUINT64_FORMAT, given[i]);
        }
        return error;
    }
    device->peak = MAX(device->peak, ech_bytes_add(device->used, loaded->temporary));
    tpu_record("run", "%s", line->str);
    return NULL;
}

PJRT_Error *tpu_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args)
{
    PJRT_Error *error = NULL;
    tpu_lock();
    for (size_t d = 0; d < args->num_devices && !error; d++)
        error = run_on(args->executable, args->execute_device ? args->execute_device : tpu_client.list[tpu_client.first + d], args->argument_lists[d],
                       args->num_args, args->options, args->output_lists[d]);
    tpu_unlock();
    for (size_t d = 0; d < args->num_devices && !error && args->device_complete_events; d++)
        args->device_complete_events[d] = tpu_over();
    return error;
}
