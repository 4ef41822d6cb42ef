/* One bench, one step after the other. */
#include "sim/experiment/calibrate_private.h"

#include "sim/base/error.h"

#include <string.h>
#include <unistd.h>

void ech_calibration_free(EchCalibration *calibration)
{
    if (!calibration)
        return;
    g_free(calibration->gpu);
    g_free(calibration->uuid);
    g_free(calibration->failures);
    g_free(calibration);
}

/* Clocks rise only under load. */
static bool warm_up(Bench *b, GError **error)
{
    const StreamShape both = {b->half / 16, b->half / 16, false};
    EchFigure ignored;
    for (unsigned i = 0; i < 4; i++) {
        if (!ech_bench_time_batch(b, ech_bench_issue_stream, &both, 20, &ignored, error))
            return false;
    }
    return true;
}

static EchBytes power_below(EchBytes bytes)
{
    EchBytes power = 1 << 12;
    while (power * 2 <= bytes)
        power *= 2;
    return power;
}

static bool load_kernels(Bench *b, GError **error)
{
    const struct {
        const char *name;
        EchCuFunction *function;
    } kernels[] = {{"echelon_stream", &b->stream_kernel}, {"echelon_strided", &b->strided}, {"echelon_random", &b->random},
                   {"echelon_chase", &b->chase},          {"echelon_fma", &b->fma},         {"echelon_fma64", &b->fma64},
                   {"echelon_exp", &b->exponential},      {"echelon_mma", &b->mma},         {"echelon_spin", &b->spin},
                   {"echelon_noise", &b->noise}};
    if (!ech_cuda_load_kernels(b->cu, &b->module, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        if (!CU(b, module_function, "loading kernels", error, kernels[i].function, b->module, kernels[i].name))
            return false;
    }
    return true;
}

static bool make_noise(Bench *b, EchCuPointer target, GError **error)
{
    uint64_t words = b->half / 4;
    uint32_t seed = 7;
    void *parameters[] = {&target, &words, &seed};
    return ech_bench_launch(b, b->noise, (unsigned)b->gpu.multiprocessors * 8, 256, b->streams[0], parameters, error);
}

/* Two buffers, smaller ones where the machine lets nobody pin so much. */
static bool take_pinned(Bench *b, GError **error)
{
    const EchBytes least = MIN((EchBytes)4 << 20, b->host_bytes);
    for (unsigned s = 0; s < 2; s++) {
        EchCuResult result;
        while ((result = b->cu->host_allocate(&b->pinned[s], b->host_bytes, 0)) == ECH_CU_ERROR_OUT_OF_MEMORY && b->host_bytes > least)
            b->host_bytes /= 2;
        if (!ech_cuda_check(b->cu, result, "cuMemHostAlloc", "pinning memory", error))
            return false;
    }
    for (unsigned s = 0; s < 2; s++)
        memset(b->pinned[s], 1, b->host_bytes);
    return true;
}

/* At the end: a virtual machine may get more while it is used. */
static EchBytes host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (EchBytes)pages * (EchBytes)page : 0;
}

