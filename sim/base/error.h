/** @file error.h
 * The one GError domain of echelon. Input and output keep G_FILE_ERROR / G_IO_ERROR.
 *
 * Every message gives the place (file:line:column or byte offset), the value met and what was expected.
 * A simulated out-of-memory is a result, never an error.
 */
#pragma once
#include <glib.h>

#define ECH_ERROR (ech_error_quark())

/** What went wrong, for callers that must tell cases apart. */
typedef enum {
    ECH_ERROR_PARSE,       /**< Bytes that are not of the format they claim. */
    ECH_ERROR_VERIFY,      /**< Well-formed input that breaks an invariant. */
    ECH_ERROR_CONFIG,      /**< A device, experiment, parameter or command line that says something impossible. */
    ECH_ERROR_UNSUPPORTED, /**< Valid input that echelon does not model. */
    ECH_ERROR_BACKEND,     /**< An engine or a driver failed or is absent. */
} EchError;

GQuark ech_error_quark(void);

/** The first @most bytes of the @n of @text (a negative @n: up to its zero byte) as valid UTF-8, with no character cut in two: for messages and tables that
 * quote what others wrote. Owned by the caller. */
char *ech_quote(const char *text, gssize n, gsize most) G_GNUC_WARN_UNUSED_RESULT;

/** @text as valid UTF-8 without control characters but ends of lines and tabs, which are "?" instead: what others wrote could tell a terminal what to do.
 * Owned by the caller. */
char *ech_plain(const char *text) G_GNUC_WARN_UNUSED_RESULT;
