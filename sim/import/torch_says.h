/** @file torch_says.h
 * What PyTorch's allocators say when they refuse a request, of releases 0.4 to 2.15: of CUDA, HIP, XPU, NPU and MPS devices, and of cudaMallocAsync. A part of
 * the reader of pasted messages (out_of_memory.c), which gives it sentence by sentence.
 *
 * Wordings: c10/cuda/CUDACachingAllocator.cpp and CUDAMallocAsyncAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm, torch_npu's NPUCachingAllocator.cpp.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

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
