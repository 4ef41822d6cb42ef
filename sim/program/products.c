/* Products that a compiler computes on the vector unit: those that sum nothing are element-wise products, those with a vector on one side are element-wise
 * products that are summed. Source: XLA's AlgebraicSimplifier (dot strength reduction; for GPUs GpuAlgebraicSimplifierVisitor), and what libtpu 0.0.51 makes of
 * such products. */
#include "sim/program/graph.h"

#include <string.h>

#define SMALL 10000000 /* multiply-accumulates: XLA's threshold */

typedef struct {
    uint8_t rank;
    int8_t to[ECH_LAYOUT_MAX_RANK];      /* dimension of the product's result, or -1: summed */
    int8_t partner[ECH_LAYOUT_MAX_RANK]; /* summed: the other side's dimension */
    bool lone[ECH_LAYOUT_MAX_RANK];      /* of this side alone */
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    uint64_t alone, summed, batch; /* product of the sizes of such; batch: of what both have */
    bool one;                      /* has dimensions of its own, all of them 1 */
} Side;

static size_t list(const EchInstruction *i, const char *name, uint8_t rank, int64_t *ret)
{
    size_t n;
    const char *text = ech_program_attribute(i, name, &n);
    size_t count = text ? ech_program_numbers(text, n, ret, ECH_LAYOUT_MAX_RANK) : 0;
    for (size_t k = 0; k < count; k++) {
        if (count > ECH_LAYOUT_MAX_RANK || ret[k] < 0 || ret[k] >= rank)
            return SIZE_MAX;
    }
    return count;
}

/* Both sides of a dot; false where its text does not hold together. */
static bool read_sides(const EchGraph *g, EchId dot, Side side[2])
{
    static const char *const batch_names[2] = {"lhs_batch_dims", "rhs_batch_dims"}, *const summed_names[2] = {"lhs_contracting_dims", "rhs_contracting_dims"};
    const EchInstruction *i = ech_graph_node(g, dot);
    const EchLayout *out = ech_graph_layout(g, dot);
    int64_t batch[2][ECH_LAYOUT_MAX_RANK], summed[2][ECH_LAYOUT_MAX_RANK];
    size_t n_batch[2], n_summed[2];
    if (i->n_operands != 2 || !out)
        return false;
    for (unsigned s = 0; s < 2; s++) {
        const EchLayout *l = ech_graph_layout(g, ech_graph_operand(g, dot, s));
        if (!l)
            return false;
        side[s] = (Side){.rank = l->rank, .alone = 1, .summed = 1, .batch = 1};
        n_batch[s] = list(i, batch_names[s], l->rank, batch[s]);
        n_summed[s] = list(i, summed_names[s], l->rank, summed[s]);
        if (n_batch[s] == SIZE_MAX || n_summed[s] == SIZE_MAX)
            return false;
        memcpy(side[s].dims, l->dims, l->rank * sizeof l->dims[0]);
    }
    if (n_batch[0] != n_batch[1] || n_summed[0] != n_summed[1])
        return false;
    int8_t next = (int8_t)n_batch[0];
    for (unsigned s = 0; s < 2; s++) {
        for (uint8_t d = 0; d < side[s].rank; d++)
            side[s].lone[d] = true;
        for (size_t k = 0; k < n_batch[s]; k++) {
            side[s].to[batch[s][k]] = (int8_t)k;
            side[s].lone[batch[s][k]] = false;
            side[s].batch = ech_bytes_mul(side[s].batch, side[s].dims[batch[s][k]]);
        }
        for (size_t k = 0; k < n_summed[s]; k++) {
            side[s].to[summed[s][k]] = -1;
            side[s].partner[summed[s][k]] = (int8_t)summed[1 - s][k];
            side[s].lone[summed[s][k]] = false;
            side[s].summed = ech_bytes_mul(side[s].summed, side[s].dims[summed[s][k]]);
            if (side[s].dims[summed[s][k]] != side[1 - s].dims[summed[1 - s][k]])
                return false;
        }
        for (uint8_t d = 0; d < side[s].rank; d++) {
            if (!side[s].lone[d])
                continue;
            side[s].to[d] = next++;
            side[s].alone = ech_bytes_mul(side[s].alone, side[s].dims[d]);
            side[s].one = side[s].alone == 1;
        }
        for (uint8_t d = 0; d < side[s].rank; d++) {
            if (side[s].to[d] >= 0 && (side[s].to[d] >= out->rank || out->dims[side[s].to[d]] != side[s].dims[d]))
                return false;
        }
    }
    return next == (int8_t)out->rank;
}

