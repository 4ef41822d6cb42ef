/* What the driver itself takes: launches, graphs, allocations, and how it rounds. */
#include "sim/experiment/calibrate_private.h"

bool ech_calibrate_launches(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    double submits[REPEATS], waits[REPEATS], trips[REPEATS];
    if (!ech_bench_time_each(b, NULL, NULL, 40, &r->event, error) || !ech_bench_time_each(b, ech_bench_issue_empty, NULL, 40, &r->alone, error) ||
        !ech_bench_time_batch(b, ech_bench_issue_empty, NULL, 200, &r->launch, error))
        return false;
    for (unsigned i = 0; i < REPEATS; i++) {
        double begin = ech_bench_host_ns();
        for (unsigned k = 0; k < 50; k++) {
            if (!ech_bench_issue_empty(b, b->streams[0], NULL, error))
                return false;
        }
        submits[i] = (ech_bench_host_ns() - begin) / 50;
        if (!CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]))
            return false;
        begin = ech_bench_host_ns();
        if (!CU(b, stream_synchronize, "waiting for an idle queue", error, b->streams[0]))
            return false;
        waits[i] = ech_bench_host_ns() - begin;
        begin = ech_bench_host_ns();
        if (!ech_bench_issue_empty(b, b->streams[0], NULL, error) || !CU(b, stream_synchronize, "waiting for a kernel", error, b->streams[0]))
            return false;
        trips[i] = MAX(ech_bench_host_ns() - begin - submits[i] - r->launch.median, 0);
    }
    r->trip = ech_bench_figure(trips, REPEATS);
    r->submit = ech_bench_figure(submits, REPEATS);
    r->synchronize = ech_bench_figure(waits, REPEATS);
    return true;
}

typedef struct {
    EchCuEvent there, back;  /* Without time */
    const CopyShape *copy;   /* In the second queue; NULL: a kernel there */
    const StreamShape *work; /* In the first; NULL: an empty kernel */
    bool through;            /* Nothing there: the first only passes on that the second is through */
} Turn;

static bool issue_turned(Bench *b, const Turn *turn, EchCuStream stream, GError **error)
{
    return turn->through || (turn->work ? ech_bench_issue_stream(b, stream, turn->work, error) : ech_bench_issue_empty(b, stream, NULL, error));
}

/* A kernel in the first queue, then something in the second that waits for it, and that the first waits for. */
static bool issue_turn(Bench *b, EchCuStream stream, const void *data, GError **error)
{
    const Turn *turn = data;
    EchCuStream other = b->streams[1];
    return issue_turned(b, turn, stream, error) && CU(b, event_record, "recording an event", error, turn->there, stream) &&
           CU(b, stream_wait, "making a queue wait", error, other, turn->there, 0) &&
           (turn->copy ? ech_bench_issue_copy(b, other, turn->copy, error) : ech_bench_issue_empty(b, other, NULL, error)) &&
           CU(b, event_record, "recording an event", error, turn->back, other) && CU(b, stream_wait, "making a queue wait", error, stream, turn->back, 0);
}

/* Half of what a turn takes beyond @work nanoseconds. */
static bool time_turn(Bench *b, Turn turn, double work, EchFigure *ret, GError **error)
{
    EchFigure time;
    if (!ech_bench_time_batch(b, issue_turn, &turn, turn.work ? 10 : 30, &time, error))
        return false;
    *ret = (EchFigure){.median = MAX(time.median - work, 0) / 2, .n = time.n};
    ret->spread = ret->median > 0 ? time.spread * time.median / 2 / ret->median : 0;
    return true;
}

/* What a kernel takes longer that waits for what is over already when its queue comes to it, but was not when the host said so: for a driver that knows better
 * leaves the wait out. */
static bool time_passed(Bench *b, EchCuEvent over, EchFigure *ret, GError **error)
{
    enum { KERNELS = 30, CALLS = 2 * KERNELS + 6 };
    double times[REPEATS];
    for (unsigned r = 0; r < REPEATS; r++) {
        if (!ech_bench_occupy(b, b->streams[1], CALLS, error) || !CU(b, event_record, "recording an event", error, over, b->streams[1]) ||
            !ech_bench_occupy(b, b->streams[0], 3 * CALLS, error) || !CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]))
            return false;
        for (unsigned i = 0; i < KERNELS; i++) {
            if (!CU(b, stream_wait, "making a queue wait", error, b->streams[0], over, 0) || !ech_bench_issue_empty(b, b->streams[0], NULL, error))
                return false;
        }
        if (!CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) ||
            !CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]) ||
            !ech_bench_elapsed(b, b->events[0][0], b->events[0][1], &times[r], error))
            return false;
        times[r] = MAX((times[r] - b->result->event.median) / KERNELS - b->result->launch.median, 0);
    }
    *ret = ech_bench_figure(times, REPEATS);
    return true;
}

