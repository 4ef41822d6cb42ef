/* Unified memory: which blocks come and go, what that takes, and what a replay makes of it. */
#include "models/memory/managed.h"

#include "sim/base/error.h"
#include "sim/replay/replay.h"
#include "sim/report/report.h"
#include "tests/support/support.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define BLOCK (2 * MIB)

static const EchManagedRange all = {.bytes = UINT64_MAX};

static EchMigration touch(EchManaged *managed, uint64_t block, bool writes)
{
    EchMigration moved = {0};
    ech_managed_touch(managed, &all, block * BLOCK + 100, 1000, !writes, writes, &moved);
    return moved;
}

static void moves(EchMigration moved, EchBytes to_device, EchBytes from_device)
{
    ck_assert_uint_eq(moved.to_device, to_device);
    ck_assert_uint_eq(moved.from_device, from_device);
}

static void reaches(EchMigration moved, EchBytes read, EchBytes written)
{
    moves(moved, 0, 0);
    ck_assert_uint_eq(moved.read, read);
    ck_assert_uint_eq(moved.written, written);
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
    ech_managed_touch(managed, &all, BLOCK - 1, 2, true, false, &moved);
    moves(moved, 0, 0);
    ech_managed_touch(managed, &all, 2 * BLOCK, 2 * BLOCK, true, false, &moved);
    moves(moved, 0, 2 * BLOCK);
    ech_managed_touch(managed, &all, BLOCK - 1, 2, true, false, &moved);
    moves(moved, 2 * BLOCK, 4 * BLOCK);
    ech_managed_touch(managed, &all, 7 * BLOCK, 0, true, true, &moved);
    moves(moved, 2 * BLOCK, 4 * BLOCK);
}
END_TEST

/* Every block of a round through more than there is comes, and sends another. */
START_TEST(rounds_through_a_little_too_much)
{
    g_autoptr(EchManaged) managed = ech_managed_new(10 * BLOCK, false);
    for (int round = 0; round < 4; round++) {
        EchMigration moved = {0};
        ech_managed_touch(managed, &all, 0, 11 * BLOCK, true, true, &moved);
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
        reaches(touch(managed, 2, false), 1000, 0);
        reaches(touch(managed, 2, true), 0, 1000);
    }
    ck_assert_uint_eq(ech_managed_on_host(managed), BLOCK);
}
END_TEST

/* RRZE-HPC/gpu-benches, um-stream: a triad over 24 GiB on a V100 of 16 GB takes 5108 ms, over 48 GiB it goes at the same 5.0 GB/s. */
START_TEST(a_triad_on_a_v100)
{
    const EchLink link = {.to_device = UINT64_C(12360000000), .from_device = UINT64_C(12360000000)};
    const EchMigration once = {24 * GIB, 24 * GIB, .faults = true}, in = {BLOCK, 0, .faults = true}, reached = {.read = 24 * GIB, .written = 24 * GIB},
                       prefetched = {.to_device = BLOCK};
    EchTime time = ech_managed_time(&link, &once);
    ck_assert_double_eq_tol((double)time, 5108e9, 26e9);
    ck_assert_int_lt(ech_managed_time(&link, &reached), time / 2);
    ck_assert_int_gt(ech_managed_time(&link, &in), ech_time_for(BLOCK, link.to_device));
    ck_assert_int_eq(ech_managed_time(&link, &prefetched), ech_time_for(BLOCK, link.to_device));
}
END_TEST

/* Two allocations of the host's making: 5 MiB, and 3 MiB on which something is advised. */
static const EchManagedRange five = {.address = 64 * GIB, .bytes = 5 * MIB, .of_host = true};

static EchManagedRange three(unsigned advice)
{
    return (EchManagedRange){.address = 65 * GIB, .bytes = 3 * MIB, .advice = advice, .of_host = true};
}

static EchMigration touch_all(EchManaged *managed, EchManagedRange range, bool reads, bool writes)
{
    EchMigration moved = {0};
    ech_managed_touch(managed, &range, 0, range.bytes, reads, writes, &moved);
    return moved;
}

