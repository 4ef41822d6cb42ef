/* cuDNN: the launches of convolutions and normalisations, by their tensors. */
#include "dnn.h"

#include <stdio.h>

/* cudnnDataType_t. */
static const struct {
    const char *name;
    unsigned bits;
} types[] = {{"f32", 32},     {"f64", 64},  {"f16", 16}, {"s8", 8},   {"s32", 32},     {"s8", 32},    {"u8", 8},       {"u8", 32},
             {"s8", 256},     {"bf16", 16}, {"s64", 64}, {"u8", 1},   {"f8e4m3fn", 8}, {"f8e5m2", 8}, {"f8e4m3fn", 8}, {"f8e8m0fnu", 8},
             {"f4e2m1fn", 4}, {"s4", 4},    {"u4", 4},   {"u32", 32}, {"c64", 64},     {"c128", 128}, {"u8", 8},       {"f8e5m3", 8}};

unsigned pretend_dnn_bits(int64_t type)
{
    return type >= 0 && (size_t)type < sizeof types / sizeof *types ? types[type].bits : 32;
}

const char *pretend_dnn_type(int64_t type)
{
    return type >= 0 && (size_t)type < sizeof types / sizeof *types ? types[type].name : "f32";
}

uint64_t pretend_dnn_elements(const PretendTensor *tensor)
{
    uint64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        elements *= tensor->strides[i] == 0 || tensor->sizes[i] < 1 ? 1 : (uint64_t)tensor->sizes[i];
    return elements;
}

uint64_t pretend_dnn_bytes(const PretendTensor *tensor)
{
    return (pretend_dnn_elements(tensor) * pretend_dnn_bits(tensor->type) + 7) / 8;
}

/* Channels apart from each other: kernels of tensor cores read them side by side, and the plan copies what does not lie so into its workspace. */
static bool channels_apart(const PretendTensor *tensor)
{
    return tensor->rank > 2 && tensor->strides[1] != 1 && tensor->sizes[1] > 1;
}

/* Channels in whole pieces of 16 bytes. */
static uint64_t padded(uint64_t channels, const PretendTensor *tensor)
{
    uint64_t piece = 128 / pretend_dnn_bits(tensor->type);
    return piece > 1 ? (channels + piece - 1) / piece * piece : channels;
}

/* cuDNN 9.26 asks for these bytes, to within 256, on an H100. */
uint64_t pretend_dnn_copied_bytes(const PretendTensor *x, const PretendTensor *w, const PretendTensor *y, bool fill, uint64_t ret_elements[3])
{
    const PretendTensor *const all[] = {x, w, y};
    uint64_t bytes = 0;
    for (size_t i = 0; i < 3; i++) {
        uint64_t channels = (uint64_t)all[i]->sizes[1], full = fill && all[i] != y ? padded(channels, all[i]) : channels;
        ret_elements[i] = channels_apart(all[i]) || full != channels ? pretend_dnn_elements(all[i]) / (channels ? channels : 1) * full : 0;
        bytes += ret_elements[i] * ((pretend_dnn_bits(all[i]->type) + 7) / 8);
    }
    return bytes;
}

void pretend_dnn_launch(PretendDnnCall *call, const char *name, const char *launch, uint64_t operations, const char *type)
{
    pretend_library_kernel(call->stream, name, launch, call->read, call->written, operations, type);
    call->read = call->written = 0;
}

static void write_relayout(PretendDnnCall *call, const PretendTensor *tensor, uint64_t elements, bool result)
{
    char launch[128];
    unsigned bytes = (pretend_dnn_bits(tensor->type) + 7) / 8;
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=relayout", (unsigned long long)elements, bytes);
    pretend_library_kernel(call->stream, result ? "cudnn channels last to first" : "cudnn channels first to last", launch,
                           result ? elements * bytes : pretend_dnn_bytes(tensor), result ? pretend_dnn_bytes(tensor) : elements * bytes, 0, NULL);
}

