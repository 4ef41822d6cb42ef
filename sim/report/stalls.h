/** @file stalls.h
 * Inside the kernels of a run: what keeps their compute units from working, tile by tile, as the kernel model has it.
 * Only for TPU programs and tiled products.
 */
#pragma once
#include "sim/report/report.h"

/** The terminal's table of it, notes in lines of at most @columns; nothing where there is none. */
void ech_report_append_stalls(GString *out, const EchReport *report, unsigned columns);
/** The member "kernel_stalls" of an object that is being built; nothing where there is none. */
void ech_report_build_stalls(JsonBuilder *b, const EchReport *report);
