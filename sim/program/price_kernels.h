/** @file price_kernels.h
 * What each instruction of a program costs on a device, by the kernel model: an instruction becomes a kernel (shapes, windows, the work of
 * its body, the geometry of its product), the kernel a price.
 */
#pragma once
#include "models/kernel/kernel.h"
#include "sim/program/program.h"

/** Prices one instruction, with the windows it carries or (@own_tiles) with our own. False, and *ret untouched, where it is no kernel of the chip's core: control, copies of their own queues (copy-start),
 * collectives, names for data (tuple, bitcast), and custom calls that the model does not know. */
bool ech_program_price_kernel(const EchProgram *program, EchId instruction, const EchKernelModel *model, bool own_tiles, EchKernelCost *ret);
