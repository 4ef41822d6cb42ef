/* XLA's and TensorFlow's BFC allocator, and ONNX Runtime's, which descends from it: best fit with coalescing over regions taken from the device.
 *
 * The free chunks of all bins together are ordered by (bytes, address), because bins split that order into ranges; so one ordered
 * tree gives the same choice as the scan over bins. Host memory follows the chunks, not the pool. */
#include "models/alloc/bfc.h"
#include "models/alloc/chunks.h"
#include "models/alloc/class.h"
#include "models/alloc/tree.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* xla/tsl/framework/bfc_allocator.h:152; bfc_allocator.cc:94-117 (OpenXLA 183fa00c). */
enum { UNIT = 256 };
static const EchBytes MAX_INTERNAL_WASTE = UINT64_C(128) << 20;
static const EchBytes FIRST_REGION = UINT64_C(2) << 20;
/* Below this ONNX Runtime asks the device no more (onnxruntime/core/framework/bfc_arena.cc). */
static const EchBytes LEAST_REGION = 8 << 10;

enum { TAG_LOWER, TAG_UPPER, TAG_GAP, N_TREES = 2 };

typedef struct {
    uint64_t address;
    EchBytes bytes; /* 0: given back, next is the next spare slot */
    uint32_t first, next;
    uint32_t in_use; /* chunks */
    uint32_t number;
} Region;

typedef struct {
    EchAllocator base;
    EchBytes limit, alignment;
    uint64_t growth, coalesce_regions, garbage_collection, two_ended;
    EchBytes collective; /* JAX: taken by the pool for collectives */
    bool unified;
    struct {
        double fraction, capability; /* Of the device's memory, 0: not given; of the device. */
        EchBytes system, limit;
        bool has_system, has_limit;
    } asked; /* TensorFlow: in whatever order */
    double fragmentation_fraction;
    EchBytes pool, next_region, max_waste;
    bool onnxruntime;
    uint64_t same_as_requested;                      /* ONNX Runtime: regions are as large as what is asked for */
    EchBytes first_region, regrowth, largest_region; /* ONNX Runtime: of the first region, of the first after a shrink, up to where they double */
    EchBytes largest_alloc;
    EchChunks chunks;
    EchTree free[N_TREES]; /* (bytes, address) by tag; only the first without two_ended */
    uint32_t gap;          /* the free chunk between the ends, or 0 */
    Region *regions;
    uint32_t n_regions, spare_region; /* spare: number + 1, or 0 */
} Bfc;

static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(Bfc, limit), NULL, NULL, NULL, NULL, "bytes the pool may take from the device; the capacity if not given"},
    {"growth", ECH_PARAM_BOOL, offsetof(Bfc, growth), "false", NULL, NULL, NULL, "take regions of 2, 4, 8... MiB as needed, not the whole limit at once"},
    {"coalesce_regions", ECH_PARAM_BOOL, offsetof(Bfc, coalesce_regions), "false", NULL, NULL, NULL, "a region that begins where another ends extends it"},
    {"garbage_collection", ECH_PARAM_BOOL, offsetof(Bfc, garbage_collection), "false", NULL, NULL, NULL,
     "give regions without chunks in use back before failing"},
    {"fragmentation_fraction", ECH_PARAM_RATIO, offsetof(Bfc, fragmentation_fraction), "0", "0", "1", NULL,
     "share of the limit that one chunk may waste before it is split; 0: 128 MiB"},
    {"alignment", ECH_PARAM_BYTES, offsetof(Bfc, alignment), "256", "1", "1GiB", NULL, "of every request, bytes; a power of two, raised to 256"},
    {"two_ended", ECH_PARAM_BOOL, offsetof(Bfc, two_ended), "false", NULL, NULL, NULL, "spatial partitioning: requests from the upper end too"},
    {0},
};

static bool bfc_init(EchAllocator *base, GError **error)
{
    Bfc *self = (Bfc *)base;
    if (self->limit == 0) /* without one ONNX Runtime's regions grow after requests that no device has room for, too */
        self->limit = self->onnxruntime ? UINT64_MAX : base->memory.capacity;
    if (self->alignment & (self->alignment - 1)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "alignment: '%" G_GUINT64_FORMAT "' is no power of two", self->alignment);
        return false;
    }
    self->alignment = MAX(self->alignment, (EchBytes)UNIT);
    self->limit = MIN(self->limit, UINT64_C(1) << 46);
    base->limit = MIN(self->limit, base->memory.capacity);
    if (!self->onnxruntime) {
        self->first_region = FIRST_REGION;
        self->max_waste = self->fragmentation_fraction > 0 ? (EchBytes)(int64_t)(self->fragmentation_fraction * (double)self->limit) : MAX_INTERNAL_WASTE;
    }
    self->next_region = ech_round_up(self->growth ? MIN(self->limit, self->first_region) : self->limit, UNIT);
    return true;
}

