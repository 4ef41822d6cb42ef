/* Instructions of GPU programs as kernels. */
#include "sim/program/gpu_launch.h"
#include "sim/program/gpu_library.h"

#include <string.h>

/* MAX_STEPS: instructions of a body that are looked at, for many callers may share one. */
enum { MAX_DEPTH = 16, MAX_STEPS = 4096, LONG_CONCATENATION = 10, ACCESS_BYTES = 16 };

/* Issued instructions of an element beside its arithmetic: its loads, its store and their addresses; as PyTorch's vectorised kernels
 * (models/kernel/gpu_name.c). */
#define PLAIN 12.0
/* Of an element whose address is computed from its place: divisions by dimensions, a multiplication and an addition each. Assumed. */
#define ADDRESS 8.0
/* Of an element that passes through shared memory on its way. Assumed. */
#define STAGED 16.0

static uint64_t elements_of(const EchProgram *p, EchId id)
{
    const EchLayout *layout = ech_program_first_layout(p, id);
    return layout ? ech_layout_elements(layout) : 0;
}

static unsigned bits_of(const EchProgram *p, EchId id)
{
    const EchLayout *layout = ech_program_first_layout(p, id);
    return layout ? ech_layout_element_bits(layout) : 0;
}

/* Instructions of one application: what PyTorch's kernels of these functions take more than an addition's on an A100 and an H100 (models/kernel/gpu_name.c);
 * divisions of integers by their latency in XLA's own table (hlo_op_profiles), four times an exponential's. */
double ech_gpu_launch_instructions(const EchProgram *p, const EchInstruction *i)
{
    switch ((int)i->opcode) {
    case ECH_HLO_DIVIDE:
    case ECH_HLO_REMAINDER: {
        const EchLayout *layout = ech_program_first_layout(p, (EchId)(i - p->instructions));
        bool whole = layout && (layout->dtype[0] == 's' || layout->dtype[0] == 'u');
        return whole ? 60 : 8;
    }
    case ECH_HLO_SQRT:
    case ECH_HLO_RSQRT:
    case ECH_HLO_CBRT: return 8;
    case ECH_HLO_EXPONENTIAL:
    case ECH_HLO_EXPONENTIAL_MINUS_ONE:
    case ECH_HLO_LOG:
    case ECH_HLO_LOG_PLUS_ONE: return 18;
    case ECH_HLO_TANH:
    case ECH_HLO_LOGISTIC: return 22;
    case ECH_HLO_ERF: return 42;
    case ECH_HLO_POWER: return 78;
    default: return ech_hlo_is_transcendental((EchHlo)i->opcode) ? 28 : ech_hlo_is_elementwise((EchHlo)i->opcode) ? 1 : 0;
    }
}

/* What a body does, fusions inside it included. */
typedef struct {
    const EchProgram *p;
    double iteration;    /* elements that the kernel goes over */
    bool recomputes;     /* a loop: everything is made anew for every element of the result */
    double instructions; /* an element of the iteration */
    double addresses;    /* likewise, but once for all that a thread loads together */
    double adds;         /* likewise, by the inner reduction; of a loop only */
    EchId reduce;        /* the reduction that the kernel is made for, or ECH_NONE */
    EchId inner;         /* that one, else any: the last */
    EchId scatter, product, convolution, call, sort;
    unsigned reduces, budget;
    bool transposes, picks, separate, tiled;
} Body;

/* The dimension that lies fastest, sizes of 1 left out; -1 where there is none. */
static int fastest(const EchLayout *layout)
{
    for (unsigned d = 0; layout && d < layout->rank; d++)
        if (layout->dims[layout->order[d]] > 1)
            return layout->order[d];
    return -1;
}

/* Whether neighbours of the result are no neighbours of the operand. */
static bool turns(const EchProgram *p, const EchInstruction *i)
{
    const EchLayout *to = ech_program_layout(p, i->shape), *from = i->n_operands > 0 ? ech_program_first_layout(p, ech_program_operand(p, i, 0)) : NULL;
    if (!to || !from || to->rank != from->rank)
        return false;
    int out = fastest(to), in = fastest(from);
    if (out < 0 || in < 0 || i->opcode == ECH_HLO_COPY)
        return out != in;
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n;
    const char *text = ech_program_attribute(i, "dimensions", &n);
    size_t count = text ? ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)) : 0;
    return (size_t)out < MIN(count, G_N_ELEMENTS(dims)) && dims[out] != in;
}

/* The same in a kernel of Triton's, whose threads hold tens of elements and take 16 bytes at a time: machine instructions of softmax forward and backward as
 * XLA of JAX 0.11.2 and ptxas 13.0 make them for an H100 are 20 to 48 an element, 20, 21, 36 and 48 where this says 19, 24, 33 and 38 (the last makes its
 * exponentials twice). */
#define TILED 4.0
static double tiled_instructions(const EchProgram *p, const EchInstruction *i)
{
    switch ((int)i->opcode) {
    case ECH_HLO_EXPONENTIAL: return 9;
    case ECH_HLO_DIVIDE: return 5;
    default: return ech_gpu_launch_instructions(p, i);
    }
}

/* Positions of a window. */
static double window_positions(const EchInstruction *i)
{
    size_t n;
    int64_t sizes[ECH_LAYOUT_MAX_RANK];
    const char *text = ech_program_attribute(i, "window", &n), *size = text ? g_strstr_len(text, (gssize)n, "size=") : NULL;
    const char *end = size ? strpbrk(size, " }") : NULL;
    size_t count = size && end && end < text + n ? ech_program_numbers(size, (size_t)(end - size), sizes, G_N_ELEMENTS(sizes)) : 0;
    double positions = 1;
    for (size_t k = 0; k < MIN(count, G_N_ELEMENTS(sizes)); k++)
        positions *= (double)MAX(sizes[k], 1);
    return positions;
}

/* What an array of a tuple of results has written: of one updated in place, the update. */
static double result_elements(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    for (unsigned depth = 0; depth < MAX_DEPTH && i->n_operands > 0 && i->opcode == ECH_HLO_BITCAST; depth++) {
        id = ech_program_operand(p, i, 0);
        i = &p->instructions[id];
    }
    return (double)elements_of(p, i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > 1 ? ech_program_operand(p, i, 1) : id);
}

