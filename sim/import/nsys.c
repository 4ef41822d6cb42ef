/* Nsight Systems SQLite exports, schemas of 2020 to 2026. Tables exist only where they have rows and columns come and go, so
 * every query is made from the columns that are there; an absent one reads as NULL.
 */
#include "sim/import/gpu_work.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <sqlite3.h>
#include <string.h>

enum { MAX_DEVICES = 128, MAX_QUEUES = 2048, MAX_PROCESSES = 255 };

typedef struct {
    int64_t pid, correlation;
    EchTime start, end;
    EchId name, stack;
    uint32_t thread;
} Call;

/* Where and by which call a CUDA event was recorded. */
typedef struct {
    int64_t pid, event, sync, correlation, stream, context;
    uint32_t device;
} Recorded;

typedef struct {
    EchImport *ret;
    const char *where;
    sqlite3 *db;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GHashTable *strings; /* id -> Text */
    GHashTable *chains;  /* id -> EchId + 1 */
    GArray *calls, *recorded;
    GHashTable *queues; /* "device context stream pid" -> index + 1 */
    int64_t pids[MAX_PROCESSES];
    uint32_t n_pids;
    uint64_t steps, max_steps;
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

/* One row of a query by column names; values as SQLite has them. */
typedef struct {
    sqlite3_stmt *statement;
    const char *table;
} Rows;

static bool fail(Reader *r, const char *table)
{
    if (r->error && !*r->error)
        g_set_error(r->error, ECH_ERROR, ECH_ERROR_PARSE, "%s: table %s: %s", r->where, table,
                    r->steps > r->max_steps ? "reading it takes far longer than its size explains" : sqlite3_errmsg(r->db));
    return false;
}

static int progress(void *data)
{
    Reader *r = data;
    return ++r->steps > r->max_steps;
}

static bool has_table(Reader *r, const char *table)
{
    sqlite3_stmt *statement = NULL;
    /* A view, a virtual table or a column that is generated could compute anything: only plain tables are read. */
    if (sqlite3_prepare_v2(r->db,
                           "SELECT 1 FROM sqlite_master WHERE type='table' AND name=?1 AND sql NOT LIKE 'CREATE VIRTUAL%' AND rootpage > 0 AND NOT EXISTS "
                           "(SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden > 1)",
                           -1, &statement, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    bool found = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
}

/* AMD's profiler writes SQLite too, every table named for the run. */
static bool is_rocpd(Reader *r)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(r->db, "SELECT 1 FROM sqlite_master WHERE name GLOB 'rocpd_*'", -1, &statement, NULL) != SQLITE_OK)
        return false;
    bool found = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
}

static bool has_column(Reader *r, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(r->db, "main", table, column, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

/* SELECT of @columns (NULL-terminated), absent ones as NULL. False with an error; *ret_rows.statement NULL if there is no such table. */
static bool query(Reader *r, const char *table, const char *const *columns, const char *tail, Rows *ret_rows)
{
    ret_rows->statement = NULL;
    ret_rows->table = table;
    if (!has_table(r, table))
        return true;
    g_autoptr(GString) sql = g_string_new("SELECT ");
    for (size_t i = 0; columns[i]; i++) {
        if (has_column(r, table, columns[i]))
            g_string_append_printf(sql, "%s\"%s\"", i ? "," : "", columns[i]);
        else
            g_string_append_printf(sql, "%sNULL", i ? "," : "");
    }
    g_string_append_printf(sql, " FROM \"%s\" %s", table, tail);
    return sqlite3_prepare_v2(r->db, sql->str, -1, &ret_rows->statement, NULL) == SQLITE_OK || fail(r, table);
}

/* True with a row; false at the end (and *ret_ok tells whether it was a good end). */
static bool next_row(Reader *r, Rows *rows, bool *ret_ok)
{
    *ret_ok = true;
    if (!rows->statement)
        return false;
    int status = sqlite3_step(rows->statement);
    if (status == SQLITE_ROW)
        return true;
    *ret_ok = status == SQLITE_DONE || fail(r, rows->table);
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
    return false;
}

static bool is_null(const Rows *rows, int column)
{
    return sqlite3_column_type(rows->statement, column) == SQLITE_NULL;
}

static int64_t integer(const Rows *rows, int column, int64_t fallback)
{
    return is_null(rows, column) ? fallback : sqlite3_column_int64(rows->statement, column);
}

/* A count of a launch; 0 where it is not recorded or cannot be. */
static uint32_t small(const Rows *rows, int column)
{
    int64_t value = integer(rows, column, 0);
    return value > 0 && value <= INT32_MAX ? (uint32_t)value : 0;
}

static EchTime nanoseconds(Reader *r, const Rows *rows, int column)
{
    if (is_null(rows, column))
        return ECH_TIME_NONE;
    int64_t ns = sqlite3_column_int64(rows->statement, column);
    if (ns > INT64_MAX / 4 / ECH_PS_PER_NS || ns < -(INT64_MAX / 4 / ECH_PS_PER_NS)) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "table %s", rows->table);
        return ECH_TIME_NONE;
    }
    return ns * ECH_PS_PER_NS;
}

/* A name column: an id of StringIds, or (long ago) the text itself. */
static EchId text_id(Reader *r, const Rows *rows, int column, const char *fallback)
{
    const char *text = fallback;
    if (sqlite3_column_type(rows->statement, column) == SQLITE_TEXT) {
        text = (const char *)sqlite3_column_text(rows->statement, column);
    } else if (!is_null(rows, column)) {
        int64_t id = sqlite3_column_int64(rows->statement, column);
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

static uint32_t device_of(int64_t device)
{
    return device >= 0 && device < MAX_DEVICES ? (uint32_t)device : 0;
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
    uint32_t process = process_of(r, pid);
    g_autoptr(GString) name = g_string_new(NULL);
    if (g_hash_table_size(r->queues) >= MAX_QUEUES) {
        g_string_append(name, "other streams");
        ech_diag_dropped(r->ret->diag, "streams_beyond_2048", 1, "stream %" G_GINT64_FORMAT, stream);
        return ech_capture_queue(r->capture, name->str, ECH_QUEUE_COMPUTE, device_of(device));
    }
    g_string_append_printf(name, "stream %" G_GINT64_FORMAT, stream);
    if (context > 1)
        g_string_append_printf(name, " context %" G_GINT64_FORMAT, context);
    if (process)
        g_string_append_printf(name, " process %" G_GINT64_FORMAT, pid);
    uint32_t queue = ech_capture_queue(r->capture, name->str, ECH_QUEUE_COMPUTE, device_of(device));
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

static const Call *find_call(const Reader *r, int64_t pid, int64_t correlation)
{
    Call key = {.pid = pid, .correlation = correlation};
    guint low = 0, high = r->calls->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (compare_calls(&g_array_index(r->calls, Call, middle), &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
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
    if (x->sync != y->sync)
        return x->sync < y->sync ? -1 : 1;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* The newest recording of an event before a wait's correlation (calls are numbered in order); by sync id where there is one. */
static const Recorded *find_recorded(const Reader *r, int64_t pid, int64_t event, int64_t sync, int64_t correlation)
{
    guint low = 0, high = r->recorded->len;
    Recorded key = {.pid = pid, .event = event, .sync = sync >= 0 ? sync : INT64_MIN, .correlation = INT64_MIN};
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (compare_recorded(&g_array_index(r->recorded, Recorded, middle), &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const Recorded *best = NULL;
    for (guint i = low, n = 0; i < r->recorded->len && n < 1024; i++, n++) {
        const Recorded *row = &g_array_index(r->recorded, Recorded, i);
        if (row->pid != pid || row->event != event || (sync >= 0 && row->sync != sync))
            break;
        if (row->correlation < correlation && (!best || row->correlation > best->correlation))
            best = row;
    }
    return best;
}

static void set_issue(Reader *r, EchItem *item, int64_t pid, int64_t correlation)
{
    const Call *call = correlation > 0 ? find_call(r, pid, correlation) : NULL;
    item->issued = item->start;
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
    Rows rows;
    bool ok;
    if (!query(r, "StringIds", (const char *[]){"id", "value", NULL}, "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        int64_t *key = g_new(int64_t, 1);
        *key = integer(&rows, 0, -1);
        Text *text = g_new(Text, 1);
        *text = (Text){g_strdup((const char *)sqlite3_column_text(rows.statement, 1)), ECH_NONE};
        g_hash_table_insert(r->strings, key, text);
    }
    return ok;
}

static bool read_chains(Reader *r)
{
    Rows rows;
    bool ok;
    if (!query(r, "CUDA_CALLCHAINS", (const char *[]){"id", "symbol", "stackDepth", NULL}, "ORDER BY 1, 3", &rows))
        return false;
    g_autoptr(GString) text = g_string_new(NULL);
    int64_t id = -1;
    uint64_t budget = (uint64_t)64 << 20;
    for (bool row = next_row(r, &rows, &ok);; row = next_row(r, &rows, &ok)) {
        int64_t now = row ? integer(&rows, 0, -1) : -1;
        if (now != id && text->len) {
            int64_t *key = g_new(int64_t, 1);
            *key = id;
            g_hash_table_insert(r->chains, key, GUINT_TO_POINTER(ech_trace_builder_string(r->builder, text->str, (gssize)text->len) + 1));
            g_string_truncate(text, 0);
        }
        if (!row)
            return ok;
        id = now;
        int64_t symbol = integer(&rows, 1, -1);
        const Text *told = g_hash_table_lookup(r->strings, &symbol);
        const char *name = sqlite3_column_type(rows.statement, 1) == SQLITE_TEXT ? (const char *)sqlite3_column_text(rows.statement, 1)
                           : told                                                ? told->text
                                                                                 : NULL;
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
    Rows rows;
    bool ok;
    if (!query(r, "CUPTI_ACTIVITY_KIND_RUNTIME", (const char *[]){"start", "end", "globalTid", "correlationId", "nameId", "callchainId", NULL}, "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        Call call = {.pid = pid_of(integer(&rows, 2, 0)),
                     .correlation = integer(&rows, 3, 0),
                     .start = nanoseconds(r, &rows, 0),
                     .end = nanoseconds(r, &rows, 1),
                     .stack = ECH_NONE,
                     .thread = (uint32_t)integer(&rows, 2, 0)};
        if (call.start == ECH_TIME_NONE)
            continue;
        call.name = text_id(r, &rows, 4, "?");
        if (!is_null(&rows, 5)) {
            int64_t chain = integer(&rows, 5, -1);
            call.stack = GPOINTER_TO_UINT(g_hash_table_lookup(r->chains, &chain)) - 1;
        }
        g_array_append_val(r->calls, call);
    }
    g_array_sort(r->calls, compare_calls);
    return ok;
}

static bool read_kernels(Reader *r)
{
    Rows rows;
    bool ok;
    if (!query(r, "CUPTI_ACTIVITY_KIND_KERNEL",
               (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName", "gridX",
                                "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", NULL},
               "", &rows))
        return false;
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    while (next_row(r, &rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_KERNEL);
        EchTime end = nanoseconds(r, &rows, 1);
        item.start = nanoseconds(r, &rows, 0);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        if (item.duration == ECH_TIME_NONE)
            ech_diag_dropped(r->ret->diag, "device_events_without_duration", 1, "table %s", rows.table);
        int64_t pid = pid_of(integer(&rows, 6, 0));
        item.name = text_id(r, &rows, is_null(&rows, 7) ? 8 : 7, "kernel");
        item.queue = stream_queue(r, integer(&rows, 2, 0), integer(&rows, 3, 0), integer(&rows, 4, 0), pid);
        set_issue(r, &item, pid, integer(&rows, 5, 0));
        EchGpuLaunch launch = {.registers = small(&rows, 15), .shared = small(&rows, 16) + small(&rows, 17)};
        for (int i = 0; i < 3; i++) {
            launch.grid[i] = small(&rows, 9 + i);
            launch.block[i] = small(&rows, 12 + i);
        }
        if (ech_gpu_kernel_by_launch(r->capture, names, launch, &item))
            ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", 1);
        ech_capture_add(r->capture, &item);
    }
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
    Rows rows;
    bool ok;
    if (!query(r, "CUPTI_ACTIVITY_KIND_MEMCPY",
               (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind",
                                "dstDeviceId", "migrationCause", "virtualAddress", NULL},
               "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_COPY);
        EchTime end = nanoseconds(r, &rows, 1);
        item.start = nanoseconds(r, &rows, 0);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        int64_t kind = integer(&rows, 8, 0), bytes = integer(&rows, 7, -1), pid = pid_of(integer(&rows, 6, 0)), cause = integer(&rows, 12, 0);
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
            item.queue = ech_capture_queue(r->capture, queue, ECH_QUEUE_COPY, device_of(integer(&rows, 2, 0)));
            item.issued = item.start;
            if (!is_null(&rows, 13)) {
                char address[40];
                g_snprintf(address, sizeof address, "virtual address 0x%" G_GINT64_MODIFIER "x", (uint64_t)integer(&rows, 13, 0));
                item.stack = ech_trace_builder_string(r->builder, address, -1);
            }
            ech_diag_note(r->ret->records, "unified_memory_migrations", 1);
        } else {
            g_snprintf(name, sizeof name, "Memcpy %s (%s -> %s)", kinds[kind].name, memory_kind(integer(&rows, 9, 7)), memory_kind(integer(&rows, 10, 7)));
            item.queue = stream_queue(r, integer(&rows, 2, 0), integer(&rows, 3, 0), integer(&rows, 4, 0), pid);
            set_issue(r, &item, pid, integer(&rows, 5, 0));
        }
        if (kind == 10 && !is_null(&rows, 11))
            item.other = device_of(integer(&rows, 11, 0));
        item.name = ech_trace_builder_string(r->builder, name, -1);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static bool read_memsets(Reader *r)
{
    Rows rows;
    bool ok;
    if (!query(r, "CUPTI_ACTIVITY_KIND_MEMSET",
               (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "memKind", NULL}, "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        EchItem item = ech_item_init(ECH_ITEM_MEMSET);
        EchTime end = nanoseconds(r, &rows, 1);
        item.start = nanoseconds(r, &rows, 0);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        int64_t bytes = integer(&rows, 7, -1), kind = integer(&rows, 8, 2), pid = pid_of(integer(&rows, 6, 0));
        item.origin = bytes >= 0 ? ECH_KNOWN : ECH_ABSENT;
        item.bytes = bytes >= 0 ? (uint64_t)bytes : 0;
        item.to = kind == 0 || kind == 1 ? ECH_TIER_HOST : ECH_TIER_DEVICE;
        item.from = item.to;
        char name[40];
        g_snprintf(name, sizeof name, "Memset (%s)", memory_kind(kind));
        item.name = ech_trace_builder_string(r->builder, name, -1);
        item.queue = stream_queue(r, integer(&rows, 2, 0), integer(&rows, 3, 0), integer(&rows, 4, 0), pid);
        set_issue(r, &item, pid, integer(&rows, 5, 0));
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static bool read_recorded(Reader *r)
{
    Rows rows;
    bool ok;
    if (!query(r, "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
               (const char *[]){"globalPid", "eventId", "eventSyncId", "correlationId", "streamId", "contextId", "deviceId", NULL}, "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        Recorded row = {.pid = pid_of(integer(&rows, 0, 0)),
                        .event = integer(&rows, 1, -1),
                        .sync = integer(&rows, 2, -1),
                        .correlation = integer(&rows, 3, 0),
                        .stream = integer(&rows, 4, 0),
                        .context = integer(&rows, 5, 0),
                        .device = device_of(integer(&rows, 6, 0))};
        g_array_append_val(r->recorded, row);
    }
    g_array_sort(r->recorded, compare_recorded);
    return ok;
}

static bool read_waits(Reader *r)
{
    Rows rows;
    bool ok;
    if (!query(r, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
               (const char *[]){"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType", "deprecatedSyncType", "eventId",
                                "eventSyncId", NULL},
               "", &rows))
        return false;
    bool one_stream = g_hash_table_size(r->queues) <= 1;
    while (next_row(r, &rows, &ok)) {
        int64_t type = integer(&rows, 7, integer(&rows, 8, 0)), pid = pid_of(integer(&rows, 6, 0)), correlation = integer(&rows, 5, 0);
        int64_t device = integer(&rows, 2, 0), context = integer(&rows, 3, 0), stream = integer(&rows, 4, -1), sync = integer(&rows, 10, -1);
        EchItem item = ech_item_init(type == 2 ? ECH_ITEM_STREAM_WAIT : ECH_ITEM_HOST_WAIT);
        EchTime end = nanoseconds(r, &rows, 1);
        r->n_stream_waits += type == 2;
        item.start = nanoseconds(r, &rows, 0);
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
        item.queue = host_queue(r, pid, device_of(device));
        if (type <= 2) {
            const Recorded *recorded = find_recorded(r, pid, integer(&rows, 9, -1), sync == 4294967295 ? -1 : sync, correlation);
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
    for (guint i = 0; !r->n_waits && i < r->calls->len; i++) {
        const Call *call = &g_array_index(r->calls, Call, i);
        const char *name = ech_trace_builder_peek_string(r->builder, call->name);
        if (!g_str_has_prefix(name, "cudaDeviceSynchronize") && !g_str_has_prefix(name, "cuCtxSynchronize"))
            continue;
        EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
        item.name = call->name;
        item.issued = item.start = call->start;
        item.duration = call->end == ECH_TIME_NONE || call->end < call->start ? ECH_TIME_NONE : call->end - call->start;
        item.address = (uint64_t)call->start;
        item.queue = host_queue(r, call->pid, 0);
        ech_capture_add(r->capture, &item);
        ech_diag_note(r->ret->diag, "inferred_host_waits", 1);
    }
}

static bool read_memory(Reader *r)
{
    Rows rows;
    bool ok;
    if (!query(
            r, "CUDA_GPU_MEMORY_USAGE_EVENTS",
            (const char *[]){"start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType", "name", "correlationId", "streamId", NULL},
            "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        int64_t operation = integer(&rows, 6, -1), bytes = integer(&rows, 4, -1), kind = integer(&rows, 5, 2);
        EchItem item = ech_item_init(operation == 0 ? ECH_ITEM_ALLOC : ECH_ITEM_FREE);
        item.issued = item.start = nanoseconds(r, &rows, 0);
        if (item.start == ECH_TIME_NONE || (operation != 0 && operation != 1) || bytes < 0 || is_null(&rows, 3)) {
            ech_diag_dropped(r->ret->diag, "memory_events_without_size_or_address", 1, "table %s", rows.table);
            continue;
        }
        item.bytes = (uint64_t)bytes;
        item.origin = ECH_KNOWN;
        /* Each process has an address space of its own. */
        item.address = (uint64_t)integer(&rows, 3, 0) | (uint64_t)(is_null(&rows, 1) ? 0 : process_of(r, pid_of(integer(&rows, 1, 0)))) << 56;
        /* Managed memory starts on the host; what moves are the migrations. */
        item.to = kind == 2 || kind == 3 || kind == 5 ? ECH_TIER_DEVICE : ECH_TIER_HOST;
        item.from = item.to;
        char fallback[40];
        g_snprintf(fallback, sizeof fallback, "%s memory", memory_kind(kind));
        item.name = is_null(&rows, 7) ? ech_trace_builder_string(r->builder, fallback, -1) : text_id(r, &rows, 7, fallback);
        item.queue = ech_capture_queue(r->capture, "driver", ECH_QUEUE_HOST, device_of(integer(&rows, 2, 0)));
        const Call *call = find_call(r, pid_of(integer(&rows, 1, 0)), integer(&rows, 8, 0));
        item.stack = call ? call->stack : ECH_NONE;
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static bool read_marks(Reader *r, const char *table, const char *const *columns, const char *fallback)
{
    Rows rows;
    bool ok;
    if (!query(r, table, columns, "", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        int64_t type = integer(&rows, 4, 59);
        if (type != 59 && type != 60 && type != 34)
            continue;
        EchItem item = ech_item_init(ECH_ITEM_MARK);
        EchTime end = nanoseconds(r, &rows, 1);
        item.issued = item.start = nanoseconds(r, &rows, 0);
        if (item.start == ECH_TIME_NONE)
            continue;
        item.duration = end == ECH_TIME_NONE || end < item.start ? ECH_TIME_NONE : end - item.start;
        item.name = text_id(r, &rows, is_null(&rows, 2) ? 3 : 2, fallback);
        char name[48];
        g_snprintf(name, sizeof name, "thread %" G_GINT64_FORMAT, integer(&rows, 5, 0) & 0xffffff);
        item.queue = ech_capture_queue(r->capture, name, ECH_QUEUE_HOST, 0);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

/* ---- facts about the machine and the export ---- */

static bool read_properties(Reader *r, const char *table)
{
    Rows rows;
    bool ok;
    if (!query(r, table, (const char *[]){"name", "value", NULL}, "LIMIT 256", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        const char *name = (const char *)sqlite3_column_text(rows.statement, 0), *value = (const char *)sqlite3_column_text(rows.statement, 1);
        if (name && value && (g_str_has_prefix(name, "EXPORT_SCHEMA_VERSION") || g_str_has_prefix(name, "EXPORT_PRODUCT")) && strlen(value) < 256)
            ech_trace_builder_set_property(r->builder, name, value);
    }
    return ok;
}

static bool read_devices(Reader *r)
{
    static const char *const columns[] = {"id",        "name",         "totalMemory", "memoryBandwidth", "l2CacheSize", "smCount",
                                          "clockRate", "asyncEngines", "chipName",    "busLocation",     NULL};
    Rows rows;
    bool ok;
    if (!query(r, "TARGET_INFO_GPU", columns, "LIMIT 256", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        for (int c = 1; columns[c]; c++) {
            const char *value = (const char *)sqlite3_column_text(rows.statement, c);
            g_autofree char *key = g_strdup_printf("device.%" G_GINT64_FORMAT ".%s", integer(&rows, 0, 0), columns[c]);
            if (value && strlen(value) < 256)
                ech_trace_builder_set_property(r->builder, key, value);
        }
    }
    if (!ok || !query(r, "TARGET_INFO_SESSION_START_TIME", (const char *[]){"utcEpochNs", NULL}, "LIMIT 1", &rows))
        return false;
    while (next_row(r, &rows, &ok)) {
        const char *value = (const char *)sqlite3_column_text(rows.statement, 0);
        if (value && strlen(value) < 32)
            ech_trace_builder_set_property(r->builder, "session_start_unix_ns", value);
    }
    return ok;
}

/* Rows of every table of events, under the table's own name. */
static bool count_tables(Reader *r)
{
    Rows rows;
    bool ok;
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    rows.table = "sqlite_master";
    if (sqlite3_prepare_v2(r->db, "SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND rootpage > 0 LIMIT 1024", -1,
                           &rows.statement, NULL) != SQLITE_OK)
        return fail(r, "sqlite_master");
    while (next_row(r, &rows, &ok)) {
        const char *name = (const char *)sqlite3_column_text(rows.statement, 0);
        static const char *const prefixes[] = {"CUPTI_",           "CUDA_",      "NVTX_", "OSRT_API", "CUBLAS_", "CUDNN_", "PROFILER_OVERHEAD", "SCHED_EVENTS",
                                               "COMPOSITE_EVENTS", "GPU_METRICS"};
        for (size_t i = 0; name && i < G_N_ELEMENTS(prefixes); i++) {
            if (g_str_has_prefix(name, prefixes[i]) && !strpbrk(name, "\"\\")) {
                g_ptr_array_add(names, g_strdup(name));
                break;
            }
        }
    }
    for (guint i = 0; ok && i < names->len; i++) {
        g_autofree char *sql = g_strdup_printf("SELECT count(*) FROM \"%s\"", (const char *)names->pdata[i]);
        rows.table = names->pdata[i];
        if (sqlite3_prepare_v2(r->db, sql, -1, &rows.statement, NULL) != SQLITE_OK)
            return fail(r, rows.table);
        while (next_row(r, &rows, &ok))
            ech_diag_note(r->ret->records, names->pdata[i], (uint64_t)MAX(sqlite3_column_int64(rows.statement, 0), 0));
    }
    return ok;
}

static bool read_all(Reader *r)
{
    static const char *const nvtx[] = {"start", "end", "text", "textId", "eventType", "globalTid", NULL};
    static const char *const graphs[] = {"start", "end", "nameId", "nameId", "eventType", "globalTid", NULL};
    if (!has_table(r, "StringIds") && !has_table(r, "CUPTI_ACTIVITY_KIND_MEMCPY") && !has_table(r, "CUPTI_ACTIVITY_KIND_KERNEL") &&
        !has_table(r, "TARGET_INFO_GPU")) {
        if (sqlite3_errcode(r->db) != SQLITE_OK && sqlite3_errcode(r->db) != SQLITE_DONE && sqlite3_errcode(r->db) != SQLITE_ROW)
            return fail(r, "sqlite_master");
        g_set_error(r->error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: an SQLite database, but no Nsight Systems export: it has no CUPTI tables%s", r->where,
                    is_rocpd(r) ? "; it is rocprofv3's, which is not read: of AMD GPUs the profiles of torch.profiler and jax.profiler are" : "");
        return false;
    }
    if (!count_tables(r) || !read_properties(r, "META_DATA_EXPORT") || !read_properties(r, "EXPORT_META_DATA") || !read_devices(r) || !read_strings(r) ||
        !read_chains(r) || !read_calls(r) || !read_kernels(r) || !read_copies(r) || !read_memsets(r) || !read_recorded(r) || !read_waits(r) || !read_memory(r))
        return false;
    infer_waits(r);
    return read_marks(r, "NVTX_EVENTS", nvtx, "") && read_marks(r, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graphs, "CUDA graph") &&
           ech_capture_finish(r->capture, r->error);
}

static sqlite3 *open_bytes(const uint8_t *data, size_t n, const char *where, GError **error)
{
    sqlite3 *db = NULL;
    /* SQLite's interface has no const; read-only is said by the flag. */
    union {
        const uint8_t *in;
        unsigned char *out;
    } bytes = {.in = data};
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
        sqlite3_deserialize(db, "main", bytes.out, (sqlite3_int64)n, (sqlite3_int64)n, SQLITE_DESERIALIZE_READONLY) == SQLITE_OK) {
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 64 << 20);
        sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
        return db;
    }
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %s", where, db ? sqlite3_errmsg(db) : "SQLite cannot open it");
    sqlite3_close(db);
    return NULL;
}

static bool nsys_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)16 << 30, error);
    if (!bytes)
        return false;
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    sqlite3 *db = open_bytes(data, n, ech_source_path(source), error);
    if (!db)
        return false;
    g_autoptr(EchCapture) capture = ech_capture_new(ret, "nsys_sqlite");
    GError *own = NULL;
    Reader r = {.ret = ret, .where = ech_source_path(source), .db = db, .capture = capture, .builder = ech_capture_builder(capture), .error = &own};
    r.max_steps = 2000 + n / 1000;
    sqlite3_progress_handler(db, 100000, progress, &r);
    r.strings = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, text_free);
    r.chains = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    r.queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    r.calls = g_array_new(FALSE, FALSE, sizeof(Call));
    r.recorded = g_array_new(FALSE, FALSE, sizeof(Recorded));
    bool ok = read_all(&r);
    /* A statement left open by a failure would keep the database alive. */
    for (sqlite3_stmt *open = sqlite3_next_stmt(db, NULL); open; open = sqlite3_next_stmt(db, NULL))
        sqlite3_finalize(open);
    g_array_unref(r.recorded);
    g_array_unref(r.calls);
    g_hash_table_unref(r.queues);
    g_hash_table_unref(r.chains);
    g_hash_table_unref(r.strings);
    sqlite3_close(db);
    if (!ok)
        g_propagate_error(error, own);
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
    .probe = probe,
    .read = nsys_read,
    .when_idle = "nothing in it ran on a GPU; 'nsys profile --trace cuda' records what does",
};
