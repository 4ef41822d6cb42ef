/* Unified memory: which blocks come and go, what that takes, and what a replay makes of it. */
#include "models/memory/managed.h"

#include "sim/base/error.h"
#include "sim/replay/replay.h"
#include "tests/support/support.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define BLOCK (2 * MIB)

static EchMigration touch(EchManaged *managed, uint64_t block, bool writes)
{
    EchMigration moved = {0};
    ech_managed_touch(managed, block * BLOCK + 100, 1000, !writes, writes, &moved);
    return moved;
}

static void moves(EchMigration moved, EchBytes to_device, EchBytes from_device)
{
    ck_assert_uint_eq(moved.to_device, to_device);
    ck_assert_uint_eq(moved.from_device, from_device);
}

START_TEST(the_oldest_goes_whatever_was_used_since)
{
    g_autoptr(EchManaged) managed = ech_managed_new(3 * BLOCK + MIB, false);
    for (uint64_t b = 0; b < 3; b++)
        moves(touch(managed, b, true), 0, 0); /* made on the device */
    moves(touch(managed, 0, false), 0, 0);
    moves(touch(managed, 3, true), 0, BLOCK); /* 0 goes */
    ck_assert_uint_eq(ech_managed_on_host(managed), BLOCK);
    moves(touch(managed, 1, false), 0, 0);
    moves(touch(managed, 0, false), BLOCK, BLOCK); /* 1 goes, though just used */
    moves(touch(managed, 2, false), 0, 0);
    moves(touch(managed, 1, false), BLOCK, BLOCK);
    ck_assert_uint_eq(ech_managed_on_host(managed), BLOCK);
}
END_TEST

START_TEST(a_range_is_all_blocks_that_it_lies_in)
{
    g_autoptr(EchManaged) managed = ech_managed_new(2 * BLOCK, false);
    EchMigration moved = {0};
    ech_managed_touch(managed, BLOCK - 1, 2, true, false, &moved);
    moves(moved, 0, 0);
    ech_managed_touch(managed, 2 * BLOCK, 2 * BLOCK, true, false, &moved);
    moves(moved, 0, 2 * BLOCK);
    ech_managed_touch(managed, BLOCK - 1, 2, true, false, &moved);
    moves(moved, 2 * BLOCK, 4 * BLOCK);
    ech_managed_touch(managed, 7 * BLOCK, 0, true, true, &moved);
    moves(moved, 2 * BLOCK, 4 * BLOCK);
}
END_TEST

/* Every block of a round through more than there is comes, and sends another. */
START_TEST(rounds_through_a_little_too_much)
{
    g_autoptr(EchManaged) managed = ech_managed_new(10 * BLOCK, false);
    for (int round = 0; round < 4; round++) {
        EchMigration moved = {0};
        ech_managed_touch(managed, 0, 11 * BLOCK, true, true, &moved);
        moves(moved, round ? 11 * BLOCK : 0, round ? 11 * BLOCK : BLOCK);
    }
}
END_TEST

START_TEST(a_coherent_link_reaches_the_rest_where_it_is)
{
    g_autoptr(EchManaged) managed = ech_managed_new(2 * BLOCK, true);
    for (int round = 0; round < 2; round++) {
        moves(touch(managed, 0, true), 0, 0);
        moves(touch(managed, 1, true), 0, 0);
        moves(touch(managed, 2, false), 1000, 0);
        moves(touch(managed, 2, true), 0, 1000);
    }
    ck_assert_uint_eq(ech_managed_on_host(managed), BLOCK);
}
END_TEST

/* RRZE-HPC/gpu-benches, um-stream: a triad over 24 GiB on a V100 of 16 GB takes 5108 ms, over 48 GiB it goes at the same 5.0 GB/s. */
START_TEST(a_triad_on_a_v100)
{
    const EchLink link = {.to_device = UINT64_C(12360000000), .from_device = UINT64_C(12360000000)};
    const EchMigration once = {24 * GIB, 24 * GIB}, in = {BLOCK, 0};
    EchTime time = ech_managed_time(&link, &once, false);
    ck_assert_double_eq_tol((double)time, 5108e9, 26e9);
    ck_assert_int_lt(ech_managed_time(&link, &once, true), time / 2);
    ck_assert_int_gt(ech_managed_time(&link, &in, false), ech_time_for(BLOCK, link.to_device));
}
END_TEST

