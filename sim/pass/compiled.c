/* What torch.compile compiled, as a program would have it whose modules are apart. */
#include "sim/pass/compiled.h"

#include "sim/base/hash.h"
#include "sim/pass/modules.h"
#include "sim/trace/ranges.h"

#include <string.h>

/* Autograd's function that runs a graph, and its node ("CompiledFunctionBackward"). */
#define COMPILED "CompiledFunction"

/* Where the stack of op @i has the graph of torch.compile's that the op is of; NULL. */
static const char *graph_of(const EchSurvey *s, EchId i)
{
    return strstr(ech_trace_string(s->t, s->ops[i].stack), COMPILED);
}

bool ech_compiled_is_within(const EchSurvey *survey, EchId op, const char *module)
{
    const char *graph = graph_of(survey, op);
    return graph && graph < module;
}

bool ech_compiled_is_beside(const EchSurvey *survey, EchId op, const char *module)
{
    const char *graph = graph_of(survey, op);
    return graph && graph > module;
}

/* The line of the module that fits in which op @i was compiled, of @ret_n bytes; NULL. */
static const char *compiled_module(const EchSurvey *s, EchId i, char *const *patterns, size_t *ret_n)
{
    return s->ops[i].kind == ECH_OP_KERNEL && graph_of(s, i) ? ech_modules_find(s, i, patterns, ret_n) : NULL;
}

/* ---- each result in a buffer of its own ---- */

/* Whether use @use writes all of a buffer that could be another as well. */
static bool is_whole_write(const EchSurvey *s, const EchUse *use, const bool *has_parts)
{
    const EchBuffer *buffer = &s->buffers[use->buffer];
    return use->access == ECH_WRITE && use->bytes == buffer->bytes && buffer->memory == s->hbm && !buffer->resident && buffer->alias_of == ECH_NONE &&
           !has_parts[use->buffer];
}

/* The uses by which compiled ops of modules that fit put a result where another one was that a kernel made: whether there are any. */
static bool find_reuses(const EchSurvey *s, const char *modules, bool *reuses)
{
    g_auto(GStrv) patterns = g_strsplit(modules, ECH_MODULES_OR, -1);
    g_autofree bool *has_parts = g_new0(bool, s->n_buffers + 1), *is_made = g_new0(bool, s->n_buffers + 1);
    bool any = false;
    size_t n;
    for (EchId b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].alias_of != ECH_NONE)
            has_parts[s->buffers[b].alias_of] = true;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        bool compiled = compiled_module(s, i, patterns, &n) != NULL;
        for (uint32_t u = op->first_use; op->kind == ECH_OP_KERNEL && u < op->first_use + op->n_uses; u++) {
            EchId buffer = s->uses[u].buffer;
            any |= reuses[u] = compiled && is_made[buffer] && is_whole_write(s, &s->uses[u], has_parts);
            is_made[buffer] |= s->uses[u].access == ECH_WRITE;
        }
    }
    return any;
}

/* Writes op @i of @edit with its uses; a result that takes the place of another (@reuses) goes to a buffer of its own: @now[buffer] is that from then on. */
static void write_apart(EchEdit *edit, EchId i, const bool *reuses, EchId *now)
{
    const EchSurvey *s = edit->survey;
    const EchOp *op = &s->ops[i];
    g_autoptr(GArray) old = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        if (!reuses[u])
            continue;
        EchBuffer made = *ech_trace_builder_peek_buffer(edit->builder, now[s->uses[u].buffer]);
        ech_edit_move_buffer(&made, s->hbm);
        g_array_append_val(old, now[s->uses[u].buffer]);
        EchId fresh = ech_trace_builder_buffer(edit->builder, made);
        (void)ech_edit_memory(edit, ECH_OP_ALLOC, fresh);
        now[s->uses[u].buffer] = fresh;
    }
    EchOp written = ech_edit_op(edit, i);
    if (written.kind == ECH_OP_FREE)
        written.target = now[op->target];
    edit->map[i] = ech_trace_builder_op(edit->builder, written);
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        EchId buffer = now[use->buffer];
        for (uint32_t w = op->first_use, n = 0; use->access == ECH_READ && w < op->first_use + op->n_uses; w++) {
            if (reuses[w] && s->uses[w].buffer == use->buffer)
                buffer = g_array_index(old, EchId, n);
            n += reuses[w];
        }
        ech_trace_builder_use(edit->builder, buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++)
        ech_edit_dep(edit, &s->deps[d], 0);
    ech_edit_work(edit, i, 1);
    for (guint k = 0; k < old->len; k++)
        (void)ech_edit_memory(edit, ECH_OP_FREE, g_array_index(old, EchId, k));
}

