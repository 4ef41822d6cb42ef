/* Properties that every allocator of the table must have, under random sequences: a new allocator is tested by being registered. */
#include "models/alloc/alloc.h"
#include "models/alloc/check.h"
#include "models/alloc/gaps.h"
#include "models/alloc/tree.h"
#include "sim/base/error.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ECH_LONG=N makes the sequences and their number N times as long. */
static int n_events = 1200, n_rounds = 1;

/* Specs beside the bare names: the options that change the behaviour. */
static const char *const more_specs[] = {
    "bfc:growth=true",
    "bfc:growth=true,coalesce_regions=true,garbage_collection=true",
    "bfc:growth=true,garbage_collection=true,fragmentation_fraction=0.0001",
    "bfc:alignment=4096",
    "bfc:limit=512MiB,two_ended=true",
    "bfc:limit=300MiB,two_ended=true,alignment=1024",
    "XLA_PYTHON_CLIENT_MEM_FRACTION=.9",
    "XLA_PYTHON_CLIENT_PREALLOCATE=false",
    "tensorflow:allow_growth",
    "onnxruntime:arena_extend_strategy=kSameAsRequested",
    "onnxruntime:max_mem=300MiB,max_dead_bytes_per_chunk=1,max_power_of_two_extend_bytes=8MiB",
    "CUPY_GPU_MEMORY_LIMIT=40%",
    "cupy:share_below=0",
    "pytorch:expandable_segments:True",
    "pytorch:max_split_size_mb:21,max_non_split_rounding_mb:30",
    "pytorch:garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
    "pytorch:expandable_segments:True,garbage_collection_threshold:0.3,per_process_memory_fraction:0.5,max_split_size_mb:25",
    "pytorch:roundup_power2_divisions:[64:8,256:4,512:2,1024:1,>:1]",
    "PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:4,large_segment_size_mb:40",
    "cuda_async:release_threshold=100MiB,reuse_internal_dependencies=false",
    "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",
    "XLA_PYTHON_CLIENT_ALLOCATOR=platform",
    "platform:granule=512",
    "pytorch_pinned:pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:16,pinned_reserve_segment_size_mb:8",
    "platform:share_below=1MiB",
    "buddy:limit=300MiB",
    "tlsf:alignment=16",
    "slab:slab=64KiB,smallest=64",
    "best_fit:limit=64MiB,alignment=64",
    "arena:limit=64MiB",
    "first_fit:alignment=4096",
};

static GPtrArray *specs;

static void fill_specs(void)
{
    size_t n;
    const EchAllocInfo *infos = ech_alloc_infos(&n);
    specs = g_ptr_array_new();
    for (size_t i = 0; i < n; i++) {
        if (strcmp(infos[i].name, "plugin") != 0)
            g_ptr_array_add(specs, g_strdup(infos[i].name));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(more_specs); i++)
        g_ptr_array_add(specs, g_strdup(more_specs[i]));
}

static uint64_t state;

static uint64_t draw(void)
{
    return ech_test_draw(&state);
}

/* Sizes around every threshold that the allocators have. */
static EchBytes draw_bytes(void)
{
    uint64_t kind = draw() % 9;
    if (kind < 4)
        return 1 + draw() % 4096;
    if (kind < 6)
        return 1 + draw() % (UINT64_C(1) << 20);
    if (kind == 6)
        return (UINT64_C(1) << (draw() % 24)) + draw() % 3;
    if (kind == 7) /* whole pages */
        return (1 + draw() % 20) * (UINT64_C(2) << 20);
    return 1 + draw() % (UINT64_C(40) << 20);
}

typedef struct {
    uint64_t hash, failed, peak_bound;
    EchAllocStats stats;
} Outcome;

