/** @file program_info.h
 * What `echelon info` and `echelon run` say about an XLA program: its memory figures, as members of a JSON object.
 */
#pragma once
#include "sim/program/program.h"

#include <json-glib/json-glib.h>

/** Adds `memory_analysis`, `heap`, `spaces`, `copies` and `program` to the open object. The program must have an assignment
 * (read, or made by ech_report_program_complete) for all but `copies` and `program`. */
void ech_report_program_info(JsonBuilder *builder, const EchProgram *program);
/** `memory_analysis` alone. */
void ech_report_memory_figures(JsonBuilder *builder, const EchMemoryAnalysis *m);
/** `memory_analysis` and `heap` alone, for a run's report. */
void ech_report_memory_analysis(JsonBuilder *builder, const EchProgram *program);
/** Makes the buffer assignment where none was read. @device: a device name or file, or NULL. Without a chip a TPU program's figures cannot be had: a
 * remark says so, and true is returned. */
bool ech_report_program_complete(EchProgram *program, const char *device, EchDiag *diag, GError **error);
/** The same figures for a terminal; appended to @text. */
void ech_report_program_text(GString *text, const EchProgram *program);
/** How many kernels a program for a TPU runs, what they take one after the other on @device or on the chip it was compiled for, and what those times rest on:
 * `kernels` in the open object, a paragraph in @text in lines of at most @columns (0: unbroken). Nothing where neither is known or the device is no TPU. */
void ech_report_program_kernels(JsonBuilder *builder, const EchProgram *program, const char *device);
void ech_report_program_kernels_text(GString *text, const EchProgram *program, const char *device, unsigned columns);
