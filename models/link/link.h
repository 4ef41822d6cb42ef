/** @file link.h
 * What a link costs: copies by size, collectives by algorithm. Plain numbers in and out.
 */
#pragma once
#include "models/device/device.h"

/** What @bytes over @link, to the device (@forward) or from it, take beyond their time at the link's rate: set-up and latency, during which no bandwidth is
 * used. Where the link has a size curve and @curve is true: the curve's time (linear in time between points, the last point's rate beyond, the first point's
 * time below) less the bytes at the rate that the curve was measured beside, so that a what-if on the rate leaves the set-up. Otherwise setup + latency. */
EchTime ech_link_overhead(const EchLink *link, bool forward, EchBytes bytes, bool curve);

/** What @bytes take over @link alone, what they take beyond its rate included. */
EchTime ech_link_time(const EchLink *link, bool forward, EchBytes bytes);

typedef enum {
    ECH_ALGORITHM_NONE,   /**< One device: nothing to send. */
    ECH_ALGORITHM_RING,   /**< Ring over a switch: every device sends to the next. */
    ECH_ALGORITHM_TREE,   /**< Double binary tree over hosts, a chain in each: fewer steps, for small operands. */
    ECH_ALGORITHM_SWITCH, /**< The switch adds up and hands round (NVLink SHARP, NCCL's NVLS). */
    ECH_ALGORITHM_DIRECT, /**< Every pair at once over a switch, or one transfer. */
    ECH_ALGORITHM_TORUS,  /**< Bidirectional rings on the axes of a torus. */
} EchAlgorithm;

typedef enum { ECH_COMM_ALL_REDUCE, ECH_COMM_ALL_GATHER, ECH_COMM_REDUCE_SCATTER, ECH_COMM_ALL_TO_ALL, ECH_COMM_PERMUTE, ECH_COMM_BROADCAST } EchComm;

/** How the groups of a collective lie among the devices of a program. */
typedef struct {
    uint32_t size;    /**< Devices of a group. */
    uint32_t devices; /**< Of all groups together. */
    uint32_t stride;  /**< From a group's first device to its second; 0 for groups of one. */
    bool back;        /**< Of a permutation: every device sends to the one before it, else to the one after it. */
    bool sparse;      /**< Run by a TPU's sparse cores. */
} EchGroup;
/** Reads XLA's list: "{{0,4},{1,5}}", "[4,2]<=[2,4]T(1,0)" or "mesh['a'=4,'b'=2] {'b'}". False where it is none of them. */
bool ech_group_read(const char *text, size_t n, EchGroup *ret);
/** Reads XLA's list of a permutation's pairs, "{{0,1},{1,2},{2,0}}": a group is those that follow one another. False where they do not all send to their
 * neighbour in such a group, round its end or not. */
bool ech_group_read_pairs(const char *text, size_t n, EchGroup *ret);
/** Reads "devices=8 stride=4" or "devices=8 stride=4 back", as traces keep it. */
bool ech_group_parse(const char *text, uint32_t size, EchGroup *ret);
/** Appends what ech_group_parse() reads. */
void ech_group_print(const EchGroup *group, GString *out);
/** What a collective asks of one device: bytes it sends (and receives as many) over @ports of its links at once, after @steps latencies. */
typedef struct {
    EchAlgorithm algorithm;
    uint32_t steps;         /**< Latencies one after the other. */
    uint32_t ports;         /**< Links of the device used at once, >= 1 where bytes > 0. */
    uint32_t lanes;         /**< Which ones, of a torus: bit 2a for the way up axis a, bit 2a + 1 for the way down; each carries bytes / ports. 0: not known. */
    double bytes;           /**< Through all those ports together, one way, on the busiest device. */
    uint32_t network_steps; /**< Latencies of the network besides, and bytes through the device's own part of it, one way. */
    double network_bytes;
} EchCollectiveCost;

/** What joins the devices of a group: links to a switch and, where the group is of several hosts, a network between those. */
typedef struct {
    uint32_t ports; /**< Links of a device to the switch. */
    EchRate rate;   /**< Of one of them. */
    EchTime latency;
    uint32_t local;       /**< Devices of the group on a host; 0: all. */
    EchRate network_rate; /**< Of a device's own part of the network, one way. */
    EchTime network_latency;
} EchFabric;
/** Cost of a collective of @group devices with @bytes of operand on each, ends of a switch (NVLink). Rings send (n-1)/n of the result per phase; double binary
 * trees send the operand up and down once, and the devices of a host are a chain of theirs: 2 (local - 1) steps and 2 log2 hosts (NCCL src/graph/tuning.cc), so
 * that within a host a ring is never slower; two hosts send each half of the data one way up and the other down, more do so twice. Where both are possible the
 * one that is sooner on @fabric is taken. A broadcast goes round a ring (as there). Between hosts as many rings or trees run as a host has devices in the
 * group, each of them through another one's part of the network (NCCL's search keeps to the network interface nearest to a GPU, and to as many as the group has
 * GPUs there); of an all-to-all each device sends its own. */
