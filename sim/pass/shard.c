/* shard: optimizer state that every device of a group holds whole is split over them, a part on each, and the weights that it updates, too (ZeRO-1; XLA's and
 * JAX's sharded weight update): a step begins with gathering weights, in the type that products read them in; gradients are summed up so that each device has
 * its part of the sum; by its part of the state it updates its part of the weights. What devices hold alike is known where a program updates it by sums over
 * them (EchBuffer.replicas). What PyTorch runs tells its modules and its optimizer, and is split by those (shard_modules.c). */
#include "sim/pass/pass.h"
#include "sim/pass/shard.h"

#include <string.h>

/* GRANULE: what a part is rounded up to, as arrays are. BESIDE: bytes of what an update reads or writes whole, rates and counters, on each device. MOSTLY: an
 * all-reduce becomes a reduction to parts where all but one part in so many of what it sums is for those alone. LOOK_BACK: ops. */
enum { GRANULE = 512, BESIDE = 4096, MOSTLY = 16, LOOK_BACK = 64 };

/* Times that a compiler asked for it takes what is told, at most, of 17 such steps that had been refused but one that took 1.3: it keeps more activations
 * beside (validation/what_ifs.md). Property shard_takes_up_to. */
#define MARGIN "1.25"

static const EchParam shard_params[] = {
    {"weights", ECH_PARAM_BOOL, offsetof(EchShardOptions, weights), "true", NULL, NULL, NULL,
     "true: weights are held in parts, too, and gathered when a step begins, of PyTorch when a module runs (FSDP); false: each device holds them whole, and "
     "gathers what was updated (ZeRO-1)"},
    {"names", ECH_PARAM_STRING, offsetof(EchShardOptions, names), "*", NULL, NULL, NULL,
     "of compiled programs: only state whose name, argument (\"opt_state*\"), operation or source line fits this, * standing for anything"},
    {"above", ECH_PARAM_BYTES, offsetof(EchShardOptions, above), "64KiB", NULL, NULL, NULL, "of those: only arrays of at least this size"},
    {"over", ECH_PARAM_U64, offsetof(EchShardOptions, over), "0", "0", "65536", NULL,
     "of PyTorch: devices; 0: as many as its gradients are summed over; of more than that, groups of so many each have all in parts (HSDP)"},
    {"modules", ECH_PARAM_STRING, offsetof(EchShardOptions, modules), "", NULL, NULL, NULL,
     "of PyTorch: what is gathered at a time, modules whose path fits this (\"layers.*\", \"encoder.*+decoder.*\"); else those that the program repeats"},
    {"keep", ECH_PARAM_BOOL, offsetof(EchShardOptions, keep), "false", NULL, NULL, NULL,
     "of PyTorch: what was gathered for the forward pass stays for the backward pass (reshard_after_forward=False, ZeRO-2)"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

typedef struct {
    const EchSurvey *s;
    const EchShardOptions *o;
    EchUsers users;
    EchId *home;     /* per buffer on chip: the argument that it holds, or a part of; per argument that devices hold alike, itself; else ECH_NONE */
    EchId *joined;   /* per buffer on chip: the one that begins in its place, of which it was brought as a part; else ECH_NONE */
    bool *is_state;  /* per buffer: an argument that only updates use */
    bool *is_weight; /* per buffer: another that they bring up to date, and that is held in parts, too */
    bool *is_narrow; /* per buffer: such a one that all else reads in half the bytes */
    uint32_t *parts; /* per op: of how many it does one; 0: it stays as it is */
} Shard;

static bool is_on_chip(const EchSurvey *s, EchId buffer)
{
    return s->buffers[buffer].memory != s->hbm && !ech_survey_is_host(s, s->buffers[buffer].memory);
}

static bool is_argument(const Shard *d, EchId buffer)
{
    return d->home[buffer] == buffer;
}

/* What a copy reads and writes; false where it tells no arrays. */
static bool ends_of(const EchSurvey *s, EchId op, EchId *ret_from, EchId *ret_to)
{
    const EchOp *o = &s->ops[op];
    if (o->kind != ECH_OP_COPY || o->n_uses != 2)
        return false;
    *ret_from = ech_survey_root(s, s->uses[o->first_use].buffer);
    *ret_to = ech_survey_root(s, s->uses[o->first_use + 1].buffer);
    return true;
}

/* The buffer that is let go at op @op, which holds some of an argument, in the place of @whole; ECH_NONE. */
static EchId part_at(const Shard *d, EchId op, EchId whole)
{
    const EchOp *o = &d->s->ops[op];
    return o->kind == ECH_OP_FREE && d->home[o->target] != ECH_NONE && ech_survey_begins_in_place(d->s, o->target, whole) ? o->target : ECH_NONE;
}

/* What is asked for at ALLOC @op holds an argument where parts of that, brought one by one, are let go there and fill it. */
static void join_parts(Shard *d, EchId op)
{
    const EchSurvey *s = d->s;
    const EchId whole = s->ops[op].target, least = op - MIN(op, LOOK_BACK);
    EchId first = op;
    EchBytes parts = 0;
    while (first > least && (s->ops[first - 1].kind == ECH_OP_FREE || s->ops[first - 1].kind == ECH_OP_ALLOC)) {
        EchId part = part_at(d, --first, whole);
        parts = ech_bytes_add(parts, part != ECH_NONE ? s->buffers[part].bytes : 0);
    }
    for (EchId k = first; k < op && parts >= s->buffers[whole].bytes; k++) {
        EchId part = part_at(d, k, whole);
        if (part == ECH_NONE)
            continue;
        d->joined[part] = whole;
        d->home[whole] = d->home[part];
    }
}

static void find_homes(Shard *d)
{
    const EchSurvey *s = d->s;
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        d->home[b] = buffer->resident && buffer->memory == s->hbm && buffer->replicas > 1 && buffer->alias_of == ECH_NONE ? b : ECH_NONE;
    }
    for (EchId b = 0; b < s->n_buffers; b++) /* what goes by several names stays whole */
        d->home[ech_survey_root(s, b)] = s->buffers[b].alias_of != ECH_NONE ? ECH_NONE : d->home[ech_survey_root(s, b)];
    for (EchId i = 0; i < s->n; i++) {
        EchId from, to;
        if (ends_of(s, i, &from, &to)) {
            if (is_argument(d, from) && is_on_chip(s, to))
                d->home[to] = from;
            else if (is_argument(d, to) && is_on_chip(s, from))
                d->home[from] = to;
        }
        if (s->ops[i].kind == ECH_OP_ALLOC && is_on_chip(s, s->ops[i].target))
            join_parts(d, i);
    }
}

static bool is_kernel_without_products(const EchSurvey *s, EchId op)
{
    return s->ops[op].kind == ECH_OP_KERNEL && s->ops[op].queue == s->core && !ech_survey_has_products(s, op);
}

/* Of how many parts kernel @op, which does nothing but bring arguments up to date, can do one; 0: none. */
static uint32_t parts_of(const Shard *d, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    uint32_t parts = 0;
    if (!is_kernel_without_products(s, op))
        return 0;
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        if (use->access != ECH_WRITE || use->bytes <= BESIDE)
            continue;
        EchId home = d->home[ech_survey_root(s, use->buffer)];
        if (home == ECH_NONE || (parts != 0 && s->buffers[home].replicas != parts))
            return 0;
        parts = s->buffers[home].replicas;
    }
    return parts;
}

