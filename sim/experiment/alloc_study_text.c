/* A study for a terminal. */
#include "sim/experiment/alloc_study_private.h"
#include "sim/import/import.h"
#include "sim/import/torch_says.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

#include <string.h>

/* All other columns of the table but the first and those that a narrow terminal does without. */
enum { FIXED_WIDTH = 37 };

/* Behind the allocator of a recording that begins from the recorded start state. */
#define AS_RECORDED ", as recorded"

static char *label_of(const EchAllocRow *row)
{
    return g_strconcat(row->spec, row->recorded ? AS_RECORDED : NULL, NULL);
}

/* Of the first column: as wide as its longest label, within reason and a terminal of @columns. */
static int width_of(const GPtrArray *rows, unsigned columns)
{
    size_t width = 20;
    for (guint i = 0; i < rows->len; i++) {
        g_autofree char *label = label_of(g_ptr_array_index(rows, i));
        width = MAX(width, strlen(label));
    }
    return MIN((int)MIN(width, (size_t)100), columns ? MAX((int)columns - FIXED_WIDTH, 20) : 100);
}

/* True where a row begins with what was live at the recording's start, but without the holes between. */
static bool lost_holes(const EchAllocStudy *study, const EchAllocRow *row)
{
    return study->start && study->start->seeds->len && !row->recorded && !row->is_static;
}

static void text_holders(GString *out, const EchAllocStudy *study, unsigned top, unsigned columns)
{
    EchBytes live;
    g_autoptr(GArray) held = ech_alloc_study_holders(study, false, &live);
    if (held->len == 0 || top == 0)
        return;
    g_autofree char *sum = ech_format_bytes(live);
    bool refused = ech_alloc_study_n_refusals(study) > 0;
    g_string_append_printf(out, "\n%s, %s, by what asked for it\n", refused ? "in use at the refusal" : "in use when most is", sum);
    EchBytes rest = 0;
    uint64_t blocks = 0;
    for (guint i = 0; i < held->len; i++) {
        const EchTallyRow *holder = &g_array_index(held, EchTallyRow, i);
        if (i >= top && held->len > top + 1) {
            rest = ech_bytes_add(rest, holder->bytes);
            blocks += holder->blocks;
            continue;
        }
        g_autofree char *bytes = ech_format_bytes(holder->bytes), *line = ech_text_short(holder->name, columns ? MAX((int)columns - 28, 24) : 0);
        g_string_append_printf(out, "  %10s  %5" G_GUINT64_FORMAT " block%s  %s\n", bytes, holder->blocks, holder->blocks == 1 ? " " : "s", line);
    }
    if (blocks) {
        g_autofree char *bytes = ech_format_bytes(rest);
        g_string_append_printf(out, "  %10s  %5" G_GUINT64_FORMAT " block%s  of %u more lines (--top)\n", bytes, blocks, blocks == 1 ? " " : "s",
                               held->len - top);
    }
}

/* True for a row with the settings of the recording, which is known to have refused what this row may serve for want of its holes. */
static bool is_recorded_without_holes(const EchAllocStudy *study, const GPtrArray *rows, const EchAllocRow *row)
{
    const char *settings = ech_alloc_row_settings(row);
    for (guint i = 0; settings && lost_holes(study, row) && i < rows->len; i++) {
        const EchAllocRow *recorded = g_ptr_array_index(rows, i);
        if (recorded->recorded && strcmp(settings, recorded->settings ? recorded->settings : "") == 0)
            return true;
    }
    return false;
}

static void text_advice(GString *out, const EchAllocStudy *study, const GPtrArray *rows)
{
    const char *instead;
    const EchAllocRow *best = ech_alloc_study_advice(study, rows, &instead);
    if (!best)
        return;
    int64_t times = ech_alloc_row_emptied(best);
    g_autofree char *cost =
        times ? g_strdup_printf("it empties its cache %" G_GINT64_FORMAT " time%s, each of which waits for the device", times, times == 1 ? "" : "s")
              : g_strdup("it need not empty its cache for that");
    g_string_append_printf(out, "  try PYTORCH_CUDA_ALLOC_CONF=%s%s%s: %s\n", ech_alloc_row_settings(best), instead ? " instead of " : "",
                           instead ? instead : "", cost);
    /* The program ends there: nobody knows what it would have asked for next. */
    if (g_strcmp0(study->format, "pretend") == 0)
        g_string_append(out, "  what the program asks for after that is not in the capture: 'echelon capture --pretend' with a larger device tells\n");
}

