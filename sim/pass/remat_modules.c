/* Modules of PyTorch as torch.utils.checkpoint has them: what they are given is kept, what they make is made again. */
#include "sim/pass/compiled.h"
#include "sim/pass/modules.h"
#include "sim/pass/remat.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"

#include <limits.h>
#include <string.h>

/* Whether a forward pass uses @a outside of the module that made it, whose line is @module[@n]. */
static bool is_result(const EchRemat *r, const EchRematArray *a, const char *module, size_t n)
{
    const EchSurvey *s = r->s;
    for (uint32_t u = r->users.first[a->buffer]; u < r->users.first[a->buffer + 1]; u++) {
        EchId op = r->users.op[u];
        const char *stack = ech_trace_string(s->t, s->ops[op].stack);
        const char *at = ech_modules_is_backward(s, op) ? module : stack;
        for (; at && at != module; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
            if (strncmp(at, module, n) == 0 && (at[n] == '\n' || at[n] == '\0'))
                break;
        if (!at)
            return true;
    }
    return false;
}

/* Gathered again is what was gathered, for a backward pass, and for the next step: so many times at most it is looked for. */
#define GATHERED_SOON 4

void ech_remat_find_gathered(EchRemat *remat)
{
    static const char copy_out[] = "FSDP::all_gather_copy_out";
    const EchSurvey *s = remat->s;
    g_autoptr(GHashTable) last = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* "(blocks.2)", which of its weights, bytes: 1 + buffer */
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        const char *line = o->kind == ECH_OP_KERNEL ? strstr(ech_trace_string(s->t, o->stack), copy_out) : NULL;
        for (uint32_t u = o->first_use; line && u < o->first_use + o->n_uses; u++) {
            EchId buffer = s->uses[u].buffer;
            if (s->uses[u].access != ECH_WRITE || s->buffers[buffer].memory != s->hbm || s->buffers[buffer].resident || remat->is_gathered[buffer])
                continue;
            g_autofree char *key =
                g_strdup_printf("%.*s %u %" G_GUINT64_FORMAT, (int)MIN(strcspn(line, "\n"), (size_t)INT_MAX), line, u - o->first_use, s->buffers[buffer].bytes);
            EchId before = GPOINTER_TO_UINT(g_hash_table_lookup(last, key));
            if (before > 0)
                remat->gathered[before - 1] = buffer;
            remat->is_gathered[buffer] = true;
            g_hash_table_replace(last, g_steal_pointer(&key), GUINT_TO_POINTER(buffer + 1));
        }
    }
}

EchId ech_remat_gathered_at(const EchRemat *remat, EchId buffer, EchId site)
{
    EchId found = ECH_NONE, now = buffer;
    for (unsigned k = 0; k < GATHERED_SOON && now != ECH_NONE && remat->is_gathered[now] && found == ECH_NONE; k++, now = remat->gathered[now]) {
        bool there = remat->alloc[now] != ECH_NONE && remat->alloc[now] < site && (remat->free[now] == ECH_NONE || remat->free[now] >= site);
        for (uint32_t w = remat->writers.first[now]; w < remat->writers.first[now + 1]; w++)
            there &= remat->writers.op[w] < site;
        found = there ? now : ECH_NONE;
    }
    return found;
}

/* Whether a forward pass makes @buffer of a weight, in another type, as autocast does. */
static bool is_cast_weight(const EchRemat *r, EchId buffer)
{
    const EchSurvey *s = r->s;
    EchId op = r->users.first[buffer] < r->users.first[buffer + 1] ? r->users.op[r->users.first[buffer]] : ECH_NONE;
    bool reads = false, writes = false;
    if (op == ECH_NONE || s->ops[op].n_uses != 2 || s->ops[op].kind != ECH_OP_KERNEL)
        return false;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + 2; u++) {
        EchId root = ech_survey_root(s, s->uses[u].buffer);
        reads |= s->uses[u].access == ECH_READ && (s->buffers[root].role == ECH_ROLE_PARAMETER || r->is_gathered[root]);
        writes |= s->uses[u].access == ECH_WRITE && root == buffer;
    }
    return reads && writes && strstr(ech_trace_string(s->t, s->ops[op].stack), "aten::_to_copy") && !ech_modules_is_backward(s, op);
}

/* What autocast casts of weights it keeps until it ends, for whoever casts them again, whether autograd keeps them or not: those that it does not, biases, say,
 * go then, one after the other. */
