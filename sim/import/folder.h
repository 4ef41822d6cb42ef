/** @file folder.h
 * What a folder stands for where a captured file is expected.
 */
#pragma once
#include "sim/import/import.h"

/** The file that @path stands for: itself, or of a folder the program or the profile in it (the last one of a TensorBoard log folder), the largest of
 * *ret_like of a kind. Owned by the caller. G_FILE_ERROR, ECH_ERROR_UNSUPPORTED where the folder has none. */
char *ech_import_file_in(const char *path, unsigned *ret_like, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The files in the folder @path, in order of their ranks, where they are captures of a program's ranks, each of which says whose it is, or is named by it; of
 * several of one rank the last by name (TensorBoard's names end in their time). NULL: it is no folder, or of no two ranks. Owned by the caller. */
char **ech_import_ranks_in(const char *path) G_GNUC_WARN_UNUSED_RESULT;
