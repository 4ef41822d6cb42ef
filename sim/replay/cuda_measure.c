/* Repeats a replay and reads the clock: that the GPU never waits for the host, what events cost, medians. */
#include "sim/replay/cuda_private.h"

#include <string.h>

#include "sim/base/compare.h"

#include <math.h>
#include <stdlib.h>

EchTime ech_cuda_median(EchTime *times, size_t n, EchTime *ret_low, EchTime *ret_high)
{
    /* Fewer than k of n independent values lie below the median as seldom as a fair coin falls fewer than k times: exactly, no normal law. */
    double below = 0;
    size_t k = 0;
    for (;; k++) {
        double chance = exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) - (double)n * G_LN2);
        if (below + chance > 0.025 || k == n / 2)
            break;
        below += chance;
    }
    qsort(times, n, sizeof *times, ech_compare_i64);
    size_t low = k > 0 ? k - 1 : 0;
    *ret_low = times[low];
    *ret_high = times[n - 1 - low];
    return n % 2 ? times[n / 2] : times[n / 2 - 1] + (times[n / 2] - times[n / 2 - 1]) / 2;
}

static bool elapsed(Engine *e, EchCuEvent begin, EchCuEvent end, EchTime *ret, GError **error)
{
    float ms = 0;
    if (!CU(e, event_elapsed, "reading a time", error, &ms, begin, end))
        return false;
    *ret = (EchTime)((double)ms * 1e9);
    return true;
}

/* Time between two events with @kernels kernels between them that read @bytes each, or one that waits for @wait, in a queue that never waits for the host: one
 * such pair of events behind the other, as a replay has them. (An event behind a kernel that is still at work costs otherwise: on an H100 what is between the
 * two comes out 0.8 us too short where the first is behind one that waits.) And with as much behind them: on an H200 a kernel starts 4.5 us after the one
 * before its events, but 3.7 us where less than 24 works follow, the last eight kernels of each 200 (captured by CUPTI). */
static bool time_between(Engine *e, unsigned kernels, EchBytes bytes, EchTime wait, EchTime *ret, GError **error)
{
    enum { FIRST = 1, READ = 5, BEHIND = 30, MOST = FIRST + READ + BEHIND / 2 }; /* The first is behind what kept the queue busy */
    EchTime times[READ], low, high;
    EchCuEvent events[2 * MOST] = {NULL};
    unsigned pairs = FIRST + READ + (BEHIND + kernels + 1) / (kernels + 2);
    bool ok = ech_cuda_issue_spin(e, (50 + 10 * pairs * ((EchTime)kernels + 3)) * ECH_PS_PER_US, e->streams[0], error);
    for (size_t i = 0; ok && i < 2 * pairs; i++)
        ok = CU(e, event_create, "making an event", error, &events[i], ECH_CU_EVENT_DEFAULT);
    for (size_t i = 0; ok && i < pairs; i++) {
        ok =
            CU(e, event_record, "recording an event", error, events[2 * i], e->streams[0]) && (wait <= 0 || ech_cuda_issue_spin(e, wait, e->streams[0], error));
        for (unsigned k = 0; ok && k < kernels; k++)
            ok = bytes > 0 ? ech_cuda_issue_reads(e, bytes, e->streams[0], error) : ech_cuda_issue_empty(e, e->streams[0], error);
        ok = ok && CU(e, event_record, "recording an event", error, events[2 * i + 1], e->streams[0]);
    }
    ok = ok && CU(e, event_synchronize, "waiting for an event", error, events[2 * pairs - 1]);
    for (size_t i = 0; ok && i < READ; i++)
        ok = elapsed(e, events[2 * (FIRST + i)], events[2 * (FIRST + i) + 1], &times[i], error);
    for (size_t i = 0; i < 2 * pairs; i++) {
        if (events[i])
            e->cu->event_destroy(events[i]);
    }
    if (ok)
        *ret = ech_cuda_median(times, READ, &low, &high);
    return ok;
}

/* What events around an op cost. A kernel between two of them also starts later than one behind another: that, too, no program has that records none. Both are
 * less beside a long kernel than beside a short one (on an H100 2.0 us beside empty ones, 1.0 beside such that read 64 MiB), so that they are measured beside
 * some of each. And what one that waits takes too long. */