static void bfc_done(EchAllocator *base)
{
    Bfc *self = (Bfc *)base;
    ech_chunks_clear(&self->chunks);
    for (unsigned i = 0; i < N_TREES; i++)
        ech_tree_clear(&self->free[i]);
    g_free(self->regions);
}

static void put(Bfc *self, uint32_t at)
{
    const EchChunk *chunk = &self->chunks.items[at];
    if (chunk->tag == TAG_GAP)
        self->gap = at;
    else
        ech_tree_insert(&self->free[chunk->tag], ech_tree_key(chunk->bytes, chunk->address), at);
}

static void pull(Bfc *self, uint32_t at)
{
    const EchChunk *chunk = &self->chunks.items[at];
    if (chunk->tag == TAG_GAP)
        self->gap = 0;
    else
        ech_tree_remove(&self->free[chunk->tag], ech_tree_key(chunk->bytes, chunk->address));
}

/* Joins a free chunk with its free neighbours and puts the result into its tree. */
static void coalesce(Bfc *self, uint32_t at)
{
    EchChunk *items = self->chunks.items;
    uint32_t next = items[at].next, prev = items[at].prev;
    if (next && !items[next].used) {
        pull(self, next);
        items[at].tag = items[at].tag == items[next].tag ? items[at].tag : TAG_GAP;
        ech_chunks_absorb_next(&self->chunks, at);
    }
    if (prev && !items[prev].used) {
        pull(self, prev);
        items[prev].tag = items[at].tag == items[prev].tag ? items[at].tag : TAG_GAP;
        ech_chunks_absorb_next(&self->chunks, prev);
        at = prev;
    }
    put(self, at);
}

static uint32_t add_region(Bfc *self, uint64_t address, EchBytes bytes, uint32_t number)
{
    uint32_t at;
    if (self->spare_region) {
        at = self->spare_region - 1;
        self->spare_region = self->regions[at].next;
    } else {
        at = self->n_regions++;
        if ((at & (at - 1)) == 0) /* grow at powers of two */
            self->regions = g_renew(Region, self->regions, at ? at * 2 : 2);
    }
    uint32_t first = ech_chunks_add(&self->chunks, address, bytes, at);
    self->regions[at] = (Region){.address = address, .bytes = bytes, .first = first, .number = number};
    return first;
}

/* Said beside the results: what the real one does here, which never comes back from it. */
static void hangs(Bfc *self, const char *why)
{
    if (!self->base.note)
        self->base.note = g_strdup(why);
}

/* Doubles the next region until it holds @bytes; whether it had to. */
static bool raise_region(Bfc *self, EchBytes bytes)
{
    if (self->next_region == 0) {
        hangs(self, "the real one hangs in this trace: it doubles the size of its next region with every region it takes, past 2^64, and then doubles zero");
        self->next_region = UINT64_C(1) << 63;
    }
    bool raised = bytes > self->next_region;
    while (bytes > self->next_region)
        self->next_region *= 2;
    return raised;
}

/* After a region that was as large as the next one had to be. */
static void double_region(Bfc *self)
{
    self->next_region = self->onnxruntime && self->next_region >= self->largest_region / 2 ? self->largest_region : self->next_region * 2;
}

/* bfc_allocator.cc:169-279. */
static bool extend(Bfc *self, EchBytes rounded)
{
    EchBytes available = self->limit - self->pool;
    available -= available % UNIT;
    /* The device gave a two-ended pool less than its limit: the real one goes on and then dies of its second gap (cc:1062-1064). */
    if (rounded > available || (self->two_ended && self->pool))
        return false;
    bool doubles = !self->same_as_requested && !raise_region(self, rounded);
    EchBytes bytes = self->same_as_requested ? rounded : MIN(self->next_region, available);
    if (doubles && self->onnxruntime) /* whether the device has it or not */
        double_region(self);
    uint64_t address;
    uint32_t number;
    while (!ech_alloc_take_segment(&self->base, bytes, &address, &number)) {
        /* The product is a float's, as in the real code. */
        EchBytes smaller = ech_round_up((EchBytes)((float)bytes * 0.9f), UNIT);
        if (self->onnxruntime && smaller < LEAST_REGION)
            return false;
        if (smaller >= bytes) {
            if (bytes < UNIT)
                return false;
            hangs(self,
                  "TensorFlow to 2.21 hangs in this trace: refused by the device, it asks again and again for 2.3 kB or less; later releases refuse, as here");
            smaller = bytes - UNIT;
        }
        bytes = smaller;
        if (bytes < rounded)
            return false;
    }
    if (doubles && !self->onnxruntime)
        double_region(self);
    self->pool += bytes;
    for (uint32_t i = 0; self->coalesce_regions && i < self->n_regions; i++) {
        Region *region = &self->regions[i];
        if (region->bytes == 0 || region->address + region->bytes != address)
            continue;
        uint32_t last = region->first;
        while (self->chunks.items[last].next)
            last = self->chunks.items[last].next;
        region->bytes += bytes;
        uint32_t at = ech_chunks_add(&self->chunks, address, bytes, i);
        self->chunks.items[at].prev = last;
        self->chunks.items[last].next = at;
        coalesce(self, at);
        return true;
    }
    uint32_t at = add_region(self, address, bytes, number);
    if (self->two_ended)
        self->chunks.items[at].tag = TAG_GAP;
    put(self, at);
    return true;
}

