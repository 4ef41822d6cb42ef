/* XSpace protobufs (*.xplane.pb) of JAX and TensorFlow profiles on TPUs and GPUs. Field numbers: tsl/profiler/protobuf/xplane.proto.
 *
 * Map entries may come after the lines that use them, so a plane is walked twice: names first, events then. */
#include "sim/import/xplane.h"

#include "sim/base/hash.h"
#include "sim/import/gpu_work.h"
#include "sim/import/wire.h"
#include "sim/import/xla_programs.h"
#include "sim/trace/step.h"

#include <string.h>

typedef struct {
    const uint8_t *data;
    size_t n;
} Span;

/* What an event of a stream is by its name. */
typedef enum { STREAM_UNKNOWN, STREAM_KERNEL, STREAM_COPY, STREAM_FILL, STREAM_DRIVER } StreamKind;

/* Texts are told once and referred to by events: of those that are looked at for every event this much counts. */
enum { MAX_TEXT = 4096, MAX_LABEL = 256, MAX_MEMORIES = 256 };

typedef struct {
    Span name, display;
    Span body;      /* the whole XEventMetadata, for its stats */
    uint32_t kind;  /* of ech_xplane_kind + 1; 0 unknown yet */
    EchId string;   /* of its name + 1 */
    uint8_t stream; /* StreamKind, and of a copy... */
    bool directed;  /* ...whether the name tells between which memories */
    uint8_t from, to;
} Metadata;

typedef struct {
    Span name;
    GHashTable *events; /* id -> Metadata */
    GHashTable *stats;  /* id -> Span (a stat's name) */
    GPtrArray *owned;
} Plane;

/* One stat: its name and value. */
typedef struct {
    Span name, text; /* text: of str, bytes and ref values */
    uint64_t integer;
    double real;
    bool is_text, is_real;
} Stat;

/* What was in use of a memory before its first event: of several threads, whose lines follow each other in the file, the earliest. */
typedef struct {
    EchTime first;
    EchBytes before;
    uint32_t device;
    uint8_t tier;
} Baseline;

/* One run of a program on a GPU. */
typedef struct {
    size_t item; /* its mark */
    EchTime end;
} Ran;

typedef struct {
    EchImport *ret;
    const char *where;
    EchXplane *x;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GHashTable *launches; /* correlation -> EchTime of the call */
    EchXlaPrograms *programs;
    GHashTable *scopes; /* range of the host -> the one around it */
    GHashTable *ran;    /* outermost range -> Ran */
    GHashTable *names;  /* of ech_gpu_name_of */
    bool has_base;
    int64_t base_ns;
    uint64_t n_host_events;
    GArray *baselines;   /* Baseline */
    GHashTable *devices; /* names of devices' planes */
    bool told_twice;     /* a name is there twice */
} Reader;

static bool is(Span s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.data, text, s.n) == 0;
}

static bool contains(Span s, const char *text)
{
    return s.n && memmem(s.data, s.n, text, strlen(text)) != NULL;
}

static Span beginning(Span s, size_t most)
{
    return (Span){s.data, MIN(s.n, most)};
}

static Span span_of(const EchWireField *f)
{
    return f->type == ECH_WIRE_BYTES && f->data ? (Span){f->data, f->size} : (Span){(const uint8_t *)"", 0};
}

static EchWire wire_of(const EchWire *file, Span s)
{
    EchWire wire = ech_wire_init(s.data ? s.data : (const uint8_t *)"", s.n);
    wire.begin = file->begin;
    return wire;
}

/* A failed inner reader's message, with the file's offset. */
static bool bad(const EchWire *wire, const char *where, GError **error)
{
    return !ech_wire_ok(wire, where, error);
}

/* ---- names of a plane ---- */

static void plane_clear(Plane *plane)
{
    g_hash_table_unref(plane->events);
    g_hash_table_unref(plane->stats);
}

/* Entry of map<int64, message>: key 1, value 2. The message's own id (1) wins where the key is absent. */
static bool read_entry(const EchWire *file, const EchWireField *entry, uint64_t *ret_id, Span *ret_value, const char *where, GError **error)
{
    EchWire wire = ech_wire_sub(file, entry);
    EchWireField f;
    *ret_id = 0;
    *ret_value = (Span){NULL, 0};
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1 && f.type == ECH_WIRE_VARINT)
            *ret_id = f.value;
        else if (f.number == 2)
            *ret_value = span_of(&f);
    }
    return !bad(&wire, where, error);
}

static bool read_names(Reader *r, const EchWire *plane_wire, Plane *plane, GError **error)
{
    EchWire wire = *plane_wire;
    EchWireField f, g;
    plane->events = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    plane->stats = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 2)
            plane->name = span_of(&f);
        if ((f.number != 4 && f.number != 5) || f.type != ECH_WIRE_BYTES)
            continue;
        uint64_t id;
        Span value;
        if (!read_entry(&wire, &f, &id, &value, r->where, error))
            return false;
        EchWire inner = wire_of(&wire, value);
        Metadata meta = {.body = value, .name = {(const uint8_t *)"", 0}};
        while (ech_wire_next(&inner, &g)) {
            if (g.number == 2)
                meta.name = span_of(&g);
            else if (g.number == 4)
                meta.display = span_of(&g);
        }
        if (bad(&inner, r->where, error))
            return false;
        int64_t *key = g_new(int64_t, 1);
        *key = (int64_t)id;
        if (f.number == 4) {
            Metadata *copy = g_new(Metadata, 1);
            *copy = meta;
            g_hash_table_replace(plane->events, key, copy);
        } else {
            Span *copy = g_new(Span, 1);
            *copy = meta.name;
            g_hash_table_replace(plane->stats, key, copy);
        }
    }
    return !bad(&wire, r->where, error);
}

