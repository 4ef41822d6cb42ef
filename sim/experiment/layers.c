/* Convolutions and products given by their shapes as kernels. */
#include "sim/experiment/layers.h"

#include "models/kernel/kernel.h"
#include "models/layout/advice.h"
#include "sim/program/price_kernels.h"
#include "sim/program/price_stationary.h"

#include <string.h>

static bool shape_of(const EchTrace *trace, EchId buffer, unsigned generation, EchLayout *ret)
{
    const char *text = ech_trace_string(trace, ech_trace_buffers(trace)[buffer].shape);
    if (!text || !*text || !ech_layout_parse(text, strlen(text), ret, NULL, NULL) || (ret->rank != 2 && ret->rank != 4))
        return false;
    ech_layout_choose_tiles(ret, generation);
    return true;
}

/* result[m, n] of filters [taps, k, n]; the input follows from them. */
static bool read_layer(const EchTrace *trace, const EchOp *op, unsigned generation, EchLayout *ret_filters, EchLayout *ret_result, EchKernelContraction *ret)
{
    bool filters = false, output = false;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(trace)[u];
        const EchBuffer *buffer = &ech_trace_buffers(trace)[use->buffer];
        if (use->access == ECH_WRITE)
            output = shape_of(trace, use->buffer, generation, ret_result);
        else if (buffer->role == ECH_ROLE_PARAMETER)
            filters = shape_of(trace, use->buffer, generation, ret_filters);
    }
    if (!filters || !output || ret_filters->rank != ret_result->rank)
        return false;
    bool convolution = ret_result->rank == 4;
    EchKernelContraction c = {.batch = 1, .m = 1, .taps = 1, .passes = 1};
    for (unsigned i = 0; i + 1 < ret_result->rank; i++)
        c.m = ech_bytes_mul(c.m, ret_result->dims[i]);
    c.n = ret_result->dims[ret_result->rank - 1u];
    c.k = ret_filters->dims[ret_filters->rank - 2u];
    if (convolution)
        c.taps = ech_bytes_mul(ret_filters->dims[0], ret_filters->dims[1]);
    c.convolution = convolution && c.taps > 1;
    c.input_pixels = c.m;
    *ret = c;
    return c.m > 0 && c.n > 0 && c.k > 0 && c.taps > 0;
}

static bool price_layer(const EchTrace *trace, const EchOp *op, const EchKernelModel *model, unsigned generation, EchTime *ret)
{
    EchLayout operands[2], result;
    EchKernelContraction c;
    if (!read_layer(trace, op, generation, &operands[1], &result, &c))
        return false;
    /* The operand of one pass: as many rows as the result, as deep as the filters. */
    g_autofree char *text = g_strdup_printf("%s[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]{1,0}", result.dtype, c.m, c.k);
    if (!ech_layout_parse(text, strlen(text), &operands[0], NULL, NULL))
        return false;
    ech_layout_choose_tiles(&operands[0], generation);
    EchKernel kernel = {.kind = ECH_KERNEL_CONTRACTION,
                        .results = &result,
                        .n_results = 1,
                        .operands = operands,
                        .n_operands = 2,
                        .lhs = 0,
                        .rhs = 1,
                        .contraction = c,
                        .fused = true};
    EchKernelCost cost;
    ech_kernel_price(model, &kernel, true, &cost);
    *ret = cost.time;
    return cost.time > 0;
}

