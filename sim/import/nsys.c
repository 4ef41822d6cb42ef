/* Nsight Systems SQLite exports, schemas of 2020 to 2026. Tables exist only where they have rows and columns come and go, so
 * every query is made from the columns that are there; an absent one reads as NULL.
 */
#include "sim/import/gpu_work.h"
#include "sim/import/sqlite.h"
#include "sim/import/xla_programs.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"

enum { MAX_DEVICES = 128, MAX_QUEUES = 2048, MAX_PROCESSES = 255 };

typedef struct {
    int64_t pid, correlation;
    EchTime start, end;
    EchId name, stack;
    uint32_t thread;
    uint32_t device; /* that it asked for something; ECH_NONE: none */
} Call;

/* Where and by which call a CUDA event was recorded. */
typedef struct {
    int64_t pid, event, sync, correlation, stream, context, device;
} Recorded;

typedef struct {
    EchImport *ret;
    const char *where;
    EchSqlite *db;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GHashTable *strings; /* id -> Text */
    GHashTable *chains;  /* id -> EchId + 1 */
    GArray *calls, *recorded;
    GHashTable *queues; /* "device context stream pid" -> index + 1 */
    GHashTable *gpus;   /* device_key -> GPU + 1; 0 of all processes: not the same of each */
    int64_t pids[MAX_PROCESSES];
    uint32_t n_pids;
    uint64_t n_waits;
    uint64_t n_stream_waits, n_unresolved; /* of streams for events; those of which the event's recording is not known */
    GError **error;
} Reader;

/* Of StringIds. */
typedef struct {
    char *text;
    EchId string; /* of the trace; ECH_NONE until asked for */
} Text;

static void text_free(gpointer data)
{
    Text *text = data;
    g_free(text->text);
    g_free(text);
}

/* A name column: an id of StringIds, or (long ago) the text itself. */
static EchId text_id(Reader *r, const EchSqliteRows *rows, int column, const char *fallback)
{
    const char *text = fallback;
    if (ech_sqlite_is_text(rows, column)) {
        text = ech_sqlite_text(rows, column);
    } else if (!ech_sqlite_is_null(rows, column)) {
        int64_t id = ech_sqlite_int(rows, column, 0);
        Text *found = g_hash_table_lookup(r->strings, &id);
        if (found && found->text) {
            if (found->string == ECH_NONE)
                found->string = ech_trace_builder_string(r->builder, found->text, -1);
            return found->string;
        }
        if (!found)
            ech_diag_dropped(r->ret->diag, "names_not_in_StringIds", 1, "table %s: id %" G_GINT64_FORMAT, rows->table, id);
    }
    return ech_trace_builder_string(r->builder, text ? text : fallback, -1);
}

static int64_t pid_of(int64_t global)
{
    return (int64_t)((uint64_t)global >> 24 & 0xffffff);
}

/* Of a process's device; of pid -1 that of all processes which have the number. */
static int64_t device_key(int64_t pid, int64_t device)
{
    return (int64_t)((uint64_t)pid << 16 | (uint64_t)device);
}

/* The GPU's number in the machine: a process numbers those that it may see (CUDA_VISIBLE_DEVICES), the fastest first. Where it is not told, the process's. */
static uint32_t device_of(const Reader *r, int64_t pid, int64_t device)
{
    if (device < 0 || device >= MAX_DEVICES)
        return 0;
    int64_t own = device_key(pid, device), all = device_key(-1, device);
    guint gpu = GPOINTER_TO_UINT(g_hash_table_lookup(r->gpus, &own));
    gpu = gpu ? gpu : GPOINTER_TO_UINT(g_hash_table_lookup(r->gpus, &all));
    return gpu ? gpu - 1 : (uint32_t)device;
}

/* Processes by number, in order of first use; the last number is of all that are left over. */
static uint32_t process_of(Reader *r, int64_t pid)
{
    uint32_t i = 0;
    while (i < r->n_pids && r->pids[i] != pid)
        i++;
    if (i == r->n_pids && i < MAX_PROCESSES)
        r->pids[r->n_pids++] = pid;
    return i;
}

/* What a process does on the host: the first one's is "host", and that of calls of a process without streams (exports that tell no processes of kernels). */
static uint32_t host_queue(Reader *r, int64_t pid, uint32_t device)
{
    uint32_t process = 0;
    while (process < r->n_pids && r->pids[process] != pid)
        process++;
    process = process < r->n_pids ? process : 0;
    g_autofree char *name = process ? g_strdup_printf("host process %" G_GINT64_FORMAT, pid) : g_strdup("host");
    uint32_t queue = ech_capture_queue(r->capture, name, ECH_QUEUE_HOST, device);
    ech_capture_set_process(r->capture, queue, process);
    return queue;
}

