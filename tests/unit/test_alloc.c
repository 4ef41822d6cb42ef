/* Exact rules of the allocators, number by number; and, where the oracle's data lie, placements and statistics of the real ones. */
#include "models/alloc/events.h"
#include "models/alloc/fixed.h"
#include "models/alloc/report.h"
#include "sim/base/error.h"
#include "sim/import/alloc_events.h"
#include "sim/import/alloc_text.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static EchAllocator *open_allocator(const char *spec, EchBytes capacity)
{
    g_autoptr(GError) error = NULL;
    EchAllocDevice device = {.capacity = capacity};
    EchAllocator *allocator = ech_allocator_new(spec, &device, &error);
    ck_assert_msg(allocator != NULL, "%s: %s", spec, error ? error->message : "");
    return allocator;
}

static EchPlacement take(EchAllocator *allocator, uint32_t id, EchBytes bytes)
{
    EchPlacement placement = {0};
    EchFit fit = ech_allocator_alloc(allocator, &(EchAllocRequest){.id = id, .bytes = bytes}, &placement);
    ck_assert_msg(fit == ECH_FIT_OK, "allocation %u of %" G_GUINT64_FORMAT " bytes", id, bytes);
    return placement;
}

static int64_t own(EchAllocator *allocator, const char *name)
{
    size_t n;
    const EchAllocStat *stats = ech_allocator_own_stats(allocator, &n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(stats[i].name, name) == 0)
            return stats[i].value;
    }
    ck_abort_msg("no statistic %s", name);
    return 0;
}

/* ---- beside the allocator ---- */

static const char *const besides[] = {
    "pytorch", "pytorch:expandable_segments:True", "cupy:share_below=0", "cuda_async", "platform", "best_fit", "first_fit", "next_fit", "buddy", "tlsf", "slab",
    "arena"};

/* Requests of 1 MiB from @id on until one is refused: how many were not. */
static uint32_t fill_up(EchAllocator *allocator, uint32_t id)
{
    uint32_t n = 0;
    EchPlacement p;
    while (ech_allocator_alloc(allocator, &(EchAllocRequest){.id = id + n, .bytes = MIB}, &p) == ECH_FIT_OK)
        n++;
    return n;
}

/* What is taken beside an allocator, whichever it is, is none of its own, leaves it as much as a device with so much less, and comes back. */
START_TEST(the_device_is_asked_beside)
{
    g_autoptr(EchAllocator) allocator = open_allocator(besides[_i], 128 * MIB), smaller = open_allocator(besides[_i], 116 * MIB);
    take(allocator, 0, 30 * MIB);
    take(smaller, 0, 30 * MIB);
    EchAllocStats before, stats;
    ech_allocator_stats(allocator, &before);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 1, .bytes = 12 * MIB - 1, .direct = true}, &p), ECH_FIT_OK);
    ck_assert(p.rounded == 12 * MIB && p.address == UINT64_C(1) << 47 && p.segment == UINT32_MAX);
    ech_allocator_stats(allocator, &stats);
    ck_assert(stats.direct == 12 * MIB && stats.peak_direct == 12 * MIB && stats.peak_taken == before.reserved + 12 * MIB);
    ck_assert(stats.live == before.live && stats.requested == before.requested && stats.reserved == before.reserved && stats.allocs == 2);
    uint32_t n = fill_up(allocator, 2);
    ck_assert_uint_eq(n, fill_up(smaller, 2));
    ech_allocator_stats(allocator, &stats);
    ech_allocator_stats(smaller, &before);
    ck_assert(stats.reserved == before.reserved && stats.peak_reserved == before.peak_reserved && stats.peak_taken == before.reserved + 12 * MIB);
    size_t n_blocks, n_smaller;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n_blocks), *others = ech_allocator_blocks(smaller, &n_smaller);
    ck_assert(n_blocks == n_smaller && blocks[n_blocks - 1].address == others[n_blocks - 1].address);
    ck_assert(ech_allocator_release(allocator, 1) && !ech_allocator_release(allocator, 1));
    ech_allocator_stats(allocator, &stats);
    ck_assert(stats.direct == 0 && stats.peak_direct == 12 * MIB);
    ck_assert_uint_ge(fill_up(allocator, 2 + n), 6);
}
END_TEST

/* What PyTorch keeps in its cache a library does not get; small ones share a granule. */
START_TEST(caches_are_not_emptied_for_libraries)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch", 100 * MIB);
    EchPlacement p;
    take(pytorch, 0, 60 * MIB);
    ech_allocator_release(pytorch, 0);
    EchAllocRequest direct = {.id = 1, .bytes = 50 * MIB, .direct = true};
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &direct, &p), ECH_FIT_FRAGMENTED);
    direct.bytes = 101 * MIB;
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &direct, &p), ECH_FIT_FULL);
    direct.bytes = 50 * MIB;
    ck_assert(ech_allocator_empty_cache(pytorch));
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &direct, &p), ECH_FIT_OK);
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 2, .bytes = 60 * MIB}, &p), ECH_FIT_FULL);
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 2, .bytes = 1000, .direct = true}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.rounded, 1024);
    ck_assert(ech_allocator_release(pytorch, 1));
    take(pytorch, 3, 60 * MIB);
    EchDriverCalls calls;
    ech_allocator_driver(pytorch, &calls);
    ck_assert_uint_eq(calls.taken - calls.given, 60 * MIB + 1024);
}
END_TEST

/* Shares are of the whole device, the process's context included: JAX's of an A100 of 39.56 GiB is 29.67 GiB (31861358592 bytes, jax-ml/jax issue
 * 20022; whole 2 MiB since). */
START_TEST(shares_are_of_the_whole_device)
{
    static const struct {
        const char *spec;
        EchBytes limit;
    } cases[] = {{"jax", 31861358592},
                 {"jax:mem_fraction=0.5", 21240905728},
                 {"pytorch:per_process_memory_fraction:0.5", 21240905728},
                 {"pytorch:backend:cudaMallocAsync,per_process_memory_fraction:0.5", 21240905728}};
    const EchBytes total = 42481811456, context = 512 * MIB;
    g_autoptr(GError) error = NULL;
    EchAllocDevice device = {.capacity = total - context, .context = context};
    g_autoptr(EchAllocator) allocator = ech_allocator_new(cases[_i].spec, &device, &error);
    ck_assert_ok(allocator != NULL, error);
    EchPlacement p;
    EchAllocRequest request = {.id = 0, .bytes = cases[_i].limit + (4 * MIB)};
    ck_assert_int_ne(ech_allocator_alloc(allocator, &request, &p), ECH_FIT_OK);
    request.bytes = cases[_i].limit - (4 * MIB);
    ck_assert_int_eq(ech_allocator_alloc(allocator, &request, &p), ECH_FIT_OK);
}
END_TEST

/* Events of a trace say which, at the start too; no plan places them; a library's share comes on top of what a recorded allocator had. */
START_TEST(events_beside)
{
    static const char text[] = "echelon-trace 1 \"pretend\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\nhost 0 \"allocator\"\nbuffers 3\n"
                               "b \"NCCL's buffers\" m=0 bytes=2097152 resident=1 direct=1\nb \"mine\" m=0 bytes=1048576 q=0\n"
                               "b \"NCCL's buffers\" m=0 bytes=4194304 direct=1 q=0\nops 3\nalloc \"mine\" q=0 target=1 bytes=1048576\n"
                               "alloc \"NCCL's buffers\" q=0 target=2 bytes=4194304\nfree \"NCCL's buffers\" q=0 target=2 bytes=4194304\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "beside.ech");
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    ck_assert_uint_eq(ech_alloc_direct_peak(import->trace, 0), 6 * MIB);
    for (int residents = 0; residents < 2; residents++) {
        g_autoptr(GArray) events = ech_alloc_events_of_trace(import->trace, 0, residents, false);
        ck_assert_uint_eq(events->len, 4);
        for (guint i = 0; i < 3; i++)
            ck_assert_uint_eq(g_array_index(events, EchAllocEvent, i).direct, i != 1);
        ck_assert_uint_eq(ech_alloc_lower_bound((const EchAllocEvent *)(const void *)events->data, events->len, NULL), 7 * MIB);
        g_autoptr(EchAllocator) pytorch = open_allocator("pytorch", 8 * MIB);
        EchAllocOutcome outcome = ech_alloc_run(pytorch, (const EchAllocEvent *)(const void *)events->data, events->len, &(EchAllocRunOptions){.placed = NULL});
        ck_assert(outcome.stats.failed == 0 && outcome.stats.peak_reserved == 2 * MIB && outcome.stats.peak_direct == 6 * MIB);
        EchBytes least = ech_alloc_smallest_capacity("pytorch", (const EchAllocEvent *)(const void *)events->data, events->len, 2 * MIB,
                                                     ECH_ADDRESSES_FIRST_FIT, NULL, &error);
        ck_assert_uint_eq(least, 8 * MIB);
    }
}
END_TEST

/* ---- BFC ---- */

START_TEST(bfc_splits_at_twice_or_128_mib)
{
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:limit=1GiB", 2 * GIB);
    EchPlacement a = take(bfc, 0, 1000), b = take(bfc, 1, 1000);
    ck_assert_uint_eq(a.rounded, 1024);
    ck_assert_uint_eq(b.address, 1024);
    ech_allocator_release(bfc, 0);
    /* 1024 < 2 * 768: the whole chunk. */
    EchPlacement c = take(bfc, 2, 700);
    ck_assert_uint_eq(c.address, 0);
    ck_assert_uint_eq(c.rounded, 1024);
    ech_allocator_release(bfc, 2);
    /* 1024 = 2 * 512: split. */
    ck_assert_uint_eq(take(bfc, 3, 512).rounded, 512);
    ck_assert_int_eq(own(bfc, "largest_alloc_size"), 1024);
}
END_TEST

START_TEST(bfc_grows_by_doubling)
{
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:growth=true", GIB);
    static const EchBytes pool[] = {2 * MIB, 6 * MIB, 14 * MIB};
    for (uint32_t i = 0; i < G_N_ELEMENTS(pool); i++) {
        take(bfc, i, 2 * MIB);
        ck_assert_uint_eq((uint64_t)own(bfc, "pool_bytes"), i == 0 ? pool[0] : pool[1]);
    }
    take(bfc, 3, 3 * MIB);
    ck_assert_uint_eq((uint64_t)own(bfc, "pool_bytes"), pool[2]);
}
END_TEST

START_TEST(bfc_backs_off_in_single_precision)
{
    /* The limit is more than the device has: 0.9 of it until it fits, rounded to 256 after a product of floats. */
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:limit=1GiB", 900 * MIB);
    take(bfc, 0, MIB);
    EchBytes want = GIB;
    while (ech_round_up(want, 2 * MIB) > 900 * MIB)
        want = ech_round_up((EchBytes)((float)want * 0.9f), 256);
    ck_assert_uint_eq((uint64_t)own(bfc, "pool_bytes"), want);
}
END_TEST

START_TEST(bfc_prefers_the_best_then_the_lowest)
{
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:limit=1MiB", GIB);
    static const EchBytes sizes[] = {1024, 256, 512, 256, 512, 256};
    for (uint32_t i = 0; i < G_N_ELEMENTS(sizes); i++)
        take(bfc, i, sizes[i]);
    ech_allocator_release(bfc, 0);
    ech_allocator_release(bfc, 4);
    ech_allocator_release(bfc, 2);
    ck_assert_uint_eq(take(bfc, 6, 300).address, 1280);
    ck_assert_uint_eq(take(bfc, 7, 300).address, 2048);
    ck_assert_uint_eq(take(bfc, 8, 300).address, 0);
}
END_TEST

/* Two free segments of one size: 2.6 takes the one with the lower address, which is the older one where addresses ascend; 2.15 always takes the older one. */
START_TEST(free_blocks_hang_on_the_order_of_addresses)
{
    static const struct {
        const char *spec;
        EchAddressOrder order;
        unsigned first;
    } cases[] = {
        {"pytorch", ECH_ADDRESSES_FIRST_FIT, 0},
        {"pytorch", ECH_ADDRESSES_ASCEND, 0},
        {"pytorch", ECH_ADDRESSES_DESCEND, 1},
        {"pytorch:release:2.15", ECH_ADDRESSES_DESCEND, 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        const EchAllocDevice device = {.capacity = 1 * GIB, .order = cases[i].order};
        g_autoptr(EchAllocator) allocator = ech_allocator_new(cases[i].spec, &device, &error);
        ck_assert_ok(allocator, error);
        const uint64_t at[2] = {take(allocator, 0, 64 * MIB).address, take(allocator, 1, 64 * MIB).address};
        ck_assert_int_eq(at[1] < at[0], cases[i].order == ECH_ADDRESSES_DESCEND);
        ech_allocator_release(allocator, 0);
        ech_allocator_release(allocator, 1);
        ck_assert_uint_eq(take(allocator, 2, 64 * MIB).address, at[cases[i].first]);
        ck_assert_uint_eq(take(allocator, 3, 64 * MIB).address, at[1 - cases[i].first]);
        /* What was given back is given again by first fit only. */
        ech_allocator_release(allocator, 2);
        ech_allocator_release(allocator, 3);
        ck_assert(ech_allocator_empty_cache(allocator));
        uint64_t again = take(allocator, 4, 64 * MIB).address;
        ck_assert_int_eq(again == at[0] || again == at[1], cases[i].order == ECH_ADDRESSES_FIRST_FIT);
    }
}
END_TEST

/* Where the first recorded address lies tells whose addresses they are. */
START_TEST(recorded_addresses_tell_their_order)
{
    static const struct {
        uint64_t address;
        EchAddressOrder order;
    } cases[] = {{UINT64_C(0x7f2140000000), ECH_ADDRESSES_DESCEND},
                 {UINT64_C(0x3a6801000000), ECH_ADDRESSES_ASCEND},
                 {UINT64_C(0x704400000), ECH_ADDRESSES_FIRST_FIT},
                 {ECH_OFFSET_NONE, ECH_ADDRESSES_FIRST_FIT}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("memory_snapshot");
        EchBuffer buffer = ech_buffer_init();
        buffer.memory = ech_trace_builder_memory(builder, "hbm");
        buffer.name = ech_trace_builder_string(builder, "weights", -1);
        buffer.bytes = 512;
        buffer.resident = 1;
        buffer.address = cases[i].address;
        (void)ech_trace_builder_buffer(builder, buffer);
        g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
        ck_assert_ok(trace, error);
        ck_assert_int_eq(ech_alloc_recorded_order(trace, 0), cases[i].order);
    }
}
END_TEST

START_TEST(jax_and_tensorflow_take_their_share)
{
    static const struct {
        const char *spec;
        EchBytes limit;
    } cases[] = {
        {"jax", 60 * GIB},
        {"XLA_PYTHON_CLIENT_MEM_FRACTION=.9", UINT64_C(77309411328) + 0},
        {"XLA_PYTHON_CLIENT_MEM_FRACTION=.5,XLA_PYTHON_CLIENT_PREALLOCATE=false", 40 * GIB},
        {"tensorflow:per_process_gpu_memory_fraction=0.25,allow_growth=true", 20 * GIB},
        {"tensorflow:memory_limit=4096,allow_growth=true", 4 * GIB},
        {"tensorflow:allow_growth", 80 * GIB - 1800 * MIB},
        {"tensorflow:compute_capability=8.9", 80 * GIB - 1536 * MIB},
        {"tensorflow:compute_capability=7.5,allow_growth=true", 80 * GIB - 1050 * MIB},
        {"tensorflow:compute_capability=6.1", 80 * GIB - 500 * MIB},
        {"XLA_PYTHON_CLIENT_MEM_FRACTION=2,TF_FORCE_UNIFIED_MEMORY=1", 160 * GIB},
        {"jax:--xla_gpu_enable_allocator_spatial_partitioning,XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB=8", 60 * GIB},
        {"tensorflow:experimental.internal_fragmentation_fraction=0.1,TF_FORCE_UNIFIED_MEMORY=1,per_process_gpu_memory_fraction=1.5", 120 * GIB},
        {"tensorflow:per_process_gpu_memory_fraction=1.5", 120 * GIB},
        {"tensorflow:memory_limit=4096,compute_capability=8.9,per_process_gpu_memory_fraction=0.5", 4 * GIB},
        {"tensorflow:per_process_gpu_memory_fraction=0.25,compute_capability=8.9", 20 * GIB},
        {"tensorflow:gpu_system_memory_size_in_mb=2048,compute_capability=8.9", 78 * GIB},
        {"tensorflow:per_process_gpu_memory_fraction=0,experimental.internal_fragmentation_fraction=0.0", 80 * GIB - 1800 * MIB},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) allocator = open_allocator(cases[i].spec, 80 * GIB);
        EchBytes limit = (EchBytes)own(allocator, "bytes_limit");
        ck_assert_msg(limit >= cases[i].limit && limit - cases[i].limit < 2 * MIB, "%s: %" G_GUINT64_FORMAT, cases[i].spec, limit);
    }
    g_autoptr(EchAllocator) small = open_allocator("tensorflow", 2 * GIB - 1);
    ck_assert_int_eq(own(small, "bytes_limit"), (int64_t)(2 * GIB - 225 * MIB - 1));
}
END_TEST

