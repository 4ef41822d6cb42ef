/** @file text.h
 * Text for a terminal of so many columns: cells, wrapped sentences. Every character is taken to be one column wide.
 */
#pragma once
#include <glib.h>

/** Columns of tables in what is written to a file or a pipe; sentences are not broken there, so that each is a line to search for. */
enum { ECH_TEXT_COLUMNS = 120 };

/** Columns that @text takes. */
int ech_text_width(const char *text);
/** Appends @text cut in its middle to @width columns (at least 5), or filled up to them with blanks. */
void ech_text_cell(GString *out, const char *text, int width);
/** @text as valid UTF-8, cut in its middle to @width columns if it is wider (0 or less: whole). Owned by the caller. */
char *ech_text_short(const char *text, int width) G_GNUC_WARN_UNUSED_RESULT;
/** A C++ kernel's name as people know it: without what all of PyTorch's begin with, namespaces and the list of its arguments' types. Other names as they
 * are. Owned by the caller. */
char *ech_text_kernel(const char *name);
/** Appends @text in lines of at most @columns (0: one line), broken at blanks: the first line behind @first, the others behind as many blanks; ends with a
 * newline. */
void ech_text_wrap(GString *out, const char *first, const char *text, unsigned columns);
/** @text with its lines that are wider than @columns (0: none) broken likewise, each behind its own indent. Owned by the caller. */
GString *ech_text_fold(const char *text, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