static bool measure_gap(Engine *e, GError **error)
{
    enum { ROW = 9 };
    static const EchBytes sizes[ECH_CUDA_GAPS] = {0, 1 << 16, 1 << 20, 1 << 23, 1 << 26};
    const EchTime wait = 50 * ECH_PS_PER_US;
    EchTime one, row, waited;
    if (!time_between(e, 0, 0, 0, &e->gap, error))
        return false;
    for (e->n_kernel_gaps = 0; e->n_kernel_gaps < ECH_CUDA_GAPS && sizes[e->n_kernel_gaps] <= e->scratch_bytes / 8; e->n_kernel_gaps++) {
        size_t at = e->n_kernel_gaps;
        if (!time_between(e, 1, sizes[at], 0, &one, error) || !time_between(e, ROW, sizes[at], 0, &row, error))
            return false;
        EchTime gap = one - (row - one) / (ROW - 1);
        e->kernel_gaps[at] = at == 0 ? MAX(gap, e->gap) : CLAMP(gap, 0, 2 * e->kernel_gaps[0]);
        e->kernel_spans[at] = at == 0 ? one : MAX(one, e->kernel_spans[at - 1] + 1);
    }
    if (!time_between(e, 0, 0, wait, &waited, error))
        return false;
    e->spin_extra = MAX(waited - wait - e->kernel_spans[0], 0);
    e->run->gap = e->gap;
    memcpy(e->run->kernel_gaps, e->kernel_gaps, sizeof e->kernel_gaps);
    memcpy(e->run->kernel_spans, e->kernel_spans, sizeof e->kernel_spans);
    e->run->n_kernel_gaps = e->n_kernel_gaps;
    return true;
}

/* Of a kernel that was @span between two events. */
static EchTime kernel_gap(const Engine *e, EchTime span)
{
    size_t at = 0, n = e->n_kernel_gaps;
    if (span <= e->kernel_spans[0] || n < 2)
        return e->kernel_gaps[0];
    while (at + 2 < n && e->kernel_spans[at + 1] < span)
        at++;
    double along = (double)(MIN(span, e->kernel_spans[n - 1]) - e->kernel_spans[at]) / (double)(e->kernel_spans[at + 1] - e->kernel_spans[at]);
    return e->kernel_gaps[at] + (EchTime)(along * (double)(e->kernel_gaps[at + 1] - e->kernel_gaps[at]));
}

/* Clocks rise only under load, and one replay may be over before they have: a fifth of a second of arithmetic. */
static bool warm_clocks(Engine *e, GError **error)
{
    enum { LAUNCHES = 20 };
    /* 10 ms each at two operations a clock on 128 lanes of each multiprocessor. */
    double peak = MAX(e->gpu.multiprocessors, 1) * 256.0 * (e->gpu.clock_khz > 0 ? e->gpu.clock_khz : 1500000) * 1e3;
    for (unsigned i = 0; i < LAUNCHES; i++) {
        if (!ech_cuda_issue_vector(e, (uint64_t)(peak * 0.01), e->streams[0], error))
            return false;
    }
    return synchronize(e, error);
}

/* A queue of the driver's takes some thousand launches, events and waits before it makes the host wait, which then comes too late for a row of short
 * operations: with events around them each is three of those, and what it waits for. */
enum { MOST_AHEAD = 200 };

/* Keeps the GPU busy while @works are issued, so that a queue never waits for the host that fills it: as long as issuing has taken at best, and half as much
 * again. (At best: the driver makes the host wait where a thousand launches lie ahead of the GPU, and that would count for more each time.) */
static bool head_start(Engine *e, uint64_t works, GError **error)
{
    if (e->synchronous || e->works_before == 0)
        return true;
    /* An op with events around it is three calls instead of one. */
    gint64 whole = e->issue_us[e->timed] > 0 ? e->issue_us[e->timed] : 3 * e->issue_us[false];
    gint64 us = (gint64)((double)works * MAX(8, 1.5 * (double)whole / (double)e->works_before));
    /* A graph's first launch takes the host longer than one that it has made before. */
    us += 100 + (e->options->graph ? 2000 + (gint64)works * 20 : 0);
    return ech_cuda_issue_spin(e, MIN(us, 100000) * ECH_PS_PER_US, e->streams[0], error);
}

/* The event behind the head start has passed already: queues may have waited for the host. */
static void look_whether_late(Engine *e)
{
    e->late |= !e->synchronous && e->cu->event_query(e->head) == 0;
}

