#include "models/alloc/heap_fit.h"

#include <string.h>

#define ENDLESS UINT64_MAX

/** A used run [lo, hi). */
typedef struct {
    uint64_t lo, hi;
} Run;

/** Disjoint runs, ascending, with a useful gap between neighbours. */
typedef struct {
    Run *runs;
    uint32_t n, room;
    EchBytes used;
} Runs;

struct EchFitHeap {
    uint32_t n_slots;
    EchBytes smallest;
    uint64_t alignment;
    Runs *touched; /**< touched[node]: used by anything that meets the node's time */
    Runs *covered; /**< covered[node]: used during all of the node's time, as noted at this node */
    const Runs **lists;
    size_t n_lists, room_lists;
    Run *gaps[2];
    size_t room_gaps[2];
};

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    if ((alignment & (alignment - 1)) == 0)
        return (value + alignment - 1) & ~(alignment - 1);
    uint64_t rest = value % alignment;
    return rest ? value + (alignment - rest) : value;
}

/** Whether @bytes fit into [lo, hi) at an aligned start. */
static bool holds(uint64_t lo, uint64_t hi, EchBytes bytes, uint64_t alignment)
{
    uint64_t start = align_up(lo, alignment);
    return start < hi && hi - start >= bytes;
}

EchFitHeap *ech_fit_heap_new(uint32_t n_slots, EchBytes smallest, uint64_t alignment)
{
    EchFitHeap *heap = g_new0(EchFitHeap, 1);
    heap->n_slots = MAX(n_slots, 1);
    heap->smallest = smallest;
    heap->alignment = MAX(alignment, 1);
    size_t nodes = 1;
    while (nodes < heap->n_slots)
        nodes *= 2;
    heap->touched = g_new0(Runs, nodes * 2);
    heap->covered = g_new0(Runs, nodes * 2);
    return heap;
}

void ech_fit_heap_free(EchFitHeap *heap)
{
    if (!heap)
        return;
    size_t nodes = 1;
    while (nodes < heap->n_slots)
        nodes *= 2;
    for (size_t i = 0; i < nodes * 2; i++) {
        g_free(heap->touched[i].runs);
        g_free(heap->covered[i].runs);
    }
    g_free(heap->touched);
    g_free(heap->covered);
    g_free(heap->lists);
    g_free(heap->gaps[0]);
    g_free(heap->gaps[1]);
    g_free(heap);
}

