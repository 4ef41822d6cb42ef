/* echelon info: what is in a trace or in a captured file. */
#include "models/device/device.h"
#include "models/device/gpu_target.h"
#include "models/device/mig.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/trace_info.h"
#include "sim/import/alloc_events.h"
#include "sim/import/import.h"
#include "sim/report/json_out.h"
#include "sim/report/program_info.h"
#include "sim/report/text.h"
#include "sim/trace/select.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

static void add_rows(JsonBuilder *b, const char *name, const EchDiag *diag, bool dropped)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(diag, &n);
    ech_json_begin_object(b, name);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].fatal_if_strict != dropped)
            continue;
        g_autofree char *valid = g_utf8_make_valid(rows[i].name, -1);
        ech_json_add_count(b, valid, rows[i].count);
    }
    json_builder_end_object(b);
}

static void print_json_text(JsonBuilder *b)
{
    g_autofree char *text = ech_json_finish(b);
    ech_cli_print(text);
}

static int print_json(const EchImport *import, const EchTrace *trace, const char *device)
{
    g_autoptr(EchTraceInfo) info = trace ? ech_trace_info_new(trace) : NULL;
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "format", import->format);
    if (info)
        ech_trace_info_json(b, info);
    if (import->program)
        ech_report_program_info(b, import->program);
    if (import->program)
        ech_report_program_kernels(b, import->program, device);
    if (import->refusal)
        ech_json_add_text(b, "refused", import->refusal);
    add_rows(b, "records", import->records, false);
    add_rows(b, "dropped", import->diag, true);
    add_rows(b, "notes", import->diag, false);
    ech_json_begin_array(b, "remarks");
    for (const char *const *remark = ech_diag_remarks(import->diag); *remark; remark++)
        json_builder_add_string_value(b, *remark);
    json_builder_end_array(b);
    json_builder_end_object(b);
    print_json_text(b);
    return ECH_EXIT_DONE;
}

static int compare_records(const void *a, const void *b)
{
    const EchDiagRow *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->name, y->name);
}

/* At most @most of them (0: all), with the most frequent first. */
static void text_rows(GString *out, const char *title, const EchDiag *diag, bool dropped, size_t most)
{
    size_t n, said = 0;
    const EchDiagRow *all = ech_diag_rows(diag, &n);
    g_autofree EchDiagRow *rows = g_memdup2(all, n * sizeof *all);
    if (most && n > 1)
        qsort(rows, n, sizeof *rows, compare_records);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].fatal_if_strict != dropped)
            continue;
        if (most && n > most + 1 && said++ >= most) {
            guint64 rest = 0;
            for (size_t k = i; k < n; k++)
                rest += rows[k].count;
            g_string_append_printf(out, "  %10" G_GUINT64_FORMAT "  of %zu other kinds (--json has them)\n", rest, n - i);
            break;
        }
        if (title)
            g_string_append_printf(out, "%s\n", title);
        title = NULL;
        g_autofree char *name = g_utf8_make_valid(rows[i].name, -1);
        if (!most) /* counters of ours, not names of the file */
            g_strdelimit(name, "_", ' ');
        g_string_append_printf(out, "  %10" G_GUINT64_FORMAT "  %s%s%s\n", rows[i].count, name, rows[i].first ? ", first at " : "",
                               rows[i].first ? rows[i].first : "");
    }
}

/* What a snapshot of PyTorch's allocator tells besides: its settings, where it began, and whether it ran out of memory. Nothing where a capture has none beside
 * it. */
