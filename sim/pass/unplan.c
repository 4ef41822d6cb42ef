/* unplan: forgets where a compiler put the buffers of a memory, so that an allocator places them while the program runs. */
#include "sim/pass/pass.h"

#include "sim/base/error.h"

typedef struct {
    char *memory;
} UnplanOptions;

static const EchParam unplan_params[] = {
    {"memory", ECH_PARAM_STRING, offsetof(UnplanOptions, memory), "hbm", NULL, NULL, NULL, "whose buffers"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

static EchTrace *unplan_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    (void)device;
    const UnplanOptions *unplan = options;
    EchId memory = ech_trace_find_memory(in, unplan->memory);
    if (memory == ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "memory: the trace has no memory '%s'", unplan->memory);
        return NULL;
    }
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(in);
    size_t changed = 0, resident = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(in); i++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, (EchId)i);
        if (buffer->memory != memory || buffer->offset == ECH_OFFSET_NONE)
            continue;
        buffer->offset = ECH_OFFSET_NONE;
        changed++;
        resident += buffer->resident;
    }
    if (!changed) {
        ech_diag_remark(diag, "unplan: nothing in '%s' has a fixed place", unplan->memory);
        return ech_trace_ref(in);
    }
    ech_diag_remark(diag, "unplan: forgot the place%s of %zu buffer%s in '%s', %zu of them there from the start", changed == 1 ? "" : "s", changed,
                    changed == 1 ? "" : "s", unplan->memory, resident);
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_unplan = {.name = "unplan",
                                      .summary = "forget the compiler's placement, so that the allocator places the buffers",
                                      .source = "ours",
                                      .params = unplan_params,
                                      .options_size = sizeof(UnplanOptions),
                                      .trace = unplan_run};
