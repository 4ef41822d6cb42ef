/* One row of a study: its events under one allocator, or under a placement made in advance. */
#include "models/alloc/fixed.h"
#include "sim/base/error.h"
#include "sim/experiment/alloc_study_private.h"
#include "sim/experiment/output.h"
#include "sim/report/placements_csv.h"
#include "sim/trace/ranges.h"

#include <string.h>

enum {
    BEST_FIT_UNASKED = 50000, /* events up to which "plan" means XLA's default heap */
    MAX_FAILURES = 5,         /* failures whose moment a report looks at */
    MAP_ROWS = 16,            /* of a report's address map */
    MAP_COLUMNS = 96,
};

void ech_alloc_row_free(EchAllocRow *row)
{
    if (!row)
        return;
    g_clear_pointer(&row->report, ech_alloc_report_free);
    g_clear_pointer(&row->own, g_array_unref);
    g_free(row->spec);
    g_free(row->note);
    g_free(row->fault);
    g_free(row->difference);
    g_free(row->settings);
    g_free(row);
}

static const EchAllocEvent *events_of(const GArray *events)
{
    return (const EchAllocEvent *)(const void *)events->data;
}

/* Where the recorded allocator put them, and where this one did. */
static void compare_recorded(const EchAllocStudy *study, const GArray *placed, EchAllocRow *row)
{
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        uint32_t id = g_array_index(row->events, EchAllocEvent, item->event).id;
        const EchBuffer *buffer = ech_alloc_study_buffer(study, id);
        if (!buffer || buffer->address == ECH_OFFSET_NONE)
            continue;
        row->compared++;
        if (item->fit == ECH_FIT_OK && item->placement.address == buffer->address) {
            row->equal++;
        } else if (!row->difference) {
            g_autofree char *here = item->fit == ECH_FIT_OK ? g_strdup_printf("0x%" G_GINT64_MODIFIER "x", item->placement.address) : g_strdup("nowhere");
            row->difference = g_strdup_printf("allocation %u (#%u, %" G_GUINT64_FORMAT " bytes): recorded at 0x%" G_GINT64_MODIFIER "x, here %s", i, id,
                                              buffer->bytes, buffer->address, here);
        }
    }
}

/* Of what the recorded allocator refused, the requests that were granted here. */
static void count_served(const EchAllocStudy *study, const GArray *placed, EchAllocRow *row)
{
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        if (!ech_alloc_study_refusal(study, g_array_index(row->events, EchAllocEvent, item->event).id))
            continue;
        row->served += item->fit == ECH_FIT_OK;
        row->last_fit = item->fit;
    }
}

/* ---- placed in advance ---- */

static bool is_static(const char *spec)
{
    return strcmp(spec, "compiler") == 0 || strcmp(spec, "plan") == 0 || g_str_has_prefix(spec, "plan:");
}

/* The offsets that the program came with. */
static bool run_compiler(const EchAllocStudy *study, const EchAllocRowOptions *options, EchAllocRow *row, GArray *placed, GError **error)
{
    (void)options;
    const EchAllocEvent *events = events_of(study->planned);
    size_t n = study->planned->len;
    g_autofree uint64_t *offsets = g_new(uint64_t, n + 1);
    uint64_t n_allocs = 0, known = 0;
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind != ECH_EVENT_ALLOC)
            continue;
        const EchBuffer *buffer = ech_alloc_study_buffer(study, events[i].id);
        offsets[n_allocs] = buffer ? buffer->offset : ECH_FIXED_NONE;
        known += offsets[n_allocs++] != ECH_FIXED_NONE;
    }
    if (known == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "compiler: the file carries no static assignment; plan:xla makes one");
        return false;
    }
    if (known < n_allocs)
        row->note = g_strdup_printf("the compiler's own assignment; it does not place %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " buffers", n_allocs - known,
                                    n_allocs);
    else
        row->note = g_strdup("the compiler's own assignment, tuple tables and alignment included: what it asks the runtime for, once");
    /* It is one request: all of it fits or none. Temporaries may lie in donated arguments, so without those only the sum counts. */
    EchBytes needs = study->compiler_bytes;
    row->outcome = ech_alloc_run_fixed(events, n, offsets, needs && needs <= study->capacity ? UINT64_MAX : study->capacity, placed);
    if (needs) {
        row->outcome.stats.reserved = row->outcome.stats.peak_reserved = needs;
        row->outcome.stats.failed = needs > study->capacity;
    }
    return true;
}

