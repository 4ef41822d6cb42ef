#include "sim/import/pasted.h"

#include <string.h>

enum { MAX_PREFIXES = 8, MAX_GROUP = 96, MAX_CONTINUED = 8, MAX_WRAPPED = 32, MAX_SENTENCE = 4096 };

struct EchPasted {
    char *clean; /* the text without escapes, where it has some */
    EchWords text;
    size_t next;           /* the line after the last one returned */
    EchWords line, before; /* the last one, and what stood before it */
    GString *sentence;
};

/* ---- words ---- */

EchWords ech_words_trim(const char *text, size_t n)
{
    while (n && g_ascii_isspace(*text))
        text++, n--;
    while (n && g_ascii_isspace(text[n - 1]))
        n--;
    return (EchWords){text, n};
}

/* A byte of @key that lines seldom have: neither a letter of most words nor a blank. */
static size_t rare_byte(const char *key, size_t n)
{
    static const bool often[26] = {['a' - 'a'] = 1, ['c' - 'a'] = 1, ['d' - 'a'] = 1, ['e' - 'a'] = 1, ['i' - 'a'] = 1, ['l' - 'a'] = 1, ['m' - 'a'] = 1,
                                   ['n' - 'a'] = 1, ['o' - 'a'] = 1, ['r' - 'a'] = 1, ['s' - 'a'] = 1, ['t' - 'a'] = 1, ['u' - 'a'] = 1};
    for (size_t i = 0; i < n; i++) {
        if (key[i] != ' ' && !(g_ascii_islower(key[i]) && often[key[i] - 'a']))
            return i;
    }
    return 0;
}

/* Readers ask hundreds of keys of a line, and hardly any is there: where one byte of a key is not, the key is not. */
const char *ech_words_find(EchWords line, const char *key)
{
    size_t n = strlen(key);
    if (n == 0 || line.n < n)
        return n == 0 && line.n ? line.text : NULL;
    size_t rare = rare_byte(key, n);
    const char *at = line.text, *last = line.text + line.n - n;
    for (; at <= last; at++) {
        const char *seen = memchr(at + rare, key[rare], (size_t)(last - at) + 1);
        if (!seen)
            return NULL;
        at = seen - rare;
        if (memcmp(at, key, n) == 0)
            return at;
    }
    return NULL;
}

bool ech_words_start(EchWords line, const char *prefix)
{
    size_t n = strlen(prefix);
    return line.n >= n && memcmp(line.text, prefix, n) == 0;
}

bool ech_words_have(EchWords line, const char *key)
{
    return ech_words_find(line, key) != NULL;
}

bool ech_words_begin(EchWords line, EchWords sentence, const char *key)
{
    const char *at = ech_words_find(sentence, key);
    return at && (size_t)(at - sentence.text) < line.n;
}

EchWords ech_words_after(EchWords line, const char *key)
{
    const char *at = ech_words_find(line, key);
    if (!at)
        return (EchWords){line.text, 0};
    at += strlen(key);
    return ech_words_trim(at, (size_t)(line.text + line.n - at));
}

/* What follows @key, a colon and blanks. */
static EchWords value_of(EchWords line, const char *key)
{
    EchWords rest = ech_words_after(line, key);
    return rest.n && (*rest.text == ':' || *rest.text == '=') ? ech_words_trim(rest.text + 1, rest.n - 1) : rest;
}

/* Whether the commas of the number that @text begins with divide thousands. */
static bool divides_thousands(EchWords text)
{
    size_t group = 0, groups = 0;
    for (size_t i = 0; i < text.n && (g_ascii_isdigit(text.text[i]) || text.text[i] == ','); i++) {
        if (text.text[i] != ',') {
            group++;
            continue;
        }
        if (group == 0 || group > 3 || (groups && group != 3))
            return false;
        group = 0;
        groups++;
    }
    return group == 3;
}

