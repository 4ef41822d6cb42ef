/** @file names.h
 * Patterns of names (* standing for anything) that passes are given, where nothing fits them: what comes near, for a remark.
 */
#pragma once
#include "sim/trace/trace.h"

/** What of @names comes near @pattern, which none of them fits: "'*gelu*' fits 12 names, like gelu.3", "did you mean '*gelu*'?"; NULL: nothing. Owned by the
 * caller. */
char *ech_names_near(const char *pattern, const GPtrArray *names) G_GNUC_WARN_UNUSED_RESULT;
/** NULL where an array of @trace (by its name, role, or a line of its stack), or with @modules a module of PyTorch by its path, fits @pattern. Otherwise what
 * comes near, or what there is. Owned by the caller. */
char *ech_names_unfit(const EchTrace *trace, const char *pattern, bool modules) G_GNUC_WARN_UNUSED_RESULT;
