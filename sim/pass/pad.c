/* pad: other sizes for buffers: rounded up as an allocator's granule would, or with other layouts than the program has. */
#include "models/layout/advice.h"
#include "sim/pass/pass.h"

#include <string.h>

enum { TILES_KEEP, TILES_DENSE, TILES_ROW_MAJOR };

typedef struct {
    EchBytes align;
    EchBytes above;
    uint64_t tiles;
} PadOptions;

static const char *const tile_names[] = {"keep", "dense", "row_major", NULL};
static const EchParam pad_params[] = {
    {"align", ECH_PARAM_BYTES, offsetof(PadOptions, align), "512", "1", "1GiB", NULL, "granule: sizes are rounded up to a multiple of it"},
    {"above", ECH_PARAM_BYTES, offsetof(PadOptions, above), "0", NULL, NULL, NULL, "only buffers of at least this size"},
    {"tiles", ECH_PARAM_ENUM, offsetof(PadOptions, tiles), "keep", NULL, NULL, tile_names,
     "padding of arrays whose shape is known: keep it, dense (none at all), or row_major (dimensions in the order they are written, with the chip's tiles)"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* The array's bytes in the layout asked for; 0 where its shape is not known. */
static EchBytes laid_out(const EchTrace *trace, const EchBuffer *buffer, uint64_t tiles, unsigned generation)
{
    const char *shape = ech_trace_string(trace, buffer->shape);
    EchLayout layout;
    if (!*shape || !ech_layout_parse(shape, strlen(shape), &layout, NULL, NULL) || ech_layout_element_bits(&layout) == 0)
        return 0;
    if (tiles == TILES_DENSE || generation == 0)
        return ech_layout_dense_bytes(&layout);
    if (layout.rank < 2)
        return buffer->bytes; /* in one order only */
    for (unsigned i = 0; i < layout.rank; i++)
        layout.order[i] = (uint8_t)(layout.rank - 1 - i);
    layout.n_splits = 0;
    ech_layout_choose_tiles(&layout, generation);
    return ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU);
}

static EchBytes scaled(EchBytes bytes, EchBytes now, EchBytes before)
{
    double product = (double)bytes * ((double)now / (double)MAX(before, 1));
    return now == before ? bytes : product < 9e18 ? (EchBytes)product : bytes;
}

/* Uses, copies and allocations move and ask for as much more as their buffers grew. @sizes: what each buffer is to have; a view is cut to what its parent,
 * which comes before it, then holds from the place on where the view begins. */
static EchTrace *resized(const EchTrace *in, EchBytes *sizes, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(in);
    const EchBuffer *buffers = ech_trace_buffers(in);
    size_t n_buffers = ech_trace_n_buffers(in);
    for (size_t i = 0; i < n_buffers; i++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, (EchId)i);
        if (buffer->alias_of != ECH_NONE) {
            EchBytes parent = sizes[buffer->alias_of];
            buffer->alias_offset = scaled(buffer->alias_offset, parent, buffers[buffer->alias_of].bytes);
            sizes[i] = MIN(sizes[i], parent - MIN(buffer->alias_offset, parent));
        }
        buffer->bytes = sizes[i];
    }
    for (size_t i = 0; i < ech_trace_n_ops(in); i++) {
        const EchOp *op = &ech_trace_ops(in)[i];
        EchOp *made = ech_trace_builder_peek_op(builder, (EchId)i);
        if ((op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) && op->target < n_buffers && op->bytes == buffers[op->target].bytes)
            made->bytes = sizes[op->target];
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            EchUse *use = ech_trace_builder_peek_use(builder, u);
            use->bytes = scaled(use->bytes, sizes[use->buffer], buffers[use->buffer].bytes);
        }
        if (op->kind == ECH_OP_COPY && op->n_uses == 2)
            made->bytes = MAX(ech_trace_builder_peek_use(builder, op->first_use)->bytes, ech_trace_builder_peek_use(builder, op->first_use + 1)->bytes);
    }
    return ech_trace_builder_finish(builder, error);
}

static EchTrace *pad_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    const PadOptions *pad = options;
    size_t n = ech_trace_n_buffers(in), changed = 0, planned = 0, unknown = 0;
    unsigned generation = ech_layout_generation(device->compiler);
    g_autofree EchBytes *sizes = g_new(EchBytes, n + 1);
    EchBytes more = 0, less = 0;
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(in)[i];
        EchBytes size = buffer->bytes;
        if (pad->tiles != TILES_KEEP && buffer->bytes >= pad->above) {
            EchBytes other = laid_out(in, buffer, pad->tiles, generation);
            unknown += other == 0;
            size = other ? other : size;
        }
        if (buffer->alias_of == ECH_NONE && buffer->bytes >= pad->above)
            size = ech_round_up(size, pad->align);
        sizes[i] = buffer->bytes;
        if (size == buffer->bytes)
            continue;
        if (buffer->offset != ECH_OFFSET_NONE) {
            planned++; /* The place a compiler gave it need not have room for more. */
            continue;
        }
        sizes[i] = size;
        changed++;
        if (buffer->alias_of != ECH_NONE)
            continue;
        more = size > buffer->bytes ? ech_bytes_add(more, size - buffer->bytes) : more;
        less = size < buffer->bytes ? ech_bytes_add(less, buffer->bytes - size) : less;
    }
    if (planned)
        ech_diag_remark(diag, "pad: left %zu buffer%s as compiled, where the compiler placed %s; run unplan first to let an allocator do it", planned,
                        planned == 1 ? "" : "s", planned == 1 ? "it" : "them");
    if (unknown)
        ech_diag_remark(diag, "pad: the shape of %zu buffer%s is not known; %s", unknown, unknown == 1 ? "" : "s",
                        unknown == 1 ? "it keeps its size" : "they keep their sizes");
    if (!changed)
        return ech_trace_ref(in);
    g_autofree char *grown = ech_format_bytes(more), *shrunk = ech_format_bytes(less);
    if (less == 0)
        ech_diag_remark(diag, "pad: enlarged %zu buffer%s by %s in all", changed, changed == 1 ? "" : "s", grown);
    else
        ech_diag_remark(diag, "pad: changed %zu buffer%s: %s more, %s less", changed, changed == 1 ? "" : "s", grown, shrunk);
    if (pad->tiles != TILES_KEEP)
        ech_diag_remark(diag, "pad: kernels with an estimate of their own keep its time; replay.kernel_time=roofline prices them by the bytes they now move");
    return resized(in, sizes, error);
}

const EchPassClass ech_pass_pad = {.name = "pad",
                                   .summary = "round the size of every buffer up, or give arrays another padding",
                                   .source = "ours; tiles as the compiler chooses them (models/layout)",
                                   .params = pad_params,
                                   .options_size = sizeof(PadOptions),
                                   .trace = pad_run};
