/* Ragged products as XLA makes them for GPUs (xla/hlo/transforms/expanders/ragged_dot_rewriter.cc): every row meets every group, what is another group's is
 * masked first, in memory. Rows by groups' weights become one product over depth and groups together, sums over groups' rows one product for each group. */
#include "sim/base/hash.h"
#include "sim/program/graph.h"

#include <string.h>

#define MOST_PRODUCTS 4096 /* of a program; each becomes some ten instructions */

typedef struct {
    EchGraph *g;
    GHashTable *masked; /* array -> its masked copies, + 1 each */
    EchId computation, sizes;
    uint64_t groups;
    char metadata[512];
} Maker;

static EchId add(Maker *m, EchHlo opcode, const EchLayout *like, const uint64_t *dims, uint8_t rank, const EchId *operands, uint32_t n, const char *attributes)
{
    EchId id = ech_graph_add_new(m->g, m->computation, opcode, "ragged", ech_graph_array(m->g, like, dims, rank), operands, n);
    g_autofree char *text = g_strdup_printf("%s%s%s", attributes, attributes[0] && m->metadata[0] ? ", " : "", m->metadata);
    EchInstruction *node = ech_graph_node(m->g, id);
    node->attributes = ech_program_builder_string(m->g->out, text, -1);
    node->attributes_n = (uint32_t)strlen(text);
    return id;
}

/* In memory: nothing is fused across it. */
static EchId kept(Maker *m, const EchLayout *like, const uint64_t *dims, EchId array)
{
    return add(m, ECH_HLO_OPTIMIZATION_BARRIER, like, dims, 3, &array, 1, "");
}

/* @array, rows by columns, once for every group, zero where a row is not that group's. */
static EchId masked(Maker *m, EchId array)
{
    gpointer key = GSIZE_TO_POINTER((size_t)array + 1), known = g_hash_table_lookup(m->masked, key);
    EchId made = known ? (EchId)(GPOINTER_TO_SIZE(known) - 1) : ECH_NONE;
    if (made != ECH_NONE && ech_graph_node(m->g, made)->computation == m->computation)
        return made;
    const EchLayout type = *ech_graph_layout(m->g, array), whole = *ech_graph_layout(m->g, m->sizes);
    const uint64_t dims[3] = {m->groups, type.dims[0], type.dims[1]};
    EchLayout truth = whole;
    g_strlcpy(truth.dtype, "pred", sizeof truth.dtype);
    truth.bits = 8;
    EchId zero = ech_graph_add_new(m->g, m->computation, ECH_HLO_CONSTANT, "ragged-zero", ech_graph_array(m->g, &type, NULL, 0), NULL, 0);
    EchId row = add(m, ECH_HLO_IOTA, &whole, dims, 3, NULL, 0, "iota_dimension=1"),
          end = add(m, ECH_HLO_BROADCAST, &whole, dims, 3, &m->sizes, 1, "dimensions={0}");
    EchId own = add(m, ECH_HLO_COMPARE, &truth, dims, 3, (EchId[]){row, end}, 2, "direction=LT");
    EchId all = add(m, ECH_HLO_BROADCAST, &type, dims, 3, &array, 1, "dimensions={1,2}"),
          none = add(m, ECH_HLO_BROADCAST, &type, dims, 3, &zero, 1, "dimensions={}");
    made = kept(m, &type, dims, add(m, ECH_HLO_SELECT, &type, dims, 3, (EchId[]){own, all, none}, 3, ""));
    g_hash_table_insert(m->masked, key, GSIZE_TO_POINTER((size_t)made + 1));
    return made;
}

static int64_t one(const EchInstruction *i, const char *name)
{
    size_t n;
    int64_t number[2];
    const char *text = ech_program_attribute(i, name, &n);
    return text && ech_program_numbers(text, n, number, 2) == 1 ? number[0] : -1;
}

