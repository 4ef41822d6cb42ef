/* schedule: copies between the device and the host begin, and are waited for, where XLA's latency-hiding scheduler has them, and kernels run when it has them.
 *
 * Each body of a loop, and what is around them all, is scheduled by itself (models/place/latency_hiding.h), inner ones first. Memory is taken before the first
 * that uses it and given back behind the last. */
#include "sim/pass/schedule.h"

#include "models/place/latency_hiding.h"
#include "models/place/sooner.h"
#include "sim/base/compare.h"
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"

#include <string.h>

typedef struct {
    uint64_t copies, reruns;
    EchBytes memory;
} ScheduleOptions;

static const EchParam schedule_params[] = {
    {"copies", ECH_PARAM_U64, offsetof(ScheduleOptions, copies), "0", "0", "1000000", NULL,
     "copies from and to the host under way at a time, at most; 0: as XLA has it, 5 on TPUs, 2 on GPUs"},
    {"memory", ECH_PARAM_BYTES, offsetof(ScheduleOptions, memory), "0", NULL, NULL, NULL,
     "device memory that it keeps to where it can; 0: 95 % of what there is, XLA's default (xla_tpu_scheduler_percent_shared_memory_limit, GPUs: "
     "xla_gpu_memory_limit_slop_factor)"},
    {"reruns", ECH_PARAM_U64, offsetof(ScheduleOptions, reruns), "1", "0", "100", NULL,
     "times that it tries again with a tenth less, where more is needed (xla_latency_hiding_scheduler_rerun)"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* A copy between the device and the host that is moved. */
typedef struct {
    EchId op, region;
    EchId on_device; /* root */
    bool in;
    uint32_t number; /* in its region */
    EchId wait;      /* of the new trace; ECH_NONE until it is written */
} Copy;

/* A KERNEL that updates what was brought, and is sent back, into an array of its own. */
typedef struct {
    EchId op, until; /* what uses the root from the one to the other uses the new array */
    EchId made;      /* buffer of the new trace; ECH_NONE until it is written */
    uint32_t next;   /* 1 + the next one of the same root; 0: none */
} Update;

typedef struct {
    EchId op;
    uint32_t node;
} User;

/* A buffer from where a region takes it up to where it gives it back. */
typedef struct {
    EchId root;
    EchId alloc, free; /* ECH_NONE: not in the region */
    EchId brought;     /* the copy to the device that filled it; ECH_NONE: none, or what updates that is not to be told */
    EchId updated;     /* the first KERNEL that writes it then, all of it; ECH_NONE: none so far */
    uint32_t update;   /* 1 + the Update that ends it, or that makes it; 0: none */
    bool made;         /* the latter */
    guint heir;        /* 1 + the Life whose first user reads this here where that is: it works in place; 0: none */
    GArray *users;     /* User, in their order */
    guint next;        /* 1 + the next one of the same root in the region; 0: none */
    guint before;      /* 1 + the one before */
    bool idle;         /* Nothing uses it, and it is part of another of its root, which takes what it took or gives back what it gave back. */
} Life;

/* The body of a loop, or what is around them all, that is scheduled. */
typedef struct {
    EchId region;
    GArray *numbers;          /* uint32_t: of the pass's copies, its own */
    GArray *steps, *ops;      /* EchHideStep; EchId: the op that each is */
    GArray *orders;           /* EchHideOrder */
    GArray *lives;            /* Life */
    uint32_t n_nodes, *order; /* nodes, as they come */
    struct {
        uint32_t *first, *life; /* first[n_nodes + 1]: by place in that order, slices of lives */
    } hand, begin, end;         /* given to heirs; else that begin, and end, there */
} Region;

typedef struct {
    EchSurvey s;
    const ScheduleOptions *o;
    EchHideRules rules;
    EchBytes memory;
    int64_t elsewhere;         /* bytes in the host's memory, all along */
    GArray *copies;            /* Copy, in their order */
    GArray *updates;           /* Update */
    GPtrArray *regions;        /* Region, inner ones first */
    uint32_t *region_of;       /* per LOOP, and n for what is around them all: 1 + its Region; 0: it stays as it is */
    uint32_t *copy_of;         /* per op: 1 + the copy that it is; 0: none */
    uint32_t *update_of;       /* per root: 1 + its last Update; 0: none */
    bool *viewed;              /* per root: parts of it go by other names */
    bool *waits;               /* per op: a WAIT for such copies, for which others stand */
    bool *dropped;             /* per op: a WAIT for nothing else */
    bool *apart;               /* per LOOP: it has more in it than kernels of the core */
    EchId *waiter;             /* per op of another queue: the first of the core that waits for it; itself where none does, and of other ops */
    uint32_t *flying;          /* per LOOP: copies under way at a time inside */
    EchBytes most, most_first; /* bytes of the device; with EchHideRules.first */
    bool sooner;               /* ech_schedule_sooner */
    bool remade;               /* a TPU's compiler had to make arrays again to come down to memory */
} Pass;

static Copy *copy_at(const Pass *p, uint32_t k)
{
    return &g_array_index(p->copies, Copy, k);
}

/* The copy that an op is, or NULL. */
static Copy *moved(const Pass *p, EchId op)
{
    return p->copy_of[op] > 0 ? copy_at(p, p->copy_of[op] - 1) : NULL;
}

static EchId begin_of_region(EchId region)
{
    return region == ECH_NONE ? 0 : region + 1;
}

static EchId end_of_region(const Pass *p, EchId region)
{
    return region == ECH_NONE ? (EchId)p->s.n : p->s.end[region];
}

/* ---- which copies ---- */

static bool is_host_copy(const Pass *p, EchId op)
{
    const EchSurvey *s = &p->s;
    const EchOp *o = &s->ops[op];
    if (o->kind != ECH_OP_COPY || o->queue == s->core || o->n_uses < 2)
        return false;
    return (o->memory_from == s->hbm && ech_survey_is_host(s, o->memory_to)) || (o->memory_to == s->hbm && ech_survey_is_host(s, o->memory_from));
}

static void find_copies(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree EchId *taken = g_new(EchId, s->n_buffers + 1); /* per root: the ALLOC of what nothing has used yet */
    for (size_t b = 0; b <= s->n_buffers; b++)
        taken[b] = ECH_NONE;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (is_host_copy(p, i)) {
            bool in = o->memory_to == s->hbm;
            EchId from = ech_survey_root(s, s->uses[o->first_use].buffer), to = ech_survey_root(s, s->uses[o->first_use + 1].buffer);
            Copy c = {.op = i, .region = s->region[i], .in = in, .on_device = in ? to : from, .wait = ECH_NONE};
            /* Memory of the device that it does not take itself is somebody else's before. */
            if (!in || (taken[to] != ECH_NONE && s->region[taken[to]] == c.region)) {
                g_array_append_val(p->copies, c);
                p->copy_of[i] = p->copies->len;
            }
        }
        if (o->kind == ECH_OP_ALLOC)
            taken[ech_survey_root(s, o->target)] = i;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            taken[ech_survey_root(s, s->uses[u].buffer)] = ECH_NONE;
    }
}

static void find_waits(Pass *p)
{
    const EchSurvey *s = &p->s;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        p->waiter[i] = i;
        bool any = false, other = o->kind != ECH_OP_WAIT || o->target != ECH_NONE;
        for (uint32_t d = 0; d < o->n_deps && o->queue == s->core; d++) {
            const EchDep *dep = &s->deps[o->first_dep + d];
            bool copy = dep->distance == 0 && s->region[dep->op] == s->region[i] && moved(p, dep->op);
            any |= copy;
            other |= !copy && s->ops[dep->op].queue != s->core;
            if (dep->distance == 0 && s->ops[dep->op].queue != s->core && p->waiter[dep->op] == dep->op)
                p->waiter[dep->op] = i;
        }
        p->waits[i] = any && o->kind == ECH_OP_WAIT && o->target == ECH_NONE;
        p->dropped[i] = p->waits[i] && !other;
        bool plain = o->queue == s->core && (o->kind == ECH_OP_KERNEL || o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE || o->kind == ECH_OP_LOOP);
        for (EchId loop = s->region[i]; !plain && loop != ECH_NONE && !p->apart[loop]; loop = s->region[loop])
            p->apart[loop] = true;
    }
}

