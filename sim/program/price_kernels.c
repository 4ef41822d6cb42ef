/* An instruction as a kernel. */
#include "sim/program/price_kernels.h"

#include "models/place/cost.h"
#include "sim/program/convolution.h"
#include "sim/program/private.h"

#include <math.h>
#include <string.h>

#define MANY_POSITIONS 16  /* of a window along one dimension: more are summed by doubling */
#define FLOAT_REMAINDER 32 /* additions that a remainder of floats counts for (libtpu 0.0.52, v5e and v6e) */
#define INTEGER_DIVIDE 17  /* additions that an integer division or remainder counts for (libtpu 0.0.51, a quotient rounded down on v5e and v6e) */
#define MAX_DEPTH 16       /* fusions inside fusions; tuples inside tuples */
#define MOST_RESULTS 4096  /* of a kernel, looked at; tuples of tuples hold more than their text */

typedef struct {
    const EchProgram *program;
    GArray *operands, *results;           /* EchLayout */
    GArray *operand_bytes, *result_bytes; /* EchBytes */
    GArray *operand_of;                   /* uint32_t: operand number of each entry of operands */
} Arrays;

static void add_leaves(const EchProgram *program, EchId shape, GArray *layouts, unsigned depth)
{
    const EchShape *s = &program->shapes[shape];
    if (s->is_tuple) {
        for (uint32_t i = 0; i < s->n_elements && depth < MAX_DEPTH; i++)
            add_leaves(program, program->elements[s->first_element + i], layouts, depth + 1);
    } else if (s->layout != ECH_NONE) {
        EchLayout layout = program->layouts[s->layout];
        g_array_append_val(layouts, layout);
    }
}

/* -- the body -------------------------------------------------------------- */

typedef struct {
    const EchProgram *program;
    uint64_t widest; /* elements */
    EchKernelBody body;
    EchId product;            /* the widest convolution or dot, or ECH_NONE */
    EchId callers[MAX_DEPTH]; /* fusions around it, outermost first */
    unsigned n_callers;
    GArray *products;      /* EchId: all of them */
    EchId path[MAX_DEPTH]; /* fusions around what is looked at */
    bool gathers, scatters;
    bool unlaid; /* no compiler has chosen the kernel's layouts */
    uint64_t gathered;
} Survey;

static uint64_t elements_of(const EchProgram *program, EchId shape)
{
    const EchShape *s = &program->shapes[shape];
    uint64_t most = s->is_tuple ? 0 : s->count;
    for (uint32_t i = 0; s->is_tuple && i < s->n_elements; i++)
        most = MAX(most, program->shapes[program->elements[s->first_element + i]].count);
    return most;
}

/* A constant, or something made of constants only by renaming or converting. */
static bool is_constant(const EchProgram *program, EchId id)
{
    for (unsigned i = 0; i < MAX_DEPTH; i++) {
        const EchInstruction *at = &program->instructions[id];
        if (at->opcode == ECH_HLO_CONSTANT || at->opcode == ECH_HLO_IOTA)
            return true;
        if (at->n_operands != 1 ||
            (at->opcode != ECH_HLO_BROADCAST && at->opcode != ECH_HLO_CONVERT && at->opcode != ECH_HLO_BITCAST && at->opcode != ECH_HLO_RESHAPE))
            return false;
        id = ech_program_operand(program, at, 0);
    }
    return false;
}

static void survey_instruction(Survey *survey, EchId id, unsigned depth);

static void survey_computation(Survey *survey, EchId computation, unsigned depth)
{
    const EchComputation *c = &survey->program->computations[computation];
    for (uint32_t i = 0; i < c->n; i++)
        survey_instruction(survey, c->first + i, depth);
}

/* Whether a reduction runs along its operand's lanes. */
static bool reduces_lanes(const EchProgram *program, const EchInstruction *reduce)
{
    const EchLayout *layout = reduce->n_operands > 0 ? ech_program_layout(program, program->instructions[ech_program_operand(program, reduce, 0)].shape) : NULL;
    size_t n;
    const char *text = ech_program_attribute(reduce, "dimensions", &n);
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    if (layout == NULL || text == NULL || layout->rank == 0)
        return true;
    size_t count = MIN(ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims));
    for (size_t i = 0; i < count; i++)
        if (dims[i] == layout->order[0])
            return true;
    return false;
}

/* Whether a reduction's reducer compares: a maximum or a minimum. */
static bool reduces_by_comparing(const EchProgram *program, const EchInstruction *reduce)
{
    if (reduce->n_called == 0)
        return false;
    EchHlo root = (EchHlo)program->instructions[program->computations[ech_program_called(program, reduce, 0)].root].opcode;
    return root == ECH_HLO_MAXIMUM || root == ECH_HLO_MINIMUM;
}

/* Whether what a reduction adds up comes out of an exponential, converted or masked at most. */
static bool reduces_exponentials(const EchProgram *program, const EchInstruction *reduce)
{
    const EchInstruction *at = reduce;
    for (unsigned i = 0; i < MAX_DEPTH && at->n_operands > 0; i++) {
        at = &program->instructions[ech_program_operand(program, at, at->opcode == ECH_HLO_SELECT && at->n_operands > 1 ? 1 : 0)];
        if (at->opcode == ECH_HLO_EXPONENTIAL)
            return true;
        if (at->opcode == ECH_HLO_FUSION && at->n_called > 0 && !program->shapes[at->shape].is_tuple)
            at = &program->instructions[program->computations[ech_program_called(program, at, 0)].root];
        if (at->opcode == ECH_HLO_EXPONENTIAL)
            return true;
        if (at->opcode != ECH_HLO_CONVERT && at->opcode != ECH_HLO_BITCAST && at->opcode != ECH_HLO_RESHAPE && at->opcode != ECH_HLO_SELECT)
            return false;
    }
    return false;
}

static uint32_t bits_of(const EchProgram *program, EchId id)
{
    const EchLayout *layout = id == ECH_NONE ? NULL : ech_program_layout(program, program->instructions[id].shape);
    return layout != NULL ? MAX(ech_layout_element_bits(layout), 1u) : UINT32_MAX;
}

/* Operations that taking a register to the bits of a narrower result takes: one to 16, three to 8 (libtpu 0.0.51, v5e, v6e, tpu7x: exact). */
static uint32_t narrow_operations(uint32_t bits)
{
    return bits >= 32 ? 0 : bits > 8 ? 1 : 3;
}

/* The same of a conversion; from 16 bits to 8 it is as from 32. */
static uint32_t narrowing(const EchProgram *program, EchId convert)
{
    uint32_t to = bits_of(program, convert), from = bits_of(program, ech_program_operand(program, &program->instructions[convert], 0));
    return to < from && from <= 32 ? narrow_operations(to) : 0;
}

/* Operations of floats that count as many additions, none as free as a copy of its register; anything else: UINT32_MAX (libtpu 0.0.52, v5e and v6e, 8 to 256
 * registers in one step, exact). */
static uint32_t counted_as(EchHlo opcode)
{
    switch ((int)opcode) {
    case ECH_HLO_SINE:
    case ECH_HLO_COSINE: return 154;
    case ECH_HLO_TAN: return 170;
    case ECH_HLO_ERF: return 21;
    case ECH_HLO_CEIL:
    case ECH_HLO_FLOOR:
    case ECH_HLO_ROUND_NEAREST_EVEN: return 3;
    case ECH_HLO_ABS:
    case ECH_HLO_BITCAST_CONVERT:
    case ECH_HLO_NEGATE:
    case ECH_HLO_SQRT: return 0;
    default: return UINT32_MAX;
    }
}

/* What a broadcast moves: one that makes up the lanes of its result fills a register for every 8 rows lane by lane, a mask's twice (libtpu 0.0.52, seven masks
 * of one, two and three dimensions on v5e and v5p), another repeats its rows of lanes. */
static void survey_broadcast(const EchProgram *program, const EchInstruction *at, EchKernelBody *body)
{
    const EchLayout *result = ech_program_layout(program, at->shape),
                    *from = ech_program_layout(program, program->instructions[ech_program_operand(program, at, 0)].shape);
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n;
    const char *text = ech_program_attribute(at, "dimensions", &n);
    size_t count = text != NULL ? MIN(ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims)) : 0;
    if (result == NULL || from == NULL || result->rank == 0 || count == 0)
        return;
    uint64_t lanes = result->dims[result->order[0]], rows = result->rank > 1 ? result->dims[result->order[1]] : 1;
    bool lanes_kept = false, rows_kept = false;
    for (size_t k = 0; k < count; k++) {
        lanes_kept |= dims[k] == result->order[0];
        rows_kept |= result->rank > 1 && dims[k] == result->order[1];
    }
    double others = (double)ech_layout_elements(from) / (double)((lanes_kept ? MAX(lanes, 1u) : 1) * (rows_kept ? MAX(rows, 1u) : 1));
    double mask = strcmp(from->dtype, "pred") == 0 ? 2 : 1;
    if (!lanes_kept)
        body->spread += mask * others * (double)(rows_kept ? rows / 8 + (rows % 8 != 0) : 1);
    else if (!rows_kept)
        body->rows += others * (double)(lanes / 128 + (lanes % 128 != 0));
}

/* Whether a copy keeps what lies on lanes and moves rows. */
static bool turns_rows(const EchProgram *program, const EchInstruction *copy)
{
    const EchLayout *to = ech_program_layout(program, copy->shape);
    const EchLayout *from = copy->n_operands > 0 ? ech_program_layout(program, program->instructions[ech_program_operand(program, copy, 0)].shape) : NULL;
    return copy->opcode == ECH_HLO_COPY && to != NULL && from != NULL && to->rank == from->rank && to->rank > 1 && to->order[0] == from->order[0] &&
           memcmp(to->order, from->order, to->rank * sizeof to->order[0]) != 0;
}

