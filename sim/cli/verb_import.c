/* echelon import: a captured file to a trace file. */
#include "models/device/device.h"
#include "models/device/gpu_target.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/import/import.h"
#include "sim/report/program_info.h"
#include "sim/trace/file.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

/* XLA's description of a GPU becomes a device file. False where @path is none, or cannot be read. */
static bool is_device(const char *path, char **ret_text, gsize *ret_n)
{
    g_autofree char *text = NULL;
    GStatBuf status;
    if (g_stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > 1 << 20 || !g_file_get_contents(path, &text, ret_n, NULL) || !ech_gpu_target_probe(text, *ret_n))
        return false;
    *ret_text = g_steal_pointer(&text);
    return true;
}

static int import_device(const char *path, const char *text, gsize n, const char *out)
{
    GError *error = NULL;
    g_autoptr(GString) yaml = ech_gpu_target_yaml(text, n, path, &error);
    if (!yaml || (out && !g_file_set_contents(out, yaml->str, (gssize)yaml->len, &error)))
        return ech_cli_fail(error);
    if (out)
        fprintf(stderr, "%s: gpu_target_config -> device file %s\n", path, out);
    else
        ech_cli_print(yaml->str);
    return ECH_EXIT_DONE;
}

/* The trace that a program makes on the chip it was compiled for: buffers assigned, kernels with the compiler's estimates. */
static EchTrace *lower(const EchImport *import, const char *device, uint64_t trips, GError **error)
{
    if (!ech_report_program_complete(import->program, device, import->diag, error))
        return NULL;
    const char *chip = device ? device : import->program->chip;
    g_autoptr(EchDevice) loaded = chip ? ech_device_load(chip, NULL, NULL) : NULL;
    EchLowerOptions options = {.loop_trips = trips};
    return ech_program_lower(import->program, loaded, &options, import->diag, error);
}

int ech_verb_import(int argc, char **argv)
{
    g_autofree char *out = NULL, *format = NULL, *device = NULL, *beside = NULL;
    gboolean strict = FALSE, ignore = FALSE;
    gint64 trips = 1;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &out, "Write the trace here (default: standard output)", "OUT.ech"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "Take the file as this format instead of looking at its bytes", "F"},
        {"device", 0, 0, G_OPTION_ARG_STRING, &device, "Chip the file was made for, where the format does not say", "NAME"},
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &beside, "A second file of the same run to merge: a memory snapshot beside a Kineto profile, a JAX device memory profile beside anything", "FILE"},
        {"alone", 0, 0, G_OPTION_ARG_NONE, &ignore, "Do not pick up files that lie beside the program", NULL},
        {"loop-trips", 0, 0, G_OPTION_ARG_INT64, &trips, "Trip count of loops that tell none (default 1)", "N"},
        {"strict", 0, 0, G_OPTION_ARG_NONE, &strict, "Fail if anything was dropped or repaired", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || trips < 0) {
        fprintf(stderr, "echelon import: one FILE is needed%s\n", trips < 0 ? " and --loop-trips must not be negative" : "");
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    g_autofree char *device_text = NULL;
    gsize n_text;
    if (!format && is_device(rest[0], &device_text, &n_text))
        return import_device(rest[0], device_text, n_text, out);
    EchImportOptions options = {.device = device, .beside = beside, .loop_trips = (uint64_t)trips, .ignore_beside = ignore};
    g_autoptr(EchImport) import = ech_import_file(rest[0], format, &options, &error);
    if (!import || (strict && !ech_diag_check_strict(import->diag, &error)))
        return ech_cli_fail(error);
    g_autoptr(EchTrace) lowered = import->program ? lower(import, device, (uint64_t)trips, &error) : NULL;
    if (lowered && import->resident) {
        EchTrace *merged = ech_import_add_resident(lowered, import->resident, import->diag, &error);
        ech_trace_unref(lowered);
        lowered = merged;
    }
    if (error)
        return ech_cli_fail(error);
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(import->diag, &n);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%s %s: %" G_GUINT64_FORMAT "%s%s\n", rows[i].fatal_if_strict ? "dropped or repaired" : "note", rows[i].name, rows[i].count, rows[i].first ? ", first at " : "",
                rows[i].first ? rows[i].first : "");
    for (const char *const *remark = ech_diag_remarks(import->diag); *remark; remark++)
        fprintf(stderr, "%s\n", *remark);
    g_autoptr(EchTrace) trace = ech_import_with_counters(import, lowered ? lowered : import->trace, &error);
    if (!trace)
        return ech_cli_fail(error);
    if (out) {
        if (!ech_trace_file_write(trace, out, &error))
            return ech_cli_fail(error);
        fprintf(stderr, "%s: %s, %zu operations, %zu buffers -> %s\n", rest[0], import->format, ech_trace_n_ops(trace), ech_trace_n_buffers(trace), out);
    } else {
        GString *text = ech_trace_file_print(trace);
        ech_cli_print(text->str);
        g_string_free(text, TRUE);
    }
    return ECH_EXIT_DONE;
}
