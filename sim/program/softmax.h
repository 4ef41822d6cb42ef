/** @file softmax.h
 * What softmaxes of a compiled program are taken of: scores of attention, and the logits of a loss. By numbers of elements, whatever shape an array goes by.
 */
#pragma once
#include "sim/program/program.h"

/** Arrays of one number of elements, results of a product, at least twice as large as either side of it; or most rows of such logits, a slice of them that the
 * loss is of, which follow those. */
typedef struct {
    uint64_t elements;
    uint64_t classes; /**< Elements of a row of logits; 0: scores, of a product in batches. */
} EchSoftmax;

/** EchSoftmax, each once, in the program's order. Owned by the caller. */
GArray *ech_program_softmaxes(const EchProgram *program) G_GNUC_WARN_UNUSED_RESULT;