/* All regions without a chunk in use go, if what is asked for would then be within the limit, and one is asked for once; how large it would have been by
 * doubling stays (bfc_allocator.cc:430-519, 169-279). */
START_TEST(bfc_collects_empty_regions)
{
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:growth=true,garbage_collection=true,limit=16MiB", GIB);
    EchPlacement p;
    take(bfc, 0, 2 * MIB);
    take(bfc, 1, 4 * MIB);
    ck_assert_int_eq(own(bfc, "pool_bytes"), 6 * (int64_t)MIB);
    /* One of 15 MiB does not fit beside the region in use. */
    ech_allocator_release(bfc, 1);
    ck_assert_int_ne(ech_allocator_alloc(bfc, &(EchAllocRequest){.id = 2, .bytes = 15 * MIB}, &p), ECH_FIT_OK);
    ck_assert_int_eq(own(bfc, "pool_bytes"), 6 * (int64_t)MIB);
    /* One of 11 MiB does, without the empty one; it gets all that is left. */
    take(bfc, 3, 11 * MIB);
    ck_assert_int_eq(own(bfc, "pool_bytes"), 16 * (int64_t)MIB);
    ech_allocator_release(bfc, 3);
    ech_allocator_release(bfc, 0);
    take(bfc, 4, 15 * MIB);
    ck_assert_int_eq(own(bfc, "pool_bytes"), 16 * (int64_t)MIB);
    g_autoptr(EchAllocator) keeps = open_allocator("bfc:growth=true,limit=16MiB", GIB);
    take(keeps, 0, 2 * MIB);
    take(keeps, 1, 4 * MIB);
    ech_allocator_release(keeps, 0);
    ech_allocator_release(keeps, 1);
    ck_assert_int_ne(ech_allocator_alloc(keeps, &(EchAllocRequest){.id = 2, .bytes = 11 * MIB}, &p), ECH_FIT_OK);
}
END_TEST

/* What a device that gives less than the limit brings about, and the real one never comes back from: the size of the next region doubles with every region, so
 * that after some 40 of them it is 0 (bfc_allocator.cc:169-217); and TensorFlow to 2.21 asks for 2,304 bytes for ever, nine tenths of which are 2,304 once
 * rounded.
 */
START_TEST(bfc_says_where_the_real_one_hangs)
{
    g_autoptr(EchAllocator) doubles = open_allocator("bfc:growth=true,garbage_collection=true,limit=64MiB", 60 * MIB);
    EchPlacement p;
    for (uint32_t i = 0; i < 100; i++) {
        /* Gives the region back in vain. */
        ck_assert_int_ne(ech_allocator_alloc(doubles, &(EchAllocRequest){.id = 2 * i, .bytes = 59 * MIB}, &p), ECH_FIT_OK);
        take(doubles, 2 * i + 1, 10 * MIB);
        ech_allocator_release(doubles, 2 * i + 1);
        ck_assert_int_eq(ech_allocator_note(doubles) != NULL, i >= 38); /* from 64 MiB to 2^64 */
    }
    ck_assert_ptr_nonnull(strstr(ech_allocator_note(doubles), "2^64"));
    g_autoptr(EchAllocator) asks = open_allocator("bfc:growth=true,limit=64MiB", 58 * MIB);
    take(asks, 0, 57 * MIB); /* and all of 57.6 MiB */
    ck_assert_int_ne(ech_allocator_alloc(asks, &(EchAllocRequest){.id = 1, .bytes = 2305}, &p), ECH_FIT_OK);
    ck_assert_ptr_null(ech_allocator_note(asks));
    ck_assert_int_ne(ech_allocator_alloc(asks, &(EchAllocRequest){.id = 2, .bytes = 2304}, &p), ECH_FIT_OK);
    ck_assert_ptr_nonnull(strstr(ech_allocator_note(asks), "2.21 hangs"));
}
END_TEST

/* As libonnxruntime 1.32.0 does, asked for the same: regions double from 1 MiB on, also after what the device has refused, up to a bound. */
START_TEST(onnxruntime_grows_by_doubling)
{
    g_autoptr(EchAllocator) arena = open_allocator("onnxruntime:max_power_of_two_extend_bytes=4MiB", 64 * MIB);
    static const EchBytes total[] = {1 * MIB, 3 * MIB, 7 * MIB, 11 * MIB, 11 * MIB, 27 * MIB, 43 * MIB, 47 * MIB};
    static const EchBytes asked[] = {MIB, 2 * MIB, 3 * MIB, 2 * MIB, MIB, 9 * MIB, 9 * MIB, 3 * MIB};
    for (uint32_t i = 0; i < G_N_ELEMENTS(asked); i++) {
        take(arena, i, asked[i]);
        ck_assert_msg((EchBytes)own(arena, "TotalAllocated") == total[i], "%u: %" G_GINT64_FORMAT, i, own(arena, "TotalAllocated"));
    }
    g_autoptr(EchAllocator) refuses = open_allocator("onnxruntime", 64 * MIB);
    EchPlacement p;
    ck_assert_int_ne(ech_allocator_alloc(refuses, &(EchAllocRequest){.id = 0, .bytes = 65 * MIB}, &p), ECH_FIT_OK);
    take(refuses, 1, MIB);
    EchBytes want = 128 * MIB;
    while (ech_round_up(want, 2 * MIB) > 64 * MIB)
        want = ech_round_up((EchBytes)((float)want * 0.9f), 256);
    ck_assert_uint_eq((EchBytes)own(refuses, "TotalAllocated"), want);
}
END_TEST

START_TEST(onnxruntime_shrinks)
{
    static const struct {
        const char *spec;
        EchBytes before, after, again;
    } arenas[] = {
        {"onnxruntime", 7 * MIB, 1 * MIB, 3 * MIB},
        {"onnxruntime:initial_growth_chunk_size_bytes=8MiB", 7 * MIB, 1 * MIB, 9 * MIB},
        {"onnxruntime:arena_extend_strategy=kSameAsRequested", 6 * MIB, 0, 2 * MIB},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(arenas); i++) {
        g_autoptr(EchAllocator) arena = open_allocator(arenas[i].spec, 64 * MIB);
        for (uint32_t id = 0; id < 3; id++)
            take(arena, id, (id + 1) * MIB);
        ck_assert_uint_eq((EchBytes)own(arena, "TotalAllocated"), arenas[i].before);
        for (uint32_t id = 0; id < 3; id++)
            ech_allocator_release(arena, id);
        ck_assert(ech_allocator_empty_cache(arena));
        ck_assert_uint_eq((EchBytes)own(arena, "TotalAllocated"), arenas[i].after);
        take(arena, 3, 2 * MIB);
        ck_assert_uint_eq((EchBytes)own(arena, "TotalAllocated"), arenas[i].again);
    }
}
END_TEST

/* As cupy 14.2.0 does: a block of the same stream is cut to size; a whole one goes back where the device or the limit is short, but not for what the limit
 * can never hold. */
START_TEST(cupy_caches_by_stream)
{
    g_autoptr(EchAllocator) pool = open_allocator("CUPY_GPU_MEMORY_LIMIT=10485760", 64 * MIB);
    EchPlacement p;
    take(pool, 0, 4 * MIB);
    take(pool, 1, 100);
    ech_allocator_release(pool, 0);
    ck_assert_int_eq(ech_allocator_alloc(pool, &(EchAllocRequest){.id = 2, .bytes = MIB, .stream = 1}, &p), ECH_FIT_OK);
    ck_assert_uint_eq((EchBytes)own(pool, "total_bytes"), 5 * MIB + 512);
    ck_assert_uint_eq(take(pool, 3, 3 * MIB + 1).offset, 0);
    ck_assert_int_eq(own(pool, "n_free_blocks"), 1);
    ck_assert_uint_eq((EchBytes)own(pool, "free_bytes"), MIB - 512);
    ech_allocator_release(pool, 3);
    ck_assert_int_ne(ech_allocator_alloc(pool, &(EchAllocRequest){.id = 4, .bytes = 11 * MIB}, &p), ECH_FIT_OK);
    ck_assert_uint_eq((EchBytes)own(pool, "total_bytes"), 5 * MIB + 512);
    take(pool, 5, 8 * MIB);
    ck_assert_uint_eq((EchBytes)own(pool, "total_bytes"), 9 * MIB + 512);
    /* A share of all there is: 40 of 100 MiB. */
    g_autoptr(EchAllocator) part = open_allocator("CUPY_GPU_MEMORY_LIMIT=40%", 100 * MIB);
    take(part, 0, 30 * MIB);
    ck_assert_int_ne(ech_allocator_alloc(part, &(EchAllocRequest){.id = 1, .bytes = 10 * MIB + 1}, &p), ECH_FIT_OK);
    take(part, 1, 10 * MIB);
    g_autoptr(EchAllocator) whole = open_allocator("CUPY_GPU_MEMORY_LIMIT=100%", MIB);
    take(whole, 0, MIB);
}
END_TEST

static void take_private(EchAllocator *allocator, uint32_t id, EchBytes bytes)
{
    EchPlacement placement;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = id, .bytes = bytes, .stream = 1000, .private_pool = true}, &placement),
                     ECH_FIT_OK);
}

/* A private pool counts how often requests took memory for it, and how often ranges of pages went back: one that comes to zero is forgotten with what is left
 * in it, one below is the end of the program. As PyTorch 2.15 itself does. */
START_TEST(pytorch_forgets_pools)
{
    static const struct {
        const char *spec;
        EchBytes kept;
    } cases[] = {
        {"pytorch:release:2.15,expandable_segments:True", 20 * MIB},
        {"pytorch:release:2.4,expandable_segments:True", 0},
        {"pytorch:release:2.15", 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) pool = open_allocator(cases[i].spec, GIB);
        take_private(pool, 0, 40 * MIB);
        ech_allocator_release(pool, 0);
        take_private(pool, 1, 15 * MIB);
        ech_allocator_pool_done(pool, 1000); /* one of two pages goes back */
        ech_allocator_release(pool, 1);
        ech_allocator_empty_cache(pool);
        EchAllocStats stats;
        ech_allocator_stats(pool, &stats);
        ck_assert_msg(stats.reserved == cases[i].kept, "%s: %" G_GUINT64_FORMAT " bytes", cases[i].spec, stats.reserved);
        ck_assert_int_eq(ech_allocator_note(pool) != NULL, cases[i].kept > 0);
        ck_assert(cases[i].kept == 0 || strstr(ech_allocator_note(pool), "may crash"));
    }
    g_autoptr(EchAllocator) twice = open_allocator(cases[0].spec, GIB);
    take_private(twice, 0, 100 * MIB);
    ech_allocator_release(twice, 0);
    take_private(twice, 1, 15 * MIB);
    take_private(twice, 2, 40 * MIB);
    take_private(twice, 3, 15 * MIB);
    ech_allocator_release(twice, 2);
    ech_allocator_pool_done(twice, 1000); /* two ranges, of one request */
    ck_assert_ptr_nonnull(strstr(ech_allocator_note(twice), "stops in this trace at an assertion"));
    /* Begun from a recorded state, where the count is not known. */
    static const EchSeedBlock state[2][2] = {
        {{.id = 0,
          .address = GIB,
          .bytes = 20 * MIB,
          .requested = 20 * MIB,
          .segment_address = GIB,
          .segment_bytes = 20 * MIB,
          .stream = 1000,
          .expandable = true,
          .private_pool = true},
         {.id = 1,
          .address = 2 * GIB,
          .bytes = 20 * MIB,
          .requested = 20 * MIB,
          .segment_address = 2 * GIB,
          .segment_bytes = 20 * MIB,
          .stream = 1000,
          .expandable = true,
          .private_pool = true}},
        {{.id = 0,
          .address = GIB,
          .bytes = 20 * MIB,
          .requested = 20 * MIB,
          .segment_address = GIB,
          .segment_bytes = 20 * MIB,
          .stream = 1000,
          .private_pool = true},
         {.id = 1,
          .address = 2 * GIB,
          .bytes = 20 * MIB,
          .requested = 20 * MIB,
          .segment_address = 2 * GIB,
          .segment_bytes = 20 * MIB,
          .stream = 1000,
          .private_pool = true}},
    };
    for (int i = 0; i < 2; i++) {
        g_autoptr(EchAllocator) seeded = open_allocator(cases[0].spec, GIB);
        ck_assert(ech_allocator_seed(seeded, state[i], 2, NULL));
        ech_allocator_release(seeded, 0);
        ech_allocator_pool_done(seeded, 1000);
        ech_allocator_release(seeded, 1);
        ech_allocator_empty_cache(seeded);
        EchAllocStats stats;
        ech_allocator_stats(seeded, &stats);
        ck_assert_uint_eq(stats.reserved, 0);
        ck_assert_ptr_null(ech_allocator_note(seeded));
    }
}
END_TEST

