/* pin: host memory that copies find pageable is pinned: they need no staging buffer of the driver's, and take the link of pinned memory. Recorded ones take
 * what was recorded by the ratio of the two links. */
#include "models/link/link.h"
#include "sim/pass/pass.h"

/* The device's memory of a trace's memory, by name; NULL for none. */
static const EchMemory *memory_of(const EchTrace *trace, const EchDevice *device, EchId id)
{
    return id == ECH_NONE ? NULL : ech_device_memory(device, ech_trace_memory(trace, id));
}

static bool is_pageable(const EchTrace *trace, const EchDevice *device, EchId id)
{
    const EchMemory *memory = memory_of(trace, device, id);
    return memory && memory->kind == ECH_MEM_HOST_PAGEABLE;
}

/* How long a copy takes by the device's model; 0 where it has no way for it. */
static EchTime time_of(const EchTrace *trace, const EchDevice *device, const EchOp *op, const EchMemory *from, const EchMemory *to)
{
    bool forward;
    from = from ? from : memory_of(trace, device, op->memory_from);
    to = to ? to : memory_of(trace, device, op->memory_to);
    const EchLink *link = from && to && from != to ? ech_device_transfer_link(device, from, to, &forward) : NULL;
    return link ? ech_link_time(link, forward, op->bytes) : 0;
}

static EchTrace *pin_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    (void)options;
    const EchMemory *pinned = ech_device_memory_kind(device, ECH_MEM_HOST_PINNED);
    uint64_t copies = 0;
    EchBytes bytes = 0;
    for (size_t i = 0; i < ech_trace_n_ops(in); i++) {
        const EchOp *op = &ech_trace_ops(in)[i];
        if (op->kind != ECH_OP_COPY || (!is_pageable(in, device, op->memory_from) && !is_pageable(in, device, op->memory_to)))
            continue;
        copies++;
        bytes = ech_bytes_add(bytes, op->bytes);
    }
    if (!pinned || copies == 0) {
        ech_diag_remark(diag, pinned ? "pin: no copy is from or to pageable memory" : "pin: the device has no pinned host memory");
        return ech_trace_ref(in);
    }
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(in);
    EchId to = ech_trace_builder_memory(builder, pinned->name);
    for (size_t i = 0; i < ech_trace_n_ops(in); i++) {
        const EchOp *op = &ech_trace_ops(in)[i];
        bool from = op->kind == ECH_OP_COPY && is_pageable(in, device, op->memory_from),
             into = op->kind == ECH_OP_COPY && is_pageable(in, device, op->memory_to);
        if (!from && !into)
            continue;
        EchOp *made = ech_trace_builder_peek_op(builder, (EchId)i);
        EchTime before = time_of(in, device, op, NULL, NULL), now = time_of(in, device, op, from ? pinned : NULL, into ? pinned : NULL);
        if (op->recorded.duration > 0 && before > 0 && now > 0) /* not where none was recorded */
            made->recorded.duration = (EchTime)((double)op->recorded.duration * ((double)now / (double)before));
        if (from)
            made->memory_from = to;
        if (into)
            made->memory_to = to;
    }
    for (size_t i = 0; i < ech_trace_n_buffers(in); i++) {
        if (is_pageable(in, device, ech_trace_buffers(in)[i].memory))
            ech_trace_builder_peek_buffer(builder, (EchId)i)->memory = to;
    }
    g_autofree char *size = ech_format_bytes(bytes);
    ech_diag_remark(diag,
                    "pin: %" G_GUINT64_FORMAT
                    " cop%s of %s in all: from or to pinned memory now (pin_memory(), non_blocking=True); pinning it takes time of its "
                    "own, not counted, once",
                    copies, copies == 1 ? "y" : "ies", size);
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_pin = {
    .name = "pin", .summary = "copies from and to pageable host memory find it pinned", .source = "ours; both links are the device's", .trace = pin_run};
