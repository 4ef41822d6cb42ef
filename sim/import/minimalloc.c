#include "sim/import/minimalloc.h"

#include "sim/base/error.h"

#include <string.h>

#define MAX_COLUMNS 64

typedef enum { COLUMN_OTHER, COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_ALIGNMENT, COLUMN_GAPS, COLUMN_OFFSET, N_COLUMNS } Column;

static const struct {
    const char *name;
    Column column;
} column_names[] = {
    {"id", COLUMN_ID},       {"buffer", COLUMN_ID},           {"buffer_id", COLUMN_ID},  {"lower", COLUMN_LOWER}, {"start", COLUMN_LOWER},
    {"begin", COLUMN_LOWER}, {"upper", COLUMN_UPPER},         {"end", COLUMN_UPPER},     {"size", COLUMN_SIZE},   {"bytes", COLUMN_SIZE},
    {"gaps", COLUMN_GAPS},   {"alignment", COLUMN_ALIGNMENT}, {"offset", COLUMN_OFFSET},
};

/** A field of a line, without the blanks and quotes around it. */
typedef struct {
    const char *text;
    size_t n;
} Field;

static Field trim(const char *text, size_t n)
{
    while (n > 0 && (*text == ' ' || *text == '\t'))
        text++, n--;
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t' || text[n - 1] == '\r'))
        n--;
    if (n >= 2 && text[0] == '"' && text[n - 1] == '"')
        text++, n -= 2;
    return (Field){text, n};
}

/** Owned. A quote is written twice where quotes are around it. */
static char *text_of(Field field)
{
    char *text = g_malloc(field.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < field.n; i++) {
        text[n++] = field.text[i];
        i += field.text[i] == '"' && i + 1 < field.n && field.text[i + 1] == '"';
    }
    text[n] = '\0';
    return text;
}

/** Cuts a line at commas outside quotes into at most MAX_COLUMNS fields; the rest is dropped. */
static size_t split_line(const char *line, size_t n, Field *fields)
{
    size_t count = 0, from = 0;
    bool quoted = false;
    for (size_t i = 0; i <= n && count < MAX_COLUMNS; i++) {
        if (i < n && line[i] == '"')
            quoted = !quoted;
        if (i == n || (line[i] == ',' && !quoted)) {
            fields[count++] = trim(line + from, i - from);
            from = i + 1;
        }
    }
    return count;
}

static Column column_of(Field field)
{
    for (size_t i = 0; i < G_N_ELEMENTS(column_names); i++) {
        if (strlen(column_names[i].name) == field.n && g_ascii_strncasecmp(column_names[i].name, field.text, field.n) == 0)
            return column_names[i].column;
    }
    return COLUMN_OTHER;
}

/** Fills place[column] with the field's number, or -1. True if the columns that must be there are. */
static bool read_header(const Field *fields, size_t n, int place[N_COLUMNS])
{
    for (unsigned c = 0; c < N_COLUMNS; c++)
        place[c] = -1;
    for (size_t i = 0; i < n; i++) {
        Column column = column_of(fields[i]);
        if (place[column] < 0)
            place[column] = (int)i;
    }
    return place[COLUMN_LOWER] >= 0 && place[COLUMN_UPPER] >= 0 && place[COLUMN_SIZE] >= 0;
}

