/** @file replay.h
 * Replays a trace on a device: queues in order, dependencies, copies on their links' engines, memory ports shared by kernels and
 * copies, allocation coupled to time. The result is a run: timeline, occupancy, traffic, waits, what did not fit.
 *
 * A workload that does not fit is a result, never an error. Same inputs give the same run.
 */
#pragma once
#include "models/alloc/alloc.h"
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/replay/price.h"
#include "sim/trace/allocator_marks.h"

typedef enum { ECH_ENGINE_AUTO, ECH_ENGINE_NATIVE, ECH_ENGINE_SIMGRID } EchEngine;

/** Why an operation did not run, or ran slower than alone. */
typedef enum {
    ECH_WAIT_DEPENDENCY,  /**< Head of its queue and asked for, but something it depends on was still running, or had ended too short a time ago. */
    ECH_WAIT_QUEUE,       /**< Released by another queue, but its own queue was still busy. */
    ECH_WAIT_LINK,        /**< Its link's engines were busy, or the link was shared. */
    ECH_WAIT_MEMORY_PORT, /**< Ran slower than alone because a memory's port was shared. */
    ECH_WAIT_COMPUTE,     /**< Ran slower than alone because a unit was shared. */
    ECH_WAIT_SPACE,       /**< An allocation waited for space. */
    ECH_WAIT_HOST,        /**< The host came late: when the trace was recorded (option host_gaps), or as its launches take their time (host_launches). */
    ECH_WAIT_ALLOCATOR,   /**< An allocator called the driver to free memory: all that was asked for before had to end, all that came after to wait. */
    ECH_WAIT_PAGES,       /**< Blocks of unified memory that it touches had to come from the host, and others to go (models/memory/managed.h). */
    ECH_WAIT_PEERS,       /**< Of ranks that are replayed together: another one had not come to the collective, or the message, yet. */
    ECH_N_WAITS,
} EchWait;
/** "dependency", "queue", "link", "memory_port", "compute", "space", "host", "allocator", "pages", "peers". */
const char *ech_wait_name(EchWait wait);

/** What the allocator of the device's memory holds before the run, and where the device puts what it takes later: a recording's start state. */
typedef struct {
    const EchSeedBlock *blocks;    /**< blocks[n]; ids are resident buffers; of streams and pools @owners tell. */
    const EchAllocOwner *owners;   /**< owners[n] */
    const EchSegmentRange *script; /**< script[n_script], as ech_allocator_script() has it. */
    size_t n, n_script;
} EchReplayStart;

/** What several traces that are replayed together have of one another's devices. */
typedef enum {
    ECH_SHARE_NONE,   /**< Each has a device of its own. */
    ECH_SHARE_MPS,    /**< They are processes on one: kernels of all run side by side, as far as multiprocessors, units and ports go. */
    ECH_SHARE_SLICES, /**< They are processes on one that take turns, as without MPS (runtime.slice_ps, runtime.idle_slice_ps, runtime.switch_ps). */
} EchSharing;

