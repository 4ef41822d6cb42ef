/* A schedule for programs that have none: XLA's list scheduler (what frees most bytes first), or the order of the file where that needs less.
 * Source: XLA's hlo_memory_scheduler (ListMemoryScheduler); the choice by simulated memory is its DefaultMemoryScheduler's. */
#include "sim/program/private.h"

#include "sim/base/error.h"

#include <string.h>

enum { MAX_LOOKED_AT = 512 };

typedef struct {
    const EchProgram *p;
    uint32_t *left;     /* per buffer: uses in this computation still to come */
    bool *stays;        /* per buffer: outlives the computation */
    uint32_t *waits;    /* per instruction: operands and control predecessors not scheduled yet */
    GArray **followers; /* per instruction of the computation: who waits for it */
} Lister;

static bool counts(const EchProgram *p, EchId v)
{
    const EchValue *value = &p->values[v];
    const EchValueBuffer *buffer = &p->buffers[value->buffer];
    return !buffer->is_tuple && !buffer->is_constant && !buffer->is_parameter;
}

/* What an instruction frees less what it makes. A buffer it works in place on is neither. */
static int64_t gain(const Lister *l, EchId i)
{
    const EchProgram *p = l->p;
    const EchInstruction *instruction = &p->instructions[i];
    int64_t sum = 0;
    EchId freed[8];
    unsigned n_freed = 0;
    for (uint32_t k = 0; k < instruction->n_operands; k++) {
        EchId operand = ech_program_operand(p, instruction, k);
        uint32_t n = p->shapes[p->instructions[operand].shape].n_positions;
        for (uint32_t q = 0; q < n; q++) {
            EchId v = ech_program_value(p, operand, q), b = p->values[v].buffer;
            bool seen = false;
            for (unsigned f = 0; f < n_freed; f++)
                seen |= freed[f] == b;
            if (seen || !counts(p, v) || l->stays[b] || l->left[b] != 1 || n_freed == G_N_ELEMENTS(freed))
                continue;
            freed[n_freed++] = b;
            sum += (int64_t)MIN(p->buffers[b].bytes, INT64_MAX / 64);
        }
    }
    for (uint32_t q = 0; q < p->shapes[instruction->shape].n_positions; q++) {
        EchId v = ech_program_value(p, i, q);
        if (p->values[v].defined.instruction == i && counts(p, v) && !l->stays[p->values[v].buffer])
            sum -= (int64_t)MIN(p->values[v].bytes, INT64_MAX / 64);
    }
    return sum;
}

static void follow(Lister *l, const EchComputation *c, EchId before, EchId after)
{
    GArray **list = &l->followers[before - c->first];
    if (!*list)
        *list = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(*list, after);
    l->waits[after]++;
}

static void take_uses(Lister *l, EchId i, int by)
{
    const EchProgram *p = l->p;
    const EchInstruction *instruction = &p->instructions[i];
    for (uint32_t k = 0; k < instruction->n_operands; k++) {
        EchId operand = ech_program_operand(p, instruction, k);
        for (uint32_t q = 0; q < p->shapes[p->instructions[operand].shape].n_positions; q++)
            l->left[p->values[ech_program_value(p, operand, q)].buffer] += (uint32_t)by;
    }
}

/* @order gets the instructions of @computation in their new order. */
static void list_computation(Lister *l, EchId computation, GArray *order)
{
    const EchProgram *p = l->p;
    const EchComputation *c = &p->computations[computation];
    l->followers = g_new0(GArray *, c->n + 1);
    for (EchId i = c->first; i < c->first + c->n; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        for (uint32_t k = 0; k < instruction->n_operands; k++)
            follow(l, c, ech_program_operand(p, instruction, k), i);
        for (uint32_t k = 0; k < instruction->n_control; k++) {
            EchId before = p->control[instruction->first_control + k];
            if (before >= c->first && before < c->first + c->n)
                follow(l, c, before, i);
        }
        take_uses(l, i, 1);
    }
    for (uint32_t q = 0; q < p->shapes[p->instructions[c->root].shape].n_positions; q++)
        l->stays[p->values[ech_program_value(p, c->root, q)].buffer] = true;
    g_autoptr(GArray) ready = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = c->first; i < c->first + c->n; i++) {
        if (l->waits[i] == 0)
            g_array_append_val(ready, i);
    }
    while (ready->len > 0) {
        guint best = 0;
        int64_t most = INT64_MIN;
        for (guint k = 0; k < MIN(ready->len, MAX_LOOKED_AT); k++) {
            EchId i = g_array_index(ready, EchId, k);
            EchHlo opcode = (EchHlo)p->instructions[i].opcode;
            int64_t value = opcode == ECH_HLO_PARAMETER || opcode == ECH_HLO_CONSTANT ? INT64_MAX : gain(l, i);
            if (value > most || (value == most && i < g_array_index(ready, EchId, best))) {
                most = value;
                best = k;
            }
        }
        EchId next = g_array_index(ready, EchId, best);
        g_array_remove_index_fast(ready, best);
        g_array_append_val(order, next);
        take_uses(l, next, -1);
        const GArray *followers = l->followers[next - c->first];
        for (guint k = 0; followers && k < followers->len; k++) {
            EchId after = g_array_index(followers, EchId, k);
            if (--l->waits[after] == 0)
                g_array_append_val(ready, after);
        }
    }
    for (uint32_t k = 0; k < c->n; k++)
        g_clear_pointer(&l->followers[k], g_array_unref);
    g_clear_pointer(&l->followers, g_free);
}

