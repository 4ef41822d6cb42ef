/* batch: a larger batch or a smaller one, or one that is taken in parts, one after the other, whose gradients are added up. What has rows (batch.h) has as many
 * times more, and so does what is done with it; what optimizers do is done once. */
#include "sim/pass/batch.h"

#include "models/kernel/gpu.h"
#include "sim/pass/pass.h"
#include "sim/trace/meets.h"
#include "sim/trace/ranges.h"
#include "sim/trace/step.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    double times;
    uint64_t rows, parts, what;
} Options;

enum { WHAT_BATCH, WHAT_LOSS };
static const char *const whats[] = {"batch", "loss", NULL};

static const EchParam params[] = {
    {"times", ECH_PARAM_RATIO, offsetof(Options, times), "1", "0.0009765625", "1024", NULL,
     "rows of a batch for each that there is: 0.5, 2; of a batch of one row, where it is less, so much of its length"},
    {"rows", ECH_PARAM_U64, offsetof(Options, rows), "0", NULL, "1048576", NULL, "rows of a batch, where it is known how many there are; 0: as times= has it"},
    {"parts", ECH_PARAM_U64, offsetof(Options, parts), "1", "1", "1024", NULL,
     "parts that a step takes its batch in, one after the other, adding their gradients up (gradient accumulation)"},
    {"what", ECH_PARAM_ENUM, offsetof(Options, what), "batch", NULL, NULL, whats,
     "batch: all of a step is done in parts; loss: its loss over classes alone, with the product before it, forward and backward; parts=1: in as many as "
     "LigerFusedLinearCrossEntropyLoss takes, of XLA's programs in eight"},
    {0},
};

/* Operations that a trace may come to have. */
#define MOST_OPS 8000000u
/* Parts of the loss of a program that XLA compiled, where nobody says how many. */
enum { PARTS_OF_LOGITS = 8 };

/* The forward and backward passes of a step: ops [first, last]. */
typedef struct {
    EchId first, last;
} Turn;

/* What happens behind an op of a turn. */
typedef struct {
    EchId op, buffer;
} Behind;

typedef struct {
    const EchBatch *b;
    double times;   /* Rows for each that there was... */
    uint64_t parts; /* ...in so many parts. */
    uint64_t part;  /* That is written; outside of turns, 0. */
    bool of_loss;   /* Turns are of the loss alone; what outlives them has all rows. */
    EchEdit e;
    GArray *turns;     /* Turn */
    GArray *last;      /* Behind: gradients, by the last op of their turn that uses them. */
    uint32_t *of_turn; /* Per buffer: 1 + the turn in which it is asked for; 0: none. */
    bool *stays;       /* Per buffer: it outlives that turn. */
    bool *is_kept;     /* Per buffer: backward passes of other turns write it, too: a bucket. */
    bool *syncs;       /* Per op: it sums gradients up over devices, or brings them to where that is done; of the last part alone (no_sync()). */
    bool *is_held;     /* Per buffer: a gradient of a turn, brought by such an op to where an optimizer reads it, and let go. */
    EchId *left;       /* Per op: of a FREE in a turn of what was there before, what the turn leaves in its place; else ECH_NONE. */
    bool *is_late;     /* Per op: of any other such FREE, the turn uses before that what goes: all parts do. */
    bool *is_replaced; /* Per buffer: it takes the place of such. */
    double *share;     /* Per buffer: bytes for each that there was. */
    EchId *now;        /* Per buffer: what stands for it in the part that is written. */
    EchId *before;     /* Per buffer: what stood for it in the part before, where that is still there; else ECH_NONE. */
    uint64_t n_arrays; /* That have rows. */
    EchBytes added;    /* Gradients that are added to others, of a part. */
    uint32_t spared;   /* Operators that the host need not begin, of what was not asked for yet. */
} Writer;

/* ---- turns ---- */

/* Of each turn, what it does for the loss, in as many parts as Liger has it where nobody says how many. */
static void keep_losses(Writer *w)
{
    guint n = 0;
    for (guint t = 0; t < w->turns->len; t++) {
        Turn turn = g_array_index(w->turns, Turn, t);
        if (ech_batch_find_loss(w->b, turn.first, turn.last, &turn.first, &turn.last))
            g_array_index(w->turns, Turn, n++) = turn;
    }
    g_array_set_size(w->turns, n);
    for (EchId i = n > 0 ? g_array_index(w->turns, Turn, 0).first : 0; n > 0 && w->parts == 1 && i <= g_array_index(w->turns, Turn, 0).last; i++)
        w->parts = MAX(ech_batch_liger_parts(w->b, i), 1);
}

