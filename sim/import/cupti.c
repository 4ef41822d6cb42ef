/* Captures of our own CUPTI library (traces/capture/echelon_capture.c): lines of a word, numbers, and a quoted name at the end.
 *
 *   echelon-capture 1
 *   clock CUPTI_NS REALTIME_NS
 *   gpu DEVICE "NAME"
 *   kernel START END DEVICE STREAM CORRELATION GX GY GZ BX BY BZ "NAME"
 *   copy START END DEVICE STREAM CORRELATION BYTES FROM_KIND TO_KIND ASYNC        (CUPTI memory kinds: 1 pageable, 2 pinned, 3 device, 4 array, 5 managed,
 *                                                                               6 variables of a loaded module, 7 managed ones)
 *   peer START END DEVICE STREAM CORRELATION BYTES FROM_DEVICE TO_DEVICE ASYNC
 *   set START END DEVICE STREAM CORRELATION BYTES
 *   alloc|free TIME DEVICE STREAM CORRELATION ADDRESS BYTES KIND ASYNC
 *   context CONTEXT DEVICE                                                        (before or after what names the context)
 *   sync START END TYPE CONTEXT STREAM EVENT CORRELATION                          (1 event, 2 stream waits for event, 3 stream, 4 context)
 *   unified START END COUNTER VALUE ADDRESS FROM TO                               (1 bytes host to device, 2 bytes device to host, 3 CPU faults, 4 GPU faults)
 *   pool TIME OPERATION TYPE ADDRESS SIZE THRESHOLD | overhead START END KIND | mark TIME ID FLAGS "NAME" |
 *   refused KIND RESULT "ITS NAME" (a kind of record that CUPTI would not make) | without WHAT (the same, as written until November 2026)
 *   taken (no kernel came, and buffers that CUPTI had asked for never came back: another profiler of the program's gets them)
 *   dropped BY_CUPTI NO_BUFFER
 *   end
 */
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/gpu_work.h"
#include "sim/import/lines.h"
#include "sim/import/xla_programs.h"

#include <string.h>

#define MAGIC "echelon-capture 1\n"

enum { MOST_GPUS = 64 };

/* A wait, until it is known which device its context is of. */
typedef struct {
    EchTime start, end;
    uint64_t type, context, stream;
} Sync;

typedef struct {
    EchImport *ret;
    EchCapture *capture;
    EchTraceBuilder *builder;
    EchLines lines;
    GString *scratch;
    GHashTable *open_marks; /* id -> index of the item that began it, + 1 */
    GHashTable *names;      /* of ech_gpu_name_of */
    GHashTable *contexts;   /* number + 1 -> device + 1 */
    GArray *syncs;          /* Sync */
    uint64_t origin;        /* CUPTI's clock when the capture began. It counts nanoseconds since 1970: in picoseconds those are more than an EchTime */
} Reader;

/* The name at the end of the line. */
static EchId name_of(Reader *r)
{
    return ech_trace_builder_string(r->builder, ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted), -1);
}

/* Nanoseconds of CUPTI's clock to picoseconds since the capture began; what does not fit counts as not recorded. */
static EchTime time_of(const Reader *r, uint64_t nanoseconds)
{
    nanoseconds -= MIN(r->origin, nanoseconds);
    return nanoseconds > (uint64_t)INT64_MAX / 2000 ? ECH_TIME_NONE : (EchTime)nanoseconds * ECH_PS_PER_NS;
}

/* Whether the line, which begins with @start and @end, tells when it was; counted where it does not. */
static bool is_timed(Reader *r, EchTime start, EchTime end)
{
    if (start != ECH_TIME_NONE && end != ECH_TIME_NONE && r->lines.fields[0] != 0)
        return true;
    ech_diag_dropped(r->ret->diag, "events_without_time", 1, "%s:%zu", r->lines.where, r->lines.line);
    return false;
}

static bool set_span(Reader *r, EchItem *item)
{
    EchTime start = time_of(r, r->lines.fields[0]), end = time_of(r, r->lines.fields[1]);
    if (!is_timed(r, start, end))
        return false;
    item->issued = item->start = start;
    item->duration = MAX(end - start, 0);
    return true;
}

static uint32_t stream_queue(Reader *r, uint64_t device, uint64_t stream)
{
    return ech_capture_stream(r->capture, (uint32_t)MIN(device, 65535), (int64_t)stream);
}