/* Per buffer whether all that uses it are updates, and copies between an argument and what is on chip of it. */
static void find_users(const Shard *d, bool *ret_for_updates)
{
    const EchSurvey *s = d->s;
    for (EchId b = 0; b < s->n_buffers; b++)
        ret_for_updates[b] = true;
    for (EchId i = 0; i < s->n; i++) {
        EchId from, to;
        bool moves = ends_of(s, i, &from, &to) && d->home[from] != ECH_NONE && d->home[from] == d->home[to];
        for (uint32_t u = 0; !moves && d->parts[i] == 0 && u < s->ops[i].n_uses; u++)
            ret_for_updates[ech_survey_root(s, s->uses[s->ops[i].first_use + u].buffer)] = false;
    }
    for (EchId b = 0; b < s->n_buffers; b++)
        ret_for_updates[b] &= d->joined[b] == ECH_NONE || ret_for_updates[d->joined[b]];
}

static void find_state(Shard *d)
{
    const EchSurvey *s = d->s;
    g_autofree bool *written = g_new0(bool, s->n_buffers + 1), *for_updates = g_new(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++) {
        d->parts[i] = parts_of(d, i);
        for (uint32_t u = 0; d->parts[i] > 0 && u < s->ops[i].n_uses; u++) {
            const EchUse *use = &s->uses[s->ops[i].first_use + u];
            EchId home = d->home[ech_survey_root(s, use->buffer)];
            if (use->access == ECH_WRITE && home != ECH_NONE)
                written[home] = true;
        }
    }
    find_users(d, for_updates);
    for (EchId b = 0; b < s->n_buffers; b++)
        d->is_state[b] = is_argument(d, b) && written[b] && s->buffers[b].bytes >= d->o->above && ech_survey_fits_name(s, b, d->o->names);
    for (EchId b = 0; b < s->n_buffers; b++)
        if (d->home[b] != ECH_NONE && !for_updates[b])
            d->is_state[d->home[b]] = false;
    /* What updates no state goes on as it is; copies between what is updated by parts and the chip move parts. */
    for (EchId i = 0; i < s->n; i++) {
        bool any = false;
        for (uint32_t u = 0; d->parts[i] > 0 && u < s->ops[i].n_uses; u++) {
            EchId home = d->home[ech_survey_root(s, s->uses[s->ops[i].first_use + u].buffer)];
            any |= home != ECH_NONE && d->is_state[home];
        }
        d->parts[i] = any ? d->parts[i] : 0;
    }
    find_users(d, for_updates);
    for (EchId i = 0; i < s->n; i++) {
        EchId from, to;
        if (!ends_of(s, i, &from, &to) || d->home[from] == ECH_NONE || d->home[from] != d->home[to])
            continue;
        if (for_updates[is_on_chip(s, from) ? from : to])
            d->parts[i] = s->buffers[d->home[from]].replicas;
    }
}

