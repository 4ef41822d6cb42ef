/* Fusion by one rule, for sizes and times that are not those of a program nobody would run: an element-wise instruction, or one that only moves data, becomes
 * part of what reads it. Where several kernels read it, each makes it again if that reads no more than its own bytes (a broadcast, a chain that hangs on one
 * array), else it is made once. Matrix products take element-wise readers into their own kernel. Compilers weigh more; XLA's fusion passes begin the same
 * way. */
#include "sim/program/graph.h"

#include <string.h>

enum { MAX_BODY = 256, MAX_COPIES = 8, MAX_CONE = 64, MAX_REMADE = 1 << 18 };

typedef enum { KIND_WALL, KIND_FREE, KIND_LOOP, KIND_REDUCE, KIND_MATRIX, KIND_UPDATE, KIND_GATHER } Kind;

typedef struct {
    EchGraph *g;
    EchId (*kernels)[MAX_COPIES]; /* per node: the kernels that it is part of; itself alone: it is one */
    uint8_t *n_kernels;
    uint32_t *members; /* per kernel */
    bool *matrix;      /* per kernel: has a matrix product */
    uint64_t fused;
} Fuser;

static Kind kind_of(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (ech_graph_shape(g, id)->is_tuple)
        return KIND_WALL;
    switch ((int)i->opcode) {
    case ECH_HLO_BITCAST:
    case ECH_HLO_BROADCAST:
    case ECH_HLO_IOTA: return KIND_FREE;
    case ECH_HLO_RESHAPE:
    case ECH_HLO_TRANSPOSE:
    case ECH_HLO_SLICE:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_PAD:
    case ECH_HLO_REVERSE:
    case ECH_HLO_CONCATENATE: return KIND_LOOP;
    case ECH_HLO_GATHER: return g->generation > 0 ? KIND_GATHER : KIND_LOOP; /* a TPU's is a kernel of its own */
    case ECH_HLO_REDUCE: return KIND_REDUCE;
    case ECH_HLO_DOT:
    case ECH_HLO_CONVOLUTION: return KIND_MATRIX;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_SCATTER: return KIND_UPDATE;
    default: return ech_hlo_is_elementwise((EchHlo)i->opcode) && i->n_called == 0 ? KIND_LOOP : KIND_WALL;
    }
}

static bool is_host(const EchGraph *g, EchId id)
{
    const EchLayout *layout = ech_graph_layout(g, id);
    return layout && layout->space != ECH_SPACE_HBM;
}

static uint64_t count(const EchGraph *g, EchId id)
{
    return ech_graph_shape(g, id)->count;
}

/* Does making it again read no more than reading it would? Followed back through what every kernel can make. */
static bool is_cheap(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode == ECH_HLO_IOTA || i->opcode == ECH_HLO_BROADCAST || i->opcode == ECH_HLO_CONVERT || i->opcode == ECH_HLO_BITCAST || count(g, id) <= 1)
        return true;
    EchId cone[MAX_CONE] = {id};
    unsigned n = 1;
    uint64_t read = 0;
    for (unsigned at = 0; at < n; at++) {
        const EchInstruction *made = ech_graph_node(g, cone[at]);
        bool inside = at == 0 || made->opcode == ECH_HLO_BITCAST || made->opcode == ECH_HLO_BROADCAST || made->opcode == ECH_HLO_RESHAPE ||
                      made->opcode == ECH_HLO_TRANSPOSE || (ech_hlo_is_elementwise((EchHlo)made->opcode) && kind_of(g, cone[at]) == KIND_LOOP);
        if (!inside) {
            read += count(g, cone[at]) > 1 ? MIN(ech_graph_shape(g, cone[at])->dense, UINT64_MAX / MAX_CONE / 2) : 0;
            continue;
        }
        for (uint32_t k = 0; k < made->n_operands; k++) {
            EchId operand = ech_graph_operand(g, cone[at], k);
            bool known = false;
            for (unsigned o = 0; o < n; o++)
                known |= cone[o] == operand;
            if (known)
                continue;
            if (n == MAX_CONE)
                return false;
            cone[n++] = operand;
        }
    }
    return read <= ech_graph_shape(g, id)->dense;
}

