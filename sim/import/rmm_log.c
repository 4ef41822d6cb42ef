/* What RMM's logging resource writes (rmm::mr::logging_resource_adaptor, rmm.enable_logging(), RMM_LOG_FILE): a line of CSV for each allocation and each free
 * that cuDF, cuML, Spark RAPIDS and others made through it.
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     2342727,15:47:02.841961,allocate,0x10012400000,1048576,0x2
 *     2342727,15:47:02.841977,free,0x10012400000,1048576,0x2
 *     2342727,15:47:02.841980,allocate failure,(nil),1073741824,0x2
 *
 * Some programs leave the first line out. */
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/import.h"
#include "sim/import/pasted.h"

enum { N_COLUMNS = 6, MAX_LINE = 256 };
enum { THREAD, TIME, ACTION, POINTER, SIZE, STREAM };

#define HEADER "Thread,Time,Action,Pointer,Size,Stream"

typedef enum { ALLOCATE, FREE, FAILURE } Action;

typedef struct {
    Action action;
    uint64_t pointer, bytes;
    EchWords stream;
} Event;

typedef struct {
    EchTraceBuilder *builder;
    EchImport *ret;
    const char *where;
    EchId memory, host;
    GHashTable *queues; /* a stream's text, owned -> its queue + 1 */
    GHashTable *live;   /* a pointer, owned -> its buffer + 1 */
    EchBytes in_use, refused, in_use_then;
    uint64_t line, n_refused;
} Reader;

/* The words between @line's commas; false where there are more or fewer than N_COLUMNS. */
static bool split(EchWords line, EchWords *ret)
{
    size_t n = 0, begin = 0;
    for (size_t at = 0; at <= line.n; at++) {
        if (at < line.n && line.text[at] != ',')
            continue;
        if (n == N_COLUMNS)
            return false;
        ret[n++] = ech_words_trim(line.text + begin, at - begin);
        begin = at + 1;
    }
    return n == N_COLUMNS;
}

/* A whole number of @base that is all of @words. */
static bool number(EchWords words, unsigned base, uint64_t *ret)
{
    char text[24];
    if (words.n == 0 || words.n >= sizeof text || !g_ascii_isxdigit(*words.text))
        return false;
    memcpy(text, words.text, words.n);
    text[words.n] = '\0';
    char *end;
    *ret = g_ascii_strtoull(text, &end, base);
    return *end == '\0';
}

static bool is(EchWords words, const char *text)
{
    return words.n == strlen(text) && memcmp(words.text, text, words.n) == 0;
}

static bool parse(EchWords line, Event *ret)
{
    EchWords columns[N_COLUMNS];
    if (line.n > MAX_LINE || !split(line, columns) || columns[STREAM].n == 0 || !number(columns[SIZE], 10, &ret->bytes) || ret->bytes > G_MAXINT64)
        return false;
    if (is(columns[ACTION], "allocate"))
        ret->action = ALLOCATE;
    else if (is(columns[ACTION], "free") || is(columns[ACTION], "deallocate"))
        ret->action = FREE;
    else if (is(columns[ACTION], "allocate failure"))
        ret->action = FAILURE;
    else
        return false;
    ret->stream = columns[STREAM];
    ret->pointer = 0;
    return is(columns[POINTER], "(nil)") || number(columns[POINTER], 16, &ret->pointer);
}

static EchWords line_at(const char *data, size_t n, size_t at)
{
    const char *end = memchr(data + at, '\n', n - at);
    return (EchWords){data + at, end ? (size_t)(end - data) - at : n - at};
}

static int probe(const uint8_t *head, size_t n)
{
    EchWords first = line_at((const char *)head, n, 0);
    Event event;
    return is(ech_words_trim(first.text, first.n), HEADER) || parse(first, &event) ? 2 : 0;
}

static EchId queue_of(Reader *r, EchWords stream)
{
    g_autofree char *text = g_strndup(stream.text, stream.n);
    guint found = GPOINTER_TO_UINT(g_hash_table_lookup(r->queues, text));
    if (found)
        return found - 1;
    g_autofree char *name = g_strdup_printf("stream %s", text);
    g_autofree char *shown = g_utf8_make_valid(name, -1);
    EchId queue = ech_trace_builder_queue(r->builder, shown, ECH_QUEUE_COMPUTE, 0);
    g_hash_table_insert(r->queues, g_steal_pointer(&text), GUINT_TO_POINTER(queue + 1));
    return queue;
}

