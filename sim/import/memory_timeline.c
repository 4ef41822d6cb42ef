/* PyTorch's memory timeline (export_memory_timeline to *.raw.json or *.raw.json.gz): [[time, action, bytes, category], ...].
 *
 * Actions of torch/profiler/_memory_profiler.py: 1 what was there before, 2 created, 3 a new version (its bytes leave one category and enter another), 4
 * destroyed; bytes are negative where they leave. Times are Unix nanoseconds (microseconds in short numbers), -1 before the profile. The file names no tensors:
 * what is destroyed is taken to be the oldest live one of the same size and category (tensors_matched_by_size_and_category). */
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/import.h"
#include "sim/import/json_stream.h"

enum { ACTION_PREEXISTING = 1, ACTION_CREATE, ACTION_VERSION, ACTION_DESTROY };
enum { N_CATEGORIES = 8 };

static const struct {
    const char *name;
    EchRole role;
} categories[N_CATEGORIES] = {{"parameter", ECH_ROLE_PARAMETER},
                              {"optimizer state", ECH_ROLE_OPTIMIZER},
                              {"input", ECH_ROLE_INPUT},
                              {"temporary", ECH_ROLE_TEMPORARY},
                              {"activation", ECH_ROLE_ACTIVATION},
                              {"gradient", ECH_ROLE_GRADIENT},
                              {"autograd detail", ECH_ROLE_TEMPORARY},
                              {"unknown", ECH_ROLE_UNKNOWN}};

typedef struct {
    uint64_t bytes;
    unsigned category;
} Kind;

typedef struct {
    EchImport *ret;
    EchJson *json;
    const char *where;
    EchTraceBuilder *builder;
    EchId memory, queue;
    GHashTable *live; /* Kind -> GQueue of buffer + 1, oldest first */
    EchId moving;     /* of a new version: left one category and not yet entered another; ECH_NONE */
    bool has_zero;
    int64_t zero;
    uint64_t guesses;
} Reader;

static guint kind_hash(gconstpointer p)
{
    const Kind *k = p;
    return ech_hash_pair(k->bytes, k->category);
}

static gboolean kind_equal(gconstpointer a, gconstpointer b)
{
    const Kind *x = a, *y = b;
    return x->bytes == y->bytes && x->category == y->category;
}

static void queue_free(gpointer data)
{
    g_queue_free(data);
}

static void put(Reader *r, uint64_t bytes, unsigned category, EchId buffer)
{
    Kind kind = {bytes, category};
    GQueue *queue = g_hash_table_lookup(r->live, &kind);
    if (!queue) {
        queue = g_queue_new();
        g_hash_table_insert(r->live, g_memdup2(&kind, sizeof kind), queue);
    }
    g_queue_push_tail(queue, GUINT_TO_POINTER(buffer + 1));
    if (category < N_CATEGORIES - 1)
        ech_trace_builder_peek_buffer(r->builder, buffer)->role = (uint8_t)categories[category].role;
}

/* The oldest live one of this kind, or ECH_NONE. */
static EchId take(Reader *r, uint64_t bytes, unsigned category)
{
    Kind kind = {bytes, category};
    GQueue *queue = g_hash_table_lookup(r->live, &kind);
    if (!queue || g_queue_is_empty(queue))
        return ECH_NONE;
    r->guesses += g_queue_get_length(queue) > 1;
    return GPOINTER_TO_UINT(g_queue_pop_head(queue)) - 1;
}

static EchId add_buffer(Reader *r, uint64_t bytes, unsigned category, bool resident)
{
    EchBuffer b = ech_buffer_init();
    b.name = ech_trace_builder_string(r->builder, categories[category].name, -1);
    b.memory = r->memory;
    b.bytes = bytes;
    b.resident = resident;
    return ech_trace_builder_buffer(r->builder, b);
}

static void add_op(Reader *r, EchOpKind kind, EchId buffer, uint64_t bytes, EchTime time)
{
    EchOp op = ech_op_init(kind);
    op.name = ech_trace_builder_peek_buffer(r->builder, buffer)->name;
    op.queue = r->queue;
    op.target = buffer;
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    op.recorded.start = time;
    ech_trace_builder_op(r->builder, op);
}

static EchTime event_time(Reader *r, int64_t time)
{
    if (time < 0)
        return ECH_TIME_NONE;
    if (!r->has_zero) {
        r->zero = time;
        r->has_zero = true;
    }
    /* Unix times of this century have 19 digits in nanoseconds and 16 in microseconds. */
    int64_t scale = r->zero > INT64_C(100000000000000000) ? ECH_PS_PER_NS : ECH_PS_PER_US, ps;
    if (time < r->zero || __builtin_mul_overflow(time - r->zero, scale, &ps)) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return ECH_TIME_NONE;
    }
    return ps;
}

