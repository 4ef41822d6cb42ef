#include "sim/pass/remat.h"

#include <string.h>

#define MAX_DEPTH 512

typedef struct {
    EchId op, buffer, region;
} Key;

static guint key_hash(gconstpointer key)
{
    const Key *k = key;
    return (k->op * 2654435761u) ^ (k->buffer * 40503u) ^ k->region;
}

static gboolean key_equal(gconstpointer x, gconstpointer y)
{
    return memcmp(x, y, sizeof(Key)) == 0;
}

static uint32_t find_key(GHashTable *table, EchId op, EchId buffer, EchId region)
{
    Key key = {op, buffer, region};
    return GPOINTER_TO_UINT(g_hash_table_lookup(table, &key)) - 1;
}

/* The value, or the run, that the plan has for these; UINT32_MAX where it has none, or forgot it. */
static uint32_t find_value(const EchRemat *r, EchId op, EchId buffer, EchId region)
{
    uint32_t id = find_key(r->value_of, op, buffer, region);
    const EchRematValue *v = id < r->values->len ? ech_remat_value(r, id) : NULL;
    return v != NULL && v->op == op && v->buffer == buffer && v->region == region ? id : UINT32_MAX;
}

static uint32_t find_run(const EchRemat *r, EchId op, EchId region)
{
    uint32_t id = find_key(r->run_of, op, 0, region);
    const EchRematRun *run = id < r->runs->len ? ech_remat_run(r, id) : NULL;
    return run != NULL && run->op == op && run->region == region ? id : UINT32_MAX;
}

static void add_key(GHashTable *table, EchId op, EchId buffer, EchId region, uint32_t id)
{
    Key *key = g_new(Key, 1);
    *key = (Key){op, buffer, region};
    g_hash_table_insert(table, key, GUINT_TO_POINTER(id + 1));
}

EchId ech_remat_copied(const EchSurvey *survey, EchId op, EchId buffer, bool back)
{
    const EchSurvey *s = survey;
    const EchOp *o = &s->ops[op];
    uint32_t n[2] = {0, 0}, other = UINT32_MAX;
    EchAccess given = back ? ECH_WRITE : ECH_READ;
    bool in_line = o->kind == ECH_OP_COPY && o->queue == s->core && o->memory_from == s->hbm && o->memory_to == s->hbm;
    if ((o->kind != ECH_OP_KERNEL && !in_line) || o->n_work > 0)
        return ECH_NONE;
    /* The n-th that it reads goes to the n-th that it writes. */
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        if (use->access == ECH_READ && use->bytes <= ECH_REMAT_SMALL)
            continue;
        if (use->access == given && ech_survey_root(s, use->buffer) == buffer && other == UINT32_MAX)
            other = n[given == ECH_WRITE];
        n[use->access == ECH_WRITE]++;
    }
    if (other == UINT32_MAX || n[0] != n[1])
        return ECH_NONE;
    EchId found = ECH_NONE;
    EchBytes bytes[2] = {0, 1};
    uint32_t at[2] = {0, 0};
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        bool writes = use->access == ECH_WRITE;
        if ((!writes && use->bytes <= ECH_REMAT_SMALL) || at[writes]++ != other)
            continue;
        bytes[writes] = use->bytes;
        found = use->access != given ? ech_survey_root(s, use->buffer) : found;
    }
    return bytes[0] == bytes[1] && found != buffer ? found : ECH_NONE;
}

/* The one array, not small, that an op copies to another as it is, all of it; ECH_NONE if it does anything else. */
static EchId copied_by(const EchSurvey *s, EchId op, EchId to)
{
    const EchOp *o = &s->ops[op];
    EchId from = ECH_NONE;
    if (o->kind != ECH_OP_COPY) {
        bool reads, writes;
        from = ech_remat_copied(s, op, to, true);
        return from != ECH_NONE && ech_survey_access(s, op, from, &reads, &writes) == s->buffers[from].bytes ? from : ECH_NONE;
    }
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        if (use->access == ECH_WRITE || use->bytes <= ECH_REMAT_SMALL)
            continue;
        if (from != ECH_NONE)
            return ECH_NONE;
        from = ech_survey_root(s, use->buffer);
    }
    return from;
}

/* Whether an op copies back into @buffer what had been copied out of it to make room. */
static bool is_restored_by(const EchRemat *r, EchId op, EchId buffer)
{
    const EchSurvey *s = r->s;
    EchId from = s->ops[op].kind == ECH_OP_COPY ? copied_by(s, op, buffer) : ECH_NONE;
    if (from == ECH_NONE)
        return false;
    for (uint32_t u = r->writers.first[from]; u < r->writers.first[from + 1]; u++) {
        EchId out = r->writers.op[u];
        if (s->ops[out].kind != ECH_OP_COPY || copied_by(s, out, from) != buffer)
            return false;
    }
    return r->writers.first[from + 1] > r->writers.first[from];
}