static EchTime length_of(const Pass *p, const Copy *c)
{
    const EchOp *o = &p->s.ops[c->op];
    if (p->rules.copy > 0)
        return p->rules.copy;
    EchTime length = c->in ? ech_survey_fetch_time(&p->s, o->memory_from, o->bytes) : ech_survey_copy_time(&p->s, o->bytes, false);
    return CLAMP(length, 1, ECH_TIME_MAX / 8);
}

/* ---- a region as a problem ---- */

/* An op that reads a root since that was last written. */
typedef struct {
    EchId op;
    guint next; /* 1 + another; 0: none */
} Reader;

/* Of one region at a time. */
typedef struct {
    Pass *p;
    Region *r;
    uint32_t *node_of; /* per op at its level that is a step: which */
    guint *life_of;    /* per root: 1 + the Life at hand, or the next one; 0: none */
    bool *taken;       /* per root: by an ALLOC that nothing has used since */
    EchId *writer;     /* per root: the op that wrote it last; ECH_NONE: none here */
    guint *reader;     /* per root: 1 + a Reader; 0: none */
    GArray *readers;   /* Reader */
    GArray *given;     /* guint: lives that ended since the last step */
} Build;

static Life *life_at(const Region *r, guint k)
{
    return &g_array_index(r->lives, Life, k);
}

static uint32_t start_node(const Region *r, const Copy *c)
{
    return r->steps->len + 2 * c->number;
}

static bool is_step(const Pass *p, EchId op)
{
    EchOpKind kind = p->s.ops[op].kind;
    return kind != ECH_OP_ALLOC && kind != ECH_OP_FREE && !moved(p, op) && !p->dropped[op];
}

/* The node that an op begins as; UINT32_MAX where it is none. */
static uint32_t node_at(const Build *b, EchId op)
{
    EchId here = ech_survey_at_level(&b->p->s, op, b->r->region);
    if (here == ECH_NONE)
        return UINT32_MAX;
    const Copy *c = moved(b->p, here);
    return c ? start_node(b->r, c) : is_step(b->p, here) ? b->node_of[here] : UINT32_MAX;
}

/* The node by which what computes knows that an op is over, when it comes to op @by, if it does then. */
static uint32_t node_over(const Build *b, EchId op, EchId by)
{
    const Pass *p = b->p;
    const Copy *c = moved(p, op);
    if (c && c->region == b->r->region)
        return start_node(b->r, c) + 1;
    EchId waiter = ech_survey_at_level(&p->s, p->waiter[op], b->r->region), here = ech_survey_at_level(&p->s, by, b->r->region);
    bool known = waiter != ECH_NONE && (here == ECH_NONE || waiter < here) && is_step(p, waiter);
    return known ? b->node_of[waiter] : node_at(b, op);
}

static void put_order(Build *b, uint32_t before, uint32_t after, bool given)
{
    if (before == UINT32_MAX || after == UINT32_MAX || before == after)
        return;
    EchHideOrder order = {before, after, given};
    const EchHideOrder *last = b->r->orders->len > 0 ? &g_array_index(b->r->orders, EchHideOrder, b->r->orders->len - 1) : NULL;
    if (!last || last->before != before || last->after != after)
        g_array_append_val(b->r->orders, order);
}

static void add_order(Build *b, uint32_t before, uint32_t after)
{
    put_order(b, before, after, false);
}

static void add_user(Life *life, EchId op, uint32_t node)
{
    User user = {op, node};
    if (node != UINT32_MAX)
        g_array_append_val(life->users, user);
}

/* The life of @root that op @op is in, or NULL. */
static Life *life_in(const Build *b, EchId root, EchId op)
{
    Life *life = b->life_of[root] > 0 ? life_at(b->r, b->life_of[root] - 1) : NULL;
    return life && (life->alloc == ECH_NONE || life->alloc < op) ? life : NULL;
}

static bool writes_all(const Pass *p, EchId op, EchId root)
{
    const EchSurvey *s = &p->s;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++)
        if (s->uses[u].access == ECH_WRITE && s->uses[u].buffer == root && s->uses[u].bytes >= s->buffers[root].bytes)
            return true;
    return false;
}

