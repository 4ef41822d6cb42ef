/* What follows from the instructions alone: the flat schedule, values and where they are held, uses, live ranges, must-share buffers.
 * The rules are XLA's data-flow and live-range analyses (HloDataflowAnalysis, HloLiveRange, HloAliasAnalysis). */
#include "sim/program/private.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

enum { MAX_CALL_DEPTH = 256 };
#define MAX_POSITIONS ((size_t)1 << 24)
/* Arrays that instructions are given, a tuple's each for itself: so many, and besides for each instruction. Few take large tuples. */
#define MAX_USES ((size_t)1 << 22)
#define USES_EACH ((size_t)16)

/* Flat schedule */

typedef struct {
    EchProgram *p;
    EchDiag *diag;
    GArray *flat;
    uint8_t *state; /* per computation: 0 new, 1 open, 2 done */
} Flattener;

static bool flatten(Flattener *f, EchId computation, EchId caller, uint32_t loops, unsigned depth, GError **error);

static bool flatten_called(Flattener *f, EchId i, unsigned depth, GError **error)
{
    const EchInstruction *instruction = &f->p->instructions[i];
    uint32_t loops = f->p->computations[instruction->computation].loop_depth;
    EchHlo opcode = (EchHlo)instruction->opcode;
    bool inlined =
        opcode == ECH_HLO_WHILE || opcode == ECH_HLO_CALL || opcode == ECH_HLO_CONDITIONAL || (opcode == ECH_HLO_ASYNC_START && instruction->n_operands > 0);
    /* A start without operands (SparseCore) gets them at its update: the body runs there. */
    if (opcode == ECH_HLO_ASYNC_UPDATE && instruction->n_operands > 0) {
        const EchInstruction *start = &f->p->instructions[ech_program_operand(f->p, instruction, 0)];
        if (start->opcode == ECH_HLO_ASYNC_START && start->n_operands == 0 && start->n_called > 0)
            return flatten(f, ech_program_called(f->p, start, 0), i, loops, depth + 1, error);
    }
    for (uint32_t k = 0; inlined && k < instruction->n_called; k++) {
        if (!flatten(f, ech_program_called(f->p, instruction, k), i, loops + (opcode == ECH_HLO_WHILE), depth + 1, error))
            return false;
    }
    return true;
}

static bool flatten(Flattener *f, EchId c, EchId caller, uint32_t loops, unsigned depth, GError **error)
{
    EchProgram *p = f->p;
    EchComputation *computation = &p->computations[c];
    if (f->state[c] == 1 || depth > MAX_CALL_DEPTH) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: computation %s calls itself, or calls are nested more than %d deep", p->name, computation->name,
                    MAX_CALL_DEPTH);
        return false;
    }
    if (f->state[c] == 2) {
        ech_diag_note(f->diag, "computations_called_more_than_once", 1);
        return true;
    }
    f->state[c] = 1;
    computation->caller = caller;
    computation->loop_depth = loops;
    computation->begin = f->flat->len;
    for (uint32_t k = 0; k < computation->n; k++) {
        EchId i = computation->first + k;
        if (!flatten_called(f, i, depth, error))
            return false;
        p->instructions[i].schedule = f->flat->len;
        g_array_append_val(f->flat, i);
    }
    computation->end = f->flat->len;
    f->state[c] = 2;
    return true;
}

static bool flatten_program(EchProgram *p, EchDiag *diag, GError **error)
{
    g_autoptr(GArray) flat = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree uint8_t *state = g_new0(uint8_t, p->n_computations);
    Flattener f = {p, diag, flat, state};
    for (size_t i = 0; i < p->n_instructions; i++)
        p->instructions[i].schedule = ECH_NONE;
    for (size_t c = 0; c < p->n_computations; c++) {
        p->computations[c].caller = ECH_NONE;
        p->computations[c].begin = p->computations[c].end = 0;
    }
    if (!flatten(&f, p->entry, ECH_NONE, 0, 0, error))
        return false;
    p->n_flat = flat->len;
    p->flat = g_memdup2(flat->data, (size_t)flat->len * sizeof(EchId));
    return true;
}

/* Values */

typedef struct {
    EchPosition defined;
    uint8_t is_phi;
    EchId same; /* replaced by this value, or ECH_NONE */
} Raw;

/* What reaches one position by several ways: a loop's element, the result of a conditional. */
typedef struct {
    EchId value;              /* raw value */
    uint32_t first, n_inputs; /* in Flow.inputs */
} Phi;

typedef struct {
    EchProgram *p;
    GArray *raw;    /* Raw */
    GArray *phis;   /* Phi, as XLA comes by them: of inner loops first; of a loop its condition's, its body's, its own */
    GArray *inputs; /* EchId of raw values */
    bool *done;     /* per computation */
} Flow;

static EchId *held(const EchProgram *p, EchId instruction)
{
    return p->positions + p->instructions[instruction].first_position;
}

static uint32_t n_positions(const EchProgram *p, EchId instruction)
{
    return p->shapes[p->instructions[instruction].shape].n_positions;
}

static EchId new_value(Flow *flow, EchId instruction, uint32_t position, bool phi)
{
    Raw raw = {{instruction, position}, phi, ECH_NONE};
    g_array_append_val(flow->raw, raw);
    return flow->raw->len - 1;
}

/* Copies n positions if both sides have them; what the shapes do not agree on keeps its own value. */
static void pass_on(const EchProgram *p, EchId to, uint32_t to_position, EchId from, uint32_t from_position, uint32_t n)
{
    uint32_t to_n = n_positions(p, to), from_n = n_positions(p, from);
    for (uint32_t k = 0; k < n && to_position + k < to_n && from_position + k < from_n; k++)
        held(p, to)[to_position + k] = held(p, from)[from_position + k];
}

/* The same of arrays alone: what starts and ends asynchronously has tables of its own for its tuples, and so has what it calls (XLA's
 * HloDataflowAnalysis). */
static void pass_arrays_on(const EchProgram *p, EchId to, uint32_t to_position, EchId from, uint32_t from_position, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t shape = p->instructions[to].shape;
        if (to_position + k < n_positions(p, to) && !p->shapes[ech_program_subshape(p, shape, to_position + k)].is_tuple)
            pass_on(p, to, to_position + k, from, from_position + k, 1);
    }
}

static uint32_t subtree(const EchProgram *p, EchId instruction, uint32_t position)
{
    if (position >= n_positions(p, instruction))
        return 0;
    return p->shapes[ech_program_subshape(p, p->instructions[instruction].shape, position)].n_positions;
}

static uint32_t member(const EchProgram *p, EchId instruction, uint32_t k)
{
    const EchInstruction *i = &p->instructions[instruction];
    return k < p->shapes[i->shape].n_elements ? ech_program_member_position(p, i->shape, k) : UINT32_MAX;
}

static void add_phi(Flow *flow, EchId value, const EchId *inputs, uint32_t n)
{
    Phi phi = {value, flow->inputs->len, n};
    g_array_append_vals(flow->inputs, inputs, n);
    g_array_append_val(flow->phis, phi);
}

static void flow_computation(Flow *flow, EchId computation);

