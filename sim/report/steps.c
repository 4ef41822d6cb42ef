#include "sim/report/steps.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <string.h>

/* Marks of one kind, in program order. */
typedef struct {
    const char *stem; /* not ended: the first @length bytes */
    size_t length;
    EchId queue;
    GArray *ops; /* EchId */
} Kind;

static void kind_free(gpointer data)
{
    g_array_unref(((Kind *)data)->ops);
    g_free(data);
}

/* Bytes of @name before the number it ends in, or of all of it where it is an optimizer's step; 0 where it names no step. */
static size_t stem_length(const char *name)
{
    if (g_str_has_prefix(name, "Optimizer.step"))
        return strlen(name);
    if (g_str_has_prefix(name, "START ") || g_str_has_prefix(name, "END ")) /* PyTorch's own annotations: compilation, say */
        return 0;
    size_t length = strlen(name), stem = length;
    while (stem > 0 && g_ascii_isdigit(name[stem - 1]))
        stem--;
    if (stem == length)
        return 0;
    static const char *const words[] = {"step", "iter", "batch", "epoch"};
    g_autofree char *lower = g_ascii_strdown(name, (gssize)stem);
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strstr(lower, words[i]))
            return stem;
    }
    return 0;
}

static Kind *kind_of(GPtrArray *kinds, const char *name, size_t length, EchId queue)
{
    for (guint i = 0; i < kinds->len; i++) {
        Kind *kind = kinds->pdata[i];
        if (kind->queue == queue && kind->length == length && memcmp(kind->stem, name, length) == 0)
            return kind;
    }
    if (kinds->len == 64) /* more kinds than anybody counts steps by */
        return NULL;
    Kind *kind = g_new(Kind, 1);
    *kind = (Kind){name, length, queue, g_array_new(FALSE, FALSE, sizeof(EchId))};
    g_ptr_array_add(kinds, kind);
    return kind;
}

/* The kind with the most marks; those that are numbered go before optimizers' steps, which tell the same in the middle of it. */
static Kind *best_kind(const GPtrArray *kinds)
{
    Kind *best = NULL;
    for (guint i = 0; i < kinds->len; i++) {
        Kind *kind = kinds->pdata[i];
        bool numbered = !g_str_has_prefix(kind->stem, "Optimizer.step"), best_numbered = best && !g_str_has_prefix(best->stem, "Optimizer.step");
        if (kind->ops->len < 2)
            continue;
        if (!best || (numbered && !best_numbered) || (numbered == best_numbered && kind->ops->len > best->ops->len))
            best = kind;
    }
    return best;
}

static bool runs(const EchOp *op)
{
    return op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COLLECTIVE;
}

/* Of several optimizers' steps with no forward pass between them (one for each parameter, within the backward pass), the first is the program's. Where nobody
 * names modules, all are. */
static void keep_first_of_each(const EchTrace *trace, GArray *marks)
{
    const EchOp *ops = ech_trace_ops(trace);
    g_autofree uint8_t *told = g_new0(uint8_t, ech_trace_n_strings(trace) + 1); /* of a stack: 1 in no forward pass of a module, 2 in one */
    g_autoptr(GArray) firsts = g_array_new(FALSE, FALSE, sizeof(EchId));
    guint next = 0;
    bool forward = true, known = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && next < marks->len; i++) {
        if (g_array_index(marks, EchId, next) == i) {
            EchId mark = g_array_index(marks, EchId, next++);
            if (forward)
                g_array_append_val(firsts, mark);
            forward = false;
        } else if (runs(&ops[i]) && ops[i].stack < ech_trace_n_strings(trace)) {
            uint8_t *of = &told[ops[i].stack];
            const char *stack = *of == 0 ? ech_trace_string(trace, ops[i].stack) : NULL;
            if (stack)
                *of = strstr(stack, "nn.Module: ") && !strstr(stack, "autograd::engine::evaluate_function: ") ? 2 : 1;
            forward |= *of == 2;
            known |= *of == 2;
        }
    }
    if (known) {
        g_array_set_size(marks, 0);
        g_array_append_vals(marks, firsts->data, firsts->len);
    }
}

/* Most bytes live in [start, end). */
static EchBytes peak_in(const EchMemoryRun *memory, EchTime start, EchTime end)
{
    size_t low = 0, high = memory->n_series; /* first point after @start */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory->series[middle].time <= start)
            low = middle + 1;
        else
            high = middle;
    }
    EchBytes most = low > 0 ? memory->series[low - 1].live : 0;
    for (; low < memory->n_series && memory->series[low].time < end; low++)
        most = MAX(most, memory->series[low].live);
    return most;
}

