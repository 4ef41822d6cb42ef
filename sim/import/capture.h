/** @file capture.h
 * What every profiler of a GPU tells, gathered in any order and turned into a trace: kernels and copies on streams,
 * allocator events, marks, and who waited for whom. Readers of Kineto, Nsight Systems, rocprofv3, XPlane and CUPTI files fill it.
 *
 * The trace's program order is the order in which the host issued the work. Rules, each counted in the import's notes:
 *  - an address whose first event is a free was live before the capture (start_state_from_frees);
 *  - bytes in use before the capture that no later free explains become one resident buffer (start_state_baseline);
 *  - a stream wait depends on the newest operation of the other stream issued before the event was recorded;
 *  - what a recording does not say of the order of a GPU's streams is taken from the order of calls and the recorded times (stream_waits.h;
 *    inferred_stream_waits);
 *  - whatever is issued after a host wait depends on it;
 *  - of several devices, what a recording does not say of whom collectives met is taken from names and times (meetings.h; collectives_that_met_by_their_times);
 *  - an allocator event depends on the work of its device that had ended last before it, or, where nothing was measured, on what was asked of the device last;
 *  - what work uses is told by addresses, of arrays that lie there at that time (arrays.h); what it moves besides is of unknown place. An array that a merged
 *    snapshot lets go, by its clock of whole microseconds, just before its last use is let go just after it;
 *  - what a graph's work used at its capture of a merged snapshot's blocks, which are gone when it is launched, lives from there to its last use
 * (graph_arrays.h);
 *  - a use of a part of managed memory, or of a block that holds many arrays (XLA's temporaries), is one of a view of that part: where it lies decides which
 *    pages come;
 *  - advice on half or more of an allocation of managed memory holds for all of it from the beginning on, on less it is left out (advice_on_parts).
 */
#pragma once
#include "sim/import/arrays.h"
#include "sim/import/import.h"

/** Where bytes are: "hbm", "host", and on TPUs "vector" (VMEM), "common" (CMEM), "scalar" (SMEM). */
typedef enum { ECH_TIER_DEVICE, ECH_TIER_HOST, ECH_TIER_VECTOR, ECH_TIER_COMMON, ECH_TIER_SCALAR, ECH_N_TIERS } EchTier;
/** What an event is. ADVICE: of the managed memory at `address`; is no op. GIVEN: the array at `address` is what a program hands to its outermost module, with
 * so many rows (bytes); is no op. FOREIGN: an operation of the merged trace (ech_capture_merge). */
typedef enum {
    ECH_ITEM_KERNEL,
    ECH_ITEM_MEMSET,
    ECH_ITEM_COPY,
    ECH_ITEM_ALLOC,
    ECH_ITEM_FREE,
    ECH_ITEM_MARK,
    ECH_ITEM_STREAM_WAIT,
    ECH_ITEM_HOST_WAIT,
    ECH_ITEM_COLLECTIVE,
    ECH_ITEM_ADVICE,
    ECH_ITEM_GIVEN,
    ECH_ITEM_FOREIGN
} EchItemKind;

