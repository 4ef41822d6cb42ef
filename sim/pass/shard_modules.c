/* A training step of PyTorch over devices that hold all alike, as fully_shard (FSDP2, ZeRO-3) would have it: of weights, gradients and optimizer state each
 * device has a part. Before a module runs, forward or backward, its weights are gathered: a copy of a device's part into place, an all-gather, and a copy of
 * what that gives into the weights; after it they are let go. While one computes, the next is gathered. What its backward pass leaves as gradients is copied
 * together, summed up, and each device keeps its part of the sum. The root's own weights stay from the forward to the end of the backward pass.
 *
 * Or, as ZeroRedundancyOptimizer has it (ZeRO-1): each device holds the state of some of the weights, brings those up to date, and sends them to all. */
#include "sim/pass/shard.h"

#include "sim/base/hash.h"
#include "sim/pass/modules.h"

#include <math.h>
#include <string.h>

/* The unit of what is in no other; and what is in no module, a loss, say. */
enum { ROOT = 0 };
#define OUTSIDE UINT32_MAX

typedef enum { OF_ELSE, OF_FORWARD, OF_BACKWARD, OF_OPTIMIZER } Part;

/* What is run of a unit at a time: of its forward pass what follows one upon the other, of its backward pass all. */
typedef struct {
    uint32_t unit;
    bool backward;
    EchId first, last; /* ops */
    GArray *sources;   /* EchId: gradients, whole */
    GArray *targets;   /* EchId: gradients kept from step to step that they are added to */
} Turn;

/* A bucket that gradients of a unit are in. */
typedef struct {
    EchId bucket;
    uint32_t unit;
} Feed;

typedef struct {
    const char *line; /* "nn.Module: blocks.2 (Block)", borrowed; NULL: the root */
    size_t n;
    GArray *weights; /* EchId */
    EchBytes bytes;
} Unit;

typedef struct {
    const EchSurvey *s;
    EchUsers users;
    uint32_t over;
    EchBytes most, total; /* of the weights of which a device has the state, where those stay whole: the one that has most, and all; 0, 1: alike */
    char *launch;         /* of collectives among so many devices */
    GArray *units;        /* Unit */
    GArray *turns;        /* Turn, by their first op */
    GArray *feeds;        /* Feed, by bucket, of what optimizers read */
    GHashTable *fed;      /* those, bucket and unit in one */
    uint8_t *part;        /* per op: Part */
    uint32_t *unit;       /* per op: that it stands in */
    bool *adds;           /* per op: it adds a gradient to what is there */
    bool *syncs;          /* per op: it sums gradients up over devices, or brings them to where that is done, or back */
    uint32_t *owner;      /* per buffer: 1 + the unit of a weight; 0: it is none */
    bool *is_state;       /* per buffer */
    bool *is_handed;      /* per buffer: made by an optimizer for itself */
    bool *is_read;        /* per buffer: by an optimizer */
    bool *is_gradient;    /* per buffer: an optimizer reads it, and a backward pass wrote it */
    bool *is_bucket;      /* per buffer: what is summed up over devices, and holds copies of gradients, or those themselves */
    uint32_t *first_feed; /* per bucket that feeds: the first of those */
    uint32_t *home;       /* per buffer: 1 + the unit whose gradients it holds, whole; 0: none's */
    bool *is_left;        /* per buffer: a library's, for nothing but sums that are no more */
    bool *lasts;          /* per buffer: it is there before anything runs of modules, until nothing does */
    bool *has_parts;      /* per buffer: some of it goes by another name; it stays whole */
    EchId *alloc;         /* per buffer: the op that asks for it; ECH_NONE: none, or several do */
} Shard;

static void unit_clear(gpointer data)
{
    g_array_unref(((Unit *)data)->weights);
}

static void turn_clear(gpointer data)
{
    g_array_unref(((Turn *)data)->sources);
    g_array_unref(((Turn *)data)->targets);
}

static Unit *unit_at(const Shard *d, uint32_t unit)
{
    return &g_array_index(d->units, Unit, unit);
}

static EchId root_of_use(const EchSurvey *s, uint32_t use)
{
    return ech_survey_root(s, s->uses[use].buffer);
}

static bool is_of_optimizer(const EchSurvey *s, EchId op)
{
    return strstr(ech_trace_string(s->t, s->ops[op].stack), "Optimizer.step#") != NULL;
}

bool ech_shard_is_pytorch(const EchSurvey *survey)
{
    bool any = false;
    for (EchId i = 0; i < survey->n && !any; i++)
        any = survey->ops[i].kind == ECH_OP_KERNEL && is_of_optimizer(survey, i);
    return any;
}

/* ---- what the ops are of ---- */

static uint32_t unit_of(Shard *d, GHashTable *numbers, EchId op, char *const *patterns)
{
    size_t n = 0;
    const char *line = ech_modules_find(d->s, op, patterns, &n);
    if (!line)
        return ROOT;
    g_autofree char *key = g_strndup(line, n);
    uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(numbers, key));
    if (number == 0) {
        Unit unit = {line, n, g_array_new(FALSE, FALSE, sizeof(EchId)), 0};
        number = d->units->len;
        g_array_append_val(d->units, unit);
        g_hash_table_insert(numbers, g_steal_pointer(&key), GUINT_TO_POINTER(number));
    }
    return number;
}

static void find_parts(Shard *d, const char *modules)
{
    const EchSurvey *s = d->s;
    g_auto(GStrv) patterns = g_strsplit(modules, ECH_MODULES_OR, -1);
    g_autoptr(GHashTable) numbers = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    size_t n_strings = ech_trace_n_strings(s->t);
    g_autofree uint8_t *parts = g_new0(uint8_t, n_strings + 1); /* per stack: 1 + Part */
    g_autofree uint32_t *units = g_new0(uint32_t, n_strings + 1);
    Unit root = {NULL, 0, g_array_new(FALSE, FALSE, sizeof(EchId)), 0};
    g_array_append_val(d->units, root);
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->stack >= n_strings || o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE || o->n_uses == 0)
            continue;
        if (parts[o->stack] == 0) {
            Part part = is_of_optimizer(s, i)                                             ? OF_OPTIMIZER
                        : ech_modules_is_backward(s, i)                                   ? OF_BACKWARD
                        : strstr(ech_trace_string(s->t, o->stack), "nn.Module: ") != NULL ? OF_FORWARD
                                                                                          : OF_ELSE;
            parts[o->stack] = (uint8_t)(part + 1);
            units[o->stack] = strstr(ech_trace_string(s->t, o->stack), "nn.Module: ") ? unit_of(d, numbers, i, patterns) : OUTSIDE;
        }
        d->part[i] = (uint8_t)(parts[o->stack] - 1);
        d->unit[i] = units[o->stack];
    }
}

/* ---- what the arrays are ---- */

