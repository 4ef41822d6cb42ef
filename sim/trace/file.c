/* The .ech text. One line per thing, tokens between single spaces, `key=value` fields in a fixed order, numbers in
 * decimal, names in JSON-like quotes. A value known by inference ends in ~, an assumed one in !, an absent one in ?.
 *
 *   echelon-trace 1 "hlo"
 *   property "module" "jit_step"
 *   strings 1                             texts that occur often (stacks, shapes), quoted once, referred to as $0
 *   "main.py:7\nmodel.py:12"
 *   memories 2
 *   "hbm"
 *   "host"
 *   queues 2
 *   compute 0 "core"
 *   copy 0 "dma to_device"
 *   buffers 1
 *   b "param.0" m=0 bytes=4096 resident=1
 *   ops 2
 *   kernel "fusion.1" q=0 r=0:4096 w=1:4096/random work=matrix:bf16:8192 after=-1
 *   loop "while" q=0 target=12 bytes=24~         (12 ops, 24 trips, inferred)
 *
 * `after` is relative (-1: the op before); `@1` adds the distance in iterations.
 */
#include "sim/trace/file.h"

#include "sim/base/error.h"
#include "sim/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "echelon-trace 1 "

static const char *const queue_kinds[] = {"compute", "copy", "host", "collective"};
static const char *const patterns[] = {"stream", "strided", "random"};
static const char *const units[] = {"matrix", "vector", "transcendental"};
G_STATIC_ASSERT(G_N_ELEMENTS(queue_kinds) == ECH_N_QUEUE_KINDS);
G_STATIC_ASSERT(G_N_ELEMENTS(patterns) == ECH_N_PATTERNS);
G_STATIC_ASSERT(G_N_ELEMENTS(units) == ECH_N_WORK_UNITS);

/* ---- printing ---- */

typedef struct {
    const EchTrace *trace;
    GString *out;
    uint32_t *table;  /* table[n_strings]: number in the strings section, or ECH_NONE for strings written in place */
    uint32_t *counts; /* counts[n_strings] */
    GArray *shared;   /* String ids of the section, in order of first use */
} Printer;

/* As g_string_append, inline: hashing prints whole traces. */
static inline void put_text_n(GString *out, const char *text, size_t n)
{
    if (n >= out->allocated_len - out->len) {
        g_string_append_len(out, text, (gssize)n);
        return;
    }
    memcpy(out->str + out->len, text, n);
    out->len += n;
    out->str[out->len] = '\0';
}

static inline void put_text(GString *out, const char *text)
{
    put_text_n(out, text, strlen(text));
}

static void put_u64(GString *out, uint64_t value)
{
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + value % 10);
    while (value /= 10);
    put_text_n(out, digits + n, sizeof digits - n);
}

static void put_i64(GString *out, int64_t value)
{
    if (value < 0)
        g_string_append_c(out, '-');
    put_u64(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static void put_quoted(GString *out, const char *text)
{
    g_string_append_c(out, '"');
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            g_string_append_c(out, '\\');
        if (c == '\n')
            put_text(out, "\\n");
        else if (c < 0x20 || c == 0x7f)
            g_string_append_printf(out, "\\x%02x", c);
        else
            g_string_append_c(out, (char)c);
    }
    g_string_append_c(out, '"');
}

static void put_string(Printer *p, const char *key, EchId id)
{
    if (id == ECH_NONE)
        return;
    g_string_append_c(p->out, ' ');
    put_text(p->out, key);
    if (p->table[id] != ECH_NONE) {
        g_string_append_c(p->out, '$');
        put_u64(p->out, p->table[id]);
    } else {
        put_quoted(p->out, ech_trace_string(p->trace, id));
    }
}

static void put_key(Printer *p, const char *key, uint64_t value)
{
    g_string_append_c(p->out, ' ');
    put_text(p->out, key);
    put_u64(p->out, value);
}

static void put_origin(GString *out, unsigned origin)
{
    if (origin != ECH_KNOWN)
        g_string_append_c(out, "?=~!"[origin & 3]);
}

static void count_string(Printer *p, EchId id)
{
    if (id != ECH_NONE && p->counts[id]++ == 0)
        g_array_append_val(p->shared, id);
}

/* A string that occurs twice or more and is long goes to the table, in order of first use. */
static void choose_shared(Printer *p)
{
    const EchTrace *trace = p->trace;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *b = &ech_trace_buffers(trace)[i];
        const EchId ids[] = {b->name, b->shape, b->pool, b->stack};
        for (size_t k = 0; k < G_N_ELEMENTS(ids); k++)
            count_string(p, ids[k]);
    }
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        count_string(p, ech_trace_ops(trace)[i].name);
        count_string(p, ech_trace_ops(trace)[i].launch);
        count_string(p, ech_trace_ops(trace)[i].stack);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->shared->len; i++) {
        EchId id = g_array_index(p->shared, EchId, i);
        if (p->counts[id] > 1 && strlen(ech_trace_string(trace, id)) > 24) {
            g_array_index(p->shared, EchId, n) = id;
            p->table[id] = n++;
        }
    }
    g_array_set_size(p->shared, n);
}

