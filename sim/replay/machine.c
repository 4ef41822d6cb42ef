#include "sim/replay/machine.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

#define NOWHERE UINT32_MAX
enum { MAX_DEPTH = 32, MAX_PERIOD = 8, N_HOLDERS = 16 };

/* What a cursor meets. */
typedef enum { ENTRY_OP, ENTRY_LOOP_START, ENTRY_LOOP_FINISH, ENTRY_BEGIN, ENTRY_END } EntryKind;
typedef struct {
    uint8_t kind;
    bool home;     /* BEGIN: of the loop's own queue. */
    bool watch;    /* BEGIN: where its steady state is looked for. */
    uint32_t id;   /* Op, or loop number. */
    uint32_t jump; /* BEGIN: its END. END: its BEGIN. */
    uint32_t participant;
} Entry;

/* done[op] must exceed (ordinal / div) - distance. */
typedef struct {
    uint32_t op, distance;
    uint64_t div;
    bool other_queue;
} Need;

/* Life @life of instance ordinal / div is used by the op. Of a life that turns over, div is the use's position. */
typedef struct {
    uint32_t life;
    uint64_t div;
} LifeUse;

/* How often one iteration of a loop allocates a buffer that turns over, and how often queues other than the FREE's use it there. */
typedef struct {
    uint32_t loop;
    uint64_t allocs, uses;
} Rate;

/* How many ALLOCs and uses of a buffer come before one of its ops: so many in the first iteration of every loop around, and the rates of those loops. */
typedef struct {
    uint64_t allocs, uses;
    uint32_t first_turn, n_turns;
} Position;

/* One loop around an op: its iteration is ordinal / div % trips. */
typedef struct {
    uint64_t div, trips;
    uint32_t rate;
} Turn;

typedef struct {
    uint32_t op, parent, end; /* end: first op after the body. parent: loop number or NOWHERE. */
    uint64_t trips, started;
    uint64_t mult; /* Instances of the LOOP op in the whole trace, saturating. */
    uint32_t first_participant, n_participants;
    uint32_t depth; /* 0 outermost. */
    GArray *marks;  /* Mark: of its last iterations, at most MAX_PERIOD; or NULL. */
} Loop;

/*
 * One ALLOC .. FREE of a buffer in the trace, or a buffer there from the start. Instances of it live at one time are in a list of the machine.
 * Where a loop's body frees what came from outside or from the iteration before, and allocates it anew, the buffer turns over: all its ALLOCs
 * and FREEs are one life then, and its instances are numbered by the ALLOCs before them.
 */
typedef struct {
    EchId buffer;
    uint32_t alloc_op, free_op; /* NOWHERE: from the start; never. Of a life that turns over: the first, the last. */
    uint64_t users;             /* Uses per instance by queues other than the FREE's, which must have ended before the bytes are free. */
    uint32_t first;             /* First live instance, or NOWHERE. */
    bool turns_over;
    uint32_t first_rate, n_rates; /* Of a life that turns over: its loops, in the trace's order. */
} Life;

typedef struct {
    uint64_t ordinal, ended; /* ended: uses so far. */
    uint64_t users;          /* Uses that must have ended before the bytes are free; known when freed. */
    uint64_t used_before;    /* Of a life that turns over: uses before the ALLOC. */
    uint32_t next;           /* In the life's list, or in the free list. */
    uint32_t alloc_id;       /* Of the allocator, or NOWHERE. */
    uint32_t placed;         /* Index in placed, or NOWHERE. */
    EchBytes bytes;          /* Counted as live. */
    uint64_t address;
    bool allocated, freed;
} Instance;

typedef enum { STATE_IDLE, STATE_BLOCKED, STATE_GAP, STATE_FIXED, STATE_ENGINE, STATE_RUNNING, STATE_FINISHED } State;

typedef struct {
    const Entry *entries;
    uint32_t n_entries, at, depth;
    uint64_t iter[MAX_DEPTH];
    uint32_t loop[MAX_DEPTH]; /* Loop number at each depth. */
    uint64_t ordinal;         /* Of ops directly in the innermost loop. */
    State state;
    EchWait reason;
    EchTime head;        /* Since when its entry is at the head. */
    EchTime ready;       /* Dependencies satisfied. */
    EchTime start;       /* Of the running op. */
    EchTime work_start;  /* Of its amounts. */
    EchTime issued;      /* Copies: when the last one's set-up was over. */
    EchTime space_since; /* Allocation waits for space since then, or -1. */
    EchTime stall_since; /* Waits for an allocator's driver call since then, or -1. */
    EchTime driver;      /* What the allocator's driver calls take, at the op at the head. */
    bool drains;         /* They wait for all that was asked for before. */
    EchTime waits[ECH_N_WAITS];
    double *pressed;      /* Per part of the running op: what `pressed` of its resource was when it began. */
    uint32_t next_waiter; /* In the list of the op, link or memory it waits for. */
    bool in_todo;
    bool has_head;
    bool gap_over; /* The host's gap before the op at the head has passed. */
} Queue;

typedef struct {
    uint32_t active[2], limit[2];
    uint32_t first_waiter[2], last_waiter[2];
    EchTime since[2], since_any;
} LinkState;

struct EchMachine {
    const EchTrace *trace;
    const EchOp *ops;
    const EchBuffer *buffers;
    const EchWork *work;
    uint32_t kind_unit[ECH_N_WORK_UNITS]; /* Device unit that does each kind of work, or NOWHERE. */
    const EchDevice *device;
    const EchPrices *prices;
    const EchReplayOptions *options;
    size_t n_ops;

    Queue *queues;
    uint32_t n_queues;
    Entry *entries;
    Loop *loops;
    uint32_t n_loops;
    uint64_t *arrived;     /* Per loop and participant: instances finished there. */
    uint32_t *participant; /* Queue of each. */
    uint32_t *last_free;   /* Per queue and memory: 1 + entry of its last FREE there, or 0. */
    uint32_t *loop_waiter; /* Per loop: queue that waits for its finish. */
    uint32_t *op_loop;     /* Innermost loop of each op, or NOWHERE. */
    uint64_t *mult;        /* Instances of each op. */
    Need *needs;
    uint32_t *first_need; /* first_need[n_ops + 1] */
    LifeUse *life_uses;
    uint32_t *first_life;  /* first_life[n_ops + 1] */
    uint32_t *op_life;     /* ALLOC, FREE: life. */
    uint32_t *op_position; /* ALLOC, FREE of lives that turn over; NULL if there are none. */
    Position *positions;
    Turn *turns;
    Rate *rates;
    Life *lives;
    uint32_t n_lives;
    GArray *instances; /* Instance */
    uint32_t free_instance;

    uint64_t *done;
    EchTime *last_end;
    uint32_t *op_waiters; /* First queue that waits for the op. */
    LinkState *links;
    EchMemoryState *memories;
    EchAllocator **allocators; /* Per trace memory, or NULL. */
    uint32_t *next_id;
    EchBytes *limits;        /* Per trace memory; UINT64_MAX unlimited. */
    uint32_t *space_waiters; /* Per trace memory, first; lists keep order. */
    uint32_t *pending_frees; /* Per trace memory. */
    bool *has_fixed;
    bool *free_waits;                                             /* Per trace memory: each FREE is a call that waits for the device. */
    EchTime driver_malloc, driver_free, driver_map, driver_unmap; /* Of a driver call, the last two of 2 MiB of pages; 0 where the device does not say. */
    bool driven;                                                  /* Any of them. */
    uint32_t barrier;                                             /* Op whose driver call waits for all before it and holds all behind it, or NOWHERE. */
    uint32_t barrier_queue, barrier_waiters;
    uint32_t n_memories;
    uint32_t *todo;
    uint32_t todo_first, todo_n;
    double *load; /* Per resource: what its demands would draw alone, over its capacity. */
    uint32_t *n_load;
    double *pressed; /* Integral of load beyond one, up to pressed_at. */
    EchTime *pressed_at;

    int64_t *sums;
    double *amounts;
    size_t n_sums, n_amounts;
    /* Bytes an op moves per memory. */
    struct Traffic {
        uint32_t memory;
        EchBytes read, written;
    } * traffic;
    uint32_t *first_traffic;

    EchTime longest_setup; /* Of any copy. */
    EchTime now, base;
    double base_fraction;
    EchTime engine_now;
    EchOutcome out;
    GArray *skips, *placed;
    EchSpanSink sink;
    void *sink_user;
    uint64_t *progress;
    bool stop;
    const EchFluidClass *class;
    void *engine;
};

