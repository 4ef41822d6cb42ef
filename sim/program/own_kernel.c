/** @file own_kernel.c  Kernels that the program brings along (Pallas): their code found, with what is known of the arrays it works on, and read. */
#include "sim/program/mosaic.h"
#include "sim/program/private.h"

#include <string.h>

enum { MAX_ARRAYS = 128 };

bool ech_program_is_own_kernel(const EchInstruction *instruction)
{
    return instruction->opcode == ECH_HLO_CUSTOM_CALL && instruction->target && strcmp(instruction->target, "tpu_custom_call") == 0;
}

const EchKernelGrid *ech_program_grid(const EchProgram *program, EchId instruction)
{
    uint32_t grid = program->instructions[instruction].grid;
    return grid > 0 ? &program->grids[grid - 1] : NULL;
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

/* @integers: of the program, which the code borrows. */
static bool read_call(const EchProgram *p, EchId id, EchIntegers *integers, Code *ret)
{
    const EchInstruction *i = &p->instructions[id];
    Code code = {.n_operands = i->n_operands};
    code.body = ech_program_config(i, "custom_call_config.body", &code.body_n);
    if (!code.body || i->n_operands > MAX_ARRAYS)
        return false;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId array = ech_program_operand(p, i, k);
        add_array(p, p->instructions[array].shape, ech_integers_of(integers, array, NULL), &code);
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
    g_autoptr(EchIntegers) integers = NULL;
    uint64_t visits = ECH_MOSAIC_VISITS;
    for (size_t i = 0; i < p->n_instructions; i++) {
        EchInstruction *instruction = &p->instructions[i];
        instruction->grid = 0;
        if (!ech_program_is_own_kernel(instruction))
            continue;
        integers = integers ? integers : ech_integers_new(p);
        Code code;
        if (!read_call(p, (EchId)i, integers, &code))
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

/* Whether a kernel of the program's own is given what one of its parameters holds or what is computed of it, or a conditional goes by that. */
static bool goes_by_arguments(const EchProgram *p)
{
    g_autoptr(EchIntegers) integers = ech_integers_new(p);
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        uint32_t n = ech_program_is_own_kernel(instruction) ? instruction->n_operands : instruction->opcode == ECH_HLO_CONDITIONAL ? 1 : 0;
        for (uint32_t k = 0; k < MIN(n, instruction->n_operands); k++) {
            bool by_argument;
            if (ech_integers_of(integers, ech_program_operand(p, instruction, k), &by_argument) && by_argument)
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
