/* What goes by a loop's counter: how often the loop runs, and along which dimension of an array it steps. */
#include "sim/program/induction.h"

enum { MAX_NESTING = 64, MAX_EVALUATED = 2000 };

typedef struct Frame {
    EchId caller; /* fusion or call whose body is being looked at */
    const struct Frame *parent;
} Frame;

/* constant, or element k of the loop state, @times it, plus a constant: of loops with any step XLA makes such that count by one */
typedef struct {
    enum { NOTHING, CONSTANT, ELEMENT } kind;
    uint32_t element;
    int64_t value, times;
} Form;

typedef struct {
    const EchProgram *p;
    unsigned steps;
    bool given; /* It hangs on what the program was called with. */
    bool index; /* It is of an array: one below 0 counts from the end, and a loop over an array has none such. */
} Evaluator;

static const Form nothing = {NOTHING, 0, 0, 0};

static Form evaluate(Evaluator *e, EchId id, const Frame *frame);

/* Element @k of what @id gives. */
static Form evaluate_element(Evaluator *e, EchId id, uint32_t k, const Frame *frame)
{
    const EchProgram *p = e->p;
    for (; e->steps > 0; e->steps--) {
        const EchInstruction *i = &p->instructions[id];
        if (i->opcode == ECH_HLO_PARAMETER && !frame)
            return (Form){ELEMENT, k, 0, 1};
        if (i->opcode == ECH_HLO_PARAMETER) {
            const EchInstruction *caller = &p->instructions[frame->caller];
            if (i->number < 0 || i->number >= caller->n_operands)
                return nothing;
            id = ech_program_operand(p, caller, (uint32_t)i->number);
            frame = frame->parent;
        } else if (i->opcode == ECH_HLO_TUPLE)
            return k < i->n_operands ? evaluate(e, ech_program_operand(p, i, k), frame) : nothing;
        else if ((i->opcode == ECH_HLO_FUSION || i->opcode == ECH_HLO_CALL) && i->n_called > 0) {
            e->steps--;
            Frame inner = {id, frame};
            return e->steps > 0 ? evaluate_element(e, p->computations[ech_program_called(p, i, 0)].root, k, &inner) : nothing;
        } else if (i->opcode == ECH_HLO_OPTIMIZATION_BARRIER && i->n_operands > 0)
            id = ech_program_operand(p, i, 0);
        else
            return nothing;
    }
    return nothing;
}

/* JAX's index: select(x < 0, x + size, x). */
static bool is_wrapped(const EchProgram *p, const EchInstruction *select)
{
    const EchInstruction *less = select->n_operands == 3 ? &p->instructions[ech_program_operand(p, select, 0)] : NULL;
    if (!less || less->opcode != ECH_HLO_COMPARE || less->n_operands != 2 || ech_program_operand(p, less, 0) != ech_program_operand(p, select, 2))
        return false;
    const EchInstruction *zero = &p->instructions[ech_program_operand(p, less, 1)];
    size_t n;
    const char *direction = ech_program_attribute(less, "direction", &n);
    return direction && n == 2 && direction[0] == 'L' && zero->opcode == ECH_HLO_CONSTANT && zero->has_literal && zero->number == 0;
}

/* An integer that the program was called with. */
static Form argument(Evaluator *e, const EchInstruction *parameter)
{
    int64_t value;
    if (!parameter->literal || e->p->shapes[parameter->shape].count != 1 || ech_program_numbers(parameter->literal, parameter->literal_n, &value, 1) != 1)
        return nothing;
    e->given = true;
    return (Form){CONSTANT, 0, value, 0};
}

