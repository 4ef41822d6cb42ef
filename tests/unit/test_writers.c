/* What is written for other tools, read back by a decoder of its own: Perfetto's and pprof's protobufs, Chrome's JSON, MiniMalloc's CSV, Chakra's nodes. */
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/replay/replay.h"
#include "sim/report/ranks.h"
#include "sim/report/timeline.h"
#include "sim/report/writers.h"
#include "sim/trace/meets.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* ---- A protobuf decoder that knows nothing of ours ---- */

typedef struct {
    const uint8_t *at, *end;
} Span;

typedef struct {
    uint32_t number, type;
    uint64_t value;
    Span bytes;
} Field;

static uint64_t varint(Span *span)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        ck_assert_msg(span->at < span->end && shift < 70, "a number is cut");
        value |= (uint64_t)(*span->at & 0x7f) << shift;
        if (!(*span->at++ & 0x80))
            return value;
    }
}

static bool next(Span *span, Field *field)
{
    if (span->at == span->end)
        return false;
    uint64_t key = varint(span);
    *field = (Field){.number = (uint32_t)(key >> 3), .type = key & 7};
    ck_assert_uint_ne(field->number, 0);
    if (field->type == 0) {
        field->value = varint(span);
    } else if (field->type == 1) {
        ck_assert(span->end - span->at >= 8);
        for (unsigned i = 0; i < 8; i++)
            field->value |= (uint64_t)span->at[i] << (8 * i);
        span->at += 8;
    } else {
        ck_assert_uint_eq(field->type, 2);
        uint64_t n = varint(span);
        ck_assert_msg(n <= (uint64_t)(span->end - span->at), "a length points past the end");
        field->bytes = (Span){span->at, span->at + n};
        span->at += n;
    }
    return true;
}

static char *text_of(Span bytes)
{
    ck_assert_msg(g_utf8_validate((const char *)bytes.at, bytes.end - bytes.at, NULL), "a string is not UTF-8");
    return g_strndup((const char *)bytes.at, (gsize)(bytes.end - bytes.at));
}

/* ---- Perfetto ---- */

typedef struct {
    uint64_t uuid, parent;
    bool process, counter;
    int64_t last; /* time of the last event */
    bool open;    /* a slice has begun */
} Track;

typedef struct {
    GArray *tracks;
    GHashTable *names, *notes, *texts; /* iid -> text */
    GHashTable *flows_out, *flows_in;
    bool cleared;
    uint64_t sequence;
    size_t n_slices, n_counters, n_instants;
} Perfetto;

static void read_interned(Perfetto *p, Span span)
{
    Field field;
    while (next(&span, &field)) {
        GHashTable *table = field.number == 2 ? p->names : field.number == 3 ? p->notes : field.number == 29 ? p->texts : NULL;
        ck_assert_msg(table != NULL, "interned field %u", field.number);
        uint64_t iid = 0;
        char *text = NULL;
        Field part;
        while (next(&field.bytes, &part)) {
            if (part.number == 1)
                iid = part.value;
            else if (part.number == 2)
                text = text_of(part.bytes);
        }
        ck_assert_msg(iid != 0 && text != NULL, "an interned text without id or text");
        ck_assert_msg(!g_hash_table_contains(table, GSIZE_TO_POINTER(iid)), "iid %zu again", (size_t)iid);
        g_hash_table_insert(table, GSIZE_TO_POINTER(iid), text);
    }
}

static Track *find_track(Perfetto *p, uint64_t uuid)
{
    for (guint i = 0; i < p->tracks->len; i++)
        if (g_array_index(p->tracks, Track, i).uuid == uuid)
            return &g_array_index(p->tracks, Track, i);
    return NULL;
}

static void read_descriptor(Perfetto *p, Span span)
{
    Track track = {.last = -1};
    bool named = false;
    Field field;
    while (next(&span, &field)) {
        switch (field.number) {
        case 1: track.uuid = field.value; break;
        case 2:
            named = true;
            g_free(text_of(field.bytes));
            break;
        case 3: track.process = named = true; break;
        case 5: track.parent = field.value; break;
        case 8: track.counter = true; break;
        default: ck_abort_msg("descriptor field %u", field.number);
        }
    }
    ck_assert(named && track.uuid != 0);
    ck_assert_ptr_null(find_track(p, track.uuid));
    ck_assert_msg(track.process || find_track(p, track.parent) != NULL, "a track's parent comes after it or never");
    g_array_append_val(p->tracks, track);
}

static void read_note(Perfetto *p, Span span)
{
    Field field;
    bool named = false, valued = false;
    while (next(&span, &field)) {
        if (field.number == 1) {
            named = true;
            ck_assert_msg(g_hash_table_contains(p->notes, GSIZE_TO_POINTER(field.value)), "annotation name %zu is not interned", (size_t)field.value);
        } else if (field.number == 17) {
            valued = true;
            ck_assert_msg(g_hash_table_contains(p->texts, GSIZE_TO_POINTER(field.value)), "annotation text %zu is not interned", (size_t)field.value);
        } else {
            ck_assert_uint_eq(field.number, 3);
            valued = true;
        }
    }
    ck_assert(named && valued);
}

