/* Times what is issued on a GPU that is kept busy, so that no queue ever waits for the host. */
#include "sim/experiment/calibrate_private.h"

#include "sim/base/compare.h"

#include <stdlib.h>
#include <time.h>

void ech_bench_note_failure(Bench *b, const char *what, const GError *error)
{
    char *all = g_strdup_printf("%s%s: %s\n", b->result->failures, what, error ? error->message : "failed");
    g_free(b->result->failures);
    b->result->failures = all;
}

EchFigure ech_bench_figure(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, ech_compare_double);
    double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    double spread = (values[n - 1 - n / 4] - values[n / 4]) / 2;
    return (EchFigure){.median = median, .spread = median > 0 ? spread / median : 0, .n = n};
}

double ech_bench_host_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

bool ech_bench_launch(Bench *b, EchCuFunction function, unsigned blocks, unsigned threads, EchCuStream stream, void **parameters, GError **error)
{
    return CU(b, launch, "launching a kernel", error, function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}

static bool spin(Bench *b, uint64_t nanoseconds, EchCuStream stream, GError **error)
{
    void *parameters[] = {&nanoseconds};
    return ech_bench_launch(b, b->spin, 1, 1, stream, parameters, error);
}

bool ech_bench_occupy(Bench *b, EchCuStream stream, unsigned calls, GError **error)
{
    return spin(b, (100000 + (uint64_t)calls * 10000) * b->patience, stream, error);
}

/* Keeps queue 0 busy while @calls driver calls are made behind it, so that it never waits for the host. */
bool ech_bench_head_start(Bench *b, unsigned calls, GError **error)
{
    return ech_bench_occupy(b, b->streams[0], calls, error);
}

/* Whether the first event behind the head start was still ahead of the GPU when everything had been issued. Where it was not, queues may have waited for the
 * host, whose calls take longer than most: it gets a longer head start from now on, and @ret_again says that it is worth another try. */
static bool was_ahead(Bench *b, bool *ret_again, GError **error)
{
    enum { MOST_PATIENCE = 64 };
    EchCuResult state = b->cu->event_query(b->events[0][0]);
    *ret_again = false;
    if (state == ECH_CU_ERROR_NOT_READY)
        return true;
    if (!ech_cuda_check(b->cu, state, "cuEventQuery", "looking whether the GPU waited", error))
        return false;
    if (b->patience >= MOST_PATIENCE) {
        b->late++;
        return true;
    }
    b->patience *= 4;
    *ret_again = true;
    return CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]);
}

bool ech_bench_elapsed(Bench *b, EchCuEvent begin, EchCuEvent end, double *ret_ns, GError **error)
{
    float ms = 0;
    if (!CU(b, event_elapsed, "reading a time", error, &ms, begin, end))
        return false;
    *ret_ns = (double)ms * 1e6;
    return true;
}

/* Copies of pageable memory: while they are issued time passes on the GPU, and that is how long they take. */
static bool makes_the_host_wait(Issue issue, const void *data)
{
    return issue == ech_bench_issue_copy && ((const CopyShape *)data)->pageable;
}

/* Times @n instances one after the other in a busy queue, each between two events, the cost of the events taken off. Two more before them warm up. */
bool ech_bench_time_each(Bench *b, Issue issue, const void *data, unsigned n, EchFigure *ret, GError **error)
{
    double times[MOST_EVENTS];
    g_assert(n + 3 <= MOST_EVENTS);
    /* The first of a kind loads its code, which can take the host longer than the head start lasts. */
    if (issue && (!issue(b, b->streams[0], data, error) || !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0])))
        return false;
    for (bool again = true; again;) {
        if (!ech_bench_head_start(b, 2 * n + 6, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]))
            return false;
        for (unsigned i = 0; i < n + 2; i++) {
            if ((issue && !issue(b, b->streams[0], data, error)) || !CU(b, event_record, "recording an event", error, b->events[0][i + 1], b->streams[0]))
                return false;
        }
        again = false;
        if (!makes_the_host_wait(issue, data) && !was_ahead(b, &again, error))
            return false;
    }
    ech_gpu_watch_look(b->watch, b->state); /* It is busy */
    if (!CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (!ech_bench_elapsed(b, b->events[0][i + 2], b->events[0][i + 3], &times[i], error))
            return false;
        if (issue)
            times[i] = MAX(times[i] - b->result->event.median, 0);
    }
    *ret = ech_bench_figure(times, n);
    return true;
}

/* Times @batch instances together, several times: nanoseconds of one. */
bool ech_bench_time_batch(Bench *b, Issue issue, const void *data, unsigned batch, EchFigure *ret, GError **error)
{
    double times[REPEATS];
    if (!issue(b, b->streams[0], data, error) || !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]))
        return false;
    for (unsigned r = 0; r < REPEATS; r++) {
        for (bool again = true; again;) {
            if (!ech_bench_head_start(b, batch, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]))
                return false;
            for (unsigned i = 0; i < batch; i++) {
                if (!issue(b, b->streams[0], data, error))
                    return false;
            }
            if (!was_ahead(b, &again, error))
                return false;
        }
        if (!CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) ||
            !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]) ||
            !ech_bench_elapsed(b, b->events[0][0], b->events[0][1], &times[r], error))
            return false;
        times[r] = MAX(times[r] - b->result->event.median, 0) / batch;
    }
    *ret = ech_bench_figure(times, REPEATS);
    return true;
}

/* Not the spinning kernel: reading its clock takes time. */
bool ech_bench_issue_empty(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    (void)data;
    EchCuPointer nowhere = 0;
    uint64_t none = 0;
    void *parameters[] = {&nowhere, &nowhere, &none, &none, &nowhere};
    return ech_bench_launch(b, b->stream_kernel, 1, 32, stream, parameters, error);
}

EchBytes ech_bench_next_place(Bench *b, EchBytes bytes)
{
    EchBytes at = b->cursor + bytes > b->half ? 0 : b->cursor;
    b->cursor = at + ech_round_up(bytes, 256);
    return at;
}

bool ech_bench_issue_stream(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    StreamShape shape = *(const StreamShape *)data;
    EchCuPointer source = b->a + (shape.moves ? ech_bench_next_place(b, shape.reads * 16) : 0);
    void *parameters[] = {&source, &b->b, &shape.reads, &shape.writes, &b->sink};
    return ech_bench_launch(b, b->stream_kernel, (unsigned)b->gpu.multiprocessors * 8, 512, stream, parameters, error);
}

bool ech_bench_issue_copy(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    const CopyShape *shape = data;
    char *host = shape->pageable ? b->pageable : b->pinned[shape->from];
    /* The host's processor copies pageable memory, and finds in its cache what it has just copied; programs have it copy what it has not. */
    if (shape->pageable && shape->bytes <= b->host_bytes / 2) {
        b->host_cursor = b->host_cursor + shape->bytes > b->host_bytes ? 0 : b->host_cursor;
        host += b->host_cursor;
        b->host_cursor += ech_round_up(shape->bytes, 4096);
    }
    /* Neither from what a kernel reads beside it nor from where another copy writes. */
    if (shape->from)
        return CU(b, copy_from_device, "copying from the device", error, host, b->b + (b->half - shape->bytes), shape->bytes, stream);
    return CU(b, copy_to_device, "copying to the device", error, b->b, host, shape->bytes, stream);
}
