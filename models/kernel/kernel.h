/** @file kernel.h
 * What one kernel of a program costs on a device: its time with a breakdown, and the on-chip bytes its windows take.
 *
 * Plain arrays in, numbers out: a kernel is shapes with layouts, the work of its body and, where the program says them, its windows.
 * Every kernel walks its arrays in windows: fetch a window, compute on it, store the result, the next fetch running under the compute.
 * So one rule serves all of them:
 *
 *     time = start + first fetch + sum over steps of overlap(compute, step latency + next fetch + store) + last compute + last store
 *
 * Element-wise kernels and reductions compute less than they move, so their sum is additive (every byte in, every byte out, a latency a step,
 * and the arithmetic of one window); matrix products overlap. Sources: libtpu 0.0.51's own estimates over some 300 kernels a chip
 * (constants listed in the device files below `kernel:`), data sheets for what is not listed there.
 */
#pragma once
#include "models/device/device.h"
#include "models/layout/layout.h"

#define ECH_KERNEL_MAX_WINDOW 16 /**< Longest list of window or iteration bounds: a convolution in three dimensions has nine. */

typedef enum {
    ECH_KERNEL_STREAM,      /**< Element-wise work, reductions, and the passes of normalisation and softmax. */
    ECH_KERNEL_CONTRACTION, /**< Matrix products and convolutions, whatever is fused around them. */
    ECH_KERNEL_COPY,        /**< Moves or transposes data without arithmetic. */
    ECH_KERNEL_GATHER,      /**< Reads or writes rows picked by indices. */
    ECH_N_KERNEL_CLASSES,
} EchKernelClass;

/** Whose arithmetic is wanted. */
typedef enum {
    ECH_KERNEL_HARDWARE, /**< What the chip does: a stored byte is a byte; a reduction over rows or above is plain additions under the reads. Along lanes
                          * a sum costs a pass over its registers (measured: layer norm on v3), softmax's maximum and sum of exponentials their reads only
                          * (measured: softmax, attention and BERT on v3). */
    ECH_KERNEL_COMPILER, /**< How the compiler prices it: a 16-bit result costs one and a half times a 32-bit one of as many elements, a reduced
                          * register as much as a stored one. For holding the model against the compiler's own table. */
} EchKernelView;

/** Where an operand of a contraction goes. */
typedef enum {
    ECH_KERNEL_SIDE_NONE, /**< Into what follows the contraction. */
    ECH_KERNEL_SIDE_LHS = 1 << 0,
    ECH_KERNEL_SIDE_RHS = 1 << 1,
} EchKernelSide;

/** Bounds as the compiler writes them, in tiles of 8 rows by 128 lanes whatever the type. */
typedef struct {
    uint8_t n_kernel, n_output, n_input, n_iterations; /**< Lengths; n_iterations 0: not known. */
    uint8_t buffers;                                   /**< Buffers per window in HBM; 0: not pipelined or not known. */
    uint32_t kernel[ECH_KERNEL_MAX_WINDOW], output[ECH_KERNEL_MAX_WINDOW], input[ECH_KERNEL_MAX_WINDOW], iterations[ECH_KERNEL_MAX_WINDOW];
} EchKernelWindows;

/** Operations of the body, applied to every element of the widest array. */
typedef struct {
    uint32_t simple;         /**< add, multiply, compare, select... */
    uint32_t transcendental; /**< exp, tanh, log, rsqrt... */
    uint32_t divide;
    uint32_t positions; /**< Of windows that are added up or compared, running sums doubled; the compiler counts a reduction for each of @windows. */
    uint32_t windows;
    bool reads;          /**< It does more with an operand than to broadcast it. */
    uint32_t narrow;     /**< Conversions of 32 bits to fewer. */
    uint32_t loads;      /**< Uses of wide operands; 0: each once. */
    double spread;       /**< Registers that are filled lane by lane, a broadcast whose operand does not have the lanes: one a row of registers. */
    double rows;         /**< Rows of 128 lanes that other broadcasts repeat. */
    uint32_t reduce;     /**< Reductions along any dimension. */
    uint32_t rows_first; /**< Reductions of whole rows whose result goes back into them: what follows is a pass of its own. */
    uint32_t shuffle;    /**< Moves of every register across lanes or rows: window positions of a pooling. */
    uint32_t lane_sums;  /**< Of them, sums along lanes, but for sums of exponentials. */
    double turned;       /**< Registers copied into another order of the same lanes, their rows gathered from others. */
    double only_turned;  /**< Bytes of operands on chip that are read for that alone: the compiler counts no reading of theirs. */
    double made;         /**< Elements of what it makes and reduces itself, a mask of one in each row, wider than all that it is given; 0: nothing. */
} EchKernelBody;

