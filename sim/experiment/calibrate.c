/* Measurements of a GPU through the driver table. All device times come from events, all host times from the monotonic clock. */
#include "sim/experiment/calibrate.h"

#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/replay/cuda_blas.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 11, MOST_EVENTS = 64 };
#define SETTLE_SECONDS 0.03

/* Everything held while measuring; tear_down gives it back whatever was reached. */
typedef struct {
    const EchCuDriver *cu;
    EchCuGpu gpu;
    EchCuModule module;
    EchCuFunction stream_kernel, strided, random, chase, fma, fma64, exponential, mma, spin, noise;
    EchCuStream streams[2];
    EchCuEvent events[2][MOST_EVENTS];
    EchCuPointer a, b, sink; /* Two halves of the device memory in use */
    EchBytes half;           /* Bytes of each, a power of two */
    EchBytes cursor;         /* Where the next streaming kernel reads, if it is one of many: not what the cache holds */
    void *pinned[2], *pageable;
    EchBytes host_bytes; /* Of each, a power of two */
    const EchCuBlas *blas;
    EchCuBlasHandle handle;
    EchCuPointer workspace;
    size_t workspace_bytes;
    uint64_t patience; /* Times the usual head start */
    unsigned late;     /* Measurements that it was too short for all the same */
    EchCalibration *result;
} Bench;

#define CU(b, member, what, error, ...) ech_cuda_check((b)->cu, (b)->cu->member(__VA_ARGS__), #member, what, error)

void ech_calibration_free(EchCalibration *calibration)
{
    if (!calibration)
        return;
    g_free(calibration->gpu);
    g_free(calibration->uuid);
    g_free(calibration->failures);
    g_free(calibration);
}

static void note_failure(Bench *b, const char *what, const GError *error)
{
    char *all = g_strdup_printf("%s%s: %s\n", b->result->failures, what, error ? error->message : "failed");
    g_free(b->result->failures);
    b->result->failures = all;
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static EchFigure figure_of(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, by_value);
    double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    double spread = (values[n - 1 - n / 4] - values[n / 4]) / 2;
    return (EchFigure){.median = median, .spread = median > 0 ? spread / median : 0, .n = n};
}

static double host_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- timing ---- */

/* Issues one instance of what is timed. */
typedef bool (*Issue)(Bench *b, EchCuStream stream, const void *data, GError **error);

static bool launch(Bench *b, EchCuFunction function, unsigned blocks, unsigned threads, EchCuStream stream, void **parameters, GError **error)
{
    return CU(b, launch, "launching a kernel", error, function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}

static bool spin(Bench *b, uint64_t nanoseconds, EchCuStream stream, GError **error)
{
    void *parameters[] = {&nanoseconds};
    return launch(b, b->spin, 1, 1, stream, parameters, error);
}

/* Keeps queue 0 busy while @calls driver calls are made behind it, so that it never waits for the host. */
static bool head_start(Bench *b, unsigned calls, GError **error)
{
    return spin(b, (100000 + (uint64_t)calls * 10000) * b->patience, b->streams[0], error);
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

static bool elapsed(Bench *b, EchCuEvent begin, EchCuEvent end, double *ret_ns, GError **error)
{
    float ms = 0;
    if (!CU(b, event_elapsed, "reading a time", error, &ms, begin, end))
        return false;
    *ret_ns = (double)ms * 1e6;
    return true;
}

static bool makes_the_host_wait(Issue issue, const void *data);

/* Times @n instances one after the other in a busy queue, each between two events, the cost of the events taken off. Two more before them warm up. */
static bool time_each(Bench *b, Issue issue, const void *data, unsigned n, EchFigure *ret, GError **error)
{
    double times[MOST_EVENTS];
    g_assert(n + 3 <= MOST_EVENTS);
    /* The first of a kind loads its code, which can take the host longer than the head start lasts. */
    if (issue && (!issue(b, b->streams[0], data, error) || !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0])))
        return false;
    for (bool again = true; again;) {
        if (!head_start(b, 2 * n + 6, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]))
            return false;
        for (unsigned i = 0; i < n + 2; i++) {
            if ((issue && !issue(b, b->streams[0], data, error)) || !CU(b, event_record, "recording an event", error, b->events[0][i + 1], b->streams[0]))
                return false;
        }
        again = false;
        if (!makes_the_host_wait(issue, data) && !was_ahead(b, &again, error))
            return false;
    }
    if (!CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (!elapsed(b, b->events[0][i + 2], b->events[0][i + 3], &times[i], error))
            return false;
        if (issue)
            times[i] = MAX(times[i] - b->result->event.median, 0);
    }
    *ret = figure_of(times, n);
    return true;
}