/** One event. Times are picoseconds from any zero that the whole capture shares. */
typedef struct {
    EchTime issued;    /**< When the host asked for it; = start where that is not known. */
    EchTime start;     /**< ECH_TIME_NONE where not recorded. */
    EchTime duration;  /**< ECH_TIME_NONE where not recorded. */
    uint64_t bytes;    /**< COPY, MEMSET, ALLOC, FREE, MARK, COLLECTIVE, GIVEN. FREE: of unknown size where origin is ECH_ABSENT. */
    uint64_t rounded;  /**< ALLOC: what the allocator gave, or 0. COLLECTIVE: devices of all groups together, or 0. */
    uint64_t address;  /**< ALLOC, FREE: address. COLLECTIVE: from a group's first device to its second. STREAM_WAIT, HOST_WAIT: (uint64_t) time the event was
                          recorded at. FOREIGN: op index. */
    EchId name, stack; /**< Of the capture's builder; stack may be ECH_NONE. */
    uint32_t queue;    /**< ech_capture_queue. */
    uint32_t other; /**< Waits: the queue waited for, or ECH_NONE for all of the device. COPY: from device to device that to which it goes (pulled: comes from),
                     * of the host's own memory string id of EchOp.launch, or ECH_NONE. ALLOC: string id of the shape, or ECH_NONE. KERNEL: string id of its
                     * launch (EchOp.launch), or ECH_NONE. COLLECTIVE: group size, or ECH_NONE. */
    uint32_t work;  /**< KERNEL: ech_capture_work, or ECH_NONE. COPY, COLLECTIVE: queue whose newest op must have ended, or ECH_NONE. */
    EchId meets;    /**< COLLECTIVE, HOST_WAIT for other processes and for nothing else: string id of whom it meets, "meets=4be1/12" (sim/trace/meets.h), or
                       ECH_NONE. */
    uint8_t kind;   /**< EchItemKind */
    uint8_t from, to;           /**< EchTier: of a COPY; ALLOC, FREE, MEMSET: `to`. KERNEL: `to` is the host where its processor
                                   runs it, on a host's queue; the device waits for that. COLLECTIVE: `from` is EchCollective. */
    uint8_t origin;             /**< EchOrigin of bytes. */
    uint32_t thread;            /**< Host thread that asked for it, by any number, or ECH_NONE. */
    uint32_t node;              /**< KERNEL, MEMSET, COPY, COLLECTIVE: of a graph's launch, which of ech_capture_captured() it is, from 1 on; else 0. */
    uint32_t operators;         /**< KERNEL, MEMSET, COPY, COLLECTIVE: which a framework's host began since it asked before. */
    uint32_t first_use, n_uses; /**< KERNEL, MEMSET, COPY, COLLECTIVE: of ech_capture_use. */
    bool told;                  /**< Which arrays it uses is known, all or none. */
    bool beyond;                /**< KERNEL: what it reads and writes lies where no address of its own tells: it fills what is new. */
    bool parts;                 /**< KERNEL: what it is known to use of its arrays are parts of blocks that hold many. */
    bool together;              /**< KERNEL, MEMSET, COPY: the host asked for it with the one before, by one launch of a graph. */
    bool direct;                /**< ALLOC, FREE: a library's own, beside the allocator that a merged snapshot tells of. */
    bool prefetch;              /**< COPY: managed memory that is asked to move. */
    bool pulled;                /**< COPY: device to device on a queue of the one that gets it; `other` is the one that it comes from. */
    uint8_t behind;             /**< COPY: EchBehind. */
    uint8_t managed;            /**< ALLOC, FREE: EchManagedFlag, of the host's tier. ADVICE: what is set, EchManagedFlag. */
} EchItem;

/** Traffic and operations of a kernel, where the file lets one tell. */
typedef struct {
    EchBytes read, write;
    uint64_t ops;
    uint8_t unit, dtype; /**< EchWorkUnit, EchDtype */
    uint8_t origin;      /**< EchOrigin */
    bool beyond; /**< It may be more than its own arrays: a share, by blocks, of what several kernels do to lists of arrays; what is found by addresses. */
    bool more;   /**< The next row holds further operations of the same kernel, of another unit or type. */
} EchItemWork;

typedef struct EchCapture EchCapture;

/** An empty capture whose trace @import will get; @format names what it came from. Borrows @import. */
EchCapture *ech_capture_new(EchImport *import, const char *format) G_GNUC_WARN_UNUSED_RESULT;
void ech_capture_free(EchCapture *capture);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchCapture, ech_capture_free)

/** For strings and properties. */
EchTraceBuilder *ech_capture_builder(EchCapture *capture);
/** Index of the queue of this name on a device; made when first named. */
uint32_t ech_capture_queue(EchCapture *capture, const char *name, EchQueueKind kind, uint32_t device);
/** The queue of a GPU's stream by its number. */
uint32_t ech_capture_stream(EchCapture *capture, uint32_t device, int64_t stream);
/** Says which process (0 unless said) issues a queue's work: its host waits are for that process's queues alone, and hold up no others. */
void ech_capture_set_process(EchCapture *capture, uint32_t queue, uint32_t process);
/** Says that who waits for a device does not wait for this queue: the device knows nothing of it. */
void ech_capture_set_apart(EchCapture *capture, uint32_t queue);
/** Device that a queue is of. */
uint32_t ech_capture_queue_device(const EchCapture *capture, uint32_t queue);
/** The number that device @allocated, of which allocations are told, has as the device of streams: where all streams are of one other device, the recording
 * has two numbers for one GPU (ROCm's profiler counts those of the machine, its allocator those that the process sees), and its queues become that device's. */
