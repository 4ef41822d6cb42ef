#include "models/alloc/coarsen.h"

#include "sim/base/compare.h"

#include <stdlib.h>

typedef struct {
    EchBar bar;
    uint32_t index;
} Numbered;

static int by_index(const Numbered *x, const Numbered *y)
{
    return (x->index > y->index) - (x->index < y->index);
}

static int by_life(const void *a, const void *b)
{
    const Numbered *x = a, *y = b;
    int order = ech_compare_i64(&x->bar.begin, &y->bar.begin);
    order = order ? order : ech_compare_i64(&x->bar.end, &y->bar.end);
    order = order ? order : ech_compare_u64(&y->bar.alignment, &x->bar.alignment);
    order = order ? order : ech_compare_u64(&y->bar.bytes, &x->bar.bytes);
    return order ? order : by_index(x, y);
}

/* Powers of two go together: the larger is a multiple of the smaller. */
static EchBytes alignment_class(EchBytes alignment)
{
    return (alignment & (alignment - 1)) == 0 ? 1 : alignment;
}

static int by_kind(const Numbered *x, const Numbered *y)
{
    int order = ech_compare_u64(&x->bar.bytes, &y->bar.bytes);
    EchBytes mine = alignment_class(x->bar.alignment), other = alignment_class(y->bar.alignment);
    return order ? order : ech_compare_u64(&mine, &other);
}

static int by_kind_and_begin(const void *a, const void *b)
{
    const Numbered *x = a, *y = b;
    int order = by_kind(x, y);
    order = order ? order : ech_compare_i64(&x->bar.begin, &y->bar.begin);
    return order ? order : by_index(x, y);
}

static int by_kind_and_end(const void *a, const void *b)
{
    const Numbered *x = a, *y = b;
    int order = by_kind(x, y);
    order = order ? order : ech_compare_i64(&x->bar.end, &y->bar.end);
    return order ? order : by_index(x, y);
}

/* Those that may be merged, numbered; the rest becomes bars at once. */
static size_t separate(const EchBar *bars, size_t n, Numbered *ret_free, EchBar *ret_bars, EchBarPlace *ret_places, size_t *ret_n_bars)
{
    size_t n_free = 0;
    *ret_n_bars = 0;
    for (size_t i = 0; i < n; i++) {
        if (bars[i].fixed) {
            ret_places[i] = (EchBarPlace){(uint32_t)*ret_n_bars, 0};
            ret_bars[(*ret_n_bars)++] = bars[i];
        } else {
            ret_free[n_free++] = (Numbered){bars[i], (uint32_t)i};
        }
    }
    return n_free;
}

size_t ech_coarsen_stack(const EchBar *bars, size_t n, EchBar *ret_bars, EchBarPlace *ret_places)
{
    g_autofree Numbered *items = g_new(Numbered, n + 1);
    size_t n_bars, n_items = separate(bars, n, items, ret_bars, ret_places, &n_bars);
    qsort(items, n_items, sizeof *items, by_life);
    EchBar *top = NULL;
    for (size_t i = 0; i < n_items; i++) {
        const EchBar *bar = &items[i].bar;
        bool joins = top && top->begin == bar->begin && top->end == bar->end && top->alignment % bar->alignment == 0 && top->bytes % bar->alignment == 0 &&
                     bar->bytes <= (UINT64_C(1) << 60) - MIN(top->bytes, UINT64_C(1) << 60);
        if (!joins) {
            top = &ret_bars[n_bars++];
            *top = *bar;
            top->bytes = 0;
        }
        ret_places[items[i].index] = (EchBarPlace){(uint32_t)(top - ret_bars), top->bytes};
        top->bytes += bar->bytes;
    }
    return n_bars;
}

size_t ech_coarsen_chain(const EchBar *bars, size_t n, EchBar *ret_bars, EchBarPlace *ret_places)
{
    g_autofree Numbered *begins = g_new(Numbered, n + 1), *ends = g_new(Numbered, n + 1);
    size_t n_bars, n_items = separate(bars, n, begins, ret_bars, ret_places, &n_bars);
    for (size_t i = 0; i < n_items; i++)
        ends[i] = begins[i];
    qsort(begins, n_items, sizeof *begins, by_kind_and_begin);
    qsort(ends, n_items, sizeof *ends, by_kind_and_end);
    g_autofree uint32_t *next = g_new(uint32_t, n + 1); /* who follows */
    g_autofree bool *follows = g_new0(bool, n + 1);
    for (size_t i = 0; i < n; i++)
        next[i] = UINT32_MAX;
    for (size_t b = 0, e = 0; b < n_items && e < n_items;) {
        int order = by_kind(&ends[e], &begins[b]);
        order = order ? order : ech_compare_i64(&ends[e].bar.end, &begins[b].bar.begin);
        if (order == 0) {
            next[ends[e].index] = begins[b].index;
            follows[begins[b].index] = true;
            b++;
            e++;
        } else if (order < 0) {
            e++;
        } else {
            b++;
        }
    }
    for (size_t i = 0; i < n_items; i++) {
        uint32_t at = begins[i].index;
        if (follows[at])
            continue;
        EchBar *bar = &ret_bars[n_bars];
        *bar = bars[at];
        for (; at != UINT32_MAX; at = next[at]) {
            ret_places[at] = (EchBarPlace){(uint32_t)n_bars, 0};
            bar->end = bars[at].end;
            bar->alignment = MAX(bar->alignment, bars[at].alignment);
        }
        n_bars++;
    }
    return n_bars;
}
