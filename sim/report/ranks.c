#include "sim/report/ranks.h"

#include "sim/report/json_out.h"
#include "sim/report/steps.h"
#include "sim/report/text.h"

#include <string.h>

static uint64_t rank_of(const EchReport *report, size_t i)
{
    const char *rank = ech_trace_get_property(report->trace, "rank");
    return rank ? g_ascii_strtoull(rank, NULL, 10) : i;
}

/* ---- where a rank's time goes ---- */

typedef enum { RUNS_KERNEL, RUNS_COLLECTIVE, WAITS_FOR_PEERS, N_STATES } RankState;

/* Begins, or ends, to be so. */
typedef struct {
    EchTime time;
    int8_t state, change;
} Turn;

static int by_time(const void *a, const void *b)
{
    const Turn *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

static void add_turns(GArray *turns, RankState state, EchTime start, EchTime end, EchTime from, EchTime to)
{
    Turn begin = {MAX(start, from), (int8_t)state, 1}, finish = {MIN(end, to), (int8_t)state, -1};
    if (begin.time >= finish.time)
        return;
    g_array_append_val(turns, begin);
    g_array_append_val(turns, finish);
}

/* What goes on from @from to @to, each moment once: kernels hide the rest. */
static EchRankStep step_of(const EchReport *report, EchTime from, EchTime to)
{
    const EchOp *ops = ech_trace_ops(report->trace);
    g_autoptr(GArray) turns = g_array_new(FALSE, FALSE, sizeof(Turn));
    for (size_t s = 0; s < report->run->n_spans; s++) {
        const EchSpan *span = &report->run->spans[s];
        EchOpKind kind = (EchOpKind)ops[span->op].kind;
        if (kind == ECH_OP_KERNEL || kind == ECH_OP_COPY)
            add_turns(turns, RUNS_KERNEL, span->start, span->end, from, to);
        if (kind != ECH_OP_COLLECTIVE)
            continue;
        add_turns(turns, RUNS_COLLECTIVE, span->start, span->end, from, to);
        add_turns(turns, WAITS_FOR_PEERS, span->start - span->waits[ECH_WAIT_PEERS], span->start, from, to);
    }
    g_array_sort(turns, by_time);
    EchRankStep step = {.time = to - from};
    int now[N_STATES] = {0};
    EchTime before = from;
    for (guint i = 0; i < turns->len; i++) {
        const Turn *turn = &g_array_index(turns, Turn, i);
        *(now[RUNS_KERNEL] > 0       ? &step.kernels
          : now[RUNS_COLLECTIVE] > 0 ? &step.alone
          : now[WAITS_FOR_PEERS] > 0 ? &step.waits
                                     : &step.rest) += turn->time - before;
        before = turn->time;
        now[turn->state] += turn->change;
    }
    step.rest += to - before;
    return step;
}

EchRankStep *ech_report_rank_steps(const EchReport *reports, size_t n, size_t *ret_which, size_t *ret_of)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t count;
        g_ptr_array_add(all, ech_report_steps(&reports[i], &count));
        least = MIN(least, count);
    }
    EchRankStep *steps = g_new0(EchRankStep, n);
    for (size_t i = 0; i < n; i++) {
        const EchStep *own = all->pdata[i];
        steps[i] = least > 0 ? step_of(&reports[i], own[least / 2].start, own[least / 2].end) : step_of(&reports[i], 0, reports[i].run->makespan);
        steps[i].rank = rank_of(&reports[i], i);
    }
    *ret_which = least / 2;
    *ret_of = least;
    return steps;
}

/* ---- of all of them ---- */

typedef struct {
    EchTime makespan, step; /* of the slowest */
    double waits;           /* share of all ranks' steps */
    EchBytes fullest;
    bool fits;
} Whole;

static const EchMemoryRun *main_memory(const EchReport *report)
{
    const EchMemory *memory = ech_device_memory_kind(report->device, ECH_MEM_HBM);
    return memory ? ech_report_memory(report->run, memory->name) : NULL;
}

