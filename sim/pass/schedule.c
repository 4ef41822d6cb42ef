/* schedule: copies between the device and the host begin, and are waited for, where XLA's latency-hiding scheduler has them.
 *
 * Each body of a loop, and what is around them all, is scheduled by itself (models/place/latency_hiding.h), inner ones first. Kernels, and copies within the
 * device, keep their order, so that what lies in on-chip memory stays where it is. What a copy brings is taken where it begins; what one takes away is given
 * back where it is waited for. */
#include "models/place/latency_hiding.h"
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
    EchId on_device, on_host; /* roots */
    EchId alloc, free;        /* where memory of what it writes is taken, and of what it reads given back; ECH_NONE: nowhere in its region */
    bool in, done;            /* the latter as the trace is written */
    EchId needed;             /* op at its level before which it must be over; ECH_NONE: its region's end */
    EchId behind;             /* op at its level that it starts behind; ECH_NONE: none */
    EchId used;               /* last op at its level besides such copies that uses what it reads; ECH_NONE: none */
    EchId made;               /* from the device: KERNEL that updates what was brought, into an array of its own; ECH_NONE: none */
    uint32_t next_made;       /* 1 + the next copy whose array the same KERNEL makes; 0: none */
} Copy;

/* Where something of a copy is put, in a list by where that is. */
typedef struct {
    uint32_t copy;
    bool done;
    EchId region;
    guint next; /* 1 + the next one at the same place; 0: none */
} Event;

typedef struct {
    EchSurvey s;
    EchUsers users, writers; /* of roots */
    const ScheduleOptions *o;
    EchHideRules rules;
    bool gpu;
    EchBytes memory;
    GArray *copies;       /* Copy, in their order */
    uint32_t *copy_of;    /* per op: 1 + the copy that it is, or is the ALLOC or FREE of; 0: none */
    bool *waits;          /* per op: a WAIT for such copies, for which others stand */
    bool *dropped;        /* per op: a WAIT for nothing else */
    EchId *waiter;        /* per op of another queue: the first of the core that waits for it; itself where none does, and of other ops */
    uint32_t *flying;     /* per LOOP: copies under way at a time inside */
    uint32_t *depth;      /* per op: as EchHideStep.depth */
    uint32_t *step_of;    /* per op at the level of the region at hand: 1 + its step */
    bool *breaks;         /* per op: a step begins with it */
    int64_t *come, *gone; /* per op: bytes taken right before it, and given back right behind it, by no ALLOC or FREE */
    uint32_t *makes;      /* per op: 1 + the last copy whose array it makes; 0: none */
    guint *events_at;     /* per op, n: 1 + the first Event before it */
    GArray *events;
    EchBytes most; /* as the scheduler counts */
} Pass;