/* The state at the begin of an iteration, relative to it. */
typedef struct {
    uint64_t iteration;
    GArray *words;  /* uint64_t: what must be equal. */
    GArray *times;  /* EchTime before now: equal but for rounding to a picosecond. */
    GArray *shares; /* double: what must be equal up to rounding. */
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
    g_free(mark->sums);
    g_free(mark->amounts);
}

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    return ech_bytes_mul(a, b);
}

static EchId root_of(const EchMachine *m, EchId buffer)
{
    while (m->buffers[buffer].alias_of != ECH_NONE)
        buffer = m->buffers[buffer].alias_of;
    return buffer;
}

static uint32_t queue_of(const EchMachine *m, uint32_t op)
{
    return MIN(m->ops[op].queue, m->n_queues - 1);
}

/* The number of the loop that op @op is. */
static uint32_t loop_of(const EchMachine *m, uint32_t op)
{
    uint32_t low = 0, high = m->n_loops;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->loops[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Places in the sums. */
static int64_t *queue_sums(EchMachine *m, uint32_t queue)
{
    return m->sums + ECH_N_WAITS + (size_t)queue * ECH_SUMS_PER_QUEUE;
}

static int64_t *memory_sums(EchMachine *m, uint32_t memory)
{
    return m->sums + ECH_N_WAITS + (size_t)m->n_queues * ECH_SUMS_PER_QUEUE + (size_t)memory * ECH_SUMS_PER_MEMORY;
}

static int64_t *link_sums(EchMachine *m, uint32_t link)
{
    return m->sums + ECH_N_WAITS + (size_t)m->n_queues * ECH_SUMS_PER_QUEUE + (size_t)m->n_memories * ECH_SUMS_PER_MEMORY + (size_t)link * ECH_SUMS_PER_LINK;
}

static void add_sum(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = INT64_MAX;
}

/* Compiling */

static uint64_t trips_of(const EchMachine *m, const EchOp *op)
{
    bool known = op->bytes_origin == ECH_KNOWN || op->bytes_origin == ECH_INFERRED;
    return !known && m->options->trips > 0 ? m->options->trips : op->bytes;
}

/* Product of the trips of the loops around op @inner that are not around @scope's level. */
static uint64_t trips_between(const EchMachine *m, uint32_t inner_loop, uint32_t outer_loop)
{
    uint64_t product = 1;
    for (uint32_t loop = inner_loop; loop != outer_loop && loop != NOWHERE; loop = m->loops[loop].parent)
        product = saturating_mul(product, MAX(m->loops[loop].trips, 1u));
    return product;
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
        m->mult[i] = around ? saturating_mul(around->mult, around->trips) : 1;
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
        m->queues[q].entries = m->entries + first[q];
        m->queues[q].space_since = m->queues[q].stall_since = -1;
        m->queues[q].next_waiter = NOWHERE;
    }
    /* Ids of loops are found by op while compiling; later only by entry. */
    m->loop_waiter = g_new(uint32_t, m->n_loops + 1);
    for (uint32_t l = 0; l < m->n_loops; l++)
        m->loop_waiter[l] = NOWHERE;
}

static void append_need(EchMachine *m, GArray *needs, uint32_t op, uint32_t on, uint32_t distance)
{
    Need need = {.op = on, .distance = distance, .div = trips_between(m, m->op_loop[op], m->op_loop[on]), .other_queue = queue_of(m, on) != queue_of(m, op)};
    /* Its own queue runs in order, and a loop that has not begun runs no body. */
    bool around = m->ops[on].kind == ECH_OP_LOOP && op > on && op < m->loops[loop_of(m, on)].end;
    if (!need.other_queue || around)
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
    outer->allocs += saturating_mul(inner.allocs, m->loops[inner.loop].trips);
    outer->uses += saturating_mul(inner.uses, m->loops[inner.loop].trips);
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

/* ALLOCs and uses of the buffer before the op at @position in its instance @ordinal. */
static Position count_before(const EchMachine *m, uint64_t position, uint64_t ordinal)
{
    Position count = m->positions[position];
    for (uint32_t t = count.first_turn; t < count.first_turn + count.n_turns; t++) {
        const Turn *turn = &m->turns[t];
        uint64_t iteration = ordinal / turn->div % turn->trips;
        count.allocs += iteration * m->rates[turn->rate].allocs;
        count.uses += iteration * m->rates[turn->rate].uses;
    }
    return count;
}

/* Which instance of its life a use by an op's instance @ordinal means. */
static uint64_t instance_used(const EchMachine *m, const LifeUse *use, uint64_t ordinal)
{
    const Life *life = &m->lives[use->life];
    if (life->turns_over)
        return count_before(m, use->div, ordinal).allocs - 1;
    return life->alloc_op == NOWHERE ? 0 : ordinal / use->div;
}

/* What one iteration of loop @l adds to the numbers of a life's instances, all zero if the loop does not allocate it. */
static Rate rate_in(const EchMachine *m, const Life *life, uint32_t l)
{
    const Loop *loop = &m->loops[l];
    if (!life->turns_over) {
        bool made = life->alloc_op != NOWHERE && life->alloc_op > loop->op && life->alloc_op < loop->end;
        return (Rate){.loop = l, .allocs = made ? trips_between(m, m->op_loop[life->alloc_op], l) : 0};
    }
    uint32_t low = life->first_rate, high = low + life->n_rates;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->rates[middle].loop < l)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < life->first_rate + life->n_rates && m->rates[low].loop == l && m->rates[low].allocs > 0;
    return found ? m->rates[low] : (Rate){.loop = l};
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
            Life life = {.buffer = (EchId)b, .alloc_op = NOWHERE, .free_op = NOWHERE, .first = NOWHERE, .turns_over = turning[b]};
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
            Life life = {.buffer = op->target, .alloc_op = i, .free_op = NOWHERE, .first = NOWHERE, .turns_over = turning[op->target]};
            m->op_life[i] = current[op->target] = lives->len;
            g_array_append_val(lives, life);
        } else if (op->kind == ECH_OP_ALLOC) {
            m->op_life[i] = current[op->target];
        } else if (op->kind == ECH_OP_FREE) {
            uint32_t life = current[op->target];
            m->op_life[i] = life;
            if (!turning[op->target])
                current[op->target] = NOWHERE;
            if (life != NOWHERE)
                g_array_index(lives, Life, life).free_op = i;
        }
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            uint32_t life = current[root_of(m, trace_uses[u].buffer)];
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
    /* Keep only the uses that a FREE must wait for: those of other queues. */
    uint32_t kept = 0, first = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        uint32_t end = m->first_life[i + 1];
        uint32_t begin = kept;
        for (uint32_t u = first; u < end; u++) {
            LifeUse use = g_array_index(uses, LifeUse, u);
            Life *life = &m->lives[use.life];
            if (life->free_op == NOWHERE || queue_of(m, life->free_op) == queue_of(m, i))
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

static void compile_needs(EchMachine *m)
{
    g_autoptr(GArray) needs = g_array_new(FALSE, FALSE, sizeof(Need));
    g_autoptr(GHashTable) signals = g_hash_table_new(NULL, NULL);
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
            alloc[op->target] = NOWHERE;
        }
        /* Nothing uses a buffer before its allocation is through. */
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            uint32_t a = alloc[root_of(m, uses[u].buffer)];
            if (a != NOWHERE && queue_of(m, a) != queue_of(m, i))
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
        if (op->kind == ECH_OP_COPY) {
            struct Traffic from = {.memory = op->memory_from, .read = op->bytes}, to = {.memory = op->memory_to, .written = op->bytes};
            g_array_append_val(traffic, from);
            g_array_append_val(traffic, to);
            continue;
        }
        if (op->kind != ECH_OP_KERNEL && op->kind != ECH_OP_COLLECTIVE)
            continue;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            uint32_t memory = m->buffers[uses[u].buffer].memory;
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
    }
    m->first_traffic[m->n_ops] = traffic->len;
    m->traffic = (struct Traffic *)(void *)g_array_free(g_steal_pointer(&traffic), FALSE);
}

