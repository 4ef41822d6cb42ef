/** @file mosaic.h
 * What a Pallas kernel does, from its own code: the module of Mosaic operations that JAX puts into a custom call "tpu_custom_call".
 *
 * The kernel's grid is walked step by step. Scalars are computed as the chip's scalar core would (indices, conditions, what prefetched arrays hold where that
 * is known), so that a step that skips its body costs nothing, and a block is fetched when its index changes from one step to the next, as Pallas' pipeline
 * does (jax/_src/pallas/mosaic/pipeline.py). Vector operations are counted in registers of 8 rows by 128 lanes of 32 bits, registers that hold the same once,
 * and what nothing uses not at all. What hangs on data that is not known is taken to happen, and said (EchKernelGrid.assumed); a bound of the grid that is not
 * known is taken to be as large as what its index picks from: elements of a prefetched array, or blocks of an array.
 */
#pragma once
#include "models/kernel/grid.h"
#include "sim/base/error.h"

/** What is known of an array that the custom call reads or makes. */
typedef struct {
    const int64_t *values; /**< Contents of a small constant, row-major; NULL: not known. */
    size_t n;
    const uint64_t *dims; /**< @rank of them, outermost first. */
    uint8_t rank;
    bool on_chip; /**< It lies in the on-chip memory: its blocks cost no traffic. */
} EchMosaicArray;

/** Reads the kernel of @bytes (MLIR bytecode). @arrays: the custom call's @n_operands operands, then its results, @n_arrays in all. *@visits:
 * how many operations may be gone through, for all kernels of a program; what this one took is taken off. Errors: ECH_ERROR_PARSE with the byte offset;
 * ECH_ERROR_UNSUPPORTED for a later version of the bytecode, for what has no grid of known size, and where *@visits are not enough. *ret is untouched on
 * failure. */
bool ech_mosaic_read(const uint8_t *bytes, size_t n, const EchMosaicArray *arrays, size_t n_operands, size_t n_arrays, uint64_t *visits, EchKernelGrid *ret,
                     GError **error);
/** For the kernels of one program: hundreds of them whose every step is looked at. */
#define ECH_MOSAIC_VISITS (UINT64_C(1) << 28)
