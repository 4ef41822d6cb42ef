#include "sim/program/place_inputs.h"

#include "models/place/loop.h"
#include "sim/base/error.h"
#include "sim/program/place_products.h"

#include <math.h>
#include <string.h>

#define MIB UINT64_C(1048576)
enum { MAX_DEPTH = 64 };

uint32_t ech_place_leaves(const EchProgram *program, EchId shape)
{
    return program->shapes[shape].n_leaves;
}

/* A tuple of arrays alone: the array at position k + 1 is its k-th. */
static bool is_flat(const EchShape *s)
{
    return s->is_tuple && s->n_leaves == s->n_elements && s->n_positions == s->n_elements + 1;
}

static void append_leaves(const EchProgram *p, EchId shape, GArray *out)
{
    const EchShape *s = &p->shapes[shape];
    if (!s->is_tuple) {
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
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        if (i->opcode == ECH_HLO_PARAMETER && i->number == (int64_t)number)
            return c->first + j;
    }
    return ECH_NONE;
}

/* Whether a fusion only tiles its operand anew or names it by another shape (such ones stand around arrays whose tiles are not those of the kernel). */
static bool hands_on(const EchProgram *p, const EchInstruction *fusion)
{
    if (fusion->n_operands != 1 || fusion->n_called == 0)
        return false;
    EchId root = p->computations[ech_program_called(p, fusion, 0)].root;
    const EchInstruction *last = root == ECH_NONE ? NULL : &p->instructions[root];
    return last != NULL && (last->opcode == ECH_HLO_COPY || last->opcode == ECH_HLO_BITCAST) &&
           p->instructions[ech_program_operand(p, last, 0)].opcode == ECH_HLO_PARAMETER;
}

/* What a fusion reads of one of its parameters, of @full bytes, where that is @value (the parameter, or what hands it on). Slices count what they take,
 * in-place destinations nothing, broadcasts and reshapes each all of it; all other users share one read. */
static EchBytes fusion_reads(const EchProgram *p, EchId computation, EchId value, EchBytes full, bool *shared, unsigned depth)
{
    const EchComputation *c = &p->computations[computation];
    EchBytes sum = 0;
    for (uint32_t j = 0; j < c->n; j++) {
        EchId id = c->first + j;
        const EchInstruction *i = &p->instructions[id];
        bool user = false, first = false;
        for (uint32_t k = 0; k < i->n_operands; k++)
            if (ech_program_operand(p, i, k) == value) {
                user = true;
                first = first || k == 0;
                if (i->opcode != ECH_HLO_FUSION || i->n_called == 0 || depth >= MAX_DEPTH)
                    continue;
                if (i->fusion_kind == 'C') {
                    /* A gather or scatter reads as any other instruction does, but where it is the end it counts nothing. */
                    if (!i->is_root && !*shared) {
                        *shared = true;
                        sum = ech_bytes_add(sum, full);
                    }
                    continue;
                }
                EchId body = ech_program_called(p, i, 0), inner = parameter_of(p, body, k);
                bool own = false;
                if (!i->is_root && hands_on(p, i))
                    sum = ech_bytes_add(sum, fusion_reads(p, computation, id, full, &own, depth + 1));
                else if (inner != ECH_NONE)
                    sum = ech_bytes_add(sum, fusion_reads(p, body, inner, full, &own, depth + 1));
            }
        if (!user || i->opcode == ECH_HLO_FUSION)
            continue;
        if (i->opcode == ECH_HLO_SLICE || (i->opcode == ECH_HLO_DYNAMIC_SLICE && first))
            sum = ech_bytes_add(sum, array_bytes(p, id));
        else if (i->opcode == ECH_HLO_BROADCAST || i->opcode == ECH_HLO_RESHAPE)
            sum = ech_bytes_add(sum, full);
        else if (!(i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && first) && !*shared) {
            *shared = true;
            sum = ech_bytes_add(sum, full);
        }
    }
    return sum;
}

/* How many times its bytes are moved for a slice of @table with @sizes, tile by tile: a slice that takes all of a dimension uses what pads it too. Lone
 * elements are a vector register each. */
static uint64_t tile_factor(const EchLayout *table, const int64_t *sizes)
{
    const EchTile *tile = &table->tiles[0];
    uint64_t elements = 1, used = 1;
    for (uint8_t t = 0; t < tile->rank; t++) {
        uint64_t side = tile->dims[tile->rank - 1 - t] > 0 ? (uint64_t)tile->dims[tile->rank - 1 - t] : 1;
        uint8_t dim = t < table->rank ? table->order[t] : 0;
        uint64_t taken = t >= table->rank ? 1 : (uint64_t)sizes[dim] >= (uint64_t)table->dims[dim] ? side : (uint64_t)MAX(sizes[dim], 1);
        elements *= side;
        used *= MIN(side, taken);
    }
    return MAX(elements, 1024) / MAX(used, 1); /* a vector register at least */
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
    return ech_bytes_mul(result, tile_factor(table, sizes));
}

static bool among(const int64_t *list, size_t n, int64_t what)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == what)
            return true;
    return false;
}

/* A scatter reads, and writes, whole tiles for each update. */
static EchBytes scatter_moves(const EchProgram *p, EchId scatter)
{
    const EchInstruction *i = &p->instructions[scatter];
    EchId updates = ech_program_operand(p, i, 2);
    EchBytes bytes = array_bytes(p, updates);
    const EchLayout *table = ech_program_layout(p, p->instructions[ech_program_operand(p, i, 0)].shape);
    const EchLayout *from = ech_program_layout(p, p->instructions[updates].shape);
    int64_t windows[ECH_LAYOUT_MAX_RANK], inserted[ECH_LAYOUT_MAX_RANK], batching[ECH_LAYOUT_MAX_RANK], sizes[ECH_LAYOUT_MAX_RANK];
    size_t n, n_windows = 0, n_inserted = 0, n_batching = 0, at = 0;
    const char *text = ech_program_attribute(i, "update_window_dims", &n);
    if (text != NULL)
        n_windows = MIN(ech_program_numbers(text, n, windows, G_N_ELEMENTS(windows)), G_N_ELEMENTS(windows));
    text = ech_program_attribute(i, "inserted_window_dims", &n);
    if (text != NULL)
        n_inserted = MIN(ech_program_numbers(text, n, inserted, G_N_ELEMENTS(inserted)), G_N_ELEMENTS(inserted));
    text = ech_program_attribute(i, "input_batching_dims", &n);
    if (text != NULL)
        n_batching = MIN(ech_program_numbers(text, n, batching, G_N_ELEMENTS(batching)), G_N_ELEMENTS(batching));
    if (table == NULL || from == NULL || table->n_tiles == 0)
        return bytes;
    for (uint8_t d = 0; d < table->rank; d++) {
        sizes[d] = 1;
        if (among(inserted, n_inserted, d) || among(batching, n_batching, d) || at >= n_windows)
            continue;
        if (windows[at] >= 0 && windows[at] < from->rank)
            sizes[d] = (int64_t)from->dims[windows[at]];
        at++;
    }
    return ech_bytes_mul(bytes, tile_factor(table, sizes));
}

/* The parameter behind @id, through whatever only reshapes it; ECH_NONE if there is none. */
static EchId trace_to_parameter(const EchProgram *p, EchId id)
{
    for (unsigned depth = 0; depth < MAX_DEPTH; depth++) {
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
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        bool shape_only = i->opcode == ECH_HLO_CUSTOM_CALL || i->opcode == ECH_HLO_SLICE || i->opcode == ECH_HLO_RESHAPE || i->opcode == ECH_HLO_TRANSPOSE ||
                          i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_COPY;
        if (shape_only && i->n_operands == 1 && ech_program_operand(p, i, 0) == id)
            id = c->first + j;
    }
    return id;
}

