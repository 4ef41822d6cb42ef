#include "sim/pass/modules.h"
#include "sim/pass/remat.h"

#include "sim/program/gpu_launch.h"
#include "sim/trace/meets.h"
#include "sim/trace/ranges.h"

#include <math.h>
#include <string.h>

typedef struct {
    EchRemat *r;
    const EchSurvey *s;
    EchEdit e;
    EchTraceBuilder *b;
    EchId *slice;         /* per buffer: of a chosen stack, what the loop that makes it keeps of it for an iteration, or ECH_NONE */
    uint32_t *input;      /* per buffer: the EchRematInput that stands for it now, or UINT32_MAX */
    bool *dropped;        /* per op */
    uint32_t *reads;      /* per buffer: ops left that read it */
    EchId on_chip;        /* memory */
    GArray *ends;         /* End: values, and buffers that stay longer, by where they end */
    GArray *arrays;       /* uint32_t: chosen arrays by where they come back */
    GArray *gone;         /* uint32_t: those that are let go, by where */
    GArray *loops;        /* open ones, old numbers */
    GArray *inputs;       /* EchRematInput: of the op under way */
    GArray *fused;        /* EchId: ops fused into it */
    GHashTable *launches; /* string + 1 -> EchGpuLaunch, owned: those that were read */
    EchId *again;         /* per op of a loop that is run again: its new number */
    EchId *clone;         /* per buffer: what stands there for one of the loop's own, or one that it changes, or ECH_NONE */
    bool *ran;            /* modules: per op, it ran again by now, or will */
    uint32_t *latest;     /* modules: per buffer, what it was made again as last, an EchRematValue, or UINT32_MAX */
    EchId *saved_for;     /* modules: per buffer, the op of a gradient that read it last, or ECH_NONE */
    uint32_t along;       /* kernels that ran again though nobody asks for what they make, */
    EchTime along_time;   /* and their own times */
    const char *module;   /* modules: the line of what runs again now, */
    size_t n_module;      /* its bytes; 0: nothing has yet */
    uint32_t *bound;      /* per buffer: there, the EchRematBinding of what it only reads, or UINT32_MAX */
    guint next_end, next_run, next_array, next_gone, next_place;
} Writer;

/* Something that ends in the body of a loop, or of none. */
typedef struct {
    EchId until, region;
    uint32_t value; /* UINT32_MAX: */
    EchId buffer;   /* one that stays longer */
} End;

static const EchRematArray *chosen_array(const Writer *w, EchId buffer)
{
    uint32_t k = w->r->array_of[buffer];
    return k != UINT32_MAX && ech_remat_array(w->r, k)->chosen ? ech_remat_array(w->r, k) : NULL;
}

static bool is_stacked(const Writer *w, EchId buffer)
{
    const EchRematArray *a = chosen_array(w, buffer);
    return a != NULL && a->made_in != ECH_NONE;
}

/* Whether @use of op @op is of no use any more: a write of what is not kept, or of what nobody reads. */
static bool is_idle_write(const Writer *w, const EchUse *use, EchId op)
{
    EchId root = ech_survey_root(w->s, use->buffer);
    const EchBuffer *b = &w->s->buffers[root];
    bool own = w->s->ops[op].kind == ECH_OP_KERNEL || w->s->ops[op].kind == ECH_OP_COPY;
    if ((!own && w->s->ops[op].kind != ECH_OP_COLLECTIVE) || use->access != ECH_WRITE || b->resident || b->role == ECH_ROLE_OUTPUT || w->reads[root] > 0)
        return false;
    return chosen_array(w, root) != NULL || (own && w->r->alloc[root] != ECH_NONE && w->r->free[root] != ECH_NONE);
}

static bool has_readers(const Writer *w, EchId op)
{
    bool writes = false;
    for (uint32_t u = 0; u < w->s->ops[op].n_uses; u++) {
        const EchUse *use = &w->s->uses[w->s->ops[op].first_use + u];
        if (use->access == ECH_WRITE && !is_idle_write(w, use, op))
            return true;
        writes |= use->access == ECH_WRITE;
    }
    return !writes;
}

static void count_direct(Writer *w)
{
    for (guint i = 0; i < w->inputs->len; i++) {
        const EchRematInput *input = &g_array_index(w->inputs, EchRematInput, i);
        w->reads[input->kind == ECH_REMAT_DIRECT || input->kind == ECH_REMAT_KEPT ? ech_survey_root(w->s, input->id) : w->s->n_buffers]++;
    }
}

/* What repeated ops, late users and what is stacked instead read. */
static void count_planned_reads(Writer *w)
{
    for (uint32_t k = 0; k < w->r->runs->len; k++) {
        g_array_set_size(w->inputs, 0);
        g_array_set_size(w->fused, 0);
        ech_remat_gather_run(w->r, k, w->inputs, w->fused);
        count_direct(w);
    }
    for (uint32_t k = 0; k < w->r->arrays->len; k++) {
        if (!ech_remat_array(w->r, k)->chosen)
            continue;
        g_array_set_size(w->inputs, 0);
        g_array_set_size(w->fused, 0);
        ech_remat_gather(w->r, ech_remat_input(w->r, ech_remat_array(w->r, k)->stand), w->inputs, w->fused);
        count_direct(w);
    }
    for (uint32_t k = 0; k < w->r->carries->len; k++)
        w->reads[ech_remat_carry(w->r, k)->buffer]++;
}

/* Whether @use of op @op reads what is there, not what is made again for it. */
static bool reads_kept(const Writer *w, EchId op, const EchUse *use)
{
    const EchRematArray *a = chosen_array(w, ech_survey_root(w->s, use->buffer));
    bool later = a != NULL && (a->made_in != ECH_NONE ? w->s->region[op] == a->used_in : op >= a->back);
    return use->access == ECH_READ && !later;
}

/* Per buffer that nobody reads: what begins in its place with what it held, or ECH_NONE. Owned. */
static EchId *find_heirs(const Writer *w, const bool *had)
{
    const EchSurvey *s = w->s;
    EchId *heir = g_new(EchId, s->n_buffers + 1);
    for (size_t b = 0; b <= s->n_buffers; b++)
        heir[b] = ECH_NONE;
    for (EchId i = 0; i < s->n; i++) {
        if (s->ops[i].kind != ECH_OP_ALLOC || w->r->alloc[s->ops[i].target] != i)
            continue;
        for (EchId j = i; j-- > 0 && (s->ops[j].kind == ECH_OP_FREE || s->ops[j].kind == ECH_OP_ALLOC);)
            if (s->ops[j].kind == ECH_OP_FREE && !had[s->ops[j].target] && s->region[j] == s->region[i] &&
                ech_survey_begins_in_place(s, s->ops[j].target, s->ops[i].target))
                heir[s->ops[j].target] = s->ops[i].target;
    }
    return heir;
}

