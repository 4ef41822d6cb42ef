/* The native engine: bottleneck max fairness by levels.
 *
 * A resource j has a level s_j: the most units per second that one demand may draw from it; infinite where it is not saturated. Demand i with
 * amounts a_ij progresses at x_i = min(1 / min_time, min_j s_j / a_ij), and the level of a saturated resource solves sum_i a_ij x_i = c_j.
 * Gauss-Seidel over the resources touched by an event, starting from the levels of the event before, finds them; an event touches few.
 *
 * The clock counts 2^-32 ps, so that rounding does not add up over operations; a demand's remaining share is brought up to date only when its pace changes. */
#include "sim/replay/fluid.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 Tick; /* 2^-32 ps. */
#define TICK_BITS 32
#define NOWHERE UINT32_MAX
#define PS_MAX 4.0e18 /* "Never", as a double of picoseconds. */

enum { INLINE_PARTS = 6, MAX_PASSES = 20000, POLISH_AFTER = 2, POLISH_RESOURCES = 24 };
static const double tolerance = 1e-14;

typedef struct {
    double amount;
    uint32_t resource;
    uint32_t place; /* In the resource's list. */
} Part;

typedef struct {
    Part few[INLINE_PARTS];
    Part *parts; /* few, or many where they do not fit. */
    Part *many;
    uint32_t n_parts, n_many;
    uint32_t place; /* In live[]. */
    uint32_t bound; /* Index of the part that bounds the pace, or NOWHERE: min_time does. */
    bool live, moved;
    double cap;       /* Most pace: 1 / min_time, per second; infinite without one. */
    double pace;      /* Share per second. */
    double applied;   /* Pace that end was computed with. */
    double left;      /* Share left at `since`. */
    EchTime min_time;
    Tick since, end;
} Demand;

typedef struct {
    uint32_t token;
    uint32_t part;
    double amount; /* Copy, next to what the solver reads. */
} Member;

typedef struct {
    double capacity, level;
    Member *members;
    uint32_t n, room;
    bool dirty;
} Resource;

struct EchNative {
    Resource *resources;
    Demand *demands;
    uint32_t *live, *moved;
    uint32_t *queue; /* Dirty resources. */
    double *want;    /* Scratch of the water filling. */
    uint32_t n_resources, max_live, n_live, n_moved, n_queue;
    Tick now;
};

EchNative *ech_native_new(const EchFluidResource *resources, uint32_t n_resources, uint32_t max_live)
{
    EchNative *e = g_new0(EchNative, 1);
    e->n_resources = n_resources;
    e->max_live = max_live;
    e->resources = g_new0(Resource, n_resources);
    e->demands = g_new0(Demand, max_live);
    e->live = g_new(uint32_t, max_live);
    e->moved = g_new(uint32_t, max_live);
    e->queue = g_new(uint32_t, n_resources);
    e->want = g_new(double, max_live);
    for (uint32_t j = 0; j < n_resources; j++) {
        g_assert(resources[j].capacity > 0 && isfinite(resources[j].capacity));
        e->resources[j].capacity = resources[j].capacity;
        e->resources[j].level = INFINITY;
    }
    return e;
}

void ech_native_free(EchNative *e)
{
    if (!e)
        return;
    for (uint32_t j = 0; j < e->n_resources; j++)
        g_free(e->resources[j].members);
    for (uint32_t i = 0; i < e->max_live; i++)
        g_free(e->demands[i].many);
    g_free(e->resources);
    g_free(e->demands);
    g_free(e->live);
    g_free(e->moved);
    g_free(e->queue);
    g_free(e->want);
    g_free(e);
}

static void touch(EchNative *e, uint32_t j)
{
    if (!e->resources[j].dirty) {
        e->resources[j].dirty = true;
        e->queue[e->n_queue++] = j;
    }
}

static void move(EchNative *e, uint32_t token)
{
    Demand *d = &e->demands[token];
    if (!d->moved) {
        d->moved = true;
        e->moved[e->n_moved++] = token;
    }
}

