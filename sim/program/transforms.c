/* Fourier transforms as a TPU's compiler makes them: products with the transform's matrix, or with two smaller ones and a rotation between, of real and
 * imaginary parts (three real products for a complex one), in f32 at the highest precision. Source: what libtpu 0.0.52 makes of transforms of 64 to 65,536
 * points on v5e. */
#include "sim/program/graph.h"

#include <string.h>

#define MOST_TRANSFORMS 4096 /* of a program; each becomes some sixty instructions */

enum {
    WHOLE = 256,
    SIDE = 128,
    MOST = 4096,
    AXES = 3
}; /* points of a transform in one product where two could be, of the first of two, and of one where two cannot */

typedef struct {
    EchGraph *g;
    EchId computation;
    EchLayout real; /* the type of a part */
    char metadata[512];
    uint64_t rows; /* transforms at once */
} Maker;

/* The two parts of a complex array, or one of them alone. */
typedef struct {
    EchId part[2];
} Parts;

/* @dims: two or three, 0 after the second of two. */
static EchId add(Maker *m, EchHlo opcode, const uint64_t dims[3], const EchId *operands, uint32_t n, const char *attributes)
{
    uint8_t rank = dims[2] > 0 ? 3 : 2;
    EchId id = ech_graph_add_new(m->g, m->computation, opcode, "fft", ech_graph_array(m->g, &m->real, dims, rank), operands, n);
    g_autofree char *text = g_strdup_printf("%s%s%s", attributes, attributes[0] && m->metadata[0] ? ", " : "", m->metadata);
    EchInstruction *node = ech_graph_node(m->g, id);
    node->attributes = ech_program_builder_string(m->g->out, text, -1);
    node->attributes_n = (uint32_t)strlen(text);
    return id;
}

static EchId both(Maker *m, EchHlo opcode, const uint64_t dims[3], EchId x, EchId y)
{
    return add(m, opcode, dims, (EchId[]){x, y}, 2, "");
}

/* A matrix of @from by @to that the compiler makes where it is used. */
static EchId matrix(Maker *m, uint64_t from, uint64_t to)
{
    return add(m, ECH_HLO_IOTA, (uint64_t[3]){from, to}, NULL, 0, "iota_dimension=0");
}

/* How a product sums: the dimension of @in that goes, @from long, for one of @out, @to long, the matrix on the left or on the right. */
typedef struct {
    uint64_t in[3], out[3], from, to; /* in and out: 0 ends them */
    bool left;
    const char *dims;
} Sum;

#define PRECISE ", operand_precision={highest,highest}"

/* @real: each part by itself, which two real products are. */
static Parts multiply(Maker *m, Parts x, const Sum *s, bool real)
{
    EchId sides[3] = {x.part[0], x.part[1], ECH_NONE}, products[3];
    if (!real)
        sides[2] = both(m, ECH_HLO_ADD, s->in, x.part[0], x.part[1]);
    for (unsigned k = 0; k < (real ? 2u : 3u); k++) {
        EchId by = matrix(m, s->from, s->to);
        products[k] = add(m, ECH_HLO_DOT, s->out, s->left ? (EchId[]){by, sides[k]} : (EchId[]){sides[k], by}, 2, s->dims);
    }
    if (real)
        return (Parts){{products[0], products[1]}};
    return (Parts){{both(m, ECH_HLO_SUBTRACT, s->out, products[2], products[1]), both(m, ECH_HLO_ADD, s->out, products[2], products[0])}};
}

/* Times a complex number for each point. */
static Parts rotate(Maker *m, Parts x, const uint64_t dims[3])
{
    Parts turned;
    EchId like[2];
    for (unsigned k = 0; k < 2; k++)
        like[k] = add(m, ECH_HLO_BROADCAST, dims, (EchId[]){matrix(m, dims[0], dims[2])}, 1, "dimensions={0,2}");
    for (unsigned k = 0; k < 2; k++)
        turned.part[k] = both(m, k ? ECH_HLO_ADD : ECH_HLO_SUBTRACT, dims, both(m, ECH_HLO_MULTIPLY, dims, x.part[0], like[k]),
                              both(m, ECH_HLO_MULTIPLY, dims, x.part[1], like[1 - k]));
    return turned;
}

/* [rows, points] of both parts by two matrices, points = many * few, the many on lanes throughout. Within a row the results are left in another order, which is
 * as much to move. */