static Whole whole_of(const EchReport *reports, const EchRankStep *steps, size_t n)
{
    Whole whole = {.fits = true};
    double waits = 0, time = 0;
    for (size_t i = 0; i < n; i++) {
        const EchMemoryRun *memory = main_memory(&reports[i]);
        whole.makespan = MAX(whole.makespan, reports[i].run->makespan);
        whole.step = MAX(whole.step, steps[i].time);
        whole.fullest = MAX(whole.fullest, memory ? memory->peak_live : 0);
        whole.fits = whole.fits && ech_report_fits(&reports[i]);
        waits += (double)steps[i].waits;
        time += (double)steps[i].time;
    }
    whole.waits = time > 0 ? waits / time : 0;
    return whole;
}

/* ---- text ---- */

static void append_head(GString *out, const Whole *whole, const EchReport *reports, const EchRankStep *steps, size_t n, size_t which, size_t of,
                        unsigned columns)
{
    g_autoptr(GString) refused = g_string_new(NULL);
    for (size_t i = 0; i < n; i++)
        if (!ech_report_fits(&reports[i]))
            g_string_append_printf(refused, "%s%" G_GUINT64_FORMAT, refused->len > 0 ? ", " : "", steps[i].rank);
    if (whole->fits)
        g_string_append(out, "  Every rank fits.\n");
    else
        g_string_append_printf(out, "  IT DOES NOT FIT: rank%s %s. (The others were replayed as if nobody had to wait for those; times mean little.)\n",
                               strchr(refused->str, ',') ? "s" : "", refused->str);
    g_autofree char *takes = ech_format_time(whole->makespan), *step = ech_format_time(whole->step);
    g_autoptr(GString) line = g_string_new(NULL);
    g_string_append_printf(line, "It takes %s", takes);
    if (of > 0)
        g_string_append_printf(line, ", step %zu of %zu takes %s", which + 1, of, step);
    g_string_append_printf(line, "; %.1f %% of all ranks' time %sis waiting for one another.", 100 * whole->waits, of > 0 ? "in that step " : "");
    ech_text_wrap(out, "  ", line->str, columns);
}

static char *with_share(EchTime part, EchTime whole)
{
    g_autofree char *time = ech_format_time(part);
    return g_strdup_printf("%s %3.0f %%", time, whole > 0 ? 100 * (double)part / (double)whole : 0);
}

/* The same sentence of several ranks stands once. */
static void append_remarks(GString *out, const EchReport *reports, const EchRankStep *steps, size_t n, unsigned columns)
{
    g_autoptr(GPtrArray) said = g_ptr_array_new_with_free_func(g_free), whose = g_ptr_array_new_with_free_func(g_free);
    for (size_t i = 0; i < n; i++) {
        const EchDiag *diags[] = {reports[i].import_diag, reports[i].pass_diag, reports[i].run->diag};
        for (size_t d = 0; d < G_N_ELEMENTS(diags); d++) {
            for (const char *const *text = diags[d] ? ech_diag_remarks(diags[d]) : NULL; text && *text; text++) {
                guint at;
                if (g_str_has_prefix(*text, "PyTorch's allocations taken from "))
                    continue;
                if (!g_ptr_array_find_with_equal_func(said, *text, g_str_equal, &at)) {
                    at = said->len;
                    g_ptr_array_add(said, g_strdup(*text));
                    g_ptr_array_add(whose, g_strdup(""));
                }
                char *longer = g_strdup_printf("%s%s%" G_GUINT64_FORMAT, (char *)whose->pdata[at], *(char *)whose->pdata[at] ? ", " : "", steps[i].rank);
                g_free(whose->pdata[at]);
                whose->pdata[at] = longer;
            }
        }
    }
    if (said->len > 0)
        g_string_append(out, "\n  Remarks\n");
    for (guint i = 0; i < said->len; i++) {
        const char *ranks = whose->pdata[i];
        g_autofree char *text = g_strdup_printf("rank%s %s: %s", strchr(ranks, ',') ? "s" : "", ranks, (char *)said->pdata[i]);
        ech_text_wrap(out, "    ", text, columns);
    }
}

