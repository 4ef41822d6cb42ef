/** @file alloc_events.h
 * The allocator events of a trace, and the state its allocator was in before them.
 */
#pragma once
#include "models/alloc/events.h"
#include "sim/trace/trace.h"

/** The memory a trace's allocations are about: "hbm" if it has buffers, else the one with the most allocated bytes. ECH_NONE: none. */
EchId ech_alloc_main_memory(const EchTrace *trace);
/** The events of @memory in a trace, with buffer numbers as ids: what is resident first as allocations (if @residents), then every ALLOC and
 * FREE; loop bodies once. Where the trace tells what its allocator gave back to the device, GIVE_BACK events say so. Private pools count
 * as streams of their own. Owned by the caller (EchAllocEvent). */
GArray *ech_alloc_events_of_trace(const EchTrace *trace, EchId memory, bool residents) G_GNUC_WARN_UNUSED_RESULT;

/** What a recorded allocator held when its trace began, and where the device put what it took later. */
typedef struct {
    GArray *seeds;     /**< EchSeedBlock */
    GArray *script;    /**< EchSegmentRange, in the order they were taken. */
    uint64_t homeless; /**< Resident buffers that lie in no known segment; they are left out. */
    uint64_t guessed;  /**< Resident buffers whose true block size had to be derived. */
} EchAllocStart;

/** The start state of a caching allocator's recording (memory snapshot); NULL where the trace has none. Owned by the caller. */
EchAllocStart *ech_alloc_start_of_trace(const EchTrace *trace, EchId memory) G_GNUC_WARN_UNUSED_RESULT;
void ech_alloc_start_free(EchAllocStart *start);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocStart, ech_alloc_start_free)
/** The allocator a memory snapshot was recorded under, settings included: "pytorch:expandable_segments:True". Owned by the caller. */
char *ech_alloc_recorded_spec(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
