/** @file own_kernel.c  Kernels that the program brings along (Pallas): their code found, with what is known of the arrays it works on, and read. */
#include "sim/program/mosaic.h"
#include "sim/program/private.h"

#include <string.h>

enum { MAX_HOPS = 64, MAX_ARRAYS = 128, MAX_ELEMENTS = 65536 };

bool ech_program_is_own_kernel(const EchInstruction *instruction)
{
    return instruction->opcode == ECH_HLO_CUSTOM_CALL && instruction->target && strcmp(instruction->target, "tpu_custom_call") == 0;
}

const EchKernelGrid *ech_program_grid(const EchProgram *program, EchId instruction)
{
    uint32_t grid = program->instructions[instruction].grid;
    return grid > 0 ? &program->grids[grid - 1] : NULL;
}

/* The loop or call that runs each computation. */
static EchId *callers_of(const EchProgram *p)
{
    EchId *callers = g_new(EchId, MAX(p->n_computations, 1));
    for (size_t c = 0; c < p->n_computations; c++)
        callers[c] = ECH_NONE;
    for (size_t i = 0; i < p->n_instructions; i++)
        for (uint32_t k = 0; k < p->instructions[i].n_called; k++)
            callers[ech_program_called(p, &p->instructions[i], k)] = (EchId)i;
    return callers;
}

static EchId operand(const EchProgram *p, EchId id, uint32_t k)
{
    return k < p->instructions[id].n_operands ? ech_program_operand(p, &p->instructions[id], k) : ECH_NONE;
}

/* Whether a loop hands on member @index of its tuple as it came. */
static bool is_invariant(const EchProgram *p, EchId body, EchId parameter, int64_t index)
{
    EchId root = p->computations[body].root;
    if (root == ECH_NONE || p->instructions[root].opcode != ECH_HLO_TUPLE || index < 0)
        return false;
    EchId member = operand(p, root, (uint32_t)index);
    return member != ECH_NONE && p->instructions[member].opcode == ECH_HLO_GET_TUPLE_ELEMENT && p->instructions[member].number == index &&
           operand(p, member, 0) == parameter;
}

/* Where member @index of the tuple @id comes from: one step back, through loops that do not change it. */
static EchId member_behind(const EchProgram *p, const EchId *callers, EchId *id, int64_t index)
{
    const EchInstruction *i = &p->instructions[*id];
    switch ((int)i->opcode) {
    case ECH_HLO_TUPLE: return index >= 0 ? operand(p, *id, (uint32_t)index) : ECH_NONE;
    case ECH_HLO_OPTIMIZATION_BARRIER: *id = operand(p, *id, 0); return ECH_NONE;
    case ECH_HLO_WHILE: {
        EchId body = i->n_called > 0 ? ech_program_called(p, i, i->n_called - 1) : ECH_NONE, parameter = ECH_NONE;
        for (uint32_t k = 0; body != ECH_NONE && k < p->computations[body].n; k++)
            if (p->instructions[p->computations[body].first + k].opcode == ECH_HLO_PARAMETER)
                parameter = p->computations[body].first + k;
        *id = parameter != ECH_NONE && is_invariant(p, body, parameter, index) ? operand(p, *id, 0) : ECH_NONE;
        return ECH_NONE;
    }
    case ECH_HLO_PARAMETER: {
        EchId caller = callers[i->computation];
        bool loop = caller != ECH_NONE && p->instructions[caller].opcode == ECH_HLO_WHILE;
        bool kept = loop && is_invariant(p, i->computation, *id, index);
        *id = kept ? operand(p, caller, 0) : ECH_NONE;
        return ECH_NONE;
    }
    default: *id = ECH_NONE; return ECH_NONE;
    }
}

