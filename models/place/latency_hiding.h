/** @file latency_hiding.h
 * The order in which XLA's latency-hiding scheduler has a computation: kernels, and where copies between the device and the host begin and are waited for.
 *
 * A list scheduler that goes from a computation's end to its beginning: of what is ready it takes what its rules prefer, and a copy's start is ready once the
 * copy would be over, alone on its link. So a copy begins as long before its wait as it takes, earlier where nothing else is ready, and no more than so many
 * are under way. Memory counts from half its limit on: what would go beyond it waits.
 *
 * Source: openxla/xla xla/service/latency_hiding_scheduler.cc (ReadySetLt, MemoryPressureTracker); how many copies TPUs have under way, which have
 * aggressive policies, and what counts of memory: observed of libtpu 0.0.52 (validation/what_ifs.md).
 */
#pragma once
#include "sim/base/units.h"

#include <stdbool.h>
#include <stdint.h>

/** A kernel, a loop. */
typedef struct {
    EchTime length;
    uint32_t copies; /**< Under way at a time inside of it, at most. */
    bool waits;      /**< It reads what a copy brings. */
    int64_t inside;  /**< Bytes that it holds while it runs, besides arrays. */
} EchHideStep;

typedef struct {
    bool to_device;
    EchTime length; /**< Alone on its link. */
} EchHideCopy;

/** Nodes are steps, in the order that the scheduler is given them, then of each copy its start and its wait. */
#define ECH_HIDE_START(problem, copy) ((problem)->n_steps + 2 * (copy))
#define ECH_HIDE_DONE(problem, copy) ((problem)->n_steps + 2 * (copy) + 1)

/** Node @before comes before node @after. A copy's start comes before its wait in any case. */
typedef struct {
    uint32_t before, after;
    bool given; /**< Only because they are given so; else because of what they read and write. */
} EchHideOrder;

/** An array in the device's memory: there while it has users. */
typedef struct {
    int64_t bytes;
    uint32_t first_user, n_users; /**< A slice of EchHideProblem.users. */
    bool given, left;             /**< Given: from the beginning on; left: up to the end. */
    bool elsewhere;               /**< In the host's memory. */
} EchHideArray;

/** How a compiler's scheduler is set. */
typedef struct {
    uint32_t limit;  /**< Copies under way at a time, at most. */
    bool aggressive; /**< What has come by longer copies is waited for later, and kernels are as long as what they hide (aggressive_scheduling_policies). */
    bool hosts;      /**< What lies in the host's memory counts as if it lay in the device's. */
    bool given;      /**< As it is given, but for what cannot be. */
    bool first;      /**< What is brought comes before all else in the order that it is given; else right before it is used. */
    EchTime copy;    /**< How long it takes any copy for; 0: as long as its link takes. */
} EchHideRules;

/** Of GPUs, or of the TPU whose key among compilers' rules (EchDevice.compiler) is @compiler; of one that is not known as of the latest. */
EchHideRules ech_hide_rules(bool gpu, const char *compiler);

typedef struct {
    const EchHideStep *steps;
    const EchHideCopy *copies;
    const EchHideOrder *orders;
    const EchHideArray *arrays;
    const uint32_t *users; /**< Nodes, of all arrays. */
    uint32_t n_steps, n_copies, n_orders, n_arrays;
    int64_t held, elsewhere; /**< Bytes besides arrays, all along; in the host's memory, that count. */
    EchHideRules rules;      /**< Its limit: at least what a step has inside. */
    EchBytes memory;         /**< Bytes that the scheduler keeps to. */
} EchHideProblem;

/** @ret[n_steps + 2 * n_copies]: nodes in their order. Returns the most bytes live, of the device; *@ret_flying, if not NULL: copies under way at a
 * time. */
int64_t ech_hide_latencies(const EchHideProblem *problem, uint32_t *ret, uint32_t *ret_flying);
