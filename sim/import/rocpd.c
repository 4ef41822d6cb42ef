/* rocprofv3's database (rocpd, SQLite), its default output since ROCm 7.0: schemas 3 and 4 of rocprofiler-sdk
 * source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql. Every table is named for the run ("rocpd_string_0000abcd_..."); merged files have the tables of several,
 * each of a process of its own. Views, which join them, are not read. Up to schema 3 an event has its times and its place as columns; later they are rows of
 * other tables ("start_id", "track_id"). */
#include "sim/import/gpu_work.h"
#include "sim/import/json_stream.h"
#include "sim/import/sqlite.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"

enum { MAX_DEVICES = 128, MAX_QUEUES = 2048, MAX_RUNS = 255, MAX_LOOKED_UP = 5 };

/* Rows of a table by their column "id": that and up to MAX_LOOKED_UP whole numbers, INT64_MIN where a row has none. */
typedef struct {
    GArray *rows; /* of int64_t, (1 + columns) a row, ids ascending */
    guint width;
} Table;

/* What the host asked for. */
typedef struct {
    int64_t stack; /* the number that work has of the call that asked for it */
    EchTime start, end;
    EchId name;
    uint32_t thread;
} Call;

typedef struct {
    EchImport *ret;
    const char *where;
    EchSqlite *db;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GError **error;
    GHashTable *queues; /* "run device stream" -> index + 1 */
    GHashTable *names;  /* EchGpuName by string id + 1 */
    uint32_t n_devices; /* of all runs; those of one machine are the same */
    bool has_calls;

    /* Of one run. */
    const char *suffix; /* of its tables: "_0000abcd_...", or empty */
    uint32_t run;
    Table times, tracks, events, agents;
    GHashTable *strings; /* id -> EchId + 1 */
    GHashTable *kernels; /* id -> EchId + 1 */
    GHashTable *markers; /* event id -> EchId + 1: messages of ranges that are named for the call */
    GHashTable *tiers;   /* address -> 1 + tier + ECH_N_TIERS * device, of what was allocated */
    GArray *calls;
    bool by_stream; /* kernels are of more than one stream; else their queues tell more */
} Reader;

/* Columns of an event's place, wherever the schema has them. */
typedef struct {
    EchTime start, end;
    int64_t thread, agent, queue, stream, stack;
} Place;

static char *table_name(const Reader *r, const char *table)
{
    return g_strconcat("rocpd_", table, r->suffix, NULL);
}

static bool query(Reader *r, const char *table, const char *const *columns, const char *tail, EchSqliteRows *ret_rows)
{
    g_autofree char *name = table_name(r, table);
    bool ok = ech_sqlite_query(r->db, name, columns, tail, ret_rows);
    ret_rows->table = g_intern_string(name);
    return ok;
}

static int compare_ids(gconstpointer a, gconstpointer b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* @columns: "id", up to MAX_LOOKED_UP others, NULL. */
static bool read_table(Reader *r, const char *table, const char *const *columns, Table *ret)
{
    EchSqliteRows rows;
    bool ok;
    ret->width = g_strv_length((char **)(uintptr_t)columns);
    ret->rows = g_array_new(FALSE, FALSE, ret->width * (guint)sizeof(int64_t));
    if (!query(r, table, columns, "", &rows))
        return false;
    bool sorted = true;
    int64_t last = INT64_MIN;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t row[1 + MAX_LOOKED_UP];
        for (guint i = 0; i < ret->width; i++)
            row[i] = ech_sqlite_int(&rows, (int)i, INT64_MIN);
        sorted = sorted && row[0] >= last;
        last = row[0];
        g_array_append_vals(ret->rows, row, 1);
    }
    if (!sorted)
        g_array_sort(ret->rows, compare_ids);
    return ok;
}

