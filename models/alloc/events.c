#include "models/alloc/class.h"
#include "models/alloc/events.h"

/* Frees come in any order, so each would wait for memory three times: for its record, its block, the block's neighbours. The events to come are
 * known: what they will read is fetched meanwhile. */
enum { AHEAD_RECORD = 24, AHEAD_BLOCK = 14, AHEAD_NEIGHBOURS = 6 };

static inline void look_ahead(const EchAllocator *allocator, const EchAllocEvent *events, size_t i, size_t n)
{
    if (n - i <= AHEAD_RECORD)
        return;
    const EchAllocEvent *far = &events[i + AHEAD_RECORD], *near = &events[i + AHEAD_BLOCK], *nearer = &events[i + AHEAD_NEIGHBOURS];
    if (far->kind == ECH_EVENT_FREE)
        ech_alloc_prefetch(allocator, far->id, 0);
    if (near->kind == ECH_EVENT_FREE)
        ech_alloc_prefetch(allocator, near->id, 1);
    if (nearer->kind == ECH_EVENT_FREE)
        ech_alloc_prefetch(allocator, nearer->id, 2);
}

EchAllocOutcome ech_alloc_run(EchAllocator *allocator, const EchAllocEvent *events, size_t n, const EchAllocRunOptions *options)
{
    EchAllocOutcome outcome = {.events = n, .first_failed = UINT64_MAX};
    EchBytes peak_reserved = 0, live_then = 0;
    gint64 begin = g_get_monotonic_time();
    for (size_t i = 0; i < n; i++) {
        const EchAllocEvent *event = &events[i];
        if (allocator->class->prefetch)
            look_ahead(allocator, events, i, n);
        switch ((EchAllocEventKind)event->kind) {
        case ECH_EVENT_ALLOC: {
            EchAllocRequest request = {.id = event->id,
                                       .bytes = event->bytes,
                                       .stream = event->stream,
                                       .upper_end = event->upper_end,
                                       .private_pool = event->private_pool,
                                       .captured = event->captured,
                                       .direct = event->direct};
            EchPlacedEvent placed = {.event = (uint32_t)i, .placement = {.address = ECH_ADDRESS_NONE}};
            placed.fit = ech_allocator_alloc(allocator, &request, &placed.placement);
            outcome.fragmented += placed.fit == ECH_FIT_FRAGMENTED;
            if (placed.fit != ECH_FIT_OK && outcome.first_failed == UINT64_MAX) {
                outcome.first_failed = i;
                outcome.first_fit = placed.fit;
                if (options->stop_at_failure)
                    return outcome;
            }
            if (options->placed)
                g_array_append_val(options->placed, placed);
            break;
        }
        case ECH_EVENT_FREE: ech_allocator_release(allocator, event->id); break;
        case ECH_EVENT_RECORD_STREAM: ech_allocator_record_stream(allocator, event->id, event->stream); break;
        case ECH_EVENT_STREAM_DONE: ech_allocator_stream_done(allocator, event->stream); break;
        case ECH_EVENT_GIVE_BACK: ech_allocator_give_back(allocator, event->bytes, (EchBytes)event->id * 512); break;
        case ECH_EVENT_EMPTY_CACHE: ech_allocator_empty_cache(allocator); break;
        case ECH_EVENT_POOL_DONE: ech_allocator_pool_done(allocator, event->stream); break;
        case ECH_EVENT_EXPANDABLE: ech_allocator_set_expandable(allocator, event->id != 0); break;
        }
        if (options->watch_peaks) {
            EchAllocStats stats;
            ech_allocator_counters(allocator, &stats);
            /* Of the events at the highest level, the one with the most in use. */
            if (stats.reserved > peak_reserved || (stats.reserved == peak_reserved && stats.live > live_then)) {
                peak_reserved = stats.reserved;
                live_then = stats.live;
                outcome.peak_reserved_at = i;
            }
        }
        if (options->progress && (i & 0xffff) == 0)
            options->progress(i, n);
    }
    outcome.seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
    ech_allocator_stats(allocator, &outcome.stats);
    return outcome;
}

EchBytes ech_alloc_lower_bound(const EchAllocEvent *events, size_t n, size_t *ret_at)
{
    uint32_t ids = 0;
    for (size_t i = 0; i < n; i++)
        ids = events[i].kind == ECH_EVENT_ALLOC ? MAX(ids, events[i].id + 1) : ids;
    g_autofree EchBytes *sizes = g_new0(EchBytes, (gsize)ids + 1);
    EchBytes live = 0, peak = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const EchAllocEvent *event = &events[i];
        if (event->kind == ECH_EVENT_ALLOC) {
            live = ech_bytes_add(live, event->bytes);
            sizes[event->id] = event->bytes;
            if (live > peak) {
                peak = live;
                at = i;
            }
        } else if (event->kind == ECH_EVENT_FREE && event->id < ids) {
            live -= MIN(live, sizes[event->id]);
            sizes[event->id] = 0;
        }
    }
    if (ret_at)
        *ret_at = at;
    return peak;
}

static bool fits(const char *spec, const EchAllocEvent *events, size_t n, EchBytes capacity, EchAddressOrder order, bool *ret, GError **error)
{
    EchAllocDevice device = {.capacity = capacity, .order = order};
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, error);
    if (!allocator)
        return false;
    EchAllocRunOptions options = {.stop_at_failure = true};
    *ret = ech_alloc_run(allocator, events, n, &options).first_failed == UINT64_MAX;
    return true;
}

EchBytes ech_alloc_smallest_capacity(const char *spec, const EchAllocEvent *events, size_t n, EchBytes granule, EchAddressOrder order,
                                     const volatile sig_atomic_t *stop, GError **error)
{
    EchBytes bound = ech_alloc_lower_bound(events, n, NULL);
    uint64_t low = bound / granule, high = MAX(low, (uint64_t)1); /* low: does not fit, or below the bound */
    low = low ? low - 1 : 0;
    uint64_t most = MIN(ech_bytes_mul(high, 64), UINT64_MAX / granule);
    bool ok = false;
    for (uint64_t step = MAX(high / 64, (uint64_t)1);; step *= 2) {
        if ((stop && *stop) || !fits(spec, events, n, high * granule, order, &ok, error))
            return 0;
        if (ok)
            break;
        if (high >= most)
            return 0;
        low = high;
        high = MIN(high + step, most);
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if ((stop && *stop) || !fits(spec, events, n, middle * granule, order, &ok, error))
            return 0;
        *(ok ? &high : &low) = middle;
    }
    return high * granule;
}
