/* No pooling: every request is a cudaMalloc, every free a cudaFree, which waits for the device (XLA's "platform" allocator,
 * PYTORCH_NO_CUDA_MEMORY_CACHING=1). */
#include "models/alloc/class.h"

#include <string.h>

/* A page of the driver's that small requests share, in units of UNIT bytes. */
typedef struct {
    uint64_t address; /* UINT64_MAX: no page; its place is used again */
    uint32_t segment, n_used;
    uint8_t *used; /* used[units of a page] */
} Page;

typedef struct {
    EchAllocator base;
    EchBytes granule, share_below;
    uint64_t mapped;
    GArray *pages;
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
    return true;
}

static void platform_done(EchAllocator *base)
{
    Platform *self = (Platform *)base;
    for (guint i = 0; self->pages && i < self->pages->len; i++)
        g_free(g_array_index(self->pages, Page, i).used);
    g_clear_pointer(&self->pages, g_array_unref);
}

/* First run of @wanted free units; SIZE_MAX where there is none. */
static size_t find_run(const Page *page, size_t units, size_t wanted)
{
    if (units - page->n_used < wanted)
        return SIZE_MAX;
    for (size_t at = 0, run = 0; at < units; at++) {
        run = page->used[at] ? 0 : run + 1;
        if (run == wanted)
            return at + 1 - wanted;
    }
    return SIZE_MAX;
}

/* A page for small requests: a place that has none, else a new one. */
static bool take_page(Platform *self, guint *ret)
{
    Page page = {.used = NULL};
    if (!ech_alloc_take_segment(&self->base, self->granule, &page.address, &page.segment))
        return false;
    page.used = g_malloc0(self->granule / UNIT);
    guint at = 0;
    while (at < self->pages->len && g_array_index(self->pages, Page, at).address != UINT64_MAX)
        at++;
    if (at == self->pages->len)
        g_array_append_val(self->pages, page);
    else
        g_array_index(self->pages, Page, at) = page;
    *ret = at;
    return true;
}

static bool share_page(Platform *self, EchBytes bytes, EchLive *live)
{
    size_t units = self->granule / UNIT, wanted = (size_t)(ech_round_up(bytes, UNIT) / UNIT), run = SIZE_MAX;
    guint at = 0;
    for (; at < self->pages->len; at++) {
        const Page *page = &g_array_index(self->pages, Page, at);
        run = page->address == UINT64_MAX ? SIZE_MAX : find_run(page, units, wanted);
        if (run != SIZE_MAX)
            break;
    }
    if (run == SIZE_MAX) {
        if (!take_page(self, &at))
            return false;
        run = 0;
    }
    Page *page = &g_array_index(self->pages, Page, at);
    memset(page->used + run, 1, wanted);
    page->n_used += (uint32_t)wanted;
    live->address = page->address + run * UNIT;
    live->segment = page->segment;
    live->rounded = wanted * UNIT;
    live->handle = at + 1;
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
    Page *page = &g_array_index(self->pages, Page, live->handle - 1);
    size_t n = live->rounded / UNIT;
    memset(page->used + (live->address - page->address) / UNIT, 0, n);
    page->n_used -= (uint32_t)n;
    if (page->n_used > 0)
        return;
    ech_alloc_give_segment(base, page->address, self->granule);
    g_clear_pointer(&page->used, g_free);
    page->address = UINT64_MAX;
}

/* Calls @add for every run of free units of a page. */
static void each_free_run(const Platform *self, void (*add)(const Page *page, size_t first, size_t n, void *data), void *data)
{
    size_t units = self->granule / UNIT;
    for (guint i = 0; i < self->pages->len; i++) {
        const Page *page = &g_array_index(self->pages, Page, i);
        for (size_t at = 0, run = 0; page->address != UINT64_MAX && at <= units; at++) {
            if (at < units && !page->used[at]) {
                run++;
                continue;
            }
            if (run > 0)
                add(page, at - run, run, data);
            run = 0;
        }
    }
}

static void add_block(const Page *page, size_t first, size_t n, void *data)
{
    EchAllocBlock block = {.segment = page->segment, .state = ECH_BLOCK_FREE, .address = page->address + first * UNIT, .bytes = n * UNIT, .id = UINT32_MAX};
    g_array_append_val((GArray *)data, block);
}

static void note_largest(const Page *page, size_t first, size_t n, void *data)
{
    (void)page, (void)first;
    EchBytes *largest = data;
    *largest = MAX(*largest, n * UNIT);
}

static void platform_walk(const EchAllocator *base, GArray *out)
{
    each_free_run((const Platform *)base, add_block, out);
}

static EchBytes platform_largest(const EchAllocator *base)
{
    EchBytes largest = 0;
    each_free_run((const Platform *)base, note_largest, &largest);
    return largest;
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
