/** @file output.h
 * A result folder that is written whole or not at all: files go to a folder beside it, which takes its name at the end, or in it, which gives them up then.
 */
#pragma once
#include <gio/gio.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct EchOutput EchOutput;

/** Whether a folder can be begun at @path, for what takes long before it has anything to write. G_FILE_ERROR. */
bool ech_output_check(const char *path, GError **error);
/** Begins a folder at @path. Results in one that is there already are replaced at the end, but only if it holds results of ours or nothing; what else lies
 * there stays. G_FILE_ERROR. */
EchOutput *ech_output_new(const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Writes one file; @name may have folders in front. */
bool ech_output_write(EchOutput *output, const char *name, const void *data, size_t n, GError **error);
/** Begins one that is written piece by piece, to end with ech_output_close(); NULL and G_FILE_ERROR. */
FILE *ech_output_open(EchOutput *output, const char *name, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** @written: whether all was; errno says why not. Closes @file. */
bool ech_output_close(EchOutput *output, const char *name, FILE *file, bool written, GError **error);
/** Gives the folder its name, or the results theirs. G_FILE_ERROR. */
bool ech_output_commit(EchOutput *output, GError **error);
/** Removes what was not committed. */
void ech_output_free(EchOutput *output);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchOutput, ech_output_free)

/** Writes one file whole or not at all (what is there and is no plain file, a pipe or a device, is written in place). G_FILE_ERROR "PATH: reason". */
bool ech_output_file(const char *path, const void *data, size_t n, GError **error);
