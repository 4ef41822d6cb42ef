/* No pooling: every request is a cudaMalloc, every free a cudaFree, which waits for the device (XLA's "platform" allocator,
 * PYTORCH_NO_CUDA_MEMORY_CACHING=1). */
#include "models/alloc/class.h"

typedef struct {
    EchAllocator base;
    EchBytes granule;
    uint64_t synchronisations;
} Platform;

static const EchParam params[] = {
    {"granule", ECH_PARAM_BYTES, offsetof(Platform, granule), "2MiB", "256", "1GiB", NULL, "bytes a device allocation is rounded up to"},
    {0},
};

static bool platform_init(EchAllocator *base, GError **error)
{
    (void)error;
    base->memory.granule = ((Platform *)base)->granule;
    return true;
}

static bool platform_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    if (request->bytes > base->memory.capacity)
        return false;
    EchBytes bytes = ech_round_up(request->bytes, base->memory.granule);
    if (!ech_alloc_take_segment(base, bytes, &live->address, &live->segment))
        return false;
    live->rounded = bytes;
    ret->offset = 0;
    return true;
}

static void platform_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    ((Platform *)base)->synchronisations++;
    ech_alloc_give_segment(base, live->address, live->rounded);
}

static void platform_own_stats(EchAllocator *base, GArray *out)
{
    ech_alloc_add_stat(out, "cudaMalloc", (int64_t)base->memory.takes);
    ech_alloc_add_stat(out, "cudaFree", (int64_t)base->memory.gives);
    ech_alloc_add_stat(out, "device_synchronisations", (int64_t)((const Platform *)base)->synchronisations);
}

const EchAllocClass ech_alloc_platform = {
    .name = "platform",
    .summary = "a cudaMalloc per request and a synchronising cudaFree per free",
    .source = "XLA_PYTHON_CLIENT_ALLOCATOR=platform; CUDA runtime API, cudaFree",
    .note = "placement is a model: the driver lets small requests share a 2 MiB page; granule=512 counts bytes without pages",
    .release_waits = true,
    .size = sizeof(Platform),
    .params = params,
    .init = platform_init,
    .alloc = platform_alloc,
    .release = platform_release,
    .own_stats = platform_own_stats,
};