/* The gather or the scatter of one array that a custom fusion is; ECH_NONE. */
static EchId mover_in(const EchProgram *p, EchId fusion)
{
    const EchInstruction *i = &p->instructions[fusion];
    if (i->fusion_kind != 'C' || i->n_called == 0)
        return ECH_NONE;
    const EchComputation *c = &p->computations[ech_program_called(p, i, 0)];
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *in = &p->instructions[c->first + j];
        if ((in->opcode == ECH_HLO_GATHER && in->n_operands >= 2) || (in->opcode == ECH_HLO_SCATTER && in->n_operands == 3))
            return c->first + j;
    }
    return ECH_NONE;
}

/* Of a gather's or scatter's first operand. */
static EchBytes mover_reads(const EchProgram *p, EchId mover)
{
    return p->instructions[mover].opcode == ECH_HLO_GATHER ? gather_reads(p, mover) : scatter_moves(p, mover);
}

static EchBytes operand_bytes(const EchProgram *p, const EchPlaceChip *chip, EchId id, uint32_t k, EchBytes full)
{
    const EchInstruction *i = &p->instructions[id];
    switch ((int)i->opcode) {
    case ECH_HLO_SLICE: return array_bytes(p, id);
    case ECH_HLO_DYNAMIC_SLICE: return k == 0 ? array_bytes(p, id) : k == 1 || !chip->first_index_only ? full : 0;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: return k == 0 ? 0 : k <= 2 || !chip->first_index_only ? full : 0;
    case ECH_HLO_GATHER: return k == 0 ? gather_reads(p, id) : full;
    case ECH_HLO_SCATTER: return k == 0 && i->n_operands == 3 ? scatter_moves(p, id) : full;
    case ECH_HLO_FUSION: {
        if (i->n_called == 0)
            return full;
        EchId mover = mover_in(p, id), computation = ech_program_called(p, i, 0), parameter = parameter_of(p, computation, k);
        if (parameter == ECH_NONE)
            return full;
        if (mover != ECH_NONE) {
            if (trace_to_parameter(p, ech_program_operand(p, &p->instructions[mover], 0)) == parameter)
                return mover_reads(p, mover);
            return array_bytes(p, reshaped(p, computation, parameter));
        }
        bool shared = false;
        return fusion_reads(p, computation, parameter, all_bytes(p, p->instructions[parameter].shape), &shared, 0);
    }
    default: return full;
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
    EchId mover = mover_in(p, id);
    if (mover != ECH_NONE && !p->shapes[i->shape].is_tuple)
        return p->instructions[mover].opcode == ECH_HLO_GATHER ? array_bytes(p, mover) : scatter_moves(p, mover);
    EchId root = p->computations[ech_program_called(p, i, 0)].root;
    for (unsigned depth = 0; depth < MAX_DEPTH && root != ECH_NONE; depth++) {
        const EchInstruction *r = &p->instructions[root];
        if (r->opcode == ECH_HLO_TUPLE) {
            uint32_t at = 0;
            for (uint32_t k = 0; k < r->n_operands; k++) {
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

/* KERNEL: a Pallas kernel, or the largest of a row. OPAQUE: what only the compiler's own code generator knows. */
typedef enum { COST_FREE, COST_CLOCK, COST_TABLE, COST_NORMAL, COST_KERNEL, COST_OPAQUE } CostKind;

static CostKind kind_of(const EchInstruction *i)
{
    switch ((int)i->opcode) {
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
    case ECH_HLO_COLLECTIVE_PERMUTE_DONE: return COST_FREE;
    case ECH_HLO_CONSTANT:
    case ECH_HLO_BITCAST:
    case ECH_HLO_GET_TUPLE_ELEMENT: return COST_CLOCK;
    case ECH_HLO_TUPLE: return COST_TABLE;
    case ECH_HLO_CUSTOM_CALL:
        if (i->target != NULL && strcmp(i->target, "HostExecute") == 0)
            return COST_FREE;
        if (i->n_operands == 0)
            return COST_CLOCK;
        return i->target != NULL && (strcmp(i->target, "tpu_custom_call") == 0 || strcmp(i->target, "TopK") == 0) ? COST_KERNEL : COST_OPAQUE;
    default: return COST_NORMAL;
    }
}

/* Clocks of the matrix unit on chips that price by passes: one pass of the inner product per 256 rows, and one accumulation per result register and further
 * pass. */
static double mxu_clocks(const EchProgram *p, EchId id, const EchPlaceChip *chip, unsigned depth)
{
    const EchInstruction *i = &p->instructions[id];
    double clocks = 0;
    if (i->opcode == ECH_HLO_CONVOLUTION || i->opcode == ECH_HLO_DOT) {
        double products = (double)ech_program_work(p, id).matrix / 2, results = (double)p->shapes[i->shape].count;
        double passes = results > 0 ? products / results / 256 : 0;
        double whole = (double)(uint64_t)passes;
        passes = whole < passes ? whole + 1 : whole;
        clocks = products / (double)chip->mxu_passes + results / 1024 * MAX(passes - 1, 0);
    }
    if (i->opcode == ECH_HLO_FUSION && i->fusion_kind != 'C' && i->n_called > 0 && depth < MAX_DEPTH) {
        const EchComputation *c = &p->computations[ech_program_called(p, i, 0)];
        for (uint32_t j = 0; j < c->n; j++)
            clocks += mxu_clocks(p, c->first + j, chip, depth + 1);
    }
    return clocks;
}

/* Groups of a ragged product in a fusion, which the compiler writes beside the fusion that multiplies. */
static uint32_t ragged_groups(const EchProgram *p, EchId id, unsigned depth)
{
    const EchInstruction *i = &p->instructions[id];
    uint32_t groups = (uint32_t)ech_program_ragged_groups(i);
    const EchComputation *c = i->opcode == ECH_HLO_FUSION && i->n_called > 0 && depth < 3 ? &p->computations[ech_program_called(p, i, 0)] : NULL;
    for (uint32_t j = 0; c != NULL && j < c->n && groups == 0; j++)
        if (p->instructions[c->first + j].opcode == ECH_HLO_FUSION)
            groups = ragged_groups(p, c->first + j, depth + 1);
    return groups;
}

static float compute_seconds(const EchProgram *p, EchId id, const EchPlaceChip *chip)
{
    float clock = (float)chip->clock_s;
    EchHloWork work = ech_program_work(p, id);
    double products = (double)work.matrix * (double)MAX(ech_program_ragged_groups(&p->instructions[id]), 1u); /* all that is masked counts */
    if (chip->flops_per_s > 0)
        return MAX(clock, (float)((products + (double)work.vector) / chip->flops_per_s));
    double clocks = work.matrix > 0 ? mxu_clocks(p, id, chip, 0) : 0;
    uint32_t groups = p->instructions[id].fusion_kind == 'C' ? ragged_groups(p, id, 0) : 0;
    if (groups > 0) /* its passes alone (libtpu 0.0.52) */
        return MAX(clock, (float)((double)work.matrix * groups / 2 / (double)chip->mxu_passes * chip->clock_s));
    if (clocks > 0)
        clocks += (double)work.vector / (chip->fast_ratio > 10 ? 8192 : 4096);
    return MAX(clock, (float)(clocks * chip->clock_s));
}

/* Every array above 1 MiB that an instruction makes, bodies of fusions included; a loop makes anew what it carries and changes: as its result, and as the
 * parameters of its body and its condition. */
static EchBytes find_picker_bytes(const EchProgram *p)
{
    g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(EchBytes));
    g_autofree bool *fused = g_new0(bool, MAX(p->n_computations, 1));
    EchBytes largest = 0;
    for (size_t c = 0; c < p->n_computations; c++)
        for (uint32_t j = 0; j < p->computations[c].n; j++) {
            const EchInstruction *i = &p->instructions[p->computations[c].first + j];
            for (uint32_t k = 0; i->opcode == ECH_HLO_FUSION && k < i->n_called; k++)
                fused[ech_program_called(p, i, k)] = true;
        }
    for (size_t c = 0; c < p->n_computations; c++)
        for (uint32_t j = 0; j < p->computations[c].n; j++) {
            EchId id = p->computations[c].first + j;
            const EchInstruction *i = &p->instructions[id];
            bool tuple = p->shapes[i->shape].is_tuple, carried = false;
            switch ((int)i->opcode) {
            case ECH_HLO_TUPLE:
            case ECH_HLO_GET_TUPLE_ELEMENT:
            case ECH_HLO_BITCAST: continue;
            case ECH_HLO_ASYNC_START:
            case ECH_HLO_ASYNC_UPDATE:
            case ECH_HLO_ASYNC_DONE:
            case ECH_HLO_COPY_START:
                if (tuple)
                    continue;
                break;
            case ECH_HLO_WHILE:
            case ECH_HLO_CONDITIONAL:
            case ECH_HLO_PARAMETER: carried = tuple; break;
            default: break;
            }
            if (carried && fused[c])
                continue;
            g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(EchId));
            append_leaves(p, i->shape, leaves);
            for (guint l = 0; l < leaves->len; l++) {
                EchBytes bytes = p->shapes[g_array_index(leaves, EchId, l)].bytes;
                if (bytes <= MIB)
                    continue;
                if (carried || (!fused[c] && i->opcode != ECH_HLO_FUSION)) {
                    EchId value = ech_program_value(p, id, ech_place_position(p, i->shape, l));
                    if (value == ECH_NONE || p->values[value].defined.instruction != id)
                        continue;
                }
                g_array_append_val(sizes, bytes);
                if (!fused[c] && !carried)
                    largest = MAX(largest, bytes);
            }
        }
    return ech_place_picker_bytes((EchBytes *)(void *)sizes->data, sizes->len, largest);
}

/* Number of the array at @position of a shape; UINT32_MAX if there is none. */
static uint32_t leaf_at(const EchProgram *program, EchId shape, uint32_t position)
{
    uint32_t leaf = 0;
    const EchShape *s = &program->shapes[shape];
    if (position >= s->n_positions)
        return UINT32_MAX;
    if (is_flat(s))
        return position > 0 ? position - 1 : UINT32_MAX;
    while (s->is_tuple && position-- > 0) { /* the tuple itself comes before its members */
        const EchId *member = program->elements + s->first_element;
        for (; position >= program->shapes[*member].n_positions; member++) {
            position -= program->shapes[*member].n_positions;
            leaf += ech_place_leaves(program, *member);
        }
        s = &program->shapes[*member];
    }
    return s->is_tuple ? UINT32_MAX : leaf;
}

/* A loop is charged, for its element k, with what instructions of its body and condition write to their own element k: the compiler's analysis adds up
 * accesses by their place in a shape, whatever value that is (seen on v4 to v6e). */
static void charge_loop(const EchProgram *p, EchId loop, const EchPlaceCosts *costs, GArray *made)
{
    const EchInstruction *i = &p->instructions[loop];
    uint32_t at = costs->first_result[loop];
    const EchShape *s = &p->shapes[i->shape];
    uint32_t n = s->is_tuple ? s->n_elements : 0;
    g_autofree uint64_t *sums = g_new0(uint64_t, MAX(n, 1));
    for (uint32_t c = 0; c < i->n_called; c++) {
        const EchComputation *called = &p->computations[ech_program_called(p, i, c)];
        for (uint32_t j = 0; j < called->n; j++) {
            EchId id = called->first + j;
            const EchInstruction *in = &p->instructions[id];
            const EchShape *shape = &p->shapes[in->shape];
            if (id >= loop || in->schedule == ECH_NONE || in->opcode == ECH_HLO_TUPLE || in->opcode == ECH_HLO_PARAMETER || !shape->is_tuple)
                continue;
            for (uint32_t k = 0; k < MIN(n, shape->n_elements); k++) {
                if (p->shapes[p->elements[s->first_element + k]].is_tuple || p->shapes[p->elements[shape->first_element + k]].is_tuple)
                    continue;
                uint32_t leaf = leaf_at(p, in->shape, ech_program_member_position(p, in->shape, k));
                if (leaf != UINT32_MAX && costs->first_result[id] + leaf < made->len)
                    sums[k] = ech_bytes_add(sums[k], g_array_index(made, uint64_t, costs->first_result[id] + leaf));
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t leaf = leaf_at(p, i->shape, ech_program_member_position(p, i->shape, k));
        if (leaf != UINT32_MAX && at + leaf < made->len)
            g_array_index(made, uint64_t, at + leaf) = sums[k];
    }
}

/* Whether a computation does more than move data: it holds a fusion, or a custom call around a computation, which arrays are tiled anew by, or calls one that
 * does. */
static bool works(const EchProgram *p, EchId computation, EchHlo opcode, unsigned depth)
{
    const EchComputation *c = &p->computations[computation];
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        if (i->opcode == opcode && i->n_called > 0)
            return true;
        for (uint32_t k = 0; k < i->n_called && depth < 6; k++)
            if (works(p, ech_program_called(p, i, k), opcode, depth + 1))
                return true;
    }
    return false;
}

/* While another core gathers or scatters, copies find four fifths of the bandwidth, and all of it while that core tiles arrays anew; what it does is charged to
 * the update that hands it the operands (measured: v5p, v6e, tpu7x; bodies cost nothing). */
static void charge_offload(const EchProgram *p, EchPlaceCosts *costs)
{
    const EchPlaceChip *chip = costs->chip;
    g_autofree bool *elsewhere = g_new0(bool, MAX(p->n_computations, 1));
    for (uint32_t t = 0; t < p->n_flat; t++) {
        const EchInstruction *i = &p->instructions[p->flat[t]];
        size_t n;
        if (i->opcode == ECH_HLO_ASYNC_START && i->n_called > 0 && ech_program_attribute(i, "async_execution_thread", &n) != NULL)
            elsewhere[ech_program_called(p, i, 0)] = true;
    }
    for (uint32_t t = 0; t < p->n_flat; t++) {
        EchId start = p->flat[t];
        const EchInstruction *i = &p->instructions[start];
        size_t n;
        const char *thread = i->opcode == ECH_HLO_ASYNC_START ? ech_program_attribute(i, "async_execution_thread", &n) : NULL;
        bool gathers = thread != NULL && i->n_called > 0 && works(p, ech_program_called(p, i, 0), ECH_HLO_FUSION, 0);
        if (!gathers && !(thread != NULL && i->n_called > 0 && works(p, ech_program_called(p, i, 0), ECH_HLO_CUSTOM_CALL, 0)))
            continue;
        const float taken = gathers ? 0.2f : 0;
        const EchComputation *body = &p->computations[ech_program_called(p, i, 0)];
        for (uint32_t j = 0; j < body->n; j++)
            costs->seconds[body->first + j] = costs->compute[body->first + j] = costs->total[body->first + j] = 0;
        for (uint32_t u = t + 1; u < p->n_flat; u++) {
            EchId id = p->flat[u];
            const EchInstruction *in = &p->instructions[id];
            if (elsewhere[in->computation])
                continue; /* loops that run meanwhile are not, what another core runs is */
            bool next = in->n_operands > 0 && ech_program_operand(p, in, 0) == start;
            if (next && in->opcode == ECH_HLO_ASYNC_UPDATE) {
                float total = 0;
                uint32_t at = costs->first_operand[id];
                g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(EchId));
                for (uint32_t k = 0; k < in->n_operands; k++) {
                    g_array_set_size(leaves, 0);
                    append_leaves(p, p->instructions[ech_program_operand(p, in, k)].shape, leaves);
                    for (guint l = 0; l < leaves->len; l++, at++)
                        if (k > 0) {
                            costs->operand_bytes[at] = p->shapes[g_array_index(leaves, EchId, l)].bytes;
                            total += (float)costs->operand_bytes[at];
                        }
                }
                g_array_set_size(leaves, 0);
                append_leaves(p, in->shape, leaves);
                for (guint l = 0; l < leaves->len && chip->mxu_passes == 0; l++)
                    total += (float)p->shapes[g_array_index(leaves, EchId, l)].bytes;
                costs->total[id] = total;
                costs->seconds[id] = ech_place_memory_seconds(chip, total, 0, 0);
                costs->taken[id] = taken;
                break;
            }
            if (next && in->opcode == ECH_HLO_ASYNC_DONE)
                break;
            costs->taken[id] = taken;
        }
    }
}

/* A Pallas kernel takes what it says of itself (its cost estimate). Where the compiler prices windows its operands and a lone result count instead of the
 * bytes it names; elsewhere a kernel that says nothing takes a clock. Measured: v5p, v6e, tpu7x. */
static void price_kernel(const EchInstruction *i, const EchPlaceChip *chip, float *compute, float *total)
{
    uint64_t flops = 0, bytes = 0;
    if (chip->mxu_passes == 0)
        *total = ech_program_config_u64(i, "cost_estimate.bytes_accessed", &bytes) ? (float)bytes : 0;
    double rate = chip->mxu_passes == 0 ? chip->flops_per_s : floor(2 * (double)chip->mxu_passes / chip->clock_s * 1e-12) * 1e12;
    if (ech_program_config_u64(i, "cost_estimate.flops", &flops) && rate > 0)
        *compute = MAX(*compute, (float)((double)flops / rate));
}

/* Whether it may be a matrix product with what is fused around it. */
static bool is_product(const EchInstruction *i)
{
    return i->opcode == ECH_HLO_CONVOLUTION || (i->opcode == ECH_HLO_FUSION && i->fusion_kind != 'C' && i->n_called > 0);
}

static uint64_t times(uint64_t bytes, double n)
{
    return (uint64_t)MIN(rint((double)bytes * n), 1e18);
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
    costs->taken = g_new0(float, MAX(n, 1));
    costs->first_operand = g_new0(uint32_t, n + 1);
    costs->operand_start = g_new0(uint32_t, MAX(p->n_operands, 1));
    costs->first_result = g_new0(uint32_t, n + 1);
    g_autoptr(GArray) read = g_array_new(FALSE, FALSE, sizeof(uint64_t)), made = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (size_t id = 0; id < n; id++) {
        const EchInstruction *i = &p->instructions[id];
        costs->first_operand[id] = read->len;
        costs->first_result[id] = made->len;
        if (i->schedule == ECH_NONE)
            continue;
        CostKind kind = kind_of(i);
        bool counts = kind == COST_NORMAL || kind == COST_KERNEL;
        float total = 0;
        g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(EchId));
        append_leaves(p, i->shape, leaves);
        g_autofree double *reads = g_new(double, MAX(i->n_operands, 1)), *writes = g_new(double, MAX(leaves->len, 1));
        double clocks = 0;
        bool windowed = chip->mxu_passes > 0 && kind == COST_NORMAL && is_product(i) &&
                        ech_place_product(p, (EchId)id, (const EchId *)(const void *)leaves->data, leaves->len, &clocks, reads, writes);
        for (uint32_t k = 0; k < i->n_operands; k++) {
            /* What reads nothing has no entries: thousands take one array each of a tuple of thousands. An update's are charged below. */
            bool none = !counts && i->opcode != ECH_HLO_ASYNC_UPDATE;
            costs->operand_start[i->first_operand + k] = none ? UINT32_MAX : read->len;
            if (none)
                continue;
            g_array_set_size(leaves, 0);
            append_leaves(p, p->instructions[ech_program_operand(p, i, k)].shape, leaves);
            for (guint l = 0; l < leaves->len; l++) {
                EchBytes full = p->shapes[g_array_index(leaves, EchId, l)].bytes;
                uint64_t bytes = counts ? (leaves->len == 1 ? operand_bytes(p, chip, (EchId)id, k, full) : full) : 0;
                bytes = windowed ? times(bytes, reads[k]) : bytes;
                g_array_append_val(read, bytes);
                total += (float)bytes;
            }
        }
        g_array_set_size(leaves, 0);
        append_leaves(p, i->shape, leaves);
        for (guint l = 0; l < leaves->len; l++) {
            /* Nor are the several results of a collective, there. */
            bool several = chip->mxu_passes > 0 && p->shapes[i->shape].is_tuple && i->opcode == ECH_HLO_ALL_REDUCE;
            bool told = (kind == COST_NORMAL && !several) || (kind == COST_KERNEL && !p->shapes[i->shape].is_tuple);
            uint64_t bytes = told ? result_bytes(p, (EchId)id, l, p->shapes[g_array_index(leaves, EchId, l)].bytes) : 0;
            bytes = windowed ? times(bytes, writes[l]) : bytes;
            if (i->opcode == ECH_HLO_SORT && leaves->len > 1) {
                /* A sort's results are in the total (where the chip prices windows, in place: not even there) but not told apart. */
                if (chip->mxu_passes == 0)
                    total += (float)bytes;
                bytes = 0;
            }
            total += (float)bytes;
            g_array_append_val(made, bytes);
        }
        if (i->opcode == ECH_HLO_WHILE)
            charge_loop(p, (EchId)id, costs, made);
        if (kind == COST_TABLE && chip->tuple_bytes > 0)
            total = (float)ech_layout_tuple_bytes(i->n_operands, chip->tuple_bytes);
        if (kind == COST_OPAQUE)
            total = -1; /* the compiler's word for not known: a byte less than nothing */
        costs->compute[id] = kind == COST_FREE ? 0 : kind == COST_NORMAL ? compute_seconds(p, (EchId)id, chip) : (float)chip->clock_s;
        if (windowed)
            costs->compute[id] = MAX((float)chip->clock_s, (float)(clocks * chip->clock_s));
        if (kind == COST_KERNEL)
            price_kernel(i, chip, &costs->compute[id], &total);
        costs->total[id] = total;
        costs->seconds[id] = ech_place_elapsed(costs->compute[id], ech_place_memory_seconds(chip, total, 0, 0));
    }
    costs->first_operand[n] = read->len;
    costs->first_result[n] = made->len;
    costs->operand_bytes = (uint64_t *)(void *)g_array_free(g_steal_pointer(&read), FALSE);
    costs->result_bytes = (uint64_t *)(void *)g_array_free(g_steal_pointer(&made), FALSE);
    costs->picker_bytes = find_picker_bytes(p);
    charge_offload(p, costs);
    return costs;
}

void ech_place_costs_free(EchPlaceCosts *costs)
{
    if (costs == NULL)
        return;
    g_free(costs->compute);
    g_free(costs->total);
    g_free(costs->seconds);
    g_free(costs->taken);
    g_free(costs->first_operand);
    g_free(costs->operand_start);
    g_free(costs->first_result);
    g_free(costs->operand_bytes);
    g_free(costs->result_bytes);
    g_free(costs);
}

uint64_t ech_place_costs_operand(const EchPlaceCosts *costs, const EchProgram *program, EchId instruction, uint32_t k, uint32_t leaf)
{
    const EchInstruction *i = &program->instructions[instruction];
    uint32_t start = k < i->n_operands ? costs->operand_start[i->first_operand + k] : UINT32_MAX, at = start + MIN(leaf, UINT32_MAX - start);
    return at < costs->first_operand[instruction + 1] ? costs->operand_bytes[at] : 0;
}

/* ---- the problem ---- */

uint32_t ech_place_position(const EchProgram *program, EchId shape, uint32_t leaf)
{
    const EchShape *s = &program->shapes[shape];
    uint32_t position = 0;
    if (is_flat(s))
        return leaf < s->n_leaves ? leaf + 1 : UINT32_MAX;
    while (s->is_tuple) {
        uint32_t k = 0;
        EchId member = ECH_NONE;
        for (position++; k < s->n_elements; k++) {
            member = program->elements[s->first_element + k];
            uint32_t n = ech_place_leaves(program, member);
            if (leaf < n)
                break;
            leaf -= n;
            position += program->shapes[member].n_positions;
        }
        if (k == s->n_elements)
            return UINT32_MAX;
        s = &program->shapes[member];
    }
    return leaf == 0 ? position : UINT32_MAX;
}

void ech_place_fill_costs(EchFlow *flow, const EchProgram *program, const EchPlaceCosts *costs, const EchId *ids)
{
    EchMsaProblem *p = &flow->problem;
    const EchPlaceChip *chip = costs->chip;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        p->steps[t].seconds = (double)costs->seconds[ids[t]];
        p->steps[t].taken = (double)costs->taken[ids[t]];
    }
    p->options.picker_bytes = costs->picker_bytes;
    g_autofree float *gain = g_new0(float, MAX(p->n_values, 1));
    for (uint32_t k = 0; k < p->n_positions; k++) {
        uint32_t step = p->positions[k].step, leaf = flow->position_places[k].leaf, v = p->positions[k].value;
        EchId id = ids[step];
        uint32_t at = costs->first_result[id] + leaf;
        p->definition_bytes[k] = at < costs->first_result[id + 1] ? (int64_t)costs->result_bytes[at] : 0;
        if (p->values[v].eligible && p->values[v].step == step)
            gain[p->values[v].group] =
                ech_place_benefit(chip, costs->compute[id], costs->total[id], 0, (float)p->definition_bytes[k], p->steps[step].while_nest);
    }
    for (uint32_t u = 0; u < p->n_uses; u++) {
        EchMsaUse *use = &p->uses[u];
        EchId id = ids[use->step];
        const EchMsaStep *step = &p->steps[use->step];
        uint64_t read = ech_place_costs_operand(costs, program, id, flow->use_places[u].operand, flow->use_places[u].leaf);
        /* The start of a collective takes no time but reads all of its operand. */
        EchHlo opcode = (EchHlo)program->instructions[id].opcode;
        bool sends = opcode == ECH_HLO_COLLECTIVE_PERMUTE_START || opcode == ECH_HLO_ALL_GATHER_START;
        use->accessed = sends ? (int64_t)p->values[use->value].bytes : (int64_t)read;
        use->reduction = (double)ech_place_reduction(chip, costs->compute[id], costs->total[id], (float)read);
        uint32_t group = p->values[use->value].group;
        if (step->kind != ECH_MSA_WHILE && step->kind != ECH_MSA_CONDITIONAL)
            gain[group] = ech_place_add_benefit(gain[group], ech_place_benefit(chip, costs->compute[id], costs->total[id], (float)read, 0, step->while_nest));
    }
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].eligible)
            p->values[v].boundedness = (double)ech_place_boundedness(gain[p->values[v].group], p->values[v].bytes);
}

