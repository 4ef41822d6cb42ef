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

/* In PyTorch's profiles a convolution of one launch takes 28 to 40 us of the host more than an element-wise operator, which takes 12 to 15, launches left out,
 * and each of its gradients as much: 2.3 to 3.2 operators on an H200 (RegNetY-8GF, EfficientNet-B0, ConvNeXt-T), 3.2 to 3.4 on an H100 (ResNet-50). */
#define CALL_OPERATORS 3u

void pretend_dnn_asked(void)
{
    pretend_line("asked", "%u", CALL_OPERATORS);
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

/* ---- A filter for each channel ---- */

/* Tenths of issued lane slots, of a result and of each of its multiply-adds, where each channel has a filter of its own (sim/import/gpu_work.c says whence). */
static const struct {
    uint64_t result, step;
} slots[] = {[CONVOLUTION_FORWARD] = {140, 49}, [CONVOLUTION_DATA] = {450, 70}, [CONVOLUTION_FILTER] = {340, 28}};

/* Kernels that cuDNN has for 16 bits, channels side by side, filters of 3 x 3 to 7 x 7 and steps of 1 and 2 (conv2d_c1_k1_nhwc_specialized, dgrad2d_,
 * wgrad2d_): what a thread makes and how many registers it takes is as in profiles of an H200, the rest as in sim/import/gpu_work.c. */
typedef struct {
    uint64_t side, stride; /* of the filter */
    uint64_t images, channels, tall, wide, in_tall, in_wide;
} Planes;

static bool read_planes(const PretendTensor *x, const PretendTensor *w, const PretendTensor *y, Planes *ret)
{
    if (x->rank != 4 || pretend_dnn_bits(x->type) != 16 || channels_apart(x) || channels_apart(y) || x->sizes[1] != y->sizes[1] || w->sizes[2] != w->sizes[3] ||
        (w->sizes[2] != 3 && w->sizes[2] != 5 && w->sizes[2] != 7))
        return false;
    for (int i = 0; i < 4; i++)
        if (x->sizes[i] < 1 || y->sizes[i] < 1 || x->sizes[i] > INT32_MAX || y->sizes[i] > INT32_MAX)
            return false;
    *ret = (Planes){.side = (uint64_t)w->sizes[2],
                    .stride = x->sizes[2] >= 2 * y->sizes[2] - 1 && y->sizes[2] > 1 ? 2 : 1,
                    .images = (uint64_t)x->sizes[0],
                    .channels = (uint64_t)x->sizes[1],
                    .tall = (uint64_t)y->sizes[2],
                    .wide = (uint64_t)y->sizes[3],
                    .in_tall = (uint64_t)x->sizes[2],
                    .in_wide = (uint64_t)x->sizes[3]};
    return ret->in_tall <= ret->stride * ret->tall + ret->side && ret->in_wide <= ret->stride * ret->wide + ret->side;
}

static uint64_t pieces(uint64_t all, uint64_t piece)
{
    return (all + piece - 1) / piece;
}

static void write_planes(PretendDnnCall *call, int kind, const char *name, const Planes *p)
{
    char launch[256];
    uint64_t taps = p->side * p->side, results = p->images * p->channels * p->tall * p->wide;
    if (kind == CONVOLUTION_FORWARD) {
        uint64_t threads = p->images * pieces(p->channels, 2) * pieces(p->tall, p->stride > 1 ? 2 : 3) * pieces(p->wide, 8);
        snprintf(launch, sizeof launch, "grid=%llux1x1 block=128x1x1 registers=%u elements=%llu operand_bytes=2 class=elementwise trips=%llu waits=1",
                 (unsigned long long)pieces(threads, 128),
                 p->side == 3   ? 80
                 : p->side == 5 ? 160
                                : 255,
                 (unsigned long long)results, (unsigned long long)((21 + 2 * taps + 3) / 6));
        pretend_dnn_launch(call, name, launch, 0, NULL);
        return;
    }
    if (kind == CONVOLUTION_DATA) {
        uint64_t blocks = p->images * pieces(p->channels * pieces(p->in_tall, 2) * pieces(p->in_wide, 2), 256);
        unsigned registers = p->side == 3 ? (p->stride > 1 ? 32 : 40) : p->side == 5 ? (p->stride > 1 ? 40 : 64) : 128;
        snprintf(launch, sizeof launch, "grid=%llux1x1 block=256x1x1 registers=%u elements=%llu operand_bytes=2 class=elementwise instructions=%llu trips=%llu",
                 (unsigned long long)blocks, registers, (unsigned long long)(blocks * 256 * 4),
                 (unsigned long long)((slots[kind].result + slots[kind].step * taps) / 10), (unsigned long long)p->side);
        pretend_dnn_launch(call, name, launch, 0, NULL);
        return;
    }
    uint64_t filled = p->images * pieces(p->channels, 32) * 32 * pieces(p->tall, 4) * 4 * pieces(p->wide, 4) * 4, spread = p->stride * p->stride,
             instructions = (60 + 280 * spread + slots[kind].step * taps) / 10 + 120 * taps / (p->tall * p->wide), weights = taps * p->channels;
    snprintf(launch, sizeof launch, "grid=%llux%llux1 block=32x4x1 elements=%llu operand_bytes=2 class=elementwise instructions=%llu",
             (unsigned long long)pieces(p->channels, 32), (unsigned long long)p->images, (unsigned long long)filled, (unsigned long long)instructions);
    uint64_t written = call->written, parts = weights * p->images * 4;
    call->written = parts;
    pretend_dnn_launch(call, name, launch, 0, NULL);
    call->read = parts;
    call->written = written;
    snprintf(launch, sizeof launch, "grid=%llux%llux1 block=32x1x1 elements=%llu operand_bytes=2 class=split_reduce trips=%llu", (unsigned long long)taps,
             (unsigned long long)pieces(p->channels, 32), (unsigned long long)weights, (unsigned long long)(p->images / 16 < 60000 ? p->images / 16 : 60000));
    pretend_dnn_launch(call, "cudnn convolution: parts added up", launch, 0, NULL);
}

/* Others: no product, but every element with each of its taps. */
static void write_each(PretendDnnCall *call, int kind, const char *name, const PretendTensor *x, const PretendTensor *y, uint64_t taps)
{
    char launch[160];
    uint64_t issued = (slots[kind].result + slots[kind].step * (taps < 60000 ? taps : 60000)) / 10;
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s instructions=%llu",
             (unsigned long long)pretend_dnn_elements(kind == CONVOLUTION_DATA ? x : y), (pretend_dnn_bits(x->type) + 7) / 8,
             kind == CONVOLUTION_FILTER ? "reduce" : "elementwise", (unsigned long long)(issued < 60000 ? issued : 60000));
    pretend_dnn_launch(call, name, launch, 0, NULL);
}

