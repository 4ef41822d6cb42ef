/* A GPU's own times and bytes beside the prediction of the same trace. */
#include "sim/experiment/validate_cuda.h"

#include "models/alloc/alloc.h"
#include "models/kernel/measured.h"
#include "sim/base/error.h"
#include "sim/experiment/validate.h"
#include "sim/report/json_out.h"

#include <math.h>
#include <string.h>

bool ech_cuda_present(uint64_t ordinal, GError **error)
{
    const EchCuDriver *driver = ech_cuda_driver(error);
    EchCuGpu gpu;
    if (!driver || !ech_cuda_open(driver, (int)MIN(ordinal, 1023), &gpu, error))
        return false;
    ech_cuda_close(driver, &gpu);
    return true;
}

void ech_cuda_validation_free(EchCudaValidation *validation)
{
    if (!validation)
        return;
    ech_result_free(validation->result);
    if (validation->trace)
        ech_trace_unref(validation->trace);
    ech_run_free(validation->predicted);
    ech_cuda_run_free(validation->measured);
    g_free(validation->options);
    g_free(validation->pairs);
    g_free(validation->queues);
    g_free(validation);
}

/* Whether the makespan holds calls of the driver: where the GPU waited for the host that makes them. A pool that keeps what it has took it in the warm-ups. */
static bool calls_the_driver(const EchCudaOptions *options, const EchCudaRun *run)
{
    bool keeps = options->alloc == ECH_CUDA_ALLOC_ASYNC && options->release_threshold >= run->pool_reserved;
    return run->paced && options->alloc != ECH_CUDA_ALLOC_ARENA && !keeps;
}

static EchRun *predict(const EchResult *result, const EchCudaRun *measured, const char *allocator, const EchCudaOptions *with, double duty, GError **error)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.kernel_time = ECH_KERNEL_TIME_ROOFLINE; /* The engine does a kernel's bytes or operations, not the kernel itself */
    options.skip_steady = 0;
    options.max_spans = UINT64_MAX / 2;
    options.keep_going = 1;
    options.driver_calls = calls_the_driver(with, measured);
    options.graph = with->graph;
    options.products_duty = duty;
    options.allocator = g_strdup(allocator);
    EchRun *run = ech_replay_run(measured->trace, result->device, result->reference, &options, error);
    ech_params_clear(ech_replay_params, &options);
    return run;
}

/* Per op, what the GPU's events around it would see: from when its queue came to it and it could start but for a busy link, to its end. */
static EchTime *predicted_times(const EchTrace *trace, const EchRun *run)
{
    EchTime *times = g_new0(EchTime, ech_trace_n_ops(trace) + 1);
    g_autofree EchTime *queue_end = g_new0(EchTime, ech_trace_n_queues(trace) + 1);
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchSpan *span = &run->spans[i];
        EchTime alone = span->op < run->n_prices ? run->prices[span->op].alone : 0, shared = MAX(span->end - span->start - alone, 0);
        EchTime from = span->start - MAX(span->waits[ECH_WAIT_LINK] - shared, 0);
        times[span->op] = ech_time_add(times[span->op], MAX(span->end - MAX(from, queue_end[span->queue]), 0));
        queue_end[span->queue] = MAX(queue_end[span->queue], span->end);
    }
    return times;
}

static const char *kind_of(const EchTrace *trace, const EchPrices *prices, const EchDevice *device, EchId at)
{
    EchOpKind kind = (EchOpKind)ech_trace_ops(trace)[at].kind;
    if (kind == ECH_OP_COPY)
        return "copy";
    if (kind == ECH_OP_COLLECTIVE)
        return "collective";
    return ech_cuda_does(trace, at, prices, device) == ECH_CUDA_SPINS ? "spin" : "kernel";
}

static bool is_host(const EchDevice *device, const char *memory)
{
    const EchMemory *known = ech_device_memory(device, memory);
    return known && (known->kind == ECH_MEM_HOST_PINNED || known->kind == ECH_MEM_HOST_PAGEABLE || known->kind == ECH_MEM_DISK);
}