static void give_idle_regions(Bfc *self, bool first_too)
{
    for (uint32_t i = 0; i < self->n_regions; i++) {
        Region *region = &self->regions[i];
        if (region->in_use || region->bytes == 0 || (region->number == 0 && !first_too))
            continue;
        /* Free neighbours are always joined: one chunk. */
        pull(self, region->first);
        ech_chunks_drop(&self->chunks, region->first);
        ech_alloc_give_segment(&self->base, region->address, region->bytes);
        self->pool -= region->bytes;
        *region = (Region){.next = self->spare_region};
        self->spare_region = i + 1;
    }
}

/* Gives every region without a chunk in use back; false if that cannot help (bfc_allocator.cc:430-519). */
static bool collect_garbage(Bfc *self, EchBytes rounded)
{
    EchBytes total = 0;
    for (uint32_t i = 0; i < self->n_regions; i++)
        total += self->regions[i].in_use ? 0 : self->regions[i].bytes;
    if (total == 0 || rounded > self->limit - self->pool + total)
        return false;
    give_idle_regions(self, true);
    return true;
}

/* ONNX Runtime's Shrink(), of memory.enable_memory_arena_shrinkage: all that is idle but the first region, which the user chose the size of. */
static void shrink(EchAllocator *base)
{
    Bfc *self = (Bfc *)base;
    give_idle_regions(self, self->same_as_requested);
    self->next_region = self->regrowth;
}

/* Cuts @rounded bytes from the low end of a chunk that is in no tree; what is split off goes to a tree. */
static uint32_t carve_lower(Bfc *self, uint32_t at, EchBytes rounded, EchBytes pad)
{
    if (pad) {
        uint32_t rest = ech_chunks_split(&self->chunks, at, pad);
        self->chunks.items[at].tag = TAG_LOWER;
        put(self, at);
        at = rest;
    }
    EchBytes bytes = self->chunks.items[at].bytes;
    if (bytes - rounded >= rounded || bytes - rounded >= self->max_waste) {
        if (bytes > rounded)
            put(self, ech_chunks_split(&self->chunks, at, rounded));
    }
    self->chunks.items[at].tag = TAG_LOWER;
    return at;
}

/* The same from the high end. */
static uint32_t carve_upper(Bfc *self, uint32_t at, EchBytes rounded)
{
    const EchChunk *chunk = &self->chunks.items[at];
    uint64_t end = chunk->address + chunk->bytes;
    uint64_t start = (end - rounded) & ~(self->alignment - 1);
    if (start > chunk->address) {
        uint32_t rest = ech_chunks_split(&self->chunks, at, start - chunk->address);
        put(self, at);
        at = rest;
    }
    self->chunks.items[at].tag = TAG_UPPER;
    if (start + rounded < end)
        put(self, ech_chunks_split(&self->chunks, at, rounded));
    return at;
}

static EchBytes pad_of(const Bfc *self, uint64_t address)
{
    return ech_round_up(ech_round_up(address, self->alignment) - address, UNIT);
}

static bool fits_upper(const Bfc *self, const EchChunk *chunk, EchBytes rounded)
{
    return chunk->bytes >= rounded && ((chunk->address + chunk->bytes - rounded) & ~(self->alignment - 1)) >= chunk->address;
}

static uint32_t find(Bfc *self, EchBytes rounded, bool upper)
{
    EchTree *tree = &self->free[upper ? TAG_UPPER : TAG_LOWER];
    for (EchTreeIter it = ech_tree_lower_bound(tree, ech_tree_key(rounded, 0)); it.leaf; it = ech_tree_next(it)) {
        uint32_t at = ech_tree_iter_value(it);
        const EchChunk *chunk = &self->chunks.items[at];
        if (upper) {
            if (!fits_upper(self, chunk, rounded))
                continue;
            ech_tree_remove_at(tree, it);
            return carve_upper(self, at, rounded);
        }
        EchBytes pad = self->alignment == UNIT ? 0 : pad_of(self, chunk->address);
        if (chunk->bytes < rounded + pad)
            continue;
        ech_tree_remove_at(tree, it);
        return carve_lower(self, at, rounded, pad);
    }
    if (!self->gap)
        return 0;
    const EchChunk *chunk = &self->chunks.items[self->gap];
    EchBytes pad = pad_of(self, chunk->address);
    if (upper ? !fits_upper(self, chunk, rounded) : chunk->bytes < rounded + pad)
        return 0;
    uint32_t at = self->gap;
    self->gap = 0;
    return upper ? carve_upper(self, at, rounded) : carve_lower(self, at, rounded, pad);
}