/* What is brought, updated and sent back is updated into another array: XLA updates in place what it was given, not what a copy brings, and parts of either. */
static void find_update(Build *b, Life *life, EchId op, bool writes)
{
    Pass *p = b->p;
    const Copy *c = moved(p, op);
    bool here = p->s.region[op] == b->r->region;
    if (c && here && c->in && c->on_device == life->root) {
        life->brought = op;
        life->updated = ECH_NONE;
    } else if (writes && life->brought != ECH_NONE && life->updated == ECH_NONE) {
        bool all = here && p->s.ops[op].kind == ECH_OP_KERNEL && writes_all(p, op, life->root);
        life->updated = all ? op : ECH_NONE;
        life->brought = all ? life->brought : ECH_NONE;
    } else if (c && here && !c->in && life->updated != ECH_NONE && life->update == 0 && life->free != ECH_NONE && !p->viewed[life->root]) {
        Update update = {.op = life->updated, .until = life->free, .made = ECH_NONE, .next = p->update_of[life->root]};
        g_array_append_val(p->updates, update);
        life->update = p->update_of[life->root] = p->updates->len;
    }
}

/* Op @op uses @root. */
static void use(Build *b, EchId op, EchId root, bool reads, bool writes)
{
    uint32_t node = node_at(b, op);
    if (node == UINT32_MAX)
        return;
    EchId writer = b->writer[root];
    if (writer != ECH_NONE && writer != op) {
        uint32_t over = node_over(b, writer, op);
        add_order(b, over, node);
        if (reads && node < b->r->steps->len && over >= b->r->steps->len && copy_at(b->p, b->p->copy_of[writer] - 1)->in)
            g_array_index(b->r->steps, EchHideStep, node).waits = true;
    }
    Life *life = life_in(b, root, op);
    if (writes || b->taken[root]) {
        for (guint k = b->reader[root]; k > 0; k = g_array_index(b->readers, Reader, k - 1).next) {
            EchId reader = g_array_index(b->readers, Reader, k - 1).op;
            add_order(b, reader != op ? node_over(b, reader, op) : node, node);
        }
        b->reader[root] = 0;
        b->writer[root] = op;
        b->taken[root] = false;
    } else {
        Reader reader = {op, b->reader[root]};
        g_array_append_val(b->readers, reader);
        b->reader[root] = b->readers->len;
    }
    if (life) {
        add_user(life, op, node);
        uint32_t over = node_over(b, op, life->free != ECH_NONE ? life->free : end_of_region(b->p, b->r->region));
        if (over != node)
            add_user(life, op, over);
        find_update(b, life, op, writes);
    }
}

static void use_all(Build *b, EchId op)
{
    const EchSurvey *s = &b->p->s;
    const EchOp *o = &s->ops[op];
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId root = ech_survey_root(s, s->uses[u].buffer);
        bool first = true, reads, writes;
        for (uint32_t v = o->first_use; v < u && first; v++)
            first = ech_survey_root(s, s->uses[v].buffer) != root;
        if (!first)
            continue;
        (void)ech_survey_access(s, op, root, &reads, &writes);
        use(b, op, root, reads, writes);
    }
}

/* A kernel in place reads what it takes, of which what was given back last is the old name. */
static void use_old(Build *b, EchId op)
{
    const EchSurvey *s = &b->p->s;
    const EchOp *o = &s->ops[op];
    guint n = 0, first = b->given->len;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            EchId root = ech_survey_root(s, s->uses[u].buffer);
            if (s->uses[u].access != ECH_READ || !b->taken[root] || !life_in(b, root, op))
                continue;
            if (pass == 0)
                first -= first > 0;
            else if (first + n < b->given->len) {
                Life *old = life_at(b->r, g_array_index(b->given, guint, first + n++));
                old->heir = b->life_of[root];
                add_user(old, op, node_at(b, op));
                add_order(b, b->writer[old->root] == ECH_NONE ? UINT32_MAX : node_over(b, b->writer[old->root], op), node_at(b, op));
                Reader reader = {op, b->reader[old->root]};
                g_array_append_val(b->readers, reader);
                b->reader[old->root] = b->readers->len;
            }
        }
}

/* What op @op says that it comes behind. */
static void order_deps(Build *b, EchId op)
{
    const Pass *p = b->p;
    const EchSurvey *s = &p->s;
    const EchOp *o = &s->ops[op];
    uint32_t node = node_at(b, op);
    bool copy = moved(p, op) && s->region[op] == b->r->region, waits = p->waits[op] && s->region[op] == b->r->region;
    for (uint32_t d = o->first_dep; d < o->first_dep + o->n_deps; d++) {
        EchId on = s->deps[d].op;
        const EchOp *behind = &s->ops[on];
        if (s->deps[d].distance > 0 || s->region[on] != b->r->region)
            continue;
        /* A copy comes behind what the core was at where it was asked for, which is no need of its own; what is brought into memory that was just taken, and
         * says that it comes behind a kernel, needs that (pass offload). */
        if (copy && behind->queue == s->core && !(moved(p, op)->in && behind->kind == ECH_OP_KERNEL))
            continue;
        if (behind->kind == ECH_OP_ALLOC || behind->kind == ECH_OP_FREE)
            use(b, op, ech_survey_root(s, behind->target), true, behind->kind == ECH_OP_FREE);
        for (uint32_t w = behind->first_dep; p->dropped[on] && w < behind->first_dep + behind->n_deps; w++)
            if (moved(p, s->deps[w].op))
                add_order(b, start_node(b->r, moved(p, s->deps[w].op)) + 1, node);
        if (moved(p, on) && !waits)
            add_order(b, start_node(b->r, moved(p, on)) + 1, node);
        else if (!moved(p, on))
            add_order(b, node_at(b, on), node);
    }
}

/* What a FREE says that it comes behind uses what it gives back until then; what an ALLOC does, what that takes before. */
static void use_deps(Build *b, EchId op, EchId root)
{
    const EchSurvey *s = &b->p->s;
    const EchOp *o = &s->ops[op];
    Life *life = o->kind == ECH_OP_FREE ? life_in(b, root, op) : NULL;
    for (uint32_t d = o->first_dep; d < o->first_dep + o->n_deps; d++) {
        EchId on = s->deps[d].op;
        if (s->deps[d].distance > 0 || node_at(b, on) == UINT32_MAX)
            continue;
        Reader reader = {on, b->reader[root]};
        g_array_append_val(b->readers, reader);
        b->reader[root] = b->readers->len;
        if (life) {
            add_user(life, on, node_at(b, on));
            add_user(life, on, node_over(b, on, op));
        }
    }
}

static bool keeps_its_place(const Pass *p, EchId op)
{
    const EchOp *o = &p->s.ops[op];
    return o->queue != p->s.core || (o->kind == ECH_OP_LOOP ? p->apart[op] : o->kind != ECH_OP_KERNEL);
}