static void read_event(Perfetto *p, Span span, int64_t time)
{
    uint64_t type = 0, track_id = 0;
    bool named = false, counted = false;
    Field field;
    GArray *flows = g_array_new(FALSE, FALSE, sizeof(Field));
    while (next(&span, &field)) {
        switch (field.number) {
        case 4: read_note(p, field.bytes); break;
        case 9: type = field.value; break;
        case 10:
            named = true;
            ck_assert_msg(g_hash_table_contains(p->names, GSIZE_TO_POINTER(field.value)), "name %zu is not interned", (size_t)field.value);
            break;
        case 11: track_id = field.value; break;
        case 23:
            named = true;
            g_free(text_of(field.bytes));
            break;
        case 30: counted = true; break;
        case 47:
        case 48:
            ck_assert_uint_eq(field.type, 1);
            g_array_append_val(flows, field);
            break;
        default: ck_abort_msg("event field %u", field.number);
        }
    }
    Track *track = find_track(p, track_id);
    ck_assert_msg(track != NULL, "an event on track %zu, which nothing describes", (size_t)track_id);
    ck_assert_msg(time >= track->last, "time goes back on a track");
    track->last = time;
    if (type == 1) {
        ck_assert_msg(named && !track->open && !track->counter, "slices of a track overlap");
        track->open = true;
        p->n_slices++;
    } else if (type == 2) {
        ck_assert_msg(track->open, "an end without a beginning");
        track->open = false;
    } else if (type == 3) {
        ck_assert(named);
        p->n_instants++;
    } else {
        ck_assert_uint_eq(type, 4);
        ck_assert(track->counter && counted);
        p->n_counters++;
    }
    for (guint i = 0; i < flows->len; i++) {
        const Field *flow = &g_array_index(flows, Field, i);
        ck_assert(type == 1);
        GHashTable *table = flow->number == 47 ? p->flows_out : p->flows_in;
        ck_assert_msg(!g_hash_table_contains(table, GSIZE_TO_POINTER(flow->value)), "flow %zu twice", (size_t)flow->value);
        g_hash_table_insert(table, GSIZE_TO_POINTER(flow->value), GSIZE_TO_POINTER((gsize)time + 1));
    }
    g_array_unref(flows);
}

static Perfetto *read_perfetto(Span file)
{
    Perfetto *p = g_new0(Perfetto, 1);
    p->tracks = g_array_new(FALSE, FALSE, sizeof(Track));
    p->names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->notes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->texts = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->flows_out = g_hash_table_new(NULL, NULL);
    p->flows_in = g_hash_table_new(NULL, NULL);
    Field packet;
    while (next(&file, &packet)) {
        ck_assert_uint_eq(packet.number, 1);
        uint64_t sequence = 0, flags = 0;
        int64_t time = -1;
        Span event = {NULL, NULL}, interned = {NULL, NULL}, descriptor = {NULL, NULL};
        Field field;
        while (next(&packet.bytes, &field)) {
            switch (field.number) {
            case 8: time = (int64_t)field.value; break;
            case 10: sequence = field.value; break;
            case 11: event = field.bytes; break;
            case 12: interned = field.bytes; break;
            case 13: flags = field.value; break;
            case 60: descriptor = field.bytes; break;
            default: ck_abort_msg("packet field %u", field.number);
            }
        }
        ck_assert(sequence != 0 && (p->sequence == 0 || p->sequence == sequence));
        p->sequence = sequence;
        /* Interned data hold for a sequence from the packet on that clears its state; whoever uses them says so. */
        if (flags & 1) {
            ck_assert(!p->cleared);
            p->cleared = true;
        }
        if (interned.at) {
            ck_assert(p->cleared && (flags & 2));
            read_interned(p, interned);
        }
        if (descriptor.at)
            read_descriptor(p, descriptor);
        if (event.at) {
            ck_assert(p->cleared && (flags & 2) && time >= 0);
            read_event(p, event, time);
        }
    }
    for (guint i = 0; i < p->tracks->len; i++)
        ck_assert_msg(!g_array_index(p->tracks, Track, i).open, "a slice never ends");
    ck_assert_uint_eq(g_hash_table_size(p->flows_out), g_hash_table_size(p->flows_in));
    GHashTableIter iter;
    gpointer id, from;
    g_hash_table_iter_init(&iter, p->flows_out);
    while (g_hash_table_iter_next(&iter, &id, &from)) {
        gpointer to = g_hash_table_lookup(p->flows_in, id);
        ck_assert_msg(to != NULL && GPOINTER_TO_SIZE(from) <= GPOINTER_TO_SIZE(to), "a flow arrives nowhere or before it left");
    }
    return p;
}

static void perfetto_free(Perfetto *p)
{
    g_array_unref(p->tracks);
    g_hash_table_unref(p->names);
    g_hash_table_unref(p->notes);
    g_hash_table_unref(p->texts);
    g_hash_table_unref(p->flows_out);
    g_hash_table_unref(p->flows_in);
    g_free(p);
}

