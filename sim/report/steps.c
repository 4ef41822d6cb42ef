#include "sim/report/steps.h"

#include "sim/base/compare.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"
#include "sim/trace/step.h"

#include <string.h>

/* Most bytes live and reserved in [step->start, step->end). */
static void note_peaks(EchStep *step, const EchMemoryRun *memory)
{
    size_t low = 0, high = memory->n_series; /* first point after its start */
    ECH_SEARCH(low, high, middle, memory->series[middle].time <= step->start);
    for (size_t i = low > 0 ? low - 1 : 0; i < memory->n_series && (i < low || memory->series[i].time < step->end); i++) {
        step->peak = MAX(step->peak, memory->series[i].live);
        step->reserved = MAX(step->reserved, memory->series[i].reserved);
    }
}

/* The step that @op is of, of @parts[n] in order; NULL for none. */
static const EchTraceStep *part_of(const EchTraceStep *parts, size_t n, EchId op)
{
    size_t low = 0, high = n; /* the last that does not begin behind it */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(parts[middle].mark < op ? &low : &high) = middle;
    }
    return op > parts[low].mark && op < parts[low].end ? &parts[low] : NULL;
}

EchStep *ech_report_steps(const EchReport *report, size_t *ret_n)
{
    const EchTrace *trace = report->trace;
    const EchOp *ops = ech_trace_ops(trace);
    const EchQueue *queues = ech_trace_queues(trace);
    size_t n;
    *ret_n = 0;
    g_autofree EchTraceStep *parts = report->run->spans_left_out > 0 ? NULL : ech_trace_steps(trace, &n);
    if (!parts)
        return NULL;
    g_autofree EchStep *steps = g_new0(EchStep, n);
    g_autofree bool *whole = g_new0(bool, n);
    for (size_t i = 0; i < n; i++) {
        const EchOp *mark = &ops[parts[i].mark], *next = parts[i].next != ECH_NONE ? &ops[parts[i].next] : NULL;
        steps[i] = (EchStep){.name = ech_trace_string(trace, mark->name), .others = parts[i].others, .recorded = ECH_TIME_NONE};
        if (next && mark->recorded.start != ECH_TIME_NONE && next->recorded.start != ECH_TIME_NONE && next->recorded.start >= mark->recorded.start)
            steps[i].recorded = next->recorded.start - mark->recorded.start;
        else if (!next && mark->recorded.duration != ECH_TIME_NONE)
            steps[i].recorded = mark->recorded.duration;
    }
    EchTime first = report->is_step ? 0 : ECH_TIME_MAX; /* start of a first step's kernel; what is before it is a step's, where that is all there is */
    EchTime before = 0;                                 /* end of kernels asked for before it, beside which its host may have worked already */
    for (size_t s = 0; s < report->run->n_spans; s++) {
        const EchSpan *span = &report->run->spans[s];
        EchOpKind kind = ops[span->op].kind;
        bool kernel = kind == ECH_OP_KERNEL || kind == ECH_OP_COLLECTIVE, within = kind == ECH_OP_COPY && ops[span->op].memory_from == ops[span->op].memory_to;
        if (kernel && span->op < parts[0].mark)
            before = MAX(before, span->end);
        const EchTraceStep *part = kernel || kind == ECH_OP_COPY ? part_of(parts, n, span->op) : NULL;
        if (!part || (!kernel && !within && ops[part->last].kind != ECH_OP_COPY)) /* copies from and to the host, beside kernels, may be for the step after */
            continue;
        size_t i = (size_t)(part - parts);
        if (i == 0)
            first = MIN(first, span->start);
        steps[i].end = MAX(steps[i].end, span->end);
        steps[i].kernels += kernel && queues[ops[span->op].queue].kind != ECH_QUEUE_HOST; /* others run on its processor */
        whole[i] |= span->op == part->last;
    }
    /* A run that stopped has fewer. */
    const EchMemoryRun *memory = ech_report_main_memory(report);
    size_t kept = 0;
    for (; kept < n && whole[kept]; kept++) {
        EchStep *step = &steps[kept];
        step->start = kept > 0 ? steps[kept - 1].end : MAX(first, before);
        step->end = MAX(step->end, step->start);
        if (memory)
            note_peaks(step, memory);
    }
    if (kept == 0)
        return NULL;
    *ret_n = kept;
    return g_steal_pointer(&steps);
}

static int by_duration(const void *a, const void *b)
{
    const EchTime *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void ech_report_append_steps(GString *out, const EchReport *report, unsigned columns)
{
    size_t n;
    g_autofree EchStep *steps = ech_report_steps(report, &n);
    if (n == 0)
        return;
    g_autofree EchTime *durations = g_new(EchTime, n);
    for (size_t i = 0; i < n; i++)
        durations[i] = steps[i].end - steps[i].start;
    qsort(durations, n, sizeof *durations, by_duration);
    g_autofree char *median = ech_format_time(durations[n / 2]);
    const char *hint = report->is_step ? "" : "; --step N tells all of this of one alone";
    if (n > 1)
        g_string_append_printf(out, "\n  Steps: %zu, the middle one takes %s%s\n", n, median, hint);
    else
        g_string_append_printf(out, "\n  Steps: one whole one%s\n", hint);
    for (size_t i = 0; i < n; i++) {
        if (n > 8 && i == 4) { /* the first and the last are what differs */
            g_string_append_printf(out, "    and %zu more\n", n - 7);
            i = n - 3;
        }
        g_autofree char *time = ech_format_time(steps[i].end - steps[i].start);
        g_autofree char *recorded = steps[i].recorded != ECH_TIME_NONE ? ech_format_time(steps[i].recorded) : NULL;
        g_autoptr(GString) line = g_string_new(NULL);
        g_string_append_printf(line, "%s from %s%s, %" G_GUINT64_FORMAT " kernels", time, steps[i].name, ech_step_until(steps[i].name, steps[i].others),
                               steps[i].kernels);
        if (steps[i].peak > 0) {
            g_autofree char *peak = ech_format_bytes(steps[i].peak);
            g_string_append_printf(line, ", at most %s", peak);
        }
        if (recorded)
            g_string_append_printf(line, "; recorded: %s", recorded);
        ech_text_wrap(out, "    ", line->str, columns);
    }
}

void ech_report_build_steps(JsonBuilder *b, const EchReport *report)
{
    size_t n;
    g_autofree EchStep *steps = ech_report_steps(report, &n);
    if (n == 0)
        return;
    ech_json_begin_array(b, "steps");
    for (size_t i = 0; i < n; i++) {
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", steps[i].name);
        if (steps[i].others)
            ech_json_add_bool(b, "of_several_optimizers", true);
        ech_json_add_int(b, "start_ps", steps[i].start);
        ech_json_add_int(b, "duration_ps", steps[i].end - steps[i].start);
        if (steps[i].recorded != ECH_TIME_NONE)
            ech_json_add_int(b, "recorded_ps", steps[i].recorded);
        ech_json_add_count(b, "kernels", steps[i].kernels);
        if (steps[i].peak > 0)
            ech_json_add_count(b, "peak_live_bytes", steps[i].peak);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}