static void fill_leaves(EchPlaceProblem *problem, const EchProgram *p, EchId shape, GPtrArray *text_of, EchFlowLeaf *ret)
{
    g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(EchId));
    append_leaves(p, shape, leaves);
    for (guint l = 0; l < leaves->len; l++) {
        EchId id = g_array_index(leaves, EchId, l);
        const EchShape *s = &p->shapes[id];
        const EchLayout *layout = ech_program_layout(p, id);
        if (text_of->pdata[id] == NULL) {
            text_of->pdata[id] = ech_program_shape_text(p, id);
            g_ptr_array_add(problem->texts, text_of->pdata[id]);
        }
        ret[l] = (EchFlowLeaf){.bytes = s->bytes, .elements = s->count, .space = s->space, .text = text_of->pdata[id]};
        if (layout != NULL)
            ret[l].major = ech_flow_major(layout, NULL);
    }
}

static bool fill_instruction(EchPlaceProblem *problem, const EchProgram *p, uint32_t step, GPtrArray *text_of)
{
    EchId id = problem->ids[step];
    const EchInstruction *i = &p->instructions[id];
    EchFlowInstruction *in = &problem->instructions[step];
    in->name = i->name;
    in->opcode = ech_hlo_name((EchHlo)i->opcode);
    in->op = ech_flow_op(in->opcode);
    in->computation = i->computation;
    in->entry = i->computation == p->entry;
    in->root = i->is_root;
    in->n_operands = i->n_operands;
    uint32_t *operands = g_new(uint32_t, MAX(i->n_operands, 1));
    for (uint32_t k = 0; k < i->n_operands; k++) {
        uint32_t schedule = p->instructions[ech_program_operand(p, i, k)].schedule;
        operands[k] = schedule == ECH_NONE || schedule >= step ? ECH_PLACE_NONE : schedule;
    }
    in->operands = operands;
    in->n_leaves = ech_place_leaves(p, i->shape);
    EchFlowLeaf *leaves = g_new0(EchFlowLeaf, MAX(in->n_leaves, 1));
    fill_leaves(problem, p, i->shape, text_of, leaves);
    in->leaves = leaves;
    in->tuple = p->shapes[i->shape].is_tuple;
    if (i->opcode == ECH_HLO_SLICE && i->n_operands == 1 && in->n_leaves == 1 && operands[0] != ECH_PLACE_NONE &&
        problem->instructions[operands[0]].n_leaves == 1) {
        size_t n;
        const char *bounds = ech_program_attribute(i, "slice", &n);
        in->synchronous = bounds != NULL && !ech_flow_slice_is_copy(problem->instructions[operands[0]].leaves[0].text, leaves[0].text, bounds, n);
    }
    if (in->op == ECH_FLOW_PARAMETER)
        in->number = (uint32_t)CLAMP(i->number, 0, INT32_MAX);
    if (in->op == ECH_FLOW_ELEMENT)
        in->index = (uint32_t)CLAMP(i->number, 0, INT32_MAX);
    uint32_t *called = g_new0(uint32_t, MAX(i->n_called, 1));
    bool control = in->op == ECH_FLOW_WHILE || in->op == ECH_FLOW_CONDITIONAL || in->op == ECH_FLOW_CALL || in->op == ECH_FLOW_ASYNC_START;
    for (uint32_t k = 0; control && k < i->n_called; k++)
        called[k] = ech_program_called(p, i, k);
    if (in->op == ECH_FLOW_WHILE && i->n_called == 2) /* condition, body in a program; body first here */
    {
        called[0] = ech_program_called(p, i, 1);
        called[1] = ech_program_called(p, i, 0);
    }
    in->called = called;
    in->n_called = control ? i->n_called : 0;
    for (uint32_t k = 0; k < in->n_called; k++)
        if (p->computations[called[k]].begin == p->computations[called[k]].end || p->computations[called[k]].caller != id) {
            /* A start without operands runs its body where it gets them, in an update. */
            EchId caller = p->computations[called[k]].caller;
            const EchInstruction *update = caller == ECH_NONE ? NULL : &p->instructions[caller];
            if (update != NULL && update->opcode == ECH_HLO_ASYNC_UPDATE && update->n_operands > 1 && ech_program_operand(p, update, 0) == id &&
                p->computations[called[k]].begin != p->computations[called[k]].end)
                continue;
            if (in->op != ECH_FLOW_ASYNC_START || i->n_operands > 0)
                return false;
            in->n_called = 0;
        }
    return true;
}

