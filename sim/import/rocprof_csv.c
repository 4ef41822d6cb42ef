/* Tables of AMD's profilers, a row for each thing recorded: rocprofv3's (--output-format csv; rocpd2csv; rocprofiler-sdk
 * source/lib/rocprofiler-sdk-tool/generateCSV.cpp), of which those of one run lie beside one another under one stem, STEM_kernel_trace.csv,
 * STEM_memory_copy_trace.csv ..., rocprof's of kernels (results.csv), and those that ROCm Compute Profiler makes of both, with a column for each counter.
 * Columns are told by their names, which have changed with releases.
 *
 * Copies have no sizes in them. What runs kernels or is a copy's end on the device is a GPU, and so are those of STEM_agent_info.csv; they are counted in the
 * order of their numbers ("Agent 4", "GPU 0", 4). */
#include "sim/import/pasted.h"
#include "sim/import/rocprof.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

enum { MAX_COLUMNS = 1 << 14 };

typedef enum {
    PROCESS,
    AGENT,
    QUEUE,
    STREAM,
    THREAD,
    KERNEL,
    FUNCTION,
    DOMAIN_,
    DIRECTION,
    OPERATION,
    SOURCE,
    TARGET,
    BYTES,
    ADDRESS,
    CALL,
    START,
    END,
    SHARED,
    BLOCK,
    ITEMS = BLOCK + 3,
    TYPE = ITEMS + 3,
    NODE,
    LOGICAL_NODE,
    TYPE_NODE,
    PRODUCT,
    COUNTER,
    N_FIELDS
} Field;

static const char *const field_names[N_FIELDS][4] = {
    [PROCESS] = {"Guid", "pid"},
    [AGENT] = {"Agent_Id", "gpu-id", "GPU_ID"},
    [QUEUE] = {"Queue_Id", "queue-id"},
    [STREAM] = {"Stream_Id"},
    [THREAD] = {"Thread_Id", "tid"},
    [KERNEL] = {"Kernel_Name", "KernelName"},
    [FUNCTION] = {"Function"},
    [DOMAIN_] = {"Domain"},
    [DIRECTION] = {"Direction"},
    [OPERATION] = {"Operation"},
    [SOURCE] = {"Source_Agent_Id"},
    [TARGET] = {"Destination_Agent_Id"},
    [BYTES] = {"Allocation_Size"},
    [ADDRESS] = {"Address"},
    [CALL] = {"Correlation_Id"},
    [START] = {"Start_Timestamp", "BeginNs"},
    [END] = {"End_Timestamp", "EndNs"},
    [SHARED] = {"LDS_Block_Size", "Group_Segment_Size", "lds", "LDS_Per_Workgroup"},
    [BLOCK] = {"Workgroup_Size_X", "wgr", "Workgroup_Size"},
    [BLOCK + 1] = {"Workgroup_Size_Y"},
    [BLOCK + 2] = {"Workgroup_Size_Z"},
    [ITEMS] = {"Grid_Size_X", "grd", "Grid_Size"},
    [ITEMS + 1] = {"Grid_Size_Y"},
    [ITEMS + 2] = {"Grid_Size_Z"},
    [TYPE] = {"Agent_Type"},
    [NODE] = {"Node_Id"},
    [LOGICAL_NODE] = {"Logical_Node_Id"},
    [TYPE_NODE] = {"Logical_Node_Type_Id"},
    [PRODUCT] = {"Product_Name"},
    [COUNTER] = {"Counter_Name"},
};

/* The tables of one run, by what their names end with. */
static const char *const tables[] = {"kernel_trace.csv",     "memory_copy_trace.csv", "memory_allocation_trace.csv", "hip_api_trace.csv", "hsa_api_trace.csv",
                                     "marker_api_trace.csv", "agent_info.csv"};

/* A GPU, by the number that rows have for it. */
typedef struct {
    int64_t number;
    char *name; /* may be empty */
} Gpu;

