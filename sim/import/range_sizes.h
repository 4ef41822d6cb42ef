/** @file range_sizes.h
 * What stands behind the name of an operator in the range around it: PyTorch (emit_nvtx with shapes) writes sizes, the hooks of `capture --pretend` for
 * operators and kernels of others types besides, and of kernels that were compiled which arrays are written ("out bf16"), or read and written ("inout bf16").
 *
 *     aten::addmm, seq = 7, op_id = 9, sizes = [[2304], [8192, 768], [768, 2304]], types = [bf16, bf16, bf16]
 */
#pragma once
#include "sim/import/gpu_work.h"

/** Bytes of @name that are the operator's own. */
size_t ech_range_bare_length(const char *name);
/** The inputs of the call, at most @room (>= 1) of them: arrays, of @dtype where no type is told and the operator says none; what has no dimensions is a number
 * or the like; the arrays of an operator on lists are one. */
size_t ech_range_inputs(const char *name, EchDtype dtype, EchGpuInput *inputs, size_t room);
/** Whether the range @name tells types. */
bool ech_range_tells_types(const char *name);
/** Gives each array of @inputs, of a range that tells no types, that of an array as large among those of the call that is around it, @outer, which does: what
 * an operator hands on is what it was given. */
void ech_range_types_of(const EchGpuInput *outer, size_t n_outer, EchGpuInput *inputs, size_t n);
