/* Links: copies by size, collectives by algorithm, against closed forms. */
#include "models/link/link.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GB UINT64_C(1000000000)
#define US ((EchTime)1000000)

static EchCollectiveCost torus(EchComm comm, uint32_t group, EchBytes bytes)
{
    EchTorus torus = {.ports = 4};
    return ech_torus_cost(comm, &(EchGroup){.size = group, .devices = group, .stride = 1}, bytes, &torus);
}

/* Two chips of a torus share one link: an all-gather sends the operand over it once. */
START_TEST(two_chips_have_one_link_between_them)
{
    EchCollectiveCost cost = torus(ECH_COMM_ALL_GATHER, 2, 1000);
    ck_assert_int_eq(cost.algorithm, ECH_ALGORITHM_TORUS);
    ck_assert_uint_eq(cost.ports, 1);
    ck_assert_uint_eq(cost.steps, 1);
    ck_assert(cost.bytes == 1000);
    ck_assert(torus(ECH_COMM_ALL_REDUCE, 2, 1000).bytes == 1000);
    ck_assert(torus(ECH_COMM_REDUCE_SCATTER, 2, 1000).bytes == 500);
}
END_TEST

/* 16 chips are 4x4: rings on two axes, all four links busy; an all-reduce is a reduce-scatter and an all-gather. */
START_TEST(square_tori_use_both_axes)
{
    EchCollectiveCost gather = torus(ECH_COMM_ALL_GATHER, 16, 1000), scatter = torus(ECH_COMM_REDUCE_SCATTER, 16, 16000),
                      reduce = torus(ECH_COMM_ALL_REDUCE, 16, 16000);
    ck_assert_uint_eq(gather.ports, 4);
    ck_assert_uint_eq(gather.steps, 4);
    ck_assert(gather.bytes == 15000);
    ck_assert(scatter.bytes == 15000);
    ck_assert(reduce.bytes == gather.bytes + scatter.bytes);
    ck_assert_uint_eq(reduce.steps, 8);
    /* A quarter of an all-gather's time on a ring: an axis of 4 moves 4/8 of the operand per direction. */
    ck_assert(torus(ECH_COMM_ALL_TO_ALL, 16, 16000).bytes == 4 * 8000.0);
}
END_TEST

/* Between hosts small all-reduces go by trees of the hosts, whose devices are chains, large ones by rings, whichever is sooner; within one host a chain is no
 * sooner than a ring. */
START_TEST(switches_choose_ring_or_tree)
{
    const EchFabric fabric = {.ports = 1, .rate = 400 * GB, .latency = US, .local = 8, .network_rate = 50 * GB, .network_latency = 5 * US};
    EchCollectiveCost small = ech_collective_cost(ECH_COMM_ALL_REDUCE, 64, 1024, &fabric);
    EchCollectiveCost large = ech_collective_cost(ECH_COMM_ALL_REDUCE, 64, UINT64_C(4) << 30, &fabric);
    ck_assert_int_eq(small.algorithm, ECH_ALGORITHM_TREE);
    ck_assert_uint_eq(small.steps, 14);
    ck_assert_uint_eq(small.network_steps, 6);
    ck_assert(small.bytes + small.network_bytes == 2 * 1024 && small.network_bytes == 2 * 1024 / 8);
    ck_assert_int_eq(large.algorithm, ECH_ALGORITHM_RING);
    ck_assert_uint_eq(large.steps + large.network_steps, 126);
    ck_assert(large.bytes + large.network_bytes == 2.0 * (double)(UINT64_C(4) << 30) * 63 / 64);
    const EchCollectiveCost one = ech_collective_cost(ECH_COMM_ALL_REDUCE, 8, 1024, &fabric), sent = ech_collective_cost(ECH_COMM_BROADCAST, 8, 1024, &fabric);
    ck_assert_int_eq(one.algorithm, ECH_ALGORITHM_RING);
    ck_assert_uint_eq(one.steps, 14);
    ck_assert(sent.algorithm == ECH_ALGORITHM_RING && sent.steps == 7 && sent.bytes == 1024);
    EchCollectiveCost all_to_all = ech_collective_cost(ECH_COMM_ALL_TO_ALL, 8, 8000, &fabric);
    ck_assert(all_to_all.bytes == 7000);
    ck_assert_uint_eq(all_to_all.steps, 1);
}
END_TEST