/* Times @batch instances together, several times: nanoseconds of one. */
static bool time_batch(Bench *b, Issue issue, const void *data, unsigned batch, EchFigure *ret, GError **error)
{
    double times[REPEATS];
    if (!issue(b, b->streams[0], data, error) || !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]))
        return false;
    for (unsigned r = 0; r < REPEATS; r++) {
        for (bool again = true; again;) {
            if (!head_start(b, batch, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]))
                return false;
            for (unsigned i = 0; i < batch; i++) {
                if (!issue(b, b->streams[0], data, error))
                    return false;
            }
            if (!was_ahead(b, &again, error))
                return false;
        }
        if (!CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) ||
            !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]) || !elapsed(b, b->events[0][0], b->events[0][1], &times[r], error))
            return false;
        times[r] = MAX(times[r] - b->result->event.median, 0) / batch;
    }
    *ret = figure_of(times, REPEATS);
    return true;
}

/* ---- what is issued ---- */

/* Not the spinning kernel: reading its clock takes time. */
static bool issue_empty(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    (void)data;
    EchCuPointer nowhere = 0;
    uint64_t none = 0;
    void *parameters[] = {&nowhere, &nowhere, &none, &none, &nowhere};
    return launch(b, b->stream_kernel, 1, 32, stream, parameters, error);
}

typedef struct {
    uint64_t reads, writes; /* 16-byte words */
    bool moves;             /* From where the one before ended */
} StreamShape;

static bool issue_stream(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    StreamShape shape = *(const StreamShape *)data;
    if (!shape.moves || b->cursor + shape.reads * 16 > b->half)
        b->cursor = 0;
    EchCuPointer source = b->a + b->cursor;
    b->cursor += shape.moves ? shape.reads * 16 : 0;
    void *parameters[] = {&source, &b->b, &shape.reads, &shape.writes, &b->sink};
    return launch(b, b->stream_kernel, (unsigned)b->gpu.multiprocessors * 8, 512, stream, parameters, error);
}

typedef struct {
    uint64_t mask, stride, reads; /* stride 0: random places */
} GatherShape;

static bool issue_gather(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    GatherShape shape = *(const GatherShape *)data;
    unsigned blocks = (unsigned)b->gpu.multiprocessors * 8;
    if (shape.stride == 0) {
        void *parameters[] = {&b->a, &shape.mask, &shape.reads, &b->sink};
        return launch(b, b->random, blocks, 256, stream, parameters, error);
    }
    void *parameters[] = {&b->a, &shape.mask, &shape.stride, &shape.reads, &b->sink};
    return launch(b, b->strided, blocks, 256, stream, parameters, error);
}

static bool issue_chase(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    uint64_t steps = *(const uint64_t *)data;
    void *parameters[] = {&b->b, &steps, &b->sink};
    return launch(b, b->chase, 1, 1, stream, parameters, error);
}

typedef struct {
    EchCuFunction function;
    uint64_t rounds;
    bool wide; /* float64 factor; no factor at all where the kernel takes none */
    bool plain;
} BurnShape;

static bool issue_burn(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    BurnShape shape = *(const BurnShape *)data;
    float narrow = 0.999F;
    double wide = 0.999;
    void *with[] = {&shape.rounds, shape.wide ? (void *)&wide : (void *)&narrow, &b->sink}, *without[] = {&shape.rounds, &b->sink};
    return launch(b, shape.function, (unsigned)b->gpu.multiprocessors * 4, 256, stream, shape.plain ? without : with, error);
}

static bool issue_gemm(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    return ech_cuda_gemm_issue(b->blas, b->handle, data, b->a, b->b, b->workspace, b->workspace_bytes, stream, error);
}

typedef struct {
    EchBytes bytes;
    bool from, pageable;
} CopyShape;

static bool issue_copy(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    const CopyShape *shape = data;
    void *host = shape->pageable ? b->pageable : b->pinned[shape->from];
    if (shape->from)
        return CU(b, copy_from_device, "copying from the device", error, host, b->b, shape->bytes, stream);
    return CU(b, copy_to_device, "copying to the device", error, b->a, host, shape->bytes, stream);
}

/* Copies of pageable memory: while they are issued time passes on the GPU, and that is how long they take. */
static bool makes_the_host_wait(Issue issue, const void *data)
{
    return issue == issue_copy && ((const CopyShape *)data)->pageable;
}

static bool issue_copy_on_device(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    (void)data;
    return CU(b, copy_on_device, "copying on the device", error, b->b, b->a, b->half, stream);
}

/* ---- steps ---- */

static bool measure_launches(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    double submits[REPEATS], waits[REPEATS];
    if (!time_each(b, NULL, NULL, 40, &r->event, error) || !time_each(b, issue_empty, NULL, 40, &r->alone, error) ||
        !time_batch(b, issue_empty, NULL, 200, &r->launch, error))
        return false;
    for (unsigned i = 0; i < REPEATS; i++) {
        double begin = host_ns();
        for (unsigned k = 0; k < 50; k++) {
            if (!issue_empty(b, b->streams[0], NULL, error))
                return false;
        }
        submits[i] = (host_ns() - begin) / 50;
        if (!CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]))
            return false;
        begin = host_ns();
        if (!CU(b, stream_synchronize, "waiting for an idle queue", error, b->streams[0]))
            return false;
        waits[i] = host_ns() - begin;
    }
    r->submit = figure_of(submits, REPEATS);
    r->synchronize = figure_of(waits, REPEATS);
    return true;
}