uint32_t ech_capture_one_device(EchCapture *capture, uint32_t allocated);
/** Whether there are queues, but for the host's, of another device than @device. */
bool ech_capture_has_other_device(const EchCapture *capture, uint32_t device);
/** Devices @a and @b change places, numbers of all that was told so far. */
void ech_capture_exchange_devices(EchCapture *capture, uint32_t a, uint32_t b);
/** An event with every "none" value set. */
EchItem ech_item_init(EchItemKind kind);
/** Appends an event; the order does not matter. */
void ech_capture_add(EchCapture *capture, const EchItem *item);
size_t ech_capture_n_items(const EchCapture *capture);
/** Borrowed until the next add. */
EchItem *ech_capture_item(EchCapture *capture, size_t i);
/** Number of a kernel's traffic and operations, for EchItem.work. */
uint32_t ech_capture_work(EchCapture *capture, EchItemWork work);
/** The same of @op of @trace, a compiled program's: all that it reads and writes, and its operations. */
uint32_t ech_capture_work_of(EchCapture *capture, const EchTrace *trace, const EchOp *op, EchOrigin origin);
/** One more use of item @i, the newest that has any: its uses are added one after another. */
void ech_capture_use(EchCapture *capture, size_t i, EchAddressUse use);
/** The uses of item @i, n_uses of them, to be told better; borrowed until the next use is added. NULL where there are none. */
EchAddressUse *ech_capture_uses(EchCapture *capture, size_t i);
/** Work was captured into a graph at @time: the next EchItem.node. */
void ech_capture_captured(EchCapture *capture, EchTime time);
/** Bytes in use in a memory just before the first event of it. */
void ech_capture_baseline(EchCapture *capture, EchTier tier, uint32_t device, EchBytes bytes);
/** Reads a memory snapshot that is to be merged with @what ("a profile"), and when it begins: microseconds of the Unix epoch. Owned by the caller. NULL and the
 * reader's error, or ECH_ERROR_UNSUPPORTED where it tells no times. */
EchImport *ech_capture_read_snapshot(const char *path, const char *what, int64_t *ret_unix_us, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Takes the allocator events of @trace (a memory snapshot of the same run) at @zero picoseconds of the capture's time instead of
 * the capture's own device ALLOC and FREE items. Keeps a reference. */
void ech_capture_merge(EchCapture *capture, EchTrace *trace, EchTime zero);
/** Device @device of the merged trace is device 0 of the capture, and the other way round: the caller has numbered its own so. */
void ech_capture_set_first_device(EchCapture *capture, uint32_t device);
/** Says what was asking at a time of the capture; ids of the capture's builder. What it does not know it leaves as it is. */
typedef void (*EchCaptureNamer)(void *data, EchTime time, EchId *ret_name, EchId *ret_stack);
/** Asked for the merged trace's buffers that have no name, when ech_capture_finish adds them. */
void ech_capture_name_merged(EchCapture *capture, EchCaptureNamer namer, void *data);
/** What a recording says of the waits of streams: not even when there were any; the calls that make a stream wait, but not for what, or not which; all. */
typedef enum { ECH_WAITS_UNKNOWN, ECH_WAITS_CALLS, ECH_WAITS_TOLD } EchWaitsTold;
/** ECH_WAITS_UNKNOWN unless said. */
void ech_capture_set_waits(EchCapture *capture, EchWaitsTold told);
/** A call that lets a stream wait for what the recording does not say. @thread: as EchItem.thread. @queue: the stream, or ECH_NONE where that is not said. */
void ech_capture_wait_call(EchCapture *capture, EchTime time, uint32_t thread, uint32_t queue);
/** A call in which the thread stood still until @end for work of which the recording does not say which it was; those that it says are HOST_WAIT items. */
void ech_capture_stand_call(EchCapture *capture, EchTime time, EchTime end, uint32_t thread);
/** Says that nothing in the capture was measured: an allocator's event comes after what was asked of its device before it. */
void ech_capture_set_unrecorded(EchCapture *capture);
/** A migration of managed memory was recorded: @bytes of a COPY, which is added besides. The trace says so (migrations_recorded), for what was recorded is not
 * to be modelled as well; recorded_paged_in_bytes and recorded_paged_out_bytes are the sums. */
void ech_capture_migrated(EchCapture *capture, bool to_device, EchBytes bytes);
/** XLA's ranges (MARK) as what they are of: "XlaModule:#hlo_module=jit_step,program_id=21#", a run of a *@ret_module, as "jit_step(21)",
 * "Thunk:#name=jit(step)/while,hlo_op=while.17#", the launch of an instruction, as "while.17". NULL for others. Owned by the caller. */
char *ech_capture_xla_range(const char *text, bool *ret_module) G_GNUC_WARN_UNUSED_RESULT;
/** What a call or kernel of that name does with other devices, "c10d::allreduce_", "nccl:all_gather", "ncclDevKernel_SendRecv"; ECH_COLLECTIVE_NONE where the
 * name does not tell, and for gathers to one rank and scatters from one. */
EchCollective ech_capture_collective(const char *name);
/** Sets import->trace. Recorded times become relative to the first; property "time_zero_ps" tells what was subtracted. */
bool ech_capture_finish(EchCapture *capture, GError **error);