static bool bfc_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Bfc *self = (Bfc *)base;
    if (request->bytes > self->limit)
        return false;
    EchBytes rounded = ech_round_up(request->bytes, UNIT);
    bool upper = self->two_ended && request->upper_end;
    uint32_t at = find(self, rounded, upper);
    if (!at && extend(self, rounded))
        at = find(self, rounded, upper);
    if (!at && self->garbage_collection && collect_garbage(self, rounded) && extend(self, rounded))
        at = find(self, rounded, upper);
    if (!at)
        return false;
    EchChunk *chunk = &self->chunks.items[at];
    Region *region = &self->regions[chunk->segment];
    chunk->used = 1;
    region->in_use++;
    self->largest_alloc = MAX(self->largest_alloc, chunk->bytes);
    live->address = chunk->address;
    live->rounded = chunk->bytes;
    live->handle = at;
    live->segment = region->number;
    ret->offset = chunk->address - region->address;
    return true;
}

static void bfc_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Bfc *self = (Bfc *)base;
    EchChunk *items = self->chunks.items;
    uint32_t at = live->handle;
    EchChunk *chunk = &items[at];
    chunk->used = 0;
    self->regions[chunk->segment].in_use--;
    if (self->two_ended) {
        /* What borders on the gap, or on the other end, belongs to the gap (bfc_allocator.cc:1086-1105). */
        if (chunk->tag == TAG_LOWER && (!chunk->next || items[chunk->next].tag != TAG_LOWER))
            chunk->tag = TAG_GAP;
        else if (chunk->tag == TAG_UPPER && (!chunk->prev || items[chunk->prev].tag != TAG_UPPER))
            chunk->tag = TAG_GAP;
    }
    coalesce(self, at);
}

static bool seed_error(GError **error, const EchSeedBlock *block, const char *what)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "start state: chunk at 0x%" G_GINT64_MODIFIER "x: %s", block->address, what);
    return false;
}

/* The region that blocks[0] begins, with its chunks; *ret_n of the n. */
static bool seed_region(Bfc *self, const EchSeedBlock *blocks, size_t n, size_t *ret_n, GError **error)
{
    const EchSeedBlock *first = &blocks[0];
    EchAllocator *base = &self->base;
    EchBytes left = first->segment_bytes;
    if (first->address != first->segment_address || left == 0)
        return seed_error(error, first, "does not begin its region");
    if (left > self->limit - MIN(self->limit, self->pool) || left > base->memory.capacity - base->memory.used)
        return seed_error(error, first, "the memory is smaller than what was recorded; expected a larger --capacity");
    if (!ech_device_memory_take_at(&base->memory, first->segment_address, left))
        return seed_error(error, first, "overlaps another region");
    ech_alloc_count_reserved(base, left, 0);
    base->stats.segments_allocated++;
    self->pool += left;
    uint32_t rest = add_region(self, first->segment_address, left, base->n_segments++);
    uint32_t region = self->chunks.items[rest].segment;
    size_t i = 0;
    for (; i < n && left; i++) {
        const EchSeedBlock *block = &blocks[i];
        if (block->segment_address != first->segment_address || block->address != self->chunks.items[rest].address || block->bytes == 0 || block->bytes > left)
            return seed_error(error, block, "the chunks of a region do not tile it");
        uint32_t at = rest;
        left -= block->bytes;
        if (left) {
            rest = ech_chunks_split(&self->chunks, at, block->bytes);
            self->chunks.items[rest].used = 1; /* not free before its turn */
        }
        self->chunks.items[at].used = block->id != UINT32_MAX;
        if (block->id == UINT32_MAX) {
            coalesce(self, at);
            continue;
        }
        EchLive live = {
            .requested = block->requested, .rounded = block->bytes, .address = block->address, .handle = at, .segment = self->regions[region].number};
        self->regions[region].in_use++;
        self->largest_alloc = MAX(self->largest_alloc, block->bytes);
        if (!ech_alloc_seed_live(base, block->id, &live))
            return seed_error(error, block, "its id is given twice");
    }
    if (left)
        return seed_error(error, first, "the chunks of its region do not tile it");
    *ret_n = i;
    return true;
}

/* How far the size of the next region has doubled: the regions that are there were the smaller the earlier. */
static void seed_growth(Bfc *self)
{
    g_autofree EchBytes *sizes = g_new(EchBytes, (gsize)self->n_regions + 1);
    for (uint32_t i = 0; i < self->n_regions; i++)
        sizes[i] = self->regions[i].bytes;
    qsort(sizes, self->n_regions, sizeof *sizes, ech_compare_u64);
    for (uint32_t i = 0; i < self->n_regions; i++) {
        if (!raise_region(self, sizes[i]))
            double_region(self);
    }
}

