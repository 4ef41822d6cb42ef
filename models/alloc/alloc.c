#include "models/alloc/class.h"
#include "models/alloc/pytorch_conf.h"

#include "sim/base/error.h"

#include <string.h>

#define ECH_ALLOCATOR(symbol) extern const EchAllocClass ech_alloc_##symbol;
#include "models/alloc/allocators.def"
#undef ECH_ALLOCATOR

static const EchAllocClass *const classes[] = {
#define ECH_ALLOCATOR(symbol) &ech_alloc_##symbol,
#include "models/alloc/allocators.def"
#undef ECH_ALLOCATOR
};

/* The table of live allocations: pages that exist only while something in them is live, so that memory follows the live blocks. */
enum { PAGE_BITS = 9, PAGE_ITEMS = 1 << PAGE_BITS };
struct EchLivePage {
    EchLive items[PAGE_ITEMS]; /* first, and on a cache line: no item lies in two */
    uint32_t n;
};
enum { CACHE_LINE = 64 };

const EchAllocInfo *ech_alloc_infos(size_t *ret_n)
{
    static EchAllocInfo infos[G_N_ELEMENTS(classes)];
    static gsize once;
    if (g_once_init_enter(&once)) {
        for (size_t i = 0; i < G_N_ELEMENTS(classes); i++)
            infos[i] = (EchAllocInfo){classes[i]->name, classes[i]->summary, classes[i]->source, classes[i]->params};
        g_once_init_leave(&once, 1);
    }
    *ret_n = G_N_ELEMENTS(classes);
    return infos;
}

/* Frameworks' environment variables stand for their allocator: the class and what text it gets. */
static const struct {
    const char *prefix, *name;
    bool whole; /* the class reads the variable's name too */
} variables[] = {
    {"XLA_", "jax", true},
    {"TF_", "tensorflow", true},
    {"CUPY_GPU_MEMORY_LIMIT=", "cupy", true},
    {"PYTORCH_CUDA_ALLOC_CONF=", "pytorch", false},
    {"PYTORCH_ALLOC_CONF=", "pytorch", false},
    {"PYTORCH_HIP_ALLOC_CONF=", "pytorch", false},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING=", "pytorch", true},
};

/* PyTorch's reader drops blanks wherever they stand. Quotes around it all are a shell's. */
static void strip_blanks(char *text)
{
    size_t n = strlen(text);
    bool quoted = n > 1 && (*text == '\'' || *text == '"') && text[n - 1] == *text;
    char *to = text;
    for (const char *from = text + quoted; from < text + n - quoted; from++) {
        if (*from != ' ')
            *to++ = *from;
    }
    *to = '\0';
}

static const EchAllocClass *find_class(const char *spec, char **ret_text, GError **error)
{
    g_autofree char *name = NULL;
    g_autofree char *text = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(variables); i++) {
        if (g_str_has_prefix(spec, variables[i].prefix)) {
            name = g_strdup(variables[i].name);
            text = g_strdup(variables[i].whole ? spec : spec + strlen(variables[i].prefix));
            break;
        }
    }
    if (!name)
        ech_spec_split(spec, &name, &text);
    /* A setting of PyTorch's alone: "expandable_segments:True". */
    if (text && ech_pytorch_is_setting(name)) {
        g_free(name);
        g_free(text);
        name = g_strdup("pytorch");
        text = g_strdup(spec);
    }
    if (g_str_has_prefix(name, "pytorch") && text)
        strip_blanks(text);
    /* Some of these words choose another allocator altogether. */
    static const struct {
        const char *name, *word, *instead;
        bool keep_text;
    } choices[] = {
        {"jax", "XLA_PYTHON_CLIENT_ALLOCATOR=platform", "platform", false},
        {"jax", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "cuda_async", true},
        {"tensorflow", "TF_GPU_ALLOCATOR=cuda_malloc_async", "cuda_async", true},
        {"tensorflow", "TF_GPU_ALLOCATOR=cuda_malloc", "platform", false},
        {"pytorch", "backend:cudaMallocAsync", "cuda_async", true},
        {"pytorch", "backend:hipMallocAsync", "cuda_async", true},
        {"pytorch", "PYTORCH_NO_CUDA_MEMORY_CACHING=", "platform", false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(choices); i++) {
        if (strcmp(name, choices[i].name) != 0 || !text || !strstr(text, choices[i].word))
            continue;
        g_free(name);
        name = g_strdup(choices[i].instead);
        if (!choices[i].keep_text)
            g_clear_pointer(&text, g_free);
        break;
    }
    const char *names[G_N_ELEMENTS(classes) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++) {
        if (strcmp(classes[i]->name, name) == 0) {
            *ret_text = g_steal_pointer(&text);
            return classes[i];
        }
        names[i] = classes[i]->name;
    }
    const char *nearest = ech_nearest_name(name, names);
    g_autofree char *setting = g_strndup(name, strcspn(name, "="));
    if (ech_pytorch_is_setting(setting)) {
        const char *value = name + strlen(setting);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no allocator; PyTorch's settings are written '%s:%s'", spec, setting,
                    *value ? value + 1 : "VALUE");
    } else if (nearest) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no allocator; did you mean '%s'?", name, nearest);
    } else {
        g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no allocator; expected one of %s", name, all);
    }
    return NULL;
}

