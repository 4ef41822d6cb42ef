/* serial: nothing overlaps: every operation waits for the one before it. What overlap is worth is the difference. */
#include "sim/pass/pass.h"

static EchTrace *serial_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    (void)options;
    (void)device;
    if (ech_trace_n_ops(in) == 0 || ech_trace_n_queues(in) <= 1) {
        ech_diag_remark(diag, "serial: one queue: nothing overlaps as it is");
        return ech_trace_ref(in);
    }
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(in);
    EchId first = ech_trace_ops(in)[0].queue;
    for (size_t i = 0; i < ech_trace_n_ops(in); i++)
        ech_trace_builder_peek_op(builder, (EchId)i)->queue = first;
    ech_diag_remark(diag, "serial: moved all operations of %zu queues to '%s'", ech_trace_n_queues(in), ech_trace_string(in, ech_trace_queues(in)[first].name));
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_serial = {.name = "serial", .summary = "let nothing overlap, to see what overlap is worth", .source = "ours", .trace = serial_run};
