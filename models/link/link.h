/** @file link.h
 * What a link costs: copies by size, collectives by algorithm. Plain numbers in and out.
 */
#pragma once
#include "models/device/device.h"

/** The price of one copy that runs alone: first @fixed (set-up and latency, no bandwidth used), then the bytes, which take at least @minimum. */
typedef struct {
    EchTime fixed;
    EchTime minimum;
} EchCopyCost;

/** Cost of @bytes over @link. Where the link has a size curve and @curve is true, minimum is the curve's time (linear in time between points,
 * the last point's rate beyond, the first point's time below) times @scale_num / @scale_den (a what-if on the link's rate: old over new), and fixed is 0: curves are
 * measured with set-up in them. Otherwise fixed = setup + latency. */
EchCopyCost ech_link_copy_cost(const EchLink *link, EchBytes bytes, bool curve, EchRate scale_num, EchRate scale_den);

typedef enum {
    ECH_ALGORITHM_NONE,      /**< One device: nothing to send. */
    ECH_ALGORITHM_RING,      /**< Ring over a switch: every device sends to the next. */
    ECH_ALGORITHM_TREE,      /**< Double binary tree over a switch: fewer steps, for small operands. */
    ECH_ALGORITHM_DIRECT,    /**< Every pair at once over a switch, or one transfer. */
    ECH_ALGORITHM_TORUS,     /**< Bidirectional rings on the axes of a torus. */
    ECH_N_ALGORITHMS,
} EchAlgorithm;
const char *ech_algorithm_name(EchAlgorithm algorithm);

typedef enum { ECH_COMM_ALL_REDUCE, ECH_COMM_ALL_GATHER, ECH_COMM_REDUCE_SCATTER, ECH_COMM_ALL_TO_ALL, ECH_COMM_PERMUTE, ECH_COMM_BROADCAST } EchComm;

/** What a collective asks of one device: bytes it sends (and receives as many) over @ports of its links at once, after @steps latencies. */
typedef struct {
    EchAlgorithm algorithm;
    uint32_t steps;   /**< Latencies one after the other. */
    uint32_t ports;   /**< Links of the device used at once, >= 1 where bytes > 0. */
    double bytes;     /**< Through all those ports together, one way, on the busiest device. */
} EchCollectiveCost;

/** Cost of a collective of @group devices with @bytes of operand on each. @torus: devices are the points of a torus with ports / 2 axes (TPU), else ends of a switch
 * (NVLink). An axis of length 2 or less has one link to the other device, not a ring. Group sizes are spread over as many axes as give sides of 2 and more,
 * near-square first.
 * Sources: rings send (n-1)/n of the result per phase, so all-gather V(n-1)/n, all-reduce twice that (jax-ml/scaling-book, sharding: cost independent of n on a
 * bidirectional ring, T = V / (both directions), one hop latency per step); all-to-all a quarter of an all-gather on a ring (same place); double binary trees send the operand
 * up and down once with 2 log2 n steps (NCCL 2.4 release note). Where ring and tree are both possible the faster one at @rate and @latency is taken. */
EchCollectiveCost ech_collective_cost(EchComm comm, uint32_t group, EchBytes bytes, uint32_t ports, bool torus, EchRate rate, EchTime latency);
