/* What the allocations of a study are called, and who holds memory. */
#include "sim/experiment/alloc_study_private.h"
#include "sim/experiment/experiment_private.h"
#include "sim/report/text.h"
#include "sim/trace/ranges.h"

#include <string.h>

guint ech_alloc_study_n_refusals(const EchAllocStudy *study)
{
    return study->refusals ? study->refusals->len : 0;
}

uint32_t ech_alloc_study_refusal_id(const EchAllocStudy *study, guint index)
{
    return (uint32_t)ech_trace_n_buffers(study->trace) + index;
}

const EchRefusal *ech_alloc_study_refusal(const EchAllocStudy *study, uint32_t id)
{
    guint n = ech_alloc_study_n_refusals(study);
    size_t first = n ? ech_alloc_study_refusal_id(study, 0) : 0;
    return id >= first && id - first < n ? &g_array_index(study->refusals, EchRefusal, id - first) : NULL;
}

const EchBuffer *ech_alloc_study_buffer(const EchAllocStudy *study, uint32_t id)
{
    return study->trace && id < ech_trace_n_buffers(study->trace) ? &ech_trace_buffers(study->trace)[id] : NULL;
}

const char *ech_alloc_study_stack(const EchAllocStudy *study, uint32_t id)
{
    const EchBuffer *buffer = ech_alloc_study_buffer(study, id);
    const EchRefusal *refusal = ech_alloc_study_refusal(study, id);
    EchId stack = buffer ? buffer->stack : refusal ? ech_trace_ops(study->trace)[refusal->op].stack : ECH_NONE;
    return stack == ECH_NONE ? NULL : ech_trace_string(study->trace, stack);
}

bool ech_alloc_study_is_own(const char *frame, size_t n)
{
    return *frame != '<' && !g_str_has_prefix(frame, "torch/") && !g_strstr_len(frame, (gssize)n, "-packages/") &&
           !g_strstr_len(frame, (gssize)n, "/lib/python") && !g_strstr_len(frame, (gssize)n, "/echelon/pretend/python/");
}

/* Of a stack of ranges, innermost first: the node of the backward pass that is around all, and the module that it is of. Owned by the caller. */
static char *ranges_name(const char *stack)
{
    const char *node = strstr(stack, ECH_RANGE_BACKWARD), *module = strstr(stack, ECH_RANGE_MODULE);
    if (!node)
        return g_strdup("the refused request");
    node += strlen(ECH_RANGE_BACKWARD);
    module = module ? module + strlen(ECH_RANGE_MODULE) : "";
    return g_strdup_printf("%.*s%s%.*s", (int)strcspn(node, "\n"), node, *module ? " of " : "", (int)strcspn(module, "\n"), module);
}

char *ech_alloc_study_name(const EchAllocStudy *study, uint32_t id)
{
    const EchBuffer *buffer = ech_alloc_study_buffer(study, id);
    const char *name = buffer ? ech_trace_string(study->trace, buffer->name) : "";
    if (*name)
        return g_strdup(name);
    if (!ech_alloc_study_refusal(study, id))
        return g_strdup_printf("#%u", id);
    /* The innermost line of the program's own, or of Python, without its folder. */
    const char *stack = ech_alloc_study_stack(study, id), *dot = NULL;
    bool own = false;
    for (const char *at = stack; at && *at && !own; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        const char *here = g_strstr_len(at, (gssize)n, ".py:");
        own = here && ech_alloc_study_is_own(at, n);
        dot = own || !dot ? here : dot;
    }
    if (!dot)
        return ranges_name(stack ? stack : "");
    const char *begin = dot;
    while (begin > stack && begin[-1] != '/' && begin[-1] != '\\' && begin[-1] != '\n')
        begin--;
    return g_strdup_printf("%.*s", (int)(dot - begin + 4 + (ptrdiff_t)strspn(dot + 4, "0123456789")), begin);
}

char *ech_alloc_study_short_name(const EchAllocStudy *study, uint32_t id, int width)
{
    g_autofree char *name = ech_alloc_study_name(study, id);
    return ech_text_short(name, width);
}

EchBytes ech_alloc_study_bound(const EchAllocStudy *study)
{
    return ech_alloc_lower_bound((const EchAllocEvent *)(const void *)study->events->data, study->events->len, NULL);
}