EchId ech_graph_array(EchGraph *g, const EchLayout *like, const uint64_t *dims, uint8_t rank)
{
    EchLayout layout = {.bits = like->bits, .element_bits = like->element_bits, .rank = rank, .has_layout = true, .tail_alignment = 1};
    memcpy(layout.dtype, like->dtype, sizeof layout.dtype);
    for (uint8_t d = 0; d < rank; d++) {
        layout.dims[d] = dims[d];
        layout.order[d] = (uint8_t)(rank - 1 - d);
    }
    if (g->generation > 0 && layout.bits > 0)
        ech_layout_choose_tiles(&layout, g->generation);
    return ech_program_builder_array(g->out, &layout);
}

/* Gives @id the attribute "dimensions"; @metadata: of what it stands for, or "". */
static void set_dimensions(EchGraph *g, EchId id, const uint8_t *dims, uint8_t n, const char *metadata)
{
    g_autoptr(GString) text = g_string_new("dimensions={");
    for (uint8_t k = 0; k < n; k++)
        g_string_append_printf(text, "%s%u", k ? "," : "", dims[k]);
    g_string_append_printf(text, "}%s", metadata);
    EchInstruction *node = ech_graph_node(g, id);
    node->attributes = ech_program_builder_string(g->out, text->str, (gssize)text->len);
    node->attributes_n = (uint32_t)text->len;
}

EchId ech_graph_spread(EchGraph *g, EchId computation, EchId id, const int8_t *to, const uint64_t *dims, uint8_t rank)
{
    EchLayout from = *ech_graph_layout(g, id);
    uint8_t n = 0, map[ECH_LAYOUT_MAX_RANK], sorted[ECH_LAYOUT_MAX_RANK];
    uint64_t wide[ECH_LAYOUT_MAX_RANK];
    bool same = from.rank == rank;
    for (uint8_t d = 0; d < from.rank; d++) {
        same = same && to[d] == (int8_t)d && from.dims[d] == dims[d];
        if (from.dims[d] == 1)
            continue;
        wide[n] = from.dims[d];
        map[n++] = (uint8_t)to[d];
    }
    if (same)
        return id;
    if (n != from.rank)
        id = ech_graph_add_new(g, computation, ECH_HLO_RESHAPE, "dot-reshape", ech_graph_array(g, &from, wide, n), &id, 1);
    bool turned = false;
    for (uint8_t k = 0; k < n; k++) {
        sorted[k] = 0;
        for (uint8_t j = 0; j < n; j++)
            sorted[k] = (uint8_t)(sorted[k] + (map[j] < map[k]));
        turned |= sorted[k] != k;
    }
    if (turned) {
        uint8_t source[ECH_LAYOUT_MAX_RANK];
        uint64_t moved[ECH_LAYOUT_MAX_RANK];
        uint8_t place[ECH_LAYOUT_MAX_RANK];
        for (uint8_t k = 0; k < n; k++) {
            source[sorted[k]] = k;
            moved[sorted[k]] = wide[k];
            place[sorted[k]] = map[k];
        }
        id = ech_graph_add_new(g, computation, ECH_HLO_TRANSPOSE, "dot-transpose", ech_graph_array(g, &from, moved, n), &id, 1);
        set_dimensions(g, id, source, n, "");
        memcpy(map, place, n);
    }
    id = ech_graph_add_new(g, computation, ECH_HLO_BROADCAST, "dot-broadcast", ech_graph_array(g, &from, dims, rank), &id, 1);
    set_dimensions(g, id, map, n, "");
    return id;
}

void ech_graph_become(EchGraph *g, EchId id, EchHlo opcode, const EchId *operands, uint32_t n)
{
    uint32_t first = g->operands->len;
    g_array_append_vals(g->operands, operands, n);
    EchInstruction *node = ech_graph_node(g, id);
    node->opcode = (uint16_t)opcode;
    node->opcode_name = ech_hlo_name(opcode);
    node->attributes = "";
    node->attributes_n = 0;
    node->first_operand = first;
    node->n_operands = n;
}

/* In the type of the product's result. */
static EchId convert(EchGraph *g, EchId computation, EchId id, const EchLayout *type)
{
    const EchLayout *own = ech_graph_layout(g, id);
    if (strcmp(own->dtype, type->dtype) == 0)
        return id;
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    uint8_t rank = own->rank;
    memcpy(dims, own->dims, sizeof dims);
    return ech_graph_add_new(g, computation, ECH_HLO_CONVERT, "dot-convert", ech_graph_array(g, type, dims, rank), &id, 1);
}

