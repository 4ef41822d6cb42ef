/** @file table.h
 * Runs side by side, from their JSON: sweeps and `echelon compare` print the same table.
 */
#pragma once
#include <json-glib/json-glib.h>
#include <stdbool.h>

/** One row: a finished run, or why there is none. */
typedef struct {
    const char *label;
    JsonObject *run;   /**< Borrowed; NULL where @error says why. */
    const char *error; /**< Borrowed, or NULL. */
    size_t base;       /**< Index of the row that its time is given relative to. */
    bool left_out;     /**< It did not come to run: nothing is to be told of it. */
} EchTableRow;

/** The table, with times relative to each row's base, in lines of at most @most columns (0: ECH_TEXT_COLUMNS; in parts where it is wider); ends with a newline.
 * Members that a run lacks are left blank. @heading: what the labels are. */
GString *ech_report_table(const char *heading, const EchTableRow *rows, size_t n, unsigned most) G_GNUC_WARN_UNUSED_RESULT;
/** What changed from run @a to run @b, in sentences: where time and bytes went. Empty where nothing did. */
GString *ech_report_difference(const char *label_a, JsonObject *a, const char *label_b, JsonObject *b) G_GNUC_WARN_UNUSED_RESULT;

/** Members of objects that may be anything: 0, NULL or false where they are not of that type. */
gint64 ech_member_int(JsonObject *object, const char *name);
double ech_member_double(JsonObject *object, const char *name);
const char *ech_member_text(JsonObject *object, const char *name);
JsonObject *ech_member_object(JsonObject *object, const char *name);
gboolean ech_member_bool(JsonObject *object, const char *name);
