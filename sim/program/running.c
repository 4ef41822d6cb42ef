/* Running sums as XLA makes them for GPUs: windows as long as the row become windows of 16, and the same again over what each 16 come to
 * (xla/hlo/transforms/expanders/reduce_window_rewriter.cc); a scan that is associative becomes such windows first. */
#include "sim/program/graph.h"

#include <string.h>

#define MOST_SUMS 4096 /* of a program; each becomes some ten instructions a level */

enum { BASE = 16 };

typedef struct {
    EchGraph *g;
    EchId computation, reducer; /* ECH_NONE: to be made */
    EchHlo opcode;              /* of the reducer */
    EchLayout type;
    EchId start;
    bool backwards;
} Maker;

/* The operation of a reducer of two numbers (or arrays, of a scan's); @ret untouched where it does more than that. */
static bool operation(const EchGraph *g, EchId computation, EchHlo *ret)
{
    EchId root = ech_graph_computation(g, computation)->root;
    if (root == ECH_NONE)
        return false;
    const EchInstruction *i = ech_graph_node(g, root);
    if (i->opcode == ECH_HLO_TUPLE && i->n_operands > 0)
        i = ech_graph_node(g, ech_graph_operand(g, root, 0));
    bool simple = i->opcode == ECH_HLO_ADD || i->opcode == ECH_HLO_MULTIPLY || i->opcode == ECH_HLO_MAXIMUM || i->opcode == ECH_HLO_MINIMUM ||
                  i->opcode == ECH_HLO_AND || i->opcode == ECH_HLO_OR;
    if (simple)
        *ret = (EchHlo)i->opcode;
    return simple;
}

static void describe(EchGraph *g, EchId id, const char *text)
{
    EchInstruction *node = ech_graph_node(g, id);
    node->attributes = ech_program_builder_string(g->out, text, -1);
    node->attributes_n = (uint32_t)strlen(text);
}

static EchId add(Maker *m, EchHlo opcode, const uint64_t *dims, uint8_t rank, const EchId *operands, uint32_t n, const char *attributes)
{
    EchId id = ech_graph_add_new(m->g, m->computation, opcode, "running", ech_graph_array(m->g, &m->type, dims, rank), operands, n);
    describe(m->g, id, attributes);
    return id;
}

/* "AxBxC", each @other but that of @dim. */
static char *along(uint8_t rank, uint8_t dim, const char *own, const char *other)
{
    GString *text = g_string_new(NULL);
    for (uint8_t d = 0; d < rank; d++)
        g_string_append_printf(text, "%s%s", d ? "x" : "", d == dim ? own : other);
    return g_string_free(text, FALSE);
}

static char *slice_text(const uint64_t *dims, uint8_t rank, uint8_t dim, uint64_t from, uint64_t to)
{
    GString *text = g_string_new("slice={");
    for (uint8_t d = 0; d < rank; d++)
        g_string_append_printf(text, "%s[%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT "]", d ? ", " : "", d == dim ? from : 0, d == dim ? to : dims[d]);
    g_string_append_c(text, '}');
    return g_string_free(text, FALSE);
}

static EchId window(Maker *m, const uint64_t *dims, uint8_t rank, uint8_t dim, EchId array)
{
    uint64_t n = dims[dim];
    g_autofree char *size = g_strdup_printf("%" G_GUINT64_FORMAT, n), *before = g_strdup_printf("%" G_GUINT64_FORMAT "_0", n - 1);
    g_autofree char *after = g_strdup_printf("0_%" G_GUINT64_FORMAT, n - 1);
    g_autofree char *sizes = along(rank, dim, size, "1"), *pads = along(rank, dim, m->backwards ? after : before, "0_0");
    g_autofree char *text = g_strdup_printf("window={size=%s pad=%s}", sizes, pads);
    EchId made = add(m, ECH_HLO_REDUCE_WINDOW, dims, rank, (EchId[]){array, m->start}, 2, text);
    if (m->reducer == ECH_NONE)
        m->reducer = ech_graph_add_reducer(m->g, m->opcode, ech_graph_array(m->g, &m->type, NULL, 0));
    ech_graph_set_called(m->g, made, m->reducer);
    return made;
}

