#include "sim/program/place_products.h"

#include "models/place/windows.h"
#include "sim/program/convolution.h"
#include "sim/program/price_kernels.h"
#include "sim/program/private.h"

#include <math.h>
#include <string.h>

#define MAX_DEPTH 8
#define MOST_PRODUCTS 8 /* of a fusion */
#define MOST_ELEMENTS (UINT64_C(1) << 40)
#define MOST_INSTRUCTIONS 65536 /* bodies of fusions in fusions may be called from many places */

/* Vector instructions a register: of the unit that multiplies, of the one that adds, and of those that either does. */
typedef struct {
    double multiply, add, either;
    double matrix; /* clocks of the matrix unit, of another product */
} Vector;

enum { OUT, LHS, RHS, N_SIDES };

typedef struct {
    const EchProgram *program;
    EchId product;         /* the instruction that multiplies */
    EchId path[MAX_DEPTH]; /* fusions around it, outermost first */
    unsigned n_path;
    uint8_t *sides; /* of every instruction of the body looked at: what it goes into; OUT for all that is behind the product */
    Vector work[N_SIDES];
    double elements[N_SIDES]; /* of the arrays themselves */
    bool compared;            /* rows behind the product, their maximum going back into them */
    uint32_t left;            /* instructions that are still looked at */
} Around;

static const EchLayout *layout_of(const EchProgram *p, EchId id)
{
    return ech_program_layout(p, p->instructions[id].shape);
}

static double elements_of(const EchProgram *p, EchId id)
{
    const EchLayout *layout = layout_of(p, id);
    return layout != NULL ? (double)ech_layout_elements(layout) : 0;
}

/* Whether an array counts with those of @side: vectors that ride along do not. */
static bool is_wide(const Around *a, EchId id, unsigned side)
{
    return elements_of(a->program, id) * 2 > a->elements[side];
}

/* Whether an array counts as coming in by windows: tiles of more than 8 rows do not. */
static bool is_windowed(const EchLayout *layout)
{
    return layout->n_tiles == 0 || layout->tiles[0].rank < 2 || layout->tiles[0].dims[layout->tiles[0].rank - 2] <= 8;
}

/* By libtpu 0.0.52, sixty operations behind a product on v6e: exact. */
static Vector instructions_of(const EchProgram *p, const EchInstruction *i)
{
    const EchLayout *to = ech_program_layout(p, i->shape);
    switch ((int)i->opcode) {
    case ECH_HLO_MULHI:
    case ECH_HLO_MULTIPLY: return (Vector){.multiply = 1};
    case ECH_HLO_ADD:
    case ECH_HLO_SUBTRACT: return (Vector){.add = 1};
    case ECH_HLO_DIVIDE: return (Vector){.multiply = 3, .add = 2, .either = 9};
    case ECH_HLO_LOGISTIC: return (Vector){.multiply = 3, .add = 3, .either = 11};
    case ECH_HLO_REDUCE_WINDOW: return (Vector){.either = 1};
    case ECH_HLO_SELECT: return (Vector){.either = 2};
    case ECH_HLO_CONVERT: return to != NULL && ech_layout_element_bits(to) == 8 ? (Vector){.add = 2, .either = 4} : (Vector){0};
    case ECH_HLO_COPY: return (Vector){.either = to != NULL && !is_windowed(to)};
    case ECH_HLO_ERF: return (Vector){0};
    default: return (Vector){.either = ech_hlo_is_elementwise((EchHlo)i->opcode) || ech_hlo_is_transcendental((EchHlo)i->opcode)};
    }
}

static void add(Vector *sum, Vector more)
{
    sum->multiply += more.multiply;
    sum->add += more.add;
    sum->either += more.either;
    sum->matrix += more.matrix;
}

/* A product whose result another one takes. */
static Vector inner_product(const EchProgram *p, EchId id)
{
    double deep = (double)ech_program_work(p, id).matrix / 2 / MAX(elements_of(p, id), 1) / 128;
    return (Vector){.add = MAX(ceil(deep) - 1, 0), .matrix = ceil(deep) / 2};
}

static void survey(Around *a, EchId id, unsigned side, unsigned depth)
{
    const EchProgram *p = a->program;
    const EchInstruction *i = &p->instructions[id];
    if (a->left == 0)
        return;
    a->left--;
    if (i->opcode == ECH_HLO_FUSION && i->n_called > 0 && depth < MAX_DEPTH) {
        const EchComputation *body = &p->computations[ech_program_called(p, i, 0)];
        for (uint32_t j = 0; j < body->n; j++)
            survey(a, body->first + j, side, depth + 1);
        return;
    }
    a->compared = a->compared || (i->opcode == ECH_HLO_REDUCE_WINDOW && side == OUT);
    if (i->opcode == ECH_HLO_CONVOLUTION)
        add(&a->work[side], inner_product(p, id));
    else if (i->opcode == ECH_HLO_REDUCE && i->n_operands > 0)
        a->work[side].either += is_wide(a, ech_program_operand(p, i, 0), side);
    else if (is_wide(a, id, side))
        add(&a->work[side], instructions_of(p, i));
}

