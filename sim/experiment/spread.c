#include "sim/experiment/spread.h"

#include "sim/base/hash.h"
#include "sim/pass/modules.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"

#include <string.h>

/* Whose a buffer is. */
enum { NOT_KNOWN = UINT32_MAX, OF_OPTIMIZER = UINT32_MAX - 1, OF_NONE = UINT32_MAX - 2 };

typedef struct {
    char *path;      /* "model.layers.7" */
    size_t *kernels; /* on each device */
    size_t place;    /* of its device among those there are; as it is */
    EchBytes given;  /* its parameters */
} Block;

static void block_clear(void *data)
{
    g_free(((Block *)data)->path);
    g_free(((Block *)data)->kernels);
}

/* Bytes that come, or go. */
typedef struct {
    uint32_t block; /* or OF_OPTIMIZER, OF_NONE */
    uint32_t place;
    int64_t change;
} Turn;

typedef struct {
    const EchTrace *trace;
    uint32_t *devices;
    size_t n;        /* of them */
    GArray *blocks;  /* Block, in the order in which they are called */
    uint32_t *of;    /* by buffer */
    uint32_t *at;    /* by memory: place of its device, or UINT32_MAX */
    EchBytes *given; /* by place: all parameters there */
    GArray *turns;   /* Turn, in the order of the program */
    size_t *order;   /* places in the order in which they run blocks, those without any between their neighbours */
    bool apart;      /* a block is on more than one device, or they take turns */
} Spread;

static size_t place_of(const Spread *s, uint32_t device)
{
    size_t place = 0;
    while (place < s->n && s->devices[place] != device)
        place++;
    return place;
}

/* The block that each stack is of, by string; its numbers begin with 1, 0: of none, UINT32_MAX: not asked. */
static uint32_t block_of_op(Spread *s, EchId op, char *const *patterns, GHashTable *index, uint32_t *of_stack)
{
    const EchSurvey survey = {.t = s->trace, .ops = ech_trace_ops(s->trace)};
    EchId stack = survey.ops[op].stack;
    if (stack >= ech_trace_n_strings(s->trace))
        return 0;
    if (of_stack[stack] != UINT32_MAX)
        return of_stack[stack];
    size_t n;
    const char *line = ech_modules_find(&survey, op, patterns, &n);
    of_stack[stack] = 0;
    if (!line)
        return 0;
    line += strlen(ECH_RANGE_MODULE);
    g_autofree char *path = g_strndup(line, strcspn(line, " \n"));
    guint known = GPOINTER_TO_UINT(g_hash_table_lookup(index, path));
    if (known == 0) {
        Block block = {.path = g_strdup(path), .kernels = g_new0(size_t, s->n + 1)};
        g_array_append_val(s->blocks, block);
        known = s->blocks->len;
        g_hash_table_insert(index, block.path, GUINT_TO_POINTER(known));
    }
    return of_stack[stack] = known;
}

/* Which blocks there are, where they run, and whose each buffer is: the first's that computes it; a parameter's, the first's that reads it. */
static void find_blocks(Spread *s, char *const *patterns)
{
    const EchTrace *trace = s->trace;
    const EchOp *ops = ech_trace_ops(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_text, g_str_equal);
    g_autofree uint32_t *of_stack = g_new(uint32_t, ech_trace_n_strings(trace) + 1);
    memset(of_stack, 0xff, (ech_trace_n_strings(trace) + 1) * sizeof *of_stack);
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++)
        s->of[b] = NOT_KNOWN;
    for (EchId i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ops[i];
        if (op->kind != ECH_OP_KERNEL || op->queue == ECH_NONE || ech_trace_queues(trace)[op->queue].kind == ECH_QUEUE_HOST)
            continue;
        uint32_t known = block_of_op(s, i, patterns, index, of_stack), whose = known > 0 ? known - 1 : OF_NONE;
        size_t place = place_of(s, ech_trace_queues(trace)[op->queue].device);
        if (known > 0) {
            g_array_index(s->blocks, Block, whose).kernels[place]++;
        } else if (op->stack < ech_trace_n_strings(trace) && ech_stack_is_optimizer(ech_trace_string(trace, op->stack))) {
            whose = OF_OPTIMIZER;
        }
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            EchId root = ech_buffer_root(buffers, use->buffer, NULL);
            bool given = buffers[root].role == ECH_ROLE_PARAMETER;
            if (s->of[root] != NOT_KNOWN || (given ? whose == OF_OPTIMIZER || whose == OF_NONE : use->access == ECH_READ))
                continue;
            s->of[root] = whose;
            if (given)
                g_array_index(s->blocks, Block, whose).given += buffers[root].bytes;
        }
    }
}

