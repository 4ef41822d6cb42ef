/** @file engine_says.h
 * What libraries and serving engines beside PyTorch, XLA and their allocators say when they are refused memory, in a sentence with sizes: vLLM, llama.cpp,
 * Triton and Pallas (of a GPU's shared memory), PaddlePaddle, CuPy, ONNX Runtime, TensorFlow's and XLA's use of the driver, PyTorch of the host's memory. A
 * part of the reader of pasted messages (out_of_memory.c). Wordings are those of the projects' sources; sentences without sizes are answered in
 * memory_texts.c.
 *
 * One row of the table in engine_says.c adds another.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

/** Of a pool of RAPIDS that may not grow. */
#define ECH_RMM_POOL                                                                                                                                           \
    "RMM's pool has taken all that it may (maximum_pool_size, or what the device had free when it was made): a larger limit, less at a time, or memory that "  \
    "spills "                                                                                                                                                  \
    "to the host (rmm.mr.ManagedMemoryResource)"

typedef struct EchEngineSays EchEngineSays;

EchEngineSays *ech_engine_says_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_engine_says_free(EchEngineSays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchEngineSays, ech_engine_says_free)

/** Whether @line, behind what a log put @before it, is one of theirs; @sentence goes on with it. The first refusal counts. */
bool ech_engine_says_line(EchEngineSays *says, EchWords before, EchWords line, EchWords sentence);
/** Whether a refusal was read. */
bool ech_engine_says_any(const EchEngineSays *says);
/** Whether sizes of what cudaMallocAsync's pool held were. */
bool ech_engine_says_sizes(const EchEngineSays *says);
/** Says what llama.cpp and ollama told of before something was refused in words that are not known. */
void ech_engine_says_parts(const EchEngineSays *says, EchDiag *diag);
/** As ech_torch_says_write(). ECH_ERROR_PARSE, about @where, for a size that no array has. */
bool ech_engine_says_write(const EchEngineSays *says, const char *where, EchTraceBuilder *builder, EchImport *import, GError **error);
/** Whether a text that begins with the @n bytes of @head has such a sentence. */
bool ech_engine_says_probe(const char *head, size_t n);
