#include "sim/replay/machine_private.h"

#include <math.h>
#include <string.h>

enum { MAX_PERIOD = 8 }; /* Iterations that a steady state may take to come back. */

/* The state at the begin of an iteration, relative to it. */
typedef struct {
    uint64_t iteration;
    GArray *words;    /* uint64_t: what must be equal. */
    GArray *times;    /* EchTime before now: equal but for rounding to a picosecond. */
    GArray *shares;   /* double: what must be equal up to rounding. */
    EchTime *ahead;   /* How long before now each queue's last copy was set up: time that later set-ups have already passed in. */
    EchTime *since;   /* When each link became busy: in one direction, the other, either. */
    uint64_t *counts; /* Of each memory: ALLOCs, FREEs, ALLOCs that found no room. */
    int64_t *sums;
    double *amounts;
    EchTime ps;
    double fraction;
    uint64_t ops;
} Mark;

static void mark_clear(gpointer data)
{
    Mark *mark = data;
    if (mark->words)
        g_array_unref(mark->words);
    if (mark->times)
        g_array_unref(mark->times);
    if (mark->shares)
        g_array_unref(mark->shares);
    g_free(mark->ahead);
    g_free(mark->since);
    g_free(mark->counts);
    g_free(mark->sums);
    g_free(mark->amounts);
}

static void set_ordinal(EchMachine *m, Queue *q)
{
    uint64_t ordinal = 0;
    for (uint32_t d = 0; d < q->depth; d++)
        ordinal = ordinal * m->loops[q->loop[d]].trips + q->iter[d];
    q->ordinal = ordinal;
}

bool ech_machine_loop_over(const EchMachine *m, uint32_t l, uint64_t ordinal)
{
    const Loop *loop = &m->loops[l];
    if (loop->trips == 0)
        return true;
    for (uint32_t p = 0; p < loop->n_participants; p++)
        if (m->arrived[loop->first_participant + p] <= ordinal)
            return false;
    return true;
}

static int compare_made(const void *a, const void *b)
{
    const Made *x = a, *y = b;
    return x->life != y->life ? (x->life > y->life) - (x->life < y->life) : (x->op > y->op) - (x->op < y->op);
}

static const GArray *made_in(EchMachine *m, uint32_t l)
{
    Loop *loop = &m->loops[l];
    if (loop->made)
        return loop->made;
    loop->made = g_array_new(FALSE, FALSE, sizeof(Made));
    for (uint32_t op = loop->op + 1; op < loop->end; op++) {
        Made made = {.life = m->op_life[op], .op = op};
        if (m->ops[op].kind == ECH_OP_ALLOC && m->mult[op] > 0)
            g_array_append_val(loop->made, made);
    }
    g_array_sort(loop->made, compare_made);
    guint n = 0;
    for (guint i = 0; i < loop->made->len; i++) {
        Made made = g_array_index(loop->made, Made, i);
        if (n == 0 || g_array_index(loop->made, Made, n - 1).life != made.life)
            g_array_index(loop->made, Made, n++) = made;
    }
    g_array_set_size(loop->made, n);
    return loop->made;
}

static bool inside_loop(const EchMachine *m, uint32_t queue, uint32_t l)
{
    const Queue *q = &m->queues[queue];
    return q->depth > m->loops[l].depth && q->loop[m->loops[l].depth] == l;
}

static void add_word(Mark *mark, uint64_t word)
{
    g_array_append_val(mark->words, word);
}

