/* Fusion by one rule, for sizes and times that are not those of a program nobody would run: an element-wise instruction, or one that only moves data, becomes
 * part of what reads it. Where several kernels read it, each makes it again if that reads no more than its own bytes (a broadcast, a chain that hangs on one
 * array), else it is made once. Matrix products take element-wise readers into their own kernel. Compilers weigh more; XLA's fusion passes begin the same
 * way. */
#include "sim/program/graph.h"

#include <string.h>

enum {
    MAX_BODY = 256,
    MAX_BODY_TPU = 1024,
    MAX_COPIES = 24,
    MAX_CONE = 128,
    MAX_CONE_TPU = 1024,
    MAX_REMADE = 1 << 18,
    MAX_ROW = 5000,
    MAX_STEPS = 8,
    FEW = 65536,
    LANES = 128
};

typedef enum { KIND_WALL, KIND_FREE, KIND_LOOP, KIND_REDUCE, KIND_MATRIX, KIND_UPDATE, KIND_GATHER, KIND_WINDOW } Kind;

typedef enum { CHEAP, DEAR, UNKNOWN } Cost; /* UNKNOWN: too much to tell */

typedef struct {
    EchGraph *g;
    EchId (*kernels)[MAX_COPIES]; /* per node: the kernels that it is part of; itself alone: it is one */
    uint8_t *n_kernels;
    uint32_t *members; /* per kernel */
    bool *matrix;      /* per kernel: has a matrix product */
    Cost *kept;        /* per node: of making it again; CHEAP where nothing else reads it, and on GPUs */
    uint32_t *seen;    /* per node: the last cone that it was found in */
    uint32_t *inner;   /* per node of that: how many of its reads are inside */
    uint32_t cones;
    EchId *cone; /* cone[MAX_CONE_TPU] */
    uint64_t fused;
} Fuser;

/* Is every second element or so taken of what lies in one tile, or spread? A kernel of its own on a TPU (libtpu 0.0.52, v5e: a linear recurrence by
 * jax.lax.associative_scan and its gradient, and of single ones all; elements of dimensions outside of the tile are taken inside others). */
static bool is_spaced(const EchGraph *g, const EchInstruction *i)
{
    size_t n;
    const EchLayout *from = i->n_operands > 0 ? ech_graph_layout(g, g_array_index(g->operands, EchId, i->first_operand)) : NULL;
    const char *text = ech_program_attribute(i, i->opcode == ECH_HLO_PAD ? "padding" : "slice", &n), *end = text ? text + n : NULL;
    if (g->generation == 0 || !from || !text)
        return false;
    if (i->opcode == ECH_HLO_PAD) { /* "1_1_1x0_0" */
        for (unsigned marks = 0; text < end; text++) {
            marks = *text == '_' ? marks + 1 : *text == 'x' ? 0 : marks;
            if (marks == 2 && *text == '_' && text + 1 < end && text[1] != '0')
                return true;
        }
        return false;
    }
    for (unsigned d = 0; d < from->rank && (text = memchr(text, '[', (size_t)(end - text))); d++) { /* "[0:8:2], [0:4]" */
        const char *close = memchr(text, ']', (size_t)(end - text));
        int64_t limits[3];
        bool steps = close && ech_program_numbers(text, (size_t)(close - text), limits, 3) == 3 && limits[2] > 1;
        if (steps && (d == from->order[0] || (from->rank > 1 && d == from->order[1])))
            return true;
        text++;
    }
    return false;
}