/* ---- Chrome ---- */

typedef struct {
    gint64 pid, tid;
    double start, end;
} Slice;

static gint compare_slices(gconstpointer a, gconstpointer b)
{
    const Slice *x = a, *y = b;
    if (x->pid != y->pid)
        return (x->pid > y->pid) - (x->pid < y->pid);
    if (x->tid != y->tid)
        return (x->tid > y->tid) - (x->tid < y->tid);
    if (x->start < y->start || x->start > y->start)
        return x->start > y->start ? 1 : -1;
    return (x->end > y->end) - (x->end < y->end);
}

static gpointer track_key(gint64 pid, gint64 tid)
{
    return GSIZE_TO_POINTER((gsize)pid << 32 | (gsize)tid);
}

static size_t check_chrome(const char *text, gssize n)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(GError) error = NULL;
    ck_assert_ok(json_parser_load_from_data(parser, text, n, &error), error);
    JsonArray *events = json_object_get_array_member(json_node_get_object(json_parser_get_root(parser)), "traceEvents");
    g_autoptr(GArray) slices = g_array_new(FALSE, FALSE, sizeof(Slice));
    g_autoptr(GHashTable) named = g_hash_table_new(NULL, NULL); /* pid << 32 | tid */
    gint64 balance = 0;
    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);
        const char *phase = json_object_get_string_member(event, "ph");
        ck_assert(json_object_has_member(event, "name") && json_object_has_member(event, "pid"));
        if (strcmp(phase, "M") != 0)
            ck_assert(json_object_get_double_member(event, "ts") >= 0);
        if (strcmp(json_object_get_string_member(event, "name"), "thread_name") == 0)
            g_hash_table_add(named, track_key(json_object_get_int_member(event, "pid"), json_object_get_int_member(event, "tid")));
        balance += strcmp(phase, "s") == 0 ? 1 : strcmp(phase, "f") == 0 ? -1 : 0;
        if (strcmp(phase, "X") != 0)
            continue;
        Slice slice = {json_object_get_int_member(event, "pid"), json_object_get_int_member(event, "tid"), json_object_get_double_member(event, "ts"), 0};
        slice.end = slice.start + json_object_get_double_member(event, "dur");
        ck_assert(slice.end >= slice.start);
        ck_assert_msg(g_hash_table_contains(named, track_key(slice.pid, slice.tid)), "a slice on a track without a name");
        g_array_append_val(slices, slice);
    }
    ck_assert_int_eq(balance, 0);
    g_array_sort(slices, compare_slices);
    for (guint i = 1; i < slices->len; i++) {
        const Slice *a = &g_array_index(slices, Slice, i - 1), *b = &g_array_index(slices, Slice, i);
        if (a->pid == b->pid && a->tid == b->tid)
            ck_assert_msg(b->start >= a->end - 1e-4, "slices of a track overlap");
    }
    return slices->len;
}

/* ---- pprof ---- */

static uint64_t check_pprof(Span file, size_t *ret_samples)
{
    size_t n_strings = 0, n_samples = 0;
    uint64_t total = 0, max_string = 0;
    g_autoptr(GHashTable) locations = g_hash_table_new(NULL, NULL), functions = g_hash_table_new(NULL, NULL), used = g_hash_table_new(NULL, NULL);
    Field field, part;
    while (next(&file, &field)) {
        switch (field.number) {
        case 1:
        case 11:
            while (next(&field.bytes, &part))
                max_string = MAX(max_string, part.value);
            break;
        case 2:
            n_samples++;
            while (next(&field.bytes, &part)) {
                if (part.number == 1) {
                    while (part.bytes.at < part.bytes.end)
                        g_hash_table_add(used, GSIZE_TO_POINTER(varint(&part.bytes)));
                } else if (part.number == 2) {
                    total += varint(&part.bytes);
                    ck_assert_msg(part.bytes.at == part.bytes.end, "one value a sample");
                }
            }
            break;
        case 4:
            while (next(&field.bytes, &part))
                if (part.number == 1)
                    ck_assert(g_hash_table_add(locations, GSIZE_TO_POINTER(part.value)));
            break;
        case 5:
            while (next(&field.bytes, &part)) {
                if (part.number == 1)
                    ck_assert(g_hash_table_add(functions, GSIZE_TO_POINTER(part.value)));
                else
                    max_string = MAX(max_string, part.value);
            }
            break;
        case 6:
            g_free(text_of(field.bytes));
            ck_assert_msg(n_strings > 0 || field.bytes.at == field.bytes.end, "string 0 is empty");
            n_strings++;
            break;
        default: break;
        }
    }
    ck_assert_uint_lt(max_string, n_strings);
    GHashTableIter iter;
    gpointer id;
    g_hash_table_iter_init(&iter, used);
    while (g_hash_table_iter_next(&iter, &id, NULL))
        ck_assert_msg(g_hash_table_contains(locations, id), "a sample names a location that is not there");
    ck_assert_uint_eq(g_hash_table_size(locations), g_hash_table_size(functions));
    *ret_samples = n_samples;
    return total;
}

