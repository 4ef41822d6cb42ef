/** @file place_case.h
 * Any bytes as a placement problem: a straight-line program of kernels with a loop in it now and then, costs, and options. Fuzz targets and property tests
 * share it.
 */
#pragma once
#include "models/place/flow.h"

#include <string.h>

typedef struct {
    const uint8_t *data;
    size_t n, at;
} EchBytesIn;

static inline uint32_t ech_take(EchBytesIn *in, uint32_t below)
{
    uint32_t x = in->at < in->n ? in->data[in->at++] : 0;
    if (below > 256)
        x |= (uint32_t)(in->at < in->n ? in->data[in->at++] : 0) << 8;
    return below == 0 ? 0 : x % below;
}

typedef struct {
    EchFlowInstruction *instructions;
    uint32_t n;
    EchFlow *flow;
    GPtrArray *keep;
} EchPlaceCase;

static inline EchFlowInstruction *ech_case_step(EchPlaceCase *c, EchFlowOp op, uint32_t computation, const uint32_t *operands, uint32_t n_operands,
                                                const EchBytes *sizes, uint32_t n_leaves)
{
    EchFlowInstruction *in = &c->instructions[c->n];
    char *name = g_strdup_printf("i%u", c->n);
    uint32_t *list = g_memdup2(operands, MAX(n_operands, 1) * sizeof *operands);
    EchFlowLeaf *leaves = g_new0(EchFlowLeaf, MAX(n_leaves, 1));
    for (uint32_t l = 0; l < n_leaves; l++)
        leaves[l] = (EchFlowLeaf){.bytes = sizes[l], .elements = sizes[l] / 4, .major = (uint32_t)(sizes[l] / 4096), .text = "f32[]"};
    g_ptr_array_add(c->keep, name);
    g_ptr_array_add(c->keep, list);
    g_ptr_array_add(c->keep, leaves);
    *in = (EchFlowInstruction){.name = name,
                               .opcode = "fusion",
                               .op = op,
                               .computation = computation,
                               .entry = computation == 0,
                               .operands = list,
                               .n_operands = n_operands,
                               .leaves = leaves,
                               .n_leaves = n_leaves,
                               .tuple = n_leaves > 1 || op == ECH_FLOW_TUPLE || op == ECH_FLOW_WHILE};
    c->n++;
    return in;
}