START_TEST(what_the_host_wrote_comes_when_it_is_read)
{
    g_autoptr(EchManaged) managed = ech_managed_new(64 * MIB, false);
    EchMigration moved = touch_all(managed, five, true, false);
    moves(moved, 5 * MIB, 0); /* its last block has 1 MiB */
    ck_assert(moved.faults);
    moves(touch_all(managed, five, true, true), 0, 0);
    moves(touch_all(managed, three(0), false, true), 0, 0); /* made on the device */
    ck_assert_uint_eq(ech_managed_on_device(managed), 8 * MIB);
    EchManagedRange other = three(0);
    ech_managed_forget(managed, &other);
    ech_managed_forget(managed, &five);
    ck_assert_uint_eq(ech_managed_on_device(managed) + ech_managed_on_host(managed), 0);
    moves(touch_all(managed, five, true, false), 5 * MIB, 0); /* another, in its place */
}
END_TEST

/* What is not managed comes first: uvm_pmm_gpu_pma_evict_pages. */
START_TEST(others_take_the_room)
{
    g_autoptr(EchManaged) managed = ech_managed_new(64 * MIB, false);
    EchMigration moved = {0};
    (void)touch_all(managed, five, true, false);
    (void)touch_all(managed, three(0), true, false);
    ech_managed_set_room(managed, 6 * MIB, &moved);
    moves(moved, 0, 2 * MIB); /* the oldest */
    ck_assert(!moved.faults);
    ech_managed_set_room(managed, 64 * MIB, &moved);
    moves(moved, 0, 2 * MIB);
    moves(touch_all(managed, five, true, false), 2 * MIB, 0);
    moved = (EchMigration){0};
    ech_managed_set_room(managed, 0, &moved); /* but for a block */
    ck_assert_uint_le(ech_managed_on_device(managed), 2 * MIB);
    ck_assert_uint_eq(ech_managed_on_device(managed) + ech_managed_on_host(managed), 8 * MIB);
    moves(moved, 0, ech_managed_on_host(managed));
}
END_TEST

START_TEST(prefetches_move_what_is_not_there)
{
    g_autoptr(EchManaged) managed = ech_managed_new(64 * MIB, false);
    EchMigration moved = {0};
    ech_managed_move(managed, &five, 0, 5 * MIB, true, &moved); /* nothing is in it yet */
    moves(moved, 0, 0);
    ech_managed_move(managed, &five, 4 * MIB, 1, false, &moved);
    moves(moved, 0, 1 * MIB);
    ech_managed_move(managed, &five, 0, 5 * MIB, true, &moved);
    moves(moved, 1 * MIB, 1 * MIB);
    ck_assert(!moved.faults);
    EchManagedRange fresh = three(0);
    ech_managed_move(managed, &fresh, 0, 3 * MIB, false, &moved);
    ck_assert_uint_eq(ech_managed_on_host(managed), 3 * MIB);
    ech_managed_move(managed, &fresh, 3 * MIB, 1, true, &moved); /* behind its end */
    moves(moved, 1 * MIB, 1 * MIB);
}
END_TEST

START_TEST(advice_is_taken)
{
    g_autoptr(EchManaged) managed = ech_managed_new(64 * MIB, false);
    EchMigration moved = {0};
    /* Mostly read: a copy stays behind, until it is written. */
    EchManagedRange range = three(ECH_ADVICE_READ_MOSTLY);
    moves(touch_all(managed, range, true, false), 3 * MIB, 0);
    ech_managed_move(managed, &range, 0, 3 * MIB, false, &moved);
    moves(moved, 0, 0);
    moves(touch_all(managed, range, true, false), 3 * MIB, 0);
    moves(touch_all(managed, range, false, true), 0, 0);
    ech_managed_move(managed, &range, 0, 3 * MIB, false, &moved);
    moves(moved, 0, 3 * MIB);
    ech_managed_forget(managed, &range);
    /* The host preferred: reached there, unless it is prefetched. */
    range = three(ECH_ADVICE_ON_HOST);
    reaches(touch_all(managed, range, false, true), 0, 3 * MIB);
    reaches(touch_all(managed, range, true, false), 3 * MIB, 0);
    moved = (EchMigration){0};
    ech_managed_move(managed, &range, 0, 3 * MIB, true, &moved);
    moves(moved, 3 * MIB, 0);
    reaches(touch_all(managed, range, true, false), 0, 0);
    ech_managed_forget(managed, &range);
    /* Mapped for the device: made there, and reached on the host where it lies there. */
    range = three(ECH_ADVICE_MAPPED);
    reaches(touch_all(managed, range, false, true), 0, 0);
    moved = (EchMigration){0};
    ech_managed_move(managed, &range, 0, 3 * MIB, false, &moved);
    reaches(touch_all(managed, range, true, true), 3 * MIB, 3 * MIB);
    ech_managed_forget(managed, &range);
    /* The device preferred: as without. */
    moves(touch_all(managed, three(ECH_ADVICE_ON_DEVICE), true, false), 3 * MIB, 0);
}
END_TEST