static Copy *copy_at(const Pass *p, uint32_t k)
{
    return &g_array_index(p->copies, Copy, k);
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

/* Of a buffer's users the first behind @op. */
static uint32_t first_behind(const EchUsers *users, EchId root, EchId op)
{
    uint32_t low = users->first[root], high = users->first[root + 1];
    ECH_SEARCH(low, high, at, users->op[at] <= op);
    return low;
}

static void find_copies(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree EchId *alloc = g_new(EchId, s->n_buffers + 1);
    for (size_t b = 0; b <= s->n_buffers; b++)
        alloc[b] = ECH_NONE;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_ALLOC)
            alloc[ech_survey_root(s, o->target)] = i;
        if (!is_host_copy(p, i))
            continue;
        bool in = o->memory_to == s->hbm;
        EchId from = ech_survey_root(s, s->uses[o->first_use].buffer), to = ech_survey_root(s, s->uses[o->first_use + 1].buffer);
        Copy c = {.op = i,
                  .region = s->region[i],
                  .in = in,
                  .on_device = in ? to : from,
                  .on_host = in ? from : to,
                  .alloc = ECH_NONE,
                  .free = ECH_NONE,
                  .needed = ECH_NONE,
                  .behind = ECH_NONE,
                  .used = ECH_NONE,
                  .made = ECH_NONE};
        /* Memory of the device that it does not take itself is somebody else's before. */
        EchId a = alloc[to];
        if (a != ECH_NONE && s->region[a] == c.region && p->copy_of[a] == 0 && p->users.op[first_behind(&p->users, to, a)] == i) {
            c.alloc = a;
            p->copy_of[a] = p->copies->len + 1;
        } else if (in)
            continue;
        else if (a != ECH_NONE && s->region[a] == c.region)
            c.behind = a;
        EchId made = alloc[from];
        if (made != ECH_NONE && s->region[made] == c.region && p->copy_of[made] == 0)
            c.behind = ech_later_op(c.behind, made);
        p->copy_of[i] = p->copies->len + 1;
        g_array_append_val(p->copies, c);
    }
    /* What is given back first behind each. */
    g_autofree EchId *freed = alloc;
    alloc = NULL;
    for (size_t b = 0; b <= s->n_buffers; b++)
        freed[b] = ECH_NONE;
    uint32_t k = p->copies->len;
    for (EchId i = (EchId)s->n; i-- > 0;) {
        if (s->ops[i].kind == ECH_OP_FREE)
            freed[ech_survey_root(s, s->ops[i].target)] = i;
        if (k == 0 || copy_at(p, k - 1)->op != i)
            continue;
        Copy *c = copy_at(p, --k);
        EchId source = c->in ? c->on_host : c->on_device, f = freed[source], end = freed[c->in ? c->on_device : c->on_host];
        uint32_t written = first_behind(&p->writers, source, i);
        /* Of several that read the same, as it was written last, the last gives it back. */
        if (f != ECH_NONE && s->region[f] == c->region && p->copy_of[f] == 0 && (written == p->writers.first[source + 1] || p->writers.op[written] > f)) {
            c->free = f;
            p->copy_of[f] = k + 1;
        }
        if (end != ECH_NONE && s->region[end] == c->region && p->copy_of[end] == 0)
            c->needed = end;
    }
}

/* The copy that an op is, or NULL. */
static Copy *moved(const Pass *p, EchId op)
{
    uint32_t k = p->copy_of[op];
    return k > 0 && copy_at(p, k - 1)->op == op ? copy_at(p, k - 1) : NULL;
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
            if (dep->distance == 0 && s->ops[dep->op].queue != s->core && p->waiter[dep->op] == dep->op && p->copy_of[i] == 0)
                p->waiter[dep->op] = i;
        }
        p->waits[i] = any && o->kind == ECH_OP_WAIT && o->target == ECH_NONE;
        p->dropped[i] = p->waits[i] && !other;
    }
}

/* ---- what they are between ---- */

static bool writes(const Pass *p, EchId op, EchId root)
{
    bool reads, writes;
    (void)ech_survey_access(&p->s, op, root, &reads, &writes);
    return writes;
}

/* The op at the level of copy @c by which what computes knows that @op is over, if it does when it comes to the copy. */
static EchId over_at(const Pass *p, EchId op, const Copy *c)
{
    EchId waiter = ech_survey_at_level(&p->s, p->waiter[op], c->region);
    return waiter != ECH_NONE && waiter < c->op ? waiter : ech_survey_at_level(&p->s, op, c->region);
}

static void add_order(GArray *orders, const Pass *p, const Copy *done, const Copy *start)
{
    EchHideOrder order = {.done = (uint32_t)(done - copy_at(p, 0)), .start = (uint32_t)(start - copy_at(p, 0))};
    if (done->region == start->region && order.done < order.start)
        g_array_append_val(orders, order);
}

/* @users of what copy @c reads or writes: the first behind it, and the last before it, are what it is between; what is beyond those is beyond them, too. */
static void put_between(Pass *p, Copy *c, const EchUsers *users, EchId root, GArray *orders)
{
    const EchSurvey *s = &p->s;
    EchId begin = c->region == ECH_NONE ? 0 : c->region + 1, end = end_of_region(p, c->region);
    uint32_t behind = first_behind(users, root, c->op), before = behind;
    while (before > users->first[root] && users->op[before - 1] >= c->op)
        before--;
    if (behind < users->first[root + 1] && users->op[behind] < end) {
        Copy *other = moved(p, users->op[behind]);
        if (other && other->region == c->region)
            add_order(orders, p, c, other);
        else
            c->needed = ech_earlier_op(c->needed, ech_survey_at_level(s, users->op[behind], c->region));
    }
    if (before > users->first[root] && users->op[before - 1] >= begin) {
        Copy *other = moved(p, users->op[before - 1]);
        if (other && other->region == c->region)
            add_order(orders, p, other, c);
        else
            c->behind = ech_later_op(c->behind, over_at(p, users->op[before - 1], c));
    }
}

