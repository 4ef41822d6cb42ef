/** @file machine.h
 * The replay state machine: one for all engines. Inside sim/replay only; replay.c makes a run of what it leaves behind.
 *
 * A queue's operations are compiled to entries, with begin and end entries for loops, and a cursor with loop counters walks over them: loops
 * expand as they run. What an op waits for is known by counts: op j of iteration k is over when done[j] > k, for queues run in order.
 */
#pragma once
#include "sim/replay/replay.h"

typedef struct EchMachine EchMachine;

/** How a run ended, and its figures. */
typedef struct {
    EchTime makespan;
    uint64_t ops, executed, events, spans, spans_left_out, n_skips, n_placed;
    uint32_t stuck; /**< Op that never became ready, or ECH_NONE: an invalid trace or too many ops. */
    bool completed, fits, too_many;
    bool too_long;          /**< Stopped: simulated time went past ECH_FLUID_END. */
    EchTime driver;         /**< Driver calls of allocators; those of skipped iterations are not in it. */
    EchFailure failure;     /**< memory is not set; see failed_memory. */
    uint32_t failed_memory; /**< Trace memory index. */
    EchHolder holders[16];
} EchOutcome;

/** Per memory of the trace. */
typedef struct {
    EchBytes live, peak_live, reserved, peak_reserved, fixed_extent;
    EchBytes context;             /**< That a process has beside what its allocator may take; 0 where none serves this memory. */
    EchBytes on_device;           /**< Of unified memory the device's part; 0 where it is none. */
    EchBytes limit;               /**< Of unified memory, all of it. */
    EchBytes untold;              /**< Of unified memory: most of what is not known to be used in blocks that are used in parts. */
    EchBytes managed;             /**< Of the device's memory: most of managed buffers at one time. */
    EchBytes peak_together;       /**< Of a memory that others lie within: most that it and they held at one time; else 0. */
    EchBytes paged_in, paged_out; /**< Of managed buffers and unified memory, to the device and from it. */
    EchTime paging;               /**< How long ops waited for that. */
    EchTime peak_at;
    uint64_t peak_born;
    uint64_t allocs, frees, failed;
    EchAllocStats alloc;
    GArray *series; /**< EchPoint */
} EchMemoryState;

/** Where spans go as they end; @user of ech_machine_drive's. */
typedef void (*EchSpanSink)(const EchSpan *span, void *user);