/* Bytes of a fusion's operands on chip that its body only copies so. */
static double only_turned(const EchProgram *program, const EchInstruction *fusion)
{
    const EchComputation *body =
        fusion->opcode == ECH_HLO_FUSION && fusion->n_called > 0 ? &program->computations[ech_program_called(program, fusion, 0)] : NULL;
    double bytes = 0;
    if (body == NULL)
        return bytes;
    g_autofree uint32_t *uses = g_new0(uint32_t, body->n);
    for (uint32_t i = 0; i < body->n; i++) {
        const EchInstruction *user = &program->instructions[body->first + i];
        for (uint32_t k = 0; k < user->n_operands; k++) {
            EchId operand = ech_program_operand(program, user, k);
            if (operand >= body->first && operand - body->first < body->n)
                uses[operand - body->first]++;
        }
    }
    for (uint32_t i = 0; i < body->n; i++) {
        const EchInstruction *copy = &program->instructions[body->first + i];
        EchId given = copy->opcode == ECH_HLO_COPY && copy->n_operands == 1 ? ech_program_operand(program, copy, 0) : ECH_NONE;
        bool alone = given != ECH_NONE && given >= body->first && given - body->first < body->n && uses[given - body->first] == 1;
        if (!alone || program->instructions[given].opcode != ECH_HLO_PARAMETER || !turns_rows(program, copy))
            continue;
        const EchLayout *layout = ech_program_layout(program, program->instructions[given].shape);
        bytes += layout->space == ECH_SPACE_VECTOR ? (double)ech_layout_padded_bytes(layout, ECH_LAYOUT_DENSE) : 0;
    }
    return bytes;
}

/* Whether an operand is an array that the kernel is given, by another name at most. */
static bool is_given(const EchProgram *program, EchId operand)
{
    const EchInstruction *at = &program->instructions[operand];
    for (unsigned i = 0; i < MAX_DEPTH && at->opcode == ECH_HLO_BITCAST && at->n_operands == 1; i++)
        at = &program->instructions[ech_program_operand(program, at, 0)];
    return at->opcode == ECH_HLO_PARAMETER;
}

/* Elements that lie together in what a gather picks at once: as far as its slice takes whole dimensions of what it picks from, from the innermost outwards; a
 * row of its result at least, or the slice. */
static uint64_t gathered_length(const EchProgram *program, const EchInstruction *gather)
{
    const EchLayout *layout = ech_program_layout(program, gather->shape);
    const EchLayout *from = gather->n_operands > 0 ? ech_program_layout(program, program->instructions[ech_program_operand(program, gather, 0)].shape) : NULL;
    uint64_t row = layout && layout->rank > 0 ? layout->dims[layout->rank - 1u] : 1, slice = 1, together = 1;
    int64_t sizes[ECH_LAYOUT_MAX_RANK];
    size_t n;
    const char *text = ech_program_attribute(gather, "slice_sizes", &n);
    size_t count = text != NULL ? MIN(ech_program_numbers(text, n, sizes, G_N_ELEMENTS(sizes)), G_N_ELEMENTS(sizes)) : 0;
    for (size_t i = 0; i < count; i++)
        slice = ech_bytes_mul(slice, (uint64_t)MAX(sizes[i], 1));
    bool whole = from != NULL && from->rank == count;
    for (size_t i = 0; whole && i < count; i++) {
        unsigned d = from->order[i];
        together = ech_bytes_mul(together, (uint64_t)MAX(sizes[d], 1));
        whole = sizes[d] > 0 && (uint64_t)sizes[d] == from->dims[d];
    }
    return MAX(MAX(count > 0 ? MIN(row, slice) : row, together), 1);
}

/* What an instruction reads: a kernel's own its operands, one in a fusion the arrays that the kernel is given. */
static void survey_reads(Survey *survey, const EchInstruction *at, unsigned depth, bool wide)
{
    const EchProgram *program = survey->program;
    if (at->opcode == ECH_HLO_TUPLE || at->opcode == ECH_HLO_BITCAST || at->opcode == ECH_HLO_FUSION)
        return;
    survey->body.reads |= depth == 0 && at->opcode != ECH_HLO_BROADCAST;
    for (uint32_t i = 0; depth > 0 && i < at->n_operands; i++) {
        EchId operand = ech_program_operand(program, at, i);
        uint64_t elements = elements_of(program, program->instructions[operand].shape);
        bool array = elements > 1 && is_given(program, operand);
        bool again = i > 0 && operand == ech_program_operand(program, at, i - 1);
        survey->body.reads |= array && at->opcode != ECH_HLO_BROADCAST;
        survey->body.loads += wide && array && !again && elements >= survey->widest / 2;
    }
}

/* The fusion's own product is the outermost one, the widest of several: windows are those of its operands. */
static void survey_product(Survey *survey, EchId id, uint64_t elements, unsigned depth)
{
    const EchProgram *program = survey->program;
    g_array_append_val(survey->products, id);
    if (survey->product == ECH_NONE || depth < survey->n_callers ||
        (depth == survey->n_callers && elements > elements_of(program, program->instructions[survey->product].shape))) {
        survey->product = id;
        survey->n_callers = MIN(depth, (unsigned)MAX_DEPTH);
        memcpy(survey->callers, survey->path, sizeof survey->callers);
    }
}

/* Whether a dimension that a window leaves alone can lie on rows: a compiler lays images there, so that nothing moves across rows (libtpu 0.0.52: pools behind
 * convolutions on v5e, v5p and v6e, batches of 8 to 64). */
static bool has_other_rows(const EchLayout *layout, const EchHloWindow *window)
{
    for (unsigned i = 0; i < layout->rank && i < window->n && i < 8; i++) {
        if (window->size[i] == 1 && layout->order[0] != i && layout->dims[i] >= 8)
            return true;
    }
    return false;
}

/* As many additions as the window has positions; those along rows or lanes first move every register. A window that always holds the whole row is a
 * reduction whose result is spread again (a softmax's maximum); one of many positions is a running sum, doubled step by step. */
static void survey_window(Survey *survey, const EchInstruction *at, uint64_t elements, bool wide)
{
    const EchProgram *program = survey->program;
    const EchLayout *layout = ech_program_layout(program, at->shape);
    const EchLayout *input = at->n_operands > 0 ? ech_program_layout(program, program->instructions[ech_program_operand(program, at, 0)].shape) : NULL;
    EchHloWindow window = ech_hlo_window(at);
    uint64_t positions = 1, shuffled = 1;
    bool rows = layout != NULL && layout->rank > 1 && !(survey->unlaid && has_other_rows(layout, &window));
    for (unsigned i = 0; i < window.n && i < 8; i++) {
        uint64_t extent = input != NULL && i < input->rank ? input->dims[i] : 0, steps = window.size[i];
        if (window.size[i] > 1 && extent > 0 && (window.size[i] - 1) / 2 >= extent - 1) {
            survey->body.reduce += wide;
            survey->body.rows_first += wide;
            survey->body.lane_sums += wide && (layout == NULL || layout->rank == 0 || layout->order[0] == i) && !reduces_by_comparing(program, at) &&
                                      !reduces_exponentials(program, at);
            if (wide && layout != NULL && layout->rank > 0 && layout->order[0] == i)
                survey->body.spread += (double)elements / (double)MAX(extent, 1u) / 8;
            continue;
        }
        if (window.size[i] > MANY_POSITIONS)
            steps = 2 * (uint64_t)g_bit_storage((gulong)(window.size[i] - 1));
        positions = MIN(positions * steps, 4096u);
        if (layout != NULL && layout->rank > 0 && (layout->order[0] == i || (rows && layout->order[1] == i)))
            shuffled = MIN(shuffled * steps, 4096u);
    }
    if (positions == 1)
        return;
    survey->body.positions += (uint32_t)positions;
    survey->body.windows++;
    survey->body.shuffle += (uint32_t)(shuffled > 1 ? positions - positions / shuffled : 0);
}

static bool is_integer(const EchProgram *program, EchId shape)
{
    const char *name = ech_dtype_name(program->shapes[shape].dtype);
    return !program->shapes[shape].is_tuple && (name[0] == 's' || name[0] == 'u');
}

