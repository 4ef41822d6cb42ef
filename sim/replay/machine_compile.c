#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/replay/machine_private.h"

#include <string.h>

static uint64_t trips_of(const EchMachine *m, const EchOp *op)
{
    bool known = op->bytes_origin == ECH_KNOWN || op->bytes_origin == ECH_INFERRED;
    return !known && m->options->trips > 0 ? m->options->trips : op->bytes;
}

static bool compile_loops(EchMachine *m, GError **error)
{
    g_autoptr(GArray) loops = g_array_new(FALSE, TRUE, sizeof(Loop));
    m->op_loop = g_new(uint32_t, m->n_ops + 1);
    m->mult = g_new(uint64_t, m->n_ops + 1);
    uint32_t innermost = NOWHERE;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        while (innermost != NOWHERE && g_array_index(loops, Loop, innermost).end <= i)
            innermost = g_array_index(loops, Loop, innermost).parent;
        m->op_loop[i] = innermost;
        const Loop *around = innermost == NOWHERE ? NULL : &g_array_index(loops, Loop, innermost);
        m->mult[i] = around ? ech_bytes_mul(around->mult, around->trips) : 1;
        if (m->ops[i].kind != ECH_OP_LOOP)
            continue;
        uint32_t body = m->ops[i].target == ECH_NONE ? 0 : m->ops[i].target;
        Loop loop = {
            .op = i, .parent = innermost, .end = i + 1 + body, .trips = trips_of(m, &m->ops[i]), .mult = m->mult[i], .depth = around ? around->depth + 1 : 0};
        if (loop.depth >= MAX_DEPTH) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "op %u: loops nest more than %d deep", i, MAX_DEPTH);
            return false;
        }
        g_array_append_val(loops, loop);
        innermost = loops->len - 1;
    }
    m->n_loops = loops->len;
    m->loops = (Loop *)(void *)g_array_free(g_steal_pointer(&loops), FALSE);
    return true;
}

/* The entries of queue @q: its ops in order, loops of which it has body ops bracketed. */
static void compile_queue(EchMachine *m, uint32_t q, const uint32_t *ops, uint32_t n, GArray *entries, GArray *participants)
{
    uint32_t open[MAX_DEPTH], begin[MAX_DEPTH], depth = 0;
    for (uint32_t k = 0; k <= n; k++) {
        uint32_t loop = k < n ? m->op_loop[ops[k]] : NOWHERE;
        uint32_t chain[MAX_DEPTH], n_chain = 0;
        for (uint32_t l = loop; l != NOWHERE; l = m->loops[l].parent)
            chain[n_chain++] = l;
        uint32_t common = 0;
        while (common < depth && common < n_chain && open[common] == chain[n_chain - 1 - common])
            common++;
        while (depth > common) {
            depth--;
            Entry end = {.kind = ENTRY_END, .id = open[depth], .jump = begin[depth], .participant = g_array_index(entries, Entry, begin[depth]).participant};
            g_array_append_val(entries, end);
            g_array_index(entries, Entry, begin[depth]).jump = entries->len - 1;
            if (queue_of(m, m->loops[open[depth]].op) == q) {
                Entry finish = {.kind = ENTRY_LOOP_FINISH, .id = open[depth]};
                g_array_append_val(entries, finish);
            }
        }
        if (k == n)
            break;
        while (depth < n_chain) {
            uint32_t entered = chain[n_chain - 1 - depth];
            Entry start = {.kind = ENTRY_BEGIN, .id = entered, .home = false, .participant = participants->len};
            start.home = start.watch = queue_of(m, m->loops[entered].op) == q;
            uint32_t pair[2] = {entered, q};
            g_array_append_val(participants, pair);
            begin[depth] = entries->len;
            open[depth++] = entered;
            g_array_append_val(entries, start);
        }
        const EchOp *op = &m->ops[ops[k]];
        if (op->kind == ECH_OP_LOOP) {
            uint32_t l = loop_of(m, ops[k]);
            Entry start = {.kind = ENTRY_LOOP_START, .id = l};
            g_array_append_val(entries, start);
            bool body = k + 1 < n && ops[k + 1] < m->loops[l].end;
            if (!body) {
                Entry finish = {.kind = ENTRY_LOOP_FINISH, .id = l};
                g_array_append_val(entries, finish);
            }
        } else {
            Entry entry = {.kind = ENTRY_OP, .id = ops[k]};
            g_array_append_val(entries, entry);
        }
    }
}