/* The constant that an array is, or the argument whose contents are known, copies and loops between them; ECH_NONE for others. */
static EchId constant_behind(const EchProgram *p, const EchId *callers, EchId id)
{
    for (unsigned hops = 0; id != ECH_NONE && hops < MAX_HOPS; hops++) {
        const EchInstruction *i = &p->instructions[id];
        switch ((int)i->opcode) {
        case ECH_HLO_PARAMETER:
        case ECH_HLO_CONSTANT: return i->literal || i->has_literal ? id : ECH_NONE;
        case ECH_HLO_COPY:
        case ECH_HLO_COPY_START:
        case ECH_HLO_COPY_DONE:
        case ECH_HLO_BITCAST:
        case ECH_HLO_RESHAPE: id = operand(p, id, 0); break;
        case ECH_HLO_GET_TUPLE_ELEMENT: {
            EchId tuple = operand(p, id, 0), member = ECH_NONE;
            for (; tuple != ECH_NONE && member == ECH_NONE && hops < MAX_HOPS; hops++)
                member = member_behind(p, callers, &tuple, i->number);
            id = member;
            break;
        }
        default: return ECH_NONE;
        }
    }
    return ECH_NONE;
}

/* Its numbers; NULL for one that is large, that holds no integers, or that says more or fewer than its shape has. */
static GArray *contents(const EchProgram *p, const EchInstruction *constant)
{
    const EchShape *shape = &p->shapes[constant->shape];
    const char *dtype = shape->is_tuple ? "" : ech_dtype_name((EchDtype)shape->dtype);
    size_t n = constant->has_literal ? 1 : ech_program_numbers(constant->literal, constant->literal_n, NULL, 0);
    if (n == 0 || n > MAX_ELEMENTS || n != shape->count || !(dtype[0] == 's' || dtype[0] == 'u' || strcmp(dtype, "pred") == 0))
        return NULL;
    GArray *values = g_array_sized_new(FALSE, FALSE, sizeof(int64_t), (guint)n);
    g_array_set_size(values, (guint)n);
    if (constant->has_literal)
        g_array_index(values, int64_t, 0) = constant->number;
    else
        (void)ech_program_numbers(constant->literal, constant->literal_n, &g_array_index(values, int64_t, 0), n);
    return values;
}

typedef struct {
    const char *body;
    size_t body_n, n_arrays, n_operands;
    EchMosaicArray arrays[MAX_ARRAYS];
} Code;

static bool same_code(const Code *a, const Code *b)
{
    if (a->body_n != b->body_n || a->n_arrays != b->n_arrays || a->n_operands != b->n_operands || memcmp(a->body, b->body, a->body_n) != 0)
        return false;
    for (size_t i = 0; i < a->n_arrays; i++) {
        const EchMosaicArray *x = &a->arrays[i], *y = &b->arrays[i];
        if (x->on_chip != y->on_chip || x->rank != y->rank || (x->rank > 0 && memcmp(x->dims, y->dims, x->rank * sizeof(uint64_t)) != 0) || x->n != y->n ||
            (x->n > 0 && memcmp(x->values, y->values, x->n * sizeof(int64_t)) != 0))
            return false;
    }
    return true;
}

static void add_array(const EchProgram *p, EchId shape, const GArray *values, Code *code)
{
    const EchLayout *layout = ech_program_layout(p, shape);
    if (code->n_arrays < MAX_ARRAYS)
        code->arrays[code->n_arrays++] = (EchMosaicArray){.values = values ? (const int64_t *)(const void *)values->data : NULL,
                                                          .n = values ? values->len : 0,
                                                          .dims = layout ? layout->dims : NULL,
                                                          .rank = layout ? layout->rank : 0,
                                                          .on_chip = layout && layout->space == ECH_SPACE_VECTOR};
}

/* Of a constant, looked at once; NULL as above. @known: constant + 1 -> its numbers, owned. */
static const GArray *contents_of(const EchProgram *p, EchId constant, GHashTable *known)
{
    gpointer found;
    if (!g_hash_table_lookup_extended(known, GUINT_TO_POINTER(constant + 1), NULL, &found)) {
        found = contents(p, &p->instructions[constant]);
        g_hash_table_insert(known, GUINT_TO_POINTER(constant + 1), found);
    }
    return found;
}

static void free_contents(gpointer contents)
{
    if (contents)
        g_array_unref(contents);
}

