#include "models/kernel/gpu.h"
#include "sim/pass/batch.h"
#include "sim/trace/ranges.h"

#include <string.h>

/* Bytes up to which an array is no array but a loss, a counter, a seed. */
enum { SMALL = 512 };
/* Times that all is looked at; arrays of an op that are compared with one another, kernels of one operator. */
enum { MAX_ROUNDS = 8, MAX_ARRAYS = 64, MAX_KERNELS = 64 };

/* ---- weights, and what gradients are made of ---- */

static bool is_cast(const EchSurvey *s, EchId op)
{
    return strstr(ech_trace_string(s->t, s->ops[op].stack), "_to_copy") != NULL || strstr(ech_trace_string(s->t, s->ops[op].name), "_to_copy") != NULL;
}

/* Whether op @op moves gradients and no more: as they were, in another type, summed up over devices, or added to as much. */
static bool moves(const EchBatch *b, EchId op)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[op];
    EchBytes read = 0, written = 0, largest = 0;
    bool only = true;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchBytes bytes = s->buffers[ech_survey_used(s, u)].bytes <= SMALL ? 0 : s->uses[u].bytes;
        bool reads = s->uses[u].access == ECH_READ;
        read = ech_bytes_add(read, reads ? bytes : 0);
        written = ech_bytes_add(written, reads ? 0 : bytes);
        largest = MAX(largest, reads ? bytes : 0);
        only &= reads || bytes == 0 || b->is_weights[ech_survey_used(s, u)];
    }
    bool as_much = read == written || largest == written || (is_cast(s, op) && (read == 2 * written || 2 * read == written));
    return only && (o->kind == ECH_OP_COLLECTIVE || (written > 0 && as_much && !ech_survey_has_products(s, op)));
}

static void find_weights(EchBatch *b)
{
    const EchSurvey *s = b->s;
    g_autofree bool *is_read = g_new0(bool, s->n_buffers + 1), *is_left = g_new0(bool, s->n_buffers + 1); /* by an optimizer; by a backward pass */
    bool trains = false;
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            is_read[ech_survey_used(s, u)] |= b->part[i] == ECH_PART_OPTIMIZER && s->uses[u].access == ECH_READ;
            is_left[ech_survey_used(s, u)] |= b->part[i] == ECH_PART_BACKWARD && s->uses[u].access == ECH_WRITE;
            trains |= b->part[i] == ECH_PART_BACKWARD;
        }
    for (EchId a = 0; a < s->n_buffers; a++) {
        EchRole role = (EchRole)s->buffers[a].role;
        bool kept = s->buffers[a].resident && s->buffers[a].bytes > 0 && role != ECH_ROLE_INPUT && trains && is_left[a]; /* buckets of gradients */
        b->is_weights[a] = role == ECH_ROLE_PARAMETER || role == ECH_ROLE_GRADIENT || role == ECH_ROLE_OPTIMIZER || (is_read[a] && is_left[a]) || kept;
    }
    for (EchId i = (EchId)s->n; i-- > 0;) { /* what gradients are made of alone */
        const EchOp *o = &s->ops[i];
        bool makes = false;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && b->part[i] == ECH_PART_BACKWARD; u++)
            makes |= s->uses[u].access == ECH_WRITE && b->is_weights[ech_survey_used(s, u)] && s->buffers[ech_survey_used(s, u)].role != ECH_ROLE_PARAMETER;
        if (!makes || !moves(b, i))
            continue;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
            if (s->uses[u].access == ECH_READ && s->buffers[ech_survey_used(s, u)].role != ECH_ROLE_INPUT &&
                s->uses[u].bytes == s->buffers[ech_survey_used(s, u)].bytes)
                b->is_weights[ech_survey_used(s, u)] = true; /* not a library's workspace */
    }
}

/* ---- rows ---- */

static bool is_in_module(const EchSurvey *s, EchId op)
{
    return ech_stack_has_module(ech_trace_string(s->t, s->ops[op].stack));
}

