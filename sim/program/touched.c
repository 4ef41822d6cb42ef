/* What a fusion of a GPU touches of its operands: from its results back, element by element, only what is asked for. */
#include "sim/program/private.h"

#include <math.h>
#include <string.h>

/* Device memory gives whole pieces of so many bytes, the runs of neighbours that are asked for rounded up to them: XLA's kDRAMToL2TransactionSizeBytes
 * (openxla/xla, service/gpu/model/coalescing_analysis.cc). */
#define PIECE_BYTES 64.0

/* MAX_ROOTS: askers that a value knows of; with more it is read whole. */
enum { MAX_ROOTS = 12 };

/* Elements asked for, in so many runs of neighbours. */
typedef struct {
    double elements, runs;
} Demand;

/* Of one instruction of the body. What is made element by element is asked for at the very places that its users are: they pass on who asked (roots: indices in
 * the body), so that two users of the same places count once. As XLA's GpuHloCostAnalysis::FusionCalculateUtilizations, with runs beside. */
typedef struct {
    Demand own;
    uint32_t roots[MAX_ROOTS];
    uint8_t n_roots;
    bool whole;
} Node;

typedef struct {
    const EchProgram *p;
    const EchComputation *c;
    Node *nodes;
} Flow;

static double count_of(const EchProgram *p, EchId id)
{
    const EchLayout *layout = ech_program_first_layout(p, id);
    return layout ? (double)ech_layout_elements(layout) : 0;
}

/* Runs of neighbours in memory when @taken[d] of every dimension are taken, from the fastest dimension on. */
static double runs_of(const EchLayout *layout, const double *taken)
{
    double runs = 1;
    bool broken = false;
    for (unsigned d = 0; d < layout->rank; d++) {
        unsigned at = layout->order[d];
        if (broken)
            runs *= taken[at];
        broken = broken || taken[at] < (double)layout->dims[at];
    }
    return MAX(runs, 1);
}

/* Bytes of device memory of @demand on an array of @size bytes an element. */
static double bytes_of(Demand demand, double size)
{
    if (demand.elements <= 0)
        return 0;
    double runs = CLAMP(demand.runs, 1, demand.elements);
    return runs * ceil(demand.elements / runs * size / PIECE_BYTES) * PIECE_BYTES;
}

/* "{[0:16], [0:4096:2]}": of what lies between, all where the steps stay in a piece of memory. */
static Demand static_slice(const EchProgram *p, const EchInstruction *i, const EchLayout *from)
{
    double taken[ECH_LAYOUT_MAX_RANK], elements = 1, inner = MAX(ech_layout_element_bits(from), 8u) / 8.0;
    const EchLayout *to = ech_program_layout(p, i->shape);
    int64_t ranges[ECH_LAYOUT_MAX_RANK][3];
    size_t told = ech_program_slice_ranges(i, ranges, from->rank);
    for (unsigned o = 0; o < from->rank; o++) {
        unsigned d = from->order[o];
        double kept = to && to->rank == from->rank ? (double)to->dims[d] : (double)from->dims[d];
        double step = d < told ? (double)CLAMP(ranges[d][2], 1, INT32_MAX) : 1;
        bool dense = step * inner <= PIECE_BYTES;
        taken[d] = dense ? MIN(kept * step, (double)from->dims[d]) : kept;
        elements *= taken[d];
        inner *= (double)from->dims[d];
    }
    return (Demand){elements, runs_of(from, taken)};
}

