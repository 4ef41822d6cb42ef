/* echelon plan: offline placement of a trace's or a CSV's buffers. */
#include "models/alloc/plan.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/import/alloc_events.h"
#include "sim/import/import.h"
#include "sim/import/minimalloc.h"
#include "sim/experiment/output.h"
#include "sim/report/json_out.h"
#include "sim/report/minimalloc_csv.h"
#include "sim/trace/lifetime.h"
#include "sim/trace/select.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

/** What is to be placed: rows as they are written, items as they are planned; item i is row i, more items belong to rows with gaps. */
typedef struct {
    GArray *rows;  /* EchMinimallocCsvRow; ids live in @names */
    GArray *items; /* EchPlanItem */
    GStringChunk *names;
    const char *memory; /* In @names; NULL for a table of lifetimes. */
    bool has_alignment;
} Input;

static void input_clear(Input *input)
{
    g_array_unref(input->rows);
    g_array_unref(input->items);
    g_string_chunk_free(input->names);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Input, input_clear)

static void input_init(Input *input)
{
    input->rows = g_array_new(FALSE, TRUE, sizeof(EchMinimallocCsvRow));
    input->items = g_array_new(FALSE, TRUE, sizeof(EchPlanItem));
    input->names = g_string_chunk_new(4096);
    input->memory = NULL;
    input->has_alignment = false;
}

/* The gaps of a row as they are read: without them what lies in one seems to overlap. NULL: it has none. */
static const char *gaps_of(const EchMinimalloc *table, const EchMinimallocRow *row, GStringChunk *names)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t i = 0; i < row->n_gaps; i++) {
        const EchMinimallocGap *gap = &table->gaps[row->first_gap + i];
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT "-%" G_GINT64_FORMAT, i ? " " : "", gap->lower, gap->upper);
        if (gap->high > gap->low)
            g_string_append_printf(text, "@%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT, gap->low, gap->high);
    }
    return row->n_gaps ? g_string_chunk_insert(names, text->str) : NULL;
}

static bool read_csv(EchSource *source, Input *input, GError **error)
{
    g_autoptr(EchMinimalloc) table = ech_minimalloc_read(source, error);
    if (!table)
        return false;
    g_array_unref(input->items);
    input->items = ech_minimalloc_items(table);
    input->has_alignment = table->has_alignment;
    for (size_t i = 0; i < table->n; i++) {
        const EchMinimallocRow *row = &table->rows[i];
        EchMinimallocCsvRow out = {
            g_string_chunk_insert(input->names, row->id), row->lower, row->upper, row->size, row->alignment, 0, 0, gaps_of(table, row, input->names)};
        g_array_append_val(input->rows, out);
    }
    return true;
}

/** The memory asked for, else the one the allocations are about. */
static bool choose_memory(const EchTrace *trace, const char *name, EchId *ret, GError **error)
{
    EchId found = name ? ech_trace_find_memory(trace, name) : ech_alloc_main_memory(trace);
    if (found != ECH_NONE) {
        *ret = found;
        return true;
    }
    g_autoptr(GString) all = g_string_new(NULL);
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++)
        g_string_append_printf(all, "%s%s", m ? ", " : "", ech_trace_memory(trace, m));
    if (name)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not a memory of this trace; it has %s", name, all->len ? all->str : "none");
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "nothing to place: this trace tells of no buffer");
    return false;
}

/** Lives are op indices, half-open; what is never freed ends after the last op, in buffer order. */
static bool read_trace(const EchTrace *trace, const char *memory_name, Input *input, GError **error)
{
    EchId memory;
    if (!choose_memory(trace, memory_name, &memory, error))
        return false;
    const char *of_several = !memory_name && ech_trace_is_of_several(trace) ? ", the fullest device's (--memory chooses another's)" : "";
    g_autofree char *name = g_strconcat(ech_trace_memory(trace, memory), of_several, NULL);
    input->memory = g_string_chunk_insert(input->names, name);
    bool own_ids = strcmp(ech_trace_format(trace), "minimalloc") == 0; /* a table of lives, as a trace file */
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(trace, memory);
    for (size_t i = 0; i < lifetimes->n; i++) {
        const EchLifetime *life = &lifetimes->items[i];
        if (ech_trace_buffers(trace)[life->buffer].direct) /* nobody's to place */
            continue;
        g_autofree char *id = own_ids ? g_strdup(ech_trace_string(trace, ech_trace_buffers(trace)[life->buffer].name)) : g_strdup_printf("%u", life->buffer);
        EchMinimallocCsvRow row = {g_string_chunk_insert(input->names, id), life->begin, life->end, life->bytes, 0, 0, 0, NULL};
        EchPlanItem item = {life->begin, life->end, life->bytes, 0, 0, ECH_PLAN_ALONE};
        g_array_append_val(input->rows, row);
        g_array_append_val(input->items, item);
    }
    return true;
}