/* True where the recording has no request after that one: the program ended with it. */
static bool ends_with(const EchAllocStudy *study, uint32_t id)
{
    for (guint i = study->events->len; i-- > 0;) {
        const EchAllocEvent *event = &g_array_index(study->events, EchAllocEvent, i);
        if (event->kind == ECH_EVENT_ALLOC)
            return event->id == id;
    }
    return false;
}

/* Where sizes are rounded to more than blocks, a recording tells of a refused request only what it was rounded to. */
static void text_hidden_size(GString *out, const EchAllocStudy *study, const EchRefusal *refusal, uint32_t id)
{
    g_autofree char *spec = ech_alloc_recorded_spec(study->trace);
    if (!spec || !strstr(spec, "roundup_power2_divisions"))
        return;
    EchBytes taken = refusal->bytes;
    for (guint i = 0; i < study->events->len; i++) {
        const EchAllocEvent *event = &g_array_index(study->events, EchAllocEvent, i);
        if (event->id == id && event->kind == ECH_EVENT_ALLOC)
            taken = event->bytes;
    }
    g_autofree char *bytes = ech_format_bytes(taken);
    g_string_append_printf(out, "    roundup_power2_divisions hides how much it was before it was rounded: below it is %s%s\n", bytes,
                           taken == refusal->bytes ? ", the most that it may have been" : ", as the last request that was rounded to as much");
}

/* What PyTorch's optimizer, which takes all parameters at once unless it is told otherwise, holds of @live at a refusal. A smaller batch has no part in it. */
static void text_foreach(GString *out, const EchAllocStudy *study, uint32_t id, EchBytes live)
{
    enum { LEAST_PART = 20 };
    bool fuses;
    EchBytes own = ech_alloc_study_foreach_at(study, id, &fuses);
    if (own == 0 || own < live / LEAST_PART)
        return;
    g_autofree char *size = ech_format_bytes(own);
    g_string_append_printf(out, "    %s of what was allocated are temporaries of the optimizer, which takes all parameters at once: %sforeach=False %s\n", size,
                           fuses ? "fused=True makes none, " : "", fuses ? "those of one parameter at a time" : "makes those of one parameter at a time");
}

/* What PyTorch resorts to where no library's kernel takes what it is given: the request is of that, and smaller for another way. */
static void text_resort(GString *out, const EchAllocStudy *study, uint32_t id)
{
    static const struct {
        const char *operator, * says;
    } resorts[] = {
        {"aten::slow_conv", ECH_TORCH_UNFOLDS},
        {"aten::_slow_conv",
         "PyTorch does not hand this convolution to cuDNN, and writes its input out once for each place of the filter: less of the input at a time"},
        {"aten::_scaled_dot_product_attention_math", ECH_TORCH_SCORES},
    };
    const char *stack = ech_alloc_study_stack(study, id);
    for (size_t k = 0; stack && k < G_N_ELEMENTS(resorts); k++) {
        if (strstr(stack, resorts[k].operator)) {
            g_string_append_printf(out, "    %s\n", resorts[k].says);
            return;
        }
    }
}

