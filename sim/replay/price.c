#include "sim/replay/price.h"

#include "models/kernel/comm_name.h"
#include "models/kernel/measured.h"
#include "models/layout/layout.h"
#include "models/link/link.h"
#include "models/memory/hbm.h"
#include "sim/base/error.h"
#include "sim/base/stretches.h"
#include "sim/replay/cuda_blas.h"
#include "sim/replay/price_gpu.h"
#include "sim/trace/select.h"

#include <math.h>
#include <string.h>

/* Fill and drain of a kernel that no bandwidth hides: what an estimate or a recording has above its roofline, up to this, is a fixed time; the rest is
 * inefficiency that scales with the resources. 2,300 cycles at 940 MHz: a 256 x 256 x 256 product on a TPU v3 against its bound (PyTorchSim's
 * baseline_cycle.csv). */
#define FIXED_SHARE_MAX (INT64_C(2446) * ECH_PS_PER_NS)
/* What takes more than this many times what its bytes and operations need waits for something else. Assumed. */
#define LOOSE 3.0

const char *ech_price_name(EchPriceSource source)
{
    static const char *const names[] = {"free", "roofline",   "estimate", "recorded", "recorded_scaled", "link",
                                        "port", "collective", "runtime",  "unknown",  "estimate_scaled", "model",
                                        "host", "pin",        "file",     "code"};
    return names[source];
}

const char *ech_price_words(EchPriceSource source)
{
    switch (source) {
    case ECH_PRICE_ESTIMATE: return "compiler's estimate";
    case ECH_PRICE_ESTIMATE_SCALED: return "compiler's estimate, scaled";
    case ECH_PRICE_RECORDED_SCALED: return "recorded, scaled";
    case ECH_PRICE_MODEL: return "kernel model";
    case ECH_PRICE_CODE: return "own code";
    case ECH_PRICE_HOST: return "on the host, by its memory";
    case ECH_PRICE_PIN: return "on the host, page by page";
    case ECH_PRICE_FILE: return "on the host, by its disk";
    case ECH_PRICE_FREE:
    case ECH_PRICE_ROOFLINE:
    case ECH_PRICE_RECORDED:
    case ECH_PRICE_LINK:
    case ECH_PRICE_PORT:
    case ECH_PRICE_COLLECTIVE:
    case ECH_PRICE_RUNTIME:
    case ECH_PRICE_UNKNOWN:
    case ECH_N_PRICES: break;
    }
    return ech_price_name(source);
}

/* Resources of one device by what they belong to; NOWHERE where there is none. */
#define NOWHERE UINT32_MAX
#define MAX_LANES 6 /* ways of a torus with three axes */
typedef struct {
    const EchDevice *device;
    uint32_t *port;    /* By device memory. */
    uint32_t *link[3]; /* To, from, both; by device link. */
    uint32_t *lane;    /* First of a torus' ways, two an axis; by device link. */
    uint32_t *unit;    /* By device unit. */
    uint32_t kind_unit[ECH_N_WORK_UNITS];
    const EchMemory **memory;    /* By trace memory; NULL where the device has none of that name. */
    EchHbm *dram;                /* Likewise; banks 0 where its timing is not known. */
    EchTime launch, alloc, free; /* What the runtime costs. */
    double both_to_share;        /* Of bytes over the host link while both directions are busy, the part to the device. */
    double copy_port[2];         /* Units of the device memory's port that a byte of a copy over the host link takes, to the device and from it; 0: its own. */
    uint32_t multiprocessors;    /* Of a GPU whose program communicates, or runs beside others; NOWHERE: nothing holds some of them. */
    bool side_by_side;           /* It runs beside others. */
    double collective_blocks;    /* Multiprocessors that a collective holds. */
    uint32_t rounds;             /* What kernels have of them whose blocks have their tiles from the beginning; NOWHERE: there are no such kernels. */
    const EchLink *host_link;    /* NULL where the device has none. */
    uint32_t beside[3];          /* What of the host link kernels on device memory leave to copies to the device, from it, and both ways at once. */
    double beside_kernel[3];     /* Bytes of that which kernels take for a unit of the port. */
    EchMeasured *measured;       /* Kernel times that the device file carries; NULL without any. */
    EchFluidResource *resources; /* Only capacities are used here. */
    uint32_t n_resources;
    uint8_t *kinds;
    uint32_t *owners;
} Map;

static uint32_t add_resource(Map *map, EchResourceKind kind, size_t owner, double capacity, char *name)
{
    if (!(capacity > 0)) {
        g_free(name);
        return NOWHERE;
    }
    map->resources[map->n_resources] = (EchFluidResource){.name = name, .capacity = capacity};
    map->kinds[map->n_resources] = (uint8_t)kind;
    map->owners[map->n_resources] = (uint32_t)owner;
    return map->n_resources++;
}

static uint64_t best_peak(const EchUnit *unit)
{
    uint64_t best = 0;
    for (size_t i = 0; i < unit->n_peaks; i++)
        best = MAX(best, unit->peaks[i].ops);
    return best;
}

static double port_capacity(const EchMemory *memory)
{
    return (double)MAX(memory->read, memory->write);
}

/* The shares that kernels and copies keep of their rates beside each other: copies to the device, from it, both ways at once. */
static const char *const kernels_keep[] = {"kernel.beside_copies_share", "kernel.beside_copies_from_share"};
static const char *const copies_keep[] = {"kernel.copies_beside_share", "kernel.copies_beside_from_share", "kernel.copies_both_beside_share"};

/* Of way @d of the host link: at most @rate bytes a second, of which copies keep @left while kernels have @kept of the @port. */
static void map_way_beside(Map *map, size_t d, const EchLink *link, double rate, double left, double kept, double port)
{
    static const char *const names[] = {"host.to_device.beside", "host.from_device.beside", "host.both_ways.beside"};
    if (left >= 1)
        return;
    map->beside[d] = add_resource(map, ECH_RESOURCE_BESIDE, (size_t)(link - map->device->links), rate, g_strdup(names[d]));
    map->beside_kernel[d] = (1 - left) * rate / (port * CLAMP(kept, 0.5, 1));
}

/*
 * How copies and kernels slow each other, as calibration has measured it with kernels that read as fast as they can: a byte copied takes so much of the
 * memory's port that such kernels keep their measured share, and such kernels take so much of the link that copies keep theirs. Where a share was not measured,
 * copies take their bytes of the port, or kernels nothing of the link.
 */
static void map_beside(Map *map)
{
    const EchLink *link = map->host_link;
    const EchMemory *hbm = ech_device_memory_kind(map->device, ECH_MEM_HBM);
    double port = hbm ? port_capacity(hbm) : 0, rates[2], left[3], both_kept = 1;
    map->beside[0] = map->beside[1] = map->beside[2] = NOWHERE;
    if (!link || !(link->to_device > 0) || !(link->from_device > 0) || !(port > 0))
        return;
    rates[0] = (double)link->to_device;
    rates[1] = (double)link->from_device;
    double both = rates[0] + rates[1];
    both = link->both_ways > 0 ? MIN((double)link->both_ways, both) : both;
    for (size_t d = 0; d < 3; d++)
        left[d] = CLAMP(ech_device_number(map->device, copies_keep[d], 1), 0.5, 1);
    for (size_t d = 0; d < 2; d++) {
        double kept = ech_device_number(map->device, kernels_keep[d], 0);
        /* A share of noise alone may be above 1. */
        if (kept > 0)
            map->copy_port[d] = MAX(1 - MAX(kept, 0.5), 0.001) * port / (rates[d] * left[d]);
        map_way_beside(map, d, link, rates[d], left[d], kept > 0 ? kept : 1, port);
        double part = d == 0 ? map->both_to_share : 1 - map->both_to_share;
        both_kept -= (map->copy_port[d] > 0 ? map->copy_port[d] : 1) * part * both * left[2] / port;
    }
    map_way_beside(map, 2, link, both, left[2], both_kept, port);
}

static bool communicates(const EchTrace *trace)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        if (ech_trace_ops(trace)[i].kind == ECH_OP_COLLECTIVE)
            return true;
    return false;
}

/* A multiprocessor is a column of lanes of a GPU's vector unit. */
static void map_multiprocessors(Map *map, const EchTrace *trace, bool side_by_side)
{
    const EchDevice *device = map->device;
    double count = 0;
    for (size_t i = 0; i < device->n_units; i++)
        if (device->units[i].kind == ECH_UNIT_VECTOR)
            count = device->units[i].count;
    map->collective_blocks = CLAMP(ech_device_number(device, "kernel.collective_blocks", 0), 0, count / 2);
    bool gpu = g_strcmp0(device->family, "gpu") == 0;
    map->side_by_side = side_by_side && gpu && count > 0;
    map->multiprocessors = map->side_by_side || (gpu && map->collective_blocks > 0 && communicates(trace))
                               ? add_resource(map, ECH_RESOURCE_MULTIPROCESSORS, 0, count, g_strdup("multiprocessors.beside"))
                               : NOWHERE;
    map->rounds = map->multiprocessors != NOWHERE && !map->side_by_side && ech_gpu_gives_tiles(device)
                      ? add_resource(map, ECH_RESOURCE_MULTIPROCESSORS, 0, count, g_strdup("multiprocessors.rounds"))
                      : NOWHERE;
}

/* A memory that a capture names and that nothing is in: of a device that its process only looked at. */
static bool holds_anything(const EchTrace *trace, EchId memory)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        if (buffers[i].memory == memory && (buffers[i].bytes > 0 || !ech_trace_get_property(trace, ECH_TRACE_DEVICE)))
            return true;
    return false;
}

/* Copies that go both ways at once go beside kernels then: that is what programs have queues for. */
static bool has_kernels(const EchTrace *trace)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        if (ech_trace_ops(trace)[i].kind == ECH_OP_KERNEL)
            return true;
    return false;
}