typedef struct {
    EchImport *ret;
    const char *where; /* of the table that is being read */
    uint64_t line;
    EchRocprof *rocprof;
    EchTraceBuilder *builder;
    GHashTable *processes; /* GUID -> its number + 1 */
    GArray *gpus;          /* Gpu */
    GArray *records;       /* EchRocRecord; the devices in them are numbers of rows, until all GPUs are known */
    bool by_type;          /* rows number GPUs alone: "GPU 0" */
    GString *text;         /* of a field */

    /* Of a table. */
    int columns[N_FIELDS]; /* -1: it has no such column */
    EchRocKind kind;
    const char *starts; /* what the column of beginnings is called */
    /* Of a row. */
    EchWords *fields; /* fields[MAX_COLUMNS] */
} Reader;

/* Where the quote stands that ends the text at @at; @n where none does. */
static size_t end_of_quoted(const char *data, size_t n, size_t at)
{
    while (at < n && !(data[at] == '"' && (at + 1 == n || strchr(",\r\n", data[at + 1]))))
        at += data[at] == '"' && data[at + 1] == '"' ? 2 : 1;
    return MIN(at, n);
}

/* Cuts the row at @at into the fields, quotes left around them; returns where the next begins. A quote in a field in quotes is written twice, or ends it where
 * a comma or the row's end follows. */
static size_t split(const char *data, size_t n, size_t at, EchWords *fields, unsigned *ret_n)
{
    unsigned n_fields = 0;
    for (bool more = true; more;) {
        size_t begin = at;
        if (at < n && data[at] == '"')
            at = end_of_quoted(data, n, at + 1);
        while (at < n && data[at] != ',' && data[at] != '\n')
            at++;
        if (n_fields < MAX_COLUMNS)
            fields[n_fields] = ech_words_trim(data + begin, at - begin);
        n_fields++;
        more = at < n && data[at] == ',';
        at += at < n;
    }
    *ret_n = MIN(n_fields, MAX_COLUMNS);
    return at;
}

/* A field's text without its quotes, twice written ones once; "" where there is none. Borrowed until the next call. */
static const char *text_of(Reader *r, Field field)
{
    g_string_truncate(r->text, 0);
    if (r->columns[field] < 0)
        return r->text->str;
    EchWords words = r->fields[r->columns[field]];
    bool quoted = words.n >= 2 && words.text[0] == '"' && words.text[words.n - 1] == '"';
    for (size_t i = quoted; i < words.n - quoted; i++) {
        g_string_append_c(r->text, words.text[i] ? words.text[i] : ' ');
        i += quoted && words.text[i] == '"' && i + 1 < words.n - 1 && words.text[i + 1] == '"';
    }
    return r->text->str;
}

/* The whole number that a field ends with (16, "Agent 4", "0x7ffb26354000"); ECH_ROC_NONE where it ends with none. */
static int64_t number_of(Reader *r, Field field)
{
    const char *text = text_of(r, field), *word = strrchr(text, ' ');
    char *end;
    word = word ? word + 1 : text;
    guint64 value = g_ascii_strtoull(word, &end, 0);
    return end != word && *end == '\0' && value <= INT64_MAX ? (int64_t)value : ECH_ROC_NONE;
}

/* Nanoseconds, of tools that calculate with them with a fraction. What a spreadsheet wrote has lost digits ("8.1097E+14") and is no time. */
static int64_t time_of(Reader *r, Field field)
{
    const char *text = text_of(r, field);
    char *end;
    guint64 value = g_ascii_strtoull(text, &end, 10);
    const char *rest = end + (*end == '.' ? 1 + strspn(end + 1, "0123456789") : 0);
    return end != text && *rest == '\0' && value <= INT64_MAX ? (int64_t)value : ECH_ROC_NONE;
}

static uint32_t small_of(Reader *r, Field field)
{
    int64_t value = number_of(r, field);
    return (uint32_t)CLAMP(value, 0, UINT32_MAX);
}

static Gpu *find_gpu(const Reader *r, int64_t number)
{
    for (guint i = 0; i < r->gpus->len; i++)
        if (g_array_index(r->gpus, Gpu, i).number == number)
            return &g_array_index(r->gpus, Gpu, i);
    return NULL;
}

