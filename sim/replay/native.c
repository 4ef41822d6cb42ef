/* The native engine: bottleneck max fairness by levels.
 *
 * A resource j has a level s_j: the most units per second that one demand may draw from it; infinite where it is not saturated. Demand i with
 * amounts a_ij progresses at x_i = min(1 / min_time, min_j s_j / a_ij): the resource of the minimum bounds it. Demands bounded by j draw s_j each, so that the
 * levels of the saturated resources solve the linear equations
 *
 *     sum over k of m_jk s_k + capped_j = c_j,    m_jk = sum over demands i bounded by k of a_ij / a_ik,
 *
 * (m_jj is a count; capped_j is what demands at their min_time draw). An event changes few terms of them. When they are solved, every demand is asked whether
 * another resource bounds it now, and every other resource whether it is saturated now; mostly none is, and the levels are final. Where this does not settle,
 * Gauss-Seidel over the levels does.
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
#define PS_MAX 4.0e18 /* "Never", as a double of picoseconds. */

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
    double left; /* Share left, when unbound or capped. */
    Tick since;  /* Capped: when left was true. */
    EchTime min_time;
    uint32_t place; /* In live[]. */
    uint32_t slot;  /* Among the demands bounded alike. */
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

typedef struct {
    double capacity, volume, capped;
    Member *members; /* Demands with a part here. */
    uint32_t n, room;
    uint32_t *bound; /* Tokens of the demands that it bounds, */
    double *targets; /* and at which volume they end. */
    uint32_t n_bound, bound_room;
    bool dirty; /* Slow path. */
} Resource;

struct EchNative {
    Resource *resources;
    double *levels; /* By resource: apart, since every demand is asked about several of them at every event. */
    double *lowest; /* By row: its lowest target. Scratch of next. */
    Demand *demands;
    uint32_t *live;
    uint32_t *fresh;          /* Started since the last solution, not bound yet. */
    uint32_t *capped;         /* Tokens at their min_time, */
    Tick *capped_end;         /* and when they end. */
    double *terms;            /* m_jk, row j, column k. */
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
    e->lowest = g_new(double, n + 1);
    e->demands = g_new0(Demand, max_live);
    e->live = g_new(uint32_t, max_live);
    e->fresh = g_new(uint32_t, max_live);
    e->capped = g_new(uint32_t, max_live);
    e->capped_end = g_new(Tick, max_live);
    e->terms = g_new0(double, n *n + 1);
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
        g_free(e->resources[j].targets);
    }
    for (uint32_t i = 0; i < e->max_live; i++)
        g_free(e->demands[i].many);
    g_free(e->resources);
    g_free(e->levels);
    g_free(e->lowest);
    g_free(e->demands);
    g_free(e->live);
    g_free(e->fresh);
    g_free(e->capped);
    g_free(e->capped_end);
    g_free(e->terms);
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

/* Binding: which resource, or the cap, bounds a demand */

static void bind(EchNative *e, uint32_t token, uint32_t part)
{
    Demand *d = &e->demands[token];
    d->bound = part;
    e->changed = true;
    if (part == NOWHERE) {
        d->slot = e->n_capped;
        d->since = e->now;
        e->capped[e->n_capped] = token;
        double ps = d->left * (double)d->min_time;
        e->capped_end[e->n_capped++] = e->now + (d->left == 1 ? (Tick)d->min_time << TICK_BITS : tick_from_ps(ps));
        for (uint32_t k = 0; k < d->n_parts; k++)
            e->resources[d->parts[k].resource].capped += d->parts[k].amount * d->cap;
        return;
    }
    uint32_t j = d->parts[part].resource;
    Resource *r = &e->resources[j];
    if (r->n_bound == r->bound_room) {
        r->bound_room = r->bound_room ? 2 * r->bound_room : 8;
        r->bound = g_renew(uint32_t, r->bound, r->bound_room);
        r->targets = g_renew(double, r->targets, r->bound_room);
    }
    if (r->n_bound == 0) {
        r->volume = 0;
        set_add(e->binding, j);
    }
    d->slot = r->n_bound;
    r->bound[r->n_bound] = token;
    r->targets[r->n_bound++] = r->volume + d->left * d->parts[part].amount;
    double inverse = 1 / d->parts[part].amount;
    for (uint32_t k = 0; k < d->n_parts; k++)
        if (k != part)
            e->terms[(size_t)d->parts[k].resource * e->n_resources + j] += d->parts[k].amount * inverse;
}