/* The recording ran out of memory: who would not have. */
static void text_refusals(GString *out, const EchAllocStudy *study, const GPtrArray *rows, int width)
{
    guint n = ech_alloc_study_n_refusals(study);
    if (n == 0)
        return;
    const EchRefusal *refusal = &g_array_index(study->refusals, EchRefusal, n - 1);
    uint32_t id = ech_alloc_study_refusal_id(study, n - 1);
    EchBytes live = ech_alloc_study_live_at(study, id), held = refusal->reserved - MIN(refusal->reserved, live);
    g_autofree char *asked = ech_format_bytes(refusal->bytes), *in_use = ech_format_bytes(live), *unused = ech_format_bytes(held),
                    *left = ech_format_bytes(refusal->device_free), *name = ech_alloc_study_short_name(study, id, 60),
                    *room = ech_format_bytes(study->capacity);
    g_string_append_printf(out, "\nthe recording ran out of memory");
    if (n > 1)
        g_string_append_printf(out, " %u times, the last time", n);
    g_string_append_printf(out, ": %s asked for by %s with %s allocated, %s reserved but unallocated, %s free on the device\n", asked, name, in_use, unused,
                           left);
    ech_alloc_study_text_stack(out, study, id, "asked for");
    text_hidden_size(out, study, refusal, id);
    text_foreach(out, study, id, live);
    text_resort(out, study, id);
    if (study->limited)
        g_string_append(out, "    the device had enough left: a limit refused it (set_per_process_memory_fraction or the like); raise it, or see below\n");
    if (refusal->kept) {
        g_autofree char *kept = ech_format_bytes(refusal->kept);
        g_string_append_printf(out, "    %s of what was reserved is private pools' (CUDA graphs, MemPools), which keep it until they are released%s\n", kept,
                               refusal->in_pool ? "; it was asked for by a capture, for which no cache is emptied" : "");
    }
    EchBytes bound = ech_alloc_study_bound(study);
    if (bound > study->capacity) {
        g_autofree char *more = ech_format_bytes(bound - study->capacity);
        g_string_append_printf(out,
                               "  no allocator can serve it in %s: what lives together is %s more. Use less at a time (micro-batch, checkpointing, offload, "
                               "shards) or a larger device\n",
                               room, more);
        return;
    }
    bool fragmented = false;
    for (guint i = 0; i < rows->len; i++) {
        const EchAllocRow *row = g_ptr_array_index(rows, i);
        g_autofree char *label = label_of(row), *smallest = ech_format_bytes(row->smallest);
        g_string_append_printf(out, "  %-*s  ", width, label);
        if (row->served < n) {
            const char *fragments =
                refusal->kept ? "though as many bytes are free, what private pools keep included" : "though as many bytes are free: fragmentation";
            g_string_append_printf(out, "refuses it%s, %s\n", row->recorded ? " too" : "",
                                   row->last_fit == ECH_FIT_FRAGMENTED ? fragments : "for want of memory");
            fragmented |= row->last_fit == ECH_FIT_FRAGMENTED && !row->report && !row->is_static;
            continue;
        }
        if (is_recorded_without_holes(study, rows, row)) {
            g_string_append(out, "would have served it without the holes that the recording began with\n");
            continue;
        }
        g_string_append(out, n > 1 ? "serves all of them" : "serves it");
        if (row->outcome.stats.failed)
            g_string_append(out, ", but fails elsewhere");
        else if (row->smallest)
            g_string_append_printf(out, "; %s of device memory would do", smallest);
        if (lost_holes(study, row))
            g_string_append(out, ", begun without the recording's holes");
        if (refusal->kept && !row->recorded && !ech_alloc_row_settings(row))
            g_string_append(out, ", as if no private pool kept memory");
        g_string_append_c(out, '\n');
    }
    text_advice(out, study, rows);
    if (ends_with(study, id))
        g_string_append(out, "  the recording ends there: what the program would have asked for next is not in it\n");
    if (fragmented)
        g_string_append(out, "  --report says what stood in the way\n");
}

/* PyTorch empties its cache before it gives up: not a failure, but slow. */
static void text_retries(GString *out, const EchAllocRow *row)
{
    int64_t times = ech_alloc_row_emptied(row);
    if (times)
        g_string_append_printf(out, "\n%s: emptied its cache %" G_GINT64_FORMAT " time%s to make room (num_alloc_retries): each waits for the device",
                               row->spec, times, times == 1 ? "" : "s");
}

