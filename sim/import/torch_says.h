/** @file torch_says.h
 * What PyTorch's allocators say when they refuse a request, of releases 0.4 to 2.15: of CUDA, HIP, XPU, NPU and MPS devices, and of cudaMallocAsync. A part of
 * the reader of pasted messages (out_of_memory.c), which gives it sentence by sentence.
 *
 * Wordings: c10/cuda/CUDACachingAllocator.cpp and CUDAMallocAsyncAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm, torch_npu's NPUCachingAllocator.cpp.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

/** Why an operator asks for much more than it is given, and what helps: of convolutions and of attention. */
#define ECH_TORCH_UNFOLDS                                                                                                                                      \
    "PyTorch does not hand this convolution to cuDNN, and writes its input out once for each place of the filter: so it does where one sample, or its "        \
    "result, has 2^31 elements and more, where cuDNN is switched off, and where a release does not trust its cuDNN (2.9: 3-D in 16 bits): less of the input "  \
    "at a time, or another release"
#define ECH_TORCH_SCORES                                                                                                                                       \
    "attention's scores are written out, as none of PyTorch's fused kernels that are switched on takes these arguments (masks with grouped heads, two or "     \
    "five dimensions, bfloat16 before Ampere): sdpa_kernel() of one of them says why"

typedef struct EchTorchSays EchTorchSays;

EchTorchSays *ech_torch_says_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_torch_says_free(EchTorchSays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTorchSays, ech_torch_says_free)

/** Whether @line, behind what a log put @before it, begins one of its sentences, which @sentence goes on with. The first one counts; of others that say
 * something else it is told which device and process they are of. */
bool ech_torch_says_line(EchTorchSays *says, EchWords before, EchWords line, EchWords sentence);
/** Whether a sentence was read. */
bool ech_torch_says_any(const EchTorchSays *says);
/** Puts what is in use into @builder, the request as an allocation and the sums as properties; says in @import what it comes to. */
void ech_torch_says_write(const EchTorchSays *says, EchTraceBuilder *builder, EchImport *import);