static bool bfc_seed(EchAllocator *base, const EchSeedBlock *blocks, size_t n, GError **error)
{
    Bfc *self = (Bfc *)base;
    if (self->two_ended) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "two_ended: which end a recorded chunk belongs to is not known");
        return false;
    }
    for (size_t i = 0; i < n;) {
        size_t read;
        if (!seed_region(self, &blocks[i], n - i, &read, error))
            return false;
        i += read;
    }
    if (self->growth)
        seed_growth(self);
    return true;
}

static void bfc_prefetch(const EchAllocator *base, const EchLive *live, unsigned stage)
{
    const EchChunk *items = ((const Bfc *)base)->chunks.items, *chunk = &items[live->handle];
    if (stage == 0) {
        __builtin_prefetch(chunk);
    } else {
        __builtin_prefetch(&items[chunk->prev]);
        __builtin_prefetch(&items[chunk->next]);
    }
}

static EchBytes bfc_largest(const EchAllocator *base)
{
    const Bfc *self = (const Bfc *)base;
    EchBytes largest = self->gap ? self->chunks.items[self->gap].bytes : 0;
    for (unsigned i = 0; i < N_TREES; i++) {
        EchTreeIter it = ech_tree_last(&self->free[i]);
        if (it.leaf)
            largest = MAX(largest, self->chunks.items[ech_tree_iter_value(it)].bytes);
    }
    return largest;
}

static void bfc_walk(const EchAllocator *base, GArray *out)
{
    const Bfc *self = (const Bfc *)base;
    for (uint32_t i = 0; i < self->n_regions; i++) {
        for (uint32_t at = self->regions[i].bytes ? self->regions[i].first : 0; at; at = self->chunks.items[at].next) {
            const EchChunk *chunk = &self->chunks.items[at];
            EchAllocBlock block = {
                .segment = self->regions[i].number, .state = ECH_BLOCK_FREE, .address = chunk->address, .bytes = chunk->bytes, .id = UINT32_MAX};
            if (!chunk->used)
                g_array_append_val(out, block);
        }
    }
}

/* Names of tsl::AllocatorStats (xla/tsl/framework/allocator.h:94-135). */
static void bfc_own_stats(EchAllocator *base, GArray *out)
{
    const Bfc *self = (const Bfc *)base;
    const EchAllocStats *stats = &base->stats;
    ech_alloc_add_stat(out, "num_allocs", (int64_t)stats->allocs);
    ech_alloc_add_stat(out, "bytes_in_use", (int64_t)stats->live);
    ech_alloc_add_stat(out, "peak_bytes_in_use", (int64_t)stats->peak_live);
    ech_alloc_add_stat(out, "largest_alloc_size", (int64_t)self->largest_alloc);
    ech_alloc_add_stat(out, "bytes_limit", (int64_t)self->limit);
    ech_alloc_add_stat(out, "largest_free_block_bytes", (int64_t)bfc_largest(base));
    ech_alloc_add_stat(out, "pool_bytes", (int64_t)stats->reserved);
    ech_alloc_add_stat(out, "peak_pool_bytes", (int64_t)stats->peak_reserved);
}

/* The words of the frameworks that use BFC. A limit of 0 is all there is: so is what TensorFlow takes where the system's share would be more than that. */

static bool ratio_of(const char *name, const char *text, double max, double *ret, GError **error)
{
    char *end;
    double value = g_ascii_strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value <= 0 || value > max) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is no fraction of the memory; expected something like .75", name, text);
        return false;
    }
    *ret = value;
    return true;
}

static bool is_zero(const char *text)
{
    char *end;
    return g_ascii_strtod(text, &end) == 0 && end != text && !*end;
}

static bool flag_of(const char *name, const char *text, uint64_t *ret, GError **error)
{
    bool yes = g_ascii_strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && g_ascii_strcasecmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is neither true nor false", name, text);
        return false;
    }
    *ret = yes;
    return true;
}

/* Calls @set for each key=value (or bare key, value NULL) between commas, blanks or semicolons. */
static bool each_setting(const char *text, bool (*set)(Bfc *self, const char *name, const char *value, GError **error), Bfc *self, GError **error)
{
    g_auto(GStrv) items = g_strsplit_set(text ? text : "", ", ;", -1);
    for (char **item = items; *item; item++) {
        if (!**item)
            continue;
        char *equals = strchr(*item, '=');
        if (equals)
            *equals = '\0';
        if (!set(self, *item, equals ? equals + 1 : NULL, error))
            return false;
    }
    return true;
}

static bool unknown(const char *name, const char *const *names, GError **error)
{
    const char *nearest = ech_nearest_name(name, names);
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
    if (nearest)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting here; did you mean '%s'?", name, nearest);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting here; expected %s", name, all);
    return false;
}

