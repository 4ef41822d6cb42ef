/* GPU kernels: latency, issue and memory of a grid of blocks; tiles in waves for matrix products. */
#include "models/kernel/gpu_internal.h"
#include "models/kernel/measured.h"

#include <math.h>
#include <string.h>

/* What an SM holds at once (CUDA C programming guide, compute capabilities 7.0 to 10.0; device numbers kernel.sm_* say otherwise). */
enum { SM_THREADS = 2048, SM_BLOCKS = 32, SM_REGISTERS = 65536, SM_SHARED = 228 << 10 };
/* Whatever kernel.sm_* say: far more than any SM. */
#define MOST_RESIDENT 1024.0
/* Lanes that an SM issues to in a clock: four warp schedulers of 32 (kernel.sm_lanes says otherwise). */
#define SM_LANES 128
/* Of these the units load or store in a clock (NVIDIA's papers on the V100, A100 and H100; kernel.sm_load_lanes says otherwise). */
#define SM_LOAD_LANES 32
/* Bytes that an SM takes from L2 in a clock (XLA's cost model: at most 32). */
#define SM_BYTES 32.0
/* A trip to memory under load against the pointer chase that the device file has: 1.6, from kernels of one block on an H100 (recorded PyTorch, 0.5 us a trip).
 */
#define LOADED 1.6
/* Blocks before its own that a warp looks at in one access (Merrill and Garland, single-pass parallel prefix scan with decoupled look-back). */
#define LOOK_BACK 32.0
/* Of L2, that an access takes at least. */
#define SECTOR_BYTES 32.0
/* Clocks from one block of a grid to the next, of the whole chip: XLA's fills of bf16 on an H100, 81920 blocks in 50.2 us (jax_profile.xplane.pb.gz). Held out:
 * of all kernels of PyTorch's there (operators.json.gz, models) none starts them faster, and fills of bytes and gathers of short rows as fast, 1.64 a
 * nanosecond. Other chips were not looked at. */
#define BLOCK_CLOCKS 1.21
/* Share of L2 in which a kernel's bytes are found, written by the kernel before: what fits is read at L2's rate. */
#define L2_SHARE 1.0
/* Tiles: instructions beside the multiply-adds, as elements of the tile's harmonic side: with I = m n / (m + n) a share I / (I + 22) of issue slots is FMA
 * (sm80_xmma sgemm in tiles of 128 x 128 on an H100, NeuSight artifact); of a tensor core's rate I / (I + 4.5) is reached where shared memory feeds it
 * (LLMCompass artifact, A100). */
#define FMA_OTHERS 22.0
#define HALF_INTENSITY 4.5
/* Best share of the lanes' rate that libraries reach (ampere_sgemm on an A100, NeuSight artifact). */
#define FMA_SHARE 0.97
/* Elements an SM takes from memory a clock where operands are not aligned and every element is an access of its own ("align1"), by way of registers to shared
 * memory; of a tile only what lies inside the operand. From one recorded H100 product, 96 x [3137, 3137] x [3137, 64] (half of its tile of 128 columns is
 * outside). Held out: GPT-2's vocabularies of 50257 and BERT's of 30522 (two an access) on an H100 (traces/gpu_h100-sxm/models). And what it gives. */
#define UNALIGNED_LOADS 3.3
#define UNALIGNED_STORES 4.4
/* Of a plain product's rate what a convolution reaches whose positions have fewer channels than a step, so that places are computed anew in each: one recorded
 * on an H100, patches of 14 x 14 x 3; another, of 16 x 16 x 3, comes out 12 per cent too fast with it. */
#define IMPLICIT_SHARE 0.75
/* Clocks that wgmma's convolutions take to fetch a row of a step: 1.8 to 2.2 in cuDNN 9's of 64 to 512 channels, in f16, bf16 and tf32, tiles of 128 x 64 to
 * 256 x 64, on an H100. And cuDNN cuts the channels of a position in two steps where one would take them all (its tiles of 256 x 64 x 32 for 64 of 16 bits). */
#define POSITION_CLOCKS 2.0
/* Bytes of channels that one access takes: where a position has no more, a library steps through several positions together (CUTLASS, kFixedChannels). */
#define FEW_CHANNELS 16.0
/* A convolution's gradient of its filters sums over pixels: for every access of 16 bytes image, row and column are computed anew by divisions and compared with
 * the edges (CUTLASS, Conv2dWgradActivationTileAccessIteratorOptimized::at and its like). Lane slots of an access: a block alone on an SM of RegNetY's groups
 * on an H200 (traces/gpu_h200/models: 64 x 64 x 32, 49 us for 196 steps). Held out: its other tiles, first layers of three models there and of ResNet-50 on an
 * H100. And parts that k is cut into at most. */
#define PIXEL_SLOTS 78.0
#define ACCESS_BYTES 16.0
#define MOST_PARTS 256
/* Trips to memory of a block of a product before its first and after its last k, and what a pipelined kernel takes to be set up (shared memory carved anew,
 * descriptors, barriers): a recorded H100 product of 5 rows. */
#define TILE_TRIPS 3.0
/* Blocks of a cluster of two share what they take from L2 of one operand (wgmma kernels; PTX ISA, multicast), and of the last wave's results half are written
 * while other blocks still compute, none while they wait for L2. Neither is fitted; both were held against XLA's table of products on an H100. */
#define CLUSTER 2.0
#define STORE_SHARE 0.5
#define PIPELINE_SETUP 2.2e-6

/* How the rate of products that run all the time falls with the limit of a card's power: an H100 SXM held to 500 W does 585, 575 and 546 TFLOP/s in bf16 for
 * 8192 cubed, 65536 x 8192 x 7168 and 65536 x 3584 x 8192 (pytorch/FBGEMM pull request 2546), 0.743, 0.701 and 0.672 of what this model has of them just after
 * a pause, of which its own 700 W sustain 0.83 (kernel.sustained_share). Not fitted: CUTLASS's in 8-bit floats there, 0.728, 0.662 and 0.705. */
#define POWER_EXPONENT 0.484
#define REST_POWER 0.5 /* Of the limit, what a GPU draws while no products run: between waiting and streaming. Assumed. */

/* Classes that stream. Instructions are issued lane slots an element; trips are dependent accesses in a thread's life where its elements are all in flight at
 * once; loop: a thread takes one access after another, so its trips grow with its elements. Sources: recorded H100 kernels of one block (trips) and of many
 * (instructions). */
typedef struct {
    double instructions, trips;
    bool loop;
    uint8_t passes; /* over a row's elements */
} Traits;
static const Traits traits[ECH_GPU_N_CLASSES] = {
    [ECH_GPU_ELEMENTWISE] = {13, 1, false, 0}, [ECH_GPU_STRIDED] = {84, 3, false, 0},  [ECH_GPU_FILL] = {4, 0.1, false, 0},
    [ECH_GPU_REDUCE] = {24, 4, true, 0},       [ECH_GPU_SOFTMAX] = {60, 7, false, 3},  [ECH_GPU_SOFTMAX_WARP] = {60, 1.8, false, 0},
    [ECH_GPU_NORM] = {84, 5.5, false, 2},      [ECH_GPU_VECTOR] = {8, 4, true, 0},     [ECH_GPU_SPLIT_REDUCE] = {20, 2.5, false, 0},
    [ECH_GPU_GATHER] = {45, 2, true, 0},       [ECH_GPU_SCATTER] = {45, 4, true, 0},   [ECH_GPU_CONCAT] = {45, 2, true, 0},
    [ECH_GPU_RELAYOUT] = {80, 3, false, 0},    [ECH_GPU_OPTIMIZER] = {40, 2, true, 0},
};
/* A compiler's normalisation keeps a row of so many bytes; a longer one is read for its mean, its variance and its result (torch.compile, layer norm of 8192
 * against 16384 columns, LLMCompass artifact). */
#define COMPILED_ROW 16384.0
/* Trips of a reduction that TorchInductor wrote, whose warps add up by shared memory: norms in published profiles of vLLM decoding on an H200, a block a row,
 * take 2.0 us. And of a block that takes another's place: assumed. */
#define GENERATED_TRIPS 2.0
#define TURN_TRIPS 1.0
/* Blocks that share an output of PyTorch's reduction leave their parts in memory and count themselves; the last one reads all parts, as many at once as its
 * threads lie side by side along what is summed, one after the other (Reduce.cuh, global_reduce). Trips: to leave a part, to count, to leave the sum; of sums
 * over columns several more, whatever they are, and less than one for a part, which lies in L2: sums of Qwen3 over 2048 blocks (129 us) and 128 (18.5), and of
 * our own step over 64 (13.8), on an H100 (traces/gpu_h100-sxm). Held out: all other models' there, and those on V100 and A100. */
#define JOIN_TRIPS 3.0
#define JOIN_COLUMNS_TRIPS 10.0
#define JOIN_PART 0.43
/* Elements of a row that lie together are taken four at once, and where blocks are fewer than multiprocessors nothing else is under way: a trip for four at the
 * latency of a pointer chase, where the class has a loaded one for two. Llama's norms of 32 rows of 2048 on an H100 (5.7 us, traces/gpu_h100-sxm/models; 17.2
 * before). Held out: sums of 64 rows of 50257 there. */
#define ALONE (2 * LOADED)
#define LIST_STEP 4.0
/* Trips an element of a thread that keeps a mean and divides for each (PyTorch's batch_norm_collect_statistics_channels_last_kernel: four loads at once, then
 * one division behind another): the first of ResNet-50 on an H100 (traces/gpu_h100-sxm/models, 724 us). Held out: its 52 others. */
#define WALK_TRIPS 0.9
/* The same of sums for a gradient, batch_norm_backward_reduce_channels_last_kernel: eight loads at once for four elements, a step after the other. The first of
 * ResNet-50's there, 376 us. Held out: its 52 others. */
#define SUM_STEP 4.0
#define SUM_STEP_TRIPS 1.6
/* Trips of a block of batch norms beside its elements: sums by shared memory, parts left, counted and read (Normalization.cuh). 49 blocks for each 32 of 2048
 * channels there, 64 us and, of statistics, 89. */
#define STATISTICS_TRIPS 8.0
/* Of L2's rate, which it reaches by sectors in pairs, what it gives as sectors one by one, where every element of a warp lies in one of its own: copies of 8192
 * by 8192 transposed on an H100, in bf16 and f32 (515 and 549 us with 8.1 TB/s, traces/gpu_h100-sxm/operators.csv: 0.547 and 0.543). Held out: the same on an
 * H200 (424 and 463 us with 9.33 TB/s: 0.57 and 0.56). */