/* What reads what copy @c writes, since that was written last, must have read it. */
static void put_behind_readers(Pass *p, Copy *c, EchId target, GArray *orders)
{
    for (uint32_t u = first_behind(&p->users, target, c->op); u-- > p->users.first[target];) {
        EchId op = p->users.op[u];
        Copy *other = moved(p, op);
        if (op >= c->op)
            continue;
        if (op < (c->region == ECH_NONE ? 0 : c->region + 1) || writes(p, op, target))
            return;
        if (other && other->region == c->region)
            add_order(orders, p, other, c);
        else
            c->behind = ech_later_op(c->behind, over_at(p, op, c));
    }
}

/* The last use of what @c reads; what gives that back is behind all that copies it since it was written. */
static void find_last_use(Pass *p, Copy *c, EchId source, GArray *orders)
{
    EchId until = c->free != ECH_NONE ? c->free : end_of_region(p, c->region);
    for (uint32_t u = first_behind(&p->users, source, until - 1); u-- > p->users.first[source];) {
        EchId op = p->users.op[u], here = ech_survey_at_level(&p->s, op, c->region);
        Copy *other = here != ECH_NONE ? moved(p, here) : NULL;
        if (here == ECH_NONE)
            return;
        if (other && other != c && c->free != ECH_NONE)
            add_order(orders, p, other, c);
        if (!other)
            c->used = ech_later_op(c->used, here);
        if (c->used != ECH_NONE && (c->free == ECH_NONE || writes(p, op, source)))
            return;
    }
}

static void find_bounds(Pass *p, GArray *orders)
{
    const EchSurvey *s = &p->s;
    for (uint32_t k = 0; k < p->copies->len; k++) {
        Copy *c = copy_at(p, k);
        const EchOp *o = &s->ops[c->op];
        EchId source = c->in ? c->on_host : c->on_device, target = c->in ? c->on_device : c->on_host;
        put_between(p, c, &p->writers, source, orders);
        put_between(p, c, &p->users, target, orders);
        put_behind_readers(p, c, target, orders);
        find_last_use(p, c, source, orders);
        for (uint32_t d = 0; d < o->n_deps; d++) {
            const EchDep *dep = &s->deps[o->first_dep + d];
            if (dep->distance > 0 || s->ops[dep->op].queue == s->core)
                continue; /* of the core: where it was asked for, not what it needs */
            if (moved(p, dep->op))
                add_order(orders, p, moved(p, dep->op), c);
            else
                c->behind = ech_later_op(c->behind, over_at(p, dep->op, c));
        }
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        for (uint32_t d = 0; d < o->n_deps && !moved(p, i); d++) {
            const EchDep *dep = &s->deps[o->first_dep + d];
            Copy *c = dep->distance == 0 ? moved(p, dep->op) : NULL;
            EchId here = c && p->copy_of[i] == 0 ? ech_survey_at_level(s, i, c->region) : ECH_NONE;
            if (here == ECH_NONE)
                continue;
            if (!p->waits[i])
                c->needed = ech_earlier_op(c->needed, here);
            else if (!p->dropped[i] && (c->free == ECH_NONE || here < c->free)) /* of others, too, that use what is given back then */
                c->used = ech_later_op(c->used, here);
        }
    }
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
static void find_updates(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree EchId *brought = g_new(EchId, s->n_buffers + 1);
    g_autofree bool *viewed = g_new0(bool, s->n_buffers + 1);
    for (size_t b = 0; b <= s->n_buffers; b++)
        brought[b] = ECH_NONE;
    for (size_t b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].alias_of != ECH_NONE)
            viewed[ech_survey_root(s, (EchId)b)] = true;
    for (uint32_t k = 0; k < p->copies->len; k++) {
        Copy *c = copy_at(p, k);
        if (c->in)
            brought[c->on_device] = c->op;
        EchId from = brought[c->on_device];
        if (c->in || c->free == ECH_NONE || from == ECH_NONE || s->region[from] != c->region || viewed[c->on_device])
            continue;
        for (uint32_t u = first_behind(&p->users, c->on_device, from); u < p->users.first[c->on_device + 1] && p->users.op[u] < c->op; u++) {
            EchId op = p->users.op[u];
            if (!writes(p, op, c->on_device))
                continue;
            if (s->ops[op].kind == ECH_OP_KERNEL && s->region[op] == c->region && writes_all(p, op, c->on_device)) {
                c->made = op;
                c->next_made = p->makes[op];
                p->makes[op] = k + 1;
            }
            break;
        }
    }
}

