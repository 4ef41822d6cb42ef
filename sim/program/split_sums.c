/* Sums over many rows as XLA makes them for GPUs: in two steps, since blocks do not add up together
 * (xla/service/gpu/transforms/tree_reduction_rewriter.cc: more than a block's 32 rows of threads times 128). Those along rows are priced in pieces as it is. */
#include "sim/program/graph.h"

#include <string.h>

#define MOST_SUMS 65536 /* of a program */

enum { ROWS = 32 * 128 };

/* The largest factor up to the root; 0 where none comes near it. */
static uint64_t factor_of(uint64_t n)
{
    uint64_t root = 1;
    while (root < UINT32_MAX && (root + 1) * (root + 1) <= n)
        root++;
    for (uint64_t k = root; k >= MAX(root / 4, 2u); k--)
        if (n % k == 0)
            return k;
    return 0;
}

/* The number of leading dimensions that are summed, all that are; 0: others are, or they do not lie outermost. */
static uint8_t leading(const EchInstruction *i, const EchLayout *from)
{
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n;
    const char *text = ech_program_attribute(i, "dimensions", &n);
    size_t count = text ? ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)) : 0;
    if (count == 0 || count >= from->rank)
        return 0;
    for (size_t k = 0; k < count; k++)
        if (dims[k] < 0 || dims[k] >= (int64_t)count)
            return 0;
    for (uint8_t d = 0; d < from->rank; d++)
        if (from->order[d] != from->rank - 1 - d)
            return 0;
    return (uint8_t)count;
}

static bool split(EchGraph *g, EchId id)
{
    const EchInstruction i = *ech_graph_node(g, id);
    EchId array = ech_graph_operand(g, id, 0), start = ech_graph_operand(g, id, 1), body = ech_graph_called(g, id, 0);
    const EchLayout *layout = ech_graph_layout(g, array);
    uint8_t count = layout ? leading(&i, layout) : 0;
    if (count == 0)
        return false;
    const EchLayout type = *layout;
    uint64_t rows = 1, apart[ECH_LAYOUT_MAX_RANK], columns = 1;
    uint8_t rank = 2;
    for (uint8_t d = 0; d < type.rank; d++) {
        if (d < count)
            rows = ech_bytes_mul(rows, type.dims[d]);
        else {
            columns = ech_bytes_mul(columns, type.dims[d]);
            apart[rank++] = type.dims[d];
        }
    }
    uint64_t first = rows > ROWS && columns > 1 && rank <= ECH_LAYOUT_MAX_RANK ? factor_of(rows) : 0;
    if (first == 0)
        return false;
    apart[0] = first;
    apart[1] = rows / first;
    array = ech_graph_add_new(g, i.computation, ECH_HLO_RESHAPE, "sum-apart", ech_graph_array(g, &type, apart, rank), &array, 1);
    apart[1] = first; /* without the second */
    EchId parts =
        ech_graph_add_new(g, i.computation, ECH_HLO_REDUCE, "sum-parts", ech_graph_array(g, &type, apart + 1, (uint8_t)(rank - 1)), (EchId[]){array, start}, 2);
    size_t n;
    const char *said = ech_program_attribute(&i, "metadata", &n);
    g_autofree char *metadata = said ? g_strdup_printf(", metadata=%.*s", (int)MIN(n, 4096), said) : g_strdup("");
    static const char *const over[2] = {"dimensions={1}", "dimensions={0}"};
    for (unsigned k = 0; k < 2; k++) {
        g_autofree char *text = g_strconcat(over[k], metadata, NULL);
        if (k == 1)
            ech_graph_become(g, id, ECH_HLO_REDUCE, (EchId[]){parts, start}, 2);
        EchInstruction *node = ech_graph_node(g, k ? id : parts);
        node->attributes = ech_program_builder_string(g->out, text, -1);
        node->attributes_n = (uint32_t)strlen(text);
        ech_graph_set_called(g, k ? id : parts, body);
    }
    return true;
}

void ech_graph_split_sums(EchGraph *g)
{
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n && changed < MOST_SUMS; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode == ECH_HLO_REDUCE && i->n_operands == 2 && i->n_called == 1 && i->n_control == 0 && !ech_graph_computation(g, i->computation)->body)
            changed += split(g, id);
    }
    if (changed > 0)
        ech_diag_note(g->diag, "sums_in_two_steps", changed);
}