/** How to replay. Fill with ech_params_defaults(ech_replay_params, &options); the rows are what experiment files and --set accept. */
typedef struct {
    uint64_t engine;       /**< EchEngine. auto: simgrid up to auto_limit operations where its module is there, else native. */
    uint64_t kernel_time;  /**< EchKernelTime (price.h). */
    uint64_t overhead;     /**< 1: charge launch and set-up times of the device (default). */
    uint64_t allocator_on; /**< 1: allocations go through an allocator (default); 0: only counted against the capacity. */
    char *allocator;       /**< Spec for the device's memory (HBM); NULL: "best_fit" where buffers have no fixed offset. */
    char *host_allocator;  /**< Spec for every other memory; NULL: counted only. */
    uint64_t trips;        /**< Trip count for loops whose count is unknown (0 means as in the trace). */
    uint64_t max_ops;      /**< Most operation instances executed one by one (steady loops are skipped exactly); more is ECH_ERROR_UNSUPPORTED. */
    uint64_t max_spans;    /**< Most spans kept; the run counts what was left out. */
    uint64_t max_points;   /**< Most points per occupancy series; beyond, neighbours are merged keeping their maximum. */
    uint64_t skip_steady;  /**< 1: skip a loop's steady state exactly (default). */
    uint64_t keep_going;   /**< 1: after an allocation that fails, go on as if it had fitted; 0: stop there as the program would. */
    uint64_t auto_limit;   /**< For engine auto. */
    uint64_t copy_curve;   /**< 1: size curves of links apply (default). */
    uint64_t graph;        /**< 1: kernels start as in a CUDA graph, where the device says how fast (default 0). */
    uint64_t driver_calls; /**< 1: allocators' calls of the driver take their time and a cudaFree waits for the device (default 1; overhead=false leaves them
                              out too). */
    uint64_t tuned_tiles;  /**< 1: products of GPU programs with a tile that no timing would have chosen are priced with the best one (default). */
    /** 0..1: share of the time in which matrix products and attention run, which tells the power that they leave themselves; below 0: as measured, and under a
     * limit below the card's own power (ech_gpu_held) as the program itself tells. */
    double products_duty;
    uint64_t unified_memory;     /**< 1: buffers of an NVIDIA GPU's memory are managed, the host's takes what the device has no room for (default 0). */
    uint64_t host_launches;      /**< 1: where nothing of the host was measured (property "host_order"), its launches take their time (default). */
    EchTime after_wait;          /**< There, too, what the host does after each of its waits before it asks for more, in picoseconds; 0 (default). */
    uint64_t share;              /**< EchSharing, of ech_replay_run_together. */
    uint64_t host_gaps;          /**< 1: recorded gaps before operations that neither order nor dependencies explain are kept (default 0). */
    EchAddressOrder order;       /**< Of addresses of the device's memory, for its allocator. */
    const EchReplayStart *begin; /**< Where that fits, and what is given back is what was in the recording; NULL: from an empty memory. Borrowed. */
    EchBytes held;               /**< What the allocator had of the device before: as much as that it takes without a call of the driver. */
    /** The whole of which the trace is a part (ech_trace_part), and how many of its operations come before: allocators have been asked for what those ask for.
     * NULL: none. Borrowed. */
    const EchTrace *whole;
    EchId n_before;
    bool context; /**< The trace is of a process that asks as it goes: what its context takes of the device's memory is not there for it. */
} EchReplayOptions;
extern const EchParam ech_replay_params[];

/** One operation instance. Times are picoseconds since the run's start; half-open [start, end). */
typedef struct {
    EchId op;
    EchId queue;
    uint64_t iteration;         /**< Running number of the op's instances, 0 outside loops. */
    EchTime start, end;         /**< end - start includes set-up. */
    EchTime waits[ECH_N_WAITS]; /**< Before start: dependency, queue, link engine, space, host; inside: what sharing cost. */
    uint32_t resource;          /**< What bounded it: index into resources, or ECH_NONE. */
    uint32_t awaited;           /**< Number of the rank (EchReplayRank.number) that it waited for, the last to come; ECH_NONE where it waited for none. */
} EchSpan;

/** Iterations of a loop that were skipped because they repeat exactly. Spans before @time show the repeating pattern. */
typedef struct {
    EchId loop;
    uint64_t first, count; /**< Iterations [first, first + count). */
    EchTime time, period;  /**< They took [time, time + count * period). */
} EchSkip;

typedef struct {
    EchTime time;
    EchBytes live;     /**< Bytes of live buffers (rounded as the allocator rounds). */
    EchBytes reserved; /**< Taken from the device: by the allocator, beside it, and the extent of fixed offsets. */
} EchPoint;

