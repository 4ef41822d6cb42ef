/* Which way round an array lies that a loop carries and writes rows of in each round, as decoding does its cache of all layers. Nothing settles that outside of
 * the loop, so a TPU's compiler takes what is written as it is made: a product whose columns are reshaped into heads is a convolution there, whose result has a
 * head's columns on the lanes, the product's last dimension of rows on rows, heads behind, then its other dimensions. Arguments are turned before the loop,
 * then, and results back behind it. (libtpu 0.0.52, v5e: 24 loops of 1 to 32 sequences, 1 to 16 heads, one to 256 rows at a time, rotated, normalised or not.)
 */
#include "sim/program/graph.h"

enum { MAX_STEPS = 64 };

typedef struct {
    uint8_t at[ECH_LAYOUT_MAX_RANK], n;
} Dims;

/* Dimensions above 1, major first. */
static Dims wide_dims(const EchLayout *l)
{
    Dims ret = {.n = 0};
    for (uint8_t d = 0; d < l->rank; d++) {
        if (l->dims[d] != 1)
            ret.at[ret.n++] = d;
    }
    return ret;
}

/* Dimensions of a product's second factor that are columns of its result. */
static size_t columns_of(const EchGraph *g, EchId product)
{
    const EchInstruction *i = ech_graph_node(g, product);
    const EchLayout *factor = ech_graph_layout(g, ech_graph_operand(g, product, 1));
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n = ech_program_attribute_numbers(i, "rhs_contracting_dims", dims, G_N_ELEMENTS(dims)) +
               ech_program_attribute_numbers(i, "rhs_batch_dims", dims, G_N_ELEMENTS(dims));
    return factor && factor->rank >= n ? factor->rank - n : 0;
}

/* How many of the last of @array's dimensions @wide are what the columns of product @id were split into: 2, 1 where they were not; 0 where it is no product
 * that could be reshaped into that. */
static unsigned heads_of(const EchGraph *g, EchId id, const EchLayout *array, const Dims *wide)
{
    const EchLayout *product = ech_graph_layout(g, id);
    if (ech_graph_node(g, id)->opcode == ECH_HLO_REDUCE && product && wide->n == 2) /* a product of one row is a sum by now */
        return ech_graph_count(g, id) == array->dims[wide->at[0]] * array->dims[wide->at[1]] && wide_dims(product).n == 1 ? 2 : 0;
    if (ech_graph_node(g, id)->opcode != ECH_HLO_DOT || ech_graph_node(g, id)->n_operands < 2 || !product || wide->n == 0)
        return 0;
    Dims own = wide_dims(product);
    unsigned split = own.n + 1 == wide->n ? 2 : own.n == wide->n ? (columns_of(g, id) == 2 ? 2 : 1) : 0;
    if (split == 0)
        return 0;
    uint8_t rows = (uint8_t)(own.n == wide->n ? own.n : own.n - 1);
    for (uint8_t k = 0; k < rows; k++) {
        if (product->dims[own.at[k]] != array->dims[wide->at[k]])
            return 0;
    }
    return split;
}

/* The same of what is written: such a product, or computed of one element by element. */
static unsigned written_heads(const EchGraph *g, EchId update)
{
    EchId stack[MAX_STEPS];
    unsigned n = 1;
    const EchLayout *row = ech_graph_layout(g, update);
    Dims wide = wide_dims(row);
    stack[0] = update;
    for (unsigned seen = 0; n > 0 && seen < MAX_STEPS; seen++) {
        EchId id = stack[--n];
        const EchInstruction *i = ech_graph_node(g, id);
        if (!ech_graph_layout(g, id))
            continue;
        unsigned heads = heads_of(g, id, row, &wide);
        if (heads > 0)
            return heads;
        bool follows = ech_hlo_is_elementwise((EchHlo)i->opcode) || i->opcode == ECH_HLO_RESHAPE || i->opcode == ECH_HLO_BITCAST ||
                       i->opcode == ECH_HLO_TRANSPOSE || i->opcode == ECH_HLO_CONCATENATE || i->opcode == ECH_HLO_SLICE;
        for (uint32_t k = i->n_operands; follows && k-- > 0 && n < MAX_STEPS;) {
            EchId operand = ech_graph_operand(g, id, k);
            if (ech_graph_count(g, operand) >= ech_graph_count(g, id) / 2 && ech_graph_node(g, operand)->opcode != ECH_HLO_BROADCAST)
                stack[n++] = operand;
        }
    }
    return 0;
}

static void put(EchLayout *layout, uint8_t *at, uint8_t dim)
{
    for (uint8_t k = 0; k < *at; k++) {
        if (layout->order[k] == dim)
            return;
    }
    layout->order[(*at)++] = dim;
}

/* Is @id element @member of what its computation, a loop's body, was given? */
static bool is_carried(const EchGraph *g, EchId id, uint32_t member)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return i->opcode == ECH_HLO_GET_TUPLE_ELEMENT && i->number == member && ech_graph_node(g, ech_graph_operand(g, id, 0))->opcode == ECH_HLO_PARAMETER;
}

