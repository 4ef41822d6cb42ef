/* Properties that every planner of the table must have: a new planner is tested by being registered. */
#include "models/alloc/heap_fit.h"
#include "models/alloc/plan.h"
#include "models/place/xheap.h"
#include "sim/base/error.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Specs beside the bare names. Step limits keep searches the same on every machine. */
static const char *const more_specs[] = {
    "xla:algorithm=spatial,alignment=1",
    "xla:algorithm=temporal,alignment=64",
    "xla:algorithm=phase",
    "xla:algorithm=phase_end,alignment=24",
    "xla:algorithm=fast_merge,alignment=16",
    "xla:algorithm=fast_split,alignment=1",
    "xla:algorithm=spatial,alignment=1,limit=600",
    "xla:algorithm=best,alignment=8,limit=2000",
    "xla:algorithm=fast_merge,alignment=32,limit=900",
    "xla:algorithm=fast_split,alignment=1,limit=700",
    "exact:step_limit=1000,alignment=8",
    "greedy:alignment=48",
};

static GPtrArray *specs;
static uint64_t state;

static void fill_specs(void)
{
    size_t n;
    const EchPlanClass *const *classes = ech_plan_classes(&n);
    specs = g_ptr_array_new();
    for (size_t i = 0; i < n; i++)
        g_ptr_array_add(specs, strcmp(classes[i]->name, "exact") == 0 ? g_strdup("exact:step_limit=1000") : g_strdup(classes[i]->name));
    for (size_t i = 0; i < G_N_ELEMENTS(more_specs); i++)
        g_ptr_array_add(specs, g_strdup(more_specs[i]));
}

static uint64_t draw(void)
{
    return ech_test_draw(&state);
}

static uint64_t below(uint64_t n)
{
    return draw() % n;
}

enum { N_KINDS = 6 };

/* Kinds: plain; with zero sizes and lives; aligned; coloured; co-located; everything. */
static size_t draw_items(EchPlanItem *items, int kind)
{
    static const EchBytes alignments[] = {0, 0, 1, 8, 16, 24, 64, 100};
    size_t n = 1 + (size_t)below(kind == 4 || kind == 5 ? 90 : 60);
    int64_t span = 4 + (int64_t)below(80);
    for (size_t i = 0; i < n; i++) {
        int64_t begin = (int64_t)below((uint64_t)span) - 10;
        items[i] = (EchPlanItem){begin, begin + 1 + (int64_t)below((uint64_t)span), 1 + below(below(4) ? 60 : 500), 0, 0, ECH_PLAN_ALONE};
        if (kind == 1 || kind == 5) {
            if (below(6) == 0)
                items[i].bytes = 0;
            if (below(8) == 0)
                items[i].end = items[i].begin;
        }
        if (kind == 2 || kind == 5)
            items[i].alignment = alignments[below(G_N_ELEMENTS(alignments))];
        if (kind == 3 || kind == 5)
            items[i].colour = (uint32_t)below(3) * 5;
        if ((kind == 4 || kind == 5) && below(2))
            items[i].colocation = 7 + (uint32_t)below(8);
    }
    return n;
}

/* The textbook test of all pairs: shares nothing with ech_plan_check. */
static void check_pairs(const char *spec, uint64_t seed, const EchPlanItem *items, size_t n, const EchPlan *plan)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(items[i].alignment == 0 || items[i].bytes == 0 || plan->offsets[i] % items[i].alignment == 0,
                      "%s: seed %" G_GUINT64_FORMAT ": buffer %zu is not aligned", spec, seed, i);
        ck_assert_uint_lt(plan->heaps[i], plan->n_heaps);
        ck_assert_uint_eq(plan->heap_colours[plan->heaps[i]], items[i].colour);
        ck_assert_msg(items[i].bytes == 0 || plan->offsets[i] + items[i].bytes <= plan->heap_bytes[plan->heaps[i]],
                      "%s: seed %" G_GUINT64_FORMAT ": buffer %zu passes the height", spec, seed, i);
        for (size_t j = 0; j < i; j++) {
            if (plan->heaps[i] != plan->heaps[j] || items[i].bytes == 0 || items[j].bytes == 0)
                continue;
            if (items[i].colocation == items[j].colocation && items[i].colocation != ECH_PLAN_ALONE) {
                ck_assert_msg(plan->offsets[i] == plan->offsets[j], "%s: seed %" G_GUINT64_FORMAT ": %zu and %zu do not share", spec, seed, j, i);
                continue;
            }
            bool meet = MAX(items[i].begin, items[j].begin) < MIN(items[i].end, items[j].end);
            bool apart = plan->offsets[i] + items[i].bytes <= plan->offsets[j] || plan->offsets[j] + items[j].bytes <= plan->offsets[i];
            ck_assert_msg(!meet || apart, "%s: seed %" G_GUINT64_FORMAT ": %zu and %zu overlap", spec, seed, j, i);
        }
    }
}