static void map_init(Map *map, const EchTrace *trace, const EchDevice *device, bool side_by_side)
{
    size_t room = device->n_memories + (3 + MAX_LANES) * device->n_links + device->n_units + 6;
    *map = (Map){.device = device,
                 .host_link = ech_device_host_link(device, NULL),
                 .resources = g_new0(EchFluidResource, room),
                 .kinds = g_new0(uint8_t, room),
                 .owners = g_new0(uint32_t, room)};
    map->measured = ech_measured_new(device);
    map->launch = (EchTime)ech_device_number(device, "runtime.launch_ps", 0);
    map->alloc = (EchTime)ech_device_number(device, "runtime.alloc_ps", 0);
    map->free = (EchTime)ech_device_number(device, "runtime.free_ps", 0);
    double alone = ech_device_number(device, "kernel.both_ways_to_share", 0.5), beside = ech_device_number(device, "kernel.both_ways_beside_to_share", alone);
    map->both_to_share = CLAMP(has_kernels(trace) ? beside : alone, 0.05, 0.95);
    map->port = g_new(uint32_t, device->n_memories + 1);
    for (size_t i = 0; i < device->n_memories; i++) /* what lies within another goes through its port, and that stands before it */
        map->port[i] = device->memories[i].within
                           ? map->port[device->memories[i].within - 1]
                           : add_resource(map, ECH_RESOURCE_PORT, i, port_capacity(&device->memories[i]), g_strdup(device->memories[i].name));
    for (size_t d = 0; d < 3; d++)
        map->link[d] = g_new(uint32_t, device->n_links + 1);
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *link = &device->links[i];
        double ports = MAX(link->ports, 1u);
        map->link[0][i] = add_resource(map, ECH_RESOURCE_LINK_TO, i, (double)link->to_device * ports, g_strconcat(link->name, ".to_device", NULL));
        map->link[1][i] = add_resource(map, ECH_RESOURCE_LINK_FROM, i, (double)link->from_device * ports, g_strconcat(link->name, ".from_device", NULL));
        /* A total that the two directions cannot exceed anyway is no resource. */
        bool binds = link->both_ways > 0 && link->both_ways < link->to_device + link->from_device;
        map->link[2][i] =
            add_resource(map, ECH_RESOURCE_LINK_BOTH, i, binds ? (double)link->both_ways * ports : 0, g_strconcat(link->name, ".both_ways", NULL));
    }
    map->unit = g_new(uint32_t, device->n_units + 1);
    for (size_t i = 0; i < ECH_N_WORK_UNITS; i++)
        map->kind_unit[i] = NOWHERE;
    for (size_t i = 0; i < device->n_units; i++) {
        const EchUnit *unit = &device->units[i];
        map->unit[i] = add_resource(map, ECH_RESOURCE_UNIT, i, (double)best_peak(unit), g_strdup(unit->name));
        if ((int)unit->kind < (int)ECH_N_WORK_UNITS && map->unit[i] != NOWHERE)
            map->kind_unit[unit->kind] = (uint32_t)i;
    }
    map_beside(map);
    map_multiprocessors(map, trace, side_by_side);
    map->lane = g_new(uint32_t, device->n_links + 1);
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *link = &device->links[i];
        bool torus = g_strcmp0(device->family, "tpu") == 0 && link->from == link->to && link->ports >= 2 && link->ports <= MAX_LANES;
        map->lane[i] = NOWHERE;
        for (uint32_t k = 0; torus && k < link->ports; k++) {
            uint32_t lane = add_resource(map, ECH_RESOURCE_LINK_LANE, i, (double)MIN(link->to_device, link->from_device),
                                         g_strdup_printf("%s.lane%u", link->name, k)); /* it ends in a neighbour's link */
            map->lane[i] = k == 0 ? lane : map->lane[i];
        }
    }
    /* Special functions without lanes of their own run on the vector lanes; matrix products without an array too. */
    if (map->kind_unit[ECH_WORK_TRANSCENDENTAL] == NOWHERE)
        map->kind_unit[ECH_WORK_TRANSCENDENTAL] = map->kind_unit[ECH_WORK_VECTOR];
    if (map->kind_unit[ECH_WORK_MATRIX] == NOWHERE)
        map->kind_unit[ECH_WORK_MATRIX] = map->kind_unit[ECH_WORK_VECTOR];
    size_t n = ech_trace_n_memories(trace);
    map->memory = g_new(const EchMemory *, n + 1);
    map->dram = g_new0(EchHbm, n + 1);
    for (size_t i = 0; i < n; i++) {
        map->memory[i] = ech_device_memory(device, ech_trace_memory(trace, (EchId)i));
        if (map->memory[i])
            (void)ech_hbm_of(device, map->memory[i], &map->dram[i]);
    }
}

static void map_clear(Map *map)
{
    for (uint32_t i = 0; map->resources && i < map->n_resources; i++)
        g_free(map->resources[i].name);
    ech_measured_free(map->measured);
    g_free(map->resources);
    g_free(map->kinds);
    g_free(map->owners);
    g_free(map->port);
    for (size_t d = 0; d < 3; d++)
        g_free(map->link[d]);
    g_free(map->lane);
    g_free(map->unit);
    g_free(map->memory);
    g_free(map->dram);
}

/* The parts of one op while they are added up: a dense row of amounts; and what of them is its bytes and operations, however long they take. */
typedef struct {
    double *amounts, *work;
    uint32_t *used;
    uint32_t n_used;
} Row;

static void row_add(Row *row, uint32_t resource, double amount)
{
    if (resource == NOWHERE || !(amount > 0))
        return;
    if (row->amounts[resource] == 0)
        row->used[row->n_used++] = resource;
    row->amounts[resource] += amount;
    row->work[resource] += amount;
}

static void row_clear(Row *row)
{
    for (uint32_t i = 0; i < row->n_used; i++)
        row->amounts[row->used[i]] = row->work[row->used[i]] = 0;
    row->n_used = 0;
}

static void row_scale(Row *row, double factor)
{
    for (uint32_t i = 0; i < row->n_used; i++)
        row->amounts[row->used[i]] *= factor;
}

/* Port amount of @read and @written bytes: what is moved at less than the full rate counts more. Reads and writes in equal parts run at the mixed rate. */
static double port_amount(const EchMemory *memory, double read, double written)
{
    double full = port_capacity(memory), mixed = MIN(read, written);
    double r = memory->read ? (double)memory->read : full, w = memory->write ? (double)memory->write : full;
    double amount = (read - mixed) * (full / r) + (written - mixed) * (full / w);
    return amount + (memory->both ? 2 * mixed * (full / (double)memory->both) : mixed * (full / r) + mixed * (full / w));
}

static uint32_t memory_index(const Map *map, const EchMemory *memory)
{
    return (uint32_t)(memory - map->device->memories);
}

static bool is_host(const EchMemory *memory)
{
    return memory->kind == ECH_MEM_HOST_PINNED || memory->kind == ECH_MEM_HOST_PAGEABLE || memory->kind == ECH_MEM_DISK;
}

/* Both directions together seldom share a link evenly: of an amount of both_ways that is shared evenly, each direction needs as much more or less. */
static double both_weight(const Map *map, const EchLink *link, bool forward)
{
    double share = link == map->host_link ? map->both_to_share : 0.5;
    return 0.5 / (forward ? share : 1 - share);
}

static void add_link(const Map *map, Row *row, const EchLink *link, bool forward, double bytes)
{
    size_t i = (size_t)(link - map->device->links);
    row_add(row, map->link[forward ? 0 : 1][i], bytes);
    row_add(row, map->link[2][i], bytes * both_weight(map, link, forward));
}

/* Traffic of @read and @written bytes between a unit of the device and a memory. */
static void add_traffic(const Map *map, Row *row, const EchMemory *memory, double read, double written)
{
    uint32_t at = memory_index(map, memory);
    if (map->port[at] != NOWHERE)
        row_add(row, map->port[at], port_amount(ech_device_bytes_of(map->device, memory), read, written));
    if (!is_host(memory) || memory->within)
        return;
    const EchMemory *hbm = ech_device_memory_kind(map->device, ECH_MEM_HBM);
    bool forward;
    const EchLink *link = hbm ? ech_device_link_between(map->device, memory, hbm, &forward) : NULL;
    if (!link)
        return;
    add_link(map, row, link, forward, read);
    add_link(map, row, link, !forward, written);
}

/* By what a recorded time is carried to another device: the kernel model's times, on GPUs with the same kernels or with others; the rooflines; other kernels of
 * the name; rates of memory and of products; links. */
typedef enum { CARRY_SAME_KERNELS, CARRY_OTHER_KERNELS, CARRY_ROOFLINES, CARRY_NAMESAKES, CARRY_RATES, CARRY_LINKS, N_CARRIES } Carry;

typedef struct {
    const EchTrace *trace;
    double *read, *written; /* Scratch by trace memory. */
    const EchPriceOptions *options;
    EchDiag *diag;
    const char *not_awaited; /* Name of a copy made before the program, for which the device's programs do not wait: it costs nothing; or NULL. */
    EchGpuPricer *gpu;       /* NULL on devices that are no GPUs. */
    double *carried;         /* Recorded picoseconds by how they are carried to another device (Carry). */
    double *modelled;        /* Picoseconds of kernels by the model: [0] all, [1] products of f32 that tensor cores may not round. */
} Pricer;

/* How much more of a memory's port scattered accesses take than as many bytes in a stream. */
static double scatter_factor(const Pricer *pricer, const Map *map, const EchUse *use)
{
    const EchBuffer *buffer = &ech_trace_buffers(pricer->trace)[use->buffer];
    const EchHbm *dram = &map->dram[buffer->memory];
    if (use->pattern == ECH_PATTERN_STREAM || dram->banks == 0)
        return 1;
    const char *shape = ech_trace_string(pricer->trace, buffer->shape);
    uint64_t granule = MAX(map->memory[buffer->memory]->granule, dram->burst_bytes);
    double reads = use->access == ECH_READ ? 1 : 0, moved = 1;
    EchHbmKind kind = use->pattern == ECH_PATTERN_STRIDED ? ECH_HBM_STRIDED : ECH_HBM_RANDOM;
    EchHbmPattern pattern = {.kind = kind, .run = granule, .stride = granule, .reads = reads}; /* of an unknown shape: a granule each */
    EchLayout layout;
    if (*shape && ech_layout_parse(shape, strlen(shape), &layout, NULL, NULL) && layout.rank > 0)
        pattern = ech_hbm_of_layout(&layout, kind, granule, reads, &moved);
    return ech_hbm_slowdown(dram, &pattern) * moved;
}

EchId ech_prices_memory(const EchTrace *trace, const EchDevice *device, const EchOp *op, EchId buffer)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    bool on_host = op->queue != ECH_NONE && ech_trace_queues(trace)[op->queue].kind == ECH_QUEUE_HOST;
    for (size_t m = 0; !on_host && buffers[ech_buffer_root(buffers, buffer, NULL)].managed && m < ech_trace_n_memories(trace); m++) {
        const EchMemory *memory = ech_device_memory(device, ech_trace_memory(trace, (EchId)m));
        if (memory && memory->kind == ECH_MEM_HBM)
            return (EchId)m;
    }
    return buffers[buffer].memory;
}

static void add_uses(const Pricer *pricer, const Map *map, Row *row, const EchOp *op)
{
    const EchUse *uses = ech_trace_uses(pricer->trace);
    size_t n = ech_trace_n_memories(pricer->trace);
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        EchId memory = ech_prices_memory(pricer->trace, map->device, op, uses[u].buffer);
        double bytes = (double)uses[u].bytes * scatter_factor(pricer, map, &uses[u]);
        if (uses[u].access == ECH_WRITE)
            pricer->written[memory] += bytes;
        else
            pricer->read[memory] += bytes;
    }
    for (size_t m = 0; op->n_uses > 0 && m < n; m++) {
        if (map->memory[m] && (pricer->read[m] > 0 || pricer->written[m] > 0))
            add_traffic(map, row, map->memory[m], pricer->read[m], pricer->written[m]);
        pricer->read[m] = pricer->written[m] = 0;
    }
}

/* The rate of a product over the one it was measured at, where it is known how much of the time products take: large ones were measured at what power and heat
 * leave them, small ones at what they do just after a pause. All run at the clock that their power together leaves. */
static double duty_factor(const Pricer *pricer, const Map *map, const EchGemm *gemm)
{
    if (!pricer->options->duty_known)
        return 1;
    double burst = ech_measured_largest_burst(map->measured, map->device, (double)ECH_CUDA_GEMM_HEATS),
           clock = ech_measured_duty_rate(map->device, burst, pricer->options->products_duty) / burst;
    bool heats = ech_cuda_gemm_operations(gemm) > ECH_CUDA_GEMM_HEATS;
    return clock * (heats ? ech_measured_burst(map->device, ech_dtype_name((EchDtype)gemm->dtype), ech_cuda_gemm_is_odd(gemm)) : 1);
}

/* How many times as long as at the unit's peak a product takes: as measured, where the device file has products; else a calibrated device knows a
 * share for sides that are no multiple of 8. */
static double product_factor(const Pricer *pricer, const Map *map, const EchOp *op)
{
    EchGemm gemm;
    if ((!map->measured && !ech_device_has_number(map->device, "kernel.unpadded_share")) || !ech_cuda_gemm_of(pricer->trace, op, &gemm))
        return 1;
    uint64_t m = (uint64_t)gemm.m, n = (uint64_t)gemm.n, k = (uint64_t)gemm.k, batch = (uint64_t)gemm.batch;
    double duty = duty_factor(pricer, map, &gemm);
    double share = ech_measured_product(map->measured, ech_dtype_name((EchDtype)gemm.dtype), m, n, k, batch);
    if (share > 0)
        return 1 / (share * duty);
    share = ech_device_number(map->device, "kernel.unpadded_share", 1);
    return (gemm.known && share > 0 && share < 1 && ech_cuda_gemm_is_odd(&gemm) ? 1 / share : 1) / duty;
}

