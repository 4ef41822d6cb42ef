#include "models/place/latency_hiding.h"

#include <glib.h>
#include <string.h>

EchHideRules ech_hide_rules(bool gpu, const char *compiler)
{
    static const char *const by_time[] = {"v2", "v3", "v4", "v5p", "v6e", NULL};
    if (gpu)
        return (EchHideRules){.limit = 2, .by_depth = true};
    return (EchHideRules){.limit = 5, .backs_up = true, .by_depth = !compiler || !g_strv_contains(by_time, compiler)};
}

typedef enum { STEP, START, DONE } Kind;

/* Something that may be scheduled next. */
typedef struct {
    Kind kind;
    uint32_t index;
    EchTime ready, length;
    uint32_t depth;
    int64_t change, most; /* of memory, from what is held now */
    uint64_t position;    /* in the order that the scheduler was given */
    bool waits;
} Candidate;

/* Lists of copies, by number: those of @key are at[first[key]..first[key + 1]). */
typedef struct {
    uint32_t *first, *at;
} Lists;

typedef struct {
    const EchHideProblem *p;
    uint32_t left;             /* steps that are not scheduled yet */
    uint32_t *step_needs;      /* per step: starts that come after it and are not scheduled yet */
    uint32_t *done_needs;      /* per copy: what comes after its wait and is not scheduled yet */
    Lists until, used, orders; /* of steps: copies by EchHideCopy.until and used; of copies: those that wait for it to be over */
    GArray *dones, *starts;    /* Candidate: ready, or ready at a time */
    bool *kept;                /* per copy from the device: it is still there behind its last use */
    EchTime now;
    uint32_t flying, most_flying;
    int64_t extra, peak; /* what copies hold besides EchHideStep.before */
    bool pressed;
    EchHideEvent *events;
    uint32_t n_events; /* from the end */
} Run;

static void list_all(Lists *lists, uint32_t keys, uint32_t n, uint32_t (*key_of)(const EchHideProblem *, uint32_t), const EchHideProblem *p)
{
    lists->first = g_new0(uint32_t, keys + 2);
    lists->at = g_new(uint32_t, n + 1);
    for (uint32_t k = 0; k < n; k++)
        lists->first[key_of(p, k) + 2]++;
    for (uint32_t k = 2; k < keys + 2; k++)
        lists->first[k] += lists->first[k - 1];
    for (uint32_t k = 0; k < n; k++)
        lists->at[lists->first[key_of(p, k) + 1]++] = k;
}

static uint32_t until_of(const EchHideProblem *p, uint32_t k)
{
    return p->copies[k].until;
}

static uint32_t used_of(const EchHideProblem *p, uint32_t k)
{
    return p->copies[k].to_device ? 0 : p->copies[k].used;
}

static uint32_t start_of(const EchHideProblem *p, uint32_t k)
{
    return p->orders[k].start;
}

static void lists_clear(Lists *lists)
{
    g_free(lists->first);
    g_free(lists->at);
}

static int64_t held(const Run *r)
{
    const EchHideProblem *p = r->p;
    return (r->left < p->n_steps ? p->steps[r->left].before : p->at_end) + r->extra;
}

static void count(Run *r)
{
    r->peak = MAX(r->peak, held(r));
}

/* ---- what is preferred ---- */

/* Below 0: a; above: b; 0: neither. */
static int prefer(bool a, bool b)
{
    return (int)b - (int)a;
}