/* A region that begins where another ends extends it, and so does the one behind that: what is free in them is one chunk, and goes back as one
 * (bfc_allocator.cc:225-250). */
START_TEST(bfc_extends_regions)
{
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:growth=true,coalesce_regions=true,garbage_collection=true,limit=15MiB", GIB);
    for (uint32_t i = 0; i < 3; i++) {
        EchPlacement p = take(bfc, i, (2 * MIB) << i); /* regions of 2, 4 and 8 MiB */
        ck_assert_uint_eq(p.segment, 0);
        ck_assert_uint_eq(p.offset, (2 * MIB << i) - 2 * MIB);
    }
    for (uint32_t i = 0; i < 3; i++)
        ech_allocator_release(bfc, i);
    EchAllocStats stats;
    ech_allocator_stats(bfc, &stats);
    ck_assert_uint_eq(stats.largest_free, 14 * MIB);
    take(bfc, 3, 14 * MIB + 1); /* only once they are gone */
    ech_allocator_stats(bfc, &stats);
    ck_assert_uint_eq(stats.reserved, 15 * MIB);
    ck_assert_int_eq(own(bfc, "pool_bytes"), 15 * (int64_t)MIB);
}
END_TEST

/* A fraction above 1 is of unified memory: more is there than the device has. */
START_TEST(unified_memory_holds_more)
{
    static const char *const specs[] = {"XLA_PYTHON_CLIENT_MEM_FRACTION=2,TF_FORCE_UNIFIED_MEMORY=1", "tensorflow:per_process_gpu_memory_fraction=2"};
    for (size_t i = 0; i < G_N_ELEMENTS(specs); i++) {
        g_autoptr(EchAllocator) allocator = open_allocator(specs[i], 64 * MIB);
        take(allocator, 0, 64 * MIB);
        take(allocator, 1, 60 * MIB);
    }
}
END_TEST

/* As many bytes are free as were asked for, or not: of four chunks two, apart. Of what the device cannot give, none are. */
START_TEST(full_or_fragmented)
{
    EchPlacement p;
    g_autoptr(EchAllocator) fit = open_allocator("best_fit:limit=4KiB", MIB);
    for (uint32_t i = 0; i < 4; i++)
        take(fit, i, KIB);
    ech_allocator_release(fit, 0);
    ech_allocator_release(fit, 2);
    ck_assert_int_eq(ech_allocator_alloc(fit, &(EchAllocRequest){.id = 4, .bytes = 2 * KIB}, &p), ECH_FIT_FRAGMENTED);
    ck_assert_int_eq(ech_allocator_alloc(fit, &(EchAllocRequest){.id = 4, .bytes = 2 * KIB + 1}, &p), ECH_FIT_FULL);
    g_autoptr(EchAllocator) wide = open_allocator("bfc:limit=1GiB", 64 * MIB);
    ck_assert_int_eq(ech_allocator_alloc(wide, &(EchAllocRequest){.id = 0, .bytes = 65 * MIB}, &p), ECH_FIT_FULL);
}
END_TEST

/* The bound counts what lives, whatever is freed twice. */
START_TEST(lower_bound_is_the_most_that_lives)
{
    const EchAllocEvent events[] = {{.kind = ECH_EVENT_ALLOC, .id = 0, .bytes = 100}, {.kind = ECH_EVENT_FREE, .id = 0},
                                    {.kind = ECH_EVENT_ALLOC, .id = 1, .bytes = 50},  {.kind = ECH_EVENT_FREE, .id = 0},
                                    {.kind = ECH_EVENT_ALLOC, .id = 2, .bytes = 60},  {.kind = ECH_EVENT_ALLOC, .id = 0, .bytes = 5}};
    size_t at;
    ck_assert_uint_eq(ech_alloc_lower_bound(events, G_N_ELEMENTS(events), &at), 115);
    ck_assert_uint_eq(at, 5);
    ck_assert_uint_eq(ech_alloc_lower_bound(events, 4, &at), 100);
    ck_assert_uint_eq(at, 0);
}
END_TEST

/* Recorded ranges go to requests of their sizes, in whole granules, each once; where there is none left the device chooses. */
START_TEST(recorded_ranges_go_by_size)
{
    static const EchSegmentRange script[] = {
        {.address = 64 * MIB, .bytes = 4 * MIB}, {.address = 96 * MIB, .bytes = 2 * MIB}, {.address = 32 * MIB, .bytes = 2 * MIB}};
    g_autoptr(EchAllocator) platform = open_allocator("platform", GIB);
    ech_allocator_script(platform, script, G_N_ELEMENTS(script));
    ck_assert_uint_eq(take(platform, 0, 2 * MIB - 5).address, 96 * MIB);
    ck_assert_uint_eq(take(platform, 1, 3 * MIB).address, 64 * MIB);
    ck_assert_uint_eq(take(platform, 2, 4 * MIB).address, 0);
    ck_assert_uint_eq(take(platform, 3, 2 * MIB).address, 32 * MIB);
    ech_allocator_release(platform, 1);
    ck_assert_uint_eq(take(platform, 4, 4 * MIB).address, 4 * MIB); /* what was given back is no script's any more */
}
END_TEST

/* The device gives 7 of 8 MiB, and the pool is full with them: a second range would be a second gap, of which the real one dies. */
START_TEST(two_ended_takes_one_range)
{
    g_autoptr(EchAllocator) bfc = open_allocator("bfc:limit=8MiB,two_ended=true", 8 * MIB);
    ech_allocator_inject_failure(bfc, 0, 1);
    take(bfc, 0, 7 * MIB);
    EchPlacement p;
    ck_assert_int_ne(ech_allocator_alloc(bfc, &(EchAllocRequest){.id = 1, .bytes = 512 * KIB, .upper_end = true}, &p), ECH_FIT_OK);
    ck_assert_int_eq(own(bfc, "pool_bytes"), own(bfc, "peak_pool_bytes"));
    ck_assert_int_lt(own(bfc, "pool_bytes"), 8 * (int64_t)MIB);
}
END_TEST

/* What is taken beside it ends the range: the next fit begins again below, the best one takes another, though what is left at the end is tighter. */
START_TEST(fits_end_before_what_is_beside_them)
{
    static const char *const specs[] = {"next_fit", "best_fit", "tlsf"};
    for (size_t s = 0; s < G_N_ELEMENTS(specs); s++) {
        g_autoptr(EchAllocator) fit = open_allocator(specs[s], 64 * MIB);
        take(fit, 0, 20 * MIB);
        take(fit, 1, 16 * MIB);
        take(fit, 2, 12 * MIB);
        ck_assert(ech_allocator_release(fit, 0));
        EchPlacement p;
        ck_assert_int_eq(ech_allocator_alloc(fit, &(EchAllocRequest){.id = 3, .bytes = 16 * MIB, .direct = true}, &p), ECH_FIT_OK);
        ck_assert_int_ne(ech_allocator_alloc(fit, &(EchAllocRequest){.id = 4, .bytes = 21 * MIB}, &p), ECH_FIT_OK);
        ck_assert_int_eq(ech_allocator_alloc(fit, &(EchAllocRequest){.id = 5, .bytes = 16 * MIB}, &p), ECH_FIT_OK);
        ck_assert_uint_eq(p.address, 0);
    }
    g_autoptr(EchAllocator) buddy = open_allocator("buddy", 64 * MIB);
    take(buddy, 0, 32 * MIB);
    take(buddy, 1, 16 * MIB);
    ck_assert(ech_allocator_release(buddy, 0));
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(buddy, &(EchAllocRequest){.id = 2, .bytes = 16 * MIB, .direct = true}, &p), ECH_FIT_OK);
    ck_assert_int_eq(ech_allocator_alloc(buddy, &(EchAllocRequest){.id = 3, .bytes = 16 * MIB}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.address, 0);
}
END_TEST

/* ---- PyTorch ---- */

static const struct {
    const char *spec;
    EchBytes bytes, rounded, segment;
} sizes[] = {
    {"pytorch", 1, 512, 2 * MIB},
    {"pytorch", 513, 1024, 2 * MIB},
    {"pytorch", MIB, MIB, 2 * MIB},
    {"pytorch", MIB + 1, MIB + 512, 20 * MIB},
    {"pytorch", 10 * MIB - 512, 10 * MIB - 512, 20 * MIB},
    /* 12 MiB segment: a rest of exactly 1 MiB or less is not split off. */
    {"pytorch", 11 * MIB, 12 * MIB, 12 * MIB},
    {"pytorch", 11 * MIB - 512, 11 * MIB - 512, 12 * MIB},
    {"pytorch:large_segment_size_mb:40", MIB + 1, MIB + 512, 40 * MIB},
    {"pytorch:roundup_power2_divisions:4", 1200 * KIB, 1280 * KIB, 20 * MIB},
    {"pytorch:roundup_power2_divisions:[256:1,512:2,>:8]", 600 * MIB, 640 * MIB, 640 * MIB},
    {"pytorch:roundup_power2_divisions:[256:1,512:2,>:8]", 100 * MIB + 1, 100 * MIB + 512, 102 * MIB},
    {"pytorch:roundup_power2_divisions:[256:1,512:2,>:8]", 1025 * MIB, 1152 * MIB, 1152 * MIB},
    /* '>' begins with the last key's own entry up to 2.9, behind it from 2.10 on. */
    {"pytorch:release:2.9,roundup_power2_divisions:[64:8,>:2]", 65 * MIB, 96 * MIB, 96 * MIB},
    {"pytorch:release:2.10,roundup_power2_divisions:[64:8,>:2]", 65 * MIB, 72 * MIB, 72 * MIB},
    {"pytorch:roundup_power2_divisions:[1:4,64:0,]", 65 * MIB + 1, 66 * MIB, 66 * MIB},
    /* As C reads numbers, and PyTorch with it. */
    {"pytorch: round up_power2_divisions : 4x", 1200 * KIB, 1280 * KIB, 20 * MIB},
};

START_TEST(pytorch_rounds_and_takes_segments)
{
    g_autoptr(EchAllocator) pytorch = open_allocator(sizes[_i].spec, 80 * GIB);
    ck_assert_uint_eq(take(pytorch, 0, sizes[_i].bytes).rounded, sizes[_i].rounded);
    ck_assert_uint_eq((uint64_t)own(pytorch, "reserved_bytes.all.current"), sizes[_i].segment);
}
END_TEST

/* A release holds for the settings before it as for those behind: since 2.10 '>' is not the last key's own. */
START_TEST(pytorch_release_holds_for_all)
{
    static const struct {
        const char *spec;
        EchBytes rounded;
    } cases[] = {
        {"pytorch:release:2.12,roundup_power2_divisions:[256:1,512:2,>:8]", 768 * MIB},
        {"pytorch:roundup_power2_divisions:[256:1,512:2,>:8],release:2.12", 768 * MIB},
        {"pytorch:release:2.6,roundup_power2_divisions:[256:1,512:2,>:8]", 704 * MIB},
        {"pytorch:roundup_power2_divisions:[256:1,512:2,>:8],release:2.6", 704 * MIB},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) allocator = open_allocator(cases[i].spec, 8 * GIB);
        EchPlacement p;
        ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 0, .bytes = 700 * MIB}, &p), ECH_FIT_OK);
        ck_assert_msg(p.rounded == cases[i].rounded, "%s: %" G_GUINT64_FORMAT, cases[i].spec, p.rounded);
    }
    GError *error = NULL;
    EchAllocDevice device = {.capacity = 8 * GIB};
    ck_assert_ptr_null(ech_allocator_new("pytorch:throw_on_cudamalloc_oom:True,release:2.6", &device, &error));
    ck_assert(strstr(error->message, "newer than PyTorch 2.6") != NULL);
    g_error_free(error);
}
END_TEST

START_TEST(pytorch_keeps_streams_apart)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch", GIB);
    EchPlacement p;
    take(pytorch, 0, 4096);
    ech_allocator_release(pytorch, 0);
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 1, .bytes = 4096, .stream = 7}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.segment, 1);
    ck_assert_uint_eq(take(pytorch, 2, 4096).address, 0);
}
END_TEST

START_TEST(pytorch_waits_for_recorded_streams)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch", GIB);
    take(pytorch, 0, 4096);
    ech_allocator_record_stream(pytorch, 0, 0); /* its own: ignored */
    ech_allocator_record_stream(pytorch, 0, 3);
    ech_allocator_record_stream(pytorch, 0, 3);
    ech_allocator_release(pytorch, 0);
    ck_assert_int_eq(own(pytorch, "allocated_bytes.all.current"), 0);
    ck_assert_int_eq(own(pytorch, "active_bytes.all.current"), 4096);
    ck_assert_uint_eq(take(pytorch, 1, 4096).address, 4096);
    ech_allocator_stream_done(pytorch, 3);
    ck_assert_uint_eq(take(pytorch, 2, 4096).address, 0);
    ck_assert_int_eq(own(pytorch, "active_bytes.all.current"), 8192);
}
END_TEST

START_TEST(pytorch_releases_its_cache_before_failing)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch", 64 * MIB);
    take(pytorch, 0, 40 * MIB);
    ech_allocator_release(pytorch, 0);
    take(pytorch, 1, 50 * MIB);
    ck_assert_int_eq(own(pytorch, "num_alloc_retries"), 1);
    ck_assert_int_eq(own(pytorch, "num_ooms"), 0);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 2, .bytes = 20 * MIB}, &p), ECH_FIT_FULL);
    ck_assert_int_eq(own(pytorch, "num_ooms"), 1);
    ck_assert_int_eq(own(pytorch, "num_alloc_retries"), 2);
}
END_TEST