static bool read_stat(const Reader *r, const EchWire *parent, const EchWireField *field, const Plane *plane, Stat *ret, GError **error)
{
    EchWire wire = ech_wire_sub(parent, field);
    EchWireField f;
    *ret = (Stat){0};
    while (ech_wire_next(&wire, &f)) {
        int64_t key = (int64_t)f.value;
        const Span *name;
        switch (f.number) {
        case 1:
            name = g_hash_table_lookup(plane->stats, &key);
            ret->name = name ? *name : (Span){NULL, 0};
            break;
        case 2:
            ret->real = ech_wire_double(&f);
            ret->is_real = true;
            break;
        case 3:
        case 4: ret->integer = f.value; break;
        case 5:
        case 6:
            ret->text = span_of(&f);
            ret->is_text = true;
            break;
        case 7:
            name = g_hash_table_lookup(plane->stats, &key);
            ret->text = name ? *name : (Span){NULL, 0};
            ret->is_text = true;
            break;
        default: break;
        }
    }
    return !bad(&wire, r->where, error);
}

/* Some writers say numbers as text. */
static uint64_t stat_integer(const Stat *stat)
{
    if (stat->is_real)
        return stat->real > 0 && stat->real < 9e18 ? (uint64_t)stat->real : 0;
    if (!stat->is_text)
        return stat->integer;
    uint64_t value = 0;
    for (size_t i = 0; i < stat->text.n && g_ascii_isdigit(stat->text.data[i]); i++)
        value = value > UINT64_MAX / 10 - 1 ? value : value * 10 + (uint64_t)(stat->text.data[i] - '0');
    return value;
}

/* ---- device planes ---- */

static bool event_time(Reader *r, int64_t timestamp_ns, int64_t offset_ps, EchTime *ret)
{
    if (!r->has_base) {
        r->base_ns = timestamp_ns;
        r->has_base = true;
    }
    int64_t ns, ps;
    if (__builtin_sub_overflow(timestamp_ns, r->base_ns, &ns) || __builtin_mul_overflow(ns, ECH_PS_PER_NS, &ps) || __builtin_add_overflow(ps, offset_ps, &ps) ||
        ps > INT64_MAX / 4 || ps < -(INT64_MAX / 4)) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "line at %" G_GINT64_FORMAT " ns", timestamp_ns);
        return false;
    }
    *ret = ps;
    return true;
}

typedef struct {
    uint64_t metadata, correlation;
    int64_t offset, duration;
    uint64_t device_duration, bytes, reserved, allocated, requested, given, address, device, program, scope;
    bool has_program, in_graph, has_correlation, has_device_duration, has_bytes, has_requested, has_given, has_address, has_allocated;
    Span details, allocator, op, shape, source, module;
    EchWire stats; /* not used beyond reading */
} Event;

/* "kind_src:host size:4 dest:1" */
static bool detail(Span details, const char *key, uint64_t *ret)
{
    size_t n = strlen(key);
    const uint8_t *p = details.data, *end = details.data ? details.data + details.n : NULL;
    while (p && (p = memmem(p, (size_t)(end - p), key, n)) != NULL) {
        if ((p == details.data || p[-1] == ' ') && p + n < end && p[n] == ':') {
            uint64_t value = 0;
            const uint8_t *digit = p + n + 1;
            if (digit == end || !g_ascii_isdigit(*digit))
                return false;
            for (; digit < end && g_ascii_isdigit(*digit); digit++)
                value = value > UINT64_MAX / 10 - 1 ? value : value * 10 + (uint64_t)(*digit - '0');
            *ret = value;
            return true;
        }
        p += n;
    }
    return false;
}

static bool read_event(Reader *r, const EchWire *line, const EchWireField *field, const Plane *plane, Event *e, GError **error)
{
    EchWire wire = ech_wire_sub(line, field);
    EchWireField f;
    *e = (Event){0};
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1)
            e->metadata = f.value;
        else if (f.number == 2)
            e->offset = (int64_t)f.value;
        else if (f.number == 3)
            e->duration = (int64_t)f.value;
        if (f.number != 4)
            continue;
        Stat s;
        if (!read_stat(r, &wire, &f, plane, &s, error))
            return false;
        if (is(s.name, "correlation_id")) {
            e->correlation = stat_integer(&s);
            e->has_correlation = true;
        } else if (is(s.name, "device_duration_ps")) {
            e->device_duration = stat_integer(&s);
            e->has_device_duration = true;
        } else if (is(s.name, "memcpy_details") || is(s.name, "memset_details") || is(s.name, "kernel_details")) {
            e->details = beginning(s.text, MAX_TEXT);
        } else if (is(s.name, "allocator_name")) {
            e->allocator = beginning(s.text, MAX_LABEL);
        } else if (is(s.name, "index_on_host") || is(s.name, "device_ordinal")) {
            e->device = stat_integer(&s);
        } else if (is(s.name, "bytes_allocated")) {
            e->allocated = stat_integer(&s);
            e->has_allocated = true;
        } else if (is(s.name, "bytes_reserved")) {
            e->reserved = stat_integer(&s);
        } else if (is(s.name, "requested_bytes")) {
            e->requested = stat_integer(&s);
            e->has_requested = true;
        } else if (is(s.name, "allocation_bytes")) {
            e->given = stat_integer(&s);
            e->has_given = true;
        } else if (is(s.name, "addr")) {
            e->address = stat_integer(&s);
            e->has_address = true;
        } else if (is(s.name, "tf_op") || is(s.name, "name")) {
            e->op = beginning(s.text, MAX_TEXT);
        } else if (is(s.name, "shape")) {
            e->shape = beginning(s.text, MAX_TEXT);
        } else if (is(s.name, "hlo_op")) {
            e->source = beginning(s.text, MAX_TEXT);
        } else if (is(s.name, "program_id")) {
            e->program = stat_integer(&s);
            e->has_program = true;
        } else if (is(s.name, "hlo_module")) {
            e->module = beginning(s.text, MAX_LABEL);
        } else if (is(s.name, "scope_range_id")) {
            e->scope = stat_integer(&s);
        } else if (is(s.name, "cuda_graph_id")) {
            e->in_graph = true;
        }
    }
    if (e->duration < 0 || e->duration > INT64_MAX / 4) {
        ech_diag_dropped(r->ret->diag, e->duration < 0 ? "negative_durations" : "times_out_of_range", 1, NULL);
        e->duration = 0;
    }
    e->has_device_duration = e->has_device_duration && e->device_duration <= INT64_MAX / 4;
    return !bad(&wire, r->where, error);
}