bool ech_words_size_after(EchWords line, const char *key, EchRounded *ret)
{
    EchWords rest = value_of(line, key);
    size_t used, n = 0, digits = 0;
    if (ech_rounded_parse(rest.text, rest.n, ret, &used))
        return true;
    /* 3,635,267,072 bytes; and 8192,50 MiB, as programs print where a comma stands before decimals. */
    char plain[48];
    bool thousands = divides_thousands(rest);
    for (; n < rest.n && (g_ascii_isdigit(rest.text[n]) || rest.text[n] == ',') && digits < 24; n++) {
        if (rest.text[n] != ',')
            plain[digits++] = rest.text[n];
        else if (!thousands)
            plain[digits++] = '.';
    }
    for (; digits && n < rest.n && digits < sizeof plain && (rest.text[n] == ' ' || g_ascii_isalpha(rest.text[n])); n++)
        plain[digits++] = rest.text[n];
    return digits && ech_rounded_parse(plain, digits, ret, &used);
}

bool ech_words_size_before(EchWords line, const char *key, EchRounded *ret)
{
    const char *at = ech_words_find(line, key);
    if (!at)
        return false;
    EchWords before = ech_words_trim(line.text, (size_t)(at - line.text));
    size_t begin = before.n, used;
    EchRounded size;
    /* One word, "6.00GiB", or two, "6.00 GiB". */
    for (int words = 0; words < 2 && begin > 0; words++) {
        while (begin > 0 && before.text[begin - 1] == ' ')
            begin--;
        while (begin > 0 && before.text[begin - 1] != ' ' && before.text[begin - 1] != '(')
            begin--;
        if (ech_rounded_parse(before.text + begin, before.n - begin, &size, &used) && begin + used == before.n) {
            *ret = size;
            return true;
        }
    }
    return false;
}

bool ech_words_number_after(EchWords line, const char *key, uint64_t *ret)
{
    EchWords rest = value_of(line, key);
    uint64_t value = 0;
    size_t n = 0;
    for (; n < rest.n && g_ascii_isdigit(rest.text[n]); n++) {
        unsigned digit = (unsigned)(rest.text[n] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (n == 0 || (n < rest.n && (g_ascii_isalnum(rest.text[n]) || (rest.text[n] == '.' && n + 1 < rest.n && g_ascii_isdigit(rest.text[n + 1])))))
        return false;
    *ret = value;
    return true;
}

/* ---- lines ---- */

/* Bytes of a colour or cursor command of a terminal at @at, of @n; 0: none. */
static size_t escape(const char *at, size_t n)
{
    size_t i = 2;
    if (n < 3 || at[0] != '\x1b' || at[1] != '[')
        return 0;
    while (i < n && i < 24 && (g_ascii_isdigit(at[i]) || at[i] == ';' || at[i] == '?'))
        i++;
    return i < n && g_ascii_isalpha(at[i]) ? i + 1 : 0;
}

/* Whether @line is of a message whose line breaks were written as two letters: a record of a log in JSON, what Python's repr() prints. */
static bool is_quoted(EchWords line)
{
    return ech_words_have(line, "\\n") && ech_words_have(line, "emory");
}

/* Whether the cursor goes back to the line's begin at @at, of @n bytes, and something is written over what stood there: "5%|#   |\r6%|#   |". */
static bool goes_back(const char *at, size_t n)
{
    return n > 1 && at[0] == '\r' && at[1] != '\n' && at[1] != '\r';
}

static bool has_overwritten(EchWords text)
{
    const char *end = text.text + text.n, *at = text.text;
    while ((at = memchr(at, '\r', (size_t)(end - at))) && !goes_back(at, (size_t)(end - at)))
        at++;
    return at != NULL;
}

/* Without terminals' commands, and with line breaks for what stands for them. */
static char *cleaned(const char *text, size_t n, size_t *ret_n)
{
    GString *out = g_string_sized_new(n + 1);
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t stop = end ? (size_t)(end - text) + 1 : n;
        bool quoted = is_quoted((EchWords){text + at, stop - at});
        while (at < stop) {
            size_t skipped = escape(text + at, stop - at);
            char next = at + 1 < stop ? text[at + 1] : '\0';
            bool letter = quoted && text[at] == '\\' && next && strchr("nrt\"'", next);
            if (goes_back(text + at, stop - at))
                g_string_append_c(out, '\n');
            else if (skipped == 0)
                g_string_append_c(out, !letter ? text[at] : next == 'n' ? '\n' : next == '"' || next == '\'' ? next : ' ');
            at += skipped ? skipped : letter ? 2 : 1;
        }
    }
    *ret_n = out->len;
    return g_string_free(out, FALSE);
}

/* What a record of a log in JSON says, within its quotes; false where @line is none. */
static bool read_record(EchWords line, EchWords *ret_message)
{
    static const char *const keys[] = {"\"message\"", "\"msg\"", "\"log\"", "\"textPayload\""};
    line = ech_words_trim(line.text, line.n);
    for (size_t i = 0; i < G_N_ELEMENTS(keys) && ech_words_start(line, "{"); i++) {
        EchWords value = value_of(line, keys[i]);
        size_t n = 1;
        while (n < value.n && value.text[n] != '"')
            n += value.text[n] == '\\' ? 2 : 1;
        if (value.n && *value.text == '"' && n < value.n) {
            *ret_message = (EchWords){value.text + 1, n - 1};
            return true;
        }
    }
    return false;
}

/* A text in JSON without what stands for other characters, and without an end of its line. */
static void append_json(GString *out, EchWords text)
{
    static const char letters[] = "nrtbf", characters[] = "\n\r\t  ";
    gsize begin = out->len;
    for (size_t i = 0; i < text.n; i++) {
        char next = text.text[i] == '\\' && i + 1 < text.n ? text.text[++i] : '\0';
        const char *letter = next ? strchr(letters, next) : NULL;
        if (next == 'u' && i + 4 < text.n) {
            g_autofree char *digits = g_strndup(text.text + i + 1, 4);
            guint64 code = g_ascii_strtoull(digits, NULL, 16);
            g_string_append_unichar(out, code && g_unichar_validate((gunichar)code) ? (gunichar)code : ' ');
            i += 4;
        } else {
            g_string_append_c(out, letter ? characters[letter - letters] : next ? next : text.text[i]);
        }
    }
    while (out->len > begin && g_ascii_isspace(out->str[out->len - 1]))
        g_string_truncate(out, out->len - 1);
}

/* A log in JSON, a record on each line, as the text that it was of. */
static char *unwrapped(const char *text, size_t n, size_t *ret_n)
{
    GString *out = g_string_sized_new(n + 1);
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t stop = end ? (size_t)(end - text) : n;
        EchWords line = {text + at, stop - at}, message;
        if (read_record(line, &message))
            append_json(out, message);
        else
            g_string_append_len(out, line.text, (gssize)line.n);
        g_string_append_c(out, '\n');
        at = stop + 1;
    }
    *ret_n = out->len;
    return g_string_free(out, FALSE);
}

