/* Kernels that become one of several results, as a TPU's compiler makes them: what reads the same arrays, and sums with what they sum. */
#include "sim/program/graph.h"

enum { MAX_JOINED = 16, MAX_OPERANDS = 256, FEW = 1024, ROW = 8 };

/* An array in HBM that waits for nothing but its operands. */
static bool is_plain(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    const EchLayout *layout = ech_graph_layout(g, id);
    return layout && layout->space == ECH_SPACE_HBM && i->n_control == 0 && i->n_operands <= MAX_OPERANDS;
}

/* A fusion of one instruction. */
static void wrap(EchGraph *g, EchId id, uint8_t kind)
{
    EchInstruction old = *ech_graph_node(g, id);
    g_autofree EchId *operands = g_new(EchId, (size_t)old.n_operands + 1);
    EchId body = ech_graph_add_body(g, "fused_computation");
    for (uint32_t k = 0; k < old.n_operands; k++) {
        operands[k] = ech_graph_add_new(g, body, ECH_HLO_PARAMETER, "param", ech_graph_node(g, ech_graph_operand(g, id, k))->shape, NULL, 0);
        ech_graph_node(g, operands[k])->number = k;
    }
    EchId root = ech_graph_add(g, body, old, operands, old.n_operands);
    ech_graph_node(g, root)->first_called = old.first_called;
    ech_graph_node(g, root)->n_called = old.n_called;
    ech_graph_computation(g, body)->root = root;
    EchInstruction *node = ech_graph_node(g, id);
    node->opcode = ECH_HLO_FUSION;
    node->opcode_name = ech_hlo_name(ECH_HLO_FUSION);
    node->fusion_kind = kind;
    node->attributes = "";
    node->attributes_n = 0;
    node->number = -1;
    ech_graph_set_called(g, id, body);
}

/* The body of @fusion once more in @body; @inputs: what the parameters there stand for. */
static EchId copy_body(EchGraph *g, EchId fusion, EchId body, GArray *inputs, GHashTable *parameters)
{
    EchId from = ech_graph_called(g, fusion, 0);
    g_autoptr(GArray) sorted = ech_graph_sorted(g, from);
    g_autoptr(GHashTable) made = g_hash_table_new(g_direct_hash, g_direct_equal);
    for (guint k = 0; k < sorted->len; k++) {
        EchId id = g_array_index(sorted, EchId, k), copy;
        EchInstruction old = *ech_graph_node(g, id);
        if (old.opcode == ECH_HLO_PARAMETER) {
            EchId outer = ech_graph_operand(g, fusion, (uint32_t)old.number);
            gpointer key = GSIZE_TO_POINTER((size_t)outer + 1), known = g_hash_table_lookup(parameters, key);
            copy = known ? (EchId)(GPOINTER_TO_SIZE(known) - 1) : ech_graph_add_new(g, body, ECH_HLO_PARAMETER, "param", old.shape, NULL, 0);
            if (!known) {
                ech_graph_node(g, copy)->number = inputs->len;
                g_array_append_val(inputs, outer);
                g_hash_table_insert(parameters, key, GSIZE_TO_POINTER((size_t)copy + 1));
            }
        } else {
            g_autofree EchId *operands = g_new(EchId, (size_t)old.n_operands + 1);
            for (uint32_t o = 0; o < old.n_operands; o++)
                operands[o] = (EchId)(GPOINTER_TO_SIZE(g_hash_table_lookup(made, GSIZE_TO_POINTER((size_t)ech_graph_operand(g, id, o) + 1))) - 1);
            copy = ech_graph_add(g, body, old, operands, old.n_operands);
            EchInstruction *node = ech_graph_node(g, copy);
            node->first_called = old.first_called;
            node->n_called = old.n_called;
        }
        g_hash_table_insert(made, GSIZE_TO_POINTER((size_t)id + 1), GSIZE_TO_POINTER((size_t)copy + 1));
    }
    return (EchId)(GPOINTER_TO_SIZE(g_hash_table_lookup(made, GSIZE_TO_POINTER((size_t)ech_graph_computation(g, from)->root + 1))) - 1);
}