/** Compiles @trace. ECH_ERROR_CONFIG for an allocator's spec. Borrows everything. */
EchMachine *ech_machine_new(const EchTrace *trace, const EchDevice *device, const EchPrices *prices, const EchReplayOptions *options, EchDiag *diag,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_machine_free(EchMachine *machine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchMachine, ech_machine_free)

/** Where spans go, and a counter that is kept up to date for a progress bar (may be shared memory). Before drive. */
void ech_machine_set_sink(EchMachine *machine, EchSpanSink sink, void *user, uint64_t *progress);
/** Whether all that op @op meets in other machines, or waits for in them, is ready; asked when it could start. False: it waits until ech_machine_meet, and then
 * asks again. */
typedef bool (*EchMachineMeet)(void *user, uint32_t op);
/** Before the run. Collectives and waits ask, and with @turns the device's kernels, too. Steady loops are not skipped then. */
void ech_machine_set_meet(EchMachine *machine, EchMachineMeet meet, bool turns, void *user);
/** Whether the device has work of it: a kernel that runs, or one that was asked for and begins when the one before it has ended altogether. */
bool ech_machine_is_on_device(const EchMachine *machine);
/** Whether nothing of it is left to do. */
bool ech_machine_is_over(const EchMachine *machine);
/** What it has of the device's memory, its context included. */
EchBytes ech_machine_holds(const EchMachine *machine);
/** From now on other processes have @bytes of it. */
void ech_machine_set_elsewhere(EchMachine *machine, EchBytes bytes);
/** Runs to the end: an EchFluidDrive, @data is the machine. */
void ech_machine_drive(const EchFluidClass *class, void *engine, void *data);

/* The same in steps, for machines that run on one engine: begin; step, or meet, or unstick, until none of them goes on; finish. */

/** Starts what may start. Borrows @engine. */
void ech_machine_begin(EchMachine *machine, const EchFluidClass *class, void *engine);
/** The demands @tokens[n] have ended @now, the engine's time. A machine that has stopped takes no notice. */
void ech_machine_step(EchMachine *machine, const uint32_t *tokens, uint32_t n, EchTime now);
/** What the waiting collective @op meets is ready @now. */
void ech_machine_meet(EchMachine *machine, uint32_t op, EchTime now);
/** Nothing is live: gives up waiting for memory, or lets pass what waits for no more to end. False: there is no such thing. */
bool ech_machine_unstick(EchMachine *machine);
/** Whether it has stopped before its end: what did not fit, or took too long. */
bool ech_machine_has_stopped(const EchMachine *machine);
/** Fills the outcome. */
void ech_machine_finish(EchMachine *machine);

/* What it leaves behind; borrowed. */
EchOutcome *ech_machine_outcome(EchMachine *machine);
EchMemoryState *ech_machine_memories(EchMachine *machine);
GArray *ech_machine_skips(EchMachine *machine);  /**< EchSkip */
GArray *ech_machine_placed(EchMachine *machine); /**< EchPlaced */
int64_t *ech_machine_sums(EchMachine *machine, size_t *ret_n);
double *ech_machine_amounts(EchMachine *machine, size_t *ret_n);
/** Most demands alive at one time. */
uint32_t ech_machine_max_live(const EchMachine *machine);
/** Op instances of the whole trace, saturating. */
uint64_t ech_machine_total(const EchMachine *machine);
/** Name of the allocator of a memory: canonical spec, "fixed" or "counted". Borrowed. */
const char *ech_machine_allocator(const EchMachine *machine, uint32_t memory);
/** Time of the host that asking for a kernel or a copy takes; 0: none is charged; that of an operator beside it, or 0. And how often it waited for the
 * device before it asked for more. */
EchTime ech_machine_host_launch(const EchMachine *machine, EchTime *ret_operator, uint64_t *ret_waits);
/** After a run, how far its host was ahead of the device at the end: what the device still had to do when all was asked for; below 0: behind it. 0 where no
 * host is charged, or the run did not come to its end. */
EchTime ech_machine_host_lead(const EchMachine *machine);
/** Before the run, of a trace whose host is charged (ech_machine_host_launch): it is so far ahead when the run begins. */
void ech_machine_set_host_lead(EchMachine *machine, EchTime lead);
/** Time between kernels that follow one another in a queue; 0: none. */
EchTime ech_machine_kernel_gap(const EchMachine *machine);
/** Whether its memory is unified, and the trace a step of a program that runs it again and again: it begins with the blocks where the step before left them. */
bool ech_machine_begins_paged(const EchMachine *machine);
/** Takes them from @earlier, which has run the same step. */
void ech_machine_take_pages(EchMachine *machine, EchMachine *earlier);
/** Times the ops of the trace alone, instances counted: the busiest queue or resource, and the sum. */
void ech_machine_bounds(const EchMachine *machine, EchTime *ret_lower, EchTime *ret_serial);

/* Places in the sums (int64): waits, then queues, memories, links; and in the amounts (double): resource units done, then unit operations. */
enum { ECH_SUM_QUEUE_BUSY, ECH_SUM_QUEUE_OPS, ECH_SUM_QUEUE_WAITS, ECH_SUMS_PER_QUEUE = ECH_SUM_QUEUE_WAITS + ECH_N_WAITS };
enum { ECH_SUM_MEMORY_READ, ECH_SUM_MEMORY_WRITTEN, ECH_SUM_MEMORY_CACHED, ECH_SUMS_PER_MEMORY };
enum {
    ECH_SUM_LINK_FORWARD,
    ECH_SUM_LINK_BACKWARD,
    ECH_SUM_LINK_BUSY_FORWARD,
    ECH_SUM_LINK_BUSY_BACKWARD,
    ECH_SUM_LINK_BUSY,
    ECH_SUM_LINK_TRANSFERS,
    ECH_SUMS_PER_LINK
};