static void flow_while(Flow *flow, EchId i)
{
    EchProgram *p = flow->p;
    const EchInstruction *instruction = &p->instructions[i];
    if (instruction->n_called < 2 || instruction->n_operands < 1)
        return;
    EchId condition = ech_program_called(p, instruction, 0), body = ech_program_called(p, instruction, 1);
    EchId parameters[2] = {ECH_NONE, ECH_NONE};
    for (unsigned side = 0; side < 2; side++) {
        const EchComputation *c = &p->computations[side == 0 ? condition : body];
        for (uint32_t k = 0; k < c->n && parameters[side] == ECH_NONE; k++) {
            if (p->instructions[c->first + k].opcode == ECH_HLO_PARAMETER)
                parameters[side] = c->first + k;
        }
    }
    if (flow->done[condition] || flow->done[body] || parameters[0] == ECH_NONE || parameters[1] == ECH_NONE)
        return;
    uint32_t n =
        MIN(MIN(n_positions(p, i), n_positions(p, ech_program_operand(p, instruction, 0))), MIN(n_positions(p, parameters[0]), n_positions(p, parameters[1])));
    n = MIN(n, n_positions(p, p->computations[body].root));
    for (uint32_t k = 0; k < n; k++) {
        held(p, parameters[0])[k] = new_value(flow, parameters[0], k, true);
        held(p, parameters[1])[k] = new_value(flow, parameters[1], k, true);
        g_array_index(flow->raw, Raw, held(p, i)[k]).is_phi = true;
    }
    flow_computation(flow, condition);
    flow_computation(flow, body);
    EchId joined[3] = {parameters[0], parameters[1], i};
    for (unsigned side = 0; side < G_N_ELEMENTS(joined); side++) {
        for (uint32_t k = 0; k < n; k++) {
            EchId inputs[2] = {held(p, ech_program_operand(p, instruction, 0))[k], held(p, p->computations[body].root)[k]};
            add_phi(flow, held(p, joined[side])[k], inputs, 2);
        }
    }
}

/* Parameters of a called computation hold the operands; its root is handed back. */
static EchId flow_call(Flow *flow, EchId computation, const EchId *operands, uint32_t n)
{
    EchProgram *p = flow->p;
    const EchComputation *c = &p->computations[computation];
    if (!flow->done[computation]) {
        for (uint32_t k = 0; k < c->n; k++) {
            const EchInstruction *parameter = &p->instructions[c->first + k];
            if (parameter->opcode == ECH_HLO_PARAMETER && parameter->number >= 0 && parameter->number < n) {
                EchId operand = operands[parameter->number];
                for (uint32_t q = 0; q < n_positions(p, c->first + k); q++)
                    held(p, c->first + k)[q] = q < n_positions(p, operand) ? held(p, operand)[q] : new_value(flow, c->first + k, q, false);
            }
        }
        flow_computation(flow, computation);
    }
    return c->root;
}

static void flow_async(Flow *flow, EchId i)
{
    EchProgram *p = flow->p;
    const EchInstruction *instruction = &p->instructions[i];
    const EchId *operands = p->operands + instruction->first_operand;
    uint32_t inputs = member(p, i, 0), outputs = member(p, i, 1);
    if (outputs == UINT32_MAX)
        return;
    if (instruction->opcode == ECH_HLO_ASYNC_UPDATE) {
        EchId start = instruction->n_operands > 0 ? operands[0] : ECH_NONE;
        if (start == ECH_NONE)
            return;
        const EchInstruction *origin = &p->instructions[start];
        if (origin->opcode != ECH_HLO_ASYNC_START || origin->n_operands > 0 || origin->n_called == 0) {
            pass_arrays_on(p, i, 0, start, 0, n_positions(p, i));
            return;
        }
        uint32_t at = inputs + 1;
        for (uint32_t k = 1; k < instruction->n_operands && at < outputs; k++) {
            uint32_t n = n_positions(p, operands[k]);
            pass_arrays_on(p, i, at, operands[k], 0, MIN(n, outputs - at));
            at += n;
        }
        EchId root = flow_call(flow, ech_program_called(p, origin, 0), operands + 1, instruction->n_operands - 1);
        pass_arrays_on(p, i, outputs, root, 0, subtree(p, i, outputs));
        return;
    }
    uint32_t at = inputs + 1;
    for (uint32_t k = 0; k < instruction->n_operands && at < outputs; k++) {
        uint32_t n = n_positions(p, operands[k]);
        pass_arrays_on(p, i, at, operands[k], 0, MIN(n, outputs - at));
        at += n;
    }
    if (instruction->n_called > 0 && instruction->n_operands > 0) {
        EchId root = flow_call(flow, ech_program_called(p, instruction, 0), operands, instruction->n_operands);
        pass_arrays_on(p, i, outputs, root, 0, subtree(p, i, outputs));
    }
}

/* {0} of a collective's start is its operand, or a tuple of its operands; that of several arrays that are permuted has no value (XLA's
 * HloDataflowAnalysis::InitializeInstructionValueSets), which is told as the start's own. */
static void flow_collective_start(const EchProgram *p, EchId i)
{
    const EchInstruction *instruction = &p->instructions[i];
    uint32_t inputs = member(p, i, 0);
    if (inputs == UINT32_MAX || instruction->n_operands == 0)
        return;
    if (instruction->n_operands == 1 && subtree(p, i, inputs) == n_positions(p, ech_program_operand(p, instruction, 0))) {
        pass_on(p, i, inputs, ech_program_operand(p, instruction, 0), 0, subtree(p, i, inputs));
        return;
    }
    if (instruction->opcode == ECH_HLO_COLLECTIVE_PERMUTE_START)
        pass_on(p, i, inputs, i, 0, 1);
    uint32_t at = inputs + 1, end = inputs + subtree(p, i, inputs);
    for (uint32_t k = 0; k < instruction->n_operands && at < end; k++) {
        uint32_t n = n_positions(p, ech_program_operand(p, instruction, k));
        pass_on(p, i, at, ech_program_operand(p, instruction, k), 0, MIN(n, end - at));
        at += n;
    }
}

static void flow_conditional(Flow *flow, EchId i)
{
    EchProgram *p = flow->p;
    const EchInstruction *instruction = &p->instructions[i];
    uint32_t n = n_positions(p, i), branches = instruction->n_called;
    for (uint32_t k = 0; k < branches; k++) {
        EchId root = flow_call(flow, ech_program_called(p, instruction, k), p->operands + instruction->first_operand + MIN(k + 1, instruction->n_operands),
                               k + 1 < instruction->n_operands ? 1 : 0);
        n = MIN(n, n_positions(p, root));
    }
    g_autofree EchId *inputs = g_new(EchId, branches + 1);
    for (uint32_t q = 0; q < n_positions(p, i); q++) {
        g_array_index(flow->raw, Raw, held(p, i)[q]).is_phi = true;
        for (uint32_t k = 0; q < n && k < branches; k++)
            inputs[k] = held(p, p->computations[ech_program_called(p, instruction, k)].root)[q];
        if (q < n && branches > 0)
            add_phi(flow, held(p, i)[q], inputs, branches);
    }
}