static void check_blocks(const EchAllocator *allocator, const char *spec, uint64_t seed)
{
    size_t n;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n);
    EchAllocStats stats;
    ech_allocator_stats(allocator, &stats);
    EchBytes used = 0, all = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        all += blocks[i].bytes;
        used += blocks[i].state == ECH_BLOCK_USED ? blocks[i].bytes : 0;
        if (blocks[i].state == ECH_BLOCK_FREE)
            largest = MAX(largest, blocks[i].bytes);
        ck_assert_msg(i == 0 || blocks[i - 1].address + blocks[i - 1].bytes <= blocks[i].address, "%s seed %" G_GUINT64_FORMAT ": blocks overlap", spec, seed);
    }
    ck_assert_msg(used == stats.live, "%s seed %" G_GUINT64_FORMAT ": blocks in use %" G_GUINT64_FORMAT ", live %" G_GUINT64_FORMAT, spec, seed, used,
                  stats.live);
    ck_assert_msg(all == stats.reserved, "%s seed %" G_GUINT64_FORMAT ": blocks tile %" G_GUINT64_FORMAT ", reserved %" G_GUINT64_FORMAT, spec, seed, all,
                  stats.reserved);
    ck_assert_msg(stats.largest_free <= largest, "%s seed %" G_GUINT64_FORMAT ": largest free", spec, seed);
}

/* What PyTorch calls inactive splits: what is free of segments that are in parts. */
static void check_splits(EchAllocator *allocator, const char *spec, uint64_t seed)
{
    size_t n, n_stats;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n);
    int64_t parts = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bool in_parts = (i > 0 && blocks[i - 1].segment == blocks[i].segment) || (i + 1 < n && blocks[i + 1].segment == blocks[i].segment);
        parts += in_parts && blocks[i].state == ECH_BLOCK_FREE;
        bytes += in_parts && blocks[i].state == ECH_BLOCK_FREE ? (int64_t)blocks[i].bytes : 0;
    }
    const EchAllocStat *stats = ech_allocator_own_stats(allocator, &n_stats);
    for (size_t i = 0; i < n_stats && !strstr(spec, "expandable_segments:True"); i++) {
        bool counts = strcmp(stats[i].name, "inactive_split.all.current") == 0, sizes = strcmp(stats[i].name, "inactive_split_bytes.all.current") == 0;
        ck_assert_msg((!counts || stats[i].value == parts) && (!sizes || stats[i].value == bytes), "%s seed %" G_GUINT64_FORMAT ": %s is %" G_GINT64_FORMAT,
                      spec, seed, stats[i].name, stats[i].value);
    }
}

/* The driver's calls add up to what is reserved, in whole granules (of VMM allocators: pages) and never more than there is; there are bytes where there are
 * calls. */
static void check_driver(const EchAllocator *allocator, const char *spec, uint64_t seed, EchBytes capacity, uint64_t n_beside)
{
    EchDriverCalls calls;
    ech_allocator_driver(allocator, &calls);
    EchAllocStats stats;
    ech_allocator_stats(allocator, &stats);
    if (calls.takes + calls.maps == n_beside)
        return; /* it has its range without asking */
    EchBytes held = calls.taken - calls.given + calls.mapped - calls.unmapped;
    ck_assert_msg(held >= stats.reserved + stats.direct && held <= capacity,
                  "%s seed %" G_GUINT64_FORMAT ": the driver gave %" G_GUINT64_FORMAT " bytes, %" G_GUINT64_FORMAT " are reserved", spec, seed, held,
                  stats.reserved);
    ck_assert_msg((calls.takes > 0) == (calls.taken > 0) && (calls.gives > 0) == (calls.given > 0) && (calls.maps > 0) == (calls.mapped > 0) &&
                      (calls.unmaps > 0) == (calls.unmapped > 0) && calls.pieces_mapped >= calls.maps && calls.pieces_unmapped >= calls.unmaps,
                  "%s seed %" G_GUINT64_FORMAT ": calls without bytes", spec, seed);
}

/* What an allocator tells of itself besides: names once each, trees as deep as what they hold takes. */
static void check_tellings(EchAllocator *allocator, const char *spec)
{
    size_t n;
    const EchAllocStat *own = ech_allocator_own_stats(allocator, &n);
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(g_hash_table_add(names, (gpointer)(uintptr_t)own[i].name), "%s tells %s twice", spec, own[i].name);
}

