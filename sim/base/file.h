/** @file file.h
 * Files as they are read, whole, in memory, and folders as they are removed.
 */
#pragma once
#include <glib.h>

/** Maps a file for reading, a pipe too, and standard input for "-" (from one thread at a time). What was read from a pipe is kept: the same path gives
 * it again. Owned by the caller. G_FILE_ERROR with "PATH: REASON". */
GMappedFile *ech_map_file(const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Removes a folder and everything in it; links are not followed. */
void ech_remove_tree(const char *path);
/** As a word of a shell: quoted where that has to be. Owned by the caller. */
char *ech_shell_word(const char *text) G_GNUC_WARN_UNUSED_RESULT;
