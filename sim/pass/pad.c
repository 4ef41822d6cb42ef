/* pad: every buffer as large as an allocator of a given granule would make it. */
#include "sim/pass/pass.h"

typedef struct {
    EchBytes align;
    EchBytes above;
} PadOptions;

static const EchParam pad_params[] = {
    {"align", ECH_PARAM_BYTES, offsetof(PadOptions, align), "512", "1", "1GiB", NULL, "granule: sizes are rounded up to a multiple of it"},
    {"above", ECH_PARAM_BYTES, offsetof(PadOptions, above), "0", NULL, NULL, NULL, "only buffers of at least this size"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

static EchTrace *pad_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    (void)device;
    const PadOptions *pad = options;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(in);
    EchBytes added = 0;
    size_t changed = 0, planned = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(in); i++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, (EchId)i);
        EchBytes padded = ech_round_up(buffer->bytes, pad->align);
        if (padded == buffer->bytes || buffer->alias_of != ECH_NONE || buffer->bytes < pad->above)
            continue;
        if (buffer->offset != ECH_OFFSET_NONE) {
            planned++; /* The place a compiler gave it need not have room for more. */
            continue;
        }
        added = ech_bytes_add(added, padded - buffer->bytes);
        buffer->bytes = padded;
        changed++;
    }
    if (planned)
        ech_diag_remark(diag, "pad: left %zu buffers as they are: the compiler placed them; run unplan first to let an allocator do it", planned);
    if (!changed)
        return ech_trace_ref(in);
    g_autofree char *text = ech_format_bytes(added);
    ech_diag_remark(diag, "pad: enlarged %zu buffers by %s in all", changed, text);
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_pad = {
    .name = "pad", .summary = "round the size of every buffer up", .source = "ours", .params = pad_params, .options_size = sizeof(PadOptions), .trace = pad_run};