/* Marks what the product's operand @id is made of. */
static void mark(Around *a, EchId id, uint8_t side, unsigned depth)
{
    const EchInstruction *i = &a->program->instructions[id];
    EchId first = a->program->computations[i->computation].first;
    if (a->sides[id - first] != OUT || depth > 1024)
        return;
    a->sides[id - first] = side;
    for (uint32_t k = 0; k < i->n_operands; k++)
        mark(a, ech_program_operand(a->program, i, k), side, depth + 1);
}

/* 16 bits are taken apart when they are loaded. */
static double load(const EchLayout *layout)
{
    return ech_layout_element_bits(layout) == 16;
}

/* Marks with OUT what something behind the product reads, whatever else does. */
static void mark_behind(const Around *a, const EchComputation *body, EchId inner, uint8_t *ret)
{
    const EchProgram *p = a->program;
    for (uint32_t j = 0; j < body->n; j++) {
        const EchInstruction *at = &p->instructions[body->first + j];
        for (uint32_t k = 0; k < at->n_operands && a->sides[j] == OUT && body->first + j != inner; k++)
            ret[ech_program_operand(p, at, k) - body->first] = OUT;
    }
}

/* Sorts the parameters of the body @level calls deep by where they go, and counts what is computed there. ret_side[n] by number: N_SIDES for those that do not
 * count. */
static void look_around(Around *a, unsigned level, uint8_t *ret_side, uint32_t n)
{
    const EchProgram *p = a->program;
    EchId inner = level + 1 < a->n_path ? a->path[level + 1] : a->product;
    const EchInstruction *i = &p->instructions[inner];
    const EchComputation *body = &p->computations[i->computation];
    g_autofree uint8_t *sides = a->sides, *own = g_new0(uint8_t, MAX(body->n, 1)), *of_inner = g_new(uint8_t, MAX(i->n_operands, 1));
    memset(of_inner, OUT, i->n_operands);
    a->sides = NULL;
    if (inner != a->product)
        look_around(a, level + 1, of_inner, i->n_operands);
    else
        for (unsigned s = 0; s < 2; s++)
            of_inner[s] = (uint8_t)(LHS + s);
    a->sides = own;
    for (uint32_t k = 0; k < i->n_operands; k++)
        if (of_inner[k] == LHS || of_inner[k] == RHS)
            mark(a, ech_program_operand(p, i, k), of_inner[k], 0);
    g_autofree uint8_t *read = g_memdup2(own, body->n);
    mark_behind(a, body, inner, read);
    for (uint32_t j = 0; j < body->n; j++) {
        EchId id = body->first + j;
        const EchInstruction *at = &p->instructions[id];
        if (at->opcode != ECH_HLO_PARAMETER) {
            if (id != inner)
                survey(a, id, own[j], 0);
        } else if (at->number >= 0 && at->number < n && layout_of(p, id) != NULL) {
            if (is_wide(a, id, read[j]))
                ret_side[at->number] = read[j];
        }
    }
    a->sides = g_steal_pointer(&sides);
}

/* Takes the dimension @i of the window in; false where the product is a convolution over positions. */
static bool take_dimension(const EchHloWindow *window, unsigned i, uint64_t lhs, uint64_t out, EchPlaceProduct *ret)
{
    uint64_t size = window->size[i], *outer = NULL;
    bool apart = window->stride[i] == size || window->lhs_dilate[i] == size; /* each position of the result meets one of the operand's */
    if (size == 1)
        outer = lhs == out ? &ret->m_outer : NULL;
    else if (lhs == size && out == size)
        outer = apart ? &ret->batch : NULL;
    else if (lhs == size && out == 1)
        outer = &ret->k_outer;
    else if (lhs == 1 && out == size)
        outer = &ret->n_outer;
    if (outer == NULL)
        return false;
    if (outer == &ret->batch) { /* the last one is the inner one */
        ret->batch_outer = ech_bytes_mul(ret->batch_outer, ret->batch);
        ret->batch = 1;
    }
    *outer = ech_bytes_mul(*outer, size == 1 ? out : size);
    return *outer > 0 && *outer < MOST_ELEMENTS && ret->batch_outer < MOST_ELEMENTS;
}

