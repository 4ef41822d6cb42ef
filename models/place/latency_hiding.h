/** @file latency_hiding.h
 * Where XLA's latency-hiding scheduler begins copies between the device and the host, and where it waits for them.
 *
 * A list scheduler that goes from a computation's end to its beginning: of what is ready it takes what its rules prefer, and a copy's start is ready once the
 * copy would be over, alone on its link. So a copy begins as long before its wait as it takes, earlier where nothing else is ready, and no more than so many
 * are under way. Kernels keep their order here. Memory counts from half its limit on: what would go beyond it waits.
 *
 * Source: openxla/xla xla/service/latency_hiding_scheduler.cc (ReadySetLt, MemoryPressureTracker), with its aggressive policies; how many copies TPUs have
 * under way, and their limit of memory: observed of libtpu 0.0.52 (validation/what_ifs.md).
 */
#pragma once
#include "sim/base/units.h"

#include <stdbool.h>
#include <stdint.h>

/** What runs in its order: a kernel, a loop, with what is allocated before and given back after it. */
typedef struct {
    EchTime length;
    uint32_t depth;  /**< Copies that what it reads has come by, one behind the other, at most. */
    uint32_t copies; /**< Under way at a time inside of it, at most. */
    bool waits;      /**< Some copy's wait stands right before it by what it reads. */
    int64_t before;  /**< Bytes live before it; what copies bring counts from the computation's beginning on, what they take away up to its last use. */
    int64_t most;    /**< The same, most while it runs. */
} EchHideStep;

typedef struct {
    bool to_device;
    EchTime length; /**< Alone on its link. */
    uint32_t depth; /**< Of what it reads, as EchHideStep.depth. */
    int64_t bytes;  /**< Of the device's memory: taken from its start on, or until it is waited for. */
    uint32_t after; /**< Number of steps that must be over when it starts. */
    uint32_t until; /**< Step before which it is waited for, at the latest; the number of steps: at the end. */
    uint32_t used;  /**< From the device: number of steps after which nothing else uses what it takes away. */
} EchHideCopy;

/** Copy @done is waited for before copy @start starts; @done < @start. */
typedef struct {
    uint32_t done, start;
} EchHideOrder;

/** How a compiler's scheduler is set. */
typedef struct {
    uint32_t limit; /**< Copies under way at a time, at most. */
    bool backs_up;  /**< Copies of arguments start sooner where others could be under way in their place. */
    bool by_depth;  /**< What has come by more copies is waited for later. */
} EchHideRules;

/** Of GPUs, or of the TPU whose key among compilers' rules (EchDevice.compiler) is @compiler; of one that is not known as of the latest. */
EchHideRules ech_hide_rules(bool gpu, const char *compiler);

typedef struct {
    const EchHideStep *steps;
    uint32_t n_steps;
    int64_t at_end; /**< Bytes live after the last step, as EchHideStep.before. */
    const EchHideCopy *copies;
    uint32_t n_copies;
    const EchHideOrder *orders;
    uint32_t n_orders;
    EchHideRules rules; /**< Its limit: at least what a step has inside. */
    EchBytes memory;    /**< Bytes that the scheduler keeps to. */
} EchHideProblem;

/** A copy starts, or is waited for, before a step (the number of steps: at the end). */
typedef struct {
    uint32_t copy, step;
    bool done;
} EchHideEvent;

/** @ret[2 * n_copies] in the order of time. Returns the most bytes live, as the scheduler counts; *@ret_flying, if not NULL: copies under way at a time. */
int64_t ech_hide_latencies(const EchHideProblem *problem, EchHideEvent *ret, uint32_t *ret_flying);