/* How often an element of @i asks for one of its operand @k. Branches where the place decides: XLA's emitters ask only for the array that the place is in. */
static double asks(const EchProgram *p, EchId id, uint32_t k, double iteration)
{
    const EchInstruction *i = &p->instructions[id];
    double own = MAX((double)elements_of(p, id), 1), its = (double)elements_of(p, ech_program_operand(p, i, k));
    switch ((int)i->opcode) {
    case ECH_HLO_TUPLE: return result_elements(p, ech_program_operand(p, i, k)) / MAX(iteration, 1); /* results of other sizes beside the first */
    case ECH_HLO_REDUCE: return MAX(its / own, 1);
    case ECH_HLO_REDUCE_WINDOW: return k * 2 < i->n_operands ? window_positions(i) : 1;
    case ECH_HLO_CONCATENATE: return MIN(its / own, 1);
    case ECH_HLO_PAD: return k == 0 ? MIN(its / own, 1) : 1;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: return k == 1 ? MIN(its / MAX(iteration, 1), 1) : 1; /* of one in place the update is all that is gone over */
    default: return 1;
    }
}

/* How often an element of the result, @outer times one of the computation's, asks for one of each instruction, where everything is made anew: for each of @n.
 */
static void find_demands(const EchProgram *p, const EchComputation *c, uint32_t n, double iteration, double outer, double *ret)
{
    memset(ret, 0, n * sizeof *ret);
    if (c->root >= c->first && c->root - c->first < n)
        ret[c->root - c->first] = outer;
    for (uint32_t k = n; k-- > 0;) {
        const EchInstruction *i = &p->instructions[c->first + k];
        for (uint32_t o = 0; ret[k] > 0 && o < i->n_operands; o++) {
            EchId operand = ech_program_operand(p, i, o);
            if (operand >= c->first && operand - c->first < k)
                ret[operand - c->first] = MAX(ret[operand - c->first], ret[k] * asks(p, c->first + k, o, iteration));
        }
    }
}

static void survey(Body *body, EchId computation, unsigned depth, double outer);

/* @demand: of a loop, how often an element of the result asks for one of this. */
static void survey_one(Body *body, EchId id, unsigned depth, double demand)
{
    const EchProgram *p = body->p;
    const EchInstruction *i = &p->instructions[id];
    double elements = (double)elements_of(p, id), weight = body->recomputes ? demand : elements / MAX(body->iteration, 1);
    if (elements <= 1 && body->iteration > 1)
        weight = 0;
    switch ((int)i->opcode) {
    case ECH_HLO_FUSION:
    case ECH_HLO_CALL:
        for (uint32_t k = 0; k < i->n_called && depth < MAX_DEPTH; k++)
            survey(body, ech_program_called(p, i, k), depth + 1, demand);
        return;
    case ECH_HLO_REDUCE: {
        EchId operand = i->n_operands > 0 ? ech_program_operand(p, i, 0) : ECH_NONE;
        double in = operand == ECH_NONE ? 0 : (double)elements_of(p, operand);
        double each = 0;
        const EchComputation *c = i->n_called > 0 ? &p->computations[ech_program_called(p, i, 0)] : NULL;
        for (uint32_t k = 0; c && k < MIN(c->n, 64u); k++)
            each += ech_gpu_launch_instructions(p, &p->instructions[c->first + k]);
        double added = body->recomputes ? demand * in / MAX(elements, 1) : in / MAX(body->iteration, 1);
        body->instructions += MAX(each, 1) * added;
        body->separate |= p->shapes[i->shape].is_tuple != 0;
        if (id == body->inner)
            body->adds = added;
        return;
    }
    case ECH_HLO_REDUCE_WINDOW:
        body->instructions += weight * window_positions(i) * 2;
        body->separate = true;
        return;
    case ECH_HLO_SORT:
        body->sort = id;
        body->separate = true;
        return;
    case ECH_HLO_SCATTER: body->scatter = id; return;
    case ECH_HLO_DOT:
    case ECH_HLO_RAGGED_DOT:
    case ECH_HLO_SCALED_DOT:
        if (body->product == ECH_NONE)
            body->product = id;
        body->separate = true;
        return;
    case ECH_HLO_CONVOLUTION: body->convolution = id; return;
    case ECH_HLO_CUSTOM_CALL: body->call = id; return;
    case ECH_HLO_TRANSPOSE:
    case ECH_HLO_COPY:
        body->transposes |= turns(p, i);
        body->addresses += ADDRESS * weight;
        return;
    case ECH_HLO_GATHER:
    case ECH_HLO_DYNAMIC_SLICE:
        body->picks = true;
        body->addresses += ADDRESS * weight;
        return;
    case ECH_HLO_CONCATENATE:
        body->separate |= i->n_operands > LONG_CONCATENATION;
        body->addresses += ADDRESS * weight;
        return;
    case ECH_HLO_SLICE:
    case ECH_HLO_PAD:
    case ECH_HLO_REVERSE:
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: body->addresses += ADDRESS * weight; return;
    case ECH_HLO_BROADCAST:
        if (i->n_operands > 0 && elements_of(p, ech_program_operand(p, i, 0)) > 1)
            body->addresses += ADDRESS * weight;
        return;
    default: body->instructions += weight * (body->tiled ? tiled_instructions(p, i) : ech_gpu_launch_instructions(p, i)); return;
    }
}

static void survey(Body *body, EchId computation, unsigned depth, double outer)
{
    const EchComputation *c = &body->p->computations[computation];
    g_autofree double *demands = body->recomputes && c->n <= body->budget ? g_new(double, (size_t)c->n + 1) : NULL;
    if (demands)
        find_demands(body->p, c, c->n, body->iteration, outer, demands);
    for (uint32_t k = 0; k < c->n && body->budget > 0; k++) {
        body->budget--;
        survey_one(body, c->first + k, depth, demands ? demands[k] : outer);
    }
}