static void find_allocs(Shard *d)
{
    const EchSurvey *s = d->s;
    g_autofree uint8_t *n = g_new0(uint8_t, s->n_buffers + 1);
    for (EchId b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].alias_of != ECH_NONE)
            d->has_parts[ech_survey_root(s, b)] = true;
    EchId first = ECH_NONE, last = 0; /* of what is run of modules */
    for (EchId i = 0; i < s->n; i++) {
        bool runs = d->part[i] == OF_FORWARD || d->part[i] == OF_BACKWARD;
        first = runs && first == ECH_NONE ? i : first;
        last = runs ? i : last;
    }
    for (EchId b = 0; b < s->n_buffers; b++)
        d->lasts[b] = s->buffers[b].resident;
    for (EchId i = 0; i < s->n; i++) {
        EchId b = s->ops[i].target;
        if (s->ops[i].kind == ECH_OP_ALLOC) {
            d->alloc[b] = n[b] == 0 ? i : ECH_NONE;
            d->lasts[b] = n[b] == 0 && !s->buffers[b].resident && i < first;
            n[b] = 1;
        } else if (s->ops[i].kind == ECH_OP_FREE)
            d->lasts[b] &= i > last;
    }
}

/* A weight is the unit's that alone uses it before optimizers do, else the root's. */
static void find_weights(Shard *d)
{
    const EchSurvey *s = d->s;
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        if (buffer->role != ECH_ROLE_PARAMETER || buffer->memory != s->hbm || buffer->alias_of != ECH_NONE || d->has_parts[b] || buffer->bytes == 0 ||
            !d->lasts[b])
            continue;
        uint32_t unit = ROOT;
        bool any = false;
        for (uint32_t u = d->users.first[b]; u < d->users.first[b + 1]; u++) {
            EchId op = d->users.op[u];
            if (d->part[op] != OF_FORWARD && d->part[op] != OF_BACKWARD)
                continue;
            unit = (!any || unit == d->unit[op]) && d->unit[op] != OUTSIDE ? d->unit[op] : ROOT;
            any = true;
        }
        d->owner[b] = unit + 1;
        g_array_append_val(unit_at(d, unit)->weights, b);
        unit_at(d, unit)->bytes = ech_bytes_add(unit_at(d, unit)->bytes, buffer->bytes);
    }
}

static bool uses_only(const Shard *d, EchId buffer, Part part)
{
    bool only = d->users.first[buffer + 1] > d->users.first[buffer];
    for (uint32_t u = d->users.first[buffer]; u < d->users.first[buffer + 1]; u++)
        only &= d->part[d->users.op[u]] == part;
    return only;
}

/* Whether nothing is done with @buffer but beside weights, outside of all modules: an average of them, say. */
static bool follows_weights(const Shard *d, EchId buffer)
{
    const EchSurvey *s = d->s;
    bool follows = d->users.first[buffer + 1] > d->users.first[buffer] && d->lasts[buffer];
    for (uint32_t k = d->users.first[buffer]; k < d->users.first[buffer + 1] && follows; k++) {
        const EchOp *o = &s->ops[d->users.op[k]];
        bool beside = false;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            beside |= d->owner[root_of_use(s, u)] != 0;
        follows = beside && d->part[d->users.op[k]] == OF_ELSE;
    }
    return follows;
}

/* @copies: of weights, too. */
static void find_optimizers(Shard *d, bool copies)
{
    const EchSurvey *s = d->s;
    g_autofree bool *made = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            EchId b = root_of_use(s, u);
            d->is_read[b] |= d->part[i] == OF_OPTIMIZER && s->uses[u].access == ECH_READ;
            made[b] |= d->part[i] == OF_BACKWARD && s->uses[u].access == ECH_WRITE;
        }
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        if (buffer->memory != s->hbm || buffer->alias_of != ECH_NONE || d->has_parts[b] || buffer->direct || buffer->bytes == 0 || d->owner[b] != 0)
            continue;
        d->is_state[b] = buffer->role == ECH_ROLE_OPTIMIZER || (copies && follows_weights(d, b));
        d->is_handed[b] = !d->is_state[b] && d->alloc[b] != ECH_NONE && uses_only(d, b, OF_OPTIMIZER);
        d->is_gradient[b] = !d->is_state[b] && (d->is_read[b] ? made[b] : buffer->resident && buffer->role == ECH_ROLE_GRADIENT);
    }
}

static bool is_hook(const EchSurvey *s, EchId op)
{
    return !ech_survey_has_products(s, op) && strstr(ech_trace_string(s->t, s->ops[op].stack), "AccumulateGrad") != NULL;
}

/* What an all-reduce sums up of @buffer are gradients: those, or what hooks at gradients bring there. */
static bool holds_gradients(const Shard *d, EchId buffer)
{
    const EchSurvey *s = d->s;
    bool fed = false, only = s->buffers[buffer].memory == s->hbm && d->owner[buffer] == 0 && !d->is_state[buffer];
    for (uint32_t u = d->users.first[buffer]; u < d->users.first[buffer + 1]; u++) {
        EchId op = d->users.op[u];
        bool hooked = s->ops[op].kind != ECH_OP_COLLECTIVE && is_hook(s, op);
        fed |= hooked;
        only &= s->ops[op].kind == ECH_OP_COLLECTIVE || hooked || d->part[op] == OF_OPTIMIZER || d->part[op] == OF_ELSE ||
                (d->part[op] == OF_BACKWARD && !ech_survey_has_products(s, op));
    }
    return only && fed;
}

static void find_sums(Shard *d, const EchShardOptions *o)
{
    const EchSurvey *s = d->s;
    const EchOp *sum = NULL;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        if (op->kind != ECH_OP_COLLECTIVE || op->collective != ECH_COLLECTIVE_ALL_REDUCE || op->n_uses == 0)
            continue;
        EchId b = root_of_use(s, op->first_use);
        if (!d->is_bucket[b])
            d->is_bucket[b] = holds_gradients(d, b);
        d->syncs[i] = d->is_bucket[b] || d->is_gradient[b];
        if (d->syncs[i] && (!sum || op->memory_from > sum->memory_from))
            sum = op;
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses && d->part[i] != OF_OPTIMIZER; u++)
            d->syncs[i] |= d->is_bucket[root_of_use(s, u)] && ech_op_is_work(op) && (!d->is_gradient[root_of_use(s, u)] || is_hook(s, i));
    }
    d->over = o->over > 0 ? (uint32_t)o->over : sum ? sum->memory_from : 0;
    const char *launch = sum && sum->memory_from == d->over ? ech_trace_string(s->t, sum->launch) : "", *meets = strstr(launch, " meets=");
    d->launch = meets ? g_strndup(launch, (size_t)(meets - launch)) : g_strdup_printf("devices=%u stride=1", d->over);
}