/* What the memories hold, and what was counted of them. */
static void mark_memories(EchMachine *m, uint32_t l, uint64_t iteration, Mark *mark)
{
    mark->counts = g_new(uint64_t, 3 * m->n_memories + 1);
    for (uint32_t i = 0; i < m->n_memories; i++) {
        const EchMemoryState *state = &m->memories[i];
        mark->counts[3 * i] = state->allocs;
        mark->counts[3 * i + 1] = state->frees;
        mark->counts[3 * i + 2] = state->failed;
        add_word(mark, state->live);
        add_word(mark, state->reserved);
        add_word(mark, m->pending_frees[i]);
        if (m->allocators[i]) {
            add_word(mark, state->alloc.largest_free);
            add_word(mark, (uint64_t)(state->alloc.segments_allocated - state->alloc.segments_freed));
        }
    }
    /* Live instances of the buffers the loop makes, how many ago and where. One that a queue outside the loop holds stays while others come and go. */
    const GArray *made = made_in(m, l);
    for (guint k = 0; k < made->len; k++) {
        uint32_t i = g_array_index(made, Made, k).life;
        const Life *life = &m->lives[i];
        uint64_t allocs = life->first == NOWHERE ? 0 : ech_machine_rate_in(m, life, l).allocs;
        if (allocs == 0)
            continue;
        for (uint32_t at = life->first; at != NOWHERE; at = g_array_index(m->instances, Instance, at).next) {
            const Instance *instance = &g_array_index(m->instances, Instance, at);
            add_word(mark, i);
            add_word(mark, instance->ordinal - iteration * allocs);
            add_word(mark, instance->address);
            add_word(mark, instance->ended);
        }
    }
}

static void take_mark(EchMachine *m, uint32_t l, uint64_t iteration, Mark *mark)
{
    mark->iteration = iteration;
    mark->words = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    mark->times = g_array_new(FALSE, FALSE, sizeof(EchTime));
    mark->shares = g_array_new(FALSE, FALSE, sizeof(double));
    mark->sums = g_memdup2(m->sums, m->n_sums * sizeof *m->sums);
    mark->amounts = g_memdup2(m->amounts, (m->n_amounts + 1) * sizeof *m->amounts);
    mark->fraction = m->class->clock(m->engine, &mark->ps) + m->base_fraction;
    mark->ps += m->base;
    mark->ops = m->out.ops;
    mark->ahead = g_new0(EchTime, m->n_queues + 1);
    mark->since = g_new(EchTime, 3 * m->device->n_links + 1);
    for (size_t i = 0; i < m->device->n_links; i++) {
        mark->since[3 * i] = m->links[i].since[0];
        mark->since[3 * i + 1] = m->links[i].since[1];
        mark->since[3 * i + 2] = m->links[i].since_any;
    }
    uint32_t depth = m->loops[l].depth;
#define WORD(value) add_word(mark, (uint64_t)(value))
#define TIME(value)                                                                                                                                            \
    do {                                                                                                                                                       \
        EchTime time = (value);                                                                                                                                \
        g_array_append_val(mark->times, time);                                                                                                                 \
    } while (0)
    for (uint32_t i = 0; i < m->n_queues; i++) {
        const Queue *q = &m->queues[i];
        WORD(q->state);
        WORD(q->at);
        WORD(q->depth);
        for (uint32_t d = 0; d < q->depth; d++)
            WORD(d == depth && q->loop[d] == l ? q->iter[d] - iteration : q->iter[d]);
        WORD(q->in_todo);
        WORD(q->tells_copy);
        if (q->state == STATE_FINISHED || (q->state == STATE_BLOCKED && !inside_loop(m, i, l)))
            continue;
        TIME(m->now - q->head);
        TIME(MAX(q->works_from - m->now, 0));
        for (uint32_t d = depth; d < q->depth && inside_loop(m, i, l); d++) /* waits for the own queue are counted from there */
            TIME(m->now - q->began[d]);
        for (int w = 0; w < ECH_N_WAITS && q->has_head; w++) /* of the op at the head, counted when it ends */
            TIME(q->waits[w]);
        if (q->space_since >= 0)
            TIME(m->now - q->space_since);
        mark->ahead[i] = m->now - q->issued;
        TIME(MIN(mark->ahead[i], m->longest_setup));
        if ((q->state == STATE_BLOCKED && q->reason == ECH_WAIT_LINK) || q->state == STATE_ENGINE)
            TIME(m->now - q->ready);
        if (q->state == STATE_RUNNING || q->state == STATE_FIXED || q->state == STATE_PAGING || q->state == STATE_GAP) {
            double share = m->class->remaining(m->engine, i);
            g_array_append_val(mark->shares, share);
            TIME(m->now - q->start);
        }
    }
    /* What has just ended releases other queues a little later, the set-up of copies begins with it, and so does waiting in an iteration's queue. */
    EchTime longest = MAX(MAX(m->wait_kernel, m->wait_copy), m->longest_setup);
    for (uint32_t i = 0; i < m->n_queues; i++)
        longest = inside_loop(m, i, l) ? MAX(longest, m->now - m->queues[i].began[depth]) : longest;
    for (uint32_t op = m->loops[l].op + 1; op < m->loops[l].end; op++) {
        TIME(MIN(m->now - m->last_end[op], longest));
        WORD(m->tells_copy[op]);
    }
    mark_memories(m, l, iteration, mark);
#undef WORD
#undef TIME
}

