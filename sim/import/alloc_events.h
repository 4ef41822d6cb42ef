/** @file alloc_events.h
 * The allocator events of a trace, and the state its allocator was in before them.
 */
#pragma once
#include "models/alloc/events.h"
#include "sim/trace/allocator_marks.h"

/** The memory a trace's allocations are about: "hbm" if it has buffers, of several devices ("hbm:1") the one in which most lives at once, else the one with the
 * most allocated bytes. ECH_NONE: none. */
EchId ech_alloc_main_memory(const EchTrace *trace);
/** The events of @memory in a trace, with buffer numbers as ids: what is resident first as allocations (if @residents; what is direct always), then every ALLOC
 * and FREE; loop bodies once. Where the trace tells what its allocator gave back to the device: with @as_recorded, GIVE_BACK events say each segment, and
 * EXPANDABLE events where PyTorch's expandable_segments was changed; without, EMPTY_CACHE events say where the program asked for it. Private pools count as
 * streams of their own; what one gives back tells that it is released (POOL_DONE). Owned by the caller (EchAllocEvent). */
GArray *ech_alloc_events_of_trace(const EchTrace *trace, EchId memory, bool residents, bool as_recorded) G_GNUC_WARN_UNUSED_RESULT;

/** A request that the recorded allocator refused ("oom" of a memory snapshot): the program was out of memory. */
typedef struct {
    EchId op;             /**< The MARK that tells of it; its stack is the request's. */
    EchBytes bytes;       /**< As asked, rounded to 512. */
    EchBytes device_free; /**< What the driver had left. */
    EchBytes reserved;    /**< What the allocator held, in use or not. */
    EchBytes kept;        /**< Of that, what private pools (of CUDA graphs, of MemPools) held. */
    bool in_pool;         /**< It was made for such a pool. */
} EchRefusal;

/** Refused requests of @memory in order (EchRefusal). Among the events of the trace the k-th is an ALLOC of id n_buffers + k and at once a FREE: whoever
 * replays them is asked for it too. Owned by the caller. */
GArray *ech_alloc_refusals(const EchTrace *trace, EchId memory) G_GNUC_WARN_UNUSED_RESULT;
/** The device memory a recording with refusals had for its allocator: what it held and what was free, when it was refused last; no less than it ever held.
 * @ret_limited: the driver had enough left, so a limit (a memory fraction, say) refused; then what it held was all it got. 0 without refusals. */
EchBytes ech_alloc_refused_capacity(const EchTrace *trace, EchId memory, bool *ret_limited);
/** The most that is taken of @memory beside its allocator at a time, as asked for. */
EchBytes ech_alloc_direct_peak(const EchTrace *trace, EchId memory);
/** The most that a recorded allocator held at a time; 0 where the recording does not say. */
EchBytes ech_alloc_recorded_peak(const EchTrace *trace, EchId memory);

/** What a recorded allocator held when its trace began, and where the device put what it took later. */
typedef struct {
    GArray *seeds;     /**< EchSeedBlock */
    GArray *owners;    /**< EchAllocOwner, one a seed. */
    GArray *script;    /**< EchSegmentRange, in the order they were taken. */
    uint64_t homeless; /**< Resident buffers that lie in no known segment; they are left out. */
    uint64_t guessed;  /**< Resident buffers whose true block size had to be derived. */
    EchBytes granule;  /**< Of what the recorded allocator may take: what it had is a limit in bytes, not a device's memory; 0: the device's. */
} EchAllocStart;

/** Where the device put what a recording's allocator took from it, as its addresses tell: below all before on Linux, whose driver gets its addresses of the
 * kernel from the top; above on a GPU that was not there (capture --pretend). First fit where they do not tell. */
EchAddressOrder ech_alloc_recorded_order(const EchTrace *trace, EchId memory);

/** The start state of a caching allocator's recording (memory snapshot), or the state in which BFC refused a request (its log, if every chunk is listed); NULL
 * where the trace has none. Owned by the caller. */
EchAllocStart *ech_alloc_start_of_trace(const EchTrace *trace, EchId memory) G_GNUC_WARN_UNUSED_RESULT;
void ech_alloc_start_free(EchAllocStart *start);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocStart, ech_alloc_start_free)
/** The allocator that a trace's allocations were recorded under, as far as it tells: "pytorch:expandable_segments:True" with the settings of a memory snapshot;
 * "bfc" of XLA's and TensorFlow's. NULL: unknown, or what was recorded is the driver. Owned by the caller. */
char *ech_alloc_recorded_spec(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
