/* The trace.json.gz that XLA's profiler writes beside the protobuf: the same events, with all arguments as text, cut at about
 * a million events. One pass; names of processes and threads come before what runs on them.
 */
#include "sim/import/gpu_work.h"
#include "sim/import/json_stream.h"
#include "sim/import/xplane.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

typedef enum { USE_SKIP, USE_CORE, USE_MARKS, USE_STREAM, USE_HOST } Use;

/* A thread of the viewer: a line of a plane. */
typedef struct {
    char *name;
    Use use;
    uint32_t device;
    uint32_t queue; /* USE_STREAM */
    uint64_t n;
} Thread;

typedef struct {
    bool known, tpu, device, host;
    uint32_t ordinal;
} Process;

typedef struct {
    char phase;
    bool has_time, has_duration, has_device_duration, has_flops, has_model_flops, has_bytes, has_correlation;
    int64_t pid, tid, us, duration_us;
    int32_t ps, duration_ps;
    uint64_t device_duration, flops, bytes, correlation;
    GString *name, *label, *text, *category, *source, *op, *details;
} Event;

/* Work of a stream, and the number of the call that asked for it. */
typedef struct {
    size_t item;
    uint64_t correlation;
} Asked;

typedef struct {
    EchImport *ret;
    EchJson *json;
    EchXplane *x;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GHashTable *processes; /* pid -> Process */
    GHashTable *threads;   /* (pid << 32 ^ tid) -> Thread */
    GPtrArray *lines;      /* Thread, in the order of first use, borrowed */
    GHashTable *launches;  /* correlation -> EchTime of the call */
    GArray *asked;         /* Asked */
    GHashTable *names;     /* of ech_gpu_name_of */
    Event e;
    bool has_base, events_seen;
    int64_t base_us;
    uint64_t n_host;
} Reader;

static void thread_free(gpointer data)
{
    g_free(((Thread *)data)->name);
    g_free(data);
}

static void reset(Event *e)
{
    GString *texts[] = {e->name, e->label, e->text, e->category, e->source, e->op, e->details};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_string_truncate(texts[i], 0);
    *e = (Event){.pid = -1,
                 .tid = -1,
                 .name = texts[0],
                 .label = texts[1],
                 .text = texts[2],
                 .category = texts[3],
                 .source = texts[4],
                 .op = texts[5],
                 .details = texts[6]};
}

/* Numbers come quoted here; both ways are taken. Containers are passed over. */
static bool value_text(Reader *r, const char **ret, size_t *ret_n)
{
    EchJsonToken token = ech_json_next(r->json);
    *ret = "";
    *ret_n = 0;
    if (token == ECH_JSON_STRING || token == ECH_JSON_NUMBER)
        *ret = ech_json_text(r->json, ret_n);
    else if (token == ECH_JSON_OBJECT || token == ECH_JSON_ARRAY) {
        unsigned depth = ech_json_depth(r->json);
        while (token != ECH_JSON_BAD && ech_json_depth(r->json) >= depth)
            token = ech_json_next(r->json);
    }
    return token != ECH_JSON_BAD && token != ECH_JSON_END;
}

static bool unsigned_of(const char *text, size_t n, uint64_t *ret)
{
    int64_t value;
    if (!ech_json_parse_whole(text, n, &value) || value < 0)
        return false;
    *ret = (uint64_t)value;
    return true;
}

static bool read_args(Reader *r)
{
    Event *e = &r->e;
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_OBJECT)
        return token != ECH_JSON_BAD;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        size_t n;
        const char *key = ech_json_text(r->json, &n), *text;
        static const char *const keys[] = {"name",  "long_name",   "hlo_category",   "source_stack",   "tf_op",          "memcpy_details", "device_duration_ps",
                                           "flops", "model_flops", "bytes_accessed", "memset_details", "kernel_details", "correlation_id"};
        size_t which = 0;
        while (which < G_N_ELEMENTS(keys) && !(strlen(keys[which]) == n && memcmp(keys[which], key, n) == 0))
            which++;
        if (which == G_N_ELEMENTS(keys)) {
            if (!ech_json_skip(r->json))
                return false;
            continue;
        }
        if (!value_text(r, &text, &n))
            return false;
        GString *texts[] = {e->label, e->text, e->category, e->source, e->op, e->details};
        if (which < G_N_ELEMENTS(texts)) {
            g_string_append_len(texts[which], text, (gssize)MIN(n, (size_t)1 << 20));
            continue;
        }
        switch (which) {
        case 6: e->has_device_duration = unsigned_of(text, n, &e->device_duration); break;
        case 7: e->has_flops = unsigned_of(text, n, &e->flops); break;
        case 8:
            if (!e->has_flops)
                e->has_model_flops = unsigned_of(text, n, &e->flops);
            break;
        case 9: e->has_bytes = unsigned_of(text, n, &e->bytes); break;
        case 12: e->has_correlation = unsigned_of(text, n, &e->correlation); break;
        default: g_string_append_len(e->details, text, (gssize)n);
        }
    }
    return token == ECH_JSON_OBJECT_END;
}