/* The planner that "plan" means: what the program's own compiler uses for its heap (XLA: fast_merge on TPU, best fit on GPU). */
static const char *planner_of(const EchAllocStudy *study, const char *spec)
{
    const char *given = strchr(spec, ':');
    if (given)
        return given + 1;
    if (study->platform == ECH_PLATFORM_TPU)
        return "xla:algorithm=fast_merge,alignment=16384";
    /* Best fit looks at everything that lives at the same time: on captures of whole runs it would take hours. */
    return study->planned->len > BEST_FIT_UNASKED ? "xla:algorithm=fast_merge" : "xla:algorithm=best";
}

/* To @path, where there is one; a table of lives has ids of its own. */
static bool write_placements(const EchAllocStudy *study, const char *path, const GArray *events, const GArray *placed, GError **error)
{
    bool own_ids = study->trace && strcmp(ech_trace_format(study->trace), "minimalloc") == 0;
    g_autoptr(GString) text = path ? ech_placements_csv_print(events, placed, own_ids ? study->trace : NULL) : NULL;
    return !path || ech_output_file(path, text->str, text->len, error);
}

static bool run_plan(const EchAllocStudy *study, const EchAllocRowOptions *options, EchAllocRow *row, GArray *placed, GError **error)
{
    const EchAllocEvent *events = events_of(study->planned);
    size_t n = study->planned->len;
    const char *planner = planner_of(study, row->spec);
    g_autoptr(GArray) items = ech_alloc_lives(events, n);
    gint64 begin = g_get_monotonic_time();
    g_autoptr(EchPlanner) own = ech_planner_new(planner, error);
    if (own && options->stop)
        (void)ech_planner_stop_when(own, options->stop); /* what does not search does not take long */
    g_autoptr(EchPlan) plan = own ? ech_planner_run(own, (const EchPlanItem *)(const void *)items->data, items->len, 0, error) : NULL;
    if (!plan)
        return false;
    double seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
    /* Heaps one after the other. */
    for (size_t i = 0; i < plan->n; i++) {
        for (uint32_t heap = 0; heap < plan->heaps[i]; heap++)
            plan->offsets[i] = ech_bytes_add(plan->offsets[i], plan->heap_bytes[heap]);
    }
    const char *quality = plan->proved_optimal ? "; proved lowest"
                          : plan->out_of_time  ? "; best found in the time given"
                          : plan->too_large    ? "; too large for a search"
                                               : "";
    row->note = g_strdup_printf("%s, all lifetimes known in advance%s", planner, quality);
    row->outcome = ech_alloc_run_fixed(events, n, plan->offsets, study->capacity - MIN(study->capacity, study->direct), placed);
    row->outcome.seconds = seconds;
    return true;
}

static bool run_static(const EchAllocStudy *study, const EchAllocRowOptions *options, EchAllocRow *row, GError **error)
{
    row->is_static = true;
    row->events = study->planned;
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    if (!(strcmp(row->spec, "compiler") == 0 ? run_compiler : run_plan)(study, options, row, placed, error))
        return false;
    count_served(study, placed, row);
    if (options->search)
        row->smallest = ech_bytes_add(row->outcome.stats.reserved, study->direct);
    return write_placements(study, options->placements, row->events, placed, error);
}

/* ---- online ---- */

/* The memory that allocators of @spec are given. Where the capacity is the limit that a recorded BFC had, another one takes it to the byte too. */
static EchAllocDevice device_for(const EchAllocStudy *study, const char *spec)
{
    bool limit = study->start && (strcmp(spec, "bfc") == 0 || g_str_has_prefix(spec, "bfc:"));
    return (EchAllocDevice){.capacity = study->capacity, .context = study->context, .granule = limit ? study->start->granule : 0, .order = study->order};
}