/* ---- Cases ---- */

static EchTrace *load(const char *path)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *full = g_build_filename(ECH_SOURCE_DIR, path, NULL);
    g_autoptr(EchImport) import = ech_import_file(full, NULL, NULL, &error);
    ck_assert_msg(import != NULL && import->trace != NULL, "%s: %s", path, error ? error->message : "a program");
    return ech_trace_ref(import->trace);
}

static GBytes *write_as(const char *name, const EchTrace *trace)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    const EchTraceWriter *writer = ech_trace_writer_find(name, NULL, &error);
    ck_assert(writer != NULL);
    GBytes *bytes = writer->write(trace, "title", diag, &error);
    ck_assert_msg(bytes != NULL, "%s: %s", name, error ? error->message : "");
    return bytes;
}

static Span span_of(GBytes *bytes)
{
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    return (Span){data, data + n};
}

/* Captures of every kind that have recorded times, with names that are odd, overlaps and gaps. */
static const char *const captures[] = {"tests/golden/data/recorded.ech", "tests/fuzz/corpus/chakra/gpu.et", "tests/fuzz/corpus/xplane/tpu.pb",
                                       "tests/fuzz/corpus/xplane/gpu.pb"};

START_TEST(recorded_timelines)
{
    g_autoptr(EchTrace) trace = load(captures[_i]);
    g_autoptr(GBytes) perfetto = write_as("perfetto", trace), chrome = write_as("chrome", trace);
    Perfetto *read = read_perfetto(span_of(perfetto));
    gsize n;
    const char *text = g_bytes_get_data(chrome, &n);
    ck_assert_uint_gt(read->n_slices, 0);
    ck_assert_uint_eq(read->n_slices, check_chrome(text, (gssize)n));
    perfetto_free(read);
}
END_TEST

/* Overlapping slices on one queue, names that are not UTF-8 or none, a flow from a copy to what waited for it. */
static EchTrace *odd_trace(void)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId host = ech_trace_builder_memory(builder, "host"), hbm = ech_trace_builder_memory(builder, "hbm");
    EchId queue = ech_trace_builder_queue(builder, "q \xff", ECH_QUEUE_COMPUTE, 0);
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(builder, "buf\xfe", -1);
    buffer.stack = ech_trace_builder_string(builder, "leaf\nmiddle\nroot", -1);
    buffer.memory = hbm;
    buffer.bytes = 4096;
    EchId id = ech_trace_builder_buffer(builder, buffer);
    EchOp alloc = ech_op_init(ECH_OP_ALLOC);
    alloc.queue = queue;
    alloc.target = id;
    alloc.bytes = 4096;
    ech_trace_builder_op(builder, alloc);
    for (int i = 0; i < 50; i++) {
        EchOp op = ech_op_init(i % 3 ? ECH_OP_KERNEL : ECH_OP_COPY);
        op.queue = queue;
        op.name = i % 4 == 0 ? ECH_NONE : ech_trace_builder_string(builder, i % 4 == 1 ? "a \"b\" \xc3\x28" : "x\ny", -1);
        op.recorded = (EchRecorded){i * ECH_PS_PER_US - 7 * ECH_PS_PER_US, (1 + i % 7) * ECH_PS_PER_US};
        if (op.kind == ECH_OP_COPY) {
            op.memory_from = host;
            op.memory_to = hbm;
            op.bytes = 100;
        }
        EchId at = ech_trace_builder_op(builder, op);
        if (i >= 12)
            ech_trace_builder_dep(builder, at - 12, 0);
    }
    EchOp release = ech_op_init(ECH_OP_FREE);
    release.queue = queue;
    release.target = id;
    ech_trace_builder_op(builder, release);
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

/* What a recording tells as a run: it ends with the last of its operations, and what changes in one instant is one point. */
START_TEST(recorded_runs)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId queue = ech_trace_builder_queue(b, "q", ECH_QUEUE_COMPUTE, 0), buffers[2];
    for (int i = 0; i < 2; i++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.memory = ech_trace_builder_memory(b, "hbm");
        buffer.bytes = 100 + 50 * (EchBytes)i;
        buffers[i] = ech_trace_builder_buffer(b, buffer);
    }
    /* Microseconds: a kernel from 10 to 40, in it one buffer from 12 to 20, when the other begins, and a kernel from 30 to 35. */
    static const struct {
        EchOpKind kind;
        int buffer;
        EchTime start, duration;
    } rows[] = {{ECH_OP_KERNEL, -1, 10, 30}, {ECH_OP_ALLOC, 0, 12, 0}, {ECH_OP_FREE, 0, 20, 0}, {ECH_OP_ALLOC, 1, 20, 0}, {ECH_OP_KERNEL, -1, 30, 5}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        EchOp op = ech_op_init(rows[i].kind);
        op.queue = queue;
        op.target = rows[i].buffer < 0 ? ECH_NONE : buffers[rows[i].buffer];
        op.recorded = (EchRecorded){rows[i].start * ECH_PS_PER_US, rows[i].duration * ECH_PS_PER_US};
        ech_trace_builder_op(b, op);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchRun) run = ech_recorded_run(trace);
    ck_assert_int_eq(run->makespan, 30 * ECH_PS_PER_US);
    ck_assert_uint_eq(run->n_spans, 2);
    ck_assert(run->spans[0].end == 25 * ECH_PS_PER_US && run->spans[1].end == 30 * ECH_PS_PER_US); /* in order of their ends */
    const EchMemoryRun *memory = &run->memories[0];
    ck_assert(memory->peak_live == 150 && memory->peak_at == 10 * ECH_PS_PER_US && memory->end_live == 150);
    ck_assert_uint_eq(memory->n_series, 2);
    ck_assert(memory->series[0].time == 2 * ECH_PS_PER_US && memory->series[0].live == 100);
    ck_assert(memory->series[1].time == 10 * ECH_PS_PER_US && memory->series[1].live == 150);
}
END_TEST

