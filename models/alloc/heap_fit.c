#include "models/alloc/heap_fit.h"

#include "sim/base/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENDLESS UINT64_MAX
enum { LEAF_GAPS = 32, LEAF_FIRST = 2 };

/** A free gap [lo, hi). */
typedef struct {
    uint64_t lo, hi;
} Gap;

/** Some neighbouring gaps of a set. */
typedef struct {
    Gap *gaps;     /**< gaps[n], ascending; n >= 1 */
    uint64_t end;  /**< hi of the last */
    EchBytes most; /**< that one of them holds at the heap's alignment */
    uint32_t n, room;
} Leaf;

/** Disjoint free gaps, ascending, each of use; the last is endless. Without leaves everything is free. */
typedef struct {
    Leaf *leaves;
    uint32_t n, room;
    uint32_t n_gaps;
} Gaps;

/** A buffer in the heap. */
typedef struct {
    uint64_t lo, hi;
    EchFitSpan span;
} Use;

typedef struct {
    Use *uses;
    uint32_t n, room;
} Uses;

struct EchFitHeap {
    uint32_t n_slots, block_slots, n_blocks;
    uint32_t n_leaves; /**< of the tree over blocks: a power of two, at least n_blocks */
    EchBytes smallest;
    uint64_t alignment;
    Gaps *uncovered; /**< uncovered[n_blocks]: not used during the whole block */
    Uses *born;      /**< born[n_blocks]: begin in the block */
    Uses *dead;      /**< dead[n_blocks]: end in the block, having begun before it */
    Gaps *untouched; /**< untouched[node]: not used at any time of the node's blocks; children of a node are 2 node and 2 node + 1 */
    /* Of a query: */
    const Gaps **sets; /**< sets whose gaps are to be met, */
    size_t n_sets, room_sets;
    Gap *found, *before; /**< gaps free in all those looked at so far; in those before, */
    size_t n_found, room_found, room_before;
    Gap *cuts; /**< and what is used beside them */
    size_t n_cuts, room_cuts;
};

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    if ((alignment & (alignment - 1)) == 0)
        return (value + alignment - 1) & ~(alignment - 1);
    uint64_t rest = value % alignment;
    return rest ? value + (alignment - rest) : value;
}

/** Bytes from the aligned start of [lo, hi) to its end. */
static EchBytes room_in(uint64_t lo, uint64_t hi, uint64_t alignment)
{
    uint64_t start = align_up(lo, alignment);
    return start < hi ? hi - start : 0;
}

EchFitHeap *ech_fit_heap_new(uint32_t n_slots, uint64_t mean_span, EchBytes smallest, uint64_t alignment)
{
    EchFitHeap *heap = g_new0(EchFitHeap, 1);
    heap->n_slots = MAX(n_slots, 1);
    heap->smallest = MAX(smallest, 1);
    heap->alignment = MAX(alignment, 1);
    /* A buffer is noted in span / block sets; a query looks at about three blocks' buffers one by one. An entry costs some dozen looks. */
    heap->block_slots = (uint32_t)CLAMP(sqrt(12 * (double)mean_span), 16, 1 << 16);
    heap->n_blocks = (heap->n_slots - 1) / heap->block_slots + 1;
    heap->n_leaves = 1;
    while (heap->n_leaves < heap->n_blocks)
        heap->n_leaves *= 2;
    heap->uncovered = g_new0(Gaps, heap->n_blocks);
    heap->born = g_new0(Uses, heap->n_blocks);
    heap->dead = g_new0(Uses, heap->n_blocks);
    heap->untouched = g_new0(Gaps, (size_t)heap->n_leaves * 2);
    return heap;
}

static void gaps_clear(Gaps *set)
{
    for (uint32_t l = 0; l < set->n; l++)
        g_free(set->leaves[l].gaps);
    g_free(set->leaves);
}

