/* rocprofv3's database (rocpd, SQLite), its default output since ROCm 7.0: schemas 3 and 4 of rocprofiler-sdk
 * source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql. Every table is named for the run ("rocpd_string_0000abcd_..."); merged files have the tables of several,
 * each of a process of its own. Views, which join them, are not read. Up to schema 3 an event has its times and its place as columns; later they are rows of
 * other tables ("start_id", "track_id"). */
#include "sim/import/json_stream.h"
#include "sim/import/rocprof.h"
#include "sim/import/sqlite.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"

enum { MAX_LOOKED_UP = 5 };

/* Rows of a table by their column "id": that and up to MAX_LOOKED_UP whole numbers, INT64_MIN where a row has none. */
typedef struct {
    GArray *rows; /* of int64_t, (1 + columns) a row, ids ascending */
    guint width;
} Table;

typedef struct {
    EchImport *ret;
    const char *where;
    EchSqlite *db;
    EchRocprof *rocprof;
    EchTraceBuilder *builder;
    GError **error;
    uint32_t n_devices; /* of all runs; those of one machine are the same */

    /* Of one run. */
    const char *suffix; /* of its tables: "_0000abcd_...", or empty */
    uint32_t run;
    Table times, tracks, events, agents;
    GHashTable *strings; /* id -> EchId + 1 */
    GHashTable *kernels; /* id -> EchId + 1 */
    GHashTable *markers; /* event id -> EchId + 1: messages of ranges that are named for the call */
} Reader;

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

/* The first columns of every query for events, in this order. */
#define PLACE_COLUMNS "start", "end", "start_id", "end_id", "track_id", "event_id", "tid", "agent_id", "queue_id", "stream_id"
enum { N_PLACE = 10 };

/* A record of the row's time and place, wherever the schema has them; @ret_agent: where it ran. */
static EchRocRecord record_of(Reader *r, const EchSqliteRows *rows, EchRocKind kind, int64_t *ret_agent)
{
    int64_t c[N_PLACE];
    for (int i = 0; i < N_PLACE; i++)
        c[i] = ech_sqlite_int(rows, i, INT64_MIN);
    int64_t track = c[4];
    EchRocRecord record = ech_roc_record(kind);
    record.start = c[0] != INT64_MIN ? c[0] : look_up(&r->times, c[2], 1, ECH_ROC_NONE);
    record.end = c[1] != INT64_MIN ? c[1] : look_up(&r->times, c[3], 1, ECH_ROC_NONE);
    record.thread = c[6] != INT64_MIN ? c[6] : look_up(&r->tracks, track, 1, 0);
    record.queue = c[8] != INT64_MIN ? c[8] : look_up(&r->tracks, track, 3, 0);
    record.stream = c[9] != INT64_MIN ? c[9] : look_up(&r->tracks, track, 4, 0);
    record.call = look_up(&r->events, c[5], 1, ECH_ROC_NONE);
    record.process = (uint8_t)r->run;
    *ret_agent = c[7] != INT64_MIN ? c[7] : look_up(&r->tracks, track, 2, INT64_MIN);
    return record;
}

static EchRocAgent agent_of(const Reader *r, int64_t id)
{
    return (EchRocAgent){.gpu = look_up(&r->agents, id, 1, 0) != 0, .device = (uint32_t)look_up(&r->agents, id, 2, 0)};
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
        if (name && *name)
            remember(r->kernels, ech_sqlite_int(&rows, 0, 0), ech_rocprof_kernel_name(r->rocprof, name));
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
        for (int c = 5; c >= 3 && device >= r->n_devices; c--) /* the first that there is stands */
            ech_rocprof_name_device(r->rocprof, device, ech_sqlite_text(&rows, c));
        device = MIN(device + 1, ECH_ROC_DEVICES - 1);
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
        int64_t agent, event = ech_sqlite_int(&rows, 5, INT64_MIN), category = look_up(&r->events, event, 2, INT64_MIN);
        EchRocRecord record = record_of(r, &rows, ECH_ROC_CALL, &agent);
        record.name = text_of(r, ech_sqlite_int(&rows, N_PLACE, INT64_MIN), "?");
        EchId kind = recall(r->strings, category);
        if (kind != ECH_NONE && g_str_has_prefix(ech_trace_builder_peek_string(r->builder, kind), "MARKER")) {
            EchId message = g_str_has_prefix(ech_trace_builder_peek_string(r->builder, record.name), "roctx") ? recall(r->markers, event) : ECH_NONE;
            record.kind = ECH_ROC_MARK;
            record.name = message == ECH_NONE ? record.name : message;
        }
        ech_rocprof_add(r->rocprof, &record);
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
        int64_t agent;
        EchRocRecord record = record_of(r, &rows, ECH_ROC_KERNEL, &agent);
        record.name = recall(r->kernels, ech_sqlite_int(&rows, N_PLACE, INT64_MIN));
        record.to = agent_of(r, agent);
        record.shared = ech_sqlite_small(&rows, N_PLACE + 1);
        for (int i = 0; i < 3; i++) {
            record.items[i] = ech_sqlite_small(&rows, N_PLACE + 2 + i);
            record.block[i] = ech_sqlite_small(&rows, N_PLACE + 5 + i);
        }
        ech_rocprof_add(r->rocprof, &record);
    }
    return ok;
}