static Parts in_two(Maker *m, Parts x, uint64_t many, uint64_t few)
{
    Sum sums[2] = {{{m->rows, few, many}, {few, m->rows, many}, few, few, true, "lhs_contracting_dims={1}, rhs_contracting_dims={1}" PRECISE},
                   {{few, m->rows, many}, {few, m->rows, many}, many, many, false, "lhs_contracting_dims={2}, rhs_contracting_dims={0}" PRECISE}};
    for (unsigned k = 0; k < 2; k++)
        x.part[k] = add(m, ECH_HLO_RESHAPE, sums[0].in, &x.part[k], 1, "");
    x = rotate(m, multiply(m, x, &sums[0], false), sums[0].out);
    x = multiply(m, x, &sums[1], false);
    for (unsigned k = 0; k < 2; k++) {
        EchId turned = add(m, ECH_HLO_TRANSPOSE, sums[0].in, &x.part[k], 1, "dimensions={1,0,2}");
        x.part[k] = add(m, ECH_HLO_RESHAPE, (uint64_t[3]){m->rows, many * few}, &turned, 1, "");
    }
    return x;
}

/* Those parts as an array of other dimensions. */
static Parts reshaped(Maker *m, Parts x, const uint64_t *dims, uint8_t rank)
{
    for (unsigned k = 0; k < 2; k++)
        if (x.part[k] != ECH_NONE)
            x.part[k] = ech_graph_add_new(m->g, m->computation, ECH_HLO_RESHAPE, "fft-shape", ech_graph_array(m->g, &m->real, dims, rank), &x.part[k], 1);
    return x;
}

/* Dimension @axis changes places with the last. */
static Parts exchanged(Maker *m, Parts x, uint64_t *dims, uint8_t rank, uint8_t axis)
{
    uint64_t side = dims[axis];
    dims[axis] = dims[rank - 1];
    dims[rank - 1] = side;
    g_autoptr(GString) text = g_string_new("dimensions={");
    for (uint8_t d = 0; d < rank; d++)
        g_string_append_printf(text, "%s%u", d ? "," : "", d == axis ? rank - 1u : d == rank - 1 ? axis : d);
    g_string_append_c(text, '}');
    for (unsigned k = 0; k < 2; k++) {
        if (x.part[k] == ECH_NONE)
            continue;
        x.part[k] = ech_graph_add_new(m->g, m->computation, ECH_HLO_TRANSPOSE, "fft-turn", ech_graph_array(m->g, &m->real, dims, rank), &x.part[k], 1);
        EchInstruction *node = ech_graph_node(m->g, x.part[k]);
        node->attributes = ech_program_builder_string(m->g->out, text->str, (gssize)text->len);
        node->attributes_n = (uint32_t)text->len;
    }
    return x;
}

/* How many of the two products a transform of @points is made of; 0 where it stays as it is. */
static unsigned products_of(uint64_t points, uint64_t *ret_first)
{
    uint64_t first = points % SIDE == 0 && points / SIDE <= SIDE ? SIDE : points % WHOLE == 0 && points / WHOLE <= WHOLE ? WHOLE : 0;
    *ret_first = first;
    if (points < 2 || points > (uint64_t)WHOLE * WHOLE || (points > MOST && first == 0))
        return 0;
    return points <= WHOLE || first == 0 ? 1 : 2;
}

/* Transforms of @points along the last dimension of an array of @rank dimensions @dims, @wanted of which are kept; those of the input that are not @there are
 * the others again. @real_in, @real_out: one part only. */
static Parts transform(Maker *m, Parts x, uint64_t *dims, uint8_t rank, uint64_t points, uint64_t wanted, bool real_in, bool real_out)
{
    uint64_t there = dims[rank - 1], first;
    bool one = products_of(points, &first) == 1;
    m->rows = 1;
    for (uint8_t d = 0; d + 1 < rank; d++)
        m->rows = ech_bytes_mul(m->rows, dims[d]);
    if (rank != 2)
        x = reshaped(m, x, (uint64_t[2]){m->rows, there}, 2);
    if (real_in)
        x.part[1] = x.part[0];
    Parts y;
    if (one) {
        Sum sum = {{m->rows, there}, {m->rows, wanted}, there, wanted, false, "lhs_contracting_dims={1}, rhs_contracting_dims={0}" PRECISE};
        y = multiply(m, x, &sum, real_in || real_out);
        if (real_out)
            y.part[0] = both(m, ECH_HLO_SUBTRACT, sum.out, y.part[0], y.part[1]);
    } else {
        for (unsigned k = 0; k < 2 && there < points; k++) {
            g_autofree char *padding = g_strdup_printf("padding=0_0x0_%" G_GUINT64_FORMAT, points - there);
            EchId zero = ech_graph_add_new(m->g, m->computation, ECH_HLO_CONSTANT, "fft-zero", ech_graph_array(m->g, &m->real, NULL, 0), NULL, 0);
            x.part[k] = add(m, ECH_HLO_PAD, (uint64_t[3]){m->rows, points}, (EchId[]){x.part[k], zero}, 2, padding);
        }
        y = in_two(m, x, first, points / first);
        for (unsigned k = 0; k < 2 && wanted < points; k++) {
            g_autofree char *slice = g_strdup_printf("slice={[0:%" G_GUINT64_FORMAT "], [0:%" G_GUINT64_FORMAT "]}", m->rows, wanted);
            y.part[k] = add(m, ECH_HLO_SLICE, (uint64_t[3]){m->rows, wanted}, &y.part[k], 1, slice);
        }
    }
    y.part[1] = real_out ? ECH_NONE : y.part[1];
    dims[rank - 1] = wanted;
    return rank == 2 ? y : reshaped(m, y, dims, rank);
}