/* memory_access_breakdown: repeated {1 operation (1 read, 2 write), 2 memory (1 HBM), 3 bytes}. */
static bool read_breakdown(const EchWire *parent, Span bytes, EchXplaneOp *op)
{
    EchWire wire = wire_of(parent, bytes);
    EchWireField f, g;
    bool any = false;
    while (ech_wire_next(&wire, &f)) {
        uint64_t operation = 0, memory = 0, n = 0;
        EchWire inner = ech_wire_sub(&wire, &f);
        while (ech_wire_next(&inner, &g)) {
            if (g.number == 1)
                operation = g.value;
            else if (g.number == 2)
                memory = g.value;
            else if (g.number == 3)
                n = g.value;
        }
        any = true;
        if (memory == 1 && operation == 1)
            op->read = ech_bytes_add(op->read, n);
        else if (memory == 1 && operation == 2)
            op->written = ech_bytes_add(op->written, n);
    }
    return any && !wire.bad;
}

/* The kind of a TPU event, from its metadata's name and stats. */
static bool kind_of(Reader *r, const EchWire *file, const Plane *plane, Metadata *meta, uint32_t *ret, GError **error)
{
    if (meta->kind) {
        *ret = meta->kind - 1;
        return true;
    }
    EchXplaneOp op = {
        .text = (const char *)meta->name.data, .n_text = meta->name.n, .name = (const char *)meta->display.data, .n_name = meta->display.n, .stack = ECH_NONE};
    EchWire wire = wire_of(file, meta->body);
    EchWireField f;
    Span source = {0}, tf_op = {0};
    while (ech_wire_next(&wire, &f)) {
        Stat s;
        if (f.number != 5)
            continue;
        if (!read_stat(r, &wire, &f, plane, &s, error))
            return false;
        if (is(s.name, "hlo_category")) {
            op.category = (const char *)s.text.data;
            op.n_category = s.text.n;
        } else if (is(s.name, "flops") || (is(s.name, "model_flops") && !op.has_flops)) {
            op.flops = stat_integer(&s);
            op.has_flops = true;
        } else if (is(s.name, "bytes_accessed")) {
            op.bytes = stat_integer(&s);
            op.has_bytes = true;
        } else if (is(s.name, "memory_access_breakdown")) {
            op.has_traffic = read_breakdown(&wire, s.text, &op);
        } else if (is(s.name, "tf_op")) {
            tf_op = s.text;
        } else if (is(s.name, "source_stack") || (is(s.name, "source") && !source.n)) {
            source = s.text;
        }
    }
    if (bad(&wire, r->where, error))
        return false;
    if (tf_op.n || source.n) {
        g_autoptr(GString) stack = g_string_new_len((const char *)tf_op.data, (gssize)tf_op.n);
        if (tf_op.n && source.n)
            g_string_append_c(stack, '\n');
        g_string_append_len(stack, (const char *)source.data, (gssize)source.n);
        while (stack->len && stack->str[stack->len - 1] == '\n')
            g_string_truncate(stack, stack->len - 1);
        op.stack = ech_trace_builder_string(r->builder, stack->str, (gssize)stack->len);
    }
    if (!op.text)
        op.text = "";
    *ret = ech_xplane_kind(r->x, &op);
    meta->kind = *ret + 1;
    return true;
}

static Metadata *metadata_of(Reader *r, const Plane *plane, uint64_t id)
{
    int64_t key = (int64_t)id;
    Metadata *meta = g_hash_table_lookup(plane->events, &key);
    if (!meta)
        ech_diag_dropped(r->ret->diag, "events_without_name", 1, "metadata %" G_GUINT64_FORMAT, id);
    return meta;
}

static EchId string_of(Reader *r, Metadata *meta)
{
    if (!meta->string)
        meta->string = ech_trace_builder_string(r->builder, (const char *)meta->name.data, (gssize)meta->name.n) + 1;
    return meta->string - 1;
}

