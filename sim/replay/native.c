/* The native engine: bottleneck max fairness by levels.
 *
 * A resource j has a level s_j: the most units per second that one demand may draw from it; infinite where it is not saturated. Demand i with
 * amounts a_ij progresses at x_i = min(1 / min_time, min_j s_j / a_ij): the resource of the minimum bounds it. Demands bounded by j draw s_j each, so that the
 * levels of the saturated resources solve the linear equations
 *
 *     sum over k of m_jk s_k + capped_j = c_j,    m_jk = sum over demands i bounded by k of a_ij / a_ik,
 *
 * (m_jj is a count; capped_j is what demands at their min_time draw). An event changes few terms of them. When they are solved, it is asked whether another
 * resource bounds some demand now, and whether another resource is saturated now; mostly neither is so, and the levels are final. Where this does not settle,
 * Gauss-Seidel over the levels does.
 *
 * Which demands might move is told by one number for each pair of resources: a demand bounded by k turns to j where s_k a_ij / a_ik exceeds s_j, so that while
 * the largest such ratio does not, none of them is looked at. The number is kept when the demand that set it ends, and made anew when they are looked
 * through, which is seldom. What ends next is at the top of a heap. So an event costs what the equations of the saturated resources do, and the logarithm
 * of how many demands are alive.
 *
 * Nothing is kept per demand and event: a resource counts its volume v_j, the integral of s_j over time, and a demand bounded by it ends when that reaches a
 * target fixed when it was bound. The clock counts 2^-32 ps, so that rounding does not add up over operations. */
#include "sim/replay/fluid.h"

#include "sim/base/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 Tick; /* 2^-32 ps. */
#define TICK_BITS 32
#define NOWHERE UINT32_MAX
#define PS_MAX ((double)ECH_FLUID_END) /* "Never", as a double of picoseconds. */

enum { INLINE_PARTS = 6, MAX_ROUNDS = 24, MAX_PASSES = 20000, REFRESH = 4096 };
static const double tolerance = 1e-13;

typedef struct {
    double amount;
    uint32_t resource;
    uint32_t place; /* In the resource's members. */
} Part;

typedef struct {
    uint32_t bound; /* Part that bounds the pace, or NOWHERE: min_time does. */
    uint32_t n_parts;
    Part *parts; /* few, or many where they do not fit. */
    double cap;  /* Most pace: 1 / min_time, per second; infinite without one. */
    double each; /* Bounded by a resource: 1 / the amount there. */
    double left; /* Share left, when unbound or capped. */
    Tick since;  /* Capped: when left was true. */
    EchTime min_time;
    uint32_t place; /* In live[]. */
    uint32_t slot;  /* In the heap of the demands bounded alike. */
    bool live;
    uint32_t n_many;
    Part *many;
    Part few[INLINE_PARTS];
} Demand;

typedef struct {
    uint32_t token;
    uint32_t part;
    double amount; /* Copy, next to what the filling reads. */
} Member;

/* A demand bounded by a resource, and the volume at which it ends. */
typedef struct {
    double key;
    uint32_t token;
} Bound;

/* A demand at its min_time, and when it ends. */
typedef struct {
    Tick key;
    uint32_t token;
} Capped;

typedef struct {
    double capacity, volume, capped;
    Member *members; /* Demands with a part here. */
    uint32_t n, room;
    Bound *bound; /* Demands that it bounds, a heap by volume. */
    uint32_t n_bound, bound_room;
    double least_cap;   /* At most the level at which one of these reaches its min_time. */
    double most_capped; /* At least what any demand at its min_time draws. */
    bool dirty;         /* Slow path. */
} Resource;

struct EchNative {
    Resource *resources;
    double *levels; /* By resource: apart, since every demand is asked about several of them at every event. */
    Demand *demands;
    uint32_t *live;
    uint32_t *fresh;          /* Started since the last solution, not bound yet. */
    Capped *capped;           /* Demands at their min_time, a heap by time. */
    uint32_t *moving;         /* Scratch: tokens. */
    double *terms;            /* m_jk, row j, column k. */
    double *turns;            /* Row k, column j: at least the largest a_ij / a_ik of the demands i that k bounds. */
    double *system;           /* Scratch of the elimination. */
    uint32_t *rows;           /* Resources that bound something at the last solution, ascending, */
    uint32_t n_rows;          /* so many. */
    uint64_t *binding, *used; /* Sets of resources, a bit each: those that bound something, those that have members. */
    uint32_t n_words;
    uint32_t *queue; /* Slow path: dirty resources. */
    uint32_t *todo;
    double *want; /* Scratch of the filling. */
    uint32_t n_resources, max_live, n_live, n_fresh, n_capped, n_queue, events;
    bool changed;
    bool stale; /* Levels of resources that bound nothing may be finite. */
    Tick now;
};