/* NCCL's buffers for all-reduces (trees, reductions by switches), beside the rings that serve all collectives and came first, where none is left. */
static void find_left(Shard *d)
{
    const EchSurvey *s = d->s;
    bool summed = false, ring = false; /* the collective that comes next is a sum of gradients; there are buffers already */
    bool others = false;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        others |= o->kind == ECH_OP_COLLECTIVE && o->collective == ECH_COLLECTIVE_ALL_REDUCE && !d->syncs[i];
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && d->part[i] == OF_ELSE; u++) /* their norm */
            others |= d->is_gradient[root_of_use(s, u)] && !d->syncs[i] && s->uses[u].access == ECH_READ;
    }
    g_autofree bool *before_sum = g_new0(bool, s->n + 1);
    for (EchId i = (EchId)s->n; i-- > 0;) {
        summed = s->ops[i].kind == ECH_OP_COLLECTIVE ? d->syncs[i] : summed;
        before_sum[i] = summed;
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_ALLOC || !s->buffers[o->target].direct)
            continue;
        d->is_left[o->target] = ring && before_sum[i] && !others;
        ring = true;
    }
}

/* ---- turns ---- */

typedef struct {
    uint32_t *open;   /* per unit: 1 + its turn of this backward pass; 0: none yet */
    uint32_t *holds;  /* per buffer: 1 + the turn whose source it is */
    uint32_t forward; /* 1 + the turn of a unit's forward pass; 0: none */
    uint32_t root;    /* 1 + the root's, of this forward pass */
} Walk;

static Turn *turn_at(const Shard *d, uint32_t turn)
{
    return &g_array_index(d->turns, Turn, turn);
}

static uint32_t begin_turn(Shard *d, uint32_t unit, bool backward, EchId op)
{
    Turn turn = {unit, backward, op, op, g_array_new(FALSE, FALSE, sizeof(EchId)), g_array_new(FALSE, FALSE, sizeof(EchId))};
    g_array_append_val(d->turns, turn);
    return d->turns->len;
}

static void go_forward(Shard *d, Walk *w, EchId op)
{
    if (w->root == 0 || w->open[ROOT] != 0) { /* another forward pass */
        memset(w->open, 0, d->units->len * sizeof *w->open);
        w->root = begin_turn(d, ROOT, false, op);
        w->forward = 0;
    }
    turn_at(d, w->root - 1)->last = op;
    uint32_t unit = d->unit[op];
    if (unit == ROOT)
        w->forward = 0;
    else if (w->forward == 0 || turn_at(d, w->forward - 1)->unit != unit)
        w->forward = begin_turn(d, unit, false, op);
    if (unit != ROOT)
        turn_at(d, w->forward - 1)->last = op;
}

static uint32_t backward_turn(Shard *d, Walk *w, uint32_t unit, EchId op)
{
    if (w->open[unit] == 0)
        w->open[unit] = begin_turn(d, unit, true, op);
    return w->open[unit] - 1;
}

/* Whether a backward pass leaves @buffer, made in it, as a gradient, or as what is added to one, or summed up over devices. */
static bool is_source(const Shard *d, EchId buffer)
{
    const EchSurvey *s = d->s;
    if (d->alloc[buffer] == ECH_NONE || s->buffers[buffer].memory != s->hbm || d->is_bucket[buffer] || d->owner[buffer] != 0 || d->is_state[buffer])
        return false;
    bool is = d->is_gradient[buffer];
    for (uint32_t u = d->users.first[buffer]; u < d->users.first[buffer + 1] && !is; u++) {
        EchId op = d->users.op[u];
        bool writes = false, reads = false;
        if (d->syncs[op] || d->adds[op])
            (void)ech_survey_access(s, op, buffer, &reads, &writes);
        is = reads && !writes;
    }
    return is;
}

static void note_feed(Shard *d, EchId bucket, uint32_t unit)
{
    Feed feed = {bucket, unit};
    if (g_hash_table_add(d->fed, GSIZE_TO_POINTER((gsize)bucket << 32 | unit)))
        g_array_append_val(d->feeds, feed);
}

/* Source @b of @turn goes on to what hooks have for it at @op. */
static void note_way(Shard *d, uint32_t turn, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId to = root_of_use(s, u);
        if (s->uses[u].access != ECH_WRITE || !d->is_gradient[to] || d->home[to] != 0)
            continue;
        if (d->is_bucket[to])
            note_feed(d, to, turn_at(d, turn)->unit);
        else if (d->lasts[to])
            g_array_append_val(turn_at(d, turn)->targets, to);
    }
}

static void go_backward(Shard *d, Walk *w, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    bool hook = d->syncs[op] || d->adds[op];
    uint32_t turn = UINT32_MAX;
    w->forward = 0;
    if (!hook && d->unit[op] != OUTSIDE) {
        (void)backward_turn(d, w, ROOT, op);
        turn = backward_turn(d, w, d->unit[op], op);
        turn_at(d, turn)->last = op;
    }
    if (w->open[ROOT] != 0)
        turn_at(d, w->open[ROOT] - 1)->last = op;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId b = root_of_use(s, u);
        bool reads = false, writes = false;
        if (w->holds[b] != 0 && w->holds[b] != UINT32_MAX) {
            Turn *of = turn_at(d, w->holds[b] - 1);
            (void)ech_survey_access(s, op, b, &reads, &writes);
            if (w->open[of->unit] == w->holds[b] && !(hook && writes))
                of->last = op;
            if (hook && !writes)
                note_way(d, w->holds[b] - 1, op);
        } else if (s->uses[u].access == ECH_WRITE && w->holds[b] == 0 && turn != UINT32_MAX) {
            bool is = is_source(d, b);
            w->holds[b] = is ? turn + 1 : UINT32_MAX;
            if (is) {
                d->home[b] = d->unit[op] + 1;
                g_array_append_val(turn_at(d, turn)->sources, b);
            }
        }
    }
}

/* Ops by which hooks add to gradients that are there: those of an earlier turn, or kept from step to step. */
static void find_adds(Shard *d)
{
    const EchSurvey *s = d->s;
    g_autofree bool *there = g_new(bool, s->n_buffers + 1);
    for (EchId b = 0; b < s->n_buffers; b++)
        there[b] = s->buffers[b].resident;
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            EchId b = root_of_use(s, u);
            if (s->uses[u].access != ECH_WRITE || d->part[i] != OF_BACKWARD)
                continue;
            d->adds[i] |= there[b] && d->is_gradient[b] && is_hook(s, i);
            there[b] = true;
        }
}