static Outcome run(const char *spec, uint64_t seed, EchBytes capacity, bool inject)
{
    g_autoptr(GError) error = NULL;
    EchAllocDevice device = {.capacity = capacity};
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, &error);
    ck_assert_msg(allocator != NULL, "%s: %s", spec, error ? error->message : "");
    g_autoptr(EchPlacementChecker) checker = ech_placement_checker_new();
    g_autofree uint32_t *live = g_new(uint32_t, (size_t)n_events);
    g_autofree EchPlacement *placed = g_new0(EchPlacement, (size_t)n_events);
    g_autofree EchBytes *asked = g_new0(EchBytes, (size_t)n_events);
    uint32_t n_live = 0, next = 0;
    EchBytes requested = 0, rounded = 0, bound = 0, direct = 0;
    g_autofree bool *beside = g_new0(bool, (size_t)n_events);
    uint64_t allocs = 0, frees = 0, n_beside = 0;
    Outcome outcome = {.hash = UINT64_C(14695981039346656037)};
    state = seed;
    for (int i = 0; i < n_events; i++) {
        uint64_t dice = draw() % 100;
        if (inject && dice == 0)
            ech_allocator_inject_failure(allocator, draw() % 3, 1 + draw() % 3);
        /* Now and then all of it goes, as at the end of a step. */
        bool all = n_live && draw() % 256 == 0;
        if (dice >= 95 && n_live && !all) {
            ech_allocator_record_stream(allocator, live[draw() % n_live], (uint32_t)(draw() % 3));
        } else if (dice >= 92 && !all) {
            ech_allocator_stream_done(allocator, (uint32_t)(draw() % 3));
        } else if (all || (dice >= 50 - (n_live > 400 ? 20 : 0) && n_live))
            do {
                uint32_t pick = (uint32_t)(draw() % n_live), id = live[pick];
                live[pick] = live[--n_live];
                ck_assert(ech_allocator_release(allocator, id));
                ck_assert(!ech_allocator_release(allocator, id));
                ech_placement_checker_remove(checker, placed[id].address);
                requested -= beside[id] ? 0 : asked[id];
                rounded -= placed[id].rounded;
                direct -= beside[id] ? placed[id].rounded : 0;
                frees++;
            } while (all && n_live);
        else {
            uint32_t id = next++;
            EchAllocRequest request = {
                .id = id, .bytes = draw() % 200 == 0 ? 0 : draw_bytes(), .stream = (uint32_t)(draw() % 3), .upper_end = draw() % 2, .direct = draw() % 16 == 0};
            beside[id] = request.direct;
            EchFit fit = ech_allocator_alloc(allocator, &request, &placed[id]);
            if (request.bytes == 0) {
                ck_assert_int_eq(fit, ECH_FIT_OK);
                ck_assert_uint_eq(placed[id].address, ECH_ADDRESS_NONE);
            } else if (fit == ECH_FIT_OK) {
                ck_assert_uint_ge(placed[id].rounded, request.bytes);
                bool legal = ech_placement_checker_add(checker, id, placed[id].address, placed[id].rounded, &error);
                ck_assert_msg(legal, "%s seed %" G_GUINT64_FORMAT ": %s", spec, seed, error ? error->message : "");
                asked[id] = request.bytes;
                live[n_live++] = id;
                requested += request.direct ? 0 : request.bytes;
                rounded += placed[id].rounded;
                direct += request.direct ? placed[id].rounded : 0;
                n_beside += request.direct;
                bound = MAX(bound, requested);
                allocs++;
            } else {
                /* Fragmented: as many bytes are free as were asked for. */
                ck_assert_msg(fit == ECH_FIT_FULL || request.bytes <= capacity - rounded,
                              "%s seed %" G_GUINT64_FORMAT ": %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes in use, none for %" G_GUINT64_FORMAT, spec,
                              seed, rounded, capacity, request.bytes);
                ck_assert_uint_eq(placed[id].address, 0);
                ck_assert(!ech_allocator_release(allocator, id));
                outcome.failed++;
            }
            outcome.hash = (outcome.hash ^ placed[id].address ^ (uint64_t)fit) * UINT64_C(1099511628211);
        }
        EchAllocStats stats;
        if (i % 64 == 0 || i == n_events - 1) {
            ech_allocator_stats(allocator, &stats);
            ck_assert_uint_eq(stats.requested, requested);
            ck_assert_uint_eq(stats.live, rounded - direct);
            ck_assert_uint_eq(stats.direct, direct);
            ck_assert_uint_eq(stats.allocs, allocs);
            ck_assert_uint_eq(stats.frees, frees);
            ck_assert_uint_eq(stats.failed, outcome.failed);
            ck_assert_uint_ge(stats.reserved, stats.live);
            ck_assert_uint_ge(stats.peak_reserved, stats.reserved);
            ck_assert_uint_le(stats.reserved + stats.direct, capacity);
            ck_assert(stats.peak_taken >= stats.reserved + stats.direct && stats.peak_taken <= MIN(capacity, stats.peak_reserved + stats.peak_direct));
        }
        if (i % 512 == 0) {
            check_blocks(allocator, spec, seed);
            check_splits(allocator, spec, seed);
            check_driver(allocator, spec, seed, capacity, n_beside);
        }
    }
    ech_allocator_stats(allocator, &outcome.stats);
    check_tellings(allocator, spec);
    ck_assert_uint_ge(outcome.stats.peak_reserved, bound);
    ck_assert_uint_eq(outcome.stats.peak_requested, bound);
    ck_assert_uint_ge(outcome.stats.peak_live, bound);
    while (n_live)
        ck_assert(ech_allocator_release(allocator, live[--n_live]));
    check_blocks(allocator, spec, seed);
    ech_allocator_stats(allocator, &outcome.stats);
    ck_assert_uint_eq(outcome.stats.live, 0);
    ck_assert_uint_eq(outcome.stats.direct, 0);
    ck_assert_uint_eq(outcome.stats.requested, 0);
    check_driver(allocator, spec, seed, capacity, n_beside);
    /* Once nobody uses anything, nothing need stay but what is never given back. */
    EchBytes stays = strstr(spec, "pinned_reserve_segment_size_mb:8") && capacity >= 8 << 20 ? 8 << 20 : 0;
    for (uint32_t stream = 0; stream < 3; stream++)
        ech_allocator_stream_done(allocator, stream);
    bool keeps_first = g_str_has_prefix(spec, "onnxruntime") && !strstr(spec, "kSameAsRequested");
    if (ech_allocator_empty_cache(allocator) && !keeps_first) {
        EchAllocStats empty;
        ech_allocator_stats(allocator, &empty);
        ck_assert_msg(empty.reserved == stays, "%s seed %" G_GUINT64_FORMAT ": %" G_GUINT64_FORMAT " bytes stay", spec, seed, empty.reserved);
        check_driver(allocator, spec, seed, capacity, n_beside);
        EchDriverCalls calls;
        ech_allocator_driver(allocator, &calls);
        ck_assert(calls.taken == calls.given + stays && calls.mapped == calls.unmapped && calls.pieces_mapped == calls.pieces_unmapped);
    }
    return outcome;
}