/* Whether op @i of a backward pass leaves a gradient of weights, by how it is computed where nothing says who reads it: a product of what has rows on both
 * sides sums over them, and a table's gradient is cleared before rows are added to it. */
static bool leaves_gradient(const EchBatch *b, EchId i)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[i];
    EchGpuLaunch gpu;
    unsigned rows = 0, others = 0, parts = 0;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        bool reads = s->uses[u].access == ECH_READ && s->buffers[ech_survey_used(s, u)].bytes > SMALL;
        rows += reads && b->has[ech_survey_used(s, u)];
        others += reads && !b->has[ech_survey_used(s, u)];
        parts += s->uses[u].access == ECH_WRITE && s->uses[u].bytes < s->buffers[ech_survey_used(s, u)].bytes;
    }
    bool product = ech_survey_has_products(s, i) && ech_gpu_launch_parse(ech_trace_string(s->t, o->launch), &gpu) && gpu.m > 0 && gpu.batch == 1;
    bool clears = rows + others + parts == 0 && strstr(ech_trace_string(s->t, o->stack), "embedding_dense_backward") != NULL;
    return b->part[i] == ECH_PART_BACKWARD && ((product && rows >= 2 && others == 0) || clears);
}

/* Whether op @i repeats for each row what has none, a mask, say: it writes as many times more, or reads fewer bytes than it has elements, as many times. */
static bool repeats(const EchBatch *b, EchId i)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[i];
    EchBytes read = 0, written = 0;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        bool weights = b->is_weights[ech_survey_used(s, u)], reads = s->uses[u].access == ECH_READ;
        if (s->buffers[ech_survey_used(s, u)].bytes > SMALL && (weights || (reads ? read : written) > 0))
            return false;
        *(reads ? &read : &written) += s->buffers[ech_survey_used(s, u)].bytes > SMALL ? s->buffers[ech_survey_used(s, u)].bytes : 0;
    }
    EchGpuLaunch gpu;
    bool known = ech_gpu_launch_parse(ech_trace_string(s->t, o->launch), &gpu) && gpu.elements > 0;
    uint64_t all = b->rows > 1 && read > 0 && read <= UINT64_MAX / b->rows ? read * b->rows : 0; /* for each of its elements, where they are repeated */
    bool other_type = known && read < gpu.elements && (all == gpu.elements || all == 2 * gpu.elements || all == 4 * gpu.elements || all == 8 * gpu.elements);
    return all > 0 && written > read && ((all == written && !is_cast(s, i)) || other_type);
}

/* Whether what use @use of op @i reads has rows beside what the op reads of them: labels outside of modules, and what was made of nothing as large. */
static bool goes_along(const EchBatch *b, EchId i, uint32_t use, const bool *is_made)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[i];
    const EchBuffer *buffer = &s->buffers[ech_survey_used(s, use)];
    bool alike = false, may = o->n_uses <= MAX_ARRAYS && !is_made[ech_survey_used(s, use)] && !ech_survey_has_products(s, i);
    for (uint32_t u = o->first_use; may && u < o->first_use + o->n_uses; u++)
        alike |= b->has[ech_survey_used(s, u)] && s->buffers[ech_survey_used(s, u)].bytes == buffer->bytes;
    return s->uses[use].access == ECH_READ && (alike || (buffer->resident && buffer->role == ECH_ROLE_UNKNOWN && !is_in_module(s, i)));
}