/* Column @column (from 1) of row @id; @fallback where there is none. */
static int64_t look_up(const Table *table, int64_t id, guint column, int64_t fallback)
{
    guint low = 0, high = table->rows->len;
    const int64_t *all = (const int64_t *)(const void *)table->rows->data;
    ECH_SEARCH(low, high, middle, all[(size_t)middle * table->width] < id);
    if (low == table->rows->len || all[(size_t)low * table->width] != id)
        return fallback;
    int64_t value = all[(size_t)low * table->width + column];
    return value == INT64_MIN ? fallback : value;
}

static void remember(GHashTable *texts, int64_t id, EchId string)
{
    int64_t *key = g_new(int64_t, 1);
    *key = id;
    g_hash_table_insert(texts, key, GUINT_TO_POINTER(string + 1));
}

static EchId recall(GHashTable *texts, int64_t id)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(texts, &id)) - 1;
}

static EchId text_of(Reader *r, int64_t id, const char *fallback)
{
    EchId found = recall(r->strings, id);
    if (found == ECH_NONE && id != INT64_MIN)
        ech_diag_dropped(r->ret->diag, "names_not_in_strings", 1, "id %" G_GINT64_FORMAT, id);
    return found == ECH_NONE ? ech_trace_builder_string(r->builder, fallback, -1) : found;
}

static EchTime picoseconds(Reader *r, int64_t ns)
{
    if (ns == INT64_MIN)
        return ECH_TIME_NONE;
    if (ns > INT64_MAX / 4 / ECH_PS_PER_NS || ns < -(INT64_MAX / 4 / ECH_PS_PER_NS)) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "%" G_GINT64_FORMAT " ns", ns);
        return ECH_TIME_NONE;
    }
    return ns * ECH_PS_PER_NS;
}

/* The first columns of every query for events, in this order. */
#define PLACE_COLUMNS "start", "end", "start_id", "end_id", "track_id", "event_id", "tid", "agent_id", "queue_id", "stream_id"
enum { N_PLACE = 10 };

static Place place_of(Reader *r, const EchSqliteRows *rows)
{
    int64_t c[N_PLACE];
    for (int i = 0; i < N_PLACE; i++)
        c[i] = ech_sqlite_int(rows, i, INT64_MIN);
    int64_t track = c[4];
    Place place = {
        .start = picoseconds(r, c[0] != INT64_MIN ? c[0] : look_up(&r->times, c[2], 1, INT64_MIN)),
        .end = picoseconds(r, c[1] != INT64_MIN ? c[1] : look_up(&r->times, c[3], 1, INT64_MIN)),
        .thread = c[6] != INT64_MIN ? c[6] : look_up(&r->tracks, track, 1, 0),
        .agent = c[7] != INT64_MIN ? c[7] : look_up(&r->tracks, track, 2, INT64_MIN),
        .queue = c[8] != INT64_MIN ? c[8] : look_up(&r->tracks, track, 3, 0),
        .stream = c[9] != INT64_MIN ? c[9] : look_up(&r->tracks, track, 4, 0),
        .stack = look_up(&r->events, c[5], 1, INT64_MIN),
    };
    if (place.start == ECH_TIME_NONE)
        ech_diag_dropped(r->ret->diag, "events_without_time", 1, "table %s", rows->table);
    return place;
}

static EchTime duration_of(Reader *r, const Place *place)
{
    if (place->end != ECH_TIME_NONE && place->end >= place->start)
        return place->end - place->start;
    ech_diag_dropped(r->ret->diag, "device_events_without_duration", 1, NULL);
    return ECH_TIME_NONE;
}

/* Of an agent: where its memory is, and which GPU it is. */
static EchTier tier_of(const Reader *r, int64_t agent)
{
    return look_up(&r->agents, agent, 1, 0) ? ECH_TIER_DEVICE : ECH_TIER_HOST;
}

static uint32_t device_of(const Reader *r, int64_t agent)
{
    return (uint32_t)look_up(&r->agents, agent, 2, 0);
}

