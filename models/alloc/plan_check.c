#include "models/alloc/plan.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"

/* Items of a heap are taken from the lowest offset up. A segment tree over time knows, for every instant, the highest end of the items
 * taken so far and whose it is; an item is legal if no instant of its life has an end above its offset. Shares nothing with planners. */

typedef struct {
    uint32_t index, heap, colour, colocation;
    uint64_t offset;
} Row;

typedef struct {
    uint64_t top;
    uint32_t owner;
} Top;

typedef struct {
    Top *all;  /* all[node]: highest over the node's time */
    Top *over; /* over[node]: highest that lasts all of the node's time */
} Skyline;

static int compare_rows(const void *a, const void *b)
{
    const Row *left = a, *right = b;
    if (left->heap != right->heap)
        return left->heap < right->heap ? -1 : 1;
    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    if (left->colocation != right->colocation)
        return left->colocation < right->colocation ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static size_t slot_of(const int64_t *times, size_t n, int64_t time)
{
    size_t low = 0, high = n;
    ECH_SEARCH(low, high, middle, times[middle] < time);
    return low;
}

static Top higher(Top a, Top b)
{
    return b.top > a.top ? b : a;
}

static Top skyline_top(const Skyline *sky, size_t node, size_t low, size_t high, size_t begin, size_t end)
{
    if (begin <= low && high <= end)
        return sky->all[node];
    Top top = sky->over[node];
    size_t middle = low + (high - low) / 2;
    if (begin < middle)
        top = higher(top, skyline_top(sky, node * 2, low, middle, begin, end));
    if (end > middle)
        top = higher(top, skyline_top(sky, node * 2 + 1, middle, high, begin, end));
    return top;
}

static void skyline_raise(Skyline *sky, size_t node, size_t low, size_t high, size_t begin, size_t end, Top top)
{
    sky->all[node] = higher(sky->all[node], top);
    if (begin <= low && high <= end) {
        sky->over[node] = higher(sky->over[node], top);
        return;
    }
    size_t middle = low + (high - low) / 2;
    if (begin < middle)
        skyline_raise(sky, node * 2, low, middle, begin, end, top);
    if (end > middle)
        skyline_raise(sky, node * 2 + 1, middle, high, begin, end, top);
}

/** Checks the rows of one heap, sorted. */
static bool check_heap(const EchPlanItem *items, const EchPlan *plan, const Row *rows, size_t n, GError **error)
{
    g_autofree int64_t *times = g_new(int64_t, n * 2);
    for (size_t i = 0; i < n; i++) {
        times[i * 2] = items[rows[i].index].begin;
        times[i * 2 + 1] = items[rows[i].index].end;
    }
    qsort(times, n * 2, sizeof *times, ech_compare_i64);
    size_t n_times = 1;
    for (size_t i = 1; i < n * 2; i++) {
        if (times[i] != times[n_times - 1])
            times[n_times++] = times[i];
    }
    size_t nodes = 1;
    while (nodes < n_times)
        nodes *= 2;
    g_autofree Top *all = g_new0(Top, nodes * 2), *over = g_new0(Top, nodes * 2);
    Skyline sky = {all, over};
    EchBytes height = 0;
    for (size_t from = 0, to; from < n; from = to) {
        /* Items of one group and offset may overlap each other: look at all, then add all. */
        for (to = from + 1;
             to < n && rows[to].offset == rows[from].offset && rows[to].colocation == rows[from].colocation && rows[to].colocation != ECH_PLAN_ALONE;)
            to++;
        for (size_t i = from; i < to; i++) {
            const EchPlanItem *item = &items[rows[i].index];
            Top top = skyline_top(&sky, 1, 0, n_times, slot_of(times, n_times, item->begin), slot_of(times, n_times, item->end));
            if (top.top > rows[i].offset) {
                g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "buffers %u and %u live at once and overlap at offset %" G_GUINT64_FORMAT " of heap %u",
                            top.owner, rows[i].index, rows[i].offset, rows[i].heap);
                return false;
            }
        }
        for (size_t i = from; i < to; i++) {
            const EchPlanItem *item = &items[rows[i].index];
            Top top = {rows[i].offset + item->bytes, rows[i].index};
            height = MAX(height, top.top);
            skyline_raise(&sky, 1, 0, n_times, slot_of(times, n_times, item->begin), slot_of(times, n_times, item->end), top);
        }
    }
    /* Items that never live count for the height, as they were given a place. */
    if (height > plan->heap_bytes[rows[0].heap]) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "heap %u reaches %" G_GUINT64_FORMAT " bytes, above the %" G_GUINT64_FORMAT " stated", rows[0].heap,
                    height, plan->heap_bytes[rows[0].heap]);
        return false;
    }
    return true;
}

static int compare_groups(const void *a, const void *b)
{
    const Row *left = a, *right = b;
    if (left->colour != right->colour)
        return left->colour < right->colour ? -1 : 1;
    if (left->colocation != right->colocation)
        return left->colocation < right->colocation ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

bool ech_plan_check(const EchPlanItem *items, size_t n, const EchPlan *plan, GError **error)
{
    if (plan->n != n) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "the plan places %zu buffers; expected %zu", plan->n, n);
        return false;
    }
    g_autofree Row *rows = g_new(Row, n ? n : 1);
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (plan->heaps[i] >= plan->n_heaps || plan->heap_colours[plan->heaps[i]] != items[i].colour) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "buffer %zu lies in heap %u, which is not of its colour %u", i, plan->heaps[i], items[i].colour);
            return false;
        }
        if (items[i].bytes == 0)
            continue;
        if (items[i].alignment > 1 && plan->offsets[i] % items[i].alignment != 0) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "buffer %zu lies at %" G_GUINT64_FORMAT "; expected a multiple of %" G_GUINT64_FORMAT, i,
                        plan->offsets[i], items[i].alignment);
            return false;
        }
        if (plan->offsets[i] + items[i].bytes < plan->offsets[i]) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "buffer %zu at %" G_GUINT64_FORMAT " reaches past 2^64", i, plan->offsets[i]);
            return false;
        }
        rows[n_rows++] = (Row){(uint32_t)i, plan->heaps[i], items[i].colour, items[i].colocation, plan->offsets[i]};
    }
    qsort(rows, n_rows, sizeof *rows, compare_groups);
    for (size_t i = 1; i < n_rows; i++) {
        const Row *left = &rows[i - 1], *right = &rows[i];
        if (left->colour == right->colour && left->colocation == right->colocation && left->colocation != ECH_PLAN_ALONE &&
            (left->offset != right->offset || left->heap != right->heap)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "buffers %u and %u must share an offset; they lie at %" G_GUINT64_FORMAT " and %" G_GUINT64_FORMAT,
                        left->index, right->index, left->offset, right->offset);
            return false;
        }
    }
    size_t n_live = 0;
    for (size_t i = 0; i < n_rows; i++) {
        if (items[rows[i].index].begin < items[rows[i].index].end)
            rows[n_live++] = rows[i];
    }
    qsort(rows, n_live, sizeof *rows, compare_rows);
    EchBytes height = 0;
    for (size_t h = 0; h < plan->n_heaps; h++)
        height += plan->heap_bytes[h];
    if (height != plan->height) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "the plan states %" G_GUINT64_FORMAT " bytes; its heaps sum to %" G_GUINT64_FORMAT, plan->height,
                    height);
        return false;
    }
    for (size_t from = 0, to; from < n_live; from = to) {
        for (to = from; to < n_live && rows[to].heap == rows[from].heap;)
            to++;
        if (!check_heap(items, plan, rows + from, to - from, error))
            return false;
    }
    return true;
}