static void add_work(const Pricer *pricer, const Map *map, Row *row, const EchOp *op)
{
    const EchWork *work = ech_trace_work(pricer->trace);
    double factor = 0;
    for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++) {
        uint32_t at = map->kind_unit[work[w].unit];
        if (at == NOWHERE)
            continue;
        const EchUnit *unit = &map->device->units[at];
        uint64_t peak = ech_unit_peak(unit, ech_dtype_name((EchDtype)work[w].dtype));
        if (peak == 0)
            continue;
        bool product = unit->kind == ECH_UNIT_MATRIX && work[w].unit == ECH_WORK_MATRIX;
        if (product && factor == 0)
            factor = product_factor(pricer, map, op);
        row_add(row, map->unit[at], (double)work[w].count * ((double)best_peak(unit) / (double)peak) * (product ? factor : 1));
    }
}

/* The host's memory, or a link: kernels use no other than the host's. */
static bool is_of_host(const Map *map, uint32_t resource)
{
    EchResourceKind kind = map->kinds[resource];
    if (kind == ECH_RESOURCE_PORT)
        return is_host(&map->device->memories[map->owners[resource]]);
    return kind == ECH_RESOURCE_LINK_TO || kind == ECH_RESOURCE_LINK_FROM || kind == ECH_RESOURCE_LINK_BOTH || kind == ECH_RESOURCE_LINK_LANE;
}

/* Picoseconds that the row's amount of @resource takes alone. */
static double resource_time(const Map *map, const Row *row, uint32_t resource)
{
    return row->amounts[resource] * (double)ECH_PS_PER_S / map->resources[resource].capacity;
}

/* Seconds of the row alone, as picoseconds, and which resource bounds it. */
static double row_time(const Map *map, const Row *row, uint32_t *ret_bound)
{
    double worst = 0;
    uint32_t bound = NOWHERE;
    for (uint32_t i = 0; i < row->n_used; i++) {
        double time = resource_time(map, row, row->used[i]);
        if (time > worst || (time == worst && row->used[i] < bound)) {
            worst = time;
            bound = row->used[i];
        }
    }
    if (ret_bound)
        *ret_bound = bound;
    return worst;
}

static double kernel_roofline(const Pricer *pricer, const Map *map, Row *row, const EchOp *op)
{
    add_work(pricer, map, row, op);
    add_uses(pricer, map, row, op);
    return row_time(map, row, NULL);
}

static EchTime whole_ps(double ps)
{
    return ps < 9e18 ? (EchTime)ceil(ps - 1e-6) : ECH_TIME_MAX;
}

static EchTime launch_time(const Pricer *pricer, const Map *map)
{
    return pricer->options->overhead ? map->launch : 0;
}

/* Of a program that ran on a GPU, or on one that was not there: its kernels, as a profiler times them. */
static bool is_captured(const EchTrace *trace, const EchOp *op)
{
    return op->recorded.duration >= 0 || ech_trace_is_captured(trace);
}

/* What lies between kernels of a stream is its own in a captured program (runtime.kernel_gap_ps). */
static EchTime start_time(const Pricer *pricer, const Map *map, const EchOp *op)
{
    EchTime launch = launch_time(pricer, map);
    return pricer->gpu && is_captured(pricer->trace, op) ? MIN(launch, ech_gpu_start(map->device)) : launch;
}

/* From the end of the kernel before a fill in a CUDA graph to the start of the one behind it, beyond what lies between two kernels: 30 of an XLA program on an
 * H100 (jax_profile.xplane.pb.gz), 5.0 to 6.5 us in all, 0.8 of them the fill itself. */
#define GRAPH_FILL_PS 5400000.0

static EchTime fill_time(const Pricer *pricer, const Map *map, const EchOp *op)
{
    EchGpuLaunch launch;
    if (!pricer->options->overhead || op->launch == ECH_NONE || op->recorded.duration >= 0 || op->n_work == 0)
        return 0;
    double capability = ech_device_number(map->device, "kernel.compute_capability", 0);
    bool fills = capability >= 9 && capability < 10 && ech_gpu_launch_parse(ech_trace_string(pricer->trace, op->launch), &launch) && launch.fills;
    return fills ? (EchTime)ech_device_number(map->device, "runtime.graph_fill_ps", GRAPH_FILL_PS) : 0;
}

/* A known whole time @time on the reference becomes a fixed part and a factor on the roofline's amounts. */
static void spread_known(EchPrice *price, Row *row, double reference_roofline, EchTime time)
{
    if (!(reference_roofline > 0) || row->n_used == 0) {
        price->fixed = time;
        row_clear(row);
        return;
    }
    double rest = (double)time - reference_roofline;
    double fixed = rest > 0 ? MIN(rest, (double)FIXED_SHARE_MAX) : 0;
    price->fixed = (EchTime)fixed;
    double factor = ((double)time - (double)price->fixed) / reference_roofline;
    if (factor > LOOSE) {
        price->loose = 1;
        price->minimum = (EchTime)((double)time - fixed);
        return;
    }
    row_scale(row, factor);
}

/* Compiled for a TPU and run on a GPU, or the other way. */
static bool is_of_another_kind(const EchTrace *trace, const EchDevice *device)
{
    const char *platform = ech_trace_get_property(trace, "platform");
    return platform && device->family && strcmp(platform, device->family) != 0;
}

static bool estimate_holds(const EchTrace *trace, const EchDevice *reference)
{
    const char *chip = ech_trace_get_property(trace, "chip"), *priced = ech_trace_get_property(trace, "estimates_for");
    if (priced && *priced) /* by our own model, for this device */
        return strcmp(priced, reference->name) == 0;
    if (is_of_another_kind(trace, reference))
        return false;
    return !chip || !*chip || !reference->compiler || !*reference->compiler || strcmp(chip, reference->compiler) == 0 || strcmp(chip, reference->name) == 0;
}

/* What a kernel bound by device memory takes beyond launch and bytes, as measured: its ramp. */
static EchTime stream_extra(const Map *map, const Row *row)
{
    uint32_t bound;
    if (!(row_time(map, row, &bound) > 0) || bound == NOWHERE || map->kinds[bound] != ECH_RESOURCE_PORT ||
        map->device->memories[map->owners[bound]].kind != ECH_MEM_HBM)
        return 0;
    return ech_measured_stream_extra(map->measured, (EchBytes)MIN(row->amounts[bound], 1e18));
}

/* Whether a GPU kernel of @time has what its @roofline counts busy all along. It has not where the model says what else it waits for (@cost; NULL where it
 * does not know the kernel), or where it takes several times as long. */
static bool bound_by_resources(const EchGpuCost *cost, double time, double roofline)
{
    return (!cost || cost->bound == ECH_GPU_BY_MEMORY || cost->bound == ECH_GPU_BY_MATRIX) && time <= LOOSE * roofline;
}

/* What was found in a cache is no work of the memory's port. */
static void take_cached(const Map *map, Row *row, const EchGpuCost *cost)
{
    const EchMemory *hbm = ech_device_memory_kind(map->device, ECH_MEM_HBM);
    uint32_t port = hbm && cost->bytes > 0 ? map->port[memory_index(map, hbm)] : NOWHERE;
    if (port != NOWHERE)
        row->work[port] *= 1 - MIN((double)cost->cached / (double)cost->bytes, 1);
}

/* The longest of a kernel's @row in units, in seconds; @share: of their rate, what it reaches of tensor cores. */
static double unit_seconds(const Map *map, const Row *row, double share)
{
    double time = 0;
    for (uint32_t i = 0; i < row->n_used; i++)
        if (map->kinds[row->used[i]] == ECH_RESOURCE_UNIT) {
            bool is_matrix = map->device->units[map->owners[row->used[i]]].kind == ECH_UNIT_MATRIX;
            time = MAX(time, resource_time(map, row, row->used[i]) / (is_matrix ? share : 1));
        }
    return time / ECH_PS_PER_S;
}

/* What a kernel's code takes, of which it tells what its warps wait for: what the row has is busy all that time, if it is that which binds. */
static void spread_code(const Map *map, Row *row, const EchGpuCodeCost *cost, EchPrice *price)
{
    uint32_t bound;
    double time = row_time(map, row, &bound);
    price->kernel_bound = cost->bound;
    if (cost->bound == ECH_GPU_BY_LATENCY) {
        price->minimum = MAX(price->minimum, ech_time_add(cost->busy, cost->waits));
        return;
    }
    price->fixed = ech_time_add(price->fixed, cost->waits);
    if ((cost->bound == ECH_GPU_BY_MEMORY || cost->bound == ECH_GPU_BY_ARITHMETIC) && time > 0 && bound != NOWHERE && (double)cost->busy <= LOOSE * time)
        row->amounts[bound] *= (double)cost->busy / time;
    else
        price->minimum = MAX(price->minimum, cost->busy);
}

/* Of a kernel whose own code was looked at: what it uses is found in L2 as far as its launch tells that it was used shortly before, that much less is asked of
 * the memory, and L2 has its own rate; and it takes what its code does. False where that does not tell what its warps wait for. */
static bool price_by_code(const Pricer *pricer, const Map *map, Row *row, const EchOp *op, EchPrice *price)
{
    const EchMemory *hbm = ech_device_memory_kind(map->device, ECH_MEM_HBM), *l2 = ech_device_memory_kind(map->device, ECH_MEM_CACHE);
    uint32_t port = hbm ? map->port[memory_index(map, hbm)] : NOWHERE;
    EchGpuKernel kernel;
    if (op->launch == ECH_NONE || !ech_gpu_pricer_kernel(pricer->gpu, map->device, op, &kernel))
        return false;
    EchBytes all = ech_bytes_add(kernel.read, kernel.written);
    price->cached = l2 && port != NOWHERE ? ech_gpu_near_bytes(&kernel.launch, map->device, all) : 0;
    double share = all > 0 ? 1 - (double)price->cached / (double)all : 1;
    if (price->cached > 0) {
        row->work[port] *= share;
        row->amounts[port] *= share;
        price->minimum = MAX(price->minimum, whole_ps((double)price->cached / (double)l2->read * ECH_PS_PER_S));
    }
    EchGpuCode code = {.read = (double)kernel.read * share,
                       .written = (double)kernel.written * share,
                       .units = unit_seconds(map, row, ech_gpu_code_share(&kernel.launch, map->device))};
    EchGpuCodeCost cost;
    if (!ech_gpu_code_cost(&kernel.launch, map->device, &code, &cost))
        return false;
    if (kernel.launch.path_cycles == 0) { /* of older captures */
        price->minimum = MAX(price->minimum, cost.busy);
        return false;
    }
    spread_code(map, row, &cost, price);
    return true;
}

/* A time of the kernel model becomes its start and the roofline's amounts. Those that would take longer than the rest of the time were found in a cache, as
 * far as they would; where a resource bounds the kernel, what bounds most is busy all the rest, else all take at least that. The model knows the device alone:
 * what the kernel reads and writes of the host's memory takes what the way there takes, beside it (kernels that read and write pinned memory reach the rate of
 * large copies one way, 50 GB/s on an H100, and 68.5 of their 83.4 both ways: vLLM's blog of 2026-01-08). */
static void spread_model(const Map *map, EchPrice *price, Row *row, const EchGpuCost *cost, EchTime launch)
{
    double on_device = 0;
    for (uint32_t i = 0; i < row->n_used; i++)
        if (!is_of_host(map, row->used[i]))
            on_device = MAX(on_device, resource_time(map, row, row->used[i]));
    EchTime rest = MAX(cost->time - cost->launch, 0);
    price->fixed = launch > 0 ? MAX(launch, cost->launch) : 0; /* many kernels start many times */
    price->cached = cost->cached;
    take_cached(map, row, cost);
    bool bound = bound_by_resources(cost, (double)rest, on_device) || (price->on_lanes && cost->bound == ECH_GPU_BY_ISSUE && (double)rest <= LOOSE * on_device);
    if (!bound)
        price->minimum = rest;
    for (uint32_t i = 0; i < row->n_used; i++) {
        double time = resource_time(map, row, row->used[i]);
        bool most = bound && time == on_device;
        if (!is_of_host(map, row->used[i]) && (most || time > (double)rest))
            row->amounts[row->used[i]] *= (double)rest / time;
    }
}