/* Replaces what is not new by what it stands for; every position already has a value of its own. */
static void flow_instruction(Flow *flow, EchId i)
{
    EchProgram *p = flow->p;
    const EchInstruction *instruction = &p->instructions[i];
    const EchId *operands = p->operands + instruction->first_operand;
    EchId first = instruction->n_operands > 0 ? operands[0] : ECH_NONE;
    if (first == ECH_NONE && instruction->opcode != ECH_HLO_ASYNC_START && instruction->opcode != ECH_HLO_CALL)
        return;
    switch ((int)instruction->opcode) {
    case ECH_HLO_BITCAST:
        if (n_positions(p, i) == 1 && n_positions(p, first) == 1)
            pass_on(p, i, 0, first, 0, 1);
        break;
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_ADD_DEPENDENCY:
    case ECH_HLO_DOMAIN:
    case ECH_HLO_ALL_REDUCE_DONE: pass_on(p, i, 0, first, 0, n_positions(p, i)); break;
    case ECH_HLO_GET_TUPLE_ELEMENT:
        if (instruction->number >= 0 && instruction->number < p->shapes[p->instructions[first].shape].n_elements)
            pass_on(p, i, 0, first, member(p, first, (uint32_t)instruction->number), n_positions(p, i));
        break;
    case ECH_HLO_TUPLE: {
        uint32_t at = 1;
        for (uint32_t k = 0; k < instruction->n_operands; k++) {
            pass_on(p, i, at, operands[k], 0, n_positions(p, operands[k]));
            at += n_positions(p, operands[k]);
        }
        break;
    }
    case ECH_HLO_COPY_START: pass_on(p, i, member(p, i, 1), first, 0, member(p, i, 1) == UINT32_MAX ? 0 : subtree(p, i, member(p, i, 1))); break;
    case ECH_HLO_COPY_DONE:
        if (member(p, first, 0) != UINT32_MAX)
            pass_on(p, i, 0, first, member(p, first, 0), n_positions(p, i));
        break;
    case ECH_HLO_ASYNC_START:
    case ECH_HLO_ASYNC_UPDATE: flow_async(flow, i); break;
    case ECH_HLO_ASYNC_DONE:
    case ECH_HLO_COLLECTIVE_PERMUTE_DONE:
    case ECH_HLO_ALL_GATHER_DONE:
        if (member(p, first, 1) != UINT32_MAX)
            pass_arrays_on(p, i, 0, first, member(p, first, 1), n_positions(p, i));
        break;
    case ECH_HLO_ALL_GATHER_START:
    case ECH_HLO_COLLECTIVE_PERMUTE_START: flow_collective_start(p, i); break;
    case ECH_HLO_SEND: pass_on(p, i, member(p, i, 0), first, 0, member(p, i, 0) == UINT32_MAX ? 0 : n_positions(p, first)); break;
    case ECH_HLO_RECV_DONE:
        if (member(p, i, 0) != UINT32_MAX && member(p, first, 0) != UINT32_MAX)
            pass_on(p, i, member(p, i, 0), first, member(p, first, 0), subtree(p, i, member(p, i, 0)));
        break;
    case ECH_HLO_CALL:
        if (instruction->n_called > 0) {
            EchId root = flow_call(flow, ech_program_called(p, instruction, 0), operands, instruction->n_operands);
            pass_on(p, i, 0, root, 0, n_positions(p, i));
        }
        break;
    case ECH_HLO_CONDITIONAL: flow_conditional(flow, i); break;
    case ECH_HLO_WHILE: flow_while(flow, i); break;
    default: break;
    }
}

static void flow_computation(Flow *flow, EchId computation)
{
    EchProgram *p = flow->p;
    const EchComputation *c = &p->computations[computation];
    flow->done[computation] = true;
    for (uint32_t k = 0; k < c->n; k++) {
        EchId i = c->first + k;
        for (uint32_t q = 0; q < n_positions(p, i); q++) {
            if (held(p, i)[q] == ECH_NONE)
                held(p, i)[q] = new_value(flow, i, q, false);
        }
        flow_instruction(flow, i);
    }
}

static EchId resolve(GArray *raw, EchId value)
{
    while (g_array_index(raw, Raw, value).same != ECH_NONE) {
        EchId next = g_array_index(raw, Raw, value).same;
        EchId after = g_array_index(raw, Raw, next).same;
        if (after != ECH_NONE)
            g_array_index(raw, Raw, value).same = after;
        value = next;
    }
    return value;
}

/* XLA's phi graph (HloPhiGraph): a node per raw value. What is handed round unchanged is the value that came in, except where loops are nested deeper than the
 * graph's own bookkeeping follows: who reads a value that has been replaced is not passed on to what replaced it. Buffers live as long as that says. */
typedef struct {
    uint32_t first_operand, n_operands, first_user, n_users;
    EchId replaced_by; /* or ECH_NONE */
    uint32_t seen;     /* the search that met it last */
    bool is_phi, searched;
} PhiNode;

typedef struct {
    PhiNode *nodes;
    EchId *operands, *users, *queue;
    size_t steps; /* left; hostile programs only come to the end of them */
    uint32_t searches;
} PhiGraph;

enum { PHI_STEPS = 1 << 26 };

static EchId phi_found(const PhiGraph *g, EchId value)
{
    while (g->nodes[value].replaced_by != ECH_NONE)
        value = g->nodes[value].replaced_by;
    return value;
}

static void put_in_place(EchId *list, uint32_t n, EchId old, EchId new)
{
    for (uint32_t k = 0; k < n; k++) {
        if (list[k] == old)
            list[k] = new;
    }
}

static uint32_t without(EchId *list, uint32_t n, EchId value)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (list[k] != value)
            list[kept++] = list[k];
    }
    return kept;
}

static bool phi_replace(PhiGraph *g, EchId id, EchId by)
{
    PhiNode *node = &g->nodes[id];
    by = phi_found(g, by);
    if (node->replaced_by != ECH_NONE || by == id)
        return false;
    for (uint32_t k = 0; k < node->n_users && g->steps > 0; k++) {
        PhiNode *user = &g->nodes[g->users[node->first_user + k]];
        put_in_place(g->operands + user->first_operand, user->n_operands, id, by);
        g->steps -= MIN(g->steps, user->n_operands);
    }
    for (uint32_t k = 0; k < node->n_operands && g->steps > 0; k++) {
        PhiNode *operand = &g->nodes[g->operands[node->first_operand + k]];
        put_in_place(g->users + operand->first_user, operand->n_users, id, by);
        g->steps -= MIN(g->steps, operand->n_users);
    }
    node->replaced_by = by;
    return true;
}

/* Phis that hang together and take in only one value from outside are that value. */
static bool phi_close(PhiGraph *g, EchId start)
{
    EchId outside = ECH_NONE;
    uint32_t n = 0;
    g->searches++;
    g->queue[n++] = start;
    g->nodes[start].seen = g->searches;
    for (uint32_t at = 0; at < n; at++) {
        PhiNode *node = &g->nodes[g->queue[at]];
        node->searched = true;
        if (!node->is_phi && outside != ECH_NONE)
            return false;
        if (!node->is_phi)
            outside = g->queue[at];
        g->steps -= MIN(g->steps, node->n_operands);
        for (uint32_t k = 0; k < node->n_operands; k++) {
            EchId operand = g->operands[node->first_operand + k];
            if (g->nodes[operand].seen != g->searches)
                g->queue[n++] = operand;
            g->nodes[operand].seen = g->searches;
        }
    }
    bool changed = false;
    for (uint32_t at = 0; at < n && outside != ECH_NONE; at++) {
        if (g->nodes[g->queue[at]].is_phi)
            changed |= phi_replace(g, g->queue[at], outside);
    }
    return changed;
}

static bool phi_simplify(PhiGraph *g, EchId id)
{
    PhiNode *node = &g->nodes[id];
    EchId *operands = g->operands + node->first_operand;
    node->n_operands = without(operands, node->n_operands, id);
    node->n_users = without(g->users + node->first_user, node->n_users, id);
    g->steps -= MIN(g->steps, node->n_operands + node->n_users + 1u);
    bool same = node->n_operands > 0;
    for (uint32_t k = 1; k < node->n_operands; k++)
        same &= operands[k] == operands[0];
    if (same)
        return phi_replace(g, id, operands[0]);
    return !node->searched && phi_close(g, id);
}