/* Most that the body of a LOOP holds more than there is before it. */
static int64_t most_inside(const Pass *p, EchId loop)
{
    EchBytes most = p->s.live[loop];
    for (EchId i = loop; i <= p->s.end[loop]; i++)
        most = MAX(most, p->s.live[i]);
    return (int64_t)MIN(most - p->s.live[loop], INT64_MAX / 64);
}

static void collect_steps(Build *b)
{
    const Pass *p = b->p;
    const EchSurvey *s = &p->s;
    for (EchId i = begin_of_region(b->r->region); i < end_of_region(p, b->r->region); i = ech_survey_after(s, i)) {
        if (!is_step(p, i))
            continue;
        EchHideStep step = {.length = MIN(s->clock[ech_survey_after(s, i)] - s->clock[i], ECH_TIME_MAX / 8)};
        if (s->ops[i].kind == ECH_OP_LOOP) {
            step.copies = p->flying[i];
            step.inside = most_inside(p, i);
        }
        b->node_of[i] = b->r->steps->len;
        g_array_append_val(b->r->steps, step);
        g_array_append_val(b->r->ops, i);
    }
}

/* From the last to the first. */
static void collect_lives(Build *b)
{
    const EchSurvey *s = &b->p->s;
    g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = begin_of_region(b->r->region); i < end_of_region(b->p, b->r->region); i = ech_survey_after(s, i))
        if (s->ops[i].kind == ECH_OP_ALLOC || s->ops[i].kind == ECH_OP_FREE)
            g_array_append_val(ops, i);
    for (guint k = ops->len; k-- > 0;) {
        EchId op = g_array_index(ops, EchId, k), root = ech_survey_root(s, s->ops[op].target);
        bool alloc = s->ops[op].kind == ECH_OP_ALLOC;
        Life *behind = b->life_of[root] > 0 ? life_at(b->r, b->life_of[root] - 1) : NULL;
        if (alloc && behind && behind->alloc == ECH_NONE) {
            behind->alloc = op;
            continue;
        }
        Life life = {.root = root,
                     .alloc = alloc ? op : ECH_NONE,
                     .free = alloc ? ECH_NONE : op,
                     .brought = ECH_NONE,
                     .updated = ECH_NONE,
                     .users = g_array_new(FALSE, FALSE, sizeof(User)),
                     .next = b->life_of[root]};
        g_array_append_val(b->r->lives, life);
        if (life.next > 0)
            life_at(b->r, life.next - 1)->before = b->r->lives->len;
        b->life_of[root] = b->r->lives->len;
    }
}

/* What nothing uses, of a root that is there at other times, too, has no place between those. */
static void join_idle(const Region *r, guint k)
{
    Life *life = life_at(r, k), *before = life->before > 0 ? life_at(r, life->before - 1) : NULL, *next = life->next > 0 ? life_at(r, life->next - 1) : NULL;
    if (life->users->len > 0 || (!next && !before))
        return;
    if (next)
        next->alloc = life->alloc;
    else
        before->free = life->free;
    if (next)
        next->before = life->before;
    if (before)
        before->next = life->next;
    life->idle = true;
}

/* What nothing uses lasts for the next step, or the last one. */
static void use_somewhere(Build *b, guint k)
{
    Life *life = life_at(b->r, k);
    EchId at = life->alloc != ECH_NONE ? life->alloc : life->free;
    if (life->users->len > 0 || life->idle)
        return;
    guint low = 0, high = b->r->ops->len;
    ECH_SEARCH(low, high, j, g_array_index(b->r->ops, EchId, j) < at);
    add_user(life, at, b->r->ops->len > 0 ? MIN(low, b->r->ops->len - 1) : 0);
}

/* Of what is updated into an array of its own, the array that this makes. */
static void split_life(Build *b, guint k)
{
    Life *life = life_at(b->r, k);
    if (life->update == 0)
        return;
    EchId op = g_array_index(b->p->updates, Update, life->update - 1).op;
    Life made = {
        .root = life->root, .alloc = ECH_NONE, .free = life->free, .update = life->update, .made = true, .users = g_array_new(FALSE, FALSE, sizeof(User))};
    guint kept = 0;
    for (guint u = 0; u < life->users->len; u++) {
        User user = g_array_index(life->users, User, u);
        if (user.op >= op)
            g_array_append_val(made.users, user);
        if (user.op <= op)
            g_array_index(life->users, User, kept++) = user;
    }
    g_array_set_size(life->users, kept);
    g_array_append_val(b->r->lives, made);
}

static void build_init(Build *b, Pass *p)
{
    const EchSurvey *s = &p->s;
    *b = (Build){.p = p, .readers = g_array_new(FALSE, FALSE, sizeof(Reader)), .given = g_array_new(FALSE, FALSE, sizeof(guint))};
    b->node_of = g_new(uint32_t, s->n + 1);
    b->life_of = g_new0(guint, s->n_buffers + 1);
    b->taken = g_new0(bool, s->n_buffers + 1);
    b->writer = g_new(EchId, s->n_buffers + 1);
    b->reader = g_new0(guint, s->n_buffers + 1);
    for (size_t k = 0; k <= s->n_buffers; k++)
        b->writer[k] = ECH_NONE;
}

static void build_clear(Build *b)
{
    g_free(b->node_of);
    g_free(b->life_of);
    g_free(b->taken);
    g_free(b->writer);
    g_free(b->reader);
    g_array_unref(b->readers);
    g_array_unref(b->given);
}

static void forget_root(Build *b, EchId root)
{
    b->life_of[root] = b->reader[root] = 0;
    b->taken[root] = false;
    b->writer[root] = ECH_NONE;
}

/* What is known of the region's roots. */
static void forget(Build *b)
{
    const EchSurvey *s = &b->p->s;
    for (EchId i = begin_of_region(b->r->region); i < end_of_region(b->p, b->r->region); i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE)
            forget_root(b, ech_survey_root(s, o->target));
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            forget_root(b, ech_survey_root(s, s->uses[u].buffer));
    }
    g_array_set_size(b->readers, 0);
    g_array_set_size(b->given, 0);
}

