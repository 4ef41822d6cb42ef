/** @file rounded.h
 * Sizes as compilers and allocators print them for people ("63.80G", "196.00MiB", "0 bytes"), and what they were before they were rounded.
 */
#pragma once
#include "models/layout/layout.h"

/** A size for people. All units are powers of 1024, whatever they are called. */
typedef struct {
    EchBytes bytes; /**< As printed, rounded to a byte. */
    double slack;   /**< Half the weight of the last digit, and what printing it may have cut off: the true size is no further off. 0: the number is exact. */
} EchRounded;

/** Reads the size that @text (of @n bytes) begins with: digits, a unit (B, bytes, K, KiB, ... EiB) after a blank or none. *ret_used: bytes taken. False where
 * it begins with none. */
bool ech_rounded_parse(const char *text, size_t n, EchRounded *ret, size_t *ret_used);
/** What sums, shares and products of sizes come to in whole bytes: 0 for what is negative or no number, 2^62 at the most. */
EchBytes ech_rounded_bytes(double value);
/** Whether @bytes would have been printed as @rounded. */
bool ech_rounded_is(const EchRounded *rounded, EchBytes bytes);
/** Of the shapes in @text ("2×f32[7,8], pred[]"), the first whose array takes what @rounded says, padded as on a TPU or not: *ret is its size. False: none. */
bool ech_rounded_from_shapes(const EchRounded *rounded, const char *text, size_t n, EchBytes *ret);
