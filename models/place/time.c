#include "models/place/time.h"

#include <stdlib.h>

typedef struct {
    int64_t after, before; /* starts after, done before */
    double bytes, left;
    bool in;
    uint32_t order;
} Move;

typedef struct {
    GQueue *queues[2]; /* Move, out of and into the fast memory */
    double bandwidth;
} Traffic;

static int compare_start(const void *a, const void *b)
{
    const Move *x = a, *y = b;
    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Lets copies progress for up to @seconds, or until @wanted is done (then the whole time may be needed); returns what it took. */
static double progress(Traffic *t, double seconds, const Move *wanted)
{
    double spent = 0;
    while (spent < seconds && (wanted == NULL || wanted->left > 0)) {
        Move *in = g_queue_peek_head(t->queues[1]), *out = g_queue_peek_head(t->queues[0]);
        if (in == NULL && out == NULL)
            break;
        double rate = in != NULL && out != NULL ? t->bandwidth / 2 : t->bandwidth;
        double least = in != NULL && out != NULL ? MIN(in->left, out->left) : in != NULL ? in->left : out->left;
        double step = MIN(least / rate, seconds - spent);
        bool whole = step >= least / rate;
        for (uint32_t k = 0; k < 2; k++) {
            Move *move = k == 0 ? in : out;
            if (move == NULL)
                continue;
            move->left -= step * rate;
            if (move->left <= 1e-6 || (whole && move->left <= 1e-9 * move->bytes)) {
                move->left = 0;
                g_queue_pop_head(t->queues[k == 0 ? 1 : 0]);
            }
        }
        spent += step;
        if (step <= 0 && !whole)
            break;
    }
    return spent;
}

static GArray *list_moves(const EchMsaResult *result)
{
    GArray *moves = g_array_new(FALSE, FALSE, sizeof(Move));
    for (uint32_t s = 0; s < result->n_stays; s++) {
        const EchMsaStay *stay = &result->stays[s];
        if (stay->kind != ECH_MSA_COPIED && stay->kind != ECH_MSA_SLICED)
            continue;
        /* What was fetched before the program begins is there. */
        if (stay->cross_program && stay->copy_after < 0)
            continue;
        for (uint32_t k = 0; k < MAX(stay->n_slices, 1); k++) {
            const EchMsaSlice *slice = stay->n_slices > 0 ? &result->slices[stay->first_slice + k] : NULL;
            double bytes = (double)(slice != NULL ? slice->bytes : stay->bytes);
            Move move = {slice != NULL ? (int64_t)(int32_t)slice->after : stay->copy_after, stay->copy_before, bytes, bytes, stay->fast, moves->len};
            g_array_append_val(moves, move);
        }
    }
    return moves;
}

EchPlaceTime ech_place_time(const EchMsaProblem *problem, const EchMsaResult *result, const EchPlaceTimes *times)
{
    const EchMsaProblem *p = problem;
    EchPlaceTime time = {0};
    g_autofree double *fast = g_new0(double, MAX(p->n_steps, 1));
    for (uint32_t u = 0; result != NULL && u < p->n_uses; u++)
        if (result->use_fast[u])
            fast[p->uses[u].step] += (double)MAX(p->uses[u].accessed, 0);
    for (uint32_t s = 0; result != NULL && s < result->n_stays; s++) {
        const EchMsaStay *stay = &result->stays[s];
        if (stay->fast && stay->kind == ECH_MSA_PINNED && stay->position != ECH_PLACE_NONE && stay->start == (int64_t)p->positions[stay->position].step)
            fast[stay->start] += (double)MAX(p->definition_bytes[stay->position], 0);
    }
    g_autoptr(GArray) moves = result != NULL ? list_moves(result) : g_array_new(FALSE, FALSE, sizeof(Move));
    if (moves->len > 1)
        qsort(moves->data, moves->len, sizeof(Move), compare_start);
    Move *list = (Move *)(void *)moves->data;
    Traffic traffic = {{g_queue_new(), g_queue_new()}, times->slow_bytes_per_s};
    g_autoptr(GPtrArray) waiting = g_ptr_array_new(); /* started, not yet waited for */
    guint next = 0;
    for (int64_t t = -1; t <= (int64_t)p->n_steps; t++) {
        double trips = t >= 0 && t < (int64_t)p->n_steps ? (double)times->trips[t] : 1;
        for (guint i = 0; i < waiting->len;) {
            Move *move = waiting->pdata[i];
            if (move->before != t) {
                i++;
                continue;
            }
            g_ptr_array_remove_index(waiting, i);
            if (move->left > 0)
                time.waits += progress(&traffic, 1e9, move) * trips;
        }
        if (t >= 0 && t < (int64_t)p->n_steps) {
            double in_fast = MIN(fast[t], (double)times->total[t]), slow = ((double)times->total[t] - in_fast) / times->slow_bytes_per_s;
            double elapsed = MAX((double)times->compute[t], slow + in_fast / times->fast_bytes_per_s);
            if (p->steps[t].seconds <= 0)
                elapsed = slow = 0;
            time.work += elapsed * trips;
            (void)progress(&traffic, elapsed - slow, NULL);
        }
        for (; next < moves->len && list[next].after == t; next++) {
            g_queue_push_tail(traffic.queues[list[next].in ? 1 : 0], &list[next]);
            g_ptr_array_add(waiting, &list[next]);
        }
    }
    g_queue_free(traffic.queues[0]);
    g_queue_free(traffic.queues[1]);
    return time;
}