/* Each block is where its kernels are, but for a few that the capture of backward passes on several devices at once may tell of another's. */
static void place_blocks(Spread *s)
{
    enum { FEW = 20 }; /* one part in so many */
    for (guint b = 0; b < s->blocks->len; b++) {
        Block *block = &g_array_index(s->blocks, Block, b);
        size_t all = 0;
        for (size_t k = 0; k < s->n; k++) {
            all += block->kernels[k];
            block->place = block->kernels[k] > block->kernels[block->place] ? k : block->place;
        }
        s->apart |= all - block->kernels[block->place] > all / FEW;
    }
}

/* Places in the order of their blocks. False where a device has blocks before and behind another's. */
static bool find_order(Spread *s)
{
    g_autofree bool *seen = g_new0(bool, s->n);
    size_t n = 0, last = SIZE_MAX, with_blocks = 0;
    for (guint b = 0; b < s->blocks->len; b++) {
        size_t place = g_array_index(s->blocks, Block, b).place;
        if (place == last)
            continue;
        if (place >= s->n || seen[place])
            return false;
        seen[place] = true;
        with_blocks++;
        for (size_t k = 0; k < place && b == 0; k++) { /* devices without blocks, before the first that has some */
            bool any = false;
            for (guint c = 0; c < s->blocks->len; c++)
                any |= g_array_index(s->blocks, Block, c).place == k;
            if (!any) {
                s->order[n++] = k;
                seen[k] = true;
            }
        }
        s->order[n++] = place;
        last = place;
    }
    for (size_t k = 0; k < s->n; k++) /* and behind the last */
        if (!seen[k])
            s->order[n++] = k;
    return with_blocks > 0 && s->n > 1;
}

static void add_turn(Spread *s, EchId buffer, bool comes)
{
    const EchBuffer *of = &ech_trace_buffers(s->trace)[buffer];
    if (of->alias_of != ECH_NONE || s->at[of->memory] == UINT32_MAX)
        return;
    uint32_t whose = s->of[buffer] == NOT_KNOWN ? (of->role == ECH_ROLE_OPTIMIZER ? OF_OPTIMIZER : OF_NONE) : s->of[buffer];
    if (whose < OF_NONE && g_array_index(s->blocks, Block, whose).place != s->at[of->memory])
        whose = OF_NONE; /* what another device sent, or is told of it */
    Turn turn = {whose, s->at[of->memory], comes ? (int64_t)of->bytes : -(int64_t)of->bytes};
    g_array_append_val(s->turns, turn);
    if (comes && of->role == ECH_ROLE_PARAMETER)
        s->given[turn.place] += of->bytes;
}

static void find_turns(Spread *s)
{
    for (size_t m = 0; m < ech_trace_n_memories(s->trace); m++) {
        uint32_t device;
        bool host = g_str_has_prefix(ech_trace_memory(s->trace, (EchId)m), "host") || !ech_trace_device_of(s->trace, (EchId)m, &device);
        size_t place = host ? s->n : place_of(s, device);
        s->at[m] = place < s->n ? (uint32_t)place : UINT32_MAX;
    }
    for (size_t b = 0; b < ech_trace_n_buffers(s->trace); b++)
        if (ech_trace_buffers(s->trace)[b].resident)
            add_turn(s, (EchId)b, true);
    for (size_t i = 0; i < ech_trace_n_ops(s->trace); i++) {
        const EchOp *op = &ech_trace_ops(s->trace)[i];
        if (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE)
            add_turn(s, op->target, op->kind == ECH_OP_ALLOC);
    }
}

/* The most that lives at once on each device, @ret by place, with @counts blocks each, by order. */
static void most_with(const Spread *s, const size_t *counts, EchBytes *ret)
{
    g_autofree size_t *to = g_new(size_t, s->blocks->len + 1);
    g_autofree double *given = g_new(double, s->n), *share = g_new(double, s->n), *live = g_new0(double, s->n), *most = g_new0(double, s->n);
    for (size_t k = 0; k < s->n; k++)
        given[k] = (double)s->given[k];
    guint b = 0;
    for (size_t k = 0; k < s->n; k++)
        for (size_t c = 0; c < counts[k]; c++, b++) {
            const Block *block = &g_array_index(s->blocks, Block, b);
            to[b] = s->order[k];
            given[block->place] -= (double)block->given;
            given[to[b]] += (double)block->given;
        }
    for (size_t k = 0; k < s->n; k++)
        share[k] = s->given[k] > 0 ? given[k] / (double)s->given[k] : 1;
    for (guint i = 0; i < s->turns->len; i++) {
        const Turn *turn = &g_array_index(s->turns, Turn, i);
        size_t place = turn->block < OF_NONE ? to[turn->block] : turn->place;
        /* A block's own weights are those of one place whatever else is there; what an optimizer has goes by all of them. */
        live[place] += (double)turn->change * (turn->block == OF_OPTIMIZER ? share[place] : 1);
        most[place] = MAX(most[place], live[place]);
    }
    for (size_t k = 0; k < s->n; k++)
        ret[k] = (EchBytes)most[k];
}

