#include "sim/report/timeline.h"

#include "sim/trace/select.h"

#include "sim/base/heap.h"

const char *ech_slice_name(const EchTrace *trace, const EchOp *op)
{
    const char *name = ech_trace_string(trace, op->name);
    return *name ? name : ech_op_kind_name((EchOpKind)op->kind);
}

char *ech_skip_label(const EchRun *run, size_t i)
{
    g_autofree char *each = ech_format_time(run->skips[i].period);
    return g_strdup_printf("%" G_GUINT64_FORMAT " iterations like the one before, %s each", run->skips[i].count, each);
}

EchTime ech_skip_end(const EchRun *run, size_t i)
{
    const EchSkip *skip = &run->skips[i];
    EchTime end = ech_time_add(skip->time, ech_time_round((double)skip->period * (double)skip->count));
    return i + 1 < run->n_skips ? MAX(MIN(end, skip[1].time), skip->time) : end;
}

char *ech_slice_label(const EchReport *report, const EchSlice *slice)
{
    const EchSpan *span = &report->run->spans[slice->span];
    if (slice->waits && span->awaited == ECH_NONE)
        return g_strdup("waits for other devices");
    if (slice->waits)
        return g_strdup_printf("waits for %s %u", ech_trace_get_property(report->trace, ECH_TRACE_TOGETHER) ? "device" : "rank", span->awaited);
    return g_strdup(ech_slice_name(report->trace, &ech_trace_ops(report->trace)[span->op]));
}

const char *ech_track_group_name(EchTrackGroup group)
{
    return group == ECH_TRACK_QUEUE ? "Queues" : "Links";
}

void ech_timeline_free(EchTimeline *timeline)
{
    if (!timeline)
        return;
    for (size_t i = 0; i < timeline->n_tracks; i++)
        g_free(timeline->tracks[i].name);
    g_free(timeline->tracks);
    g_free(timeline->slices);
    g_free(timeline->flows);
    g_free(timeline);
}

static int compare_slices(const void *a, const void *b)
{
    const EchSlice *x = a, *y = b;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    return y->waits - x->waits;
}

/* A lane and when it is free again. */
typedef struct {
    EchTime end;
    guint lane;
} Lane;

static gint compare_lanes(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    const Lane *x = a, *y = b;
    return x->end != y->end ? (x->end > y->end ? 1 : -1) : (x->lane > y->lane) - (x->lane < y->lane);
}

/* Gives the slices of one raw track (a queue or a direction) lanes: the first lane that is free at a slice's start. */
static void place_slices(EchSlice *slices, size_t n, EchTrackGroup group, const char *name, GArray *tracks)
{
    g_autoptr(GArray) busy = g_array_new(FALSE, FALSE, sizeof(Lane)), idle = g_array_new(FALSE, FALSE, sizeof(Lane));
    guint first = tracks->len;
    for (size_t i = 0; i < n; i++) {
        Lane lane;
        while (busy->len > 0 && g_array_index(busy, Lane, 0).end <= slices[i].start) {
            ech_heap_pop(busy, &lane, compare_lanes, NULL);
            lane.end = 0;
            ech_heap_push(idle, &lane, compare_lanes, NULL);
        }
        if (idle->len > 0) {
            ech_heap_pop(idle, &lane, compare_lanes, NULL);
        } else {
            lane.lane = tracks->len - first;
            EchTrack track = {group, g_strdup(name), lane.lane};
            g_array_append_val(tracks, track);
        }
        lane.end = slices[i].end;
        ech_heap_push(busy, &lane, compare_lanes, NULL);
        slices[i].track = first + lane.lane;
    }
}

static void find_flows(const EchReport *report, EchTimeline *timeline)
{
    const EchTrace *trace = report->trace;
    const EchRun *run = report->run;
    g_autoptr(GArray) flows = g_array_new(FALSE, FALSE, sizeof(EchArrow));
    g_autofree size_t *last = g_new(size_t, ech_trace_n_ops(trace));
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        last[i] = SIZE_MAX;
    g_autofree size_t *slice_of = g_new(size_t, run->n_spans + 1);
    for (size_t i = 0; i < run->n_spans; i++)
        slice_of[i] = SIZE_MAX;
    for (size_t i = 0; i < timeline->n_slices; i++) {
        if (timeline->tracks[timeline->slices[i].track].group == ECH_TRACK_QUEUE && !timeline->slices[i].waits)
            slice_of[timeline->slices[i].span] = i;
    }
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchSpan *span = &run->spans[i];
        const EchOp *op = &ech_trace_ops(trace)[span->op];
        for (uint32_t j = 0; j < op->n_deps; j++) {
            EchId on = ech_trace_deps(trace)[op->first_dep + j].op;
            size_t from = last[on];
            if (ech_trace_ops(trace)[on].kind != ECH_OP_COPY || from == SIZE_MAX || run->spans[from].end > span->start)
                continue;
            EchArrow flow = {slice_of[from], slice_of[i]};
            if (flow.from != SIZE_MAX && flow.to != SIZE_MAX)
                g_array_append_val(flows, flow);
        }
        last[span->op] = i;
    }
    timeline->n_flows = flows->len;
    timeline->flows = (EchArrow *)(void *)g_array_steal(flows, NULL);
}

