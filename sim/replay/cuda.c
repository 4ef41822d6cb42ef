#include "sim/replay/cuda_private.h"

#include "sim/base/error.h"

static const char *const alloc_names[] = {"auto", "malloc", "async", "vmm", "arena", NULL};

const EchParam ech_cuda_params[] = {
    {"gpu", ECH_PARAM_U64, offsetof(EchCudaOptions, gpu), "0", NULL, "1023", NULL, "ordinal of the GPU"},
    {"warmups", ECH_PARAM_U64, offsetof(EchCudaOptions, warmups), "2", NULL, "1000", NULL,
     "replays before those that count; large matrix products get as many more as keep them busy for half a second"},
    {"repeats", ECH_PARAM_U64, offsetof(EchCudaOptions, repeats), "10", "1", "10000", NULL, "replays measured"},
    {"alloc", ECH_PARAM_ENUM, offsetof(EchCudaOptions, alloc), "auto", NULL, NULL, alloc_names,
     "who allocates: cuMemAlloc, cuMemAllocAsync, the driver's virtual memory, or an allocator of ours over an arena; auto: the trace's own offsets in one "
     "block, else malloc"},
    {"allocator", ECH_PARAM_STRING, offsetof(EchCudaOptions, allocator), NULL, NULL, NULL, NULL, "allocator of the arena"},
    {"release_threshold", ECH_PARAM_BYTES, offsetof(EchCudaOptions, release_threshold), "0", NULL, NULL, NULL, "bytes the driver's pool keeps"},
    {"pool_reuse", ECH_PARAM_BOOL, offsetof(EchCudaOptions, pool_reuse), "true", NULL, NULL, NULL, "the driver's pool hands memory from one queue to another"},
    {"graph", ECH_PARAM_BOOL, offsetof(EchCudaOptions, graph), "false", NULL, NULL, NULL, "replay as one CUDA graph"},
    {"scale", ECH_PARAM_BOOL, offsetof(EchCudaOptions, scale), "false", NULL, NULL, NULL, "scale down what is larger than the card"},
    {"verify", ECH_PARAM_BOOL, offsetof(EchCudaOptions, verify), "true", NULL, NULL, NULL, "check buffers that nothing writes"},
    {"blas", ECH_PARAM_BOOL, offsetof(EchCudaOptions, blas), "true", NULL, NULL, NULL, "matrix products by cuBLAS where it is installed"},
    {"max_ops", ECH_PARAM_U64, offsetof(EchCudaOptions, max_ops), "100000", "1", "10000000", NULL, "most op instances"},
    {0},
};

void ech_cuda_run_free(EchCudaRun *run)
{
    if (!run)
        return;
    g_free(run->ops);
    g_free(run->makespans);
    g_free(run->gpu);
    if (run->trace)
        ech_trace_unref(run->trace);
    ech_diag_free(run->diag);
    g_free(run);
}

static bool check_gpu(const Engine *e, GError **error)
{
    bool lacks_vmm = e->options->alloc == ECH_CUDA_ALLOC_VMM && e->gpu.page == 0, lacks_pools = e->options->alloc == ECH_CUDA_ALLOC_ASYNC && !e->gpu.has_pools;
    if (lacks_vmm || lacks_pools)
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s has no %s; expected another alloc", e->gpu.name,
                    lacks_vmm ? "virtual memory management" : "memory pools");
    return !lacks_vmm && !lacks_pools;
}

static bool make_streams(Engine *e, GError **error)
{
    for (e->n_streams = 0; e->n_streams < MAX(ech_trace_n_queues(e->trace), 1); e->n_streams++) {
        if (!CU(e, stream_create, "making a stream", error, &e->streams[e->n_streams], ECH_CU_STREAM_NON_BLOCKING) ||
            !CU(e, event_create, "making an event", error, &e->done[e->n_streams], ECH_CU_EVENT_DEFAULT))
            return false;
    }
    return true;
}

static bool set_up_pool(Engine *e, GError **error)
{
    EchCuPool pool;
    uint64_t threshold = e->options->release_threshold, none = 0;
    int reuse = e->options->pool_reuse != 0;
    const struct {
        EchCuPoolAttribute attribute;
        void *value;
    } attributes[] = {{ECH_CU_POOL_REUSE_AFTER_EVENTS, &reuse},
                      {ECH_CU_POOL_REUSE_OPPORTUNISTIC, &reuse},
                      {ECH_CU_POOL_REUSE_BY_WAITING, &reuse},
                      {ECH_CU_POOL_RELEASE_THRESHOLD, &threshold},
                      {ECH_CU_POOL_RESERVED_HIGH, &none}};
    /* What an earlier replay of this process left in the pool is not this one's. */
    if (!CU(e, default_pool, "finding the memory pool", error, &pool, e->gpu.device) || !CU(e, pool_trim, "emptying the memory pool", error, pool, 0))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(attributes); i++) {
        if (!CU(e, pool_set, "setting up the memory pool", error, pool, attributes[i].attribute, attributes[i].value))
            return false;
    }
    return true;
}

