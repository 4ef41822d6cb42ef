/* Copies over the host link: by size, both ways, engines, beside kernels. */
#include "sim/experiment/calibrate_private.h"

static double rate_of(const EchCopyCurve *curve, size_t i)
{
    return (double)curve->bytes[i] / MAX(curve->time[i].median, 1e-3) * 1e9;
}

static bool measure_size(Bench *b, const EchCopyCurve *curve, size_t i, CopyShape shape, EchFigure *ret, GError **error)
{
    shape.bytes = curve->bytes[i];
    return ech_bench_time_each(b, ech_bench_issue_copy, &shape, shape.bytes >= (EchBytes)64 << 20 ? 5 : REPEATS, ret, error);
}

/* A copy over a link that nobody else uses is no slower for being larger. Sizes at which pinned ones are were measured while somebody did (of a machine that
 * several share, seen for seconds on end): they are measured again, until they are not or @rounds times. */
static bool measure_slow_ones_again(Bench *b, EchCopyCurve *curve, CopyShape shape, unsigned rounds, GError **error)
{
    for (bool slow = true; slow && rounds > 0; rounds--) {
        slow = false;
        double best = 0;
        for (size_t i = 0; i < curve->n; i++) {
            if (rate_of(curve, i) < 0.97 * best) {
                EchFigure again;
                if (!measure_size(b, curve, i, shape, &again, error))
                    return false;
                if (again.median < curve->time[i].median)
                    curve->time[i] = again;
                slow |= rate_of(curve, i) < 0.97 * best;
            }
            best = MAX(best, rate_of(curve, i));
        }
    }
    return true;
}

/* Whole, or nothing of it: a part has no rate. */
static bool measure_curve(Bench *b, bool from, bool pageable, EchCopyCurve *ret, GError **error)
{
    EchCopyCurve new = {0}, *curve = &new;
    const CopyShape shape = {0, from, pageable};
    for (EchBytes bytes = 1 << 10; bytes <= b->host_bytes && curve->n < ECH_CALIBRATE_MOST_SIZES; bytes *= bytes < 1 << 20 ? 4 : 2) {
        curve->bytes[curve->n] = bytes;
        if (!measure_size(b, curve, curve->n, shape, &curve->time[curve->n], error))
            return false;
        curve->n++;
    }
    if (!pageable && !measure_slow_ones_again(b, curve, shape, 6, error))
        return false;
    /* The rate is what more bytes cost, but hardly more than any size had as a whole; what is left of the largest copy is its set-up. The host's processor
     * copies pageable memory at a rate that falls with the size: it is the best there is, what sizes take beyond it is in the curve. */
    size_t last = curve->n - 1, before = last >= 2 ? last - 2 : 0;
    double growth = curve->time[last].median - curve->time[before].median, best = 0;
    for (size_t i = 0; i < curve->n; i++)
        best = MAX(best, rate_of(curve, i));
    curve->rate = growth > 0 ? CLAMP((double)(curve->bytes[last] - curve->bytes[before]) / growth * 1e9, best, 1.05 * best) : best;
    curve->setup = MAX(curve->time[last].median - (double)curve->bytes[last] / curve->rate * 1e9, 0);
    *ret = new;
    return true;
}

bool ech_calibrate_pinned(Bench *b, GError **error)
{
    return measure_curve(b, false, false, &b->result->pinned[0], error) && measure_curve(b, true, false, &b->result->pinned[1], error);
}

bool ech_calibrate_pageable(Bench *b, GError **error)
{
    return measure_curve(b, false, true, &b->result->pageable[0], error) && measure_curve(b, true, true, &b->result->pageable[1], error);
}

