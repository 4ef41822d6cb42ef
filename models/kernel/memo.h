/** @file memo.h
 * Prices of kernels that were asked for before. A program repeats its layers, and choosing the windows of one kernel weighs thousands of them.
 *
 * A price is a function of the kernel and the model alone, so one that is remembered is the one that would be computed.
 */
#pragma once
#include "models/kernel/kernel.h"

typedef struct EchKernelMemo EchKernelMemo;

/** Empty. */
EchKernelMemo *ech_kernel_memo_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_kernel_memo_free(EchKernelMemo *memo);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchKernelMemo, ech_kernel_memo_free)
/** ech_kernel_price; @model must neither change nor go as long as @memo is asked. */
void ech_kernel_memo_price(EchKernelMemo *memo, const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret);