/* Copies that what each op reads has come by, one behind the other, at most. */
static void find_depths(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree uint32_t *of = g_new0(uint32_t, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        uint32_t depth = 0;
        for (uint32_t u = 0; u < o->n_uses; u++) {
            const EchUse *use = &s->uses[o->first_use + u];
            depth = use->access == ECH_READ ? MAX(depth, of[ech_survey_root(s, use->buffer)]) : depth;
        }
        p->depth[i] = depth;
        for (uint32_t u = 0; u < o->n_uses; u++) {
            const EchUse *use = &s->uses[o->first_use + u];
            if (use->access == ECH_WRITE)
                of[ech_survey_root(s, use->buffer)] = depth + (moved(p, i) != NULL);
        }
    }
}

/* ---- a region as a problem ---- */

typedef struct {
    Pass *p;
    EchId region;
    const uint32_t *numbers; /* of the pass's copies, those of the region, in their order; */
    guint n;                 /* so many */
    int64_t begin;           /* bytes live before the first step, as EchHideStep.before */
    int64_t end;             /* after the last */
    GArray *steps;           /* EchHideStep */
    GArray *firsts;          /* EchId: their first ops */
} Region;

static int64_t bytes_of(const Pass *p, EchId buffer)
{
    return (int64_t)MIN(p->s.buffers[buffer].bytes, INT64_MAX / 64);
}

/* Most that the body of a LOOP holds more than there is before it. */
static int64_t most_inside(const Pass *p, EchId loop)
{
    EchBytes most = p->s.live[loop];
    for (EchId i = loop; i <= p->s.end[loop]; i++)
        most = MAX(most, p->s.live[i]);
    return (int64_t)(most - p->s.live[loop]);
}

/* What copies bring counts from the region's beginning on, what they take away up to its last use. */
static void count_copies(Region *r)
{
    Pass *p = r->p;
    r->begin = (int64_t)MIN(p->s.live[r->region == ECH_NONE ? 0 : r->region + 1], INT64_MAX / 64);
    for (guint k = 0; k < r->n; k++) {
        const Copy *c = copy_at(p, r->numbers[k]);
        int64_t bytes = bytes_of(p, c->on_device);
        if (c->in)
            r->begin += bytes;
        else if (c->free != ECH_NONE && c->used == ECH_NONE)
            r->begin -= bytes;
        else if (c->free != ECH_NONE)
            p->gone[c->used] += bytes;
        if (c->made != ECH_NONE) {
            p->come[c->made] += bytes;
            p->gone[c->made] += bytes;
        }
    }
}

/* A step is what is allocated for a kernel, a loop or the like, that itself, and what is given back behind it. */
static void collect_steps(Region *r)
{
    Pass *p = r->p;
    const EchSurvey *s = &p->s;
    int64_t now = r->begin;
    bool complete = true;
    g_array_set_size(r->steps, 0);
    g_array_set_size(r->firsts, 0);
    for (EchId i = r->region == ECH_NONE ? 0 : r->region + 1; i < end_of_region(p, r->region); i = ech_survey_after(s, i)) {
        const EchOp *o = &s->ops[i];
        if (p->copy_of[i] > 0 || p->dropped[i])
            continue;
        if (r->steps->len == 0 || (complete && o->kind != ECH_OP_FREE) || p->breaks[i]) {
            EchHideStep step = {.before = now, .most = now};
            g_array_append_val(r->steps, step);
            g_array_append_val(r->firsts, i);
            complete = false;
        }
        EchHideStep *step = &g_array_index(r->steps, EchHideStep, r->steps->len - 1);
        p->step_of[i] = r->steps->len;
        bool memory = o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE;
        now += p->come[i];
        if (memory && s->buffers[o->target].memory == s->hbm)
            now += o->kind == ECH_OP_ALLOC ? bytes_of(p, o->target) : -bytes_of(p, o->target);
        step->most = MAX(step->most, now);
        if (!memory) {
            step->length += s->clock[ech_survey_after(s, i)] - s->clock[i];
            step->depth = MAX(step->depth, p->depth[i]);
            complete = true;
        }
        if (o->kind == ECH_OP_LOOP) {
            step->copies = p->flying[i];
            step->most = MAX(step->most, now + most_inside(p, i));
        }
        now -= p->gone[i];
    }
    r->end = now;
}