/* What op @i makes of what has rows, or of nothing for modules: whether it has any is settled, which then is news. @is_made: per buffer, of what there was. */
static bool follow(EchBatch *b, EchId i, bool *is_made)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[i];
    bool any = false, reads = false, news = false;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        bool of_device = s->uses[u].access == ECH_READ && !ech_survey_is_host(s, s->buffers[ech_survey_used(s, u)].memory);
        any |= s->uses[u].access == ECH_READ && b->has[ech_survey_used(s, u)];
        reads |= of_device && s->buffers[ech_survey_used(s, u)].bytes > SMALL;
    }
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        is_made[ech_survey_used(s, u)] |= reads && s->uses[u].access == ECH_WRITE;
    any |= repeats(b, i);
    bool gradient = leaves_gradient(b, i);
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && gradient; u++)
        b->is_weights[ech_survey_used(s, u)] |= s->uses[u].access == ECH_WRITE && !b->has[ech_survey_used(s, u)] && s->buffers[ech_survey_used(s, u)].bytes > 0;
    if (!any && (reads || b->part[i] == ECH_PART_BACKWARD || is_in_module(s, i)))
        return false;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        const EchBuffer *buffer = &s->buffers[ech_survey_used(s, u)];
        bool may = !b->is_weights[ech_survey_used(s, u)] && buffer->bytes > SMALL && !buffer->direct;
        bool has = may && (s->uses[u].access == ECH_WRITE || (any && goes_along(b, i, u, is_made)));
        news |= has && !b->has[ech_survey_used(s, u)];
        b->has[ech_survey_used(s, u)] |= has;
    }
    return news;
}

/* A library's workspace of a convolution, of which no op says that it uses it, has rows where the operator has. */
static void find_workspaces(EchBatch *b)
{
    const EchSurvey *s = b->s;
    g_autofree bool *is_used = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++)
            is_used[ech_survey_used(s, u)] = true;
    g_autoptr(GArray) asked = g_array_new(FALSE, FALSE, sizeof(EchId)); /* unused buffers since the last op that works */
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_ALLOC && !is_used[o->target])
            g_array_append_val(asked, o->target);
        if (!ech_op_is_work(o))
            continue;
        for (guint k = 0; k < asked->len; k++)
            b->has[g_array_index(asked, EchId, k)] |= b->works[i] && strstr(ech_trace_string(s->t, o->stack), "onvolution") != NULL;
        g_array_set_size(asked, 0);
    }
}

/* What is let go while modules run and was there before: what the step before this made as one that this one makes and leaves. */
static bool find_left(EchBatch *b)
{
    const EchSurvey *s = b->s;
    g_autoptr(GHashTable) left = g_hash_table_new(NULL, NULL); /* bytes of what is left */
    g_autofree bool *is_left = g_new0(bool, s->n_buffers + 1);
    bool news = false;
    for (EchId i = 0; i < s->n; i++)
        if (s->ops[i].kind == ECH_OP_ALLOC || s->ops[i].kind == ECH_OP_FREE)
            is_left[s->ops[i].target] = s->ops[i].kind == ECH_OP_ALLOC;
    for (EchId a = 0; a < s->n_buffers; a++)
        if (is_left[a] && b->has[a])
            g_hash_table_add(left, GSIZE_TO_POINTER(s->buffers[a].bytes));
    for (EchId i = 0; i < s->n; i++) {
        EchId a = s->ops[i].target;
        if (s->ops[i].kind != ECH_OP_FREE || !s->buffers[a].resident || b->is_weights[a] || b->has[a] ||
            !g_hash_table_contains(left, GSIZE_TO_POINTER(s->buffers[a].bytes)))
            continue;
        b->has[a] = news = true;
    }
    return news;
}

/* Kernels of one operator, one behind the other. */
typedef struct {
    EchId stack;
    EchId first, end; /* ops */
    unsigned n;
    bool rows; /* one of them uses rows */
} Call;

/* A kernel of which it is not told what it uses (a library's, in its workspace) works on rows where the other kernels of its operator do, but not where what it
 * moves is as much as weights that those use. */
static void follow_call(const EchBatch *b, const Call *call)
{
    const EchSurvey *s = b->s;
    for (EchId i = call->first; i < call->end && call->rows; i++) {
        const EchOp *o = &s->ops[i];
        EchBytes read = 0;
        bool told = !ech_op_is_work(o) || o->n_uses == 0, of_weights = false;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            told |= s->buffers[ech_survey_used(s, u)].bytes > 0;
            read = ech_bytes_add(read, s->uses[u].access == ECH_READ ? s->uses[u].bytes : 0);
        }
        uint32_t first = s->ops[call->first].first_use, end = s->ops[call->end - 1].first_use + s->ops[call->end - 1].n_uses;
        for (uint32_t u = first; !told && u < MIN(end, first + MAX_KERNELS * MAX_ARRAYS); u++)
            of_weights |= b->is_weights[ech_survey_used(s, u)] && s->uses[u].bytes == read;
        b->works[i] |= !told && !of_weights;
    }
}

