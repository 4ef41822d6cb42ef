/* JAX's device memory profile (jax.profiler.save_device_memory_profile): a pprof protobuf of what is live at one instant, by Python stack.
 * Field numbers: perftools/profiles.proto.
 *
 * It becomes a trace without operations: a starting resident set. Rules, each counted:
 *  - a sample's buffers share its bytes evenly (buffers_sharing_a_samples_bytes); a sample of very many becomes one (samples_kept_whole);
 *  - an executable's bytes are unknown on TPU, written as -1 each (executables_of_unknown_size);
 *  - "TPU_5(process=0,...)" and "gpu:5" are device 5; the lowest is "hbm", the others "hbm:N"; "cpu" and host kinds are "host". */
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/import/import.h"
#include "sim/import/wire.h"

#include <string.h>

enum { MAX_BUFFERS = 1 << 17, MAX_STACK = 1 << 12, MAX_DEVICES = 4096, MAX_VALUES = 16 };

typedef struct {
    const uint8_t *data;
    size_t n;
} Span;

typedef struct {
    uint64_t name, file;
} Function;

typedef struct {
    EchWire wire; /* of the Location */
} Location;

typedef struct {
    EchImport *ret;
    const char *where;
    EchTraceBuilder *builder;
    GArray *strings;        /* Span */
    GHashTable *functions;  /* id -> Function */
    GHashTable *locations;  /* id -> Location */
    GArray *samples;        /* EchWire of each Sample */
    int count_at, bytes_at; /* places of the two values, -1 */
    unsigned n_types;
    GArray *devices; /* uint32_t ordinals, ascending */
    GString *scratch;
    size_t n_buffers;
    uint64_t stack_budget;
} Reader;

static Span string_at(const Reader *r, uint64_t id)
{
    return id < r->strings->len ? g_array_index(r->strings, Span, id) : (Span){(const uint8_t *)"", 0};
}

static bool is(Span s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.data, text, s.n) == 0;
}

static void put(GHashTable *table, uint64_t id, gconstpointer value, size_t size)
{
    int64_t *key = g_new(int64_t, 1);
    *key = (int64_t)id;
    g_hash_table_replace(table, key, g_memdup2(value, size));
}

static gpointer get(GHashTable *table, uint64_t id)
{
    int64_t key = (int64_t)id;
    return g_hash_table_lookup(table, &key);
}

/* ---- the tables ---- */

static bool read_tables(Reader *r, EchWire wire, GError **error)
{
    EchWireField f, g;
    while (ech_wire_next(&wire, &f)) {
        if (f.type != ECH_WIRE_BYTES)
            continue;
        EchWire inner = ech_wire_sub(&wire, &f);
        uint64_t id = 0;
        Function function = {0};
        switch (f.number) {
        case 1: r->n_types++; break;
        case 2: g_array_append_val(r->samples, inner); break;
        case 4: {
            Location location = {inner};
            while (ech_wire_next(&inner, &g))
                id = g.number == 1 ? g.value : id;
            put(r->locations, id, &location, sizeof location);
            break;
        }
        case 5:
            while (ech_wire_next(&inner, &g)) {
                id = g.number == 1 ? g.value : id;
                function.name = g.number == 2 ? g.value : function.name;
                function.file = g.number == 4 ? g.value : function.file;
            }
            put(r->functions, id, &function, sizeof function);
            break;
        case 6: {
            Span s = {f.data, f.size};
            g_array_append_val(r->strings, s);
            break;
        }
        default: break;
        }
        if (!ech_wire_ok(&inner, r->where, error))
            return false;
    }
    return ech_wire_ok(&wire, r->where, error);
}