static uint32_t stream_queue(Reader *r, uint32_t device, const Place *place)
{
    int64_t number = r->by_stream ? place->stream : place->queue;
    g_autofree char *key = g_strdup_printf("%u %u %" G_GINT64_FORMAT, r->run, device, number);
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(r->queues, key));
    if (found)
        return found - 1;
    if (g_hash_table_size(r->queues) >= MAX_QUEUES) {
        ech_diag_dropped(r->ret->diag, "streams_beyond_2048", 1, "stream %" G_GINT64_FORMAT, number);
        return ech_capture_queue(r->capture, "other streams", ECH_QUEUE_COMPUTE, device);
    }
    g_autoptr(GString) name = g_string_new(NULL);
    g_string_append_printf(name, "%s %" G_GINT64_FORMAT, r->by_stream ? "stream" : "queue", number);
    if (r->run)
        g_string_append_printf(name, " process %u", r->run);
    uint32_t queue = ech_capture_queue(r->capture, name->str, ECH_QUEUE_COMPUTE, device);
    ech_capture_set_process(r->capture, queue, r->run);
    g_hash_table_insert(r->queues, g_steal_pointer(&key), GUINT_TO_POINTER(queue + 1));
    return queue;
}

static uint32_t host_queue(Reader *r)
{
    g_autofree char *name = r->run ? g_strdup_printf("host process %u", r->run) : g_strdup("host");
    uint32_t queue = ech_capture_queue(r->capture, name, ECH_QUEUE_HOST, 0);
    ech_capture_set_process(r->capture, queue, r->run);
    return queue;
}

