/* A fast heuristic: one pass in order of time, then the best of several orders, each placed by best fit and by lowest fit, as far as the
 * size of the problem allows: placing in another order costs a look at everything that lives at the same time. */
#include "models/alloc/greedy.h"

#include "models/alloc/heap_fast.h"
#include "models/alloc/heap_fit.h"
#include "models/alloc/plan_internal.h"

#include <string.h>

typedef struct {
    EchPlanObject base;
} Greedy;

static const EchParam greedy_params[] = {
    {"alignment", ECH_PARAM_BYTES, offsetof(Greedy, base.alignment), "1", "1", "1TiB", NULL,
     "Offsets of buffers that state no alignment are multiples of it, in bytes."},
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
    EchFitSpan *ranks; /* the same with a slot for each piece's begin, as the heap of gaps wants it */
    uint64_t mean;     /* length of those */
    EchBytes *live;    /* live[slot] */
    double meetings;   /* pairs of pieces that meet */
} Slots;

/* Meetings that all orders together may look at: some seconds. */
#define MOST_MEETINGS 3e8

/** Slots are the distinct begins: two pieces meet if and only if they meet at one. */
static void slots_init(Slots *slots, const EchPlanPiece *pieces, size_t n)
{
    g_autofree int64_t *times = g_new(int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        times[i] = pieces[i].begin;
    qsort(times, n, sizeof *times, ech_plan_compare_times);
    slots->n_slots = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || times[i] != times[i - 1])
            times[slots->n_slots++] = times[i];
    }
    slots->spans = g_new(EchFitSpan, n + 1);
    slots->live = g_new0(EchBytes, (size_t)slots->n_slots + 1);
    for (size_t i = 0; i < n; i++) {
        slots->spans[i] = (EchFitSpan){ech_plan_slot(times, slots->n_slots, pieces[i].begin), ech_plan_slot(times, slots->n_slots, pieces[i].end)};
        slots->live[slots->spans[i].begin] += pieces[i].bytes;
        slots->live[slots->spans[i].end] -= pieces[i].bytes;
    }
    for (uint32_t s = 1; s < slots->n_slots; s++)
        slots->live[s] += slots->live[s - 1];
    g_autofree int64_t *change = g_new0(int64_t, (size_t)slots->n_slots + 1), *born = g_new0(int64_t, (size_t)slots->n_slots + 1);
    for (size_t i = 0; i < n; i++) {
        change[slots->spans[i].begin]++;
        change[slots->spans[i].end]--;
        born[slots->spans[i].begin]++;
    }
    slots->meetings = 0;
    int64_t count = 0, before = 0;
    for (uint32_t s = 0; s <= slots->n_slots; s++) {
        count += change[s];
        slots->meetings += (double)born[s] * (double)count;
        int64_t here = born[s];
        born[s] = before; /* From now on: begins before the slot. */
        before += here;
    }
    slots->ranks = g_new(EchFitSpan, n + 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        slots->ranks[i].end = (uint32_t)born[slots->spans[i].end];
        sum += slots->ranks[i].end;
    }
    for (size_t i = 0; i < n; i++) {
        slots->ranks[i].begin = (uint32_t)born[slots->spans[i].begin]++;
        sum -= slots->ranks[i].begin;
    }
    slots->mean = sum / MAX(n, 1);
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

typedef struct {
    uint32_t slot, group;
    bool begins;
} Turn;

static int compare_turns(const void *a, const void *b)
{
    const Turn *x = a, *y = b;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

/** Best fit in order of time, groups over their whole hull; offsets are multiples of @alignment. Returns the height. */
static EchBytes pass_in_time(const Slots *slots, const Group *groups, size_t n_groups, uint64_t alignment, uint64_t *offsets)
{
    g_autofree Turn *turns = g_new(Turn, 2 * n_groups + 1);
    g_autofree uint32_t *chunks = g_new(uint32_t, n_groups + 1);
    size_t n = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        if (groups[g].n == 0)
            continue;
        turns[n++] = (Turn){slots->spans[groups[g].first].begin, g, true};
        turns[n++] = (Turn){slots->spans[groups[g].first + groups[g].n - 1].end, g, false};
    }
    qsort(turns, n, sizeof *turns, compare_turns);
    g_autoptr(EchFastHeap) heap = ech_fast_heap_new(0, alignment);
    EchBytes height = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t g = turns[i].group;
        if (turns[i].begins) {
            chunks[g] = ech_fast_heap_take(heap, groups[g].bytes, &offsets[g]);
            height = MAX(height, offsets[g] + groups[g].bytes);
        } else {
            ech_fast_heap_give(heap, chunks[g]);
        }
    }
    return height;
}

EchBytes ech_greedy_plan(const EchPlanProblem *problem, EchPlanSolution *solution)
{
    g_autoptr(GArray) array = ech_plan_pieces(problem);
    const EchPlanPiece *pieces = (const EchPlanPiece *)(const void *)array->data;
    Slots slots;
    slots_init(&slots, pieces, array->len);
    g_autofree Group *groups = g_new0(Group, problem->n_groups + 1);
    g_autofree Rank *ranks = g_new(Rank, problem->n_groups + 1);
    g_autofree uint64_t *offsets = g_new0(uint64_t, problem->n_groups + 1);
    uint64_t unit = 0, common = 1; /* common: a multiple of all alignments, or 0 where there is none in reach */
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
        common = common == 0 || common / gcd(common, groups[g].alignment) > (UINT64_C(1) << 40) / groups[g].alignment
                     ? 0
                     : common / gcd(common, groups[g].alignment) * groups[g].alignment;
        smallest = MIN(smallest, groups[g].bytes);
        ranks[n_ranks++].group = g;
    }
    EchBytes best = UINT64_MAX;
    if (common && n_ranks) {
        best = pass_in_time(&slots, groups, problem->n_groups, common, offsets);
        for (size_t i = 0; i < problem->n; i++)
            solution->offsets[i] = offsets[problem->group[i]];
        solution->steps += n_ranks;
    }
    double met = 0;
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
            met += slots.meetings;
            if (met > MOST_MEETINGS && best != UINT64_MAX)
                break;
            g_autoptr(EchFitHeap) fit = ech_fit_heap_new((uint32_t)array->len, slots.mean, smallest, MAX(unit, 1));
            EchBytes height = 0;
            for (size_t i = 0; i < n_ranks && height < best; i++) {
                const Group *group = &groups[ranks[i].group];
                uint64_t offset = ech_fit_heap_find(fit, slots.ranks + group->first, group->n, group->bytes, group->alignment, lowest);
                for (uint32_t p = group->first; p < group->first + group->n; p++)
                    ech_fit_heap_use(fit, slots.ranks[p], offset, pieces[p].bytes);
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
    g_free(slots.ranks);
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
    .summary = "Fast heuristic: lowest of up to eleven plans (in order of time; five orders, best fit and lowest fit)",
    .source = "our own; greedy by size is TensorFlow Lite's rule (Pisarchyk and Lee, arXiv 2001.03288)",
    .object_size = sizeof(Greedy),
    .params = greedy_params,
    .plan = greedy_plan,
};
