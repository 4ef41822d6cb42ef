#include "sim/import/json_stream.h"

#include "sim/base/error.h"

#include <string.h>

enum { WINDOW = 1 << 20, MAX_DEPTH = 512, MAX_TOKEN = 256 << 20 };
enum { EXPECT_VALUE, EXPECT_VALUE_OR_END, EXPECT_KEY_OR_END, EXPECT_COLON, EXPECT_COMMA_OR_END, EXPECT_NOTHING };

struct EchJson {
    EchSource *source;
    char *buffer; /* buffer[room + 1] */
    size_t room, at, end;
    size_t token;    /* where the current token begins; kept on refill */
    uint64_t before; /* bytes of the text before buffer[0] */
    uint64_t offset;
    bool eof;
    uint8_t expect;
    unsigned depth;
    uint8_t is_object[MAX_DEPTH];
    const char *text;
    size_t n_text;
    char saved; /* the byte a NUL was put over */
    char *saved_at;
    uint64_t repaired;
    GError *error;
};

EchJson *ech_json_new(EchSource *source)
{
    EchJson *json = g_new0(EchJson, 1);
    json->source = source;
    json->room = WINDOW;
    json->buffer = g_malloc(WINDOW + 1);
    json->token = SIZE_MAX;
    json->text = "";
    return json;
}

void ech_json_free(EchJson *json)
{
    if (!json)
        return;
    g_clear_error(&json->error);
    g_free(json->buffer);
    g_free(json);
}

const char *ech_json_text(const EchJson *json, size_t *ret_n)
{
    if (ret_n)
        *ret_n = json->n_text;
    return json->text;
}

unsigned ech_json_depth(const EchJson *json)
{
    return json->depth;
}

uint64_t ech_json_offset(const EchJson *json)
{
    return json->offset;
}

uint64_t ech_json_repaired(const EchJson *json)
{
    return json->repaired;
}