static int compare_calls(gconstpointer a, gconstpointer b)
{
    const Call *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void set_issue(Reader *r, EchItem *item, int64_t stack)
{
    guint low = 0, high = r->calls->len;
    ECH_SEARCH(low, high, middle, g_array_index(r->calls, Call, middle).stack < stack);
    const Call *call = low < r->calls->len ? &g_array_index(r->calls, Call, low) : NULL;
    item->issued = item->start;
    if (call && call->stack == stack && stack != INT64_MIN && call->start <= item->start) {
        item->issued = call->start;
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
    if (!query(r, "string", (const char *[]){"id", "string", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        const char *text = ech_sqlite_text(&rows, 1);
        if (text)
            remember(r->strings, ech_sqlite_int(&rows, 0, 0), ech_trace_builder_string(r->builder, text, -1));
    }
    if (!ok || !query(r, "info_kernel_symbol", (const char *[]){"id", "display_name", "kernel_name", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        const char *display = ech_sqlite_text(&rows, 1), *symbol = ech_sqlite_text(&rows, 2);
        const char *name = display && *display ? display : symbol;
        size_t n = name ? strlen(name) : 0;
        n -= n > 3 && g_str_has_suffix(name, ".kd") ? 3 : 0; /* the kernel's descriptor */
        if (n)
            remember(r->kernels, ech_sqlite_int(&rows, 0, 0), ech_trace_builder_string(r->builder, name, (gssize)n));
    }
    return ok;
}

/* Processors: CPUs have no number. */
static bool read_agents(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    r->agents.width = 3;
    r->agents.rows = g_array_new(FALSE, FALSE, 3 * sizeof(int64_t));
    if (!query(r, "info_agent", (const char *[]){"id", "type", "absolute_index", "product_name", "model_name", "name", NULL}, "ORDER BY 3, 1 LIMIT 4096",
               &rows))
        return false;
    uint32_t device = 0;
    while (ech_sqlite_next(&rows, &ok)) {
        bool gpu = g_strcmp0(ech_sqlite_text(&rows, 1), "GPU") == 0;
        int64_t row[3] = {ech_sqlite_int(&rows, 0, 0), gpu, gpu ? device : 0};
        g_array_append_vals(r->agents.rows, row, 1);
        if (!gpu)
            continue;
        for (int c = 3; c <= 5 && device >= r->n_devices; c++) {
            const char *name = ech_sqlite_text(&rows, c);
            if (!name || !*name || strlen(name) >= 256)
                continue;
            g_autofree char *key = g_strdup_printf("device.%u.name", device);
            ech_trace_builder_set_property(r->builder, key, name);
            break;
        }
        device = MIN(device + 1, MAX_DEVICES - 1);
    }
    r->n_devices = MAX(r->n_devices, device);
    g_array_sort(r->agents.rows, compare_ids);
    return ok;
}

/* {"message": "forward"}, of ranges that the schema names for the call. */
static char *message_of(const char *json)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)json, strlen(json), NULL);
    g_autoptr(EchJson) reader = ech_json_new(source);
    if (ech_json_next(reader) != ECH_JSON_OBJECT)
        return NULL;
    while (ech_json_next(reader) == ECH_JSON_KEY) {
        bool wanted = strcmp(ech_json_text(reader, NULL), "message") == 0;
        if (wanted && ech_json_next(reader) == ECH_JSON_STRING)
            return g_strdup(ech_json_text(reader, NULL));
        if (wanted || !ech_json_skip(reader))
            return NULL;
    }
    return NULL;
}

static bool read_messages(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    g_autofree char *events = table_name(r, "event");
    if (!ech_sqlite_has_table(r->db, events) || !ech_sqlite_has_column(r->db, events, "extdata"))
        return true;
    if (!query(r, "event", (const char *[]){"id", "extdata", NULL}, "WHERE extdata LIKE '%\"message\"%'", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        g_autofree char *message = message_of(ech_sqlite_text(&rows, 1));
        if (message && *message)
            remember(r->markers, ech_sqlite_int(&rows, 0, 0), ech_trace_builder_string(r->builder, message, -1));
    }
    return ok;
}

/* What the host did: calls of HIP and HSA, and the program's own ranges (roctx), which are named for what they say, or are calls of that library. */
static bool read_regions(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!query(r, "region", (const char *[]){PLACE_COLUMNS, "name_id", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        Place place = place_of(r, &rows);
        if (place.start == ECH_TIME_NONE)
            continue;
        int64_t event = ech_sqlite_int(&rows, 5, INT64_MIN), category = look_up(&r->events, event, 2, INT64_MIN);
        EchId name = text_of(r, ech_sqlite_int(&rows, N_PLACE, INT64_MIN), "?"), kind = recall(r->strings, category);
        if (kind == ECH_NONE || !g_str_has_prefix(ech_trace_builder_peek_string(r->builder, kind), "MARKER")) {
            Call call = {place.stack, place.start, place.end, name, (uint32_t)place.thread};
            g_array_append_val(r->calls, call);
            continue;
        }
        EchId message = g_str_has_prefix(ech_trace_builder_peek_string(r->builder, name), "roctx") ? recall(r->markers, event) : ECH_NONE;
        EchItem item = ech_item_init(ECH_ITEM_MARK);
        item.issued = item.start = place.start;
        item.duration = place.end == ECH_TIME_NONE || place.end < place.start ? ECH_TIME_NONE : place.end - place.start;
        item.name = message == ECH_NONE ? name : message;
        g_autofree char *queue = g_strdup_printf("thread %" G_GINT64_FORMAT, place.thread);
        item.queue = ech_capture_queue(r->capture, queue, ECH_QUEUE_HOST, 0);
        ech_capture_add(r->capture, &item);
    }
    g_array_sort(r->calls, compare_calls);
    r->has_calls = r->has_calls || r->calls->len > 0;
    return ok;
}

static bool find_streams(Reader *r)
{
    EchSqliteRows rows;
    bool ok, any = false;
    int64_t first = 0;
    r->by_stream = false;
    if (!query(r, "kernel_dispatch", (const char *[]){PLACE_COLUMNS, NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t stream = ech_sqlite_int(&rows, 9, look_up(&r->tracks, ech_sqlite_int(&rows, 4, INT64_MIN), 4, 0));
        r->by_stream = r->by_stream || (any && stream != first);
        first = stream;
        any = true;
    }
    return ok;
}

static bool read_kernels(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!query(r, "kernel_dispatch",
               (const char *[]){PLACE_COLUMNS, "kernel_id", "group_segment_size", "grid_size_x", "grid_size_y", "grid_size_z", "workgroup_size_x",
                                "workgroup_size_y", "workgroup_size_z", NULL},
               "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        Place place = place_of(r, &rows);
        if (place.start == ECH_TIME_NONE)
            continue;
        EchItem item = ech_item_init(ECH_ITEM_KERNEL);
        item.start = place.start;
        item.duration = duration_of(r, &place);
        item.name = recall(r->kernels, ech_sqlite_int(&rows, N_PLACE, INT64_MIN));
        if (item.name == ECH_NONE)
            item.name = ech_trace_builder_string(r->builder, "kernel", -1);
        item.queue = stream_queue(r, device_of(r, place.agent), &place);
        set_issue(r, &item, place.stack);
        EchGpuLaunch launch = {.shared = ech_sqlite_small(&rows, N_PLACE + 1)};
        for (int i = 0; i < 3; i++) {
            uint32_t items = ech_sqlite_small(&rows, N_PLACE + 2 + i); /* HSA's grids count work-items */
            launch.block[i] = ech_sqlite_small(&rows, N_PLACE + 5 + i);
            launch.grid[i] = launch.block[i] ? items / launch.block[i] + (items % launch.block[i] > 0) : 0;
        }
        if (ech_gpu_kernel_by_launch(r->capture, r->names, launch, &item))
            ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", 1);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

static bool read_copies(Reader *r)
{
    static const char *const names[2][2] = {{"Memcpy DtoD", "Memcpy DtoH"}, {"Memcpy HtoD", "Memcpy HtoH"}};
    EchSqliteRows rows;
    bool ok;
    if (!query(r, "memory_copy", (const char *[]){PLACE_COLUMNS, "size", "src_agent_id", "dst_agent_id", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        Place place = place_of(r, &rows);
        if (place.start == ECH_TIME_NONE)
            continue;
        EchItem item = ech_item_init(ECH_ITEM_COPY);
        item.start = place.start;
        item.duration = duration_of(r, &place);
        int64_t bytes = ech_sqlite_int(&rows, N_PLACE, -1), source = ech_sqlite_int(&rows, N_PLACE + 1, 0), target = ech_sqlite_int(&rows, N_PLACE + 2, 0);
        item.origin = bytes >= 0 ? ECH_KNOWN : ECH_ABSENT;
        item.bytes = bytes >= 0 ? (uint64_t)bytes : 0;
        item.from = (uint8_t)tier_of(r, source);
        item.to = (uint8_t)tier_of(r, target);
        bool up = item.from == ECH_TIER_HOST, down = item.to == ECH_TIER_HOST;
        item.name = ech_trace_builder_string(r->builder, names[up][down], -1);
        item.queue = stream_queue(r, device_of(r, up ? target : source), &place);
        if (!up && !down && device_of(r, source) != device_of(r, target))
            item.other = device_of(r, target);
        set_issue(r, &item, place.stack);
        ech_capture_add(r->capture, &item);
    }
    return ok;
}

/* What HIP asked its runtime for. A free has neither size nor place: the allocation of that address has. Scratch memory comes and goes with kernels. */
static bool read_memory(Reader *r)
{
    for (int pass = 0; pass < 2; pass++) {
        EchSqliteRows rows;
        bool ok;
        if (!query(r, "memory_allocate", (const char *[]){PLACE_COLUMNS, "type", "level", "address", "size", NULL}, "", &rows))
            return false;
        while (ech_sqlite_next(&rows, &ok)) {
            const char *type = ech_sqlite_text(&rows, N_PLACE), *level = ech_sqlite_text(&rows, N_PLACE + 1);
            bool freed = g_strcmp0(type, "FREE") == 0;
            if (freed != (pass == 1))
                continue;
            if (g_strcmp0(level, "SCRATCH") == 0) {
                ech_diag_note(r->ret->diag, "scratch_memory_left_out", 1);
                continue;
            }
            Place place = place_of(r, &rows);
            int64_t address = ech_sqlite_int(&rows, N_PLACE + 2, 0), bytes = ech_sqlite_int(&rows, N_PLACE + 3, -1);
            guint known = freed ? GPOINTER_TO_UINT(g_hash_table_lookup(r->tiers, &address)) : 0;
            if (place.start == ECH_TIME_NONE)
                continue;
            if (ech_sqlite_is_null(&rows, N_PLACE + 2) || (!freed && bytes <= 0) || (freed && !known)) {
                ech_diag_dropped(r->ret->diag, freed ? "frees_of_unknown_addresses" : "memory_events_without_size_or_address", 1, "table %s", rows.table);
                continue;
            }
            EchItem item = ech_item_init(freed ? ECH_ITEM_FREE : ECH_ITEM_ALLOC);
            item.issued = item.start = freed ? place.start : place.end;
            if (item.start == ECH_TIME_NONE)
                item.issued = item.start = place.start;
            guint where = freed ? known - 1 : (guint)tier_of(r, place.agent) + ECH_N_TIERS * device_of(r, place.agent);
            item.to = item.from = (uint8_t)(where % ECH_N_TIERS);
            item.bytes = bytes > 0 ? (uint64_t)bytes : 0;
            item.origin = bytes > 0 ? ECH_KNOWN : ECH_ABSENT;
            item.address = (uint64_t)address | (uint64_t)r->run << 56; /* each process has an address space of its own */
            item.name = ech_trace_builder_string(r->builder, item.to == ECH_TIER_HOST ? "host memory" : "device memory", -1);
            item.queue = ech_capture_queue(r->capture, "driver", ECH_QUEUE_HOST, where / ECH_N_TIERS);
            ech_capture_add(r->capture, &item);
            if (!freed)
                remember(r->tiers, address, where);
        }
        if (!ok)
            return false;
    }
    return true;
}

/* Which streams and events calls were given is not recorded: what waits for the device waits for all of it, as does what waits where there is one stream. */
static void infer_waits(Reader *r)
{
    bool one_stream = g_hash_table_size(r->queues) <= 1;
    for (guint i = 0; i < r->calls->len; i++) {
        const Call *call = &g_array_index(r->calls, Call, i);
        const char *name = ech_trace_builder_peek_string(r->builder, call->name);
        if (g_str_has_prefix(name, "hipStreamWaitEvent"))
            ech_capture_wait_call(r->capture, call->start, call->thread, ECH_NONE);
        bool stream = g_str_has_prefix(name, "hipStreamSynchronize") || g_str_has_prefix(name, "hipEventSynchronize");
        if (!g_str_has_prefix(name, "hipDeviceSynchronize") && !(stream && one_stream))
            continue;
        EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
        item.name = call->name;
        item.issued = item.start = call->start;
        item.duration = call->end == ECH_TIME_NONE || call->end < call->start ? ECH_TIME_NONE : call->end - call->start;
        item.address = (uint64_t)call->start;
        item.queue = host_queue(r);
        ech_capture_add(r->capture, &item);
        ech_diag_note(r->ret->diag, "inferred_host_waits", 1);
    }
}

static void forget_run(Reader *r)
{
    Table *const tables[] = {&r->times, &r->tracks, &r->events, &r->agents};
    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++)
        g_clear_pointer(&tables[i]->rows, g_array_unref);
    GHashTable **const texts[] = {&r->strings, &r->kernels, &r->markers, &r->tiers};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_clear_pointer(texts[i], g_hash_table_unref);
    g_clear_pointer(&r->calls, g_array_unref);
}

static bool read_run(Reader *r)
{
    GHashTable **const texts[] = {&r->strings, &r->kernels, &r->markers, &r->tiers};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        *texts[i] = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    r->calls = g_array_new(FALSE, FALSE, sizeof(Call));
    bool ok = read_strings(r) && read_agents(r) && read_table(r, "timestamp", (const char *[]){"id", "value", NULL}, &r->times) &&
              read_table(r, "track", (const char *[]){"id", "tid", "agent_id", "queue_id", "stream_id", NULL}, &r->tracks) &&
              read_table(r, "event", (const char *[]){"id", "stack_id", "category_id", NULL}, &r->events) && read_messages(r) && read_regions(r) &&
              find_streams(r) && read_kernels(r) && read_copies(r) && read_memory(r);
    if (ok)
        infer_waits(r);
    forget_run(r);
    return ok;
}

static bool read_all(Reader *r)
{
    static const char *const counted[] = {"kernel_dispatch", "memory_copy", "memory_allocate", "region", "sample", "pmc_event"};
    static const char prefix[] = "rocpd_kernel_dispatch";
    g_autoptr(GPtrArray) tables = ech_sqlite_tables(r->db);
    if (!tables)
        return false;
    for (guint i = 0; i < tables->len; i++) {
        const char *name = tables->pdata[i];
        if (!g_str_has_prefix(name, prefix))
            continue;
        if (r->run == MAX_RUNS) {
            ech_diag_dropped(r->ret->diag, "processes_beyond_255", 1, "table %s", name);
            continue;
        }
        r->suffix = name + strlen(prefix);
        for (size_t c = 0; c < G_N_ELEMENTS(counted); c++) {
            g_autofree char *table = table_name(r, counted[c]), *record = g_strconcat("rocpd_", counted[c], NULL);
            uint64_t rows = 0;
            if (ech_sqlite_has_table(r->db, table) && !ech_sqlite_count(r->db, table, &rows))
                return false;
            ech_diag_note(r->ret->records, record, rows);
        }
        if (!read_run(r))
            return false;
        r->run++;
    }
    if (r->run == 0) {
        g_set_error(r->error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: an SQLite database, but not rocprofv3's: it has no table %s", r->where, prefix);
        return false;
    }
    ech_capture_set_waits(r->capture, r->has_calls ? ECH_WAITS_CALLS : ECH_WAITS_UNKNOWN);
    return ech_capture_finish(r->capture, r->error);
}

static bool rocpd_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)16 << 30, error);
    g_autoptr(EchSqlite) db = bytes ? ech_sqlite_open(bytes, ech_source_path(source), error) : NULL;
    if (!db)
        return false;
    g_autoptr(EchCapture) capture = ech_capture_new(ret, "rocpd");
    Reader r = {.ret = ret, .where = ech_source_path(source), .db = db, .capture = capture, .builder = ech_capture_builder(capture), .error = error};
    r.queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    r.names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    bool ok = read_all(&r);
    g_hash_table_unref(r.names);
    g_hash_table_unref(r.queues);
    return ok;
}

static int probe(const uint8_t *head, size_t n)
{
    return n >= 16 && memcmp(head, "SQLite format 3", 16) == 0 && ech_head_has(head, n, "rocpd_") ? 2 : 0;
}

const EchImportClass ech_import_rocpd = {
    .name = "rocpd",
    .summary = "rocprofv3's database of an AMD GPU (SQLite, schemas 3 and 4)",
    .probe = probe,
    .read = rocpd_read,
    .when_idle = "nothing in it ran on a GPU; 'rocprofv3 --runtime-trace' records what does",
};
