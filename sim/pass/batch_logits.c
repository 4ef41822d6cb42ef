/* The loss over classes of a program that XLA compiled, some rows at a time: jax.lax.scan over parts of the rows, its body the last product and the loss under
 * jax.checkpoint. Of each array as large as the logits a part is there at a time, the product that makes them runs again for each part's gradients, and what a
 * gradient of the last weights adds up over parts is read and written for each. */
#include "models/layout/layout.h"
#include "sim/pass/batch.h"

#include <string.h>

typedef struct {
    const EchSurvey *s;
    EchEdit e;
    GArray *logits; /* Logits */
    GArray *loops;  /* EchId: LOOPs whose bodies are being written, the innermost last */
    bool *is_wide;  /* Per buffer: it is as large as logits, and there for a part at a time. */
    bool *is_again; /* Per op: it makes logits, and runs again. */
    EchBytes *sum;  /* Per op: what a gradient of weights in it adds up over parts, that no buffer holds; 0: none. */
    uint64_t parts;
    EchBytes wide, summed; /* Of all wide arrays; of what is added up. */
    guint n_wide;
} Writer;

/* Logits of a loss, in elements. */
typedef struct {
    uint64_t all, classes;
    guint n_made; /* Kernels that make them of what is no such array. */
} Logits;

static bool layout_of(const EchSurvey *s, EchId buffer, EchLayout *ret)
{
    const char *text = ech_trace_string(s->t, s->buffers[buffer].shape);
    size_t used;
    return *text && ech_layout_parse(text, strlen(text), ret, &used, NULL);
}

static uint64_t elements_of(const EchSurvey *s, EchId buffer)
{
    EchLayout layout;
    return layout_of(s, buffer, &layout) ? ech_layout_elements(&layout) : 0;
}

/* Those that @buffer is as large as, a row of them being one of its dimensions: scores of attention may be as many. */
static Logits *logits_of(const Writer *w, EchId buffer)
{
    EchLayout layout;
    if (!layout_of(w->s, buffer, &layout))
        return NULL;
    for (guint i = 0; i < w->logits->len; i++) {
        Logits *l = &g_array_index(w->logits, Logits, i);
        bool has_rows = false;
        for (unsigned d = 0; d < layout.rank; d++)
            has_rows |= (uint64_t)layout.dims[d] == l->classes;
        if (has_rows && ech_layout_elements(&layout) == l->all)
            return l;
    }
    return NULL;
}

static void find_wide(Writer *w)
{
    const EchSurvey *s = w->s;
    for (EchId a = 0; a < s->n_buffers; a++) {
        const EchBuffer *b = &s->buffers[a];
        w->is_wide[a] = b->memory == s->hbm && b->role == ECH_ROLE_TEMPORARY && b->alias_of == ECH_NONE && !b->resident && logits_of(w, a);
        if (w->is_wide[a])
            w->wide = ech_bytes_add(w->wide, b->bytes);
        w->n_wide += w->is_wide[a];
    }
}

/* Bytes of the weights that a kernel makes logits with: of two that it reads, x elements for each row and for each class. 0: not told. */
static EchBytes weights_of(const Writer *w, const EchOp *o, const Logits *logits)
{
    const EchSurvey *s = w->s;
    const uint64_t rows = logits->all / logits->classes;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        uint64_t weights = s->uses[u].access == ECH_READ ? elements_of(s, s->uses[u].buffer) : 0;
        for (uint32_t k = o->first_use; weights > 0 && weights % logits->classes == 0 && k < o->first_use + o->n_uses; k++)
            if (k != u && s->uses[k].access == ECH_READ && elements_of(s, s->uses[k].buffer) == weights / logits->classes * rows)
                return s->buffers[s->uses[u].buffer].bytes;
    }
    return 0;
}

/* What kernel @op, which multiplies, does with logits. @weights: per Logits, bytes of its weights as a product has them. */
static void look_at(Writer *w, EchId op, EchBytes *weights)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    Logits *reads = NULL, *makes = NULL;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId a = ech_survey_used(s, u);
        if (w->is_wide[a])
            *(s->uses[u].access == ECH_READ ? &reads : &makes) = logits_of(w, a);
    }
    if (makes && !reads) {
        makes->n_made++;
        w->is_again[op] = true;
        EchBytes *of = &weights[makes - (Logits *)(void *)w->logits->data];
        *of = MAX(*of, weights_of(w, o, makes));
    }
    if (!reads || weights[reads - (Logits *)(void *)w->logits->data] == 0)
        return;
    uint64_t wanted = 0; /* elements of the weights' gradient */
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        if (s->uses[u].access == ECH_WRITE && elements_of(s, s->uses[u].buffer) % reads->classes == 0)
            wanted += elements_of(s, s->uses[u].buffer) > 0 && !w->is_wide[ech_survey_used(s, u)];
    if (wanted > 1) /* with what an optimizer makes of it in the same kernel */
        w->sum[op] = weights[reads - (Logits *)(void *)w->logits->data];
}

