#include "sim/program/place_inputs.h"

#include <string.h>

#define MIB UINT64_C(1048576)
enum { MAX_DEPTH = 64 };

uint32_t ech_place_leaves(const EchProgram *program, EchId shape)
{
    const EchShape *s = &program->shapes[shape];
    if (!s->is_tuple)
        return 1;
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n_elements; k++)
        n += ech_place_leaves(program, program->elements[s->first_element + k]);
    return n;
}

static void append_leaves(const EchProgram *p, EchId shape, GArray *out)
{
    const EchShape *s = &p->shapes[shape];
    if (!s->is_tuple)
    {
        g_array_append_val(out, shape);
        return;
    }
    for (uint32_t k = 0; k < s->n_elements; k++)
        append_leaves(p, p->elements[s->first_element + k], out);
}

static EchBytes array_bytes(const EchProgram *p, EchId instruction)
{
    const EchShape *s = &p->shapes[p->instructions[instruction].shape];
    return s->is_tuple ? 0 : s->bytes;
}

static EchBytes all_bytes(const EchProgram *p, EchId shape)
{
    const EchShape *s = &p->shapes[shape];
    if (!s->is_tuple)
        return s->bytes;
    EchBytes sum = 0;
    for (uint32_t k = 0; k < s->n_elements; k++)
        sum = ech_bytes_add(sum, all_bytes(p, p->elements[s->first_element + k]));
    return sum;
}

static EchId parameter_of(const EchProgram *p, EchId computation, uint32_t number)
{
    const EchComputation *c = &p->computations[computation];
    for (uint32_t j = 0; j < c->n; j++)
    {
        const EchInstruction *i = &p->instructions[c->first + j];
        if (i->opcode == ECH_HLO_PARAMETER && i->number == (int64_t)number)
            return c->first + j;
    }
    return ECH_NONE;
}

/* What a fusion reads of one of its parameters. Slices count what they take, in-place destinations nothing, broadcasts and reshapes each all of it; all other
 * users share one read. */
static EchBytes fusion_reads(const EchProgram *p, EchId computation, EchId parameter, unsigned depth)
{
    const EchComputation *c = &p->computations[computation];
    EchBytes full = all_bytes(p, p->instructions[parameter].shape), sum = 0;
    bool shared = false;
    for (uint32_t j = 0; j < c->n; j++)
    {
        EchId id = c->first + j;
        const EchInstruction *i = &p->instructions[id];
        bool user = false, first = false;
        for (uint32_t k = 0; k < i->n_operands; k++)
            if (ech_program_operand(p, i, k) == parameter)
            {
                user = true;
                first = first || k == 0;
                if (i->opcode == ECH_HLO_FUSION && i->n_called > 0 && depth < MAX_DEPTH)
                {
                    EchId inner = parameter_of(p, ech_program_called(p, i, 0), k);
                    if (inner != ECH_NONE)
                        sum = ech_bytes_add(sum, fusion_reads(p, ech_program_called(p, i, 0), inner, depth + 1));
                }
            }
        if (!user || i->opcode == ECH_HLO_FUSION)
            continue;
        if (i->opcode == ECH_HLO_SLICE || (i->opcode == ECH_HLO_DYNAMIC_SLICE && first))
            sum = ech_bytes_add(sum, array_bytes(p, id));
        else if (i->opcode == ECH_HLO_BROADCAST || i->opcode == ECH_HLO_RESHAPE)
            sum = ech_bytes_add(sum, full);
        else if (!(i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && first) && !shared)
        {
            shared = true;
            sum = ech_bytes_add(sum, full);
        }
    }
    return sum;
}

/* A gather reads whole tiles for each slice. */
static EchBytes gather_reads(const EchProgram *p, EchId gather)
{
    const EchInstruction *i = &p->instructions[gather];
    EchBytes result = array_bytes(p, gather);
    const EchLayout *table = ech_program_layout(p, p->instructions[ech_program_operand(p, i, 0)].shape);
    int64_t sizes[ECH_LAYOUT_MAX_RANK];
    size_t n, count;
    const char *text = ech_program_attribute(i, "slice_sizes", &n);
    count = text != NULL ? ech_program_numbers(text, n, sizes, G_N_ELEMENTS(sizes)) : 0;
    if (table == NULL || table->n_tiles == 0 || count != table->rank)
        return result;
    const EchTile *tile = &table->tiles[0];
    uint64_t elements = 1, used = 1;
    for (uint8_t t = 0; t < tile->rank; t++)
    {
        uint64_t side = tile->dims[tile->rank - 1 - t] > 0 ? (uint64_t)tile->dims[tile->rank - 1 - t] : 1;
        uint64_t taken = t < table->rank ? (uint64_t)MAX(sizes[table->order[t]], 1) : 1;
        elements *= side;
        used *= MIN(side, taken);
    }
    return ech_bytes_mul(result, elements / MAX(used, 1));
}

