/** @file alloc_study_private.h
 * What the writers of a study share: names of its allocations, and who holds memory.
 */
#pragma once
#include "sim/experiment/alloc_study.h"
#include "sim/base/tally.h"

/** Smallest capacities are searched in steps of what cudaMalloc takes from the device. */
#define ECH_ALLOC_STUDY_GRANULE (UINT64_C(2) << 20)

/** Finds out which PyTorch a snapshot was recorded by: the study's release and released. */
void ech_alloc_study_find_release(EchAllocStudy *study);
/** @spec, of PyTorch's own allocator and without a release, with the study's; else a copy. Owned by the caller. */
char *ech_alloc_study_released(const EchAllocStudy *study, const char *spec) G_GNUC_WARN_UNUSED_RESULT;

/** Number of requests that the recorded allocator refused. */
guint ech_alloc_study_n_refusals(const EchAllocStudy *study);
/** Event id of refusal number @index, below ech_alloc_study_n_refusals(). */
uint32_t ech_alloc_study_refusal_id(const EchAllocStudy *study, guint index);
/** The refused request with that event id, or NULL. */
const EchRefusal *ech_alloc_study_refusal(const EchAllocStudy *study, uint32_t id);
/** The trace's buffer with that event id, or NULL. */
const EchBuffer *ech_alloc_study_buffer(const EchAllocStudy *study, uint32_t id);
/** Where it was asked for, innermost frame first, a line each, or NULL. Borrowed. */
const char *ech_alloc_study_stack(const EchAllocStudy *study, uint32_t id);
/** Whether a frame of @n bytes is the program's own, not PyTorch's, Python's, or of an installed package. */
bool ech_alloc_study_is_own(const char *frame, size_t n);
/** What people call an allocation; never empty. Owned by the caller. */
char *ech_alloc_study_name(const EchAllocStudy *study, uint32_t id) G_GNUC_WARN_UNUSED_RESULT;
/** The same for a sentence: at most @width columns. */
char *ech_alloc_study_short_name(const EchAllocStudy *study, uint32_t id, int width) G_GNUC_WARN_UNUSED_RESULT;
/** Bytes in use, as asked for, when request @id was made. */
EchBytes ech_alloc_study_live_at(const EchAllocStudy *study, uint32_t id);

/** What temporaries of optimizers that take all parameters at once (ech_foreach_kind) hold when @id is asked for, and whether all have a kernel for it. */
EchBytes ech_alloc_study_foreach_at(const EchAllocStudy *study, uint32_t id, bool *ret_fuses);
/** Who holds memory when most is in use, or, where the recorded allocator refused requests, at the last of them; or @at_end: by line of the program
 * ("model.py:12
 * __init__ < train.py:30 main"), the most first (EchTallyRow). @ret_live: their bytes together. */
GArray *ech_alloc_study_holders(const EchAllocStudy *study, bool at_end, EchBytes *ret_live) G_GNUC_WARN_UNUSED_RESULT;

/** What to do about requests that PyTorch refused: of the rows with settings that serve them all, the one that empties its cache least often, or needs the
 * least memory; NULL: none. *@ret_instead: the recorded settings, or NULL for none. Both borrowed. */
const EchAllocRow *ech_alloc_study_advice(const EchAllocStudy *study, const GPtrArray *rows, const char **ret_instead);
/** The settings that a row simulates PyTorch's native allocator under, as PYTORCH_CUDA_ALLOC_CONF has them, or NULL for another allocator. Borrowed. */
const char *ech_alloc_row_settings(const EchAllocRow *row);
/** Times that PyTorch emptied its cache and had room then. */
int64_t ech_alloc_row_emptied(const EchAllocRow *row);

/** "ok", "full" or "fragmented". */
const char *ech_alloc_fit_name(EchFit fit);
/** "peak", "failure" or "end". */
const char *ech_alloc_moment_name(EchMomentKind kind);
/** Share of the most reserved bytes that was not in use at the peak of use, 0 to 1. */
double ech_alloc_fragmentation(const EchAllocStats *stats);

/** Appends "    NAME was WHAT in FRAME < FRAME", @what such as "made": the innermost frames, where the capture has them; of a stack with Python in it only
 * those. */
void ech_alloc_study_text_stack(GString *out, const EchAllocStudy *study, uint32_t id, const char *what);
/** Appends the row's report: moments, segments and the blocks that pin them, the address map. */
void ech_alloc_study_text_report(GString *out, const EchAllocStudy *study, const EchAllocRow *row, const EchAllocStudyOutput *output);