static int compare_pairs(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

static void compile_queues(EchMachine *m)
{
    m->n_queues = (uint32_t)ech_trace_n_queues(m->trace) + 1; /* One more for ops without a queue. */
    m->queues = g_new0(Queue, m->n_queues);
    g_autofree uint32_t *count = g_new0(uint32_t, m->n_queues + 1), *sorted = g_new(uint32_t, m->n_ops + 1);
    for (size_t i = 0; i < m->n_ops; i++)
        count[queue_of(m, (uint32_t)i) + 1]++;
    for (uint32_t q = 0; q < m->n_queues; q++)
        count[q + 1] += count[q];
    g_autofree uint32_t *fill = g_memdup2(count, (m->n_queues + 1) * sizeof *count);
    for (uint32_t i = 0; i < m->n_ops; i++)
        sorted[fill[queue_of(m, i)]++] = i;
    g_autoptr(GArray) entries = g_array_sized_new(FALSE, FALSE, sizeof(Entry), (guint)MIN(m->n_ops, 1u << 26));
    g_autoptr(GArray) participants = g_array_new(FALSE, TRUE, 2 * sizeof(uint32_t));
    g_autofree uint32_t *first = g_new(uint32_t, m->n_queues + 1);
    for (uint32_t q = 0; q < m->n_queues; q++) {
        first[q] = entries->len;
        compile_queue(m, q, sorted + count[q], count[q + 1] - count[q], entries, participants);
        m->queues[q].n_entries = entries->len - first[q];
    }
    /* Participants by loop; entries point to their place in that order. */
    uint32_t n = participants->len;
    m->arrived = g_new0(uint64_t, n + 1);
    m->participant = g_new0(uint32_t, n + 1);
    g_autofree uint32_t *order = g_new(uint32_t, 3 * (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        order[3 * i] = g_array_index(participants, uint32_t, 2 * i);
        order[3 * i + 1] = g_array_index(participants, uint32_t, 2 * i + 1);
        order[3 * i + 2] = i;
    }
    if (n > 0)
        qsort(order, n, 3 * sizeof *order, compare_pairs);
    g_autofree uint32_t *place = g_new(uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        Loop *loop = &m->loops[order[3 * i]];
        if (loop->n_participants++ == 0)
            loop->first_participant = i;
        place[order[3 * i + 2]] = i;
        m->participant[i] = order[3 * i + 1];
    }
    m->entries = (Entry *)(void *)g_array_free(g_steal_pointer(&entries), FALSE);
    for (uint32_t q = 0; q < m->n_queues; q++) {
        for (uint32_t i = first[q]; i < first[q] + m->queues[q].n_entries; i++) {
            Entry *entry = &m->entries[i];
            if (entry->kind == ENTRY_BEGIN || entry->kind == ENTRY_END) {
                entry->participant = place[entry->participant];
                entry->jump -= first[q];
                /* A loop whose own queue has nothing to do in it is watched by its first participant. */
                const Loop *loop = &m->loops[entry->id];
                bool has_home = false;
                for (uint32_t p = 0; p < loop->n_participants; p++)
                    has_home = has_home || m->participant[loop->first_participant + p] == queue_of(m, loop->op);
                if (entry->kind == ENTRY_BEGIN && !has_home && entry->participant == loop->first_participant)
                    entry->watch = true;
            }
        }
        m->queues[q].entries = m->entries ? m->entries + first[q] : NULL; /* none in a trace of nothing */
        m->queues[q].space_since = m->queues[q].stall_since = m->queues[q].peers_since = -1;
        m->queues[q].next_waiter = NOWHERE;
    }
    /* Ids of loops are found by op while compiling; later only by entry. */
    m->loop_waiter = g_new(uint32_t, m->n_loops + 1);
    for (uint32_t l = 0; l < m->n_loops; l++)
        m->loop_waiter[l] = NOWHERE;
}

static void append_need(EchMachine *m, GArray *needs, uint32_t op, uint32_t on, uint32_t distance)
{
    uint32_t common = m->op_loop[on];
    while (common != NOWHERE && (op <= m->loops[common].op || op >= m->loops[common].end))
        common = m->loops[common].parent;
    Need need = {.op = on,
                 .distance = distance,
                 .div = trips_between(m, m->op_loop[op], common),
                 .times = trips_between(m, m->op_loop[on], common),
                 .other_queue = queue_of(m, on) != queue_of(m, op)};
    /* Its own queue runs in order, a loop that has not begun runs no body, and what never runs is not waited for. */
    bool around = m->ops[on].kind == ECH_OP_LOOP && op > on && op < m->loops[loop_of(m, on)].end;
    if (!need.other_queue || around || m->mult[on] == 0)
        return;
    g_array_append_val(needs, need);
}

/* A signal inside a loop that the wait is not in is over when that loop is. */
static uint32_t visible_op(const EchMachine *m, uint32_t from, uint32_t on)
{
    for (uint32_t loop = m->op_loop[on]; loop != NOWHERE; loop = m->loops[loop].parent)
        if (from <= m->loops[loop].op || from >= m->loops[loop].end)
            on = m->loops[loop].op;
    return on;
}

/* Finds the buffers that a loop's body frees without having allocated them. */
static bool *find_turning(const EchMachine *m)
{
    size_t n_buffers = ech_trace_n_buffers(m->trace);
    g_autofree uint32_t *made_in = g_new(uint32_t, n_buffers + 1);
    bool *turning = g_new0(bool, n_buffers + 1);
    for (size_t b = 0; b < n_buffers; b++)
        made_in[b] = NOWHERE;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        if (m->ops[i].kind == ECH_OP_ALLOC)
            made_in[m->ops[i].target] = m->op_loop[i];
        else if (m->ops[i].kind == ECH_OP_FREE && made_in[m->ops[i].target] != m->op_loop[i])
            turning[m->ops[i].target] = true;
    }
    return turning;
}

/* An ALLOC, FREE or use of a life that turns over. */
typedef struct {
    uint32_t life, op;
    uint32_t use; /* Index of its LifeUse, or NOWHERE. */
} Event;

static int compare_events(const void *a, const void *b)
{
    const Event *x = a, *y = b;
    if (x->life != y->life)
        return x->life < y->life ? -1 : 1;
    return x->op != y->op ? (x->op < y->op ? -1 : 1) : (x->use > y->use) - (x->use < y->use);
}

/* A loop around the event that is looked at, and what came before in its iteration. */
typedef struct {
    uint32_t loop, rate;
    uint64_t allocs, uses;
} Level;

static void close_level(const EchMachine *m, GArray *levels, GArray *rates)
{
    Level inner = g_array_index(levels, Level, levels->len - 1);
    g_array_set_size(levels, levels->len - 1);
    Level *outer = &g_array_index(levels, Level, levels->len - 1);
    Rate *rate = &g_array_index(rates, Rate, inner.rate);
    rate->allocs = inner.allocs;
    rate->uses = inner.uses;
    outer->allocs += ech_bytes_mul(inner.allocs, m->loops[inner.loop].trips);
    outer->uses += ech_bytes_mul(inner.uses, m->loops[inner.loop].trips);
}

/* Where every ALLOC, FREE and use of lives that turn over stands among the others: one walk over them, life by life, in the trace's order. */
static void compile_positions(EchMachine *m)
{
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(Event));
    for (uint32_t i = 0; i < m->n_ops; i++) {
        if (m->op_life[i] != NOWHERE && m->lives[m->op_life[i]].turns_over) {
            Event event = {m->op_life[i], i, NOWHERE};
            g_array_append_val(events, event);
        }
        for (uint32_t u = m->first_life[i]; u < m->first_life[i + 1]; u++) {
            if (m->lives[m->life_uses[u].life].turns_over) {
                Event event = {m->life_uses[u].life, i, u};
                g_array_append_val(events, event);
            }
        }
    }
    if (events->len == 0)
        return;
    g_array_sort(events, compare_events);
    m->op_position = g_new0(uint32_t, m->n_ops + 1);
    g_autoptr(GArray) positions = g_array_sized_new(FALSE, FALSE, sizeof(Position), events->len);
    g_autoptr(GArray) turns = g_array_new(FALSE, FALSE, sizeof(Turn));
    g_autoptr(GArray) rates = g_array_new(FALSE, FALSE, sizeof(Rate));
    g_autoptr(GArray) levels = g_array_new(FALSE, FALSE, sizeof(Level));
    for (guint e = 0; e < events->len; e++) {
        const Event *event = &g_array_index(events, Event, e);
        Life *life = &m->lives[event->life];
        if (e == 0 || g_array_index(events, Event, e - 1).life != event->life) {
            Level top = {.loop = NOWHERE, .rate = NOWHERE, .allocs = life->alloc_op == NOWHERE};
            g_array_set_size(levels, 0);
            g_array_append_val(levels, top);
            life->first_rate = rates->len;
        }
        while (levels->len > 1 && m->loops[g_array_index(levels, Level, levels->len - 1).loop].end <= event->op)
            close_level(m, levels, rates);
        uint32_t around[MAX_DEPTH], n = 0, known = g_array_index(levels, Level, levels->len - 1).loop;
        for (uint32_t l = m->op_loop[event->op]; l != known; l = m->loops[l].parent)
            around[n++] = l;
        while (n > 0) {
            Level level = {.loop = around[--n], .rate = rates->len};
            Rate rate = {.loop = level.loop};
            g_array_append_val(levels, level);
            g_array_append_val(rates, rate);
        }
        Position position = {.first_turn = turns->len, .n_turns = levels->len - 1};
        for (guint k = 0; k < levels->len; k++) {
            const Level *level = &g_array_index(levels, Level, k);
            position.allocs += level->allocs;
            position.uses += level->uses;
            if (k == 0)
                continue;
            Turn turn = {.div = trips_between(m, m->op_loop[event->op], level->loop), .trips = MAX(m->loops[level->loop].trips, 1u), .rate = level->rate};
            g_array_append_val(turns, turn);
        }
        Level *here = &g_array_index(levels, Level, levels->len - 1);
        if (event->use != NOWHERE) {
            m->life_uses[event->use].div = positions->len;
            here->uses++;
        } else {
            m->op_position[event->op] = positions->len;
            here->allocs += m->ops[event->op].kind == ECH_OP_ALLOC;
        }
        g_array_append_val(positions, position);
        if (e + 1 == events->len || g_array_index(events, Event, e + 1).life != event->life) {
            while (levels->len > 1)
                close_level(m, levels, rates);
            life->n_rates = rates->len - life->first_rate;
        }
    }
    m->positions = (Position *)(void *)g_array_free(g_steal_pointer(&positions), FALSE);
    m->turns = (Turn *)(void *)g_array_free(g_steal_pointer(&turns), FALSE);
    m->rates = (Rate *)(void *)g_array_free(g_steal_pointer(&rates), FALSE);
}

