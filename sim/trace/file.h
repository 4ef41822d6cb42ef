/** @file file.h
 * The trace's own file, `.ech`: line-based text that a person can read, write and diff, with every section counted and
 * checked. Reading gives exactly the trace that was written.
 */
#pragma once
#include "sim/trace/trace.h"

/** True if the bytes begin an .ech file. */
bool ech_trace_file_probe(const uint8_t *head, size_t n);
/** Reads @n bytes; @where names them in messages ("FILE:line:column: ..."). ECH_ERROR_PARSE or ECH_ERROR_VERIFY. */
EchTrace *ech_trace_file_read(const char *data, size_t n, const char *where, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The whole text; same trace, same bytes. */
GString *ech_trace_file_print(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
/** The same text in pieces, none of them large, for those who need not hold it. */
void ech_trace_file_stream(const EchTrace *trace, void (*piece)(const char *text, size_t n, void *data), void *data);
/** Writes whole or not at all (temporary file, rename). */
bool ech_trace_file_write(const EchTrace *trace, const char *path, GError **error);
