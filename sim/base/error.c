#include "sim/base/error.h"

#include <string.h>

G_DEFINE_QUARK(ech - error - quark, ech_error)

char *ech_plain(const char *text)
{
    char *valid = g_utf8_make_valid(text, -1), *out = valid;
    for (const char *at = valid; *at;) {
        gunichar c = g_utf8_get_char(at);
        const char *next = g_utf8_next_char(at);
        if (c != '\n' && c != '\t' && (c < 0x20 || (c >= 0x7f && c < 0xa0))) {
            *out++ = '?';
        } else {
            memmove(out, at, (size_t)(next - at));
            out += next - at;
        }
        at = next;
    }
    *out = '\0';
    return valid;
}

char *ech_quote(const char *text, gssize n, gsize most)
{
    gsize length = n < 0 ? strlen(text) : (gsize)n, end = MIN(length, most);
    /* Back to where a character begins, at most the three bytes that may follow its first. */
    for (unsigned i = 0; i < 3 && end > 0 && end < length && ((guchar)text[end] & 0xc0) == 0x80; i++)
        end--;
    return g_utf8_make_valid(text, (gssize)end);
}