/* Kernels that read their peers' memory: all of it from each at once, or a part, and then the parts' sums. */
START_TEST(own_reduces_read_peers)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error), v5e = ech_device_load("tpu-v5e", NULL, &error);
    const EchLink *link = ech_device_link(device, "nvlink");
    const double rate = 18 * 23e9 * 0.778;
    EchSwitchCost one, two, few;
    ck_assert(ech_own_reduce_cost(device, link, 8, 1, UINT64_C(1) << 20, &one) && ech_own_reduce_cost(device, link, 8, 2, UINT64_C(1) << 20, &two));
    ck_assert_int_eq(one.fixed, 4900000);
    ck_assert_int_eq(two.fixed, 12300000);
    ck_assert_double_eq(one.cost.bytes, 7 << 20);
    ck_assert_double_eq(two.cost.bytes, (7 << 20) / 4.0);
    ck_assert(fabs((double)one.moving * 1e-12 / (one.cost.bytes / rate) - 1) < 1e-6 && fabs((double)two.moving * 1e-12 / (two.cost.bytes / rate) - 1) < 1e-6);
    ck_assert(ech_own_reduce_cost(device, link, 2, 1, 16384, &few));
    EchSwitchCost nccl = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = 2, .stride = 1}, 8, 16384);
    ck_assert_int_lt(few.fixed + few.moving, nccl.fixed + nccl.moving);
    EchLink slow = *link;
    slow.setup = 7 * US;
    EchSwitchCost late;
    ck_assert(ech_own_reduce_cost(device, &slow, 8, 1, UINT64_C(1) << 20, &late));
    ck_assert(late.fixed == one.fixed + 7 * US && late.moving == one.moving);
    EchSwitchCost kept = one;
    ck_assert(!ech_own_reduce_cost(v5e, link, 8, 1, 1000, &kept) && !ech_own_reduce_cost(device, link, 1, 1, 1000, &kept));
    ck_assert_int_eq(kept.moving, one.moving);
}
END_TEST

/* Over a switch, few bytes and many go by different protocols, whichever is sooner; a device that says nothing of them has one, at its links' rate. */
START_TEST(few_bytes_and_many_have_protocols)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("a100-80", NULL, &error), v5e = ech_device_load("tpu-v5e", NULL, &error);
    const EchLink *link = ech_device_link(device, "nvlink");
    const EchGroup four = {.size = 4, .stride = 1};
    EchSwitchCost few = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &four, 8, 8),
                  many = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &four, 8, UINT64_C(1) << 34);
    ck_assert_int_eq(few.fixed, 12500000); /* 6.5 us and six steps */
    ck_assert_int_lt(few.moving, 10000);
    ck_assert_int_eq(many.fixed, 57800000); /* 51.8 us and six steps of a ring */
    double rate = 12 * 23e9 * 0.847;
    ck_assert(fabs((double)many.moving * 1e-12 / (1.5 * 17179869184.0 / rate) - 1) < 1e-6);
    for (uint64_t bytes = 8; bytes < UINT64_C(1) << 34; bytes *= 2) { /* more bytes never take less time */
        EchSwitchCost one = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &four, 8, bytes),
                      two = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &four, 8, 2 * bytes);
        ck_assert_int_le(one.fixed + one.moving, two.fixed + two.moving);
    }
    EchSwitchCost nothing = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = 1}, 8, 1000);
    ck_assert_int_eq(nothing.fixed + nothing.moving, 0);
    EchLink plain = {.to_device = 100 * GB, .from_device = 100 * GB, .ports = 2, .latency = US};
    EchSwitchCost one = ech_switch_cost(v5e, &plain, ECH_COMM_ALL_GATHER, &(EchGroup){.size = 3, .stride = 1}, 0, 200 * 1000 * 1000);
    ck_assert_int_eq(one.fixed, 2 * US);
    ck_assert_int_eq(one.moving, 2000 * US);
}
END_TEST

/* Large all-reduces are added up by a switch that can; each GPU's link carries all of its operand and its part of the sum, and the network that part, of more
 * than two hosts twice. Nothing else is, and nothing of one GPU a host, by the switch of an A100 or without one. */