/* Layers on a chip whose weights stay in its array: each reads what the one before made. */
static EchTrace *price_stationary(EchTrace *trace, const EchDevice *device, const EchStationaryModel *model, EchDiag *diag, GError **error)
{
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(EchStationaryStep)), products = g_array_new(FALSE, FALSE, sizeof(EchStationaryProduct));
    g_autoptr(GArray) deps = g_array_new(FALSE, FALSE, sizeof(uint32_t)), layers = g_array_new(FALSE, FALSE, sizeof(EchId));
    size_t kernels = 0, n = ech_trace_n_ops(trace);
    for (size_t i = 0; i < n; i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        EchLayout filters, result;
        EchKernelContraction c;
        kernels += op->kind == ECH_OP_KERNEL;
        if (op->kind != ECH_OP_KERNEL || !read_layer(trace, op, 0, &filters, &result, &c))
            continue;
        EchId id = (EchId)i;
        uint32_t before = layers->len;
        EchStationaryProduct product = {.m = c.m, .n = c.n, .k = c.k, .taps = c.taps, .copies = 1};
        product.lhs_bits = product.rhs_bits = MAX(ech_layout_element_bits(&filters), 1u);
        EchStationaryStep step = {.kind = ECH_STATIONARY_PRODUCT, .first_product = before, .n_products = 1, .result_bits = product.lhs_bits};
        step.first_dep = deps->len;
        if (before-- > 0) {
            g_array_append_val(deps, before);
            step.n_deps = 1;
        }
        g_array_append_val(products, product);
        g_array_append_val(steps, step);
        g_array_append_val(layers, id);
    }
    if (layers->len == 0)
        return ech_trace_ref(trace);
    g_autofree EchTime *ends = g_new0(EchTime, layers->len);
    g_autofree EchKernelInside *insides = g_new0(EchKernelInside, layers->len);
    EchStationaryCounters counters;
    ech_stationary_run(model, (const EchStationaryStep *)(void *)steps->data, steps->len, (const EchStationaryProduct *)(void *)products->data,
                       (const uint32_t *)(void *)deps->data, ends, insides, &counters);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    for (guint i = 0; i < layers->len; i++) {
        EchOp *op = ech_trace_builder_peek_op(builder, g_array_index(layers, EchId, i));
        op->estimate = ends[i] - (i > 0 ? ends[i - 1] : 0);
        op->estimate_origin = ECH_INFERRED;
        op->launch = ech_inside_text(builder, &insides[i]);
    }
    ech_stationary_set_counters(builder, &counters, device);
    ech_trace_builder_set_property(builder, "estimates_for", device->name);
    ech_trace_builder_set_property(builder, ECH_INSIDES_OF, device->name);
    ech_diag_remark(diag, "%u of %zu layers run tile by tile on %s from their shapes, each after the one before", layers->len, kernels, device->name);
    return ech_trace_builder_finish(builder, error);
}

EchTrace *ech_layers_price(EchTrace *trace, const EchDevice *device, EchDiag *diag, GError **error)
{
    EchKernelModel model;
    EchStationaryModel stationary;
    if (ech_stationary_model_init(&stationary, device))
        return price_stationary(trace, device, &stationary, diag, error);
    g_autoptr(GError) lacks = NULL;
    if (g_strcmp0(device->family, "tpu") != 0)
        return ech_trace_ref(trace);
    if (!ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, &lacks)) {
        ech_diag_remark(diag, "%s: layers take what their bytes and operations do at full rate", lacks->message);
        return ech_trace_ref(trace);
    }
    unsigned generation = MAX(ech_layout_generation(device->compiler), 2u);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    size_t priced = 0, kernels = 0, n = ech_trace_n_ops(trace);
    for (size_t i = 0; i < n; i++) {
        EchTime time;
        kernels += ech_trace_ops(trace)[i].kind == ECH_OP_KERNEL;
        if (ech_trace_ops(trace)[i].kind != ECH_OP_KERNEL || !price_layer(trace, &ech_trace_ops(trace)[i], &model, generation, &time))
            continue;
        EchOp *op = ech_trace_builder_peek_op(builder, (EchId)i);
        op->estimate = time;
        op->estimate_origin = ECH_INFERRED;
        priced++;
    }
    if (priced == 0)
        return ech_trace_ref(trace);
    ech_trace_builder_set_property(builder, "estimates_for", device->name);
    ech_diag_remark(diag, "%zu of %zu layers priced by the kernel model from their shapes, with tiles of our own choice", priced, kernels);
    return ech_trace_builder_finish(builder, error);
}