/* Issues @n copies on each queue, both begun by one event, beside @kernels that read on a third; ends of each copy, nanoseconds since that. */
static bool run_pair(Bench *b, const CopyShape shapes[2], unsigned n, unsigned kernels, double ends[2][MOST_EVENTS], GError **error)
{
    const StreamShape reads = {b->half / 16, 0, false};
    if (!ech_bench_head_start(b, 4 * n + kernels, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) ||
        !CU(b, stream_wait, "starting together", error, b->streams[1], b->events[0][0], 0) ||
        !CU(b, stream_wait, "starting together", error, b->streams[2], b->events[0][0], 0))
        return false;
    for (unsigned i = 0; i < kernels; i++) {
        if (!ech_bench_issue_stream(b, b->streams[2], &reads, error))
            return false;
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned s = 0; s < 2; s++) {
            if (!ech_bench_issue_copy(b, b->streams[s], &shapes[s], error) ||
                !CU(b, event_record, "recording an event", error, b->events[s][i + 1], b->streams[s]))
                return false;
        }
    }
    for (size_t s = 0; s < G_N_ELEMENTS(b->streams); s++) {
        if (!CU(b, stream_synchronize, "waiting for copies", error, b->streams[s]))
            return false;
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned s = 0; s < 2; s++) {
            if (!ech_bench_elapsed(b, b->events[0][0], b->events[s][i + 1], &ends[s][i], error))
                return false;
        }
    }
    return true;
}

enum { COPIES_BOTH = 4 };

/* Bytes a second of copies both ways together, and the part of them that goes to the device; beside @kernels. */
static bool measure_both(Bench *b, unsigned kernels, EchFigure *ret_rate, EchFigure *ret_share, GError **error)
{
    double rates[REPEATS], shares[REPEATS], ends[2][MOST_EVENTS];
    const EchBytes bytes = b->host_bytes;
    const CopyShape shapes[2] = {{bytes, false, false}, {bytes, true, false}};
    for (unsigned r = 0; r < REPEATS; r++) {
        if (!run_pair(b, shapes, COPIES_BOTH, kernels, ends, error))
            return false;
        /* Until the first of the two queues is done both always run; the other's last copy counts in part. */
        unsigned slow = ends[0][COPIES_BOTH - 1] < ends[1][COPIES_BOTH - 1] ? 1 : 0;
        double window = ends[1 - slow][COPIES_BOTH - 1], moved = COPIES_BOTH;
        for (unsigned i = 0; i < COPIES_BOTH; i++) {
            double begin = i > 0 ? ends[slow][i - 1] : 0;
            if (ends[slow][i] <= window)
                moved += 1;
            else if (begin < window)
                moved += (window - begin) / (ends[slow][i] - begin);
        }
        rates[r] = window > 0 ? moved * (double)bytes / window * 1e9 : 0;
        shares[r] = (slow == 0 ? moved - COPIES_BOTH : COPIES_BOTH) / moved;
    }
    *ret_share = ech_bench_figure(shares, REPEATS);
    *ret_rate = ech_bench_figure(rates, REPEATS);
    return true;
}

bool ech_calibrate_both_ways(Bench *b, GError **error)
{
    return measure_both(b, 0, &b->result->both_ways, &b->result->both_share, error);
}

/* Two copies of one direction in two queues: side by side they end together, one after the other they do not. */
bool ech_calibrate_engines(Bench *b, GError **error)
{
    double ends[2][MOST_EVENTS];
    for (unsigned from = 0; from < 2; from++) {
        const CopyShape shapes[2] = {{b->host_bytes / 2, from, false}, {b->host_bytes / 2, from, false}};
        if (!run_pair(b, shapes, 1, 0, ends, error))
            return false;
        double first = MIN(ends[0][0], ends[1][0]), second = MAX(ends[0][0], ends[1][0]);
        b->result->engines[from] = first > 0.75 * second ? 2 : 1;
    }
    return true;
}

enum { MOST_BESIDE = 200 }; /* Kernels, or copies */