/** Arithmetic around a contraction, in registers of 1024 elements that each kind of operation makes. */
typedef struct {
    double simple, transcendental, divide, reduce;
    double narrow;       /**< Converted from 32 bits to fewer. */
    double touched;      /**< Loaded or stored. */
    double turned;       /**< Rows gathered from others: copied into another layout. */
    double spread, rows; /**< As in EchKernelBody. */
} EchKernelWork;

/** The contraction: result[batch, m, n] += lhs[batch, m, k] rhs[batch, k, n], a convolution being m pixels by k = channels, @taps times. */
typedef struct {
    uint64_t batch, m, n, k;  /**< >= 1. */
    uint64_t taps;            /**< Positions of a convolution's window; 1 for products. */
    uint64_t window, dilated; /**< Positions of the window with those that meet holes of a dilated input, and how many of its pixels are one; 0: no holes. */
    bool few;                 /**< Up to four positions share a pass: a filter's gradient, or a result whose channels do not lie on lanes. */
    uint64_t across;          /**< Of @taps, positions along the window's last dimension. */
    bool apart;               /**< What is contracted lies on the lanes of rhs: its positions are not packed. */
    double half_registers;    /**< Pixels of a convolution's input whose 16-bit rows fill half a register each, but for one row of them; 0: none. */
    bool one_tap;             /**< The chip's loop takes one position a pass; else several narrow ones share the unit's rows. */
    bool depthwise_gradient;  /**< Of such a convolution's filter: the same. */
    bool depthwise;           /**< Every channel by itself: multiplied and added by the vector unit, not the matrix unit. */
    uint64_t input_pixels;    /**< Pixels of a convolution's input; 0 for products (then m). */
    bool images_on_rows;      /**< Of a convolution's result. */
    bool images_on_lanes;     /**< Of pixels and result both, one pixel a position: the matrices of an FFT. */
    double met;               /**< Share of a convolution's input that its window meets: a stride may leave pixels out. */
    uint64_t images;          /**< Of a convolution: what one of the result's positions is computed for at once. */
    EchKernelWork before[2], behind; /**< What the sides are computed by, and what follows the product; a product of its own: none. */
    bool surveyed;                   /**< The three above are known. */
    double other_macs;               /**< Padded multiply-accumulates of further products fused into it. */
    uint32_t others;                 /**< Further products fused into it. */
    bool lhs_computed, rhs_computed; /**< The side is, or is made of, another product's result: that product's operands are fetched instead. */
    /** Groups of a ragged product, of which each has consecutive rows of its own, and which of the windows' iterations go along groups and along those rows;
     * 0: it is none. The chip runs only the blocks that have rows of their group: a block for each group's beginning more than there are blocks of rows. The
     * compiler counts every block with every group. */
    uint64_t groups;
    unsigned group_axis, row_axis;
    uint32_t passes; /**< 1; 3 and 6 for f32 at higher precision (bf16 passes). */
    /** The rows of lhs lie on lanes and what is contracted on rows, so that pixels follow each other in the units without padding, for every one of the
     * result's positions anew: a filter's gradient. Else 0; else the positions. */
    uint64_t positions;
    /** Of a filter's gradient whose images lie on the lanes of both sides: rows that pass the units together, channels by the window's last dimension; else 0.
     */
    uint64_t together;
    bool convolution;
    bool rows_on_lanes;                                  /**< The rows of a product's lhs lie on lanes. */
    bool lhs_transposed, rhs_transposed, out_transposed; /**< The contracted dimension of lhs lies on rows; of rhs on lanes; rows of the result on lanes. */
} EchKernelContraction;

typedef struct {
    EchKernelClass kind;
    const EchLayout *results; /**< results[n_results]; borrowed. */
    size_t n_results;
    const EchLayout *operands; /**< operands[n_operands]; borrowed. */
    size_t n_operands;
    /** Bytes that are really read of each operand and written of each result (slices, in-place updates); NULL: whole padded arrays. Borrowed. */
    const EchBytes *operand_bytes, *result_bytes;
    size_t lhs, rhs; /**< Operands of the contraction. */
    /** sides[n_operands], EchKernelSide: what is computed into a side of the contraction is fetched with its blocks; NULL: lhs and rhs alone. Borrowed. */
    const uint8_t *sides;
    /** Bytes that windows over padded operands in HBM take beyond those operands, as the compiler counts them; on chip they take what there is (libtpu 0.0.52,
     * 30 on v5e, tpu7x and v5p). */
    EchBytes padded;
    EchKernelBody body;
    EchKernelContraction contraction;
    EchKernelWindows windows;
    bool fused;             /**< A fusion; false: one instruction of the compiler's library, with its smaller windows. */
    uint64_t gathered_rows; /**< ECH_KERNEL_GATHER: rows picked. */
} EchKernel;