/* -- replays -------------------------------------------------------------- */

/* 100 MiB of memory, 10 GB/s each way, no launches. */
static EchDevice *small_gpu(const char *name)
{
    static const char *const settings[] = {"memories.hbm.capacity=100MiB", "memories.hbm.available=100MiB", "links.host.to_device=10GB/s",
                                           "links.host.from_device=10GB/s", NULL};
    return ech_test_device(name, settings);
}

/* Kernels that read 60 MiB each, of two buffers in turn: twice, or in a loop of 20 iterations. */
static EchTrace *in_turn(bool loop)
{
    g_autoptr(GString) text = g_string_new("echelon-trace 1 \"test\"\nstrings 0\nmemories 2\n\"hbm\"\n\"host\"\nqueues 1\ncompute 0 \"core\"\nbuffers 2\n"
                                           "b \"a\" m=0 bytes=62914560 resident=1\nb \"b\" m=0 bytes=62914560 resident=1\n");
    g_string_append(text, loop ? "ops 3\nloop \"while\" q=0 target=2 bytes=20\n" : "ops 4\n");
    for (int i = 0; i < (loop ? 2 : 4); i++)
        g_string_append_printf(text, "kernel \"k\" q=0 r=%d:62914560\n", i % 2);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text->str, &error);
    ck_assert_ok(import, error);
    return ech_trace_ref(import->trace);
}

static EchRun *replay(EchTrace *trace, const EchDevice *device, const char *settings, EchEngine engine, GError **error)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    bool ok = ech_params_parse(ech_replay_params, &options, settings, error);
    options.engine = engine;
    EchRun *run = ok ? ech_replay_run(trace, device, NULL, &options, error) : NULL;
    ech_params_clear(ech_replay_params, &options);
    return run;
}

static const EchMemoryRun *hbm_of(const EchRun *run)
{
    for (size_t i = 0; i < run->n_memories; i++) {
        if (strcmp(run->memories[i].name, "hbm") == 0)
            return &run->memories[i];
    }
    ck_abort_msg("no hbm");
    return NULL;
}

START_TEST(a_replay_waits_for_what_comes_and_goes)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(EchTrace) trace = in_turn(false);
    g_autoptr(GError) error = NULL;
    const EchEngine engine = _i ? ECH_ENGINE_SIMGRID : ECH_ENGINE_NATIVE;
    g_autoptr(EchRun) plain = replay(trace, device, "", engine, &error);
    ck_assert_ok(plain, error);
    ck_assert(!plain->fits);
    g_autoptr(EchRun) run = replay(trace, device, "unified_memory=true", engine, &error);
    ck_assert_ok(run, error);
    ck_assert(run->fits && run->completed);
    const EchMemoryRun *hbm = hbm_of(run);
    ck_assert_uint_eq(hbm->on_device, 100 * MIB);
    ck_assert_uint_eq(hbm->paged_in, 240 * MIB); /* all of it, every time: the step before left it as a round does */
    ck_assert_uint_eq(hbm->paged_out, 240 * MIB);
    double pages = 2 * 240.0 * MIB / 10e9 / ECH_MANAGED_SHARE * 1e12;
    ck_assert_double_eq_tol((double)run->waits[ECH_WAIT_PAGES], pages, 1e3);
    ck_assert_int_gt(run->makespan, run->waits[ECH_WAIT_PAGES]);
    ck_assert_int_le(run->makespan, run->serial);
    ck_assert_uint_eq(run->links[0].forward, 240 * MIB);
    ck_assert_uint_eq(run->links[0].backward, 240 * MIB);
    ck_assert_int_eq(run->links[0].busy, run->waits[ECH_WAIT_PAGES]);
}
END_TEST