static void compile_lives(EchMachine *m)
{
    size_t n_buffers = ech_trace_n_buffers(m->trace);
    g_autofree bool *turning = find_turning(m);
    g_autoptr(GArray) lives = g_array_new(FALSE, TRUE, sizeof(Life));
    g_autofree uint32_t *current = g_new(uint32_t, n_buffers + 1);
    m->op_life = g_new(uint32_t, m->n_ops + 1);
    for (size_t b = 0; b < n_buffers; b++) {
        current[b] = NOWHERE;
        if (m->buffers[b].alias_of == ECH_NONE && m->buffers[b].resident) {
            Life life = {.buffer = (EchId)b, .alloc_op = NOWHERE, .free_op = NOWHERE, .first = NOWHERE, .last = NOWHERE, .turns_over = turning[b]};
            current[b] = lives->len;
            g_array_append_val(lives, life);
        }
    }
    g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(LifeUse));
    m->first_life = g_new(uint32_t, m->n_ops + 1);
    const EchUse *trace_uses = ech_trace_uses(m->trace);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        m->first_life[i] = uses->len;
        m->op_life[i] = NOWHERE;
        const EchOp *op = &m->ops[i];
        if (op->kind == ECH_OP_ALLOC && (current[op->target] == NOWHERE || !turning[op->target])) {
            Life life = {.buffer = op->target, .alloc_op = i, .free_op = NOWHERE, .first = NOWHERE, .last = NOWHERE, .turns_over = turning[op->target]};
            m->op_life[i] = current[op->target] = lives->len;
            g_array_append_val(lives, life);
        } else if (op->kind == ECH_OP_ALLOC) {
            m->op_life[i] = current[op->target];
        } else if (op->kind == ECH_OP_FREE) {
            uint32_t life = current[op->target];
            m->op_life[i] = life;
            if (!turning[op->target])
                current[op->target] = NOWHERE;
            if (life != NOWHERE) {
                Life *freed = &g_array_index(lives, Life, life);
                freed->freed_elsewhere |= freed->free_op != NOWHERE && queue_of(m, freed->free_op) != queue_of(m, i);
                freed->free_op = i;
            }
        }
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            uint32_t life = current[ech_buffer_root(m->buffers, trace_uses[u].buffer, NULL)];
            if (life == NOWHERE)
                continue;
            uint32_t alloc = g_array_index(lives, Life, life).alloc_op;
            LifeUse use = {.life = life, .div = trips_between(m, m->op_loop[i], alloc == NOWHERE ? NOWHERE : m->op_loop[alloc])};
            g_array_append_val(uses, use);
        }
    }
    m->first_life[m->n_ops] = uses->len;
    m->n_lives = lives->len;
    m->lives = (Life *)(void *)g_array_free(g_steal_pointer(&lives), FALSE);
    /* Keep only the uses that a FREE must wait for: those of other queues, in loops that run at all. */
    uint32_t kept = 0, first = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        uint32_t end = m->first_life[i + 1];
        uint32_t begin = kept;
        for (uint32_t u = first; u < end; u++) {
            LifeUse use = g_array_index(uses, LifeUse, u);
            Life *life = &m->lives[use.life];
            bool in_order = life->free_op != NOWHERE && queue_of(m, life->free_op) == queue_of(m, i) && !life->freed_elsewhere;
            if (life->free_op == NOWHERE || in_order || m->mult[i] == 0)
                continue;
            life->users = ech_bytes_add(life->users, use.div);
            g_array_index(uses, LifeUse, kept++) = use;
        }
        first = end;
        m->first_life[i] = begin;
    }
    m->first_life[m->n_ops] = kept;
    g_array_set_size(uses, kept);
    m->life_uses = (LifeUse *)(void *)g_array_free(g_steal_pointer(&uses), FALSE);
    compile_positions(m);
}