/* ---- which parameters may be fetched before the program: those that look like weights ---- */

typedef struct {
    const EchProgram *p;
    uint32_t *first, *next, *user; /* users of every instruction: chains of operand slots */
    EchId *fusion_of;              /* per computation: the fusion whose body it is */
    unsigned steps;
} Weights;

static Weights weights_new(const EchProgram *p)
{
    Weights w = {.p = p};
    w.first = g_new(uint32_t, p->n_instructions + 1);
    w.next = g_new(uint32_t, p->n_operands + 1);
    w.user = g_new(uint32_t, p->n_operands + 1);
    w.fusion_of = g_new(EchId, p->n_computations + 1);
    for (size_t i = 0; i < p->n_instructions; i++)
        w.first[i] = UINT32_MAX;
    for (size_t c = 0; c < p->n_computations; c++)
        w.fusion_of[c] = ECH_NONE;
    for (size_t id = p->n_instructions; id > 0; id--) {
        const EchInstruction *i = &p->instructions[id - 1];
        for (uint32_t k = i->n_operands; k > 0; k--) {
            uint32_t slot = i->first_operand + k - 1;
            w.user[slot] = (uint32_t)(id - 1);
            w.next[slot] = w.first[p->operands[slot]];
            w.first[p->operands[slot]] = slot;
        }
        if (i->opcode == ECH_HLO_FUSION && i->n_called > 0)
            w.fusion_of[ech_program_called(p, i, 0)] = (EchId)(id - 1);
    }
    return w;
}

