#include "sim/import/lines.h"

#include "sim/base/error.h"

#include <string.h>

/* Numbers, for @list if that is not NULL, then perhaps a quoted text. False where a line is neither. */
static bool split(EchLines *lines, const char *at, const char *end, GArray *list)
{
    lines->n_fields = 0;
    if (list)
        g_array_set_size(list, 0);
    lines->quoted = NULL;
    while (at < end) {
        if (*at != ' ')
            return false;
        at++;
        if (at < end && *at == '"') {
            lines->quoted = ++at;
            for (; at < end && *at != '"'; at++)
                at += *at == '\\' && at + 1 < end;
            lines->n_quoted = (size_t)(at - lines->quoted);
            return at + 1 == end;
        }
        const char *begin = at;
        uint64_t value = 0;
        for (; at < end && g_ascii_isdigit(*at); at++) {
            if (__builtin_mul_overflow(value, UINT64_C(10), &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
                return false;
        }
        if (at == begin || (lines->n_fields == ECH_LINE_FIELDS && !list))
            return false;
        if (list)
            g_array_append_val(list, value);
        else
            lines->fields[lines->n_fields++] = value;
    }
    return true;
}

const char *ech_lines_text(GString *scratch, const char *quoted, size_t n)
{
    g_string_truncate(scratch, 0);
    for (size_t i = 0; i < n; i++) {
        if (quoted[i] == '\\' && i + 3 < n && quoted[i + 1] == 'x' && g_ascii_isxdigit(quoted[i + 2]) && g_ascii_isxdigit(quoted[i + 3])) {
            int c = g_ascii_xdigit_value(quoted[i + 2]) * 16 + g_ascii_xdigit_value(quoted[i + 3]);
            g_string_append_c(scratch, c > 0 && c < 0x80 ? (char)c : ' ');
            i += 3;
        } else {
            i += quoted[i] == '\\' && i + 1 < n;
            g_string_append_c(scratch, quoted[i]);
        }
    }
    return scratch->str;
}

char *ech_lines_word(const EchLines *lines)
{
    g_autofree char *raw = g_strndup(lines->quoted, MIN(lines->n_quoted, 20));
    return g_utf8_make_valid(raw, -1);
}

static bool read_line(EchLines *lines, const char *at, const char *end, const EchLineKind *kinds, size_t n_kinds, EchLineReader read, void *data,
                      GError **error)
{
    const char *space = memchr(at, ' ', (size_t)(end - at));
    size_t length = (size_t)((space ? space : end) - at);
    for (size_t i = 0; i < n_kinds; i++) {
        if (strlen(kinds[i].word) != length || memcmp(kinds[i].word, at, length) != 0)
            continue;
        bool list = kinds[i].fields == ECH_LINE_LIST;
        if (!split(lines, at + length, end, list ? lines->list : NULL) || lines->n_fields != (list ? 0 : kinds[i].fields) ||
            (lines->quoted != NULL) != kinds[i].text) {
            g_autofree char *numbers = list ? g_strdup("numbers") : g_strdup_printf("%u numbers", kinds[i].fields);
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: a %s line; expected %s%s", lines->where, lines->line, kinds[i].word, numbers,
                        kinds[i].text ? " and a text" : "");
            return false;
        }
        if (kinds[i].record)
            ech_diag_note(lines->records, kinds[i].record, 1);
        return read(i, data, error);
    }
    lines->n_fields = 0;
    lines->quoted = at;
    lines->n_quoted = length;
    return read(n_kinds, data, error);
}

bool ech_lines_read(EchLines *lines, const char *data, size_t n, const EchLineKind *kinds, size_t n_kinds, EchLineReader read, void *data_of_reader,
                    GError **error)
{
    const char *end = data + n;
    lines->line = 2;
    for (const char *at = data; at < end; lines->line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) {
            /* The program died while its last line was written. */
            ech_diag_dropped(lines->diag, "lines_cut_off", 1, "%s:%zu", lines->where, lines->line);
            break;
        }
        if (stop > at && !read_line(lines, at, stop, kinds, n_kinds, read, data_of_reader, error))
            return false;
        at = stop + 1;
    }
    if (!lines->ended)
        ech_diag_dropped(lines->diag, "captures_without_end", 1, "%s: the program ended before its capture was complete", lines->where);
    return true;
}
