/* The cases of a GPU's validation, made to its measure, and their table. */
#include "sim/experiment/gpu_suite.h"

#include "sim/base/error.h"
#include "sim/experiment/validate_cuda.h"
#include "sim/trace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a device file says of the GPU that traces are made for. */
typedef struct {
    EchBytes available;
    double copy_rate, read_rate, matrix_rate; /* A second */
} Measure;

/* A trace under construction, and what it is made to the measure of. */
typedef struct {
    EchTraceBuilder *b;
    EchId hbm, host, core, in, out;
    const Measure *gpu;
    EchBytes tile; /* A good size of a copy: large beside its set-up, small beside the card */
} Maker;

static Maker maker_new(const Measure *gpu)
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
    return (double)bytes / MAX(m->gpu->copy_rate, 1);
}

/* ---- cases ---- */

/* Copies of every size, first all to the device, then all from it: each way in a queue of its own, as programs have it. Between the powers of two there are
 * sizes that no calibration has measured. */
static EchTrace *make_ladder(const Measure *gpu, uint64_t pageable, GError **error)
{
    Maker m = maker_new(gpu);
    if (pageable)
        m.host = ech_trace_builder_memory(m.b, "pageable");
    EchBytes most = m.tile * 4;
    EchId device = add_buffer(&m, m.hbm, most, true, "device", ECH_DTYPE_NONE), last = ECH_NONE;
    for (unsigned from = 0; from < 2; from++) {
        for (EchBytes step = 4096; step <= most; step *= 4) {
            const EchBytes sizes[] = {step, step * 5 / 3 / 4096 * 4096};
            for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
                EchBytes bytes = MIN(sizes[i], most);
                if (bytes < step)
                    continue;
                EchId there = add_buffer(&m, m.host, bytes, true, pageable ? "pageable" : "pinned", ECH_DTYPE_NONE);
                g_autofree char *name = g_strdup_printf("%s %" G_GUINT64_FORMAT, from ? "from the device" : "to the device", bytes);
                for (unsigned times = 0; times < 4; times++) {
                    EchId copy = from ? add_copy(&m, m.out, device, there, name) : add_copy(&m, m.in, there, device, name);
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
static EchTrace *make_streaming(const Measure *gpu, uint64_t buffers, GError **error)
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
static EchTrace *make_parameters(const Measure *gpu, uint64_t which, GError **error)
{
    enum { LAYERS = 12 };
    (void)which;
    Maker m = maker_new(gpu);
    uint64_t width = 128;
    while (16 * 4 * width * width <= 2 * m.tile)
        width *= 2;
    EchBytes weights = 4 * width * width * 2; /* bf16 */
    double rows_wanted = 2 * copy_seconds(&m, weights) * gpu->matrix_rate / (16.0 * (double)width * (double)width);
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
static EchTrace *make_activations(const Measure *gpu, uint64_t which, GError **error)
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
static EchTrace *make_fragments(const Measure *gpu, uint64_t which, GError **error)
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

static EchTrace *make_products(const Measure *gpu, uint64_t which, GError **error)
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
    EchTrace *(*make)(const Measure *gpu, uint64_t which, GError **error);
    uint64_t which;
    const char *allocator, *options;
    double goal_copies, goal_makespan, goal_kernels;
} Recipe;

/* The most valuable first. */
static const Recipe recipes[] = {
    {"copy-ladder", make_ladder, 0, NULL, NULL, 0.03, 0.05, 0},
    {"streaming-2-buffers", make_streaming, 2, NULL, NULL, 0, 0.05, 0.1},
    {"products", make_products, 0, NULL, NULL, 0, 0.05, 0.1},
    {"parameter-offload", make_parameters, 0, NULL, NULL, 0, 0.05, 0.1},
    {"activation-offload-arena", make_activations, 0, "best_fit", NULL, 0, 0.05, 0.1},
    {"streaming-1-buffer", make_streaming, 1, NULL, NULL, 0, 0.05, 0.1},
    {"streaming-3-buffers", make_streaming, 3, NULL, NULL, 0, 0.05, 0.1},
    {"activation-offload-pool", make_activations, 0, "cuda_async", "release_threshold=1TiB", 0, 0.05, 0.1},
    {"fragments-cudaMalloc", make_fragments, 0, "platform", NULL, 0, 0, 0},
    {"fragments-cudaMallocAsync", make_fragments, 0, "cuda_async", NULL, 0, 0, 0},
    {"fragments-best_fit", make_fragments, 0, "best_fit", NULL, 0, 0, 0.1},
    {"fragments-tlsf", make_fragments, 0, "tlsf", NULL, 0, 0, 0.1},
    {"streaming-2-buffers-graph", make_streaming, 2, NULL, "graph=true", 0, 0.05, 0},
    {"copy-ladder-pageable", make_ladder, 1, NULL, NULL, 0.03, 0.05, 0},
    {"fragments-mapped", make_fragments, 0, "vmm", NULL, 0, 0, 0},
};

/* Ours, compiled for an H100: with offload and its copies overlapped, without overlap, without offload, and so on. */
static const char *const programs[] = {"gpt_unrolled_overlap.h100", "gpt_unrolled_offload.h100", "gpt_unrolled_kept.h100", "gpt_offload.h100",
                                       "gpt_nothing.h100",          "gpt_everything.h100",       "adam_moments.h100",      "adam_none.h100",
                                       "mlp_parameters.h100",       "mlp_activations.h100",      "mlp_none.h100"};

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
    if (row->error || row->left) {
        g_string_append_printf(text, "| %s | %s | %s | | | | | | | |\n", row->name, row->allocator, row->left ? "not reached in the budget" : row->error);
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

static char *make_table(const EchGpuSuite *suite, const EchGpuSuiteOptions *options)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text,
                           "%s, %s, by `%s`.\n"
                           "Measured on the GPU and predicted with the device file calibrated in the same run (device.yaml). Medians with their 95 %% "
                           "confidence interval (of fewer than six repeats: the least and the most); copies: mean\n"
                           "error of those of 1 MiB and more. A program's kernels are replayed as their bytes or operations, not as themselves.\n\n",
                           suite->gpu, options->date, options->command);
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

/* ---- stages in processes of their own ---- */

typedef bool (*Work)(void *data, GError **error);

/* What a child has to say arrives here: its error, if it has one. */
static char *read_message(int from, pid_t child, double limit, bool *ret_timed_out)
{
    GString *text = g_string_new(NULL);
    gint64 end = g_get_monotonic_time() + (gint64)(limit * 1e6);
    *ret_timed_out = false;
    for (;;) {
        gint64 left = (end - g_get_monotonic_time()) / 1000;
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int n = poll(&ready, 1, (int)CLAMP(left, 0, 3600000));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            *ret_timed_out = true;
            kill(child, SIGKILL);
            break;
        }
        char part[512];
        ssize_t got = read(from, part, sizeof part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        g_string_append_len(text, part, got);
    }
    return g_string_free(text, FALSE);
}

/* True if @work ended well in a child process within @limit seconds. */
static bool in_child(Work work, void *data, double limit, GError **error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no pipe: %s", g_strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        g_autoptr(GError) failure = NULL;
        bool ok = work(data, &failure);
        size_t length = ok ? 0 : strlen(failure->message);
        for (size_t at = 0; at < length;) {
            ssize_t n = write(ends[1], failure->message + at, length - at);
            if (n <= 0)
                break;
            at += (size_t)n;
        }
        _exit(ok ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no process: %s", g_strerror(errno));
        return false;
    }
    bool timed_out;
    g_autofree char *message = read_message(ends[0], child, limit, &timed_out);
    close(ends[0]);
    /* A process that the driver does not let go of is left to it. */
    int status = 0;
    pid_t ended = 0;
    for (unsigned tries = 0; tries < 500 && (ended = waitpid(child, &status, WNOHANG)) == 0; tries++)
        g_usleep(timed_out ? 20000 : 2000 + 1000 * MIN(tries, 100));
    if (timed_out)
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no end after %.0f s: ended by force", limit);
    else if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    else if (ended == child && WIFSIGNALED(status))
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the process died of signal %d", WTERMSIG(status));
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s", *message ? message : "the process failed without a word");
    return false;
}

/* A process that keeps the driver started: without one, every stage would wait for the GPU to be set up anew. */
static pid_t start_keeper(void)
{
    pid_t keeper = fork();
    if (keeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const EchCuDriver *driver = ech_cuda_driver(NULL);
        if (!driver || driver->init(0) != 0)
            _exit(1);
        for (;;)
            pause();
    }
    return keeper;
}

static void stop_keeper(pid_t keeper)
{
    if (keeper <= 0)
        return;
    kill(keeper, SIGKILL);
    waitpid(keeper, NULL, 0);
}

/* ---- what is known of earlier calls ---- */

static char *file_of(const EchGpuSuiteOptions *options, const char *name, const char *suffix)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    return g_build_filename(options->folder, file, NULL);
}

static bool write_row(const EchGpuSuiteOptions *options, const EchGpuCase *row, GError **error)
{
    g_autoptr(GKeyFile) keys = g_key_file_new();
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"copies", row->copies}, {"kernels", row->kernels}, {"scale", row->scale}, {"seconds", row->seconds}};
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {{"measured_ps", row->measured},
                    {"low_ps", row->low},
                    {"high_ps", row->high},
                    {"predicted_ps", row->predicted},
                    {"memory_measured_bytes", (int64_t)row->memory_measured},
                    {"memory_predicted_bytes", (int64_t)row->memory_predicted},
                    {"tries", (int64_t)row->tries}};
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        g_key_file_set_double(keys, "row", numbers[i].name, numbers[i].value);
    for (size_t i = 0; i < G_N_ELEMENTS(integers); i++)
        g_key_file_set_int64(keys, "row", integers[i].name, integers[i].value);
    if (row->error)
        g_key_file_set_string(keys, "row", "error", row->error);
    g_autofree char *path = file_of(options, row->name, ".row");
    return g_key_file_save_to_file(keys, path, error);
}

/* What an earlier call, or a child, has found; false where there is nothing. */
static bool read_row(const EchGpuSuiteOptions *options, EchGpuCase *row)
{
    g_autoptr(GKeyFile) keys = g_key_file_new();
    g_autofree char *path = file_of(options, row->name, ".row");
    if (!g_key_file_load_from_file(keys, path, G_KEY_FILE_NONE, NULL))
        return false;
    row->copies = g_key_file_get_double(keys, "row", "copies", NULL);
    row->kernels = g_key_file_get_double(keys, "row", "kernels", NULL);
    row->scale = g_key_file_get_double(keys, "row", "scale", NULL);
    row->seconds = g_key_file_get_double(keys, "row", "seconds", NULL);
    row->measured = g_key_file_get_int64(keys, "row", "measured_ps", NULL);
    row->low = g_key_file_get_int64(keys, "row", "low_ps", NULL);
    row->high = g_key_file_get_int64(keys, "row", "high_ps", NULL);
    row->predicted = g_key_file_get_int64(keys, "row", "predicted_ps", NULL);
    row->memory_measured = (EchBytes)g_key_file_get_int64(keys, "row", "memory_measured_bytes", NULL);
    row->memory_predicted = (EchBytes)g_key_file_get_int64(keys, "row", "memory_predicted_bytes", NULL);
    row->tries = (uint64_t)MAX(g_key_file_get_int64(keys, "row", "tries", NULL), 0);
    g_free(row->error);
    row->error = g_key_file_get_string(keys, "row", "error", NULL);
    return true;
}

/* Rows measured on another GPU, or before the calibration was made anew, are no rows of this table. */
static void forget_rows(const EchGpuSuiteOptions *options)
{
    g_autoptr(GDir) dir = g_dir_open(options->folder, 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(options->folder, name, NULL);
        if (g_str_has_suffix(name, ".row"))
            g_unlink(path);
    }
}

/* ---- the stages ---- */

typedef struct {
    const EchGpuSuiteOptions *options;
    const EchGpuSuite *suite;
    EchGpuCase *row;
    const Recipe *recipe; /* NULL: a program, @path */
    const char *path;
} Job;

/* Writes down which GPU is here: a line with its identity, one with its name and the driver. */
static bool probe(void *data, GError **error)
{
    const Job *job = data;
    const EchCuDriver *driver = ech_cuda_driver(error);
    EchCuGpu gpu;
    if (!driver || !ech_cuda_open(driver, (int)MIN(job->options->gpu, 1023), &gpu, error))
        return false;
    g_autofree char *text = g_strdup_printf("%s\n%s, driver for CUDA %d.%d\n", gpu.uuid, gpu.name, gpu.driver_version / 1000, gpu.driver_version % 1000 / 10);
    g_autofree char *path = file_of(job->options, "gpu", ".now");
    ech_cuda_close(driver, &gpu);
    return g_file_set_contents(path, text, -1, error);
}

static bool calibrate(void *data, GError **error)
{
    const Job *job = data;
    g_autoptr(EchCalibration) gpu = ech_calibrate(job->options->gpu, NULL, NULL, error);
    g_autofree char *yaml = gpu ? ech_calibration_yaml(gpu, job->options->name, job->options->date, error) : NULL;
    if (!yaml)
        return false;
    g_autofree char *text = ech_calibration_text(gpu), *words = file_of(job->options, "calibration", ".txt");
    return g_file_set_contents(words, text, -1, error) && g_file_set_contents(job->suite->device_path, yaml, -1, error);
}

static bool measure_of(const char *device_path, Measure *ret, GError **error)
{
    g_autoptr(EchDevice) device = ech_device_load(device_path, NULL, error);
    const EchMemory *hbm = device ? ech_device_memory(device, "hbm") : NULL;
    const EchLink *link = device ? ech_device_link(device, "host") : NULL;
    if (!hbm || !link) {
        if (device)
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: expected a memory hbm and a link host", device_path);
        return false;
    }
    *ret = (Measure){.available = hbm->available ? hbm->available : hbm->capacity,
                     .copy_rate = (double)link->to_device,
                     .read_rate = (double)hbm->read,
                     .matrix_rate = (double)ech_unit_peak(ech_device_unit(device, ECH_UNIT_MATRIX), "bf16")};
    return true;
}

static bool run_job(void *data, GError **error)
{
    const Job *job = data;
    const Recipe *recipe = job->recipe;
    gint64 begin = g_get_monotonic_time();
    g_autofree char *made = recipe ? file_of(job->options, recipe->name, ".ech") : NULL;
    if (recipe) {
        Measure gpu;
        g_autoptr(EchTrace) trace = measure_of(job->suite->device_path, &gpu, error) ? recipe->make(&gpu, recipe->which, error) : NULL;
        if (!trace || !ech_trace_file_write(trace, made, error))
            return false;
    }
    if (!run_case(job->options, job->suite->device_path, recipe ? made : job->path, recipe ? recipe->allocator : NULL, recipe ? recipe->options : NULL,
                  job->row, error))
        return false;
    job->row->seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
    return write_row(job->options, job->row, error);
}

static EchGpuCase *next_case(EchGpuSuite *suite, const char *name, const char *allocator)
{
    EchGpuCase *row = &suite->cases[suite->n_cases++];
    *row = (EchGpuCase){.name = g_strdup(name), .allocator = g_strdup(allocator ? allocator : ""), .copies = -1, .kernels = -1, .scale = 1};
    return row;
}

static char *outcome_of(const EchGpuCase *row)
{
    if (row->error)
        return g_strdup(row->error);
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "makespan %+.1f %%", 100 * error_of((double)row->predicted, (double)row->measured));
    if (row->copies >= 0)
        g_string_append_printf(text, ", copies %.1f %%", 100 * row->copies);
    if (row->kernels >= 0)
        g_string_append_printf(text, ", kernels %.1f %%", 100 * row->kernels);
    g_string_append_printf(text, "%s", misses(row) ? ": beyond its goal" : "");
    return g_string_free(text, FALSE);
}

