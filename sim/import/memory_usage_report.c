/* XLA's memory-usage report (*-memory-usage-report.txt): what the compiler's allocations hold, in sizes for people.
 *
 * New reports (2026): "Memory Space: NAME (color=N)", its exact "Total bytes", and a table per allocation whose rows are places (offset, size, shapes). Old
 * ones: one table of allocations. The report tells neither times nor which values overlap in time, so it becomes a trace without operations: per allocation
 * one resident buffer as large as its furthest place, and an alias in it for every place. Rules, each counted:
 *  - a size for people that a listed shape explains exactly is that shape's (sizes_from_shapes), else the text's rounded number (sizes_as_rounded);
 *  - what the exact total has more than the allocations is one buffer more (bytes_between_allocations). */
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/import/rounded.h"

#include <string.h>

enum { MAX_ROWS = 1 << 22 };

typedef struct {
    uint64_t offset, bytes;
    EchId shapes;
} Place;

typedef struct {
    EchImport *ret;
    const char *where;
    unsigned line;
    EchTraceBuilder *builder;
    bool any_table, old;
    EchId memory;
    uint64_t total, explained, n_rows, n_tables;
    bool has_total;
    GArray *places; /* Place, of the table being read */
} Reader;

typedef struct {
    const char *text;
    size_t n;
} Field;

static Field trim(const char *text, size_t n)
{
    while (n && (g_ascii_isspace(*text)))
        text++, n--;
    while (n && g_ascii_isspace(text[n - 1]))
        n--;
    return (Field){text, n};
}

static bool starts(Field f, const char *prefix)
{
    return f.n >= strlen(prefix) && memcmp(f.text, prefix, strlen(prefix)) == 0;
}

/* Device memories by XLA's number; the report's own names differ from it. */
static const char *space_name(uint64_t color, char *scratch, size_t n)
{
    static const char *const names[] = {"hbm", "vector", NULL, "common", "scalar", "host"};
    if (color < G_N_ELEMENTS(names) && names[color])
        return names[color];
    g_snprintf(scratch, n, "space %" G_GUINT64_FORMAT, color);
    return scratch;
}

static bool integer(Field f, uint64_t *ret)
{
    uint64_t value = 0;
    if (f.n == 0)
        return false;
    for (size_t i = 0; i < f.n; i++) {
        if (!g_ascii_isdigit(f.text[i]) || value > (UINT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(f.text[i] - '0');
    }
    *ret = value;
    return true;
}

/* The exact size, where one of the shapes "2×f32[7,8], pred[]" has one that would be written so. */
static uint64_t exact(Reader *r, Field shapes, const EchRounded *rounded)
{
    EchBytes bytes = rounded->bytes;
    if (rounded->slack > 0)
        ech_diag_note(r->ret->diag, ech_rounded_from_shapes(rounded, shapes.text, shapes.n, &bytes) ? "sizes_from_shapes" : "sizes_as_rounded", 1);
    return bytes;
}

static EchId resident(Reader *r, const char *name, uint64_t bytes)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(r->builder, name, -1);
    b.memory = r->memory;
    b.bytes = bytes;
    b.resident = 1;
    return ech_trace_builder_buffer(r->builder, b);
}

static void end_table(Reader *r)
{
    if (r->places->len == 0)
        return;
    uint64_t extent = 0;
    for (guint i = 0; i < r->places->len; i++) {
        const Place *p = &g_array_index(r->places, Place, i);
        extent = MAX(extent, ech_bytes_add(p->offset, p->bytes));
    }
    char name[40];
    g_snprintf(name, sizeof name, "allocation %" G_GUINT64_FORMAT, r->n_tables++);
    EchId parent = resident(r, name, extent);
    ech_diag_note(r->ret->records, "allocations", 1);
    r->explained = ech_bytes_add(r->explained, extent);
    for (guint i = 0; i < r->places->len; i++) {
        const Place *p = &g_array_index(r->places, Place, i);
        EchBuffer b = ech_buffer_init();
        b.name = b.shape = p->shapes;
        b.memory = r->memory;
        b.bytes = p->bytes;
        b.resident = 1;
        b.alias_of = parent;
        b.alias_offset = p->offset;
        ech_trace_builder_buffer(r->builder, b);
    }
    g_array_set_size(r->places, 0);
}

static void end_space(Reader *r)
{
    end_table(r);
    if (r->has_total && r->total > r->explained) {
        ech_diag_note(r->ret->diag, "bytes_between_allocations", r->total - r->explained);
        resident(r, "(rounding and the compiler's own)", r->total - r->explained);
    } else if (r->has_total && r->explained > r->total) {
        ech_diag_note(r->ret->diag, "bytes_above_the_total", r->explained - r->total);
    }
    r->has_total = false;
    r->explained = 0;
}

/* "Memory Space: default (color=0)" */
static void begin_space(Reader *r, Field line)
{
    end_space(r);
    const char *key = memmem(line.text, line.n, "(color=", 7);
    uint64_t color = 0;
    if (key) {
        key += 7;
        const char *close = memchr(key, ')', (size_t)(line.text + line.n - key));
        if (!close || !integer((Field){key, (size_t)(close - key)}, &color))
            color = 0;
    }
    char scratch[32];
    r->memory = ech_trace_builder_memory(r->builder, space_name(color, scratch, sizeof scratch));
    ech_diag_note(r->ret->records, "memory spaces", 1);
}

/* "Total bytes: 4932505268 (4.59GiB)", old: "Total bytes used: N (..)". */
static void total(Reader *r, Field line)
{
    const char *colon = memchr(line.text, ':', line.n), *bracket = memchr(line.text, '(', line.n);
    const char *end = bracket ? bracket : line.text + line.n;
    if (r->has_total || !colon || colon >= end || !integer(trim(colon + 1, (size_t)(end - colon - 1)), &r->total))
        return;
    r->has_total = true;
}

static bool bad_row(const Reader *r, Field row, GError **error)
{
    g_autofree char *raw = g_strndup(row.text, MIN(row.n, (size_t)80)), *text = g_utf8_make_valid(raw, -1);
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                "%s:%u: '%s' is not a row of the report; expected cumulative_size; size; offset; used_by_n_values; shapes_list", r->where, r->line, text);
    return false;
}

