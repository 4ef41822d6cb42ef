#include "sim/pass/remat.h"

#include <string.h>

/* Ops that run inside one that reads them: a fusion of more would be slower than what it saves; assumed. It bounds what a plan takes, too. */
#define MOST_INSIDE 64

/* Whether a compiler fuses what makes an input of @op into it: XLA's for TPUs does so for products too, that for GPUs seldom. Recorded kernels, and those
 * that a program asks for one by one, are what they were. */
static bool takes_over(const EchRemat *r, EchId op)
{
    const EchSurvey *s = r->s;
    bool eager = ech_trace_get_property(s->t, "host_order") != NULL, tpu = s->device != NULL && ech_device_memory_kind(s->device, ECH_MEM_VECTOR) != NULL;
    return s->ops[op].kind == ECH_OP_KERNEL && !eager && s->ops[op].recorded.duration == ECH_TIME_NONE && (tpu || !ech_survey_has_products(s, op));
}

/* Whether @op reads nothing but numbers: what makes a mask, or a constant as large as an array. JAX takes that out of a loop that uses it; of what
 * jax.checkpoint makes again it is a part, which a compiler fuses into what reads it. */
static bool reads_nothing(const EchSurvey *s, EchId op)
{
    bool nothing = s->ops[op].kind == ECH_OP_KERNEL && !ech_survey_has_products(s, op);
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++)
        nothing &= s->uses[u].access == ECH_WRITE || s->uses[u].bytes <= ECH_REMAT_SMALL;
    return nothing;
}

/* Whether @input is there, and made of nothing. */
static bool is_of_nothing(const EchRemat *r, const EchRematInput *input)
{
    return input->kind == ECH_REMAT_DIRECT && input->bytes > ECH_REMAT_SMALL && !r->s->buffers[input->id].resident &&
           r->writers.first[input->id + 1] == r->writers.first[input->id] + 1 && reads_nothing(r->s, r->writers.op[r->writers.first[input->id]]);
}

static void gather_inputs(const EchRemat *r, const EchRematRun *run, GArray *ret_inputs, GArray *ret_ops)
{
    bool again = run->site != run->op && takes_over(r, run->op);
    for (uint32_t i = run->first_input; i < run->first_input + run->n_inputs; i++)
        if (!again || !is_of_nothing(r, ech_remat_input(r, i)))
            ech_remat_gather(r, ech_remat_input(r, i), ret_inputs, ret_ops);
}

void ech_remat_gather(const EchRemat *remat, const EchRematInput *input, GArray *ret_inputs, GArray *ret_ops)
{
    const EchRematRun *run = input->kind == ECH_REMAT_VALUE ? ech_remat_run(remat, ech_remat_value(remat, input->id)->run) : NULL;
    if (run == NULL || !run->fused) {
        for (guint k = 0; k < ret_inputs->len; k++) {
            EchRematInput *known = &g_array_index(ret_inputs, EchRematInput, k);
            if (known->kind == input->kind && known->id == input->id) {
                known->bytes = MAX(known->bytes, input->bytes);
                return;
            }
        }
        g_array_append_vals(ret_inputs, input, 1);
        return;
    }
    for (guint k = 0; k < ret_ops->len; k++)
        if (g_array_index(ret_ops, EchId, k) == run->op)
            return;
    g_array_append_val(ret_ops, run->op);
    gather_inputs(remat, run, ret_inputs, ret_ops);
}

void ech_remat_gather_run(const EchRemat *remat, uint32_t run, GArray *ret_inputs, GArray *ret_ops)
{
    gather_inputs(remat, ech_remat_run(remat, run), ret_inputs, ret_ops);
}

/* Readers of a value among repeated ops and late users. */
typedef struct {
    uint32_t n;
    EchId last;
    uint32_t run; /* One of them that is repeated, or UINT32_MAX. */
    bool fit;     /* All could take over what makes it. */
} Readers;

/* Whether what makes @value could run in @region. */
static bool is_near(const EchRemat *r, uint32_t value, EchId region)
{
    return ech_remat_value(r, value)->region == region || reads_nothing(r->s, ech_remat_value(r, value)->op);
}

