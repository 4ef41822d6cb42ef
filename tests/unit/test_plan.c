/* Planners and MiniMalloc's CSV on cases small enough to work out by hand. */
#include "models/alloc/coarsen.h"
#include "models/alloc/heap_fast.h"
#include "models/alloc/heap_fit.h"
#include "models/alloc/plan.h"
#include "sim/base/error.h"
#include "sim/import/minimalloc.h"
#include "sim/report/minimalloc_csv.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

#define ALONE ECH_PLAN_ALONE

static EchPlan *plan_of(const char *spec, const EchPlanItem *items, size_t n)
{
    GError *error = NULL;
    EchPlan *plan = ech_plan_new(spec, items, n, 0, &error);
    ck_assert_ok(plan != NULL, error);
    ck_assert_msg(ech_plan_check(items, n, plan, &error), "%s: %s", spec, error ? error->message : "");
    return plan;
}

/* b0 0..10 of 100; b1 0..4 of 30; b2 4..10 of 20. Largest first: b0 at 0, b1 at 256, b2 at 256. */
START_TEST(spatial_reuses_a_gap)
{
    const EchPlanItem items[] = {{0, 10, 100, 0, 0, ALONE}, {0, 4, 30, 0, 0, ALONE}, {4, 10, 20, 0, 0, ALONE}};
    g_autoptr(EchPlan) plan = plan_of("xla:algorithm=spatial", items, 3);
    ck_assert_uint_eq(plan->offsets[0], 0);
    ck_assert_uint_eq(plan->offsets[1], 256);
    ck_assert_uint_eq(plan->offsets[2], 256);
    ck_assert_uint_eq(plan->height, 286);
    ck_assert_uint_eq(plan->lower_bound, 130);
}
END_TEST

/* Best fit takes the tightest gap, not the lowest: the gap of 40 at 200 before the gap of 60 at 100. */
START_TEST(best_fit_takes_the_tightest_gap)
{
    g_autoptr(EchFitHeap) heap = ech_fit_heap_new(4, 2, 1, 1);
    const EchFitSpan all = {0, 4}, late = {2, 4};
    ech_fit_heap_use(heap, all, 0, 100);
    ech_fit_heap_use(heap, all, 160, 40);
    ech_fit_heap_use(heap, all, 240, 10);
    ech_fit_heap_use(heap, (EchFitSpan){0, 2}, 250, 1000);
    ck_assert_uint_eq(ech_fit_heap_find(heap, &late, 1, 30, 1, false), 200);
    ck_assert_uint_eq(ech_fit_heap_find(heap, &late, 1, 30, 1, true), 100);
    ck_assert_uint_eq(ech_fit_heap_find(heap, &late, 1, 50, 1, false), 100);
    ck_assert_uint_eq(ech_fit_heap_find(heap, &late, 1, 61, 1, false), 250);
    ck_assert_uint_eq(ech_fit_heap_find(heap, &all, 1, 61, 1, false), 1250);
    ck_assert_uint_eq(ech_fit_heap_find(heap, &all, 1, 40, 64, false), 1280); /* 192 to 240 is a run's tail: 200 is not a multiple of 64 */
}
END_TEST

/* A chunk given back at the top joins the endless one, so it is the last choice again. */
START_TEST(fast_heap_joins_the_top)
{
    g_autoptr(EchFastHeap) heap = ech_fast_heap_new(0, 16);
    uint64_t at[6];
    uint32_t low = ech_fast_heap_take(heap, 10, &at[0]), middle = ech_fast_heap_take(heap, 20, &at[1]), high = ech_fast_heap_take(heap, 5, &at[2]);
    ck_assert_uint_eq(at[0], 0);
    ck_assert_uint_eq(at[1], 16); /* the unaligned head from 10 on goes with it */
    ck_assert_uint_eq(at[2], 48);
    ech_fast_heap_give(heap, high);
    ech_fast_heap_give(heap, low);
    low = ech_fast_heap_take(heap, 10, &at[3]);
    ck_assert_uint_eq(at[3], 0);
    ck_assert_uint_eq(ech_fast_heap_look(heap, 4), 48);
    high = ech_fast_heap_take(heap, 4, &at[4]);
    ck_assert_uint_eq(at[4], 48);
    ech_fast_heap_give(heap, low);
    ech_fast_heap_give(heap, middle);
    (void)ech_fast_heap_take(heap, 36, &at[5]); /* just what the two left */
    ck_assert_uint_eq(at[5], 0);
    ck_assert_uint_eq(ech_fast_heap_look(heap, 1), 64);
}
END_TEST