/* "  1.15GiB( 55%);  196.00MiB;   1233125632;                3; 3×f32[7168,7168]" */
static bool place_row(Reader *r, Field row, GError **error)
{
    Field fields[5];
    size_t at = 0;
    for (int i = 0; i < 5; i++) {
        const char *end = i < 4 ? memchr(row.text + at, ';', row.n - at) : NULL;
        if (i < 4 && !end)
            return bad_row(r, row, error);
        size_t n = end ? (size_t)(end - row.text) - at : row.n - at;
        fields[i] = trim(row.text + at, n);
        at += n + 1;
        if (at > row.n && i < 4)
            return bad_row(r, row, error);
    }
    EchRounded size;
    size_t used;
    Place place = {0};
    if (!ech_rounded_parse(fields[1].text, fields[1].n, &size, &used) || used != fields[1].n || !integer(fields[2], &place.offset) ||
        place.offset > UINT64_C(1) << 60)
        return bad_row(r, row, error);
    place.bytes = exact(r, fields[4], &size);
    g_autofree char *raw = g_strndup(fields[4].text, MIN(fields[4].n, (size_t)4096)), *shapes = g_utf8_make_valid(raw, -1);
    place.shapes = ech_trace_builder_string(r->builder, shapes, -1);
    g_array_append_val(r->places, place);
    ech_diag_note(r->ret->records, "places", 1);
    return true;
}

/* Old: "1.00GiB(50%); total: ..; allocation 3: size 1.00GiB, ...": one allocation a row. */
static bool allocation_row(Reader *r, Field row)
{
    const char *key = memmem(row.text, row.n, "allocation ", 11);
    const char *size_key = key ? memmem(key, (size_t)(row.text + row.n - key), "size ", 5) : NULL;
    if (!size_key)
        return false;
    size_key += 5;
    const char *end = size_key;
    while (end < row.text + row.n && *end != ',' && *end != ':')
        end++;
    Field text = trim(size_key, (size_t)(end - size_key)), rest = {end, (size_t)(row.text + row.n - end)};
    uint64_t bytes;
    EchRounded size = {0};
    size_t used;
    if (integer(text, &bytes))
        size.bytes = bytes;
    else if (!ech_rounded_parse(text.text, text.n, &size, &used) || used != text.n)
        return false;
    bytes = exact(r, rest, &size);
    const char *colon = memchr(key, ':', (size_t)(row.text + row.n - key));
    g_autofree char *name = g_strndup(key, MIN(colon ? (size_t)(colon - key) : (size_t)12, (size_t)40));
    resident(r, name, bytes);
    r->explained = ech_bytes_add(r->explained, bytes);
    ech_diag_note(r->ret->records, "allocations", 1);
    return true;
}

static bool read_line(Reader *r, Field line, GError **error)
{
    if (starts(line, "Memory Space:")) {
        begin_space(r, line);
    } else if (starts(line, "Total bytes")) {
        total(r, line);
    } else if (starts(line, "cumulative_size;")) {
        end_table(r);
        r->any_table = true;
        r->old = memmem(line.text, line.n, "offset", 6) == NULL;
    } else if (line.n == 0) {
        end_table(r);
    } else if (r->any_table && line.text[0] != '-' && memchr(line.text, ';', line.n)) {
        if (++r->n_rows > MAX_ROWS) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%u: more than %d rows", r->where, r->line, MAX_ROWS);
            return false;
        }
        if (!r->old)
            return place_row(r, line, error);
        if (!allocation_row(r, line))
            ech_diag_dropped(r->ret->diag, "rows_without_size", 1, "line %u", r->line);
    }
    return true;
}

static bool read_report(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)1 << 30, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("memory_usage_report");
    g_autoptr(GArray) places = g_array_new(FALSE, TRUE, sizeof(Place));
    Reader r = {.ret = ret, .where = ech_source_path(source), .builder = builder, .places = places};
    r.memory = ech_trace_builder_memory(builder, "hbm");
    for (size_t at = 0; at < n;) {
        const char *line = data + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        r.line++;
        if (!read_line(&r, trim(line, length), error))
            return false;
    }
    end_space(&r);
    if (!r.any_table) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: a memory-usage report without a table of places", r.where);
        return false;
    }
    ech_diag_remark(ret->diag, "the report tells sizes and places, not times: read the program itself (its HLO) to replay it");
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

static int probe(const uint8_t *head, size_t n)
{
    const char *text = (const char *)head;
    bool begins = n > 13 && (memcmp(text, "Memory Space:", 13) == 0 || memcmp(text, "Total bytes u", 13) == 0);
    return begins && memmem(text, n, "cumulative_size;", 16) ? 2 : 0;
}

const EchImportClass ech_import_memory_usage_report = {
    .name = "memory_usage_report",
    .summary = "XLA's memory-usage report: the compiler's allocations and what lies where in them",
    .probe = probe,
    .read = read_report,
};