START_TEST(odd_timelines)
{
    g_autoptr(EchTrace) trace = odd_trace();
    g_autoptr(GBytes) perfetto = write_as("perfetto", trace), chrome = write_as("chrome", trace), pprof = write_as("pprof", trace);
    Perfetto *read = read_perfetto(span_of(perfetto));
    ck_assert_uint_eq(read->n_slices, 50);
    ck_assert_uint_gt(g_hash_table_size(read->flows_out), 0);
    ck_assert_uint_gt(read->n_counters, 1);
    /* Up to four slices at a time share the queue: as many tracks, three processes, two counters a memory. */
    ck_assert_uint_eq(read->tracks->len, 3 + 4 + 4);
    perfetto_free(read);
    gsize n;
    const char *text = g_bytes_get_data(chrome, &n);
    ck_assert_uint_eq(check_chrome(text, (gssize)n), 50);
    size_t samples;
    ck_assert_uint_eq(check_pprof(span_of(pprof), &samples), 4096);
    ck_assert_uint_eq(samples, 1);
}
END_TEST

/* Of a stack of any depth each frame is one of the profile's, and an allocation is named after the first frame of the program's own. */
START_TEST(deep_stacks)
{
    enum { OWN = 150, FRAMES = 300 };
    g_autoptr(GString) stack = g_string_new(NULL);
    for (int i = 0; i < FRAMES; i++)
        g_string_append_printf(stack, i == OWN ? "%smodel.py:%d" : "%s/lib/site-packages/torch/f.py:%d", i ? "\n" : "", i);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.stack = ech_trace_builder_string(builder, stack->str, -1);
    buffer.memory = ech_trace_builder_memory(builder, "hbm");
    buffer.bytes = 4096;
    EchOp alloc = ech_op_init(ECH_OP_ALLOC);
    alloc.queue = ech_trace_builder_queue(builder, "q", ECH_QUEUE_COMPUTE, 0);
    alloc.target = ech_trace_builder_buffer(builder, buffer);
    alloc.bytes = 4096;
    alloc.recorded = (EchRecorded){0, ECH_PS_PER_US};
    ech_trace_builder_op(builder, alloc);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(GBytes) pprof = write_as("pprof", trace);
    size_t samples, frames = 0;
    ck_assert_uint_eq(check_pprof(span_of(pprof), &samples), 4096);
    ck_assert_uint_eq(samples, 1);
    Span file = span_of(pprof);
    for (Field field; next(&file, &field);)
        frames += field.number == 4;
    ck_assert_uint_eq(frames, FRAMES + 2); /* and the allocation and the trace */
    g_autofree char *name = ech_report_buffer_name(trace, 0);
    ck_assert_str_eq(name, "#0 model.py:150");
}
END_TEST

START_TEST(simulated_timelines)
{
    g_autoptr(EchTrace) trace = load("tests/golden/data/stream.ech");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load(ECH_SOURCE_DIR "/tests/golden/data/small.yaml", NULL, &error);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
    ck_assert_ok(run != NULL, error);
    ech_params_clear(ech_replay_params, &options);
    EchReport report = {.title = "t", .trace_path = "t", .format = "ech", .trace = trace, .device = device, .run = run};
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(&report), time = ech_report_pprof(&report, ECH_PPROF_TIME);
    g_autoptr(GString) chrome = ech_report_chrome(&report);
    Perfetto *read = read_perfetto((Span){perfetto->data, perfetto->data + perfetto->len});
    ck_assert_uint_ge(read->n_slices, 6 + 4); /* six operations, and four copies on their link too; allocations that waited */
    ck_assert_uint_ge(g_hash_table_size(read->flows_out), 2);
    ck_assert_uint_eq(check_chrome(chrome->str, (gssize)chrome->len), read->n_slices);
    perfetto_free(read);
    size_t samples;
    /* Four copies and two kernels of 100 ms each. */
    ck_assert_uint_eq(check_pprof((Span){time->data, time->data + time->len}, &samples), UINT64_C(600000000));
    ck_assert_uint_eq(samples, 6);
}
END_TEST

