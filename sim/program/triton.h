/** @file triton.h
 * What a Pallas kernel for a GPU does, from its own code: the module of Triton operations that JAX puts into a custom call "__gpu$xla.gpu.triton".
 *
 * Operations are counted block by block of its grid, of which some are looked at: scalars (indices, bounds of loops, conditions) are computed as a thread
 * would, a loop's body is gone through once, at its middle, and counts as often as it runs. What hangs on data is taken to happen, once, and said.
 */
#pragma once
#include "sim/base/error.h"
#include "sim/base/units.h"

/** Of all blocks together. */
typedef struct {
    double products;       /**< Operations of tt.dot, two a multiply-accumulate. */
    double vector;         /**< Other floating-point arithmetic, an operation an element. */
    double transcendental; /**< exp, log, tanh, rsqrt and their like. */
    double loaded, stored; /**< Bytes that blocks ask for and give back. */
    bool assumed;          /**< A branch or loop hangs on data: it is taken to happen, once. */
} EchTritonWork;

/** Reads the kernel of @bytes (MLIR bytecode), launched as @grid. Errors: ECH_ERROR_PARSE with the byte offset; ECH_ERROR_UNSUPPORTED for a later version of
 * the bytecode, for what has no function, and for too much to go through. *ret is untouched on failure. */
bool ech_triton_read(const uint8_t *bytes, size_t n, const uint64_t grid[3], EchTritonWork *ret, GError **error);
