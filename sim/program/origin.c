/* What an array holds, in the words of the program's source.
 *
 * The instruction that defines an array often says only how it got there: a loop's stack of results is written by dynamic-update-slices that all come from the
 * line of the scan, a prefetch is a copy without a name, a kernel's result leaves by a tuple. What a reader wants is the operation that made the contents. */
#include "sim/program/convolution.h"
#include "sim/program/program.h"

#include <string.h>

/* MOST_SEEN: instructions of a kernel that are looked at for what one of its results is made of; MOST_RESULTS: its results that are compared. */
enum { MOST_STEPS = 64, MOST_SEEN = 128, MOST_RESULTS = 32 };

/* Position @position of an instruction. */
typedef struct {
    EchId id;
    uint32_t position;
} Place;

static const Place nowhere = {ECH_NONE, 0};

static Place operand(const EchProgram *p, EchId id, uint32_t k, uint32_t position)
{
    const EchInstruction *i = &p->instructions[id];
    return k < i->n_operands ? (Place){ech_program_operand(p, i, k), position} : nowhere;
}

/* What is at @position of the root of a computation, or of another instruction that may be a tuple of things. */
static Place through_tuple(const EchProgram *p, EchId id, uint32_t position)
{
    const EchInstruction *i = &p->instructions[id];
    uint32_t inner;
    if (i->opcode != ECH_HLO_TUPLE || position == 0 || i->n_operands == 0)
        return (Place){id, position};
    uint32_t k = ech_program_member_at(p, i->shape, position, &inner);
    return operand(p, id, k, inner);
}

static bool moves_only(const EchInstruction *i)
{
    return i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_RESHAPE || i->opcode == ECH_HLO_TRANSPOSE || i->opcode == ECH_HLO_COPY;
}

static bool is_update(const EchInstruction *i)
{
    return i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE;
}

/* What jax.lax.scan does by itself: the name says nothing of the array. */
static bool is_scan_slice(const EchInstruction *i)
{
    return i->op_name && strstr(i->op_name, "dynamic_index_in_dim)/dynamic_slice") != NULL;
}

static EchId body_root(const EchProgram *p, const EchInstruction *i)
{
    return i->n_called > 0 ? p->computations[ech_program_called(p, i, i->n_called - 1)].root : ECH_NONE;
}

/* Where what @from (inside the body that @outer calls) holds comes from: outside through a parameter, or made inside. */
static Place out_of_body(const EchProgram *p, EchId outer, EchId from)
{
    for (unsigned step = 0; step < MOST_STEPS && from != ECH_NONE; step++) {
        const EchInstruction *i = &p->instructions[from];
        if (i->opcode == ECH_HLO_PARAMETER)
            return operand(p, outer, (uint32_t)CLAMP(i->number, 0, INT32_MAX), 0);
        if (!moves_only(i))
            return (Place){from, 0};
        from = operand(p, from, 0, 0).id;
    }
    return nowhere;
}

/* A fusion or an async operation whose body ends in an update or a scan's slice: what it stores or fetches. */
static Place through_body(const EchProgram *p, EchId id, uint32_t position)
{
    EchId root = body_root(p, &p->instructions[id]);
    if (root == ECH_NONE)
        return nowhere;
    EchId made = through_tuple(p, root, position).id;
    for (unsigned step = 0; step < MOST_STEPS && made != ECH_NONE && p->instructions[made].opcode == ECH_HLO_BITCAST; step++)
        made = operand(p, made, 0, 0).id;
    if (made == ECH_NONE)
        return nowhere;
    const EchInstruction *i = &p->instructions[made];
    if (is_update(i) && i->n_operands > 1)
        return out_of_body(p, id, operand(p, made, 1, 0).id);
    return is_scan_slice(i) ? out_of_body(p, id, operand(p, made, 0, 0).id) : nowhere;
}