/* Most bytes live at once in a colour, a group counted as its largest live member; at least the largest item. Straight from the definition. */
static EchBytes bound_of(const EchPlanItem *items, size_t n, uint32_t colour)
{
    EchBytes bound = 0;
    for (size_t at = 0; at < n; at++) {
        if (items[at].colour != colour)
            continue;
        int64_t time = items[at].begin;
        EchBytes live = 0;
        for (size_t i = 0; i < n; i++) {
            bool counts = items[i].colour == colour && items[i].begin <= time && time < items[i].end;
            for (size_t j = 0; counts && items[i].colocation != ECH_PLAN_ALONE && j < n; j++) {
                bool together = j != i && items[j].colour == colour && items[j].colocation == items[i].colocation;
                if (together && items[j].begin <= time && time < items[j].end)
                    counts = items[j].bytes < items[i].bytes || (items[j].bytes == items[i].bytes && j > i);
            }
            live += counts ? items[i].bytes : 0;
        }
        bound = MAX(bound, MAX(live, items[at].bytes));
    }
    return bound;
}

START_TEST(plans_are_legal)
{
    const char *spec = specs->pdata[_i / N_KINDS];
    int kind = _i % N_KINDS;
    for (int round = 0; round < 5; round++) {
        uint64_t seed = ech_test_seed_of(round * 100 + kind);
        state = seed;
        EchPlanItem items[128];
        size_t n = draw_items(items, kind);
        GError *error = NULL;
        g_autoptr(EchPlan) plan = ech_plan_new(spec, items, n, 0, &error);
        ck_assert_msg(plan != NULL, "%s: seed %" G_GUINT64_FORMAT ": %s", spec, seed, error ? error->message : "");
        check_pairs(spec, seed, items, n, plan);
        ck_assert_msg(ech_plan_check(items, n, plan, &error), "%s: seed %" G_GUINT64_FORMAT ": %s", spec, seed, error ? error->message : "");
        EchBytes bound = bound_of(items, n, 0) + bound_of(items, n, 5) + bound_of(items, n, 10), sum = 0;
        for (size_t h = 0; h < plan->n_heaps; h++)
            sum += plan->heap_bytes[h];
        ck_assert_uint_eq(plan->height, sum);
        ck_assert_uint_eq(plan->lower_bound, bound);
        ck_assert_msg(strstr(spec, "limit=") || plan->height >= bound, "%s: seed %" G_GUINT64_FORMAT ": below the lower bound", spec, seed);
        /* Determinism. */
        g_autoptr(EchPlan) again = ech_plan_new(spec, items, n, 0, NULL);
        ck_assert_mem_eq(plan->offsets, again->offsets, n * sizeof *plan->offsets);
        ck_assert_mem_eq(plan->heaps, again->heaps, n * sizeof *plan->heaps);
    }
}
END_TEST

/* Only the order of times counts: a thousand times as far apart, the plan is the same. */
START_TEST(times_are_only_ordered)
{
    const char *spec = specs->pdata[_i];
    for (int round = 0; round < N_KINDS; round++) {
        state = ech_test_seed_of(round);
        EchPlanItem items[128];
        size_t n = draw_items(items, round);
        g_autoptr(EchPlan) near = ech_plan_new(spec, items, n, 0, NULL);
        for (size_t i = 0; i < n; i++) {
            items[i].begin *= 1000;
            items[i].end *= 1000;
        }
        g_autoptr(EchPlan) far = ech_plan_new(spec, items, n, 0, NULL);
        ck_assert_msg(memcmp(near->offsets, far->offsets, n * sizeof *near->offsets) == 0, "%s: kind %d", spec, round);
    }
}
END_TEST