static const char *const jax_names[] = {"mem_fraction",
                                        "preallocate",
                                        "XLA_PYTHON_CLIENT_MEM_FRACTION",
                                        "XLA_CLIENT_MEM_FRACTION",
                                        "XLA_PYTHON_CLIENT_PREALLOCATE",
                                        "XLA_PYTHON_CLIENT_ALLOCATOR",
                                        "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB",
                                        "--xla_gpu_enable_allocator_spatial_partitioning",
                                        "TF_FORCE_UNIFIED_MEMORY",
                                        "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB",
                                        "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE",
                                        "TF_BFC_MEMORY_DUMP",
                                        "TF_DETERMINISTIC_ALLOCATOR",
                                        NULL};

/* Known words that change nothing about where device allocations go: the host's pool, dumps, what only cudaMallocAsync reads, retries in time. */
static bool no_effect(const char *name)
{
    static const char *const names[] = {"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB",
                                        "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE",
                                        "TF_BFC_MEMORY_DUMP",
                                        "TF_DETERMINISTIC_ALLOCATOR",
                                        "gpu_host_mem_limit_in_mb",
                                        "disallow_retry_on_allocation_failure",
                                        NULL};
    return g_strv_contains(names, name);
}

/* Unified memory: more than there is may be had (gpu_helpers.cc: the total times max(1, fraction)). */
static void take_fraction(Bfc *self, double fraction)
{
    self->limit = (EchBytes)(fraction * (double)self->base.total);
    if (fraction > 1)
        self->base.memory.capacity = self->limit;
}

static bool jax_set(Bfc *self, const char *name, const char *value, GError **error)
{
    const char *given = value ? value : "true";
    if (strcmp(name, "mem_fraction") == 0 || g_str_has_suffix(name, "_CLIENT_MEM_FRACTION")) {
        double fraction;
        if (!ratio_of(name, given, self->unified ? 1000 : 1, &fraction, error))
            return false;
        take_fraction(self, fraction);
        return true;
    }
    if (strcmp(name, "preallocate") == 0 || strcmp(name, "XLA_PYTHON_CLIENT_PREALLOCATE") == 0) {
        uint64_t preallocate;
        if (!flag_of(name, given, &preallocate, error))
            return false;
        self->growth = !preallocate;
        return true;
    }
    if (strcmp(name, "XLA_PYTHON_CLIENT_ALLOCATOR") == 0) {
        if (strcmp(given, "default") == 0 || strcmp(given, "bfc") == 0 || strcmp(given, "cuda_async") == 0)
            return true;
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is not simulated; expected default, bfc, platform or cuda_async", name, given);
        return false;
    }
    if (strcmp(name, "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB") == 0) {
        /* Another pool takes it from the device at the start. */
        uint64_t mib;
        if (!ech_parse_u64(given, &mib, error))
            return false;
        self->collective = ech_bytes_mul(mib, UINT64_C(1) << 20);
        return true;
    }
    if (g_str_has_suffix(name, "xla_gpu_enable_allocator_spatial_partitioning"))
        return flag_of(name, given, &self->two_ended, error);
    if (strcmp(name, "TF_FORCE_UNIFIED_MEMORY") == 0)
        return true; /* read before the others */
    if (no_effect(name))
        return true;
    return unknown(name, jax_names, error);
}

/* xla/pjrt/plugin/xla_gpu/xla_gpu_allocator_config.h:45-66 and gpu_helpers.cc:155-175: 0.75 of all the memory, rounded up to 2 MiB, preallocated. */
static bool jax_configure(EchAllocator *base, const char *text, GError **error)
{
    Bfc *self = (Bfc *)base;
    self->limit = (EchBytes)(0.75 * (double)base->total);
    self->unified = text && (strstr(text, "TF_FORCE_UNIFIED_MEMORY=1") || strstr(text, "TF_FORCE_UNIFIED_MEMORY=true"));
    if (!each_setting(text, jax_set, self, error))
        return false;
    self->limit = ech_round_up(self->limit, UINT64_C(2) << 20);
    base->memory.capacity -= MIN(self->collective, base->memory.capacity);
    return true;
}

static const char *const tensorflow_names[] = {"allow_growth",
                                               "per_process_gpu_memory_fraction",
                                               "internal_fragmentation_fraction",
                                               "garbage_collection",
                                               "gpu_system_memory_size_in_mb",
                                               "memory_limit",
                                               "compute_capability",
                                               "TF_GPU_ALLOCATOR",
                                               "TF_FORCE_GPU_ALLOW_GROWTH",
                                               "TF_ENABLE_GPU_GARBAGE_COLLECTION",
                                               "experimental.internal_fragmentation_fraction",
                                               "gpu_host_mem_limit_in_mb",
                                               "disallow_retry_on_allocation_failure",
                                               "TF_FORCE_UNIFIED_MEMORY",
                                               "TF_BFC_MEMORY_DUMP",
                                               "TF_DETERMINISTIC_ALLOCATOR",
                                               NULL};

/* What TensorFlow leaves to the system and to libraries: 225 MiB of less than 2 GiB, else by compute capability (MinSystemMemory() of
 * tensorflow/core/common_runtime/gpu/gpu_device.cc; to the MiB what TensorFlow 2.21 logs on devices of 7.0, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0 and 12.0). */
