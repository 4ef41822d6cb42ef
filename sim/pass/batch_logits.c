/* The loss over classes of a program that XLA compiled, some rows at a time: jax.lax.scan over parts of the rows, its body the last product and the loss under
 * jax.checkpoint. Of each array as large as the logits a part is there at a time, the product that makes them runs again for each part's gradients, and what a
 * gradient of the last weights adds up over parts is read and written for each, and is there from the first part's gradients on. */
#include "models/layout/layout.h"
#include "sim/pass/batch.h"

#include <string.h>

typedef struct {
    const EchSurvey *s;
    EchEdit e;
    GArray *logits; /* Logits */
    GArray *sums;   /* Sum */
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
    guint n_made;    /* Kernels that make them of what is no such array. */
    EchId weights;   /* Those that they are made with, as the product has them. */
    EchId gradients; /* The first product that reads such an array, once it was seen. */
} Logits;

/* What a gradient of the last weights adds up over parts. */
typedef struct {
    EchBytes bytes;
    EchId product; /* The op that makes it. */
    EchId begin;   /* That of the first of the parts' gradients: from there on it is there; ECH_NONE: where the gradient is, which is there as early. */
    EchId end;     /* Where memory for the gradient is asked for; ECH_NONE: an optimizer makes something of it in the same kernel. */
    EchId buffer;  /* Once it was asked for. */
} Sum;

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
static Logits *find_logits(const EchSurvey *s, const GArray *logits, EchId buffer)
{
    EchLayout layout;
    if (!layout_of(s, buffer, &layout))
        return NULL;
    for (guint i = 0; i < logits->len; i++) {
        Logits *l = &g_array_index(logits, Logits, i);
        bool has_rows = false;
        for (unsigned d = 0; d < layout.rank; d++)
            has_rows |= (uint64_t)layout.dims[d] == l->classes;
        if (has_rows && ech_layout_elements(&layout) == l->all)
            return l;
    }
    return NULL;
}

static Logits *logits_of(const Writer *w, EchId buffer)
{
    return find_logits(w->s, w->logits, buffer);
}

/* What is known of the loss whose arrays these are: of all rows, where some of its arrays have some of them. */
static Logits *loss_of(const Writer *w, Logits *logits)
{
    Logits *loss = logits;
    for (guint i = 0; logits && i < w->logits->len; i++) {
        Logits *l = &g_array_index(w->logits, Logits, i);
        loss = l->classes == logits->classes && l->all > loss->all ? l : loss;
    }
    return loss;
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

/* The weights that a kernel makes logits with: of two arrays that it reads, x elements for each row and for each class. ECH_NONE: not told. */
static EchId weights_of(const Writer *w, const EchOp *o, const Logits *logits)
{
    const EchSurvey *s = w->s;
    const uint64_t rows = logits->all / logits->classes;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        uint64_t weights = s->uses[u].access == ECH_READ ? elements_of(s, s->uses[u].buffer) : 0;
        for (uint32_t k = o->first_use; weights > 0 && weights % logits->classes == 0 && k < o->first_use + o->n_uses; k++)
            if (k != u && s->uses[k].access == ECH_READ && elements_of(s, s->uses[k].buffer) == weights / logits->classes * rows)
                return s->uses[u].buffer;
    }
    return ECH_NONE;
}

/* What kernel @op, which multiplies, does with logits. */
static void look_at(Writer *w, EchId op)
{
    const EchSurvey *s = w->s;
    const EchOp *o = &s->ops[op];
    Logits *reads = NULL, *makes = NULL;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId a = ech_survey_used(s, u);
        if (w->is_wide[a])
            *(s->uses[u].access == ECH_READ ? &reads : &makes) = loss_of(w, logits_of(w, a));
    }
    if (makes && !reads) {
        makes->n_made++;
        w->is_again[op] = true;
        EchId weights = weights_of(w, o, makes);
        if (weights != ECH_NONE && (makes->weights == ECH_NONE || s->buffers[weights].bytes > s->buffers[makes->weights].bytes))
            makes->weights = weights;
    }
    if (!reads || reads->weights == ECH_NONE)
        return;
    reads->gradients = reads->gradients == ECH_NONE ? op : reads->gradients;
    unsigned wanted = 0; /* arrays of the weights' gradient */
    EchId gradient = ECH_NONE;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        if (s->uses[u].access == ECH_WRITE && elements_of(s, s->uses[u].buffer) == elements_of(s, reads->weights)) {
            gradient = ech_survey_used(s, u);
            wanted++;
        }
    if (wanted == 0)
        return;
    Sum sum = {.bytes = s->buffers[reads->weights].bytes,
               .product = op,
               .begin = s->region[reads->gradients] == s->region[op] ? reads->gradients : op,
               .end = ECH_NONE};
    if (wanted == 1) {
        for (EchId i = sum.begin + 1; i < op; i++)
            sum.end = s->ops[i].kind == ECH_OP_ALLOC && s->ops[i].target == gradient && s->region[i] == s->region[op] ? i : sum.end;
        sum.begin = sum.end == ECH_NONE ? ECH_NONE : sum.begin;
    }
    g_array_append_val(w->sums, sum);
}

