/** @file trace_info.h
 * What `echelon info` says of a trace: gathered once, told as JSON and as text.
 */
#pragma once
#include "sim/trace/trace.h"

#include <json-glib/json-glib.h>

typedef struct EchTraceInfo EchTraceInfo;

/** Gathers it. @trace must stay. Owned by the caller. */
EchTraceInfo *ech_trace_info_new(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
void ech_trace_info_free(EchTraceInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTraceInfo, ech_trace_info_free)
/** Adds `ops`, `bytes`, `memories`, `names` and the like to the open object. */
void ech_trace_info_json(JsonBuilder *builder, const EchTraceInfo *info);
/** The same for a terminal; appended to @out. */
void ech_trace_info_text(GString *out, const EchTraceInfo *info);
/** A sentence and a newline, broken where a terminal's lines end. */
void ech_trace_info_sentence(GString *out, const char *format, ...) G_GNUC_PRINTF(2, 3);
