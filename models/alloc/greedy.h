/** @file greedy.h
 * The fast heuristic, shared by the greedy planner and by searches that begin with its plan.
 */
#pragma once
#include "models/alloc/plan.h"

/** Fills @solution with the lowest plan of a few orders by best fit and lowest fit; stops at the lower bound. Returns its height. */
EchBytes ech_greedy_plan(const EchPlanProblem *problem, EchPlanSolution *solution);
