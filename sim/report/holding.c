/* What a memory holds at a time, by what it is there for: the transfers of an offloaded program show as what they are. */
#include "sim/report/report.h"

#include <string.h>

/* What a live buffer has behind it and before it, within its life. ECH_TIME_NONE: never. */
typedef struct {
    const EchPlaced *placed;
    EchTime filled, sent;  /* End of the copy that fills it, of the last that empties it. */
    EchTime first_use;     /* Start of the first use by anything else. */
    EchTime before, after; /* End of the last use (or filling) before the time asked for, start of the next one. */
    EchId from, to;
    bool running; /* A use is under way. */
} Life;

static void note_use(Life *life, const EchOp *op, const EchSpan *span, const EchUse *use, EchId memory, EchTime time)
{
    bool copy = op->kind == ECH_OP_COPY && op->memory_from != op->memory_to;
    if (span->end <= time)
        life->before = MAX(life->before, span->end);
    else if (span->start > time)
        life->after = life->after == ECH_TIME_NONE ? span->start : MIN(life->after, span->start);
    if (copy && use->access == ECH_WRITE && op->memory_to == memory) {
        life->from = op->memory_from;
        life->filled = MAX(life->filled, span->end);
    } else if (copy && use->access == ECH_READ && op->memory_from == memory) {
        life->to = op->memory_to;
        life->sent = MAX(life->sent, span->end);
    } else {
        life->first_use = life->first_use == ECH_TIME_NONE ? span->start : MIN(life->first_use, span->start);
        life->running = life->running || (span->start <= time && span->end > time);
    }
}

static const char *role_group(EchRole role)
{
    switch (role) {
    case ECH_ROLE_PARAMETER: return "arguments";
    case ECH_ROLE_ACTIVATION: return "activations";
    case ECH_ROLE_GRADIENT: return "gradients";
    case ECH_ROLE_OPTIMIZER: return "optimizer state";
    case ECH_ROLE_KV_CACHE: return "KV cache";
    case ECH_ROLE_INPUT: return "inputs";
    case ECH_ROLE_OUTPUT: return "results";
    case ECH_ROLE_CONSTANT: return "constants";
    case ECH_ROLE_WEIGHT_COPY: return "copies of weights";
    case ECH_ROLE_TEMPORARY: return "temporaries in use";
    case ECH_ROLE_UNKNOWN:
    case ECH_N_ROLES: break;
    }
    return "buffers";
}

/* Nothing uses it for a twentieth of the run. */
static bool is_kept(const Life *life, EchTime makespan)
{
    return !life->running && life->before != ECH_TIME_NONE && life->after != ECH_TIME_NONE && life->after - life->before > makespan / 20;
}

/* Owned by the caller. */
static char *group_of(const EchReport *report, const Life *life, EchTime time)
{
    g_assert(life->placed);
    EchRole role = (EchRole)ech_trace_buffers(report->trace)[life->placed->buffer].role;
    bool own = role != ECH_ROLE_TEMPORARY && role != ECH_ROLE_UNKNOWN, kept = is_kept(life, report->run->makespan);
    const char *from = life->from == ECH_NONE || own ? NULL : ech_trace_memory(report->trace, life->from);
    const char *to = life->to == ECH_NONE ? NULL : ech_trace_memory(report->trace, life->to);
    bool only_leaves = !life->running && (life->after == ECH_TIME_NONE || life->after < life->sent);
    if (to && only_leaves && life->sent > time && life->first_use < time && !(from && life->filled > time))
        return g_strdup_printf("leaving for %s", to);
    if (from && life->filled > time)
        return g_strdup_printf("arriving from %s", from);
    if (from && life->first_use != ECH_TIME_NONE && life->first_use > time)
        return g_strdup_printf("back from %s before its use", from);
    if (from)
        return g_strdup_printf(kept ? "from %s, kept for later use" : "from %s, in use", from);
    return g_strdup(!own && kept ? "kept for later use" : role_group(role));
}

