/* rocprofv3's JSON (--output-format json), rocprofiler-sdk source/lib/rocprofiler-sdk-tool/generateJSON.cpp: a document of one object for each process,
 *
 *     {"rocprofiler-sdk-tool": [{"agents": [...], "strings": {...}, "kernel_symbols": [...], "buffer_records": {"kernel_dispatch": [...], ...}}]}
 *
 * whose records name agents by handle, kernels by number, calls by the number of their kind and of their operation. */
#include "sim/import/json_stream.h"
#include "sim/import/rocprof.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

/* Numbers of a record, as far as they are looked at. */
typedef enum {
    START,
    END,
    CALL,
    THREAD,
    QUEUE,
    STREAM,
    KIND,
    OPERATION,
    KERNEL,
    AGENT,
    SOURCE,
    TARGET,
    BYTES,
    ADDRESS,
    SHARED,
    ITEMS,
    BLOCK = ITEMS + 3,
    N_FIELDS = BLOCK + 3
} Field;

typedef struct {
    EchRocKind kind;
    int64_t fields[N_FIELDS];
} Raw;

typedef struct {
    EchImport *ret;
    const char *where;
    EchJson *json;
    EchRocprof *rocprof;
    EchTraceBuilder *builder;
    unsigned n_processes;

    /* Of one process. */
    GArray *records;     /* Raw: what they name may follow them */
    GHashTable *gpus;    /* handle -> 1 + device */
    GHashTable *kernels; /* number -> name */
    GHashTable *ranges;  /* number of the call -> what the program says of its range */
    GPtrArray *kinds;    /* of GPtrArray: names of a kind's operations */
    uint32_t n_devices;
} Reader;

static bool is(const char *text, const char *wanted)
{
    return strcmp(text, wanted) == 0;
}

static void remember(GHashTable *table, int64_t key, gpointer value)
{
    g_hash_table_insert(table, g_memdup2(&key, sizeof key), value);
}

/* A whole number, as such or in quotes ("0x00007ffb26354000"); ECH_ROC_NONE for what is none. */
static int64_t number(const Reader *r)
{
    size_t n;
    int64_t value;
    const char *text = ech_json_text(r->json, &n);
    if (ech_json_parse_whole(text, n, &value))
        return value;
    char *end;
    guint64 wide = g_ascii_strtoull(text, &end, 0);
    return end != text && *end == '\0' ? (int64_t)wide : ECH_ROC_NONE;
}

static void set_text(const Reader *r, char **text)
{
    g_free(*text);
    *text = g_strdup(ech_json_text(r->json, NULL));
}

/* The rest of a value that is not wanted, after its @token. */
static bool pass_over(Reader *r, EchJsonToken token)
{
    unsigned depth = ech_json_depth(r->json);
    bool inside = token == ECH_JSON_OBJECT || token == ECH_JSON_ARRAY;
    while (inside && token != ECH_JSON_BAD && token != ECH_JSON_END) {
        token = ech_json_next(r->json);
        inside = ech_json_depth(r->json) >= depth;
    }
    return token != ECH_JSON_BAD && token != ECH_JSON_END;
}

/* Calls @take for every element of the array that comes next; what is none is passed over. @take leaves the reader behind the element. */
static bool each_element(Reader *r, bool (*take)(Reader *, EchJsonToken, void *), void *data)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_ARRAY)
        return pass_over(r, token);
    while ((token = ech_json_next(r->json)) != ECH_JSON_ARRAY_END)
        if (token == ECH_JSON_BAD || token == ECH_JSON_END || !take(r, token, data))
            return false;
    return true;
}

/* ---- what records name ---- */

static bool take_agent(Reader *r, EchJsonToken token, void *data)
{
    (void)data;
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    int64_t handle = ECH_ROC_NONE, type = 0;
    g_autofree char *product = NULL, *name = NULL;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        g_autofree char *key = g_strdup(ech_json_text(r->json, NULL));
        token = ech_json_next(r->json);
        if (is(key, "id") && token == ECH_JSON_OBJECT) {
            while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
                bool wanted = is(ech_json_text(r->json, NULL), "handle");
                token = ech_json_next(r->json);
                if (wanted && token == ECH_JSON_NUMBER)
                    handle = number(r);
                else if (!pass_over(r, token))
                    return false;
            }
        } else if (is(key, "type") && token == ECH_JSON_NUMBER) {
            type = number(r);
        } else if ((is(key, "product_name") || is(key, "name")) && token == ECH_JSON_STRING) {
            set_text(r, is(key, "name") ? &name : &product);
        } else if (!pass_over(r, token)) {
            return false;
        }
    }
    if (type == 2 && handle != ECH_ROC_NONE) { /* ROCPROFILER_AGENT_TYPE_GPU */
        uint32_t device = MIN(r->n_devices, ECH_ROC_DEVICES - 1);
        ech_rocprof_name_device(r->rocprof, device, product && *product ? product : name);
        remember(r->gpus, handle, GUINT_TO_POINTER(device + 1));
        r->n_devices++;
    }
    return token == ECH_JSON_OBJECT_END;
}