/* A program ends at its first failure; what comes after shows only how much more is missing. */
static void text_first_failure(GString *out, const EchAllocStudy *study, const EchAllocRow *row)
{
    uint64_t failed = row->outcome.stats.failed, at = row->outcome.first_failed, fragmented = row->outcome.fragmented;
    if (failed == 0 || row->is_static || !row->events || at >= row->events->len)
        return;
    const EchAllocEvent *event = &g_array_index(row->events, EchAllocEvent, at);
    if (ech_alloc_study_refusal(study, event->id)) /* said already */
        return;
    g_autofree char *asked = ech_format_bytes(event->bytes), *name = ech_alloc_study_short_name(study, event->id, 60), *label = label_of(row);
    g_string_append_printf(out, "\n%s: out of memory at event %" G_GUINT64_FORMAT ", %s for %s, %s", label, at, asked, name,
                           row->outcome.first_fit == ECH_FIT_FRAGMENTED ? "though as many bytes are free: fragmentation" : "for want of memory");
    if (failed > 1)
        g_string_append_printf(out,
                               "; a program ends there, the replay goes on without it: %" G_GUINT64_FORMAT " more, %" G_GUINT64_FORMAT
                               " of all %" G_GUINT64_FORMAT " are fragmentation",
                               failed - 1, fragmented, failed);
    if (fragmented && !row->report)
        g_string_append(out, "; --report says what stood in the way");
}

/* Name of the file, what it needs at least, what there is. */
static void text_head(GString *out, const EchAllocStudy *study, const char *path)
{
    g_autofree char *room = ech_format_bytes(study->capacity), *least = ech_format_bytes(ech_alloc_study_bound(study));
    g_string_append_printf(out, "%s: %s, %u event%s; device memory %s%s%s\n", path, study->format, study->events->len, study->events->len == 1 ? "" : "s", room,
                           study->capacity_from ? ", " : "", study->capacity_from ? study->capacity_from : "");
    if (study->others)
        g_string_append_printf(out, "allocations of %s (--memory: %s)\n", study->memory, study->others);
    else if (study->memory && g_str_has_prefix(study->memory, "host"))
        g_string_append(out, "nothing in it was allocated on a device: these are the CPU's allocations, replayed as if a device had to hold them\n");
    g_string_append_printf(out, "no allocator needs less than %s", least);
    if (study->direct) {
        g_autofree char *direct = ech_format_bytes(study->direct), *names = ech_direct_names(study->trace, ech_trace_find_memory(study->trace, study->memory));
        g_string_append_printf(out, ", %s of it beside any allocator (%s)", direct, names);
    }
    if (study->held) {
        g_autofree char *held = ech_format_bytes(study->held);
        g_string_append_printf(out, "; the recorded one held %s", held);
        if (study->had > study->held && study->had != study->capacity) {
            g_autofree char *had = ech_format_bytes(study->had);
            g_string_append_printf(out, " of the %s that it could have had", had);
        }
    }
    g_string_append_c(out, '\n');
    if (study->is_program) {
        g_autofree char *resident = ech_format_bytes(study->resident);
        g_string_append_printf(out, "arguments and constants, %s, %s; loop bodies once\n", resident,
                               study->temporaries ? "are left out" : "come first and stay");
    }
    g_string_append_c(out, '\n');
}

/* Columns of the table that a narrow terminal does without. */
typedef enum { WASTE, LARGEST, SEGMENTS, SMALLEST, N_EXTRA } Extra;
static const struct {
    const char *heading;
    int width;
} extras[N_EXTRA] = {[WASTE] = {"waste", 10}, [LARGEST] = {"largest", 10}, [SEGMENTS] = {"segments", 10}, [SMALLEST] = {"smallest", 10}};
static char *extra_cell(const EchAllocRow *row, Extra column)
{
    const EchAllocStats *stats = &row->outcome.stats;
    switch (column) {
    case WASTE: return ech_format_bytes(stats->waste_at_peak);
    case LARGEST: return ech_format_bytes(stats->largest_free);
    case SEGMENTS: return g_strdup_printf("%" G_GUINT64_FORMAT, stats->segments_allocated);
    case SMALLEST: return row->smallest ? ech_format_bytes(row->smallest) : g_strdup("none");
    case N_EXTRA: break;
    }
    g_assert_not_reached();
}