static void print_buffer(Printer *p, const EchBuffer *b)
{
    GString *out = p->out;
    g_string_append_c(out, 'b');
    put_string(p, "", b->name);
    put_key(p, "m=", b->memory);
    put_key(p, "bytes=", b->bytes);
    if (b->role)
        g_string_append_printf(out, " role=%s", ech_role_name((EchRole)b->role));
    if (b->dtype)
        g_string_append_printf(out, " dtype=%s", ech_dtype_name((EchDtype)b->dtype));
    if (b->resident)
        put_text(out, " resident=1");
    if (b->upper_end)
        put_text(out, " upper=1");
    if (b->direct)
        put_text(out, " direct=1");
    if (b->managed)
        put_key(p, "managed=", b->managed);
    if (b->product)
        put_key(p, "product=", b->product);
    if (b->product && b->product_dtype)
        g_string_append_printf(out, ":%s", ech_dtype_name((EchDtype)b->product_dtype));
    if (b->replicas)
        put_key(p, "replicas=", b->replicas);
    if (b->rounded)
        put_key(p, "rounded=", b->rounded);
    if (b->dense)
        put_key(p, "dense=", b->dense);
    if (b->offset != ECH_OFFSET_NONE)
        put_key(p, "offset=", b->offset);
    if (b->address != ECH_OFFSET_NONE)
        put_key(p, "address=", b->address);
    if (b->alias_of != ECH_NONE) {
        put_key(p, "alias=", b->alias_of);
        g_string_append_c(out, '+');
        put_u64(out, b->alias_offset);
    }
    if (b->loop != ECH_NONE)
        put_key(p, "loop=", b->loop);
    if (b->queue != ECH_NONE)
        put_key(p, "q=", b->queue);
    put_string(p, "pool=", b->pool);
    if (b->segment != ECH_NONE)
        put_key(p, "segment=", b->segment);
    put_string(p, "stack=", b->stack);
    put_string(p, "shape=", b->shape);
    g_string_append_c(out, '\n');
}

