/** @file alloc_compare.h
 * Captures side by side by who holds their memory: memory snapshots of two steps, of two settings. No allocator runs.
 */
#pragma once
#include "sim/experiment/alloc_study.h"

/** What lines of the program hold in each of @studies[n] (each with a trace) at the end and when most is in use (where requests were refused, at the last of
 * them), and what that is more or less than in the first; lines of at most @columns (0: no limit). @paths[n] name them. Ends with a newline. */
GString *ech_alloc_compare_text(EchAllocStudy *const *studies, char *const *paths, size_t n, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
/** {captures: [{path, format, most: "peak" or "failure"}], end: {live_bytes: [n], lines: [{line, bytes: [n], blocks: [n]}]}, most: the same}; lines that hold
 * most more or less than in the first capture first. Owned by the caller. */
char *ech_alloc_compare_json(EchAllocStudy *const *studies, char *const *paths, size_t n) G_GNUC_WARN_UNUSED_RESULT;