static const char *memory_name(uint64_t kind)
{
    static const char *const names[] = {"unknown", "pageable", "pinned", "device", "array", "managed", "static variables", "managed static variables"};
    return names[kind < G_N_ELEMENTS(names) ? kind : 0];
}

static uint8_t tier_of(uint64_t kind)
{
    return kind == 1 || kind == 2 ? ECH_TIER_HOST : ECH_TIER_DEVICE;
}

static void add_kernel(Reader *r)
{
    EchItem item = ech_item_init(ECH_ITEM_KERNEL);
    if (!set_span(r, &item))
        return;
    item.queue = stream_queue(r, r->lines.fields[2], r->lines.fields[3]);
    item.name = name_of(r);
    EchGpuLaunch launch = {0};
    for (size_t i = 0; i < 3; i++) {
        launch.grid[i] = (uint32_t)MIN(r->lines.fields[5 + i], (uint64_t)INT32_MAX);
        launch.block[i] = (uint32_t)MIN(r->lines.fields[8 + i], (uint64_t)INT32_MAX);
    }
    if (ech_gpu_kernel_by_launch(r->capture, r->names, launch, &item))
        ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", 1);
    ech_capture_add(r->capture, &item);
}

static void add_copy(Reader *r)
{
    EchItem item = ech_item_init(ECH_ITEM_COPY);
    if (!set_span(r, &item))
        return;
    /* As profilers call it: copies of pageable memory are known by their name. */
    char name[64];
    static const char *const kinds[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
    uint64_t from = r->lines.fields[6] < G_N_ELEMENTS(kinds) ? r->lines.fields[6] : 0, to = r->lines.fields[7] < G_N_ELEMENTS(kinds) ? r->lines.fields[7] : 0;
    g_snprintf(name, sizeof name, "Memcpy %cto%c (%s -> %s)", tier_of(from) == ECH_TIER_HOST ? 'H' : 'D', tier_of(to) == ECH_TIER_HOST ? 'H' : 'D', kinds[from],
               kinds[to]);
    item.queue = stream_queue(r, r->lines.fields[2], r->lines.fields[3]);
    item.name = ech_trace_builder_string(r->builder, name, -1);
    item.bytes = r->lines.fields[5];
    item.origin = ECH_KNOWN;
    item.from = tier_of(r->lines.fields[6]);
    item.to = tier_of(r->lines.fields[7]);
    ech_capture_add(r->capture, &item);
}

/* Between the memories of two devices: on the stream of one of them. */
static void add_peer(Reader *r)
{
    EchItem item = ech_item_init(ECH_ITEM_COPY);
    if (!set_span(r, &item))
        return;
    uint64_t on = r->lines.fields[2], from = r->lines.fields[6], to = r->lines.fields[7];
    item.queue = stream_queue(r, on, r->lines.fields[3]);
    item.name = ech_trace_builder_string(r->builder, "Memcpy PtoP (Device -> Device)", -1);
    item.bytes = r->lines.fields[5];
    item.origin = ECH_KNOWN;
    item.from = item.to = ECH_TIER_DEVICE;
    item.pulled = to == on && from != to;
    item.other = from == to ? ECH_NONE : (uint32_t)MIN(item.pulled ? from : to, 65535);
    ech_capture_add(r->capture, &item);
}

static void add_set(Reader *r)
{
    EchItem item = ech_item_init(ECH_ITEM_MEMSET);
    if (!set_span(r, &item))
        return;
    item.queue = stream_queue(r, r->lines.fields[2], r->lines.fields[3]);
    item.name = ech_trace_builder_string(r->builder, "Memset", -1);
    item.bytes = r->lines.fields[5];
    item.origin = ECH_KNOWN;
    item.from = item.to = ECH_TIER_DEVICE;
    ech_capture_add(r->capture, &item);
}

static void add_memory(Reader *r, EchItemKind kind)
{
    EchItem item = ech_item_init(kind);
    item.issued = item.start = time_of(r, r->lines.fields[0]);
    if (item.start == ECH_TIME_NONE) {
        ech_diag_dropped(r->ret->diag, "events_without_time", 1, "%s:%zu", r->lines.where, r->lines.line);
        return;
    }
    item.duration = 0;
    item.queue = stream_queue(r, r->lines.fields[1], r->lines.fields[2] == UINT32_MAX ? 0 : r->lines.fields[2]);
    item.address = r->lines.fields[4];
    item.bytes = r->lines.fields[5];
    item.origin = ECH_KNOWN;
    item.managed = r->lines.fields[6] == 5 ? ECH_MANAGED : 0;
    item.from = item.to = item.managed ? ECH_TIER_HOST : tier_of(r->lines.fields[6]);
    item.name = ech_trace_builder_string(r->builder, memory_name(r->lines.fields[6]), -1);
    ech_capture_add(r->capture, &item);
}

static const char *const sync_names[] = {"Synchronize event", "Stream waits for event", "Synchronize stream", "Synchronize context"};

static void add_sync(Reader *r)
{
    Sync sync = {time_of(r, r->lines.fields[0]), time_of(r, r->lines.fields[1]), r->lines.fields[2], r->lines.fields[3], r->lines.fields[4]};
    if (sync.type < 1 || sync.type > G_N_ELEMENTS(sync_names)) {
        ech_diag_dropped(r->ret->diag, "synchronisations_of_unknown_type", 1, "%s:%zu: type %" G_GUINT64_FORMAT, r->lines.where, r->lines.line, sync.type);
        return;
    }
    ech_capture_set_waits(r->capture, ECH_WAITS_CALLS);
    /* CUPTI does not say when the event was recorded, so a wait of a stream cannot be tied to what it waits for. */
    if (sync.type == 2)
        ech_diag_note(r->ret->diag, "stream_waits_without_their_event", 1);
    if (is_timed(r, sync.start, sync.end))
        g_array_append_val(r->syncs, sync);
}

/* Waits, each of its context's device; of a program of one device they are that device's. */
static void place_syncs(Reader *r)
{
    gpointer only = NULL;
    GHashTableIter iter;
    g_hash_table_iter_init(&iter, r->contexts);
    if (g_hash_table_size(r->contexts) == 1)
        g_hash_table_iter_next(&iter, NULL, &only);
    for (guint i = 0; i < r->syncs->len; i++) {
        const Sync *sync = &g_array_index(r->syncs, Sync, i);
        gpointer known = g_hash_table_lookup(r->contexts, GSIZE_TO_POINTER((gsize)sync->context + 1));
        uint32_t device = known ? GPOINTER_TO_UINT(known) - 1 : only ? GPOINTER_TO_UINT(only) - 1 : 0;
        uint32_t stream = stream_queue(r, device, sync->type == 2 || sync->type == 3 ? sync->stream : 0);
        if (sync->type == 2) {
            ech_capture_wait_call(r->capture, sync->start, ECH_NONE, stream);
            continue;
        }
        EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
        item.issued = item.start = sync->start;
        item.duration = MAX(sync->end - sync->start, 0);
        item.queue = stream;
        item.other = sync->type == 3 ? stream : ECH_NONE;
        item.address = (uint64_t)item.start;
        item.name = ech_trace_builder_string(r->builder, sync_names[sync->type - 1], -1);
        ech_capture_add(r->capture, &item);
    }
}

static void add_unified(Reader *r)
{
    if (r->lines.fields[2] != 1 && r->lines.fields[2] != 2) {
        ech_diag_note(r->ret->records, r->lines.fields[2] == 3 ? "unified_memory_cpu_faults" : "unified_memory_gpu_faults", 1);
        return;
    }
    EchItem item = ech_item_init(ECH_ITEM_COPY);
    if (!set_span(r, &item))
        return;
    bool to_device = r->lines.fields[2] == 1;
    uint64_t device = r->lines.fields[to_device ? 6 : 5];
    item.queue = ech_capture_queue(r->capture, to_device ? "unified memory to device" : "unified memory to host", ECH_QUEUE_COPY, (uint32_t)MIN(device, 65535));
    item.name = ech_trace_builder_string(r->builder, "Unified memory migration", -1);
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.from = to_device ? ECH_TIER_HOST : ECH_TIER_DEVICE;
    item.to = to_device ? ECH_TIER_DEVICE : ECH_TIER_HOST;
    ech_capture_add(r->capture, &item);
    ech_capture_migrated(r->capture, to_device, item.bytes);
}

/* A range is two records, begin (flag 2) and end (flag 4), of one id. */
static void add_mark(Reader *r)
{
    EchTime time = time_of(r, r->lines.fields[0]);
    gpointer key = GSIZE_TO_POINTER((gsize)r->lines.fields[1]);
    if (time == ECH_TIME_NONE)
        return;
    if (r->lines.fields[2] & 4) {
        size_t begun = GPOINTER_TO_SIZE(g_hash_table_lookup(r->open_marks, key));
        if (begun == 0) {
            ech_diag_note(r->ret->diag, "range_ends_without_begin", 1);
            return;
        }
        EchItem *item = ech_capture_item(r->capture, begun - 1);
        item->duration = MAX(time - item->start, 0);
        g_hash_table_remove(r->open_marks, key);
        return;
    }
    EchItem item = ech_item_init(ECH_ITEM_MARK);
    item.issued = item.start = time;
    item.duration = 0;
    item.queue = ech_capture_queue(r->capture, "nvtx", ECH_QUEUE_HOST, 0);
    item.name = name_of(r);
    ech_capture_add(r->capture, &item);
    if (r->lines.fields[2] & 2)
        g_hash_table_insert(r->open_marks, key, GSIZE_TO_POINTER(ech_capture_n_items(r->capture)));
}

static void add_gpu(Reader *r)
{
    char key[32];
    if (r->lines.fields[0] >= MOST_GPUS)
        return;
    g_snprintf(key, sizeof key, "device.%" G_GUINT64_FORMAT ".name", r->lines.fields[0]);
    ech_trace_builder_set_property(r->builder, key, ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted));
}

