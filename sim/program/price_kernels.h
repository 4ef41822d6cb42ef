/** @file price_kernels.h
 * What each instruction of a program costs on a device, by the kernel model: an instruction becomes a kernel (shapes, windows, the work of
 * its body, the geometry of its product), the kernel a price.
 */
#pragma once
#include "models/kernel/memo.h"
#include "models/kernel/stalls.h"
#include "sim/program/program.h"
#include "sim/trace/trace.h"

/** Property of a trace: the device for which its kernels tell what their time is spent on (models/kernel/stalls.h). */
#define ECH_INSIDES_OF "insides_of"
/** What EchOp.launch says of a kernel. */
EchId ech_inside_text(EchTraceBuilder *builder, const EchKernelInside *inside);

/** Prices one instruction, with the windows it carries or (@own_tiles) with our own. False, and *ret untouched, where it is no kernel of the chip's
 * core: control, copies of their own queues (copy-start), collectives, names for data (tuple, bitcast), and custom calls that the model does not know.
 * @memo: what was priced before, or NULL. */
bool ech_program_price_kernel(const EchProgram *program, EchId instruction, const EchKernelModel *model, bool own_tiles, EchKernelMemo *memo,
                              EchKernelCost *ret);

/** The time of one instruction on a device. @model: its hardware; @own: the compiler's view of the chip it compiled for, or NULL; @estimate: the compiler's
 * estimate on that chip, or ECH_TIME_NONE. With both, the estimate is multiplied by the model's time over the time the model expects the compiler to say: the
 * compiler knows the kernel, the model how the device differs from what the compiler counts. Never less than the memory needs for the bytes. Else the model's
 * time. @memo as above. False where the model knows no such kernel; ret_carried: whether the estimate was used. */
bool ech_program_kernel_time(const EchProgram *program, EchId instruction, const EchKernelModel *model, const EchKernelModel *own, EchTime estimate,
                             EchKernelMemo *memo, EchTime *ret, bool *ret_carried);

/** The compiler's own estimate of a kernel, in cycles of its chip's core clock. False where it gives none, or one that stands for "too long to count": 2^60 and
 * more, as libtpu writes for some windows. */
bool ech_program_estimated_cycles(const EchInstruction *instruction, uint64_t *ret);

/** How a kernel's price was held against the compiler's estimates of kernels that nothing was fitted to. */
typedef enum {
    ECH_KERNEL_HELD,     /**< Products, convolutions, streaming kernels, copies. */
    ECH_KERNEL_ROUGH,    /**< Off by a quarter and more on average: windows that are reduced, gradients of strided and of depthwise convolutions, convolutions
                          * whose result does not have its channels on lanes, copies in TPU v4's common memory. */
    ECH_KERNEL_UNTESTED, /**< Of kinds that the compiler gives no estimate for: sorts, gathers, scatters. */
} EchKernelTrust;
EchKernelTrust ech_program_kernel_trust(const EchProgram *program, EchId instruction);

/** A matrix product or convolution of an instruction, with the arrays of the instruction behind its two sides (ECH_NONE where an operand is not one of its
 * operands, but made inside). */
typedef struct {
    EchKernelContraction contraction;
    EchId id; /**< The instruction that multiplies: the one asked for, or one of its body. */
    EchId lhs, rhs;
    uint32_t lhs_bits, rhs_bits; /**< Of an element as it is multiplied: a conversion inside that makes it narrower counts, one that makes it wider does not. */
} EchProgramProduct;
/** Whether an instruction is a kernel of the chip's core. */
bool ech_program_is_kernel(const EchProgram *program, EchId instruction);
/** Whether an instruction of the schedule runs on the core's own queue: not in the body of an asynchronous one, which copies. */
bool ech_program_is_on_core(const EchProgram *program, EchId instruction);
/** All products of an instruction, fused ones included, in program order. Free with g_array_unref. */
GArray *ech_program_products(const EchProgram *program, EchId instruction) G_GNUC_WARN_UNUSED_RESULT;
/** Window positions of the widest pooling in an instruction; 1 where it has none. */
uint64_t ech_program_pool_positions(const EchProgram *program, EchId instruction);