static Kind kind_of(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (g->generation > 0 && i->opcode == ECH_HLO_CUSTOM_CALL && i->target && strcmp(i->target, "PartialReduce") == 0)
        return KIND_REDUCE; /* lax.approx_max_k's first step */
    if (g_hash_table_contains(g->apart, GSIZE_TO_POINTER((size_t)id + 1)))
        return KIND_WALL;
    if (ech_graph_shape(g, id)->is_tuple) /* several arrays are summed up in one kernel: the largest and where it is */
        return i->opcode == ECH_HLO_REDUCE ? KIND_REDUCE : KIND_WALL;
    switch ((int)i->opcode) {
    case ECH_HLO_BITCAST:
    case ECH_HLO_BROADCAST:
    case ECH_HLO_IOTA: return KIND_FREE;
    case ECH_HLO_RESHAPE: return id < g->n_own && g->own_kernel[id] ? KIND_WALL : KIND_LOOP;
    case ECH_HLO_SLICE:
    case ECH_HLO_PAD: return is_spaced(g, i) ? KIND_WALL : KIND_LOOP;
    case ECH_HLO_TRANSPOSE:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_REVERSE:
    case ECH_HLO_CONCATENATE: return KIND_LOOP;
    case ECH_HLO_GATHER: return g->generation > 0 ? KIND_GATHER : KIND_LOOP; /* a TPU's is a kernel of its own */
    case ECH_HLO_REDUCE: return KIND_REDUCE;
    case ECH_HLO_REDUCE_WINDOW: return g->generation == 0 && i->n_operands == 2 ? KIND_WINDOW : KIND_WALL;
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

/* A softmax: the largest element of each row, which is taken from the row before its exponential. A TPU's compiler makes that one kernel, the row's maximum in
 * it (seen for arrays of three dimensions and more, rows up to 5,000). */
static bool is_row_maximum(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    size_t n;
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    if (g->generation == 0 || i->opcode != ECH_HLO_REDUCE || i->n_operands != 2 || i->n_called != 1)
        return false;
    EchId row = ech_graph_operand(g, id, 0), reducer = ech_graph_computation(g, ech_graph_called(g, id, 0))->root;
    const EchLayout *whole = ech_graph_layout(g, row);
    const char *text = ech_program_attribute(i, "dimensions", &n);
    size_t count_of = text ? ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)) : 0;
    if (reducer == ECH_NONE || ech_graph_node(g, reducer)->opcode != ECH_HLO_MAXIMUM || !whole || whole->rank < 3 || count_of != 1 || dims[0] < 0 ||
        dims[0] >= whole->rank || whole->dims[dims[0]] > MAX_ROW)
        return false;
    /* Every reader hands it on to the one subtraction. */
    EchId at = id;
    for (unsigned steps = 0; steps < MAX_STEPS; steps++) {
        if (g->first_use[at + 1] - g->first_use[at] != 1)
            return false;
        EchId user = g->uses[g->first_use[at]].user;
        const EchInstruction *reader = ech_graph_node(g, user);
        if (reader->opcode == ECH_HLO_SUBTRACT && ech_graph_count(g, user) == ech_graph_count(g, row))
            return ech_graph_operand(g, user, 0) == row && g->first_use[user + 1] - g->first_use[user] == 1 &&
                   ech_graph_node(g, g->uses[g->first_use[user]].user)->opcode == ECH_HLO_EXPONENTIAL;
        bool handed = reader->opcode == ECH_HLO_BROADCAST || reader->opcode == ECH_HLO_RESHAPE || reader->opcode == ECH_HLO_BITCAST ||
                      (ech_hlo_is_elementwise((EchHlo)reader->opcode) && reader->n_called == 0);
        if (!handed || kind_of(g, user) == KIND_WALL)
            return false;
        at = user;
    }
    return false;
}

static bool widens(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return i->opcode == ECH_HLO_CONVERT && i->n_operands == 1 && ech_graph_shape(g, ech_graph_operand(g, id, 0))->dense < ech_graph_shape(g, id)->dense;
}

/* What reading it counts: its elements on a TPU, whatever their width (a narrower copy is made again by each that reads it), but bytes where two cores share a
 * kernel and on GPUs. */
static uint64_t weight(const EchGraph *g, EchId id)
{
    return g->generation > 0 && !g->two_cores ? ech_graph_count(g, id) : ech_graph_shape(g, id)->dense;
}

/* Is it computed of a product alone, step by step, and narrower? That ends the product's kernel, whoever reads it: the sums of 8-bit products are never in
 * memory (libtpu 0.0.52). */
