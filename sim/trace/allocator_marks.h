/** @file allocator_marks.h
 * What the marks of a recorded allocator say: segments that PyTorch's caching allocator took and gave back, and who asked for that.
 *
 * A mark is named as PyTorch's memory snapshots name its actions, "segment_free address=0x7f21 stream=0 type=large expandable=0 pool=3:0"; one without " pool="
 * is of the default pool.
 */
#pragma once
#include "sim/trace/trace.h"

/** The queue and private pool that a recorded block is of; ECH_NONE: none of the trace's, and the default one. */
typedef struct {
    EchId queue, pool;
} EchAllocOwner;

/** Takes a segment from the device, or held it when the recording began. */
bool ech_mark_takes_segment(const char *name);
/** Gives a segment back to the device. */
bool ech_mark_gives_segment(const char *name);
/** The address that a mark tells; false where it tells none. */
bool ech_mark_address(const char *name, uint64_t *ret);
/** The private pool ("3:0") that a mark is about, or NULL. Borrowed. */
const char *ech_mark_pool(const char *name);
/** Whether what is asked of a private pool on a stream (0: the default one) is asked while a CUDA graph is captured. A capture's own pool is "3:0". One that
 * the program made, "0:3", is a MemPool, or captures are told to use it (graph_pool_handle()): the default stream cannot be captured, and on another one a
 * capture is assumed. */
bool ech_pool_is_capture(const char *pool, uint64_t stream);
/** The same of a buffer's request. */
bool ech_buffer_is_captured(const EchTrace *trace, const EchBuffer *buffer);
/** The names of what is taken of @memory beside its allocator, "a, b"; NULL: nothing is. Owned by the caller. */
char *ech_direct_names(const EchTrace *trace, EchId memory) G_GNUC_WARN_UNUSED_RESULT;
/** Whether a stack, a frame a line, is of a program that empties the cache (torch.cuda.empty_cache, or C++'s emptyCache), rather than of a request. */
bool ech_stack_empties_cache(const char *stack);