static bool take_kernel_symbol(Reader *r, EchJsonToken token, void *data)
{
    (void)data;
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    int64_t id = ECH_ROC_NONE;
    g_autofree char *shown = NULL, *symbol = NULL;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        g_autofree char *key = g_strdup(ech_json_text(r->json, NULL));
        token = ech_json_next(r->json);
        char **name = is(key, "formatted_kernel_name") ? &shown : is(key, "kernel_name") ? &symbol : NULL;
        if (is(key, "kernel_id") && token == ECH_JSON_NUMBER)
            id = number(r);
        else if (name && token == ECH_JSON_STRING)
            set_text(r, name);
        else if (!pass_over(r, token))
            return false;
    }
    if (id != ECH_ROC_NONE)
        remember(r->kernels, id, g_steal_pointer(shown && *shown ? &shown : &symbol));
    return token == ECH_JSON_OBJECT_END;
}

static bool take_operation(Reader *r, EchJsonToken token, void *data)
{
    GPtrArray *operations = data;
    if (token != ECH_JSON_STRING)
        return pass_over(r, token);
    g_ptr_array_add(operations, g_strdup(ech_json_text(r->json, NULL)));
    return true;
}

/* {"kind": "HIP_RUNTIME_API", "operations": ["hipInit", ...]} */
static bool take_kind(Reader *r, EchJsonToken token, void *data)
{
    (void)data;
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    GPtrArray *operations = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(r->kinds, operations);
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY)
        if (is(ech_json_text(r->json, NULL), "operations") ? !each_element(r, take_operation, operations) : !ech_json_skip(r->json))
            return false;
    return token == ECH_JSON_OBJECT_END;
}

/* {"key": 14, "value": "forward"} */
static bool take_range(Reader *r, EchJsonToken token, void *data)
{
    (void)data;
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    int64_t number_of_call = ECH_ROC_NONE;
    g_autofree char *message = NULL;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        g_autofree char *key = g_strdup(ech_json_text(r->json, NULL));
        token = ech_json_next(r->json);
        if (is(key, "key") && token == ECH_JSON_NUMBER)
            number_of_call = number(r);
        else if (is(key, "value") && token == ECH_JSON_STRING)
            set_text(r, &message);
        else if (!pass_over(r, token))
            return false;
    }
    if (number_of_call != ECH_ROC_NONE)
        remember(r->ranges, number_of_call, g_steal_pointer(&message));
    return token == ECH_JSON_OBJECT_END;
}

static bool read_strings(Reader *r)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        const char *key = ech_json_text(r->json, NULL);
        if (is(key, "buffer_records") ? !each_element(r, take_kind, NULL)
            : is(key, "marker_api")   ? !each_element(r, take_range, NULL)
                                      : !ech_json_skip(r->json))
            return false;
    }
    return token == ECH_JSON_OBJECT_END;
}

/* ---- records ---- */

/* The field of @key in the object that is called @of; N_FIELDS for one that is not looked at. */
static unsigned field_of(const char *of, const char *key)
{
    static const struct {
        const char *of, *key;
        unsigned field;
    } fields[] = {{"", "start_timestamp", START},
                  {"", "end_timestamp", END},
                  {"correlation_id", "internal", CALL},
                  {"", "thread_id", THREAD},
                  {"queue_id", "handle", QUEUE},
                  {"stream_id", "handle", STREAM},
                  {"", "kind", KIND},
                  {"", "operation", OPERATION},
                  {"dispatch_info", "kernel_id", KERNEL},
                  {"agent_id", "handle", AGENT},
                  {"src_agent_id", "handle", SOURCE},
                  {"dst_agent_id", "handle", TARGET},
                  {"", "bytes", BYTES},
                  {"", "allocation_size", BYTES},
                  {"", "address", ADDRESS},
                  {"address", "handle", ADDRESS},
                  {"address", "value", ADDRESS},
                  {"dispatch_info", "group_segment_size", SHARED},
                  {"grid_size", "x", ITEMS},
                  {"grid_size", "y", ITEMS + 1},
                  {"grid_size", "z", ITEMS + 2},
                  {"workgroup_size", "x", BLOCK},
                  {"workgroup_size", "y", BLOCK + 1},
                  {"workgroup_size", "z", BLOCK + 2}};
    for (size_t i = 0; i < G_N_ELEMENTS(fields); i++)
        if (is(key, fields[i].key) && is(of, fields[i].of))
            return fields[i].field;
    return N_FIELDS;
}