bool ech_pasted_is_record(const char *text, size_t n)
{
    const char *end = n ? memchr(text, '\n', n) : NULL;
    EchWords message;
    return read_record((EchWords){text, end ? (size_t)(end - text) : n}, &message);
}

EchPasted *ech_pasted_new(const char *text, size_t n)
{
    EchPasted *p = g_new0(EchPasted, 1);
    p->text = (EchWords){text, n};
    p->sentence = g_string_new(NULL);
    g_autofree char *plain = ech_pasted_is_record(text, n) ? unwrapped(text, n, &p->text.n) : NULL;
    if (plain)
        p->text.text = plain;
    if (p->text.n && (memchr(p->text.text, '\x1b', p->text.n) || memmem(p->text.text, p->text.n, "\\n", 2) || has_overwritten(p->text))) {
        p->clean = cleaned(p->text.text, p->text.n, &p->text.n);
        p->text.text = p->clean;
    } else if (plain) {
        p->clean = g_steal_pointer(&plain);
    }
    return p;
}

void ech_pasted_free(EchPasted *p)
{
    if (!p)
        return;
    g_free(p->clean);
    g_string_free(p->sentence, TRUE);
    g_free(p);
}

/* Bytes of the group that @line begins with, from @open to @close; 0: none. */
static size_t group(EchWords line, char open, char close)
{
    const char *end = line.n && *line.text == open ? memchr(line.text, close, MIN(line.n, (size_t)MAX_GROUP)) : NULL;
    return end ? (size_t)(end - line.text) + 1 : 0;
}

