#include "sim/import/refused.h"

EchId ech_refused_held(EchTraceBuilder *builder, EchId memory, const char *name, EchBytes bytes)
{
    if (bytes == 0)
        return ECH_NONE;
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(builder, name, -1);
    b.memory = memory;
    b.bytes = bytes;
    b.resident = 1;
    return ech_trace_builder_buffer(builder, b);
}

void ech_refused_request(EchTraceBuilder *builder, EchId memory, const char *name, const char *shape, EchBytes bytes)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(builder, name, -1);
    b.memory = memory;
    b.bytes = bytes;
    if (shape)
        b.shape = ech_trace_builder_string(builder, shape, -1);
    EchId buffer = ech_trace_builder_buffer(builder, b);
    EchOp op = ech_op_init(ECH_OP_ALLOC);
    op.name = b.name;
    op.target = buffer;
    op.bytes = b.bytes;
    op.bytes_origin = ECH_KNOWN;
    op.queue = ech_trace_builder_queue(builder, "allocator", ECH_QUEUE_HOST, 0);
    ech_trace_builder_op(builder, op);
}

void ech_refused_number(EchTraceBuilder *builder, const char *key, bool known, EchBytes value)
{
    if (known)
        ech_trace_builder_printf_property(builder, key, "%" G_GUINT64_FORMAT, value);
}