/* The op in @region (or the loop there) that wrote @buffer last before @before, or ECH_NONE; and whether anything else in @region writes it. */
static EchId last_writer(const EchRemat *r, EchId buffer, EchId region, EchId before, bool *ret_others)
{
    const EchSurvey *s = r->s;
    EchId found = ECH_NONE;
    *ret_others = false;
    for (uint32_t u = r->writers.first[buffer]; u < r->writers.first[buffer + 1]; u++) {
        EchId at = ech_survey_at_level(s, r->writers.op[u], region);
        if (at == ECH_NONE || is_restored_by(r, r->writers.op[u], buffer))
            continue;
        if (r->writers.op[u] < before)
            found = at;
        *ret_others = true;
    }
    return found;
}

/* Whether @buffer still holds at @site what it held after @from. */
bool ech_remat_is_there(const EchRemat *r, EchId buffer, EchId from, EchId site)
{
    const EchSurvey *s = r->s;
    EchId level = s->buffers[buffer].loop, at = ech_survey_at_level(s, site, level);
    if (at == ECH_NONE || (r->free[buffer] != ECH_NONE && r->free[buffer] < at) || (r->alloc[buffer] != ECH_NONE && r->alloc[buffer] > at))
        return false;
    if (r->first_within[buffer] < s->end[at] && r->last_within[buffer] > at) /* in that loop not all of the time */
        return false;
    uint32_t k = r->array_of[buffer];
    if (k != UINT32_MAX && ech_remat_array(r, k)->chosen && (ech_remat_array(r, k)->made_in != ECH_NONE || at >= ech_remat_array(r, k)->gone))
        return false;
    /* Inside a loop that does not hold @from, earlier iterations come before. */
    EchId top = site;
    for (EchId loop = s->region[site]; loop != ECH_NONE && !(from > loop && from < s->end[loop]); loop = s->region[loop])
        top = loop;
    for (uint32_t u = r->writers.first[buffer]; u < r->writers.first[buffer + 1]; u++) {
        EchId op = r->writers.op[u];
        if (op > from && op < (s->ops[top].kind == ECH_OP_LOOP ? s->end[top] : top) && !is_restored_by(r, op, buffer))
            return false;
    }
    return true;
}

typedef struct {
    EchId op;           /* What reads it is this or in this: at level region. */
    EchId region;       /* Where it was made and read. */
    EchId site, target; /* To be made again before this op, in this region. */
} Place;

static EchRematReason resolve(EchRemat *r, Place at, EchId buffer, EchBytes bytes, int depth, GArray *inputs);

static bool is_all(const EchRemat *remat, EchId op, EchId buffer)
{
    const EchUsers *writers = &remat->writers;
    return remat->s->region[op] == ECH_NONE && writers->first[buffer + 1] == writers->first[buffer] + 1 && writers->op[writers->first[buffer]] == op;
}

static void add_input(GArray *inputs, EchRematInputKind kind, uint32_t id, EchBytes bytes)
{
    EchRematInput input = {.kind = kind, .id = id, .bytes = bytes};
    g_array_append_val(inputs, input);
}

/* Whether @op keeps a small account in @buffer beside what it makes in @made, a batch norm's running statistics, say: run again it goes on from there. */
static bool is_account(const EchRemat *r, EchId op, EchId buffer, EchId made)
{
    EchBytes written = buffer != made ? ech_remat_written(r, op, buffer) : 0;
    return written > 0 && written <= r->s->buffers[made].bytes / 64;
}

/* The buffer in whose place, which is let go there, @buffer begins: what an op works on in place is its result before it is. ECH_NONE where there is none. */
static EchId begins_as(const EchRemat *r, EchId buffer)
{
    const EchSurvey *s = r->s;
    const EchBuffer *b = &s->buffers[buffer];
    for (EchId i = r->alloc[buffer]; i != ECH_NONE && i-- > 0 && (s->ops[i].kind == ECH_OP_FREE || s->ops[i].kind == ECH_OP_ALLOC);) {
        const EchBuffer *old = &s->buffers[s->ops[i].target];
        if (s->ops[i].kind == ECH_OP_FREE && s->region[i] == b->loop && old->memory == b->memory && old->offset == b->offset && old->bytes == b->bytes)
            return b->offset != ECH_OFFSET_NONE ? s->ops[i].target : ECH_NONE;
    }
    return ECH_NONE;
}

/* Whether nothing has been put into @buffer yet when @loop, in whose region it was asked for, begins. */
static bool is_fresh(const EchRemat *r, EchId buffer, EchId region, EchId loop)
{
    const EchSurvey *s = r->s;
    EchId alloc = r->alloc[buffer];
    bool others;
    if (s->buffers[buffer].loop != region || alloc == ECH_NONE || alloc > loop || last_writer(r, buffer, region, loop, &others) != ECH_NONE ||
        begins_as(r, buffer) != ECH_NONE)
        return false;
    /* Parts that were brought one by one fill it; others lay there by chance. */
    EchBytes parts = 0;
    for (EchId i = alloc; i-- > 0 && s->ops[i].kind == ECH_OP_FREE;)
        parts = ech_bytes_add(parts, ech_survey_is_inside(s, s->ops[i].target, buffer) ? s->buffers[s->ops[i].target].bytes : 0);
    return parts < s->buffers[buffer].bytes;
}

