/** @file minimalloc.h
 * MiniMalloc's CSV: buffers with half-open lifetimes, sizes and optional alignments, gaps and offsets.
 *
 * The header names the columns in any order: id, lower, upper, size (or start, end, bytes), and optionally alignment, gaps, offset, hint.
 * A gap is "LOWER-UPPER" (the buffer is not needed then) or "LOWER-UPPER@LOW:HIGH" (only its bytes [LOW, HIGH) are); gaps are separated by blanks.
 */
#pragma once
#include "models/alloc/plan.h"
#include "sim/import/import.h"

typedef struct {
    int64_t lower, upper; /**< Not in use in [lower, upper)... */
    EchBytes low, high;   /**< ...but for these bytes of the buffer; low == high: for none. */
} EchMinimallocGap;

typedef struct {
    char *id;             /**< As written; owned by the table. */
    int64_t lower, upper; /**< Half-open, lower <= upper. */
    EchBytes size;
    EchBytes alignment; /**< 0 where not given. */
    uint64_t offset;    /**< ECH_OFFSET_NONE where not given, or in one of several heaps ("H2+512"). */
    uint32_t first_gap, n_gaps;
} EchMinimallocRow;

typedef struct {
    EchMinimallocRow *rows; /**< rows[n], in file order. */
    size_t n;
    EchMinimallocGap *gaps; /**< gaps[n_gaps]; a row's are sorted and inside its life. */
    size_t n_gaps;
    bool has_alignment;
} EchMinimalloc;

int ech_minimalloc_probe(const uint8_t *head, size_t n);
/** Parses @data[@n]; @where begins messages. Owned by the caller. ECH_ERROR_PARSE with "WHERE:line: ...". */
EchMinimalloc *ech_minimalloc_parse(const char *data, size_t n, const char *where, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The same of a file of at most 1 GiB. */
EchMinimalloc *ech_minimalloc_read(EchSource *source, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_minimalloc_free(EchMinimalloc *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchMinimalloc, ech_minimalloc_free)
/** The rows as a planner's items (EchPlanItem; owned by the caller): row i is item i, its pieces between gaps follow all rows and are co-located
 * with it. A row without gaps is alone. Of a gap's window only the upper end is used: bytes below it count as needed. */
GArray *ech_minimalloc_items(const EchMinimalloc *table) G_GNUC_WARN_UNUSED_RESULT;