/* @b, the later one, is as @a was. More than the longest set-up may have passed ahead, as long as it does not become less. */
static bool same_mark(const EchMachine *m, const Mark *a, const Mark *b)
{
    for (uint32_t i = 0; i < m->n_queues; i++)
        if (b->ahead[i] < a->ahead[i] - 1)
            return false;
    if (a->words->len != b->words->len || a->times->len != b->times->len || a->shares->len != b->shares->len)
        return false;
    if (a->words->len > 0 && memcmp(a->words->data, b->words->data, a->words->len * sizeof(uint64_t)) != 0)
        return false;
    for (guint i = 0; i < a->times->len; i++)
        if (llabs(g_array_index(a->times, EchTime, i) - g_array_index(b->times, EchTime, i)) > 1)
            return false;
    for (guint i = 0; i < a->shares->len; i++)
        if (fabs(g_array_index(a->shares, double, i) - g_array_index(b->shares, double, i)) > 1e-12)
            return false;
    return true;
}

/* Moves the clock on by @periods of what lies between two marks; *ret_shift: by how much. False where that is too long for it, and nothing is moved. */
static bool skip_time(EchMachine *m, const Mark *from, const Mark *now, uint64_t periods, EchTime *ret_shift)
{
    /* Whole and fractional picoseconds apart, so that nothing is lost. */
    EchTime whole;
    double fraction = (now->fraction - from->fraction) * (double)periods + m->base_fraction;
    double carry = floor(fraction);
    if (__builtin_mul_overflow(now->ps - from->ps, (EchTime)periods, &whole) || __builtin_add_overflow(whole, (EchTime)carry, &whole) ||
        whole >= ECH_FLUID_END - m->now)
        return false;
    m->base += whole;
    m->base_fraction = fraction - carry;
    *ret_shift = m->base + m->engine_now - m->now;
    m->now += *ret_shift;
    return true;
}

/* Adds @periods of what was counted between two marks. */
static void skip_sums(EchMachine *m, const Mark *from, const Mark *now, uint64_t periods)
{
    for (size_t i = 0; i < m->n_sums; i++) {
        int64_t delta;
        if (__builtin_mul_overflow(m->sums[i] - from->sums[i], (int64_t)periods, &delta))
            delta = INT64_MAX;
        add_sum(&m->sums[i], delta);
    }
    for (size_t i = 0; i < m->n_amounts; i++)
        m->amounts[i] += (m->amounts[i] - from->amounts[i]) * (double)periods;
    for (uint32_t i = 0; i < m->n_memories; i++) {
        EchMemoryState *state = &m->memories[i];
        state->allocs += (state->allocs - from->counts[3 * i]) * periods;
        state->frees += (state->frees - from->counts[3 * i + 1]) * periods;
        state->failed += (state->failed - from->counts[3 * i + 2]) * periods;
    }
    m->out.ops += (now->ops - from->ops) * periods;
}

/* Times that queues inside loop @l look at later move along, and they are so many iterations further. The others have waited all the while. */
static void skip_queues(EchMachine *m, uint32_t l, const Mark *from, const Mark *now, uint64_t periods, EchTime shift)
{
    const Loop *loop = &m->loops[l];
    for (uint32_t r = 0; r < m->prices->n_resources; r++)
        m->pressed_at[r] += shift;
    for (uint32_t i = 0; i < m->n_queues; i++) {
        Queue *q = &m->queues[i];
        if (!inside_loop(m, i, l))
            continue;
        q->head += shift;
        q->ready += shift;
        q->start += shift;
        q->work_start += shift;
        q->works_from += shift;
        q->issued += shift - (now->ahead[i] - from->ahead[i]) * (EchTime)periods;
        if (q->space_since >= 0)
            q->space_since += shift;
        for (uint32_t d = loop->depth; d < q->depth; d++)
            q->began[d] += shift;
        q->iter[loop->depth] += (now->iteration - from->iteration) * periods;
        set_ordinal(m, q);
    }
}

