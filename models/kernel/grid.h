/** @file grid.h
 * What a kernel costs whose author wrote its grid, blocks and arithmetic himself (Pallas): counted work in, time out.
 *
 *     time = start + scalar + first blocks + max(work + waits, other blocks, bytes sent) + last blocks
 *     work = steps * step + copies * copy + ||matrix, others||_1.5 + chains
 *
 * Blocks of the next step are fetched and those of the last one stored while one is worked on (jax/_src/pallas/mosaic/pipeline.py); a step that has to fetch
 * more than passes beneath it waits, however little the others fetch (bursts.h). Inside a step the matrix
 * units and the others work side by side as far as the data lets them; the others' time is that of the busiest kind of instruction, of which a chip begins so
 * many a cycle (EchKernelModel.bundle). A stretch of code that multiplies takes a chain more: from its first load through the units to its last store. One of
 * few rows, as attention's for one token, has nothing to do while a product or a reduction is under way: it takes at least what those take that wait for one
 * another (EchKernelAlone). Instructions, exponent and chain are from the final schedules that the compiler makes of some 50 kernels on five chips, what
 * waits and copies take from those of ragged paged attention (validation/tpu_kernels.md). Cores that share a chip's kernels (megacore) share the steps of the
 * first parallel dimension.
 */
#pragma once
#include "models/kernel/bursts.h"
#include "models/kernel/kernel.h"

/** What a step of a grid costs besides its work, in cycles: 350 make the six published times of JAX's Pallas matmul notebook on a v5e come out. Other chips:
 * assumed. */
#define ECH_KERNEL_GRID_STEP_CYCLES 350

/** What a copy takes that stands by itself or in a loop of copies: its address is computed and checked, and the core begins it, one after the other. 36 to 46
 * cycles in ragged paged attention's schedules on v5e, v5p, v6e and tpu7x, 25 to 29 on v4 (libtpu 0.0.31). */
#define ECH_KERNEL_GRID_COPY_CYCLES 40

#define ECH_KERNEL_MAX_PRODUCTS 32

/** Products of one shape inside a kernel: m rows times a k by n operand. */
typedef struct {
    uint64_t m, k, n;
    uint8_t lhs_bits, rhs_bits; /**< Of an element. */
    bool is_float;
    uint8_t passes; /**< 1, or 6 for f32 at full precision. */
    double times;
    bool transposed; /**< The side that the units hold lies the other way: they take it in half as fast. */
} EchKernelGridProduct;

/** Stretches of code whose products have few rows, taken together: what waits for one another along the longest way through each, and what they do in all. */
typedef struct {
    double stretches;
    double products, reduced; /**< On that way: products and reductions along lanes whose results are waited for. */
    double heads;             /**< Ways side by side of products, reductions and products again: of each one product's result is waited for. */
    double pushes, vector, transcendental, loaded, stored;
} EchKernelAlone;

/** Everything that a kernel does in one call. Registers hold 8 rows by 128 lanes. */
typedef struct {
    double steps;          /**< Of its grid; 0: not known, nothing else is. */
    double vector;         /**< Register operations of arithmetic. */
    double half;           /**< Those on elements of 16 bits, as many as if they took 32: half as many where the chip computes with 16. */
    double converted;      /**< Operations on elements of 16 bits, however many instructions each is: where the chip computes with 32, to and fro. */
    double transcendental; /**< exp, log, tanh, rsqrt, reciprocals. */
    double reduced;        /**< Registers left by reductions along lanes. */
    double lanes;          /**< Other moves across lanes: transpositions, rotations, columns laid along them. */
    double loaded, stored; /**< Registers, narrow elements packed. */
    double chains;         /**< Times that a stretch of code without branches multiplies. */
    double copies;         /**< Copies that the kernel begins where it computes nothing beside. */
    double scalar;         /**< Cycles of loops in which the scalar core alone works: lists that the kernel makes before it begins. */
    EchKernelAlone alone;
    uint64_t parallel;      /**< Bound of the first dimension whose steps two cores share; 1: none. */
    EchBytes read, written; /**< Blocks fetched from and stored to other memories, and what the kernel copies itself. */
    EchBytes sent;          /**< Of what the kernel copies itself, to other devices. */
    EchBytes first, last;   /**< Of them, blocks before the first step's work and after the last's: nothing hides them. */
    EchBurstWaits bursts;   /**< What the work waits for the others where they come in bursts; nothing worked: not known. */
    EchKernelGridProduct products[ECH_KERNEL_MAX_PRODUCTS];
    uint32_t n_products;
    double operations; /**< Of its products, two a multiply-accumulate, unpadded. */
    EchBytes kept;     /**< Of vector memory, for its blocks and scratch, by its code. */
    EchBytes results;  /**< Of products, those that no registers hold: the compiler may spill as much there. */
    bool assumed;      /**< A branch or loop hangs on data that is not known: it is taken to happen, once. */
    bool by_device;    /**< Its integers hang on the device's number: this is the device that has most to do. */
} EchKernelGrid;

/** Prices it. @vmem: bytes that it keeps on chip, told on. */
void ech_kernel_grid_price(const EchKernelModel *model, const EchKernelGrid *grid, EchBytes vmem, EchKernelCost *ret);