GString *ech_report_ranks_text(const char *title, const EchReport *reports, const EchReport *plain, size_t n, unsigned columns)
{
    size_t which, of;
    g_autofree EchRankStep *steps = ech_report_rank_steps(reports, n, &which, &of);
    Whole whole = whole_of(reports, steps, n);
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "%s: %zu ranks on %s\n\n", title, n, reports[0].device->name);
    append_head(out, &whole, reports, steps, n, which, of, columns);
    size_t old_which, old_of;
    g_autofree EchRankStep *old_steps = plain ? ech_report_rank_steps(plain, n, &old_which, &old_of) : NULL;
    Whole old = plain ? whole_of(plain, old_steps, n) : (Whole){0};
    if (old.fits && whole.fits) {
        g_autofree char *before = ech_format_time(old.step), *after = ech_format_time(whole.step), *less = ech_format_bytes(old.fullest),
                        *more = ech_format_bytes(whole.fullest);
        g_autofree char *text = g_strdup_printf("What that changes: %s -> %s; the fullest rank's memory %s -> %s; waiting for one another %.1f %% -> %.1f %%.",
                                                before, after, less, more, 100 * old.waits, 100 * whole.waits);
        ech_text_wrap(out, "  ", text, columns);
    }
    g_string_append_printf(out, "\n  %5s %10s %10s %10s  %15s %15s %15s %15s\n", "", "", "", "", "kernels", "communication", "waits for", "host, idle");
    g_string_append_printf(out, "  %5s %10s %10s %10s  %15s %15s %15s %15s\n", "rank", "live", "reserved", of > 0 ? "step" : "time", "run", "alone", "ranks",
                           "");
    for (size_t i = 0; i < n; i++) {
        const EchMemoryRun *memory = main_memory(&reports[i]);
        g_autofree char *live = ech_format_bytes(memory ? memory->peak_live : 0), *reserved = ech_format_bytes(memory ? memory->peak_reserved : 0),
                        *time = ech_format_time(steps[i].time), *kernels = with_share(steps[i].kernels, steps[i].time),
                        *alone = with_share(steps[i].alone, steps[i].time), *waits = with_share(steps[i].waits, steps[i].time),
                        *rest = with_share(steps[i].rest, steps[i].time);
        g_string_append_printf(out, "  %5" G_GUINT64_FORMAT " %10s %10s %10s  %15s %15s %15s %15s%s\n", steps[i].rank, live, reserved, time, kernels, alone,
                               waits, rest, ech_report_fits(&reports[i]) ? "" : "  does not fit");
    }
    append_remarks(out, reports, steps, n, columns);
    return out;
}

/* ---- JSON ---- */

JsonNode *ech_report_ranks_json(const char *title, const EchReport *reports, const EchReport *plain, size_t n)
{
    size_t which, of;
    g_autofree EchRankStep *steps = ech_report_rank_steps(reports, n, &which, &of);
    Whole whole = whole_of(reports, steps, n);
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "title", title);
    ech_json_add_int(b, "makespan_ps", whole.makespan);
    ech_json_add_int(b, "step_ps", whole.step);
    ech_json_add_double(b, "waits_share", whole.waits);
    ech_json_add_bool(b, "fits", whole.fits);
    if (plain) {
        size_t old_which, old_of;
        g_autofree EchRankStep *old_steps = ech_report_rank_steps(plain, n, &old_which, &old_of);
        Whole old = whole_of(plain, old_steps, n);
        ech_json_begin_object(b, "without_changes");
        ech_json_add_int(b, "makespan_ps", old.makespan);
        ech_json_add_int(b, "step_ps", old.step);
        ech_json_add_double(b, "waits_share", old.waits);
        ech_json_add_bool(b, "fits", old.fits);
        json_builder_end_object(b);
    }
    ech_json_begin_array(b, "ranks");
    for (size_t i = 0; i < n; i++) {
        json_builder_begin_object(b);
        ech_json_add_count(b, "rank", steps[i].rank);
        ech_json_add_text(b, "trace", reports[i].trace_path);
        ech_json_begin_object(b, "step");
        ech_json_add_int(b, "time_ps", steps[i].time);
        ech_json_add_int(b, "kernels_ps", steps[i].kernels);
        ech_json_add_int(b, "communication_alone_ps", steps[i].alone);
        ech_json_add_int(b, "waits_for_ranks_ps", steps[i].waits);
        ech_json_add_int(b, "idle_ps", steps[i].rest);
        json_builder_end_object(b);
        json_builder_set_member_name(b, "run");
        json_builder_add_value(b, ech_report_json(&reports[i]));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}