/* A loop whose iterations repeat exactly is not drawn whole; what stands for the rest takes its time, on a track of its own. */
START_TEST(repeats_are_drawn)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(builder, "hbm");
    buffer.bytes = 1000000;
    buffer.resident = 1;
    EchId weights = ech_trace_builder_buffer(builder, buffer);
    EchOp op = ech_op_init(ECH_OP_LOOP);
    op.queue = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    op.bytes = 5000;
    op.target = 1;
    ech_trace_builder_op(builder, op);
    EchOp body = ech_op_init(ECH_OP_KERNEL);
    body.queue = op.queue;
    ech_trace_builder_op(builder, body);
    ech_trace_builder_use(builder, weights, ECH_READ, 1000000, ECH_PATTERN_STREAM, ECH_KNOWN);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
    ck_assert_ok(run != NULL, error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_uint_eq(run->n_skips, 1);
    ck_assert_int_le(llabs(ech_skip_end(run, 0) - run->skips[0].time - run->skips[0].period * (EchTime)run->skips[0].count), 1);
    EchReport report = {.title = "t", .trace_path = "t", .format = "ech", .trace = trace, .device = device, .run = run};
    g_autoptr(EchTimeline) timeline = ech_timeline_new(&report);
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(&report);
    g_autoptr(GString) chrome = ech_report_chrome(&report);
    Perfetto *read = read_perfetto((Span){perfetto->data, perfetto->data + perfetto->len});
    ck_assert_uint_eq(read->n_slices, timeline->n_slices + 1);
    ck_assert_uint_eq(check_chrome(chrome->str, (gssize)chrome->len), read->n_slices);
    perfetto_free(read);
    g_autofree char *label = ech_skip_label(run, 0);
    ck_assert_ptr_nonnull(strstr(chrome->str, label));
}
END_TEST

/* A pipeline of two: a process each, and an arrow for each message between them that both ways of an exchange share, from what is sent to what is received. */
START_TEST(ranks_on_one_timeline)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    EchImport *imports[2];
    EchReplayRank ranks[2];
    EchRun *runs[2];
    EchReport reports[2];
    g_autoptr(GError) error = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        g_autofree char *path = g_strdup_printf(ECH_SOURCE_DIR "/traces/pipeline_pytorch.h100/rank%u.pretend.gz", i);
        imports[i] = ech_test_import(path, NULL);
        ranks[i] = (EchReplayRank){imports[i]->trace, device, NULL, &options, i};
    }
    ck_assert_ok(ech_replay_run_together(ranks, 2, runs, &error), error);
    size_t met = 0;
    for (size_t i = 0; i < 2; i++) {
        reports[i] = (EchReport){.title = "t", .trace_path = "t", .format = "pretend", .trace = imports[i]->trace, .device = device, .run = runs[i]};
        for (size_t s = 0; s < runs[i]->n_spans; s++) {
            const EchOp *op = &ech_trace_ops(imports[i]->trace)[runs[i]->spans[s].op];
            met += op->launch != ECH_NONE && *ech_meets_of(ech_trace_string(imports[i]->trace, op->launch)) != '\0';
        }
    }
    EchRanks *all = ech_ranks_new(reports, 2);
    g_autoptr(GByteArray) perfetto = ech_report_ranks_perfetto(all), again = ech_report_ranks_perfetto(all);
    ck_assert(perfetto->len == again->len && memcmp(perfetto->data, again->data, again->len) == 0);
    Perfetto *read = read_perfetto((Span){perfetto->data, perfetto->data + perfetto->len});
    size_t processes = 0, waits = 0, own = 0;
    for (guint i = 0; i < read->tracks->len; i++)
        processes += g_array_index(read->tracks, Track, i).process;
    GHashTableIter iter;
    gpointer name;
    g_hash_table_iter_init(&iter, read->names);
    while (g_hash_table_iter_next(&iter, NULL, &name))
        waits += g_str_has_prefix(name, "waits for rank ") ? 1 : 0;
    for (size_t i = 0; i < 2; i++) {
        g_autoptr(EchTimeline) timeline = ech_timeline_new(&reports[i]);
        own += timeline->n_flows;
    }
    ck_assert_uint_eq(processes, 2);
    ck_assert_uint_eq(waits, 2);
    ck_assert_uint_eq(met % 2, 0);
    ck_assert_uint_gt(met, 0);
    ck_assert_uint_eq(g_hash_table_size(read->flows_out), own + met / 2);
    perfetto_free(read);
    ech_ranks_free(all);
    for (size_t i = 0; i < 2; i++) {
        ech_run_free(runs[i]);
        ech_import_free(imports[i]);
    }
    ech_params_clear(ech_replay_params, &options);
}
END_TEST