EchAllocator *ech_allocator_new(const char *spec, const EchAllocDevice *device, GError **error)
{
    g_autofree char *text = NULL;
    const EchAllocClass *class = find_class(spec, &text, error);
    if (!class)
        return NULL;
    g_autoptr(EchAllocator) self = g_malloc0(class->size);
    self->class = class;
    self->name = g_strdup(spec);
    self->limit = device->capacity;
    ech_device_memory_init(&self->memory, device->capacity, device->granule);
    self->total = self->memory.capacity + MIN(device->context, UINT64_C(1) << 46);
    self->memory.order = device->order;
    if (class->params)
        ech_params_defaults(class->params, self);
    bool ok = class->configure ? class->configure(self, text, error) : ech_params_parse(class->params, self, text, error);
    if (ok && class->init)
        ok = class->init(self, error);
    if (!ok) {
        g_prefix_error(error, "%s: ", spec);
        return NULL;
    }
    return g_steal_pointer(&self);
}

void ech_allocator_free(EchAllocator *self)
{
    if (!self)
        return;
    if (self->class->done)
        self->class->done(self);
    if (self->class->params)
        ech_params_clear(self->class->params, self);
    for (size_t i = 0; i < self->n_pages; i++)
        g_aligned_free(self->pages[i]);
    g_free(self->pages);
    ech_device_memory_clear(&self->memory);
    g_free(self->name);
    g_free(self->fault);
    g_free(self->note);
    g_clear_pointer(&self->own, g_array_unref);
    g_free(self);
}

/* The record of a live allocation, or NULL. */
static EchLive *find_live(EchAllocator *self, uint32_t id)
{
    size_t page = id >> PAGE_BITS;
    if (page >= self->n_pages || !self->pages[page])
        return NULL;
    EchLive *live = &self->pages[page]->items[id & (PAGE_ITEMS - 1)];
    return live->rounded ? live : NULL;
}

/* It was taken from the device beside the allocator. */
static bool is_direct(const EchLive *live)
{
    return live->segment == UINT32_MAX;
}

void ech_alloc_prefetch(const EchAllocator *self, uint32_t id, unsigned stage)
{
    size_t page = id >> PAGE_BITS;
    if (page >= self->n_pages || !self->pages[page])
        return;
    const EchLive *live = &self->pages[page]->items[id & (PAGE_ITEMS - 1)];
    if (stage == 0) {
        __builtin_prefetch(live);
        __builtin_prefetch(&self->pages[page]->n);
    } else if (live->rounded && !is_direct(live)) {
        self->class->prefetch(self, live, stage - 1);
    }
}

/* The slot of an id that is not live; NULL if it is. */
static EchLive *slot(EchAllocator *self, uint32_t id)
{
    size_t page = id >> PAGE_BITS;
    if (G_UNLIKELY(page >= self->n_pages)) {
        size_t n = MAX(page + 1, self->n_pages * 2);
        self->pages = g_renew(EchLivePage *, self->pages, n);
        memset(self->pages + self->n_pages, 0, (n - self->n_pages) * sizeof *self->pages);
        self->n_pages = n;
    }
    if (G_UNLIKELY(!self->pages[page]))
        self->pages[page] = g_aligned_alloc0(1, sizeof(EchLivePage), CACHE_LINE);
    EchLive *live = &self->pages[page]->items[id & (PAGE_ITEMS - 1)];
    return live->rounded ? NULL : live;
}

static void count_live(EchAllocator *self, const EchLive *live)
{
    EchAllocStats *stats = &self->stats;
    stats->live += live->rounded;
    stats->requested += live->requested;
    stats->peak_requested = MAX(stats->peak_requested, stats->requested);
    if (stats->live > stats->peak_live) {
        stats->peak_live = stats->live;
        stats->waste_at_peak = stats->live - stats->requested;
    }
}

