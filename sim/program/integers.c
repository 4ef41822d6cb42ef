/** @file integers.c  Integers that arrays hold: constants, arguments that are known, and what programs compute of those by plain operations, before they give
 * them to kernels that choose their steps by them. */
#include "sim/program/private.h"

#include <string.h>

enum { MAX_HOPS = 64, MAX_DEPTH = 256, MAX_ELEMENTS = 65536, MAX_TOTAL = 1 << 24, MAX_JOINED = 3 };

typedef struct {
    GArray *values; /* Of int64_t, row by row; NULL: not known. Owned. */
    bool by_argument;
} Known;

struct EchIntegers {
    const EchProgram *program;
    EchId *callers;    /* Of each computation: the only instruction that runs it, or ECH_NONE. */
    GHashTable *known; /* instruction + 1 -> Known, owned */
    size_t total;      /* elements of what is known */
    unsigned depth;
};

static void free_known(gpointer data)
{
    Known *known = data;
    if (known->values)
        g_array_unref(known->values);
    g_free(known);
}

static EchId *callers_of(const EchProgram *p)
{
    EchId *callers = g_new(EchId, MAX(p->n_computations, 1));
    g_autofree bool *several = g_new0(bool, MAX(p->n_computations, 1));
    for (size_t c = 0; c < p->n_computations; c++)
        callers[c] = ECH_NONE;
    for (size_t i = 0; i < p->n_instructions; i++)
        for (uint32_t k = 0; k < p->instructions[i].n_called; k++) {
            EchId called = ech_program_called(p, &p->instructions[i], k);
            several[called] = several[called] || callers[called] != ECH_NONE;
            callers[called] = several[called] ? ECH_NONE : (EchId)i;
        }
    return callers;
}

EchIntegers *ech_integers_new(const EchProgram *program)
{
    EchIntegers *s = g_new0(EchIntegers, 1);
    s->program = program;
    s->callers = callers_of(program);
    s->known = g_hash_table_new_full(NULL, NULL, NULL, free_known);
    return s;
}

void ech_integers_free(EchIntegers *s)
{
    if (!s)
        return;
    g_free(s->callers);
    g_hash_table_unref(s->known);
    g_free(s);
}

static EchId operand(const EchProgram *p, EchId id, uint32_t k)
{
    return id != ECH_NONE && k < p->instructions[id].n_operands ? ech_program_operand(p, &p->instructions[id], k) : ECH_NONE;
}

static bool is_opcode(const EchProgram *p, EchId id, EchHlo opcode)
{
    return id != ECH_NONE && p->instructions[id].opcode == opcode;
}

/* What a fusion or call gives back. */
static EchId root_of(const EchProgram *p, const EchInstruction *i)
{
    return i->n_called == 1 ? p->computations[ech_program_called(p, i, 0)].root : ECH_NONE;
}

/* Whether a loop hands on member @index of its tuple as it came. */
static bool is_invariant(const EchProgram *p, EchId body, EchId parameter, int64_t index)
{
    EchId root = p->computations[body].root;
    EchId member = is_opcode(p, root, ECH_HLO_TUPLE) && index >= 0 ? operand(p, root, (uint32_t)index) : ECH_NONE;
    return is_opcode(p, member, ECH_HLO_GET_TUPLE_ELEMENT) && p->instructions[member].number == index && operand(p, member, 0) == parameter;
}

/* Where member @index of the tuple @id comes from: one step back, through loops that do not change it. */
static EchId member_behind(const EchIntegers *s, EchId *id, int64_t index)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[*id];
    switch ((int)i->opcode) {
    case ECH_HLO_TUPLE: return index >= 0 ? operand(p, *id, (uint32_t)index) : ECH_NONE;
    case ECH_HLO_OPTIMIZATION_BARRIER: *id = operand(p, *id, 0); return ECH_NONE;
    case ECH_HLO_CALL:
    case ECH_HLO_FUSION: *id = root_of(p, i); return ECH_NONE;
    case ECH_HLO_WHILE: {
        EchId body = i->n_called > 0 ? ech_program_called(p, i, i->n_called - 1) : ECH_NONE, parameter = ECH_NONE;
        for (uint32_t k = 0; body != ECH_NONE && k < p->computations[body].n; k++)
            if (p->instructions[p->computations[body].first + k].opcode == ECH_HLO_PARAMETER)
                parameter = p->computations[body].first + k;
        *id = parameter != ECH_NONE && is_invariant(p, body, parameter, index) ? operand(p, *id, 0) : ECH_NONE;
        return ECH_NONE;
    }
    case ECH_HLO_PARAMETER: {
        EchId caller = s->callers[i->computation];
        bool kept = is_opcode(p, caller, ECH_HLO_WHILE) && is_invariant(p, i->computation, *id, index);
        *id = kept ? operand(p, caller, 0) : ECH_NONE;
        return ECH_NONE;
    }
    default: *id = ECH_NONE; return ECH_NONE;
    }
}

