#include "header.h"

#include <string.h>

/* What stands between the bracket at @open and its counterpart; NULL: there is none. */
static const char *close_of(const char *open)
{
    unsigned depth = 0;
    for (const char *at = open; *at; at++) {
        if (strchr("({[", *at))
            depth++;
        else if (strchr(")}]", *at) && --depth == 0)
            return at;
    }
    return NULL;
}

/* The text within KEY={...}, or NULL. Owned by the caller. */
static char *value_of(const char *line, const char *key)
{
    const char *at = strstr(line, key), *open = at ? at + strlen(key) : NULL, *end = open && *open == '{' ? close_of(open) : NULL;
    return end ? g_strndup(open + 1, (size_t)(end - open - 1)) : NULL;
}

/* Appends the array shapes in @text, "a, b, ...", comments between them passed over; one in parentheses is the members of a tuple. */
static bool read_shapes(const char *text, size_t n, GArray *shapes)
{
    const char *at = text, *end = text + n;
    while (at < end) {
        while (at < end && (*at == ' ' || *at == ','))
            at++;
        if (at + 1 < end && at[0] == '/' && at[1] == '*') {
            const char *close = g_strstr_len(at + 2, end - at - 2, "*/");
            if (!close)
                return false;
            at = close + 2;
            continue;
        }
        if (at == end)
            break;
        EchLayout shape;
        size_t used;
        if (!ech_layout_parse(at, (size_t)(end - at), &shape, &used, NULL) || used == 0)
            return false;
        g_array_append_val(shapes, shape);
        at += used;
        if (at < end && *at != ',')
            return false;
    }
    return true;
}

/* "{0}: (3, {}, may-alias), {}: (0, {}, must-alias)" */
static bool read_places(const char *text, TpuHeader *header)
{
    for (const char *at = strchr(text, '{'); at; at = strchr(at, '{')) {
        const char *close = close_of(at), *colon = close ? strstr(close, ": (") : NULL;
        if (!colon)
            return false;
        uint64_t result = at + 1 < close ? g_ascii_strtoull(at + 1, NULL, 10) : 0, parameter = g_ascii_strtoull(colon + 3, NULL, 10);
        if (result >= header->results->len || parameter >= header->parameters->len)
            return false;
        g_array_index(header->places, int32_t, result) = (int32_t)parameter;
        const char *end = close_of(colon + 2);
        if (!end)
            return false;
        at = end;
    }
    return true;
}

void tpu_header_clear(TpuHeader *header)
{
    g_clear_pointer(&header->parameters, g_array_unref);
    g_clear_pointer(&header->results, g_array_unref);
    g_clear_pointer(&header->places, g_array_unref);
}

bool tpu_header_read(const char *line, TpuHeader *ret)
{
    *ret = (TpuHeader){g_array_new(FALSE, TRUE, sizeof(EchLayout)), g_array_new(FALSE, TRUE, sizeof(EchLayout)), g_array_new(FALSE, TRUE, sizeof(int32_t))};
    g_autofree char *layouts = value_of(line, "entry_computation_layout="), *aliases = value_of(line, "input_output_alias=");
    const char *close = layouts && *layouts == '(' ? close_of(layouts) : NULL, *arrow = close && g_str_has_prefix(close, ")->") ? close + 3 : NULL;
    const char *tuple = arrow && *arrow == '(' ? close_of(arrow) : NULL;
    bool good = arrow && read_shapes(layouts + 1, (size_t)(close - layouts - 1), ret->parameters) &&
                (tuple ? read_shapes(arrow + 1, (size_t)(tuple - arrow - 1), ret->results) : read_shapes(arrow, strlen(arrow), ret->results));
    for (guint i = 0; good && i < ret->results->len; i++) {
        const int32_t nowhere = -1;
        g_array_append_val(ret->places, nowhere);
    }
    good = good && (!aliases || read_places(aliases, ret));
    if (!good)
        tpu_header_clear(ret);
    return good;
}