static Form evaluate(Evaluator *e, EchId id, const Frame *frame)
{
    const EchProgram *p = e->p;
    if (e->steps == 0)
        return nothing;
    e->steps--;
    const EchInstruction *i = &p->instructions[id];
    EchId first = i->n_operands > 0 ? ech_program_operand(p, i, 0) : ECH_NONE;
    switch ((int)i->opcode) {
    case ECH_HLO_CONSTANT: return i->has_literal ? (Form){CONSTANT, 0, i->number, 0} : nothing;
    case ECH_HLO_COPY:
    case ECH_HLO_COPY_START:
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_BITCAST:
    case ECH_HLO_CONVERT:
    case ECH_HLO_RESHAPE:
    case ECH_HLO_BROADCAST:
    case ECH_HLO_OPTIMIZATION_BARRIER: return first == ECH_NONE ? nothing : evaluate(e, first, frame);
    case ECH_HLO_GET_TUPLE_ELEMENT:
        if (first == ECH_NONE || i->number < 0 || i->number > UINT32_MAX)
            return nothing;
        return evaluate_element(e, first, (uint32_t)i->number, frame);
    case ECH_HLO_PARAMETER:
        if (frame && i->number >= 0 && i->number < p->instructions[frame->caller].n_operands)
            return evaluate(e, ech_program_operand(p, &p->instructions[frame->caller], (uint32_t)i->number), frame->parent);
        return frame ? nothing : argument(e, i);
    case ECH_HLO_FUSION:
    case ECH_HLO_CALL: {
        if (i->n_called == 0)
            return nothing;
        Frame inner = {id, frame};
        return evaluate(e, p->computations[ech_program_called(p, i, 0)].root, &inner);
    }
    case ECH_HLO_ADD:
    case ECH_HLO_SUBTRACT: {
        if (i->n_operands < 2)
            return nothing;
        Form a = evaluate(e, first, frame), b = evaluate(e, ech_program_operand(p, i, 1), frame);
        int64_t sign = i->opcode == ECH_HLO_ADD ? 1 : -1;
        if (a.kind == NOTHING || b.kind == NOTHING || (b.kind == ELEMENT && a.kind == ELEMENT))
            return nothing;
        if (b.kind == ELEMENT)
            a.kind = ELEMENT, a.element = b.element, a.times = sign * b.times;
        if (b.value > INT32_MAX || b.value < INT32_MIN || a.value > INT64_MAX / 4 || a.value < INT64_MIN / 4)
            return nothing;
        a.value += sign * b.value;
        return a;
    }
    case ECH_HLO_MULTIPLY: {
        if (i->n_operands < 2)
            return nothing;
        Form a = evaluate(e, first, frame), b = evaluate(e, ech_program_operand(p, i, 1), frame);
        Form by = a.kind == CONSTANT ? a : b, of = a.kind == CONSTANT ? b : a;
        bool small =
            by.value >= INT32_MIN && by.value <= INT32_MAX && of.value >= INT32_MIN && of.value <= INT32_MAX && of.times >= INT32_MIN && of.times <= INT32_MAX;
        if (by.kind != CONSTANT || of.kind == NOTHING || by.value == 0 || !small)
            return nothing;
        of.value *= by.value;
        of.times *= by.value;
        return of;
    }
    case ECH_HLO_SELECT: return e->index && is_wrapped(p, i) ? evaluate(e, ech_program_operand(p, i, 2), frame) : nothing;
    default: return nothing;
    }
}

/* The comparison a condition ends in, through fusions; *ret_frames keeps the frames it was reached by. */
static EchId find_compare(const EchProgram *p, EchId root, Frame *frames, size_t max, const Frame **ret_frame)
{
    const Frame *frame = NULL;
    for (size_t n = 0; n < max;) {
        const EchInstruction *i = &p->instructions[root];
        if (i->opcode == ECH_HLO_COMPARE) {
            *ret_frame = frame;
            return root;
        }
        if (i->opcode == ECH_HLO_FUSION && i->n_called > 0) {
            frames[n] = (Frame){root, frame};
            frame = &frames[n++];
            root = p->computations[ech_program_called(p, i, 0)].root;
        } else if ((i->opcode == ECH_HLO_COPY || i->opcode == ECH_HLO_BITCAST) && i->n_operands > 0)
            root = ech_program_operand(p, i, 0); /* operands come before their users: this ends */
        else
            return ECH_NONE;
    }
    return ECH_NONE;
}

