/** @file events.h
 * What a program asked an allocator for, as one flat array, and the loop that replays it. 16 bytes an event.
 */
#pragma once
#include "models/alloc/alloc.h"

#include <signal.h>

typedef enum {
    ECH_EVENT_ALLOC,
    ECH_EVENT_FREE,
    ECH_EVENT_RECORD_STREAM, /**< The allocation is also used on @stream. */
    ECH_EVENT_STREAM_DONE,   /**< All events recorded so far on @stream are complete. */
    ECH_EVENT_GIVE_BACK,     /**< The recorded allocator gave id * 512 bytes at address @bytes back to the device. */
    ECH_EVENT_EMPTY_CACHE,   /**< The program had the cache emptied (torch.cuda.empty_cache). */
    ECH_EVENT_POOL_DONE,     /**< The private pool that has @stream for itself is released. */
    ECH_EVENT_EXPANDABLE,    /**< From here on PyTorch's expandable_segments is on, where @id is 1, or off. */
} EchAllocEventKind;

#define ECH_EVENT_MAX_STREAM ((1u << 24) - 1)

typedef struct {
    EchBytes bytes;       /**< ALLOC: as asked for. */
    uint32_t id;          /**< Of the allocation. */
    uint32_t stream : 24; /**< ALLOC, RECORD_STREAM, STREAM_DONE, POOL_DONE. */
    uint32_t kind : 4;    /**< EchAllocEventKind */
    uint32_t upper_end : 1;
    uint32_t private_pool : 1; /**< ALLOC: of EchAllocRequest. */
    uint32_t captured : 1;     /**< ALLOC: of EchAllocRequest. */
    uint32_t direct : 1;       /**< ALLOC: of EchAllocRequest. */
} EchAllocEvent;

/** Where an allocation went; one per ALLOC event, in their order. */
typedef struct {
    EchPlacement placement;
    uint32_t event; /**< Index of the event. */
    EchFit fit;
} EchPlacedEvent;

typedef struct {
    EchAllocStats stats; /**< At the end. */
    uint64_t events;
    uint64_t fragmented;       /**< Of those that failed: enough bytes were free. */
    uint64_t first_failed;     /**< Index of the first event that failed, or UINT64_MAX. */
    EchFit first_fit;          /**< Why it did. */
    uint64_t peak_reserved_at; /**< Event after which it was reached with the most in use; only with watch_peaks. */
    double seconds;            /**< Wall time of the loop. */
} EchAllocOutcome;

typedef struct {
    GArray *placed;       /**< EchPlacedEvent are appended, or NULL. */
    bool stop_at_failure; /**< For searches. */
    bool watch_peaks;
    void (*progress)(uint64_t done, uint64_t total); /**< Now and then, or NULL. */
} EchAllocRunOptions;

/** Replays events[n]. The allocator may be used further. */
EchAllocOutcome ech_alloc_run(EchAllocator *allocator, const EchAllocEvent *events, size_t n, const EchAllocRunOptions *options);
/** Most requested bytes live at once, those beside the allocator among them: no device can do with less. *ret_at (may be NULL): the event. */
EchBytes ech_alloc_lower_bound(const EchAllocEvent *events, size_t n, size_t *ret_at);
/** Smallest capacity, a multiple of @granule (at least 1), at which every event succeeds. Found by bisection: with an allocator that is not monotone (a
 * larger pool can place worse) a smaller one may exist below. 0 and no error: none up to
 * 64 times the lower bound, or *@stop (NULL: none) was not 0 any more. ECH_ERROR_CONFIG from the allocator. */
EchBytes ech_alloc_smallest_capacity(const char *spec, const EchAllocEvent *events, size_t n, EchBytes granule, EchAddressOrder order,
                                     const volatile sig_atomic_t *stop, GError **error);
