/** @file json_out.h
 * JSON as it is built and printed. Text is made valid UTF-8 on the way: names come from other people's files.
 */
#pragma once
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

/** Members of the object that is open. */
static inline void ech_json_add_int(JsonBuilder *b, const char *name, int64_t value)
{
    json_builder_set_member_name(b, name);
    json_builder_add_int_value(b, value);
}

/** Bytes and counts; saturates, because readers of JSON know signed numbers only. */
static inline void ech_json_add_count(JsonBuilder *b, const char *name, uint64_t value)
{
    ech_json_add_int(b, name, (int64_t)MIN(value, (uint64_t)INT64_MAX));
}

/* A negative one stands for none: null. */
static inline void ech_json_add_mean(JsonBuilder *b, const char *name, double value)
{
    json_builder_set_member_name(b, name);
    if (value < 0)
        json_builder_add_null_value(b);
    else
        json_builder_add_double_value(b, value);
}

static inline void ech_json_add_double(JsonBuilder *b, const char *name, double value)
{
    json_builder_set_member_name(b, name);
    json_builder_add_double_value(b, value);
}

static inline void ech_json_add_bool(JsonBuilder *b, const char *name, bool value)
{
    json_builder_set_member_name(b, name);
    json_builder_add_boolean_value(b, value);
}

/** @value NULL is "". */
static inline void ech_json_add_text(JsonBuilder *b, const char *name, const char *value)
{
    g_autofree char *valid = g_utf8_make_valid(value ? value : "", -1);
    json_builder_set_member_name(b, name);
    json_builder_add_string_value(b, valid);
}

/** Opens a member that is an object or an array. */
static inline void ech_json_begin_object(JsonBuilder *b, const char *name)
{
    json_builder_set_member_name(b, name);
    json_builder_begin_object(b);
}

static inline void ech_json_begin_array(JsonBuilder *b, const char *name)
{
    json_builder_set_member_name(b, name);
    json_builder_begin_array(b);
}

/** Appends a string with its quotes, for documents that are written as they come. */
static inline void ech_json_append_string(GString *out, const char *text)
{
    g_autofree char *valid = g_utf8_validate(text, -1, NULL) ? NULL : g_utf8_make_valid(text, -1);
    g_string_append_c(out, '"');
    for (const unsigned char *at = (const unsigned char *)(valid ? valid : text); *at; at++) {
        if (*at == '"' || *at == '\\')
            g_string_append_printf(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            g_string_append_printf(out, "\\u%04x", *at);
        else
            g_string_append_c(out, (char)*at);
    }
    g_string_append_c(out, '"');
}

/** The document, indented, with a line's end. Names of members are made valid here. Owned by the caller. */
static inline char *ech_json_print(JsonNode *root)
{
    char *text = json_to_string(root, TRUE);
    if (!g_utf8_validate(text, -1, NULL)) {
        char *valid = g_utf8_make_valid(text, -1);
        g_free(text);
        text = valid;
    }
    char *line = g_strconcat(text, "\n", NULL);
    g_free(text);
    return line;
}

/** The same of what was built. */
static inline char *ech_json_finish(JsonBuilder *b)
{
    g_autoptr(JsonNode) root = json_builder_get_root(b);
    return ech_json_print(root);
}
