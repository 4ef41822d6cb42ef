/** @file program.h
 * The XLA program as its own model: computations, instructions in schedule order, values, live ranges, buffer assignment.
 */
#pragma once
#include "sim/base/diag.h"
#include "sim/trace/trace.h"

typedef struct EchProgram EchProgram;

EchProgram *ech_program_ref(EchProgram *program);
void ech_program_unref(EchProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchProgram, ech_program_unref)