static void survey_instruction(Survey *survey, EchId id, unsigned depth)
{
    const EchProgram *program = survey->program;
    const EchInstruction *at = &program->instructions[id];
    uint64_t elements = elements_of(program, at->shape);
    for (uint32_t i = 0; i < at->n_operands && (at->opcode == ECH_HLO_REDUCE || at->opcode == ECH_HLO_REDUCE_WINDOW); i++)
        elements = MAX(elements, elements_of(program, program->instructions[ech_program_operand(program, at, i)].shape));
    /* Work on what is small beside the whole costs nothing that shows. */
    bool wide = elements > 0 && elements >= survey->widest / 2;
    survey_reads(survey, at, depth, wide);
    switch ((int)at->opcode) {
    case ECH_HLO_FUSION:
        if (depth < MAX_DEPTH)
            survey->path[depth] = id;
        for (uint32_t i = 0; i < at->n_called && depth < MAX_DEPTH; i++)
            survey_computation(survey, ech_program_called(program, at, i), depth + 1);
        return;
    case ECH_HLO_CONVOLUTION:
    case ECH_HLO_DOT: survey_product(survey, id, elements, depth); return;
    case ECH_HLO_BROADCAST:
        if (wide && at->n_operands > 0 && !is_constant(program, ech_program_operand(program, at, 0)))
            survey_broadcast(program, at, &survey->body);
        return;
    case ECH_HLO_REDUCE:
        survey->body.reduce += wide;
        survey->body.lane_sums += wide && reduces_lanes(program, at) && !reduces_by_comparing(program, at) && !reduces_exponentials(program, at);
        return;
    case ECH_HLO_REDUCE_WINDOW: survey_window(survey, at, elements, wide); return;
    case ECH_HLO_GATHER:
        survey->gathers = true;
        survey->gathered = MAX(survey->gathered, elements / gathered_length(program, at));
        return;
    case ECH_HLO_SCATTER: survey->scatters = true; return;
    case ECH_HLO_DIVIDE:
    case ECH_HLO_REMAINDER:
        if (is_integer(program, at->shape))
            survey->body.simple += wide ? INTEGER_DIVIDE : 0;
        else if (at->opcode == ECH_HLO_REMAINDER)
            survey->body.simple += wide ? FLOAT_REMAINDER : 0;
        else
            survey->body.divide += wide;
        return;
    case ECH_HLO_CONVERT: survey->body.narrow += wide && program->shapes[at->shape].dtype != ECH_DTYPE_PRED ? narrowing(program, id) : 0; return;
    case ECH_HLO_COPY: survey->body.turned += depth > 0 && wide && turns_rows(program, at) ? (double)elements / 1024 : 0; return;
    case ECH_HLO_PAD: /* masked, and put in place */ survey->body.simple += wide ? 2 : 0; return;
    default:
        if (counted_as((EchHlo)at->opcode) != UINT32_MAX)
            survey->body.simple += wide ? counted_as((EchHlo)at->opcode) : 0;
        else if (ech_hlo_is_transcendental((EchHlo)at->opcode))
            survey->body.transcendental += wide;
        else if (ech_hlo_is_elementwise((EchHlo)at->opcode))
            survey->body.simple += wide;
        return;
    }
}

/* -- products -------------------------------------------------------------- */

/* Number of the fusion's parameter that @id, an instruction of its body, is made of, or ECH_NONE; the widest where several are. Operands come before what they
 * make: each is looked at once, however many ways lead to it. */
static EchId parameter_behind(const EchProgram *program, EchId id)
{
    EchId first = program->computations[program->instructions[id].computation].first;
    g_autofree EchId *behind = g_new(EchId, id - first + 1);
    for (EchId j = first; j <= id; j++) {
        const EchInstruction *at = &program->instructions[j];
        EchId *best = &behind[j - first];
        uint64_t most = 0;
        *best = at->opcode == ECH_HLO_PARAMETER && at->number >= 0 ? (EchId)at->number : ECH_NONE;
        for (uint32_t i = 0; i < at->n_operands; i++) {
            EchId operand = ech_program_operand(program, at, i), found = behind[operand - first];
            uint64_t elements = elements_of(program, program->instructions[operand].shape);
            if (found == ECH_NONE || (*best != ECH_NONE && elements <= most))
                continue;
            *best = found;
            most = elements;
        }
    }
    return behind[id - first];
}

/* Whether an instruction is a product, or a fusion around one. */
static bool holds_product(const EchProgram *program, const EchInstruction *at)
{
    if (at->opcode == ECH_HLO_CONVOLUTION || at->opcode == ECH_HLO_DOT)
        return true;
    const EchComputation *body = at->opcode == ECH_HLO_FUSION && at->n_called > 0 ? &program->computations[ech_program_called(program, at, 0)] : NULL;
    for (uint32_t i = 0; body != NULL && i < body->n; i++)
        if (program->instructions[body->first + i].opcode == ECH_HLO_CONVOLUTION || program->instructions[body->first + i].opcode == ECH_HLO_DOT)
            return true;
    return false;
}

/* Sets @ret[number] for every parameter of its computation that @id is made of, and *@product where another product is among it. */
static void mark_parameters(const EchProgram *program, EchId id, GArray *ret, uint8_t *seen, bool *product, unsigned depth)
{
    const EchInstruction *at = &program->instructions[id];
    const EchComputation *body = &program->computations[at->computation];
    if (id < body->first || id - body->first >= body->n || seen[id - body->first] || depth > 1024)
        return;
    seen[id - body->first] = 1;
    *product |= holds_product(program, at);
    if (at->opcode == ECH_HLO_PARAMETER && at->number >= 0 && (uint64_t)at->number < ret->len)
        g_array_index(ret, uint8_t, at->number) = 1;
    for (uint32_t i = 0; i < at->n_operands; i++)
        mark_parameters(program, ech_program_operand(program, at, i), ret, seen, product, depth + 1);
}

static double registers_of(const EchProgram *program, EchId id)
{
    const EchLayout *layout = ech_program_layout(program, program->instructions[id].shape);
    unsigned bits = layout != NULL ? ech_layout_element_bits(layout) : 0;
    return bits > 0 && layout->rank > 0 ? (double)ech_layout_padded_bytes(layout, ECH_LAYOUT_DENSE) * 8 / bits / 1024 : 0;
}

/* Adds the arithmetic of an instruction and of what it calls. */
static void add_work(const EchProgram *program, EchId id, unsigned depth, EchKernelWork *work)
{
    const EchInstruction *at = &program->instructions[id];
    EchId operand = at->n_operands > 0 ? ech_program_operand(program, at, 0) : ECH_NONE;
    double registers = registers_of(program, id);
    switch ((int)at->opcode) {
    case ECH_HLO_FUSION:
        for (uint32_t i = 0; i < at->n_called && depth < MAX_DEPTH; i++) {
            const EchComputation *body = &program->computations[ech_program_called(program, at, i)];
            for (uint32_t k = 0; k < body->n; k++)
                add_work(program, body->first + k, depth + 1, work);
        }
        return;
    case ECH_HLO_BROADCAST:
        if (operand != ECH_NONE && !is_constant(program, operand)) {
            EchKernelBody body = {0};
            survey_broadcast(program, at, &body);
            work->spread += body.spread;
            work->rows += body.rows;
        }
        return;
    case ECH_HLO_REDUCE:
        if (operand != ECH_NONE)
            work->reduce += registers_of(program, operand);
        return;
    case ECH_HLO_REDUCE_WINDOW: work->reduce += registers; return;
    case ECH_HLO_DIVIDE: work->divide += registers; return;
    case ECH_HLO_CONVERT:
        if (program->shapes[at->shape].dtype != ECH_DTYPE_PRED && bits_of(program, id) < 32 && bits_of(program, operand) == 32)
            work->narrow += registers;
        return;
    case ECH_HLO_COPY: {
        const EchLayout *to = ech_program_layout(program, at->shape);
        const EchLayout *from = operand != ECH_NONE ? ech_program_layout(program, program->instructions[operand].shape) : NULL;
        bool turns = to != NULL && from != NULL && to->rank == from->rank && memcmp(to->order, from->order, to->rank * sizeof to->order[0]) != 0;
        work->turned += turns ? registers : 0;
        work->touched += turns ? registers : 0;
        return;
    }
    default:
        if (counted_as((EchHlo)at->opcode) != UINT32_MAX)
            work->simple += counted_as((EchHlo)at->opcode) * registers;
        else if (ech_hlo_is_transcendental((EchHlo)at->opcode))
            work->transcendental += registers;
        else if (ech_hlo_is_elementwise((EchHlo)at->opcode))
            work->simple += registers;
        return;
    }
}

/* Whether a product of 16 bits is narrowed before anything widens it again. */
static bool is_narrowed(const Survey *survey)
{
    const EchProgram *program = survey->program;
    EchId id = survey->product;
    if (bits_of(program, id) >= 32)
        return false;
    for (unsigned level = survey->n_callers; level-- > 0; id = survey->callers[level]) {
        const EchComputation *body = &program->computations[program->instructions[id].computation];
        if (body->root == id)
            continue;
        for (uint32_t k = 0; k < body->n; k++) {
            const EchInstruction *user = &program->instructions[body->first + k];
            bool widens = user->opcode == ECH_HLO_CONVERT && bits_of(program, body->first + k) == 32;
            for (uint32_t i = 0; i < user->n_operands && !widens; i++)
                if (ech_program_operand(program, user, i) == id)
                    return true;
        }
        return false;
    }
    return true;
}

/* What a fusion around the survey's product computes before it, for either side, and behind it; ret_sides[side]: which of the fusion's operands the side is
 * made of, outermost[n_operands]. */