static bool narrows_product(const EchGraph *g, EchId id)
{
    EchId at = id;
    for (unsigned steps = 0; g->generation > 0 && steps < 2 * MAX_STEPS; steps++) {
        EchId next = ECH_NONE;
        if (!ech_hlo_is_elementwise((EchHlo)ech_graph_node(g, at)->opcode))
            return false;
        for (uint32_t k = 0; k < ech_graph_node(g, at)->n_operands; k++) {
            EchId operand = ech_graph_operand(g, at, k);
            EchHlo made = (EchHlo)ech_graph_node(g, operand)->opcode;
            if (ech_graph_count(g, operand) == 1 || made == ECH_HLO_BROADCAST || made == ECH_HLO_IOTA)
                continue;
            if (next != ECH_NONE && next != operand)
                return false;
            next = operand;
        }
        if (next == ECH_NONE || g->first_use[next + 1] - g->first_use[next] != 1)
            return false;
        if (kind_of(g, next) == KIND_MATRIX)
            return ech_graph_count(g, next) == ech_graph_count(g, id) && ech_graph_shape(g, next)->dense > ech_graph_shape(g, id)->dense;
        at = next;
    }
    return false;
}

/* The slice that an iteration takes of what a loop carries: reading it again reads no more than it has itself. */
static bool is_part(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return g->generation > 0 && i->opcode == ECH_HLO_DYNAMIC_SLICE && i->n_operands > 0 &&
           ech_graph_node(g, ech_graph_operand(g, id, 0))->opcode == ECH_HLO_GET_TUPLE_ELEMENT;
}

static uint32_t uses_of(const EchGraph *g, EchId id)
{
    return g->first_use[id + 1] - g->first_use[id];
}

/* Is a product in the cone of @n nodes read for its first alone? It would end with that. */
static bool ends_product(Fuser *f, unsigned n)
{
    const EchGraph *g = f->g;
    for (bool changed = true; changed;) { /* what is read outside has its operands read there, too */
        changed = false;
        for (unsigned at = 1; at < n; at++) {
            EchId id = f->cone[at];
            for (uint32_t k = 0; f->inner[id] != uses_of(g, id) && k < ech_graph_node(g, id)->n_operands; k++) {
                EchId operand = ech_graph_operand(g, id, k);
                if (f->seen[operand] == f->cones && f->inner[operand] > 0) {
                    f->inner[operand] = 0;
                    changed = true;
                }
            }
        }
    }
    for (unsigned at = 1; at < n; at++) {
        if (kind_of(g, f->cone[at]) == KIND_MATRIX && f->inner[f->cone[at]] == uses_of(g, f->cone[at]))
            return true;
    }
    return false;
}

/* Does making it again read no more than reading it would? Followed back through what every kernel can make: a whole random number generator reads nothing.
 * Where all of @products readers are products, as much as writing it once and reading it so often, of what is in memory anyhow; 0: others read it. (libtpu
 * 0.0.52, v5e and v6e; two cores that share a kernel make narrow copies once.) */
static Cost cost_of(Fuser *f, EchId id, unsigned products)
{
    const EchGraph *g = f->g;
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode == ECH_HLO_IOTA || i->opcode == ECH_HLO_BROADCAST || i->opcode == ECH_HLO_BITCAST || widens(g, id) || ech_graph_count(g, id) <= 1)
        return CHEAP;
    if (narrows_product(g, id))
        return DEAR;
    uint64_t own = weight(g, id), strict = own + (g->generation > 0 ? own / 8 : 0), read = 0; /* what belongs to whole rows counts little */
    uint64_t most = g->generation > 0 && !g->two_cores && products > 1 ? MAX(strict, ech_bytes_mul(own, products + 1) / (products - 1)) : strict;
    unsigned n = 1;
    f->cone[0] = id;
    f->seen[id] = ++f->cones;
    for (unsigned at = 0; at < n; at++) {
        EchId made_id = f->cone[at];
        const EchInstruction *made = ech_graph_node(g, made_id);
        bool inside = at == 0 || made->opcode == ECH_HLO_BITCAST || made->opcode == ECH_HLO_BROADCAST ||
                      (made->opcode == ECH_HLO_RESHAPE && kind_of(g, made_id) != KIND_WALL) || made->opcode == ECH_HLO_TRANSPOSE ||
                      made->opcode == ECH_HLO_IOTA || (ech_hlo_is_elementwise((EchHlo)made->opcode) && kind_of(g, made_id) == KIND_LOOP);
        if (at > 0 && f->kept[made_id] == UNKNOWN)
            return UNKNOWN;
        inside = inside && (at == 0 || f->kept[made_id] == CHEAP);
        if (!inside && is_row_maximum(g, made_id))
            return DEAR; /* made in the one kernel of the softmax */
        if (is_part(g, made_id) || /* of what is in memory anyhow */ !inside) {
            read += is_part(g, made_id) || ech_graph_count(g, made_id) > 1 ? MIN(weight(g, made_id), UINT64_MAX / MAX_CONE_TPU / 2) : 0;
            if (read > most)
                return DEAR;
            continue;
        }
        for (uint32_t k = 0; k < made->n_operands; k++) {
            EchId operand = ech_graph_operand(g, made_id, k);
            if (f->seen[operand] == f->cones) {
                f->inner[operand]++;
                continue;
            }
            if (n == (g->generation > 0 ? MAX_CONE_TPU : MAX_CONE))
                return UNKNOWN;
            f->seen[operand] = f->cones;
            f->inner[operand] = 1;
            f->cone[n++] = operand;
        }
    }
    return read > strict && ends_product(f, n) ? DEAR : CHEAP;
}