/* Which value counts and which is bytes. */
static bool read_types(Reader *r, EchWire wire, GError **error)
{
    EchWireField f, g;
    int at = 0;
    r->count_at = r->bytes_at = -1;
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1 || f.type != ECH_WIRE_BYTES)
            continue;
        uint64_t unit = 0;
        EchWire inner = ech_wire_sub(&wire, &f);
        while (ech_wire_next(&inner, &g))
            unit = g.number == 2 ? g.value : unit;
        if (r->count_at < 0 && is(string_at(r, unit), "count"))
            r->count_at = at;
        if (r->bytes_at < 0 && is(string_at(r, unit), "bytes"))
            r->bytes_at = at;
        at++;
    }
    if (r->bytes_at >= 0 && r->bytes_at < MAX_VALUES && r->count_at < MAX_VALUES)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                "%s: a pprof profile that counts no bytes; of these only memory profiles (jax.profiler.save_device_memory_profile) are read", r->where);
    return false;
}

/* ---- samples ---- */

/* Frames of JAX itself, which every array was made through. */
static bool is_plumbing(Span file)
{
    static const char *const folders[] = {"/jax/_src/", "/jax/interpreters/", "/jax/experimental/", "/jaxlib/"};
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        if (file.n && memmem(file.data, file.n, folders[i], strlen(folders[i])))
            return true;
    }
    return false;
}

/* "file:line:function", innermost first, as in other captures. ECH_NONE where there is none; *ret_name: the innermost frame of the program, or of all. */
static EchId stack_of(Reader *r, const EchWire *sample, EchId *ret_name)
{
    EchWire wire = *sample;
    EchWireField f, g, h;
    size_t n = 0;
    bool named = false;
    *ret_name = ECH_NONE;
    g_string_truncate(r->scratch, 0);
    while (ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            continue;
        EchWire ids = ech_wire_packed(&wire, &f);
        uint64_t id;
        while (ech_wire_packed_next(&ids, &id) && n < MAX_STACK) {
            const Location *location = get(r->locations, id);
            if (!location) {
                ech_diag_dropped(r->ret->diag, "frames_of_unknown_locations", 1, "location %" G_GUINT64_FORMAT, id);
                continue;
            }
            EchWire lines = location->wire;
            while (ech_wire_next(&lines, &g) && n < MAX_STACK) {
                if (g.number != 4 || g.type != ECH_WIRE_BYTES)
                    continue;
                uint64_t function_id = 0, line = 0;
                EchWire inner = ech_wire_sub(&lines, &g);
                while (ech_wire_next(&inner, &h)) {
                    function_id = h.number == 1 ? h.value : function_id;
                    line = h.number == 2 ? h.value : line;
                }
                const Function *function = get(r->functions, function_id);
                Span name = string_at(r, function ? function->name : 0), file = string_at(r, function ? function->file : 0);
                gsize before = r->scratch->len;
                if (n)
                    g_string_append_c(r->scratch, '\n');
                if (file.n)
                    g_string_append_printf(r->scratch, "%.*s:%" G_GINT64_FORMAT ":", (int)MIN(file.n, (size_t)4096), (const char *)file.data, (int64_t)line);
                g_string_append_len(r->scratch, (const char *)name.data, (gssize)MIN(name.n, (size_t)4096));
                bool own = !is_plumbing(file);
                if (n++ == 0 || (own && !named)) {
                    named = own;
                    const char *slash = file.n ? strrchr(r->scratch->str + before, '/') : NULL;
                    *ret_name = ech_trace_builder_string(r->builder, slash ? slash + 1 : r->scratch->str + before, -1);
                }
                if (r->scratch->len > r->stack_budget)
                    n = MAX_STACK;
            }
        }
    }
    if (r->scratch->len > r->stack_budget) {
        ech_diag_dropped(r->ret->diag, "stacks_cut", 1, NULL);
        return ECH_NONE;
    }
    r->stack_budget -= r->scratch->len;
    return r->scratch->len ? ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len) : ECH_NONE;
}

typedef struct {
    int64_t values[MAX_VALUES];
    unsigned n_values;
    Span kind, device, memory;
} Sample;