bool ech_cuda_keep_ahead(Engine *e, GError **error)
{
    if (!e->timed || e->synchronous || e->behind_head < MOST_AHEAD)
        return true;
    look_whether_late(e);
    gint64 begin = g_get_monotonic_time();
    if (!synchronize(e, error))
        return false;
    e->issue_begin += g_get_monotonic_time() - begin;
    e->behind_head = 0;
    if (!head_start(e, MOST_AHEAD, error) || !ech_cuda_next_mark(e, e->streams[0], &e->head, error))
        return false;
    for (size_t i = 1; i < e->n_streams; i++) {
        if (!CU(e, stream_wait, "starting the queues together", error, e->streams[i], e->head, 0))
            return false;
    }
    return true;
}

static void begin_issue(Engine *e)
{
    e->issue_begin = g_get_monotonic_time();
    e->head = e->base;
    e->behind_head = 0;
    e->late = false;
}

static void end_issue(Engine *e)
{
    gint64 us = g_get_monotonic_time() - e->issue_begin, *best = &e->issue_us[e->timed];
    look_whether_late(e);
    e->n_late += e->late;
    if (e->works_before > 0) /* Code is loaded in the first */
        *best = *best > 0 ? MIN(*best, us) : us;
}

static void forget_instances(Engine *e)
{
    e->works_before = e->works;
    e->works = 0;
    e->n_marks = 0;
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++)
        e->instances[i].n = 0;
    e->issued = 0;
}

static bool reset_buffers(Engine *e, bool resident, GError **error)
{
    const EchBuffer *buffers = ech_trace_buffers(e->trace);
    for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++) {
        if (buffers[i].alias_of != ECH_NONE)
            continue;
        if (!resident) {
            if (!e->places[i].kept && !ech_cuda_stays(e, i) && !ech_cuda_release_buffer(e, i, e->streams[0], error))
                return false;
            continue;
        }
        if (!buffers[i].resident && !e->options->graph)
            continue;
        if (!ech_cuda_place_buffer(e, i, 0, error) || !ech_cuda_poison_buffer(e, i, error))
            return false;
    }
    return synchronize(e, error) && ech_cuda_note_memory(e, error);
}

/* Whether an op takes a GPU's time. */
static bool works(const Engine *e, EchId at)
{
    EchOpKind kind = (EchOpKind)ech_trace_ops(e->trace)[at].kind;
    return kind != ECH_OP_LOOP && kind != ECH_OP_ALLOC && kind != ECH_OP_FREE && kind != ECH_OP_MARK;
}

/* Of a graph too, whose ops have no times. */
static void count_instances(Engine *e)
{
    for (EchId at = 0; at < ech_trace_n_ops(e->trace); at++)
        e->run->ops[at].instances = works(e, at) ? e->instances[at].n : 0;
}

static bool collect(Engine *e, GError **error)
{
    for (EchId at = 0; at < ech_trace_n_ops(e->trace); at++) {
        EchOpKind kind = (EchOpKind)ech_trace_ops(e->trace)[at].kind;
        if (!works(e, at))
            continue;
        Instances *in = &e->instances[at];
        EchTime total = 0, start = ECH_TIME_NONE;
        for (uint64_t i = 0; i < in->n; i++) {
            EchTime time, from;
            if (!elapsed(e, in->begin[i], in->end[i], &time, error))
                return false;
            if (i == 0) {
                if (!elapsed(e, e->base, in->begin[i], &from, error))
                    return false;
                start = from;
            }
            total += MAX(time - (kind == ECH_OP_KERNEL || kind == ECH_OP_COLLECTIVE ? kernel_gap(e, time) : e->gap), 0);
        }
        if (in->n > 0) {
            g_array_append_val(e->durations[at], total);
            g_array_append_val(e->starts[at], start);
        }
    }
    return true;
}

/* Code is loaded when it is first used, into device memory: what is missing between the replays since then is not the trace's. */
static bool discount_code(Engine *e, GError **error)
{
    size_t available, total;
    if (e->options->alloc == ECH_CUDA_ALLOC_ASYNC || e->n_replays != 1)
        return true;
    if (!CU(e, memory_info, "asking for free memory", error, &available, &total))
        return false;
    e->free_before -= e->free_idle > available ? MIN(e->free_idle - available, e->free_before) : 0;
    return true;
}

/* What a first launch would bring to the GPU in its queue, between the events, is there before them: programs launch a graph again and again. */
static bool bring_graph(Engine *e, EchCuGraphExec exec, GError **error)
{
    return CU(e, graph_upload, "bringing a graph to the GPU", error, exec, e->streams[0]) && synchronize(e, error);
}

typedef enum { WARM_UP, MEASURE_MAKESPAN, MEASURE_OPS } Purpose;