static void find_readers(const EchRemat *r, const GArray *chosen, Readers *readers)
{
    const EchSurvey *s = r->s;
    g_autoptr(GArray) users = g_array_new(FALSE, FALSE, sizeof(EchRematUser));
    for (guint k = 0; k < r->values->len; k++)
        readers[k] = (Readers){.fit = true, .last = ech_remat_run(r, ech_remat_value(r, k)->run)->site, .run = UINT32_MAX};
    for (guint k = 0; k < r->runs->len; k++) {
        const EchRematRun *run = ech_remat_run(r, k);
        for (uint32_t i = run->first_input; i < run->first_input + run->n_inputs; i++) {
            const EchRematInput *input = ech_remat_input(r, i);
            if (input->kind != ECH_REMAT_VALUE)
                continue;
            Readers *of = &readers[input->id];
            of->n++;
            of->run = k;
            of->last = MAX(of->last, run->site);
            of->fit &= takes_over(r, run->op) && is_near(r, input->id, run->region);
        }
    }
    for (guint k = 0; k < chosen->len; k++) {
        const EchRematArray *a = ech_remat_array(r, g_array_index(chosen, uint32_t, k));
        const EchRematInput *input = ech_remat_input(r, a->stand);
        if (input->kind != ECH_REMAT_VALUE)
            continue;
        Readers *of = &readers[input->id];
        g_array_set_size(users, 0);
        ech_remat_late_users(r, a, users);
        for (guint u = 0; u < users->len; u++) {
            EchId op = g_array_index(users, EchRematUser, u).op;
            of->n++;
            of->last = MAX(of->last, op);
            of->fit &= takes_over(r, op) && is_near(r, input->id, s->region[op]);
        }
    }
}

static bool has_all(const GArray *inputs, const GArray *some)
{
    guint found = 0;
    for (guint k = 0; k < some->len; k++)
        for (guint i = 0; i < inputs->len; i++) {
            const EchRematInput *input = &g_array_index(inputs, EchRematInput, i), *other = &g_array_index(some, EchRematInput, k);
            found += input->kind == other->kind && input->id == other->id && input->bytes >= other->bytes;
        }
    return found == some->len;
}

/* Whether the one op that reads what @run makes reads all of @inputs anyway: the sum of a softmax, say, which XLA for GPUs makes and takes in one kernel. */
static bool is_along(const EchRemat *r, const EchRematRun *run, const Readers *readers, const GArray *inputs)
{
    const Readers *of = &readers[run->value];
    if (of->n != 1 || of->run == UINT32_MAX || ech_remat_value(r, run->value)->next != UINT32_MAX)
        return false;
    g_autoptr(GArray) read = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), ops = g_array_new(FALSE, FALSE, sizeof(EchId));
    ech_remat_gather_run(r, of->run, read, ops);
    return has_all(read, inputs);
}

/* Whether a compiler would have run @run inside what reads its values: ops without products, where that moves fewer bytes. @along: as is_along() has it. */
static bool is_better_inside(const EchRemat *r, const EchRematRun *run, const Readers *readers, const GArray *inputs, bool along)
{
    EchBytes read = 0, stored = 0;
    uint32_t n = 0;
    for (guint i = 0; i < inputs->len; i++)
        read = ech_bytes_add(read, g_array_index(inputs, EchRematInput, i).bytes);
    for (uint32_t v = run->value; v != UINT32_MAX; v = ech_remat_value(r, v)->next) {
        const EchRematValue *value = ech_remat_value(r, v);
        const Readers *of = &readers[v];
        if (value->over != UINT32_MAX || !of->fit || of->n == 0)
            return false;
        for (guint i = 0; i < inputs->len; i++) {
            const EchRematInput *input = &g_array_index(inputs, EchRematInput, i);
            if ((input->bytes > ech_bytes_mul(value->bytes, 2) && !along) || input->kind == ECH_REMAT_KEPT ||
                (input->kind == ECH_REMAT_DIRECT && !ech_remat_is_there(r, input->id, run->site, of->last)))
                return false;
        }
        n += of->n;
        stored = ech_bytes_add(stored, ech_bytes_mul(value->bytes, of->n + 1));
    }
    /* Each reader's reads, against read, write and each reader's read. */
    return ech_bytes_mul(read, n) < ech_bytes_add(read, stored);
}

void ech_remat_fuse(EchRemat *remat, const GArray *chosen)
{
    const EchRemat *r = remat;
    const EchSurvey *s = r->s;
    g_autofree Readers *readers = g_new(Readers, r->values->len + 1);
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), ops = g_array_new(FALSE, FALSE, sizeof(EchId));
    find_readers(r, chosen, readers);
    for (guint k = 0; k < r->order->len; k++) {
        uint32_t index = g_array_index(r->order, uint32_t, k);
        EchRematRun *run = ech_remat_run(r, index);
        if (s->ops[run->op].kind != ECH_OP_KERNEL || ech_survey_has_products(s, run->op) || run->value == UINT32_MAX)
            continue;
        g_array_set_size(inputs, 0);
        g_array_set_size(ops, 0);
        ech_remat_gather_run(r, index, inputs, ops);
        run->fused = ops->len < MOST_INSIDE && is_better_inside(r, run, readers, inputs, is_along(r, run, readers, inputs));
    }
}

/* ---- what is left in its place ---- */

typedef struct {
    EchRemat *r;
    bool *dropped;    /* per op */
    uint32_t *stands; /* per buffer: the EchRematInput that stands for it, or UINT32_MAX */
} Left;