static void note_taken(EchAllocator *self)
{
    self->stats.peak_taken = MAX(self->stats.peak_taken, self->stats.reserved + self->stats.direct);
}

/* The device has what it has not handed to the allocator: none of that comes back for such a request. Small ones share a granule (as cudaMalloc has them; see
 * platform.c). */
static bool take_beside(EchAllocator *self, EchBytes bytes, EchLive *live)
{
    enum { UNIT = 512 };
    EchAllocStats *stats = &self->stats;
    EchBytes taken = stats->reserved + stats->direct, capacity = self->memory.capacity, granule = self->memory.granule;
    live->rounded = bytes <= capacity ? ech_round_up(bytes, bytes < granule / 2 ? UNIT : granule) : bytes;
    if (live->rounded > capacity - MIN(capacity, taken) || !ech_device_memory_take_beside(&self->memory, live->rounded, &live->address))
        return false;
    live->segment = UINT32_MAX;
    stats->direct += live->rounded;
    stats->peak_direct = MAX(stats->peak_direct, stats->direct);
    note_taken(self);
    return true;
}

/* What other processes leave of the device. */
static EchBytes capacity_here(const EchAllocator *self)
{
    return self->memory.capacity - MIN(self->memory.capacity, self->memory.elsewhere);
}

/* An allocator of one range asks no device for what it hands out: it may have what is not taken beside it, or by other processes. */
static bool place(EchAllocator *self, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    live->segment = 0;
    if (self->stats.direct == 0 && self->memory.elsewhere == 0)
        return self->class->alloc(self, request, live, ret);
    EchAllocStats *stats = &self->stats, before = *stats;
    if (!self->class->alloc(self, request, live, ret))
        return false;
    if (stats->reserved <= before.reserved || stats->reserved + stats->direct <= capacity_here(self))
        return true;
    self->class->release(self, request->id, live);
    *stats = before;
    return false;
}

static void drop_page_if_empty(EchAllocator *self, uint32_t id)
{
    size_t page = id >> PAGE_BITS;
    if (self->pages[page]->n == 0)
        g_clear_pointer(&self->pages[page], g_aligned_free);
}

EchFit ech_allocator_alloc(EchAllocator *self, const EchAllocRequest *request, EchPlacement *ret)
{
    if (request->bytes == 0) {
        *ret = (EchPlacement){.address = ECH_ADDRESS_NONE, .segment = UINT32_MAX, .reservation = -1};
        return ECH_FIT_OK;
    }
    EchLive *live = slot(self, request->id);
    if (!live)
        return ECH_FIT_FULL;
    EchPlacement placement;
    placement.offset = 0;
    placement.reservation = -1;
    if (request->direct ? !take_beside(self, request->bytes, live) : !place(self, request, live, &placement)) {
        live->rounded = 0;
        drop_page_if_empty(self, request->id);
        self->stats.failed++;
        EchBytes there = capacity_here(self), most = request->direct ? there : MIN(self->limit, there), used = self->stats.live + self->stats.direct;
        return request->bytes > most - MIN(most, used) ? ECH_FIT_FULL : ECH_FIT_FRAGMENTED;
    }
    live->requested = request->bytes;
    self->pages[request->id >> PAGE_BITS]->n++;
    self->stats.allocs++;
    if (!request->direct)
        count_live(self, live);
    placement.rounded = live->rounded;
    placement.address = live->address;
    placement.segment = live->segment;
    *ret = placement;
    return ECH_FIT_OK;
}

bool ech_alloc_seed_live(EchAllocator *self, uint32_t id, const EchLive *live)
{
    EchLive *mine = slot(self, id);
    if (!mine)
        return false;
    *mine = *live;
    self->pages[id >> PAGE_BITS]->n++;
    count_live(self, live);
    return true;
}

bool ech_allocator_release(EchAllocator *self, uint32_t id)
{
    EchLive *live = find_live(self, id);
    if (!live)
        return false;
    self->stats.frees++;
    if (is_direct(live)) {
        self->stats.direct -= live->rounded;
        ech_device_memory_give_beside(&self->memory, live->address, live->rounded);
    } else {
        self->stats.live -= live->rounded;
        self->stats.requested -= live->requested;
        self->class->release(self, id, live);
    }
    live->rounded = 0;
    EchLivePage *page = self->pages[id >> PAGE_BITS];
    if (--page->n == 0)
        g_clear_pointer(&self->pages[id >> PAGE_BITS], g_aligned_free);
    return true;
}