static bool is_host_queue(const EchMachine *m, uint32_t queue)
{
    return queue < ech_trace_n_queues(m->trace) && ech_trace_queues(m->trace)[queue].kind == ECH_QUEUE_HOST;
}

static gpointer loop_and_buffer(uint32_t l, EchId buffer)
{
    return GSIZE_TO_POINTER((gsize)l << 32 | buffer);
}

/* Of lives that turn over: the last ALLOC in a loop's body, + 1, by loop and buffer. What is there when the next iteration begins is its. */
static GHashTable *find_last_allocs(const EchMachine *m)
{
    GHashTable *last = g_hash_table_new(ech_hash_key, NULL);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        if (m->ops[i].kind == ECH_OP_ALLOC && m->op_loop[i] != NOWHERE && m->lives[m->op_life[i]].turns_over)
            g_hash_table_insert(last, loop_and_buffer(m->op_loop[i], m->ops[i].target), GUINT_TO_POINTER(i + 1));
    }
    return last;
}

/* Op @op frees or uses @buffer, which was last allocated at @alloc: where that was not in its own iteration, the iteration before has to be through with it. */
static void append_turn(EchMachine *m, GArray *needs, GHashTable *last, uint32_t op, EchId buffer, uint32_t alloc)
{
    uint32_t l = m->op_loop[op];
    if (l == NOWHERE || (alloc != NOWHERE && alloc > m->loops[l].op))
        return;
    uint32_t before = GPOINTER_TO_UINT(g_hash_table_lookup(last, loop_and_buffer(l, buffer)));
    if (before > op + 1)
        append_need(m, needs, op, before - 1, 1);
}

static void compile_needs(EchMachine *m)
{
    bool host_order = ech_trace_get_property(m->trace, "host_order") != NULL;
    g_autoptr(GArray) needs = g_array_new(FALSE, FALSE, sizeof(Need));
    g_autoptr(GHashTable) signals = g_hash_table_new(NULL, NULL), last = find_last_allocs(m);
    m->first_need = g_new(uint32_t, m->n_ops + 1);
    const EchDep *deps = ech_trace_deps(m->trace);
    const EchUse *uses = ech_trace_uses(m->trace);
    size_t n_buffers = ech_trace_n_buffers(m->trace);
    g_autofree uint32_t *alloc = g_new(uint32_t, n_buffers + 1);
    memset(alloc, 0xff, (n_buffers + 1) * sizeof *alloc);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const EchOp *op = &m->ops[i];
        m->first_need[i] = needs->len;
        for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++)
            append_need(m, needs, i, deps[d].op, deps[d].distance);
        if (op->target != ECH_NONE && op->kind == ECH_OP_SIGNAL)
            g_hash_table_insert(signals, GUINT_TO_POINTER(op->target), GUINT_TO_POINTER(i + 1));
        if (op->target != ECH_NONE && op->kind == ECH_OP_WAIT) {
            uint32_t signal = GPOINTER_TO_UINT(g_hash_table_lookup(signals, GUINT_TO_POINTER(op->target)));
            if (signal > 0)
                append_need(m, needs, i, visible_op(m, i, signal - 1), 0);
        }
        if (op->kind == ECH_OP_ALLOC)
            alloc[op->target] = i;
        if (op->kind == ECH_OP_FREE) {
            if (alloc[op->target] != NOWHERE)
                append_need(m, needs, i, alloc[op->target], 0);
            append_turn(m, needs, last, i, op->target, alloc[op->target]);
            alloc[op->target] = NOWHERE;
        }
        /* Nothing uses a buffer before its allocation is through. Where all that is known is in which order the host asked, its allocator ran ahead of all
         * streams: its events stand behind what was asked before, of whatever stream, to show where in the run memory is held, and hold nobody up. */
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            EchId root = ech_buffer_root(m->buffers, uses[u].buffer, NULL);
            uint32_t a = alloc[root];
            append_turn(m, needs, last, i, root, a);
            if (a != NOWHERE && queue_of(m, a) != queue_of(m, i) && !(host_order && is_host_queue(m, queue_of(m, a))))
                append_need(m, needs, i, a, 0);
        }
    }
    m->first_need[m->n_ops] = needs->len;
    m->needs = (Need *)(void *)g_array_free(g_steal_pointer(&needs), FALSE);
}

/* Bytes each op moves per memory, for the traffic counters. */
static void compile_traffic(EchMachine *m)
{
    g_autoptr(GArray) traffic = g_array_sized_new(FALSE, FALSE, sizeof(struct Traffic), (guint)MIN(m->n_ops, 1u << 26));
    m->first_traffic = g_new(uint32_t, m->n_ops + 1);
    const EchUse *uses = ech_trace_uses(m->trace);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const EchOp *op = &m->ops[i];
        m->first_traffic[i] = traffic->len;
        if (ech_op_is_prefetch(m->trace, op))
            continue;
        if (op->kind == ECH_OP_COPY) {
            struct Traffic from = {.memory = op->memory_from, .read = op->bytes}, to = {.memory = op->memory_to, .written = op->bytes};
            g_array_append_val(traffic, from);
            g_array_append_val(traffic, to);
            continue;
        }
        if (op->kind != ECH_OP_KERNEL && op->kind != ECH_OP_COLLECTIVE)
            continue;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            uint32_t memory = ech_prices_memory(m->trace, m->device, op, uses[u].buffer);
            struct Traffic *row = NULL;
            for (uint32_t t = m->first_traffic[i]; t < traffic->len && !row; t++)
                if (g_array_index(traffic, struct Traffic, t).memory == memory)
                    row = &g_array_index(traffic, struct Traffic, t);
            if (!row) {
                struct Traffic fresh = {.memory = memory};
                g_array_append_val(traffic, fresh);
                row = &g_array_index(traffic, struct Traffic, traffic->len - 1);
            }
            if (uses[u].access == ECH_WRITE)
                row->written = ech_bytes_add(row->written, uses[u].bytes);
            else
                row->read = ech_bytes_add(row->read, uses[u].bytes);
        }
        for (uint32_t t = m->first_traffic[i]; t < traffic->len && m->prices->prices[i].cached > 0; t++) {
            struct Traffic *row = &g_array_index(traffic, struct Traffic, t);
            const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, row->memory));
            if (memory && memory->kind == ECH_MEM_HBM)
                row->cached = MIN(m->prices->prices[i].cached, ech_bytes_add(row->read, row->written));
        }
    }
    m->first_traffic[m->n_ops] = traffic->len;
    m->traffic = (struct Traffic *)(void *)g_array_free(g_steal_pointer(&traffic), FALSE);
}

