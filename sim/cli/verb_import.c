/* echelon import: a captured file to a trace file. */
#include "models/device/device.h"
#include "models/device/gpu_target.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/output.h"
#include "sim/import/anonymize.h"
#include "sim/import/folder.h"
#include "sim/import/xplane.h"
#include "sim/report/program_info.h"
#include "sim/report/writers.h"
#include "sim/trace/file.h"
#include "sim/trace/select.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

/* XLA's description of a GPU becomes a device file. False where @path is none, or cannot be read. */
static bool is_device(const char *path, char **ret_text, gsize *ret_n)
{
    g_autofree char *text = NULL;
    GStatBuf status;
    if (g_stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > 1 << 20 || !g_file_get_contents(path, &text, ret_n, NULL) ||
        !ech_gpu_target_probe(text, *ret_n))
        return false;
    *ret_text = g_steal_pointer(&text);
    return true;
}

static int import_device(const char *path, const char *text, gsize n, const char *out)
{
    GError *error = NULL;
    g_autoptr(GString) yaml = ech_gpu_target_yaml(text, n, path, &error);
    if (!yaml || (out && !ech_output_file(out, yaml->str, yaml->len, &error)))
        return ech_cli_fail(error);
    if (out)
        fprintf(stderr, "%s: gpu_target_config -> device file %s\n", path, out);
    else
        ech_cli_print(yaml->str);
    return ECH_EXIT_DONE;
}

/* One of the programs that a profile holds, as it stands there. */
static int import_program(const char *path, const char *name, const char *out)
{
    GError *error = NULL;
    unsigned like;
    g_autofree char *whole = NULL, *file = ech_import_file_in(path, &like, &error);
    g_autoptr(EchSource) source = file ? ech_source_open(file, &error) : NULL;
    g_autoptr(GBytes) program = source ? ech_xplane_program(source, name, &whole, &error) : NULL;
    if (!program)
        return ech_cli_fail(error);
    gsize n;
    const void *data = g_bytes_get_data(program, &n);
    if (out && !ech_output_file(out, data, n, &error))
        return ech_cli_fail(error);
    if (out)
        fprintf(stderr, "%s: program %s, %zu bytes -> %s\n", path, whole, n, out);
    else
        ech_cli_print_bytes(data, n);
    return ECH_EXIT_DONE;
}

/* The program as `run` would replay it on @device_name (NULL: the chip it was compiled for, or none where it does not say: then kernels have no times). */
static EchTrace *lower(EchProgram *program, const char *device_name, uint64_t trips, EchDiag *diag, GError **error)
{
    const char *name = device_name ? device_name : program->chip;
    EchTrace *trace = NULL;
    if (name) {
        g_autoptr(EchDevice) device = ech_device_load(name, NULL, error);
        EchDevice *reference = device ? ech_device_load(name, NULL, error) : NULL;
        if (!reference)
            return NULL;
        trace = ech_experiment_lower(program, device, &reference, ECH_KERNEL_TIME_AUTO, trips, diag, error);
        ech_device_free(reference);
        ech_diag_remark(diag, "an XLA program, lowered for %s", name);
    } else {
        if (!ech_report_program_complete(program, NULL, diag, error))
            return NULL;
        EchLowerOptions options = {.loop_trips = trips};
        trace = ech_program_lower(program, NULL, &options, diag, error);
        ech_diag_remark(diag,
                        "an XLA program, lowered for no chip in particular (it does not name its own): kernels have operations and bytes, but not the "
                        "compiler's times%s; --device gives them",
                        program->assignment ? "" : ", and buffers no offsets");
    }
    ech_diag_remark(diag, "'run' and 'alloc' take the trace; passes that change programs, and what is inside kernels, need the original");
    return trace;
}

static EchTrace *only_device(const EchTrace *trace, uint32_t ordinal, GError **error)
{
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n);
    g_autoptr(GString) list = g_string_new(NULL);
    for (size_t i = 0; i < n; i++) {
        if (devices[i] == ordinal) {
            EchSelectOptions options = {.device = ordinal};
            return ech_trace_select(trace, &options, NULL, error);
        }
        g_string_append_printf(list, "%s%u", i ? ", " : "", devices[i]);
    }
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--capture-device %u: nothing ran there; expected one of %s", ordinal,
                n ? list->str : "none: no device ran anything");
    return NULL;
}

static void tell(const EchDiag *diag)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(diag, &n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *name = g_strdelimit(g_strdup(rows[i].name), "_", ' ');
        ech_cli_say("%s %s: %" G_GUINT64_FORMAT "%s%s\n", rows[i].fatal_if_strict ? "dropped or repaired" : "note", name, rows[i].count,
                    rows[i].first ? ", first at " : "", rows[i].first ? rows[i].first : "");
    }
    for (const char *const *remark = ech_diag_remarks(diag); *remark; remark++)
        ech_cli_say("%s\n", *remark);
}

static bool write_trace(const EchTrace *trace, const EchTraceWriter *writer, const char *title, const char *path, GError **error)
{
    /* Our own file goes out in pieces: it may be far larger than what else is in memory. */
    if (path && strcmp(writer->name, "ech") == 0 && !g_str_has_suffix(path, ".gz"))
        return ech_trace_file_write(trace, path, error);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GBytes) bytes = writer->write(trace, title, diag, error);
    if (!bytes)
        return false;
    gsize n;
    const void *data = g_bytes_get_data(bytes, &n);
    g_autoptr(GBytes) packed = path && g_str_has_suffix(path, ".gz") ? ech_report_gzip(data, n) : NULL;
    if (packed)
        data = g_bytes_get_data(packed, &n);
    if (path && !ech_output_file(path, data, n, error))
        return false;
    tell(diag);
    if (!path)
        ech_cli_print_bytes(data, n);
    return true;
}