static bool measure_graph(Bench *b, GError **error)
{
    enum { NODES = 200 };
    EchCuGraph graph = NULL;
    EchCuGraphExec exec = NULL;
    double times[REPEATS];
    bool ok = CU(b, capture_begin, "capturing a graph", error, b->streams[0], ECH_CU_CAPTURE_RELAXED);
    bool capturing = ok;
    for (unsigned i = 0; ok && i < NODES; i++)
        ok = issue_empty(b, b->streams[0], NULL, error);
    if (capturing) {
        EchCuResult ended = b->cu->capture_end(b->streams[0], &graph);
        ok = ok && ech_cuda_check(b->cu, ended, "cuStreamEndCapture", "capturing a graph", error);
    }
    ok = ok && CU(b, graph_instantiate, "making a graph", error, &exec, graph, 0);
    for (unsigned i = 0; ok && i < REPEATS + 1; i++) {
        double time = 0;
        ok = head_start(b, NODES, error) && CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) &&
             CU(b, graph_launch, "launching a graph", error, exec, b->streams[0]) &&
             CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) &&
             CU(b, stream_synchronize, "waiting for a graph", error, b->streams[0]) && elapsed(b, b->events[0][0], b->events[0][1], &time, error);
        if (i > 0)
            times[i - 1] = MAX(time - b->result->event.median, 0) / NODES;
    }
    if (exec)
        b->cu->graph_exec_destroy(exec);
    if (graph)
        b->cu->graph_destroy(graph);
    if (ok)
        b->result->graph_launch = figure_of(times, REPEATS);
    return ok;
}

static bool measure_allocations(Bench *b, GError **error)
{
    double take[REPEATS], give[REPEATS], take_async[REPEATS], give_async[REPEATS], pin[REPEATS];
    const EchBytes bytes = 2 << 20;
    for (unsigned i = 0; i < REPEATS; i++) {
        EchCuPointer pointer = 0;
        void *host = NULL;
        double begin = host_ns();
        if (!CU(b, allocate, "allocating", error, &pointer, bytes))
            return false;
        take[i] = host_ns() - begin;
        begin = host_ns();
        if (!CU(b, release, "freeing", error, pointer))
            return false;
        give[i] = host_ns() - begin;
        if (b->gpu.has_pools) {
            begin = host_ns();
            if (!CU(b, allocate_async, "allocating from the pool", error, &pointer, bytes, b->streams[0]))
                return false;
            take_async[i] = host_ns() - begin;
            begin = host_ns();
            if (!CU(b, release_async, "freeing to the pool", error, pointer, b->streams[0]))
                return false;
            give_async[i] = host_ns() - begin;
        }
        begin = host_ns();
        if (!CU(b, host_allocate, "pinning memory", error, &host, 1 << 20, 0))
            return false;
        pin[i] = host_ns() - begin;
        if (!CU(b, host_release, "unpinning memory", error, host))
            return false;
    }
    EchCalibration *r = b->result;
    r->malloc = figure_of(take, REPEATS);
    r->free = figure_of(give, REPEATS);
    r->pin = figure_of(pin, REPEATS);
    if (b->gpu.has_pools) {
        r->malloc_async = figure_of(take_async, REPEATS);
        r->free_async = figure_of(give_async, REPEATS);
    }
    return true;
}

/* Device memory that @n buffers of @bytes take. */
static bool taken_by(Bench *b, EchBytes bytes, unsigned n, EchBytes *ret, GError **error)
{
    enum { MOST = 16 };
    EchCuPointer pointers[MOST];
    size_t before = 0, after = 0, total;
    unsigned made = 0;
    g_assert(n <= MOST);
    bool ok = CU(b, memory_info, "asking for free memory", error, &before, &total);
    while (ok && made < n) {
        ok = CU(b, allocate, "allocating", error, &pointers[made], bytes);
        made += ok;
    }
    ok = ok && CU(b, memory_info, "asking for free memory", error, &after, &total);
    for (unsigned i = 0; i < made; i++) {
        EchCuResult result = b->cu->release(pointers[i]);
        ok = ok && ech_cuda_check(b->cu, result, "cuMemFree_v2", "freeing", error);
    }
    *ret = before > after ? before - after : 0;
    return ok;
}

static bool measure_pool_growth(Bench *b, GError **error)
{
    EchCuPool pool;
    EchCuPointer pointer = 0;
    uint64_t reserved = 0;
    if (!CU(b, default_pool, "finding the memory pool", error, &pool, b->gpu.device) || !CU(b, stream_synchronize, "waiting", error, b->streams[0]) ||
        !CU(b, pool_trim, "emptying the memory pool", error, pool, 0) ||
        !CU(b, allocate_async, "allocating from the pool", error, &pointer, 1024, b->streams[0]))
        return false;
    bool ok = CU(b, pool_get, "reading the memory pool", error, pool, ECH_CU_POOL_RESERVED_CURRENT, &reserved);
    EchCuResult freed = b->cu->release_async(pointer, b->streams[0]);
    b->result->pool_growth = reserved;
    return ok && ech_cuda_check(b->cu, freed, "cuMemFreeAsync", "freeing to the pool", error) && CU(b, stream_synchronize, "waiting", error, b->streams[0]) &&
           CU(b, pool_trim, "emptying the memory pool", error, pool, 0);
}

