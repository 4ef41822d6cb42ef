#include "sim/import/onnx_nodes.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

enum { MAX_SUMS = 1 << 12, MAX_MODEL = 1 << 18, MAX_SHOWN = 4 };

/* Of the nodes of one operator on one provider. */
typedef struct {
    char *provider, *op;
    EchTime time;
    uint64_t calls;
} Sum;

struct EchOnnxNodes {
    GPtrArray *sums; /* Sum, by their first call */
    GHashTable *by_name;
    GHashTable *known; /* nodes by their number, whose weights are counted */
    uint64_t calls;
    EchBytes parameters, in_use, output;
    char *largest; /* that makes @output; or NULL */
};

static void sum_free(gpointer data)
{
    Sum *sum = data;
    g_free(sum->provider);
    g_free(sum->op);
    g_free(sum);
}

EchOnnxNodes *ech_onnx_nodes_new(void)
{
    EchOnnxNodes *n = g_new0(EchOnnxNodes, 1);
    n->sums = g_ptr_array_new_with_free_func(sum_free);
    n->by_name = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    n->known = g_hash_table_new(ech_hash_key, NULL);
    return n;
}

void ech_onnx_nodes_free(EchOnnxNodes *nodes)
{
    g_ptr_array_unref(nodes->sums);
    g_hash_table_unref(nodes->by_name);
    g_hash_table_unref(nodes->known);
    g_free(nodes->largest);
    g_free(nodes);
}

static Sum *sum_of(EchOnnxNodes *n, const EchOnnxNode *node)
{
    char *key = g_strdup_printf("%.96s %.96s", node->provider, node->op);
    Sum *sum = g_hash_table_lookup(n->by_name, key);
    if (sum || n->sums->len == MAX_SUMS) {
        g_free(key);
        return sum;
    }
    sum = g_new0(Sum, 1);
    sum->provider = ech_quote(node->provider, -1, 96);
    sum->op = ech_quote(node->op, -1, 96);
    g_ptr_array_add(n->sums, sum);
    g_hash_table_insert(n->by_name, key, sum);
    return sum;
}

/* What runs other nodes, whose times its own is made of. */
static bool holds_nodes(const char *op)
{
    static const char *const ops[] = {"If", "Loop", "Scan", "SequenceMap"};
    for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
        if (strcmp(ops[i], op) == 0)
            return true;
    }
    return false;
}

void ech_onnx_nodes_add(EchOnnxNodes *n, const EchOnnxNode *node)
{
    Sum *sum = node->op[0] && node->provider[0] ? sum_of(n, node) : NULL;
    if (!sum)
        return;
    n->calls++;
    sum->calls++;
    if (!holds_nodes(node->op))
        sum->time += MAX(node->duration, 0);
    if (node->in_use > 0)
        n->in_use = MAX(n->in_use, (EchBytes)node->in_use);
    if (node->output > 0 && (EchBytes)node->output > n->output) {
        n->output = (EchBytes)node->output;
        g_free(n->largest);
        size_t length = strlen(node->name);
        n->largest = ech_quote(node->name, (gssize)(g_str_has_suffix(node->name, "_kernel_time") ? length - strlen("_kernel_time") : length), 96);
    }
    gpointer key = GSIZE_TO_POINTER((gsize)node->index + 1);
    if (node->index >= 0 && node->parameters > 0 && g_hash_table_size(n->known) < MAX_MODEL && g_hash_table_add(n->known, key))
        n->parameters = ech_bytes_add(n->parameters, (EchBytes)node->parameters);
}

static int by_time(const void *a, const void *b)
{
    const Sum *x = *(Sum *const *)a, *y = *(Sum *const *)b;
    return x->time != y->time ? (x->time < y->time ? 1 : -1) : strcmp(x->op, y->op);
}

/* One provider's nodes, @sums from the longest on. */
static EchTime say_provider(const GPtrArray *sums, const char *provider, EchDiag *diag)
{
    g_autoptr(GString) list = g_string_new(NULL);
    EchTime all = 0;
    uint64_t calls = 0;
    unsigned shown = 0;
    for (guint i = 0; i < sums->len; i++) {
        const Sum *sum = g_ptr_array_index(sums, i);
        if (strcmp(sum->provider, provider) != 0)
            continue;
        g_autofree char *time = ech_format_time(sum->time);
        all += sum->time;
        calls += sum->calls;
        if (shown++ < MAX_SHOWN)
            g_string_append_printf(list, "%s%s %s", shown > 1 ? ", " : "", sum->op, time);
    }
    g_autofree char *time = ech_format_time(all);
    ech_diag_remark(diag, "ONNX Runtime: nodes run by %s: %" G_GUINT64_FORMAT ", in %s: %s%s", provider, calls, time, list->str,
                    shown > MAX_SHOWN ? " ..." : "");
    return all;
}

bool ech_onnx_nodes_say(const EchOnnxNodes *n, EchDiag *diag)
{
    g_autoptr(GPtrArray) sums = g_ptr_array_new();
    EchTime cpu = 0, all = 0;
    uint64_t copies = 0;
    for (guint i = 0; i < n->sums->len; i++)
        g_ptr_array_add(sums, g_ptr_array_index(n->sums, i));
    g_ptr_array_sort(sums, by_time);
    for (guint i = 0; i < sums->len; i++) {
        const Sum *sum = g_ptr_array_index(sums, i);
        bool said = false;
        for (guint k = 0; k < i && !said; k++)
            said = strcmp(((const Sum *)g_ptr_array_index(sums, k))->provider, sum->provider) == 0;
        EchTime time = said ? 0 : say_provider(sums, sum->provider, diag);
        all += time;
        cpu += strcmp(sum->provider, "CPUExecutionProvider") == 0 ? time : 0;
        copies += g_str_has_prefix(sum->op, "Memcpy") ? sum->calls : 0;
    }
    if (cpu < all) {
        ech_diag_remark(diag, "of a provider on a GPU that is how long the host took to launch them, not what they took there: those times its kernels have, "
                              "which are in the profile of a build with --enable_cuda_profiling, and in that of 'nsys profile'");
        if (cpu > 0)
            ech_diag_remark(diag,
                            "nodes on the CPU have no kernel for the GPU's provider, or were left there for shapes: what passes between is copied "
                            "(MemcpyToHost and MemcpyFromHost: "
                            "%" G_GUINT64_FORMAT "), and the host waits for it",
                            copies);
    }
    g_autofree char *parameters = ech_format_bytes(n->parameters), *output = ech_format_bytes(n->output), *in_use = ech_format_bytes(n->in_use);
    if (n->parameters)
        ech_diag_remark(diag, "weights: %s of the nodes that ran, without those that ONNX Runtime had packed anew for its kernels", parameters);
    if (n->largest)
        ech_diag_remark(diag, "the largest result, %s: %s", output, n->largest);
    if (n->in_use)
        ech_diag_remark(diag, "its arena had given out %s at the most, weights among it", in_use);
    return n->calls > 0;
}