EchCollectiveCost ech_collective_cost(EchComm comm, uint32_t group, EchBytes bytes, const EchFabric *fabric);
/** Cost of an all-reduce that each host's switch adds up: every device answers for all of its operand and takes its part of the sum, then sends that part and
 * takes all. Between hosts each device's part goes up and down a double binary tree of them (NCCL's NVLSTree). */
EchCollectiveCost ech_switch_reduction_cost(uint32_t group, EchBytes bytes, const EchFabric *fabric);

/** A collective over a switch, whole. */
typedef struct {
    EchCollectiveCost cost;
    EchTime fixed;  /**< Launch, set-up and latencies. */
    EchTime moving; /**< Its bytes, at the rate that collectives reach. */
    bool between;   /**< Of that time, the network decides. */
} EchSwitchCost;
/** A collective of @group with @bytes of operand on each GPU, over @link to a switch, which joins @host GPUs (0: all), and over the device's link "network"
 * beyond (without one: as over the switch). Few bytes and many go by different protocols (NCCL's LL and Simple), each with a time before its bytes move
 * (runtime.collective_launch_ps, runtime.collective_bulk_ps), a share of the switch links' rate (kernel.collective_small_share, kernel.collective_share; 1
 * where the device does not say), a latency of a step (the link's own; runtime.collective_bulk_step_ps) and, between hosts, of a hop (the network link's own;
 * runtime.collective_bulk_hop_ps). An all-reduce may be added up by the switch, where the device says how soon, for each of a host's GPUs, whose parts fill one
 * after another, and how fast (runtime.collective_switch_ps, kernel.collective_switch_share). The soonest one is taken; without runtime.collective_bulk_ps
 * there is only the first. */
EchSwitchCost ech_switch_cost(const EchDevice *device, const EchLink *link, EchComm comm, const EchGroup *group, uint32_t host, EchBytes bytes);

/** An all-reduce of @bytes by kernels that servers bring with them for what is small (vLLM's and SGLang's custom ones, PyTorch's on symmetric memory,
 * TensorRT-LLM's), which read the memory of the @group's other GPUs over @link, a switch. In one of @steps each GPU reads all operands whole; in two it sums
 * its part of them, and reads the others' sums. A launch with its barriers and the first words (runtime.collective_own_ps), a second step besides
 * (runtime.collective_own_step_ps), and a share of the links' rate (kernel.collective_own_share). False, and @ret as it was, where the device does not say. */
bool ech_own_reduce_cost(const EchDevice *device, const EchLink *link, uint32_t group, unsigned steps, EchBytes bytes, EchSwitchCost *ret);

/** The links of a TPU's chips: a torus with ports / 2 axes. */
typedef struct {
    uint32_t ports; /**< Links of a chip. */
    uint32_t ring;  /**< With two axes, one of at least this length closes into a ring; with three, all do where each is a multiple of it, else none. 0: all. */
    uint32_t cores; /**< Devices of a chip, which share its links; 0 counts as 1. */
    bool one_way;   /**< Reductions that leave each device its part go round one ring, one way, but where the group is a slice as long as it is wide, or on
                     * sparse cores. */
} EchTorus;
/** Cost of a collective of @group with @bytes of operand on each device. The slice is near-square, its smallest axis first, and devices count along its axes,
 * the first fastest (a v6e-8 is 2 x 4), the cores of a chip fastest of all. A ring sends both ways at once; an axis that does not close has devices at its ends
 * with one link, through which all of their share passes; where members are not neighbours, groups share the links between them. A permutation
 * between neighbours takes one way of their axis. Bytes are those that the busiest chip sends. Sources (jax-ml/scaling-book): a gather takes V(n-1)/n over all
 * links of the busiest device, a reduction the same, whatever n; all-to-all a quarter of that on a ring; a hop's latency a step; which axes close: tpus.md,
 * "TPU Networking". */
EchCollectiveCost ech_torus_cost(EchComm comm, const EchGroup *group, EchBytes bytes, const EchTorus *torus);