/* How the driver rounds, which nothing documents. */
static bool measure_pages(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    const EchBytes large = (EchBytes)4 << 20, small[] = {4096, 65536, 262144, 524288, 786432, 1048576, 1572864};
    EchBytes taken;
    /* What is being mapped for the first time may need tables of its own, which stay. */
    for (unsigned i = 0; i < 2; i++) {
        if (!taken_by(b, large + 1, 1, &taken, error))
            return false;
    }
    r->malloc_page = taken > large + 1 ? taken - large : 0;
    for (size_t i = 0; r->malloc_page > 0 && i < G_N_ELEMENTS(small) && small[i] < r->malloc_page; i++) {
        if (!taken_by(b, small[i], 8, &taken, error))
            return false;
        if (taken >= 8 * r->malloc_page)
            break;
        r->malloc_shared = small[i];
    }
    return !b->gpu.has_pools || measure_pool_growth(b, error);
}

static bool measure_curve(Bench *b, bool from, bool pageable, EchCopyCurve *curve, GError **error)
{
    for (EchBytes bytes = 1 << 10; bytes <= b->host_bytes && curve->n < ECH_CALIBRATE_MOST_SIZES; bytes *= bytes < 1 << 20 ? 4 : 2) {
        CopyShape shape = {bytes, from, pageable};
        unsigned n = bytes >= (EchBytes)64 << 20 ? 5 : REPEATS;
        if (!time_each(b, issue_copy, &shape, n, &curve->time[curve->n], error))
            return false;
        curve->bytes[curve->n++] = bytes;
    }
    /* The rate is what more bytes cost; what is left of the largest copy is its set-up. */
    size_t last = curve->n - 1, before = last >= 2 ? last - 2 : 0;
    double growth = curve->time[last].median - curve->time[before].median, more = (double)(curve->bytes[last] - curve->bytes[before]);
    double whole = curve->time[last].median;
    curve->rate = growth > 0 ? more / growth * 1e9 : (double)curve->bytes[last] / MAX(whole, 1) * 1e9;
    curve->setup = MAX(whole - (double)curve->bytes[last] / curve->rate * 1e9, 0);
    return true;
}

/* Issues @n copies on each queue, both begun by one event; ends of each, nanoseconds since that. */
static bool run_pair(Bench *b, const CopyShape shapes[2], unsigned n, double ends[2][MOST_EVENTS], GError **error)
{
    if (!head_start(b, 4 * n, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) ||
        !CU(b, stream_wait, "starting together", error, b->streams[1], b->events[0][0], 0))
        return false;
    for (unsigned i = 0; i < n; i++) {
        for (unsigned s = 0; s < 2; s++) {
            if (!issue_copy(b, b->streams[s], &shapes[s], error) || !CU(b, event_record, "recording an event", error, b->events[s][i + 1], b->streams[s]))
                return false;
        }
    }
    for (unsigned s = 0; s < 2; s++) {
        if (!CU(b, stream_synchronize, "waiting for copies", error, b->streams[s]))
            return false;
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned s = 0; s < 2; s++) {
            if (!elapsed(b, b->events[0][0], b->events[s][i + 1], &ends[s][i], error))
                return false;
        }
    }
    return true;
}

static bool measure_both_ways(Bench *b, GError **error)
{
    enum { COPIES = 4 };
    double rates[REPEATS], shares[REPEATS], ends[2][MOST_EVENTS];
    const EchBytes bytes = b->host_bytes;
    const CopyShape shapes[2] = {{bytes, false, false}, {bytes, true, false}};
    for (unsigned r = 0; r < REPEATS; r++) {
        if (!run_pair(b, shapes, COPIES, ends, error))
            return false;
        /* Until the first of the two queues is done both always run; the other's last copy counts in part. */
        unsigned slow = ends[0][COPIES - 1] < ends[1][COPIES - 1] ? 1 : 0;
        double window = ends[1 - slow][COPIES - 1], moved = COPIES;
        for (unsigned i = 0; i < COPIES; i++) {
            double begin = i > 0 ? ends[slow][i - 1] : 0;
            if (ends[slow][i] <= window)
                moved += 1;
            else if (begin < window)
                moved += (window - begin) / (ends[slow][i] - begin);
        }
        rates[r] = window > 0 ? moved * (double)bytes / window * 1e9 : 0;
        shares[r] = (slow == 0 ? moved - COPIES : COPIES) / moved;
    }
    b->result->both_share = figure_of(shares, REPEATS);
    b->result->both_ways = figure_of(rates, REPEATS);
    return true;
}