/* One step back from what says nothing of its contents; nowhere: @at says it itself, or nobody does. */
static Place step_back(const EchProgram *p, Place at)
{
    const EchInstruction *i = &p->instructions[at.id];
    Place next = nowhere;
    switch (i->opcode) {
    case ECH_HLO_FUSION: return through_body(p, at.id, at.position);
    case ECH_HLO_ASYNC_START:
        next = through_body(p, at.id, 0);
        if (next.id == ECH_NONE && g_str_has_prefix(i->opcode_name, "dynamic-update-slice"))
            next = operand(p, at.id, 1, 0);
        return next.id == ECH_NONE ? operand(p, at.id, 0, 0) : next;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: return operand(p, at.id, 1, 0);
    case ECH_HLO_ASYNC_DONE:
    case ECH_HLO_ASYNC_UPDATE:
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_COPY_START: return operand(p, at.id, 0, 0);
    case ECH_HLO_DYNAMIC_SLICE: return is_scan_slice(i) ? operand(p, at.id, 0, 0) : nowhere;
    case ECH_HLO_OPTIMIZATION_BARRIER: return operand(p, at.id, 0, at.position);
    case ECH_HLO_TUPLE: return at.position > 0 ? through_tuple(p, at.id, at.position) : nowhere;
    case ECH_HLO_GET_TUPLE_ELEMENT: {
        next = operand(p, at.id, 0, 0);
        if (next.id == ECH_NONE || i->number < 0 || (uint64_t)i->number >= p->shapes[p->instructions[next.id].shape].n_elements)
            return nowhere;
        next.position = ech_program_member_position(p, p->instructions[next.id].shape, (uint32_t)i->number) + at.position;
        return next;
    }
    case ECH_HLO_WHILE: {
        /* The body's own result; what it only hands on was there before the loop. */
        EchId root = body_root(p, i);
        Place made = root == ECH_NONE ? nowhere : through_tuple(p, root, at.position);
        if (made.id != ECH_NONE && p->instructions[made.id].opcode != ECH_HLO_GET_TUPLE_ELEMENT && made.id != root)
            return made;
        return operand(p, at.id, 0, at.position);
    }
    case ECH_HLO_PARAMETER: {
        EchId caller = p->computations[i->computation].caller;
        uint16_t opcode = caller == ECH_NONE ? ECH_HLO_UNKNOWN : p->instructions[caller].opcode;
        if (opcode == ECH_HLO_WHILE)
            return (Place){caller, at.position};
        return opcode == ECH_HLO_ASYNC_START || opcode == ECH_HLO_CALL ? operand(p, caller, (uint32_t)CLAMP(i->number, 0, INT32_MAX), at.position) : nowhere;
    }
    case ECH_HLO_BITCAST:
    case ECH_HLO_COPY:
    case ECH_HLO_RESHAPE:
    case ECH_HLO_TRANSPOSE: return i->op_name ? nowhere : operand(p, at.id, 0, 0);
    default: return nowhere;
    }
}

EchId ech_program_origin(const EchProgram *program, EchId instruction, uint32_t position)
{
    Place at = {instruction, position};
    EchId named = ECH_NONE;
    for (unsigned step = 0; step < MOST_STEPS; step++) {
        const EchInstruction *i = &program->instructions[at.id];
        if (i->op_name || i->source)
            named = at.id;
        Place next = step_back(program, at);
        if (next.id == ECH_NONE)
            break;
        at = next;
    }
    return named;
}

/* ---- results of matrix products ---- */

/* Of JAX's names of einsums ("bqhc,bkhc->bhqk"): whether some dimension is of both operands and of the result. */
static bool names_batch(const char *operation)
{
    static const char letters[] = G_CSET_a_2_z G_CSET_A_2_Z;
    const char *arrow = operation ? strstr(operation, "->") : NULL;
    if (!arrow)
        return false;
    const char *begin = arrow, *comma = NULL;
    while (begin > operation && (begin[-1] == ',' || begin[-1] == '.' || g_ascii_isalpha(begin[-1])))
        begin--;
    for (const char *c = begin; c < arrow; c++)
        comma = *c == ',' ? c : comma;
    for (const char *c = begin; comma && c < comma; c++)
        if (g_ascii_isalpha(*c) && memchr(comma, *c, (size_t)(arrow - comma)) && memchr(arrow + 2, *c, strspn(arrow + 2, letters)))
            return true;
    return false;
}

static bool lists_any(const char *text, size_t n)
{
    int64_t first;
    return text && ech_program_numbers(text, n, &first, 1) > 0;
}

/* libtpu writes what both sides of a dot have as dimensions of a convolution's window that are dilated. */
static bool dilates(const EchInstruction *convolution)
{
    EchHloWindow window = ech_hlo_window(convolution);
    bool any = false;
    for (unsigned d = 0; d < window.n; d++)
        any |= window.lhs_dilate[d] > 1;
    return any;
}