int ech_verb_import(int argc, char **argv)
{
    g_autofree char *out = NULL, *format = NULL, *device = NULL, *beside = NULL, *to = NULL, *program = NULL;
    gboolean strict = FALSE, ignore = FALSE, anonymize = FALSE;
    gint64 trips = 1;
    gint ordinal = -1;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &out, "write here, in the format that the ending says (default: .ech to standard output)", "OUT.ech"},
        {"to", 0, 0, G_OPTION_ARG_STRING, &to, "write this format ('echelon list writers'), whatever the ending", "FORMAT"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"device", 0, 0, G_OPTION_ARG_STRING, &device, "chip the file was made for, where the format does not say", "NAME"},
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &beside, ECH_CLI_BESIDE, "FILE"},
        {"alone", 0, 0, G_OPTION_ARG_NONE, &ignore, "do not pick up files that lie beside the program", NULL},
        {"loop-trips", 0, 0, G_OPTION_ARG_INT64, &trips, "trip count of loops that tell none (default 1)", "N"},
        {"capture-device", 0, 0, G_OPTION_ARG_INT, &ordinal, "keep only this device of a capture of several", "N"},
        {"program", 0, 0, G_OPTION_ARG_STRING, &program,
         "of a profile of JAX's or TensorFlow's (*.xplane.pb): the XLA program of this name that it holds, as its compiler left it, to -o PROGRAM.hlo.pb",
         "NAME"},
        {"anonymize", 0, 0, G_OPTION_ARG_NONE, &anonymize,
         "to share the trace: pseudonyms for names, stacks and paths, predictions as before; of an XLA program what it is lowered to, not its text", NULL},
        {"strict", 0, 0, G_OPTION_ARG_NONE, &strict, "fail if anything was dropped or repaired", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (out && strcmp(out, "-") == 0)
        g_clear_pointer(&out, g_free);
    if (g_strv_length(rest) != 1 || trips < 0) {
        fprintf(stderr, "echelon import: one FILE is needed%s\n", trips < 0 ? " and --loop-trips must not be negative" : "");
        return ECH_EXIT_USAGE;
    }
    if (program && (to || format || device || beside || anonymize)) {
        fprintf(stderr, "echelon import: --program takes a program out as it stands; expected no --to, --format, --device, --beside or --anonymize with it\n");
        return ECH_EXIT_USAGE;
    }
    if (program) {
        ech_cli_find_trace(&rest[0]);
        return import_program(rest[0], program, out);
    }
    GError *error = NULL;
    g_autofree char *device_text = NULL;
    gsize n_text;
    if (!format && is_device(rest[0], &device_text, &n_text))
        return import_device(rest[0], device_text, n_text, out);
    const EchTraceWriter *writer = ech_trace_writer_find(to || out ? to : "ech", out, &error);
    if (!writer)
        return ech_cli_fail(error);
    if (!ech_cli_check_device(device, &error))
        return ech_cli_fail(error);
    EchImportOptions options = {.device = device, .beside = beside, .ignore_beside = ignore};
    ech_cli_find_trace(&rest[0]);
    g_autoptr(EchImport) import = ech_import_file(rest[0], format, &options, &error);
    if (!import)
        return ech_cli_fail(error);
    g_autoptr(EchTrace) trace = NULL,
                        bare = import->program ? lower(import->program, device, (uint64_t)trips, import->diag, &error) : ech_trace_ref(import->trace);
    if (bare && import->program && import->resident) {
        EchTrace *merged = ech_import_add_resident(bare, import->resident, import->diag, &error);
        ech_trace_unref(bare);
        bare = merged;
    }
    if (bare && ordinal >= 0) {
        EchTrace *one = only_device(bare, (uint32_t)ordinal, &error);
        ech_trace_unref(bare);
        bare = one;
    }
    tell(import->diag);
    if (bare && !(strict && !ech_diag_check_strict(import->diag, &error)))
        trace = ech_import_with_counters(import, bare);
    if (trace && anonymize) {
        g_autoptr(EchDiag) done = ech_diag_new();
        EchTrace *shared = ech_anonymize(trace, done, &error);
        ech_trace_unref(trace);
        trace = shared;
        tell(done);
    }
    if (!trace) {
        g_prefix_error(&error, "%s: ", rest[0]);
        return ech_cli_fail(error);
    }
    g_autofree char *title = anonymize ? g_strdup("trace") : g_path_get_basename(rest[0]);
    if (!write_trace(trace, writer, title, out, &error))
        return ech_cli_fail(error);
    if (out)
        fprintf(stderr, "%s: %s, %zu operation%s, %zu buffer%s -> %s\n", rest[0], import->format, ech_trace_n_ops(trace),
                ech_trace_n_ops(trace) == 1 ? "" : "s", ech_trace_n_buffers(trace), ech_trace_n_buffers(trace) == 1 ? "" : "s", out);
    return ECH_EXIT_DONE;
}