/* Ops whose outputs nobody reads any more, because what they went into is made again later. */
static void drop_idle(Writer *w)
{
    const EchSurvey *s = w->s;
    g_autofree bool *had = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = 0; u < s->ops[i].n_uses; u++) {
            const EchUse *use = &s->uses[s->ops[i].first_use + u];
            EchId root = ech_survey_root(s, use->buffer);
            w->reads[root] += reads_kept(w, i, use);
            had[root] |= use->access == ECH_READ;
        }
    count_planned_reads(w);
    /* What nobody has ever read is not for this pass to take away, but with what goes on in its place. */
    g_autofree EchId *heir = find_heirs(w, had);
    for (size_t b = 0; b < s->n_buffers; b++)
        w->reads[b] += !had[b];
    /* Again where one that is gone was, around a loop, all that read what a later one makes. */
    g_autofree bool *passed = g_new0(bool, s->n + 1);
    for (bool more = true; more;) {
        more = false;
        for (EchId i = (EchId)s->n; i-- > 0;) {
            if (s->ops[i].kind == ECH_OP_FREE && !passed[i] && heir[s->ops[i].target] != ECH_NONE && w->reads[heir[s->ops[i].target]] == 0) {
                w->reads[s->ops[i].target]--;
                passed[i] = more = true;
            }
            bool can = ech_op_is_work(&s->ops[i]) && !w->dropped[i];
            if (!can || s->ops[i].n_uses == 0 || has_readers(w, i) || ech_remat_is_message(s, i))
                continue;
            w->dropped[i] = more = true;
            for (uint32_t u = 0; u < s->ops[i].n_uses; u++) {
                const EchUse *use = &s->uses[s->ops[i].first_use + u];
                w->reads[ech_survey_root(s, use->buffer)] -= reads_kept(w, i, use);
            }
        }
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_ALLOC && o->kind != ECH_OP_FREE)
            continue;
        const EchRematArray *a = chosen_array(w, o->target);
        w->dropped[i] = a != NULL && (a->made_in != ECH_NONE || i == a->free || w->reads[o->target] == 0);
        bool idle = w->reads[o->target] == 0 && w->r->users.first[o->target + 1] > w->r->users.first[o->target];
        for (uint32_t u = w->r->users.first[o->target]; u < w->r->users.first[o->target + 1] && idle; u++)
            idle = w->dropped[w->r->users.op[u]];
        w->dropped[i] |= idle || (o->kind == ECH_OP_FREE && w->r->longer_of[o->target] != UINT32_MAX);
    }
}

/* Copies of slices that are made again in that place, and where they would go. */
static void drop_copies(Writer *w)
{
    const EchSurvey *s = w->s;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        uint32_t left = 0, written = 0;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            EchId copy = s->uses[u].buffer, stack = s->uses[u].access == ECH_WRITE ? w->r->slice_of[copy] : ECH_NONE;
            const EchRematArray *a = stack != ECH_NONE ? chosen_array(w, stack) : NULL;
            written += s->uses[u].access == ECH_WRITE;
            if (a == NULL || ech_remat_left_out(w->r, a, i) != copy)
                continue;
            left++;
            w->dropped[w->r->alloc[copy]] = w->dropped[w->r->free[copy]] = true;
            w->input[copy] = a->stand;
        }
        w->dropped[i] |= left > 0 && left == written;
    }
}

static void depend(Writer *w, EchId op)
{
    if (op != ECH_NONE && ech_trace_builder_peek_op(w->b, op)->queue != ech_trace_builder_peek_op(w->b, (EchId)ech_trace_builder_n_ops(w->b) - 1)->queue)
        ech_trace_builder_dep(w->b, op, 0);
}

static EchId made_for(const Writer *w, const EchRematInput *input, EchId *ret_by)
{
    *ret_by = ECH_NONE;
    switch (input->kind) {
    case ECH_REMAT_VALUE: *ret_by = ech_remat_value(w->r, input->id)->made_by; return ech_remat_value(w->r, input->id)->made;
    case ECH_REMAT_CARRY: return ech_remat_carry(w->r, input->id)->made;
    case ECH_REMAT_KEPT:
    case ECH_REMAT_DIRECT: break;
    }
    return input->id;
}

/* A kernel's estimate is that of all that it moved. One that takes about as long as its bytes do takes less or more where they are less or more, down to what
 * its operations take. Others take less by what of their bytes' time did not hide behind their operations: all of it where the estimate is both times and
 * more, none where it is the longer of the two. With more bytes they take as long as before, or as long as their bytes do now. */
static EchTime estimate_moving(const EchSurvey *s, EchId op, EchBytes moved)
{
    EchTime whole = s->ops[op].estimate, before = ech_survey_hbm_time(s, ech_survey_moved(s, op)), now = ech_survey_hbm_time(s, moved);
    if (whole == ECH_TIME_NONE)
        return whole;
    EchTime work = ech_survey_work_time(s, op);
    if (before > 0 && before >= whole / 2)
        return MAX((EchTime)((double)whole * ((double)now / (double)before)), MIN(whole, work));
    if (now >= before)
        return MAX(whole, now);
    EchTime longer = MAX(before, work), shorter = MIN(before, work), apart = CLAMP(whole - longer, 0, shorter), rest = MAX(whole - longer - apart, 0);
    double share = shorter > 0 ? (double)apart / (double)shorter : 0;
    return MIN(whole, ech_time_add(ech_time_add(MAX(now, work), ech_time_round(floor(share * (double)MIN(now, work)))), rest));
}

static bool is_in_hbm(const Writer *w, EchId buffer)
{
    return ech_trace_builder_peek_buffer(w->b, buffer)->memory == w->s->hbm;
}

/* No more than @buffer has; traffic of unknown place is of none that has a size. */
static EchBytes bytes_within(const Writer *w, EchId buffer, EchBytes bytes)
{
    EchBytes whole = ech_trace_builder_peek_buffer(w->b, buffer)->bytes;
    return whole > 0 ? MIN(bytes, whole) : bytes;
}

