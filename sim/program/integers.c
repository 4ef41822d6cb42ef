/** @file integers.c  Integers that arrays hold: constants, arguments that are known, a device's own number, and what programs compute of those by plain
 * operations, before they give them to kernels that choose their steps by them. */
#include "sim/program/private.h"

#include <string.h>

#define NO_DEVICE UINT32_MAX
enum { MAX_HOPS = 64, MAX_DEPTH = 256, MAX_ELEMENTS = 65536, MAX_TOTAL = 1 << 24, MAX_JOINED = 3 };

typedef struct {
    GArray *values; /* Of int64_t, row by row; NULL: not known. Owned. */
    uint64_t made;  /* elements of them that are nobody else's */
    unsigned by;    /* ECH_BY_ARGUMENT, ECH_BY_DEVICE, or why they are not known */
} Known;

struct EchIntegers {
    const EchProgram *program;
    EchId *callers;    /* Of each computation: the only instruction that runs it, or ECH_NONE. */
    GHashTable *known; /* instruction + 1 -> Known, owned */
    uint64_t total;    /* elements of what is known */
    uint32_t device;   /* of those that the module is for; NO_DEVICE: any */
    unsigned depth;
    unsigned by; /* of all that is looked at for what is being computed */
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
    s->device = NO_DEVICE;
    return s;
}

static gboolean is_of_another(gpointer key, gpointer value, gpointer data)
{
    (void)key;
    const Known *known = value;
    EchIntegers *s = data;
    s->total -= known->by & ECH_BY_DEVICE ? known->made : 0;
    return (known->by & ECH_BY_DEVICE) != 0;
}