START_TEST(a_switch_adds_up)
{
    static const struct {
        const char *device;
        EchComm comm;
        EchGroup group;
        bool by_switch;
    } rows[] = {{"h100-sxm", ECH_COMM_ALL_REDUCE, {.size = 8, .stride = 1}, true},  {"h100-sxm", ECH_COMM_ALL_GATHER, {.size = 8, .stride = 1}, false},
                {"h100-sxm", ECH_COMM_ALL_REDUCE, {.size = 16, .stride = 1}, true}, {"h100-sxm", ECH_COMM_ALL_REDUCE, {.size = 2, .stride = 8}, false},
                {"a100-80", ECH_COMM_ALL_REDUCE, {.size = 8, .stride = 1}, false},  {"gh200", ECH_COMM_ALL_REDUCE, {.size = 4, .stride = 1}, false},
                {"gb200", ECH_COMM_ALL_REDUCE, {.size = 72, .stride = 1}, true}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDevice) device = ech_device_load(rows[i].device, NULL, &error);
        ck_assert_msg(device != NULL, "%s", error ? error->message : "");
        const EchLink *link = ech_device_link(device, "nvlink");
        const EchBytes bytes = UINT64_C(1) << 30;
        EchSwitchCost large = ech_switch_cost(device, link, rows[i].comm, &rows[i].group, link->reach, bytes),
                      small = ech_switch_cost(device, link, rows[i].comm, &rows[i].group, link->reach, 1024);
        ck_assert_msg((large.cost.algorithm == ECH_ALGORITHM_SWITCH) == rows[i].by_switch, "%s, row %zu", rows[i].device, i);
        ck_assert_int_ne(small.cost.algorithm, ECH_ALGORITHM_SWITCH);
        uint32_t local = MIN(rows[i].group.size, link->reach);
        if (rows[i].by_switch)
            ck_assert(large.cost.bytes == (double)bytes * (1 + 1.0 / local) &&
                      large.cost.network_bytes == (local < rows[i].group.size ? (double)bytes / local : 0));
    }
    const EchFabric of8 = {.ports = 18, .rate = 400 * GB, .latency = US, .local = 8, .network_rate = 50 * GB, .network_latency = 5 * US};
    ck_assert_int_eq(ech_switch_reduction_cost(1, 1000, &of8).algorithm, ECH_ALGORITHM_NONE);
    const EchCollectiveCost four = ech_switch_reduction_cost(32, 8000, &of8);
    ck_assert(four.bytes == 9000 && four.network_bytes == 2000 && four.network_steps == 4 && four.ports == 18);
}
END_TEST