static void drop_idle_phis(Flow *flow)
{
    guint n_nodes = flow->raw->len, n_links = flow->inputs->len;
    PhiGraph g = {.steps = PHI_STEPS};
    g_autofree PhiNode *nodes = g.nodes = g_new0(PhiNode, n_nodes + 1);
    g_autofree EchId *operands = g.operands = g_new(EchId, n_links + 1);
    g_autofree EchId *users = g.users = g_new(EchId, n_links + 1);
    g_autofree EchId *queue = g.queue = g_new(EchId, n_nodes + 1);
    for (guint k = 0; k < n_nodes; k++)
        nodes[k].replaced_by = ECH_NONE;
    for (guint k = 0; k < n_links; k++) {
        operands[k] = g_array_index(flow->inputs, EchId, k);
        nodes[operands[k]].n_users++;
    }
    uint32_t total = 0;
    for (guint k = 0; k < n_nodes; k++) {
        nodes[k].first_user = total;
        total += nodes[k].n_users;
        nodes[k].n_users = 0;
    }
    for (guint k = 0; k < flow->phis->len; k++) {
        const Phi *phi = &g_array_index(flow->phis, Phi, k);
        PhiNode *node = &nodes[phi->value];
        node->is_phi = true;
        node->first_operand = phi->first;
        node->n_operands = phi->n_inputs;
        for (uint32_t m = 0; m < phi->n_inputs; m++) {
            PhiNode *operand = &nodes[operands[phi->first + m]];
            users[operand->first_user + operand->n_users++] = phi->value;
        }
    }
    for (bool changed = true; changed && g.steps > 0;) {
        changed = false;
        for (guint k = 0; k < n_nodes; k++)
            nodes[k].searched = false;
        for (guint k = 0; k < flow->phis->len; k++) {
            EchId value = g_array_index(flow->phis, Phi, k).value;
            changed |= nodes[value].replaced_by == ECH_NONE && g.steps > 0 && phi_simplify(&g, value);
        }
    }
    for (guint k = 0; k < n_nodes; k++) {
        if (nodes[k].replaced_by != ECH_NONE)
            g_array_index(flow->raw, Raw, k).same = phi_found(&g, k);
    }
}

/* Order inside a computation: post order from the instructions without users, operands first to last, control predecessors before them. */
typedef struct {
    EchId instruction;
    uint32_t next; /* 0..n_control+n_operands */
} Frame;

static void post_order(const EchProgram *p, EchId computation, const uint32_t *n_users, uint32_t *rank, uint32_t *counter)
{
    const EchComputation *c = &p->computations[computation];
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(Frame));
    for (uint32_t k = 0; k < c->n; k++) {
        if (n_users[c->first + k] > 0 || rank[c->first + k] != ECH_NONE)
            continue;
        Frame frame = {c->first + k, 0};
        g_array_append_val(stack, frame);
        while (stack->len > 0) {
            Frame *top = &g_array_index(stack, Frame, stack->len - 1);
            const EchInstruction *i = &p->instructions[top->instruction];
            if (rank[top->instruction] != ECH_NONE) {
                g_array_set_size(stack, stack->len - 1);
                continue;
            }
            EchId next = ECH_NONE;
            while (next == ECH_NONE && top->next < i->n_control + i->n_operands) {
                uint32_t at = top->next++;
                /* Control predecessors are visited last to first. */
                EchId other = at < i->n_control ? p->control[i->first_control + (i->n_control - 1 - at)] : p->operands[i->first_operand + (at - i->n_control)];
                if (rank[other] == ECH_NONE && p->instructions[other].computation == computation && other < top->instruction)
                    next = other;
            }
            if (next == ECH_NONE) {
                rank[top->instruction] = (*counter)++;
                g_array_set_size(stack, stack->len - 1);
            } else {
                frame = (Frame){next, 0};
                g_array_append_val(stack, frame);
            }
        }
    }
}

typedef struct {
    EchId computation;
    uint32_t n;
} Sized;

static int compare_sized(gconstpointer a, gconstpointer b)
{
    const Sized *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->computation > y->computation) - (x->computation < y->computation);
}

typedef struct {
    uint8_t phi;
    uint32_t rank, position;
    EchId raw;
} Order;

static int compare_order(gconstpointer a, gconstpointer b)
{
    const Order *x = a, *y = b;
    if (x->phi != y->phi)
        return x->phi - y->phi;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

uint32_t *ech_program_post_order(const EchProgram *p, bool by_size)
{
    g_autofree uint32_t *n_users = g_new0(uint32_t, p->n_instructions + 1);
    for (size_t i = 0; i < p->n_operands; i++)
        n_users[p->operands[i]]++;
    uint32_t *rank = g_new(uint32_t, p->n_instructions + 1), counter = 0;
    for (size_t i = 0; i < p->n_instructions; i++)
        rank[i] = ECH_NONE;
    g_autofree Sized *sized = g_new(Sized, p->n_computations);
    for (size_t c = 0; c < p->n_computations; c++)
        sized[c] = (Sized){(EchId)c, by_size ? p->computations[c].n : (uint32_t)(p->n_computations - c)};
    qsort(sized, p->n_computations, sizeof *sized, compare_sized);
    for (size_t c = 0; c < p->n_computations; c++)
        post_order(p, sized[c].computation, n_users, rank, &counter);
    return rank;
}

/* Numbers the values that are left in XLA's order of ids, as far as it can be known, and fills positions with the final ids. */
static void number_values(EchProgram *p, Flow *flow)
{
    g_autofree uint32_t *rank = ech_program_post_order(p, true);
    g_autofree uint8_t *wanted = g_new0(uint8_t, flow->raw->len + 1);
    for (size_t k = 0; k < p->n_positions; k++) {
        if (p->positions[k] == ECH_NONE)
            continue;
        p->positions[k] = resolve(flow->raw, p->positions[k]);
        wanted[p->positions[k]] = 1;
    }
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(Order));
    for (EchId v = 0; v < flow->raw->len; v++) {
        const Raw *raw = &g_array_index(flow->raw, Raw, v);
        Order entry = {raw->is_phi, rank[raw->defined.instruction], raw->defined.position, v};
        if (wanted[v])
            g_array_append_val(order, entry);
    }
    g_array_sort(order, compare_order);
    g_autofree EchId *final = g_new(EchId, flow->raw->len + 1);
    p->n_values = order->len;
    p->values = g_new0(EchValue, order->len + 1);
    for (guint k = 0; k < order->len; k++) {
        EchId v = g_array_index(order, Order, k).raw;
        const Raw *raw = &g_array_index(flow->raw, Raw, v);
        final[v] = k;
        p->values[k] = (EchValue){.defined = raw->defined, .is_phi = raw->is_phi, .start = -1, .end = -1, .made = -1, .buffer = ECH_NONE, .order = k};
    }
    for (size_t k = 0; k < p->n_positions; k++) {
        if (p->positions[k] != ECH_NONE)
            p->positions[k] = final[p->positions[k]];
    }
}