START_TEST(pytorch_expands_segments)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch:expandable_segments:True", GIB);
    EchPlacement a = take(pytorch, 0, 30 * MIB), b = take(pytorch, 1, 15 * MIB);
    ck_assert_int_eq(a.reservation, 0);
    ck_assert_uint_eq(a.offset, 0);
    ck_assert_uint_eq(b.offset, 30 * MIB);
    ck_assert_uint_eq((uint64_t)own(pytorch, "reserved_bytes.all.current"), 60 * MIB);
    EchPlacement small = take(pytorch, 2, 100);
    ck_assert_int_eq(small.reservation, 1);
    ck_assert_uint_eq((uint64_t)own(pytorch, "reserved_bytes.all.current"), 62 * MIB);
}
END_TEST

/* Two free blocks of 30 MiB, the older one higher up, and of 30 MiB again but put together anew: libc10_cuda.so of every release was asked. */
static const struct {
    const char *spec;
    bool lower, lower_when_joined;
} ties[] = {
    {"pytorch", true, true},
    {"pytorch:release:2.11", true, true},
    {"pytorch:release:2.12", false, true}, /* the block that was made first: what a split makes is new */
    {"pytorch:release:2.13", false, false},
};

START_TEST(pytorch_settles_ties_by_release)
{
    g_autoptr(EchAllocator) pytorch = open_allocator(ties[_i].spec, GIB);
    EchPlacement hole = take(pytorch, 0, 30 * MIB), old = take(pytorch, 1, 30 * MIB);
    ech_allocator_release(pytorch, 0);
    ck_assert(ech_allocator_give_back(pytorch, hole.address, 30 * MIB));
    EchPlacement young = take(pytorch, 2, 30 * MIB);
    ck_assert_uint_lt(young.address, old.address);
    ech_allocator_release(pytorch, 2);
    ech_allocator_release(pytorch, 1);
    ck_assert_uint_eq(take(pytorch, 3, 30 * MIB).address, ties[_i].lower ? young.address : old.address);
    ech_allocator_release(pytorch, 3);
    /* The older one in two pieces, of which the lower is freed last and takes the other in. */
    EchPlacement held = take(pytorch, 4, 30 * MIB);
    if (held.address != young.address) {
        take(pytorch, 5, 30 * MIB);
        ech_allocator_release(pytorch, 4);
    }
    take(pytorch, 6, 20 * MIB);
    take(pytorch, 7, 10 * MIB);
    ech_allocator_release(pytorch, 7);
    ech_allocator_release(pytorch, 6);
    ech_allocator_release(pytorch, held.address != young.address ? 5 : 4);
    ck_assert_uint_eq(take(pytorch, 8, 30 * MIB).address, ties[_i].lower_when_joined ? young.address : old.address);
}
END_TEST

START_TEST(pytorch_rejects_before_it_gives_back)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch:throw_on_cudamalloc_oom:True", 64 * MIB);
    take(pytorch, 0, 40 * MIB);
    ech_allocator_release(pytorch, 0);
    EchPlacement p;
    ck_assert_int_ne(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 1, .bytes = 50 * MIB}, &p), ECH_FIT_OK);
    ck_assert_int_eq(own(pytorch, "num_oom_rejections"), 1);
    ck_assert_int_eq(own(pytorch, "num_ooms"), 0);
    ck_assert_uint_eq(take(pytorch, 2, 40 * MIB).address, 0);
}
END_TEST

/* A byte less than 54 MiB: the limit is rounded up since 2.13, but not where throw_on_cudamalloc_oom looks at it. */
START_TEST(pytorch_rejects_by_another_rounding)
{
    EchPlacement p;
    static const struct {
        const char *spec;
        bool fits;
        int64_t rejections, ooms;
    } cases[] = {{"pytorch:release:2.15,per_process_memory_fraction:0.89999999999999991", true, 0, 0},
                 {"pytorch:release:2.12,per_process_memory_fraction:0.89999999999999991", false, 0, 1},
                 {"pytorch:release:2.15,throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.89999999999999991", false, 1, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) pytorch = open_allocator(cases[i].spec, 60 * MIB);
        take(pytorch, 0, 20 * MIB);
        take(pytorch, 1, 1000);
        ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 2, .bytes = 32 * MIB}, &p) == ECH_FIT_OK, cases[i].fits);
        ck_assert_int_eq(own(pytorch, "num_oom_rejections"), cases[i].rejections);
        ck_assert_int_eq(own(pytorch, "num_ooms"), cases[i].ooms);
        /* What exceeds the limit by more is an out-of-memory like any other. */
        ck_assert_int_ne(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 3, .bytes = 50 * MIB}, &p), ECH_FIT_OK);
        ck_assert_int_eq(own(pytorch, "num_ooms"), cases[i].ooms + 1);
    }
}
END_TEST

/* A private pool keeps what it has cached until it is released, nothing is given back for what is captured, and a capture does not ask for events. */
START_TEST(pytorch_private_pools_keep_their_cache)
{
    enum { POOL = 9 };
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch:release:2.6", 200 * MIB);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 0, .bytes = 80 * MIB, .stream = POOL, .private_pool = true}, &p), ECH_FIT_OK);
    ech_allocator_release(pytorch, 0);
    take(pytorch, 1, 60 * MIB);
    ech_allocator_record_stream(pytorch, 1, 3);
    ech_allocator_release(pytorch, 1);
    ech_allocator_stream_done(pytorch, 3);
    /* 60 MiB are free on the device and 60 in the default pool. */
    ck_assert_int_ne(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 2, .bytes = 90 * MIB, .stream = POOL, .private_pool = true}, &p), ECH_FIT_OK);
    ck_assert_int_eq(own(pytorch, "num_alloc_retries"), 0);
    ck_assert_int_eq(own(pytorch, "active.all.current"), 1);
    ck_assert_int_ne(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 3, .bytes = 150 * MIB}, &p), ECH_FIT_OK);
    EchAllocStats stats;
    ech_allocator_stats(pytorch, &stats);
    ck_assert_uint_eq(stats.reserved, 80 * MIB);
    ech_allocator_empty_cache(pytorch);
    ech_allocator_stats(pytorch, &stats);
    ck_assert_uint_eq(stats.reserved, 80 * MIB);
    ech_allocator_pool_done(pytorch, POOL);
    take(pytorch, 3, 150 * MIB);
}
END_TEST

/* Powers of two, the last freed first, and a copy's block when the copy and all before it are done; nothing is emptied to make room. */
START_TEST(pytorch_pinned_blocks)
{
    g_autoptr(EchAllocator) pinned = open_allocator("pytorch_pinned", 16 * MIB);
    EchPlacement a = take(pinned, 0, 3 * MIB), b = take(pinned, 1, 4 * MIB), p;
    ck_assert_uint_eq(a.rounded, 4 * MIB);
    ck_assert_uint_eq(take(pinned, 2, 1).rounded, 1);
    ech_allocator_record_stream(pinned, 0, 5);
    ech_allocator_record_stream(pinned, 1, 6);
    ech_allocator_release(pinned, 0);
    ech_allocator_release(pinned, 1);
    ech_allocator_stream_done(pinned, 6); /* behind stream 5's event, which is not looked past */
    EchPlacement c = take(pinned, 3, 4 * MIB);
    ck_assert(c.address != a.address && c.address != b.address);
    ech_allocator_stream_done(pinned, 5);
    ck_assert_uint_eq(take(pinned, 4, 3 * MIB).address, b.address);
    ck_assert_int_ne(ech_allocator_alloc(pinned, &(EchAllocRequest){.id = 5, .bytes = 8 * MIB}, &p), ECH_FIT_OK);
    ech_allocator_empty_cache(pinned);
    EchAllocStats stats;
    ech_allocator_stats(pinned, &stats);
    ck_assert_uint_eq(stats.reserved, 8 * MIB + 1);

    g_autoptr(EchAllocator) exact = open_allocator("pytorch_pinned:pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:6", 64 * MIB);
    ck_assert_uint_eq(take(exact, 0, 5 * MIB).rounded, 5 * MIB);
    ck_assert_uint_eq(take(exact, 1, 7 * MIB).rounded, 7 * MIB);
    ech_allocator_release(exact, 0);
    ech_allocator_release(exact, 1);
    ech_allocator_stats(exact, &stats);
    ck_assert_uint_eq(stats.reserved, 5 * MIB); /* what is larger than 6 MiB is not kept */
    ck_assert_uint_eq(take(exact, 2, 6 * MIB).rounded, 6 * MIB);
    ck_assert_uint_eq(take(exact, 3, 4 * MIB + 1).rounded, 5 * MIB);
    ck_assert_uint_eq(take(exact, 4, 700 << 10).rounded, MIB);

    g_autoptr(EchAllocator) reserved = open_allocator("pytorch_pinned:pinned_reserve_segment_size_mb:2", 64 * MIB);
    a = take(reserved, 0, MIB);
    b = take(reserved, 1, 100);
    ck_assert(a.segment == b.segment && b.offset == MIB);
    ck_assert(take(reserved, 2, MIB).segment != a.segment);
    ech_allocator_release(reserved, 0);
    ck_assert_uint_eq(take(reserved, 3, MIB).address, a.address);
    ech_allocator_release(reserved, 3);
    ech_allocator_empty_cache(reserved); /* what was free in the segment is nobody's: so does PyTorch 2.15 */
    ck_assert(take(reserved, 4, MIB).segment != a.segment);
    ech_allocator_stats(reserved, &stats);
    ck_assert_uint_eq(stats.reserved, 4 * MIB);
}
END_TEST

START_TEST(pytorch_reserves_for_what_cannot_fit)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch:expandable_segments:True", 256 * MIB);
    EchPlacement p;
    /* Once at first and once more after the cache is emptied, and neither reservation ever goes: none of its pages were ever mapped. */
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 0, .bytes = GIB}, &p), ECH_FIT_FULL);
    EchPlacement large = take(pytorch, 1, 30 * MIB), small = take(pytorch, 2, 100);
    ck_assert_int_eq(large.reservation, 0);
    ck_assert_int_eq(small.reservation, 2);
    /* More than 1 EB is refused without a look at anything. */
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 3, .bytes = UINT64_C(1) << 60}, &p), ECH_FIT_FULL);
    ck_assert_int_eq(own(pytorch, "num_ooms"), 1);
}
END_TEST

START_TEST(pytorch_gives_whole_reservations_back)
{
    g_autoptr(EchAllocator) pytorch = open_allocator("pytorch:expandable_segments:True", GIB);
    EchPlacement a = take(pytorch, 0, 100);
    ck_assert_int_eq(a.reservation, 0);
    ech_allocator_release(pytorch, 0);
    ck_assert(ech_allocator_give_back(pytorch, a.address, 2 * MIB));
    ck_assert_int_eq(take(pytorch, 1, 100).reservation, 1);
}
END_TEST

static const struct {
    const char *spec;
    EchBytes kept; /* of what 20 MiB, in use, and 40 MiB, free, took */
} emptied[] = {
    {"pytorch", 20 * MIB},
    {"pytorch:expandable_segments:True", 20 * MIB},
    {"pytorch:backend:cudaMallocAsync", 32 * MIB},
    {"bfc:growth=true", 96 * MIB}, /* regions of 32 and 64 MiB; it has no such call */
};

START_TEST(caches_are_emptied)
{
    g_autoptr(EchAllocator) allocator = open_allocator(emptied[_i].spec, GIB);
    take(allocator, 0, 20 * MIB);
    take(allocator, 1, 40 * MIB);
    ech_allocator_release(allocator, 1);
    bool known = ech_allocator_empty_cache(allocator);
    EchAllocStats stats;
    ech_allocator_stats(allocator, &stats);
    ck_assert_uint_eq(stats.reserved, emptied[_i].kept);
    ck_assert_int_eq(known, !g_str_has_prefix(emptied[_i].spec, "bfc"));
}
END_TEST

/* libc10_cuda.so of 2.12 to 2.15 was asked: from 2.13 on a fraction of the memory is rounded to the nearest byte; from 2.15 on what no reservation can hold
 * leaves none behind, and expandable_segments_reserve says how much one holds, in whole pages. */
static const struct {
    const char *spec;
    EchBytes bytes;
    bool fits;
} bounds[] = {
    {"pytorch:release:2.12,per_process_memory_fraction:0.44999999999999996", 90 * MIB, false},
    {"pytorch:release:2.13,per_process_memory_fraction:0.44999999999999996", 90 * MIB, true},
    {"pytorch:release:2.15,expandable_segments:True,expandable_segments_reserve:0.5", 100 * MIB, true},
    {"pytorch:release:2.15,expandable_segments:True,expandable_segments_reserve:0.5", 100 * MIB + 1, false},
    {"pytorch:release:2.15,expandable_segments:True,expandable_segments_reserve:0.0500G", 60 * MIB, true},
    {"pytorch:release:2.15,expandable_segments:True,expandable_segments_reserve:0.0500G", 61 * MIB, false},
    {"pytorch:expandable_segments:True,expandable_segments_reserve:.05g", 61 * MIB, false},
    {"pytorch:release:2.15,expandable_segments:True,expandable_segments_reserve:0.05GB", 200 * MIB, true}, /* warned of, and then as if not there */
    {"pytorch:release:2.15,expandable_segments:True,expandable_segments_reserve:-1", 200 * MIB, true},
    {"pytorch:release:2.15,expandable_segments_reserve:0.1", 200 * MIB, true},
};

START_TEST(pytorch_bounds_requests_by_release)
{
    g_autoptr(EchAllocator) pytorch = open_allocator(bounds[_i].spec, 200 * MIB);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 0, .bytes = bounds[_i].bytes}, &p) == ECH_FIT_OK, bounds[_i].fits);
}
END_TEST

START_TEST(pytorch_refuses_what_no_reservation_holds)
{
    static const int64_t left[] = {2, 0}; /* 2.14, at both tries; 2.15 */
    for (int i = 0; i < 2; i++) {
        g_autoptr(EchAllocator) pytorch =
            open_allocator(i == 0 ? "pytorch:release:2.14,expandable_segments:True" : "pytorch:release:2.15,expandable_segments:True", 90 * MIB);
        EchPlacement p;
        ck_assert_int_eq(ech_allocator_alloc(pytorch, &(EchAllocRequest){.id = 0, .bytes = 200 * MIB}, &p), ECH_FIT_FULL);
        EchAllocStats stats;
        ech_allocator_stats(pytorch, &stats);
        ck_assert_int_eq((int64_t)(stats.segments_allocated - stats.segments_freed), left[i]);
    }
}
END_TEST