static bool compile_memories(EchMachine *m, EchDiag *diag, GError **error)
{
    m->n_memories = (uint32_t)ech_trace_n_memories(m->trace);
    m->memories = g_new0(EchMemoryState, m->n_memories + 1);
    m->allocators = g_new0(EchAllocator *, m->n_memories + 1);
    m->next_id = g_new0(uint32_t, m->n_memories + 1);
    m->limits = g_new0(EchBytes, m->n_memories + 1);
    m->space_waiters = g_new(uint32_t, m->n_memories + 1);
    m->pending_frees = g_new0(uint32_t, m->n_memories + 1);
    m->has_fixed = g_new0(bool, m->n_memories + 1);
    m->free_waits = g_new0(bool, m->n_memories + 1);
    g_autofree bool *online = g_new0(bool, m->n_memories + 1);
    for (size_t b = 0; b < ech_trace_n_buffers(m->trace); b++) {
        const EchBuffer *buffer = &m->buffers[b];
        if (buffer->alias_of != ECH_NONE)
            continue;
        if (buffer->offset == ECH_OFFSET_NONE) {
            online[buffer->memory] = true;
            continue;
        }
        m->has_fixed[buffer->memory] = true;
        EchBytes end = ech_bytes_add(buffer->offset, buffer->bytes);
        m->memories[buffer->memory].fixed_extent = MAX(m->memories[buffer->memory].fixed_extent, end);
    }
    for (uint32_t i = 0; i < m->n_memories; i++) {
        m->memories[i].series = g_array_new(FALSE, FALSE, sizeof(EchPoint));
        m->space_waiters[i] = NOWHERE;
        const EchMemory *memory = ech_device_memory(m->device, ech_trace_memory(m->trace, i));
        EchBytes limit = memory ? (memory->available ? memory->available : memory->capacity) : 0;
        m->limits[i] = limit ? limit : UINT64_MAX;
        if (!m->options->allocator_on || !memory)
            continue;
        bool asked = memory->kind == ECH_MEM_HBM && m->options->allocator && *m->options->allocator;
        const char *spec = asked ? m->options->allocator : memory->kind == ECH_MEM_HBM ? "best_fit" : m->options->host_allocator;
        if (!spec || !*spec || (!online[i] && !asked))
            continue;
        EchBytes left = m->limits[i] - MIN(m->limits[i], m->memories[i].fixed_extent);
        EchAllocDevice below = {.capacity = left, .granule = 0};
        m->allocators[i] = ech_allocator_new(spec, &below, error);
        if (!m->allocators[i]) {
            g_prefix_error(error, "allocator of memory '%s': ", ech_trace_memory(m->trace, i));
            return false;
        }
        if (!online[i]) {
            g_clear_pointer(&m->allocators[i], ech_allocator_free);
            if (m->has_fixed[i])
                ech_diag_remark(diag, "allocator %s places nothing: every buffer of memory '%s' lies where the compiler put it (--pass unplan undoes that)",
                                spec, ech_trace_memory(m->trace, i));
            continue;
        }
        m->free_waits[i] = ech_allocator_free_waits(m->allocators[i]);
        m->driven = m->driven || (memory->kind == ECH_MEM_HBM && m->driver_malloc + m->driver_free + m->driver_map + m->driver_unmap > 0);
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
        m->driver_malloc = (EchTime)ech_device_number(device, "runtime.driver.malloc_ps", 0);
        m->driver_free = (EchTime)ech_device_number(device, "runtime.driver.free_ps", 0);
        m->driver_map = (EchTime)ech_device_number(device, "runtime.driver.map_ps", 0);
        m->driver_unmap = (EchTime)ech_device_number(device, "runtime.driver.unmap_ps", 0);
    }
    if (!compile_memories(m, diag, error))
        return NULL;
    compile_links(m);
    compile_units(m);
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
    m->done = g_new0(uint64_t, m->n_ops + 1);
    m->last_end = g_new0(EchTime, m->n_ops + 1);
    m->op_waiters = g_new(uint32_t, m->n_ops + 1);
    memset(m->op_waiters, 0xff, (m->n_ops + 1) * sizeof *m->op_waiters);
    m->todo = g_new(uint32_t, m->n_queues);
    m->load = g_new0(double, prices->n_resources + 1);
    m->n_load = g_new0(uint32_t, prices->n_resources + 1);
    m->pressed = g_new0(double, prices->n_resources + 1);
    m->pressed_at = g_new0(EchTime, prices->n_resources + 1);
    for (uint32_t q = 0; q < m->n_queues; q++)
        m->queues[q].pressed = g_new0(double, prices->n_resources + 1);
    m->n_sums = ECH_N_WAITS + (size_t)m->n_queues * ECH_SUMS_PER_QUEUE + (size_t)m->n_memories * ECH_SUMS_PER_MEMORY + device->n_links * ECH_SUMS_PER_LINK;
    m->sums = g_new0(int64_t, m->n_sums);
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
    for (uint32_t l = 0; m->loops && l < m->n_loops; l++)
        if (m->loops[l].marks)
            g_array_unref(m->loops[l].marks);
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
    g_free(m->op_waiters);
    g_free(m->links);
    g_free(m->next_id);
    g_free(m->limits);
    g_free(m->space_waiters);
    g_free(m->pending_frees);
    g_free(m->free_waits);
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

/* Waking */

static void schedule(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    if (q->in_todo || q->state == STATE_FINISHED)
        return;
    q->in_todo = true;
    m->todo[(m->todo_first + m->todo_n++) % m->n_queues] = queue;
}

static void wake_list(EchMachine *m, uint32_t *first)
{
    uint32_t queue = *first;
    *first = NOWHERE;
    while (queue != NOWHERE) {
        uint32_t next = m->queues[queue].next_waiter;
        m->queues[queue].next_waiter = NOWHERE;
        m->queues[queue].state = STATE_IDLE;
        schedule(m, queue);
        queue = next;
    }
}

static void wait_on(EchMachine *m, uint32_t queue, uint32_t *first, EchWait reason)
{
    Queue *q = &m->queues[queue];
    q->state = STATE_BLOCKED;
    q->reason = reason;
    q->next_waiter = NOWHERE;
    while (*first != NOWHERE)
        first = &m->queues[*first].next_waiter;
    *first = queue;
}

/* Memory */

static void add_point(EchMachine *m, uint32_t memory)
{
    EchMemoryState *state = &m->memories[memory];
    EchPoint point = {.time = m->now, .live = state->live, .reserved = state->reserved};
    GArray *series = state->series;
    if (series->len > 0) {
        EchPoint *last = &g_array_index(series, EchPoint, series->len - 1);
        if (last->live == point.live && last->reserved == point.reserved)
            return;
        if (last->time == point.time) {
            /* A peak inside one instant stays visible. */
            const EchPoint *before = series->len > 1 ? &g_array_index(series, EchPoint, series->len - 2) : NULL;
            if (!(before && before->time == point.time && before->live >= last->live)) {
                bool falls = point.live < last->live;
                if (!falls) {
                    *last = point;
                    return;
                }
            } else {
                *last = point;
                return;
            }
        }
    }
    if (series->len >= MAX(m->options->max_points, 16u)) {
        uint32_t n = 0;
        for (uint32_t i = 0; i + 1 < series->len; i += 2) {
            EchPoint a = g_array_index(series, EchPoint, i), b = g_array_index(series, EchPoint, i + 1);
            a.live = MAX(a.live, b.live);
            a.reserved = MAX(a.reserved, b.reserved);
            g_array_index(series, EchPoint, n++) = a;
        }
        g_array_set_size(series, n);
    }
    g_array_append_val(series, point);
}

static void note_memory(EchMachine *m, uint32_t memory)
{
    EchMemoryState *state = &m->memories[memory];
    EchBytes reserved = m->has_fixed[memory] ? state->fixed_extent : 0;
    if (m->allocators[memory]) {
        ech_allocator_stats(m->allocators[memory], &state->alloc);
        reserved = ech_bytes_add(reserved, state->alloc.reserved);
        state->peak_reserved = MAX(state->peak_reserved, ech_bytes_add(m->has_fixed[memory] ? state->fixed_extent : 0, state->alloc.peak_reserved));
    } else {
        reserved = MAX(reserved, state->live);
    }
    state->reserved = reserved;
    state->peak_reserved = MAX(state->peak_reserved, reserved);
    if (state->live > state->peak_live) {
        state->peak_live = state->live;
        state->peak_at = m->now;
        state->peak_born = state->allocs + state->frees;
    }
    add_point(m, memory);
}

static uint32_t new_instance(EchMachine *m)
{
    if (m->free_instance != NOWHERE) {
        uint32_t at = m->free_instance;
        m->free_instance = g_array_index(m->instances, Instance, at).next;
        return at;
    }
    g_array_set_size(m->instances, m->instances->len + 1);
    return m->instances->len - 1;
}

static Instance *find_instance(EchMachine *m, uint32_t life, uint64_t ordinal, bool make)
{
    for (uint32_t at = m->lives[life].first; at != NOWHERE; at = g_array_index(m->instances, Instance, at).next) {
        Instance *instance = &g_array_index(m->instances, Instance, at);
        if (instance->ordinal == ordinal)
            return instance;
    }
    if (!make)
        return NULL;
    uint32_t at = new_instance(m);
    Instance *instance = &g_array_index(m->instances, Instance, at);
    *instance = (Instance){.ordinal = ordinal, .next = m->lives[life].first, .alloc_id = NOWHERE, .placed = NOWHERE};
    m->lives[life].first = at;
    return instance;
}

static void record_failure(EchMachine *m, uint32_t memory, EchId op, EchId buffer, EchBytes asked, EchFit fit)
{
    m->memories[memory].failed++;
    if (!m->out.fits)
        return;
    EchMemoryState *state = &m->memories[memory];
    m->out.fits = false;
    m->out.failed_memory = memory;
    m->out.failure = (EchFailure){
        .op = op, .buffer = buffer, .time = m->now, .asked = asked, .live = state->live, .reserved = state->reserved, .limit = m->limits[memory], .fit = fit};
    size_t n = 0;
    for (uint32_t l = 0; l < m->n_lives; l++) {
        if (m->buffers[m->lives[l].buffer].memory != memory)
            continue;
        for (uint32_t at = m->lives[l].first; at != NOWHERE; at = g_array_index(m->instances, Instance, at).next) {
            const Instance *instance = &g_array_index(m->instances, Instance, at);
            if (!instance->allocated)
                continue;
            EchHolder holder = {.buffer = m->lives[l].buffer, .bytes = instance->bytes, .address = instance->address};
            size_t place = n;
            while (place > 0 && m->out.holders[place - 1].bytes < holder.bytes)
                place--;
            if (place >= N_HOLDERS)
                continue;
            n = MIN(n + 1, (size_t)N_HOLDERS);
            for (size_t k = n - 1; k > place; k--)
                m->out.holders[k] = m->out.holders[k - 1];
            m->out.holders[place] = holder;
        }
    }
    m->out.failure.n_holders = n;
}

/* Tries to give life @life its bytes. */
static EchFit allocate(EchMachine *m, uint32_t life, uint64_t ordinal, EchId op)
{
    const EchBuffer *buffer = &m->buffers[m->lives[life].buffer];
    uint32_t memory = buffer->memory;
    EchMemoryState *state = &m->memories[memory];
    EchPlacement place = {.rounded = buffer->bytes, .reservation = -1};
    uint32_t id = NOWHERE;
    if (buffer->offset != ECH_OFFSET_NONE) {
        place.offset = place.address = buffer->offset;
        if (buffer->bytes > m->limits[memory] || buffer->offset > m->limits[memory] - buffer->bytes)
            record_failure(m, memory, op, m->lives[life].buffer, buffer->bytes, ECH_FIT_FULL);
    } else if (m->allocators[memory]) {
        id = m->next_id[memory];
        EchAllocRequest request = {.id = id, .bytes = buffer->bytes, .stream = buffer->queue == ECH_NONE ? 0 : buffer->queue, .upper_end = buffer->upper_end};
        EchFit fit = ech_allocator_alloc(m->allocators[memory], &request, &place);
        if (fit != ECH_FIT_OK)
            return fit;
        m->next_id[memory]++;
    } else if (buffer->bytes > m->limits[memory] || state->live > m->limits[memory] - buffer->bytes) {
        return ECH_FIT_FULL;
    } else {
        place.address = place.offset = ECH_OFFSET_NONE;
    }
    Instance *instance = find_instance(m, life, ordinal, true);
    instance->allocated = true;
    instance->alloc_id = id;
    instance->bytes = place.rounded;
    instance->address = place.address;
    state->live = ech_bytes_add(state->live, place.rounded);
    state->allocs++;
    if (m->placed->len < m->options->max_spans) {
        instance->placed = m->placed->len;
        EchPlaced placed = {.op = op,
                            .buffer = m->lives[life].buffer,
                            .iteration = ordinal,
                            .begin = m->now,
                            .end = -1,
                            .born = state->allocs + state->frees,
                            .died = UINT64_MAX,
                            .place = place};
        g_array_append_val(m->placed, placed);
    }
    note_memory(m, memory);
    return ECH_FIT_OK;
}

static void release(EchMachine *m, uint32_t life, uint64_t ordinal)
{
    uint32_t memory = m->buffers[m->lives[life].buffer].memory;
    EchMemoryState *state = &m->memories[memory];
    uint32_t *link = &m->lives[life].first;
    while (*link != NOWHERE && g_array_index(m->instances, Instance, *link).ordinal != ordinal)
        link = &g_array_index(m->instances, Instance, *link).next;
    if (*link == NOWHERE)
        return;
    uint32_t at = *link;
    Instance *instance = &g_array_index(m->instances, Instance, at);
    *link = instance->next;
    if (instance->allocated) {
        if (instance->alloc_id != NOWHERE)
            ech_allocator_release(m->allocators[memory], instance->alloc_id);
        state->live -= MIN(state->live, instance->bytes);
        state->frees++;
        if (instance->placed != NOWHERE) {
            EchPlaced *placed = &g_array_index(m->placed, EchPlaced, instance->placed);
            placed->end = m->now;
            placed->died = state->allocs + state->frees;
        }
        note_memory(m, memory);
    }
    instance->next = m->free_instance;
    m->free_instance = at;
    wake_list(m, &m->space_waiters[memory]);
}

static void end_uses(EchMachine *m, uint32_t op, uint64_t ordinal)
{
    for (uint32_t u = m->first_life[op]; u < m->first_life[op + 1]; u++) {
        const LifeUse *use = &m->life_uses[u];
        uint64_t of = instance_used(m, use, ordinal);
        Instance *instance = find_instance(m, use->life, of, true);
        instance->ended++;
        if (instance->freed && instance->ended >= instance->users) {
            m->pending_frees[m->buffers[m->lives[use->life].buffer].memory]--;
            release(m, use->life, of);
        }
    }
}

static void run_free(EchMachine *m, uint32_t op, uint64_t ordinal)
{
    uint32_t l = m->op_life[op];
    if (l == NOWHERE)
        return;
    const Life *life = &m->lives[l];
    Position before = {.allocs = 1 + (life->alloc_op == NOWHERE ? 0 : ordinal), .uses = life->users};
    if (life->turns_over)
        before = count_before(m, m->op_position[op], ordinal);
    uint64_t of = before.allocs - 1;
    Instance *instance = find_instance(m, l, of, false);
    if (!instance)
        return;
    instance->users = before.uses - instance->used_before;
    if (instance->ended >= instance->users) {
        release(m, l, of);
        return;
    }
    instance->freed = true;
    m->pending_frees[m->buffers[life->buffer].memory]++;
}

/* Whether bytes of @memory may become free without @queue going on. */
static bool space_may_come(const EchMachine *m, uint32_t queue, uint32_t memory)
{
    if (m->pending_frees[memory] > 0)
        return true;
    for (uint32_t q = 0; q < m->n_queues; q++) {
        const Queue *other = &m->queues[q];
        if (q == queue || other->state == STATE_FINISHED || (other->state == STATE_BLOCKED && other->reason == ECH_WAIT_SPACE))
            continue;
        if (m->last_free[(size_t)q * m->n_memories + memory] > (other->depth > 0 ? 0 : other->at))
            return true;
    }
    return false;
}

/* Running an op */

static void link_begin(EchMachine *m, const EchPrice *price, const EchOp *op)
{
    LinkState *link = &m->links[price->link];
    if (link->active[0] + link->active[1] == 0)
        link->since_any = m->now;
    for (int d = 0; d < 2; d++)
        if ((price->duplex || d == price->forward) && link->active[d]++ == 0)
            link->since[d] = m->now;
    int64_t *sums = link_sums(m, price->link);
    sums[ECH_SUM_LINK_TRANSFERS]++;
    if (op->kind == ECH_OP_COPY) {
        add_sum(&sums[price->forward ? ECH_SUM_LINK_FORWARD : ECH_SUM_LINK_BACKWARD], (int64_t)MIN(op->bytes, (uint64_t)INT64_MAX));
        return;
    }
    /* The amount is the share of all ports; the bytes went through those it used. */
    double used = (double)price->ports / (double)MAX(m->device->links[price->link].ports, 1u);
    const EchFluidPart *parts = m->prices->parts + price->first_part;
    for (uint32_t k = 0; k < price->n_parts; k++) {
        if (m->prices->owners[parts[k].resource] != price->link)
            continue;
        if (m->prices->kinds[parts[k].resource] == ECH_RESOURCE_LINK_TO)
            add_sum(&sums[ECH_SUM_LINK_FORWARD], (int64_t)(parts[k].amount * used));
        else if (m->prices->kinds[parts[k].resource] == ECH_RESOURCE_LINK_FROM)
            add_sum(&sums[ECH_SUM_LINK_BACKWARD], (int64_t)(parts[k].amount * used));
    }
}

static void link_end(EchMachine *m, const EchPrice *price)
{
    LinkState *link = &m->links[price->link];
    int64_t *sums = link_sums(m, price->link);
    for (int d = 0; d < 2; d++)
        if ((price->duplex || d == price->forward) && --link->active[d] == 0)
            add_sum(&sums[d ? ECH_SUM_LINK_BUSY_FORWARD : ECH_SUM_LINK_BUSY_BACKWARD], m->now - link->since[d]);
    if (link->active[0] + link->active[1] == 0)
        add_sum(&sums[ECH_SUM_LINK_BUSY], m->now - link->since_any);
    /* The engine goes to who waits longest. */
    int d = price->forward;
    uint32_t queue = link->first_waiter[d];
    if (queue != NOWHERE) {
        link->first_waiter[d] = m->queues[queue].next_waiter;
        if (link->first_waiter[d] == NOWHERE)
            link->last_waiter[d] = NOWHERE;
        m->queues[queue].next_waiter = NOWHERE;
        m->queues[queue].state = STATE_ENGINE;
        schedule(m, queue);
    }
}

/* Collectives bring their own ordering; only copies have engines. */
static bool has_engine(const EchOp *op, const EchPrice *price)
{
    return price->link != ECH_NONE && op->kind == ECH_OP_COPY;
}

/* Copies between memories are asked for ahead: set-up, or the latency of on-chip memory, overlaps the bytes of those before on its queue. What a size curve has
 * beyond the bytes does not: it was measured of copies one after the other. */
static bool sets_up_ahead(const EchOp *op, const EchPrice *price)
{
    return op->kind == ECH_OP_COPY && op->memory_from != op->memory_to && !price->on_engine;
}

static double own_time(const EchPrice *price)
{
    return (double)(price->alone - price->fixed);
}

/* Demand beyond capacity, integrated over time: which of its resources an op had to share most. */
static void press(EchMachine *m, uint32_t r)
{
    if (m->load[r] > 1)
        m->pressed[r] += (m->load[r] - 1) * (double)(m->now - m->pressed_at[r]);
    m->pressed_at[r] = m->now;
}

static uint32_t most_pressed(EchMachine *m, const Queue *q, const EchPrice *price)
{
    double worst = 0;
    uint32_t resource = ECH_NONE;
    for (uint32_t k = 0; k < price->n_parts; k++) {
        uint32_t r = m->prices->parts[price->first_part + k].resource;
        press(m, r);
        if (m->pressed[r] - q->pressed[k] > worst) {
            worst = m->pressed[r] - q->pressed[k];
            resource = r;
        }
    }
    return resource;
}

static void change_load(EchMachine *m, const EchPrice *price, bool begin)
{
    double own = own_time(price);
    const EchFluidPart *parts = m->prices->parts + price->first_part;
    if (!(own > 0))
        return;
    for (uint32_t k = 0; k < price->n_parts; k++) {
        uint32_t r = parts[k].resource;
        press(m, r);
        double load = parts[k].amount * (double)ECH_PS_PER_S / own / m->prices->resources[r].capacity;
        if (begin) {
            m->load[r] += load;
            m->n_load[r]++;
        } else {
            m->load[r] -= load;
            if (--m->n_load[r] == 0)
                m->load[r] = 0;
        }
    }
}

static void begin_work(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchPrice *price = &m->prices->prices[id];
    q->state = STATE_RUNNING;
    q->work_start = m->now;
    if (price->link != ECH_NONE)
        link_begin(m, price, &m->ops[id]);
    change_load(m, price, true);
    for (uint32_t k = 0; k < price->n_parts; k++)
        q->pressed[k] = m->pressed[m->prices->parts[price->first_part + k].resource];
    m->class->start(m->engine, queue, m->prices->parts + price->first_part, price->n_parts, price->minimum);
}

static void end_op(EchMachine *m, uint32_t queue);
static void lift_barrier(EchMachine *m);

/* After set-up: the link's engine, then the work. */
static void after_fixed(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchPrice *price = &m->prices->prices[id];
    if (price->n_parts == 0 && price->minimum == 0 && !has_engine(&m->ops[id], price)) {
        q->work_start = m->now;
        end_op(m, queue);
        return;
    }
    if (has_engine(&m->ops[id], price)) {
        LinkState *link = &m->links[price->link];
        int d = price->forward ? 1 : 0;
        if (link->active[d] >= link->limit[d] || link->first_waiter[d] != NOWHERE) {
            q->state = STATE_BLOCKED;
            q->reason = ECH_WAIT_LINK;
            q->next_waiter = NOWHERE;
            q->ready = m->now;
            if (link->last_waiter[d] == NOWHERE)
                link->first_waiter[d] = queue;
            else
                m->queues[link->last_waiter[d]].next_waiter = queue;
            link->last_waiter[d] = queue;
            return;
        }
    }
    begin_work(m, queue);
}

/* The host has asked for the op at the queue's head. */
static void end_gap(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    q->waits[ECH_WAIT_HOST] = m->prices->gaps[q->entries[q->at].id];
    q->ready = m->now;
    q->gap_over = true;
    q->state = STATE_IDLE;
    schedule(m, queue);
}

static void start_op(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchPrice *price = &m->prices->prices[id];
    q->start = m->now;
    EchTime fixed = ech_time_add(price->fixed, q->driver);
    m->out.driver = ech_time_add(m->out.driver, q->driver);
    q->driver = 0;
    q->drains = false;
    if (sets_up_ahead(&m->ops[id], price)) {
        /* Over a link each set-up follows the one before: n copies of b bytes take n max(set-up, b / rate). The latency of a memory passes for all that are
         * asked for at once. */
        EchTime begin = has_engine(&m->ops[id], price) ? MAX(q->ready, MIN(q->issued, m->now)) : MIN(q->ready, m->now);
        q->issued = ech_time_add(begin, fixed);
        fixed = MAX(q->issued - m->now, 0);
    }
    if (fixed > 0) {
        q->state = STATE_FIXED;
        m->class->start(m->engine, queue, NULL, 0, fixed);
        return;
    }
    after_fixed(m, queue);
}

static void emit_span(EchMachine *m, uint32_t queue, uint32_t resource)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    int64_t *sums = queue_sums(m, queue);
    bool waited = false;
    for (int w = 0; w < ECH_N_WAITS; w++) {
        if (q->waits[w] <= 0)
            continue;
        waited = true;
        add_sum(&m->sums[w], q->waits[w]);
        add_sum(&sums[ECH_SUM_QUEUE_WAITS + w], q->waits[w]);
    }
    add_sum(&sums[ECH_SUM_QUEUE_BUSY], m->now - q->start);
    sums[ECH_SUM_QUEUE_OPS]++;
    m->out.executed++;
    m->out.ops++;
    bool instant = m->now == q->start && m->prices->prices[id].source == ECH_PRICE_FREE;
    if (instant && !waited)
        return;
    if (m->out.spans >= m->options->max_spans) {
        m->out.spans_left_out++;
        return;
    }
    m->out.spans++;
    EchSpan span = {.op = id,
                    .queue = m->ops[id].queue,
                    .iteration = q->ordinal,
                    .start = q->start + m->options->start,
                    .end = m->now + m->options->start,
                    .resource = resource};
    memcpy(span.waits, q->waits, sizeof span.waits);
    if (m->sink)
        m->sink(&span, m->sink_user);
}

