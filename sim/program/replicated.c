/* Which arguments devices hold alike. A compiled program does not say: the partitioner has taken the shardings out of it. But what becomes of an argument
 * tells: where its new value is made of nothing but what an all-reduce or an all-gather handed to all devices of a group, and of other arguments that are
 * alike, it is the same on all of them from step to step (a weight or a moment, updated by gradients that were summed up). What devices do not have in common,
 * data, their own number, what is sent on or scattered, spreads forward through the program and stops at those collectives; an argument it does not reach is
 * alike.
 *
 * One thing speaks against a group: an all-reduce that sums up what would be alike is of no use, and no compiler leaves it there. That is how groups that split
 * matrices (tensor parallelism) are told from those that split data, which look the same from here. */
#include "models/link/link.h"
#include "sim/program/private.h"

/* MAX_GROUPS: ways in which the devices are grouped, of meshes a few. FEW: elements up to which an argument is a rate, a seed or a counter, the same
 * everywhere. USELESS: of what all-reduces sum up no more than one part in so many may be alike. */
enum { MAX_GROUPS = 8, FEW = 16, USELESS = 16 };

typedef struct {
    const EchProgram *p;
    EchGroup group;
    bool *reached; /* per value */
    GArray *todo;  /* EchId of values */
    bool stops;    /* at collectives of the group */
} Flood;

static EchId value_at(const EchProgram *p, EchId instruction, uint32_t position)
{
    const EchInstruction *i = &p->instructions[instruction];
    return position < p->shapes[i->shape].n_positions ? p->positions[i->first_position + position] : ECH_NONE;
}

static void reach(Flood *f, EchId value)
{
    if (value == ECH_NONE || f->reached[value])
        return;
    f->reached[value] = true;
    g_array_append_val(f->todo, value);
}

/* The arrays that an instruction makes itself. */
static void reach_results(Flood *f, EchId instruction)
{
    const EchInstruction *i = &f->p->instructions[instruction];
    for (uint32_t q = 0; q < f->p->shapes[i->shape].n_positions; q++) {
        EchId value = value_at(f->p, instruction, q);
        if (value != ECH_NONE && f->p->values[value].defined.instruction == instruction && !f->p->shapes[ech_program_subshape(f->p, i->shape, q)].is_tuple)
            reach(f, value);
    }
}

/* What a loop hands on at @position. */
static void reach_loop(Flood *f, EchId loop, uint32_t position)
{
    const EchProgram *p = f->p;
    const EchInstruction *i = &p->instructions[loop];
    reach(f, value_at(p, loop, position));
    for (uint32_t k = 0; k < i->n_called; k++) {
        const EchComputation *c = &p->computations[ech_program_called(p, i, k)];
        for (uint32_t n = 0; n < c->n; n++)
            if (p->instructions[c->first + n].opcode == ECH_HLO_PARAMETER)
                reach(f, value_at(p, c->first + n, position));
    }
}

static bool sums_or_gathers(EchHlo opcode)
{
    return opcode == ECH_HLO_ALL_REDUCE || opcode == ECH_HLO_ALL_REDUCE_START || opcode == ECH_HLO_ALL_GATHER || opcode == ECH_HLO_ALL_GATHER_START;
}

/* The collective that an instruction is, or that the body it runs holds: *@ret_other, one that hands devices different things, or asks for their number. */
static const EchInstruction *collective_in(const EchProgram *p, EchId instruction, bool *ret_other)
{
    const EchInstruction *i = &p->instructions[instruction], *found = NULL;
    bool wraps = (i->opcode == ECH_HLO_FUSION || i->opcode == ECH_HLO_ASYNC_START) && i->n_called > 0;
    const EchComputation *c = wraps ? &p->computations[ech_program_called(p, i, 0)] : NULL;
    bool sliced = false;
    *ret_other = false;
    for (uint32_t k = 0; k < (c ? c->n : 1); k++) {
        const EchInstruction *inner = c ? &p->instructions[c->first + k] : i;
        switch ((int)inner->opcode) {
        case ECH_HLO_ALL_REDUCE:
        case ECH_HLO_ALL_REDUCE_START:
        case ECH_HLO_ALL_GATHER:
        case ECH_HLO_ALL_GATHER_START: found = inner; break;
        case ECH_HLO_DYNAMIC_SLICE: sliced = true; break;
        case ECH_HLO_PARTITION_ID:
        case ECH_HLO_REPLICA_ID:
        case ECH_HLO_REDUCE_SCATTER:
        case ECH_HLO_ALL_TO_ALL:
        case ECH_HLO_RAGGED_ALL_TO_ALL:
        case ECH_HLO_COLLECTIVE_PERMUTE:
        case ECH_HLO_COLLECTIVE_PERMUTE_START:
        case ECH_HLO_RECV:
        case ECH_HLO_INFEED: *ret_other = true; break;
        default: break;
        }
    }
    *ret_other |= c && found && sliced; /* a TPU's reduce-scatter */
    return found;
}