/* The clock of the heap ticks per event, so a co-located member's own end decides whom it meets. */
START_TEST(groups_share_and_get_the_largest_room)
{
    const EchPlanItem items[] = {{0, 2, 10, 0, 0, 5}, {2, 6, 50, 0, 0, 5}, {0, 2, 30, 0, 0, ALONE}, {1, 6, 20, 0, 0, ALONE}};
    static const char *const names[] = {"spatial", "temporal", "best", "phase", "phase_end", "fast_merge", "fast_split"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *spec = g_strdup_printf("xla:alignment=1,algorithm=%s", names[i]);
        g_autoptr(EchPlan) plan = plan_of(spec, items, 4);
        ck_assert_uint_eq(plan->offsets[0], plan->offsets[1]);
    }
    g_autoptr(EchPlan) exact = plan_of("exact:time_limit=1000s", items, 4);
    ck_assert_uint_eq(exact->lower_bound, 70);
    ck_assert_uint_eq(exact->height, 70);
    ck_assert(exact->proved_optimal);
}
END_TEST

/* A limit is soft for the first buffer of a heap. */
START_TEST(limits_open_heaps)
{
    const EchPlanItem items[] = {{0, 9, 500, 0, 0, ALONE}, {0, 9, 60, 0, 0, ALONE}, {0, 9, 50, 0, 0, ALONE}, {0, 9, 40, 0, 0, ALONE}};
    g_autoptr(EchPlan) plan = plan_of("xla:algorithm=spatial,alignment=1,limit=100", items, 4);
    const uint32_t heaps[] = {0, 1, 2, 1};
    ck_assert_mem_eq(plan->heaps, heaps, sizeof heaps);
    ck_assert_uint_eq(plan->n_heaps, 3);
    ck_assert_uint_eq(plan->height, 650);
    ck_assert_uint_eq(plan->heap_bytes[1], 100);
}
END_TEST

/* Which 500 fast_split places by best fit is settled before the first heap: the 501st never is, though the second heap has fewer than 500 of them. */
START_TEST(fast_split_splits_once)
{
    EchPlanItem items[501];
    for (int i = 0; i < 500; i++)
        items[i] = (EchPlanItem){0, 10, 100, 0, 0, ALONE};
    items[500] = (EchPlanItem){20, 30, 50, 0, 0, ALONE};
    g_autoptr(EchPlan) plan = plan_of("xla:algorithm=fast_split,alignment=1,limit=40000", items, 501);
    ck_assert_uint_eq(plan->n_heaps, 2);
    ck_assert_uint_eq(plan->heap_bytes[0], 40000);
    ck_assert_uint_eq(plan->heaps[500], 1);
    ck_assert_uint_eq(plan->offsets[500], 10000); /* above the 100 that the first heap left over, although they are dead */
}
END_TEST

/* Every member of a group takes the room of its largest for as long as it lives itself. */
START_TEST(members_take_the_largest_room)
{
    const EchPlanItem items[] = {{0, 2, 300, 0, 0, 0}, {4, 6, 100, 0, 0, 0}, {4, 6, 50, 0, 0, ALONE}};
    g_autoptr(EchPlan) plan = plan_of("xla:algorithm=spatial,alignment=1", items, 3);
    ck_assert_uint_eq(plan->offsets[2], 300);
}
END_TEST

/* Sizes of 12, alignments of 6 and 8: addresses count in twos, not in fours, of which not every multiple of 6 is one. */
START_TEST(alignments_that_share_little)
{
    const EchPlanItem items[] = {{2, 5, 12, 6, 0, ALONE}, {2, 3, 24, 8, 0, ALONE}, {3, 6, 12, 8, 0, ALONE}, {3, 5, 12, 8, 0, ALONE}};
    g_autoptr(EchPlan) plan = plan_of("exact:time_limit=1000s", items, 4);
    ck_assert_uint_eq(plan->height, 42);
    ck_assert(plan->proved_optimal);
}
END_TEST