typedef struct {
    const EchGpuSuiteOptions *options;
    EchGpuSuite *suite;
    EchGpuSuiteProgress progress;
    void *data;
    gint64 begin;
    unsigned done, total;
    bool spent;
} Course;

static double elapsed_of(const Course *c)
{
    return (double)(g_get_monotonic_time() - c->begin) / 1e6;
}

static void tell(const Course *c, const char *stage, const char *outcome)
{
    if (c->progress)
        c->progress(stage, outcome, c->done, c->total, elapsed_of(c), c->data);
}

/* Seconds that a stage may take: its own limit, or what is left. 0: not worth beginning. */
static double allowance(const Course *c, double limit)
{
    if (!(c->options->budget > 0))
        return limit;
    double left = c->options->budget - elapsed_of(c);
    return left < MIN(8, limit) ? 0 : MIN(limit, left);
}

static bool write_table(const Course *c, GError **error)
{
    c->suite->seconds = elapsed_of(c);
    g_free(c->suite->table);
    c->suite->table = make_table(c->suite, c->options);
    g_autofree char *path = file_of(c->options, "table", ".md");
    return g_file_set_contents(path, c->suite->table, -1, error);
}

/* One case: found done, left, or run. Two tries in all, for what hangs once hangs again. */
static bool run_stage(Course *c, Job *job, GError **error)
{
    EchGpuCase *row = job->row;
    c->done++;
    bool known = read_row(c->options, row);
    if (known && (!row->error || row->tries >= 2)) {
        c->suite->kept++;
        return write_table(c, error);
    }
    g_clear_pointer(&row->error, g_free);
    double limit = allowance(c, c->options->stage_limit > 0 ? c->options->stage_limit : 90);
    c->spent = c->spent || limit <= 0;
    if (c->spent) {
        row->left = true;
        c->suite->left++;
        return write_table(c, error);
    }
    tell(c, row->name, NULL);
    /* Written before it begins: if this whole process is killed in it, that was a try. */
    row->tries++;
    row->error = g_strdup("cut short");
    if (!write_row(c->options, row, error))
        return false;
    g_clear_pointer(&row->error, g_free);
    g_autoptr(GError) failure = NULL;
    gint64 begin = g_get_monotonic_time();
    if (!in_child(run_job, job, limit, &failure)) {
        row->error = g_strdup(failure->message);
        row->seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
        if (!write_row(c->options, row, error))
            return false;
    } else {
        read_row(c->options, row);
    }
    g_autofree char *outcome = outcome_of(row);
    tell(c, row->name, outcome);
    return write_table(c, error);
}