static bool holds_integers(const EchShape *shape)
{
    const char *dtype = shape->is_tuple ? "" : ech_dtype_name((EchDtype)shape->dtype);
    return dtype[0] == 's' || dtype[0] == 'u' || strcmp(dtype, "pred") == 0;
}

/* As an array of that type keeps it. */
static int64_t fitted(const EchShape *shape, int64_t value)
{
    const char *dtype = ech_dtype_name((EchDtype)shape->dtype);
    unsigned bits = ech_dtype_bits((EchDtype)shape->dtype);
    if (dtype[0] == 'p')
        return value != 0;
    if (bits == 0 || bits >= 64)
        return value;
    uint64_t low = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
    bool negative = dtype[0] == 's' && low >> (bits - 1);
    return negative ? (int64_t)low - (int64_t)(UINT64_C(1) << bits) : (int64_t)low;
}

static int64_t at(const Known *known, size_t k)
{
    return g_array_index(known->values, int64_t, known->values->len == 1 ? 0 : k);
}

/* @n numbers to be filled in; NULL where that is too many. */
static int64_t *make(EchIntegers *s, uint64_t n, Known *ret)
{
    if (n == 0 || n > MAX_ELEMENTS || s->total + n > MAX_TOTAL)
        return NULL;
    s->total += n;
    ret->values = g_array_sized_new(FALSE, TRUE, sizeof(int64_t), (guint)n);
    g_array_set_size(ret->values, (guint)n);
    return &g_array_index(ret->values, int64_t, 0);
}

static void forget(Known *known)
{
    g_clear_pointer(&known->values, g_array_unref);
}

/* Of a constant or an argument. */
static void read_literal(EchIntegers *s, const EchInstruction *i, Known *ret)
{
    uint64_t count = s->program->shapes[i->shape].count;
    size_t n = i->has_literal ? 1 : i->literal ? ech_program_numbers(i->literal, i->literal_n, NULL, 0) : 0;
    int64_t *values = n == count ? make(s, count, ret) : NULL;
    if (values && i->has_literal)
        values[0] = i->number;
    else if (values)
        (void)ech_program_numbers(i->literal, i->literal_n, values, n);
}

static const Known *look(EchIntegers *s, EchId id);

/* The same numbers as another's. */
static void take(EchIntegers *s, EchId id, Known *ret)
{
    const Known *other = look(s, id);
    if (other) {
        ret->values = g_array_ref(other->values);
        ret->by_argument = other->by_argument;
    }
}

static bool compares(const char *direction, int64_t a, int64_t b)
{
    bool equal = a == b, less = a < b;
    switch (direction[0]) {
    case 'E': return equal;
    case 'N': return !equal;
    case 'L': return less || (direction[1] == 'E' && equal);
    default: return !less && (direction[1] == 'E' || !equal);
    }
}

/* False where there is no such number. */
static bool apply(EchHlo opcode, const char *direction, const int64_t *x, int64_t *ret)
{
    uint64_t a = (uint64_t)x[0], b = (uint64_t)x[1];
    switch ((int)opcode) {
    case ECH_HLO_CONVERT: *ret = x[0]; return true;
    case ECH_HLO_NEGATE: *ret = (int64_t)(0 - a); return true;
    case ECH_HLO_NOT: *ret = (int64_t)~a; return true;
    case ECH_HLO_ADD: *ret = (int64_t)(a + b); return true;
    case ECH_HLO_SUBTRACT: *ret = (int64_t)(a - b); return true;
    case ECH_HLO_MULTIPLY: *ret = (int64_t)(a * b); return true;
    case ECH_HLO_AND: *ret = (int64_t)(a & b); return true;
    case ECH_HLO_OR: *ret = (int64_t)(a | b); return true;
    case ECH_HLO_XOR: *ret = (int64_t)(a ^ b); return true;
    case ECH_HLO_MINIMUM: *ret = MIN(x[0], x[1]); return true;
    case ECH_HLO_MAXIMUM: *ret = MAX(x[0], x[1]); return true;
    case ECH_HLO_SELECT: *ret = x[0] ? x[1] : x[2]; return true;
    case ECH_HLO_CLAMP: *ret = MIN(MAX(x[1], x[0]), x[2]); return true;
    case ECH_HLO_COMPARE: *ret = compares(direction, x[0], x[1]); return true;
    case ECH_HLO_DIVIDE:
    case ECH_HLO_REMAINDER:
        if (x[1] == 0 || (x[0] == INT64_MIN && x[1] == -1))
            return false;
        *ret = opcode == ECH_HLO_DIVIDE ? x[0] / x[1] : x[0] % x[1];
        return true;
    default: return false;
    }
}