static Tick tick_from_ps(double ps)
{
    if (!(ps < PS_MAX))
        return (Tick)(int64_t)PS_MAX << TICK_BITS;
    int64_t whole = (int64_t)ps;
    return ((Tick)whole << TICK_BITS) + (Tick)((ps - (double)whole) * 4294967296.0);
}

static double ps_from_tick(Tick tick)
{
    return (double)(int64_t)(tick >> TICK_BITS) + (double)(uint32_t)(tick & UINT32_MAX) * (1.0 / 4294967296.0);
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
        d->parts[d->n_parts] = (Part){.amount = parts[k].amount, .resource = parts[k].resource, .place = r->n};
        r->members[r->n++] = (Member){.token = token, .part = d->n_parts++, .amount = parts[k].amount};
        touch(e, parts[k].resource);
    }
    d->live = true;
    d->moved = false;
    d->bound = NOWHERE;
    d->cap = min_time > 0 ? (double)ECH_PS_PER_S / (double)min_time : INFINITY;
    d->pace = d->cap;
    d->applied = -1;
    d->left = 1;
    d->min_time = min_time;
    d->since = e->now;
    d->place = e->n_live;
    e->live[e->n_live++] = token;
    if (d->n_parts == 0) {
        d->end = e->now + ((Tick)min_time << TICK_BITS);
        d->applied = d->pace;
    } else {
        /* Bounded by what its resources last granted: the first guess of the pace. */
        for (uint32_t k = 0; k < d->n_parts; k++) {
            double pace = e->resources[d->parts[k].resource].level / d->parts[k].amount;
            if (pace < d->pace) {
                d->pace = pace;
                d->bound = k;
            }
        }
        move(e, token);
    }
}

static void finish(EchNative *e, uint32_t token)
{
    Demand *d = &e->demands[token];
    for (uint32_t k = 0; k < d->n_parts; k++) {
        Resource *r = &e->resources[d->parts[k].resource];
        uint32_t hole = d->parts[k].place;
        Member last = r->members[--r->n];
        if (hole != r->n) {
            r->members[hole] = last;
            e->demands[last.token].parts[last.part].place = hole;
        }
        if (r->n == 0)
            r->level = INFINITY;
        else
            touch(e, d->parts[k].resource);
    }
    uint32_t last = e->live[--e->n_live];
    e->live[d->place] = last;
    e->demands[last].place = d->place;
    d->live = false;
}

/* The pace of @d if part @except did not limit it. */
static double pace_without(const EchNative *e, const Demand *d, uint32_t except)
{
    double pace = d->cap;
    for (uint32_t k = 0; k < d->n_parts; k++) {
        double other = e->resources[d->parts[k].resource].level / d->parts[k].amount;
        if (k != except && other < pace)
            pace = other;
    }
    return pace;
}

/* The level at which the members of @r together draw its capacity; infinite if they cannot. */
static double fill(EchNative *e, const Resource *r)
{
    double total = 0;
    for (uint32_t m = 0; m < r->n; m++) {
        const Member *member = &r->members[m];
        const Demand *d = &e->demands[member->token];
        double pace = d->bound == member->part ? pace_without(e, d, member->part) : d->pace;
        e->want[m] = pace * member->amount;
        total += e->want[m];
    }
    if (total <= r->capacity)
        return INFINITY;
    if (r->n == 1)
        return r->capacity;
    /* Newton on the concave sum of min(want, level): from the left it stays left, so it ends after finitely many steps. */
    double level = r->level < INFINITY ? r->level : r->capacity / r->n;
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
        if (next <= level && !first)
            return level;
        if (next == level)
            return level;
        level = next;
    }
}