#define LONE_SECTORS 0.55
/* Written bytes for one that is read, from which on what is read is taken to be expanded. */
#define EXPANDED 8
/* A row that does not begin on 16 bytes is taken element by element at its ends and stored so (PyTorch's softmax): instructions a thread more, for every row.
 * From rows of 5001; held out: rows of 30522 and 50257 on an H100 (traces/gpu_h100-sxm/models). */
#define UNALIGNED_ENDS 380.0

const char *ech_gpu_bound_name(EchGpuBound bound)
{
    static const char *const names[] = {"latency", "issue", "memory", "matrix unit", "accesses", "L2", "arithmetic", "changes of sectors"};
    return bound < G_N_ELEMENTS(names) ? names[bound] : "?";
}

EchTime ech_gpu_time(double seconds)
{
    return ech_time_round(seconds * 1e12);
}

/* Counts of hostile shapes exceed 64 bits. */
static uint64_t to_count(double count)
{
    return count > 0 ? count < 1e19 ? (uint64_t)count : UINT64_MAX : 0;
}

/* A device whose rates calibration measured: its peaks are what large products reach that run all the time, kernel.bursts what they do more after a pause. */
static bool measured_here(const EchDevice *device)
{
    return ech_device_has_number(device, "kernel.burst_share") && !ech_device_has_number(device, "kernel.wgmma_share") &&
           !ech_device_has_number(device, "kernel.mma_share");
}

/* What is left of the rate of products that run all the time: under the card's own power, kernel.rated_power, what that sustains of the rate just after a pause
 * (kernel.sustained_share), and less under a lower limit, kernel.power, watts. */
static double sustained(const EchDevice *device, bool *ret_limited)
{
    double rated = ech_device_number(device, "kernel.rated_power", 0), limit = ech_device_number(device, "kernel.power", rated);
    double own = rated > 0 ? CLAMP(ech_device_number(device, "kernel.sustained_share", 1), 0.1, 1) : 1;
    if (measured_here(device))
        own = 1 / MAX(ech_device_number(device, "kernel.burst_share", 1), 1);
    *ret_limited = rated > 0 && limit > 0 && limit < rated;
    return *ret_limited ? own * pow(limit / rated, POWER_EXPONENT) : own;
}

double ech_gpu_held(const EchDevice *device, double duty)
{
    bool limited;
    double least = sustained(device, &limited);
    if (least >= 1 || (duty <= 0 && !limited))
        return 1;
    duty = duty > 0 ? duty : 1;
    if (!limited && ech_measured_has_duty_rates(device)) /* The power of the rest is in them */
        return least * ech_measured_duty_rate(device, 1 / least, duty);
    return least * ech_measured_duty_rate(NULL, 1 / least, duty / (1 - REST_POWER * (1 - duty)));
}

/* A card's own power has room for what its lanes multiply: in calibration an H100 and an H200 keep their highest clock through seconds of multiply-adds, and
 * draw at most 454 and 517 of 700 W (traces/gpu_h100-sxm, gpu_h200). What a lower limit leaves them nobody measured: as products. */
static double lanes_held(const EchGpuChip *chip)
{
    bool limited;
    sustained(chip->device, &limited);
    return limited ? chip->held : 1;
}

double ech_gpu_settled_duty(const EchDevice *device, double share)
{
    double least = ech_gpu_held(device, 1), duty = CLAMP(share, 0, 1);
    share = duty;
    for (int i = 0; i < 64; i++) { /* what runs faster runs less of the time, which leaves it more power: falls towards where the two agree */
        double takes = share * least / ech_gpu_held(device, duty);
        duty = takes > 0 ? takes / (takes + 1 - share) : 0;
    }
    return duty;
}

/* Chips whose tensor cores take operands from shared memory: those whose file has a number for it, and by compute capability those that were measured, whose
 * files have none (12.x, of workstations, has mma alone). */
static bool has_wgmma(const EchDevice *device)
{
    double capability = ech_device_number(device, "kernel.compute_capability", 0);
    return ech_device_has_number(device, "kernel.wgmma_share") || (measured_here(device) && capability >= 9 && capability < 12);
}

bool ech_gpu_gives_tiles(const EchDevice *device)
{
    return ech_device_number(device, "kernel.given_tiles", measured_here(device) && has_wgmma(device)) > 0;
}

static double along_k(const EchDevice *device)
{
    double capability = ech_device_number(device, "kernel.compute_capability", 0);
    return ech_device_number(device, "kernel.wgmma_along_k", measured_here(device) && capability >= 9 && capability < 10);
}

EchTime ech_gpu_start(const EchDevice *device)
{
    double launch = ech_device_number(device, "runtime.launch_ps", 1e6);
    return (EchTime)MIN(launch, ech_device_number(device, "runtime.graph_launch_ps", launch));
}

char *ech_gpu_lacks(const EchDevice *device)
{
    const EchUnit *vector = ech_device_unit(device, ECH_UNIT_VECTOR);
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    g_autofree char *count = g_strdup_printf("units.%s.count", vector ? vector->name : "vector");
    if (!vector || (vector->count <= 1 && ech_device_number(device, count, 0) < 1)) /* what is left out is 1 */
        return g_steal_pointer(&count);
    if (vector->clock_hz == 0)
        return g_strdup_printf("units.%s.clock", vector->name);
    return !hbm || hbm->read == 0 ? g_strdup("memories.hbm.read") : NULL;
}

static bool chip_of(const EchDevice *device, double duty, EchGpuChip *ret)
{
    const EchUnit *vector = ech_device_unit(device, ECH_UNIT_VECTOR);
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    g_autofree char *lacks = ech_gpu_lacks(device);
    if (g_strcmp0(device->family, "gpu") != 0 || lacks)
        return false;
    *ret = (EchGpuChip){.device = device,
                        .hbm = hbm,
                        .l2 = ech_device_memory_kind(device, ECH_MEM_CACHE),
                        .matrix = ech_device_unit(device, ECH_UNIT_MATRIX),
                        .vector = vector,
                        .sms = vector->count,
                        .clock = (double)vector->clock_hz,
                        .lanes = MAX(ech_device_number(device, "kernel.sm_lanes", SM_LANES), 1),
                        .amd = ech_device_is_amd(device),
                        .trip = LOADED * (double)(hbm->latency > 0 ? hbm->latency : 400 * ECH_PS_PER_NS) * 1e-12,
                        .start = (double)ech_gpu_start(device) * 1e-12,
                        .held = ech_gpu_held(device, duty)};
    ret->lanes_held = lanes_held(ret);
    return true;
}

static double resident_blocks(const EchGpuChip *chip, uint32_t threads, uint32_t registers, uint32_t shared)
{
    double warps = MAX(ceil(threads / 32.0), 1), n = ech_device_number(chip->device, "kernel.sm_blocks", SM_BLOCKS);
    n = MIN(n, floor(ech_device_number(chip->device, "kernel.sm_threads", SM_THREADS) / (warps * 32)));
    if (registers > 0) /* given out in eights */
        n = MIN(n, floor(ech_device_number(chip->device, "kernel.sm_registers", SM_REGISTERS) / (ceil(registers / 8.0) * 8 * warps * 32)));
    if (shared > 0) /* a KiB of each block is the driver's */
        n = MIN(n, floor(ech_device_number(chip->device, "kernel.sm_shared", SM_SHARED) / (shared + 1024.0)));
    return CLAMP(n, 1, MOST_RESIDENT);
}

double ech_gpu_filled(const EchGpuLaunch *launch, const EchDevice *device)
{
    EchGpuChip chip;
    double blocks = (double)ech_gpu_blocks(launch);
    if (blocks < 1 || ech_gpu_threads(launch) == 0 || !chip_of(device, 0, &chip))
        return 0;
    return MIN(blocks / (chip.sms * resident_blocks(&chip, ech_gpu_threads(launch), launch->registers, launch->shared)), 1);
}

static double rate_seconds(double bytes, EchRate rate)
{
    return rate > 0 ? bytes / (double)rate : 0;
}

/* Of @all bytes that a kernel moves once each, the share that L2 has: they were used just before, or will be just after. */
static double found_in_l2(const EchGpuChip *chip, double all)
{
    return chip->l2 && chip->l2->capacity > 0 && chip->l2->read > 0 ? CLAMP(1 - all / (L2_SHARE * (double)chip->l2->capacity), 0, 1) : 0;
}

uint64_t ech_gpu_near_bytes(const EchGpuLaunch *launch, const EchDevice *device, uint64_t bytes)
{
    EchGpuChip chip = {.l2 = ech_device_memory_kind(device, ECH_MEM_CACHE)};
    double found = 0;
    uint64_t known = 0;
    for (size_t i = 0; i < ECH_GPU_NEAR; i++) {
        uint64_t near = MIN(MAX(launch->near[i], known), bytes);
        found += (double)(near - known) * found_in_l2(&chip, 0.75 * (double)ech_gpu_near_limit(i));
        known = near;
    }
    return (uint64_t)found;
}

/* Reads and writes in equal parts run at the mixed rate; what fits into L2 at L2's, if that is higher. */
double ech_gpu_memory_seconds(const EchGpuChip *chip, double read, double written, double blocks)
{
    const EchMemory *hbm = chip->hbm;
    double mixed = MIN(read, written), all = read + written;
    EchRate write = hbm->write ? hbm->write : hbm->read;
    double dram = rate_seconds(read - mixed, hbm->read) + rate_seconds(written - mixed, write) +
                  (hbm->both ? 2 * mixed / (double)hbm->both : rate_seconds(mixed, hbm->read) + rate_seconds(mixed, write));
    double hit = found_in_l2(chip, all), seconds = hit > 0 ? hit * MIN(all / (double)chip->l2->read, dram) + (1 - hit) * dram : dram;
    double used = blocks > 0 ? MIN(blocks, chip->sms) : chip->sms;
    return MAX(seconds, all / (used * SM_BYTES * chip->clock));
}

/* Bytes read again because the rows in flight do not stay in L2 until the next pass. Its halves each keep a copy, so it counts half: from 0.42 of the whole on,
 * fully at 0.67 (softmax and layer normalisation of 4096 to 16384 columns on an A100, NeuSight artifact). */