/* A recorded duration, carried to this device: on a GPU by the kernel model's two times where it knows the kernel, else by the two rooflines; without bytes and
 * operations by a rate, until carry_as_namesakes(). */
static void spread_recorded(const Pricer *pricer, const Map *map, const Map *reference, EchPrice *price, Row *row, const EchOp *op, double roofline,
                            double reference_roofline)
{
    double recorded = (double)op->recorded.duration;
    if (!(reference_roofline > 0)) {
        row_clear(row);
        price->minimum = whole_ps(reference == map ? recorded : recorded * ech_gpu_pricer_blind_ratio(pricer->gpu, map->device, reference->device, op));
        return;
    }
    if (g_strcmp0(map->device->family, "gpu") != 0 || !(roofline > 0)) {
        pricer->carried[CARRY_ROOFLINES] += recorded;
        spread_known(price, row, reference_roofline, op->recorded.duration);
        return;
    }
    EchGpuCost here, there;
    bool known = reference == map && ech_gpu_pricer_cost(pricer->gpu, map->device, op, &here, NULL), whole;
    bool carried = reference != map && ech_gpu_pricer_costs(pricer->gpu, map->device, reference->device, op, &here, &there, &whole);
    double time = recorded * roofline / reference_roofline;
    if (carried)
        time = whole ? recorded * (double)here.time / (double)there.time : (double)here.time * sqrt(recorded / (double)there.time);
    pricer->carried[!carried ? CARRY_ROOFLINES : whole ? CARRY_SAME_KERNELS : CARRY_OTHER_KERNELS] += recorded;
    known = known || carried;
    if (known) {
        price->cached = here.cached;
        take_cached(map, row, &here);
    }
    if (!bound_by_resources(known ? &here : NULL, time, roofline)) {
        price->minimum = whole_ps(time);
        if (roofline > time) /* what was inferred of it cannot be true */
            row_scale(row, time / roofline);
    } else if (carried)
        spread_known(price, row, roofline, whole_ps(time));
    else
        spread_known(price, row, reference_roofline, op->recorded.duration);
}

/* A product of a compiled program whose like was measured on this very device. */
static bool has_measured(const Pricer *pricer, const Map *map, const EchOp *op)
{
    EchGemm gemm;
    EchGpuKernel kernel;
    /* A captured kernel has its own tile, and its chip the clock that the rest of the program leaves: squares timed one after another say less of it. */
    return map->measured && !is_captured(pricer->trace, op) && ech_gpu_pricer_kernel(pricer->gpu, map->device, op, &kernel) &&
           kernel.launch.kind == ECH_GPU_PRODUCT && ech_cuda_gemm_of(pricer->trace, op, &gemm) &&
           ech_measured_product(map->measured, ech_dtype_name((EchDtype)gemm.dtype), (uint64_t)gemm.m, (uint64_t)gemm.n, (uint64_t)gemm.k,
                                (uint64_t)gemm.batch) > 0;
}

/* Whether it is a product of 32-bit floats that tensor cores may not round to TF32: by the kernel's name, or as a library is asked for it. */
static bool is_exact_f32(const Pricer *pricer, const Map *map, const EchOp *op, const EchPrice *price)
{
    EchGpuKernel kernel;
    if (price->kernel_class != ECH_GPU_PRODUCT || !ech_gpu_pricer_kernel(pricer->gpu, map->device, op, &kernel))
        return false;
    bool asked = kernel.launch.kind == ECH_GPU_PRODUCT && kernel.launch.arithmetic == 0;
    return kernel.launch.operand_bytes == 4 && strcmp(kernel.dtype ? kernel.dtype : "f32", "f32") == 0 && (asked || kernel.name.arithmetic == ECH_GPU_FMA);
}

/* Its products are what the vector unit's lanes do, not the matrix unit. */
static void move_to_lanes(const Pricer *pricer, const Map *map, Row *row, const EchOp *op)
{
    uint32_t from = map->kind_unit[ECH_WORK_MATRIX], to = map->kind_unit[ECH_WORK_VECTOR];
    const EchUnit *lanes = to == NOWHERE ? NULL : &map->device->units[to];
    uint64_t peak = lanes ? ech_unit_peak(lanes, ech_dtype_name(ECH_DTYPE_F32)) : 0;
    if (from == NOWHERE || peak == 0 || from == to)
        return;
    row->amounts[map->unit[from]] = row->work[map->unit[from]] = 0;
    for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++) {
        const EchWork *work = &ech_trace_work(pricer->trace)[w];
        if (work->unit == ECH_WORK_MATRIX)
            row_add(row, map->unit[to], (double)work->count * ((double)best_peak(lanes) / (double)peak));
    }
}

static void price_kernel(const Pricer *pricer, const Map *map, const Map *reference, Row *row, Row *scratch, const EchOp *op, EchPrice *price)
{
    double roofline = kernel_roofline(pricer, map, row, op);
    double base = roofline;
    if (reference != map) {
        base = kernel_roofline(pricer, reference, scratch, op);
        row_clear(scratch);
    }
    bool estimate = op->estimate != ECH_TIME_NONE && op->estimate_origin != ECH_ABSENT && estimate_holds(pricer->trace, reference->device);
    bool recorded = op->recorded.duration >= 0;
    bool counted = op->n_work > 0 || (roofline > 0 && !recorded);
    EchPriceSource source = ECH_PRICE_UNKNOWN;
    switch (pricer->options->kernel_time) {
    case ECH_KERNEL_TIME_AUTO: source = estimate ? ECH_PRICE_ESTIMATE : recorded ? ECH_PRICE_RECORDED : counted ? ECH_PRICE_ROOFLINE : ECH_PRICE_UNKNOWN; break;
    case ECH_KERNEL_TIME_ESTIMATE:
    case ECH_KERNEL_TIME_MODEL:
        source = estimate ? ECH_PRICE_ESTIMATE : counted ? ECH_PRICE_ROOFLINE : recorded ? ECH_PRICE_RECORDED : ECH_PRICE_UNKNOWN;
        break;
    case ECH_KERNEL_TIME_RECORDED:
        source = recorded ? ECH_PRICE_RECORDED : roofline > 0 ? ECH_PRICE_ROOFLINE : estimate ? ECH_PRICE_ESTIMATE : ECH_PRICE_UNKNOWN;
        break;
    case ECH_KERNEL_TIME_ROOFLINE:
        source = roofline > 0 ? ECH_PRICE_ROOFLINE : estimate ? ECH_PRICE_ESTIMATE : recorded ? ECH_PRICE_RECORDED : ECH_PRICE_UNKNOWN;
        break;
    case ECH_N_KERNEL_TIMES: break;
    }
    EchTime launch = start_time(pricer, map, op);
    EchGpuCost cost;
    if (source == ECH_PRICE_ESTIMATE) {
        spread_known(price, row, base, op->estimate);
        price->fixed = ech_time_add(price->fixed, launch);
        if (op->estimate_origin == ECH_INFERRED)
            source = ECH_PRICE_MODEL;
        else if (ech_trace_get_property(pricer->trace, "estimates_scaled_from"))
            source = ECH_PRICE_ESTIMATE_SCALED;
    } else if (source == ECH_PRICE_RECORDED) {
        /* Recorded durations begin when the kernel does: no launch. */
        if (reference != map)
            source = ECH_PRICE_RECORDED_SCALED;
        spread_recorded(pricer, map, reference, price, row, op, roofline, base);
    } else if (source == ECH_PRICE_ROOFLINE && pricer->options->kernel_time != ECH_KERNEL_TIME_ROOFLINE && !has_measured(pricer, map, op) &&
               ech_gpu_pricer_cost(pricer->gpu, map->device, op, &cost, &price->kernel_class)) {
        source = ECH_PRICE_MODEL;
        price->kernel_bound = cost.bound;
        price->given = cost.given;
        price->rounds = (double)cost.tiles / MAX(cost.resident, 1u);
        price->on_lanes = is_exact_f32(pricer, map, op, price);
        if (price->on_lanes)
            move_to_lanes(pricer, map, row, op);
        spread_model(map, price, row, &cost, launch);
        pricer->modelled[0] += (double)cost.time;
        pricer->modelled[1] += price->on_lanes ? (double)cost.time : 0;
    } else {
        price->fixed = launch;
        if (source == ECH_PRICE_ROOFLINE && pricer->options->kernel_time != ECH_KERNEL_TIME_ROOFLINE && price_by_code(pricer, map, row, op, price))
            source = ECH_PRICE_CODE;
        if (source == ECH_PRICE_UNKNOWN)
            row_clear(row);
        else if (pricer->options->overhead && map->measured && source != ECH_PRICE_CODE)
            price->fixed = ech_time_add(launch, stream_extra(map, row));
        else if (pricer->options->overhead && pricer->options->kernel_time != ECH_KERNEL_TIME_ROOFLINE && op->launch != ECH_NONE && source != ECH_PRICE_CODE)
            price->fixed = ech_time_add(launch, ech_gpu_trip(map->device)); /* nothing hides the first access of a kernel */
    }
    if (source == ECH_PRICE_MODEL || source == ECH_PRICE_ROOFLINE || source == ECH_PRICE_CODE)
        price->fixed = ech_time_add(price->fixed, fill_time(pricer, map, op));
    price->source = (uint8_t)source;
}

/* What a host's processor does with its own memory: an operator on arrays that never left it. */
static bool is_host_work(const EchTrace *trace, const EchOp *op)
{
    return op->queue != ECH_NONE && ech_trace_queues(trace)[op->queue].kind == ECH_QUEUE_HOST && op->recorded.duration == ECH_TIME_NONE &&
           op->estimate == ECH_TIME_NONE;
}

/* Pinning a page where the device does not say. One that the kernel has to bring in first: cudaHostAlloc takes 0.49, 0.99, 1.97, 3.94 and 7.86 s for 1 to 16
 * GiB (an L4's host, NVIDIA/cudf pull request 23457). One that is there: cudaHostRegister takes 0.1 s for 1 GB (H200, vllm-project/vllm pull request 51081). */
#define PIN_NEW_PAGE (1875 * ECH_PS_PER_NS)
#define PIN_PAGE (410 * ECH_PS_PER_NS)
#define HOST_PAGE_BYTES 4096

static EchTime pin_time(const EchDevice *device, EchBytes bytes, bool fresh)
{
    double page =
        fresh ? ech_device_number(device, "runtime.pin_new_page_ps", (double)PIN_NEW_PAGE) : ech_device_number(device, "runtime.pin_page_ps", (double)PIN_PAGE);
    return whole_ps((double)bytes / HOST_PAGE_BYTES * page);
}

/* What a program's threads read and write a second, where the device does not say: PyTorch's AdamW by 16 processors of an H200's virtual machine
 * (traces/gpu_h200/measures); DeepSpeed's, 28 bytes of each of 11.6 G parameters, took 8.2 s, 40 GB/s (DeepSpeed pull request 735). */
#define PROCESSOR_RATE 69e9

/* What a disk gives and takes a second where the device does not say: by a token of two models whose weights lie partly on the disk of a host of 32 GB, 2.7 and
 * 3.6 GB/s (huggingface/accelerate, benchmarks/big_model_inference); writing is assumed. */
#define DISK_READ 3e9
#define DISK_WRITE 1e9

/* As a disk has it, or where the host's memory is large enough for its page cache to have it at the rate of a copy in memory; a page that is mapped and there
 * takes nothing. */