static bool reduction_of(const EchProgram *p, EchId reduce, EchGpuReduction *ret)
{
    const EchInstruction *r = &p->instructions[reduce];
    const EchLayout *layout = r->n_operands > 0 ? ech_program_first_layout(p, ech_program_operand(p, r, 0)) : NULL;
    size_t n;
    const char *text = ech_program_attribute(r, "dimensions", &n);
    int64_t over[ECH_LAYOUT_MAX_RANK];
    if (!layout || !text)
        return false;
    size_t count = MIN(ech_program_numbers(text, n, over, G_N_ELEMENTS(over)), G_N_ELEMENTS(over));
    uint64_t dims[ECH_LAYOUT_MAX_RANK];
    bool reduced[ECH_LAYOUT_MAX_RANK] = {false};
    for (unsigned d = 0; d < layout->rank; d++) {
        dims[d] = layout->dims[layout->order[d]];
        for (size_t k = 0; k < count; k++)
            reduced[d] |= over[k] == layout->order[d];
    }
    return ech_gpu_reduction_of(dims, reduced, layout->rank, ret);
}

/* The reduction behind @id through what is done element by element, if it is one that blocks work on together; ECH_NONE where there is none. */
static EchId hero_behind(const EchProgram *p, EchId id, unsigned *steps)
{
    const EchInstruction *i = &p->instructions[id];
    EchGpuReduction shape;
    if (i->opcode == ECH_HLO_REDUCE)
        return reduction_of(p, id, &shape) && ech_gpu_reduction_together(&shape) ? id : ECH_NONE;
    bool passes = i->opcode == ECH_HLO_TUPLE || i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_RESHAPE || i->opcode == ECH_HLO_GET_TUPLE_ELEMENT ||
                  i->opcode == ECH_HLO_COPY || ech_hlo_is_elementwise((EchHlo)i->opcode);
    for (uint32_t k = 0; passes && k<i->n_operands && * steps> 0; k++) {
        (*steps)--;
        EchId found = hero_behind(p, ech_program_operand(p, i, k), steps);
        if (found != ECH_NONE)
            return found;
    }
    return ECH_NONE;
}

static unsigned count_reduces(const EchProgram *p, EchId id, EchId *ret_last)
{
    const EchInstruction *i = &p->instructions[id];
    unsigned count = 0;
    for (uint32_t k = 0; i->opcode == ECH_HLO_FUSION && k < i->n_called; k++) {
        const EchComputation *c = &p->computations[ech_program_called(p, i, k)];
        for (uint32_t j = 0; j < MIN(c->n, (uint32_t)MAX_STEPS); j++)
            if (p->instructions[c->first + j].opcode == ECH_HLO_REDUCE) {
                count++;
                *ret_last = c->first + j;
            }
    }
    if (i->opcode == ECH_HLO_REDUCE)
        *ret_last = id;
    return count + (i->opcode == ECH_HLO_REDUCE);
}

/* Surveys the body of a fusion, or the instruction itself where it has none. */
static Body survey_body(const EchProgram *p, EchId id, double iteration, bool recomputes, bool tiled)
{
    Body body = {.p = p,
                 .iteration = iteration,
                 .recomputes = recomputes,
                 .tiled = tiled,
                 .reduce = ECH_NONE,
                 .scatter = ECH_NONE,
                 .product = ECH_NONE,
                 .convolution = ECH_NONE,
                 .call = ECH_NONE,
                 .sort = ECH_NONE,
                 .budget = MAX_STEPS};
    const EchInstruction *i = &p->instructions[id];
    EchId last = ECH_NONE;
    unsigned steps = MAX_STEPS;
    body.reduces = count_reduces(p, id, &last);
    if (body.reduces > 0)
        body.reduce = hero_behind(p, i->opcode == ECH_HLO_FUSION ? p->computations[ech_program_called(p, i, 0)].root : id, &steps);
    body.inner = body.reduce == ECH_NONE ? last : body.reduce;
    survey_one(&body, id, 0, 1);
    return body;
}

static Body body_of(const EchProgram *p, EchId id, double iteration, bool recomputes)
{
    return survey_body(p, id, iteration, recomputes, false);
}

static uint16_t whole(double instructions)
{
    return (uint16_t)CLAMP(instructions + 0.5, 1, 60000);
}

/* Bytes of the widest element read, else written. */
static uint32_t element_bytes(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    EchBytes most = 0;
    unsigned bits = bits_of(p, id);
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId operand = ech_program_operand(p, i, k);
        EchBytes bytes = p->shapes[p->instructions[operand].shape].bytes;
        if (!p->shapes[p->instructions[operand].shape].is_tuple && bytes > most) {
            most = bytes;
            bits = bits_of(p, operand);
        }
    }
    return MAX(bits / 8, 1u);
}

/* The narrowest of an instruction's operands, in bits; its own where it has none. */
static unsigned narrowest(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    unsigned bits = 0;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        unsigned own = bits_of(p, ech_program_operand(p, i, k));
        if (own > 0 && elements_of(p, ech_program_operand(p, i, k)) > 1)
            bits = bits == 0 ? own : MIN(bits, own);
    }
    return bits > 0 ? bits : bits_of(p, id);
}

/* What a root writes: of an update in place, the update. */
static uint64_t written_elements(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    if (i->opcode == ECH_HLO_FUSION && i->n_called > 0) {
        EchId root = p->computations[ech_program_called(p, i, 0)].root;
        const EchInstruction *r = &p->instructions[root];
        for (unsigned depth = 0; depth < MAX_DEPTH && r->n_operands > 0 && (r->opcode == ECH_HLO_TUPLE || r->opcode == ECH_HLO_BITCAST); depth++) {
            root = ech_program_operand(p, r, 0);
            r = &p->instructions[root];
        }
        if (r->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && r->n_operands > 1)
            return elements_of(p, ech_program_operand(p, r, 1));
        return MAX(elements_of(p, id), 1);
    }
    if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > 1)
        return elements_of(p, ech_program_operand(p, i, 1));
    return MAX(elements_of(p, id), 1);
}

static bool has_arrays(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    for (uint32_t k = 0; k < i->n_operands; k++)
        if (elements_of(p, ech_program_operand(p, i, k)) > 1)
            return true;
    return false;
}