/* ---- Groups ---- */

static uint64_t groups_of(const PretendTensor *x, const PretendTensor *w)
{
    return w->sizes[1] > 0 && x->sizes[1] > w->sizes[1] ? (uint64_t)(x->sizes[1] / w->sizes[1]) : 1;
}

static uint64_t power_of_two(uint64_t least)
{
    uint64_t power = 1;
    while (power < least && power < (UINT64_C(1) << 62))
        power *= 2;
    return power;
}

uint64_t pretend_dnn_cut_bytes(const PretendTensor *x, const PretendTensor *w, const PretendTensor *y)
{
    uint64_t groups = groups_of(x, w), at_once = groups < PRETEND_DNN_STREAMS ? groups : PRETEND_DNN_STREAMS;
    return (pretend_dnn_bytes(x) / groups + pretend_dnn_bytes(y) / groups) * at_once;
}

/* Parts of k in blocks of their own. */
static uint64_t parts_of(const PretendDnnCall *call, int kind)
{
    return kind == CONVOLUTION_FILTER && call->tile.split > 1 ? call->tile.split : 1;
}

/* How a plan takes groups of channels: all in one kernel as they lie, each filled up to 2^n channels, or one by one, cut out of the array and put back (cuDNN's
 * engines of CUTLASS kernels). Their workspaces tell, to a few bytes: cuDNN 9.19 for an H200, groups of 4 to 264 channels. */
typedef enum { TOGETHER, FILLED, CUT } Way;