/** Blocks of a contraction in elements, and of a stream in registers of 1024 elements (then @bm). */
typedef struct {
    uint64_t bm, bn, bk;
    uint64_t taps;  /**< Positions of a window in a step; 0: all. */
    uint64_t batch; /**< Products of a batch in a step; 0: one. */
    uint64_t steps;
    uint32_t buffers;
} EchKernelBlocks;

/** A kernel's price; times in picoseconds. The parts add up to the whole. */
typedef struct {
    EchTime time;
    EchTime compute;                  /**< Not hidden under data movement. */
    EchTime hbm;                      /**< Traffic with HBM not hidden under compute, every byte once. */
    EchTime space;                    /**< The same for what is fetched again, because the on-chip memory does not hold it. */
    EchTime port;                     /**< Traffic of operands and results on chip not hidden under compute. */
    EchTime latency;                  /**< Step latency of copies that is not hidden. */
    EchTime link;                     /**< Bytes for other devices, where they are what it waits for. */
    EchTime fill;                     /**< Start, first fetch, and last store: nothing else runs. */
    EchTime overhead;                 /**< Cost of steps themselves. */
    EchTime busy_compute, busy_hbm;   /**< What each would take alone. */
    EchBytes hbm_read, hbm_written;   /**< Real bytes. */
    EchBytes vmem_read, vmem_written; /**< By operands and results placed on chip. */
    EchBytes vmem;                    /**< Windows and accumulators on chip. */
    double macs;                      /**< Padded multiply-accumulates done. */
    EchKernelBlocks blocks;
    bool chosen;    /**< The blocks are our own choice. */
    bool by_vector; /**< It multiplies, but what takes the time of compute is its other instructions. */
} EchKernelCost;