/* What a window may take in, whose every position makes it: what hardly takes anything. */
static bool is_free(const EchInstruction *i)
{
    return i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_BROADCAST || i->opcode == ECH_HLO_IOTA || i->opcode == ECH_HLO_RESHAPE ||
           i->opcode == ECH_HLO_CONVERT;
}

static bool is_spread_number(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return i->opcode == ECH_HLO_BROADCAST && i->n_operands == 1 && ech_graph_count(g, ech_graph_operand(g, id, 0)) <= 1;
}

/* What a GPU's product makes of its operands while it reads them: turned, joined and cut ones, and what is computed of no more bytes than it has itself. Of
 * 1,596 products in compiles by XLA 1,309 make nothing, 210 turn, 40 join, 34 compute (triton/gemm_fusion.cc weighs bytes the same way). */
static bool feeds_product(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    switch ((int)i->opcode) {
    case ECH_HLO_BITCAST:
    case ECH_HLO_TRANSPOSE:
    case ECH_HLO_CONCATENATE:
    case ECH_HLO_SLICE: return true;
    case ECH_HLO_BROADCAST: return is_spread_number(g, id);
    case ECH_HLO_RESHAPE: return ech_graph_is_no_op(g, id);
    default: break;
    }
    uint64_t read = 0;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId operand = ech_graph_operand(g, id, k);
        read = is_spread_number(g, operand) ? read : ech_bytes_add(read, ech_graph_shape(g, operand)->dense);
    }
    return ech_hlo_is_elementwise((EchHlo)i->opcode) && i->n_called == 0 && !ech_hlo_is_transcendental((EchHlo)i->opcode) && i->opcode != ECH_HLO_DIVIDE &&
           read <= ech_graph_shape(g, id)->dense;
}

/* Does @id reach the product of its reader's kernel, or what is computed of that? */
static bool is_before_product(const Fuser *f, EchId reader, EchId kernel)
{
    const EchGraph *g = f->g;
    for (unsigned steps = 0; steps < MAX_CONE; steps++) {
        if (kind_of(g, reader) == KIND_MATRIX)
            return true;
        EchId next = ECH_NONE;
        for (uint32_t u = g->first_use[reader]; reader != kernel && u < g->first_use[reader + 1] && next == ECH_NONE; u++)
            for (unsigned k = 0; k < f->n_kernels[g->uses[u].user] && next == ECH_NONE; k++)
                next = f->kernels[g->uses[u].user][k] == kernel ? g->uses[u].user : ECH_NONE;
        if (next == ECH_NONE)
            return false;
        reader = next;
    }
    return true;
}

/* Numbers rounded to integers of 8 bits and fewer: a TPU's product reads such from memory (all six of a network of 8-bit products, libtpu 0.0.52). */
static bool makes_small_integers(const EchGraph *g, EchId id)
{
    const EchLayout *l = ech_graph_layout(g, id), *from = ech_graph_node(g, id)->n_operands == 1 ? ech_graph_layout(g, ech_graph_operand(g, id, 0)) : NULL;
    return g->generation > 0 && ech_graph_node(g, id)->opcode == ECH_HLO_CONVERT && l && from && l->bits <= 8 && (l->dtype[0] == 's' || l->dtype[0] == 'u') &&
           from->bits > 8;
}