/* The compiler placed arrays there, and nobody knows where: what is counted may not be all at once in its places. */
static bool is_unplaced(const EchTrace *trace, const char *memory)
{
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(trace, i, &value)) != NULL; i++)
        if (g_str_has_prefix(key, "unplaced.") && strcmp(key + strlen("unplaced."), memory) == 0)
            return true;
    return false;
}

/* The allocator of memory @i in the recorded state; as it was where that does not fit. */
static bool begin_as_recorded(EchMachine *m, uint32_t i, const char *spec, const EchAllocDevice *below, EchDiag *diag, GError **error)
{
    const EchReplayStart *begin = m->options->begin;
    g_autofree EchSeedBlock *seeds = g_memdup2(begin->blocks, (begin->n + 1) * sizeof *seeds);
    g_autoptr(GError) misfit = NULL;
    for (size_t k = 0; k < begin->n; k++)
        seeds[k].stream = ech_machine_stream(m, begin->owners[k].queue == ECH_NONE ? m->n_queues - 1 : begin->owners[k].queue, begin->owners[k].pool);
    if (!ech_allocator_seed(m->allocators[i], seeds, begin->n, &misfit)) {
        ech_diag_remark(diag, "allocator %s: not from the recorded start state, which does not fit (%s)", spec, misfit->message);
        ech_allocator_free(m->allocators[i]);
        m->allocators[i] = ech_allocator_new(spec, below, error);
        return m->allocators[i] != NULL;
    }
    ech_allocator_script(m->allocators[i], begin->script, begin->n_script);
    m->begun = i;
    m->next_id[i] = (uint32_t)ech_trace_n_buffers(m->trace); /* below are those that are there */
    for (size_t k = 0; k < begin->n; k++) {
        const EchSeedBlock *seed = &begin->blocks[k];
        EchPlacement place = {.rounded = seed->bytes, .address = seed->address, .offset = seed->address - seed->segment_address, .reservation = -1};
        if (seed->id != UINT32_MAX)
            ech_machine_hold(m, seed->id, &place);
    }
    return true;
}

/* Where host and device have one memory: what the trace calls the host's is of the device's. */
static void compile_whole(EchMachine *m, EchDiag *diag)
{
    uint32_t hbm = NOWHERE;
    for (uint32_t i = 0; i < m->n_memories; i++) {
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        hbm = memory && memory->kind == ECH_MEM_HBM ? i : hbm;
    }
    if (hbm == NOWHERE || !ech_device_shares_host(m->device))
        return;
    if (m->options->unified_memory)
        ech_diag_remark(diag, "unified memory: %s and its host have one memory, beyond which nothing lies", m->device->name);
    m->whole = g_new(uint32_t, m->n_memories + 1);
    for (uint32_t i = 0; i < m->n_memories; i++) {
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        m->whole[i] = i == hbm || (memory && memory->within) ? hbm : NOWHERE;
    }
}

static bool compile_memories(EchMachine *m, EchDiag *diag, GError **error)
{
    m->n_memories = (uint32_t)ech_trace_n_memories(m->trace);
    m->memories = g_new0(EchMemoryState, m->n_memories + 1);
    m->allocators = g_new0(EchAllocator *, m->n_memories + 1);
    m->next_id = g_new0(uint32_t, m->n_memories + 1);
    m->begun = NOWHERE;
    m->limits = g_new0(EchBytes, m->n_memories + 1);
    m->hbm = NOWHERE;
    m->space_waiters = g_new(uint32_t, m->n_memories + 1);
    m->pending_frees = g_new0(uint32_t, m->n_memories + 1);
    m->has_fixed = g_new0(bool, m->n_memories + 1);
    m->free_call = g_new0(const DriverPrice *, m->n_memories + 1);
    g_autofree bool *online = g_new0(bool, m->n_memories + 1);
    for (size_t b = 0; b < ech_trace_n_buffers(m->trace); b++) {
        const EchBuffer *buffer = &m->buffers[b];
        if (buffer->alias_of != ECH_NONE)
            continue;
        if (buffer->pool != ECH_NONE) {
            m->pools = m->pools ? m->pools : g_hash_table_new(ech_hash_text, g_str_equal);
            g_hash_table_insert(m->pools, (gpointer)(uintptr_t)ech_trace_string(m->trace, buffer->pool), GUINT_TO_POINTER(buffer->pool + 1));
        }
        if (buffer->offset == ECH_OFFSET_NONE) {
            online[buffer->memory] = true;
            continue;
        }
        m->has_fixed[buffer->memory] = true;
        EchBytes end = ech_bytes_add(buffer->offset, buffer->bytes);
        m->memories[buffer->memory].fixed_extent = MAX(m->memories[buffer->memory].fixed_extent, end);
    }
    compile_whole(m, diag);
    for (uint32_t i = 0; i < m->n_memories; i++) {
        m->memories[i].series = g_array_new(FALSE, FALSE, sizeof(EchPoint));
        m->space_waiters[i] = NOWHERE;
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        EchBytes limit = memory ? (memory->available ? memory->available : memory->capacity) : 0;
        if (memory && memory->kind == ECH_MEM_HBM && m->hbm == NOWHERE)
            m->hbm = i;
        /* A process that asks as it goes has its context beside what it may have. */
        EchBytes context = memory && memory->kind == ECH_MEM_HBM && online[i] && m->options->context ? ech_device_context(m->device) : 0;
        m->memories[i].context = MIN(context, limit);
        m->limits[i] = limit > 0 && !is_unplaced(m->trace, ech_trace_memory(m->trace, i)) ? limit - m->memories[i].context : UINT64_MAX;
        const EchMemory *host = ech_device_memory_kind(m->device, ECH_MEM_HOST_PINNED);
        if (memory && memory->kind == ECH_MEM_HBM && m->options->unified_memory && host && !host->within)
            m->limits[i] = ech_bytes_add(m->limits[i], host->available ? host->available : host->capacity);
        if (!m->options->allocator_on || !memory)
            continue;
        bool asked = memory->kind == ECH_MEM_HBM && m->options->allocator && *m->options->allocator;
        const char *spec = asked ? m->options->allocator : memory->kind == ECH_MEM_HBM ? "best_fit" : m->options->host_allocator;
        if (!spec || !*spec || (!online[i] && !asked))
            continue;
        EchBytes left = m->limits[i] - MIN(m->limits[i], m->memories[i].fixed_extent);
        EchAllocDevice below = {.capacity = left, .context = m->memories[i].context, .granule = 0, .order = m->options->order};
        m->allocators[i] = ech_allocator_new(spec, &below, error);
        if (!m->allocators[i]) {
            g_prefix_error(error, "allocator of memory '%s': ", ech_trace_memory(m->trace, i));
            return false;
        }
        if (online[i] && ech_allocator_capacity(m->allocators[i]) > left)
            m->limits[i] = ech_bytes_add(m->memories[i].fixed_extent, ech_allocator_capacity(m->allocators[i]));
        if (!online[i]) {
            g_clear_pointer(&m->allocators[i], ech_allocator_free);
            if (m->has_fixed[i])
                ech_diag_remark(diag, "allocator %s places nothing: every buffer of memory '%s' lies where the compiler put it (--pass unplan undoes that)",
                                spec, ech_trace_memory(m->trace, i));
            continue;
        }
        if (asked && m->options->begin && !begin_as_recorded(m, i, spec, &below, diag, error))
            return false;
        if (ech_allocator_free_waits(m->allocators[i])) {
            m->free_call[i] = ech_allocator_maps(m->allocators[i]) ? &m->driver_unmap : &m->driver_free;
            m->paced = m->n_loops == 0 && !m->options->host_gaps && !m->options->graph && m->free_call[i]->call > 0;
        }
        m->driven = m->driven || (memory->kind == ECH_MEM_HBM && m->driver_malloc.call + m->driver_free.call + m->driver_map.call + m->driver_unmap.call > 0);
        if (m->has_fixed[i])
            ech_diag_remark(diag, "memory '%s': buffers with fixed offsets take the first bytes, the allocator has the rest", ech_trace_memory(m->trace, i));
    }
    return true;
}

