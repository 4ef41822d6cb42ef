/* What the HTML page draws, as compact JSON: arrays of numbers, names once. */
#include "sim/report/timeline.h"

#include "sim/base/hash.h"
#include "sim/report/json_out.h"

/* Names of operations and buffers, numbered in order of first use. */
typedef struct {
    GHashTable *index; /* text -> number + 1 */
    GPtrArray *texts;  /* Owned. */
} Names;

/* Takes @text. */
static guint name_of(Names *names, char *text)
{
    gpointer found = g_hash_table_lookup(names->index, text);
    if (found) {
        g_free(text);
        return GPOINTER_TO_UINT(found) - 1;
    }
    g_ptr_array_add(names->texts, text);
    g_hash_table_insert(names->index, text, GUINT_TO_POINTER(names->texts->len));
    return names->texts->len - 1;
}

static int compare_lengths(const void *a, const void *b)
{
    EchTime x = *(const EchTime *)a, y = *(const EchTime *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Of slices of one length, @room of @n are drawn: as evenly as they come. */
typedef struct {
    EchTime shortest; /* all that are longer are drawn */
    size_t room, n, seen;
} Drawn;

static Drawn longest_drawn(const EchTimeline *timeline, size_t most)
{
    Drawn drawn = {.shortest = -1};
    if (timeline->n_slices <= most || most == 0)
        return drawn;
    g_autofree EchTime *lengths = g_new(EchTime, timeline->n_slices);
    for (size_t i = 0; i < timeline->n_slices; i++)
        lengths[i] = timeline->slices[i].end - timeline->slices[i].start;
    qsort(lengths, timeline->n_slices, sizeof *lengths, compare_lengths);
    drawn.shortest = lengths[most - 1];
    for (size_t i = 0; i < timeline->n_slices; i++) {
        drawn.n += lengths[i] == drawn.shortest;
        drawn.room += i < most && lengths[i] == drawn.shortest;
    }
    return drawn;
}

static bool is_drawn(Drawn *drawn, EchTime length)
{
    if (length != drawn->shortest || drawn->n == 0)
        return length > drawn->shortest;
    size_t before = drawn->seen * drawn->room / drawn->n, after = ++drawn->seen * drawn->room / drawn->n;
    return after > before;
}

static void append_slices(GString *out, const EchReport *report, const EchBounds *bounds, const EchTimeline *timeline, size_t most, Names *names)
{
    Drawn longest_ones = longest_drawn(timeline, most);
    size_t drawn = 0;
    g_string_append(out, ",\"slices\":[");
    for (size_t i = 0; i < timeline->n_slices && drawn < most; i++) {
        const EchSlice *slice = &timeline->slices[i];
        if (!is_drawn(&longest_ones, slice->end - slice->start))
            continue;
        const EchSpan *span = &report->run->spans[slice->span];
        const EchOp *op = &ech_trace_ops(report->trace)[span->op];
        EchTime longest = 0;
        int reason = -1;
        for (int w = 0; w < ECH_N_WAITS && !slice->waits; w++) {
            if (span->waits[w] > longest) {
                longest = span->waits[w];
                reason = w;
            }
        }
        /* [track, name, start, length, kind, what bounds it or -1, iteration, bytes, longest wait's reason or -1, its time] */
        g_string_append_printf(out,
                               "%s[%u,%u,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%u,%d,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%d,%" G_GINT64_FORMAT "]",
                               drawn ? "," : "", slice->track, name_of(names, ech_slice_label(report, slice)), slice->start, slice->end - slice->start,
                               slice->waits ? ECH_OP_WAIT : op->kind, slice->waits ? -1 : ech_bounds_of(bounds, span), span->iteration,
                               !slice->waits && (op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE) ? op->bytes : 0, reason, longest);
        drawn++;
    }
    g_string_append_printf(out, "],\"slices_left_out\":%" G_GUINT64_FORMAT, (guint64)(timeline->n_slices - drawn) + report->run->spans_left_out);
}

static int compare_placed(const void *a, const void *b)
{
    const EchPlaced *x = *(const EchPlaced *const *)a, *y = *(const EchPlaced *const *)b;
    if (x->place.rounded != y->place.rounded)
        return x->place.rounded < y->place.rounded ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* The @most largest to the front, of those of one size that not all find room some from all over the time. */
static void choose_blocks(GPtrArray *blocks, size_t most)
{
    if (blocks->len > 1)
        qsort(blocks->pdata, blocks->len, sizeof(void *), compare_placed);
    if (most == 0 || blocks->len <= most)
        return;
    EchBytes size = ((const EchPlaced *)blocks->pdata[most])->place.rounded;
    size_t begin = most, end = most;
    while (begin > 0 && ((const EchPlaced *)blocks->pdata[begin - 1])->place.rounded == size)
        begin--;
    while (end < blocks->len && ((const EchPlaced *)blocks->pdata[end])->place.rounded == size)
        end++;
    for (size_t i = begin; i < most; i++)
        blocks->pdata[i] = blocks->pdata[begin + (i - begin) * (end - begin) / (most - begin)];
}

/* As tables call it, too, where it has nothing but a number. Owned. */
static char *block_name(const EchTrace *trace, EchId buffer)
{
    g_autofree char *name = ech_report_buffer_name(trace, buffer);
    bool untold = *name == '#' && !strchr(name, ' ') && ech_trace_buffers(trace)[buffer].resident;
    return untold ? g_strdup_printf("%s (in use before the recording)", name) : g_steal_pointer(&name);
}

static void append_memory(GString *out, const EchReport *report, const EchMemoryRun *memory, size_t most, Names *names)
{
    const EchRun *run = report->run;
    g_string_append(out, "{\"name\":");
    ech_json_append_string(out, memory->name);
    g_string_append_printf(out,
                           ",\"capacity\":%" G_GUINT64_FORMAT ",\"available\":%" G_GUINT64_FORMAT ",\"peak\":%" G_GUINT64_FORMAT
                           ",\"peak_at\":%" G_GINT64_FORMAT ",\"allocator\":",
                           memory->capacity, memory->available, memory->peak_live, memory->peak_at);
    ech_json_append_string(out, memory->allocator ? memory->allocator : "");
    g_string_append(out, ",\"series\":[");
    for (size_t i = 0; i < memory->n_series; i++)
        g_string_append_printf(out, "%s[%" G_GINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]", i ? "," : "", memory->series[i].time,
                               memory->series[i].live, memory->series[i].reserved);
    EchId id = ech_trace_find_memory(report->trace, memory->name);
    g_autoptr(GPtrArray) blocks = g_ptr_array_new();
    /* Per way to take memory, by the allocator and beside it: from where to where. What lies beside is drawn above. */
    uint64_t base[2] = {UINT64_MAX, UINT64_MAX}, end = 0;
    for (size_t i = 0; i < run->n_placed; i++) {
        /* Memories that are only counted have no addresses. */
        if (ech_trace_buffers(report->trace)[run->placed[i].buffer].memory != id || run->placed[i].place.rounded == 0 ||
            run->placed[i].place.address == ECH_OFFSET_NONE)
            continue;
        g_ptr_array_add(blocks, &run->placed[i]);
        const EchPlacement *place = &run->placed[i].place;
        bool direct = ech_trace_buffers(report->trace)[run->placed[i].buffer].direct;
        base[direct] = MIN(base[direct], place->address);
        end = direct ? end : MAX(end, ech_bytes_add(place->address, place->rounded));
    }
    uint64_t above = end > 0 ? end - base[0] : 0;
    choose_blocks(blocks, most);
    size_t n = MIN(blocks->len, most);
    /* [name, begin, end, address from the lowest one, bytes, role] */
    g_string_append(out, "],\"blocks\":[");
    for (size_t i = 0; i < n; i++) {
        const EchPlaced *placed = blocks->pdata[i];
        const EchBuffer *buffer = &ech_trace_buffers(report->trace)[placed->buffer];
        g_string_append_printf(out, "%s[%u,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%u]", i ? "," : "",
                               name_of(names, block_name(report->trace, placed->buffer)), placed->begin, placed->end,
                               placed->place.address - base[buffer->direct] + (buffer->direct ? above : 0), placed->place.rounded, buffer->role);
    }
    g_string_append_printf(out, "],\"blocks_left_out\":%zu}", blocks->len - n);
}

GString *ech_report_details(const EchReport *report, size_t max_spans)
{
    const EchRun *run = report->run;
    g_autoptr(EchTimeline) timeline = ech_timeline_new(report);
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_text, g_str_equal);
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
    Names names = {index, texts};
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "{\"makespan\":%" G_GINT64_FORMAT, run->makespan);
    g_string_append(out, ",\"verdict\":");
    ech_json_append_string(out, ech_report_verdict(report));
    g_string_append(out, ",\"time_verdict\":");
    ech_json_append_string(out, ech_report_time_verdict(report));
    g_auto(GStrv) said = ech_report_said(report);
    g_string_append(out, ",\"said\":[");
    for (char **line = said; *line; line++) {
        if (line > said)
            g_string_append_c(out, ',');
        ech_json_append_string(out, *line);
    }
    g_string_append(out, "],\"bounds\":[");
    size_t n_path;
    g_autoptr(EchBounds) bounds = ech_report_bounds_new(report);
    const char *const *words = ech_bounds_words(bounds);
    for (size_t i = 0; words[i]; i++) {
        if (i)
            g_string_append_c(out, ',');
        ech_json_append_string(out, words[i]);
    }
    g_string_append(out, "],\"meanings\":{");
    const char *separator = "";
    EchShare *path = ech_report_critical_path(report, &n_path);
    for (size_t i = 0; i < n_path; i++) {
        const char *meaning = ech_report_bound_meaning(path[i].name);
        if (!meaning)
            continue;
        g_string_append(out, separator);
        ech_json_append_string(out, path[i].name);
        g_string_append_c(out, ':');
        ech_json_append_string(out, meaning);
        separator = ",";
    }
    ech_shares_free(path, n_path);
    g_string_append(out, "},\"kinds\":[");
    for (int i = 0; i < ECH_N_OP_KINDS; i++)
        g_string_append_printf(out, "%s\"%s\"", i ? "," : "", ech_op_kind_name((EchOpKind)i));
    g_string_append(out, "],\"reasons\":[");
    for (int i = 0; i < ECH_N_WAITS; i++)
        g_string_append_printf(out, "%s\"%s\"", i ? "," : "", ech_report_wait_words((EchWait)i, run->host_launch > 0));
    g_string_append(out, "],\"roles\":[");
    for (int i = 0; i < ECH_N_ROLES; i++)
        g_string_append_printf(out, "%s\"%s\"", i ? "," : "", ech_role_name((EchRole)i));
    g_string_append(out, "],\"tracks\":[");
    for (size_t i = 0; i < timeline->n_tracks; i++) {
        const EchTrack *track = &timeline->tracks[i];
        g_string_append_printf(out, "%s{\"group\":\"%s\",\"lane\":%u,\"name\":", i ? "," : "", ech_track_group_name(track->group), track->lane);
        ech_json_append_string(out, track->name);
        g_string_append_c(out, '}');
    }
    g_string_append_c(out, ']');
    append_slices(out, report, bounds, timeline, max_spans, &names);
    g_string_append(out, ",\"skips\":[");
    for (size_t i = 0; i < run->n_skips; i++)
        g_string_append_printf(out, "%s[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GUINT64_FORMAT "]", i ? "," : "", run->skips[i].time,
                               run->skips[i].period, run->skips[i].count);
    g_string_append(out, "],\"memories\":[");
    for (size_t i = 0; i < run->n_memories; i++) {
        if (i)
            g_string_append_c(out, ',');
        append_memory(out, report, &run->memories[i], max_spans / 4, &names);
    }
    g_string_append(out, "],\"names\":[");
    for (guint i = 0; i < texts->len; i++) {
        if (i)
            g_string_append_c(out, ',');
        ech_json_append_string(out, texts->pdata[i]);
    }
    g_string_append(out, "]}\n");
    return out;
}