/* Kernels become one with a result for each; what the first makes stays inside where nobody else reads it (!@keep). */
static void join_kernels(EchGraph *g, const EchId *members, uint32_t n, bool keep)
{
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(GHashTable) parameters = g_hash_table_new(g_direct_hash, g_direct_equal);
    EchId body = ech_graph_add_body(g, "fused_computation"), roots[MAX_JOINED], shapes[MAX_JOINED];
    uint8_t kind = 'L';
    for (uint32_t k = 0; k < n; k++) {
        roots[k] = copy_body(g, members[k], body, inputs, parameters);
        shapes[k] = ech_graph_node(g, members[k])->shape;
        kind = ech_graph_node(g, members[k])->fusion_kind == 'O' || kind == 'O' ? 'O' : kind;
        /* Whoever reads what the first makes reads it here. */
        if (k == 0)
            g_hash_table_insert(parameters, GSIZE_TO_POINTER((size_t)members[0] + 1), GSIZE_TO_POINTER((size_t)roots[0] + 1));
    }
    uint32_t first = keep ? 0 : 1;
    EchId result = n - first == 1 ? shapes[first] : ech_program_builder_tuple(g->out, shapes + first, n - first);
    if (result == ECH_NONE)
        return;
    EchId root = n - first == 1 ? roots[first] : ech_graph_add_new(g, body, ECH_HLO_TUPLE, "results", result, roots + first, n - first);
    ech_graph_computation(g, body)->root = root;
    EchInstruction whole = *ech_graph_node(g, members[0]);
    g_autofree char *name = g_strdup_printf("%s.and%u", whole.name, n - 1);
    whole.name = ech_program_builder_string(g->out, name, -1);
    whole.shape = result;
    whole.fusion_kind = kind;
    if (n - first == 1) {
        EchInstruction *node = ech_graph_node(g, members[first]);
        node->fusion_kind = kind;
        node->first_operand = g->operands->len;
        node->n_operands = inputs->len;
        g_array_append_vals(g->operands, inputs->data, inputs->len);
        ech_graph_set_called(g, members[first], body);
        return;
    }
    EchId fusion = ech_graph_add(g, whole.computation, whole, (const EchId *)(const void *)inputs->data, inputs->len);
    ech_graph_set_called(g, fusion, body);
    for (uint32_t k = first; k < n; k++) {
        uint32_t operand = g->operands->len;
        g_array_append_val(g->operands, fusion);
        EchInstruction *node = ech_graph_node(g, members[k]);
        node->opcode = ECH_HLO_GET_TUPLE_ELEMENT;
        node->opcode_name = ech_hlo_name(ECH_HLO_GET_TUPLE_ELEMENT);
        node->fusion_kind = 0;
        node->number = (int64_t)(k - first);
        node->first_operand = operand;
        node->n_operands = 1;
        node->n_called = 0;
    }
}

static void find_levels(const EchGraph *g, const GArray *sorted, uint32_t *level)
{
    for (guint k = 0; k < sorted->len; k++) {
        EchId id = g_array_index(sorted, EchId, k);
        const EchInstruction *i = ech_graph_node(g, id);
        for (uint32_t o = 0; o < i->n_operands; o++)
            level[id] = MAX(level[id], level[ech_graph_operand(g, id, o)] + 1);
        for (uint32_t o = 0; o < i->n_control; o++)
            level[id] = MAX(level[id], level[g_array_index(g->control, EchId, i->first_control + o)] + 1);
    }
}

/* Sums with what they sum: a kernel's result is reduced while it is there. */

/* Is @id, which reads @array and nothing that could wait for it (@level: depth of each node), an element-wise function of it, reduced? */
static bool reduces(const EchGraph *g, EchId id, EchId array, const uint32_t *level)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (!is_plain(g, id) || ech_graph_count(g, id) >= ech_graph_count(g, array))
        return false;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId operand = ech_graph_operand(g, id, k);
        if (operand != array && level[operand] >= level[array])
            return false;
    }
    if (i->opcode == ECH_HLO_REDUCE)
        return ech_graph_operand(g, id, 0) == array;
    if (i->opcode != ECH_HLO_FUSION || i->fusion_kind != 'L')
        return false;
    const EchGraphComputation *body = ech_graph_computation(g, ech_graph_called(g, id, 0));
    EchId root = body->root;
    if (ech_graph_node(g, root)->opcode != ECH_HLO_REDUCE || ech_graph_count(g, ech_graph_operand(g, root, 0)) != ech_graph_count(g, array))
        return false;
    for (guint k = 0; k < body->order->len; k++) {
        EchId inner = g_array_index(body->order, EchId, k);
        const EchInstruction *at = ech_graph_node(g, inner);
        bool plain = inner == root || at->opcode == ECH_HLO_PARAMETER || at->opcode == ECH_HLO_BROADCAST || at->opcode == ECH_HLO_IOTA ||
                     at->opcode == ECH_HLO_BITCAST || ech_hlo_is_elementwise((EchHlo)at->opcode) ||
                     (at->opcode == ECH_HLO_RESHAPE && ech_graph_count(g, inner) <= ech_graph_count(g, array) / ROW); /* of what belongs to whole rows */
        if (!plain)
            return false;
    }
    return true;
}

static bool is_product(const EchInstruction *i)
{
    return i->opcode == ECH_HLO_DOT || i->opcode == ECH_HLO_CONVOLUTION;
}

static bool makes_array(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (!is_plain(g, id) || ech_graph_count(g, id) <= FEW)
        return false;
    return (i->opcode == ECH_HLO_FUSION && (i->fusion_kind == 'L' || i->fusion_kind == 'O')) || is_product(i) ||
           (ech_hlo_is_elementwise((EchHlo)i->opcode) && i->n_called == 0);
}