/* Between hosts a ring leaves each of them once, and there are as many rings as the host has members; of one member a host, all goes over the network. */
START_TEST(hosts_are_joined_by_a_network)
{
    const EchFabric of8 = {.ports = 1, .rate = 400 * GB, .latency = US, .local = 8, .network_rate = 50 * GB, .network_latency = 10 * US};
    EchFabric of1 = of8;
    of1.local = 1;
    EchCollectiveCost eight = ech_collective_cost(ECH_COMM_ALL_GATHER, 64, 8000, &of8), one = ech_collective_cost(ECH_COMM_ALL_GATHER, 64, 8000, &of1);
    ck_assert(eight.network_bytes == 63 * 1000 && eight.bytes == 63 * 7000);
    ck_assert_uint_eq(eight.network_steps, 7);
    ck_assert_uint_eq(eight.steps, 56);
    ck_assert(one.network_bytes == 63 * 8000 && one.bytes == 0);
    ck_assert_uint_eq(one.network_steps, 63);
    ck_assert_uint_eq(one.steps, 0);
    EchCollectiveCost within = ech_collective_cost(ECH_COMM_ALL_GATHER, 8, 8000, &of8), all = ech_collective_cost(ECH_COMM_ALL_TO_ALL, 64, 64000, &of8);
    ck_assert(within.network_bytes == 0 && within.bytes == 7 * 8000);
    ck_assert(all.network_bytes == 56000 && all.bytes == 7000); /* to 56 GPUs elsewhere and 7 here */
    ck_assert(ech_collective_cost(ECH_COMM_PERMUTE, 2, 1000, &of1).network_bytes == 1000);
    /* Of the host that has one of nine, everything leaves through one card. */
    EchCollectiveCost nine = ech_collective_cost(ECH_COMM_ALL_GATHER, 9, 8000, &of8), sum = ech_collective_cost(ECH_COMM_ALL_REDUCE, 9, 9000000, &of8);
    ck_assert(nine.network_bytes == 8 * 8000 && nine.bytes == 8 * 7000);
    ck_assert(sum.algorithm == ECH_ALGORITHM_TREE && sum.network_bytes == 9000000);
    ck_assert(ech_collective_cost(ECH_COMM_ALL_TO_ALL, 9, 9000, &of8).network_bytes == 8000);

    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    const EchLink *link = ech_device_link(device, "nvlink");
    const EchGroup close = {.size = 8, .stride = 1}, far = {.size = 8, .stride = 8}, wide = {.size = 64, .stride = 1};
    EchBytes bytes = UINT64_C(1) << 30;
    EchSwitchCost near = ech_switch_cost(device, link, ECH_COMM_REDUCE_SCATTER, &close, 8, bytes),
                  apart = ech_switch_cost(device, link, ECH_COMM_REDUCE_SCATTER, &far, 8, bytes),
                  many = ech_switch_cost(device, link, ECH_COMM_REDUCE_SCATTER, &wide, 8, bytes),
                  blind = ech_switch_cost(device, link, ECH_COMM_REDUCE_SCATTER, &far, 0, bytes);
    ck_assert(!near.between && apart.between && many.between && !blind.between);
    double rate = (double)ech_device_link(device, "network")->to_device;
    ck_assert(fabs((double)apart.moving * 1e-12 / ((double)bytes * 7 / 8 / rate) - 1) < 1e-6);
    ck_assert(fabs((double)many.moving * 1e-12 / ((double)bytes * 63 / 64 / 8 / rate) - 1) < 1e-6);
    ck_assert_int_eq(blind.moving, near.moving);
    /* LL sends a flag with every four bytes over the network, too; a protocol that gets all of its links sends none. */
    g_autoptr(EchDevice) whole = ech_test_device("h100-sxm", (const char *const[]){"kernel.collective_small_share=1", "runtime.collective_bulk_ps=1e15", NULL}),
                         half = ech_test_device("h100-sxm", (const char *const[]){"runtime.collective_bulk_ps=1e15", NULL});
    EchSwitchCost plain = ech_switch_cost(whole, link, ECH_COMM_REDUCE_SCATTER, &far, 8, bytes),
                  flagged = ech_switch_cost(half, link, ECH_COMM_REDUCE_SCATTER, &far, 8, bytes);
    ck_assert(plain.between && flagged.between && llabs(flagged.moving - 2 * plain.moving) < 2);
    for (uint32_t distance = 1; distance <= 8; distance++) { /* of a ring of eight its first and last are neighbours, 7 apart */
        const EchGroup pair = {.size = 2, .stride = distance};
        ck_assert(ech_switch_cost(device, link, ECH_COMM_PERMUTE, &pair, 8, bytes).between == (distance == 8));
    }
}
END_TEST

static EchCollectiveCost gather_on(uint32_t ports, uint32_t ring, uint32_t cores, uint32_t size, uint32_t devices, uint32_t stride)
{
    EchTorus torus = {.ports = ports, .ring = ring, .cores = cores};
    return ech_torus_cost(ECH_COMM_ALL_GATHER, &(EchGroup){.size = size, .devices = devices, .stride = stride}, 1000, &torus);
}

