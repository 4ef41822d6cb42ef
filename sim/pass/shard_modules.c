/* What a training step of PyTorch is made of, for devices that hold all alike to share it (shard_write.c): units of modules that are gathered at a time, and
 * their weights; gradients, and how they get from a backward pass to an optimizer: as they are, or through buckets that are summed up over devices
 * (DistributedDataParallel); what optimizers have. */
#include "sim/pass/shard.h"

#include "models/link/link.h"
#include "sim/base/hash.h"
#include "sim/pass/modules.h"
#include "sim/trace/ranges.h"

#include <string.h>

static void unit_clear(gpointer data)
{
    g_array_unref(((EchShardUnit *)data)->weights);
}

static void turn_clear(gpointer data)
{
    g_array_unref(((EchShardTurn *)data)->sources);
    g_array_unref(((EchShardTurn *)data)->targets);
}

static bool is_of_optimizer(const EchSurvey *s, EchId op)
{
    return ech_stack_is_optimizer(ech_trace_string(s->t, s->ops[op].stack));
}

bool ech_shard_is_pytorch(const EchSurvey *survey)
{
    bool any = false;
    for (EchId i = 0; i < survey->n && !any; i++)
        any = survey->ops[i].kind == ECH_OP_KERNEL && is_of_optimizer(survey, i);
    return any;
}

/* ---- what the ops are of ---- */

static uint32_t unit_of(EchShardStep *d, GHashTable *numbers, EchId op, char *const *patterns)
{
    size_t n = 0;
    const char *line = ech_modules_find(d->s, op, patterns, &n);
    if (!line)
        return ECH_SHARD_ROOT;
    g_autofree char *key = g_strndup(line, n);
    uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(numbers, key));
    if (number == 0) {
        EchShardUnit unit = {line, n, g_array_new(FALSE, FALSE, sizeof(EchId)), 0};
        number = d->units->len;
        g_array_append_val(d->units, unit);
        g_hash_table_insert(numbers, g_steal_pointer(&key), GUINT_TO_POINTER(number));
    }
    return number;
}

static void find_parts(EchShardStep *d, const char *modules)
{
    const EchSurvey *s = d->s;
    g_auto(GStrv) patterns = g_strsplit(modules, ECH_MODULES_OR, -1);
    g_autoptr(GHashTable) numbers = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    size_t n_strings = ech_trace_n_strings(s->t);
    g_autofree uint32_t *units = g_new(uint32_t, n_strings + 1); /* per stack */
    g_autofree bool *known = g_new0(bool, n_strings + 1);
    EchShardUnit root = {NULL, 0, g_array_new(FALSE, FALSE, sizeof(EchId)), 0};
    g_array_append_val(d->units, root);
    ech_modules_find_parts(s, d->part);
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_COPY && o->queue != s->core) /* what goes to the host and comes back, whenever that is */
            d->part[i] = ECH_PART_ELSE;
        else if (o->stack < n_strings && ech_op_is_work(o) && o->n_uses > 0) {
            if (!known[o->stack])
                units[o->stack] = ech_stack_has_module(ech_trace_string(s->t, o->stack)) ? unit_of(d, numbers, i, patterns) : ECH_SHARD_OUTSIDE;
            known[o->stack] = true;
            d->unit[i] = units[o->stack];
        }
    }
}

/* ---- what the arrays are ---- */