START_TEST(colours_have_their_own_heaps)
{
    const EchPlanItem items[] = {{0, 5, 10, 0, 9, ALONE}, {0, 5, 20, 0, 2, ALONE}, {1, 5, 30, 0, 9, ALONE}, {0, 0, 0, 0, 2, ALONE}};
    g_autoptr(EchPlan) plan = plan_of("xla:alignment=1", items, 4);
    ck_assert_uint_eq(plan->n_heaps, 2);
    ck_assert_uint_eq(plan->heap_colours[0], 2);
    ck_assert_uint_eq(plan->heap_bytes[0], 20);
    ck_assert_uint_eq(plan->heap_bytes[1], 40);
    ck_assert_uint_eq(plan->heaps[0], 1);
}
END_TEST

typedef struct {
    const char *spec, *message;
} BadSpec;

static const BadSpec bad_specs[] = {
    {"exat", "'exat' is not a planner; expected one of xla, exact, greedy (did you mean exact?)"},
    {"xla:algorithm=spacial", "xla: algorithm: 'spacial' is unknown; expected one of spatial, temporal, best, phase, phase_end, fast_merge, fast_split"},
    {"xla:alignment=0", "xla: alignment: '0' is out of range; expected 1 to 1TiB"},
    {"exact:timelimit=3s", "exact: 'timelimit' is no parameter here; did you mean 'time_limit'?"},
};

