/* Fills the streams: queues in order, dependencies as events, loops expanded. */
#include "sim/replay/cuda_private.h"

#include "sim/base/error.h"

#include <string.h>

#define ALONE_HEAD_START (30 * ECH_PS_PER_US)

static bool make_event(Engine *e, EchCuEvent *event, unsigned flags, GError **error)
{
    return *event || CU(e, event_create, "making an event", error, event, flags);
}

static void make_room(Instances *in)
{
    EchCuEvent **const rows[] = {&in->begin, &in->end, &in->over};
    if (in->n < in->room)
        return;
    uint64_t before = in->room;
    in->room = MAX(in->room * 2, 1);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        *rows[i] = g_renew(EchCuEvent, *rows[i], in->room);
        memset(*rows[i] + before, 0, (in->room - before) * sizeof **rows[i]);
    }
}

/* Whether this replay measures op @at. */
static bool is_timed(const Engine *e, EchId at)
{
    static const bool works[ECH_N_OP_KINDS] = {
        [ECH_OP_KERNEL] = true, [ECH_OP_COPY] = true, [ECH_OP_COLLECTIVE] = true, [ECH_OP_WAIT] = true, [ECH_OP_SIGNAL] = true};
    return e->timed && works[ech_trace_ops(e->trace)[at].kind];
}

/* The next instance of op @at begins. What other queues wait for is an event without time where nothing is measured, as in the programs themselves. */
static bool begin_instance(Engine *e, EchId at, EchCuStream stream, GError **error)
{
    Instances *in = &e->instances[at];
    make_room(in);
    if (!is_timed(e, at))
        return !e->needed[at] || make_event(e, &in->over[in->n], ECH_CU_EVENT_DISABLE_TIMING, error);
    if (!make_event(e, &in->begin[in->n], ECH_CU_EVENT_DEFAULT, error) || !make_event(e, &in->end[in->n], ECH_CU_EVENT_DEFAULT, error))
        return false;
    /* Where nothing is issued ahead the queue is empty: the first event would pass while the host is still asking for the work behind it. */
    if (e->synchronous && !ech_cuda_issue_spin(e, ALONE_HEAD_START, stream, error))
        return false;
    return CU(e, event_record, "recording an event", error, in->begin[in->n], stream);
}

static EchCuEvent end_of(const Engine *e, EchId at, uint64_t instance)
{
    const Instances *in = &e->instances[at];
    return is_timed(e, at) ? in->end[instance] : in->over[instance];
}

static bool end_instance(Engine *e, EchId at, EchCuStream stream, GError **error)
{
    EchCuEvent event = end_of(e, at, e->instances[at].n++);
    return !event || CU(e, event_record, "recording an event", error, event, stream);
}

bool ech_cuda_next_mark(Engine *e, EchCuStream stream, EchCuEvent *ret, GError **error)
{
    if (e->n_marks == e->marks->len) {
        EchCuEvent made = NULL;
        if (!CU(e, event_create, "making an event", error, &made, ECH_CU_EVENT_DISABLE_TIMING))
            return false;
        g_array_append_val(e->marks, made);
    }
    *ret = g_array_index(e->marks, EchCuEvent, e->n_marks++);
    return CU(e, event_record, "recording an event", error, *ret, stream);
}

/* Of an op that does nothing on its queue: its end, where another queue waits for it. */
static bool mark_end(Engine *e, EchId at, EchCuStream stream, GError **error)
{
    return !e->needed[at] || (begin_instance(e, at, stream, error) && end_instance(e, at, stream, error));
}

static bool wait_for(Engine *e, EchId at, GError **error)
{
    const EchOp *ops = ech_trace_ops(e->trace), *op = &ops[at];
    const EchDep *deps = ech_trace_deps(e->trace) + op->first_dep;
    for (uint32_t i = 0; i < op->n_deps; i++) {
        EchId on = deps[i].op;
        bool around = ops[on].kind == ECH_OP_LOOP && on < at && at <= on + ops[on].target;
        if (ops[on].queue == op->queue || around)
            continue;
        const Instances *in = &e->instances[on];
        /* An op later in the body has not been issued in this iteration yet: its newest instance is one iteration back. */
        uint64_t back = deps[i].distance - (deps[i].distance > 0 && deps[i].op >= at ? 1 : 0);
        if (in->n <= back)
            continue;
        if (!CU(e, stream_wait, "making a queue wait", error, e->streams[op->queue], end_of(e, on, in->n - 1 - back), 0))
            return false;
    }
    return true;
}

