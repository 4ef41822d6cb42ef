/* A schedule for programs that have none: XLA's list scheduler (what frees most bytes first), or the order of the file where that needs less.
 * Source: XLA's hlo_memory_scheduler (ListMemoryScheduler); the choice by simulated memory is its DefaultMemoryScheduler's. */
#include "sim/program/program.h"

#include <stdlib.h>

/* LOOKAHEAD: kernels that a copy to or from the host may run beside, on the side where it can wait. Ours: a compiler weighs times. */
enum { MAX_LOOKED_AT = 512, LOOKAHEAD = 4, MAX_STEPS = 4096 };

typedef struct {
    const EchProgram *p;
    uint32_t *left;     /* per buffer: uses in this computation still to come */
    uint32_t *readers;  /* per instruction: operands that are its result, of instructions still to come */
    bool *stays;        /* per buffer: outlives the computation */
    uint32_t *waits;    /* per instruction: operands and control predecessors not scheduled yet */
    GArray **followers; /* per instruction of the computation: who waits for it */
} Lister;

static bool counts(const EchProgram *p, EchId v)
{
    const EchValue *value = &p->values[v];
    const EchValueBuffer *buffer = &p->buffers[value->buffer];
    return !buffer->is_tuple && !buffer->is_constant && !buffer->is_parameter && buffer->space != ECH_SPACE_HOST;
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
        /* Whoever reads it after this one needs all of it: of a wide tuple's many members none is looked at but with the last. */
        uint32_t n = l->readers[operand] > 1 ? 0 : p->shapes[p->instructions[operand].shape].n_positions;
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
        l->readers[operand] += (uint32_t)by;
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

/* Copies to and from the host */

typedef enum { NO_COPY, TO_HOST, FROM_HOST } HostCopy;

/* What the start @i moves. */
static HostCopy host_copy(const EchProgram *p, EchId i)
{
    const EchInstruction *start = &p->instructions[i];
    const EchShape *shape = &p->shapes[start->shape];
    bool whole = start->opcode == ECH_HLO_COPY_START;
    if ((!whole && start->opcode != ECH_HLO_ASYNC_START) || shape->n_elements < 2 || start->n_operands == 0)
        return NO_COPY;
    int32_t to = p->shapes[p->elements[shape->first_element + (whole ? 0 : 1)]].space;
    int32_t from = p->shapes[p->instructions[ech_program_operand(p, start, 0)].shape].space;
    if (to == ECH_SPACE_HOST && (whole ? from != ECH_SPACE_HOST : true))
        return TO_HOST;
    return from == ECH_SPACE_HOST && to != ECH_SPACE_HOST ? FROM_HOST : NO_COPY;
}

static bool is_kernel(const EchProgram *p, EchId i)
{
    switch ((int)p->instructions[i].opcode) {
    case ECH_HLO_PARAMETER:
    case ECH_HLO_CONSTANT:
    case ECH_HLO_TUPLE:
    case ECH_HLO_GET_TUPLE_ELEMENT:
    case ECH_HLO_BITCAST:
    case ECH_HLO_AFTER_ALL:
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_COPY_START:
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_ASYNC_START:
    case ECH_HLO_ASYNC_DONE: return false;
    default: return true;
    }
}

typedef struct {
    EchId id;
    int64_t key;
} Keyed;

static int compare_keys(gconstpointer a, gconstpointer b)
{
    const Keyed *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* In the order of their keys, but never before what they wait for: two copies may have moved past each other. */
static void sort_by_keys(const EchProgram *p, const EchComputation *c, Keyed *keyed, uint32_t *place)
{
    g_autofree bool *done = g_new0(bool, (size_t)c->n + 1);
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(EchId));
    uint32_t n = 0;
    qsort(keyed, c->n, sizeof *keyed, compare_keys);
    for (uint32_t k = 0; k < c->n; k++) {
        g_array_append_val(stack, keyed[k].id);
        while (stack->len > 0) {
            EchId id = g_array_index(stack, EchId, stack->len - 1);
            const EchInstruction *i = &p->instructions[id];
            guint before = stack->len;
            for (uint32_t o = 0; !done[id - c->first] && o < i->n_operands + i->n_control; o++) {
                EchId other = o < i->n_operands ? ech_program_operand(p, i, o) : p->control[i->first_control + o - i->n_operands];
                if (other >= c->first && other < c->first + c->n && !done[other - c->first])
                    g_array_append_val(stack, other);
            }
            if (stack->len > before)
                continue;
            g_array_set_size(stack, stack->len - 1);
            if (!done[id - c->first])
                place[id - c->first] = n++;
            done[id - c->first] = true;
        }
    }
    g_autofree EchId *sorted = g_new(EchId, (size_t)c->n + 1);
    for (uint32_t k = 0; k < c->n; k++)
        sorted[place[k]] = c->first + k;
    for (uint32_t k = 0; k < c->n; k++)
        keyed[k] = (Keyed){sorted[k], (int64_t)k * 4};
}

/* The latest of what @i waits for, or -1. */
static int64_t ready_at(const EchProgram *p, const EchComputation *c, EchId i, const uint32_t *place)
{
    const EchInstruction *instruction = &p->instructions[i];
    int64_t latest = -1;
    for (uint32_t k = 0; k < instruction->n_operands; k++)
        latest = MAX(latest, (int64_t)place[ech_program_operand(p, instruction, k) - c->first]);
    for (uint32_t k = 0; k < instruction->n_control; k++) {
        EchId before = p->control[instruction->first_control + k];
        if (before >= c->first && before < c->first + c->n)
            latest = MAX(latest, (int64_t)place[before - c->first]);
    }
    return latest;
}

static bool is_loop(const EchProgram *p, EchId i)
{
    return p->instructions[i].opcode == ECH_HLO_WHILE || p->instructions[i].opcode == ECH_HLO_CONDITIONAL;
}

/* A copy to the host starts when its array is there and is waited for some kernels later; one from the host starts some kernels before it is needed. */
static uint64_t spread_copies(const EchProgram *p, const EchComputation *c, EchId *order)
{
    g_autofree Keyed *keyed = g_new(Keyed, c->n + 1);
    g_autofree uint32_t *place = g_new(uint32_t, c->n + 1), *needed = g_new(uint32_t, c->n + 1);
    uint64_t n_copies = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        keyed[k] = (Keyed){order[k], (int64_t)k * 4};
        place[order[k] - c->first] = k;
        n_copies += host_copy(p, order[k]) != NO_COPY;
    }
    for (HostCopy which = TO_HOST; n_copies > 0 && which <= FROM_HOST; which++) {
        for (uint32_t k = 0; k < c->n; k++)
            needed[k] = c->n;
        for (uint32_t k = 0; k < c->n; k++) {
            const EchInstruction *i = &p->instructions[keyed[k].id];
            for (uint32_t o = 0; o < i->n_operands; o++) {
                EchId operand = ech_program_operand(p, i, o) - c->first;
                needed[operand] = MIN(needed[operand], k);
            }
            for (uint32_t o = 0; o < i->n_control; o++) {
                EchId before = p->control[i->first_control + o];
                if (before >= c->first && before < c->first + c->n)
                    needed[before - c->first] = MIN(needed[before - c->first], k);
            }
        }
        for (uint32_t k = 0; k < c->n; k++) {
            EchId done = keyed[k].id;
            const EchInstruction *i = &p->instructions[done];
            if ((i->opcode != ECH_HLO_COPY_DONE && i->opcode != ECH_HLO_ASYNC_DONE) || i->n_operands == 0 ||
                host_copy(p, ech_program_operand(p, i, 0)) != which)
                continue;
            uint32_t start = place[ech_program_operand(p, i, 0) - c->first];
            int64_t ready = ready_at(p, c, keyed[start].id, place);
            unsigned kernels = 0;
            if (which == TO_HOST) {
                keyed[start].key = ready * 4 + 1;
                uint32_t at = k + 1, limit = MIN(needed[done - c->first], c->n);
                uint32_t end = MIN(limit, k + MAX_STEPS);
                for (; at < end && kernels < LOOKAHEAD && !is_loop(p, keyed[at].id); at++)
                    kernels += is_kernel(p, keyed[at].id);
                /* Not behind the last instruction: where nothing needs it, the end of the program does. */
                keyed[k].key = MAX((int64_t)k, (int64_t)at - 1) * 4 + 2;
                continue;
            }
            /* Just before its first reader, and its start up to some kernels earlier. */
            int64_t last = MIN(needed[done - c->first], c->n);
            if (last < c->n)
                keyed[k].key = last * 4 - 1;
            int64_t at = last < c->n ? last : k, first = MAX(ready + 1, at - MAX_STEPS);
            for (; at > first && kernels < LOOKAHEAD && !is_loop(p, keyed[at - 1].id); at--)
                kernels += is_kernel(p, keyed[at - 1].id);
            keyed[start].key = at * 4 - 2;
        }
        sort_by_keys(p, c, keyed, place);
    }
    for (uint32_t k = 0; k < c->n; k++)
        order[k] = keyed[k].id;
    return n_copies;
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

/* What HBM must hold of temporaries, in the program's own order. */
static EchBytes needs(EchProgram *program)
{
    if (program->platform == ECH_PLATFORM_TPU && !program->chip)
        (void)ech_program_set_chip(program, "tpu-v5e", NULL);
    g_autoptr(EchDiag) unsaid = ech_diag_new();
    g_autoptr(EchProgramAssignment) made = ech_program_assign(program, 0, unsaid, NULL);
    EchBytes bytes = 0;
    for (size_t h = 0; made && h < made->n_heaps; h++) {
        if (made->heaps[h].space != ECH_SPACE_HOST)
            bytes = ech_bytes_add(bytes, made->heaps[h].peak_live_bytes);
    }
    return made ? bytes : UINT64_MAX;
}

/* The program in @order. */
static EchProgram *reorder(const EchProgram *program, const EchId *order, GError **error)
{
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new_from(program);
    permute(ech_program_builder_peek(builder), order);
    g_autoptr(EchDiag) again = ech_diag_new(); /* what is said of one order is said already */
    return ech_program_builder_finish(builder, program->chip, again, error);
}

EchProgram *ech_program_schedule(EchProgram *program, EchDiag *diag, GError **error)
{
    g_autoptr(GArray) order = g_array_sized_new(FALSE, FALSE, sizeof(EchId), (guint)program->n_instructions);
    Lister l = {.p = program};
    l.left = g_new0(uint32_t, program->n_buffers + 1);
    l.readers = g_new0(uint32_t, program->n_instructions + 1);
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
    g_free(l.readers);
    g_free(l.stays);
    g_free(l.waits);
    /* Control predecessors that go around in circles: such a program has no order but its own. */
    if (order->len != program->n_instructions)
        return ech_program_ref(program);
    /* The file's order beside it; copies to and from the host find their places in both. */
    g_autofree EchId *own = g_new(EchId, program->n_instructions + 1);
    uint64_t n_copies = 0;
    for (EchId i = 0; i < program->n_instructions; i++)
        own[i] = i;
    for (EchId c = 0; c < program->n_computations; c++) {
        const EchComputation *computation = &program->computations[c];
        if (computation->begin == computation->end || program->instructions[computation->first].first_position == ECH_NONE)
            continue;
        n_copies += spread_copies(program, computation, own + computation->first);
        (void)spread_copies(program, computation, (EchId *)(void *)order->data + computation->first);
    }
    g_autoptr(EchProgram) filed = n_copies > 0 ? reorder(program, own, error) : ech_program_ref(program);
    g_autoptr(EchProgram) listed = filed ? reorder(program, (const EchId *)(const void *)order->data, error) : NULL;
    if (!listed)
        return NULL;
    const char *chip = program->chip;
    EchBytes before = needs(filed), after = needs(listed);
    bool better = after < before;
    /* A chip that was only borrowed for the comparison. */
    if (!chip)
        filed->chip = listed->chip = NULL;
    g_autofree char *kept = ech_format_bytes(MIN(before, after)), *other = ech_format_bytes(MAX(before, after));
    ech_diag_note(diag, "schedules_of_our_own", 1);
    const char *name = better ? "what frees most bytes first" : "the file's";
    if (before == after)
        ech_diag_remark(diag, "the module is not scheduled: its order is echelon's (%s, temporaries of %s at the peak)", name, kept);
    else
        ech_diag_remark(diag, "the module is not scheduled: its order is echelon's (%s, temporaries of %s at the peak; %s would need %s)", name, kept,
                        better ? "the file's" : "what frees most bytes first", other);
    if (n_copies > 0) {
        ech_diag_note(diag, "host_copies_scheduled_by_echelon", n_copies);
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT " copies to and from the host have places of echelon's choice: to the host as soon as the array is there, from it "
                        "up to %d kernels before it is needed",
                        n_copies, LOOKAHEAD);
    }
    return better ? g_steal_pointer(&listed) : g_steal_pointer(&filed);
}