static uint32_t stream_queue(Reader *r, int64_t device, int64_t context, int64_t stream, int64_t pid)
{
    char key[96];
    g_snprintf(key, sizeof key, "%" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, device, context, stream, pid);
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(r->queues, key));
    if (found)
        return found - 1;
    uint32_t process = process_of(r, pid), gpu = device_of(r, pid, device);
    g_autoptr(GString) name = g_string_new(NULL);
    if (g_hash_table_size(r->queues) >= MAX_QUEUES) {
        g_string_append(name, "other streams");
        ech_diag_dropped(r->ret->diag, "streams_beyond_2048", 1, "stream %" G_GINT64_FORMAT, stream);
        return ech_capture_queue(r->capture, name->str, ECH_QUEUE_COMPUTE, gpu);
    }
    g_string_append_printf(name, "stream %" G_GINT64_FORMAT, stream);
    if (context > 1)
        g_string_append_printf(name, " context %" G_GINT64_FORMAT, context);
    if (process)
        g_string_append_printf(name, " process %" G_GINT64_FORMAT, pid);
    uint32_t queue = ech_capture_queue(r->capture, name->str, ECH_QUEUE_COMPUTE, gpu);
    ech_capture_set_process(r->capture, queue, process);
    g_hash_table_insert(r->queues, g_strdup(key), GUINT_TO_POINTER(queue + 1));
    return queue;
}

/* ---- joins ---- */

static int compare_calls(gconstpointer a, gconstpointer b)
{
    const Call *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static Call *find_call(const Reader *r, int64_t pid, int64_t correlation)
{
    Call key = {.pid = pid, .correlation = correlation};
    guint low = 0, high = r->calls->len;
    ECH_SEARCH(low, high, middle, compare_calls(&g_array_index(r->calls, Call, middle), &key) < 0);
    if (low == r->calls->len || compare_calls(&g_array_index(r->calls, Call, low), &key) != 0)
        return NULL;
    return &g_array_index(r->calls, Call, low);
}

static int compare_recorded(gconstpointer a, gconstpointer b)
{
    const Recorded *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* The newest recording of an event before a wait's correlation (calls are numbered in order); by sync id where there is one, which is that of one of the last.
 */
static const Recorded *find_recorded(const Reader *r, int64_t pid, int64_t event, int64_t sync, int64_t correlation)
{
    guint low = 0, high = r->recorded->len;
    Recorded key = {.pid = pid, .event = event, .correlation = correlation};
    ECH_SEARCH(low, high, middle, compare_recorded(&g_array_index(r->recorded, Recorded, middle), &key) < 0);
    for (guint i = low, n = 0; i-- > 0 && n < 1024; n++) {
        const Recorded *row = &g_array_index(r->recorded, Recorded, i);
        if (row->pid != pid || row->event != event)
            break;
        if (sync < 0 || row->sync == sync)
            return row;
    }
    return NULL;
}

static void set_issue(Reader *r, EchItem *item, int64_t pid, int64_t correlation)
{
    Call *call = correlation > 0 ? find_call(r, pid, correlation) : NULL;
    item->issued = item->start;
    if (call)
        call->device = ech_capture_queue_device(r->capture, item->queue);
    if (call && item->start != ECH_TIME_NONE && call->start <= item->start) {
        item->issued = call->start;
        item->stack = call->stack;
        item->thread = call->thread;
    } else {
        ech_diag_note(r->ret->diag, "device_events_without_launch", 1);
    }
}

/* ---- tables ---- */

static bool read_strings(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "StringIds", (const char *[]){"id", "value", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t *key = g_new(int64_t, 1);
        *key = ech_sqlite_int(&rows, 0, -1);
        Text *text = g_new(Text, 1);
        *text = (Text){g_strdup(ech_sqlite_text(&rows, 1)), ECH_NONE};
        g_hash_table_insert(r->strings, key, text);
    }
    return ok;
}

static bool read_chains(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUDA_CALLCHAINS", (const char *[]){"id", "symbol", "stackDepth", NULL}, "ORDER BY 1, 3", &rows))
        return false;
    g_autoptr(GString) text = g_string_new(NULL);
    int64_t id = -1;
    uint64_t budget = (uint64_t)64 << 20;
    for (bool row = ech_sqlite_next(&rows, &ok);; row = ech_sqlite_next(&rows, &ok)) {
        int64_t now = row ? ech_sqlite_int(&rows, 0, -1) : -1;
        if (now != id && text->len) {
            int64_t *key = g_new(int64_t, 1);
            *key = id;
            g_hash_table_insert(r->chains, key, GUINT_TO_POINTER(ech_trace_builder_string(r->builder, text->str, (gssize)text->len) + 1));
            g_string_truncate(text, 0);
        }
        if (!row)
            return ok;
        id = now;
        int64_t symbol = ech_sqlite_int(&rows, 1, -1);
        const Text *told = g_hash_table_lookup(r->strings, &symbol);
        const char *name = ech_sqlite_is_text(&rows, 1) ? ech_sqlite_text(&rows, 1) : told ? told->text : NULL;
        size_t n = name ? strlen(name) + 1 : 0;
        if (n > budget) {
            ech_diag_dropped(r->ret->diag, "frames_left_out", 1, "call chain %" G_GINT64_FORMAT, id);
            continue;
        }
        budget -= n;
        g_string_append_printf(text, "%s%s", text->len ? "\n" : "", name ? name : "?");
    }
}

static bool read_calls(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_RUNTIME", (const char *[]){"start", "end", "globalTid", "correlationId", "nameId", "callchainId", NULL},
                          "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        Call call = {.pid = pid_of(ech_sqlite_int(&rows, 2, 0)),
                     .correlation = ech_sqlite_int(&rows, 3, 0),
                     .start = ech_sqlite_ns(&rows, 0, r->ret->diag),
                     .end = ech_sqlite_ns(&rows, 1, r->ret->diag),
                     .stack = ECH_NONE,
                     .device = ECH_NONE,
                     .thread = (uint32_t)ech_sqlite_int(&rows, 2, 0)};
        if (call.start == ECH_TIME_NONE)
            continue;
        call.name = text_id(r, &rows, 4, "?");
        if (!ech_sqlite_is_null(&rows, 5)) {
            int64_t chain = ech_sqlite_int(&rows, 5, -1);
            call.stack = GPOINTER_TO_UINT(g_hash_table_lookup(r->chains, &chain)) - 1;
        }
        g_array_append_val(r->calls, call);
    }
    g_array_sort(r->calls, compare_calls);
    return ok;
}