static const struct {
    const char *spec, *said;
} refused[] = {
    {"pytorch:max_split_size_mb:19", "max_split_size_mb: '19' is too small"},
    {"pytorch:max_split_size_mb:MB", "is not a number of MiB"},
    {"pytorch:release:2.9,max_split_size_mb:20", "'20' is too small; expected at least 21"},
    {"pytorch:release:2.9,max_split_size_mb:2147483648", "is not a number of MiB"},
    {"pytorch:large_segment_size_mb:64,max_split_size_mb:32", "'32' is too small; expected at least 64"},
    {"pytorch:max_split_size_mb:19,max_split_size_mb:64", "'19' is too small"},
    {"pytorch:expandable_segments:true", "'true' is not True or False"},
    {"pytorch:expandable_segments:1", "'1' is not True or False"},
    {"pytorch:expandable_segments", "expected ':' before 'the end'"},
    {"pytorch:expandable_segments:True,,max_split_size_mb:64", "',' is no setting"},
    {"pytorch:,expandable_segments:True", "',' is no setting"},
    {"pytorch:'expandable_segments:True", "''expandable_segments' is no setting"},
    {"pytorch:max_split_size_mb,64", "expected ':' before ','"},
    {"pytorch:roundup_power2_divisions:[64:8;128:4]", "expected ',' before ':'"},
    {"pytorch:roundup_power2_divisions:0", "is not a power of two"},
    {"pytorch:garbage_collection_threshold:nan", "is not a fraction in (0, 1)"},
    {"pytorch:release:2.9,	expandable_segments:True", "is no setting"},
    {"pytorch:release:2.14,expandable_segments_reserve:0.5", "newer than PyTorch 2.14"},
    {"large_segment_size_mb:64,max_split_size_mb:30", "'30' is too small; expected at least 64"},
    {"pytorch:large_segment_size_mb:10", "'10' is too small"},
    {"pytorch:pinned_num_register_threads:3", "is not a power of two up to 128"},
    {"pytorch:pinned_reserve_segment_size_mb:0", "is not a number above 0"},
    {"pytorch:backend:cuda", "is not native or cudaMallocAsync"},
    {"pytorch:backend:cudaMallocAsync,max_splitsize_mb:200", "did you mean 'max_split_size_mb'?"},
    {"expandable_segments=True", "are written 'expandable_segments:True'"},
    {"pytorch:max_splitsize_mb:200", "did you mean 'max_split_size_mb'?"},
    {"pytorch:garbage_collection_threshold:1.5", "is not a fraction in (0, 1)"},
    {"pytorch:expandable_segments:maybe", "is not True or False"},
    {"pytorch:roundup_power2_divisions:[256:3]", "is not 0 or a power of two"},
    {"pytorch:roundup_power2_divisions:[256:1", "expected ',' before 'the end'"},
    {"pytorch:release:2.6,large_segment_size_mb:40", "'large_segment_size_mb' is newer than PyTorch 2.6"},
    {"pytorch:release:2.15,expandable_segments_reserve_by_class:[20:1", "a list that ends with ]"},
    {"pytorch:release:2.15,expandable_segments_reserve_by_class:20", "a list in brackets"},
    {"jax:mem_fraction=2", "is no fraction of the memory"},
    {"tensorflow:allow_grwth", "did you mean 'allow_growth'?"},
    {"tensorflow:compute_capability=new", "'new' is none; expected something like 9.0"},
    {"tensorflow:TF_GPU_ALLOCATOR=memory_guard", "is not simulated"},
    {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async,mem_fracton=.5", "did you mean 'mem_fraction'?"},
    {"onnxruntime:arena_extend_strategy=kSameAsAsked", "expected one of kNextPowerOfTwo, kSameAsRequested"},
    {"CUPY_GPU_MEMORY_LIMIT=half%", "is no share of the memory; expected something like 50%"},
    {"bfc:alignment=300", "is no power of two"},
    {"slab:slab=4KiB,smallest=8KiB", "'8192' is more than a slab of 4096 bytes holds"},
    {"XLA_PYTHON_CLIENT_ALLOCATOR=vmm", "is not simulated"},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION=2", "is no fraction of the memory"},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION=0", "is no fraction of the memory"},
    {"plugin", "no shared object given"},
};

/* A slab that is full opens another; where there is room again the slab at the lowest address serves, its lowest slot first. */
START_TEST(slabs_fill_up)
{
    g_autoptr(EchAllocator) slab = open_allocator("slab:slab=64KiB,smallest=64", GIB);
    for (uint32_t i = 0; i < 1024; i++)
        ck_assert_uint_eq(take(slab, i, 64).offset, 64 * i);
    EchPlacement second = take(slab, 1024, 1);
    ck_assert_uint_eq(second.offset, 0);
    ck_assert_uint_eq(second.segment, 1);
    ck_assert_uint_eq(take(slab, 1025, 65).segment, 2); /* of another class */
    ech_allocator_release(slab, 700);
    ech_allocator_release(slab, 130);
    EchPlacement again = take(slab, 1026, 40);
    ck_assert_uint_eq(again.segment, 0);
    ck_assert_uint_eq(again.offset, 64 * 130);
    ck_assert_uint_eq(take(slab, 1027, 64).offset, 64 * 700);
    ck_assert_uint_eq(take(slab, 1028, 64).address, second.address + 64);
    for (uint32_t i = 0; i < 818; i++) /* slots of 80 bytes, 819 in a slab */
        ck_assert_uint_eq(take(slab, 1029 + i, 70).segment, 2);
    ck_assert_uint_eq(take(slab, 1847, 70).segment, 3);
    ech_allocator_release(slab, 1100);
    ck_assert_uint_eq(take(slab, 1848, 80).segment, 2);
    for (uint32_t id = 0; id <= 1848; id++)
        ech_allocator_release(slab, id);
    EchAllocStats stats;
    ech_allocator_stats(slab, &stats);
    ck_assert_uint_eq(stats.reserved, 0);
}
END_TEST