static bool copy_direction(Span name, uint8_t *ret_from, uint8_t *ret_to)
{
    static const struct {
        const char *mark;
        uint8_t from, to;
    } marks[] = {{"H2D", ECH_TIER_HOST, ECH_TIER_DEVICE},
                 {"D2H", ECH_TIER_DEVICE, ECH_TIER_HOST},
                 {"D2D", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
                 {"P2P", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
                 {"H2H", ECH_TIER_HOST, ECH_TIER_HOST},
                 {"HostToDevice", ECH_TIER_HOST, ECH_TIER_DEVICE},
                 {"DeviceToHost", ECH_TIER_DEVICE, ECH_TIER_HOST},
                 {"DeviceToDevice", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
                 {"HtoD", ECH_TIER_HOST, ECH_TIER_DEVICE},
                 {"DtoH", ECH_TIER_DEVICE, ECH_TIER_HOST},
                 {"DtoD", ECH_TIER_DEVICE, ECH_TIER_DEVICE}};
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (contains(name, marks[i].mark)) {
            *ret_from = marks[i].from;
            *ret_to = marks[i].to;
            return true;
        }
    }
    return false;
}

/* What the name says, looked at once. */
static StreamKind stream_kind(Metadata *meta)
{
    if (meta->stream != STREAM_UNKNOWN)
        return (StreamKind)meta->stream;
    bool copy = meta->name.n >= 6 && (memcmp(meta->name.data, "Memcpy", 6) == 0 || (meta->name.n >= 7 && memcmp(meta->name.data, "CopyDev", 7) == 0) ||
                                      (meta->name.n >= 7 && memcmp(meta->name.data, "CopyHos", 7) == 0));
    bool fill = meta->name.n >= 6 && memcmp(meta->name.data, "Memset", 6) == 0;
    bool driver =
        contains(meta->name, "MemoryAlloc") || contains(meta->name, "MemoryFree") || contains(meta->name, "MemFree") || contains(meta->name, "MemAlloc");
    meta->stream = driver ? STREAM_DRIVER : copy ? STREAM_COPY : fill ? STREAM_FILL : STREAM_KERNEL;
    meta->directed = copy && copy_direction(meta->name, &meta->from, &meta->to);
    return (StreamKind)meta->stream;
}

/* The outermost of the host's ranges that @scope lies in: of XLA's one run of a program. */
static uint64_t outermost(const Reader *r, uint64_t scope)
{
    enum { MOST_NESTED = 256 };
    for (unsigned i = 0; i < MOST_NESTED; i++) {
        int64_t key = (int64_t)scope;
        const uint64_t *around = g_hash_table_lookup(r->scopes, &key);
        if (!around)
            break;
        scope = *around;
    }
    return scope;
}

/* Something of a program's run: a mark tells when that began and how long it took, before the first of its operations. */
static void note_ran(Reader *r, uint32_t queue, const Event *e, const EchItem *item)
{
    if (e->scope == 0 || !e->module.n || g_hash_table_size(r->scopes) == 0)
        return;
    int64_t key = (int64_t)outermost(r, e->scope);
    EchTime end = ech_time_add(item->start, item->duration);
    Ran *ran = g_hash_table_lookup(r->ran, &key);
    if (!ran) {
        g_autofree char *name = g_strdup_printf("%.*s(%" G_GUINT64_FORMAT ")", (int)e->module.n, (const char *)e->module.data, e->program);
        ran = g_new(Ran, 1);
        *ran = (Ran){.item = ech_capture_n_items(r->capture), .end = end};
        g_hash_table_insert(r->ran, g_memdup2(&key, sizeof key), ran);
        ech_xplane_mark(r->x, ech_capture_queue_device(r->capture, queue), ECH_QUEUE_OF_PROGRAMS, ech_trace_builder_string(r->builder, name, -1), item->start,
                        0);
    }
    EchItem *mark = ech_capture_item(r->capture, ran->item);
    mark->issued = MIN(mark->issued, item->issued);
    mark->start = MIN(mark->start, item->start);
    ran->end = MAX(ran->end, end);
    mark->duration = ran->end - mark->start;
}

/* A kernel, copy or fill of a GPU stream. */
static void gpu_event(Reader *r, uint32_t queue, Metadata *meta, const Event *e, EchTime start)
{
    StreamKind kind = stream_kind(meta);
    bool copy = kind == STREAM_COPY, fill = kind == STREAM_FILL;
    if (kind == STREAM_DRIVER) {
        ech_diag_note(r->ret->diag, "driver_allocations_without_address", 1);
        return;
    }
    EchItem item = ech_item_init(copy ? ECH_ITEM_COPY : fill ? ECH_ITEM_MEMSET : ECH_ITEM_KERNEL);
    item.name = string_of(r, meta);
    item.queue = queue;
    item.issued = item.start = start;
    item.duration = e->duration;
    if (copy || fill) {
        uint64_t bytes;
        bool known = detail(e->details, "size", &bytes) || detail(e->details, "num_bytes", &bytes);
        item.bytes = known ? bytes : 0;
        item.origin = known ? ECH_KNOWN : ECH_ABSENT;
        if (!known)
            ech_diag_note(r->ret->diag, "copies_without_bytes", 1);
        if (copy && meta->directed) {
            item.from = meta->from;
            item.to = meta->to;
        } else if (copy) {
            g_autofree char *name = ech_quote((const char *)meta->name.data, (gssize)meta->name.n, 80);
            ech_diag_dropped(r->ret->diag, "copy_directions", 1, "'%s': taken as device to device", name);
        }
    }
    if (e->op.n || e->source.n) {
        g_autofree char *stack =
            g_strdup_printf("%.*s%s%.*s", (int)MIN(e->source.n, (size_t)4096), e->source.data ? (const char *)e->source.data : "",
                            e->source.n && e->op.n ? "\n" : "", (int)MIN(e->op.n, (size_t)4096), e->op.data ? (const char *)e->op.data : "");
        item.stack = ech_trace_builder_string(r->builder, stack, -1);
    }
    if (e->has_correlation) {
        int64_t key = (int64_t)e->correlation;
        const EchTime *call = g_hash_table_lookup(r->launches, &key);
        if (call && *call <= start)
            item.issued = *call;
        else
            ech_diag_note(r->ret->diag, "device_events_without_launch", 1);
    }
    note_ran(r, queue, e, &item);
    EchGpuLaunch launch = {0};
    if (item.kind == ECH_ITEM_KERNEL && ech_xplane_launch((const char *)e->details.data, e->details.n, &launch))
        ech_gpu_kernel_by_launch(r->capture, r->names, launch, &item);
    if (item.kind == ECH_ITEM_KERNEL && e->has_program && e->source.n) {
        EchXlaLaunched launched = {.item = ech_capture_n_items(r->capture), .program = e->program};
        launched.instruction = ech_trace_builder_string(r->builder, (const char *)e->source.data, (gssize)e->source.n);
        launched.launch = e->in_graph && e->has_correlation ? e->correlation : 0;
        launched.threads = 1;
        for (int k = 0; k < 3; k++)
            launched.threads = ech_bytes_mul(launched.threads, ech_bytes_mul(launch.grid[k], launch.block[k]));
        ech_xla_programs_launched(r->programs, &launched);
    }
    ech_capture_add(r->capture, &item);
}

/* @before was in use of a memory until @time. */
static void note_in_use(Reader *r, uint8_t tier, uint32_t device, EchTime time, EchBytes before)
{
    guint i = 0;
    while (i < r->baselines->len && (g_array_index(r->baselines, Baseline, i).tier != tier || g_array_index(r->baselines, Baseline, i).device != device))
        i++;
    if (i == r->baselines->len && i < MAX_MEMORIES) {
        g_array_append_val(r->baselines, ((Baseline){time, before, device, tier}));
    } else if (i < r->baselines->len && time < g_array_index(r->baselines, Baseline, i).first) {
        g_array_index(r->baselines, Baseline, i).first = time;
        g_array_index(r->baselines, Baseline, i).before = before;
    }
}

/* MemoryAllocation and MemoryDeallocation of a host thread's line. */
static void memory_event(Reader *r, const Event *e, bool allocation, EchTime start)
{
    if (!e->has_address) {
        ech_diag_dropped(r->ret->diag, "memory_events_without_address", 1, NULL);
        return;
    }
    EchItem item = ech_item_init(allocation ? ECH_ITEM_ALLOC : ECH_ITEM_FREE);
    uint64_t device = e->device;
    bool host = contains(e->allocator, "host") || contains(e->allocator, "cpu"); /* "gpu_host_bfc", "mklcpu" */
    if (e->allocator.n && !host) {                                               /* "GPU_4_bfc" */
        g_autofree char *name = g_strndup((const char *)e->allocator.data, e->allocator.n);
        if (contains(e->allocator, "bfc") && g_utf8_validate(name, -1, NULL))
            ech_trace_builder_set_property(r->builder, "allocator", name);
        size_t i = 0;
        while (i < e->allocator.n && !g_ascii_isdigit(e->allocator.data[i]))
            i++;
        for (device = 0; i < e->allocator.n && g_ascii_isdigit(e->allocator.data[i]) && device < 10000; i++)
            device = device * 10 + (uint64_t)(e->allocator.data[i] - '0');
    }
    device = host ? 0 : MIN(device, (uint64_t)65535);
    item.to = item.from = host ? ECH_TIER_HOST : ECH_TIER_DEVICE;
    item.queue = ech_capture_queue(r->capture, "allocator", ECH_QUEUE_HOST, (uint32_t)device);
    item.issued = item.start = start;
    item.address = e->address;
    item.bytes = e->has_requested ? e->requested : e->given;
    item.rounded = e->given;
    item.origin = e->has_requested || e->has_given ? ECH_KNOWN : ECH_ABSENT;
    bool named = e->op.n && !is(e->op, "(null)"); /* as the profiler prints the name that is none */
    item.name = ech_trace_builder_string(r->builder, named ? (const char *)e->op.data : "", named ? (gssize)e->op.n : 0);
    if (allocation && e->shape.n)
        item.other = ech_trace_builder_string(r->builder, (const char *)e->shape.data, (gssize)e->shape.n);
    if (allocation && item.origin == ECH_ABSENT) {
        ech_diag_dropped(r->ret->diag, "allocations_without_size", 1, NULL);
        return;
    }
    if (e->has_allocated)
        note_in_use(r, item.to, (uint32_t)device, start, allocation ? e->allocated - MIN(e->allocated, e->given) : ech_bytes_add(e->allocated, e->given));
    ech_capture_add(r->capture, &item);
}

typedef struct {
    Span name;
    int64_t id, timestamp;
    uint64_t n_events;
} Line;

static bool read_line_head(Reader *r, EchWire wire, Line *ret, GError **error)
{
    EchWireField f;
    *ret = (Line){0};
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 1)
            ret->id = (int64_t)f.value;
        else if (f.number == 2)
            ret->name = span_of(&f);
        else if (f.number == 3)
            ret->timestamp = (int64_t)f.value;
        else if (f.number == 4)
            ret->n_events++;
    }
    return !bad(&wire, r->where, error);
}