EchNative *ech_native_new(const EchFluidResource *resources, uint32_t n_resources, uint32_t max_live)
{
    EchNative *e = g_new0(EchNative, 1);
    size_t n = n_resources;
    e->n_resources = n_resources;
    e->max_live = max_live;
    e->resources = g_new0(Resource, n + 1);
    e->levels = g_new(double, n + 1);
    e->demands = g_new0(Demand, max_live);
    e->live = g_new(uint32_t, max_live);
    e->fresh = g_new(uint32_t, max_live);
    e->capped = g_new(Capped, max_live);
    e->moving = g_new(uint32_t, max_live);
    e->terms = g_new0(double, n *n + 1);
    e->turns = g_new0(double, n *n + 1);
    e->system = g_new0(double, n *(n + 1) + 1);
    e->rows = g_new(uint32_t, n + 1);
    e->n_words = n_resources / 64 + 1;
    e->binding = g_new0(uint64_t, e->n_words);
    e->used = g_new0(uint64_t, e->n_words);
    e->queue = g_new(uint32_t, n + 1);
    e->todo = g_new(uint32_t, n + 1);
    e->want = g_new(double, max_live + 1);
    for (size_t j = 0; j < n; j++) {
        g_assert(resources[j].capacity > 0 && isfinite(resources[j].capacity));
        e->resources[j].capacity = resources[j].capacity;
        e->resources[j].least_cap = INFINITY;
        e->levels[j] = INFINITY;
    }
    return e;
}

void ech_native_free(EchNative *e)
{
    if (!e)
        return;
    for (uint32_t j = 0; j < e->n_resources; j++) {
        g_free(e->resources[j].members);
        g_free(e->resources[j].bound);
    }
    for (uint32_t i = 0; i < e->max_live; i++)
        g_free(e->demands[i].many);
    g_free(e->resources);
    g_free(e->levels);
    g_free(e->demands);
    g_free(e->live);
    g_free(e->fresh);
    g_free(e->capped);
    g_free(e->moving);
    g_free(e->terms);
    g_free(e->turns);
    g_free(e->system);
    g_free(e->rows);
    g_free(e->binding);
    g_free(e->used);
    g_free(e->queue);
    g_free(e->todo);
    g_free(e->want);
    g_free(e);
}

static Tick tick_from_ps(double ps)
{
    if (!(ps < PS_MAX))
        return (Tick)(int64_t)PS_MAX << TICK_BITS;
    int64_t whole = (int64_t)ps;
    return ((Tick)whole << TICK_BITS) + (Tick)(uint64_t)((ps - (double)whole) * 4294967296.0);
}

static double ps_from_tick(Tick tick)
{
    return (double)(int64_t)(tick >> TICK_BITS) + (double)(uint32_t)(tick & UINT32_MAX) * (1.0 / 4294967296.0);
}

/* Seconds as ticks; in long double where a double would lose a thousandth of a picosecond. */
static Tick tick_for(double amount, double level)
{
    double ps = amount * (double)ECH_PS_PER_S / level;
    if (ps < 1e10 || !(ps < PS_MAX))
        return tick_from_ps(ps > 0 ? ps : 0);
    long double fine = (long double)amount * (long double)ECH_PS_PER_S / level;
    int64_t whole = (int64_t)fine;
    return ((Tick)whole << TICK_BITS) + (Tick)(uint64_t)((double)(fine - (long double)whole) * 4294967296.0);
}

static void set_add(uint64_t *set, uint32_t j)
{
    set[j / 64] |= UINT64_C(1) << j % 64;
}

static void set_remove(uint64_t *set, uint32_t j)
{
    set[j / 64] &= ~(UINT64_C(1) << j % 64);
}

/* Heaps of what ends next */