static void apply_all(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    const EchShape *shape = &p->shapes[i->shape];
    const Known *given[MAX_JOINED];
    size_t n = 0;
    const char *direction = i->opcode == ECH_HLO_COMPARE ? ech_program_attribute(i, "direction", &n) : "EQ";
    bool whole = i->n_operands > 0 && i->n_operands <= MAX_JOINED && direction && (i->opcode != ECH_HLO_COMPARE || n == 2);
    for (uint32_t k = 0; whole && k < i->n_operands; k++) {
        given[k] = look(s, operand(p, id, k));
        whole = given[k] && (given[k]->values->len == 1 || given[k]->values->len == shape->count);
        ret->by_argument |= whole && given[k]->by_argument;
    }
    int64_t *values = whole ? make(s, shape->count, ret) : NULL;
    for (size_t e = 0; values && e < shape->count; e++) {
        int64_t x[MAX_JOINED] = {0}, value;
        for (uint32_t k = 0; k < i->n_operands; k++)
            x[k] = at(given[k], e);
        if (!apply((EchHlo)i->opcode, direction, x, &value)) {
            forget(ret);
            return;
        }
        if (i->opcode == ECH_HLO_NOT && shape->dtype == ECH_DTYPE_PRED)
            value = !x[0];
        values[e] = fitted(shape, value);
    }
}

static bool is_row(const EchProgram *p, EchId id)
{
    const EchLayout *layout = id != ECH_NONE ? ech_program_layout(p, p->instructions[id].shape) : NULL;
    return layout && layout->rank == 1;
}

/* Rows of numbers, cut, joined and written over. */
static void move_all(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    uint64_t count = p->shapes[i->shape].count;
    const Known *from = look(s, operand(p, id, 0)), *second = i->n_operands > 1 ? look(s, operand(p, id, 1)) : NULL;
    int64_t numbers[MAX_JOINED] = {0, 0, 1};
    size_t n = 0;
    if (!from || !is_row(p, id) || !is_row(p, operand(p, id, 0)))
        return;
    uint64_t len = from->values->len;
    ret->by_argument = from->by_argument || (second && second->by_argument);
    if (i->opcode == ECH_HLO_SLICE) {
        const char *text = ech_program_attribute(i, "slice", &n);
        size_t found = text ? ech_program_numbers(text, n, numbers, 3) : 0;
        bool inside = (found == 2 || found == 3) && numbers[0] >= 0 && numbers[2] >= 1 && numbers[2] <= MAX_ELEMENTS && (uint64_t)numbers[0] < len &&
                      count <= (len - (uint64_t)numbers[0] - 1) / (uint64_t)numbers[2] + 1;
        int64_t *values = inside ? make(s, count, ret) : NULL;
        for (uint64_t e = 0; values && e < count; e++)
            values[e] = g_array_index(from->values, int64_t, (uint64_t)numbers[0] + e * (uint64_t)numbers[2]);
    } else if (i->opcode == ECH_HLO_DYNAMIC_SLICE) {
        bool inside = second && second->values->len == 1 && count <= len;
        int64_t begin = inside ? CLAMP(at(second, 0), 0, (int64_t)(len - count)) : 0;
        int64_t *values = inside ? make(s, count, ret) : NULL;
        for (uint64_t e = 0; values && e < count; e++)
            values[e] = g_array_index(from->values, int64_t, (uint64_t)begin + e);
    } else if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE) {
        const Known *where = look(s, operand(p, id, 2));
        bool inside = second && where && where->values->len == 1 && second->values->len <= len && count == len;
        int64_t begin = inside ? CLAMP(at(where, 0), 0, (int64_t)(len - second->values->len)) : 0;
        ret->by_argument |= where && where->by_argument;
        int64_t *values = inside ? make(s, count, ret) : NULL;
        for (uint64_t e = 0; values && e < count; e++) {
            bool over = (int64_t)e >= begin && e - (uint64_t)begin < second->values->len;
            values[e] = over ? g_array_index(second->values, int64_t, e - (uint64_t)begin) : g_array_index(from->values, int64_t, e);
        }
    } else { /* pad: LOW_HIGH */
        const char *text = ech_program_attribute(i, "padding", &n);
        size_t found = text ? ech_program_numbers(text, n, numbers, 3) : 0;
        bool inside = second && second->values->len == 1 && found == 2 && numbers[0] >= 0 && numbers[1] >= 0 && numbers[0] <= MAX_ELEMENTS &&
                      numbers[1] <= MAX_ELEMENTS && count == len + (uint64_t)numbers[0] + (uint64_t)numbers[1];
        int64_t *values = inside ? make(s, count, ret) : NULL;
        for (uint64_t e = 0; values && e < count; e++) {
            bool own = e >= (uint64_t)numbers[0] && e - (uint64_t)numbers[0] < len;
            values[e] = own ? g_array_index(from->values, int64_t, e - (uint64_t)numbers[0]) : at(second, 0);
        }
    }
}