/* A graph's buffers are all there before it begins, whatever the program gives back on its way: what @model takes for them, in the engine's order. */
static bool predict_memory_of_graph(EchCudaValidation *v, const char *model, GError **error)
{
    const EchBuffer *buffers = ech_trace_buffers(v->trace);
    const EchMemory *hbm = ech_device_memory(v->result->device, "hbm");
    const EchAllocDevice device = {.capacity = hbm ? hbm->capacity : 0};
    g_autoptr(EchAllocator) allocator = ech_allocator_new(model, &device, error);
    if (!allocator)
        return false;
    EchAllocRequest request = {0};
    EchPlacement placement;
    for (EchId i = 0; i < ech_trace_n_buffers(v->trace); i++) {
        if (buffers[i].alias_of != ECH_NONE || buffers[i].bytes == 0 || is_host(v->result->device, ech_trace_memory(v->trace, buffers[i].memory)))
            continue;
        request.bytes = buffers[i].bytes;
        if (ech_allocator_alloc(allocator, &request, &placement) == ECH_FIT_OK)
            request.id++;
    }
    EchAllocStats stats;
    ech_allocator_counters(allocator, &stats);
    v->memory_predicted = MAX(stats.peak_reserved, stats.peak_live);
    return true;
}

/* @paged: what lies at fixed offsets is one block of the driver's, in whole pages. */
static void compare(EchCudaValidation *v, bool paged)
{
    double page = paged ? ech_device_number(v->result->device, "runtime.driver.malloc_page", 0) : 0;
    const EchTrace *trace = v->trace;
    size_t n = ech_trace_n_ops(trace), n_queues = ech_trace_n_queues(trace);
    EchPriceOptions pricing = {.kernel_time = ECH_KERNEL_TIME_ROOFLINE, .overhead = true, .copy_curve = true};
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchPrices) prices = ech_prices_new(trace, v->result->device, v->result->reference, &pricing, diag);
    g_autofree EchTime *predicted = predicted_times(trace, v->predicted);
    g_autofree EchCudaQueue *queues = g_new0(EchCudaQueue, n_queues + 1);
    v->pairs = g_new0(EchCudaPair, n + 1);
    for (EchId at = 0; at < n; at++) {
        const EchOp *op = &ech_trace_ops(trace)[at];
        const EchCudaOp *measured = &v->measured->ops[at];
        if ((op->kind != ECH_OP_COPY && op->kind != ECH_OP_KERNEL && op->kind != ECH_OP_COLLECTIVE) || measured->duration == ECH_TIME_NONE)
            continue;
        EchCudaPair pair = {
            at, kind_of(trace, prices, v->result->device, at), measured->duration, measured->low, measured->high, predicted[at], measured->instances};
        v->pairs[v->n_pairs++] = pair;
        EchCudaQueue *queue = &queues[op->queue];
        queue->ops += pair.instances;
        queue->measured = ech_time_add(queue->measured, pair.measured);
        queue->predicted = ech_time_add(queue->predicted, pair.predicted);
    }
    v->queues = g_new0(EchCudaQueue, n_queues + 1);
    for (EchId q = 0; q < n_queues; q++) {
        queues[q].queue = q;
        if (queues[q].ops > 0)
            v->queues[v->n_queues++] = queues[q];
    }
    for (size_t m = 0; m < v->predicted->n_memories; m++) {
        const EchMemoryRun *memory = &v->predicted->memories[m];
        EchBytes fixed = page >= 1 ? ech_round_up(memory->fixed_extent, (EchBytes)page) : memory->fixed_extent;
        if (!is_host(v->result->device, memory->name))
            v->memory_predicted = ech_bytes_add(v->memory_predicted, MAX(MAX(memory->peak_reserved, fixed), memory->peak_live));
    }
}

