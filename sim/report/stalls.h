/** @file stalls.h
 * Inside the kernels of a run: what keeps their compute units from working, tile by tile, as the kernel model has it.
 * Only for TPU programs and tiled products.
 */
#pragma once
#include "models/kernel/stalls.h"
#include "sim/report/report.h"

/** insides[n_ops of the trace], all zero but for those kernels that the run priced by a compiler's estimate or the kernel model, and whose insides the trace
 * tells (EchOp.launch) as they are on the report's device; NULL where it tells none. g_free. */
EchKernelInside *ech_report_kernel_insides(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;

/** The terminal's table of it, notes in lines of at most @columns; nothing where there is none. */
void ech_report_append_stalls(GString *out, const EchReport *report, unsigned columns);
/** The member "kernel_stalls" of an object that is being built; nothing where there is none. */
void ech_report_build_stalls(JsonBuilder *b, const EchReport *report);