#define DEFINE_HEAP(TYPE, NAME)                                                                                                                                \
    /* Puts @entry at @i or where it belongs, above or below. */                                                                                               \
    static void NAME##_put(EchNative *e, TYPE *heap, uint32_t n, uint32_t i, TYPE entry)                                                                       \
    {                                                                                                                                                          \
        for (; i > 0 && entry.key < heap[(i - 1) / 2].key; i = (i - 1) / 2) {                                                                                  \
            heap[i] = heap[(i - 1) / 2];                                                                                                                       \
            e->demands[heap[i].token].slot = i;                                                                                                                \
        }                                                                                                                                                      \
        for (uint32_t child; (child = 2 * i + 1) < n; i = child) {                                                                                             \
            child += child + 1 < n && heap[child + 1].key < heap[child].key;                                                                                   \
            if (entry.key <= heap[child].key)                                                                                                                  \
                break;                                                                                                                                         \
            heap[i] = heap[child];                                                                                                                             \
            e->demands[heap[i].token].slot = i;                                                                                                                \
        }                                                                                                                                                      \
        heap[i] = entry;                                                                                                                                       \
        e->demands[entry.token].slot = i;                                                                                                                      \
    }
DEFINE_HEAP(Bound, bound)
DEFINE_HEAP(Capped, capped)

/* Binding: which resource, or the cap, bounds a demand */

/* Until which levels @d, bounded by its min_time, stays so. */
static void note_capped(EchNative *e, const Demand *d)
{
    for (uint32_t k = 0; k < d->n_parts; k++) {
        Resource *r = &e->resources[d->parts[k].resource];
        r->most_capped = MAX(r->most_capped, d->parts[k].amount * d->cap);
    }
}

/* The same for one bounded by a resource. */
static void note_bound(EchNative *e, const Demand *d)
{
    uint32_t j = d->parts[d->bound].resource;
    Resource *r = &e->resources[j];
    double *turns = e->turns + (size_t)j * e->n_resources;
    r->least_cap = MIN(r->least_cap, d->parts[d->bound].amount * d->cap);
    for (uint32_t k = 0; k < d->n_parts; k++)
        turns[d->parts[k].resource] = MAX(turns[d->parts[k].resource], d->parts[k].amount * d->each);
}

static void bind(EchNative *e, uint32_t token, uint32_t part)
{
    Demand *d = &e->demands[token];
    d->bound = part;
    e->changed = true;
    if (part == NOWHERE) {
        d->since = e->now;
        Tick end = e->now + (d->left == 1 ? (Tick)d->min_time << TICK_BITS : tick_from_ps(d->left * (double)d->min_time));
        e->n_capped++;
        capped_put(e, e->capped, e->n_capped, e->n_capped - 1, (Capped){.key = end, .token = token});
        for (uint32_t k = 0; k < d->n_parts; k++)
            e->resources[d->parts[k].resource].capped += d->parts[k].amount * d->cap;
        note_capped(e, d);
        return;
    }
    uint32_t j = d->parts[part].resource;
    Resource *r = &e->resources[j];
    if (r->n_bound == r->bound_room) {
        r->bound_room = r->bound_room ? 2 * r->bound_room : 8;
        r->bound = g_renew(Bound, r->bound, r->bound_room);
    }
    if (r->n_bound == 0) {
        r->volume = 0;
        set_add(e->binding, j);
    }
    r->n_bound++;
    bound_put(e, r->bound, r->n_bound, r->n_bound - 1, (Bound){.key = r->volume + d->left * d->parts[part].amount, .token = token});
    d->each = 1 / d->parts[part].amount;
    for (uint32_t k = 0; k < d->n_parts; k++)
        if (k != part)
            e->terms[(size_t)d->parts[k].resource * e->n_resources + j] += d->parts[k].amount * d->each;
    note_bound(e, d);
}