static EchTime file_time(const Pricer *pricer, const Map *map, EchFileUse use, EchBytes bytes, EchBytes needs)
{
    const EchMemory *host = ech_device_memory_kind(map->device, ECH_MEM_HOST_PINNED), *copied = ech_device_memory_kind(map->device, ECH_MEM_HOST_PAGEABLE);
    const bool cached = host && needs <= host->capacity, written = use == ECH_FILE_WRITTEN;
    double rate = written ? ech_device_number(map->device, "runtime.disk_write", DISK_WRITE) : ech_device_number(map->device, "runtime.disk_read", DISK_READ);
    if (cached)
        rate = use == ECH_FILE_MAPPED ? 0 : copied ? (double)(written ? copied->write : copied->read) : PROCESSOR_RATE;
    ech_diag_note(pricer->diag, cached ? "file_bytes_in_memory" : written ? "file_bytes_to_disk" : "file_bytes_of_disk", bytes);
    return rate > 0 ? whole_ps((double)bytes / rate * ECH_PS_PER_S) : 0;
}

/* False where it is nothing of a file's. */
static bool price_file(const Pricer *pricer, const Map *map, const EchOp *op, EchPrice *price)
{
    EchBytes bytes, needs;
    const EchFileUse use = ech_op_file(pricer->trace, op, &bytes, &needs);
    if (use == ECH_FILE_NONE)
        return false;
    price->source = ECH_PRICE_FILE;
    price->fixed = pricer->options->overhead ? file_time(pricer, map, use, bytes, needs) : 0;
    return true;
}

/* As fast as the memory gives and takes its bytes and the processor moves them, by no link and without a launch. */
static void price_host_work(const Pricer *pricer, const Map *map, Row *row, const EchOp *op, EchPrice *price)
{
    bool fresh;
    if (price_file(pricer, map, op, price))
        return;
    EchBytes pinned = ech_trace_pins(pricer->trace, op, &fresh);
    price->source = pinned > 0 ? ECH_PRICE_PIN : ECH_PRICE_HOST;
    if (pinned > 0) {
        price->fixed = pricer->options->overhead ? pin_time(map->device, pinned, fresh) : 0;
        return;
    }
    const EchUse *uses = ech_trace_uses(pricer->trace);
    double bytes = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchMemory *memory = map->memory[ech_trace_buffers(pricer->trace)[uses[u].buffer].memory];
        bool reads = uses[u].access == ECH_READ;
        if (memory && map->port[memory_index(map, memory)] != NOWHERE)
            row_add(row, map->port[memory_index(map, memory)], port_amount(memory, reads ? (double)uses[u].bytes : 0, reads ? 0 : (double)uses[u].bytes));
        bytes += (double)uses[u].bytes;
    }
    double rate = ech_device_number(map->device, "runtime.processor_rate", PROCESSOR_RATE);
    price->minimum = rate > 0 ? whole_ps(bytes / rate * ECH_PS_PER_S) : 0;
    if (bytes > 0 && !ech_device_has_number(map->device, "runtime.processor_rate"))
        ech_diag_note(pricer->diag, "host_work_at_assumed_rate", 1);
}

/* What a copy of @bytes takes of @memory's port, @direction 0 to the device and 1 from it: of the device's by the host link as measured, else @usual. */
static double copied_amount(const Map *map, const EchMemory *memory, bool host, size_t direction, double bytes, double usual)
{
    return host && memory->kind == ECH_MEM_HBM && map->copy_port[direction] > 0 ? bytes * map->copy_port[direction] : usual;
}

/* How many times as long as reading and writing its bytes a copy inside device memory takes, where that was measured: the share is of bytes copied, each of
 * which is read and written. */
static double device_copy_factor(const Map *map, const EchMemory *memory)
{
    double share = memory->kind == ECH_MEM_HBM ? ech_device_number(map->device, "kernel.copy_share", 0) : 0;
    return share > 0 ? CLAMP(0.5 / share, 0.5, 8) : 1;
}

/* What the kernel or copy on the device in @row takes of the host link from copies beside it. */
static void add_beside(const Map *map, Row *row)
{
    const EchMemory *hbm = ech_device_memory_kind(map->device, ECH_MEM_HBM);
    uint32_t port = hbm ? map->port[memory_index(map, hbm)] : NOWHERE;
    for (size_t d = 0; port != NOWHERE && d < G_N_ELEMENTS(map->beside); d++)
        row_add(row, map->beside[d], row->amounts[port] * map->beside_kernel[d]);
}

/* Beside other processes: as much of them as its blocks fill, whatever bounds it. */
static void hold_what_it_fills(const Pricer *pricer, const Map *map, Row *row, const EchOp *op, const EchPrice *price, double seconds)
{
    EchGpuLaunch launch;
    bool known = op->launch != ECH_NONE && ech_gpu_launch_parse(ech_trace_string(pricer->trace, op->launch), &launch);
    double count = map->resources[map->multiprocessors].capacity, filled = known ? ech_gpu_filled(&launch, map->device) : 0;
    if (filled <= 0)
        filled = price->rounds > 0 ? MIN(price->rounds / count, 1) : 1;
    if (!is_host_work(pricer->trace, op))
        row_add(row, map->multiprocessors, filled * count * seconds);
}

/* What the collective or the kernel in @row holds of the multiprocessors while it runs: a collective its blocks; a kernel all of them, or as many as it has
 * blocks. What memory bounds is as fast on fewer, and what was recorded had what it had. Where a kernel's blocks have their tiles from the beginning and not
 * all of them find a multiprocessor, the rest begin when the others end: it has half of the chip, so to say (cuBLAS's products take twice as long beside NCCL
 * on an H100, pytorch/pytorch issue 143988 and NVIDIA/cutlass issue 2471; 1.7 times, NVIDIA forum 337991). */
static void add_multiprocessors(const Pricer *pricer, const Map *map, Row *row, const EchOp *op, const EchPrice *price)
{
    if (map->multiprocessors == NOWHERE)
        return;
    double count = map->resources[map->multiprocessors].capacity, held = map->collective_blocks;
    double seconds = (double)(price->alone - price->fixed) / (double)ECH_PS_PER_S;
    if (op->kind == ECH_OP_KERNEL) {
        if (map->side_by_side) {
            hold_what_it_fills(pricer, map, row, op, price, seconds);
            return;
        }
        bool predicted = price->source == ECH_PRICE_MODEL || price->source == ECH_PRICE_ROOFLINE || price->source == ECH_PRICE_ESTIMATE;
        if (!predicted || is_host_work(pricer->trace, op) || (price->bound != ECH_NONE && map->kinds[price->bound] == ECH_RESOURCE_PORT))
            return;
        if (map->rounds != NOWHERE && price->given + map->collective_blocks > count) {
            row_add(row, map->rounds, count * seconds);
            return;
        }
        EchGpuLaunch launch;
        bool known = op->launch != ECH_NONE && ech_gpu_launch_parse(ech_trace_string(pricer->trace, op->launch), &launch);
        uint64_t blocks = price->given > 0 ? price->given : known ? ech_gpu_blocks(&launch) : 0;
        held = blocks > 0 ? MIN((double)blocks, count) : count;
    } else if (op->kind != ECH_OP_COLLECTIVE) {
        return;
    } else if (map->rounds != NOWHERE) {
        row_add(row, map->rounds, count / 2 * seconds);
    }
    row_add(row, map->multiprocessors, held * seconds);
}

/* Where the device does not say: cudaMemcpyAsync of 256 bytes one after another in C++, each for itself, take 2.3 us (an H20, taco-project/FlexKV pull request
 * 193); one of thousands that cuMemcpyBatchAsync asks for 0.5 (an H100, vllm-project/vllm pull request 48434). */
#define COPY_IN_LOOP (2300 * ECH_PS_PER_NS)
#define COPY_IN_BATCH (500 * ECH_PS_PER_NS)

EchTime ech_price_behind(const EchDevice *device, EchBehind behind)
{
    switch (behind) {
    case ECH_BEHIND_LOOP: return (EchTime)ech_device_number(device, "runtime.copy_in_loop_ps", (double)COPY_IN_LOOP);
    case ECH_BEHIND_BATCH: return (EchTime)ech_device_number(device, "runtime.copy_in_batch_ps", (double)COPY_IN_BATCH);
    case ECH_BEHIND_NONE: break;
    }
    return ECH_TIME_MAX;
}

/* A page that the kernel brings in while the driver copies to it, where the device does not say: 150 arrays of 50 MB came from an H100 to new memory in 4.66 s,
 * to memory that had been touched in 0.55 (pytorch/pytorch pull request 120378). */
#define TOUCH_PAGE (2240 * ECH_PS_PER_NS)

/* Of the port of @to, while pages come in that nothing had touched: captures say so in the copy's name. */
static double touched_amount(const Pricer *pricer, const Map *map, const EchMemory *to, const EchOp *op)
{
    if (to->kind != ECH_MEM_HOST_PAGEABLE || !ech_trace_copy_untouched(pricer->trace, op))
        return 0;
    double page = ech_device_number(map->device, "runtime.touch_page_ps", (double)TOUCH_PAGE);
    return (double)op->bytes / HOST_PAGE_BYTES * page / (double)ECH_PS_PER_S * port_capacity(to);
}

/* What joins the device to others of its kind, or NULL. */
static const EchLink *link_to_peers(const EchDevice *device)
{
    const EchLink *link = ech_device_link(device, "ici");
    if (!link)
        link = ech_device_link(device, "nvlink");
    for (size_t i = 0; !link && i < device->n_links; i++)
        if (device->links[i].from == device->links[i].to)
            link = &device->links[i];
    return link;
}

/* What copies over the host's memory, between devices that were not told to reach one another, get of the host link: of an H100's 53.8 GB/s 37.2
 * (p2pBandwidthLatencyTest, P2P=Disabled, in NCCL's issue 1264). */
#define STAGED 0.69

/* The same, or where there is none the host link, where one end of copy @op is another device's memory, "hbm:1" beside "hbm"; else NULL. *ret_share: of it. */
static const EchLink *link_to_peer(const Pricer *pricer, const Map *map, const EchOp *op, const EchMemory *from, const EchMemory *to, bool *ret_forward,
                                   double *ret_share)
{
    const EchMemory *own = from ? from : to;
    if (!own || (from && to) || own->kind != ECH_MEM_HBM)
        return NULL;
    const char *other = ech_trace_memory(pricer->trace, from ? op->memory_to : op->memory_from);
    size_t n = strlen(own->name);
    *ret_forward = from != NULL;
    if (strncmp(other, own->name, n) != 0 || other[n] != ':')
        return NULL;
    const bool staged = ech_trace_copy_staged(pricer->trace, op);
    const EchLink *link = staged ? NULL : link_to_peers(map->device);
    if (link)
        return link;
    const double share = ech_device_peer_share(map->device);
    *ret_share = staged ? MIN(share, STAGED) : share;
    return map->host_link;
}

/* Between a memory of the device and one beyond it. */
static bool leaves_the_device(const EchMemory *from, const EchMemory *to)
{
    return from && to && is_host(from) != is_host(to) && !from->within && !to->within;
}