/* The rest of an object that is called @of, and of those in it: they are two deep. */
static bool read_fields(Reader *r, const char *of, unsigned depth, int64_t *fields)
{
    EchJsonToken token;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        g_autofree char *key = g_strdup(ech_json_text(r->json, NULL));
        token = ech_json_next(r->json);
        unsigned field = field_of(of, key);
        if ((token == ECH_JSON_NUMBER || token == ECH_JSON_STRING) && field < N_FIELDS)
            fields[field] = number(r);
        else if (token == ECH_JSON_OBJECT && depth < 3 ? !read_fields(r, key, depth + 1, fields) : !pass_over(r, token))
            return false;
    }
    return token == ECH_JSON_OBJECT_END;
}

static bool take_record(Reader *r, EchJsonToken token, void *data)
{
    const EchRocKind *kind = data;
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    Raw raw = {.kind = *kind};
    for (size_t i = 0; i < N_FIELDS; i++)
        raw.fields[i] = ECH_ROC_NONE;
    if (!read_fields(r, "", 0, raw.fields))
        return false;
    g_array_append_val(r->records, raw);
    return true;
}

static bool count_record(Reader *r, EchJsonToken token, void *data)
{
    ++*(uint64_t *)data;
    return pass_over(r, token);
}

static bool read_records(Reader *r)
{
    static const struct {
        const char *key;
        EchRocKind kind; /* ECH_ROC_KINDS: counted */
    } known[] = {{"kernel_dispatch", ECH_ROC_KERNEL}, {"memory_copy", ECH_ROC_COPY}, {"memory_allocation", ECH_ROC_ALLOC},
                 {"hip_api", ECH_ROC_CALL},           {"hsa_api", ECH_ROC_CALL},     {"marker_api", ECH_ROC_MARK}};
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        g_autofree char *key = g_strdup(ech_json_text(r->json, NULL));
        const EchRocKind *kind = NULL;
        for (size_t i = 0; i < G_N_ELEMENTS(known) && !kind; i++)
            kind = is(key, known[i].key) ? &known[i].kind : NULL;
        uint64_t n = r->records->len;
        EchRocKind as = kind ? *kind : ECH_ROC_KINDS;
        uint64_t others = 0;
        if (kind ? !each_element(r, take_record, &as) : !each_element(r, count_record, &others))
            return false;
        if (strlen(key) < 64)
            ech_diag_note(r->ret->records, key, kind ? r->records->len - n : others);
    }
    return token == ECH_JSON_OBJECT_END;
}

static const char *operation_of(const Reader *r, const Raw *raw)
{
    int64_t kind = raw->fields[KIND], operation = raw->fields[OPERATION];
    const GPtrArray *operations = kind >= 0 && kind < r->kinds->len ? r->kinds->pdata[kind] : NULL;
    return operations && operation >= 0 && operation < operations->len ? operations->pdata[operation] : "?";
}

static EchRocAgent agent_of(const Reader *r, int64_t handle)
{
    guint device = GPOINTER_TO_UINT(g_hash_table_lookup(r->gpus, &handle));
    return (EchRocAgent){.gpu = device > 0, .device = device ? device - 1 : 0};
}

static uint32_t small(int64_t value)
{
    return (uint32_t)CLAMP(value, 0, UINT32_MAX);
}