static double read_again(const EchGpuChip *chip, const EchGpuKernel *kernel, uint8_t passes, double places)
{
    const EchGpuLaunch *launch = &kernel->launch;
    if (passes < 2 || launch->rows == 0 || !chip->l2 || chip->l2->capacity == 0)
        return 0;
    double flight = MIN((double)launch->rows, places) * (double)kernel->read / (double)launch->rows;
    /* A softmax's gradient: the incoming one, which is half of what it reads, is summed first. */
    double more = kernel->name.kind == ECH_GPU_SOFTMAX && kernel->name.backward ? 0.5 : passes - 1;
    return more * (double)kernel->read * CLAMP((flight / (double)chip->l2->capacity - 0.42) / 0.25, 0, 1);
}

static double overlap(const double *parts, size_t n, double p)
{
    double most = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = MAX(most, parts[i]);
    for (size_t i = 0; i < n && most > 0; i++)
        sum += pow(parts[i] / most, p);
    return most > 0 ? most * pow(sum, 1 / p) : 0;
}

/* Of L2's units, a clock each: a sector is read and written. */
static double atomic_seconds(const EchGpuChip *chip, const EchGpuLaunch *launch)
{
    double all = chip->l2 ? rate_seconds((double)launch->atomics * 2 * SECTOR_BYTES, chip->l2->read) : 0;
    return MAX(all, (double)launch->crowded / chip->clock);
}

static double peak_seconds(double operations, const EchUnit *unit, const char *dtype)
{
    double peak = unit ? (double)ech_unit_peak(unit, dtype) : 0;
    return peak > 0 ? operations / peak : 0;
}

/* Of the units that lanes and special functions take; a peak counts two for each instruction of a lane. */
static double arithmetic_seconds(const EchGpuChip *chip, const EchGpuLaunch *launch)
{
    const EchUnit *special = ech_device_unit(chip->device, ECH_UNIT_TRANSCENDENTAL);
    double lanes = MAX(peak_seconds(2 * (double)launch->slots, chip->vector, "f32"), peak_seconds(2 * (double)launch->slots_64, chip->vector, "f64"));
    return MAX(lanes, peak_seconds((double)launch->functions, special, "f32"));
}

bool ech_gpu_code_cost(const EchGpuLaunch *launch, const EchDevice *device, const EchGpuCode *code, EchGpuCodeCost *ret)
{
    EchGpuChip chip;
    if (launch->issued == 0 || !chip_of(device, -1, &chip))
        return false;
    double blocks = MAX((double)ech_gpu_blocks(launch), 1), clocks = MIN(blocks, chip.sms) * chip.clock; /* a second, of all in use */
    double loads = MAX(ech_device_number(device, "kernel.sm_load_lanes", SM_LOAD_LANES), 1);
    const double limits[] = {
        [ECH_GPU_BY_ISSUE] = (double)launch->issued / (chip.lanes / 32) / clocks,
        [ECH_GPU_BY_MEMORY] = ech_gpu_memory_seconds(&chip, code->read, code->written, blocks),
        [ECH_GPU_BY_ACCESSES] = MAX((double)launch->accesses * 32 / loads, (double)launch->wavefronts) / clocks,
        [ECH_GPU_BY_L2] = chip.l2 ? rate_seconds((double)launch->fetched, chip.l2->read) : 0,
        [ECH_GPU_BY_ARITHMETIC] = MAX(code->units, arithmetic_seconds(&chip, launch)),
        [ECH_GPU_BY_ATOMICS] = atomic_seconds(&chip, launch),
    };
    size_t most = ECH_GPU_BY_MEMORY;
    for (size_t i = 0; i < G_N_ELEMENTS(limits); i++)
        most = limits[i] > limits[most] ? i : most;
    double near = chip.l2 && chip.l2->latency > 0 ? (double)chip.l2->latency * 1e-12 : chip.trip;
    double far = launch->fetched > 0 ? CLAMP((code->read + code->written) / (double)launch->fetched, 0, 1) : 1;
    double waves = ceil(blocks / (chip.sms * resident_blocks(&chip, ech_gpu_threads(launch), launch->registers, launch->shared)));
    double trip = near + (chip.trip - near) * far;
    double path = ((double)launch->path_cycles / chip.clock + (double)launch->path_trips * trip) * waves / blocks; /* of one block after another */
    double waits = launch->barriers > 0 ? path : MAX(path - limits[most], launch->path_trips > 0 ? trip : 0);
    *ret = (EchGpuCodeCost){ech_gpu_time(limits[most]), ech_gpu_time(waits), path > limits[most] ? ECH_GPU_BY_LATENCY : (uint8_t)most};
    return true;
}

static void finish(EchGpuCost *cost, const EchGpuChip *chip, double work)
{
    cost->launch = ech_gpu_time(chip->start);
    cost->time = MAX(ech_gpu_time(chip->start + work), 1);
}

/* ---- What streams ---- */

/* Seconds in which the last block of those that share an output adds their parts up, and nothing else runs. */
static double join_seconds(const EchGpuChip *chip, const EchGpuKernel *kernel)
{
    const EchGpuLaunch *launch = &kernel->launch;
    if (!kernel->name.joins || launch->grid[1] < 2)
        return 0;
    /* A block is wider than a warp only where its whole width sums. */
    if (launch->block[0] > 32)
        return (JOIN_TRIPS + ceil(launch->grid[1] / ((double)launch->block[0] * MAX(launch->block[1], 1u)))) * chip->trip;
    return (JOIN_COLUMNS_TRIPS + JOIN_PART * ceil(launch->grid[1] / (double)MAX(launch->block[1], 1u))) * chip->trip;
}

static void price_stream(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const EchGpuLaunch *launch = &kernel->launch;
    const Traits *class = &traits[kernel->name.kind];
    double bytes_each = launch->operand_bytes ? launch->operand_bytes : kernel->name.element_bytes ? kernel->name.element_bytes : 4;
    double elements = launch->elements ? (double)launch->elements : launch->rows ? (double)launch->rows * (double)launch->columns : 0;
    if (elements <= 0)
        elements = (double)MAX(kernel->read, kernel->written) / bytes_each;
    double blocks = (double)ech_gpu_blocks(launch);
    uint32_t threads = ech_gpu_threads(launch);
    if (blocks <= 0 || threads == 0) { /* as many as there is work for, four elements a thread */
        threads = 128;
        blocks = ceil(elements / 512);
        if (kernel->name.kind == ECH_GPU_VECTOR) /* a loop over as many as run at once */
            blocks = MIN(blocks, chip->sms * resident_blocks(chip, threads, 0, 0));
    }
    blocks = MAX(blocks, 1);
    double resident = resident_blocks(chip, threads, launch->registers, launch->shared), places = chip->sms * resident;
    double instructions = kernel->name.instructions ? kernel->name.instructions : class->instructions;
    if (kernel->name.kind == ECH_GPU_SOFTMAX && launch->columns && (double)launch->columns * bytes_each != ceil((double)launch->columns * bytes_each / 16) * 16)
        instructions += UNALIGNED_ENDS * threads / (double)launch->columns;
    if (kernel->name.places > 0)
        instructions += (double)ech_gpu_place_instructions(&kernel->name, launch->axes, kernel->read < kernel->written / EXPANDED) - kernel->name.places;
    if (launch->columns > 0)
        instructions += kernel->name.row_instructions * (double)threads / (double)launch->columns;
    double working = blocks;
    if (kernel->name.kind == ECH_GPU_CONCAT && launch->grid[1] > 1) /* a row of blocks for each array, and one array has most of it */
        working = MAX(launch->rows > 0 ? blocks * MIN(elements / (double)launch->rows / launch->grid[1], 1) : blocks / launch->grid[1], 1);
    double trips = kernel->name.trips ? kernel->name.trips : kernel->name.generated ? GENERATED_TRIPS : class->trips;
    if (class->loop && kernel->name.trips == 0)
        trips = MAX(trips, elements / (working * threads) / MAX(kernel->name.vector, 1) *
                               (kernel->name.kind == ECH_GPU_GATHER || kernel->name.kind == ECH_GPU_CONCAT ? 2 : 0.5));
    if (kernel->name.joins && kernel->name.vector == 1 && working < chip->sms)
        trips = MAX(class->trips, trips / ALONE);
    if (kernel->name.kind == ECH_GPU_OPTIMIZER && kernel->name.lists > 0) {
        /* A thread takes LIST_STEP elements of each list, and no more before it has stored them (MultiTensorApply.cuh: kILP). Blocks are few: 320 at most. */
        trips = MAX(class->trips, elements / (blocks * threads) / LIST_STEP);
        resident = MIN(resident, ceil(blocks / chip->sms));
    }
    if (kernel->name.chain > 0)
        trips = MAX(ceil(elements / (working * threads)) * kernel->name.chain / 10, 1);
    if (kernel->name.step > 0) {
        trips = ceil(elements / (working * threads) / kernel->name.step);
        resident = MIN(resident, MAX(working / chip->sms, 1));
    }
    double waves = MAX(working / places, 1), used = MIN(working, chip->sms);
    if (kernel->name.walks || (kernel->name.kind == ECH_GPU_NORM && kernel->name.chain > 0)) { /* whole waves, as all blocks take as long */
        double each = elements / (blocks * threads);
        waves = ceil(waves);
        trips = STATISTICS_TRIPS + (!kernel->name.walks ? trips : kernel->name.backward ? ceil(each / SUM_STEP) * SUM_STEP_TRIPS : each * WALK_TRIPS);
    }
    if (launch->waits)
        waves = ceil(waves);
    double parts[3] = {
        (waves * trips + (kernel->name.generated && kernel->name.chain == 0 ? (waves - 1) * TURN_TRIPS : 0)) * chip->trip,
        elements * instructions / (used * chip->lanes * chip->clock),
        ech_gpu_memory_seconds(chip, (double)kernel->read + read_again(chip, kernel, kernel->name.generated ? 1 : class->passes, places),
                               (double)kernel->written, working),
    };
    if (kernel->name.looks_back && chip->l2) /* what is known passes from block to block through L2, as far as a warp sees at once */
        parts[0] = MAX(parts[0], blocks / LOOK_BACK * LOADED * (double)chip->l2->latency * 1e-12);
    double sectors = chip->l2 && chip->l2->read > 0 ? elements / (LONE_SECTORS * (double)chip->l2->read) : 0; /* Seconds, of one byte an element */
    /* L2 adds one of a sector after the other. */
    if (kernel->name.adds)
        parts[2] += sectors * SECTOR_BYTES;
    /* Each goes through L2 for the one element in it that is wanted then: as told, of 32 elements, or those of one array alone. */
    parts[2] = MAX(parts[2], sectors * MAX(launch->sectors, launch->scattered ? SECTOR_BYTES + bytes_each : 0));
    /* A block of 32 warps that sums over rows waits for none but at its end. */
    double p =
        CLAMP(1 + log2(kernel->name.sums_rows && kernel->name.kind == ECH_GPU_NORM && !kernel->name.walks ? MAX(resident, threads / 512.0) : resident), 1, 4);
    *ret = (EchGpuCost){.latency = ech_gpu_time(parts[0]),
                        .compute = ech_gpu_time(parts[1]),
                        .memory = ech_gpu_time(parts[2]),
                        .waves = to_count(ceil(waves)),
                        .resident = (uint32_t)resident,
                        .bound = parts[2] >= parts[1] && parts[2] >= parts[0] ? ECH_GPU_BY_MEMORY
                                 : parts[1] >= parts[0]                       ? ECH_GPU_BY_ISSUE
                                                                              : ECH_GPU_BY_LATENCY};
    double starts = has_wgmma(chip->device) ? blocks * BLOCK_CLOCKS / chip->clock : 0;
    double work = launch->waits ? MAX(parts[0], parts[1]) + parts[2] : overlap(parts, 3, p);
    finish(ret, chip, MAX(work, starts) + join_seconds(chip, kernel));
}