/* The parameter behind @id, through whatever only reshapes it; ECH_NONE if there is none. */
static EchId trace_to_parameter(const EchProgram *p, EchId id)
{
    for (unsigned depth = 0; depth < MAX_DEPTH; depth++)
    {
        const EchInstruction *i = &p->instructions[id];
        if (i->opcode == ECH_HLO_PARAMETER)
            return id;
        if (i->n_operands == 0)
            return ECH_NONE;
        id = ech_program_operand(p, i, 0);
    }
    return ECH_NONE;
}

/* Where a parameter ends up by reshaping alone: the shape in which a gather's indices are read. */
static EchId reshaped(const EchProgram *p, EchId computation, EchId id)
{
    const EchComputation *c = &p->computations[computation];
    for (uint32_t j = 0; j < c->n; j++)
    {
        const EchInstruction *i = &p->instructions[c->first + j];
        bool shape_only = i->opcode == ECH_HLO_CUSTOM_CALL || i->opcode == ECH_HLO_SLICE || i->opcode == ECH_HLO_RESHAPE || i->opcode == ECH_HLO_TRANSPOSE ||
                          i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_COPY;
        if (shape_only && i->n_operands == 1 && ech_program_operand(p, i, 0) == id)
            id = c->first + j;
    }
    return id;
}

static EchId gather_in(const EchProgram *p, EchId fusion)
{
    const EchInstruction *i = &p->instructions[fusion];
    if (i->fusion_kind != 'C' || i->n_called == 0)
        return ECH_NONE;
    const EchComputation *c = &p->computations[ech_program_called(p, i, 0)];
    for (uint32_t j = 0; j < c->n; j++)
        if (p->instructions[c->first + j].opcode == ECH_HLO_GATHER && p->instructions[c->first + j].n_operands >= 2)
            return c->first + j;
    return ECH_NONE;
}

static EchBytes operand_bytes(const EchProgram *p, const EchPlaceChip *chip, EchId id, uint32_t k, EchBytes full)
{
    const EchInstruction *i = &p->instructions[id];
    switch ((int)i->opcode)
    {
    case ECH_HLO_SLICE:
        return array_bytes(p, id);
    case ECH_HLO_DYNAMIC_SLICE:
        return k == 0 ? array_bytes(p, id) : k == 1 || !chip->first_index_only ? full : 0;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
        return k == 0 ? 0 : k <= 2 || !chip->first_index_only ? full : 0;
    case ECH_HLO_GATHER:
        return k == 0 ? gather_reads(p, id) : full;
    case ECH_HLO_FUSION:
    {
        if (i->n_called == 0)
            return full;
        EchId gather = gather_in(p, id), computation = ech_program_called(p, i, 0), parameter = parameter_of(p, computation, k);
        if (parameter == ECH_NONE)
            return full;
        if (gather != ECH_NONE)
        {
            const EchInstruction *g = &p->instructions[gather];
            if (trace_to_parameter(p, ech_program_operand(p, g, 0)) == parameter)
                return gather_reads(p, gather);
            return array_bytes(p, reshaped(p, computation, parameter));
        }
        return fusion_reads(p, computation, parameter, 0);
    }
    default:
        return full;
    }
}

/* Bytes written of one array of a fusion's result: an update in place counts its update. */
static EchBytes written(const EchProgram *p, EchId id, EchBytes full)
{
    const EchInstruction *i = &p->instructions[id];
    if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > 1)
        return array_bytes(p, ech_program_operand(p, i, 1));
    return full;
}

static EchBytes result_bytes(const EchProgram *p, EchId id, uint32_t leaf, EchBytes full)
{
    const EchInstruction *i = &p->instructions[id];
    if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE)
        return written(p, id, full);
    if (i->opcode != ECH_HLO_FUSION || i->n_called == 0)
        return full;
    EchId root = p->computations[ech_program_called(p, i, 0)].root;
    for (unsigned depth = 0; depth < MAX_DEPTH && root != ECH_NONE; depth++)
    {
        const EchInstruction *r = &p->instructions[root];
        if (r->opcode == ECH_HLO_TUPLE)
        {
            uint32_t at = 0;
            for (uint32_t k = 0; k < r->n_operands; k++)
            {
                uint32_t n = ech_place_leaves(p, p->instructions[ech_program_operand(p, r, k)].shape);
                if (leaf < at + n)
                    return n == 1 ? written(p, ech_program_operand(p, r, k), full) : full;
                at += n;
            }
            return full;
        }
        return written(p, root, full);
    }
    return full;
}