/* As in pricing: lanes do what has no unit of its own. */
static void compile_units(EchMachine *m)
{
    static const EchUnitKind kinds[ECH_N_WORK_UNITS] = {ECH_UNIT_MATRIX, ECH_UNIT_VECTOR, ECH_UNIT_TRANSCENDENTAL};
    for (size_t i = 0; i < ECH_N_WORK_UNITS; i++) {
        const EchUnit *unit = ech_device_unit(m->device, kinds[i]);
        if (!unit)
            unit = ech_device_unit(m->device, ECH_UNIT_VECTOR);
        m->kind_unit[i] = unit ? (uint32_t)(unit - m->device->units) : NOWHERE;
    }
}

static void compile_links(EchMachine *m)
{
    m->links = g_new0(LinkState, m->device->n_links + 1);
    for (size_t i = 0; i < m->device->n_links; i++) {
        LinkState *link = &m->links[i];
        link->limit[1] = MAX(m->device->links[i].engines_to, 1u);
        link->limit[0] = MAX(m->device->links[i].engines_from, 1u);
        for (int d = 0; d < 2; d++)
            link->first_waiter[d] = link->last_waiter[d] = NOWHERE;
    }
}

/* A further piece costs as much as the first where nothing else is known: PyTorch's authors found that mapping takes time by the number of pieces, ten of 2 MiB
 * ten times as long as one of 20 MiB (CUDACachingAllocator.cpp, "Note [Expandable Segments]"). */
static DriverPrice driver_price(const EchDevice *device, const char *call)
{
    g_autofree char *first = g_strdup_printf("runtime.driver.%s_ps", call), *piece = g_strdup_printf("runtime.driver.%s_piece_ps", call),
                    *page = g_strdup_printf("runtime.driver.%s_page_ps", call), *beside = g_strdup_printf("runtime.driver.%s_beside_ps", call),
                    *waits = g_strdup_printf("runtime.driver.%s_waits", call);
    double each = ech_device_number(device, first, 0);
    return (DriverPrice){(EchTime)each, (EchTime)ech_device_number(device, piece, each), (EchTime)ech_device_number(device, page, 0),
                         (EchTime)ech_device_number(device, beside, each), ech_device_number(device, waits, 0) > 0};
}

/* What PyTorch's host takes where the device does not say: for each operator and node of gradients, and for a launch beside them, as on the host of
 * h200-calibrated (an H100's took 6.2 and 4.5 us). Held out: programs that wait for hosts of other people, validation/pretended_programs.md. */
#define EAGER_OPERATOR (4800 * ECH_PS_PER_NS)
#define EAGER_SUBMIT (3519 * ECH_PS_PER_NS)

/* And for a launch with all that leads to it, where a capture tells no operators: 15 us of a core of an AMD EPYC, over a training step of a GPT of 12 layers
 * with autocast and AdamW (PyTorch 2.15, 699 launches). */
#define EAGER_LAUNCH (15 * ECH_PS_PER_US)

/* For the driver's call alone, of a program in CUDA C++, which has little else to do between its launches: calibrate's measure of an H100's host
 * (runtime.submit_ps there). Held out: llama.cpp of August 2024 without graphs, validation/pretended_programs.md. */
#define LAUNCH_CALL (4568 * ECH_PS_PER_NS)

/* The operators that captures tell of come one by one: those that launch nothing (views, checks, nodes of gradients) take as long as others. */
static EchTime time_of_operators(const EchMachine *m, const EchOp *op)
{
    return m->host_operator > 0 ? MIN(m->host_operator, ECH_PS_PER_S) * (EchTime)ech_op_operators(m->trace, op) : 0;
}

/* The host's time for what one of its threads asked of other devices before it asked for @op. */
static EchTime time_elsewhere(const EchMachine *m, const EchOp *op)
{
    uint32_t operators, launches = ech_op_elsewhere(m->trace, op, &operators);
    return ech_time_add(MIN(m->host_launch, ECH_PS_PER_S) * (EchTime)launches, MIN(m->host_operator, ECH_PS_PER_S) * (EchTime)operators);
}

