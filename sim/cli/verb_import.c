/* echelon import: a captured file to a trace file. */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/import/import.h"
#include "sim/report/program_info.h"
#include "sim/trace/file.h"

#include <stdio.h>
#include <string.h>

/* What the importer counted travels with the trace, so that info on the .ech shows it too. */
static EchTrace *with_counters(const EchImport *import, const EchTrace *trace, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    const EchDiag *tables[] = {import->records, import->diag};
    for (size_t t = 0; t < G_N_ELEMENTS(tables); t++) {
        size_t n;
        const EchDiagRow *rows = ech_diag_rows(tables[t], &n);
        for (size_t i = 0; i < n; i++) {
            g_autofree char *key = g_strdup_printf("%s.%s", t == 0 ? "records" : rows[i].fatal_if_strict ? "dropped" : "noted", rows[i].name);
            char value[24];
            g_snprintf(value, sizeof value, "%" G_GUINT64_FORMAT, rows[i].count);
            ech_trace_builder_set_property(builder, key, value);
        }
    }
    return ech_trace_builder_finish(builder, error);
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
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &beside, "A second file of the same run to merge (a memory snapshot beside a profile)", "FILE"},
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
    EchImportOptions options = {.device = device, .beside = beside, .loop_trips = (uint64_t)trips, .ignore_beside = ignore};
    g_autoptr(EchImport) import = ech_import_file(rest[0], format, &options, &error);
    if (!import || (strict && !ech_diag_check_strict(import->diag, &error)))
        return ech_cli_fail(error);
    g_autoptr(EchTrace) lowered = import->program ? lower(import, device, (uint64_t)trips, &error) : NULL;
    if (error)
        return ech_cli_fail(error);
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(import->diag, &n);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%s %s: %" G_GUINT64_FORMAT "%s%s\n", rows[i].fatal_if_strict ? "dropped or repaired" : "note", rows[i].name, rows[i].count, rows[i].first ? ", first at " : "",
                rows[i].first ? rows[i].first : "");
    for (const char *const *remark = ech_diag_remarks(import->diag); *remark; remark++)
        fprintf(stderr, "%s\n", *remark);
    g_autoptr(EchTrace) trace = with_counters(import, lowered ? lowered : import->trace, &error);
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