typedef struct {
    char *name;
    EchBytes capacity, available;      /**< 0: unlimited or not known to the device. */
    EchBytes on_device;                /**< Unified memory: the device's part of it; available counts the host's too. 0: it is none. */
    EchBytes untold;                   /**< Of unified memory: most at one time, in blocks used in parts, of which it is not known when they are used. */
    EchBytes managed;                  /**< Of the device's memory: most of managed buffers at one time, which lie there or on the host; 0: there are none. */
    EchBytes peak_together;            /**< Of a memory that the host's lies within: most that it and the host's held at one time; else 0. */
    EchBytes paged_in, paged_out;      /**< Managed buffers, unified memory: bytes that came to the device (touched, or prefetched), and went (to make room). */
    EchBytes context;                  /**< Taken by the context of a process whose allocator serves this memory: not in available. */
    EchBytes peak_live, peak_reserved; /**< As EchPoint's. */
    EchTime peak_at;                   /**< When peak_live was first reached. */
    uint64_t peak_born;                /**< The same counted as in EchPlaced: live then is what has born <= peak_born < died. */
    EchBytes end_live;
    EchBytes fixed_extent;  /**< Highest end of a buffer with a fixed offset. */
    EchBytes read, written; /**< Traffic of kernels, copies and collectives. */
    EchBytes cached;        /**< Of read and written, what a cache before this memory has, as far as a kernel model knows. */
    EchTime busy;           /**< Port time at full rate. */
    double utilisation;     /**< busy / makespan. */
    uint64_t allocs, frees, failed;
    double fragmentation; /**< 1 - peak_live / peak_reserved; 0 where nothing is reserved. */
    EchAllocStats alloc;  /**< Of the allocator, zeros where there is none. */
    char *allocator;      /**< Canonical spec, "fixed" (a compiler's plan), or "counted". */
    EchPoint *series;     /**< series[n_series], ascending time. */
    size_t n_series;
} EchMemoryRun;

typedef struct {
    char *name;
    EchBytes forward, backward;          /**< Bytes to the device, and from it (collectives: sent, received). */
    EchTime busy_forward, busy_backward; /**< Time at least one transfer ran. */
    EchTime busy;                        /**< Time at least one ran in either direction. */
    double utilisation;                  /**< Bytes over what both directions could carry in the makespan. */
    uint64_t transfers;
} EchLinkRun;

typedef struct {
    char *name;
    EchTime busy; /**< Time at full rate. */
    double utilisation;
    double flops; /**< Operations done (multiply-add is two). */
} EchUnitRun;

typedef struct {
    EchId queue;
    EchTime busy; /**< Time an operation of it ran. */
    uint64_t ops;
    EchTime waits[ECH_N_WAITS];
} EchQueueRun;

/** Where an allocation went. */
typedef struct {
    EchId op; /**< The ALLOC, or ECH_NONE for buffers there from the start or placed by a plan. */
    EchId buffer;
    uint64_t iteration;
    EchTime begin, end;  /**< Life; end is the makespan where it is never freed. */
    uint64_t born, died; /**< The same counted in allocations and frees of its memory, for what happens in one instant; UINT64_MAX: never freed. */
    EchPlacement place;
} EchPlaced;

typedef struct {
    EchId buffer;
    EchBytes bytes;
    uint64_t address;
} EchHolder;

/** The first thing that did not fit. */
typedef struct {
    char *memory;
    EchId op;     /**< Op that asked, or ECH_NONE for what is too large from the start. */
    EchId buffer; /**< ECH_NONE: all that is there from the start, or the plan. */
    EchTime time;
    EchBytes asked; /**< Bytes of the request, or of all that is there from the start. */
    EchBytes live, reserved, limit;
    EchBytes direct;    /**< Of live and reserved, what lies beside the allocator. */
    EchBytes elsewhere; /**< What other processes had of the device's memory then; not in limit. */
    EchFit fit;         /**< FULL or FRAGMENTED. */
    EchBytes kept;      /**< Of what is reserved and not live, what no cache gives back for this request (ech_allocator_kept; all of it for one beside it). */
    EchHolder *holders; /**< holders[n_holders]: the largest live buffers, largest first, at most 16. */
    size_t n_holders;
} EchFailure;

typedef struct {
    char *engine; /**< "native" or "simgrid". */
    char *engine_version;
    uint64_t trace_hash, device_hash;
    char *options;                  /**< As key=value. */
    uint64_t kernels[ECH_N_PRICES]; /**< Kernel ops (static) by how they were priced. */
    uint64_t executed;              /**< Op instances executed one by one; ops - executed were skipped as steady. */
    uint64_t events;                /**< Ends the engine reported. */
} EchProvenance;

