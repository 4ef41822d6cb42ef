/** @file comfy_says.h
 * What ComfyUI logs of memory: what there is ("Total VRAM 24564 MB, total RAM 32694 MB"), and of each model how much it loaded and left on the host ("loaded
 * partially; 20034.67 MB usable, 20024.84 MB loaded, 18943.05 MB offloaded"). A part of the reader of pasted text (memory_figures.c), which gives it line by
 * line.
 *
 * Wordings of its model_management.py and model_patcher.py, before and after November 2025.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

typedef struct EchComfySays EchComfySays;

EchComfySays *ech_comfy_says_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_comfy_says_free(EchComfySays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchComfySays, ech_comfy_says_free)

/** Whether @line is one of its. */
bool ech_comfy_says_line(EchComfySays *says, EchWords line);
/** Whether a model was told of. */
bool ech_comfy_says_any(const EchComfySays *says);
/** Says what there is and which model took most. */
void ech_comfy_says_say(const EchComfySays *says, EchDiag *diag);
/** Puts into @builder what that model took. */
void ech_comfy_says_write(const EchComfySays *says, EchTraceBuilder *builder);