static Form initial_of(Evaluator *e, const EchInstruction *loop, uint32_t element)
{
    Form form = evaluate_element(e, ech_program_operand(e->p, loop, 0), element, NULL);
    return form.kind == CONSTANT ? form : nothing;
}

/* *ret_given: it hangs on what the program was called with. */
static bool trips_from_induction(const EchProgram *p, const EchInstruction *loop, uint64_t *ret, bool *ret_given)
{
    Evaluator e = {.p = p, .steps = MAX_EVALUATED};
    Frame frames[16];
    const Frame *frame = NULL;
    const EchComputation *condition = &p->computations[ech_program_called(p, loop, 0)], *body = &p->computations[ech_program_called(p, loop, 1)];
    EchId compare = find_compare(p, condition->root, frames, G_N_ELEMENTS(frames), &frame);
    if (compare == ECH_NONE || p->instructions[compare].n_operands < 2 || loop->n_operands < 1)
        return false;
    size_t n;
    const char *direction = ech_program_attribute(&p->instructions[compare], "direction", &n);
    if (!direction || n != 2)
        return false;
    Form left = evaluate(&e, ech_program_operand(p, &p->instructions[compare], 0), frame),
         right = evaluate(&e, ech_program_operand(p, &p->instructions[compare], 1), frame);
    char first = direction[0], second = direction[1];
    /* Put the induction variable on the left: it is the side that the body changes. */
    for (unsigned side = 0; side < 2; side++) {
        Form step = left.kind == ELEMENT ? evaluate_element(&e, body->root, left.element, NULL) : nothing;
        if (step.kind == ELEMENT && step.element == left.element && step.times == 1 && step.value != 0) {
            Form start = initial_of(&e, loop, left.element), bound = right;
            if (right.kind == ELEMENT) {
                Form keeps = evaluate_element(&e, body->root, right.element, NULL);
                bool kept = keeps.kind == ELEMENT && keeps.element == right.element && keeps.times == 1 && keeps.value == 0;
                bound = kept ? initial_of(&e, loop, right.element) : nothing;
            }
            if (start.kind != CONSTANT || bound.kind != CONSTANT)
                return false;
            *ret_given = e.given;
            int64_t from, to = bound.value, by, distance;
            if (__builtin_mul_overflow(start.value, left.times, &from) || __builtin_add_overflow(from, left.value, &from) ||
                __builtin_mul_overflow(step.value, left.times, &by) || by == INT64_MIN)
                return false;
            if (right.kind == ELEMENT && (__builtin_mul_overflow(bound.value, right.times, &to) || __builtin_add_overflow(to, right.value, &to)))
                return false;
            if (__builtin_sub_overflow(to, from, &distance) || distance == INT64_MIN)
                return false;
            if ((first == 'L' && by < 0) || (first == 'G' && by > 0))
                return false;
            if (by < 0) {
                distance = -distance;
                by = -by;
            }
            if (first == 'N')
                *ret = distance % by == 0 && distance >= 0 ? (uint64_t)(distance / by) : 0;
            else if (first == 'L' || first == 'G')
                *ret = distance < 0 ? 0 : second == 'E' ? (uint64_t)(distance / by) + 1 : (uint64_t)(distance / by) + (distance % by != 0);
            else
                return false;
            return first != 'N' || (distance % by == 0 && distance >= 0);
        }
        Form swap = left;
        left = right;
        right = swap;
        first = first == 'L' ? 'G' : first == 'G' ? 'L' : first;
    }
    return false;
}

bool ech_program_trips(const EchProgram *program, EchId loop, uint64_t *ret, EchOrigin *ret_origin)
{
    const EchInstruction *i = &program->instructions[loop];
    if (ech_program_config_u64(i, "known_trip_count.n", ret)) {
        *ret_origin = ECH_KNOWN;
        return true;
    }
    bool given;
    if (i->n_called < 2 || !trips_from_induction(program, i, ret, &given))
        return false;
    *ret_origin = ECH_INFERRED;
    return true;
}

