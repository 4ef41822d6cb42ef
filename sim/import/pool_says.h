/** @file pool_says.h
 * What programs print of an allocator's pool while they run: torch.cuda.memory_summary() and memory_stats(), DeepSpeed's see_memory_usage, Megatron's
 * report_memory, torchtune, torchtitan, Transformers' Trainer, Unsloth's notebooks, people's own prints of what is allocated and reserved; JAX's
 * device.memory_stats(). A part of the readers of pasted text (memory_figures.c), which gives it line by line.
 *
 * Wordings: torch/cuda/memory.py, deepspeed/runtime/utils.py, torchtune/training/memory.py, torchtitan/tools/metrics (device memory monitor),
 * transformers/trainer_utils.py, xla/pjrt (PJRT devices' memory_stats).
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

typedef struct EchPoolSays EchPoolSays;

/** @own_words: to read people's own prints too, which other readers' lines may look like. */
EchPoolSays *ech_pool_says_new(bool own_words) G_GNUC_WARN_UNUSED_RESULT;
void ech_pool_says_free(EchPoolSays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPoolSays, ech_pool_says_free)

/** Whether @line, behind what stood @before it, is one of theirs. */
bool ech_pool_says_line(EchPoolSays *says, EchWords before, EchWords line);
/** Whether it was told what a pool holds; a single figure in people's own words does not count. */
bool ech_pool_says_any(const EchPoolSays *says);
/** Says what the figures come to; @beside a message about refused memory, which says itself how to learn more. */
void ech_pool_says_say(const EchPoolSays *says, bool beside, EchDiag *diag);
/** Puts what the pool held when it was fullest into @builder; how often it was told into @import. */
void ech_pool_says_write(const EchPoolSays *says, EchTraceBuilder *builder, EchImport *import);
