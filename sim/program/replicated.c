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

#include <string.h>

/* MAX_GROUPS: ways in which the devices are grouped, of meshes a few. FEW: elements up to which an argument is a rate, a seed or a counter, the same
 * everywhere. USELESS: of what all-reduces sum up no more than one part in so many may be alike. */
enum { MAX_GROUPS = 8, FEW = 16, USELESS = 16 };

/* What an instruction of the schedule, or the body that it runs, does with other devices. */
typedef struct {
    EchId instruction;
    bool sums, gathers; /* hands the same to all of group */
    bool other;         /* hands devices different things, or asks for their number */
    EchGroup group;
} Handing;

/* What is looked at once for all groups. */
typedef struct {
    const EchProgram *p;
    GArray *handings;     /* Handing */
    uint32_t *handing_of; /* per instruction: 1 + its place among them; 0 */
    EchId *parameter;     /* per computation: its first parameter, or ECH_NONE */
    EchId *given, *made;  /* per donation: the array of an argument, and the one that takes its place; ECH_NONE for both where one is not known */
    uint32_t *first;      /* per value: the first donation in which it is the latter, or UINT32_MAX; */
    uint32_t *next;       /* per donation: the next */
    bool *is_updated;     /* per value: in some donation it is the former */
} Whole;

typedef struct {
    const Whole *w;
    EchGroup group;
    bool *reached; /* per value */
    bool *passed;  /* per instruction: what it makes is reached */
    GArray *todo;  /* EchId of values */
    bool differs;  /* It is what devices do not have in common: it stops at what hands the same to the group, and goes on from step to step. */
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
    const EchProgram *p = f->w->p;
    const EchInstruction *i = &p->instructions[instruction];
    for (uint32_t q = 0; !f->passed[instruction] && q < p->shapes[i->shape].n_positions; q++) {
        EchId value = value_at(p, instruction, q);
        if (value != ECH_NONE && p->values[value].defined.instruction == instruction && !p->shapes[ech_program_subshape(p, i->shape, q)].is_tuple)
            reach(f, value);
    }
    f->passed[instruction] = true;
}

/* What a loop hands on at @position. */
static void reach_loop(Flood *f, EchId loop, uint32_t position)
{
    const EchProgram *p = f->w->p;
    const EchInstruction *i = &p->instructions[loop];
    reach(f, value_at(p, loop, position));
    for (uint32_t k = 0; k < i->n_called; k++) {
        EchId parameter = f->w->parameter[ech_program_called(p, i, k)];
        reach(f, parameter != ECH_NONE ? value_at(p, parameter, position) : ECH_NONE);
    }
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

/* False where an instruction has nothing to do with other devices. */
static bool look_at(const EchProgram *p, EchId instruction, Handing *ret)
{
    const EchInstruction *i = &p->instructions[instruction];
    bool wraps = (i->opcode == ECH_HLO_FUSION || i->opcode == ECH_HLO_ASYNC_START) && i->n_called > 0, sliced = false;
    const EchComputation *c = wraps ? &p->computations[ech_program_called(p, i, 0)] : NULL;
    *ret = (Handing){.instruction = instruction};
    for (uint32_t k = 0; k < (c ? c->n : 1); k++) {
        const EchInstruction *inner = c ? &p->instructions[c->first + k] : i;
        switch ((int)inner->opcode) {
        case ECH_HLO_ALL_REDUCE:
        case ECH_HLO_ALL_REDUCE_START:
            ret->sums = true;
            ret->other |= !group_of(p, inner, &ret->group);
            break;
        case ECH_HLO_ALL_GATHER:
        case ECH_HLO_ALL_GATHER_START:
            ret->gathers = true;
            ret->other |= !group_of(p, inner, &ret->group);
            break;
        case ECH_HLO_DYNAMIC_SLICE: sliced = true; break;
        case ECH_HLO_PARTITION_ID:
        case ECH_HLO_REPLICA_ID:
        case ECH_HLO_REDUCE_SCATTER:
        case ECH_HLO_ALL_TO_ALL:
        case ECH_HLO_RAGGED_ALL_TO_ALL:
        case ECH_HLO_COLLECTIVE_PERMUTE:
        case ECH_HLO_COLLECTIVE_PERMUTE_START:
        case ECH_HLO_RECV:
        case ECH_HLO_INFEED: ret->other = true; break;
        default: break;
        }
    }
    ret->other |= c && ret->sums && sliced; /* a TPU's reduce-scatter */
    return ret->sums || ret->gathers || ret->other;
}

static const Handing *handing(const Whole *w, EchId instruction)
{
    return w->handing_of[instruction] > 0 ? &g_array_index(w->handings, Handing, w->handing_of[instruction] - 1) : NULL;
}

static bool hands_to_all(const EchGroup *group, const Handing *h)
{
    return h && (h->sums || h->gathers) && !h->other && is_within(group, &h->group);
}

static void go_on(Flood *f)
{
    const EchProgram *p = f->w->p;
    while (f->todo->len > 0) {
        EchId value = g_array_index(f->todo, EchId, f->todo->len - 1);
        const EchValue *v = &p->values[value];
        g_array_set_size(f->todo, f->todo->len - 1);
        for (uint32_t k = f->differs ? f->w->first[value] : UINT32_MAX; k != UINT32_MAX; k = f->w->next[k])
            reach(f, f->w->given[k]);
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
                if (!f->differs || !hands_to_all(&f->group, handing(f->w, use->user)))
                    reach_results(f, use->user);
            }
        }
    }
}