static void find_allocs(EchShardStep *d)
{
    const EchSurvey *s = d->s;
    g_autofree uint8_t *n = g_new0(uint8_t, s->n_buffers + 1);
    for (EchId b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].alias_of != ECH_NONE)
            d->has_parts[ech_survey_root(s, b)] = true;
    EchId first = ECH_NONE, last = 0; /* of what is run of modules */
    for (EchId i = 0; i < s->n; i++) {
        bool runs = d->part[i] == ECH_PART_FORWARD || d->part[i] == ECH_PART_BACKWARD;
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
static void find_weights(EchShardStep *d)
{
    const EchSurvey *s = d->s;
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        if (buffer->role != ECH_ROLE_PARAMETER || buffer->memory != s->hbm || buffer->alias_of != ECH_NONE || d->has_parts[b] || buffer->bytes == 0 ||
            !d->lasts[b])
            continue;
        uint32_t unit = ECH_SHARD_ROOT;
        bool any = false;
        for (uint32_t u = d->users.first[b]; u < d->users.first[b + 1]; u++) {
            EchId op = d->users.op[u];
            if (d->part[op] != ECH_PART_FORWARD && d->part[op] != ECH_PART_BACKWARD)
                continue;
            unit = (!any || unit == d->unit[op]) && d->unit[op] != ECH_SHARD_OUTSIDE ? d->unit[op] : ECH_SHARD_ROOT;
            any = true;
        }
        d->owner[b] = unit + 1;
        g_array_append_val(ech_shard_unit(d, unit)->weights, b);
        ech_shard_unit(d, unit)->bytes = ech_bytes_add(ech_shard_unit(d, unit)->bytes, buffer->bytes);
    }
}

static bool uses_only(const EchShardStep *d, EchId buffer, EchPart part)
{
    bool only = d->users.first[buffer + 1] > d->users.first[buffer];
    for (uint32_t u = d->users.first[buffer]; u < d->users.first[buffer + 1]; u++)
        only &= d->part[d->users.op[u]] == part;
    return only;
}

/* Whether nothing is done with @buffer but beside weights, outside of all modules: an average of them, say. */
static bool follows_weights(const EchShardStep *d, EchId buffer)
{
    const EchSurvey *s = d->s;
    bool follows = d->users.first[buffer + 1] > d->users.first[buffer] && d->lasts[buffer];
    for (uint32_t k = d->users.first[buffer]; k < d->users.first[buffer + 1] && follows; k++) {
        const EchOp *o = &s->ops[d->users.op[k]];
        bool beside = false;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            beside |= d->owner[ech_survey_used(s, u)] != 0;
        follows = beside && d->part[d->users.op[k]] == ECH_PART_ELSE;
    }
    return follows;
}

/* @copies: of weights, too. */
static void find_optimizers(EchShardStep *d, bool copies)
{
    const EchSurvey *s = d->s;
    g_autofree bool *made = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            EchId b = ech_survey_used(s, u);
            d->is_read[b] |= d->part[i] == ECH_PART_OPTIMIZER && s->uses[u].access == ECH_READ;
            made[b] |= d->part[i] == ECH_PART_BACKWARD && s->uses[u].access == ECH_WRITE;
        }
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        if (buffer->memory != s->hbm || buffer->alias_of != ECH_NONE || d->has_parts[b] || buffer->direct || buffer->bytes == 0 || d->owner[b] != 0)
            continue;
        d->is_state[b] = buffer->role == ECH_ROLE_OPTIMIZER || (copies && follows_weights(d, b));
        d->is_handed[b] = !d->is_state[b] && d->alloc[b] != ECH_NONE && uses_only(d, b, ECH_PART_OPTIMIZER);
        d->is_gradient[b] = !d->is_state[b] && (d->is_read[b] ? made[b] : buffer->resident && buffer->role == ECH_ROLE_GRADIENT);
    }
}

static bool is_hook(const EchSurvey *s, EchId op)
{
    return !ech_survey_has_products(s, op) && strstr(ech_trace_string(s->t, s->ops[op].stack), "AccumulateGrad") != NULL;
}

/* What an all-reduce sums up of @buffer are gradients: those, or what hooks at gradients bring there. */
static bool holds_gradients(const EchShardStep *d, EchId buffer)
{
    const EchSurvey *s = d->s;
    bool fed = false, only = s->buffers[buffer].memory == s->hbm && d->owner[buffer] == 0 && !d->is_state[buffer];
    for (uint32_t u = d->users.first[buffer]; u < d->users.first[buffer + 1]; u++) {
        EchId op = d->users.op[u];
        bool hooked = s->ops[op].kind != ECH_OP_COLLECTIVE && is_hook(s, op);
        fed |= hooked;
        only &= s->ops[op].kind == ECH_OP_COLLECTIVE || hooked || d->part[op] == ECH_PART_OPTIMIZER || d->part[op] == ECH_PART_ELSE ||
                (d->part[op] == ECH_PART_BACKWARD && !ech_survey_has_products(s, op));
    }
    return only && fed;
}