static bool price_copy(const Pricer *pricer, const Map *map, Row *row, const EchOp *op, EchPrice *price)
{
    const EchMemory *from = map->memory[op->memory_from], *to = map->memory[op->memory_to];
    double bytes = (double)op->bytes;
    bool forward = true;
    double share = 1;
    if (ech_op_is_prefetch(pricer->trace, op)) /* what has to move is known when it runs */
        return true;
    const EchLink *link =
        from && to && from != to ? ech_device_transfer_link(map->device, from, to, &forward) : link_to_peer(pricer, map, op, from, to, &forward, &share);
    price->source = ECH_PRICE_PORT;
    bool host = link && link == map->host_link;
    if (from && from == to) {
        if (map->port[memory_index(map, from)] != NOWHERE)
            row_add(row, map->port[memory_index(map, from)], port_amount(from, bytes, bytes) * device_copy_factor(map, from));
    } else {
        if (from && map->port[memory_index(map, from)] != NOWHERE)
            row_add(row, map->port[memory_index(map, from)],
                    copied_amount(map, from, host, 1, bytes, port_amount(ech_device_bytes_of(map->device, from), bytes, 0)));
        if (to && map->port[memory_index(map, to)] != NOWHERE)
            row_add(row, map->port[memory_index(map, to)],
                    copied_amount(map, to, host, 0, bytes, port_amount(ech_device_bytes_of(map->device, to), 0, bytes)) + touched_amount(pricer, map, to, op));
    }
    if (host) {
        row_add(row, map->beside[forward ? 0 : 1], bytes / share);
        row_add(row, map->beside[2], bytes / share * both_weight(map, link, forward));
    }
    if (link) {
        price->source = ECH_PRICE_LINK;
        price->link = (uint32_t)(link - map->device->links);
        price->forward = forward;
        add_link(map, row, link, forward, bytes / share);
        price->on_engine = pricer->options->copy_curve && link->n_curve > 0;
        if (pricer->options->overhead)
            price->fixed =
                MIN(ech_link_overhead(link, forward, op->bytes, pricer->options->copy_curve), ech_price_behind(map->device, ech_op_behind(pricer->trace, op)));
        return true;
    }
    /* A copy engine inside the device waits for the slower of the two memories to answer, whichever way the bytes go. */
    EchTime latency = MAX(from ? from->latency : 0, to ? to->latency : 0);
    if (from == to)
        price->fixed = start_time(pricer, map, op);
    else if (pricer->options->overhead)
        price->fixed = latency;
    return row->n_used > 0 || op->bytes == 0;
}

/* GPUs that @link's switch joins: as many as the program saw, where it said; else as many as the device's file says. */
static uint32_t host_devices(const Pricer *pricer, const EchLink *link)
{
    const char *seen = ech_trace_get_property(pricer->trace, "pretended_devices");
    guint64 n = seen ? g_ascii_strtoull(seen, NULL, 10) : 0;
    return n > 0 ? (uint32_t)MIN(n, UINT32_MAX) : link->reach;
}

/* @amount of @link for a collective, out (to the other device), in or both. */
static void add_exchange(const Map *map, Row *row, const EchLink *link, const EchOp *op, double amount)
{
    size_t i = (size_t)(link - map->device->links);
    bool out = op->collective != ECH_COLLECTIVE_RECV, in = op->collective != ECH_COLLECTIVE_SEND;
    row_add(row, map->link[0][i], out ? amount : 0);
    row_add(row, map->link[1][i], in ? amount : 0);
    row_add(row, map->link[2][i], out && in ? 2 * amount : amount);
}

/* In how many steps an all-reduce reads its peers' memory by itself; 0: it is NCCL's, or does not say. */
static unsigned own_steps(const Pricer *pricer, const EchOp *op)
{
    EchCommName name;
    return op->collective == ECH_COLLECTIVE_ALL_REDUCE && op->name != ECH_NONE && ech_comm_name(ech_trace_string(pricer->trace, op->name), &name) ? name.steps
                                                                                                                                                  : 0;
}

static void price_collective(const Pricer *pricer, const Map *map, Row *row, const EchOp *op, EchPrice *price)
{
    static const EchComm comms[ECH_N_COLLECTIVES] = {
        [ECH_COLLECTIVE_NONE] = ECH_COMM_PERMUTE,          [ECH_COLLECTIVE_ALL_REDUCE] = ECH_COMM_ALL_REDUCE,
        [ECH_COLLECTIVE_ALL_GATHER] = ECH_COMM_ALL_GATHER, [ECH_COLLECTIVE_REDUCE_SCATTER] = ECH_COMM_REDUCE_SCATTER,
        [ECH_COLLECTIVE_ALL_TO_ALL] = ECH_COMM_ALL_TO_ALL, [ECH_COLLECTIVE_PERMUTE] = ECH_COMM_PERMUTE,
        [ECH_COLLECTIVE_BROADCAST] = ECH_COMM_BROADCAST,   [ECH_COLLECTIVE_SEND] = ECH_COMM_PERMUTE,
        [ECH_COLLECTIVE_RECV] = ECH_COMM_PERMUTE,
    };
    price->source = ECH_PRICE_COLLECTIVE;
    const EchDevice *device = map->device;
    EchGroup layout = {0};
    bool laid = op->launch != ECH_NONE && ech_group_parse(ech_trace_string(pricer->trace, op->launch), op->memory_from, &layout);
    /* Two devices that share a chip talk over what joins its halves, unless their group says that they are not such a pair. */
    const EchLink *within = ech_device_link(device, "die");
    const EchLink *link = within && op->memory_from == 2 && (!laid || layout.stride <= 1) ? within : link_to_peers(device);
    add_uses(pricer, map, row, op);
    if (!link) {
        ech_diag_note(pricer->diag, "collectives_without_a_link", 1);
        price->source = ECH_PRICE_UNKNOWN;
        return;
    }
    uint32_t group = op->memory_from;
    if (group == 0 || group == ECH_NONE) {
        ech_diag_note(pricer->diag, "collectives_of_unknown_group", 1);
        group = 2;
    }
    EchComm comm = comms[op->collective];
    EchCollectiveCost cost;
    EchTime fixed = 0;
    const EchLink *shown = link;
    if (device->family && strcmp(device->family, "tpu") == 0) {
        EchTorus torus = {.ports = link->ports, .ring = link->ring, .cores = link->sharers, .one_way = link->one_way};
        if (!laid)
            layout = (EchGroup){.size = group, .devices = group, .stride = 1};
        cost = ech_torus_cost(comm, &layout, op->bytes, &torus);
        EchTime steps = ech_bytes_mul((EchBytes)link->latency, cost.steps) > (EchBytes)ECH_TIME_MAX ? ECH_TIME_MAX : link->latency * (EchTime)cost.steps;
        if (cost.algorithm != ECH_ALGORITHM_NONE)
            fixed = ech_time_add(ech_time_add(steps, link->setup), (EchTime)ech_device_number(device, "runtime.collective_launch_ps", 0));
    } else {
        if (!laid)
            layout.stride = 1;
        layout.size = group;
        uint32_t host = host_devices(pricer, link);
        EchSwitchCost over;
        unsigned steps = own_steps(pricer, op);
        bool near = host == 0 || (uint64_t)MAX(layout.stride, 1u) * (group - 1) < host;
        if (steps == 0 || !near || !ech_own_reduce_cost(device, link, group, steps, op->bytes, &over))
            over = ech_switch_cost(device, link, comm, &layout, host, op->bytes);
        cost = over.cost;
        fixed = over.fixed;
        price->minimum = over.moving;
        if (cost.network_bytes > 0) {
            const EchLink *network = ech_device_link(device, "network");
            add_exchange(map, row, network, op, cost.network_bytes);
            if (over.between)
                shown = network;
        } else if (host > 0 && (uint64_t)MAX(layout.stride, 1u) * (group - 1) >= host && !ech_device_link(device, "network")) {
            ech_diag_note(pricer->diag, "collectives_between_hosts", 1);
        }
    }
    /* The link resource has the capacity of all ports: through fewer of them the same bytes take more of it, unless each port is a resource of its own. */
    size_t i = (size_t)(link - device->links);
    bool lanes = cost.lanes > 0 && map->lane[i] != NOWHERE && cost.lanes >> MAX(link->ports, 1u) == 0;
    double amount = lanes ? cost.bytes : cost.bytes * MAX(link->ports, 1u) / cost.ports;
    for (uint32_t k = 0; lanes && k < link->ports; k++)
        row_add(row, map->lane[i] + k, cost.lanes >> k & 1 ? cost.bytes / cost.ports : 0);
    add_exchange(map, row, link, op, amount);
    price->link = (uint32_t)(shown - device->links);
    price->forward = op->collective != ECH_COLLECTIVE_RECV;
    price->duplex = op->collective != ECH_COLLECTIVE_RECV && op->collective != ECH_COLLECTIVE_SEND;
    price->ports = (uint8_t)MIN(MAX(lanes ? link->ports : cost.ports, 1u), 255u);
    price->fixed = pricer->options->overhead ? fixed : 0;
}

/* Whether a GPU's copy or collective takes the time that was recorded of it. */
static bool takes_recorded(const Pricer *pricer, const Map *map, const EchOp *op, const EchPrice *price)
{
    EchKernelTime times = pricer->options->kernel_time;
    return g_strcmp0(map->device->family, "gpu") == 0 && op->recorded.duration != ECH_TIME_NONE && op->recorded.duration >= 0 &&
           (times == ECH_KERNEL_TIME_AUTO || times == ECH_KERNEL_TIME_RECORDED || price->source == ECH_PRICE_UNKNOWN);
}

/* @time becomes what it takes, of which what it moves takes @moving: at full speed where that is longer, else as evenly as it was. */
static void take(EchPrice *price, Row *row, double moving, double time, bool scaled)
{
    price->source = scaled ? ECH_PRICE_RECORDED_SCALED : ECH_PRICE_RECORDED;
    price->fixed = MIN(price->fixed, whole_ps(time));
    price->minimum = whole_ps(time) - price->fixed;
    double share = moving > 0 ? (double)price->minimum / moving : 1;
    if (share < 1)
        row_scale(row, share);
}

/* A GPU's collective is a kernel: recorded, it takes that time, what it waited for others included. Where links are others, only what the model says of the
 * collective itself changes; nothing, where one of the devices has none. */
static void spread_recorded_collective(const Pricer *pricer, const Map *map, const Map *reference, Row *row, Row *scratch, const EchOp *op, EchPrice *price)
{
    if (!takes_recorded(pricer, map, op, price))
        return;
    uint32_t bound;
    double moving = row_time(map, row, &bound), here = (double)price->fixed + MAX(moving, (double)price->minimum), there = here;
    if (reference != map && price->source != ECH_PRICE_UNKNOWN) {
        EchPrice other = {0};
        g_autoptr(EchDiag) unheard = ech_diag_new(); /* what is missing there is not told of the device */
        Pricer quiet = *pricer;
        quiet.diag = unheard;
        price_collective(&quiet, reference, scratch, op, &other);
        if (other.source != ECH_PRICE_UNKNOWN)
            there = (double)other.fixed + MAX(row_time(reference, scratch, &bound), (double)other.minimum);
        row_clear(scratch);
    }
    double recorded = (double)op->recorded.duration;
    pricer->carried[CARRY_LINKS] += recorded;
    double time = recorded >= there ? here + (recorded - there) : recorded * (here / there);
    price->loose = time > LOOSE * here;
    take(price, row, moving, time, reference != map);
}

/* A recorded copy of a GPU takes that time, whatever it was that made it slower or faster than the model's: its machine's bus, its host's memory, what ran
 * beside it. On another device by the ratio of the model's times. */
static void spread_recorded_copy(const Pricer *pricer, const Map *map, const Map *reference, Row *row, Row *scratch, const EchOp *op, EchPrice *price)
{
    if (!takes_recorded(pricer, map, op, price))
        return;
    uint32_t bound;
    double moving = row_time(map, row, &bound), ratio = 1;
    if (reference != map) {
        EchPrice other = {0};
        price_copy(pricer, reference, scratch, op, &other);
        double here = (double)price->fixed + moving, there = (double)other.fixed + row_time(reference, scratch, &bound);
        ratio = here > 0 && there > 0 ? here / there : 1;
        row_clear(scratch);
    }
    pricer->carried[CARRY_LINKS] += (double)op->recorded.duration;
    price->fixed = 0; /* the device had it all that time */
    take(price, row, moving, (double)op->recorded.duration * ratio, reference != map);
}