/* A link that has been busy since before the period goes on being that; else it became busy as long ago as it did a period earlier. */
static void skip_links(EchMachine *m, const Mark *from, const Mark *now, EchTime shift)
{
    for (size_t i = 0; i < m->device->n_links; i++) {
        EchTime *since[3] = {&m->links[i].since[0], &m->links[i].since[1], &m->links[i].since_any};
        for (int d = 0; d < 3; d++)
            *since[d] += from->since[3 * i + (size_t)d] != now->since[3 * i + (size_t)d] ? shift : 0;
    }
}

/* Ops and loops inside loop @l have run so often more. */
static void skip_ops(EchMachine *m, uint32_t l, EchTime shift, uint64_t iterations)
{
    const Loop *loop = &m->loops[l];
    for (uint32_t op = loop->op + 1; op < loop->end; op++) {
        if (!inside_loop(m, queue_of(m, op), l))
            continue;
        m->done[op] += iterations * trips_between(m, m->op_loop[op], l);
        m->last_end[op] += shift;
    }
    for (uint32_t i = l + 1; i < m->n_loops && m->loops[i].op < loop->end; i++) {
        const Loop *inner = &m->loops[i];
        uint64_t more = iterations * trips_between(m, inner->parent, l);
        if (inside_loop(m, queue_of(m, inner->op), l))
            m->loops[i].started += more;
        for (uint32_t p = 0; p < inner->n_participants; p++)
            if (inside_loop(m, m->participant[inner->first_participant + p], l))
                m->arrived[inner->first_participant + p] += more;
    }
}

/* Buffers of the iterations: those that are alive now stand for those of so many iterations later. */
static void skip_lives(EchMachine *m, uint32_t l, uint64_t iterations)
{
    const Loop *loop = &m->loops[l];
    const GArray *made = made_in(m, l);
    for (guint k = 0; k < made->len; k++) {
        const Made *of = &g_array_index(made, Made, k);
        const Life *life = &m->lives[of->life];
        Rate rate = ech_machine_rate_in(m, life, l);
        if (rate.allocs == 0 || !inside_loop(m, queue_of(m, of->op), l))
            continue;
        for (uint32_t at = life->first; at != NOWHERE; at = g_array_index(m->instances, Instance, at).next) {
            Instance *instance = &g_array_index(m->instances, Instance, at);
            instance->ordinal += iterations * rate.allocs;
            instance->used_before += iterations * rate.uses;
        }
    }
    /* Buffers from outside that the loop uses: its uses count. */
    for (uint32_t op = loop->op + 1; op < loop->end; op++) {
        if (!inside_loop(m, queue_of(m, op), l))
            continue;
        for (uint32_t u = m->first_life[op]; u < m->first_life[op + 1]; u++) {
            const LifeUse *use = &m->life_uses[u];
            if (ech_machine_rate_in(m, &m->lives[use->life], l).allocs > 0)
                continue;
            Instance *instance = ech_machine_find_instance(m, use->life, ech_machine_instance_used(m, use, m->done[op] > 0 ? m->done[op] - 1 : 0), false);
            if (instance)
                instance->ended += iterations * trips_between(m, m->op_loop[op], l);
        }
    }
}

/* Adds @periods from mark @from to now to everything that counts, and moves every cursor inside loop @l on by as many iterations. */
static void skip_iterations(EchMachine *m, uint32_t l, const Mark *from, const Mark *now, uint64_t periods)
{
    uint64_t step = now->iteration - from->iteration, iterations = periods * step;
    double period = (double)(now->ps - from->ps) + (now->fraction - from->fraction);
    EchSkip skip = {.loop = m->loops[l].op, .first = now->iteration, .count = iterations, .time = m->now, .period = (EchTime)llrint(period / (double)step)};
    EchTime shift;
    if (!skip_time(m, from, now, periods, &shift)) {
        m->out.too_long = m->stop = true;
        return;
    }
    g_array_append_val(m->skips, skip);
    skip_sums(m, from, now, periods);
    skip_queues(m, l, from, now, periods, shift);
    skip_links(m, from, now, shift);
    skip_ops(m, l, shift, iterations);
    skip_lives(m, l, iterations);
    /* Another period from here would need marks of its own. */
    g_array_set_size(m->loops[l].marks, 0);
}