/* @known: the contents of constants, which the code borrows. */
static bool read_call(const EchProgram *p, EchId id, const EchId *callers, GHashTable *known, Code *ret)
{
    const EchInstruction *i = &p->instructions[id];
    Code code = {.n_operands = i->n_operands};
    code.body = ech_program_config(i, "custom_call_config.body", &code.body_n);
    if (!code.body || i->n_operands > MAX_ARRAYS)
        return false;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId array = operand(p, id, k), constant = constant_behind(p, callers, array);
        const GArray *values = constant != ECH_NONE ? contents_of(p, constant, known) : NULL;
        add_array(p, p->instructions[array].shape, values, &code);
    }
    for (uint32_t q = 0; q < p->shapes[i->shape].n_positions; q++) {
        EchId shape = ech_program_subshape(p, i->shape, q);
        if (!p->shapes[shape].is_tuple)
            add_array(p, shape, NULL, &code);
    }
    *ret = code;
    return true;
}

void ech_program_derive_grids(EchProgram *p)
{
    g_autoptr(GArray) grids = g_array_new(FALSE, FALSE, sizeof(EchKernelGrid)), codes = g_array_new(FALSE, FALSE, sizeof(Code));
    g_autoptr(GHashTable) known = g_hash_table_new_full(NULL, NULL, NULL, free_contents);
    uint64_t visits = ECH_MOSAIC_VISITS;
    g_autofree EchId *callers = NULL;
    for (size_t i = 0; i < p->n_instructions; i++) {
        EchInstruction *instruction = &p->instructions[i];
        instruction->grid = 0;
        if (!ech_program_is_own_kernel(instruction))
            continue;
        callers = callers ? callers : callers_of(p);
        Code code;
        if (!read_call(p, (EchId)i, callers, known, &code))
            continue;
        for (guint k = 0; k < codes->len && instruction->grid == 0; k++)
            if (same_code(&g_array_index(codes, Code, k), &code))
                instruction->grid = k + 1;
        if (instruction->grid > 0)
            continue;
        g_autofree char *text = g_strndup(code.body, code.body_n);
        size_t n = 0;
        g_autofree guchar *bytes = g_base64_decode(text, &n);
        EchKernelGrid grid;
        g_autoptr(GError) unread = NULL; /* such a kernel is told of where it is lowered */
        if (ech_mosaic_read(bytes, n, code.arrays, code.n_operands, code.n_arrays, &visits, &grid, &unread)) {
            g_array_append_val(grids, grid);
            g_array_append_val(codes, code);
            instruction->grid = grids->len;
        }
    }
    g_free(p->grids);
    p->grids = (EchKernelGrid *)(void *)g_array_free(g_steal_pointer(&grids), FALSE);
}

/* Whether a kernel of the program's own is given what one of its parameters holds. */
static bool goes_by_arguments(const EchProgram *p)
{
    g_autofree EchId *callers = callers_of(p);
    for (size_t i = 0; i < p->n_instructions; i++) {
        bool own = ech_program_is_own_kernel(&p->instructions[i]);
        for (uint32_t k = 0; own && k < p->instructions[i].n_operands; k++) {
            EchId known = constant_behind(p, callers, operand(p, (EchId)i, k));
            bool argument = known != ECH_NONE && p->instructions[known].opcode == ECH_HLO_PARAMETER;
            g_autoptr(GArray) values = argument ? contents(p, &p->instructions[known]) : NULL;
            if (values)
                return true;
        }
    }
    return false;
}

bool ech_program_set_arguments(EchProgram *p, const GPtrArray *texts)
{
    const EchComputation *entry = &p->computations[p->entry];
    bool any = false;
    for (uint32_t i = entry->first; i < entry->first + entry->n; i++) {
        EchInstruction *parameter = &p->instructions[i];
        const char *text = NULL;
        if (parameter->opcode == ECH_HLO_PARAMETER && parameter->number >= 0 && (uint64_t)parameter->number < texts->len)
            text = texts->pdata[parameter->number];
        if (!text)
            continue;
        GBytes *kept = g_bytes_new(text, strlen(text)); /* where programs that are made of this one find it, too */
        g_ptr_array_add(p->keep, kept);
        parameter->literal = g_bytes_get_data(kept, NULL);
        parameter->literal_n = (uint32_t)MIN(strlen(text), (size_t)UINT32_MAX);
        any = true;
    }
    if (!any || !goes_by_arguments(p))
        return false;
    ech_program_derive_grids(p);
    return true;
}