/* Which of them fit beside a first column of @width: what says least is left out first. */
static void choose_extras(int width, const EchAllocStudyOutput *output, bool shown[N_EXTRA])
{
    static const Extra dispensable[N_EXTRA] = {SEGMENTS, WASTE, LARGEST, SMALLEST};
    int sum = 0, columns = (int)output->columns;
    for (int k = 0; k < N_EXTRA; k++) {
        shown[k] = k != SMALLEST || output->searched;
        sum += shown[k] ? extras[k].width : 0;
    }
    for (int k = 0; k < N_EXTRA && columns && width + FIXED_WIDTH + sum > columns; k++) {
        sum -= shown[dispensable[k]] ? extras[dispensable[k]].width : 0;
        shown[dispensable[k]] = false;
    }
}

/* What the headings of the table mean, of those that are shown. */
static void text_headings(GString *out, const bool shown[N_EXTRA])
{
    static const char *const words[N_EXTRA] = {[WASTE] = "waste: lost to rounding then",
                                               [LARGEST] = "largest: free block of what is reserved at the end",
                                               [SEGMENTS] = "segments: how often more was taken from the device"};
    g_string_append(out, "\nfrag: what of the most that is reserved is not in use at the peak");
    for (int k = 0; k < N_EXTRA; k++) {
        if (shown[k] && words[k])
            g_string_append_printf(out, "; %s", words[k]);
    }
}

/* What a pool that is taken whole holds beyond what is live is no fragmentation. */
static bool is_whole(const EchAllocRow *row)
{
    return !row->is_static && ech_report_is_taken_whole(row->spec);
}

static void text_table(GString *out, const GPtrArray *rows, int width, const EchAllocStudyOutput *output)
{
    bool shown[N_EXTRA];
    choose_extras(width, output, shown);
    g_string_append_printf(out, "%-*s %6s %10s %9s %7s", width, "allocator", "failed", "peak live", "reserved", "frag");
    for (int k = 0; k < N_EXTRA; k++) {
        if (shown[k])
            g_string_append_printf(out, "%*s", extras[k].width, extras[k].heading);
    }
    g_string_append_c(out, '\n');
    for (guint i = 0; i < rows->len; i++) {
        const EchAllocRow *row = g_ptr_array_index(rows, i);
        const EchAllocStats *stats = &row->outcome.stats;
        g_autofree char *live = ech_format_bytes(stats->peak_live), *reserved = ech_format_bytes(stats->peak_reserved), *label = label_of(row);
        ech_text_cell(out, label, width);
        g_autofree char *fragmentation = is_whole(row) ? g_strdup("whole") : g_strdup_printf("%.1f %%", 100 * ech_alloc_fragmentation(stats));
        g_string_append_printf(out, " %6" G_GUINT64_FORMAT " %10s %9s %7s", stats->failed, live, reserved, fragmentation);
        for (int k = 0; k < N_EXTRA; k++) {
            g_autofree char *text = extra_cell(row, (Extra)k);
            if (shown[k])
                g_string_append_printf(out, "%*s", extras[k].width, text);
        }
        g_string_append_c(out, '\n');
    }
}

/* What must be known to read a row. */
static void text_notes(GString *out, const EchAllocStudy *study, const EchAllocRow *row, const EchAllocStudyOutput *output)
{
    if (row->recorded && study->capacity < ech_bytes_add(study->had, study->direct) && row->difference)
        g_string_append_printf(out, "\n%s" AS_RECORDED ": from the recorded start state, with less memory than was recorded\n", row->spec);
    else if (row->recorded && !study->of_pytorch)
        g_string_append_printf(out, "\n%s" AS_RECORDED ": in the memory as the log has it, chunk by chunk\n", row->spec);
    else if (row->recorded)
        g_string_append_printf(out,
                               "\n%s" AS_RECORDED ": from the recorded start state; %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                               " allocations at their recorded addresses%s%s%s%s%s%s\n",
                               row->spec, row->equal, row->compared, row->release ? ", as by PyTorch " : "", row->release ? row->release : "",
                               row->settings ? "; settings " : "", row->settings ? row->settings : "", row->difference ? "\n  first difference: " : "",
                               row->difference ? row->difference : "");
    if (row->note)
        g_string_append_printf(out, "\n%s: %s\n", row->spec, row->note);
    if (row->fault)
        g_string_append_printf(out, "\n%s: %s\n", row->spec, row->fault);
    if (row->report)
        ech_alloc_study_text_report(out, study, row, output);
}

