#include "models/link/link.h"

#include <math.h>
#include <string.h>

#define MAX_DEVICES (1u << 20)

__extension__ typedef unsigned __int128 u128;

static EchTime curve_time(const EchCurvePoint *curve, size_t n, EchBytes bytes)
{
    if (bytes <= curve[0].bytes)
        return ech_time_for(curve[0].bytes, curve[0].rate);
    for (size_t i = 1; i < n; i++) {
        if (bytes > curve[i].bytes)
            continue;
        EchTime low = ech_time_for(curve[i - 1].bytes, curve[i - 1].rate), high = ech_time_for(curve[i].bytes, curve[i].rate);
        if (high <= low)
            return high;
        u128 part = (u128)(uint64_t)(high - low) * (bytes - curve[i - 1].bytes) / (curve[i].bytes - curve[i - 1].bytes);
        return low + (EchTime)part;
    }
    return ech_time_for(bytes, curve[n - 1].rate);
}

EchTime ech_link_overhead(const EchLink *link, bool forward, EchBytes bytes, bool curve)
{
    bool own = !forward && link->n_curve_from > 0;
    const EchCurvePoint *points = own ? link->curve_from : link->curve;
    size_t n = own ? link->n_curve_from : link->n_curve;
    if (!curve || n == 0 || bytes == 0)
        return ech_time_add(link->setup, link->latency);
    EchRate measured = forward ? link->measured_to : link->measured_from;
    EchTime whole = curve_time(points, n, bytes), moving = ech_time_for(bytes, measured ? measured : forward ? link->to_device : link->from_device);
    return MAX(whole - moving, 0);
}

EchTime ech_link_time(const EchLink *link, bool forward, EchBytes bytes)
{
    EchRate rate = forward ? link->to_device : link->from_device;
    return ech_time_add(ech_link_overhead(link, forward, bytes, true), rate > 0 ? ech_time_for(bytes, rate) : 0);
}

/* Sides of a slice of @devices chips, near-square, the smallest first, on at most @axes axes. */
static uint32_t torus_sides(uint32_t devices, uint32_t axes, uint32_t sides[3])
{
    uint32_t n = 0, rest = devices;
    for (uint32_t left = MIN(axes, 3); left > 1 && rest > 1; left--) {
        uint32_t side = (uint32_t)(pow(rest, 1.0 / left) + 1e-9), best = 1;
        for (uint32_t s = side; s >= 2 && best == 1; s--)
            if (rest % s == 0)
                best = s;
        if (best > 1) {
            sides[n++] = best;
            rest /= best;
        }
    }
    if (rest > 1)
        sides[n++] = rest;
    return n;
}

/* An axis of the torus that a group lies along: members, links from one to the next, and whether they close a ring. */
typedef struct {
    uint32_t which, extent, step;
    bool ring;
} Axis;

static uint32_t group_axes(const EchGroup *group, const EchTorus *torus, Axis axes[3])
{
    uint32_t sides[3], directions = MAX(torus->ports / 2, 1u), n = torus_sides(MAX(group->devices, group->size), directions, sides), used = 0;
    bool cubes = directions < 3 || n == 3;
    for (uint32_t i = 0; i < n && directions >= 3; i++)
        cubes = cubes && sides[i] % MAX(torus->ring, 1u) == 0;
    uint64_t stride = MAX(group->stride, 1u), end = stride * group->size, below = 1;
    for (uint32_t i = 0; i < n; i++) {
        g_assert(sides[i] > 1);
        uint64_t above = i + 1 < n ? below * sides[i] : UINT64_MAX, low = MAX(stride, below), high = MIN(end, above);
        if (high / low > 1) {
            Axis axis = {.which = i, .extent = (uint32_t)(high / low), .step = (uint32_t)MAX(stride / below, 1u)};
            bool closes = directions < 3 ? sides[i] >= torus->ring : cubes;
            axis.ring = axis.extent > 2 && closes && (uint64_t)axis.extent * axis.step >= sides[i];
            axes[used++] = axis;
        }
        below *= sides[i];
    }
    return used;
}

/* Whether a reduction that leaves each device its part goes over all axes at once, each both ways: the group is the whole slice, and that is as long as it is
 * wide. */