START_TEST(settings_are_refused_with_reasons)
{
    EchAllocDevice device = {.capacity = GIB};
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_allocator_new(refused[_i].spec, &device, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    ck_assert_msg(strstr(error->message, refused[_i].said) != NULL, "%s", error->message);
}
END_TEST

START_TEST(words_choose_the_allocator)
{
    static const struct {
        const char *spec;
        EchBytes reserved; /* after 1 byte */
    } cases[] = {
        {"XLA_PYTHON_CLIENT_ALLOCATOR=platform", 2 * MIB},
        {"PYTORCH_NO_CUDA_MEMORY_CACHING=1", 2 * MIB},
        {"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", 32 * MIB},
        {"backend: cudaMallocAsync, max_split_size_mb: 128", 32 * MIB},
        {"PYTORCH_HIP_ALLOC_CONF=backend:hipMallocAsync", 32 * MIB},
        {"max_split_size_mb:20,release_lock_on_hipmalloc:True", 2 * MIB},
        {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", 768 * MIB},
        {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async,XLA_PYTHON_CLIENT_MEM_FRACTION=.5", 512 * MIB},
        {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async,XLA_PYTHON_CLIENT_PREALLOCATE=false", 32 * MIB},
        {"TF_GPU_ALLOCATOR=cuda_malloc_async", 32 * MIB},
        {"TF_GPU_ALLOCATOR=cuda_malloc", 2 * MIB},
        {"PYTORCH_ALLOC_CONF=expandable_segments:True", 2 * MIB},
        {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", 768 * MIB},
        /* 768 MiB are not there any more: nine tenths, and so on, until it fits. */
        {"jax:XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB=512", 528361728},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) allocator = open_allocator(cases[i].spec, GIB);
        EchAllocStats stats;
        take(allocator, 0, 1);
        ech_allocator_stats(allocator, &stats);
        ck_assert_msg(stats.reserved == cases[i].reserved, "%s: %" G_GUINT64_FORMAT, cases[i].spec, stats.reserved);
    }
}
END_TEST

/* ---- the others ---- */

START_TEST(simple_allocators_place_by_their_rule)
{
    /* Holes of 1024 at 0, 512 at 2048, 1024 at 3072 and at the end; then a request of 512, then one of 1024. */
    static const struct {
        const char *spec;
        uint64_t first, second;
    } cases[] = {
        {"best_fit", 2048, 0}, {"first_fit", 0, 3072}, {"next_fit", 5632, 0}, {"tlsf", 2048, 0}, {"buddy", 2048, 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char spec[64];
        g_snprintf(spec, sizeof spec, "%s:limit=6656", cases[i].spec);
        if (strcmp(cases[i].spec, "buddy") == 0)
            g_strlcpy(spec, "buddy:limit=8KiB", sizeof spec);
        g_autoptr(EchAllocator) allocator = open_allocator(spec, MIB);
        static const EchBytes layout[] = {1024, 1024, 512, 512, 1024, 1024, 512};
        for (uint32_t id = 0; id < G_N_ELEMENTS(layout); id++)
            take(allocator, id, layout[id]);
        ech_allocator_release(allocator, 4);
        ech_allocator_release(allocator, 0);
        ech_allocator_release(allocator, 2);
        if (strcmp(cases[i].spec, "buddy") == 0) { /* 512 each at 2048 and 2560, so the order of sizes is the same */
            ck_assert_uint_eq(take(allocator, 10, 512).address, 2048);
            continue;
        }
        uint64_t first = take(allocator, 10, 512).address, second = take(allocator, 11, 1024).address;
        ck_assert_msg(first == cases[i].first && second == cases[i].second, "%s: %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT, spec, first, second);
    }
}
END_TEST

START_TEST(arena_comes_back_when_empty)
{
    g_autoptr(EchAllocator) arena = open_allocator("arena:limit=1024,alignment=1", MIB);
    take(arena, 0, 600);
    take(arena, 1, 400);
    ech_allocator_release(arena, 0);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(arena, &(EchAllocRequest){.id = 2, .bytes = 100}, &p), ECH_FIT_FRAGMENTED);
    ck_assert(ech_allocator_release(arena, 1));
    ck_assert_uint_eq(take(arena, 3, 1024).address, 0);
    ech_allocator_release(arena, 3);
    ck_assert_uint_eq(take(arena, 4, 1).address, 0);
}
END_TEST

START_TEST(async_pool_follows_streams)
{
    g_autoptr(EchAllocator) pool = open_allocator("cuda_async:reuse_internal_dependencies=false", GIB);
    EchPlacement p;
    take(pool, 0, 32 * MIB);
    ech_allocator_release(pool, 0);
    ck_assert_uint_eq(take(pool, 1, 32 * MIB).offset, 0); /* the same stream: at once */
    ech_allocator_release(pool, 1);
    ck_assert_int_eq(ech_allocator_alloc(pool, &(EchAllocRequest){.id = 2, .bytes = 32 * MIB, .stream = 5}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.offset, 32 * MIB); /* another one: not before completion */
    ech_allocator_stream_done(pool, 0);
    EchAllocStats stats;
    ech_allocator_stats(pool, &stats);
    ck_assert_uint_eq(stats.reserved, 32 * MIB); /* and the threshold is 0 */
    ck_assert_ptr_nonnull(ech_allocator_note(pool));
}
END_TEST

/* Of all blocks, which come in the order of their addresses and do not overlap. */
static EchBytes bytes_in_order(EchAllocator *allocator)
{
    size_t n;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n);
    EchBytes sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += blocks[i].bytes;
        ck_assert(i == 0 || blocks[i].address >= blocks[i - 1].address + blocks[i - 1].bytes);
    }
    return sum;
}

/* Allocations below @n, and all that is held with them. */
static void give_all_back(EchAllocator *pool, uint32_t n)
{
    for (uint32_t id = 0; id < n; id++)
        ech_allocator_release(pool, id);
    ech_allocator_stream_done(pool, 0);
    EchAllocStats stats;
    ech_allocator_stats(pool, &stats);
    ck_assert_uint_eq(stats.reserved, 0);
}

/* By which of the documented ways another stream gets what one has freed. */
START_TEST(async_pool_hands_from_stream_to_stream)
{
    static const struct {
        const char *spec;
        EchBytes capacity;
        uint64_t ordered, passed; /* Stamps told of; 0: none */
        EchBytes reserved;
        int64_t waits;
    } cases[] = {
        {"cuda_async", GIB, 0, 0, 160 * MIB, 0},
        {"cuda_async", GIB, 1, 0, 128 * MIB, 0},
        {"cuda_async", GIB, 0, 2, 128 * MIB, 0},
        {"cuda_async:reuse_event_dependencies=false", GIB, 2, 0, 160 * MIB, 0},
        {"cuda_async:reuse_opportunistic=false", GIB, 0, 2, 160 * MIB, 0},
        {"cuda_async", 128 * MIB, 0, 0, 128 * MIB, 1},                                   /* For want of memory the driver waits */
        {"cuda_async:reuse_internal_dependencies=false", 128 * MIB, 0, 0, 128 * MIB, 0}, /* Or everybody does */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const EchAllocDevice device = {.capacity = cases[i].capacity};
        g_autoptr(EchAllocator) pool = ech_allocator_new(cases[i].spec, &device, NULL);
        for (uint32_t id = 0; id < 4; id++)
            take(pool, id, 32 * MIB);
        ck_assert(ech_allocator_free_on(pool, 0, 7, 1)); /* By another stream than the one that asked */
        ck_assert(ech_allocator_free_on(pool, 2, 7, 2)); /* Not beside it: joined they would be as young as the younger */
        if (cases[i].ordered)
            ech_allocator_ordered(pool, 7, cases[i].ordered);
        if (cases[i].passed)
            ech_allocator_passed(pool, cases[i].passed);
        EchPlacement p;
        ck_assert_int_eq(ech_allocator_alloc(pool, &(EchAllocRequest){.id = 5, .bytes = 32 * MIB}, &p), ECH_FIT_OK);
        EchAllocStats stats;
        ech_allocator_stats(pool, &stats);
        ck_assert_msg(stats.reserved == cases[i].reserved, "%zu: reserved %" G_GUINT64_FORMAT, i, stats.reserved);
        ck_assert_msg(own(pool, "inserted_waits") == cases[i].waits, "%zu: waits %" G_GINT64_FORMAT, i, own(pool, "inserted_waits"));
        /* One that an event told of serves one request. */
        if (cases[i].ordered == 1) {
            ck_assert_int_eq(ech_allocator_alloc(pool, &(EchAllocRequest){.id = 6, .bytes = 32 * MIB}, &p), ECH_FIT_OK);
            ech_allocator_stats(pool, &stats);
            ck_assert_uint_eq(stats.reserved, 160 * MIB);
        }
    }
    g_autoptr(EchAllocator) other = open_allocator("best_fit", GIB);
    take(other, 0, MIB);
    ck_assert(!ech_allocator_orders_streams(other) && ech_allocator_free_on(other, 0, 3, 1) && !ech_allocator_free_on(other, 0, 3, 2));
}
END_TEST

/* One range of addresses: a request larger than what is free at its end takes only what lacks, in pieces of 32 MiB; whole free pieces go back from its middle.
 */
START_TEST(async_pool_grows_in_one_range)
{
    g_autoptr(EchAllocator) pool = open_allocator("cuda_async", GIB);
    EchAllocStats stats;
    take(pool, 0, 20 * MIB);
    ck_assert_uint_eq(take(pool, 1, 40 * MIB).offset, 20 * MIB);
    ech_allocator_stats(pool, &stats);
    ck_assert_uint_eq(stats.reserved, 64 * MIB);
    ck_assert_uint_eq(take(pool, 2, 100 * MIB).offset, 60 * MIB);
    take(pool, 3, MIB);
    ech_allocator_stats(pool, &stats);
    ck_assert_uint_eq(stats.reserved, 192 * MIB);
    ck_assert_uint_eq(stats.segments_allocated, 4);
    ech_allocator_release(pool, 2); /* 60 to 160: 64 to 160 are pieces */
    ech_allocator_stream_done(pool, 0);
    ech_allocator_stats(pool, &stats);
    ck_assert_uint_eq(stats.reserved, 96 * MIB);
    ck_assert_uint_eq(bytes_in_order(pool), stats.reserved);
    give_all_back(pool, 4);
    ck_assert_uint_eq(take(pool, 4, MIB).offset, 0);
}
END_TEST

/* What is kept once the work on a stream is complete: of JAX's pool what it has preallocated, of TensorFlow's up to BFC's share, of PyTorch's all. Where no
 * other stream may reuse what is complete, it goes back all the same. */
START_TEST(async_pools_keep_as_frameworks_ask)
{
    static const struct {
        const char *spec;
        EchBytes kept;
    } cases[] = {
        {"cuda_async", 0},
        {"cuda_async:release_threshold=100MiB", 96 * MIB},
        {"cuda_async:reuse_opportunistic=false", 0},
        {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async,XLA_PYTHON_CLIENT_MEM_FRACTION=.25", 256 * MIB},
        {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async,XLA_PYTHON_CLIENT_PREALLOCATE=false", 0},
        {"TF_GPU_ALLOCATOR=cuda_malloc_async", 192 * MIB},
        {"TF_GPU_ALLOCATOR=cuda_malloc_async,per_process_gpu_memory_fraction=0.125,TF_DETERMINISTIC_ALLOCATOR=1", 128 * MIB},
        {"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", 192 * MIB},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) pool = open_allocator(cases[i].spec, GIB);
        for (uint32_t id = 0; id < 5; id++)
            take(pool, id, 32 * MIB);
        for (uint32_t id = 0; id < 5; id++)
            ech_allocator_release(pool, id);
        EchPlacement p;
        ck_assert_int_eq(ech_allocator_alloc(pool, &(EchAllocRequest){.id = 5, .bytes = 32 * MIB, .stream = 1}, &p), ECH_FIT_OK);
        ck_assert_int_eq(own(pool, "inserted_waits"), 0); /* There is other memory */
        ech_allocator_release(pool, 5);
        ech_allocator_stream_done(pool, 1);
        ech_allocator_stream_done(pool, 0);
        EchAllocStats stats;
        ech_allocator_stats(pool, &stats);
        ck_assert_msg(stats.reserved == cases[i].kept, "%s: kept %" G_GUINT64_FORMAT, cases[i].spec, stats.reserved);
    }
}
END_TEST

/* 40 + 40 + 40 MiB of 128, the middle one freed: 42 MiB fit only in what is left together with pages of the hole. */
START_TEST(async_pool_moves_free_pages_together)
{
    EchAllocDevice device = {.capacity = 128 * MIB};
    for (int remap = 0; remap < 2; remap++) {
        g_autoptr(EchAllocator) pool = ech_allocator_new(remap ? "cuda_async:growth=126MiB" : "cuda_async:growth=126MiB,remap=false", &device, NULL);
        take(pool, 0, 40 * MIB);
        take(pool, 1, 41 * MIB);
        take(pool, 2, 40 * MIB);
        ech_allocator_release(pool, 1);
        EchPlacement p;
        EchFit fit = ech_allocator_alloc(pool, &(EchAllocRequest){.id = 3, .bytes = 42 * MIB}, &p);
        ck_assert_int_eq(fit, remap ? ECH_FIT_OK : ECH_FIT_FRAGMENTED);
        if (!remap)
            continue;
        EchAllocStats stats;
        ech_allocator_stats(pool, &stats);
        /* 126 less 40 MiB in pages of the hole, and 38 behind the 5 at the end. */
        ck_assert_uint_eq(stats.reserved, 124 * MIB);
        ck_assert_uint_eq((uint64_t)own(pool, "remapped_bytes"), 40 * MIB);
        ck_assert_uint_eq(bytes_in_order(pool), stats.reserved);
        give_all_back(pool, 4);
    }
}
END_TEST

START_TEST(settings_without_effect_are_named)
{
    g_autoptr(EchAllocator) gc = open_allocator("pytorch:garbage_collection_threshold:0.8,pinned_use_background_threads:True", GIB);
    ck_assert_ptr_nonnull(strstr(ech_allocator_note(gc), "does nothing without per_process_memory_fraction"));
    ck_assert_ptr_nonnull(strstr(ech_allocator_note(gc), "pinned_use_background_threads: changes no placement"));
    g_autoptr(EchAllocator) async = open_allocator("backend:cudaMallocAsync,max_split_size_mb:64,per_process_memory_fraction:0.5", GIB);
    ck_assert_ptr_nonnull(strstr(ech_allocator_note(async), "ignores max_split_size_mb;"));
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(async, &(EchAllocRequest){.id = 0, .bytes = 513 * MIB}, &p), ECH_FIT_FULL);
    /* The limit is held against what was asked for, not against what it is rounded to. */
    take(async, 0, 256 * MIB - 1);
    take(async, 1, 256 * MIB + 1);
    g_autoptr(EchAllocator) plain = open_allocator("pytorch:expandable_segments:True", GIB);
    ck_assert_ptr_null(ech_allocator_note(plain));
}
END_TEST

/* Three blocks of a segment at 2^32: 4 MiB in use, 6 MiB free, 10 MiB in use. */
static const EchSeedBlock seeds[] = {
    {.id = 0, .address = UINT64_C(1) << 32, .bytes = 4 * MIB, .requested = 4 * MIB, .segment_address = UINT64_C(1) << 32, .segment_bytes = 20 * MIB},
    {.id = UINT32_MAX, .address = (UINT64_C(1) << 32) + 4 * MIB, .bytes = 6 * MIB, .segment_address = UINT64_C(1) << 32, .segment_bytes = 20 * MIB},
    {.id = 1,
     .address = (UINT64_C(1) << 32) + 10 * MIB,
     .bytes = 10 * MIB,
     .requested = 10 * MIB,
     .segment_address = UINT64_C(1) << 32,
     .segment_bytes = 20 * MIB}};

START_TEST(start_states_are_taken_and_given_back)
{
    EchAllocDevice device = {.capacity = 100 * MIB};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = ech_allocator_new("pytorch", &device, &error);
    ck_assert_ok(ech_allocator_seed(allocator, seeds, G_N_ELEMENTS(seeds), &error), error);
    EchAllocStats stats;
    ech_allocator_stats(allocator, &stats);
    ck_assert_uint_eq(stats.reserved, 20 * MIB);
    ck_assert_uint_eq(stats.live, 14 * MIB);
    ck_assert_uint_eq(stats.largest_free, 6 * MIB);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 2, .bytes = 6 * MIB}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.address, seeds[1].address);
    /* While any of it is in use the segment stays; then it goes back, once. */
    ck_assert(ech_allocator_release(allocator, 0) && ech_allocator_release(allocator, 1));
    ck_assert(!ech_allocator_give_back(allocator, seeds[0].address, 4 * MIB));
    ck_assert(ech_allocator_release(allocator, 2));
    ck_assert(ech_allocator_give_back(allocator, seeds[0].address, 20 * MIB));
    ck_assert(!ech_allocator_give_back(allocator, seeds[0].address, 20 * MIB));
    ech_allocator_stats(allocator, &stats);
    ck_assert_uint_eq(stats.reserved, 0);
}
END_TEST

/* Recorded without max_split_size, a segment has parts that with it were never split: to make room they cannot go back, which the whole segment later can. */
START_TEST(parts_of_recorded_segments_stay)
{
    enum { PARTS = 3 };
    static const EchBytes parts[PARTS] = {30 * MIB, 40 * MIB, 10 * MIB};
    EchSeedBlock blocks[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        blocks[i] = (EchSeedBlock){.id = i == 1 ? UINT32_MAX : (uint32_t)i,
                                   .address = (UINT64_C(1) << 32) + (i > 0 ? parts[0] : 0) + (i > 1 ? parts[1] : 0),
                                   .bytes = parts[i],
                                   .requested = i == 1 ? 0 : parts[i],
                                   .segment_address = UINT64_C(1) << 32,
                                   .segment_bytes = 80 * MIB};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = open_allocator("pytorch:max_split_size_mb:21", 120 * MIB);
    ck_assert_ok(ech_allocator_seed(allocator, blocks, PARTS, &error), error);
    EchPlacement p;
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 3, .bytes = 50 * MIB}, &p), ECH_FIT_FRAGMENTED);
    ck_assert_int_eq(ech_allocator_alloc(allocator, &(EchAllocRequest){.id = 3, .bytes = 39 * MIB}, &p), ECH_FIT_OK);
    ck_assert_uint_eq(p.address, blocks[1].address);
    ck_assert_int_eq(own(allocator, "oversize_allocations.current"), 2);
    ck_assert_int_eq(own(allocator, "oversize_segments.current"), 1);
    ck_assert(ech_allocator_release(allocator, 0) && ech_allocator_release(allocator, 2) && ech_allocator_release(allocator, 3));
    ck_assert_int_eq(own(allocator, "oversize_allocations.current"), 0);
    ck_assert_uint_eq(take(allocator, 4, 90 * MIB).rounded, 90 * MIB);
    ck_assert_int_eq(own(allocator, "oversize_segments.current"), 1);
    ck_assert_int_eq(own(allocator, "reserved_bytes.all.current"), 90 * MIB);
}
END_TEST

/* One number of a start state changed so that it makes no sense, and what is said. */
static const struct {
    size_t block, offset;
    uint64_t value;
    const char *said;
} bad_seeds[] = {
    {0, offsetof(EchSeedBlock, address), 4096, "does not begin its segment"},
    {0, offsetof(EchSeedBlock, segment_bytes), 200 * MIB, "smaller than what was recorded"},
    {1, offsetof(EchSeedBlock, address), UINT64_C(1) << 32, "do not tile it"},
    {1, offsetof(EchSeedBlock, bytes), 0, "do not tile it"},
    {1, offsetof(EchSeedBlock, bytes), UINT64_MAX, "do not tile it"},
    {2, offsetof(EchSeedBlock, bytes), 9 * MIB, "do not tile it"},
    {2, offsetof(EchSeedBlock, segment_address), (UINT64_C(1) << 32) + 10 * MIB, "do not tile it"},
};

START_TEST(start_states_are_refused_with_reasons)
{
    EchSeedBlock blocks[G_N_ELEMENTS(seeds)];
    memcpy(blocks, seeds, sizeof blocks);
    memcpy((char *)&blocks[bad_seeds[_i].block] + bad_seeds[_i].offset, &bad_seeds[_i].value, sizeof(uint64_t));
    EchAllocDevice device = {.capacity = 100 * MIB};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = ech_allocator_new("pytorch", &device, NULL);
    ck_assert(!ech_allocator_seed(allocator, blocks, G_N_ELEMENTS(blocks), &error));
    ck_assert_msg(strstr(error->message, bad_seeds[_i].said) != NULL, "%s", error->message);
}
END_TEST

/* What is stranded most comes first. */
START_TEST(report_orders_segments)
{
    static const EchAllocEvent events[] = {{.id = 0, .bytes = 12 * MIB, .kind = ECH_EVENT_ALLOC},
                                           {.id = 1, .bytes = 5 * MIB, .kind = ECH_EVENT_ALLOC},
                                           {.id = 2, .bytes = 5 * MIB, .kind = ECH_EVENT_ALLOC},
                                           {.id = 3, .bytes = 300 << 10, .kind = ECH_EVENT_ALLOC},
                                           {.id = 1, .kind = ECH_EVENT_FREE}};
    EchAllocDevice device = {.capacity = 80 * MIB};
    EchAllocReportOptions options = {.peak_at = 3, .max_failures = 2};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocReport) report = ech_alloc_report_new("pytorch", &device, events, G_N_ELEMENTS(events), &options, &error);
    ck_assert_ok(report != NULL, error);
    const EchMoment *end = &g_array_index(report->moments, EchMoment, report->moments->len - 1);
    ck_assert_uint_eq(end->n_segments, 2);
    ck_assert_uint_eq(end->segments[0].bytes, 20 * MIB);
    ck_assert_uint_eq(end->segments[0].used, 5 * MIB);
    ck_assert_uint_eq(end->segments[1].bytes, 2 * MIB);
    ck_assert_uint_eq(end->segments[1].used, 300 << 10);
}
END_TEST

