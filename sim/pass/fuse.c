/* fuse: PyTorch's Adam, AdamW, Adagrad and SGD, which run one kernel after the other over the lists of all parameters unless they are told otherwise (foreach),
 * as fused=True has them: what those kernels are given is read once, what they leave written once, and what they hand to one another is never made. PyTorch's
 * other optimizers have no such kind for a GPU (torch/optim, 2.15). */
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"

#include <string.h>

/* Kernels of one call of an optimizer, which become one. */
typedef struct {
    EchId first, last;
    EchTime recorded; /* Sum; ECH_TIME_NONE: of one it is not told. */
    EchBytes moved;   /* Sum of what they read and write. */
    GArray *moves;    /* Move, of what stays */
    GArray *work;     /* EchWork, of each unit and type once */
} Step;

/* What a step does with a buffer. */
typedef struct {
    EchId buffer;
    bool reads, writes;     /* reads: before it writes */
    bool gone;              /* Given back before the last of its kernels. */
    EchBytes read, written; /* of all its kernels */
} Move;

typedef struct {
    EchSurvey s;
    GArray *steps;   /* Step */
    uint32_t *step;  /* per op: 1 + that of a kernel of a list; 0: another op */
    bool *is_handed; /* per buffer: made by such kernels, for such kernels */
    uint32_t n_kernels;
    bool others; /* There are lists of optimizers that have no such kind. */
} Pass;

static void step_clear(gpointer data)
{
    Step *step = data;
    g_array_unref(step->moves);
    g_array_unref(step->work);
}

typedef enum { NOT_ASKED, OUTSIDE, WITHIN, OF_A_LIST, OF_ANOTHER } Part;

/* Where a kernel stands, by its stack: "aten::_foreach_addcdiv_\nOptimizer.step#AdamW.step". */
static Part part_of(const char *stack)
{
    static const char before[] = "Optimizer.step#";
    static const char *const fusible[] = {"Adam.step", "AdamW.step", "Adagrad.step", "SGD.step", NULL};
    const char *at = strstr(stack, before);
    if (!at)
        return OUTSIDE;
    g_autofree char *name = g_strndup(at + strlen(before), strcspn(at + strlen(before), "\n"));
    if (!strstr(stack, "aten::_foreach_"))
        return WITHIN;
    return g_strv_contains(fusible, name) ? OF_A_LIST : OF_ANOTHER;
}

static void find_steps(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree uint8_t *parts = g_new0(uint8_t, ech_trace_n_strings(s->t) + 1);
    bool open = false;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_KERNEL)
            continue;
        Part part = OUTSIDE;
        if (o->stack < ech_trace_n_strings(s->t)) {
            if (parts[o->stack] == NOT_ASKED)
                parts[o->stack] = (uint8_t)part_of(ech_trace_string(s->t, o->stack));
            part = (Part)parts[o->stack];
        }
        p->others |= part == OF_ANOTHER;
        open &= part == WITHIN || part == OF_A_LIST;
        if (part != OF_A_LIST || o->queue != s->core || o->n_uses == 0 || s->region[i] != ECH_NONE)
            continue;
        if (!open) {
            Step begun = {.first = i, .moves = g_array_new(FALSE, FALSE, sizeof(Move)), .work = g_array_new(FALSE, FALSE, sizeof(EchWork))};
            g_array_append_val(p->steps, begun);
            open = true;
        }
        g_array_index(p->steps, Step, p->steps->len - 1).last = i;
        p->step[i] = p->steps->len;
        p->n_kernels++;
    }
}

/* Made and given back beside nothing but the kernels of one step. */
static void find_handed(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree uint32_t *of_step = g_new0(uint32_t, s->n_buffers + 1); /* 1 + that which uses it */
    g_autofree uint8_t *made = g_new0(uint8_t, s->n_buffers + 1);      /* 1 made, 2 given back, 4 used by others */
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE)
            made[o->target] |= o->kind == ECH_OP_ALLOC ? 1 : 2;
        for (uint32_t u = 0; u < o->n_uses; u++) {
            EchId root = ech_survey_root(s, s->uses[o->first_use + u].buffer);
            if (p->step[i] == 0 || (of_step[root] != 0 && of_step[root] != p->step[i]))
                made[root] |= 4;
            of_step[root] = p->step[i];
        }
    }
    for (EchId b = 0; b < s->n_buffers; b++) {
        EchId root = ech_survey_root(s, b);
        p->is_handed[b] = of_step[root] != 0 && made[root] == 3 && s->buffers[root].memory == s->hbm;
    }
}