/* How groups of @n devices lie, @stride from one to the next. */
static char *group_text(uint32_t n, uint32_t stride)
{
    GString *text = g_string_new(NULL);
    ech_group_print(&(EchGroup){.size = n, .devices = (uint32_t)MIN((uint64_t)n * stride, UINT32_MAX), .stride = stride}, text);
    return g_string_free(text, FALSE);
}

static void find_sums(EchShardStep *d, const EchShardOptions *o)
{
    const EchSurvey *s = d->s;
    const EchOp *sum = NULL;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        if (op->kind != ECH_OP_COLLECTIVE || op->collective != ECH_COLLECTIVE_ALL_REDUCE || op->n_uses == 0)
            continue;
        EchId b = ech_survey_used(s, op->first_use);
        if (!d->is_bucket[b])
            d->is_bucket[b] = holds_gradients(d, b);
        d->syncs[i] = d->is_bucket[b] || d->is_gradient[b];
        if (d->syncs[i] && (!sum || op->memory_from > sum->memory_from))
            sum = op;
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses && d->part[i] != ECH_PART_OPTIMIZER; u++)
            d->syncs[i] |= d->is_bucket[ech_survey_used(s, u)] && ech_op_is_work(op) && (!d->is_gradient[ech_survey_used(s, u)] || is_hook(s, i));
    }
    EchGroup group = {.stride = 1};
    d->all = sum ? sum->memory_from : 0;
    d->over = o->over > 0 ? (uint32_t)o->over : d->all;
    d->groups = d->over > 0 && d->all > d->over ? d->all / d->over : 1;
    if (sum && d->all >= d->over)
        (void)ech_group_parse(ech_trace_string(s->t, sum->launch), d->all, &group);
    uint32_t stride = MAX(group.stride, 1);
    d->launch = group_text(d->over, stride);
    d->across = group_text(d->groups, stride * MAX(d->over, 1));
}

/* NCCL's buffers for all-reduces (trees, reductions by switches), beside the rings that serve all collectives and came first, where none is left. */
static void find_left(EchShardStep *d)
{
    const EchSurvey *s = d->s;
    bool summed = false, ring = false; /* the collective that comes next is a sum of gradients; there are buffers already */
    bool others = false;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        others |= o->kind == ECH_OP_COLLECTIVE && o->collective == ECH_COLLECTIVE_ALL_REDUCE && !d->syncs[i];
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && d->part[i] == ECH_PART_ELSE; u++) /* their norm */
            others |= d->is_gradient[ech_survey_used(s, u)] && !d->syncs[i] && s->uses[u].access == ECH_READ;
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

static uint32_t begin_turn(EchShardStep *d, uint32_t unit, bool backward, EchId op)
{
    EchShardTurn turn = {unit, backward, op, op, g_array_new(FALSE, FALSE, sizeof(EchId)), g_array_new(FALSE, FALSE, sizeof(EchId))};
    g_array_append_val(d->turns, turn);
    return d->turns->len;
}

static void go_forward(EchShardStep *d, Walk *w, EchId op)
{
    if (w->root == 0 || w->open[ECH_SHARD_ROOT] != 0) { /* another forward pass */
        memset(w->open, 0, d->units->len * sizeof *w->open);
        w->root = begin_turn(d, ECH_SHARD_ROOT, false, op);
        w->forward = 0;
    }
    ech_shard_turn(d, w->root - 1)->last = op;
    uint32_t unit = d->unit[op];
    if (unit == ECH_SHARD_ROOT)
        w->forward = 0;
    else if (w->forward == 0 || ech_shard_turn(d, w->forward - 1)->unit != unit)
        w->forward = begin_turn(d, unit, false, op);
    if (unit != ECH_SHARD_ROOT)
        ech_shard_turn(d, w->forward - 1)->last = op;
}