static void find_works(EchBatch *b)
{
    const EchSurvey *s = b->s;
    Call call = {.stack = ECH_NONE};
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (!ech_op_is_work(o))
            continue;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && b->part[i] != ECH_PART_OPTIMIZER; u++)
            b->works[i] |= b->has[ech_survey_used(s, u)];
        if (o->stack != call.stack || o->stack == ECH_NONE || call.n == MAX_KERNELS) {
            follow_call(b, &call);
            call = (Call){.stack = o->stack, .first = i};
        }
        call.n++;
        call.end = i + 1;
        call.rows |= b->works[i];
    }
    follow_call(b, &call);
}

/* ---- graphs ---- */

/* Whether op @op adds rows up by an index. What copies them by one (rows without padding, and back) does not, nor does what gathers them. */
static bool sums_by_index(const EchSurvey *s, EchId op)
{
    static const char *const operators[] = {"aten::scatter_add", "aten::index_add", "aten::scatter_reduce", "aten::index_reduce"};
    const char *stack = ech_trace_string(s->t, s->ops[op].stack);
    bool is = false;
    for (size_t k = 0; k < G_N_ELEMENTS(operators) && !is; k++)
        is = strstr(stack, operators[k]) != NULL;
    return is;
}

/* Of an array: what modules are given that it is made of; or OF_WEIGHTS, where those have a part in it; ECH_NONE: neither. */
#define OF_WEIGHTS (ECH_NONE - 1)

/* What all that op @op reads is made of, as of one array: weights before all else. *@ret_given: what of it modules are given alone. */
static EchId made_of(const EchBatch *b, EchId op, const EchId *origin, EchId *ret_given)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[op];
    EchId of = ECH_NONE;
    *ret_given = ECH_NONE;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        EchId a = ech_survey_used(s, u);
        if (s->uses[u].access != ECH_READ || s->buffers[a].bytes <= SMALL || origin[a] == ECH_NONE)
            continue;
        *ret_given = origin[a] != OF_WEIGHTS ? origin[a] : *ret_given;
        of = of == OF_WEIGHTS ? of : origin[a];
    }
    return of;
}

/* Whether @buffer is there from before op @first until after op @last. */
static bool stays(const EchSurvey *s, EchId buffer, EchId first, EchId last)
{
    bool is = true;
    for (EchId i = 0; i < s->n && is; i++) {
        bool asked = s->ops[i].kind == ECH_OP_ALLOC && i > first, freed = s->ops[i].kind == ECH_OP_FREE && i < last;
        is = !((asked || freed) && s->ops[i].target == buffer);
    }
    return is;
}

/* What depends on weights is summed up by what does not, edges; those of a graph are the same in all steps, where batches of graphs, which can be divided, have
 * others. A router's choice of experts depends on weights. */
static bool is_graph(const EchBatch *b)
{
    const EchSurvey *s = b->s;
    EchId edges = ECH_NONE, first = ECH_NONE, last = 0; /* ops of forward passes */
    g_autofree EchId *origin = g_new(EchId, s->n_buffers + 1);
    for (EchId a = 0; a < s->n_buffers; a++)
        origin[a] = s->buffers[a].role == ECH_ROLE_INPUT ? a : b->is_weights[a] ? OF_WEIGHTS : ECH_NONE;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (b->part[i] != ECH_PART_FORWARD)
            continue;
        EchId given, of = made_of(b, i, origin, &given);
        first = first == ECH_NONE ? i : first;
        last = i;
        if (edges == ECH_NONE && of == OF_WEIGHTS && sums_by_index(s, i))
            edges = given;
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && of != ECH_NONE; u++) {
            EchId a = ech_survey_used(s, u);
            if (s->uses[u].access == ECH_WRITE && origin[a] != OF_WEIGHTS && s->buffers[a].role != ECH_ROLE_INPUT)
                origin[a] = of;
        }
    }
    return edges != ECH_NONE && stays(s, edges, first, last);
}