/* @name: "" where that is not told. */
static void add_gpu(Reader *r, int64_t number, const char *name)
{
    Gpu *known = find_gpu(r, number);
    if (known && *name) {
        g_free(known->name);
        known->name = g_strdup(name);
    } else if (!known && number != ECH_ROC_NONE && r->gpus->len < ECH_ROC_DEVICES) {
        Gpu gpu = {number, g_strdup(name)};
        g_array_append_val(r->gpus, gpu);
    }
}

/* The agent in @field; @gpu: the row says that it is one. */
static EchRocAgent agent_of(Reader *r, Field field, bool gpu)
{
    int64_t number = number_of(r, field);
    bool cpu = g_str_has_prefix(r->text->str, "CPU ");
    r->by_type = r->by_type || g_str_has_prefix(r->text->str, "GPU ");
    if (gpu)
        add_gpu(r, number, "");
    return (EchRocAgent){.gpu = gpu, .device = cpu || number > UINT32_MAX || number < 0 ? UINT32_MAX : (uint32_t)number};
}

static void clear_gpu(gpointer data)
{
    g_free(((Gpu *)data)->name);
}

/* ---- tables ---- */

/* What @field is called in the words of a table's head; NULL where they mean something else. */
static const char *name_of(const EchWords *words, Field field)
{
    bool quoted = words->n >= 2 && words->text[0] == '"';
    for (unsigned a = 0; a < G_N_ELEMENTS(field_names[field]) && field_names[field][a]; a++)
        if (words->n == strlen(field_names[field][a]) + 2 * quoted &&
            g_ascii_strncasecmp(words->text + quoted, field_names[field][a], words->n - 2 * quoted) == 0)
            return field_names[field][a];
    return NULL;
}

/* What the table's columns say that it is; false for one that is not of the kinds read. */
static bool find_columns(Reader *r, unsigned n_columns)
{
    for (unsigned f = 0; f < N_FIELDS; f++) {
        r->columns[f] = -1;
        for (unsigned c = 0; c < n_columns && r->columns[f] < 0; c++) {
            const char *name = name_of(&r->fields[c], (Field)f);
            if (!name)
                continue;
            r->columns[f] = (int)c;
            r->starts = f == START ? name : r->starts;
        }
    }
    const int *c = r->columns;
    if (c[TYPE] >= 0 && c[NODE] >= 0) {
        r->kind = ECH_ROC_KINDS;
        return true;
    }
    r->kind = c[KERNEL] >= 0      ? ECH_ROC_KERNEL
              : c[DIRECTION] >= 0 ? ECH_ROC_COPY
              : c[BYTES] >= 0     ? ECH_ROC_ALLOC
              : c[FUNCTION] >= 0  ? ECH_ROC_CALL
                                  : ECH_ROC_KINDS;
    return r->kind != ECH_ROC_KINDS && c[START] >= 0 && c[END] >= 0 && c[COUNTER] < 0;
}

static uint8_t process_of(Reader *r)
{
    const char *guid = text_of(r, PROCESS);
    guint found = GPOINTER_TO_UINT(g_hash_table_lookup(r->processes, guid));
    if (!found) {
        found = MIN(g_hash_table_size(r->processes), ECH_ROC_PROCESSES - 1) + 1;
        g_hash_table_insert(r->processes, g_strdup(guid), GUINT_TO_POINTER(found));
    }
    return (uint8_t)(found - 1);
}

static void take_agent(Reader *r)
{
    if (strcmp(text_of(r, TYPE), "GPU") != 0)
        return;
    g_autofree char *name = g_strdup(text_of(r, PRODUCT));
    add_gpu(r, number_of(r, r->by_type ? TYPE_NODE : r->columns[LOGICAL_NODE] >= 0 ? LOGICAL_NODE : NODE), name);
}