/* Tenths of issued lane slots, of a result and of each of its multiply-adds, where each channel has a filter of its own (sim/import/gpu_work.c says whence). */
static const struct {
    uint64_t result, step;
} slots[] = {[CONVOLUTION_FORWARD] = {140, 49}, [CONVOLUTION_DATA] = {420, 76}, [CONVOLUTION_FILTER] = {800, 20}};

/* A convolution is a product: [pixels, channels * taps] x [channels * taps, filters] forward, and as many multiplications in its gradients: of the data
 * [pixels, filters * taps] x [filters * taps, channels], of the filters [filters, pixels] x [pixels, channels * taps]. Pixels are those of @y. PretendTensor
 * cores take channels in pieces of 16 bytes: fewer are filled up with zeros. */
void pretend_dnn_convolution(PretendDnnCall *call, int kind, const char *name, const PretendTensor *x, const PretendTensor *w, const PretendTensor *y)
{
    uint64_t groups = w->sizes[1] > 0 && x->sizes[1] > w->sizes[1] ? (uint64_t)(x->sizes[1] / w->sizes[1]) : 1, pixels = (uint64_t)y->sizes[0], taps = 1;
    for (int i = 2; i < y->rank; i++)
        pixels *= (uint64_t)y->sizes[i];
    for (int i = 2; i < w->rank; i++)
        taps *= (uint64_t)w->sizes[i];
    uint64_t filters = (uint64_t)w->sizes[0] / groups, channels = (uint64_t)w->sizes[1];
    bool each = channels == 1 && groups > 1,
         tensor_cores = call->tensor_cores && !each && (pretend_dnn_bits(x->type) <= 16 || (x->type == 0 && pretend_device()->major >= 8));
    uint64_t full = tensor_cores && groups == 1 ? padded(channels, x) : channels, m = pixels, n = filters, k = full * taps, steps = taps;
    if (kind == CONVOLUTION_DATA)
        n = full, k = filters * taps;
    if (kind == CONVOLUTION_FILTER)
        m = filters, n = full * taps, k = pixels, steps = 0;
    const PretendTensor *const all[] = {x, w, y}, *result = kind == CONVOLUTION_FORWARD ? y : kind == CONVOLUTION_DATA ? x : w;
    uint64_t copies[3] = {0}, plain = pretend_dnn_copied_bytes(x, w, y, false, copies),
             filled = full != channels ? pretend_dnn_copied_bytes(x, w, y, true, copies) : plain;
    if (!tensor_cores || call->workspace < filled)
        pretend_dnn_copied_bytes(x, w, y, false, copies);
    /* Kernels for the first layer of images take three channels as four, 8 bytes (sm90_xmma_fprop_image_first_layer_..._c4r7s7), which asks for less. */
    uint64_t pixels_in = pretend_dnn_elements(x) / (x->sizes[1] > 0 ? (uint64_t)x->sizes[1] : 1),
             of_filters = pretend_dnn_elements(w) / (channels ? channels : 1), by_fours = (pixels_in + of_filters) * 4 * (pretend_dnn_bits(x->type) / 8);
    bool fours =
        kind == CONVOLUTION_FORWARD && tensor_cores && groups == 1 && channels == 3 && plain == 0 && call->workspace < filled && call->workspace >= by_fours;
    if (fours) {
        copies[0] = pixels_in * 4;
        copies[1] = of_filters * 4;
        copies[2] = 0;
        k = 4 * taps;
        filled = by_fours;
    }
    bool relayouts = tensor_cores && plain + filled > 0 && call->workspace >= (call->workspace >= filled ? filled : plain);
    for (size_t i = 0; i < 3 && relayouts; i++) {
        if (all[i] != result && copies[i] > 0)
            write_relayout(call, all[i], copies[i], false);
    }
    char launch[256];
    /* Lanes multiply and add in f32 whatever the operands are. */
    const char *type = tensor_cores ? x->type == 0 ? "tf32" : pretend_dnn_type(x->type) : pretend_dnn_bits(x->type) <= 16 ? "f32" : pretend_dnn_type(x->type);
    uint64_t operations = 2 * groups * pixels * filters * channels * taps;
    if (each) {
        /* A filter a channel: no product, but every element with each of its taps. */
        uint64_t issued = (slots[kind].result + slots[kind].step * (taps < 60000 ? taps : 60000)) / 10;
        snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s instructions=%llu",
                 (unsigned long long)pretend_dnn_elements(kind == CONVOLUTION_DATA ? x : y), (pretend_dnn_bits(x->type) + 7) / 8,
                 kind == CONVOLUTION_FILTER ? "reduce" : "elementwise", (unsigned long long)(issued < 60000 ? issued : 60000));
        operations = 0;
        type = NULL;
    } else {
        int at = snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu", (unsigned long long)groups, (unsigned long long)m, (unsigned long long)n,
                          (unsigned long long)k);
        if (steps > 1)
            at += snprintf(launch + at, sizeof launch - (size_t)at, " taps=%llu", (unsigned long long)steps);
        snprintf(launch + at, sizeof launch - (size_t)at, " operand_bytes=%u class=product", (pretend_dnn_bits(x->type) + 7) / 8);
    }
    pretend_dnn_launch(call, name, launch, operations, type);
    for (size_t i = 0; i < 3 && relayouts; i++) {
        if (all[i] == result && copies[i] > 0)
            write_relayout(call, result, copies[i], true);
    }
}