/* Blocks over lists of tensors are few and long, each a chunk, and those that go over rows step by step are all as long: what is left of them when the chip has
 * been full is as long again, with most of it idle.
 * (PyTorch launches 320; of its fused optimizers' 61 registers 264 are there at once on an H100.) */
static void price_turns(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const EchGpuLaunch *launch = &kernel->launch;
    double blocks = (double)ech_gpu_blocks(launch), places = chip->sms * resident_blocks(chip, ech_gpu_threads(launch), launch->registers, launch->shared);
    double full = blocks > places ? floor(blocks / places) * places / blocks : 1;
    price_stream(chip, kernel, ret);
    if (full >= 1 || (kernel->name.step == 0 && (launch->grid[1] > 1 || launch->grid[2] > 1)))
        return;
    EchGpuCost first, rest;
    for (int part = 0; part < 2; part++) {
        double share = part ? 1 - full : full;
        EchGpuKernel some = *kernel;
        some.launch.grid[0] = (uint32_t)MAX(round(blocks * share), 1);
        some.launch.grid[1] = some.launch.grid[2] = 1;
        some.launch.elements = to_count((double)launch->elements * share);
        some.read = to_count((double)kernel->read * share);
        some.written = to_count((double)kernel->written * share);
        price_stream(chip, &some, part ? &rest : &first);
    }
    ret->time = MAX(ret->time, ech_time_add(first.time, rest.time) - ech_gpu_time(chip->start));
}

static void price_sort_pass(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    double each = kernel->name.read_bytes > 0 ? kernel->name.read_bytes : MAX(kernel->name.element_bytes, 1);
    ech_gpu_radix_pass(chip, (double)kernel->read / each, each, ret);
}

/* ---- Products ---- */

typedef struct {
    double m, n, k, stages;
    double threads, resident, blocks; /* blocks: of the grid, 0 not known */
    double parts;                     /* of k, each in blocks of its own; 0: as the grid says */
    uint8_t arithmetic, alignment;
    bool filters;      /* a convolution's gradient of its filters */
    bool split;        /* along k, in a kernel that another adds up for: its name says so, how often its grid */
    bool single;       /* a block has one tile and ends with it (Triton's): the next one's first loads wait until it has left */
    double afterwards; /* instructions of a result between its last step and its store */
} Tile;

/* Of the data sheet's rate what wgmma sustains, and mma (h100-sxm.yaml says whence); on chips that have both. */
#define WGMMA_SHARE 0.87
#define WGMMA_CHIP_MMA_SHARE 0.62
/* Harmonic side of the tile, 256 x 128, with which large products were measured. */
#define LARGE_INTENSITY (256.0 * 128 / (256 + 128))

/* The rate that shares are of: the data sheet's, or what makes a large product take as long as was measured just after a pause. */
static double matrix_peak(const EchGpuChip *chip, const char *dtype)
{
    double peak = (double)ech_unit_peak(chip->matrix, dtype), half = ech_device_number(chip->device, "kernel.half_intensity", HALF_INTENSITY);
    if (!measured_here(chip->device))
        return peak;
    return peak * ech_measured_burst(chip->device, dtype, false) * (LARGE_INTENSITY + half) / LARGE_INTENSITY / (has_wgmma(chip->device) ? WGMMA_SHARE : 1);
}

/* Of it, an instruction's. */
static double instruction_share(const EchGpuChip *chip, bool wgmma)
{
    bool both = measured_here(chip->device) && has_wgmma(chip->device);
    return ech_device_number(chip->device, wgmma ? "kernel.wgmma_share" : "kernel.mma_share", !both ? 1 : wgmma ? WGMMA_SHARE : WGMMA_CHIP_MMA_SHARE);
}

double ech_gpu_code_share(const EchGpuLaunch *launch, const EchDevice *device)
{
    EchGpuChip chip;
    bool known = launch->arithmetic > 0 && chip_of(device, -1, &chip);
    return known ? CLAMP(instruction_share(&chip, launch->arithmetic - 1 == ECH_GPU_WGMMA), 0.1, 1) : 1;
}

/* Multiply-accumulates a second of one SM. kernel.fma_share, mma_share and wgmma_share: what large products sustain of what their instruction can do at the
 * data sheet's clock; below 1 where power holds the clock down (an L4 has 72 W: a third to a half is left), above 1 where it runs above that clock. */
static double tile_rate(const EchGpuChip *chip, const Tile *tile, const char *dtype)
{
    double intensity = tile->m * tile->n / (tile->m + tile->n);
    if (tile->arithmetic == ECH_GPU_FMA) {
        double peak = (double)ech_unit_peak(chip->vector, dtype) / 2 / chip->sms, wide = (double)ech_unit_peak(chip->vector, "f32") / 2 / chip->sms;
        double issue = chip->lanes * chip->clock * (wide > 0 ? peak / wide : 1) * intensity / (intensity + FMA_OTHERS);
        return MIN(peak * FMA_SHARE, issue) * ech_device_number(chip->device, "kernel.fma_share", 1) * chip->lanes_held;
    }
    double rate = matrix_peak(chip, dtype) / 2 / chip->sms;
    /* Of wgmma's rate mma reaches a share; f64 has no other instruction, and its rate is mma's own (PTX ISA, wgmma.mma_async: no .f64). */
    bool own = strcmp(dtype, "f64") == 0 && has_wgmma(chip->device);
    rate *= instruction_share(chip, tile->arithmetic != ECH_GPU_MMA || own);
    return rate * chip->held * intensity / (intensity + ech_device_number(chip->device, "kernel.half_intensity", HALF_INTENSITY));
}

/* AMD's data sheets count at the highest clock, which nothing exceeds: a share above 1 makes up for what else the model has of 16 bits, of which types whose
 * products are slower have less. */
static double least_seconds(const EchGpuChip *chip, const EchGpuLaunch *l, const Tile *tile, const char *dtype)
{
    double peak = chip->amd && tile->arithmetic != ECH_GPU_FMA ? (double)ech_unit_peak(chip->matrix, dtype) : 0;
    return peak > 0 ? 2 * MAX((double)l->batch, 1) * (double)l->m * (double)l->n * (double)l->k / peak : 0;
}

