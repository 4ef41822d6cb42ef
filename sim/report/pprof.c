/* pprof profiles; field numbers from profile.proto. */
#include "sim/report/timeline.h"
#include "sim/base/hash.h"
#include "sim/report/wire_out.h"

#include <string.h>

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14,
};

/* Strings, and a function and a location per name with the same number. */
typedef struct {
    GHashTable *strings;
    GPtrArray *order;
    GHashTable *functions;
    GByteArray *out;
} Profile;

static uint64_t string_of(Profile *profile, const char *text)
{
    gpointer found;
    if (g_hash_table_lookup_extended(profile->strings, text, NULL, &found))
        return GPOINTER_TO_SIZE(found);
    char *copy = g_utf8_make_valid(text, -1);
    if (strcmp(copy, text) != 0) { /* bytes that were not UTF-8 are replaced */
        uint64_t id = string_of(profile, copy);
        g_free(copy);
        return id;
    }
    size_t id = profile->order->len;
    g_ptr_array_add(profile->order, copy);
    g_hash_table_insert(profile->strings, copy, GSIZE_TO_POINTER(id));
    return id;
}

static void value_type(Profile *profile, uint32_t field, const char *type, const char *unit)
{
    g_autoptr(GByteArray) message = g_byte_array_new();
    ech_wire_u64(message, 1, string_of(profile, type));
    ech_wire_u64(message, 2, string_of(profile, unit));
    ech_wire_message(profile->out, field, message);
}

static uint64_t location_of(Profile *profile, const char *name)
{
    uint64_t string = string_of(profile, name);
    gpointer found = g_hash_table_lookup(profile->functions, GSIZE_TO_POINTER(string + 1));
    if (found)
        return GPOINTER_TO_SIZE(found);
    uint64_t id = g_hash_table_size(profile->functions) + 1;
    g_hash_table_insert(profile->functions, GSIZE_TO_POINTER(string + 1), GSIZE_TO_POINTER(id));
    g_autoptr(GByteArray) function = g_byte_array_new();
    ech_wire_u64(function, 1, id);
    ech_wire_u64(function, 2, string);
    ech_wire_message(profile->out, PROFILE_FUNCTION, function);
    g_autoptr(GByteArray) line = g_byte_array_new();
    ech_wire_u64(line, 1, id);
    g_autoptr(GByteArray) location = g_byte_array_new();
    ech_wire_u64(location, 1, id);
    ech_wire_u64(location, 2, 1);
    ech_wire_message(location, 4, line);
    ech_wire_message(profile->out, PROFILE_LOCATION, location);
    return id;
}

static void label(Profile *profile, GByteArray *sample, const char *key, const char *value)
{
    g_autoptr(GByteArray) message = g_byte_array_new();
    ech_wire_u64(message, 1, string_of(profile, key));
    ech_wire_u64(message, 2, string_of(profile, value));
    ech_wire_message(sample, 3, message);
}

/* A stack leaf first: @leaf, then the frames of @stack (one a line, innermost first), then the trace. */
static void add_sample(Profile *profile, const char *leaf, const char *stack, const char *root, uint64_t value, const char *key, const char *text)
{
    g_autoptr(GByteArray) sample = g_byte_array_new();
    g_autoptr(GByteArray) ids = g_byte_array_new();
    ech_wire_varint(ids, location_of(profile, leaf));
    if (*stack) {
        g_auto(GStrv) frames = g_strsplit(stack, "\n", -1);
        for (char **frame = frames; *frame; frame++) {
            if (**frame)
                ech_wire_varint(ids, location_of(profile, *frame));
        }
    }
    ech_wire_varint(ids, location_of(profile, root));
    ech_wire_message(sample, 1, ids);
    g_autoptr(GByteArray) values = g_byte_array_new();
    ech_wire_varint(values, value);
    ech_wire_message(sample, 2, values);
    label(profile, sample, key, text);
    ech_wire_message(profile->out, PROFILE_SAMPLE, sample);
}

GByteArray *ech_report_pprof(const EchReport *report, EchPprofKind kind)
{
    const EchRun *run = report->run;
    const EchTrace *trace = report->trace;
    g_autoptr(GHashTable) strings = g_hash_table_new(ech_hash_text, g_str_equal);
    g_autoptr(GPtrArray) order = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) functions = g_hash_table_new(NULL, NULL);
    Profile profile = {strings, order, functions, g_byte_array_new()};
    string_of(&profile, "");
    const char *type = kind == ECH_PPROF_TIME ? "time" : "bytes", *unit = kind == ECH_PPROF_TIME ? "nanoseconds" : "bytes";
    value_type(&profile, PROFILE_SAMPLE_TYPE, type, unit);
    g_autoptr(GByteArray) mapping = g_byte_array_new();
    ech_wire_u64(mapping, 1, 1);
    ech_wire_u64(mapping, 5, string_of(&profile, report->title));
    ech_wire_u64(mapping, 7, 1); /* has_functions: nothing to symbolise. */
    ech_wire_message(profile.out, PROFILE_MAPPING, mapping);
    if (kind == ECH_PPROF_TIME) {
        size_t n = ech_trace_n_ops(trace);
        g_autofree EchTime *times = g_new0(EchTime, n + 1);
        g_autofree uint64_t *counts = ech_run_span_counts(report->run, report->trace);
        for (size_t i = 0; i < run->n_spans; i++) {
            double part = (double)(run->spans[i].end - run->spans[i].start) * (double)counts[i]; /* Whole below 2^53. */
            times[run->spans[i].op] = ech_time_add(times[run->spans[i].op], ech_time_round(part));
        }
        for (size_t i = 0; i < n; i++) {
            const EchOp *op = &ech_trace_ops(trace)[i];
            if (times[i] >= ECH_PS_PER_NS && op->kind != ECH_OP_LOOP)
                add_sample(&profile, ech_slice_name(trace, op), ech_trace_string(trace, op->stack), report->title, (uint64_t)(times[i] / ECH_PS_PER_NS), "kind",
                           ech_op_kind_name((EchOpKind)op->kind));
        }
    } else {
        for (size_t i = 0; i < run->n_memories; i++) {
            size_t n;
            g_autofree EchHolder *holders = ech_report_holders(report, run->memories[i].name, run->memories[i].peak_at, &n);
            for (size_t j = 0; j < n; j++) {
                const EchBuffer *buffer = &ech_trace_buffers(trace)[holders[j].buffer];
                g_autofree char *name = ech_report_buffer_name(trace, holders[j].buffer);
                add_sample(&profile, name, ech_trace_string(trace, buffer->stack), report->title, holders[j].bytes, "memory", run->memories[i].name);
            }
        }
    }
    uint64_t comment = string_of(&profile, "simulated by echelon " ECH_VERSION), default_type = string_of(&profile, type);
    value_type(&profile, PROFILE_PERIOD_TYPE, type, unit);
    ech_wire_u64(profile.out, PROFILE_DURATION, (uint64_t)(run->makespan / ECH_PS_PER_NS));
    ech_wire_u64(profile.out, PROFILE_PERIOD, 1);
    ech_wire_u64(profile.out, PROFILE_COMMENT, comment);
    ech_wire_u64(profile.out, PROFILE_DEFAULT_TYPE, default_type);
    for (guint i = 0; i < order->len; i++)
        ech_wire_text(profile.out, PROFILE_STRING, order->pdata[i]);
    return profile.out;
}