static uint64_t join_reductions(EchGraph *g)
{
    ech_graph_find_uses(g);
    uint64_t joined = 0;
    size_t n_known = g->nodes->len;
    g_autofree uint32_t *level = g_new0(uint32_t, n_known + 1);
    g_autoptr(GArray) running = ech_graph_running(g);
    for (guint c = 0; c < running->len; c++) {
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c));
        find_levels(g, sorted, level);
        for (guint k = 0; k < sorted->len; k++) {
            EchId array = g_array_index(sorted, EchId, k), members[MAX_JOINED] = {array};
            uint32_t n = 1, others = ech_graph_computation(g, ech_graph_node(g, array)->computation)->root == array;
            if (array >= n_known || !makes_array(g, array))
                continue;
            for (uint32_t u = g->first_use[array]; u < g->first_use[array + 1]; u++) {
                EchId user = g->uses[u].user;
                bool known = false;
                for (uint32_t m = 1; m < n; m++)
                    known |= members[m] == user;
                if (known)
                    continue;
                if (n < MAX_JOINED && reduces(g, user, array, level))
                    members[n++] = user;
                else
                    others++;
            }
            if (n == 1)
                continue;
            for (uint32_t m = 0; m < n; m++) {
                const EchInstruction *member = ech_graph_node(g, members[m]);
                if (member->opcode != ECH_HLO_FUSION)
                    wrap(g, members[m], is_product(member) ? 'O' : 'L');
            }
            join_kernels(g, members, n, others > 0);
            joined += n;
        }
    }
    return joined;
}

/* Siblings: kernels as deep as each other, of one size, that read one array of that size. (Equally deep, neither can wait for the other.) */

static bool has_siblings(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode != ECH_HLO_FUSION || i->fusion_kind != 'L' || !is_plain(g, id) || ech_graph_count(g, id) <= 1)
        return false;
    EchId root = ech_graph_computation(g, ech_graph_called(g, id, 0))->root;
    return ech_hlo_is_elementwise((EchHlo)ech_graph_node(g, root)->opcode);
}

static bool shares_array(const EchGraph *g, EchId a, EchId b)
{
    for (uint32_t k = 0; k < ech_graph_node(g, a)->n_operands; k++) {
        EchId operand = ech_graph_operand(g, a, k);
        for (uint32_t j = 0; ech_graph_count(g, operand) >= ech_graph_count(g, a) && j < ech_graph_node(g, b)->n_operands; j++) {
            if (ech_graph_operand(g, b, j) == operand)
                return true;
        }
    }
    return false;
}

typedef struct {
    EchId id;
    uint32_t level;
    uint64_t count;
} Sibling;

static int compare_siblings(gconstpointer a, gconstpointer b)
{
    const Sibling *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static uint64_t join_siblings(EchGraph *g)
{
    ech_graph_find_uses(g);
    uint64_t joined = 0;
    g_autofree uint32_t *level = g_new0(uint32_t, g->nodes->len + 1);
    g_autoptr(GArray) running = ech_graph_running(g);
    for (guint c = 0; c < running->len; c++) {
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c)), found = g_array_new(FALSE, FALSE, sizeof(Sibling));
        find_levels(g, sorted, level);
        for (guint k = 0; k < sorted->len; k++) {
            EchId id = g_array_index(sorted, EchId, k);
            Sibling sibling = {id, level[id], has_siblings(g, id) ? ech_graph_count(g, id) : 0};
            if (sibling.count > 0)
                g_array_append_val(found, sibling);
        }
        g_array_sort(found, compare_siblings);
        for (guint from = 0; from < found->len;) {
            const Sibling *first = &g_array_index(found, Sibling, from);
            EchId members[MAX_JOINED];
            uint32_t n = 0;
            guint end = from;
            for (; end < found->len && end < from + MAX_OPERANDS; end++) {
                const Sibling *other = &g_array_index(found, Sibling, end);
                if (other->level != first->level || other->count != first->count)
                    break;
                bool related = n == 0;
                for (uint32_t k = 0; k < n && n < MAX_JOINED && !related; k++)
                    related = shares_array(g, members[k], other->id);
                if (related && n < MAX_JOINED)
                    members[n++] = other->id;
            }
            if (n > 1) {
                join_kernels(g, members, n, true);
                joined += n;
            }
            /* Those that had no part in it are looked at again. */
            guint left = end;
            for (guint k = end; k-- > from;) {
                Sibling other = g_array_index(found, Sibling, k);
                bool member = false;
                for (uint32_t m = 0; m < n; m++)
                    member |= members[m] == other.id;
                if (!member)
                    g_array_index(found, Sibling, --left) = other;
            }
            from = left;
        }
    }
    return joined;
}

void ech_graph_join_kernels(EchGraph *g)
{
    uint64_t joined = join_reductions(g) + join_siblings(g);
    if (joined > 0)
        ech_diag_note(g->diag, "kernels_with_several_results", joined);
}