static void end_op(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    uint32_t id = q->entries[q->at].id;
    const EchOp *op = &m->ops[id];
    const EchPrice *price = &m->prices->prices[id];
    uint32_t resource = price->bound;
    if (q->state == STATE_RUNNING) {
        uint32_t worst = most_pressed(m, q, price);
        change_load(m, price, false);
        /* Longer than alone: charged to the resource under most pressure. A picosecond either way is rounding. */
        EchTime stretch = m->now - q->work_start - (price->alone - price->fixed);
        if (stretch > 1 && worst != ECH_NONE) {
            resource = worst;
            EchWait reason = m->prices->kinds[worst] == ECH_RESOURCE_PORT   ? ECH_WAIT_MEMORY_PORT
                             : m->prices->kinds[worst] == ECH_RESOURCE_UNIT ? ECH_WAIT_COMPUTE
                                                                            : ECH_WAIT_LINK;
            q->waits[reason] += stretch;
        }
        if (price->link != ECH_NONE)
            link_end(m, price);
    }
    for (uint32_t t = m->first_traffic[id]; t < m->first_traffic[id + 1]; t++) {
        int64_t *sums = memory_sums(m, m->traffic[t].memory);
        add_sum(&sums[ECH_SUM_MEMORY_READ], (int64_t)MIN(m->traffic[t].read, (uint64_t)INT64_MAX));
        add_sum(&sums[ECH_SUM_MEMORY_WRITTEN], (int64_t)MIN(m->traffic[t].written, (uint64_t)INT64_MAX));
    }
    for (uint32_t k = price->first_part; k < price->first_part + price->n_parts; k++)
        m->amounts[m->prices->parts[k].resource] += m->prices->parts[k].amount;
    for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++)
        if (m->kind_unit[m->work[w].unit] != NOWHERE)
            m->amounts[m->prices->n_resources + m->kind_unit[m->work[w].unit]] += (double)m->work[w].count;
    emit_span(m, queue, resource);
    m->done[id] = q->ordinal + 1;
    m->last_end[id] = m->now;
    if (op->kind == ECH_OP_FREE)
        run_free(m, id, q->ordinal);
    else
        end_uses(m, id, q->ordinal);
    if (m->op_waiters[id] != NOWHERE)
        wake_list(m, &m->op_waiters[id]);
    if (id == m->barrier)
        lift_barrier(m);
    q->at++;
    q->has_head = false;
    q->state = STATE_IDLE;
    schedule(m, queue);
    if (m->progress && (m->out.executed & 1023) == 0)
        __atomic_store_n(m->progress, m->out.ops, __ATOMIC_RELAXED);
    if (m->out.executed >= m->options->max_ops && m->options->max_ops > 0) {
        m->out.too_many = true;
        m->stop = true;
    }
}