static void keep_casts(const EchRemat *r)
{
    const EchSurvey *s = r->s;
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(EchId));
    bool before = false;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        bool is = o->kind == ECH_OP_FREE && is_cast_weight(r, o->target) && !ech_modules_is_backward(s, r->users.op[r->users.first[o->target + 1] - 1]);
        if (is && before && (ends->len == 0 || g_array_index(ends, EchId, ends->len - 1) + 1 < i))
            g_array_append_val(ends, i);
        else if (is && before)
            g_array_index(ends, EchId, ends->len - 1) = i;
        before = is;
    }
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        if (!a->chosen || !is_cast_weight(r, a->buffer))
            continue;
        guint low = 0, high = ends->len;
        ECH_SEARCH(low, high, middle, g_array_index(ends, EchId, middle) < a->gone);
        if (low < ends->len && g_array_index(ends, EchId, low) < a->back)
            a->gone = g_array_index(ends, EchId, low);
    }
}

/* Of an op of a forward pass the call of a module that fits in which it was compiled together with all else of that; UINT32_MAX where it was not. Calls are
 * numbered from 0 on. Owned. */
static uint32_t *find_compiled_calls(const EchSurvey *s, char *const *patterns, uint32_t *ret_n)
{
    g_autoptr(GHashTable) calls = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* module's line -> number of its last + 1; 0: ended */
    uint32_t *of = g_new(uint32_t, s->n + 1);
    *ret_n = 0;
    for (EchId i = 0; i < s->n; i++) {
        size_t n = 0;
        const char *module = s->ops[i].n_uses > 0 ? ech_modules_find(s, i, patterns, &n) : NULL;
        of[i] = UINT32_MAX;
        if (!module || !ech_compiled_is_within(s, i, module))
            continue;
        g_autofree char *key = g_strndup(module, n);
        uint32_t call = GPOINTER_TO_UINT(g_hash_table_lookup(calls, key));
        if (ech_modules_is_backward(s, i))
            call = 0;
        else {
            call = call > 0 ? call : ++*ret_n;
            of[i] = call - 1;
        }
        g_hash_table_replace(calls, g_steal_pointer(&key), GUINT_TO_POINTER(call));
    }
    return of;
}

static gint compare_along(gconstpointer x, gconstpointer y)
{
    const EchRematAlong *a = x, *b = y;
    return a->site != b->site ? (a->site < b->site ? -1 : 1) : (a->op > b->op) - (a->op < b->op);
}

/* What was compiled as one runs again as one: a module that was, by itself, all of it, before its backward pass. */
static void find_along(EchRemat *r, char *const *patterns)
{
    const EchSurvey *s = r->s;
    uint32_t n;
    g_autofree uint32_t *calls = find_compiled_calls(s, patterns, &n);
    g_autofree EchId *sites = g_new(EchId, n + 1);
    memset(sites, 0xff, (n + 1) * sizeof *sites); /* ECH_NONE: nothing of it is made again */
    for (guint k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        if (a->chosen && calls[a->maker] != UINT32_MAX)
            sites[calls[a->maker]] = MIN(sites[calls[a->maker]], a->back);
    }
    for (EchId i = 0; i < s->n; i++)
        for (uint32_t u = s->ops[i].first_use; calls[i] != UINT32_MAX && sites[calls[i]] != ECH_NONE && u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            EchRematAlong along = {i, ech_survey_root(s, s->uses[u].buffer), sites[calls[i]]};
            if (s->uses[u].access == ECH_WRITE)
                g_array_append_val(r->along, along);
        }
    g_array_sort(r->along, compare_along);
}

/* A call of a module that is not compiled as one: what is made again in it. */
typedef struct {
    EchId last;         /* Of its forward ops the last that makes what is made again. */
    EchId site;         /* Before this op the first of that is there again; ECH_NONE: nothing is. */
    EchId maker, saved; /* The last whose result its own gradient reads though it stays for others, and that; or ECH_NONE. */
} EagerCall;

/* Whether a gradient of the module that @line of n bytes names reads @buffer. */
static bool is_saved_by(const EchRemat *r, EchId buffer, const char *line, size_t n, char *const *patterns)
{
    const EchSurvey *s = r->s;
    for (uint32_t k = r->users.first[buffer]; k < r->users.first[buffer + 1]; k++) {
        size_t n_other;
        const char *other = ech_modules_is_backward(s, r->users.op[k]) ? ech_modules_find(s, r->users.op[k], patterns, &n_other) : NULL;
        if (other && n_other == n && strncmp(other, line, n) == 0)
            return true;
    }
    return false;
}

