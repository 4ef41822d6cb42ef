/** @file gpu_others.h
 * Tables of memory by the tools of TPUs (tpu-info), Ascend's NPUs (npu-smi info) and Intel's GPUs (xpu-smi), those of nvidia-smi that scroll (pmon, dmon),
 * JAX's memory_stats() as trainers print them, and what ollama and llama.cpp tell of devices when they start. A part of gpu_tools.c.
 */
#pragma once
#include "sim/import/gpu_rows.h"

/** What the lines so far said of those to come; zeros begin it. */
typedef struct {
    uint8_t table;           /**< What the rows are of. */
    bool is_xpu;             /**< A heading of xpu-smi was there. */
    uint64_t device;         /**< The one that the lines are of: xpu-smi's, or the card whose chips come next. */
    char called[48];         /**< Its name, or that of all chips. */
    int gpu, pid, fb, named; /**< Columns of a scrolling table; -1: not there. */
} EchGpuOthers;

/** Whether @line, behind what stood @before it, is of one of these tables. */
bool ech_gpu_others_line(EchGpuOthers *others, EchGpuRows *all, EchWords before, EchWords line);

/** Reads what tools print of GPUs' memory as JSON: rocm-smi, amd-smi, gpustat, xpu-smi. The text may be cut. Whether there was any. */
bool ech_gpu_json_read(EchGpuRows *all, const char *text, size_t n);
