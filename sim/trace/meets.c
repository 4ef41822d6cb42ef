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

/* ---- ranks of one program ---- */

/* A collective that is with one meeting, which all who take part come to. */
typedef struct {
    EchMeeting key;
    uint32_t trace;
    EchId op;
    uint64_t kind, bytes; /* of who meets, the same with all */
    EchTime duration;     /* recorded; ECH_TIME_NONE */
} Comer;

static int compare_comers(gconstpointer a, gconstpointer b)
{
    const Comer *x = a, *y = b;
    if (x->key.group != y->key.group)
        return x->key.group < y->key.group ? -1 : 1;
    if (x->trace != y->trace)
        return x->trace < y->trace ? -1 : 1;
    if (x->key.times != y->key.times)
        return x->key.times < y->key.times ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Comer[], by group, trace and how often it has met. */
static GArray *find_comers(EchTrace *const *traces, size_t n)
{
    GArray *comers = g_array_new(FALSE, FALSE, sizeof(Comer));
    for (uint32_t t = 0; t < n; t++)
        for (size_t i = 0; i < ech_trace_n_ops(traces[t]); i++) {
            const EchOp *op = &ech_trace_ops(traces[t])[i];
            Comer comer = {.trace = t, .op = (EchId)i, .kind = op->collective, .bytes = op->bytes, .duration = op->recorded.duration};
            EchMeeting more;
            const char *at = op->kind == ECH_OP_COLLECTIVE && op->launch != ECH_NONE ? ech_meets_of(ech_trace_string(traces[t], op->launch)) : "";
            if (!ech_meets_next(&at, &comer.key) || ech_meets_next(&at, &more) || comer.key.hears)
                continue;
            if (comer.kind == ECH_COLLECTIVE_SEND || comer.kind == ECH_COLLECTIVE_RECV)
                comer.kind = ECH_COLLECTIVE_PERMUTE;
            if (comer.kind == ECH_COLLECTIVE_ALL_TO_ALL) /* each sends another amount */
                comer.bytes = 0;
            g_array_append_val(comers, comer);
        }
    g_array_sort(comers, compare_comers);
    return comers;
}

static const Comer *comer_at(const GArray *comers, guint i)
{
    return &g_array_index(comers, Comer, i);
}

/* How many of @n at @own are of the same kind and bytes as those of @n_others at @others, @shift places further on. */
static size_t alike(const Comer *own, size_t n, const Comer *others, size_t n_others, int64_t shift)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t at = (int64_t)i + shift;
        same += at >= 0 && at < (int64_t)n_others && own[i].kind == others[at].kind && own[i].bytes == others[at].bytes;
    }
    return same;
}

/* By how many places a recording of a group begins later than another one (before it: below 0): that with which most are alike. */
static int64_t shift_of(const Comer *own, size_t n, const Comer *others, size_t n_others)
{
    enum { MOST = 64 };
    size_t most = alike(own, n, others, n_others, 0);
    int64_t best = 0;
    for (int64_t by = 1; by <= MOST && most < MIN(n, n_others); by++)
        for (int64_t shift = -by; shift <= by; shift += 2 * by) {
            size_t same = alike(own, n, others, n_others, shift);
            best = same > most ? shift : best;
            most = MAX(same, most);
        }
    return best;
}

/* Where the run of comers of one group and, where @of_trace, one trace ends that begins at @from. */
static guint run_end(const GArray *comers, guint from, bool of_trace)
{
    const Comer *first = comer_at(comers, from);
    guint end = from + 1;
    while (end < comers->len && comer_at(comers, end)->key.group == first->key.group && (!of_trace || comer_at(comers, end)->trace == first->trace))
        end++;
    return end;
}