/* The most of those devices that are not @full, by order; EchBytes' largest where one of these would need more than @needs. */
static EchBytes most_of(const Spread *s, const bool *full, const EchBytes *its, const EchBytes *needs)
{
    EchBytes most = 0;
    for (size_t k = 0; k < s->n; k++) {
        size_t place = s->order[k];
        if (full[k] && its[place] > needs[place])
            return UINT64_MAX;
        most = full[k] ? most : MAX(most, its[place]);
    }
    return most;
}

/* Moves one block after the other away from the fullest device, wherever that helps most; where nothing does, from the next. Whether any was. */
static bool even(const Spread *s, size_t *counts, EchBytes *needs)
{
    g_autofree size_t *other = g_new(size_t, s->n), *best = g_new(size_t, s->n);
    g_autofree EchBytes *its = g_new(EchBytes, s->n);
    g_autofree bool *full = g_new0(bool, s->n); /* those that nothing helps */
    size_t n_full = 0;
    bool any = false;
    most_with(s, counts, needs);
    while (n_full < s->n) {
        size_t from = SIZE_MAX;
        for (size_t k = 0; k < s->n; k++)
            if (!full[k] && (from == SIZE_MAX || needs[s->order[k]] > needs[s->order[from]]))
                from = k;
        EchBytes least = needs[s->order[from]];
        bool helps = false;
        for (size_t k = 0; k < s->n && counts[from] > 0; k++) {
            if (k == from)
                continue;
            memcpy(other, counts, s->n * sizeof *other);
            other[from]--;
            other[k]++;
            most_with(s, other, its);
            EchBytes then = most_of(s, full, its, needs);
            if (then >= least)
                continue;
            least = then;
            helps = true;
            memcpy(best, other, s->n * sizeof *best);
        }
        if (helps) {
            memcpy(counts, best, s->n * sizeof *best);
            most_with(s, counts, needs);
            any = true;
        } else {
            full[from] = true;
            n_full++;
        }
    }
    return any;
}

static EchSpread *spread_of(const Spread *s)
{
    g_autofree size_t *was = g_new0(size_t, s->n), *now = g_new0(size_t, s->n);
    g_autofree EchBytes *before = g_new(EchBytes, s->n), *after = g_new(EchBytes, s->n);
    for (guint b = 0; b < s->blocks->len; b++)
        for (size_t k = 0; k < s->n; k++)
            was[k] += s->order[k] == g_array_index(s->blocks, Block, b).place;
    most_with(s, was, before);
    memcpy(now, was, s->n * sizeof *now);
    if (!even(s, now, after))
        return NULL;
    EchSpread *spread = g_new0(EchSpread, 1);
    spread->devices = g_new0(EchSpreadDevice, s->n);
    spread->n = s->n;
    guint b = 0;
    for (size_t k = 0; k < s->n; k++) {
        size_t place = s->order[k];
        const char *first = now[k] > 0 ? g_array_index(s->blocks, Block, b).path : NULL;
        spread->devices[k] = (EchSpreadDevice){s->devices[place], was[k], now[k], g_strdup(first), before[place], after[place]};
        b += (guint)now[k];
    }
    return spread;
}

EchSpread *ech_spread_new(const EchTrace *trace, const char *patterns)
{
    g_auto(GStrv) each = g_strsplit(patterns, ECH_MODULES_OR, -1);
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n);
    g_autofree uint32_t *of = g_new(uint32_t, ech_trace_n_buffers(trace) + 1), *at = g_new(uint32_t, ech_trace_n_memories(trace) + 1);
    g_autofree EchBytes *given = g_new0(EchBytes, n + 1);
    g_autofree size_t *order = g_new0(size_t, n + 1);
    g_autoptr(GArray) blocks = g_array_new(FALSE, FALSE, sizeof(Block)), turns = g_array_new(FALSE, FALSE, sizeof(Turn));
    g_array_set_clear_func(blocks, block_clear);
    Spread s = {.trace = trace, .devices = devices, .n = n, .blocks = blocks, .of = of, .at = at, .given = given, .turns = turns, .order = order};
    find_blocks(&s, each);
    place_blocks(&s);
    if (s.apart || !find_order(&s))
        return NULL;
    find_turns(&s);
    return spread_of(&s);
}

void ech_spread_free(EchSpread *spread)
{
    for (size_t i = 0; spread && i < spread->n; i++)
        g_free(spread->devices[i].first);
    if (spread)
        g_free(spread->devices);
    g_free(spread);
}
