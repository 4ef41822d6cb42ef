/* Allocator events as text: a line an event, read at memory speed. */
#include "sim/import/alloc_text.h"

#include "sim/base/error.h"

#include <string.h>

/* Skips blanks, reads a number; NULL if there is none or it does not fit. */
static const char *number(const char *at, const char *end, uint64_t *ret)
{
    while (at < end && *at == ' ')
        at++;
    const char *begin = at;
    uint64_t value = 0;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9)
            break;
        if (value > (UINT64_MAX - digit) / 10)
            return NULL;
        value = value * 10 + digit;
    }
    if (at == begin || (at < end && *at != ' ' && *at != '\n' && *at != '\r'))
        return NULL;
    *ret = value;
    return at;
}

static bool at_end(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\r'))
        at++;
    return at == end || *at == '\n';
}

/* One line of [at, end), '\n' excluded or at end. False where it is none of ours. */
static bool parse_line(const char *at, const char *end, EchAllocEvent *ret)
{
    uint64_t first, second = 0, stream = 0;
    char letter = *at;
    if (letter == 'c' && at_end(at + 1, end)) {
        *ret = (EchAllocEvent){.kind = ECH_EVENT_EMPTY_CACHE};
        return true;
    }
    const char *next = number(at + 1, end, &first);
    if (!next || at[1] != ' ')
        return false;
    *ret = (EchAllocEvent){0};
    switch (letter) {
    case 'a':
    case 'u':
    case 'p':
    case 'g':
        next = number(next, end, &second);
        if (!next || second > G_MAXINT64)
            return false;
        if (!at_end(next, end) && !(next = number(next, end, &stream)))
            return false;
        ret->kind = ECH_EVENT_ALLOC;
        ret->upper_end = letter == 'u';
        ret->private_pool = letter == 'p' || letter == 'g';
        ret->captured = letter == 'g';
        ret->bytes = second;
        break;
    case 'f': ret->kind = ECH_EVENT_FREE; break;
    case 'r':
        if (!(next = number(next, end, &stream)))
            return false;
        ret->kind = ECH_EVENT_RECORD_STREAM;
        break;
    case 'e':
    case 'd':
        stream = first;
        first = 0;
        ret->kind = letter == 'e' ? ECH_EVENT_STREAM_DONE : ECH_EVENT_POOL_DONE;
        break;
    default: return false;
    }
    if (!at_end(next, end) || first >= UINT32_MAX || stream > ECH_EVENT_MAX_STREAM)
        return false;
    ret->id = (uint32_t)first;
    ret->stream = (uint32_t)stream & ECH_EVENT_MAX_STREAM;
    return true;
}

/* The first line that is no comment decides: what is wrong further down deserves a message with its place. */
bool ech_alloc_text_probe(const uint8_t *head, size_t n)
{
    const char *at = (const char *)head, *end = at + n;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            line_end = end;
        if (line_end > at && *at != '#' && *at != '\r') {
            EchAllocEvent event;
            return line_end - at <= 80 && parse_line(at, line_end, &event);
        }
        at = line_end + (line_end < end);
    }
    return false;
}

bool ech_alloc_text_read(const char *data, size_t n, const char *where, GArray *events, EchDiag *diag, GError **error)
{
    const char *at = data, *end = data + n;
    g_autoptr(GByteArray) live = g_byte_array_new(); /* a bit per id of [0, next_id) */
    uint64_t next_id = 0, line = 1;
    for (; at < end; line++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            line_end = end;
        if (line_end > at && *at != '#' && *at != '\r') {
            EchAllocEvent event;
            if (!parse_line(at, line_end, &event)) {
                g_autofree char *text = g_strndup(at, (gsize)MIN(line_end - at, 60));
                g_autofree char *shown = g_utf8_make_valid(text, -1);
                g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                            "%s:%" G_GUINT64_FORMAT ": '%s' is no event; expected 'a ID BYTES [STREAM]', 'u ID BYTES', 'p ID BYTES POOL', 'g ID BYTES POOL', "
                            "'f ID', 'r ID STREAM', 'e STREAM', 'd POOL' or 'c'",
                            where, line, shown);
                return false;
            }
            bool known = event.id < next_id && (live->data[event.id / 8] >> event.id % 8 & 1);
            if (event.kind == ECH_EVENT_ALLOC) {
                /* Gaps are fine, but the table of ids must stay in proportion to the file. */
                if (event.id < next_id || event.id > next_id + 8 * n) {
                    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%" G_GUINT64_FORMAT ": id %u does not follow; ids ascend, expected %" G_GUINT64_FORMAT,
                                where, line, event.id, next_id);
                    return false;
                }
                next_id = (uint64_t)event.id + 1;
                if (live->len < next_id / 8 + 1) {
                    guint before = live->len;
                    g_byte_array_set_size(live, (guint)(next_id / 8 + 1) * 2);
                    memset(live->data + before, 0, live->len - before);
                }
                live->data[event.id / 8] |= (guint8)(1u << event.id % 8);
            } else if (event.kind == ECH_EVENT_FREE && known) {
                live->data[event.id / 8] &= (guint8) ~(1u << event.id % 8);
            }
            if (event.kind == ECH_EVENT_FREE && !known)
                ech_diag_dropped(diag, "frees_of_unknown_ids", 1, "%s:%" G_GUINT64_FORMAT, where, line);
            else if (event.kind == ECH_EVENT_RECORD_STREAM && !known)
                ech_diag_dropped(diag, "streams_of_unknown_ids", 1, "%s:%" G_GUINT64_FORMAT, where, line);
            else
                g_array_append_val(events, event);
        }
        at = line_end + (line_end < end);
    }
    if (events->len >= UINT32_MAX - 1) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: more than 2^32 events", where);
        return false;
    }
    return true;
}