static uint32_t backward_turn(EchShardStep *d, Walk *w, uint32_t unit, EchId op)
{
    if (w->open[unit] == 0)
        w->open[unit] = begin_turn(d, unit, true, op);
    return w->open[unit] - 1;
}

/* Whether a backward pass leaves @buffer, made in it, as a gradient, or as what is added to one, or summed up over devices. */
static bool is_source(const EchShardStep *d, EchId buffer)
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

static void note_feed(EchShardStep *d, EchId bucket, uint32_t unit)
{
    EchShardFeed feed = {bucket, unit};
    if (g_hash_table_add(d->fed, GSIZE_TO_POINTER((gsize)bucket << 32 | unit)))
        g_array_append_val(d->feeds, feed);
}

/* Source @b of @turn goes on to what hooks have for it at @op. */
static void note_way(EchShardStep *d, uint32_t turn, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId to = ech_survey_used(s, u);
        if (s->uses[u].access != ECH_WRITE || !d->is_gradient[to] || d->home[to] != 0)
            continue;
        if (d->is_bucket[to])
            note_feed(d, to, ech_shard_turn(d, turn)->unit);
        else if (d->lasts[to])
            g_array_append_val(ech_shard_turn(d, turn)->targets, to);
    }
}

static void go_backward(EchShardStep *d, Walk *w, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    bool hook = d->syncs[op] || d->adds[op];
    uint32_t turn = UINT32_MAX;
    w->forward = 0;
    if (!hook && d->unit[op] != ECH_SHARD_OUTSIDE) {
        (void)backward_turn(d, w, ECH_SHARD_ROOT, op);
        turn = backward_turn(d, w, d->unit[op], op);
        ech_shard_turn(d, turn)->last = op;
    }
    if (w->open[ECH_SHARD_ROOT] != 0)
        ech_shard_turn(d, w->open[ECH_SHARD_ROOT] - 1)->last = op;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId b = ech_survey_used(s, u);
        bool reads = false, writes = false;
        if (w->holds[b] != 0 && w->holds[b] != UINT32_MAX) {
            EchShardTurn *of = ech_shard_turn(d, w->holds[b] - 1);
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
                g_array_append_val(ech_shard_turn(d, turn)->sources, b);
            }
        }
    }
}

/* Ops by which hooks add to gradients that are there: those of an earlier turn, or kept from step to step. */
static void find_adds(EchShardStep *d)
{
    const EchSurvey *s = d->s;
    g_autofree bool *there = g_new(bool, s->n_buffers + 1);
    for (EchId b = 0; b < s->n_buffers; b++)
        there[b] = s->buffers[b].resident;
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            EchId b = ech_survey_used(s, u);
            if (s->uses[u].access != ECH_WRITE || d->part[i] != ECH_PART_BACKWARD)
                continue;
            d->adds[i] |= there[b] && d->is_gradient[b] && is_hook(s, i);
            there[b] = true;
        }
}

