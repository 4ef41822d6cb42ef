/* Convolutions and products given by their shapes as kernels. */
#include "sim/experiment/layers.h"

#include "models/kernel/kernel.h"
#include "models/layout/advice.h"

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
static bool price_layer(const EchTrace *trace, const EchOp *op, const EchKernelModel *model, unsigned generation, EchTime *ret)
{
    EchLayout operands[2], result;
    bool filters = false, output = false;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(trace)[u];
        const EchBuffer *buffer = &ech_trace_buffers(trace)[use->buffer];
        if (use->access == ECH_WRITE)
            output = shape_of(trace, use->buffer, generation, &result);
        else if (buffer->role == ECH_ROLE_PARAMETER)
            filters = shape_of(trace, use->buffer, generation, &operands[1]);
    }
    if (!filters || !output || operands[1].rank != result.rank)
        return false;
    bool convolution = result.rank == 4;
    EchKernelContraction c = {.batch = 1, .m = 1, .taps = 1, .passes = 1};
    for (unsigned i = 0; i + 1 < result.rank; i++)
        c.m = ech_bytes_mul(c.m, result.dims[i]);
    c.n = result.dims[result.rank - 1u];
    c.k = operands[1].dims[operands[1].rank - 2u];
    if (convolution)
        c.taps = ech_bytes_mul(operands[1].dims[0], operands[1].dims[1]);
    c.convolution = convolution && c.taps > 1;
    c.input_pixels = c.m;
    if (c.m == 0 || c.n == 0 || c.k == 0 || c.taps == 0)
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

EchTrace *ech_layers_price(EchTrace *trace, const EchDevice *device, EchDiag *diag, GError **error)
{
    EchKernelModel model;
    if (g_strcmp0(device->family, "tpu") != 0 || !ech_kernel_model_init(&model, device, ECH_KERNEL_HARDWARE, NULL))
        return ech_trace_ref(trace);
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