static void build_region(Build *b, Region *r)
{
    const Pass *p = b->p;
    const EchSurvey *s = &p->s;
    b->r = r;
    collect_steps(b);
    collect_lives(b);
    uint32_t in_place = UINT32_MAX;
    for (EchId i = begin_of_region(r->region); i < end_of_region(p, r->region); i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_ALLOC && o->kind != ECH_OP_FREE) {
            order_deps(b, i);
            if (s->region[i] == r->region && is_step(p, i))
                use_old(b, i);
            use_all(b, i);
        }
        if (s->region[i] != r->region)
            continue;
        EchId root = o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE ? ech_survey_root(s, o->target) : ECH_NONE;
        if (root != ECH_NONE)
            use_deps(b, i, root);
        if (o->kind == ECH_OP_ALLOC)
            b->taken[root] = true;
        if (o->kind == ECH_OP_FREE) {
            guint k = b->life_of[root] - 1;
            g_array_append_val(b->given, k);
            b->life_of[root] = life_at(r, k)->next;
        }
        if (is_step(p, i))
            g_array_set_size(b->given, 0);
        if (is_step(p, i) && keeps_its_place(p, i)) {
            put_order(b, in_place, b->node_of[i], true);
            in_place = b->node_of[i];
        }
    }
    for (guint k = 0; k < r->lives->len; k++)
        join_idle(r, k);
    for (guint k = 0, n = r->lives->len; k < n; k++) {
        use_somewhere(b, k);
        split_life(b, k);
    }
    forget(b);
}

/* ---- scheduling ---- */

static int64_t bytes_of(const Pass *p, EchId buffer)
{
    return (int64_t)MIN(p->s.buffers[buffer].bytes, INT64_MAX / 64);
}

static void place_lives(const Region *r, const uint32_t *where, uint32_t **ret_first, uint32_t **ret_life)
{
    uint32_t *first = g_new0(uint32_t, r->n_nodes + 2), *lives = g_new(uint32_t, r->lives->len + 1);
    for (guint k = 0; k < r->lives->len; k++)
        if (where[k] != UINT32_MAX)
            first[where[k] + 2]++;
    for (uint32_t k = 2; k < r->n_nodes + 2; k++)
        first[k] += first[k - 1];
    for (guint k = 0; k < r->lives->len; k++)
        if (where[k] != UINT32_MAX)
            lives[first[where[k] + 1]++] = k;
    *ret_first = first;
    *ret_life = lives;
}

/* Where in the order what is taken, and given back. */
static void place_all_lives(Region *r)
{
    guint n = r->lives->len;
    g_autofree uint32_t *place = g_new(uint32_t, r->n_nodes + 1), *begin = g_new(uint32_t, n + 1), *end = g_new0(uint32_t, n + 1),
                        *hand = g_new(uint32_t, n + 1);
    for (uint32_t k = 0; k < r->n_nodes; k++)
        place[r->order[k]] = k;
    for (guint k = 0; k < n; k++) {
        const GArray *users = life_at(r, k)->users;
        begin[k] = hand[k] = UINT32_MAX;
        end[k] = life_at(r, k)->idle ? UINT32_MAX : 0;
        for (guint u = 0; u < users->len; u++) {
            begin[k] = MIN(begin[k], place[g_array_index(users, User, u).node]);
            end[k] = MAX(end[k], place[g_array_index(users, User, u).node]);
        }
    }
    for (guint k = 0; k < n; k++) {
        guint heir = life_at(r, k)->heir;
        if (heir == 0 || begin[heir - 1] != end[k] || begin[k] == end[k])
            continue;
        hand[k] = end[k];
        end[k] = UINT32_MAX;
    }
    place_lives(r, hand, &r->hand.first, &r->hand.life);
    place_lives(r, begin, &r->begin.first, &r->begin.life);
    place_lives(r, end, &r->end.first, &r->end.life);
}

/* Tries until it keeps to memory; false where it cannot. *@ret_most: bytes of the device that it takes. */
static bool keep_to_memory(const Pass *p, const EchHideProblem *problem, uint32_t *ret_order, uint32_t *ret_flying, EchBytes *ret_most)
{
    EchHideProblem tried = *problem;
    const int64_t room = (int64_t)MIN(p->memory, INT64_MAX / 4) - problem->elsewhere;
    int64_t most = ech_hide_latencies(&tried, ret_order, ret_flying);
    for (uint64_t k = 0; k < p->o->reruns && most > room; k++) {
        tried.memory -= tried.memory / 10;
        most = ech_hide_latencies(&tried, ret_order, ret_flying);
    }
    *ret_most = (EchBytes)MAX(most, 0);
    return most <= room;
}

/* What programs compiled in little room show of libtpu: where its scheduler cannot keep to memory all is as it is given, one copy at a time. Where it could not
 * before (what makes arrays again comes behind it) it cannot with the host's arrays, which count as well. */
static void order_nodes(Pass *p, Region *r, EchHideProblem *problem, uint32_t inside, uint32_t *ret_flying)
{
    EchBytes most = 0, first = 0;
    problem->rules.first = !p->rules.aggressive && !p->remade;
    if (problem->rules.first && !keep_to_memory(p, problem, r->order, ret_flying, &first))
        first = 0;
    problem->rules.first = false;
    if (p->remade || (!keep_to_memory(p, problem, r->order, ret_flying, &most) && p->rules.hosts)) {
        problem->rules.given = true;
        problem->rules.limit = MAX(inside, 1);
        (void)keep_to_memory(p, problem, r->order, ret_flying, &most);
    }
    p->most = MAX(p->most, most);
    p->most_first = MAX(p->most_first, first);
}

/* What is scheduled of a region. */
typedef struct {
    EchHideCopy *copies;
    GArray *arrays, *users; /* EchHideArray; uint32_t */
} Tables;

static void tables_clear(Tables *t)
{
    g_free(t->copies);
    g_array_unref(t->arrays);
    g_array_unref(t->users);
}

