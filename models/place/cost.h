/** @file cost.h
 * The cost analysis of memory-space assignment: how long an instruction takes with everything in HBM, and what a value in the fast memory saves.
 *
 * Single precision where XLA has it: the order of equal-looking values hangs on its rounding. Sources: measured options and elapsed times of the
 * TPU compiler (libtpu 2026-10), fitted per chip; formulas of XLA's memory_space_assignment cost analysis.
 */
#pragma once
#include "sim/base/units.h"

/** What the analysis assumes of a chip. */
typedef struct {
    const char *name;
    double hbm_bytes_per_s;   /**< Bandwidth of HBM and of asynchronous copies. */
    double fast_ratio;        /**< Bandwidth of the fast memory, read and write, over HBM's. */
    double flops_per_s;       /**< 0: compute takes one clock (v6e, tpu7x price only matrix products otherwise). */
    double clock_s;           /**< One clock: the least any instruction takes. */
    EchBytes tuple_bytes;     /**< A tuple's pointer table. */
    bool first_index_only;    /**< Of a dynamic slice's indices only the first is read. */
    uint32_t fast_space;      /**< Number of the fast memory space. */
    EchBytes limit;           /**< Default size given to the assignment. */
    uint32_t max_slices;      /**< Of a sliced prefetch; 0 none. */
    EchBytes preferred_slice; /**< 0: equal parts. */
    uint64_t mxu_passes;      /**< v6e, tpu7x: multiply-adds a clock; else 0. */
    bool loop_optimizer;      /**< Unrolled loops are decided together (loop.h). */
    bool two_cores;           /**< Two cores share a program: only loop fusions write into the fast memory (seen on every instruction of 12 programs). */
    EchBytes scoped; /**< Kernels' scratch is placed with the values, this much at most (and after the program's end); 0: cut off the memory beforehand. */
} EchPlaceChip;

/** By name ("v5e", "tpu-v5e", ...), or NULL. */
const EchPlaceChip *ech_place_chip(const char *name);

/** Seconds for @total bytes, of which @read and @written are in the fast memory. */
float ech_place_memory_seconds(const EchPlaceChip *chip, float total, float read, float written);
/** Seconds an instruction takes: the larger of compute and memory. */
float ech_place_elapsed(float compute, float memory);
/** Gain of having @read or @written of @total bytes in the fast memory; negative: how far the instruction is from being bound by memory. */
float ech_place_benefit(const EchPlaceChip *chip, float compute, float total, float read, float written, uint32_t while_nest);
/** Seconds less that the instruction takes with @read bytes of an operand in the fast memory. */
float ech_place_reduction(const EchPlaceChip *chip, float compute, float total, float read);
/** Adds the benefit of one more use to that of a definition: positive ones add up, else the larger counts. */
float ech_place_add_benefit(float sum, float benefit);
/** First key of the order: benefit / sqrt(bytes). */
float ech_place_boundedness(float benefit, EchBytes bytes);
/** The size that stands for every buffer in the choice of prefetch distances: upper median of the arrays above 1 MiB, at most the largest outside fusions; 0:
 * none.
 * @sizes: padded bytes of every array > 1 MiB made by any instruction, fusion bodies included; reordered. */
EchBytes ech_place_picker_bytes(EchBytes *sizes, size_t n, EchBytes largest_outside);
