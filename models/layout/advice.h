/** @file advice.h
 * What a shape's padding costs and the cheapest change: per dimension and order on TPUs, alignment on GPUs.
 *
 * Sources: XLA `docs/tiled_layout.md`; libtpu 0.0.51's choices for TPU v2 to v7; NVIDIA DU-09799-001 (matrix multiplication background).
 */
#pragma once
#include "models/layout/layout.h"

/** One logical dimension. */
typedef struct {
    uint64_t size, padded; /**< Elements; equal where the tile does not pad it. */
    EchBytes lost;         /**< Bytes that this dimension's padding alone adds to the whole. */
    uint64_t grow, shrink; /**< Nearest sizes without padding: up and down (shrink 0: there is none). */
} EchLayoutDimension;

typedef struct {
    EchBytes dense, padded;
    double waste; /**< (padded - dense) / padded; 0 for an empty array. */
    unsigned rank;
    EchLayoutDimension dims[ECH_LAYOUT_MAX_RANK];
    bool has_better;  /**< Another order of dimensions is smaller. */
    EchLayout better; /**< The smallest: its order, with the tiles that the compiler would give it. */
    EchBytes better_bytes;
} EchLayoutAdvice;

/** Describes padding. @generation (2 to 7) is the TPU whose tile choice holds for other orders; 0: the shape's own tiles are kept. */
void ech_layout_advise(const EchLayout *layout, EchLayoutRules rules, unsigned generation, EchLayoutAdvice *ret);
/** TPU generation of a compiler key ("v5e", "tpu7x"): 2 to 7, 0 for anything else. */
unsigned ech_layout_generation(const char *compiler);

/** How well a dimension suits tensor cores: bytes of a row of @elements against 16 and 128 bytes. */
typedef struct {
    uint64_t row_bytes;
    bool usable;                     /**< Multiple of 16 bytes: tensor cores at full width. */
    bool best;                       /**< Multiple of 128 bytes: best on A100 and later. */
    uint64_t next_usable, next_best; /**< Elements: the next such sizes. */
} EchGpuAlignment;
EchGpuAlignment ech_gpu_alignment(uint64_t elements, unsigned bits);