/* Whether kernel @op has no use for more than half of an array of @whole bytes, of f32: it multiplies in a narrower type, or does no more than turn it into
 * one. */
static bool reads_half(const EchSurvey *s, EchId op, EchBytes whole)
{
    const EchOp *o = &s->ops[op];
    bool half = false;
    if (o->kind != ECH_OP_KERNEL)
        return false;
    for (uint32_t k = 0; k < o->n_work; k++) {
        const EchWork *work = &ech_trace_work(s->t)[o->first_work + k];
        half |= work->unit == ECH_WORK_MATRIX && ech_dtype_bits((EchDtype)work->dtype) > 0 && ech_dtype_bits((EchDtype)work->dtype) <= 16;
    }
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        half |= use->access == ECH_WRITE && use->bytes == whole / 2;
    }
    return half;
}

static void find_weights(Shard *d)
{
    const EchSurvey *s = d->s;
    g_autofree bool *kept = g_new0(bool, s->n_buffers + 1); /* something else writes it */
    g_autofree bool *wide = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = 0; u < s->ops[i].n_uses; u++) {
            const EchUse *use = &s->uses[s->ops[i].first_use + u];
            EchId buffer = ech_survey_root(s, use->buffer), home = d->home[buffer];
            if (home == ECH_NONE || d->is_state[home])
                continue;
            bool updates = d->parts[i] > 0, writes = use->access == ECH_WRITE && buffer == home;
            d->is_weight[home] |= updates && writes && s->buffers[home].bytes >= d->o->above;
            kept[home] |= writes && !updates;
            wide[home] |= !updates && s->ops[i].kind != ECH_OP_COPY && !reads_half(s, i, s->buffers[home].bytes);
        }
    for (EchId b = 0; b < s->n_buffers; b++) {
        d->is_weight[b] &= !kept[b] && d->o->weights;
        d->is_narrow[b] = d->is_weight[b] && !wide[b] && s->buffers[b].dtype == ECH_DTYPE_F32;
    }
}