static void loop(const EchProgram *p, EchId id, uint32_t sms, EchGpuLaunch *ret)
{
    uint64_t elements = written_elements(p, id);
    Body body = body_of(p, id, (double)elements, true);
    ech_gpu_launch_loop(elements, bits_of(p, id), !body.separate, sms, ret);
    ret->elements = elements;
    ret->operand_bytes = element_bytes(p, id);
    if (body.inner != ECH_NONE && p->instructions[body.inner].n_operands > 0) { /* every thread adds up its own */
        double each = CLAMP(body.adds, 1, (double)UINT32_MAX);
        ret->kind = ECH_GPU_REDUCE;
        ret->vector = 1;
        ret->trips = 1 + ech_gpu_loop_trips((uint64_t)each, 1);
        double share = 1 / each; /* of the body, seen by an element that is read */
        ret->elements = (uint64_t)MIN((double)elements * each, (double)INT64_MAX);
        ret->instructions = whole(PLAIN / 2 + (body.instructions + body.addresses) * MIN(share, 1));
        return;
    }
    ret->kind = has_arrays(p, id) ? ECH_GPU_ELEMENTWISE : ECH_GPU_FILL;
    ret->trips = ret->kind == ECH_GPU_FILL ? 0 : body.picks ? 2 : 1;
    ret->instructions = whole((ret->kind == ECH_GPU_FILL ? 4 : PLAIN) + body.instructions + body.addresses / MAX(ret->vector, 1));
    ret->scattered = body.transposes;
}

static bool reduction(const EchProgram *p, EchId id, EchId reduce, uint32_t sms, EchGpuLaunch *ret)
{
    EchGpuReduction shape;
    if (!reduction_of(p, reduce, &shape))
        return false;
    uint64_t elements = elements_of(p, ech_program_operand(p, &p->instructions[reduce], 0));
    Body body = body_of(p, id, (double)elements, false);
    ech_gpu_launch_reduce(&shape, narrowest(p, id), sms, ret);
    ret->kind = ECH_GPU_REDUCE;
    ret->elements = elements;
    ret->operand_bytes = element_bytes(p, id);
    ret->instructions = whole(PLAIN / 2 + body.instructions + body.addresses / MAX(ret->vector, 1));
    ret->scattered = body.transposes;
    return true;
}

static void transposition(const EchProgram *p, EchId id, EchGpuLaunch *ret)
{
    uint64_t elements = written_elements(p, id);
    Body body = body_of(p, id, (double)elements, true);
    ech_gpu_launch_transpose(elements, bits_of(p, id), ret);
    ret->kind = ECH_GPU_RELAYOUT;
    ret->elements = elements;
    ret->operand_bytes = element_bytes(p, id);
    ret->trips = 2;
    ret->instructions = whole(PLAIN + STAGED + body.instructions);
}

static bool scattering(const EchProgram *p, EchId scatter, uint32_t sms, EchGpuLaunch *ret)
{
    const EchInstruction *s = &p->instructions[scatter];
    if (s->n_operands < 3)
        return false;
    uint64_t elements = elements_of(p, ech_program_operand(p, s, s->n_operands - 1));
    ech_gpu_launch_loop(elements, bits_of(p, ech_program_operand(p, s, s->n_operands - 1)), false, sms, ret);
    ret->kind = ECH_GPU_SCATTER;
    ret->elements = MAX(elements, 1);
    ret->operand_bytes = MAX(bits_of(p, scatter) / 8, 1u);
    return true;
}

/* A copy by the runtime: whole lines. */
static void memcpy_of(const EchProgram *p, EchId id, EchGpuLaunch *ret)
{
    uint64_t elements = written_elements(p, id), bytes = ech_bytes_mul(elements, MAX(bits_of(p, id) / 8, 1u));
    *ret = (EchGpuLaunch){.kind = ECH_GPU_ELEMENTWISE, .elements = MAX(bytes / ACCESS_BYTES, 1u), .operand_bytes = ACCESS_BYTES, .instructions = 4};
}

/* ---- Products ---- */

static const char *text_of(const EchInstruction *i, const char *attribute, const char *config, size_t *ret_n)
{
    const char *text = attribute ? ech_program_attribute(i, attribute, ret_n) : NULL;
    return text ? text : ech_program_config(i, config, ret_n);
}

/* Product of the sizes of the dimensions listed; 1 for none. */
static uint64_t sizes(const EchLayout *layout, const EchInstruction *i, const char *attribute, const char *config)
{
    size_t n;
    const char *text = text_of(i, attribute, config, &n);
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t count = text ? MIN(ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims)) : 0;
    uint64_t size = 1;
    for (size_t k = 0; k < count; k++)
        if (dims[k] >= 0 && dims[k] < layout->rank)
            size = ech_bytes_mul(size, layout->dims[dims[k]]);
    return size;
}

/* Elements of an operand whose neighbours are not summed over. */
static uint64_t turned(const EchLayout *layout, const EchInstruction *i, const char *attribute, const char *config)
{
    size_t n;
    const char *text = text_of(i, attribute, config, &n);
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t count = text ? MIN(ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims)) : 0;
    int fast = fastest(layout);
    for (size_t k = 0; k < count; k++)
        if (dims[k] == fast)
            return 0;
    return fast < 0 ? 0 : ech_layout_elements(layout);
}

static bool product_sizes(const EchProgram *p, EchId id, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *lhs = i->n_operands > 1 ? ech_program_first_layout(p, ech_program_operand(p, i, 0)) : NULL,
                    *rhs = i->n_operands > 1 ? ech_program_first_layout(p, ech_program_operand(p, i, 1)) : NULL;
    if (!lhs || !rhs)
        return false;
    uint64_t k = sizes(lhs, i, "lhs_contracting_dims", "lhs_contracting_dimensions"), batch = sizes(lhs, i, "lhs_batch_dims", "lhs_batch_dimensions");
    uint64_t shared = MAX(ech_bytes_mul(k, batch), 1);
    ret->batch = MAX(batch, 1);
    ret->k = MAX(k, 1);
    ret->m = MAX(ech_layout_elements(lhs) / shared, 1);
    ret->n = MAX(ech_layout_elements(rhs) / shared, 1);
    ret->operand_bytes = MAX(MAX(ech_layout_element_bits(lhs), ech_layout_element_bits(rhs)) / 8, 1u);
    ret->turned = ech_bytes_add(turned(lhs, i, "lhs_contracting_dims", "lhs_contracting_dimensions"),
                                turned(rhs, i, "rhs_contracting_dims", "rhs_contracting_dimensions"));
    return ech_layout_elements(lhs) > 0 && ech_layout_elements(rhs) > 0;
}