static void survey_sides(const Survey *survey, EchKernelContraction *c, GArray *ret_sides[2])
{
    const EchProgram *program = survey->program;
    g_autoptr(GArray) lhs = g_array_new(FALSE, FALSE, sizeof(EchId)), rhs = g_array_new(FALSE, FALSE, sizeof(EchId));
    GArray *ids[2] = {lhs, rhs};
    double widest[2] = {0};
    for (unsigned side = 0; side < 2; side++) {
        EchId operand = ech_program_operand(program, &program->instructions[survey->product], side);
        g_array_append_val(ids[side], operand);
    }
    EchId inner = survey->product;
    for (unsigned level = survey->n_callers; level-- > 0;) {
        const EchInstruction *caller = &program->instructions[survey->callers[level]];
        const EchComputation *body = &program->computations[program->instructions[inner].computation];
        g_autofree uint8_t *taken = g_new0(uint8_t, body->n);
        taken[inner - body->first] = 1;
        for (unsigned side = 0; side < 2; side++) {
            g_clear_pointer(&ret_sides[side], g_array_unref);
            GArray *marked = ret_sides[side] = g_array_sized_new(FALSE, TRUE, sizeof(uint8_t), caller->n_operands);
            g_array_set_size(marked, caller->n_operands);
            g_autofree uint8_t *seen = g_new0(uint8_t, body->n);
            for (guint i = 0; i < ids[side]->len; i++)
                mark_parameters(program, g_array_index(ids[side], EchId, i), marked, seen, side == 0 ? &c->lhs_computed : &c->rhs_computed, 0);
            for (uint32_t k = 0; k < body->n; k++) {
                if (!seen[k])
                    continue;
                taken[k] = 1;
                if (level > 0 || program->instructions[body->first + k].opcode != ECH_HLO_PARAMETER) {
                    add_work(program, body->first + k, 0, &c->before[side]);
                    continue;
                }
                /* The units take one array in anyway. */
                double registers = registers_of(program, body->first + k);
                c->before[side].touched += MIN(registers, widest[side]);
                widest[side] = MAX(widest[side], registers);
            }
            g_array_set_size(ids[side], 0);
            for (uint32_t i = 0; i < caller->n_operands; i++) {
                EchId operand = ech_program_operand(program, caller, i);
                if (g_array_index(marked, uint8_t, i))
                    g_array_append_val(ids[side], operand);
            }
        }
        for (uint32_t k = 0; k < body->n; k++) {
            if (taken[k])
                continue;
            if (level == 0 && program->instructions[body->first + k].opcode == ECH_HLO_PARAMETER)
                c->behind.touched += registers_of(program, body->first + k);
            add_work(program, body->first + k, 0, &c->behind);
        }
        inner = survey->callers[level];
    }
    if (!c->depthwise && is_narrowed(survey))
        c->behind.narrow += registers_of(program, survey->product);
    c->surveyed = true;
}

static const EchLayout *layout_of(const EchProgram *program, EchId instruction)
{
    return ech_program_layout(program, program->instructions[instruction].shape);
}

/* Narrow groups of channels, or of a batch, share the lanes, each with its own part of them, and take every position by itself. */
static void share_lanes(EchKernelContraction *c, uint64_t features, uint64_t groups)
{
    uint64_t n_own = MAX(c->n / groups, 1u), width = MAX(n_own, features > 1 ? c->k : 1), together = MIN(MAX(128 / width, 1u), groups);
    c->depthwise = features > 1 && c->k == 1 && n_own == 1;
    c->depthwise_gradient = features == 1 && n_own == 1;
    c->batch = ech_bytes_mul(c->batch, ech_div_up(groups, together));
    c->n = n_own * together;
    c->k *= features > 1 ? together : 1;
    c->one_tap = features > 1;
}

static bool read_convolution(const EchProgram *program, const EchInstruction *convolution, EchKernelContraction *c)
{
    const EchLayout *lhs = layout_of(program, ech_program_operand(program, convolution, 0)),
                    *rhs = layout_of(program, ech_program_operand(program, convolution, 1));
    const EchLayout *out = ech_program_layout(program, convolution->shape);
    EchHloLabels labels;
    if (!ech_hlo_labels(convolution, &labels) || lhs == NULL || rhs == NULL || out == NULL)
        return false;
    const char *l = labels.l, *r = labels.r, *o = labels.o;
    size_t ln = labels.ln, rn = labels.rn, on = labels.on;
    if (ln != lhs->rank || rn != rhs->rank || on != out->rank)
        return false;
    int lb = ech_hlo_label_at(l, ln, 'b'), lf = ech_hlo_label_at(l, ln, 'f'), ri = ech_hlo_label_at(r, rn, 'i'), ro = ech_hlo_label_at(r, rn, 'o'),
        ob = ech_hlo_label_at(o, on, 'b'), of = ech_hlo_label_at(o, on, 'f');
    if (lb < 0 || lf < 0 || ri < 0 || ro < 0 || ob < 0 || of < 0)
        return false;
    EchHloWindow window = ech_hlo_window(convolution);
    *c = (EchKernelContraction){.batch = 1, .m = out->dims[ob], .n = out->dims[of], .k = rhs->dims[ri], .taps = 1, .input_pixels = lhs->dims[lb], .passes = 1};
    uint64_t kept = 1, pixels = 1, last = 1, kept_last = 1;
    c->across = c->window = c->dilated = 1;
    c->met = 1;
    for (unsigned i = 0; i < window.n && i < 8; i++) {
        char label = (char)('0' + i);
        int ls = ech_hlo_label_at(l, ln, label), rs = ech_hlo_label_at(r, rn, label), os = ech_hlo_label_at(o, on, label);
        if (ls < 0 || rs < 0 || os < 0)
            return false;
        uint64_t taps = window.size[i] / window.lhs_dilate[i] + (window.size[i] % window.lhs_dilate[i] != 0);
        /* A batch dimension is written as a window that meets one position of the operand at each of its own. */
        bool alone = taps == 1 || (window.stride[i] == window.size[i] && window.lhs_dilate[i] + 1 == window.size[i]);
        bool batch = window.size[i] > 1 && alone && out->dims[os] == window.size[i] && lhs->dims[ls] == window.size[i];
        if (batch) {
            c->batch = ech_bytes_mul(c->batch, out->dims[os]);
            continue;
        }
        /* A dimension of the kernel that the result keeps: a window that meets the one position of the operand at each of its own. */
        if (window.size[i] > 1 && lhs->dims[ls] == 1 && out->dims[os] == window.size[i]) {
            kept = ech_bytes_mul(kept, window.size[i]);
            continue;
        }
        c->taps = ech_bytes_mul(c->taps, taps);
        c->across = taps;
        kept_last = MAX(out->dims[os], 1u);
        c->window = ech_bytes_mul(c->window, window.size[i]);
        c->dilated = ech_bytes_mul(c->dilated, window.lhs_dilate[i]);
        last = ech_bytes_add(ech_bytes_mul(MAX(out->dims[os], 1u) - 1, window.stride[i]), window.size[i]);
        pixels = ech_bytes_mul(pixels, last);
        c->m = ech_bytes_mul(c->m, out->dims[os]);
        c->input_pixels = ech_bytes_mul(c->input_pixels, lhs->dims[ls]);
        if (lhs->dims[ls] > 0)
            c->met *= MIN(1, (double)out->dims[os] * (double)taps / (double)lhs->dims[ls]);
        if (out->dims[os] > 1 || taps > 1)
            c->convolution = true;
    }
    if (kept > 1) { /* each of its positions fills whole lanes, or rows (libtpu 0.0.52: a gradient of 16 heads of 64 on v5e, v6e, v5p) */
        uint64_t whole = ech_hlo_physical(out, 0) == of ? 128 : 8;
        c->n = ech_bytes_mul(kept, ech_bytes_mul(c->n / whole + (c->n % whole != 0), whole));
    }
    uint64_t features = ech_hlo_groups(convolution, "feature_group_count"), groups = MAX(features, ech_hlo_groups(convolution, "batch_group_count"));
    if (groups > 1)
        share_lanes(c, features, groups);
    if (c->convolution && c->taps > 1 && groups == 1 && ech_hlo_physical(lhs, 0) == lb && out->dims[ob] > 1)
        c->positions = MAX(c->m / out->dims[ob], 1u);
    c->images = MAX(out->dims[ob], 1u);
    c->images_on_lanes =
        c->convolution && c->taps == 1 && groups == 1 && c->batch == 1 && c->images > 1 && ech_hlo_physical(lhs, 0) == lb && ech_hlo_physical(out, 0) == ob;
    c->images_on_rows = c->convolution && ech_hlo_physical(out, 1) == ob;
    c->few = c->taps > c->m / MAX(out->dims[ob], 1u) || ech_hlo_physical(out, 0) != of;
    c->apart = c->convolution && ech_hlo_physical(rhs, 0) == ri;
    bool several = c->m > c->images || c->batch > 1; /* images: channels in, of a filter's gradient */
    if (c->apart && c->taps > c->m / c->images && several && groups == 1 && ech_hlo_physical(lhs, 0) == lf)
        c->together = ech_bytes_mul(c->images, kept_last);
    /* 8 rows of a batch in 16 bits fill half a register; channels that share its lanes with other positions' are laid out anew. */
    if (c->convolution && groups == 1 && c->taps > 1 && c->k < 64 && ech_hlo_physical(lhs, 0) == lf && ech_hlo_physical(lhs, 1) == lb &&
        lhs->dims[lb] % 16 != 0 && ech_layout_element_bits(lhs) == 16 && pixels > last)
        c->half_registers = (double)(pixels - last);
    c->lhs_transposed = !c->convolution && ech_hlo_physical(lhs, 0) != lf && ech_hlo_physical(lhs, 1) == lf && lhs->rank == 2;
    c->rows_on_lanes = !c->convolution && ech_hlo_physical(lhs, 0) == lb;
    c->rhs_transposed = !c->convolution && ech_hlo_physical(rhs, 0) == ri && (rhs->rank == 2 || c->batch > 1);
    c->out_transposed = (c->positions > 0 || (!c->convolution && out->rank == 2)) && ech_hlo_physical(out, 0) == ob;
    return c->batch > 0 && c->m > 0 && c->n > 0 && c->k > 0;
}