/* False where it is left as it is. */
static bool expand(EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    int64_t length[AXES];
    size_t n, axes = ech_program_attribute_numbers(i, "fft_length", length, AXES);
    EchId input = i->n_operands == 1 ? ech_graph_operand(g, id, 0) : ECH_NONE;
    const EchLayout *from = input != ECH_NONE ? ech_graph_layout(g, input) : NULL, *to = ech_graph_layout(g, id);
    if (!from || !to)
        return false;
    const EchLayout in = *from, out = *to;
    uint8_t rank = in.rank;
    bool real_in = strcmp(in.dtype, "f32") == 0, real_out = strcmp(out.dtype, "f32") == 0;
    bool numbers = (real_in || strcmp(in.dtype, "c64") == 0) && (real_out || strcmp(out.dtype, "c64") == 0) && !(real_in && real_out);
    if (axes == 0 || axes > rank || rank == 0 || rank != out.rank || !numbers)
        return false;
    uint64_t first, there = in.dims[rank - 1], wanted = out.dims[rank - 1], points = (uint64_t)MAX(length[axes - 1], 0);
    if (there == 0 || wanted == 0 || there > points || wanted > points || ech_layout_elements(&out) == 0)
        return false;
    for (size_t k = 0; k < axes; k++) {
        uint8_t axis = (uint8_t)(rank - axes + k);
        if (products_of((uint64_t)MAX(length[k], 0), &first) == 0 ||
            (k + 1 < axes && ((uint64_t)length[k] != in.dims[axis] || in.dims[axis] != out.dims[axis])))
            return false;
    }
    for (uint8_t d = 0; d < rank - axes; d++)
        if (in.dims[d] != out.dims[d])
            return false;
    Maker m = {.g = g, .computation = i->computation, .real = real_in ? in : out};
    g_strlcpy(m.real.dtype, "f32", sizeof m.real.dtype);
    m.real.bits = 32;
    const char *said = ech_program_attribute(i, "metadata", &n);
    if (said && n < sizeof m.metadata - 16)
        g_snprintf(m.metadata, sizeof m.metadata, "metadata=%.*s", (int)n, said);
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    memcpy(dims, in.dims, sizeof dims);
    Parts x = {{input, ECH_NONE}};
    for (unsigned k = 0; k < 2 && !real_in; k++)
        x.part[k] = ech_graph_add_new(g, m.computation, k ? ECH_HLO_IMAG : ECH_HLO_REAL, "fft-part", ech_graph_array(g, &m.real, dims, rank), &input, 1);
    /* The last dimension first, or last where the result is real: there numbers are fewest. */
    if (!real_out)
        x = transform(&m, x, dims, rank, points, wanted, real_in, false);
    for (size_t k = axes - 1; k-- > 0;) {
        uint8_t axis = (uint8_t)(rank - axes + k);
        x = exchanged(&m, x, dims, rank, axis);
        x = transform(&m, x, dims, rank, (uint64_t)length[k], (uint64_t)length[k], false, false);
        x = exchanged(&m, x, dims, rank, axis);
    }
    if (real_out)
        x = transform(&m, x, dims, rank, points, wanted, false, true);
    if (real_out)
        ech_graph_become(g, id, ECH_HLO_RESHAPE, x.part, 1);
    else
        ech_graph_become(g, id, ECH_HLO_COMPLEX, x.part, 2);
    return true;
}

void ech_graph_expand_transforms(EchGraph *g)
{
    size_t n = g->nodes->len;
    uint64_t changed = 0;
    for (EchId id = 0; id < n && changed < MOST_TRANSFORMS; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (i->opcode == ECH_HLO_FFT && !ech_graph_computation(g, i->computation)->body && i->n_control == 0)
            changed += expand(g, id);
    }
    if (changed > 0)
        ech_diag_note(g->diag, "transforms_made_products", changed);
}