/* Thousands live at a time, of many sizes, so that every structure behind a planner of one pass splits and joins what it holds. */
START_TEST(many_lives_are_placed_legally)
{
    enum { N = 2000 };
    static const char *const fast[] = {"xla:algorithm=fast_merge", "xla:algorithm=best"};
    g_autofree EchPlanItem *items = g_new(EchPlanItem, N);
    state = ech_test_seed_of(_i);
    for (int i = 0; i < N; i++)
        items[i] = (EchPlanItem){i, i + 1 + (int64_t)below(1500), 1 + below(1 << 20), 0, 0, ECH_PLAN_ALONE};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchPlan) plan = ech_plan_new(fast[_i], items, N, 0, &error);
    ck_assert_ok(plan != NULL, error);
    ck_assert_ok(ech_plan_check(items, N, plan, &error), error);
}
END_TEST

/* The checker itself: a legal plan made illegal is refused. */
START_TEST(damaged_plans_are_refused)
{
    unsigned refused = 0, tried = 0;
    for (int round = 0; round < 60; round++) {
        state = ech_test_seed_of(round);
        EchPlanItem items[128];
        size_t n = draw_items(items, round % N_KINDS);
        g_autoptr(EchPlan) plan = ech_plan_new("greedy", items, n, 0, NULL);
        size_t victim = (size_t)below(n);
        plan->offsets[victim] = plan->offsets[victim] > 0 && below(2) ? plan->offsets[victim] - 1 : plan->offsets[victim] + 1;
        bool illegal = plan->offsets[victim] + items[victim].bytes > plan->heap_bytes[plan->heaps[victim]];
        illegal = illegal || (items[victim].alignment && plan->offsets[victim] % items[victim].alignment != 0);
        for (size_t j = 0; j < n; j++) {
            if (j == victim || items[j].bytes == 0 || items[j].colour != items[victim].colour)
                continue;
            if (items[j].colocation == items[victim].colocation && items[j].colocation != ECH_PLAN_ALONE)
                illegal = illegal || plan->offsets[j] != plan->offsets[victim];
            else if (MAX(items[j].begin, items[victim].begin) < MIN(items[j].end, items[victim].end))
                illegal =
                    illegal || (plan->offsets[j] < plan->offsets[victim] + items[victim].bytes && plan->offsets[victim] < plan->offsets[j] + items[j].bytes);
        }
        if (items[victim].bytes == 0 || items[victim].begin >= items[victim].end)
            continue;
        g_autoptr(GError) error = NULL;
        tried++;
        ck_assert_msg(ech_plan_check(items, n, plan, &error) == !illegal, "seed %" G_GUINT64_FORMAT, ech_test_seed_of(round));
        refused += illegal;
    }
    ck_assert_uint_gt(refused, tried / 4);
}
END_TEST

/* Every order of groups, each pushed down to the lowest place above all earlier ones that meet it: contains a lowest plan. */
static EchBytes best_of_all(const EchPlanItem *items, size_t n, uint64_t *offsets, unsigned placed, EchBytes height, EchBytes best)
{
    if (height >= best)
        return best;
    if (placed == (1u << n) - 1)
        return height;
    for (size_t i = 0; i < n; i++) {
        if (placed >> i & 1)
            continue;
        uint64_t at = 0;
        for (size_t j = 0; j < n; j++) {
            if ((placed >> j & 1) && MAX(items[i].begin, items[j].begin) < MIN(items[i].end, items[j].end))
                at = MAX(at, offsets[j] + items[j].bytes);
        }
        if (items[i].alignment > 1)
            at = ech_round_up(at, items[i].alignment);
        offsets[i] = at;
        best = best_of_all(items, n, offsets, placed | 1u << i, MAX(height, at + items[i].bytes), best);
    }
    return best;
}

START_TEST(exact_is_lowest)
{
    for (int round = 0; round < 15; round++) {
        uint64_t seed = ech_test_seed_of(_i * 1000 + round);
        state = seed;
        EchPlanItem items[7];
        size_t n = 3 + (size_t)below(5);
        for (size_t i = 0; i < n; i++) {
            int64_t begin = (int64_t)below(6);
            items[i] = (EchPlanItem){begin,         begin + 1 + (int64_t)below(5), 1 + below(_i ? 40 : 9), _i == 2 ? (EchBytes[]){1, 4, 6, 8}[below(4)] : 0, 0,
                                     ECH_PLAN_ALONE};
        }
        uint64_t offsets[7];
        EchBytes best = best_of_all(items, n, offsets, 0, 0, UINT64_MAX);
        g_autoptr(EchPlan) plan = ech_plan_new("exact:time_limit=1000s", items, n, 0, NULL);
        ck_assert_msg(plan->height == best, "seed %" G_GUINT64_FORMAT ": %" G_GUINT64_FORMAT ", lowest is %" G_GUINT64_FORMAT, seed, plan->height, best);
        ck_assert(plan->proved_optimal);
    }
}
END_TEST