EchStep *ech_report_steps(const EchReport *report, size_t *ret_n)
{
    const EchTrace *trace = report->trace;
    const EchOp *ops = ech_trace_ops(trace);
    const EchQueue *queues = ech_trace_queues(trace);
    *ret_n = 0;
    g_autoptr(GPtrArray) kinds = g_ptr_array_new_with_free_func(kind_free);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        if (ops[i].kind != ECH_OP_MARK || ops[i].queue == ECH_NONE || queues[ops[i].queue].kind != ECH_QUEUE_HOST)
            continue;
        const char *name = ech_trace_string(trace, ops[i].name);
        size_t length = stem_length(name);
        Kind *kind = length ? kind_of(kinds, name, length, ops[i].queue) : NULL;
        EchId op = (EchId)i;
        if (kind)
            g_array_append_val(kind->ops, op);
    }
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *kind = kinds->pdata[i];
        if (g_str_has_prefix(kind->stem, "Optimizer.step"))
            keep_first_of_each(trace, kind->ops);
    }
    const Kind *kind = best_kind(kinds);
    if (!kind || report->run->spans_left_out > 0)
        return NULL;
    size_t n = kind->ops->len;
    g_autofree EchStep *steps = g_new0(EchStep, n);
    for (size_t i = 0; i < n; i++) {
        const EchOp *mark = &ops[g_array_index(kind->ops, EchId, i)];
        const EchOp *next = i + 1 < n ? &ops[g_array_index(kind->ops, EchId, i + 1)] : NULL;
        steps[i] = (EchStep){.name = ech_trace_string(trace, mark->name), .recorded = ECH_TIME_NONE};
        if (next && mark->recorded.start != ECH_TIME_NONE && next->recorded.start != ECH_TIME_NONE && next->recorded.start >= mark->recorded.start)
            steps[i].recorded = next->recorded.start - mark->recorded.start;
        else if (!next && mark->recorded.duration != ECH_TIME_NONE && !g_str_has_prefix(kind->stem, "Optimizer.step"))
            steps[i].recorded = mark->recorded.duration;
    }
    EchTime first = ECH_TIME_MAX; /* start of a first step's kernel */
    for (size_t s = 0; s < report->run->n_spans; s++) {
        const EchSpan *span = &report->run->spans[s];
        if (!runs(&ops[span->op]) || span->op < g_array_index(kind->ops, EchId, 0))
            continue;
        size_t low = 0, high = n; /* the last mark before the operation */
        while (high - low > 1) {
            size_t middle = (low + high) / 2;
            *(g_array_index(kind->ops, EchId, middle) < span->op ? &low : &high) = middle;
        }
        if (low == 0)
            first = MIN(first, span->start);
        steps[low].end = MAX(steps[low].end, span->end);
        steps[low].kernels += queues[ops[span->op].queue].kind != ECH_QUEUE_HOST; /* others run on its processor */
    }
    /* A mark that nothing follows ends the step before it. */
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (steps[i].end > 0)
            steps[kept++] = steps[i];
    }
    /* An optimizer's step ends a step of the program: what follows the last one begins another. */
    bool optimizer = g_str_has_prefix(kind->stem, "Optimizer.step");
    kept -= optimizer && kept > 0;
    if (kept < (optimizer ? 1 : 2))
        return NULL;
    const EchMemoryRun *memory = ech_report_main_memory(report);
    for (size_t i = 0; i < kept; i++) {
        steps[i].start = i > 0 ? steps[i - 1].end : first < ECH_TIME_MAX ? first : 0;
        steps[i].end = MAX(steps[i].end, steps[i].start);
        steps[i].peak = memory ? peak_in(memory, steps[i].start, steps[i].end) : 0;
    }
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
    if (n > 1)
        g_string_append_printf(out, "\n  Steps: %zu, the middle one takes %s\n", n, median);
    else
        g_string_append(out, "\n  Steps: one whole one\n");
    for (size_t i = 0; i < n; i++) {
        if (n > 8 && i == 4) { /* the first and the last are what differs */
            g_string_append_printf(out, "    and %zu more\n", n - 7);
            i = n - 3;
        }
        g_autofree char *time = ech_format_time(steps[i].end - steps[i].start);
        g_autofree char *recorded = steps[i].recorded != ECH_TIME_NONE ? ech_format_time(steps[i].recorded) : NULL;
        g_autoptr(GString) line = g_string_new(NULL);
        g_string_append_printf(line, "%s from %s%s, %" G_GUINT64_FORMAT " kernels", time, steps[i].name,
                               g_str_has_prefix(steps[i].name, "Optimizer.step") ? " to the next" : "", steps[i].kernels);
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