static void price_alloc(const Pricer *pricer, const Map *map, const EchOp *op, EchPrice *price)
{
    price->fixed = !pricer->options->overhead ? 0 : op->kind == ECH_OP_ALLOC ? map->alloc : map->free;
    price->source = price->fixed > 0 ? ECH_PRICE_RUNTIME : ECH_PRICE_FREE;
}

/* Whether the device was recorded working on the op; @allocator: the allocator. */
static bool was_recorded(const EchOp *op, bool allocator)
{
    if (allocator)
        return (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) && op->recorded.start != ECH_TIME_NONE && op->recorded.start >= 0;
    bool works = ech_op_is_work(op);
    return works && op->recorded.start != ECH_TIME_NONE && op->recorded.duration != ECH_TIME_NONE && op->recorded.start >= 0 && op->recorded.duration >= 0;
}

/* A recording of an allocator alone: the host's time between its calls is all the time there is, so it is always kept. */
static bool is_allocator_only(const EchTrace *trace)
{
    bool timed = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (ech_op_is_work(op) || op->kind == ECH_OP_LOOP)
            return false;
        timed = timed || (op->kind == ECH_OP_ALLOC && op->recorded.start != ECH_TIME_NONE);
    }
    return timed;
}

/* When @device worked in the recording (EchStretch), in order and without overlaps, and how many times as long what it did takes now. */
static GArray *busy_times(const EchTrace *trace, const EchPrices *prices, uint32_t device, double *ret_slower)
{
    GArray *times = g_array_new(FALSE, FALSE, sizeof(EchStretch));
    double recorded = 0, priced = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (!was_recorded(op, false) || ech_trace_queues(trace)[op->queue].device != device)
            continue;
        g_array_append_val(times, ((EchStretch){op->recorded.start, ech_time_add(op->recorded.start, op->recorded.duration), 0}));
        recorded += (double)op->recorded.duration;
        priced += (double)prices->prices[i].alone;
    }
    ech_stretches_merge(times);
    *ret_slower = recorded > 0 ? priced / recorded : 1;
    return times;
}

/* Of each gap before an operation of @device what lay beside other work of it, as long as that takes now. */
static void keep_beside(const EchTrace *trace, const EchPrices *prices, uint32_t device, const EchTime *starts, EchTime *gaps)
{
    double slower;
    g_autoptr(GArray) times = busy_times(trace, prices, device, &slower);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (gaps[i] > 0 && ech_trace_queues(trace)[op->queue].device == device)
            gaps[i] = whole_ps((double)(ech_stretches_before(times, starts[i] + gaps[i]) - ech_stretches_before(times, starts[i])) * slower);
    }
}

/*
 * The time before each recorded kernel, copy and collective (@allocator: allocation and free) that neither its queue's order nor its dependencies explain. The
 * host's, then: it was still computing, or launched late. Waits and signals pass on when what they stand for ended. NULL where there is no such time. What is
 * charged for launches is part of it.
 */
static EchTime *recorded_gaps(const EchTrace *trace, const EchPrices *prices, bool allocator, bool beside)
{
    size_t n_ops = ech_trace_n_ops(trace), n_queues = ech_trace_n_queues(trace);
    const EchOp *ops = ech_trace_ops(trace);
    EchTime first = ECH_TIME_MAX;
    for (size_t i = 0; i < n_ops; i++)
        if (was_recorded(&ops[i], allocator))
            first = MIN(first, ops[i].recorded.start);
    if (first == ECH_TIME_MAX)
        return NULL;
    g_autofree EchTime *frontier = g_new(EchTime, n_queues + 1), *ended = g_new(EchTime, n_ops + 1), *starts = g_new0(EchTime, n_ops + 1);
    for (size_t q = 0; q < n_queues; q++)
        frontier[q] = first;
    g_autofree EchTime *gaps = g_new0(EchTime, n_ops + 1);
    for (size_t i = 0; i < n_ops; i++) {
        const EchOp *op = &ops[i];
        EchTime at = frontier[op->queue];
        for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++) {
            const EchDep *dep = &ech_trace_deps(trace)[d];
            if (dep->distance == 0 && dep->op < i)
                at = MAX(at, ended[dep->op]);
        }
        starts[i] = at;
        if (was_recorded(op, allocator)) {
            gaps[i] = MAX(op->recorded.start - at, 0);
            at = MAX(at, ech_time_add(op->recorded.start, MAX(op->recorded.duration, 0)));
        }
        frontier[op->queue] = ended[i] = at;
    }
    g_autoptr(GHashTable) devices = g_hash_table_new(NULL, NULL);
    for (size_t q = 0; q < n_queues && beside; q++)
        if (g_hash_table_add(devices, GUINT_TO_POINTER(ech_trace_queues(trace)[q].device)))
            keep_beside(trace, prices, ech_trace_queues(trace)[q].device, starts, gaps);
    bool any = false;
    for (size_t i = 0; i < n_ops; i++) {
        bool recorded = prices->prices[i].source == ECH_PRICE_RECORDED || prices->prices[i].source == ECH_PRICE_RECORDED_SCALED;
        gaps[i] -= MIN(gaps[i], recorded ? 0 : prices->prices[i].fixed); /* what is fixed of a recorded duration begins with it */
        any = any || gaps[i] > 0;
    }
    return any ? g_steal_pointer(&gaps) : NULL;
}

/* Where much of the time goes to products that tensor cores could do, rounded. */
static void say_exact_f32(const double *modelled, const EchDevice *device, EchDiag *diag)
{
    const double much = 0.2, first_with_tf32 = 8.0; /* of the kernels' time; compute capability */
    if (modelled[1] > much * modelled[0] && ech_device_number(device, "kernel.compute_capability", 0) >= first_with_tf32)
        ech_diag_remark(
            diag,
            "%.0f %% of the kernels' time are products of 32-bit floats as they are, which tensor cores do not do: in bf16 (torch.autocast), or rounded "
            "to TF32 where that is enough (torch.set_float32_matmul_precision(\"high\")), they do",
            100 * modelled[1] / modelled[0]);
}

/* What stands for all operations of a kind, once. */
static void say_what_was_assumed(const EchTrace *trace, const EchDevice *device, const EchDevice *old, const EchPriceOptions *options, uint64_t free_copies,
                                 EchDiag *diag)
{
    if (free_copies > 0)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " copies join memories between which %s has neither a link nor ports: they cost only their start",
                        free_copies, device->name);
    bool models = options->kernel_time == ECH_KERNEL_TIME_AUTO || options->kernel_time == ECH_KERNEL_TIME_MODEL;
    g_autofree char *lacks = models && g_strcmp0(device->family, "gpu") == 0 ? ech_gpu_lacks(device) : NULL;
    if (lacks)
        ech_diag_remark(diag,
                        "%s's file says nothing of %s: its kernels are not modelled and take what their bytes and operations do at full rate, the least; with "
                        "'base: h100-sxm', say, all that it does not say is that GPU's",
                        device->name, lacks);
    uint64_t unlinked = ech_diag_count(diag, "copies_without_a_link");
    if (unlinked > 0)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT " cop%s the device with memory beyond it to which %s has no link: as fast as both memories are, from the first "
                        "byte on; 'links:' of its file, or --set 'device.links.NAME={from: MEMORY, to: hbm, to_device: 25GB/s, from_device: 25GB/s}', says "
                        "what joins them",
                        unlinked, unlinked == 1 ? "y joins" : "ies join", device->name);
    if (ech_diag_count(diag, "host_work_at_assumed_rate") > 0)
        ech_diag_remark(
            diag,
            "operators on the host read and write %.0f GB/s at most by all their threads, as 16 processors of a virtual machine do: %s's file does not "
            "say what its host does (--set device.runtime.processor_rate=%.0fGB/s)",
            PROCESSOR_RATE / 1e9, device->name, PROCESSOR_RATE / 1e9);
    const EchBytes of_disk = ech_diag_count(diag, "file_bytes_of_disk"), to_disk = ech_diag_count(diag, "file_bytes_to_disk"),
                   in_memory = ech_diag_count(diag, "file_bytes_in_memory");
    if (of_disk + to_disk + in_memory > 0) {
        g_autofree char *read = ech_format_bytes(of_disk), *written = ech_format_bytes(to_disk), *cached = ech_format_bytes(in_memory);
        ech_diag_remark(diag,
                        "files: %s are read from a disk and %s written to it, at %.3g and %.3g GB/s (device.runtime.disk_read, disk_write%s), while the host "
                        "waits; of %s the host's memory is large enough for its page cache (device.memories.host.capacity)",
                        read, written, ech_device_number(device, "runtime.disk_read", DISK_READ) / 1e9,
                        ech_device_number(device, "runtime.disk_write", DISK_WRITE) / 1e9,
                        ech_device_has_number(device, "runtime.disk_read") ? "" : ", assumed", cached);
    }
    if (ech_diag_count(diag, "collectives_without_a_link") > 0)
        ech_diag_remark(diag,
                        "%s has no link between devices: collectives cost what was recorded of them, else only their memory traffic, and take longer. What "
                        "nccl-tests reaches where they cross PCIe, say 20 GB/s: --set 'device.links.pcie={from: hbm, to: hbm, to_device: 20GB/s, from_device: "
                        "20GB/s, reach: 8}'",
                        device->name);
    if (ech_diag_count(diag, "collectives_between_hosts") > 0)
        ech_diag_remark(diag, "%s has no link \"network\": collectives that reach beyond a host are priced as within one", device->name);
    if (ech_diag_count(diag, "collectives_of_unknown_group") > 0)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " collectives do not say their group: priced for two devices",
                        ech_diag_count(diag, "collectives_of_unknown_group"));
    if (ech_diag_count(diag, "products_with_tiles_never_timed") > 0)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT
                        " products carry a tile that no timing would have chosen (compiled where there was no GPU to time on): priced with "
                        "the best tile, as autotuning finds it; replay.tuned_tiles=false prices them as written",
                        ech_diag_count(diag, "products_with_tiles_never_timed"));
    if (ech_diag_count(diag, "products_by_lanes") > 0)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " products are of a type that %s has no matrix unit for: priced in f32, by its lanes",
                        ech_diag_count(diag, "products_by_lanes"), device->name);
    if (ech_diag_count(diag, "sorts_as_radix") > 0)
        ech_diag_remark(
            diag,
            "%" G_GUINT64_FORMAT
            " sorts are XLA's own, as it compiles them where there is no GPU to ask for cub's scratch size: priced as cub's radix sort where that is "
            "faster, as XLA decides on the machine itself; replay.tuned_tiles=false prices them as written",
            ech_diag_count(diag, "sorts_as_radix"));
    const char *chip = ech_trace_get_property(trace, "chip");
    if (options->kernel_time == ECH_KERNEL_TIME_ROOFLINE || estimate_holds(trace, old))
        return;
    if (is_of_another_kind(trace, old)) {
        bool tpu = g_strcmp0(old->family, "tpu") != 0;
        bool other = strcmp(old->family, "tpu") != 0 && strcmp(old->family, "gpu") != 0;
        g_autofree char *ask =
            other || ech_device_is_amd(old) ? g_strdup("") : g_strdup_printf("; 'echelon capture --pretend %s' asks its compiler", old->name);
        ech_diag_remark(diag, "the program was compiled for a %s%s%s%s: on %s its kernels' bytes and operations are priced, and nothing more is known%s",
                        tpu ? "TPU" : "GPU", chip ? " (" : "", chip ? chip : "", chip ? ")" : "", old->name, ask);
    } else if (chip) {
        ech_diag_remark(diag, "the program was compiled for %s, not for %s: its estimates are not used", chip, old->name);
    }
}