static void find_products(Writer *w)
{
    for (EchId i = 0; i < w->s->n; i++)
        if (w->s->ops[i].kind == ECH_OP_KERNEL && ech_survey_has_products(w->s, i))
            look_at(w, i);
}

static void begin_sum(Writer *w, Sum *sum)
{
    const EchOp *o = &w->s->ops[sum->product];
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_edit_text(&w->e, o->name);
    buffer.stack = ech_edit_text(&w->e, o->stack);
    buffer.memory = w->s->hbm;
    buffer.role = ECH_ROLE_TEMPORARY;
    buffer.bytes = sum->bytes;
    buffer.loop = w->loops->len > 0 ? w->e.map[g_array_index(w->loops, EchId, w->loops->len - 1)] : ECH_NONE;
    sum->buffer = ech_trace_builder_buffer(w->e.builder, buffer);
    (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, sum->buffer);
    w->summed = ech_bytes_add(w->summed, buffer.bytes);
}

/* Each part's gradient of the weights is added to what there is. */
static void add_up(Writer *w, const Sum *sum)
{
    EchOp *made = ech_trace_builder_peek_op(w->e.builder, w->e.map[sum->product]);
    EchBytes moved = ech_bytes_mul(sum->bytes, 2 * (w->parts - 1));
    if (made->estimate != ECH_TIME_NONE)
        made->estimate = ech_time_add(made->estimate, ech_survey_hbm_time(w->s, moved));
}

static void put(Writer *w, EchId op)
{
    const EchOp *o = &w->s->ops[op];
    for (guint i = 0; i < w->sums->len; i++) {
        Sum *sum = &g_array_index(w->sums, Sum, i);
        if (sum->begin == op)
            begin_sum(w, sum);
        if (sum->end == op)
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, sum->buffer);
    }
    ech_edit_keep(&w->e, op);
    for (guint i = 0; i < w->sums->len; i++) {
        const Sum *sum = &g_array_index(w->sums, Sum, i);
        if (sum->product == op)
            add_up(w, sum);
        if (sum->product == op && sum->begin != ECH_NONE && sum->end == ECH_NONE)
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, sum->buffer);
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
        Logits l = {.all = g_ascii_strtoull(*one, &end, 10), .weights = ECH_NONE, .gradients = ECH_NONE};
        l.classes = *end == '/' ? g_ascii_strtoull(end + 1, NULL, 10) : 0;
        if (l.classes > 0 && l.all > 0)
            g_array_append_val(logits, l);
    }
}

bool *ech_batch_logits(const EchSurvey *survey, const char *logits)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Logits));
    bool *ret = g_new0(bool, survey->n_buffers + 1);
    if (logits != NULL)
        read_logits(logits, all);
    for (EchId b = 0; all->len > 0 && b < survey->n_buffers; b++)
        ret[b] = find_logits(survey, all, b) != NULL;
    return ret;
}

EchTrace *ech_batch_logits_in_parts(const EchSurvey *survey, const char *logits, uint64_t parts, EchDiag *diag, GError **error)
{
    const EchSurvey *s = survey;
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Logits)), loops = g_array_new(FALSE, FALSE, sizeof(EchId)),
                      sums = g_array_new(FALSE, FALSE, sizeof(Sum));
    g_autofree bool *is_wide = g_new0(bool, s->n_buffers + 1), *is_again = g_new0(bool, s->n + 1);
    Writer w = {.s = s, .logits = all, .sums = sums, .loops = loops, .is_wide = is_wide, .is_again = is_again, .parts = parts};
    read_logits(logits, all);
    find_wide(&w);
    if (w.n_wide == 0)
        return NULL;
    find_products(&w);
    for (EchId i = 0; i < s->n; i++) { /* what makes them again already does so for each part */
        const EchOp *o = &s->ops[i];
        for (uint32_t u = o->first_use; is_again[i] && u < o->first_use + o->n_uses; u++)
            if (s->uses[u].access == ECH_WRITE && is_wide[ech_survey_used(s, u)])
                is_again[i] = loss_of(&w, logits_of(&w, ech_survey_used(s, u)))->n_made == 1;
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