static gint compare_feeds(gconstpointer a, gconstpointer b)
{
    const Feed *x = a, *y = b;
    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static void find_turns(Shard *d)
{
    const EchSurvey *s = d->s;
    g_autofree uint32_t *open = g_new0(uint32_t, d->units->len + 1), *holds = g_new0(uint32_t, s->n_buffers + 1);
    Walk walk = {.open = open, .holds = holds};
    for (EchId i = 0; i < s->n; i++) {
        if (d->part[i] == OF_FORWARD)
            go_forward(d, &walk, i);
        else if (d->part[i] == OF_BACKWARD)
            go_backward(d, &walk, i);
        else if (d->part[i] == OF_OPTIMIZER)
            walk.forward = 0;
    }
    for (guint k = 0; k < d->turns->len; k++) { /* weights are there before what its first op makes, and go after what a forward pass lets go when it ends */
        Turn *turn = turn_at(d, k);
        while (turn->first > 0 && s->ops[turn->first - 1].kind == ECH_OP_ALLOC && !d->lasts[s->ops[turn->first - 1].target])
            turn->first--;
        while (!turn->backward && turn->last + 1 < s->n && (s->ops[turn->last + 1].kind == ECH_OP_FREE || s->ops[turn->last + 1].kind == ECH_OP_MARK))
            turn->last++;
    }
    g_array_sort(d->feeds, compare_feeds);
    for (guint k = d->feeds->len; k-- > 0;)
        d->first_feed[g_array_index(d->feeds, Feed, k).bucket] = k;
}

/* ---- writing ---- */

typedef struct {
    bool is_gathered, is_asked_for; /* asked for: what it is gathered in is on its way */
    EchId out;                      /* what it is gathered in; ECH_NONE before the first time */
    EchId gather;                   /* the all-gather under way */
    EchId sum;                      /* what holds this device's part of its gradients, or ECH_NONE */
    EchBytes left;                  /* bytes of it */
    guint at;                       /* 1 + its place in the order of forward passes; 0: none yet */
} UnitState;

typedef struct {
    const Shard *d;
    EchEdit e;
    bool keep;
    bool whole;                  /* Weights and gradients stay so. */
    bool *is_updated;            /* per buffer: in updated */
    GArray *updated;             /* EchId: weights that each device has brought some of up to date, to be sent to all */
    EchId brings, gathers, sums; /* queues */
    EchId allocator;             /* and the one that the host asks its allocator by */
    bool *is_summed;             /* per buffer: a gradient that has been summed up, and let go */
    EchId *all;                  /* per weight: what it is gathered in, or ECH_NONE */
    UnitState *units;
    GArray *order;      /* uint32_t: units as their forward passes ended */
    EchId copied[2];    /* what copied a unit's weights into place last, and before that */
    EchId kept_out;     /* what the unit was gathered in that came last, while the next is on its way */
    EchId kept_in, sum; /* what is being summed up over devices, and by which op */
    EchId seen;         /* what an optimizer read of gradients in buckets may go once the next forward pass begins */
    EchBytes gathered, summed;
} Writer;

static EchBytes part_of(const Shard *d, EchBytes bytes)
{
    return d->most > 0 ? (EchBytes)ceil((double)bytes * ((double)d->most / (double)d->total)) : bytes / d->over + (bytes % d->over != 0);
}

static EchId text(Writer *w, const char *words)
{
    return ech_trace_builder_string(w->e.builder, words, -1);
}

/* Of what is done for a unit: its stack, so that it counts as the module's. */
static EchId stack_of(Writer *w, uint32_t unit, const char *what)
{
    const Unit *u = unit_at(w->d, unit);
    g_autofree char *stack = u->line ? g_strdup_printf("%s\n%.*s", what, (int)u->n, u->line) : g_strdup(what);
    return text(w, stack);
}

static EchId make_buffer(Writer *w, const char *name, EchRole role, EchId queue, EchBytes bytes)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.name = text(w, name);
    buffer.memory = w->d->s->hbm;
    buffer.role = (uint8_t)role;
    buffer.queue = queue;
    buffer.bytes = bytes;
    return ech_trace_builder_buffer(w->e.builder, buffer);
}

static void ask(Writer *w, EchOpKind kind, EchId buffer)
{
    EchOp o = ech_op_init(kind);
    o.target = buffer;
    o.bytes = ech_trace_builder_peek_buffer(w->e.builder, buffer)->bytes;
    o.bytes_origin = ECH_INFERRED;
    o.queue = w->allocator;
    o.name = ech_trace_builder_peek_buffer(w->e.builder, buffer)->name;
    (void)ech_trace_builder_op(w->e.builder, o);
    if (w->e.last_core != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, w->e.last_core, 0);
}

static EchId put_kernel(Writer *w, EchId queue, uint32_t unit, const char *name)
{
    EchOp o = ech_op_init(ECH_OP_KERNEL);
    o.name = text(w, name);
    o.stack = stack_of(w, unit, name);
    o.queue = queue;
    EchId made = ech_trace_builder_op(w->e.builder, o);
    if (queue == w->d->s->core)
        w->e.last_core = made;
    return made;
}

static EchId put_collective(Writer *w, EchId queue, uint32_t unit, EchCollective what, EchBytes operand)
{
    EchOp o = ech_op_init(ECH_OP_COLLECTIVE);
    o.name = text(w, ech_collective_name(what));
    o.stack = stack_of(w, unit, ech_collective_name(what));
    o.queue = queue;
    o.collective = (uint8_t)what;
    o.memory_from = w->d->over;
    o.launch = text(w, w->d->launch);
    o.bytes = operand;
    o.bytes_origin = ECH_INFERRED;
    return ech_trace_builder_op(w->e.builder, o);
}