static int prefer_less(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_memory(const Run *r, const Candidate *a, const Candidate *b)
{
    int64_t limit = (int64_t)MIN(r->p->memory, INT64_MAX / 4), now = held(r);
    int by = now >= limit ? prefer_less(a->change, b->change) : 0;
    return by ? by : prefer(now + a->most <= limit, now + b->most <= limit);
}

/* Waits behind which copies could start go first where all that may be under way are. */
static bool is_backed_up(const Run *r, const Candidate *a)
{
    return r->p->rules.backs_up && a->kind == START && r->flying >= r->p->rules.limit && r->dones->len > 0;
}

static bool may_stay(const Run *r, const Candidate *a)
{
    return a->kind == START && a->depth == 0 && !is_backed_up(r, a);
}

/* How far its length is from what is left until the next copy would be over. */
static int64_t wasted(const Run *r, const Candidate *a, EchTime next)
{
    int64_t left = next - r->now - a->length;
    return left < 0 ? -left : left;
}

static bool is_better(const Run *r, const Candidate *a, const Candidate *b, EchTime next)
{
    int by = r->pressed ? by_memory(r, a, b) : 0;
    by = by ? by : prefer(a->kind == DONE, b->kind == DONE);
    by = by ? by : prefer_less(MAX(a->ready - r->now, 0), MAX(b->ready - r->now, 0));
    by = by ? by : prefer(!may_stay(r, a), !may_stay(r, b));
    by = by ? by : prefer(is_backed_up(r, a), is_backed_up(r, b));
    by = by || !r->p->rules.by_depth ? by : prefer_less(b->depth, a->depth);
    if (by == 0 && next != INT64_MAX) {
        int64_t of_a = wasted(r, a, next), of_b = wasted(r, b, next);
        by = prefer(a->kind != START && of_a < of_b, b->kind != START && of_b < of_a);
    }
    by = by ? by : prefer(a->waits, b->waits);
    by = by || !r->pressed ? by : prefer(a->change < 0, b->change < 0);
    return by ? by < 0 : a->position > b->position;
}

/* ---- scheduling ---- */

/* Of a copy's start, and behind it of its wait, as a scheduler for memory alone would have it: brought right before it is used, sent right after it was made.
 */
static uint64_t start_position(const EchHideCopy *c)
{
    return c->to_device ? 4 * (uint64_t)c->until + 1 : 4 * (uint64_t)c->after;
}

static void release_done(Run *r, uint32_t k)
{
    const EchHideCopy *c = &r->p->copies[k];
    if (--r->done_needs[k] > 0)
        return;
    Candidate done = {.kind = DONE, .index = k, .ready = r->now, .depth = c->depth + 1, .position = start_position(c) + 1};
    g_array_append_val(r->dones, done);
}

static void add_event(Run *r, uint32_t k, bool done)
{
    r->events[2 * r->p->n_copies - ++r->n_events] = (EchHideEvent){.copy = k, .done = done, .step = r->left};
}

static void schedule_done(Run *r, uint32_t k)
{
    const EchHideCopy *c = &r->p->copies[k];
    add_event(r, k, true);
    r->flying++;
    r->most_flying = MAX(r->most_flying, r->flying);
    if (!c->to_device && r->left >= c->used) {
        r->kept[k] = true;
        r->extra += c->bytes;
        count(r);
    }
    Candidate start = {
        .kind = START, .index = k, .ready = r->now + c->length, .depth = c->depth, .position = start_position(c), .change = c->to_device ? -c->bytes : 0};
    g_array_append_val(r->starts, start);
}

static void schedule_start(Run *r, uint32_t k)
{
    const EchHideCopy *c = &r->p->copies[k];
    add_event(r, k, false);
    r->flying--;
    if (c->to_device)
        r->extra -= c->bytes;
    if (c->after > 0)
        r->step_needs[c->after - 1]--;
    for (uint32_t o = r->orders.first[k]; o < r->orders.first[k + 1]; o++)
        release_done(r, r->p->orders[r->orders.at[o]].done);
}

static void schedule_step(Run *r)
{
    const EchHideProblem *p = r->p;
    uint32_t j = --r->left;
    r->now = MIN(r->now + p->steps[j].length, INT64_MAX / 4);
    r->peak = MAX(r->peak, p->steps[j].most + r->extra);
    for (uint32_t u = r->used.first[j + 1]; u < r->used.first[j + 2]; u++)
        if (r->kept[r->used.at[u]]) {
            r->kept[r->used.at[u]] = false;
            r->extra -= p->copies[r->used.at[u]].bytes;
        }
    count(r);
    for (uint32_t u = r->until.first[j]; u < r->until.first[j + 1]; u++)
        release_done(r, r->until.at[u]);
}

/* What of memory a step changes: what is taken away after it counts by itself from there on. */
static Candidate next_step(const Run *r)
{
    const EchHideProblem *p = r->p;
    uint32_t j = r->left - 1;
    const EchHideStep *s = &p->steps[j];
    int64_t now = held(r) - r->extra, kept = 0;
    for (uint32_t u = r->used.first[j + 1]; u < r->used.first[j + 2]; u++)
        kept += r->kept[r->used.at[u]] ? p->copies[r->used.at[u]].bytes : 0;
    return (Candidate){.kind = STEP,
                       .index = j,
                       .ready = r->now,
                       .depth = s->depth,
                       .length = s->length,
                       .waits = s->waits,
                       .change = s->before - now - kept,
                       .most = MAX(s->most - now - kept, 0),
                       .position = 4 * (uint64_t)j + 3};
}

static bool is_ready(const Run *r)
{
    return r->left > 0 && r->step_needs[r->left - 1] == 0 && r->flying + r->p->steps[r->left - 1].copies <= r->p->rules.limit;
}

static void run(Run *r)
{
    const EchHideProblem *p = r->p;
    while (r->left > 0 || r->n_events < 2 * p->n_copies) {
        Candidate best;
        bool any = false;
        GArray *from = NULL;
        guint at = 0;
        r->pressed = held(r) > (int64_t)(MIN(p->memory, INT64_MAX / 4) / 2);
        EchTime next = INT64_MAX;
        for (guint k = 0; k < r->starts->len; k++) {
            EchTime ready = g_array_index(r->starts, Candidate, k).ready;
            next = ready > r->now ? MIN(next, ready) : next;
        }
        if (is_ready(r)) {
            best = next_step(r);
            any = true;
        }
        for (guint k = 0; k < r->starts->len; k++) {
            const Candidate *c = &g_array_index(r->starts, Candidate, k);
            if (any && !is_better(r, c, &best, next))
                continue;
            best = *c;
            any = true;
            from = r->starts;
            at = k;
        }
        for (guint k = 0; k < r->dones->len && r->flying < p->rules.limit; k++) {
            Candidate *c = &g_array_index(r->dones, Candidate, k);
            const EchHideCopy *copy = &p->copies[c->index];
            if (!copy->to_device)
                c->change = c->most = r->left >= copy->used ? copy->bytes : 0;
            if (any && !is_better(r, c, &best, next))
                continue;
            best = *c;
            any = true;
            from = r->dones;
            at = k;
        }
        g_assert(any);
        r->now = MAX(r->now, best.ready);
        if (from)
            g_array_remove_index_fast(from, at);
        if (best.kind == STEP)
            schedule_step(r);
        else if (best.kind == START)
            schedule_start(r, best.index);
        else
            schedule_done(r, best.index);
    }
}

int64_t ech_hide_latencies(const EchHideProblem *problem, EchHideEvent *ret, uint32_t *ret_flying)
{
    const EchHideProblem *p = problem;
    Run run_of = {.p = p,
                  .left = p->n_steps,
                  .step_needs = g_new0(uint32_t, p->n_steps + 1),
                  .done_needs = g_new0(uint32_t, p->n_copies + 1),
                  .kept = g_new0(bool, p->n_copies + 1),
                  .dones = g_array_new(FALSE, FALSE, sizeof(Candidate)),
                  .starts = g_array_new(FALSE, FALSE, sizeof(Candidate)),
                  .events = ret},
        *r = &run_of;
    list_all(&r->until, p->n_steps + 1, p->n_copies, until_of, p);
    list_all(&r->used, p->n_steps + 1, p->n_copies, used_of, p);
    list_all(&r->orders, p->n_copies, p->n_orders, start_of, p);
    for (uint32_t k = 0; k < p->n_copies; k++) {
        const EchHideCopy *c = &p->copies[k];
        if (c->after > 0)
            r->step_needs[c->after - 1]++;
        r->done_needs[k] = 1;
    }
    for (uint32_t o = 0; o < p->n_orders; o++)
        r->done_needs[p->orders[o].done]++;
    r->peak = held(r);
    for (uint32_t u = r->until.first[p->n_steps]; u < r->until.first[p->n_steps + 1]; u++)
        release_done(r, r->until.at[u]);
    run(r);
    if (ret_flying)
        *ret_flying = r->most_flying;
    int64_t peak = r->peak;
    g_free(r->step_needs);
    g_free(r->done_needs);
    g_free(r->kept);
    g_array_unref(r->dones);
    g_array_unref(r->starts);
    lists_clear(&r->until);
    lists_clear(&r->used);
    lists_clear(&r->orders);
    return peak;
}