static bool contains(const char *text, size_t n, const char *word)
{
    return text && g_strstr_len(text, (gssize)n, word) != NULL;
}

/* f32 that may not be rounded to tf32, integers wider than 8 bits and complex numbers: lanes. */
static uint8_t arithmetic_of(const EchProgram *p, EchId id, bool wgmma)
{
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *lhs = ech_program_first_layout(p, ech_program_operand(p, i, 0));
    size_t n = 0;
    const char *text = text_of(i, "operand_precision", "operand_precision", &n);
    bool precise = contains(text, n, "HIGH") || contains(text, n, "high");
    bool whole = lhs && (lhs->dtype[0] == 's' || lhs->dtype[0] == 'u') && ech_layout_element_bits(lhs) > 8;
    if (lhs && (strcmp(lhs->dtype, "f32") == 0 ? precise : whole || lhs->dtype[0] == 'c'))
        return ECH_GPU_FMA + 1;
    return (wgmma ? ECH_GPU_WGMMA : ECH_GPU_MMA) + 1;
}

static size_t tiles_of(const EchInstruction *i, uint64_t *ret, size_t max)
{
    size_t n;
    const char *text = ech_program_config(i, "output_tiles.sizes", &n);
    if (!text)
        text = ech_program_config(i, "output_tiles", &n);
    const char *open = text ? memchr(text, '[', n) : NULL;
    if (open && open[1] == '{')
        open = memchr(open + 1, '[', n - (size_t)(open + 1 - text));
    const char *close = open ? memchr(open, ']', n - (size_t)(open - text)) : NULL;
    int64_t numbers[ECH_LAYOUT_MAX_RANK];
    size_t count = close ? MIN(ech_program_numbers(open, (size_t)(close - open), numbers, G_N_ELEMENTS(numbers)), MIN(G_N_ELEMENTS(numbers), max)) : 0;
    for (size_t k = 0; k < count; k++)
        ret[k] = (uint64_t)CLAMP(numbers[k], 1, INT32_MAX);
    return count;
}

/* The tile of k: what the dot's own configuration says (newest), what the nested fusion behind the first operand takes along the contracted dimension; older
 * programs say block_k. */
static uint64_t tile_k(const EchProgram *p, EchId dot)
{
    const EchInstruction *d = &p->instructions[dot];
    EchId at = ech_program_operand(p, d, 0);
    uint64_t tiles[ECH_LAYOUT_MAX_RANK];
    size_t n;
    int64_t dim = -1, own = 0;
    const char *sizes = ech_program_config(d, "sizes", &n);
    if (sizes && ech_program_numbers(sizes, n, &own, 1) == 1 && own > 0)
        return (uint64_t)own;
    const char *text = ech_program_attribute(d, "lhs_contracting_dims", &n);
    if (!text || ech_program_numbers(text, n, &dim, 1) < 1)
        return 0;
    const EchInstruction *nested = &p->instructions[at];
    size_t count = nested->opcode == ECH_HLO_FUSION ? tiles_of(nested, tiles, G_N_ELEMENTS(tiles)) : 0;
    return dim >= 0 && (size_t)dim < count ? tiles[dim] : 0;
}

static bool triton_product(const EchProgram *p, EchId id, EchId dot, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    if (!product_sizes(p, dot, ret))
        return false;
    ret->kind = ECH_GPU_PRODUCT;
    uint64_t warps = 4, stages = 1, m = 0, n = 0, k = 0;
    (void)ech_program_config_u64(i, "num_warps", &warps);
    (void)ech_program_config_u64(i, "num_stages", &stages);
    uint64_t tiles[ECH_LAYOUT_MAX_RANK];
    size_t count = tiles_of(i, tiles, G_N_ELEMENTS(tiles));
    if (count >= 2) {
        m = tiles[count - 2];
        n = tiles[count - 1];
        k = tile_k(p, dot);
    } else if (!ech_program_config_u64(i, "block_m", &m) || !ech_program_config_u64(i, "block_n", &n)) {
        m = 0;
    } else {
        (void)ech_program_config_u64(i, "block_k", &k);
    }
    warps = CLAMP(warps, 1u, 32u);
    /* Triton feeds tensor cores from shared memory where four warps make 64 rows. */
    ret->arithmetic = arithmetic_of(p, dot, m == 0 || (m >= 64 && warps % 4 == 0));
    if (m == 0)
        return true;
    ret->tile_m = (uint16_t)MIN(m, 1024u);
    ret->tile_n = (uint16_t)MIN(n, 1024u);
    ret->tile_k = (uint16_t)CLAMP(k, 8u, 1024u);
    ret->stages = (uint8_t)CLAMP(stages, 1u, 16u);
    uint64_t area = ech_bytes_mul(ech_round_up(ret->m, ret->tile_m) / ret->tile_m, ech_round_up(ret->n, ret->tile_n) / ret->tile_n);
    ret->grid[0] = (uint32_t)MIN(ech_bytes_mul(area, ret->batch), (uint64_t)INT32_MAX);
    ret->grid[1] = ret->grid[2] = ret->block[1] = ret->block[2] = 1;
    ret->block[0] = (uint32_t)(warps * 32);
    ret->shared = (uint32_t)MIN((uint64_t)ret->stages * ret->tile_k * (uint64_t)(ret->tile_m + ret->tile_n) * ret->operand_bytes, (uint64_t)UINT32_MAX);
    ret->registers = (uint32_t)CLAMP(40 + (uint32_t)ret->tile_m * ret->tile_n / ret->block[0], 40u, 255u); /* sums and addresses */
    double others = survey_body(p, id, (double)MAX(elements_of(p, id), 1u), false, true).instructions;
    ret->instructions = others >= 1 ? whole(others) : 0;
    return true;
}

/* ---- Convolutions ---- */

/* Sizes of the array's dimensions by their labels ("b01f"): batch, features, the product of the others. */
static bool labelled(const EchLayout *layout, const char *labels, size_t n, char batch, char feature, uint64_t ret[3])
{
    ret[0] = ret[1] = ret[2] = 1;
    if (!layout || layout->rank != n)
        return false;
    for (size_t d = 0; d < n; d++) {
        uint64_t *into = labels[d] == batch ? &ret[0] : labels[d] == feature ? &ret[1] : &ret[2];
        *into = ech_bytes_mul(*into, layout->dims[d]);
    }
    return true;
}