static void put_use(Writer *w, EchId buffer, EchAccess access, EchBytes bytes)
{
    ech_trace_builder_use(w->e.builder, buffer, access, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
}

static void put_dep(Writer *w, EchId on)
{
    if (on != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, on, 0);
}

/* The core goes on once @op is done. */
static void put_wait(Writer *w, EchId op)
{
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = w->d->s->core;
    wait.name = text(w, "reduce-scatter");
    w->e.last_core = ech_trace_builder_op(w->e.builder, wait);
    ech_trace_builder_dep(w->e.builder, op, 0);
}

static void let_go_out(Writer *w)
{
    if (w->kept_out != ECH_NONE)
        ask(w, ECH_OP_FREE, w->kept_out);
    w->kept_out = ECH_NONE;
}

/* Its own part goes to where it belongs among all, once @after is done; then all parts come. */
static void ask_for(Writer *w, uint32_t unit, EchId after)
{
    const Unit *u = unit_at(w->d, unit);
    UnitState *state = &w->units[unit];
    EchBytes part = part_of(w->d, u->bytes), all = ech_bytes_mul(part, w->d->over);
    state->out = make_buffer(w, "all-gather", ECH_ROLE_TEMPORARY, w->brings, all);
    ask(w, ECH_OP_ALLOC, state->out);
    EchId bring = put_kernel(w, w->brings, unit, "FSDP::all_gather_copy_in");
    for (guint k = 0; k < u->weights->len; k++) {
        EchId weight = g_array_index(u->weights, EchId, k);
        put_use(w, weight, ECH_READ, part_of(w->d, w->d->s->buffers[weight].bytes));
    }
    put_use(w, state->out, ECH_WRITE, part);
    put_dep(w, after);
    state->gather = put_collective(w, w->gathers, unit, ECH_COLLECTIVE_ALL_GATHER, part);
    put_use(w, state->out, ECH_READ, part);
    put_use(w, state->out, ECH_WRITE, all);
    put_dep(w, bring);
    state->is_asked_for = true;
}

static void copy_out(Writer *w, uint32_t unit, bool backward)
{
    const Unit *u = unit_at(w->d, unit);
    UnitState *state = &w->units[unit];
    if (!backward)
        let_go_out(w);
    for (guint k = 0; k < u->weights->len; k++) {
        EchId weight = g_array_index(u->weights, EchId, k);
        w->all[weight] = make_buffer(w, "unsharded", ECH_ROLE_TEMPORARY, w->d->s->core, w->d->s->buffers[weight].bytes);
        ask(w, ECH_OP_ALLOC, w->all[weight]);
    }
    w->copied[1] = w->copied[0];
    w->copied[0] = put_kernel(w, w->d->s->core, unit, "FSDP::all_gather_copy_out");
    put_use(w, state->out, ECH_READ, u->bytes);
    for (guint k = 0; k < u->weights->len; k++) {
        EchId weight = g_array_index(u->weights, EchId, k);
        put_use(w, w->all[weight], ECH_WRITE, w->d->s->buffers[weight].bytes);
    }
    put_dep(w, state->gather);
    if (backward)
        ask(w, ECH_OP_FREE, state->out);
    else
        w->kept_out = state->out;
    state->is_asked_for = false;
    state->is_gathered = true;
    w->gathered = ech_bytes_add(w->gathered, u->bytes);
}

static void gather(Writer *w, uint32_t unit, bool backward)
{
    if (w->units[unit].is_gathered || unit_at(w->d, unit)->weights->len == 0)
        return;
    if (!w->units[unit].is_asked_for)
        ask_for(w, unit, backward || w->copied[0] == ECH_NONE ? w->e.last_core : w->copied[1]);
    copy_out(w, unit, backward);
}

static void let_go(Writer *w, uint32_t unit)
{
    const Unit *u = unit_at(w->d, unit);
    for (guint k = 0; w->units[unit].is_gathered && k < u->weights->len; k++)
        ask(w, ECH_OP_FREE, w->all[g_array_index(u->weights, EchId, k)]);
    w->units[unit].is_gathered = false;
}

/* The one whose forward pass ended before that of @unit, the root's last of all. */
static void gather_next(Writer *w, uint32_t unit)
{
    guint before = unit == ROOT ? w->order->len : MAX(w->units[unit].at, 1) - 1;
    uint32_t next = before > 0 ? g_array_index(w->order, uint32_t, before - 1) : ROOT;
    if (next != ROOT && unit_at(w->d, next)->weights->len > 0 && !w->units[next].is_gathered && !w->units[next].is_asked_for)
        ask_for(w, next, w->copied[0]);
}

/* What this device has of a unit's gradients, once more: to what it has already. */
static void add_up(Writer *w, const Turn *turn, EchId more, EchBytes part)
{
    UnitState *state = &w->units[turn->unit];
    (void)put_kernel(w, w->sums, turn->unit, "FSDP::post_backward_accumulate");
    put_use(w, more, ECH_READ, part);
    if (state->sum != ECH_NONE) {
        put_use(w, state->sum, ECH_READ, MIN(part, state->left));
        put_use(w, state->sum, ECH_WRITE, MIN(part, state->left));
    }
    for (guint k = 0; state->sum == ECH_NONE && k < turn->targets->len; k++) {
        EchId target = g_array_index(turn->targets, EchId, k);
        EchBytes bytes = part_of(w->d, w->d->s->buffers[target].bytes);
        put_use(w, target, ECH_READ, bytes);
        put_use(w, target, ECH_WRITE, bytes);
    }
    ask(w, ECH_OP_FREE, more);
}

static void let_go_source(Writer *w, EchId source)
{
    ask(w, ECH_OP_FREE, source);
    w->is_summed[source] = true;
}

static void reduce(Writer *w, const Turn *turn)
{
    const EchSurvey *s = w->d->s;
    UnitState *state = &w->units[turn->unit];
    EchBytes bytes = 0;
    for (guint k = 0; k < turn->sources->len; k++)
        bytes = ech_bytes_add(bytes, s->buffers[g_array_index(turn->sources, EchId, k)].bytes);
    if (turn->sources->len == 0)
        return;
    if (w->kept_in != ECH_NONE) {
        put_wait(w, w->sum);
        ask(w, ECH_OP_FREE, w->kept_in);
    }
    EchBytes part = part_of(w->d, bytes);
    w->kept_in = make_buffer(w, "reduce-scatter", ECH_ROLE_TEMPORARY, s->core, ech_bytes_mul(part, w->d->over));
    ask(w, ECH_OP_ALLOC, w->kept_in);
    EchId join = put_kernel(w, s->core, turn->unit, "FSDP::reduce_scatter_copy_in");
    for (guint k = 0; k < turn->sources->len; k++) {
        EchId source = g_array_index(turn->sources, EchId, k);
        put_use(w, source, ECH_READ, s->buffers[source].bytes);
    }
    put_use(w, w->kept_in, ECH_WRITE, bytes);
    for (guint k = 0; k < turn->sources->len; k++)
        let_go_source(w, g_array_index(turn->sources, EchId, k));
    EchId mine = make_buffer(w, "gradients", ECH_ROLE_GRADIENT, w->sums, part);
    ask(w, ECH_OP_ALLOC, mine);
    w->sum = put_collective(w, w->sums, turn->unit, ECH_COLLECTIVE_REDUCE_SCATTER, bytes);
    put_use(w, w->kept_in, ECH_READ, bytes);
    put_use(w, mine, ECH_WRITE, part);
    put_dep(w, join);
    w->summed = ech_bytes_add(w->summed, bytes);
    if (state->sum != ECH_NONE || turn->targets->len > 0) {
        add_up(w, turn, mine, part);
    } else {
        state->sum = mine;
        state->left = part;
    }
}

/* Gradients of a unit are let go. */
static void forget(Writer *w, uint32_t unit)
{
    if (w->units[unit].sum != ECH_NONE)
        ask(w, ECH_OP_FREE, w->units[unit].sum);
    w->units[unit].sum = ECH_NONE;
}

static void begin(Writer *w, const Turn *turn)
{
    if (!turn->backward && turn->unit == ROOT) {
        for (guint k = 0; w->seen != ECH_NONE && k < w->d->feeds->len; k++)
            forget(w, g_array_index(w->d->feeds, Feed, k).unit);
        w->seen = ECH_NONE;
        for (uint32_t u = ROOT + 1; u < w->d->units->len; u++)
            let_go(w, u);
        for (uint32_t u = ROOT; u < w->d->units->len; u++)
            w->units[u].at = 0;
        g_array_set_size(w->order, 0);
        w->copied[0] = w->copied[1] = ECH_NONE;
    }
    gather(w, turn->unit, turn->backward);
    if (turn->backward)
        gather_next(w, turn->unit);
}

static void end(Writer *w, const Turn *turn)
{
    if (!turn->backward && turn->unit == ROOT)
        let_go_out(w);
    if (!turn->backward && turn->unit != ROOT) {
        g_array_append_val(w->order, turn->unit);
        w->units[turn->unit].at = w->order->len;
        if (!w->keep)
            let_go(w, turn->unit);
    }
    if (!turn->backward)
        return;
    let_go(w, turn->unit);
    reduce(w, turn);
    if (turn->unit != ROOT)
        return;
    if (w->kept_in != ECH_NONE) {
        put_wait(w, w->sum);
        ask(w, ECH_OP_FREE, w->kept_in);
        w->kept_in = ECH_NONE;
    }
    for (uint32_t u = ROOT + 1; u < w->d->units->len; u++) {
        let_go(w, u);
        if (w->units[u].is_asked_for)
            ask(w, ECH_OP_FREE, w->units[u].out);
        w->units[u].is_asked_for = false;
    }
}

/* ---- ops ---- */

/* Appends to @stand what stands now for what a use is of: itself, what it was gathered in, or this device's part of gradients; nothing where that is gone. */
static void find_stand(const Writer *w, EchId buffer, GArray *stand)
{
    const Shard *d = w->d;
    EchId b = ech_survey_root(d->s, buffer), now = buffer;
    for (uint32_t k = d->is_bucket[b] ? d->first_feed[b] : UINT32_MAX; k < d->feeds->len && g_array_index(d->feeds, Feed, k).bucket == b; k++) {
        now = w->units[g_array_index(d->feeds, Feed, k).unit].sum;
        if (now != ECH_NONE)
            g_array_append_val(stand, now);
    }
    if (d->is_bucket[b])
        return;
    if (w->is_summed[b])
        now = d->is_gradient[b] ? w->units[d->home[b] - 1].sum : ECH_NONE;
    else if (d->owner[b] != 0 && w->units[d->owner[b] - 1].is_gathered)
        now = w->all[b];
    if (now != ECH_NONE)
        g_array_append_val(stand, now);
}

/* Whether each device does its part of op @op: what an optimizer does, and whatever else is done to weights and gradients when they are in parts. */
static bool is_split(const Writer *w, EchId op)
{
    const Shard *d = w->d;
    const EchOp *o = &d->s->ops[op];
    bool is = d->part[op] == OF_OPTIMIZER;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && !is; u++) {
        EchId b = root_of_use(d->s, u);
        bool kept = d->is_gradient[b] && d->home[b] == 0 && !d->is_bucket[b];
        is = w->is_summed[b] || kept || (d->is_bucket[b] && d->is_gradient[b]) || (d->owner[b] != 0 && !w->units[d->owner[b] - 1].is_gathered);
    }
    return is && ech_op_is_work(o);
}