/* Lines computed from others: they would count the same time twice. */
static bool derived(Span name)
{
    static const char *const names[] = {"TensorFlow Ops", "TensorFlow Name Scope", "XLA Modules",  "XLA Ops",    "Source code",
                                        "Framework Ops",  "Framework Name Scope",  "Launch Stats", "HLO Modules"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (is(name, names[i]))
            return true;
    }
    return false;
}

typedef enum { LINE_SKIP, LINE_CORE, LINE_MARKS, LINE_STREAM, LINE_HOST } LineUse;

static bool read_line(Reader *r, EchWire wire, const Plane *plane, const Line *line, LineUse use, uint32_t device, GError **error)
{
    g_autofree char *name = g_strndup(line->name.data ? (const char *)line->name.data : "", MIN(line->name.n, (size_t)MAX_LABEL));
    uint32_t queue = use == LINE_STREAM ? ech_capture_queue(r->capture, name, ECH_QUEUE_COMPUTE, device) : ECH_NONE;
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        Event e;
        EchTime start;
        if (f.number != 4)
            continue;
        if (!read_event(r, &wire, &f, plane, &e, error))
            return false;
        Metadata *meta = metadata_of(r, plane, e.metadata);
        if (!meta || !event_time(r, line->timestamp, e.offset, &start))
            continue;
        uint32_t kind;
        switch (use) {
        case LINE_CORE:
            if (!kind_of(r, &wire, plane, meta, &kind, error))
                return false;
            ech_xplane_event(r->x, device, kind, start, e.has_device_duration ? (EchTime)e.device_duration : e.duration);
            break;
        case LINE_MARKS: ech_xplane_mark(r->x, device, name, string_of(r, meta), start, e.duration); break;
        case LINE_STREAM: gpu_event(r, queue, meta, &e, start); break;
        case LINE_HOST:
            r->n_host_events++;
            if (is(meta->name, "MemoryAllocation") || is(meta->name, "MemoryDeallocation")) {
                r->n_host_events--;
                ech_diag_note(r->ret->records, is(meta->name, "MemoryAllocation") ? "MemoryAllocation" : "MemoryDeallocation", 1);
                memory_event(r, &e, is(meta->name, "MemoryAllocation"), start);
            } else if (e.has_correlation) {
                int64_t *key = g_new(int64_t, 1);
                EchTime *value = g_new(EchTime, 1);
                *key = (int64_t)e.correlation;
                *value = start;
                g_hash_table_replace(r->launches, key, value);
            }
            break;
        case LINE_SKIP:
        default: break;
        }
    }
    return !bad(&wire, r->where, error);
}

