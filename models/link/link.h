/** @file link.h
 * What a link costs: copies by size, collectives by algorithm. Plain numbers in and out.
 */
#pragma once
#include "models/device/device.h"

/** What @bytes over @link, to the device (@forward) or from it, take beyond their time at the link's rate: set-up and latency, during which no bandwidth is
 * used. Where the link has a size curve and @curve is true: the curve's time (linear in time between points, the last point's rate beyond, the first point's
 * time below) less the bytes at the rate that the curve was measured beside, so that a what-if on the rate leaves the set-up. Otherwise setup + latency. */
EchTime ech_link_overhead(const EchLink *link, bool forward, EchBytes bytes, bool curve);

typedef enum {
    ECH_ALGORITHM_NONE,   /**< One device: nothing to send. */
    ECH_ALGORITHM_RING,   /**< Ring over a switch: every device sends to the next. */
    ECH_ALGORITHM_TREE,   /**< Double binary tree over a switch: fewer steps, for small operands. */
    ECH_ALGORITHM_DIRECT, /**< Every pair at once over a switch, or one transfer. */
    ECH_ALGORITHM_TORUS,  /**< Bidirectional rings on the axes of a torus. */
    ECH_N_ALGORITHMS,
} EchAlgorithm;

typedef enum { ECH_COMM_ALL_REDUCE, ECH_COMM_ALL_GATHER, ECH_COMM_REDUCE_SCATTER, ECH_COMM_ALL_TO_ALL, ECH_COMM_PERMUTE, ECH_COMM_BROADCAST } EchComm;

/** How the groups of a collective lie among the devices of a program. */
typedef struct {
    uint32_t size;    /**< Devices of a group. */
    uint32_t devices; /**< Of all groups together. */
    uint32_t stride;  /**< From a group's first device to its second; 0 for groups of one. */
} EchGroup;
/** Reads XLA's list: "{{0,4},{1,5}}" or "[4,2]<=[2,4]T(1,0)". False where it is neither. */
bool ech_group_read(const char *text, size_t n, EchGroup *ret);
/** Reads "devices=8 stride=4", as traces keep it. */
bool ech_group_parse(const char *text, uint32_t size, EchGroup *ret);
/** Links between neighbours of a group where all groups talk at once, which is also by how much each link is shared: 1 where neighbours are neighbours on the
 * torus. Devices count along the torus' axes, the first fastest, in near-square slices, smallest side first (v6e-8 is 2 x 4); @cores of them make a chip. */
uint32_t ech_group_reach(const EchGroup *group, uint32_t ports, uint32_t cores);

/** What a collective asks of one device: bytes it sends (and receives as many) over @ports of its links at once, after @steps latencies. */
typedef struct {
    EchAlgorithm algorithm;
    uint32_t steps; /**< Latencies one after the other. */
    uint32_t ports; /**< Links of the device used at once, >= 1 where bytes > 0. */
    double bytes;   /**< Through all those ports together, one way, on the busiest device. */
} EchCollectiveCost;

/** Cost of a collective of @group devices with @bytes of operand on each. @torus: devices are the points of a torus with ports / 2 axes (TPU), else ends of a
 * switch (NVLink). An axis of length 2 or less has one link to the other device, not a ring. Group sizes are spread over as many axes as give sides of 2 and
 * more, near-square first. Sources: rings send (n-1)/n of the result per phase, so all-gather V(n-1)/n, all-reduce twice that (jax-ml/scaling-book, sharding:
 * cost independent of n on a bidirectional ring, T = V / (both directions), one hop latency per step); all-to-all a quarter of an all-gather on a ring (same
 * place); double binary trees send the operand up and down once with 2 log2 n steps (NCCL 2.4 release note). Where ring and tree are both possible the faster
 * one at @rate and @latency is taken. */
EchCollectiveCost ech_collective_cost(EchComm comm, uint32_t group, EchBytes bytes, uint32_t ports, bool torus, EchRate rate, EchTime latency);
