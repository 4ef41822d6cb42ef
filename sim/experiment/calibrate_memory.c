/* Device memory and cache: bandwidth by pattern and size, latency. */
#include "sim/experiment/calibrate_private.h"

typedef struct {
    uint64_t mask, stride, reads; /* stride 0: random places */
} GatherShape;

static bool issue_gather(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    GatherShape shape = *(const GatherShape *)data;
    unsigned blocks = (unsigned)b->gpu.multiprocessors * 8;
    if (shape.stride == 0) {
        void *parameters[] = {&b->a, &shape.mask, &shape.reads, &b->sink};
        return ech_bench_launch(b, b->random, blocks, 256, stream, parameters, error);
    }
    void *parameters[] = {&b->a, &shape.mask, &shape.stride, &shape.reads, &b->sink};
    return ech_bench_launch(b, b->strided, blocks, 256, stream, parameters, error);
}

static bool issue_chase(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    uint64_t steps = *(const uint64_t *)data;
    void *parameters[] = {&b->b, &steps, &b->sink};
    return ech_bench_launch(b, b->chase, 1, 1, stream, parameters, error);
}

static bool issue_copy_on_device(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    (void)data;
    return CU(b, copy_on_device, "copying on the device", error, b->b, b->a, b->half, stream);
}

bool ech_calibrate_memory(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    uint64_t words = b->half / 16;
    double bytes = (double)b->half, launch = r->alone.median;
    const StreamShape reads = {words, 0, false}, writes = {0, words, false}, both = {words, words, false};
    const GatherShape strided = {words - 1, 4, words / 4}, random = {words - 1, 0, words / 4};
    EchFigure time;
    if (!ech_bench_time_each(b, ech_bench_issue_stream, &reads, REPEATS, &time, error))
        return false;
    r->read = ech_calibration_rate(time, bytes, launch);
    if (!ech_bench_time_each(b, ech_bench_issue_stream, &writes, REPEATS, &time, error))
        return false;
    r->write = ech_calibration_rate(time, bytes, launch);
    if (!ech_bench_time_each(b, ech_bench_issue_stream, &both, REPEATS, &time, error))
        return false;
    r->both = ech_calibration_rate(time, 2 * bytes, launch);
    if (!ech_bench_time_each(b, issue_gather, &strided, REPEATS, &time, error))
        return false;
    r->strided = ech_calibration_rate(time, bytes / 4, launch);
    if (!ech_bench_time_each(b, issue_gather, &random, REPEATS, &time, error))
        return false;
    r->random = ech_calibration_rate(time, bytes / 4, launch);
    if (!ech_bench_time_each(b, issue_copy_on_device, NULL, REPEATS, &time, error))
        return false;
    r->copy_on_device = ech_calibration_rate(time, bytes, launch);
    return true;
}

/* Kernels of every size, one behind the other as programs have them, each reading what none of those just before it has read. */
bool ech_calibrate_streams(Bench *b, GError **error)
{
    EchCopyCurve *curve = &b->result->stream;
    for (EchBytes bytes = 1 << 10; bytes <= b->half / 4 && curve->n < ECH_CALIBRATE_MOST_SIZES; bytes *= bytes < 1 << 18 ? 4 : 2) {
        const StreamShape shape = {bytes / 16, 0, true};
        double once = b->result->launch.median + (double)bytes / MAX(b->result->read.median, 1) * 1e9;
        if (!ech_bench_time_batch(b, ech_bench_issue_stream, &shape, (unsigned)CLAMP(4e6 / MAX(once, 1), 16, 100), &curve->time[curve->n], error))
            return false;
        curve->bytes[curve->n++] = bytes;
    }
    return true;
}

/* Largest power of two of bytes that lies well inside the second-level cache: on GPUs whose cache has two partitions, in the near one. */
static EchBytes cache_bytes(const Bench *b)
{
    EchBytes bytes = 1 << 18;
    while (bytes * 2 <= (EchBytes)MAX(b->gpu.l2_bytes, 0) / 4)
        bytes *= 2;
    return MIN(bytes, b->half);
}

bool ech_calibrate_cache(Bench *b, GError **error)
{
    if (b->gpu.l2_bytes <= 0)
        return true;
    uint64_t words = cache_bytes(b) / 16, reads = MAX(b->half / 16, words);
    const GatherShape shape = {words - 1, 1, reads};
    EchFigure time;
    if (!ech_bench_time_each(b, issue_gather, &shape, REPEATS, &time, error))
        return false;
    b->result->l2_read = ech_calibration_rate(time, (double)reads * 16, b->result->alone.median);
    return true;
}

/* A chain through @bytes in steps of a cache line, in an order that no prefetcher guesses: a linear congruence of full period. Every run goes on where the one
 * before ended. @far: nothing of it is in the cache to begin with; else the first run goes over all of it. */
static bool time_chain(Bench *b, EchBytes bytes, bool far, EchFigure *ret, GError **error)
{
    uint32_t *chain = b->pageable;
    uint64_t lines = bytes / 128, steps = far ? MIN(20000, lines / 10) : lines;
    const StreamShape flush = {b->half / 16, 0, false};
    for (uint64_t at = 0; at < lines; at++)
        chain[at * 32] = (uint32_t)(((at * UINT64_C(1664525) + UINT64_C(1013904223)) & (lines - 1)) * 32);
    if (!CU(b, fill, "starting a chain", error, b->sink, 0, 1, b->streams[0]) ||
        !CU(b, copy_to_device, "copying a chain to the device", error, b->b, chain, bytes, b->streams[0]) ||
        (far && !ech_bench_issue_stream(b, b->streams[0], &flush, error)) || !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]) ||
        !ech_bench_time_each(b, issue_chase, &steps, 5, ret, error))
        return false;
    ret->median = MAX(ret->median - b->result->alone.median, 0) / (double)steps;
    return true;
}

bool ech_calibrate_latency(Bench *b, GError **error)
{
    EchBytes far = MIN(MIN(b->host_bytes, b->half), (EchBytes)1 << 30);
    if (far > 2 * (EchBytes)MAX(b->gpu.l2_bytes, 0) && !time_chain(b, far, true, &b->result->latency, error))
        return false;
    return b->gpu.l2_bytes <= 0 || time_chain(b, MIN(cache_bytes(b), far), false, &b->result->l2_latency, error);
}