static bool keep_stats(Reader *r, const EchWire *wire, const EchWireField *field, const Plane *plane, const char *prefix, GError **error)
{
    Stat s;
    if (!read_stat(r, wire, field, plane, &s, error))
        return false;
    if (!s.name.n || s.name.n > 64 || s.text.n > 256)
        return true;
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    g_autofree char *key = g_strdup_printf("%s.%.*s", prefix, (int)s.name.n, (const char *)s.name.data);
    g_autofree char *value = s.is_text   ? g_strndup(s.text.data ? (const char *)s.text.data : "", s.text.n)
                             : s.is_real ? g_strdup(g_ascii_dtostr(digits, sizeof digits, s.real))
                                         : g_strdup_printf("%" G_GINT64_FORMAT, (int64_t)s.integer);
    if (g_utf8_validate(value, -1, NULL))
        ech_trace_builder_set_property(r->builder, key, value);
    return true;
}

static bool read_lines(Reader *r, const EchWire *plane_wire, const Plane *plane, GError **error)
{
    uint32_t device = 0;
    bool tpu = false, on_device = ech_xplane_device((const char *)plane->name.data, plane->name.n, &device, &tpu), host = is(plane->name, "/host:CPU");
    EchWire wire = *plane_wire;
    EchWireField f;
    char prefix[32];
    g_snprintf(prefix, sizeof prefix, "device.%u", device);
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 6 && (on_device || is(plane->name, "Task Environment")) && !keep_stats(r, &wire, &f, plane, on_device ? prefix : "task", error))
            return false;
        if (f.number != 3 || f.type != ECH_WIRE_BYTES)
            continue;
        Line line;
        EchWire inner = ech_wire_sub(&wire, &f);
        if (!read_line_head(r, inner, &line, error))
            return false;
        LineUse use = LINE_SKIP;
        if (host) {
            use = LINE_HOST;
        } else if (on_device && tpu) {
            use = is(line.name, "XLA Ops") ? LINE_CORE : is(line.name, "XLA Modules") || is(line.name, "Steps") ? LINE_MARKS : LINE_SKIP;
        } else if (on_device) {
            use = is(line.name, "Steps") ? LINE_MARKS : derived(line.name) || line.id < 0 ? LINE_SKIP : LINE_STREAM;
        }
        if (on_device && line.n_events) {
            g_autofree char *name = g_strndup(line.name.data ? (const char *)line.name.data : "", line.name.n);
            ech_diag_note(r->ret->records, name, line.n_events);
        } else if (line.n_events && !host) {
            ech_diag_note(r->ret->diag, "events_of_other_planes", line.n_events);
        }
        if (use != LINE_SKIP && !read_line(r, inner, plane, &line, use, device, error))
            return false;
    }
    return !bad(&wire, r->where, error);
}

/* A program in a profile. */
typedef struct {
    Span name, module;
} Found;

/* Ranges of the host, each by its number, with the number of the one around it. */
static bool read_scopes(Reader *r, const EchWire *plane_wire, GError **error)
{
    EchWire wire = *plane_wire;
    EchWireField f, g;
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 6 || f.type != ECH_WIRE_BYTES)
            continue;
        EchWire stat = ech_wire_sub(&wire, &f);
        uint64_t range = 0, around = 0;
        while (ech_wire_next(&stat, &g)) {
            range = g.number == 1 ? g.value : range;
            around = g.number == 3 || g.number == 4 ? g.value : around;
        }
        if (bad(&stat, r->where, error))
            return false;
        if (range != 0 && around != 0)
            g_hash_table_replace(r->scopes, g_memdup2(&range, sizeof range), g_memdup2(&around, sizeof around));
    }
    return !bad(&wire, r->where, error);
}

