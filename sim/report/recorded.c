/* A trace's recordings in the form of a run, for the writers of timelines and profiles. */
#include "sim/report/writers.h"
#include "sim/trace/lifetime.h"

typedef struct {
    EchTime time;
    uint32_t order; /* of the operation; frees at the end of the trace come last */
    EchBytes bytes;
    guint placed; /* Index of what is placed or freed. */
    bool frees;
} Change;

static gint compare_changes(gconstpointer a, gconstpointer b)
{
    const Change *x = a, *y = b;
    if (x->time != y->time)
        return (x->time > y->time) - (x->time < y->time);
    return (x->order > y->order) - (x->order < y->order);
}

static gint compare_spans(gconstpointer a, gconstpointer b)
{
    const EchSpan *x = a, *y = b;
    if (x->end != y->end)
        return (x->end > y->end) - (x->end < y->end);
    return (x->op > y->op) - (x->op < y->op);
}

static EchTime duration_of(const EchOp *op)
{
    return op->recorded.duration == ECH_TIME_NONE ? 0 : CLAMP(op->recorded.duration, 0, ECH_TIME_MAX / 4);
}

static void occupy(EchMemoryRun *memory, const EchLifetimes *lives, const EchTime *times, uint32_t n_ops, GArray *placed, const EchTrace *trace)
{
    g_autoptr(GArray) changes = g_array_new(FALSE, FALSE, sizeof(Change));
    for (size_t i = 0; i < lives->n; i++) {
        const EchLifetime *life = &lives->items[i];
        const EchBuffer *buffer = &ech_trace_buffers(trace)[life->buffer];
        EchBytes bytes = MAX(buffer->rounded, life->bytes);
        bool allocated =
            ech_trace_ops(trace)[MIN(life->begin, n_ops - 1)].kind == ECH_OP_ALLOC && ech_trace_ops(trace)[MIN(life->begin, n_ops - 1)].target == life->buffer;
        Change begin = {allocated ? times[life->begin] : 0, life->begin, bytes, placed->len, false},
               end = {times[MIN(life->end, n_ops)], life->end, bytes, placed->len, true};
        EchPlaced place = {.op = allocated ? life->begin : ECH_NONE,
                           .buffer = life->buffer,
                           .begin = begin.time,
                           .end = life->end >= n_ops ? ECH_TIME_MAX : end.time,
                           .died = UINT64_MAX};
        place.place.rounded = bytes;
        place.place.address = buffer->address != ECH_OFFSET_NONE ? buffer->address : buffer->offset != ECH_OFFSET_NONE ? buffer->offset : 0;
        g_array_append_val(changes, begin);
        if (life->end < n_ops)
            g_array_append_val(changes, end);
        g_array_append_val(placed, place);
    }
    g_array_sort(changes, compare_changes);
    g_autoptr(GArray) series = g_array_new(FALSE, FALSE, sizeof(EchPoint));
    EchBytes live = 0;
    for (guint i = 0; i < changes->len; i++) {
        const Change *change = &g_array_index(changes, Change, i);
        EchPlaced *place = &g_array_index(placed, EchPlaced, change->placed);
        if (change->frees)
            place->died = i;
        else
            place->born = i;
        live = change->frees ? live - MIN(live, change->bytes) : ech_bytes_add(live, change->bytes);
        if (live > memory->peak_live) {
            memory->peak_live = live;
            memory->peak_at = change->time;
            memory->peak_born = i;
        }
        EchPoint point = {change->time, live, live};
        if (series->len > 0 && g_array_index(series, EchPoint, series->len - 1).time == change->time)
            g_array_index(series, EchPoint, series->len - 1) = point;
        else
            g_array_append_val(series, point);
    }
    memory->peak_reserved = memory->peak_live;
    memory->end_live = live;
    memory->n_series = series->len;
    memory->series = (EchPoint *)(void *)g_array_free(g_steal_pointer(&series), FALSE);
}

EchRun *ech_recorded_run(const EchTrace *trace)
{
    EchRun *run = g_new0(EchRun, 1);
    size_t n = ech_trace_n_ops(trace);
    const EchOp *ops = ech_trace_ops(trace);
    EchTime base = ECH_TIME_MAX, now = 0;
    for (size_t i = 0; i < n; i++)
        if (ech_op_has_start(&ops[i]))
            base = MIN(base, ops[i].recorded.start);
    bool timed = base != ECH_TIME_MAX;
    /* When each operation happened, for those that say; the others as late as the ones before them. */
    g_autofree EchTime *times = g_new0(EchTime, n + 1);
    g_autoptr(GArray) spans = g_array_new(FALSE, TRUE, sizeof(EchSpan)), placed = g_array_new(FALSE, TRUE, sizeof(EchPlaced));
    for (size_t i = 0; i < n; i++) {
        if (!timed) {
            times[i] = (EchTime)i * ECH_PS_PER_NS;
            run->makespan = times[i];
            continue;
        }
        if (ech_op_has_start(&ops[i]))
            now = ops[i].recorded.start - base;
        times[i] = now;
        run->makespan = MAX(run->makespan, now);
        bool instant = ops[i].kind == ECH_OP_ALLOC || ops[i].kind == ECH_OP_FREE || ops[i].kind == ECH_OP_LOOP || ops[i].kind == ECH_OP_SIGNAL;
        if (instant || !ech_op_has_start(&ops[i]))
            continue;
        EchSpan span = {.op = (EchId)i, .queue = ops[i].queue, .start = now, .end = now + duration_of(&ops[i]), .resource = ECH_NONE, .awaited = ECH_NONE};
        run->makespan = MAX(run->makespan, span.end);
        g_array_append_val(spans, span);
    }
    times[n] = run->makespan;
    g_array_sort(spans, compare_spans);
    run->n_memories = ech_trace_n_memories(trace);
    run->memories = g_new0(EchMemoryRun, run->n_memories + 1);
    for (size_t m = 0; m < run->n_memories; m++) {
        run->memories[m].name = g_strdup(ech_trace_memory(trace, (EchId)m));
        run->memories[m].allocator = g_strdup("recorded");
        g_autoptr(EchLifetimes) lives = ech_lifetimes_new(trace, (EchId)m);
        if (n > 0)
            occupy(&run->memories[m], lives, times, (uint32_t)n, placed, trace);
    }
    run->completed = run->fits = true;
    run->ops = n;
    run->n_spans = spans->len;
    run->spans = (EchSpan *)(void *)g_array_free(g_steal_pointer(&spans), FALSE);
    run->n_placed = placed->len;
    run->placed = (EchPlaced *)(void *)g_array_free(g_steal_pointer(&placed), FALSE);
    run->provenance.engine = g_strdup("recorded");
    run->provenance.trace_hash = ech_trace_hash(trace);
    run->diag = ech_diag_new();
    return run;
}
