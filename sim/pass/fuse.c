/* fuse: what an optimizer of PyTorch hands from kernel to kernel is never made.
 *
 * Adam, AdamW, Adagrad and SGD run one kernel after the other over the lists of all parameters unless they are told otherwise (foreach); fused=True makes one
 * of them, which reads once what they are given and writes once what they leave. PyTorch's other optimizers have no such kind for a GPU (torch/optim, 2.15). On
 * the host (torchao's CPUOffloadOptimizer, ZeRO-Offload), gradients go there, each when it is done, parameters come back, one as the next is
 * updated, when all have gone, and the optimizer's state never leaves it. In 8 bits (bitsandbytes), state has a scale for each block, and each parameter has a
 * kernel of its own, which makes nothing beside it. */
#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"
#include "sim/trace/ranges.h"

#include <string.h>

typedef enum { ON_DEVICE, ON_HOST } Where;
typedef enum { AS_IT_IS, IN_8_BITS } State;
typedef struct {
    uint64_t where, state;
} FuseOptions;

static const char *const wheres[] = {"device", "host", NULL}, *const states[] = {"kept", "8bit", NULL};

static const char on_the_host[] = "optimizer on the host"; /* of its queue, its work, and what waits for it */

static const EchParam fuse_params[] = {
    {"where", ECH_PARAM_ENUM, offsetof(FuseOptions, where), "device", NULL, NULL, wheres,
     "device: one kernel, of optimizers over lists that PyTorch has such a kind of; host: any optimizer runs there, as fast as the host's memory "
     "or processor reads and writes each array once: gradients go when they are done, parameters come back, its state stays"},
    {"state", ECH_PARAM_ENUM, offsetof(FuseOptions, state), "kept", NULL, NULL, states,
     "on the device; 8bit: as bitsandbytes' AdamW8bit and its like have it, of parameters of 4096 elements and more, a kernel for each parameter; of "
     "Adam, AdamW, Adagrad, SGD, RMSprop"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* Kernels of one call of an optimizer, which become one. */
typedef struct {
    EchId first, last;
    EchTime recorded; /* Sum; ECH_TIME_NONE: of one it is not told. */
    EchBytes moved;   /* Sum of what they read and write. */
    GArray *moves;    /* Move, of what stays */
    GArray *work;     /* EchWork, of each unit and type once */
    EchId went;       /* on the host: the last copy of what it is given, or ECH_NONE */
} Step;

/* What a step does with a buffer. */
typedef struct {
    EchId buffer;
    EchId there;            /* its like on the host, once it has gone there; else ECH_NONE */
    bool reads, writes;     /* reads: before it writes */
    bool gone;              /* Given back before the last of its kernels. */
    EchBytes read, written; /* of all its kernels */
} Move;

/* What goes to the host after an op: the last that wrote it. */
typedef struct {
    EchId op;
    guint step, move;
} Going;

typedef struct {
    EchSurvey s;
    GArray *steps;   /* Step */
    uint32_t *step;  /* per op: 1 + that of a kernel of a list; 0: another op */
    bool *is_handed; /* per buffer: made by such kernels, for such kernels */
    bool *is_state;  /* per buffer: the host's now */
    bool *is_source; /* per buffer: state that weights on the device are made of */
    EchId *master;   /* per buffer: a parameter's like on the host, or ECH_NONE */
    GArray *going;   /* Going, by op */
    bool on_host, in_8_bits;
    EchBytes was; /* in 8 bits: of its state */
    EchId host, to_host, from_host;
    EchId processor; /* The host's queue */
    uint32_t n_kernels;
    bool loops;  /* Which what PyTorch runs has none of; they stay as they are. */
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
static Part part_of(const char *stack, const Pass *p)
{
    static const char *const fusible[] = {"Adam.step", "AdamW.step", "Adagrad.step", "SGD.step", NULL};
    const char *at = strstr(stack, ECH_RANGE_OPTIMIZER);
    if (!at)
        return OUTSIDE;
    if (p->on_host)
        return OF_A_LIST;
    g_autofree char *name = g_strndup(at + strlen(ECH_RANGE_OPTIMIZER), strcspn(at + strlen(ECH_RANGE_OPTIMIZER), "\n"));
    if (p->in_8_bits)
        return g_strv_contains(fusible, name) || strcmp(name, "RMSprop.step") == 0 ? OF_A_LIST : OF_ANOTHER;
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
        p->loops |= o->kind == ECH_OP_LOOP;
        if (o->kind != ECH_OP_KERNEL)
            continue;
        Part part = OUTSIDE;
        if (o->stack < ech_trace_n_strings(s->t)) {
            if (parts[o->stack] == NOT_ASKED)
                parts[o->stack] = (uint8_t)part_of(ech_trace_string(s->t, o->stack), p);
            part = (Part)parts[o->stack];
        }
        p->others |= part == OF_ANOTHER;
        open &= part == WITHIN || part == OF_A_LIST;
        if (part != OF_A_LIST || o->queue != s->core || o->n_uses == 0)
            continue;
        if (!open) {
            Step begun = {.first = i, .went = ECH_NONE, .moves = g_array_new(FALSE, FALSE, sizeof(Move)), .work = g_array_new(FALSE, FALSE, sizeof(EchWork))};
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

/* The move of @buffer in @step; @at[buffer]: 1 + its place there, or in another step. */
static Move *move_of(Step *step, EchId buffer, uint32_t *at)
{
    Move *moves = (Move *)(void *)step->moves->data;
    if (at[buffer] == 0 || at[buffer] > step->moves->len || moves[at[buffer] - 1].buffer != buffer) {
        Move begun = {.buffer = buffer, .there = ECH_NONE};
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

/* ---- in 8 bits ---- */

/* bitsandbytes: parameters of fewer elements keep their state as it is (min_8bit_size), others have a float for each block of so many (blockwise quantization,
 * optimizer.py of 0.50); operators for each parameter (PyTorch 2.11; held out: validation/what_ifs.md). */
enum { LEAST_ELEMENTS = 4096, BLOCK = 256, FOR_UPDATE = 6 };

/* Bytes of an element of what kernels of @step go over. */
static EchBytes element_of(const Pass *p, const Step *step)
{
    const EchOp *o = &p->s.ops[step->first];
    EchGpuLaunch launch;
    bool told = o->launch != ECH_NONE && ech_gpu_launch_parse(ech_trace_string(p->s.t, o->launch), &launch) && launch.operand_bytes > 0;
    return told ? launch.operand_bytes : 4;
}

/* State that the steps bring up to date, but not weights that those on the device are made of. */
static void shrink_states(Pass *p, EchEdit *e)
{
    for (guint k = 0; k < p->steps->len; k++) {
        const Step *step = &g_array_index(p->steps, Step, k);
        EchBytes element = element_of(p, step);
        for (guint m = 0; m < step->moves->len; m++) {
            EchId b = g_array_index(step->moves, Move, m).buffer;
            EchBytes bytes = p->s.buffers[b].bytes, elements = bytes / element;
            EchBuffer *buffer = ech_trace_builder_peek_buffer(e->builder, b);
            if (!p->is_state[b] || p->is_source[b] || elements < LEAST_ELEMENTS || buffer->bytes != bytes)
                continue;
            ech_edit_move_buffer(buffer, buffer->memory);
            buffer->bytes = elements + 4 * ((elements + BLOCK - 1) / BLOCK);
            buffer->dense = MIN(buffer->dense, buffer->bytes);
            buffer->shape = ECH_NONE;
            p->was = ech_bytes_add(p->was, bytes);
        }
    }
}

static void put_use(const Pass *p, const Move *m, EchEdit *e)
{
    EchBytes was = p->s.buffers[m->buffer].bytes, now = ech_trace_builder_peek_buffer(e->builder, m->buffer)->bytes;
    bool whole = now != was; /* of state that is now smaller, all of it */
    if (m->reads)
        ech_trace_builder_use(e->builder, m->buffer, ECH_READ, whole ? now : MIN(m->read, was), ECH_PATTERN_STREAM, ECH_INFERRED);
    if (m->writes)
        ech_trace_builder_use(e->builder, m->buffer, ECH_WRITE, whole ? now : MIN(m->written, was), ECH_PATTERN_STREAM, ECH_INFERRED);
}

/* A kernel for each parameter of @step, with an equal part of what else it reads and writes, in its order; that is how lists go. */
static void put_updates(const Pass *p, const Step *step, EchEdit *e)
{
    g_autoptr(GArray) others = g_array_new(FALSE, FALSE, sizeof(Move)), updated = g_array_new(FALSE, FALSE, sizeof(Move));
    for (guint k = 0; k < step->moves->len; k++) {
        const Move *move = &g_array_index(step->moves, Move, k);
        bool is_weight = move->writes && p->s.buffers[move->buffer].role == ECH_ROLE_PARAMETER;
        if (!move->gone)
            g_array_append_vals(is_weight ? updated : others, move, 1);
    }
    const guint n = MAX(updated->len, 1);
    for (guint k = 0; k < n; k++) {
        EchOp o = ech_edit_op(e, step->last);
        o.name = ech_trace_builder_string(e->builder, "kOptimizerStatic8bit2StateBlockwise", -1);
        o.launch = ECH_NONE;
        o.recorded = (EchRecorded){ECH_TIME_NONE, ECH_TIME_NONE};
        o.estimate = ECH_TIME_NONE;
        ech_edit_operators(e, &o, FOR_UPDATE);
        EchId made = e->last_core = ech_trace_builder_op(e->builder, o);
        if (k < updated->len)
            put_use(p, &g_array_index(updated, Move, k), e);
        for (guint m = k; m < others->len; m += n)
            put_use(p, &g_array_index(others, Move, m), e);
        for (guint m = 0; m < step->work->len; m++) {
            const EchWork *work = &g_array_index(step->work, EchWork, m);
            ech_trace_builder_work(e->builder, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count / n, (EchOrigin)work->origin);
        }
        if (k == 0)
            put_waits(p, step, e);
        ech_edit_asked(e, p->s.core);
        ech_edit_host_wait(e, made); /* sync_gpu() */
    }
}

/* ---- on the host ---- */

/* State that nothing but optimizers and what fills it uses, and that goes by one name. */
static void find_states(Pass *p)
{
    const EchSurvey *s = &p->s;
    for (EchId b = 0; b < s->n_buffers; b++)
        p->is_state[b] = s->buffers[b].role == ECH_ROLE_OPTIMIZER && s->buffers[b].memory == s->hbm && s->buffers[b].alias_of == ECH_NONE && !p->is_handed[b];
    for (EchId b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].alias_of != ECH_NONE)
            p->is_state[ech_survey_root(s, b)] = false;
}

/* A kernel that makes something of the optimizer's state, as programs of mixed precision make weights in fewer bits of those that it keeps. */
static bool is_of_state(const Pass *p, EchId op)
{
    const EchOp *o = &p->s.ops[op];
    bool reads = false, writes = false;
    for (uint32_t u = 0; p->step[op] == 0 && o->kind == ECH_OP_KERNEL && o->queue == p->s.core && u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        reads |= p->is_state[use->buffer] && use->access == ECH_READ;
        writes |= !p->is_state[use->buffer] && use->access == ECH_WRITE;
    }
    return reads && writes;
}

static void find_sources(Pass *p)
{
    for (EchId i = 0; i < p->s.n; i++) {
        const EchOp *o = &p->s.ops[i];
        bool made = is_of_state(p, i);
        for (uint32_t u = 0; made && u < o->n_uses; u++) {
            const EchUse *use = &p->s.uses[o->first_use + u];
            p->is_source[use->buffer] |= p->is_state[use->buffer] && use->access == ECH_READ;
        }
    }
}

static void move_states(Pass *p, EchEdit *e)
{
    p->host = ech_trace_builder_memory(e->builder, ech_survey_host_memory(&p->s));
    p->to_host = ech_edit_copy_queue(e, true);
    p->from_host = ech_edit_copy_queue(e, false);
    p->processor = ech_trace_builder_queue(e->builder, on_the_host, ECH_QUEUE_HOST, ech_trace_queues(p->s.t)[p->s.core].device);
    for (EchId b = 0; b < p->s.n_buffers; b++) {
        if (!p->is_state[b])
            continue;
        ech_edit_move_buffer(ech_trace_builder_peek_buffer(e->builder, b), p->host);
    }
}

/* Its like on the host; @resident: for good. */
static EchId buffer_there(const Pass *p, EchEdit *e, EchId buffer, bool resident)
{
    EchBuffer there = *ech_trace_builder_peek_buffer(e->builder, buffer);
    ech_edit_move_buffer(&there, p->host);
    there.resident = resident;
    there.alias_of = ECH_NONE;
    there.alias_offset = 0;
    return ech_trace_builder_buffer(e->builder, there);
}

static bool is_gradient(const Pass *p, const Move *move)
{
    return !move->writes && !move->gone && !p->is_state[move->buffer] && p->s.buffers[move->buffer].role != ECH_ROLE_PARAMETER;
}

static gint compare_going(gconstpointer a, gconstpointer b)
{
    const Going *x = a, *y = b;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->step != y->step ? (x->step < y->step ? -1 : 1) : (x->move > y->move) - (x->move < y->move);
}

/* When gradients are done: what wrote them last before the step begins, or its own last kernel. */
static void find_going(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree EchId *wrote = g_new(EchId, s->n_buffers + 1);
    guint next = 0;
    for (size_t b = 0; b <= s->n_buffers; b++)
        wrote[b] = ECH_NONE;
    for (EchId i = 0; i < s->n && next < p->steps->len; i++) {
        const Step *step = &g_array_index(p->steps, Step, next);
        for (guint k = 0; i == step->first && k < step->moves->len; k++) {
            const Move *move = &g_array_index(step->moves, Move, k);
            EchId by = wrote[ech_survey_root(s, move->buffer)];
            bool is_own = by != ECH_NONE && p->step[by] != 0; /* left by an optimizer */
            Going going = {by != ECH_NONE ? by : step->last, next, k};
            if (is_gradient(p, move) && !is_own)
                g_array_append_val(p->going, going);
        }
        next += i == step->first;
        for (uint32_t u = 0; u < s->ops[i].n_uses; u++)
            if (s->uses[s->ops[i].first_use + u].access == ECH_WRITE)
                wrote[ech_survey_root(s, s->uses[s->ops[i].first_use + u].buffer)] = i;
    }
    g_array_sort(p->going, compare_going);
}

/* What is done after op @i goes, from the @next-th on; the next one. */
static guint put_going(const Pass *p, EchId i, guint next, EchEdit *e)
{
    for (; next < p->going->len && g_array_index(p->going, Going, next).op == i; next++) {
        const Going *going = &g_array_index(p->going, Going, next);
        Move *move = &g_array_index(g_array_index(p->steps, Step, going->step).moves, Move, going->move);
        move->there = buffer_there(p, e, move->buffer, false);
        (void)ech_edit_memory(e, ECH_OP_ALLOC, move->there);
        EchId copy = ech_edit_copy(e, p->to_host, move->buffer, move->there, MIN(move->read, p->s.buffers[move->buffer].bytes));
        if (e->map[i] != ECH_NONE)
            ech_trace_builder_dep(e->builder, e->map[i], 0);
        g_array_index(p->steps, Step, going->step).went = copy;
    }
    return next;
}

/* What computes waits for @copy. */
static void put_wait(EchEdit *e, EchId copy)
{
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = e->survey->core;
    wait.name = ech_trace_builder_string(e->builder, on_the_host, -1);
    e->last_core = ech_trace_builder_op(e->builder, wait);
    ech_trace_builder_dep(e->builder, copy, 0);
}

/* A parameter: not what the optimizer makes for itself. */
static bool is_updated(const Pass *p, const Move *move)
{
    return move->writes && (move->reads || p->s.buffers[move->buffer].role == ECH_ROLE_PARAMETER) && !move->gone && !p->is_state[move->buffer];
}

/* What the host reads and writes of all arrays of a step, each once as one kernel does, and of that the parameters, which are written. */
static void sum_there(const Pass *p, const Step *step, EchBytes *ret_read, EchBytes *ret_written, EchBytes *ret_updated)
{
    *ret_read = *ret_written = *ret_updated = 0;
    for (guint k = 0; k < step->moves->len; k++) {
        const Move *move = &g_array_index(step->moves, Move, k);
        EchBytes most = p->s.buffers[move->buffer].bytes, written = MIN(move->written, most);
        if (move->gone)
            continue;
        *ret_read = ech_bytes_add(*ret_read, move->reads ? MIN(move->read, most) : 0);
        *ret_written = ech_bytes_add(*ret_written, written);
        *ret_updated = ech_bytes_add(*ret_updated, is_updated(p, move) ? written : 0);
    }
}

/* The host reads and writes so much of @there, as @op did on the device, once @after is done (or ECH_NONE). */
static EchId put_there(const Pass *p, EchId op, EchId there, EchBytes read, EchBytes written, EchId after, EchEdit *e)
{
    EchOp o = ech_op_init(ECH_OP_KERNEL);
    o.queue = p->processor;
    o.name = ech_trace_builder_string(e->builder, on_the_host, -1);
    o.stack = ech_edit_text(e, p->s.ops[op].stack);
    EchId made = ech_trace_builder_op(e->builder, o);
    ech_trace_builder_use(e->builder, there, ECH_READ, read, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(e->builder, there, ECH_WRITE, written, ECH_PATTERN_STREAM, ECH_INFERRED);
    if (after != ECH_NONE)
        ech_trace_builder_dep(e->builder, after, 0);
    return made;
}

/* The step on the host, once all gradients are there: parameters come back one by one, which is the optimizer's work as before. */
static void put_back(const Pass *p, Step *step, EchEdit *e)
{
    EchId last = ECH_NONE, source = ECH_NONE, stack = ech_edit_text(e, p->s.ops[step->last].stack);
    EchBytes read, written, updated;
    sum_there(p, step, &read, &written, &updated);
    EchId after = step->went != ECH_NONE ? step->went : e->last_core;
    if (step->went != ECH_NONE)
        put_wait(e, step->went);
    for (guint k = 0; k < step->moves->len; k++) {
        const Move *move = &g_array_index(step->moves, Move, k);
        if (move->there != ECH_NONE)
            (void)ech_edit_memory(e, ECH_OP_FREE, move->there);
    }
    for (guint k = 0; k < step->moves->len; k++) {
        const Move *move = &g_array_index(step->moves, Move, k);
        source = move->writes && p->is_source[move->buffer] ? move->buffer : source;
        if (!is_updated(p, move))
            continue;
        if (p->master[move->buffer] == ECH_NONE)
            p->master[move->buffer] = buffer_there(p, e, move->buffer, true);
        EchBytes bytes = MIN(move->written, p->s.buffers[move->buffer].bytes);
        double share = (double)bytes / (double)MAX(updated, 1);
        EchId update = put_there(p, step->last, p->master[move->buffer], (EchBytes)(share * (double)read), (EchBytes)(share * (double)written), after, e);
        last = ech_edit_copy(e, p->from_host, p->master[move->buffer], move->buffer, bytes);
        ech_trace_builder_peek_op(e->builder, last)->stack = stack;
        ech_trace_builder_dep(e->builder, update, 0);
    }
    if (last == ECH_NONE && source != ECH_NONE) /* it updates weights that are its own, of which those on the device are made (put_made) */
        last = put_there(p, step->last, source, read, written, after, e);
    if (last != ECH_NONE)
        put_wait(e, last);
}

/* ---- ops ---- */

static bool uses_state(const Pass *p, const EchOp *o)
{
    bool uses = false;
    for (uint32_t u = 0; u < o->n_uses; u++)
        uses |= p->is_state[p->s.uses[o->first_use + u].buffer];
    return uses;
}

/* What the host makes of its state, and sends over. */
static void put_made(const Pass *p, EchId op, EchEdit *e)
{
    const EchOp *o = &p->s.ops[op];
    EchId state = ECH_NONE, copy = ECH_NONE, stack = ech_edit_text(e, o->stack);
    EchBytes read = 0, written = 0;
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        state = p->is_state[use->buffer] ? use->buffer : state;
        EchBytes *sum = use->access == ECH_READ ? &read : &written;
        *sum = ech_bytes_add(*sum, use->bytes);
    }
    EchId made = put_there(p, op, state, read, written, e->last_core, e);
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        if (p->is_state[use->buffer] || use->access != ECH_WRITE)
            continue;
        copy = ech_edit_copy(e, p->from_host, state, use->buffer, MIN(use->bytes, p->s.buffers[use->buffer].bytes));
        ech_trace_builder_peek_op(e->builder, copy)->stack = stack;
        ech_trace_builder_dep(e->builder, made, 0);
    }
    put_wait(e, copy);
    e->map[op] = e->last_core;
}

static void put(const Pass *p, EchId op, EchEdit *e)
{
    const EchOp *o = &p->s.ops[op];
    EchOp now = ech_edit_op(e, op);
    if (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) {
        EchBytes bytes = ech_trace_builder_peek_buffer(e->builder, o->target)->bytes;
        now.bytes = bytes != p->s.buffers[o->target].bytes ? bytes : now.bytes;
    }
    e->map[op] = ech_trace_builder_op(e->builder, now);
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        EchBytes most = ech_trace_builder_peek_buffer(e->builder, use->buffer)->bytes;
        if (!p->on_host || !p->is_state[use->buffer])
            ech_trace_builder_use(e->builder, use->buffer, (EchAccess)use->access, most < p->s.buffers[use->buffer].bytes ? MIN(use->bytes, most) : use->bytes,
                                  (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(e, &p->s.deps[o->first_dep + d], 0);
    ech_edit_work(e, op, 1);
    if (ech_op_is_work(o) && o->queue != ECH_NONE)
        ech_edit_asked(e, o->queue);
    if (o->queue == p->s.core)
        e->last_core = e->map[op];
}

static void write_ops(const Pass *p, EchEdit *e)
{
    const EchSurvey *s = &p->s;
    guint next = 0;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        Step *step = p->step[i] ? &g_array_index(p->steps, Step, p->step[i] - 1) : NULL;
        bool of_handed = (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && p->is_handed[o->target];
        bool ends = step && i == step->last;
        if (ends && !p->on_host) {
            if (p->in_8_bits) {
                put_updates(p, step, e);
            } else {
                put_fused(p, step, e);
                put_waits(p, step, e);
            }
            e->map[i] = e->last_core;
        } else if (step || of_handed || (p->on_host && o->kind == ECH_OP_COPY && uses_state(p, o))) {
            e->map[i] = e->last_core;
        } else if (p->on_host && is_of_state(p, i)) {
            put_made(p, i, e);
        } else {
            put(p, i, e);
        }
        next = put_going(p, i, next, e);
        if (ends && p->on_host) {
            put_back(p, step, e);
            e->map[i] = e->last_core;
        }
    }
}

static void say(const Pass *p, EchDiag *diag)
{
    EchBytes handed = 0, now = 0, state = 0;
    for (EchId i = 0; i < p->s.n; i++) {
        const EchOp *o = &p->s.ops[i];
        bool of_handed = (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && p->is_handed[o->target];
        EchBytes bytes = of_handed ? p->s.buffers[o->target].bytes : 0;
        now = o->kind == ECH_OP_ALLOC ? ech_bytes_add(now, bytes) : now - MIN(now, bytes);
        handed = MAX(handed, now);
    }
    for (EchId b = 0; b < p->s.n_buffers; b++)
        state = ech_bytes_add(state, p->is_state[b] ? p->s.buffers[b].bytes : 0);
    g_autofree char *size = ech_format_bytes(handed), *away = ech_format_bytes(state), *was = ech_format_bytes(p->was);
    if (p->in_8_bits)
        ech_diag_remark(
            diag,
            "fuse: %s of the optimizer's state in 8 bits, with a scale for every %u elements, and %u of its kernels one for each parameter; up to %s "
            "that they handed to one another at a time are not made; what rounding does to training is not told",
            was, (unsigned)BLOCK, p->n_kernels, size);
    else if (p->on_host)
        ech_diag_remark(diag,
                        "fuse: the optimizer runs on the host, with %s of its state; %u of its kernels are left out, and up to %s that they handed to one "
                        "another at a time; the host reads and writes each array once",
                        away, p->n_kernels, size);
    else
        ech_diag_remark(diag, "fuse: %u kernels of the optimizer are %u; up to %s that they handed to one another at a time are not made", p->n_kernels,
                        p->steps->len, size);
}

static EchTrace *write_trace(Pass *p, EchTrace *in, EchDiag *diag, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(in));
    g_auto(EchEdit) edit = {0};
    find_handed(p);
    sum_up(p);
    ech_edit_init(&edit, &p->s, builder);
    if (p->on_host || p->in_8_bits) {
        find_states(p);
        find_sources(p);
    }
    if (p->in_8_bits) {
        shrink_states(p, &edit);
        if (p->was == 0) {
            ech_diag_remark(diag, "fuse: left the optimizer as it is: it has no state of parameters of %u elements and more", (unsigned)LEAST_ELEMENTS);
            return ech_trace_ref(in);
        }
        ech_edit_host(&edit);
    }
    if (p->on_host) {
        move_states(p, &edit);
        find_going(p);
    }
    write_ops(p, &edit);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    if (out)
        say(p, diag);
    return out;
}

static EchTrace *fuse_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    const FuseOptions *o = options;
    EchTrace *out = NULL;
    if (o->where == ON_HOST && o->state == IN_8_BITS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "fuse: state=8bit is of an optimizer on the device, not with where=host");
        return NULL;
    }
    Pass pass = {.on_host = o->where == ON_HOST, .in_8_bits = o->state == IN_8_BITS}, *p = &pass;
    bool has_memory = ech_survey_init(&p->s, in, device);
    p->steps = g_array_new(FALSE, FALSE, sizeof(Step));
    g_array_set_clear_func(p->steps, step_clear);
    p->going = g_array_new(FALSE, FALSE, sizeof(Going));
    p->step = g_new0(uint32_t, p->s.n + 1);
    p->is_handed = g_new0(bool, p->s.n_buffers + 1);
    p->is_state = g_new0(bool, p->s.n_buffers + 1);
    p->is_source = g_new0(bool, p->s.n_buffers + 1);
    p->master = g_new(EchId, p->s.n_buffers + 1);
    for (size_t b = 0; b <= p->s.n_buffers; b++)
        p->master[b] = ECH_NONE;
    if (has_memory)
        find_steps(p);
    if (!p->loops && p->n_kernels > (p->on_host || p->in_8_bits ? 0 : p->steps->len)) {
        out = write_trace(p, in, diag, error);
    } else {
        ech_diag_remark(diag, "fuse: left the optimizer as it is: %s",
                        p->on_host     ? "none of PyTorch's is recorded with what its kernels read and write"
                        : p->in_8_bits ? "none of Adam, AdamW, Adagrad, SGD and RMSprop is recorded with what its kernels read and write"
                        : ech_trace_says(in, "aten::_fused_", "\n" ECH_RANGE_OPTIMIZER) ? "it is one kernel already"
                        : p->others ? "it has no kind of one kernel on a GPU in PyTorch, as Adam, AdamW, Adagrad and SGD have"
                                    : "none of PyTorch's that takes all parameters at once is recorded with what its kernels read and write");
        out = ech_trace_ref(in);
    }
    g_array_unref(p->steps);
    g_array_unref(p->going);
    g_free(p->step);
    g_free(p->is_handed);
    g_free(p->is_state);
    g_free(p->is_source);
    g_free(p->master);
    ech_survey_clear(&p->s);
    return out;
}

const EchPassClass ech_pass_fuse = {.name = "fuse",
                                    .summary = "run PyTorch's optimizer as one kernel, as fused=True has it, or on the host",
                                    .source = "PyTorch 2.15, torch/optim; torchao 0.18, torchao/optim/cpu_offload.py",
                                    .params = fuse_params,
                                    .options_size = sizeof(FuseOptions),
                                    .of_tensors = true,
                                    .trace = fuse_run};