static bool lay_out_positions(EchProgram *p, GError **error)
{
    g_autofree bool *fused = g_new0(bool, p->n_computations);
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        for (uint32_t k = 0; instruction->opcode == ECH_HLO_FUSION && k < instruction->n_called; k++)
            fused[ech_program_called(p, instruction, k)] = true;
    }
    for (size_t i = 0; i <= p->n_instructions; i++) {
        const EchInstruction *instruction = i < p->n_instructions ? &p->instructions[i] : NULL;
        bool runs = instruction && (instruction->opcode == ECH_HLO_WHILE || instruction->opcode == ECH_HLO_CALL || instruction->opcode == ECH_HLO_CONDITIONAL ||
                                    instruction->opcode == ECH_HLO_ASYNC_START);
        bool clash = instruction ? false : fused[p->entry];
        for (uint32_t k = 0; runs && !fused[instruction->computation] && k < instruction->n_called; k++)
            clash |= fused[ech_program_called(p, instruction, k)];
        if (clash) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: %s runs a computation that is also a fusion's body", p->name,
                        instruction ? instruction->name : "the program");
            return false;
        }
    }
    size_t total = 0;
    for (size_t i = 0; i < p->n_instructions; i++) {
        EchInstruction *instruction = &p->instructions[i];
        if (fused[instruction->computation]) {
            instruction->first_position = ECH_NONE;
            continue;
        }
        instruction->first_position = (uint32_t)total;
        total += p->shapes[instruction->shape].n_positions;
        if (total > MAX_POSITIONS) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: tuples add up to more than %zu members", p->name, MAX_POSITIONS);
            return false;
        }
    }
    p->n_positions = total;
    p->positions = g_new(EchId, total + 1);
    for (size_t k = 0; k < total; k++)
        p->positions[k] = ECH_NONE;
    return true;
}

static bool find_values(EchProgram *p, GError **error)
{
    if (!lay_out_positions(p, error))
        return false;
    g_autoptr(GArray) raw = g_array_new(FALSE, FALSE, sizeof(Raw));
    g_autoptr(GArray) phis = g_array_new(FALSE, FALSE, sizeof(Phi));
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree bool *done = g_new0(bool, p->n_computations);
    Flow flow = {p, raw, phis, inputs, done};
    flow_computation(&flow, p->entry);
    /* Reducers, comparators and whatever no one runs in the flat schedule. */
    for (size_t c = p->n_computations; c-- > 0;) {
        if (!done[c] && p->instructions[p->computations[c].first].first_position != ECH_NONE && p->computations[c].begin == p->computations[c].end)
            flow_computation(&flow, (EchId)c);
    }
    for (size_t c = 0; c < p->n_computations; c++) {
        if (!done[c] && p->instructions[p->computations[c].first].first_position != ECH_NONE)
            flow_computation(&flow, (EchId)c);
    }
    drop_idle_phis(&flow);
    number_values(p, &flow);
    return true;
}

/* Holders and uses */

static bool value_uses_position(EchHlo user, uint32_t position)
{
    if (user == ECH_HLO_TUPLE || user == ECH_HLO_DOMAIN)
        return false;
    return position == 0 || (user != ECH_HLO_GET_TUPLE_ELEMENT && user != ECH_HLO_COPY);
}

static void collect_holders(EchProgram *p)
{
    uint32_t total = 0;
    for (size_t k = 0; k < p->n_positions; k++) {
        if (p->positions[k] != ECH_NONE)
            p->values[p->positions[k]].n_holders++;
    }
    for (size_t v = 0; v < p->n_values; v++) {
        p->values[v].first_holder = total;
        total += p->values[v].n_holders;
        p->values[v].n_holders = 0;
    }
    p->n_holders = total;
    p->holders = g_new(EchPosition, total + 1);
    /* The definition goes first. */
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < p->n_instructions; i++) {
            const EchInstruction *instruction = &p->instructions[i];
            uint32_t n = instruction->first_position == ECH_NONE ? 0 : p->shapes[instruction->shape].n_positions;
            for (uint32_t q = 0; q < n; q++) {
                EchId v = p->positions[instruction->first_position + q];
                if (v == ECH_NONE)
                    continue;
                EchValue *value = &p->values[v];
                bool own = value->defined.instruction == i && value->defined.position == q;
                if (own == (pass == 0))
                    p->holders[value->first_holder + value->n_holders++] = (EchPosition){(EchId)i, q};
            }
        }
    }
}

typedef void (*UseVisitor)(EchProgram *p, EchId user, uint32_t operand, uint32_t position, EchId value);

static void count_use(EchProgram *p, EchId user, uint32_t operand, uint32_t position, EchId value)
{
    (void)user, (void)operand, (void)position;
    p->values[value].n_uses++;
    p->n_uses++;
}

static void store_use(EchProgram *p, EchId user, uint32_t operand, uint32_t position, EchId value)
{
    EchValue *v = &p->values[value];
    p->uses[v->first_use + v->n_uses++] = (EchValueUse){user, operand, position};
}

static void visit_uses_of(EchProgram *p, EchId user, UseVisitor visit)
{
    const EchInstruction *instruction = &p->instructions[user];
    for (uint32_t k = 0; k < instruction->n_operands; k++) {
        const EchInstruction *operand = &p->instructions[ech_program_operand(p, instruction, k)];
        uint32_t n = p->shapes[operand->shape].n_positions;
        for (uint32_t q = 0; q < n; q++) {
            EchId value = p->positions[operand->first_position + q];
            if (!value_uses_position((EchHlo)instruction->opcode, q))
                break;
            if (value != ECH_NONE)
                visit(p, user, k, q, value);
        }
    }
}

static bool collect_uses(EchProgram *p, GError **error)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        UseVisitor visit = pass == 0 ? count_use : store_use;
        for (size_t k = 0; k < p->n_flat; k++) {
            visit_uses_of(p, p->flat[k], visit);
            if (p->n_uses > MAX_USES + USES_EACH * p->n_instructions) {
                g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: %zu instructions are given more than %zu arrays, at %s; tuples are used too many times",
                            p->name, p->n_instructions, p->n_uses - 1, p->instructions[p->flat[k]].name);
                return false;
            }
        }
        for (size_t i = 0; i < p->n_instructions; i++) {
            if (p->instructions[i].schedule == ECH_NONE && p->instructions[i].first_position != ECH_NONE)
                visit_uses_of(p, (EchId)i, visit);
        }
        if (pass == 1)
            break;
        uint32_t total = 0;
        for (size_t v = 0; v < p->n_values; v++) {
            p->values[v].first_use = total;
            total += p->values[v].n_uses;
            p->values[v].n_uses = 0;
        }
        p->uses = g_new(EchValueUse, p->n_uses + 1);
    }
    return true;
}

/* Must share */

EchId ech_program_look_through(const EchProgram *p, EchId i)
{
    while (p->instructions[i].n_operands > 0 &&
           (p->instructions[i].opcode == ECH_HLO_BITCAST || (p->instructions[i].opcode == ECH_HLO_RESHAPE && p->platform == ECH_PLATFORM_GPU)))
        i = p->operands[p->instructions[i].first_operand];
    return i;
}

/* Follows @position of @id back to what makes it: through tuples, their members and what changes no array. */
static EchPosition made_by(const EchProgram *p, EchId id, uint32_t position)
{
    for (unsigned depth = 0; depth < MAX_CALL_DEPTH; depth++) {
        const EchInstruction *i = &p->instructions[id = position == 0 ? ech_program_look_through(p, id) : id];
        EchId first = i->n_operands > 0 ? ech_program_operand(p, i, 0) : ECH_NONE;
        if (i->opcode == ECH_HLO_GET_TUPLE_ELEMENT && first != ECH_NONE && member(p, first, (uint32_t)i->number) != UINT32_MAX) {
            position += member(p, first, (uint32_t)i->number);
            id = first;
        } else if (i->opcode == ECH_HLO_TUPLE && position > 0 && position < n_positions(p, id)) {
            uint32_t k = ech_program_member_at(p, i->shape, position, &position);
            if (k >= i->n_operands)
                break;
            id = ech_program_operand(p, i, k);
        } else
            break;
    }
    return (EchPosition){id, position};
}

