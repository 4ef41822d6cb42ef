/** @file fixed.h
 * Events under placements that are made in advance, all lives known: what a planner or a compiler decided, in the same figures as an online
 * allocator's (events.h), so that the two can stand in one table.
 */
#pragma once
#include "models/alloc/events.h"
#include "models/alloc/plan.h"

#define ECH_FIXED_NONE UINT64_MAX /**< Offset of an allocation that the plan does not place. */

/** The life of each ALLOC event, in their order: half-open, in indices of events; to the end where it is never freed. A second ALLOC of an id
 * that is live ends the first. Owned by the caller (EchPlanItem). */
GArray *ech_alloc_lives(const EchAllocEvent *events, size_t n) G_GNUC_WARN_UNUSED_RESULT;

/** Replays events[n] with ALLOC event k at offsets[k]. An allocation that ends above @capacity, or has no offset, fails; reserved is the
 * height of the plan whether it fits or not. Allocations may share bytes (in-place updates): live bytes count what is asked for, but
 * never above the height. EchPlacedEvent are appended to @placed (may be NULL). */
EchAllocOutcome ech_alloc_run_fixed(const EchAllocEvent *events, size_t n, const uint64_t *offsets, EchBytes capacity, GArray *placed);