static bool number(Field field, int64_t *ret)
{
    bool negative = field.n > 0 && field.text[0] == '-';
    uint64_t value = 0;
    if (field.n == negative)
        return false;
    for (size_t i = negative; i < field.n; i++) {
        if (field.text[i] < '0' || field.text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(field.text[i] - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

typedef struct {
    const char *where;
    size_t line;
} Place;

static bool bad_field(Place place, Field field, const char *expected, GError **error)
{
    g_autofree char *raw = g_strndup(field.text, MIN(field.n, 60));
    g_autofree char *text = g_utf8_make_valid(raw, -1);
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: '%s' is not %s", place.where, place.line, text, expected);
    return false;
}

/** "3-7" or "3-7@0:512". */
static bool parse_gap(Field field, EchMinimallocGap *ret)
{
    EchMinimallocGap gap = {0, 0, 0, 0};
    const char *dash = field.n > 1 ? memchr(field.text + 1, '-', field.n - 1) : NULL, *at = memchr(field.text, '@', field.n);
    if (!dash || (at && at < dash))
        return false;
    const char *end = field.text + field.n, *stop = at ? at : end;
    if (!number((Field){field.text, (size_t)(dash - field.text)}, &gap.lower) || !number((Field){dash + 1, (size_t)(stop - dash - 1)}, &gap.upper) ||
        gap.lower > gap.upper)
        return false;
    if (at) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        int64_t low, high;
        if (!colon || !number((Field){at + 1, (size_t)(colon - at - 1)}, &low) || !number((Field){colon + 1, (size_t)(end - colon - 1)}, &high) || low < 0 ||
            low > high)
            return false;
        gap.low = (EchBytes)low;
        gap.high = (EchBytes)high;
    }
    *ret = gap;
    return true;
}

static int compare_gaps(const void *a, const void *b)
{
    const EchMinimallocGap *left = a, *right = b;
    return (left->lower > right->lower) - (left->lower < right->lower);
}

static bool parse_gaps(Field field, EchMinimallocRow *row, GArray *gaps, Place place, GError **error)
{
    row->first_gap = gaps->len;
    for (size_t i = 0; i < field.n;) {
        size_t from = i;
        while (i < field.n && field.text[i] != ' ')
            i++;
        if (i > from) {
            EchMinimallocGap gap;
            if (!parse_gap((Field){field.text + from, i - from}, &gap) || gap.lower < row->lower || gap.upper > row->upper || gap.high > row->size)
                return bad_field(place, (Field){field.text + from, i - from},
                                 "a gap inside the buffer's life and size; expected something like 3-7 or 3-7@0:512", error);
            g_array_append_val(gaps, gap);
        }
        i++;
    }
    row->n_gaps = gaps->len - row->first_gap;
    if (row->n_gaps == 0)
        return true;
    EchMinimallocGap *own = &g_array_index(gaps, EchMinimallocGap, row->first_gap);
    if (row->n_gaps > 1)
        qsort(own, row->n_gaps, sizeof *own, compare_gaps);
    for (uint32_t i = 1; i < row->n_gaps; i++) {
        if (own[i].lower < own[i - 1].upper)
            return bad_field(place, field, "a list of gaps that do not overlap", error);
    }
    return true;
}

/** "H2+512", as the planner of several heaps has it: a place, but no offset in the memory. */
static bool is_in_heap(Field field)
{
    const char *plus = field.n > 0 && field.text[0] == 'H' ? memchr(field.text, '+', field.n) : NULL;
    int64_t heap, offset;
    return plus && number((Field){field.text + 1, (size_t)(plus - field.text - 1)}, &heap) &&
           number((Field){plus + 1, (size_t)(field.text + field.n - plus - 1)}, &offset) && heap >= 0 && offset >= 0;
}

static bool parse_row(const Field *fields, size_t n, const int columns[N_COLUMNS], Place place, EchMinimallocRow *row, GArray *gaps, GError **error)
{
    Field cell[N_COLUMNS];
    for (unsigned c = 0; c < N_COLUMNS; c++)
        cell[c] = (Field){"", 0};
    for (unsigned c = COLUMN_ID; c < N_COLUMNS; c++) {
        if (columns[c] >= 0 && (size_t)columns[c] < n)
            cell[c] = fields[columns[c]];
    }
    if (is_in_heap(cell[COLUMN_OFFSET]))
        cell[COLUMN_OFFSET].n = 0;
    int64_t size = 0, alignment = 0, offset = 0;
    if (!number(cell[COLUMN_LOWER], &row->lower))
        return bad_field(place, cell[COLUMN_LOWER], "a time; expected a whole number in column 'lower'", error);
    if (!number(cell[COLUMN_UPPER], &row->upper) || row->upper < row->lower)
        return bad_field(place, cell[COLUMN_UPPER], "an end; expected a whole number at least as large as 'lower' in column 'upper'", error);
    if (!number(cell[COLUMN_SIZE], &size) || size < 0 || (EchBytes)size > ECH_PLAN_MAX_BYTES)
        return bad_field(place, cell[COLUMN_SIZE], "a size; expected a whole number of bytes, at most 2^60, in column 'size'", error);
    if (cell[COLUMN_ALIGNMENT].n && (!number(cell[COLUMN_ALIGNMENT], &alignment) || alignment < 1 || (EchBytes)alignment > ECH_PLAN_MAX_BYTES))
        return bad_field(place, cell[COLUMN_ALIGNMENT], "an alignment; expected a positive number of bytes, at most 2^60", error);
    if (cell[COLUMN_OFFSET].n && (!number(cell[COLUMN_OFFSET], &offset) || offset < -1))
        return bad_field(place, cell[COLUMN_OFFSET], "an offset; expected a number of bytes", error);
    row->size = (EchBytes)size;
    row->alignment = (EchBytes)alignment;
    row->offset = cell[COLUMN_OFFSET].n && offset >= 0 ? (uint64_t)offset : ECH_OFFSET_NONE;
    return parse_gaps(cell[COLUMN_GAPS], row, gaps, place, error);
}

static void clear_row(gpointer data)
{
    EchMinimallocRow *row = data;
    g_free(row->id);
}

EchMinimalloc *ech_minimalloc_parse(const char *data, size_t n, const char *where, GError **error)
{
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(EchMinimallocRow)), gaps = g_array_new(FALSE, FALSE, sizeof(EchMinimallocGap));
    g_array_set_clear_func(rows, clear_row);
    Field fields[MAX_COLUMNS];
    int columns[N_COLUMNS] = {-1};
    Place place = {where, 0};
    bool header = false, has_alignment = false;
    for (size_t at = 0; at < n;) {
        const char *line = data + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        place.line++;
        if (place.line == 1 && length >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0)
            line += 3, length -= 3;
        Field all = trim(line, length);
        if (all.n == 0 || all.text[0] == '#')
            continue;
        size_t n_fields = split_line(line, length, fields);
        if (!header) {
            if (!read_header(fields, n_fields, columns)) {
                bad_field(place, all, "a header; expected id,lower,upper,size", error);
                return NULL;
            }
            header = true;
            continue;
        }
        EchMinimallocRow row = {0};
        if (!parse_row(fields, n_fields, columns, place, &row, gaps, error))
            return NULL;
        has_alignment = has_alignment || row.alignment > 0;
        bool named = columns[COLUMN_ID] >= 0 && (size_t)columns[COLUMN_ID] < n_fields;
        row.id = named ? text_of(fields[columns[COLUMN_ID]]) : g_strdup_printf("%u", rows->len);
        g_array_append_val(rows, row);
    }
    if (!header) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: empty; expected a header id,lower,upper,size", where);
        return NULL;
    }
    EchMinimalloc *table = g_new0(EchMinimalloc, 1);
    table->has_alignment = has_alignment;
    table->n = rows->len;
    table->n_gaps = gaps->len;
    table->rows = (EchMinimallocRow *)(void *)g_array_free(g_steal_pointer(&rows), FALSE);
    table->gaps = (EchMinimallocGap *)(void *)g_array_free(g_steal_pointer(&gaps), FALSE);
    return table;
}

void ech_minimalloc_free(EchMinimalloc *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->n; i++)
        g_free(table->rows[i].id);
    g_free(table->rows);
    g_free(table->gaps);
    g_free(table);
}