/* Leaves @d with its share left. */
static void unbind(EchNative *e, uint32_t token)
{
    Demand *d = &e->demands[token];
    e->changed = true;
    if (d->bound == NOWHERE) {
        Tick end = e->capped[d->slot].key;
        e->n_capped--;
        if (d->slot < e->n_capped)
            capped_put(e, e->capped, e->n_capped, d->slot, e->capped[e->n_capped]);
        if (e->now > d->since && d->min_time > 0)
            d->left = ps_from_tick(end - e->now) / (double)d->min_time;
        for (uint32_t k = 0; k < d->n_parts; k++) {
            Resource *r = &e->resources[d->parts[k].resource];
            r->capped = e->n_capped == 0 ? 0 : r->capped - d->parts[k].amount * d->cap;
        }
        return;
    }
    uint32_t j = d->parts[d->bound].resource;
    Resource *r = &e->resources[j];
    double rest = r->bound[d->slot].key - r->volume;
    d->left = rest > 0 ? rest / d->parts[d->bound].amount : 0;
    r->n_bound--;
    if (r->n_bound == 0) {
        e->levels[j] = INFINITY;
        r->least_cap = INFINITY;
        set_remove(e->binding, j);
        for (uint32_t k = 0; k < e->n_resources; k++)
            e->terms[(size_t)k * e->n_resources + j] = 0;
        memset(e->turns + (size_t)j * e->n_resources, 0, sizeof *e->turns * e->n_resources);
        return;
    }
    if (d->slot < r->n_bound)
        bound_put(e, r->bound, r->n_bound, d->slot, r->bound[r->n_bound]);
    for (uint32_t k = 0; k < d->n_parts; k++)
        if (k != d->bound)
            e->terms[(size_t)d->parts[k].resource * e->n_resources + j] -= d->parts[k].amount * d->each;
}

/* The part that bounds @d under the present levels. */
static uint32_t lowest_part(const EchNative *e, const Demand *d, double *ret_pace)
{
    double pace = d->cap;
    uint32_t bound = NOWHERE;
    for (uint32_t k = 0; k < d->n_parts; k++) {
        double other = e->levels[d->parts[k].resource] / d->parts[k].amount;
        if (other < pace) {
            pace = other;
            bound = k;
        }
    }
    *ret_pace = pace;
    return bound;
}

static void native_start(void *engine, uint32_t token, const EchFluidPart *parts, uint32_t n_parts, EchTime min_time)
{
    EchNative *e = engine;
    g_assert(token < e->max_live && !e->demands[token].live);
    Demand *d = &e->demands[token];
    d->n_parts = 0;
    if (n_parts > INLINE_PARTS && n_parts > d->n_many) {
        d->many = g_renew(Part, d->many, n_parts);
        d->n_many = n_parts;
    }
    d->parts = n_parts > INLINE_PARTS ? d->many : d->few;
    for (uint32_t k = 0; k < n_parts; k++) {
        if (!(parts[k].amount > 0))
            continue;
        Resource *r = &e->resources[parts[k].resource];
        if (r->n == r->room) {
            r->room = r->room ? 2 * r->room : 8;
            r->members = g_renew(Member, r->members, r->room);
        }
        set_add(e->used, parts[k].resource);
        d->parts[d->n_parts] = (Part){.amount = parts[k].amount, .resource = parts[k].resource, .place = r->n};
        r->members[r->n++] = (Member){.token = token, .part = d->n_parts++, .amount = parts[k].amount};
    }
    d->live = true;
    d->cap = min_time > 0 ? (double)ECH_PS_PER_S / (double)min_time : INFINITY;
    d->left = 1;
    d->min_time = min_time;
    d->place = e->n_live;
    e->live[e->n_live++] = token;
    bool changed = e->changed;
    if (d->n_parts == 0) {
        bind(e, token, NOWHERE);
        e->changed = changed; /* A timer disturbs nobody. */
        return;
    }
    e->changed = true;
    e->fresh[e->n_fresh++] = token;
}

static void finish(EchNative *e, uint32_t token)
{
    Demand *d = &e->demands[token];
    bool changed = e->changed;
    unbind(e, token);
    if (d->n_parts == 0)
        e->changed = changed;
    for (uint32_t k = 0; k < d->n_parts; k++) {
        Resource *r = &e->resources[d->parts[k].resource];
        uint32_t hole = d->parts[k].place;
        Member last = r->members[--r->n];
        if (r->n == 0)
            set_remove(e->used, d->parts[k].resource);
        if (hole != r->n) {
            r->members[hole] = last;
            e->demands[last.token].parts[last.part].place = hole;
        }
    }
    uint32_t last = e->live[--e->n_live];
    e->live[d->place] = last;
    e->demands[last].place = d->place;
    d->live = false;
}