/* Leaves @d with its share left. */
static void unbind(EchNative *e, uint32_t token)
{
    Demand *d = &e->demands[token];
    e->changed = true;
    if (d->bound == NOWHERE) {
        uint32_t last = e->capped[--e->n_capped];
        Tick end = e->capped_end[d->slot];
        e->capped[d->slot] = last;
        e->capped_end[d->slot] = e->capped_end[e->n_capped];
        e->demands[last].slot = d->slot;
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
    double rest = r->targets[d->slot] - r->volume;
    d->left = rest > 0 ? rest / d->parts[d->bound].amount : 0;
    uint32_t last = r->bound[--r->n_bound];
    r->bound[d->slot] = last;
    r->targets[d->slot] = r->targets[r->n_bound];
    e->demands[last].slot = d->slot;
    double inverse = 1 / d->parts[d->bound].amount;
    for (uint32_t k = 0; k < d->n_parts; k++) {
        double *term = &e->terms[(size_t)d->parts[k].resource * e->n_resources + j];
        if (k != d->bound)
            *term = r->n_bound == 0 ? 0 : *term - d->parts[k].amount * inverse;
    }
    if (r->n_bound == 0) {
        e->levels[j] = INFINITY;
        set_remove(e->binding, j);
        for (uint32_t k = 0; k < e->n_resources; k++)
            e->terms[(size_t)k * e->n_resources + j] = 0;
    }
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
    for (uint32_t c = 0; c + 1 < n; c++) {
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
        for (uint32_t i = c + 1; i < n; i++) {
            if (a[i * width + c] == 0)
                continue;
            double f = a[i * width + c] / a[c * width + c];
            for (uint32_t k = c + 1; k <= n; k++)
                a[i * width + k] -= f * a[c * width + k];
        }
    }
    for (uint32_t c = n; c-- > 0;) {
        double sum = a[c * width + n];
        for (uint32_t k = c + 1; k < n; k++)
            sum -= a[c * width + k] * a[k * width + n];
        if (!(fabs(a[c * width + c]) > 1e-12))
            return false;
        double level = sum / a[c * width + c];
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
        e->levels[j] = level;
        bind(e, r->members[m].token, r->members[m].part);
    }
}

/* Sends every demand to the resource that bounds it now. Returns whether any moved. */
static bool rebind(EchNative *e)
{
    bool moved = false;
    const double *levels = e->levels;
    for (uint32_t l = 0; l < e->n_live; l++) {
        const Demand *d = &e->demands[e->live[l]];
        const Part *parts = d->parts;
        /* Without division: part k bounds more tightly than b if s_k a_b < s_b a_k. */
        bool stays = true;
        if (d->bound == NOWHERE) {
            double amount = 1 / d->cap;
            for (uint32_t k = 0; k < d->n_parts; k++)
                stays &= !(levels[parts[k].resource] * amount < parts[k].amount * (1 - tolerance));
        } else {
            double level = levels[parts[d->bound].resource], amount = parts[d->bound].amount;
            stays = d->cap == INFINITY || !(d->cap * amount < level * (1 - tolerance));
            for (uint32_t k = 0; k < d->n_parts; k++)
                stays &= !(levels[parts[k].resource] * amount < level * parts[k].amount * (1 - tolerance));
        }
        if (stays)
            continue;
        double pace;
        uint32_t bound = lowest_part(e, d, &pace);
        if (bound == d->bound)
            continue;
        double before = bound == NOWHERE ? 0 : e->levels[d->parts[bound].resource];
        unbind(e, e->live[l]);
        bind(e, e->live[l], bound);
        if (bound != NOWHERE)
            e->levels[d->parts[bound].resource] = before;
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
        Demand *d = &e->demands[e->live[l]];
        double pace;
        uint32_t bound = lowest_part(e, d, &pace);
        double level = bound == NOWHERE ? 0 : e->levels[d->parts[bound].resource];
        bind(e, e->live[l], bound);
        if (bound != NOWHERE)
            e->levels[d->parts[bound].resource] = level;
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
            r->targets[b] -= r->volume;
        r->volume = 0;
    }
    for (uint32_t l = 0; l < e->n_live; l++) {
        const Demand *d = &e->demands[e->live[l]];
        for (uint32_t k = 0; k < d->n_parts; k++) {
            if (d->bound == NOWHERE)
                e->resources[d->parts[k].resource].capped += d->parts[k].amount * d->cap;
            else if (k != d->bound)
                e->terms[(size_t)d->parts[k].resource * e->n_resources + d->parts[d->bound].resource] += d->parts[k].amount / d->parts[d->bound].amount;
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

static uint32_t native_next(void *engine, uint32_t *ret_tokens, EchTime *ret_now)
{
    EchNative *e = engine;
    if (e->n_live == 0)
        return 0;
    if (e->changed)
        solve(e);
    e->changed = false;

    /* The first to end, at its min_time or at a volume. */
    Tick first = 0;
    uint32_t who = NOWHERE, best_slot = 0;
    bool any = false;
    for (uint32_t i = 0; i < e->n_capped; i++) {
        if (!any || e->capped_end[i] < first) {
            first = e->capped_end[i];
            any = true;
        }
    }
    /* Compared as doubles; only the winner's time is worth more digits. */
    double soonest = INFINITY;
    uint32_t nearest = NOWHERE, nearest_slot = 0;
    for (uint32_t i = 0; i < e->n_rows; i++) {
        const Resource *r = &e->resources[e->rows[i]];
        uint32_t lowest = 0;
        double target = r->targets[0];
        for (uint32_t b = 1; b < r->n_bound; b++)
            if (r->targets[b] < target) {
                target = r->targets[b];
                lowest = b;
            }
        e->lowest[i] = target;
        double wait = (target - r->volume) / e->levels[e->rows[i]];
        if (nearest == NOWHERE || wait < soonest) {
            soonest = wait;
            nearest = e->rows[i];
            nearest_slot = lowest;
        }
    }
    if (nearest != NOWHERE) {
        const Resource *r = &e->resources[nearest];
        Tick end = e->now + tick_for(r->targets[nearest_slot] - r->volume, e->levels[nearest]);
        if (!any || end < first) {
            first = end;
            who = nearest;
            best_slot = nearest_slot;
        }
    }
    if (first < e->now)
        first = e->now;

    /* What ends within rounding of the first ends with it: 2^-14 ps, more for long demands. */
    double seconds = ps_from_tick(first - e->now) / (double)ECH_PS_PER_S;
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_capped; i++) {
        Tick late = e->capped_end[i] - first;
        if (late <= ((Tick)1 << (TICK_BITS - 14)) + ((e->capped_end[i] - e->demands[e->capped[i]].since) >> 50))
            ret_tokens[n++] = e->capped[i];
    }
    for (uint32_t i = 0; i < e->n_rows; i++) {
        uint32_t j = e->rows[i];
        Resource *r = &e->resources[j];
        r->volume = j == who ? r->targets[best_slot] : r->volume + e->levels[j] * seconds;
        double reach = r->volume * (1 + 0x1p-49) + e->levels[j] * 0x1p-14 / (double)ECH_PS_PER_S;
        for (uint32_t b = 0; e->lowest[i] <= reach && b < r->n_bound; b++)
            if (r->targets[b] <= reach)
                ret_tokens[n++] = r->bound[b];
    }
    e->now = first;
    for (uint32_t i = 0; i < n; i++)
        finish(e, ret_tokens[i]);
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
        return d->min_time > 0 ? ps_from_tick(e->capped_end[d->slot] - e->now) / (double)d->min_time : 0;
    const Resource *r = &e->resources[d->parts[d->bound].resource];
    double rest = r->targets[d->slot] - r->volume;
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
