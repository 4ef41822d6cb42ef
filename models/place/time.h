/** @file time.h
 * How long a placed program takes by the compiler's own cost analysis: every instruction by where its arrays lie, and waits for copies that are not done.
 *
 * Copies progress in the time in which instructions leave the slow memory alone, in order of their start, each direction by itself; both at once share the
 * bandwidth. A copy in a loop is started and waited for in every iteration. The rules of XLA's runtime simulator for memory-space assignment.
 */
#pragma once
#include "models/place/msa.h"

typedef struct {
    double slow_bytes_per_s, fast_bytes_per_s;
    const float *compute;  /**< [n_steps] seconds of arithmetic. */
    const float *total;    /**< [n_steps] bytes accessed. */
    const uint64_t *trips; /**< [n_steps] how often a step runs. */
} EchPlaceTimes;

typedef struct {
    double work;  /**< Seconds of instructions alone. */
    double waits; /**< Seconds spent waiting for copies. */
} EchPlaceTime;

/** @result NULL: everything in the slow memory. */
EchPlaceTime ech_place_time(const EchMsaProblem *problem, const EchMsaResult *result, const EchPlaceTimes *times);
