#include "models/place/latency_hiding.h"

#include <glib.h>

EchHideRules ech_hide_rules(bool gpu, const char *compiler)
{
    static const char *const plain[] = {"v2", "v3", "v4", "v5p", "v6e", NULL};
    /* xla/service/gpu/gpu_latency_hiding_scheduler.cc: a copy goes beside computations by their limit, and takes kHighLatency, which for
     * sol_latency_estimator.cc is in microseconds. */
    if (gpu)
        return (EchHideRules){.limit = 2, .aggressive = true, .copy = 5 * (EchTime)1000000000};
    return (EchHideRules){.limit = 5, .aggressive = !compiler || !g_strv_contains(plain, compiler), .hosts = true};
}

typedef enum { STEP, START, DONE } Kind;

typedef struct {
    Kind kind;
    bool waits, scheduled;
    uint32_t needs; /* nodes behind it that are not scheduled yet */
    uint32_t frees; /* nodes before it that wait for nothing else */
    uint32_t copies;
    EchTime ready, length;
    EchTime depth; /* how long the copies took that what it reads has come by, one behind the other, at most */
    int64_t inside;
    GSequenceIter *waiting; /* DONE: where in its Alike; NULL: it is not ready, or scheduled */
    uint64_t position;      /* in the order that the scheduler was given */
} Node;

/* A candidate, and what memory it changes. */
typedef struct {
    uint32_t node;
    int64_t change, most;
} Candidate;

/* Waits that are ready and change memory alike, what is preferred otherwise first. */
typedef struct {
    int64_t change, most;
    GSequence *dones;
} Alike;

/* Of key k: at[first[k]..first[k + 1]). */
typedef struct {
    uint32_t *first, *at;
} Lists;

typedef struct {
    uint32_t key, value;
} Pair;

typedef struct {
    const EchHideProblem *p;
    uint32_t n;
    Node *nodes;
    Lists before, behind;                 /* nodes before and behind each */
    Lists arrays;                         /* that each uses */
    uint32_t *left;                       /* per array: users that are not scheduled yet */
    bool *live;                           /* per array */
    GArray *ready;                        /* uint32_t: steps and starts, ready or ready at a time */
    GArray *alikes;                       /* Alike */
    guint n_dones;                        /* in those */
    EchTime now, next;                    /* next: when the next copy would be over */
    int64_t limit, held, elsewhere, peak; /* elsewhere: of what is held */
    uint32_t flying, most_flying;
    bool pressed;
} Run;

static Lists lists_new(uint32_t keys, const GArray *pairs)
{
    Lists lists = {.first = g_new0(uint32_t, (size_t)keys + 2), .at = g_new(uint32_t, (size_t)pairs->len + 1)};
    for (guint k = 0; k < pairs->len; k++)
        lists.first[g_array_index(pairs, Pair, k).key + 2]++;
    for (uint32_t k = 2; k < keys + 2; k++)
        lists.first[k] += lists.first[k - 1];
    for (guint k = 0; k < pairs->len; k++)
        lists.at[lists.first[g_array_index(pairs, Pair, k).key + 1]++] = g_array_index(pairs, Pair, k).value;
    return lists;
}

static void lists_clear(Lists *lists)
{
    g_free(lists->first);
    g_free(lists->at);
}

/* ---- memory ---- */

/* What is held changes by that once it is scheduled; before, it is @ret_most more. */
static int64_t change_of(const Run *r, uint32_t n, int64_t *ret_most)
{
    int64_t come = 0, gone = 0;
    for (uint32_t k = r->arrays.first[n]; k < r->arrays.first[n + 1]; k++) {
        const EchHideArray *a = &r->p->arrays[r->arrays.at[k]];
        come += r->live[r->arrays.at[k]] ? 0 : a->bytes;
        gone += r->left[r->arrays.at[k]] == 1 && !a->given ? a->bytes : 0;
    }
    *ret_most = MAX(come, r->nodes[n].inside);
    return come - gone;
}

static gint compare_dones(gconstpointer x, gconstpointer y, gpointer data)
{
    const Run *r = data;
    const Node *a = &r->nodes[GPOINTER_TO_UINT(x)], *b = &r->nodes[GPOINTER_TO_UINT(y)];
    if (r->p->rules.aggressive && !r->p->rules.given && a->depth != b->depth)
        return a->depth > b->depth ? -1 : 1;
    return (a->position < b->position) - (a->position > b->position);
}

static void take_done(Run *r, uint32_t done)
{
    g_sequence_remove(r->nodes[done].waiting);
    r->nodes[done].waiting = NULL;
    r->n_dones--;
}

