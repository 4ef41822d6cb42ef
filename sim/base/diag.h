/** @file diag.h
 * Named diagnostic counters (what a reader dropped, repaired or inferred) and remarks (what a pass or a model did,
 * declined, and why). Both are kept in the order of first use, so that the same inputs print the same bytes.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct EchDiag EchDiag;

/** One counter. A row with @fatal_if_strict counts something lost or repaired; the others only tell. */
typedef struct {
    const char *name;     /**< Lower-case, underscores: "frees_of_unknown_addresses". */
    uint64_t count;       /**< Times seen. */
    bool fatal_if_strict; /**< True for data dropped or repaired. */
    const char *first;    /**< Where it was first seen, or NULL. */
} EchDiagRow;

EchDiag *ech_diag_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_diag_free(EchDiag *diag);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchDiag, ech_diag_free)

/** Counts @n of something dropped or repaired. @where is printf-style, evaluated only the first time; NULL for nowhere. */
void ech_diag_dropped(EchDiag *diag, const char *name, uint64_t n, const char *where, ...) G_GNUC_PRINTF(4, 5);
/** Counts @n of something inferred or merely worth telling. */
void ech_diag_note(EchDiag *diag, const char *name, uint64_t n);
/** The rows, in order of first use; borrowed. */
const EchDiagRow *ech_diag_rows(const EchDiag *diag, size_t *ret_n);
uint64_t ech_diag_count(const EchDiag *diag, const char *name);
/** With --strict: false and ECH_ERROR_VERIFY naming the first dropped or repaired kind, if there is one. */
bool ech_diag_check_strict(const EchDiag *diag, GError **error);

/** A sentence about what was done, declined or assumed. */
void ech_diag_remark(EchDiag *diag, const char *format, ...) G_GNUC_PRINTF(2, 3);
/** The remark "@what taken from @path": where several captures are told of together it says nothing of them. */
void ech_diag_source(EchDiag *diag, const char *what, const char *path);
/** Whether a remark of ech_diag_remarks() is such a one. */
bool ech_diag_is_source(const EchDiag *diag, const char *remark);
/** The remarks, a NULL-terminated vector; borrowed. */
const char *const *ech_diag_remarks(const EchDiag *diag);