static bool is_sum(const EchOp *op)
{
    return op->kind == ECH_OP_COLLECTIVE && op->collective == ECH_COLLECTIVE_ALL_REDUCE;
}

/* Whether @op copies a whole array of the device's that was @summed, and where to. */
static bool copies_sum(const Shard *d, EchId op, const uint32_t *summed, EchId *ret_from, EchId *ret_to)
{
    const EchSurvey *s = d->s;
    return ends_of(s, op, ret_from, ret_to) && summed[*ret_from] > 0 && s->ops[op].bytes == s->buffers[*ret_from].bytes &&
           !ech_survey_is_host(s, s->buffers[*ret_to].memory) && d->home[*ret_to] == ECH_NONE;
}

/* Per buffer over how many devices what it holds was summed: as it is, or copied. */
static void find_sums(const Shard *d, uint32_t *ret_summed)
{
    const EchSurvey *s = d->s;
    for (EchId i = 0; i < s->n; i++) {
        EchId from, to;
        for (uint32_t u = 0; s->ops[i].kind == ECH_OP_COLLECTIVE && u < s->ops[i].n_uses; u++) {
            const EchUse *use = &s->uses[s->ops[i].first_use + u];
            if (use->access == ECH_WRITE)
                ret_summed[ech_survey_root(s, use->buffer)] = is_sum(&s->ops[i]) ? s->ops[i].memory_from : 0;
        }
        if (copies_sum(d, i, ret_summed, &from, &to))
            ret_summed[to] = ret_summed[from];
    }
}

/* Kernels that sum up what was summed over the devices, the length of all gradients, say, or arguments, can do so of a part each: what is left to be summed
 * over the devices are single numbers. And copies of a sum of which only parts are read copy those. */
static void find_lengths(Shard *d)
{
    const EchSurvey *s = d->s;
    g_autofree uint32_t *summed = g_new0(uint32_t, s->n_buffers + 1);
    g_autofree bool *whole = g_new0(bool, s->n_buffers + 1); /* something reads all of it */
    find_sums(d, summed);
    for (EchId i = (EchId)s->n; i-- > 0;) { /* what reads a copy comes after it */
        const EchOp *o = &s->ops[i];
        EchId from, to;
        uint32_t parts = 0;
        bool only = d->parts[i] == 0 && is_kernel_without_products(s, i);
        for (uint32_t u = 0; only && u < o->n_uses; u++) {
            const EchUse *use = &s->uses[o->first_use + u];
            EchId buffer = ech_survey_root(s, use->buffer);
            if (use->bytes <= BESIDE)
                continue;
            uint32_t of = summed[buffer] > 0 ? summed[buffer] : is_argument(d, buffer) ? s->buffers[buffer].replicas : 0;
            only = use->access == ECH_READ && of > 1 && (parts == 0 || of == parts);
            parts = of;
        }
        d->parts[i] = only ? parts : copies_sum(d, i, summed, &from, &to) && !whole[to] ? summed[from] : d->parts[i];
        for (uint32_t u = 0; u < o->n_uses && d->parts[i] == 0; u++)
            whole[ech_survey_root(s, s->uses[o->first_use + u].buffer)] |= s->uses[o->first_use + u].access == ECH_READ;
    }
}