static void text_snapshot(GString *out, const EchTrace *trace, const char *path)
{
    g_autofree char *spec = ech_alloc_recorded_spec(trace);
    if (!spec)
        return;
    uint64_t live = 0;
    EchBytes bytes = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[i];
        live += buffer->resident;
        bytes = ech_bytes_add(bytes, buffer->resident ? buffer->bytes : 0);
    }
    g_autofree char *size = ech_format_bytes(bytes);
    g_autofree char *began = bytes > 0 ? g_strdup_printf("; when the recording began %" G_GUINT64_FORMAT " block%s of it %s live, %s", live,
                                                         live == 1 ? "" : "s", live == 1 ? "was" : "were", size)
                                       : NULL;
    ech_trace_info_sentence(out, "PyTorch's allocator: %s%s", strcmp(spec, "pytorch") == 0 ? "default settings" : spec + strlen("pytorch:"),
                            began ? began : "");
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        g_autoptr(GArray) refusals = ech_alloc_refusals(trace, m);
        if (refusals->len == 0)
            continue;
        const EchRefusal *last = &g_array_index(refusals, EchRefusal, refusals->len - 1);
        g_autofree char *asked = ech_format_bytes(last->bytes), *held = ech_format_bytes(last->reserved), *left = ech_format_bytes(last->device_free);
        g_autofree char *of = m == ech_alloc_main_memory(trace) ? g_strdup("") : g_strdup_printf(" --memory %s", ech_trace_memory(trace, m));
        uint32_t device;
        g_autofree char *where =
            ech_trace_is_of_several(trace) && ech_trace_device_of(trace, m, &device) ? g_strdup_printf("device %u", device) : g_strdup("the device");
        ech_trace_info_sentence(out, "out of memory %u time%s: %s asked for, %s held, %s left on %s; 'echelon alloc %s%s' says who would have served it",
                                refusals->len, refusals->len == 1 ? "" : "s", asked, held, left, where, path, of);
    }
}

static void text_remarks(GString *out, const EchDiag *diag)
{
    for (const char *const *remark = ech_diag_remarks(diag); *remark; remark++)
        ech_text_wrap(out, "- ", *remark, ech_cli_columns());
}

static int print_text(const EchImport *import, const EchTrace *trace, const char *path, const char *device)
{
    g_autoptr(EchTraceInfo) info = trace ? ech_trace_info_new(trace) : NULL;
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "%s: %s\n", path, import->format);
    bool pasted = ech_import_is_pasted(import->format); /* then the remarks are what it is about */
    if (pasted)
        text_remarks(out, import->diag);
    if (info)
        ech_trace_info_text(out, info);
    if (trace && (strcmp(import->format, "memory_snapshot") == 0 || strcmp(import->format, "pretend") == 0))
        text_snapshot(out, trace, path);
    if (import->program)
        ech_report_program_text(out, import->program);
    if (import->program)
        ech_report_program_kernels_text(out, import->program, device, ech_cli_columns());
    if (import->refusal)
        ech_trace_info_sentence(out, "the compiler refused it: %s", import->refusal);
    if (!pasted)
        text_rows(out, "records of the file", import->records, false, 16);
    text_rows(out, "dropped or repaired", import->diag, true, 0);
    if (!pasted)
        text_rows(out, "notes", import->diag, false, 0);
    if (pasted && trace && ech_trace_get_property(trace, "allocator_regions"))
        ech_trace_info_sentence(out, "'echelon alloc' asks for it again in the memory as it is here, and under other allocators");
    if (!pasted)
        text_remarks(out, import->diag);
    /* Tables are as narrow as they can be by now: what is too wide is sentences. */
    g_autoptr(GString) folded = ech_text_fold(out->str, ech_cli_columns());
    ech_cli_print(folded->str);
    g_string_free(out, TRUE);
    return ECH_EXIT_DONE;
}

/* A program is summed up as the trace it makes. The device only names memories and gives the clock here: without its file the usual names do. */
static EchTrace *lower(const EchProgram *program, const char *device, uint64_t trips, EchDiag *diag, GError **error)
{
    g_autoptr(EchDevice) loaded = device ? ech_device_load(device, NULL, NULL) : NULL;
    EchLowerOptions options = {.loop_trips = trips};
    return ech_program_lower(program, loaded, &options, diag, error);
}