GArray *ech_minimalloc_items(const EchMinimalloc *table)
{
    GArray *items = g_array_sized_new(FALSE, TRUE, sizeof(EchPlanItem), (guint)table->n);
    for (size_t i = 0; i < table->n; i++) {
        const EchMinimallocRow *row = &table->rows[i];
        EchPlanItem item = {
            row->lower, row->n_gaps ? table->gaps[row->first_gap].lower : row->upper, row->size, row->alignment, 0, row->n_gaps ? (uint32_t)i : ECH_PLAN_ALONE};
        g_array_append_val(items, item);
    }
    for (size_t i = 0; i < table->n; i++) {
        const EchMinimallocRow *row = &table->rows[i];
        for (uint32_t g = 0; g < row->n_gaps; g++) {
            const EchMinimallocGap *gap = &table->gaps[row->first_gap + g];
            int64_t until = g + 1 < row->n_gaps ? gap[1].lower : row->upper;
            EchPlanItem item = {gap->lower, gap->upper, gap->high, row->alignment, 0, (uint32_t)i};
            if (gap->high > gap->low && gap->lower < gap->upper)
                g_array_append_val(items, item);
            item = (EchPlanItem){gap->upper, until, row->size, row->alignment, 0, (uint32_t)i};
            if (gap->upper < until)
                g_array_append_val(items, item);
        }
    }
    return items;
}

