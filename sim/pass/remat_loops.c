/* Loops that run again: what their bodies have from outside, and what of it they change. */
#include "sim/pass/remat.h"

#include "sim/trace/meets.h"

bool ech_remat_is_message(const EchSurvey *s, EchId op)
{
    const EchOp *o = &s->ops[op];
    bool between_two = o->collective == ECH_COLLECTIVE_SEND || o->collective == ECH_COLLECTIVE_RECV || o->collective == ECH_COLLECTIVE_PERMUTE;
    return o->kind == ECH_OP_COLLECTIVE && between_two && o->launch != ECH_NONE && *ech_meets_of(ech_trace_string(s->t, o->launch));
}

bool ech_remat_is_inside(const EchSurvey *s, EchId buffer, EchId loop)
{
    EchId level = s->buffers[buffer].loop;
    return level != ECH_NONE && level >= loop && level < s->end[loop];
}

EchBytes ech_remat_written(const EchRemat *r, EchId op, EchId buffer)
{
    const EchSurvey *s = r->s;
    bool reads, writes;
    if (s->ops[op].kind != ECH_OP_LOOP) {
        EchBytes most = 0;
        for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++)
            if (s->uses[u].access == ECH_WRITE && ech_survey_root(s, s->uses[u].buffer) == buffer)
                most = MAX(most, s->uses[u].bytes);
        return most;
    }
    EchBytes all = 0;
    for (uint32_t u = r->writers.first[buffer]; u < r->writers.first[buffer + 1]; u++) {
        EchId at = r->writers.op[u];
        EchBytes bytes = at > op && at < s->end[op] ? ech_survey_access(s, at, buffer, &reads, &writes) : 0;
        for (EchId loop = at; bytes > 0 && loop != op; loop = s->region[loop])
            bytes = ech_bytes_mul(bytes, s->ops[s->region[loop]].bytes);
        all = ech_bytes_add(all, bytes);
    }
    return MIN(all, s->buffers[buffer].bytes);
}

static EchRematOutside *outside_of(GArray *outside, EchId buffer)
{
    for (guint k = 0; k < outside->len; k++)
        if (g_array_index(outside, EchRematOutside, k).buffer == buffer)
            return &g_array_index(outside, EchRematOutside, k);
    EchRematOutside fresh = {.buffer = buffer};
    g_array_append_val(outside, fresh);
    return &g_array_index(outside, EchRematOutside, outside->len - 1);
}

static EchRematReason note_op(const EchRemat *r, EchRematLoop *l, EchId loop, EchId op)
{
    const EchSurvey *s = r->s;
    const EchOp *o = &s->ops[op];
    if (ech_remat_is_message(s, op) || o->kind == ECH_OP_SIGNAL || (o->kind == ECH_OP_WAIT && o->target != ECH_NONE))
        return ECH_REMAT_SENT;
    if (!r->asked.products && ech_survey_has_products(s, op))
        return ECH_REMAT_PRODUCT;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        EchId buffer = ech_survey_root(s, use->buffer);
        if (ech_remat_is_inside(s, buffer, loop))
            continue;
        EchRematOutside *of = outside_of(l->outside, buffer);
        if (use->access == ECH_READ)
            of->read = MAX(of->read, use->bytes);
        else if (ech_survey_is_host(s, s->buffers[buffer].memory))
            return ECH_REMAT_COPIED;
        of->begins |= !of->written && (use->access == ECH_READ || use->bytes < s->buffers[buffer].bytes);
        of->written |= use->access == ECH_WRITE;
    }
    return ECH_REMAT_OK;
}

static void free_loop(gpointer data)
{
    g_array_unref(((EchRematLoop *)data)->outside);
    g_free(data);
}

const EchRematLoop *ech_remat_loop(EchRemat *remat, EchId loop)
{
    const EchSurvey *s = remat->s;
    if (remat->loops == NULL)
        remat->loops = g_hash_table_new_full(NULL, NULL, NULL, free_loop);
    EchRematLoop *l = g_hash_table_lookup(remat->loops, GUINT_TO_POINTER(loop));
    if (l != NULL)
        return l;
    l = g_new(EchRematLoop, 1);
    *l = (EchRematLoop){.outside = g_array_new(FALSE, FALSE, sizeof(EchRematOutside))};
    EchBytes now = 0;
    for (EchId i = loop + 1; i < s->end[loop] && l->why == ECH_REMAT_OK; i++) {
        const EchOp *o = &s->ops[i];
        if ((o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && ech_remat_is_inside(s, o->target, loop)) {
            EchBytes bytes = s->buffers[o->target].bytes;
            now = o->kind == ECH_OP_ALLOC ? ech_bytes_add(now, bytes) : now - MIN(now, bytes);
            l->inside = MAX(l->inside, now);
        }
        l->why = note_op(remat, l, loop, i);
    }
    g_hash_table_insert(remat->loops, GUINT_TO_POINTER(loop), l);
    return l;
}