static bool read_dot(const EchProgram *program, const EchInstruction *dot, EchKernelContraction *c)
{
    const EchLayout *lhs = layout_of(program, ech_program_operand(program, dot, 0)), *out = ech_program_layout(program, dot->shape);
    const EchLayout *rhs = layout_of(program, ech_program_operand(program, dot, 1));
    if (lhs == NULL || rhs == NULL || out == NULL)
        return false;
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n;
    *c = (EchKernelContraction){.batch = 1, .m = 1, .n = 1, .k = 1, .taps = 1, .passes = 1};
    const char *text = ech_program_attribute(dot, "lhs_batch_dims", &n);
    size_t count = text != NULL ? MIN(ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims)) : 0;
    for (size_t i = 0; i < count; i++)
        if (dims[i] >= 0 && dims[i] < lhs->rank)
            c->batch = ech_bytes_mul(c->batch, lhs->dims[dims[i]]);
    text = ech_program_attribute(dot, "lhs_contracting_dims", &n);
    count = text != NULL ? MIN(ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims)) : 0;
    for (size_t i = 0; i < count; i++)
        if (dims[i] >= 0 && dims[i] < lhs->rank)
            c->k = ech_bytes_mul(c->k, lhs->dims[dims[i]]);
    if (c->batch == 0 || c->k == 0)
        return false;
    c->m = ech_layout_elements(lhs) / c->batch / c->k;
    c->n = ech_layout_elements(rhs) / c->batch / c->k;
    return c->m > 0 && c->n > 0;
}

static bool read_product(const EchProgram *program, EchId id, EchKernelContraction *ret)
{
    const EchInstruction *product = &program->instructions[id];
    return product->n_operands >= 2 && (product->opcode == ECH_HLO_DOT ? read_dot(program, product, ret) : read_convolution(program, product, ret));
}

/* Integers of 32 bits are multiplied in four parts each, of whose products ten count (libtpu 0.0.52, four shapes on v5e and v6e). */
static uint32_t read_passes(const EchInstruction *product, const EchLayout *lhs, const EchLayout *rhs)
{
    size_t n;
    if (strcmp(lhs->dtype + 1, "32") == 0 && strcmp(lhs->dtype, rhs->dtype) == 0 && lhs->dtype[0] != 'f')
        return 10;
    const char *precision = ech_program_attribute(product, "operand_precision", &n);
    if (precision == NULL || lhs->bits < 32)
        return 1;
    return g_strstr_len(precision, (gssize)n, "highest") != NULL ? 6 : g_strstr_len(precision, (gssize)n, "high") != NULL ? 3 : 1;
}

/* -- the instruction ------------------------------------------------------- */

static void read_list(const char *config, size_t config_n, const char *key, uint32_t *ret, uint8_t *ret_n)
{
    size_t n;
    int64_t numbers[ECH_KERNEL_MAX_WINDOW];
    const char *text = ech_program_config_member(config, config_n, key, &n);
    size_t count = text != NULL ? ech_program_numbers(text, n, numbers, ECH_KERNEL_MAX_WINDOW) : 0;
    if (count > ECH_KERNEL_MAX_WINDOW)
        return;
    for (size_t i = 0; i < count; i++)
        ret[i] = numbers[i] > 0 && numbers[i] <= UINT32_MAX ? (uint32_t)numbers[i] : 1;
    *ret_n = (uint8_t)count;
}

static EchKernelWindows read_windows(const EchInstruction *instruction)
{
    EchKernelWindows windows = {0};
    uint64_t buffers = 0;
    size_t n;
    const char *config = ech_program_config(instruction, "window_config", &n);
    if (config)
        read_list(config, n, "iteration_bounds", windows.iterations, &windows.n_iterations);
    if (windows.n_iterations == 0)
        return windows;
    read_list(config, n, "kernel_window_bounds", windows.kernel, &windows.n_kernel);
    read_list(config, n, "output_window_bounds", windows.output, &windows.n_output);
    read_list(config, n, "input_window_bounds", windows.input, &windows.n_input);
    if (ech_program_config_u64(instruction, "window_config.buffering_level", &buffers))
        windows.buffers = (uint8_t)MIN(buffers, 255u);
    return windows;
}

static bool is_kernel(const EchInstruction *at)
{
    switch ((int)at->opcode) {
    case ECH_HLO_FUSION:
    case ECH_HLO_CONVOLUTION:
    case ECH_HLO_DOT:
    case ECH_HLO_REDUCE:
    case ECH_HLO_REDUCE_WINDOW:
    case ECH_HLO_SELECT_AND_SCATTER:
    case ECH_HLO_COPY:
    case ECH_HLO_TRANSPOSE:
    case ECH_HLO_RESHAPE:
    case ECH_HLO_BROADCAST:
    case ECH_HLO_CONCATENATE:
    case ECH_HLO_SLICE:
    case ECH_HLO_PAD:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_GATHER:
    case ECH_HLO_SCATTER:
    case ECH_HLO_IOTA:
    case ECH_HLO_SORT: return true;
    default: return ech_hlo_is_elementwise((EchHlo)at->opcode);
    }
}

/* Sets which of a ragged product's iterations go along its groups and along their rows. */
static void read_groups(const EchInstruction *instruction, EchKernelContraction *c)
{
    int64_t axes[2];
    size_t n;
    const char *text = ech_program_config(instruction, "mask_aggregator_config.mask_dim_to_iteration_index", &n);
    if (text == NULL || ech_program_numbers(text, n, axes, 2) != 2 || MIN(axes[0], axes[1]) < 0 || MAX(axes[0], axes[1]) >= ECH_KERNEL_MAX_WINDOW)
        return;
    c->groups = ech_program_ragged_groups(instruction);
    c->group_axis = (unsigned)axes[0];
    c->row_axis = (unsigned)axes[1];
}

/* -- what is really touched ------------------------------------------------ */

static EchBytes shape_bytes(const EchProgram *program, EchId instruction)
{
    const EchLayout *layout = layout_of(program, instruction);
    return layout != NULL ? ech_layout_padded_bytes(layout, ECH_LAYOUT_DENSE) : 0;
}

/* Bytes that @user reads of its operand @k, where that is an array. */
static EchBytes bytes_read(const EchProgram *program, EchId user, uint32_t k, unsigned depth);

/* Bytes of a parameter that a fusion's body reads: slices count what they take, the destination of an update nothing. */
static EchBytes bytes_of_parameter(const EchProgram *program, EchId computation, EchId parameter, unsigned depth)
{
    const EchComputation *body = &program->computations[computation];
    EchBytes whole = shape_bytes(program, parameter), most = 0, slices = 0;
    bool used = false;
    for (uint32_t i = 0; i < body->n; i++) {
        const EchInstruction *user = &program->instructions[body->first + i];
        for (uint32_t k = 0; k < user->n_operands; k++) {
            if (ech_program_operand(program, user, k) != parameter)
                continue;
            used = true;
            if (k == 0 && user->opcode == ECH_HLO_SLICE)
                slices = ech_bytes_add(slices, MIN(shape_bytes(program, body->first + i), whole));
            bool same = user->opcode == ECH_HLO_BITCAST || user->opcode == ECH_HLO_RESHAPE || ech_program_handed_on(program, body->first + i) == k;
            if (same && depth < MAX_DEPTH)
                most = ech_bytes_add(most, bytes_of_parameter(program, computation, body->first + i, depth + 1));
            else
                most = ech_bytes_add(most, bytes_read(program, body->first + i, k, depth + 1));
        }
    }
    /* The root is read as a whole by whoever comes next. */
    most = used ? MIN(most, whole) : body->root == parameter ? whole : 0;
    return MAX(most, slices); /* those that overlap are fetched one by one */
}

static EchBytes bytes_read(const EchProgram *program, EchId user, uint32_t k, unsigned depth)
{
    const EchInstruction *at = &program->instructions[user];
    EchId operand = ech_program_operand(program, at, k);
    EchBytes whole = shape_bytes(program, operand);
    switch ((int)at->opcode) {
    case ECH_HLO_PAD: /* a negative one cuts */
        return k == 0 && elements_of(program, at->shape) < elements_of(program, program->instructions[operand].shape) ? MIN(whole, shape_bytes(program, user))
                                                                                                                      : whole;
    case ECH_HLO_SLICE:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_GATHER: return k == 0 ? MIN(whole, shape_bytes(program, user)) : whole;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_SCATTER: return k == 0 ? 0 : whole;
    case ECH_HLO_TUPLE: /* rides through */ return 0;
    case ECH_HLO_FUSION: {
        if (at->n_called == 0 || depth >= MAX_DEPTH)
            return whole;
        EchId computation = ech_program_called(program, at, 0);
        const EchComputation *body = &program->computations[computation];
        for (uint32_t i = 0; i < body->n; i++) {
            const EchInstruction *parameter = &program->instructions[body->first + i];
            if (parameter->opcode == ECH_HLO_PARAMETER && parameter->number == (int64_t)k)
                return bytes_of_parameter(program, computation, body->first + i, depth + 1);
        }
        return whole;
    }
    default: return whole;
    }
}

/* Whether a fusion gives back nothing but what it is given, by another name: a copy. */
static bool is_renamed(const EchProgram *program, const EchInstruction *fusion)
{
    return fusion->opcode == ECH_HLO_FUSION && fusion->n_called > 0 && !program->shapes[fusion->shape].is_tuple &&
           is_given(program, program->computations[ech_program_called(program, fusion, 0)].root);
}