/* ---- The importer ---- */

int ech_minimalloc_probe(const uint8_t *head, size_t n)
{
    const char *text = (const char *)head;
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, n -= 3;
    const char *end = n > 0 ? memchr(text, '\n', n) : NULL;
    if (!end)
        return 0;
    Field fields[MAX_COLUMNS];
    int columns[N_COLUMNS];
    size_t count = split_line(text, (size_t)(end - text), fields);
    return read_header(fields, count, columns) ? 2 : 0;
}

typedef struct {
    int64_t time;
    uint32_t row;
    bool begins;
} Edge;

static int compare_edges(const void *a, const void *b)
{
    const Edge *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->begins != right->begins)
        return left->begins - right->begins;
    return (left->row > right->row) - (left->row < right->row);
}

/** One ALLOC and one FREE a row, in order of time, frees first. What never lives is dropped. Gaps are not in a trace's words: counted. */
static EchTrace *make_trace(const EchMinimalloc *table, EchDiag *diag, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("minimalloc");
    EchId memory = ech_trace_builder_memory(builder, "hbm"), queue = ech_trace_builder_queue(builder, "host", ECH_QUEUE_HOST, 0);
    g_autofree Edge *edges = g_new(Edge, table->n * 2 + 1);
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++) {
        const EchMinimallocRow *row = &table->rows[i];
        EchBuffer buffer = ech_buffer_init();
        buffer.name = ech_trace_builder_string(builder, row->id, -1);
        buffer.memory = memory;
        buffer.bytes = row->size;
        buffer.offset = row->offset != ECH_OFFSET_NONE && row->size <= UINT64_MAX - row->offset ? row->offset : ECH_OFFSET_NONE;
        ech_trace_builder_buffer(builder, buffer);
        ech_diag_dropped(diag, "gaps_not_kept", row->n_gaps, "%s", row->id);
        if (row->lower < row->upper) {
            edges[n++] = (Edge){row->lower, (uint32_t)i, true};
            edges[n++] = (Edge){row->upper, (uint32_t)i, false};
        } else {
            ech_diag_note(diag, "buffers_that_never_live", 1);
        }
    }
    if (table->n_gaps)
        ech_diag_remark(diag, "a trace's buffers live without a break; 'echelon plan' takes the gaps from the CSV itself");
    qsort(edges, n, sizeof *edges, compare_edges);
    for (size_t i = 0; i < n; i++) {
        EchOp op = ech_op_init(edges[i].begins ? ECH_OP_ALLOC : ECH_OP_FREE);
        op.target = edges[i].row;
        op.bytes = table->rows[edges[i].row].size;
        op.bytes_origin = ECH_KNOWN;
        op.queue = queue;
        ech_trace_builder_op(builder, op);
    }
    return ech_trace_builder_finish(builder, error);
}

EchMinimalloc *ech_minimalloc_read(EchSource *source, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)1 << 30, error);
    if (!bytes)
        return NULL;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    return ech_minimalloc_parse(data, n, ech_source_path(source), error);
}

static bool read_minimalloc(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(EchMinimalloc) table = ech_minimalloc_read(source, error);
    if (!table)
        return false;
    ech_diag_note(ret->records, "buffers", table->n);
    ret->trace = make_trace(table, ret->diag, error);
    return ret->trace != NULL;
}

const EchImportClass ech_import_minimalloc = {
    .name = "minimalloc",
    .summary = "MiniMalloc's CSV of buffer lifetimes (id,lower,upper,size)",
    .probe = ech_minimalloc_probe,
    .read = read_minimalloc,
    .by_hand = "id,lower,upper,size\n"
               "a,0,2,4096\n"
               "b,1,3,8192\n"
               "\n"
               "A buffer of size bytes lives from lower until before upper, whole numbers of any unit. Columns alignment (bytes), gaps (\"3-5 8-9\": not used "
               "then) and offset (where it lies) may be there; others are left alone.",
};
