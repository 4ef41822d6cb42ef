/* A fast heuristic: one pass in order of time, then the best of several orders, each placed by best fit and by lowest fit, as far as the
 * size of the problem allows: placing in another order costs a look at everything that lives at the same time. */
#include "models/alloc/greedy.h"

#include "models/alloc/heap_fast.h"
#include "models/alloc/heap_fit.h"
#include "models/alloc/plan_internal.h"
#include "sim/base/compare.h"

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
    qsort(times, n, sizeof *times, ech_compare_i64);
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

/* What all passes share. */
typedef struct {
    const EchPlanProblem *problem;
    GArray *array; /* EchPlanPiece */
    const EchPlanPiece *pieces;
    Slots slots;
    Group *groups;     /* groups[n_groups] */
    Rank *ranks;       /* ranks[n_ranks]: of the groups that have pieces */
    uint64_t *offsets; /* offsets[n_groups]: of the pass at hand */
    size_t n_ranks;
    uint64_t unit, common; /* greatest divisor of all alignments; a multiple of all, or 0 where there is none in reach */
    EchBytes smallest;
} Passes;

static void greedy_init(Passes *self, const EchPlanProblem *problem)
{
    *self = (Passes){.problem = problem, .array = ech_plan_pieces(problem), .common = 1, .smallest = UINT64_MAX};
    self->pieces = (const EchPlanPiece *)(const void *)self->array->data;
    self->groups = g_new0(Group, problem->n_groups + 1);
    self->ranks = g_new(Rank, problem->n_groups + 1);
    self->offsets = g_new0(uint64_t, problem->n_groups + 1);
    slots_init(&self->slots, self->pieces, self->array->len);
    for (uint32_t i = 0; i < self->array->len; i++) {
        const EchPlanPiece *piece = &self->pieces[i];
        Group *group = &self->groups[piece->group];
        if (group->n++ == 0) {
            group->first = i;
            group->begin = piece->begin;
        }
        double life = (double)piece->end - (double)piece->begin;
        group->life += life;
        group->area += life * (double)piece->bytes;
        group->bytes = MAX(group->bytes, piece->bytes);
        group->pressure = MAX(group->pressure, span_pressure(&self->slots, self->slots.spans[i]));
    }
    for (uint32_t g = 0; g < problem->n_groups; g++) {
        Group *group = &self->groups[g];
        uint64_t alignment = group->alignment = problem->items[problem->member[problem->first[g]]].alignment;
        if (group->n == 0)
            continue;
        self->unit = ech_gcd(self->unit, alignment);
        uint64_t factor = self->common ? self->common / ech_gcd(self->common, alignment) : 0;
        self->common = factor > (UINT64_C(1) << 40) / alignment ? 0 : factor * alignment;
        self->smallest = MIN(self->smallest, group->bytes);
        self->ranks[self->n_ranks++].group = g;
    }
}

static void greedy_clear(Passes *self)
{
    g_array_unref(self->array);
    g_free(self->groups);
    g_free(self->ranks);
    g_free(self->offsets);
    g_free(self->slots.spans);
    g_free(self->slots.ranks);
    g_free(self->slots.live);
}

static void keep(const Passes *self, EchPlanSolution *solution)
{
    for (size_t i = 0; i < self->problem->n; i++)
        solution->offsets[i] = self->offsets[self->problem->group[i]];
}

static void sort_by(Passes *self, unsigned order)
{
    for (size_t i = 0; i < self->n_ranks; i++) {
        Rank *rank = &self->ranks[i];
        const Group *group = &self->groups[rank->group];
        double bytes = (double)group->bytes;
        switch (order) {
        case BY_BYTES: rank->key[0] = bytes, rank->key[1] = group->life; break;
        case BY_AREA: rank->key[0] = group->area, rank->key[1] = bytes; break;
        case BY_LIFE: rank->key[0] = group->life, rank->key[1] = bytes; break;
        case BY_PRESSURE: rank->key[0] = (double)group->pressure, rank->key[1] = bytes; break;
        default: rank->key[0] = -(double)group->begin, rank->key[1] = bytes; break;
        }
    }
    qsort(self->ranks, self->n_ranks, sizeof *self->ranks, compare_ranks);
}

/* Places all groups in the order they stand in. The height; at least @best where that was passed on the way. */
static EchBytes pass_in_order(Passes *self, bool lowest, EchBytes best, uint64_t *steps)
{
    g_autoptr(EchFitHeap) fit = ech_fit_heap_new((uint32_t)self->array->len, self->slots.mean, self->smallest, MAX(self->unit, 1));
    EchBytes height = 0;
    for (size_t i = 0; i < self->n_ranks && height < best; i++) {
        const Group *group = &self->groups[self->ranks[i].group];
        uint64_t offset = ech_fit_heap_find(fit, self->slots.ranks + group->first, group->n, group->bytes, group->alignment, lowest);
        for (uint32_t p = group->first; p < group->first + group->n; p++)
            ech_fit_heap_use(fit, self->slots.ranks[p], offset, self->pieces[p].bytes);
        self->offsets[self->ranks[i].group] = offset;
        height = MAX(height, offset + group->bytes);
        ++*steps;
    }
    return height;
}

EchBytes ech_greedy_plan(const EchPlanProblem *problem, EchPlanSolution *solution)
{
    Passes self;
    greedy_init(&self, problem);
    EchBytes best = UINT64_MAX;
    if (self.common && self.n_ranks) {
        best = pass_in_time(&self.slots, self.groups, problem->n_groups, self.common, self.offsets);
        keep(&self, solution);
        solution->steps += self.n_ranks;
    }
    double met = 0;
    for (unsigned order = 0; order < N_ORDERS && best > problem->lower_bound; order++) {
        sort_by(&self, order);
        for (unsigned lowest = 0; lowest < 2 && best > problem->lower_bound; lowest++) {
            met += self.slots.meetings;
            if (met > MOST_MEETINGS && best != UINT64_MAX)
                break;
            EchBytes height = pass_in_order(&self, lowest, best, &solution->steps);
            if (height >= best)
                continue;
            best = height;
            keep(&self, solution);
        }
    }
    bool any = self.n_ranks > 0;
    greedy_clear(&self);
    return any ? best : 0;
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