static uint32_t add_value(EchRemat *r, EchId op, EchId buffer, EchBytes bytes, EchId region, uint32_t run)
{
    EchRematValue value = {.op = op,
                           .buffer = buffer,
                           .region = region,
                           .bytes = bytes,
                           .run = run,
                           .last_run = run,
                           .next = ech_remat_run(r, run)->value,
                           .over = UINT32_MAX,
                           .offset = ECH_OFFSET_NONE};
    uint32_t id = ech_remat_run(r, run)->value = r->values->len;
    g_array_append_val(r->values, value);
    add_key(r->value_of, op, buffer, region, id);
    return id;
}

/* Everything that the loop changes outside of it is made anew, whoever wants it. */
static EchRematReason run_loop_again(EchRemat *r, EchId loop, Place at, int depth, uint32_t *ret_run)
{
    const EchSurvey *s = r->s;
    const EchRematLoop *l = ech_remat_loop(r, loop);
    if (l->why != ECH_REMAT_OK)
        return l->why;
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), bindings = g_array_new(FALSE, FALSE, sizeof(EchRematBinding));
    Place read = {.op = loop, .region = at.region, .site = at.site, .target = at.target};
    for (guint k = 0; k < l->outside->len; k++) {
        const EchRematOutside *of = &g_array_index(l->outside, EchRematOutside, k);
        EchRematBinding binding = {.buffer = of->buffer, .first_input = inputs->len, .value = UINT32_MAX};
        if (of->written ? of->begins && !is_fresh(r, of->buffer, at.region, loop) : true) {
            EchRematReason why = resolve(r, read, of->buffer, of->written ? s->buffers[of->buffer].bytes : of->read, depth + 1, inputs);
            if (why != ECH_REMAT_OK)
                return why;
        }
        binding.n_inputs = inputs->len - binding.first_input;
        g_array_append_val(bindings, binding);
    }
    EchRematRun run = {.op = loop,
                       .region = at.target,
                       .site = at.site,
                       .first_input = r->inputs->len,
                       .n_inputs = inputs->len,
                       .first_binding = r->bindings->len,
                       .n_bindings = bindings->len,
                       .value = UINT32_MAX,
                       .inside = l->inside};
    *ret_run = r->runs->len;
    g_array_append_vals(r->inputs, inputs->data, inputs->len);
    g_array_append_val(r->runs, run);
    add_key(r->run_of, loop, 0, at.target, *ret_run);
    for (guint k = 0; k < bindings->len; k++) {
        EchRematBinding *binding = &g_array_index(bindings, EchRematBinding, k);
        binding->first_input += run.first_input;
        if (g_array_index(l->outside, EchRematOutside, k).written)
            binding->value = add_value(r, loop, binding->buffer, s->buffers[binding->buffer].bytes, at.target, *ret_run);
    }
    g_array_append_vals(r->bindings, bindings->data, bindings->len);
    return ECH_REMAT_OK;
}

/* Whether @op writes a part of @buffer where the others of its parts are written, one by one: what it leaves is not what it wrote alone. */
static bool adds_a_part(const EchRemat *r, EchId op, EchId buffer)
{
    const EchSurvey *s = r->s;
    return s->ops[op].kind == ECH_OP_KERNEL && s->region[op] == s->buffers[buffer].loop && ech_remat_written(r, op, buffer) < s->buffers[buffer].bytes &&
           !is_all(r, op, buffer);
}

/* Whether @op copies from device memory to device memory in line with kernels, as PyTorch's clone() does. */
static bool is_local_copy(const EchSurvey *s, EchId op)
{
    const EchOp *o = &s->ops[op];
    return o->kind == ECH_OP_COPY && o->queue == s->core && o->memory_from == s->hbm && o->memory_to == s->hbm && ech_trace_is_captured(s->t);
}

static EchRematReason run_again(EchRemat *r, EchId op, EchId made, Place at, int depth, uint32_t *ret_run)
{
    const EchSurvey *s = r->s;
    const EchOp *o = &s->ops[op];
    if (depth > MAX_DEPTH)
        return ECH_REMAT_DEEP;
    if (o->kind == ECH_OP_LOOP)
        return run_loop_again(r, op, at, depth, ret_run);
    if (o->kind != ECH_OP_KERNEL && o->kind != ECH_OP_COLLECTIVE && !is_local_copy(s, op))
        return ECH_REMAT_COPIED;
    if (ech_remat_is_message(s, op))
        return ECH_REMAT_SENT;
    if (!r->asked.products && ech_survey_has_products(s, op))
        return ECH_REMAT_PRODUCT;
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput));
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        if (use->access != ECH_READ || (ech_survey_root(s, use->buffer) == made && adds_a_part(r, op, made))) /* what it adds to is there */
            continue;
        if (is_account(r, op, ech_survey_root(s, use->buffer), made) && ech_remat_is_there(r, ech_survey_root(s, use->buffer), at.site, at.site)) {
            add_input(inputs, ECH_REMAT_DIRECT, ech_survey_root(s, use->buffer), use->bytes);
            continue;
        }
        Place read = {.op = op, .region = at.region, .site = at.site, .target = at.target};
        EchRematReason why = resolve(r, read, ech_survey_root(s, use->buffer), use->bytes, depth + 1, inputs);
        if (why != ECH_REMAT_OK)
            return why;
    }
    EchRematRun run = {.op = op, .region = at.target, .site = at.site, .first_input = r->inputs->len, .n_inputs = inputs->len, .value = UINT32_MAX};
    *ret_run = r->runs->len;
    g_array_append_vals(r->inputs, inputs->data, inputs->len);
    g_array_append_val(r->runs, run);
    add_key(r->run_of, op, 0, at.target, *ret_run);
    return ECH_REMAT_OK;
}