/* The same of a copy and a kernel that each take @ns: a queue that has waited for long learns later that it may go on. */
static bool time_long_turn(Bench *b, Turn turn, double ns, EchFigure *ret, GError **error)
{
    EchCalibration *r = b->result;
    uint64_t words = MIN((uint64_t)(ns * r->read.median / 16e9), b->half / 16);
    const StreamShape work = {MAX(words, 1), 0, true};
    const CopyShape copy = {MIN((EchBytes)(ns * r->pinned[0].rate / 1e9) / 4096 * 4096 + 4096, b->host_bytes), false, false};
    EchFigure kernel_time = {0}, copy_time;
    turn.work = &work;
    turn.copy = &copy;
    return (turn.through || ech_bench_time_batch(b, ech_bench_issue_stream, &work, 10, &kernel_time, error)) &&
           ech_bench_time_each(b, ech_bench_issue_copy, &copy, REPEATS, &copy_time, error) &&
           time_turn(b, turn, kernel_time.median + copy_time.median, ret, error);
}

/* What queues that wait for each other lose. */
bool ech_calibrate_waits(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    const CopyShape small = {r->pinned[0].bytes[0], false, false};
    double launch = r->launch.median, copy = r->pinned[0].time[0].median;
    Turn turn = {0};
    bool ok = CU(b, event_create, "making an event", error, &turn.there, ECH_CU_EVENT_DISABLE_TIMING) &&
              CU(b, event_create, "making an event", error, &turn.back, ECH_CU_EVENT_DISABLE_TIMING) && time_turn(b, turn, 2 * launch, &r->wait, error);
    turn.copy = &small;
    ok = ok && time_turn(b, turn, launch + copy, &r->wait_copy_short, error);
    static const double lasts[ECH_CALIBRATE_WAITS] = {10e3, 40e3, 160e3};
    for (size_t i = 0; ok && i < ECH_CALIBRATE_WAITS; i++)
        ok = time_long_turn(b, turn, lasts[i], &r->wait_copy_by[i], error);
    r->wait_copy = r->wait_copy_by[1];
    turn.through = true;
    ok = ok && time_long_turn(b, turn, lasts[1], &r->wait_through, error);
    ok = ok && time_passed(b, turn.there, &r->wait_passed, error);
    if (turn.there)
        b->cu->event_destroy(turn.there);
    if (turn.back)
        b->cu->event_destroy(turn.back);
    return ok;
}

bool ech_calibrate_graph(Bench *b, GError **error)
{
    enum { NODES = 200 };
    EchCuGraph graph = NULL;
    EchCuGraphExec exec = NULL;
    double times[REPEATS];
    bool ok = CU(b, capture_begin, "capturing a graph", error, b->streams[0], ECH_CU_CAPTURE_RELAXED);
    bool capturing = ok;
    for (unsigned i = 0; ok && i < NODES; i++)
        ok = ech_bench_issue_empty(b, b->streams[0], NULL, error);
    if (capturing) {
        EchCuResult ended = b->cu->capture_end(b->streams[0], &graph);
        ok = ok && ech_cuda_check(b->cu, ended, "cuStreamEndCapture", "capturing a graph", error);
    }
    ok = ok && CU(b, graph_instantiate, "making a graph", error, &exec, graph, 0);
    for (unsigned i = 0; ok && i < REPEATS + 1; i++) {
        double time = 0;
        ok = ech_bench_head_start(b, NODES, error) && CU(b, event_record, "recording an event", error, b->events[0][0], b->streams[0]) &&
             CU(b, graph_launch, "launching a graph", error, exec, b->streams[0]) &&
             CU(b, event_record, "recording an event", error, b->events[0][1], b->streams[0]) &&
             CU(b, stream_synchronize, "waiting for a graph", error, b->streams[0]) && ech_bench_elapsed(b, b->events[0][0], b->events[0][1], &time, error);
        if (i > 0)
            times[i - 1] = MAX(time - b->result->event.median, 0) / NODES;
    }
    if (exec)
        b->cu->graph_exec_destroy(exec);
    if (graph)
        b->cu->graph_destroy(graph);
    if (ok)
        b->result->graph_launch = ech_bench_figure(times, REPEATS);
    return ok;
}