/* Borrows from the region and from *@ret_tables. */
static EchHideProblem problem_of(const Pass *p, Region *r, Tables *ret_tables)
{
    *ret_tables = (Tables){.copies = g_new(EchHideCopy, r->numbers->len + 1),
                           .arrays = g_array_new(FALSE, FALSE, sizeof(EchHideArray)),
                           .users = g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    GArray *arrays = ret_tables->arrays, *users = ret_tables->users;
    for (guint k = 0; k < r->numbers->len; k++) {
        const Copy *c = copy_at(p, g_array_index(r->numbers, uint32_t, k));
        ret_tables->copies[k] = (EchHideCopy){.to_device = c->in, .length = length_of(p, c)};
    }
    r->n_nodes = r->steps->len + 2 * r->numbers->len;
    g_autofree guint *seen = g_new0(guint, r->n_nodes + 1);
    EchHideProblem problem = {.held = (int64_t)MIN(p->s.live[begin_of_region(r->region)], INT64_MAX / 64), .elsewhere = p->elsewhere};
    for (guint k = 0; k < r->lives->len; k++) {
        const Life *life = life_at(r, k);
        EchId memory = p->s.buffers[life->root].memory;
        if (life->idle || (memory != p->s.hbm && !(p->rules.hosts && ech_survey_is_host(&p->s, memory))))
            continue;
        EchHideArray array = {.bytes = bytes_of(p, life->root),
                              .first_user = users->len,
                              .given = life->alloc == ECH_NONE && !life->made,
                              .left = life->free == ECH_NONE,
                              .elsewhere = memory != p->s.hbm};
        for (guint u = 0; u < life->users->len; u++) {
            uint32_t node = g_array_index(life->users, User, u).node;
            if (seen[node] == k + 1)
                continue;
            seen[node] = k + 1;
            g_array_append_val(users, node);
        }
        array.n_users = users->len - array.first_user;
        problem.held -= array.given && !array.elsewhere ? array.bytes : 0;
        g_array_append_val(arrays, array);
    }
    problem.steps = (const EchHideStep *)r->steps->data;
    problem.n_steps = r->steps->len;
    problem.copies = ret_tables->copies;
    problem.n_copies = r->numbers->len;
    problem.orders = (const EchHideOrder *)r->orders->data;
    problem.n_orders = r->orders->len;
    problem.arrays = (const EchHideArray *)arrays->data;
    problem.n_arrays = arrays->len;
    problem.users = (const uint32_t *)users->data;
    problem.rules = p->rules;
    problem.memory = p->memory;
    return problem;
}

static void schedule_region(Pass *p, Region *r)
{
    Tables tables;
    EchHideProblem problem = problem_of(p, r, &tables);
    uint32_t inside = 0, flying;
    for (guint k = 0; k < r->steps->len; k++)
        inside = MAX(inside, problem.steps[k].copies);
    problem.rules.limit = MAX(problem.rules.limit, inside);
    r->order = g_new(uint32_t, r->n_nodes + 1);
    order_nodes(p, r, &problem, inside, &flying);
    for (EchId loop = r->region; loop != ECH_NONE; loop = p->s.region[loop])
        p->flying[loop] = MAX(p->flying[loop], MAX(flying, inside));
    place_all_lives(r);
    tables_clear(&tables);
}

static Region *region_new(EchId region)
{
    Region *r = g_new0(Region, 1);
    r->region = region;
    r->numbers = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    r->steps = g_array_new(FALSE, FALSE, sizeof(EchHideStep));
    r->ops = g_array_new(FALSE, FALSE, sizeof(EchId));
    r->orders = g_array_new(FALSE, FALSE, sizeof(EchHideOrder));
    r->lives = g_array_new(FALSE, FALSE, sizeof(Life));
    return r;
}

static void region_free(gpointer data)
{
    Region *r = data;
    for (guint k = 0; k < r->lives->len; k++)
        g_array_unref(life_at(r, k)->users);
    g_array_unref(r->numbers);
    g_array_unref(r->steps);
    g_array_unref(r->ops);
    g_array_unref(r->orders);
    g_array_unref(r->lives);
    g_free(r->order);
    g_free(r->hand.first);
    g_free(r->hand.life);
    g_free(r->begin.first);
    g_free(r->begin.life);
    g_free(r->end.first);
    g_free(r->end.life);
    g_free(r);
}

/* Where a region is in Pass.region_of. */
static size_t key_of(const Pass *p, EchId region)
{
    return region == ECH_NONE ? p->s.n : region;
}

/* Inner loops come behind those around them, and go first; last what is around all. */
static gint compare_regions(gconstpointer x, gconstpointer y)
{
    const Region *a = *(Region *const *)x, *b = *(Region *const *)y;
    EchId i = a->region + 1, j = b->region + 1; /* 0: ECH_NONE's */
    return (j > i) - (j < i);
}

static void schedule_all(Pass *p)
{
    for (uint32_t k = 0; k < p->copies->len; k++) {
        Copy *c = copy_at(p, k);
        uint32_t *known = &p->region_of[key_of(p, c->region)];
        if (*known == 0) {
            g_ptr_array_add(p->regions, region_new(c->region));
            *known = p->regions->len;
        }
        Region *r = g_ptr_array_index(p->regions, *known - 1);
        c->number = r->numbers->len;
        g_array_append_val(r->numbers, k);
    }
    g_ptr_array_sort(p->regions, compare_regions);
    Build build;
    build_init(&build, p);
    for (guint k = 0; k < p->regions->len; k++) {
        Region *r = g_ptr_array_index(p->regions, k);
        p->region_of[key_of(p, r->region)] = k + 1;
        build_region(&build, r);
        schedule_region(p, r);
    }
    build_clear(&build);
}

/* ---- writing ---- */

/* A body that is open. */
typedef struct {
    EchId region;
    const Region *scheduled; /* or NULL */
    uint32_t next;           /* place in its order, or op */
} Body;

typedef struct {
    Pass *p;
    EchEdit e;
    GArray *bodies; /* Body */
} Writer;

/* What stands for @buffer where op @op uses it. */
static EchId stands_for(const Pass *p, EchId buffer, EchId op, bool writes)
{
    for (uint32_t k = p->update_of[buffer]; k > 0; k = g_array_index(p->updates, Update, k - 1).next) {
        const Update *u = &g_array_index(p->updates, Update, k - 1);
        if ((op > u->op || (op == u->op && writes)) && op < u->until)
            return u->made;
    }
    return buffer;
}

/* The old waits for copies that are dropped are over where the last of the new ones for them is. */
static void map_wait(Writer *w, EchId op)
{
    const EchSurvey *s = &w->p->s;
    for (uint32_t d = s->ops[op].first_dep; w->p->dropped[op] && d < s->ops[op].first_dep + s->ops[op].n_deps; d++) {
        const Copy *c = moved(w->p, s->deps[d].op);
        if (c && c->wait != ECH_NONE)
            w->e.map[op] = w->e.map[op] == ECH_NONE ? c->wait : MAX(w->e.map[op], c->wait);
    }
}

/* @asked: the op that the core was at last, or ECH_NONE; what other queues were asked for behind some op of its own is asked for behind that now. */
static void put_deps(Writer *w, EchId op, EchId asked)
{
    const Pass *p = w->p;
    const EchSurvey *s = &p->s;
    const EchOp *o = &s->ops[op];
    bool other = o->queue != s->core && p->region_of[key_of(p, s->region[op])] > 0, behind = moved(p, op) != NULL;
    for (uint32_t d = o->first_dep; d < o->first_dep + o->n_deps; d++) {
        const EchDep *dep = &s->deps[d];
        bool here = dep->distance == 0 && s->region[dep->op] == s->region[op];
        if (here && other && s->ops[dep->op].queue == s->core)
            behind = true;
        else if (!(here && p->waits[op] && moved(p, dep->op))) {
            if (dep->distance == 0)
                map_wait(w, dep->op);
            ech_edit_dep(&w->e, dep, 0);
        }
    }
    if (behind && asked != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, asked, 0);
}

static void put(Writer *w, EchId op)
{
    const Pass *p = w->p;
    const EchSurvey *s = &p->s;
    const EchOp *o = &s->ops[op];
    EchId asked = w->e.last_core;
    w->e.map[op] = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, op));
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        EchId buffer = stands_for(p, use->buffer, op, use->access == ECH_WRITE);
        ech_trace_builder_use(w->e.builder, buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    put_deps(w, op, asked);
    ech_edit_work(&w->e, op, 1);
    if (o->queue == s->core)
        w->e.last_core = w->e.map[op];
}