/* Appends what stands for the inputs to the last op's uses, and the work of what is fused into it; bytes that this moves from HBM. */
static EchBytes put_inputs(Writer *w)
{
    EchBytes moved = 0;
    for (guint k = 0; k < w->inputs->len; k++) {
        const EchRematInput *input = &g_array_index(w->inputs, EchRematInput, k);
        EchId by, buffer = made_for(w, input, &by);
        EchBytes bytes = bytes_within(w, buffer, input->bytes);
        ech_trace_builder_use(w->b, buffer, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
        depend(w, by);
        moved = ech_bytes_add(moved, is_in_hbm(w, buffer) ? bytes : 0);
    }
    for (guint k = 0; k < w->fused->len; k++)
        ech_edit_work(&w->e, g_array_index(w->fused, EchId, k), 1);
    return moved;
}

/* How an op is launched; NULL where nothing says. */
static const EchGpuLaunch *launch_of(const Writer *w, EchId op)
{
    EchId text = w->s->ops[op].launch;
    EchGpuLaunch *known = text != ECH_NONE ? g_hash_table_lookup(w->launches, GUINT_TO_POINTER(text + 1)) : NULL, launch;
    if (known != NULL || text == ECH_NONE || !ech_gpu_launch_parse(ech_trace_string(w->s->t, text), &launch))
        return known;
    known = g_memdup2(&launch, sizeof launch);
    g_hash_table_insert(w->launches, GUINT_TO_POINTER(text + 1), known);
    return known;
}

/* Arrays of at least a byte for each element of @launch that the last op reads. */
static uint64_t arrays_read(const Writer *w, const EchGpuLaunch *launch)
{
    const EchOp *now = ech_trace_builder_peek_op(w->b, (EchId)ech_trace_builder_n_ops(w->b) - 1);
    uint64_t n = 0;
    for (uint32_t u = 0; u < now->n_uses; u++) {
        const EchUse *use = ech_trace_builder_peek_use(w->b, now->first_use + u);
        n += use->access == ECH_READ && launch->elements > 0 && use->bytes >= launch->elements;
    }
    return n;
}

/* The last op, which was @op, also does what is fused into it: issues its instructions on a GPU; elsewhere it takes no less than the units do for all of it. */
static void take_in(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    EchOp *now = ech_trace_builder_peek_op(w->b, (EchId)ech_trace_builder_n_ops(w->b) - 1);
    EchTime work = ech_survey_work_time(s, op), more = 0;
    if (w->fused->len == 0)
        return;
    const EchGpuLaunch *was = launch_of(w, op), *inside;
    EchGpuLaunch launch = was != NULL ? *was : (EchGpuLaunch){0};
    for (guint k = 0; k < w->fused->len; k++) {
        EchId of = g_array_index(w->fused, EchId, k);
        more = ech_time_add(more, ech_survey_work_time(s, of));
        if (was != NULL && (inside = launch_of(w, of)) != NULL)
            ech_gpu_launch_take_in(&launch, inside);
    }
    if (now->estimate != ECH_TIME_NONE)
        now->estimate = MAX(now->estimate, MIN(ech_time_add(work, more), ech_time_add(now->estimate, more)));
    if (was == NULL)
        return;
    if (launch.kind == ECH_GPU_SOFTMAX_WARP && was->kind != launch.kind)
        ech_gpu_launch_fit_rows(&launch, arrays_read(w, &launch), was->kind == ECH_GPU_ELEMENTWISE);
    g_autofree char *text = ech_gpu_launch_change(ech_trace_string(s->t, s->ops[op].launch), &launch);
    EchId printed = ech_trace_builder_string(w->b, text, -1);
    ech_trace_builder_peek_op(w->b, (EchId)ech_trace_builder_n_ops(w->b) - 1)->launch = printed;
}

static EchId make_buffer(Writer *w, EchId like, EchBytes bytes, EchId region)
{
    EchBuffer made = *ech_trace_builder_peek_buffer(w->b, like);
    made.memory = w->s->hbm;
    made.resident = 0;
    made.rounded = 0;
    made.offset = made.address = ECH_OFFSET_NONE;
    made.pool = made.segment = made.alias_of = ECH_NONE;
    made.alias_offset = 0;
    if (made.bytes != bytes) {
        made.bytes = bytes;
        made.dense = 0;
        made.shape = ECH_NONE;
    }
    made.loop = region == ECH_NONE ? ECH_NONE : w->e.map[region];
    return ech_trace_builder_buffer(w->b, made);
}

static void free_values(Writer *w, uint32_t run)
{
    const EchRematRun *at = ech_remat_run(w->r, run);
    for (uint32_t v = at->value; v != UINT32_MAX; v = ech_remat_value(w->r, v)->next)
        if (ech_remat_value(w->r, v)->last_run == run && ech_remat_value(w->r, v)->until <= at->site) {
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, ech_remat_value(w->r, v)->made);
            ech_remat_value(w->r, v)->made = ECH_NONE;
        }
    for (guint i = 0; i < w->inputs->len; i++) {
        const EchRematInput *input = &g_array_index(w->inputs, EchRematInput, i);
        EchRematValue *v = input->kind == ECH_REMAT_VALUE ? ech_remat_value(w->r, input->id) : NULL;
        if (v != NULL && v->region == at->region && v->run != run && v->last_run == run && v->until <= at->site && v->made != ECH_NONE) {
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, v->made);
            v->made = ECH_NONE;
        }
    }
}

/* ---- operators ---- */

/* Operators that the host begins for torch.utils.checkpoint itself: for each array that a module saves when it runs again detach(), once or thrice (3.7 on
 * average), and three calls of Python, each as long as 1.5 (traces/capture/pretend/python/pretend_saved.py); of what is saved, kernels of gradients are seen to
 * read one of two (a Llama, a ViT, a BERT and a GPT-2, PyTorch 2.11 and 2.15). And for a call, whose random numbers are to be the same. */
enum { FOR_SAVED = 17, FOR_CALL = 3 };

/* @now, which is what op @op becomes, has @more operators begun for it. */
static void begin_more(Writer *w, EchOp *now, EchId op, uint64_t more)
{
    if (more > 0)
        ech_edit_operators(&w->e, now, ech_op_operators(w->s->t, &w->s->ops[op]) + more);
}

/* The module that runs again which op @op is of, its line of *@ret_n bytes; NULL. */
static const char *module_of(const Writer *w, EchId op, size_t *ret_n)
{
    return w->r->modules != NULL && !w->r->in_graph ? ech_modules_find(w->s, op, w->r->modules, ret_n) : NULL;
}

/* Where the first op of a module's call runs again. */
static uint64_t for_call(Writer *w, EchId op)
{
    size_t n;
    const char *module = module_of(w, op, &n);
    if (module == NULL || (w->n_module == n && strncmp(w->module, module, n) == 0))
        return 0;
    w->module = module;
    w->n_module = n;
    return FOR_CALL;
}

/* Of what @op of such a module reads for its gradient: what was saved, each once for a gradient. */
static uint64_t for_saved(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    size_t n;
    uint64_t saved = 0;
    if (o->kind != ECH_OP_KERNEL || module_of(w, op, &n) == NULL || !ech_modules_is_backward(s, op))
        return 0;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId buffer = ech_survey_root(s, s->uses[u].buffer);
        bool weight = s->buffers[buffer].bytes > 0 && (s->buffers[buffer].resident || s->buffers[buffer].role == ECH_ROLE_PARAMETER);
        if (s->uses[u].access != ECH_READ || (!weight && w->input[s->uses[u].buffer] == UINT32_MAX))
            continue;
        saved += w->saved_for[buffer] == ECH_NONE || !ech_modules_same_gradient(s, w->saved_for[buffer], op);
        w->saved_for[buffer] = op;
    }
    return saved * FOR_SAVED;
}

static EchOp op_again(Writer *w, EchId op)
{
    EchOp again = ech_edit_op(&w->e, op);
    begin_more(w, &again, op, for_call(w, op));
    if (again.kind == ECH_OP_COLLECTIVE && again.launch != ECH_NONE) {
        g_autofree char *launch = ech_meets_again(ech_trace_builder_peek_string(w->b, again.launch));
        again.launch = ech_trace_builder_string(w->b, launch, -1);
    }
    again.recorded.start = ECH_TIME_NONE;
    /* As in what torch.utils.checkpoint records: a module's forward pass within the backward one. */
    const char *stack = again.stack != ECH_NONE ? ech_trace_builder_peek_string(w->b, again.stack) : "";
    if (ech_stack_has_module(stack) && !ech_stack_is_backward(stack)) {
        g_autofree char *within = g_strconcat(stack, "\n" ECH_RANGE_BACKWARD "torch.utils.checkpoint", NULL);
        again.stack = ech_trace_builder_string(w->b, within, -1);
    }
    return again;
}