static bool set_up(Bench *b, GError **error)
{
    EchCalibration *r = b->result;
    size_t available, total;
    if (!CU(b, memory_info, "asking for free memory", error, &available, &total) || !load_kernels(b, error))
        return false;
    r->gpu = g_strdup(b->gpu.name);
    r->uuid = g_strdup(b->gpu.uuid);
    r->driver_version = b->gpu.driver_version;
    r->major = b->gpu.major;
    r->minor = b->gpu.minor;
    r->multiprocessors = b->gpu.multiprocessors;
    r->clock_khz = b->gpu.clock_khz;
    r->memory_clock_khz = b->gpu.memory_clock_khz;
    r->bus_bits = b->gpu.bus_bits;
    r->l2_bytes = b->gpu.l2_bytes;
    r->async_engines = b->gpu.async_engines;
    r->total = b->gpu.total_memory;
    r->available = available;
    b->half = MIN(power_below(available / 8), (EchBytes)2 << 30);
    if (available < (16 << 20)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s has only %zu bytes free; expected at least 16 MiB to measure in", b->gpu.name, available);
        return false;
    }
    b->host_bytes = MIN(b->half, (EchBytes)256 << 20);
    if (!take_pinned(b, error))
        return false;
    for (size_t s = 0; s < G_N_ELEMENTS(b->streams); s++) {
        if (!CU(b, stream_create, "making a queue", error, &b->streams[s], ECH_CU_STREAM_NON_BLOCKING))
            return false;
    }
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned i = 0; i < MOST_EVENTS; i++) {
            if (!CU(b, event_create, "making an event", error, &b->events[s][i], ECH_CU_EVENT_DEFAULT))
                return false;
        }
    }
    b->pageable = g_try_malloc(b->host_bytes);
    if (!b->pageable) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no %" G_GUINT64_FORMAT " bytes of host memory", b->host_bytes);
        return false;
    }
    memset(b->pageable, 1, b->host_bytes);
    b->blas = ech_cuda_blas(NULL);
    b->workspace_bytes = MIN((size_t)32 << 20, b->gpu.total_memory / 64 / 256 * 256);
    g_autoptr(GError) refused = NULL;
    if (b->blas && !ech_cuda_blas_check(b->blas->create(&b->handle), "cublasCreate_v2", "starting cuBLAS", &refused)) {
        ech_bench_note_failure(b, "cuBLAS", refused);
        b->blas = NULL;
        b->handle = NULL;
    }
    if (b->blas && (!ech_cuda_blas_check(b->blas->version(b->handle, &r->blas_version), "cublasGetVersion_v2", "starting cuBLAS", error) ||
                    !CU(b, allocate, "allocating cuBLAS's workspace", error, &b->workspace, b->workspace_bytes)))
        return false;
    return CU(b, allocate, "allocating", error, &b->a, b->half) && CU(b, allocate, "allocating", error, &b->b, b->half) &&
           CU(b, allocate, "allocating", error, &b->sink, 256) && make_noise(b, b->a, error) && make_noise(b, b->b, error) &&
           CU(b, stream_synchronize, "waiting for the GPU", error, b->streams[0]);
}

static void tear_down(Bench *b)
{
    if (!b->gpu.context)
        return;
    b->cu->context_synchronize();
    if (b->handle)
        b->blas->destroy(b->handle);
    const EchCuPointer pointers[] = {b->workspace, b->a, b->b, b->sink};
    for (size_t i = 0; i < G_N_ELEMENTS(pointers); i++) {
        if (pointers[i])
            b->cu->release(pointers[i]);
    }
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned i = 0; i < MOST_EVENTS; i++) {
            if (b->events[s][i])
                b->cu->event_destroy(b->events[s][i]);
        }
        if (b->pinned[s])
            b->cu->host_release(b->pinned[s]);
    }
    for (size_t s = 0; s < G_N_ELEMENTS(b->streams); s++) {
        if (b->streams[s])
            b->cu->stream_destroy(b->streams[s]);
    }
    g_free(b->pageable);
    if (b->module)
        b->cu->module_unload(b->module);
    ech_cuda_close(b->cu, &b->gpu);
}

/* Of what an empty context left of the total, what others have: what is taken without a context was not its own. */
static EchBytes taken_by_others(const Bench *b)
{
    const EchCalibration *r = b->result;
    uint64_t without, missing = r->total > r->available ? r->total - r->available : 0;
    if (!ech_gpu_watch_memory(b->watch, &without) || without > b->taken)
        return 0;
    return missing - MIN(missing, b->taken - without);
}

