/** @file modules.h
 * Modules of PyTorch, by the lines that an op's stack has of them, innermost first: "nn.Module: blocks.2.qkv (Linear)\nnn.Module: blocks.2 (Block)".
 */
#pragma once
#include "sim/pass/survey.h"

/** Between patterns of modules: "encoder.*+decoder.*". */
#define ECH_MODULES_OR "+"

/** Whether an op is of a backward pass, by its stack; what a checkpoint runs again there is, too. */
bool ech_modules_is_backward(const EchSurvey *survey, EchId op);
/** The outermost module that an op stands in, or that its node of a backward pass is of, and whose path fits one of @patterns (NULL-terminated, "*" standing
 * for anything): its line in the op's stack, of @ret_n bytes; borrowed. NULL where there is none. */
const char *ech_modules_find(const EchSurvey *survey, EchId op, char *const *patterns, size_t *ret_n);
/** Patterns of the modules that a program repeats and that are made of others, of those the outermost: "encoder.layers.*+decoder.layers.*"; where these are
 * made of others that are repeated and little else, those: "stages.*.blocks.*". NULL where it repeats none. Owned by the caller. */
char *ech_modules_repeated(const EchTrace *trace);