static void add_refused(Reader *r)
{
    static const struct {
        unsigned kind;
        const char *name;
    } told[] = {{1, "copies"},
                {2, "sets"},
                {10, "kernels"},
                {12, "NVTX ranges"},
                {17, "its own overhead"},
                {22, "copies between devices"},
                {25, "migrations of unified memory"},
                {38, "host waits"},
                {49, "allocations"},
                {50, "memory pools"}};
    const char *name = "records of a kind";
    for (size_t i = 0; i < G_N_ELEMENTS(told); i++)
        name = told[i].kind == r->lines.fields[0] ? told[i].name : name;
    ech_diag_note(r->ret->diag, "kinds_of_record_cupti_refused", 1);
    ech_diag_remark(r->ret->diag, "the capture has no %s: CUPTI refused them there (%s)", name, ech_lines_text(r->scratch, r->lines.quoted, r->lines.n_quoted));
}

/* Words that lines begin with. */
enum {
    LINE_KERNEL,
    LINE_COPY,
    LINE_PEER,
    LINE_SET,
    LINE_ALLOC,
    LINE_FREE,
    LINE_SYNC,
    LINE_UNIFIED,
    LINE_MARK,
    LINE_POOL,
    LINE_OVERHEAD,
    LINE_CLOCK,
    LINE_GPU,
    LINE_CONTEXT,
    LINE_DROPPED,
    LINE_REFUSED,
    LINE_TAKEN,
    LINE_OTHER,
    LINE_END,
};