/* Whether @text goes as @form: "dd:dd:dd", where d is a digit and - what may divide the parts of a date. */
static bool goes_as(EchWords text, const char *form)
{
    size_t n = strlen(form);
    for (size_t i = 0; i < n && n <= text.n; i++) {
        bool fits = form[i] == 'd' ? g_ascii_isdigit(text.text[i]) : form[i] == '-' ? text.text[i] == '-' || text.text[i] == '/' : text.text[i] == form[i];
        if (!fits)
            return false;
    }
    return n <= text.n;
}

/* A time, with its date or without, as loggers and container runtimes put it before each line: "2026-01-02T03:04:05.6Z ", "2026/01/02 03:04:05,678 ",
 * "03:04:05.6: ". */
static size_t timestamp(EchWords line)
{
    static const char date[] = "dddd-dd-dd";
    bool dated = goes_as(line, date) && line.n > sizeof date && (line.text[sizeof date - 1] == 'T' || line.text[sizeof date - 1] == ' ');
    size_t n = dated ? sizeof date : 0;
    if (!goes_as((EchWords){line.text + n, line.n - n}, "dd:dd:dd"))
        return 0;
    while (n < line.n && line.text[n] && (g_ascii_isdigit(line.text[n]) || strchr(":.,Z+-", line.text[n])))
        n++;
    return (n == line.n || line.text[n] == ' ') && line.text[n - 1] != ',' ? n : 0;
}

/* "Dec 31 01:55:57 host ollama[555324]: ", of the journal. */
static size_t journal(EchWords line)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    g_autofree char *month = g_strndup(line.text, MIN(line.n, (size_t)3));
    const char *at = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (!at || (at - months) % 3 != 0 || line.n < 17 || line.text[3] != ' ' || !goes_as((EchWords){line.text + 7, line.n - 7}, "dd:dd:dd "))
        return 0;
    const char *end = memmem(line.text + 16, MIN(line.n - 16, (size_t)MAX_GROUP), ": ", 2);
    return end ? (size_t)(end - line.text) + 1 : 0;
}

/* Of Python's logging: "root - ERROR - ", "- app.main - WARNING - ", "ERROR:root:". */
static size_t logger(EchWords line)
{
    static const char *const levels[] = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};
    for (size_t i = 0; i < G_N_ELEMENTS(levels); i++) {
        g_autofree char *amid = g_strdup_printf(" - %s - ", levels[i]);
        const char *at = memmem(line.text, MIN(line.n, (size_t)MAX_GROUP), amid, strlen(amid));
        if (at)
            return (size_t)(at - line.text) + strlen(amid) - 1;
        size_t n = strlen(levels[i]);
        if (!ech_words_start(line, levels[i]) || n + 1 >= line.n || line.text[n] != ':')
            continue;
        for (n++; n < line.n && (g_ascii_isalnum(line.text[n]) || strchr("._", line.text[n])) && line.text[n]; n++)
            ;
        if (n < line.n && line.text[n] == ':' && line.text[n - 1] != ':')
            return n + 1;
    }
    return 0;
}

/* "vllm-1  | ", of docker compose; a number alone is a table's first column. */
static size_t service(EchWords line)
{
    size_t n = 0;
    bool named = false;
    for (; n < line.n && (g_ascii_isalnum(line.text[n]) || (line.text[n] && strchr("-_.", line.text[n]))); n++)
        named |= g_ascii_isalpha(line.text[n]);
    size_t name = n;
    while (n < line.n && line.text[n] == ' ')
        n++;
    return named && n > name && n + 1 < line.n && line.text[n] == '|' && line.text[n + 1] == ' ' ? n + 1 : 0;
}

/* "0: ", the task of srun. */
static size_t task(EchWords line)
{
    size_t n = 0;
    while (n < line.n && g_ascii_isdigit(line.text[n]))
        n++;
    return n && n < 7 && n + 1 < line.n && line.text[n] == ':' && line.text[n + 1] == ' ' ? n + 1 : 0;
}