/* ---- pairs ---- */

/* Whether op @op of no backward pass is a product of what has a batch's rows alone, in @ret_gpu. */
static bool multiplies_rows(const EchBatch *b, EchId op, EchGpuLaunch *ret_gpu)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[op];
    if (b->rows < 2 || b->part[op] == ECH_PART_BACKWARD || b->part[op] == ECH_PART_OPTIMIZER || !ech_survey_has_products(s, op) ||
        !ech_gpu_launch_parse(ech_trace_string(s->t, o->launch), ret_gpu) || ret_gpu->batch != 1)
        return false;
    unsigned rows = 0, others = 0;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        bool has = b->has[ech_survey_used(s, u)], reads = s->uses[u].access == ECH_READ;
        rows += reads && has;
        others += reads && !has && s->buffers[ech_survey_used(s, u)].bytes > SMALL;
    }
    return rows > 0 && others == 0;
}

/* Rows by the batch's, or by several times as many (other devices', two views of each). */
static bool pairs_rows(const EchBatch *b, EchId op)
{
    EchGpuLaunch gpu;
    return multiplies_rows(b, op, &gpu) &&
           ((gpu.m == b->rows && gpu.n % b->rows == 0) || (gpu.n == b->rows && gpu.m % b->rows == 0) || (gpu.m == gpu.n && gpu.m == 2 * b->rows));
}

/* Each row is a sum of all rows, by an array of what each is to each: of a graph, its edges. */
static bool sums_rows(const EchBatch *b, EchId op)
{
    EchGpuLaunch gpu;
    return multiplies_rows(b, op, &gpu) && gpu.k == b->rows && (gpu.m == b->rows || gpu.n == b->rows);
}

static bool is_of_pairs(const EchBatch *b)
{
    bool is = false;
    for (EchId i = 0; i < b->s->n && !is; i++)
        is = pairs_rows(b, i);
    return is;
}

bool ech_batch_init(EchBatch *batch, const EchSurvey *survey)
{
    const EchSurvey *s = survey;
    const char *rows = ech_trace_get_property(s->t, ECH_TRACE_BATCH);
    *batch = (EchBatch){.s = s,
                        .part = g_new0(uint8_t, s->n + 1),
                        .has = g_new0(bool, s->n_buffers + 1),
                        .works = g_new0(bool, s->n + 1),
                        .is_weights = g_new0(bool, s->n_buffers + 1),
                        .rows = rows ? g_ascii_strtoull(rows, NULL, 10) : 0};
    ech_modules_find_parts(s, batch->part);
    find_weights(batch);
    EchId first = 0; /* op of a module: before it a program makes its weights, and what it lets go by then is of those */
    while (first < s->n && !is_in_module(s, first))
        first++;
    for (EchId i = 0; i < first; i++)
        if (s->ops[i].kind == ECH_OP_FREE && s->buffers[s->ops[i].target].role != ECH_ROLE_INPUT)
            batch->is_weights[s->ops[i].target] = true;
    for (EchId a = 0; a < s->n_buffers; a++)
        batch->has[a] = s->buffers[a].role == ECH_ROLE_INPUT;
    bool any = false;
    g_autofree bool *is_made = g_new0(bool, s->n_buffers + 1);
    bool news = first < s->n;
    for (unsigned round = 0; news && round < MAX_ROUNDS; round++) { /* what one step leaves the next finds */
        news = false;
        for (EchId i = 0; i < s->n; i++)
            news |= batch->part[i] != ECH_PART_OPTIMIZER && follow(batch, i, is_made);
        news |= find_left(batch);
    }
    find_works(batch);
    find_workspaces(batch);
    for (EchId a = 0; a < s->n_buffers; a++)
        any |= batch->has[a];
    for (EchId i = 0; i < s->n && !batch->is_dense; i++)
        batch->is_dense = sums_rows(batch, i);
    batch->is_graph = batch->is_dense || is_graph(batch);
    batch->of_pairs = is_of_pairs(batch);
    return any;
}

