/** @file program_info.h
 * What `echelon info` and `echelon run` say about an XLA program: its memory figures, as members of a JSON object.
 */
#pragma once
#include "sim/program/program.h"

#include <json-glib/json-glib.h>

/** Adds `memory_analysis`, `heap`, `spaces`, `copies` and `program` to the open object. The program must have an assignment
 * (read, or made by ech_report_program_complete) for all but `copies` and `program`. */
void ech_report_program_info(JsonBuilder *builder, const EchProgram *program);
/** `memory_analysis` and `heap` alone, for a run's report. */
void ech_report_memory_analysis(JsonBuilder *builder, const EchProgram *program);
/** Makes the buffer assignment where none was read. @device: a device name or file, or NULL. Without a chip a TPU program's figures cannot be had: a
 * remark says so, and true is returned. */
bool ech_report_program_complete(EchProgram *program, const char *device, EchDiag *diag, GError **error);
/** The same figures for a terminal; appended to @text. */
void ech_report_program_text(GString *text, const EchProgram *program);
