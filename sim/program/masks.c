/* Scatters that a TPU's compiler makes element by element: one update for each row of an array that holds one number (the gradient of picking one element of
 * each row, as every cross-entropy does) is a choice between the update and that number, by whether the index is the row's. Seen in all such scatters of 20
 * compiles by libtpu 0.0.52 (v4 to tpu7x); rows with several updates, and arrays that hold something, stay scatters there. */
#include "sim/program/graph.h"

#include <string.h>

/* The dimension that the indices of a scatter run along, one for each of all the rows; -1 for any other scatter. */
static int picked_dimension(const EchGraph *g, EchId scatter)
{
    const EchInstruction *i = ech_graph_node(g, scatter);
    const EchLayout *into = ech_graph_layout(g, scatter);
    if (i->opcode != ECH_HLO_SCATTER || i->n_operands != 3 || !into || into->rank == 0)
        return -1;
    int64_t inserted[ECH_LAYOUT_MAX_RANK], picked[ECH_LAYOUT_MAX_RANK], batch[ECH_LAYOUT_MAX_RANK];
    size_t n[3];
    const char *const names[3] = {"inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims"};
    int64_t *const into_lists[3] = {inserted, picked, batch};
    for (unsigned k = 0; k < 3; k++) {
        size_t length;
        const char *text = ech_program_attribute(i, names[k], &length);
        n[k] = text ? ech_program_numbers(text, length, into_lists[k], ECH_LAYOUT_MAX_RANK) : 0;
    }
    bool one = n[0] == 1 && n[1] == 1 && inserted[0] == picked[0] && picked[0] >= 0 && picked[0] < into->rank && n[2] + 1 == into->rank;
    for (size_t k = 0; one && k < n[2]; k++)
        one = batch[k] == (int64_t)k + ((int64_t)k >= picked[0]); /* all the others, in their order */
    return one && ech_graph_count(g, ech_graph_operand(g, scatter, 2)) == ech_graph_count(g, scatter) / MAX(into->dims[picked[0]], 1) ? (int)picked[0] : -1;
}

/* An array with one number (of each row) for every place of @whole but along @dim, there again and again. */
static EchId along(EchGraph *g, EchId computation, EchId id, const EchLayout *whole, uint8_t dim)
{
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    int8_t to[ECH_LAYOUT_MAX_RANK];
    uint8_t rank = 0;
    for (uint8_t d = 0; d < whole->rank; d++) {
        if (d == dim)
            continue;
        to[rank] = (int8_t)d;
        dims[rank++] = whole->dims[d];
    }
    EchLayout type = *ech_graph_layout(g, id);
    EchId row = ech_graph_add_new(g, computation, ECH_HLO_RESHAPE, "mask-row", ech_graph_array(g, &type, dims, rank), &id, 1);
    return ech_graph_spread(g, computation, row, to, whole->dims, whole->rank);
}

void ech_graph_mask_updates(EchGraph *g)
{
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n; id++) {
        EchInstruction i = *ech_graph_node(g, id);
        if (ech_graph_computation(g, i.computation)->body || i.n_control > 0)
            continue;
        int dim = picked_dimension(g, id);
        EchId table = dim < 0 ? ECH_NONE : ech_graph_operand(g, id, 0);
        if (table == ECH_NONE || ech_graph_node(g, table)->opcode != ECH_HLO_BROADCAST || ech_graph_count(g, ech_graph_operand(g, table, 0)) != 1)
            continue;
        EchLayout whole = *ech_graph_layout(g, id), index = *ech_graph_layout(g, ech_graph_operand(g, id, 1)), truth = index;
        strcpy(truth.dtype, "pred");
        truth.bits = 8;
        truth.element_bits = 0;
        EchId places = ech_graph_add_new(g, i.computation, ECH_HLO_IOTA, "mask-places", ech_graph_array(g, &index, whole.dims, whole.rank), NULL, 0);
        EchId sides[2] = {along(g, i.computation, ech_graph_operand(g, id, 1), &whole, (uint8_t)dim), places};
        EchId here = ech_graph_add_new(g, i.computation, ECH_HLO_COMPARE, "mask-here", ech_graph_array(g, &truth, whole.dims, whole.rank), sides, 2);
        EchId choice[3] = {here, along(g, i.computation, ech_graph_operand(g, id, 2), &whole, (uint8_t)dim), table};
        ech_graph_become(g, id, ECH_HLO_SELECT, choice, 3);
        ech_graph_node(g, id)->n_called = 0;
        changed++;
    }
    if (changed > 0)
        ech_diag_note(g->diag, "updates_by_masks", changed);
}