static void tile_cost(const EchGpuChip *chip, const EchGpuLaunch *l, const Tile *tile, const char *dtype, double bytes, EchGpuCost *ret)
{
    double batch = MAX((double)l->batch, 1), m = (double)l->m, n = (double)l->n, k = (double)l->k;
    double straight = ceil(m / tile->m) * ceil(n / tile->n) * batch, swapped = ceil(n / tile->m) * ceil(m / tile->n) * batch;
    bool swap = tile->blocks > 0 && !tile->filters ? fabs(swapped - tile->blocks) < fabs(straight - tile->blocks) : swapped < straight;
    double tiles = swap ? swapped : straight;
    /* Fewer blocks than tiles: each takes one tile after another. Twice as many and more: k is split. */
    bool persistent =
        (tile->arithmetic == ECH_GPU_WGMMA && !tile->single) || (tile->blocks > 0 && tile->blocks < tiles && tile->blocks <= chip->sms * tile->resident);
    double split = tile->parts > 0                                                             ? tile->parts
                   : tile->blocks >= 1.5 * tiles && tile->filters                              ? MIN(round(tile->blocks / tiles), MOST_PARTS)
                   : tile->blocks >= 1.5 * tiles && batch <= 1 && (!persistent || tile->split) ? MIN(round(tile->blocks / tiles), 32)
                                                                                               : 1;
    /* A filter's position takes whole steps of its channels: few of them are mostly padding. The lanes' kernels step through both together. */
    if (l->taps > 1 && tile->arithmetic != ECH_GPU_FMA) {
        double channels = k / (double)l->taps, few = FEW_CHANNELS / MAX(l->operand_bytes, 1), step = tile->parts > 0 && channels <= few ? few : tile->k;
        k = ceil(channels / step) * step * (double)l->taps;
    }
    double deep = k / split > tile->k ? ceil(k / split / tile->k) * tile->k : MAX(k / split, 1);
    double count = tiles * split;
    /* A convolution's operands come row by row of a step, of up to 128 bytes each, from where its position lies. */
    double fetched = l->taps > 1 && tile->arithmetic == ECH_GPU_WGMMA ? (tile->m + tile->n) * ceil(deep / tile->k) * POSITION_CLOCKS / chip->clock : 0;
    double main = tile->m * tile->n * deep / (tile_rate(chip, tile, dtype) * (l->taps > 1 && (double)l->k / (double)l->taps < tile->k ? IMPLICIT_SHARE : 1)),
           tail = 0;
    main = MAX(main, fetched);
    /* Beside a lone block's products nothing else runs on mma's SMs; wgmma's have warps that only fetch. */
    double found = tile->filters && tile->arithmetic == ECH_GPU_MMA
                       ? (tile->m + tile->n) * deep * l->operand_bytes / ACCESS_BYTES * PIXEL_SLOTS / (chip->lanes * chip->clock)
                       : 0,
           beside = MIN(main, found);
    main = MAX(main, found);
    bool hidden = false; /* A step's accesses last longer than a trip to memory, one behind another. */
    if (tile->alignment > 0 && tile->alignment < 4 && tile->arithmetic != ECH_GPU_FMA) {
        double width = tile->alignment * chip->clock, high = MIN(tile->m, swap ? n : m), wide = MIN(tile->n, swap ? m : n);
        double step = (high + wide) * tile->k / (UNALIGNED_LOADS * width);
        main = MAX(main, step / tile->k * deep);
        hidden = step > chip->trip;
        tail = high * wide / (UNALIGNED_STORES * width);
    }
    double places = chip->sms * tile->resident, waves = ceil(count / places), each = ceil(count / chip->sms);
    /* A block of fewer than four warps feeds fewer than four tensor cores. */
    double alone = tile->threads > 0 && tile->threads < 128 ? 128 / tile->threads : 1;
    double steps = MAX(ceil(deep / tile->k) / MAX(tile->stages, 1), 1), life = (TILE_TRIPS + (hidden ? 0 : steps)) * chip->trip;
    if (tile->single && tile->arithmetic == ECH_GPU_WGMMA) { /* steps are asked for while others multiply */
        main = MAX(main, steps * chip->trip);
        life = TILE_TRIPS * chip->trip;
    }
    tail += tile->m * tile->n * tile->afterwards / (chip->lanes * chip->clock);
    double rated = each * (main + tail), lived = persistent ? 0 : waves * (main * alone + beside + tail + life) - life;
    double result = MIN(bytes, batch * m * n * bytes / MAX(batch * (m * k + k * n + m * n), 1));
    double memory = ech_gpu_memory_seconds(chip, bytes - result, result, 0);
    double stored = rate_seconds(result, chip->hbm->write ? chip->hbm->write : chip->hbm->read) / waves;
    /* Every tile takes its operands from L2 anew. */
    double feed = ech_device_number(chip->device, "kernel.tile_feed", chip->l2 ? (double)chip->l2->read : 0);
    /* Of convolutions the largest alone: "tilesize256x128x64_warpgroupsize2x1x1", others have 1x1x1. */
    bool together = tile->arithmetic == ECH_GPU_WGMMA && (l->taps <= 1 || tile->m * tile->n >= 256 * 128);
    double shared_m = together ? CLUSTER : 1;
    double rows_bytes = l->operand_bytes, weight_bytes = l->weight_bits ? l->weight_bits / 8.0 : l->operand_bytes;
    double fed = feed > 0 && l->operand_bytes > 0
                     ? count * (tile->m / shared_m * (swap ? weight_bytes : rows_bytes) + tile->n * (swap ? rows_bytes : weight_bytes)) * deep / feed
                     : 0;
    /* The last tile of an SM leaves through its own port after its last step. */
    double each_result = batch * m * n > 0 ? result / (batch * m * n) : 0,
           left = MIN(tile->m, swap ? n : m) * MIN(tile->n, swap ? m : n) * each_result / (SM_BYTES * chip->clock);
    double kept = MAX(STORE_SHARE * stored, left);
    rated = MAX(rated + kept, fed + stored);
    lived = persistent ? 0 : lived + kept;
    double parts[3] = {steps * chip->trip + left, MAX(MAX(rated, lived), least_seconds(chip, l, tile, dtype)), memory};
    double set_up = tile->stages > 2 ? PIPELINE_SETUP : 0, work = MAX(parts[0], MAX(parts[1], parts[2]));
    if (tile->parts > 1) /* sums of f32 written, and read by a kernel that adds them up */
        work += chip->start + 2 * chip->trip + ech_gpu_memory_seconds(chip, 4 * split * batch * m * n, 4 * split * batch * m * n, 0);
    *ret = (EchGpuCost){
        .latency = ech_gpu_time(set_up + 2 * chip->trip),
        .compute = ech_gpu_time(parts[1]),
        .memory = ech_gpu_time(memory),
        .bytes = to_count(bytes),
        .tile_m = (uint32_t)(swap ? tile->n : tile->m),
        .tile_n = (uint32_t)(swap ? tile->m : tile->n),
        .tiles = to_count(count),
        .waves = to_count(each),
        .given = tile->arithmetic == ECH_GPU_WGMMA && ech_gpu_gives_tiles(chip->device) ? (uint32_t)MIN(count, chip->sms) : 0,
        .wave_efficiency = each > 0 ? count / (each * chip->sms) : 0,
        .resident = (uint32_t)tile->resident,
        .bound = work < set_up + 2 * chip->trip    ? ECH_GPU_BY_LATENCY
                 : memory >= parts[1]              ? ECH_GPU_BY_MEMORY
                 : tile->arithmetic == ECH_GPU_FMA ? ECH_GPU_BY_ISSUE
                                                   : ECH_GPU_BY_MATRIX,
    };
    finish(ret, chip, set_up + 2 * chip->trip + work);
}

/* Filters that a tile of a grouped convolution has at least: so many groups go together, zeros between them. */
#define TOGETHER 32
/* A step along k: rows of 128 bytes, the widest that shared memory takes apart without conflicts (PTX ISA, swizzle modes of wgmma); older kernels take half. */
#define STEP_BYTES 128.0
/* Parts that a library cuts k into at most, and the least of k that a part has (cuBLAS's splitKreduce kernels in profiles). */
#define MAX_SPLIT 64.0
#define LEAST_PART 512.0

/* Tiles of vendor libraries, largest first (DU-09799-001), and then those in between that cuBLAS has for wgmma: nvjet_hsh_192x192, _320x128, _128x192, _256x160
 * and nvjet_qqtst_128x160 stand in published profiles of H100 and later. */
static const struct {
    uint16_t m, n;
} tiles[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64},  {64, 256},  {128, 64}, {64, 128},
             {64, 64},   {192, 192}, {320, 128}, {128, 192}, {256, 160}, {128, 160}};
#define OLDER_TILES 8

static const char *operand_type(const EchGpuKernel *kernel)
{
    const char *dtype = kernel->dtype ? kernel->dtype : kernel->name.element_bytes == 2 ? "f16" : kernel->name.element_bytes == 8 ? "f64" : "f32";
    return kernel->name.tf32 && strcmp(dtype, "f32") == 0 ? "tf32" : dtype;
}

/* With wgmma libraries multiply by a vector in tiles of eight columns, as by any narrow matrix: nvjet_tst_192x8 and its like in published profiles of vLLM
 * decoding one sequence on an H200. Not many small ones at once, and not what tensor cores would round. */
static bool in_narrow_tiles(const EchGpuChip *chip, const EchGpuKernel *kernel)
{
    const EchGpuLaunch *launch = &kernel->launch;
    return has_wgmma(chip->device) && launch->operand_bytes > 0 && launch->operand_bytes <= 2 && launch->batch <= 1 && MAX(launch->m, launch->n) > 1;
}

/* Trips of a block that adds its part of a column to that of the block before: it sees that one's lock, reads the sums, and its own are there before it opens
 * the next one's (vLLM, csrc/quantization/marlin/marlin_template.h: barrier_acquire, global_reduce_fp32, barrier_release). */
#define STRIPE_TRIPS 3.0
/* Before 2025: of mma's rate what its products reach, and then lane slots for a weight that is widened, for each tile of rows anew: from 32 and 64 rows on an
 * A100 of 40 GB (four products of Llama 13B together, vllm-project/vllm pull request 2497: 183.5 and 291 us; the card is not named, its products in f16 are
 * this one's within 1 per cent). Since then both go on at once. */
#define STRIPE_SHARE 0.61
#define WIDEN_SLOTS 3.6

/* Marlin (arXiv 2408.11743), and CUTLASS's stream-K (arXiv 2301.03598): as many blocks as the chip holds, each an equal share of all tiles, going along k and
 * then to the next column. So a column's parts lie in several blocks where columns are few, and these wait for one another. Weights are widened in registers,
 * beside the products. */
static void price_striped(const EchGpuChip *chip, const EchGpuKernel *kernel, const char *dtype, EchGpuCost *ret)
{
    const EchGpuLaunch *l = &kernel->launch;
    const EchGpuName *name = &kernel->name;
    double m = name->tile_m, n = name->tile_n, straight = ceil((double)l->n / n) * ceil((double)l->m / m),
           swapped = ceil((double)l->n / m) * ceil((double)l->m / n);
    if (swapped < straight) { /* column-major libraries */
        m = name->tile_n;
        n = name->tile_m;
    }
    double blocks = MAX((double)ech_gpu_blocks(l), 1), deep = ceil((double)l->k / name->tile_k), columns = MIN(straight, swapped) * MAX((double)l->batch, 1),
           each = ceil(deep * columns / blocks);
    double parts = MIN(ceil(deep / each) + (fmod(deep, each) > 0 && each < deep ? 1 : 0), blocks);
    bool wgmma = name->arithmetic == ECH_GPU_WGMMA && has_wgmma(chip->device);
    Tile tile = {.m = m, .n = n, .k = name->tile_k, .arithmetic = wgmma ? ECH_GPU_WGMMA : ECH_GPU_MMA};
    bool older = name->striped == 1;
    double peak = matrix_peak(chip, dtype) / 2 / chip->sms * instruction_share(chip, false) * chip->held,
           products = m / (older ? peak * STRIPE_SHARE : tile_rate(chip, &tile, dtype)), widened = name->widens ? WIDEN_SLOTS / (chip->lanes * chip->clock) : 0;
    double bytes = (double)kernel->read + (double)kernel->written, used = MIN(blocks, chip->sms),
           compute = deep * columns / used * n * name->tile_k * (older ? products + widened : MAX(products, widened)),
           memory = ech_gpu_memory_seconds(chip, (double)kernel->read, (double)kernel->written, blocks),
           latency = PIPELINE_SETUP + (2 + (parts - 1) * STRIPE_TRIPS) * chip->trip, stream = each / (name->stages ? name->stages : 4) * chip->trip;
    *ret = (EchGpuCost){.latency = ech_gpu_time(latency),
                        .compute = ech_gpu_time(compute),
                        .memory = ech_gpu_time(memory),
                        .bytes = to_count(bytes),
                        .tile_m = (uint32_t)m,
                        .tile_n = (uint32_t)n,
                        .tiles = to_count(deep * columns),
                        .waves = to_count(each),
                        .wave_efficiency = deep * columns / (each * blocks),
                        .resident = (uint32_t)MIN(ceil(blocks / chip->sms), (double)INT32_MAX),
                        .bound = memory >= compute ? ECH_GPU_BY_MEMORY : ECH_GPU_BY_MATRIX};
    finish(ret, chip, latency + MAX(stream, MAX(compute, memory)));
}

