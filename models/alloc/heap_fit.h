/** @file heap_fit.h
 * Best fit over address x time: which gap of the address line is free during whole spans of time.
 *
 * Time is cut into blocks. For each block there is the set of address gaps that nothing uses which lives through all of it, and a list of
 * what begins or ends in it; a binary tree over the blocks keeps the gaps between what begins in them. What lives at some time of a span
 * lives at its first slot or begins later: a query leaps through a few sets of gaps at once, from gap to gap that is large enough in
 * all of them, and cuts out what the blocks at its ends list one by one. Not thread-safe; knows no planners.
 */
#pragma once
#include "sim/base/units.h"

#include <stddef.h>

typedef struct EchFitHeap EchFitHeap;

/** A half-open span of time slots. */
typedef struct {
    uint32_t begin, end;
} EchFitSpan;

/** A heap over @n_slots time slots for spans of @mean_span slots on average (for speed alone). Gaps that cannot hold @smallest bytes at a
 * multiple of @alignment are forgotten. */
EchFitHeap *ech_fit_heap_new(uint32_t n_slots, uint64_t mean_span, EchBytes smallest, uint64_t alignment) G_GNUC_WARN_UNUSED_RESULT;
void ech_fit_heap_free(EchFitHeap *heap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchFitHeap, ech_fit_heap_free)
/** Marks [offset, offset + bytes) as used during @span (not empty). */
void ech_fit_heap_use(EchFitHeap *heap, EchFitSpan span, uint64_t offset, EchBytes bytes);
/** The offset (a multiple of @alignment, itself a multiple of the heap's) at which @bytes are free during all @spans: in the tightest
 * gap, measured from the aligned start, or with @lowest in the lowest; the lowest on ties. The last gap is endless. */
uint64_t ech_fit_heap_find(EchFitHeap *heap, const EchFitSpan *spans, size_t n_spans, EchBytes bytes, uint64_t alignment, bool lowest);