/* Two copies of one direction in two queues: side by side they end together, one after the other they do not. */
static bool measure_engines(Bench *b, GError **error)
{
    double ends[2][MOST_EVENTS];
    for (unsigned from = 0; from < 2; from++) {
        const CopyShape shapes[2] = {{b->host_bytes / 2, from, false}, {b->host_bytes / 2, from, false}};
        if (!run_pair(b, shapes, 1, ends, error))
            return false;
        double first = MIN(ends[0][0], ends[1][0]), second = MAX(ends[0][0], ends[1][0]);
        b->result->engines[from] = first > 0.75 * second ? 2 : 1;
    }
    return true;
}

static bool measure_memory(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    uint64_t words = b->half / 16;
    double bytes = (double)b->half, launch = r->alone.median;
    const StreamShape reads = {words, 0, false}, writes = {0, words, false}, both = {words, words, false};
    const GatherShape strided = {words - 1, 4, words / 4}, random = {words - 1, 0, words / 4};
    EchFigure time;
    if (!time_each(b, issue_stream, &reads, REPEATS, &time, error))
        return false;
    r->read = ech_calibration_rate(time, bytes, launch);
    if (!time_each(b, issue_stream, &writes, REPEATS, &time, error))
        return false;
    r->write = ech_calibration_rate(time, bytes, launch);
    if (!time_each(b, issue_stream, &both, REPEATS, &time, error))
        return false;
    r->both = ech_calibration_rate(time, 2 * bytes, launch);
    if (!time_each(b, issue_gather, &strided, REPEATS, &time, error))
        return false;
    r->strided = ech_calibration_rate(time, bytes / 4, launch);
    if (!time_each(b, issue_gather, &random, REPEATS, &time, error))
        return false;
    r->random = ech_calibration_rate(time, bytes / 4, launch);
    if (!time_each(b, issue_copy_on_device, NULL, REPEATS, &time, error))
        return false;
    r->copy_on_device = ech_calibration_rate(time, bytes, launch);
    return true;
}

/* Kernels of every size, each reading what none of those just before it has read. */
static bool measure_streams(Bench *b, GError **error)
{
    EchCopyCurve *curve = &b->result->stream;
    b->cursor = 0;
    for (EchBytes bytes = 64 << 10; bytes <= b->half / 4 && curve->n < ECH_CALIBRATE_MOST_SIZES; bytes *= 4) {
        const StreamShape shape = {bytes / 16, 0, true};
        if (!time_each(b, issue_stream, &shape, 40, &curve->time[curve->n], error))
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

static bool measure_cache(Bench *b, GError **error)
{
    if (b->gpu.l2_bytes <= 0)
        return true;
    uint64_t words = cache_bytes(b) / 16, reads = MAX(b->half / 16, words);
    const GatherShape shape = {words - 1, 1, reads};
    EchFigure time;
    if (!time_each(b, issue_gather, &shape, REPEATS, &time, error))
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
        (far && !issue_stream(b, b->streams[0], &flush, error)) || !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]) ||
        !time_each(b, issue_chase, &steps, 5, ret, error))
        return false;
    ret->median = MAX(ret->median - b->result->alone.median, 0) / (double)steps;
    return true;
}

static bool measure_latency(Bench *b, GError **error)
{
    EchBytes far = MIN(MIN(b->host_bytes, b->half), (EchBytes)1 << 30);
    if (far > 2 * (EchBytes)MAX(b->gpu.l2_bytes, 0) && !time_chain(b, far, true, &b->result->latency, error))
        return false;
    return b->gpu.l2_bytes <= 0 || time_chain(b, MIN(cache_bytes(b), far), false, &b->result->l2_latency, error);
}

/* Rounds of @operations a thread and round that take about a millisecond at two operations a lane and clock. */
static bool time_burn(Bench *b, BurnShape shape, double operations, double lanes, EchFigure *ret, GError **error)
{
    double threads = (double)b->gpu.multiprocessors * 4 * 256;
    double peak = (double)MAX(b->gpu.multiprocessors, 1) * lanes * (double)(b->gpu.clock_khz > 0 ? b->gpu.clock_khz : 1500000) * 1e3;
    shape.rounds = (uint64_t)MAX(peak * 1e-3 / (threads * operations), 16);
    EchFigure time;
    if (!time_each(b, issue_burn, &shape, REPEATS, &time, error))
        return false;
    *ret = ech_calibration_rate(time, threads * operations * (double)shape.rounds, b->result->alone.median);
    return true;
}

static bool measure_arithmetic(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    return time_burn(b, (BurnShape){.function = b->fma}, 32, 256, &r->f32, error) &&
           time_burn(b, (BurnShape){.function = b->fma64, .wide = true}, 32, 128, &r->f64, error) &&
           time_burn(b, (BurnShape){.function = b->exponential, .plain = true}, 16, 16, &r->exponential, error) &&
           time_burn(b, (BurnShape){.function = b->mma, .plain = true}, 16384.0 / 32, 4096, &r->tensor, error);
}

static const EchDtype matrix_dtypes[] = {ECH_DTYPE_BF16, ECH_DTYPE_F16, ECH_DTYPE_F32, ECH_DTYPE_F64, ECH_DTYPE_S8};