/* Whether op @op works on rows that a step has of its own: what it writes of them is let go at some time. @goes_at: per buffer, or
 * ECH_NONE. */
static bool is_of_step(const EchBatch *b, EchId op, const EchId *goes_at)
{
    const EchOp *o = &b->s->ops[op];
    bool is = false;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId a = ech_survey_used(b->s, u);
        is |= b->s->uses[u].access == ECH_WRITE && b->has[a] && goes_at[a] != ECH_NONE;
    }
    return is;
}

/* The first op before @turn that asks for what goes in it, or for rows that go later, as far back as nothing is done to weights. */
static EchId asked_for_before(const EchBatch *b, const Turn *turn, const EchId *goes_at)
{
    const EchSurvey *s = b->s;
    EchId first = turn->first;
    for (EchId i = turn->first; i-- > 0;) {
        const EchOp *o = &s->ops[i];
        bool changes = b->part[i] != ECH_PART_ELSE;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            changes |= s->uses[u].access == ECH_WRITE && s->buffers[ech_survey_used(s, u)].role == ECH_ROLE_PARAMETER;
        if (changes)
            break;
        EchId goes = o->kind == ECH_OP_ALLOC ? goes_at[o->target] : ECH_NONE;
        if (goes != ECH_NONE && goes >= turn->first && (goes <= turn->last || b->has[o->target]))
            first = i;
    }
    return first;
}

/* The last op behind @last that lets go, before anything else works, or an optimizer's step begins. */
static EchId let_go_behind(const EchSurvey *s, EchId last)
{
    EchId end = last;
    for (EchId i = last + 1; i < s->n && !ech_op_is_work(&s->ops[i]) && s->ops[i].kind != ECH_OP_ALLOC; i++) {
        if (s->ops[i].kind == ECH_OP_MARK && ech_mark_is_optimizer(ech_trace_string(s->t, s->ops[i].name)))
            break;
        end = s->ops[i].kind == ECH_OP_FREE ? i : end;
    }
    return end;
}

/* From the first op on rows behind an optimizer's, or of all, to the last of the backward pass before the next one, and what is let go there. */
static void find_turns(Writer *w)
{
    const EchBatch *b = w->b;
    const EchSurvey *s = b->s;
    g_autofree EchId *goes_at = g_new(EchId, s->n_buffers + 1);
    for (EchId a = 0; a < s->n_buffers; a++)
        goes_at[a] = ECH_NONE;
    for (EchId i = 0; i < s->n; i++)
        if (s->ops[i].kind == ECH_OP_FREE)
            goes_at[s->ops[i].target] = i;
    Turn turn = {ECH_NONE, ECH_NONE};
    for (EchId i = 0; i <= s->n; i++) {
        bool over = i == s->n || b->part[i] == ECH_PART_OPTIMIZER;
        if (over && turn.first != ECH_NONE && turn.last != ECH_NONE) {
            turn.last = let_go_behind(s, turn.last);
            turn.first = asked_for_before(b, &turn, goes_at);
            g_array_append_val(w->turns, turn);
        }
        if (over)
            turn = (Turn){ECH_NONE, ECH_NONE};
        else if (turn.first == ECH_NONE && (b->part[i] == ECH_PART_FORWARD || (b->works[i] && is_of_step(b, i, goes_at))))
            turn.first = i;
        if (i < s->n && b->part[i] == ECH_PART_BACKWARD)
            turn.last = i;
    }
}