void ech_allocator_record_stream(EchAllocator *self, uint32_t id, uint32_t stream)
{
    const EchLive *live = self->class->record_stream ? find_live(self, id) : NULL;
    if (live && !is_direct(live))
        self->class->record_stream(self, id, live, stream);
}

void ech_allocator_stream_done(EchAllocator *self, uint32_t stream)
{
    if (self->class->stream_done)
        self->class->stream_done(self, stream);
}

bool ech_allocator_orders_streams(const EchAllocator *self)
{
    return self->class->free_on != NULL;
}

bool ech_allocator_free_on(EchAllocator *self, uint32_t id, uint32_t stream, uint64_t stamp)
{
    const EchLive *live = self->class->free_on ? find_live(self, id) : NULL;
    if (live && !is_direct(live))
        self->class->free_on(self, id, live, stream, stamp);
    return ech_allocator_release(self, id);
}

void ech_allocator_ordered(EchAllocator *self, uint32_t stream, uint64_t stamp)
{
    if (self->class->ordered)
        self->class->ordered(self, stream, stamp);
}

void ech_allocator_passed(EchAllocator *self, uint64_t stamp)
{
    if (self->class->passed)
        self->class->passed(self, stamp);
}

void ech_allocator_pool_done(EchAllocator *self, uint32_t stream)
{
    if (self->class->pool_done)
        self->class->pool_done(self, stream);
}

void ech_allocator_set_expandable(EchAllocator *self, bool on)
{
    if (self->class->set_expandable)
        self->class->set_expandable(self, on);
}

void ech_allocator_stats(const EchAllocator *self, EchAllocStats *ret)
{
    *ret = self->stats;
    if (self->class->largest_free) {
        ret->largest_free = self->class->largest_free(self);
    } else if (self->class->walk_free) {
        g_autoptr(GArray) blocks = g_array_new(FALSE, FALSE, sizeof(EchAllocBlock));
        self->class->walk_free(self, blocks);
        for (guint i = 0; i < blocks->len; i++)
            ret->largest_free = MAX(ret->largest_free, g_array_index(blocks, EchAllocBlock, i).bytes);
    }
}

void ech_allocator_driver(const EchAllocator *self, EchDriverCalls *ret)
{
    const EchDeviceMemory *memory = &self->memory;
    *ret = (EchDriverCalls){.takes = memory->takes - memory->maps,
                            .gives = memory->gives - memory->unmaps,
                            .taken = memory->taken,
                            .given = memory->given,
                            .maps = memory->maps,
                            .unmaps = memory->unmaps,
                            .pieces_mapped = memory->pieces_mapped,
                            .pieces_unmapped = memory->pieces_unmapped,
                            .mapped = memory->mapped,
                            .unmapped = memory->unmapped};
}

bool ech_allocator_free_waits(const EchAllocator *self)
{
    return self->class->release_waits;
}

bool ech_allocator_maps(const EchAllocator *self)
{
    return self->memory.maps_ranges;
}

void ech_allocator_counters(const EchAllocator *self, EchAllocStats *ret)
{
    *ret = self->stats;
}

void ech_allocator_reset_peaks(EchAllocator *self)
{
    EchAllocStats *stats = &self->stats;
    stats->peak_live = stats->live;
    stats->peak_requested = stats->requested;
    stats->waste_at_peak = stats->live - stats->requested;
    stats->peak_reserved = stats->reserved;
    stats->peak_direct = stats->direct;
    stats->peak_taken = stats->reserved + stats->direct;
}

const EchAllocStat *ech_allocator_own_stats(EchAllocator *self, size_t *ret_n)
{
    if (!self->own)
        self->own = g_array_new(FALSE, FALSE, sizeof(EchAllocStat));
    g_array_set_size(self->own, 0);
    if (self->class->own_stats)
        self->class->own_stats(self, self->own);
    *ret_n = self->own->len;
    return (const EchAllocStat *)(const void *)self->own->data;
}

EchBytes ech_allocator_kept(const EchAllocator *self, uint32_t stream, bool private_pool)
{
    return self->class->kept ? self->class->kept(self, stream, private_pool) : 0;
}

void ech_alloc_add_stat(GArray *out, const char *name, int64_t value)
{
    EchAllocStat stat = {name, value};
    g_array_append_val(out, stat);
}

EchBytes ech_allocator_capacity(const EchAllocator *self)
{
    return self->memory.capacity;
}

void ech_allocator_set_elsewhere(EchAllocator *self, EchBytes bytes)
{
    self->memory.elsewhere = bytes;
}

const char *ech_allocator_name(const EchAllocator *self)
{
    return self->name;
}