/** The result. Owns everything below it. */
typedef struct {
    EchTime makespan;
    uint64_t ops;   /**< Op instances, skipped ones included. */
    bool completed; /**< False when an allocation failed and the run stopped there. */
    bool fits;
    EchFailure failure; /**< Valid where !fits. */
    EchSpan *spans;     /**< spans[n_spans], in order of end; loops and zero-time ops (alloc, free, signal, mark) only where they waited. */
    size_t n_spans;
    uint64_t spans_left_out;
    EchSkip *skips;
    size_t n_skips;
    char **resources; /**< resources[n_resources]: names a span's resource points to. */
    size_t n_resources;
    EchMemoryRun *memories;
    size_t n_memories;
    EchLinkRun *links;
    size_t n_links;
    EchUnitRun *units;
    size_t n_units;
    EchQueueRun *queues; /**< One per queue of the trace. */
    size_t n_queues;
    EchPlaced *placed;
    size_t n_placed;
    EchTime waits[ECH_N_WAITS]; /**< Sums over all instances. */
    EchTime lower_bound;        /**< No schedule of this trace on this device is shorter: busiest queue and busiest resource. */
    EchTime host_launch;        /**< What asking for a kernel or a copy took of the host's time; 0: nothing was charged. */
    EchTime host_operator;      /**< What an operator of the framework took of it besides; 0: that was in host_launch. */
    uint64_t host_waits;        /**< Where that was charged, how often the host waited for the device and asked for more then. */
    EchTime kernel_gap;         /**< What lies between kernels that follow one another in a queue; 0: nothing. */
    EchTime after_wait;         /**< What it was said to do then; 0: nothing. */
    EchSharing share;           /**< How the device was shared with the other runs of ech_replay_run_together. */
    EchTime serial;             /**< Every instance alone, one after the other. */
    EchPrice *prices;           /**< prices[n_ops of the trace]: what one instance costs alone, and where that came from. */
    size_t n_prices;
    EchProvenance provenance;
    EchDiag *diag; /**< Remarks and counters. */
} EchRun;

/** Replays @trace on @device. @reference is the device that the trace's estimates and recorded times hold for (normally @device before
 * --set changed it; NULL means @device). ECH_ERROR_CONFIG (an allocator's spec, a memory the device does not have), ECH_ERROR_UNSUPPORTED (max_ops),
 * ECH_ERROR_BACKEND (engine). */
EchRun *ech_replay_run(const EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchReplayOptions *options,
                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_run_free(EchRun *run);
/** How often each span of @run, a replay of @trace, happened: 1, and once more for every iteration of a loop that was skipped because it repeats it. Owned by
 * the caller: counts[run->n_spans]. */
uint64_t *ech_run_span_counts(const EchRun *run, const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchRun, ech_run_free)

/** One of several ranks of a program: what ech_replay_run takes. */
typedef struct {
    const EchTrace *trace;
    const EchDevice *device, *reference;
    const EchReplayOptions *options;
    uint32_t number; /**< What the rank is called. */
} EchReplayRank;
enum { ECH_MAX_RANKS = 64 };
/** Replays the @ranks[n], each on a device of its own, or with options.share as processes on one, together, from the same moment on: a collective, or a
 * message, begins on all of its ranks that are there (EchOp.launch says whom it meets) when the last of them has come to it; what is sent, and finds room in a
 * buffer on its way, does not wait for its receiver. Runs are the native engine's, and the serial time of each is that of all. A rank that waits for one that
 * has run out of memory does not complete. ret_runs[n]; untouched on failure. Errors as of ech_replay_run, ECH_ERROR_CONFIG also for processes on different
 * devices or one that is no GPU, ECH_ERROR_UNSUPPORTED for traces with loops in which somebody could be met and for ranks that wait for one another in a
 * circle. */
bool ech_replay_run_together(const EchReplayRank *ranks, size_t n, EchRun **ret_runs, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** Called about ten times a second with instances done and an estimate of all; for a progress bar. NULL: none. Process-wide. */
typedef void (*EchReplayProgress)(uint64_t done, uint64_t total, void *data);
void ech_replay_set_progress(EchReplayProgress progress, void *data);