/* The instruction that multiplies operands of @dtype. */
static uint8_t arithmetic_of(const EchGpuChip *chip, const EchGpuKernel *kernel, const char *dtype)
{
    uint8_t arithmetic = kernel->name.arithmetic;
    bool single = strcmp(dtype, "f32") == 0, precise = strcmp(dtype, "f64") == 0;
    /* A library that was only asked for a product: what may not be rounded is for the lanes, and so is what tensor cores do not take. */
    if (kernel->launch.kind == ECH_GPU_PRODUCT && kernel->launch.arithmetic == 0) {
        if (single || ech_unit_peak(chip->matrix, dtype) == 0)
            arithmetic = ECH_GPU_FMA;
        else if (precise || strcmp(dtype, "s8") == 0) /* cuBLAS 13 has only older kernels for whole numbers: cutlass_80_tensorop_i16832gemm_s8 on an H100 */
            arithmetic = ECH_GPU_MMA;
    }
    if (chip->amd && arithmetic == ECH_GPU_FMA && (single || precise))
        return ECH_GPU_MMA;
    /* A chip without such an instruction has none of its own number for it: older tensor cores do the same work. */
    return arithmetic == ECH_GPU_WGMMA && !has_wgmma(chip->device) ? ECH_GPU_MMA : arithmetic;
}

/* An instruction that takes such operands only along k (kernel.wgmma_along_k) has them turned round first, by a kernel before; older ones do not mind. */
static EchTime turning_time(const EchGpuChip *chip, const EchGpuLaunch *launch, uint8_t arithmetic)
{
    if (arithmetic != ECH_GPU_WGMMA || launch->turned == 0 || launch->operand_bytes == 2 || !(along_k(chip->device) > 0))
        return 0;
    EchBytes moved = ech_bytes_mul(launch->turned, MAX(launch->operand_bytes, 1u));
    EchGpuKernel turn = {.name = {.kind = ECH_GPU_RELAYOUT, .vector = 1},
                         .launch = {.elements = launch->turned, .operand_bytes = launch->operand_bytes},
                         .read = moved,
                         .written = moved};
    EchGpuCost cost;
    price_stream(chip, &turn, &cost);
    return cost.time;
}

/* Narrow groups of a convolution are multiplied several at once, with zeros between them. */
static EchGpuLaunch with_groups_together(const EchGpuLaunch *launch, uint8_t arithmetic)
{
    EchGpuLaunch together = *launch;
    if (launch->taps > 1 && launch->batch > 1 && launch->n < TOGETHER && arithmetic != ECH_GPU_FMA) {
        uint64_t groups = MIN(launch->batch, TOGETHER / launch->n);
        together.batch = (launch->batch + groups - 1) / groups;
        together.n *= groups;
        together.k = ech_bytes_mul(launch->k, groups);
    }
    return together;
}

/* The fastest of the tiles that a library has for @launch; @each: bytes of an operand's element. False: there is none. */
static bool price_best_tile(const EchGpuChip *chip, const EchGpuKernel *kernel, const EchGpuLaunch *launch, const char *dtype, uint8_t arithmetic, double each,
                            EchGpuCost *ret)
{
    EchTime turning = turning_time(chip, launch, arithmetic);
    double bytes = (double)kernel->read + (double)kernel->written;
    /* Convolutions have both kinds: the older one takes shorter steps of few channels. */
    bool any = false, both = (launch->taps > 1 || turning > 0) && arithmetic == ECH_GPU_WGMMA;
    size_t n_tiles = arithmetic == ECH_GPU_WGMMA ? G_N_ELEMENTS(tiles) : OLDER_TILES;
    for (size_t i = 0; i < n_tiles + (both ? OLDER_TILES : 0); i++) {
        uint8_t kind = i < n_tiles ? arithmetic : ECH_GPU_MMA;
        uint16_t m = tiles[i % n_tiles].m, n = tiles[i % n_tiles].n;
        double step = (kind == ECH_GPU_WGMMA ? STEP_BYTES : STEP_BYTES / 2) / each, channels = launch->taps > 1 ? (double)launch->k / (double)launch->taps : 0;
        Tile tile = {.m = m,
                     .n = n,
                     .k = kind == ECH_GPU_WGMMA && channels == step ? step / 2 : step,
                     .stages = 4,
                     .threads = 128,
                     .resident = m * n >= 128 * 128 || kind == ECH_GPU_WGMMA ? 1 : 2,
                     .arithmetic = kind,
                     .alignment = kernel->name.alignment};
        /* Libraries cut a long k where its tiles leave most of the chip idle. */
        double count = ceil((double)launch->m / m) * ceil((double)launch->n / n) * MAX((double)launch->batch, 1);
        for (double split = 1; split <= MAX_SPLIT && (split == 1 || (count * split <= chip->sms && (double)launch->k / split >= LEAST_PART)); split *= 2) {
            tile.parts = split;
            EchGpuCost cost;
            tile_cost(chip, launch, &tile, dtype, bytes, &cost);
            if (kind == ECH_GPU_WGMMA)
                cost.time = ech_time_add(cost.time, turning);
            if (!any || cost.time < ret->time)
                *ret = cost;
            any = true;
        }
    }
    return any;
}

/* As a product by a vector, without tiles: what it reads, once. */
static void price_vector(const EchGpuChip *chip, const EchGpuKernel *kernel, double each, EchGpuCost *ret)
{
    const EchGpuKernel vector = {.name = {.kind = ECH_GPU_VECTOR, .vector = 8},
                                 .launch = {.elements = to_count((double)kernel->read / each), .operand_bytes = kernel->launch.operand_bytes},
                                 .read = kernel->read,
                                 .written = kernel->written};
    price_stream(chip, &vector, ret);
}

static bool price_product(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const EchGpuLaunch *launch = &kernel->launch;
    const EchGpuName *name = &kernel->name;
    const char *dtype = operand_type(kernel);
    uint8_t arithmetic = arithmetic_of(chip, kernel, dtype);
    if (launch->m == 0 || launch->n == 0 || launch->k == 0 || ech_unit_peak(arithmetic == ECH_GPU_FMA ? chip->vector : chip->matrix, dtype) == 0)
        return false;
    if (name->striped && name->tile_m > 0 && name->tile_n > 0 && name->tile_k > 0) {
        price_striped(chip, kernel, dtype, ret);
        return true;
    }
    if (name->tile_m) {
        uint32_t threads = ech_gpu_threads(launch);
        Tile tile = {.m = name->tile_m,
                     .n = name->tile_n,
                     .k = name->tile_k ? name->tile_k : 32,
                     .stages = name->stages                  ? name->stages
                               : arithmetic == ECH_GPU_WGMMA ? 4
                                                             : 2,
                     .threads = threads,
                     .resident = threads ? resident_blocks(chip, threads, launch->registers, launch->shared) : 1,
                     .blocks = (double)ech_gpu_blocks(launch),
                     .arithmetic = arithmetic,
                     .alignment = name->alignment,
                     .filters = name->filters,
                     .split = name->split,
                     .single = launch->kind == ECH_GPU_PRODUCT && launch->tile_m > 0,
                     .afterwards = name->instructions};
        tile_cost(chip, launch, &tile, dtype, (double)kernel->read + (double)kernel->written, ret);
        return true;
    }
    double each = CLAMP(launch->operand_bytes ? launch->operand_bytes : strcmp(dtype, "tf32") == 0 || strcmp(dtype, "f32") == 0 ? 4 : 2, 1, 8);
    const EchGpuLaunch together = with_groups_together(launch, arithmetic);
    bool known = price_best_tile(chip, kernel, &together, dtype, arithmetic, each, ret);
    if (launch->kind == ECH_GPU_PRODUCT && (together.m == 1 || together.n == 1) && !in_narrow_tiles(chip, kernel)) {
        EchGpuCost cost;
        price_vector(chip, kernel, each, &cost);
        if (!known || cost.time < ret->time)
            *ret = cost;
        known = true;
    }
    return known;
}

/* Fused attention: its products at the rate of the instruction, and what lies between them for every score.
 *
 * mma (FlashAttention-2, arXiv 2307.08691): forward 73 %, backward 63 % of an A100's peak for heads of 128 at long sequences; on an H100 the backward of heads
 * of 64 reaches 299 TFLOP/s (Dao-AILab/flash-attention pull request 2688), and wide heads keep less of the rate, for a tile's operands come from shared memory
 * as fast as on an A100 while the products are faster: fitted to the forward without a mask at 16 K of figure 5 of arXiv 2407.08608, heads of 128 and 256.
 *
 * wgmma (FlashAttention-3, arXiv 2407.08608, figure 5): the forward without a mask at 16 K of heads of 64 and 256, 497 and 756 TFLOP/s, fits one rate of the
 * products and one time a score; cuDNN's (9.1) is that rate and 595 TFLOP/s for heads of 128. Backward, figure 6: heads of 128 at 16 K, 561 and 516 TFLOP/s,
 * and of 64 at 2 K, 422 and 395. A block of cuDNN's gradients waits for seven trips besides, as its heads of 64 at 512 and 1 K have it, 266 and 348 TFLOP/s.
 * Held out: a ViT's of 197 on an H100 (236 us, traces/gpu_h100-sxm/models), and all others there and on an H200.
 *
 * FlexAttention's in Triton: its backward makes scores twice, for the queries' gradient and for the keys', seven products where others have five. On an H100
 * the forward without a mask at 16 K of heads of 64 (pytorch/pytorch pull request 137036: 12.72 ms, 346 TFLOP/s) and of 128 (pytorch/benchmark pull request
 * 2443: 5.39 ms, 408) fits one rate of the products and one time a score, and the backward of the former (40.96 ms) that rate and another. On other chips 90 %
 * of FlashAttention-2's speed forward and 85 backward (an A100, pytorch.org/blog/flexattention). */
#define SOFTMAX_SLOTS 12.5   /* of a lane, a score: maximum, exponential, sum, rounding */
#define GRADIENT_SLOTS 26.4  /* the same, computed again and differentiated */
#define GRADIENT_SHARED 0.16 /* slots for every element of a head: operands by way of shared memory */
#define ATTENTION_HEAD 128
#define ATTENTION_REGISTERS 255 /* a thread; all such kernels take what there is */
#define WIDE_HEAD 0.85          /* of mma's rate on chips that have wgmma: heads of 128 */
#define WIDEST_HEAD 0.60        /* 256 */
#define WGMMA_RATE 0.925        /* of the peak */
#define WGMMA_SLOTS 7.0         /* a score, beside the products of another warp group */
#define WGMMA_SLOTS_CUDNN 10.0
#define WGMMA_GRADIENT_SLOTS 7.5
#define WGMMA_GRADIENT_SLOTS_CUDNN 8.3
#define GRADIENT_SHARED_CUDNN 0.193 /* as GRADIENT_SHARED */
#define GRADIENT_TRIPS_CUDNN 7.0    /* of a block, besides its tiles */
#define DROPOUT_SLOTS                                                                                                                                          \
    23.0               /* a score's share of Philox's ten rounds for four, and what drops it: GPT-2 124M forward and backward on an H100 (our own capture) */