/* Whether what @op sums up is read by what does a part of its work alone. */
static bool is_for_parts(const Shard *d, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    EchBytes all = 0, others = 0;
    if (!is_sum(o))
        return false;
    for (uint32_t k = 0; k < o->n_uses; k++) {
        const EchUse *use = &s->uses[o->first_use + k];
        if (use->access != ECH_WRITE)
            continue;
        EchId sum = ech_survey_root(s, use->buffer);
        bool mine = true;
        for (uint32_t u = d->users.first[sum]; u < d->users.first[sum + 1]; u++)
            mine &= d->users.op[u] <= op || d->parts[d->users.op[u]] == o->memory_from;
        all = ech_bytes_add(all, use->bytes);
        others = ech_bytes_add(others, mine ? 0 : use->bytes);
    }
    return all > 0 && others <= all / MOSTLY;
}

static EchBytes part_of(EchBytes bytes, uint32_t parts)
{
    EchBytes part = bytes / parts + (bytes % parts != 0);
    return ech_bytes_add(part, (GRANULE - part % GRANULE) % GRANULE);
}

typedef struct {
    EchEdit e;
    const EchOp *sum; /* the first that sums over as many devices as what was gathered last is split over, or NULL */
    uint32_t over;    /* how many */
    EchId *whole;     /* per buffer: of a weight that is held in parts, what it is gathered in */
    EchId *gathering; /* and the op that does */
    EchId *until;     /* and the op before which that is let go */
    uint32_t updates, scattered;
    EchBytes gathered;
} Writer;

/* How the groups of @n devices lie, by an op that sums over them; NULL: none does. */
static const EchOp *sum_over(const EchSurvey *s, Writer *w, uint32_t n)
{
    if (w->over == n)
        return w->sum;
    w->over = n;
    w->sum = NULL;
    for (EchId i = 0; i < s->n && !w->sum; i++)
        if (is_sum(&s->ops[i]) && s->ops[i].memory_from == n)
            w->sum = &s->ops[i];
    return w->sum;
}

static EchOp gathering_of(const Shard *d, Writer *w, EchId weight, EchBytes part)
{
    const EchSurvey *s = d->s;
    const EchOp *like = sum_over(s, w, s->buffers[weight].replicas);
    EchOp all = ech_op_init(ECH_OP_COLLECTIVE);
    all.collective = ECH_COLLECTIVE_ALL_GATHER;
    all.name = ech_edit_text(&w->e, s->buffers[weight].name);
    all.stack = ech_edit_text(&w->e, s->buffers[weight].stack);
    all.queue = like ? like->queue : s->core;
    all.launch = like ? ech_edit_text(&w->e, like->launch) : ECH_NONE;
    all.memory_from = s->buffers[weight].replicas;
    all.bytes = part;
    all.bytes_origin = ECH_INFERRED;
    return all;
}

/* Weights that are held in parts are gathered when the step begins, those first that are used first. */
static void gather_weights(const Shard *d, Writer *w)
{
    const EchSurvey *s = d->s;
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = 0; d->parts[i] == 0 && u < s->ops[i].n_uses; u++) {
            EchId weight = ech_survey_root(s, s->uses[s->ops[i].first_use + u].buffer);
            if (!d->is_weight[weight])
                continue;
            w->until[weight] = ech_survey_after(s, ech_survey_at_level(s, i, ECH_NONE));
            if (w->whole[weight] != ECH_NONE)
                continue;
            EchBuffer whole = *ech_trace_builder_peek_buffer(w->e.builder, weight);
            whole.bytes = s->buffers[weight].bytes >> d->is_narrow[weight];
            whole.dense = s->buffers[weight].dense >> d->is_narrow[weight];
            whole.resident = 0;
            whole.replicas = 0;
            whole.role = ECH_ROLE_TEMPORARY;
            whole.shape = ECH_NONE;
            whole.offset = whole.address = ECH_OFFSET_NONE;
            w->whole[weight] = ech_trace_builder_buffer(w->e.builder, whole);
            (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, w->whole[weight]);
            EchBytes part = whole.bytes / s->buffers[weight].replicas;
            w->gathering[weight] = ech_trace_builder_op(w->e.builder, gathering_of(d, w, weight, part));
            ech_trace_builder_use(w->e.builder, weight, ECH_READ, part, ECH_PATTERN_STREAM, ECH_INFERRED);
            ech_trace_builder_use(w->e.builder, w->whole[weight], ECH_WRITE, whole.bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
            w->gathered = ech_bytes_add(w->gathered, whole.bytes);
        }
}