static int compare_places(const void *a, const void *b)
{
    const EchPlaced *x = *(const EchPlaced *const *)a, *y = *(const EchPlaced *const *)b;
    if (x->place.address != y->place.address)
        return x->place.address < y->place.address ? -1 : 1;
    if (x->place.rounded != y->place.rounded)
        return x->place.rounded > y->place.rounded ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int compare_holdings(const void *a, const void *b)
{
    const EchHolding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Keeps the largest first; the earlier buffer where two are as large. */
static void note_largest(const EchTrace *trace, EchHolding *holding, EchId buffer)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; i < G_N_ELEMENTS(holding->largest); i++) {
        EchId other = holding->largest[i];
        if (other == ECH_NONE || buffers[buffer].bytes > buffers[other].bytes || (buffers[buffer].bytes == buffers[other].bytes && buffer < other)) {
            holding->largest[i] = buffer;
            if (other == ECH_NONE)
                return;
            buffer = other;
        }
    }
}

static void add_holding(GArray *holdings, const EchTrace *trace, char *name, EchBytes bytes, EchId buffer)
{
    guint at = 0;
    while (at < holdings->len && strcmp(g_array_index(holdings, EchHolding, at).name, name) != 0)
        at++;
    if (at == holdings->len) {
        EchHolding holding = {name, 0, 0, {ECH_NONE, ECH_NONE, ECH_NONE, ECH_NONE}};
        g_array_append_val(holdings, holding);
    } else {
        g_free(name);
    }
    EchHolding *holding = &g_array_index(holdings, EchHolding, at);
    holding->bytes = ech_bytes_add(holding->bytes, bytes);
    holding->buffers++;
    note_largest(trace, holding, buffer);
}

EchHolding *ech_report_holdings(const EchReport *report, const char *memory, EchTime time, size_t *ret_n)
{
    const EchRun *run = report->run;
    const EchTrace *trace = report->trace;
    EchId id = ech_trace_find_memory(trace, memory);
    g_autoptr(GArray) holdings = g_array_new(FALSE, FALSE, sizeof(EchHolding));
    g_autoptr(GPtrArray) live = g_ptr_array_new();
    g_autofree Life *lives = g_new0(Life, ech_trace_n_buffers(trace) + 1);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        lives[i] = (Life){NULL, ECH_TIME_NONE, ECH_TIME_NONE, ECH_TIME_NONE, ECH_TIME_NONE, ECH_TIME_NONE, ECH_NONE, ECH_NONE, false};
    const EchMemoryRun *of = ech_report_memory(run, memory);
    bool fixed = true; /* Buffers of an allocator never share a place; those of a plan may. */
    for (size_t i = 0; i < run->n_placed; i++) {
        const EchPlaced *placed = &run->placed[i];
        if (ech_trace_buffers(trace)[placed->buffer].memory != id || !ech_report_live(of, placed, time))
            continue;
        fixed = fixed && ech_trace_buffers(trace)[placed->buffer].offset != ECH_OFFSET_NONE;
        lives[placed->buffer].placed = placed;
        g_ptr_array_add(live, (gpointer)(uintptr_t)placed);
    }
    for (size_t i = 0; i < run->n_spans && live->len > 0; i++) {
        const EchSpan *span = &run->spans[i];
        const EchOp *op = &ech_trace_ops(trace)[span->op];
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            Life *life = &lives[ech_buffer_root(ech_trace_buffers(trace), use->buffer, NULL)];
            if (life->placed && span->start >= life->placed->begin && span->start < life->placed->end)
                note_use(life, op, span, use, id, time);
        }
    }
    if (live->len > 1)
        qsort(live->pdata, live->len, sizeof *live->pdata, compare_places);
    uint64_t covered = 0;
    for (guint i = 0; i < live->len; i++) {
        const EchPlaced *placed = live->pdata[i];
        EchBytes bytes = MAX(placed->place.rounded, ech_trace_buffers(trace)[placed->buffer].bytes);
        uint64_t begin = placed->place.address, end = ech_bytes_add(begin, bytes);
        if (fixed) {
            begin = MAX(begin, covered);
            bytes = end > begin ? end - begin : 0;
            covered = MAX(covered, end);
        }
        add_holding(holdings, trace, group_of(report, &lives[placed->buffer], time), bytes, placed->buffer);
    }
    if (holdings->len > 1)
        qsort(holdings->data, holdings->len, sizeof(EchHolding), compare_holdings);
    *ret_n = holdings->len;
    return (EchHolding *)(void *)g_array_steal(holdings, NULL);
}

void ech_holdings_free(EchHolding *holdings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g_free(holdings[i].name);
    g_free(holdings);
}