/* best_of_all() for groups, what never lives among their members. */
typedef struct {
    const EchPlanItem *items;
    size_t n_groups;
    struct {
        size_t n, at[8];
        uint64_t alignment;
    } groups[8];
} Groups;

static EchBytes best_of_groups(const Groups *all, uint64_t *offsets, unsigned placed, EchBytes height, EchBytes best)
{
    if (height >= best)
        return best;
    if (placed == (1u << all->n_groups) - 1)
        return height;
    for (size_t g = 0; g < all->n_groups; g++) {
        uint64_t at = 0, top = height;
        for (size_t o = 0; o < all->n_groups; o++)
            for (size_t x = 0; (placed >> o & 1) && x < all->groups[g].n; x++)
                for (size_t y = 0; y < all->groups[o].n; y++) {
                    const EchPlanItem *a = &all->items[all->groups[g].at[x]], *b = &all->items[all->groups[o].at[y]];
                    if (a->bytes && b->bytes && MAX(a->begin, b->begin) < MIN(a->end, b->end))
                        at = MAX(at, offsets[o] + b->bytes);
                }
        if (placed >> g & 1)
            continue;
        offsets[g] = at = ech_round_up(at, all->groups[g].alignment);
        for (size_t x = 0; x < all->groups[g].n; x++)
            top = MAX(top, all->items[all->groups[g].at[x]].bytes ? at + all->items[all->groups[g].at[x]].bytes : 0);
        best = best_of_groups(all, offsets, placed | 1u << g, top, best);
    }
    return best;
}

static Groups groups_of(const EchPlanItem *items, size_t n)
{
    Groups all = {.items = items};
    for (size_t i = 0; i < n; i++) {
        size_t g = 0;
        while (g < all.n_groups && (items[i].colocation == ECH_PLAN_ALONE || items[all.groups[g].at[0]].colocation != items[i].colocation))
            g++;
        if (g == all.n_groups)
            all.groups[all.n_groups++].alignment = 1;
        all.groups[g].at[all.groups[g].n++] = i;
        uint64_t alignment = MAX(items[i].alignment, 1), common = all.groups[g].alignment;
        all.groups[g].alignment = common / ech_gcd(common, alignment) * alignment;
    }
    return all;
}

/* What is said to be proved is so: groups, some with members that never live but count for the height, alignments that are no multiples of one another. */
START_TEST(proofs_hold)
{
    static const EchBytes alignments[] = {1, 4, 6, 8, 9, 12, 16};
    unsigned proved = 0;
    for (int round = 0; round < 300; round++) {
        uint64_t seed = ech_test_seed_of(_i * 1000 + round);
        state = seed;
        EchPlanItem items[7];
        size_t n = 3 + (size_t)below(5);
        for (size_t i = 0; i < n; i++) {
            int64_t begin = (int64_t)below(6);
            items[i] = (EchPlanItem){begin, begin + (below(5) ? 1 + (int64_t)below(5) : 0), below(9) ? 1 + below(20) : 0, 0, 0, ECH_PLAN_ALONE};
            if (below(2))
                items[i].colocation = (uint32_t)below(3);
            if (_i == 1) {
                items[i].bytes *= 12;
                items[i].alignment = alignments[below(G_N_ELEMENTS(alignments))];
            }
        }
        uint64_t offsets[8];
        Groups all = groups_of(items, n);
        EchBytes best = best_of_groups(&all, offsets, 0, 0, UINT64_MAX);
        g_autoptr(EchPlan) plan = ech_plan_new("exact:time_limit=1000s", items, n, 0, NULL);
        ck_assert_msg(plan->height == best || (!plan->proved_optimal && plan->height > best),
                      "seed %" G_GUINT64_FORMAT ": %" G_GUINT64_FORMAT ", said to be proved; lowest is %" G_GUINT64_FORMAT, seed, plan->height, best);
        proved += plan->proved_optimal;
    }
    ck_assert_uint_gt(proved, 250);
}
END_TEST