/* Who allocates, from an allocator's spec. */
static const char *backend_of(const char *allocator)
{
    static const char *const names[][2] = {{"platform", "malloc"}, {"cuda_async", "async"}, {"vmm", "vmm"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        size_t length = strlen(names[i][0]);
        if (strncmp(allocator, names[i][0], length) == 0 && (allocator[length] == '\0' || allocator[length] == ':'))
            return names[i][1];
    }
    return "arena";
}

static bool read_options(EchCudaOptions *options, const char *spec, uint64_t repeats, const char *allocator, GError **error)
{
    ech_params_defaults(ech_cuda_params, options);
    const char *parameters = allocator ? strchr(allocator, ':') : NULL;
    if (parameters && parameters[1] && strcmp(backend_of(allocator), "arena") != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "allocator %s: on a GPU the driver allocates, and its model has what is measured and set of it; expected no parameters (options of engine "
                    "cuda: release_threshold, pool_reuse)",
                    allocator);
        return false;
    }
    if (allocator && (!ech_params_set(ech_cuda_params, options, "alloc", backend_of(allocator), error) ||
                      !ech_params_set(ech_cuda_params, options, "allocator", allocator, error)))
        return false;
    if (!ech_params_parse(ech_cuda_params, options, spec, error)) {
        g_prefix_error(error, "options of engine cuda: ");
        return false;
    }
    if (repeats > 0)
        options->repeats = repeats;
    return true;
}

/* ":NAME=BYTES" or ",NAME=BYTES" for every number that the device file knows of the driver. */
static char *with_numbers(const EchDevice *device, const char *model, const char *const (*names)[2], size_t n)
{
    GString *spec = g_string_new(model);
    for (size_t i = 0; i < n; i++) {
        double value = ech_device_number(device, names[i][0], 0);
        if (value > 0)
            g_string_append_printf(spec, "%c%s=%.0f", strchr(spec->str, ':') ? ',' : ':', names[i][1], value);
    }
    return g_string_free(spec, FALSE);
}

/* The model of who allocates on the GPU, with what was measured of it; NULL: the trace's own offsets. */
static char *model_of(const EchCudaOptions *options, const EchDevice *device, bool fixed)
{
    static const char *const malloc_numbers[][2] = {{"runtime.driver.malloc_page", "granule"}, {"runtime.driver.malloc_shared", "share_below"}};
    static const char *const pool_numbers[][2] = {{"runtime.driver.pool_growth", "growth"}};
    switch ((EchCudaAlloc)options->alloc) {
    case ECH_CUDA_ALLOC_MALLOC: return with_numbers(device, "platform", malloc_numbers, 2);
    case ECH_CUDA_ALLOC_VMM: return g_strdup("platform:mapped=true");
    case ECH_CUDA_ALLOC_ASYNC: {
        const char *reuse = options->pool_reuse ? "true" : "false";
        g_autofree char *model = g_strdup_printf("cuda_async:release_threshold=%" G_GUINT64_FORMAT
                                                 ",reuse_event_dependencies=%s,reuse_opportunistic=%s,reuse_internal_dependencies=%s",
                                                 options->release_threshold, reuse, reuse, reuse);
        /* The model's least step is 2 MiB. */
        return with_numbers(device, model, pool_numbers, ech_device_number(device, pool_numbers[0][0], 0) >= 2 << 20 ? 1 : 0);
    }
    case ECH_CUDA_ALLOC_ARENA: return g_strdup(options->allocator ? options->allocator : "best_fit");
    case ECH_CUDA_ALLOC_AUTO:
    case ECH_N_CUDA_ALLOCS: break;
    }
    return fixed ? NULL : with_numbers(device, "platform", malloc_numbers, 2);
}

static bool has_fixed_offsets(const EchTrace *trace)
{
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (ech_trace_buffers(trace)[i].offset != ECH_OFFSET_NONE)
            return true;
    }
    return false;
}

/* Products run at what power and heat leave them, which depends on how much of the time they take: here of a replay with what lies around it, which the GPU
 * spends at rest, and sees of both as far back as it looks. Those that draw less power count for less. They take what was measured, where it was (not in a
 * graph): predicted too slow, they would seem to take more of the time, and be slower still. */