/* What the recording's start means for the rows. */
static void text_start(GString *out, const EchAllocStudy *study, const GPtrArray *rows)
{
    bool history = !study->after, fresh = false;
    for (guint i = 0; !history && i < study->after->len; i++)
        history = g_array_index(study->after, EchAllocEvent, i).kind == ECH_EVENT_ALLOC;
    for (guint i = 0; i < rows->len; i++)
        fresh |= lost_holes(study, g_ptr_array_index(rows, i));
    if (!history && study->of_pytorch)
        g_string_append(out,
                        "\nthe recording has no history of allocations (torch.cuda.memory._record_memory_history() begins one): only what lived at its end is "
                        "known\n");
    else if (fresh)
        g_string_append_printf(
            out,
            "\nrows that are not as recorded begin with what was live at the start, asked for in order of address: the holes between are gone. '%s:' is %s "
            "allocator begun so, for comparison\n",
            study->of_pytorch ? "pytorch" : "bfc", study->of_pytorch ? "the native" : "the same");
}

GString *ech_alloc_study_text(const EchAllocStudy *study, const GPtrArray *rows, const char *path, const EchAllocStudyOutput *output)
{
    GString *out = g_string_new(NULL);
    if (study->events->len == 0) {
        g_string_append_printf(
            out, "%s: %s, without a single allocation of device memory; a memory snapshot, a profile with profile_memory=True or a compiled program has them\n",
            path, study->format);
        return out;
    }
    int width = width_of(rows, output->columns);
    text_head(out, study, path);
    /* All that a message tells is what it comes to, how an allocator would serve it is the lesser part; and of a GPU that was not there, whose allocations
     * these are. */
    bool told = ech_import_is_pasted(study->format) || strcmp(study->format, "pretend") == 0;
    const char *const *remark = told ? ech_diag_remarks(study->diag) : NULL;
    for (bool any = remark && *remark; any && *remark; remark++)
        g_string_append_printf(out, "%s\n%s", *remark, remark[1] ? "" : "\n");
    if (rows->len > 0)
        text_table(out, rows, width, output);
    else if (ech_alloc_study_sums_only(study))
        g_string_append(out,
                        "these are sums, not where each array lay: whether another allocator or setting had served the request, no replay of them tells\n");
    for (guint i = 0; i < rows->len; i++)
        text_notes(out, study, g_ptr_array_index(rows, i), output);
    text_start(out, study, rows);
    if (study->of_pytorch && strcmp(ech_trace_format(study->trace), "pytorch_et") != 0)
        text_holders(out, study, output->top, output->columns);
    text_refusals(out, study, rows, width);
    bool explained = false, whole = false;
    for (guint i = 0; i < rows->len; i++) {
        const EchAllocRow *row = g_ptr_array_index(rows, i);
        text_retries(out, row);
        text_first_failure(out, study, row);
        explained |= row->report != NULL;
        whole |= is_whole(row);
    }
    if (explained)
        g_string_append(
            out, "\n[*x_]: addresses in use, lost to rounding, free, low ones first; stranded: free bytes that live blocks of the same segment keep from going "
                 "back; cached: free bytes of segments without a live "
                 "block; age: in events");
    bool shown[N_EXTRA];
    choose_extras(width, output, shown);
    if (rows->len > 0)
        text_headings(out, shown);
    if (whole)
        g_string_append(out, "\nwhole: the pool is taken at the start; what is needed of it, holes included, is what 'smallest' tells (--smallest)");
    if (shown[SMALLEST] && study->of_pytorch)
        g_string_append(out, "\nsmallest: the least device memory in which nothing fails, with caches emptied as often as that takes");
    if (out->str[out->len - 1] != '\n')
        g_string_append_c(out, '\n');
    if (output->interrupted)
        g_string_append_printf(out, "\ninterrupted%s%s%s\n", output->left_out ? " before it tried " : "", output->left_out ? output->left_out : "",
                               output->searched ? "; from then on no smallest memory was searched" : "");
    /* Tables are as narrow as they can be by now: what is too wide is sentences. */
    if (output->columns == 0)
        return out;
    GString *folded = ech_text_fold(out->str, output->columns);
    g_string_free(out, TRUE);
    return folded;
}
