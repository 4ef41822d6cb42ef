/* A program as the steps of a chip with stationary weights. */
#include "sim/program/price_stationary.h"

#include "models/link/link.h"
#include "sim/program/price_kernels.h"

#include <string.h>

typedef struct {
    const EchProgram *program;
    const EchDevice *device;
    GArray *steps;    /* EchStationaryStep */
    GArray *products; /* EchStationaryProduct */
    GArray *deps;     /* uint32_t */
    EchId *maker;     /* maker[n_instructions]: step behind an instruction's result, or ECH_NONE */
    uint64_t outside; /* activations the program keeps in the weight memory */
    uint64_t floating;
} Steps;

static int32_t space_of(const EchProgram *program, EchId instruction)
{
    return instruction == ECH_NONE ? ECH_SPACE_VECTOR : program->shapes[program->instructions[instruction].shape].space;
}

static void add_step(Steps *s, EchId id, EchStationaryStep step)
{
    const EchInstruction *at = &s->program->instructions[id];
    step.first_dep = s->deps->len;
    for (uint32_t k = 0; k < at->n_operands; k++) {
        EchId maker = s->maker[ech_program_operand(s->program, at, k)];
        if (maker != ECH_NONE)
            g_array_append_val(s->deps, maker);
    }
    step.n_deps = s->deps->len - step.first_dep;
    s->maker[id] = s->steps->len;
    g_array_append_val(s->steps, step);
}

static bool is_floating(const EchProgram *program, EchId instruction)
{
    const EchLayout *layout = instruction == ECH_NONE ? NULL : ech_program_layout(program, program->instructions[instruction].shape);
    return layout != NULL && (layout->dtype[0] == 'f' || layout->dtype[0] == 'b');
}

/* Weights are what lies in the weight memory; where both sides do, or neither, the right one. */
static void add_products(Steps *s, const GArray *found)
{
    for (guint i = 0; i < found->len; i++) {
        const EchProgramProduct *p = &g_array_index(found, EchProgramProduct, i);
        const EchKernelContraction *c = &p->contraction;
        EchStationaryProduct product = {.m = c->m, .n = c->n, .k = c->k, .taps = MAX(c->taps, 1u), .copies = MAX(c->batch, 1u)};
        product.lhs_bits = p->lhs_bits;
        product.rhs_bits = p->rhs_bits;
        s->floating += is_floating(s->program, p->lhs) || is_floating(s->program, p->rhs);
        if (!c->convolution && space_of(s->program, p->lhs) == ECH_SPACE_HBM && space_of(s->program, p->rhs) != ECH_SPACE_HBM) {
            product.m = c->n;
            product.n = c->m;
            product.lhs_bits = p->rhs_bits;
            product.rhs_bits = p->lhs_bits;
        } else if (space_of(s->program, p->lhs) == ECH_SPACE_HBM) {
            s->outside++;
        }
        g_array_append_val(s->products, product);
    }
}

static void add_kernel(Steps *s, EchId id)
{
    const EchProgram *program = s->program;
    const EchInstruction *at = &program->instructions[id];
    g_autoptr(GArray) found = ech_program_products(program, id);
    EchStationaryStep step = {.kind = ECH_STATIONARY_PRODUCT, .first_product = s->products->len, .n_products = found->len, .result_bits = 8};
    EchBytes written = 0;
    for (uint32_t q = 0; q < program->shapes[at->shape].n_positions; q++) {
        EchId shape = ech_program_subshape(program, at->shape, q);
        if (!program->shapes[shape].is_tuple)
            written = ech_bytes_add(written, ech_program_result_bytes(program, id, q));
    }
    if (found->len > 0) {
        const EchLayout *result = ech_program_layout(program, at->shape);
        step.result_bits = result != NULL ? MAX(ech_layout_element_bits(result), 1u) : 8;
        add_products(s, found);
    } else {
        EchBytes read = 0;
        for (uint32_t k = 0; k < at->n_operands; k++)
            read = ech_bytes_add(read, ech_program_operand_bytes(program, id, k));
        step.kind = ECH_STATIONARY_VECTOR;
        step.moved = MAX(MAX(read, written), ech_bytes_mul(written, ech_program_pool_positions(program, id)));
    }
    add_step(s, id, step);
}