static void weights_clear(Weights *w)
{
    g_free(w->first);
    g_free(w->next);
    g_free(w->user);
    g_free(w->fusion_of);
}

static bool is_activation(Weights *w, EchId id, unsigned depth)
{
    const EchProgram *p = w->p;
    if (depth > MAX_DEPTH || w->steps++ > 100000)
        return true;
    for (uint32_t slot = w->first[id]; slot != UINT32_MAX; slot = w->next[slot]) {
        EchId user = w->user[slot];
        const EchInstruction *i = &p->instructions[user];
        uint32_t k = slot - i->first_operand;
        bool deeper = false;
        switch ((int)i->opcode) {
        case ECH_HLO_CONVOLUTION:
        case ECH_HLO_DOT:
            if (k == 0)
                return true;
            break;
        case ECH_HLO_GATHER:
            if (k == 1)
                return true;
            break;
        case ECH_HLO_FUSION: {
            EchId inner = i->n_called > 0 ? parameter_of(p, ech_program_called(p, i, 0), k) : ECH_NONE;
            if (inner == ECH_NONE || is_activation(w, inner, depth + 1))
                return true;
            break;
        }
        case ECH_HLO_BITCAST:
        case ECH_HLO_BROADCAST:
        case ECH_HLO_TRANSPOSE: deeper = true; break;
        case ECH_HLO_COPY:
            if (!i->is_root || w->fusion_of[i->computation] == ECH_NONE)
                return true;
            user = w->fusion_of[i->computation];
            deeper = true;
            break;
        case ECH_HLO_DYNAMIC_UPDATE_SLICE:
        case ECH_HLO_DYNAMIC_SLICE:
            if (k > 0)
                return true;
            deeper = true;
            break;
        case ECH_HLO_REDUCE:
            if (k >= i->n_operands / 2)
                return true;
            deeper = true;
            break;
        default: return true;
        }
        if (deeper && is_activation(w, user, depth + 1))
            return true;
    }
    return false;
}