static bool scatters_all_ways(const EchGroup *chips, const Axis *axes, uint32_t n)
{
    bool square = n > 1 && chips->size >= chips->devices && (n > 2 || axes[0].extent > 2);
    for (uint32_t i = 1; i < n; i++)
        square = square && axes[i].extent == axes[0].extent;
    return square;
}

EchCollectiveCost ech_torus_cost(EchComm comm, const EchGroup *group, EchBytes operand, const EchTorus *torus)
{
    if (group->size <= 1 || operand == 0)
        return (EchCollectiveCost){.algorithm = ECH_ALGORITHM_NONE, .ports = 1};
    EchGroup chips = *group;
    double bytes = (double)operand, sharers = 1;
    if (torus->cores > 1 && group->size > torus->cores) {
        chips.devices = group->devices / torus->cores;
        if (group->stride % torus->cores == 0 && group->stride > 0) { /* the cores of a chip are in different groups, which run at once */
            chips.stride = group->stride / torus->cores;
            sharers = torus->cores;
        } else { /* what a chip receives goes to all of its cores */
            chips.size = group->size / torus->cores;
            bytes *= torus->cores;
        }
    }
    Axis axes[3];
    uint32_t n = group_axes(&chips, torus, axes), links = 0, lanes = 0;
    uint64_t hops = 0;
    double open = 0, worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ways = axes[i].ring ? 2 : 1;
        links += ways;
        lanes |= (comm != ECH_COMM_PERMUTE ? 3u : group->back ? 2u : 1u) << 2 * axes[i].which; /* a line's inner devices send both ways too */
        open += (double)ways / axes[i].step; /* groups that pass through one another's chips share their links */
        hops += (uint64_t)(axes[i].ring ? axes[i].extent / 2 : axes[i].extent - 1) * axes[i].step;
        /* Byte-hops over directed links: every byte goes s/4 links of an axis of s on average over both directions, twice that without a ring. */
        worst = MAX(worst, bytes * axes[i].extent * (double)axes[i].step / (axes[i].ring ? 8.0 : 4.0));
    }
    if (n == 0) {
        links = 1;
        hops = 1;
        open = 1;
    }
    double size = chips.size, share = (size - 1) / size;
    EchCollectiveCost cost = {
        .algorithm = ECH_ALGORITHM_TORUS, .steps = (uint32_t)MIN(hops, (uint64_t)INT32_MAX), .ports = MIN(links, MAX(torus->ports, 1u)), .lanes = lanes};
    switch (comm) {
    case ECH_COMM_ALL_GATHER: cost.bytes = bytes * (size - 1); break;
    case ECH_COMM_REDUCE_SCATTER: cost.bytes = bytes * share; break;
    case ECH_COMM_ALL_REDUCE:
        cost.bytes = 2 * bytes * share;
        cost.steps *= 2;
        break;
    case ECH_COMM_ALL_TO_ALL: cost.bytes = worst * open; break;
    case ECH_COMM_PERMUTE:
        cost.bytes = (double)operand * sharers;
        cost.ports = cost.steps = 1;
        return cost;
    case ECH_COMM_BROADCAST: cost.bytes = bytes; break;
    }
    if (comm == ECH_COMM_REDUCE_SCATTER && torus->one_way && !group->sparse && chips.size > 2 && !scatters_all_ways(&chips, axes, n)) {
        uint32_t step = 1;
        for (uint32_t i = 0; i < n; i++)
            step = MAX(step, axes[i].step);
        cost.bytes *= sharers * step;
        cost.ports = 1;
        cost.lanes &= 0x15; /* one way of each axis */
        cost.steps = (uint32_t)MIN((uint64_t)(chips.size - 1) * step, (uint64_t)INT32_MAX);
        return cost;
    }
    cost.bytes *= sharers * cost.ports / open;
    return cost;
}

static double seconds(const EchCollectiveCost *cost, const EchFabric *fabric)
{
    double within = fabric->rate > 0 ? cost->bytes / ((double)fabric->rate * cost->ports) : 0;
    double between = fabric->network_rate > 0 ? cost->network_bytes / (double)fabric->network_rate : 0;
    return MAX(within, between) + ((double)fabric->latency * cost->steps + (double)fabric->network_latency * cost->network_steps) * 1e-12;
}

/* Hosts that a group lies on, and how many of its devices on a full one and on the last, through as many cards as which all that leaves it goes. */
typedef struct {
    uint32_t n, local, least;
} Hosts;