/* After what brought a weight up to date, in parts: all of it to all. */
static void gather(const Shard *d, Writer *w, EchId op)
{
    const EchSurvey *s = d->s;
    const EchOp *o = &s->ops[op];
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        EchId weight = ech_survey_root(s, use->buffer);
        if (use->access != ECH_WRITE || use->bytes <= BESIDE || !is_argument(d, weight) || d->is_state[weight] || d->is_weight[weight])
            continue;
        EchOp all = gathering_of(d, w, weight, use->bytes / d->parts[op]);
        EchId made = w->e.map[op];
        (void)ech_trace_builder_op(w->e.builder, all);
        ech_trace_builder_use(w->e.builder, use->buffer, ECH_READ, all.bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
        ech_trace_builder_use(w->e.builder, use->buffer, ECH_WRITE, use->bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
        ech_trace_builder_dep(w->e.builder, made, 0);
        w->gathered = ech_bytes_add(w->gathered, use->bytes);
    }
}

static void put(const Shard *d, Writer *w, EchId op)
{
    const EchSurvey *s = d->s;
    EchOp o = ech_edit_op(&w->e, op);
    uint32_t parts = MAX(d->parts[op], 1);
    bool scatters = is_for_parts(d, op);
    if (parts > 1) {
        o.recorded = (EchRecorded){ECH_TIME_NONE, ECH_TIME_NONE};
        o.estimate = o.estimate == ECH_TIME_NONE ? ECH_TIME_NONE : o.estimate / (EchTime)parts;
        o.launch = s->ops[op].launch == ECH_NONE ? ECH_NONE : ech_edit_launch(&w->e, s->ops[op].launch, parts);
        o.bytes = o.kind == ECH_OP_COPY ? o.bytes / parts : o.bytes;
        w->updates += parts_of(d, op) > 0;
    }
    for (uint32_t u = 0; o.kind == ECH_OP_COPY && parts == 1 && u < s->ops[op].n_uses; u++) {
        EchId weight = ech_survey_root(s, s->uses[s->ops[op].first_use + u].buffer);
        o.bytes >>= d->is_weight[weight] && d->is_narrow[weight];
    }
    if (scatters) {
        o.collective = ECH_COLLECTIVE_REDUCE_SCATTER;
        w->scattered++;
    }
    EchId made = w->e.map[op] = ech_trace_builder_op(w->e.builder, o);
    for (uint32_t u = 0; u < s->ops[op].n_uses; u++) {
        const EchUse *use = &s->uses[s->ops[op].first_use + u];
        EchId home = d->home[ech_survey_root(s, use->buffer)];
        if (parts == 1 && home != ECH_NONE && d->is_weight[home]) { /* of what was gathered, or what is on chip of it */
            EchId of = home == ech_survey_root(s, use->buffer) ? w->whole[home] : use->buffer;
            ech_trace_builder_use(w->e.builder, of, (EchAccess)use->access, use->bytes >> d->is_narrow[home], (EchPattern)use->pattern, (EchOrigin)use->origin);
            continue;
        }
        bool split = use->bytes > BESIDE && (parts > 1 || (scatters && use->access == ECH_WRITE));
        uint32_t n = !split ? 1 : scatters ? MAX(o.memory_from, 1u) : parts; /* of so many devices, 0: not told */
        ech_trace_builder_use(w->e.builder, use->buffer, (EchAccess)use->access, use->bytes / n, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t u = 0; parts == 1 && u < s->ops[op].n_uses; u++) {
        EchId weight = ech_survey_root(s, s->uses[s->ops[op].first_use + u].buffer);
        if (d->is_weight[weight])
            ech_trace_builder_dep(w->e.builder, w->gathering[weight], 0);
    }
    for (uint32_t k = 0; k < s->ops[op].n_deps; k++)
        ech_edit_dep(&w->e, &s->deps[s->ops[op].first_dep + k], 0);
    ech_edit_work(&w->e, op, parts);
    if (o.kind == ECH_OP_LOOP)
        return;
    if (o.queue == s->core)
        w->e.last_core = made;
    if (parts > 1)
        gather(d, w, op);
}

static gint compare_until(gconstpointer x, gconstpointer y, gpointer data)
{
    const EchId *until = data, a = *(const EchId *)x, b = *(const EchId *)y;
    return until[a] != until[b] ? (until[a] < until[b] ? -1 : 1) : (a > b) - (a < b);
}

static EchTrace *write_shard(const Shard *d, EchDiag *diag, GError **error)
{
    const EchSurvey *s = d->s;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    g_autoptr(GArray) loops = g_array_new(FALSE, FALSE, sizeof(EchId));
    Writer w = {0};
    EchBytes before = 0, after = 0;
    uint32_t n = 0, n_weights = 0, least = UINT32_MAX, most = 0;
    ech_edit_init(&w.e, s, builder);
    EchId **maps[] = {&w.whole, &w.gathering, &w.until};
    for (size_t k = 0; k < G_N_ELEMENTS(maps); k++) {
        *maps[k] = g_new(EchId, s->n_buffers + 1);
        memset(*maps[k], 0xff, (s->n_buffers + 1) * sizeof(EchId));
    }
    for (EchId b = 0; b < s->n_buffers; b++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, b);
        if (!d->is_state[b] && !d->is_weight[b])
            continue;
        n_weights += d->is_weight[b];
        before = ech_bytes_add(before, buffer->bytes);
        buffer->bytes = part_of(buffer->bytes, buffer->replicas);
        after = ech_bytes_add(after, buffer->bytes);
        buffer->dense = MIN(buffer->dense / buffer->replicas, buffer->bytes);
        buffer->shape = ECH_NONE;
        least = MIN(least, buffer->replicas);
        most = MAX(most, buffer->replicas);
        buffer->replicas = 0;
        n++;
    }
    gather_weights(d, &w);
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(EchId)); /* weights that were gathered, by when nobody needs them */
    for (EchId b = 0; b < s->n_buffers; b++)
        if (w.whole[b] != ECH_NONE)
            g_array_append_val(ends, b);
    g_array_sort_with_data(ends, compare_until, w.until);
    guint next = 0;
    for (EchId i = 0; i <= s->n; i++) {
        while (loops->len > 0 && s->end[g_array_index(loops, EchId, loops->len - 1)] == i) {
            ech_edit_close(&w.e, w.e.map[g_array_index(loops, EchId, loops->len - 1)]);
            g_array_set_size(loops, loops->len - 1);
        }
        for (; next < ends->len && w.until[g_array_index(ends, EchId, next)] == i; next++)
            (void)ech_edit_memory(&w.e, ECH_OP_FREE, w.whole[g_array_index(ends, EchId, next)]);
        if (i == s->n)
            break;
        put(d, &w, i);
        if (s->ops[i].kind == ECH_OP_LOOP)
            g_array_append_val(loops, i);
    }
    ech_edit_loops(&w.e, s->n_buffers);
    if (ech_trace_get_property(s->t, "platform") != NULL)
        ech_trace_builder_set_property(builder, "shard_takes_up_to", MARGIN);
    g_autofree char *was = ech_format_bytes(before), *is = ech_format_bytes(after), *gathered = ech_format_bytes(w.gathered);
    g_autofree char *over = least == most ? g_strdup_printf("%u", most) : g_strdup_printf("%u to %u", least, most);
    g_autofree char *weights = n_weights > 0 ? g_strdup_printf(", %u of them weights", n_weights) : g_strdup("");
    ech_diag_remark(diag, "shard: %u array%s (%s%s), alike on each of %s devices, split over them: %s on each", n, n == 1 ? "" : "s", was, weights, over, is);
    ech_diag_remark(diag, "shard: %u kernel%s update%s a part each; %s are gathered %s; %u of the reductions leave%s each device its part", w.updates,
                    w.updates == 1 ? "" : "s", w.updates == 1 ? "s" : "", gathered, n_weights > 0 ? "when the step begins" : "then", w.scattered,
                    w.scattered == 1 ? "s" : "");
    for (size_t k = 0; k < G_N_ELEMENTS(maps); k++)
        g_free(*maps[k]);
    ech_edit_clear(&w.e);
    return ech_trace_builder_finish(builder, error);
}

