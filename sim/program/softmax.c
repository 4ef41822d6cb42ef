/* What softmaxes are taken of: products whose results, by their numbers of elements, are given to an exponential and to a sum. */
#include "sim/program/softmax.h"

#include "sim/base/hash.h"
#include "sim/program/private.h"

#include <math.h>

/* What arrays of one number of elements are given to. */
typedef struct {
    bool exponentials, sums, maxima;
    uint64_t row;  /* Elements that one maximum is of, the most; 0: none. */
    uint64_t last; /* Elements along the last dimension of what an exponential is given. */
} Given;

static void note_reduction(const EchProgram *p, const EchInstruction *reduce, Given *given)
{
    given->sums = true;
    if (reduce->opcode != ECH_HLO_REDUCE || reduce->n_called == 0 ||
        p->instructions[p->computations[ech_program_called(p, reduce, 0)].root].opcode != ECH_HLO_MAXIMUM)
        return;
    const EchLayout *layout = ech_program_layout(p, p->instructions[ech_program_operand(p, reduce, 0)].shape);
    int64_t dims[ECH_LAYOUT_MAX_RANK];
    size_t n = layout ? ech_program_attribute_numbers(reduce, "dimensions", dims, ECH_LAYOUT_MAX_RANK) : 0;
    uint64_t row = 1;
    for (size_t k = 0; k < n; k++)
        row *= dims[k] >= 0 && dims[k] < layout->rank ? (uint64_t)layout->dims[dims[k]] : 1;
    given->maxima = true;
    given->row = MAX(given->row, row);
}

/* Elements of arrays that exponentials and reductions are given, uint64_t to Given. */
static GHashTable *given_of(const EchProgram *p)
{
    GHashTable *all = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    for (EchId i = 0; i < p->n_instructions; i++) {
        const EchInstruction *at = &p->instructions[i];
        bool reduces = at->opcode == ECH_HLO_REDUCE || at->opcode == ECH_HLO_REDUCE_WINDOW;
        if ((!reduces && at->opcode != ECH_HLO_EXPONENTIAL) || at->n_operands == 0)
            continue;
        uint64_t count = p->shapes[p->instructions[ech_program_operand(p, at, 0)].shape].count;
        Given *given = g_hash_table_lookup(all, &count);
        if (!given) {
            given = g_new0(Given, 1);
            g_hash_table_insert(all, g_memdup2(&count, sizeof count), given);
        }
        if (reduces) {
            note_reduction(p, at, given);
            continue;
        }
        const EchLayout *layout = ech_program_layout(p, p->instructions[ech_program_operand(p, at, 0)].shape);
        given->exponentials = true;
        given->last = layout && layout->rank > 0 ? MAX(given->last, (uint64_t)layout->dims[layout->rank - 1]) : given->last;
    }
    return all;
}

/* Elements of arrays that most rows are taken of, "logits[:, :-1]" before a loss say, to those of what is taken: uint64_t each. Rows stay whole. */
static GHashTable *cut_rows(const EchProgram *p, GHashTable *given)
{
    GHashTable *all = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    for (EchId i = 0; i < p->n_instructions; i++) {
        const EchInstruction *at = &p->instructions[i];
        if (at->opcode != ECH_HLO_SLICE || at->n_operands != 1)
            continue;
        EchId operand = p->instructions[ech_program_operand(p, at, 0)].shape;
        uint64_t of = p->shapes[operand].count, taken = p->shapes[at->shape].count;
        const EchLayout *from = ech_program_layout(p, operand), *to = ech_program_layout(p, at->shape);
        const Given *by = of > taken && taken > of / 2 ? g_hash_table_lookup(given, &taken) : NULL;
        bool whole = false;
        for (unsigned d = 0; by && from && to && d < MIN(from->rank, to->rank); d++)
            whole |= from->dims[d] == to->dims[d] && ((uint64_t)to->dims[d] == by->row || (uint64_t)to->dims[d] == by->last);
        if (whole)
            g_hash_table_insert(all, g_memdup2(&of, sizeof of), g_memdup2(&taken, sizeof taken));
    }
    return all;
}

/* Elements of a row of the result of a product without batch dimensions: one of its sides, that its maxima are of, or where those are found in parts (GPUs) its
 * exponentials' last dimension; else 0. */
static uint64_t classes_of(const EchProgram *p, const EchInstruction *product, uint64_t count, const Given *given)
{
    const uint64_t rows[] = {given->row, given->last};
    double side[2];
    for (uint32_t k = 0; k < 2; k++)
        side[k] = (double)p->shapes[p->instructions[ech_program_operand(p, product, k)].shape].count;
    double summed = sqrt(side[0] * side[1] / (double)count); /* elements that each element of the result is a sum of */
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t k = 0; k < 2; k++)
            if (fabs(side[k] / summed - (double)rows[r]) < 0.5)
                return rows[r];
    return 0;
}

GArray *ech_program_softmaxes(const EchProgram *program)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(EchSoftmax));
    g_autoptr(GHashTable) all = given_of(program), cut = cut_rows(program, all);
    for (EchId i = 0; i < program->n_instructions; i++) {
        const EchInstruction *at = &program->instructions[i];
        EchDtype dtype;
        if ((at->opcode != ECH_HLO_DOT && at->opcode != ECH_HLO_CONVOLUTION && at->opcode != ECH_HLO_CUSTOM_CALL) || at->n_operands < 2)
            continue;
        uint64_t count = program->shapes[ech_program_first_array(program, at->shape)].count; /* a library's scratch is behind it */
        bool larger = true;
        for (uint32_t k = 0; k < 2; k++)
            larger &= count / 2 >= program->shapes[program->instructions[ech_program_operand(program, at, k)].shape].count;
        const Given *given = larger ? g_hash_table_lookup(all, &count) : NULL;
        const uint64_t *taken = larger && (!given || !given->exponentials) ? g_hash_table_lookup(cut, &count) : NULL;
        given = taken ? g_hash_table_lookup(all, taken) : given;
        if (!given || !given->exponentials || !given->sums)
            continue;
        EchProduct product = ech_program_product(program, i, 0, &dtype);
        EchSoftmax softmax = {.elements = count};
        if (product == ECH_PRODUCT_RESULT && given->maxima)
            softmax.classes = classes_of(program, at, count, given);
        if ((product == ECH_PRODUCT_BATCH && !taken) || softmax.classes > 0) {
            EchSoftmax rows = {.elements = taken ? *taken : 0, .classes = softmax.classes};
            g_array_append_val(found, softmax);
            if (taken)
                g_array_append_val(found, rows);
            g_hash_table_remove(all, taken ? taken : &count); /* once is enough */
        }
    }
    return found;
}
