/** @file stationary.h
 * A chip whose matrix unit keeps weights still and streams activations past them, all weights coming from a memory of their own (TPU v1): a whole program's
 * steps on it, tile by tile, and the counters its hardware would show.
 *
 * Not one kernel at a time as kernel.h does: the Weight FIFO fills while the unit waits for data, and lies full when the next layer begins, so what a layer
 * costs depends on the one before it. Plain arrays in and out. The rules, for each tile of weights in program order:
 *
 *     load:   when the weight memory is done with the tile before and the FIFO has room; tile bytes / its bandwidth
 *     shift:  when the tile is there, the one before was shifted, and the unit's second plane is free (the tile before has begun); one cycle a row
 *     active: when it is shifted in, the unit is free, the layer's inputs are in the Unified Buffer, and accumulators are free; one cycle a row of the batch,
 *             twice that where one side has 16 bits, four times where both have
 *
 * and for the rows of a finished column of the result: the activation unit, one row as wide as the array a cycle. Rows are taken in passes of at most half
 * of the accumulators, so that the unit fills one half while the activation unit empties the other; in passes of all of them where that is faster. A step
 * that reads what another computed begins @wait cycles after that one has ended: the explicit synchronisation before the Unified Buffer is read.
 *
 * Source: Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017 (arXiv 1704.04760), sections 2, 4 and 7, figure 1.
 */
#pragma once
#include "models/device/device.h"
#include "models/kernel/stalls.h"

typedef enum {
    ECH_STATIONARY_PRODUCT,  /**< Matrix products or convolutions that add up in the same accumulators, activation included. */
    ECH_STATIONARY_VECTOR,   /**< Work of the activation unit alone: element-wise layers, pooling. */
    ECH_STATIONARY_TRANSFER, /**< Between host memory and the Unified Buffer, begun where the core is. */
    ECH_STATIONARY_WAIT,     /**< The core waits for a transfer before anything later begins. */
} EchStationaryKind;

/** One product of a step: [m, k] x [taps, k, n], @copies of it with weights of their own. */
typedef struct {
    uint64_t m, n, k;  /**< >= 1. Rows streamed, columns of the result, contracted depth of one tap. */
    uint64_t taps;     /**< Positions of a convolution's window, each with tiles of its own; 1 for products. */
    uint64_t copies;   /**< >= 1 */
    uint32_t lhs_bits; /**< Of an activation. */
    uint32_t rhs_bits; /**< Of a weight. */
} EchStationaryProduct;

typedef struct {
    EchStationaryKind kind;
    uint32_t first_product, n_products; /**< PRODUCT: into the products given to ech_stationary_run(). */
    uint32_t first_dep, n_deps;         /**< Into the dependencies given: earlier steps whose results it reads. */
    uint32_t result_bits;               /**< PRODUCT: of an element of the result. */
    EchBytes moved;                     /**< VECTOR: bytes through the activation unit, the larger of read and written. */
    EchTime transfer;                   /**< TRANSFER: how long it takes alone. */
    bool to_device;                     /**< TRANSFER: its direction; the two do not hinder each other. */
} EchStationaryStep;

/** Cycles of the matrix unit's clock by what the unit does, as the chip's counters have it: active + weight_stall + weight_shift + non_matrix = cycles. */
typedef struct {
    double cycles;
    double active;       /**< Rows pass through the unit. */
    double useful;       /**< Of active, weighted with the share of its cells that hold weights of the program. */
    double weight_stall; /**< Inputs are there; weights still come from memory. */
    double weight_shift; /**< Weights move into the unit. */
    double non_matrix;   /**< The rest: waits for inputs, for accumulators, and the time before the first and after the last product. */
    double dependency;   /**< Of non_matrix: waits for what an earlier step computes, its synchronisation included. */
    double input;        /**< Of non_matrix: waits for transfers from the host. */
    double macs;         /**< Multiply-accumulates of the program. */
    double tiles;        /**< Tiles of weights read. */
    double weight_bytes; /**< Their bytes. */
} EchStationaryCounters;

typedef struct {
    double clock_hz;
    uint32_t rows, columns; /**< Of the array: depth contracted and columns made at once. */
    double load;            /**< Cycles to read a tile of 8-bit weights. */
    uint64_t fifo;          /**< Tiles the Weight FIFO holds, >= 1. */
    uint64_t accumulators;  /**< Rows of them, >= 1. */
    double wait;            /**< Cycles from the end of a step to the start of one that reads its result. */
} EchStationaryModel;

/** Fills @ret from a device. False where it is no such chip: it gives no `kernel.weight_fifo_tiles`, or has no weight memory, matrix unit or accumulators. */
bool ech_stationary_model_init(EchStationaryModel *ret, const EchDevice *device);
/** Runs @steps in order. ret_ends[n_steps]: when each has ended, picoseconds. ret_insides[n_steps], or NULL: what the time of a PRODUCT (from the end of the
 * one before it: the array works or shifts weights in, waits for weights, or for data) and of a VECTOR step is spent on; zeros of others. *ret_total: of the
 * whole. Steps of very many tiles are run for the first of them and carried on at the rate of the last of those. */
void ech_stationary_run(const EchStationaryModel *model, const EchStationaryStep *steps, size_t n_steps, const EchStationaryProduct *products,
                        const uint32_t *deps, EchTime *ret_ends, EchKernelInside *ret_insides, EchStationaryCounters *ret_total);