/* Can the kernels of @reader make @id themselves? */
static bool takes(const Fuser *f, EchId id, EchId reader, uint32_t operand)
{
    const EchGraph *g = f->g;
    Kind own = kind_of(g, id), its = kind_of(g, reader);
    if (its == KIND_WALL || is_host(g, reader) || own == KIND_REDUCE || own == KIND_UPDATE || own == KIND_GATHER ||
        ((its == KIND_UPDATE || its == KIND_GATHER) && operand == 0))
        return false;
    for (unsigned k = 0; k < f->n_kernels[reader]; k++) {
        if (f->members[f->kernels[reader][k]] >= MAX_BODY)
            return false;
    }
    if (own != KIND_MATRIX)
        return true;
    /* A product's kernel ends with what is computed of each of its elements. */
    EchId kernel = f->kernels[reader][0];
    if (f->n_kernels[reader] != 1 || f->matrix[kernel] || its == KIND_MATRIX || its == KIND_REDUCE)
        return false;
    EchHlo opcode = (EchHlo)ech_graph_node(g, reader)->opcode;
    bool each = ech_hlo_is_elementwise(opcode) || opcode == ECH_HLO_BITCAST || opcode == ECH_HLO_RESHAPE || (its == KIND_UPDATE && operand == 1);
    Kind end = kind_of(g, kernel);
    return each && (end == KIND_LOOP || end == KIND_FREE || end == KIND_UPDATE) && count(g, reader) >= count(g, id);
}

static void decide(Fuser *f, EchId id)
{
    EchGraph *g = f->g;
    const EchInstruction *i = ech_graph_node(g, id);
    Kind own = kind_of(g, id);
    bool alone = own == KIND_WALL || is_host(g, id) || ech_graph_computation(g, i->computation)->root == id || g->first_use[id] == g->first_use[id + 1];
    EchId found[MAX_COPIES];
    unsigned n = 0;
    for (uint32_t u = g->first_use[id]; !alone && u < g->first_use[id + 1]; u++) {
        EchId user = g->uses[u].user;
        alone = !takes(f, id, user, g->uses[u].operand);
        for (unsigned k = 0; !alone && k < f->n_kernels[user]; k++) {
            bool known = false;
            for (unsigned o = 0; o < n; o++)
                known |= found[o] == f->kernels[user][k];
            if (known)
                continue;
            alone = n == MAX_COPIES;
            if (!alone)
                found[n++] = f->kernels[user][k];
        }
    }
    alone = alone || n == 0 || (n > 1 && (own == KIND_MATRIX || !is_cheap(g, id)));
    if (alone) {
        found[0] = id;
        n = 1;
    } else
        f->fused++;
    for (unsigned k = 0; k < n; k++) {
        f->kernels[id][k] = found[k];
        f->members[found[k]]++;
        f->matrix[found[k]] |= own == KIND_MATRIX;
    }
    f->n_kernels[id] = (uint8_t)n;
}

typedef struct {
    EchGraph *g;
    EchId body, kernel;
    GArray *inputs;    /* EchId */
    GHashTable *inner; /* outer node -> inner + 1 */
} Writer;

static bool is_inside(const Fuser *f, EchId kernel, EchId id)
{
    for (unsigned k = 0; k < f->n_kernels[id]; k++) {
        if (f->kernels[id][k] == kernel)
            return true;
    }
    return false;
}

/* The node inside the body that stands for @id. Operands first, without recursion: chains are long. */
static EchId write_inside(const Fuser *f, Writer *w, EchId top)
{
    EchGraph *g = w->g;
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(stack, top);
    while (stack->len > 0) {
        EchId id = g_array_index(stack, EchId, stack->len - 1);
        gpointer key = GSIZE_TO_POINTER((size_t)id + 1);
        if (g_hash_table_contains(w->inner, key)) {
            g_array_set_size(stack, stack->len - 1);
            continue;
        }
        EchId made;
        if (!is_inside(f, w->kernel, id)) {
            made = ech_graph_add_new(g, w->body, ECH_HLO_PARAMETER, "param", ech_graph_node(g, id)->shape, NULL, 0);
            ech_graph_node(g, made)->number = w->inputs->len;
            g_array_append_val(w->inputs, id);
        } else {
            guint before = stack->len;
            uint32_t n = ech_graph_node(g, id)->n_operands;
            for (uint32_t k = n; k-- > 0;) {
                EchId operand = ech_graph_operand(g, id, k);
                if (!g_hash_table_contains(w->inner, GSIZE_TO_POINTER((size_t)operand + 1)))
                    g_array_append_val(stack, operand);
            }
            if (stack->len > before)
                continue;
            g_autofree EchId *operands = g_new(EchId, (size_t)n + 1);
            for (uint32_t k = 0; k < n; k++)
                operands[k] = (EchId)(GPOINTER_TO_SIZE(g_hash_table_lookup(w->inner, GSIZE_TO_POINTER((size_t)ech_graph_operand(g, id, k) + 1))) - 1);
            EchInstruction old = *ech_graph_node(g, id);
            made = ech_graph_add(g, w->body, old, operands, n);
            EchInstruction *copy = ech_graph_node(g, made);
            copy->first_called = old.first_called;
            copy->n_called = old.n_called;
        }
        g_hash_table_insert(w->inner, key, GSIZE_TO_POINTER((size_t)made + 1));
        g_array_set_size(stack, stack->len - 1);
    }
    return (EchId)(GPOINTER_TO_SIZE(g_hash_table_lookup(w->inner, GSIZE_TO_POINTER((size_t)top + 1))) - 1);
}