static void print_op(Printer *p, uint32_t at, const EchOp *op)
{
    GString *out = p->out;
    put_text(out, ech_op_kind_name((EchOpKind)op->kind));
    put_string(p, "", op->name);
    put_key(p, "q=", op->queue);
    if (op->collective) {
        put_text(out, " type=");
        put_text(out, ech_collective_name((EchCollective)op->collective));
    }
    if (op->memory_from != ECH_NONE)
        put_key(p, "from=", op->memory_from);
    if (op->memory_to != ECH_NONE)
        put_key(p, "to=", op->memory_to);
    if (op->target != ECH_NONE)
        put_key(p, "target=", op->target);
    if (op->bytes || op->bytes_origin) {
        put_key(p, "bytes=", op->bytes);
        put_origin(out, op->bytes_origin);
    }
    const EchUse *uses = op->n_uses ? ech_trace_uses(p->trace) + op->first_use : NULL;
    for (uint32_t i = 0; i < op->n_uses; i++) {
        put_key(p, uses[i].access == ECH_READ ? "r=" : "w=", uses[i].buffer);
        g_string_append_c(out, ':');
        put_u64(out, uses[i].bytes);
        put_origin(out, uses[i].origin);
        if (uses[i].pattern != ECH_PATTERN_STREAM)
            g_string_append_printf(out, "/%s", patterns[uses[i].pattern]);
    }
    const EchWork *work = op->n_work ? ech_trace_work(p->trace) + op->first_work : NULL;
    for (uint32_t i = 0; i < op->n_work; i++) {
        put_text(out, " work=");
        put_text(out, units[work[i].unit]);
        g_string_append_c(out, ':');
        put_text(out, ech_dtype_name((EchDtype)work[i].dtype));
        g_string_append_c(out, ':');
        put_u64(out, work[i].count);
        put_origin(out, work[i].origin);
    }
    const EchDep *deps = op->n_deps ? ech_trace_deps(p->trace) + op->first_dep : NULL;
    for (uint32_t i = 0; i < op->n_deps; i++) {
        put_text(out, " after=");
        put_i64(out, (int64_t)deps[i].op - (int64_t)at);
        if (deps[i].distance) {
            g_string_append_c(out, '@');
            put_u64(out, deps[i].distance);
        }
    }
    if (op->estimate != ECH_TIME_NONE) {
        put_text(out, " estimate=");
        put_i64(out, op->estimate);
        put_origin(out, op->estimate_origin);
    }
    if (op->recorded.start != ECH_TIME_NONE) {
        put_text(out, " start=");
        put_i64(out, op->recorded.start);
    }
    if (op->recorded.duration != ECH_TIME_NONE) {
        put_text(out, " duration=");
        put_i64(out, op->recorded.duration);
    }
    put_string(p, "launch=", op->launch);
    put_string(p, "stack=", op->stack);
    g_string_append_c(out, '\n');
}

typedef void (*Piece)(const char *text, size_t n, void *data);

/* Hands on what has been printed once it is much, or (@all) whatever there is. */
static void hand_on(GString *out, Piece piece, void *data, bool all)
{
    enum { MUCH = 1 << 20 };
    if (!piece || (!all && out->len < MUCH))
        return;
    piece(out->str, out->len, data);
    g_string_truncate(out, 0);
}

static void print_all(const EchTrace *trace, GString *out, Piece piece, void *data)
{
    size_t n_strings = ech_trace_n_strings(trace);
    g_autofree uint32_t *table = g_new(uint32_t, n_strings + 1);
    memset(table, 0xff, (n_strings + 1) * sizeof *table);
    g_autofree uint32_t *counts = g_new0(uint32_t, n_strings + 1);
    g_autoptr(GArray) shared = g_array_new(FALSE, FALSE, sizeof(EchId));
    put_text(out, MAGIC);
    Printer p = {trace, out, table, counts, shared};
    put_quoted(out, ech_trace_format(trace));
    g_string_append_c(out, '\n');
    const char *value = NULL;
    for (size_t i = 0;; i++) {
        const char *key = ech_trace_property(trace, i, &value);
        if (!key)
            break;
        put_text(out, "property ");
        put_quoted(out, key);
        g_string_append_c(out, ' ');
        put_quoted(out, value);
        g_string_append_c(out, '\n');
    }
    choose_shared(&p);
    g_string_append_printf(out, "strings %u\n", shared->len);
    for (uint32_t i = 0; i < shared->len; i++) {
        put_quoted(out, ech_trace_string(trace, g_array_index(shared, EchId, i)));
        g_string_append_c(out, '\n');
        hand_on(out, piece, data, false);
    }
    g_string_append_printf(out, "memories %zu\n", ech_trace_n_memories(trace));
    for (EchId i = 0; i < ech_trace_n_memories(trace); i++) {
        put_quoted(out, ech_trace_memory(trace, i));
        g_string_append_c(out, '\n');
    }
    g_string_append_printf(out, "queues %zu\n", ech_trace_n_queues(trace));
    for (size_t i = 0; i < ech_trace_n_queues(trace); i++) {
        const EchQueue *queue = &ech_trace_queues(trace)[i];
        g_string_append_printf(out, "%s %u ", queue_kinds[queue->kind], queue->device);
        put_quoted(out, ech_trace_string(trace, queue->name));
        g_string_append_c(out, '\n');
    }
    g_string_append_printf(out, "buffers %zu\n", ech_trace_n_buffers(trace));
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        print_buffer(&p, &ech_trace_buffers(trace)[i]);
        hand_on(out, piece, data, false);
    }
    g_string_append_printf(out, "ops %zu\n", ech_trace_n_ops(trace));
    for (uint32_t i = 0; i < ech_trace_n_ops(trace); i++) {
        print_op(&p, i, &ech_trace_ops(trace)[i]);
        hand_on(out, piece, data, false);
    }
    hand_on(out, piece, data, true);
}

