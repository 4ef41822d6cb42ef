/* XLA's static heaps: GlobalDecreasingSizeBestFitHeap, its size-limited form, and the two fast ones. */
#include "models/alloc/heap_fast.h"
#include "models/alloc/heap_fit.h"
#include "models/alloc/plan.h"

#include <string.h>

typedef enum { SPATIAL, TEMPORAL, BEST, PHASE, PHASE_END, FAST_MERGE, FAST_SPLIT } Algorithm;

static const char *const algorithm_names[] = {"spatial", "temporal", "best", "phase", "phase_end", "fast_merge", "fast_split", NULL};

/** fast_split places this many of the largest lone buffers by best fit first. */
#define SPLIT_BEST_FIT 500

typedef struct {
    EchPlanObject base;
    uint64_t algorithm;
    EchBytes limit; /* 0: one heap */
} Xla;

static const EchParam xla_params[] = {
    {"algorithm", ECH_PARAM_ENUM, offsetof(Xla, algorithm), "best", NULL, NULL, algorithm_names,
     "Order and fit: spatial (largest first), temporal (longest first), best (lower of the two), phase, phase_end, fast_merge, fast_split."},
    {"alignment", ECH_PARAM_BYTES, offsetof(Xla, base.alignment), "256", "1", "1TiB", NULL, "Every offset is a multiple of it, in bytes."},
    {"limit", ECH_PARAM_BYTES, offsetof(Xla, limit), "0", "0", NULL, NULL, "Size of a heap in bytes; what does not fit goes to the next heap. 0: one heap."},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/** Members of a group, largest first come what may; the group is known by its first allocation. */
typedef struct {
    uint32_t root;       /* item whose allocation comes first */
    uint32_t n_members;  /* of more than 0 bytes */
    uint32_t begin, end; /* ticks: of the first allocation, of the last free */
    EchBytes largest;
} Group;

/** The problem on XLA's own clock. */
typedef struct {
    const EchPlanProblem *problem;
    uint64_t alignment;
    EchBytes limit;
    uint32_t *begin, *end; /* ticks of items */
    uint32_t *slot;        /* slot[tick]: allocations before it */
    uint32_t n_ticks;
    Group *groups;
    uint32_t *order; /* order[n_order]: groups that take space */
    size_t n_order;
    EchBytes smallest;
    uint64_t mean_span;            /* of items, in slots */
    EchFitSpan *spans;             /* scratch: one per member */
    uint64_t placed, n_placements; /* groups, by all runs: of how many; told now and then */
} Clock;

typedef struct {
    int64_t time;
    uint32_t phase, item; /* 0 end, 1 begin, 2 end of what never lived */
} Event;

static int compare_events(const void *a, const void *b)
{
    const Event *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->phase != right->phase)
        return left->phase < right->phase ? -1 : 1;
    return (left->item > right->item) - (left->item < right->item);
}

/** Sorts by counting where times are dense, as event indices are. */
static void sort_events(Event *events, size_t n)
{
    if (n == 0)
        return;
    int64_t low = events[0].time, high = low;
    for (size_t i = 1; i < n; i++) {
        low = MIN(low, events[i].time);
        high = MAX(high, events[i].time);
    }
    uint64_t range = (uint64_t)high - (uint64_t)low;
    if (range > n * 16) {
        qsort(events, n, sizeof *events, compare_events);
        return;
    }
    size_t n_buckets = ((size_t)range + 1) * 3;
    g_autofree uint32_t *start = g_new0(uint32_t, n_buckets + 1);
    for (size_t i = 0; i < n; i++)
        start[((uint64_t)events[i].time - (uint64_t)low) * 3 + events[i].phase + 1]++;
    for (size_t i = 0; i < n_buckets; i++)
        start[i + 1] += start[i];
    g_autofree Event *sorted = g_new(Event, n);
    for (size_t i = 0; i < n; i++) /* they come in item order, so equal keys keep it */
        sorted[start[((uint64_t)events[i].time - (uint64_t)low) * 3 + events[i].phase]++] = events[i];
    memcpy(events, sorted, n * sizeof *events);
}