/* "app.main:step:12 - ", where loguru has a message come from. */
static size_t place(EchWords line)
{
    size_t n = 0, colons = 0, digits = 0;
    for (; n < line.n && (g_ascii_isalnum(line.text[n]) || (line.text[n] && strchr("_.<>:", line.text[n]))); n++) {
        colons += line.text[n] == ':';
        digits = g_ascii_isdigit(line.text[n]) ? digits + 1 : 0;
    }
    return colons == 2 && digits && line.text[n - 1 - digits] == ':' && ech_words_start((EchWords){line.text + n, line.n - n}, " - ") ? n + 2 : 0;
}

/* What services put before each line in columns: "1767614624123	" (AWS), "build	Run tests	2026-01-02T03:04:05.6Z " (GitHub, whose time stays). */
static size_t columns(EchWords line)
{
    size_t n = 0;
    while (n < line.n && g_ascii_isdigit(line.text[n]))
        n++;
    if (n == 13 && n < line.n && line.text[n] == '\t')
        return n + 1;
    const char *tab = memchr(line.text, '\t', MIN(line.n, (size_t)MAX_GROUP));
    const char *next = tab ? memchr(tab + 1, '\t', MIN(line.n - (size_t)(tab + 1 - line.text), (size_t)MAX_GROUP)) : NULL;
    EchWords rest = next ? (EchWords){next + 1, line.n - (size_t)(next + 1 - line.text)} : (EchWords){line.text, 0};
    return rest.n && goes_as(rest, "dddd-dd-ddT") && timestamp(rest) ? (size_t)(rest.text - line.text) : 0;
}

/* "  5%|#5   | 100/2000 [01:00<19:00, 1.7it/s]", a bar of tqdm whose line something else was written behind. */
static size_t bar(EchWords line)
{
    enum { LONGEST = 512 };
    EchWords head = {line.text, MIN(line.n, (size_t)LONGEST)};
    const char *percent = ech_words_find(head, "%|"), *begin = percent;
    while (begin && begin > line.text && g_ascii_isdigit(begin[-1]))
        begin--;
    if (begin == percent || (begin > line.text && begin[-1] != ' '))
        return 0;
    const char *end = head.text + head.n, *open = memchr(percent, '[', (size_t)(end - percent)), *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
    return close && close + 1 < end && memchr(open, '<', (size_t)(close - open)) ? (size_t)(close + 1 - line.text) : 0;
}

/* What stands before the message proper; 0: nothing. */
static size_t prefix(EchWords line)
{
    static const char *const marks[] = {"> ",           "| ",          "`", "stderr F ", "stdout F " /* of Kubernetes */,
                                        "\xe2\x94\x82", "\xe2\x94\x83" /* boxes that rich and Julia draw */};
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (ech_words_start(line, marks[i]))
            return strlen(marks[i]);
    }
    /* Ray and vLLM: "(EngineCore pid=27)"; ranks and times: "[rank0]:", "[1,0]<stderr>:", "[2026-01-02 03:04:05]" */
    size_t n = group(line, '(', ')');
    if (n && memmem(line.text, n, "pid=", 4))
        return n;
    n = group(line, '[', ']');
    if (n) {
        static const char *const streams[] = {"<stderr>", "<stdout>"};
        for (size_t i = 0; i < G_N_ELEMENTS(streams); i++)
            n += ech_words_start((EchWords){line.text + n, line.n - n}, streams[i]) ? strlen(streams[i]) : 0;
        return n + (n < line.n && line.text[n] == ':');
    }
    n = timestamp(line);
    n = n ? n : journal(line);
    n = n ? n : logger(line);
    n = n ? n : service(line);
    n = n ? n : task(line);
    n = n ? n : place(line);
    n = n ? n : columns(line);
    n = n ? n : bar(line);
    if (n)
        return n;
    /* A log's time and place: "2020-05-04 09:05:40.719805: E 1578 xla_util.cc:76]   Unpadded size: 48.00M" */
    size_t most = MIN(line.n, (size_t)256);
    for (const char *bracket = memmem(line.text, most, "] ", 2); bracket; bracket = memmem(bracket + 1, most - (size_t)(bracket + 1 - line.text), "] ", 2)) {
        const char *at = bracket;
        while (at > line.text && g_ascii_isdigit(at[-1]))
            at--;
        if (at < bracket && at > line.text && at[-1] == ':')
            return (size_t)(bracket - line.text) + 1;
    }
    return 0;
}