/* A run that does not fit says so at the instant where it ended. */
START_TEST(failures_are_drawn)
{
    static const char *const settings[] = {"memories.hbm.capacity=1kB", NULL};
    g_autoptr(EchTrace) trace = load("tests/golden/data/stream.ech");
    g_autoptr(EchDevice) device = ech_test_device(ECH_SOURCE_DIR "/tests/golden/data/small.yaml", settings);
    g_autoptr(EchRun) run = ech_test_replay(trace, device);
    ck_assert(!run->fits);
    EchReport report = {.title = "t", .trace_path = "t", .format = "ech", .trace = trace, .device = device, .run = run};
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(&report);
    Perfetto *read = read_perfetto((Span){perfetto->data, perfetto->data + perfetto->len});
    ck_assert_uint_eq(read->n_instants, 1);
    perfetto_free(read);
    g_autoptr(GString) chrome = ech_report_chrome(&report);
    (void)check_chrome(chrome->str, (gssize)chrome->len);
}
END_TEST

static EchTrace *read_back(GBytes *bytes, const char *format)
{
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_new_memory(data, n, "written");
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    ck_assert_str_eq(import->format, format);
    ck_assert(ech_diag_check_strict(import->diag, NULL));
    return ech_trace_ref(import->trace);
}

START_TEST(chakra_back)
{
    g_autoptr(EchTrace) trace = load("tests/golden/data/stream.ech");
    g_autoptr(GBytes) bytes = write_as("chakra", trace);
    g_autoptr(EchTrace) back = read_back(bytes, "chakra");
    ck_assert_uint_eq(ech_test_count(back, ECH_OP_KERNEL), 2);
    ck_assert_uint_eq(ech_test_count(back, ECH_OP_COPY), 4);
    for (size_t i = 0; i < ech_trace_n_ops(back); i++) {
        const EchOp *op = &ech_trace_ops(back)[i];
        if (op->kind == ECH_OP_KERNEL) {
            EchBytes read = 0;
            for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
                read += ech_trace_uses(back)[u].access == ECH_READ ? ech_trace_uses(back)[u].bytes : 0;
            ck_assert_uint_eq(read, 1000000000);
        } else if (op->kind == ECH_OP_COPY) {
            ck_assert_uint_eq(op->bytes, 1000000000);
        }
    }
}
END_TEST

/* A loop of three trips with a dependency on the iteration before: the chain is as long as the trips. */
START_TEST(chakra_unrolls)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId core = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0), side = ech_trace_builder_queue(builder, "side", ECH_QUEUE_COMPUTE, 0);
    EchOp loop = ech_op_init(ECH_OP_LOOP);
    loop.queue = core;
    loop.bytes = 3;
    loop.target = 2;
    EchId at = ech_trace_builder_op(builder, loop);
    EchOp body = ech_op_init(ECH_OP_KERNEL);
    body.name = ech_trace_builder_string(builder, "a", -1);
    body.queue = core;
    EchId a = ech_trace_builder_op(builder, body);
    ech_trace_builder_dep(builder, a + 1, 1);
    body.name = ech_trace_builder_string(builder, "b", -1);
    body.queue = side;
    ech_trace_builder_op(builder, body);
    ech_trace_builder_dep(builder, a, 0);
    body.name = ech_trace_builder_string(builder, "after", -1);
    ech_trace_builder_op(builder, body);
    ech_trace_builder_dep(builder, at, 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(GBytes) bytes = write_as("chakra", trace);
    g_autoptr(EchTrace) back = read_back(bytes, "chakra");
    ck_assert_uint_eq(ech_test_count(back, ECH_OP_KERNEL), 7);
    /* In the order that dependencies leave: a b a b a b after. */
    g_autoptr(GString) order = g_string_new(NULL);
    for (size_t i = 0; i < ech_trace_n_ops(back); i++)
        if (ech_trace_ops(back)[i].kind == ECH_OP_KERNEL)
            g_string_append(order, ech_trace_string(back, ech_trace_ops(back)[i].name));
    ck_assert_str_eq(order->str, "abababafter");
    g_autoptr(EchDiag) diag = ech_diag_new();
    ck_assert_ptr_null(ech_report_chakra(trace, 5, diag, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
}
END_TEST

/* A stream that waits for another's event runs what is behind the wait after what is before the event. */
START_TEST(chakra_waits_for_events)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId core = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0), side = ech_trace_builder_queue(builder, "side", ECH_QUEUE_COMPUTE, 0);
    static const EchOpKind kinds[] = {ECH_OP_KERNEL, ECH_OP_SIGNAL, ECH_OP_WAIT};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        EchOp op = ech_op_init(kinds[i]);
        op.queue = kinds[i] == ECH_OP_WAIT ? side : core;
        if (kinds[i] != ECH_OP_KERNEL)
            op.target = 3;
        ech_trace_builder_op(builder, op);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(GBytes) bytes = write_as("chakra", trace);
    g_autoptr(EchTrace) back = read_back(bytes, "chakra");
    ck_assert_uint_eq(ech_trace_n_ops(back), 2);
    const EchOp *wait = &ech_trace_ops(back)[1];
    ck_assert_uint_eq(wait->n_deps, 1);
    ck_assert_uint_eq(ech_trace_deps(back)[wait->first_dep].op, 0);
}
END_TEST

