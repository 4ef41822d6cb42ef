/* Reshapes as a TPU's compiler has them around group norms and scales by group (XLA's ReshapeMover and what it makes of sums; libtpu 0.0.52): behind what is
 * computed element by element of one reshaped array, and behind sums over whole groups of dimensions. A reshape back into the shape that a computation's arrays
 * were reshaped from goes: all is computed in that shape, what is spread over groups reshaped while it is small. */
#include "sim/program/graph.h"

#include <string.h>

enum { MAX_TREE = 64, FEW = 65536 };

typedef struct {
    EchGraph *g;
    EchLayout inner, outer; /* shapes: of the computation, of what comes before and behind */
    uint8_t n_groups;       /* dimensions that split or merge stay together */
    uint8_t group[2][ECH_LAYOUT_MAX_RANK];
    EchId tree[MAX_TREE], moved[MAX_TREE]; /* operands first, and what stands for them in the outer shape */
    unsigned n;
} Mover;

static bool same_size(const EchLayout *a, const EchLayout *b)
{
    return a && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

static bool find_groups(Mover *m)
{
    unsigned a = 0, b = 0;
    m->n_groups = 0;
    while (a < m->inner.rank || b < m->outer.rank) {
        uint64_t x = 1, y = 1;
        if (a < m->inner.rank) {
            x = m->inner.dims[a];
            m->group[0][a++] = m->n_groups;
        }
        if (b < m->outer.rank) {
            y = m->outer.dims[b];
            m->group[1][b++] = m->n_groups;
        }
        while (x != y) {
            if (x < y && a < m->inner.rank) {
                x = ech_bytes_mul(x, m->inner.dims[a]);
                m->group[0][a++] = m->n_groups;
            } else if (x > y && b < m->outer.rank) {
                y = ech_bytes_mul(y, m->outer.dims[b]);
                m->group[1][b++] = m->n_groups;
            } else
                return false;
        }
        m->n_groups++;
    }
    return true;
}

/* The dimensions of the computation that a broadcast's source has; false where they are not in order. */
static bool read_broadcast(const Mover *m, EchId id, int64_t *dims, size_t *ret_n)
{
    const EchInstruction *i = ech_graph_node(m->g, id);
    const EchLayout *source = i->n_operands == 1 ? ech_graph_layout(m->g, ech_graph_operand(m->g, id, 0)) : NULL;
    *ret_n = ech_program_attribute_numbers(i, "dimensions", dims, ECH_LAYOUT_MAX_RANK);
    if (!source || *ret_n != source->rank)
        return false;
    for (size_t k = 0; k < *ret_n; k++) {
        if (dims[k] < 0 || dims[k] >= m->inner.rank || source->dims[k] != m->inner.dims[dims[k]] || (k > 0 && dims[k] <= dims[k - 1]))
            return false;
    }
    return true;
}

/* Elements of a broadcast's source once it has all dimensions of the groups that it has one of; @has: those groups. */
static uint64_t spread_size(const Mover *m, const int64_t *dims, size_t n, bool *has)
{
    uint64_t size = 1;
    memset(has, 0, ECH_LAYOUT_MAX_RANK * 2 * sizeof *has);
    for (size_t k = 0; k < n; k++)
        has[m->group[0][dims[k]]] = true;
    for (unsigned d = 0; d < m->inner.rank; d++)
        size = has[m->group[0][d]] ? ech_bytes_mul(size, m->inner.dims[d]) : size;
    return size;
}

static bool can_move(const Mover *m, EchId id, bool *ret_leaf)
{
    const EchGraph *g = m->g;
    const EchInstruction *i = ech_graph_node(g, id);
    *ret_leaf = true;
    if (ech_graph_count(g, id) == 1)
        return true;
    if (!same_size(ech_graph_layout(g, id), &m->inner) || i->n_control > 0)
        return false;
    if (i->opcode == ECH_HLO_RESHAPE)
        return same_size(ech_graph_layout(g, ech_graph_operand(g, id, 0)), &m->outer);
    if (i->opcode == ECH_HLO_BROADCAST) {
        int64_t dims[ECH_LAYOUT_MAX_RANK];
        bool has[ECH_LAYOUT_MAX_RANK * 2];
        size_t n;
        return read_broadcast(m, id, dims, &n) && spread_size(m, dims, n, has) <= ech_graph_count(g, id) / 8;
    }
    *ret_leaf = false;
    return ech_hlo_is_elementwise((EchHlo)i->opcode) && i->n_called == 0 && i->opcode != ECH_HLO_COPY;
}

/* Lists what is computed, operands first; false where a part of it cannot be in the outer shape. */
static bool list_tree(Mover *m, EchId root)
{
    EchId stack[2 * MAX_TREE];
    unsigned depth = 1;
    bool reshaped = false;
    m->n = 0;
    stack[0] = root;
    while (depth > 0) {
        EchId id = stack[depth - 1];
        bool listed = false, leaf, waits = false;
        for (unsigned k = 0; k < m->n; k++)
            listed |= m->tree[k] == id;
        if (listed) {
            depth--;
            continue;
        }
        if (!can_move(m, id, &leaf))
            return false;
        const EchInstruction *i = ech_graph_node(m->g, id);
        for (uint32_t o = 0; !leaf && o < i->n_operands; o++) {
            EchId operand = ech_graph_operand(m->g, id, o);
            bool known = false;
            for (unsigned k = 0; k < m->n; k++)
                known |= m->tree[k] == operand;
            if (known)
                continue;
            if (depth == G_N_ELEMENTS(stack))
                return false;
            stack[depth++] = operand;
            waits = true;
        }
        if (waits)
            continue;
        if (m->n == MAX_TREE)
            return false;
        reshaped |= leaf && i->opcode == ECH_HLO_RESHAPE;
        m->tree[m->n++] = id;
        depth--;
    }
    return reshaped;
}

/* Is it the same number everywhere? */
static bool is_number(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return ech_graph_count(g, id) == 1 || (i->opcode == ECH_HLO_BROADCAST && i->n_operands == 1 && ech_graph_count(g, ech_graph_operand(g, id, 0)) == 1);
}

/* What is computed of one reshaped array and of numbers is computed of the array, and then reshaped. */
static bool sink(EchGraph *g, EchId id)
{
    const EchInstruction i = *ech_graph_node(g, id);
    const EchLayout *own = ech_graph_layout(g, id);
    EchId reshape = ECH_NONE;
    if (!own || !ech_hlo_is_elementwise((EchHlo)i.opcode) || i.opcode == ECH_HLO_COPY || i.n_called > 0 || i.n_control > 0 || i.n_operands > 4)
        return false;
    for (uint32_t k = 0; k < i.n_operands; k++) {
        EchId operand = ech_graph_operand(g, id, k);
        if (is_number(g, operand))
            continue;
        if (ech_graph_node(g, operand)->opcode != ECH_HLO_RESHAPE || operand >= g->n_known || g->first_use[operand + 1] - g->first_use[operand] != 1 ||
            !same_size(ech_graph_layout(g, operand), own) || reshape != ECH_NONE)
            return false;
        reshape = operand;
    }
    const EchLayout *from = reshape != ECH_NONE ? ech_graph_layout(g, ech_graph_operand(g, reshape, 0)) : NULL;
    if (!from || ech_graph_count(g, id) < FEW)
        return false;
    const EchLayout outer = *from, type = *own;
    EchId operands[4];
    for (uint32_t k = 0; k < i.n_operands; k++) {
        EchId operand = ech_graph_operand(g, id, k);
        if (operand == reshape)
            operands[k] = ech_graph_operand(g, reshape, 0);
        else if (ech_graph_node(g, operand)->opcode == ECH_HLO_BROADCAST && ech_graph_count(g, operand) > 1) {
            EchId number = ech_graph_operand(g, operand, 0);
            EchLayout of = *ech_graph_layout(g, operand);
            operands[k] = ech_graph_add_new(g, i.computation, ECH_HLO_BROADCAST, "number", ech_graph_array(g, &of, outer.dims, outer.rank), &number, 1);
            EchInstruction *node = ech_graph_node(g, operands[k]);
            node->attributes = "dimensions={}";
            node->attributes_n = (uint32_t)strlen(node->attributes);
        } else
            operands[k] = operand;
    }
    EchInstruction moved = i;
    moved.shape = ech_graph_array(g, &type, outer.dims, outer.rank);
    EchId computed = ech_graph_add(g, i.computation, moved, operands, i.n_operands);
    ech_graph_become(g, id, ECH_HLO_RESHAPE, &computed, 1);
    return true;
}

/* The sum @id, of what is @array before a reshape (m->outer) and was summed behind it (m->inner): whole groups of dimensions before the reshape, the rest of a
 * group behind it. False where no group is summed as a whole; @merged: where none of several dimensions is. */
static bool sum_groups(Mover *m, EchId id, EchId array, bool merged)
{
    EchGraph *g = m->g;
    const EchInstruction i = *ech_graph_node(g, id);
    EchId start = ech_graph_operand(g, id, 1), body = ech_graph_called(g, id, 0);
    bool summed[ECH_LAYOUT_MAX_RANK], whole[2 * ECH_LAYOUT_MAX_RANK], some[2 * ECH_LAYOUT_MAX_RANK] = {false}, now[ECH_LAYOUT_MAX_RANK];
    if (ech_graph_summed(&i, &m->inner, summed) == 0)
        return false;
    memset(whole, 1, sizeof whole);
    for (unsigned d = 0; d < m->inner.rank; d++) {
        whole[m->group[0][d]] &= summed[d] || m->inner.dims[d] == 1;
        some[m->group[0][d]] |= summed[d];
    }
    uint64_t left[ECH_LAYOUT_MAX_RANK], wanted[ECH_LAYOUT_MAX_RANK];
    uint8_t n_left = 0, n_wanted = 0;
    bool split = false, found = false, then[ECH_LAYOUT_MAX_RANK];
    for (unsigned d = 0; d < m->outer.rank; d++) {
        uint8_t group = m->group[1][d];
        now[d] = some[group] && whole[group];
        found |= now[d] && (!merged || (d > 0 && m->group[1][d - 1] == group));
        if (!now[d])
            left[n_left++] = m->outer.dims[d];
    }
    for (uint8_t d = 0; d < m->inner.rank; d++) {
        uint8_t group = m->group[0][d];
        if (some[group] && whole[group])
            continue;
        then[n_wanted] = summed[d];
        split |= summed[d];
        wanted[n_wanted++] = m->inner.dims[d];
    }
    if (!found || n_left == 0)
        return false;
    EchId again = ech_graph_sum(g, &i, array, start, body, m->outer.dims, m->outer.rank, now, ECH_NONE);
    if (n_left != n_wanted || memcmp(left, wanted, n_left * sizeof left[0]) != 0) {
        EchLayout type = *ech_graph_layout(g, again);
        again = ech_graph_add_new(g, i.computation, ECH_HLO_RESHAPE, "sums", ech_graph_array(g, &type, wanted, n_wanted), &again, 1);
    }
    if (split)
        (void)ech_graph_sum(g, &i, again, start, body, wanted, n_wanted, then, id);
    else {
        ech_graph_become(g, id, ECH_HLO_RESHAPE, &again, 1);
        ech_graph_node(g, id)->n_called = 0;
    }
    return true;
}

static bool is_sum(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return i->opcode == ECH_HLO_REDUCE && i->n_operands == 2 && i->n_called == 1 && i->n_control == 0 && ech_graph_count(g, ech_graph_operand(g, id, 0)) >= FEW;
}

/* Does the reshape only split dimensions? */
static bool only_splits(const Mover *m)
{
    for (unsigned d = 1; d < m->outer.rank; d++) {
        if (m->group[1][d] == m->group[1][d - 1])
            return false;
    }
    return true;
}

/* A sum over a reshaped array. */
static bool sum_first(EchGraph *g, EchId id)
{
    EchId reshape = is_sum(g, id) ? ech_graph_operand(g, id, 0) : ECH_NONE;
    if (reshape == ECH_NONE || ech_graph_node(g, reshape)->opcode != ECH_HLO_RESHAPE)
        return false;
    EchId array = ech_graph_operand(g, reshape, 0);
    const EchLayout *inner = ech_graph_layout(g, reshape), *outer = ech_graph_layout(g, array);
    if (!inner || !outer)
        return false;
    Mover m = {.g = g, .inner = *inner, .outer = *outer};
    return find_groups(&m) && sum_groups(&m, id, array, !only_splits(&m));
}

static EchId move_broadcast(Mover *m, EchId id)
{
    EchGraph *g = m->g;
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    bool has[ECH_LAYOUT_MAX_RANK * 2];
    int8_t to[ECH_LAYOUT_MAX_RANK];
    uint64_t sizes[2][ECH_LAYOUT_MAX_RANK];
    uint8_t rank[2] = {0, 0};
    size_t n;
    EchId computation = ech_graph_node(g, id)->computation, source = ech_graph_operand(g, id, 0);
    read_broadcast(m, id, dims, &n);
    spread_size(m, dims, n, has);
    for (uint8_t d = 0; d < m->inner.rank; d++) {
        for (size_t k = 0; k < n; k++)
            to[k] = dims[k] == d ? (int8_t)rank[0] : to[k];
        if (has[m->group[0][d]])
            sizes[0][rank[0]++] = m->inner.dims[d];
    }
    EchLayout type = *ech_graph_layout(g, id);
    source = ech_graph_spread(g, computation, source, to, sizes[0], rank[0]);
    for (uint8_t d = 0; d < m->outer.rank; d++) {
        if (!has[m->group[1][d]])
            continue;
        to[rank[1]] = (int8_t)d;
        sizes[1][rank[1]++] = m->outer.dims[d];
    }
    if (rank[0] != rank[1] || memcmp(sizes[0], sizes[1], rank[0] * sizeof sizes[0][0]) != 0)
        source = ech_graph_add_new(g, computation, ECH_HLO_RESHAPE, "spread-reshape", ech_graph_array(g, &type, sizes[1], rank[1]), &source, 1);
    return ech_graph_spread(g, computation, source, to, m->outer.dims, m->outer.rank);
}

static EchId moved_of(const Mover *m, EchId id)
{
    for (unsigned k = 0; k < m->n; k++) {
        if (m->tree[k] == id)
            return m->moved[k];
    }
    return id;
}

/* What is computed, without the reshapes before it; as @reshape where that is not ECH_NONE. */
static EchId move(Mover *m, EchId reshape)
{
    EchGraph *g = m->g;
    for (unsigned k = 0; k < m->n; k++) {
        EchId id = m->tree[k];
        EchInstruction i = *ech_graph_node(g, id);
        if (ech_graph_count(g, id) == 1)
            m->moved[k] = id;
        else if (i.opcode == ECH_HLO_RESHAPE)
            m->moved[k] = ech_graph_operand(g, id, 0);
        else if (i.opcode == ECH_HLO_BROADCAST)
            m->moved[k] = move_broadcast(m, id);
        else {
            g_autofree EchId *operands = g_new(EchId, (size_t)i.n_operands + 1);
            for (uint32_t o = 0; o < i.n_operands; o++)
                operands[o] = moved_of(m, ech_graph_operand(g, id, o));
            EchLayout type = *ech_graph_layout(g, id);
            i.shape = ech_graph_array(g, &type, m->outer.dims, m->outer.rank);
            if (k + 1 < m->n || reshape == ECH_NONE) {
                m->moved[k] = ech_graph_add(g, i.computation, i, operands, i.n_operands);
                continue;
            }
            /* The last is the reshape from now on. */
            ech_graph_become(g, reshape, (EchHlo)i.opcode, operands, i.n_operands);
            EchInstruction *node = ech_graph_node(g, reshape);
            node->attributes = i.attributes;
            node->attributes_n = i.attributes_n;
            m->moved[k] = reshape;
        }
    }
    return m->moved[m->n - 1];
}

/* A reshape that what is computed as @root, in that shape, hangs on. */
static EchId find_reshape(const EchGraph *g, EchId root)
{
    EchId stack[MAX_TREE];
    unsigned n = 1;
    stack[0] = root;
    for (unsigned seen = 0; n > 0 && seen < 2 * MAX_TREE; seen++) {
        EchId id = stack[--n];
        const EchInstruction *i = ech_graph_node(g, id);
        if (!same_size(ech_graph_layout(g, id), ech_graph_layout(g, root)))
            continue;
        if (i->opcode == ECH_HLO_RESHAPE)
            return id;
        for (uint32_t k = 0; ech_hlo_is_elementwise((EchHlo)i->opcode) && k < i->n_operands && n < MAX_TREE; k++)
            stack[n++] = ech_graph_operand(g, id, k);
    }
    return ECH_NONE;
}

/* A sum of what is computed of reshaped arrays, where the reshape only splits dimensions: all of it before the reshape. */
static bool sum_moved(EchGraph *g, EchId id)
{
    EchId root = is_sum(g, id) ? ech_graph_operand(g, id, 0) : ECH_NONE, reshape = root != ECH_NONE ? find_reshape(g, root) : ECH_NONE;
    if (reshape == ECH_NONE || reshape == root)
        return false;
    const EchLayout *inner = ech_graph_layout(g, root), *outer = ech_graph_layout(g, ech_graph_operand(g, reshape, 0));
    bool summed[ECH_LAYOUT_MAX_RANK], leaf, whole = false;
    if (!inner || !outer || same_size(inner, outer) || ech_graph_summed(ech_graph_node(g, id), inner, summed) == 0)
        return false;
    Mover m = {.g = g, .inner = *inner, .outer = *outer};
    if (!find_groups(&m) || !only_splits(&m))
        return false;
    for (unsigned d = 0; d < m.inner.rank; d++) {
        bool alone = (d == 0 || m.group[0][d] != m.group[0][d - 1]) && (d + 1 == m.inner.rank || m.group[0][d] != m.group[0][d + 1]);
        whole |= summed[d] && alone;
    }
    return whole && can_move(&m, root, &leaf) && !leaf && list_tree(&m, root) && sum_groups(&m, id, move(&m, ECH_NONE), false);
}

void ech_graph_move_reshapes(EchGraph *g)
{
    uint64_t moved = 0;
    size_t n = g->nodes->len;
    ech_graph_find_uses(g);
    g_autoptr(GArray) running = ech_graph_running(g);
    for (guint c = 0; c < running->len; c++) {
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c));
        for (guint k = 0; k < sorted->len; k++) {
            EchId id = g_array_index(sorted, EchId, k);
            moved += sink(g, id) || sum_first(g, id);
        }
    }
    for (EchId id = 0; id < n; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (!ech_graph_computation(g, i->computation)->body && sum_moved(g, id)) {
            moved++;
            continue;
        }
        if (i->opcode != ECH_HLO_RESHAPE || i->n_operands != 1 || i->n_control > 0 || ech_graph_computation(g, i->computation)->body)
            continue;
        EchId root = ech_graph_operand(g, id, 0);
        const EchLayout *inner = ech_graph_layout(g, root), *outer = ech_graph_layout(g, id);
        bool leaf;
        if (!inner || !outer || same_size(inner, outer))
            continue;
        Mover m = {.g = g, .inner = *inner, .outer = *outer};
        if (!find_groups(&m) || !can_move(&m, root, &leaf) || leaf || !list_tree(&m, root))
            continue;
        (void)move(&m, id);
        moved++;
    }
    if (moved > 0)
        ech_diag_note(g->diag, "reshapes_moved", moved);
}