/* The move of @buffer in @step, which is the @n-th; @at[buffer]: 1 + its place there. */
static Move *move_of(Step *step, EchId buffer, uint32_t *at)
{
    Move *moves = (Move *)(void *)step->moves->data;
    if (at[buffer] == 0 || at[buffer] > step->moves->len || moves[at[buffer] - 1].buffer != buffer) {
        Move begun = {.buffer = buffer};
        g_array_append_val(step->moves, begun);
        at[buffer] = step->moves->len;
    }
    return &g_array_index(step->moves, Move, at[buffer] - 1);
}

static void add_work(Step *step, const EchWork *work)
{
    for (guint k = 0; k < step->work->len; k++) {
        EchWork *sum = &g_array_index(step->work, EchWork, k);
        if (sum->unit == work->unit && sum->dtype == work->dtype) {
            sum->count = ech_bytes_add(sum->count, work->count);
            return;
        }
    }
    g_array_append_val(step->work, *work);
}

static void add_kernel(const Pass *p, EchId op, Step *step, uint32_t *at)
{
    const EchOp *o = &p->s.ops[op];
    bool told = o->recorded.duration != ECH_TIME_NONE && step->recorded != ECH_TIME_NONE;
    step->recorded = told ? ech_time_add(step->recorded, o->recorded.duration) : ECH_TIME_NONE;
    for (uint32_t k = 0; k < o->n_work; k++)
        add_work(step, &ech_trace_work(p->s.t)[o->first_work + k]);
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        step->moved = ech_bytes_add(step->moved, use->bytes);
        if (p->is_handed[use->buffer])
            continue;
        Move *move = move_of(step, use->buffer, at);
        bool reads = use->access == ECH_READ;
        move->reads |= reads && !move->writes;
        move->writes |= !reads;
        EchBytes *sum = reads ? &move->read : &move->written;
        *sum = ech_bytes_add(*sum, use->bytes);
    }
}

static void sum_up(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree uint32_t *at = g_new0(uint32_t, s->n_buffers + 1);
    g_autofree EchId *freed = g_new(EchId, s->n_buffers + 1);
    for (size_t b = 0; b <= s->n_buffers; b++)
        freed[b] = ECH_NONE;
    for (EchId i = 0; i < s->n; i++) {
        if (p->step[i] != 0)
            add_kernel(p, i, &g_array_index(p->steps, Step, p->step[i] - 1), at);
        if (s->ops[i].kind == ECH_OP_FREE)
            freed[s->ops[i].target] = i;
    }
    /* Freed last: what is made again is another array. */
    for (guint k = 0; k < p->steps->len; k++) {
        Step *step = &g_array_index(p->steps, Step, k);
        for (guint m = 0; m < step->moves->len; m++) {
            Move *move = &g_array_index(step->moves, Move, m);
            EchId end = freed[ech_survey_root(s, move->buffer)];
            move->gone = end != ECH_NONE && end < step->last;
        }
    }
}