static bool read_input(const char *path, const char *format, const EchImportOptions *options, const char *memory, Input *input, GError **error)
{
    bool folder = g_file_test(path, G_FILE_TEST_IS_DIR);
    g_autoptr(EchSource) source = folder ? NULL : ech_source_open(path, error);
    if (!source && !folder)
        return false;
    size_t n = 0;
    const uint8_t *head = source ? ech_source_head(source, &n) : NULL;
    if (source && (format ? strcmp(format, "minimalloc") == 0 : ech_minimalloc_probe(head, n) == 2))
        return read_csv(source, input, error);
    g_autoptr(EchImport) import = source ? ech_import_source(source, format, options, error) : ech_import_file(path, format, options, error);
    if (!import)
        return false;
    if (import->trace)
        return read_trace(import->trace, memory, input, error);
    EchLowerOptions lower = {.loop_trips = 1};
    g_autoptr(EchTrace) trace = ech_program_lower(import->program, NULL, &lower, import->diag, error);
    return trace && read_trace(trace, memory, input, error);
}

static void print_json(const EchPlanner *planner, const EchPlan *plan, bool interrupted, size_t n_rows, double seconds, EchBytes capacity)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "planner", ech_planner_name(planner));
    ech_json_add_count(b, "buffers", n_rows);
    ech_json_add_count(b, "height_bytes", plan->height);
    ech_json_add_count(b, "lower_bound_bytes", plan->lower_bound);
    ech_json_add_double(b, "seconds", seconds);
    ech_json_add_bool(b, "proved_optimal", plan->proved_optimal);
    ech_json_add_bool(b, "out_of_time", plan->out_of_time);
    ech_json_add_bool(b, "too_large", plan->too_large);
    ech_json_add_bool(b, "interrupted", interrupted);
    ech_json_add_count(b, "steps", plan->steps);
    if (capacity)
        ech_json_add_count(b, "capacity_bytes", capacity);
    ech_json_add_bool(b, "fits", plan->fits);
    ech_json_begin_array(b, "heap_bytes");
    for (size_t i = 0; i < plan->n_heaps; i++)
        json_builder_add_int_value(b, (gint64)plan->heap_bytes[i]);
    json_builder_end_array(b);
    json_builder_end_object(b);
    g_autofree char *text = ech_json_finish(b);
    ech_cli_print(text);
}

static void print_text(const EchPlanner *planner, const EchPlan *plan, bool interrupted, size_t n_rows, const char *memory, double seconds, EchBytes capacity)
{
    g_autofree char *height = ech_format_bytes(plan->height), *bound = ech_format_bytes(plan->lower_bound);
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "%s: %zu buffers%s%s\n", ech_planner_name(planner), n_rows, memory ? " in " : "", memory ? memory : "");
    g_string_append_printf(out, "  height       %s (%" G_GUINT64_FORMAT " bytes)%s\n", height, plan->height,
                           plan->proved_optimal ? ", proved lowest"
                           : interrupted        ? ", the lowest so far: interrupted"
                           : plan->out_of_time  ? ", time is up"
                           : plan->too_large    ? ", a heuristic's: too many buffers meet for a search"
                                                : "");
    g_string_append_printf(out, "  lower bound  %s (%" G_GUINT64_FORMAT " bytes)", bound, plan->lower_bound);
    if (plan->lower_bound > 0)
        g_string_append_printf(out, ", %.2f %% below the height", 100.0 * (1.0 - (double)plan->lower_bound / (double)plan->height));
    g_string_append_c(out, '\n');
    if (plan->n_heaps > 1)
        g_string_append_printf(out, "  heaps        %zu\n", plan->n_heaps);
    if (capacity) {
        EchBytes apart = plan->height > capacity ? plan->height - capacity : capacity - plan->height;
        g_autofree char *size = ech_format_bytes(capacity), *left = ech_format_bytes(apart);
        g_string_append_printf(out, "  capacity     %s: %s, %s %s\n", size, plan->fits ? "it fits" : "IT DOES NOT FIT", left,
                               plan->fits ? "to spare" : "too much");
    }
    g_string_append_printf(out, "  time         %.3f s, %.0f buffers/s\n", seconds, seconds > 0 ? (double)n_rows / seconds : 0);
    ech_cli_print(out->str);
    g_string_free(out, TRUE);
}