/* What an operator saves of its own result (ReLU's) a checkpoint makes once more, though the result stays for what comes behind the module. */
static void find_saved_results(EchRemat *r, char *const *patterns)
{
    const EchSurvey *s = r->s;
    g_autoptr(GArray) calls = g_array_new(FALSE, FALSE, sizeof(EagerCall));
    g_autofree uint32_t *made_again = g_new0(uint32_t, s->n + 1); /* per op: 1 + the array that it makes, of those that are chosen; 0 */
    for (guint k = 0; k < r->arrays->len; k++)
        if (ech_remat_array(r, k)->chosen)
            made_again[ech_remat_array(r, k)->maker] = k + 1;
    const char *line = NULL;
    size_t n_line = 0;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        size_t n = 0;
        if (o->kind != ECH_OP_KERNEL || o->queue != s->core || o->n_uses == 0)
            continue;
        const char *module = ech_modules_find(s, i, patterns, &n);
        if (!module || ech_modules_is_backward(s, i) || ech_compiled_is_within(s, i, module)) {
            line = NULL;
            continue;
        }
        if (!line || n != n_line || strncmp(line, module, n) != 0) {
            EagerCall call = {i, ECH_NONE, ECH_NONE, ECH_NONE};
            g_array_append_val(calls, call);
        }
        line = module;
        n_line = n;
        EagerCall *call = &g_array_index(calls, EagerCall, calls->len - 1);
        if (made_again[i] > 0) {
            call->last = i;
            call->site = MIN(call->site, ech_remat_array(r, made_again[i] - 1)->back);
        }
        for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
            EchId root = ech_survey_root(s, s->uses[u].buffer);
            const EchBuffer *b = &s->buffers[root];
            bool chosen = r->array_of[root] != UINT32_MAX && ech_remat_array(r, r->array_of[root])->chosen;
            if (s->uses[u].access != ECH_WRITE || chosen || b->resident || b->bytes == 0 || !is_saved_by(r, root, module, n, patterns))
                continue;
            call->maker = i;
            call->saved = root;
        }
    }
    for (guint k = 0; k < calls->len; k++) {
        const EagerCall *call = &g_array_index(calls, EagerCall, k);
        EchRematAlong along = {call->maker, call->saved, call->site};
        if (call->site != ECH_NONE && call->maker != ECH_NONE && call->maker > call->last && (r->asked.products || !ech_survey_has_products(s, call->maker)))
            g_array_append_val(r->along, along);
    }
    g_array_sort(r->along, compare_along);
}

bool ech_remat_choose_modules(EchRemat *remat, const char *modules)
{
    EchRemat *r = remat;
    GStrv patterns = r->modules = g_strsplit(modules, ECH_MODULES_OR, -1);
    bool any = false;
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        size_t n = 0;
        const char *module = ech_modules_find(r->s, a->maker, patterns, &n);
        any |= module != NULL;
        a->chosen = module && !r->is_gathered[a->buffer] && !ech_modules_is_backward(r->s, a->maker) && ech_modules_is_backward(r->s, a->back) &&
                    !is_result(r, a, module, n);
        r->in_graph |= a->chosen && ech_compiled_is_beside(r->s, a->maker, module);
    }
    keep_casts(r);
    find_along(r, patterns);
    find_saved_results(r, patterns);
    if (ech_remat_plan(r) == ECH_REMAT_OK)
        return any;
    /* Not all at once: as many as go together. */
    g_autofree bool *wanted = g_new(bool, r->arrays->len + 1);
    for (guint k = 0; k < r->arrays->len; k++) {
        wanted[k] = ech_remat_array(r, k)->chosen;
        ech_remat_array(r, k)->chosen = false;
    }
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        a->chosen = wanted[k];
        EchRematReason why = wanted[k] ? ech_remat_plan(r) : ECH_REMAT_OK;
        a->chosen = wanted[k] && why == ECH_REMAT_OK;
        if (why != ECH_REMAT_OK)
            ech_remat_decline(r, a, why);
    }
    (void)ech_remat_plan(r);
    return any;
}

/* One call of a module. */
typedef struct {
    EchId first, last; /* Of its forward ops the first; of its backward ops the last, ECH_NONE before them. */
    GArray *kept;      /* EchId: buffers that it was given; and that its matrix products make, where those do not run again. */
} Call;

static void free_call(gpointer data)
{
    g_array_unref(((Call *)data)->kept);
    g_free(data);
}

/* What a call keeps stays until @until of each says, at least to its last op. */
static void settle_call(const Call *call, EchId *until)
{
    for (guint k = 0; call->last != ECH_NONE && k < call->kept->len; k++) {
        EchId buffer = g_array_index(call->kept, EchId, k);
        until[buffer] = until[buffer] == ECH_NONE ? call->last : MAX(until[buffer], call->last);
    }
}

/* Of a buffer. */
typedef struct {
    EchId written, used; /* Ops that did so last, or ECH_NONE. */
    const Call *within;  /* The call whose forward pass makes it and that alone uses it; NULL where there is none. */
} Life;