static bool add_transfer(Steps *s, EchId id)
{
    const EchProgram *program = s->program;
    const EchShape *shape = &program->shapes[program->instructions[id].shape];
    if (shape->n_elements < 2)
        return false;
    const EchShape *to = &program->shapes[program->elements[shape->first_element]], *from = &program->shapes[program->elements[shape->first_element + 1]];
    const EchMemory *source = ech_device_space(s->device, from->space), *target = ech_device_space(s->device, to->space);
    bool forward;
    const EchLink *link = source && target && source != target ? ech_device_transfer_link(s->device, source, target, &forward) : NULL;
    EchStationaryStep step = {.kind = ECH_STATIONARY_TRANSFER, .to_device = true};
    if (link) {
        const EchRate rates[] = {forward ? link->to_device : link->from_device, source->read, target->write};
        EchRate rate = 0; /* of the slowest on the way */
        for (size_t i = 0; i < G_N_ELEMENTS(rates); i++)
            rate = rates[i] > 0 && (rate == 0 || rates[i] < rate) ? rates[i] : rate;
        step.to_device = forward;
        step.transfer = ech_time_add(ech_link_overhead(link, forward, to->bytes, true), rate > 0 ? ech_time_for(to->bytes, rate) : 0);
    }
    add_step(s, id, step);
    return true;
}

static void add_instruction(Steps *s, EchId id)
{
    const EchInstruction *at = &s->program->instructions[id];
    if (at->opcode == ECH_HLO_COPY_START && add_transfer(s, id))
        return;
    if (at->opcode == ECH_HLO_COPY_DONE) {
        add_step(s, id, (EchStationaryStep){.kind = ECH_STATIONARY_WAIT});
        return;
    }
    if (ech_program_is_kernel(s->program, id)) {
        add_kernel(s, id);
        return;
    }
    /* A name for data: made by the last of what its operands are made by. */
    for (uint32_t k = 0; k < at->n_operands; k++) {
        EchId maker = s->maker[ech_program_operand(s->program, at, k)];
        if (maker != ECH_NONE && (s->maker[id] == ECH_NONE || maker > s->maker[id]))
            s->maker[id] = maker;
    }
}