/* Of what windows meet along a dimension, the share that is no padding, as the compiler counts it: twice as much padding as there is. */
static double share_met(const EchHloWindow *window, unsigned i, uint64_t lhs)
{
    double whole = ((double)lhs - 1) * (double)window->lhs_dilate[i] + 1, pad = (double)MAX(window->pad[i], 0);
    return CLAMP((whole - 2 * pad) / MAX(whole - pad, 1), 0.25, 1) / (window->lhs_dilate[i] > 1 ? sqrt((double)window->lhs_dilate[i]) : 1);
}

/* The product alone; what is fused around it is not in it yet. */
static bool geometry(const EchProgram *p, EchId product, EchPlaceProduct *ret, EchPlaceConvolution *ret_convolution)
{
    const EchInstruction *at = &p->instructions[product];
    EchHloLabels labels;
    if (at->opcode != ECH_HLO_CONVOLUTION || at->n_operands < 2 || !ech_hlo_labels(at, &labels))
        return false;
    const EchLayout *lhs = layout_of(p, ech_program_operand(p, at, 0)), *rhs = layout_of(p, ech_program_operand(p, at, 1)), *out = layout_of(p, product);
    if (lhs == NULL || rhs == NULL || out == NULL || lhs->rank != labels.ln || rhs->rank != labels.rn || out->rank != labels.on)
        return false;
    int lb = ech_hlo_label_at(labels.l, labels.ln, 'b'), lf = ech_hlo_label_at(labels.l, labels.ln, 'f'), ri = ech_hlo_label_at(labels.r, labels.rn, 'i');
    int ro = ech_hlo_label_at(labels.r, labels.rn, 'o'), ob = ech_hlo_label_at(labels.o, labels.on, 'b'), of = ech_hlo_label_at(labels.o, labels.on, 'f');
    if (lb < 0 || lf < 0 || ri < 0 || ro < 0 || ob < 0 || of < 0)
        return false;
    EchHloWindow window = ech_hlo_window(at);
    *ret =
        (EchPlaceProduct){.batch = 1, .m = out->dims[ob], .n = out->dims[of], .k = rhs->dims[ri], .m_outer = 1, .n_outer = 1, .k_outer = 1, .batch_outer = 1};
    uint64_t features = ech_hlo_groups(at, "feature_group_count"), groups = ech_hlo_groups(at, "batch_group_count");
    EchPlaceConvolution c = {.depthwise = features > 1 && features == ret->n, .depthwise_gradient = groups > 1 && groups == ret->n};
    bool positions = features > 1 || groups > 1;
    if ((features > 1 && !c.depthwise) || (groups > 1 && !c.depthwise_gradient) || window.n > 8)
        return false;
    for (unsigned i = 0; i < window.n; i++) {
        int l = ech_hlo_label_at(labels.l, labels.ln, (char)('0' + i)), o = ech_hlo_label_at(labels.o, labels.on, (char)('0' + i));
        if (l < 0 || o < 0 || lhs->dims[l] == 0 || out->dims[o] == 0)
            return false;
        c.apart = c.apart || window.rhs_dilate[i] > 1;
        positions = positions || !take_dimension(&window, i, lhs->dims[l], out->dims[o], ret);
        if (c.n < 3) {
            c.dims[c.n].lhs = lhs->dims[l];
            c.dims[c.n].size = window.size[i];
            c.dims[c.n].out = out->dims[o];
            c.dims[c.n].stride = window.stride[i];
            c.dims[c.n].met = share_met(&window, i, lhs->dims[l]);
        }
        c.n++;
    }
    if (positions) {
        if (c.n > 3)
            return false;
        ret->batch = ret->batch_outer = ret->m_outer = ret->n_outer = ret->k_outer = 1;
    }
    int lanes[3] = {ech_hlo_physical(lhs, 0), ech_hlo_physical(rhs, 0), ech_hlo_physical(out, 0)};
    ret->rows_on_lanes = lanes[0] == lb;
    ret->rhs_turned = lanes[1] == ri;
    ret->summed_first = lf < lb && ri < ro;
    ret->out_turned = lanes[2] == ob;
    ret->narrow = ech_layout_element_bits(lhs) <= 8;
    bool planes = (lanes[0] == lb || lanes[0] == lf) && (lanes[1] == ri || lanes[1] == ro) && (lanes[2] == ob || lanes[2] == of);
    c.product = *ret;
    c.n = positions ? c.n : 0;
    *ret_convolution = c;
    return planes && ret->m > 0 && ret->n > 0 && ret->k > 0 && MAX(MAX(ret->m, ret->n), ret->k) < MOST_ELEMENTS;
}