/* The sum over the product's dimensions that @whole has and the vector as well. */
static void sum_products(EchGraph *g, EchId dot, const Side side[2], unsigned vector, const EchId operand[2], const char *metadata)
{
    EchId computation = ech_graph_node(g, dot)->computation;
    const Side *whole = &side[1 - vector], *thin = &side[vector];
    EchLayout type = *ech_graph_layout(g, dot);
    /* The vector's dimensions where the other side has them. */
    int8_t to[ECH_LAYOUT_MAX_RANK], left[ECH_LAYOUT_MAX_RANK];
    for (uint8_t d = 0; d < thin->rank; d++) {
        to[d] = thin->to[d] < 0 ? thin->partner[d] : 0;
        for (uint8_t w = 0; thin->to[d] >= 0 && w < whole->rank; w++)
            to[d] = whole->to[w] == thin->to[d] ? (int8_t)w : to[d];
    }
    EchId factors[2] = {operand[1 - vector], ech_graph_spread(g, computation, operand[vector], to, whole->dims, whole->rank)};
    EchId product = ech_graph_add_new(g, computation, ECH_HLO_MULTIPLY, "dot-multiply", ech_graph_array(g, &type, whole->dims, whole->rank), factors, 2);
    uint8_t summed[ECH_LAYOUT_MAX_RANK], n_summed = 0, n_left = 0;
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    for (uint8_t d = 0; d < whole->rank; d++) {
        if (whole->to[d] < 0) {
            summed[n_summed++] = d;
            continue;
        }
        left[n_left] = whole->to[d];
        dims[n_left++] = whole->dims[d];
    }
    EchId scalar = ech_graph_array(g, &type, NULL, 0), zero = ech_graph_add_new(g, computation, ECH_HLO_CONSTANT, "dot-zero", scalar, NULL, 0);
    EchId inputs[2] = {product, zero}, body = ech_graph_add_reducer(g, ECH_HLO_ADD, scalar);
    bool same = n_left == type.rank;
    for (uint8_t k = 0; k < n_left; k++)
        same = same && left[k] == (int8_t)k;
    EchId sum = dot;
    if (same)
        ech_graph_become(g, dot, ECH_HLO_REDUCE, inputs, 2);
    else
        sum = ech_graph_add_new(g, computation, ECH_HLO_REDUCE, "dot-reduce", ech_graph_array(g, &type, dims, n_left), inputs, 2);
    set_dimensions(g, sum, summed, n_summed, metadata);
    ech_graph_set_called(g, sum, body);
    if (same)
        return;
    /* Only lone dimensions of 1 are missing, or batches stand in another order. */
    bool turned = false;
    uint8_t source[ECH_LAYOUT_MAX_RANK];
    for (uint8_t k = 0; k < n_left; k++) {
        uint8_t rank = 0;
        for (uint8_t j = 0; j < n_left; j++)
            rank = (uint8_t)(rank + (left[j] < left[k]));
        source[rank] = k;
        turned |= rank != k;
    }
    if (turned && n_left == type.rank) {
        ech_graph_become(g, dot, ECH_HLO_TRANSPOSE, &sum, 1);
        set_dimensions(g, dot, source, n_left, metadata);
        return;
    }
    if (turned) {
        uint64_t moved[ECH_LAYOUT_MAX_RANK];
        for (uint8_t k = 0; k < n_left; k++)
            moved[k] = dims[source[k]];
        sum = ech_graph_add_new(g, computation, ECH_HLO_TRANSPOSE, "dot-transpose", ech_graph_array(g, &type, moved, n_left), &sum, 1);
        set_dimensions(g, sum, source, n_left, metadata);
    }
    ech_graph_become(g, dot, ECH_HLO_RESHAPE, &sum, 1);
}

