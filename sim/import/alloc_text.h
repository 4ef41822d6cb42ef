/** @file alloc_text.h
 * Allocator events as lines of text.
 *
 *     a ID BYTES [STREAM]   allocate          u ID BYTES [STREAM]   the same from the upper end
 *     f ID                  free              r ID STREAM           also used on this stream
 *     e STREAM              all events recorded so far on the stream are complete
 *     c                     the program empties the cache (torch.cuda.empty_cache)
 *     p ID BYTES POOL       allocate in a private pool of PyTorch's (a MemPool): a number that no stream has
 *     g ID BYTES POOL       the same while a CUDA graph is captured
 *     d POOL                the private pool is released
 *
 * Ids of allocations ascend. Lines that are empty or begin with # are skipped.
 */
#pragma once
#include "models/alloc/events.h"
#include "sim/import/alloc_events.h"
#include "sim/import/import.h"

/** True if the bytes begin such a text. */
bool ech_alloc_text_probe(const uint8_t *head, size_t n);
/** Reads @n bytes into EchAllocEvents, appended to @events. Frees of ids that are not live are dropped and counted. ECH_ERROR_PARSE with
 * "WHERE:line: ...". */
bool ech_alloc_text_read(const char *data, size_t n, const char *where, GArray *events, EchDiag *diag, GError **error);