/* A forward pass does not keep it for the backward one: roles as they are of what torch.utils.checkpoint records. */
static void keep_no_more(EchBuffer *buffer)
{
    if (buffer->role == ECH_ROLE_ACTIVATION)
        buffer->role = ECH_ROLE_TEMPORARY;
}

static EchId make_value(Writer *w, const EchRematValue *value)
{
    if (value->over != UINT32_MAX) {
        EchRematValue *before = ech_remat_value(w->r, value->over);
        EchId made = before->made;
        before->made = ECH_NONE;
        return made;
    }
    EchId made = make_buffer(w, value->buffer, value->bytes, value->region);
    EchBuffer *buffer = ech_trace_builder_peek_buffer(w->b, made);
    keep_no_more(buffer);
    if (value->offset != ECH_OFFSET_NONE) {
        buffer->memory = w->on_chip;
        buffer->offset = value->offset;
    }
    (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, made);
    return made;
}

/* What a loop that runs again changes is there, as it was when the loop began at first. */
static void begin_changed(Writer *w, uint32_t index, const EchRematBinding *binding)
{
    EchRematValue *value = ech_remat_value(w->r, binding->value), *over = ech_remat_taken_over(w->r, index, binding);
    over = over != NULL && over->offset == ECH_OFFSET_NONE ? over : NULL;
    if (over != NULL) {
        value->made = over->made;
        value->offset = ECH_OFFSET_NONE;
        over->made = ECH_NONE;
        return;
    }
    value->made = make_value(w, value);
    if (binding->n_inputs == 0)
        return;
    EchOp o = ech_op_init(ECH_OP_KERNEL);
    o.name = ech_trace_builder_peek_buffer(w->b, value->made)->name;
    o.stack = ech_trace_builder_peek_buffer(w->b, value->made)->stack;
    o.queue = w->s->core;
    w->e.last_core = ech_trace_builder_op(w->b, o);
    g_array_set_size(w->inputs, 0);
    g_array_append_vals(w->inputs, ech_remat_input(w->r, binding->first_input), binding->n_inputs);
    (void)put_inputs(w);
    ech_trace_builder_use(w->b, value->made, ECH_WRITE, value->bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
}

/* A buffer that an iteration has of its own. */
static EchId make_own(Writer *w, uint32_t index, EchId buffer)
{
    const EchSurvey *s = w->s;
    EchId made = make_buffer(w, buffer, s->buffers[buffer].bytes, ECH_NONE);
    EchBuffer *b = ech_trace_builder_peek_buffer(w->b, made);
    b->loop = w->again[s->buffers[buffer].loop];
    if (ech_survey_is_host(s, s->buffers[buffer].memory))
        b->memory = s->buffers[buffer].memory;
    for (guint k = w->next_place; k < w->r->places->len && g_array_index(w->r->places, EchRematPlace, k).run == index; k++)
        if (g_array_index(w->r->places, EchRematPlace, k).buffer == buffer) {
            b->memory = w->on_chip;
            b->offset = g_array_index(w->r->places, EchRematPlace, k).offset;
        }
    return made;
}

/* Appends @use of an op in a loop that runs again to the last op's, of a copy from one place; returns the bytes of device memory. */
static EchBytes use_again(Writer *w, const EchUse *use, bool copies)
{
    EchId root = ech_survey_root(w->s, use->buffer), clone = w->clone[root];
    const EchRematBinding *bound = w->bound[root] != UINT32_MAX ? ech_remat_binding(w->r, w->bound[root]) : NULL;
    EchBytes moved = 0;
    uint32_t n = clone != ECH_NONE ? 1 : copies ? MIN(bound->n_inputs, 1) : bound->n_inputs;
    for (uint32_t k = 0; k < n; k++) {
        const EchRematInput *input = clone != ECH_NONE ? NULL : ech_remat_input(w->r, bound->first_input + k);
        EchId by, buffer = input == NULL ? clone : made_for(w, input, &by);
        EchBytes bytes = bytes_within(w, buffer, input == NULL ? use->bytes : MIN(use->bytes, input->bytes));
        ech_trace_builder_use(w->b, buffer, (EchAccess)use->access, bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
        moved = ech_bytes_add(moved, is_in_hbm(w, buffer) ? bytes : 0);
    }
    return moved;
}

/* An op of the body of a loop that runs again. */
static void put_again(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    EchId made = w->again[op] = ech_trace_builder_op(w->b, op_again(w, op));
    EchBytes moved = 0;
    bool copies = o->kind == ECH_OP_COPY;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        if (copies && u > o->first_use && ech_trace_builder_peek_op(w->b, made)->n_uses == 0) /* a small thing's source is not followed */
            break;
        moved = ech_bytes_add(moved, use_again(w, &s->uses[u], copies));
    }
    const EchOp *now = ech_trace_builder_peek_op(w->b, made);
    if (copies && now->n_uses == 2) {
        EchId from = ech_trace_builder_peek_use(w->b, now->first_use)->buffer, to = ech_trace_builder_peek_use(w->b, now->first_use + 1)->buffer;
        ech_trace_builder_peek_op(w->b, made)->memory_from = ech_trace_builder_peek_buffer(w->b, from)->memory;
        ech_trace_builder_peek_op(w->b, made)->memory_to = ech_trace_builder_peek_buffer(w->b, to)->memory;
    }
    for (uint32_t d = o->first_dep; d < o->first_dep + o->n_deps; d++)
        if (w->again[s->deps[d].op] != ECH_NONE)
            ech_trace_builder_dep(w->b, w->again[s->deps[d].op], s->deps[d].distance);
    ech_edit_work(&w->e, op, 1);
    if (moved != ech_survey_moved(s, op))
        ech_trace_builder_peek_op(w->b, made)->estimate = estimate_moving(s, op, moved);
}

static void put_body_again(Writer *w, uint32_t index)
{
    const EchSurvey *s = w->s;
    EchId loop = ech_remat_run(w->r, index)->op;
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = loop; i <= s->end[loop]; i++) {
        while (open->len > 0 && s->end[g_array_index(open, EchId, open->len - 1)] == i) {
            ech_edit_close(&w->e, w->again[g_array_index(open, EchId, open->len - 1)]);
            g_array_set_size(open, open->len - 1);
        }
        if (i == s->end[loop])
            return;
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_ALLOC && o->kind != ECH_OP_FREE) {
            put_again(w, i);
            if (o->kind == ECH_OP_LOOP)
                g_array_append_val(open, i);
            continue;
        }
        if (w->clone[o->target] == ECH_NONE && ech_remat_is_inside(s, o->target, loop))
            w->clone[o->target] = make_own(w, index, o->target);
        if (w->clone[o->target] != ECH_NONE)
            w->again[i] = ech_edit_memory(&w->e, (EchOpKind)o->kind, w->clone[o->target]);
    }
}