/* Kernels of which neither bytes nor operations are known, because their operator was not recorded, go as others of their name go that are known. */
static void carry_as_namesakes(const EchTrace *trace, EchPrices *prices, double *carried)
{
    typedef struct {
        double recorded, here;
    } Sum;
    size_t n = ech_trace_n_ops(trace);
    g_autofree Sum *sums = g_new0(Sum, ech_trace_n_strings(trace) + 1);
    for (int blind = 0; blind < 2; blind++)
        for (size_t i = 0; i < n; i++) {
            const EchOp *op = &ech_trace_ops(trace)[i];
            EchPrice *price = &prices->prices[i];
            if (op->kind != ECH_OP_KERNEL || price->source != ECH_PRICE_RECORDED_SCALED || (price->n_parts == 0) != blind)
                continue;
            Sum *sum = op->name == ECH_NONE ? NULL : &sums[op->name];
            if (!blind && sum) {
                sum->recorded += (double)op->recorded.duration;
                sum->here += (double)price->alone;
            } else if (blind && sum && sum->recorded > 0) {
                price->minimum = price->alone = whole_ps((double)op->recorded.duration * (sum->here / sum->recorded));
            }
            if (blind)
                carried[sum && sum->recorded > 0 ? CARRY_NAMESAKES : CARRY_RATES] += (double)op->recorded.duration;
        }
}

/* By which rule what share of the recorded time was carried to @device. */
static void say_how_carried(const double *carried, const EchDevice *device, const EchDevice *old, EchDiag *diag)
{
    static const char *const how[N_CARRIES] = {
        [CARRY_SAME_KERNELS] = "by the ratio of the kernel model's times",
        [CARRY_OTHER_KERNELS] = "by the kernel model's times of what libraries would run instead, and half of what was recorded above or below them",
        [CARRY_ROOFLINES] = "by bytes and operations alone",
        [CARRY_NAMESAKES] = "as others of their name, neither bytes nor operations being known",
        [CARRY_RATES] = "by the rates of memory, or of products, alone",
        [CARRY_LINKS] = "are copies and collectives, by their links",
    };
    double all = 0;
    for (size_t i = 0; i < N_CARRIES; i++)
        all += carried[i];
    if (!(all > 0) || g_strcmp0(device->name, old->name) == 0)
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < N_CARRIES; i++)
        if (carried[i] / all >= 0.0005)
            g_string_append_printf(text, "%s%.1f %% %s", text->len ? ", " : "", 100 * carried[i] / all, how[i]);
    g_autofree char *sum = ech_format_time(whole_ps(all));
    ech_diag_remark(diag, "of the %s recorded on %s, %s", sum, old->name, text->str);
}

/* Prices an op; its parts are left in @row. True if it is a copy that costs only its start. */
static bool price_op(Pricer *pricer, const Map *map, const Map *old, Row *row, Row *scratch, const EchOp *op, EchPrice *price)
{
    price->link = ECH_NONE;
    price->forward = 1;
    price->source = ECH_PRICE_FREE;
    bool free_copy = false;
    switch ((EchOpKind)op->kind) {
    case ECH_OP_KERNEL:
        if (is_host_work(pricer->trace, op))
            price_host_work(pricer, map, row, op, price);
        else
            price_kernel(pricer, map, old, row, scratch, op, price);
        break;
    case ECH_OP_COPY:
        if (op->memory_from == op->memory_to && price_file(pricer, map, op, price))
            break;
        if (!pricer->not_awaited || strcmp(ech_trace_string(pricer->trace, op->name), pricer->not_awaited) != 0)
            free_copy = !price_copy(pricer, map, row, op, price);
        spread_recorded_copy(pricer, map, old, row, scratch, op, price);
        if (price->source == ECH_PRICE_PORT && row->n_used > 0 && leaves_the_device(map->memory[op->memory_from], map->memory[op->memory_to]))
            ech_diag_note(pricer->diag, "copies_without_a_link", 1);
        break;
    case ECH_OP_COLLECTIVE:
        price_collective(pricer, map, row, op, price);
        spread_recorded_collective(pricer, map, old, row, scratch, op, price);
        break;
    case ECH_OP_ALLOC:
    case ECH_OP_FREE: price_alloc(pricer, map, op, price); break;
    case ECH_OP_LOOP:
    case ECH_OP_SIGNAL:
    case ECH_OP_WAIT:
    case ECH_OP_MARK:
    case ECH_N_OP_KINDS: break;
    }
    if (price->link == ECH_NONE)
        add_beside(map, row);
    uint32_t bound;
    double time = row_time(map, row, &bound);
    bool capped = (double)price->minimum >= time;
    if (bound != NOWHERE && map->kinds[bound] == ECH_RESOURCE_LINK_LANE) /* people know the link, not its ways */
        bound = map->link[0][map->owners[bound]];
    price->bound = (capped && op->kind == ECH_OP_KERNEL) || price->loose ? ECH_NONE : bound;
    price->alone = ech_time_add(price->fixed, capped ? price->minimum : whole_ps(time));
    add_multiprocessors(pricer, map, row, op, price);
    /* What was set on the device of the recording does not touch this kernel. */
    if (price->source == ECH_PRICE_RECORDED_SCALED && g_strcmp0(map->device->name, old->device->name) == 0 && price->alone == op->recorded.duration)
        price->source = ECH_PRICE_RECORDED;
    return free_copy;
}

/* Products of types for which the device has no peak: they take another type's, which may be far too fast. */
static void say_borrowed_peaks(const EchTrace *trace, const Map *map, const EchPrices *prices, EchDiag *diag)
{
    double counts[ECH_N_DTYPES] = {0};
    const EchOp *ops = ech_trace_ops(trace);
    const EchWork *work = ech_trace_work(trace);
    uint32_t at = map->kind_unit[ECH_WORK_MATRIX];
    const EchUnit *unit = at == NOWHERE ? NULL : &map->device->units[at];
    for (size_t i = 0; unit && i < prices->n_prices; i++) {
        bool priced = ops[i].kind == ECH_OP_KERNEL && prices->prices[i].source == ECH_PRICE_ROOFLINE;
        for (uint32_t w = ops[i].first_work; priced && w < ops[i].first_work + ops[i].n_work; w++)
            if (work[w].unit == ECH_WORK_MATRIX)
                counts[work[w].dtype] += (double)work[w].count;
    }
    for (unsigned d = 0; d < ECH_N_DTYPES; d++) {
        const EchPeak *peak = counts[d] > 0 && d != ECH_DTYPE_NONE ? ech_unit_peak_borrowed(unit, ech_dtype_name((EchDtype)d)) : NULL;
        if (!peak)
            continue;
        g_autofree char *done = ech_format_count(counts[d], "OP"), *rate = ech_format_count((double)peak->ops, "OP/s");
        ech_diag_remark(
            diag, "%s's %s unit has no peak for %s: %s of products (loops counted once) are priced by %s's %s; --set device.units.%s.peaks.%s=... says it",
            map->device->name, unit->name, ech_dtype_name((EchDtype)d), done, peak->dtype, rate, unit->name, ech_dtype_name((EchDtype)d));
    }
}

EchPrices *ech_prices_new(const EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchPriceOptions *options, EchDiag *diag)
{
    size_t n_ops = ech_trace_n_ops(trace), n_memories = ech_trace_n_memories(trace);
    Map map, base;
    map_init(&map, trace, device, options->side_by_side);
    if (options->graph)
        map.launch = (EchTime)ech_device_number(device, "runtime.graph_launch_ps", (double)map.launch);
    bool same = !reference || reference == device || reference->hash == device->hash;
    if (!same)
        map_init(&base, trace, reference, options->side_by_side);
    const Map *old = same ? &map : &base;
    for (size_t m = 0; m < n_memories; m++)
        if (!map.memory[m] && holds_anything(trace, (EchId)m))
            ech_diag_remark(diag, "%s has no memory '%s': its traffic costs nothing and its capacity is not checked", device->name,
                            ech_trace_memory(trace, (EchId)m));

    g_autofree double *read = g_new0(double, n_memories + 1), *written = g_new0(double, n_memories + 1);
    uint32_t room = MAX(map.n_resources, old->n_resources) + 1;
    g_autofree double *amounts = g_new0(double, room), *more_amounts = g_new0(double, room), *work = g_new0(double, room), *more_work = g_new0(double, room);
    g_autofree uint32_t *used = g_new0(uint32_t, room), *more_used = g_new0(uint32_t, room);
    Row row = {amounts, work, used, 0}, scratch = {more_amounts, more_work, more_used, 0};
    g_autoptr(EchGpuPricer) gpu = g_strcmp0(device->family, "gpu") == 0
                                      ? ech_gpu_pricer_new(trace, old->device, options->tuned_tiles, options->duty_known ? options->products_duty : 0, diag)
                                      : NULL;
    double carried[N_CARRIES] = {0}, modelled[2] = {0};
    Pricer pricer = {.trace = trace, .read = read, .written = written, .options = options, .diag = diag, .gpu = gpu, .carried = carried, .modelled = modelled};

    EchPrices *prices = g_new0(EchPrices, 1);
    prices->prices = g_new0(EchPrice, n_ops + 1);
    prices->n_prices = n_ops;
    g_autoptr(GArray) parts = g_array_sized_new(FALSE, FALSE, sizeof(EchFluidPart), 1); /* never NULL: parts + first_part is taken of every op */
    g_autoptr(GArray) works = g_array_sized_new(FALSE, FALSE, sizeof(double), 1);
    const EchOp *ops = ech_trace_ops(trace);
    uint64_t free_copies = 0;
    if (ech_device_number(device, "kernel.first_fetch", 1) <= 0)
        pricer.not_awaited = ech_trace_get_property(trace, "fetched_first");
    for (size_t i = 0; i < n_ops; i++) {
        EchPrice *price = &prices->prices[i];
        free_copies += price_op(&pricer, &map, old, &row, &scratch, &ops[i], price);
        if (ops[i].kind == ECH_OP_KERNEL)
            prices->kernels[price->source]++;
        g_assert(parts->len <= UINT32_MAX - room);
        price->first_part = parts->len;
        price->n_parts = row.n_used;
        for (uint32_t k = 0; k < row.n_used; k++) {
            EchFluidPart part = {.resource = row.used[k], .amount = row.amounts[row.used[k]]};
            double most = map.resources[part.resource].capacity * (double)price->alone / (double)ECH_PS_PER_S, done = MIN(row.work[part.resource], most);
            g_array_append_val(parts, part);
            g_array_append_val(works, done);
        }
        row_clear(&row);
    }
    say_what_was_assumed(trace, device, old->device, options, free_copies, diag);
    if (!same)
        carry_as_namesakes(trace, prices, carried);
    say_how_carried(carried, device, old->device, diag);
    say_exact_f32(modelled, device, diag);
    say_borrowed_peaks(trace, &map, prices, diag);
    prices->n_parts = parts->len;
    prices->parts = (EchFluidPart *)(void *)g_array_free(g_steal_pointer(&parts), FALSE);
    prices->work = (double *)(void *)g_array_free(g_steal_pointer(&works), FALSE);
    prices->resources = g_steal_pointer(&map.resources);
    prices->kinds = g_steal_pointer(&map.kinds);
    prices->owners = g_steal_pointer(&map.owners);
    prices->n_resources = map.n_resources;
    bool allocator = is_allocator_only(trace);
    bool beside = options->gaps == ECH_HOST_GAPS_BESIDE && !allocator;
    if (options->gaps == ECH_HOST_GAPS_ALL || allocator || (beside && g_strcmp0(device->family, "gpu") == 0))
        prices->gaps = recorded_gaps(trace, prices, allocator, beside);
    prices->gaps_beside = beside;
    map_clear(&map);
    if (!same)
        map_clear(&base);
    return prices;
}

void ech_prices_free(EchPrices *prices)
{
    if (!prices)
        return;
    for (uint32_t i = 0; i < prices->n_resources; i++)
        g_free(prices->resources[i].name);
    g_free(prices->resources);
    g_free(prices->kinds);
    g_free(prices->owners);
    g_free(prices->parts);
    g_free(prices->work);
    g_free(prices->prices);
    g_free(prices->gaps);
    g_free(prices);
}