START_TEST(what_has_room_costs_nothing)
{
    g_autoptr(EchDevice) device = ech_test_device("v100-pcie-16", NULL);
    g_autoptr(EchTrace) trace = in_turn(_i);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) plain = replay(trace, device, "", ECH_ENGINE_NATIVE, &error);
    g_autoptr(EchRun) run = replay(trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert(plain && run);
    ck_assert_int_eq(run->makespan, plain->makespan);
    ck_assert_int_eq(run->waits[ECH_WAIT_PAGES], 0);
    ck_assert_uint_eq(hbm_of(plain)->on_device, 0);
    ck_assert_uint_eq(hbm_of(run)->paged_in + hbm_of(run)->paged_out, 0);
    ck_assert_uint_eq(run->n_skips, plain->n_skips);
}
END_TEST

START_TEST(iterations_that_page_are_not_skipped)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(EchTrace) trace = in_turn(true);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = replay(trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert_uint_eq(run->n_skips, 0);
    ck_assert_uint_eq(hbm_of(run)->paged_in, 20 * 120 * MIB);
}
END_TEST

/* Slices of an array, an iteration each, come one after the other: 20 of 8 MiB, in 100 MiB. */
START_TEST(iterations_take_slices)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import =
        ech_test_text("echelon-trace 1 \"test\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\nbuffers 1\n"
                      "b \"layers\" m=0 bytes=167772160 resident=1\nops 2\nloop \"while\" q=0 target=1 bytes=20\nkernel \"k\" q=0 r=0:8388608\n",
                      &error);
    ck_assert_ok(import, error);
    g_autoptr(EchRun) run = replay(import->trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert_uint_eq(hbm_of(run)->paged_in, 160 * MIB);
}
END_TEST

/* JAX's and TensorFlow's own words for it. */
START_TEST(an_allocator_that_gives_more_than_there_is)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(EchTrace) trace = in_turn(false);
    g_autoptr(GError) error = NULL;
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.allocator = g_strdup(_i ? "tensorflow:per_process_gpu_memory_fraction=1.5,allow_growth=true"
                                    : "jax:TF_FORCE_UNIFIED_MEMORY=1,XLA_CLIENT_MEM_FRACTION=1.5,preallocate=false");
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ok(run, error);
    ck_assert(run->fits);
    ck_assert_uint_eq(hbm_of(run)->on_device, 100 * MIB);
    ck_assert_uint_ge(hbm_of(run)->paged_in, 240 * MIB);
}
END_TEST

/* The host's memory has an end, too. */
START_TEST(more_than_both_have_does_not_fit)
{
    static const char *const settings[] = {"memories.hbm.capacity=64MiB", "memories.hbm.available=64MiB", "memories.host.capacity=32MiB", NULL};
    g_autoptr(EchDevice) device = ech_test_device("v100-pcie-16", settings);
    g_autoptr(EchTrace) trace = in_turn(false);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = replay(trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert(!run->fits);
    ck_assert_uint_eq(run->failure.limit, 96 * MIB);
}
END_TEST

START_TEST(who_has_none)
{
    static const char *const names[] = {"mi300x", "tpu-v5e"};
    g_autoptr(EchDevice) device = small_gpu(names[_i]);
    g_autoptr(EchTrace) trace = in_turn(false);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = replay(trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert_ptr_null(run);
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    ck_assert_ptr_nonnull(strstr(error->message, names[_i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("managed");
    TCase *tests = tcase_create("managed");
    tcase_add_test(tests, the_oldest_goes_whatever_was_used_since);
    tcase_add_test(tests, a_range_is_all_blocks_that_it_lies_in);
    tcase_add_test(tests, rounds_through_a_little_too_much);
    tcase_add_test(tests, a_coherent_link_reaches_the_rest_where_it_is);
    tcase_add_test(tests, a_triad_on_a_v100);
    tcase_add_loop_test(tests, a_replay_waits_for_what_comes_and_goes, 0, 2);
    tcase_add_loop_test(tests, what_has_room_costs_nothing, 0, 2);
    tcase_add_test(tests, iterations_that_page_are_not_skipped);
    tcase_add_test(tests, iterations_take_slices);
    tcase_add_loop_test(tests, an_allocator_that_gives_more_than_there_is, 0, 2);
    tcase_add_test(tests, more_than_both_have_does_not_fit);
    tcase_add_loop_test(tests, who_has_none, 0, 2);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