static bool read_sample(Reader *r, EchWire wire, Sample *ret, GError **error)
{
    EchWireField f, g;
    *ret = (Sample){.kind = {(const uint8_t *)"", 0}, .device = {(const uint8_t *)"", 0}, .memory = {(const uint8_t *)"", 0}};
    while (ech_wire_next(&wire, &f)) {
        if (f.number == 2) {
            EchWire packed = ech_wire_packed(&wire, &f);
            uint64_t value;
            while (ech_wire_packed_next(&packed, &value)) {
                if (ret->n_values < MAX_VALUES)
                    ret->values[ret->n_values++] = (int64_t)value;
            }
            if (!ech_wire_ok(&packed, r->where, error))
                return false;
        } else if (f.number == 3 && f.type == ECH_WIRE_BYTES) {
            EchWire inner = ech_wire_sub(&wire, &f);
            uint64_t key = 0, text = 0;
            while (ech_wire_next(&inner, &g)) {
                key = g.number == 1 ? g.value : key;
                text = g.number == 2 ? g.value : text;
            }
            if (!ech_wire_ok(&inner, r->where, error))
                return false;
            if (is(string_at(r, key), "kind"))
                ret->kind = string_at(r, text);
            else if (is(string_at(r, key), "device"))
                ret->device = string_at(r, text);
            else if (is(string_at(r, key), "memory")) /* our own reports say it so */
                ret->memory = string_at(r, text);
        }
    }
    return ech_wire_ok(&wire, r->where, error);
}

static bool on_host(Span device)
{
    return device.n >= 3 &&
           (g_ascii_strncasecmp((const char *)device.data, "cpu", 3) == 0 || (device.n >= 4 && g_ascii_strncasecmp((const char *)device.data, "host", 4) == 0));
}

/* The first number of "TPU_5(process=0,...)" or "gpu:5". */
static uint32_t ordinal(Span device)
{
    size_t i = 0;
    uint32_t value = 0;
    while (i < device.n && !g_ascii_isdigit(device.data[i]))
        i++;
    for (; i < device.n && g_ascii_isdigit(device.data[i]) && value < 1000000; i++)
        value = value * 10 + (uint32_t)(device.data[i] - '0');
    return value;
}

static bool note_device(Reader *r, uint32_t device)
{
    guint at = 0;
    for (; at < r->devices->len && g_array_index(r->devices, uint32_t, at) < device; at++)
        continue;
    if (at < r->devices->len && g_array_index(r->devices, uint32_t, at) == device)
        return true;
    if (r->devices->len == MAX_DEVICES)
        return false;
    g_array_insert_val(r->devices, at, device);
    return true;
}

static EchId memory_of(Reader *r, Span device, Span memory)
{
    if (memory.n && memory.n < 64) {
        g_autofree char *text = g_strndup((const char *)memory.data, memory.n);
        return ech_trace_builder_memory(r->builder, text);
    }
    if (on_host(device))
        return ech_trace_builder_memory(r->builder, "host");
    char name[32];
    uint32_t n = ordinal(device);
    g_snprintf(name, sizeof name, n == g_array_index(r->devices, uint32_t, 0) ? "hbm" : "hbm:%u", n);
    return ech_trace_builder_memory(r->builder, name);
}

