/* Sums as XLA makes them for GPUs: over dimensions that do not lie together the largest first (reduction_splitter.cc), over many rows in two steps, since
 * blocks do not add up together (tree_reduction_rewriter.cc: more than a block's 32 rows of threads times 128). Those along rows are priced in pieces as it is.
 */
#include "sim/program/graph.h"

#include <math.h>
#include <string.h>

#define MOST_SUMS 16384 /* of a program, with what they are split into; each may look at 49,000 factors */

enum { ROWS = 32 * 128, FEW = 8 };

/* The largest factor up to the root; 0 where none comes near it, and of more than are looked through. */
static uint64_t factor_of(uint64_t n)
{
    if (n > UINT32_MAX)
        return 0;
    uint64_t root = (uint64_t)sqrt((double)n);
    for (uint64_t k = root; k >= MAX(root / 4, 2u); k--)
        if (n % k == 0)
            return k;
    return 0;
}

uint8_t ech_graph_summed(const EchInstruction *i, const EchLayout *from, bool *ret)
{
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n;
    const char *text = ech_program_attribute(i, "dimensions", &n);
    size_t count = text ? ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)) : 0;
    memset(ret, 0, ECH_LAYOUT_MAX_RANK * sizeof *ret);
    if (count == 0 || count > from->rank)
        return 0;
    for (size_t k = 0; k < count; k++) {
        if (dims[k] < 0 || dims[k] >= from->rank || ret[dims[k]])
            return 0;
        ret[dims[k]] = true;
    }
    for (uint8_t d = 0; d < from->rank; d++)
        if (from->order[d] != from->rank - 1 - d)
            return 0;
    return (uint8_t)count;
}

EchId ech_graph_sum(EchGraph *g, const EchInstruction *like, EchId array, EchId start, EchId body, const uint64_t *dims, uint8_t rank, const bool *summed,
                    EchId into)
{
    const EchLayout type = *ech_graph_layout(g, array);
    uint64_t left[ECH_LAYOUT_MAX_RANK];
    uint8_t n_left = 0;
    g_autoptr(GString) text = g_string_new("dimensions={");
    for (uint8_t d = 0; d < rank; d++) {
        if (summed[d])
            g_string_append_printf(text, "%s%u", text->str[text->len - 1] == '{' ? "" : ",", d);
        else
            left[n_left++] = dims[d];
    }
    g_string_append_c(text, '}');
    size_t n;
    const char *said = ech_program_attribute(like, "metadata", &n);
    if (said)
        g_string_append_printf(text, ", metadata=%.*s", (int)MIN(n, 4096), said);
    if (into == ECH_NONE)
        into = ech_graph_add_new(g, like->computation, ECH_HLO_REDUCE, "sum-parts", ech_graph_array(g, &type, left, n_left), (EchId[]){array, start}, 2);
    else
        ech_graph_become(g, into, ECH_HLO_REDUCE, (EchId[]){array, start}, 2);
    EchInstruction *node = ech_graph_node(g, into);
    node->attributes = ech_program_builder_string(g->out, text->str, (gssize)text->len);
    node->attributes_n = (uint32_t)text->len;
    ech_graph_set_called(g, into, body);
    return into;
}

static bool split(EchGraph *g, EchId id)
{
    const EchInstruction i = *ech_graph_node(g, id);
    EchId array = ech_graph_operand(g, id, 0), start = ech_graph_operand(g, id, 1), body = ech_graph_called(g, id, 0);
    const EchLayout *layout = ech_graph_layout(g, array);
    bool summed[ECH_LAYOUT_MAX_RANK], now[ECH_LAYOUT_MAX_RANK] = {false};
    uint8_t count = layout ? ech_graph_summed(&i, layout, summed) : 0, first_dim = ECH_LAYOUT_MAX_RANK, largest = 0, stretches = 0;
    if (count == 0)
        return false;
    const EchLayout type = *layout;
    uint64_t rows = 1, columns = 1;
    bool within = false;
    for (uint8_t d = 0; d < type.rank; d++) {
        if (type.dims[d] > 1) {
            stretches = (uint8_t)(stretches + (summed[d] && !within));
            within = summed[d];
        }
        if (!summed[d]) {
            columns = first_dim < ECH_LAYOUT_MAX_RANK ? ech_bytes_mul(columns, type.dims[d]) : columns;
            continue;
        }
        first_dim = MIN(first_dim, d);
        largest = !summed[largest] || type.dims[d] > type.dims[largest] ? d : largest;
        rows = ech_bytes_mul(rows, type.dims[d]);
    }
    if (stretches > 1 && type.dims[largest] > FEW) { /* apart from each other: the largest first */
        now[largest] = true;
        EchId parts = ech_graph_sum(g, &i, array, start, body, type.dims, type.rank, now, ECH_NONE);
        uint64_t left[ECH_LAYOUT_MAX_RANK];
        bool then[ECH_LAYOUT_MAX_RANK] = {false};
        uint8_t rank = 0;
        for (uint8_t d = 0; d < type.rank; d++) {
            if (d == largest)
                continue;
            then[rank] = summed[d];
            left[rank++] = type.dims[d];
        }
        (void)ech_graph_sum(g, &i, parts, start, body, left, rank, then, id);
        return true;
    }
    for (uint8_t d = first_dim; d < first_dim + count; d++)
        if (d >= type.rank || !summed[d])
            return false;
    uint64_t first = rows > ROWS && columns > 1 && type.rank - count + 2 <= ECH_LAYOUT_MAX_RANK ? factor_of(rows) : 0;
    if (first == 0)
        return false;
    uint64_t apart[ECH_LAYOUT_MAX_RANK], left[ECH_LAYOUT_MAX_RANK];
    uint8_t rank = 0;
    for (uint8_t d = 0; d < type.rank; d++) {
        if (d == first_dim) {
            apart[rank++] = first;
            apart[rank++] = rows / first;
        } else if (!summed[d])
            apart[rank++] = type.dims[d];
    }
    array = ech_graph_add_new(g, i.computation, ECH_HLO_RESHAPE, "sum-apart", ech_graph_array(g, &type, apart, rank), &array, 1);
    now[first_dim + 1] = true;
    EchId parts = ech_graph_sum(g, &i, array, start, body, apart, rank, now, ECH_NONE);
    for (uint8_t d = 0, at = 0; d < rank; d++)
        if (d != first_dim + 1)
            left[at++] = apart[d];
    now[first_dim + 1] = false;
    now[first_dim] = true;
    (void)ech_graph_sum(g, &i, parts, start, body, left, (uint8_t)(rank - 1), now, id);
    return true;
}

void ech_graph_split_sums(EchGraph *g)
{
    uint64_t changed = 0, seen = 0;
    for (EchId id = 0; id < g->nodes->len && seen < MOST_SUMS; id++) { /* parts are looked at, too */
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode != ECH_HLO_REDUCE || i->n_operands != 2 || i->n_called != 1 || i->n_control > 0 || ech_graph_computation(g, i->computation)->body)
            continue;
        changed += split(g, id);
        seen++;
    }
    if (changed > 0)
        ech_diag_note(g->diag, "sums_in_two_steps", changed);
}