/* The array that @position of the instruction @id, one of a fusion's, is written over: of an update its first operand, of a scatter's k-th result the
 * k-th, of a fusion that ends in one what it hands to it. */
static EchId written_over(const EchProgram *p, EchId id, uint32_t position, unsigned depth)
{
    EchPosition made = made_by(p, id, position);
    const EchInstruction *i = &p->instructions[made.instruction];
    bool is_tuple = p->shapes[i->shape].is_tuple;
    if (is_tuple == (made.position == 0))
        return ECH_NONE;
    if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > 0)
        return ech_program_operand(p, i, 0);
    if (i->opcode == ECH_HLO_SCATTER) {
        uint32_t inner = 0, k = is_tuple ? ech_program_member_at(p, i->shape, made.position, &inner) : 0;
        return inner == 0 && k < i->n_operands / 2 ? ech_program_operand(p, i, k) : ECH_NONE;
    }
    if (i->opcode != ECH_HLO_FUSION || i->n_called == 0 || depth >= MAX_CALL_DEPTH)
        return ECH_NONE;
    EchId over = written_over(p, p->computations[ech_program_called(p, i, 0)].root, made.position, depth + 1);
    const EchInstruction *parameter = over == ECH_NONE ? NULL : &p->instructions[made_by(p, over, 0).instruction];
    bool handed = parameter && parameter->opcode == ECH_HLO_PARAMETER && parameter->number >= 0 && parameter->number < i->n_operands;
    return handed ? ech_program_operand(p, i, (uint32_t)parameter->number) : ECH_NONE;
}

/* What a fusion writes over is told by what makes each of its arrays (XLA's GetFusionInstructionInPlaceInputOutputPairs). */
static void share_fused_updates(const EchProgram *p, EchId user, GArray *ret)
{
    const EchInstruction *instruction = &p->instructions[user];
    EchId root = p->computations[ech_program_called(p, instruction, 0)].root;
    for (uint32_t position = 0; position < n_positions(p, user); position++) {
        EchId over = written_over(p, root, position, 0);
        EchPosition parameter = over == ECH_NONE ? (EchPosition){ECH_NONE, 0} : made_by(p, over, 0);
        const EchInstruction *from = over == ECH_NONE ? NULL : &p->instructions[parameter.instruction];
        if (!from || from->opcode != ECH_HLO_PARAMETER || from->number < 0 || from->number >= instruction->n_operands)
            continue;
        EchSharePair pair = {(uint32_t)from->number, parameter.position, position};
        g_array_append_val(ret, pair);
    }
}

/* "{0,1}" as a pre-order position of @shape; UINT32_MAX if it is none. */
uint32_t ech_program_index_position(const EchProgram *p, EchId shape, const int64_t *index, size_t n)
{
    uint32_t position = 0;
    for (size_t k = 0; k < n; k++) {
        if (index[k] < 0 || index[k] >= p->shapes[shape].n_elements)
            return UINT32_MAX;
        position += ech_program_member_position(p, shape, (uint32_t)index[k]);
        shape = p->elements[p->shapes[shape].first_element + (uint32_t)index[k]];
    }
    return position;
}

/* output_to_operand_aliasing={{0}: (1, {}), {1}: (2, {0})} */
static void share_declared(const EchProgram *p, EchId user, GArray *ret)
{
    const EchInstruction *instruction = &p->instructions[user];
    size_t n;
    const char *text = ech_program_attribute(instruction, "output_to_operand_aliasing", &n);
    const char *end = text ? text + n : NULL;
    while (text && text < end) {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        const char *close = colon ? memchr(colon, ')', (size_t)(end - colon)) : NULL;
        if (!close)
            break;
        int64_t out[8], in[9];
        size_t n_out = ech_program_numbers(text, (size_t)(colon - text), out, G_N_ELEMENTS(out));
        size_t n_in = ech_program_numbers(colon, (size_t)(close - colon), in, G_N_ELEMENTS(in));
        text = close + 1;
        if (n_out > G_N_ELEMENTS(out) || n_in == 0 || n_in > G_N_ELEMENTS(in) || in[0] < 0 || in[0] >= instruction->n_operands)
            continue;
        EchId operand = ech_program_operand(p, instruction, (uint32_t)in[0]);
        EchSharePair pair = {(uint32_t)in[0], ech_program_index_position(p, p->instructions[operand].shape, in + 1, n_in - 1),
                             ech_program_index_position(p, instruction->shape, out, n_out)};
        if (pair.position != UINT32_MAX && pair.result != UINT32_MAX)
            g_array_append_val(ret, pair);
    }
}

void ech_program_must_share(const EchProgram *p, EchId user, GArray *ret)
{
    const EchInstruction *instruction = &p->instructions[user];
    const EchShape *shape = &p->shapes[instruction->shape];
    switch ((int)instruction->opcode) {
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_SET_DIMENSION_SIZE:
        if (instruction->n_operands > 0)
            g_array_append_val(ret, ((EchSharePair){0, 0, 0}));
        break;
    case ECH_HLO_RAGGED_ALL_TO_ALL: /* the rows that come are put into the second */
        if (instruction->n_operands > 1)
            g_array_append_val(ret, ((EchSharePair){1, 0, 0}));
        break;
    case ECH_HLO_SCATTER:
        for (uint32_t k = 0; k < instruction->n_operands / 2; k++) {
            EchSharePair pair = {k, 0, shape->is_tuple ? ech_program_member_position(p, instruction->shape, k) : 0};
            if (!shape->is_tuple || k < shape->n_elements)
                g_array_append_val(ret, pair);
        }
        break;
    case ECH_HLO_ALL_REDUCE_START:
        for (uint32_t k = 0; k < instruction->n_operands; k++) {
            EchSharePair pair = {k, 0, shape->is_tuple ? ech_program_member_position(p, instruction->shape, k) : 0};
            if (!shape->is_tuple || k < shape->n_elements)
                g_array_append_val(ret, pair);
        }
        break;
    case ECH_HLO_CUSTOM_CALL: share_declared(p, user, ret); break;
    case ECH_HLO_ASYNC_START:
        share_declared(p, user, ret);
        if (g_strcmp0(instruction->opcode_name, "ragged-all-to-all-start") == 0 && instruction->n_operands > 1 && member(p, user, 1) != UINT32_MAX)
            g_array_append_val(ret, ((EchSharePair){1, 0, member(p, user, 1)}));
        break;
    case ECH_HLO_FUSION:
        share_declared(p, user, ret);
        if (instruction->n_called > 0)
            share_fused_updates(p, user, ret);
        break;
    default: break;
    }
}

static EchId group_of(EchId *group, EchId v)
{
    while (group[v] != v) {
        group[v] = group[group[v]];
        v = group[v];
    }
    return v;
}

static void join(EchId *group, EchId a, EchId b)
{
    if (a == ECH_NONE || b == ECH_NONE)
        return;
    a = group_of(group, a);
    b = group_of(group, b);
    group[MAX(a, b)] = MIN(a, b);
}