static bool read_copies(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!query(r, "memory_copy", (const char *[]){PLACE_COLUMNS, "size", "src_agent_id", "dst_agent_id", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        int64_t agent;
        EchRocRecord record = record_of(r, &rows, ECH_ROC_COPY, &agent);
        record.bytes = ech_sqlite_int(&rows, N_PLACE, ECH_ROC_NONE);
        record.from = agent_of(r, ech_sqlite_int(&rows, N_PLACE + 1, 0));
        record.to = agent_of(r, ech_sqlite_int(&rows, N_PLACE + 2, 0));
        ech_rocprof_add(r->rocprof, &record);
    }
    return ok;
}

/* Scratch memory comes and goes with kernels. */
static bool read_memory(Reader *r)
{
    EchSqliteRows rows;
    bool ok;
    if (!query(r, "memory_allocate", (const char *[]){PLACE_COLUMNS, "type", "level", "address", "size", NULL}, "", &rows))
        return false;
    while (ech_sqlite_next(&rows, &ok)) {
        if (g_strcmp0(ech_sqlite_text(&rows, N_PLACE + 1), "SCRATCH") == 0) {
            ech_diag_note(r->ret->diag, "scratch_memory_left_out", 1);
            continue;
        }
        int64_t agent;
        EchRocRecord record = record_of(r, &rows, g_strcmp0(ech_sqlite_text(&rows, N_PLACE), "FREE") == 0 ? ECH_ROC_FREE : ECH_ROC_ALLOC, &agent);
        record.address = ech_sqlite_int(&rows, N_PLACE + 2, ECH_ROC_NONE);
        record.bytes = ech_sqlite_int(&rows, N_PLACE + 3, ECH_ROC_NONE);
        record.to = agent_of(r, agent);
        ech_rocprof_add(r->rocprof, &record);
    }
    return ok;
}

static void forget_run(Reader *r)
{
    Table *const tables[] = {&r->times, &r->tracks, &r->events, &r->agents};
    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++)
        g_clear_pointer(&tables[i]->rows, g_array_unref);
    GHashTable **const texts[] = {&r->strings, &r->kernels, &r->markers};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_clear_pointer(texts[i], g_hash_table_unref);
}

static bool read_run(Reader *r)
{
    GHashTable **const texts[] = {&r->strings, &r->kernels, &r->markers};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        *texts[i] = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    bool ok = read_strings(r) && read_agents(r) && read_table(r, "timestamp", (const char *[]){"id", "value", NULL}, &r->times) &&
              read_table(r, "track", (const char *[]){"id", "tid", "agent_id", "queue_id", "stream_id", NULL}, &r->tracks) &&
              read_table(r, "event", (const char *[]){"id", "stack_id", "category_id", NULL}, &r->events) && read_messages(r) && read_regions(r) &&
              read_kernels(r) && read_copies(r) && read_memory(r);
    forget_run(r);
    return ok;
}

static bool read_all(Reader *r, const char *beside)
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
        if (r->run == ECH_ROC_PROCESSES) {
            ech_diag_dropped(r->ret->diag, "processes_beyond_256", 1, "table %s", name);
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
    return ech_rocprof_finish(r->rocprof, beside, r->error);
}

static bool rocpd_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)16 << 30, error);
    g_autoptr(EchSqlite) db = bytes ? ech_sqlite_open(bytes, ech_source_path(source), error) : NULL;
    if (!db)
        return false;
    g_autoptr(EchRocprof) rocprof = ech_rocprof_new(ret, "rocpd");
    Reader r = {.ret = ret, .where = ech_source_path(source), .db = db, .rocprof = rocprof, .builder = ech_rocprof_builder(rocprof), .error = error};
    return read_all(&r, options->beside);
}

static int probe(const uint8_t *head, size_t n)
{
    return n >= 16 && memcmp(head, "SQLite format 3", 16) == 0 && ech_head_has(head, n, "rocpd_") ? 2 : 0;
}

const EchImportClass ech_import_rocpd = {
    .name = "rocpd",
    .summary = "rocprofv3's database of an AMD GPU (SQLite, schemas 3 and 4)",
    .takes_programs = true,
    .probe = probe,
    .read = rocpd_read,
    .when_idle = "nothing in it ran on a GPU; 'rocprofv3 --runtime-trace' records what does",
};
