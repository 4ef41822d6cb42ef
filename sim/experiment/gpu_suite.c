/* The cases of a GPU's validation, made to its measure, and their table. */
#include "sim/experiment/gpu_suite.h"

#include "sim/base/error.h"
#include "sim/experiment/validate_cuda.h"
#include "sim/trace/file.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* A trace under construction, and what it is made to the measure of. */
typedef struct {
    EchTraceBuilder *b;
    EchId hbm, host, pageable, core, in, out;
    const EchCalibration *gpu;
    EchBytes tile; /* A good size of a copy: large beside its set-up, small beside the card */
} Maker;

static Maker maker_new(const EchCalibration *gpu)
{
    Maker m = {.b = ech_trace_builder_new("ech"), .gpu = gpu};
    m.hbm = ech_trace_builder_memory(m.b, "hbm");
    m.host = ech_trace_builder_memory(m.b, "host");
    m.core = ech_trace_builder_queue(m.b, "core", ECH_QUEUE_COMPUTE, 0);
    m.in = ech_trace_builder_queue(m.b, "in", ECH_QUEUE_COPY, 0);
    m.out = ech_trace_builder_queue(m.b, "out", ECH_QUEUE_COPY, 0);
    m.tile = (EchBytes)1 << 20;
    while (m.tile < (EchBytes)32 << 20 && m.tile * 128 < gpu->available)
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

static EchId add_op(Maker *m, EchOpKind kind, EchId queue, const char *format, ...) G_GNUC_PRINTF(4, 5);
static EchId add_op(Maker *m, EchOpKind kind, EchId queue, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *name = g_strdup_vprintf(format, args);
    va_end(args);
    EchOp op = ech_op_init(kind);
    op.name = ech_trace_builder_string(m->b, name, -1);
    op.queue = queue;
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

static void add_buffer_op(Maker *m, EchOpKind kind, EchId queue, EchId buffer)
{
    EchOp op = ech_op_init(kind);
    op.queue = queue;
    op.target = buffer;
    op.bytes = ech_trace_builder_peek_buffer(m->b, buffer)->bytes;
    ech_trace_builder_op(m->b, op);
}

/* A kernel that reads @read over and over, @bytes in all, and writes @write once. */
static EchId add_stream(Maker *m, EchId read, EchId write, EchBytes bytes, const char *name)
{
    EchId id = add_op(m, ECH_OP_KERNEL, m->core, "%s", name);
    ech_trace_builder_use(m->b, read, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    if (write != ECH_NONE)
        ech_trace_builder_use(m->b, write, ECH_WRITE, ech_trace_builder_peek_buffer(m->b, write)->bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    return id;
}

static EchId add_product(Maker *m, EchId a, EchId b, EchId c, EchDtype dtype, uint64_t rows, uint64_t columns, uint64_t inner, const char *name)
{
    EchId id = add_op(m, ECH_OP_KERNEL, m->core, "%s", name);
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
    return (double)bytes / MAX(m->gpu->pinned[0].rate, 1);
}

static double matrix_rate(const Maker *m)
{
    return m->gpu->matrix[0].n > 0 ? m->gpu->matrix[0].median : m->gpu->tensor.median;
}

/* ---- cases ---- */

static EchTrace *make_ladder(const EchCalibration *gpu, uint64_t which, GError **error)
{
    (void)which;
    Maker m = maker_new(gpu);
    m.pageable = ech_trace_builder_memory(m.b, "pageable");
    EchBytes most = m.tile * 8;
    const EchId hosts[] = {m.host, m.pageable};
    static const char *const kinds[] = {"pinned", "pageable"};
    EchId device = add_buffer(&m, m.hbm, most, true, "device", ECH_DTYPE_NONE);
    for (unsigned kind = 0; kind < 2; kind++) {
        for (EchBytes bytes = 4096; bytes <= most; bytes *= 4) {
            EchId there = add_buffer(&m, hosts[kind], bytes, true, kinds[kind], ECH_DTYPE_NONE);
            for (unsigned times = 0; times < 4; times++) {
                g_autofree char *to = g_strdup_printf("%s to the device, %" G_GUINT64_FORMAT, kinds[kind], bytes);
                g_autofree char *from = g_strdup_printf("%s from the device, %" G_GUINT64_FORMAT, kinds[kind], bytes);
                add_copy(&m, m.in, there, device, to);
                add_copy(&m, m.in, device, there, from);
            }
        }
    }
    return maker_finish(&m, error);
}

/* Tiles come in, are worked on and go out, through @buffers buffers each way. The kernel takes about .8 of a copy. */
static EchTrace *make_streaming(const EchCalibration *gpu, uint64_t buffers, GError **error)
{
    enum { TILES = 24, MOST = 3 };
    Maker m = maker_new(gpu);
    EchId source = add_buffer(&m, m.host, m.tile, true, "source", ECH_DTYPE_NONE), sink = add_buffer(&m, m.host, m.tile, true, "sink", ECH_DTYPE_NONE);
    EchId in[MOST], out[MOST], copied_in[TILES], worked[TILES], copied_out[TILES];
    for (uint64_t i = 0; i < buffers; i++) {
        in[i] = add_buffer(&m, m.hbm, m.tile, true, "in", ECH_DTYPE_NONE);
        out[i] = add_buffer(&m, m.hbm, m.tile, true, "out", ECH_DTYPE_NONE);
    }
    EchBytes work = MIN((EchBytes)(0.8 * copy_seconds(&m, m.tile) * gpu->read.median), gpu->available / 16);
    for (unsigned i = 0; i < TILES; i++) {
        uint64_t slot = i % buffers;
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
static EchTrace *make_parameters(const EchCalibration *gpu, uint64_t which, GError **error)
{
    enum { LAYERS = 12 };
    (void)which;
    Maker m = maker_new(gpu);
    uint64_t width = 128;
    while (16 * 4 * width * width <= 2 * m.tile)
        width *= 2;
    EchBytes weights = 4 * width * width * 2; /* bf16 */
    double rows_wanted = 2 * copy_seconds(&m, weights) * matrix_rate(&m) / (16.0 * (double)width * (double)width);
    uint64_t rows = CLAMP((uint64_t)(rows_wanted / 128), 1, 256) * 128;
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
static EchTrace *make_activations(const EchCalibration *gpu, uint64_t which, GError **error)
{
    enum { LAYERS = 10 };
    (void)which;
    Maker m = maker_new(gpu);
    EchBytes bytes = m.tile, work = MIN((EchBytes)(1.2 * copy_seconds(&m, m.tile) * gpu->read.median), gpu->available / 16);
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
        left = add_copy(&m, m.out, made[l], kept[l], "activation out");
        wait_on(&m, forward);
        add_buffer_op(&m, ECH_OP_FREE, m.out, made[l]);
    }
    EchId used[LAYERS];
    for (unsigned i = 0; i < LAYERS; i++) {
        unsigned l = LAYERS - 1 - i;
        add_buffer_op(&m, ECH_OP_ALLOC, m.in, back[l]);
        /* Two on the device at a time. */
        wait_on(&m, i >= 2 ? used[i - 2] : left);
        EchId loaded = add_copy(&m, m.in, kept[l], back[l], "activation in");
        used[i] = add_stream(&m, back[l], state, work, "backward");
        wait_on(&m, loaded);
        add_buffer_op(&m, ECH_OP_FREE, m.core, back[l]);
    }
    return maker_finish(&m, error);
}

/* Buffers of very different sizes come and go, the long-lived between the short-lived. */
static EchTrace *make_fragments(const EchCalibration *gpu, uint64_t which, GError **error)
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

static EchTrace *make_products(const EchCalibration *gpu, uint64_t which, GError **error)
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

/* ---- running ---- */

typedef struct {
    const char *name;
    EchTrace *(*make)(const EchCalibration *gpu, uint64_t which, GError **error);
    uint64_t which;
    const char *allocator, *options;
    double goal_copies, goal_makespan, goal_kernels;
} Recipe;

static const Recipe recipes[] = {
    {"copy-ladder", make_ladder, 0, NULL, NULL, 0.03, 0.05, 0},
    {"streaming-1-buffer", make_streaming, 1, NULL, NULL, 0, 0.05, 0.1},
    {"streaming-2-buffers", make_streaming, 2, NULL, NULL, 0, 0.05, 0.1},
    {"streaming-3-buffers", make_streaming, 3, NULL, NULL, 0, 0.05, 0.1},
    {"streaming-2-buffers-graph", make_streaming, 2, NULL, "graph=true", 0, 0.05, 0},
    {"parameter-offload", make_parameters, 0, NULL, NULL, 0, 0.05, 0.1},
    {"activation-offload-pool", make_activations, 0, "cuda_async", "release_threshold=1TiB", 0, 0.05, 0.1},
    {"activation-offload-arena", make_activations, 0, "best_fit", NULL, 0, 0.05, 0.1},
    {"fragments-cudaMalloc", make_fragments, 0, "platform", NULL, 0, 0, 0},
    {"fragments-cudaMallocAsync", make_fragments, 0, "cuda_async", NULL, 0, 0, 0},
    {"fragments-best_fit", make_fragments, 0, "best_fit", NULL, 0, 0, 0},
    {"fragments-tlsf", make_fragments, 0, "tlsf", NULL, 0, 0, 0},
    {"fragments-mapped", make_fragments, 0, "vmm", NULL, 0, 0, 0},
    {"products", make_products, 0, NULL, NULL, 0, 0.05, 0.1},
};

/* Ours, compiled for an H100: without offload, with it, and with its copies overlapped. */
static const char *const programs[] = {"mlp_none.h100",          "mlp_activations.h100",      "mlp_parameters.h100",      "adam_none.h100",
                                       "adam_moments.h100",      "gpt_nothing.h100",          "gpt_offload.h100",         "gpt_everything.h100",
                                       "gpt_unrolled_kept.h100", "gpt_unrolled_offload.h100", "gpt_unrolled_overlap.h100"};

static bool write_json(const char *folder, const char *name, const EchCudaValidation *v, GError **error)
{
    g_autofree char *json = ech_cuda_validation_json(v), *file = g_strdup_printf("%s.json", name), *path = g_build_filename(folder, file, NULL);
    return g_file_set_contents(path, json, -1, error);
}

/* Predicts and measures @trace, a file, into @row. */
static bool run_case(const EchGpuSuiteOptions *options, const char *device, const char *trace, const char *allocator, const char *spec, EchGpuCase *row,
                     GError **error)
{
    g_autofree char *all = g_strdup_printf("gpu=%" G_GUINT64_FORMAT ",scale=true%s%s", options->gpu, spec ? "," : "", spec ? spec : "");
    const EchExperimentOverrides overrides = {.trace = trace, .device = device, .engine = "native"};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, error);
    g_autoptr(EchCudaValidation) v = experiment ? ech_validate_cuda(experiment, all, options->repeats ? options->repeats : 10, allocator, error) : NULL;
    if (!v)
        return false;
    row->measured = v->measured->makespan;
    row->low = v->measured->low;
    row->high = v->measured->high;
    row->predicted = v->predicted->makespan;
    row->memory_measured = v->memory_measured;
    row->memory_predicted = v->memory_predicted;
    row->copies = ech_cuda_validation_mape(v, "copy", 0, 1 << 20);
    row->kernels = ech_cuda_validation_mape(v, "kernel", 0, 0);
    row->scale = v->measured->scale;
    return write_json(options->folder, row->name, v, error);
}

static double error_of(double predicted, double measured)
{
    return measured > 0 ? predicted / measured - 1 : 0;
}

static bool misses(const EchGpuCase *row)
{
    if (row->error)
        return true;
    bool makespan = row->goal_makespan > 0 && fabs(error_of((double)row->predicted, (double)row->measured)) > row->goal_makespan;
    return makespan || (row->goal_copies > 0 && row->copies > row->goal_copies) || (row->goal_kernels > 0 && row->kernels > row->goal_kernels);
}

static void add_percent(GString *text, double error, double goal)
{
    if (error < 0)
        g_string_append(text, " – |");
    else if (goal > 0)
        g_string_append_printf(text, " %.1f %% (%s %.0f %%) |", 100 * error, error <= goal ? "within" : "**beyond**", 100 * goal);
    else
        g_string_append_printf(text, " %.1f %% |", 100 * error);
}

static void add_row(GString *text, const EchGpuCase *row)
{
    if (row->error) {
        g_string_append_printf(text, "| %s | %s | %s | | | | | | | |\n", row->name, row->allocator, row->error);
        return;
    }
    g_autofree char *measured = ech_format_time(row->measured), *low = ech_format_time(row->low), *high = ech_format_time(row->high);
    g_autofree char *predicted = ech_format_time(row->predicted), *used = ech_format_bytes(row->memory_measured),
                    *modelled = ech_format_bytes(row->memory_predicted);
    g_string_append_printf(text, "| %s%s | %s | %s [%s, %s] | %s |", row->name, row->scale < 1 ? " (scaled)" : "", row->allocator, measured, low, high,
                           predicted);
    double error = error_of((double)row->predicted, (double)row->measured);
    g_string_append_printf(text, " %+.1f %%%s |", 100 * error,
                           row->goal_makespan <= 0             ? ""
                           : fabs(error) <= row->goal_makespan ? " (within 5 %)"
                                                               : " (**beyond** 5 %)");
    add_percent(text, row->copies, row->goal_copies);
    add_percent(text, row->kernels, row->goal_kernels);
    g_string_append_printf(text, " %s | %s | %+.1f %% |\n", used, modelled, 100 * error_of((double)row->memory_predicted, (double)row->memory_measured));
}

static char *make_table(const EchGpuSuite *suite, const EchGpuSuiteOptions *options, const EchCalibration *gpu)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text,
                           "%s, driver for CUDA %d.%d, %s, %s, %.0f s, by `%s`.\n"
                           "Measured on the GPU and predicted with the device file calibrated in the same run (device.yaml). Medians with their 95 %% "
                           "confidence interval; copies: mean\n"
                           "error of those of 1 MiB and more. A program's kernels are replayed as their bytes or operations, not as themselves.\n\n",
                           suite->gpu, gpu->driver_version / 1000, gpu->driver_version % 1000 / 10, gpu->blas_version > 0 ? "with cuBLAS" : "without cuBLAS",
                           options->date, suite->seconds, options->command);
    g_string_append(text, "| case | allocator | measured | predicted | error | copies | kernels | memory measured | predicted | error |\n"
                          "|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < suite->n_cases; i++)
        add_row(text, &suite->cases[i]);
    return g_string_free(text, FALSE);
}

void ech_gpu_suite_free(EchGpuSuite *suite)
{
    if (!suite)
        return;
    for (size_t i = 0; i < suite->n_cases; i++) {
        g_free(suite->cases[i].name);
        g_free(suite->cases[i].allocator);
        g_free(suite->cases[i].error);
    }
    g_free(suite->cases);
    g_free(suite->gpu);
    g_free(suite->device_path);
    g_free(suite->table);
    g_free(suite->calibration);
    g_free(suite);
}

static EchGpuCase *next_case(EchGpuSuite *suite, const char *name, const char *allocator)
{
    EchGpuCase *row = &suite->cases[suite->n_cases++];
    *row = (EchGpuCase){.name = g_strdup(name), .allocator = g_strdup(allocator ? allocator : ""), .copies = -1, .kernels = -1, .scale = 1};
    return row;
}

static void run_recipe(EchGpuSuite *suite, const EchGpuSuiteOptions *options, const EchCalibration *gpu, const Recipe *recipe)
{
    EchGpuCase *row = next_case(suite, recipe->name, recipe->allocator);
    row->goal_copies = recipe->goal_copies;
    row->goal_makespan = recipe->goal_makespan;
    row->goal_kernels = recipe->goal_kernels;
    g_autoptr(GError) error = NULL;
    g_autofree char *file = g_strdup_printf("%s.ech", recipe->name), *path = g_build_filename(options->folder, file, NULL);
    g_autoptr(EchTrace) trace = recipe->make(gpu, recipe->which, &error);
    if (!trace || !ech_trace_file_write(trace, path, &error) || !run_case(options, suite->device_path, path, recipe->allocator, recipe->options, row, &error))
        row->error = g_strdup(error->message);
}

static void run_program(EchGpuSuite *suite, const EchGpuSuiteOptions *options, const char *path)
{
    g_autofree char *base = g_path_get_basename(path);
    if (g_str_has_suffix(base, ".hlo.txt.gz"))
        base[strlen(base) - strlen(".hlo.txt.gz")] = '\0';
    EchGpuCase *row = next_case(suite, base, NULL);
    g_autoptr(GError) error = NULL;
    if (!run_case(options, suite->device_path, path, NULL, NULL, row, &error))
        row->error = g_strdup(error->message);
}

EchGpuSuite *ech_gpu_suite_run(const EchGpuSuiteOptions *options, EchGpuSuiteProgress progress, void *data, GError **error)
{
    gint64 begin = g_get_monotonic_time();
    size_t shipped = options->no_shipped_programs ? 0 : G_N_ELEMENTS(programs);
    size_t more = options->programs ? g_strv_length((char **)(uintptr_t)options->programs) : 0;
    unsigned total = (unsigned)(1 + G_N_ELEMENTS(recipes) + shipped + more), done = 0;
    if (!ech_cuda_present(options->gpu, error))
        return NULL;
    if (g_mkdir_with_parents(options->folder, 0777) != 0) {
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: %s", options->folder, g_strerror(errno));
        return NULL;
    }
    if (progress)
        progress("calibrating", done, total, data);
    g_autoptr(EchCalibration) gpu = ech_calibrate(options->gpu, NULL, NULL, error);
    g_autofree char *yaml = gpu ? ech_calibration_yaml(gpu, options->name, options->date, error) : NULL;
    g_autoptr(EchGpuSuite) suite = g_new0(EchGpuSuite, 1);
    suite->device_path = g_build_filename(options->folder, "device.yaml", NULL);
    if (!yaml || !g_file_set_contents(suite->device_path, yaml, -1, error))
        return NULL;
    suite->gpu = g_strdup(gpu->gpu);
    suite->calibration = ech_calibration_text(gpu);
    suite->cases = g_new0(EchGpuCase, total);
    for (size_t i = 0; i < G_N_ELEMENTS(recipes); i++) {
        if (progress)
            progress(recipes[i].name, ++done, total, data);
        run_recipe(suite, options, gpu, &recipes[i]);
    }
    for (size_t i = 0; i < shipped + more; i++) {
        g_autofree char *path = i < shipped ? ech_trace_find(programs[i], NULL) : g_strdup(options->programs[i - shipped]);
        if (progress)
            progress(path, ++done, total, data);
        run_program(suite, options, path);
    }
    for (size_t i = 0; i < suite->n_cases; i++)
        suite->missed += misses(&suite->cases[i]);
    suite->seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
    suite->table = make_table(suite, options, gpu);
    g_autofree char *path = g_build_filename(options->folder, "table.md", NULL);
    if (!g_file_set_contents(path, suite->table, -1, error))
        return NULL;
    return g_steal_pointer(&suite);
}