/* Sums up to each element of @array along @dim. */
static EchId running(Maker *m, const uint64_t *dims, uint8_t rank, uint8_t dim, EchId array)
{
    uint64_t n = dims[dim], columns = (n + BASE - 1) / BASE;
    if (n <= BASE || rank + 1 > ECH_LAYOUT_MAX_RANK)
        return window(m, dims, rank, dim, array);
    uint64_t padded[ECH_LAYOUT_MAX_RANK], apart[ECH_LAYOUT_MAX_RANK], ends[ECH_LAYOUT_MAX_RANK], tops[ECH_LAYOUT_MAX_RANK];
    memcpy(padded, dims, rank * sizeof *dims);
    padded[dim] = columns * BASE;
    if (padded[dim] > n) {
        g_autofree char *own = g_strdup_printf("0_%" G_GUINT64_FORMAT, padded[dim] - n), *pads = along(rank, dim, own, "0_0");
        g_autofree char *text = g_strconcat("padding=", pads, NULL);
        array = add(m, ECH_HLO_PAD, padded, rank, (EchId[]){array, m->start}, 2, text);
    }
    for (uint8_t d = 0, at = 0; d < rank; d++) {
        apart[at++] = d == dim ? columns : dims[d];
        if (d == dim)
            apart[at++] = BASE;
    }
    memcpy(ends, apart, sizeof ends);
    ends[dim + 1] = 1;
    memcpy(tops, dims, rank * sizeof *dims);
    tops[dim] = columns;
    array = add(m, ECH_HLO_RESHAPE, apart, (uint8_t)(rank + 1), &array, 1, "");
    EchId each = window(m, apart, (uint8_t)(rank + 1), (uint8_t)(dim + 1), array);
    g_autofree char *last = slice_text(apart, (uint8_t)(rank + 1), (uint8_t)(dim + 1), m->backwards ? 0 : BASE - 1, m->backwards ? 1 : BASE);
    EchId sums = add(m, ECH_HLO_SLICE, ends, (uint8_t)(rank + 1), &each, 1, last);
    sums = add(m, ECH_HLO_RESHAPE, tops, rank, &sums, 1, "");
    sums = running(m, tops, rank, dim, sums);
    /* What comes before each 16: the sums, one further. */
    uint64_t fewer[ECH_LAYOUT_MAX_RANK];
    memcpy(fewer, tops, rank * sizeof *tops);
    fewer[dim] = columns - 1;
    g_autofree char *all_but_one = slice_text(tops, rank, dim, m->backwards ? 1 : 0, m->backwards ? columns : columns - 1);
    sums = add(m, ECH_HLO_SLICE, fewer, rank, &sums, 1, all_but_one);
    g_autofree char *moved = along(rank, dim, m->backwards ? "0_1" : "1_0", "0_0"), *moved_text = g_strconcat("padding=", moved, NULL);
    sums = add(m, ECH_HLO_PAD, tops, rank, (EchId[]){sums, m->start}, 2, moved_text);
    GString *dimensions = g_string_new("dimensions={");
    for (uint8_t d = 0; d < rank; d++)
        g_string_append_printf(dimensions, "%s%u", d ? "," : "", d > dim ? d + 1u : d);
    g_string_append_c(dimensions, '}');
    g_autofree char *spread_text = g_string_free(dimensions, FALSE);
    EchId spread = add(m, ECH_HLO_BROADCAST, apart, (uint8_t)(rank + 1), &sums, 1, spread_text);
    EchId made = add(m, m->opcode, apart, (uint8_t)(rank + 1), (EchId[]){spread, each}, 2, "");
    made = add(m, ECH_HLO_RESHAPE, padded, rank, &made, 1, "");
    if (padded[dim] == n)
        return made;
    g_autofree char *there = slice_text(padded, rank, dim, 0, n);
    return add(m, ECH_HLO_SLICE, dims, rank, &made, 1, there);
}

static bool is_text(const char *text, size_t n, const char *wanted)
{
    return text && n == strlen(wanted) && memcmp(text, wanted, n) == 0;
}

/* A window as long as the one dimension that it runs along, over what is before or behind each element. */
static bool runs_along(const EchInstruction *i, const EchLayout *from, const EchLayout *to, uint8_t *ret_dim, bool *ret_backwards)
{
    size_t n;
    const char *text = ech_program_attribute(i, "window", &n);
    if (!text || !from || !to || from->rank != to->rank || from->rank == 0 || g_strstr_len(text, (gssize)n, "stride=") ||
        g_strstr_len(text, (gssize)n, "dilate="))
        return false;
    for (uint8_t d = 0; d < from->rank; d++) {
        if (from->dims[d] != to->dims[d])
            return false;
        g_autofree char *size = g_strdup_printf("%" G_GUINT64_FORMAT, from->dims[d]), *sizes = along(from->rank, d, size, "1");
        for (unsigned back = 0; back < 2 && from->dims[d] > BASE; back++) {
            g_autofree char *own = g_strdup_printf(back ? "0_%" G_GUINT64_FORMAT : "%" G_GUINT64_FORMAT "_0", from->dims[d] - 1);
            g_autofree char *pads = along(from->rank, d, own, "0_0"), *whole = g_strdup_printf("{size=%s pad=%s}", sizes, pads);
            if (is_text(text, n, whole)) {
                *ret_dim = d;
                *ret_backwards = back;
                return true;
            }
        }
    }
    return false;
}