static EchId first_parameter(const EchProgram *p, EchId computation)
{
    const EchComputation *c = &p->computations[computation];
    for (uint32_t k = 0; k < c->n; k++) {
        if (p->instructions[c->first + k].opcode == ECH_HLO_PARAMETER)
            return c->first + k;
    }
    return ECH_NONE;
}

static void join_positions(EchProgram *p, EchId *group, EchId a, EchId b)
{
    if (a == ECH_NONE || b == ECH_NONE || p->instructions[a].first_position == ECH_NONE || p->instructions[b].first_position == ECH_NONE)
        return;
    uint32_t n = MIN(n_positions(p, a), n_positions(p, b));
    for (uint32_t q = 0; q < n; q++)
        join(group, ech_program_value(p, a, q), ech_program_value(p, b, q));
}

static void join_instruction(EchProgram *p, EchId i, EchId *group, GArray *pairs)
{
    const EchInstruction *instruction = &p->instructions[i];
    if (instruction->opcode == ECH_HLO_WHILE && instruction->n_called >= 2 && instruction->n_operands > 0) {
        EchId condition = ech_program_called(p, instruction, 0), body = ech_program_called(p, instruction, 1);
        join_positions(p, group, i, ech_program_operand(p, instruction, 0));
        join_positions(p, group, i, first_parameter(p, condition));
        join_positions(p, group, i, first_parameter(p, body));
        join_positions(p, group, i, p->computations[body].root);
        return;
    }
    if (instruction->opcode == ECH_HLO_CONDITIONAL) {
        for (uint32_t k = 0; k < instruction->n_called; k++)
            join_positions(p, group, i, p->computations[ech_program_called(p, instruction, k)].root);
        return;
    }
    /* The update of a SparseCore start keeps the start's contexts. */
    if (instruction->opcode == ECH_HLO_ASYNC_UPDATE && instruction->n_operands > 0) {
        EchId start = ech_program_operand(p, instruction, 0);
        uint32_t to = member(p, i, 2), from = member(p, start, 2);
        for (uint32_t q = 1; to != UINT32_MAX && from != UINT32_MAX && q < MIN(subtree(p, i, to), subtree(p, start, from)); q++)
            join(group, ech_program_value(p, i, to + q), ech_program_value(p, start, from + q));
    }
    g_array_set_size(pairs, 0);
    ech_program_must_share(p, i, pairs);
    for (guint k = 0; k < pairs->len; k++) {
        const EchSharePair *pair = &g_array_index(pairs, EchSharePair, k);
        EchId operand = ech_program_operand(p, instruction, pair->operand);
        if (pair->position < n_positions(p, operand) && pair->result < n_positions(p, i))
            join(group, ech_program_value(p, i, pair->result), ech_program_value(p, operand, pair->position));
    }
}

GHashTable *ech_program_entry_parameters(const EchProgram *p)
{
    const EchComputation *c = &p->computations[p->entry];
    GHashTable *parameters = g_hash_table_new(ech_hash_int64, g_int64_equal);
    for (uint32_t k = 0; k < c->n; k++) {
        if (p->instructions[c->first + k].opcode == ECH_HLO_PARAMETER)
            g_hash_table_insert(parameters, &p->instructions[c->first + k].number, GSIZE_TO_POINTER((size_t)c->first + k + 1));
    }
    return parameters;
}

uint32_t ech_program_parameter_position(const EchProgram *p, GHashTable *parameters, int64_t number, const int64_t *index, size_t n)
{
    size_t found = n > 0 ? GPOINTER_TO_SIZE(g_hash_table_lookup(parameters, &number)) : 0;
    return found == 0 ? 0 : ech_program_index_position(p, p->instructions[found - 1].shape, index, n);
}

static void make_buffers(EchProgram *p)
{
    g_autofree EchId *group = g_new(EchId, p->n_values + 1);
    g_autoptr(GArray) pairs = g_array_new(FALSE, FALSE, sizeof(EchSharePair));
    for (EchId v = 0; v < p->n_values; v++)
        group[v] = v;
    for (EchId i = 0; i < p->n_instructions; i++) {
        if (p->instructions[i].first_position != ECH_NONE)
            join_instruction(p, i, group, pairs);
    }
    EchId root = p->computations[p->entry].root;
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    for (size_t k = 0; k < p->n_donations; k++) {
        const EchDonation *donation = &p->donations[k];
        size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(parameters, &donation->parameter));
        EchId parameter = found > 0 ? (EchId)(found - 1) : ECH_NONE;
        if (parameter != ECH_NONE && donation->parameter_position < n_positions(p, parameter) && donation->output_position < n_positions(p, root))
            join(group, ech_program_value(p, parameter, donation->parameter_position), ech_program_value(p, root, donation->output_position));
    }
    /* A group's number is that of its first value, which is its root since joins keep the smaller. */
    p->buffers = g_new0(EchValueBuffer, p->n_values + 1);
    for (EchId v = 0; v < p->n_values; v++) {
        EchId g = group_of(group, v);
        p->values[v].buffer = g == v ? (EchId)p->n_buffers++ : p->values[g].buffer;
        p->buffers[p->values[v].buffer].n_values++;
    }
    uint32_t total = 0;
    for (size_t b = 0; b < p->n_buffers; b++) {
        p->buffers[b].first_value = total;
        total += p->buffers[b].n_values;
        p->buffers[b].n_values = 0;
    }
    p->buffer_values = g_new(EchId, p->n_values + 1);
    for (EchId v = 0; v < p->n_values; v++) {
        EchValueBuffer *buffer = &p->buffers[p->values[v].buffer];
        p->buffer_values[buffer->first_value + buffer->n_values++] = v;
    }
}

/* Sizes, and what a buffer is. */
void ech_program_size_values(EchProgram *p)
{
    for (size_t b = 0; b < p->n_buffers; b++)
        p->buffers[b].bytes = 0;
    for (EchId v = 0; v < p->n_values; v++) {
        EchValue *value = &p->values[v];
        const EchInstruction *definer = &p->instructions[value->defined.instruction];
        const EchShape *shape = &p->shapes[ech_program_subshape(p, definer->shape, value->defined.position)];
        const EchComputation *body = &p->computations[definer->computation];
        /* A SparseCore that writes several arrays has no table of them. */
        bool untabled = shape->is_tuple && definer->schedule != ECH_NONE && body->thread && strcmp(body->thread, "sparsecore") == 0;
        value->bytes = untabled ? 0 : shape->bytes;
        value->space = untabled ? ECH_SPACE_SPARSE_CORE : shape->space;
        EchValueBuffer *buffer = &p->buffers[value->buffer];
        buffer->bytes = MAX(buffer->bytes, value->bytes);
        buffer->space = value->space;
        buffer->is_tuple |= shape->is_tuple;
        buffer->is_constant |= definer->opcode == ECH_HLO_CONSTANT;
        buffer->is_parameter |= definer->opcode == ECH_HLO_PARAMETER && definer->computation == p->entry;
        buffer->in_flat |= definer->schedule != ECH_NONE;
    }
    EchId root = p->computations[p->entry].root;
    for (uint32_t q = 0; q < n_positions(p, root); q++)
        p->buffers[p->values[ech_program_value(p, root, q)].buffer].live_out = 1;
}

/* Live ranges */