/* *ret_before: what stands before it. */
static EchWords body(EchWords whole, EchWords *ret_before)
{
    EchWords line = whole;
    for (int i = 0; i < MAX_PREFIXES && line.n; i++) {
        size_t n = prefix(line);
        if (n == 0)
            break;
        line = ech_words_trim(line.text + n, line.n - n);
    }
    *ret_before = ech_words_trim(whole.text, (size_t)(line.text - whole.text));
    return line;
}

/* Whether what stood @before a line is how that before another, @first, begins, but for the time: a launcher's prefix stands before wrapped lines too, a
 * logger's only before the first. */
static bool goes_on(EchWords first, EchWords before)
{
    size_t of_first = timestamp(first), of_before = timestamp(before), n = before.n - of_before;
    return (of_first == 0) == (of_before == 0) && n <= first.n - of_first && memcmp(before.text + of_before, first.text + of_first, n) == 0;
}

/* The line that begins at *@at, which moves behind it. */
static EchWords line_at(const EchPasted *p, size_t *at)
{
    const char *line = p->text.text + *at, *end = memchr(line, '\n', p->text.n - *at);
    size_t n = end ? (size_t)(end - line) : p->text.n - *at;
    *at += n + 1;
    return ech_words_trim(line, n);
}

/* ---- what a terminal broke ---- */

/* Columns of terminals. A line that is longer was broken by none, nor were those around it. */
enum { LEAST_COLUMNS = 60, MOST_COLUMNS = 300 };

/* The line at *@at, which moves behind it, without what ends it. */
static EchWords raw_line(const char *text, size_t n, size_t *at)
{
    const char *line = text + *at, *end = memchr(line, '\n', n - *at);
    size_t size = end ? (size_t)(end - line) : n - *at;
    *at += size + 1;
    return (EchWords){line, size && line[size - 1] == '\r' ? size - 1 : size};
}

static size_t columns_of(EchWords line)
{
    size_t sum = 0;
    for (size_t i = 0; i < line.n;) {
        gunichar c = g_utf8_get_char_validated(line.text + i, (gssize)(line.n - i));
        bool valid = c < (gunichar)-2;
        sum += valid && g_unichar_iswide(c) ? 2 : valid && g_unichar_iszerowidth(c) ? 0 : 1;
        i += valid ? (size_t)g_unichar_to_utf8(c, NULL) : 1;
    }
    return sum;
}

/* What a line is made of, from *@at on, which moves behind it: a number, a word, blanks, or a sign. '\0' at its end. */
static char piece(EchWords line, size_t *at)
{
    size_t begin = *at;
    while (*at < line.n && g_ascii_isdigit(line.text[*at]))
        ++*at;
    if (*at > begin)
        return '0';
    while (*at < line.n && (g_ascii_isalpha(line.text[*at]) || line.text[*at] == '_'))
        ++*at;
    if (*at > begin)
        return 'a';
    while (*at < line.n && g_ascii_isspace(line.text[*at]))
        ++*at;
    return *at > begin ? ' ' : begin < line.n ? line.text[(*at)++] : '\0';
}

/* Whether two lines are records of one kind: they begin with the same word or words of one family, or are made alike. */
static bool are_alike(EchWords a, EchWords b)
{
    enum { WORD = 4, FAMILY = 6, PIECES = 16 };
    size_t same = 0;
    while (same < a.n && same < b.n && a.text[same] == b.text[same] && (g_ascii_isalnum(a.text[same]) || a.text[same] == '_'))
        same++;
    if (same >= FAMILY || (same >= WORD && same < a.n && same < b.n && a.text[same] == b.text[same]))
        return true;
    bool words_only = true;
    size_t in_a = 0, in_b = 0;
    for (int i = 0; i < PIECES; i++) {
        char kind = piece(a, &in_a);
        if (kind != piece(b, &in_b))
            return false;
        words_only &= kind == 'a' || kind == ' ' || kind == '\0';
    }
    return !words_only;
}

/* A row of a table or a rule. */
static bool is_drawn(EchWords line)
{
    return line.n > 0 && (strchr("|+", *line.text) || *line.text & 0x80 || (line.n > 1 && strchr("-=#*", *line.text) && line.text[1] == *line.text));
}