/* The core waits for what a loop is given by others: its body need not. */
static void wait_for_inputs(Writer *w, const EchRematRun *run)
{
    EchId wait = ECH_NONE;
    for (uint32_t i = run->first_input; i < run->first_input + run->n_inputs; i++) {
        EchId by;
        (void)made_for(w, ech_remat_input(w->r, i), &by);
        if (by == ECH_NONE || ech_trace_builder_peek_op(w->b, by)->queue == w->s->core)
            continue;
        if (wait == ECH_NONE) {
            EchOp o = ech_op_init(ECH_OP_WAIT);
            o.queue = w->s->core;
            o.name = ech_trace_builder_peek_op(w->b, by)->name;
            wait = ech_trace_builder_op(w->b, o);
        }
        ech_trace_builder_dep(w->b, by, 0);
    }
}

static void run_loop_again(Writer *w, uint32_t index)
{
    const EchSurvey *s = w->s;
    const EchRematRun *run = ech_remat_run(w->r, index);
    wait_for_inputs(w, run);
    for (uint32_t k = run->first_binding; k < run->first_binding + run->n_bindings; k++) {
        const EchRematBinding *binding = ech_remat_binding(w->r, k);
        if (binding->value == UINT32_MAX) {
            w->bound[binding->buffer] = k;
            continue;
        }
        begin_changed(w, index, binding);
        w->clone[binding->buffer] = ech_remat_value(w->r, binding->value)->made;
    }
    while (w->next_place < w->r->places->len && g_array_index(w->r->places, EchRematPlace, w->next_place).run != index)
        w->next_place++;
    put_body_again(w, index);
    w->e.last_core = w->again[run->op];
    for (uint32_t v = run->value; v != UINT32_MAX; v = ech_remat_value(w->r, v)->next)
        ech_remat_value(w->r, v)->made_by = w->again[run->op];
    for (uint32_t k = run->first_binding; k < run->first_binding + run->n_bindings; k++) {
        w->bound[ech_remat_binding(w->r, k)->buffer] = UINT32_MAX;
        w->clone[ech_remat_binding(w->r, k)->buffer] = ECH_NONE;
    }
    for (EchId i = run->op; i < s->end[run->op]; i++) {
        w->again[i] = ECH_NONE;
        if (s->ops[i].kind == ECH_OP_ALLOC || s->ops[i].kind == ECH_OP_FREE)
            w->clone[s->ops[i].target] = ECH_NONE;
    }
    g_array_set_size(w->inputs, 0);
    g_array_set_size(w->fused, 0);
    ech_remat_gather_run(w->r, index, w->inputs, w->fused);
    free_values(w, index);
}

/* Bytes that the op writes of a value that it makes. */
static EchBytes written(const Writer *w, const EchRematValue *value)
{
    return MIN(value->bytes, ech_remat_written(w->r, value->op, value->buffer));
}

static void run_again(Writer *w, uint32_t index)
{
    const EchSurvey *s = w->s;
    const EchRematRun *run = ech_remat_run(w->r, index);
    const EchOp *o = &s->ops[run->op];
    EchBytes moved = 0;
    if (run->fused)
        return;
    if (o->kind == ECH_OP_LOOP) {
        run_loop_again(w, index);
        return;
    }
    for (uint32_t v = run->value; v != UINT32_MAX; v = ech_remat_value(w->r, v)->next) {
        EchRematValue *value = ech_remat_value(w->r, v);
        value->made = make_value(w, value);
        moved = ech_bytes_add(moved, is_in_hbm(w, value->made) ? written(w, value) : 0);
    }
    EchId made = ech_trace_builder_op(w->b, op_again(w, run->op));
    g_array_set_size(w->inputs, 0);
    g_array_set_size(w->fused, 0);
    ech_remat_gather_run(w->r, index, w->inputs, w->fused);
    moved = ech_bytes_add(moved, put_inputs(w));
    for (uint32_t v = run->value; v != UINT32_MAX; v = ech_remat_value(w->r, v)->next) {
        ech_remat_value(w->r, v)->made_by = made;
        if (w->latest != NULL)
            w->latest[ech_survey_root(s, ech_remat_value(w->r, v)->buffer)] = v;
        ech_trace_builder_use(w->b, ech_remat_value(w->r, v)->made, ECH_WRITE, written(w, ech_remat_value(w->r, v)), ECH_PATTERN_STREAM, ECH_INFERRED);
    }
    if (w->e.last_core != ECH_NONE)
        depend(w, w->e.last_core);
    ech_edit_work(&w->e, run->op, 1);
    ech_trace_builder_peek_op(w->b, made)->estimate = estimate_moving(s, run->op, moved);
    take_in(w, run->op);
    if (o->queue == s->core)
        w->e.last_core = made;
    free_values(w, index);
}

/* ---- all of a module ---- */

/* What stands for @buffer where its module runs again, before op @site: what was made again, or what is there; else another one, of @temporaries. */
static EchId stand_along(Writer *w, EchId buffer, EchId site, GArray *temporaries)
{
    const EchSurvey *s = w->s;
    EchId root = ech_survey_root(s, buffer), alloc = w->r->alloc[root], free = w->r->free[root];
    const EchRematValue *value = w->latest[root] != UINT32_MAX ? ech_remat_value(w->r, w->latest[root]) : NULL;
    bool there = s->buffers[root].resident || (alloc != ECH_NONE && alloc < site && (free == ECH_NONE || free >= site) && chosen_array(w, root) == NULL);
    if (value != NULL && value->made != ECH_NONE)
        return value->made;
    if (there || s->buffers[root].bytes == 0)
        return buffer;
    EchId made = make_buffer(w, root, s->buffers[root].bytes, ECH_NONE);
    keep_no_more(ech_trace_builder_peek_buffer(w->b, made));
    (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, made);
    g_array_append_val(temporaries, made);
    return made;
}

static void put_along(Writer *w, EchId op, EchId site)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    g_autoptr(GArray) stands = g_array_new(FALSE, FALSE, sizeof(EchId)), temporaries = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId stand = stand_along(w, s->uses[u].buffer, site, temporaries);
        g_array_append_val(stands, stand);
    }
    EchId made = ech_trace_builder_op(w->b, op_again(w, op));
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        EchId stand = g_array_index(stands, EchId, u);
        ech_trace_builder_use(w->b, stand, (EchAccess)use->access, bytes_within(w, stand, use->bytes), (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    if (w->e.last_core != ECH_NONE)
        depend(w, w->e.last_core);
    ech_edit_work(&w->e, op, 1);
    w->e.last_core = made;
    for (guint k = 0; k < temporaries->len; k++)
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, g_array_index(temporaries, EchId, k));
    w->ran[op] = true;
    w->along++;
    w->along_time = ech_time_add(w->along_time, ech_survey_length(s, op));
}

/* The other kernels of one call of a library (cuDNN's convolution between channels first and last), which is known to use arrays as a whole. */
static void run_parts(Writer *w, EchId op, EchId site)
{
    const EchSurvey *s = w->s;
    for (EchId i = op + 1; i < s->n && s->ops[i].kind == ECH_OP_KERNEL && s->ops[i].queue == s->core && s->ops[i].stack == s->ops[op].stack; i++) {
        bool known = false;
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++)
            known |= s->buffers[s->uses[u].buffer].bytes > 0;
        if (known || w->ran[i])
            return;
        put_along(w, i, site);
    }
}