static Way way_of(const PretendDnnCall *call, int kind, const PretendTensor *x, const PretendTensor *w, const PretendTensor *y, uint64_t groups)
{
    uint64_t filters = (uint64_t)w->sizes[0] / groups, channels = (uint64_t)w->sizes[1];
    if (groups < 2 || filters == 0 || !call->tensor_cores || pretend_dnn_bits(x->type) != 16 || !call->handle)
        return TOGETHER;
    uint64_t cut = pretend_dnn_cut_bytes(x, w, y), weights = pretend_dnn_bytes(w), streams = groups < PRETEND_DNN_STREAMS ? groups : PRETEND_DNN_STREAMS,
             parts = parts_of(call, kind) > 1 ? weights / groups * streams * 2 * parts_of(call, kind) : 0;
    if (call->workspace >= cut && call->workspace <= cut + parts + weights + (64 << 10))
        return CUT;
    double wide = (double)power_of_two(filters > channels ? filters : channels), more_in = wide / (double)channels, more_out = wide / (double)filters;
    double filled = (double)pretend_dnn_bytes(x) * more_in + (double)pretend_dnn_bytes(y) * more_out + (double)weights * more_in * more_out;
    return (more_in > 1 || more_out > 1) && (double)call->workspace >= 0.99 * filled && (double)call->workspace < 1.1 * filled ? FILLED : TOGETHER;
}

/* nhwcSliceCKernel: an element a thread, of 2048 blocks at most. */
static void write_cut(void *stream, uint64_t elements, bool back)
{
    char launch[160];
    uint64_t blocks = pieces(elements, 512);
    snprintf(launch, sizeof launch, "grid=%llux1x1 block=512x1x1 elements=%llu operand_bytes=2 class=strided trips=1",
             (unsigned long long)(blocks < 2048 ? blocks : 2048), (unsigned long long)elements);
    pretend_library_kernel(stream, back ? "cudnn channels of a group put back" : "cudnn channels of a group", launch, 2 * elements, 2 * elements, 0, NULL);
}

/* tensorTransformGeneric; instructions as in models/kernel/gpu_name.c. */
static void write_filled(void *stream, uint64_t from, uint64_t to, bool back)
{
    char launch[160];
    snprintf(launch, sizeof launch, "grid=%ux1x1 block=1024x1x1 elements=%llu operand_bytes=2 class=strided instructions=237",
             2 * pretend_device()->multiprocessors, (unsigned long long)(from > to ? from : to));
    pretend_library_kernel(stream, back ? "cudnn groups taken from 2^n channels" : "cudnn groups filled up to 2^n channels", launch, 2 * from, 2 * to, 0, NULL);
}

static bool make_streams(PretendDnnHandle *handle)
{
    for (size_t i = 0; i <= PRETEND_DNN_STREAMS; i++) {
        if (i < PRETEND_DNN_STREAMS && !handle->own[i] && cudaStreamCreateWithFlags(&handle->own[i], 1) != 0)
            return false;
        if (!handle->events[i] && cudaEventCreateWithFlags(&handle->events[i], 0) != 0)
            return false;
    }
    return true;
}

/* A product of one group: its shape, and the tile where the plan's knobs say it. */
typedef struct {
    uint64_t m, n, k, taps; /* taps 0: of k, none are known */
} Product;

/* Of mma's kernels what a plan's knobs tell, behind a launch's @at characters. */
static int append_tile(const PretendDnnCall *call, int kind, uint64_t m, uint64_t n, char *launch, size_t room, int at)
{
    const PretendDnnTile *tile = &call->tile;
    at += snprintf(launch + at, room - (size_t)at, " arithmetic=mma%s", kind == CONVOLUTION_FILTER ? " filters=1" : "");
    if (tile->m > 0)
        at += snprintf(launch + at, room - (size_t)at, " grid=%llux1x%llu block=128x1x1 shared=%u tile=%ux%ux%u stages=%u",
                       (unsigned long long)(pieces(m, tile->m) * pieces(n, tile->n)), (unsigned long long)parts_of(call, kind),
                       (tile->m + tile->n) * tile->k * 2 * tile->stages, tile->m, tile->n, tile->k, tile->stages);
    return at;
}

/* Before parts are made: what they are left in, or what blocks that add theirs one after another wait by (profiles: 29 parts' bytes, or 32). */
static void write_cleared(void *stream, uint64_t bytes)
{
    pretend_library_kernel(stream, "cudnn convolution: parts cleared", "class=fill operand_bytes=4", 0, bytes, 0, NULL);
}