/* Of a ring's @cost, what goes between hosts; @phases: how often the data goes round. */
static void cross(EchCollectiveCost *cost, const Hosts *hosts, uint32_t phases)
{
    if (hosts->n <= 1)
        return;
    cost->network_bytes = cost->bytes / hosts->least;
    cost->bytes -= cost->bytes / hosts->local;
    cost->network_steps = MIN(phases * (hosts->n - 1), cost->steps);
    cost->steps -= cost->network_steps;
}

/* What an all-reduce of @bytes sends up and down a double binary tree of hosts: a host is a leaf of one tree and has two below it in the other; of two hosts
 * each is the root of one. */
static void climb(EchCollectiveCost *cost, double bytes, const Hosts *hosts)
{
    if (hosts->n <= 1)
        return;
    uint32_t deep = 0;
    while ((1u << deep) < hosts->n && deep < 31)
        deep++;
    cost->network_steps = 2 * deep;
    cost->network_bytes = (hosts->n == 2 ? 1 : 2) * bytes / hosts->least;
}

static Hosts hosts_of(const EchFabric *fabric, uint32_t group)
{
    uint32_t local = fabric->local > 0 ? MIN(fabric->local, group) : group, n = (group + local - 1) / local;
    return (Hosts){.n = n, .local = local, .least = group - (n - 1) * local};
}

EchCollectiveCost ech_collective_cost(EchComm comm, uint32_t group, EchBytes operand, const EchFabric *fabric)
{
    if (group <= 1 || operand == 0)
        return (EchCollectiveCost){.algorithm = ECH_ALGORITHM_NONE, .ports = 1};
    uint32_t ports = MAX(fabric->ports, 1u);
    const Hosts hosts = hosts_of(fabric, group);
    double bytes = (double)operand;
    double share = (double)(group - 1) / group;
    EchCollectiveCost cost = {.algorithm = ECH_ALGORITHM_RING, .ports = ports, .steps = group - 1};
    switch (comm) {
    case ECH_COMM_ALL_GATHER:
        cost.bytes = bytes * (group - 1);
        cross(&cost, &hosts, 1);
        break;
    case ECH_COMM_REDUCE_SCATTER:
        cost.bytes = bytes * share;
        cross(&cost, &hosts, 1);
        break;
    case ECH_COMM_ALL_REDUCE: {
        cost.bytes = 2 * bytes * share;
        cost.steps = 2 * (group - 1);
        cross(&cost, &hosts, 2);
        if (hosts.n > 1) {
            EchCollectiveCost tree = {
                .algorithm = ECH_ALGORITHM_TREE, .ports = ports, .steps = 2 * (hosts.local - 1), .bytes = 2 * bytes * (hosts.local - 1) / hosts.local};
            climb(&tree, bytes, &hosts);
            if (seconds(&tree, fabric) < seconds(&cost, fabric))
                cost = tree;
        }
        break;
    }
    case ECH_COMM_ALL_TO_ALL:
        cost.algorithm = ECH_ALGORITHM_DIRECT;
        cost.network_bytes = bytes * (group - hosts.least) / group;
        cost.bytes = bytes * (hosts.local - 1) / group;
        cost.steps = hosts.n == 1;
        cost.network_steps = hosts.n > 1;
        break;
    case ECH_COMM_PERMUTE:
        cost.algorithm = ECH_ALGORITHM_DIRECT;
        cost.bytes = hosts.n == 1 ? bytes : 0;
        cost.network_bytes = hosts.n == 1 ? 0 : bytes;
        cost.steps = hosts.n == 1;
        cost.network_steps = hosts.n > 1;
        break;
    case ECH_COMM_BROADCAST:
        cost.bytes = bytes;
        cross(&cost, &hosts, 1);
        break;
    }
    return cost;
}

EchCollectiveCost ech_switch_reduction_cost(uint32_t group, EchBytes operand, const EchFabric *fabric)
{
    if (group <= 1 || operand == 0)
        return (EchCollectiveCost){.algorithm = ECH_ALGORITHM_NONE, .ports = 1};
    const Hosts hosts = hosts_of(fabric, group);
    EchCollectiveCost cost = {
        .algorithm = ECH_ALGORITHM_SWITCH, .ports = MAX(fabric->ports, 1u), .steps = 2, .bytes = (double)operand * (1 + 1.0 / hosts.local)};
    climb(&cost, (double)operand, &hosts);
    return cost;
}