/* The core waits for it. */
static void put_wait(Writer *w, Copy *c)
{
    const EchSurvey *s = &w->p->s;
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = s->core;
    wait.name = ech_edit_text(&w->e, s->ops[c->op].name);
    wait.stack = ech_edit_text(&w->e, s->ops[c->op].stack);
    c->wait = w->e.last_core = ech_trace_builder_op(w->e.builder, wait);
    ech_trace_builder_dep(w->e.builder, w->e.map[c->op], 0);
}

static void begin_life(Writer *w, const Life *life, EchId region)
{
    if (life->alloc != ECH_NONE)
        put(w, life->alloc);
    if (!life->made)
        return;
    Update *u = &g_array_index(w->p->updates, Update, life->update - 1);
    EchBuffer made = *ech_trace_builder_peek_buffer(w->e.builder, life->root);
    made.loop = region == ECH_NONE ? ECH_NONE : w->e.map[region];
    u->made = ech_trace_builder_buffer(w->e.builder, made);
    (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, u->made);
}

static void end_life(Writer *w, const Life *life)
{
    if (life->made)
        w->e.map[life->free] = ech_edit_memory(&w->e, ECH_OP_FREE, g_array_index(w->p->updates, Update, life->update - 1).made);
    else if (life->update > 0)
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, life->root);
    else if (life->free != ECH_NONE)
        put(w, life->free);
}

static void open_body(Writer *w, EchId region)
{
    const Pass *p = w->p;
    uint32_t k = p->region_of[key_of(p, region)];
    Body body = {region, k > 0 ? g_ptr_array_index(p->regions, k - 1) : NULL, k > 0 ? 0 : begin_of_region(region)};
    g_array_append_val(w->bodies, body);
    w->e.last_core = ECH_NONE;
}

/* Node @body->next of the order, with what begins and ends there; the LOOP that it is, or ECH_NONE. */
static EchId put_node(Writer *w, Body *body)
{
    Pass *p = w->p;
    const Region *r = body->scheduled;
    uint32_t node = r->order[body->next], n_steps = r->steps->len;
    for (uint32_t k = r->hand.first[body->next]; k < r->hand.first[body->next + 1]; k++)
        end_life(w, life_at(r, r->hand.life[k]));
    for (uint32_t k = r->begin.first[body->next]; k < r->begin.first[body->next + 1]; k++)
        begin_life(w, life_at(r, r->begin.life[k]), r->region);
    if (node < n_steps) {
        EchId op = g_array_index(r->ops, EchId, node);
        put(w, op);
        return p->s.ops[op].kind == ECH_OP_LOOP ? op : ECH_NONE;
    }
    Copy *c = copy_at(p, g_array_index(r->numbers, uint32_t, (node - n_steps) / 2));
    if ((node - n_steps) % 2 == 0)
        put(w, c->op);
    else
        put_wait(w, c);
    return ECH_NONE;
}

static void end_node(Writer *w, Body *body)
{
    const Region *r = body->scheduled;
    for (uint32_t k = r->end.first[body->next]; k < r->end.first[body->next + 1]; k++)
        end_life(w, life_at(r, r->end.life[k]));
    body->next++;
}

static void write_ops(Writer *w)
{
    const EchSurvey *s = &w->p->s;
    open_body(w, ECH_NONE);
    while (w->bodies->len > 0) {
        Body *body = &g_array_index(w->bodies, Body, w->bodies->len - 1);
        bool over = body->scheduled ? body->next == body->scheduled->n_nodes : body->next == end_of_region(w->p, body->region);
        if (over) {
            EchId loop = body->region;
            g_array_set_size(w->bodies, w->bodies->len - 1);
            if (loop == ECH_NONE)
                return;
            ech_edit_close(&w->e, w->e.map[loop]);
            body = &g_array_index(w->bodies, Body, w->bodies->len - 1);
            if (body->scheduled)
                end_node(w, body);
            else
                body->next = s->end[loop];
            continue;
        }
        EchId loop = ECH_NONE;
        if (body->scheduled)
            loop = put_node(w, body);
        else {
            put(w, body->next);
            loop = s->ops[body->next].kind == ECH_OP_LOOP ? body->next : ECH_NONE;
        }
        if (loop != ECH_NONE)
            open_body(w, loop);
        else if (body->scheduled)
            end_node(w, body);
        else
            body->next++;
    }
}

/* In which of two orders libtpu's scheduler is given what is brought is not known where that decides, nor how much it makes again itself
 * (validation/what_ifs.md). */
static void tell_doubts(const Pass *p, EchTraceBuilder *builder)
{
    ech_trace_builder_drop_properties(builder, "offload_early_bytes");
    ech_trace_builder_drop_properties(builder, "schedule_first_bytes");
    if (p->most_first > p->most)
        ech_trace_builder_printf_property(builder, "schedule_first_bytes", "%" G_GUINT64_FORMAT, p->most_first);
    if (p->remade)
        ech_trace_builder_set_property(builder, "schedule_takes_up_to", ECH_SCHEDULE_MARGIN);
}