/* What @body makes of element @member of its loop; of a loop over loops (tokens over layers), what the innermost makes, with its *@member. ECH_NONE where it
 * does not carry that alone. */
static EchId find_written(const EchGraph *g, EchId body, uint32_t *member)
{
    for (unsigned depth = 0; depth < MAX_STEPS; depth++) {
        EchId root = ech_graph_computation(g, body)->root;
        const EchInstruction *tuple = ech_graph_node(g, root);
        if (tuple->opcode != ECH_HLO_TUPLE || *member >= tuple->n_operands)
            return ECH_NONE;
        EchId written = ech_graph_operand(g, root, *member), loop, init;
        const EchInstruction *i = ech_graph_node(g, written);
        if (i->opcode != ECH_HLO_GET_TUPLE_ELEMENT || ech_graph_node(g, loop = ech_graph_operand(g, written, 0))->opcode != ECH_HLO_WHILE)
            return written;
        const EchInstruction *inner = ech_graph_node(g, loop);
        if (inner->n_called < 2 || inner->n_operands != 1 || ech_graph_node(g, init = ech_graph_operand(g, loop, 0))->opcode != ECH_HLO_TUPLE ||
            i->number < 0 || i->number >= ech_graph_node(g, init)->n_operands || !is_carried(g, ech_graph_operand(g, init, (uint32_t)i->number), *member))
            return ECH_NONE;
        body = ech_graph_called(g, loop, 1);
        *member = (uint32_t)i->number;
    }
    return ECH_NONE;
}

/* Rows that are scattered: what each has lies innermost, behind it where they are put (libtpu 0.0.52, v5e: caches of heads by tokens and tokens by heads, of
 * one row of all heads). */
static bool lay_scattered(const EchGraph *g, EchId written, uint32_t member, EchLayout *ret)
{
    const EchInstruction *i = ech_graph_node(g, written);
    const EchLayout *cache = ech_graph_layout(g, written);
    int64_t put_at[ECH_LAYOUT_MAX_RANK];
    size_t n = ech_program_attribute_numbers(i, "inserted_window_dims", put_at, G_N_ELEMENTS(put_at));
    if (i->n_operands != 3 || n == 0 || n >= cache->rank || !is_carried(g, ech_graph_operand(g, written, 0), member))
        return false;
    bool picked[ECH_LAYOUT_MAX_RANK] = {false}, wide = false;
    for (size_t k = 0; k < n; k++)
        picked[put_at[k] >= 0 && put_at[k] < cache->rank ? put_at[k] : 0] = true;
    EchLayout layout = *cache;
    uint8_t at = 0;
    for (unsigned outer = 0; outer < 2; outer++) {
        for (uint8_t d = layout.rank; d-- > 0;) {
            if (picked[d] != (outer == 1))
                continue;
            wide |= outer == 0 && layout.dims[d] != 1;
            put(&layout, &at, d);
        }
    }
    layout.has_layout = true;
    ech_layout_choose_tiles(&layout, g->generation);
    *ret = layout;
    return wide;
}

bool ech_graph_cache_layout(const EchGraph *g, EchId body, uint32_t member, EchLayout *ret)
{
    EchId written = find_written(g, body, &member);
    if (written == ECH_NONE)
        return false;
    const EchInstruction *i = ech_graph_node(g, written);
    const EchLayout *cache = ech_graph_layout(g, written);
    if (i->opcode == ECH_HLO_SCATTER && cache && cache->space == ECH_SPACE_HBM && cache->bits > 0)
        return lay_scattered(g, written, member, ret);
    if (i->opcode != ECH_HLO_DYNAMIC_UPDATE_SLICE || i->n_operands < 2 || !cache || cache->space != ECH_SPACE_HBM || cache->bits == 0)
        return false;
    EchId into = ech_graph_operand(g, written, 0), update = ech_graph_operand(g, written, 1);
    const EchLayout *row = ech_graph_layout(g, update);
    if (!is_carried(g, into, member) || !row || row->rank != cache->rank)
        return false;
    Dims wide = wide_dims(row);
    unsigned heads = wide.n >= 2 ? written_heads(g, update) : 0;
    if (heads == 0)
        return false;
    EchLayout layout = *cache;
    uint8_t at = 0, last = wide.n;
    put(&layout, &at, wide.at[--last]);
    if (wide.n > heads)
        put(&layout, &at, wide.at[wide.n - heads - 1]);
    for (uint8_t d = cache->rank; wide.n == heads && d-- > 0 && at < 2;) { /* one row: where it is put */
        if (row->dims[d] == 1 && cache->dims[d] != 1)
            put(&layout, &at, d);
    }
    while (last-- > 0)
        put(&layout, &at, wide.at[last]);
    for (uint8_t d = layout.rank; d-- > 0;)
        put(&layout, &at, d);
    layout.has_layout = true;
    ech_layout_choose_tiles(&layout, g->generation);
    *ret = layout;
    return true;
}