/* An allocator for the row, in the recorded start state where the row is to begin from it (row->recorded, taken back where that state does not fit). */
static EchAllocator *begin(const EchAllocStudy *study, const char *spec, EchAllocRow *row, GError **error)
{
    const EchAllocDevice device = device_for(study, spec);
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, error);
    if (!allocator || !row->recorded)
        return g_steal_pointer(&allocator);
    const GArray *seeds = study->start->seeds, *script = study->start->script;
    g_autoptr(GError) misfit = NULL;
    if (ech_allocator_seed(allocator, (const EchSeedBlock *)(const void *)seeds->data, seeds->len, &misfit)) {
        ech_allocator_script(allocator, (const EchSegmentRange *)(const void *)script->data, script->len);
        return g_steal_pointer(&allocator);
    }
    /* A smaller memory, say: then it is a what-if like any other. */
    row->recorded = false;
    row->note = g_strdup_printf("not from the recorded start state, which does not fit (%s): from an empty memory", misfit->message);
    return ech_allocator_new(spec, &device, error);
}

static EchAllocReport *look_closely(const EchAllocStudy *study, const char *spec, const EchAllocRowOptions *options, const EchAllocRow *row, GError **error)
{
    const EchAllocDevice device = device_for(study, spec);
    EchAllocReportOptions look = {.peak_at = row->outcome.peak_reserved_at,
                                  .max_failures = MAX_FAILURES,
                                  .n_samples = options->n_samples,
                                  .map_rows = MAP_ROWS,
                                  .map_columns = MAP_COLUMNS};
    if (row->recorded) {
        look.seeds = (const EchSeedBlock *)(const void *)study->start->seeds->data;
        look.n_seeds = study->start->seeds->len;
        look.script = (const EchSegmentRange *)(const void *)study->start->script->data;
        look.n_script = study->start->script->len;
    }
    return ech_alloc_report_new(spec, &device, events_of(row->events), row->events->len, &look, error);
}

/* The replay itself, and what can be told of it while the allocator is there. */
static bool replay(const EchAllocStudy *study, const char *spec, const EchAllocRowOptions *options, EchAllocRow *row, GError **error)
{
    g_autoptr(EchAllocator) allocator = begin(study, spec, row, error);
    if (!allocator)
        return false;
    row->events = row->recorded ? study->after : study->events;
    bool refused = ech_alloc_study_n_refusals(study) > 0;
    bool watched = options->placements || row->recorded || refused;
    g_autoptr(GArray) placed = watched ? g_array_sized_new(FALSE, FALSE, sizeof(EchPlacedEvent), row->events->len) : NULL;
    const EchAllocRunOptions run = {.placed = placed, .watch_peaks = options->report, .progress = options->progress};
    row->outcome = ech_alloc_run(allocator, events_of(row->events), row->events->len, &run);
    if (options->progress)
        options->progress(1, 1);
    if (refused)
        count_served(study, placed, row);
    if (row->recorded)
        compare_recorded(study, placed, row);
    size_t n_own;
    const EchAllocStat *own = ech_allocator_own_stats(allocator, &n_own);
    g_array_append_vals(row->own, own, (guint)n_own);
    if (!row->note)
        row->note = g_strdup(ech_allocator_note(allocator));
    row->fault = g_strdup(ech_allocator_fault(allocator));
    return write_placements(study, options->placements, row->events, placed, error);
}

/* What a recording does not tell, other than a capture without a GPU, is which PyTorch made it. Free blocks of a size are taken in another order by 2.12, and
 * in a third one since 2.13: the one that its settings are of, or else that most recorded addresses agree with. */
enum { UP_TO_2_11, SINCE_2_13, OF_2_12 };
static const struct {
    const char *option, *name;
} releases[] = {[UP_TO_2_11] = {NULL, NULL}, [SINCE_2_13] = {"release:2.15", "2.13 or later"}, [OF_2_12] = {"release:2.12", "2.12"}};

static char *with_release(const char *option, const char *spec)
{
    if (!option)
        return g_strdup(spec);
    const char *settings = g_str_has_prefix(spec, "pytorch:") ? spec + strlen("pytorch:") : "";
    return g_strconcat("pytorch:", option, *settings ? "," : "", settings, NULL);
}