/* Whether @op brings fully_shard's weights, which come once more as it is. */
static bool is_gathering(const EchSurvey *s, EchId op)
{
    return strstr(ech_trace_string(s->t, s->ops[op].stack), "FSDP::all_gather") != NULL;
}

/* Whether the host waits for the device in @op, as where it has to know how much a mask picks. */
static bool is_for_device(const EchSurvey *s, EchId op)
{
    const EchOp *o = &s->ops[op];
    bool on_host = o->queue != ECH_NONE && ech_trace_queues(s->t)[o->queue].kind == ECH_QUEUE_HOST;
    return o->kind == ECH_OP_WAIT && on_host && o->n_deps > 0 && o->target == ECH_NONE && o->launch == ECH_NONE;
}

static void wait_again(Writer *w, EchId op)
{
    EchId wait = ech_trace_builder_op(w->b, ech_edit_op(&w->e, op));
    depend(w, w->e.last_core);
    w->e.last_core = wait; /* what comes next is asked for when that is over */
    w->ran[op] = true;
}

/* What torch.utils.checkpoint runs again before op @op of a module, whoever asks for it: kernels of that call that lie before it, behind the last that ran, and
 * what the host waits for there. */
static void run_along(Writer *w, EchId op, EchId site)
{
    const EchSurvey *s = w->s;
    size_t n, n_other;
    const char *module = ech_modules_find(s, op, w->r->modules, &n);
    EchId first = op;
    for (EchId i = op; module != NULL && i-- > 0;) {
        if (!ech_op_is_work(&s->ops[i]) || s->ops[i].queue != s->core)
            continue;
        const char *other = ech_modules_find(s, i, w->r->modules, &n_other);
        if (other == NULL || n_other != n || strncmp(other, module, n) != 0 || ech_modules_is_backward(s, i) || s->region[i] != ECH_NONE)
            break;
        first = i;
        if (w->ran[i])
            break;
    }
    for (EchId i = first; i < op; i++) {
        bool kernel = s->ops[i].kind == ECH_OP_KERNEL && s->ops[i].queue == s->core && !w->ran[i];
        if (kernel && (w->r->asked.products || !ech_survey_has_products(s, i)) && !is_gathering(s, i))
            put_along(w, i, site);
        else if (is_for_device(s, i) && !w->ran[i] && w->e.last_core != ECH_NONE)
            wait_again(w, i);
    }
}

/* A kernel that stacks what an iteration begins with, or makes. */
static void stack_carry(Writer *w, const EchRematCarry *carry)
{
    EchOp o = ech_op_init(ECH_OP_KERNEL);
    o.name = ech_trace_builder_peek_buffer(w->b, carry->buffer)->name;
    o.stack = ech_trace_builder_peek_buffer(w->b, carry->buffer)->stack;
    o.queue = w->s->core;
    w->e.last_core = ech_trace_builder_op(w->b, o);
    ech_trace_builder_use(w->b, carry->buffer, ECH_READ, w->s->buffers[carry->buffer].bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(w->b, carry->made, ECH_WRITE, carry->bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
}

/* Whether @use of op @op is of a copy of a slice that is made again in its place. */
static bool is_left_out(const Writer *w, EchId op, const EchUse *use)
{
    EchId stack = w->r->slice_of[use->buffer] != ECH_NONE || use->access == ECH_WRITE ? w->r->slice_of[use->buffer] : use->buffer;
    const EchRematArray *a = stack != ECH_NONE ? chosen_array(w, stack) : NULL;
    return a != NULL && ech_remat_left_out(w->r, a, op) != ECH_NONE;
}

/* What stands for what @use reads: as much of it as that read, a loop's slice of an array that was made again whole, say. */
static void gather_use(Writer *w, const EchUse *use)
{
    EchRematInput input = *ech_remat_input(w->r, w->input[use->buffer]);
    bool fused = input.kind == ECH_REMAT_VALUE && ech_remat_run(w->r, ech_remat_value(w->r, input.id)->run)->fused;
    if (use->access == ECH_READ && !fused)
        input.bytes = MIN(input.bytes, use->bytes);
    ech_remat_gather(w->r, &input, w->inputs, w->fused);
}

static void put(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    /* A stack that its own loop reads too has a slice there. */
    for (uint32_t u = 0; u < o->n_uses; u++) {
        EchId buffer = s->uses[o->first_use + u].buffer;
        if (is_stacked(w, buffer) && w->slice[buffer] == ECH_NONE && w->input[buffer] == UINT32_MAX && !is_idle_write(w, &s->uses[o->first_use + u], op) &&
            s->region[op] != ECH_NONE) {
            w->slice[buffer] = make_buffer(w, buffer, ech_remat_array(w->r, w->r->array_of[buffer])->slice, s->region[op]);
            (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, w->slice[buffer]);
        }
    }
    EchOp now = ech_edit_op(&w->e, op);
    begin_more(w, &now, op, for_saved(w, op));
    w->e.map[op] = ech_trace_builder_op(w->b, now);
    g_array_set_size(w->inputs, 0);
    g_array_set_size(w->fused, 0);
    for (uint32_t u = 0; u < o->n_uses; u++)
        if (w->input[s->uses[o->first_use + u].buffer] != UINT32_MAX && !is_left_out(w, op, &s->uses[o->first_use + u]))
            gather_use(w, &s->uses[o->first_use + u]);
    EchBytes moved = put_inputs(w);
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        if (is_idle_write(w, use, op) || w->input[use->buffer] != UINT32_MAX)
            continue;
        EchId buffer = w->slice[use->buffer] != ECH_NONE ? w->slice[use->buffer] : use->buffer;
        EchBytes bytes = bytes_within(w, buffer, use->bytes);
        ech_trace_builder_use(w->b, buffer, (EchAccess)use->access, bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
        moved = ech_bytes_add(moved, is_in_hbm(w, buffer) ? bytes : 0);
    }
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(&w->e, &s->deps[o->first_dep + d], 0);
    ech_edit_work(&w->e, op, 1);
    if (moved != ech_survey_moved(s, op))
        ech_trace_builder_peek_op(w->b, w->e.map[op])->estimate = estimate_moving(s, op, moved);
    take_in(w, op);
    if (o->queue == s->core)
        w->e.last_core = w->e.map[op];
}

static EchId open_loop(const Writer *w)
{
    return w->loops->len > 0 ? g_array_index(w->loops, EchId, w->loops->len - 1) : ECH_NONE;
}

/* What ends before op @i in the body that is open. */
static void run_ends(Writer *w, EchId i)
{
    for (; w->next_end < w->ends->len; w->next_end++) {
        const End *e = &g_array_index(w->ends, End, w->next_end);
        if (e->until != i || e->region != open_loop(w))
            return;
        if (e->value == UINT32_MAX) {
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, e->buffer);
            continue;
        }
        EchRematValue *v = ech_remat_value(w->r, e->value);
        if (v->made == ECH_NONE || v->until <= ech_remat_run(w->r, v->last_run)->site)
            continue;
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, v->made);
        v->made = ECH_NONE;
    }
}

