/** @file exact_search.h
 * The search behind the exact planner.
 */
#pragma once
#include "models/alloc/plan.h"

/** Improves the legal one-heap plan in @solution until it is proved lowest, the monotonic clock passes @deadline_us, @problem says stop, or @step_limit
 * (0: none) steps are done. Sets proved_optimal, out_of_time, too_large and steps. */
void ech_exact_improve(const EchPlanProblem *problem, EchPlanSolution *solution, gint64 deadline_us, uint64_t step_limit);