EchBytes ech_alloc_study_live_at(const EchAllocStudy *study, uint32_t id)
{
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)study->events->data;
    EchBytes live = 0;
    for (guint i = 0; i < study->events->len; i++) {
        const EchAllocEvent *event = &events[i];
        if (event->kind == ECH_EVENT_ALLOC && event->id == id)
            break;
        const EchBuffer *buffer = ech_alloc_study_buffer(study, event->id);
        if (buffer && buffer->direct)
            continue;
        if (buffer && event->kind == ECH_EVENT_ALLOC)
            live = ech_bytes_add(live, event->bytes);
        else if (buffer && event->kind == ECH_EVENT_FREE)
            live -= MIN(live, buffer->bytes);
    }
    return live;
}

EchForeachKind ech_foreach_kind(const char *stack)
{
    static const char *const fusible[] = {":_multi_tensor_adam\n", ":_multi_tensor_adagrad\n", ":_multi_tensor_sgd\n"};
    if (!stack || !strstr(stack, ":_multi_tensor_"))
        return ECH_FOREACH_NOT;
    for (size_t k = 0; k < G_N_ELEMENTS(fusible); k++) {
        if (strstr(stack, fusible[k]))
            return ECH_FOREACH_FUSIBLE;
    }
    return ECH_FOREACH_NOT_FUSIBLE;
}

EchBytes ech_alloc_study_foreach_at(const EchAllocStudy *study, uint32_t id, bool *ret_fuses)
{
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)study->events->data;
    EchBytes own = 0;
    bool fuses = true;
    for (guint i = 0; i < study->events->len && !(events[i].kind == ECH_EVENT_ALLOC && events[i].id == id); i++) {
        const EchBuffer *buffer = ech_alloc_study_buffer(study, events[i].id);
        EchForeachKind kind = ech_foreach_kind(buffer && !buffer->direct ? ech_alloc_study_stack(study, events[i].id) : NULL);
        if (kind == ECH_FOREACH_NOT)
            continue;
        fuses &= kind == ECH_FOREACH_FUSIBLE;
        if (events[i].kind == ECH_EVENT_ALLOC)
            own = ech_bytes_add(own, events[i].bytes);
        else if (events[i].kind == ECH_EVENT_FREE)
            own -= MIN(own, buffer->bytes);
    }
    *ret_fuses = fuses;
    return own;
}

/* Frames of PyTorch that only call the next one. @file: its name and what follows. */
static bool is_calling(const char *file, const char *name, const char *end)
{
    if (g_str_has_prefix(file, "module.py") && end - name == 5 && strncmp(name, "inner", 5) == 0) /* within _call_impl */
        return true;
    static const char *const names[] = {"_call_impl", "_wrapped_call_impl", "__torch_function__", "handle_torch_function", "wrapper", "decorate_context"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        size_t n = strlen(names[i]);
        if ((size_t)(end - MIN(name, end)) >= n && strncmp(name, names[i], n) == 0 && (name + n == end || !g_ascii_isalnum(name[n])))
            return true;
    }
    return false;
}

/* "model.py:12 __init__ < train.py:30 main": up to three frames of Python, without folders (snapshots write file.py:12:name, profiles file.py(12): name); the
 * last is the program's own where the ones before are not. */
static char *line_of(const EchAllocStudy *study, uint32_t id)
{
    const EchBuffer *buffer = ech_alloc_study_buffer(study, id);
    g_autoptr(GString) out = g_string_new(NULL);
    unsigned shown = 0;
    bool own = false;
    gsize third = 0; /* where it begins in @out */
    for (const char *at = ech_alloc_study_stack(study, id); at && *at && (shown < 3 || !own);) {
        const char *end = at + strcspn(at, "\n"), *dot = g_strstr_len(at, end - at, ".py");
        if (dot && (dot[3] == ':' || dot[3] == '(')) {
            const char *begin = dot, *digits = dot + 4;
            while (begin > at && begin[-1] != '/' && begin[-1] != '\\')
                begin--;
            const char *past = digits + strspn(digits, "0123456789"), *name = past + strspn(past, "): ");
            bool ours = ech_alloc_study_is_own(at, (size_t)(end - at));
            if (!is_calling(begin, name, end) && (shown < 3 || ours)) {
                if (shown >= 3)
                    g_string_truncate(out, third);
                third = shown == 2 ? out->len : third;
                own |= ours;
                g_string_append_printf(out, "%s%.*s:%.*s", shown++ ? " < " : "", (int)(dot + 3 - begin), begin, (int)(past - digits), digits);
                g_string_append_printf(out, " %.*s", (int)(end > name ? end - name : 0), name);
            }
        }
        at = *end ? end + 1 : end;
    }
    const char *name = ech_trace_string(study->trace, buffer->name);
    if (shown == 0 && buffer->resident && !*name)
        g_string_append(out, "(in use before the recording, without a stack)");
    else if (shown == 0)
        g_string_append(out, *name && *name != '[' ? name : "(without a line of Python: gradients of a backward pass, libraries)");
    return g_utf8_make_valid(out->str, -1);
}