START_TEST(report_names_what_pins_a_segment)
{
    static const EchAllocEvent events[] = {
        {.id = 0, .bytes = 4 * MIB, .kind = ECH_EVENT_ALLOC},  {.id = 1, .bytes = 4 * MIB, .kind = ECH_EVENT_ALLOC},  {.id = 0, .kind = ECH_EVENT_FREE},
        {.id = 2, .bytes = 50 * MIB, .kind = ECH_EVENT_ALLOC}, {.id = 3, .bytes = 16 * MIB, .kind = ECH_EVENT_ALLOC},
    };
    g_autoptr(GError) error = NULL;
    EchAllocDevice device = {.capacity = 80 * MIB};
    EchAllocReportOptions options = {.peak_at = 3, .max_failures = 2, .n_samples = 5, .map_rows = 7, .map_columns = 5};
    g_autoptr(EchAllocReport) report = ech_alloc_report_new("pytorch", &device, events, G_N_ELEMENTS(events), &options, &error);
    ck_assert_ptr_nonnull(report);
    ck_assert_uint_eq(report->moments->len, 3);
    const EchMoment *peak = &g_array_index(report->moments, EchMoment, 0), *failure = &g_array_index(report->moments, EchMoment, 1);
    ck_assert_int_eq(peak->kind, ECH_MOMENT_PEAK);
    ck_assert_uint_eq(peak->stranded, 16 * MIB);
    ck_assert_uint_eq(peak->n_segments, 1);
    ck_assert_uint_eq(peak->segments[0].n_blocks, 1);
    ck_assert_uint_eq(peak->pins[0].id, 1);
    ck_assert_uint_eq(peak->pins[0].born, 1);
    ck_assert_int_eq(failure->kind, ECH_MOMENT_FAILURE);
    ck_assert_uint_eq(failure->asked, 16 * MIB);
    ck_assert_int_eq(failure->fit, ECH_FIT_FRAGMENTED);
    /* 16 MiB would fit into the first segment's 20 but for the 4 MiB of #1; 10 MiB are left on the device. */
    ck_assert_uint_eq(failure->hole.bytes, 20 * MIB);
    ck_assert_uint_eq(failure->hole.used, 4 * MIB);
    ck_assert_uint_eq(failure->hole.n_blocks, 1);
    ck_assert_uint_eq(failure->hole_pins[0].id, 1);
    ck_assert_uint_eq(failure->device_free, 10 * MIB);
    ck_assert_uint_eq(failure->n_free, 2);
    ck_assert_uint_eq(report->failures->len, 1);
    ck_assert_uint_eq(g_array_index(report->failures, EchAllocFailure, 0).event, 4);
    /* 70 MiB in 7 rows: 20 of the small segment at the bottom, then the large one. */
    ck_assert_uint_eq(report->map.bytes, 70 * MIB);
    ck_assert_uint_eq(report->map.n_rows, 7);
    ck_assert_str_eq(report->map.rows[0], "   ##");
    ck_assert_str_eq(report->map.rows[5], ".....");
    ck_assert_str_eq(report->map.rows[6], ":+:::");
    ck_assert_uint_eq(report->map.events[4], 4);
    ck_assert_uint_eq(report->samples->len, 5);
    ck_assert_uint_eq(ech_alloc_lower_bound(events, G_N_ELEMENTS(events), NULL), 70 * MIB);
    ck_assert_uint_eq(ech_alloc_smallest_capacity("pytorch", events, G_N_ELEMENTS(events), 2 * MIB, ECH_ADDRESSES_FIRST_FIT, NULL, &error), 86 * MIB);
    const volatile sig_atomic_t stop = 1;
    ck_assert_uint_eq(ech_alloc_smallest_capacity("pytorch", events, G_N_ELEMENTS(events), 2 * MIB, ECH_ADDRESSES_FIRST_FIT, &stop, &error), 0);
    ck_assert_ptr_null(error);
    ck_assert_uint_eq(ech_alloc_smallest_capacity("best_fit", events, G_N_ELEMENTS(events), 2 * MIB, ECH_ADDRESSES_FIRST_FIT, NULL, &error), 74 * MIB);
    ck_assert_ptr_null(error);
}
END_TEST

/* What is taken beside the allocator is not left on the device either. */
START_TEST(report_knows_what_lies_beside)
{
    static const EchAllocEvent events[] = {{.id = 0, .bytes = 24 * MIB, .kind = ECH_EVENT_ALLOC, .direct = true},
                                           {.id = 1, .bytes = 40 * MIB, .kind = ECH_EVENT_ALLOC},
                                           {.id = 2, .bytes = 20 * MIB, .kind = ECH_EVENT_ALLOC}};
    EchAllocDevice device = {.capacity = 80 * MIB};
    EchAllocReportOptions options = {.peak_at = 1, .max_failures = 2};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocReport) report = ech_alloc_report_new("pytorch", &device, events, G_N_ELEMENTS(events), &options, &error);
    ck_assert_ok(report != NULL, error);
    const EchMoment *failure = &g_array_index(report->moments, EchMoment, 1);
    ck_assert(failure->kind == ECH_MOMENT_FAILURE && failure->fit == ECH_FIT_FULL);
    ck_assert_uint_eq(failure->device_free, 16 * MIB);
}
END_TEST

/* ---- text ---- */

START_TEST(text_reads_every_line_kind)
{
    static const char text[] = "# ours\na 0 100\nu 1 200 \na 5 0 3\nr 0 3\ne 3\nf 0\nf 0\nf 1\r\nf 5";
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    ck_assert(ech_alloc_text_probe((const uint8_t *)text, strlen(text)));
    ck_assert_ok(ech_alloc_text_read(text, strlen(text), "x", events, diag, &error), error);
    ck_assert_uint_eq(events->len, 8);
    ck_assert_uint_eq(g_array_index(events, EchAllocEvent, 1).upper_end, 1);
    ck_assert_uint_eq(g_array_index(events, EchAllocEvent, 2).stream, 3);
    ck_assert_uint_eq(ech_diag_count(diag, "frees_of_unknown_ids"), 1);
}
END_TEST

/* As a trace the events are what they are as text, whatever comes first. */
START_TEST(text_as_a_trace_has_the_same_events)
{
    static const char *const texts[] = {"c", "d 3\n", "a 0 512\na 1 1024 3\nr 0 3\nf 0\ne 3\nc\nd 3\na 2 4096\nf 1\n",
                                        "p 0 512 7\ng 1 1024 8\nu 2 64\na 3 64 7\nf 0\nf 1\nd 7\n"};
    g_autofree char *path = g_strdup_printf("%s/echelon-alloc-%d.txt", g_get_tmp_dir(), getpid());
    for (size_t t = 0; t < G_N_ELEMENTS(texts); t++) {
        ck_assert(g_file_set_contents(path, texts[t], -1, NULL));
        g_autoptr(EchImport) import = ech_test_import(path, NULL);
        g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent)), events = ech_alloc_events_of_trace(import->trace, 0, true, false);
        g_autoptr(EchDiag) diag = ech_diag_new();
        ck_assert(ech_alloc_text_read(texts[t], strlen(texts[t]), "x", given, diag, NULL));
        ck_assert_uint_eq(events->len, given->len);
        for (guint i = 0; i < given->len; i++) {
            const EchAllocEvent *was = &g_array_index(given, EchAllocEvent, i), *is = &g_array_index(events, EchAllocEvent, i);
            ck_assert(is->kind == was->kind && is->id == was->id && (is->stream == was->stream || was->kind == ECH_EVENT_FREE));
            if (was->kind == ECH_EVENT_ALLOC)
                ck_assert(is->private_pool == was->private_pool && is->captured == was->captured && is->upper_end == was->upper_end);
        }
    }
    g_unlink(path);
}
END_TEST

static const struct {
    const char *text, *said;
} broken[] = {
    {"a 0 1\nb 1 1\n", "x:2: 'b 1 1' is no event"},
    {"a 0\n", "x:1: 'a 0' is no event"},
    {"a 0 18446744073709551616\n", "x:1"},
    {"a 0 9223372036854775808\n", "x:1: 'a 0 9223372036854775808' is no event"},
    {"a 1 1\na 1 1\n", "x:2: id 1 does not follow"},
    {"a 0 1 99999999\n", "x:1"},
    {"a 4294967295 1\n", "x:1"},
    {"a 4000000000 1\n", "x:1: id 4000000000 does not follow"},
};

START_TEST(text_errors_have_places)
{
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    ck_assert(!ech_alloc_text_read(broken[_i].text, strlen(broken[_i].text), "x", events, diag, &error));
    ck_assert_msg(strstr(error->message, broken[_i].said) != NULL, "%s", error->message);
}
END_TEST

/* ---- the real allocators ---- */

/* Settings of the oracle's summary.tsv whose whole traces are quick; statistics of the real run beside ours. */
static const struct {
    const char *folder, *trace, *setting, *spec;
    EchBytes capacity;
} recorded[] = {
    {"bfc", "edges_2e4", "growth_gc_mid", "bfc:limit=10949230592,growth=true,garbage_collection=true", UINT64_C(10949230592)},
    {"bfc", "twoend_5e4", "spatial_tight", "bfc:limit=7516192768,two_ended=true", UINT64_C(85899345920)},
    {"bfc", "edges_2e4", "prealloc60g_align4k", "bfc:limit=60GiB,alignment=4096", UINT64_C(85899345920)},
    {"pytorch", "edges_2e4", "gc_tight", "pytorch:garbage_collection_threshold:0.5,max_split_size_mb:100,per_process_memory_fraction:0.99",
     UINT64_C(9216983040)},
    {"pytorch", "edges_2e4", "expandable_under", "pytorch:expandable_segments:True", UINT64_C(8849981440)},
    {"pytorch", "multistream_6e4", "default", "pytorch", UINT64_C(85899345920)},
};

static char *unpacked(const char *path)
{
    g_autoptr(EchSource) source = ech_source_open(path, NULL);
    g_autoptr(GBytes) bytes = source ? ech_source_bytes(source, 0, NULL) : NULL;
    gsize n;
    const char *data = bytes ? g_bytes_get_data(bytes, &n) : NULL;
    return data ? g_strndup(data, n) : NULL;
}

START_TEST(placements_equal_the_real_ones)
{
    g_autofree char *trace = g_strdup_printf(ECH_SHARED "/oracle/traces/%s.txt.gz", recorded[_i].trace);
    g_autofree char *truth = g_strdup_printf(ECH_SHARED "/oracle/%s/%s.%s.off.gz", recorded[_i].folder, recorded[_i].trace, recorded[_i].setting);
    g_autofree char *text = unpacked(trace), *offsets = unpacked(truth);
    if (!text || !offsets) {
        printf("skipped: no %s\n", truth);
        return;
    }
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    g_autoptr(EchDiag) diag = ech_diag_new();
    ck_assert(ech_alloc_text_read(text, strlen(text), trace, events, diag, NULL));
    g_autoptr(EchAllocator) allocator = open_allocator(recorded[_i].spec, recorded[_i].capacity);
    EchAllocRunOptions options = {.placed = placed};
    ech_alloc_run(allocator, (const EchAllocEvent *)(const void *)events->data, events->len, &options);
    g_auto(GStrv) lines = g_strsplit_set(offsets, "\n", -1);
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacement *p = &g_array_index(placed, EchPlacedEvent, i).placement;
        bool ok = g_array_index(placed, EchPlacedEvent, i).fit == ECH_FIT_OK && p->address != ECH_ADDRESS_NONE;
        uint32_t id = g_array_index(events, EchAllocEvent, g_array_index(placed, EchPlacedEvent, i).event).id;
        g_autofree char *line = !ok                   ? g_strdup_printf("%u -1", id)
                                : p->reservation >= 0 ? g_strdup_printf("%u E%d+%" G_GUINT64_FORMAT, id, p->reservation, p->offset)
                                                      : g_strdup_printf("%u %" G_GUINT64_FORMAT, id, p->address);
        ck_assert_str_eq(lines[i], line);
    }
}
END_TEST

/* The start state that @allocator would leave behind. Owned by the caller. */
static EchSeedBlock *state_of(const EchAllocator *allocator, size_t *ret_n)
{
    size_t n, begin = 0;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n);
    EchSeedBlock *start = g_new0(EchSeedBlock, n);
    for (size_t i = 0; i < n; i++) {
        begin = i && blocks[i].segment == blocks[i - 1].segment ? begin : i;
        start[i] = (EchSeedBlock){.id = blocks[i].id,
                                  .address = blocks[i].address,
                                  .bytes = blocks[i].bytes,
                                  .requested = blocks[i].requested,
                                  .segment_address = blocks[begin].address};
        for (size_t k = begin; k <= i; k++)
            start[k].segment_bytes = blocks[i].address + blocks[i].bytes - blocks[begin].address;
    }
    *ret_n = n;
    return start;
}

/* Begun in the state that another one is in, chunk by chunk, BFC goes on as that one does. */
START_TEST(bfc_begins_where_another_is)
{
    enum { IDS = 400 };
    g_autoptr(EchAllocator) first = open_allocator("bfc:growth=true,limit=14MiB", GIB), second = open_allocator("bfc:growth=true,limit=14MiB", GIB);
    g_autoptr(GRand) rand = g_rand_new_with_seed(7);
    EchPlacement a, b;
    for (uint32_t i = 0; i < IDS; i++) {
        (void)ech_allocator_alloc(first, &(EchAllocRequest){.id = i, .bytes = (EchBytes)g_rand_int_range(rand, 1, 200000)}, &a);
        if (g_rand_int_range(rand, 0, 2))
            ech_allocator_release(first, (uint32_t)g_rand_int_range(rand, 0, (gint32)i + 1));
    }
    size_t n;
    g_autofree EchSeedBlock *start = state_of(first, &n);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_allocator_seed(second, start, n, &error), error);
    EchAllocStats x, y;
    ech_allocator_stats(first, &x);
    ech_allocator_stats(second, &y);
    ck_assert_uint_eq(y.reserved, 14 * MIB);
    ck_assert_uint_eq(y.segments_allocated, 3);
    ck_assert_uint_eq(y.live, x.live);
    ck_assert_uint_eq(y.requested, x.requested);
    ck_assert_uint_eq(y.largest_free, x.largest_free);
    uint32_t served = 0, turned_down = 0;
    for (uint32_t i = 0; i < 4 * IDS; i++) {
        EchAllocRequest request = {.id = IDS + i, .bytes = (EchBytes)g_rand_int_range(rand, 1, 300000)};
        EchFit fit = ech_allocator_alloc(first, &request, &a);
        ck_assert_int_eq(ech_allocator_alloc(second, &request, &b), fit);
        ck_assert(fit != ECH_FIT_OK || (a.address == b.address && a.rounded == b.rounded));
        served += fit == ECH_FIT_OK;
        turned_down += fit != ECH_FIT_OK;
        uint32_t id = (uint32_t)g_rand_int_range(rand, 0, (gint32)(IDS + i) + 1);
        ck_assert(ech_allocator_release(first, id) == ech_allocator_release(second, id));
    }
    ck_assert_uint_gt(served, 100);
    ck_assert_uint_gt(turned_down, 10);
    /* States that make no sense. */
    EchSeedBlock hole = {.id = 1, .address = 2 * MIB, .bytes = MIB, .requested = MIB, .segment_address = 2 * MIB, .segment_bytes = 2 * MIB};
    g_autoptr(EchAllocator) untiled = open_allocator("bfc", GIB), small = open_allocator("bfc", MIB);
    ck_assert(!ech_allocator_seed(untiled, &hole, 1, NULL));
    ck_assert(!ech_allocator_seed(small, &hole, 1, NULL));
    EchSeedBlock beyond[2];
    for (uint32_t i = 0; i < 2; i++)
        beyond[i] =
            (EchSeedBlock){.id = i, .address = i * MIB, .bytes = i == 0 ? MIB : MIB + 256, .requested = MIB, .segment_address = 0, .segment_bytes = 2 * MIB};
    g_autoptr(EchAllocator) burst = open_allocator("bfc", GIB);
    ck_assert(!ech_allocator_seed(burst, beyond, 2, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "do not tile it"));
}
END_TEST

