/** @file sooner.h
 * The order of a computation in which kernels that give back more memory than they take run as soon as what they need is there: weights' gradients, above all,
 * which a compiler that has memory to spare leaves for the end, with all that they are made of, and one that has not does not. All else stays in its order.
 *
 * Source: ours; XLA's schedulers for memory (openxla/xla xla/service/hlo_memory_scheduler.cc) go by the same count of bytes given back and taken.
 */
#pragma once
#include "models/place/latency_hiding.h"

/** @stays[n_steps]: steps that keep their place; of the problem, which has no copies, steps, orders and arrays count. @ret[n_steps]: steps in their order.
 * Returns how many run sooner. */
uint32_t ech_order_sooner(const EchHideProblem *problem, const bool *stays, uint32_t *ret);