static int probe(const uint8_t *head, size_t n)
{
    return ech_alloc_text_probe(head, n) ? 2 : 0;
}

/* @queues: stream -> queue + 1. */
static EchId stream_queue(EchTraceBuilder *builder, GHashTable *queues, uint32_t stream)
{
    guint found = GPOINTER_TO_UINT(g_hash_table_lookup(queues, GUINT_TO_POINTER(stream)));
    if (found)
        return found - 1;
    g_autofree char *name = g_strdup_printf("stream %u", stream);
    EchId queue = ech_trace_builder_queue(builder, name, ECH_QUEUE_COMPUTE, 0);
    g_hash_table_insert(queues, GUINT_TO_POINTER(stream), GUINT_TO_POINTER(queue + 1));
    return queue;
}

/* What is neither given nor taken: as ech_alloc_events_of_trace() reads it. */
static void add_mark(EchTraceBuilder *builder, EchId host, const GArray *buffer_of, const EchAllocEvent *event, EchDiag *records)
{
    const char *name = event->kind == ECH_EVENT_RECORD_STREAM ? "record_stream"
                       : event->kind == ECH_EVENT_STREAM_DONE ? "stream_done"
                       : event->kind == ECH_EVENT_POOL_DONE   ? "pool_done"
                                                              : "empty_cache";
    g_autofree char *text = event->kind == ECH_EVENT_RECORD_STREAM
                                ? g_strdup_printf("%s buffer=%u stream=%u", name, g_array_index(buffer_of, EchId, event->id), event->stream)
                            : event->kind == ECH_EVENT_EMPTY_CACHE ? g_strdup(name)
                                                                   : g_strdup_printf("%s stream=%u", name, event->stream);
    EchOp mark = ech_op_init(ECH_OP_MARK);
    mark.name = ech_trace_builder_string(builder, text, -1);
    mark.queue = host;
    ech_trace_builder_op(builder, mark);
    ech_diag_note(records, name, 1);
}

static bool read_text(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    if (!ech_alloc_text_read(data, n, ech_source_path(source), events, ret->diag, error))
        return false;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("alloc_text");
    EchId memory = ech_trace_builder_memory(builder, "hbm"), host = ech_trace_builder_queue(builder, "host", ECH_QUEUE_HOST, 0);
    g_autoptr(GHashTable) queues = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) buffer_of = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint i = 0; i < events->len; i++) {
        const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, i);
        if (event->kind != ECH_EVENT_ALLOC && event->kind != ECH_EVENT_FREE) {
            add_mark(builder, host, buffer_of, event, ret->records);
            continue;
        }
        EchOp op = ech_op_init(event->kind == ECH_EVENT_ALLOC ? ECH_OP_ALLOC : ECH_OP_FREE);
        if (event->kind == ECH_EVENT_ALLOC) {
            g_autofree char *name = g_strdup_printf("%u", event->id);
            EchBuffer buffer = ech_buffer_init();
            buffer.name = ech_trace_builder_string(builder, name, -1);
            buffer.memory = memory;
            buffer.bytes = event->bytes;
            buffer.upper_end = event->upper_end;
            buffer.queue = stream_queue(builder, queues, event->stream);
            if (event->private_pool) {
                g_autofree char *pool = g_strdup_printf(event->captured ? "%u:0" : "0:%u", event->stream);
                buffer.pool = ech_trace_builder_string(builder, pool, -1);
            }
            EchId id = ech_trace_builder_buffer(builder, buffer), none = ECH_NONE;
            while (buffer_of->len < event->id)
                g_array_append_val(buffer_of, none);
            g_array_append_val(buffer_of, id);
        }
        op.target = g_array_index(buffer_of, EchId, event->id);
        op.name = ech_trace_builder_string(builder, event->kind == ECH_EVENT_ALLOC ? "alloc" : "free", -1);
        op.bytes = ech_trace_builder_peek_buffer(builder, op.target)->bytes;
        op.bytes_origin = ECH_KNOWN;
        op.queue = host;
        ech_trace_builder_op(builder, op);
        ech_diag_note(ret->records, event->kind == ECH_EVENT_FREE ? "free" : event->upper_end ? "upper" : "alloc", 1);
    }
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

const EchImportClass ech_import_alloc_text = {
    .name = "alloc_text",
    .summary = "allocator events as text, written by hand or by a script: a line for each allocation and each free",
    .probe = probe,
    .read = read_text,
    .by_hand =
        "a 0 6291456\n"
        "a 1 1048576 2\n"
        "f 0\n"
        "e 2\n"
        "f 1\n"
        "\n"
        "a ID BYTES [STREAM] allocates, f ID frees; ids ascend from 0. r ID STREAM: it is also used on that stream; e STREAM: all that was asked of a stream "
        "so far is done (cudaStreamSynchronize); c: torch.cuda.empty_cache(); u ID BYTES: from the upper end (BFC).\n"
        "p ID BYTES POOL allocates in a private pool of PyTorch's (MemPool), g the same while a CUDA graph is captured, d POOL releases the pool. Lines that "
        "begin with # are skipped.",
};