/* What kind of product an instruction is. */
static EchProduct product_of(const EchInstruction *i)
{
    size_t n = 0;
    const char *list = NULL;
    bool batch = false;
    switch (i->opcode) {
    case ECH_HLO_CONVOLUTION: batch = !(i->op_name && strstr(i->op_name, "conv_general_dilated")) && dilates(i); break;
    case ECH_HLO_DOT:
        list = ech_program_attribute(i, "lhs_batch_dims", &n);
        batch = lists_any(list, n);
        break;
    case ECH_HLO_CUSTOM_CALL:
        if (!i->target || strstr(i->target, "triangular") || !(strstr(i->target, "cublas") || strstr(i->target, "cudnn$conv")))
            return ECH_PRODUCT_NONE;
        list = ech_program_config(i, "lhs_batch_dimensions", &n);
        batch = lists_any(list, n);
        break;
    default: return ECH_PRODUCT_NONE;
    }
    return batch || names_batch(i->op_name) ? ECH_PRODUCT_BATCH : ECH_PRODUCT_RESULT;
}

/* An instruction of a kernel, inside of the fusions of @within. */
typedef struct {
    EchId id;
    uint32_t position, within, steps; /* within: 1 + its place among the fusions; steps: operations that come between */
} Seen;

typedef struct {
    EchId fusion;
    uint32_t within;
} Fused;

/* The product of a kernel that @from holds, or that it is made of element by element with the fewest operations between; ECH_NONE: none. */
static EchId product_behind(const EchProgram *p, EchId fusion, EchId from, uint32_t *ret_steps)
{
    Seen seen[MOST_SEEN] = {{from, 0, 1, 0}};
    Fused fused[MOST_STEPS] = {{fusion, 0}};
    const uint64_t count = p->shapes[p->instructions[from].shape].count;
    uint32_t n_fused = 1;
    EchId found = ECH_NONE;
    for (uint32_t k = 0, n = 1; k < n; k++) {
        const Seen at = seen[k];
        const EchInstruction *i = &p->instructions[at.id];
        Seen next = {ECH_NONE, 0, at.within, at.steps};
        if (product_of(i) != ECH_PRODUCT_NONE && p->shapes[i->shape].count == count && (found == ECH_NONE || at.steps < *ret_steps)) {
            found = at.id;
            *ret_steps = at.steps;
        }
        uint32_t operands = 0; /* that are followed; 0: next */
        if (ech_hlo_is_elementwise((EchHlo)i->opcode)) {
            operands = i->n_operands;
            next.steps += i->opcode != ECH_HLO_CONVERT;
        } else if (moves_only(i)) {
            operands = MIN(i->n_operands, 1);
        } else if (i->opcode == ECH_HLO_GET_TUPLE_ELEMENT && i->n_operands > 0 && i->number >= 0) {
            EchId tuple = ech_program_operand(p, i, 0), shape = p->instructions[tuple].shape;
            if ((uint64_t)i->number < p->shapes[shape].n_elements)
                next.position = ech_program_member_position(p, shape, (uint32_t)i->number) + at.position;
            operands = 1;
        } else if (i->opcode == ECH_HLO_FUSION && n_fused < MOST_STEPS && body_root(p, i) != ECH_NONE) {
            fused[n_fused++] = (Fused){at.id, at.within};
            Place inside = through_tuple(p, body_root(p, i), at.position);
            next = (Seen){inside.id, inside.position, n_fused, at.steps};
        } else if (i->opcode == ECH_HLO_PARAMETER && at.within > 1) {
            const Fused *f = &fused[at.within - 1];
            next = (Seen){operand(p, f->fusion, (uint32_t)CLAMP(i->number, 0, INT32_MAX), 0).id, 0, f->within, at.steps};
        }
        for (uint32_t j = 0; j < MAX(operands, 1) && n < MOST_SEEN; j++) {
            next.id = operands > 0 ? ech_program_operand(p, i, j) : next.id;
            const EchShape *shape = next.id != ECH_NONE ? &p->shapes[p->instructions[next.id].shape] : NULL;
            if (shape && (shape->is_tuple || shape->count == count))
                seen[n++] = next;
        }
    }
    return found;
}