START_TEST(registry_keeps_its_promises)
{
    const char *spec = g_ptr_array_index(specs, (guint)_i);
    for (int round = 0; round < n_rounds; round++) {
        uint64_t seed = ech_test_seed_of(round);
        EchBytes capacity = (_i + round) % 2 ? UINT64_C(64) << 30 : UINT64_C(1) << 30;
        Outcome once = run(spec, seed, capacity, false);
        Outcome again = run(spec, seed, capacity, false);
        ck_assert_msg(once.hash == again.hash, "%s seed %" G_GUINT64_FORMAT ": two runs differ", spec, seed);
        run(spec, seed, capacity, true);
        run(spec, seed, UINT64_C(100) << 20, true);
        run(spec, seed, 3 << 20, false);
    }
}
END_TEST

/* ---- allocators over one range, done again in the plainest way ---- */

enum { UNIT = 256, UNITS = 2048 };

typedef struct {
    uint32_t start, n;
    unsigned made; /* when */
} Run;

/* Free runs in the order of their addresses. */
typedef struct {
    Run runs[UNITS];
    unsigned n, clock;
    uint32_t rover;
} Plain;

static bool plain_is_free(const Plain *p, uint32_t start, uint32_t n)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->runs[i].start <= start && start + n <= p->runs[i].start + p->runs[i].n)
            return true;
    return false;
}

/* The list of two levels that a run of so many units is in. */
static unsigned plain_list(uint32_t units)
{
    uint64_t bytes = (uint64_t)units * UNIT, power = 1;
    unsigned log = 0;
    for (; 2 * power <= bytes; power *= 2)
        log++;
    return 32 * log + (unsigned)((bytes - power) * 32 / power);
}