/* A wait that is ready, by what it changes with its start, which uses no other arrays. */
static void put_done(Run *r, uint32_t done)
{
    int64_t come = 0, gone = 0;
    for (uint32_t k = r->arrays.first[done - 1]; k < r->arrays.first[done]; k++) {
        const EchHideArray *a = &r->p->arrays[r->arrays.at[k]];
        come += r->live[r->arrays.at[k]] ? 0 : a->bytes;
        gone += r->left[r->arrays.at[k]] <= 2 && !a->given ? a->bytes : 0;
    }
    guint k = 0;
    while (k < r->alikes->len && (g_array_index(r->alikes, Alike, k).change != come - gone || g_array_index(r->alikes, Alike, k).most != come))
        k++;
    if (k == r->alikes->len) {
        Alike alike = {come - gone, come, g_sequence_new(NULL)};
        g_array_append_val(r->alikes, alike);
    }
    r->nodes[done].waiting = g_sequence_insert_sorted(g_array_index(r->alikes, Alike, k).dones, GUINT_TO_POINTER(done), compare_dones, r);
    r->n_dones++;
}

static void hold(Run *r, const EchHideArray *array, int64_t bytes)
{
    r->held += bytes;
    r->elsewhere += array->elsewhere ? bytes : 0;
}

static void use_arrays(Run *r, uint32_t n)
{
    for (uint32_t k = r->arrays.first[n]; k < r->arrays.first[n + 1]; k++) {
        uint32_t a = r->arrays.at[k];
        const EchHideArray *array = &r->p->arrays[a];
        if (r->live[a])
            continue;
        hold(r, array, array->bytes);
        r->live[a] = true;
        for (uint32_t u = array->first_user; u < array->first_user + array->n_users; u++)
            if (r->nodes[r->p->users[u]].waiting) {
                take_done(r, r->p->users[u]);
                put_done(r, r->p->users[u]);
            }
    }
    r->peak = MAX(r->peak, r->held - r->elsewhere + r->nodes[n].inside);
    for (uint32_t k = r->arrays.first[n]; k < r->arrays.first[n + 1]; k++) {
        uint32_t a = r->arrays.at[k];
        if (--r->left[a] > 0 || r->p->arrays[a].given)
            continue;
        hold(r, &r->p->arrays[a], -r->p->arrays[a].bytes);
        r->live[a] = false;
    }
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
    int by = r->held >= r->limit ? prefer_less(a->change, b->change) : 0;
    return by ? by : prefer(r->held + a->most <= r->limit, r->held + b->most <= r->limit);
}

/* Waits behind which copies could start go first where all that may be under way are. */
static bool is_backed_up(const Run *r, const Node *a)
{
    return a->kind == START && r->flying >= r->p->rules.limit && r->n_dones > 0;
}

static bool may_stay(const Run *r, const Node *a)
{
    return a->kind == START && a->depth == 0 && !is_backed_up(r, a);
}

/* How far its length is from what is left until the next copy would be over. */
static int64_t wasted(const Run *r, const Node *a)
{
    int64_t left = r->next - r->now - (a->kind == STEP ? a->length : 0);
    return left < 0 ? -left : left;
}

static bool is_better(const Run *r, const Candidate *one, const Candidate *other)
{
    const Node *a = &r->nodes[one->node], *b = &r->nodes[other->node];
    bool aggressive = r->p->rules.aggressive;
    if (r->p->rules.given)
        return a->position > b->position;
    int by = r->pressed ? by_memory(r, one, other) : 0;
    by = by ? by : prefer(a->kind == DONE, b->kind == DONE);
    by = by ? by : prefer_less(MAX(a->ready - r->now, 0), MAX(b->ready - r->now, 0));
    by = by || !aggressive ? by : prefer(!may_stay(r, a), !may_stay(r, b));
    by = by ? by : prefer(is_backed_up(r, a), is_backed_up(r, b));
    by = by || !aggressive ? by : prefer_less(b->depth, a->depth);
    if (by == 0 && aggressive && r->next != INT64_MAX) {
        int64_t of_a = wasted(r, a), of_b = wasted(r, b);
        by = prefer(a->kind != START && of_a < of_b, b->kind != START && of_b < of_a);
    }
    by = by ? by : prefer(a->waits, b->waits);
    by = by || !aggressive ? by : prefer_less(b->frees, a->frees);
    by = by || !r->pressed ? by : prefer(one->change < 0, other->change < 0);
    return by ? by < 0 : a->position > b->position;
}

/* ---- scheduling ---- */

/* Whether there is a wait that may be scheduled; *@ret_best: the one that is preferred. */
static bool best_done(const Run *r, Candidate *ret_best)
{
    bool any = false;
    for (guint k = 0; k < r->alikes->len && r->flying < r->p->rules.limit; k++) {
        const Alike *alike = &g_array_index(r->alikes, Alike, k);
        if (g_sequence_is_empty(alike->dones))
            continue;
        Candidate c = {GPOINTER_TO_UINT(g_sequence_get(g_sequence_get_begin_iter(alike->dones))), alike->change, alike->most};
        if (any && !is_better(r, &c, ret_best))
            continue;
        *ret_best = c;
        any = true;
    }
    return any;
}