static void put(Writer *w, EchId op, GArray *stand)
{
    const Shard *d = w->d;
    const EchSurvey *s = d->s;
    const EchOp *was = &s->ops[op];
    EchOp o = ech_edit_op(&w->e, op);
    bool split = is_split(w, op);
    uint32_t parts = !split ? 1 : d->most > 0 ? (uint32_t)MAX(d->total / d->most, 1) : d->over;
    bool gone = false;
    for (uint32_t u = was->first_use; u < was->first_use + was->n_uses && o.kind == ECH_OP_COPY && !gone; u++) {
        g_array_set_size(stand, 0);
        find_stand(w, s->uses[u].buffer, stand);
        gone = stand->len == 0;
    }
    if (gone) {
        w->e.map[op] = w->e.last_core;
        return;
    }
    if (split) {
        o.recorded = (EchRecorded){ECH_TIME_NONE, ECH_TIME_NONE};
        o.estimate = o.estimate == ECH_TIME_NONE ? ECH_TIME_NONE : o.estimate / (EchTime)parts;
        o.launch = was->launch == ECH_NONE ? ECH_NONE : ech_edit_launch(&w->e, was->launch, parts);
        o.bytes = o.kind == ECH_OP_COPY ? part_of(d, o.bytes) : o.bytes;
    }
    if (o.kind == ECH_OP_ALLOC || o.kind == ECH_OP_FREE)
        o.bytes = ech_trace_builder_peek_buffer(w->e.builder, o.target)->bytes;
    w->e.map[op] = ech_trace_builder_op(w->e.builder, o);
    for (uint32_t u = was->first_use; u < was->first_use + was->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        g_array_set_size(stand, 0);
        find_stand(w, use->buffer, stand);
        for (guint k = 0; k < stand->len && (o.kind != ECH_OP_COPY || k == 0); k++)
            ech_trace_builder_use(w->e.builder, g_array_index(stand, EchId, k), (EchAccess)use->access,
                                  (split ? part_of(d, use->bytes) : use->bytes) / MAX(stand->len, 1), (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t k = 0; k < was->n_deps; k++)
        ech_edit_dep(&w->e, &s->deps[was->first_dep + k], 0);
    ech_edit_work(&w->e, op, parts);
    if (o.queue == s->core)
        w->e.last_core = w->e.map[op];
}

/* Where weights stay whole: each goes from the device that brought it up to date to all. */
static void send_updated(Writer *w)
{
    EchId sent = ECH_NONE;
    for (guint k = 0; k < w->updated->len; k++) {
        EchId weight = g_array_index(w->updated, EchId, k);
        EchBytes bytes = w->d->s->buffers[weight].bytes;
        EchId made = put_collective(w, w->sums, ROOT, ECH_COLLECTIVE_BROADCAST, bytes);
        put_use(w, weight, ECH_WRITE, bytes);
        put_dep(w, sent == ECH_NONE ? w->e.last_core : ECH_NONE);
        sent = made;
        w->gathered = ech_bytes_add(w->gathered, bytes);
        w->is_updated[weight] = false;
    }
    if (sent != ECH_NONE)
        put_wait(w, sent);
    g_array_set_size(w->updated, 0);
}

/* Of what an optimizer writes at @op, weights that stay whole. */
static void note_updated(Writer *w, EchId op)
{
    const EchSurvey *s = w->d->s;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchId b = root_of_use(s, u);
        if (s->uses[u].access != ECH_WRITE || s->buffers[b].role != ECH_ROLE_PARAMETER || w->is_updated[b])
            continue;
        w->is_updated[b] = true;
        g_array_append_val(w->updated, b);
    }
}

static void write_op(Writer *w, EchId op, GArray *stand)
{
    const Shard *d = w->d;
    const EchOp *o = &d->s->ops[op];
    bool memory = o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE;
    bool leaves = memory && (d->is_bucket[o->target] || d->is_left[o->target] || (o->kind == ECH_OP_FREE && d->home[o->target] != 0));
    if (leaves && d->home[o->target] != 0 && d->is_gradient[o->target] && w->is_summed[o->target])
        forget(w, d->home[o->target] - 1);
    if (d->part[op] == OF_OPTIMIZER)
        w->seen = op;
    else if (w->updated->len > 0 && ech_op_is_work(o))
        send_updated(w);
    if (leaves || d->syncs[op] || d->adds[op])
        w->e.map[op] = w->e.last_core;
    else
        put(w, op, stand);
    if (w->whole && d->part[op] == OF_OPTIMIZER)
        note_updated(w, op);
}

/* By their last op; the root's after those of units, before which it began. */
static gint compare_ends(gconstpointer a, gconstpointer b, gpointer turns)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    EchId p = g_array_index((GArray *)turns, Turn, x).last, q = g_array_index((GArray *)turns, Turn, y).last;
    if (p != q)
        return p < q ? -1 : 1;
    return (x < y) - (x > y);
}