/* Of operand @k, an array of @from, what the whole result of @i asks for. */
static Demand picked(const EchProgram *p, EchId id, uint32_t k, const EchLayout *from)
{
    const EchInstruction *i = &p->instructions[id];
    const double all = (double)ech_layout_elements(from), result = count_of(p, id);
    const Demand whole = {all, 1};
    int64_t given[ECH_LAYOUT_MAX_RANK];
    double taken[ECH_LAYOUT_MAX_RANK], window = 1;
    switch ((int)i->opcode) {
    case ECH_HLO_SLICE: return static_slice(p, i, from);
    case ECH_HLO_DYNAMIC_SLICE:
    case ECH_HLO_GATHER: {
        const char *name = i->opcode == ECH_HLO_GATHER ? "slice_sizes" : "dynamic_slice_sizes";
        if (k > 0)
            return whole;
        if (ech_program_attribute_numbers(i, name, given, G_N_ELEMENTS(given)) != from->rank)
            return (Demand){MIN(result, all), 1};
        for (unsigned d = 0; d < from->rank; d++) {
            taken[d] = (double)MAX(given[d], 1);
            window *= taken[d];
        }
        return (Demand){result, MAX(result / window, 1) * runs_of(from, taken)};
    }
    case ECH_HLO_SCATTER: {
        /* Operands, indices, updates: where an update goes is read and written, a window at a time. */
        uint32_t arrays = i->n_operands / 2;
        const EchLayout *updates = i->n_operands > 2 ? ech_program_first_layout(p, ech_program_operand(p, i, i->n_operands - 1)) : NULL;
        if (k >= arrays || !updates)
            return whole;
        size_t n = ech_program_attribute_numbers(i, "update_window_dims", given, G_N_ELEMENTS(given)), next = 0;
        int64_t gone[ECH_LAYOUT_MAX_RANK];
        size_t n_gone = ech_program_attribute_numbers(i, "inserted_window_dims", gone, G_N_ELEMENTS(gone));
        for (unsigned d = 0; d < from->rank; d++) {
            bool one = false;
            for (size_t g = 0; g < n_gone; g++)
                one |= gone[g] == (int64_t)d;
            taken[d] = 1;
            if (!one && next < n && given[next] >= 0 && given[next] < updates->rank)
                taken[d] = (double)updates->dims[given[next]];
            next += !one;
            window *= taken[d];
        }
        double elements = (double)ech_layout_elements(updates);
        return (Demand){elements, MAX(elements / MAX(window, 1), 1) * runs_of(from, taken)};
    }
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: {
        double updated = i->n_operands > 1 ? count_of(p, ech_program_operand(p, i, 1)) : 0;
        return k == 0 ? (Demand){MAX(all - updated, 0), 1} : whole;
    }
    case ECH_HLO_BROADCAST:
    case ECH_HLO_PAD: return (Demand){MIN(all, MAX(result, 1)), 1};
    case ECH_HLO_CUSTOM_CALL: return whole;
    default: return ech_hlo_class((EchHlo)i->opcode) == ECH_CLASS_COLLECTIVE ? (Demand){0, 0} : whole; /* collectives' bytes are their own affair */
    }
}

/* The places that a node is asked for: its own demand and those of its roots, each at most all of it. */
static Demand total(const Flow *f, uint32_t j)
{
    const Node *node = &f->nodes[j];
    double all = count_of(f->p, f->c->first + j);
    Demand sum = {0, 0};
    if (node->whole)
        return (Demand){all, 1};
    for (unsigned r = 0; r <= node->n_roots; r++) {
        const Demand *one = r < node->n_roots ? &f->nodes[node->roots[r]].own : &node->own;
        sum.elements += one->elements;
        sum.runs += one->runs;
    }
    if (sum.elements >= all)
        return (Demand){all, 1};
    return sum;
}

static void add_root(Node *node, uint32_t root)
{
    for (unsigned r = 0; r < node->n_roots; r++)
        if (node->roots[r] == root)
            return;
    if (node->n_roots == MAX_ROOTS)
        node->whole = true;
    else
        node->roots[node->n_roots++] = root;
}

static void ask(Flow *f, EchId id, Demand demand)
{
    Node *node = &f->nodes[id - f->c->first];
    if (demand.elements <= 0)
        return;
    node->own.elements += demand.elements;
    node->own.runs += MAX(demand.runs, 1);
}

static bool same_places(const EchInstruction *i)
{
    return ech_hlo_is_elementwise((EchHlo)i->opcode) || i->opcode == ECH_HLO_CONVERT;
}

bool ech_program_updates_in_place(const EchProgram *p, EchId id)
{
    const EchInstruction *i = &p->instructions[id];
    return (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE || i->opcode == ECH_HLO_SCATTER) && i->n_operands > 2 &&
           p->instructions[ech_program_look_through(p, ech_program_operand(p, i, 0))].opcode == ECH_HLO_PARAMETER;
}

/* Asks for what the fusion gives: all of every result, of an update in place what it puts there. */
static void ask_results(Flow *f, bool *in_place)
{
    EchId root = f->c->root;
    const EchInstruction *r = &f->p->instructions[root];
    uint32_t n = r->opcode == ECH_HLO_TUPLE ? r->n_operands : 1;
    for (uint32_t k = 0; k < n; k++) {
        EchId result = r->opcode == ECH_HLO_TUPLE ? ech_program_operand(f->p, r, k) : root;
        EchId made = ech_program_look_through(f->p, result);
        if (r->opcode == ECH_HLO_TUPLE && f->p->instructions[result].opcode == ECH_HLO_PARAMETER) /* rides through; alone it is a tile's load (Triton) */
            continue;
        in_place[made - f->c->first] |= ech_program_updates_in_place(f->p, made);
        ask(f, result, (Demand){count_of(f->p, result), 1});
    }
}