/* False where it is left as it is. */
static bool expand(Maker *m, EchId id)
{
    EchGraph *g = m->g;
    const EchInstruction i = *ech_graph_node(g, id);
    if (i.n_operands != 3 || one(&i, "lhs_ragged_dims") != 0)
        return false;
    EchId left = ech_graph_operand(g, id, 0), right = ech_graph_operand(g, id, 1);
    const EchLayout *l = ech_graph_layout(g, left), *r = ech_graph_layout(g, right), *out = ech_graph_layout(g, id),
                    *sizes = ech_graph_layout(g, ech_graph_operand(g, id, 2));
    if (!l || !r || !out || !sizes || l->rank != 2 || sizes->rank != 1 || sizes->dims[0] == 0)
        return false;
    const EchLayout lhs = *l, rhs = *r;
    int64_t over = one(&i, "lhs_contracting_dims"), rhs_over = one(&i, "rhs_contracting_dims");
    size_t n;
    const char *said = ech_program_attribute(&i, "metadata", &n);
    m->metadata[0] = '\0';
    if (said && n < sizeof m->metadata - 16)
        g_snprintf(m->metadata, sizeof m->metadata, "metadata=%.*s", (int)n, said);
    m->computation = i.computation;
    m->sizes = ech_graph_operand(g, id, 2);
    m->groups = sizes->dims[0];
    const char *dims_text;
    EchId sides[2];
    if (over == 1 && rhs.rank == 3 && out->rank == 2 && (rhs_over == 1 || rhs_over == 2) && rhs.dims[0] == m->groups && rhs.dims[rhs_over] == lhs.dims[1]) {
        uint64_t rows = lhs.dims[0], depth = lhs.dims[1], columns = rhs.dims[3 - rhs_over], together = ech_bytes_mul(m->groups, depth);
        const uint64_t turned[3] = {rows, m->groups, depth}, flat[2] = {rows, together}, weights[3] = {m->groups, depth, columns},
                       flat_weights[2] = {together, columns};
        EchId apart = masked(m, left);
        apart = kept(m, &lhs, turned, add(m, ECH_HLO_TRANSPOSE, &lhs, turned, 3, &apart, 1, "dimensions={1,0,2}"));
        sides[0] = add(m, ECH_HLO_RESHAPE, &lhs, flat, 2, &apart, 1, "");
        if (rhs_over == 2)
            right = kept(m, &rhs, weights, add(m, ECH_HLO_TRANSPOSE, &rhs, weights, 3, &right, 1, "dimensions={0,2,1}"));
        sides[1] = add(m, ECH_HLO_RESHAPE, &rhs, flat_weights, 2, &right, 1, "");
        dims_text = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    } else if (over == 0 && rhs_over == 0 && rhs.rank == 2 && out->rank == 3 && rhs.dims[0] == lhs.dims[0] && out->dims[0] == m->groups) {
        sides[0] = masked(m, left);
        sides[1] = masked(m, right);
        dims_text = "lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}";
    } else
        return false;
    ech_graph_become(g, id, ECH_HLO_DOT, sides, 2);
    g_autofree char *text = g_strdup_printf("%s%s%s", dims_text, m->metadata[0] ? ", " : "", m->metadata);
    EchInstruction *node = ech_graph_node(g, id);
    node->attributes = ech_program_builder_string(g->out, text, -1);
    node->attributes_n = (uint32_t)strlen(text);
    return true;
}

void ech_graph_expand_ragged(EchGraph *g)
{
    g_autoptr(GHashTable) known = g_hash_table_new(ech_hash_key, g_direct_equal);
    Maker m = {.g = g, .masked = known};
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n && changed < MOST_PRODUCTS; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode == ECH_HLO_RAGGED_DOT && !ech_graph_computation(g, i->computation)->body && i->n_control == 0)
            changed += expand(&m, id);
    }
    if (changed > 0)
        ech_diag_note(g->diag, "ragged_products_masked", changed);
}
