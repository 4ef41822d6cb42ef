/** @file lines.h
 * The captures of our own libraries: after a first line that names the format, lines of a word, numbers, and perhaps a quoted text at the end.
 */
#pragma once
#include "sim/base/diag.h"

enum { ECH_LINE_FIELDS = 12, ECH_LINE_LIST = 255 };

/** Lines that begin with @word. */
typedef struct {
    const char *word;
    const char *record; /**< What they are counted as in the file's records, or NULL. */
    unsigned fields;    /**< Numbers in them; ECH_LINE_LIST: as many as there are, in EchLines.list. */
    bool text;          /**< A quoted text follows. */
} EchLineKind;

/** The file, and the line that is being read. */
typedef struct {
    const char *where; /**< The file's name, for messages. */
    EchDiag *diag, *records;
    size_t line; /**< From 1. */
    uint64_t fields[ECH_LINE_FIELDS];
    unsigned n_fields;
    GArray *list;       /**< uint64_t; the reader's own. NULL where it has no such lines. */
    const char *quoted; /**< The text with its escapes, inside the file; NULL where there is none. */
    size_t n_quoted;
    bool ended; /**< Set by the reader at the line that ends a whole capture. */
} EchLines;

/** Takes a line of kinds[@which]; of @which = n_kinds only its word, quoted[n_quoted], is known. False stops the reading. */
typedef bool (*EchLineReader)(size_t which, void *data, GError **error);

/** Reads @n bytes from @data, the first line left out, line by line. A line cut off at the end, and a capture whose end was not read, are counted as dropped.
 * ECH_ERROR_PARSE for a line of a kind that has other numbers than it should, or what @read says. */
bool ech_lines_read(EchLines *lines, const char *data, size_t n, const EchLineKind *kinds, size_t n_kinds, EchLineReader read, void *data_of_reader,
                    GError **error);
/** A quoted text without its escapes, in @scratch, which it overwrites; control characters become blanks. */
const char *ech_lines_text(GString *scratch, const char *quoted, size_t n);
/** The beginning of the word of a line of no kind, as it can be shown. Owned by the caller. */
char *ech_lines_word(const EchLines *lines) G_GNUC_WARN_UNUSED_RESULT;