static EchBytes tensorflow_reserve(EchBytes memory, double capability)
{
    const EchBytes mib = UINT64_C(1) << 20;
    if (memory < 2048 * mib)
        return 225 * mib;
    return (capability < 7 ? 500 : capability < 8 ? 1050 : capability < 9 ? 1536 : 1800) * mib;
}

static void leave_to_system(Bfc *self, EchBytes reserve)
{
    self->limit = reserve < self->base.memory.capacity ? self->base.memory.capacity - reserve : 0;
}

static bool tensorflow_set(Bfc *self, const char *name, const char *value, GError **error)
{
    const char *given = value ? value : "true";
    if (strcmp(name, "allow_growth") == 0 || strcmp(name, "TF_FORCE_GPU_ALLOW_GROWTH") == 0)
        return flag_of(name, given, &self->growth, error);
    if (strcmp(name, "garbage_collection") == 0 || strcmp(name, "TF_ENABLE_GPU_GARBAGE_COLLECTION") == 0)
        return flag_of(name, given, &self->garbage_collection, error);
    if (strcmp(name, "TF_FORCE_UNIFIED_MEMORY") == 0 || no_effect(name))
        return true;
    if (strcmp(name, "TF_GPU_ALLOCATOR") == 0) {
        if (strcmp(given, "cuda_malloc_async") == 0)
            return true;
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is not simulated; expected cuda_malloc or cuda_malloc_async", name, given);
        return false;
    }
    if (strcmp(name, "internal_fragmentation_fraction") == 0 || strcmp(name, "experimental.internal_fragmentation_fraction") == 0)
        return is_zero(given) || ratio_of(name, given, 1, &self->fragmentation_fraction, error);
    if (strcmp(name, "per_process_gpu_memory_fraction") == 0) {
        double fraction;
        /* 0 is as if it was not given; above 1 TensorFlow uses unified memory (SingleVirtualDeviceMemoryLimit() of gpu_device.cc). */
        if (is_zero(given))
            fraction = 0;
        else if (!ratio_of(name, given, 1000, &fraction, error))
            return false;
        self->asked.fraction = fraction;
        return true;
    }
    if (strcmp(name, "compute_capability") == 0) {
        char *end;
        double capability = g_ascii_strtod(given, &end);
        if (end == given || *end || !(capability >= 1 && capability < 100)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is none; expected something like 9.0", name, given);
            return false;
        }
        self->asked.capability = capability;
        return true;
    }
    if (strcmp(name, "memory_limit") == 0) {
        /* Of tf.config.LogicalDeviceConfiguration, MiB: taken as it is (CreateDevices() of gpu_device.cc). */
        uint64_t limit;
        if (!ech_parse_u64(given, &limit, error))
            return false;
        self->asked.limit = ech_bytes_mul(limit, UINT64_C(1) << 20);
        self->asked.has_limit = true;
        return true;
    }
    if (strcmp(name, "gpu_system_memory_size_in_mb") == 0) {
        uint64_t reserve;
        if (!ech_parse_u64(given, &reserve, error))
            return false;
        self->asked.system = ech_bytes_mul(reserve, UINT64_C(1) << 20);
        self->asked.has_system = true;
        return true;
    }
    return unknown(name, tensorflow_names, error);
}

/* Defaults of GPUOptions; of compute capability 9 or later unless it is told. A device's own limit goes before the share of all, that before what is left to
 * the system (CreateDevices() and SingleVirtualDeviceMemoryLimit() of gpu_device.cc). */
static bool tensorflow_configure(EchAllocator *base, const char *text, GError **error)
{
    Bfc *self = (Bfc *)base;
    self->asked.capability = 9;
    self->garbage_collection = 1;
    if (!each_setting(text, tensorflow_set, self, error))
        return false;
    leave_to_system(self, self->asked.has_system ? self->asked.system : tensorflow_reserve(base->memory.capacity, self->asked.capability));
    if (self->asked.fraction > 0)
        take_fraction(self, self->asked.fraction);
    if (self->asked.has_limit)
        self->limit = self->asked.limit;
    return true;
}

static const char *const strategies[] = {"kNextPowerOfTwo", "kSameAsRequested", NULL};

