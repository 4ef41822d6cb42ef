/** @file memory_figures.h
 * What programs and tools print of memory in use, where nothing was refused: an allocator's pool (pool_says.c), GPUs and processes (gpu_tools.c), what XLA
 * says that a compiled program takes (print(compiled.memory_analysis())), vLLM's and SGLang's start, TensorRT's log (tensorrt_says.c), DeepSpeed's estimates of
 * ZeRO, arrays by shape (jax.live_arrays(), tensors that gc finds), TensorFlow's nodes. Read as a format of its own, and beside a message about refused memory
 * (out_of_memory.c).
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

typedef struct EchMemoryFigures EchMemoryFigures;

/** @beside a message about refused memory only what cannot be mistaken is read, and what the message says itself is not said again. */
EchMemoryFigures *ech_memory_figures_new(bool beside) G_GNUC_WARN_UNUSED_RESULT;
void ech_memory_figures_free(EchMemoryFigures *figures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchMemoryFigures, ech_memory_figures_free)

/** Whether @line, behind what stood @before it, tells of memory. */
bool ech_memory_figures_line(EchMemoryFigures *figures, EchWords before, EchWords line);
/** A request was refused to the program that prints them: what vLLM tells from here on is of another start. */
void ech_memory_figures_ran_out(EchMemoryFigures *figures);
/** Says what the figures come to. */
void ech_memory_figures_say(const EchMemoryFigures *figures, EchDiag *diag);
/** Puts TensorFlow's nodes into @builder: who holds what, where a message about a refused tensor comes with them. Returns their bytes. */
EchBytes ech_memory_figures_nodes(const EchMemoryFigures *figures, EchTraceBuilder *builder);
