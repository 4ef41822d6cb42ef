#include "models/alloc/plan.h"

#include "models/alloc/plan_internal.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/heap.h"

#include <string.h>

#define MAX_ADDRESS (UINT64_C(1) << 62)

#define ECH_PLANNER(name) extern const EchPlanClass ech_plan_##name;
#include "models/alloc/planners.def"
#undef ECH_PLANNER

static const EchPlanClass *const class_table[] = {
#define ECH_PLANNER(name) &ech_plan_##name,
#include "models/alloc/planners.def"
#undef ECH_PLANNER
};

struct EchPlanner {
    const EchPlanClass *class;
    EchPlanObject *object;
    char *name;
    const volatile sig_atomic_t *stop; /* of EchPlanProblem, and so is the next */
    void (*progress)(uint64_t done, uint64_t total);
};

const EchPlanClass *const *ech_plan_classes(size_t *ret_n)
{
    *ret_n = G_N_ELEMENTS(class_table);
    return class_table;
}

static const EchPlanClass *find_class(const char *name, GError **error)
{
    const char *names[G_N_ELEMENTS(class_table) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(class_table); i++) {
        if (strcmp(class_table[i]->name, name) == 0)
            return class_table[i];
        names[i] = class_table[i]->name;
    }
    const char *nearest = ech_nearest_name(name, names);
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not a planner; expected one of %s%s%s%s", name, all, nearest ? " (did you mean " : "",
                nearest ? nearest : "", nearest ? "?)" : "");
    return NULL;
}

EchPlanner *ech_planner_new(const char *spec, GError **error)
{
    g_autofree char *name = NULL, *rest = NULL;
    ech_spec_split(spec, &name, &rest);
    const EchPlanClass *class = find_class(name, error);
    if (!class)
        return NULL;
    EchPlanObject *object = g_malloc0(class->object_size);
    ech_params_defaults(class->params, object);
    if (!ech_params_parse(class->params, object, rest, error)) {
        g_prefix_error(error, "%s: ", name);
        ech_params_clear(class->params, object);
        g_free(object);
        return NULL;
    }
    g_autofree char *params = ech_params_print(class->params, object);
    EchPlanner *planner = g_new0(EchPlanner, 1);
    planner->class = class;
    planner->object = object;
    planner->name = params[0] ? g_strdup_printf("%s:%s", class->name, params) : g_strdup(class->name);
    return planner;
}

void ech_planner_free(EchPlanner *planner)
{
    if (!planner)
        return;
    ech_params_clear(planner->class->params, planner->object);
    g_free(planner->object);
    g_free(planner->name);
    g_free(planner);
}

const char *ech_planner_name(const EchPlanner *planner)
{
    return planner->name;
}

bool ech_planner_stop_when(EchPlanner *planner, const volatile sig_atomic_t *stop)
{
    planner->stop = stop;
    return planner->class->searches;
}

void ech_planner_tell(EchPlanner *planner, void (*progress)(uint64_t done, uint64_t total))
{
    planner->progress = progress;
}

void ech_plan_free(EchPlan *plan)
{
    if (!plan)
        return;
    g_free(plan->offsets);
    g_free(plan->heaps);
    g_free(plan->heap_bytes);
    g_free(plan->heap_colours);
    g_free(plan);
}

/* ---- Groups ---- */

typedef struct {
    uint32_t colour, colocation, index;
} Key;

static int compare_keys(const void *a, const void *b)
{
    const Key *left = a, *right = b;
    if (left->colour != right->colour)
        return left->colour < right->colour ? -1 : 1;
    if (left->colocation != right->colocation)
        return left->colocation < right->colocation ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

/** Fills group, member and first from the colocation numbers of @items[@n], all of one colour. */
static uint32_t make_groups(const EchPlanItem *items, size_t n, uint32_t *group, uint32_t *member, uint32_t *first)
{
    Key *keys = g_new(Key, n ? n : 1);
    size_t n_keys = 0;
    for (size_t i = 0; i < n; i++) {
        group[i] = ECH_PLAN_ALONE;
        if (items[i].colocation != ECH_PLAN_ALONE)
            keys[n_keys++] = (Key){0, items[i].colocation, (uint32_t)i};
    }
    qsort(keys, n_keys, sizeof *keys, compare_keys);
    /* Every member points to its group's first item; then groups are numbered in index order. */
    for (size_t i = 0; i < n_keys; i++)
        group[keys[i].index] = i > 0 && keys[i - 1].colocation == keys[i].colocation ? group[keys[i - 1].index] : keys[i].index;
    g_free(keys);
    uint32_t n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        if (group[i] == ECH_PLAN_ALONE || group[i] == i)
            group[i] = n_groups++;
        else
            group[i] = group[group[i]];
    }
    memset(first, 0, ((size_t)n_groups + 1) * sizeof *first);
    for (size_t i = 0; i < n; i++)
        first[group[i] + 1]++;
    for (uint32_t g = 0; g < n_groups; g++)
        first[g + 1] += first[g];
    uint32_t *next = g_memdup2(first, ((size_t)n_groups + 1) * sizeof *first);
    for (size_t i = 0; i < n; i++)
        member[next[group[i]]++] = (uint32_t)i;
    g_free(next);
    return n_groups;
}