EchCalibration *ech_calibrate(uint64_t ordinal, const char *const *left_out, EchCalibrateProgress progress, void *data, GError **error)
{
    static const struct {
        const char *what;
        bool (*measure)(Bench *b, GError **error);
        bool optional; /* A device file is worth having without it */
        bool products; /* Its clocks are told apart: power is what products are limited by */
    } steps[] = {
        {"setting up", set_up, false, false},
        {"launches", ech_calibrate_launches, false, false},
        {"warming up", warm_up, false, false},
        {"launches, warm", ech_calibrate_launches, false, false},
        {"graphs", ech_calibrate_graph, true, false},
        {"allocations", ech_calibrate_allocations, true, false},
        {"mapping", ech_calibrate_mapping, true, false},
        {"pages", ech_calibrate_pages, true, false},
        {"pinned copies", ech_calibrate_pinned, false, false},
        {"pageable copies", ech_calibrate_pageable, true, false},
        {"copies both ways", ech_calibrate_both_ways, true, false},
        {"copy engines", ech_calibrate_engines, true, false},
        {"host memory", ech_calibrate_host, true, false},
        {"device memory", ech_calibrate_memory, false, false},
        {"streaming kernels", ech_calibrate_streams, true, false},
        {"queues that wait", ech_calibrate_waits, true, false},
        {"cache", ech_calibrate_cache, true, false},
        {"latency", ech_calibrate_latency, true, false},
        {"arithmetic", ech_calibrate_arithmetic, false, false},
        {"matrix products", ech_calibrate_matrix, true, true},
        {"matrix products by shape", ech_calibrate_products, true, true},
        {"kernels beside copies", ech_calibrate_interference, true, false},
    };
    g_autoptr(EchCalibration) result = g_new0(EchCalibration, 1);
    result->failures = g_strdup("");
    Bench b = {.cu = ech_cuda_driver(error), .patience = 1, .result = result};
    double begin = ech_bench_host_ns();
    if (!b.cu || !ech_cuda_open(b.cu, (int)MIN(ordinal, 1023), &b.gpu, error))
        return NULL;
    bool ok = true;
    b.watch = ech_gpu_watch_new(&b.gpu);
    ech_gpu_watch_stay_near(b.watch);
    bool looked = ech_gpu_watch_memory(b.watch, &b.taken);
    for (unsigned i = 0; ok && i < G_N_ELEMENTS(steps); i++) {
        g_autoptr(GError) failure = NULL;
        if (progress)
            progress(i, G_N_ELEMENTS(steps), steps[i].what, data);
        b.state = steps[i].products ? &result->products_state : &result->state;
        if (left_out && steps[i].optional && g_strv_contains(left_out, steps[i].what))
            g_set_error(&failure, ECH_ERROR, ECH_ERROR_BACKEND, "left out, for it ended an earlier try");
        else
            ok = steps[i].measure(&b, &failure) || steps[i].optional;
        if (!ok) {
            g_propagate_prefixed_error(error, g_steal_pointer(&failure), "%s: ", steps[i].what);
        } else if (failure) {
            ech_bench_note_failure(&b, steps[i].what, failure);
            /* A kernel that failed takes the context with it, and every step behind this one would be blamed. */
            ok = ech_cuda_check(b.cu, b.cu->context_synchronize(), "cuCtxSynchronize", failure->message, error);
            if (!ok)
                g_prefix_error(error, "%s: ", steps[i].what);
        }
    }
    if (progress)
        progress(G_N_ELEMENTS(steps), G_N_ELEMENTS(steps), NULL, data);
    if (b.late > 0) {
        g_autoptr(GError) late = g_error_new(ECH_ERROR, ECH_ERROR_BACKEND,
                                             "in %u measurements the GPU may have waited for the host: short operations may come out too long", b.late);
        ech_bench_note_failure(&b, "host", late);
    }
    result->host = host_memory();
    tear_down(&b);
    result->others = looked ? taken_by_others(&b) : 0;
    ech_gpu_watch_free(b.watch);
    result->seconds = (ech_bench_host_ns() - begin) / 1e9;
    return ok ? g_steal_pointer(&result) : NULL;
}