/* Those that read what an op makes which is left in its place. */
typedef struct {
    uint32_t n;
    EchId last;
} LeftReaders;

static bool is_chosen(const EchRemat *r, EchId buffer)
{
    return r->array_of[buffer] != UINT32_MAX && ech_remat_array(r, r->array_of[buffer])->chosen;
}

/* What stands for what @use of op @op reads; false where that is a part of its own loop's stack. */
static bool stand_of(const Left *l, EchId op, const EchUse *use, EchRematInput *ret)
{
    const EchRemat *r = l->r;
    EchId root = ech_survey_root(r->s, use->buffer);
    const EchRematArray *a = is_chosen(r, root) ? ech_remat_array(r, r->array_of[root]) : NULL;
    bool stack = a != NULL && a->made_in != ECH_NONE, later = a != NULL && (stack || op >= a->back);
    if (stack && r->s->region[op] != a->used_in)
        return false;
    uint32_t stand = later ? a->stand : l->stands[use->buffer];
    *ret = stand != UINT32_MAX ? *ech_remat_input(r, stand) : (EchRematInput){.kind = ECH_REMAT_DIRECT, .id = root, .bytes = use->bytes};
    ret->bytes = MIN(ret->bytes, use->bytes);
    return true;
}

/* What op @op reads: @ret_own (EchRematInput) itself, with the others as ech_remat_gather() has them. False where that is not for this to tell. */
static bool gather_left(const Left *l, EchId op, GArray *ret_own, GArray *ret_inputs, GArray *ret_ops)
{
    const EchSurvey *s = l->r->s;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchRematInput input;
        if (s->uses[u].access == ECH_WRITE)
            continue;
        if (!stand_of(l, op, &s->uses[u], &input))
            return false;
        g_array_append_val(ret_own, input);
        ech_remat_gather(l->r, &input, ret_inputs, ret_ops);
    }
    return true;
}

/* Whether the readers of what @op makes, or what it reads, are others by the plan: a compiler decides anew then. */
static bool is_changed(const Left *l, EchId op, const GArray *own)
{
    const EchSurvey *s = l->r->s;
    bool changed = false;
    for (guint i = 0; i < own->len; i++)
        changed |= g_array_index(own, EchRematInput, i).kind == ECH_REMAT_VALUE;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchId made = s->uses[u].access == ECH_WRITE ? ech_survey_used(s, u) : ECH_NONE;
        for (uint32_t k = made != ECH_NONE ? l->r->users.first[made] : 0; made != ECH_NONE && k < l->r->users.first[made + 1]; k++)
            changed |= l->dropped[l->r->users.op[k]];
    }
    return changed;
}

/* Counts those that read @buffer, which op @op makes; false where one of them is no kernel that takes over what makes it, or somebody else needs it. */
static bool count_readers(const Left *l, EchId op, EchId buffer, LeftReaders *readers)
{
    const EchRemat *r = l->r;
    const EchSurvey *s = r->s;
    EchId loop = s->region[op], alloc = r->alloc[buffer], free = r->free[buffer];
    bool own = alloc != ECH_NONE && free != ECH_NONE && s->region[alloc] == loop && s->region[free] == loop && !l->dropped[free] &&
               r->writers.first[buffer + 1] == r->writers.first[buffer] + 1 && !is_chosen(r, buffer) && r->slice_of[buffer] == ECH_NONE &&
               r->longer_of[buffer] == UINT32_MAX && !r->wanted[buffer] && s->buffers[buffer].role != ECH_ROLE_OUTPUT;
    bool reads, writes;
    (void)ech_survey_access(s, op, buffer, &reads, &writes);
    own &= !reads;
    for (uint32_t u = r->users.first[buffer]; own && u < r->users.first[buffer + 1]; u++) {
        EchId reader = r->users.op[u];
        if (reader == op || l->dropped[reader])
            continue;
        own = takes_over(r, reader) && s->region[reader] == loop && reader > op && reader < free;
        for (uint32_t k = s->ops[reader].first_use; k < s->ops[reader].first_use + s->ops[reader].n_uses; k++)
            own &= ech_survey_used(s, k) != buffer || s->uses[k].buffer == buffer;
        readers->n++;
        readers->last = MAX(readers->last, reader);
    }
    return own;
}