static const EchLineKind kinds[] = {
    [LINE_KERNEL] = {"kernel", "CONCURRENT_KERNEL", 11, true},
    [LINE_COPY] = {"copy", "MEMCPY", 9, false},
    [LINE_PEER] = {"peer", "MEMCPY2", 9, false},
    [LINE_SET] = {"set", "MEMSET", 6, false},
    [LINE_ALLOC] = {"alloc", "MEMORY2 allocation", 8, false},
    [LINE_FREE] = {"free", "MEMORY2 release", 8, false},
    [LINE_SYNC] = {"sync", "SYNCHRONIZATION", 7, false},
    [LINE_UNIFIED] = {"unified", "UNIFIED_MEMORY_COUNTER", 7, false},
    [LINE_MARK] = {"mark", "MARKER", 3, true},
    [LINE_POOL] = {"pool", "MEMORY_POOL", 6, false},
    [LINE_OVERHEAD] = {"overhead", "OVERHEAD", 3, false},
    [LINE_CLOCK] = {"clock", NULL, 2, false},
    [LINE_GPU] = {"gpu", NULL, 1, true},
    [LINE_CONTEXT] = {"context", NULL, 2, false},
    [LINE_DROPPED] = {"dropped", NULL, 2, false},
    [LINE_REFUSED] = {"refused", NULL, 2, true},
    [LINE_TAKEN] = {"taken", NULL, 0, false},
    [LINE_OTHER] = {"other", "other", 1, false},
    [LINE_END] = {"end", NULL, 0, false},
};