static gpointer thread_key(int64_t pid, int64_t tid)
{
    return GSIZE_TO_POINTER(((gsize)pid << 32 ^ (gsize)tid) | (gsize)1 << 63);
}

static Process *process_of(Reader *r, int64_t pid)
{
    gpointer key = GSIZE_TO_POINTER((gsize)pid);
    Process *process = g_hash_table_lookup(r->processes, key);
    if (!process) {
        process = g_new0(Process, 1);
        g_hash_table_insert(r->processes, key, process);
    }
    return process;
}

static Thread *thread_of(Reader *r, const Event *e, const char *name)
{
    gpointer key = thread_key(e->pid, e->tid);
    Thread *thread = g_hash_table_lookup(r->threads, key);
    if (thread && !name)
        return thread;
    const Process *process = process_of(r, e->pid);
    Thread *fresh = g_new0(Thread, 1);
    fresh->name = g_strndup(name ? name : "", 256); /* it is looked up for every event */
    fresh->device = process->ordinal;
    fresh->use = process->host ? USE_HOST : USE_SKIP;
    if (process->device) {
        bool marks = strcmp(fresh->name, "XLA Modules") == 0 || strcmp(fresh->name, "Steps") == 0;
        fresh->use = process->tpu                                ? (strcmp(fresh->name, "XLA Ops") == 0 ? USE_CORE
                                                                    : marks                             ? USE_MARKS
                                                                                                        : USE_SKIP)
                     : g_str_has_prefix(fresh->name, "Stream #") ? USE_STREAM
                                                                 : USE_SKIP;
    }
    if (fresh->use == USE_STREAM)
        fresh->queue = ech_capture_queue(r->capture, fresh->name, ECH_QUEUE_COMPUTE, fresh->device);
    if (thread) { /* named after its first event: keep what was counted */
        g_free(thread->name);
        fresh->n = thread->n;
        *thread = *fresh;
        g_free(fresh);
        return thread;
    }
    g_hash_table_insert(r->threads, key, fresh);
    g_ptr_array_add(r->lines, fresh);
    return fresh;
}

static void metadata_event(Reader *r)
{
    const Event *e = &r->e;
    if (strcmp(e->name->str, "process_name") == 0) {
        Process *process = process_of(r, e->pid);
        process->known = true;
        process->device = ech_xplane_device(e->label->str, e->label->len, &process->ordinal, &process->tpu);
        process->host = strcmp(e->label->str, "/host:CPU") == 0;
    } else if (strcmp(e->name->str, "thread_name") == 0) {
        thread_of(r, e, e->label->str);
    }
}

static void stream_event(Reader *r, const Thread *thread, EchTime start, EchTime duration)
{
    const Event *e = &r->e;
    bool copy = g_str_has_prefix(e->name->str, "Memcpy"), fill = g_str_has_prefix(e->name->str, "Memset");
    EchItem item = ech_item_init(copy ? ECH_ITEM_COPY : fill ? ECH_ITEM_MEMSET : ECH_ITEM_KERNEL);
    item.name = ech_trace_builder_string(r->builder, e->name->str, (gssize)e->name->len);
    item.queue = thread->queue;
    item.issued = item.start = start;
    item.duration = duration;
    if (e->op->len)
        item.stack = ech_trace_builder_string(r->builder, e->op->str, (gssize)e->op->len);
    if (copy || fill) {
        const char *size = strstr(e->details->str, copy ? "size:" : "num_bytes:");
        item.origin = size ? ECH_KNOWN : ECH_ABSENT;
        item.bytes = size ? g_ascii_strtoull(strchr(size, ':') + 1, NULL, 10) : 0;
        item.from = strstr(e->name->str, "H2") ? ECH_TIER_HOST : ECH_TIER_DEVICE;
        item.to = copy && strstr(e->name->str, "2H") ? ECH_TIER_HOST : ECH_TIER_DEVICE;
        if (fill)
            item.from = item.to;
        if (!size)
            ech_diag_note(r->ret->diag, "copies_without_bytes", 1);
    }
    EchGpuLaunch launch = {0};
    if (item.kind == ECH_ITEM_KERNEL && ech_xplane_launch(e->details->str, e->details->len, &launch))
        ech_gpu_kernel_by_launch(r->capture, r->names, launch, &item);
    if (e->has_correlation)
        g_array_append_val(r->asked, ((Asked){ech_capture_n_items(r->capture), e->correlation}));
    ech_capture_add(r->capture, &item);
}