static bool group_of(const EchProgram *p, const EchInstruction *collective, EchGroup *ret)
{
    size_t n;
    const char *text = ech_program_attribute(collective, "replica_groups", &n);
    if (text && ech_group_read(text, n, ret))
        return true;
    uint32_t all = (uint32_t)MIN((uint64_t)p->replicas * p->partitions, UINT32_MAX);
    *ret = (EchGroup){.size = all, .devices = all, .stride = 1};
    return !text || n <= 2; /* "{}" */
}

/* Whether all devices of a group of @one are in one of @other. */
static bool is_within(const EchGroup *one, const EchGroup *other)
{
    return other->size == other->devices || (one->size == other->size && one->stride == other->stride);
}

static bool hands_to_all(const Flood *f, EchId instruction)
{
    bool other;
    EchGroup group;
    const EchInstruction *inner = collective_in(f->p, instruction, &other);
    return inner && !other && group_of(f->p, inner, &group) && is_within(&f->group, &group);
}

static void go_on(Flood *f)
{
    const EchProgram *p = f->p;
    while (f->todo->len > 0) {
        const EchValue *v = &p->values[g_array_index(f->todo, EchId, f->todo->len - 1)];
        g_array_set_size(f->todo, f->todo->len - 1);
        for (uint32_t h = 0; h < v->n_holders; h++) { /* what a loop's body or a branch ends with */
            const EchPosition *at = &p->holders[v->first_holder + h];
            EchId computation = p->instructions[at->instruction].computation, caller = p->computations[computation].caller;
            if (caller == ECH_NONE || p->computations[computation].root != at->instruction)
                continue;
            if (p->instructions[caller].opcode == ECH_HLO_WHILE)
                reach_loop(f, caller, at->position);
            else
                reach(f, value_at(p, caller, at->position));
        }
        for (uint32_t u = 0; u < v->n_uses; u++) {
            const EchValueUse *use = &p->uses[v->first_use + u];
            switch ((int)p->instructions[use->user].opcode) {
            case ECH_HLO_WHILE: reach_loop(f, use->user, use->position); break;
            case ECH_HLO_TUPLE: /* hold what they are given, or are the other end of what began */
            case ECH_HLO_GET_TUPLE_ELEMENT:
            case ECH_HLO_BITCAST:
            case ECH_HLO_OPTIMIZATION_BARRIER:
            case ECH_HLO_CALL:
            case ECH_HLO_COPY_DONE:
            case ECH_HLO_ASYNC_UPDATE:
            case ECH_HLO_ASYNC_DONE:
            case ECH_HLO_ALL_REDUCE_DONE:
            case ECH_HLO_ALL_GATHER_DONE:
            case ECH_HLO_COLLECTIVE_PERMUTE_DONE: break;
            default:
                if (!f->stops || !hands_to_all(f, use->user))
                    reach_results(f, use->user);
            }
        }
    }
}

/* Whether more is summed up over the group than would be of use. */
static bool is_contradicted(const Flood *f)
{
    const EchProgram *p = f->p;
    EchBytes alike = 0, all = 0;
    for (size_t n = 0; n < p->n_flat; n++) {
        const EchInstruction *i = &p->instructions[p->flat[n]];
        if ((i->opcode != ECH_HLO_ALL_REDUCE && i->opcode != ECH_HLO_ALL_REDUCE_START) || !hands_to_all(f, p->flat[n]))
            continue;
        for (uint32_t k = 0; k < i->n_operands; k++) {
            EchId value = value_at(p, ech_program_operand(p, i, k), 0);
            if (value == ECH_NONE)
                continue;
            all = ech_bytes_add(all, p->values[value].bytes);
            alike = ech_bytes_add(alike, f->reached[value] ? 0 : p->values[value].bytes);
        }
    }
    return alike > all / USELESS;
}

static void seed(Flood *f, const bool *is_updated)
{
    const EchProgram *p = f->p;
    for (size_t n = 0; n < p->n_flat; n++) {
        EchId id = p->flat[n];
        const EchInstruction *i = &p->instructions[id];
        bool other;
        (void)collective_in(p, id, &other);
        if (other)
            reach_results(f, id);
        if (i->opcode != ECH_HLO_PARAMETER || i->computation != p->entry)
            continue;
        for (uint32_t q = 0; q < p->shapes[i->shape].n_positions; q++) {
            EchId value = value_at(p, id, q);
            if (value != ECH_NONE && !is_updated[value] && p->shapes[ech_program_subshape(p, i->shape, q)].count > FEW)
                reach(f, value);
        }
    }
}