/* HLO programs travel in the metadata plane, one an event: its number is the program's, unless its stats say another. @found (may be NULL) gets them: Found. */
static bool read_programs(Reader *r, const EchWire *file, const Plane *plane, GArray *found, GError **error)
{
    GHashTableIter iter;
    gpointer key, value;
    uint64_t n = 0;
    /* They are looked up by number: the order of the table does not matter. */
    g_hash_table_iter_init(&iter, plane->events);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const Metadata *named = value;
        EchWire wire = wire_of(file, named->body);
        EchWireField f;
        uint64_t id = (uint64_t) * (const int64_t *)key;
        Span module = {0};
        while (ech_wire_next(&wire, &f)) {
            Stat s;
            if (f.number != 5)
                continue;
            if (!read_stat(r, &wire, &f, plane, &s, error))
                return false;
            if ((is(s.name, "Hlo Proto") || is(s.name, "hlo_proto")) && s.text.n > 0)
                module = s.text;
            else if (is(s.name, "program_id"))
                id = stat_integer(&s);
        }
        if (bad(&wire, r->where, error))
            return false;
        if (!module.n)
            continue;
        if (found)
            g_array_append_val(found, ((Found){named->name.data ? named->name : (Span){(const uint8_t *)"", 0}, module}));
        else
            ech_xla_programs_add(r->programs, id, module.data, module.n);
        n++;
    }
    if (n && !found)
        ech_diag_note(r->ret->records, "Hlo Proto", n);
    return true;
}

/* A profile has one plane of a device: another of the same name is another profile's, of another run or host. */
static void meet_device(Reader *r, const Plane *plane)
{
    uint32_t device;
    bool tpu;
    if (!ech_xplane_device((const char *)plane->name.data, plane->name.n, &device, &tpu))
        return;
    g_autofree char *name = ech_quote((const char *)plane->name.data, (gssize)plane->name.n, 64), *shown = g_strdup(name);
    if (!g_hash_table_add(r->devices, g_steal_pointer(&name)) && !r->told_twice) {
        ech_diag_remark(r->ret->diag,
                        "two planes are called '%s': several profiles one behind the other in one file, which are read as one run; give each by itself", shown);
        r->told_twice = true;
    }
}

static bool read_plane(Reader *r, const EchWire *file, const EchWireField *field, bool host, GError **error)
{
    EchWire wire = ech_wire_sub(file, field);
    Plane plane = {0};
    bool ok = read_names(r, &wire, &plane, error);
    if (ok && !host)
        meet_device(r, &plane);
    if (ok && host && is(plane.name, "/host:__ScopeRangeCallStack__"))
        ok = read_scopes(r, &wire, error);
    else if (ok && is(plane.name, "/host:CPU") == host)
        ok = is(plane.name, "/host:metadata") ? read_programs(r, file, &plane, NULL, error) : read_lines(r, &wire, &plane, error);
    plane_clear(&plane);
    return ok;
}

static bool read_space(Reader *r, const uint8_t *data, size_t n, GError **error)
{
    uint64_t n_planes = 0;
    /* The host's lines first: they hold the calls that issued what devices did. */
    for (int pass = 0; pass < 2; pass++) {
        EchWire wire = ech_wire_init(data, n);
        EchWireField f;
        while (ech_wire_next(&wire, &f)) {
            if (f.number == 1 && f.type == ECH_WIRE_BYTES) {
                n_planes++;
                if (!read_plane(r, &wire, &f, pass == 0, error))
                    return false;
            } else if ((f.number == 2 || f.number == 3) && f.type == ECH_WIRE_BYTES && pass == 0) {
                g_autofree char *said = ech_quote((const char *)f.data, (gssize)f.size, 200);
                ech_diag_remark(r->ret->diag, "the profiler %s: %s", f.number == 2 ? "failed" : "warned", said);
            }
        }
        if (bad(&wire, r->where, error))
            return false;
    }
    if (n_planes == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: an XSpace without planes", r->where);
        return false;
    }
    if (r->n_host_events)
        ech_diag_note(r->ret->diag, "host_events_only_counted", r->n_host_events);
    ech_trace_builder_printf_property(r->builder, "time_base_ns", "%" G_GINT64_FORMAT, r->base_ns);
    for (guint i = 0; i < r->baselines->len; i++) {
        const Baseline *b = &g_array_index(r->baselines, Baseline, i);
        ech_capture_baseline(r->capture, (EchTier)b->tier, b->device, b->before);
    }
    ech_xla_programs_apply(r->programs, r->capture, r->ret->diag);
    uint64_t programs = ech_diag_count(r->ret->records, "Hlo Proto");
    if (programs > 0)
        ech_trace_builder_printf_property(r->builder, ECH_PROGRAMS_BESIDE, "%" G_GUINT64_FORMAT, programs);
    if (!ech_xplane_finish(r->x, error))
        return false;
    g_autofree char *main = programs > 0 ? ech_trace_main_program(r->ret->trace) : NULL;
    if (main)
        ech_diag_remark(r->ret->diag,
                        "the profile holds the programs that ran: 'echelon import FILE --program %s -o program.hlo.pb' takes one out, for what its memory "
                        "holds by name and for passes",
                        main);
    return true;
}

