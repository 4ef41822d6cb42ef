#include "sim/import/json_stream.h"

#include "sim/base/error.h"

#include <string.h>

enum { WINDOW = 256 << 10, WORD = 8, MAX_DEPTH = 512, MAX_TOKEN = 256 << 20, MAX_REPAIR = 64 << 10, MAX_KEY = 256 };
enum { EXPECT_VALUE, EXPECT_VALUE_OR_END, EXPECT_KEY_OR_END, EXPECT_COLON, EXPECT_COMMA_OR_END, EXPECT_NOTHING };

struct EchJson {
    EchSource *source;
    char *buffer; /* buffer[room + WORD]; WORD zeros behind end */
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
    bool more;     /* documents may follow one another */
    bool unclosed; /* the text ended between two values of the outermost container */
    char saved;    /* the byte a NUL was put over */
    char *saved_at;
    uint64_t repaired;
    GError *error;
};

EchJson *ech_json_new(EchSource *source)
{
    EchJson *json = g_new0(EchJson, 1);
    json->source = source;
    json->room = WINDOW;
    json->buffer = g_malloc0(WINDOW + WORD);
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

bool ech_json_unclosed(const EchJson *json)
{
    return json->unclosed;
}

bool ech_json_is_cut(const EchJson *json)
{
    return json->error && strstr(json->error->message, "the file is cut");
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
        json->buffer = g_realloc(json->buffer, json->room + WORD);
    }
    gssize got = ech_source_read(json->source, json->buffer + json->end, json->room - json->end, &json->error);
    json->eof = got <= 0;
    json->end += got > 0 ? (size_t)got : 0;
    memset(json->buffer + json->end, 0, WORD);
    return got > 0;
}

/* Eight bytes at a time: the functions below give a word with the top bit of a byte set where it is what they ask for. The lowest such byte is always
 * right; those above it may be wrong, by the borrow. What stands first in the text is lowest. */
#define EACH (~UINT64_C(0) / 255)

static uint64_t load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return GUINT64_FROM_LE(word);
}

static uint64_t bytes_that_are(uint64_t word, char c)
{
    word ^= EACH * (unsigned char)c;
    return (word - EACH) & ~word & EACH * 0x80;
}

static uint64_t bytes_below(uint64_t word, unsigned char c)
{
    return (word - EACH * c) & ~word & EACH * 0x80;
}