/* The innermost counter of the ordinal of an op in @loop: which of its loop's iterations this is. */
static bool need_met(EchMachine *m, const Queue *q, const Need *need, uint32_t op)
{
    uint64_t target = q->ordinal / need->div;
    if (need->distance > 0) {
        uint32_t loop = m->op_loop[op];
        uint64_t iteration = loop == NOWHERE || q->depth == 0 ? 0 : q->iter[q->depth - 1];
        if (iteration < need->distance)
            return true;
        target -= need->distance;
    }
    return m->done[need->op] > target;
}

static bool needs_met(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    for (uint32_t n = m->first_need[op]; n < m->first_need[op + 1]; n++) {
        if (need_met(m, q, &m->needs[n], op))
            continue;
        wait_on(m, queue, &m->op_waiters[m->needs[n].op], ECH_WAIT_DEPENDENCY);
        return false;
    }
    return true;
}

static void count_waits(EchMachine *m, Queue *q, uint32_t op)
{
    memset(q->waits, 0, sizeof q->waits);
    q->ready = m->now;
    q->waits[ECH_WAIT_DEPENDENCY] = m->now - q->head;
    EchTime released = -1;
    for (uint32_t n = m->first_need[op]; n < m->first_need[op + 1]; n++)
        if (m->needs[n].other_queue && m->done[m->needs[n].op] > 0)
            released = MAX(released, m->last_end[m->needs[n].op]);
    if (m->now == q->head) {
        if (released >= 0 && released < m->now)
            q->waits[ECH_WAIT_QUEUE] = m->now - released;
        /* For submitting ahead: everything this op needs was there since then. */
        q->ready = MAX(released, 0);
    }
}