/* The array of an argument, and the one that takes its place. */
static void donated(const EchProgram *p, const EchId *parameters, size_t n, const EchDonation *d, EchId *ret_given, EchId *ret_made)
{
    EchId parameter = d->parameter >= 0 && (uint64_t)d->parameter < n ? parameters[d->parameter] : ECH_NONE;
    *ret_given = parameter != ECH_NONE ? value_at(p, parameter, d->parameter_position) : ECH_NONE;
    *ret_made = value_at(p, p->computations[p->entry].root, d->output_position);
}

static Flood flood_new(const EchProgram *p, const EchGroup *group, bool stops)
{
    return (Flood){.p = p, .group = *group, .reached = g_new0(bool, p->n_values + 1), .todo = g_array_new(FALSE, FALSE, sizeof(EchId)), .stops = stops};
}

static void flood_clear(Flood *f)
{
    g_free(f->reached);
    g_array_unref(f->todo);
}

/* Of the donated arguments those that are alike over @group: ret[value] is its size where that is more than is known. */
static void look_over(const EchProgram *p, const EchGroup *group, const EchId *parameters, size_t n, const bool *is_updated, uint32_t *ret)
{
    Flood differs = flood_new(p, group, true), handed = flood_new(p, group, false);
    seed(&differs, is_updated);
    go_on(&differs);
    for (bool more = true; more;) {
        more = false;
        for (size_t k = 0; k < p->n_donations; k++) {
            EchId given, made;
            donated(p, parameters, n, &p->donations[k], &given, &made);
            if (given == ECH_NONE || made == ECH_NONE || !differs.reached[made] || differs.reached[given])
                continue;
            reach(&differs, given);
            more = true;
        }
        go_on(&differs);
    }
    if (!is_contradicted(&differs)) {
        for (size_t k = 0; k < p->n_flat; k++)
            if (sums_or_gathers((EchHlo)p->instructions[p->flat[k]].opcode) || p->instructions[p->flat[k]].opcode == ECH_HLO_FUSION ||
                p->instructions[p->flat[k]].opcode == ECH_HLO_ASYNC_START)
                if (hands_to_all(&differs, p->flat[k]))
                    reach_results(&handed, p->flat[k]);
        go_on(&handed);
        for (size_t k = 0; k < p->n_donations; k++) {
            EchId given, made;
            donated(p, parameters, n, &p->donations[k], &given, &made);
            if (given != ECH_NONE && made != ECH_NONE && !differs.reached[given] && !differs.reached[made] && handed.reached[made])
                ret[given] = MAX(ret[given], group->size);
        }
    }
    flood_clear(&differs);
    flood_clear(&handed);
}

uint32_t *ech_program_replicas(const EchProgram *p)
{
    uint32_t *ret = g_new0(uint32_t, p->n_values + 1);
    EchGroup groups[MAX_GROUPS];
    size_t n_groups = 0, n = 0;
    if (p->n_donations == 0 || (uint64_t)p->replicas * p->partitions < 2)
        return ret;
    for (size_t k = 0; k < p->n_flat && n_groups < MAX_GROUPS; k++) {
        bool other, known = false;
        EchGroup group;
        const EchInstruction *inner = collective_in(p, p->flat[k], &other);
        if (!inner || other || !group_of(p, inner, &group) || group.size < 2)
            continue;
        for (size_t g = 0; g < n_groups; g++)
            known |= groups[g].size == group.size && groups[g].stride == group.stride;
        if (!known)
            groups[n_groups++] = group;
    }
    const EchComputation *entry = &p->computations[p->entry];
    for (uint32_t k = 0; k < entry->n; k++)
        n += p->instructions[entry->first + k].opcode == ECH_HLO_PARAMETER;
    g_autofree EchId *parameters = g_new(EchId, n + 1);
    g_autofree bool *is_updated = g_new0(bool, p->n_values + 1);
    for (size_t k = 0; k <= n; k++)
        parameters[k] = ECH_NONE;
    for (uint32_t k = 0; k < entry->n; k++) {
        const EchInstruction *i = &p->instructions[entry->first + k];
        if (i->opcode == ECH_HLO_PARAMETER && i->number >= 0 && (uint64_t)i->number < n)
            parameters[i->number] = entry->first + k;
    }
    for (size_t k = 0; k < p->n_donations; k++) {
        EchId given, made;
        donated(p, parameters, n, &p->donations[k], &given, &made);
        if (given != ECH_NONE && made != ECH_NONE)
            is_updated[given] = true;
    }
    for (size_t g = 0; g < n_groups; g++)
        look_over(p, &groups[g], parameters, n, is_updated, ret);
    return ret;
}