GString *ech_trace_file_print(const EchTrace *trace)
{
    GString *out = g_string_new(NULL);
    print_all(trace, out, NULL, NULL);
    return out;
}

void ech_trace_file_stream(const EchTrace *trace, void (*piece)(const char *text, size_t n, void *data), void *data)
{
    g_autoptr(GString) out = g_string_new(NULL);
    print_all(trace, out, piece, data);
}

typedef struct {
    FILE *file;
    int failure; /* errno of the first failed write, or 0 */
} Writing;

static void write_piece(const char *text, size_t n, void *data)
{
    Writing *writing = data;
    if (!writing->failure && fwrite(text, 1, n, writing->file) != n)
        writing->failure = errno ? errno : EIO;
}

static bool write_failed(const char *path, int failure, GError **error)
{
    g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(failure), "%s: cannot write: %s", path, g_strerror(failure));
    return false;
}

/* To @path as it is, or by way of @temporary. */
static bool write_by_way_of(const EchTrace *trace, const char *path, char *temporary, GError **error)
{
    int fd = temporary ? g_mkstemp_full(temporary, O_WRONLY | O_CLOEXEC, 0666) : open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    Writing writing = {.file = fd < 0 ? NULL : fdopen(fd, "w")};
    if (!writing.file) {
        int failure = errno;
        if (fd >= 0)
            close(fd);
        return write_failed(path, failure, error);
    }
    errno = 0;
    ech_trace_file_stream(trace, write_piece, &writing);
    if (fclose(writing.file) != 0 && !writing.failure)
        writing.failure = errno;
    if (!writing.failure && temporary && g_rename(temporary, path) != 0)
        writing.failure = errno;
    if (!writing.failure)
        return true;
    if (temporary)
        g_unlink(temporary);
    return write_failed(path, writing.failure, error);
}

bool ech_trace_file_write(const EchTrace *trace, const char *path, GError **error)
{
    /* A device, a pipe or what a link leads to is written to as it is; a file is replaced when its new contents are whole. */
    if (g_file_test(path, G_FILE_TEST_EXISTS) && (!g_file_test(path, G_FILE_TEST_IS_REGULAR) || g_file_test(path, G_FILE_TEST_IS_SYMLINK)))
        return write_by_way_of(trace, path, NULL, error);
    g_autofree char *temporary = g_strconcat(path, ".XXXXXX", NULL);
    sigset_t signals;
    ech_signals_hold(&signals);
    bool ok = write_by_way_of(trace, path, temporary, error);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    return ok;
}

/* ---- reading ---- */

typedef struct {
    const char *where;
    const char *line, *at, *end; /* Current line's start, cursor, end of data */
    uint64_t number;             /* Line, from 1 */
    EchTraceBuilder *builder;
    GArray *shared; /* EchId */
    GString *scratch;
    const char *kinds[ECH_N_OP_KINDS], *roles[ECH_N_ROLES], *collectives[ECH_N_COLLECTIVES];
} Reader;

bool ech_trace_file_probe(const uint8_t *head, size_t n)
{
    return n >= strlen(MAGIC) && memcmp(head, MAGIC, strlen(MAGIC)) == 0;
}

static bool fail(const Reader *r, const char *expected, GError **error)
{
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    size_t left = (size_t)((stop ? stop : r->end) - r->at);
    g_autofree char *raw = g_strndup(r->at, MIN(left, 40));
    g_autofree char *seen = g_utf8_make_valid(raw, -1);
    g_autofree char *quoted = g_strdup_printf("'%s'", seen);
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%" G_GUINT64_FORMAT ":%zu: %s; expected %s", r->where, r->number, (size_t)(r->at - r->line) + 1,
                left             ? quoted
                : r->at < r->end ? "the line ends here"
                                 : "the file ends here, as if it were cut",
                expected);
    return false;
}

