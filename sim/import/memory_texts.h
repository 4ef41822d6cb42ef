/** @file memory_texts.h
 * Texts about memory of which no reader makes a trace: messages without sizes, processes that were killed, faults that are taken for want of memory. What they
 * mean and what would tell more, for the message of the refusal to read them.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/** Whether the @n bytes of @text have a message that is known by its own words. */
bool ech_memory_text_is_known(const char *text, size_t n);
/** Whether it is a program in Python, without what it printed. */
bool ech_memory_text_is_program(const char *text, size_t n);
/** What the text means and what tells more; NULL where it is not about memory. Owned by the caller. */
char *ech_memory_text_describe(const char *text, size_t n) G_GNUC_WARN_UNUSED_RESULT;
/** Of a text that only names amounts of memory, in words that nothing reads, the first of them and what is read instead; NULL: it does not. Owned by the
 * caller. */
char *ech_memory_text_amounts(const char *text, size_t n) G_GNUC_WARN_UNUSED_RESULT;