START_TEST(minimalloc_back)
{
    g_autoptr(EchTrace) trace = load("tests/golden/data/stream.ech");
    g_autoptr(GBytes) bytes = write_as("minimalloc", trace);
    g_autoptr(EchTrace) back = read_back(bytes, "minimalloc");
    ck_assert_uint_eq(ech_test_count(back, ECH_OP_ALLOC), 4);
    ck_assert_str_eq(ech_trace_string(back, ech_trace_buffers(back)[0].name), "in.0");
}
END_TEST

/* Names of any text come back as they were; those that others have already, or none, get one of their own. */
START_TEST(minimalloc_names)
{
    static const char *const names[][2] = {{"a,\"b\" c", "a,\"b\" c"}, {"b#2", "b#2"}, {"", "b#2#2"}, {"b#2", "b#2#3"}, {"\"\"", "\"\""}};
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId queue = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = ech_trace_builder_memory(builder, "hbm");
    buffer.bytes = 64;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        buffer.name = ech_trace_builder_string(builder, names[i][0], -1);
        EchOp op = ech_op_init(ECH_OP_ALLOC);
        op.queue = queue;
        op.target = ech_trace_builder_buffer(builder, buffer);
        op.bytes = 64;
        ech_trace_builder_op(builder, op);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(GBytes) bytes = write_as("minimalloc", trace);
    g_autoptr(EchTrace) back = read_back(bytes, "minimalloc");
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        ck_assert_str_eq(ech_trace_string(back, ech_trace_buffers(back)[i].name), names[i][1]);
}
END_TEST

/* What lies in a TPU's HBM, however much more goes through its vector memory. */
START_TEST(minimalloc_of_hbm)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId queue = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    static const char *const memories[] = {"vector", "hbm"};
    for (size_t i = 0; i < G_N_ELEMENTS(memories); i++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.memory = ech_trace_builder_memory(builder, memories[i]);
        buffer.bytes = i ? 64 : 4096;
        buffer.name = ech_trace_builder_string(builder, memories[i], -1);
        EchOp op = ech_op_init(ECH_OP_ALLOC);
        op.queue = queue;
        op.target = ech_trace_builder_buffer(builder, buffer);
        op.bytes = buffer.bytes;
        ech_trace_builder_op(builder, op);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(GBytes) bytes = write_as("minimalloc", trace);
    g_autoptr(EchTrace) back = read_back(bytes, "minimalloc");
    ck_assert_uint_eq(ech_trace_n_buffers(back), 1);
    ck_assert_str_eq(ech_trace_string(back, ech_trace_buffers(back)[0].name), "hbm");
}
END_TEST

START_TEST(what_cannot_be_written)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    g_autoptr(EchTrace) empty = ech_trace_builder_finish(builder, NULL);
    static const char *const names[] = {"chrome", "perfetto", "pprof", "minimalloc", "chakra"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDiag) diag = ech_diag_new();
        ck_assert_ptr_null(ech_trace_writer_find(names[i], NULL, NULL)->write(empty, "e", diag, &error));
        ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    }
}
END_TEST

START_TEST(endings_choose)
{
    static const struct {
        const char *path, *writer;
    } rows[] = {{"x.ech", "ech"},
                {"a.b/x.ech.gz", "ech"},
                {"x.json", "chrome"},
                {"x.json.gz", "chrome"},
                {"x.pftrace", "perfetto"},
                {"x.perfetto-trace", "perfetto"},
                {"x.pb.gz", "pprof"},
                {"x.csv", "minimalloc"},
                {"x.0.et", "chakra"},
                {"x", NULL},
                {"x.gz", NULL},
                {"x.txt", NULL}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        const EchTraceWriter *writer = ech_trace_writer_find(NULL, rows[i].path, &error);
        if (rows[i].writer)
            ck_assert_str_eq(writer->name, rows[i].writer);
        else
            ck_assert(!writer && g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("writers");
    TCase *cases = tcase_create("formats");
    tcase_add_loop_test(cases, recorded_timelines, 0, G_N_ELEMENTS(captures));
    tcase_add_test(cases, odd_timelines);
    tcase_add_test(cases, deep_stacks);
    tcase_add_test(cases, recorded_runs);
    tcase_add_test(cases, simulated_timelines);
    tcase_add_test(cases, repeats_are_drawn);
    tcase_add_test(cases, ranks_on_one_timeline);
    tcase_add_test(cases, failures_are_drawn);
    tcase_add_test(cases, chakra_back);
    tcase_add_test(cases, chakra_unrolls);
    tcase_add_test(cases, chakra_waits_for_events);
    tcase_add_test(cases, minimalloc_back);
    tcase_add_test(cases, minimalloc_names);
    tcase_add_test(cases, minimalloc_of_hbm);
    tcase_add_test(cases, what_cannot_be_written);
    tcase_add_test(cases, endings_choose);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