START_TEST(specs_say_what_is_wrong)
{
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_planner_new(bad_specs[_i].spec, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    ck_assert_str_eq(error->message, bad_specs[_i].message);
}
END_TEST

START_TEST(impossible_items_are_refused)
{
    const EchPlanItem backwards = {5, 4, 1, 0, 0, ALONE};
    const EchPlanItem huge[] = {{0, 4, UINT64_C(1) << 60, 0, 0, ALONE}, {0, 4, 1, UINT64_C(1) << 60, 0, ALONE}, {0, 4, 1, (UINT64_C(1) << 59) + 1, 0, ALONE}};
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_plan_new("greedy", &backwards, 1, 0, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    g_clear_error(&error);
    ck_assert_ptr_null(ech_plan_new("xla", huge, 3, 0, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    g_clear_error(&error);
    EchPlanItem many[16]; /* four colours of 2^62 each: 0 in 64 bits */
    for (uint32_t i = 0; i < G_N_ELEMENTS(many); i++)
        many[i] = (EchPlanItem){0, 4, (UINT64_C(1) << 60) - 256, 0, i / 4, ALONE};
    ck_assert_ptr_null(ech_plan_new("greedy", many, G_N_ELEMENTS(many), 0, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    g_autoptr(EchPlan) none = plan_of("exact:time_limit=1000s", NULL, 0);
    ck_assert(none->fits && none->proved_optimal && none->height == 0);
}
END_TEST

START_TEST(capacity_is_a_result)
{
    const EchPlanItem items[] = {{0, 5, 10, 0, 0, ALONE}, {0, 5, 20, 0, 0, ALONE}};
    g_autoptr(EchPlan) plan = ech_plan_new("exact:time_limit=1000s", items, 2, 29, NULL), fits = ech_plan_new("exact:time_limit=1000s", items, 2, 30, NULL);
    ck_assert(!plan->fits && plan->proved_optimal);
    ck_assert(fits->fits);
}
END_TEST

/* Nothing fits below the second multiple of the large alignment, 10^10 times the bound: proved in a few steps, not one height after the other. */
START_TEST(bounds_far_too_low_are_left_behind)
{
    const uint64_t far = UINT64_C(437707602822);
    const EchPlanItem items[] = {{0, 9, 6, 152, 0, ALONE}, {0, 9, 16, far, 0, ALONE}, {0, 9, 16, far, 0, ALONE}, {0, 9, 9, 1, 0, ALONE}};
    g_autoptr(EchPlan) plan = ech_plan_new("exact:step_limit=10000,time_limit=1000s", items, G_N_ELEMENTS(items), 0, NULL);
    ck_assert(plan->proved_optimal);
    ck_assert_uint_eq(plan->height, far + 16);
}
END_TEST

START_TEST(csv_is_read_in_any_column_order)
{
    const char text[] = "\xef\xbb\xbfsize, id ,upper,lower,alignment,junk\r\n16,a,4,0,8,x\n\n32,\"b,c\",9,-3,,\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchMinimalloc) table = ech_minimalloc_parse(text, sizeof text - 1, "t.csv", &error);
    ck_assert_ok(table != NULL, error);
    ck_assert_uint_eq(table->n, 2);
    ck_assert_str_eq(table->rows[0].id, "a");
    ck_assert_uint_eq(table->rows[0].alignment, 8);
    ck_assert_str_eq(table->rows[1].id, "b,c");
    ck_assert_int_eq(table->rows[1].lower, -3);
    ck_assert_uint_eq(table->rows[1].offset, ECH_OFFSET_NONE);
}
END_TEST

/* A buffer that is away from 2 to 6 but for its lowest 4 bytes: another of 12 fits above them. */
START_TEST(gaps_become_pieces)
{
    const char text[] = "id,lower,upper,size,gaps\na,0,9,16,2-6@0:4\nb,2,6,12,\nc,7,9,1,\n";
    g_autoptr(EchMinimalloc) table = ech_minimalloc_parse(text, sizeof text - 1, "t.csv", NULL);
    ck_assert_ptr_nonnull(table);
    g_autoptr(GArray) items = ech_minimalloc_items(table);
    ck_assert_uint_eq(items->len, 5);
    g_autoptr(EchPlan) plan = plan_of("exact:time_limit=1000s", (const EchPlanItem *)(const void *)items->data, items->len);
    ck_assert_uint_eq(plan->lower_bound, 17);
    ck_assert_uint_eq(plan->height, 17);
    ck_assert_uint_eq(plan->offsets[0], plan->offsets[4]);
}
END_TEST

static const BadSpec bad_csvs[] = {
    {"", "t.csv: empty; expected a header id,lower,upper,size"},
    {"a,b\n", "t.csv:1: 'a,b' is not a header; expected id,lower,upper,size"},
    {"id,lower,upper,size\nx,1,0,4\n", "t.csv:2: '0' is not an end; expected a whole number at least as large as 'lower' in column 'upper'"},
    {"id,lower,upper,size\nx,1,2,4k\n", "t.csv:2: '4k' is not a size; expected a whole number of bytes, at most 2^60, in column 'size'"},
    {"id,lower,upper,size\nx,1,2,1152921504606846977\n",
     "t.csv:2: '1152921504606846977' is not a size; expected a whole number of bytes, at most 2^60, in column 'size'"},
    {"id,lower,upper,size\nx,1\n", "t.csv:2: '' is not an end; expected a whole number at least as large as 'lower' in column 'upper'"},
    {"id,lower,upper,size,gaps\nx,1,9,4,2-10\n", "t.csv:2: '2-10' is not a gap inside the buffer's life and size; expected something like 3-7 or 3-7@0:512"},
    {"id,lower,upper,size\nx,99999999999999999999,9,4\n", "t.csv:2: '99999999999999999999' is not a time; expected a whole number in column 'lower'"},
};

START_TEST(bad_csv_says_where)
{
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_minimalloc_parse(bad_csvs[_i].spec, strlen(bad_csvs[_i].spec), "t.csv", &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_PARSE));
    ck_assert_str_eq(error->message, bad_csvs[_i].message);
}
END_TEST

START_TEST(csv_written_reads_back)
{
    const EchMinimallocCsvRow rows[] = {{"a", 0, 5, 100, 16, 48, 0, NULL}, {"x \"y\", z", -4, 5, 7, 0, 12, 1, NULL}};
    g_autoptr(GString) out = g_string_new(NULL), heaps = g_string_new(NULL);
    ech_minimalloc_csv_print(out, rows, 2, true, false);
    g_autoptr(EchMinimalloc) table = ech_minimalloc_parse(out->str, out->len, "t.csv", NULL);
    ck_assert_uint_eq(table->n, 2);
    ck_assert_uint_eq(table->rows[0].offset, 48);
    ck_assert_int_eq(table->rows[1].lower, -4);
    ech_minimalloc_csv_print(heaps, rows, 2, false, true);
    ck_assert_str_eq(heaps->str, "id,lower,upper,size,offset\na,0,5,100,H0+48\n\"x \"\"y\"\", z\",-4,5,7,H1+12\n");
    g_autoptr(EchMinimalloc) again = ech_minimalloc_parse(heaps->str, heaps->len, "t.csv", NULL);
    ck_assert_ptr_nonnull(again);
    ck_assert_uint_eq(again->rows[0].offset, ECH_OFFSET_NONE);
    ck_assert_str_eq(again->rows[1].id, rows[1].id);
}
END_TEST

/* Two of one life stack unless that spoils an alignment; equal sizes that follow each other chain; shapes of their own stay. */
START_TEST(coarse_problems_stack_and_chain)
{
    const EchBar bars[] = {{0, 4, 10, 1, false}, {0, 4, 6, 4, false}, {4, 9, 16, 1, false}, {0, 4, 10, 1, true}, {9, 12, 16, 8, false}, {4, 9, 3, 1, false}};
    EchBar stacked[6], chained[6];
    EchBarPlace places[6], steps[6];
    size_t n = ech_coarsen_stack(bars, 6, stacked, places);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(places[1].above, 0); /* the aligned one at the bottom */
    ck_assert_uint_eq(places[0].above, 6);
    ck_assert_uint_eq(places[0].bar, places[1].bar);
    ck_assert_uint_eq(stacked[places[0].bar].bytes, 16);
    ck_assert_uint_eq(stacked[places[0].bar].alignment, 4);
    ck_assert_uint_eq(places[2].above, 0);
    ck_assert_uint_eq(places[5].above, 16);
    ck_assert(stacked[places[3].bar].fixed);
    ck_assert_uint_eq(stacked[places[3].bar].bytes, 10);
    n = ech_coarsen_chain(bars, 6, chained, steps);
    ck_assert_uint_eq(n, 5);
    ck_assert_uint_eq(steps[2].bar, steps[4].bar);
    ck_assert_int_eq(chained[steps[2].bar].begin, 4);
    ck_assert_int_eq(chained[steps[2].bar].end, 12);
    ck_assert_uint_eq(chained[steps[2].bar].alignment, 8);
    const EchBar odd[] = {{0, 4, 10, 8, false}, {0, 4, 6, 4, false}, {0, 4, 16, 8, false}};
    n = ech_coarsen_stack(odd, 3, stacked, places); /* 16, then 10 on it; 6 not: 26 is no multiple of 4 */
    ck_assert_uint_eq(n, 2);
    ck_assert_uint_eq(places[0].above, 16);
    ck_assert_uint_ne(places[1].bar, places[0].bar);
}
END_TEST

/* Members of a co-location share a heap, not only an offset. */
START_TEST(groups_share_a_heap)
{
    const EchPlanItem items[] = {{0, 4, 10, 0, 0, 7}, {0, 4, 10, 0, 0, 7}};
    uint64_t offsets[] = {0, 0};
    uint32_t together[] = {1, 1}, apart[] = {0, 1}, colours[] = {0, 0};
    EchBytes one[] = {0, 10}, two[] = {10, 10};
    EchPlan plan = {
        .n = 2, .offsets = offsets, .heaps = together, .n_heaps = 2, .heap_bytes = one, .heap_colours = colours, .height = 10, .lower_bound = 10, .fits = true};
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_plan_check(items, 2, &plan, &error), error);
    plan.heaps = apart;
    plan.heap_bytes = two;
    plan.height = 20;
    ck_assert(!ech_plan_check(items, 2, &plan, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "must share an offset"));
}
END_TEST

static EchPlanItem *many_items(size_t n)
{
    EchPlanItem *items = g_new(EchPlanItem, n);
    uint64_t draws = ech_test_seed_of(0);
    for (size_t i = 0; i < n; i++) {
        int64_t begin = (int64_t)(ech_test_draw(&draws) % 500);
        items[i] = (EchPlanItem){begin, begin + 1 + (int64_t)(ech_test_draw(&draws) % 100), 1 + ech_test_draw(&draws) % 997, 0, 0, ALONE};
    }
    return items;
}

/* What no search is begun for is not said to have taken its time. */
START_TEST(too_large_is_not_out_of_time)
{
    enum { ITEMS = 3000 };
    g_autofree EchPlanItem *items = many_items(ITEMS);
    g_autoptr(EchPlan) plan = ech_plan_new("exact", items, ITEMS, 0, NULL), greedy = ech_plan_new("greedy", items, ITEMS, 0, NULL);
    ck_assert(plan->too_large && !plan->out_of_time && !plan->proved_optimal && plan->height > plan->lower_bound);
    ck_assert_uint_eq(plan->height, greedy->height);
}
END_TEST

/* A search ends at its time, whose unit is the picosecond: one that took it for another would be here for quarters of an hour. */
START_TEST(searches_end_at_their_time)
{
    enum { ITEMS = 2000 };
    g_autofree EchPlanItem *items = many_items(ITEMS);
    g_autoptr(EchPlan) plan = ech_plan_new("exact:time_limit=1ms", items, ITEMS, 0, NULL);
    ck_assert(plan->out_of_time && !plan->proved_optimal && plan->height > plan->lower_bound);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_plan_check(items, ITEMS, plan, &error), error);
}
END_TEST

static uint64_t told_n, told_done, told_total;

static void note_progress(uint64_t done, uint64_t total)
{
    ck_assert_msg(done > told_done && done <= total, "%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT, done, total);
    told_n++;
    told_done = done;
    told_total = total;
}

/* How far XLA's heaps are, which may take minutes, is told: of both passes where there are two. */
START_TEST(placements_are_counted)
{
    enum { ITEMS = 2000 };
    g_autofree EchPlanItem *items = many_items(ITEMS);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchPlanner) planner = ech_planner_new(_i ? "xla:algorithm=best" : "xla:algorithm=fast_merge", &error);
    told_n = told_done = 0;
    ech_planner_tell(planner, note_progress);
    g_autoptr(EchPlan) plan = ech_planner_run(planner, items, ITEMS, 0, &error);
    ck_assert_ok(plan != NULL, error);
    ck_assert_uint_eq(told_total, _i ? 2 * ITEMS : ITEMS);
    ck_assert_msg(told_n >= 5 && told_total - told_done < 256, "told %" G_GUINT64_FORMAT " times, of %" G_GUINT64_FORMAT " last", told_n, told_done);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_add_test(tests, coarse_problems_stack_and_chain);
    tcase_add_test(tests, spatial_reuses_a_gap);
    tcase_add_test(tests, best_fit_takes_the_tightest_gap);
    tcase_add_test(tests, fast_heap_joins_the_top);
    tcase_add_test(tests, groups_share_and_get_the_largest_room);
    tcase_add_test(tests, limits_open_heaps);
    tcase_add_test(tests, groups_share_a_heap);
    tcase_add_test(tests, too_large_is_not_out_of_time);
    tcase_add_test(tests, searches_end_at_their_time);
    tcase_add_loop_test(tests, placements_are_counted, 0, 2);
    tcase_add_test(tests, fast_split_splits_once);
    tcase_add_test(tests, members_take_the_largest_room);
    tcase_add_test(tests, alignments_that_share_little);
    tcase_add_test(tests, colours_have_their_own_heaps);
    tcase_add_loop_test(tests, specs_say_what_is_wrong, 0, G_N_ELEMENTS(bad_specs));
    tcase_add_test(tests, impossible_items_are_refused);
    tcase_add_test(tests, capacity_is_a_result);
    tcase_add_test(tests, bounds_far_too_low_are_left_behind);
    tcase_add_test(tests, csv_is_read_in_any_column_order);
    tcase_add_test(tests, gaps_become_pieces);
    tcase_add_loop_test(tests, bad_csv_says_where, 0, G_N_ELEMENTS(bad_csvs));
    tcase_add_test(tests, csv_written_reads_back);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