/* Clocks and power settle only under load: a large product first keeps the GPU busy for a while, timed by one that goes before (the first of all loads code).
 */
static bool time_gemm(Bench *b, EchDtype dtype, int edge, int inner, unsigned n, EchFigure *ret, GError **error)
{
    EchGemm gemm = {.dtype = (uint8_t)dtype, .known = true, .m = edge, .n = edge, .k = inner, .batch = 1, .times = 1};
    double once = 0;
    if (ech_cuda_gemm_operations(&gemm) > UINT64_C(20000000000)) {
        if (!issue_gemm(b, b->streams[0], &gemm, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) ||
            !issue_gemm(b, b->streams[0], &gemm, error) || !CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) ||
            !CU(b, stream_synchronize, "waiting for a product", error, b->streams[0]) || !elapsed(b, b->events[0][0], b->events[0][1], &once, error))
            return false;
        unsigned before = (unsigned)CLAMP(SETTLE_SECONDS * 1e9 / MAX(once, 1), 1, 500);
        for (unsigned i = 0; i < before; i++) {
            if (!issue_gemm(b, b->streams[0], &gemm, error))
                return false;
        }
    }
    return time_each(b, issue_gemm, &gemm, n, ret, error);
}

/* Whether a product of these sides has room. */
static bool fits(const Bench *b, EchDtype dtype, int side)
{
    EchGemm gemm = {.dtype = (uint8_t)dtype, .m = side, .n = side, .k = side, .batch = 1, .times = 1};
    EchBytes inputs, output;
    ech_cuda_gemm_bytes(&gemm, &inputs, &output);
    return MAX(inputs, output) <= b->half;
}

static bool measure_matrix(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    for (size_t i = 0; b->blas && i < G_N_ELEMENTS(matrix_dtypes); i++) {
        EchDtype dtype = matrix_dtypes[i];
        int edge = 128, most = dtype == ECH_DTYPE_F64 ? 4096 : 8192;
        while (edge < most && fits(b, dtype, edge + 128))
            edge += 128;
        EchFigure time;
        g_autoptr(GError) refused = NULL;
        /* A library without one of these types is no reason to have none. */
        if (!time_gemm(b, dtype, edge, edge, 7, &time, &refused)) {
            note_failure(b, ech_dtype_name(dtype), refused);
            continue;
        }
        r->matrix[i] = ech_calibration_gemm_rate(time, edge, edge, r->alone.median);
        if (dtype != ECH_DTYPE_BF16)
            continue;
        if (!time_gemm(b, dtype, edge - 1, edge - 1, 7, &time, error))
            return false;
        EchFigure odd = ech_calibration_gemm_rate(time, edge - 1, edge - 1, r->alone.median);
        r->unpadded = (EchFigure){.median = r->matrix[i].median > 0 ? odd.median / r->matrix[i].median : 0, .spread = odd.spread, .n = odd.n};
    }
    return true;
}

/* Products over a grid of sides, aligned and one less: tiles, waves and short inner loops all tell there. */
static bool measure_products(Bench *b, GError **error)
{
    static const struct {
        EchDtype dtype;
        bool odd;
    } kinds[ECH_CALIBRATE_PRODUCTS] = {{ECH_DTYPE_BF16, false}, {ECH_DTYPE_BF16, true}, {ECH_DTYPE_F32, false}, {ECH_DTYPE_F32, true}};
    for (size_t i = 0; b->blas && i < G_N_ELEMENTS(kinds); i++) {
        EchProductGrid *grid = &b->result->products[i];
        unsigned sides[ECH_CALIBRATE_SIDES];
        size_t n = 0;
        for (unsigned side = 128; side <= 8192 && fits(b, kinds[i].dtype, (int)side); side *= 2)
            sides[n++] = side - kinds[i].odd;
        for (size_t e = 0; e < n; e++) {
            for (size_t k = 0; k < n; k++) {
                double operations = 2.0 * sides[e] * sides[e] * sides[k];
                if (!time_gemm(b, kinds[i].dtype, (int)sides[e], (int)sides[k], operations > 1e11 ? 7 : REPEATS, &grid->time[e * n + k], error))
                    return false;
            }
        }
        grid->dtype = kinds[i].dtype;
        grid->odd = kinds[i].odd;
        memcpy(grid->sides, sides, sizeof sides);
        grid->n = n;
    }
    return true;
}