/* A kernel's members go into a computation; the kernel becomes the fusion that calls it. */
static void write_kernel(const Fuser *f, EchId kernel)
{
    EchGraph *g = f->g;
    Writer w = {.g = g, .kernel = kernel, .inputs = g_array_new(FALSE, FALSE, sizeof(EchId)), .inner = g_hash_table_new(g_direct_hash, g_direct_equal)};
    Kind kind = kind_of(g, kernel);
    w.body = ech_graph_add_computation(g, "fused_computation", true);
    EchId root = write_inside(f, &w, kernel);
    ech_graph_computation(g, w.body)->root = root;
    EchInstruction *node = ech_graph_node(g, kernel);
    node->opcode = ECH_HLO_FUSION;
    node->opcode_name = ech_hlo_name(ECH_HLO_FUSION);
    node->fusion_kind = f->matrix[kernel] ? 'O' : kind == KIND_REDUCE ? 'I' : kind == KIND_GATHER ? 'C' : 'L';
    node->attributes = "";
    node->attributes_n = 0;
    node->target = NULL;
    node->number = -1;
    node->first_operand = g->operands->len;
    node->n_operands = w.inputs->len;
    if (w.inputs->len > 0)
        g_array_append_vals(g->operands, w.inputs->data, w.inputs->len);
    ech_graph_set_called(g, kernel, w.body);
    g_array_unref(w.inputs);
    g_hash_table_unref(w.inner);
}

/* One broadcast for every kernel that can make it: it would stay in memory from the first to the last. */
static void part_broadcasts(EchGraph *g)
{
    size_t n = g->nodes->len, made = 0;
    for (EchId id = 0; id < n && made < MAX_REMADE; id++) {
        EchInstruction i = *ech_graph_node(g, id);
        bool free = i.opcode == ECH_HLO_IOTA || (i.opcode == ECH_HLO_BROADCAST && i.n_operands == 1);
        if (!free || !g->live[id] || i.n_control > 0 || is_host(g, id) || ech_graph_computation(g, i.computation)->body)
            continue;
        EchId operand = i.n_operands > 0 ? ech_graph_operand(g, id, 0) : ECH_NONE, before = ECH_NONE, copy = id;
        for (uint32_t u = g->first_use[id]; u < g->first_use[id + 1] && made < MAX_REMADE; u++) {
            EchId user = g->uses[u].user;
            Kind its = kind_of(g, user);
            if (its == KIND_WALL || (its == KIND_UPDATE && g->uses[u].operand == 0) || ech_graph_operand(g, user, g->uses[u].operand) != id)
                continue;
            /* The first keeps what is there. */
            if (before != ECH_NONE && user != before) {
                copy = ech_graph_add(g, i.computation, i, &operand, operand == ECH_NONE ? 0 : 1);
                made++;
            }
            before = user;
            ech_graph_set_operand(g, user, g->uses[u].operand, copy);
        }
    }
}

/* Siblings: kernels as deep as each other, of one size, that read one array of that size become one kernel with several results. (Equally deep, neither can
 * wait for the other.) */

enum { MAX_SIBLINGS = 16 };

static bool has_siblings(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode != ECH_HLO_FUSION || i->fusion_kind != 'L' || i->n_control > 0 || is_host(g, id) || count(g, id) <= 1 || i->n_operands > MAX_BODY)
        return false;
    EchId root = ech_graph_computation(g, ech_graph_called(g, id, 0))->root;
    return ech_hlo_is_elementwise((EchHlo)ech_graph_node(g, root)->opcode);
}

