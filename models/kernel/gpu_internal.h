/** @file gpu_internal.h
 * What the parts of the GPU kernel model share: gpu.c prices single kernels, gpu_library.c calls that are many kernels one after another.
 */
#pragma once
#include "models/kernel/gpu.h"

/** The numbers of a device that the model uses. Borrowed. */
typedef struct {
    const EchDevice *device;
    const EchMemory *hbm, *l2;
    const EchUnit *matrix, *vector;
    double sms, clock; /**< clock of the lanes, Hz */
    double lanes;      /**< That an SM issues to in a clock. */
    bool amd;          /**< Its matrix units take f32 as it is. */
    double trip;       /**< Seconds of a trip to memory under load. */
    double start;      /**< Seconds from one kernel to the next. */
    double held;       /**< Of the rate of products, what the card's power leaves, or a limit below it: 0 to 1. */
    double lanes_held; /**< Likewise where the vector unit multiplies. */
} EchGpuChip;

/** Picoseconds of @seconds, saturated. */
EchTime ech_gpu_time(double seconds);
/** Seconds that @read and @written bytes take, from L2 as far as they fit there, by @blocks blocks (0: enough of them). */
double ech_gpu_memory_seconds(const EchGpuChip *chip, double read, double written, double blocks);
/** One kernel of cub's radix sort: @elements of @each bytes, keys and what moves with them, all read and written. */
void ech_gpu_radix_pass(const EchGpuChip *chip, double elements, double each, EchGpuCost *ret);
/** Sorts, FFTs and solvers; false where their launch says no shape. */
bool ech_gpu_library_price(const EchGpuChip *chip, const EchGpuKernel *kernel, EchGpuCost *ret);
