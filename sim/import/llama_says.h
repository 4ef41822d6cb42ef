/** @file llama_says.h
 * What llama.cpp and ollama, which is built on it, print of memory while they load a model: buffers by device, how many layers lie on GPUs, and ollama's plan
 * of a load; llama.cpp's table of memory, what it took or, while it looks for settings that fit, would take. A part of the readers of pasted text
 * (engine_says.c for a refusal, memory_figures.c without one), which give it line by line.
 *
 * Wordings: llama.cpp's src/llama-model.cpp, llama-kv-cache.cpp, llama-context.cpp ("buffer size ="), llama_memory_breakdown_print() (pull request 15860),
 * common/fit.cpp
 * ("projected to use"),
 * ollama's llm/memory.go ("memory.required.full="), ml/device.go ("model weights"), cmd/cmd.go (`ollama ps`).
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

typedef struct EchLlamaSays EchLlamaSays;

EchLlamaSays *ech_llama_says_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_llama_says_free(EchLlamaSays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchLlamaSays, ech_llama_says_free)

/** Whether @line is one of theirs. */
bool ech_llama_says_line(EchLlamaSays *says, EchWords line);
/** Whether a buffer or a plan was read. */
bool ech_llama_says_any(const EchLlamaSays *says);
/** Says what lies where. */
void ech_llama_says_say(const EchLlamaSays *says, EchDiag *diag);
/** Says what it reckoned with before it was refused @asked on @device (UINT64_MAX: not told), device by device, and where that does not explain the refusal. */
void ech_llama_says_refused(const EchLlamaSays *says, uint64_t device, EchBytes asked, EchDiag *diag);
/** Puts into @builder what the plan takes in all, or else the buffers of the fullest device and those of the host. */
void ech_llama_says_write(const EchLlamaSays *says, EchTraceBuilder *builder);
/** Puts the buffers of the device of that index into @builder; their sum. */
EchBytes ech_llama_says_held(const EchLlamaSays *says, uint64_t device, EchTraceBuilder *builder, EchId memory);