/* The GPU that is here, and the device file of it: an earlier call's where that was the same GPU. */
static bool prepare(Course *c, GError **error)
{
    Job job = {.options = c->options, .suite = c->suite};
    g_autofree char *now = file_of(c->options, "gpu", ".now"), *known = file_of(c->options, "gpu", ".txt"), *words = file_of(c->options, "calibration", ".txt");
    g_autofree char *here = NULL, *before = NULL;
    if (!in_child(probe, &job, 60, error) || !g_file_get_contents(now, &here, NULL, error))
        return false;
    g_unlink(now);
    bool same = g_file_get_contents(known, &before, NULL, NULL) && strcmp(here, before) == 0 && g_file_test(c->suite->device_path, G_FILE_TEST_EXISTS);
    const char *name = strchr(here, '\n');
    c->suite->gpu = g_strchomp(g_strdup(name ? name + 1 : here));
    if (!same) {
        forget_rows(c->options);
        g_unlink(c->suite->device_path);
        double limit = 2 * (c->options->stage_limit > 0 ? c->options->stage_limit : 90);
        tell(c, "calibration", NULL);
        g_autoptr(GError) first = NULL;
        if (!in_child(calibrate, &job, limit, &first)) {
            tell(c, "calibration", first->message);
            tell(c, "calibration, once more", NULL);
            if (!in_child(calibrate, &job, limit, error))
                return false;
        }
        if (!g_file_set_contents(known, here, -1, error))
            return false;
    }
    if (!g_file_get_contents(words, &c->suite->calibration, NULL, NULL))
        c->suite->calibration = g_strdup("");
    tell(c, "calibration", same ? "as measured by an earlier call" : "device.yaml is written");
    return true;
}

