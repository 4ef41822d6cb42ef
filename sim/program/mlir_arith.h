/** @file mlir_arith.h
 * Whole numbers that a kernel's code computes (indices, bounds of loops, conditions): operations of MLIR's arith dialect, told apart once by their names.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/** An operation of two whole numbers; ECH_ARITH_NONE: of none of those that are computed. */
typedef enum {
    ECH_ARITH_NONE,
    ECH_ARITH_ADD,
    ECH_ARITH_SUB,
    ECH_ARITH_MUL,
    ECH_ARITH_AND,
    ECH_ARITH_OR,
    ECH_ARITH_XOR,
    ECH_ARITH_LARGEST,
    ECH_ARITH_LEAST,
    ECH_ARITH_DIV,
    ECH_ARITH_REM,
    ECH_ARITH_FLOOR,
    ECH_ARITH_CEIL,
    ECH_ARITH_SHIFT_UP,
    ECH_ARITH_SHIFT_DOWN
} EchMlirArith;

/** By its name, "arith.addi"; unsigned ones are as signed, which indices are. */
EchMlirArith ech_mlir_arith(const char *name);
/** False where nothing is computed: an overflow, a division by zero, a shift out of 32 bits. */
bool ech_mlir_compute(EchMlirArith arith, int64_t a, int64_t b, int64_t *ret);
/** The predicates of arith.cmpi in their order (mlir/include/mlir/Dialect/Arith/IR/ArithBase.td), the unsigned ones as signed; false for others. */
bool ech_mlir_compare(int64_t predicate, int64_t a, int64_t b, int64_t *ret);