static void close_loops(Writer *w, EchId i)
{
    run_ends(w, i);
    while (w->loops->len > 0 && w->s->end[open_loop(w)] == i) {
        EchId loop = open_loop(w);
        for (guint k = 0; k < w->r->arrays->len; k++) {
            const EchRematArray *a = ech_remat_array(w->r, k);
            if (a->made_in != loop || w->slice[a->buffer] == ECH_NONE)
                continue;
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, w->slice[a->buffer]);
            w->slice[a->buffer] = ECH_NONE;
        }
        ech_edit_close(&w->e, w->e.map[loop]);
        g_array_set_size(w->loops, w->loops->len - 1);
        for (guint k = 0; k < w->r->carries->len; k++)
            if (ech_remat_carry(w->r, k)->used_in == loop)
                (void)ech_edit_memory(&w->e, ECH_OP_FREE, ech_remat_carry(w->r, k)->made);
        run_ends(w, i);
    }
}

/* What comes before op @i: arrays let go, ops that run again, and what stands for arrays from there on. */
static void come_before(Writer *w, EchId i)
{
    for (guint k = 0; k < w->r->carries->len; k++) {
        EchRematCarry *carry = ech_remat_carry(w->r, k);
        if (carry->made_in == i) {
            EchId level = w->s->region[i];
            carry->made = make_buffer(w, carry->buffer, ech_bytes_mul(carry->bytes, w->s->ops[i].bytes), level);
            (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, carry->made);
        } else if ((carry->after == ECH_NONE ? carry->made_in + 1 : ech_survey_after(w->s, carry->after)) == i)
            stack_carry(w, carry);
    }
    for (; w->next_run < w->r->order->len; w->next_run++) {
        uint32_t run = g_array_index(w->r->order, uint32_t, w->next_run);
        if (ech_remat_run(w->r, run)->site != i)
            break;
        if (w->ran != NULL)
            run_along(w, ech_remat_run(w->r, run)->op, i);
        run_again(w, run);
        if (w->ran != NULL)
            run_parts(w, ech_remat_run(w->r, run)->op, i);
    }
    for (; w->next_array < w->arrays->len; w->next_array++) {
        const EchRematArray *a = ech_remat_array(w->r, g_array_index(w->arrays, uint32_t, w->next_array));
        if (a->back != i)
            return;
        w->input[a->buffer] = a->stand;
    }
}

static void write_ops(Writer *w)
{
    const EchSurvey *s = w->s;
    for (EchId i = 0; i <= s->n; i++) {
        close_loops(w, i);
        if (i == s->n)
            break;
        for (; w->next_gone < w->gone->len; w->next_gone++) {
            const EchRematArray *a = ech_remat_array(w->r, g_array_index(w->gone, uint32_t, w->next_gone));
            if (a->gone != i)
                break;
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, a->buffer);
        }
        come_before(w, i);
        if (w->dropped[i]) {
            w->e.map[i] = w->e.last_core;
            continue;
        }
        put(w, i);
        if (s->ops[i].kind == ECH_OP_LOOP) {
            g_array_append_val(w->loops, i);
            w->e.last_core = ECH_NONE;
        }
    }
}