typedef enum { COST_FREE, COST_CLOCK, COST_TABLE, COST_NORMAL } CostKind;

static CostKind kind_of(const EchInstruction *i)
{
    switch ((int)i->opcode)
    {
    case ECH_HLO_PARAMETER:
    case ECH_HLO_WHILE:
    case ECH_HLO_CONDITIONAL:
    case ECH_HLO_CALL:
    case ECH_HLO_ASYNC_START:
    case ECH_HLO_ASYNC_UPDATE:
    case ECH_HLO_ASYNC_DONE:
    case ECH_HLO_COPY_START:
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_ALL_GATHER_START:
    case ECH_HLO_ALL_GATHER_DONE:
    case ECH_HLO_ALL_REDUCE_START:
    case ECH_HLO_ALL_REDUCE_DONE:
    case ECH_HLO_COLLECTIVE_PERMUTE_START:
    case ECH_HLO_COLLECTIVE_PERMUTE_DONE:
        return COST_FREE;
    case ECH_HLO_CONSTANT:
    case ECH_HLO_BITCAST:
    case ECH_HLO_GET_TUPLE_ELEMENT:
        return COST_CLOCK;
    case ECH_HLO_TUPLE:
        return COST_TABLE;
    case ECH_HLO_CUSTOM_CALL:
        return i->n_operands == 0 ? COST_CLOCK : COST_NORMAL;
    default:
        return COST_NORMAL;
    }
}

/* Clocks of the matrix unit on chips that price by passes: one pass of the inner product per 256 rows, and one accumulation per result register and further pass. */
static double mxu_clocks(const EchProgram *p, EchId id, const EchPlaceChip *chip, unsigned depth)
{
    const EchInstruction *i = &p->instructions[id];
    double clocks = 0;
    if (i->opcode == ECH_HLO_CONVOLUTION || i->opcode == ECH_HLO_DOT)
    {
        double products = (double)ech_program_work(p, id).matrix / 2, results = (double)p->shapes[i->shape].count;
        double passes = results > 0 ? products / results / 256 : 0;
        double whole = (double)(uint64_t)passes;
        passes = whole < passes ? whole + 1 : whole;
        clocks = products / (double)chip->mxu_passes + results / 1024 * MAX(passes - 1, 0);
    }
    if (i->opcode == ECH_HLO_FUSION && i->n_called > 0 && depth < MAX_DEPTH)
    {
        const EchComputation *c = &p->computations[ech_program_called(p, i, 0)];
        for (uint32_t j = 0; j < c->n; j++)
            clocks += mxu_clocks(p, c->first + j, chip, depth + 1);
    }
    return clocks;
}

static float compute_seconds(const EchProgram *p, EchId id, const EchPlaceChip *chip)
{
    float clock = (float)chip->clock_s;
    EchHloWork work = ech_program_work(p, id);
    if (chip->flops_per_s > 0)
        return MAX(clock, (float)((double)(work.matrix + work.vector) / chip->flops_per_s));
    double clocks = work.matrix > 0 ? mxu_clocks(p, id, chip, 0) : 0;
    if (clocks > 0)
        clocks += (double)work.vector / (chip->fast_ratio > 10 ? 8192 : 4096);
    return MAX(clock, (float)(clocks * chip->clock_s));
}

/* Every array above 1 MiB that an instruction makes, bodies of fusions included. */
static EchBytes find_picker_bytes(const EchProgram *p)
{
    g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    g_autofree bool *fused = g_new0(bool, MAX(p->n_computations, 1));
    EchBytes largest = 0;
    for (size_t c = 0; c < p->n_computations; c++)
        for (uint32_t j = 0; j < p->computations[c].n; j++)
        {
            const EchInstruction *i = &p->instructions[p->computations[c].first + j];
            for (uint32_t k = 0; i->opcode == ECH_HLO_FUSION && k < i->n_called; k++)
                fused[ech_program_called(p, i, k)] = true;
        }
    for (size_t c = 0; c < p->n_computations; c++)
        for (uint32_t j = 0; j < p->computations[c].n; j++)
        {
            const EchInstruction *i = &p->instructions[p->computations[c].first + j];
            bool tuple = p->shapes[i->shape].is_tuple;
            if (i->opcode == ECH_HLO_GET_TUPLE_ELEMENT || i->opcode == ECH_HLO_BITCAST || (tuple && i->opcode != ECH_HLO_FUSION))
                continue;
            g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(EchId));
            append_leaves(p, i->shape, leaves);
            for (guint l = 0; l < leaves->len; l++)
            {
                EchBytes bytes = p->shapes[g_array_index(leaves, EchId, l)].bytes;
                if (bytes <= MIB)
                    continue;
                g_array_append_val(sizes, bytes);
                if (!fused[c])
                    largest = MAX(largest, bytes);
            }
        }
    return ech_place_picker_bytes((EchBytes *)(void *)sizes->data, sizes->len, largest);
}