void ech_graph_reduce_products(EchGraph *g)
{
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        Side side[2];
        if (i->opcode != ECH_HLO_DOT || ech_graph_computation(g, i->computation)->body || i->n_control > 0 || !read_sides(g, id, side))
            continue;
        /* A TPU's: many at once in 16 bits stay on the matrix unit, where one side has dimensions of its own, but for vectors that are written with a dimension
         * of 1 before tpu7x (libtpu 0.0.52, v5e, v5p, v6e, tpu7x: one query a head of a cache, "bhd,bshd->bhs" and "bgrd,bsgd->bgrs"). A GPU's: only small ones
         * do not, and those of two vectors, which Triton's products cannot do. */
        bool vector = side[0].alone == 1 || side[1].alone == 1, vectors = side[0].alone == 1 && side[1].alone == 1;
        if (g->generation > 0)
            vector = vectors || (vector && (side[0].batch == 1 || ech_graph_layout(g, id)->bits >= 32 || (g->generation < 7 && (side[0].one || side[1].one))));
        else
            vector = vector && (vectors || ech_bytes_mul(ech_bytes_mul(side[0].batch, side[0].summed), ech_bytes_mul(side[0].alone, side[1].alone)) < SMALL);
        if (side[0].summed > 1 && !vector)
            continue;
        EchId computation = i->computation;
        size_t length;
        const char *said = ech_program_attribute(i, "metadata", &length);
        g_autofree char *metadata = said ? g_strdup_printf(", metadata=%.*s", (int)MIN(length, 4096), said) : g_strdup("");
        EchLayout type = *ech_graph_layout(g, id);
        EchId operand[2] = {ech_graph_operand(g, id, 0), ech_graph_operand(g, id, 1)};
        for (unsigned s = 0; s < 2; s++)
            operand[s] = convert(g, computation, operand[s], &type);
        if (side[0].summed == 1) {
            for (unsigned s = 0; s < 2; s++)
                operand[s] = ech_graph_spread(g, computation, operand[s], side[s].to, type.dims, type.rank);
            ech_graph_become(g, id, ECH_HLO_MULTIPLY, operand, 2);
        } else
            sum_products(g, id, side, side[0].alone == 1 ? 0 : 1, operand, metadata);
        changed++;
    }
    if (changed > 0)
        ech_diag_note(g->diag, "products_on_the_vector_unit", changed);
}

/* Is it one of the two comparisons that find the least, or the largest, and where it is? */
static bool finds(const EchGraph *g, EchId reducer, bool least)
{
    const GArray *order = ech_graph_computation(g, reducer)->order;
    for (guint k = 0; k < MIN(order->len, 32u); k++) {
        const EchInstruction *i = ech_graph_node(g, g_array_index(order, EchId, k));
        size_t n;
        const char *way = i->opcode == ECH_HLO_COMPARE ? ech_program_attribute(i, "direction", &n) : NULL;
        if (way && n == 2 && memcmp(way, least ? "LT" : "GT", 2) == 0)
            return true;
    }
    return false;
}

/* Places counted along, from constants: nothing that hangs on another sum. */
static bool counts_places(const EchGraph *g, EchId reduce)
{
    EchId place = ech_graph_operand(g, reduce, 1);
    const EchInstruction *i = ech_graph_node(g, place);
    if (i->opcode == ECH_HLO_BROADCAST && i->n_operands == 1)
        i = ech_graph_node(g, ech_graph_operand(g, place, 0));
    return i->opcode == ECH_HLO_IOTA && ech_graph_node(g, ech_graph_operand(g, reduce, 2))->opcode == ECH_HLO_CONSTANT &&
           ech_graph_node(g, ech_graph_operand(g, reduce, 3))->opcode == ECH_HLO_CONSTANT;
}

static bool same_text(const EchInstruction *a, const EchInstruction *b, const char *name)
{
    size_t n, m;
    const char *x = ech_program_attribute(a, name, &n), *y = ech_program_attribute(b, name, &m);
    return x && y && n == m && memcmp(x, y, n) == 0;
}

void ech_graph_share_extremes(EchGraph *g)
{
    ech_graph_find_uses(g);
    size_t n = g->n_known;
    uint64_t changed = 0;
    for (EchId id = 0; id < n; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode != ECH_HLO_REDUCE || !g->live[id] || i->n_operands != 2 || i->n_called != 1 || i->n_control > 0 ||
            ech_graph_computation(g, i->computation)->body)
            continue;
        EchId array = ech_graph_operand(g, id, 0), root = ech_graph_computation(g, ech_graph_called(g, id, 0))->root;
        EchHlo opcode = root == ECH_NONE ? ECH_HLO_REDUCE : (EchHlo)ech_graph_node(g, root)->opcode;
        EchId found = ECH_NONE;
        for (uint32_t u = g->first_use[array]; (opcode == ECH_HLO_MINIMUM || opcode == ECH_HLO_MAXIMUM) && u < g->first_use[array + 1] && found == ECH_NONE;
             u++) {
            EchId user = g->uses[u].user;
            const EchInstruction *other = ech_graph_node(g, user);
            if (g->uses[u].operand == 0 && other->opcode == ECH_HLO_REDUCE && other->n_operands == 4 && other->n_called == 1 &&
                other->computation == i->computation && same_text(i, other, "dimensions") && counts_places(g, user) &&
                finds(g, ech_graph_called(g, user, 0), opcode == ECH_HLO_MINIMUM))
                found = user;
        }
        if (found == ECH_NONE)
            continue;
        ech_graph_become(g, id, ECH_HLO_GET_TUPLE_ELEMENT, &found, 1);
        EchInstruction *node = ech_graph_node(g, id);
        node->number = 0;
        node->n_called = 0;
        changed++;
    }
    if (changed > 0)
        ech_diag_note(g->diag, "extremes_shared", changed);
}