static void find_products(Writer *w)
{
    g_autofree EchBytes *weights = g_new0(EchBytes, w->logits->len + 1);
    for (EchId i = 0; i < w->s->n; i++)
        if (w->s->ops[i].kind == ECH_OP_KERNEL && ech_survey_has_products(w->s, i))
            look_at(w, i, weights);
}

static void put(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    EchId sum = ECH_NONE;
    if (w->sum[op] > 0) {
        EchBuffer buffer = ech_buffer_init();
        buffer.name = ech_edit_text(&w->e, o->name);
        buffer.stack = ech_edit_text(&w->e, o->stack);
        buffer.memory = s->hbm;
        buffer.role = ECH_ROLE_TEMPORARY;
        buffer.bytes = w->sum[op];
        buffer.loop = w->loops->len > 0 ? w->e.map[g_array_index(w->loops, EchId, w->loops->len - 1)] : ECH_NONE;
        sum = ech_trace_builder_buffer(w->e.builder, buffer);
        (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, sum);
        w->summed = ech_bytes_add(w->summed, buffer.bytes);
    }
    ech_edit_keep(&w->e, op);
    if (sum != ECH_NONE) {
        EchBytes moved = ech_bytes_mul(w->sum[op], w->parts - 1);
        EchOp *made = ech_trace_builder_peek_op(w->e.builder, w->e.map[op]);
        if (made->estimate != ECH_TIME_NONE)
            made->estimate = ech_time_add(made->estimate, ech_survey_hbm_time(s, ech_bytes_mul(moved, 2)));
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, sum);
    }
    if (w->is_again[op])
        ech_edit_keep(&w->e, op);
    if ((o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && w->is_wide[o->target])
        ech_trace_builder_peek_op(w->e.builder, w->e.map[op])->bytes = o->bytes / w->parts;
}

static void write_all(Writer *w)
{
    const EchSurvey *s = w->s;
    for (EchId a = 0; a < s->n_buffers; a++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(w->e.builder, a);
        if (!w->is_wide[ech_survey_root(s, a)])
            continue;
        buffer->bytes = MAX(buffer->bytes / w->parts, 1);
        buffer->dense /= w->parts;
        buffer->alias_offset /= w->parts;
        buffer->shape = ECH_NONE;
    }
    for (EchId i = 0; i <= s->n; i++) {
        while (w->loops->len > 0 && s->end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            ech_edit_close(&w->e, w->e.map[g_array_index(w->loops, EchId, w->loops->len - 1)]);
            g_array_set_size(w->loops, w->loops->len - 1);
        }
        if (i == s->n)
            break;
        put(w, i);
        if (s->ops[i].kind == ECH_OP_LOOP)
            g_array_append_val(w->loops, i);
    }
    ech_edit_loops(&w->e, s->n_buffers);
}

static void read_logits(const char *text, GArray *logits)
{
    g_auto(GStrv) each = g_strsplit(text, ",", -1);
    for (char **one = each; *one; one++) {
        char *end;
        Logits l = {.all = g_ascii_strtoull(*one, &end, 10)};
        l.classes = *end == '/' ? g_ascii_strtoull(end + 1, NULL, 10) : 0;
        if (l.classes > 0 && l.all > 0)
            g_array_append_val(logits, l);
    }
}

EchTrace *ech_batch_logits_in_parts(const EchSurvey *survey, const char *logits, uint64_t parts, EchDiag *diag, GError **error)
{
    const EchSurvey *s = survey;
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Logits)), loops = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree bool *is_wide = g_new0(bool, s->n_buffers + 1), *is_again = g_new0(bool, s->n + 1);
    g_autofree EchBytes *sum = g_new0(EchBytes, s->n + 1);
    Writer w = {.s = s, .logits = all, .loops = loops, .is_wide = is_wide, .is_again = is_again, .sum = sum, .parts = parts};
    read_logits(logits, all);
    find_wide(&w);
    if (w.n_wide == 0)
        return NULL;
    find_products(&w);
    for (EchId i = 0; i < s->n; i++) { /* what makes them again already does so for each part */
        const EchOp *o = &s->ops[i];
        for (uint32_t u = o->first_use; is_again[i] && u < o->first_use + o->n_uses; u++)
            if (s->uses[u].access == ECH_WRITE && is_wide[ech_survey_used(s, u)])
                is_again[i] = logits_of(&w, ech_survey_used(s, u))->n_made == 1;
    }
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    ech_edit_init(&w.e, s, builder);
    write_all(&w);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    g_autofree char *bytes = ech_format_bytes(w.wide), *summed = ech_format_bytes(w.summed);
    if (out)
        ech_diag_remark(diag,
                        "batch: the loss in %" G_GUINT64_FORMAT
                        " parts, one after the other: of %u arrays as large as its logits, %s, a part at a time; the product "
                        "that makes them runs again for the gradients of each; %s more for what those of the last weights add up to",
                        parts, w.n_wide, bytes, w.summed > 0 ? summed : "nothing");
    ech_edit_clear(&w.e);
    return out;
}