static EchTrace *write_trace(Pass *p, GError **error)
{
    const EchSurvey *s = &p->s;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    Writer writer = {.p = p, .bodies = g_array_new(FALSE, FALSE, sizeof(Body))}, *w = &writer;
    ech_edit_init(&w->e, s, builder);
    if (p->sooner)
        ech_edit_keep_places(&w->e);
    else
        tell_doubts(p, builder);
    write_ops(w);
    for (EchId i = 0; i < s->n; i++)
        map_wait(w, i);
    ech_edit_loops(&w->e, s->n_buffers);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    ech_edit_clear(&w->e);
    g_array_unref(w->bodies);
    return out;
}

/* False: the trace has no device memory, or nothing computes in it. */
static bool pass_init(Pass *p, const ScheduleOptions *o, EchTrace *in, const EchDevice *device)
{
    const char *platform = ech_trace_get_property(in, "platform");
    const EchMemory *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    *p = (Pass){.o = o};
    if (!ech_survey_init(&p->s, in, device))
        return false;
    bool gpu = g_strcmp0(platform ? platform : device ? device->family : NULL, "gpu") == 0;
    p->rules = ech_hide_rules(gpu, device ? device->compiler : NULL);
    p->rules.limit = o->copies > 0 ? (uint32_t)o->copies : p->rules.limit;
    p->memory = o->memory > 0 ? o->memory : hbm != NULL ? hbm->available - hbm->available / 20 : UINT64_MAX;
    p->copies = g_array_new(FALSE, TRUE, sizeof(Copy));
    p->updates = g_array_new(FALSE, FALSE, sizeof(Update));
    p->regions = g_ptr_array_new_with_free_func(region_free);
    p->region_of = g_new0(uint32_t, p->s.n + 1);
    p->copy_of = g_new0(uint32_t, p->s.n + 1);
    p->update_of = g_new0(uint32_t, p->s.n_buffers + 1);
    p->viewed = g_new0(bool, p->s.n_buffers + 1);
    p->waits = g_new0(bool, p->s.n + 1);
    p->dropped = g_new0(bool, p->s.n + 1);
    p->apart = g_new0(bool, p->s.n + 1);
    p->waiter = g_new0(EchId, p->s.n + 1);
    p->flying = g_new0(uint32_t, p->s.n + 1);
    p->remade = ech_trace_is_remade(in);
    for (EchId b = 0; b < p->s.n_buffers; b++) {
        const EchBuffer *buffer = &p->s.buffers[b];
        if (buffer->alias_of != ECH_NONE)
            p->viewed[ech_survey_root(&p->s, b)] = true;
        else if (p->rules.hosts && buffer->resident && ech_survey_is_host(&p->s, buffer->memory))
            p->elsewhere = MIN(p->elsewhere + bytes_of(p, b), INT64_MAX / 64);
    }
    return true;
}

static void pass_clear(Pass *p)
{
    g_array_unref(p->copies);
    g_array_unref(p->updates);
    g_ptr_array_unref(p->regions);
    g_free(p->region_of);
    g_free(p->copy_of);
    g_free(p->update_of);
    g_free(p->viewed);
    g_free(p->waits);
    g_free(p->dropped);
    g_free(p->apart);
    g_free(p->waiter);
    g_free(p->flying);
    ech_survey_clear(&p->s);
}

static EchTrace *schedule_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    Pass pass, *p = &pass;
    if (ech_trace_is_captured(in)) {
        ech_diag_remark(diag, "schedule: left the trace as it is: it is no program of XLA's");
        return ech_trace_ref(in);
    }
    if (!pass_init(p, options, in, device)) {
        ech_diag_remark(diag, "schedule: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    find_copies(p);
    EchTrace *out;
    if (p->copies->len == 0) {
        ech_diag_remark(diag, "schedule: nothing is copied from or to the host by a copy of its own");
        out = ech_trace_ref(in);
    } else {
        find_waits(p);
        schedule_all(p);
        out = write_trace(p, error);
        g_autofree char *most = ech_format_bytes(p->most), *memory = ech_format_bytes(p->memory);
        ech_diag_remark(diag, "schedule: %u copies from and to the host where XLA's scheduler has them, with %s on the device of the %s that it keeps to",
                        p->copies->len, most, memory);
    }
    pass_clear(p);
    return out;
}

/* Whether an op uses memory of the device's other than hbm: what lies there has a place for a time. */
static bool is_on_chip(const EchSurvey *s, EchId op)
{
    bool on_chip = false;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchId memory = s->buffers[ech_survey_root(s, s->uses[u].buffer)].memory;
        on_chip |= memory != s->hbm && !ech_survey_is_host(s, memory);
    }
    return on_chip;
}

EchTrace *ech_schedule_sooner(EchTrace *in, const EchDevice *device, GError **error)
{
    static const ScheduleOptions none = {0};
    Pass pass, *p = &pass;
    if (ech_trace_is_captured(in) || !pass_init(p, &none, in, device))
        return ech_trace_ref(in);
    p->sooner = true;
    Region *r = region_new(ECH_NONE);
    g_ptr_array_add(p->regions, r);
    p->region_of[key_of(p, ECH_NONE)] = p->regions->len;
    find_waits(p);
    Build build;
    build_init(&build, p);
    build_region(&build, r);
    build_clear(&build);
    Tables tables;
    EchHideProblem problem = problem_of(p, r, &tables);
    g_autofree bool *stays = g_new0(bool, r->steps->len + 1);
    for (guint k = 0; k < r->steps->len; k++) {
        EchId op = g_array_index(r->ops, EchId, k);
        stays[k] = keeps_its_place(p, op) || p->s.ops[op].kind != ECH_OP_KERNEL || is_on_chip(&p->s, op);
    }
    r->order = g_new(uint32_t, r->n_nodes + 1);
    EchTrace *out;
    if (ech_order_sooner(&problem, stays, r->order) > 0) {
        place_all_lives(r);
        out = write_trace(p, error);
    } else {
        out = ech_trace_ref(in);
    }
    tables_clear(&tables);
    pass_clear(p);
    return out;
}

const EchPassClass ech_pass_schedule = {.name = "schedule",
                                        .summary =
                                            "run kernels, begin copies from and to the host, and wait for them, when XLA's latency-hiding scheduler does",
                                        .source = "openxla/xla latency_hiding_scheduler.cc; libtpu's limits by what it compiles: validation/what_ifs.md",
                                        .params = schedule_params,
                                        .options_size = sizeof(ScheduleOptions),
                                        .trace = schedule_run};