static EchTrace *results_apart(const EchSurvey *s, const char *modules, EchTrace *trace, GError **error)
{
    g_autofree bool *reuses = g_new0(bool, ech_trace_n_uses(s->t) + 1);
    if (!find_reuses(s, modules, reuses))
        return ech_trace_ref(trace);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    g_auto(EchEdit) edit = {0};
    ech_edit_init(&edit, s, builder);
    g_autofree EchId *now = g_new(EchId, s->n_buffers + 1);
    for (EchId b = 0; b < s->n_buffers; b++)
        now[b] = b;
    for (EchId i = 0; i < s->n; i++)
        write_apart(&edit, i, reuses, now);
    ech_edit_loops(&edit, s->n_buffers);
    return ech_trace_builder_finish(builder, error);
}

/* ---- gradients in the backward pass of their own module ---- */

/* Ops in another order: by the op behind which each stands now, and as they were. */
typedef struct {
    EchId behind, op;
} Place;

static gint compare_places(gconstpointer x, gconstpointer y)
{
    const Place *a = x, *b = y;
    return a->behind != b->behind ? (a->behind < b->behind ? -1 : 1) : (a->op > b->op) - (a->op < b->op);
}

/* Of a buffer, by ops up to now: places of the last that writes it and of the latest that uses it, or ECH_NONE; and its ALLOC. */
typedef struct {
    EchId written, used, alloc;
    bool moved; /* what uses it last does so sooner than it did */
} Life;

/* Whether what a backward pass computes is a gradient: not what it makes again of a forward one. */
static bool is_gradient_of(const EchSurvey *s, EchId op)
{
    const char *stack = ech_trace_string(s->t, s->ops[op].stack), *node = strstr(stack, ECH_RANGE_BACKWARD);
    const char *module = strstr(stack, ECH_RANGE_MODULE);
    return node && (!module || node < module);
}

/* A module's gradients in the backward pass that is under way: the last that was computed before those of another module. */
typedef struct {
    EchId begin, last; /* begin: of that backward pass */
} Own;

/* The place of op @i, a gradient's, behind op @after and what it needs. */
static EchId sooner_place(const EchSurvey *s, EchId i, EchId after, const Life *lives, const EchId *behind)
{
    const EchOp *op = &s->ops[i];
    EchId at = after;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const Life *life = &lives[ech_survey_root(s, s->uses[u].buffer)];
        EchId needed = s->uses[u].access == ECH_READ ? life->written : life->used;
        if (needed == ECH_NONE && s->buffers[s->uses[u].buffer].alias_of != ECH_NONE)
            return i;
        at = needed != ECH_NONE ? MAX(at, needed) : at;
    }
    for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++)
        at = s->deps[d].op < i ? MAX(at, behind[s->deps[d].op]) : i;
    return MIN(at, i);
}

static void note_uses(const EchSurvey *s, EchId i, EchId place, Life *lives)
{
    const EchOp *op = &s->ops[i];
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        Life *life = &lives[ech_survey_root(s, s->uses[u].buffer)];
        life->used = life->used == ECH_NONE ? place : MAX(life->used, place);
        life->moved = place < i;
        if (s->uses[u].access == ECH_WRITE)
            life->written = life->written == ECH_NONE ? place : MAX(life->written, place);
    }
}

/* What op @i, which moves to @place, is the first to use is asked for there. */
static void move_alloc(const EchSurvey *s, EchId i, EchId place, const Life *lives, EchId *behind)
{
    const EchOp *op = &s->ops[i];
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const Life *life = &lives[ech_survey_root(s, s->uses[u].buffer)];
        if (life->used == ECH_NONE && life->alloc != ECH_NONE)
            behind[life->alloc] = MIN(behind[life->alloc], place);
    }
}

/* The op behind which each stands, itself where it stays: whether any moves. @modules: of each, 1 + which of @n_modules it is of, where it is to be looked at.
 */
