/** @file gpu.h
 * Operators of a GPU: matrix products in tiles and waves, and streaming operators bound by memory.
 *
 * A product is cut into thread-block tiles; all SMs work off one wave of them after another, so a last, partly filled wave costs as much as a
 * full one. Times hold for one operator called from a framework, its launch included. Sources: NVIDIA DU-09799-001 (tiles, waves), fits named in
 * the device file (LLMCompass artifact, A100).
 */
#pragma once
#include "models/device/device.h"

/** What a GPU operator costs; times in picoseconds. */
typedef struct {
    EchTime time;
    EchTime compute; /**< Of whole waves at the tile's efficiency. */
    EchTime memory;  /**< Of all bytes at the achieved bandwidth. */
    EchTime launch;
    uint32_t tile_m, tile_n; /**< Chosen; 0 for streams. */
    uint64_t tiles, waves;
    double wave_efficiency; /**< tiles / (waves x SMs). */
    double tile_efficiency; /**< Useful share of the tiles' area. */
    EchBytes bytes;
} EchGpuCost;

/** [batch, m, k] x [batch, k, n] of @dtype. False where the device has no matrix unit with a count of SMs or no HBM. */
bool ech_gpu_product(const EchDevice *device, uint64_t batch, uint64_t m, uint64_t n, uint64_t k, const char *dtype, unsigned bits, EchGpuCost *ret);
/** An operator that reads and writes so many bytes. */
bool ech_gpu_stream(const EchDevice *device, EchBytes read, EchBytes written, EchGpuCost *ret);
/** Passes over its input of a row-wise softmax or normalisation with @row_bytes a row: one where a row stays on the SM, more where it does not. */
unsigned ech_gpu_row_passes(const EchDevice *device, EchBytes row_bytes, unsigned passes);
