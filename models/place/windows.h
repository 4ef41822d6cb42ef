/** @file windows.h
 * The windows by which memory-space assignment prices a matrix product on chips whose compiler chooses windows (TPU v6e, tpu7x), before those of the kernel
 * are chosen. Not the kernel's own (models/kernel/blocks.c), which are searched for; these are found in four tries.
 *
 * Sizes count in tiles of 8 by 128 elements of whatever type. Each array has room for two windows, one where it is whole, and each side and the result one
 * more to be worked on; an array that lies in tiles of more rows (8 bits, and on tpu7x 16) counts as fetched once, and takes no room. A budget of 80 % of 32
 * MiB, at 4 KiB a tile, is spent on, in this order:
 *
 *     all of k and n, and as many rows in parts of 128 as fit; for a batch, as many of its products as fit
 *     the whole result, and as much of k in parts of 128 as fits
 *     all of k, 128 rows, and as many columns in parts of 128 as fit
 *     else the longest dimension is halved until all three fit three times
 *
 * Source: windows that libtpu 0.0.52 logs of 400 products, plain, turned and batched, v6e and tpu7x (the same on both): all of them.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define ECH_PLACE_WINDOWS_BUDGET 6553.0 /**< Tiles: 80 % of 8192. */

/** Tiles of an array of @rows by @columns. */
double ech_place_tiles(uint64_t rows, uint64_t columns, bool rows_on_lanes);

/** result[batch, m, n] += lhs[batch, m, k] rhs[batch, k, n] */
typedef struct {
    uint64_t batch, m, n, k;            /**< >= 1; what lies in one tile's plane. */
    uint64_t m_outer, n_outer, k_outer; /**< >= 1. Further dimensions of rows, columns and of what is contracted: a batch of sequences, heads. */
    uint64_t batch_outer;               /**< Further dimensions of the batch; 0: 1. */
    bool rows_on_lanes;                 /**< Of lhs; else what is contracted lies there. */
    bool rhs_turned;                    /**< What is contracted lies on lanes of rhs. */
    bool summed_first;                  /**< Both sides are written with what is contracted before rows and columns. */
    bool out_turned;                    /**< The result's rows lie on lanes. */
    uint32_t lhs_arrays, rhs_arrays;    /**< That a side is made of and that come in by windows. */
    bool narrow;                        /**< Multiplied in 8 bits. */
    bool compared;                      /**< A maximum of the result's rows goes back into them (softmax). */
    uint32_t more_out;                  /**< Further arrays as large as the result that are read behind the product. */
} EchPlaceProduct;

typedef struct {
    uint64_t batch, m, n, k, m_outer, n_outer, k_outer; /**< Of a window; elements, of the batch in all. */
    double steps;
    double lhs, rhs, out;                         /**< Tiles of a window. */
    double lhs_fetches, rhs_fetches, out_fetches; /**< How often one is brought in, or put back. */
    double lhs_times, rhs_times, out_times;       /**< What is moved so, over the whole array. */
    double matrix;                                /**< Clocks of the matrix unit over all steps. */
    double push;                                  /**< Clocks of taking the rhs in. */
    double pop;                                   /**< Instructions, of the kind that adds, that take the products out and add them up. */
    double moves;                                 /**< Other vector instructions of doing so. */
} EchPlaceWindows;

void ech_place_windows(const EchPlaceProduct *product, EchPlaceWindows *ret);

/** A convolution: each of the result's positions meets a window of the input's, each position of the window with weights of its own. */
typedef struct {
    EchPlaceProduct product; /**< Of one position by one; its outer dimensions are 1. */
    struct {
        uint64_t lhs, size, out, stride; /**< Positions, >= 1. */
        double met;                      /**< Share of what windows meet that is no padding, as the compiler counts it. */
    } dims[3];
    unsigned n;
    bool apart;              /**< Positions that a window meets lie apart. */
    bool depthwise;          /**< Every channel by itself, on the vector unit. */
    bool depthwise_gradient; /**< Of such a convolution's filter. */
} EchPlaceConvolution;

/** Roughly: rows of the result as they fit beside all weights, or of the input where the window is large; the compiler's choice is exact in half of 25. */
void ech_place_convolution(const EchPlaceConvolution *convolution, EchPlaceWindows *ret);