static bool take(Reader *r, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* Git on Windows may have written its own line ends. */
static bool take_line_end(Reader *r, GError **error)
{
    if (r->end - r->at >= 2 && r->at[0] == '\r' && r->at[1] == '\n')
        r->at++;
    if (r->at == r->end || *r->at != '\n')
        return fail(r, "the end of the line", error);
    r->at++;
    r->line = r->at;
    r->number++;
    return true;
}

static bool take_u64(Reader *r, uint64_t *ret, GError **error)
{
    uint64_t value = 0;
    const char *start = r->at;
    for (; r->at < r->end && g_ascii_isdigit(*r->at); r->at++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) || __builtin_add_overflow(value, (uint64_t)(*r->at - '0'), &value)) {
            r->at = start;
            return fail(r, "a number below 2^64", error);
        }
    }
    if (r->at == start)
        return fail(r, "a number", error);
    *ret = value;
    return true;
}

static bool take_i64(Reader *r, int64_t *ret, GError **error)
{
    const char *start = r->at;
    bool negative = take(r, "-");
    uint64_t value;
    if (!take_u64(r, &value, error))
        return false;
    if (value > INT64_MAX) {
        r->at = start;
        return fail(r, "a number below 2^63", error);
    }
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool take_u32(Reader *r, uint32_t *ret, GError **error)
{
    const char *start = r->at;
    uint64_t value;
    if (!take_u64(r, &value, error))
        return false;
    if (value >= UINT32_MAX) {
        r->at = start;
        return fail(r, "a number below 2^32 - 1", error);
    }
    *ret = (uint32_t)value;
    return true;
}

/* A quoted text into scratch. */
static bool take_quoted(Reader *r, GError **error)
{
    if (!take(r, "\""))
        return fail(r, "a quoted text", error);
    g_string_truncate(r->scratch, 0);
    for (;;) {
        const char *run = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && *r->at != '\n' && *r->at != '\0')
            r->at++;
        g_string_append_len(r->scratch, run, r->at - run);
        if (take(r, "\""))
            return true;
        if (!take(r, "\\"))
            return fail(r, "a closing quote", error);
        if (take(r, "n")) {
            g_string_append_c(r->scratch, '\n');
        } else if (take(r, "\"")) {
            g_string_append_c(r->scratch, '"');
        } else if (take(r, "\\")) {
            g_string_append_c(r->scratch, '\\');
        } else if (r->end - r->at >= 3 && r->at[0] == 'x' && g_ascii_isxdigit(r->at[1]) && g_ascii_isxdigit(r->at[2]) && (r->at[1] != '0' || r->at[2] != '0')) {
            g_string_append_c(r->scratch, (char)(g_ascii_xdigit_value(r->at[1]) * 16 + g_ascii_xdigit_value(r->at[2])));
            r->at += 3;
        } else {
            return fail(r, "an escape: \\n, \\\", \\\\ or \\x01 to \\xff", error);
        }
    }
}

/* A quoted text or $number. */
static bool take_string(Reader *r, EchId *ret, GError **error)
{
    if (take(r, "$")) {
        uint32_t i;
        const char *start = r->at;
        if (!take_u32(r, &i, error))
            return false;
        if (i >= r->shared->len) {
            r->at = start;
            return fail(r, "the number of a string of the strings section", error);
        }
        *ret = g_array_index(r->shared, EchId, i);
        return true;
    }
    if (!take_quoted(r, error))
        return false;
    *ret = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return true;
}

static unsigned take_origin(Reader *r)
{
    return take(r, "?") ? ECH_ABSENT : take(r, "~") ? ECH_INFERRED : take(r, "!") ? ECH_ASSUMED : ECH_KNOWN;
}

/* One of a list of words, ended by anything that is not part of a word. */
static bool take_word(Reader *r, const char *const *words, size_t n, const char *what, uint8_t *ret, GError **error)
{
    const char *stop = r->at;
    while (stop < r->end && (g_ascii_isalnum(*stop) || *stop == '_' || *stop == '-'))
        stop++;
    size_t length = (size_t)(stop - r->at);
    for (size_t i = 0; i < n; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], r->at, length) == 0) {
            r->at = stop;
            *ret = (uint8_t)i;
            return true;
        }
    }
    return fail(r, what, error);
}

/* "NAME count\n"; a line of a section takes at least two bytes, so a count beyond the rest of the file is a lie. */
static bool take_section(Reader *r, const char *name, uint32_t *ret, GError **error)
{
    if (!take(r, name) || !take(r, " "))
        return fail(r, name, error);
    const char *start = r->at;
    if (!take_u32(r, ret, error))
        return false;
    if (*ret > (uint64_t)(r->end - r->at) / 2) {
        r->at = start;
        return fail(r, "no more lines than the file holds", error);
    }
    return take_line_end(r, error);
}

