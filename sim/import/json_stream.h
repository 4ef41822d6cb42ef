/** @file json_stream.h
 * A streaming JSON tokenizer for traces of gigabytes: one window of the text, never a document tree.
 *
 * It takes what real profilers write: raw control characters and invalid escapes inside strings are kept as they are and
 * counted (old writers did not escape kernel names), text is not checked to be UTF-8. Structure is checked, except inside
 * skipped values, where brackets are only counted.
 */
#pragma once
#include "sim/import/import.h"

typedef enum {
    ECH_JSON_END, /**< The document is over. */
    ECH_JSON_BAD, /**< Damaged; ech_json_error says how. Every later call gives it again. */
    ECH_JSON_OBJECT,
    ECH_JSON_OBJECT_END,
    ECH_JSON_ARRAY,
    ECH_JSON_ARRAY_END,
    ECH_JSON_KEY,
    ECH_JSON_STRING,
    ECH_JSON_NUMBER,
    ECH_JSON_TRUE,
    ECH_JSON_FALSE,
    ECH_JSON_NULL,
} EchJsonToken;

typedef struct EchJson EchJson;

/** Reads @source from its beginning; borrows it. */
EchJson *ech_json_new(EchSource *source) G_GNUC_WARN_UNUSED_RESULT;
void ech_json_free(EchJson *json);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchJson, ech_json_free)
/** From now on several documents may follow one another, with or without anything but blanks between them: ECH_JSON_END comes after the last. */
void ech_json_allow_more(EchJson *json);
/** The next token. */
EchJsonToken ech_json_next(EchJson *json);
/** Skips the next value whole (after a KEY, or the next element of an array). False on damage or where a container ends instead. */
bool ech_json_skip(EchJson *json);
/** Text of the last KEY, STRING (escapes resolved) or NUMBER (as written); NUL-terminated, borrowed until the next call. @ret_n may be NULL. */
const char *ech_json_text(const EchJson *json, size_t *ret_n);
/** Containers open; at most 512. */
unsigned ech_json_depth(const EchJson *json);
/** Byte offset of the last token in the unpacked text. */
uint64_t ech_json_offset(const EchJson *json);
/** Strings with invalid escapes, raw control characters or quotes of their own so far; of those skipped, the quotes. */
uint64_t ech_json_repaired(const EchJson *json);
/** Whether an ECH_JSON_BAD is only that the text ended, between two values of the outermost container. */
bool ech_json_unclosed(const EchJson *json);
/** Whether an ECH_JSON_BAD is only that the text, or the gzip data that it comes from, ended too early. */
bool ech_json_is_cut(const EchJson *json);
/** Sets the error of an ECH_JSON_BAD (or, with other tokens, "unexpected value here"); returns false. */
bool ech_json_error(EchJson *json, GError **error);

/** A number's text as an integer; false if it is not one or does not fit. */
bool ech_json_parse_i64(const char *text, size_t n, int64_t *ret);
/** The same, of a number that may be written as if it were none: 4096.0, 4e3. */
bool ech_json_parse_whole(const char *text, size_t n, int64_t *ret);
/** A decimal number of microseconds, in whole microseconds and picoseconds (0 to 999,999; digits beyond are cut).
 * Never through a double: absolute times have 16 digits. Exponents are accepted. */
bool ech_json_parse_us(const char *text, size_t n, int64_t *ret_us, int32_t *ret_ps);