/* Whether @input holds until op @last has read it what it held for @op, if it is let go no sooner. */
static bool stays(const EchRemat *r, const EchRematInput *input, EchId op, EchId last)
{
    const EchSurvey *s = r->s;
    if (input->kind == ECH_REMAT_VALUE)
        return ech_remat_value(r, input->id)->region == s->region[op];
    if (input->kind == ECH_REMAT_CARRY || ech_remat_is_there(r, input->id, op, last))
        return true;
    EchId free = r->free[input->id], until = r->longer_of[input->id] != UINT32_MAX ? ech_remat_longer(r, r->longer_of[input->id])->until : 0;
    bool there = free != ECH_NONE && MAX(free, until) > op && s->region[free] == s->region[op] && s->buffers[input->id].loop == s->region[op] &&
                 !is_chosen(r, input->id);
    for (uint32_t u = r->writers.first[input->id]; there && u < r->writers.first[input->id + 1]; u++)
        there = r->writers.op[u] < op;
    return there;
}

static void stay(const Left *l, const EchRematInput *input, EchId op, EchId last)
{
    EchRemat *r = l->r;
    if (input->kind == ECH_REMAT_VALUE)
        ech_remat_value(r, input->id)->until = MAX(ech_remat_value(r, input->id)->until, last + 1);
    else if (input->kind != ECH_REMAT_CARRY && !ech_remat_is_there(r, input->id, op, last)) {
        ech_remat_keep_longer(r, input->id, last + 1);
        l->dropped[r->free[input->id]] = true;
    }
}

/* Op @op, which reads @own, goes inside those that read what it makes. */
static void go_inside(Left *l, EchId op, const GArray *own)
{
    EchRemat *r = l->r;
    const EchSurvey *s = r->s;
    EchRematRun run = {.op = op, .region = s->region[op], .site = op, .first_input = r->inputs->len, .n_inputs = own->len, .value = UINT32_MAX, .fused = true};
    g_array_append_vals(r->inputs, own->data, own->len);
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchId buffer = s->uses[u].buffer;
        if (s->uses[u].access != ECH_WRITE)
            continue;
        EchRematValue value = {.op = op,
                               .buffer = buffer,
                               .region = run.region,
                               .bytes = s->uses[u].bytes,
                               .run = r->runs->len,
                               .last_run = r->runs->len,
                               .next = run.value,
                               .over = UINT32_MAX,
                               .offset = ECH_OFFSET_NONE,
                               .made = ECH_NONE,
                               .made_by = ECH_NONE};
        run.value = r->values->len;
        EchRematInput input = {.kind = ECH_REMAT_VALUE, .id = run.value, .bytes = value.bytes};
        l->stands[buffer] = r->inputs->len;
        g_array_append_val(r->inputs, input);
        g_array_append_val(r->values, value);
        l->dropped[r->alloc[buffer]] = l->dropped[r->free[buffer]] = true;
    }
    g_array_append_val(r->runs, run);
    l->dropped[op] = true;
}

/* Whether op @op went inside its readers. */
static bool fuse_left(Left *l, EchId op)
{
    const EchSurvey *s = l->r->s;
    g_autoptr(GArray) own = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput));
    g_autoptr(GArray) of_reader = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), unasked = g_array_new(FALSE, FALSE, sizeof(EchRematInput));
    g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(EchId)), others = g_array_new(FALSE, FALSE, sizeof(EchId));
    LeftReaders readers = {.last = op};
    if (!gather_left(l, op, own, inputs, ops) || ops->len >= MOST_INSIDE || !is_changed(l, op, own))
        return false;
    EchBytes read = 0, written = 0;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        if (s->uses[u].access != ECH_WRITE)
            continue;
        if (ech_survey_used(s, u) != s->uses[u].buffer || !count_readers(l, op, s->uses[u].buffer, &readers))
            return false;
        written = ech_bytes_add(written, s->uses[u].bytes);
    }
    bool along = readers.n == 1 && gather_left(l, readers.last, unasked, of_reader, others) && has_all(of_reader, inputs);
    for (guint i = 0; i < inputs->len; i++) {
        const EchRematInput *input = &g_array_index(inputs, EchRematInput, i);
        if ((input->bytes > ech_bytes_mul(written, 2) && !along) || !stays(l->r, input, op, readers.last))
            return false;
        read = ech_bytes_add(read, input->bytes);
    }
    if (readers.n == 0 || ech_bytes_mul(read, readers.n) >= ech_bytes_add(read, ech_bytes_mul(written, readers.n + 1)))
        return false;
    for (guint i = 0; i < inputs->len; i++)
        stay(l, &g_array_index(inputs, EchRematInput, i), op, readers.last);
    go_inside(l, op, own);
    return true;
}

uint32_t ech_remat_fuse_left(EchRemat *remat, bool *dropped, uint32_t *stands)
{
    const EchSurvey *s = remat->s;
    Left left = {remat, dropped, stands};
    bool gpu = s->device != NULL && strcmp(s->device->family, "gpu") == 0;
    uint32_t n = 0;
    for (EchId i = 0; gpu && i < s->n; i++)
        if (s->region[i] != ECH_NONE && !dropped[i] && takes_over(remat, i) && !ech_survey_has_products(s, i))
            n += fuse_left(&left, i);
    return n;
}