static void progress(uint64_t done, uint64_t total)
{
    ech_cli_progress("buffers placed", done, total);
}

int ech_verb_plan(int argc, char **argv)
{
    g_autofree char *spec = NULL, *capacity_text = NULL, *out = NULL, *format = NULL, *device = NULL, *memory = NULL;
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        {"planner", 0, 0, G_OPTION_ARG_STRING, &spec, "planner and its parameters: xla:algorithm=best, exact:time_limit=30s, greedy (the default)", "SPEC"},
        {"capacity", 0, 0, G_OPTION_ARG_STRING, &capacity_text, "bytes there are; exit code 3 if the plan is higher", "BYTES"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &out,
         "write id,lower,upper,size,offset here, and alignment and gaps where the file has them; -: on standard output, and nothing else", "OUT.csv"},
        {"memory", 0, 0, G_OPTION_ARG_STRING, &memory,
         "memory of a trace whose buffers are placed (default: hbm, of several devices the fullest one's; else the one with most bytes)", "NAME"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"device", 0, 0, G_OPTION_ARG_STRING, &device, "chip the file was made for, where the format does not say", "NAME"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "print one JSON document", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1) {
        fprintf(stderr, "echelon plan: one FILE is needed\n");
        return ECH_EXIT_USAGE;
    }
    bool table = out && strcmp(out, "-") == 0;
    if (table && json) {
        fprintf(stderr, "echelon plan: --json and -o - both write to standard output; expected one of them, or -o OUT.csv\n");
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    EchBytes capacity = 0;
    if (capacity_text && !ech_parse_bytes(capacity_text, &capacity, &error)) {
        g_prefix_error(&error, "--capacity: ");
        return ech_cli_fail(error);
    }
    if (capacity_text && capacity == 0) {
        fprintf(stderr, "echelon plan: --capacity: '%s' is 0 bytes; expected something like 16GiB\n", capacity_text);
        return ECH_EXIT_USAGE;
    }
    g_autoptr(EchPlanner) planner = ech_planner_new(spec ? spec : "greedy", &error);
    if (!planner) {
        g_prefix_error(&error, "--planner: ");
        return ech_cli_fail(error);
    }
    if (!ech_cli_check_device(device, &error))
        return ech_cli_fail(error);
    g_auto(Input) input;
    input_init(&input);
    EchImportOptions options = {.device = device};
    ech_cli_find_trace(&rest[0]);
    if (!read_input(rest[0], format, &options, memory, &input, &error))
        return ech_cli_fail(error);
    const EchPlanItem *items = (const EchPlanItem *)(const void *)input.items->data;
    gint64 start = g_get_monotonic_time();
    const volatile sig_atomic_t *stop = ech_interrupt_hold();
    if (!ech_planner_stop_when(planner, stop))
        ech_interrupt_release();
    ech_planner_tell(planner, progress);
    g_autoptr(EchPlan) plan = ech_planner_run(planner, items, input.items->len, capacity, &error);
    ech_cli_progress("buffers placed", 1, 1);
    bool interrupted = ech_interrupt_release() && plan && plan->out_of_time;
    double seconds = (double)(g_get_monotonic_time() - start) / 1e6;
    if (!plan || !ech_plan_check(items, input.items->len, plan, &error))
        return ech_cli_fail(error);
    if (out) {
        EchMinimallocCsvRow *rows = (EchMinimallocCsvRow *)(void *)input.rows->data;
        for (guint i = 0; i < input.rows->len; i++) {
            rows[i].offset = plan->offsets[i];
            rows[i].heap = plan->heaps[i];
        }
        g_autoptr(GString) text = g_string_new(NULL);
        bool heaps = spec && strstr(ech_planner_name(planner), "limit=") != NULL && g_str_has_prefix(spec, "xla");
        ech_minimalloc_csv_print(text, rows, input.rows->len, input.has_alignment, heaps);
        if (table)
            ech_cli_print(text->str);
        else if (!ech_output_file(out, text->str, text->len, &error))
            return ech_cli_fail(error);
    }
    if (json)
        print_json(planner, plan, interrupted, input.rows->len, seconds, capacity);
    else if (!table)
        print_text(planner, plan, interrupted, input.rows->len, input.memory, seconds, capacity);
    ech_interrupt_end();
    return plan->fits ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}