/* Whether @line ends with what closes, a quotation or a bracket, which no word follows without a blank. */
static bool is_closed(EchWords line)
{
    char last = line.text[line.n - 1];
    size_t same = 0;
    for (size_t i = 0; i < line.n; i++)
        same += line.text[i] == last;
    return strchr(")]}", last) || (strchr("\"'`", last) && same % 2 == 0);
}

/* Whether @next may be how @line, as wide as the terminal, goes on: no row of a table, no record like it, none that something else logged, nothing indented. */
static bool may_go_on(EchWords line, EchWords next)
{
    if (next.n == 0 || is_drawn(line) || is_drawn(next))
        return false;
    bool indented = next.n > 1 && g_ascii_isspace(next.text[0]) && g_ascii_isspace(next.text[1]);
    bool ended = line.n > 0 && is_closed(line) && g_ascii_isalpha(*next.text);
    return !indented && !ended && !are_alike(line, next) && (*next.text == '`' || prefix(next) == 0);
}

/* What is broken where @line ends: a number, a word (or a blank or a comma stands where no line has one), or nothing that shows. */
typedef enum { SEAM_NONE, SEAM_WORD, SEAM_NUMBER } Seam;

static Seam seam(EchWords line, EchWords next)
{
    char last = line.text[line.n - 1], before = line.n > 1 ? line.text[line.n - 2] : ' ', first = *next.text;
    bool divides = (last == '.' || last == ',') && g_ascii_isdigit(before), divided = (first == '.' || first == ',') && g_ascii_isdigit(last);
    if (divided || (g_ascii_isdigit(first) && (g_ascii_isdigit(last) || divides)))
        return SEAM_NUMBER;
    bool word = g_ascii_isalnum(last) && g_ascii_isalnum(first);
    return word || last == ' ' || first == ' ' || strchr(",;:.)", first) ? SEAM_WORD : SEAM_NONE;
}

/* Columns of the word that @line begins with. */
static size_t first_word(EchWords line)
{
    size_t n = 0;
    while (n < line.n && !g_ascii_isspace(line.text[n]))
        n++;
    return columns_of((EchWords){line.text, n});
}

/* Whether no wrapping between words ends @line before @next: a blank is left there, or one number goes on. */
static bool is_cut(EchWords line, EchWords next)
{
    char end = line.text[line.n - 1];
    size_t digits = 0;
    while (digits < next.n && g_ascii_isdigit(next.text[digits]))
        digits++;
    bool whole = end == ',' || (end == '.' && digits < next.n && next.text[digits] == '.'); /* a point or comma of the sentence, and another number */
    return end == ' ' || *next.text == ' ' || (seam(line, next) == SEAM_NUMBER && !whole);
}

/* Whether letters stand beside digits, or small ones before a capital, where @line ends and @next begins, as seldom within words: "GPU", "0 has"; "by",
 * "PyTorch". */
static bool is_between(EchWords line, EchWords next)
{
    char end = line.text[line.n - 1], begin = *next.text;
    return (g_ascii_isalpha(end) && g_ascii_isdigit(begin)) || (g_ascii_isdigit(end) && g_ascii_isalpha(begin)) ||
           (g_ascii_islower(end) && g_ascii_isupper(begin));
}

/* Whether the lines from *@at on, which moves to the last of them, are a paragraph that mail or an editor wrapped between words: each as wide as that allows,
 * and many less wide than a terminal's, which breaks where its width ends, or ended between what is of one word seldom. */
static bool is_wrapped(const char *text, size_t n, size_t *at, size_t widest)
{
    enum { LONG = 20 }; /* a word before which most lines are less wide, whatever they are of */
    unsigned wide = 0, narrow = 0, between = 0;
    bool cut = false;
    size_t behind = *at;
    EchWords line = raw_line(text, n, &behind);
    while (behind < n) {
        size_t begin = behind, columns = columns_of(line);
        EchWords next = raw_line(text, n, &behind);
        size_t word = first_word(next);
        if (columns == 0 || columns + 1 + word <= widest || !may_go_on(line, next))
            break;
        wide += columns == widest;
        narrow += columns < widest && word <= LONG;
        between += columns == widest && is_between(line, next);
        cut |= line.text[line.n - 1] == ' ' || (columns == widest && is_cut(line, next));
        *at = begin;
        line = next;
    }
    return !cut && ((narrow > 0 && 2 * narrow >= wide) || (between > 1 && 2 * between >= wide));
}