/* Whether run @a is to be preferred to run @b, which may be NULL. */
static bool plain_prefers(const char *spec, const Run *a, const Run *b)
{
    if (!b)
        return true;
    if (strcmp(spec, "best_fit") == 0)
        return a->n < b->n;
    if (strcmp(spec, "tlsf") == 0)
        return plain_list(a->n) != plain_list(b->n) ? plain_list(a->n) < plain_list(b->n) : a->made > b->made;
    return false;
}

static bool plain_find(const Plain *p, const char *spec, uint32_t n, uint32_t *ret_start)
{
    if (strcmp(spec, "buddy") == 0) {
        for (uint32_t block = n; block <= UNITS; block *= 2)
            for (uint32_t at = 0; at < UNITS; at += block)
                if (plain_is_free(p, at, block) && (block == UNITS || !plain_is_free(p, at & ~(2 * block - 1), 2 * block))) {
                    *ret_start = at;
                    return true;
                }
        return false;
    }
    bool next = strcmp(spec, "next_fit") == 0, tlsf = strcmp(spec, "tlsf") == 0;
    /* A list is only looked into if everything in it is large enough. The next fit takes a run from its beginning on. */
    uint32_t list = plain_list(n);
    for (uint32_t smaller = 1; tlsf && smaller < n; smaller++)
        if (plain_list(smaller) == plain_list(n))
            list = plain_list(n) + 1;
    for (uint32_t from = next ? p->rover : 0;; from = 0) {
        const Run *best = NULL;
        for (unsigned i = 0; i < p->n; i++) {
            const Run *run = &p->runs[i];
            if (run->start >= from && run->n >= n && (!tlsf || plain_list(run->n) >= list) && plain_prefers(spec, run, best))
                best = run;
        }
        if (best)
            *ret_start = best->start;
        if (best || from == 0)
            return best != NULL;
    }
}

static void plain_take(Plain *p, uint32_t start, uint32_t n)
{
    unsigned i = 0;
    while (p->runs[i].start + p->runs[i].n <= start)
        i++;
    Run run = p->runs[i], parts[2] = {{run.start, start - run.start, ++p->clock}, {start + n, run.start + run.n - start - n, ++p->clock}};
    memmove(&p->runs[i], &p->runs[i + 1], (p->n - i - 1) * sizeof(Run));
    p->n--;
    for (unsigned k = 0; k < 2; k++)
        if (parts[k].n > 0) {
            memmove(&p->runs[i + 1], &p->runs[i], (p->n - i) * sizeof(Run));
            p->runs[i++] = parts[k];
            p->n++;
        }
    p->rover = start + n;
}

static void plain_give(Plain *p, uint32_t start, uint32_t n)
{
    Run run = {start, n, ++p->clock};
    unsigned i = 0, k;
    while (i < p->n && p->runs[i].start + p->runs[i].n < start)
        i++;
    for (k = i; k < p->n && p->runs[k].start <= start + n; k++) {
        uint32_t end = MAX(run.start + run.n, p->runs[k].start + p->runs[k].n);
        run.start = MIN(run.start, p->runs[k].start);
        run.n = end - run.start;
    }
    memmove(&p->runs[i + 1], &p->runs[k], (p->n - k) * sizeof(Run));
    p->n = p->n - (k - i) + 1;
    p->runs[i] = run;
}

static const char *const plain_specs[] = {"first_fit", "next_fit", "best_fit", "tlsf", "buddy"};

