/* What an array holds, in the words of the program's source.
 *
 * The instruction that defines an array often says only how it got there: a loop's stack of results is written by dynamic-update-slices that all come from the
 * line of the scan, a prefetch is a copy without a name, a kernel's result leaves by a tuple. What a reader wants is the operation that made the contents. */
#include "sim/program/program.h"

#include <string.h>

enum { MOST_STEPS = 64 };

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