/* Numbers of "[4,2]" or "(1,0)" at @at, which moves behind it; 0 where there are none or too many. */
static size_t read_list(const char **at, const char *end, char open, char close, uint64_t *values, size_t room)
{
    const char *p = *at;
    if (p >= end || *p != open)
        return 0;
    size_t n = 0;
    for (p++; p < end && *p != close; p++) {
        if (!g_ascii_isdigit(*p))
            continue;
        if (n == room)
            return 0;
        values[n] = 0;
        for (; p < end && g_ascii_isdigit(*p); p++)
            values[n] = MIN(values[n] * 10 + (uint64_t)(*p - '0'), UINT64_C(1) << 31);
        n++;
        p--;
    }
    *at = p < end ? p + 1 : p;
    return n;
}

enum { MAX_AXES = 8 };

static bool read_iota(const char *text, const char *end, EchGroup *ret)
{
    uint64_t shape[2], dims[MAX_AXES], order[MAX_AXES], devices = 1;
    const char *at = text;
    if (read_list(&at, end, '[', ']', shape, 2) != 2 || end - at < 3 || at[0] != '<' || at[1] != '=')
        return false;
    at += 2;
    size_t n = read_list(&at, end, '[', ']', dims, MAX_AXES);
    for (size_t i = 0; i < n; i++) {
        devices = ech_bytes_mul(devices, dims[i]);
        order[i] = i;
    }
    if (n == 0 || shape[0] == 0 || shape[1] == 0 || devices != shape[0] * shape[1] || devices > UINT32_MAX)
        return false;
    if (at < end && *at == 'T') {
        at++;
        if (read_list(&at, end, '(', ')', order, MAX_AXES) != n)
            return false;
    }
    uint64_t stride = 0;
    for (size_t i = n; i-- > 0 && stride == 0;) { /* the last axis that has more than one device */
        if (order[i] >= n)
            return false;
        if (dims[order[i]] <= 1)
            continue;
        stride = 1;
        for (size_t d = order[i] + 1; d < n; d++)
            stride *= dims[d];
    }
    *ret = (EchGroup){.size = (uint32_t)shape[1], .devices = (uint32_t)devices, .stride = shape[1] > 1 ? (uint32_t)stride : 0};
    return true;
}

/* "mesh['a'=4,'b'=2] {'b'}": the groups of a mesh, its last axis fastest, along the axes in braces. */
static bool read_mesh(const char *text, const char *end, EchGroup *ret)
{
    const char *brace = memchr(text, '{', (size_t)(end - text)), *close = brace ? memchr(brace, '}', (size_t)(end - brace)) : NULL;
    if (!close || memchr(brace, ':', (size_t)(close - brace))) /* parts of axes */
        return false;
    uint64_t size = 1, devices = 1, stride = 0;
    for (const char *at = brace; at > text; at--) { /* from the last axis to the first */
        if (*at != '=')
            continue;
        uint64_t side = g_ascii_strtoull(at + 1, NULL, 10);
        const char *open = at - 1 > text && at[-1] == '\'' ? at - 2 : NULL;
        while (open && open > text && *open != '\'')
            open--;
        if (!open || side == 0)
            return false;
        g_autofree char *name = g_strndup(open, (size_t)(at - open));
        const char *named = g_strstr_len(brace, close - brace, name);
        if (named && side > 1) {
            stride = stride ? stride : devices;
            size *= side;
        }
        devices = ech_bytes_mul(devices, side);
        if (devices > UINT32_MAX)
            return false;
        at = open;
    }
    if (devices <= 1)
        return false;
    *ret = (EchGroup){.size = (uint32_t)size, .devices = (uint32_t)devices, .stride = (uint32_t)stride};
    return true;
}