/* ---- Pieces: a group's life as disjoint intervals of one size each ---- */

static int compare_begins(const void *a, const void *b)
{
    const EchPlanItem *left = *(const EchPlanItem *const *)a, *right = *(const EchPlanItem *const *)b;
    return (left->begin > right->begin) - (left->begin < right->begin);
}

static gint compare_sizes(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    EchBytes x = (*(const EchPlanItem *const *)a)->bytes, y = (*(const EchPlanItem *const *)b)->bytes;
    return (x < y) - (x > y);
}

static void add_piece(GArray *pieces, uint32_t group, int64_t begin, int64_t end, EchBytes bytes)
{
    if (pieces->len > 0) {
        EchPlanPiece *last = &g_array_index(pieces, EchPlanPiece, pieces->len - 1);
        if (last->group == group && last->end == begin && last->bytes == bytes) {
            last->end = end;
            return;
        }
    }
    EchPlanPiece piece = {begin, end, bytes, group};
    g_array_append_val(pieces, piece);
}

/** Sweeps the members by begin with a heap by size; members that have ended leave it when they come to the top. */
static void flatten_group(const EchPlanItem **members, size_t n, uint32_t group, GArray *pieces)
{
    qsort(members, n, sizeof *members, compare_begins);
    g_autoptr(GArray) heap = g_array_new(FALSE, FALSE, sizeof *members);
    size_t next = 0;
    int64_t now = 0;
    while (next < n || heap->len > 0) {
        if (heap->len == 0)
            now = members[next]->begin;
        for (; next < n && members[next]->begin <= now; next++)
            ech_heap_push(heap, &members[next], compare_sizes, NULL);
        const EchPlanItem *largest = NULL;
        while (heap->len > 0 && (largest = g_array_index(heap, const EchPlanItem *, 0))->end <= now)
            ech_heap_pop(heap, &largest, compare_sizes, NULL);
        if (heap->len == 0)
            continue;
        int64_t until = largest->end;
        if (next < n)
            until = MIN(until, members[next]->begin);
        add_piece(pieces, group, now, until, largest->bytes);
        now = until;
    }
}

uint32_t ech_plan_slot(const int64_t *times, uint32_t n, int64_t time)
{
    uint32_t low = 0, high = n;
    ECH_SEARCH(low, high, middle, times[middle] < time);
    return low;
}

GArray *ech_plan_pieces(const EchPlanProblem *problem)
{
    GArray *pieces = g_array_new(FALSE, FALSE, sizeof(EchPlanPiece));
    g_autofree const EchPlanItem **members = g_new(const EchPlanItem *, problem->n ? problem->n : 1);
    for (uint32_t g = 0; g < problem->n_groups; g++) {
        size_t n = 0;
        for (uint32_t m = problem->first[g]; m < problem->first[g + 1]; m++) {
            const EchPlanItem *item = &problem->items[problem->member[m]];
            if (item->bytes > 0 && item->begin < item->end)
                members[n++] = item;
        }
        if (n == 1)
            add_piece(pieces, g, members[0]->begin, members[0]->end, members[0]->bytes);
        else if (n > 1)
            flatten_group(members, n, g, pieces);
    }
    return pieces;
}

typedef struct {
    int64_t time;
    int64_t delta;
} Edge;

static int compare_edges(const void *a, const void *b)
{
    const Edge *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    return (left->delta > right->delta) - (left->delta < right->delta);
}

/** The same without sorting where times are dense, as event indices are; at one time ends come before begins, so that only the sum of a time counts. */
static EchBytes dense_pressure(const GArray *pieces, int64_t low, size_t range)
{
    g_autofree uint64_t *deltas = g_new0(uint64_t, range + 1); /* modulo 2^64: sizes have not been added up yet */
    for (guint i = 0; i < pieces->len; i++) {
        const EchPlanPiece *piece = &g_array_index(pieces, EchPlanPiece, i);
        deltas[(uint64_t)piece->begin - (uint64_t)low] += piece->bytes;
        deltas[(uint64_t)piece->end - (uint64_t)low] -= piece->bytes;
    }
    EchBytes live = 0, peak = 0;
    for (size_t t = 0; t <= range; t++) {
        live += deltas[t];
        peak = MAX(peak, live);
    }
    return peak;
}