static bool set_up(Engine *e, GError **error)
{
    const EchTrace *trace = e->trace;
    if (!make_streams(e, error) || !ech_cuda_start_work(e, error) || !ech_cuda_plan_memory(e, error))
        return false;
    if (!ech_cuda_fill_scratch(e, error))
        return false;
    if (e->options->alloc == ECH_CUDA_ALLOC_ASYNC && !set_up_pool(e, error))
        return false;
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        if ((e->places[i].kept || (ech_cuda_stays(e, i) && ech_trace_buffers(trace)[i].alias_of == ECH_NONE)) && !ech_cuda_place_buffer(e, i, 0, error))
            return false;
    }
    const EchOp *ops = ech_trace_ops(trace);
    for (EchId at = 0; at < ech_trace_n_ops(trace); at++) {
        for (uint32_t d = ops[at].first_dep; d < ops[at].first_dep + ops[at].n_deps; d++) {
            EchId on = ech_trace_deps(trace)[d].op;
            e->needed[on] |= ops[on].queue != ops[at].queue;
        }
    }
    size_t total;
    return CU(e, event_create, "making an event", error, &e->base, ECH_CU_EVENT_DEFAULT) &&
           CU(e, event_create, "making an event", error, &e->first, ECH_CU_EVENT_DEFAULT) &&
           CU(e, memory_info, "asking for free memory", error, &e->free_idle, &total);
}

/* Gives everything back, whatever was reached. Errors here come after the one worth telling, so they are dropped. */
static void tear_down(Engine *e)
{
    if (e->gpu.context) {
        e->cu->context_synchronize();
        /* Before the queue that it was told last: it may look at that once more. */
        if (e->blas && e->blas_handle)
            e->blas->destroy(e->blas_handle);
        for (EchId i = 0; i < ech_trace_n_buffers(e->trace); i++)
            ech_cuda_release_buffer(e, i, e->n_streams > 0 ? e->streams[0] : NULL, NULL);
        for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
            for (uint64_t k = 0; k < e->instances[i].room; k++) {
                if (e->instances[i].begin[k])
                    e->cu->event_destroy(e->instances[i].begin[k]);
                if (e->instances[i].end[k])
                    e->cu->event_destroy(e->instances[i].end[k]);
                if (e->instances[i].over[k])
                    e->cu->event_destroy(e->instances[i].over[k]);
            }
        }
        for (size_t i = 0; i < MAX(ech_trace_n_queues(e->trace), 1); i++) {
            if (e->done[i])
                e->cu->event_destroy(e->done[i]);
            if (e->streams[i])
                e->cu->stream_destroy(e->streams[i]);
        }
        for (guint i = 0; i < e->marks->len; i++)
            e->cu->event_destroy(g_array_index(e->marks, EchCuEvent, i));
        if (e->base)
            e->cu->event_destroy(e->base);
        if (e->first)
            e->cu->event_destroy(e->first);
        if (e->scratch)
            e->cu->release(e->scratch);
        if (e->sink)
            e->cu->release(e->sink);
        if (e->arena)
            e->cu->release(e->arena);
        for (size_t i = 0; i < ech_trace_n_memories(e->trace); i++) {
            if (e->blocks[i].device)
                e->cu->release(e->blocks[i].device);
            if (e->blocks[i].host)
                ech_cuda_give_host(e, e->blocks[i].host, ech_cuda_is_pinned(e->trace, (EchId)i), NULL);
        }
        for (size_t i = 0; i < MAX(ech_trace_n_queues(e->trace), 1); i++) {
            if (e->workspaces[i])
                e->cu->release(e->workspaces[i]);
        }
        for (unsigned pinned = 0; pinned < 2; pinned++) {
            if (e->host_scratch[pinned])
                ech_cuda_give_host(e, e->host_scratch[pinned], pinned, NULL);
        }
        if (e->module)
            e->cu->module_unload(e->module);
        ech_cuda_close(e->cu, &e->gpu);
    }
    for (size_t i = 0; i < ech_trace_n_ops(e->trace); i++) {
        g_free(e->instances[i].begin);
        g_free(e->instances[i].end);
        g_free(e->instances[i].over);
        g_array_unref(e->durations[i]);
        g_array_unref(e->starts[i]);
    }
    ech_gpu_watch_free(e->watch);
    ech_allocator_free(e->allocator);
    ech_prices_free(e->prices);
    g_free(e->durations);
    g_free(e->starts);
    g_free(e->instances);
    g_free(e->places);
    g_free(e->streams);
    g_free(e->workspaces);
    g_free(e->done);
    g_free(e->needed);
    g_free(e->blocks);
    g_array_unref(e->marks);
    g_array_unref(e->extents);
    g_array_unref(e->freed);
}

