/** @file mosaic_room.h
 * What a Pallas kernel keeps in vector memory while it runs, from its own code: blocks of its operands and results, as many of each as its pipeline holds,
 * scratch, and what it sets up on its way (run_scoped, emit_pipeline). Beside that the compiler spills registers, which no code tells: mostly up to 1.2
 * of EchKernelRoom.results (validation/tpu_kernels.md).
 *
 * A block has one buffer where the kernel asks for no more (pl.Buffered(1)), where there is no grid of several steps, or where its index hangs on no dimension
 * of the grid that has several; else two. What the compiler has placed on chip needs no blocks. Arrays are padded to rows of 128 lanes, and to 8 rows or the
 * next smaller power of two that holds them, as many at least as one lane packs of them. What is set up one after the other shares its room. Equal to the byte
 * to what libtpu 0.0.52 takes (used_scoped_memory_configs, its refusals) where nothing is spilled: validation/tpu_kernels.md.
 */
#pragma once
#include "sim/program/mlir_bytecode.h"
#include "sim/program/mosaic.h"
#include "sim/program/program.h"

#define ECH_ROOM_MAX_ARRAYS 64
#define ECH_ROOM_MAX_GRID 8

typedef enum { ECH_ROOM_INPUT, ECH_ROOM_OUTPUT, ECH_ROOM_SCRATCH, ECH_ROOM_LOCAL } EchRoomKind;

typedef struct {
    uint8_t kind;    /**< EchRoomKind. */
    uint8_t buffers; /**< Of a block: one or two. */
    bool fixed;      /**< It is no block that a grid moves: the whole array, or always the same part. */
    bool asked_once; /**< Its kernel asks for one buffer. */
    uint32_t number; /**< From 0: among in_specs, out_specs, scratch_shapes, or what is set up on the way. */
    EchMlirType type;
    int8_t axis[ECH_MLIR_MAX_RANK]; /**< The dimension of the grid whose index picks the block along a dimension; -1: none, or not by itself. */
} EchRoomArray;

typedef struct {
    EchRoomArray arrays[ECH_ROOM_MAX_ARRAYS]; /**< What is there where most is, without arrays that nothing uses. */
    uint32_t n_arrays;
    bool more; /**< There are more than that: the rest is only in @bytes. */
    EchBytes bytes;
    EchBytes results; /**< Results of the products of one stretch of code or, without products, the largest vector that it sums up and uses again, of the
                         stretch that has most, where that is more than all registers hold; else 0. */
    uint8_t rank;     /**< Of the grid. */
    int64_t bounds[ECH_ROOM_MAX_GRID]; /**< Negative: the program computes it. */
} EchKernelRoom;

/** Of all its buffers, padded. */
EchBytes ech_room_array_bytes(const EchRoomArray *array);
/** Of all its buffers, were there no padding. */
EchBytes ech_room_array_dense_bytes(const EchRoomArray *array);

/** Reads the kernel of @bytes (MLIR bytecode) with its @n_operands operands and its results, @n_arrays in all. Errors: ECH_ERROR_PARSE with the byte offset;
 * ECH_ERROR_UNSUPPORTED for a later version of the bytecode and where there is no kernel in it. *ret is untouched on failure. */
bool ech_mosaic_room(const uint8_t *bytes, size_t n, const EchMosaicArray *arrays, size_t n_operands, size_t n_arrays, EchKernelRoom *ret, GError **error);

/** The same of a kernel of a program's own; false for other instructions and where its code cannot be read. */
bool ech_program_kernel_room(const EchProgram *program, EchId instruction, EchKernelRoom *ret);

/** Blocks half as long along dimension @axis of the grid: those of operands and results, and scratch that is as long as they are. Returns the bytes then, and
 * in *ret_from how long they are now; 0 where nothing is picked by that dimension alone, or where its blocks are short already (of the last dimension 128, of
 * others 8). */
EchBytes ech_room_halve(EchKernelRoom *room, unsigned axis, int64_t *ret_from);