static void event(Reader *r, const int64_t v[4])
{
    static const char *const records[] = {"PREEXISTING", "CREATE", "INCREMENT_VERSION", "DESTROY"};
    if (v[1] < 1 || v[1] > 4 || v[2] == INT64_MIN) {
        ech_diag_dropped(r->ret->diag, "events_of_unknown_action", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
        return;
    }
    unsigned category = v[3] >= 0 && v[3] < N_CATEGORIES ? (unsigned)v[3] : N_CATEGORIES - 1;
    if (category != v[3])
        ech_diag_dropped(r->ret->diag, "unknown_categories", 1, "%" G_GINT64_FORMAT, v[3]);
    uint64_t bytes = (uint64_t)(v[2] < 0 ? -v[2] : v[2]);
    EchTime time = event_time(r, v[0]);
    ech_diag_note(r->ret->records, records[v[1] - 1], 1);
    if (v[1] == ACTION_PREEXISTING) {
        put(r, bytes, category, add_buffer(r, bytes, category, true));
    } else if (v[1] == ACTION_CREATE) {
        EchId buffer = add_buffer(r, bytes, category, false);
        add_op(r, ECH_OP_ALLOC, buffer, bytes, time);
        put(r, bytes, category, buffer);
    } else if (v[1] == ACTION_VERSION && v[2] < 0) {
        r->moving = take(r, bytes, category);
        if (r->moving == ECH_NONE)
            ech_diag_dropped(r->ret->diag, "versions_of_unknown_tensors", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
    } else if (v[1] == ACTION_VERSION) {
        if (r->moving != ECH_NONE && ech_trace_builder_peek_buffer(r->builder, r->moving)->bytes == bytes)
            put(r, bytes, category, r->moving);
        r->moving = ECH_NONE;
    } else {
        EchId buffer = take(r, bytes, category);
        if (buffer == ECH_NONE) {
            ech_diag_dropped(r->ret->diag, "frees_of_unknown_tensors", 1, "byte %" G_GUINT64_FORMAT, ech_json_offset(r->json));
            return;
        }
        add_op(r, ECH_OP_FREE, buffer, bytes, time);
    }
}

/* [[t, action, bytes, category], ...] */
static bool read_events(Reader *r, GError **error)
{
    if (ech_json_next(r->json) != ECH_JSON_ARRAY)
        return ech_json_error(r->json, error);
    EchJsonToken token;
    while ((token = ech_json_next(r->json)) == ECH_JSON_ARRAY) {
        int64_t v[4] = {0};
        for (int i = 0; i < 4; i++) {
            size_t n;
            if (ech_json_next(r->json) != ECH_JSON_NUMBER)
                return ech_json_error(r->json, error);
            const char *text = ech_json_text(r->json, &n);
            if (!ech_json_parse_i64(text, n, &v[i])) {
                g_autofree char *quoted = ech_quote(text, (gssize)n, 40);
                g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: byte %" G_GUINT64_FORMAT ": '%s' is not a whole number", r->where, ech_json_offset(r->json),
                            quoted);
                return false;
            }
        }
        if (ech_json_next(r->json) != ECH_JSON_ARRAY_END)
            return ech_json_error(r->json, error);
        event(r, v);
    }
    return token == ECH_JSON_ARRAY_END && ech_json_next(r->json) == ECH_JSON_END ? true : ech_json_error(r->json, error);
}

static bool read_timeline(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(EchJson) json = ech_json_new(source);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("memory_timeline");
    g_autoptr(GHashTable) live = g_hash_table_new_full(kind_hash, kind_equal, g_free, queue_free);
    Reader r = {.ret = ret, .json = json, .where = ech_source_path(source), .builder = builder, .live = live, .moving = ECH_NONE};
    r.memory = ech_trace_builder_memory(builder, "hbm");
    r.queue = ech_trace_builder_queue(builder, "allocator", ECH_QUEUE_HOST, 0);
    if (!read_events(&r, error))
        return false;
    ech_diag_note(ret->diag, "tensors_matched_by_size_and_category", r.guesses);
    if (r.has_zero && r.zero >= 0)
        ech_trace_builder_printf_property(builder, "time_zero_unix_us", "%" G_GINT64_FORMAT, r.zero > INT64_C(100000000000000000) ? r.zero / 1000 : r.zero);
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

/* "[[" and four integers. */
static int probe(const uint8_t *head, size_t n)
{
    size_t i = ech_head_begin(head, n);
    int brackets = 0, numbers = 0;
    for (; i < n && brackets < 2; i++) {
        if (head[i] == '[')
            brackets++;
        else if (!g_ascii_isspace(head[i]))
            return 0;
    }
    for (; i < n && i < 4096; i++) {
        if (head[i] == ']')
            return brackets == 2 && numbers == 3 ? 2 : 0;
        if (head[i] == ',')
            numbers++;
        else if (!g_ascii_isdigit(head[i]) && head[i] != '-' && head[i] != ' ')
            return 0;
    }
    return 0;
}

const EchImportClass ech_import_memory_timeline = {
    .name = "memory_timeline",
    .summary = "PyTorch profiler's raw memory timeline (export_memory_timeline): sizes and categories over time",
    .probe = probe,
    .read = read_timeline,
};