/* Why nothing is split. */
static char *why_not(const Shard *d)
{
    const EchSurvey *s = d->s;
    bool alike = false;
    for (EchId b = 0; b < s->n_buffers; b++)
        alike |= is_argument(d, b);
    g_autoptr(GPtrArray) names = ech_survey_unnamed(s, d->o->names);
    if (names)
        return ech_pass_unnamed(d->o->names, names);
    return g_strdup(
        !ech_trace_has_op(s->t, ECH_OP_COLLECTIVE) ? "one device runs this alone"
        : !alike ? "no argument is known to be the same on several devices (donated ones are, where sums over devices bring them up to date: pass donate)"
                 : "what several devices hold alike is used by more than its update, or is small");
}

static EchTrace *shard_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    g_auto(EchSurvey) s = {0};
    Shard d = {.s = &s, .o = options};
    if (!ech_survey_init(&s, in, device)) {
        ech_diag_remark(diag, "shard: left the trace as it is: nothing computes in it");
        return ech_trace_ref(in);
    }
    if (ech_shard_is_pytorch(&s))
        return ech_shard_modules(&s, in, options, diag, error);
    ech_users_init(&d.users, &s, true, false);
    d.home = g_new(EchId, s.n_buffers + 1);
    d.joined = g_new(EchId, s.n_buffers + 1);
    memset(d.joined, 0xff, (s.n_buffers + 1) * sizeof(EchId));
    d.is_state = g_new0(bool, s.n_buffers + 1);
    d.is_weight = g_new0(bool, s.n_buffers + 1);
    d.is_narrow = g_new0(bool, s.n_buffers + 1);
    d.parts = g_new0(uint32_t, s.n + 1);
    find_homes(&d);
    find_state(&d);
    find_lengths(&d);
    find_weights(&d);
    bool any = false;
    for (EchId b = 0; b < s.n_buffers; b++)
        any |= d.is_state[b];
    EchTrace *out;
    if (any) {
        out = write_shard(&d, diag, error);
    } else {
        g_autofree char *why = why_not(&d);
        ech_diag_remark(diag, "shard: left the trace as it is: %s", why);
        out = ech_trace_ref(in);
    }
    ech_users_clear(&d.users);
    g_free(d.home);
    g_free(d.joined);
    g_free(d.is_state);
    g_free(d.is_weight);
    g_free(d.is_narrow);
    g_free(d.parts);
    return out;
}

const EchPassClass ech_pass_shard = {
    .name = "shard",
    .summary = "split weights and optimizer state that every device holds whole over the devices (ZeRO-1); of PyTorch gradients, too (FSDP, ZeRO-3)",
    .source = "ours; Rajbhandari et al. 2020 (arXiv 1910.02054), Xu et al. 2020 (arXiv 2004.13336); PyTorch 2.15, "
              "torch/distributed/fsdp/_fully_shard, torch/distributed/optim/zero_redundancy_optimizer.py",
    .params = shard_params,
    .options_size = sizeof(EchShardOptions),
    .of_tensors = true,
    .trace = shard_run};