static bool tells_operators(const EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (ech_op_operators(m->trace, &m->ops[i]) > 0)
            return true;
    return false;
}

/* Where the trace says in which order the host asked, and nothing of when: what each op has behind it since the host waited last. */
static void compile_host(EchMachine *m)
{
    const char *order = ech_trace_get_property(m->trace, "host_order");
    if (!order || !m->options->host_launches || !m->options->overhead || m->options->graph || m->n_loops > 0)
        return;
    bool by_launches = ech_device_has_number(m->device, "runtime.eager_launch_ps") && !ech_device_has_number(m->device, "runtime.eager_operator_ps");
    if (strcmp(order, ECH_HOST_COMPILED) == 0) {
        m->host_launch = (EchTime)ech_device_number(m->device, "runtime.submit_ps", (double)LAUNCH_CALL);
    } else if (by_launches || !tells_operators(m)) {
        m->host_launch = (EchTime)ech_device_number(m->device, "runtime.eager_launch_ps", (double)EAGER_LAUNCH);
    } else {
        m->host_operator = (EchTime)ech_device_number(m->device, "runtime.eager_operator_ps", (double)EAGER_OPERATOR);
        m->host_launch = (EchTime)ech_device_number(m->device, "runtime.submit_ps", (double)EAGER_SUBMIT);
    }
    if (m->host_launch <= 0)
        return;
    m->host_since = g_new(uint32_t, m->n_ops + 1);
    m->host_asked = g_new(EchTime, m->n_ops + 1);
    uint32_t since = NOWHERE;
    EchTime asked = 0;
    bool any = false; /* asked for since then */
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const EchOp *op = &m->ops[i];
        bool on_host = op->queue != ECH_NONE && ech_trace_queues(m->trace)[op->queue].kind == ECH_QUEUE_HOST;
        bool in_graph = op->launch != ECH_NONE && strstr(ech_trace_string(m->trace, op->launch), "graph=1"); /* with the op before */
        EchTime takes = on_host ? 0 : time_elsewhere(m, op);
        if (!on_host && !in_graph && ech_op_is_work(op)) {
            m->host_waits += !any && since != NOWHERE && m->ops[since].kind == ECH_OP_WAIT;
            any = true;
            takes = ech_time_add(takes, MIN(ech_price_behind(m->device, ech_op_behind(m->trace, op)), m->host_launch));
            takes = ech_time_add(takes, time_of_operators(m, op));
        }
        asked = ech_time_add(asked, takes);
        m->host_asks = ech_time_add(m->host_asks, takes);
        m->host_since[i] = since;
        m->host_asked[i] = asked;
        if (on_host && (op->kind == ECH_OP_WAIT || op->kind == ECH_OP_KERNEL)) { /* which it runs itself */
            since = i;
            asked = 0;
            any = false;
        }
    }
}

/* Between a kernel's end and the start of the next in its stream, asked for while that one ran, where the device does not say: the median of 4,272 pairs of a
 * recorded profile of an H100 (TraceLens, OWLv2; another, TimeSformer, has 1.47 of 479), those asked for 3 us and more before. In profiles of an A100 and of a
 * V100, in whole microseconds, the mean is 1.5 and 1.4 of 56 and of 8,613. */
#define KERNEL_GAP (1250 * ECH_PS_PER_NS)

/* Of programs whose streams are those of a GPU, as they asked for them. Kernels of a CUDA graph follow one another at once (launch_ps covers that). */
static void compile_kernel_gaps(EchMachine *m)
{
    bool gpu = g_strcmp0(m->device->family, "gpu") == 0 && ech_trace_get_property(m->trace, "host_order");
    if (!gpu || !m->options->overhead || m->options->graph || m->n_loops > 0)
        return;
    EchTime launch = (EchTime)ech_device_number(m->device, "runtime.launch_ps", 0), own = ech_gpu_start(m->device);
    m->kernel_gap = MAX((EchTime)ech_device_number(m->device, "runtime.kernel_gap_ps", (double)KERNEL_GAP), launch - MIN(own, launch));
    if (m->kernel_gap <= 0)
        return;
    g_autofree uint32_t *last = g_new(uint32_t, m->n_queues + 1);
    for (uint32_t q = 0; q < m->n_queues; q++)
        last[q] = NOWHERE;
    m->kernel_before = g_new(uint32_t, m->n_ops + 1);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const EchOp *op = &m->ops[i];
        m->kernel_before[i] = NOWHERE;
        if (op->kind != ECH_OP_KERNEL || op->queue == ECH_NONE || ech_trace_queues(m->trace)[op->queue].kind == ECH_QUEUE_HOST)
            continue;
        bool in_graph = op->launch != ECH_NONE && strstr(ech_trace_string(m->trace, op->launch), "graph=1");
        if (!in_graph)
            m->kernel_before[i] = last[queue_of(m, i)];
        last[queue_of(m, i)] = i;
    }
}

