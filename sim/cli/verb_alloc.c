/* echelon alloc: a trace's allocations under one allocator or several, without a clock. */
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/experiment/alloc_study.h"

#include <stdio.h>

enum {
    DEFAULT_TOP = 5,
    SAMPLES = 500, /* of the time series, which only JSON holds */
};
static const EchBytes LEAST_CAPACITY = UINT64_C(1) << 20;

static void progress(uint64_t done, uint64_t total)
{
    ech_cli_progress("allocations", done, total);
}

/* One row for each spec, or for those that an interrupt did not come before; NULL and @error for the first that makes no sense. @placements: as of
 * --placements. */
static GPtrArray *run(const EchAllocStudy *study, char **specs, const char *placements, EchAllocRowOptions *options, GError **error)
{
    g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)ech_alloc_row_free);
    for (unsigned i = 0; specs[i] && (i == 0 || !*options->stop); i++) {
        g_autofree char *path = !placements ? NULL : i == 0 ? g_strdup(placements) : g_strdup_printf("%s.%u", placements, i + 1);
        options->placements = path;
        EchAllocRow *row = ech_alloc_row_new(study, specs[i], options, error);
        if (!row)
            return NULL;
        g_ptr_array_add(rows, row);
    }
    return g_steal_pointer(&rows);
}

/* What was dropped or repaired on reading. */
static void warn(const EchDiag *diag, const char *path)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(diag, &n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *name = g_strdelimit(g_strdup(rows[i].name), "_", ' ');
        if (rows[i].fatal_if_strict)
            ech_cli_say("echelon: %s: %" G_GUINT64_FORMAT " %s%s%s\n", path, rows[i].count, name, rows[i].first ? ", first at " : "",
                        rows[i].first ? rows[i].first : "");
    }
}

int ech_verb_alloc(int argc, char **argv)
{
    g_auto(GStrv) specs = NULL;
    g_autofree char *capacity = NULL, *placements = NULL, *format = NULL, *memory = NULL, *device = NULL;
    gboolean json = FALSE, report = FALSE, search = FALSE, strict = FALSE, fresh = FALSE, temporaries = FALSE;
    gint top = DEFAULT_TOP;
    const GOptionEntry entries[] = {
        {"allocator", 'a', 0, G_OPTION_ARG_STRING_ARRAY, &specs,
         "NAME, NAME:KEY=VALUE,... or a framework's own settings; plan:PLANNER for a static plan, compiler for the program's own; may be repeated", "SPEC"},
        {"capacity", 'c', 0, G_OPTION_ARG_STRING, &capacity,
         "bytes of device memory (default: what --device or the program's chip has available, what a recording that ran out of memory had, else 80GiB)",
         "BYTES"},
        {"device", 'd', 0, G_OPTION_ARG_STRING, &device,
         "the machine: its memory, less what a process takes to begin with, is the capacity; compiled programs may need it", "NAME"},
        {"placements", 0, 0, G_OPTION_ARG_FILENAME, &placements, "write where each allocation went; the second allocator's go to OUT.csv.2, and so on",
         "OUT.csv"},
        {"report", 'r', 0, G_OPTION_ARG_NONE, &report, "explain fragmentation at the peak, at failures and at the end (with --json: a time series too)", NULL},
        {"smallest", 's', 0, G_OPTION_ARG_NONE, &search,
         "search the smallest capacity at which nothing fails (unasked for programs and PyTorch's captures, unless they are long)", NULL},
        {"fresh", 0, 0, G_OPTION_ARG_NONE, &fresh, "memory snapshots, logs of BFC: begin empty, not from the start state the recording implies", NULL},
        {"temporaries", 0, 0, G_OPTION_ARG_NONE, &temporaries,
         "only what is allocated while the trace runs: without arguments, constants and what is resident at the start", NULL},
        {"top", 0, 0, G_OPTION_ARG_INT, &top, "segments and blocks to name in the report (default 5)", "N"},
        {"memory", 0, 0, G_OPTION_ARG_STRING, &memory, "which of the trace's memories (default: the device's main one, of several devices the fullest's)",
         "NAME"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"strict", 0, 0, G_OPTION_ARG_NONE, &strict, "fail if anything was dropped or repaired on reading", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "one JSON document on standard output", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || top < 0) {
        fprintf(stderr, "echelon alloc: %s\n", top < 0 ? "--top must not be negative" : "one FILE is needed");
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    EchAllocStudyOptions reading = {.format = format, .memory = memory, .device = device, .temporaries = temporaries};
    if (capacity && !ech_parse_bytes(capacity, &reading.capacity, &error)) {
        g_prefix_error(&error, "--capacity: ");
        return ech_cli_fail(error);
    }
    if (capacity && reading.capacity < LEAST_CAPACITY) {
        fprintf(stderr, "echelon alloc: --capacity: '%s' is %" G_GUINT64_FORMAT " bytes; expected 1MiB at least, something like 16GiB\n", capacity,
                reading.capacity);
        return ECH_EXIT_USAGE;
    }
    ech_cli_find_trace(&rest[0]);
    g_autoptr(EchAllocStudy) study = ech_alloc_study_read(rest[0], &reading, &error);
    if (!study || (strict && !ech_diag_check_strict(study->diag, &error)))
        return ech_cli_fail(error);
    EchAllocStudyOutput output = {.top = (unsigned)top, .columns = ech_cli_columns(), .searched = search || ech_alloc_study_searches(study)};
    const volatile sig_atomic_t *stop = ech_interrupt_hold(); /* what was tried by then is told */
    EchAllocRowOptions options = {
        .report = report, .n_samples = json ? SAMPLES : 0, .search = output.searched, .fresh = fresh, .progress = progress, .stop = stop};
    if (!specs)
        specs = ech_alloc_study_specs(study, fresh, stop);
    g_autoptr(GPtrArray) rows = run(study, specs, placements, &options, &error);
    output.interrupted = ech_interrupt_release();
    if (!rows)
        return ech_cli_fail(error);
    g_autofree char *left_out = specs[rows->len] ? g_strjoinv(", ", specs + rows->len) : NULL;
    output.left_out = left_out;
    warn(study->diag, rest[0]);
    if (json) {
        g_autofree char *text = ech_alloc_study_json(study, rows, &output);
        ech_cli_print(text);
    } else {
        g_autoptr(GString) text = ech_alloc_study_text(study, rows, rest[0], &output);
        ech_cli_print(text->str);
    }
    ech_interrupt_end();
    bool fit = rows->len > 0 || ech_alloc_study_bound(study) <= study->capacity;
    for (guint i = 0; i < rows->len; i++)
        fit = fit && ((const EchAllocRow *)g_ptr_array_index(rows, i))->outcome.stats.failed == 0;
    return fit ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}
