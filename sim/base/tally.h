/** @file tally.h
 * Bytes by name: who holds how much, for sentences and tables.
 */
#pragma once
#include "sim/base/units.h"

#include <glib.h>

typedef struct {
    char *name;
    EchBytes bytes;
    uint64_t blocks; /**< How many were added. */
} EchTallyRow;

typedef struct EchTally EchTally;

EchTally *ech_tally_new(void) G_GNUC_WARN_UNUSED_RESULT;
/** Another block of @name, which is taken. */
void ech_tally_add(EchTally *tally, char *name, EchBytes bytes);
/** Frees the tally. Its rows (EchTallyRow, which they own), most bytes first, of equal ones by name. */
GArray *ech_tally_end(EchTally *tally) G_GNUC_WARN_UNUSED_RESULT;
/** Drops what holds less than a hundredth of what the first does. */
void ech_tally_drop_trifles(GArray *rows);
