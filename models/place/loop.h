/** @file loop.h
 * Unrolled loops that are bound by memory: finds runs of repeating instructions in a schedule and decides for one iteration which values stay in the slow
 * memory, are kept in the fast one or are fetched from the previous iteration on; the decisions become hints of the uses of every iteration.
 *
 * The rules of XLA's memory-bound loop optimizer; on in the TPU compiler from v5 on, for loops of at least 6 iterations.
 */
#pragma once
#include "models/place/cost.h"
#include "models/place/flow.h"

typedef struct {
    double min_iterations;    /**< Fewer iterations are left alone: 6. */
    float desired_ratio;      /**< A fetch whose copy fits to this share is good enough: 0.7. */
    bool fully_pipelined;     /**< Fetch a whole iteration ahead even if the copy does not fit. */
    const EchPlaceChip *chip; /**< For its bandwidths. */
    const float *compute;     /**< [n_steps] seconds of arithmetic. */
    const float *total;       /**< [n_steps] bytes accessed. */
} EchLoopOptions;

/** A run of repeating instructions: steps first..last, @size of them an iteration. */
typedef struct {
    uint32_t first, last, size;
    bool optimized; /**< Long enough. */
} EchLoopFound;

/** Sets the hints of uses in @flow. Appends every run found (EchLoopFound) to @found if that is not NULL. Returns how many were optimized. */
uint32_t ech_loop_optimize(EchFlow *flow, const EchFlowInstruction *instructions, const EchLoopOptions *options, GArray *found);