/* When the host asked for what streams did. */
static void join_launches(Reader *r)
{
    for (guint i = 0; i < r->asked->len; i++) {
        const Asked *asked = &g_array_index(r->asked, Asked, i);
        EchItem *item = ech_capture_item(r->capture, asked->item);
        int64_t key = (int64_t)asked->correlation;
        const EchTime *call = g_hash_table_lookup(r->launches, &key);
        if (call && *call <= item->start)
            item->issued = *call;
        else
            ech_diag_note(r->ret->diag, "device_events_without_launch", 1);
    }
}

static bool event_time(Reader *r, EchTime *ret_start, EchTime *ret_duration)
{
    const Event *e = &r->e;
    if (!r->has_base) {
        r->base_us = e->us;
        r->has_base = true;
    }
    int64_t us;
    if (__builtin_sub_overflow(e->us, r->base_us, &us) || us > INT64_MAX / 4 / ECH_PS_PER_US || us < -(INT64_MAX / 4 / ECH_PS_PER_US) || e->duration_us < 0 ||
        e->duration_us > INT64_MAX / 4 / ECH_PS_PER_US) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return false;
    }
    *ret_start = us * ECH_PS_PER_US + e->ps;
    *ret_duration = e->duration_us * ECH_PS_PER_US + e->duration_ps;
    return true;
}

static void core_event(Reader *r, const Thread *thread, EchTime start, EchTime duration)
{
    const Event *e = &r->e;
    EchXplaneOp op = {.text = e->text->len ? e->text->str : e->name->str,
                      .n_text = e->text->len ? e->text->len : e->name->len,
                      .name = e->name->str,
                      .n_name = e->name->len,
                      .stack = ECH_NONE};
    op.category = e->category->len ? e->category->str : NULL;
    op.n_category = e->category->len;
    op.flops = e->flops;
    op.has_flops = e->has_flops || e->has_model_flops;
    op.bytes = e->bytes;
    op.has_bytes = e->has_bytes;
    if (e->op->len || e->source->len) {
        g_autofree char *stack = g_strconcat(e->op->str, e->op->len && e->source->len ? "\n" : "", e->source->str, NULL);
        g_strchomp(stack);
        op.stack = ech_trace_builder_string(r->builder, stack, -1);
    }
    bool own = e->has_device_duration && e->device_duration < INT64_MAX;
    ech_xplane_event(r->x, thread->device, ech_xplane_kind(r->x, &op), start, own ? (EchTime)e->device_duration : duration);
}

static void use_event(Reader *r)
{
    const Event *e = &r->e;
    if (e->phase == 'M') {
        metadata_event(r);
        return;
    }
    EchTime start, duration;
    if (e->phase != 'X' || !e->has_time || !event_time(r, &start, &duration))
        return;
    Thread *thread = thread_of(r, e, NULL);
    if (thread->use != USE_HOST)
        thread->n++;
    switch (thread->use) {
    case USE_CORE: core_event(r, thread, start, duration); break;
    case USE_MARKS:
        ech_xplane_mark(r->x, thread->device, thread->name, ech_trace_builder_string(r->builder, e->name->str, (gssize)e->name->len), start,
                        e->has_device_duration && e->device_duration < INT64_MAX ? (EchTime)e->device_duration : duration);
        break;
    case USE_STREAM: stream_event(r, thread, start, duration); break;
    case USE_HOST:
        r->n_host++;
        if (e->has_correlation) {
            int64_t key = (int64_t)e->correlation;
            g_hash_table_replace(r->launches, g_memdup2(&key, sizeof key), g_memdup2(&start, sizeof start));
        }
        break;
    case USE_SKIP:
    default: break;
    }
}

