/** @file bursts.h
 * How long a kernel's work waits for its copies, gone through in their order: one after the other at HBM's rate, each begun where the kernel begins it and
 * waited for where the kernel waits. What comes in bursts, a group's weights beside steps that fetch little, cannot all pass beneath the work, however much of
 * that there is. The chip is not known while a kernel is gone through, so that is done at many rates at once.
 */
#pragma once
#include "sim/base/units.h"

/** From 2^ECH_BURST_FIRST bytes a cycle of work on, each 2^(1/8) times the one before, to 2^16: work is counted as for one chip, of which others do half to
 * twice as much in a cycle, and chips' HBM has 400 to 2,000 bytes a cycle. */
#define ECH_BURST_RATES 81
#define ECH_BURST_FIRST 6

/** Beside @worked cycles of work. */
typedef struct {
    double worked;
    double waited[ECH_BURST_RATES]; /**< Cycles, at each rate. */
} EchBurstWaits;

/** When something happens, at each rate, in cycles. */
typedef struct {
    double at[ECH_BURST_RATES];
} EchBurstTimes;

/** A kernel that is gone through; zeroed at first. */
typedef struct {
    EchBurstWaits waits;
    EchBurstTimes idle; /**< When what has been begun is done. */
} EchBursts;

/** The kernel works for so many cycles. */
void ech_bursts_work(EchBursts *bursts, double cycles);
/** It begins a copy. *ret: when that is done; long ago, where nothing is copied. */
void ech_bursts_begin(EchBursts *bursts, double bytes, EchBurstTimes *ret);
/** It waits for a copy. */
void ech_bursts_wait(EchBursts *bursts, const EchBurstTimes *done);
/** Cycles that it waits where its work takes @work cycles, of @rate bytes each. */
double ech_bursts_waited(const EchBurstWaits *waits, double work, double rate);