static size_t first_of(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

/* The next quote, backslash or control character from @at on; the zeros behind the end are such. */
static size_t scan_string(const EchJson *json, size_t at)
{
    for (;; at += WORD) {
        uint64_t word = load(json->buffer + at), marks = bytes_that_are(word, '"') | bytes_that_are(word, '\\') | bytes_below(word, ' ');
        if (marks)
            return MIN(at + first_of(marks), json->end);
    }
}

/* The next quote or bracket from @at on, or the end. */
static size_t scan_container(const EchJson *json, size_t at)
{
    for (; at < json->end; at += WORD) {
        uint64_t word = load(json->buffer + at), folded = word | EACH * 0x20; /* [ to {, ] to } */
        uint64_t marks = bytes_that_are(word, '"') | bytes_that_are(folded, '{') | bytes_that_are(folded, '}');
        if (marks)
            return MIN(at + first_of(marks), json->end);
    }
    return json->end;
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

/* Past blanks, of which there is one at least, or the end of what was read. */
static G_GNUC_NO_INLINE int behind_blanks(EchJson *json)
{
    for (;;) {
        while (json->at < json->end) {
            uint64_t word = load(json->buffer + json->at), more = (((word & EACH * 0x7f) + EACH * (0x7f - ' ')) | word) & EACH * 0x80;
            json->at += more ? first_of(more) : WORD;
            if (more)
                return (unsigned char)json->buffer[json->at];
        }
        json->at = json->end;
        if (!refill(json))
            return -1;
    }
}

/* The next byte that is not blank, not consumed; -1 at the end. */
static inline int next_byte(EchJson *json)
{
    unsigned char c = (unsigned char)json->buffer[json->at];
    if (c <= ' ')
        c = (unsigned char)json->buffer[json->at += json->at < json->end];
    return c > ' ' ? c : behind_blanks(json);
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

/* Resolves escapes of buffer[from, to) in place; returns the new end. The result is never longer. @odd: there is something else to repair. */
static size_t unescape(EchJson *json, size_t from, size_t to, bool odd)
{
    char *p = json->buffer + from, *end = json->buffer + to, *out = p;
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

/* The byte at buffer[token + offset], or -1 at the end of the text. */
static int peek(EchJson *json, size_t offset)
{
    while (json->token + offset >= json->end) {
        json->at = json->end;
        if (!refill(json))
            return -1;
    }
    return (unsigned char)json->buffer[json->token + offset];
}

/* The same, past blanks. */
static int peek_past_blanks(EchJson *json, size_t *offset)
{
    int c;
    while ((c = peek(json, *offset)) >= 0 && c <= ' ')
        ++*offset;
    return c;
}

/* Whether what stands at @offset is a key: a short string and a colon. */
static bool key_at(EchJson *json, size_t offset)
{
    if (peek_past_blanks(json, &offset) != '"')
        return false;
    for (size_t n = 0; n < MAX_KEY; n++) {
        if (peek(json, ++offset) == '"') {
            offset++;
            return peek_past_blanks(json, &offset) == ':';
        }
    }
    return false;
}

/* Profilers have written names with the quotes in them as they are. A quote ends its string where what follows is what follows a string there; after a quote
 * that does not (@repairing), a comma must also have a key behind it, so that f("a", "b") stays whole. */
static bool closes(EchJson *json, size_t offset, bool key, bool repairing)
{
    int c = peek_past_blanks(json, &offset);
    if (c < 0 || (!key && json->depth == 0))
        return true;
    if (key)
        return c == ':';
    if (!json->is_object[json->depth - 1])
        return c == ',' || c == ']';
    return c == '}' || (c == ',' && (!repairing || key_at(json, offset + 1)));
}

/* From the opening quote: text is set, the closing quote consumed. */
static bool string(EchJson *json, bool key)
{
    json->at++;
    json->token = json->at;
    size_t stop = json->at, kept = SIZE_MAX; /* where the first quote that ends nothing stands, from the token on */
    bool odd = false;
    for (;;) {
        stop = scan_string(json, stop);
        if (stop < json->end && json->buffer[stop] == '"') {
            size_t offset = stop - json->token;
            char next = json->buffer[stop + 1]; /* nearly always enough */
            bool ends = (key ? next == ':' : next == ',' && kept == SIZE_MAX) || closes(json, offset + 1, key, kept != SIZE_MAX);
            stop = json->token + offset; /* The buffer may have moved. */
            if (ends && !json->error)
                break;
            kept = MIN(kept, offset);
        }
        odd |= stop < json->end;
        size_t step = stop < json->end ? 1 + (json->buffer[stop] == '\\') : 0; /* What a backslash stands before ends nothing. */
        bool hopeless = kept != SIZE_MAX && stop - json->token - kept > MAX_REPAIR;
        if (stop + step < json->end && !hopeless) {
            stop += step;
            continue;
        }
        size_t done = stop + step - json->token;
        json->at = json->end;
        if (hopeless || !refill(json)) {
            json->at = kept != SIZE_MAX ? json->token + kept + 1 : json->at;
            bad(json, kept == SIZE_MAX ? "the text ends inside a string; the file is cut"
                      : key            ? "expected ':' after a key"
                                       : "expected ',' or a closing bracket");
            return false;
        }
        stop = json->token + done;
    }
    size_t begin = json->token, end = odd ? unescape(json, begin, stop, kept != SIZE_MAX) : stop;
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
    static const bool ends[256] = {[','] = true, ['}'] = true, [']'] = true, [':'] = true, ['"'] = true, ['{'] = true, ['['] = true};
    json->token = json->at;
    for (;;) {
        while ((unsigned char)json->buffer[json->at] > ' ' && !ends[(unsigned char)json->buffer[json->at]])
            json->at++;
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

void ech_json_allow_more(EchJson *json)
{
    json->more = true;
}

EchJsonToken ech_json_next(EchJson *json)
{
    int c = advance(json);
    if (c == -2)
        return ECH_JSON_BAD;
    if (json->expect == EXPECT_NOTHING) {
        if (c < 0 || !json->more)
            return c < 0 ? ECH_JSON_END
                         : bad(json, c == '{' || c == '[' ? "another document after the end of the first: are they two files? expected one of them"
                                                          : "more text after the end of the document");
        json->expect = EXPECT_VALUE;
    }
    json->unclosed = c < 0 && json->depth == 1 && !json->error;
    if (c < 0)
        return bad(json, json->depth ? "the text ends inside a bracket; the file is cut" : "the text is empty");
    if (c == '}' || c == ']')
        return json->expect == EXPECT_VALUE ? bad(json, "expected a value") : close_container(json, c == '}');
    if (json->expect == EXPECT_KEY_OR_END) {
        if (c != '"')
            return bad(json, "expected a key in quotes");
        if (!string(json, true))
            return ECH_JSON_BAD;
        json->expect = EXPECT_COLON;
        return ECH_JSON_KEY;
    }
    if (c == '{' || c == '[')
        return open_container(json, c == '{');
    if (c == '"') {
        if (!string(json, false))
            return ECH_JSON_BAD;
        json->expect = after_value(json);
        return ECH_JSON_STRING;
    }
    return bare(json);
}

/* Whether the quote at json->at ends a string, wherever that stands. */
static bool closes_somewhere(EchJson *json)
{
    size_t offset = 1;
    json->token = json->at;
    int c = peek_past_blanks(json, &offset);
    json->at = json->token;
    json->token = SIZE_MAX;
    return c < 0 || c == ',' || c == ':' || c == '}' || c == ']';
}

/* From an opening quote to behind the closing one, keeping nothing. */
static bool skip_string(EchJson *json)
{
    json->at++;
    for (;;) {
        json->at = scan_string(json, json->at);
        if (json->at < json->end) {
            char c = json->buffer[json->at];
            if (c == '"') {
                char next = json->buffer[json->at + 1]; /* nearly always enough */
                bool ends = next == ',' || next == ':' || closes_somewhere(json);
                json->at++;
                if (json->error || ends)
                    return !json->error;
                json->repaired++;
                continue;
            }
            if (c != '\\' || json->at + 1 < json->end) {
                json->at += c == '\\' ? 2 : 1;
                continue;
            }
        }
        if (!refill(json)) {
            json->at = json->end;
            bad(json, "the text ends inside a string; the file is cut");
            return false;
        }
    }
}

static bool skip_container(EchJson *json)
{
    size_t open = 0;
    for (;;) {
        json->at = scan_container(json, json->at);
        if (json->at == json->end) {
            if (refill(json))
                continue;
            bad(json, "the text ends inside a bracket; the file is cut");
            return false;
        }
        char c = json->buffer[json->at];
        if (c == '"') {
            if (!skip_string(json))
                return false;
            continue;
        }
        json->at++;
        open += c == '{' || c == '[';
        if ((c == '}' || c == ']') && --open == 0)
            return true;
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
    bool fits = n - i <= 19; /* as many digits fit 64 bits */
    for (; i < n; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || (!fits && value > (UINT64_MAX - digit) / 10))
            return false;
        value = value * 10 + digit;
    }
    if (value > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Digits, perhaps a point and more digits: what all but a few numbers are. */
static bool parse_plain_us(const char *text, size_t n, int64_t *ret_us, int32_t *ret_ps)
{
    enum { SURE = 18 }; /* digits that fit 64 bits */
    int64_t us = 0;
    int32_t ps = 0;
    size_t i = 0;
    for (; i < n && i < SURE && g_ascii_isdigit(text[i]); i++)
        us = us * 10 + (text[i] - '0');
    if (i == 0 || (i < n && text[i] != '.'))
        return false;
    int n_ps = 0;
    for (i++; i < n; i++) {
        if (!g_ascii_isdigit(text[i]))
            return false;
        if (n_ps < 6) {
            ps = ps * 10 + (text[i] - '0');
            n_ps++;
        }
    }
    for (; n_ps < 6; n_ps++)
        ps *= 10;
    *ret_us = us;
    *ret_ps = ps;
    return true;
}

bool ech_json_parse_us(const char *text, size_t n, int64_t *ret_us, int32_t *ret_ps)
{
    if (parse_plain_us(text, n, ret_us, ret_ps))
        return true;
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

bool ech_json_parse_whole(const char *text, size_t n, int64_t *ret)
{
    if (ech_json_parse_i64(text, n, ret))
        return true;
    int64_t whole;
    int32_t rest;
    if (!ech_json_parse_us(text, n, &whole, &rest) || rest != 0)
        return false;
    *ret = whole;
    return true;
}
