/** @file transfer_waits.h
 * Where a run stands still for copies and collectives: nothing computes, and what would is waiting for a transfer. Which operation waited, for which transfer,
 * how long, and why that long: when the transfer was asked for, how long others were before it, how long it took.
 */
#pragma once
#include "sim/report/report.h"

/** All waits of an operation for a transfer, and of those called the same, from the same place, for as many bytes between the same memories. */
typedef struct {
    EchId waiter;   /**< Of the longest of them: what the transfer is for, where the trace tells, else what its queue runs next: an operation, or ECH_NONE: the
                       end. */
    EchId transfer; /**< COPY or COLLECTIVE; of several copies waited for together the one that took longest of the wait. */
    uint64_t count; /**< Times that it waited. */
    size_t n_alike; /**< Pairs whose names differ in the number they end in alone, taken together where there are many; 1: it is one. */
    EchTime time;   /**< Sum of all, without what ran a kernel meanwhile and what another wait has already. */
    /** Of the longest of them. The wait is behind + peers + took + after - ahead, but for kernels that ran in it. */
    EchTime ahead;  /**< The transfer could begin that long before the wait began; 0 where kernels' own queue runs it. */
    EchTime behind; /**< It stood behind others of its queue or link. */
    EchTime peers;  /**< Then it waited for other ranks. */
    EchTime took;   /**< Set-up included. */
    EchTime after;  /**< Then others of its queue that were waited for with it. */
    bool own_queue; /**< The transfer is in the queue of kernels, which wait for it there. */
} EchTransferWait;

typedef struct {
    EchTransferWait *waits; /**< waits[n], longest first. */
    size_t n;
    EchTime total; /**< Sum of their times: a part of the run's. */
    EchTime least; /**< Of the total, what stays whenever transfers are asked for: no schedule of the run is shorter than its lower bound. */
} EchTransferWaits;

/** Owned by the caller; n is 0 where nothing waits, nothing computes, or not all that ran was kept. */
EchTransferWaits *ech_transfer_waits_new(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
void ech_transfer_waits_free(EchTransferWaits *waits);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTransferWaits, ech_transfer_waits_free)

/** The terminal's list of the longest, in lines of at most @columns; nothing where all of them are less than a hundredth of the run. */
void ech_report_append_transfer_waits(GString *out, const EchReport *report, unsigned columns);
/** The member "transfer_waits" of an object that is being built: `{total_ps, least_ps, longest[]}`; nothing where there is none. */
void ech_report_build_transfer_waits(JsonBuilder *b, const EchReport *report);