void ech_fit_heap_free(EchFitHeap *heap)
{
    if (!heap)
        return;
    for (uint32_t b = 0; b < heap->n_blocks; b++) {
        gaps_clear(&heap->uncovered[b]);
        g_free(heap->born[b].uses);
        g_free(heap->dead[b].uses);
    }
    for (size_t i = 0; i < (size_t)heap->n_leaves * 2; i++)
        gaps_clear(&heap->untouched[i]);
    g_free(heap->uncovered);
    g_free(heap->born);
    g_free(heap->dead);
    g_free(heap->untouched);
    g_free(heap->sets);
    g_free(heap->found);
    g_free(heap->before);
    g_free(heap->cuts);
    g_free(heap);
}

/* Changing a set */

static void sum_up_leaf(const EchFitHeap *heap, Leaf *leaf)
{
    leaf->end = leaf->gaps[leaf->n - 1].hi;
    leaf->most = 0;
    for (uint32_t k = 0; k < leaf->n; k++)
        leaf->most = MAX(leaf->most, room_in(leaf->gaps[k].lo, leaf->gaps[k].hi, heap->alignment));
}

/** Makes a place for a leaf at @at. */
static Leaf *insert_leaf(Gaps *set, uint32_t at)
{
    if (set->n == set->room) {
        set->room = set->room ? set->room * 2 : 1;
        set->leaves = g_renew(Leaf, set->leaves, set->room);
    }
    memmove(set->leaves + at + 1, set->leaves + at, (set->n - at) * sizeof *set->leaves);
    set->n++;
    set->leaves[at] = (Leaf){0};
    return &set->leaves[at];
}

static void make_room(Leaf *leaf, uint32_t room)
{
    if (room <= leaf->room)
        return;
    while (leaf->room < room)
        leaf->room = leaf->room ? leaf->room * 2 : LEAF_FIRST;
    leaf->gaps = g_renew(Gap, leaf->gaps, leaf->room);
}

static void split_leaf(const EchFitHeap *heap, Gaps *set, uint32_t at)
{
    Leaf *right = insert_leaf(set, at + 1), *left = &set->leaves[at];
    right->n = left->n / 2;
    left->n -= right->n;
    make_room(right, LEAF_GAPS);
    memcpy(right->gaps, left->gaps + left->n, right->n * sizeof *right->gaps);
    sum_up_leaf(heap, left);
    sum_up_leaf(heap, right);
}

/** The first leaf at or after @from that ends above @at, which is not endless: doubling steps, then halving. */
static uint32_t leaf_above(const Gaps *set, uint32_t from, uint64_t at)
{
    uint32_t low = from, step = 1;
    while (low + step < set->n && set->leaves[low + step].end <= at) {
        low += step;
        step *= 2;
    }
    uint32_t high = MIN(low + step, set->n - 1);
    ECH_SEARCH(low, high, middle, set->leaves[middle].end <= at);
    return low;
}

/** The first gap of @leaf that ends above @at; there is one. */
static uint32_t gap_above(const Leaf *leaf, uint64_t at)
{
    uint32_t low = 0, n = leaf->n;
    while (n > 1) {
        uint32_t half = n / 2;
        low += half & -(uint32_t)(leaf->gaps[low + half - 1].hi <= at); /* Without a branch: it would often be mispredicted. */
        n -= half;
    }
    return low;
}

