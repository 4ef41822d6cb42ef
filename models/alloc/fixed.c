#include "models/alloc/fixed.h"

static void end_life(GArray *items, uint32_t *open, uint32_t id, size_t at)
{
    if (open[id])
        g_array_index(items, EchPlanItem, open[id] - 1).end = (int64_t)at;
    open[id] = 0;
}

GArray *ech_alloc_lives(const EchAllocEvent *events, size_t n)
{
    GArray *items = g_array_new(FALSE, FALSE, sizeof(EchPlanItem));
    size_t n_ids = 0;
    for (size_t i = 0; i < n; i++)
        n_ids = events[i].kind == ECH_EVENT_ALLOC ? MAX(n_ids, (size_t)events[i].id + 1) : n_ids;
    g_autofree uint32_t *open = g_new0(uint32_t, n_ids + 1); /* item + 1 */
    for (size_t i = 0; i < n; i++) {
        const EchAllocEvent *event = &events[i];
        if (event->kind == ECH_EVENT_ALLOC) {
            EchPlanItem item = {.begin = (int64_t)i, .end = (int64_t)n, .bytes = event->bytes, .colocation = ECH_PLAN_ALONE};
            end_life(items, open, event->id, i);
            g_array_append_val(items, item);
            open[event->id] = items->len;
        } else if (event->kind == ECH_EVENT_FREE && event->id < n_ids) {
            end_life(items, open, event->id, i);
        }
    }
    return items;
}

EchAllocOutcome ech_alloc_run_fixed(const EchAllocEvent *events, size_t n, const uint64_t *offsets, EchBytes capacity, GArray *placed)
{
    EchAllocOutcome outcome = {.events = n, .first_failed = UINT64_MAX};
    EchAllocStats *stats = &outcome.stats;
    g_autoptr(GArray) lives = ech_alloc_lives(events, n);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const EchAllocEvent *event = &events[i];
        stats->frees += event->kind == ECH_EVENT_FREE;
        if (event->kind != ECH_EVENT_ALLOC)
            continue;
        uint64_t offset = offsets[k];
        EchPlacedEvent out = {
            .event = (uint32_t)i, .fit = ECH_FIT_OK, .placement = {.rounded = event->bytes, .address = offset, .offset = offset, .reservation = -1}};
        if (event->bytes == 0) {
            out.placement.address = ECH_ADDRESS_NONE;
        } else if (offset == ECH_FIXED_NONE || event->bytes > capacity || offset > capacity - event->bytes) {
            out.fit = ECH_FIT_FULL;
            stats->failed++;
            if (outcome.first_failed == UINT64_MAX) {
                outcome.first_failed = i;
                outcome.first_fit = out.fit;
            }
        } else {
            stats->allocs++;
        }
        if (event->bytes && offset != ECH_FIXED_NONE)
            stats->reserved = MAX(stats->reserved, ech_bytes_add(offset, event->bytes));
        if (g_array_index(lives, EchPlanItem, k).end == (int64_t)n)
            stats->live = ech_bytes_add(stats->live, event->bytes);
        k++;
        if (placed)
            g_array_append_val(placed, out);
    }
    stats->peak_reserved = stats->reserved;
    stats->peak_requested = ech_alloc_lower_bound(events, n, NULL);
    stats->peak_live = MIN(stats->peak_requested, stats->reserved);
    stats->live = MIN(stats->live, stats->reserved);
    stats->requested = stats->live;
    /* One range; what is free in it is at least what is never used at the end. */
    stats->largest_free = 0;
    stats->segments_allocated = stats->reserved > 0;
    return outcome;
}
