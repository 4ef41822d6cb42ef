/* A trace that is larger than the card, made smaller. */
#include "sim/replay/cuda_private.h"

static uint64_t shrunk(uint64_t bytes, double scale)
{
    uint64_t small = (uint64_t)((double)bytes * scale);
    return bytes == 0 ? 0 : MAX(small, (uint64_t)16);
}

/* Every size times @scale, operations as they are. */
EchTrace *ech_cuda_scale_trace(const EchTrace *trace, double scale, GError **error)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new(ech_trace_format(trace));
    for (EchId i = 0; i < ech_trace_n_strings(trace); i++)
        ech_trace_builder_string(b, ech_trace_string(trace, i), -1);
    for (EchId i = 0; i < ech_trace_n_memories(trace); i++)
        ech_trace_builder_memory(b, ech_trace_memory(trace, i));
    for (EchId i = 0; i < ech_trace_n_queues(trace); i++) {
        const EchQueue *queue = &ech_trace_queues(trace)[i];
        ech_trace_builder_queue(b, ech_trace_string(trace, queue->name), (EchQueueKind)queue->kind, queue->device);
    }
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        EchBuffer buffer = ech_trace_buffers(trace)[i];
        const EchBuffer *parent = buffer.alias_of == ECH_NONE ? NULL : ech_trace_builder_peek_buffer(b, buffer.alias_of);
        buffer.bytes = shrunk(buffer.bytes, scale);
        buffer.rounded = shrunk(buffer.rounded, scale);
        buffer.dense = shrunk(buffer.dense, scale);
        buffer.alias_offset = (uint64_t)((double)buffer.alias_offset * scale);
        if (parent && buffer.alias_offset + buffer.bytes > parent->bytes)
            buffer.alias_offset = parent->bytes - MIN(parent->bytes, buffer.bytes);
        if (parent)
            buffer.bytes = MIN(buffer.bytes, parent->bytes);
        if (buffer.offset != ECH_OFFSET_NONE)
            buffer.offset = (uint64_t)((double)buffer.offset * scale);
        ech_trace_builder_buffer(b, buffer);
    }
    for (EchId i = 0; i < ech_trace_n_ops(trace); i++) {
        EchOp op = ech_trace_ops(trace)[i];
        if (op.kind == ECH_OP_COPY || op.kind == ECH_OP_ALLOC || op.kind == ECH_OP_FREE)
            op.bytes = shrunk(op.bytes, scale);
        ech_trace_builder_op(b, op);
        for (uint32_t u = op.first_use; u < op.first_use + op.n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            ech_trace_builder_use(b, use->buffer, (EchAccess)use->access, shrunk(use->bytes, scale), (EchPattern)use->pattern, (EchOrigin)use->origin);
        }
        for (uint32_t d = op.first_dep; d < op.first_dep + op.n_deps; d++)
            ech_trace_builder_dep(b, ech_trace_deps(trace)[d].op, ech_trace_deps(trace)[d].distance);
        for (uint32_t w = op.first_work; w < op.first_work + op.n_work; w++) {
            const EchWork *work = &ech_trace_work(trace)[w];
            ech_trace_builder_work(b, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
        }
    }
    const char *value;
    for (size_t i = 0;; i++) {
        const char *key = ech_trace_property(trace, i, &value);
        if (!key)
            break;
        ech_trace_builder_set_property(b, key, value);
    }
    return ech_trace_builder_finish(b, error);
}
