/** @file support.h
 * What unit and property tests share. Where something cannot be had, these end the test with the reason; what they return is never NULL.
 */
#pragma once
#include "models/device/device.h"
#include "sim/experiment/experiment.h"
#include "sim/replay/replay.h"

#include <check.h>

/** Ends the test with the error's message unless @condition holds. */
#define ck_assert_ok(condition, error) ck_assert_msg(condition, "%s", (error) ? (error)->message : "and no error says why")

/** Runs @suite and frees it; the program's exit status. Its temporary folder is one in the build folder, removed at the end however the tests end. */
int ech_test_main(Suite *suite);
/** True where there is no such file or folder; says so, as the reason for leaving a test out. */
bool ech_test_lacks(const char *path);

/** Reads a file. @options may be NULL. Owned by the caller. */
EchImport *ech_test_import(const char *path, const EchImportOptions *options) G_GNUC_WARN_UNUSED_RESULT;
/** Reads "FORMAT/FILE" of the fuzzers' corpora, and fails unless it is taken for that format (@format NULL: any). Owned by the caller. */
EchImport *ech_test_corpus(const char *name, const char *format) G_GNUC_WARN_UNUSED_RESULT;
/** The same, or NULL and why it cannot be read. */
EchImport *ech_test_try_corpus(const char *name, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Reads a text of whatever format; NULL and why where it cannot be read. */
EchImport *ech_test_text(const char *text, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Writes an SQLite database that @sql fills, to a new file among the test's temporary ones; its path, owned by the caller. */
char *ech_test_database(const char *sql) G_GNUC_WARN_UNUSED_RESULT;
/** One of the remarks says @text. */
bool ech_test_says(const EchDiag *diag, const char *text);
/** Reads a program's text without looking beside it; @device may be NULL. Owned by the caller. */
EchImport *ech_test_hlo(const char *text, const char *device) G_GNUC_WARN_UNUSED_RESULT;
/** The program of that text. Owned by the caller. */
EchProgram *ech_test_program(const char *text, const char *device) G_GNUC_WARN_UNUSED_RESULT;
/** Gives a program the assignment of echelon's own unless it has one. */
void ech_test_assign(EchImport *import);

/** Loads a device by name or path with edits ("device." left out), NULL: none. Owned by the caller. */
EchDevice *ech_test_device(const char *name, const char *const *settings) G_GNUC_WARN_UNUSED_RESULT;
/** Name of the device that a shipped program was compiled for, by its folder's ending: "gpt_offload.v5e", "mlp_none.h100". Owned by the caller. */
char *ech_test_device_of(const char *program) G_GNUC_WARN_UNUSED_RESULT;
/** The device that the YAML says. Owned by the caller. */
EchDevice *ech_test_device_yaml(const char *text) G_GNUC_WARN_UNUSED_RESULT;
/** Replays on the native engine with default options. Owned by the caller. */
EchRun *ech_test_replay(const EchTrace *trace, const EchDevice *device) G_GNUC_WARN_UNUSED_RESULT;
/** The one run that @overrides describe. Owned by the caller. */
EchResult *ech_test_run(const EchExperimentOverrides *overrides) G_GNUC_WARN_UNUSED_RESULT;

/** Index of the instruction of that name. */
EchId ech_test_instruction(const EchProgram *program, const char *name);
/** The buffer of that name. Borrowed. */
const EchBuffer *ech_test_find_buffer(const EchTrace *trace, const char *name);
/** The first operation of that kind and name (NULL: any). Borrowed. */
const EchOp *ech_test_op(const EchTrace *trace, EchOpKind kind, const char *name);
/** Number of operations of that kind. */
size_t ech_test_count(const EchTrace *trace, EchOpKind kind);