static void take_row(Reader *r)
{
    EchRocRecord record = ech_roc_record(r->kind);
    record.start = time_of(r, START);
    record.end = time_of(r, END);
    if (record.start == ECH_ROC_NONE) {
        ech_diag_dropped(r->ret->diag, "rows_without_times", 1, "%s:%" G_GUINT64_FORMAT ": %s: '%s'", r->where, r->line, r->starts, text_of(r, START));
        return;
    }
    record.call = number_of(r, CALL);
    int64_t *const places[] = {&record.thread, &record.queue, &record.stream};
    static const Field place_fields[] = {THREAD, QUEUE, STREAM};
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        int64_t value = number_of(r, place_fields[i]);
        *places[i] = value == ECH_ROC_NONE ? 0 : value;
    }
    record.process = process_of(r);
    if (r->kind == ECH_ROC_KERNEL) {
        record.name = ech_rocprof_kernel_name(r->rocprof, text_of(r, KERNEL));
        record.to = agent_of(r, AGENT, true);
        record.shared = small_of(r, SHARED);
        for (unsigned i = 0; i < 3; i++) { /* rocprof's have one dimension */
            record.block[i] = i && r->columns[BLOCK + i] < 0 ? 1 : small_of(r, BLOCK + i);
            record.items[i] = i && r->columns[ITEMS + i] < 0 ? 1 : small_of(r, ITEMS + i);
        }
    } else if (r->kind == ECH_ROC_COPY) {
        g_autofree char *direction = g_strdup(text_of(r, DIRECTION)); /* "MEMORY_COPY_HOST_TO_DEVICE", "HOST_TO_DEVICE" */
        record.from = agent_of(r, SOURCE, strstr(direction, "DEVICE_TO_") != NULL);
        record.to = agent_of(r, TARGET, g_str_has_suffix(direction, "TO_DEVICE"));
    } else if (r->kind == ECH_ROC_ALLOC) {
        record.kind = g_str_has_suffix(text_of(r, OPERATION), "FREE") ? ECH_ROC_FREE : ECH_ROC_ALLOC;
        record.bytes = number_of(r, BYTES);
        record.address = number_of(r, ADDRESS);
        record.to = agent_of(r, AGENT, false);
    } else {
        record.kind = g_str_has_prefix(text_of(r, DOMAIN_), "MARKER") ? ECH_ROC_MARK : ECH_ROC_CALL;
        record.name = ech_trace_builder_string(r->builder, text_of(r, FUNCTION), -1);
    }
    g_array_append_val(r->records, record);
}

static bool read_table(Reader *r, EchSource *source, GError **error)
{
    static const char *const counted[] = {[ECH_ROC_CALL] = "api_trace",
                                          [ECH_ROC_KERNEL] = "kernel_trace",
                                          [ECH_ROC_COPY] = "memory_copy_trace",
                                          [ECH_ROC_ALLOC] = "memory_allocation_trace",
                                          [ECH_ROC_KINDS] = "agent_info"};
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    data = data ? data : "";
    unsigned n_columns, n_fields;
    r->where = ech_source_path(source);
    size_t at = split(data, n, 0, r->fields, &n_columns);
    if (!find_columns(r, n_columns)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s:1: not the columns of a table of rocprofv3's that is read; expected \"Kernel_Name\", \"Direction\", \"Allocation_Size\" or "
                    "\"Function\", and \"Start_Timestamp\", \"End_Timestamp\"",
                    r->where);
        return false;
    }
    for (r->line = 2; at < n; r->line++) {
        at = split(data, n, at, r->fields, &n_fields);
        if (n_fields == 1 && r->fields[0].n == 0)
            continue;
        if (n_fields != n_columns) {
            ech_diag_dropped(r->ret->diag, "rows_of_other_lengths", 1, "%s:%" G_GUINT64_FORMAT, r->where, r->line);
            continue;
        }
        ech_diag_note(r->ret->records, counted[r->kind], 1);
        if (r->kind == ECH_ROC_KINDS)
            take_agent(r);
        else
            take_row(r);
    }
    return true;
}

