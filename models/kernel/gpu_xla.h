/** @file gpu_xla.h
 * How XLA launches the kernels that it writes itself for a GPU: blocks and threads by the kind of its fusion, as its emitters choose them.
 *
 * Nothing of it stands in a compiled program's text, so it is chosen here again by the same rules. Sources: openxla/xla, backends/gpu/codegen/emitters
 * (loop, reduction, transpose, scatter), service/gpu/launch_dimensions.cc and gpu_fusible.cc; Triton's kernels say their tiles themselves.
 */
#pragma once
#include "models/kernel/gpu.h"

/** What a reduction looks like once neighbouring dimensions of the same fate are one: kept or reduced, major first. */
typedef struct {
    bool row;                   /**< The fastest dimension is reduced: [major reduced, kept, reduced]; else a column: [major kept, reduced, minor kept]. */
    uint64_t major, mid, minor; /**< The three, at least 1. */
} EchGpuReduction;

/** Groups the dimensions of a reduction's operand, minor to major, each with whether it is reduced. False where they alternate more often than XLA's emitters
 * take (such a reduction is a loop in every thread). */
bool ech_gpu_reduction_of(const uint64_t *dims, const bool *reduced, size_t n, EchGpuReduction *ret);

/** Whether XLA lets blocks work together on it: rows of at least a warp or of 2, 4, 8, 16 elements, columns long enough for their width. Else every thread adds
 * up its own. */
bool ech_gpu_reduction_together(const EchGpuReduction *reduction);

/** One thread an element of the result, four a thread where that still gives every lane of the chip one and the count divides. @vectorizes: nothing in the
 * body keeps its loads apart (sorts, windows, long concatenations, reductions of several values). @bits: of the narrowest result. Fills grid, block, vector. */
void ech_gpu_launch_loop(uint64_t elements, unsigned bits, bool vectorizes, uint32_t sms, EchGpuLaunch *ret);
/** Rows: 16 elements a thread, up to 1024 threads a row, short rows several a block. Columns: 32 x 32 threads for 32 columns (or as many vectors), all of a
 * column in one block. @bits: of the narrowest operand. Fills grid, block, vector, trips. */
void ech_gpu_launch_reduce(const EchGpuReduction *reduction, unsigned bits, uint32_t sms, EchGpuLaunch *ret);
/** Dependent accesses of a thread that takes @each elements, @vector at a time, in a loop that XLA unrolls (emitters/transforms/optimize_loops.cc): by the
 * largest divisor of its steps within a limit of operations, of whose loads so many are on their way at once as registers keep (assumed: 8); what does not
 * divide asks one step ahead. */
uint16_t ech_gpu_loop_trips(uint64_t each, unsigned vector);
/** Tiles of 32 x 32 through shared memory (of 64 x 64 for elements of 16 bits and fewer), 128 threads. */
void ech_gpu_launch_transpose(uint64_t elements, unsigned bits, EchGpuLaunch *ret);
/** A block a tile of the result: sizes of both, major first. */
void ech_gpu_launch_tiles(const uint64_t *dims, const uint64_t *tiles, size_t n, uint32_t warps, EchGpuLaunch *ret);