/* Bytes an instruction's array result writes: an update in place writes its update. */
static EchBytes bytes_written(const EchProgram *program, EchId id, unsigned depth)
{
    const EchInstruction *at = &program->instructions[id];
    if (at->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && at->n_operands > 1)
        return shape_bytes(program, ech_program_operand(program, at, 1));
    if (depth > 0 && (at->opcode == ECH_HLO_PARAMETER || ech_hlo_class((EchHlo)at->opcode) == ECH_CLASS_COLLECTIVE)) /* rides through, or along */
        return 0;
    if (at->opcode == ECH_HLO_SCATTER && at->n_operands > 2)
        return shape_bytes(program, ech_program_operand(program, at, at->n_operands - 1u));
    if (depth < MAX_DEPTH) {
        if (at->opcode == ECH_HLO_FUSION && at->n_called > 0)
            return MIN(shape_bytes(program, id), bytes_written(program, program->computations[ech_program_called(program, at, 0)].root, depth + 1));
        if (at->opcode == ECH_HLO_BITCAST && at->n_operands == 1)
            return bytes_written(program, ech_program_operand(program, at, 0), depth + 1);
    }
    return shape_bytes(program, id);
}

static void collect(Arrays *arrays, EchId instruction)
{
    const EchProgram *program = arrays->program;
    const EchInstruction *at = &program->instructions[instruction];
    for (uint32_t k = 0; k < at->n_operands; k++) {
        guint before = arrays->operands->len;
        add_leaves(program, program->instructions[ech_program_operand(program, at, k)].shape, arrays->operands, 0);
        bool array = !program->shapes[program->instructions[ech_program_operand(program, at, k)].shape].is_tuple;
        for (guint i = before; i < arrays->operands->len; i++) {
            EchBytes bytes =
                array ? bytes_read(program, instruction, k, 0) : ech_layout_padded_bytes(&g_array_index(arrays->operands, EchLayout, i), ECH_LAYOUT_DENSE);
            g_array_append_val(arrays->operand_bytes, bytes);
            g_array_append_val(arrays->operand_of, k);
        }
    }
    add_leaves(program, at->shape, arrays->results, 0);
    const EchShape *shape = &program->shapes[at->shape];
    /* A fusion that returns several arrays: each is an operand of its body's root. */
    const EchInstruction *root = NULL;
    if (shape->is_tuple && at->opcode == ECH_HLO_FUSION && at->n_called > 0)
        root = &program->instructions[program->computations[ech_program_called(program, at, 0)].root];
    bool parts = root != NULL && root->opcode == ECH_HLO_TUPLE && root->n_operands == shape->n_elements && arrays->results->len == shape->n_elements;
    for (guint i = 0; i < arrays->results->len; i++) {
        EchBytes bytes = ech_layout_padded_bytes(&g_array_index(arrays->results, EchLayout, i), ECH_LAYOUT_DENSE);
        if (!shape->is_tuple)
            bytes = is_renamed(program, at) ? bytes : bytes_written(program, instruction, 0);
        else if (parts)
            bytes = MIN(bytes, bytes_written(program, ech_program_operand(program, root, i), 1));
        g_array_append_val(arrays->result_bytes, bytes);
    }
}

/* Elements of an array that @bytes of it hold. */
static uint64_t elements_touched(const EchLayout *layout, EchBytes bytes)
{
    unsigned bits = ech_layout_element_bits(layout);
    return bits == 0 ? 0 : MIN(ech_layout_elements(layout), ech_bytes_mul(bytes, 8) / bits);
}

/* Puts the arrays where they were when the instruction was compiled. */
static void put_back(const EchProgram *program, const EchInstruction *at, const Arrays *arrays)
{
    const char *name = ech_program_kernels_for(program);
    const EchPlaceChip *chip = name != NULL ? ech_place_chip(name) : NULL;
    int32_t fast = chip != NULL ? (int32_t)chip->fast_space : ECH_SPACE_VECTOR;
    for (guint i = 0; i < arrays->operands->len + arrays->results->len; i++) {
        bool result = i >= arrays->operands->len;
        uint32_t bit = result ? i - arrays->operands->len : g_array_index(arrays->operand_of, uint32_t, i);
        EchLayout *layout = result ? &g_array_index(arrays->results, EchLayout, bit) : &g_array_index(arrays->operands, EchLayout, i);
        if (bit < (result ? 31u : 32u) && (layout->space == ECH_SPACE_HBM || layout->space == ECH_SPACE_VECTOR || layout->space == ECH_SPACE_COMMON))
            layout->space = (at->compiled >> (bit + (result ? 32 : 0)) & 1) != 0 ? fast : ECH_SPACE_HBM;
    }
}

static bool has_moved(const EchProgram *program, EchId instruction)
{
    const EchInstruction *at = &program->instructions[instruction];
    const EchShape *shape = &program->shapes[at->shape];
    bool moved = false;
    for (uint32_t k = 0; at->compiled != 0 && k < MIN(at->n_operands, 32); k++) {
        const EchShape *operand = &program->shapes[program->instructions[ech_program_operand(program, at, k)].shape];
        bool fast = !operand->is_tuple && (operand->space == ECH_SPACE_VECTOR || operand->space == ECH_SPACE_COMMON);
        moved |= fast != ((at->compiled >> k & 1) != 0);
    }
    for (uint32_t l = 0; at->compiled != 0 && l < (shape->is_tuple ? MIN(shape->n_elements, 31) : 1); l++) {
        const EchShape *array = shape->is_tuple ? &program->shapes[program->elements[shape->first_element + l]] : shape;
        bool fast = !array->is_tuple && (array->space == ECH_SPACE_VECTOR || array->space == ECH_SPACE_COMMON);
        moved |= fast != ((at->compiled >> (32 + l) & 1) != 0);
    }
    return moved;
}

/* Index of the kernel's operand that is, or makes, a side of the kernel's product; beyond the operands if none does. */
static uint32_t side_operand(const Survey *survey, const Arrays *arrays, EchId instruction, unsigned side)
{
    const EchProgram *program = survey->program;
    const EchInstruction *product = &program->instructions[survey->product];
    if (survey->product == instruction)
        return side;
    /* The product may lie in a fusion inside: climb to the parameter of the outermost one. */
    EchId parameter = parameter_behind(program, ech_program_operand(program, product, side));
    for (unsigned level = survey->n_callers; level-- > 1 && parameter != ECH_NONE;) {
        const EchInstruction *caller = &program->instructions[survey->callers[level]];
        parameter = parameter < caller->n_operands ? parameter_behind(program, ech_program_operand(program, caller, parameter)) : ECH_NONE;
    }
    for (guint i = 0; i < arrays->operand_of->len && parameter != ECH_NONE; i++)
        if (g_array_index(arrays->operand_of, uint32_t, i) == parameter)
            return i;
    return ECH_NONE;
}

/* A side that the kernel makes of nothing that it is given, a transform's matrix of iotas, say: one more operand, on chip, of which nothing is read. Returns
 * its number. */
static uint32_t add_made(const EchProgram *program, EchId side, Arrays *arrays)
{
    const EchLayout *made = layout_of(program, side);
    if (made == NULL)
        return ECH_NONE;
    EchLayout layout = *made;
    layout.space = ECH_SPACE_VECTOR;
    EchBytes bytes = 0;
    uint32_t operand = ECH_NONE;
    g_array_append_val(arrays->operands, layout);
    g_array_append_val(arrays->operand_bytes, bytes);
    g_array_append_val(arrays->operand_of, operand);
    return arrays->operands->len - 1;
}

/* Makes @kernel a contraction if its product is one that can be read. Fills @sides_of (uint8_t per operand), which @kernel then refers to. */
static void set_contraction(const Survey *survey, Arrays *arrays, EchId instruction, EchKernel *kernel, GArray *sides_of)
{
    const EchProgram *program = survey->program;
    const EchInstruction *product = &program->instructions[survey->product], *at = &program->instructions[instruction];
    EchKernelContraction contraction;
    if (arrays->results->len == 0 || !read_product(program, survey->product, &contraction))
        return;
    uint32_t number[2];
    for (unsigned side = 0; side < 2; side++) {
        number[side] = side_operand(survey, arrays, instruction, side);
        if (number[side] == ECH_NONE && at->opcode == ECH_HLO_FUSION)
            number[side] = add_made(program, ech_program_operand(program, product, side), arrays);
        if (number[side] >= arrays->operands->len)
            return;
    }
    uint32_t n_operands = arrays->operands->len;
    kernel->operands = (const EchLayout *)(void *)arrays->operands->data;
    kernel->operand_bytes = (const EchBytes *)(void *)arrays->operand_bytes->data;
    kernel->n_operands = n_operands;
    for (guint i = 0; i < survey->products->len; i++) {
        EchKernelContraction other;
        EchId id = g_array_index(survey->products, EchId, i);
        if (id != survey->product && read_product(program, id, &other)) {
            contraction.other_macs += ech_kernel_contraction_macs(&other);
            contraction.others++;
        }
    }
    const EchLayout *sides[2] = {layout_of(program, ech_program_operand(program, product, 0)), layout_of(program, ech_program_operand(program, product, 1))};
    contraction.passes = sides[0] != NULL && sides[1] != NULL ? read_passes(product, sides[0], sides[1]) : 1;
    read_groups(at, &contraction);
    kernel->kind = ECH_KERNEL_CONTRACTION;
    kernel->contraction = contraction;
    kernel->lhs = number[0];
    kernel->rhs = number[1];
    g_array_set_size(sides_of, n_operands);
    memset(sides_of->data, 0, n_operands);
    GArray *made_of[2] = {NULL, NULL};
    survey_sides(survey, &kernel->contraction, made_of);
    for (unsigned side = 0; side < 2 && made_of[side] != NULL; side++) {
        for (guint i = 0; i < n_operands; i++) {
            uint32_t operand = g_array_index(arrays->operand_of, uint32_t, i);
            if (operand < made_of[side]->len && g_array_index(made_of[side], uint8_t, operand))
                g_array_index(sides_of, uint8_t, i) |= side == 0 ? ECH_KERNEL_SIDE_LHS : ECH_KERNEL_SIDE_RHS;
        }
        g_array_unref(made_of[side]);
    }
    kernel->sides = (const uint8_t *)(void *)sides_of->data;
}