EchPlaceCosts *ech_place_costs_new(const EchProgram *program, const EchPlaceChip *chip)
{
    const EchProgram *p = program;
    EchPlaceCosts *costs = g_new0(EchPlaceCosts, 1);
    size_t n = p->n_instructions;
    costs->chip = chip;
    costs->compute = g_new0(float, MAX(n, 1));
    costs->total = g_new0(float, MAX(n, 1));
    costs->seconds = g_new0(float, MAX(n, 1));
    costs->first_operand = g_new0(uint32_t, n + 1);
    costs->first_result = g_new0(uint32_t, n + 1);
    g_autoptr(GArray) read = g_array_new(FALSE, FALSE, sizeof(uint64_t)), made = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (size_t id = 0; id < n; id++)
    {
        const EchInstruction *i = &p->instructions[id];
        costs->first_operand[id] = read->len;
        costs->first_result[id] = made->len;
        if (i->schedule == ECH_NONE)
            continue;
        CostKind kind = kind_of(i);
        float total = 0;
        g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(EchId));
        for (uint32_t k = 0; k < i->n_operands; k++)
        {
            g_array_set_size(leaves, 0);
            append_leaves(p, p->instructions[ech_program_operand(p, i, k)].shape, leaves);
            for (guint l = 0; l < leaves->len; l++)
            {
                EchBytes full = p->shapes[g_array_index(leaves, EchId, l)].bytes;
                uint64_t bytes = kind == COST_NORMAL ? (leaves->len == 1 ? operand_bytes(p, chip, (EchId)id, k, full) : full) : 0;
                g_array_append_val(read, bytes);
                total += (float)bytes;
            }
        }
        g_array_set_size(leaves, 0);
        append_leaves(p, i->shape, leaves);
        for (guint l = 0; l < leaves->len; l++)
        {
            uint64_t bytes = kind == COST_NORMAL ? result_bytes(p, (EchId)id, l, p->shapes[g_array_index(leaves, EchId, l)].bytes) : 0;
            total += (float)bytes;
            if (i->opcode == ECH_HLO_SORT && leaves->len > 1)
                bytes = 0; /* A sort's results are in the total but not told apart. */
            g_array_append_val(made, bytes);
        }
        if (kind == COST_TABLE && chip->tuple_bytes > 0)
            total = (float)ech_layout_tuple_bytes(i->n_operands, chip->tuple_bytes);
        costs->total[id] = total;
        costs->compute[id] = kind == COST_FREE ? 0 : kind == COST_NORMAL ? compute_seconds(p, (EchId)id, chip) : (float)chip->clock_s;
        costs->seconds[id] = ech_place_elapsed(costs->compute[id], ech_place_memory_seconds(chip, total, 0, 0));
    }
    costs->first_operand[n] = read->len;
    costs->first_result[n] = made->len;
    costs->operand_bytes = (uint64_t *)(void *)g_array_free(g_steal_pointer(&read), FALSE);
    costs->result_bytes = (uint64_t *)(void *)g_array_free(g_steal_pointer(&made), FALSE);
    costs->picker_bytes = find_picker_bytes(p);
    return costs;
}

void ech_place_costs_free(EchPlaceCosts *costs)
{
    if (costs == NULL)
        return;
    g_free(costs->compute);
    g_free(costs->total);
    g_free(costs->seconds);
    g_free(costs->first_operand);
    g_free(costs->first_result);
    g_free(costs->operand_bytes);
    g_free(costs->result_bytes);
    g_free(costs);
}

uint64_t ech_place_costs_operand(const EchPlaceCosts *costs, const EchProgram *program, EchId instruction, uint32_t k, uint32_t leaf)
{
    const EchInstruction *i = &program->instructions[instruction];
    uint32_t at = costs->first_operand[instruction];
    for (uint32_t j = 0; j < k && j < i->n_operands; j++)
        at += ech_place_leaves(program, program->instructions[ech_program_operand(program, i, j)].shape);
    return at + leaf < costs->first_operand[instruction + 1] ? costs->operand_bytes[at + leaf] : 0;
}
