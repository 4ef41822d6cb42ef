#include "models/place/sooner.h"

#include <glib.h>
#include <string.h>

/* Times that those without gain are left, at most: a handful settles programs; any number leaves an order that is possible. */
enum { MOST_ROUNDS = 100 };

typedef struct {
    const EchHideProblem *p;
    uint32_t *first, *before; /* first[n_steps + 1]: by step, slices of what comes before it */
    uint32_t *slot;           /* per step: the step behind which it runs, or itself */
    bool *may_move;           /* per step */
    int64_t *gain;            /* per step: bytes that it gives back less those that it takes */
    uint32_t *reader;         /* per step: one that moves, reads what it makes and runs when it does; UINT32_MAX: none */
} Sooner;

static void collect_before(Sooner *s)
{
    const EchHideProblem *p = s->p;
    for (uint32_t k = 0; k < p->n_orders; k++)
        s->first[p->orders[k].after + 1]++;
    for (uint32_t k = 0; k < p->n_steps; k++)
        s->first[k + 1] += s->first[k];
    g_autofree uint32_t *next = g_memdup2(s->first, (p->n_steps + 1) * sizeof *next);
    for (uint32_t k = 0; k < p->n_orders; k++)
        s->before[next[p->orders[k].after]++] = p->orders[k].before;
}

static bool moves(const Sooner *s, uint32_t step)
{
    return s->slot[step] != step;
}

/* As soon as all is over that comes before; what nothing comes before stays. */
static void find_slots(Sooner *s)
{
    for (uint32_t k = 0; k < s->p->n_steps; k++) {
        bool any = false;
        uint32_t slot = 0;
        for (uint32_t i = s->first[k]; i < s->first[k + 1]; i++) {
            any = true;
            slot = s->slot[s->before[i]] > slot ? s->slot[s->before[i]] : slot;
        }
        s->slot[k] = any && s->may_move[k] && slot + 1 < k ? slot : k;
    }
}

/* What the last users of an array give back is shared by those of them that move; the first takes it. */
static void count_bytes(Sooner *s)
{
    const EchHideProblem *p = s->p;
    memset(s->gain, 0, p->n_steps * sizeof *s->gain);
    memset(s->reader, 0xff, p->n_steps * sizeof *s->reader);
    for (uint32_t a = 0; a < p->n_arrays; a++) {
        const EchHideArray *array = &p->arrays[a];
        uint32_t first = UINT32_MAX, last = 0, n = 0;
        for (uint32_t u = array->first_user; u < array->first_user + array->n_users; u++) {
            uint32_t step = p->users[u];
            first = step < first ? step : first;
            last = !moves(s, step) && step + 1 > last ? step + 1 : last;
        }
        for (uint32_t u = array->first_user; u < array->first_user + array->n_users; u++)
            n += p->users[u] >= last;
        bool made = first != UINT32_MAX && !array->given && moves(s, first);
        if (made)
            s->gain[first] -= array->bytes;
        for (uint32_t u = array->first_user; u < array->first_user + array->n_users; u++) {
            uint32_t step = p->users[u];
            if (step >= last && !array->left)
                s->gain[step] += array->bytes / n;
            if (made && step > first && moves(s, step) && s->slot[step] == s->slot[first])
                s->reader[first] = step;
        }
    }
}

/* What takes as much as it gives back, or more, moves along with what reads it (a transpose before a product), where that makes up for both. */
static bool leave_those_without_gain(Sooner *s)
{
    bool any = false;
    for (uint32_t k = 0; k < s->p->n_steps; k++) {
        const uint32_t reader = s->reader[k];
        bool along = moves(s, k) && s->gain[k] <= 0 && reader != UINT32_MAX && s->gain[reader] + s->gain[k] > 0;
        if (along)
            s->gain[reader] += s->gain[k];
        bool leaves = moves(s, k) && s->gain[k] <= 0 && !along;
        any |= leaves;
        s->may_move[k] &= !leaves;
    }
    return any;
}

/* By slot; of one, in the order that they are given, the step itself first. */
static void write_order(const Sooner *s, uint32_t *ret)
{
    uint32_t n = s->p->n_steps;
    g_autofree uint32_t *first = g_new0(uint32_t, n + 2);
    for (uint32_t k = 0; k < n; k++)
        first[s->slot[k] + 1]++;
    for (uint32_t k = 0; k < n; k++)
        first[k + 1] += first[k];
    for (uint32_t k = 0; k < n; k++)
        ret[first[s->slot[k]]++] = k;
}

uint32_t ech_order_sooner(const EchHideProblem *problem, const bool *stays, uint32_t *ret)
{
    Sooner s = {.p = problem,
                .first = g_new0(uint32_t, problem->n_steps + 2),
                .before = g_new0(uint32_t, problem->n_orders + 1),
                .slot = g_new0(uint32_t, problem->n_steps + 1),
                .may_move = g_new0(bool, problem->n_steps + 1),
                .gain = g_new0(int64_t, problem->n_steps + 1),
                .reader = g_new0(uint32_t, problem->n_steps + 1)};
    collect_before(&s);
    for (uint32_t k = 0; k < problem->n_steps; k++)
        s.may_move[k] = !stays[k];
    unsigned round = 0;
    do {
        find_slots(&s);
        count_bytes(&s);
    } while (leave_those_without_gain(&s) && ++round < MOST_ROUNDS);
    write_order(&s, ret);
    uint32_t sooner = 0;
    for (uint32_t k = 0; k < problem->n_steps; k++)
        sooner += moves(&s, k);
    g_free(s.first);
    g_free(s.before);
    g_free(s.slot);
    g_free(s.may_move);
    g_free(s.gain);
    g_free(s.reader);
    return sooner;
}