static void join(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    uint64_t count = p->shapes[i->shape].count, filled = 0;
    int64_t *values = is_row(p, id) ? make(s, count, ret) : NULL;
    for (uint32_t k = 0; values && k < i->n_operands; k++) {
        const Known *part = look(s, operand(p, id, k));
        if (!part || part->values->len > count - filled) {
            forget(ret);
            return;
        }
        memcpy(values + filled, part->values->data, part->values->len * sizeof(int64_t));
        filled += part->values->len;
        ret->by_argument |= part->by_argument;
    }
    if (values && filled != count)
        forget(ret);
}

static void compute(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    const EchShape *shape = &p->shapes[i->shape];
    if (i->opcode == ECH_HLO_COPY_START) { /* a pair of arrays */
        take(s, operand(p, id, 0), ret);
        return;
    }
    if (!holds_integers(shape))
        return;
    switch ((int)i->opcode) {
    case ECH_HLO_CONSTANT: read_literal(s, i, ret); break;
    case ECH_HLO_PARAMETER: {
        EchId caller = s->callers[i->computation];
        if (i->literal) {
            read_literal(s, i, ret);
            ret->by_argument = true;
        } else if (i->number >= 0 && (is_opcode(p, caller, ECH_HLO_FUSION) || is_opcode(p, caller, ECH_HLO_CALL)))
            take(s, operand(p, caller, (uint32_t)MIN(i->number, (int64_t)UINT32_MAX)), ret);
        break;
    }
    case ECH_HLO_COPY:
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_BITCAST:
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_RESHAPE: take(s, operand(p, id, 0), ret); break;
    case ECH_HLO_CALL:
    case ECH_HLO_FUSION: take(s, root_of(p, i), ret); break;
    case ECH_HLO_GET_TUPLE_ELEMENT: {
        EchId tuple = operand(p, id, 0), member = ECH_NONE;
        for (unsigned hops = 0; tuple != ECH_NONE && member == ECH_NONE && hops < MAX_HOPS; hops++)
            member = member_behind(s, &tuple, i->number);
        take(s, member, ret);
        break;
    }
    case ECH_HLO_BROADCAST: {
        const Known *one = look(s, operand(p, id, 0));
        int64_t *values = one && one->values->len == 1 ? make(s, shape->count, ret) : NULL;
        for (uint64_t e = 0; values && e < shape->count; e++)
            values[e] = at(one, 0);
        ret->by_argument = one && one->by_argument;
        break;
    }
    case ECH_HLO_IOTA: {
        int64_t *values = is_row(p, id) ? make(s, shape->count, ret) : NULL;
        for (uint64_t e = 0; values && e < shape->count; e++)
            values[e] = (int64_t)e;
        break;
    }
    case ECH_HLO_SLICE:
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_PAD: move_all(s, id, ret); break;
    case ECH_HLO_CONCATENATE: join(s, id, ret); break;
    default: apply_all(s, id, ret); break;
    }
    if (ret->values && ret->values->len != shape->count)
        forget(ret);
}

static const Known *look(EchIntegers *s, EchId id)
{
    if (id == ECH_NONE)
        return NULL;
    Known *known = g_hash_table_lookup(s->known, GUINT_TO_POINTER(id + 1));
    if (!known) { /* not known while it is looked for */
        known = g_new0(Known, 1);
        g_hash_table_insert(s->known, GUINT_TO_POINTER(id + 1), known);
        s->depth++;
        if (s->depth < MAX_DEPTH)
            compute(s, id, known);
        s->depth--;
    }
    return known->values ? known : NULL;
}

const GArray *ech_integers_of(EchIntegers *s, EchId instruction, bool *ret_by_argument)
{
    const Known *known = look(s, instruction);
    if (ret_by_argument)
        *ret_by_argument = known && known->by_argument;
    return known ? known->values : NULL;
}