bool ech_program_trips_given(const EchProgram *program, EchId loop)
{
    const EchInstruction *i = &program->instructions[loop];
    uint64_t trips;
    bool given = false;
    return i->n_called >= 2 && !ech_program_config_u64(i, "known_trip_count.n", &trips) && trips_from_induction(program, i, &trips, &given) && given;
}

uint64_t ech_program_runs(const EchProgram *program, EchId computation)
{
    uint64_t runs = 1;
    for (unsigned depth = 0; depth < MAX_NESTING && computation != ECH_NONE; depth++) {
        EchId caller = program->computations[computation].caller;
        if (caller == ECH_NONE)
            break;
        uint64_t trips;
        EchOrigin origin;
        if (program->instructions[caller].opcode == ECH_HLO_WHILE && ech_program_trips(program, caller, &trips, &origin))
            runs = ech_bytes_mul(runs, trips);
        computation = program->instructions[caller].computation;
    }
    return runs;
}

/* Slices */

/* By how much the body of @loop moves @element of what it carries; 0 where it does something else with it. */
static int64_t step_of(const EchProgram *p, EchId loop, uint32_t element)
{
    Evaluator e = {.p = p, .steps = MAX_EVALUATED};
    Form step = evaluate_element(&e, p->computations[ech_program_called(p, &p->instructions[loop], 1)].root, element, NULL);
    return step.kind == ELEMENT && step.element == element && step.times == 1 ? step.value : 0;
}

/* The dimensions of an array along which a slice as large as @part is taken, or put, where the operands from @first on say. */
static size_t find_strides(const EchProgram *p, EchId id, EchId array, EchId part, uint32_t first, const Frame *frame, EchStride *ret)
{
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *all = ech_program_layout(p, p->instructions[array].shape), *taken = ech_program_layout(p, p->instructions[part].shape);
    uint64_t apart = 1;
    size_t n = 0;
    for (unsigned k = 0; all && taken && all->rank == taken->rank && i->n_operands == first + all->rank && k < all->rank; k++) {
        unsigned d = all->order[k];
        Evaluator e = {.p = p, .steps = MAX_EVALUATED, .index = true};
        Form at = taken->dims[d] < all->dims[d] ? evaluate(&e, ech_program_operand(p, i, first + d), frame) : nothing;
        if (at.kind == ELEMENT)
            ret[n++] = (EchStride){at.element, at.value, at.times, taken->dims[d], apart};
        apart = ech_bytes_mul(apart, all->dims[d]);
    }
    return n;
}

static bool is_caller(const EchInstruction *i)
{
    return (i->opcode == ECH_HLO_FUSION || i->opcode == ECH_HLO_CALL || i->opcode == ECH_HLO_ASYNC_START) && i->n_called == 1;
}

/* Whether @user takes of its @operand nothing but slices along @stride. */
static bool takes_slices(const EchProgram *p, EchId user, uint32_t operand, const EchStride *stride, const Frame *frame, unsigned depth)
{
    const EchInstruction *i = &p->instructions[user];
    EchStride own[ECH_LAYOUT_MAX_RANK];
    if (depth == MAX_NESTING)
        return false;
    if (i->opcode == ECH_HLO_DYNAMIC_SLICE && operand == 0) {
        size_t n = find_strides(p, user, ech_program_operand(p, i, 0), user, 1, frame, own);
        for (size_t k = 0; k < n; k++)
            if (own[k].element == stride->element && own[k].offset == stride->offset && own[k].times == stride->times && own[k].apart == stride->apart &&
                own[k].size <= stride->size)
                return true;
        return false;
    }
    if (i->opcode != ECH_HLO_BITCAST && !is_caller(i))
        return false;
    /* All that use the array inside of a body, or under another name beside @user. */
    const Frame inner = {user, frame}, *within = i->opcode == ECH_HLO_BITCAST ? frame : &inner;
    const EchComputation *c = &p->computations[i->opcode == ECH_HLO_BITCAST ? i->computation : ech_program_called(p, i, 0)];
    for (EchId id = c->first; id < c->first + c->n; id++) {
        bool is_array = i->opcode == ECH_HLO_BITCAST ? id == user : p->instructions[id].opcode == ECH_HLO_PARAMETER && p->instructions[id].number == operand;
        for (EchId next = id + 1; is_array && next < c->first + c->n; next++)
            for (uint32_t o = 0; o < p->instructions[next].n_operands; o++)
                if (ech_program_operand(p, &p->instructions[next], o) == id && !takes_slices(p, next, o, stride, within, depth + 1))
                    return false;
    }
    return true;
}