/* Where some copy begins behind an op of the step that must wait for one, that is a step by itself from there on. Whether there are such. */
static bool break_steps(Region *r)
{
    Pass *p = r->p;
    g_autofree EchId *behind = g_new(EchId, r->steps->len + 1);
    bool any = false;
    for (guint j = 0; j <= r->steps->len; j++)
        behind[j] = ECH_NONE;
    for (guint k = 0; k < r->n; k++) {
        const Copy *c = copy_at(p, r->numbers[k]);
        if (c->behind != ECH_NONE)
            behind[p->step_of[c->behind]] = ech_later_op(behind[p->step_of[c->behind]], c->behind);
    }
    for (guint k = 0; k < r->n; k++) {
        EchId needed = copy_at(p, r->numbers[k])->needed;
        if (needed == ECH_NONE || p->breaks[needed] || behind[p->step_of[needed]] == ECH_NONE || behind[p->step_of[needed]] >= needed)
            continue;
        p->breaks[needed] = any = true;
    }
    return any;
}

/* Steps that are over when an op at the region's level is; none for ECH_NONE. */
static uint32_t steps_over(const Region *r, EchId op)
{
    return op == ECH_NONE ? 0 : r->p->step_of[op];
}

static EchHideCopy hide_copy(const Region *r, const Copy *c)
{
    const Pass *p = r->p;
    const EchOp *o = &p->s.ops[c->op];
    EchTime length = c->in ? ech_survey_fetch_time(&p->s, o->memory_from, o->bytes) : ech_survey_copy_time(&p->s, o->bytes, false);
    return (EchHideCopy){.to_device = c->in,
                         .length = CLAMP(length, 1, ECH_TIME_MAX / 8),
                         .depth = p->depth[c->op],
                         .bytes = c->in || c->free != ECH_NONE ? bytes_of(p, c->on_device) : 0,
                         .after = steps_over(r, c->behind),
                         .until = c->needed == ECH_NONE ? r->steps->len : p->step_of[c->needed] - 1,
                         .used = steps_over(r, c->used)};
}

static void add_events(Region *r, const EchHideEvent *events)
{
    Pass *p = r->p;
    for (guint e = 2 * r->n; e-- > 0;) {
        EchId at = events[e].step < r->steps->len ? g_array_index(r->firsts, EchId, events[e].step) : end_of_region(p, r->region);
        Event event = {r->numbers[events[e].copy], events[e].done, r->region, p->events_at[at]};
        g_array_append_val(p->events, event);
        p->events_at[at] = p->events->len;
    }
}

/* @number: per copy of the pass, which it is in its region. */
static void schedule_region(Region *r, const GArray *all_orders, const uint32_t *number)
{
    Pass *p = r->p;
    count_copies(r);
    collect_steps(r);
    if (break_steps(r))
        collect_steps(r);
    EchHideStep *steps = (EchHideStep *)r->steps->data;
    g_autofree EchHideCopy *copies = g_new(EchHideCopy, r->n);
    for (guint k = 0; k < r->n; k++) {
        copies[k] = hide_copy(r, copy_at(p, r->numbers[k]));
        if (copies[k].to_device && copies[k].until < r->steps->len)
            steps[copies[k].until].waits = true;
    }
    g_autoptr(GArray) orders = g_array_new(FALSE, FALSE, sizeof(EchHideOrder));
    for (guint o = 0; o < all_orders->len; o++) {
        EchHideOrder order = g_array_index(all_orders, EchHideOrder, o);
        if (copy_at(p, order.done)->region != r->region)
            continue;
        order = (EchHideOrder){number[order.done], number[order.start]};
        g_array_append_val(orders, order);
    }
    EchHideProblem problem = {.steps = steps,
                              .n_steps = r->steps->len,
                              .at_end = r->end,
                              .copies = copies,
                              .n_copies = r->n,
                              .orders = (const EchHideOrder *)orders->data,
                              .n_orders = orders->len,
                              .rules = p->rules,
                              .memory = p->memory};
    uint32_t inside = 0;
    for (guint k = 0; k < r->steps->len; k++)
        inside = MAX(inside, steps[k].copies);
    problem.rules.limit = MAX(problem.rules.limit, inside);
    g_autofree EchHideEvent *events = g_new(EchHideEvent, 2 * (size_t)r->n);
    uint32_t flying;
    int64_t most = ech_hide_latencies(&problem, events, &flying);
    for (uint64_t k = 0; k < p->o->reruns && most > (int64_t)MIN(p->memory, INT64_MAX / 4); k++) {
        problem.memory -= problem.memory / 10;
        most = ech_hide_latencies(&problem, events, &flying);
    }
    p->most = MAX(p->most, (EchBytes)MAX(most, 0));
    for (EchId loop = r->region; loop != ECH_NONE; loop = p->s.region[loop])
        p->flying[loop] = MAX(p->flying[loop], MAX(flying, inside));
    add_events(r, events);
}