static void find_duty(EchCudaValidation *v)
{
    const EchDevice *device = v->result->device;
    EchPriceOptions pricing = {.kernel_time = ECH_KERNEL_TIME_ROOFLINE, .overhead = true, .copy_curve = true};
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchPrices) prices = ech_prices_new(v->trace, device, v->result->reference, &pricing, diag);
    double busy = 0, hot = 0, all = (double)MAX(v->measured->each, v->measured->makespan), burst = ech_measured_burst(device, "bf16", false);
    for (EchId at = 0; at < ech_trace_n_ops(v->trace); at++) {
        const EchOp *op = &ech_trace_ops(v->trace)[at];
        EchGemm gemm;
        if (op->kind != ECH_OP_KERNEL || ech_cuda_does(v->trace, at, prices, device) != ECH_CUDA_MULTIPLIES || !ech_cuda_gemm_of(v->trace, op, &gemm))
            continue;
        const EchCudaOp *measured = &v->measured->ops[at];
        double time = measured->duration > 0 ? (double)measured->duration : (double)prices->prices[at].alone * (double)MAX(measured->instances, 1u);
        busy += time;
        hot += time * ech_measured_duty_weight(burst, ech_measured_burst(device, ech_dtype_name((EchDtype)gemm.dtype), ech_cuda_gemm_is_odd(&gemm)));
    }
    double makespan = (double)MAX(v->measured->makespan, 1), constant = ech_device_number(device, "runtime.heat_ps", 0);
    v->products_duty = CLAMP(hot / makespan * ech_measured_heat(constant, makespan, all), 0, 1);
    g_autoptr(EchMeasured) known = ech_measured_new(device);
    double largest = ech_measured_largest_burst(known, device, (double)ECH_CUDA_GEMM_HEATS);
    if (v->measured->by_blas > 0 && largest > 1.02)
        ech_diag_remark(
            v->measured->diag,
            "matrix products ran %.0f %% of the time that replays took with what lies between them, which in power is %.0f %% of large ones of bf16: "
            "those are predicted at %.2f of the rate that power leaves them when nothing else runs (just after a pause this GPU does %.2f of it)",
            100 * CLAMP(busy / all, 0, 1), 100 * v->products_duty, ech_measured_duty_rate(device, largest, v->products_duty), largest);
}

static bool measure(EchCudaValidation *v, const EchCudaOptions *options, GError **error)
{
    const EchResult *result = v->result;
    v->measured = ech_cuda_replay(result->trace, result->device, result->reference, options, error);
    if (!v->measured)
        return false;
    v->trace = ech_trace_ref(v->measured->trace);
    if (!ech_device_is_product(result->device, v->measured->gpu))
        ech_diag_remark(
            v->measured->diag,
            "measured on %s, predicted for %s: what the two differ in is part of every error here; 'echelon calibrate' describes the GPU that is here",
            v->measured->gpu, result->device->name);
    g_autofree char *model = model_of(options, result->device, has_fixed_offsets(v->trace));
    find_duty(v);
    v->predicted = predict(result, v->measured, model, options, v->products_duty, error);
    v->memory_measured = options->alloc == ECH_CUDA_ALLOC_ARENA   ? v->measured->arena_extent
                         : options->alloc == ECH_CUDA_ALLOC_ASYNC ? v->measured->pool_reserved
                                                                  : v->measured->peak_used;
    v->options = ech_params_print(ech_cuda_params, options);
    v->warmups = v->measured->warmups;
    if (!v->predicted)
        return false;
    compare(v, options->alloc == ECH_CUDA_ALLOC_AUTO);
    return !options->graph || !model || predict_memory_of_graph(v, model, error);
}

EchCudaValidation *ech_validate_cuda(EchExperiment *experiment, const char *spec, uint64_t repeats, const char *allocator, GError **error)
{
    g_autoptr(EchCudaValidation) v = g_new0(EchCudaValidation, 1);
    EchCudaOptions options = {0};
    bool ok = read_options(&options, spec, repeats, allocator, error) && ech_cuda_present(options.gpu, error);
    if (ok)
        v->result = ech_experiment_run(experiment, 0, error);
    ok = v->result && measure(v, &options, error);
    ech_params_clear(ech_cuda_params, &options);
    return ok ? g_steal_pointer(&v) : NULL;
}

static bool counts(const EchCudaValidation *v, const EchCudaPair *pair, const char *kind, EchBytes least_bytes)
{
    bool real = strcmp(pair->kind, "copy") == 0 || strcmp(pair->kind, "kernel") == 0;
    return real && (!kind || strcmp(pair->kind, kind) == 0) && pair->measured > 0 &&
           (least_bytes == 0 || ech_trace_ops(v->trace)[pair->op].bytes >= least_bytes);
}