static EchJsonToken bad(EchJson *json, const char *what)
{
    if (!json->error)
        json->error =
            g_error_new(ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %" G_GUINT64_FORMAT ": %s", ech_source_path(json->source), json->before + json->at, what);
    return ECH_JSON_BAD;
}

bool ech_json_error(EchJson *json, GError **error)
{
    if (!json->error)
        json->error = g_error_new(ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %" G_GUINT64_FORMAT ": an unexpected kind of value here", ech_source_path(json->source),
                                  json->offset);
    g_propagate_error(error, g_error_copy(json->error));
    return false;
}

/* More bytes behind buffer[end), keeping those from the current token on. False at the end of the text or on an error. */
static bool refill(EchJson *json)
{
    if (json->eof || json->error)
        return false;
    size_t keep = MIN(json->at, json->token);
    memmove(json->buffer, json->buffer + keep, json->end - keep);
    json->before += keep;
    json->at -= keep;
    json->end -= keep;
    if (json->token != SIZE_MAX)
        json->token -= keep;
    if (json->end == json->room) {
        if (json->room >= MAX_TOKEN) {
            bad(json, "a string or number of more than 256 MiB");
            return false;
        }
        json->room *= 2;
        json->buffer = g_realloc(json->buffer, json->room + 1);
    }
    gssize got = ech_source_read(json->source, json->buffer + json->end, json->room - json->end, &json->error);
    json->eof = got <= 0;
    json->end += got > 0 ? (size_t)got : 0;
    return got > 0;
}

static void restore(EchJson *json)
{
    if (json->saved_at)
        *json->saved_at = json->saved;
    json->saved_at = NULL;
}

static void terminate(EchJson *json, size_t at)
{
    json->saved_at = json->buffer + at;
    json->saved = *json->saved_at;
    *json->saved_at = '\0';
}

/* The next byte that is not blank, not consumed; -1 at the end. */
static int next_byte(EchJson *json)
{
    for (;;) {
        while (json->at < json->end) {
            unsigned char c = (unsigned char)json->buffer[json->at];
            if (c > ' ')
                return c;
            json->at++;
        }
        if (!refill(json))
            return -1;
    }
}

static int hex4(const char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = g_ascii_xdigit_value(p[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Resolves escapes of buffer[from, to) in place; returns the new end. The result is never longer. */
static size_t unescape(EchJson *json, size_t from, size_t to)
{
    char *p = json->buffer + from, *end = json->buffer + to, *out = p;
    bool odd = false;
    while (p < end) {
        if (*p != '\\' || p + 1 >= end) {
            odd |= (unsigned char)*p < ' ';
            *out++ = *p++;
            continue;
        }
        static const char from_letters[] = "\"\\/bfnrt", to_letters[] = "\"\\/\b\f\n\r\t";
        const char *letter = p[1] ? strchr(from_letters, p[1]) : NULL;
        int code = p[1] == 'u' && end - p >= 6 ? hex4(p + 2) : -1;
        if (letter) {
            *out++ = to_letters[letter - from_letters];
            p += 2;
        } else if (code >= 0) {
            p += 6;
            int low = code >= 0xd800 && code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : -1;
            gunichar c = (gunichar)code;
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + (((gunichar)code - 0xd800) << 10) + ((gunichar)low - 0xdc00);
                p += 6;
            }
            if (c == 0 || (c >= 0xd800 && c < 0xe000))
                c = 0xfffd;
            out += g_unichar_to_utf8(c, out);
        } else {
            odd = true;
            *out++ = *p++;
        }
    }
    json->repaired += odd;
    return (size_t)(out - json->buffer);
}

/* From the opening quote: text is set, the closing quote consumed. */
static bool string(EchJson *json)
{
    json->at++;
    json->token = json->at;
    size_t scanned = json->at, stop;
    for (;;) {
        char *quote = memchr(json->buffer + scanned, '"', json->end - scanned);
        if (quote) {
            stop = (size_t)(quote - json->buffer);
            size_t slashes = 0;
            while (stop - slashes > json->token && json->buffer[stop - slashes - 1] == '\\')
                slashes++;
            if (slashes % 2 == 0)
                break;
            scanned = stop + 1;
            continue;
        }
        json->at = json->end;
        if (!refill(json)) {
            bad(json, "the text ends inside a string; the file is cut");
            return false;
        }
        scanned = json->at;
    }
    size_t begin = json->token, end = stop;
    bool odd = false;
    for (size_t i = begin; i < stop; i++)
        odd |= json->buffer[i] == '\\' || (unsigned char)json->buffer[i] < ' ';
    if (odd)
        end = unescape(json, begin, stop);
    json->at = stop + 1;
    json->text = json->buffer + begin;
    json->n_text = end - begin;
    terminate(json, end);
    json->token = SIZE_MAX;
    return true;
}

/* A number or a bare word (true, NaN, inf): every byte up to a delimiter. */
static bool word(EchJson *json)
{
    json->token = json->at;
    for (;;) {
        while (json->at < json->end) {
            unsigned char c = (unsigned char)json->buffer[json->at];
            if (c <= ' ' || c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || c == '{' || c == '[')
                break;
            json->at++;
        }
        if (json->at < json->end || !refill(json))
            break;
    }
    json->text = json->buffer + json->token;
    json->n_text = json->at - json->token;
    terminate(json, json->at);
    json->token = SIZE_MAX;
    return !json->error;
}

static uint8_t after_value(const EchJson *json)
{
    return json->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static EchJsonToken open_container(EchJson *json, bool object)
{
    if (json->depth >= MAX_DEPTH)
        return bad(json, "nested more than 512 deep");
    json->at++;
    json->is_object[json->depth++] = object;
    json->expect = object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return object ? ECH_JSON_OBJECT : ECH_JSON_ARRAY;
}

static EchJsonToken close_container(EchJson *json, bool object)
{
    if (json->depth == 0 || json->is_object[json->depth - 1] != object)
        return bad(json, "a bracket closes what was not opened");
    json->at++;
    json->depth--;
    json->expect = after_value(json);
    return object ? ECH_JSON_OBJECT_END : ECH_JSON_ARRAY_END;
}

static EchJsonToken bare(EchJson *json)
{
    static const struct {
        const char *text;
        EchJsonToken token;
    } words[] = {{"true", ECH_JSON_TRUE},       {"false", ECH_JSON_FALSE},     {"null", ECH_JSON_NULL},  {"NaN", ECH_JSON_NUMBER},
                 {"nan", ECH_JSON_NUMBER},      {"-nan", ECH_JSON_NUMBER},     {"inf", ECH_JSON_NUMBER}, {"-inf", ECH_JSON_NUMBER},
                 {"Infinity", ECH_JSON_NUMBER}, {"-Infinity", ECH_JSON_NUMBER}};
    if (!word(json))
        return ECH_JSON_BAD;
    char first = json->text[0] == '-' ? json->text[1] : json->text[0];
    json->expect = after_value(json);
    if (g_ascii_isdigit(first))
        return ECH_JSON_NUMBER;
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strcmp(json->text, words[i].text) == 0)
            return words[i].token;
    }
    return bad(json, "neither a value nor a bracket");
}

/* Commas and colons up to what comes next; -1 at the end of the text, -2 after an error. */
static int advance(EchJson *json)
{
    if (json->error)
        return -2;
    restore(json);
    int c = next_byte(json);
    if (json->expect == EXPECT_COLON) {
        if (c != ':') {
            bad(json, c < 0 ? "the text ends after a key; the file is cut" : "expected ':' after a key");
            return -2;
        }
        json->at++;
        json->expect = EXPECT_VALUE;
        c = next_byte(json);
    } else if (json->expect == EXPECT_COMMA_OR_END && c == ',') {
        json->at++;
        /* Some writers leave a comma before the closing bracket. */
        json->expect = json->is_object[json->depth - 1] ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
        c = next_byte(json);
    } else if (json->expect == EXPECT_COMMA_OR_END && c >= 0 && c != '}' && c != ']') {
        bad(json, "expected ',' or a closing bracket");
        return -2;
    }
    if (json->error)
        return -2;
    json->offset = json->before + json->at;
    return c;
}

EchJsonToken ech_json_next(EchJson *json)
{
    int c = advance(json);
    if (c == -2)
        return ECH_JSON_BAD;
    if (json->expect == EXPECT_NOTHING)
        return c < 0 ? ECH_JSON_END : bad(json, "more text after the end of the document");
    if (c < 0)
        return bad(json, json->depth ? "the text ends inside a bracket; the file is cut" : "the text is empty");
    if (c == '}' || c == ']')
        return json->expect == EXPECT_VALUE ? bad(json, "expected a value") : close_container(json, c == '}');
    if (json->expect == EXPECT_KEY_OR_END) {
        if (c != '"')
            return bad(json, "expected a key in quotes");
        if (!string(json))
            return ECH_JSON_BAD;
        json->expect = EXPECT_COLON;
        return ECH_JSON_KEY;
    }
    if (c == '{' || c == '[')
        return open_container(json, c == '{');
    if (c == '"') {
        if (!string(json))
            return ECH_JSON_BAD;
        json->expect = after_value(json);
        return ECH_JSON_STRING;
    }
    return bare(json);
}

/* From an opening quote to behind the closing one, keeping nothing. */
static bool skip_string(EchJson *json)
{
    json->at++;
    for (;;) {
        while (json->at < json->end) {
            char *p = json->buffer + json->at, *stop = json->buffer + json->end;
            while (p < stop && *p != '"' && *p != '\\')
                p++;
            json->at = (size_t)(p - json->buffer);
            if (p == stop)
                break;
            if (*p == '"') {
                json->at++;
                return true;
            }
            if (json->at + 1 >= json->end && !refill(json))
                break;
            json->at += 2;
        }
        if (!refill(json)) {
            bad(json, "the text ends inside a string; the file is cut");
            return false;
        }
    }
}

static bool skip_container(EchJson *json)
{
    static const uint8_t special[256] = {['"'] = 1, ['{'] = 2, ['['] = 2, ['}'] = 3, [']'] = 3};
    size_t open = 0;
    for (;;) {
        while (json->at < json->end) {
            uint8_t kind = special[(unsigned char)json->buffer[json->at]];
            if (kind == 0) {
                json->at++;
                continue;
            }
            if (kind == 1) {
                if (!skip_string(json))
                    return false;
                continue;
            }
            json->at++;
            open += kind == 2;
            if (kind == 3 && --open == 0)
                return true;
        }
        if (!refill(json)) {
            bad(json, "the text ends inside a bracket; the file is cut");
            return false;
        }
    }
}

bool ech_json_skip(EchJson *json)
{
    int c = advance(json);
    if (c == '{' || c == '[') {
        if (!skip_container(json))
            return false;
        json->expect = after_value(json);
        return true;
    }
    if (c == '"' && json->expect != EXPECT_KEY_OR_END) {
        if (!skip_string(json))
            return false;
        json->expect = after_value(json);
        return true;
    }
    EchJsonToken token = ech_json_next(json);
    return token != ECH_JSON_BAD && token != ECH_JSON_END && token != ECH_JSON_OBJECT_END && token != ECH_JSON_ARRAY_END;
}

bool ech_json_parse_i64(const char *text, size_t n, int64_t *ret)
{
    bool negative = n && text[0] == '-';
    size_t i = negative ? 1 : 0;
    uint64_t value = 0;
    if (i == n)
        return false;
    for (; i < n; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (value > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool ech_json_parse_us(const char *text, size_t n, int64_t *ret_us, int32_t *ret_ps)
{
    /* Digits without the point, at most 24 of them, and where the point stands. */
    bool negative = n && text[0] == '-';
    char digits[40];
    int n_digits = 0, point = -1, exponent = 0;
    size_t i = negative ? 1 : 0;
    if (i == n || !g_ascii_isdigit(text[i]))
        return false;
    for (; i < n; i++) {
        if (g_ascii_isdigit(text[i]) && n_digits < (int)sizeof digits)
            digits[n_digits++] = text[i];
        else if (text[i] == '.' && point < 0)
            point = n_digits;
        else if (text[i] == 'e' || text[i] == 'E') {
            int64_t value;
            size_t skip = i + 1 < n && text[i + 1] == '+';
            if (!ech_json_parse_i64(text + i + 1 + skip, n - i - 1 - skip, &value) || value > 30 || value < -30)
                return false;
            exponent = (int)value;
            break;
        } else if (!g_ascii_isdigit(text[i]))
            return false;
    }
    int whole = (point < 0 ? n_digits : point) + exponent;
    int64_t us = 0;
    int32_t ps = 0;
    for (int d = 0; d < whole; d++) {
        int digit = d < n_digits ? digits[d] - '0' : 0;
        if (us > (INT64_MAX - digit) / 10)
            return false;
        us = us * 10 + digit;
    }
    for (int d = 0; d < 6; d++) {
        int at = whole + d;
        ps = ps * 10 + (at >= 0 && at < n_digits ? digits[at] - '0' : 0);
    }
    if (negative) {
        us = -us - (ps != 0);
        ps = ps ? 1000000 - ps : 0;
    }
    *ret_us = us;
    *ret_ps = ps;
    return true;
}
