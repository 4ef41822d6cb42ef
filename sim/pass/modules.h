/** @file modules.h
 * Modules of PyTorch, by the lines that an op's stack has of them, innermost first: "nn.Module: blocks.2.qkv (Linear)\nnn.Module: blocks.2 (Block)".
 */
#pragma once
#include "sim/pass/survey.h"

/** Between patterns of modules: "encoder.*+decoder.*". */
#define ECH_MODULES_OR "+"

/** What of a training step an op is of. */
typedef enum { ECH_PART_ELSE, ECH_PART_FORWARD, ECH_PART_BACKWARD, ECH_PART_OPTIMIZER } EchPart;

/** Sets @part of each op, an EchPart, by its stack; of what uses nothing ECH_PART_ELSE. A step of an optimizer that is given a closure has a forward and a
 * backward pass within it, and the loss between those, which are none of its own. */
void ech_modules_find_parts(const EchSurvey *survey, uint8_t *part);
/** Whether an op is of a backward pass, by its stack; what a checkpoint runs again there is, too. */
bool ech_modules_is_backward(const EchSurvey *survey, EchId op);
/** Whether two ops are of one operator's gradient, however many operators that itself called. */
bool ech_modules_same_gradient(const EchSurvey *survey, EchId one, EchId other);
/** The outermost module that an op stands in, or that its node of a backward pass is of, and whose path fits one of @patterns (NULL-terminated, "*" standing
 * for anything): its line in the op's stack, of @ret_n bytes; borrowed. NULL where there is none. */
const char *ech_modules_find(const EchSurvey *survey, EchId op, char *const *patterns, size_t *ret_n);
/** Patterns of the modules that a program repeats and that are made of others, of those the outermost: "encoder.layers.*+decoder.layers.*"; where these are
 * made of others that are repeated and little else, those: "stages.*.blocks.*". NULL where it repeats none. Owned by the caller. */
char *ech_modules_repeated(const EchTrace *trace);