bool ech_program_takes_slices(const EchProgram *p, EchId user, uint32_t operand, const EchStride *stride)
{
    return takes_slices(p, user, operand, stride, NULL, 0);
}

/* What @id puts into an array (*ret_update: the instruction that does), and where, in the body that gives its result. */
static size_t find_update(const EchProgram *p, EchId id, uint32_t member, const Frame *frame, unsigned depth, EchStride *ret, EchId *ret_update)
{
    id = ech_program_look_through(p, id);
    const EchInstruction *i = &p->instructions[id];
    if (i->opcode == ECH_HLO_TUPLE && member < i->n_operands && depth < MAX_NESTING)
        return find_update(p, ech_program_operand(p, i, member), UINT32_MAX, frame, depth + 1, ret, ret_update);
    if (is_caller(i) && depth < MAX_NESTING) {
        Frame inner = {id, frame};
        return find_update(p, p->computations[ech_program_called(p, i, 0)].root, member, &inner, depth + 1, ret, ret_update);
    }
    if (i->opcode != ECH_HLO_DYNAMIC_UPDATE_SLICE || i->n_operands <= 2)
        return 0;
    *ret_update = id;
    return find_strides(p, id, ech_program_operand(p, i, 0), ech_program_operand(p, i, 1), 2, frame, ret);
}

/* Those of @n strides along which @loop's iterations put slices apart. */
static size_t keep_apart(const EchProgram *p, EchId loop, EchStride *strides, size_t n)
{
    size_t kept = 0;
    for (size_t k = 0; k < n; k++) {
        int64_t step = step_of(p, loop, strides[k].element), moved;
        if (!__builtin_mul_overflow(step, strides[k].times, &moved) && moved != 0 && moved != INT64_MIN && (uint64_t)ABS(moved) >= strides[k].size)
            strides[kept++] = strides[k];
    }
    return kept;
}

size_t ech_program_put_slices(const EchProgram *p, EchId loop, EchId writer, uint32_t member, EchStride ret[ECH_LAYOUT_MAX_RANK])
{
    EchId update;
    return keep_apart(p, loop, ret, find_update(p, writer, member, NULL, 0, ret, &update));
}

/* One walk through a body and what it calls: what is done to each member of what the loop carries. */
typedef struct {
    const EchProgram *p;
    size_t n_left; /* Instructions that are still looked at: what calls call again and again has no end. */
    size_t n_members;
    bool *touched; /* touched[n_members]: something but updates in place has it */
} Walk;

/* @computation, whose parameters are the members @given[@n] (ECH_NONE: something else); of a loop's body, where @given is NULL, elements of its parameter are.
 */
