/** @file minimalloc_csv.h
 * Writes placements as MiniMalloc's CSV: id,lower,upper,size[,alignment][,gaps],offset.
 */
#pragma once
#include "sim/base/units.h"

typedef struct {
    const char *id;       /**< Borrowed; quoted where it holds a comma or a quote. */
    int64_t lower, upper; /**< Half-open. */
    EchBytes size, alignment;
    uint64_t offset;
    uint32_t heap;
    const char *gaps; /**< As MiniMalloc's CSV has them; NULL: none. Borrowed. */
} EchMinimallocCsvRow;

/** Appends an id, with quotes where it needs them. */
void ech_minimalloc_csv_print_id(GString *out, const char *id);
/** Appends header and rows to @out. @alignment: with that column; one of gaps is there where a row has some. @heaps: offsets are written H<heap>+<offset>. */
void ech_minimalloc_csv_print(GString *out, const EchMinimallocCsvRow *rows, size_t n, bool alignment, bool heaps);