/* The op that wrote parts of @buffer last before @op, one of several, did: ECH_NONE for the first. False where anything else was done with it in between. */
static bool part_before(const EchRemat *r, EchId op, EchId buffer, EchId *ret_before)
{
    const EchSurvey *s = r->s;
    bool reads, writes;
    *ret_before = ECH_NONE;
    if (r->alloc[buffer] == ECH_NONE || r->alloc[buffer] > op || begins_as(r, buffer) != ECH_NONE)
        return false;
    for (uint32_t u = r->users.first[buffer]; u < r->users.first[buffer + 1] && r->users.op[u] < op; u++)
        *ret_before = r->users.op[u];
    if (*ret_before == ECH_NONE)
        return true;
    (void)ech_survey_access(s, *ret_before, buffer, &reads, &writes);
    return writes && s->ops[*ret_before].kind == ECH_OP_KERNEL && s->region[*ret_before] == s->buffers[buffer].loop;
}

static EchRematReason make_value(EchRemat *r, EchId op, EchId buffer, Place at, int depth, uint32_t *ret_value);

/* What was there of @buffer before @op, which is to run again, added a part. */
static EchRematReason make_parts_before(EchRemat *r, EchId op, EchId buffer, Place at, int depth, uint32_t *ret_over)
{
    EchId before;
    if (depth > MAX_DEPTH)
        return ECH_REMAT_DEEP;
    if (find_run(r, op, at.target) != UINT32_MAX || !part_before(r, op, buffer, &before))
        return ECH_REMAT_PARTS;
    *ret_over = UINT32_MAX;
    if (before == ECH_NONE)
        return ECH_REMAT_OK;
    Place read = {.op = op, .region = at.region, .site = at.site, .target = at.target};
    return make_value(r, before, buffer, read, depth + 1, ret_over);
}

/* What @op wrote to @buffer, made again. */
static EchRematReason make_value(EchRemat *r, EchId op, EchId buffer, Place at, int depth, uint32_t *ret_value)
{
    const EchSurvey *s = r->s;
    *ret_value = find_value(r, op, buffer, at.target);
    if (*ret_value != UINT32_MAX)
        return ECH_REMAT_OK;
    EchBytes bytes = ech_remat_written(r, op, buffer);
    uint32_t k = r->array_of[buffer], over = UINT32_MAX;
    bool slice = k != UINT32_MAX && ech_remat_array(r, k)->made_in != ECH_NONE && ech_remat_array(r, k)->maker == op;
    if (s->ops[op].kind != ECH_OP_LOOP && bytes < s->buffers[buffer].bytes && !slice) {
        EchRematReason why = adds_a_part(r, op, buffer) ? make_parts_before(r, op, buffer, at, depth, &over)
                             : is_all(r, op, buffer)    ? ECH_REMAT_OK
                                                        : ECH_REMAT_PARTS;
        if (why != ECH_REMAT_OK)
            return why;
        bytes = s->buffers[buffer].bytes;
    }
    uint32_t run = find_run(r, op, at.target);
    if (run == UINT32_MAX) {
        EchRematReason why = run_again(r, op, buffer, at, depth, &run);
        if (why != ECH_REMAT_OK)
            return why;
    }
    *ret_value = s->ops[op].kind == ECH_OP_LOOP ? find_value(r, op, buffer, at.target) : add_value(r, op, buffer, bytes, at.target, run);
    ech_remat_value(r, *ret_value)->over = over;
    return ECH_REMAT_OK;
}

/* Whether a compiler made @one again as @other, or both of a third: "fusion.3" and "fusion.3.remat2". */
static bool is_same_again(const EchSurvey *s, EchId one, EchId other)
{
    const char *a = ech_trace_string(s->t, s->ops[one].name), *b = ech_trace_string(s->t, s->ops[other].name);
    const char *a_end = strstr(a, ECH_REMADE), *b_end = strstr(b, ECH_REMADE);
    size_t n = a_end ? (size_t)(a_end - a) : strlen(a), m = b_end ? (size_t)(b_end - b) : strlen(b);
    return n == m && strncmp(a, b, n) == 0;
}

/* Whether @known stacks what @buffer is after @after. */
static bool stacks_same(const EchRemat *r, const EchRematCarry *known, EchId buffer, EchId after)
{
    const EchBuffer *a = &r->s->buffers[known->buffer], *b = &r->s->buffers[buffer];
    if (after == ECH_NONE || known->after == ECH_NONE)
        return known->buffer == buffer && known->after == after;
    return (known->buffer == buffer && known->after == after) ||
           (is_same_again(r->s, known->after, after) && a->bytes == b->bytes && a->product == b->product && a->product_dtype == b->product_dtype);
}