/* CUTLASS's ReduceSplitK: four parts at once. */
static void write_parts(void *stream, uint64_t parts, uint64_t elements)
{
    char launch[128];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=2 class=split_reduce trips=%llu", (unsigned long long)elements,
             (unsigned long long)pieces(parts, 4));
    pretend_library_kernel(stream, "cudnn convolution: parts added up", launch, 4 * parts * elements, 2 * elements, 0, NULL);
}

/* @apart: parts of k are added up afterwards; else blocks add theirs one after another. */
static void write_group(const PretendDnnCall *call, void *stream, int kind, const char *name, const Product *p, const char *type, bool apart)
{
    char launch[256];
    int at = snprintf(launch, sizeof launch, "product=1x%llux%llux%llu", (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k);
    if (p->taps > 1)
        at += snprintf(launch + at, sizeof launch - (size_t)at, " taps=%llu", (unsigned long long)p->taps);
    at += snprintf(launch + at, sizeof launch - (size_t)at, " operand_bytes=2 class=product");
    append_tile(call, kind, p->m, p->n, launch, sizeof launch, at);
    if (parts_of(call, kind) > 1)
        write_cleared(stream, apart ? 4 * parts_of(call, kind) * p->m * p->n : 32);
    pretend_library_kernel(stream, name, launch, 2 * (p->m * p->k / (p->taps > 1 ? p->taps : 1) + p->k * p->n), 2 * p->m * p->n, 2 * p->m * p->n * p->k, type);
    if (apart)
        write_parts(stream, parts_of(call, kind), p->m * p->n);
}

/* Each group in a stream of the library's own, eight at a time. */
static bool write_cut_groups(PretendDnnCall *call, int kind, const char *name, const PretendTensor *x, const PretendTensor *y, uint64_t groups,
                             const Product *p, const char *type)
{
    PretendDnnHandle *handle = call->handle;
    if (!make_streams(handle))
        return false;
    size_t used = groups < PRETEND_DNN_STREAMS ? (size_t)groups : PRETEND_DNN_STREAMS;
    uint64_t in = pretend_dnn_elements(x) / groups, out = pretend_dnn_elements(y) / groups;
    bool apart = parts_of(call, kind) > 1 && call->workspace >= (in + out) * 2 * used + 4 * parts_of(call, kind) * p->m * p->n * used;
    cudaEventRecord(handle->events[PRETEND_DNN_STREAMS], call->stream);
    for (size_t i = 0; i < used; i++)
        cudaStreamWaitEvent(handle->own[i], handle->events[PRETEND_DNN_STREAMS], 0);
    for (uint64_t group = 0; group < groups; group++) {
        void *stream = handle->own[group % PRETEND_DNN_STREAMS];
        if (kind != CONVOLUTION_DATA)
            write_cut(stream, in, false);
        if (kind != CONVOLUTION_FORWARD)
            write_cut(stream, out, false);
        write_group(call, stream, kind, name, p, type, apart);
        if (kind != CONVOLUTION_FILTER)
            write_cut(stream, kind == CONVOLUTION_FORWARD ? out : in, true);
    }
    for (size_t i = 0; i < used; i++) {
        cudaEventRecord(handle->events[i], handle->own[i]);
        cudaStreamWaitEvent(call->stream, handle->events[i], 0);
    }
    call->read = call->written = 0;
    return true;
}

/* All groups in one kernel, filled up. */
static void write_filled_groups(PretendDnnCall *call, int kind, const char *name, const PretendTensor *const all[3], uint64_t groups, uint64_t pixels,
                                uint64_t taps)
{
    uint64_t filters = (uint64_t)all[1]->sizes[0] / groups, channels = (uint64_t)all[1]->sizes[1], wide = power_of_two(filters > channels ? filters : channels),
             filled[3] = {pretend_dnn_elements(all[0]) / channels * wide, groups * wide * wide * taps, pretend_dnn_elements(all[2]) / filters * wide};
    size_t result = kind == CONVOLUTION_FORWARD ? 2 : kind == CONVOLUTION_DATA ? 0 : 1;
    for (size_t i = 0; i < 3; i++)
        if (i != result)
            write_filled(call->stream, pretend_dnn_elements(all[i]), filled[i], false);
    char launch[256];
    bool of_filters = kind == CONVOLUTION_FILTER;
    int at = snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu", (unsigned long long)groups, (unsigned long long)(of_filters ? wide : pixels),
                      (unsigned long long)(of_filters ? wide * taps : wide), (unsigned long long)(of_filters ? pixels : wide * taps));
    if (!of_filters && taps > 1)
        at += snprintf(launch + at, sizeof launch - (size_t)at, " taps=%llu", (unsigned long long)taps);
    snprintf(launch + at, sizeof launch - (size_t)at, " operand_bytes=2 class=product");
    uint64_t moved[2] = {0};
    for (size_t i = 0; i < 3; i++)
        moved[i == result] += 2 * filled[i];
    pretend_library_kernel(call->stream, name, launch, moved[0], moved[1], 2 * groups * pixels * wide * wide * taps, pretend_dnn_type(all[0]->type));
    write_filled(call->stream, filled[result], pretend_dnn_elements(all[result]), true);
    call->read = call->written = 0;
}

