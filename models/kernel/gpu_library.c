/* Library calls and sorts on GPUs: many kernels one after another. */
#include "models/kernel/gpu_internal.h"

#include <math.h>

/*
 * Bitonic sort as XLA emits it (openxla/xla, service/gpu: EmitSort): log2(n) stages, stage s compares over 2^s .. 1; what stays inside a tile is done in shared
 * memory by one kernel for all that follow one another, every longer distance is a kernel of its own over all the data. A tile: 4 elements for each of 1024
 * threads, if 48 KiB hold them.
 */
#define TILE_MOST 4096.0
#define TILE_BYTES 49152.0
/* Instructions of a step for an element: its share of two loads, two stores, a comparison and their addresses; and clocks of a step in shared memory with its
 * barrier. Assumed. */
#define STEP_INSTRUCTIONS 16.0
#define STEP_CLOCKS 60.0
/* Radix sort of cub (onesweep, arXiv 2206.01784): a histogram of all keys, then 8 bits a pass, each reading and writing everything once. What a pass issues for
 * a byte of an element, and its look-back through the blocks in trips, are from cub's own benchmark of 2^16 and 2^28 keys of 64 bits on a B200
 * (NVIDIA/cccl pull request 3611: 133 us, 21.1 ms); 2^20 and 2^24 there come out 5 and 1 per cent too slow, 32-bit keys on an A100 9 per cent (the paper), 26
 * kinds of keys and values on an RTX 5090 up to 8 per cent too fast, three of 8 and 16 bits with as much 14 to 36 (IlyaGrebnov/libcusort's README). Rows side
 * by side: cub's segmented sort, 6 bits a pass, a block a row; at the same rate, assumed. */
#define RADIX_BITS 8.0
#define SEGMENT_BITS 6.0
#define RADIX_BYTE_INSTRUCTIONS 45.5
#define RADIX_LEAST_INSTRUCTIONS 170.0
#define RADIX_PASS 14.5e-6
#define RADIX_OTHERS 3.0

static void finish(double start, double latency, double compute, double memory, double total, EchGpuCost *ret)
{
    *ret = (EchGpuCost){
        .time = MAX(ech_gpu_time(start + total), 1),
        .launch = ech_gpu_time(start),
        .latency = ech_gpu_time(latency),
        .compute = ech_gpu_time(compute),
        .memory = ech_gpu_time(memory),
        .bound = memory >= compute && memory >= latency ? ECH_GPU_BY_MEMORY
                 : compute >= latency                   ? ECH_GPU_BY_ISSUE
                                                        : ECH_GPU_BY_LATENCY,
    };
}

static double lanes(const EchGpuChip *chip)
{
    return chip->sms * chip->lanes * chip->clock;
}

static void price_bitonic(const EchGpuChip *chip, const EchGpuLaunch *launch, EchGpuCost *ret)
{
    double n = (double)launch->columns, rows = (double)launch->rows, each = MAX(launch->operand_bytes, 1u), data = n * rows * each;
    double stages = n > 1 ? ceil(log2(n)) : 0, fits = floor(log2(MAX(MIN(TILE_MOST, TILE_BYTES / each), 1))), tile = MIN(fits, stages), over = stages - tile;
    double single = over * (over + 1) / 2, tiled = 1 + over;
    double steps = tile * (tile + 1) / 2 + over * tile; /* in tiles */
    double instructions = STEP_INSTRUCTIONS + launch->instructions;
    double blocks = rows * ceil(n / exp2(tile)), held = MAX(floor(2048 / MAX(exp2(tile) / 4, 32)), 1), waves = ceil(blocks / (chip->sms * held));
    double memory = (single + tiled) * ech_gpu_memory_seconds(chip, data, data, blocks);
    double used = MIN(blocks, chip->sms) / chip->sms;
    double compute = (single + steps) * n * rows * instructions / (lanes(chip) * used);
    double latency = (single + tiled) * 2 * chip->trip + steps * STEP_CLOCKS / chip->clock * waves;
    /* Inside a kernel the three overlap; between kernels nothing does. */
    finish(chip->start * (single + tiled), latency, compute, memory, MAX(MAX(latency, memory), compute) + 2 * chip->trip * (single + tiled), ret);
}

/* Of every element @each bytes, keys and what moves with them. */
static double radix_compute(const EchGpuChip *chip, double elements, double each)
{
    return elements * MAX(ech_device_number(chip->device, "kernel.radix_instructions", RADIX_BYTE_INSTRUCTIONS) * each, RADIX_LEAST_INSTRUCTIONS) / lanes(chip);
}