static uint32_t carry_of(EchRemat *r, EchId buffer, EchId after, Place at)
{
    for (guint k = 0; k < r->carries->len; k++) {
        const EchRematCarry *known = ech_remat_carry(r, k);
        if (known->made_in == at.region && known->used_in == at.target && stacks_same(r, known, buffer, after))
            return k;
    }
    const EchBuffer *b = &r->s->buffers[buffer];
    EchRematCarry carry = {.buffer = buffer, .after = after, .made_in = at.region, .used_in = at.target, .bytes = b->bytes};
    unsigned bits = ech_dtype_bits((EchDtype)b->dtype), own = ech_dtype_bits((EchDtype)b->product_dtype);
    if (after != ECH_NONE && own > 0 && own < bits)
        carry.bytes = b->bytes / bits * own;
    g_array_append_val(r->carries, carry);
    return r->carries->len - 1;
}

/* Whether anything but copies makes, in the iterations of @region, what they bring to @buffer there. */
static bool is_made_in(const EchRemat *r, EchId buffer, EchId region, int depth)
{
    const EchSurvey *s = r->s;
    if (depth > MAX_DEPTH)
        return true;
    for (uint32_t u = r->writers.first[buffer]; u < r->writers.first[buffer + 1]; u++) {
        EchId op = r->writers.op[u];
        if (ech_survey_at_level(s, op, region) == ECH_NONE || is_restored_by(r, op, buffer))
            continue;
        EchId from = s->ops[op].kind == ECH_OP_COPY ? copied_by(s, op, buffer) : ECH_NONE;
        if (from == ECH_NONE || is_made_in(r, from, region, depth + 1))
            return true;
    }
    return false;
}

/* Whether the iterations of @region bring one by one, for the next of them, parts of what they make to where @buffer, which is there before them, lies. */
static bool is_handed_on_in_parts(const EchRemat *r, EchId buffer, EchId region)
{
    const EchSurvey *s = r->s;
    EchId alloc = r->alloc[buffer];
    if (alloc == ECH_NONE || s->region[alloc] != region || s->buffers[buffer].loop == region)
        return false;
    for (EchId i = alloc; i-- > 0 && s->ops[i].kind == ECH_OP_FREE;)
        if (ech_survey_lies_inside(s, s->ops[i].target, buffer) && is_made_in(r, s->ops[i].target, region, 0))
            return true;
    return false;
}

/* What copies brought, parts of it perhaps: what they brought it from. */
static EchRematReason resolve_copies(EchRemat *r, Place at, EchId buffer, int depth, GArray *inputs, bool *ret_all)
{
    const EchSurvey *s = r->s;
    *ret_all = false;
    if (depth > MAX_DEPTH)
        return ECH_REMAT_DEEP;
    /* Parts that were brought one by one end where the whole begins, in its place. */
    for (EchId i = r->alloc[buffer]; i != ECH_NONE && i-- > 0 && s->ops[i].kind == ECH_OP_FREE && ech_survey_is_inside(s, s->ops[i].target, buffer);) {
        EchRematReason why = resolve_copies(r, at, s->ops[i].target, depth + 1, inputs, ret_all);
        if (why != ECH_REMAT_OK || !*ret_all)
            return why;
    }
    /* Where none comes before, those for the next iteration do. */
    bool others, next = at.region != ECH_NONE && last_writer(r, buffer, at.region, at.op, &others) == ECH_NONE;
    if (next && s->buffers[buffer].loop != at.region &&
        (is_made_in(r, buffer, at.region, 0) || is_handed_on_in_parts(r, buffer, at.region))) { /* by the iteration before: it is handed on, in this place */
        if (at.region == at.target)
            return ECH_REMAT_GONE;
        *ret_all = true;
        add_input(inputs, ECH_REMAT_CARRY, carry_of(r, buffer, ECH_NONE, at), s->buffers[buffer].bytes);
        return ECH_REMAT_OK;
    }
    for (int taking = 0; taking < 2; taking++)
        for (uint32_t u = r->writers.first[buffer]; u < r->writers.first[buffer + 1]; u++) {
            EchId op = r->writers.op[u];
            if (s->region[op] != at.region || (op > at.op && !next) || is_restored_by(r, op, buffer))
                continue;
            EchId from = s->ops[op].kind == ECH_OP_COPY ? copied_by(s, op, buffer) : ECH_NONE;
            if (from == ECH_NONE || ech_survey_is_host(s, s->buffers[from].memory)) {
                *ret_all = false;
                return ECH_REMAT_OK;
            }
            *ret_all = true;
            Place read = {.op = op, .region = at.region, .site = at.site, .target = at.target};
            EchRematReason why = taking ? resolve(r, read, from, ech_remat_written(r, op, buffer), depth + 1, inputs) : ECH_REMAT_OK;
            if (why != ECH_REMAT_OK)
                return why;
        }
    return ECH_REMAT_OK;
}