/* Takes the best node out of what is ready. */
static uint32_t choose(Run *r)
{
    Candidate best = {0};
    guint found = UINT_MAX;
    r->pressed = r->held > r->limit / 2;
    r->next = INT64_MAX;
    bool done = best_done(r, &best);
    for (guint k = 0; k < r->ready->len; k++) {
        const Node *a = &r->nodes[g_array_index(r->ready, uint32_t, k)];
        if (a->kind == START && a->ready > r->now)
            r->next = MIN(r->next, a->ready);
    }
    for (guint k = 0; k < r->ready->len && (!done || r->pressed || r->p->rules.given); k++) {
        Candidate c = {.node = g_array_index(r->ready, uint32_t, k)};
        if (r->nodes[c.node].kind == STEP && r->flying + r->nodes[c.node].copies > r->p->rules.limit)
            continue;
        if (r->pressed)
            c.change = change_of(r, c.node, &c.most);
        if ((done || found != UINT_MAX) && !is_better(r, &c, &best))
            continue;
        best = c;
        found = k;
    }
    if (found != UINT_MAX) {
        g_array_remove_index_fast(r->ready, found);
        return best.node;
    }
    g_assert(done);
    take_done(r, best.node);
    return best.node;
}

/* Whether a wait is for the copy that starts at @start. */
static bool is_own(const Run *r, uint32_t start, uint32_t done)
{
    return r->nodes[start].kind == START && done == start + 1;
}

static void add_ready(Run *r, uint32_t n)
{
    if (r->nodes[n].kind == DONE)
        put_done(r, n);
    else
        g_array_append_val(r->ready, n);
}

/* The last node behind @n that is not scheduled makes it ready. */
static void count_free(Run *r, uint32_t n)
{
    for (uint32_t k = r->behind.first[n]; k < r->behind.first[n + 1]; k++)
        r->nodes[r->behind.at[k]].frees += !r->nodes[r->behind.at[k]].scheduled;
}

static void schedule(Run *r, uint32_t n)
{
    Node *node = &r->nodes[n];
    node->scheduled = true;
    r->now = MAX(r->now, node->ready);
    EchTime begun = r->now;
    if (node->kind == STEP)
        r->now = MIN(r->now + node->length, INT64_MAX / 4);
    else
        r->flying += node->kind == DONE ? 1u : -1u;
    r->most_flying = MAX(r->most_flying, r->flying);
    use_arrays(r, n);
    for (uint32_t k = r->before.first[n]; k < r->before.first[n + 1]; k++) {
        uint32_t m = r->before.at[k];
        Node *before = &r->nodes[m];
        before->ready = MAX(before->ready, begun + (is_own(r, m, n) ? before->length : 0));
        before->needs--;
        if (before->needs == 0)
            add_ready(r, m);
        else if (before->needs == 1)
            count_free(r, m);
    }
}

/* In the order that a scheduler for memory alone has found: what is brought comes right before it is used, or before all else, what is sent right after it was
 * made. */
static void set_positions(Run *r)
{
    const EchHideProblem *p = r->p;
    for (uint32_t k = 0; k < p->n_copies; k++) {
        uint32_t start = ECH_HIDE_START(p, k), done = ECH_HIDE_DONE(p, k), first = p->n_steps, last = 0;
        for (uint32_t j = r->behind.first[done]; j < r->behind.first[done + 1]; j++)
            first = MIN(first, r->behind.at[j]);
        for (uint32_t j = r->before.first[start]; j < r->before.first[start + 1]; j++)
            last = r->before.at[j] < p->n_steps ? MAX(last, r->before.at[j] + 1) : last;
        uint64_t at = !p->copies[k].to_device ? 2 * (uint64_t)last - (last > 0) : p->rules.first ? 0 : 2 * (uint64_t)first;
        r->nodes[start].position = at << 32 | 2 * (uint64_t)k;
        r->nodes[done].position = r->nodes[start].position + 1;
    }
}