/* Levels of the resources that bound something, from the equations. */
static bool solve_levels(EchNative *e)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < e->n_words; w++)
        for (uint64_t bits = e->binding[w]; bits; bits &= bits - 1)
            e->rows[n++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
    e->n_rows = n;
    for (uint32_t j = 0; e->stale && j < e->n_resources; j++)
        if (e->resources[j].n_bound == 0)
            e->levels[j] = INFINITY;
    e->stale = false;
    double *a = e->system;
    size_t width = n + 1;
    for (uint32_t i = 0; i < n; i++) {
        const Resource *r = &e->resources[e->rows[i]];
        const double *terms = e->terms + (size_t)e->rows[i] * e->n_resources;
        for (uint32_t k = 0; k < n; k++)
            a[i * width + k] = i == k ? r->n_bound : terms[e->rows[k]];
        a[i * width + n] = r->capacity - r->capped;
    }
    for (uint32_t c = 0; c < n; c++) {
        uint32_t pivot = c;
        for (uint32_t i = c + 1; i < n; i++)
            if (fabs(a[i * width + c]) > fabs(a[pivot * width + c]))
                pivot = i;
        if (!(fabs(a[pivot * width + c]) > 1e-12))
            return false;
        for (uint32_t k = c; pivot != c && k <= n; k++) {
            double swap = a[c * width + k];
            a[c * width + k] = a[pivot * width + k];
            a[pivot * width + k] = swap;
        }
        double *row = a + c * width, inverse = 1 / row[c];
        row[c] = inverse;
        for (uint32_t i = c + 1; i < n; i++) {
            double *other = a + i * width;
            if (other[c] == 0)
                continue;
            double f = other[c] * inverse;
            for (uint32_t k = c + 1; k <= n; k++)
                other[k] -= f * row[k];
        }
    }
    for (uint32_t c = n; c-- > 0;) {
        double sum = a[c * width + n];
        for (uint32_t k = c + 1; k < n; k++)
            sum -= a[c * width + k] * a[k * width + n];
        double level = sum * a[c * width + c];
        if (!(level > 0) || level == INFINITY)
            return false;
        a[c * width + n] = level;
    }
    for (uint32_t i = 0; i < n; i++)
        e->levels[e->rows[i]] = a[i * width + n];
    return true;
}

static double pace_of(const EchNative *e, const Demand *d)
{
    return d->bound == NOWHERE ? d->cap : e->levels[d->parts[d->bound].resource] / d->parts[d->bound].amount;
}

/* The level at which the wants of the members of resource @j together draw its capacity; infinite if they cannot.
 * Newton on the concave sum of min(want, level): from the left it stays left, so it ends after finitely many steps. */
static double level_for(const EchNative *e, uint32_t j, double total)
{
    const Resource *r = &e->resources[j];
    if (total <= r->capacity)
        return INFINITY;
    if (r->n == 1)
        return r->capacity;
    double level = e->levels[j] < INFINITY ? e->levels[j] : r->capacity / r->n;
    for (bool first = true;; first = false) {
        double small = 0;
        uint32_t n_large = 0;
        for (uint32_t m = 0; m < r->n; m++) {
            if (e->want[m] < level)
                small += e->want[m];
            else
                n_large++;
        }
        double next = n_large > 0 ? (r->capacity - small) / n_large : r->capacity / r->n;
        if (next == level || (next <= level && !first))
            return level;
        level = next;
    }
}

/* A resource that bounds nobody but is asked for too much: its level, and who it bounds from now on. */
static void saturate(EchNative *e, uint32_t j)
{
    Resource *r = &e->resources[j];
    double total = 0;
    for (uint32_t m = 0; m < r->n; m++) {
        e->want[m] = pace_of(e, &e->demands[r->members[m].token]) * r->members[m].amount;
        total += e->want[m];
    }
    double level = level_for(e, j, total);
    if (level == INFINITY)
        return;
    e->levels[j] = level;
    for (uint32_t m = 0; m < r->n; m++) {
        if (e->want[m] <= level)
            continue;
        unbind(e, r->members[m].token);
        bind(e, r->members[m].token, r->members[m].part);
    }
}