static void write_ops(Writer *w)
{
    const Shard *d = w->d;
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(uint32_t)), stand = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (uint32_t k = 0; k < d->turns->len; k++)
        g_array_append_val(ends, k);
    g_array_sort_with_data(ends, compare_ends, d->turns);
    guint next = 0, over = 0;
    for (EchId i = 0; i < d->s->n; i++) {
        for (; next < d->turns->len && turn_at(d, next)->first == i; next++)
            begin(w, turn_at(d, next));
        write_op(w, i, stand);
        for (; over < ends->len && turn_at(d, g_array_index(ends, uint32_t, over))->last == i; over++)
            end(w, turn_at(d, g_array_index(ends, uint32_t, over)));
    }
    send_updated(w);
}

/* What each device has a part of from now on, in bytes of all of it. */
static EchBytes split_buffers(Writer *w)
{
    const Shard *d = w->d;
    EchBytes all = 0;
    for (EchId b = 0; b < d->s->n_buffers; b++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(w->e.builder, b);
        if (d->is_bucket[b] || d->is_left[b])
            buffer->resident = 0;
        bool kept = d->is_gradient[b] && d->home[b] == 0 && !d->is_bucket[b];
        if (d->owner[b] == 0 && !d->is_state[b] && !d->is_handed[b] && !kept)
            continue;
        all = ech_bytes_add(all, d->is_handed[b] ? 0 : buffer->bytes);
        ech_edit_move_buffer(buffer, buffer->memory);
        buffer->bytes = part_of(d, buffer->bytes);
        buffer->dense = MIN(buffer->dense, buffer->bytes);
        buffer->shape = ECH_NONE;
    }
    return all;
}

static EchId queue_of_allocator(const EchSurvey *s)
{
    for (EchId i = 0; i < s->n; i++)
        if (s->ops[i].kind == ECH_OP_ALLOC && s->buffers[s->ops[i].target].memory == s->hbm)
            return s->ops[i].queue;
    return s->core;
}

static bool has_direct(const EchSurvey *s)
{
    bool has = false;
    for (EchId b = 0; b < s->n_buffers; b++)
        has |= s->buffers[b].direct;
    return has;
}

static void say(const Writer *w, EchBytes all, const char *modules, EchDiag *diag)
{
    const Shard *d = w->d;
    g_autofree char *was = ech_format_bytes(all), *is = ech_format_bytes(part_of(d, all)), *gathered = ech_format_bytes(w->gathered),
                    *summed = ech_format_bytes(w->summed);
    if (w->whole) {
        ech_diag_remark(diag,
                        "shard: optimizer state (%s) split over %u devices, weight by weight, at most %s on one, which sends the weights that it brought up to "
                        "date to all: %s",
                        was, d->over, is, gathered);
        return;
    }
    ech_diag_remark(
        diag,
        "shard: weights and optimizer state (%s), and gradients, in parts over %u devices, %s and gradients on each, as fully_shard of %s and of the model has "
        "them",
        was, d->over, is, modules);
    ech_diag_remark(diag, "shard: %s of weights are gathered and %s of gradients summed up, in the types that they have%s", gathered, summed,
                    has_direct(d->s) ? "" : "; what NCCL takes for that itself, some 300 MiB on each, is not in it");
}

static EchTrace *write_trace(const Shard *d, const EchShardOptions *o, const char *modules, EchDiag *diag, GError **error)
{
    const EchSurvey *s = d->s;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    Writer w = {.d = d,
                .keep = o->keep,
                .whole = !o->weights,
                .copied = {ECH_NONE, ECH_NONE},
                .kept_out = ECH_NONE,
                .kept_in = ECH_NONE,
                .sum = ECH_NONE,
                .seen = ECH_NONE};
    uint32_t device = ech_trace_queues(s->t)[s->core].device;
    ech_edit_init(&w.e, s, builder);
    const char *host = ech_trace_get_property(s->t, "pretended_devices");
    if (host && g_ascii_strtoull(host, NULL, 10) < d->over) /* it ran on fewer than it is to run on */
        ech_trace_builder_drop_properties(builder, "pretended_devices");
    w.allocator = queue_of_allocator(s);
    w.brings = ech_trace_builder_queue(builder, "all-gather copy-in", ECH_QUEUE_COMPUTE, device);
    w.gathers = ech_trace_builder_queue(builder, "all-gather", ECH_QUEUE_COMPUTE, device);
    w.sums = ech_trace_builder_queue(builder, w.whole ? "broadcast" : "reduce-scatter", ECH_QUEUE_COMPUTE, device);
    w.all = g_new(EchId, s->n_buffers + 1);
    memset(w.all, 0xff, (s->n_buffers + 1) * sizeof *w.all);
    w.is_summed = g_new0(bool, s->n_buffers + 1);
    w.is_updated = g_new0(bool, s->n_buffers + 1);
    w.updated = g_array_new(FALSE, FALSE, sizeof(EchId));
    w.units = g_new0(UnitState, d->units->len + 1);
    for (guint u = 0; u < d->units->len; u++)
        w.units[u].out = w.units[u].gather = w.units[u].sum = ECH_NONE;
    w.order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    EchBytes all = split_buffers(&w);
    write_ops(&w);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    if (out)
        say(&w, all, modules, diag);
    ech_edit_clear(&w.e);
    g_free(w.all);
    g_free(w.is_summed);
    g_free(w.is_updated);
    g_free(w.units);
    g_array_unref(w.updated);
    g_array_unref(w.order);
    return out;
}