static bool issue_op(Engine *e, EchId at, GError **error)
{
    const EchOp *op = &ech_trace_ops(e->trace)[at];
    EchCuStream stream = e->streams[op->queue];
    if (++e->issued > e->options->max_ops) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "more than %" G_GUINT64_FORMAT " op instances; expected max_ops to allow them",
                    e->options->max_ops);
        return false;
    }
    if (!ech_cuda_keep_ahead(e, error) || !wait_for(e, at, error))
        return false;
    switch ((EchOpKind)op->kind) {
    case ECH_OP_ALLOC:
        return (e->options->graph || (ech_cuda_place_buffer(e, op->target, op->queue, error) && ech_cuda_note_memory(e, error))) &&
               mark_end(e, at, stream, error);
    case ECH_OP_FREE:
        return (e->options->graph || e->places[op->target].kept || ech_cuda_free_buffer(e, op->target, op->queue, error)) && mark_end(e, at, stream, error);
    case ECH_OP_KERNEL:
    case ECH_OP_COPY:
    case ECH_OP_COLLECTIVE:
    case ECH_OP_WAIT:
    case ECH_OP_SIGNAL: break;
    case ECH_OP_LOOP:
    case ECH_OP_MARK: return mark_end(e, at, stream, error);
    case ECH_N_OP_KINDS: g_assert_not_reached();
    }
    e->works++;
    e->behind_head++;
    bool ok = begin_instance(e, at, stream, error);
    if (ok && op->kind == ECH_OP_KERNEL)
        ok = ech_cuda_issue_kernel(e, at, op, stream, error);
    else if (ok && op->kind == ECH_OP_COPY)
        ok = ech_cuda_issue_copy(e, op, stream, error);
    else if (ok && op->kind == ECH_OP_COLLECTIVE)
        ok = ech_cuda_issue_spin(e, e->prices->prices[at].alone, stream, error);
    return ok && end_instance(e, at, stream, error);
}

/* Queues with work in a loop's body, but its own: ret[n_queues]. */
static void body_queues(const Engine *e, EchId loop, bool *ret)
{
    const EchOp *ops = ech_trace_ops(e->trace);
    memset(ret, 0, MAX(ech_trace_n_queues(e->trace), 1) * sizeof *ret);
    for (EchId at = loop + 1; at <= loop + ops[loop].target; at++)
        ret[ops[at].queue] = ops[at].queue != ops[loop].queue;
}

/* A body begins when its loop's own queue has come to it and what the loop depends on is over; the loop ends when all queues have left the body. */
static bool enter_loop(Engine *e, EchId loop, GError **error)
{
    EchCuStream home = e->streams[ech_trace_ops(e->trace)[loop].queue];
    g_autofree bool *others = g_new0(bool, MAX(ech_trace_n_queues(e->trace), 1));
    EchCuEvent begin;
    if (!wait_for(e, loop, error) || !ech_cuda_next_mark(e, home, &begin, error))
        return false;
    body_queues(e, loop, others);
    for (size_t q = 0; q < e->n_streams; q++) {
        if (others[q] && !CU(e, stream_wait, "making a queue wait for a loop", error, e->streams[q], begin, 0))
            return false;
    }
    return true;
}

static bool leave_loop(Engine *e, EchId loop, GError **error)
{
    EchCuStream home = e->streams[ech_trace_ops(e->trace)[loop].queue];
    g_autofree bool *others = g_new0(bool, MAX(ech_trace_n_queues(e->trace), 1));
    body_queues(e, loop, others);
    for (size_t q = 0; q < e->n_streams; q++) {
        EchCuEvent end;
        if (others[q] && (!ech_cuda_next_mark(e, e->streams[q], &end, error) || !CU(e, stream_wait, "making a loop wait for a queue", error, home, end, 0)))
            return false;
    }
    return mark_end(e, loop, home, error);
}

/* Issues [first, end), loops expanded. */
static bool issue_range(Engine *e, EchId first, EchId end, GError **error)
{
    const EchOp *ops = ech_trace_ops(e->trace);
    for (EchId at = first; at < end; at++) {
        if (ops[at].kind != ECH_OP_LOOP) {
            if (!issue_op(e, at, error))
                return false;
            continue;
        }
        if (!enter_loop(e, at, error))
            return false;
        for (uint64_t trip = 0; trip < ops[at].bytes; trip++) {
            if (!issue_range(e, at + 1, at + 1 + ops[at].target, error))
                return false;
        }
        if (!leave_loop(e, at, error))
            return false;
        at += ops[at].target;
    }
    return true;
}

bool ech_cuda_issue_all(Engine *e, GError **error)
{
    return issue_range(e, 0, (EchId)ech_trace_n_ops(e->trace), error);
}

bool ech_cuda_fork_streams(Engine *e, GError **error)
{
    if (!CU(e, event_record, "starting the clock", error, e->base, e->streams[0]))
        return false;
    for (size_t i = 1; i < e->n_streams; i++) {
        if (!CU(e, stream_wait, "starting the queues together", error, e->streams[i], e->base, 0))
            return false;
    }
    return true;
}

bool ech_cuda_join_streams(Engine *e, GError **error)
{
    for (size_t i = 1; i < e->n_streams; i++) {
        if (!CU(e, event_record, "ending a queue", error, e->done[i], e->streams[i]) ||
            !CU(e, stream_wait, "ending the queues together", error, e->streams[0], e->done[i], 0))
            return false;
    }
    return true;
}