/** Constants of one device, in cycles of its core clock. From device numbers `kernel.*`, else from the data sheet. */
typedef struct {
    EchKernelView view;
    bool fetch_once;  /**< Both operands of a step wait for one latency, not for one each. */
    bool narrow_last; /**< The last block of a column waits for the narrowing of a result on chip too. */
    double clock_hz;
    double hbm;                                           /**< Bytes a cycle. */
    EchRate hbm_peak;                                     /**< Nominal bandwidth. */
    double fixed;                                         /**< Start of a streaming kernel. */
    double step;                                          /**< Latency of a streaming step. */
    double touch, simple, transcendental, divide, reduce; /**< Cycles a register of 1024 elements, @touch one loaded or stored. */
    double touch_beside;                                  /**< Cycles a register loaded or stored by what is fused around a product. */
    double serial_work;                                   /**< 1: what is fused around a product takes its time after the units; 0: beside them. */
    double start;                                         /**< Before a contraction's first fetch is issued, and all latency of a single step. */
    double matrix_step;                                   /**< Latency of a contraction's fetch and store together, that is not under compute. */
    double matrix_store;                                  /**< Of it, the store's. */
    double matrix_overhead;                               /**< Cycles of compute a step. */
    double accumulate;                                    /**< Cycles a register of the accumulator, where k is split. */
    double load;                                          /**< Cycles a row of the side of a product that the units hold, until they have taken it in. */
    double load_transposed;                               /**< Times as many where that row lies along lanes. */
    double overlap;                                       /**< Exponent of overlap(compute, movement): large is a true maximum. */
    double int8_start;                                    /**< Added to start for 8-bit products. */
    double int8;                                          /**< Efficiency of the matrix unit at 8-bit operands. */
    double matrix;                                        /**< Efficiency of the matrix unit. */
    double vmem;                                          /**< Bytes a cycle of on-chip operands. */
    double vmem_read; /**< Bytes a cycle that a streaming kernel reads on chip: in the compiler's view often no more than from HBM. */
    struct {
        double vector, lanes, load, store, transcendental; /**< Instructions of each kind that begin in a cycle. */
        double half;    /**< Instructions of arithmetic on 16 bits, for one on 32 bits of as many elements: a half where the chip computes with 16. */
        double convert; /**< Instructions a register of 32 bits for taking it from 16 bits and back. */
        double reduce_lanes, reduce_vector; /**< Instructions a register left by a reduction along lanes. */
        double link;                        /**< Bytes over one link to another device. */
        double push;                        /**< Cycles a register of 16 by 128 elements of the side that the matrix units hold. */
        double partial_sums;                /**< 1: products deeper than a matrix unit are added up by the vector unit; 0: by the matrix unit. */
        double product, reduction;          /**< Cycles until what follows a product, or a reduction along lanes, has its first result. */
        double chain;                       /**< Cycles from a stretch of code's first load through its products to its last store, that nothing hides. */
    } bundle;                               /**< Of code that its author laid out (grid.h), one core's. */
    double lone_registers;                  /**< Registers of the windows that the compiler cuts instructions outside fusions into. */
    double gather;                          /**< Cycles a gathered row. */
    double relayout;                        /**< Cycles a register whose lanes a copy makes rows. */
    double halves;                          /**< Cycles of laying out half a register of pixels whose channels share lanes with other positions'. */
    double depthwise_gradient;              /**< Cycles a register of pixels and position of a depthwise filter's gradient. */
    double gradient_column;                 /**< The same where all channels lie on one column of lanes. */
    double gradient_position;               /**< Cycles a register of images and position where they lie on lanes, whatever the channels (0: as above), */
    double gradient_pixel;                  /**< and cycles a register of the result's gradient that is met. */
    double gather_rows;                     /**< Cycles a register whose rows a copy on chip gathers from others, as the compiler counts. */
    double shuffle;                         /**< Cycles a register moved across lanes. */
    double narrow_on_chip;                  /**< Latency of narrowing a product's result on chip, in those of a store; 0: it is not counted. */
    double turn;                            /**< Cycles a register of a filter gradient's input and position, of arithmetic beside the units. */
    double pop, pop_again, pop_window;      /**< Cycles a register that the units give back: of a product's first pass along k, of further ones, and of every
                                             * pass of a convolution; 0: as one loaded. */
    double epilogue;      /**< Share of the arithmetic fused around a product that shows, of the last window: 0 where the compiler counts none. */
    double lane_sums;     /**< Bytes a cycle, of 32 bits an element, that are summed along lanes: in the hardware's view. */
    double narrow_store;  /**< Share of the extra pass over 32-bit registers that a narrow result costs: 1 in the compiler's view. */
    double stage_input;   /**< Share of a lhs block kept on chip a second time, in 16 bits, where the weights of a step do not fit into the units at once. */
    double stage_weights; /**< Share of the rhs block kept in 32 bits. */
    double stage_result;  /**< Share of the result's block kept in 32 bits where k is longer than a unit. */
    double accumulators;  /**< Bytes of the units' own accumulators; 0: none. */
    double stage_depth;   /**< Least k of a block at which 16-bit lhs blocks are kept a second time. */
    double stage_precise_input,
        stage_precise_weights; /**< Bytes that an element of a lhs or rhs block takes in parts, where f32 is multiplied in several passes. */
    double cores;              /**< Cores that share every kernel's steps as one device (megacore); 1 else. Rates are those of all of them. */
    EchBytes budget;           /**< On-chip bytes of a kernel's own windows. */
    uint32_t lanes, sublanes;
    const EchUnit *unit; /**< Matrix unit; borrowed from the device. */
} EchKernelModel;

/** Fills @ret from a device. False (ECH_ERROR_UNSUPPORTED) where it has no HBM or no matrix unit with a clock. */
bool ech_kernel_model_init(EchKernelModel *ret, const EchDevice *device, EchKernelView view, GError **error);
/** Whether both price every kernel alike: devices that differ in their links or capacities only do. */
bool ech_kernel_model_equal(const EchKernelModel *a, const EchKernelModel *b);
/** Prices a kernel with the windows that it gives, or with windows of our own choice where it gives none or @own_tiles. Never fails: a kernel
 * with no array costs nothing. */
void ech_kernel_price(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret);
/** Multiply-accumulates of a contraction, its sizes padded to whole registers. */
double ech_kernel_contraction_macs(const EchKernelContraction *contraction);
/** Whether the device's hardware constants were fitted to measured kernels ("kernel.hardware.stands_alone"): the model alone then comes closer to the chip
 * than a compiler's estimate carried by the model. */
bool ech_kernel_stands_alone(const EchDevice *device);
/** The matrix unit's multiply-accumulates a cycle for operands of @dtype. */
double ech_kernel_macs_per_cycle(const EchKernelModel *model, const char *dtype);
