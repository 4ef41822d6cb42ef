/** @file gpu_tools.h
 * What tools print of devices' memory and who holds it: nvidia-smi's table (slices of MIG too), its CSV, -q, -q -x, pmon and dmon, gpustat, nvitop, amd-smi,
 * rocm-smi --showmeminfo and --showpids, xpu-smi, hl-smi, npu-smi, tpu-info (gpu_others.c), their JSON (gpu_json.c), torch.cuda.list_gpu_processes(). A part of
 * the readers of pasted text (memory_figures.c), which gives it line by line.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/import/pasted.h"

typedef struct EchGpuTools EchGpuTools;

EchGpuTools *ech_gpu_tools_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_gpu_tools_free(EchGpuTools *tools);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGpuTools, ech_gpu_tools_free)

/** Whether @line, behind what stood @before it, is one of theirs. */
bool ech_gpu_tools_line(EchGpuTools *tools, EchWords before, EchWords line);
/** The same of a whole document in JSON, which may be cut: whether there is something of theirs in it. */
bool ech_gpu_tools_json(EchGpuTools *tools, const char *text, size_t n);
/** Whether a GPU's memory, or a process that holds some, was read. */
bool ech_gpu_tools_any(const EchGpuTools *tools);
/** Whether a GPU was read with all that it has, though nothing of it may be in use. */
bool ech_gpu_tools_whole(const EchGpuTools *tools);
/** Says who holds how much of which GPU, and where there is room; @beside something that tells what is in it. */
void ech_gpu_tools_say(const EchGpuTools *tools, bool beside, EchDiag *diag);
/** Puts who holds what of the fullest GPU into @builder. */
void ech_gpu_tools_write(const EchGpuTools *tools, EchTraceBuilder *builder);