/* Host times of calls. Whatever else a host does makes them longer, never shorter, and can do so for all repeats of one measurement, which may last but
 * microseconds: of ROUNDS apart from each other the least counts. */
typedef struct {
    EchFigure take, give;
} Calls;

enum { ROUNDS = 3 };

static void keep_least(EchFigure *kept, double *times, unsigned n)
{
    EchFigure figure = ech_bench_figure(times, n);
    if (kept->n == 0 || figure.median < kept->median)
        *kept = figure;
}

/* Allocating @bytes and giving them back to an idle GPU. */
static bool time_malloc(Bench *b, EchBytes bytes, Calls *kept, GError **error)
{
    double take[REPEATS], give[REPEATS];
    for (unsigned i = 0; i < REPEATS; i++) {
        EchCuPointer pointer = 0;
        double begin = ech_bench_host_ns();
        if (!CU(b, allocate, "allocating", error, &pointer, bytes))
            return false;
        take[i] = ech_bench_host_ns() - begin;
        begin = ech_bench_host_ns();
        if (!CU(b, release, "freeing", error, pointer))
            return false;
        give[i] = ech_bench_host_ns() - begin;
    }
    keep_least(&kept->take, take, REPEATS);
    keep_least(&kept->give, give, REPEATS);
    return true;
}

/* What a program has of the driver at a time, of very different sizes: one comes, one goes. */
typedef struct {
    EchCuPointer pointer;
    EchCuMapping mapping;
    bool live;
} Held;

static bool take_held(Bench *b, Held *held, EchBytes bytes, bool mapped, GError **error)
{
    held->live = mapped ? ech_cuda_map(b->cu, &b->gpu, ech_round_up(bytes, b->gpu.page), 1, &held->mapping, error)
                        : CU(b, allocate, "allocating", error, &held->pointer, bytes);
    return held->live;
}

static bool give_held(Bench *b, Held *held, bool mapped, GError **error)
{
    if (!held->live)
        return true;
    held->live = false;
    return mapped ? ech_cuda_unmap(b->cu, &held->mapping, error) : CU(b, release, "freeing", error, held->pointer);
}

#define BESIDE_NS 1e6 /* Longer than any call */

/* A kernel of BESIDE_NS or more. */
static bool issue_beside(Bench *b, GError **error)
{
    enum { CALLS = 90 };
    return ech_bench_occupy(b, b->streams[0], CALLS, error);
}

/* What gives back waits for the GPU, and comes just after a kernel. */
static bool work_once(Bench *b, GError **error)
{
    return ech_bench_issue_empty(b, b->streams[0], NULL, error) && CU(b, stream_synchronize, "waiting for a kernel", error, b->streams[0]);
}

/* Host time of a call among such: on an H100 2 MiB taken and given back over and over, and nothing else, cost up to twice what they cost in a program that
 * allocates by cudaMalloc, and half of what they cost in one that maps. On two H200s programs with kernels between the calls lost 30 to 38 us more for each new
 * mapping than calls one behind the other on an idle GPU: kernels come between them, and with @beside one runs while the host takes. */
