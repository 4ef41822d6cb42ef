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

/** Runs @events; every buffer is allocated or shared at most once. ids[] break ties. ret_offsets[n_buffers] (UINT64_MAX: never allocated, or no bytes); returns
 * the heap's size. */
EchBytes ech_xheap_run(EchXheapAlgorithm algorithm, EchBytes alignment, const EchXheapEvent *events, uint32_t n_events, const EchBytes *sizes,
                       const uint64_t *ids, uint32_t n_buffers, uint64_t *ret_offsets);
/** The same events placed so that buffers of one place may begin at different times and lie side by side in it (slices of an array that are fetched one by
 * one): buffer b has sizes[b] bytes at within[b] of its place. Ours, for where the compiler's own offsets are not known: the lowest of several orders, each
 * place as low as it goes without meeting another in space and time. Returns the height; UINT64_MAX, with no offset set, above 2^14 buffers. */
EchBytes ech_xheap_run_staggered(EchBytes alignment, const EchXheapEvent *events, uint32_t n_events, const EchBytes *sizes, const EchBytes *within,
                                 uint32_t n_buffers, uint64_t *ret_offsets);