static bool shares_array(const EchGraph *g, EchId a, EchId b)
{
    for (uint32_t k = 0; k < ech_graph_node(g, a)->n_operands; k++) {
        EchId operand = ech_graph_operand(g, a, k);
        for (uint32_t j = 0; count(g, operand) >= count(g, a) && j < ech_graph_node(g, b)->n_operands; j++) {
            if (ech_graph_operand(g, b, j) == operand)
                return true;
        }
    }
    return false;
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

static void join_kernels(EchGraph *g, const EchId *members, uint32_t n)
{
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(GHashTable) parameters = g_hash_table_new(g_direct_hash, g_direct_equal);
    EchId body = ech_graph_add_computation(g, "fused_computation", true), roots[MAX_SIBLINGS], shapes[MAX_SIBLINGS];
    for (uint32_t k = 0; k < n; k++) {
        roots[k] = copy_body(g, members[k], body, inputs, parameters);
        shapes[k] = ech_graph_node(g, members[k])->shape;
    }
    EchId tuple = ech_program_builder_tuple(g->out, shapes, n);
    if (tuple == ECH_NONE)
        return;
    EchId root = ech_graph_add_new(g, body, ECH_HLO_TUPLE, "results", tuple, roots, n);
    ech_graph_computation(g, body)->root = root;
    EchInstruction whole = *ech_graph_node(g, members[0]);
    g_autofree char *name = g_strdup_printf("%s.and%u", whole.name, n - 1);
    whole.name = ech_program_builder_string(g->out, name, -1);
    whole.shape = tuple;
    EchId fusion = ech_graph_add(g, whole.computation, whole, (const EchId *)(const void *)inputs->data, inputs->len);
    ech_graph_set_called(g, fusion, body);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t first = g->operands->len;
        g_array_append_val(g->operands, fusion);
        EchInstruction *node = ech_graph_node(g, members[k]);
        node->opcode = ECH_HLO_GET_TUPLE_ELEMENT;
        node->opcode_name = ech_hlo_name(ECH_HLO_GET_TUPLE_ELEMENT);
        node->fusion_kind = 0;
        node->number = (int64_t)k;
        node->first_operand = first;
        node->n_operands = 1;
        node->n_called = 0;
    }
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
        for (guint k = 0; k < sorted->len; k++) {
            EchId id = g_array_index(sorted, EchId, k);
            for (uint32_t o = 0; o < ech_graph_node(g, id)->n_operands; o++)
                level[id] = MAX(level[id], level[ech_graph_operand(g, id, o)] + 1);
            for (uint32_t o = 0; o < ech_graph_node(g, id)->n_control; o++)
                level[id] = MAX(level[id], level[g_array_index(g->control, EchId, ech_graph_node(g, id)->first_control + o)] + 1);
            Sibling sibling = {id, level[id], has_siblings(g, id) ? count(g, id) : 0};
            if (sibling.count > 0)
                g_array_append_val(found, sibling);
        }
        g_array_sort(found, compare_siblings);
        for (guint from = 0; from < found->len;) {
            const Sibling *first = &g_array_index(found, Sibling, from);
            EchId members[MAX_SIBLINGS];
            uint32_t n = 0;
            guint end = from;
            for (; end < found->len && end < from + MAX_BODY; end++) {
                const Sibling *other = &g_array_index(found, Sibling, end);
                if (other->level != first->level || other->count != first->count)
                    break;
                bool related = n == 0;
                for (uint32_t k = 0; k < n && n < MAX_SIBLINGS && !related; k++)
                    related = shares_array(g, members[k], other->id);
                if (related && n < MAX_SIBLINGS)
                    members[n++] = other->id;
            }
            if (n > 1) {
                join_kernels(g, members, n);
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

void ech_graph_fuse(EchGraph *g)
{
    ech_graph_find_uses(g);
    part_broadcasts(g);
    ech_graph_find_uses(g);
    size_t n = g->nodes->len;
    Fuser f = {.g = g};
    f.kernels = g_malloc_n(n + 1, sizeof *f.kernels);
    f.n_kernels = g_new0(uint8_t, n + 1);
    f.members = g_new0(uint32_t, n + 1);
    f.matrix = g_new0(bool, n + 1);
    g_autoptr(GArray) running = ech_graph_running(g);
    g_autoptr(GArray) kernels = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint c = 0; c < running->len; c++) {
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c));
        for (guint k = sorted->len; k-- > 0;) {
            EchId id = g_array_index(sorted, EchId, k);
            decide(&f, id);
        }
        for (guint k = 0; k < sorted->len; k++) {
            EchId id = g_array_index(sorted, EchId, k);
            if (f.n_kernels[id] == 1 && f.kernels[id][0] == id && f.members[id] > 1)
                g_array_append_val(kernels, id);
        }
    }
    for (guint k = 0; k < kernels->len; k++)
        write_kernel(&f, g_array_index(kernels, EchId, k));
    uint64_t joined = g->generation > 0 ? join_siblings(g) : 0;
    if (joined > 0)
        ech_diag_note(g->diag, "kernels_with_several_results", joined);
    if (f.fused > 0) {
        ech_diag_note(g->diag, "instructions_fused", f.fused);
        ech_diag_note(g->diag, "fusions_made", kernels->len);
    }
    g_free(f.kernels);
    g_free(f.n_kernels);
    g_free(f.members);
    g_free(f.matrix);
}
