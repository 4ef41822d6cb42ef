/* The largest few of each row by a sort of all, and sorts that keep what is equal in order: where nothing they sort says where each element came from, XLA's
 * StableSortExpander sorts its position with it, of 32 bits, and compares that where all else is equal. */
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

/* Are rows sorted whole on a TPU for their largest few, not found by a kernel of their own? That is for matrices of floats, and not for many: libtpu 0.0.52,
 * v5e and v6e, 300 pairs of 1 to 512 of 8 to 131,072, but for 256 and more, which go either way (three quarters of them as here). */
static bool is_sorted_whole(const EchLayout *all, uint64_t wanted)
{
    uint64_t row = all->dims[all->rank - 1];
    return all->rank != 2 || all->dtype[0] == 's' || all->dtype[0] == 'u' || (wanted == 2 ? row < 128 : wanted > 1 && wanted > row * 3 / 256);
}

/* Rows of @array by a sort: them and their positions, of 16 bits both in one number of 32. *@ret: what is sorted of either. */
static bool sort_rows(EchGraph *g, EchId computation, EchId array, EchId ret[2])
{
    const EchLayout *all = ech_graph_layout(g, array);
    bool packed = strcmp(all->dtype, "bf16") == 0;
    EchLayout number = *all;
    if (packed) {
        g_strlcpy(number.dtype, "s32", sizeof number.dtype);
        number.bits = 32;
        ech_layout_choose_tiles(&number, g->generation);
        array = ech_graph_add_new(g, computation, ECH_HLO_CONVERT, "packed", ech_program_builder_array(g->out, &number), &array, 1);
    }
    g_autofree char *text = g_strdup_printf("dimensions={%u}%s", number.rank - 1u, packed ? "" : ", is_stable=true");
    EchId sort = ech_graph_add_new(g, computation, ECH_HLO_SORT, "sorted", ech_graph_node(g, array)->shape, &array, 1);
    ech_graph_node(g, sort)->attributes = ech_program_builder_string(g->out, text, -1);
    ech_graph_node(g, sort)->attributes_n = (uint32_t)strlen(text);
    EchId reducer = ech_graph_add_reducer(g, ECH_HLO_MAXIMUM, ech_graph_array(g, &number, NULL, 0));
    ret[0] = ret[1] = sort;
    if (!packed) {
        EchId operands[2] = {array, positions_for(g, sort)};
        EchId members[2] = {ech_graph_node(g, array)->shape, operands[1] == ECH_NONE ? ECH_NONE : ech_graph_node(g, operands[1])->shape};
        EchId shape = operands[1] == ECH_NONE ? ECH_NONE : ech_program_builder_tuple(g->out, members, 2);
        if (shape == ECH_NONE)
            return false;
        EchInstruction both = *ech_graph_node(g, sort);
        both.shape = shape;
        sort = ech_graph_add(g, computation, both, operands, 2);
        for (unsigned k = 0; k < 2; k++) {
            ret[k] = ech_graph_add_new(g, computation, ECH_HLO_GET_TUPLE_ELEMENT, "sorted", members[k], &sort, 1);
            ech_graph_node(g, ret[k])->number = k;
        }
    }
    ech_graph_set_called(g, sort, reducer);
    return true;
}

void ech_graph_sort_largest(EchGraph *g)
{
    ech_graph_find_uses(g);
    size_t n_nodes = g->n_known;
    for (EchId id = 0; id < n_nodes; id++) {
        const EchInstruction i = *ech_graph_node(g, id);
        int64_t wanted;
        if (i.opcode != ECH_HLO_TOPK || !g->live[id] || i.n_operands != 1 || i.n_control > 0 || !only_members_read(g, id) ||
            ech_program_attribute_numbers(&i, "k", &wanted, 1) != 1 || wanted < 1)
            continue;
        EchId array = ech_graph_operand(g, id, 0), sorted[2];
        const EchLayout *own = ech_graph_layout(g, array);
        if (!own || own->rank == 0 || own->bits == 0 || !is_sorted_whole(own, (uint64_t)wanted))
            continue;
        EchLayout few = *own;
        g_autoptr(GString) slice = g_string_new("slice={");
        for (unsigned d = 0; d < few.rank; d++) {
            few.dims[d] = d + 1u == few.rank ? (uint64_t)wanted : few.dims[d];
            g_string_append_printf(slice, "%s[0:%" G_GUINT64_FORMAT "]", d ? ", " : "", few.dims[d]);
        }
        g_string_append_c(slice, '}');
        if (!sort_rows(g, i.computation, array, sorted))
            continue;
        for (uint32_t u = g->first_use[id]; u < g->first_use[id + 1]; u++) {
            EchId member = g->uses[u].user, from = sorted[ech_graph_node(g, member)->number == 1], cut = member;
            if (strcmp(ech_graph_layout(g, from)->dtype, ech_graph_layout(g, member)->dtype) != 0) {
                cut =
                    ech_graph_add_new(g, i.computation, ECH_HLO_SLICE, "largest", ech_graph_array(g, ech_graph_layout(g, from), few.dims, few.rank), &from, 1);
                ech_graph_become(g, member, ECH_HLO_CONVERT, &cut, 1);
            } else
                ech_graph_become(g, member, ECH_HLO_SLICE, &from, 1);
            ech_graph_node(g, cut)->attributes = ech_program_builder_string(g->out, slice->str, (gssize)slice->len);
            ech_graph_node(g, cut)->attributes_n = (uint32_t)slice->len;
        }
    }
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