/** Takes [lo, hi) out of the gaps of leaf @at, which meet it from number @first on. Returns false when that leaves none. */
static bool take_from_leaf(const EchFitHeap *heap, Gaps *set, uint32_t at, uint32_t first, uint64_t lo, uint64_t hi)
{
    Leaf *leaf = &set->leaves[at];
    uint32_t last = first; /* gaps [first, last) give way to what is left of them */
    EchBytes lost = 0;
    for (; last < leaf->n && leaf->gaps[last].lo < hi; last++)
        lost = MAX(lost, room_in(leaf->gaps[last].lo, leaf->gaps[last].hi, heap->alignment));
    if (last == first)
        return true;
    Gap pieces[2];
    uint32_t n = 0;
    if (leaf->gaps[first].lo < lo && room_in(leaf->gaps[first].lo, lo, heap->alignment) >= heap->smallest)
        pieces[n++] = (Gap){leaf->gaps[first].lo, lo};
    if (leaf->gaps[last - 1].hi > hi && room_in(hi, leaf->gaps[last - 1].hi, heap->alignment) >= heap->smallest)
        pieces[n++] = (Gap){hi, leaf->gaps[last - 1].hi};
    if (leaf->n - (last - first) + n > leaf->room)
        make_room(leaf, leaf->n - (last - first) + n);
    if (n != last - first)
        memmove(leaf->gaps + first + n, leaf->gaps + last, (leaf->n - last) * sizeof *leaf->gaps);
    memcpy(leaf->gaps + first, pieces, n * sizeof *pieces);
    leaf->n = leaf->n - (last - first) + n;
    set->n_gaps = set->n_gaps - (last - first) + n;
    if (leaf->n == 0)
        return false;
    leaf->end = leaf->gaps[leaf->n - 1].hi;
    if (lost == leaf->most)
        sum_up_leaf(heap, leaf);
    return true;
}

/** Takes [lo, hi) out of the set. What is left of a gap and holds nothing of use goes too. */
static void take(const EchFitHeap *heap, Gaps *set, uint64_t lo, uint64_t hi)
{
    if (set->n == 0) {
        Leaf *leaf = insert_leaf(set, 0);
        make_room(leaf, LEAF_FIRST);
        leaf->gaps[leaf->n++] = (Gap){0, ENDLESS};
        sum_up_leaf(heap, leaf);
        set->n_gaps = 1;
    }
    uint32_t at = leaf_above(set, 0, lo);
    if (set->leaves[at].n == LEAF_GAPS) {
        split_leaf(heap, set, at);
        at = leaf_above(set, at, lo);
    }
    uint32_t first = gap_above(&set->leaves[at], lo);
    if (set->leaves[at].gaps[first].lo >= hi)
        return;
    uint32_t emptied = at, n_emptied = 0;
    for (; at < set->n && set->leaves[at].gaps[first].lo < hi; at++, first = 0) {
        if (take_from_leaf(heap, set, at, first, lo, hi))
            continue;
        if (n_emptied++ == 0)
            emptied = at;
        g_free(set->leaves[at].gaps);
    }
    if (n_emptied == 0)
        return;
    memmove(set->leaves + emptied, set->leaves + emptied + n_emptied, (set->n - emptied - n_emptied) * sizeof *set->leaves);
    set->n -= n_emptied;
}

static void add_use(Uses *uses, Use use)
{
    if (uses->n == uses->room) {
        uses->room = uses->room ? uses->room * 2 : 8;
        uses->uses = g_renew(Use, uses->uses, uses->room);
    }
    uses->uses[uses->n++] = use;
}

void ech_fit_heap_use(EchFitHeap *heap, EchFitSpan span, uint64_t offset, EchBytes bytes)
{
    g_assert(span.begin < span.end && span.end <= heap->n_slots);
    if (!bytes)
        return;
    Use use = {offset, offset + bytes, span};
    uint32_t first = span.begin / heap->block_slots, last = (span.end - 1) / heap->block_slots;
    uint32_t end = span.end == heap->n_slots ? heap->n_blocks : span.end / heap->block_slots;
    add_use(&heap->born[first], use);
    if (last > first)
        add_use(&heap->dead[last], use);
    for (uint32_t b = first + (span.begin % heap->block_slots > 0); b < end; b++)
        take(heap, &heap->uncovered[b], use.lo, use.hi);
    for (uint32_t low = heap->n_leaves + first, high = heap->n_leaves + last; low > 1; low /= 2, high /= 2)
        for (uint32_t node = low; node <= high; node++)
            take(heap, &heap->untouched[node], use.lo, use.hi);
}

/* Asking */