/* The other tables of the run whose table is at @path. */
static bool read_beside(Reader *r, const char *path, GError **error)
{
    const char *own = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(tables) && !own; i++)
        own = g_str_has_suffix(path, tables[i]) ? tables[i] : NULL;
    for (size_t i = 0; own && i < G_N_ELEMENTS(tables); i++) {
        g_autofree char *other = g_strdup_printf("%.*s%s", (int)(strlen(path) - strlen(own)), path, tables[i]);
        if (tables[i] == own || !g_file_test(other, G_FILE_TEST_IS_REGULAR))
            continue;
        g_autoptr(EchSource) source = ech_source_open(other, error);
        if (!source || !read_table(r, source, error))
            return false;
        ech_diag_source(r->ret->diag, "table of the same run", other);
    }
    return true;
}

static int compare_gpus(gconstpointer a, gconstpointer b)
{
    const Gpu *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void count_agent(const Reader *r, EchRocAgent *agent, bool ask)
{
    const Gpu *gpu = agent->gpu || ask ? find_gpu(r, agent->device) : NULL;
    *agent = (EchRocAgent){.gpu = agent->gpu || gpu, .device = gpu ? (uint32_t)(gpu - (const Gpu *)(const void *)r->gpus->data) : 0};
}

/* Of tables whose rows have no time: false, where there is one. */
static bool tell_untimed(const EchImport *ret, GError **error)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(ret->diag, &n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].name, "rows_without_times") != 0)
            continue;
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s is no time; expected whole nanoseconds (a spreadsheet that saved the table has rounded them: the profiler's own is needed)",
                    rows[i].first);
        return false;
    }
    return true;
}

static bool rocprof_csv_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(EchRocprof) rocprof = ech_rocprof_new(ret, "rocprof_csv");
    g_autoptr(GHashTable) processes = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    g_autoptr(GArray) gpus = g_array_new(FALSE, FALSE, sizeof(Gpu)), records = g_array_new(FALSE, FALSE, sizeof(EchRocRecord));
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree EchWords *fields = g_new(EchWords, MAX_COLUMNS);
    Reader r = {.ret = ret,
                .rocprof = rocprof,
                .builder = ech_rocprof_builder(rocprof),
                .processes = processes,
                .gpus = gpus,
                .records = records,
                .text = text,
                .fields = fields};
    const char *path = ech_source_path(source);
    g_array_set_clear_func(gpus, clear_gpu);
    if (!read_table(&r, source, error) || (path && !options->ignore_beside && !read_beside(&r, path, error)))
        return false;
    if (records->len == 0 && !tell_untimed(ret, error))
        return false;
    g_array_sort(gpus, compare_gpus);
    for (guint i = 0; i < gpus->len; i++)
        ech_rocprof_name_device(rocprof, i, g_array_index(gpus, Gpu, i).name);
    for (guint i = 0; i < records->len; i++) {
        EchRocRecord *record = &g_array_index(records, EchRocRecord, i);
        count_agent(&r, &record->from, false);
        count_agent(&r, &record->to, record->kind == ECH_ROC_ALLOC);
        ech_rocprof_add(rocprof, record);
    }
    return ech_rocprof_finish(rocprof, options->beside, error);
}

static int probe(const uint8_t *head, size_t n)
{
    g_autofree EchWords *fields = g_new(EchWords, MAX_COLUMNS);
    Reader r = {.fields = fields};
    unsigned n_columns;
    split((const char *)head, n, 0, r.fields, &n_columns);
    return find_columns(&r, n_columns) && r.kind != ECH_ROC_KINDS ? 2 : 0;
}

const EchImportClass ech_import_rocprof_csv = {
    .name = "rocprof_csv",
    .summary = "tables of rocprofv3 (--output-format csv: STEM_kernel_trace.csv and what lies beside it) and of rocprof's kernels (results.csv), "
               "ROCm Compute Profiler's (pmc_perf.csv)",
    .takes_programs = true,
    .probe = probe,
    .read = rocprof_csv_read,
    .when_idle = "nothing in it ran on a GPU; 'rocprofv3 --runtime-trace' records what does",
};