/* What holds before op @site a copy of what @buffer held after op @from: a compiler's eviction from on-chip memory, say. ECH_NONE where nothing does. */
static EchId copy_there(const EchRemat *r, EchId buffer, EchId from, EchId region, EchId site)
{
    const EchSurvey *s = r->s;
    for (uint32_t u = r->users.first[buffer]; u < r->users.first[buffer + 1]; u++) {
        EchId op = r->users.op[u];
        if (op <= from || op >= site || s->ops[op].kind != ECH_OP_COPY || s->region[op] != region || !ech_remat_is_there(r, buffer, from, op))
            continue;
        for (uint32_t k = 0; k < s->ops[op].n_uses; k++) {
            const EchUse *use = &s->uses[s->ops[op].first_use + k];
            EchId to = ech_survey_root(s, use->buffer);
            if (use->access == ECH_WRITE && to != buffer && !ech_survey_is_host(s, s->buffers[to].memory) && copied_by(s, op, to) == buffer &&
                use->bytes == s->buffers[buffer].bytes && use->bytes == s->buffers[to].bytes && ech_remat_is_there(r, to, op, site))
                return to;
        }
    }
    return ECH_NONE;
}

/* The stack, kept for a later loop, into which an iteration puts what it makes of @buffer by op @made_by, as it is. ECH_NONE where there is none. */
static EchId stack_there(const EchRemat *r, EchId buffer, EchId made_by, Place at)
{
    const EchSurvey *s = r->s;
    for (uint32_t u = r->users.first[buffer]; at.region != at.target && u < r->users.first[buffer + 1]; u++) {
        EchId op = r->users.op[u];
        if (op <= made_by || s->ops[op].kind != ECH_OP_KERNEL || s->region[op] != at.region)
            continue;
        for (uint32_t k = s->ops[op].first_use; k < s->ops[op].first_use + s->ops[op].n_uses; k++) {
            EchId to = ech_survey_root(s, s->uses[k].buffer);
            uint32_t array = r->array_of[to];
            if (s->uses[k].access == ECH_WRITE && s->buffers[to].loop != at.region && s->uses[k].bytes == s->buffers[buffer].bytes &&
                (array == UINT32_MAX || !ech_remat_array(r, array)->chosen) && copied_by(s, op, to) == buffer &&
                ech_remat_is_there(r, to, s->end[at.region] - 1, at.site))
                return to;
        }
    }
    return ECH_NONE;
}

/* How much of a plan there is. */
typedef struct {
    guint runs, values, inputs, bindings, carries;
} Mark;

static void forget_since(EchRemat *r, const Mark *mark)
{
    for (uint32_t k = 0; k < mark->runs; k++) {
        EchRematRun *run = ech_remat_run(r, k);
        while (run->value != UINT32_MAX && run->value >= mark->values)
            run->value = ech_remat_value(r, run->value)->next;
    }
    g_array_set_size(r->runs, mark->runs);
    g_array_set_size(r->values, mark->values);
    g_array_set_size(r->inputs, mark->inputs);
    g_array_set_size(r->bindings, mark->bindings);
    g_array_set_size(r->carries, mark->carries);
}

/* Whether @buffer, let go before @at.site, would hold there what it held after @made_by if it stayed. */
static bool can_stay(const EchRemat *r, EchId buffer, EchId made_by, Place at)
{
    const EchSurvey *s = r->s;
    const EchBuffer *b = &s->buffers[buffer];
    EchId site = ech_survey_at_level(s, at.site, b->loop);
    uint32_t k = r->array_of[buffer];
    if (at.region != at.target || site == ECH_NONE || b->memory != s->hbm || b->resident || r->first_within[buffer] != ECH_NONE ||
        r->alloc[buffer] == ECH_NONE || r->free[buffer] == ECH_NONE || r->free[buffer] > site || r->alloc[buffer] > r->free[buffer] ||
        (k != UINT32_MAX && ech_remat_array(r, k)->chosen))
        return false;
    for (uint32_t u = r->writers.first[buffer]; u < r->writers.first[buffer + 1]; u++)
        if (r->writers.op[u] > ech_remat_last_of(s, made_by))
            return false;
    return true;
}

/* Whether a policy keeps it, as far as it is asked for: of products, what stands for their results. */
static bool is_kept(const EchRemat *r, EchId buffer)
{
    const uint8_t product = r->s->buffers[buffer].product;
    bool result = product == ECH_PRODUCT_RESULT || product == ECH_PRODUCT_BATCH;
    return (!r->asked.products && result) || (*r->asked.keep != '\0' && ech_survey_fits_name(r->s, buffer, r->asked.keep));
}

/* Whether a later loop can have what @made_by makes of @buffer in each iteration of this one, all of it, by stacking it. */
static bool can_be_stacked(const EchRemat *r, EchId buffer, EchId made_by, Place at)
{
    const EchSurvey *s = r->s;
    return at.region != at.target && s->buffers[buffer].loop == at.region && s->region[made_by] == at.region && !adds_a_part(r, made_by, buffer) &&
           ech_survey_after(s, made_by) < s->end[at.region];
}

/* What stands for the result of a product in what kernel @op makes, where that is kept and @buffer made of it: that is made of it again by who reads it.
 * ECH_NONE: none. */