/* Operations that narrowing a kernel's results takes, where no conversion of its body says so: those of an instruction that computes in 32 bits. */
static uint32_t result_narrowing(const EchProgram *program, EchId id, uint64_t widest, unsigned depth, unsigned *left)
{
    const EchInstruction *at = &program->instructions[id];
    uint32_t operations = 0;
    if (depth > MAX_DEPTH || *left == 0)
        return 0;
    (*left)--;
    switch ((int)at->opcode) {
    case ECH_HLO_FUSION:
        return at->n_called > 0 ? result_narrowing(program, program->computations[ech_program_called(program, at, 0)].root, widest, depth + 1, left) : 0;
    case ECH_HLO_TUPLE:
        for (uint32_t i = 0; *left > 0 && i < at->n_operands; i++)
            operations += result_narrowing(program, ech_program_operand(program, at, i), widest, depth + 1, left);
        return operations;
    case ECH_HLO_BITCAST: return at->n_operands == 1 ? result_narrowing(program, ech_program_operand(program, at, 0), widest, depth + 1, left) : 0;
    case ECH_HLO_CONVERT:
        if (narrowing(program, id) > 0 && program->shapes[at->shape].dtype != ECH_DTYPE_PRED)
            return 0;
        break;
    case ECH_HLO_PARAMETER: return 0;
    default: break;
    }
    bool wide = !program->shapes[at->shape].is_tuple && elements_of(program, at->shape) >= widest / 2;
    return wide ? narrow_operations(bits_of(program, id)) : 0;
}

/* Bytes that windows take of a padded operand beyond it: a window reaches as far as the result's, or over the padding below and all of the operand,
 * and is fetched at every step (libtpu 0.0.51: ten pads and concatenations on v5e, v6e, tpu7x, exact). */
static EchBytes padded_bytes(const EchProgram *program, const EchInstruction *pad, const EchKernelWindows *windows, bool fused)
{
    EchId operand = ech_program_operand(program, pad, 0);
    const EchInstruction *given = &program->instructions[operand];
    const EchLayout *from = ech_program_layout(program, given->shape), *to = ech_program_layout(program, pad->shape);
    int64_t padding[3 * ECH_LAYOUT_MAX_RANK];
    size_t n;
    const char *text = ech_program_attribute(pad, "padding", &n);
    size_t count = text != NULL ? ech_program_numbers(text, n, padding, G_N_ELEMENTS(padding)) : 0;
    if (from == NULL || to == NULL || (fused && !is_given(program, operand)) || from->rank < 2 || from->rank != to->rank || from->n_tiles == 0 ||
        from->tiles[0].rank != 2 || count == 0 || count > G_N_ELEMENTS(padding) || count % from->rank != 0 ||
        memcmp(from->order, to->order, from->rank * sizeof from->order[0]) != 0)
        return 0;
    bool known = windows->n_output == from->rank;
    double tiles = 1, tile = 1;
    for (unsigned i = 0; i < from->rank; i++) {
        unsigned d = from->order[i];
        uint64_t side = i < 2 ? (uint64_t)MAX(from->tiles[0].dims[1 - i], 1) : 1;
        int64_t below = padding[d * (count / from->rank)];
        if (below < 0)
            return 0;
        uint64_t low = (uint64_t)below, window = known ? windows->output[from->rank - 1u - i] : ech_div_up(to->dims[d], side);
        tiles *= (double)MIN(window + (low % side != 0), ech_div_up(from->dims[d], side) + ech_div_up(low, side));
        tile *= (double)side;
    }
    for (unsigned i = 0; known && i < windows->n_iterations; i++)
        tiles *= windows->iterations[i];
    double bytes = tiles * tile * ech_layout_element_bits(from) / 8, whole = (double)ech_layout_padded_bytes(from, ECH_LAYOUT_DENSE);
    return bytes > whole && bytes < 1e18 ? (EchBytes)(bytes - whole) : 0;
}

static void add_padded(const EchProgram *program, const EchInstruction *pad, const EchKernelWindows *windows, bool fused, EchKernel *kernel)
{
    const EchLayout *from = pad->n_operands > 0 ? ech_program_layout(program, program->instructions[ech_program_operand(program, pad, 0)].shape) : NULL;
    if (pad->opcode == ECH_HLO_PAD && from != NULL && from->space != ECH_SPACE_VECTOR)
        kernel->padded = ech_bytes_add(kernel->padded, padded_bytes(program, pad, windows, fused));
}

/* Elements of the widest array that the body of a fusion reduces. */
static uint64_t widest_reduced(const EchProgram *program, EchId instruction, unsigned depth)
{
    const EchInstruction *at = &program->instructions[instruction];
    if (at->opcode == ECH_HLO_REDUCE && at->n_operands > 0)
        return elements_of(program, program->instructions[ech_program_operand(program, at, 0)].shape);
    uint64_t most = 0;
    for (uint32_t i = 0; i < at->n_called && at->opcode == ECH_HLO_FUSION && depth < MAX_DEPTH; i++) {
        const EchComputation *body = &program->computations[ech_program_called(program, at, i)];
        for (uint32_t k = 0; k < body->n; k++)
            most = MAX(most, widest_reduced(program, body->first + k, depth + 1));
    }
    return most;
}

/* The pads of a kernel. */
static void survey_padded(const EchProgram *program, EchId instruction, const EchKernelWindows *windows, EchKernel *kernel)
{
    const EchInstruction *at = &program->instructions[instruction];
    add_padded(program, at, windows, false, kernel);
    const EchComputation *body = at->opcode == ECH_HLO_FUSION && at->n_called > 0 ? &program->computations[ech_program_called(program, at, 0)] : NULL;
    for (uint32_t i = 0; body != NULL && i < body->n; i++)
        add_padded(program, &program->instructions[body->first + i], windows, true, kernel);
}

/* Cycles that comparing takes in a sort: a TPU's compiler makes a bitonic network of it, over as many elements as the next power of two, whose every step
 * exchanges all registers of all arrays with partners. Along lanes, and of a vector, a step has a latency of its own for each block of registers. By the
 * bundles of the compiler's final schedules of nine sorts for v5e (libtpu 0.0.52: 4,096 to 65,536 elements, one and two arrays, rows and columns), within 20 %;
 * v6e, v5p and tpu7x, which they were not made from, take 0.7 to 1.0 of it. */
#define SORT_STEP 25.0
#define SORT_BLOCK 32.0
#define SORT_LANES 3.9
#define SORT_ROWS 3.2

/* @cores: that share its blocks. */
static double sort_cycles(const EchProgram *program, const EchInstruction *sort, double cores)
{
    size_t n;
    int64_t along;
    const char *text = ech_program_attribute(sort, "dimensions", &n);
    const EchLayout *layout = sort->n_operands > 0 ? ech_program_layout(program, program->instructions[ech_program_operand(program, sort, 0)].shape) : NULL;
    if (!text || !layout || ech_program_numbers(text, n, &along, 1) != 1 || along < 0 || along >= layout->rank || layout->dims[along] < 2)
        return 0;
    bool lanes = layout->order[0] == along;
    double padded = (double)ech_layout_padded_bytes(layout, ECH_LAYOUT_DENSE) * 8 / MAX(ech_layout_element_bits(layout), 1u);
    double size = (double)layout->dims[along], levels = ceil(log2(size)), steps = levels * (levels + 1) / 2;
    double held = ceil(size / (lanes ? 128 : 8)) * (lanes ? 128 : 8), registers = padded / 1024 * MAX(exp2(levels) / held, 1);
    double moved = MAX(registers, 1) * sort->n_operands, blocks = MAX(ceil(registers / SORT_BLOCK), 1);
    return steps * (lanes ? SORT_STEP * blocks + SORT_LANES * moved : SORT_ROWS * moved) / MIN(cores, blocks);
}

/* The network comes between the fetch of a window and its store. */
static void add_sort(const EchProgram *program, EchId instruction, const EchKernelModel *model, EchKernelCost *cost)
{
    double seconds = sort_cycles(program, &program->instructions[instruction], model->cores) / model->clock_hz;
    EchTime time = ech_time_round(MIN(seconds, 1e6) * 1e12);
    cost->time += time;
    cost->compute += time;
    cost->busy_compute += time;
    cost->by_vector = true;
}

