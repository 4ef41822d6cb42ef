/* The arrays of a loss over classes: logits, what they are cast to, their log-softmax, and the gradients of these, each as wide as a vocabulary. */
#include "sim/pass/batch.h"

#include <string.h>

/* Arrays of one loss are of one length, in types of 2 to 8 bytes; times that its ops are looked at for more of them. */
enum { OF_WIDTH = 4, ROUNDS = 4 };
/* What else is done meanwhile moves less than one part in so many of the loss's largest array. */
enum { ASIDE = 4 };

static bool is_log_softmax(const EchSurvey *s, EchId op)
{
    const char *stack = ech_trace_string(s->t, s->ops[op].stack), *name = ech_trace_string(s->t, s->ops[op].name);
    return strstr(stack, "log_softmax") || strstr(stack, "cross_entropy_loss") || strstr(name, "log_softmax");
}

/* The largest array that a log-softmax of [first, last] writes for rows of the batch; ECH_NONE. */
static EchId find_widest(const EchBatch *b, EchId first, EchId last)
{
    const EchSurvey *s = b->s;
    EchId widest = ECH_NONE;
    for (EchId i = first; i <= last; i++)
        for (uint32_t u = s->ops[i].first_use; s->ops[i].kind == ECH_OP_KERNEL && u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            EchId a = ech_survey_used(s, u);
            bool larger = b->has[a] && s->uses[u].access == ECH_WRITE && (widest == ECH_NONE || s->buffers[a].bytes > s->buffers[widest].bytes);
            if (larger && is_log_softmax(s, i))
                widest = a;
        }
    return widest;
}

/* Whether a use of [first, last] may be of an array of the loss: rows as long as those of @widest, asked for and let go by then. */
static bool may_be_wide(const EchBatch *b, const bool *own, EchId widest, EchId a)
{
    EchBytes bytes = b->s->buffers[a].bytes, most = b->s->buffers[widest].bytes;
    return own[a] && b->has[a] && bytes >= most / OF_WIDTH && bytes <= most * OF_WIDTH;
}

bool ech_batch_find_loss(const EchBatch *batch, EchId first, EchId last, EchId *ret_first, EchId *ret_last)
{
    const EchSurvey *s = batch->s;
    EchId widest = find_widest(batch, first, last);
    if (widest == ECH_NONE)
        return false;
    g_autofree bool *asked = g_new0(bool, s->n_buffers + 1), *own = g_new0(bool, s->n_buffers + 1), *is_wide = g_new0(bool, s->n_buffers + 1);
    for (EchId i = first; i <= last; i++) {
        asked[s->ops[i].kind == ECH_OP_ALLOC ? s->ops[i].target : s->n_buffers] = true;
        own[s->ops[i].kind == ECH_OP_FREE ? s->ops[i].target : s->n_buffers] = s->ops[i].kind == ECH_OP_FREE && asked[s->ops[i].target];
    }
    is_wide[widest] = own[widest];
    for (int round = 0; round < ROUNDS; round++)
        for (EchId i = first; i <= last; i++) {
            const EchOp *o = &s->ops[i];
            bool wide = false, product = ech_survey_has_products(s, i);
            for (uint32_t u = o->first_use; !product && u < o->first_use + o->n_uses; u++)
                wide |= is_wide[ech_survey_used(s, u)];
            for (uint32_t u = o->first_use; wide && u < o->first_use + o->n_uses; u++)
                is_wide[ech_survey_used(s, u)] |= may_be_wide(batch, own, widest, ech_survey_used(s, u));
        }
    EchId begin = ECH_NONE, end = ECH_NONE;
    for (EchId i = first; i <= last; i++) {
        const EchOp *o = &s->ops[i];
        bool wide = (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && is_wide[o->target];
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            wide |= is_wide[ech_survey_used(s, u)];
        begin = wide && begin == ECH_NONE ? i : begin;
        end = wide ? i : end;
    }
    bool alone = begin != ECH_NONE;
    for (EchId i = begin; alone && i <= end; i++) { /* the layers before the loss are not made in parts with it */
        const EchOp *o = &s->ops[i];
        bool wide = false;
        EchBytes most = 0;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            wide |= is_wide[ech_survey_used(s, u)];
            most = batch->has[ech_survey_used(s, u)] ? MAX(most, s->uses[u].bytes) : most;
        }
        alone = wide || most < s->buffers[widest].bytes / ASIDE;
    }
    if (!alone)
        return false;
    *ret_first = begin;
    *ret_last = end;
    return true;
}
