/* Chrome's JSON timeline. ts and dur are microseconds with three decimals; both ends are cut to nanoseconds, so slices of a track still do not overlap. */
#include "sim/report/json_out.h"
#include "sim/report/timeline.h"

enum { PID_QUEUES = 1, PID_LINKS = 2, PID_MEMORIES = 3 };

static void begin_event(GString *out, const char *phase, int pid, size_t tid)
{
    g_string_append_printf(out, ",\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%zu", phase, pid, tid);
}

static void append_time(GString *out, const char *key, EchTime ps)
{
    EchTime ns = ps / ECH_PS_PER_NS;
    g_string_append_printf(out, ",\"%s\":%" G_GINT64_FORMAT ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void name_process(GString *out, int pid, const char *name)
{
    g_string_append_printf(out, "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}", pid == PID_QUEUES ? "\n" : ",\n", pid,
                           name);
    g_string_append_printf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", pid, pid);
}

static void append_slice(GString *out, const EchReport *report, const EchBounds *bounds, const EchTimeline *timeline, const EchSlice *slice)
{
    const EchSpan *span = &report->run->spans[slice->span];
    const EchOp *op = &ech_trace_ops(report->trace)[span->op];
    const EchTrack *track = &timeline->tracks[slice->track];
    begin_event(out, "X", track->group == ECH_TRACK_QUEUE ? PID_QUEUES : PID_LINKS, slice->track + 1);
    g_string_append(out, ",\"name\":");
    g_autofree char *name = ech_slice_label(report, slice);
    ech_json_append_string(out, name);
    g_string_append_printf(out, ",\"cat\":\"%s\"", ech_op_kind_name(slice->waits ? ECH_OP_WAIT : (EchOpKind)op->kind));
    append_time(out, "ts", slice->start);
    EchTime start_ns = slice->start / ECH_PS_PER_NS, end_ns = slice->end / ECH_PS_PER_NS;
    append_time(out, "dur", (end_ns - start_ns) * ECH_PS_PER_NS);
    g_string_append_printf(out, ",\"args\":{\"duration ps\":%" G_GINT64_FORMAT, slice->end - slice->start);
    if (slice->waits) {
        g_string_append(out, "}}");
        return;
    }
    if (op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE)
        g_string_append_printf(out, ",\"bytes\":%" G_GUINT64_FORMAT, op->bytes);
    if (span->iteration)
        g_string_append_printf(out, ",\"iteration\":%" G_GUINT64_FORMAT, span->iteration);
    int bound = ech_bounds_of(bounds, span);
    if (bound >= 0) {
        g_string_append(out, ",\"bound by\":");
        ech_json_append_string(out, ech_bounds_words(bounds)[bound]);
    }
    if (span->op < report->run->n_prices)
        g_string_append_printf(out, ",\"priced by\":\"%s\"", ech_price_name((EchPriceSource)report->run->prices[span->op].source));
    for (int i = 0; i < ECH_N_WAITS; i++) {
        if (span->waits[i])
            g_string_append_printf(out, ",\"waited for %s ps\":%" G_GINT64_FORMAT, ech_wait_name((EchWait)i), span->waits[i]);
    }
    g_string_append(out, "}}");
}

static void name_track(GString *out, int pid, size_t tid, const char *name)
{
    begin_event(out, "M", pid, tid);
    g_string_append(out, ",\"name\":\"thread_name\",\"args\":{\"name\":");
    ech_json_append_string(out, name);
    g_string_append(out, "}}");
    begin_event(out, "M", pid, tid);
    g_string_append_printf(out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%zu}}", tid);
}

/* Iterations that are not drawn. */
static void append_repeats(GString *out, const EchRun *run, size_t tid)
{
    if (run->n_skips > 0)
        name_track(out, PID_QUEUES, tid, ECH_TRACK_REPEATS);
    for (size_t i = 0; i < run->n_skips; i++) {
        g_autofree char *name = ech_skip_label(run, i);
        EchTime start = run->skips[i].time / ECH_PS_PER_NS, end = ech_skip_end(run, i) / ECH_PS_PER_NS;
        begin_event(out, "X", PID_QUEUES, tid);
        g_string_append_printf(out, ",\"name\":\"%s\",\"cat\":\"loop\"", name);
        append_time(out, "ts", start * ECH_PS_PER_NS);
        append_time(out, "dur", (end - start) * ECH_PS_PER_NS);
        g_string_append_c(out, '}');
    }
}

GString *ech_report_chrome(const EchReport *report)
{
    const EchRun *run = report->run;
    g_autoptr(EchTimeline) timeline = ech_timeline_new(report);
    GString *out = g_string_new("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":");
    ech_json_append_string(out, report->title);
    g_string_append(out, ",\"device\":");
    ech_json_append_string(out, report->device->name);
    g_string_append(out, "},\"traceEvents\":[");
    name_process(out, PID_QUEUES, "Queues");
    name_process(out, PID_LINKS, "Links");
    name_process(out, PID_MEMORIES, "Memories");
    for (size_t i = 0; i < timeline->n_tracks; i++) {
        const EchTrack *track = &timeline->tracks[i];
        int pid = track->group == ECH_TRACK_QUEUE ? PID_QUEUES : PID_LINKS;
        name_track(out, pid, i + 1, track->name);
    }
    g_autoptr(EchBounds) bounds = ech_report_bounds_new(report);
    for (size_t i = 0; i < timeline->n_slices; i++)
        append_slice(out, report, bounds, timeline, &timeline->slices[i]);
    append_repeats(out, run, timeline->n_tracks + 1);
    for (size_t i = 0; i < timeline->n_flows; i++) {
        const EchSlice *ends[2] = {&timeline->slices[timeline->flows[i].from], &timeline->slices[timeline->flows[i].to]};
        for (int e = 0; e < 2; e++) {
            const EchTrack *track = &timeline->tracks[ends[e]->track];
            begin_event(out, e == 0 ? "s" : "f", track->group == ECH_TRACK_QUEUE ? PID_QUEUES : PID_LINKS, ends[e]->track + 1);
            g_string_append_printf(out, ",\"name\":\"arrived\",\"cat\":\"copy\",\"id\":%zu%s", i + 1, e == 1 ? ",\"bp\":\"e\"" : "");
            /* A flow binds to the slice around its time: the copy's last nanosecond, the consumer's first. */
            append_time(out, "ts", e == 0 ? MAX(ends[e]->start, ends[e]->end - ECH_PS_PER_NS) : ends[e]->start);
            g_string_append_c(out, '}');
        }
    }
    for (size_t i = 0; i < run->n_memories; i++) {
        const EchMemoryRun *memory = &run->memories[i];
        for (size_t j = 0; j < memory->n_series; j++) {
            const EchPoint *point = &memory->series[j];
            begin_event(out, "C", PID_MEMORIES, i + 1);
            g_autofree char *name = g_strdup_printf("%s bytes", memory->name);
            g_string_append(out, ",\"name\":");
            ech_json_append_string(out, name);
            append_time(out, "ts", point->time);
            g_string_append_printf(out, ",\"args\":{\"live\":%" G_GUINT64_FORMAT ",\"reserved, not live\":%" G_GUINT64_FORMAT "}}", point->live,
                                   point->reserved > point->live ? point->reserved - point->live : 0);
        }
    }
    if (!run->fits) {
        begin_event(out, "i", PID_MEMORIES, 0);
        g_autofree char *name = g_strdup_printf("%s does not fit", run->failure.memory);
        g_string_append(out, ",\"s\":\"g\",\"name\":");
        ech_json_append_string(out, name);
        append_time(out, "ts", run->failure.time);
        g_string_append_printf(out, ",\"args\":{\"asked bytes\":%" G_GUINT64_FORMAT ",\"live bytes\":%" G_GUINT64_FORMAT "}}", run->failure.asked,
                               run->failure.live);
    }
    g_string_append(out, "\n]}\n");
    return out;
}