static void keep_weights(EchPlaceProblem *problem, const EchProgram *p)
{
    EchMsaProblem *m = &problem->flow->problem;
    Weights w = weights_new(p);
    g_autofree bool *refused = g_new0(bool, MAX(m->n_values, 1));
    for (uint32_t u = 0; u < m->n_uses; u++) {
        const EchFlowPlace *place = &problem->flow->use_places[u];
        const EchInstruction *operand = &p->instructions[ech_program_operand(p, &p->instructions[problem->ids[place->step]], place->operand)];
        refused[m->uses[u].value] |= operand->opcode != ECH_HLO_PARAMETER && operand->opcode != ECH_HLO_GET_TUPLE_ELEMENT &&
                                     (operand->opcode != ECH_HLO_BITCAST || operand->n_operands == 0 ||
                                      (p->instructions[ech_program_operand(p, operand, 0)].opcode != ECH_HLO_PARAMETER &&
                                       p->instructions[ech_program_operand(p, operand, 0)].opcode != ECH_HLO_GET_TUPLE_ELEMENT));
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_candidates; i++) {
        uint32_t v = m->candidates[i].value;
        w.steps = 0;
        if (m->values[v].allowed && !refused[v] && !is_activation(&w, problem->ids[m->values[v].step], 0))
            m->candidates[n++] = m->candidates[i];
    }
    m->n_candidates = n;
    weights_clear(&w);
}

/* Values of one buffer share a place. */
static GArray *shared_places(const EchProgram *p)
{
    GArray *pairs = g_array_new(FALSE, FALSE, sizeof(EchFlowPair));
    for (size_t b = 0; b < p->n_buffers; b++) {
        const EchValueBuffer *buffer = &p->buffers[b];
        EchFlowPair pair = {.step_a = ECH_NONE};
        for (uint32_t k = 0; k < buffer->n_values; k++) {
            const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
            const EchInstruction *i = &p->instructions[value->defined.instruction];
            uint32_t leaf = i->schedule == ECH_NONE ? UINT32_MAX : leaf_at(p, i->shape, value->defined.position);
            if (leaf == UINT32_MAX)
                continue;
            if (pair.step_a == ECH_NONE) {
                pair.step_a = i->schedule;
                pair.leaf_a = leaf;
                continue;
            }
            pair.step_b = i->schedule;
            pair.leaf_b = leaf;
            g_array_append_val(pairs, pair);
        }
    }
    return pairs;
}