/* What a fusion makes at @position, or stores in what is there: an instruction of its body. */
static EchId element_of(const EchProgram *p, EchId fusion, uint32_t position)
{
    EchId root = body_root(p, &p->instructions[fusion]);
    EchId made = root == ECH_NONE ? ECH_NONE : through_tuple(p, root, position).id;
    for (unsigned step = 0; step < MOST_STEPS && made != ECH_NONE && p->instructions[made].opcode == ECH_HLO_BITCAST; step++)
        made = operand(p, made, 0, 0).id;
    return made != ECH_NONE && is_update(&p->instructions[made]) ? operand(p, made, 1, 0).id : made;
}

/* What of a product of its own a fusion makes at @position: what it makes with the fewest operations stands for it; of what is on chip and what is not, which
 * stays longer, the latter. Sums over it are made of that. *@ret_product: the product. */
static EchProduct product_at(const EchProgram *p, EchId fusion, uint32_t position, EchId *ret_product)
{
    EchId element = element_of(p, fusion, position), shape = p->instructions[fusion].shape;
    const bool on_chip = p->shapes[ech_program_subshape(p, shape, position)].space != ECH_SPACE_HBM;
    const bool sums = element != ECH_NONE && p->instructions[element].opcode == ECH_HLO_REDUCE;
    uint32_t steps = 0;
    element = sums ? operand(p, element, 0, 0).id : element;
    EchId product = *ret_product = element == ECH_NONE ? ECH_NONE : product_behind(p, fusion, element, &steps);
    for (uint32_t other = 0; product != ECH_NONE && other < MIN(p->shapes[shape].n_positions, MOST_RESULTS); other++) {
        const EchShape *like = &p->shapes[ech_program_subshape(p, shape, other)];
        EchId of = other == position || like->is_tuple ? ECH_NONE : element_of(p, fusion, other);
        bool chip = like->space != ECH_SPACE_HBM;
        uint32_t more = 0;
        if (of == ECH_NONE || chip > on_chip || product_behind(p, fusion, of, &more) != product)
            continue;
        if (sums || chip < on_chip || more < steps || (more == steps && other < position))
            return ECH_PRODUCT_BESIDE;
    }
    return product != ECH_NONE && !sums ? product_of(&p->instructions[product]) : ECH_PRODUCT_NONE;
}

EchProduct ech_program_product(const EchProgram *program, EchId instruction, uint32_t position, EchDtype *ret_dtype)
{
    *ret_dtype = ECH_DTYPE_NONE;
    Place at = {instruction, position};
    for (unsigned step = 0; step < MOST_STEPS && at.id != ECH_NONE; step++) {
        const EchInstruction *i = &program->instructions[at.id];
        EchId of = at.id;
        EchProduct product = i->opcode == ECH_HLO_FUSION ? product_at(program, at.id, at.position, &of) : at.position <= 1 ? product_of(i) : ECH_PRODUCT_NONE;
        if (product == ECH_PRODUCT_RESULT || product == ECH_PRODUCT_BATCH) {
            const EchShape *shape = &program->shapes[program->instructions[of].shape];
            *ret_dtype = (EchDtype)(shape->is_tuple && shape->n_elements > 0 ? program->shapes[program->elements[shape->first_element]].dtype : shape->dtype);
        }
        if (product != ECH_PRODUCT_NONE)
            return product;
        at = step_back(program, at);
    }
    return ECH_PRODUCT_NONE;
}

double ech_program_products_again(const EchProgram *program)
{
    static const char again[] = "/rematted_computation";
    bool any = false;
    size_t forward = 0, made_again = 0;
    for (size_t i = 0; i < program->n_instructions; i++) {
        const EchInstruction *at = &program->instructions[i];
        const char *name = at->op_name ? at->op_name : "";
        bool product = (at->opcode == ECH_HLO_DOT || at->opcode == ECH_HLO_CONVOLUTION || at->opcode == ECH_HLO_CUSTOM_CALL) &&
                       (strstr(name, "dot_general") || strstr(name, "conv_general_dilated"));
        bool is_again = strstr(name, again) != NULL;
        any |= is_again;
        made_again += product && is_again;
        forward += product && !is_again && !strstr(name, "transpose(");
    }
    return !any ? -1 : forward > 0 ? (double)made_again / (double)forward : 1;
}

bool ech_program_is_forward(const EchProgram *program)
{
    bool jax = false, backward = false;
    for (size_t i = 0; i < program->n_instructions && !backward; i++) {
        const char *name = program->instructions[i].op_name ? program->instructions[i].op_name : "";
        jax |= g_str_has_prefix(name, "jit(");
        backward = strstr(name, "transpose(") != NULL;
    }
    return jax && !backward;
}