#define FLEX_RATE 0.52 /* of the peak */
#define FLEX_SLOTS 7.2
#define FLEX_GRADIENT_SLOTS 18.8
#define FLEX_SPEED 0.90 /* of mma's, FlashAttention-2's */
#define FLEX_GRADIENT_SPEED 0.85
/* The gradient of memory-efficient attention, of mma's speed as FlashAttention-2 has it: with tiles of 64 and of 128 rows, as 197 queries and keys of heads of
 * 64 and of 128 take on an A100 (CUTLASS's pull request 992). */
#define EFFICIENT_GRADIENT_SPEED 0.29
#define EFFICIENT_WIDE_GRADIENT_SPEED 0.375
/* Forward, as PyTorch builds it alone, with dropout and a bias in it (AttentionKernel<..., kSupportsDropout, kSupportsBias>), where xformers has one of each
 * kind, which reaches all of that speed: f16, causal, 2048 rows of heads of 64 on an H100 (traces/gpu_h100-sxm/operators.json.gz, 333 us). Held out: f32 there,
 * 1024 rows without a mask. */
#define EFFICIENT_GENERAL_SPEED 0.45
#define FLEX_GRADIENT_OPERATIONS 14 /* a score and element of a head */

/* cuDNN's for sm_90 are launched as many blocks as there are multiprocessors, which deal the rows of all heads out among them; so are those of which no grid is
 * known. */
static bool dealt_out(const EchGpuChip *chip, const EchGpuKernel *kernel)
{
    const EchGpuLaunch *l = &kernel->launch;
    return kernel->name.library && kernel->name.arithmetic == ECH_GPU_WGMMA && has_wgmma(chip->device) && l->batch == 0 && l->columns > 0 &&
           l->rows >= l->columns && l->grid[1] <= 1 && l->grid[2] <= 1 && l->grid[0] <= chip->sms;
}

/* Rows that a block has at once. 64 in its name are those of one group of four warps, wgmma's own; one group of the block only loads. */
static double dealt_rows(const EchGpuKernel *kernel)
{
    double rows = kernel->name.backward ? kernel->name.key_rows : kernel->name.query_rows, groups = floor(ech_gpu_threads(&kernel->launch) / 128.0) - 1;
    return rows > 64 ? rows : MAX(rows > 0 ? rows : 64, 64) * MAX(groups, 1);
}

/* Scores computed for every one that counts: blocks of rows take whole blocks of columns, and causal ones those of the diagonal whole. One length for queries
 * and keys; 1 where the grid says that it is not so. */
static double attention_fill(const EchGpuChip *chip, const EchGpuKernel *kernel, double scores)
{
    const EchGpuName *name = &kernel->name;
    double rows = name->backward ? name->key_rows : name->query_rows, columns = name->backward ? name->query_rows : name->key_rows,
           heads = (double)kernel->launch.grid[1] * kernel->launch.grid[2], blocks = kernel->launch.grid[0];
    double length = heads > 0 ? sqrt(scores * (name->causal ? 2 : 1) / heads) : 0;
    if (dealt_out(chip, kernel)) {
        length = (double)kernel->launch.columns;
        heads = (double)kernel->launch.rows / length;
        rows = dealt_rows(kernel);
        blocks = ceil(length / rows - 1e-6);
    }
    bool together = name->efficient && name->backward; /* a block may take all keys of a head */
    if (rows <= 0 || columns <= 0 || length < 1 || (!together && fabs(ceil(length / rows - 1e-6) - blocks) > 0.5))
        return 1;
    blocks = ceil(length / rows - 1e-6);
    double across = ceil(length / columns - 1e-6), done = blocks * rows * across * columns;
    if (name->causal) {
        double each = rows / columns; /* the blocks of columns that row block i meets: those up to its last row */
        done = 0;
        for (double i = 0; i < MIN(blocks, 1e5); i++)
            done += MIN(ceil((i + 1) * each - 1e-6), across);
        done *= rows * columns * (blocks > 1e5 ? blocks / 1e5 : 1);
    }
    return MAX(done * heads / scores, 1);
}

/* Attention in f32 by tensor cores multiplies what three roundings to tf32 leave: three products for one (CUTLASS OpMultiplyAddFastF32, which PyTorch's
 * memory-efficient kernels use from compute capability 8.0 on). Older chips leave it to the lanes. */
#define F32_PRODUCTS 3

/* Share of mma's rate that is left for heads of @head where it is faster than shared memory feeds it. */
static double fed_share(const EchGpuChip *chip, double head)
{
    if (!has_wgmma(chip->device))
        return 1;
    double wide = CLAMP(log2(MAX(head, 64) / 64), 0, 2);
    return wide <= 1 ? 1 - (1 - WIDE_HEAD) * wide : WIDE_HEAD - (WIDE_HEAD - WIDEST_HEAD) * (wide - 1);
}

/* Keys and values in pages shorter than a tile (FlashAttention 3 without TMA): places are looked up and rows fetched for the first tile before anything is
 * multiplied; a producer's warps fetch the others meanwhile. In published profiles of vLLM on an H200 such a kernel takes 9.3 us over 190 keys of one sequence
 * and 19.2 over 580 of each of 16, 9 and 10.6 more than their bytes do: so many trips, once. */
#define PAGED_TRIPS 12.0

/* Blocks an SM that keys are split for; assumed. */
#define SPLIT_RESIDENT 2.0

/* Blocks that have something to do. A grid has room for sequences that are all as long as the longest; the last block of each is half full. Where a third
 * dimension of the grid splits keys (decoding in Triton), there are only so many parts with any in them as fill the chip: SGLang counts them so
 * (get_num_kv_splits), and the other blocks end at once. */
static double working_blocks(const EchGpuChip *chip, const EchGpuKernel *kernel)
{
    double blocks = (double)ech_gpu_blocks(&kernel->launch), whole = (double)kernel->launch.grid[0] * kernel->launch.grid[1];
    double rows = kernel->name.backward ? kernel->name.key_rows : kernel->name.query_rows;
    if (dealt_out(chip, kernel))
        return ceil((double)kernel->launch.columns / dealt_rows(kernel)) * ((double)kernel->launch.rows / (double)kernel->launch.columns);
    if (kernel->launch.rows > 0 && kernel->launch.batch > 0 && rows > 0)
        blocks = MIN(blocks, (double)kernel->launch.rows / rows + (double)kernel->launch.batch / 2);
    return kernel->name.splits ? MIN(blocks, MAX(whole, chip->sms * SPLIT_RESIDENT)) : blocks;
}

/* Seconds of the whole chip for a score: products at @rate, and what lies between them. */
static double score_seconds(const EchGpuChip *chip, const EchGpuKernel *kernel, double head, double rate, bool lanes)
{
    const EchGpuName *name = &kernel->name;
    bool backward = name->backward, newer = has_wgmma(chip->device), wgmma = name->arithmetic == ECH_GPU_WGMMA && newer;
    double each = (backward ? 10 : 4) * head, slots, speed = 1;
    if (name->flexible && newer && !lanes) {
        rate *= FLEX_RATE;
        each = backward ? FLEX_GRADIENT_OPERATIONS * head : each;
        slots = backward ? FLEX_GRADIENT_SLOTS : FLEX_SLOTS;
    } else if (wgmma) {
        rate *= WGMMA_RATE;
        slots = name->library ? backward ? WGMMA_GRADIENT_SLOTS_CUDNN : WGMMA_SLOTS_CUDNN : backward ? WGMMA_GRADIENT_SLOTS : WGMMA_SLOTS;
        slots += !backward ? 0 : head * (name->library ? GRADIENT_SHARED_CUDNN : GRADIENT_SHARED);
        slots += kernel->launch.dropout ? DROPOUT_SLOTS : 0;
    } else {
        rate *= (lanes ? ech_device_number(chip->device, "kernel.fma_share", 1) : instruction_share(chip, false)) * fed_share(chip, head);
        slots = backward ? GRADIENT_SLOTS + GRADIENT_SHARED * head : SOFTMAX_SLOTS;
        speed = name->flexible                ? backward ? FLEX_GRADIENT_SPEED : FLEX_SPEED
                : name->efficient && backward ? name->key_rows >= 128 ? EFFICIENT_WIDE_GRADIENT_SPEED : EFFICIENT_GRADIENT_SPEED
                : name->general               ? EFFICIENT_GENERAL_SPEED
                                              : 1;
    }
    return (each / rate + slots / (chip->lanes * chip->sms * chip->clock)) / speed;
}

static bool price_attention(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const char *dtype = operand_type(kernel);
    double rate = matrix_peak(chip, dtype);
    if (kernel->operations <= 0 || rate <= 0)
        return false;
    bool whole = strcmp(dtype, "f32") == 0, lanes = whole && rate <= (double)ech_unit_peak(chip->vector, "f32");
    if (whole && !lanes)
        rate /= F32_PRODUCTS;
    bool backward = kernel->name.backward, wgmma = kernel->name.arithmetic == ECH_GPU_WGMMA && has_wgmma(chip->device);
    uint32_t threads = ech_gpu_threads(&kernel->launch), registers = kernel->launch.registers ? kernel->launch.registers : ATTENTION_REGISTERS;
    double blocks = working_blocks(chip, kernel), resident = !wgmma && threads ? resident_blocks(chip, threads, registers, kernel->launch.shared) : 1;
    double head = kernel->name.head ? kernel->name.head : ATTENTION_HEAD,
           each = (!backward               ? 4
                   : kernel->name.flexible ? FLEX_GRADIENT_OPERATIONS
                                           : 10) *
                  head,
           scores = kernel->operations / each;
    double compute = scores * attention_fill(chip, kernel, scores) * score_seconds(chip, kernel, head, rate, lanes) / (lanes ? chip->lanes_held : chip->held);
    /* Whole waves; a block that has an SM to itself leaves as much of it idle as another would take. Blocks of a causal mask are of all lengths, the longest
     * last and twice the mean: an SM is idle for half of one. */
    double waves = MAX(ceil(blocks / (chip->sms * resident)), 1), full = blocks / (chip->sms * resident);
    if (blocks > 0)
        compute *= kernel->name.causal && full > 1 ? 1 + 1 / full : waves / full;
    /* Every wave waits for its first rows and for its last; wide ones come in halves. cuDNN begins the next block's before it has written one's, but for
     * gradients, whose blocks have two arrays more to wait for and two to add up and write. */
    bool gradients = kernel->name.library && backward && wgmma;
    double halves = wgmma       ? head > 128 ? 2 : 1
                    : head > 64 ? 2
                                : 1,
           trips = gradients              ? GRADIENT_TRIPS_CUDNN
                   : kernel->name.library ? TILE_TRIPS
                                          : TILE_TRIPS + 2,
           turns = gradients && kernel->name.causal && full > 1 ? full + 1 : waves;
    double parts[3] = {turns * halves * trips * chip->trip, compute, ech_gpu_memory_seconds(chip, (double)kernel->read, (double)kernel->written, blocks)};
    if (kernel->name.paged)
        parts[0] += PAGED_TRIPS * chip->trip;
    *ret = (EchGpuCost){.latency = ech_gpu_time(parts[0]),
                        .compute = ech_gpu_time(parts[1]),
                        .memory = ech_gpu_time(parts[2]),
                        .resident = (uint32_t)resident,
                        .bound = parts[1] >= parts[2] ? ECH_GPU_BY_MATRIX : ECH_GPU_BY_MEMORY};
    if (kernel->name.splits && resident > 1) /* while one block waits the others of its SM read on, but for the first */
        finish(ret, chip, parts[0] / waves + MAX(parts[0], MAX(parts[1], parts[2])));
    else
        finish(ret, chip, parts[0] + MAX(parts[1], parts[2]));
    return true;
}

