/* Sorts that keep what is equal in order: where nothing they sort says where each element came from, XLA's StableSortExpander sorts its position with it, of 32
 * bits, and compares that where all else is equal. */
#include "sim/program/graph.h"

#include <string.h>

static bool is_stable(const EchInstruction *i)
{
    size_t n;
    const char *text = ech_program_attribute(i, "is_stable", &n);
    return text && n == 4 && memcmp(text, "true", 4) == 0;
}

/* The dimension that an array counts along, -1 for none. */
static int64_t counts_along(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id), *iota = i;
    if (i->opcode == ECH_HLO_BROADCAST && i->n_operands == 1)
        iota = ech_graph_node(g, ech_graph_operand(g, id, 0));
    int64_t along, to[ECH_LAYOUT_MAX_RANK];
    if (iota->opcode != ECH_HLO_IOTA || ech_program_attribute_numbers(iota, "iota_dimension", &along, 1) != 1 || along < 0)
        return -1;
    if (iota == i)
        return along;
    size_t n = ech_program_attribute_numbers(i, "dimensions", to, G_N_ELEMENTS(to));
    return (size_t)along < MIN(n, G_N_ELEMENTS(to)) ? to[along] : -1;
}

/* The positions along the dimension that @sort is along; ECH_NONE where it has them, or it is none that this is known of. */
static EchId positions_for(EchGraph *g, EchId sort)
{
    const EchInstruction i = *ech_graph_node(g, sort);
    int64_t along;
    if (ech_program_attribute_numbers(&i, "dimensions", &along, 1) != 1)
        return ECH_NONE;
    for (uint32_t k = 0; k < i.n_operands; k++) {
        if (counts_along(g, ech_graph_operand(g, sort, k)) == along)
            return ECH_NONE;
    }
    const EchLayout *first = ech_graph_layout(g, ech_graph_operand(g, sort, 0));
    if (!first || along < 0 || along >= first->rank)
        return ECH_NONE;
    EchLayout whole = *first;
    g_strlcpy(whole.dtype, "s32", sizeof whole.dtype);
    whole.bits = 32;
    whole.element_bits = 0;
    if (g->generation > 0)
        ech_layout_choose_tiles(&whole, g->generation);
    EchId id = ech_graph_add_new(g, i.computation, ECH_HLO_IOTA, "position", ech_program_builder_array(g->out, &whole), NULL, 0);
    g_autofree char *text = g_strdup_printf("iota_dimension=%" G_GINT64_FORMAT, along);
    ech_graph_node(g, id)->attributes = ech_program_builder_string(g->out, text, -1);
    ech_graph_node(g, id)->attributes_n = (uint32_t)strlen(text);
    return id;
}

/* What reads a tuple of the sort's, or ECH_NONE where something else than its members is read. */
static bool only_members_read(const EchGraph *g, EchId sort)
{
    for (uint32_t u = g->first_use[sort]; u < g->first_use[sort + 1]; u++) {
        if (ech_graph_node(g, g->uses[u].user)->opcode != ECH_HLO_GET_TUPLE_ELEMENT)
            return false;
    }
    return ech_graph_computation(g, ech_graph_node(g, sort)->computation)->root != sort;
}

void ech_graph_keep_order(EchGraph *g)
{
    ech_graph_find_uses(g);
    size_t n_nodes = g->n_known;
    for (EchId id = 0; id < n_nodes; id++) {
        const EchInstruction i = *ech_graph_node(g, id);
        bool is_tuple = ech_graph_shape(g, id)->is_tuple;
        if (i.opcode != ECH_HLO_SORT || !g->live[id] || i.n_operands == 0 || i.n_control > 0 || i.n_called != 1 || !is_stable(&i) ||
            (is_tuple && !only_members_read(g, id)))
            continue;
        EchId position = positions_for(g, id);
        if (position == ECH_NONE)
            continue;
        g_autofree EchId *operands = g_new(EchId, (size_t)i.n_operands + 1), *members = g_new(EchId, (size_t)i.n_operands + 1);
        for (uint32_t k = 0; k < i.n_operands; k++) {
            operands[k] = ech_graph_operand(g, id, k);
            members[k] = ech_graph_node(g, operands[k])->shape;
        }
        operands[i.n_operands] = position;
        members[i.n_operands] = ech_graph_node(g, position)->shape;
        EchId shape = ech_program_builder_tuple(g->out, members, i.n_operands + 1);
        if (shape == ECH_NONE)
            continue;
        EchInstruction made = i;
        made.shape = shape;
        EchId sort = ech_graph_add(g, i.computation, made, operands, i.n_operands + 1);
        ech_graph_set_called(g, sort, ech_graph_called(g, id, 0));
        for (uint32_t u = g->first_use[id]; is_tuple && u < g->first_use[id + 1]; u++)
            ech_graph_set_operand(g, g->uses[u].user, g->uses[u].operand, sort);
        if (!is_tuple) {
            ech_graph_become(g, id, ECH_HLO_GET_TUPLE_ELEMENT, &sort, 1);
            ech_graph_node(g, id)->number = 0;
            ech_graph_node(g, id)->n_called = 0;
        }
    }
}