static void add_set(EchFitHeap *heap, const Gaps *set)
{
    if (!set->n)
        return;
    if (heap->n_sets == heap->room_sets) {
        heap->room_sets = heap->room_sets ? heap->room_sets * 2 : 64;
        heap->sets = g_renew(const Gaps *, heap->sets, heap->room_sets);
    }
    heap->sets[heap->n_sets++] = set;
}

static void add_cuts(EchFitHeap *heap, const Uses *uses, EchFitSpan span)
{
    if (heap->n_cuts + uses->n > heap->room_cuts) {
        heap->room_cuts = (heap->n_cuts + uses->n) * 2;
        heap->cuts = g_renew(Gap, heap->cuts, heap->room_cuts);
    }
    for (uint32_t i = 0; i < uses->n; i++) {
        const Use *use = &uses->uses[i];
        heap->cuts[heap->n_cuts] = (Gap){use->lo, use->hi};
        heap->n_cuts += use->span.begin < span.end && use->span.end > span.begin;
    }
}

/** Everything that is used at some time of @span: in the first block what begins or ends there, in the last what begins there; in all those
 * between anything, or where there are none what lives through the first. */
static void add_span(EchFitHeap *heap, EchFitSpan span)
{
    uint32_t first = span.begin / heap->block_slots, last = (span.end - 1) / heap->block_slots;
    add_cuts(heap, &heap->born[first], span);
    add_cuts(heap, &heap->dead[first], span);
    if (last > first)
        add_cuts(heap, &heap->born[last], span);
    if (last < first + 2)
        add_set(heap, &heap->uncovered[first]);
    for (uint32_t low = heap->n_leaves + first + 1, high = heap->n_leaves + last; low < high; low /= 2, high /= 2) {
        if (low % 2)
            add_set(heap, &heap->untouched[low++]);
        if (high % 2)
            add_set(heap, &heap->untouched[--high]);
    }
}

static void make_found_room(EchFitHeap *heap, size_t more)
{
    if (heap->n_found + more <= heap->room_found)
        return;
    heap->room_found = (heap->n_found + more) * 2;
    heap->found = g_renew(Gap, heap->found, heap->room_found);
}

/** Adds [lo, hi) to what was found if it holds @bytes; there is room. A branch would often be mispredicted here. */
static void add_found(EchFitHeap *heap, uint64_t lo, uint64_t hi, EchBytes bytes, uint64_t alignment)
{
    heap->found[heap->n_found] = (Gap){lo, hi};
    heap->n_found += room_in(lo, hi, alignment) >= bytes;
}

/** The gaps of @set that hold @bytes. */
static void find_in(EchFitHeap *heap, const Gaps *set, EchBytes bytes, uint64_t alignment)
{
    make_found_room(heap, set->n_gaps + 1);
    for (uint32_t l = 0; l < set->n; l++)
        for (uint32_t k = 0; set->leaves[l].most >= bytes && k < set->leaves[l].n; k++)
            add_found(heap, set->leaves[l].gaps[k].lo, set->leaves[l].gaps[k].hi, bytes, alignment);
}

/** What was found before and is free in @set too. */
static void meet(EchFitHeap *heap, const Gaps *set, size_t n, EchBytes bytes, uint64_t alignment)
{
    make_found_room(heap, n + set->n_gaps + 1);
    uint32_t at = 0, k = 0;
    for (size_t i = 0; i < n; i++) {
        Gap gap = heap->before[i];
        if (set->leaves[at].end <= gap.lo) {
            at = leaf_above(set, at, gap.lo);
            k = gap_above(&set->leaves[at], gap.lo);
        }
        for (;;) {
            const Leaf *leaf = &set->leaves[at];
            while (leaf->gaps[k].hi <= gap.lo)
                k++;
            for (; k < leaf->n && leaf->gaps[k].lo < gap.hi; k++) {
                add_found(heap, MAX(leaf->gaps[k].lo, gap.lo), MIN(leaf->gaps[k].hi, gap.hi), bytes, alignment);
                if (leaf->gaps[k].hi >= gap.hi)
                    break; /* It may reach into the next. */
            }
            if (k < leaf->n || at + 1 == set->n)
                break;
            at++;
            k = 0;
        }
    }
}

