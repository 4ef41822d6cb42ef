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
/** The aligned offset at which ech_fast_heap_take would put @bytes > 0. */
uint64_t ech_fast_heap_look(const EchFastHeap *heap, EchBytes bytes);
/** Takes the tightest free chunk (measured from its aligned start), the lowest on ties. The unaligned head goes with it. Returns the chunk, never 0. */
uint32_t ech_fast_heap_take(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_offset);
/** Gives a chunk back, which ends its number; joins free neighbours. */
void ech_fast_heap_give(EchFastHeap *heap, uint32_t chunk);
