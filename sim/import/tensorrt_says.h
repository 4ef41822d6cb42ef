/** @file tensorrt_says.h
 * What TensorRT and TensorRT-LLM log of memory: what an engine needs, when it was built ("Total Activation Memory: 282196480"), and what was allocated when it
 * was loaded ("[MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +1, GPU +73, now: CPU 1, GPU 295 (MiB)"). A part of the reader
 * of pasted text (memory_figures.c), which gives it line by line.
 *
 * Wordings of TensorRT 8.2 to 10 and TensorRT-LLM 0.5 to 1.3, as their guides and public logs have them.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

typedef struct EchTensorrtSays EchTensorrtSays;

EchTensorrtSays *ech_tensorrt_says_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_tensorrt_says_free(EchTensorrtSays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTensorrtSays, ech_tensorrt_says_free)

/** Whether @line is one of theirs. */
bool ech_tensorrt_says_line(EchTensorrtSays *says, EchWords line);
/** Whether anything on the device was told of. */
bool ech_tensorrt_says_any(const EchTensorrtSays *says);
/** Says what takes how much. */
void ech_tensorrt_says_say(const EchTensorrtSays *says, EchDiag *diag);
/** Puts into @builder what was allocated, or, where no engine was loaded, what the one built last needs. */
void ech_tensorrt_says_write(const EchTensorrtSays *says, EchTraceBuilder *builder);
