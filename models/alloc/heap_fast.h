/** @file heap_fast.h
 * One pass over groups in order of their first allocation: best fit over a free list, no look at the future.
 */
#pragma once
#include "sim/base/units.h"

#include <stddef.h>

typedef struct EchFastHeap EchFastHeap;

/** An empty heap whose free space is [@floor, endless). */
EchFastHeap *ech_fast_heap_new(uint64_t floor, uint64_t alignment) G_GNUC_WARN_UNUSED_RESULT;
void ech_fast_heap_free(EchFastHeap *heap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchFastHeap, ech_fast_heap_free)
/** What ech_fast_heap_take would take: [*ret_start, *ret_end), the bytes at the aligned offset returned. */
uint64_t ech_fast_heap_look(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_start, uint64_t *ret_end);
/** Takes the tightest free chunk (measured from its aligned start), the lowest on ties. The unaligned head goes with it. */
uint64_t ech_fast_heap_take(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_start, uint64_t *ret_end);
/** Gives [start, end) back, as it was taken; joins free neighbours. */
void ech_fast_heap_give(EchFastHeap *heap, uint64_t start, uint64_t end);