const char *ech_allocator_note(const EchAllocator *self)
{
    return self->note ? self->note : self->class->note;
}

const char *ech_allocator_fault(const EchAllocator *self)
{
    return self->fault;
}

bool ech_allocator_seed(EchAllocator *self, const EchSeedBlock *blocks, size_t n, GError **error)
{
    if (!self->class->seed) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "allocator %s takes no recorded start state", self->class->name);
        return false;
    }
    return self->class->seed(self, blocks, n, error);
}

bool ech_allocator_empty_cache(EchAllocator *self)
{
    if (!self->class->empty_cache)
        return false;
    self->class->empty_cache(self);
    return true;
}

void ech_allocator_script(EchAllocator *self, const EchSegmentRange *ranges, size_t n)
{
    g_clear_pointer(&self->memory.script_used, g_free);
    self->memory.script = ranges;
    self->memory.n_script = n;
    self->memory.script_used = g_new0(bool, n + 1);
}

bool ech_allocator_give_back(EchAllocator *self, uint64_t address, EchBytes bytes)
{
    return self->class->give_back && self->class->give_back(self, address, bytes);
}

void ech_allocator_inject_failure(EchAllocator *self, uint64_t skip, uint64_t n)
{
    self->memory.fail_skip = skip;
    self->memory.fail = n;
}

/* Every live allocation of the allocator's in order of id. */
static void each_live(const EchAllocator *self, void (*fn)(uint32_t id, const EchLive *live, void *data), void *data)
{
    for (size_t i = 0; i < self->n_pages; i++) {
        if (!self->pages[i])
            continue;
        for (uint32_t j = 0; j < PAGE_ITEMS; j++) {
            if (self->pages[i]->items[j].rounded && !is_direct(&self->pages[i]->items[j]))
                fn((uint32_t)(i << PAGE_BITS) + j, &self->pages[i]->items[j], data);
        }
    }
}

static void add_used(uint32_t id, const EchLive *live, void *data)
{
    EchAllocBlock block = {
        .segment = live->segment, .state = ECH_BLOCK_USED, .address = live->address, .bytes = live->rounded, .requested = live->requested, .id = id};
    g_array_append_val((GArray *)data, block);
}

static int compare_blocks(const void *a, const void *b)
{
    const EchAllocBlock *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

EchAllocBlock *ech_allocator_blocks(const EchAllocator *self, size_t *ret_n)
{
    GArray *out = g_array_new(FALSE, FALSE, sizeof(EchAllocBlock));
    each_live(self, add_used, out);
    if (self->class->walk_free)
        self->class->walk_free(self, out);
    if (out->len)
        g_array_sort(out, compare_blocks);
    *ret_n = out->len;
    return (EchAllocBlock *)(void *)g_array_free(out, FALSE);
}

void ech_alloc_walk_holes(const EchAllocator *self, uint64_t end, GArray *out)
{
    g_autoptr(GArray) used = g_array_new(FALSE, FALSE, sizeof(EchAllocBlock));
    each_live(self, add_used, used);
    if (used->len)
        g_array_sort(used, compare_blocks);
    uint64_t at = 0;
    for (unsigned i = 0; i <= used->len; i++) {
        const EchAllocBlock *next = i < used->len ? &g_array_index(used, EchAllocBlock, i) : NULL;
        uint64_t stop = next ? next->address : end;
        EchAllocBlock hole = {.state = ECH_BLOCK_FREE, .address = at, .bytes = stop > at ? stop - at : 0, .id = UINT32_MAX};
        if (hole.bytes)
            g_array_append_val(out, hole);
        at = next ? next->address + next->bytes : stop;
    }
}

bool ech_alloc_take_segment(EchAllocator *self, EchBytes bytes, uint64_t *ret_address, uint32_t *ret_segment)
{
    if (!ech_device_memory_take(&self->memory, bytes, ret_address))
        return false;
    *ret_segment = self->n_segments++;
    self->stats.segments_allocated++;
    ech_alloc_count_reserved(self, bytes, 0);
    return true;
}

void ech_alloc_give_segment(EchAllocator *self, uint64_t address, EchBytes bytes)
{
    ech_device_memory_give(&self->memory, address, bytes);
    self->stats.segments_freed++;
    ech_alloc_count_reserved(self, 0, bytes);
}

void ech_alloc_count_reserved(EchAllocator *self, EchBytes added, EchBytes removed)
{
    self->stats.reserved += added;
    self->stats.reserved -= removed;
    self->stats.peak_reserved = MAX(self->stats.peak_reserved, self->stats.reserved);
    note_taken(self);
}