static double radix_latency(const EchGpuChip *chip)
{
    return ech_device_number(chip->device, "kernel.radix_pass_ps", RADIX_PASS * 1e12) * 1e-12;
}

void ech_gpu_radix_pass(const EchGpuChip *chip, double elements, double each, EchGpuCost *ret)
{
    double memory = ech_gpu_memory_seconds(chip, elements * each, elements * each, 0), compute = radix_compute(chip, elements, each);
    double latency = radix_latency(chip);
    finish(chip->start, latency, compute, memory, latency + MAX(memory, compute), ret);
}

static void price_radix(const EchGpuChip *chip, const EchGpuLaunch *launch, EchGpuCost *ret)
{
    double n = (double)launch->columns, rows = (double)launch->rows, key = launch->keys, each = MAX(launch->operand_bytes, (uint32_t)launch->keys);
    bool segmented = rows > 1;
    double passes = ceil(key * 8 / (segmented ? SEGMENT_BITS : RADIX_BITS)), elements = n * rows;
    double share = segmented ? rows / (ceil(rows / chip->sms) * chip->sms) : 1;
    double memory = passes * ech_gpu_memory_seconds(chip, elements * each * (segmented ? 2 : 1), elements * each, segmented ? rows : 0);
    if (!segmented)
        memory += ech_gpu_memory_seconds(chip, elements * key, 0, 0);
    double compute = passes * radix_compute(chip, elements, each) / share;
    double latency = passes * (segmented ? 4 * chip->trip : radix_latency(chip));
    double others = segmented ? 0 : RADIX_OTHERS;
    finish(chip->start * (passes + others), latency, compute, memory, latency + MAX(memory, compute) + others * 2 * chip->trip, ret);
}

/*
 * cuFFT (fft.h): kernels one after another, each reads and writes all points. What a block takes at once is done by one multiprocessor: short transforms share
 * a block of some 1024 points, few long ones leave the others idle. One that fills a multiprocessor's shared memory leaves no room for a second, which would
 * compute while it loads and stores. Of doubles what is not arithmetic takes no longer.
 */
#define FFT_BLOCK_LEAST 1024.0
#define FFT_SHARED_MOST 65536.0 /* bytes */
#define FFT_ARITHMETIC 0.625    /* share of the instructions: 5 of 8 */

static void price_fft(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const EchGpuLaunch *launch = &kernel->launch;
    double passes = MAX(launch->passes, 1), points = (double)launch->elements, between = points * launch->operand_bytes;
    double moved_in = (double)kernel->read, moved_out = (double)kernel->written;
    double memory = passes > 1 ? ech_gpu_memory_seconds(chip, moved_in, between, 0) + (passes - 2) * ech_gpu_memory_seconds(chip, between, between, 0) +
                                     ech_gpu_memory_seconds(chip, between, moved_out, 0)
                               : ech_gpu_memory_seconds(chip, moved_in, moved_out, 0);
    double block = MAX((double)launch->columns, FFT_BLOCK_LEAST), turns = ceil(points / block) / chip->sms;
    bool is_alone = block * launch->operand_bytes > FFT_SHARED_MOST;
    double wide = 1;
    if (launch->operand_bytes > 8) {
        double single = (double)ech_unit_peak(chip->vector, "f32"), doubles = (double)ech_unit_peak(chip->vector, "f64");
        wide = 1 - FFT_ARITHMETIC + FFT_ARITHMETIC * MAX(doubles > 0 ? single / doubles : 2, 1);
    }
    double compute = MAX(is_alone ? ceil(turns) : turns, 1) * block * launch->instructions * wide / (chip->lanes * chip->clock),
           latency = passes * 3 * chip->trip;
    finish(chip->start * passes, latency, compute, memory, latency + (is_alone ? memory + compute : MAX(memory, compute)), ret);
}

/*
 * Factorisations go column by column, each waiting for the last (trips to memory a column, and one more for so many rows that it goes down), and update the
 * rest by products (share of the lanes' peak). Cholesky: fitted to two of the twelve sizes in pytorch/pytorch pull request 173515 (one of 512, 64 of 2048; the
 * ten others within 40 per cent, most too fast). LU: fitted to eight sizes each on an H100 and an A100 in f32, cuBLAS's batches to 256 columns there
 * (nikitaved/custom_lu_batched_kernel_bench); singular values: Jacobi's, fitted to five sizes on an A100 (xwang233/code-snippet, linalg/svd). QR and its
 * orthogonal factor: 2000 columns on an A100 in 6.3 ms (ml-explore/mlx pull request 975) is 24 per cent less than this gives; symmetric eigenvalues: about 36
 * ms for 2048 on an A100 (ROCm/rocm-jax issue 278, there only as half of another chip's); triangular solves are assumed. Operations: LAPACK Users' Guide, for
 * real square matrices the counts that everyone uses.
 */