/* A queue of @kernels that read beside a queue of @copies: how long each took, both begun by one event. */
static bool run_beside(Bench *b, unsigned kernels, const CopyShape *copy, unsigned copies, double ret_ns[2], GError **error)
{
    const StreamShape reads = {b->half / 16, 0, false};
    if (!ech_bench_head_start(b, kernels + copies, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) ||
        !CU(b, stream_wait, "starting together", error, b->streams[1], b->events[0][0], 0))
        return false;
    for (unsigned i = 0; i < copies; i++) {
        if (!ech_bench_issue_copy(b, b->streams[1], copy, error))
            return false;
    }
    for (unsigned i = 0; i < kernels; i++) {
        if (!ech_bench_issue_stream(b, b->streams[0], &reads, error))
            return false;
    }
    for (unsigned s = 0; s < 2; s++) {
        if (!CU(b, event_record, "recording an event", error, b->events[s][1], b->streams[s]))
            return false;
    }
    for (unsigned s = 0; s < 2; s++) {
        if (!CU(b, stream_synchronize, "waiting for a queue", error, b->streams[s]) ||
            !ech_bench_elapsed(b, b->events[0][0], b->events[s][1], &ret_ns[s], error))
            return false;
    }
    return true;
}

/* Of queue @which, alone and beside one that lasts longer. */
static bool time_beside(Bench *b, unsigned which, const unsigned alone[2], const unsigned beside[2], const CopyShape *copy, EchFigure *ret, GError **error)
{
    double times[2][REPEATS], both[2];
    for (unsigned r = 0; r < REPEATS; r++) {
        if (!run_beside(b, alone[0], copy, alone[1], both, error))
            return false;
        times[0][r] = both[which];
        if (!run_beside(b, beside[0], copy, beside[1], both, error))
            return false;
        times[1][r] = both[which];
    }
    EchFigure before = ech_bench_figure(times[0], REPEATS), slowed = ech_bench_figure(times[1], REPEATS);
    *ret = (EchFigure){.median = slowed.median > 0 ? before.median / slowed.median : 0, .spread = slowed.spread, .n = slowed.n};
    return true;
}

/* Copies both ways beside kernels that last half as long again. */
static bool time_both_beside(Bench *b, double kernel_ns, GError **error)
{
    EchCalibration *r = b->result;
    EchFigure beside;
    if (!(r->both_ways.median > 0))
        return true;
    double copies_ns = 2 * COPIES_BOTH * (double)b->host_bytes / r->both_ways.median * 1e9;
    unsigned kernels = (unsigned)CLAMP(1.5 * copies_ns / MAX(kernel_ns, 1) + 1, 2, 3 * MOST_BESIDE);
    if (!measure_both(b, kernels, &beside, &r->both_beside_share, error))
        return false;
    r->both_beside = (EchFigure){.median = beside.median / r->both_ways.median, .spread = beside.spread, .n = beside.n};
    return true;
}

/* Kernels beside copies each way, and copies each way beside kernels. */
bool ech_calibrate_interference(Bench *b, GError **error)
{
    enum { KERNELS = 24, COPIES = 4 };
    double kernel_ns = (double)b->half / MAX(b->result->read.median, 1) * 1e9;
    for (unsigned way = 0; way < 2; way++) {
        const CopyShape copy = {b->host_bytes / 2, way > 0, false};
        double copy_ns = (double)copy.bytes / MAX(b->result->pinned[way].rate, 1) * 1e9;
        unsigned copies = (unsigned)CLAMP(2 * KERNELS * kernel_ns / MAX(copy_ns, 1) + 1, 2, MOST_BESIDE);
        unsigned kernels = (unsigned)CLAMP(2 * COPIES * copy_ns / MAX(kernel_ns, 1) + 1, 2, MOST_BESIDE);
        if (!time_beside(b, 0, (const unsigned[]){KERNELS, 0}, (const unsigned[]){KERNELS, copies}, &copy, &b->result->beside_copies[way], error) ||
            !time_beside(b, 1, (const unsigned[]){0, COPIES}, (const unsigned[]){kernels, COPIES}, &copy, &b->result->copies_beside[way], error))
            return false;
    }
    return time_both_beside(b, kernel_ns, error);
}
