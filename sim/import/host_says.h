/** @file host_says.h
 * What is told of the host's memory: by the kernel and by Ray where they killed a process for want of it, by Dask of its workers, by 'free' and /proc/meminfo
 * of how much there is. A part of the reader of pasted text (memory_figures.c), which gives it line by line.
 *
 * Wordings of Linux (mm/oom_kill.c, mm/memcontrol.c), procps, Ray 0 and 2 (its memory monitor) and Dask (distributed's worker_memory.py).
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

/** What fills the host's memory, and what tells more. */
#define ECH_HOST_FULL                                                                                                                                          \
    "What fills it: checkpoints that every process loads whole, state that is offloaded or gathered for saving, page-locked copies (PyTorch rounds each up "   \
    "to a power of two), workers of data loaders; 'echelon run' of a capture tells what of it is page-locked or offloaded ('host')"

typedef struct EchHostSays EchHostSays;

EchHostSays *ech_host_says_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_host_says_free(EchHostSays *says);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchHostSays, ech_host_says_free)

/** Whether @line is of that. */
bool ech_host_says_line(EchHostSays *says, EchWords line);
/** Whether anything was told of. */
bool ech_host_says_any(const EchHostSays *says);
/** Says who was killed, and how much there is. */
void ech_host_says_say(const EchHostSays *says, EchDiag *diag);
/** Puts into @builder what was held. */
void ech_host_says_write(const EchHostSays *says, EchTraceBuilder *builder);