static EchBytes pressure(const GArray *pieces)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (guint i = 0; i < pieces->len; i++) {
        low = MIN(low, g_array_index(pieces, EchPlanPiece, i).begin);
        high = MAX(high, g_array_index(pieces, EchPlanPiece, i).end);
    }
    uint64_t range = (uint64_t)high - (uint64_t)low;
    if (pieces->len > 0 && range <= (uint64_t)pieces->len * 16)
        return dense_pressure(pieces, low, (size_t)range);
    g_autofree Edge *edges = g_new(Edge, (size_t)pieces->len * 2 + 1);
    size_t n = 0;
    for (guint i = 0; i < pieces->len; i++) {
        const EchPlanPiece *piece = &g_array_index(pieces, EchPlanPiece, i);
        edges[n++] = (Edge){piece->begin, (int64_t)piece->bytes};
        edges[n++] = (Edge){piece->end, -(int64_t)piece->bytes};
    }
    qsort(edges, n, sizeof *edges, compare_edges);
    EchBytes live = 0, peak = 0;
    for (size_t i = 0; i < n; i++) {
        live += (EchBytes)edges[i].delta;
        peak = MAX(peak, live);
    }
    return peak;
}

/* ---- Colours ---- */

typedef struct {
    size_t n;        /* items of this colour */
    uint32_t *index; /* index[n]: in the caller's array */
    EchPlanItem *items;
    uint32_t *group, *member, *first;
    EchPlanProblem problem;
} Colour;

static void colour_clear(Colour *colour)
{
    g_free(colour->index);
    g_free(colour->items);
    g_free(colour->group);
    g_free(colour->member);
    g_free(colour->first);
}

/** Members of a group share an offset, so they share the least common multiple of their alignments. */
static void unify_alignments(Colour *colour)
{
    for (uint32_t g = 0; g < colour->problem.n_groups; g++) {
        uint64_t common = 1;
        for (uint32_t m = colour->first[g]; m < colour->first[g + 1]; m++) {
            uint64_t alignment = colour->items[colour->member[m]].alignment;
            common = ech_bytes_mul(common / ech_gcd(common, alignment), alignment);
        }
        for (uint32_t m = colour->first[g]; m < colour->first[g + 1]; m++)
            colour->items[colour->member[m]].alignment = common;
    }
}

static Colour colour_new(const EchPlanItem *items, const Key *keys, size_t n, uint64_t alignment, EchBytes capacity)
{
    Colour colour = {.n = n};
    colour.index = g_new(uint32_t, n);
    colour.items = g_new(EchPlanItem, n);
    colour.group = g_new(uint32_t, n);
    colour.member = g_new(uint32_t, n);
    colour.first = g_new(uint32_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        colour.index[i] = keys[i].index;
        colour.items[i] = items[keys[i].index];
        if (colour.items[i].alignment == 0)
            colour.items[i].alignment = alignment;
    }
    uint32_t n_groups = make_groups(colour.items, n, colour.group, colour.member, colour.first);
    colour.problem = (EchPlanProblem){n, colour.items, colour.group, n_groups, colour.member, colour.first, capacity, 0, NULL, NULL};
    g_autoptr(GArray) pieces = ech_plan_pieces(&colour.problem);
    colour.problem.lower_bound = pressure(pieces);
    for (size_t i = 0; i < n; i++) /* what never lives is still given a place */
        colour.problem.lower_bound = MAX(colour.problem.lower_bound, colour.items[i].bytes);
    unify_alignments(&colour);
    return colour;
}

/** Indices by colour, ascending; owned by the caller. */
static Key *sort_by_colour(const EchPlanItem *items, size_t n)
{
    Key *keys = g_new(Key, n ? n : 1);
    bool one = true;
    for (size_t i = 0; i < n; i++) {
        keys[i] = (Key){items[i].colour, 0, (uint32_t)i};
        one = one && items[i].colour == items[0].colour;
    }
    if (!one)
        qsort(keys, n, sizeof *keys, compare_keys);
    return keys;
}

static size_t run_of_colour(const Key *keys, size_t n, size_t from)
{
    size_t to = from;
    while (to < n && keys[to].colour == keys[from].colour)
        to++;
    return to;
}

/** Refuses what no planner could count with. */
static bool check_items(const EchPlanItem *items, size_t n, GError **error)
{
    if (n > ECH_PLAN_MAX_ITEMS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%zu buffers are too many; expected at most %zu", n, ECH_PLAN_MAX_ITEMS);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const EchPlanItem *item = &items[i];
        if (item->begin > item->end) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "buffer %zu ends at %" G_GINT64_FORMAT ", before it begins at %" G_GINT64_FORMAT, i, item->end,
                        item->begin);
            return false;
        }
        if (item->bytes > ECH_PLAN_MAX_BYTES || item->alignment > ECH_PLAN_MAX_BYTES) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                        "buffer %zu of %" G_GUINT64_FORMAT " bytes aligned to %" G_GUINT64_FORMAT " is too large; expected at most 2^60", i, item->bytes,
                        item->alignment);
            return false;
        }
    }
    return true;
}