void ech_batch_kind(const EchTrace *trace, const EchDevice *device, bool *ret_is_graph, bool *ret_of_pairs)
{
    g_auto(EchSurvey) s = {0};
    g_auto(EchBatch) b = {0};
    bool any = ech_survey_init(&s, trace, device) && ech_batch_init(&b, &s);
    *ret_is_graph = any && b.is_graph;
    *ret_of_pairs = any && b.of_pairs;
}

void ech_batch_clear(EchBatch *batch)
{
    g_clear_pointer(&batch->part, g_free);
    g_clear_pointer(&batch->has, g_free);
    g_clear_pointer(&batch->works, g_free);
    g_clear_pointer(&batch->is_weights, g_free);
}

/* ---- launches ---- */

/* Which of a product's sizes its rows are: what is summed over where the result has none; the batch of products where all of it has rows; else the one that the
 * weights have not, of convolutions that of pixels. */
static uint64_t *rows_of_product(const EchBatch *b, EchId op, EchGpuLaunch *gpu, bool result)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[op];
    uint64_t bytes = MAX(gpu->operand_bytes, 1), left = gpu->batch * gpu->m * gpu->k * bytes, right = gpu->batch * gpu->k * gpu->n * bytes;
    bool is_left = false, is_right = false, weights = false; /* which operand is weights */
    if (!result)
        return &gpu->k;
    if (strstr(ech_trace_string(s->t, o->name), "convolution") != NULL)
        return &gpu->m;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        if (s->uses[u].access != ECH_READ || b->has[ech_survey_used(s, u)])
            continue;
        is_left |= s->uses[u].bytes == left;
        is_right |= s->uses[u].bytes == right;
        weights |= s->uses[u].bytes * 8 > MIN(left, right); /* not what is added to the result */
    }
    if (!weights && gpu->batch > 1)
        return &gpu->batch;
    return is_right && (!is_left || gpu->m >= gpu->n) ? &gpu->m : is_left ? &gpu->n : gpu->m >= gpu->n ? &gpu->m : &gpu->n;
}

uint64_t ech_batch_liger_parts(const EchBatch *batch, EchId op)
{
    EchGpuLaunch gpu;
    const EchOp *o = &batch->s->ops[op];
    if (!ech_survey_has_products(batch->s, op) || !ech_gpu_launch_parse(ech_trace_string(batch->s->t, o->launch), &gpu) || gpu.m == 0 || gpu.batch > 1)
        return 0;
    const uint64_t *of_rows = rows_of_product(batch, op, &gpu, true);
    uint64_t rows = *of_rows, classes = of_rows == &gpu.m ? gpu.n : gpu.m, times = (classes + gpu.k - 1) / MAX(gpu.k, 1),
             least = (rows + times - 1) / MAX(times, 1), chunk = 1;
    while (chunk < least && chunk < UINT64_C(1) << 62) /* a launch may say any number */
        chunk *= 2;
    return (rows + chunk - 1) / chunk;
}

static void scale_product(const EchBatch *b, EchId op, EchGpuLaunch *gpu, bool result, double times)
{
    uint64_t left = gpu->batch * gpu->m * gpu->k, right = gpu->batch * gpu->k * gpu->n, turned = gpu->turned;
    uint64_t *rows = rows_of_product(b, op, gpu, result);
    *rows = ech_batch_scaled(*rows, times);
    uint64_t now_left = gpu->batch * gpu->m * gpu->k, now_right = gpu->batch * gpu->k * gpu->n;
    gpu->turned = turned == left ? now_left : turned == right ? now_right : turned == left + right ? now_left + now_right : ech_batch_scaled(turned, times);
}