static const EchParam onnxruntime_params[] = {
    {"gpu_mem_limit", ECH_PARAM_BYTES, offsetof(Bfc, limit), NULL, NULL, NULL, NULL, "bytes the arena may take from the device; the capacity if not given"},
    {"max_mem", ECH_PARAM_BYTES, offsetof(Bfc, limit), NULL, NULL, NULL, NULL, "the same, as OrtArenaCfg calls it"},
    {"arena_extend_strategy", ECH_PARAM_ENUM, offsetof(Bfc, same_as_requested), "kNextPowerOfTwo", NULL, NULL, strategies,
     "regions of 1, 2, 4... MiB, or as large as what is asked for"},
    {"initial_chunk_size_bytes", ECH_PARAM_BYTES, offsetof(Bfc, first_region), "1MiB", "1", "2GiB", NULL, "bytes of the first region (kNextPowerOfTwo)"},
    {"max_dead_bytes_per_chunk", ECH_PARAM_BYTES, offsetof(Bfc, max_waste), "128MiB", "1", "2GiB", NULL, "bytes that one chunk may waste before it is split"},
    {"initial_growth_chunk_size_bytes", ECH_PARAM_BYTES, offsetof(Bfc, regrowth), "2MiB", "256", "2GiB", NULL,
     "bytes of the first region after the arena has shrunk (kNextPowerOfTwo)"},
    {"max_power_of_two_extend_bytes", ECH_PARAM_BYTES, offsetof(Bfc, largest_region), "1GiB", "256", "1TiB", NULL,
     "bytes up to which regions double (kNextPowerOfTwo)"},
    {0},
};

static bool onnxruntime_configure(EchAllocator *base, const char *text, GError **error)
{
    Bfc *self = (Bfc *)base;
    self->onnxruntime = true;
    self->growth = 1;
    return ech_params_parse(onnxruntime_params, self, text, error);
}

/* Names of OrtApi::AllocatorGetStats (onnxruntime/core/framework/allocator_stats.h). */
static void onnxruntime_own_stats(EchAllocator *base, GArray *out)
{
    const Bfc *self = (const Bfc *)base;
    const EchAllocStats *stats = &base->stats;
    ech_alloc_add_stat(out, "Limit", (int64_t)self->limit);
    ech_alloc_add_stat(out, "InUse", (int64_t)stats->live);
    ech_alloc_add_stat(out, "RequestedInUse", (int64_t)stats->requested);
    ech_alloc_add_stat(out, "TotalAllocated", (int64_t)stats->reserved);
    ech_alloc_add_stat(out, "MaxInUse", (int64_t)stats->peak_live);
    ech_alloc_add_stat(out, "NumAllocs", (int64_t)stats->allocs);
    ech_alloc_add_stat(out, "NumArenaExtensions", (int64_t)(stats->segments_allocated - stats->segments_freed));
    ech_alloc_add_stat(out, "NumArenaShrinkages", (int64_t)stats->segments_freed);
    ech_alloc_add_stat(out, "MaxAllocSize", (int64_t)self->largest_alloc);
}

bool ech_bfc_share(bool tensorflow, const char *text, EchBytes total, EchBytes *capacity, EchBytes *ret_bytes, bool *ret_preallocate, GError **error)
{
    Bfc words = {.base = {.memory = {.capacity = *capacity}, .total = total}};
    if (!(tensorflow ? tensorflow_configure : jax_configure)(&words.base, text, error))
        return false;
    *capacity = words.base.memory.capacity;
    *ret_bytes = words.limit;
    *ret_preallocate = !words.growth;
    return true;
}

#define BFC(symbol, text, origin, conf, table, stats, empty)                                                                                                   \
    const EchAllocClass ech_alloc_##symbol = {                                                                                                                 \
        .name = #symbol,                                                                                                                                       \
        .summary = text,                                                                                                                                       \
        .source = origin,                                                                                                                                      \
        .size = sizeof(Bfc),                                                                                                                                   \
        .params = table,                                                                                                                                       \
        .configure = conf,                                                                                                                                     \
        .init = bfc_init,                                                                                                                                      \
        .done = bfc_done,                                                                                                                                      \
        .alloc = bfc_alloc,                                                                                                                                    \
        .prefetch = bfc_prefetch,                                                                                                                              \
        .release = bfc_release,                                                                                                                                \
        .largest_free = bfc_largest,                                                                                                                           \
        .walk_free = bfc_walk,                                                                                                                                 \
        .own_stats = stats,                                                                                                                                    \
        .empty_cache = empty,                                                                                                                                  \
        .seed = bfc_seed,                                                                                                                                      \
    }

#define XLA "openxla/xla 183fa00c: xla/tsl/framework/bfc_allocator.{h,cc}"
BFC(bfc, "XLA's and TensorFlow's best fit with coalescing", XLA, NULL, params, bfc_own_stats, NULL);
BFC(jax, "BFC as JAX sets it up: .75 of the memory, preallocated; XLA_PYTHON_CLIENT_* accepted", XLA, jax_configure, params, bfc_own_stats, NULL);
BFC(tensorflow, "BFC as TensorFlow sets it up; GPUOptions by name accepted", XLA, tensorflow_configure, params, bfc_own_stats, NULL);
BFC(onnxruntime, "ONNX Runtime's arena; settings of OrtArenaCfg and of the CUDA provider by name",
    "microsoft/onnxruntime 009aae13: onnxruntime/core/framework/bfc_arena.{h,cc}; its defaults, and up to where regions double, by 1.32.0",
    onnxruntime_configure, onnxruntime_params, onnxruntime_own_stats, shrink);