/* Loops */

static void set_ordinal(EchMachine *m, Queue *q)
{
    uint64_t ordinal = 0;
    for (uint32_t d = 0; d < q->depth; d++)
        ordinal = ordinal * m->loops[q->loop[d]].trips + q->iter[d];
    q->ordinal = ordinal;
}

static bool loop_over(const EchMachine *m, uint32_t l, uint64_t ordinal)
{
    const Loop *loop = &m->loops[l];
    if (loop->trips == 0)
        return true;
    for (uint32_t p = 0; p < loop->n_participants; p++)
        if (m->arrived[loop->first_participant + p] <= ordinal)
            return false;
    return true;
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
    uint32_t depth = m->loops[l].depth;
#define WORD(value)                                                                                                                                            \
    do {                                                                                                                                                       \
        uint64_t word = (uint64_t)(value);                                                                                                                     \
        g_array_append_val(mark->words, word);                                                                                                                 \
    } while (0)
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
        if (q->state == STATE_FINISHED || (q->state == STATE_BLOCKED && !(q->depth > depth && q->loop[depth] == l)))
            continue;
        TIME(m->now - q->head);
        TIME(MIN(m->now - q->issued, m->longest_setup));
        if ((q->state == STATE_BLOCKED && q->reason == ECH_WAIT_LINK) || q->state == STATE_ENGINE)
            TIME(m->now - q->ready);
        if (q->state == STATE_RUNNING || q->state == STATE_FIXED || q->state == STATE_GAP) {
            double share = m->class->remaining(m->engine, i);
            g_array_append_val(mark->shares, share);
            TIME(m->now - q->start);
        }
    }
    for (uint32_t i = 0; i < m->n_memories; i++) {
        const EchMemoryState *state = &m->memories[i];
        WORD(state->live);
        WORD(state->reserved);
        WORD(m->pending_frees[i]);
        if (m->allocators[i]) {
            WORD(state->alloc.largest_free);
            WORD(state->alloc.segments_allocated - state->alloc.segments_freed);
        }
    }
    /* Live instances of the buffers the loop makes, where they lie. */
    for (uint32_t i = 0; i < m->n_lives; i++) {
        const Life *life = &m->lives[i];
        if (life->first == NOWHERE || rate_in(m, life, l).allocs == 0)
            continue;
        for (uint32_t at = life->first; at != NOWHERE; at = g_array_index(m->instances, Instance, at).next) {
            const Instance *instance = &g_array_index(m->instances, Instance, at);
            WORD(i);
            WORD(instance->address);
            WORD(instance->ended);
        }
    }
#undef WORD
#undef TIME
}

static bool same_mark(const Mark *a, const Mark *b)
{
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

static bool inside_loop(const EchMachine *m, uint32_t queue, uint32_t l)
{
    const Queue *q = &m->queues[queue];
    return q->depth > m->loops[l].depth && q->loop[m->loops[l].depth] == l;
}

/* Adds @n periods from mark @from to now to everything that counts, and moves every cursor inside loop @l on by as many iterations. */
static void skip_iterations(EchMachine *m, uint32_t l, const Mark *from, const Mark *now, uint64_t periods)
{
    const Loop *loop = &m->loops[l];
    uint64_t step = now->iteration - from->iteration, iterations = periods * step;
    double period = (double)(now->ps - from->ps) + (now->fraction - from->fraction);
    EchSkip skip = {.loop = loop->op, .first = now->iteration, .count = iterations, .time = m->now, .period = (EchTime)llrint(period / (double)step)};
    g_array_append_val(m->skips, skip);
    /* Whole and fractional picoseconds apart, so that nothing is lost. */
    EchTime whole = (now->ps - from->ps) * (EchTime)periods;
    double fraction = (now->fraction - from->fraction) * (double)periods + m->base_fraction;
    double carry = floor(fraction);
    EchTime shift = whole + (EchTime)carry;
    m->base = ech_time_add(m->base, shift);
    m->base_fraction = fraction - carry;
    EchTime before = m->now;
    m->now = m->base + m->engine_now;
    shift = m->now - before;
    for (size_t i = 0; i < m->n_sums; i++) {
        int64_t delta;
        if (__builtin_mul_overflow(m->sums[i] - from->sums[i], (int64_t)periods, &delta))
            delta = INT64_MAX;
        add_sum(&m->sums[i], delta);
    }
    for (size_t i = 0; i < m->n_amounts; i++)
        m->amounts[i] += (m->amounts[i] - from->amounts[i]) * (double)periods;
    m->out.ops += (now->ops - from->ops) * periods;
    /* Times that are looked at later move along. */
    for (uint32_t r = 0; r < m->prices->n_resources; r++)
        m->pressed_at[r] += shift;
    for (uint32_t i = 0; i < m->n_queues; i++) {
        Queue *q = &m->queues[i];
        q->head += shift;
        q->ready += shift;
        q->start += shift;
        q->work_start += shift;
        q->issued += shift;
        if (q->depth > loop->depth && q->loop[loop->depth] == l) {
            q->iter[loop->depth] += iterations;
            set_ordinal(m, q);
        }
    }
    for (size_t i = 0; i < m->device->n_links; i++) {
        for (int d = 0; d < 2; d++)
            m->links[i].since[d] += shift;
        m->links[i].since_any += shift;
    }
    for (uint32_t op = loop->op + 1; op < loop->end; op++) {
        if (!inside_loop(m, queue_of(m, op), l))
            continue;
        m->done[op] += iterations * trips_between(m, m->op_loop[op], l);
        m->last_end[op] += shift;
    }
    for (uint32_t i = 0; i < m->n_loops; i++) {
        const Loop *inner = &m->loops[i];
        if (inner->op <= loop->op || inner->op >= loop->end)
            continue;
        uint64_t more = iterations * trips_between(m, inner->parent, l);
        if (inside_loop(m, queue_of(m, inner->op), l))
            m->loops[i].started += more;
        for (uint32_t p = 0; p < inner->n_participants; p++)
            if (inside_loop(m, m->participant[inner->first_participant + p], l))
                m->arrived[inner->first_participant + p] += more;
    }
    for (uint32_t i = 0; i < m->n_lives; i++) {
        const Life *life = &m->lives[i];
        Rate rate = rate_in(m, life, l);
        uint32_t maker = life->turns_over ? life->free_op : life->alloc_op;
        if (rate.allocs == 0 || !inside_loop(m, queue_of(m, maker), l))
            continue;
        /* Nothing grows in a steady state: as many are freed. */
        EchMemoryState *state = &m->memories[m->buffers[life->buffer].memory];
        state->allocs += iterations * rate.allocs;
        state->frees += iterations * rate.allocs;
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
            if (rate_in(m, &m->lives[use->life], l).allocs > 0)
                continue;
            Instance *instance = find_instance(m, use->life, instance_used(m, use, m->done[op] > 0 ? m->done[op] - 1 : 0), false);
            if (instance)
                instance->ended += iterations * trips_between(m, m->op_loop[op], l);
        }
    }
    /* Another period from here would need marks of its own. */
    g_array_set_size(m->loops[l].marks, 0);
}