/* Inner loops come behind those around them, and go first; last what is around all. */
static gint compare_regions(gconstpointer x, gconstpointer y, gpointer data)
{
    const Pass *p = data;
    const uint32_t *a = x, *b = y;
    EchId i = copy_at(p, *a)->region + 1, j = copy_at(p, *b)->region + 1; /* 0: ECH_NONE's */
    return i != j ? (i > j ? -1 : 1) : (*a > *b) - (*a < *b);
}

static void schedule_all(Pass *p)
{
    guint n = p->copies->len;
    g_autoptr(GArray) orders = g_array_new(FALSE, FALSE, sizeof(EchHideOrder));
    find_bounds(p, orders);
    find_updates(p);
    find_depths(p);
    g_autofree uint32_t *numbers = g_new(uint32_t, n), *number = g_new(uint32_t, n);
    for (uint32_t k = 0; k < n; k++)
        numbers[k] = k;
    g_qsort_with_data(numbers, (gint)n, sizeof *numbers, compare_regions, p);
    for (guint first = 0, end; first < n; first = end) {
        Region region = {.p = p,
                         .region = copy_at(p, numbers[first])->region,
                         .numbers = &numbers[first],
                         .steps = g_array_new(FALSE, TRUE, sizeof(EchHideStep)),
                         .firsts = g_array_new(FALSE, FALSE, sizeof(EchId))};
        for (end = first; end < n && copy_at(p, numbers[end])->region == region.region; end++)
            number[numbers[end]] = end - first;
        region.n = end - first;
        schedule_region(&region, orders, number);
        g_array_unref(region.steps);
        g_array_unref(region.firsts);
    }
}

/* ---- writing ---- */

typedef struct {
    Pass *p;
    EchEdit e;
    GArray *loops; /* open ones */
    EchId *stands; /* per buffer: the array that its update was made into, or ECH_NONE */
    EchId *since;  /* per buffer: the op that made that */
} Writer;

static void put_uses(Writer *w, EchId op)
{
    const EchSurvey *s = &w->p->s;
    const EchOp *o = &s->ops[op];
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        EchId stands = w->stands[use->buffer];
        /* What makes it reads what was brought. */
        bool old = stands == ECH_NONE || (use->access == ECH_READ && w->since[use->buffer] == op);
        ech_trace_builder_use(w->e.builder, old ? use->buffer : stands, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
}

static void put(Writer *w, EchId op)
{
    const EchSurvey *s = &w->p->s;
    const EchOp *o = &s->ops[op];
    w->e.map[op] = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, op));
    put_uses(w, op);
    for (uint32_t d = 0; d < o->n_deps; d++)
        if (!w->p->waits[op] || !moved(w->p, s->deps[o->first_dep + d].op))
            ech_edit_dep(&w->e, &s->deps[o->first_dep + d], 0);
    ech_edit_work(&w->e, op);
    if (o->queue == s->core)
        w->e.last_core = w->e.map[op];
}