static void add_op(Reader *r, EchOpKind kind, EchId buffer)
{
    EchOp op = ech_op_init(kind);
    op.name = ech_trace_builder_string(r->builder, kind == ECH_OP_ALLOC ? "alloc" : "free", -1);
    op.target = buffer;
    op.bytes = ech_trace_builder_peek_buffer(r->builder, buffer)->bytes;
    op.bytes_origin = ECH_KNOWN;
    op.queue = r->host;
    ech_trace_builder_op(r->builder, op);
}

/* False where nothing is known to lie at @pointer. */
static bool release(Reader *r, uint64_t pointer)
{
    guint found = GPOINTER_TO_UINT(g_hash_table_lookup(r->live, &pointer));
    if (!found)
        return false;
    g_hash_table_remove(r->live, &pointer);
    r->in_use -= ech_trace_builder_peek_buffer(r->builder, found - 1)->bytes;
    add_op(r, ECH_OP_FREE, found - 1);
    return true;
}

static void allocate(Reader *r, const Event *event)
{
    if (release(r, event->pointer))
        ech_diag_dropped(r->ret->diag, "frees_not_logged", 1, "%s:%" G_GUINT64_FORMAT, r->where, r->line);
    EchBuffer buffer = ech_buffer_init();
    g_autofree char *name = g_strdup_printf("line %" G_GUINT64_FORMAT, r->line);
    buffer.name = ech_trace_builder_string(r->builder, name, -1);
    buffer.memory = r->memory;
    buffer.bytes = event->bytes;
    buffer.address = event->pointer;
    buffer.queue = queue_of(r, event->stream);
    EchId id = ech_trace_builder_buffer(r->builder, buffer);
    g_hash_table_insert(r->live, g_memdup2(&event->pointer, sizeof event->pointer), GUINT_TO_POINTER(id + 1));
    r->in_use += event->bytes;
    add_op(r, ECH_OP_ALLOC, id);
}

static void take(Reader *r, const Event *event)
{
    static const char *const records[] = {"allocate", "free", "allocate failure"};
    ech_diag_note(r->ret->records, records[event->action], 1);
    if (event->action == FAILURE) {
        r->n_refused++;
        if (event->bytes > r->refused) {
            r->refused = event->bytes;
            r->in_use_then = r->in_use;
        }
    } else if (event->bytes == 0) {
        return; /* nothing lies there */
    } else if (event->action == ALLOCATE) {
        allocate(r, event);
    } else if (!release(r, event->pointer)) {
        ech_diag_dropped(r->ret->diag, "frees_of_unknown_addresses", 1, "%s:%" G_GUINT64_FORMAT, r->where, r->line);
    }
}

static bool read_lines(Reader *r, const char *data, size_t n, GError **error)
{
    for (size_t at = 0; at < n;) {
        EchWords line = line_at(data, n, at), words = ech_words_trim(line.text, line.n);
        bool cut = at + line.n == n;
        at += line.n + 1;
        r->line++;
        Event event;
        if (words.n == 0 || is(words, HEADER)) /* a second log behind the first has its own */
            continue;
        if (parse(words, &event)) {
            take(r, &event);
        } else if (cut) {
            ech_diag_dropped(r->ret->diag, "lines_cut_off", 1, "%s:%" G_GUINT64_FORMAT, r->where, r->line);
        } else {
            g_autofree char *shown = ech_quote(words.text, (gssize)words.n, 60);
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%" G_GUINT64_FORMAT ": '%s' is no line of RMM's log; expected " HEADER, r->where, r->line,
                        shown);
            return false;
        }
    }
    return true;
}

static bool read_log(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("rmm_log");
    g_autoptr(GHashTable) queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) live = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    Reader r = {.builder = builder,
                .ret = ret,
                .where = ech_source_path(source),
                .memory = ech_trace_builder_memory(builder, "hbm"),
                .host = ech_trace_builder_queue(builder, "host", ECH_QUEUE_HOST, 0),
                .queues = queues,
                .live = live};
    if (!read_lines(&r, data, n, error))
        return false;
    if (r.n_refused) {
        g_autofree char *largest = ech_format_bytes(r.refused), *beside = ech_format_bytes(r.in_use_then);
        ech_diag_remark(ret->diag,
                        "requests were refused (%" G_GUINT64_FORMAT
                        "), the largest of %s beside %s in use: 'echelon alloc FILE --allocator cuda_async' says what "
                        "the others take under another allocator",
                        r.n_refused, largest, beside);
    }
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

const EchImportClass ech_import_rmm_log = {
    .name = "rmm_log",
    .summary = "allocations of cuDF, cuML and others through RMM, as its logging resource writes them (rmm.enable_logging(), RMM_LOG_FILE)",
    .probe = probe,
    .read = read_log,
};
