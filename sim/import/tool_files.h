/** @file tool_files.h
 * What other tools print and write beside what they recorded: tables of sums, pages of viewers, programs that nothing has run. No reader makes a trace of them;
 * what they are and what to give instead, for the message of the refusal to read them. Borrowed texts.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/** How a program of JAX's that is not compiled yet becomes what is read. */
#define ECH_NOT_COMPILED                                                                                                                                       \
    "which no compiler has scheduled yet: 'echelon capture --pretend tpu-v5e -- python PROGRAM' has the real one compile it for a chip that is not there; "    \
    "jax.jit(f).lower(...).as_text(dialect='hlo') prints it as it is in what echelon reads"

/** Of a text that begins with the @n bytes @head; NULL: none of them. @beside: of what stands in logs beside other things, rather than of what is a file of its
 * own. */
const char *ech_tool_file_text(const char *head, size_t n, bool beside);
/** Of a JSON document whose first keys are @keys, in quotes and with commas between; NULL: none of them. */
const char *ech_tool_file_json(const char *keys);
/** Of a zip archive that begins with the @n bytes @head, by the names in it; NULL: none of them. */
const char *ech_tool_file_zip(const char *head, size_t n);