/* A queue of reading kernels alone, then beside a queue of copies that lasts longer. */
static bool measure_interference(Bench *b, GError **error)
{
    enum { KERNELS = 24 };
    const StreamShape reads = {b->half / 16, 0, false};
    const CopyShape copy = {b->host_bytes / 2, false, false};
    double times[2][REPEATS];
    double copy_ns = (double)copy.bytes / b->result->pinned[0].rate * 1e9, kernel_ns = (double)b->half / MAX(b->result->read.median, 1) * 1e9;
    unsigned copies = (unsigned)CLAMP(2 * KERNELS * kernel_ns / MAX(copy_ns, 1) + 1, 2, 200);
    for (unsigned beside = 0; beside < 2; beside++) {
        for (unsigned r = 0; r < REPEATS; r++) {
            if (!head_start(b, KERNELS + copies, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) ||
                !CU(b, stream_wait, "starting together", error, b->streams[1], b->events[0][0], 0))
                return false;
            for (unsigned i = 0; beside && i < copies; i++) {
                if (!CU(b, copy_to_device, "copying to the device", error, b->b, b->pinned[0], copy.bytes, b->streams[1]))
                    return false;
            }
            for (unsigned i = 0; i < KERNELS; i++) {
                if (!issue_stream(b, b->streams[0], &reads, error))
                    return false;
            }
            if (!CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) ||
                !CU(b, stream_synchronize, "waiting for kernels", error, b->streams[0]) ||
                !CU(b, stream_synchronize, "waiting for copies", error, b->streams[1]) ||
                !elapsed(b, b->events[0][0], b->events[0][1], &times[beside][r], error))
                return false;
        }
    }
    EchFigure alone = figure_of(times[0], REPEATS), beside = figure_of(times[1], REPEATS);
    b->result->beside_copies = (EchFigure){.median = beside.median > 0 ? alone.median / beside.median : 0, .spread = beside.spread, .n = beside.n};
    return true;
}

/* Clocks rise only under load. */
static bool warm_up(Bench *b, GError **error)
{
    const StreamShape both = {b->half / 16, b->half / 16, false};
    EchFigure ignored;
    for (unsigned i = 0; i < 4; i++) {
        if (!time_batch(b, issue_stream, &both, 20, &ignored, error))
            return false;
    }
    return true;
}

/* ---- set-up ---- */

static EchBytes power_below(EchBytes bytes)
{
    EchBytes power = 1 << 12;
    while (power * 2 <= bytes)
        power *= 2;
    return power;
}

static bool load_kernels(Bench *b, GError **error)
{
    const struct {
        const char *name;
        EchCuFunction *function;
    } kernels[] = {{"echelon_stream", &b->stream_kernel}, {"echelon_strided", &b->strided}, {"echelon_random", &b->random},
                   {"echelon_chase", &b->chase},          {"echelon_fma", &b->fma},         {"echelon_fma64", &b->fma64},
                   {"echelon_exp", &b->exponential},      {"echelon_mma", &b->mma},         {"echelon_spin", &b->spin},
                   {"echelon_noise", &b->noise}};
    if (!ech_cuda_load_kernels(b->cu, &b->module, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        if (!CU(b, module_function, "loading kernels", error, kernels[i].function, b->module, kernels[i].name))
            return false;
    }
    return true;
}

static bool make_noise(Bench *b, EchCuPointer target, GError **error)
{
    uint64_t words = b->half / 4;
    uint32_t seed = 7;
    void *parameters[] = {&target, &words, &seed};
    return launch(b, b->noise, (unsigned)b->gpu.multiprocessors * 8, 256, b->streams[0], parameters, error);
}

static bool set_up(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    size_t available, total;
    if (!CU(b, memory_info, "asking for free memory", error, &available, &total) || !load_kernels(b, error))
        return false;
    r->gpu = g_strdup(b->gpu.name);
    r->uuid = g_strdup(b->gpu.uuid);
    r->driver_version = b->gpu.driver_version;
    r->major = b->gpu.major;
    r->minor = b->gpu.minor;
    r->multiprocessors = b->gpu.multiprocessors;
    r->clock_khz = b->gpu.clock_khz;
    r->memory_clock_khz = b->gpu.memory_clock_khz;
    r->bus_bits = b->gpu.bus_bits;
    r->l2_bytes = b->gpu.l2_bytes;
    r->async_engines = b->gpu.async_engines;
    r->total = b->gpu.total_memory;
    r->available = available;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    r->host = pages > 0 && page > 0 ? (EchBytes)pages * (EchBytes)page : 0;
    b->half = MIN(power_below(available / 8), (EchBytes)2 << 30);
    if (available < (16 << 20)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s has only %zu bytes free; expected at least 16 MiB to measure in", b->gpu.name, available);
        return false;
    }
    b->host_bytes = MIN(b->half, (EchBytes)256 << 20);
    for (unsigned s = 0; s < 2; s++) {
        if (!CU(b, stream_create, "making a queue", error, &b->streams[s], ECH_CU_STREAM_NON_BLOCKING) ||
            !CU(b, host_allocate, "pinning memory", error, &b->pinned[s], b->host_bytes, 0))
            return false;
        for (unsigned i = 0; i < MOST_EVENTS; i++) {
            if (!CU(b, event_create, "making an event", error, &b->events[s][i], ECH_CU_EVENT_DEFAULT))
                return false;
        }
        memset(b->pinned[s], 1, b->host_bytes);
    }
    b->pageable = g_try_malloc(b->host_bytes);
    if (!b->pageable) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no %" G_GUINT64_FORMAT " bytes of host memory", b->host_bytes);
        return false;
    }
    memset(b->pageable, 1, b->host_bytes);
    b->blas = ech_cuda_blas(NULL);
    b->workspace_bytes = MIN((size_t)32 << 20, b->gpu.total_memory / 64 / 256 * 256);
    g_autoptr(GError) refused = NULL;
    if (b->blas && !ech_cuda_blas_check(b->blas->create(&b->handle), "cublasCreate_v2", "starting cuBLAS", &refused)) {
        note_failure(b, "cuBLAS", refused);
        b->blas = NULL;
        b->handle = NULL;
    }
    if (b->blas && (!ech_cuda_blas_check(b->blas->version(b->handle, &r->blas_version), "cublasGetVersion_v2", "starting cuBLAS", error) ||
                    !CU(b, allocate, "allocating cuBLAS's workspace", error, &b->workspace, b->workspace_bytes)))
        return false;
    return CU(b, allocate, "allocating", error, &b->a, b->half) && CU(b, allocate, "allocating", error, &b->b, b->half) &&
           CU(b, allocate, "allocating", error, &b->sink, 256) && make_noise(b, b->a, error) && make_noise(b, b->b, error) &&
           CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]);
}