bool ech_group_read(const char *text, size_t n, EchGroup *ret)
{
    const char *end = text + n;
    if (n > 0 && *text == '[')
        return read_iota(text, end, ret);
    if (n > 5 && strncmp(text, "mesh[", 5) == 0)
        return read_mesh(text, end, ret);
    if (n < 2 || text[0] != '{' || text[1] != '{')
        return false;
    uint64_t first[2] = {0}, here = 0, count = 0, all = 0;
    bool digits = false, done = false;
    for (const char *at = text + 2; at < end && !(at[0] == '}' && at[-1] == '}'); at++) {
        if (g_ascii_isdigit(*at)) {
            here = MIN(here * 10 + (uint64_t)(*at - '0'), (uint64_t)UINT32_MAX);
            digits = true;
            continue;
        }
        if (digits) {
            if (!done && count < 2)
                first[count] = here;
            count += !done;
            all++;
        }
        done = done || *at == '}';
        digits = false;
        here = 0;
    }
    if (count == 0 || all > UINT32_MAX)
        return false;
    *ret = (EchGroup){.size = (uint32_t)count,
                      .devices = (uint32_t)all,
                      .stride = count > 1 ? (uint32_t)(first[1] > first[0] ? first[1] - first[0] : first[0] - first[1]) : 0};
    return true;
}

bool ech_group_read_pairs(const char *text, size_t n, EchGroup *ret)
{
    g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t last = 0;
    for (size_t at = 0, depth = 0; at < n && !(depth > 0 && text[at] == '}' && --depth == 0);) {
        if (text[at] == '{')
            depth++;
        if (!g_ascii_isdigit(text[at])) {
            at++;
            continue;
        }
        uint32_t number = 0;
        for (; at < n && g_ascii_isdigit(text[at]) && number < MAX_DEVICES; at++)
            number = number * 10 + (uint32_t)(text[at] - '0');
        if (number >= MAX_DEVICES)
            return false;
        last = MAX(last, number);
        g_array_append_val(numbers, number);
    }
    if (numbers->len < 2 || numbers->len % 2 != 0)
        return false;
    const uint32_t *pairs = (const uint32_t *)(const void *)numbers->data;
    uint32_t n_pairs = numbers->len / 2;
    if (last > 2 * n_pairs) /* neighbours send in at least half of all devices; and no more room is taken than there is text */
        return false;
    g_autofree uint32_t *to = g_new(uint32_t, last + 1);
    for (uint32_t i = 0; i <= last; i++)
        to[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n_pairs; i++)
        to[pairs[2 * i]] = pairs[2 * i + 1];
    EchGroup group = {.size = 1, .devices = last + 1, .stride = UINT32_MAX};
    for (uint32_t i = 0; i < n_pairs; i++) {
        uint32_t from = pairs[2 * i], step = MAX(from, to[from]) - MIN(from, to[from]);
        if (step < group.stride) {
            group.stride = step;
            group.back = to[from] < from;
        }
    }
    for (uint32_t at = to[pairs[0]]; at != pairs[0] && at != UINT32_MAX && group.size <= n_pairs; at = to[at])
        group.size++;
    uint64_t around = (uint64_t)group.stride * (group.size - 1);
    for (uint32_t i = 0; i < n_pairs; i++) {
        uint32_t from = pairs[2 * i], step = MAX(from, to[from]) - MIN(from, to[from]);
        bool back = to[from] < from;
        if (!(step == group.stride && back == group.back) && !(step == around && back != group.back))
            return false;
    }
    if (group.size < 2 || group.stride == 0)
        return false;
    *ret = group;
    return true;
}

bool ech_group_parse(const char *text, uint32_t size, EchGroup *ret)
{
    const char *devices = strstr(text, "devices="), *stride = strstr(text, "stride=");
    if (!devices || !stride)
        return false;
    *ret = (EchGroup){.size = size,
                      .devices = (uint32_t)MIN(g_ascii_strtoull(devices + 8, NULL, 10), (guint64)UINT32_MAX),
                      .stride = (uint32_t)MIN(g_ascii_strtoull(stride + 7, NULL, 10), (guint64)UINT32_MAX),
                      .back = strstr(stride, " back") != NULL,
                      .sparse = strstr(stride, " sparse") != NULL};
    return true;
}

void ech_group_print(const EchGroup *group, GString *out)
{
    g_string_append_printf(out, "devices=%u stride=%u%s%s", group->devices, group->stride, group->back ? " back" : "", group->sparse ? " sparse" : "");
}

/* Picoseconds, so many at most that two of them add up to a time. */
static EchTime time_of(double ps)
{
    return (EchTime)MIN(ps, (double)ECH_TIME_MAX / 4);
}

/* What goes out of one device comes in at another. */
static EchRate exchange_rate(const EchLink *link)
{
    return MIN(link->to_device, link->from_device);
}