/* ---- Products ---- */

/* A convolution is a product: [pixels, channels * taps] x [channels * taps, filters] forward, and as many multiplications in its gradients: of the data
 * [pixels, filters * taps] x [filters * taps, channels], of the filters [filters, pixels] x [pixels, channels * taps]. Pixels are those of @y. Tensor
 * cores take channels in pieces of 16 bytes: fewer are filled up with zeros. */
void pretend_dnn_convolution(PretendDnnCall *call, int kind, const char *name, const PretendTensor *x, const PretendTensor *w, const PretendTensor *y)
{
    uint64_t groups = groups_of(x, w), pixels = (uint64_t)y->sizes[0], taps = 1;
    for (int i = 2; i < y->rank; i++)
        pixels *= (uint64_t)y->sizes[i];
    for (int i = 2; i < w->rank; i++)
        taps *= (uint64_t)w->sizes[i];
    uint64_t filters = (uint64_t)w->sizes[0] / groups, channels = (uint64_t)w->sizes[1];
    if (channels == 1 && groups > 1) {
        Planes planes;
        if (read_planes(x, w, y, &planes))
            write_planes(call, kind, name, &planes);
        else
            write_each(call, kind, name, x, y, taps);
        return;
    }
    bool tensor_cores = call->tensor_cores && (pretend_dnn_bits(x->type) <= 16 || (x->type == 0 && pretend_device()->major >= 8));
    uint64_t full = tensor_cores && groups == 1 ? padded(channels, x) : channels, m = pixels, n = filters, k = full * taps, steps = taps;
    if (kind == CONVOLUTION_DATA)
        n = full, k = filters * taps;
    if (kind == CONVOLUTION_FILTER)
        m = filters, n = full * taps, k = pixels, steps = 0;
    Way way = way_of(call, kind, x, w, y, groups);
    if (way == CUT && write_cut_groups(call, kind, name, x, y, groups, &(Product){m, n, k, steps}, pretend_dnn_type(x->type)))
        return;
    if (way == FILLED) {
        write_filled_groups(call, kind, name, (const PretendTensor *const[]){x, w, y}, groups, pixels, taps);
        return;
    }
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
    int at = snprintf(launch, sizeof launch, "product=%llux%llux%llux%llu", (unsigned long long)groups, (unsigned long long)m, (unsigned long long)n,
                      (unsigned long long)k);
    if (steps > 1)
        at += snprintf(launch + at, sizeof launch - (size_t)at, " taps=%llu", (unsigned long long)steps);
    at += snprintf(launch + at, sizeof launch - (size_t)at, " operand_bytes=%u class=product", (pretend_dnn_bits(x->type) + 7) / 8);
    /* One position is a plain product, for which cuDNN has others. */
    bool told = call->tile.m > 0 && groups == 1 && taps > 1 && tensor_cores && pretend_dnn_bits(x->type) == 16;
    uint64_t parts = told ? parts_of(call, kind) : 1;
    bool apart = parts > 1 && call->workspace >= (relayouts ? filled : 0) + 4 * parts * m * n;
    if (told)
        append_tile(call, kind, m, n, launch, sizeof launch, at);
    if (parts > 1)
        write_cleared(call->stream, apart ? 4 * parts * m * n : 32);
    pretend_dnn_launch(call, name, launch, operations, type);
    if (apart)
        write_parts(call->stream, parts, m * n);
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
