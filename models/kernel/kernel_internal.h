/** @file kernel_internal.h
 * What kernel.c and blocks.c share. */
#pragma once
#include "models/kernel/kernel.h"

/** Cycles, by what they are spent on. */
typedef struct {
    double total, compute, hbm, latency, overhead, busy_compute, busy_hbm, macs;
    double in_vmem;       /**< Of the movement: operands and results on chip. */
    double again;         /**< Of the movement: blocks fetched once more because the whole operand does not fit on chip. */
    double step_overhead; /**< Of busy_compute: what steps cost besides their work. */
} EchKernelSums;

/** Traffic of a streaming kernel. */
typedef struct {
    double widest;                      /**< Elements that the registers of the widest array hold, padded. */
    double elements;                    /**< Of the widest array, padded. */
    double stored;                      /**< Bytes stored to HBM, as the view counts them. */
    double narrowed;                    /**< Bytes that narrowing results on chip costs beyond themselves, as the view counts them. */
    bool partial;                       /**< A result on chip fills less than whole registers. */
    double wide_operands, wide_results; /**< Arrays of at least half of the widest one's elements. */
    bool streamed;                      /**< An operand on chip is read at a rate, not only spread out. */
    bool narrow;                        /**< A result of fewer than 32 bits. */
    double window_bits;                 /**< Bits of one element of every wide array in HBM: what a window takes. */
    double whole_bits;                  /**< The same of those on chip, too. */
} EchKernelTraffic;

/** A contraction with what its price needs of its arrays. */
typedef struct {
    const EchKernelContraction *c;
    double lhs_bytes;            /**< Of an element. */
    double lhs_moved, rhs_moved; /**< Bytes of HBM that an element's place in a block stands for: of every array that the side is made of. */
    unsigned out_bits;
    bool lhs_hbm, rhs_hbm, out_hbm, out_common, eight;
    bool more_hbm;                 /**< A further result goes to HBM. */
    bool summed;                   /**< The result is what the product was reduced to. */
    bool reduced;                  /**< The result is what the product was reduced to, or fills its registers in part. */
    uint64_t m_granule, n_granule; /**< Block sizes are multiples of these. */
    double rate;                   /**< Multiply-accumulates a cycle. */
    double extra_bytes;            /**< Of further operands and results. */
    double extra_moved;            /**< Of those in HBM as large as the result, bytes of an element's place in a block: each has windows of its own. */
    double between, beside;        /**< Cycles of the arithmetic between several products, and of that which runs beside the units, of all steps. */
    double beside_lhs, beside_rhs; /**< Of the latter, what a side is computed by, done once. */
    double images;                 /**< Of a convolution, in a block. */
    double wait;                   /**< Cycles once, before a second pass over the result. */
    double lhs_total, rhs_total, out_registers;
    double out_held;           /**< Registers that a register's worth of the result fills, in part. */
    uint64_t cores;            /**< That share its steps. */
    uint32_t units, unit_size; /**< Matrix units and their side. */
    double load, load_transposed, depthwise_gradient, gradient_column, gradient_position, gradient_pixel;
    double side; /**< Of the part of a unit that a product takes whole. */
    double stage_input, stage_weights, stage_result, stage_depth, accumulators, stage_precise_input, stage_precise_weights;
} EchKernelShape;

/** A contraction in equal steps on one core: all of k for every row of blocks, all rows for every column of them. */
typedef struct {
    double columns, rows, depth; /**< Steps along n, m and k; columns of all turns. */
    double turns;                /**< Parts of a batch, outermost: nothing is kept from one to the next. */
    double compute;              /**< Cycles of the units in a step. */
    double beside;               /**< Of arithmetic that runs beside them. */
    double lhs, rhs, store;      /**< Cycles that moving a block takes, without latency. */
    double macs;                 /**< Of all steps. */
} EchKernelWalk;

double ech_kernel_padded(const EchLayout *layout);
uint64_t ech_kernel_depth_steps(const EchKernelContraction *c, const EchKernelBlocks *blocks);
double ech_kernel_stream_cycles(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, const EchKernelCost *cost, double steps,
                                EchKernelSums *sums);
double ech_kernel_product_cycles(const EchKernelModel *model, const EchKernelShape *shape, const EchKernelBlocks *blocks, EchKernelSums *ret);

/* blocks.c */
EchBytes ech_kernel_product_vmem(const EchKernelShape *shape, const EchKernelBlocks *blocks);
EchBytes ech_kernel_windows_vmem(const EchKernelShape *shape, const EchKernelWindows *windows);
void ech_kernel_stream_vmem(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *cost, bool chosen);
void ech_kernel_copy_vmem(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *cost);
void ech_kernel_choose_product(const EchKernelModel *model, const EchKernelShape *shape, EchKernelBlocks *ret);
void ech_kernel_choose_stream(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, EchKernelCost *ret);