static bool find_touched(Walk *w, EchId computation, const EchId *given, size_t n, unsigned depth)
{
    const EchProgram *p = w->p;
    const EchComputation *c = &p->computations[computation];
    if (depth == MAX_NESTING || w->n_left < c->n)
        return false;
    w->n_left -= c->n;
    g_autofree EchId *member = g_new(EchId, c->n + 1); /* whose array an instruction's result is */
    for (EchId id = c->first; id < c->first + c->n; id++) {
        const EchInstruction *i = &p->instructions[id];
        EchId *own = &member[id - c->first];
        *own = ECH_NONE;
        if (i->opcode == ECH_HLO_PARAMETER && given && i->number >= 0 && (size_t)i->number < n)
            *own = given[i->number];
        if (i->opcode == ECH_HLO_GET_TUPLE_ELEMENT && !given && i->n_operands > 0 && i->number >= 0 && (size_t)i->number < w->n_members &&
            p->instructions[ech_program_operand(p, i, 0)].opcode == ECH_HLO_PARAMETER)
            *own = (EchId)i->number;
        bool passes = is_caller(i), any = false;
        g_autofree EchId *handed = passes ? g_new(EchId, i->n_operands + 1) : NULL;
        for (uint32_t o = 0; o < i->n_operands; o++) {
            EchId from = ech_program_operand(p, i, o), array = from >= c->first && from < id ? member[from - c->first] : ECH_NONE;
            if (handed)
                handed[o] = array;
            if (array == ECH_NONE)
                continue;
            any = true;
            if (i->opcode == ECH_HLO_BITCAST)
                *own = array;
            else if (!passes && !(i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && o == 0))
                w->touched[array] = true;
        }
        if (any && passes && !find_touched(w, ech_program_called(p, i, 0), handed, i->n_operands, depth + 1))
            return false;
    }
    return true;
}

/* The instruction of @loop's body that writes all of member @k, a slice each of @trips iterations, from the first to the last; ECH_NONE: none does. */
static EchId find_filler(const EchProgram *p, EchId loop, const EchInstruction *root, uint32_t k, uint64_t trips)
{
    EchStride strides[ECH_LAYOUT_MAX_RANK];
    EchId writer = ech_program_operand(p, root, k), update = ECH_NONE;
    uint32_t of_several = UINT32_MAX;
    if (p->instructions[writer].opcode == ECH_HLO_GET_TUPLE_ELEMENT && p->instructions[writer].n_operands > 0) {
        of_several = (uint32_t)p->instructions[writer].number;
        writer = ech_program_operand(p, &p->instructions[writer], 0);
    }
    if (keep_apart(p, loop, strides, find_update(p, writer, of_several, NULL, 0, strides, &update)) != 1)
        return ECH_NONE;
    const EchInstruction *put = &p->instructions[update];
    uint64_t all = p->shapes[put->shape].count, part = p->shapes[p->instructions[ech_program_operand(p, put, 1)].shape].count;
    Evaluator e = {.p = p, .steps = MAX_EVALUATED};
    Form first = initial_of(&e, &p->instructions[loop], strides[0].element);
    bool counts = strides[0].times == 1 && strides[0].offset == 0 && strides[0].size == 1 && step_of(p, loop, strides[0].element) == 1;
    return counts && first.kind == CONSTANT && first.value == 0 && !e.given && part > 0 && all % part == 0 && all / part == trips ? writer : ECH_NONE;
}

bool *ech_program_filled(const EchProgram *p, EchId loop, size_t n)
{
    bool *filled = g_new0(bool, n + 1);
    const EchInstruction *l = &p->instructions[loop];
    uint64_t trips;
    EchOrigin origin;
    if (l->n_called < 2 || l->n_operands < 1 || !ech_program_trips(p, loop, &trips, &origin))
        return filled;
    EchId body = ech_program_called(p, l, 1);
    const EchInstruction *root = &p->instructions[p->computations[body].root];
    size_t n_members = root->opcode == ECH_HLO_TUPLE ? MIN(n, root->n_operands) : 0;
    g_autofree bool *touched = g_new0(bool, n_members + 1);
    Walk walk = {p, p->n_instructions, n_members, touched};
    if (n_members == 0 || !find_touched(&walk, body, NULL, 0, 0))
        return filled;
    for (uint32_t k = 0; k < n_members; k++) {
        EchId writer = touched[k] ? ECH_NONE : find_filler(p, loop, root, k, trips);
        const EchInstruction *i = writer == ECH_NONE ? NULL : &p->instructions[writer];
        for (uint32_t o = 0; i && o < i->n_operands; o++) {
            const EchInstruction *array = &p->instructions[ech_program_look_through(p, ech_program_operand(p, i, o))];
            filled[k] |= array->opcode == ECH_HLO_GET_TUPLE_ELEMENT && array->number == k;
        }
    }
    return filled;
}