static inline EchPlaceCase *ech_place_case_new(const uint8_t *data, size_t size, uint32_t most)
{
    EchBytesIn bytes = {data, size, 0}, *in = &bytes;
    EchPlaceCase *c = g_new0(EchPlaceCase, 1);
    uint32_t kernels = 1 + ech_take(in, most), n_parameters = 1 + ech_take(in, 1 + kernels / 2), n_computations = 1;
    c->keep = g_ptr_array_new_with_free_func(g_free);
    c->instructions = g_new0(EchFlowInstruction, (size_t)n_parameters + (size_t)kernels * 12 + 8);
    g_autoptr(GArray) arrays = g_array_new(FALSE, FALSE, sizeof(uint32_t)); /* steps in the entry with one array */
    for (uint32_t k = 0; k < n_parameters; k++) {
        EchBytes size_of = (EchBytes)(1 + ech_take(in, 2000)) * 4096;
        g_array_append_val(arrays, c->n);
        ech_case_step(c, ECH_FLOW_PARAMETER, 0, NULL, 0, &size_of, 1)->number = k;
    }
    for (uint32_t k = 0; k < kernels; k++) {
        uint32_t operands[4], n = 1 + ech_take(in, 3);
        for (uint32_t o = 0; o < n; o++) {
            uint32_t reach = 1 + ech_take(in, 60);
            uint32_t back = ech_take(in, MIN(arrays->len, reach));
            operands[o] = g_array_index(arrays, uint32_t, arrays->len - 1 - back);
        }
        EchBytes size_of = (EchBytes)(1 + ech_take(in, 2000)) * 4096;
        if (ech_take(in, 10) == 0 && n_computations < 60) {
            /* while (x, w) { x = f(x, w) } */
            uint32_t two[2] = {operands[0], operands[n - 1]};
            EchBytes sizes[2] = {c->instructions[two[0]].leaves[0].bytes, c->instructions[two[1]].leaves[0].bytes};
            uint32_t tuple = c->n;
            ech_case_step(c, ECH_FLOW_TUPLE, 0, two, 2, sizes, 2);
            uint32_t body = n_computations++, condition = n_computations++, parameter = c->n;
            ech_case_step(c, ECH_FLOW_PARAMETER, condition, NULL, 0, sizes, 2);
            EchBytes flag = 512;
            ech_case_step(c, ECH_FLOW_OTHER, condition, &parameter, 1, &flag, 1)->root = true;
            parameter = c->n;
            ech_case_step(c, ECH_FLOW_PARAMETER, body, NULL, 0, sizes, 2);
            uint32_t x = c->n;
            ech_case_step(c, ECH_FLOW_ELEMENT, body, &parameter, 1, &sizes[0], 1)->index = 0;
            uint32_t w = c->n;
            ech_case_step(c, ECH_FLOW_ELEMENT, body, &parameter, 1, &sizes[1], 1)->index = 1;
            uint32_t both[2] = {x, w}, made = c->n;
            ech_case_step(c, ECH_FLOW_OTHER, body, both, 2, &sizes[0], 1)->seconds = 1e-6 * (1 + ech_take(in, 60));
            uint32_t result[2] = {made, w};
            ech_case_step(c, ECH_FLOW_TUPLE, body, result, 2, sizes, 2)->root = true;
            uint32_t *called = g_new(uint32_t, 2);
            called[0] = body;
            called[1] = condition;
            g_ptr_array_add(c->keep, called);
            uint32_t loop = c->n;
            EchFlowInstruction *step = ech_case_step(c, ECH_FLOW_WHILE, 0, &tuple, 1, sizes, 2);
            step->called = called;
            step->n_called = 2;
            g_array_append_val(arrays, c->n);
            ech_case_step(c, ECH_FLOW_ELEMENT, 0, &loop, 1, &sizes[0], 1)->index = 0;
            continue;
        }
        g_array_append_val(arrays, c->n);
        if (ech_take(in, 12) == 0) {
            size_of = c->instructions[operands[0]].leaves[0].bytes;
            ech_case_step(c, ECH_FLOW_COPY, 0, operands, 1, &size_of, 1)->seconds = 1e-6 * (1 + ech_take(in, 20));
        } else
            ech_case_step(c, ECH_FLOW_OTHER, 0, operands, n, &size_of, 1)->seconds = 1e-7 * (1 + ech_take(in, 900));
    }
    uint32_t last = g_array_index(arrays, uint32_t, arrays->len - 1);
    EchBytes bytes_of = c->instructions[last].leaves[0].bytes;
    ech_case_step(c, ECH_FLOW_TUPLE, 0, &last, 1, &bytes_of, 1)->root = true;
    c->flow = ech_flow_new(c->instructions, c->n, n_computations, NULL, 0);
    EchMsaProblem *p = &c->flow->problem;
    EchMsaOptions *o = &p->options;
    o->size = (EchBytes)(1 + ech_take(in, 9000)) * 4096;
    o->copy_bytes_per_s = 1e9 * (1 + ech_take(in, 2000));
    o->picker_bytes = ech_take(in, 2) ? (EchBytes)(1 + ech_take(in, 2000)) * 4096 : 0;
    o->max_prefetches = (int64_t)ech_take(in, 42) - 1;
    o->max_evictions = (int64_t)ech_take(in, 42) - 1;
    static const uint32_t slices[] = {0, 2, 4, UINT32_MAX};
    o->max_slices = slices[ech_take(in, 4)];
    o->preferred_slice = o->max_slices == UINT32_MAX ? (EchBytes)(1 + ech_take(in, 16)) * 262144 : 0;
    o->max_repacks = ech_take(in, 6);
    o->max_retries = 1 + ech_take(in, 3);
    o->max_cross_program = ech_take(in, 4);
    o->cross_program = o->max_cross_program > 0;
    o->fifo = ech_take(in, 8) == 0;
    o->preferred_overlap = 1 + ech_take(in, 6);
    o->max_overlap = 1 + ech_take(in, 12);
    o->keep_largest_gap = ech_take(in, 4) == 0;
    o->on_demand = ech_take(in, 6) == 0;
    o->depth = ech_take(in, 6) == 0 ? 1 + ech_take(in, 5) : 0;
    o->belady = ech_take(in, 6) == 0;
    for (uint32_t v = 0; v < p->n_values; v++) {
        bool first = true; /* of its group */
        for (uint32_t k = 0; k < v && first; k++)
            first = p->values[k].group != p->values[v].group;
        p->values[v].eligible = first;
        p->values[v].boundedness = ((double)ech_take(in, 2000) - 600) * 1e-12;
    }
    for (uint32_t u = 0; u < p->n_uses; u++) {
        p->uses[u].accessed = (int64_t)p->values[p->uses[u].value].bytes;
        p->uses[u].reduction = p->steps[p->uses[u].step].seconds * ech_take(in, 100) / 200;
    }
    for (uint32_t k = 0; k < p->n_positions; k++)
        p->definition_bytes[k] = (int64_t)p->values[p->positions[k].value].bytes;
    ech_flow_clock(c->flow, c->instructions, 512);
    ech_flow_mark_sync(c->flow, c->instructions);
    ech_flow_finish(c->flow, c->instructions);
    return c;
}