/* The path of calls from @computation to the product: fusions. False where it is not in there. */
static bool find_path(Around *a, EchId fusion, unsigned depth)
{
    const EchProgram *p = a->program;
    if (depth >= MAX_DEPTH || a->left == 0)
        return false;
    a->path[depth] = fusion;
    a->n_path = depth + 1;
    const EchInstruction *i = &p->instructions[fusion];
    if (p->instructions[a->product].computation == ech_program_called(p, i, 0))
        return true;
    const EchComputation *body = &p->computations[ech_program_called(p, i, 0)];
    for (uint32_t j = 0; j < body->n; j++) {
        const EchInstruction *at = &p->instructions[body->first + j];
        a->left -= a->left > 0;
        if (at->opcode == ECH_HLO_FUSION && at->n_called > 0 && find_path(a, body->first + j, depth + 1))
            return true;
    }
    return false;
}

/* Finds the product around which all else is fused: of several the one in the fewest fusions, the last of them. */
static bool find_product(Around *a, EchId instruction)
{
    g_autoptr(GArray) products = ech_program_products(a->program, instruction);
    Around best = {.n_path = MAX_DEPTH + 1};
    for (guint i = 0; i < products->len && i < MOST_PRODUCTS; i++) {
        a->product = g_array_index(products, EchProgramProduct, i).id;
        a->n_path = 0;
        if ((a->product == instruction || find_path(a, instruction, 0)) && a->n_path <= best.n_path)
            best = *a;
    }
    best.left = a->left;
    *a = best;
    return best.n_path <= MAX_DEPTH;
}

static double clocks_of(const Around *a, const EchPlaceWindows *w)
{
    const double times[N_SIDES] = {w->out * w->out_fetches, w->lhs * w->lhs_fetches, w->rhs * w->rhs_fetches};
    Vector sum = {.add = w->pop, .either = w->moves, .matrix = w->matrix};
    for (unsigned s = 0; s < N_SIDES; s++) {
        sum.multiply += a->work[s].multiply * times[s];
        sum.add += a->work[s].add * times[s];
        sum.either += a->work[s].either * times[s];
        sum.matrix += a->work[s].matrix * times[s];
    }
    return MAX(MAX(MAX(sum.matrix, w->push), MAX(sum.multiply, sum.add)), (sum.multiply + sum.add + sum.either) / 2);
}

bool ech_place_product(const EchProgram *p, EchId instruction, const EchId *results, uint32_t n_results, double *ret_clocks, double *ret_read,
                       double *ret_written)
{
    const EchInstruction *i = &p->instructions[instruction];
    EchPlaceProduct product;
    EchPlaceConvolution convolution;
    EchPlaceWindows windows;
    Around around = {.program = p, .left = MOST_INSTRUCTIONS};
    if (!find_product(&around, instruction) || !geometry(p, around.product, &product, &convolution))
        return false;
    EchId found = around.product;
    const EchInstruction *at = &p->instructions[found];
    g_autofree uint8_t *side_of = g_new(uint8_t, MAX(i->n_operands, 1));
    memset(side_of, N_SIDES, i->n_operands);
    EchId operands[2] = {ech_program_operand(p, at, 0), ech_program_operand(p, at, 1)};
    around.elements[OUT] = elements_of(p, found);
    around.elements[LHS] = elements_of(p, operands[0]);
    around.elements[RHS] = elements_of(p, operands[1]);
    if (found == instruction)
        for (unsigned s = 0; s < 2; s++)
            side_of[s] = (uint8_t)(LHS + s);
    else
        look_around(&around, 0, side_of, i->n_operands);
    uint32_t arrays[N_SIDES + 1] = {0};
    for (uint32_t k = 0; k < i->n_operands; k++) {
        const EchLayout *layout = layout_of(p, ech_program_operand(p, i, k));
        if (side_of[k] == N_SIDES || layout == NULL || !is_windowed(layout))
            continue;
        arrays[side_of[k]]++;
        around.work[side_of[k]].either += load(layout);
    }
    product.lhs_arrays = arrays[LHS];
    product.rhs_arrays = arrays[RHS];
    product.more_out = arrays[OUT];
    product.compared = around.compared;
    if (convolution.n > 0)
        ech_place_convolution(&convolution, &windows);
    else
        ech_place_windows(&product, &windows);
    for (uint32_t l = 0; l < n_results; l++) {
        const EchLayout *layout = ech_program_layout(p, results[l]);
        bool wide = layout != NULL && (double)ech_layout_elements(layout) * 2 > around.elements[OUT];
        ret_written[l] = wide ? windows.out_times : 1;
        around.work[OUT].either += wide && ech_layout_element_bits(layout) == 16 ? 0.5 : 0;
    }
    for (uint32_t k = 0; k < i->n_operands; k++) {
        const double times[N_SIDES + 1] = {windows.out_times, windows.lhs_times, windows.rhs_times, 1};
        const EchLayout *layout = layout_of(p, ech_program_operand(p, i, k));
        ret_read[k] = side_of[k] == N_SIDES || layout == NULL || is_windowed(layout) ? times[side_of[k]] : 1;
    }
    *ret_clocks = clocks_of(&around, &windows);
    return true;
}
