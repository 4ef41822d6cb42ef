/** @file pasted.h
 * Text as people paste it: lines without what launchers, loggers, containers, terminals and quoting put before them, and sentences put together again where a
 * terminal has wrapped them; with the few questions that readers of messages ask of a line.
 */
#pragma once
#include "sim/import/rounded.h"

/** A piece of text, within another's. @n 0: nothing. */
typedef struct {
    const char *text;
    size_t n;
} EchWords;

/** Without blanks around it. */
EchWords ech_words_trim(const char *text, size_t n);
bool ech_words_start(EchWords line, const char *prefix);
/** Where the first @key begins in @line; NULL: it is not there. */
const char *ech_words_find(EchWords line, const char *key);
bool ech_words_have(EchWords line, const char *key);
/** Whether the first @key in @sentence begins in @line, which the sentence begins with (ech_pasted_sentence); it may end behind it. */
bool ech_words_begin(EchWords line, EchWords sentence, const char *key);
/** What follows the first @key in @line, without blanks around it; nothing where it is not there. */
EchWords ech_words_after(EchWords line, const char *key);
/** The size that follows @key, maybe behind blanks and a colon or an equals sign; with commas between its digits. False: none, *ret untouched. */
bool ech_words_size_after(EchWords line, const char *key, EchRounded *ret);
/** The size that ends where the first @key begins ("129.48 MiB is reserved by PyTorch"). */
bool ech_words_size_before(EchWords line, const char *key, EchRounded *ret);
/** The number without a unit that follows @key, likewise; false too where it does not end at a word's end or is more than 64 bits. */
bool ech_words_number_after(EchWords line, const char *key, uint64_t *ret);

/** Whether @n bytes of @text begin with a record of a log in JSON, as services and clouds keep them: {"log": "...", "stream": "stderr"}. */
bool ech_pasted_is_record(const char *text, size_t n);

/** The @n bytes of @text with lines joined that a terminal broke at its width, words and numbers in two, as it gives them to who copies them, but not those of
 * paragraphs that were wrapped between words; NULL where it shows none. @sure: only where that can hardly be lines which end there by themselves. *ret_n: its
 * bytes. Owned by the caller. */
char *ech_pasted_joined(const char *text, size_t n, bool sure, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;

typedef struct EchPasted EchPasted;

/** Of @n bytes of @text, which must outlive it. Owned by the caller. */
EchPasted *ech_pasted_new(const char *text, size_t n) G_GNUC_WARN_UNUSED_RESULT;
void ech_pasted_free(EchPasted *pasted);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPasted, ech_pasted_free)

/** The next line, of any length; false at the end. */
bool ech_pasted_next(EchPasted *pasted, EchWords *ret_line);
/** What stood before the line that was returned last: "(EngineCore pid=27) ERROR 01-02 03:04:05 [core.py:5]". */
EchWords ech_pasted_before(const EchPasted *pasted);
/** The line that was returned last with those that may go on with its sentence, a blank between: up to an empty line, one that another log's
 * or a traceback's begins, or the ninth of them that is not wrapped between words. Until the next call of either. */
EchWords ech_pasted_sentence(EchPasted *pasted);
