/* No pooling: every request is a cudaMalloc, every free a cudaFree, which waits for the device (XLA's "platform" allocator,
 * PYTORCH_NO_CUDA_MEMORY_CACHING=1). */
#include "models/alloc/class.h"

/* A page of the driver's that small requests share. */
typedef struct {
    uint64_t address;
    uint32_t segment, n_live; /* n_live 0: no page; its place is used again */
} Page;

typedef struct {
    EchAllocator base;
    EchBytes granule, share_below;
    uint64_t mapped;
    GArray *pages;
    EchGaps free;   /* Of page k from k page_stride() on: pages never touch, and the first that has room comes first. */
    EchGaps places; /* Numbers without a page. */
    uint64_t synchronisations;
} Platform;

enum { UNIT = 512 };

static const EchParam params[] = {
    {"granule", ECH_PARAM_BYTES, offsetof(Platform, granule), "2MiB", "256", "1GiB", NULL, "bytes a device allocation is rounded up to"},
    {"share_below", ECH_PARAM_BYTES, offsetof(Platform, share_below), "0", NULL, "1GiB", NULL,
     "requests up to here share granules, in steps of 512 bytes; 0: none do (calibrate measures it)"},
    {"mapped", ECH_PARAM_BOOL, offsetof(Platform, mapped), "false", NULL, NULL, NULL,
     "each request is mapped into addresses of its own, in one piece of physical memory (cuMemCreate, cuMemMap, cuMemSetAccess), instead of a cudaMalloc"},
    {0},
};

static bool platform_init(EchAllocator *base, GError **error)
{
    (void)error;
    Platform *self = (Platform *)base;
    base->memory.granule = self->granule;
    base->memory.maps_ranges = self->mapped != 0;
    self->pages = g_array_new(FALSE, FALSE, sizeof(Page));
    ech_gaps_add(&self->places, 0, UINT32_MAX);
    return true;
}

static void platform_done(EchAllocator *base)
{
    Platform *self = (Platform *)base;
    g_clear_pointer(&self->pages, g_array_unref);
    ech_gaps_clear(&self->free);
    ech_gaps_clear(&self->places);
}

static uint64_t page_stride(const Platform *self)
{
    return self->granule + UNIT;
}

/* A page for small requests, at the first number that has none; all of it is free. */
static bool take_page(Platform *self, uint64_t *ret_at)
{
    Page page = {.n_live = 0};
    uint64_t number = 0;
    if (!ech_gaps_find(&self->places, 0, 1, &number) || !ech_alloc_take_segment(&self->base, self->granule, &page.address, &page.segment))
        return false;
    ech_gaps_take(&self->places, number, 1);
    if (number == self->pages->len)
        g_array_append_val(self->pages, page);
    else
        g_array_index(self->pages, Page, number) = page;
    *ret_at = number * page_stride(self);
    ech_gaps_add(&self->free, *ret_at, self->granule);
    return true;
}

static bool share_page(Platform *self, EchBytes bytes, EchLive *live)
{
    uint64_t at;
    live->rounded = ech_round_up(bytes, UNIT);
    if (!ech_gaps_find(&self->free, 0, live->rounded, &at) && !take_page(self, &at))
        return false;
    ech_gaps_take(&self->free, at, live->rounded);
    uint32_t number = (uint32_t)(at / page_stride(self));
    Page *page = &g_array_index(self->pages, Page, number);
    page->n_live++;
    live->address = page->address + at % page_stride(self);
    live->segment = page->segment;
    live->handle = number + 1;
    return true;
}

static bool platform_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Platform *self = (Platform *)base;
    ret->offset = 0;
    if (request->bytes > base->memory.capacity)
        return false;
    if (!self->mapped && request->bytes <= self->share_below && request->bytes <= self->granule / 2 && self->granule % UNIT == 0) {
        if (!share_page(self, request->bytes, live))
            return false;
        ret->offset = live->address - g_array_index(self->pages, Page, live->handle - 1).address;
        return true;
    }
    EchBytes bytes = ech_round_up(request->bytes, base->memory.granule);
    if (!ech_alloc_take_segment(base, bytes, &live->address, &live->segment))
        return false;
    live->rounded = bytes;
    live->handle = 0;
    return true;
}

static void platform_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Platform *self = (Platform *)base;
    self->synchronisations++;
    if (live->handle == 0) {
        ech_alloc_give_segment(base, live->address, live->rounded);
        return;
    }
    uint32_t number = live->handle - 1;
    uint64_t first = number * page_stride(self);
    Page *page = &g_array_index(self->pages, Page, number);
    ech_gaps_add(&self->free, first + (live->address - page->address), live->rounded);
    if (--page->n_live > 0)
        return;
    ech_gaps_take(&self->free, first, self->granule);
    ech_gaps_add(&self->places, number, 1);
    ech_alloc_give_segment(base, page->address, self->granule);
}

typedef struct {
    const Platform *self;
    GArray *out;
} Visit;

static void visit(uint64_t at, uint64_t bytes, void *data)
{
    const Visit *state = data;
    const Page *page = &g_array_index(state->self->pages, Page, at / page_stride(state->self));
    EchAllocBlock block = {
        .segment = page->segment, .state = ECH_BLOCK_FREE, .address = page->address + at % page_stride(state->self), .bytes = bytes, .id = UINT32_MAX};
    g_array_append_val(state->out, block);
}

static void platform_walk(const EchAllocator *base, GArray *out)
{
    Visit state = {(const Platform *)base, out};
    ech_gaps_each(&state.self->free, visit, &state);
}

/* The longest range of all is what the root knows. */
static EchBytes platform_largest(const EchAllocator *base)
{
    const EchGaps *free = &((const Platform *)base)->free;
    return free->root ? free->nodes[free->root].longest : 0;
}

static void platform_own_stats(EchAllocator *base, GArray *out)
{
    ech_alloc_add_stat(out, base->memory.maps_ranges ? "cuMemMap" : "cudaMalloc", (int64_t)base->memory.takes);
    ech_alloc_add_stat(out, base->memory.maps_ranges ? "cuMemUnmap" : "cudaFree", (int64_t)base->memory.gives);
    ech_alloc_add_stat(out, "device_synchronisations", (int64_t)((const Platform *)base)->synchronisations);
}

const EchAllocClass ech_alloc_platform = {
    .name = "platform",
    .summary = "a cudaMalloc per request and a synchronising cudaFree per free",
    .source = "XLA_PYTHON_CLIENT_ALLOCATOR=platform; CUDA runtime API, cudaFree",
    .note = "placement is a model: the driver lets small requests share a 2 MiB page (share_below=1MiB); granule=512 counts bytes without pages",
    .release_waits = true,
    .size = sizeof(Platform),
    .params = params,
    .init = platform_init,
    .done = platform_done,
    .alloc = platform_alloc,
    .release = platform_release,
    .largest_free = platform_largest,
    .walk_free = platform_walk,
    .own_stats = platform_own_stats,
};
