/** @file alloc_text.h
 * Allocator events as lines of text, and the events of any other trace in the same form.
 *
 *     a ID BYTES [STREAM]   allocate          u ID BYTES [STREAM]   the same from the upper end
 *     f ID                  free              r ID STREAM           also used on this stream
 *     e STREAM              all events recorded so far on the stream are complete
 *
 * Ids of allocations ascend. Lines that are empty or begin with # are skipped.
 */
#pragma once
#include "models/alloc/events.h"
#include "sim/import/import.h"

bool ech_alloc_text_probe(const uint8_t *head, size_t n);
/** Reads @n bytes into EchAllocEvents, appended to @events. Frees of ids that are not live are dropped and counted. ECH_ERROR_PARSE with
 * "WHERE:line: ...". */
bool ech_alloc_text_read(const char *data, size_t n, const char *where, GArray *events, EchDiag *diag, GError **error);
/** The events of @memory in a trace: what is resident first, then every ALLOC and FREE, with buffer numbers as ids; loop bodies once.
 * Owned by the caller (EchAllocEvent). */
GArray *ech_alloc_events_of_trace(const EchTrace *trace, EchId memory) G_GNUC_WARN_UNUSED_RESULT;
/** The memory a trace's allocations are about: "hbm" if it has buffers, else the one with the most allocated bytes. ECH_NONE: none. */
EchId ech_alloc_main_memory(const EchTrace *trace);