static void clock_init(Clock *clock, const Xla *xla, const EchPlanProblem *problem)
{
    size_t n = problem->n;
    *clock = (Clock){.problem = problem, .alignment = xla->base.alignment, .limit = xla->limit};
    clock->begin = g_new0(uint32_t, n ? n : 1);
    clock->end = g_new0(uint32_t, n ? n : 1);
    clock->spans = g_new(EchFitSpan, n ? n : 1);
    clock->groups = g_new0(Group, problem->n_groups ? problem->n_groups : 1);
    clock->order = g_new(uint32_t, problem->n_groups ? problem->n_groups : 1);
    g_autofree Event *events = g_new(Event, n * 2 + 1);
    size_t n_events = 0;
    for (size_t i = 0; i < n; i++) {
        const EchPlanItem *item = &problem->items[i];
        clock->alignment = clock->alignment / ech_gcd(clock->alignment, item->alignment) * item->alignment;
        if (item->bytes == 0)
            continue;
        events[n_events++] = (Event){item->begin, 1, (uint32_t)i};
        events[n_events++] = (Event){item->end, item->begin < item->end ? 0 : 2, (uint32_t)i};
    }
    sort_events(events, n_events);
    clock->n_ticks = (uint32_t)n_events;
    clock->slot = g_new(uint32_t, n_events + 1);
    uint32_t n_slots = 0;
    for (uint32_t t = 0; t < n_events; t++) {
        clock->slot[t] = n_slots;
        if (events[t].phase == 1) {
            clock->begin[events[t].item] = t;
            n_slots++;
        } else {
            clock->end[events[t].item] = t;
        }
    }
    clock->slot[n_events] = n_slots;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += clock->slot[clock->end[i]] - clock->slot[clock->begin[i]];
    clock->mean_span = sum / MAX(n_slots, 1);
    clock->smallest = UINT64_MAX;
    for (uint32_t g = 0; g < problem->n_groups; g++) {
        Group *group = &clock->groups[g];
        for (uint32_t m = problem->first[g]; m < problem->first[g + 1]; m++) {
            uint32_t item = problem->member[m];
            if (problem->items[item].bytes == 0)
                continue;
            if (group->n_members++ == 0 || clock->begin[item] < group->begin) {
                group->root = item;
                group->begin = clock->begin[item];
            }
            group->end = MAX(group->end, clock->end[item]);
            group->largest = MAX(group->largest, problem->items[item].bytes);
        }
        if (group->n_members > 0) {
            clock->order[clock->n_order++] = g;
            clock->smallest = MIN(clock->smallest, group->largest);
        }
    }
}

static void clock_clear(Clock *clock)
{
    g_free(clock->begin);
    g_free(clock->end);
    g_free(clock->slot);
    g_free(clock->spans);
    g_free(clock->groups);
    g_free(clock->order);
}

/** What groups are sorted by, ascending; ids are those of the roots, which are unique. */
typedef struct {
    int64_t first, second;
    uint32_t id, group;
} Rank;

static int compare_ranks(const void *a, const void *b)
{
    const Rank *left = a, *right = b;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    if (left->second != right->second)
        return left->second < right->second ? -1 : 1;
    return (left->id > right->id) - (left->id < right->id);
}

