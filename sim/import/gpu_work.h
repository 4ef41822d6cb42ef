/** @file gpu_work.h
 * What a GPU kernel moves and computes, from the shapes of the operator that launched it, its name and its launch. No recorded time is looked at, so what a
 * model predicts from it is a prediction.
 *
 * Rules: an operator's main kernels (the class that its name asks for: a product's product, a softmax's softmax) do its work, each all of it where every one
 * needs all (both products of a convolution's gradient), else in shares by the number of their threads. Its other kernels are helpers: element-wise ones and
 * relayouts do what their grid covers, attention as many queries and keys, optimizers their chunks; others are not known. An element-wise kernel without shapes
 * does what its grid covers: up to one block too much. All of it is ECH_INFERRED.
 */
#pragma once
#include "models/kernel/gpu.h"
#include "sim/import/capture.h"
#include "sim/import/gpu_operator.h"

/** A call of an operator, and the kernels that it launched. */
typedef struct {
    EchGpuOperator whole;
    uint32_t n_kernels, n_main;
    double blocks, filter_blocks; /**< Of its main kernels; and of those among them that are a convolution's gradient of its filters. */
} EchGpuCall;

/** True where a kernel of @name does the operator's work. */
bool ech_gpu_is_main(const EchGpuOperator *whole, const EchGpuName *name);
/** Counts a kernel of @call; @launch may be NULL. True where it is a main one. */
bool ech_gpu_call_count(EchGpuCall *call, const EchGpuName *name, const EchGpuLaunch *launch);
/** Share of the operator's work that a kernel does, once all of @call's are counted: 0 for a helper. */
double ech_gpu_call_share(const EchGpuCall *call, const EchGpuName *name, const EchGpuLaunch *launch);
/** Work of one kernel. @whole may be NULL; @share: of its work, 0 for a helper. Adds the shape to @launch. False where nothing is known. */
bool ech_gpu_kernel_work(const EchGpuOperator *whole, const EchGpuName *name, double share, EchGpuLaunch *launch, EchItemWork *ret);
/** Work of a kernel that streams where nothing but its launch is known, ECH_ASSUMED: what its grid covers is read and written once, or 16 bytes by every
 * thread. False for other classes. */
bool ech_gpu_assumed_work(const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret);
/** What the kernel name @id says, read once: @names maps string id + 1 to EchGpuName, values freed by the table. Borrowed from it. */
const EchGpuName *ech_gpu_name_of(EchCapture *capture, GHashTable *names, EchId id);
/** Sets work and launch of a kernel from its name and its launch alone, where no operator's shapes are recorded. True where its work is known from that. */
bool ech_gpu_kernel_by_launch(EchCapture *capture, GHashTable *names, EchGpuLaunch launch, EchItem *item);