START_TEST(one_range_done_again)
{
    const char *spec = plain_specs[_i];
    for (int round = 0; round < 4 * n_rounds; round++) {
        g_autoptr(GError) error = NULL;
        EchAllocDevice device = {.capacity = UNITS * UNIT};
        g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, &error);
        ck_assert_ok(allocator != NULL, error);
        g_autofree Plain *plain = g_new0(Plain, 1);
        plain_give(plain, 0, UNITS);
        uint32_t live[UNITS], starts[UNITS], sizes[UNITS], n_live = 0, most = 1u << (2 + 2 * round % 8);
        state = ech_test_seed_of(round);
        for (int i = 0; i < n_events; i++) {
            if (draw() % 100 < 45 && n_live) {
                uint32_t pick = (uint32_t)(draw() % n_live);
                ck_assert(ech_allocator_release(allocator, live[pick]));
                plain_give(plain, starts[pick], sizes[pick]);
                n_live--;
                live[pick] = live[n_live];
                starts[pick] = starts[n_live];
                sizes[pick] = sizes[n_live];
                continue;
            }
            EchAllocRequest request = {.id = (uint32_t)i, .bytes = 1 + draw() % (most * UNIT)};
            uint32_t n = (uint32_t)((request.bytes + UNIT - 1) / UNIT), whole = 1, start;
            while (whole < n)
                whole *= 2;
            if (strcmp(spec, "buddy") == 0)
                n = whole;
            EchPlacement placed;
            EchFit fit = ech_allocator_alloc(allocator, &request, &placed);
            bool found = plain_find(plain, spec, n, &start);
            ck_assert_msg((fit == ECH_FIT_OK) == found, "%s: event %d of round %d", spec, i, round);
            if (!found)
                continue;
            ck_assert_msg(placed.address == (uint64_t)start * UNIT, "%s: event %d of round %d at %" G_GUINT64_FORMAT ", not %u", spec, i, round, placed.address,
                          start * UNIT);
            ck_assert_uint_eq(placed.rounded, (uint64_t)n * UNIT);
            plain_take(plain, start, n);
            live[n_live] = (uint32_t)i;
            starts[n_live] = start;
            sizes[n_live++] = n;
        }
    }
}
END_TEST

START_TEST(checker_sees_overlaps)
{
    g_autoptr(GError) error = NULL;
    const EchPlacedRange good[] = {{0, 10, 0, 5}, {10, 5, 0, 5}, {0, 15, 5, 9}, {3, 0, 0, 9}};
    ck_assert(ech_placement_check(good, 4, 15, &error));
    ck_assert(!ech_placement_check(good, 4, 14, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_VERIFY));
    g_clear_error(&error);
    const EchPlacedRange bad[] = {{0, 100, 0, 5}, {200, 5, 1, 5}, {99, 2, 4, 9}};
    ck_assert(!ech_placement_check(bad, 3, 0, &error));
    ck_assert_str_eq(error->message, "placement of 2 at [99, 101) overlaps 0 at [0, 100)");
    g_clear_error(&error);
    const EchPlacedRange inside[] = {{50, 2, 0, 5}, {0, 100, 1, 5}};
    ck_assert(!ech_placement_check(inside, 2, 0, &error));
}
END_TEST

START_TEST(specs_are_refused_with_reasons)
{
    static const struct {
        const char *spec, *message;
    } cases[] = {
        {"best_fti", "'best_fti' is no allocator; did you mean 'best_fit'?"},
        {"best_fit:limt=1", "best_fit:limt=1: 'limt' is no parameter here; did you mean 'limit'?"},
        {"best_fit:alignment=0", "best_fit:alignment=0: alignment: '0' is out of range; expected 1 to 1GiB"},
    };
    EchAllocDevice device = {.capacity = 1 << 20};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(ech_allocator_new(cases[i].spec, &device, &error));
        ck_assert_str_eq(error->message, cases[i].message);
    }
}
END_TEST

enum { KEYS = 1 << 14 };

/* The tree holds what a plain array of flags holds: found, in order both ways, first, last and next above; while it grows to some levels of inner nodes and is
 * emptied again, at random, upwards (as a heap grows) or downwards. */
static void same_as_flags(EchTree *tree, const bool *there)
{
    uint64_t n = 0;
    EchTreeIter it = ech_tree_first(tree);
    for (unsigned k = 0; k < KEYS; k++) {
        if (!there[k])
            continue;
        n++;
        ck_assert(it.leaf && ech_tree_iter_key(it) == ech_tree_key(k / 7, k) && ech_tree_iter_value(it) == k);
        it = ech_tree_next(it);
    }
    ck_assert(!it.leaf && tree->n == n);
    it = ech_tree_last(tree);
    for (unsigned k = KEYS; k-- > 0;)
        if (there[k]) {
            ck_assert(it.leaf && ech_tree_iter_value(it) == k);
            it = ech_tree_prev(it);
        }
    ck_assert(!it.leaf);
    for (unsigned k = KEYS, above = KEYS; k-- > 0;) {
        above = there[k] ? k : above;
        it = ech_tree_lower_bound(tree, ech_tree_key(k / 7, k));
        ck_assert(above == KEYS ? !it.leaf : it.leaf && ech_tree_iter_value(it) == above);
    }
}