/* Whether the levels leave @d where it is. Without division: part k bounds more tightly than b if s_k a_b < s_b a_k. */
static bool stays(const EchNative *e, const Demand *d)
{
    bool yes;
    if (d->bound == NOWHERE) {
        double amount = 1 / d->cap;
        yes = true;
        for (uint32_t k = 0; k < d->n_parts; k++)
            yes &= !(e->levels[d->parts[k].resource] * amount < d->parts[k].amount * (1 - tolerance));
    } else {
        double level = e->levels[d->parts[d->bound].resource], amount = d->parts[d->bound].amount;
        yes = d->cap == INFINITY || !(d->cap * amount < level * (1 - tolerance));
        for (uint32_t k = 0; k < d->n_parts; k++)
            yes &= !(e->levels[d->parts[k].resource] * amount < level * d->parts[k].amount * (1 - tolerance));
    }
    return yes;
}

/* Sends the first @n of moving[] to what bounds them now. Returns whether any moved. */
static bool move(EchNative *e, uint32_t n)
{
    bool moved = false;
    for (uint32_t i = 0; i < n; i++) {
        const Demand *d = &e->demands[e->moving[i]];
        double pace;
        uint32_t bound = lowest_part(e, d, &pace);
        if (bound != d->bound) {
            unbind(e, e->moving[i]);
            bind(e, e->moving[i], bound);
            moved = true;
        } else if (bound == NOWHERE)
            note_capped(e, d);
        else
            note_bound(e, d);
    }
    return moved;
}

static bool rebind_capped(EchNative *e)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < e->n_resources; j++)
        e->resources[j].most_capped = 0;
    for (uint32_t i = 0; i < e->n_capped; i++) {
        const Demand *d = &e->demands[e->capped[i].token];
        if (stays(e, d))
            note_capped(e, d);
        else
            e->moving[n++] = e->capped[i].token;
    }
    return move(e, n);
}

static bool rebind_bound(EchNative *e, uint32_t j)
{
    Resource *r = &e->resources[j];
    uint32_t n = 0;
    r->least_cap = INFINITY;
    memset(e->turns + (size_t)j * e->n_resources, 0, sizeof *e->turns * e->n_resources);
    for (uint32_t b = 0; b < r->n_bound; b++) {
        const Demand *d = &e->demands[r->bound[b].token];
        if (stays(e, d))
            note_bound(e, d);
        else
            e->moving[n++] = r->bound[b].token;
    }
    return move(e, n);
}

/* Sends every demand to the resource that bounds it now: looks only through those among whom one might move. Returns whether any did. */
static bool rebind(EchNative *e)
{
    const double *levels = e->levels, near = 1 - tolerance / 2;
    bool moved = false, capped = false;
    for (uint32_t i = 0; i < e->n_rows; i++)
        capped |= levels[e->rows[i]] < e->resources[e->rows[i]].most_capped * near;
    if (capped)
        moved = rebind_capped(e);
    for (uint32_t i = 0; i < e->n_rows; i++) {
        uint32_t j = e->rows[i];
        double level = levels[j] * near;
        const double *turns = e->turns + (size_t)j * e->n_resources;
        bool some = e->resources[j].least_cap < level;
        for (uint32_t k = 0; k < e->n_rows; k++)
            some |= levels[e->rows[k]] < level * turns[e->rows[k]];
        if (some && rebind_bound(e, j))
            moved = true;
    }
    return moved;
}

/* Gauss-Seidel: slower, surer */

static void touch(EchNative *e, uint32_t j)
{
    if (!e->resources[j].dirty) {
        e->resources[j].dirty = true;
        e->queue[e->n_queue++] = j;
    }
}

static double pace_without(const EchNative *e, const Demand *d, uint32_t except)
{
    double pace = d->cap;
    for (uint32_t k = 0; k < d->n_parts; k++) {
        double other = e->levels[d->parts[k].resource] / d->parts[k].amount;
        if (k != except && other < pace)
            pace = other;
    }
    return pace;
}

static void relax(EchNative *e, uint32_t j)
{
    Resource *r = &e->resources[j];
    double total = 0;
    for (uint32_t m = 0; m < r->n; m++) {
        const Member *member = &r->members[m];
        e->want[m] = pace_without(e, &e->demands[member->token], member->part) * member->amount;
        total += e->want[m];
    }
    double level = level_for(e, j, total);
    if (level == e->levels[j] || (level < INFINITY && fabs(level - e->levels[j]) <= 1e-14 * level))
        return;
    e->levels[j] = level;
    for (uint32_t m = 0; m < r->n; m++) {
        const Demand *d = &e->demands[r->members[m].token];
        for (uint32_t k = 0; k < d->n_parts; k++)
            if (k != r->members[m].part)
                touch(e, d->parts[k].resource);
    }
}