/* Brings the paces of the members of @r in line with its level; what changed touches the demand's other resources. */
static void spread(EchNative *e, const Resource *r)
{
    for (uint32_t m = 0; m < r->n; m++) {
        const Member *member = &r->members[m];
        Demand *d = &e->demands[member->token];
        double pace = d->cap;
        uint32_t bound = NOWHERE;
        if (d->bound != member->part && r->level >= d->pace * member->amount)
            continue; /* Bounded elsewhere, and still. */
        for (uint32_t k = 0; k < d->n_parts; k++) {
            double other = e->resources[d->parts[k].resource].level / d->parts[k].amount;
            if (other < pace) {
                pace = other;
                bound = k;
            }
        }
        d->bound = bound;
        if (pace == d->pace)
            continue;
        bool far = fabs(pace - d->pace) > tolerance * pace || pace == INFINITY || d->pace == INFINITY;
        d->pace = pace;
        move(e, member->token);
        if (!far)
            continue;
        for (uint32_t k = 0; k < d->n_parts; k++)
            if (k != member->part)
                touch(e, d->parts[k].resource);
    }
}

/* Which resource bounds which demand is settled long before the levels are, where they pull at each other: then the levels solve linear equations.
 * Sets them if they confirm the assignment. */
static bool polish(EchNative *e)
{
    uint32_t row_of[64], rows[POLISH_RESOURCES], n = 0;
    if (e->n_resources > G_N_ELEMENTS(row_of))
        return false;
    for (uint32_t j = 0; j < e->n_resources; j++) {
        row_of[j] = NOWHERE;
        if (e->resources[j].level < INFINITY && e->resources[j].n > 0) {
            if (n == POLISH_RESOURCES)
                return false;
            row_of[j] = n;
            rows[n++] = j;
        }
    }
    double a[POLISH_RESOURCES][POLISH_RESOURCES + 1];
    memset(a, 0, sizeof a);
    for (uint32_t i = 0; i < n; i++) {
        const Resource *r = &e->resources[rows[i]];
        a[i][n] = r->capacity;
        for (uint32_t m = 0; m < r->n; m++) {
            const Demand *d = &e->demands[r->members[m].token];
            if (d->bound == NOWHERE)
                a[i][n] -= d->cap * r->members[m].amount;
            else
                a[i][row_of[d->parts[d->bound].resource]] += r->members[m].amount / d->parts[d->bound].amount;
        }
    }
    for (uint32_t c = 0; c < n; c++) {
        uint32_t pivot = c;
        for (uint32_t i = c + 1; i < n; i++)
            if (fabs(a[i][c]) > fabs(a[pivot][c]))
                pivot = i;
        if (!(fabs(a[pivot][c]) > 1e-12))
            return false;
        for (uint32_t k = 0; k <= n; k++) {
            double swap = a[c][k];
            a[c][k] = a[pivot][k];
            a[pivot][k] = swap;
        }
        for (uint32_t i = 0; i < n; i++) {
            double f = i == c ? 0 : a[i][c] / a[c][c];
            if (f != 0)
                for (uint32_t k = c; k <= n; k++)
                    a[i][k] -= f * a[c][k];
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (!(a[i][n] / a[i][i] > 0))
            return false;
    for (uint32_t i = 0; i < n; i++)
        e->resources[rows[i]].level = a[i][n] / a[i][i];
    return true;
}

static void solve(EchNative *e)
{
    for (uint32_t pass = 0; e->n_queue > 0 && pass < MAX_PASSES; pass++) {
        if (pass >= POLISH_AFTER && pass % POLISH_AFTER == 0 && polish(e)) {
            for (uint32_t j = 0; j < e->n_resources; j++)
                if (e->resources[j].n > 0)
                    touch(e, j);
            for (uint32_t j = 0; j < e->n_resources; j++)
                spread(e, &e->resources[j]);
        }
        /* One pass over what is touched now; what it touches goes to the next. Lowest resource first, so that history does not matter. */
        uint32_t n = 0;
        for (uint32_t q = 1; q < e->n_queue; q++)
            for (uint32_t p = q; p > 0 && e->queue[p - 1] > e->queue[p]; p--) {
                uint32_t swap = e->queue[p];
                e->queue[p] = e->queue[p - 1];
                e->queue[p - 1] = swap;
            }
        uint32_t n_now = e->n_queue;
        uint32_t now[256];
        uint32_t *todo = n_now <= G_N_ELEMENTS(now) ? now : g_new(uint32_t, n_now);
        memcpy(todo, e->queue, n_now * sizeof *todo);
        e->n_queue = 0;
        for (n = 0; n < n_now; n++)
            e->resources[todo[n]].dirty = false;
        for (n = 0; n < n_now; n++) {
            Resource *r = &e->resources[todo[n]];
            double level = fill(e, r);
            bool same = level == r->level || (level < INFINITY && fabs(level - r->level) <= tolerance * level);
            if (same && pass > 0)
                continue;
            r->level = level;
            spread(e, r);
        }
        if (todo != now)
            g_free(todo);
    }
    for (uint32_t q = 0; q < e->n_queue; q++)
        e->resources[e->queue[q]].dirty = false;
    e->n_queue = 0;
}

static void apply(EchNative *e, uint32_t token)
{
    Demand *d = &e->demands[token];
    d->moved = false;
    if (!d->live || d->pace == d->applied)
        return;
    if (d->applied > 0 && e->now > d->since) {
        d->left -= ps_from_tick(e->now - d->since) * (d->applied / (double)ECH_PS_PER_S);
        if (d->left < 0)
            d->left = 0;
    }
    d->since = e->now;
    d->applied = d->pace;
    if (d->left == 1 && d->bound == NOWHERE) {
        d->end = e->now + ((Tick)d->min_time << TICK_BITS);
        return;
    }
    /* ps = left * amount / level: one division, and in long double where a double would lose a thousandth of a picosecond. */
    double ps;
    if (d->bound == NOWHERE) {
        ps = d->left * (double)d->min_time;
    } else {
        const Part *part = &d->parts[d->bound];
        double level = e->resources[part->resource].level;
        ps = d->left * part->amount * (double)ECH_PS_PER_S / level;
        if (ps > 1e10 && ps < PS_MAX) {
            long double fine = (long double)d->left * part->amount * (long double)ECH_PS_PER_S / level;
            int64_t whole = (int64_t)fine;
            d->end = e->now + ((Tick)whole << TICK_BITS) + (Tick)((double)(fine - (long double)whole) * 4294967296.0);
            return;
        }
    }
    d->end = e->now + tick_from_ps(ps);
}

static int compare_tokens(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t native_next(void *engine, uint32_t *ret_tokens, EchTime *ret_now)
{
    EchNative *e = engine;
    if (e->n_live == 0)
        return 0;
    if (e->n_queue > 0)
        solve(e);
    for (uint32_t m = 0; m < e->n_moved; m++)
        apply(e, e->moved[m]);
    e->n_moved = 0;

    Tick first = e->demands[e->live[0]].end;
    for (uint32_t l = 1; l < e->n_live; l++) {
        Tick end = e->demands[e->live[l]].end;
        if (end < first)
            first = end;
    }
    if (first < e->now)
        first = e->now;
    /* What ends within rounding of the first ends with it: 2^-14 ps, more for long demands. */
    uint32_t n = 0;
    for (uint32_t l = 0; l < e->n_live; l++) {
        const Demand *d = &e->demands[e->live[l]];
        if (d->end <= first || d->end - first <= ((Tick)1 << (TICK_BITS - 14)) + ((d->end - d->since) >> 50))
            ret_tokens[n++] = e->live[l];
    }
    e->now = first;
    for (uint32_t i = 0; i < n; i++)
        finish(e, ret_tokens[i]);
    if (n > 1)
        qsort(ret_tokens, n, sizeof *ret_tokens, compare_tokens);
    *ret_now = (EchTime)((first + ((Tick)1 << (TICK_BITS - 1))) >> TICK_BITS);
    return n;
}

static double native_remaining(void *engine, uint32_t token)
{
    EchNative *e = engine;
    const Demand *d = &e->demands[token];
    if (!d->live)
        return 0;
    if (d->n_parts == 0)
        return d->min_time > 0 ? ps_from_tick(d->end - e->now) / (double)d->min_time : 0;
    double left = d->left;
    if (d->applied > 0)
        left -= ps_from_tick(e->now - d->since) * (d->applied / (double)ECH_PS_PER_S);
    return left < 0 ? 0 : left;
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