static gint compare_bytes(gconstpointer a, gconstpointer b)
{
    EchBytes x = *(const EchBytes *)a, y = *(const EchBytes *)b;
    return (x < y) - (x > y);
}

/* Adds @bytes to the least of a heap. */
static void add_to_least(EchBytes *heap, uint32_t n, EchBytes bytes)
{
    uint32_t at = 0;
    heap[0] = ech_bytes_add(heap[0], bytes);
    for (uint32_t least = 1; least < n; least = 2 * at + 1) {
        least += least + 1 < n && heap[least + 1] < heap[least];
        if (heap[at] <= heap[least])
            return;
        EchBytes down = heap[at];
        heap[at] = heap[least];
        heap[least] = down;
        at = least;
    }
}

/* Each weight that is updated goes, the largest first, to the device that has least. */
static void deal_out(Shard *d)
{
    g_autoptr(GArray) weights = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    g_autofree EchBytes *heap = g_new0(EchBytes, d->over);
    EchBytes total = 0, most = 0;
    for (EchId b = 0; b < d->s->n_buffers; b++) {
        bool updated = false;
        for (uint32_t u = d->users.first[b]; d->owner[b] != 0 && u < d->users.first[b + 1]; u++)
            updated |= d->part[d->users.op[u]] == OF_OPTIMIZER;
        if (updated)
            g_array_append_val(weights, d->s->buffers[b].bytes);
    }
    g_array_sort(weights, compare_bytes);
    for (guint k = 0; k < weights->len; k++) {
        total = ech_bytes_add(total, g_array_index(weights, EchBytes, k));
        add_to_least(heap, d->over, g_array_index(weights, EchBytes, k));
    }
    for (uint32_t k = 0; k < d->over; k++)
        most = MAX(most, heap[k]);
    d->most = most;
    d->total = MAX(total, 1);
}

/* Only what optimizers have is split. */
static void keep_weights(Shard *d)
{
    deal_out(d);
    for (EchId b = 0; b < d->s->n_buffers; b++)
        d->owner[b] = d->is_gradient[b] = d->is_bucket[b] = false;
    for (EchId i = 0; i < d->s->n; i++)
        d->syncs[i] = false;
}

static bool is_split_already(const Shard *d)
{
    const EchSurvey *s = d->s;
    bool is = false;
    for (EchId i = 0; i < s->n && !is; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++)
            is |= s->ops[i].kind == ECH_OP_COLLECTIVE && s->ops[i].collective == ECH_COLLECTIVE_REDUCE_SCATTER && s->uses[u].access == ECH_WRITE &&
                  d->is_read[root_of_use(s, u)];
    return is;
}

/* Why nothing is split; NULL: it is. */
static const char *why_not(const Shard *d, bool weights)
{
    bool state = false, gradients = false, loops = false;
    for (EchId b = 0; b < d->s->n_buffers; b++) {
        state |= d->is_state[b];
        gradients |= d->is_gradient[b];
    }
    for (EchId i = 0; i < d->s->n; i++)
        loops |= d->s->ops[i].kind == ECH_OP_LOOP;
    return loops                           ? "it has loops, as no program has that runs as it is written"
           : is_split_already(d)           ? "its gradients are split over devices already"
           : d->over < 2                   ? "its gradients are not summed over devices; over=8 says of how many it is one"
           : !weights && !state            ? "its optimizer keeps no state"
           : weights && !gradients         ? "it does not say which gradients its optimizer reads"
           : weights && d->units->len <= 1 ? "it repeats no module that its operations tell, or none fits modules="
                                           : NULL;
}

EchTrace *ech_shard_modules(const EchSurvey *survey, EchTrace *trace, const EchShardOptions *options, EchDiag *diag, GError **error)
{
    const EchSurvey *s = survey;
    Shard d = {.s = s};
    g_autofree char *modules = *options->modules ? g_strdup(options->modules) : ech_modules_repeated(s->t);
    ech_users_init(&d.users, s, true, false);
    d.units = g_array_new(FALSE, FALSE, sizeof(Unit));
    g_array_set_clear_func(d.units, unit_clear);
    d.turns = g_array_new(FALSE, FALSE, sizeof(Turn));
    g_array_set_clear_func(d.turns, turn_clear);
    d.feeds = g_array_new(FALSE, FALSE, sizeof(Feed));
    d.fed = g_hash_table_new(NULL, NULL);
    d.part = g_new0(uint8_t, s->n + 1);
    d.unit = g_new0(uint32_t, s->n + 1);
    d.home = g_new0(uint32_t, s->n_buffers + 1);
    d.owner = g_new0(uint32_t, s->n_buffers + 1);
    d.first_feed = g_new(uint32_t, s->n_buffers + 1);
    memset(d.first_feed, 0xff, (s->n_buffers + 1) * sizeof *d.first_feed);
    d.alloc = g_new(EchId, s->n_buffers + 1);
    memset(d.alloc, 0xff, (s->n_buffers + 1) * sizeof *d.alloc);
    bool **of_ops[] = {&d.adds, &d.syncs},
         **of_buffers[] = {&d.is_state, &d.is_handed, &d.is_read, &d.is_gradient, &d.is_bucket, &d.is_left, &d.lasts, &d.has_parts};
    for (size_t k = 0; k < G_N_ELEMENTS(of_ops); k++)
        *of_ops[k] = g_new0(bool, s->n + 1);
    for (size_t k = 0; k < G_N_ELEMENTS(of_buffers); k++)
        *of_buffers[k] = g_new0(bool, s->n_buffers + 1);
    find_parts(&d, modules ? modules : "");
    find_allocs(&d);
    find_weights(&d);
    find_optimizers(&d, options->weights);
    find_sums(&d, options);
    const char *why = why_not(&d, options->weights);
    if (!why && options->weights) {
        find_left(&d);
        find_adds(&d);
        find_turns(&d);
    } else if (!why)
        keep_weights(&d);
    EchTrace *out = why ? ech_trace_ref(trace) : write_trace(&d, options, modules, diag, error);
    if (why)
        ech_diag_remark(diag, "shard: left the trace as it is: %s", why);
    ech_users_clear(&d.users);
    g_array_unref(d.units);
    g_array_unref(d.turns);
    g_array_unref(d.feeds);
    g_hash_table_unref(d.fed);
    for (size_t k = 0; k < G_N_ELEMENTS(of_ops); k++)
        g_free(*of_ops[k]);
    for (size_t k = 0; k < G_N_ELEMENTS(of_buffers); k++)
        g_free(*of_buffers[k]);
    void *others[] = {d.part, d.unit, d.home, d.owner, d.first_feed, d.alloc, d.launch};
    for (size_t k = 0; k < G_N_ELEMENTS(others); k++)
        g_free(others[k]);
    return out;
}