/* @needs: per node, those that need it. */
static void set_depths(Run *r, const Lists *needs)
{
    g_autofree uint32_t *left = g_new0(uint32_t, r->n + 1), *stack = g_new(uint32_t, r->n + 1);
    uint32_t n_stack = 0;
    for (uint32_t k = 0; k < needs->first[r->n]; k++)
        left[needs->at[k]]++;
    for (uint32_t n = 0; n < r->n; n++)
        if (left[n] == 0)
            stack[n_stack++] = n;
    while (n_stack > 0) {
        uint32_t n = stack[--n_stack];
        for (uint32_t k = needs->first[n]; k < needs->first[n + 1]; k++) {
            uint32_t m = needs->at[k];
            EchTime depth = is_own(r, n, m) ? MIN(r->nodes[n].depth + r->nodes[n].length, INT64_MAX / 4) : r->nodes[n].depth;
            r->nodes[m].depth = MAX(r->nodes[m].depth, depth);
            if (--left[m] == 0)
                stack[n_stack++] = m;
        }
    }
}

static void set_up_nodes(Run *r)
{
    const EchHideProblem *p = r->p;
    r->n = p->n_steps + 2 * p->n_copies;
    r->nodes = g_new0(Node, r->n + 1);
    for (uint32_t j = 0; j < p->n_steps; j++) {
        const EchHideStep *s = &p->steps[j];
        r->nodes[j] =
            (Node){.kind = STEP, .waits = s->waits, .copies = s->copies, .length = s->length, .inside = s->inside, .position = (2 * (uint64_t)j + 1) << 32};
    }
    g_autoptr(GArray) before = g_array_new(FALSE, FALSE, sizeof(Pair)), behind = g_array_new(FALSE, FALSE, sizeof(Pair));
    g_autoptr(GArray) needed = g_array_new(FALSE, FALSE, sizeof(Pair));
    for (uint32_t k = 0; k < p->n_orders + p->n_copies; k++) {
        EchHideOrder o = k < p->n_orders ? p->orders[k] : (EchHideOrder){ECH_HIDE_START(p, k - p->n_orders), ECH_HIDE_DONE(p, k - p->n_orders), false};
        Pair pairs[2] = {{o.after, o.before}, {o.before, o.after}};
        g_array_append_val(before, pairs[0]);
        g_array_append_val(behind, pairs[1]);
        if (!o.given)
            g_array_append_val(needed, pairs[1]);
        r->nodes[o.before].needs++;
    }
    r->before = lists_new(r->n, before);
    r->behind = lists_new(r->n, behind);
    for (uint32_t k = 0; k < p->n_copies; k++) {
        const EchHideCopy *c = &p->copies[k];
        Node *start = &r->nodes[ECH_HIDE_START(p, k)], *done = start + 1;
        *start = (Node){.kind = START, .needs = start->needs, .length = c->length};
        *done = (Node){.kind = DONE, .needs = done->needs};
    }
    set_positions(r);
    Lists needs = lists_new(r->n, needed);
    set_depths(r, &needs);
    lists_clear(&needs);
}

static void set_up_arrays(Run *r)
{
    const EchHideProblem *p = r->p;
    g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(Pair));
    r->left = g_new0(uint32_t, p->n_arrays + 1);
    r->live = g_new0(bool, p->n_arrays + 1);
    r->held = p->held + p->elsewhere;
    r->elsewhere = p->elsewhere;
    for (uint32_t k = 0; k < p->n_arrays; k++) {
        const EchHideArray *a = &p->arrays[k];
        for (uint32_t u = 0; u < a->n_users; u++) {
            Pair use = {p->users[a->first_user + u], k};
            g_array_append_val(uses, use);
        }
        r->left[k] = a->n_users;
        r->live[k] = a->left;
        hold(r, a, a->left ? a->bytes : 0);
    }
    r->arrays = lists_new(r->n, uses);
    r->peak = r->held - r->elsewhere;
    r->limit = (int64_t)MIN(p->memory, INT64_MAX / 4);
}

static void set_up_ready(Run *r)
{
    r->ready = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    r->alikes = g_array_new(FALSE, FALSE, sizeof(Alike));
    for (uint32_t n = 0; n < r->n; n++) {
        if (r->nodes[n].needs == 0)
            add_ready(r, n);
        else if (r->nodes[n].needs == 1)
            count_free(r, n);
    }
}

int64_t ech_hide_latencies(const EchHideProblem *problem, uint32_t *ret, uint32_t *ret_flying)
{
    Run run = {.p = problem}, *r = &run;
    set_up_nodes(r);
    set_up_arrays(r);
    set_up_ready(r);
    for (uint32_t k = r->n; k-- > 0;) {
        ret[k] = choose(r);
        schedule(r, ret[k]);
    }
    if (ret_flying)
        *ret_flying = r->most_flying;
    g_free(r->nodes);
    g_free(r->left);
    g_free(r->live);
    g_array_unref(r->ready);
    for (guint k = 0; k < r->alikes->len; k++)
        g_sequence_free(g_array_index(r->alikes, Alike, k).dones);
    g_array_unref(r->alikes);
    lists_clear(&r->before);
    lists_clear(&r->behind);
    lists_clear(&r->arrays);
    return r->peak;
}