/* Instructions in @order: ids everywhere follow them. */
static void permute(EchProgram *p, const EchId *order)
{
    g_autofree EchId *place = g_new(EchId, p->n_instructions + 1);
    g_autofree EchInstruction *old = g_memdup2(p->instructions, p->n_instructions * sizeof *p->instructions);
    for (EchId k = 0; k < p->n_instructions; k++) {
        p->instructions[k] = old[order[k]];
        place[order[k]] = k;
    }
    for (size_t k = 0; k < p->n_operands; k++)
        p->operands[k] = place[p->operands[k]];
    for (size_t k = 0; k < p->n_control; k++)
        p->control[k] = place[p->control[k]];
    for (size_t c = 0; c < p->n_computations; c++)
        p->computations[c].root = place[p->computations[c].root];
}

static EchBytes needs(EchProgram *program)
{
    if (program->platform == ECH_PLATFORM_TPU && !program->chip)
        (void)ech_program_set_chip(program, "tpu-v5e", NULL);
    g_autoptr(EchDiag) unsaid = ech_diag_new();
    g_autoptr(EchProgramAssignment) made = ech_program_assign(program, 0, unsaid, NULL);
    return made ? made->peak : UINT64_MAX;
}

EchProgram *ech_program_schedule(EchProgram *program, EchDiag *diag, GError **error)
{
    g_autoptr(GArray) order = g_array_sized_new(FALSE, FALSE, sizeof(EchId), (guint)program->n_instructions);
    Lister l = {.p = program};
    l.left = g_new0(uint32_t, program->n_buffers + 1);
    l.stays = g_new0(bool, program->n_buffers + 1);
    l.waits = g_new0(uint32_t, program->n_instructions + 1);
    for (EchId c = 0; c < program->n_computations; c++) {
        const EchComputation *computation = &program->computations[c];
        if (computation->begin < computation->end) {
            list_computation(&l, c, order);
            continue;
        }
        for (EchId i = computation->first; i < computation->first + computation->n; i++)
            g_array_append_val(order, i);
    }
    g_free(l.left);
    g_free(l.stays);
    g_free(l.waits);
    /* Control predecessors that go around in circles: such a program has no order but its own. */
    if (order->len != program->n_instructions)
        return ech_program_ref(program);
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new_from(program);
    permute(ech_program_builder_peek(builder), (const EchId *)(const void *)order->data);
    g_autoptr(EchDiag) again = ech_diag_new(); /* what is said of one order is said already */
    EchProgram *listed = ech_program_builder_finish(builder, program->chip, again, error);
    if (!listed)
        return NULL;
    const char *chip = program->chip;
    EchBytes before = needs(program), after = needs(listed);
    bool better = after < before;
    /* A chip that was only borrowed for the comparison. */
    if (!chip)
        program->chip = listed->chip = NULL;
    g_autofree char *kept = ech_format_bytes(MIN(before, after)), *other = ech_format_bytes(MAX(before, after));
    ech_diag_note(diag, "schedules_of_our_own", 1);
    const char *name = better ? "what frees most bytes first" : "the file's";
    if (before == after)
        ech_diag_remark(diag, "the module is not scheduled: its order is echelon's (%s, %s at the peak), without the compiler's fusions and prefetches", name,
                        kept);
    else
        ech_diag_remark(
            diag, "the module is not scheduled: its order is echelon's (%s, %s at the peak; %s would need %s), without the compiler's fusions and prefetches",
            name, kept, better ? "the file's" : "what frees most bytes first", other);
    if (!better) {
        ech_program_unref(listed);
        return ech_program_ref(program);
    }
    return listed;
}