static bool read_use(Reader *r, EchAccess access, GError **error)
{
    uint32_t buffer = 0;
    uint64_t bytes = 0;
    uint8_t pattern = ECH_PATTERN_STREAM;
    if (!take_u32(r, &buffer, error))
        return false;
    if (!take(r, ":"))
        return fail(r, "buffer:bytes", error);
    if (!take_u64(r, &bytes, error))
        return false;
    unsigned origin = take_origin(r);
    if (take(r, "/") && !take_word(r, patterns, G_N_ELEMENTS(patterns), "stream, strided or random", &pattern, error))
        return false;
    ech_trace_builder_use(r->builder, buffer, access, bytes, (EchPattern)pattern, (EchOrigin)origin);
    return true;
}

static bool take_dtype(Reader *r, uint8_t *ret, GError **error)
{
    const char *stop = r->at;
    while (stop < r->end && g_ascii_isalnum(*stop))
        stop++;
    EchDtype dtype = ech_dtype_parse(r->at, (size_t)(stop - r->at));
    if (dtype == ECH_DTYPE_NONE && stop != r->at)
        return fail(r, "an element type like bf16", error);
    r->at = stop;
    *ret = (uint8_t)dtype;
    return true;
}

static bool read_work(Reader *r, GError **error)
{
    uint8_t unit, dtype;
    uint64_t count;
    if (!take_word(r, units, G_N_ELEMENTS(units), "matrix, vector or transcendental", &unit, error))
        return false;
    if (!take(r, ":"))
        return fail(r, "unit:type:count", error);
    if (!take_dtype(r, &dtype, error))
        return false;
    if (!take(r, ":"))
        return fail(r, "unit:type:count", error);
    if (!take_u64(r, &count, error))
        return false;
    ech_trace_builder_work(r->builder, (EchWorkUnit)unit, (EchDtype)dtype, count, (EchOrigin)take_origin(r));
    return true;
}

static bool read_dep(Reader *r, uint32_t at, GError **error)
{
    int64_t relative;
    uint32_t distance = 0;
    const char *start = r->at;
    if (!take_i64(r, &relative, error) || (take(r, "@") && !take_u32(r, &distance, error)))
        return false;
    if (relative < -(int64_t)at || relative > (int64_t)UINT32_MAX - 1 - (int64_t)at) {
        r->at = start;
        return fail(r, "an op of this trace", error);
    }
    ech_trace_builder_dep(r->builder, (EchId)((int64_t)at + relative), distance);
    return true;
}

static bool read_op(Reader *r, uint32_t at, GError **error)
{
    uint8_t kind;
    if (!take_word(r, r->kinds, ECH_N_OP_KINDS, "a kind of op (kernel, copy, alloc, ...)", &kind, error))
        return false;
    EchOp op = ech_op_init((EchOpKind)kind);
    ech_trace_builder_op(r->builder, op);
    while (take(r, " ")) {
        bool ok;
        if (r->at < r->end && (*r->at == '"' || *r->at == '$')) {
            ok = take_string(r, &op.name, error);
        } else if (take(r, "q=")) {
            ok = take_u32(r, &op.queue, error);
        } else if (take(r, "r=")) {
            ok = read_use(r, ECH_READ, error);
        } else if (take(r, "w=")) {
            ok = read_use(r, ECH_WRITE, error);
        } else if (take(r, "after=")) {
            ok = read_dep(r, at, error);
        } else if (take(r, "work=")) {
            ok = read_work(r, error);
        } else if (take(r, "bytes=")) {
            ok = take_u64(r, &op.bytes, error);
            op.bytes_origin = (uint8_t)take_origin(r);
        } else if (take(r, "target=")) {
            ok = take_u32(r, &op.target, error);
        } else if (take(r, "from=")) {
            ok = take_u32(r, &op.memory_from, error);
        } else if (take(r, "to=")) {
            ok = take_u32(r, &op.memory_to, error);
        } else if (take(r, "start=")) {
            ok = take_i64(r, &op.recorded.start, error);
        } else if (take(r, "duration=")) {
            ok = take_i64(r, &op.recorded.duration, error);
        } else if (take(r, "estimate=")) {
            ok = take_i64(r, &op.estimate, error);
            op.estimate_origin = (uint8_t)take_origin(r);
        } else if (take(r, "launch=")) {
            ok = take_string(r, &op.launch, error);
        } else if (take(r, "stack=")) {
            ok = take_string(r, &op.stack, error);
        } else if (take(r, "type=")) {
            ok = take_word(r, r->collectives, ECH_N_COLLECTIVES, "a type of collective (all-reduce, ...)", &op.collective, error);
        } else {
            return fail(r, "a field of an op (q=, r=, w=, work=, after=, bytes=, ...)", error);
        }
        if (!ok)
            return false;
    }
    EchOp *made = ech_trace_builder_peek_op(r->builder, at);
    op.first_use = made->first_use;
    op.n_uses = made->n_uses;
    op.first_dep = made->first_dep;
    op.n_deps = made->n_deps;
    op.first_work = made->first_work;
    op.n_work = made->n_work;
    *made = op;
    return take_line_end(r, error);
}