/** By first allocation or by last free: ticks, which no two groups share. */
static void sort_by_tick(const Clock *clock, bool by_end, uint32_t *order, size_t n)
{
    g_autofree uint32_t *at = g_new(uint32_t, (size_t)clock->n_ticks + 1);
    memset(at, 0xff, ((size_t)clock->n_ticks + 1) * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[by_end ? clock->groups[order[i]].end : clock->groups[order[i]].begin] = order[i];
    size_t n_sorted = 0;
    for (uint32_t t = 0; t < clock->n_ticks; t++)
        if (at[t] != UINT32_MAX)
            order[n_sorted++] = at[t];
}

static void sort_order(const Clock *clock, Algorithm algorithm, uint32_t *order, size_t n)
{
    if (algorithm != SPATIAL && algorithm != BEST && algorithm != TEMPORAL) {
        sort_by_tick(clock, algorithm == PHASE_END, order, n);
        return;
    }
    g_autofree Rank *ranks = g_new(Rank, n ? n : 1);
    for (size_t i = 0; i < n; i++) {
        const Group *group = &clock->groups[order[i]];
        int64_t bytes = (int64_t)clock->problem->items[group->root].bytes;
        Rank rank = {0, 0, group->root, order[i]};
        if (algorithm == TEMPORAL) {
            rank.first = (int64_t)group->begin - (int64_t)group->end;
            rank.second = -bytes;
        } else {
            rank.first = -bytes;
            rank.second = (int64_t)clock->begin[group->root] - (int64_t)clock->end[group->root];
        }
        ranks[i] = rank;
    }
    qsort(ranks, n, sizeof *ranks, compare_ranks);
    for (size_t i = 0; i < n; i++)
        order[i] = ranks[i].group;
}

static void put(Clock *clock, uint32_t group, uint64_t offset, uint32_t heap, EchPlanSolution *solution)
{
    const EchPlanProblem *problem = clock->problem;
    for (uint32_t m = problem->first[group]; m < problem->first[group + 1]; m++) {
        uint32_t item = problem->member[m];
        solution->offsets[item] = problem->items[item].bytes ? offset : 0;
        solution->heaps[item] = heap;
    }
    solution->steps++;
    if (++clock->placed % 256 == 0 && problem->progress)
        problem->progress(clock->placed, clock->n_placements);
}

/** Best fit of order[n] into heap number @heap; what the limit keeps out moves to the front of @order, in order. Returns how many, and
 * the heap's height. */
static size_t fit_pass(Clock *clock, uint32_t *order, size_t n, uint32_t heap, EchBytes *ret_height, EchPlanSolution *solution)
{
    const EchPlanProblem *problem = clock->problem;
    g_autoptr(EchFitHeap) fit = ech_fit_heap_new(clock->slot[clock->n_ticks], clock->mean_span, clock->smallest, clock->alignment);
    EchBytes height = 0;
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++) {
        const Group *group = &clock->groups[order[i]];
        EchBytes own = problem->items[group->root].bytes; /* what the limit is held against */
        if (clock->limit > 0 && height > 0 && own > clock->limit) {
            order[n_left++] = order[i];
            continue;
        }
        size_t n_spans = 0;
        for (uint32_t m = problem->first[order[i]]; m < problem->first[order[i] + 1]; m++) {
            uint32_t item = problem->member[m];
            if (problem->items[item].bytes > 0)
                clock->spans[n_spans++] = (EchFitSpan){clock->slot[clock->begin[item]], clock->slot[clock->end[item]]};
        }
        uint64_t offset = ech_fit_heap_find(fit, clock->spans, n_spans, group->largest, clock->alignment, false);
        if (clock->limit > 0 && height > 0 && offset + own > clock->limit) {
            order[n_left++] = order[i];
            continue;
        }
        n_spans = 0;
        for (uint32_t m = problem->first[order[i]]; m < problem->first[order[i] + 1]; m++) {
            uint32_t item = problem->member[m];
            if (problem->items[item].bytes > 0)
                ech_fit_heap_use(fit, clock->spans[n_spans++], offset, group->largest); /* of every member, as CommitChunkAndInterval has it */
        }
        height = MAX(height, offset + group->largest);
        put(clock, order[i], offset, heap, solution);
    }
    *ret_height = height;
    return n_left;
}

/** The one-pass heap above @floor, otherwise as fit_pass; @height is what lies below the floor already. @order is sorted by begin. */
static size_t fast_pass(Clock *clock, uint32_t *order, size_t n, uint32_t heap, uint64_t floor, EchBytes *height, EchPlanSolution *solution)
{
    g_autoptr(EchFastHeap) fast = ech_fast_heap_new(floor, clock->alignment);
    g_autofree uint32_t *ends_at = g_new(uint32_t, clock->n_ticks + 1);          /* group that ends at a tick */
    g_autofree uint32_t *taken = g_new0(uint32_t, clock->problem->n_groups + 1); /* the chunk of a group; 0: none */
    memset(ends_at, 0xff, ((size_t)clock->n_ticks + 1) * sizeof *ends_at);
    for (size_t i = 0; i < n; i++)
        ends_at[clock->groups[order[i]].end] = order[i];
    uint32_t now = 0;
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = order[i];
        const Group *group = &clock->groups[id];
        for (; now <= group->begin; now++) {
            uint32_t ended = ends_at[now];
            if (ended != UINT32_MAX && taken[ended] != 0)
                ech_fast_heap_give(fast, taken[ended]);
        }
        if (clock->limit > 0 && *height > 0 && ech_fast_heap_look(fast, group->largest) + group->largest > clock->limit) {
            order[n_left++] = id;
            continue;
        }
        uint64_t offset;
        taken[id] = ech_fast_heap_take(fast, group->largest, &offset);
        *height = MAX(*height, offset + group->largest);
        put(clock, id, offset, heap, solution);
    }
    return n_left;
}