static EchId result_beside(const EchRemat *r, EchId op, EchId buffer)
{
    const EchSurvey *s = r->s;
    if (s->buffers[buffer].product != ECH_PRODUCT_BESIDE || s->ops[op].kind != ECH_OP_KERNEL)
        return ECH_NONE;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchId other = ech_survey_root(s, s->uses[u].buffer);
        uint32_t k = r->array_of[other];
        if (s->uses[u].access == ECH_WRITE && other != buffer && is_kept(r, other) && (k == UINT32_MAX || !ech_remat_array(r, k)->chosen))
            return other;
    }
    return ECH_NONE;
}

static EchRematReason resolve_made(EchRemat *r, Place at, EchId made_by, EchId buffer, EchBytes bytes, int depth, GArray *inputs)
{
    const EchSurvey *s = r->s;
    uint32_t k = r->array_of[buffer];
    const EchRematArray *array = k != UINT32_MAX ? ech_remat_array(r, k) : NULL;
    bool kept_stack = at.region != at.target && (array == NULL || !array->chosen) && s->buffers[buffer].loop != at.region &&
                      ech_remat_written(r, made_by, buffer) < s->buffers[buffer].bytes && ech_remat_is_there(r, buffer, s->end[at.region] - 1, at.site);
    if (kept_stack || (at.region == at.target && ech_remat_is_there(r, buffer, ech_remat_last_of(s, made_by), at.site))) {
        add_input(inputs, ECH_REMAT_DIRECT, buffer, bytes);
        return ECH_REMAT_OK;
    }
    EchId copy = at.region == at.target ? copy_there(r, buffer, ech_remat_last_of(s, made_by), at.region, at.site) : ECH_NONE;
    if (copy != ECH_NONE) {
        add_input(inputs, ECH_REMAT_DIRECT, copy, bytes);
        return ECH_REMAT_OK;
    }
    EchId from = s->ops[made_by].kind == ECH_OP_KERNEL && !adds_a_part(r, made_by, buffer) ? copied_by(s, made_by, buffer) : ECH_NONE;
    if (from != ECH_NONE) {
        Place read = {.op = made_by, .region = at.region, .site = at.site, .target = at.target};
        return resolve(r, read, from, bytes, depth + 1, inputs);
    }
    EchId stack = stack_there(r, buffer, made_by, at);
    if (stack != ECH_NONE) {
        add_input(inputs, ECH_REMAT_DIRECT, stack, bytes);
        return ECH_REMAT_OK;
    }
    EchId result = result_beside(r, made_by, buffer);
    if (result != ECH_NONE)
        return resolve_made(r, at, made_by, result, ech_remat_written(r, made_by, result), depth + 1, inputs);
    /* What is to be kept is not made again for others either. */
    if (is_kept(r, buffer) && can_be_stacked(r, buffer, made_by, at)) {
        uint32_t carry = carry_of(r, buffer, made_by, at);
        add_input(inputs, ECH_REMAT_CARRY, carry, MIN(bytes, ech_remat_carry(r, carry)->bytes));
        return ECH_REMAT_OK;
    }
    if (is_kept(r, buffer) && can_stay(r, buffer, made_by, at)) {
        (void)g_hash_table_add(r->stays, GUINT_TO_POINTER(buffer));
        add_input(inputs, ECH_REMAT_KEPT, buffer, bytes);
        return ECH_REMAT_OK;
    }
    uint32_t value;
    const Mark mark = {r->runs->len, r->values->len, r->inputs->len, r->bindings->len, r->carries->len};
    EchRematReason why = g_hash_table_contains(r->stays, GUINT_TO_POINTER(buffer)) ? ECH_REMAT_GONE : make_value(r, made_by, buffer, at, depth, &value);
    if (why == ECH_REMAT_OK)
        add_input(inputs, ECH_REMAT_VALUE, value, bytes);
    if (why != ECH_REMAT_GONE || !can_stay(r, buffer, made_by, at))
        return why;
    forget_since(r, &mark);
    (void)g_hash_table_add(r->stays, GUINT_TO_POINTER(buffer));
    add_input(inputs, ECH_REMAT_KEPT, buffer, bytes);
    return ECH_REMAT_OK;
}