static bool take_flag(Reader *r, uint8_t *ret, GError **error)
{
    if (!take(r, "1"))
        return fail(r, "1", error);
    *ret = 1;
    return true;
}

static bool take_managed(Reader *r, uint8_t *ret, GError **error)
{
    uint32_t flags = 0;
    if (!take_u32(r, &flags, error))
        return false;
    if (flags == 0 || flags > ECH_MANAGED_ALL)
        return fail(r, "flags of managed memory (1 to 31)", error);
    *ret = (uint8_t)flags;
    return true;
}

static bool take_product(Reader *r, uint8_t *ret, uint8_t *ret_dtype, GError **error)
{
    uint32_t product = 0;
    if (!take_u32(r, &product, error))
        return false;
    if (product == ECH_PRODUCT_NONE || product >= ECH_N_PRODUCTS)
        return fail(r, "what a product's result is (1 to 3)", error);
    *ret = (uint8_t)product;
    return !take(r, ":") || take_dtype(r, ret_dtype, error);
}

static bool read_buffer(Reader *r, GError **error)
{
    EchBuffer b = ech_buffer_init();
    if (!take(r, "b"))
        return fail(r, "a buffer: b \"name\" m=0 bytes=4096", error);
    while (take(r, " ")) {
        bool ok;
        if (r->at < r->end && (*r->at == '"' || *r->at == '$')) {
            ok = take_string(r, &b.name, error);
        } else if (take(r, "m=")) {
            ok = take_u32(r, &b.memory, error);
        } else if (take(r, "bytes=")) {
            ok = take_u64(r, &b.bytes, error);
        } else if (take(r, "role=")) {
            ok = take_word(r, r->roles, ECH_N_ROLES, "a role (parameter, activation, ...)", &b.role, error);
        } else if (take(r, "dtype=")) {
            ok = take_dtype(r, &b.dtype, error);
        } else if (take(r, "resident=")) {
            ok = take_flag(r, &b.resident, error);
        } else if (take(r, "upper=")) {
            ok = take_flag(r, &b.upper_end, error);
        } else if (take(r, "direct=")) {
            ok = take_flag(r, &b.direct, error);
        } else if (take(r, "managed=")) {
            ok = take_managed(r, &b.managed, error);
        } else if (take(r, "product=")) {
            ok = take_product(r, &b.product, &b.product_dtype, error);
        } else if (take(r, "replicas=")) {
            ok = take_u32(r, &b.replicas, error);
        } else if (take(r, "rounded=")) {
            ok = take_u64(r, &b.rounded, error);
        } else if (take(r, "dense=")) {
            ok = take_u64(r, &b.dense, error);
        } else if (take(r, "offset=")) {
            ok = take_u64(r, &b.offset, error);
        } else if (take(r, "address=")) {
            ok = take_u64(r, &b.address, error);
        } else if (take(r, "alias=")) {
            ok = take_u32(r, &b.alias_of, error) && (take(r, "+") || fail(r, "+offset", error)) && take_u64(r, &b.alias_offset, error);
        } else if (take(r, "loop=")) {
            ok = take_u32(r, &b.loop, error);
        } else if (take(r, "q=")) {
            ok = take_u32(r, &b.queue, error);
        } else if (take(r, "pool=")) {
            ok = take_string(r, &b.pool, error);
        } else if (take(r, "segment=")) {
            ok = take_u32(r, &b.segment, error);
        } else if (take(r, "stack=")) {
            ok = take_string(r, &b.stack, error);
        } else if (take(r, "shape=")) {
            ok = take_string(r, &b.shape, error);
        } else {
            return fail(r, "a field of a buffer (m=, bytes=, role=, offset=, ...)", error);
        }
        if (!ok)
            return false;
    }
    ech_trace_builder_buffer(r->builder, b);
    return take_line_end(r, error);
}