/** fast_split: the largest lone groups and all that share by best fit, the rest in one pass above them. Which is which is settled once, for all heaps. */
static size_t split(const Clock *clock, uint32_t *order, size_t n)
{
    g_autofree uint32_t *fast = g_new(uint32_t, n ? n : 1);
    size_t n_fit = 0, n_fast = 0, lone = 0;
    for (size_t i = 0; i < n; i++) {
        if (clock->groups[order[i]].n_members > 1 || lone++ < SPLIT_BEST_FIT)
            order[n_fit++] = order[i];
        else
            fast[n_fast++] = order[i];
    }
    sort_by_tick(clock, false, fast, n_fast);
    memcpy(order + n_fit, fast, n_fast * sizeof *order);
    return n_fit;
}

/** Places everything with one algorithm; returns the sum of the heights. */
static EchBytes run(Clock *clock, Algorithm algorithm, EchPlanSolution *solution)
{
    g_autofree uint32_t *order = g_memdup2(clock->order, MAX(clock->n_order, 1) * sizeof *order);
    size_t n = clock->n_order;
    EchBytes total = 0;
    uint32_t heap = 0;
    sort_order(clock, algorithm == FAST_SPLIT ? SPATIAL : algorithm, order, n);
    size_t n_fit = algorithm == FAST_SPLIT ? split(clock, order, n) : algorithm == FAST_MERGE ? 0 : n, n_fast = n - n_fit;
    uint32_t *fast = order + n_fit;
    while (n_fit + n_fast > 0) {
        EchBytes height = 0;
        if (n_fit > 0)
            n_fit = fit_pass(clock, order, n_fit, heap, &height, solution);
        if (n_fast > 0)
            n_fast = fast_pass(clock, fast, n_fast, heap, height, &height, solution);
        total += height;
        heap++;
    }
    solution->n_heaps = MAX(heap, 1);
    return total;
}

static void xla_plan(const void *object, const EchPlanProblem *problem, EchPlanSolution *solution)
{
    const Xla *xla = object;
    Clock clock;
    clock_init(&clock, xla, problem);
    clock.n_placements = (uint64_t)clock.n_order * (xla->algorithm == BEST ? 2 : 1);
    if (xla->algorithm != BEST) {
        run(&clock, (Algorithm)xla->algorithm, solution);
        clock_clear(&clock);
        return;
    }
    size_t n = MAX(problem->n, 1);
    g_autofree uint64_t *offsets = g_new0(uint64_t, n);
    g_autofree uint32_t *heaps = g_new0(uint32_t, n);
    EchPlanSolution temporal = {.offsets = offsets, .heaps = heaps, .n_heaps = 1};
    EchBytes spatial_bytes = run(&clock, SPATIAL, solution);
    if (run(&clock, TEMPORAL, &temporal) < spatial_bytes) {
        memcpy(solution->offsets, offsets, problem->n * sizeof *offsets);
        memcpy(solution->heaps, heaps, problem->n * sizeof *heaps);
        solution->n_heaps = temporal.n_heaps;
    }
    solution->steps += temporal.steps;
    clock_clear(&clock);
}

const EchPlanClass ech_plan_xla = {
    .name = "xla",
    .summary = "XLA's static heaps, as the TPU and GPU compilers place temporaries",
    .source = "openxla/xla@183fa00c xla/service/heap_simulator/heap_simulator.cc; offsets compared with that code's own",
    .object_size = sizeof(Xla),
    .params = xla_params,
    .plan = xla_plan,
};