double ech_cuda_validation_mape(const EchCudaValidation *v, const char *kind, EchBytes least_bytes)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < v->n_pairs; i++) {
        if (!counts(v, &v->pairs[i], kind, least_bytes))
            continue;
        sum += fabs(ech_relative_error(v->pairs[i].predicted, v->pairs[i].measured));
        n++;
    }
    return n ? sum / (double)n : -1;
}

double ech_cuda_validation_interval(const EchCudaValidation *v, const char *kind, EchBytes least_bytes)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < v->n_pairs; i++) {
        const EchCudaPair *pair = &v->pairs[i];
        if (!counts(v, pair, kind, least_bytes) || pair->low == ECH_TIME_NONE)
            continue;
        sum += (double)(pair->high - pair->low) / 2 / (double)pair->measured;
        n++;
    }
    return n ? sum / (double)n : -1;
}

/* ---- output ---- */

static const char *op_name(const EchCudaValidation *v, EchId at)
{
    const char *name = ech_trace_string(v->trace, ech_trace_ops(v->trace)[at].name);
    return *name ? name : ech_op_kind_name((EchOpKind)ech_trace_ops(v->trace)[at].kind);
}

static char *driver_text(int version)
{
    return g_strdup_printf("%d.%d", version / 1000, version % 1000 / 10);
}

static void row(GString *text, const char *what, const char *measured, const char *predicted, double error)
{
    g_string_append_printf(text, "  %-26s %-34s %-12s %+6.1f %%\n", what, measured, predicted, 100 * error);
}

static void time_row(GString *text, const char *what, EchTime measured, EchTime low, EchTime high, EchTime predicted)
{
    g_autofree char *m = ech_format_time(measured), *l = ech_format_time(low), *h = ech_format_time(high), *p = ech_format_time(predicted);
    g_autofree char *interval = low == ECH_TIME_NONE ? g_strdup(m) : g_strdup_printf("%s [%s, %s]", m, l, h);
    row(text, what, interval, p, ech_relative_error(predicted, measured));
}

static void mean_line(GString *text, const EchCudaValidation *v, const char *kind, const char *label, EchBytes least)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_pairs; i++)
        n += strcmp(v->pairs[i].kind, kind) == 0 && ech_trace_ops(v->trace)[v->pairs[i].op].bytes >= least;
    double mape = ech_cuda_validation_mape(v, kind, least);
    if (mape >= 0)
        g_string_append_printf(text, "  %-26s %zu operations, mean error %.1f %%\n", label, n, 100 * mape);
}

static int by_error(gconstpointer a, gconstpointer b)
{
    const EchCudaPair *x = *(const EchCudaPair *const *)a, *y = *(const EchCudaPair *const *)b;
    EchTime left = ABS(x->predicted - x->measured), right = ABS(y->predicted - y->measured);
    return left != right ? (left < right) - (left > right) : (x->op > y->op) - (x->op < y->op);
}

static void add_worst(GString *text, const EchCudaValidation *v)
{
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    for (size_t i = 0; i < v->n_pairs; i++)
        g_ptr_array_add(sorted, &v->pairs[i]);
    g_ptr_array_sort(sorted, by_error);
    if (sorted->len > 0)
        g_string_append(text, "furthest apart\n");
    for (guint i = 0; i < MIN(sorted->len, 8); i++) {
        const EchCudaPair *pair = sorted->pdata[i];
        g_autofree char *name = ech_quote(op_name(v, pair->op), -1, 26);
        time_row(text, name, pair->measured, pair->low, pair->high, pair->predicted);
    }
}