static gint compare_end(gconstpointer x, gconstpointer y)
{
    const End *a = x, *b = y;
    if (a->until != b->until)
        return a->until < b->until ? -1 : 1;
    /* Inner bodies first. */
    int64_t in = a->region == ECH_NONE ? -1 : (int64_t)a->region, jn = b->region == ECH_NONE ? -1 : (int64_t)b->region;
    if (in != jn)
        return in > jn ? -1 : 1;
    return a->value != b->value ? (a->value < b->value ? -1 : 1) : (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static gint compare_gone(gconstpointer x, gconstpointer y, gpointer data)
{
    const EchRemat *r = data;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    EchId i = ech_remat_array(r, a)->gone, j = ech_remat_array(r, b)->gone;
    return i != j ? (i < j ? -1 : 1) : (a > b) - (a < b);
}

static void say(const Writer *w, uint32_t n_left, EchDiag *diag)
{
    const EchRemat *r = w->r;
    uint32_t n = 0, fused = 0, idle = 0, loops = 0;
    EchBytes bytes = 0, carried = 0, results = 0;
    for (guint k = 0; k < r->arrays->len; k++) {
        n += ech_remat_array(r, k)->chosen;
        bytes = ech_bytes_add(bytes, ech_remat_array(r, k)->chosen ? w->s->buffers[ech_remat_array(r, k)->buffer].bytes : 0);
    }
    bool recorded = false;
    for (guint k = 0; k < r->runs->len; k++) {
        fused += ech_remat_run(r, k)->fused;
        loops += w->s->ops[ech_remat_run(r, k)->op].kind == ECH_OP_LOOP;
        recorded |= w->s->ops[ech_remat_run(r, k)->op].recorded.duration != ECH_TIME_NONE;
    }
    for (guint k = 0; k < r->carries->len; k++) {
        const EchRematCarry *c = ech_remat_carry(r, k);
        EchBytes *sum = c->after == ECH_NONE ? &carried : &results;
        *sum = ech_bytes_add(*sum, ech_bytes_mul(c->bytes, w->s->ops[c->made_in].bytes));
    }
    for (EchId i = 0; i < w->s->n; i++)
        idle += w->dropped[i] && w->s->ops[i].kind == ECH_OP_KERNEL;
    idle -= n_left;
    g_autofree char *all = ech_format_bytes(bytes), *stacked = ech_format_bytes(carried), *kept = ech_format_bytes(results),
                    *time = ech_format_time(ech_time_add(ech_remat_time(r), w->along_time));
    g_autofree char *inside = fused > 0 ? g_strdup_printf(", and %u inside those that read them", fused) : g_strdup("");
    g_autofree char *whole = loops > 0 ? g_strdup_printf(" and %u loop%s", loops, loops == 1 ? "" : "s") : g_strdup("");
    uint32_t kernels = r->runs->len - fused - loops + w->along;
    ech_diag_remark(diag, "remat: %u array%s (%s) made again instead of kept: %u kernel%s%s run again, %s by their own times%s", n, n == 1 ? "" : "s", all,
                    kernels, kernels == 1 ? "" : "s", whole, time, inside);
    if (idle > 0)
        ech_diag_remark(diag, "remat: %u kernel%s that made only what is not kept %s gone", idle, idle == 1 ? "" : "s", idle == 1 ? "is" : "are");
    if (n_left > 0)
        ech_diag_remark(diag, "remat: %u kernel%s run%s inside those that read what %s, which is kept no more", n_left, n_left == 1 ? "" : "s",
                        n_left == 1 ? "s" : "", n_left == 1 ? "it makes" : "they make");
    if (carried > 0)
        ech_diag_remark(diag, "remat: %s are kept of what iterations begin with", stacked);
    if (results > 0)
        ech_diag_remark(diag, "remat: %s are kept of products that iterations make", kept);
    if (recorded)
        ech_diag_remark(diag, "remat: kernels that run again take as long as they were recorded to");
    else if (ech_survey_has_places(w->s))
        ech_diag_remark(diag,
                        "remat: kernels are those compiled without it, where a compiler fuses anew and is often faster; the compiler's places do not hold "
                        "any more");
}

static void add_end(Writer *w, EchId until, EchId region, uint32_t value, EchId buffer)
{
    End e = {until, region, value, buffer};
    g_array_append_val(w->ends, e);
}

const char *ech_remat_margin(const EchTrace *trace)
{
    return ech_trace_is_remade(trace) ? "1.4" : "1.2";
}

/* What a compiler may take: times what the pass leaves; with offload besides, what was live before; and how much a block may make without taking more. */
static void tell_margin(const EchRemat *r, EchTraceBuilder *builder)
{
    const EchSurvey *s = r->s;
    const char *before = ech_trace_get_property(s->t, "remat_at_once_bytes");
    EchBytes once = MAX(ech_remat_at_once(r), before != NULL ? g_ascii_strtoull(before, NULL, 10) : 0);
    uint64_t most = 0;
    for (size_t i = 0; i <= s->n; i++)
        most = MAX(most, s->live[i]);
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, most), *at_once = g_strdup_printf("%" G_GUINT64_FORMAT, once);
    ech_trace_builder_set_property(builder, "remat_takes_up_to", ech_remat_margin(s->t));
    ech_trace_builder_set_property(builder, "remat_from_bytes", text);
    ech_trace_builder_set_property(builder, "remat_at_once_bytes", at_once);
}

EchTrace *ech_remat_write(EchRemat *remat, EchDiag *diag, GError **error)
{
    EchRemat *r = remat;
    const EchSurvey *s = r->s;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    Writer writer = {.r = r, .s = s, .b = builder}, *w = &writer;
    ech_edit_init(&w->e, s, builder);
    for (size_t i = 0; i < s->n && r->modules != NULL && w->e.asks == ECH_NONE; i++)
        if ((s->ops[i].kind == ECH_OP_ALLOC || s->ops[i].kind == ECH_OP_FREE) && s->ops[i].queue != s->core)
            w->e.asks = s->ops[i].queue;
    w->input = g_new(uint32_t, s->n_buffers + 1);
    w->slice = g_new(EchId, s->n_buffers + 1);
    w->again = g_new(EchId, s->n + 1);
    w->clone = g_new(EchId, s->n_buffers + 1);
    w->bound = g_new(uint32_t, s->n_buffers + 1);
    for (size_t i = 0; i <= s->n; i++)
        w->again[i] = ECH_NONE;
    for (size_t b = 0; b <= s->n_buffers; b++) {
        w->slice[b] = w->input[b] = w->clone[b] = ECH_NONE;
        w->bound[b] = UINT32_MAX;
    }
    w->dropped = g_new0(bool, s->n + 1);
    w->reads = g_new0(uint32_t, s->n_buffers + 2);
    w->ends = g_array_new(FALSE, FALSE, sizeof(End));
    w->arrays = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    w->loops = g_array_new(FALSE, FALSE, sizeof(EchId));
    w->inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput));
    w->fused = g_array_new(FALSE, FALSE, sizeof(EchId));
    w->launches = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    w->gone = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t k = 0; k < r->arrays->len; k++)
        if (ech_remat_array(r, k)->chosen) {
            g_array_append_val(w->arrays, k);
            keep_no_more(ech_trace_builder_peek_buffer(builder, ech_remat_array(r, k)->buffer));
        }
    g_array_sort_with_data(w->arrays, ech_remat_compare_back, r);
    const EchMemory *on_chip = s->device != NULL ? ech_device_memory_kind(s->device, ECH_MEM_VECTOR) : NULL;
    w->on_chip = on_chip != NULL ? ech_trace_find_memory(s->t, on_chip->name) : ECH_NONE;
    if (w->on_chip != ECH_NONE)
        ech_remat_place_on_chip(r, w->on_chip, MIN(on_chip->capacity, on_chip->available));
    if (r->modules != NULL && !r->in_graph) {
        w->ran = g_new0(bool, s->n + 1);
        w->saved_for = g_new(EchId, s->n_buffers + 1);
        memset(w->saved_for, 0xff, (s->n_buffers + 1) * sizeof *w->saved_for);
        w->latest = g_new(uint32_t, s->n_buffers + 1);
        memset(w->latest, 0xff, (s->n_buffers + 1) * sizeof *w->latest);
        for (guint k = 0; k < r->runs->len; k++)
            w->ran[ech_remat_run(r, k)->op] = true;
    }
    drop_idle(w);
    drop_copies(w);
    const guint n_runs = r->runs->len, n_values = r->values->len, n_inputs = r->inputs->len;
    uint32_t n_left = ech_remat_fuse_left(r, w->dropped, w->input);
    for (uint32_t k = 0; k < r->values->len; k++)
        if (!ech_remat_run(r, ech_remat_value(r, k)->run)->fused && ech_remat_value(r, k)->until > ech_remat_run(r, ech_remat_value(r, k)->last_run)->site)
            add_end(w, ech_remat_value(r, k)->until, ech_remat_value(r, k)->region, k, ECH_NONE);
    for (uint32_t k = 0; k < r->longer->len; k++) {
        const EchRematLonger *l = ech_remat_longer(r, k);
        add_end(w, l->until, s->buffers[l->buffer].loop, UINT32_MAX, l->buffer);
    }
    g_array_sort(w->ends, compare_end);
    for (uint32_t k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        if (a->chosen && a->made_in == ECH_NONE && w->reads[a->buffer] > 0)
            g_array_append_val(w->gone, k);
    }
    g_array_sort_with_data(w->gone, compare_gone, r);
    write_ops(w);
    ech_edit_loops(&w->e, s->n_buffers);
    if (ech_survey_has_places(s))
        tell_margin(r, builder);
    if (r->in_graph)
        ech_trace_builder_set_property(builder, "graph_takes_up_to", ECH_REMAT_GRAPH_MARGIN);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    /* Of the plan, which may be written again. */
    g_array_set_size(r->runs, n_runs);
    g_array_set_size(r->values, n_values);
    g_array_set_size(r->inputs, n_inputs);
    if (out != NULL)
        say(w, n_left, diag);
    ech_edit_clear(&w->e);
    g_free(w->input);
    g_free(w->slice);
    g_free(w->again);
    g_free(w->clone);
    g_free(w->bound);
    g_free(w->ran);
    g_free(w->latest);
    g_free(w->saved_for);
    g_free(w->dropped);
    g_free(w->reads);
    g_array_unref(w->ends);
    g_array_unref(w->arrays);
    g_array_unref(w->gone);
    g_array_unref(w->loops);
    g_array_unref(w->inputs);
    g_array_unref(w->fused);
    g_hash_table_unref(w->launches);
    return out;
}

EchTime ech_remat_measure(EchRemat *remat)
{
    g_autoptr(EchDiag) unsaid = ech_diag_new();
    g_autoptr(EchTrace) written = ech_remat_write(remat, unsaid, NULL);
    g_auto(EchSurvey) survey = {0};
    return written != NULL && ech_survey_init(&survey, written, remat->s->device) ? survey.clock[survey.n] : ECH_TIME_MAX;
}