/* As implicit products: pixels by output channels over window positions times input channels; the gradient of the input has the channels the other way, that of
 * the filter is summed over pixels. In HLO all three are convolutions: operands and result say which one. */
static bool convolution(const EchProgram *p, EchId id, bool wgmma, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    size_t n;
    const char *labels = ech_program_attribute(i, "dim_labels", &n);
    const char *kernel = labels ? memchr(labels, '_', n) : NULL, *arrow = kernel ? g_strstr_len(kernel, (gssize)(n - (size_t)(kernel - labels)), "->") : NULL;
    if (!arrow || i->n_operands < 2)
        return false;
    const EchLayout *lhs = ech_program_first_layout(p, ech_program_operand(p, i, 0)), *rhs = ech_program_first_layout(p, ech_program_operand(p, i, 1)),
                    *out = ech_program_first_layout(p, id);
    uint64_t in[3], filter[3], result[3];
    kernel++;
    /* The call for a filter's gradient gives the filter's labels to its result, that for an input's gradient the input's to its result. */
    bool backward_filter = i->target && strstr(i->target, "BackwardFilter"), backward_input = i->target && strstr(i->target, "BackwardInput");
    const EchLayout *input = backward_input ? out : lhs, *weights = backward_filter ? out : rhs, *output = backward_filter ? rhs : backward_input ? lhs : out;
    if (!labelled(input, labels, (size_t)(kernel - 1 - labels), 'b', 'f', in) || !labelled(weights, kernel, (size_t)(arrow - kernel), 'i', 'o', filter) ||
        !labelled(output, arrow + 2, n - (size_t)(arrow + 2 - labels), 'b', 'f', result))
        return false;
    int64_t groups = 1;
    size_t length;
    const char *text = ech_program_attribute(i, "feature_group_count", &length);
    if (text)
        (void)ech_program_numbers(text, length, &groups, 1);
    uint64_t g = (uint64_t)CLAMP(groups, 1, INT32_MAX);
    ret->kind = ECH_GPU_PRODUCT;
    ret->operand_bytes = MAX(ech_layout_element_bits(lhs) / 8, 1u);
    ret->batch = g;
    uint64_t taps = filter[2], c = MAX(filter[0], 1), features = MAX(filter[1] / g, 1);
    uint64_t pixels = ech_bytes_mul(result[0], result[2]);
    if (backward_filter) {
        ret->m = features;
        ret->n = ech_bytes_mul(taps, c);
        ret->k = pixels;
    } else if (backward_input) {
        ret->m = ech_bytes_mul(in[0], in[2]);
        ret->n = MAX(filter[0], 1);
        ret->k = ech_bytes_mul(taps, features);
        ret->taps = taps;
        /* Of a strided one only every so-many-th position holds something. */
        uint64_t holes = pixels > 0 && ret->m > pixels ? ret->m / pixels : 1;
        ret->k = MAX(ret->k / holes, 1);
        ret->taps = MAX(taps / holes, 1);
    } else {
        ret->m = pixels;
        ret->n = features;
        ret->k = ech_bytes_mul(taps, c);
        ret->taps = taps;
    }
    ret->arithmetic = arithmetic_of(p, id, wgmma);
    return ret->m > 0 && ret->n > 0 && ret->k > 0;
}

/* ---- Attention ---- */

static uint64_t said(const EchInstruction *i, const char *name)
{
    size_t n, length = strlen(name);
    const char *text = ech_program_attribute(i, "backend_config", &n);
    int64_t value = 0;
    for (const char *at = text ? g_strstr_len(text, (gssize)n, name) : NULL; at;
         at = g_strstr_len(at + length, (gssize)(text + n - at) - (gssize)length, name)) {
        const char *after = at + length;
        if (text + n - after > 3 && memcmp(after, " = ", 3) == 0)
            return ech_program_numbers(after, MIN((size_t)(text + n - after), 24u), &value, 1) > 0 && value > 0 ? (uint64_t)value : 0;
    }
    return 0;
}

uint64_t ech_program_attention(const EchProgram *p, EchId id, bool *ret_backward)
{
    const EchInstruction *i = &p->instructions[id];
    if (!i->target || i->opcode != ECH_HLO_CUSTOM_CALL || i->n_operands < 2)
        return 0;
    bool cudnn = strstr(i->target, "$fmha") != NULL, te = strncmp(i->target, "te_fused_attn", 13) == 0;
    if (!cudnn && !te)
        return 0;
    bool backward = strstr(i->target, "ackward") != NULL, causal;
    uint64_t scores, depth;
    size_t n;
    if (te) {
        scores = ech_bytes_mul(ech_bytes_mul(said(i, "input_batch"), said(i, "attn_heads")), ech_bytes_mul(said(i, "q_max_seqlen"), said(i, "kv_max_seqlen")));
        depth = ech_bytes_add(said(i, "qk_head_dim"), said(i, "v_head_dim"));
        if (depth == 0)
            depth = 2 * said(i, "head_dim");
        causal = said(i, "mask_type") >= 2; /* none, padding, then the causal ones */
    } else {
        const char *text = ech_program_config(i, "intermediate_tensor_shape.dimensions", &n);
        int64_t dims[4];
        if (!text || ech_program_numbers(text, n, dims, 4) < 4)
            return 0;
        scores = 1;
        for (size_t k = 0; k < 4; k++)
            scores = ech_bytes_mul(scores, (uint64_t)MAX(dims[k], 1));
        uint64_t rows = (uint64_t)MAX(dims[0], 1) * (uint64_t)MAX(dims[1], 1) * (uint64_t)MAX(dims[2], 1);
        depth = 2 * (elements_of(p, ech_program_operand(p, i, 0)) / MAX(rows, 1u));
        const char *mask = ech_program_config(i, "mask_type", &n);
        causal = contains(mask, n, "CAUSAL");
    }
    uint64_t operations = ech_bytes_mul(2, ech_bytes_mul(scores, depth));
    if (causal)
        operations /= 2;
    if (backward)
        operations = ech_bytes_mul(operations, 5) / 2;
    if (ret_backward)
        *ret_backward = backward;
    return operations;
}

