/** @file onnx_nodes.h
 * The nodes of an ONNX Runtime profile (SessionOptions.enable_profiling): which provider ran them for how long, and what memory they say. A part of the reader
 * of Chrome's JSON (kineto.c), whose kernels they are not: of a GPU a node's time is that of its launch.
 *
 * Keys: onnxruntime/core/framework/sequential_executor.cc ("op_name", "provider", "parameter_size", "output_size", since 1.2x "mem_in_use_peak").
 */
#pragma once
#include "sim/base/diag.h"
#include "sim/base/units.h"

/** A call of a node. Sizes: -1 where they are not told. */
typedef struct {
    const char *name;     /**< "/layer/MatMul_kernel_time" */
    const char *op;       /**< "MatMul" */
    const char *provider; /**< "CUDAExecutionProvider" */
    EchTime duration;
    int64_t index, parameters, output, in_use; /**< its number in the model; bytes: weights, what it makes, what its arena had given out at the most */
} EchOnnxNode;

typedef struct EchOnnxNodes EchOnnxNodes;

EchOnnxNodes *ech_onnx_nodes_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_onnx_nodes_free(EchOnnxNodes *nodes);
void ech_onnx_nodes_add(EchOnnxNodes *nodes, const EchOnnxNode *node);
/** Says what they come to; false where there was none. */
bool ech_onnx_nodes_say(const EchOnnxNodes *nodes, EchDiag *diag);