/* A pool that keeps what it has shows what one replay takes only where it begins empty, and then calls the driver: that is seen in warm-ups, the last of which
 * counts. */
static bool watch_pool(Engine *e, Purpose purpose, bool after, GError **error)
{
    EchCuPool pool;
    EchBytes high, none = 0;
    if (e->options->alloc != ECH_CUDA_ALLOC_ASYNC)
        return true;
    if (!CU(e, default_pool, "finding the memory pool", error, &pool, e->gpu.device))
        return false;
    if (!after)
        return (purpose != WARM_UP || CU(e, pool_trim, "emptying the memory pool", error, pool, 0)) &&
               CU(e, pool_set, "setting up the memory pool", error, pool, ECH_CU_POOL_RESERVED_HIGH, &none);
    if (!CU(e, pool_get, "reading the memory pool", error, pool, ECH_CU_POOL_RESERVED_HIGH, &high))
        return false;
    if (purpose == WARM_UP || e->n_replays == 0)
        e->run->pool_reserved = high;
    e->run->most_reserved = MAX(e->run->most_reserved, high);
    return true;
}

/* The same of an arena, which every replay begins empty. */
static void note_extent(Engine *e)
{
    g_array_append_val(e->extents, e->extent);
    e->run->most_reserved = MAX(e->run->most_reserved, e->extent);
    e->extent = 0;
}

static bool replay_once(Engine *e, Purpose purpose, GError **error)
{
    EchTime makespan;
    e->timed = purpose == MEASURE_OPS;
    /* The second, since code is loaded in the first. */
    bool only = e->options->warmups == 0 && e->options->repeats == 1 && e->options->graph;
    e->noting = e->n_replays == (only ? 0 : 1);
    forget_instances(e);
    if (!watch_pool(e, purpose, false, error) || !reset_buffers(e, true, error))
        return false;
    if (e->options->graph) {
        EchCuGraph graph = NULL;
        EchCuGraphExec exec = NULL;
        bool ok = CU(e, capture_begin, "capturing a graph", error, e->streams[0], ECH_CU_CAPTURE_RELAXED) && ech_cuda_fork_streams(e, error) &&
                  ech_cuda_issue_all(e, error) && ech_cuda_join_streams(e, error);
        /* A capture must be ended even if issuing failed; the first error is the one to tell. */
        EchCuResult ended = e->cu->capture_end(e->streams[0], &graph);
        ok = ok && ech_cuda_check(e->cu, ended, "cuStreamEndCapture", "capturing a graph", error) &&
             CU(e, graph_instantiate, "making a graph", error, &exec, graph, 0) && bring_graph(e, exec, error) && head_start(e, e->works_before, error) &&
             CU(e, event_record, "starting the clock", error, e->base, e->streams[0]) && CU(e, graph_launch, "launching a graph", error, exec, e->streams[0]) &&
             CU(e, event_record, "stopping the clock", error, e->done[0], e->streams[0]) &&
             CU(e, event_synchronize, "waiting for a graph", error, e->done[0]) && elapsed(e, e->base, e->done[0], &makespan, error);
        if (exec)
            e->cu->graph_exec_destroy(exec);
        if (graph)
            e->cu->graph_destroy(graph);
        if (!ok)
            return false;
    } else {
        begin_issue(e);
        if (!head_start(e, e->timed ? MIN(e->works_before, MOST_AHEAD) : e->works_before, error) || !ech_cuda_fork_streams(e, error) ||
            !ech_cuda_issue_all(e, error) || !ech_cuda_join_streams(e, error) || !CU(e, event_record, "stopping the clock", error, e->done[0], e->streams[0]))
            return false;
        end_issue(e);
        if (!e->timed) /* The GPU is busy now, and the host has nothing left to do */
            ech_gpu_watch_look(e->watch, &e->run->state);
        if (!CU(e, event_synchronize, "waiting for the replay", error, e->done[0]) || !elapsed(e, e->base, e->done[0], &makespan, error) ||
            (e->timed && !collect(e, error)))
            return false;
    }
    if (purpose == MEASURE_MAKESPAN) {
        e->run->makespans[e->run->n_makespans++] = makespan;
        count_instances(e);
        if (e->options->verify && !ech_cuda_verify_buffers(e, error))
            return false;
    }
    if (!synchronize(e, error) || !watch_pool(e, purpose, true, error))
        return false;
    ech_cuda_settle_all(e);
    note_extent(e);
    e->n_replays++;
    e->replayed += makespan;
    return reset_buffers(e, false, error) && synchronize(e, error) && discount_code(e, error);
}