/* Whether more is summed up over the group than would be of use. */
static bool is_contradicted(const Flood *f)
{
    const EchProgram *p = f->w->p;
    EchBytes alike = 0, all = 0;
    for (guint n = 0; n < f->w->handings->len; n++) {
        const Handing *h = &g_array_index(f->w->handings, Handing, n);
        const EchInstruction *i = &p->instructions[h->instruction];
        if ((i->opcode != ECH_HLO_ALL_REDUCE && i->opcode != ECH_HLO_ALL_REDUCE_START) || !hands_to_all(&f->group, h))
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

static void seed(Flood *f)
{
    const EchProgram *p = f->w->p;
    const EchComputation *entry = &p->computations[p->entry];
    for (guint n = 0; n < f->w->handings->len; n++) {
        const Handing *h = &g_array_index(f->w->handings, Handing, n);
        if (h->other)
            reach_results(f, h->instruction);
    }
    for (uint32_t k = 0; k < entry->n; k++) {
        const EchInstruction *i = &p->instructions[entry->first + k];
        for (uint32_t q = 0; i->opcode == ECH_HLO_PARAMETER && q < p->shapes[i->shape].n_positions; q++) {
            EchId value = value_at(p, entry->first + k, q);
            if (value != ECH_NONE && !f->w->is_updated[value] && p->shapes[ech_program_subshape(p, i->shape, q)].count > FEW)
                reach(f, value);
        }
    }
}

static Flood flood_new(const Whole *w, const EchGroup *group, bool differs)
{
    return (Flood){.w = w,
                   .group = *group,
                   .reached = g_new0(bool, w->p->n_values + 1),
                   .passed = g_new0(bool, w->p->n_instructions + 1),
                   .todo = g_array_new(FALSE, FALSE, sizeof(EchId)),
                   .differs = differs};
}

static void flood_clear(Flood *f)
{
    g_free(f->reached);
    g_free(f->passed);
    g_array_unref(f->todo);
}

/* Of the donated arguments those that are alike over @group: ret[value] is its size where that is more than is known. */
static void look_over(const Whole *w, const EchGroup *group, uint32_t *ret)
{
    Flood differs = flood_new(w, group, true), handed = flood_new(w, group, false);
    seed(&differs);
    go_on(&differs);
    bool holds = !is_contradicted(&differs);
    for (guint n = 0; holds && n < w->handings->len; n++) {
        const Handing *h = &g_array_index(w->handings, Handing, n);
        if (hands_to_all(group, h))
            reach_results(&handed, h->instruction);
    }
    go_on(&handed);
    for (size_t k = 0; holds && k < w->p->n_donations; k++)
        if (w->given[k] != ECH_NONE && !differs.reached[w->given[k]] && !differs.reached[w->made[k]] && handed.reached[w->made[k]])
            ret[w->given[k]] = MAX(ret[w->given[k]], group->size);
    flood_clear(&differs);
    flood_clear(&handed);
}

static void find_donations(Whole *w)
{
    const EchProgram *p = w->p;
    const EchComputation *entry = &p->computations[p->entry];
    size_t n = 0;
    for (uint32_t k = 0; k < entry->n; k++)
        n += p->instructions[entry->first + k].opcode == ECH_HLO_PARAMETER;
    g_autofree EchId *parameters = g_new(EchId, n + 1);
    memset(parameters, 0xff, (n + 1) * sizeof(EchId));
    for (uint32_t k = 0; k < entry->n; k++) {
        const EchInstruction *i = &p->instructions[entry->first + k];
        if (i->opcode == ECH_HLO_PARAMETER && i->number >= 0 && (uint64_t)i->number < n)
            parameters[i->number] = entry->first + k;
    }
    memset(w->first, 0xff, (p->n_values + 1) * sizeof(uint32_t));
    for (size_t k = 0; k < p->n_donations; k++) {
        const EchDonation *d = &p->donations[k];
        EchId parameter = d->parameter >= 0 && (uint64_t)d->parameter < n ? parameters[d->parameter] : ECH_NONE;
        EchId given = parameter != ECH_NONE ? value_at(p, parameter, d->parameter_position) : ECH_NONE, made = value_at(p, entry->root, d->output_position);
        bool known = given != ECH_NONE && made != ECH_NONE;
        w->given[k] = known ? given : ECH_NONE;
        w->made[k] = known ? made : ECH_NONE;
        if (!known)
            continue;
        w->next[k] = w->first[made];
        w->first[made] = (uint32_t)k;
        w->is_updated[given] = true;
    }
}

static void find_handings(Whole *w)
{
    const EchProgram *p = w->p;
    for (size_t c = 0; c < p->n_computations; c++) {
        w->parameter[c] = ECH_NONE;
        for (uint32_t k = p->computations[c].n; k-- > 0;)
            if (p->instructions[p->computations[c].first + k].opcode == ECH_HLO_PARAMETER)
                w->parameter[c] = p->computations[c].first + k;
    }
    for (size_t k = 0; k < p->n_flat; k++) {
        Handing h;
        if (w->handing_of[p->flat[k]] > 0 || !look_at(p, p->flat[k], &h))
            continue;
        g_array_append_val(w->handings, h);
        w->handing_of[p->flat[k]] = w->handings->len;
    }
}

uint32_t *ech_program_replicas(const EchProgram *p)
{
    uint32_t *ret = g_new0(uint32_t, p->n_values + 1);
    EchGroup groups[MAX_GROUPS];
    size_t n_groups = 0;
    if (p->n_donations == 0 || (uint64_t)p->replicas * p->partitions < 2)
        return ret;
    Whole w = {.p = p,
               .handings = g_array_new(FALSE, FALSE, sizeof(Handing)),
               .handing_of = g_new0(uint32_t, p->n_instructions + 1),
               .parameter = g_new(EchId, p->n_computations + 1),
               .given = g_new(EchId, p->n_donations + 1),
               .made = g_new(EchId, p->n_donations + 1),
               .first = g_new(uint32_t, p->n_values + 1),
               .next = g_new(uint32_t, p->n_donations + 1),
               .is_updated = g_new0(bool, p->n_values + 1)};
    find_donations(&w);
    find_handings(&w);
    for (guint k = 0; k < w.handings->len && n_groups < MAX_GROUPS; k++) {
        const Handing *h = &g_array_index(w.handings, Handing, k);
        bool known = !(h->sums || h->gathers) || h->other || h->group.size < 2;
        for (size_t g = 0; g < n_groups; g++)
            known |= groups[g].size == h->group.size && groups[g].stride == h->group.stride;
        if (!known)
            groups[n_groups++] = h->group;
    }
    for (size_t g = 0; g < n_groups; g++)
        look_over(&w, &groups[g], ret);
    g_array_unref(w.handings);
    g_free(w.handing_of);
    g_free(w.parameter);
    g_free(w.given);
    g_free(w.made);
    g_free(w.first);
    g_free(w.next);
    g_free(w.is_updated);
    return ret;
}