static void tear_down(Bench *b)
{
    if (!b->gpu.context)
        return;
    b->cu->context_synchronize();
    if (b->handle)
        b->blas->destroy(b->handle);
    const EchCuPointer pointers[] = {b->workspace, b->a, b->b, b->sink};
    for (size_t i = 0; i < G_N_ELEMENTS(pointers); i++) {
        if (pointers[i])
            b->cu->release(pointers[i]);
    }
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned i = 0; i < MOST_EVENTS; i++) {
            if (b->events[s][i])
                b->cu->event_destroy(b->events[s][i]);
        }
        if (b->pinned[s])
            b->cu->host_release(b->pinned[s]);
        if (b->streams[s])
            b->cu->stream_destroy(b->streams[s]);
    }
    g_free(b->pageable);
    if (b->module)
        b->cu->module_unload(b->module);
    ech_cuda_close(b->cu, &b->gpu);
}

static bool measure_pinned(Bench *b, GError **error)
{
    return measure_curve(b, false, false, &b->result->pinned[0], error) && measure_curve(b, true, false, &b->result->pinned[1], error);
}

static bool measure_pageable(Bench *b, GError **error)
{
    return measure_curve(b, false, true, &b->result->pageable[0], error) && measure_curve(b, true, true, &b->result->pageable[1], error);
}

EchCalibration *ech_calibrate(uint64_t ordinal, EchCalibrateProgress progress, void *data, GError **error)
{
    static const struct {
        const char *what;
        bool (*measure)(Bench *b, GError **error);
        bool optional; /* A device file is worth having without it */
    } steps[] = {
        {"setting up", set_up, false},
        {"launches", measure_launches, false},
        {"warming up", warm_up, false},
        {"launches, warm", measure_launches, false},
        {"graphs", measure_graph, true},
        {"allocations", measure_allocations, true},
        {"pages", measure_pages, true},
        {"pinned copies", measure_pinned, false},
        {"pageable copies", measure_pageable, true},
        {"copies both ways", measure_both_ways, true},
        {"copy engines", measure_engines, true},
        {"device memory", measure_memory, false},
        {"streaming kernels", measure_streams, true},
        {"cache", measure_cache, true},
        {"latency", measure_latency, true},
        {"arithmetic", measure_arithmetic, false},
        {"matrix products", measure_matrix, true},
        {"matrix products by shape", measure_products, true},
        {"kernels beside copies", measure_interference, true},
    };
    g_autoptr(EchCalibration) result = g_new0(EchCalibration, 1);
    result->failures = g_strdup("");
    Bench b = {.cu = ech_cuda_driver(error), .patience = 1, .result = result};
    double begin = host_ns();
    if (!b.cu || !ech_cuda_open(b.cu, (int)MIN(ordinal, 1023), &b.gpu, error))
        return NULL;
    bool ok = true;
    for (unsigned i = 0; ok && i < G_N_ELEMENTS(steps); i++) {
        g_autoptr(GError) failure = NULL;
        if (progress)
            progress(i, G_N_ELEMENTS(steps), steps[i].what, data);
        ok = steps[i].measure(&b, &failure) || steps[i].optional;
        if (!ok)
            g_propagate_prefixed_error(error, g_steal_pointer(&failure), "%s: ", steps[i].what);
        else if (failure)
            note_failure(&b, steps[i].what, failure);
    }
    if (progress)
        progress(G_N_ELEMENTS(steps), G_N_ELEMENTS(steps), NULL, data);
    if (b.late > 0) {
        g_autoptr(GError) late = g_error_new(ECH_ERROR, ECH_ERROR_BACKEND,
                                             "in %u measurements the GPU may have waited for the host: short operations may come out too long", b.late);
        note_failure(&b, "host", late);
    }
    tear_down(&b);
    result->seconds = (host_ns() - begin) / 1e9;
    return ok ? g_steal_pointer(&result) : NULL;
}