/** Index of the first run at or after @from whose end is above @at: doubling steps, then halving. */
static uint32_t first_above(const Runs *set, uint32_t from, uint64_t at)
{
    uint32_t low = from, step = 1;
    while (low + step < set->n && set->runs[low + step].hi <= at) {
        low += step;
        step *= 2;
    }
    uint32_t high = MIN(low + step + 1, set->n);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->runs[middle].hi > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void add_run(const EchFitHeap *heap, Runs *set, uint64_t lo, uint64_t hi)
{
    uint32_t first = set->n ? first_above(set, 0, lo) : 0;
    if (first < set->n && set->runs[first].lo <= lo && set->runs[first].hi >= hi)
        return;
    if (first > 0 && !holds(set->runs[first - 1].hi, lo, heap->smallest, heap->alignment))
        first--;
    uint32_t last = first; /* runs [first, last) are swallowed */
    while (last < set->n && (set->runs[last].lo <= hi || !holds(hi, set->runs[last].lo, heap->smallest, heap->alignment))) {
        lo = MIN(lo, set->runs[last].lo);
        hi = MAX(hi, set->runs[last].hi);
        set->used -= set->runs[last].hi - set->runs[last].lo;
        last++;
    }
    /* A gap at the bottom that can hold nothing is as good as used. */
    if (first == 0 && !holds(0, lo, heap->smallest, heap->alignment))
        lo = 0;
    set->used += hi - lo;
    if (last > first) {
        set->runs[first] = (Run){lo, hi};
        memmove(set->runs + first + 1, set->runs + last, (set->n - last) * sizeof *set->runs);
        set->n -= last - first - 1;
        return;
    }
    if (set->n == set->room) {
        set->room = set->room ? set->room * 2 : 2;
        set->runs = g_renew(Run, set->runs, set->room);
    }
    if (first < set->n)
        memmove(set->runs + first + 1, set->runs + first, (set->n - first) * sizeof *set->runs);
    set->runs[first] = (Run){lo, hi};
    set->n++;
}

static void use_node(EchFitHeap *heap, size_t node, uint32_t low, uint32_t high, EchFitSpan span, uint64_t lo, uint64_t hi)
{
    add_run(heap, &heap->touched[node], lo, hi);
    if (span.begin <= low && high <= span.end) {
        add_run(heap, &heap->covered[node], lo, hi);
        return;
    }
    uint32_t middle = low + (high - low) / 2;
    if (span.begin < middle)
        use_node(heap, node * 2, low, middle, span, lo, hi);
    if (span.end > middle)
        use_node(heap, node * 2 + 1, middle, high, span, lo, hi);
}

void ech_fit_heap_use(EchFitHeap *heap, EchFitSpan span, uint64_t offset, EchBytes bytes)
{
    g_assert(span.begin < span.end && span.end <= heap->n_slots);
    if (bytes)
        use_node(heap, 1, 0, heap->n_slots, span, offset, offset + bytes);
}

static void add_list(EchFitHeap *heap, const Runs *set)
{
    if (!set->n)
        return;
    if (heap->n_lists == heap->room_lists) {
        heap->room_lists = heap->room_lists ? heap->room_lists * 2 : 64;
        heap->lists = g_renew(const Runs *, heap->lists, heap->room_lists);
    }
    heap->lists[heap->n_lists++] = set;
}

static void find_node(EchFitHeap *heap, size_t node, uint32_t low, uint32_t high, EchFitSpan span)
{
    if (span.begin <= low && high <= span.end) {
        add_list(heap, &heap->touched[node]);
        return;
    }
    if (!heap->touched[node].n)
        return;
    add_list(heap, &heap->covered[node]);
    uint32_t middle = low + (high - low) / 2;
    if (span.begin < middle)
        find_node(heap, node * 2, low, middle, span);
    if (span.end > middle)
        find_node(heap, node * 2 + 1, middle, high, span);
}

static int compare_lists(const void *a, const void *b)
{
    const Runs *left = *(const Runs *const *)a, *right = *(const Runs *const *)b;
    return left->used != right->used ? (left->used > right->used ? -1 : 1) : (left > right) - (left < right);
}

static void add_gap(EchFitHeap *heap, unsigned side, size_t *n, uint64_t lo, uint64_t hi)
{
    if (*n == heap->room_gaps[side]) {
        heap->room_gaps[side] = heap->room_gaps[side] ? heap->room_gaps[side] * 2 : 64;
        heap->gaps[side] = g_renew(Run, heap->gaps[side], heap->room_gaps[side]);
    }
    heap->gaps[side][(*n)++] = (Run){lo, hi};
}

/** Cuts the runs of @set out of the gaps of one side; what still holds @bytes goes to the other side. Returns how many. */
static size_t cut(EchFitHeap *heap, unsigned side, size_t n, const Runs *set, EchBytes bytes, uint64_t alignment)
{
    size_t n_out = 0;
    uint32_t run = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t lo = heap->gaps[side][i].lo, hi = heap->gaps[side][i].hi;
        if (run < set->n && set->runs[run].hi <= lo)
            run = first_above(set, run, lo);
        for (; run < set->n && set->runs[run].lo < hi; run++) {
            if (set->runs[run].lo > lo && holds(lo, set->runs[run].lo, bytes, alignment))
                add_gap(heap, !side, &n_out, lo, set->runs[run].lo);
            lo = MAX(lo, set->runs[run].hi);
            if (lo >= hi)
                break; /* the run may reach into the next gap */
        }
        if (lo < hi && holds(lo, hi, bytes, alignment))
            add_gap(heap, !side, &n_out, lo, hi);
    }
    return n_out;
}

uint64_t ech_fit_heap_find(EchFitHeap *heap, const EchFitSpan *spans, size_t n_spans, EchBytes bytes, uint64_t alignment, bool lowest)
{
    heap->n_lists = 0;
    for (size_t i = 0; i < n_spans; i++)
        find_node(heap, 1, 0, heap->n_slots, spans[i]);
    /* The fullest first: it leaves the fewest gaps for the others to cut. */
    if (heap->n_lists > 1)
        qsort(heap->lists, heap->n_lists, sizeof *heap->lists, compare_lists);
    unsigned side = 0;
    size_t n = 0;
    add_gap(heap, side, &n, 0, ENDLESS);
    for (size_t i = 0; i < heap->n_lists; i++) {
        n = cut(heap, side, n, heap->lists[i], bytes, alignment);
        side = !side;
    }
    uint64_t best = 0, best_room = ENDLESS;
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        Run gap = heap->gaps[side][i];
        uint64_t start = align_up(gap.lo, alignment);
        uint64_t room = gap.hi == ENDLESS ? ENDLESS - 1 : gap.hi - start;
        if (!found || (!lowest && room < best_room)) {
            best = start;
            best_room = room;
            found = true;
        }
        if (lowest)
            break;
    }
    g_assert(found);
    return best;
}