static void note_use(Life *life, const EchUse *use, EchId op, const Call *call, bool forward)
{
    if (life->written == ECH_NONE && use->access == ECH_WRITE && forward)
        life->within = call;
    else if (life->within != call || !forward)
        life->within = NULL;
    life->written = use->access == ECH_WRITE ? op : life->written;
    life->used = op;
}

/* For each buffer the op after which it may go, or ECH_NONE: whenever it went before; and @early, where that is before it went. @products: whether matrix
 * products may run again. */
static void find_inputs(const EchSurvey *s, char *const *patterns, bool products, EchId *until, bool *early)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(free_call);
    g_autoptr(GHashTable) calls = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    g_autofree Life *lives = g_new(Life, s->n_buffers + 1);
    for (size_t b = 0; b < s->n_buffers; b++)
        lives[b] = (Life){ECH_NONE, ECH_NONE, NULL};
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *op = &s->ops[i];
        size_t n;
        const char *module = op->n_uses > 0 ? ech_modules_find(s, i, patterns, &n) : NULL;
        g_autofree char *key = module ? g_strndup(module, n) : NULL;
        Call *call = key ? g_hash_table_lookup(calls, key) : NULL;
        if (key && ech_modules_is_backward(s, i)) {
            if (call)
                call->last = i;
        } else if (key) {
            if (!call || call->last != ECH_NONE) { /* the next step's */
                if (call)
                    settle_call(call, until);
                call = g_new(Call, 1);
                *call = (Call){i, ECH_NONE, g_array_new(FALSE, FALSE, sizeof(EchId))};
                g_ptr_array_add(all, call);
                g_hash_table_replace(calls, g_strdup(key), call);
            }
            for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
                EchId buffer = s->uses[u].buffer;
                bool reads = s->uses[u].access == ECH_READ;
                EchId written = lives[buffer].written;
                if (reads ? written != ECH_NONE && written < call->first : !products && ech_survey_has_products(s, i))
                    g_array_append_val(call->kept, buffer);
            }
        }
        bool runs_again = products || !ech_survey_has_products(s, i);
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
            note_use(&lives[s->uses[u].buffer], &s->uses[u], i, call, key && !ech_modules_is_backward(s, i) && runs_again);
        /* What autograd saves and nothing reads, but for its shape perhaps: of index_add() what is added. */
        const Life *life = op->kind == ECH_OP_FREE ? &lives[op->target] : NULL;
        if (life && life->within && life->within->last != ECH_NONE && until[op->target] == ECH_NONE) {
            until[op->target] = life->used;
            early[op->target] = true;
        }
    }
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, calls);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        settle_call(value, until); /* the latest of all: in whatever order */
}

EchTrace *ech_remat_keep_inputs(const EchSurvey *survey, const char *modules, bool products, GError **error)
{
    const EchSurvey *s = survey;
    g_auto(GStrv) patterns = g_strsplit(modules, ECH_MODULES_OR, -1);
    g_autofree EchId *until = g_new(EchId, s->n_buffers + 1), *first = g_new(EchId, s->n + 1), *next = g_new(EchId, s->n + 1);
    g_autofree bool *early = g_new0(bool, s->n_buffers + 1), *moves = g_new0(bool, s->n + 1);
    for (size_t b = 0; b < s->n_buffers; b++)
        until[b] = ECH_NONE;
    for (size_t i = 0; i <= s->n; i++)
        first[i] = next[i] = ECH_NONE;
    bool loops = ech_trace_has_op(s->t, ECH_OP_LOOP);
    if (!loops) /* programs that run as they are written have none */
        find_inputs(s, patterns, products, until, early);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(s->t));
    g_auto(EchEdit) edit = {0};
    for (EchId i = (EchId)s->n; i-- > 0;) { /* frees that wait or come early, by the op they come after */
        const EchOp *op = &s->ops[i];
        EchId at = op->kind == ECH_OP_FREE ? until[op->target] : ECH_NONE;
        moves[i] = at != ECH_NONE && (at > i || early[op->target]);
        if (!moves[i])
            continue;
        next[i] = first[at];
        first[at] = i;
    }
    ech_edit_init(&edit, s, builder);
    for (EchId i = 0; i < s->n; i++) {
        if (!moves[i])
            ech_edit_keep(&edit, i);
        for (EchId k = first[i]; k != ECH_NONE; k = next[k]) {
            ech_edit_keep(&edit, k);
            ech_trace_builder_dep(builder, edit.map[i], 0);
        }
    }
    ech_edit_loops(&edit, s->n_buffers);
    for (EchId i = 0; loops && i < s->n; i++)
        if (s->ops[i].kind == ECH_OP_LOOP)
            ech_trace_builder_peek_op(builder, edit.map[i])->target = s->ops[i].target;
    return ech_trace_builder_finish(builder, error);
}