/* Only whole axes close: at the ends of the others a device has one link, through which all of its share comes. */
START_TEST(open_axes_have_ends)
{
    static const struct {
        uint32_t ports, ring, size, devices, stride, links;
    } cases[] = {
        {4, 16, 8, 8, 1, 2},     {4, 16, 16, 16, 1, 2}, {4, 16, 64, 64, 1, 2}, {4, 16, 128, 128, 1, 3}, {4, 16, 256, 256, 1, 4}, {4, 16, 16, 256, 1, 2},
        {4, 16, 16, 256, 16, 2}, {4, 16, 8, 256, 1, 1}, {6, 4, 4, 4, 1, 2},    {6, 4, 16, 16, 1, 3},    {6, 4, 32, 32, 1, 3},    {6, 4, 64, 64, 1, 6},
        {6, 4, 128, 128, 1, 6},  {6, 4, 4, 64, 1, 2},   {6, 4, 16, 64, 4, 4},  {6, 4, 2, 64, 1, 1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchCollectiveCost cost = gather_on(cases[i].ports, cases[i].ring, 1, cases[i].size, cases[i].devices, cases[i].stride);
        ck_assert_msg(cost.ports == cases[i].links, "case %zu: %u links", i, cost.ports);
        ck_assert(cost.bytes == 1000.0 * (cases[i].size - 1));
    }
    EchTorus open = {.ports = 4, .ring = 16};
    EchCollectiveCost all_to_all = ech_torus_cost(ECH_COMM_ALL_TO_ALL, &(EchGroup){.size = 16, .devices = 16, .stride = 1}, 16000, &open);
    ck_assert(all_to_all.bytes == 2 * 16000.0); /* half of it crosses the middle of a line, over a quarter of the devices' links: twice a ring's */
    ck_assert_uint_eq(all_to_all.steps, 6);
}
END_TEST

/* A reduction that leaves each chip its part: one way round one ring, but of a slice that is as long as it is wide, and on sparse cores. */
START_TEST(parts_of_sums_go_one_way)
{
    static const struct {
        uint32_t size, devices, stride;
        bool sparse;
        uint32_t links, steps;
    } cases[] = {
        {8, 8, 1, false, 1, 7}, {8, 8, 1, true, 2, 4},       {4, 4, 1, false, 1, 3}, {32, 32, 1, false, 1, 31}, {16, 16, 1, false, 2, 6},
        {2, 8, 4, false, 1, 2}, {256, 256, 1, false, 4, 16}, {4, 8, 1, false, 1, 3}, {4, 256, 32, false, 1, 6},
    };
    EchTorus v6e = {.ports = 4, .ring = 16, .one_way = true};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchGroup group = {.size = cases[i].size, .devices = cases[i].devices, .stride = cases[i].stride, .sparse = cases[i].sparse};
        EchCollectiveCost cost = ech_torus_cost(ECH_COMM_REDUCE_SCATTER, &group, 1600, &v6e);
        ck_assert_msg(cost.ports == cases[i].links && cost.steps == cases[i].steps, "case %zu: %u links, %u steps", i, cost.ports, cost.steps);
    }
    EchGroup v6e_8 = {.size = 8, .devices = 8, .stride = 1};
    EchCollectiveCost scatter = ech_torus_cost(ECH_COMM_REDUCE_SCATTER, &v6e_8, 1600, &v6e);
    ck_assert(scatter.bytes == 1400 && scatter.lanes == (1 | 4));
    ck_assert_uint_eq(ech_torus_cost(ECH_COMM_ALL_REDUCE, &v6e_8, 1600, &v6e).ports, 2);
    ck_assert_uint_eq(ech_torus_cost(ECH_COMM_ALL_GATHER, &v6e_8, 1600, &v6e).ports, 2);
    EchCollectiveCost far = ech_torus_cost(ECH_COMM_REDUCE_SCATTER, &(EchGroup){.size = 4, .devices = 256, .stride = 32}, 1600, &v6e);
    ck_assert(far.bytes == 2400); /* through one another's chips */
}
END_TEST

/* The cores of a chip share its links: in groups of their own they move twice the bytes, in one group each byte comes to the chip once. */
START_TEST(cores_share_their_chips_links)
{
    EchCollectiveCost apart = gather_on(6, 4, 2, 4, 8, 2), together = gather_on(6, 4, 2, 8, 8, 1);
    ck_assert(apart.bytes == 2 * 3000 && apart.ports == 2);
    ck_assert(together.bytes == 6000 && together.ports == 2);
}
END_TEST