void ech_integers_set_device(EchIntegers *s, uint32_t device)
{
    if (s->device == device)
        return;
    g_hash_table_foreach_remove(s->known, is_of_another, s);
    s->device = device;
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
    ret->made = n;
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
    if (other)
        ret->values = g_array_ref(other->values);
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

static const EchLayout *layout_of(const EchProgram *p, EchId id)
{
    const EchLayout *layout = id != ECH_NONE ? ech_program_layout(p, p->instructions[id].shape) : NULL;
    return layout && layout->rank <= ECH_LAYOUT_MAX_RANK ? layout : NULL;
}

/* Elements of a row-major array, every so many of each dimension. */
typedef struct {
    int64_t begin; /* place of the first */
    int64_t steps[ECH_LAYOUT_MAX_RANK];
} Box;

/* All of an array that is not too large to be known. */
static Box whole_box(const EchLayout *of)
{
    Box box = {0};
    int64_t step = 1;
    for (unsigned d = of->rank; d-- > 0;) {
        box.steps[d] = step;
        step *= (int64_t)of->dims[d];
    }
    return box;
}

/* Elements of a box as an array of @dims, one after the other, or those of such an array where the box has them. */
static void move_box(const EchLayout *dims, const Box *box, int64_t *inside, int64_t *row, bool into)
{
    uint64_t at[ECH_LAYOUT_MAX_RANK] = {0};
    int64_t place = box->begin;
    for (uint64_t e = 0, n = ech_layout_elements(dims); e < n; e++) {
        if (into)
            inside[place] = row[e];
        else
            row[e] = inside[place];
        for (unsigned d = dims->rank; d-- > 0;) {
            place += box->steps[d];
            if (++at[d] < dims->dims[d])
                break;
            place -= (int64_t)dims->dims[d] * box->steps[d];
            at[d] = 0;
        }
    }
}

/* Narrows a box to where operands from @first on say that @part of @of begins; false where they are not known or too few. */
static bool begin_dynamic(EchIntegers *s, EchId id, uint32_t first, const EchLayout *of, const EchLayout *part, Box *box)
{
    if (part->rank != of->rank || s->program->instructions[id].n_operands != first + of->rank)
        return false;
    bool known = true;
    for (unsigned d = 0; d < of->rank; d++) {
        const Known *begin = look(s, operand(s->program, id, first + d));
        known = known && begin && begin->values->len == 1 && part->dims[d] <= of->dims[d];
        box->begin += known ? CLAMP(at(begin, 0), 0, (int64_t)(of->dims[d] - part->dims[d])) * box->steps[d] : 0;
    }
    return known;
}

/* As "{[1:4:2], [0:8]}" says. */
static bool begin_static(const EchInstruction *i, const EchLayout *of, const EchLayout *part, Box *box)
{
    int64_t ranges[ECH_LAYOUT_MAX_RANK][3];
    if (part->rank != of->rank || ech_program_slice_ranges(i, ranges, of->rank) != of->rank)
        return false;
    for (unsigned d = 0; d < of->rank; d++) {
        int64_t begin = ranges[d][0], step = ranges[d][2], last = (int64_t)MIN(part->dims[d], (uint64_t)MAX_ELEMENTS) - 1;
        if (begin < 0 || step < 1 || step > MAX_ELEMENTS || begin > MAX_ELEMENTS || begin + last * step >= (int64_t)of->dims[d])
            return false;
        box->begin += begin * box->steps[d];
        box->steps[d] *= step;
    }
    return true;
}

/* LOW_HIGH or LOW_HIGH_BETWEEN of each dimension. */
static bool begin_padded(const EchInstruction *i, const EchLayout *of, const EchLayout *part, Box *box)
{
    int64_t padding[3 * ECH_LAYOUT_MAX_RANK + 1];
    size_t found = ech_program_attribute_numbers(i, "padding", padding, G_N_ELEMENTS(padding));
    if (part->rank != of->rank || (found != 2u * of->rank && found != 3u * of->rank) || of->rank == 0)
        return false;
    size_t each = found / of->rank;
    for (unsigned d = 0; d < of->rank; d++) {
        const int64_t *p = padding + d * each;
        int64_t between = each == 3 ? p[2] : 0, last = (int64_t)MIN(part->dims[d], (uint64_t)MAX_ELEMENTS) - 1;
        if (p[0] < 0 || between < 0 || p[0] > MAX_ELEMENTS || between > MAX_ELEMENTS || p[0] + last * (between + 1) >= (int64_t)of->dims[d])
            return false;
        box->begin += p[0] * box->steps[d];
        box->steps[d] *= between + 1;
    }
    return true;
}

/* Dimension dimensions[d] of a broadcast's result is dimension d of what it spreads; of a transposition's operand, dimension d of the result. */
static bool turn(const EchInstruction *i, const EchLayout *from, const EchLayout *to, Box *box)
{
    int64_t named[ECH_LAYOUT_MAX_RANK + 1];
    size_t found = ech_program_attribute_numbers(i, "dimensions", named, G_N_ELEMENTS(named));
    bool spread = i->opcode == ECH_HLO_BROADCAST;
    Box turned = {0};
    if (found != from->rank || (!spread && to->rank != from->rank))
        return false;
    for (unsigned d = 0; d < from->rank; d++) {
        if (named[d] < 0 || named[d] >= to->rank)
            return false;
        unsigned in = spread ? d : (unsigned)named[d], out = spread ? (unsigned)named[d] : d;
        if (to->dims[out] != from->dims[in])
            return false;
        turned.steps[out] = box->steps[in];
    }
    *box = turned;
    return true;
}

/* Numbers cut out, spread and turned round. */
static void take_box(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    const Known *given = look(s, operand(p, id, 0));
    const EchLayout *from = layout_of(p, operand(p, id, 0)), *to = layout_of(p, id);
    if (!given || !from || !to)
        return;
    Box box = whole_box(from);
    bool inside = i->opcode == ECH_HLO_SLICE           ? begin_static(i, from, to, &box)
                  : i->opcode == ECH_HLO_DYNAMIC_SLICE ? begin_dynamic(s, id, 1, from, to, &box)
                                                       : turn(i, from, to, &box);
    int64_t *values = inside ? make(s, p->shapes[i->shape].count, ret) : NULL;
    if (values)
        move_box(to, &box, &g_array_index(given->values, int64_t, 0), values, false);
}

/* Numbers written over, or laid among others. */
static void put_box(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    bool pads = i->opcode == ECH_HLO_PAD;
    const Known *under = look(s, operand(p, id, pads ? 1 : 0)), *over = look(s, operand(p, id, pads ? 0 : 1));
    const EchLayout *part = layout_of(p, operand(p, id, pads ? 0 : 1)), *to = layout_of(p, id);
    uint64_t count = p->shapes[i->shape].count;
    if (!under || !over || !part || !to || count > MAX_ELEMENTS || (under->values->len != 1 && under->values->len != count))
        return;
    Box box = whole_box(to);
    bool inside = pads ? begin_padded(i, to, part, &box) : begin_dynamic(s, id, 2, to, part, &box);
    int64_t *values = inside ? make(s, count, ret) : NULL;
    for (uint64_t e = 0; values && e < count; e++)
        values[e] = at(under, e);
    if (values)
        move_box(part, &box, values, &g_array_index(over->values, int64_t, 0), true);
}

/* The one dimension of @to that an attribute names; -1: none. */
static int64_t dimension_of(const EchInstruction *i, const char *name, const EchLayout *to)
{
    int64_t named[2];
    bool told = to && ech_program_attribute_numbers(i, name, named, G_N_ELEMENTS(named)) == 1 && named[0] >= 0 && named[0] < to->rank;
    return told ? named[0] : -1;
}

static void join(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *to = layout_of(p, id);
    int64_t along = dimension_of(i, "dimensions", to);
    if (along < 0)
        return;
    uint64_t filled = 0;
    int64_t *values = make(s, p->shapes[i->shape].count, ret);
    for (uint32_t k = 0; values && k < i->n_operands; k++) {
        const Known *known = look(s, operand(p, id, k));
        const EchLayout *part = layout_of(p, operand(p, id, k));
        bool fits = known && part && part->rank == to->rank && part->dims[along] <= to->dims[along] - filled;
        for (unsigned d = 0; fits && d < to->rank; d++)
            fits = d == along || part->dims[d] == to->dims[d];
        if (!fits) {
            forget(ret);
            return;
        }
        Box box = whole_box(to);
        box.begin = (int64_t)filled * box.steps[along];
        move_box(part, &box, values, &g_array_index(known->values, int64_t, 0), true);
        filled += part->dims[along];
    }
    if (values && filled != to->dims[along])
        forget(ret);
}

/* 0, 1, 2, ... along one dimension. */
static void count_up(EchIntegers *s, EchId id, Known *ret)
{
    const EchProgram *p = s->program;
    const EchInstruction *i = &p->instructions[id];
    const EchLayout *to = layout_of(p, id);
    int64_t along = dimension_of(i, "iota_dimension", to);
    int64_t *values = along >= 0 ? make(s, p->shapes[i->shape].count, ret) : NULL;
    Box box = values ? whole_box(to) : (Box){0};
    for (uint64_t e = 0; values && e < ret->values->len; e++)
        values[e] = (int64_t)(e / (uint64_t)box.steps[along] % to->dims[along]);
}

/* Whether the bits of one array, as they lie, are another array's elements in order. */
static bool lies_in_order(const EchProgram *p, EchId id)
{
    const EchLayout *layout = layout_of(p, id);
    unsigned outer = layout ? layout->rank : 0;
    for (unsigned d = 0; layout && d < layout->rank; d++) {
        unsigned dim = layout->order[d];
        if (layout->dims[dim] == 1)
            continue;
        if (dim >= outer)
            return false;
        outer = dim;
    }
    return layout != NULL;
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
            s->by |= ECH_BY_ARGUMENT;
        } else if (i->number >= 0 && (is_opcode(p, caller, ECH_HLO_FUSION) || is_opcode(p, caller, ECH_HLO_CALL)))
            take(s, operand(p, caller, (uint32_t)MIN(i->number, (int64_t)UINT32_MAX)), ret);
        break;
    }
    case ECH_HLO_PARTITION_ID:
    case ECH_HLO_REPLICA_ID: {
        int64_t *value = s->device != NO_DEVICE ? make(s, shape->count, ret) : NULL;
        if (value)
            value[0] = i->opcode == ECH_HLO_PARTITION_ID ? s->device % p->partitions : s->device / p->partitions;
        s->by |= ECH_BY_DEVICE;
        break;
    }
    case ECH_HLO_BITCAST: {
        EchId other = operand(p, id, 0);
        if (other != ECH_NONE && p->shapes[p->instructions[other].shape].dtype == shape->dtype && lies_in_order(p, id) && lies_in_order(p, other))
            take(s, other, ret);
        break;
    }
    case ECH_HLO_COPY:
    case ECH_HLO_COPY_DONE:
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
    case ECH_HLO_IOTA: count_up(s, id, ret); break;
    case ECH_HLO_BROADCAST:
    case ECH_HLO_TRANSPOSE:
    case ECH_HLO_SLICE:
    case ECH_HLO_DYNAMIC_SLICE: take_box(s, id, ret); break;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_PAD: put_box(s, id, ret); break;
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
        unsigned by = s->by;
        s->by = 0;
        s->depth++;
        if (s->depth < MAX_DEPTH)
            compute(s, id, known);
        s->depth--;
        known->by = s->by;
        s->by = by;
    }
    s->by |= known->by;
    return known->values ? known : NULL;
}

GArray *ech_integers_of(EchIntegers *s, EchId instruction, unsigned *ret_by)
{
    const Known *known = look(s, instruction);
    if (ret_by)
        *ret_by = known ? known->by : 0;
    return known ? known->values : NULL;
}