/* Moves what the traces of group [@from, @end) have counted otherwise than its longest trace. Whether any was. */
static bool align_group(GArray *comers, EchTrace *const *traces, guint from, guint end)
{
    guint longest = from, n_longest = 0;
    for (guint i = from, next; i < end; i = next) {
        next = run_end(comers, i, true);
        if (next - i > n_longest) {
            longest = i;
            n_longest = next - i;
        }
    }
    bool any = false;
    for (guint i = from, next; i < end; i = next) {
        next = run_end(comers, i, true);
        if (i == longest || !ech_trace_get_property(traces[comer_at(comers, i)->trace], ECH_TRACE_MEETS_COUNTED))
            continue;
        int64_t shift = shift_of(comer_at(comers, i), next - i, comer_at(comers, longest), n_longest);
        for (guint k = i; shift != 0 && k < next; k++) {
            EchMeeting *key = &g_array_index(comers, Comer, k).key;
            if (shift < 0 && key->times < (uint64_t)-shift)
                key->group |= UINT64_C(1) << 61; /* nobody else has recorded it */
            else
                key->times += (uint64_t)shift;
            any = true;
        }
    }
    return any;
}

static bool align(GArray *comers, EchTrace *const *traces)
{
    bool any = false;
    for (guint i = 0, next; i < comers->len; i = next) {
        next = run_end(comers, i, false);
        any |= align_group(comers, traces, i, next);
    }
    return any;
}

/* Of those who come to one meeting. */
typedef struct {
    guint n;
    EchTime least; /* recorded */
} Gathering;

static GHashTable *gather(const GArray *comers)
{
    GHashTable *all = g_hash_table_new_full(ech_meeting_hash, ech_meeting_equal, g_free, g_free);
    for (guint i = 0; i < comers->len; i++) {
        const Comer *comer = comer_at(comers, i);
        Gathering *gathering = g_hash_table_lookup(all, &comer->key);
        if (!gathering) {
            gathering = g_new(Gathering, 1);
            *gathering = (Gathering){.least = ECH_TIME_NONE};
            g_hash_table_insert(all, g_memdup2(&comer->key, sizeof comer->key), gathering);
        }
        gathering->n++;
        if (comer->duration != ECH_TIME_NONE)
            gathering->least = gathering->least == ECH_TIME_NONE ? comer->duration : MIN(gathering->least, comer->duration);
    }
    return all;
}

/* @launch, but that it meets @key. */
static EchId meets_instead(EchTraceBuilder *builder, const char *launch, EchMeeting key)
{
    const char *at = ech_meets_of(launch);
    g_autoptr(GString) out = g_string_new_len(launch, (gssize)((size_t)(at - launch) - strlen("meets=")));
    ech_meets_print(out, key);
    return ech_trace_builder_string(builder, out->str, (gssize)out->len);
}

/* What @comer's op is told of its meeting. Whether its time was another. */
static bool tell_comer(EchTraceBuilder *builder, const EchTrace *trace, const Comer *comer, const Gathering *gathering, bool aligned)
{
    const EchOp *before = &ech_trace_ops(trace)[comer->op];
    EchId launch = aligned ? meets_instead(builder, ech_trace_string(trace, before->launch), comer->key) : before->launch;
    EchOp *op = ech_trace_builder_peek_op(builder, comer->op);
    op->launch = launch;
    if (op->memory_from == 0 && gathering->n > 1)
        op->memory_from = gathering->n;
    if (comer->duration == ECH_TIME_NONE || comer->duration == gathering->least)
        return false;
    op->recorded.duration = gathering->least;
    return true;
}

bool ech_meets_join(EchTrace **traces, size_t n, uint64_t *ret_settled, GError **error)
{
    g_autoptr(GArray) comers = find_comers(traces, n);
    bool aligned = align(comers, traces);
    g_autoptr(GHashTable) all = gather(comers);
    *ret_settled = 0;
    for (uint32_t t = 0; t < n && comers->len > 0; t++) {
        g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(traces[t]);
        for (guint i = 0; i < comers->len; i++) {
            const Comer *comer = comer_at(comers, i);
            if (comer->trace == t)
                *ret_settled += tell_comer(builder, traces[t], comer, g_hash_table_lookup(all, &comer->key), aligned);
        }
        EchTrace *joined = ech_trace_builder_finish(builder, error);
        if (!joined)
            return false;
        ech_trace_unref(traces[t]);
        traces[t] = joined;
    }
    return true;
}
