#include "sim/report/text.h"

#include <stdbool.h>
#include <string.h>

/* Names come from strangers' files: where they are no UTF-8, a character may seem to go on behind their end. */
static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

int ech_text_width(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += begins_character(*text);
    return n;
}

/* Where character @k begins; the end, where there are no more. */
static const char *character_at(const char *text, int k)
{
    for (; *text && (!begins_character(*text) || k-- > 0); text++)
        ;
    return text;
}

void ech_text_cell(GString *out, const char *text, int width)
{
    int n = ech_text_width(text);
    if (n <= width) {
        g_string_append_printf(out, "%s%*s", text, width - n, "");
        return;
    }
    /* Names of operations differ at both ends. */
    int head = (width - 3) / 2, tail = width - 3 - head;
    const char *head_end = character_at(text, head), *tail_start = character_at(text, n - tail);
    g_string_append_len(out, text, head_end - text);
    g_string_append(out, "...");
    g_string_append(out, tail_start);
}

char *ech_text_short(const char *text, int width)
{
    char *valid = g_utf8_make_valid(text, -1);
    if (width <= 0 || ech_text_width(valid) <= width)
        return valid;
    GString *out = g_string_new(NULL);
    ech_text_cell(out, valid, MAX(width, 5));
    g_free(valid);
    return g_string_free(out, FALSE);
}

/* Bytes up to the list of arguments' types: the first parenthesis outside of any template's brackets, or to the end. */
static size_t without_arguments(const char *name)
{
    static const char unnamed[] = "(anonymous namespace)";
    int depth = 0;
    for (const char *at = name; *at; at++) {
        if (g_str_has_prefix(at, unnamed)) {
            at += sizeof unnamed - 2;
        } else if (*at == '(' && depth == 0 && at > name) {
            return (size_t)(at - name);
        } else if (*at == '<') {
            depth++;
        } else if (*at == '>' && at > name && at[-1] != '-') {
            depth--;
        }
    }
    return strlen(name);
}

char *ech_text_kernel(const char *name)
{
    static const char *const said_by_all[] = {
        "(anonymous namespace)::", "gpu_kernel_impl_nocast<", "gpu_kernel_impl<", "at::native::", "c10::", "std::", "at::"};
    if (!g_str_has_prefix(name, "void ") && !strstr(name, "::"))
        return g_strdup(name);
    if (g_str_has_prefix(name, "void "))
        name += strlen("void ");
    g_autofree char *kept = g_strndup(name, without_arguments(name));
    g_autoptr(GString) out = g_string_new(NULL);
    bool starts = true; /* "at::" ends other words too; what has no name is said after any. */
    for (const char *at = kept; *at;) {
        size_t skip = 0;
        for (size_t i = 0; skip == 0 && i < (starts ? G_N_ELEMENTS(said_by_all) : 1); i++)
            skip = g_str_has_prefix(at, said_by_all[i]) ? strlen(said_by_all[i]) : 0;
        if (skip == 0) {
            starts = !g_ascii_isalnum(*at) && *at != '_' && *at != ':';
            g_string_append_c(out, *at++);
        }
        at += skip;
    }
    return out->len ? g_strdup(out->str) : g_strdup(name);
}

/* A number stays with its unit. */
static bool goes_with(const char *word, const char *next)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB",  "TiB",  "PiB",  "ps",   "ns",    "us",    "ms",
                                        "s", "%",   "B/s", "kB/s", "MB/s", "GB/s", "TB/s", "GOP/s", "TOP/s", "POP/s"};
    if (!*word || !g_ascii_isdigit(word[strlen(word) - 1]))
        return false;
    size_t n = strcspn(next, ".,;:)");
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strlen(units[i]) == n && strncmp(next, units[i], n) == 0)
            return true;
    }
    return false;
}

void ech_text_wrap(GString *out, const char *first, const char *text, unsigned columns)
{
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    int indent = ech_text_width(first), column = indent;
    g_string_append(out, first);
    bool start = true;
    for (char **word = words; *word; word++) {
        int length = ech_text_width(*word), whole = length;
        if (word[1] && goes_with(*word, word[1]))
            whole += 1 + ech_text_width(word[1]);
        if (!start && columns > 0 && column + 1 + whole > (int)columns && (word == words || !goes_with(word[-1], *word))) {
            if (out->str[out->len - 1] == ' ') /* of two blanks */
                g_string_truncate(out, out->len - 1);
            g_string_append_printf(out, "\n%*s", indent, "");
            column = indent;
            start = true;
        }
        g_string_append_printf(out, "%s%s", start ? "" : " ", *word);
        column += length + !start;
        start = false;
    }
    g_string_append_c(out, '\n');
}

GString *ech_text_fold(const char *text, unsigned columns)
{
    GString *out = g_string_new(NULL);
    for (const char *line = text, *end; *line; line = end) {
        end = strchrnul(line, '\n');
        g_autofree char *whole = g_strndup(line, (gsize)(end - line));
        end += *end == '\n';
        size_t indent = strspn(whole, " ");
        if (columns == 0 || ech_text_width(whole) <= (int)columns || indent >= columns / 2) {
            g_string_append_len(out, line, end - line);
            continue;
        }
        g_autofree char *first = g_strndup(whole, indent);
        ech_text_wrap(out, first, whole + indent, columns);
    }
    return out;
}