/* Finds where @at.site can read what @at.op read from @buffer, or makes it again there. */
static EchRematReason resolve(EchRemat *r, Place at, EchId buffer, EchBytes bytes, int depth, GArray *inputs)
{
    const EchSurvey *s = r->s;
    if (bytes <= ECH_REMAT_SMALL)
        return ECH_REMAT_OK;
    if (depth > MAX_DEPTH)
        return ECH_REMAT_DEEP;
    if (s->buffers[buffer].bytes == 0 && s->buffers[buffer].resident) { /* traffic of unknown place: no array that anything else hangs on */
        add_input(inputs, ECH_REMAT_DIRECT, buffer, bytes);
        return ECH_REMAT_OK;
    }
    EchId gathered = ech_remat_gathered_at(r, buffer, at.site);
    if (gathered != ECH_NONE) {
        add_input(inputs, ECH_REMAT_DIRECT, gathered, bytes);
        return ECH_REMAT_OK;
    }
    if (r->writers.first[buffer + 1] == r->writers.first[buffer] && r->alloc[buffer] != ECH_NONE) /* nobody ever puts anything into it: a place for results */
        return ECH_REMAT_OK;
    bool copied, written;
    EchId made_by = last_writer(r, buffer, at.region, at.op, &written);
    if (made_by == ECH_NONE && ech_remat_is_there(r, buffer, at.region != ECH_NONE ? at.region : 0, at.site)) {
        add_input(inputs, ECH_REMAT_DIRECT, buffer, bytes);
        return ECH_REMAT_OK;
    }
    EchId old = made_by == ECH_NONE && s->buffers[buffer].loop == at.region && at.op > r->alloc[buffer] ? begins_as(r, buffer) : ECH_NONE;
    if (old != ECH_NONE) {
        Place before = {.op = r->alloc[buffer], .region = at.region, .site = at.site, .target = at.target};
        return resolve(r, before, old, bytes, depth + 1, inputs);
    }
    if (at.region != at.target || made_by == ECH_NONE || !ech_remat_is_there(r, buffer, ech_remat_last_of(s, made_by), at.site)) {
        EchRematReason why = resolve_copies(r, at, buffer, depth, inputs, &copied);
        if (why != ECH_REMAT_OK || copied)
            return why;
    }
    if (made_by != ECH_NONE)
        return resolve_made(r, at, made_by, buffer, bytes, depth, inputs);
    if (at.region == ECH_NONE || (written && (at.region == at.target || s->buffers[buffer].loop == at.region)))
        return ECH_REMAT_GONE;
    if (written) {
        add_input(inputs, ECH_REMAT_CARRY, carry_of(r, buffer, ECH_NONE, at), bytes);
        return ECH_REMAT_OK;
    }
    EchId outside = s->region[at.region], site = ech_survey_at_level(s, at.site, outside);
    if (site == ECH_NONE)
        return ECH_REMAT_GONE;
    return resolve(r, (Place){.op = at.region, .region = outside, .site = site, .target = outside}, buffer, bytes, depth + 1, inputs);
}

void ech_remat_reset(EchRemat *remat)
{
    g_array_set_size(remat->runs, 0);
    g_array_set_size(remat->values, 0);
    g_array_set_size(remat->inputs, 0);
    g_array_set_size(remat->bindings, 0);
    g_array_set_size(remat->carries, 0);
    g_array_set_size(remat->order, 0);
    for (uint32_t k = 0; k < remat->longer->len; k++)
        remat->longer_of[ech_remat_longer(remat, k)->buffer] = UINT32_MAX;
    g_array_set_size(remat->longer, 0);
    g_hash_table_remove_all(remat->stays);
    g_clear_pointer(&remat->value_of, g_hash_table_unref);
    g_clear_pointer(&remat->run_of, g_hash_table_unref);
    remat->value_of = g_hash_table_new_full(key_hash, key_equal, g_free, NULL);
    remat->run_of = g_hash_table_new_full(key_hash, key_equal, g_free, NULL);
}

void ech_remat_make_along(EchRemat *remat, const EchRematAlong *along)
{
    EchRemat *r = remat;
    uint32_t value;
    Mark mark = {r->runs->len, r->values->len, r->inputs->len, r->bindings->len, r->carries->len};
    Place at = {.op = along->op, .region = ECH_NONE, .site = along->site, .target = ECH_NONE};
    if (make_value(r, along->op, along->buffer, at, 0, &value) != ECH_REMAT_OK)
        forget_since(r, &mark);
}

EchRematReason ech_remat_bring_back(EchRemat *remat, const EchRematArray *array, EchRematInput *ret_stand)
{
    bool stack = array->made_in != ECH_NONE;
    Place at = {.op = ech_survey_after(remat->s, array->maker),
                .region = stack ? array->made_in : array->level,
                .site = array->back,
                .target = stack ? array->used_in : array->level};
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(EchRematInput));
    bool copied = remat->s->ops[array->maker].kind == ECH_OP_COPY;
    EchId from = copied ? copied_by(remat->s, array->maker, array->source) : ECH_NONE;
    if (copied && (from == ECH_NONE || ech_survey_is_host(remat->s, remat->s->buffers[from].memory)))
        return ECH_REMAT_COPIED;
    at.op = copied ? array->maker : at.op;
    EchRematReason why =
        copied ? resolve(remat, at, from, array->slice, 0, found) : resolve_made(remat, at, array->maker, array->source, array->slice, 0, found);
    if (why != ECH_REMAT_OK)
        return why;
    if (found->len == 1) {
        *ret_stand = g_array_index(found, EchRematInput, 0);
        if (ret_stand->kind != ECH_REMAT_DIRECT || ech_remat_is_there(remat, ret_stand->id, ech_remat_last_of(remat->s, array->maker), array->until - 1))
            return ECH_REMAT_OK;
    }
    if (copied)
        return ECH_REMAT_COPIED;
    *ret_stand = (EchRematInput){.kind = ECH_REMAT_VALUE, .bytes = array->slice};
    return make_value(remat, array->maker, array->source, at, 0, &ret_stand->id);
}