static void text_device(GString *out, const EchDevice *device)
{
    for (size_t i = 0; i < device->n_memories; i++) {
        const EchMemory *m = &device->memories[i];
        g_autofree char *size = ech_format_bytes(m->capacity), *read = m->read ? ech_format_rate(m->read) : g_strdup("unlimited"),
                        *write = m->write ? ech_format_rate(m->write) : g_strdup("unlimited");
        g_string_append_printf(out, "  memory %-15s %12s, read %s, written %s\n", m->name, size, read, write);
    }
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *l = &device->links[i];
        g_autofree char *to = ech_format_rate(l->to_device), *from = ech_format_rate(l->from_device);
        g_string_append_printf(out, "  link %-17s %12s to the device, %s from it%s\n", l->name, to, from, l->ports > 1 ? ", each port" : "");
    }
    for (size_t i = 0; i < device->n_units; i++) {
        const EchUnit *u = &device->units[i];
        g_autofree char *first = g_strdup_printf("  unit %-17s ", u->name);
        g_autoptr(GString) peaks = g_string_new(NULL);
        for (size_t k = 0; k < u->n_peaks; k++) {
            g_autofree char *peak = ech_format_count((double)u->peaks[k].ops, "OP/s");
            g_string_append_printf(peaks, "%s%s %s", k ? ", " : "", u->peaks[k].dtype, peak);
        }
        ech_text_wrap(out, first, peaks->str, ech_cli_columns());
    }
}