/* @ret_fitting: above 0 where the trace does not fit, and would at this scale. */
static EchCudaRun *replay(EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchCudaOptions *options, double *ret_fitting,
                          GError **error)
{
    size_t n_ops = ech_trace_n_ops(trace), n_queues = MAX(ech_trace_n_queues(trace), 1);
    Engine e = {.trace = trace, .options = options, .cu = ech_cuda_driver(error)};
    if (!e.cu)
        return NULL;
    g_autoptr(EchCudaRun) run = e.run = g_new0(EchCudaRun, 1);
    run->diag = ech_diag_new();
    run->trace = ech_trace_ref(trace);
    run->scale = 1;
    run->ops = g_new0(EchCudaOp, n_ops + 1);
    run->n_ops = n_ops;
    run->makespans = g_new0(EchTime, options->repeats);
    EchPriceOptions pricing = {.kernel_time = ECH_KERNEL_TIME_ROOFLINE, .overhead = true, .copy_curve = true};
    e.prices = ech_prices_new(trace, device, reference, &pricing, run->diag);
    e.places = g_new0(Place, ech_trace_n_buffers(trace) + 1);
    e.instances = g_new0(Instances, n_ops + 1);
    e.durations = g_new0(GArray *, n_ops + 1);
    e.starts = g_new0(GArray *, n_ops + 1);
    e.needed = g_new0(bool, n_ops + 1);
    e.freed = g_array_new(FALSE, FALSE, sizeof(Freed));
    e.marks = g_array_new(FALSE, FALSE, sizeof(EchCuEvent));
    e.extents = g_array_new(FALSE, FALSE, sizeof(EchTime));
    e.blocks = g_new0(Block, ech_trace_n_memories(trace) + 1);
    e.device = device;
    e.streams = g_new0(EchCuStream, n_queues);
    e.workspaces = g_new0(EchCuPointer, n_queues);
    e.done = g_new0(EchCuEvent, n_queues);
    for (size_t i = 0; i < n_ops; i++) {
        e.durations[i] = g_array_new(FALSE, FALSE, sizeof(EchTime));
        e.starts[i] = g_array_new(FALSE, FALSE, sizeof(EchTime));
    }
    bool ok = ech_cuda_open(e.cu, (int)options->gpu, &e.gpu, error);
    if (ok) {
        run->gpu = g_strdup(e.gpu.name);
        run->driver_version = e.gpu.driver_version;
        e.watch = ech_gpu_watch_new(&e.gpu);
        ech_gpu_watch_stay_near(e.watch);
        ok = check_gpu(&e, error) && set_up(&e, error) && ech_cuda_replay_all(&e, error);
    }
    tear_down(&e);
    *ret_fitting = e.fitting;
    return ok ? g_steal_pointer(&run) : NULL;
}

EchCudaRun *ech_cuda_replay(EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchCudaOptions *options, GError **error)
{
    g_autoptr(GError) own = NULL;
    double fitting = 0;
    EchCudaRun *run = replay(trace, device, reference, options, &fitting, &own);
    if (run || !(fitting > 0) || !options->scale) {
        if (own)
            g_propagate_error(error, g_steal_pointer(&own));
        return run;
    }
    EchCudaOptions small = *options;
    small.verify = 0; /* Neighbours of a plan overlap by a few bytes when it is scaled */
    /* What the engine needs beside the trace does not shrink in step: a second and third try. */
    double scale = 1;
    for (int i = 0; !run && fitting > 0 && i < 8; i++) {
        scale *= fitting;
        fitting = 0;
        g_clear_error(&own);
        g_autoptr(EchTrace) scaled = ech_cuda_scale_trace(trace, scale, &own);
        run = scaled ? replay(scaled, device, reference, &small, &fitting, &own) : NULL;
    }
    if (!run) {
        g_propagate_error(error, g_steal_pointer(&own));
        return NULL;
    }
    run->scale = scale;
    ech_diag_remark(run->diag, "every size was scaled by %.4f to fit the GPU; operations were not, and buffers were not verified", scale);
    return run;
}