static void add_record(Reader *r, const Raw *raw)
{
    const int64_t *f = raw->fields;
    EchRocRecord record = ech_roc_record(raw->kind);
    record.start = f[START];
    record.end = f[END];
    record.call = f[CALL];
    record.thread = f[THREAD] == ECH_ROC_NONE ? 0 : f[THREAD];
    record.queue = f[QUEUE] == ECH_ROC_NONE ? 0 : f[QUEUE];
    record.stream = f[STREAM] == ECH_ROC_NONE ? 0 : f[STREAM];
    record.bytes = f[BYTES];
    record.address = f[ADDRESS];
    record.process = (uint8_t)r->n_processes;
    record.to = agent_of(r, f[AGENT]);
    record.shared = small(f[SHARED]);
    for (int i = 0; i < 3; i++) {
        record.items[i] = small(f[ITEMS + i]);
        record.block[i] = small(f[BLOCK + i]);
    }
    const char *operation = operation_of(r, raw);
    if (raw->kind == ECH_ROC_KERNEL) {
        const char *name = g_hash_table_lookup(r->kernels, &f[KERNEL]);
        record.name = name && *name ? ech_rocprof_kernel_name(r->rocprof, name) : ECH_NONE;
    } else if (raw->kind == ECH_ROC_CALL || raw->kind == ECH_ROC_MARK) {
        const char *message = raw->kind == ECH_ROC_MARK ? g_hash_table_lookup(r->ranges, &f[CALL]) : NULL;
        record.name = ech_trace_builder_string(r->builder, message && *message ? message : operation, -1);
    }
    if (raw->kind == ECH_ROC_COPY) {
        record.from = agent_of(r, f[SOURCE]);
        record.to = agent_of(r, f[TARGET]);
    }
    if (raw->kind == ECH_ROC_ALLOC && g_str_has_suffix(operation, "FREE"))
        record.kind = ECH_ROC_FREE;
    ech_rocprof_add(r->rocprof, &record);
}

/* ---- processes ---- */

static bool take_process(Reader *r, EchJsonToken token, void *data)
{
    (void)data;
    if (token != ECH_JSON_OBJECT)
        return pass_over(r, token);
    if (r->n_processes == ECH_ROC_PROCESSES) {
        ech_diag_dropped(r->ret->diag, "processes_beyond_256", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return pass_over(r, token);
    }
    r->gpus = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    r->kernels = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    r->ranges = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    r->kinds = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    r->records = g_array_new(FALSE, FALSE, sizeof(Raw));
    r->n_devices = 0;
    bool ok = true;
    while (ok && (token = ech_json_next(r->json)) == ECH_JSON_KEY) {
        const char *key = ech_json_text(r->json, NULL);
        ok = is(key, "agents")           ? each_element(r, take_agent, NULL)
             : is(key, "kernel_symbols") ? each_element(r, take_kernel_symbol, NULL)
             : is(key, "strings")        ? read_strings(r)
             : is(key, "buffer_records") ? read_records(r)
                                         : ech_json_skip(r->json);
    }
    ok = ok && token == ECH_JSON_OBJECT_END;
    for (guint i = 0; ok && i < r->records->len; i++)
        add_record(r, &g_array_index(r->records, Raw, i));
    g_ptr_array_unref(r->kinds);
    g_hash_table_unref(r->ranges);
    g_hash_table_unref(r->kernels);
    g_hash_table_unref(r->gpus);
    g_array_unref(r->records);
    r->n_processes++;
    return ok;
}

static bool read_document(Reader *r)
{
    EchJsonToken token = ech_json_next(r->json);
    if (token != ECH_JSON_OBJECT)
        return false;
    while ((token = ech_json_next(r->json)) == ECH_JSON_KEY)
        if (is(ech_json_text(r->json, NULL), "rocprofiler-sdk-tool") ? !each_element(r, take_process, NULL) : !ech_json_skip(r->json))
            return false;
    return token == ECH_JSON_OBJECT_END;
}

static bool rocprof_json_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(EchJson) json = ech_json_new(source);
    g_autoptr(EchRocprof) rocprof = ech_rocprof_new(ret, "rocprof_json");
    Reader r = {.ret = ret, .where = ech_source_path(source), .json = json, .rocprof = rocprof, .builder = ech_rocprof_builder(rocprof)};
    if (!read_document(&r))
        return ech_json_error(json, error);
    if (r.n_processes == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: a JSON document, but not rocprofv3's: nothing is in \"rocprofiler-sdk-tool\"", r.where);
        return false;
    }
    ech_diag_dropped(ret->diag, "strings_repaired", ech_json_repaired(json), NULL);
    return ech_rocprof_finish(rocprof, options->beside, error);
}

static int probe(const uint8_t *head, size_t n)
{
    size_t at = ech_head_begin(head, n);
    return at < n && head[at] == '{' && ech_head_has(head, n, "\"rocprofiler-sdk-tool\"") ? 2 : 0;
}

const EchImportClass ech_import_rocprof_json = {
    .name = "rocprof_json",
    .summary = "rocprofv3's JSON of an AMD GPU (--output-format json)",
    .takes_programs = true,
    .probe = probe,
    .read = rocprof_json_read,
    .when_idle = "nothing in it ran on a GPU; 'rocprofv3 --runtime-trace' records what does",
};
