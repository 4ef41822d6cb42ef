/** @file xheap.h
 * The heaps of the TPU compiler's buffer assignment, replayed from its events: fast merge (HBM, scalar memory) and best fit (flags, small spaces).
 */
#pragma once
#include "sim/base/units.h"

typedef enum {
    ECH_XHEAP_FAST_MERGE, /**< In order of start: of the free chunks the tightest, then the lowest; chunks are given back when their end is reached. */
    ECH_XHEAP_SPATIAL,    /**< Largest first. */
    ECH_XHEAP_TEMPORAL,   /**< Longest stay first. */
    ECH_XHEAP_BEST,       /**< The smaller of spatial and temporal. */
} EchXheapAlgorithm;

typedef enum { ECH_XHEAP_ALLOC, ECH_XHEAP_SHARE, ECH_XHEAP_RELEASE } EchXheapEventKind;

typedef struct {
    EchXheapEventKind kind;
    uint32_t buffer; /**< Index into sizes. */
    uint32_t with;   /**< SHARE: takes the place of this one. */
} EchXheapEvent;

/** Runs @events; every buffer is allocated or shared at most once. ids[] break ties. ret_offsets[n_buffers] (UINT64_MAX: never allocated, or no bytes); returns the heap's size. */
EchBytes ech_xheap_run(EchXheapAlgorithm algorithm, EchBytes alignment, const EchXheapEvent *events, uint32_t n_events, const EchBytes *sizes, const uint64_t *ids,
                       uint32_t n_buffers, uint64_t *ret_offsets);
/** Step-wise live ranges to events: at every step first what starts, in the order (start, end, id), then what ends. Returns n_events; the events are owned by the caller. */
EchXheapEvent *ech_xheap_events(const uint32_t *starts, const uint32_t *ends, const uint64_t *ids, uint32_t n_buffers, uint32_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