static gint compare_behind(gconstpointer x, gconstpointer y)
{
    const Behind *a = x, *b = y;
    return a->op != b->op ? (a->op < b->op ? -1 : 1) : (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

/* Whether an optimizer finds in @buffer a gradient that a turn makes. */
static bool is_gradient(const Writer *w, EchId buffer)
{
    return w->stays[buffer] && !w->is_kept[buffer] && w->b->is_weights[buffer];
}

/* What turn @t makes that outlives it, and of that gradients by the last op of the turn that uses them. @used: per buffer. */
static void find_stays(Writer *w, guint t, EchId *used)
{
    const EchSurvey *s = w->b->s;
    const Turn *turn = &g_array_index(w->turns, Turn, t);
    for (EchId i = turn->first; i <= turn->last; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_ALLOC) {
            w->of_turn[o->target] = t + 1;
            used[o->target] = i;
        }
        if (o->kind == ECH_OP_ALLOC || (o->kind == ECH_OP_FREE && w->of_turn[o->target] == t + 1))
            w->stays[o->target] = o->kind == ECH_OP_ALLOC;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            used[ech_survey_used(s, u)] = i;
    }
    for (EchId i = turn->first; i <= turn->last; i++) {
        EchId a = s->ops[i].target;
        if (s->ops[i].kind != ECH_OP_ALLOC || !is_gradient(w, a))
            continue;
        Behind behind = {used[a], a};
        g_array_append_val(w->last, behind);
    }
}

/* Of FREEs in turn @t which come behind a use in it. */
static void find_late(Writer *w, guint t)
{
    const EchSurvey *s = w->b->s;
    const Turn *turn = &g_array_index(w->turns, Turn, t);
    g_autoptr(GHashTable) used = g_hash_table_new(NULL, NULL);
    for (EchId i = turn->first; i <= turn->last; i++) {
        const EchOp *o = &s->ops[i];
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            g_hash_table_add(used, GUINT_TO_POINTER(ech_survey_used(s, u)));
        w->is_late[i] = o->kind == ECH_OP_FREE && g_hash_table_contains(used, GUINT_TO_POINTER(o->target));
    }
}

/* What is made in one turn and written in others is no gradient of that turn. */
static void find_kept(Writer *w)
{
    const EchSurvey *s = w->b->s;
    for (guint t = 0; t < w->turns->len; t++)
        for (EchId i = g_array_index(w->turns, Turn, t).first; i <= g_array_index(w->turns, Turn, t).last; i++)
            for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
                EchId a = ech_survey_used(s, u);
                w->is_kept[a] |= s->uses[u].access == ECH_WRITE && w->b->part[i] == ECH_PART_BACKWARD && w->of_turn[a] > 0 && w->of_turn[a] != t + 1;
            }
    guint n = 0;
    for (guint k = 0; k < w->last->len; k++)
        if (is_gradient(w, g_array_index(w->last, Behind, k).buffer))
            g_array_index(w->last, Behind, n++) = g_array_index(w->last, Behind, k);
    g_array_set_size(w->last, n);
}

/* Of what was there before turn @t and goes in it, what of its own takes the place: the next of as many bytes. */
static void find_places(Writer *w, guint t)
{
    const EchSurvey *s = w->b->s;
    const Turn *turn = &g_array_index(w->turns, Turn, t);
    g_autoptr(GHashTable) left = g_hash_table_new(NULL, NULL); /* bytes -> 1 + buffer */
    for (EchId i = turn->last + 1; i-- > turn->first;) {
        EchId a = s->ops[i].target;
        if (s->ops[i].kind == ECH_OP_ALLOC && w->stays[a] && w->b->has[a] && !is_gradient(w, a))
            g_hash_table_insert(left, GSIZE_TO_POINTER(s->buffers[a].bytes), GUINT_TO_POINTER(a + 1));
    }
    for (EchId i = turn->first; i <= turn->last; i++) {
        EchId a = s->ops[i].target;
        gpointer bytes = s->ops[i].kind == ECH_OP_FREE ? GSIZE_TO_POINTER(s->buffers[a].bytes) : NULL;
        EchId of = bytes && w->of_turn[a] != t + 1 && w->b->has[a] ? GPOINTER_TO_UINT(g_hash_table_lookup(left, bytes)) : 0;
        if (of == 0)
            continue;
        w->left[i] = of - 1;
        w->is_replaced[of - 1] = true;
        w->share[a] = w->share[of - 1];
        g_hash_table_remove(left, bytes);
    }
}

static void find_lives(Writer *w)
{
    const EchSurvey *s = w->b->s;
    double of_all = w->times, of_part = of_all / (double)w->parts;
    g_autofree EchId *used = g_new0(EchId, s->n_buffers + 1);
    for (guint t = 0; t < w->turns->len; t++) {
        find_stays(w, t, used);
        find_late(w, t);
    }
    find_kept(w);
    for (EchId a = 0; a < s->n_buffers; a++)
        w->share[a] = !w->b->has[a] || (w->of_loss && w->stays[a]) ? 1 : w->of_turn[a] > 0 ? of_part : of_all;
    for (guint t = 0; t < w->turns->len && !w->of_loss; t++)
        find_places(w, t);
    g_array_sort(w->last, compare_behind);
}

/* DistributedDataParallel's sums, its copies into buckets and back, and, where optimizers read buckets themselves, what is copied into those: without sums
 * (no_sync()) gradients stay where they are. */