static bool price(const EchProgram *program, EchId instruction, const EchKernelModel *model, bool own_tiles, bool compiled, EchKernelMemo *memo,
                  EchKernelCost *ret)
{
    const EchInstruction *at = &program->instructions[instruction];
    const EchKernelGrid *grid = ech_program_grid(program, instruction);
    if (grid) {
        ech_kernel_grid_price(model, grid, ech_program_scoped_bytes(at), ret);
        return true;
    }
    if (!is_kernel(at))
        return false;
    g_autoptr(GArray) operands = g_array_new(FALSE, FALSE, sizeof(EchLayout)), results = g_array_new(FALSE, FALSE, sizeof(EchLayout));
    g_autoptr(GArray) operand_bytes = g_array_new(FALSE, FALSE, sizeof(EchBytes)), result_bytes = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    g_autoptr(GArray) operand_of = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    Arrays arrays = {program, operands, results, operand_bytes, result_bytes, operand_of};
    collect(&arrays, instruction);
    if (compiled && at->compiled != 0)
        put_back(program, at, &arrays);

    g_autoptr(GArray) products = g_array_new(FALSE, FALSE, sizeof(EchId)), sides_of = g_array_new(FALSE, FALSE, sizeof(uint8_t));
    Survey survey = {.program = program, .product = ECH_NONE, .products = products, .unlaid = at->config_n == 0};
    for (guint i = 0; i < operands->len; i++)
        survey.widest = MAX(survey.widest, elements_touched(&g_array_index(operands, EchLayout, i), g_array_index(operand_bytes, EchBytes, i)));
    for (guint i = 0; i < results->len; i++)
        survey.widest = MAX(survey.widest, elements_touched(&g_array_index(results, EchLayout, i), g_array_index(result_bytes, EchBytes, i)));
    uint64_t reduced = widest_reduced(program, instruction, 0);
    if (reduced > survey.widest)
        survey.body.made = (double)(survey.widest = reduced);
    survey_instruction(&survey, instruction, 0);
    survey.body.reads |= is_renamed(program, at);
    survey.body.only_turned = only_turned(program, at);

    EchKernel kernel = {
        .kind = ECH_KERNEL_STREAM,
        .results = (const EchLayout *)(void *)results->data,
        .n_results = results->len,
        .operands = (const EchLayout *)(void *)operands->data,
        .n_operands = operands->len,
        .operand_bytes = (const EchBytes *)(void *)operand_bytes->data,
        .result_bytes = (const EchBytes *)(void *)result_bytes->data,
        .body = survey.body,
        .windows = read_windows(at),
        .fused = at->opcode == ECH_HLO_FUSION,
        .gathered_rows = survey.gathered,
    };
    if (survey.product != ECH_NONE)
        set_contraction(&survey, &arrays, instruction, &kernel, sides_of);
    else if ((survey.gathers || survey.scatters) && survey.gathered > 0)
        kernel.kind = ECH_KERNEL_GATHER;
    else if (at->opcode == ECH_HLO_COPY || at->opcode == ECH_HLO_TRANSPOSE)
        kernel.kind = ECH_KERNEL_COPY;
    if (kernel.kind == ECH_KERNEL_STREAM) {
        unsigned left = MOST_RESULTS;
        kernel.body.narrow += result_narrowing(program, instruction, survey.widest, 0, &left);
        survey_padded(program, instruction, own_tiles ? &(EchKernelWindows){0} : &kernel.windows, &kernel);
    }
    if (memo)
        ech_kernel_memo_price(memo, model, &kernel, own_tiles, ret);
    else
        ech_kernel_price(model, &kernel, own_tiles, ret);
    if (at->opcode == ECH_HLO_SORT && model->view == ECH_KERNEL_HARDWARE) /* the compiler counts none of it */
        add_sort(program, instruction, model, ret);
    return true;
}

EchId ech_inside_text(EchTraceBuilder *builder, const EchKernelInside *inside)
{
    g_autoptr(GString) text = g_string_new(NULL);
    ech_kernel_inside_print(inside, text);
    return ech_trace_builder_string(builder, text->str, (gssize)text->len);
}

bool ech_program_price_kernel(const EchProgram *program, EchId instruction, const EchKernelModel *model, bool own_tiles, EchKernelMemo *memo,
                              EchKernelCost *ret)
{
    return price(program, instruction, model, own_tiles, false, memo, ret);
}

bool ech_program_kernel_time(const EchProgram *program, EchId instruction, const EchKernelModel *model, const EchKernelModel *own, EchTime estimate,
                             EchKernelMemo *memo, EchTime *ret, bool *ret_carried)
{
    EchKernelCost cost, there, counted;
    if (!price(program, instruction, model, false, false, memo, &cost))
        return false;
    there = cost;
    if (has_moved(program, instruction)) {
        /* Where arrays have moved since, the compiler would cut the kernel anew, if that helps. */
        EchKernelCost anew;
        if (price(program, instruction, model, true, false, memo, &anew) && anew.time > 0 && anew.time < cost.time)
            cost = anew;
        if (!price(program, instruction, model, false, true, memo, &there))
            there = cost;
    }
    *ret = cost.time;
    bool counted_whole = ech_program_ragged_groups(&program->instructions[instruction]) > 0; /* blocks, too, that the chip leaves out */
    *ret_carried = own != NULL && !counted_whole && estimate != ECH_TIME_NONE && there.time > 0 &&
                   price(program, instruction, own, false, true, memo, &counted) && counted.time > 0;
    if (*ret_carried) {
        /* The estimate is carried as it was made; what the move costs or saves is the model's. */
        double time = (double)estimate * ((double)there.time / (double)counted.time) + ((double)cost.time - (double)there.time);
        /* No kernel moves its bytes faster than the memory: some of the compiler's estimates do. */
        time = MAX(time, ((double)cost.hbm_read + (double)cost.hbm_written) / (double)model->hbm_peak * 1e12);
        *ret = ech_time_round(time);
    }
    return true;
}

bool ech_program_estimated_cycles(const EchInstruction *instruction, uint64_t *ret)
{
    uint64_t cycles;
    if (!ech_program_config_u64(instruction, "estimated_cycles", &cycles) || cycles == 0 || cycles >= UINT64_C(1) << 60)
        return false;
    *ret = cycles;
    return true;
}

bool ech_program_is_on_core(const EchProgram *program, EchId instruction)
{
    EchId at = program->computations[program->instructions[instruction].computation].caller;
    for (unsigned i = 0; i < MAX_DEPTH && at != ECH_NONE; i++) {
        if (program->instructions[at].opcode == ECH_HLO_ASYNC_START || program->instructions[at].opcode == ECH_HLO_ASYNC_UPDATE)
            return false;
        at = program->computations[program->instructions[at].computation].caller;
    }
    return true;
}

bool ech_program_is_kernel(const EchProgram *program, EchId instruction)
{
    return is_kernel(&program->instructions[instruction]);
}

/* The operand of @instruction behind one side of a product in its body. */
static EchId side_of(const EchProgram *program, EchId instruction, EchId product, unsigned side)
{
    const EchInstruction *at = &program->instructions[instruction];
    EchId operand = ech_program_operand(program, &program->instructions[product], side);
    if (product == instruction)
        return operand;
    EchId parameter = parameter_behind(program, operand);
    return parameter < at->n_operands ? ech_program_operand(program, at, parameter) : ECH_NONE;
}

GArray *ech_program_products(const EchProgram *program, EchId instruction)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(EchProgramProduct));
    g_autoptr(GArray) products = g_array_new(FALSE, FALSE, sizeof(EchId));
    Survey survey = {.program = program, .product = ECH_NONE, .products = products};
    survey_instruction(&survey, instruction, 0);
    for (guint i = 0; i < products->len; i++) {
        EchId id = g_array_index(products, EchId, i);
        EchProgramProduct product;
        if (!read_product(program, id, &product.contraction))
            continue;
        product.id = id;
        product.lhs = side_of(program, instruction, id, 0);
        product.rhs = side_of(program, instruction, id, 1);
        const EchInstruction *at = &program->instructions[id];
        product.lhs_bits = MIN(bits_of(program, ech_program_operand(program, at, 0)), bits_of(program, product.lhs));
        product.rhs_bits = MIN(bits_of(program, ech_program_operand(program, at, 1)), bits_of(program, product.rhs));
        g_array_append_val(found, product);
    }
    return found;
}

EchKernelTrust ech_program_kernel_trust(const EchProgram *program, EchId instruction)
{
    const EchInstruction *at = &program->instructions[instruction];
    g_autoptr(GArray) products = g_array_new(FALSE, FALSE, sizeof(EchId));
    Survey survey = {.program = program, .product = ECH_NONE, .products = products};
    survey_instruction(&survey, instruction, 0);
    if (at->opcode == ECH_HLO_SORT || survey.gathers || survey.scatters)
        return ECH_KERNEL_UNTESTED;
    bool rough = survey.body.windows > 0;
    for (guint i = 0; i < products->len; i++) {
        EchKernelContraction c;
        if (read_product(program, g_array_index(products, EchId, i), &c))
            rough |= c.convolution && c.taps > 1 && c.positions == 0 && (c.depthwise_gradient || c.dilated > 1 || (c.few && !c.depthwise));
    }
    const EchShape *result = &program->shapes[at->shape];
    rough |= at->opcode == ECH_HLO_COPY && !result->is_tuple && result->space == ECH_SPACE_COMMON;
    return rough ? ECH_KERNEL_ROUGH : ECH_KERNEL_HELD;
}

static uint64_t pool_positions(const EchProgram *program, EchId instruction, unsigned depth)
{
    const EchInstruction *at = &program->instructions[instruction];
    uint64_t most = 1;
    if (at->opcode == ECH_HLO_REDUCE_WINDOW) {
        EchHloWindow window = ech_hlo_window(at);
        for (unsigned i = 0; i < window.n; i++)
            most = ech_bytes_mul(most, window.size[i]);
    }
    for (uint32_t c = 0; at->opcode == ECH_HLO_FUSION && c < at->n_called && depth < MAX_DEPTH; c++) {
        const EchComputation *body = &program->computations[ech_program_called(program, at, c)];
        for (uint32_t i = 0; i < body->n; i++)
            most = MAX(most, pool_positions(program, body->first + i, depth + 1));
    }
    return most;
}

uint64_t ech_program_pool_positions(const EchProgram *program, EchId instruction)
{
    return pool_positions(program, instruction, 0);
}