static void start(Writer *w, Copy *c)
{
    const EchSurvey *s = &w->p->s;
    const EchOp *o = &s->ops[c->op];
    if (c->alloc != ECH_NONE)
        put(w, c->alloc);
    w->e.map[c->op] = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, c->op));
    put_uses(w, c->op);
    if (w->e.last_core != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, w->e.last_core, 0);
    for (uint32_t d = 0; d < o->n_deps; d++)
        if (s->ops[s->deps[o->first_dep + d].op].queue != s->core || s->deps[o->first_dep + d].distance > 0)
            ech_edit_dep(&w->e, &s->deps[o->first_dep + d], 0);
}

/* The core waits for it. */
static void finish(Writer *w, Copy *c)
{
    const EchSurvey *s = &w->p->s;
    c->done = true;
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = s->core;
    wait.name = ech_edit_text(&w->e, s->ops[c->op].name);
    wait.stack = ech_edit_text(&w->e, s->ops[c->op].stack);
    EchId made = ech_trace_builder_op(w->e.builder, wait);
    ech_trace_builder_dep(w->e.builder, w->e.map[c->op], 0);
    w->e.last_core = made;
}

/* What a copy has taken away. */
static void give_back(Writer *w, Copy *c)
{
    EchId made = c->in ? ECH_NONE : w->stands[c->on_device];
    if (made != ECH_NONE)
        w->e.map[c->free] = ech_edit_memory(&w->e, ECH_OP_FREE, made);
    else
        put(w, c->free);
    if (!c->in)
        w->stands[c->on_device] = ECH_NONE;
    c->free = ECH_NONE;
}

/* A kernel, and what the arrays that it makes of what was brought take and give back. */
static void put_update(Writer *w, EchId op)
{
    const Pass *p = w->p;
    for (uint32_t k = p->makes[op]; k != 0; k = copy_at(p, k - 1)->next_made) {
        const Copy *c = copy_at(p, k - 1);
        EchBuffer made = *ech_trace_builder_peek_buffer(w->e.builder, c->on_device);
        made.loop = c->region == ECH_NONE ? ECH_NONE : w->e.map[c->region];
        w->stands[c->on_device] = ech_trace_builder_buffer(w->e.builder, made);
        w->since[c->on_device] = op;
        (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, w->stands[c->on_device]);
    }
    put(w, op);
    for (uint32_t k = p->makes[op]; k != 0; k = copy_at(p, k - 1)->next_made)
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, copy_at(p, k - 1)->on_device);
}

static void put_events(Writer *w, EchId i)
{
    Pass *p = w->p;
    EchId region = w->loops->len > 0 ? g_array_index(w->loops, EchId, w->loops->len - 1) : ECH_NONE;
    for (guint at = p->events_at[i]; at != 0; at = g_array_index(p->events, Event, at - 1).next) {
        const Event *event = &g_array_index(p->events, Event, at - 1);
        if (event->region != region)
            continue;
        Copy *c = copy_at(p, event->copy);
        if (!event->done) {
            start(w, c);
            continue;
        }
        finish(w, c);
        if (c->free != ECH_NONE && (i > c->free || c->used == ECH_NONE || c->used < i))
            give_back(w, c);
    }
}

/* Activations, whose gradients' kernels a GPU's compiler puts off to the end, up to what all takes that is kept (validation/what_ifs.md). */
static bool sends_what_it_makes(const Pass *p)
{
    bool any = false;
    for (uint32_t k = 0; k < p->copies->len; k++)
        any |= !p->s.buffers[copy_at(p, k)->on_host].resident;
    return any;
}