static void add_sample(Reader *r, const Sample *s, const EchWire *wire)
{
    bool executable = is(s->kind, "executable");
    int64_t bytes = (unsigned)r->bytes_at < s->n_values ? s->values[r->bytes_at] : 0,
            count = r->count_at >= 0 && (unsigned)r->count_at < s->n_values ? s->values[r->count_at] : 1;
    ech_diag_note(r->ret->records, executable ? "executable" : "buffer", (uint64_t)MAX(count, 0));
    if (bytes < 0 || count < 0) {
        if (executable)
            ech_diag_note(r->ret->diag, "executables_of_unknown_size", (uint64_t)MAX(count, 1));
        else
            ech_diag_dropped(r->ret->diag, "samples_of_negative_size", 1, "%" G_GINT64_FORMAT " bytes", bytes);
        return;
    }
    if (bytes == 0)
        return;
    uint64_t n = (uint64_t)MAX(count, 1);
    if (n > MAX_BUFFERS - r->n_buffers || n > (uint64_t)bytes) {
        ech_diag_note(r->ret->diag, "samples_kept_whole", 1);
        n = 1;
    }
    if (n > 1)
        ech_diag_note(r->ret->diag, "buffers_sharing_a_samples_bytes", n);
    EchBuffer b = ech_buffer_init();
    b.stack = stack_of(r, wire, &b.name);
    if (b.name == ECH_NONE || executable)
        b.name = ech_trace_builder_string(r->builder, executable ? "(executable)" : "(buffer)", -1);
    b.memory = memory_of(r, s->device, s->memory);
    b.resident = 1;
    for (uint64_t i = 0; i < n; i++) {
        b.bytes = (uint64_t)bytes / n + (i < (uint64_t)bytes % n);
        ech_trace_builder_buffer(r->builder, b);
    }
    r->n_buffers += n;
}

static bool read_samples(Reader *r, GError **error)
{
    Sample s;
    bool labelled = false;
    for (guint i = 0; i < r->samples->len; i++) {
        if (!read_sample(r, g_array_index(r->samples, EchWire, i), &s, error))
            return false;
        labelled |= s.kind.n || s.device.n || s.memory.n;
        if (!on_host(s.device) && !note_device(r, ordinal(s.device))) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: more than %d devices", r->where, MAX_DEVICES);
            return false;
        }
    }
    if (r->samples->len > 0 && !labelled)
        ech_diag_remark(
            r->ret->diag,
            "none of its samples says on which device it lies, as JAX's do: it may be another program's heap, in the host's memory; it counts as a device's");
    for (guint i = 0; i < r->samples->len; i++) {
        const EchWire *wire = &g_array_index(r->samples, EchWire, i);
        if (!read_sample(r, *wire, &s, error))
            return false;
        add_sample(r, &s, wire);
    }
    return true;
}

static bool read_profile(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("memory_profile");
    g_autoptr(GArray) strings = g_array_new(FALSE, FALSE, sizeof(Span)), samples = g_array_new(FALSE, FALSE, sizeof(EchWire)),
                      devices = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GHashTable) functions = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free),
                          locations = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    g_autoptr(GString) scratch = g_string_new(NULL);
    Reader r = {.ret = ret,
                .where = ech_source_path(source),
                .builder = builder,
                .strings = strings,
                .samples = samples,
                .devices = devices,
                .functions = functions,
                .locations = locations,
                .scratch = scratch};
    r.stack_budget = MAX((uint64_t)16 << 20, (uint64_t)n * 4);
    EchWire wire = ech_wire_init(data, n);
    if (!read_tables(&r, wire, error) || !read_types(&r, wire, error) || !read_samples(&r, error))
        return false;
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

/* Value types first: messages of two small numbers; then samples or tables, and no text before field 6. */
static int probe(const uint8_t *head, size_t n)
{
    EchWire wire = ech_wire_init(head, n);
    EchWireField f, g;
    unsigned types = 0;
    while (types < MAX_VALUES && ech_wire_next(&wire, &f)) {
        if (f.number != 1)
            return types && f.type == ECH_WIRE_BYTES && f.number >= 2 && f.number <= 6 ? 2 : 0;
        if (f.type != ECH_WIRE_BYTES || f.size == 0 || f.size > 22)
            return 0;
        EchWire inner = ech_wire_sub(&wire, &f);
        while (ech_wire_next(&inner, &g)) {
            if (g.number > 2 || g.type != ECH_WIRE_VARINT)
                return 0;
        }
        if (inner.bad)
            return 0;
        types++;
    }
    return 0;
}

const EchImportClass ech_import_memory_profile = {
    .name = "memory_profile",
    .summary = "JAX device memory profile (pprof): what is live at one instant, a starting resident set",
    .probe = probe,
    .read = read_profile,
};