static bool is_asynchronous(EchFlowOp op)
{
    return op == ECH_FLOW_ASYNC_START || op == ECH_FLOW_ASYNC_UPDATE || op == ECH_FLOW_ASYNC_DONE || op == ECH_FLOW_COPY_START;
}

/* What the compiler says of values beyond the schedule: their number, which of a group stands for it, and what may not be in the fast memory. */
static void fill_values(EchPlaceProblem *problem, const EchProgram *p, bool two_cores)
{
    EchFlow *flow = problem->flow;
    EchMsaProblem *m = &flow->problem;
    g_autofree uint32_t *leader = g_new(uint32_t, MAX(m->n_values, 1));
    g_autofree bool *barred = g_new0(bool, MAX(m->n_values, 1)); /* per group: a member may not be there, so none may */
    g_autoptr(GArray) needs = g_array_new(FALSE, FALSE, sizeof(EchMsaRequired));
    for (uint32_t v = 0; v < m->n_values; v++)
        leader[v] = ECH_PLACE_NONE;
    for (uint32_t v = 0; v < m->n_values; v++) {
        const EchFlowPlace *place = &flow->value_places[v];
        EchId id = problem->ids[place->step];
        uint32_t position = ech_place_position(p, p->instructions[id].shape, place->leaf);
        EchId value = position == UINT32_MAX ? ECH_NONE : ech_program_value(p, id, position);
        EchMsaValue *mine = &m->values[v];
        mine->id = value == ECH_NONE ? UINT32_MAX + (uint64_t)v : p->values[value].order;
        g_assert(mine->group < m->n_values);
        uint32_t best = leader[mine->group];
        if (best == ECH_PLACE_NONE || mine->first < m->values[best].first || (mine->first == m->values[best].first && mine->id < m->values[best].id))
            leader[mine->group] = v;
        g_assert(problem->instructions[place->step].leaves); /* a value is one of them */
        if (problem->instructions[place->step].leaves[place->leaf].space != ECH_SPACE_HBM) {
            EchMsaRequired need = {v, place->step};
            mine->allowed = false;
            g_array_append_val(needs, need);
        }
        const EchFlowInstruction *in = &problem->instructions[place->step];
        /* A constant of one element is never fetched; one of more is, as a parameter (seen on all chips). */
        barred[mine->group] |= !mine->allowed || (in->op == ECH_FLOW_CONSTANT && in->leaves[place->leaf].elements <= 1);
    }
    for (uint32_t v = 0; v < m->n_values; v++)
        m->values[v].eligible = leader[m->values[v].group] == v && m->values[v].bytes > 0 && !barred[m->values[v].group];
    /* What an asynchronous computation reads and holds is in HBM meanwhile, in its body as well. */
    g_autofree bool *apart = g_new0(bool, MAX(p->n_computations, 1));
    for (uint32_t t = 0; t < problem->n; t++) {
        const EchFlowInstruction *in = &problem->instructions[t];
        for (uint32_t k = 0; in->op == ECH_FLOW_ASYNC_START && k < in->n_called; k++)
            apart[in->called[k]] = true;
    }
    for (uint32_t u = 0; u < m->n_uses; u++) {
        const EchFlowInstruction *in = &problem->instructions[m->uses[u].step];
        if (!m->values[m->uses[u].value].allowed || is_asynchronous(in->op) || apart[in->computation]) {
            EchMsaRequired need = {m->uses[u].value, m->uses[u].step};
            g_array_append_val(needs, need);
        }
    }
    for (uint32_t k = 0; k < m->n_positions; k++) {
        const EchFlowInstruction *in = &problem->instructions[m->positions[k].step];
        if (is_asynchronous(in->op) || in->op == ECH_FLOW_COPY_DONE || apart[in->computation]) {
            EchMsaRequired need = {m->positions[k].value, m->positions[k].step};
            g_array_append_val(needs, need);
        }
    }
    /* Where two cores share the work only loop fusions write into the fast memory. */
    for (uint32_t v = 0; two_cores && v < m->n_values; v++) {
        const EchInstruction *i = &p->instructions[problem->ids[m->values[v].step]];
        bool handed = i->opcode == ECH_HLO_PARAMETER || i->opcode == ECH_HLO_WHILE || i->opcode == ECH_HLO_CONDITIONAL || i->opcode == ECH_HLO_CALL;
        if (handed || (i->opcode == ECH_HLO_FUSION && i->fusion_kind == 'L'))
            continue;
        EchMsaRequired need = {v, m->values[v].step};
        m->values[v].allowed = false;
        g_array_append_val(needs, need);
    }
    g_free(m->required);
    m->n_required = needs->len;
    m->required = (EchMsaRequired *)(void *)g_array_free(g_steal_pointer(&needs), FALSE);
}

/* Where kernels' scratch is placed with everything else, rather than cut off the memory: what they ask for, or all that they may, where they were compiled for
 * a chip on which they need not ask. */
static void fill_scoped(EchPlaceProblem *problem, const EchProgram *p, const EchPlaceChip *chip)
{
    if (chip->scoped == 0)
        return;
    g_autoptr(GArray) scoped = g_array_new(FALSE, FALSE, sizeof(EchMsaScoped));
    for (uint32_t t = 0; t < problem->n; t++) {
        EchMsaScoped s = {t, ech_program_asked_bytes(&p->instructions[problem->ids[t]], (int32_t)chip->fast_space), t};
        if (s.bytes > 0)
            g_array_append_val(scoped, s);
    }
    const bool asked = scoped->len > 0;
    for (uint32_t t = 0; !asked && t < problem->n; t++) {
        EchMsaScoped s = {t, chip->scoped, t};
        const EchInstruction *i = &p->instructions[problem->ids[t]];
        if (kind_of(i) == COST_NORMAL)
            g_array_append_val(scoped, s);
    }
    EchMsaScoped after = {problem->n, chip->scoped, problem->n};
    g_array_append_val(scoped, after);
    problem->flow->problem.n_scoped = scoped->len;
    problem->flow->problem.scoped = (EchMsaScoped *)(void *)g_array_free(g_steal_pointer(&scoped), FALSE);
}

typedef struct {
    EchMsaColor color;
    uint64_t order; /* of the value in the compiler's numbering */
} OrderedColor;

static gint compare_ordered(gconstpointer a, gconstpointer b)
{
    const OrderedColor *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->color.step > y->color.step) - (x->color.step < y->color.step);
}