static bool expand_window(EchGraph *g, EchId id)
{
    const EchInstruction i = *ech_graph_node(g, id);
    uint8_t dim;
    Maker m = {.g = g, .computation = i.computation, .reducer = ECH_NONE};
    if (i.n_operands != 2 || i.n_called != 1 || !operation(g, ech_graph_called(g, id, 0), &m.opcode))
        return false;
    EchId array = ech_graph_operand(g, id, 0);
    const EchLayout *from = ech_graph_layout(g, array), *to = ech_graph_layout(g, id);
    if (!runs_along(&i, from, to, &dim, &m.backwards))
        return false;
    m.type = *to;
    m.reducer = ech_graph_called(g, id, 0);
    m.start = ech_graph_operand(g, id, 1);
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    memcpy(dims, m.type.dims, sizeof dims);
    EchId made = running(&m, dims, m.type.rank, dim, array);
    ech_graph_become(g, id, ECH_HLO_RESHAPE, &made, 1);
    return true;
}

/* One array along one dimension, with what it comes to: a tuple of both. */
static bool expand_scan(EchGraph *g, EchId id)
{
    const EchInstruction i = *ech_graph_node(g, id);
    size_t n;
    int64_t dim[2];
    Maker m = {.g = g, .computation = i.computation, .reducer = ECH_NONE};
    const char *associative = ech_program_attribute(&i, "is_associative", &n);
    if (!associative || !is_text(associative, n, "true") || i.n_operands != 2 || i.n_called != 1 || !operation(g, ech_graph_called(g, id, 0), &m.opcode))
        return false;
    const char *reverse = ech_program_attribute(&i, "is_reverse", &n);
    m.backwards = reverse && is_text(reverse, n, "true");
    const char *dims_text = ech_program_attribute(&i, "dimensions", &n);
    EchId array = ech_graph_operand(g, id, 0), carried = ech_graph_operand(g, id, 1);
    const EchLayout *from = ech_graph_layout(g, array), *carry = ech_graph_layout(g, carried);
    const EchProgram *out = ech_program_builder_peek(g->out);
    const EchShape *shape = &out->shapes[i.shape];
    if (!dims_text || ech_program_numbers(dims_text, n, dim, 2) != 1 || !from || !carry || dim[0] < 0 || dim[0] >= from->rank ||
        carry->rank + 1 != from->rank || !shape->is_tuple || shape->n_elements != 2 || ech_layout_elements(from) == 0)
        return false;
    const EchLayout *made_here = ech_program_layout(out, out->elements[shape->first_element]);
    if (!made_here || made_here->rank != from->rank || memcmp(made_here->dims, from->dims, from->rank * sizeof from->dims[0]) != 0)
        return false;
    m.type = *from;
    uint64_t dims[ECH_LAYOUT_MAX_RANK], end[ECH_LAYOUT_MAX_RANK], left[ECH_LAYOUT_MAX_RANK];
    memcpy(dims, m.type.dims, sizeof dims);
    memcpy(end, dims, sizeof end);
    end[dim[0]] = 1;
    memcpy(left, carry->dims, sizeof left);
    uint8_t rank = m.type.rank;
    m.start = ech_graph_add_new(g, m.computation, ECH_HLO_CONSTANT, "running-zero", ech_graph_array(g, &m.type, NULL, 0), NULL, 0);
    EchId parts[2] = {running(&m, dims, rank, (uint8_t)dim[0], array), ECH_NONE};
    g_autofree char *last = slice_text(dims, rank, (uint8_t)dim[0], m.backwards ? 0 : dims[dim[0]] - 1, m.backwards ? 1 : dims[dim[0]]);
    parts[1] = add(&m, ECH_HLO_SLICE, end, rank, &parts[0], 1, last);
    parts[1] = add(&m, ECH_HLO_RESHAPE, left, (uint8_t)(rank - 1), &parts[1], 1, "");
    ech_graph_become(g, id, ECH_HLO_TUPLE, parts, 2);
    return true;
}

void ech_graph_expand_running(EchGraph *g)
{
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n && changed < MOST_SUMS; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (ech_graph_computation(g, i->computation)->body || i->n_control > 0)
            continue;
        if (i->opcode == ECH_HLO_REDUCE_WINDOW)
            changed += expand_window(g, id);
        else if (i->opcode == ECH_HLO_SCAN)
            changed += expand_scan(g, id);
    }
    if (changed > 0)
        ech_diag_note(g->diag, "running_sums_in_windows", changed);
}