START_TEST(over_a_coherent_link_it_comes_while_there_is_room)
{
    g_autoptr(EchManaged) managed = ech_managed_new(6 * MIB, true);
    moves(touch_all(managed, five, true, false), 5 * MIB, 0);
    EchMigration moved = touch_all(managed, three(0), true, false);
    reaches((EchMigration){.read = moved.read}, 2 * MIB, 0);
    moves(moved, 1 * MIB, 0); /* its second block */
}
END_TEST

/* -- replays -------------------------------------------------------------- */

/* 100 MiB of memory, 10 GB/s and one engine each way, no launches. */
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

/* A kernel touches everything that it uses, and what it reads and writes once: as those that use one of two buffers in turn. */
START_TEST(kernels_touch_all_they_use)
{
    static const struct {
        const char *memories, *uses;
        int hbm;
    } cases[] = {
        {"\"hbm\"\n\"host\"", "r=0:62914560 r=1:62914560", 0},
        {"\"host\"\n\"hbm\"", "r=0:62914560 w=0:62914560 r=1:62914560", 1},
    };
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strdup_printf("echelon-trace 1 \"test\"\nstrings 0\nmemories 2\n%s\nqueues 1\ncompute 0 \"core\"\nbuffers 2\n"
                                                "b \"a\" m=%d bytes=62914560 resident=1\nb \"b\" m=%d bytes=62914560 resident=1\nops 2\n"
                                                "kernel \"k\" q=0 %s\nkernel \"k\" q=0 %s\n",
                                                cases[i].memories, cases[i].hbm, cases[i].hbm, cases[i].uses, cases[i].uses);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_test_text(text, &error);
        ck_assert_ok(import, error);
        g_autoptr(EchRun) run = replay(import->trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
        ck_assert_ok(run, error);
        ck_assert_uint_eq(hbm_of(run)->paged_in, 240 * MIB);
        ck_assert_uint_eq(hbm_of(run)->paged_out, 240 * MIB);
    }
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

/* Which part of a block kernels use is not told, but by views and by iterations of a loop: what of it comes and goes is not known, and nothing is where there
 * is room for all. */
START_TEST(parts_of_blocks_are_untold)
{
    static const struct {
        const char *buffers, *ops;
        EchBytes untold;
    } cases[] = {
        {"1\nb \"block\" m=0 bytes=125829120 resident=1", "2\nkernel \"k\" q=0 r=0:8388608\nkernel \"k\" q=0 r=0:16777216", 104 * MIB},
        {"2\nb \"block\" m=0 bytes=125829120 resident=1\nb \"view\" m=0 bytes=8388608 resident=1 alias=0+16777216", "1\nkernel \"k\" q=0 r=1:8388608", 0},
        {"1\nb \"block\" m=0 bytes=125829120 resident=1", "2\nkernel \"k\" q=0 r=0:8388608\nkernel \"k\" q=0 w=0:125829120", 0},
        {"1\nb \"block\" m=0 bytes=125829120 resident=1", "2\nloop \"while\" q=0 target=1 bytes=15\nkernel \"k\" q=0 r=0:8388608", 0},
    };
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16"), large = ech_test_device("v100-pcie-16", NULL);
    g_autofree char *text = g_strdup_printf("echelon-trace 1 \"test\"\nstrings 0\nmemories 1\n\"hbm\"\nqueues 1\ncompute 0 \"core\"\nbuffers %s\nops %s\n",
                                            cases[_i].buffers, cases[_i].ops);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text, &error);
    ck_assert_ok(import, error);
    g_autoptr(EchRun) run = replay(import->trace, device, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert_uint_eq(ech_report_untold(hbm_of(run)), cases[_i].untold);
    g_autoptr(EchRun) roomy = replay(import->trace, large, "unified_memory=true", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(roomy, error);
    ck_assert_uint_eq(ech_report_untold(hbm_of(roomy)), 0);
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

/* 60 MiB of managed memory are read; 60 MiB that are not are taken and given back; then they are prefetched, read and read by the host. */
static EchTrace *pressed(const char *properties)
{
    g_autofree char *text =
        g_strdup_printf("echelon-trace 1 \"test\"\n%sstrings 0\nmemories 2\n\"hbm\"\n\"host\"\nqueues 2\ncompute 0 \"core\"\nhost 0 \"host\"\n"
                        "buffers 3\nb \"m\" m=1 bytes=62914560 managed=1 resident=1\nb \"a\" m=0 bytes=62914560\n"
                        "b \"part\" m=1 bytes=31457280 alias=0+31457280 resident=1\nops 8\n"
                        "kernel \"k\" q=0 r=0:62914560\nalloc q=1 target=1 bytes=62914560 after=-1\nkernel \"k\" q=0 w=1:62914560\n"
                        "free q=1 target=1 after=-1\ncopy \"p\" q=0 from=1 to=0 bytes=62914560 r=0:62914560 w=0:62914560 after=-1 launch=\"prefetch=1\"\n"
                        "kernel \"k\" q=0 r=0:62914560 w=0:62914560\nkernel \"by the host\" q=1 r=2:31457280 after=-1\n"
                        "kernel \"k\" q=0 r=2:31457280 after=-1\n",
                        properties);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text, &error);
    ck_assert_ok(import, error);
    return ech_trace_ref(import->trace);
}

START_TEST(managed_buffers_have_what_is_left)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(EchTrace) trace = pressed("property \"time_zero_ps\" \"0\"\n"), step = pressed("");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = replay(trace, device, "", _i ? ECH_ENGINE_SIMGRID : ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert(run->fits && run->completed);
    const EchMemoryRun *hbm = hbm_of(run);
    ck_assert_uint_eq(hbm->on_device, 0);
    ck_assert_uint_eq(hbm->managed, 60 * MIB);
    ck_assert_uint_eq(hbm->peak_live, 60 * MIB);            /* what is managed is no allocator's */
    ck_assert_uint_eq(hbm->paged_in, (60 + 20 + 30) * MIB); /* touched, prefetched, touched after the host had it */
    ck_assert_uint_eq(hbm->paged_out, (20 + 30) * MIB);     /* for the request, for the host */
    ck_assert_uint_eq(hbm->read, (60 + 60 + 30) * MIB);     /* where it is when it is read */
    double second = 10e9 / MIB, waited = ((60 + 30 + 30) / ECH_MANAGED_SHARE + 20) / second * 1e12, prefetched = 20 / second * 1e12;
    ck_assert_double_eq_tol((double)run->waits[ECH_WAIT_PAGES], waited, 1e3);
    ck_assert_double_ge((double)run->makespan, waited + prefetched);
    ck_assert_int_le(run->makespan, run->serial);
    ck_assert_uint_eq(run->links[0].forward, 110 * MIB);
    ck_assert_uint_eq(run->links[0].backward, 50 * MIB);
    /* A step that runs again and again begins with what the one before left there. */
    g_autoptr(EchRun) again = replay(step, device, "", _i ? ECH_ENGINE_SIMGRID : ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(again, error);
    ck_assert_uint_eq(hbm_of(again)->paged_in, 50 * MIB);
    ck_assert_uint_eq(hbm_of(again)->paged_out, 50 * MIB);
}
END_TEST

/* Pages move beside a copy; when they are there, the link's one engine is still that copy's. */
START_TEST(pages_give_no_engine_away)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import =
        ech_test_text("echelon-trace 1 \"test\"\nproperty \"time_zero_ps\" \"0\"\nstrings 0\nmemories 2\n\"hbm\"\n\"host\"\n"
                      "queues 3\ncompute 0 \"core\"\ncopy 0 \"in\"\ncopy 0 \"in too\"\nbuffers 3\nb \"m\" m=1 bytes=1048576 managed=1 resident=1\n"
                      "b \"a\" m=0 bytes=41943040 resident=1\nb \"of the host\" m=1 bytes=41943040 resident=1\nops 4\n"
                      "kernel \"before\" q=0 r=1:41943040\nkernel \"k\" q=0 r=0:1048576\n"
                      "copy \"long\" q=1 from=1 to=0 bytes=41943040 r=2:41943040 w=1:41943040\n"
                      "copy \"short\" q=2 from=1 to=0 bytes=20971520 r=2:20971520 w=1:20971520\n",
                      &error);
    ck_assert_ok(import, error);
    g_autoptr(EchRun) run = replay(import->trace, device, "", _i ? ECH_ENGINE_SIMGRID : ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    EchTime ends = 0, begins = 0;
    for (size_t i = 0; i < run->n_spans; i++) {
        if (run->spans[i].op == 2)
            ends = run->spans[i].end;
        else if (run->spans[i].op == 3)
            begins = run->spans[i].start;
    }
    ck_assert_int_gt(ends, 0);
    ck_assert_int_ge(begins, ends);
    ck_assert_int_gt(run->waits[ECH_WAIT_LINK], 0);
    ck_assert_int_gt(run->waits[ECH_WAIT_PAGES], 0);
}
END_TEST

/* They are operations of the trace then. */
START_TEST(recorded_migrations_are_not_modelled)
{
    g_autoptr(EchDevice) device = small_gpu("v100-pcie-16");
    g_autoptr(EchTrace) trace = pressed("property \"migrations_recorded\" \"1\"\n");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = replay(trace, device, "", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert(run->fits && run->completed);
    ck_assert_uint_eq(hbm_of(run)->paged_in + hbm_of(run)->paged_out, 0);
    ck_assert_int_eq(run->waits[ECH_WAIT_PAGES], 0);
}
END_TEST

/* Where nobody moves pages they cost nothing more, and that is said. */
START_TEST(managed_buffers_elsewhere)
{
    g_autoptr(EchDevice) device = small_gpu("mi300x");
    g_autoptr(EchTrace) trace = pressed("");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = replay(trace, device, "", ECH_ENGINE_NATIVE, &error);
    ck_assert_ok(run, error);
    ck_assert(run->fits && run->completed);
    ck_assert_uint_eq(hbm_of(run)->paged_in, 0);
    bool told = false;
    for (const char *const *remark = ech_diag_remarks(run->diag); *remark; remark++)
        told = told || g_str_has_prefix(*remark, "managed buffers cost no migration here: ");
    ck_assert(told);
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
    tcase_add_test(tests, what_the_host_wrote_comes_when_it_is_read);
    tcase_add_test(tests, others_take_the_room);
    tcase_add_test(tests, prefetches_move_what_is_not_there);
    tcase_add_test(tests, advice_is_taken);
    tcase_add_test(tests, over_a_coherent_link_it_comes_while_there_is_room);
    tcase_add_loop_test(tests, pages_give_no_engine_away, 0, 2);
    tcase_add_loop_test(tests, managed_buffers_have_what_is_left, 0, 2);
    tcase_add_test(tests, recorded_migrations_are_not_modelled);
    tcase_add_test(tests, managed_buffers_elsewhere);
    tcase_add_loop_test(tests, a_replay_waits_for_what_comes_and_goes, 0, 2);
    tcase_add_test(tests, kernels_touch_all_they_use);
    tcase_add_loop_test(tests, what_has_room_costs_nothing, 0, 2);
    tcase_add_test(tests, iterations_that_page_are_not_skipped);
    tcase_add_test(tests, iterations_take_slices);
    tcase_add_loop_test(tests, parts_of_blocks_are_untold, 0, 4);
    tcase_add_loop_test(tests, an_allocator_that_gives_more_than_there_is, 0, 2);
    tcase_add_test(tests, more_than_both_have_does_not_fit);
    tcase_add_loop_test(tests, who_has_none, 0, 2);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