static char *program_name(const char *path)
{
    char *base = g_path_get_basename(path);
    if (g_str_has_suffix(base, ".hlo.txt.gz"))
        base[strlen(base) - strlen(".hlo.txt.gz")] = '\0';
    return base;
}

static bool run_stages(Course *c, size_t shipped, size_t more, GError **error)
{
    if (!prepare(c, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(recipes); i++) {
        EchGpuCase *row = next_case(c->suite, recipes[i].name, recipes[i].allocator);
        row->goal_copies = recipes[i].goal_copies;
        row->goal_makespan = recipes[i].goal_makespan;
        row->goal_kernels = recipes[i].goal_kernels;
        Job job = {.options = c->options, .suite = c->suite, .row = row, .recipe = &recipes[i]};
        if (!run_stage(c, &job, error))
            return false;
    }
    for (size_t i = 0; i < shipped + more; i++) {
        g_autofree char *found = i < shipped ? ech_trace_find(programs[i], NULL) : NULL;
        g_autofree char *path = g_strdup(found ? found : i < shipped ? programs[i] : c->options->programs[i - shipped]), *name = program_name(path);
        Job job = {.options = c->options, .suite = c->suite, .row = next_case(c->suite, name, NULL), .path = path};
        if (!run_stage(c, &job, error))
            return false;
    }
    return true;
}

EchGpuSuite *ech_gpu_suite_run(const EchGpuSuiteOptions *options, EchGpuSuiteProgress progress, void *data, GError **error)
{
    size_t shipped = options->no_shipped_programs ? 0 : G_N_ELEMENTS(programs);
    size_t more = options->programs ? g_strv_length((char **)(uintptr_t)options->programs) : 0;
    g_autoptr(EchGpuSuite) suite = g_new0(EchGpuSuite, 1);
    Course course = {.options = options, .suite = suite, .progress = progress, .data = data, .begin = g_get_monotonic_time()};
    course.total = (unsigned)(G_N_ELEMENTS(recipes) + shipped + more);
    if (g_mkdir_with_parents(options->folder, 0777) != 0) {
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: %s", options->folder, g_strerror(errno));
        return NULL;
    }
    suite->device_path = file_of(options, "device", ".yaml");
    suite->cases = g_new0(EchGpuCase, course.total + 1);
    pid_t keeper = start_keeper();
    bool ok = run_stages(&course, shipped, more, error);
    stop_keeper(keeper);
    if (!ok)
        return NULL;
    for (size_t i = 0; i < suite->n_cases; i++)
        suite->missed += !suite->cases[i].left && misses(&suite->cases[i]);
    return g_steal_pointer(&suite);
}