static void find_syncs(Writer *w)
{
    const EchBatch *b = w->b;
    const EchSurvey *s = b->s;
    g_autofree bool *is_bucket = g_new0(bool, s->n_buffers + 1), *is_read = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            EchId a = ech_survey_used(s, u);
            bool sums = o->kind == ECH_OP_COLLECTIVE && o->collective == ECH_COLLECTIVE_ALL_REDUCE && b->is_weights[a];
            w->syncs[i] |= sums;
            is_bucket[a] |= sums && (s->buffers[a].resident || !is_gradient(w, a));
            is_read[a] |= b->part[i] == ECH_PART_OPTIMIZER;
        }
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        bool fills = false, brings = false;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            EchId a = ech_survey_used(s, u);
            brings |= is_bucket[a] && !is_read[a];
            fills |= is_bucket[a] && is_read[a] && b->part[i] == ECH_PART_BACKWARD && s->uses[u].access == ECH_WRITE && o->kind == ECH_OP_KERNEL;
        }
        w->syncs[i] |= (brings || fills) && ech_op_is_work(o);
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && fills; u++) {
            EchId a = ech_survey_used(s, u);
            w->is_held[a] |= s->uses[u].access == ECH_READ && !is_bucket[a] && w->of_turn[a] > 0 && !w->stays[a] && b->is_weights[a];
        }
    }
}

/* ---- writing ---- */

static void scale_buffers(Writer *w)
{
    const EchSurvey *s = w->b->s;
    for (EchId a = 0; a < s->n_buffers; a++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(w->e.builder, a);
        double share = w->share[ech_survey_root(s, a)];
        if (share == 1)
            continue;
        w->n_arrays += buffer->bytes > 0;
        buffer->bytes = ech_batch_scaled(buffer->bytes, share);
        buffer->dense = ech_batch_scaled(buffer->dense, share);
        if (buffer->alias_of != ECH_NONE) { /* which comes first */
            EchBytes whole = ech_trace_builder_peek_buffer(w->e.builder, buffer->alias_of)->bytes;
            buffer->alias_offset = MIN((uint64_t)((double)buffer->alias_offset * share), whole);
            buffer->bytes = MIN(buffer->bytes, whole - buffer->alias_offset);
        }
        buffer->offset = ECH_OFFSET_NONE;
        buffer->rounded = 0;
        buffer->shape = buffer->segment = ECH_NONE;
        buffer->address = ECH_OFFSET_NONE;
    }
}

/* Bytes of use @use now. A part of what has no rows, of a table's, is what rows pick of it. */
static EchBytes moved(const Writer *w, uint32_t use, bool product, double rows)
{
    const EchSurvey *s = w->b->s;
    EchId a = ech_survey_used(s, use);
    EchBytes bytes = s->uses[use].bytes, whole = s->buffers[a].bytes;
    if (w->b->has[a] || whole == 0) /* 0: it is not told what that is */
        return ech_batch_scaled(bytes, rows);
    return product || bytes >= whole ? bytes : MIN(ech_batch_scaled(bytes, rows), whole);
}

/* Operators that the host begins where a gradient becomes a weight's, detach() twice, and where it is added to one that is there, add_(), for the one of which
 * there is no detach() (PyTorch 2.11, by what it was asked in steps of one part and of two). */
enum { FOR_DETACHED = 3, FOR_ADDED = 1 };

/* @o, which had @operators begun for it, has those that are spared no more. */
static void begin_fewer(Writer *w, EchOp *o, uint32_t operators)
{
    uint32_t fewer = MIN(w->spared, operators);
    if (fewer > 0)
        ech_edit_operators(&w->e, o, operators - fewer);
    w->spared -= fewer;
}

