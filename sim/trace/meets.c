#include "sim/trace/meets.h"

#include "sim/base/hash.h"

#include <string.h>

const char *ech_meets_of(const char *launch)
{
    const char *at = strstr(launch, "meets=");
    return at ? at + strlen("meets=") : "";
}

bool ech_meets_next(const char **at, EchMeeting *ret)
{
    char *end = NULL;
    if (!g_ascii_isxdigit(**at))
        return false;
    EchMeeting meeting = {.group = g_ascii_strtoull(*at, &end, 16)};
    if (*end != '/' || !g_ascii_isdigit(end[1]))
        return false;
    meeting.times = g_ascii_strtoull(end + 1, &end, 10);
    meeting.sends = *end == '>';
    meeting.hears = *end == '<';
    end += meeting.hears;
    if (meeting.sends && !g_ascii_isdigit(end[1]))
        return false;
    if (meeting.sends)
        meeting.buffer = g_ascii_strtoull(end + 1, &end, 10);
    *at = end + (*end == ',');
    *ret = meeting;
    return true;
}

void ech_meets_print(GString *out, EchMeeting meeting)
{
    bool first = out->len == 0 || out->str[out->len - 1] == ' ';
    g_string_append_printf(out, "%s%" G_GINT64_MODIFIER "x/%" G_GUINT64_FORMAT, first ? "meets=" : ",", meeting.group, meeting.times);
    if (meeting.hears)
        g_string_append_c(out, '<');
    if (meeting.sends)
        g_string_append_printf(out, ">%" G_GUINT64_FORMAT, meeting.buffer);
}

/* @launch, whose meetings are of groups with the bits of @group changed, and part @part of @parts. */
static char *changed(const char *launch, uint64_t group, uint64_t part, uint64_t parts)
{
    const char *at = ech_meets_of(launch);
    g_autoptr(GString) out = g_string_new_len(launch, (gssize)(*at ? (size_t)(at - launch) - strlen("meets=") : strlen(launch)));
    for (EchMeeting meeting; ech_meets_next(&at, &meeting);) {
        meeting.group ^= group;
        meeting.times = meeting.times * parts + part;
        ech_meets_print(out, meeting);
    }
    return g_string_free(g_steal_pointer(&out), FALSE);
}

char *ech_meets_again(const char *launch)
{
    return changed(launch, UINT64_C(1) << 63, 0, 1);
}

char *ech_meets_in_part(const char *launch, uint64_t part, uint64_t parts)
{
    return changed(launch, 0, part, parts);
}

guint ech_meeting_hash(gconstpointer meeting)
{
    const EchMeeting *of = meeting;
    return ech_hash_pair(of->group, of->times);
}

gboolean ech_meeting_equal(gconstpointer a, gconstpointer b)
{
    const EchMeeting *x = a, *y = b;
    return x->group == y->group && x->times == y->times;
}

static bool lacks_size(const EchTrace *trace, const EchOp *op)
{
    return op->kind == ECH_OP_COLLECTIVE && op->memory_from == 0 && op->launch != ECH_NONE && *ech_meets_of(ech_trace_string(trace, op->launch));
}

/* A number for each rank that does what a word says, by the words. */
static GHashTable *count_meetings(EchTrace *const *traces, size_t n)
{
    GHashTable *counts = g_hash_table_new_full(ech_meeting_hash, ech_meeting_equal, g_free, NULL);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < ech_trace_n_ops(traces[t]); i++) {
            const EchOp *op = &ech_trace_ops(traces[t])[i];
            EchMeeting key;
            for (const char *at = lacks_size(traces[t], op) ? ech_meets_of(ech_trace_string(traces[t], op->launch)) : ""; ech_meets_next(&at, &key);)
                g_hash_table_insert(counts, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(counts, &key)) + 1));
        }
    return counts;
}

bool ech_meets_size_groups(EchTrace **traces, size_t n, GError **error)
{
    g_autoptr(GHashTable) counts = count_meetings(traces, n);
    for (size_t t = 0; t < n && g_hash_table_size(counts) > 0; t++) {
        g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(traces[t]);
        for (size_t i = 0; i < ech_trace_n_ops(traces[t]); i++) {
            const EchOp *op = &ech_trace_ops(traces[t])[i];
            EchMeeting key;
            const char *at = lacks_size(traces[t], op) ? ech_meets_of(ech_trace_string(traces[t], op->launch)) : "";
            guint met = ech_meets_next(&at, &key) ? GPOINTER_TO_UINT(g_hash_table_lookup(counts, &key)) : 0;
            if (met > 1)
                ech_trace_builder_peek_op(builder, (EchId)i)->memory_from = met;
        }
        EchTrace *sized = ech_trace_builder_finish(builder, error);
        if (!sized)
            return false;
        ech_trace_unref(traces[t]);
        traces[t] = sized;
    }
    return true;
}