static EchTrace *write_trace(Pass *p, GError **error)
{
    const EchSurvey *s = &p->s;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    Writer writer = {.p = p, .loops = g_array_new(FALSE, FALSE, sizeof(EchId))}, *w = &writer;
    ech_edit_init(&w->e, s, builder);
    w->stands = g_new(EchId, s->n_buffers + 1);
    w->since = g_new0(EchId, s->n_buffers + 1);
    for (size_t b = 0; b <= s->n_buffers; b++)
        w->stands[b] = ECH_NONE;
    for (EchId i = 0; i <= s->n; i++) {
        while (w->loops->len > 0 && s->end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            put_events(w, i);
            EchId loop = g_array_index(w->loops, EchId, w->loops->len - 1);
            g_array_set_size(w->loops, w->loops->len - 1);
            ech_edit_close(&w->e, w->e.map[loop]);
        }
        put_events(w, i);
        if (i == s->n)
            break;
        Copy *c = p->copy_of[i] > 0 ? copy_at(p, p->copy_of[i] - 1) : NULL;
        if (c && c->free == i && c->done)
            give_back(w, c);
        else if (c && c->op == i)
            continue;
        else if (c || p->dropped[i])
            w->e.map[i] = w->e.last_core; /* what was asked for behind it is asked for behind what stands there now */
        else if (p->makes[i] > 0)
            put_update(w, i);
        else
            put(w, i);
        if (s->ops[i].kind == ECH_OP_LOOP) {
            g_array_append_val(w->loops, i);
            w->e.last_core = ECH_NONE;
        }
    }
    ech_edit_loops(&w->e, s->n_buffers);
    if (!p->gpu || !sends_what_it_makes(p))
        ech_trace_builder_drop_properties(builder, "offload_early_bytes");
    EchTrace *out = ech_trace_builder_finish(builder, error);
    ech_edit_clear(&w->e);
    g_free(w->stands);
    g_free(w->since);
    g_array_unref(w->loops);
    return out;
}

static EchTrace *schedule_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    Pass pass = {.o = options}, *p = &pass;
    const char *platform = ech_trace_get_property(in, "platform");
    if (ech_trace_is_captured(in)) {
        ech_diag_remark(diag, "schedule: left the trace as it is: it is no program of XLA's");
        return ech_trace_ref(in);
    }
    if (!ech_survey_init(&p->s, in, device)) {
        ech_diag_remark(diag, "schedule: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    const EchMemory *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    p->gpu = g_strcmp0(platform ? platform : device ? device->family : NULL, "gpu") == 0;
    p->rules = ech_hide_rules(p->gpu, device ? device->compiler : NULL);
    p->rules.limit = p->o->copies > 0 ? (uint32_t)p->o->copies : p->rules.limit;
    p->memory = p->o->memory > 0 ? p->o->memory : hbm != NULL ? hbm->available - hbm->available / 20 : UINT64_MAX;
    p->copies = g_array_new(FALSE, TRUE, sizeof(Copy));
    p->events = g_array_new(FALSE, FALSE, sizeof(Event));
    p->copy_of = g_new0(uint32_t, p->s.n + 1);
    p->waits = g_new0(bool, p->s.n + 1);
    p->dropped = g_new0(bool, p->s.n + 1);
    p->waiter = g_new0(EchId, p->s.n + 1);
    p->flying = g_new0(uint32_t, p->s.n + 1);
    p->depth = g_new0(uint32_t, p->s.n + 1);
    p->step_of = g_new0(uint32_t, p->s.n + 1);
    p->breaks = g_new0(bool, p->s.n + 1);
    p->come = g_new0(int64_t, p->s.n + 1);
    p->gone = g_new0(int64_t, p->s.n + 1);
    p->makes = g_new0(uint32_t, p->s.n + 1);
    p->events_at = g_new0(guint, p->s.n + 1);
    ech_users_init(&p->users, &p->s, true, false);
    ech_users_init(&p->writers, &p->s, true, true);
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
        ech_diag_remark(diag, "schedule: %u copies from and to the host where XLA's scheduler has them, which counts %s of the %s that it keeps to",
                        p->copies->len, most, memory);
    }
    g_array_unref(p->copies);
    g_array_unref(p->events);
    g_free(p->copy_of);
    g_free(p->waits);
    g_free(p->dropped);
    g_free(p->waiter);
    g_free(p->flying);
    g_free(p->depth);
    g_free(p->step_of);
    g_free(p->breaks);
    g_free(p->come);
    g_free(p->gone);
    g_free(p->makes);
    g_free(p->events_at);
    ech_users_clear(&p->users);
    ech_users_clear(&p->writers);
    ech_survey_clear(&p->s);
    return out;
}

const EchPassClass ech_pass_schedule = {.name = "schedule",
                                        .summary = "begin copies from and to the host, and wait for them, where XLA's latency-hiding scheduler does",
                                        .source = "openxla/xla latency_hiding_scheduler.cc; libtpu's limits by what it compiles: validation/what_ifs.md",
                                        .params = schedule_params,
                                        .options_size = sizeof(ScheduleOptions),
                                        .trace = schedule_run};