EchTime ech_gpu_trip(const EchDevice *device)
{
    EchGpuChip chip;
    return chip_of(device, 1, &chip) ? ech_gpu_time(chip.trip) : 0;
}

bool ech_gpu_kernel_price(const EchDevice *device, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    EchGpuChip chip;
    if (!chip_of(device, kernel->duty, &chip))
        return false;
    EchGpuCost cost = {0};
    bool known;
    EchGpuKernel narrow = *kernel;
    if (kernel->name.kind == ECH_GPU_VECTOR && kernel->launch.kind == ECH_GPU_VECTOR && kernel->launch.k > 0 && in_narrow_tiles(&chip, kernel)) {
        narrow.name = (EchGpuName){.kind = ECH_GPU_PRODUCT, .arithmetic = ECH_GPU_WGMMA, .element_bytes = kernel->name.element_bytes};
        kernel = &narrow;
    }
    switch ((EchGpuClass)kernel->name.kind) {
    case ECH_GPU_UNKNOWN:
    case ECH_GPU_N_CLASSES: return false;
    case ECH_GPU_PRODUCT: known = price_product(&chip, kernel, &cost); break;
    case ECH_GPU_ATTENTION: known = price_attention(&chip, kernel, &cost); break;
    case ECH_GPU_SORT:
    case ECH_GPU_FFT:
    case ECH_GPU_SOLVER: known = ech_gpu_library_price(&chip, kernel, &cost); break;
    case ECH_GPU_ELEMENTWISE:
    case ECH_GPU_STRIDED:
    case ECH_GPU_FILL:
    case ECH_GPU_REDUCE:
    case ECH_GPU_SOFTMAX:
    case ECH_GPU_SOFTMAX_WARP:
    case ECH_GPU_NORM:
    case ECH_GPU_VECTOR:
    case ECH_GPU_SPLIT_REDUCE:
    case ECH_GPU_GATHER:
    case ECH_GPU_SCATTER:
    case ECH_GPU_CONCAT:
    case ECH_GPU_RELAYOUT:
    case ECH_GPU_OPTIMIZER:
    default:
        known = kernel->read > 0 || kernel->written > 0;
        if (known && kernel->name.sorts)
            price_sort_pass(&chip, kernel, &cost);
        else if (known && ((kernel->name.kind == ECH_GPU_OPTIMIZER && kernel->name.lists > 0) || kernel->name.step > 0))
            price_turns(&chip, kernel, &cost);
        else if (known)
            price_stream(&chip, kernel, &cost);
        break;
    }
    if (!known)
        return false;
    cost.bytes = ech_bytes_add(kernel->read, kernel->written);
    cost.cached = (EchBytes)(found_in_l2(&chip, (double)cost.bytes) * (double)cost.bytes);
    *ret = cost;
    return true;
}

/* ---- On another GPU ---- */

bool ech_gpu_same_kernels(const EchDevice *a, const EchDevice *b)
{
    double x = ech_device_number(a, "kernel.compute_capability", 0), y = ech_device_number(b, "kernel.compute_capability", 0);
    if (x > 0 && y > 0)
        return x == y;
    return g_strcmp0(a->compiler, b->compiler) == 0;
}

/* Tensor cores before compute capability 8.0 know one type of 16 bits. */
static bool multiplies(const EchUnit *matrix, const char *dtype)
{
    bool found = strcmp(dtype, "bf16") != 0;
    for (size_t i = 0; i < matrix->n_peaks && !found; i++)
        found = strcmp(matrix->peaks[i].dtype, dtype) == 0;
    return found;
}

/* Elements of 16 bits of which a row of @rows by @columns has a whole number, whichever way it lies: the better of the two, at most 8. Libraries take an access
 * of one element for all three arrays of a product where one has odd rows (cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1 in recorded profiles). */
static uint8_t together(uint64_t rows, uint64_t columns)
{
    uint64_t low = (rows & -rows) | (columns & -columns);
    return (uint8_t)(low >= 8 || low == 0 ? 8 : low >= 4 ? 4 : low >= 2 ? 2 : 1);
}

void ech_gpu_kernel_elsewhere(EchGpuKernel *kernel, const EchDevice *from, const EchDevice *to, bool *ret_lanes)
{
    EchGpuName *name = &kernel->name;
    EchGpuLaunch *launch = &kernel->launch;
    if (name->kind == ECH_GPU_PRODUCT && launch->m > 0) {
        const EchUnit *matrix = ech_device_unit(to, ECH_UNIT_MATRIX);
        const char *dtype = operand_type(kernel);
        bool lanes = name->arithmetic == ECH_GPU_FMA || strcmp(dtype, "f64") == 0 || (ech_device_is_amd(from) && strcmp(dtype, "f32") == 0);
        if (!lanes && matrix && !multiplies(matrix, dtype)) {
            kernel->dtype = "f32";
            name->tf32 = false;
            lanes = *ret_lanes = true;
        }
        if (name->alignment == 0 && !lanes && launch->operand_bytes == 2)
            name->alignment = MIN(MIN(together(launch->m, launch->k), together(launch->k, launch->n)), together(launch->m, launch->n));
        name->tile_m = name->tile_n = name->tile_k = name->stages = 0;
        name->arithmetic = lanes ? ECH_GPU_FMA : name->alignment > 0 && name->alignment < 8 ? ECH_GPU_MMA : ECH_GPU_WGMMA; /* takes nothing less aligned */
        memset(launch->grid, 0, sizeof launch->grid);
        memset(launch->block, 0, sizeof launch->block);
        launch->shared = launch->registers = 0;
        return;
    }
    const EchUnit *here = ech_device_unit(to, ECH_UNIT_VECTOR), *there = ech_device_unit(from, ECH_UNIT_VECTOR);
    if (traits[name->kind].loop && here && there && here->count > 0 && there->count > 0 && launch->grid[0] % there->count == 0)
        launch->grid[0] = (uint32_t)MIN((uint64_t)(launch->grid[0] / there->count) * here->count, (uint64_t)INT32_MAX);
}

/* ---- Called from a framework ---- */

static void add_call(const EchDevice *device, const char *path, EchGpuCost *cost)
{
    EchTime call = (EchTime)ech_device_number(device, path, ech_device_number(device, "runtime.host_launch_ps", 20e6));
    cost->time = ech_time_add(cost->time, call);
    cost->launch = ech_time_add(cost->launch, call);
}

bool ech_gpu_product(const EchDevice *device, uint64_t batch, uint64_t m, uint64_t n, uint64_t k, const char *dtype, unsigned bits, EchGpuCost *ret)
{
    double each = bits / 8.0, b = (double)batch;
    EchGpuKernel kernel = {.name = {.kind = ECH_GPU_PRODUCT, .arithmetic = has_wgmma(device) ? ECH_GPU_WGMMA : ECH_GPU_MMA},
                           .launch = {.batch = batch, .m = m, .n = n, .k = k},
                           .read = to_count(b * each * ((double)m * (double)k + (double)k * (double)n)),
                           .written = to_count(b * each * (double)m * (double)n),
                           .dtype = dtype};
    EchGpuCost cost;
    if (!ech_gpu_kernel_price(device, &kernel, &cost))
        return false;
    add_call(device, "kernel.call_ps", &cost);
    *ret = cost;
    return true;
}

bool ech_gpu_operator(const EchDevice *device, const char *name, uint64_t rows, uint64_t columns, unsigned bits, EchGpuCost *ret)
{
    double each = bits / 8.0, bytes = (double)rows * (double)columns * each;
    EchGpuKernel kernel = {.launch = {.rows = rows, .columns = columns, .operand_bytes = bits / 8}, .read = to_count(bytes), .written = to_count(bytes)};
    const char *call;
    if (strcmp(name, "softmax") == 0) {
        /* PyTorch: up to 1024 columns a warp a row (two where they are short), four rows a block; else a block of up to 1024 threads a row, eight elements a
         * thread. */
        bool warp = columns <= 1024;
        uint64_t block = warp ? 128 : CLAMP(ech_round_up(columns / 8, 32), 128, 1024);
        kernel.name.kind = warp ? ECH_GPU_SOFTMAX_WARP : ECH_GPU_SOFTMAX;
        kernel.launch.grid[0] = (uint32_t)MIN(warp ? (rows + 3) / 4 : rows, (uint64_t)INT32_MAX);
        kernel.launch.block[0] = (uint32_t)block;
        call = "kernel.call_eager_ps";
    } else if (strcmp(name, "layer_norm") == 0 || strcmp(name, "gelu") == 0) {
        kernel.name.kind = ECH_GPU_ELEMENTWISE; /* a compiler's kernel is bound by memory; a long row is read again for its second pass */
        if (name[0] == 'l' && (double)columns * each > COMPILED_ROW)
            kernel.read = ech_bytes_mul(kernel.read, 3);
        call = "kernel.call_compiled_ps";
    } else {
        return false;
    }
    if (kernel.launch.grid[0]) {
        kernel.launch.grid[1] = kernel.launch.grid[2] = kernel.launch.block[1] = kernel.launch.block[2] = 1;
    }
    EchGpuCost cost;
    if (!ech_gpu_kernel_price(device, &kernel, &cost))
        return false;
    add_call(device, call, &cost);
    *ret = cost;
    return true;
}
