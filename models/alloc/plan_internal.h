/** @file plan_internal.h
 * What planners share: the life of a co-location group as pieces. Not for callers of planners.
 */
#pragma once
#include "models/alloc/plan.h"

/** While it lasts, a group needs this many bytes: those of its largest live member. */
typedef struct {
    int64_t begin, end; /**< Half-open, not empty. */
    EchBytes bytes;     /**< Not 0. */
    uint32_t group;
} EchPlanPiece;

/** Pieces of all groups (EchPlanPiece), by group, then time; disjoint within a group. Owned by the caller. */
GArray *ech_plan_pieces(const EchPlanProblem *problem) G_GNUC_WARN_UNUSED_RESULT;
/** Index of the first of the ascending times[n] that is not below @time; n if there is none. */
uint32_t ech_plan_slot(const int64_t *times, uint32_t n, int64_t time);