static void pass_on(Flow *f, uint32_t j, bool in_place)
{
    const EchProgram *p = f->p;
    EchId id = f->c->first + j;
    const EchInstruction *i = &p->instructions[id];
    const Demand asked = total(f, j);
    double all = count_of(p, id), share = all > 0 ? MIN(asked.elements / all, 1) : 1;
    if ((asked.elements <= 0 && all > 0) || i->opcode == ECH_HLO_PARAMETER || i->opcode == ECH_HLO_TUPLE)
        return;
    const EchBody *inner = i->opcode == ECH_HLO_FUSION && i->n_called > 0 ? &p->bodies[ech_program_called(p, i, 0)] : NULL;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId operand = ech_program_operand(p, i, k);
        const EchLayout *from = ech_program_first_layout(p, operand);
        if (!from)
            continue;
        double elements = (double)ech_layout_elements(from);
        Node *node = &f->nodes[operand - f->c->first];
        if (same_places(i) && elements == all) {
            node->whole |= f->nodes[j].whole;
            for (unsigned r = 0; r < f->nodes[j].n_roots; r++)
                add_root(node, f->nodes[j].roots[r]);
            if (f->nodes[j].own.elements > 0)
                add_root(node, j);
            continue;
        }
        if (i->opcode == ECH_HLO_BITCAST || i->opcode == ECH_HLO_RESHAPE) {
            ask(f, operand, (Demand){MIN(asked.elements, elements), asked.runs});
            continue;
        }
        if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && k == 0 && in_place)
            continue;
        Demand demand = {elements, 1};
        if (inner && k < inner->n_parameters && !inner->parameters[k].whole)
            demand = (Demand){(double)inner->parameters[k].sliced / (MAX(ech_layout_element_bits(from), 1u) / 8.0), 1};
        else if (!inner)
            demand = picked(p, id, k, from);
        if (share < 1 && (i->opcode == ECH_HLO_TRANSPOSE || i->opcode == ECH_HLO_COPY || i->opcode == ECH_HLO_REVERSE))
            demand = (Demand){asked.elements, asked.elements}; /* turned round: neighbours are none */
        else if (share < 1 && i->opcode == ECH_HLO_BROADCAST)
            demand = (Demand){MIN(asked.elements, elements), 1};
        else if (share < 1)
            demand = (Demand){ceil(demand.elements * share), MAX(demand.runs * share, asked.runs)};
        ask(f, operand, demand);
    }
}

void ech_program_touch_gpu(const EchProgram *p, EchId computation, EchTouched *touched, size_t n)
{
    const EchComputation *c = &p->computations[computation];
    g_autofree Node *nodes = g_new0(Node, (size_t)c->n + 1);
    g_autofree bool *in_place = g_new0(bool, (size_t)c->n + 1);
    Flow flow = {p, c, nodes};
    ask_results(&flow, in_place);
    for (uint32_t j = c->n; j-- > 0;)
        pass_on(&flow, j, in_place[j]);
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        const EchLayout *layout = i->opcode == ECH_HLO_PARAMETER ? ech_program_first_layout(p, c->first + j) : NULL;
        if (!layout || i->number < 0 || (uint64_t)i->number >= n)
            continue;
        EchBytes full = p->shapes[i->shape].bytes;
        const Node *node = &nodes[j];
        double all = (double)ech_layout_elements(layout), size = ech_layout_element_bits(layout) / 8.0, bytes = node->whole ? (double)full : 0;
        for (unsigned r = 0; r <= node->n_roots && !node->whole; r++) {
            Demand demand = r < node->n_roots ? nodes[node->roots[r]].own : node->own;
            bytes += demand.elements >= all ? (double)full : MIN(bytes_of(demand, size), (double)full);
        }
        EchTouched *into = &touched[i->number];
        if (bytes >= (double)full && full > 0)
            into->whole = true;
        else
            into->sliced = ech_bytes_add(into->sliced, (EchBytes)bytes);
    }
}

EchBytes ech_program_picked_bytes(const EchProgram *p, EchId id, uint32_t k)
{
    EchId operand = ech_program_operand(p, &p->instructions[id], k);
    const EchLayout *from = ech_program_first_layout(p, operand);
    EchBytes full = p->shapes[p->instructions[operand].shape].bytes;
    if (!from || p->shapes[p->instructions[operand].shape].is_tuple)
        return full;
    double bytes = bytes_of(picked(p, id, k, from), ech_layout_element_bits(from) / 8.0);
    return bytes < (double)full ? (EchBytes)bytes : full;
}