static bool add_line(size_t which, void *data, GError **error)
{
    Reader *r = data;
    if (which == G_N_ELEMENTS(kinds)) {
        g_autofree char *word = ech_lines_word(&r->lines);
        if (strcmp(word, "without") == 0) {
            ech_diag_note(r->ret->diag, "kinds_of_record_cupti_refused", 1);
            return true;
        }
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: '%s' is no record; expected kernel, copy, alloc, ...", r->lines.where, r->lines.line, word);
        return false;
    }
    switch (which) {
    case LINE_KERNEL: add_kernel(r); break;
    case LINE_COPY: add_copy(r); break;
    case LINE_PEER: add_peer(r); break;
    case LINE_SET: add_set(r); break;
    case LINE_ALLOC: add_memory(r, ECH_ITEM_ALLOC); break;
    case LINE_FREE: add_memory(r, ECH_ITEM_FREE); break;
    case LINE_SYNC: add_sync(r); break;
    case LINE_UNIFIED: add_unified(r); break;
    case LINE_MARK: add_mark(r); break;
    case LINE_CLOCK:
        r->origin = r->lines.fields[0];
        ech_trace_builder_printf_property(r->builder, "session_start_unix_ns", "%" G_GUINT64_FORMAT, r->lines.fields[1]);
        break;
    case LINE_GPU: add_gpu(r); break;
    case LINE_CONTEXT:
        g_hash_table_insert(r->contexts, GSIZE_TO_POINTER((gsize)r->lines.fields[0] + 1), GUINT_TO_POINTER((guint)MIN(r->lines.fields[1], 65535) + 1));
        break;
    case LINE_DROPPED: ech_diag_dropped(r->ret->diag, "records_dropped_by_cupti", r->lines.fields[0], "%s:%zu", r->lines.where, r->lines.line); break;
    case LINE_REFUSED: add_refused(r); break;
    case LINE_TAKEN:
        ech_diag_remark(r->ret->diag,
                        "the capture has no kernel: where the program started a profiler of its own (PyTorch's, JAX's), that one got CUPTI's records "
                        "from then on; capture it without");
        break;
    case LINE_END: r->lines.ended = true; break;
    default: break;
    }
    return true;
}

static bool cupti_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchCapture) capture = ech_capture_new(ret, "cupti");
    g_autoptr(GString) scratch = g_string_new(NULL);
    g_autoptr(GHashTable) open_marks = g_hash_table_new(ech_hash_key, NULL), names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    g_autoptr(GHashTable) contexts = g_hash_table_new(ech_hash_key, NULL);
    g_autoptr(GArray) syncs = g_array_new(FALSE, FALSE, sizeof(Sync));
    Reader r = {.ret = ret,
                .capture = capture,
                .builder = ech_capture_builder(capture),
                .lines = {.where = ech_source_path(source) ? ech_source_path(source) : "capture", .diag = ret->diag, .records = ret->records},
                .scratch = scratch,
                .open_marks = open_marks,
                .names = names,
                .contexts = contexts,
                .syncs = syncs};
    if (n < strlen(MAGIC) || memcmp(data, MAGIC, strlen(MAGIC)) != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:1: not a capture; expected 'echelon-capture 1'", r.lines.where);
        return false;
    }
    if (!ech_lines_read(&r.lines, data + strlen(MAGIC), n - strlen(MAGIC), kinds, G_N_ELEMENTS(kinds), add_line, &r, error))
        return false;
    place_syncs(&r);
    return ech_xla_programs_beside(capture, options->beside, ret->diag, error) && ech_capture_finish(capture, error);
}

static int probe(const uint8_t *head, size_t n)
{
    return n >= strlen(MAGIC) && memcmp(head, MAGIC, strlen(MAGIC)) == 0 ? 2 : 0;
}

const EchImportClass ech_import_cupti = {
    .name = "cupti",
    .summary = "captures of 'echelon capture' (CUPTI activities of a CUDA program)",
    .takes_programs = true,
    .probe = probe,
    .read = cupti_read,
};