char *ech_cuda_validation_text(const EchCudaValidation *v)
{
    const EchCudaRun *m = v->measured;
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *driver = driver_text(m->driver_version);
    g_string_append_printf(text, "%s\nmeasured on %s, driver %s, %zu repeats after %" G_GUINT64_FORMAT " warm-ups; predicted for %s\n", v->result->title,
                           m->gpu, driver, m->n_makespans, v->warmups, v->result->device->name);
    g_autofree char *state = ech_gpu_state_text(&m->state);
    if (state)
        g_string_append_printf(text, "GPU meanwhile: %s\n", state);
    const char *interval = m->n_makespans < ECH_CUDA_LEAST_REPEATS ? "measured [least, most]" : "measured [95 % of the median]";
    g_string_append_printf(text, "  %-26s %-34s %-12s %s\n", "", interval, "predicted", "error");
    time_row(text, "makespan", m->makespan, m->low, m->high, v->predicted->makespan);
    g_autofree char *used = ech_format_bytes(v->memory_measured), *modelled = ech_format_bytes(v->memory_predicted);
    row(text, "device memory reserved", used, modelled, v->memory_measured > 0 ? (double)v->memory_predicted / (double)v->memory_measured - 1 : 0);
    for (size_t i = 0; i < v->n_queues; i++) {
        const EchCudaQueue *queue = &v->queues[i];
        g_autofree char *own = ech_quote(ech_trace_string(v->trace, ech_trace_queues(v->trace)[queue->queue].name), -1, 20);
        g_autofree char *name = g_strdup_printf("queue %s", own);
        time_row(text, name, queue->measured, ECH_TIME_NONE, ECH_TIME_NONE, queue->predicted);
    }
    mean_line(text, v, "copy", "copies", 0);
    mean_line(text, v, "copy", "copies of 1 MiB and more", 1 << 20);
    mean_line(text, v, "kernel", "kernels", 0);
    size_t spins = 0;
    for (size_t i = 0; i < v->n_pairs; i++)
        spins += strcmp(v->pairs[i].kind, "spin") == 0 || strcmp(v->pairs[i].kind, "collective") == 0;
    if (spins > 0)
        g_string_append_printf(text,
                               "  %zu kernels carry times of their own (estimated, recorded, collectives, 8-bit floats, float64): the GPU only waited as long, "
                               "so they test nothing\n",
                               spins);
    add_worst(text, v);
    if (m->differing > 0)
        g_string_append_printf(text, "%" G_GUINT64_FORMAT " words of buffers that nothing writes had changed: the GPU or its driver is not to be trusted\n",
                               m->differing);
    if (!v->predicted->fits)
        g_string_append(text, "the model says that this does not fit\n");
    for (const char *const *remark = ech_diag_remarks(m->diag); *remark; remark++)
        g_string_append_printf(text, "- %s\n", *remark);
    return g_strdup(text->str);
}

static void add_pairs(JsonBuilder *json, const EchCudaValidation *v)
{
    ech_json_begin_array(json, "pairs");
    for (size_t i = 0; i < v->n_pairs; i++) {
        const EchCudaPair *pair = &v->pairs[i];
        const EchOp *op = &ech_trace_ops(v->trace)[pair->op];
        json_builder_begin_object(json);
        ech_json_add_text(json, "name", op_name(v, pair->op));
        ech_json_add_text(json, "kind", pair->kind);
        ech_json_add_text(json, "queue", ech_trace_string(v->trace, ech_trace_queues(v->trace)[op->queue].name));
        ech_json_add_int(json, "measured_ps", pair->measured);
        ech_json_add_int(json, "measured_low_ps", pair->low);
        ech_json_add_int(json, "measured_high_ps", pair->high);
        ech_json_add_int(json, "predicted_ps", pair->predicted);
        ech_json_add_int(json, "instances", (int64_t)pair->instances);
        if (op->kind == ECH_OP_COPY)
            ech_json_add_count(json, "bytes", op->bytes);
        json_builder_end_object(json);
    }
    json_builder_end_array(json);
    ech_json_begin_array(json, "queues");
    for (size_t i = 0; i < v->n_queues; i++) {
        const EchCudaQueue *queue = &v->queues[i];
        json_builder_begin_object(json);
        ech_json_add_text(json, "name", ech_trace_string(v->trace, ech_trace_queues(v->trace)[queue->queue].name));
        ech_json_add_int(json, "ops", (int64_t)queue->ops);
        ech_json_add_int(json, "measured_ps", queue->measured);
        ech_json_add_int(json, "predicted_ps", queue->predicted);
        ech_json_add_double(json, "error", ech_relative_error(queue->predicted, queue->measured));
        json_builder_end_object(json);
    }
    json_builder_end_array(json);
}