static bool time_turnover(Bench *b, bool mapped, bool beside, Calls *kept, double *ret_pages, GError **error)
{
    enum { LIVE = 24, STEPS = 96, DOUBLINGS = 5 };
    Held held[LIVE] = {0};
    double take[STEPS], give[STEPS], pages[STEPS];
    size_t available, total;
    bool ok = CU(b, memory_info, "asking for free memory", error, &available, &total);
    unsigned live = (unsigned)CLAMP(available >> 23, 1, LIVE); /* Small cards hold fewer */
    EchBytes most = MAX((EchBytes)available / (2 * live) >> 21 << 21, (EchBytes)2 << 20);
    uint64_t chance = 7;
    for (unsigned i = 0; ok && i < live + STEPS; i++) {
        Held *at = &held[i % live];
        chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        EchBytes base = (EchBytes)2 << (20 + (chance >> 33) % DOUBLINGS),
                 bytes = MIN(base + (EchBytes)((double)base * (double)(chance >> 40) / (1 << 24)), most);
        if (!work_once(b, error)) {
            ok = false;
            break;
        }
        double begin = ech_bench_host_ns();
        ok = give_held(b, at, mapped, error);
        double between = ech_bench_host_ns();
        ok = ok && (!beside || issue_beside(b, error));
        double again = ech_bench_host_ns();
        ok = ok && take_held(b, at, bytes, mapped, error);
        if (i < live)
            continue;
        pages[i - live] = (double)bytes / (2 << 20);
        give[i - live] = between - begin;
        take[i - live] = ech_bench_host_ns() - again;
    }
    ok = work_once(b, ok ? error : NULL) && ok;
    for (unsigned i = 0; i < live; i++)
        ok = give_held(b, &held[i], mapped, ok ? error : NULL) && ok;
    if (!ok)
        return false;
    keep_least(&kept->take, take, STEPS);
    keep_least(&kept->give, give, STEPS);
    *ret_pages = ech_bench_figure(pages, STEPS).median;
    return true;
}

/* What every 2 MiB beyond the first add, of one of 2 MiB and one of @bytes that are taken and given back in turn. */
static EchFigure growth(EchFigure large, EchFigure page, EchBytes bytes)
{
    large.median = MAX(large.median - page.median, 0) / ((double)bytes / (2 << 20) - 1);
    return large;
}

/* What is left of a call for @pages times 2 MiB for one of 2 MiB; not less than @one of them took alone, however uncertain @page is. */
static void take_pages_off(EchFigure *call, EchFigure page, double pages, EchFigure one)
{
    call->median = MAX(call->median - page.median * (pages - 1), MIN(call->median, one.median));
}

/* The same of one that runs beside a kernel, or, *ret_waits, until that is over; @alone: without. */
static EchFigure beside_kernel(const Calls *beside, const Calls *alone, EchFigure page, double pages, EchFigure one, bool *ret_waits)
{
    EchFigure call = beside->take;
    *ret_waits = call.median - alone->take.median > BESIDE_NS / 2;
    if (*ret_waits)
        return (EchFigure){0};
    take_pages_off(&call, page, pages, one);
    return call;
}

static bool time_malloc_async(Bench *b, Calls *kept, GError **error)
{
    double take[REPEATS], give[REPEATS];
    for (unsigned i = 0; i < REPEATS; i++) {
        EchCuPointer pointer = 0;
        double begin = ech_bench_host_ns();
        if (!CU(b, allocate_async, "allocating from the pool", error, &pointer, 2 << 20, b->streams[0]))
            return false;
        take[i] = ech_bench_host_ns() - begin;
        begin = ech_bench_host_ns();
        if (!CU(b, release_async, "freeing to the pool", error, pointer, b->streams[0]))
            return false;
        give[i] = ech_bench_host_ns() - begin;
    }
    keep_least(&kept->take, take, REPEATS);
    keep_least(&kept->give, give, REPEATS);
    return true;
}

static bool time_pin(Bench *b, EchFigure *kept, GError **error)
{
    double pin[REPEATS];
    for (unsigned i = 0; i < REPEATS; i++) {
        void *host = NULL;
        double begin = ech_bench_host_ns();
        if (!CU(b, host_allocate, "pinning memory", error, &host, 1 << 20, 0))
            return false;
        pin[i] = ech_bench_host_ns() - begin;
        if (!CU(b, host_release, "unpinning memory", error, host))
            return false;
    }
    keep_least(kept, pin, REPEATS);
    return true;
}

bool ech_calibrate_allocations(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    size_t available, total;
    if (!CU(b, memory_info, "asking for free memory", error, &available, &total))
        return false;
    /* What pages cost shows where there are many of them, but not many more than programs ask for at once: what is larger may be had otherwise. */
    EchBytes large = MIN((EchBytes)available / 4, (EchBytes)256 << 20) >> 21 << 21;
    bool has_pages = large >= 8 << 20;
    Calls usual = {0}, beside = {0}, small = {0}, async = {0}, one = {0}, whole = {0};
    double pages = 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (!time_turnover(b, false, false, &usual, &pages, error) || !time_turnover(b, false, true, &beside, &pages, error) ||
            !time_malloc(b, 4096, &small, error) || (b->gpu.has_pools && !time_malloc_async(b, &async, error)) || !time_pin(b, &r->pin, error) ||
            (has_pages && (!time_malloc(b, 2 << 20, &one, error) || !time_malloc(b, large, &whole, error))))
            return false;
    }
    r->malloc = usual.take;
    r->free = usual.give;
    r->malloc_small = small.take;
    r->free_small = small.give;
    r->malloc_async = async.take;
    r->free_async = async.give;
    if (has_pages) {
        r->malloc_page = growth(whole.take, one.take, large);
        r->free_page = growth(whole.give, one.give, large);
        r->malloc_largest = large;
    }
    r->malloc_beside = beside_kernel(&beside, &usual, r->malloc_page, pages, one.take, &r->malloc_waits);
    if (!has_pages)
        return true;
    take_pages_off(&r->malloc, r->malloc_page, pages, one.take);
    take_pages_off(&r->free, r->free_page, pages, one.give);
    return true;
}