/* What lies plane by plane is a block's for each channel, of 512 threads (cudnn::bn_fw_tr_1C11_kernel_NCHW, bn_bw_1C11_kernel_new), which goes through it
 * twice, or keeps it where it fits ("singleread": 98 KiB, and twice 25, but not twice 98). Tenths of a trip to memory for an element of a thread, and what is
 * beside them: as in models/kernel/gpu_name.c, which says whence. */
#define NORM_THREADS 512
#define NORM_TRIPS 8
#define NORM_KEPT (128 << 10)

void pretend_dnn_norm(PretendDnnCall *call, const char *name, const PretendTensor *x, bool backward)
{
    uint64_t elements = pretend_dnn_elements(x), rows = x->rank > 1 ? (uint64_t)x->sizes[1] : 1;
    char launch[200];
    if (x->rank > 2 && x->strides[1] != 1 && rows < INT32_MAX) {
        uint64_t each = (pretend_dnn_bits(x->type) + 7) / 8, channel = elements / rows, own = (channel + NORM_THREADS - 1) / NORM_THREADS;
        bool kept = channel * each * (backward ? 2 : 1) <= NORM_KEPT;
        uint64_t trips = NORM_TRIPS + own * (backward ? kept ? 5 : 15 : kept ? 1 : 7) / 10;
        int at = snprintf(launch, sizeof launch, "grid=%llux1x1 block=%dx1x1 ", (unsigned long long)rows, NORM_THREADS);
        /* What is kept has no rows that are read again. */
        at += kept ? snprintf(launch + at, sizeof launch - (size_t)at, "elements=%llu", (unsigned long long)elements)
                   : snprintf(launch + at, sizeof launch - (size_t)at, "rows=%llux%llu", (unsigned long long)rows, (unsigned long long)channel);
        snprintf(launch + at, sizeof launch - (size_t)at, " operand_bytes=%llu class=norm%s trips=%llu", (unsigned long long)each,
                 backward ? " backward=1" : "", (unsigned long long)(trips < 60000 ? trips : 60000));
        pretend_dnn_launch(call, name, launch, 0, NULL);
        return;
    }
    snprintf(launch, sizeof launch, "rows=%llux%llu operand_bytes=%u class=norm%s", (unsigned long long)rows,
             (unsigned long long)(elements / (rows ? rows : 1)), (pretend_dnn_bits(x->type) + 7) / 8, backward ? " backward=1" : "");
    pretend_dnn_launch(call, name, launch, 0, NULL);
}