char *ech_report_queue_name(const EchTrace *trace, EchId queue)
{
    const EchQueue *queues = ech_trace_queues(trace), *own = &queues[queue];
    bool several = false;
    size_t number = 1; /* of those of its name */
    for (size_t q = 0; q < ech_trace_n_queues(trace); q++) {
        several |= queues[q].device != queues[0].device;
        number += q < queue && queues[q].device == own->device && queues[q].name == own->name;
    }
    g_autoptr(GString) out = g_string_new(NULL);
    if (several)
        g_string_append_printf(out, "device %u, ", own->device);
    g_string_append(out, ech_trace_string(trace, own->name));
    if (number > 1)
        g_string_append_printf(out, " (%zu)", number);
    return g_string_free(g_steal_pointer(&out), FALSE);
}

EchTimeline *ech_timeline_new(const EchReport *report)
{
    const EchTrace *trace = report->trace;
    const EchRun *run = report->run;
    const EchDevice *device = report->device;
    EchTimeline *timeline = g_new0(EchTimeline, 1);
    size_t n_queues = ech_trace_n_queues(trace);
    /* Raw tracks: a queue each, then three per link: its directions, and what uses both. */
    g_autoptr(GArray) slices = g_array_new(FALSE, FALSE, sizeof(EchSlice));
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchSpan *span = &run->spans[i];
        EchOpKind kind = (EchOpKind)ech_trace_ops(trace)[span->op].kind;
        if (kind == ECH_OP_LOOP || (kind == ECH_OP_MARK && span->end == span->start))
            continue;
        EchSlice slice = {.track = span->queue, .span = i, .start = span->start, .end = span->end};
        g_array_append_val(slices, slice);
        if (span->waits[ECH_WAIT_PEERS] > 0) {
            EchSlice wait = {.track = span->queue, .waits = true, .span = i, .start = span->start - span->waits[ECH_WAIT_PEERS], .end = span->start};
            g_array_append_val(slices, wait);
        }
        const EchPrice *price = span->op < run->n_prices ? &run->prices[span->op] : NULL;
        if ((kind == ECH_OP_COPY || kind == ECH_OP_COLLECTIVE) && price && price->link < device->n_links) {
            slice.track = (uint32_t)n_queues + price->link * 3 + (kind == ECH_OP_COLLECTIVE ? 2 : price->forward ? 0 : 1);
            g_array_append_val(slices, slice);
        }
    }
    g_array_sort(slices, compare_slices);
    g_autoptr(GArray) tracks = g_array_new(FALSE, FALSE, sizeof(EchTrack));
    EchSlice *all = (EchSlice *)(void *)slices->data;
    for (size_t i = 0; i < slices->len;) {
        size_t end = i;
        while (end < slices->len && all[end].track == all[i].track)
            end++;
        uint32_t raw = all[i].track;
        if (raw < n_queues) {
            g_autofree char *name = ech_report_queue_name(trace, raw);
            place_slices(all + i, end - i, ECH_TRACK_QUEUE, name, tracks);
        } else {
            const EchLink *link = &device->links[(raw - n_queues) / 3];
            unsigned way = (raw - (unsigned)n_queues) % 3;
            g_autofree char *name =
                way == 2 ? g_strdup_printf("%s link", link->name) : g_strdup_printf("%s link %s", link->name, ech_report_link_way(link->from == link->to, way));
            place_slices(all + i, end - i, ECH_TRACK_LINK, name, tracks);
        }
        i = end;
    }
    g_array_sort(slices, compare_slices);
    timeline->n_tracks = tracks->len;
    timeline->tracks = (EchTrack *)(void *)g_array_steal(tracks, NULL);
    timeline->n_slices = slices->len;
    timeline->slices = (EchSlice *)(void *)g_array_steal(slices, NULL);
    find_flows(report, timeline);
    return timeline;
}