/* Number of events up to and with the moment at which holders are asked for. */
static size_t moment_of_holders(const EchAllocStudy *study)
{
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)study->events->data;
    size_t n = study->events->len, at;
    guint n_refusals = ech_alloc_study_n_refusals(study);
    if (n_refusals == 0) {
        ech_alloc_lower_bound(events, n, &at);
        return MIN(at + 1, n);
    }
    uint32_t last = ech_alloc_study_refusal_id(study, n_refusals - 1);
    for (at = 0; at < n; at++) {
        if (events[at].kind == ECH_EVENT_ALLOC && events[at].id == last)
            break;
    }
    return at;
}

GArray *ech_alloc_study_holders(const EchAllocStudy *study, bool at_end, EchBytes *ret_live)
{
    size_t n = study->trace ? ech_trace_n_buffers(study->trace) : 0, end = at_end ? study->events->len : moment_of_holders(study);
    g_autofree bool *live = g_new0(bool, n + 1);
    for (size_t i = 0; i < end; i++) {
        const EchAllocEvent *event = &g_array_index(study->events, EchAllocEvent, i);
        if (event->id < n && (event->kind == ECH_EVENT_ALLOC || event->kind == ECH_EVENT_FREE))
            live[event->id] = event->kind == ECH_EVENT_ALLOC;
    }
    EchTally *tally = ech_tally_new();
    *ret_live = 0;
    for (size_t i = 0; i < n; i++) {
        EchBytes bytes = ech_trace_buffers(study->trace)[i].bytes;
        if (!live[i] || bytes == 0)
            continue;
        *ret_live = ech_bytes_add(*ret_live, bytes);
        ech_tally_add(tally, line_of(study, (uint32_t)i), bytes);
    }
    return ech_tally_end(tally);
}

const char *ech_alloc_fit_name(EchFit fit)
{
    static const char *const names[] = {[ECH_FIT_OK] = "ok", [ECH_FIT_FULL] = "full", [ECH_FIT_FRAGMENTED] = "fragmented"};
    return names[fit];
}

const char *ech_alloc_moment_name(EchMomentKind kind)
{
    static const char *const names[] = {[ECH_MOMENT_PEAK] = "peak", [ECH_MOMENT_FAILURE] = "failure", [ECH_MOMENT_END] = "end"};
    return names[kind];
}

double ech_alloc_fragmentation(const EchAllocStats *stats)
{
    return stats->peak_reserved ? 1 - (double)stats->peak_live / (double)stats->peak_reserved : 0;
}

const char *ech_alloc_row_settings(const EchAllocRow *row)
{
    static const char prefix[] = "pytorch:";
    bool native = g_str_has_prefix(row->spec, prefix) && !strstr(row->spec, "backend:") && !strstr(row->spec, "release:");
    return native ? row->spec + strlen(prefix) : NULL;
}

int64_t ech_alloc_row_emptied(const EchAllocRow *row)
{
    int64_t retries = 0, given_up = 0;
    for (guint i = 0; i < row->own->len; i++) {
        const EchAllocStat *stat = &g_array_index(row->own, EchAllocStat, i);
        retries += strcmp(stat->name, "num_alloc_retries") == 0 ? stat->value : 0;
        given_up += strcmp(stat->name, "num_ooms") == 0 ? stat->value : 0;
    }
    return MAX(retries - given_up, 0);
}

const EchAllocRow *ech_alloc_study_advice(const EchAllocStudy *study, const GPtrArray *rows, const char **ret_instead)
{
    guint n = ech_alloc_study_n_refusals(study);
    const EchAllocRow *best = NULL;
    *ret_instead = NULL;
    for (guint i = 0; n && i < rows->len; i++) {
        const EchAllocRow *row = g_ptr_array_index(rows, i);
        const char *settings = ech_alloc_row_settings(row);
        if (row->recorded) {
            *ret_instead = row->settings;
            continue;
        }
        if (!settings || !*settings || row->served < n || row->outcome.stats.failed)
            continue;
        int64_t times = ech_alloc_row_emptied(row), least = best ? ech_alloc_row_emptied(best) : 0;
        if (!best || times < least || (times == least && row->smallest < best->smallest))
            best = row;
    }
    return best;
}
