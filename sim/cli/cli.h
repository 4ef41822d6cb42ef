/** @file cli.h
 * The command line: one file per verb, one table of verbs.
 *
 * To add a verb: write sim/cli/verb_NAME.c with `int ech_verb_NAME(int argc, char **argv)` and add a row to verbs.def.
 * A verb prints results to stdout and everything else to stderr, and returns an exit code below.
 */
#pragma once
#include "sim/base/param.h"

#include <glib.h>
#include <stdbool.h>

enum { ECH_EXIT_DONE = 0, ECH_EXIT_FAILED = 1, ECH_EXIT_USAGE = 2, ECH_EXIT_DOES_NOT_FIT = 3 };

/** A verb's row: argv[0] is the verb's name. */
typedef struct {
    const char *name;
    const char *usage;    /**< Arguments, as in the help. */
    const char *summary;  /**< One sentence. */
    const char *examples; /**< Command lines, one a line. */
    int (*run)(int argc, char **argv);
} EchVerb;

const EchVerb *ech_verbs(size_t *ret_n);

/* Every verb of the table: int ech_verb_NAME(int argc, char **argv). */
#define ECH_VERB(name, usage, summary, examples) int ech_verb_##name(int argc, char **argv);
#include "sim/cli/verbs.def"
#undef ECH_VERB

/** What ends with exit code 3, and what does not. */
#define ECH_CLI_DOES_NOT_FIT                                                                                                                                   \
    "the simulated workload does not fit: a result, with what did not fit, when, and what held the memory; of a sweep, nothing of it fits; of advise, it "     \
    "does "                                                                                                                                                    \
    "not fit and no measure but unified memory makes it"
/** What --beside takes. */
#define ECH_CLI_BESIDE                                                                                                                                         \
    "a second file of the same run to merge: a memory snapshot beside a Kineto profile, XLA's programs (a dump's folder, or one) beside a capture, a "         \
    "database of Nsight Systems or what rocprofv3 wrote, a JAX device memory profile beside anything"

/** Parses options of a verb with GOption (allowing them anywhere); remaining arguments go to *ret_rest (owned, NULL-terminated).
 * On failure prints the message and the verb's usage to stderr and returns false (exit code ECH_EXIT_USAGE). --help prints and exits 0. */
bool ech_cli_options(int argc, char **argv, const GOptionEntry *entries, char ***ret_rest);
/** Called with a verb's options in place of parsing them, for the manual and the completions. */
typedef void (*EchCliDescribe)(const GOptionEntry *entries, void *data);
/** From now on (NULL: no longer) ech_cli_options() hands options to @describe and returns false. */
void ech_cli_describe(EchCliDescribe describe, void *data);
/** The manual page (groff), made of the tables of verbs, options, passes, allocators, planners, formats and writers. */
GString *ech_cli_manual(void) G_GNUC_WARN_UNUSED_RESULT;
/** A completion script for "bash", "zsh" or "fish"; NULL for another shell. */
GString *ech_cli_completion(const char *shell) G_GNUC_WARN_UNUSED_RESULT;
/** Prints "echelon: MESSAGE" to stderr and returns ECH_EXIT_FAILED (ECH_EXIT_USAGE for ECH_ERROR_CONFIG). Frees the error. */
int ech_cli_fail(GError *error);
/** True if --device @name, or NULL, is a device: also where what was asked for can do without it. */
bool ech_cli_check_device(const char *name, GError **error);
/** Puts the path of the shipped trace of that name in the place of @name where no such file is here. */
void ech_cli_find_trace(char **name);
/** A progress bar on stderr if it is a terminal; @done of @total. Ends with done == total. */
void ech_cli_progress(const char *label, guint64 done, guint64 total);
/** Columns to write for: $COLUMNS where that is set, else the terminal's that stdout is, 60 to 240; 0 where stdout is none. */
unsigned ech_cli_columns(void);
/** What a parameter takes: "size", "a|b|c"; owned by the caller. */
char *ech_cli_param_takes(const EchParam *param) G_GNUC_WARN_UNUSED_RESULT;
/** Appends a line that stands further in where it goes on, wrapped for the terminal. */
void ech_cli_row(GString *out, const char *line);
/** Appends a line for each row: "NAME=TAKES (DEFAULT)  DOC", wrapped for the terminal. */
void ech_cli_params(GString *out, const EchParam *params);
/** What an experiment file says: keys, options of the replay and of products, an example. 'echelon help experiment'. */
GString *ech_cli_experiment_help(void) G_GNUC_WARN_UNUSED_RESULT;
/** What a device file says: its keys, what they take and mean, an example. 'echelon help device'. */
GString *ech_cli_device_help(void) G_GNUC_WARN_UNUSED_RESULT;
/** Questions that people have and the commands that answer them (questions.def), of those in which every one of @words stands; NULL where none is. Owned by the
 * caller. */
GString *ech_cli_questions_help(char *const *words) G_GNUC_WARN_UNUSED_RESULT;
/** Why none has all of @words: the first that no question has, with the nearest that one has. Owned by the caller. */
char *ech_cli_questions_lack(char *const *words) G_GNUC_WARN_UNUSED_RESULT;
/** Writes a string to stdout whole, made plain (ech_plain); exits 1 with a message if that fails (a closed pipe is silent). */
void ech_cli_print(const char *text);
/** The same of what is for no terminal. */
void ech_cli_print_bytes(const void *data, size_t n);
/** The same of what was written to stdout by others: whether all was (false: errno says why). */
void ech_cli_printed(bool all);
/** To stderr, made plain, where it tells what a file says. */
void ech_cli_say(const char *format, ...) G_GNUC_PRINTF(1, 2);