/* Elements of each row that a scatter adds. */
static uint64_t row_scattered(const EchGraph *g, EchId scatter)
{
    const EchInstruction *i = ech_graph_node(g, scatter);
    const EchLayout *updates = i->n_operands == 3 ? ech_graph_layout(g, ech_graph_operand(g, scatter, 2)) : NULL;
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n = updates ? ech_program_attribute_numbers(i, "update_window_dims", dims, G_N_ELEMENTS(dims)) : 0;
    uint64_t row = 1;
    for (size_t k = 0; k < MIN(n, G_N_ELEMENTS(dims)); k++)
        row = ech_bytes_mul(row, dims[k] >= 0 && dims[k] < updates->rank ? updates->dims[dims[k]] : 1);
    return row;
}

/* Does a TPU's scatter compute what it adds? While its table has room where kernels have their own arrays on chip; SparseCores read it. (libtpu 0.0.52: rows of
 * 16 to 512 in tables of 8 to 41 MB; v5e up to 13.3 by 128, 10.2 by 512, v5p 10.2, v6e 28.2, no more by 14.3, 12.3, 15.4 and 30.7; tpu7x none.) */
static bool makes_updates(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode != ECH_HLO_SCATTER || i->n_operands != 3 || g->generation < 5)
        return i->opcode == ECH_HLO_SCATTER;
    EchBytes room = (EchBytes)(g->generation == 6 ? 32 : 16) << 20, own = ech_bytes_add((EchBytes)2 << 20, ech_bytes_mul(row_scattered(g, id), 8192));
    return g->generation < 7 && ech_bytes_add(ech_layout_padded_bytes(ech_graph_layout(g, id), ECH_LAYOUT_TPU), own) <= room;
}

/* Does it pick the rows that it adds, too? Where they are narrow. */
static bool picks_updates(const EchGraph *g, EchId id)
{
    return g->generation >= 5 && ech_graph_node(g, id)->n_operands == 3 && makes_updates(g, id) && row_scattered(g, id) <= LANES;
}