static inline void ech_place_case_free(EchPlaceCase *c)
{
    ech_flow_free(c->flow);
    g_ptr_array_unref(c->keep);
    g_free(c->instructions);
    g_free(c);
}

/** NULL, or what is wrong with a result (owned by the caller): legality, copies inside their intervals, limits, uses that read what is there. */
static inline char *ech_place_case_check(const EchMsaProblem *p, const EchMsaResult *r)
{
    char *wrong = ech_msa_check(p, r);
    if (wrong != NULL)
        return wrong;
    g_autofree uint32_t *serving = g_new(uint32_t, MAX(p->n_uses, 1));
    g_autofree int32_t *under_way = g_new0(int32_t, (size_t)p->n_steps + 3);
    for (uint32_t u = 0; u < p->n_uses; u++)
        serving[u] = ECH_PLACE_NONE;
    for (uint32_t s = 0; s < r->n_stays; s++) {
        const EchMsaStay *stay = &r->stays[s];
        if (stay->kind == ECH_MSA_SCOPED)
            continue;
        for (uint32_t k = 0; k < stay->n_uses; k++)
            serving[r->use_list[stay->first_use + k]] = s;
        if (stay->kind != ECH_MSA_COPIED && stay->kind != ECH_MSA_SLICED)
            continue;
        if (stay->copy_after >= stay->copy_before)
            return g_strdup_printf("stay %u: copy starts after %ld and is done before %ld", s, (long)stay->copy_after, (long)stay->copy_before);
        for (uint32_t k = 0; k < stay->n_uses; k++)
            if ((int64_t)p->uses[r->use_list[stay->first_use + k]].step < stay->copy_before &&
                p->steps[p->uses[r->use_list[stay->first_use + k]].step].kind != ECH_MSA_WHILE)
                return g_strdup_printf("stay %u: read at %u, copied before %ld", s, p->uses[r->use_list[stay->first_use + k]].step, (long)stay->copy_before);
        EchBytes sum = 0;
        for (uint32_t k = 0; k < stay->n_slices; k++) {
            const EchMsaSlice *slice = &r->slices[stay->first_slice + k];
            sum += slice->bytes;
            if (slice->offset < stay->offset || slice->offset + slice->bytes > stay->offset + stay->bytes)
                return g_strdup_printf("stay %u: slice %u outside it", s, k);
        }
        if (stay->n_slices > 0 && sum != stay->bytes)
            return g_strdup_printf("stay %u: slices do not add up", s);
        for (int64_t t = MAX(stay->copy_after + 1, 0); stay->fast && !stay->cross_program && stay->n_slices == 0 && t < stay->copy_before; t++)
            under_way[t]++;
    }
    for (uint32_t t = 0; t < p->n_steps; t++)
        if (p->options.max_prefetches >= 0 && under_way[t] > MAX(p->options.max_prefetches, 0) + p->options.while_extra)
            return g_strdup_printf("%d prefetches under way at %u, %ld allowed", under_way[t], t, (long)p->options.max_prefetches);
    for (uint32_t u = 0; u < p->n_uses; u++) {
        if (!r->use_fast[u])
            continue;
        const EchMsaStay *stay = serving[u] == ECH_PLACE_NONE ? NULL : &r->stays[serving[u]];
        if (stay == NULL || !stay->fast)
            return g_strdup_printf("use %u reads the fast memory, but nothing is there for it", u);
        if (p->values[stay->value].group != p->values[p->uses[u].value].group && stay->sync_step == ECH_PLACE_NONE)
            return g_strdup_printf("use %u reads a stay of another value", u);
    }
    return NULL;
}
