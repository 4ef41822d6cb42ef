/** @file rank_times.h
 * Where the time of ranks that were replayed together goes: what each of them does at each moment, whom it waits for, and what that one does meanwhile.
 */
#pragma once
#include "sim/report/report.h"

/** What a rank does at a moment; each hides those after it. */
typedef enum {
    ECH_RANK_KERNELS,       /**< At least one kernel of its device runs, or a copy from or to the host. */
    ECH_RANK_COMMUNICATION, /**< None does, and a collective, a message or a copy to another device is on its way. */
    ECH_RANK_WAITS,         /**< Nothing runs, and something waits for another rank: the bubble. */
    ECH_RANK_IDLE,          /**< Nothing runs otherwise: the host's launches, mostly. */
    ECH_N_RANK_STATES,
} EchRankState;
/** "kernels", "communication", "waits", "idle". */
const char *ech_rank_state_name(EchRankState state);

/** Half-open [start, end), picoseconds. */
typedef struct {
    EchTime start, end;
    EchRankState state;
    uint32_t span; /**< WAITS: of the run's spans, the one whose wait ends first of those that go on; else ECH_NONE. */
} EchRankStretch;

/** Waiting of one rank for another, in the step that is told. */
typedef struct {
    uint32_t rank, awaited; /**< Their places among the reports. */
    EchTime time;
    uint64_t times;                       /**< Operations that waited. */
    EchTime meanwhile[ECH_N_RANK_STATES]; /**< What the awaited one did; their sum is at most time: it may have ended. */
    const char *at;                       /**< Name of the operations that waited longest, and how long; borrowed from the trace. */
    EchTime at_time;
} EchRankWait;

typedef struct {
    uint64_t number;           /**< As its capture says it, else its place. */
    EchRankStretch *stretches; /**< stretches[n_stretches], from 0 to the end of its run, without gaps. */
    size_t n_stretches;
    EchTime start, end;               /**< Of the step that is told; without steps of its run. */
    EchTime times[ECH_N_RANK_STATES]; /**< In the step; their sum is end - start. */
} EchRankTimes;

typedef struct {
    const EchReport *reports; /**< Borrowed. */
    EchRankTimes *ranks;      /**< ranks[n] */
    size_t n;
    bool devices;       /**< They are devices of one process, or of several that one recording holds: */
    bool processes;     /**< of several. */
    EchSharing share;   /**< They are processes on one device. */
    size_t which, of;   /**< The step is number @which (from 0) of those that all have, the middle one; of = 0: there are none. */
    EchRankWait *waits; /**< waits[n_waits], longest first. */
    size_t n_waits;
} EchRanks;

/** Of @reports[n], in order of their numbers. Owned by the caller. */
EchRanks *ech_ranks_new(const EchReport *reports, size_t n) G_GNUC_WARN_UNUSED_RESULT;
void ech_ranks_free(EchRanks *ranks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchRanks, ech_ranks_free)

/** The rank that the others wait for longest, and its kernels beside theirs. */
typedef struct {
    size_t rank;         /**< Its place. */
    EchTime waited;      /**< By all others, for it. */
    EchTime own, others; /**< Time of its kernels in the step; the others' middle one's. */
    const char *name;    /**< Of its kernels that take longer, those that differ most; borrowed. NULL where none do. */
    EchTime name_own, name_others;
} EchRankSlowest;
/** False, and *ret untouched, where nobody waits. */
bool ech_ranks_slowest(const EchRanks *ranks, EchRankSlowest *ret);