/* The entries of one list of a kernel's configuration, {"color":"1","operand_index":"0","shape_index":["0"]}. */
static void read_colors(EchFlow *flow, const EchProgram *p, const EchPlaceChip *chip, const EchId *ids, uint32_t step, bool inputs, GArray *out)
{
    const EchInstruction *i = &p->instructions[ids[step]];
    size_t n;
    const char *text = ech_program_config(i, inputs ? "input_memory_space_colors" : "output_memory_space_colors", &n), *end = text ? text + n : NULL;
    while (text && text < end) {
        const char *open = memchr(text, '{', (size_t)(end - text));
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (!close)
            return;
        text = close + 1;
        size_t m, length = (size_t)(close - open);
        int64_t space = -1, operand = -1, index[ECH_LAYOUT_MAX_RANK];
        const char *value = ech_program_config_member(open, length, "color", &m);
        if (value)
            (void)ech_program_numbers(value, m, &space, 1);
        value = inputs ? ech_program_config_member(open, length, "operand_index", &m) : NULL;
        if (value)
            (void)ech_program_numbers(value, m, &operand, 1);
        value = ech_program_config_member(open, length, "shape_index", &m);
        size_t depth = value ? ech_program_numbers(value, m, index, G_N_ELEMENTS(index)) : 0;
        bool known = space == ECH_SPACE_HBM || space == (int64_t)chip->fast_space;
        if (!known || depth > G_N_ELEMENTS(index) || (inputs && (operand < 0 || operand >= (int64_t)i->n_operands)))
            continue;
        EchId shape = inputs ? p->instructions[ech_program_operand(p, i, (uint32_t)operand)].shape : i->shape;
        uint32_t position = ech_program_index_position(p, shape, index, depth), leaf = position == UINT32_MAX ? UINT32_MAX : leaf_at(p, shape, position);
        if (leaf == UINT32_MAX)
            continue;
        uint32_t of = inputs ? p->instructions[ech_program_operand(p, i, (uint32_t)operand)].schedule : step;
        if (of >= flow->problem.n_steps || flow->leaf_start[of] + leaf >= flow->leaf_start[of + 1])
            continue;
        uint32_t v = flow->value_of[flow->leaf_start[of] + leaf];
        if (v >= flow->problem.n_values)
            continue;
        const EchFlowPlace *defined = &flow->value_places[v];
        EchId id = ids[defined->step], number = ech_program_value(p, id, ech_place_position(p, p->instructions[id].shape, defined->leaf));
        OrderedColor color = {{v, step, space != ECH_SPACE_HBM}, number == ECH_NONE ? UINT32_MAX + (uint64_t)v : p->values[number].order};
        g_array_append_val(out, color);
    }
}

void ech_place_fill_colors(EchFlow *flow, const EchProgram *program, const EchPlaceChip *chip, const EchId *ids)
{
    EchMsaProblem *m = &flow->problem;
    g_autoptr(GArray) colors = g_array_new(FALSE, FALSE, sizeof(OrderedColor));
    for (uint32_t t = 0; t < m->n_steps; t++)
        if (program->instructions[ids[t]].opcode == ECH_HLO_CUSTOM_CALL) {
            read_colors(flow, program, chip, ids, t, false, colors);
            read_colors(flow, program, chip, ids, t, true, colors);
        }
    g_array_sort(colors, compare_ordered);
    g_free(m->colors);
    m->n_colors = colors->len;
    m->colors = g_new0(EchMsaColor, MAX(colors->len, 1));
    for (guint i = 0; i < colors->len; i++)
        m->colors[i] = g_array_index(colors, OrderedColor, i).color;
}

static void fill_options(EchMsaOptions *o, const EchPlaceChip *chip)
{
    o->size = chip->limit;
    o->copy_bytes_per_s = chip->hbm_bytes_per_s;
    o->max_slices = chip->max_slices;
    o->preferred_slice = chip->preferred_slice;
}

EchPlaceProblem *ech_place_problem_new(const EchProgram *program, const EchPlaceCosts *costs, bool loops, GError **error)
{
    const EchPlaceChip *chip = costs->chip;
    g_autoptr(EchPlaceProblem) problem = g_new0(EchPlaceProblem, 1);
    problem->n = (uint32_t)program->n_flat;
    problem->instructions = g_new0(EchFlowInstruction, MAX(problem->n, 1));
    problem->ids = g_memdup2(program->flat, MAX(program->n_flat, 1) * sizeof(EchId));
    problem->texts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) text_of = g_ptr_array_new();
    g_ptr_array_set_size(text_of, (gint)program->n_shapes);
    for (uint32_t t = 0; t < problem->n; t++)
        if (program->instructions[problem->ids[t]].schedule != t || !fill_instruction(problem, program, t, text_of)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                        "%s: '%s' runs a computation that is called from several places: its values have no one place in the schedule", program->name,
                        program->instructions[problem->ids[t]].name);
            return NULL;
        }
    g_autoptr(GArray) pairs = shared_places(program);
    problem->flow =
        ech_flow_new(problem->instructions, problem->n, (uint32_t)program->n_computations, (const EchFlowPair *)(const void *)pairs->data, pairs->len);
    if (problem->flow == NULL) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: too many arrays of loops share one place", program->name);
        return NULL;
    }
    EchMsaProblem *m = &problem->flow->problem;
    fill_options(&m->options, chip);
    fill_values(problem, program, chip->two_cores);
    fill_scoped(problem, program, chip);
    ech_place_fill_colors(problem->flow, program, chip, problem->ids);
    ech_flow_clock(problem->flow, problem->instructions, 512);
    ech_place_fill_costs(problem->flow, program, costs, problem->ids);
    ech_flow_mark_sync(problem->flow, problem->instructions);
    ech_flow_finish(problem->flow, problem->instructions);
    keep_weights(problem, program);
    if (loops && chip->loop_optimizer) {
        g_autofree float *compute = g_new(float, MAX(problem->n, 1)), *total = g_new(float, MAX(problem->n, 1));
        for (uint32_t t = 0; t < problem->n; t++) {
            compute[t] = costs->compute[problem->ids[t]];
            total[t] = costs->total[problem->ids[t]];
        }
        EchLoopOptions how = {.min_iterations = 6, .desired_ratio = 0.7F, .fully_pipelined = true, .chip = chip, .compute = compute, .total = total};
        problem->loops = ech_loop_optimize(problem->flow, problem->instructions, &how, NULL);
    }
    return g_steal_pointer(&problem);
}

void ech_place_problem_free(EchPlaceProblem *problem)
{
    if (problem == NULL)
        return;
    ech_flow_free(problem->flow);
    for (uint32_t t = 0; t < problem->n; t++) {
        g_free((gpointer)(guintptr)problem->instructions[t].operands);
        g_free((gpointer)(guintptr)problem->instructions[t].leaves);
        g_free((gpointer)(guintptr)problem->instructions[t].called);
    }
    g_free(problem->instructions);
    g_free(problem->ids);
    g_clear_pointer(&problem->texts, g_ptr_array_unref);
    g_free(problem);
}

EchPlaceTime ech_place_problem_time(const EchPlaceProblem *problem, const EchProgram *program, const EchPlaceCosts *costs, const EchMsaResult *result)
{
    const EchProgram *p = program;
    uint32_t n = problem->n;
    g_autofree float *compute = g_new(float, MAX(n, 1)), *total = g_new(float, MAX(n, 1));
    g_autofree uint64_t *trips = g_new(uint64_t, MAX(n, 1)), *runs = g_new(uint64_t, MAX(p->n_computations, 1));
    for (size_t c = 0; c < p->n_computations; c++)
        runs[c] = 1;
    /* Callers come after what they call: outer loops are met first going backwards. */
    for (uint32_t t = n; t > 0; t--) {
        const EchFlowInstruction *in = &problem->instructions[t - 1];
        uint64_t times = 1;
        EchOrigin origin;
        if (in->op == ECH_FLOW_WHILE && !ech_program_trips(p, problem->ids[t - 1], &times, &origin))
            times = 1;
        for (uint32_t c = 0; c < in->n_called; c++)
            runs[in->called[c]] = ech_bytes_mul(runs[in->computation], MAX(times, 1));
    }
    for (uint32_t t = 0; t < n; t++) {
        compute[t] = costs->compute[problem->ids[t]];
        total[t] = costs->total[problem->ids[t]];
        trips[t] = runs[problem->instructions[t].computation];
    }
    EchPlaceTimes times = {costs->chip->hbm_bytes_per_s, costs->chip->hbm_bytes_per_s * costs->chip->fast_ratio, compute, total, trips};
    return ech_place_time(&problem->flow->problem, result, &times);
}