/* Op @op as it is, on what stands for its arrays, with @times as many rows. */
static void put(Writer *w, EchId op, double times)
{
    const EchSurvey *s = w->b->s;
    const EchOp *was = &s->ops[op];
    EchOp o = ech_edit_op(&w->e, op);
    double rows = w->b->works[op] ? times : 1;
    bool memory = o.kind == ECH_OP_ALLOC || o.kind == ECH_OP_FREE, product = ech_survey_has_products(s, op);
    if (memory) {
        o.target = w->now[o.target];
        EchBytes bytes = ech_trace_builder_peek_buffer(w->e.builder, o.target)->bytes;
        o.bytes = bytes == s->buffers[was->target].bytes ? o.bytes : bytes;
    } else if (rows != 1) {
        g_autofree char *launch = ech_batch_launch(w->b, op, rows);
        o.launch = launch ? ech_trace_builder_string(w->e.builder, launch, -1) : o.launch;
        o.recorded = (EchRecorded){ECH_TIME_NONE, ECH_TIME_NONE};
        o.estimate = o.estimate == ECH_TIME_NONE ? ECH_TIME_NONE : (EchTime)ech_batch_scaled((uint64_t)o.estimate, rows);
        o.bytes = o.kind == ECH_OP_COPY || o.kind == ECH_OP_COLLECTIVE ? ech_batch_scaled(o.bytes, rows) : o.bytes;
    }
    if (w->parts > 1 && o.launch != ECH_NONE && *ech_meets_of(ech_trace_builder_peek_string(w->e.builder, o.launch))) {
        g_autofree char *launch = ech_meets_in_part(ech_trace_builder_peek_string(w->e.builder, o.launch), w->part, w->parts);
        o.launch = ech_trace_builder_string(w->e.builder, launch, -1);
    }
    begin_fewer(w, &o, ech_op_operators(s->t, was));
    w->e.map[op] = ech_trace_builder_op(w->e.builder, o);
    for (uint32_t u = was->first_use; u < was->first_use + was->n_uses; u++)
        ech_trace_builder_use(w->e.builder, w->now[s->uses[u].buffer], (EchAccess)s->uses[u].access, rows == 1 ? s->uses[u].bytes : moved(w, u, product, rows),
                              (EchPattern)s->uses[u].pattern, (EchOrigin)s->uses[u].origin);
    for (uint32_t u = was->first_use; w->of_loss && w->part > 0 && u < was->first_use + was->n_uses; u++) { /* products add to it what they make (addmm) */
        EchId a = ech_survey_used(s, u);
        if (!is_gradient(w, a) || s->uses[u].access != ECH_WRITE)
            continue;
        ech_trace_builder_use(w->e.builder, s->uses[u].buffer, ECH_READ, s->uses[u].bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
        w->added = ech_bytes_add(w->added, s->uses[u].bytes);
    }
    for (uint32_t d = was->first_dep; d < was->first_dep + was->n_deps; d++)
        ech_edit_dep(&w->e, &s->deps[d], 0);
    for (uint32_t k = was->first_work; k < was->first_work + was->n_work; k++) {
        const EchWork *work = &ech_trace_work(s->t)[k];
        ech_trace_builder_work(w->e.builder, (EchWorkUnit)work->unit, (EchDtype)work->dtype, rows == 1 ? work->count : ech_batch_scaled(work->count, rows),
                               (EchOrigin)work->origin);
    }
    if (o.queue == s->core)
        w->e.last_core = w->e.map[op];
}

static void let_go(Writer *w, EchId op, EchId buffer)
{
    EchOp o = ech_op_init(ECH_OP_FREE);
    o.target = buffer;
    o.bytes = ech_trace_builder_peek_buffer(w->e.builder, buffer)->bytes;
    o.bytes_origin = ECH_INFERRED;
    o.queue = w->b->s->ops[op].queue;
    (void)ech_trace_builder_op(w->e.builder, o);
    ech_trace_builder_dep(w->e.builder, w->e.map[op], 0);
}

/* A gradient that op @op was the last to use is added to that of the parts before (AccumulateGrad), and goes. */
static void add_up(Writer *w, EchId op, EchId gradient)
{
    static const char name[] = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<%s>, std::array<char*, 3ul>, false>(int, "
                               "at::native::CUDAFunctor_add<%s>, std::array<char*, 3ul>)";
    static const char stack[] = "aten::add_\ntorch::autograd::AccumulateGrad\n" ECH_RANGE_BACKWARD "torch::autograd::AccumulateGrad";
    EchTraceBuilder *builder = w->e.builder;
    EchBytes bytes = w->b->s->buffers[gradient].bytes;
    EchGpuLaunch like = {0};
    (void)ech_gpu_launch_parse(ech_trace_string(w->b->s->t, w->b->s->ops[op].launch), &like);
    unsigned element = like.operand_bytes == 2 ? 2 : 4, block = 128, of_thread = 8;
    const char *type = element == 2 ? "c10::BFloat16" : "float";
    uint64_t elements = bytes / element, blocks = (elements + block * of_thread - 1) / (block * of_thread);
    g_autofree char *called = g_strdup_printf(name, type, type),
                    *launch = g_strdup_printf("grid=%" G_GUINT64_FORMAT "x1x1 block=%ux1x1 elements=%" G_GUINT64_FORMAT " operand_bytes=%u", MAX(blocks, 1),
                                              block, MAX(elements, 1), element);
    EchOp o = ech_op_init(ECH_OP_KERNEL);
    o.name = ech_trace_builder_string(builder, called, -1);
    o.launch = ech_trace_builder_string(builder, launch, -1);
    o.stack = ech_trace_builder_string(builder, stack, -1);
    o.queue = w->b->s->core;
    w->e.last_core = ech_trace_builder_op(builder, o);
    EchId made = w->now[gradient];
    ech_trace_builder_use(builder, gradient, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(builder, made, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(builder, gradient, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_work(builder, ECH_WORK_VECTOR, element == 2 ? ECH_DTYPE_BF16 : ECH_DTYPE_F32, elements, ECH_INFERRED);
    EchId was = w->e.map[op];
    w->e.map[op] = w->e.last_core;
    let_go(w, op, made);
    w->e.map[op] = was;
    w->added = ech_bytes_add(w->added, bytes);
    w->spared += FOR_DETACHED - FOR_ADDED;
}

/* Op @i of the turn @t in part w->part. */
static void put_part(Writer *w, EchId i, guint t)
{
    const EchSurvey *s = w->b->s;
    const EchOp *o = &s->ops[i];
    double times = w->times / (double)w->parts;
    uint64_t part = w->part;
    EchId a = o->target;
    bool asks = o->kind == ECH_OP_ALLOC, frees = o->kind == ECH_OP_FREE, own = (asks || frees) && w->of_turn[a] == t + 1;
    bool is_last = part + 1 == w->parts;
    for (uint32_t u = o->first_use; part > 0 && w->syncs[i] && u < o->first_use + o->n_uses; u++) {
        EchId b = ech_survey_used(s, u);
        if (!w->is_held[b] || w->now[b] == b)
            continue;
        add_up(w, i, b);
        w->now[b] = b;
    }
    if (!is_last && (w->syncs[i] || (frees && w->is_held[a]))) {
        w->e.map[i] = w->e.last_core;
        return;
    }
    if (part > 0 && o->kind == ECH_OP_MARK)
        return;
    if (part > 0 && asks) {
        if (w->stays[a] && (w->of_loss || (!w->b->has[a] && !is_gradient(w, a)))) /* a library's workspace: it is there from now on */
            return;
        EchBuffer again = *ech_trace_builder_peek_buffer(w->e.builder, a);
        again.address = ECH_OFFSET_NONE;
        again.segment = ECH_NONE;
        w->before[a] = w->stays[a] && !is_gradient(w, a) && !w->is_replaced[a] ? w->now[a] : ECH_NONE;
        w->now[a] = ech_trace_builder_buffer(w->e.builder, again);
    }
    if (frees && !own && w->left[i] == ECH_NONE && !(w->is_late[i] ? is_last : part == 0)) { /* what was there before goes once */
        w->e.map[i] = w->e.last_core;
        return;
    }
    put(w, i, times);
    for (uint32_t u = o->first_use; part > 0 && u < o->first_use + o->n_uses; u++) {
        EchId b = ech_survey_used(s, u);
        if (w->before[b] == ECH_NONE)
            continue;
        let_go(w, i, w->before[b]);
        w->before[b] = ECH_NONE;
    }
}

static void put_turn(Writer *w, guint t, guint *next)
{
    const Turn *turn = &g_array_index(w->turns, Turn, t);
    guint begin = *next;
    for (w->part = 0; w->part < w->parts; w->part++) {
        *next = begin;
        for (EchId i = turn->first; i <= turn->last && w->part > 0; i++) /* what the part before left stands for what was there before it */
            if (w->left[i] != ECH_NONE)
                w->now[w->b->s->ops[i].target] = w->now[w->left[i]];
        for (EchId i = turn->first; i <= turn->last; i++) {
            put_part(w, i, t);
            for (; *next < w->last->len && g_array_index(w->last, Behind, *next).op == i; (*next)++)
                if (w->part > 0 && !w->of_loss)
                    add_up(w, i, g_array_index(w->last, Behind, *next).buffer);
        }
        for (guint k = begin; k < *next; k++) { /* optimizers read the sums */
            EchId gradient = g_array_index(w->last, Behind, k).buffer;
            w->now[gradient] = gradient;
        }
    }
    w->part = 0;
}

static void write_ops(Writer *w)
{
    guint turn = 0, next = 0;
    for (EchId i = 0; i < w->b->s->n; i++) {
        if (turn < w->turns->len && g_array_index(w->turns, Turn, turn).first == i) {
            put_turn(w, turn, &next);
            i = g_array_index(w->turns, Turn, turn++).last;
        } else
            put(w, i, w->times);
    }
}

/* ---- the pass ---- */

static bool steps_in_backward(const EchTrace *trace)
{
    bool steps = false;
    for (size_t i = 0; i < ech_trace_n_strings(trace) && !steps; i++)
        steps = ech_stack_steps_in_backward(ech_trace_string(trace, (EchId)i));
    return steps;
}

/* Why the trace stays as it is; NULL: it changes. */
static char *why_not(const Writer *w, bool any)
{
    const EchSurvey *s = w->b->s;
    uint64_t rows = w->b->rows;
    double now = (double)rows * w->times / (double)w->parts;
    bool has_views = false;
    if (w->of_loss && ech_trace_get_property(s->t, "program"))
        return g_strdup("no logits of a loss over classes lie in hbm");
    g_autofree bool *is_asked_for = g_new0(bool, s->n_buffers + 1);
    bool twice = false;
    for (EchId a = 0; a < s->n_buffers; a++)
        has_views |= s->buffers[a].alias_of != ECH_NONE && w->of_turn[ech_survey_root(s, a)] > 0;
    for (EchId i = 0; i < s->n; i++) {
        EchId a = s->ops[i].kind == ECH_OP_ALLOC ? s->ops[i].target : ECH_NONE;
        twice |= a != ECH_NONE && is_asked_for[a];
        if (a != ECH_NONE)
            is_asked_for[a] = true;
    }
    if (!any)
        return g_strdup("it does not tell what its modules are given; one of PyTorch's that is captured anew by 'echelon capture --pretend' does");
    if (ech_trace_has_op(s->t, ECH_OP_LOOP))
        return g_strdup("it has loops, as no program has that runs as it is written");
    if (w->of_loss && w->turns->len == 0)
        return g_strdup("it has no loss over classes of rows, whose gradients follow it, or does that in parts already");
    if (w->parts > 1 && w->turns->len == 0)
        return g_strdup("it has no backward pass, whose gradients parts would add up");
    if (w->parts > 1 && !w->of_loss && w->b->is_graph)
        return g_strdup("its rows are nodes of one graph, and parts of it would lack one another's");
    if (w->times != 1 && w->b->is_dense)
        return g_strdup("its rows are nodes of one graph, whose edges are an array of all by all: capture it with fewer");
    if (!w->of_loss && (w->parts > 1 || w->times != 1) && w->b->of_pairs)
        return g_strdup("all of its rows are compared with all, and fewer, or parts of them, have another loss");
    if (w->parts > 1 && steps_in_backward(s->t))
        return g_strdup("its optimizers step within the backward pass, each as its gradient is there, and leave parts none to add up");
    if (w->parts > 1 && (has_views || twice))
        return g_strdup(has_views ? "parts of what a step makes go by other names" : "it asks for an array more than once");
    uint64_t in_turns = 0;
    for (guint t = 0; t < w->turns->len; t++)
        in_turns += g_array_index(w->turns, Turn, t).last - g_array_index(w->turns, Turn, t).first + 1;
    if (w->parts > MOST_OPS / MAX(in_turns, 1))
        return g_strdup_printf("in so many parts it would have more than %u million operations", MOST_OPS / 1000000u);
    if (w->times == 0)
        return g_strdup("how many rows its batch has is not known; times=2 makes it twice as large");
    if (w->of_loss && w->times != 1)
        return g_strdup("a loss in parts is one of the batch that there is");
    bool of_one = rows == 1 && w->parts == 1 && w->times < 1;                                   /* that row has fewer tokens, or pixels */
    if (rows > 0 && !w->of_loss && !of_one && (now < 1 || fabs(now - round(now)) > now * 1e-9)) /* rows= is a ratio by now */
        return g_strdup_printf("its batch of %" G_GUINT64_FORMAT " would be %g", rows, now);
    if (w->of_loss && w->parts == 1)
        return g_strdup("its loss is of few classes");
    if (w->times == 1 && w->parts == 1)
        return rows > 0 ? g_strdup_printf("its batch is %" G_GUINT64_FORMAT " already; rows=, times= or parts= asks for another", rows)
                        : g_strdup("its batch is that already; times= or parts= asks for another");
    return NULL;
}

static void say(const Writer *w, EchDiag *diag)
{
    double rows = (double)w->b->rows * w->times;
    g_autofree char *added = ech_format_bytes(w->added),
                    *batch = rows > 0 ? g_strdup_printf("%g for %" G_GUINT64_FORMAT, rows, w->b->rows) : g_strdup_printf("%g of what it was", w->times),
                    *each = rows > 0 ? g_strdup_printf(", %g each", rows / (double)w->parts) : NULL;
    if (w->times != 1)
        ech_diag_remark(diag, "batch: a batch of %s: %" G_GUINT64_FORMAT " arrays have rows of it", batch, w->n_arrays);
    if (w->of_loss)
        ech_diag_remark(diag, "batch: the loss in %" G_GUINT64_FORMAT " parts, one after the other, each with its gradients: products add to %s of those",
                        w->parts, added);
    else if (w->parts > 1)
        ech_diag_remark(diag,
                        "batch: in %" G_GUINT64_FORMAT
                        " parts%s, one after the other, whose gradients are added up: %s in all; what is a mean over a batch is one over a part",
                        w->parts, each ? each : "", added);
}

static EchTrace *batch_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    const Options *o = options;
    g_auto(EchSurvey) s = {0};
    g_auto(EchBatch) b = {0};
    if (!ech_survey_init(&s, in, device)) {
        ech_diag_remark(diag, "batch: left the trace as it is: it has no computing queue, or no memory \"hbm\"");
        return ech_trace_ref(in);
    }
    const char *logits = o->what == WHAT_LOSS && o->times == 1 && o->rows == 0 ? ech_trace_get_property(in, ECH_TRACE_LOGITS) : NULL;
    if (logits) {
        GError *failed = NULL;
        EchTrace *out = ech_batch_logits_in_parts(&s, logits, o->parts == 1 ? PARTS_OF_LOGITS : o->parts, diag, &failed);
        if (failed)
            g_propagate_error(error, failed);
        if (out || failed)
            return out;
    }
    bool any = ech_batch_init(&b, &s);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s.t));
    g_autoptr(GArray) turns = g_array_new(FALSE, FALSE, sizeof(Turn)), last = g_array_new(FALSE, FALSE, sizeof(Behind));
    g_autofree uint32_t *of_turn = g_new0(uint32_t, s.n_buffers + 1);
    g_autofree bool *stays = g_new0(bool, s.n_buffers + 1), *is_replaced = g_new0(bool, s.n_buffers + 1), *is_late = g_new0(bool, s.n + 1),
                    *is_held = g_new0(bool, s.n_buffers + 1), *is_kept = g_new0(bool, s.n_buffers + 1), *syncs = g_new0(bool, s.n + 1);
    g_autofree double *share = g_new0(double, s.n_buffers + 1);
    g_autofree EchId *left = g_new(EchId, s.n + 1), *now = g_new(EchId, s.n_buffers + 1), *before = g_new(EchId, s.n_buffers + 1);
    for (size_t i = 0; i <= s.n; i++)
        left[i] = ECH_NONE;
    for (EchId a = 0; a <= s.n_buffers; a++) {
        now[a] = a;
        before[a] = ECH_NONE;
    }
    Writer w = {.b = &b,
                .times = o->rows == 0 ? o->times
                         : b.rows > 0 ? (double)o->rows / (double)b.rows
                                      : 0,
                .parts = o->parts,
                .of_loss = o->what == WHAT_LOSS,
                .turns = turns,
                .last = last,
                .of_turn = of_turn,
                .stays = stays,
                .syncs = syncs,
                .is_held = is_held,
                .is_kept = is_kept,
                .left = left,
                .is_replaced = is_replaced,
                .is_late = is_late,
                .share = share,
                .now = now,
                .before = before};
    find_turns(&w);
    if (w.of_loss)
        keep_losses(&w);
    find_lives(&w);
    if (!w.of_loss)
        find_syncs(&w);
    g_autofree char *why = why_not(&w, any);
    if (why) {
        ech_diag_remark(diag, "batch: left the trace as it is: %s", why);
        return ech_trace_ref(in);
    }
    ech_edit_init(&w.e, &s, builder);
    scale_buffers(&w);
    write_ops(&w);
    if (b.rows > 0)
        ech_trace_builder_printf_property(builder, ECH_TRACE_BATCH, "%.0f", MAX((double)b.rows * w.times / (double)(w.of_loss ? 1 : w.parts), 1));
    EchTrace *out = ech_trace_builder_finish(builder, error);
    if (out)
        say(&w, diag);
    ech_edit_clear(&w.e);
    return out;
}

const EchPassClass ech_pass_batch = {
    .name = "batch",
    .summary = "a larger or smaller batch, or one taken in parts whose gradients are added up (of PyTorch's programs; of XLA's the loss)",
    .source = "ours; rows by what modules are given; PyTorch's AccumulateGrad; Liger's parts of a loss",
    .params = params,
    .options_size = sizeof(Options),
    .of_tensors = true,
    .trace = batch_run,
};