/* ---- */

static bool config_is(const EchInstruction *i, const char *key, const char *value)
{
    size_t n;
    const char *text = ech_program_config(i, key, &n);
    return text && n == strlen(value) && memcmp(text, value, n) == 0;
}

/* cuBLAS's products for sm_90 with more tiles than there are multiprocessors deal them out by a counter, which a fill of four bytes sets to zero before: most
 * of those with a grid of 132 blocks in PyTorch's profiles, none with fewer (traces/gpu_h100-sxm/models). @sms times the largest tile are so many. */
#define LARGEST_TILE (256 * 128)
static bool deals_tiles(const EchGpuLaunch *l, uint32_t sms)
{
    return ech_bytes_mul(ech_bytes_mul(l->batch, l->m), l->n) > ech_bytes_mul(sms, LARGEST_TILE);
}

static bool library_call(const EchProgram *p, EchId id, uint32_t sms, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    bool backward = false;
    if (!i->target)
        return false;
    if (strstr(i->target, "cublas") && !strstr(i->target, "riangular")) {
        ret->kind = ECH_GPU_PRODUCT;
        if (!product_sizes(p, id, ret))
            return false;
        ret->arithmetic = arithmetic_of(p, id, true);
        ret->fills = ret->arithmetic == ECH_GPU_WGMMA + 1 && deals_tiles(ret, sms);
        return true;
    }
    if (strstr(i->target, "cudnn$conv"))
        return convolution(p, id, true, ret);
    if (ech_program_gpu_solver(p, id, ret))
        return true;
    if (ech_program_attention(p, id, &backward) > 0) {
        ret->kind = ECH_GPU_ATTENTION;
        ret->arithmetic = ECH_GPU_WGMMA + 1;
        ret->backward = backward;
        ret->operand_bytes = MAX(bits_of(p, ech_program_operand(p, i, 0)) / 8, 1u);
        return true;
    }
    return false;
}

/* Registers of a thread of Triton's that holds its share of a block's tile in f32: of every whole array that is read, and of what lies between two reductions
 * where the result is as large as what is reduced. ptxas 13.0 for an H100 has 80, 88, 168 and 255 of softmax's four kernels, 64 elements a thread, and 31 of a
 * normalisation's of 16, where this says 88, 88, 152, 216 and 40. */
static uint32_t tile_registers(uint64_t elements, uint64_t blocks, uint32_t threads, uint64_t arrays, unsigned reduces, bool keeps)
{
    uint64_t each = blocks > 0 && threads > 0 ? ech_div_up(elements, ech_bytes_mul(blocks, threads)) : 0;
    uint64_t held = reduces == 0 ? 0 : arrays + (reduces > 1 && keeps ? 1 : 0);
    return (uint32_t)CLAMP(24 + ech_bytes_mul(each, held), 24u, 255u);
}

/* Of a kernel's instructions an element those that load and store it. */
static double moving(const EchGpuLaunch *launch)
{
    return launch->kind == ECH_GPU_SOFTMAX_WARP ? TILED : launch->kind == ECH_GPU_REDUCE ? PLAIN / 2 : PLAIN;
}

void ech_gpu_launch_take_in(EchGpuLaunch *launch, const EchGpuLaunch *inside)
{
    double own = MAX((double)inside->instructions - moving(inside), 0);
    bool sums = launch->kind == ECH_GPU_REDUCE;
    if (launch->instructions > 0 && launch->elements > 0)
        launch->instructions = whole((double)launch->instructions + own * (double)inside->elements / (double)launch->elements);
    if (launch->kind == ECH_GPU_SOFTMAX_WARP)
        launch->trips = (uint16_t)MIN(launch->trips + (inside->kind == ECH_GPU_REDUCE), 8);
    if (inside->kind != ECH_GPU_SOFTMAX_WARP || (!sums && launch->kind != ECH_GPU_ELEMENTWISE))
        return;
    EchGpuLaunch rows = *inside;
    rows.elements = launch->elements;
    rows.operand_bytes = launch->operand_bytes;
    rows.instructions = whole((double)launch->instructions - moving(launch) + TILED);
    rows.trips = (uint16_t)MIN(inside->trips + sums, 8);
    *launch = rows;
}

void ech_gpu_launch_fit_rows(EchGpuLaunch *launch, uint64_t arrays, bool keeps)
{
    for (;;) {
        launch->registers = tile_registers(launch->elements, ech_gpu_blocks(launch), launch->block[0], arrays, MAX(launch->trips, 1u) - 1u, keeps);
        if (launch->registers < 255 || launch->block[0] <= 32 || launch->grid[0] > UINT32_MAX / 4)
            return;
        launch->block[0] /= 2;
        launch->grid[0] *= 4;
    }
}

enum { FOR_RESULT = 1, FOR_REDUCTION = 2 };

/* Instructions an element that are done twice. Where a tile has one row, what is summed up is laid out over the threads as its result is not, and Triton makes
 * anew what both the last reduction and the result are made of: exponentials of softmax are there twice in tiles of 8 x 1 x 2048, 16 x 1 x 1024 and 2 x 16 x 1
 * x 512, once in 2 x 1024, 4 x 512 and 8 x 2 x 1024 (machine code of XLA of JAX 0.11.2 for an H100; once in one of 16 x 1 x 1024, too, whose scores are
 * reshaped on the way). Held out: rows of 2048 and 4096 in bf16 and f32, twice all. */
static double made_twice(const EchProgram *p, EchId id, double elements)
{
    EchId last = ECH_NONE;
    const EchComputation *c = &p->computations[ech_program_called(p, &p->instructions[id], 0)];
    if (count_reduces(p, id, &last) == 0 || c->n > MAX_STEPS || last < c->first || last - c->first >= c->n || c->root < c->first || c->root - c->first >= c->n)
        return 0;
    g_autofree uint8_t *wanted = g_new0(uint8_t, c->n);
    wanted[c->root - c->first] = FOR_RESULT;
    wanted[last - c->first] = FOR_REDUCTION;
    double twice = 0;
    for (uint32_t k = c->n; k-- > 0;) {
        const EchInstruction *i = &p->instructions[c->first + k];
        if (wanted[k] == (FOR_RESULT | FOR_REDUCTION) && c->first + k != last)
            twice += tiled_instructions(p, i) * (double)elements_of(p, c->first + k) / MAX(elements, 1);
        for (uint32_t o = 0; o < i->n_operands; o++) {
            EchId operand = ech_program_operand(p, i, o);
            if (operand >= c->first && operand - c->first < k)
                wanted[operand - c->first] |= c->first + k == last ? FOR_REDUCTION : wanted[k];
        }
    }
    return twice;
}