/* Mapping @n pieces of @piece bytes in one go, and giving them back. */
static bool time_mapping(Bench *b, EchBytes piece, size_t n, Calls *kept, GError **error)
{
    double take[REPEATS], give[REPEATS];
    for (unsigned i = 0; i < REPEATS; i++) {
        EchCuMapping mapping;
        double begin = ech_bench_host_ns();
        if (!ech_cuda_map(b->cu, &b->gpu, piece, n, &mapping, error))
            return false;
        take[i] = ech_bench_host_ns() - begin;
        begin = ech_bench_host_ns();
        if (!ech_cuda_unmap(b->cu, &mapping, error))
            return false;
        give[i] = ech_bench_host_ns() - begin;
    }
    keep_least(&kept->take, take, REPEATS);
    keep_least(&kept->give, give, REPEATS);
    return true;
}

/* As allocators with growing segments take memory: some alone, some pieces of that in one go (not many: what takes a host longer, it is more often
 * interrupted in), and a large piece. */
bool ech_calibrate_mapping(Bench *b, GError **error)
{
    enum { PIECES = 8, PAGES = 128 };
    EchCalibration *r = b->result;
    size_t available, total;
    if (b->gpu.page == 0)
        return true;
    if (!CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]) || !CU(b, memory_info, "asking for free memory", error, &available, &total))
        return false;
    EchBytes piece = ech_round_up(2 << 20, b->gpu.page);
    size_t pages = MIN((size_t)PAGES, available / 2 / piece);
    bool has_pages = pages >= PIECES;
    Calls usual = {0}, beside = {0}, one = {0}, several = {0}, whole = {0};
    double usual_pages = 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (!time_turnover(b, true, false, &usual, &usual_pages, error) || !time_turnover(b, true, true, &beside, &usual_pages, error) ||
            !time_mapping(b, piece, 1, &one, error) ||
            (has_pages && (!time_mapping(b, piece, PIECES, &several, error) || !time_mapping(b, piece * pages, 1, &whole, error))))
            return false;
    }
    r->map = usual.take;
    r->unmap = usual.give;
    if (has_pages) {
        r->map_piece = growth(several.take, one.take, piece * PIECES);
        r->unmap_piece = growth(several.give, one.give, piece * PIECES);
        r->map_page = growth(whole.take, one.take, piece * pages);
        r->unmap_page = growth(whole.give, one.give, piece * pages);
    }
    r->map_beside = beside_kernel(&beside, &usual, r->map_page, usual_pages, one.take, &r->map_waits);
    if (!has_pages)
        return true;
    take_pages_off(&r->map, r->map_page, usual_pages, one.take);
    take_pages_off(&r->unmap, r->unmap_page, usual_pages, one.give);
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
bool ech_calibrate_pages(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    const EchBytes large = (EchBytes)4 << 20, small[] = {4096, 65536, 262144, 524288, 786432, 1048576, 1572864};
    EchBytes taken;
    /* What is being mapped for the first time may need tables of its own, which stay. */
    for (unsigned i = 0; i < 2; i++) {
        if (!taken_by(b, large + 1, 1, &taken, error))
            return false;
    }
    r->page = taken > large + 1 ? taken - large : 0;
    for (size_t i = 0; r->page > 0 && i < G_N_ELEMENTS(small) && small[i] < r->page; i++) {
        if (!taken_by(b, small[i], 8, &taken, error))
            return false;
        if (taken >= 8 * r->page)
            break;
        r->page_shared = small[i];
    }
    return !b->gpu.has_pools || measure_pool_growth(b, error);
}
