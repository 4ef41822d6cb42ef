/* The cases: traces made to the measure of a GPU. */
#include "sim/experiment/gpu_suite_private.h"

#include "sim/base/error.h"

#include <math.h>

/* A trace under construction, and what it is made to the measure of. */
typedef struct {
    EchTraceBuilder *b;
    EchId hbm, host, core, in, out;
    const EchGpuMeasure *gpu;
    EchBytes tile; /* A good size of a copy: large beside its set-up, small beside the card */
} Maker;

static Maker maker_new(const EchGpuMeasure *gpu)
{
    Maker m = {.b = ech_trace_builder_new("ech"), .gpu = gpu};
    m.hbm = ech_trace_builder_memory(m.b, "hbm");
    m.host = ech_trace_builder_memory(m.b, "host");
    m.core = ech_trace_builder_queue(m.b, "core", ECH_QUEUE_COMPUTE, 0);
    m.in = ech_trace_builder_queue(m.b, "in", ECH_QUEUE_COPY, 0);
    m.out = ech_trace_builder_queue(m.b, "out", ECH_QUEUE_COPY, 0);
    m.tile = (EchBytes)1 << 20;
    while (m.tile < (EchBytes)64 << 20 && m.tile * 128 < gpu->available)
        m.tile *= 2;
    return m;
}

static EchTrace *maker_finish(Maker *m, GError **error)
{
    EchTrace *trace = ech_trace_builder_finish(m->b, error);
    g_clear_pointer(&m->b, ech_trace_builder_free);
    return trace;
}

static EchId add_buffer(Maker *m, EchId memory, EchBytes bytes, bool resident, const char *name, EchDtype dtype)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(m->b, name, -1);
    buffer.memory = memory;
    buffer.bytes = bytes;
    buffer.resident = resident;
    buffer.dtype = (uint8_t)dtype;
    return ech_trace_builder_buffer(m->b, buffer);
}

static EchId add_kernel(Maker *m, const char *name)
{
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.name = ech_trace_builder_string(m->b, name, -1);
    op.queue = m->core;
    return ech_trace_builder_op(m->b, op);
}

static void wait_on(Maker *m, EchId op)
{
    if (op != ECH_NONE)
        ech_trace_builder_dep(m->b, op, 0);
}