/** No sum of sizes and roundings, in any order, may overflow; @all: of the colours before, which this one's are added to. */
static bool check_addresses(const Colour *colour, uint64_t alignment, uint64_t *all, GError **error)
{
    uint64_t sum = 0, common = alignment;
    for (size_t i = 0; i < colour->n; i++) {
        if (colour->items[i].alignment != 1 && common % colour->items[i].alignment != 0)
            common = ech_bytes_mul(common / ech_gcd(common, colour->items[i].alignment), colour->items[i].alignment);
        sum = ech_bytes_add(sum, colour->items[i].bytes);
    }
    *all = ech_bytes_add(*all, ech_bytes_add(sum, ech_bytes_mul(ech_bytes_mul(common, 2), colour->n)));
    if (*all <= MAX_ADDRESS)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "all buffers together, aligned, need more than 2^62 bytes of addresses");
    return false;
}

EchPlan *ech_planner_run(const EchPlanner *planner, const EchPlanItem *items, size_t n, EchBytes capacity, GError **error)
{
    if (!check_items(items, n, error))
        return NULL;
    EchPlan *plan = g_new0(EchPlan, 1);
    plan->n = n;
    plan->offsets = g_new0(uint64_t, n ? n : 1);
    plan->heaps = g_new0(uint32_t, n ? n : 1);
    plan->fits = true;
    plan->proved_optimal = true;
    g_autoptr(GArray) heap_bytes = g_array_new(FALSE, TRUE, sizeof(EchBytes));
    g_autoptr(GArray) heap_colours = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    g_autofree Key *keys = sort_by_colour(items, n);
    uint64_t all = 0;
    for (size_t from = 0, to; from < n; from = to) {
        to = run_of_colour(keys, n, from);
        Colour colour = colour_new(items, keys + from, to - from, planner->object->alignment, capacity);
        if (!check_addresses(&colour, planner->object->alignment, &all, error)) {
            colour_clear(&colour);
            ech_plan_free(plan);
            return NULL;
        }
        EchPlanSolution solution = {.offsets = g_new0(uint64_t, colour.n), .heaps = g_new0(uint32_t, colour.n), .n_heaps = 1};
        colour.problem.stop = planner->stop;
        colour.problem.progress = planner->progress;
        planner->class->plan(planner->object, &colour.problem, &solution);
        guint first_heap = heap_bytes->len;
        g_array_set_size(heap_bytes, first_heap + solution.n_heaps);
        g_array_set_size(heap_colours, first_heap + solution.n_heaps);
        EchBytes total = 0, lived = 0; /* lived: the height of what lives, which is all that a search looks at */
        for (size_t i = 0; i < colour.n; i++) {
            uint32_t heap = first_heap + solution.heaps[i];
            EchBytes *bytes = &g_array_index(heap_bytes, EchBytes, heap), end = solution.offsets[i] + colour.items[i].bytes;
            plan->offsets[colour.index[i]] = solution.offsets[i];
            plan->heaps[colour.index[i]] = heap;
            if (colour.items[i].bytes > 0)
                *bytes = MAX(*bytes, end);
            if (colour.items[i].begin < colour.items[i].end)
                lived = MAX(lived, end);
        }
        for (guint h = first_heap; h < heap_bytes->len; h++) {
            EchBytes bytes = g_array_index(heap_bytes, EchBytes, h);
            g_array_index(heap_colours, uint32_t, h) = keys[from].colour;
            total += bytes;
            plan->fits = plan->fits && (capacity == 0 || bytes <= capacity);
        }
        plan->height += total;
        plan->lower_bound += colour.problem.lower_bound;
        plan->proved_optimal =
            plan->proved_optimal && ((solution.proved_optimal && total == lived) || (solution.n_heaps == 1 && total == colour.problem.lower_bound));
        plan->out_of_time = plan->out_of_time || solution.out_of_time;
        plan->too_large = plan->too_large || solution.too_large;
        plan->steps += solution.steps;
        g_free(solution.offsets);
        g_free(solution.heaps);
        colour_clear(&colour);
    }
    plan->n_heaps = heap_bytes->len;
    plan->heap_bytes = (EchBytes *)(void *)g_array_free(g_steal_pointer(&heap_bytes), FALSE);
    plan->heap_colours = (uint32_t *)(void *)g_array_free(g_steal_pointer(&heap_colours), FALSE);
    return plan;
}

EchPlan *ech_plan_new(const char *spec, const EchPlanItem *items, size_t n, EchBytes capacity, GError **error)
{
    g_autoptr(EchPlanner) planner = ech_planner_new(spec, error);
    return planner ? ech_planner_run(planner, items, n, capacity, error) : NULL;
}