/* XLA's ways to list groups, and how far apart their members are. */
START_TEST(groups_lie_somewhere)
{
    EchGroup group;
    const char *pairs = "[4,2]<=[2,4]T(1,0), use_global_device_ids=true", *listed = "{{0,4},{1,5},{2,6},{3,7}}, x={9}", *rows = "[2,4]<=[8]";
    ck_assert(ech_group_read(pairs, strlen(pairs), &group));
    ck_assert_uint_eq(group.size, 2);
    ck_assert_uint_eq(group.devices, 8);
    ck_assert_uint_eq(group.stride, 4);
    /* 2 x 4 chips: two links along the long side, which the pairs of both halves share. */
    EchTorus v6e = {.ports = 4, .ring = 16};
    EchCollectiveCost cost = ech_torus_cost(ECH_COMM_ALL_REDUCE, &group, 1000, &v6e);
    ck_assert(cost.bytes / cost.ports == 2000);
    ck_assert_uint_eq(cost.steps, 4);
    ck_assert(ech_group_read(listed, strlen(listed), &group));
    ck_assert_uint_eq(group.size, 2);
    ck_assert_uint_eq(group.devices, 8);
    ck_assert_uint_eq(group.stride, 4);
    ck_assert(ech_group_read(rows, strlen(rows), &group));
    ck_assert_uint_eq(group.size, 4);
    ck_assert_uint_eq(group.stride, 1);
    cost = ech_torus_cost(ECH_COMM_ALL_GATHER, &group, 1000, &v6e); /* 2 x 2 of them */
    ck_assert(cost.bytes == 3000 && cost.ports == 2);
    const char *mesh = "mesh['data'=2,'model'=4] {'model'}", *across = "mesh['data'=2,'model'=4] {'data'}", *both = "mesh['data'=2,'model'=4] {'data','model'}";
    ck_assert(ech_group_read(mesh, strlen(mesh), &group) && group.size == 4 && group.devices == 8 && group.stride == 1);
    ck_assert(ech_group_read(across, strlen(across), &group) && group.size == 2 && group.devices == 8 && group.stride == 4);
    ck_assert(ech_group_read(both, strlen(both), &group) && group.size == 8 && group.devices == 8 && group.stride == 1);
    ck_assert(ech_group_parse("devices=8 stride=4", 2, &group));
    ck_assert_uint_eq(group.stride, 4);
    static const char *const wrong[] = {"",
                                        "{",
                                        "{{",
                                        "[",
                                        "[4,2]",
                                        "[4,2]<=[2,4]T(0",
                                        "[0,0]<=[0]",
                                        "[4,2]<=[9]",
                                        "[4,2]<=[2,4]T(7,7)",
                                        "mesh['x'=4]",
                                        "mesh['x'=4] {'x':(1)2}",
                                        "mesh[=4] {'x'}",
                                        "mesh['x'=0] {'x'}",
                                        "mesh['x'=4294967296] {'x'}",
                                        "mesh['x'=65536,'y'=65536] {'x'}"};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
        ck_assert_msg(!ech_group_read(wrong[i], strlen(wrong[i]), &group), "%s", wrong[i]);
    ck_assert(!ech_group_parse("grid=1x1x1", 2, &group));
}
END_TEST

