#include "sim/report/origins.h"
#include "sim/base/hash.h"
#include "sim/report/json_out.h"
#include "sim/trace/ranges.h"

#include <string.h>

typedef enum { FORWARD, AGAIN, BACKWARD } Pass;

/* What a stack says, by its id. */
typedef struct {
    guint row; /* + 1; 0: not looked at */
    Pass pass;
} Told;

/* "layers.3.mlp (MLP)" as "layers.*.mlp (MLP)". */
static char *module_name(const char *name, size_t length)
{
    GString *out = g_string_new(NULL);
    for (const char *at = name, *end = name + length; at < end;) {
        size_t n = strcspn(at, ". \n"), digits = strspn(at, "0123456789");
        if (digits == n && n > 0)
            g_string_append_c(out, '*');
        else
            g_string_append_len(out, at, (gssize)n);
        at += n;
        if (at < end)
            g_string_append_c(out, *at++);
    }
    return g_string_free(out, FALSE);
}

/* "model/dense_1/MatMul (MatMul)" is asked for by "model/dense_1": TensorFlow names an operator after the scopes that it was made in, Keras a layer within its
 * model. What is deeper, and an operator's own name, are left out. */
static char *scope_name(const char *name, size_t length, Pass *ret_pass)
{
    enum { DEEPEST = 2 };
    static const char tape[] = "gradient_tape/";
    size_t n = MIN(strcspn(name, " "), length), scope = 0;
    if (g_str_has_prefix(name + n, " (Variable)")) /* a network has hundreds */
        return g_strdup("variables");
    if (n > strlen(tape) && strncmp(name, tape, strlen(tape)) == 0) {
        *ret_pass = BACKWARD;
        name += strlen(tape);
        n -= strlen(tape);
    }
    for (size_t i = 0, deep = 0; i < n && deep < DEEPEST; i++) {
        if (name[i] == '/') {
            scope = i;
            deep++;
        }
    }
    return g_strndup(name, scope > 0 ? scope : n);
}

/* The name of what asked, of ranges innermost first, and in which pass; NULL where there are none. */
static char *asker_of(const char *stack, Pass *ret_pass, bool *known)
{
    const char *module = NULL, *outermost = NULL, *node = NULL, *step = NULL, *named = NULL;
    size_t n_module = 0, n_outermost = 0, n_node = 0, n_step = 0, n_named = 0;
    *ret_pass = FORWARD;
    for (const char *at = stack; *at;) {
        size_t n = strcspn(at, "\n");
        if (!module && g_str_has_prefix(at, ECH_RANGE_MODULE)) {
            module = at + strlen(ECH_RANGE_MODULE);
            n_module = n - strlen(ECH_RANGE_MODULE);
        } else if (g_str_has_prefix(at, ECH_RANGE_BACKWARD)) {
            if (!node) /* the innermost node: a checkpoint's runs a backward pass of its own within */
                *ret_pass = module ? AGAIN : BACKWARD;
            node = at + strlen(ECH_RANGE_BACKWARD);
            n_node = n - strlen(ECH_RANGE_BACKWARD);
        } else if (!named && g_str_has_prefix(at, ECH_RANGE_TENSORFLOW)) {
            named = at + strlen(ECH_RANGE_TENSORFLOW);
            n_named = n - strlen(ECH_RANGE_TENSORFLOW);
        } else if (g_str_has_prefix(at, "Optimizer.")) {
            step = at;
            n_step = n;
        } else if (!g_str_has_prefix(at, ECH_RANGE_MODULE)) {
            outermost = at;
            n_outermost = n;
        }
        at += n + (at[n] == '\n');
    }
    *known |= module || step || named;
    if (module)
        return module_name(module, n_module);
    if (step)
        return g_strndup(step, n_step);
    if (node)
        return g_strndup(node, n_node);
    if (named)
        return scope_name(named, n_named, ret_pass);
    return outermost ? g_strndup(outermost, n_outermost) : NULL;
}

EchTime ech_asker_time(const EchAsker *asker)
{
    return ech_time_add(asker->forward, ech_time_add(asker->again, asker->backward));
}

static int by_time(const void *a, const void *b)
{
    const EchAsker *x = a, *y = b;
    EchTime p = ech_asker_time(x), q = ech_asker_time(y);
    return p != q ? (p < q ? 1 : -1) : strcmp(x->name, y->name);
}

static void asker_clear(gpointer data)
{
    g_free(((EchAsker *)data)->name);
}

EchAsker *ech_report_askers(const EchReport *report, size_t *ret_n)
{
    const EchRun *run = report->run;
    const EchTrace *trace = report->trace;
    *ret_n = 0;
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(EchAsker));
    g_array_set_clear_func(rows, asker_clear);
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_text, g_str_equal); /* name to row + 1 */
    g_autofree Told *told = g_new0(Told, ech_trace_n_strings(trace) + 1);
    g_autofree uint64_t *counts = ech_run_span_counts(report->run, report->trace);
    bool known = false;
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchSpan *span = &run->spans[i];
        const EchOp *op = &ech_trace_ops(trace)[span->op];
        if ((op->kind != ECH_OP_KERNEL && op->kind != ECH_OP_COPY && op->kind != ECH_OP_COLLECTIVE) || op->stack >= ech_trace_n_strings(trace))
            continue;
        Told *what = &told[op->stack];
        if (what->row == 0) {
            char *name = asker_of(ech_trace_string(trace, op->stack), &what->pass, &known);
            name = name ? name : g_strdup("(outside of all ranges)");
            what->row = GPOINTER_TO_UINT(g_hash_table_lookup(index, name));
            if (what->row == 0) {
                EchAsker row = {.name = name};
                g_array_append_val(rows, row);
                what->row = rows->len;
                g_hash_table_insert(index, name, GUINT_TO_POINTER(rows->len));
            } else {
                g_free(name);
            }
        }
        EchAsker *row = &g_array_index(rows, EchAsker, what->row - 1);
        EchTime *sum = what->pass == FORWARD ? &row->forward : what->pass == AGAIN ? &row->again : &row->backward, time;
        if (__builtin_mul_overflow(span->end - span->start, (EchTime)MIN(counts[i], (uint64_t)INT64_MAX), &time))
            time = INT64_MAX;
        *sum = ech_time_add(*sum, time);
        row->operations += counts[i];
    }
    if (!known)
        return NULL;
    g_array_sort(rows, by_time);
    *ret_n = rows->len;
    g_array_set_clear_func(rows, NULL);
    return (EchAsker *)(void *)g_array_steal(rows, NULL);
}

void ech_askers_free(EchAsker *askers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g_free(askers[i].name);
    g_free(askers);
}

void ech_report_build_askers(JsonBuilder *b, const EchReport *report)
{
    size_t n;
    EchAsker *askers = ech_report_askers(report, &n);
    if (n > 0)
        ech_json_begin_array(b, "askers");
    for (size_t i = 0; i < n; i++) {
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", askers[i].name);
        ech_json_add_int(b, "forward_ps", askers[i].forward);
        ech_json_add_int(b, "again_ps", askers[i].again);
        ech_json_add_int(b, "backward_ps", askers[i].backward);
        ech_json_add_count(b, "operations", askers[i].operations);
        json_builder_end_object(b);
    }
    if (n > 0)
        json_builder_end_array(b);
    ech_askers_free(askers, n);
}