static void json_device(JsonBuilder *b, const EchDevice *device)
{
    ech_json_add_text(b, "name", device->name);
    ech_json_add_text(b, "summary", device->summary);
    ech_json_begin_object(b, "memories");
    for (size_t i = 0; i < device->n_memories; i++) {
        ech_json_begin_object(b, device->memories[i].name);
        ech_json_add_count(b, "capacity_bytes", device->memories[i].capacity);
        ech_json_add_count(b, "nominal_bytes_per_s", device->memories[i].nominal);
        ech_json_add_count(b, "read_bytes_per_s", device->memories[i].read);
        ech_json_add_count(b, "write_bytes_per_s", device->memories[i].write);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    ech_json_begin_object(b, "links");
    for (size_t i = 0; i < device->n_links; i++) {
        ech_json_begin_object(b, device->links[i].name);
        ech_json_add_count(b, "to_device_bytes_per_s", device->links[i].to_device);
        ech_json_add_count(b, "from_device_bytes_per_s", device->links[i].from_device);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    ech_json_begin_object(b, "units");
    for (size_t i = 0; i < device->n_units; i++) {
        ech_json_begin_object(b, device->units[i].name);
        for (size_t k = 0; k < device->units[i].n_peaks; k++)
            ech_json_add_count(b, device->units[i].peaks[k].dtype, device->units[i].peaks[k].ops);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

/* Whether @name is that of a device, or of a part of one, and no file. */
static bool is_device_name(const char *name)
{
    g_auto(GStrv) names = ech_device_list();
    const char *profile = ech_mig_profile(name);
    g_autofree char *board = profile ? g_strndup(name, (gsize)(profile - 1 - name)) : g_strdup(name);
    return !g_file_test(name, G_FILE_TEST_EXISTS) && g_strv_contains((const char *const *)names, board);
}

typedef enum { NO_DEVICE, DEVICE_FILE, DEVICE_TARGET } DeviceKind;

/* Device files, and XLA's description of a GPU. An experiment may have a device in it. */
static DeviceKind device_kind(const char *path)
{
    g_autoptr(EchSource) source = ech_source_open(path, NULL);
    size_t n = 0;
    const uint8_t *head = source ? ech_source_head(source, &n) : NULL;
    if (n && ech_gpu_target_probe((const char *)head, n))
        return DEVICE_TARGET;
    bool yaml = g_str_has_suffix(path, ".yaml") || g_str_has_suffix(path, ".yml");
    bool experiment = n && (ech_head_has(head, n, "trace:") || ech_head_has(head, n, "matmul:"));
    return yaml && !experiment && n && (ech_head_has(head, n, "memories:") || ech_head_has(head, n, "base:")) ? DEVICE_FILE : NO_DEVICE;
}

static int info_device(const char *path, DeviceKind kind, bool json)
{
    GError *error = NULL;
    g_autoptr(EchDevice) device = ech_device_load(path, NULL, &error);
    if (!device)
        return ech_cli_fail(error);
    if (json) {
        g_autoptr(JsonBuilder) b = json_builder_new();
        json_builder_begin_object(b);
        ech_json_add_text(b, "format", kind == DEVICE_FILE ? "device" : "gpu_target_config");
        ech_json_begin_object(b, "device");
        json_device(b, device);
        json_builder_end_object(b);
        json_builder_end_object(b);
        print_json_text(b);
        return ECH_EXIT_DONE;
    }
    g_autoptr(GString) out = g_string_new(NULL);
    g_string_append_printf(out, "%s: %s: %s\n", path, kind == DEVICE_FILE ? "a device" : "gpu_target_config, a device",
                           *device->summary ? device->summary : device->name);
    text_device(out, device);
    if (kind == DEVICE_FILE)
        ech_trace_info_sentence(out, "'echelon list devices %s --sources' tells every number and where it comes from", path);
    else
        ech_trace_info_sentence(out,
                                "give it as --device FILE; 'echelon import FILE -o DEVICE.yaml' writes it as a device file, with the source of every number");
    ech_cli_print(out->str);
    return ECH_EXIT_DONE;
}

int ech_verb_info(int argc, char **argv)
{
    g_autofree char *format = NULL, *device = NULL, *beside = NULL;
    gboolean json = FALSE, strict = FALSE, ignore = FALSE;
    gint64 trips = 1;
    const GOptionEntry entries[] = {
        {"device", 0, 0, G_OPTION_ARG_STRING, &device, "chip the file was made for, where the format does not say", "NAME"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &beside, ECH_CLI_BESIDE, "FILE"},
        {"alone", 0, 0, G_OPTION_ARG_NONE, &ignore, "do not pick up files that lie beside the program", NULL},
        {"loop-trips", 0, 0, G_OPTION_ARG_INT64, &trips, "trip count of loops that tell none (default 1)", "N"},
        {"strict", 0, 0, G_OPTION_ARG_NONE, &strict, "fail if anything was dropped or repaired", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "one JSON document on standard output", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || trips < 0) {
        fprintf(stderr, "echelon info: one FILE is needed; '-' reads what is pasted into the terminal, up to Ctrl-D%s\n",
                trips < 0 ? " and --loop-trips must not be negative" : "");
        return ECH_EXIT_USAGE;
    }
    ech_cli_find_trace(&rest[0]);
    const DeviceKind kind = format || g_file_test(rest[0], G_FILE_TEST_IS_DIR) ? NO_DEVICE : is_device_name(rest[0]) ? DEVICE_FILE : device_kind(rest[0]);
    if (kind != NO_DEVICE)
        return info_device(rest[0], kind, json);
    GError *error = NULL;
    if (!ech_cli_check_device(device, &error))
        return ech_cli_fail(error);
    EchImportOptions options = {.device = device, .beside = beside, .ignore_beside = ignore};
    g_autoptr(EchImport) import = ech_import_file(rest[0], format, &options, &error);
    if (!import || (strict && !ech_diag_check_strict(import->diag, &error)))
        return ech_cli_fail(error);
    if (import->program && !ech_report_program_complete(import->program, device, import->diag, &error))
        return ech_cli_fail(error);
    g_autoptr(EchTrace) lowered = import->program ? lower(import->program, device, (uint64_t)trips, import->diag, &error) : NULL;
    if (lowered && import->resident) {
        EchTrace *merged = ech_import_add_resident(lowered, import->resident, import->diag, &error);
        ech_trace_unref(lowered);
        lowered = merged;
    }
    if (error)
        return ech_cli_fail(error);
    const EchTrace *trace = lowered ? lowered : import->trace;
    return json ? print_json(import, trace, device) : print_text(import, trace, rest[0], device);
}