static bool fusion(const EchProgram *p, EchId id, uint32_t sms, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    if (i->n_called == 0)
        return false;
    Body body = body_of(p, id, (double)written_elements(p, id), true);
    if (body.call != ECH_NONE) /* a library's call whose operands or result are slices */
        return library_call(p, body.call, sms, ret);
    if (body.sort != ECH_NONE)
        return ech_program_gpu_sort(p, body.sort, ret);
    if (i->fusion_kind == 'C') {
        if (config_is(i, "fusion_backend_config.kind", "__custom_fusion") && config_is(i, "custom_fusion_config.name", "dynamic_slice_fusion")) {
            memcpy_of(p, id, ret);
            return true;
        }
        if (body.product != ECH_NONE)
            return triton_product(p, id, body.product, ret);
        if (body.convolution != ECH_NONE)
            return convolution(p, body.convolution, true, ret);
        if (!config_is(i, "fusion_backend_config.kind", "__triton"))
            return false;
        uint64_t tiles[ECH_LAYOUT_MAX_RANK], warps = 4;
        size_t n = tiles_of(i, tiles, G_N_ELEMENTS(tiles));
        const EchLayout *layout = ech_program_first_layout(p, id);
        (void)ech_program_config_u64(i, "num_warps", &warps);
        if (!layout || n != layout->rank)
            return false;
        ech_gpu_launch_tiles(layout->dims, tiles, n, (uint32_t)CLAMP(warps, 1u, 32u), ret);
        uint64_t elements = elements_of(p, id), whole_arrays = 0;
        for (uint32_t k = 0; k < i->n_operands; k++)
            elements = MAX(elements, elements_of(p, ech_program_operand(p, i, k)));
        for (uint32_t k = 0; k < i->n_operands; k++)
            whole_arrays += elements_of(p, ech_program_operand(p, i, k)) == elements;
        Body tiled = survey_body(p, id, (double)elements, false, true);
        ret->kind = ECH_GPU_SOFTMAX_WARP;
        ret->elements = elements;
        ret->operand_bytes = element_bytes(p, id);
        ret->trips = (uint8_t)MIN(1 + tiled.reduces, 8u); /* each reduction is a barrier */
        ret->registers = tile_registers(elements, ech_gpu_blocks(ret), ret->block[0], whole_arrays, tiled.reduces, elements_of(p, id) == elements);
        ret->instructions = whole(TILED + tiled.instructions + (n > 1 && tiles[n - 2] == 1 ? made_twice(p, id, (double)elements) : 0));
        return true;
    }
    if (body.product != ECH_NONE || body.convolution != ECH_NONE) /* fused before any compiler saw it: the product is a kernel of a library */
        return body.product != ECH_NONE ? triton_product(p, id, body.product, ret) : convolution(p, body.convolution, true, ret);
    if (i->fusion_kind == 'I') {
        if (body.scatter != ECH_NONE)
            return scattering(p, body.scatter, sms, ret);
        if (body.reduce != ECH_NONE && reduction(p, id, body.reduce, sms, ret))
            return true;
        if (body.transposes) {
            transposition(p, id, ret);
            return true;
        }
    }
    loop(p, id, sms, ret);
    return true;
}

bool ech_program_gpu_launch(const EchProgram *p, EchId id, uint32_t sms, EchGpuLaunch *ret)
{
    const EchInstruction *i = &p->instructions[id];
    EchGpuLaunch launch = {0};
    bool known = false;
    switch ((int)i->opcode) {
    case ECH_HLO_FUSION: known = fusion(p, id, sms, &launch); break;
    case ECH_HLO_CUSTOM_CALL: known = library_call(p, id, sms, &launch); break;
    case ECH_HLO_DOT:
        known = product_sizes(p, id, &launch);
        launch.kind = ECH_GPU_PRODUCT;
        launch.arithmetic = known ? arithmetic_of(p, id, true) : 0;
        break;
    case ECH_HLO_CONVOLUTION: known = convolution(p, id, true, &launch); break;
    case ECH_HLO_REDUCE:
        known = i->n_operands > 0 && reduction(p, id, id, sms, &launch);
        if (!known && i->n_operands > 0) {
            loop(p, id, sms, &launch);
            known = true;
        }
        break;
    case ECH_HLO_SCATTER: known = scattering(p, id, sms, &launch); break;
    case ECH_HLO_SORT: known = ech_program_gpu_sort(p, id, &launch); break;
    case ECH_HLO_FFT: known = ech_program_gpu_fft(p, id, &launch); break;
    case ECH_HLO_CHOLESKY:
    case ECH_HLO_TRIANGULAR_SOLVE: known = ech_program_gpu_solver(p, id, &launch); break;
    case ECH_HLO_COPY:
    case ECH_HLO_TRANSPOSE:
        if (turns(p, i))
            transposition(p, id, &launch);
        else if (i->opcode == ECH_HLO_COPY)
            memcpy_of(p, id, &launch);
        else
            loop(p, id, sms, &launch);
        known = true;
        break;
    case ECH_HLO_GATHER:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_SLICE:
    case ECH_HLO_PAD:
    case ECH_HLO_REVERSE:
    case ECH_HLO_CONCATENATE:
    case ECH_HLO_BROADCAST:
    case ECH_HLO_IOTA:
    case ECH_HLO_RESHAPE:
    case ECH_HLO_REDUCE_WINDOW:
        loop(p, id, sms, &launch);
        known = true;
        break;
    default:
        if (ech_hlo_is_elementwise((EchHlo)i->opcode) || ech_hlo_is_transcendental((EchHlo)i->opcode)) {
            loop(p, id, sms, &launch);
            known = true;
        }
        break;
    }
    if (known)
        *ret = launch;
    return known;
}