/* A permutation between neighbours: who follows whom, and by which of a torus' links. */
START_TEST(permutations_go_one_way)
{
    static const struct {
        const char *pairs;
        uint32_t size, devices, stride, lanes;
        bool back;
    } cases[] = {
        {"{{0,1},{1,2},{2,3},{3,0},{4,5},{5,6},{6,7},{7,4},{8,9},{9,10},{10,11},{11,8},{12,13},{13,14},{14,15},{15,12}}", 4, 16, 1, 1, false},
        {"{{0,3},{1,0},{2,1},{3,2},{4,7},{5,4},{6,5},{7,6},{8,11},{9,8},{10,9},{11,10},{12,15},{13,12},{14,13},{15,14}}, x={{1,2}}", 4, 16, 1, 2, true},
        {"{{0,4},{4,8},{8,12},{12,0},{1,5},{5,9},{9,13},{13,1},{2,6},{6,10},{10,14},{14,2},{3,7},{7,11},{11,15},{15,3}}", 4, 16, 4, 4, false},
        {"{{4,0},{8,4},{12,8},{0,12},{5,1},{9,5},{13,9},{1,13},{6,2},{10,6},{14,10},{2,14},{7,3},{11,7},{15,11},{3,15}}", 4, 16, 4, 8, true},
        {"{{0,1},{1,0},{2,3},{3,2}}", 2, 4, 1, 1, false},
        {"{{0,1},{1,2},{2,3}}", 4, 4, 1, 5, false}, /* a pipeline's stages along 2 x 2 chips */
    };
    EchTorus v6e = {.ports = 4};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchGroup group;
        ck_assert_msg(ech_group_read_pairs(cases[i].pairs, strlen(cases[i].pairs), &group), "%s", cases[i].pairs);
        ck_assert_uint_eq(group.size, cases[i].size);
        ck_assert_uint_eq(group.devices, cases[i].devices);
        ck_assert_uint_eq(group.stride, cases[i].stride);
        ck_assert_msg(group.back == cases[i].back, "case %zu", i);
        EchCollectiveCost cost = ech_torus_cost(ECH_COMM_PERMUTE, &group, 1000, &v6e);
        ck_assert(cost.bytes == 1000 && cost.ports == 1);
        ck_assert_msg(cost.lanes == cases[i].lanes, "case %zu: lanes %u", i, cost.lanes);
    }
    ck_assert_uint_eq(torus(ECH_COMM_ALL_GATHER, 16, 1000).lanes, 15);
    static const char *const wrong[] = {"",
                                        "{",
                                        "{{",
                                        "{}",
                                        "{{}}",
                                        "{{0}}",
                                        "{{0,1},{2}}",
                                        "{{0,0}}",
                                        "{{0,1},{1,3},{3,2},{2,0}}",
                                        "{{0,99999999999}}",
                                        "{{0,1048575}}",
                                        "{{0,5},{5,3},{3,0}}"};
    EchGroup group;
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
        ck_assert_msg(!ech_group_read_pairs(wrong[i], strlen(wrong[i]), &group), "%s", wrong[i]);
    ck_assert(ech_group_parse("devices=16 stride=4 back", 4, &group) && group.back);
    ck_assert(ech_group_parse("devices=16 stride=4", 4, &group) && !group.back);
}
END_TEST

/* Of 4 x 4 chips two that are three apart, across the end of a row, lie along no axis: one link from one to the other. */
START_TEST(groups_may_lie_along_no_axis)
{
    const EchTorus v6e = {.ports = 4, .ring = 16};
    const EchGroup group = {.size = 2, .devices = 16, .stride = 3};
    EchCollectiveCost cost = ech_torus_cost(ECH_COMM_ALL_GATHER, &group, 1000, &v6e), sum = ech_torus_cost(ECH_COMM_ALL_REDUCE, &group, 1000, &v6e);
    ck_assert(cost.ports == 1 && cost.bytes == 1000 && cost.steps == 1);
    ck_assert(sum.ports == 1 && sum.bytes == 1000 && sum.steps == 2);
}
END_TEST

START_TEST(nothing_to_send_costs_nothing)
{
    ck_assert_int_eq(torus(ECH_COMM_ALL_REDUCE, 1, 1000).algorithm, ECH_ALGORITHM_NONE);
    ck_assert_int_eq(torus(ECH_COMM_ALL_REDUCE, 8, 0).algorithm, ECH_ALGORITHM_NONE);
    ck_assert(torus(ECH_COMM_ALL_REDUCE, 1, 1000).bytes == 0);
}
END_TEST

/* Without a curve a copy is set-up and latency, then bytes at the link's rate. */
START_TEST(copies_pay_their_set_up)
{
    EchLink link = {.setup = 3 * US, .latency = US, .to_device = 10 * GB, .from_device = 10 * GB};
    ck_assert_int_eq(ech_link_overhead(&link, true, 1000, true), 4 * US);
    ck_assert_int_eq(ech_link_overhead(&link, false, 1000, false), 4 * US);
}
END_TEST