char *ech_alloc_study_released(const EchAllocStudy *study, const char *spec)
{
    bool native = (strcmp(spec, "pytorch") == 0 || g_str_has_prefix(spec, "pytorch:")) && !strstr(spec, "release:") && !strstr(spec, "backend:");
    g_autofree char *released = with_release(native ? study->release : NULL, spec);
    const EchAllocDevice device = {.capacity = study->capacity};
    g_autoptr(EchAllocator) probe = native && study->release ? ech_allocator_new(released, &device, NULL) : NULL;
    return probe ? g_steal_pointer(&released) : g_strdup(spec); /* a setting that this release does not know, say */
}

void ech_alloc_study_find_release(EchAllocStudy *study)
{
    g_autofree char *recorded = study->start ? ech_alloc_recorded_spec(study->trace) : NULL;
    if (!recorded || !g_str_has_prefix(recorded, "pytorch"))
        return;
    const char *told = ech_trace_get_property(study->trace, ECH_TRACE_TORCH_RELEASE);
    if (told) {
        g_autofree char *option = g_strconcat("release:2.", told, NULL);
        study->release = g_intern_string(option);
        study->released = study->release + strlen("release:");
        return;
    }
    if (ech_trace_get_property(study->trace, "allocator_settings.max_round_threshold")) { /* a setting that 2.13 brought */
        study->release = releases[SINCE_2_13].option;
        study->released = releases[SINCE_2_13].name;
        return;
    }
    const EchAllocRowOptions options = {.report = false};
    uint64_t most = 0;
    bool found = false, all = false;
    for (size_t i = 0; i < G_N_ELEMENTS(releases) && !all; i++) {
        g_autofree char *spec = with_release(releases[i].option, recorded);
        g_autoptr(EchAllocRow) trial = g_new0(EchAllocRow, 1);
        trial->recorded = true;
        trial->own = g_array_new(FALSE, FALSE, sizeof(EchAllocStat));
        if (!replay(study, spec, &options, trial, NULL) || !trial->recorded || (found && trial->equal <= most))
            continue;
        study->release = releases[i].option;
        study->released = releases[i].name;
        most = trial->equal;
        found = true;
        all = trial->equal == trial->compared;
    }
}

static bool run_online(const EchAllocStudy *study, const EchAllocRowOptions *options, EchAllocRow *row, GError **error)
{
    /* Other settings are a what-if: what was resident is then asked for first, in an empty memory. */
    g_autofree char *recorded = study->start && !options->fresh ? ech_alloc_recorded_spec(study->trace) : NULL;
    bool pytorch = recorded && g_str_has_prefix(recorded, "pytorch");
    row->recorded = recorded && ((pytorch && strcmp(row->spec, "pytorch") == 0) || strcmp(row->spec, recorded) == 0);
    if (row->recorded && pytorch)
        row->release = study->released;
    g_autofree char *spec = ech_alloc_study_released(study, row->recorded && pytorch ? recorded : row->spec);
    if (!replay(study, spec, options, row, error))
        return false;
    if (pytorch && row->recorded && strcmp(recorded, "pytorch") != 0)
        row->settings = g_strdup(recorded + strlen("pytorch:"));
    if (options->report) {
        row->report = look_closely(study, spec, options, row, error);
        if (!row->report)
            return false;
    }
    if (!options->search)
        return true;
    GError *problem = NULL;
    row->smallest =
        ech_alloc_smallest_capacity(spec, events_of(study->events), study->events->len, ECH_ALLOC_STUDY_GRANULE, study->order, options->stop, &problem);
    if (!problem)
        return true;
    g_propagate_error(error, problem);
    return false;
}

EchAllocRow *ech_alloc_row_new(const EchAllocStudy *study, const char *spec, const EchAllocRowOptions *options, GError **error)
{
    g_autoptr(EchAllocRow) row = g_new0(EchAllocRow, 1);
    row->spec = g_strdup(spec);
    row->own = g_array_new(FALSE, FALSE, sizeof(EchAllocStat));
    if (!(is_static(spec) ? run_static : run_online)(study, options, row, error))
        return NULL;
    return g_steal_pointer(&row);
}