static void summarise(Engine *e)
{
    EchCudaRun *run = e->run;
    g_autofree EchTime *sorted = g_memdup2(run->makespans, run->n_makespans * sizeof *run->makespans);
    run->makespan = ech_cuda_median(sorted, run->n_makespans, &run->low, &run->high);
    EchTime least, most;
    if (e->options->alloc == ECH_CUDA_ALLOC_ARENA)
        run->arena_extent = (EchBytes)ech_cuda_median((EchTime *)(void *)e->extents->data, e->extents->len, &least, &most);
    for (size_t i = 0; i < run->n_ops; i++) {
        EchCudaOp *op = &run->ops[i];
        op->start = op->duration = op->low = op->high = ECH_TIME_NONE;
        if (e->durations[i]->len == 0)
            continue;
        EchTime low, high;
        op->start = ech_cuda_median((EchTime *)(void *)e->starts[i]->data, e->starts[i]->len, &low, &high);
        op->duration = ech_cuda_median((EchTime *)(void *)e->durations[i]->data, e->durations[i]->len, &op->low, &op->high);
    }
}

/* What power leaves large products swings for some tenths of a second before it settles: an H200's began at the rate of just after a pause, lost a tenth of it
 * after 42 ms, and had half of that again 100 ms later (captured by CUPTI). Calibration waits as long. */
#define SETTLED_AFTER (500 * ECH_PS_PER_MS)
enum { MOST_HEATING = 100 }; /* Replays: short ones leave rests between them, and settle nothing */

bool ech_cuda_replay_all(Engine *e, GError **error)
{
    if ((e->options->warmups > 0 && !warm_clocks(e, error)) || !measure_gap(e, error))
        return false;
    EchTime heating = ech_cuda_heats(e) ? SETTLED_AFTER : 0;
    for (uint64_t i = 0; i < e->options->warmups || (e->options->warmups > 0 && i < MOST_HEATING && e->replayed < heating); i++) {
        if (!replay_once(e, WARM_UP, error))
            return false;
    }
    uint64_t before = e->run->warmups = e->n_replays;
    e->n_late = 0;
    EchTime all;
    if (!CU(e, event_record, "starting the clock", error, e->first, e->streams[0]))
        return false;
    for (uint64_t i = 0; i < e->options->repeats; i++) {
        if (!replay_once(e, MEASURE_MAKESPAN, error) || (!e->options->graph && !replay_once(e, MEASURE_OPS, error)))
            return false;
    }
    if (!CU(e, event_record, "stopping the clock", error, e->done[0], e->streams[0]) || !CU(e, event_synchronize, "waiting for an event", error, e->done[0]) ||
        !elapsed(e, e->first, e->done[0], &all, error))
        return false;
    e->run->each = all / (EchTime)MAX(e->n_replays - before, 1u);
    e->run->paced = e->synchronous;
    summarise(e);
    if (e->n_late > 0)
        ech_diag_remark(
            e->run->diag,
            "%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
            " replays were still being issued when the GPU had begun (a thousand launches fill its queue, pageable copies make the host wait): short "
            "operations may have waited for the host",
            e->n_late, e->n_replays - before);
    EchBytes reserved = e->options->alloc == ECH_CUDA_ALLOC_ARENA ? e->run->arena_extent : e->run->pool_reserved;
    if (e->run->most_reserved > reserved)
        ech_diag_remark(e->run->diag,
                        "a replay reserved %" G_GUINT64_FORMAT " bytes, more than the %" G_GUINT64_FORMAT
                        " of most: where copies are late, what they hold is freed late",
                        e->run->most_reserved, reserved);
    if (ech_gpu_state_throttled(&e->run->state))
        ech_diag_remark(e->run->diag, "power or heat held the clocks back: times of arithmetic depend on what ran before");
    if (e->n_clipped > 0)
        ech_diag_remark(e->run->diag,
                        "kernels that move more than %" G_GUINT64_FORMAT
                        " bytes one way were measured with that much: the trace leaves the GPU no room for more",
                        e->scratch_bytes / 2);
    if (e->n_reshaped > 0)
        ech_diag_remark(e->run->diag,
                        "%" G_GUINT64_FORMAT
                        " launches of matrix products did as many operations as the trace's, not in its shape: that is not known, of a dtype that "
                        "cuBLAS does not take, or larger than the %" G_GUINT64_FORMAT " bytes left for it",
                        e->n_reshaped, e->scratch_bytes / 2);
    return true;
}