static void solve_slowly(EchNative *e)
{
    for (uint32_t l = 0; l < e->n_live; l++)
        unbind(e, e->live[l]);
    for (uint32_t j = 0; j < e->n_resources; j++) {
        e->levels[j] = INFINITY;
        if (e->resources[j].n > 0)
            touch(e, j);
    }
    for (uint32_t pass = 0; e->n_queue > 0 && pass < MAX_PASSES; pass++) {
        uint32_t n = e->n_queue;
        memcpy(e->todo, e->queue, n * sizeof *e->todo);
        e->n_queue = 0;
        for (uint32_t q = 0; q < n; q++)
            e->resources[e->todo[q]].dirty = false;
        for (uint32_t q = 0; q < n; q++)
            relax(e, e->todo[q]);
    }
    for (uint32_t q = 0; q < e->n_queue; q++)
        e->resources[e->queue[q]].dirty = false;
    e->n_queue = 0;
    for (uint32_t l = 0; l < e->n_live; l++) {
        double pace;
        bind(e, e->live[l], lowest_part(e, &e->demands[e->live[l]], &pace));
    }
    /* Exact for the binding found; where it is not singular. */
    g_autofree double *levels = g_new(double, e->n_resources + 1);
    for (uint32_t j = 0; j < e->n_resources; j++)
        levels[j] = e->levels[j];
    e->stale = true;
    if (!solve_levels(e)) {
        for (uint32_t j = 0; j < e->n_resources; j++)
            e->levels[j] = levels[j];
        e->stale = true;
    }
}

/* Sums that were added to and taken from for long are added up afresh. */
static void refresh(EchNative *e)
{
    memset(e->terms, 0, sizeof *e->terms * e->n_resources * e->n_resources);
    for (uint32_t j = 0; j < e->n_resources; j++) {
        Resource *r = &e->resources[j];
        r->capped = 0;
        for (uint32_t b = 0; b < r->n_bound; b++)
            r->bound[b].key -= r->volume;
        r->volume = 0;
    }
    for (uint32_t l = 0; l < e->n_live; l++) {
        const Demand *d = &e->demands[e->live[l]];
        for (uint32_t k = 0; k < d->n_parts; k++) {
            if (d->bound == NOWHERE)
                e->resources[d->parts[k].resource].capped += d->parts[k].amount * d->cap;
            else if (k != d->bound)
                e->terms[(size_t)d->parts[k].resource * e->n_resources + d->parts[d->bound].resource] += d->parts[k].amount * d->each;
        }
    }
}

static void solve(EchNative *e)
{
    for (uint32_t f = 0; f < e->n_fresh; f++) {
        double pace;
        Demand *d = &e->demands[e->fresh[f]];
        uint32_t bound = lowest_part(e, d, &pace);
        if (pace == INFINITY) {
            /* Nothing near it is saturated: the resource that it would need longest. */
            double worst = 0;
            for (uint32_t k = 0; k < d->n_parts; k++) {
                double time = d->parts[k].amount / e->resources[d->parts[k].resource].capacity;
                if (time > worst) {
                    worst = time;
                    bound = k;
                }
            }
        }
        bind(e, e->fresh[f], bound);
    }
    e->n_fresh = 0;
    if (++e->events >= REFRESH) {
        e->events = 0;
        refresh(e);
    }
    for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
        if (!solve_levels(e))
            break;
        bool again = rebind(e);
        for (uint32_t w = 0; w < e->n_words && !again; w++) {
            for (uint64_t bits = e->used[w] & ~e->binding[w]; bits && !again; bits &= bits - 1) {
                uint32_t j = w * 64 + (uint32_t)__builtin_ctzll(bits);
                const Resource *r = &e->resources[j];
                double used = r->capped;
                const double *terms = e->terms + (size_t)j * e->n_resources;
                for (uint32_t i = 0; i < e->n_rows; i++)
                    used += terms[e->rows[i]] * e->levels[e->rows[i]];
                if (used > r->capacity * (1 + tolerance)) {
                    saturate(e, j);
                    again = true;
                }
            }
        }
        if (!again)
            return;
    }
    solve_slowly(e);
}