static const struct {
    double trips, batched_trips, rows, share; /* rows 0: all in the same trips */
} routines[ECH_GPU_N_ROUTINES] = {
    [ECH_GPU_CHOLESKY] = {1.3, 2.1, 0, 0.13},   [ECH_GPU_LU] = {3.5, 11, 2000, 0.9}, [ECH_GPU_QR] = {2.5, 2.5, 0, 0.25},
    [ECH_GPU_ORTHOGONAL] = {1, 1, 0, 0.25},     [ECH_GPU_EIGEN] = {23, 23, 0, 0.25}, [ECH_GPU_SINGULAR] = {40, 40, 10.4, 0.25},
    [ECH_GPU_TRIANGULAR] = {0.3, 0.3, 0, 0.25},
};

static bool price_solver(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const EchGpuLaunch *l = &kernel->launch;
    if (l->routine <= ECH_GPU_RADIX || l->routine >= ECH_GPU_N_ROUTINES || l->m == 0 || l->n == 0)
        return false;
    double m = (double)l->m, n = (double)l->n, least = MIN(m, n), most = MAX(m, n), batch = MAX((double)l->batch, 1), calls = MAX(l->passes, 1), operations;
    switch ((EchGpuRoutine)l->routine) {
    case ECH_GPU_CHOLESKY: operations = least * least * least / 3; break;
    case ECH_GPU_TRIANGULAR: operations = m * m * MAX((double)l->k, 1); break;
    case ECH_GPU_EIGEN: operations = 4 * least * least * least; break;
    case ECH_GPU_SINGULAR: operations = 8 * most * least * least; break;
    case ECH_GPU_LU: operations = most * least * least - least * least * least / 3; break;
    case ECH_GPU_QR:
    case ECH_GPU_ORTHOGONAL:
    case ECH_GPU_ROUTINE_NONE:
    case ECH_GPU_RADIX:
    case ECH_GPU_N_ROUTINES:
    default: operations = 2 * most * least * least - 2 * least * least * least / 3; break;
    }
    double peak = (double)ech_unit_peak(chip->vector, kernel->dtype ? kernel->dtype : l->operand_bytes >= 8 ? "f64" : "f32");
    double columns = l->routine == ECH_GPU_TRIANGULAR ? m : least, trips = batch > 1 ? routines[l->routine].batched_trips : routines[l->routine].trips;
    double latency = calls * columns * (trips + (routines[l->routine].rows > 0 ? most / routines[l->routine].rows : 0)) * chip->trip;
    double compute = peak > 0 ? calls * batch * operations / (routines[l->routine].share * peak) : 0;
    double memory = ech_gpu_memory_seconds(chip, (double)kernel->read, (double)kernel->written, 0);
    /* cuBLAS's batches update what is left column by column: each element as often as there are columns before it. Once each time, read or written: with both
     * f32 comes out as published, f64 three times too slow. */
    if (l->routine == ECH_GPU_LU && batch > 1) {
        double moved = batch * least * least * least / 3 * MAX(l->operand_bytes, 4u);
        memory = MAX(memory, ech_gpu_memory_seconds(chip, moved / 2, moved / 2, 0));
    }
    finish(chip->start * calls, latency, compute, memory, latency + MAX(compute, memory), ret);
    return true;
}

bool ech_gpu_library_price(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret)
{
    const EchGpuLaunch *launch = &kernel->launch;
    bool known = kernel->name.kind == ECH_GPU_SOLVER ? price_solver(chip, kernel, ret)
                 : kernel->name.kind == ECH_GPU_FFT  ? launch->elements > 0
                                                     : launch->rows > 0 && launch->columns > 0 && (launch->routine != ECH_GPU_RADIX || launch->keys > 0);
    if (!known)
        return false;
    if (kernel->name.kind == ECH_GPU_FFT)
        price_fft(chip, kernel, ret);
    else if (kernel->name.kind == ECH_GPU_SORT && launch->routine == ECH_GPU_RADIX)
        price_radix(chip, launch, ret);
    else if (kernel->name.kind == ECH_GPU_SORT)
        price_bitonic(chip, launch, ret);
    ret->bytes = ech_bytes_add(kernel->read, kernel->written);
    return true;
}