/* Two done independently: the heaps of buffer assignment, driven by events, place as the planner does, driven by lives. */
START_TEST(heaps_of_events_place_alike)
{
    static const char *const heaps[] = {"xla:algorithm=fast_merge,alignment=16", "xla:algorithm=spatial,alignment=16", "xla:algorithm=temporal,alignment=16"};
    static const EchXheapAlgorithm algorithms[] = {ECH_XHEAP_FAST_MERGE, ECH_XHEAP_SPATIAL, ECH_XHEAP_TEMPORAL};
    enum { MOST = 60 };
    for (int round = 0; round < 60; round++) {
        uint64_t seed = ech_test_seed_of(_i * 1000 + round);
        state = seed;
        uint32_t n = 2 + (uint32_t)below(MOST - 1), n_live = 0, n_events = 0, made = 0, live[MOST];
        EchXheapEvent events[2 * MOST];
        EchPlanItem items[MOST];
        EchBytes sizes[MOST];
        uint64_t ids[MOST], offsets[MOST];
        while (made < n || n_live > 0) {
            if (made < n && (n_live == 0 || below(5) < 3)) {
                uint32_t with = made > 0 && round % 2 && below(2) ? (uint32_t)below(made) : made;
                sizes[made] = 1 + below(below(3) ? 50 : 400);
                ids[made] = made;
                items[made] = (EchPlanItem){n_events, 0, sizes[made], 0, 0, with < made ? items[with].colocation : made};
                events[n_events++] = (EchXheapEvent){with < made ? ECH_XHEAP_SHARE : ECH_XHEAP_ALLOC, made, with};
                live[n_live++] = made++;
            } else {
                uint32_t pick = (uint32_t)below(n_live);
                items[live[pick]].end = n_events;
                events[n_events++] = (EchXheapEvent){ECH_XHEAP_RELEASE, live[pick], 0};
                live[pick] = live[--n_live];
            }
        }
        EchBytes height = ech_xheap_run(algorithms[_i], 16, events, n_events, sizes, ids, n, offsets);
        g_autoptr(EchPlan) plan = ech_plan_new(heaps[_i], items, n, 0, NULL);
        ck_assert_uint_eq(height, plan->height);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(offsets[i] == plan->offsets[i],
                          "%s: seed %" G_GUINT64_FORMAT ": buffer %u at %" G_GUINT64_FORMAT ", the planner says %" G_GUINT64_FORMAT, heaps[_i], seed, i,
                          offsets[i], plan->offsets[i]);
    }
}
END_TEST

/* Buffers cut from a full rectangle: a plan at the lower bound exists. */
START_TEST(exact_restores_a_cut_rectangle)
{
    for (int round = 0; round < 5; round++) {
        uint64_t seed = ech_test_seed_of(round);
        state = seed;
        EchPlanItem items[64];
        uint64_t lows[64];
        size_t n = 1;
        items[0] = (EchPlanItem){0, 64, 256, 0, 0, ECH_PLAN_ALONE};
        lows[0] = 0;
        while (n < 40) {
            size_t i = (size_t)below(n);
            if (below(2) && items[i].end - items[i].begin > 1) {
                int64_t at = items[i].begin + 1 + (int64_t)below((uint64_t)(items[i].end - items[i].begin - 1));
                items[n] = items[i];
                items[n].begin = at;
                items[i].end = at;
                lows[n++] = lows[i];
            } else if (items[i].bytes > 1) {
                EchBytes at = 1 + below(items[i].bytes - 1);
                items[n] = items[i];
                items[n].bytes -= at;
                items[i].bytes = at;
                lows[n] = lows[i] + at;
                n++;
            }
        }
        g_autoptr(EchPlan) plan = ech_plan_new("exact:time_limit=1000s", items, n, 0, NULL);
        ck_assert_uint_eq(plan->lower_bound, 256);
        ck_assert_msg(plan->height == 256 && plan->proved_optimal, "seed %" G_GUINT64_FORMAT ": %" G_GUINT64_FORMAT, seed, plan->height);
    }
}
END_TEST

typedef struct {
    EchFitSpan span;
    uint64_t lo, hi;
} Placed;

static int compare_placed(const void *a, const void *b)
{
    const Placed *left = a, *right = b;
    return (left->lo > right->lo) - (left->lo < right->lo);
}