static bool read_queue(Reader *r, GError **error)
{
    uint8_t kind = 0;
    uint32_t device = 0;
    if (!take_word(r, queue_kinds, G_N_ELEMENTS(queue_kinds), "a kind of queue (compute, copy, host or collective)", &kind, error))
        return false;
    if (!take(r, " "))
        return fail(r, "the queue's device", error);
    if (!take_u32(r, &device, error))
        return false;
    if (!take(r, " "))
        return fail(r, "the queue's name", error);
    if (!take_quoted(r, error))
        return false;
    ech_trace_builder_queue(r->builder, r->scratch->str, (EchQueueKind)kind, device);
    return take_line_end(r, error);
}

static bool read_properties(Reader *r, GError **error)
{
    while (take(r, "property ")) {
        if (!take_quoted(r, error))
            return false;
        g_autofree char *key = g_strdup(r->scratch->str);
        if (!take(r, " "))
            return fail(r, "the property's value", error);
        if (!take_quoted(r, error))
            return false;
        ech_trace_builder_set_property(r->builder, key, r->scratch->str);
        if (!take_line_end(r, error))
            return false;
    }
    return true;
}

static bool read_memory(Reader *r, uint32_t i, GError **error)
{
    if (!take_quoted(r, error))
        return false;
    if (ech_trace_builder_memory(r->builder, r->scratch->str) != i)
        return fail(r, "each memory once", error);
    return take_line_end(r, error);
}

static bool read_all(Reader *r, GError **error)
{
    uint32_t n;
    if (!read_properties(r, error) || !take_section(r, "strings", &n, error))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!take_quoted(r, error))
            return false;
        EchId id = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
        g_array_append_val(r->shared, id);
        if (!take_line_end(r, error))
            return false;
    }
    if (!take_section(r, "memories", &n, error))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_memory(r, i, error))
            return false;
    }
    if (!take_section(r, "queues", &n, error))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_queue(r, error))
            return false;
    }
    if (!take_section(r, "buffers", &n, error))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_buffer(r, error))
            return false;
    }
    if (!take_section(r, "ops", &n, error))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_op(r, i, error))
            return false;
    }
    for (; r->at < r->end && *r->at == '\n'; r->number++)
        r->line = ++r->at;
    return r->at == r->end || fail(r, "the end of the file: so many operations as the line 'ops' says", error);
}

EchTrace *ech_trace_file_read(const char *data, size_t n, const char *where, GError **error)
{
    g_autoptr(GArray) shared = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(GString) scratch = g_string_new(NULL);
    Reader r = {.where = where, .line = data, .at = data, .end = data + n, .number = 1, .shared = shared, .scratch = scratch};
    for (unsigned i = 0; i < ECH_N_OP_KINDS; i++)
        r.kinds[i] = ech_op_kind_name((EchOpKind)i);
    for (unsigned i = 0; i < ECH_N_ROLES; i++)
        r.roles[i] = ech_role_name((EchRole)i);
    for (unsigned i = 0; i < ECH_N_COLLECTIVES; i++)
        r.collectives[i] = ech_collective_name((EchCollective)i);
    if (!take(&r, MAGIC)) {
        fail(&r, "'" MAGIC "\"FORMAT\"'", error);
        return NULL;
    }
    if (!take_quoted(&r, error))
        return NULL;
    g_autoptr(EchTraceBuilder) builder = r.builder = ech_trace_builder_new(scratch->str);
    if (!take_line_end(&r, error) || !read_all(&r, error))
        return NULL;
    EchTrace *trace = ech_trace_builder_finish(builder, error);
    if (!trace)
        g_prefix_error(error, "%s: ", where);
    return trace;
}