static void add_totals(JsonBuilder *json, const EchCudaValidation *v)
{
    const EchCudaRun *m = v->measured;
    ech_json_begin_object(json, "makespan");
    ech_json_add_int(json, "measured_ps", m->makespan);
    ech_json_add_int(json, "measured_low_ps", m->low);
    ech_json_add_int(json, "measured_high_ps", m->high);
    ech_json_add_int(json, "predicted_ps", v->predicted->makespan);
    ech_json_add_double(json, "error", ech_relative_error(v->predicted->makespan, m->makespan));
    ech_json_begin_array(json, "repeats_ps");
    for (size_t i = 0; i < m->n_makespans; i++)
        json_builder_add_int_value(json, m->makespans[i]);
    json_builder_end_array(json);
    json_builder_end_object(json);
    ech_json_begin_object(json, "memory");
    ech_json_add_count(json, "measured_reserved_bytes", v->memory_measured);
    ech_json_add_count(json, "predicted_reserved_bytes", v->memory_predicted);
    ech_json_add_count(json, "measured_driver_bytes", m->peak_used);
    json_builder_end_object(json);
    ech_json_begin_object(json, "mape");
    const struct {
        const char *name, *kind;
        EchBytes least;
    } means[] = {{"copy", "copy", 0}, {"copy_from_1MiB", "copy", 1 << 20}, {"kernel", "kernel", 0}, {"all", NULL, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(means); i++)
        ech_json_add_mean(json, means[i].name, ech_cuda_validation_mape(v, means[i].kind, means[i].least));
    ech_json_add_mean(json, "interval_of_copies_from_1MiB", ech_cuda_validation_interval(v, "copy", 1 << 20));
    json_builder_end_object(json);
}

char *ech_cuda_validation_json(const EchCudaValidation *v)
{
    const EchCudaRun *m = v->measured;
    g_autoptr(JsonBuilder) json = json_builder_new();
    g_autofree char *driver = driver_text(m->driver_version);
    json_builder_begin_object(json);
    ech_json_add_text(json, "title", v->result->title);
    ech_json_add_text(json, "device", v->result->device->name);
    ech_json_add_int(json, "makespan_ps", m->makespan);
    ech_json_add_count(json, "ops", v->predicted->ops);
    add_totals(json, v);
    add_pairs(json, v);
    ech_json_add_double(json, "scale", m->scale);
    ech_json_add_double(json, "products_duty", v->products_duty);
    ech_json_add_count(json, "verified_bytes", m->verified);
    ech_json_add_count(json, "changed_words", m->differing);
    ech_json_add_bool(json, "fits", v->predicted->fits);
    ech_json_begin_object(json, "provenance");
    ech_json_add_text(json, "engine", "cuda");
    ech_json_add_text(json, "gpu", m->gpu);
    ech_json_add_text(json, "driver", driver);
    ech_json_add_text(json, "options", v->options);
    g_autofree char *state = ech_gpu_state_text(&m->state);
    if (state)
        ech_json_add_text(json, "gpu_state", state);
    ech_json_add_count(json, "event_gap_ps", (uint64_t)MAX(m->gap, 0));
    for (size_t i = 0; i < m->n_kernel_gaps; i++) {
        g_autofree char *key = g_strdup_printf("kernel_gap_ps_of_%" G_GINT64_FORMAT "_ps", (gint64)m->kernel_spans[i]);
        ech_json_add_count(json, key, (uint64_t)MAX(m->kernel_gaps[i], 0));
    }
    g_autofree char *hash = g_strdup_printf("%016" G_GINT64_MODIFIER "x", ech_trace_hash(v->trace));
    ech_json_add_text(json, "trace_hash", hash);
    json_builder_end_object(json);
    ech_json_begin_array(json, "remarks");
    for (const char *const *remark = ech_diag_remarks(m->diag); *remark; remark++)
        json_builder_add_string_value(json, *remark);
    json_builder_end_array(json);
    json_builder_end_object(json);
    return ech_json_finish(json);
}