EchMachine *ech_machine_new(const EchTrace *trace, const EchDevice *device, const EchPrices *prices, const EchReplayOptions *options, EchDiag *diag,
                            GError **error)
{
    g_autoptr(EchMachine) m = g_new0(EchMachine, 1);
    m->trace = trace;
    m->ops = ech_trace_ops(trace);
    m->n_ops = ech_trace_n_ops(trace);
    m->buffers = ech_trace_buffers(trace);
    m->work = ech_trace_work(trace);
    m->device = device;
    m->prices = prices;
    m->options = options;
    m->free_instance = NOWHERE;
    m->barrier = m->barrier_waiters = m->barrier_queue = NOWHERE;
    m->instances = g_array_new(FALSE, TRUE, sizeof(Instance));
    m->skips = g_array_new(FALSE, TRUE, sizeof(EchSkip));
    m->placed = g_array_new(FALSE, TRUE, sizeof(EchPlaced));
    m->out.stuck = ECH_NONE;
    m->out.fits = true;
    if (!compile_loops(m, error))
        return NULL;
    compile_queues(m);
    compile_lives(m);
    compile_needs(m);
    compile_traffic(m);
    if (options->overhead && options->driver_calls) {
        m->submit = (EchTime)ech_device_number(device, "runtime.submit_ps", 0);
        m->trip = (EchTime)ech_device_number(device, "runtime.trip_ps", 0);
        m->driver_malloc = driver_price(device, "malloc");
        m->driver_free = driver_price(device, "free");
        m->driver_map = driver_price(device, "map");
        m->driver_unmap = driver_price(device, "unmap");
        m->driver_malloc_small = (EchTime)ech_device_number(device, "runtime.driver.malloc_small_ps", 0);
        m->driver_free_small = (EchTime)ech_device_number(device, "runtime.driver.free_small_ps", 0);
    }
    if (options->overhead) {
        m->wait_kernel = (EchTime)ech_device_number(device, "runtime.wait_ps", 0);
        m->wait_copy = (EchTime)ech_device_number(device, "runtime.wait_copy_ps", (double)m->wait_kernel);
        m->wait_through = MIN((EchTime)ech_device_number(device, "runtime.wait_through_ps", (double)m->wait_kernel), m->wait_copy);
        m->wait_passed = (EchTime)ech_device_number(device, "runtime.wait_passed_ps", 0);
    }
    if (!compile_memories(m, diag, error) || !ech_machine_compile_unified(m, diag, error))
        return NULL;
    compile_links(m);
    compile_units(m);
    m->host_ordered = m->n_loops == 0 && ech_trace_get_property(m->trace, "time_zero_ps") != NULL; /* a capture of a running program */
    m->last_free = g_new0(uint32_t, (size_t)m->n_queues * m->n_memories + 1);
    for (uint32_t q = 0; q < m->n_queues; q++)
        for (uint32_t e = 0; e < m->queues[q].n_entries; e++) {
            const Entry *entry = &m->queues[q].entries[e];
            if (entry->kind == ENTRY_OP && m->ops[entry->id].kind == ECH_OP_FREE)
                m->last_free[(size_t)q * m->n_memories + m->buffers[m->ops[entry->id].target].memory] = e + 1;
        }
    for (size_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].kind == ECH_OP_COPY)
            m->longest_setup = MAX(m->longest_setup, prices->prices[i].fixed);
    for (uint32_t n = 0; n < m->first_need[m->n_ops]; n++)
        m->longest_distance = MAX(m->longest_distance, m->needs[n].distance);
    m->done = g_new0(uint64_t, m->n_ops + 1);
    m->last_end = g_new0(EchTime, m->n_ops + 1);
    m->tells_copy = g_new0(bool, m->n_ops + 1);
    m->op_waiters = g_new(uint32_t, m->n_ops + 1);
    memset(m->op_waiters, 0xff, (m->n_ops + 1) * sizeof *m->op_waiters);
    compile_host(m);
    compile_kernel_gaps(m);
    m->todo = g_new(uint32_t, m->n_queues);
    m->load = g_new0(double, prices->n_resources + 1);
    m->n_load = g_new0(uint32_t, prices->n_resources + 1);
    m->pressed = g_new0(double, prices->n_resources + 1);
    m->pressed_at = g_new0(EchTime, prices->n_resources + 1);
    for (uint32_t q = 0; q < m->n_queues; q++)
        m->queues[q].pressed = g_new0(double, prices->n_resources + 1);
    m->n_sums = ECH_N_WAITS + (size_t)m->n_queues * ECH_SUMS_PER_QUEUE + (size_t)m->n_memories * ECH_SUMS_PER_MEMORY + device->n_links * ECH_SUMS_PER_LINK;
    m->sums = g_new0(int64_t, m->n_sums);
    for (uint32_t i = 0; i < m->n_memories && !m->freed_before; i++) {
        if (!m->allocators[i] || !ech_allocator_orders_streams(m->allocators[i]))
            continue;
        m->freed_before = g_new0(uint64_t, m->n_ops + 1);
        m->freed_by = g_new0(uint64_t, ECH_AHEAD);
    }
    m->n_amounts = prices->n_resources + device->n_units;
    m->amounts = g_new0(double, m->n_amounts + 1);
    return g_steal_pointer(&m);
}

void ech_machine_free(EchMachine *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->n_memories; i++) {
        if (m->memories[i].series)
            g_array_unref(m->memories[i].series);
        ech_allocator_free(m->allocators[i]);
    }
    g_free(m->memories);
    g_free(m->allocators);
    for (uint32_t q = 0; m->queues && q < m->n_queues; q++)
        g_free(m->queues[q].pressed);
    g_free(m->queues);
    g_free(m->entries);
    for (uint32_t l = 0; m->loops && l < m->n_loops; l++) {
        g_clear_pointer(&m->loops[l].marks, g_array_unref);
        g_clear_pointer(&m->loops[l].made, g_array_unref);
    }
    g_free(m->loops);
    g_free(m->arrived);
    g_free(m->participant);
    g_free(m->last_free);
    g_free(m->loop_waiter);
    g_free(m->op_loop);
    g_free(m->mult);
    g_free(m->needs);
    g_free(m->first_need);
    g_free(m->life_uses);
    g_free(m->first_life);
    g_free(m->op_life);
    g_free(m->op_position);
    g_free(m->positions);
    g_free(m->turns);
    g_free(m->rates);
    g_free(m->lives);
    g_array_unref(m->instances);
    g_array_unref(m->skips);
    g_array_unref(m->placed);
    g_free(m->done);
    g_free(m->last_end);
    g_free(m->tells_copy);
    g_free(m->op_waiters);
    g_free(m->links);
    g_free(m->next_id);
    g_free(m->freed_before);
    g_free(m->freed_by);
    g_clear_pointer(&m->held, g_hash_table_unref);
    g_free(m->limits);
    g_free(m->whole);
    ech_managed_free(m->managed);
    g_free(m->touches);
    g_free(m->first_touch);
    g_free(m->space_waiters);
    g_free(m->pending_frees);
    g_free(m->free_call);
    g_free(m->kernel_before);
    g_free(m->host_since);
    g_free(m->host_asked);
    g_clear_pointer(&m->pools, g_hash_table_unref);
    g_free(m->has_fixed);
    g_free(m->todo);
    g_free(m->load);
    g_free(m->n_load);
    g_free(m->pressed);
    g_free(m->pressed_at);
    g_free(m->sums);
    g_free(m->amounts);
    g_free(m->traffic);
    g_free(m->first_traffic);
    g_free(m);
}