static EchId add_copy(Maker *m, EchId queue, EchId from, EchId to, const char *name)
{
    EchBuffer *source = ech_trace_builder_peek_buffer(m->b, from), *target = ech_trace_builder_peek_buffer(m->b, to);
    EchBytes bytes = MIN(source->bytes, target->bytes);
    EchOp op = ech_op_init(ECH_OP_COPY);
    op.name = ech_trace_builder_string(m->b, name, -1);
    op.queue = queue;
    op.memory_from = source->memory;
    op.memory_to = target->memory;
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    EchId id = ech_trace_builder_op(m->b, op);
    ech_trace_builder_use(m->b, from, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(m->b, to, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    return id;
}

static EchId add_buffer_op(Maker *m, EchOpKind kind, EchId queue, EchId buffer)
{
    EchOp op = ech_op_init(kind);
    op.queue = queue;
    op.target = buffer;
    op.bytes = ech_trace_builder_peek_buffer(m->b, buffer)->bytes;
    return ech_trace_builder_op(m->b, op);
}

/* A kernel that reads @read over and over, @bytes in all, and writes @write once. */
static EchId add_stream(Maker *m, EchId read, EchId write, EchBytes bytes, const char *name)
{
    EchId id = add_kernel(m, name);
    ech_trace_builder_use(m->b, read, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (write != ECH_NONE)
        ech_trace_builder_use(m->b, write, ECH_WRITE, ech_trace_builder_peek_buffer(m->b, write)->bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    return id;
}

static EchId add_product(Maker *m, EchId a, EchId b, EchId c, EchDtype dtype, uint64_t rows, uint64_t columns, uint64_t inner, const char *name)
{
    EchId id = add_kernel(m, name);
    EchBytes element = ech_dtype_bits(dtype) / 8;
    ech_trace_builder_use(m->b, a, ECH_READ, rows * inner * element, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(m->b, b, ECH_READ, inner * columns * element, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(m->b, c, ECH_WRITE, rows * columns * element, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_work(m->b, ECH_WORK_MATRIX, dtype, 2 * rows * columns * inner, ECH_KNOWN);
    return id;
}

/* Seconds of a copy of @bytes to the device. */
static double copy_seconds(const Maker *m, EchBytes bytes)
{
    return (double)bytes / MAX(m->gpu->copy_rate, 1);
}

/* Copies of every size, first all to the device, then all from it: each way in a queue of its own, as programs have it. Between the powers of two there are
 * sizes that no calibration has measured. Between two copies of one buffer lie all others, so that a processor's cache has as little of it as in programs. */
static EchTrace *make_ladder(const EchGpuMeasure *gpu, uint64_t pageable, GError **error)
{
    Maker m = maker_new(gpu);
    if (pageable)
        m.host = ech_trace_builder_memory(m.b, "pageable");
    enum { TIMES = 4, MOST_STEPS = 40 };
    EchBytes most = m.tile * 4;
    EchId device = add_buffer(&m, m.hbm, most, true, "device", ECH_DTYPE_NONE), last = ECH_NONE;
    for (unsigned from = 0; from < 2; from++) {
        EchId there[MOST_STEPS];
        for (unsigned times = 0; times < TIMES; times++) {
            unsigned at = 0;
            for (EchBytes step = 4096; step <= most; step *= 4) {
                const EchBytes sizes[] = {step, step * 5 / 3 / 4096 * 4096};
                for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++, at++) {
                    EchBytes bytes = MIN(sizes[i], most);
                    if (times == 0)
                        there[at] = add_buffer(&m, m.host, bytes, true, pageable ? "pageable" : "pinned", ECH_DTYPE_NONE);
                    g_autofree char *name = g_strdup_printf("%s %" G_GUINT64_FORMAT, from ? "from the device" : "to the device", bytes);
                    EchId copy = from ? add_copy(&m, m.out, device, there[at], name) : add_copy(&m, m.in, there[at], device, name);
                    if (from && last != ECH_NONE)
                        wait_on(&m, last);
                    last = from ? ECH_NONE : copy;
                }
            }
        }
    }
    return maker_finish(&m, error);
}

/* Tiles come in, are worked on and go out, through @buffers buffers each way. The kernel takes about .8 of a copy. */
static EchTrace *make_streaming(const EchGpuMeasure *gpu, uint64_t buffers, GError **error)
{
    enum { TILES = 24, MOST = 3 };
    Maker m = maker_new(gpu);
    EchId source = add_buffer(&m, m.host, m.tile, true, "source", ECH_DTYPE_NONE), sink = add_buffer(&m, m.host, m.tile, true, "sink", ECH_DTYPE_NONE);
    EchId in[MOST], out[MOST], copied_in[TILES], worked[TILES], copied_out[TILES];
    for (uint64_t i = 0; i < buffers; i++) {
        in[i] = add_buffer(&m, m.hbm, m.tile, true, "in", ECH_DTYPE_NONE);
        out[i] = add_buffer(&m, m.hbm, m.tile, true, "out", ECH_DTYPE_NONE);
    }
    EchBytes work = MIN((EchBytes)(0.8 * copy_seconds(&m, m.tile) * gpu->read_rate), gpu->available / 16);
    for (unsigned i = 0; i < TILES; i++) {
        uint64_t slot = i % MAX(buffers, 1u);
        copied_in[i] = add_copy(&m, m.in, source, in[slot], "tile in");
        wait_on(&m, i >= buffers ? worked[i - buffers] : ECH_NONE);
        worked[i] = add_stream(&m, in[slot], out[slot], work, "work");
        wait_on(&m, copied_in[i]);
        wait_on(&m, i >= buffers ? copied_out[i - buffers] : ECH_NONE);
        copied_out[i] = add_copy(&m, m.out, out[slot], sink, "tile out");
        wait_on(&m, worked[i]);
    }
    return maker_finish(&m, error);
}

/* Two products a layer, weights of layer l + 1 on their way while layer l works. */
static EchTrace *make_parameters(const EchGpuMeasure *gpu, uint64_t which, GError **error)
{
    enum { LAYERS = 12 };
    (void)which;
    Maker m = maker_new(gpu);
    uint64_t width = 128;
    while (16 * 4 * width * width <= 2 * m.tile)
        width *= 2;
    EchBytes weights = 4 * width * width * 2; /* bf16 */
    double rows_wanted = 2 * copy_seconds(&m, weights) * gpu->matrix_rate / (16.0 * (double)width * (double)width);
    uint64_t rows = 128; /* Tokens of a batch, which are powers of two in programs: the one nearest */
    while (rows < 32768 && (double)rows * M_SQRT2 < rows_wanted)
        rows *= 2;
    EchId x = add_buffer(&m, m.hbm, rows * width * 2, true, "x", ECH_DTYPE_BF16), y = add_buffer(&m, m.hbm, rows * 4 * width * 2, true, "y", ECH_DTYPE_BF16);
    EchId w1[2], w2[2], done[LAYERS];
    for (unsigned i = 0; i < 2; i++) {
        w1[i] = add_buffer(&m, m.hbm, weights, true, "w1", ECH_DTYPE_BF16);
        w2[i] = add_buffer(&m, m.hbm, weights, true, "w2", ECH_DTYPE_BF16);
    }
    EchId home = add_buffer(&m, m.host, weights, true, "weights", ECH_DTYPE_BF16);
    for (unsigned l = 0; l < LAYERS; l++) {
        add_copy(&m, m.in, home, w1[l % 2], "w1 in");
        wait_on(&m, l >= 2 ? done[l - 2] : ECH_NONE);
        EchId loaded = add_copy(&m, m.in, home, w2[l % 2], "w2 in");
        add_product(&m, x, w1[l % 2], y, ECH_DTYPE_BF16, rows, 4 * width, width, "up");
        wait_on(&m, loaded);
        done[l] = add_product(&m, y, w2[l % 2], x, ECH_DTYPE_BF16, rows, width, 4 * width, "down");
    }
    return maker_finish(&m, error);
}

/* Activations leave after they were made and come back for the way back, last first; their memory is freed and taken again. */
static EchTrace *make_activations(const EchGpuMeasure *gpu, uint64_t which, GError **error)
{
    enum { LAYERS = 10 };
    (void)which;
    Maker m = maker_new(gpu);
    EchBytes bytes = m.tile, work = MIN((EchBytes)(1.2 * copy_seconds(&m, m.tile) * gpu->read_rate), gpu->available / 16);
    EchId state = add_buffer(&m, m.hbm, m.tile, true, "state", ECH_DTYPE_NONE), kept[LAYERS], back[LAYERS], made[LAYERS];
    for (unsigned l = 0; l < LAYERS; l++) {
        made[l] = add_buffer(&m, m.hbm, bytes, false, "activation", ECH_DTYPE_NONE);
        back[l] = add_buffer(&m, m.hbm, bytes, false, "activation back", ECH_DTYPE_NONE);
        kept[l] = add_buffer(&m, m.host, bytes, true, "kept", ECH_DTYPE_NONE);
    }
    EchId left = ECH_NONE;
    for (unsigned l = 0; l < LAYERS; l++) {
        add_buffer_op(&m, ECH_OP_ALLOC, m.core, made[l]);
        EchId forward = add_stream(&m, state, made[l], work, "forward");
        add_copy(&m, m.out, made[l], kept[l], "activation out");
        wait_on(&m, forward);
        left = add_buffer_op(&m, ECH_OP_FREE, m.out, made[l]);
    }
    EchId freed[LAYERS];
    for (unsigned i = 0; i < LAYERS; i++) {
        unsigned l = LAYERS - 1 - i;
        add_buffer_op(&m, ECH_OP_ALLOC, m.in, back[l]);
        /* Two on the device at a time. What is asked for behind the use alone, and not behind the free, the driver's pool takes anew: to it the free is not
         * over. */
        wait_on(&m, i >= 2 ? freed[i - 2] : left);
        EchId loaded = add_copy(&m, m.in, kept[l], back[l], "activation in");
        add_stream(&m, back[l], state, work, "backward");
        wait_on(&m, loaded);
        freed[i] = add_buffer_op(&m, ECH_OP_FREE, m.core, back[l]);
    }
    return maker_finish(&m, error);
}

/* Buffers of very different sizes come and go, the long-lived between the short-lived. */
static EchTrace *make_fragments(const EchGpuMeasure *gpu, uint64_t which, GError **error)
{
    enum { STEPS = 400, MOST_LIVE = 64 };
    (void)which;
    Maker m = maker_new(gpu);
    g_autoptr(GRand) rand = g_rand_new_with_seed(7);
    EchId live[MOST_LIVE], state = add_buffer(&m, m.hbm, m.tile, true, "state", ECH_DTYPE_NONE);
    unsigned n = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        bool full = n == MOST_LIVE;
        if (n > 0 && (full || g_rand_double(rand) < 0.45)) {
            unsigned at = (unsigned)g_rand_int_range(rand, 0, (gint32)n);
            add_buffer_op(&m, ECH_OP_FREE, m.core, live[at]);
            live[at] = live[--n];
        } else {
            double size = exp(g_rand_double(rand) * log((double)m.tile / 1024)) * 1024;
            live[n] = add_buffer(&m, m.hbm, (EchBytes)size, false, "piece", ECH_DTYPE_NONE);
            add_buffer_op(&m, ECH_OP_ALLOC, m.core, live[n]);
            add_stream(&m, state, live[n], m.tile, "touch");
            n++;
        }
    }
    while (n > 0)
        add_buffer_op(&m, ECH_OP_FREE, m.core, live[--n]);
    return maker_finish(&m, error);
}

/* Kernels so small that their launches are what takes the time. */
static EchTrace *make_launches(const EchGpuMeasure *gpu, uint64_t which, GError **error)
{
    enum { KERNELS = 500 };
    (void)which;
    Maker m = maker_new(gpu);
    EchId data = add_buffer(&m, m.hbm, m.tile * 2, true, "data", ECH_DTYPE_NONE);
    for (unsigned i = 0; i < KERNELS; i++)
        add_stream(&m, data, ECH_NONE, 1 << 16, "small");
    return maker_finish(&m, error);
}

static EchTrace *make_products(const EchGpuMeasure *gpu, uint64_t which, GError **error)
{
    (void)which;
    Maker m = maker_new(gpu);
    static const EchDtype dtypes[] = {ECH_DTYPE_BF16, ECH_DTYPE_F32};
    for (uint64_t edge = 1024; edge <= 8192 && edge * edge * 4 * 24 < gpu->available; edge *= 2) {
        for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
            for (unsigned odd = 0; odd < 2; odd++) {
                uint64_t side = edge - odd;
                EchBytes bytes = side * side * ech_dtype_bits(dtypes[d]) / 8;
                EchId buffers[3];
                for (unsigned i = 0; i < 3; i++)
                    buffers[i] = add_buffer(&m, m.hbm, bytes, true, "matrix", dtypes[d]);
                g_autofree char *name = g_strdup_printf("%s %" G_GUINT64_FORMAT, ech_dtype_name(dtypes[d]), side);
                for (unsigned times = 0; times < 3; times++)
                    add_product(&m, buffers[0], buffers[1], buffers[2], dtypes[d], side, side, side, name);
            }
        }
    }
    return maker_finish(&m, error);
}

/* Half as much again as the card has, read once: only a smaller one can be replayed. */
static EchTrace *make_oversized(const EchGpuMeasure *gpu, uint64_t which, GError **error)
{
    enum { PIECES = 24 };
    (void)which;
    Maker m = maker_new(gpu);
    for (unsigned i = 0; i < PIECES; i++) {
        EchId piece = add_buffer(&m, m.hbm, gpu->available / 16, true, "piece", ECH_DTYPE_NONE);
        add_stream(&m, piece, ECH_NONE, gpu->available / 16, "read");
    }
    return maker_finish(&m, error);
}

static bool measure_of(const char *device_path, EchGpuMeasure *ret, GError **error)
{
    g_autoptr(EchDevice) device = ech_device_load(device_path, NULL, error);
    const EchMemory *hbm = device ? ech_device_memory(device, "hbm") : NULL;
    const EchLink *link = device ? ech_device_link(device, "host") : NULL;
    if (!hbm || !link) {
        if (device)
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: expected a memory hbm and a link host", device_path);
        return false;
    }
    *ret = (EchGpuMeasure){.available = hbm->available ? hbm->available : hbm->capacity,
                           .copy_rate = (double)link->to_device,
                           .read_rate = (double)hbm->read,
                           .matrix_rate = (double)ech_unit_peak(ech_device_unit(device, ECH_UNIT_MATRIX), "bf16")};
    return true;
}

/* The most valuable first. */
const EchGpuRecipe ech_gpu_recipes[] = {
    {"copy-ladder", make_ladder, 0, NULL, NULL, 0.03, 0.05, 0},
    {"streaming-2-buffers", make_streaming, 2, NULL, NULL, 0, 0.05, 0.1},
    {"products", make_products, 0, NULL, NULL, 0, 0.05, 0.1},
    {"parameter-offload", make_parameters, 0, NULL, NULL, 0, 0.05, 0.1},
    {"activation-offload-arena", make_activations, 0, "best_fit", NULL, 0, 0.05, 0.1},
    {"streaming-1-buffer", make_streaming, 1, NULL, NULL, 0, 0.05, 0.1},
    {"streaming-3-buffers", make_streaming, 3, NULL, NULL, 0, 0.05, 0.1},
    {"activation-offload-pool", make_activations, 0, "cuda_async", "release_threshold=1TiB", 0, 0.05, 0.1},
    {"fragments-cudaMalloc", make_fragments, 0, "platform", NULL, 0, 0.05, 0.1},
    {"fragments-cudaMallocAsync", make_fragments, 0, "cuda_async", NULL, 0, 0.05, 0.1},
    {"fragments-best_fit", make_fragments, 0, "best_fit", NULL, 0, 0.05, 0.1},
    {"fragments-tlsf", make_fragments, 0, "tlsf", NULL, 0, 0.05, 0.1},
    {"streaming-2-buffers-graph", make_streaming, 2, NULL, "graph=true", 0, 0.05, 0},
    {"launches", make_launches, 0, NULL, NULL, 0, 0.05, 0.1},
    {"launches-graph", make_launches, 0, NULL, "graph=true", 0, 0.05, 0},
    {"copy-ladder-pageable", make_ladder, 1, NULL, NULL, 0.03, 0.05, 0},
    {"fragments-mapped", make_fragments, 0, "vmm", NULL, 0, 0.05, 0.1},
    {"larger-than-the-card", make_oversized, 0, NULL, NULL, 0, 0.05, 0.1},
};
const size_t ech_gpu_n_recipes = G_N_ELEMENTS(ech_gpu_recipes);

EchTrace *ech_gpu_make_trace(const EchGpuRecipe *recipe, const char *device_path, GError **error)
{
    EchGpuMeasure gpu;
    return measure_of(device_path, &gpu, error) ? recipe->make(&gpu, recipe->which, error) : NULL;
}