static bool read_event(Reader *r)
{
    Event *e = &r->e;
    EchJsonToken token;
    reset(e);
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        size_t n;
        const char *key = ech_json_text(r->json, &n), *text;
        static const char *const keys[] = {"ph", "pid", "tid", "ts", "dur", "name"};
        size_t which = 0;
        if (n == 4 && memcmp(key, "args", 4) == 0) {
            if (!read_args(r))
                return false;
            continue;
        }
        while (which < G_N_ELEMENTS(keys) && !(strlen(keys[which]) == n && memcmp(keys[which], key, n) == 0))
            which++;
        if (which == G_N_ELEMENTS(keys)) {
            if (!ech_json_skip(r->json))
                return false;
            continue;
        }
        if (!value_text(r, &text, &n))
            return false;
        switch (which) {
        case 0: e->phase = n ? text[0] : 0; break;
        case 1: ech_json_parse_whole(text, n, &e->pid); break;
        case 2: ech_json_parse_whole(text, n, &e->tid); break;
        case 3: e->has_time = ech_json_parse_us(text, n, &e->us, &e->ps); break;
        case 4: e->has_duration = ech_json_parse_us(text, n, &e->duration_us, &e->duration_ps); break;
        default: g_string_append_len(e->name, text, (gssize)MIN(n, (size_t)1 << 20));
        }
    }
    if (token != ECH_JSON_OBJECT_END)
        return false;
    use_event(r);
    return true;
}

static bool read_top(Reader *r)
{
    EchJsonToken token;
    if (ech_json_next(r->json) != ECH_JSON_OBJECT)
        return false;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        size_t n;
        const char *key = ech_json_text(r->json, &n);
        if (n != 11 || memcmp(key, "traceEvents", 11) != 0) {
            if (!ech_json_skip(r->json))
                return false;
            continue;
        }
        r->events_seen = true;
        if (ech_json_next(r->json) != ECH_JSON_ARRAY)
            return false;
        while ((token = ech_json_next(r->json)) != ECH_JSON_ARRAY_END) {
            if (token != ECH_JSON_OBJECT || !read_event(r))
                return false;
        }
    }
    return token == ECH_JSON_OBJECT_END && ech_json_next(r->json) == ECH_JSON_END;
}

static bool twin_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(EchJson) json = ech_json_new(source);
    g_autoptr(EchXplane) x = ech_xplane_new(ret, "xplane_json");
    Reader r = {.ret = ret, .json = json, .x = x, .capture = ech_xplane_capture(x)};
    r.builder = ech_capture_builder(r.capture);
    r.processes = g_hash_table_new_full(ech_hash_key, NULL, NULL, g_free);
    r.threads = g_hash_table_new_full(ech_hash_key, NULL, NULL, thread_free);
    r.lines = g_ptr_array_new();
    r.launches = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    r.asked = g_array_new(FALSE, FALSE, sizeof(Asked));
    r.names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    GString **texts[] = {&r.e.name, &r.e.label, &r.e.text, &r.e.category, &r.e.source, &r.e.op, &r.e.details};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        *texts[i] = g_string_new(NULL);
    bool ok = read_top(&r);
    if (!ok) {
        ech_json_error(json, error);
    } else if (!r.events_seen) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: a JSON document without traceEvents", ech_source_path(source));
        ok = false;
    } else {
        for (guint i = 0; i < r.lines->len; i++) {
            const Thread *thread = r.lines->pdata[i];
            if (thread->n)
                ech_diag_note(ret->records, thread->name[0] ? thread->name : "(unnamed thread)", thread->n);
        }
        if (r.n_host)
            ech_diag_note(ret->diag, "host_events_only_counted", r.n_host);
        ech_diag_dropped(ret->diag, "strings_repaired", ech_json_repaired(json), NULL);
        join_launches(&r);
        ok = ech_xplane_finish(x, error);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_string_free(*texts[i], TRUE);
    g_ptr_array_unref(r.lines);
    g_hash_table_unref(r.launches);
    g_array_unref(r.asked);
    g_hash_table_unref(r.names);
    g_hash_table_unref(r.threads);
    g_hash_table_unref(r.processes);
    return ok;
}

static int probe(const uint8_t *head, size_t n)
{
    size_t i = ech_head_begin(head, n);
    if (i == n || head[i] != '{' || !ech_head_has(head, n, "traceEvents"))
        return 0;
    bool plane = ech_head_has(head, n, "/device:TPU:") || ech_head_has(head, n, "/device:GPU:") || ech_head_has(head, n, "\"/host:CPU\"");
    return plane && ech_head_has(head, n, "process_name") ? 3 : ech_head_has(head, n, "highres-ticks") ? 1 : 0;
}

const EchImportClass ech_import_xplane_json = {
    .name = "xplane_json",
    .summary = "trace.json.gz that XLA's profiler writes beside its protobuf",
    .probe = probe,
    .read = twin_read,
    .when_idle = "no device did anything in it: the program ran on the CPU",
};
