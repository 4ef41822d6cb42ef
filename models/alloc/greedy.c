/* A fast heuristic: the best of several orders, each placed by best fit and by lowest fit. */
#include "models/alloc/greedy.h"

#include "models/alloc/heap_fit.h"
#include "models/alloc/plan_internal.h"

#include <string.h>

typedef struct {
    EchPlanObject base;
} Greedy;

static const EchParam greedy_params[] = {
    {"alignment", ECH_PARAM_BYTES, offsetof(Greedy, base.alignment), "1", "1", "1TiB", NULL, "Offsets of buffers that state no alignment are multiples of it, in bytes."},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

enum { BY_BYTES, BY_AREA, BY_LIFE, BY_PRESSURE, BY_BEGIN, N_ORDERS };

typedef struct {
    uint32_t group;
    double key[2]; /* larger first */
} Rank;

static int compare_ranks(const void *a, const void *b)
{
    const Rank *left = a, *right = b;
    for (unsigned i = 0; i < 2; i++) {
        if (left->key[i] != right->key[i])
            return left->key[i] > right->key[i] ? -1 : 1;
    }
    return (left->group > right->group) - (left->group < right->group);
}

typedef struct {
    uint32_t n_slots;
    EchFitSpan *spans; /* one per piece */
    EchBytes *live;    /* live[slot] */
} Slots;

static int compare_times(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static uint32_t slot_of(const int64_t *times, uint32_t n, int64_t time)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/** Slots are the distinct begins: two pieces meet if and only if they meet at one. */
static void slots_init(Slots *slots, const EchPlanPiece *pieces, size_t n)
{
    g_autofree int64_t *times = g_new(int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        times[i] = pieces[i].begin;
    qsort(times, n, sizeof *times, compare_times);
    slots->n_slots = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || times[i] != times[i - 1])
            times[slots->n_slots++] = times[i];
    }
    slots->spans = g_new(EchFitSpan, n + 1);
    slots->live = g_new0(EchBytes, (size_t)slots->n_slots + 1);
    for (size_t i = 0; i < n; i++) {
        slots->spans[i] = (EchFitSpan){slot_of(times, slots->n_slots, pieces[i].begin), slot_of(times, slots->n_slots, pieces[i].end)};
        slots->live[slots->spans[i].begin] += pieces[i].bytes;
        slots->live[slots->spans[i].end] -= pieces[i].bytes;
    }
    for (uint32_t s = 1; s < slots->n_slots; s++)
        slots->live[s] += slots->live[s - 1];
}

/** About the greatest live bytes of a span. */
static EchBytes span_pressure(const Slots *slots, EchFitSpan span)
{
    EchBytes most = 0;
    /* It only orders: some 64 samples keep it cheap. */
    uint32_t step = MAX((span.end - span.begin) / 64, 1);
    for (uint32_t s = span.begin; s < span.end; s += step)
        most = MAX(most, slots->live[s]);
    return most;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

typedef struct {
    uint32_t first, n; /* pieces */
    EchBytes bytes;    /* largest */
    uint64_t alignment;
    double life, area;
    EchBytes pressure;
    int64_t begin;
} Group;

EchBytes ech_greedy_plan(const EchPlanProblem *problem, EchPlanSolution *solution)
{
    g_autoptr(GArray) array = ech_plan_pieces(problem);
    const EchPlanPiece *pieces = (const EchPlanPiece *)(const void *)array->data;
    Slots slots;
    slots_init(&slots, pieces, array->len);
    g_autofree Group *groups = g_new0(Group, problem->n_groups + 1);
    g_autofree Rank *ranks = g_new(Rank, problem->n_groups + 1);
    g_autofree uint64_t *offsets = g_new0(uint64_t, problem->n_groups + 1);
    uint64_t unit = 0;
    EchBytes smallest = UINT64_MAX;
    for (uint32_t i = 0; i < array->len; i++) {
        Group *group = &groups[pieces[i].group];
        if (group->n++ == 0) {
            group->first = i;
            group->begin = pieces[i].begin;
        }
        double life = (double)pieces[i].end - (double)pieces[i].begin;
        group->life += life;
        group->area += life * (double)pieces[i].bytes;
        group->bytes = MAX(group->bytes, pieces[i].bytes);
        group->pressure = MAX(group->pressure, span_pressure(&slots, slots.spans[i]));
    }
    size_t n_ranks = 0;
    for (uint32_t g = 0; g < problem->n_groups; g++) {
        groups[g].alignment = problem->items[problem->member[problem->first[g]]].alignment;
        if (groups[g].n == 0)
            continue;
        unit = gcd(unit, groups[g].alignment);
        smallest = MIN(smallest, groups[g].bytes);
        ranks[n_ranks++].group = g;
    }
    EchBytes best = UINT64_MAX;
    for (unsigned order = 0; order < N_ORDERS && best > problem->lower_bound; order++) {
        for (size_t i = 0; i < n_ranks; i++) {
            const Group *group = &groups[ranks[i].group];
            double bytes = (double)group->bytes;
            switch (order) {
            case BY_BYTES: ranks[i].key[0] = bytes, ranks[i].key[1] = group->life; break;
            case BY_AREA: ranks[i].key[0] = group->area, ranks[i].key[1] = bytes; break;
            case BY_LIFE: ranks[i].key[0] = group->life, ranks[i].key[1] = bytes; break;
            case BY_PRESSURE: ranks[i].key[0] = (double)group->pressure, ranks[i].key[1] = bytes; break;
            default: ranks[i].key[0] = -(double)group->begin, ranks[i].key[1] = bytes; break;
            }
        }
        qsort(ranks, n_ranks, sizeof *ranks, compare_ranks);
        for (unsigned lowest = 0; lowest < 2 && best > problem->lower_bound; lowest++) {
            g_autoptr(EchFitHeap) fit = ech_fit_heap_new(slots.n_slots, smallest, MAX(unit, 1));
            EchBytes height = 0;
            for (size_t i = 0; i < n_ranks && height < best; i++) {
                const Group *group = &groups[ranks[i].group];
                uint64_t offset = ech_fit_heap_find(fit, slots.spans + group->first, group->n, group->bytes, group->alignment, lowest);
                for (uint32_t p = group->first; p < group->first + group->n; p++)
                    ech_fit_heap_use(fit, slots.spans[p], offset, pieces[p].bytes);
                offsets[ranks[i].group] = offset;
                height = MAX(height, offset + group->bytes);
                solution->steps++;
            }
            if (height >= best)
                continue;
            best = height;
            for (size_t i = 0; i < problem->n; i++)
                solution->offsets[i] = offsets[problem->group[i]];
        }
    }
    g_free(slots.spans);
    g_free(slots.live);
    return n_ranks ? best : 0;
}

static void greedy_plan(const void *object, const EchPlanProblem *problem, EchPlanSolution *solution)
{
    (void)object;
    ech_greedy_plan(problem, solution);
}

const EchPlanClass ech_plan_greedy = {
    .name = "greedy",
    .summary = "Fast heuristic: lowest of ten plans (five orders, best fit and lowest fit)",
    .source = "our own; greedy by size is TensorFlow Lite's rule (Pisarchyk and Lee, arXiv 2001.03288)",
    .object_size = sizeof(Greedy),
    .params = greedy_params,
    .plan = greedy_plan,
};