/* With curves: what they take beyond the bytes at the rate they were measured beside, each way its own; a what-if on the rate leaves that. */
START_TEST(curves_hold_the_set_up)
{
    /* 6 us and 10 GB/s to the device; 8 us and 5 GB/s from it. */
    EchCurvePoint to[] = {{1000000, 1000000 * GB / 106000}, {4000000, 4000000 * GB / 406000}}, from[] = {{1000000, 1000000 * GB / 208000}};
    EchLink link = {.setup = 99 * US, .to_device = 10 * GB, .from_device = 5 * GB, .curve = to, .n_curve = 2, .curve_from = from, .n_curve_from = 1};
    ck_assert_int_le(llabs(ech_link_overhead(&link, true, 1000000, true) - 6 * US), US / 100);
    ck_assert_int_le(llabs(ech_link_overhead(&link, true, 2500000, true) - 6 * US), US / 100);
    ck_assert_int_le(llabs(ech_link_overhead(&link, false, 1000000, true) - 8 * US), US / 100);
    ck_assert_int_eq(ech_link_overhead(&link, true, 1000000, false), 99 * US);
    link.measured_to = 10 * GB;
    link.to_device = 40 * GB;
    ck_assert_int_le(llabs(ech_link_overhead(&link, true, 1000000, true) - 6 * US), US / 100);
}
END_TEST

/* Without a switch a group uses only the links among its own: of eight GPUs with seven links each, two share one, and all of them all. */
START_TEST(meshes_have_a_link_for_each_other)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("mi300x", NULL, &error);
    ck_assert_msg(device != NULL, "%s", error ? error->message : "");
    const EchLink *link = ech_device_link(device, "xgmi");
    static const uint32_t sizes[] = {2, 4, 8};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        EchSwitchCost cost = ech_switch_cost(device, link, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = sizes[i], .stride = 1}, 8, UINT64_C(1) << 34);
        ck_assert_uint_eq(cost.cost.ports, sizes[i] - 1);
    }
    EchLink six = *link; /* six to each of three others */
    six.ports = 18;
    six.reach = 4;
    EchSwitchCost two = ech_switch_cost(device, &six, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = 2, .stride = 1}, 0, UINT64_C(1) << 34);
    ck_assert_uint_eq(two.cost.ports, 6);
    six.mesh = false;
    two = ech_switch_cost(device, &six, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = 2, .stride = 1}, 0, UINT64_C(1) << 34);
    ck_assert_uint_eq(two.cost.ports, 18);
    six = (EchLink){.to_device = GB, .from_device = GB, .ports = 1000000, .reach = 100000, .mesh = true}; /* ten to each of the others */
    two = ech_switch_cost(device, &six, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = 50001, .stride = 1}, 0, UINT64_C(1) << 34);
    ck_assert_uint_eq(two.cost.ports, UINT64_C(1000000) * 50000 / 99999);
}
END_TEST

/* Of months a step: no more than a time can hold. */
START_TEST(steps_of_months)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    ck_assert_msg(device != NULL, "%s", error ? error->message : "");
    EchLink link = *ech_device_link(device, "nvlink");
    link.latency = link.setup = ECH_TIME_MAX / 2;
    EchSwitchCost cost = ech_switch_cost(device, &link, ECH_COMM_ALL_REDUCE, &(EchGroup){.size = 8, .stride = 1}, 8, UINT64_C(1) << 34);
    ck_assert_int_gt(cost.fixed, ECH_TIME_MAX / 8);
    ck_assert_int_lt(cost.fixed, ECH_TIME_MAX / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("link");
    TCase *tests = tcase_create("link");
    tcase_add_test(tests, two_chips_have_one_link_between_them);
    tcase_add_test(tests, square_tori_use_both_axes);
    tcase_add_test(tests, switches_choose_ring_or_tree);
    tcase_add_test(tests, own_reduces_read_peers);
    tcase_add_test(tests, few_bytes_and_many_have_protocols);
    tcase_add_test(tests, a_switch_adds_up);
    tcase_add_test(tests, hosts_are_joined_by_a_network);
    tcase_add_test(tests, meshes_have_a_link_for_each_other);
    tcase_add_test(tests, steps_of_months);
    tcase_add_test(tests, groups_may_lie_along_no_axis);
    tcase_add_test(tests, nothing_to_send_costs_nothing);
    tcase_add_test(tests, open_axes_have_ends);
    tcase_add_test(tests, parts_of_sums_go_one_way);
    tcase_add_test(tests, cores_share_their_chips_links);
    tcase_add_test(tests, groups_lie_somewhere);
    tcase_add_test(tests, permutations_go_one_way);
    tcase_add_test(tests, copies_pay_their_set_up);
    tcase_add_test(tests, curves_hold_the_set_up);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