static bool find_places(const EchSurvey *s, const uint32_t *modules, uint32_t n_modules, EchId *behind)
{
    g_autofree Life *lives = g_new(Life, s->n_buffers + 1);
    g_autofree Own *own = g_new(Own, n_modules + 1);
    for (EchId b = 0; b <= s->n_buffers; b++)
        lives[b] = (Life){ECH_NONE, ECH_NONE, ECH_NONE, false};
    for (uint32_t k = 0; k <= n_modules; k++)
        own[k] = (Own){ECH_NONE, ECH_NONE};
    EchId begin = ECH_NONE; /* of the backward pass that is under way */
    EchId waited = 0;       /* what the core waited for last, which what comes behind may need */
    uint32_t now = 0;       /* module */
    bool any = false;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        behind[i] = i;
        if (op->kind == ECH_OP_ALLOC)
            lives[op->target].alloc = i;
        if (op->kind == ECH_OP_FREE && lives[op->target].moved && lives[op->target].alloc != ECH_NONE)
            behind[i] = MAX(lives[op->target].used, behind[lives[op->target].alloc]);
        if (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE)
            continue;
        if (op->kind == ECH_OP_WAIT && op->queue == s->core)
            waited = i;
        if (op->kind == ECH_OP_KERNEL)
            begin = !ech_modules_is_backward(s, i) ? ECH_NONE : begin == ECH_NONE ? i : begin;
        if (modules[i] > 0 && begin != ECH_NONE && is_gradient_of(s, i)) {
            Own *mine = &own[modules[i]];
            if (mine->begin != begin || modules[i] == now) {
                *mine = (Own){begin, i};
                now = modules[i];
            } else {
                behind[i] = sooner_place(s, i, MAX(mine->last, waited), lives, behind);
                move_alloc(s, i, behind[i], lives, behind);
                any |= behind[i] < i;
            }
        }
        note_uses(s, i, behind[i], lives);
    }
    return any;
}

/* Of each op that was compiled, in a graph of more than its module that fits, 1 + which module that is; else 0. Owned. */
static uint32_t *find_beside(const EchSurvey *s, const char *modules, uint32_t *ret_n)
{
    g_auto(GStrv) patterns = g_strsplit(modules, ECH_MODULES_OR, -1);
    g_autoptr(GHashTable) numbers = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* of lines; UINT32_MAX: compiled by itself */
    uint32_t *of = g_new0(uint32_t, s->n + 1);
    *ret_n = 0;
    for (EchId i = 0; i < s->n; i++) {
        size_t n = 0;
        const char *module = compiled_module(s, i, patterns, &n);
        if (!module)
            continue;
        g_autofree char *line = g_strndup(module, n);
        uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(numbers, line));
        if (number == 0) {
            number = !ech_modules_is_backward(s, i) && ech_compiled_is_within(s, i, module) ? UINT32_MAX : ++*ret_n;
            g_hash_table_insert(numbers, g_steal_pointer(&line), GUINT_TO_POINTER(number));
        }
        of[i] = number == UINT32_MAX ? 0 : number;
    }
    return of;
}

static EchTrace *gradients_sooner(const EchSurvey *s, const char *modules, EchTrace *trace, GError **error)
{
    uint32_t n_modules;
    g_autofree uint32_t *of = find_beside(s, modules, &n_modules);
    g_autofree EchId *behind = g_new(EchId, s->n + 1);
    if (!find_places(s, of, n_modules, behind))
        return ech_trace_ref(trace);
    g_autoptr(GArray) places = g_array_sized_new(FALSE, FALSE, sizeof(Place), (guint)s->n);
    for (EchId i = 0; i < s->n; i++) {
        Place place = {behind[i], i};
        g_array_append_val(places, place);
    }
    g_array_sort(places, compare_places);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    g_auto(EchEdit) edit = {0};
    ech_edit_init(&edit, s, builder);
    for (guint k = 0; k < places->len; k++)
        ech_edit_keep(&edit, g_array_index(places, Place, k).op);
    ech_edit_loops(&edit, s->n_buffers);
    return ech_trace_builder_finish(builder, error);
}

/* ---- both ---- */

EchTrace *ech_compiled_apart(EchTrace *trace, const EchDevice *device, const char *modules, GError **error)
{
    g_auto(EchSurvey) as_is = {0}, apart = {0};
    if (!ech_trace_says(trace, COMPILED, "") || ech_trace_has_op(trace, ECH_OP_LOOP) || !ech_survey_init(&as_is, trace, device))
        return ech_trace_ref(trace);
    g_autoptr(EchTrace) out = results_apart(&as_is, modules, trace, error);
    if (!out || !ech_survey_init(&apart, out, device))
        return g_steal_pointer(&out);
    return gradients_sooner(&apart, modules, out, error);
}