/* At the begin of an iteration of loop @l on its own queue: if everything is as it was some iterations ago, the rest repeats. */
static void look_for_steady(EchMachine *m, uint32_t queue, uint32_t l)
{
    Queue *q = &m->queues[queue];
    uint64_t iteration = q->iter[q->depth - 1], trips = m->loops[l].trips;
    if (!m->options->skip_steady || iteration < 1 || trips < 8)
        return;
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
        if (!same_mark(old, &mark))
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

static bool begin_loop(EchMachine *m, uint32_t queue)
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
    q->iter[q->depth++] = 0;
    set_ordinal(m, q);
    q->at++;
    return true;
}

static void end_iteration(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    const Entry *entry = &q->entries[q->at];
    const Loop *loop = &m->loops[entry->id];
    if (++q->iter[q->depth - 1] < loop->trips) {
        q->ordinal++;
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

/*
 * Driver calls of allocators. The trace's order is the order in which the host asked: a call that waits for the device ends when everything before it has, and
 * the host asks for nothing behind it until then. Loops repeat their ops, so in traces with loops a call takes its time on its own queue alone.
 */
static void charge_driver(EchMachine *m, Queue *q, uint32_t memory, const EchDriverCalls *before)
{
    enum { PAGE = 2 << 20 };
    EchDriverCalls now;
    ech_allocator_driver(m->allocators[memory], &now);
    double ps = (double)(now.takes - before->takes) * (double)m->driver_malloc + (double)(now.gives - before->gives) * (double)m->driver_free +
                (double)(now.mapped - before->mapped) / PAGE * (double)m->driver_map +
                (double)(now.unmapped - before->unmapped) / PAGE * (double)m->driver_unmap;
    q->driver = ech_time_add(q->driver, ps < 1e18 ? (EchTime)ps : ECH_TIME_MAX);
    q->drains = q->drains || now.gives > before->gives || now.unmapped > before->unmapped;
}

/* Whether all ops before the barrier have ended. */
static bool barrier_reached(const EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_queues; i++) {
        const Queue *q = &m->queues[i];
        if (i != m->barrier_queue && q->at < q->n_entries && q->entries[q->at].kind == ENTRY_OP && q->entries[q->at].id < m->barrier)
            return false;
    }
    return true;
}

static void lift_barrier(EchMachine *m)
{
    m->barrier = NOWHERE;
    wake_list(m, &m->barrier_waiters);
}

/* The op at the head of @queue calls the driver and must wait for the device first. False: it waits. */
static bool pass_barrier(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    if (!q->drains || m->n_loops > 0)
        return true;
    if (m->barrier != NOWHERE && m->barrier_queue != queue) /* one at a time */
        return true;
    m->barrier = op;
    m->barrier_queue = queue;
    if (q->stall_since < 0)
        q->stall_since = m->now;
    if (!barrier_reached(m)) {
        q->state = STATE_BLOCKED;
        q->reason = ECH_WAIT_ALLOCATOR;
        q->next_waiter = NOWHERE;
        return false;
    }
    return true;
}

/* Lets the barrier's op go once all before it has ended, or (@stuck) where nothing else goes on. */
static bool try_barrier(EchMachine *m, bool stuck)
{
    Queue *q = &m->queues[m->barrier_queue];
    if (q->state != STATE_BLOCKED || q->reason != ECH_WAIT_ALLOCATOR || (!stuck && !barrier_reached(m)))
        return false;
    q->drains = false;
    q->state = STATE_IDLE;
    schedule(m, m->barrier_queue);
    return true;
}

/* Entries without a price. Returns false when the queue must wait. */
static bool pass_alloc(EchMachine *m, uint32_t queue, uint32_t op)
{
    Queue *q = &m->queues[queue];
    const EchBuffer *buffer = &m->buffers[m->ops[op].target];
    uint32_t life = m->op_life[op];
    Position before = {.allocs = q->ordinal};
    if (m->lives[life].turns_over)
        before = count_before(m, m->op_position[op], q->ordinal);
    const Instance *there = find_instance(m, life, before.allocs, false);
    if (there && there->allocated)
        return true;
    bool driven = m->driven && m->allocators[buffer->memory];
    EchDriverCalls calls = {0};
    if (driven)
        ech_allocator_driver(m->allocators[buffer->memory], &calls);
    EchFit fit = allocate(m, life, before.allocs, op);
    if (driven)
        charge_driver(m, q, buffer->memory, &calls);
    if (fit == ECH_FIT_OK) {
        find_instance(m, life, before.allocs, false)->used_before = before.uses;
        return true;
    }
    if (space_may_come(m, queue, buffer->memory)) {
        wait_on(m, queue, &m->space_waiters[buffer->memory], ECH_WAIT_SPACE);
        return false;
    }
    record_failure(m, buffer->memory, op, m->ops[op].target, buffer->bytes, fit);
    if (!m->options->keep_going) {
        m->stop = true;
        return false;
    }
    /* As if it had fitted: counted, without a place. */
    Instance *instance = find_instance(m, life, before.allocs, true);
    instance->freed = false;
    instance->used_before = before.uses;
    return true;
}

static void advance(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    if (q->state == STATE_ENGINE) {
        q->waits[ECH_WAIT_LINK] += m->now - q->ready;
        q->start = m->now;
        begin_work(m, queue);
        return;
    }
    while (!m->stop && q->state == STATE_IDLE) {
        if (q->at >= q->n_entries) {
            q->state = STATE_FINISHED;
            return;
        }
        if (!q->has_head) {
            q->has_head = true;
            q->head = m->now;
            memset(q->waits, 0, sizeof q->waits);
        }
        const Entry *entry = &q->entries[q->at];
        switch ((EntryKind)entry->kind) {
        case ENTRY_BEGIN:
            if (!begin_loop(m, queue))
                return;
            break;
        case ENTRY_END:
            q->has_head = false;
            end_iteration(m, queue);
            break;
        case ENTRY_LOOP_START: {
            Loop *loop = &m->loops[entry->id];
            if (!needs_met(m, queue, loop->op))
                return;
            loop->started = q->ordinal + 1;
            q->at++;
            /* Queues at the loop's begin wait on its op. */
            wake_list(m, &m->op_waiters[loop->op]);
            break;
        }
        case ENTRY_LOOP_FINISH: {
            uint32_t op = m->loops[entry->id].op;
            if (!loop_over(m, entry->id, q->ordinal)) {
                m->loop_waiter[entry->id] = queue;
                q->state = STATE_BLOCKED;
                q->reason = ECH_WAIT_DEPENDENCY;
                return;
            }
            if (m->loops[entry->id].marks)
                g_array_set_size(m->loops[entry->id].marks, 0);
            m->done[op] = q->ordinal + 1;
            m->last_end[op] = m->now;
            m->out.ops++;
            m->out.executed++;
            q->at++;
            q->has_head = false;
            wake_list(m, &m->op_waiters[op]);
            break;
        }
        case ENTRY_OP: {
            uint32_t op = entry->id;
            if (q->space_since < 0 && !q->gap_over) {
                if (!needs_met(m, queue, op))
                    return;
                count_waits(m, q, op);
                if (m->prices->gaps && m->prices->gaps[op] > 0) {
                    q->state = STATE_GAP;
                    m->class->start(m->engine, queue, NULL, 0, m->prices->gaps[op]);
                    return;
                }
            }
            if (op > m->barrier && queue != m->barrier_queue) {
                q->gap_over = true; /* what it depends on has been seen to */
                if (q->stall_since < 0)
                    q->stall_since = m->now;
                wait_on(m, queue, &m->barrier_waiters, ECH_WAIT_ALLOCATOR);
                return;
            }
            q->gap_over = false;
            if (m->ops[op].kind == ECH_OP_ALLOC && m->barrier != op) {
                EchTime since = q->space_since < 0 ? m->now : q->space_since;
                q->space_since = since;
                if (!pass_alloc(m, queue, op))
                    return;
                q->waits[ECH_WAIT_SPACE] = m->now - since;
                q->space_since = -1;
            } else if (m->driven && m->ops[op].kind == ECH_OP_FREE && m->barrier != op && m->free_waits[m->buffers[m->ops[op].target].memory]) {
                q->driver = m->driver_free;
                q->drains = true;
            }
            if (q->drains && !pass_barrier(m, queue, op)) {
                q->gap_over = true;
                return;
            }
            if (q->stall_since >= 0) {
                q->waits[ECH_WAIT_ALLOCATOR] += m->now - q->stall_since;
                q->stall_since = -1;
            }
            q->drains = false;
            start_op(m, queue);
            break;
        }
        }
    }
}

static void drain(EchMachine *m)
{
    while (m->todo_n > 0 && !m->stop) {
        uint32_t queue = m->todo[m->todo_first];
        m->todo_first = (m->todo_first + 1) % m->n_queues;
        m->todo_n--;
        m->queues[queue].in_todo = false;
        advance(m, queue);
    }
}

static void begin_residents(EchMachine *m)
{
    for (uint32_t l = 0; l < m->n_lives && !m->stop; l++) {
        if (m->lives[l].alloc_op != NOWHERE)
            continue;
        const EchBuffer *buffer = &m->buffers[m->lives[l].buffer];
        EchFit fit = allocate(m, l, 0, ECH_NONE);
        if (fit == ECH_FIT_OK)
            continue;
        record_failure(m, buffer->memory, ECH_NONE, m->lives[l].buffer, buffer->bytes, fit);
        if (!m->options->keep_going)
            m->stop = true;
    }
}

/* A queue that waits for space which nothing will free any more: the allocation fails. */
static bool fail_stuck(EchMachine *m)
{
    for (uint32_t i = 0; i < m->n_queues; i++) {
        Queue *q = &m->queues[i];
        if (q->state != STATE_BLOCKED || q->reason != ECH_WAIT_SPACE)
            continue;
        uint32_t op = q->entries[q->at].id;
        const EchBuffer *buffer = &m->buffers[m->ops[op].target];
        EchMemoryState *state = &m->memories[buffer->memory];
        bool room = state->live <= m->limits[buffer->memory] && buffer->bytes <= m->limits[buffer->memory] - state->live;
        record_failure(m, buffer->memory, op, m->ops[op].target, buffer->bytes, room ? ECH_FIT_FRAGMENTED : ECH_FIT_FULL);
        if (!m->options->keep_going) {
            m->stop = true;
            return true;
        }
        uint32_t *link = &m->space_waiters[buffer->memory];
        while (*link != i)
            link = &m->queues[*link].next_waiter;
        *link = q->next_waiter;
        q->next_waiter = NOWHERE;
        q->state = STATE_IDLE;
        q->waits[ECH_WAIT_SPACE] = m->now - q->space_since;
        q->space_since = -1;
        start_op(m, i);
        return true;
    }
    return false;
}

void ech_machine_drive(const EchFluidClass *class, void *engine, void *data)
{
    EchMachine *m = data;
    m->class = class;
    m->engine = engine;
    g_autofree uint32_t *tokens = g_new(uint32_t, m->n_queues);
    begin_residents(m);
    for (uint32_t q = 0; q < m->n_queues; q++)
        schedule(m, q);
    drain(m);
    while (!m->stop) {
        EchTime now;
        uint32_t n = class->next(engine, tokens, &now);
        if (n == 0) {
            if (!(m->barrier != NOWHERE && try_barrier(m, true)) && !fail_stuck(m))
                break;
            drain(m);
            continue;
        }
        m->out.events += n;
        if (now < 0 || now > ECH_TIME_MAX / 2 || m->base > ECH_TIME_MAX / 2 - now) {
            m->out.too_long = true;
            m->stop = true;
            break;
        }
        m->engine_now = now;
        m->now = m->base + now;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t queue = tokens[i];
            if (m->queues[queue].state == STATE_GAP)
                end_gap(m, queue);
            else if (m->queues[queue].state == STATE_FIXED)
                after_fixed(m, queue);
            else
                end_op(m, queue);
            if (m->stop)
                break;
        }
        drain(m);
        if (m->barrier != NOWHERE && try_barrier(m, false))
            drain(m);
    }
    if (m->stop && !m->out.too_many)
        m->out.completed = false;
    else
        m->out.completed = !m->out.too_many;
    for (uint32_t q = 0; q < m->n_queues && !m->stop; q++)
        if (m->queues[q].state != STATE_FINISHED && m->out.stuck == ECH_NONE) {
            const Entry *entry = &m->queues[q].entries[m->queues[q].at];
            m->out.stuck = entry->kind == ENTRY_OP ? entry->id : m->loops[entry->id].op;
        }
    m->out.makespan = m->now;
    for (guint i = 0; i < m->placed->len; i++) {
        EchPlaced *placed = &g_array_index(m->placed, EchPlaced, i);
        if (placed->end < 0)
            placed->end = m->now;
    }
}