/* The one kernel of a step; for as long as recorded ones took for as much. */
static void put_fused(const Pass *p, const Step *step, EchEdit *e)
{
    EchBytes moved = 0;
    EchOp o = ech_edit_op(e, step->last);
    o.name = ech_trace_builder_string(e->builder, "multi_tensor_apply_kernel, fused", -1);
    o.launch = ECH_NONE;
    o.estimate = ECH_TIME_NONE;
    EchId made = ech_trace_builder_op(e->builder, o);
    for (guint k = 0; k < step->moves->len; k++) {
        const Move *m = &g_array_index(step->moves, Move, k);
        EchBytes most = p->s.buffers[m->buffer].bytes, read = m->reads ? MIN(m->read, most) : 0, written = MIN(m->written, most);
        if (m->gone)
            continue;
        moved = ech_bytes_add(moved, ech_bytes_add(read, written));
        if (m->reads)
            ech_trace_builder_use(e->builder, m->buffer, ECH_READ, read, ECH_PATTERN_STREAM, ECH_INFERRED);
        if (m->writes)
            ech_trace_builder_use(e->builder, m->buffer, ECH_WRITE, written, ECH_PATTERN_STREAM, ECH_INFERRED);
    }
    for (guint k = 0; k < step->work->len; k++) {
        const EchWork *work = &g_array_index(step->work, EchWork, k);
        ech_trace_builder_work(e->builder, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
    }
    if (step->recorded != ECH_TIME_NONE && step->moved > 0)
        ech_trace_builder_peek_op(e->builder, made)->recorded.duration = (EchTime)((double)step->recorded * ((double)moved / (double)step->moved));
    e->last_core = made;
}

static void put(const Pass *p, EchId op, EchEdit *e)
{
    const EchOp *o = &p->s.ops[op];
    e->map[op] = ech_trace_builder_op(e->builder, ech_edit_op(e, op));
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        ech_trace_builder_use(e->builder, use->buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(e, &p->s.deps[o->first_dep + d], 0);
    ech_edit_work(e, op);
    if (o->queue == p->s.core)
        e->last_core = e->map[op];
}

/* What a step's kernels wait for that is none of them, for its one kernel. */
static void put_waits(const Pass *p, const Step *step, EchEdit *e)
{
    uint32_t number = p->step[step->last];
    for (EchId i = step->first; i <= step->last; i++) {
        const EchOp *o = &p->s.ops[i];
        for (uint32_t d = 0; d < o->n_deps && p->step[i] == number; d++) {
            const EchDep *dep = &p->s.deps[o->first_dep + d];
            if (p->step[dep->op] != number)
                ech_edit_dep(e, dep, 0);
        }
    }
}

static void write_ops(const Pass *p, EchEdit *e)
{
    const EchSurvey *s = &p->s;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        const Step *step = p->step[i] ? &g_array_index(p->steps, Step, p->step[i] - 1) : NULL;
        bool of_handed = (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && p->is_handed[o->target];
        if (step && i == step->last) {
            put_fused(p, step, e);
            put_waits(p, step, e);
            e->map[i] = e->last_core;
        } else if (step || of_handed) {
            e->map[i] = e->last_core;
        } else {
            put(p, i, e);
        }
    }
}

static void say(const Pass *p, EchDiag *diag)
{
    EchBytes handed = 0, now = 0;
    for (EchId i = 0; i < p->s.n; i++) {
        const EchOp *o = &p->s.ops[i];
        bool of_handed = (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && p->is_handed[o->target];
        EchBytes bytes = of_handed ? p->s.buffers[o->target].bytes : 0;
        now = o->kind == ECH_OP_ALLOC ? ech_bytes_add(now, bytes) : now - MIN(now, bytes);
        handed = MAX(handed, now);
    }
    g_autofree char *size = ech_format_bytes(handed);
    ech_diag_remark(diag, "fuse: %u kernels of the optimizer are %u; up to %s that they handed to one another at a time are not made", p->n_kernels,
                    p->steps->len, size);
}

static EchTrace *fuse_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    (void)options;
    EchTrace *out = NULL;
    Pass pass = {0}, *p = &pass;
    bool has_memory = ech_survey_init(&p->s, in, device);
    p->steps = g_array_new(FALSE, FALSE, sizeof(Step));
    g_array_set_clear_func(p->steps, step_clear);
    p->step = g_new0(uint32_t, p->s.n + 1);
    p->is_handed = g_new0(bool, p->s.n_buffers + 1);
    if (has_memory)
        find_steps(p);
    if (p->n_kernels > p->steps->len) {
        find_handed(p);
        sum_up(p);
        g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(in));
        EchEdit edit;
        ech_edit_init(&edit, &p->s, builder);
        write_ops(p, &edit);
        ech_edit_loops(&edit, p->s.n_buffers);
        ech_edit_clear(&edit);
        out = ech_trace_builder_finish(builder, error);
        if (out)
            say(p, diag);
    } else {
        ech_diag_remark(diag, "fuse: left the optimizer as it is: %s",
                        p->others ? "it has no kind of one kernel on a GPU in PyTorch, as Adam, AdamW, Adagrad and SGD have"
                                  : "none of PyTorch's that takes all parameters at once is recorded with what its kernels read and write");
        out = ech_trace_ref(in);
    }
    g_array_unref(p->steps);
    g_free(p->step);
    g_free(p->is_handed);
    ech_survey_clear(&p->s);
    return out;
}

const EchPassClass ech_pass_fuse = {
    .name = "fuse", .summary = "run PyTorch's optimizer as one kernel, as fused=True has it", .source = "PyTorch 2.15, torch/optim", .trace = fuse_run};