/* A mark takes time for all that is held then, which may be a buffer for each iteration: the later ones are looked at for a while behind each power of two. */
static bool is_looked_at(uint64_t iteration)
{
    enum { ALWAYS = 64, WHILE = 2 * MAX_PERIOD };
    return iteration < ALWAYS || iteration - (UINT64_C(1) << (63 - __builtin_clzll(iteration))) < WHILE;
}

/* At the begin of an iteration of loop @l on its own queue: if everything is as it was some iterations ago, the rest repeats. */
static void look_for_steady(EchMachine *m, uint32_t queue, uint32_t l)
{
    Queue *q = &m->queues[queue];
    uint64_t iteration = q->iter[q->depth - 1], trips = m->loops[l].trips;
    if (!m->options->skip_steady || m->meet || iteration < 1 || trips < 8 || !is_looked_at(iteration) || ech_machine_may_page(m))
        return;
    for (uint32_t i = 0; i < m->n_queues; i++) {
        if (inside_loop(m, i, l) && m->queues[i].iter[m->loops[l].depth] < m->longest_distance) /* iterations that do not wait for others yet */
            return;
    }
    GArray *marks = m->loops[l].marks;
    if (!marks) {
        marks = m->loops[l].marks = g_array_new(FALSE, TRUE, sizeof(Mark));
        g_array_set_clear_func(marks, mark_clear);
    }
    /* A loop that was skipped or entered again starts afresh. */
    if (marks->len > 0 && g_array_index(marks, Mark, marks->len - 1).iteration + 1 != iteration)
        g_array_set_size(marks, 0);
    Mark mark = {0};
    take_mark(m, l, iteration, &mark);
    for (guint i = marks->len; i-- > 0;) {
        const Mark *old = &g_array_index(marks, Mark, i);
        if (!same_mark(m, old, &mark))
            continue;
        uint64_t step = iteration - old->iteration, furthest = iteration;
        for (uint32_t other = 0; other < m->n_queues; other++) {
            const Queue *o = &m->queues[other];
            if (inside_loop(m, other, l))
                furthest = MAX(furthest, o->iter[m->loops[l].depth]);
        }
        uint64_t left = trips - 1 - furthest;
        if (left / step < 2)
            break;
        /* Leave the last ones to run, so that the tail is seen. */
        Mark from = *old;
        memset(&g_array_index(marks, Mark, i), 0, sizeof from);
        skip_iterations(m, l, &from, &mark, left / step - 1);
        mark_clear(&from);
        mark_clear(&mark);
        return;
    }
    if (marks->len == MAX_PERIOD)
        g_array_remove_index(marks, 0);
    g_array_append_val(marks, mark);
}

bool ech_machine_begin_loop(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    const Entry *entry = &q->entries[q->at];
    const Loop *loop = &m->loops[entry->id];
    if (!entry->home && loop->started <= q->ordinal) {
        wait_on(m, queue, &m->op_waiters[loop->op], ECH_WAIT_DEPENDENCY);
        return false;
    }
    if (loop->trips == 0) {
        q->at = entry->jump + 1;
        return true;
    }
    q->loop[q->depth] = entry->id;
    q->began[q->depth] = m->now;
    q->iter[q->depth++] = 0;
    set_ordinal(m, q);
    q->at++;
    return true;
}

void ech_machine_end_iteration(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    const Entry *entry = &q->entries[q->at];
    const Loop *loop = &m->loops[entry->id];
    if (++q->iter[q->depth - 1] < loop->trips) {
        q->ordinal++;
        q->began[q->depth - 1] = m->now;
        q->at = entry->jump + 1;
        if (q->entries[entry->jump].watch)
            look_for_steady(m, queue, entry->id);
        return;
    }
    q->depth--;
    set_ordinal(m, q);
    q->at++;
    m->arrived[entry->participant]++;
    uint32_t waiter = m->loop_waiter[entry->id];
    if (waiter != NOWHERE) {
        m->loop_waiter[entry->id] = NOWHERE;
        m->queues[waiter].state = STATE_IDLE;
        schedule(m, waiter);
    }
}