/* The next region is as large as it would have been: twice the last one, or as large as that where it had to be made larger for its first request. */
START_TEST(bfc_grows_on_where_another_is)
{
    static const struct {
        EchBytes asked[4]; /* each takes a region; the last after the start state */
        EchBytes pool;
    } cases[] = {{{2 * MIB, 4 * MIB, 8 * MIB, MIB}, 30 * MIB}, {{2 * MIB, 9 * MIB, 0, MIB}, 34 * MIB}, {{0, 0, 0, MIB}, 2 * MIB}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchAllocator) first = open_allocator("bfc:growth=true", GIB), second = open_allocator("bfc:growth=true", GIB);
        for (uint32_t id = 0; id < 3; id++)
            if (cases[i].asked[id])
                take(first, id, cases[i].asked[id]);
        size_t n;
        g_autofree EchSeedBlock *start = state_of(first, &n);
        for (size_t k = 0; k < n; k++) /* nothing is left in them */
            if (start[k].id == UINT32_MAX)
                start[k].id = 10 + (uint32_t)k;
        g_autoptr(GError) error = NULL;
        ck_assert_ok(ech_allocator_seed(second, start, n, &error), error);
        take(second, 3, cases[i].asked[3]);
        ck_assert_int_eq(own(second, "pool_bytes"), (int64_t)cases[i].pool);
    }
}
END_TEST

/* The log of a refusal lists every chunk: in that memory BFC refuses again, and with 256 bytes less in the way it would not. A limit that is no multiple of
 * 2 MiB is one to the byte. */
START_TEST(bfc_refuses_as_its_log_says)
{
    static const struct {
        const char *where;
        EchBytes limit, asked;
        bool served;
        const char *had;
    } cases[] = {
        {"Free  at 7f0000100000 of size 1048832 next 2\n", 4194560, 1100032, false, "4194560"},
        {"Free  at 7f0000100000 of size 1048832 next 2\n", 4194560, 1048832, true, "4194560"},
        /* The limit would have allowed a region more: the device did not give it. */
        {"Free  at 7f0000100000 of size 1048832 next 2\n", 8388608, 1100032, false, "4194560"},
        /* Not all is listed: nothing is known of what lies where. */
        {"", 4194560, 1100032, false, NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strdup_printf(
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate %.2fMiB (rounded to %" G_GUINT64_FORMAT ")requested by op X\n"
            "Next region of size 4194560\nInUse at 7f0000000000 of size 1048576 next 1\n%sInUse at 7f0000200100 of size 2097152 next 18446744073709551615\n"
            "Stats: \nLimit: %" G_GUINT64_FORMAT "\nInUse: 3145728\n",
            (double)cases[i].asked / (double)MIB, cases[i].asked, cases[i].where, cases[i].limit);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "log");
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert_ok(import != NULL, error);
        g_autoptr(EchAllocStart) start = ech_alloc_start_of_trace(import->trace, 0);
        ck_assert((start != NULL) == (cases[i].had != NULL));
        if (!start)
            continue;
        const char *had = ech_trace_get_property(import->trace, "had_bytes");
        ck_assert_str_eq(had, cases[i].had);
        EchAllocDevice device = {.capacity = g_ascii_strtoull(had, NULL, 10), .granule = start->granule};
        g_autofree char *spec = ech_alloc_recorded_spec(import->trace);
        g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, &error);
        ck_assert_ok(allocator != NULL, error);
        ck_assert_uint_eq(start->seeds->len, 3);
        ck_assert_ok(ech_allocator_seed(allocator, (const EchSeedBlock *)(const void *)start->seeds->data, 3, &error), error);
        g_autoptr(GArray) events = ech_alloc_events_of_trace(import->trace, 0, false, true);
        ck_assert_uint_eq(events->len, 1);
        EchAllocOutcome outcome = ech_alloc_run(allocator, (const EchAllocEvent *)(const void *)events->data, 1, &(EchAllocRunOptions){.placed = NULL});
        ck_assert_uint_eq(outcome.stats.failed, !cases[i].served);
        ck_assert_uint_eq(outcome.stats.reserved, 4194560);
    }
}
END_TEST

/* Every memory snapshot of a real GPU: from the start state that the recording implies, every address is the recorded one. */
static void replay_snapshot(const char *path)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_file(path, "memory_snapshot", NULL, &error);
    ck_assert_ok(import != NULL, error);
    EchId memory = ech_alloc_main_memory(import->trace);
    g_autoptr(EchAllocStart) start = ech_alloc_start_of_trace(import->trace, memory);
    if (!start)
        return;
    g_autofree char *spec = ech_alloc_recorded_spec(import->trace);
    g_autoptr(EchAllocator) allocator = open_allocator(spec, UINT64_C(80) << 30);
    bool seeded = ech_allocator_seed(allocator, (const EchSeedBlock *)(const void *)start->seeds->data, start->seeds->len, &error);
    ck_assert_msg(seeded, "%s: %s", path, error ? error->message : "");
    ech_allocator_script(allocator, (const EchSegmentRange *)(const void *)start->script->data, start->script->len);
    g_autoptr(GArray) events = ech_alloc_events_of_trace(import->trace, memory, false, true);
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    EchAllocRunOptions options = {.placed = placed};
    ech_alloc_run(allocator, (const EchAllocEvent *)(const void *)events->data, events->len, &options);
    guint compared = 0;
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        uint32_t id = g_array_index(events, EchAllocEvent, item->event).id;
        if (id >= ech_trace_n_buffers(import->trace)) /* refused when recorded */
            continue;
        const EchBuffer *buffer = &ech_trace_buffers(import->trace)[id];
        if (buffer->address == ECH_OFFSET_NONE)
            continue;
        compared++;
        ck_assert_msg(item->fit == ECH_FIT_OK && item->placement.address == buffer->address,
                      "%s: allocation %u of %" G_GUINT64_FORMAT " bytes is at 0x%" G_GINT64_MODIFIER "x, recorded at 0x%" G_GINT64_MODIFIER "x", path, i,
                      buffer->bytes, item->placement.address, buffer->address);
    }
    printf("%s: %u allocations at their recorded addresses\n", path, compared);
}

START_TEST(gpu_snapshots_replay_at_their_addresses)
{
    const char *folder = ECH_SHARED "/traces/memory_snapshot";
    if (ech_test_lacks(folder))
        return;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    ck_assert_ptr_nonnull(dir);
    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (g_str_has_suffix(name, ".pickle"))
            replay_snapshot(path);
    }
    fflush(stdout);
}
END_TEST

START_TEST(fixed_placements_stand_beside_online_ones)
{
    const EchAllocEvent events[] = {
        {.bytes = 100, .id = 0, .kind = ECH_EVENT_ALLOC},
        {.bytes = 50, .id = 1, .kind = ECH_EVENT_ALLOC},
        {.id = 0, .kind = ECH_EVENT_FREE},
        {.bytes = 60, .id = 2, .kind = ECH_EVENT_ALLOC},
        {.id = 7, .kind = ECH_EVENT_FREE},
        {.bytes = 10, .id = 0, .kind = ECH_EVENT_ALLOC},
    };
    g_autoptr(GArray) lives = ech_alloc_lives(events, 6);
    static const int64_t spans[][2] = {{0, 2}, {1, 6}, {3, 6}, {5, 6}};
    ck_assert_uint_eq(lives->len, 4);
    for (guint i = 0; i < 4; i++) {
        ck_assert_int_eq(g_array_index(lives, EchPlanItem, i).begin, spans[i][0]);
        ck_assert_int_eq(g_array_index(lives, EchPlanItem, i).end, spans[i][1]);
    }
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    const uint64_t offsets[] = {0, 100, 0, 150};
    EchAllocOutcome fine = ech_alloc_run_fixed(events, 6, offsets, 160, placed);
    ck_assert_uint_eq(fine.stats.failed, 0);
    ck_assert_uint_eq(fine.stats.peak_reserved, 160);
    ck_assert_uint_eq(fine.stats.peak_live, 150);
    ck_assert_uint_eq(fine.stats.live, 120);
    ck_assert_uint_eq(g_array_index(placed, EchPlacedEvent, 3).placement.address, 150);
    EchAllocOutcome tight = ech_alloc_run_fixed(events, 6, offsets, 155, NULL);
    ck_assert_uint_eq(tight.stats.failed, 1);
    ck_assert_uint_eq(tight.first_failed, 5);
    ck_assert_uint_eq(tight.stats.peak_reserved, 160);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alloc");
    TCase *tests = tcase_create("rules");
    tcase_add_loop_test(tests, the_device_is_asked_beside, 0, G_N_ELEMENTS(besides));
    tcase_add_test(tests, caches_are_not_emptied_for_libraries);
    tcase_add_test(tests, events_beside);
    tcase_add_loop_test(tests, shares_are_of_the_whole_device, 0, 4);
    tcase_add_test(tests, bfc_splits_at_twice_or_128_mib);
    tcase_add_test(tests, bfc_grows_by_doubling);
    tcase_add_test(tests, bfc_backs_off_in_single_precision);
    tcase_add_test(tests, bfc_prefers_the_best_then_the_lowest);
    tcase_add_test(tests, free_blocks_hang_on_the_order_of_addresses);
    tcase_add_test(tests, recorded_addresses_tell_their_order);
    tcase_add_test(tests, jax_and_tensorflow_take_their_share);
    tcase_add_test(tests, unified_memory_holds_more);
    tcase_add_test(tests, bfc_collects_empty_regions);
    tcase_add_test(tests, bfc_says_where_the_real_one_hangs);
    tcase_add_test(tests, onnxruntime_grows_by_doubling);
    tcase_add_test(tests, onnxruntime_shrinks);
    tcase_add_test(tests, cupy_caches_by_stream);
    tcase_add_test(tests, pytorch_forgets_pools);
    tcase_add_test(tests, bfc_extends_regions);
    tcase_add_test(tests, recorded_ranges_go_by_size);
    tcase_add_test(tests, bfc_begins_where_another_is);
    tcase_add_test(tests, bfc_grows_on_where_another_is);
    tcase_add_test(tests, bfc_refuses_as_its_log_says);
    tcase_add_loop_test(tests, pytorch_rounds_and_takes_segments, 0, G_N_ELEMENTS(sizes));
    tcase_add_test(tests, two_ended_takes_one_range);
    tcase_add_test(tests, fits_end_before_what_is_beside_them);
    tcase_add_test(tests, pytorch_release_holds_for_all);
    tcase_add_test(tests, pytorch_keeps_streams_apart);
    tcase_add_test(tests, pytorch_waits_for_recorded_streams);
    tcase_add_test(tests, pytorch_releases_its_cache_before_failing);
    tcase_add_test(tests, pytorch_expands_segments);
    tcase_add_loop_test(tests, pytorch_settles_ties_by_release, 0, G_N_ELEMENTS(ties));
    tcase_add_test(tests, pytorch_rejects_before_it_gives_back);
    tcase_add_test(tests, pytorch_rejects_by_another_rounding);
    tcase_add_test(tests, pytorch_private_pools_keep_their_cache);
    tcase_add_test(tests, pytorch_pinned_blocks);
    tcase_add_test(tests, pytorch_reserves_for_what_cannot_fit);
    tcase_add_test(tests, pytorch_gives_whole_reservations_back);
    tcase_add_loop_test(tests, caches_are_emptied, 0, G_N_ELEMENTS(emptied));
    tcase_add_loop_test(tests, pytorch_bounds_requests_by_release, 0, G_N_ELEMENTS(bounds));
    tcase_add_test(tests, pytorch_refuses_what_no_reservation_holds);
    tcase_add_test(tests, slabs_fill_up);
    tcase_add_loop_test(tests, settings_are_refused_with_reasons, 0, G_N_ELEMENTS(refused));
    tcase_add_test(tests, words_choose_the_allocator);
    tcase_add_test(tests, simple_allocators_place_by_their_rule);
    tcase_add_test(tests, full_or_fragmented);
    tcase_add_test(tests, arena_comes_back_when_empty);
    tcase_add_test(tests, lower_bound_is_the_most_that_lives);
    tcase_add_test(tests, async_pool_follows_streams);
    tcase_add_test(tests, async_pool_hands_from_stream_to_stream);
    tcase_add_test(tests, async_pool_grows_in_one_range);
    tcase_add_test(tests, async_pools_keep_as_frameworks_ask);
    tcase_add_test(tests, async_pool_moves_free_pages_together);
    tcase_add_test(tests, settings_without_effect_are_named);
    tcase_add_test(tests, start_states_are_taken_and_given_back);
    tcase_add_test(tests, parts_of_recorded_segments_stay);
    tcase_add_loop_test(tests, start_states_are_refused_with_reasons, 0, G_N_ELEMENTS(bad_seeds));
    tcase_add_test(tests, report_orders_segments);
    tcase_add_test(tests, report_names_what_pins_a_segment);
    tcase_add_test(tests, report_knows_what_lies_beside);
    tcase_add_test(tests, gpu_snapshots_replay_at_their_addresses);
    tcase_add_test(tests, fixed_placements_stand_beside_online_ones);
    tcase_add_test(tests, text_reads_every_line_kind);
    tcase_add_test(tests, text_as_a_trace_has_the_same_events);
    tcase_add_loop_test(tests, text_errors_have_places, 0, G_N_ELEMENTS(broken));
    tcase_add_loop_test(tests, placements_equal_the_real_ones, 0, G_N_ELEMENTS(recorded));
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