/* What ech_fit_heap_find promises, by looking at everything placed so far. */
static uint64_t plain_find(const Placed *placed, size_t n, const EchFitSpan *spans, size_t n_spans, EchBytes bytes, uint64_t alignment, bool lowest)
{
    g_autofree Placed *met = g_new(Placed, n + 1);
    size_t n_met = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_spans; k++)
            if (placed[i].span.begin < spans[k].end && placed[i].span.end > spans[k].begin) {
                met[n_met++] = placed[i];
                break;
            }
    qsort(met, n_met, sizeof *met, compare_placed);
    uint64_t lo = 0, best = 0, best_room = UINT64_MAX;
    for (size_t i = 0; i <= n_met; i++) {
        uint64_t start = ech_round_up(lo, alignment);
        if (i == n_met && best_room == UINT64_MAX)
            return start;
        if (i < n_met && start < met[i].lo && met[i].lo - start >= bytes && met[i].lo - start < best_room) {
            best = start;
            best_room = met[i].lo - start;
            if (lowest)
                break;
        }
        if (i < n_met)
            lo = MAX(lo, met[i].hi);
    }
    return best;
}

/* Sizes, lifetimes and orders of several kinds, enough of them for many blocks of time and many leaves of gaps. */
START_TEST(heap_finds_what_a_plain_one_finds)
{
    enum { N = 1500 };
    static Placed placed[2 * N];
    uint64_t seed = ech_test_seed_of(_i);
    state = seed;
    uint32_t n_slots = 1 + (uint32_t)below(_i % 2 ? 6000 : 300), longest = 1 + (uint32_t)below(n_slots), ends_at = 1 + (uint32_t)below(n_slots);
    EchBytes largest = _i % 3 ? 5000 : 12;
    uint64_t alignment = (uint64_t[]){1, 8, 24, 256}[below(4)], sum = 0;
    EchBytes smallest = 1 + below(largest);
    g_autofree EchFitSpan *spans = g_new(EchFitSpan, 2 * N);
    g_autofree EchBytes *bytes = g_new(EchBytes, N);
    for (size_t i = 0; i < N; i++) {
        bytes[i] = smallest + below(largest);
        for (size_t k = 2 * i; k < 2 * i + 2; k++) {
            uint32_t begin = (uint32_t)below(n_slots), length = 1 + (uint32_t)below(below(4) ? 1 + longest / 50 : longest);
            spans[k] = (EchFitSpan){begin, MIN(n_slots, begin + length)};
            if (_i % 5 == 4 && begin < ends_at)
                spans[k].end = ends_at; /* Many die at once. */
            sum += spans[k].end - spans[k].begin;
        }
    }
    g_autoptr(EchFitHeap) heap = ech_fit_heap_new(n_slots, _i % 7 == 6 ? 1 : sum / (2 * N), smallest, alignment);
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        size_t n_spans = _i % 4 == 3 && below(3) == 0 ? 2 : 1;
        uint64_t at = alignment * (below(8) ? 1 : 2);
        bool lowest = below(5) == 0;
        uint64_t offset = ech_fit_heap_find(heap, spans + 2 * i, n_spans, bytes[i], at, lowest);
        uint64_t plain = plain_find(placed, n, spans + 2 * i, n_spans, bytes[i], at, lowest);
        ck_assert_msg(offset == plain, "seed %" G_GUINT64_FORMAT ", buffer %zu: %" G_GUINT64_FORMAT ", a plain heap says %" G_GUINT64_FORMAT, seed, i, offset,
                      plain);
        for (size_t k = 0; k < n_spans; k++) {
            ech_fit_heap_use(heap, spans[2 * i + k], offset, bytes[i]);
            placed[n++] = (Placed){spans[2 * i + k], offset, offset + bytes[i]};
        }
    }
}
END_TEST

int main(void)
{
    fill_specs();
    ech_test_print_seed();
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("properties");
    tcase_add_loop_test(tests, plans_are_legal, 0, (int)specs->len * N_KINDS);
    tcase_add_loop_test(tests, times_are_only_ordered, 0, (int)specs->len);
    tcase_add_loop_test(tests, many_lives_are_placed_legally, 0, 2);
    tcase_add_test(tests, damaged_plans_are_refused);
    tcase_add_loop_test(tests, exact_is_lowest, 0, 3);
    tcase_add_loop_test(tests, proofs_hold, 0, 2);
    tcase_add_loop_test(tests, heaps_of_events_place_alike, 0, 3);
    tcase_add_test(tests, exact_restores_a_cut_rectangle);
    tcase_add_loop_test(tests, heap_finds_what_a_plain_one_finds, 0, 20);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