static bool xplane_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchXplane) x = ech_xplane_new(ret, "xplane");
    Reader r = {.ret = ret, .where = ech_source_path(source), .x = x, .capture = ech_xplane_capture(x)};
    r.builder = ech_capture_builder(r.capture);
    r.launches = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    r.baselines = g_array_new(FALSE, FALSE, sizeof(Baseline));
    r.devices = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    r.programs = ech_xla_programs_new();
    r.names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    r.scopes = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    r.ran = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    bool ok = read_space(&r, data, n, error);
    g_array_unref(r.baselines);
    g_hash_table_unref(r.devices);
    g_hash_table_unref(r.launches);
    g_hash_table_unref(r.names);
    g_hash_table_unref(r.scopes);
    g_hash_table_unref(r.ran);
    ech_xla_programs_free(r.programs);
    return ok;
}

/* Field 1 of XSpace is a plane: its bytes begin with an id (1) or a name (2) that is a path or a known title. */
static int probe(const uint8_t *head, size_t n)
{
    if (n < 8 || head[0] != 0x0a)
        return 0;
    static const char *const marks[] = {"/device:TPU",      "/device:GPU",    "/host:CPU",          "/host:metadata",
                                        "Task Environment", "/device:CUSTOM", "/host:python-tracer"};
    /* The first plane usually goes past the window: its length is not checked, only what it begins with. */
    size_t at = 1;
    while (at < n && at < 11 && head[at] & 0x80)
        at++;
    EchWire plane = ech_wire_init(head + MIN(at + 1, n), n - MIN(at + 1, n));
    EchWireField f;
    for (int i = 0; i < 4 && ech_wire_next(&plane, &f); i++) {
        for (size_t m = 0; f.number == 2 && f.type == ECH_WIRE_BYTES && m < G_N_ELEMENTS(marks); m++) {
            if (f.size >= strlen(marks[m]) && memcmp(f.data, marks[m], strlen(marks[m])) == 0)
                return 2;
        }
        if (f.number == 2 && f.type == ECH_WIRE_BYTES && f.size && f.data[0] == '#')
            return 1;
    }
    return 0;
}

static int compare_found(gconstpointer a, gconstpointer b)
{
    const Found *x = a, *y = b;
    int order = memcmp(x->name.data, y->name.data, MIN(x->name.n, y->name.n));
    return order ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

/* "jit_step(6643)" is called that, and "jit_step". */
static bool is_called(Span found, const char *name)
{
    size_t n = strlen(name);
    return found.n >= n && memcmp(found.data, name, n) == 0 && (found.n == n || found.data[n] == '(');
}

static const Found *choose(const GArray *found, const char *name, const char *where, GError **error)
{
    enum { MOST = 24 };
    const Found *chosen = NULL;
    guint called = 0;
    for (guint i = 0; i < found->len; i++) {
        const Found *f = &g_array_index(found, Found, i);
        if (is(f->name, name))
            return f;
        if (is_called(f->name, name)) {
            chosen = f;
            called++;
        }
    }
    if (called == 1)
        return chosen;
    g_autoptr(GString) names = g_string_new(NULL);
    guint told = 0;
    for (guint i = 0; i < found->len; i++) {
        const Found *f = &g_array_index(found, Found, i);
        if (called > 1 && !is_called(f->name, name))
            continue;
        g_autofree char *shown = ech_quote((const char *)f->name.data, (gssize)f->name.n, 80);
        if (told++ < MOST)
            g_string_append_printf(names, "%s%s", told > 1 ? ", " : "", shown);
    }
    if (told > MOST)
        g_string_append_printf(names, " or one of %u more", told - MOST);
    if (found->len == 0)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: it holds no programs; a profile that JAX or TensorFlow wrote (*.xplane.pb) does", where);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: %s '%s'; expected %s", where, called > 1 ? "several programs are called" : "it holds no program",
                    name, names->str);
    return NULL;
}

GBytes *ech_xplane_program(EchSource *source, const char *name, char **ret_name, GError **error)
{
    size_t n_head;
    const uint8_t *head = ech_source_head(source, &n_head);
    bool profile = probe(head, n_head) > 0;
    g_autoptr(GBytes) bytes = profile ? ech_source_bytes(source, 0, error) : g_bytes_new(NULL, 0);
    if (!bytes)
        return NULL;
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    Reader r = {.where = ech_source_path(source) ? ech_source_path(source) : "profile"};
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(Found));
    EchWire wire = ech_wire_init(data, n);
    EchWireField f;
    while (ech_wire_next(&wire, &f)) {
        Plane plane = {0};
        EchWire inner = ech_wire_sub(&wire, &f);
        if (f.number != 1 || f.type != ECH_WIRE_BYTES)
            continue;
        bool ok = read_names(&r, &inner, &plane, error) && (!is(plane.name, "/host:metadata") || read_programs(&r, &wire, &plane, found, error));
        plane_clear(&plane);
        if (!ok)
            return NULL;
    }
    if (bad(&wire, r.where, error))
        return NULL;
    g_array_sort(found, compare_found);
    const Found *chosen = choose(found, name, r.where, error);
    if (!chosen)
        return NULL;
    *ret_name = g_strndup((const char *)chosen->name.data, chosen->name.n);
    return g_bytes_new(chosen->module.data, chosen->module.n);
}

const EchImportClass ech_import_xplane = {
    .name = "xplane",
    .summary = "XLA profile (XSpace, *.xplane.pb) of JAX or TensorFlow on TPU or GPU, with its allocator events",
    .probe = probe,
    .read = xplane_read,
    .when_idle = "no device did anything in it: the program ran on the CPU",
};