EchStationaryPrices *ech_program_price_stationary(const EchProgram *program, const EchDevice *device, EchDiag *diag)
{
    EchStationaryModel model;
    if (!ech_stationary_model_init(&model, device))
        return NULL;
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(EchStationaryStep)), products = g_array_new(FALSE, FALSE, sizeof(EchStationaryProduct));
    g_autoptr(GArray) deps = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree EchId *maker = g_new(EchId, program->n_instructions + 1);
    memset(maker, 0xff, (program->n_instructions + 1) * sizeof *maker);
    Steps s = {.program = program, .device = device, .steps = steps, .products = products, .deps = deps, .maker = maker};
    for (size_t i = 0; i < program->n_flat; i++)
        add_instruction(&s, program->flat[i]);

    EchStationaryPrices *prices = g_new0(EchStationaryPrices, 1);
    g_autofree EchTime *ends = g_new0(EchTime, (size_t)steps->len + 1);
    g_autofree EchKernelInside *insides = g_new0(EchKernelInside, (size_t)steps->len + 1);
    ech_stationary_run(&model, (const EchStationaryStep *)(void *)steps->data, steps->len, (const EchStationaryProduct *)(void *)products->data,
                       (const uint32_t *)(void *)deps->data, ends, insides, &prices->counters);
    prices->times = g_new(EchTime, program->n_instructions + 1);
    prices->insides = g_new0(EchKernelInside, program->n_instructions + 1);
    for (size_t i = 0; i <= program->n_instructions; i++)
        prices->times[i] = ECH_TIME_NONE;
    EchTime core = 0;
    for (size_t i = 0; i < program->n_flat; i++) {
        EchId id = program->flat[i];
        if (maker[id] == ECH_NONE)
            continue;
        EchStationaryKind kind = g_array_index(steps, EchStationaryStep, maker[id]).kind;
        if (program->instructions[id].opcode == ECH_HLO_COPY_DONE) {
            core = MAX(core, ends[maker[id]]);
        } else if ((kind == ECH_STATIONARY_PRODUCT || kind == ECH_STATIONARY_VECTOR) && ech_program_is_kernel(program, id)) {
            prices->times[id] = MAX(ends[maker[id]] - core, 0);
            prices->insides[id] = insides[maker[id]];
            core = MAX(core, ends[maker[id]]);
        }
    }
    if (s.outside > 0)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT " products stream activations that the program keeps in %s, which holds only weights on %s: priced as if they lay "
                        "in its on-chip memory",
                        s.outside, ech_device_memory_kind(device, ECH_MEM_HBM)->name, device->name);
    if (s.floating > 0)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " products have floating-point operands, which %s cannot multiply: priced as integers of as many bits",
                        s.floating, device->name);
    for (size_t i = 0; i < program->n_flat; i++) {
        if (program->instructions[program->flat[i]].opcode == ECH_HLO_WHILE) {
            ech_diag_remark(diag, "counters of the matrix unit count a loop's body once");
            break;
        }
    }
    return prices;
}

void ech_stationary_prices_free(EchStationaryPrices *prices)
{
    if (!prices)
        return;
    g_free(prices->times);
    g_free(prices->insides);
    g_free(prices);
}

void ech_stationary_set_counters(EchTraceBuilder *b, const EchStationaryCounters *c, const EchDevice *device)
{
    const struct {
        const char *name;
        double value;
    } counters[] = {
        {"cycles", c->cycles},
        {"array_active", c->active},
        {"useful_macs", c->useful},
        {"weight_stall", c->weight_stall},
        {"weight_shift", c->weight_shift},
        {"non_matrix", c->non_matrix},
        {"dependency_stall", c->dependency},
        {"input_stall", c->input},
        {"macs", c->macs},
        {"tiles", c->tiles},
        {"weight_bytes", c->weight_bytes},
        {"clock_hz", (double)ech_device_unit(device, ECH_UNIT_MATRIX)->clock_hz},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(counters); i++) {
        g_autofree char *name = g_strconcat(ECH_STATIONARY_PROPERTY, counters[i].name, NULL);
        ech_trace_builder_printf_property(b, name, "%.0f", counters[i].value);
    }
}

void ech_stationary_set_measured(EchTraceBuilder *builder, const EchProgram *program)
{
    static const char *const names[] = {"array_active", "useful_macs", "unused_macs",      "weight_stall",
                                        "weight_shift", "non_matrix",  "dependency_stall", "input_stall"};
    size_t n;
    EchId root = program->computations[program->entry].root;
    const char *text = ech_program_attribute(&program->instructions[root], "frontend_attributes", &n);
    for (size_t i = 0; text != NULL && i < G_N_ELEMENTS(names); i++) {
        g_autofree char *key = g_strdup_printf("measured.%s=\"", names[i]);
        const char *at = g_strstr_len(text, (gssize)n, key);
        const char *end = at ? memchr(at + strlen(key), '"', n - (size_t)(at + strlen(key) - text)) : NULL;
        if (end == NULL || end - at > 64)
            continue;
        g_autofree char *value = g_strndup(at + strlen(key), (gsize)(end - at) - strlen(key));
        char *rest;
        double number = g_ascii_strtod(value, &rest);
        g_autofree char *property = g_strconcat(ECH_STATIONARY_MEASURED, names[i], NULL);
        if (*value && *rest == '\0' && number >= 0 && number <= 100)
            ech_trace_builder_set_property(builder, property, value);
    }
}