START_TEST(tree_is_a_sorted_set)
{
    uint64_t draws = ech_test_seed_of(_i);
    g_autofree bool *there = g_new0(bool, KEYS);
    EchTree tree = {0};
    for (int emptying = 0; emptying < 2; emptying++)
        for (unsigned step = 0; step < 3 * KEYS; step++) {
            unsigned k = _i == 0 ? (unsigned)(ech_test_draw(&draws) % KEYS) : (_i == 1) == (emptying == 0) ? step % KEYS : KEYS - 1 - step % KEYS;
            bool add = ech_test_draw(&draws) % 8 != 0;
            if (there[k] == (add != emptying))
                continue;
            if (there[k])
                ck_assert(ech_tree_remove(&tree, ech_tree_key(k / 7, k)) && !ech_tree_remove(&tree, ech_tree_key(k / 7, k)));
            else
                ech_tree_insert(&tree, ech_tree_key(k / 7, k), k);
            there[k] = !there[k];
            if (step % KEYS == KEYS / 2)
                same_as_flags(&tree, there);
        }
    same_as_flags(&tree, there);
    for (unsigned k = 0; k < KEYS; k++)
        ck_assert(ech_tree_remove(&tree, ech_tree_key(k / 7, k)) == there[k]);
    ck_assert(tree.n == 0 && !tree.root && tree.height == 0);
    ech_tree_clear(&tree);
}
END_TEST

/* Free ranges are those of a plain list of bytes: what is found is the lowest that fits, and ranges that touch are one. */
enum { UNIVERSE = 300 };

static uint64_t length_at(const bool *free, uint64_t at)
{
    uint64_t n = 0;
    while (at + n < UNIVERSE && free[at + n])
        n++;
    return n;
}

static void begins(uint64_t address, uint64_t bytes, void *data)
{
    const bool *free = data;
    ck_assert(bytes == length_at(free, address) && bytes > 0 && (address == 0 || !free[address - 1]));
}

START_TEST(gaps_are_what_is_free)
{
    uint64_t draws = ech_test_seed_of(_i);
    EchGaps gaps = {0};
    bool free[UNIVERSE] = {false};
    for (int step = 0; step < 3000; step++) {
        uint64_t from = ech_test_draw(&draws) % UNIVERSE, bytes = 1 + ech_test_draw(&draws) % 12, length = length_at(free, from), wanted = from;
        if (length > 0) {
            length = MIN(length, bytes);
            ech_gaps_take(&gaps, from, length);
        } else {
            while (length < bytes && from + length < UNIVERSE && !free[from + length])
                length++;
            ech_gaps_add(&gaps, from, length);
        }
        for (uint64_t k = from; k < from + length; k++)
            free[k] = !free[k];
        ech_gaps_each(&gaps, begins, free);
        while (wanted < UNIVERSE && ((wanted > 0 && free[wanted - 1]) || length_at(free, wanted) < bytes))
            wanted++;
        uint64_t found = 0, begin = 0, all = 0, last = from;
        ck_assert(ech_gaps_find(&gaps, from, bytes, &found) == (wanted < UNIVERSE) && (wanted == UNIVERSE || found == wanted));
        while (last > 0 && !(free[last] && !free[last - 1]))
            last--;
        ck_assert(ech_gaps_at(&gaps, from, &begin, &all) == free[last] && (!free[last] || (begin == last && all == length_at(free, last))));
    }
    ech_gaps_clear(&gaps);
}
END_TEST

int main(void)
{
    fill_specs();
    const char *longer = g_getenv("ECH_LONG");
    int factor = longer ? CLAMP(atoi(longer), 1, 100) : 1;
    n_events *= factor;
    n_rounds *= factor;
    ech_test_print_seed();
    Suite *suite = suite_create("alloc properties");
    TCase *tests = tcase_create("registry");
    tcase_set_timeout(tests, 0); /* as long as was asked for */
    tcase_add_loop_test(tests, registry_keeps_its_promises, 0, (int)specs->len);
    tcase_add_loop_test(tests, one_range_done_again, 0, (int)G_N_ELEMENTS(plain_specs));
    tcase_add_test(tests, checker_sees_overlaps);
    tcase_add_loop_test(tests, tree_is_a_sorted_set, 0, 3);
    tcase_add_loop_test(tests, gaps_are_what_is_free, 0, 3);
    tcase_add_test(tests, specs_are_refused_with_reasons);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