/* Demands at their min_time that end now, to @ret_tokens; returns how many. */
static uint32_t capped_ends(EchNative *e, uint32_t *ret_tokens)
{
    /* moving[0..n) are subtrees of the heap to look into; those below a late one are later still. */
    const Tick rounding = (Tick)1 << (TICK_BITS - 14);
    uint32_t n = 0, n_open = 0;
    if (e->n_capped > 0)
        e->moving[n_open++] = 0;
    while (n_open > 0) {
        uint32_t at = e->moving[--n_open];
        const Capped *c = &e->capped[at];
        Tick late = c->key - e->now;
        if (late > rounding + (c->key >> 50))
            continue;
        if (late <= rounding + ((c->key - e->demands[c->token].since) >> 50))
            ret_tokens[n++] = c->token;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < e->n_capped; child++)
            e->moving[n_open++] = child;
    }
    return n;
}

static uint32_t native_next(void *engine, uint32_t *ret_tokens, EchTime *ret_now)
{
    EchNative *e = engine;
    if (e->n_live == 0)
        return 0;
    if (e->changed)
        solve(e);
    e->changed = false;

    /* The first to end, at its min_time or at a volume: compared as doubles; only the winner's time is worth more digits. */
    double soonest = INFINITY;
    uint32_t nearest = NOWHERE, who = NOWHERE;
    for (uint32_t i = 0; i < e->n_rows; i++) {
        const Resource *r = &e->resources[e->rows[i]];
        double wait = (r->bound[0].key - r->volume) / e->levels[e->rows[i]];
        if (nearest == NOWHERE || wait < soonest) {
            soonest = wait;
            nearest = e->rows[i];
        }
    }
    Tick first = e->n_capped > 0 ? e->capped[0].key : 0;
    if (nearest != NOWHERE) {
        const Resource *r = &e->resources[nearest];
        Tick end = e->now + tick_for(r->bound[0].key - r->volume, e->levels[nearest]);
        if (e->n_capped == 0 || end < first) {
            first = end;
            who = nearest;
        }
    }
    if (first < e->now)
        first = e->now;

    /* What ends within rounding of the first ends with it: 2^-14 ps, more for long demands. */
    double seconds = ps_from_tick(first - e->now) / (double)ECH_PS_PER_S;
    e->now = first;
    uint32_t n = capped_ends(e, ret_tokens);
    for (uint32_t i = 0; i < n; i++)
        finish(e, ret_tokens[i]);
    for (uint32_t i = 0; i < e->n_rows; i++) {
        uint32_t j = e->rows[i];
        Resource *r = &e->resources[j];
        double level = e->levels[j];
        r->volume = j == who ? r->bound[0].key : r->volume + level * seconds;
        double reach = r->volume * (1 + 0x1p-49) + level * 0x1p-14 / (double)ECH_PS_PER_S;
        while (r->n_bound > 0 && r->bound[0].key <= reach) {
            ret_tokens[n++] = r->bound[0].token;
            finish(e, r->bound[0].token);
        }
    }
    if (n > 1)
        qsort(ret_tokens, n, sizeof *ret_tokens, ech_compare_u32);
    *ret_now = (EchTime)((first + ((Tick)1 << (TICK_BITS - 1))) >> TICK_BITS);
    return n;
}

static double native_remaining(void *engine, uint32_t token)
{
    EchNative *e = engine;
    const Demand *d = &e->demands[token];
    if (!d->live)
        return 0;
    for (uint32_t f = 0; f < e->n_fresh; f++)
        if (e->fresh[f] == token)
            return 1;
    if (d->bound == NOWHERE)
        return d->min_time > 0 ? ps_from_tick(e->capped[d->slot].key - e->now) / (double)d->min_time : 0;
    const Resource *r = &e->resources[d->parts[d->bound].resource];
    double rest = r->bound[d->slot].key - r->volume;
    return rest > 0 ? rest / d->parts[d->bound].amount : 0;
}

static double native_clock(void *engine, EchTime *ret_ps)
{
    const EchNative *e = engine;
    *ret_ps = (EchTime)(e->now >> TICK_BITS);
    return (double)(uint32_t)(e->now & UINT32_MAX) * (1.0 / 4294967296.0);
}

const EchFluidClass ech_native_class = {
    .name = "native",
    .start = native_start,
    .next = native_next,
    .remaining = native_remaining,
    .clock = native_clock,
};