/* The async-done at the end of the chain that runs computation @c, or ECH_NONE if @c is not asynchronous. */
static EchId async_end(const EchProgram *p, EchId c, const EchId *done_of)
{
    for (unsigned depth = 0; c != ECH_NONE && depth < MAX_CALL_DEPTH; depth++) {
        EchId caller = p->computations[c].caller;
        if (caller == ECH_NONE)
            return ECH_NONE;
        EchHlo opcode = (EchHlo)p->instructions[caller].opcode;
        if (opcode == ECH_HLO_ASYNC_START || opcode == ECH_HLO_ASYNC_UPDATE)
            return done_of[caller];
        c = p->instructions[caller].computation;
    }
    return ECH_NONE;
}

static EchId async_begin(const EchProgram *p, EchId c)
{
    for (unsigned depth = 0; c != ECH_NONE && depth < MAX_CALL_DEPTH; depth++) {
        EchId caller = p->computations[c].caller;
        if (caller == ECH_NONE)
            return ECH_NONE;
        if (p->instructions[caller].opcode == ECH_HLO_ASYNC_START)
            return caller;
        c = p->instructions[caller].computation;
    }
    return ECH_NONE;
}

/* For every async-start and async-update: the async-done that ends its chain (itself if there is none). */
static EchId *find_dones(const EchProgram *p)
{
    EchId *done_of = g_new(EchId, p->n_instructions + 1);
    for (EchId i = 0; i < p->n_instructions; i++)
        done_of[i] = i;
    for (EchId i = (EchId)p->n_instructions; i-- > 0;) {
        const EchInstruction *instruction = &p->instructions[i];
        if ((instruction->opcode == ECH_HLO_ASYNC_DONE || instruction->opcode == ECH_HLO_ASYNC_UPDATE) && instruction->n_operands > 0)
            done_of[ech_program_operand(p, instruction, 0)] = done_of[i];
    }
    return done_of;
}

static int64_t use_position(const EchProgram *p, EchId user)
{
    const EchInstruction *instruction = &p->instructions[user];
    if (instruction->opcode == ECH_HLO_CALL)
        return -1;
    if (instruction->opcode == ECH_HLO_WHILE && instruction->n_called >= 2) {
        EchId parameter = first_parameter(p, ech_program_called(p, instruction, 1));
        if (parameter != ECH_NONE)
            user = parameter;
    }
    uint32_t at = p->instructions[user].schedule;
    return at == ECH_NONE ? -1 : (int64_t)at;
}

/* Per position of the entry's parameters: shared with an output. Owned by the caller. */
static bool *find_donated(const EchProgram *p)
{
    bool *donated = g_new0(bool, p->n_positions + 1);
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(p);
    for (size_t k = 0; k < p->n_donations; k++) {
        size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(parameters, &p->donations[k].parameter));
        if (found > 0 && p->donations[k].parameter_position < n_positions(p, (EchId)(found - 1)))
            donated[p->instructions[found - 1].first_position + p->donations[k].parameter_position] = true;
    }
    return donated;
}

/* What a SparseCore has of its own for a call: there from the start without operands until the update that gives them. From then on the compiler has the next
 * one's in its place, before the async-done. (In HBM those are placed beside the heap, by rules of their own.) */
static bool is_sparse_context(const EchProgram *p, const EchValue *value)
{
    EchId i = value->defined.instruction;
    const EchInstruction *made = &p->instructions[i];
    const EchInstruction *start = made->opcode == ECH_HLO_ASYNC_UPDATE && made->n_operands > 0 ? &p->instructions[ech_program_operand(p, made, 0)] : made;
    uint32_t contexts = start->opcode == ECH_HLO_ASYNC_START && start->n_operands == 0 ? member(p, i, 2) : UINT32_MAX;
    return p->platform == ECH_PLATFORM_TPU && value->space != ECH_SPACE_HBM && contexts != UINT32_MAX && value->defined.position > contexts;
}

static void range_of_value(const EchProgram *p, EchValue *value, const EchId *done_of, const bool *donated)
{
    const EchInstruction *definer = &p->instructions[value->defined.instruction];
    if (definer->schedule == ECH_NONE)
        return;
    const EchComputation *computation = &p->computations[definer->computation];
    bool parameter = definer->opcode == ECH_HLO_PARAMETER;
    value->start = parameter ? computation->begin : definer->schedule;
    value->end = definer->is_root ? computation->end : definer->schedule;
    if (p->platform == ECH_PLATFORM_TPU) {
        EchId begin = async_begin(p, definer->computation);
        if (begin != ECH_NONE)
            value->start = MAX(value->start, (int64_t)p->instructions[begin].schedule);
    }
    EchId done = async_end(p, definer->computation, done_of);
    if (done != ECH_NONE)
        value->end = MAX(value->end, (int64_t)p->instructions[done].schedule);
    value->made = value->end;
    for (uint32_t k = 0; k < value->n_holders; k++) {
        const EchInstruction *holder = &p->instructions[p->holders[value->first_holder + k].instruction];
        if (holder->schedule == ECH_NONE)
            continue;
        int64_t at = holder->is_root ? p->computations[holder->computation].end : holder->schedule;
        value->end = MAX(value->end, at);
    }
    bool context = is_sparse_context(p, value);
    for (uint32_t k = 0; k < value->n_uses; k++) {
        EchId user = p->uses[value->first_use + k].user;
        if (!context || p->instructions[user].opcode != ECH_HLO_ASYNC_DONE)
            value->end = MAX(value->end, use_position(p, user));
    }
    if (parameter && definer->computation == p->entry && !donated[definer->first_position + value->defined.position])
        value->end = (int64_t)p->n_flat;
    value->end = MAX(value->end, value->start);
    value->natural_end = value->end;
}

int ech_program_compare_ranges(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchProgram *p = data;
    const EchValue *x = &p->values[*(const EchId *)a], *y = &p->values[*(const EchId *)b];
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* One buffer's values follow each other: a value's range ends where the next begins, and the next lasts at least as long. */
static void normalise(EchProgram *p)
{
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (size_t b = 0; b < p->n_buffers; b++) {
        const EchValueBuffer *buffer = &p->buffers[b];
        if (buffer->n_values < 2)
            continue;
        g_array_set_size(ids, 0);
        for (uint32_t k = 0; k < buffer->n_values; k++) {
            EchId v = p->buffer_values[buffer->first_value + k];
            if (p->values[v].start >= 0)
                g_array_append_val(ids, v);
        }
        g_array_sort_with_data(ids, ech_program_compare_ranges, p);
        for (guint k = 0; k + 1 < ids->len; k++) {
            EchValue *a = &p->values[g_array_index(ids, EchId, k)], *c = &p->values[g_array_index(ids, EchId, k + 1)];
            c->end = MAX(a->end, c->end);
            a->end = MIN(a->end, c->start);
        }
    }
}

bool ech_program_derive(EchProgram *p, EchDiag *diag, GError **error)
{
    for (size_t c = 0; c < p->n_computations; c++) {
        for (uint32_t k = 0; k < p->computations[c].n; k++) {
            EchId i = p->computations[c].first + k;
            p->instructions[i].is_root = p->computations[c].root == i;
        }
    }
    if (!flatten_program(p, diag, error) || !find_values(p, error))
        return false;
    collect_holders(p);
    if (!collect_uses(p, error))
        return false;
    make_buffers(p);
    ech_program_size_values(p);
    g_autofree EchId *done_of = find_dones(p);
    g_autofree bool *donated = find_donated(p);
    for (EchId v = 0; v < p->n_values; v++)
        range_of_value(p, &p->values[v], done_of, donated);
    normalise(p);
    return true;
}