void ech_machine_set_sink(EchMachine *m, EchSpanSink sink, void *user, uint64_t *progress)
{
    m->sink = sink;
    m->sink_user = user;
    m->progress = progress;
}

EchOutcome *ech_machine_outcome(EchMachine *m)
{
    return &m->out;
}

EchMemoryState *ech_machine_memories(EchMachine *m)
{
    return m->memories;
}

GArray *ech_machine_skips(EchMachine *m)
{
    return m->skips;
}

GArray *ech_machine_placed(EchMachine *m)
{
    return m->placed;
}

int64_t *ech_machine_sums(EchMachine *m, size_t *ret_n)
{
    *ret_n = m->n_sums;
    return m->sums;
}

double *ech_machine_amounts(EchMachine *m, size_t *ret_n)
{
    *ret_n = m->n_amounts;
    return m->amounts;
}

uint32_t ech_machine_max_live(const EchMachine *m)
{
    return m->n_queues;
}

uint64_t ech_machine_total(const EchMachine *m)
{
    uint64_t total = 0;
    for (size_t i = 0; i < m->n_ops; i++)
        total = ech_bytes_add(total, m->mult[i]);
    return total;
}

const char *ech_machine_allocator(const EchMachine *m, uint32_t memory)
{
    return m->allocators[memory] ? ech_allocator_name(m->allocators[memory]) : m->has_fixed[memory] ? "fixed" : "counted";
}

void ech_machine_bounds(const EchMachine *m, EchTime *ret_lower, EchTime *ret_serial)
{
    g_autofree double *queue = g_new0(double, m->n_queues), *resource = g_new0(double, m->prices->n_resources + 1);
    double serial = 0, lower = 0;
    for (size_t i = 0; i < m->n_ops; i++) {
        const EchPrice *price = &m->prices->prices[i];
        double times = (double)m->mult[i];
        double gap = m->prices->gaps ? (double)m->prices->gaps[i] : 0;
        serial += times * ((double)price->alone + gap);
        /* The set-up of copies may hide behind what ran before. */
        queue[queue_of(m, (uint32_t)i)] += times * ((sets_up_ahead(&m->ops[i], price) ? own_time(price) : (double)price->alone) + gap);
        for (uint32_t k = price->first_part; k < price->first_part + price->n_parts; k++)
            resource[m->prices->parts[k].resource] +=
                times * m->prices->parts[k].amount * (double)ECH_PS_PER_S / m->prices->resources[m->prices->parts[k].resource].capacity;
    }
    for (uint32_t q = 0; q < m->n_queues; q++)
        lower = MAX(lower, queue[q]);
    for (uint32_t r = 0; r < m->prices->n_resources; r++)
        lower = MAX(lower, resource[r]);
    /* A picosecond of rounding per op is in the prices alone. */
    *ret_lower = lower < 9e18 ? (EchTime)floor(lower) : ECH_TIME_MAX;
    *ret_serial = serial < 9e18 ? (EchTime)ceil(serial) : ECH_TIME_MAX;
}