char *ech_pasted_joined(const char *text, size_t n, bool sure, size_t *ret_n)
{
    size_t widest = 0;
    for (size_t at = 0; at < n;) {
        size_t wide = columns_of(raw_line(text, n, &at));
        widest = MAX(widest, wide);
    }
    if (widest < LEAST_COLUMNS || widest > MOST_COLUMNS)
        return NULL;
    GString *out = g_string_sized_new(n + 1);
    unsigned seams = 0, words = 0, numbers = 0;
    bool wrapped = false;
    for (size_t at = 0, last = 0; at < n;) {
        if (at >= last) {
            last = at;
            wrapped = is_wrapped(text, n, &last, widest);
        }
        EchWords line = raw_line(text, n, &at);
        size_t behind = at;
        EchWords next = at < n ? raw_line(text, n, &behind) : (EchWords){text, 0};
        bool goes_on = !wrapped && columns_of(line) == widest && may_go_on(line, next);
        Seam here = goes_on ? seam(line, next) : SEAM_NONE;
        seams += goes_on;
        words += here == SEAM_WORD;
        numbers += here == SEAM_NUMBER;
        g_string_append_len(out, line.text, (gssize)line.n);
        if (!goes_on)
            g_string_append_c(out, '\n');
    }
    /* One line may be the widest by itself, and end in a word; a number that goes on as one, or two lines as wide, hardly. */
    bool found = sure ? numbers > 0 || (words > 0 && seams > 1) : seams > 0;
    *ret_n = out->len;
    return g_string_free(out, !found);
}

/* ---- lines ---- */

bool ech_pasted_next(EchPasted *p, EchWords *ret_line)
{
    if (p->next >= p->text.n)
        return false;
    *ret_line = p->line = body(line_at(p, &p->next), &p->before);
    return true;
}

EchWords ech_pasted_before(const EchPasted *p)
{
    return p->before;
}

/* Where a task's number, "4:", that what stands before a line ends with begins; its end: there is none. */
static size_t task_of(EchWords before)
{
    size_t end = before.n && before.text[before.n - 1] == ':' ? before.n - 1 : 0, begin = end;
    while (begin && g_ascii_isdigit(before.text[begin - 1]))
        begin--;
    return begin < end && (begin == 0 || g_ascii_isspace(before.text[begin - 1])) ? begin : before.n;
}

/* A number before a line is no task's where none stood before the @first one: "... on device", "4: out of memory". */
static void give_back_number(EchWords first, EchWords *before, EchWords *line)
{
    size_t begin = task_of(*before);
    if (begin == before->n || task_of(first) < first.n)
        return;
    *line = (EchWords){before->text + begin, (size_t)(line->text + line->n - before->text) - begin};
    *before = ech_words_trim(before->text, begin);
}

EchWords ech_pasted_sentence(EchPasted *p)
{
    static const char *const ends[] = {"Traceback", "File ", "```"};
    g_string_truncate(p->sentence, 0);
    g_string_append_len(p->sentence, p->line.text, (gssize)p->line.n);
    size_t at = p->next, widest = p->line.n, last = p->line.n;
    for (int i = 0; i < MAX_WRAPPED && at < p->text.n && p->sentence->len < MAX_SENTENCE; i++) {
        EchWords before, line = body(line_at(p, &at), &before);
        give_back_number(p->before, &before, &line);
        bool over = line.n == 0 || (before.n > 2 && !goes_on(p->before, before)) || (i >= MAX_CONTINUED && last + 1 + first_word(line) <= widest);
        for (size_t k = 0; k < G_N_ELEMENTS(ends) && !over; k++)
            over = ech_words_start(line, ends[k]);
        if (over)
            break;
        g_string_append_c(p->sentence, ' ');
        g_string_append_len(p->sentence, line.text, (gssize)MIN(line.n, (size_t)MAX_SENTENCE));
        last = line.n;
        widest = MAX(widest, last);
    }
    return (EchWords){p->sentence->str, p->sentence->len};
}