static int compare_sets(const void *a, const void *b)
{
    const Gaps *left = *(const Gaps *const *)a, *right = *(const Gaps *const *)b;
    return left->n_gaps != right->n_gaps ? (left->n_gaps > right->n_gaps) - (left->n_gaps < right->n_gaps) : (left > right) - (left < right);
}

/** The gaps that are free in all sets at once and hold @bytes. */
static void meet_all(EchFitHeap *heap, EchBytes bytes, uint64_t alignment)
{
    heap->n_found = 0;
    if (heap->n_sets == 0) {
        make_found_room(heap, 1);
        add_found(heap, 0, ENDLESS, bytes, alignment);
        return;
    }
    if (heap->n_sets > 1)
        qsort(heap->sets, heap->n_sets, sizeof *heap->sets, compare_sets);
    find_in(heap, heap->sets[0], bytes, alignment);
    for (size_t i = 1; i < heap->n_sets; i++) {
        Gap *found = heap->found;
        size_t room = heap->room_found, n = heap->n_found;
        heap->found = heap->before;
        heap->room_found = heap->room_before;
        heap->before = found;
        heap->room_before = room;
        heap->n_found = 0;
        meet(heap, heap->sets[i], n, bytes, alignment);
    }
}

static int compare_gaps(const void *a, const void *b)
{
    const Gap *left = a, *right = b;
    return (left->lo > right->lo) - (left->lo < right->lo);
}

/** Of the cuts those that meet a gap found, ascending. Few do. */
static void sort_cuts(EchFitHeap *heap)
{
    size_t kept = 0;
    for (size_t i = 0; i < heap->n_cuts; i++) {
        Gap use = heap->cuts[i];
        size_t first = 0, n = heap->n_found;
        while (n > 1) {
            size_t half = n / 2;
            first += half & -(size_t)(heap->found[first + half - 1].hi <= use.lo);
            n -= half;
        }
        heap->cuts[kept] = use;
        kept += heap->found[first].lo < use.hi;
    }
    heap->n_cuts = kept;
    if (kept > 1)
        qsort(heap->cuts, kept, sizeof *heap->cuts, compare_gaps);
}

typedef struct {
    uint64_t start;
    EchBytes room; /**< ENDLESS: none yet */
} Best;

static void consider(Best *best, uint64_t lo, uint64_t hi, EchBytes bytes, uint64_t alignment)
{
    EchBytes room = room_in(lo, hi, alignment);
    if (hi == ENDLESS)
        room = ENDLESS - 1;
    if (room >= bytes && room < best->room)
        *best = (Best){align_up(lo, alignment), room};
}

uint64_t ech_fit_heap_find(EchFitHeap *heap, const EchFitSpan *spans, size_t n_spans, EchBytes bytes, uint64_t alignment, bool lowest)
{
    heap->n_sets = heap->n_cuts = 0;
    for (size_t i = 0; i < n_spans; i++)
        add_span(heap, spans[i]);
    meet_all(heap, bytes, alignment);
    sort_cuts(heap);
    Best best = {0, ENDLESS};
    uint64_t reach = 0; /* Cuts so far end here. */
    size_t next = 0;
    for (size_t i = 0; i < heap->n_found && !(lowest && best.room < ENDLESS); i++) {
        Gap gap = heap->found[i];
        uint64_t lo = MAX(gap.lo, reach);
        for (; next < heap->n_cuts && heap->cuts[next].lo < gap.hi; next++) {
            if (heap->cuts[next].lo > lo && !(lowest && best.room < ENDLESS))
                consider(&best, lo, heap->cuts[next].lo, bytes, alignment);
            reach = MAX(reach, heap->cuts[next].hi);
            lo = MAX(lo, reach);
        }
        if (lo < gap.hi && !(lowest && best.room < ENDLESS))
            consider(&best, lo, gap.hi, bytes, alignment);
    }
    return best.start;
}