static bool read_kernels(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_KERNEL",
                          (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
                                           "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory",
                                           "dynamicSharedMemory", NULL},
                          "", &rows))
        return false;
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    while (ech_sqlite_next(&rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_KERNEL);
        EchTime end = ech_sqlite_ns(&rows, 1, r->ret->diag);
        item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        if (item.duration == ECH_TIME_NONE)
            ech_diag_dropped(r->ret->diag, "device_events_without_duration", 1, "table %s", rows.table);
        int64_t pid = pid_of(ech_sqlite_int(&rows, 6, 0));
        item.name = text_id(r, &rows, ech_sqlite_is_null(&rows, 7) ? 8 : 7, "kernel");
        item.queue = stream_queue(r, ech_sqlite_int(&rows, 2, 0), ech_sqlite_int(&rows, 3, 0), ech_sqlite_int(&rows, 4, 0), pid);
        set_issue(r, &item, pid, ech_sqlite_int(&rows, 5, 0));
        EchGpuLaunch launch = {.registers = ech_sqlite_small(&rows, 15), .shared = ech_sqlite_small(&rows, 16) + ech_sqlite_small(&rows, 17)};
        for (int i = 0; i < 3; i++) {
            launch.grid[i] = ech_sqlite_small(&rows, 9 + i);
            launch.block[i] = ech_sqlite_small(&rows, 12 + i);
        }
        if (ech_gpu_kernel_by_launch(r->capture, names, launch, &item))
            ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", 1);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static gint64 *launch_key(int64_t pid, int64_t correlation)
{
    gint64 *key = g_new(gint64, 1);
    *key = (gint64)ech_hash_pair((uint64_t)pid, (uint64_t)correlation);
    return key;
}

/* Launches that have kernels of their own. */
static GHashTable *launches_of_kernels(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    g_autoptr(GHashTable) launches = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_KERNEL", (const char *[]){"globalPid", "correlationId", "graphNodeId", NULL}, "", &rows))
        return NULL;
    while (ech_sqlite_next(&rows, &ok))
        if (ech_sqlite_int(&rows, 2, 0) != 0)
            g_hash_table_add(launches, launch_key(pid_of(ech_sqlite_int(&rows, 0, 0)), ech_sqlite_int(&rows, 1, 0)));
    return ok ? g_steal_pointer(&launches) : NULL;
}

/* Graphs that were recorded as a whole, which is what Nsight Systems does unless told otherwise: work of their stream, of which nothing else is known. */
static bool read_graphs(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_has_table(r->db, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"))
        return true;
    g_autoptr(GHashTable) told = launches_of_kernels(r);
    if (!told ||
        !ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                          (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "graphId", NULL}, "", &rows))
        return false;
    uint64_t n = 0;
    while (ech_sqlite_next(&rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_KERNEL);
        item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        EchTime end = ech_sqlite_ns(&rows, 1, r->ret->diag);
        int64_t pid = pid_of(ech_sqlite_int(&rows, 6, 0)), correlation = ech_sqlite_int(&rows, 5, 0);
        g_autofree gint64 *key = launch_key(pid, correlation);
        if (g_hash_table_contains(told, key))
            continue;
        if (item.start == ECH_TIME_NONE || end == ECH_TIME_NONE || end <= item.start) {
            ech_diag_dropped(r->ret->diag, "graphs_without_times", 1, "table %s", rows.table);
            continue;
        }
        char name[48];
        g_snprintf(name, sizeof name, "CUDA graph %" G_GINT64_FORMAT, ech_sqlite_int(&rows, 7, 0));
        item.duration = end - item.start;
        item.name = ech_trace_builder_string(r->builder, name, -1);
        item.queue = stream_queue(r, ech_sqlite_int(&rows, 2, 0), ech_sqlite_int(&rows, 3, 0), ech_sqlite_int(&rows, 4, 0), pid);
        set_issue(r, &item, pid, correlation);
        ech_capture_add(r->capture, &item);
        n++;
    }
    ech_diag_note(r->ret->diag, "graphs_recorded_as_a_whole", n);
    if (ok && n > 0)
        ech_diag_remark(r->ret->diag,
                        "%" G_GUINT64_FORMAT " runs of CUDA graphs are recorded as a whole, each as one kernel of which only the time is known: "
                        "'nsys profile --cuda-graph-trace=node' records what is in them, at a cost for the program",
                        n);
    return ok;
}

static const char *memory_kind(int64_t kind)
{
    static const char *const kinds[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed", "Unknown"};
    return kind >= 0 && kind < (int64_t)G_N_ELEMENTS(kinds) ? kinds[kind] : "Unknown";
}

static bool read_copies(Reader *r)
{
    static const struct {
        const char *name;
        uint8_t from, to;
    } kinds[] = {
        {"?", ECH_TIER_DEVICE, ECH_TIER_DEVICE},    {"HtoD", ECH_TIER_HOST, ECH_TIER_DEVICE},   {"DtoH", ECH_TIER_DEVICE, ECH_TIER_HOST},
        {"HtoA", ECH_TIER_HOST, ECH_TIER_DEVICE},   {"AtoH", ECH_TIER_DEVICE, ECH_TIER_HOST},   {"AtoA", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
        {"AtoD", ECH_TIER_DEVICE, ECH_TIER_DEVICE}, {"DtoA", ECH_TIER_DEVICE, ECH_TIER_DEVICE}, {"DtoD", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
        {"HtoH", ECH_TIER_HOST, ECH_TIER_HOST},     {"PtoP", ECH_TIER_DEVICE, ECH_TIER_DEVICE}, {"HtoD", ECH_TIER_HOST, ECH_TIER_DEVICE},
        {"DtoH", ECH_TIER_DEVICE, ECH_TIER_HOST},   {"DtoD", ECH_TIER_DEVICE, ECH_TIER_DEVICE},
    };
    static const char *const causes[] = {"unknown cause", "user prefetch", "page fault", "speculative prefetch", "eviction", "access counters"};
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_MEMCPY",
                          (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind",
                                           "dstKind", "dstDeviceId", "migrationCause", "virtualAddress", "srcDeviceId", NULL},
                          "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_COPY);
        EchTime end = ech_sqlite_ns(&rows, 1, r->ret->diag);
        item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        int64_t kind = ech_sqlite_int(&rows, 8, 0), bytes = ech_sqlite_int(&rows, 7, -1), pid = pid_of(ech_sqlite_int(&rows, 6, 0)),
                cause = ech_sqlite_int(&rows, 12, 0);
        if (kind < 1 || kind >= (int64_t)G_N_ELEMENTS(kinds)) {
            ech_diag_dropped(r->ret->diag, "copy_directions", 1, "copyKind %" G_GINT64_FORMAT ": taken as device to device", kind);
            kind = 0;
        }
        item.from = kinds[kind].from;
        item.to = kinds[kind].to;
        item.origin = bytes >= 0 ? ECH_KNOWN : ECH_ABSENT;
        item.bytes = bytes >= 0 ? (uint64_t)bytes : 0;
        bool unified = kind >= 11;
        char name[96];
        if (unified) {
            g_snprintf(name, sizeof name, "Unified memory %s (%s)", kinds[kind].name, causes[cause >= 0 && cause < (int64_t)G_N_ELEMENTS(causes) ? cause : 0]);
            char queue[48];
            g_snprintf(queue, sizeof queue, "unified memory %s", kinds[kind].name);
            item.queue = ech_capture_queue(r->capture, queue, ECH_QUEUE_COPY, device_of(r, pid, ech_sqlite_int(&rows, 2, 0)));
            item.issued = item.start;
            if (!ech_sqlite_is_null(&rows, 13)) {
                char address[40];
                g_snprintf(address, sizeof address, "virtual address 0x%" G_GINT64_MODIFIER "x", (uint64_t)ech_sqlite_int(&rows, 13, 0));
                item.stack = ech_trace_builder_string(r->builder, address, -1);
            }
            ech_diag_note(r->ret->records, "unified_memory_migrations", 1);
            ech_capture_migrated(r->capture, item.to == ECH_TIER_DEVICE, item.bytes);
        } else {
            g_snprintf(name, sizeof name, "Memcpy %s (%s -> %s)", kinds[kind].name, memory_kind(ech_sqlite_int(&rows, 9, 7)),
                       memory_kind(ech_sqlite_int(&rows, 10, 7)));
            item.queue = stream_queue(r, ech_sqlite_int(&rows, 2, 0), ech_sqlite_int(&rows, 3, 0), ech_sqlite_int(&rows, 4, 0), pid);
            set_issue(r, &item, pid, ech_sqlite_int(&rows, 5, 0));
        }
        if (kind == 10 && !ech_sqlite_is_null(&rows, 11)) {
            int64_t on = ech_sqlite_int(&rows, 2, 0), to = ech_sqlite_int(&rows, 11, 0), from = ech_sqlite_int(&rows, 14, on);
            item.pulled = to == on && from != on;
            item.other = device_of(r, pid, item.pulled ? from : to);
        }
        item.name = ech_trace_builder_string(r->builder, name, -1);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static bool read_memsets(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_MEMSET",
                          (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "memKind", NULL}, "",
                          &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_MEMSET);
        EchTime end = ech_sqlite_ns(&rows, 1, r->ret->diag);
        item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        int64_t bytes = ech_sqlite_int(&rows, 7, -1), kind = ech_sqlite_int(&rows, 8, 2), pid = pid_of(ech_sqlite_int(&rows, 6, 0));
        item.origin = bytes >= 0 ? ECH_KNOWN : ECH_ABSENT;
        item.bytes = bytes >= 0 ? (uint64_t)bytes : 0;
        item.to = kind == 0 || kind == 1 ? ECH_TIER_HOST : ECH_TIER_DEVICE;
        item.from = item.to;
        char name[40];
        g_snprintf(name, sizeof name, "Memset (%s)", memory_kind(kind));
        item.name = ech_trace_builder_string(r->builder, name, -1);
        item.queue = stream_queue(r, ech_sqlite_int(&rows, 2, 0), ech_sqlite_int(&rows, 3, 0), ech_sqlite_int(&rows, 4, 0), pid);
        set_issue(r, &item, pid, ech_sqlite_int(&rows, 5, 0));
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static bool read_recorded(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                          (const char *[]){"globalPid", "eventId", "eventSyncId", "correlationId", "streamId", "contextId", "deviceId", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        Recorded row = {.pid = pid_of(ech_sqlite_int(&rows, 0, 0)),
                        .event = ech_sqlite_int(&rows, 1, -1),
                        .sync = ech_sqlite_int(&rows, 2, -1),
                        .correlation = ech_sqlite_int(&rows, 3, 0),
                        .stream = ech_sqlite_int(&rows, 4, 0),
                        .context = ech_sqlite_int(&rows, 5, 0),
                        .device = ech_sqlite_int(&rows, 6, 0)};
        g_array_append_val(r->recorded, row);
    }
    g_array_sort(r->recorded, compare_recorded);
    return ok;
}

static bool read_waits(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                          (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType", "deprecatedSyncType",
                                           "eventId", "eventSyncId", NULL},
                          "", &rows))
        return false;
    bool one_stream = g_hash_table_size(r->queues) <= 1;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t type = ech_sqlite_int(&rows, 7, ech_sqlite_int(&rows, 8, 0)), pid = pid_of(ech_sqlite_int(&rows, 6, 0)),
                correlation = ech_sqlite_int(&rows, 5, 0);
        int64_t device = ech_sqlite_int(&rows, 2, 0), context = ech_sqlite_int(&rows, 3, 0), stream = ech_sqlite_int(&rows, 4, -1),
                sync = ech_sqlite_int(&rows, 10, -1);
        EchItem item = ech_item_init(type == 2 ? ECH_ITEM_STREAM_WAIT : ECH_ITEM_HOST_WAIT);
        EchTime end = ech_sqlite_ns(&rows, 1, r->ret->diag);
        r->n_stream_waits += type == 2;
        item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        if (item.start == ECH_TIME_NONE || type < 1 || type > 4) {
            ech_diag_dropped(r->ret->diag, "waits_of_unknown_kind", 1, "syncType %" G_GINT64_FORMAT, type);
            continue;
        }
        static const char *const names[] = {"Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
        item.name = ech_trace_builder_string(r->builder, names[type - 1], -1);
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        const Call *call = find_call(r, pid, correlation);
        item.issued = call && call->start <= item.start ? call->start : item.start;
        item.address = (uint64_t)item.issued;
        item.queue = host_queue(r, pid, device_of(r, pid, device));
        if (type <= 2) {
            const Recorded *recorded = find_recorded(r, pid, ech_sqlite_int(&rows, 9, -1), sync == 4294967295 ? -1 : sync, correlation);
            const Call *record = recorded ? find_call(r, pid, recorded->correlation) : NULL;
            if (recorded) {
                item.other = stream_queue(r, recorded->device, recorded->context, recorded->stream, pid);
                item.address = (uint64_t)(record ? record->start : item.issued);
            } else if (!one_stream) {
                ech_diag_note(r->ret->diag, "waits_for_events_not_recorded", 1);
                if (type == 2) {
                    ech_capture_wait_call(r->capture, item.issued, call ? call->thread : ECH_NONE, stream_queue(r, device, context, stream, pid));
                    r->n_unresolved++;
                    continue;
                }
            }
            if (type == 2)
                item.queue = stream_queue(r, device, context, stream, pid);
            if (type == 2 && (item.other == ECH_NONE || item.other == item.queue)) {
                ech_diag_note(r->ret->diag, "waits_for_their_own_stream", 1); /* in order anyway */
                continue;
            }
        } else if (type == 3 && stream >= 0 && stream != 4294967295) {
            item.other = stream_queue(r, device, context, stream, pid);
        }
        r->n_waits++;
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

/* The device that the process of call @i, its first one, asked for something first; 0: for nothing. */
static uint32_t first_device(const Reader *r, guint i)
{
    int64_t pid = g_array_index(r->calls, Call, i).pid;
    for (; i < r->calls->len && g_array_index(r->calls, Call, i).pid == pid; i++)
        if (g_array_index(r->calls, Call, i).device != ECH_NONE)
            return g_array_index(r->calls, Call, i).device;
    return 0;
}

/* Without the table of waits, the runtime's own calls still tell: those for all of the device whom they wait for, those of streams only that there was one. */
static void infer_waits(Reader *r)
{
    bool told = r->n_stream_waits > 0;
    ech_capture_set_waits(r->capture, told && r->n_unresolved == 0 ? ECH_WAITS_TOLD : told || r->calls->len > 0 ? ECH_WAITS_CALLS : ECH_WAITS_UNKNOWN);
    for (guint i = 0; !told && i < r->calls->len; i++) {
        const Call *call = &g_array_index(r->calls, Call, i);
        const char *name = ech_trace_builder_peek_string(r->builder, call->name);
        if (g_str_has_prefix(name, "cudaStreamWaitEvent") || g_str_has_prefix(name, "cuStreamWaitEvent"))
            ech_capture_wait_call(r->capture, call->start, call->thread, ECH_NONE);
    }
    /* For the device that the thread asked for something last, else its process first. */
    g_autoptr(GHashTable) devices = g_hash_table_new(NULL, NULL); /* thread -> device + 1 */
    uint32_t first = 0;
    for (guint i = 0; !r->n_waits && i < r->calls->len; i++) {
        const Call *call = &g_array_index(r->calls, Call, i);
        const char *name = ech_trace_builder_peek_string(r->builder, call->name);
        if (i == 0 || call->pid != g_array_index(r->calls, Call, i - 1).pid)
            first = first_device(r, i);
        if (call->device != ECH_NONE)
            g_hash_table_insert(devices, GUINT_TO_POINTER(call->thread), GUINT_TO_POINTER(call->device + 1));
        if (!g_str_has_prefix(name, "cudaDeviceSynchronize") && !g_str_has_prefix(name, "cuCtxSynchronize"))
            continue;
        EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
        item.name = call->name;
        item.issued = item.start = call->start;
        item.duration = call->end == ECH_TIME_NONE || call->end < call->start ? ECH_TIME_NONE : call->end - call->start;
        item.address = (uint64_t)call->start;
        guint device = GPOINTER_TO_UINT(g_hash_table_lookup(devices, GUINT_TO_POINTER(call->thread)));
        item.queue = host_queue(r, call->pid, device ? device - 1 : first);
        ech_capture_add(r->capture, &item);
        ech_diag_note(r->ret->diag, "inferred_host_waits", 1);
    }
}

static bool read_memory(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(
            r->db, "CUDA_GPU_MEMORY_USAGE_EVENTS",
            (const char *[]){"start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType", "name", "correlationId", "streamId", NULL},
            "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t operation = ech_sqlite_int(&rows, 6, -1), bytes = ech_sqlite_int(&rows, 4, -1), kind = ech_sqlite_int(&rows, 5, 2),
                pid = pid_of(ech_sqlite_int(&rows, 1, 0));
        EchItem item = ech_item_init(operation == 0 ? ECH_ITEM_ALLOC : ECH_ITEM_FREE);
        item.issued = item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        if (item.start == ECH_TIME_NONE || (operation != 0 && operation != 1) || bytes < 0 || ech_sqlite_is_null(&rows, 3)) {
            ech_diag_dropped(r->ret->diag, "memory_events_without_size_or_address", 1, "table %s", rows.table);
            continue;
        }
        item.bytes = (uint64_t)bytes;
        item.origin = ECH_KNOWN;
        /* Each process has an address space of its own. */
        item.address = (uint64_t)ech_sqlite_int(&rows, 3, 0) | (uint64_t)(ech_sqlite_is_null(&rows, 1) ? 0 : process_of(r, pid)) << 56;
        item.to = kind == 2 || kind == 3 || kind == 5 ? ECH_TIER_DEVICE : ECH_TIER_HOST;
        item.managed = kind == 4 || kind == 6 ? ECH_MANAGED : 0; /* what moves are the migrations */
        item.from = item.to;
        char fallback[40];
        g_snprintf(fallback, sizeof fallback, "%s memory", memory_kind(kind));
        item.name = ech_sqlite_is_null(&rows, 7) ? ech_trace_builder_string(r->builder, fallback, -1) : text_id(r, &rows, 7, fallback);
        item.queue = ech_capture_queue(r->capture, "driver", ECH_QUEUE_HOST, device_of(r, pid, ech_sqlite_int(&rows, 2, 0)));
        const Call *call = find_call(r, pid, ech_sqlite_int(&rows, 8, 0));
        item.stack = call ? call->stack : ECH_NONE;
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

/* Faults are counted, not replayed: what they brought are migrations. */
static bool read_faults(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "CUDA_UM_GPU_PAGE_FAULT_EVENTS", (const char *[]){"numberOfPageFaults", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok))
        ech_diag_note(r->ret->records, "unified_memory_gpu_faults", (uint64_t)MAX(ech_sqlite_int(&rows, 0, 1), 0));
    return ok;
}

static bool read_marks(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "NVTX_EVENTS", (const char *[]){"start", "end", "text", "textId", "eventType", "globalTid", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t type = ech_sqlite_int(&rows, 4, 59);
        if (type != 59 && type != 60 && type != 34)
            continue;
        EchItem item = ech_item_init(ECH_ITEM_MARK);
        EchTime end = ech_sqlite_ns(&rows, 1, r->ret->diag);
        item.issued = item.start = ech_sqlite_ns(&rows, 0, r->ret->diag);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        item.name = text_id(r, &rows, ech_sqlite_is_null(&rows, 2) ? 3 : 2, "");
        char name[48];
        g_snprintf(name, sizeof name, "thread %" G_GINT64_FORMAT, ech_sqlite_int(&rows, 5, 0) & 0xffffff);
        item.queue = ech_capture_queue(r->capture, name, ECH_QUEUE_HOST, 0);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

/* ---- facts about the machine and the export ---- */

static bool read_properties(Reader *r, const char *table)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, table, (const char *[]){"name", "value", NULL}, "LIMIT 256", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        const char *name = ech_sqlite_text(&rows, 0), *value = ech_sqlite_text(&rows, 1);
        if (name && value && (g_str_has_prefix(name, "EXPORT_SCHEMA_VERSION") || g_str_has_prefix(name, "EXPORT_PRODUCT")) && strlen(value) < 256)
            ech_trace_builder_set_property(r->builder, name, value);
    }
    return ok;
}

static void set_gpu(Reader *r, int64_t key, guint gpu)
{
    g_hash_table_insert(r->gpus, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(gpu));
}

/* Which GPU each process's devices are. */
static bool read_gpus(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "TARGET_INFO_CUDA_DEVICE", (const char *[]){"gpuId", "cudaId", "pid", NULL}, "LIMIT 65536", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t gpu = ech_sqlite_int(&rows, 0, -1), device = ech_sqlite_int(&rows, 1, -1), pid = ech_sqlite_int(&rows, 2, -1), all = device_key(-1, device);
        if (gpu < 0 || gpu >= MAX_DEVICES || device < 0 || device >= MAX_DEVICES)
            continue;
        gpointer known = NULL;
        bool same = !g_hash_table_lookup_extended(r->gpus, &all, NULL, &known) || GPOINTER_TO_UINT(known) == gpu + 1;
        set_gpu(r, all, same ? (guint)gpu + 1 : 0);
        if (pid >= 0)
            set_gpu(r, device_key(pid, device), (guint)gpu + 1);
    }
    return ok;
}

static bool read_devices(Reader *r)
{
    static const char *const columns[] = {"id",        "name",         "totalMemory", "memoryBandwidth", "l2CacheSize", "smCount",
                                          "clockRate", "asyncEngines", "chipName",    "busLocation",     NULL};
    EchSqliteRows rows;
    bool ok;
    if (!ech_sqlite_query(r->db, "TARGET_INFO_GPU", columns, "LIMIT 256", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        for (int c = 1; columns[c]; c++) {
            const char *value = ech_sqlite_text(&rows, c);
            g_autofree char *key = g_strdup_printf("device.%" G_GINT64_FORMAT ".%s", ech_sqlite_int(&rows, 0, 0), columns[c]);
            if (value && strlen(value) < 256)
                ech_trace_builder_set_property(r->builder, key, value);
        }
    }
    if (!ok || !ech_sqlite_query(r->db, "TARGET_INFO_SESSION_START_TIME", (const char *[]){"utcEpochNs", NULL}, "LIMIT 1", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        const char *value = ech_sqlite_text(&rows, 0);
        if (value && strlen(value) < 32)
            ech_trace_builder_set_property(r->builder, "session_start_unix_ns", value);
    }
    return ok;
}

/* Rows of every table of events, under the table's own name. */
static bool count_tables(Reader *r, const GPtrArray *tables)
{
    static const char *const prefixes[] = {"CUPTI_",           "CUDA_",      "NVTX_", "OSRT_API", "CUBLAS_", "CUDNN_", "PROFILER_OVERHEAD", "SCHED_EVENTS",
                                           "COMPOSITE_EVENTS", "GPU_METRICS"};
    for (guint t = 0; t < tables->len; t++) {
        const char *name = tables->pdata[t];
        for (size_t i = 0; i < G_N_ELEMENTS(prefixes); i++) {
            uint64_t rows;
            if (!g_str_has_prefix(name, prefixes[i]))
                continue;
            if (!ech_sqlite_count(r->db, name, &rows))
                return false;
            ech_diag_note(r->ret->records, name, rows);
            break;
        }
    }
    return true;
}

/* Databases of other profilers: nvprof and the Visual Profiler keep CUPTI's records in tables of the same names with other columns. NULL: none of them. */
static const char *other_profiler(EchSqlite *db)
{
    if (ech_sqlite_has_table(db, "StringTable") && !ech_sqlite_has_table(db, "StringIds"))
        return "a database of nvprof or NVIDIA's Visual Profiler, which is not read; 'nsys profile -o REPORT COMMAND' and 'nsys export --type sqlite REPORT' "
               "write what is";
    if (ech_sqlite_has_table(db, "COPY") && (ech_sqlite_has_table(db, "OPS") || ech_sqlite_has_table(db, "HSA") || ech_sqlite_has_table(db, "HIP")))
        return "a database of rocprof before rocprofv3, which is not read; its table of kernels is (results.csv), and of rocprofv3 all that it writes";
    return NULL;
}

static bool read_all(Reader *r, const char *beside)
{
    g_autoptr(GPtrArray) tables = ech_sqlite_tables(r->db);
    if (!tables)
        return false;
    const char *other = other_profiler(r->db);
    if (other) {
        g_set_error(r->error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: %s", r->where, other);
        return false;
    }
    if (!ech_sqlite_has_table(r->db, "StringIds") && !ech_sqlite_has_table(r->db, "CUPTI_ACTIVITY_KIND_MEMCPY") &&
        !ech_sqlite_has_table(r->db, "CUPTI_ACTIVITY_KIND_KERNEL") && !ech_sqlite_has_table(r->db, "TARGET_INFO_GPU")) {
        g_set_error(r->error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: an SQLite database, but no Nsight Systems export: it has no CUPTI tables", r->where);
        return false;
    }
    if (!count_tables(r, tables) || !read_properties(r, "META_DATA_EXPORT") || !read_properties(r, "EXPORT_META_DATA") || !read_devices(r) || !read_gpus(r) ||
        !read_strings(r) || !read_chains(r) || !read_calls(r) || !read_kernels(r) || !read_graphs(r) || !read_copies(r) || !read_memsets(r) ||
        !read_recorded(r) || !read_waits(r) || !read_memory(r) || !read_faults(r))
        return false;
    infer_waits(r);
    return read_marks(r) && ech_xla_programs_beside(r->capture, beside, r->ret->diag, r->error) && ech_capture_finish(r->capture, r->error);
}

static bool nsys_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)16 << 30, error);
    g_autoptr(EchSqlite) db = bytes ? ech_sqlite_open(bytes, ech_source_path(source), error) : NULL;
    if (!db)
        return false;
    g_autoptr(EchCapture) capture = ech_capture_new(ret, "nsys_sqlite");
    Reader r = {.ret = ret, .where = ech_source_path(source), .db = db, .capture = capture, .builder = ech_capture_builder(capture), .error = error};
    r.strings = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, text_free);
    r.chains = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    r.queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    r.gpus = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    r.calls = g_array_new(FALSE, FALSE, sizeof(Call));
    r.recorded = g_array_new(FALSE, FALSE, sizeof(Recorded));
    bool ok = read_all(&r, options->beside);
    g_array_unref(r.recorded);
    g_array_unref(r.calls);
    g_hash_table_unref(r.queues);
    g_hash_table_unref(r.gpus);
    g_hash_table_unref(r.chains);
    g_hash_table_unref(r.strings);
    return ok;
}

static int probe(const uint8_t *head, size_t n)
{
    if (n < 16 || memcmp(head, "SQLite format 3", 16) != 0)
        return 0;
    return ech_head_has(head, n, "CUPTI_") || ech_head_has(head, n, "TARGET_INFO") || ech_head_has(head, n, "StringIds") ? 2 : 1;
}

const EchImportClass ech_import_nsys = {
    .name = "nsys_sqlite",
    .summary = "Nsight Systems export (SQLite), with unified-memory migrations and memory events",
    .takes_programs = true,
    .probe = probe,
    .read = nsys_read,
    .when_idle = "nothing in it ran on a GPU; 'nsys profile --trace cuda' records what does",
};