/* Can the kernels of @reader make @id themselves? */
static bool takes(const Fuser *f, EchId id, EchId reader, uint32_t operand)
{
    const EchGraph *g = f->g;
    Kind own = kind_of(g, id), its = kind_of(g, reader);
    bool picked = own == KIND_GATHER && f->n_kernels[reader] == 1 && picks_updates(g, f->kernels[reader][0]) && (its != KIND_UPDATE || operand == 2);
    if (its == KIND_WALL || is_host(g, reader) || own == KIND_UPDATE || (own == KIND_GATHER && !picked) || own == KIND_WINDOW ||
        ((its == KIND_UPDATE || its == KIND_GATHER) && operand == 0) ||
        (own == KIND_REDUCE && (f->n_kernels[reader] != 1 || f->matrix[f->kernels[reader][0]] || !is_row_maximum(g, id))))
        return false;
    if ((its == KIND_MATRIX && makes_small_integers(g, id)) || (g->generation > 0 && operand == 2 && ech_graph_node(g, reader)->opcode == ECH_HLO_SCATTER &&
                                                                !is_free(ech_graph_node(g, id)) && !makes_updates(g, reader)))
        return false;
    bool dear = !is_free(ech_graph_node(g, id));
    for (unsigned k = 0; k < f->n_kernels[reader]; k++) {
        if (f->members[f->kernels[reader][k]] >= (g->generation > 0 ? MAX_BODY_TPU : MAX_BODY))
            return false;
        if (dear && kind_of(g, f->kernels[reader][k]) == KIND_WINDOW) /* whose every position would make it */
            return false;
        /* A loop's part of an array is copied before a GPU's product reads it: none of 880 products in 28 programs by XLA of JAX 0.10 to 0.12 has one inside.
         */
        if (g->generation == 0 && ech_graph_node(g, id)->opcode == ECH_HLO_DYNAMIC_SLICE && f->matrix[f->kernels[reader][k]])
            return false;
        if (g->generation == 0 && own != KIND_MATRIX && f->matrix[f->kernels[reader][k]] && is_before_product(f, reader, f->kernels[reader][k]) &&
            !feeds_product(g, id))
            return false;
    }
    if (own != KIND_MATRIX)
        return true;
    /* A product's kernel ends with what is computed of each of its elements. */
    EchId kernel = f->kernels[reader][0];
    if (f->n_kernels[reader] != 1 || f->matrix[kernel] || its == KIND_MATRIX || (its == KIND_REDUCE && kernel == reader && g->generation == 0))
        return false;
    if (its == KIND_REDUCE) /* rows' maxima, inside */
        return true;
    EchHlo opcode = (EchHlo)ech_graph_node(g, reader)->opcode;
    bool each = ech_hlo_is_elementwise(opcode) || opcode == ECH_HLO_BITCAST || opcode == ECH_HLO_RESHAPE || (its == KIND_UPDATE && operand == 1);
    Kind end = kind_of(g, kernel);
    return each && (end == KIND_LOOP || end == KIND_FREE || end == KIND_UPDATE || (end == KIND_REDUCE && g->generation > 0)) &&
           ech_graph_count(g, reader) >= ech_graph_count(g, id);
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
    bool products = true;
    for (unsigned k = 0; k < n; k++)
        products &= f->matrix[found[k]];
    alone = alone || n == 0 || (n > 1 && (own == KIND_MATRIX || cost_of(f, id, products ? n : 0) != CHEAP));
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
    bool input = g->generation == 0 && (kind == KIND_REDUCE || ech_graph_node(g, kernel)->opcode == ECH_HLO_SCATTER); /* TPUs know no input fusions */
    w.body = ech_graph_add_body(g, "fused_computation");
    EchId root = write_inside(f, &w, kernel);
    ech_graph_computation(g, w.body)->root = root;
    EchInstruction *node = ech_graph_node(g, kernel);
    node->opcode = ECH_HLO_FUSION;
    node->opcode_name = ech_hlo_name(ECH_HLO_FUSION);
    node->fusion_kind = f->matrix[kernel] ? 'O' : input ? 'I' : kind == KIND_GATHER ? 'C' : 'L';
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

/* A reader that no kernel's value can be handed to. */
static bool needs_array(const EchGraph *g, EchGraphUse use)
{
    Kind kind = kind_of(g, use.user);
    return kind == KIND_WALL || is_host(g, use.user) || ((kind == KIND_UPDATE || kind == KIND_GATHER) && use.operand == 0);
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

/* A wider copy of an array for those readers that need it in memory; the others widen what they read themselves. */
static void part_converts(EchGraph *g)
{
    size_t n = g->nodes->len;
    for (EchId id = 0; id < n; id++) {
        EchInstruction i = *ech_graph_node(g, id);
        if (!g->live[id] || !widens(g, id) || i.n_control > 0 || is_host(g, id) || ech_graph_computation(g, i.computation)->body)
            continue;
        EchId operand = ech_graph_operand(g, id, 0), copy = ECH_NONE;
        uint32_t needing = 0, uses = g->first_use[id + 1] - g->first_use[id];
        for (uint32_t u = g->first_use[id]; u < g->first_use[id + 1]; u++)
            needing += needs_array(g, g->uses[u]);
        for (uint32_t u = g->first_use[id]; needing > 0 && needing < uses && u < g->first_use[id + 1]; u++) {
            if (!needs_array(g, g->uses[u]))
                continue;
            if (copy == ECH_NONE)
                copy = ech_graph_add(g, i.computation, i, &operand, 1);
            ech_graph_set_operand(g, g->uses[u].user, g->uses[u].operand, copy);
        }
    }
}

/* The widest dimension's elements that lie next to each other. */
static uint64_t row_of(const EchLayout *l)
{
    for (unsigned k = 0; k < l->rank; k++) {
        if (l->dims[l->order[k]] != 1)
            return l->dims[l->order[k]];
    }
    return 1;
}

static bool passes_on(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return i->opcode == ECH_HLO_TRANSPOSE || i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_COPY || i->opcode == ECH_HLO_SLICE ||
           ech_graph_is_no_op(g, id) || (ech_hlo_is_elementwise((EchHlo)i->opcode) && i->n_called == 0);
}

/* Is what @id makes, or what it is made of (@back), the affair of a product, moves and arithmetic element by element aside? Products take and give rows as they
 * are wanted. */
static bool meets_product(const EchGraph *g, EchId id, bool back)
{
    for (unsigned steps = 0; steps < 2 * MAX_STEPS; steps++) {
        EchId next = ECH_NONE;
        if (back) {
            for (uint32_t k = 0; k < ech_graph_node(g, id)->n_operands; k++) {
                EchId operand = ech_graph_operand(g, id, k);
                if (ech_graph_count(g, operand) == ech_graph_count(g, id) && ech_graph_node(g, operand)->opcode != ECH_HLO_BROADCAST && next == ECH_NONE)
                    next = operand;
            }
        } else if (g->first_use[id] < g->first_use[id + 1])
            next = g->uses[g->first_use[id]].user;
        if (next == ECH_NONE)
            return false;
        if (ech_graph_node(g, next)->opcode == ECH_HLO_DOT)
            return true;
        if (!passes_on(g, next))
            return false;
        id = next;
    }
    return false;
}

/* A reshape that gives rows another length moves every element: on TPUs a kernel of its own, which nothing else is fused with. (272 of 310 in compiles by
 * libtpu 0.0.51; the others are in kernels of gathers.) */
static void find_own_kernels(EchGraph *g)
{
    g->n_own = g->nodes->len;
    g->own_kernel = g_new0(bool, g->n_own + 1);
    for (EchId id = 0; g->generation > 0 && id < g->n_own; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode != ECH_HLO_RESHAPE || !g->live[id] || ech_graph_count(g, id) < FEW || ech_graph_is_no_op(g, id))
            continue;
        EchId operand = ech_graph_operand(g, id, 0);
        const EchLayout *to = ech_graph_layout(g, id), *from = ech_graph_layout(g, operand);
        if (!to || !from || row_of(to) == row_of(from) || ech_graph_node(g, operand)->opcode == ECH_HLO_GATHER)
            continue;
        g->own_kernel[id] = !meets_product(g, id, false) && !meets_product(g, id, true);
    }
}

void ech_graph_fuse(EchGraph *g)
{
    ech_graph_find_uses(g);
    part_broadcasts(g);
    ech_graph_find_uses(g);
    find_own_kernels(g);
    part_converts(g);
    ech_graph_find_uses(g);
    size_t n = g->nodes->len;
    Fuser f = {.g = g};
    f.kernels = g_malloc_n(n + 1, sizeof *f.kernels);
    f.n_kernels = g_new0(uint8_t, n + 1);
    f.members = g_new0(uint32_t, n + 1);
    f.matrix = g_new0(bool, n + 1);
    f.kept = g_new0(Cost, n + 1);
    f.seen = g_new0(uint32_t, n + 1);
    f.inner = g_new0(uint32_t, n + 1);
    f.cone = g_new(EchId, MAX_CONE_TPU);
    g_autoptr(GArray) running = ech_graph_running(g);
    g_autoptr(GArray) kernels = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint c = 0; c < running->len; c++) {
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c));
        for (guint k = 0; k < sorted->len; k++) {
            EchId id = g_array_index(sorted, EchId, k);
            f.kept[id] = g->generation > 0 && g->first_use[id + 1] - g->first_use[id] > 1 ? cost_of(&f, id, 0) : CHEAP;
        }
        for (guint k = sorted->len; k-- > 0;) {
            EchId id = g_array_index(sorted, EchId, k);
            decide(&f, id);
        }
        for (guint k = 0; k < sorted->len; k++) {
            EchId id = g_array_index(sorted, EchId, k);
            /* A TPU's dynamic slices are fusions, if of nothing else. */
            bool fusion = f.members[id] > 1 || (g->generation > 0 && ech_graph_node(g, id)->opcode == ECH_HLO_DYNAMIC_SLICE && !is_host(g, id));
            if (f.n_kernels[id] == 1 && f.kernels[id][0] == id && fusion)
                g_array_append_val(kernels, id);
        }
    }
    for (guint k = 0; k < kernels->len; k++)
        write_kernel(&f, g_array_index(kernels, EchId, k));
    if (f.fused > 0) {
        ech_diag_note(g->diag, "instructions_fused", f.fused);
        ech_diag_note(g->diag, "fusions_made", kernels->len);
    }
    g_free(f.kernels);
    g_free(f.n_kernels);
    g_free(f.members);
    g_free(f.matrix);
    g_free(f.kept);
    g_free(f.seen);
    g_free(f.inner);
    g_free(f.cone);
    g_clear_pointer(&g->own_kernel, g_free);
    g->n_own = 0;
}