static gint compare_feeds(gconstpointer a, gconstpointer b)
{
    const EchShardFeed *x = a, *y = b;
    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static void find_turns(EchShardStep *d)
{
    const EchSurvey *s = d->s;
    g_autofree uint32_t *open = g_new0(uint32_t, d->units->len + 1), *holds = g_new0(uint32_t, s->n_buffers + 1);
    Walk walk = {.open = open, .holds = holds};
    for (EchId i = 0; i < s->n; i++) {
        if (d->part[i] == ECH_PART_FORWARD)
            go_forward(d, &walk, i);
        else if (d->part[i] == ECH_PART_BACKWARD)
            go_backward(d, &walk, i);
        else if (d->part[i] == ECH_PART_OPTIMIZER)
            walk.forward = 0;
    }
    for (guint k = 0; k < d->turns->len; k++) { /* weights are there before what its first op makes, and go after what a forward pass lets go when it ends */
        EchShardTurn *turn = ech_shard_turn(d, k);
        while (turn->first > 0 && s->ops[turn->first - 1].kind == ECH_OP_ALLOC && !d->lasts[s->ops[turn->first - 1].target])
            turn->first--;
        while (!turn->backward && turn->last + 1 < s->n && (s->ops[turn->last + 1].kind == ECH_OP_FREE || s->ops[turn->last + 1].kind == ECH_OP_MARK))
            turn->last++;
    }
    g_array_sort(d->feeds, compare_feeds);
    for (guint k = d->feeds->len; k-- > 0;)
        d->first_feed[g_array_index(d->feeds, EchShardFeed, k).bucket] = k;
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
static void deal_out(EchShardStep *d)
{
    g_autoptr(GArray) weights = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    g_autofree EchBytes *heap = g_new0(EchBytes, d->over);
    EchBytes total = 0, most = 0;
    for (EchId b = 0; b < d->s->n_buffers; b++) {
        bool updated = false;
        for (uint32_t u = d->users.first[b]; d->owner[b] != 0 && u < d->users.first[b + 1]; u++)
            updated |= d->part[d->users.op[u]] == ECH_PART_OPTIMIZER;
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
static void keep_weights(EchShardStep *d)
{
    deal_out(d);
    for (EchId b = 0; b < d->s->n_buffers; b++)
        d->owner[b] = d->is_gradient[b] = d->is_bucket[b] = false;
    for (EchId i = 0; i < d->s->n; i++)
        d->syncs[i] = false;
}

static bool is_split_already(const EchShardStep *d)
{
    const EchSurvey *s = d->s;
    bool is = false;
    for (EchId i = 0; i < s->n && !is; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++)
            is |= s->ops[i].kind == ECH_OP_COLLECTIVE && s->ops[i].collective == ECH_COLLECTIVE_REDUCE_SCATTER && s->uses[u].access == ECH_WRITE &&
                  d->is_read[ech_survey_used(s, u)];
    return is;
}

/* Why nothing is split; NULL: it is. */
static const char *why_not(const EchShardStep *d, bool weights)
{
    bool state = false, gradients = false;
    for (EchId b = 0; b < d->s->n_buffers; b++) {
        state |= d->is_state[b];
        gradients |= d->is_gradient[b];
    }
    return ech_trace_has_op(d->s->t, ECH_OP_LOOP)      ? "it has loops, as no program has that runs as it is written"
           : is_split_already(d)                       ? "its gradients are split over devices already"
           : d->over < 2                               ? "its gradients are not summed over devices; over=8 says of how many it is one"
           : d->all % d->over != 0 && d->all > d->over ? "its gradients are summed over devices that are no multiple of over="
           : !weights && !state                        ? "its optimizer keeps no state"
           : weights && !gradients                     ? "it does not say which gradients its optimizer reads"
           : weights && d->units->len <= 1             ? "it repeats no module that its operations tell, or none fits modules="
                                                       : NULL;
}

EchTrace *ech_shard_modules(const EchSurvey *survey, EchTrace *trace, const EchShardOptions *options, EchDiag *diag, GError **error)
{
    const EchSurvey *s = survey;
    EchShardStep d = {.s = s};
    g_autofree char *modules = *options->modules ? g_strdup(options->modules) : ech_modules_repeated(s->t);
    ech_users_init(&d.users, s, true, false);
    d.units = g_array_new(FALSE, FALSE, sizeof(EchShardUnit));
    g_array_set_clear_func(d.units, unit_clear);
    d.turns = g_array_new(FALSE, FALSE, sizeof(EchShardTurn));
    g_array_set_clear_func(d.turns, turn_clear);
    d.feeds = g_array_new(FALSE, FALSE, sizeof(EchShardFeed));
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
    EchTrace *out = why ? ech_trace_ref(trace) : ech_shard_write(&d, options, modules, diag, error);
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
    void *others[] = {d.part, d.unit, d.home, d.owner, d.first_feed, d.alloc, d.launch, d.across};
    for (size_t k = 0; k < G_N_ELEMENTS(others); k++)
        g_free(others[k]);
    return out;
}