/* The dimension of a grid that goes over rows. */
static uint32_t *rows_of_grid(const EchBatch *b, EchGpuLaunch *gpu)
{
    uint32_t *best = &gpu->grid[0];
    unsigned best_rank = 0;
    for (unsigned k = 0; k < 3; k++) {
        unsigned rank = gpu->grid[k] <= 1 ? 0 : b->rows > 1 && gpu->grid[k] == b->rows ? 3 : b->rows > 1 && gpu->grid[k] % b->rows == 0 ? 2 : 1;
        if (rank > best_rank || (rank == best_rank && gpu->grid[k] > *best)) {
            best = &gpu->grid[k];
            best_rank = rank;
        }
    }
    return best;
}

/* Whether a norm's kernel has a block for each channel, and its columns are what the batch has of each: its weights are as many as its blocks. */
static bool is_by_channels(const EchBatch *b, EchId op, const EchGpuName *name, const EchGpuLaunch *gpu)
{
    const EchSurvey *s = b->s;
    const EchOp *o = &s->ops[op];
    EchBytes weights = 0;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses && name->kind == ECH_GPU_NORM; u++)
        if (b->is_weights[ech_survey_used(s, u)])
            weights = MAX(weights, s->buffers[ech_survey_used(s, u)].bytes);
    return weights > 0 && gpu->columns * 4 != weights && gpu->columns * 2 != weights && (gpu->grid[0] * 4ul == weights || gpu->grid[0] * 2ul == weights);
}

/* Elements of a thread from which on it goes over them in a loop, in a grid as large as the chip. */
enum { LOOPS = 16 };

char *ech_batch_launch(const EchBatch *batch, EchId op, double times)
{
    const EchSurvey *s = batch->s;
    const EchOp *o = &s->ops[op];
    EchGpuLaunch gpu;
    EchGpuName name;
    if (o->kind != ECH_OP_KERNEL || o->launch == ECH_NONE || !ech_gpu_launch_parse(ech_trace_string(s->t, o->launch), &gpu))
        return NULL;
    ech_gpu_name(ech_trace_string(s->t, o->name), &name);
    ech_gpu_launch_says(&gpu, &name);
    const char *kernel = ech_trace_string(s->t, o->name); /* cuDNN's of filters, and its operators' */
    const bool filters = name.filters || strstr(kernel, "wgrad") || strstr(kernel, "gradient of the filters");
    EchBytes largest = 0;
    bool result = false; /* the largest has rows; any may of which it is not told what it is, but none is a gradient of filters */
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        if (s->uses[u].access != ECH_WRITE || s->uses[u].bytes < largest)
            continue;
        largest = s->uses[u].bytes;
        result = !filters && (batch->has[ech_survey_used(s, u)] || s->buffers[ech_survey_used(s, u)].bytes == 0);
    }
    uint64_t threads = ech_gpu_blocks(&gpu) * ech_gpu_threads(&gpu);
    bool by_channels = is_by_channels(batch, op, &name, &gpu);
    if (result && !by_channels && (threads == 0 || gpu.elements < LOOPS * threads)) {
        uint32_t *rows = rows_of_grid(batch, &gpu);
        *rows = (uint32_t)MIN(ech_batch_scaled(*rows, times), UINT32_MAX);
    }
    if (gpu.m > 0)
        scale_product(batch, op, &gpu, result, times);
    gpu.rows = by_channels ? gpu.rows : ech_batch_scaled(gpu.rows, times);
    gpu.columns = by_channels ? ech_batch_scaled(gpu.columns, times) : gpu.columns;
    gpu.trips = by_channels ? (uint16_t)MIN(ech_batch_scaled(gpu.trips, times), UINT16_MAX) : gpu.trips;
    gpu.elements = ech_batch_scaled(gpu.elements, times);
    return ech_gpu_launch_change(ech_trace_string(s->t, o->launch), &gpu);
}