EchSwitchCost ech_switch_cost(const EchDevice *device, const EchLink *link, EchComm comm, const EchGroup *group, uint32_t host, EchBytes bytes)
{
    static const struct {
        const char *launch, *share;
        bool by_switch;
    } protocols[] = {{"runtime.collective_launch_ps", "kernel.collective_small_share", false},
                     {"runtime.collective_bulk_ps", "kernel.collective_share", false},
                     {"runtime.collective_switch_ps", "kernel.collective_switch_share", true}};
    const EchLink *network = host > 0 ? ech_device_link(device, "network") : NULL;
    EchFabric fabric = {.ports = link->ports, .latency = link->latency};
    if (network)
        fabric.local = (host - 1) / MAX(group->stride, 1u) + 1; /* of 8, two that are 5, 6 or 7 apart, too */
    if (link->mesh && link->reach > 2) {
        uint32_t others = link->reach - 1, near = MIN(fabric.local > 0 ? MIN(group->size, fabric.local) : group->size, link->reach);
        fabric.ports = (uint32_t)MAX((uint64_t)link->ports * (MAX(near, 2u) - 1) / others, 1u);
    }
    EchSwitchCost best = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(protocols); i++) {
        double launch = ech_device_number(device, protocols[i].launch, i == 0 ? 0 : -1),
               share = CLAMP(ech_device_number(device, protocols[i].share, 1), 0.001, 1);
        uint32_t local = hosts_of(&fabric, MAX(group->size, 1u)).local;
        if (launch < 0 || (protocols[i].by_switch && (comm != ECH_COMM_ALL_REDUCE || local <= 1)))
            continue;
        if (protocols[i].by_switch)
            launch *= local;
        double rate = (double)exchange_rate(link) * share;
        fabric.rate = (EchRate)rate;
        fabric.latency = i == 0 ? link->latency : (EchTime)ech_device_number(device, "runtime.collective_bulk_step_ps", (double)link->latency);
        if (network) {
            double latency = (double)network->latency;
            fabric.network_rate = i == 0 && share < 1 ? exchange_rate(network) / 2 : exchange_rate(network); /* LL sends a flag of 4 bytes with each 4 */
            fabric.network_latency = (EchTime)(i == 0 ? latency : ech_device_number(device, "runtime.collective_bulk_hop_ps", latency));
        }
        EchSwitchCost one = {.cost = protocols[i].by_switch ? ech_switch_reduction_cost(group->size, bytes, &fabric)
                                                            : ech_collective_cost(comm, group->size, bytes, &fabric)};
        if (one.cost.algorithm == ECH_ALGORITHM_NONE)
            return one;
        one.fixed = time_of(launch + (double)link->setup + (double)fabric.latency * one.cost.steps + (double)fabric.network_latency * one.cost.network_steps);
        double within = rate > 0 ? one.cost.bytes / (rate * one.cost.ports) : 0,
               between = one.cost.network_bytes > 0 ? one.cost.network_bytes / (double)fabric.network_rate : 0;
        one.between = between > within;
        one.moving = time_of(MAX(within, between) * (double)ECH_PS_PER_S);
        if (i == 0 || one.fixed + one.moving < best.fixed + best.moving)
            best = one;
    }
    return best;
}

bool ech_own_reduce_cost(const EchDevice *device, const EchLink *link, uint32_t group, unsigned steps, EchBytes bytes, EchSwitchCost *ret)
{
    double launch = ech_device_number(device, "runtime.collective_own_ps", -1), step = ech_device_number(device, "runtime.collective_own_step_ps", 0),
           share = CLAMP(ech_device_number(device, "kernel.collective_own_share", 1), 0.001, 1);
    if (launch < 0 || group < 2 || steps < 1)
        return false;
    EchSwitchCost own = {.cost = {.algorithm = ECH_ALGORITHM_DIRECT, .ports = MAX(link->ports, 1u), .steps = steps}};
    own.cost.bytes = (double)bytes * (group - 1);
    if (steps > 1)
        own.cost.bytes *= 2.0 / group;
    double rate = (double)exchange_rate(link) * share * own.cost.ports;
    own.fixed = time_of(launch + step * (steps - 1) + (double)link->setup);
    own.moving = time_of(rate > 0 ? own.cost.bytes / rate * (double)ECH_PS_PER_S : 0);
    *ret = own;
    return true;
}
