/* Perfetto's protobuf timeline; field numbers from trace_packet.proto, track_event.proto, track_descriptor.proto and interned_data.proto. */
#include "sim/report/timeline.h"
#include "sim/report/wire_out.h"

enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_DESCRIPTOR = 60,
    FLAG_CLEARED = 1,
    FLAG_NEEDS = 2,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_PARENT = 5,
    DESCRIPTOR_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    COUNTER_UNIT = 3,
    COUNTER_BYTES = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    EVENT_FLOW_END = 48,
    EVENT_NAME = 23,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3,
    ANNOTATION_TEXT_IID = 17,
    INTERNED_NAMES = 2,
    INTERNED_ANNOTATIONS = 3,
    INTERNED_TEXTS = 29,
};
/* Tracks: the three processes, then queues and links, then two counters a memory. */
enum { UUID_QUEUES = 1, UUID_LINKS, UUID_MEMORIES, UUID_TRACKS = 100 };

/* Annotation names, by iid from 1. */
static const char *const annotation_names[] = {"duration ps", "bytes", "iteration", "bound by", "priced by"};
enum { NOTE_DURATION = 1, NOTE_BYTES, NOTE_ITERATION, NOTE_BOUND, NOTE_PRICED, NOTE_WAITS };

typedef struct {
    GByteArray *out;
    bool started;
    GHashTable *names, *texts; /* Interned so far: text -> iid, from 1. */
    GByteArray *fresh;         /* InternedData entries that the next packet brings. */
} Writer;

/* Protobuf strings are UTF-8. Owned by the caller. */
static char *valid_text(const char *text)
{
    return g_utf8_make_valid(text, -1);
}

static void append_text(GByteArray *out, uint32_t field, const char *text)
{
    g_autofree char *valid = valid_text(text);
    ech_wire_text(out, field, valid);
}

/* The iid of a text; a new one goes into the packet that is being made. */
static uint64_t intern(Writer *writer, GHashTable *table, uint32_t field, const char *text)
{
    gpointer found = g_hash_table_lookup(table, text);
    if (found)
        return GPOINTER_TO_SIZE(found);
    uint64_t iid = g_hash_table_size(table) + 1;
    g_hash_table_insert(table, g_strdup(text), GSIZE_TO_POINTER(iid));
    g_autoptr(GByteArray) entry = g_byte_array_new();
    ech_wire_u64(entry, 1, iid);
    append_text(entry, 2, text);
    ech_wire_message(writer->fresh, field, entry);
    return iid;
}

static void write_packet(Writer *writer, const GByteArray *body)
{
    ech_wire_message(writer->out, TRACE_PACKET, body);
}

static void describe(Writer *writer, uint64_t uuid, uint64_t parent, const char *name, int process, bool counter)
{
    g_autoptr(GByteArray) descriptor = g_byte_array_new();
    ech_wire_u64(descriptor, DESCRIPTOR_UUID, uuid);
    if (parent)
        ech_wire_u64(descriptor, DESCRIPTOR_PARENT, parent);
    if (process) {
        g_autoptr(GByteArray) message = g_byte_array_new();
        ech_wire_u64(message, PROCESS_PID, (uint64_t)process);
        append_text(message, PROCESS_NAME, name);
        ech_wire_message(descriptor, DESCRIPTOR_PROCESS, message);
    } else {
        append_text(descriptor, DESCRIPTOR_NAME, name);
    }
    if (counter) {
        g_autoptr(GByteArray) message = g_byte_array_new();
        ech_wire_u64(message, COUNTER_UNIT, COUNTER_BYTES);
        ech_wire_message(descriptor, DESCRIPTOR_COUNTER, message);
    }
    g_autoptr(GByteArray) packet = g_byte_array_new();
    ech_wire_u64(packet, PACKET_SEQUENCE, 1);
    if (!writer->started) {
        /* The first packet clears the interning state and brings the annotations' names. */
        ech_wire_u64(packet, PACKET_FLAGS, FLAG_CLEARED | FLAG_NEEDS);
        g_autoptr(GByteArray) interned = g_byte_array_new();
        for (uint64_t i = 0; i < NOTE_WAITS - 1 + ECH_N_WAITS; i++) {
            g_autofree char *text =
                i < NOTE_WAITS - 1 ? g_strdup(annotation_names[i]) : g_strdup_printf("waited for %s ps", ech_wait_name((EchWait)(i + 1 - NOTE_WAITS)));
            g_autoptr(GByteArray) entry = g_byte_array_new();
            ech_wire_u64(entry, 1, i + 1);
            ech_wire_text(entry, 2, text);
            ech_wire_message(interned, INTERNED_ANNOTATIONS, entry);
        }
        ech_wire_message(packet, PACKET_INTERNED, interned);
        writer->started = true;
    }
    ech_wire_message(packet, PACKET_DESCRIPTOR, descriptor);
    write_packet(writer, packet);
}

static void note_u64(GByteArray *event, uint64_t name, uint64_t value)
{
    g_autoptr(GByteArray) note = g_byte_array_new();
    ech_wire_u64(note, ANNOTATION_NAME_IID, name);
    ech_wire_u64(note, ANNOTATION_UINT, value);
    ech_wire_message(event, EVENT_ANNOTATION, note);
}

static void note_text(Writer *writer, GByteArray *event, uint64_t name, const char *value)
{
    g_autoptr(GByteArray) note = g_byte_array_new();
    ech_wire_u64(note, ANNOTATION_NAME_IID, name);
    ech_wire_u64(note, ANNOTATION_TEXT_IID, intern(writer, writer->texts, INTERNED_TEXTS, value));
    ech_wire_message(event, EVENT_ANNOTATION, note);
}

static void write_event(Writer *writer, EchTime time, const GByteArray *event)
{
    g_autoptr(GByteArray) packet = g_byte_array_new();
    ech_wire_u64(packet, PACKET_TIMESTAMP, (uint64_t)(MAX(time, 0) / ECH_PS_PER_NS));
    ech_wire_u64(packet, PACKET_SEQUENCE, 1);
    ech_wire_u64(packet, PACKET_FLAGS, FLAG_NEEDS);
    if (writer->fresh->len > 0)
        ech_wire_message(packet, PACKET_INTERNED, writer->fresh);
    g_byte_array_set_size(writer->fresh, 0);
    ech_wire_message(packet, PACKET_EVENT, event);
    write_packet(writer, packet);
}

/* The arrows that begin or end at a slice, as lists: at[slice] is the first, next[end] the one behind it; 0 is none. End 2 f + 1 is where flow f begins, 2 f +
 * 2 where it ends. */
typedef struct {
    size_t *at, *next;
} FlowEnds;

static FlowEnds flow_ends(const EchTimeline *timeline)
{
    FlowEnds ends = {g_new0(size_t, timeline->n_slices + 1), g_new0(size_t, 2 * timeline->n_flows + 2)};
    for (size_t i = timeline->n_flows; i-- > 0;) {
        size_t slices[2] = {timeline->flows[i].from, timeline->flows[i].to};
        for (size_t e = 2; e-- > 0;) {
            ends.next[2 * i + e] = ends.at[slices[e]];
            ends.at[slices[e]] = 2 * i + e + 1;
        }
    }
    return ends;
}

static void write_slice(Writer *writer, const EchReport *report, const EchBounds *bounds, const EchTimeline *timeline, size_t i, const FlowEnds *ends)
{
    const EchSlice *slice = &timeline->slices[i];
    const EchRun *run = report->run;
    const EchSpan *span = &run->spans[slice->span];
    const EchOp *op = &ech_trace_ops(report->trace)[span->op];
    g_autoptr(GByteArray) begin = g_byte_array_new();
    ech_wire_u64(begin, EVENT_TYPE, TYPE_BEGIN);
    ech_wire_u64(begin, EVENT_TRACK, UUID_TRACKS + slice->track);
    ech_wire_u64(begin, EVENT_NAME_IID, intern(writer, writer->names, INTERNED_NAMES, ech_slice_name(report->trace, op)));
    note_u64(begin, NOTE_DURATION, (uint64_t)(slice->end - slice->start));
    if (op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE)
        note_u64(begin, NOTE_BYTES, op->bytes);
    if (span->iteration)
        note_u64(begin, NOTE_ITERATION, span->iteration);
    int bound = ech_bounds_of(bounds, span);
    if (bound >= 0)
        note_text(writer, begin, NOTE_BOUND, ech_bounds_words(bounds)[bound]);
    if (span->op < run->n_prices)
        note_text(writer, begin, NOTE_PRICED, ech_price_name((EchPriceSource)run->prices[span->op].source));
    for (uint64_t w = 0; w < ECH_N_WAITS; w++) {
        if (span->waits[w])
            note_u64(begin, NOTE_WAITS + w, (uint64_t)span->waits[w]);
    }
    for (size_t at = ends->at[i]; at; at = ends->next[at - 1])
        ech_wire_fixed64(begin, (at - 1) % 2 ? EVENT_FLOW_END : EVENT_FLOW, (at - 1) / 2 + 1);
    write_event(writer, slice->start, begin);
    g_autoptr(GByteArray) end = g_byte_array_new();
    ech_wire_u64(end, EVENT_TYPE, TYPE_END);
    ech_wire_u64(end, EVENT_TRACK, UUID_TRACKS + slice->track);
    write_event(writer, slice->end, end);
}

/* Live and reserved bytes over time, where they change. @counters: track of the first memory's. */
static void write_memories(Writer *writer, const EchRun *run, uint64_t counters)
{
    for (size_t i = 0; i < run->n_memories; i++) {
        for (size_t j = 0; j < run->memories[i].n_series; j++) {
            const EchPoint *point = &run->memories[i].series[j];
            const EchBytes values[2] = {point->live, point->reserved};
            for (uint64_t k = 0; k < 2; k++) {
                if (j && (k ? point[-1].reserved : point[-1].live) == values[k])
                    continue;
                g_autoptr(GByteArray) event = g_byte_array_new();
                ech_wire_u64(event, EVENT_TYPE, TYPE_COUNTER);
                ech_wire_u64(event, EVENT_TRACK, counters + i * 2 + k);
                ech_wire_u64(event, EVENT_COUNTER, values[k]);
                write_event(writer, point->time, event);
            }
        }
    }
}

static void write_failure(Writer *writer, const EchRun *run)
{
    g_autoptr(GByteArray) event = g_byte_array_new();
    g_autofree char *name = g_strdup_printf("%s does not fit", run->failure.memory);
    ech_wire_u64(event, EVENT_TYPE, TYPE_INSTANT);
    ech_wire_u64(event, EVENT_TRACK, UUID_MEMORIES);
    append_text(event, EVENT_NAME, name);
    note_u64(event, NOTE_BYTES, run->failure.asked);
    write_event(writer, run->failure.time, event);
}

GByteArray *ech_report_perfetto(const EchReport *report)
{
    const EchRun *run = report->run;
    g_autoptr(EchTimeline) timeline = ech_timeline_new(report);
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                          texts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GByteArray) fresh = g_byte_array_new();
    Writer writer = {g_byte_array_new(), false, names, texts, fresh};
    describe(&writer, UUID_QUEUES, 0, "Queues", 1, false);
    describe(&writer, UUID_LINKS, 0, "Links", 2, false);
    describe(&writer, UUID_MEMORIES, 0, "Memories", 3, false);
    for (size_t i = 0; i < timeline->n_tracks; i++) {
        const EchTrack *track = &timeline->tracks[i];
        describe(&writer, UUID_TRACKS + i, track->group == ECH_TRACK_QUEUE ? UUID_QUEUES : UUID_LINKS, track->name, 0, false);
    }
    uint64_t counters = UUID_TRACKS + timeline->n_tracks;
    for (size_t i = 0; i < run->n_memories; i++) {
        g_autofree char *live = g_strdup_printf("%s live bytes", run->memories[i].name);
        g_autofree char *reserved = g_strdup_printf("%s reserved bytes", run->memories[i].name);
        describe(&writer, counters + i * 2, UUID_MEMORIES, live, 0, true);
        describe(&writer, counters + i * 2 + 1, UUID_MEMORIES, reserved, 0, true);
    }
    FlowEnds ends = flow_ends(timeline);
    g_autoptr(EchBounds) bounds = ech_report_bounds_new(report);
    for (size_t i = 0; i < timeline->n_slices; i++)
        write_slice(&writer, report, bounds, timeline, i, &ends);
    g_free(ends.at);
    g_free(ends.next);
    write_memories(&writer, run, counters);
    if (!run->fits)
        write_failure(&writer, run);
    return writer.out;
}
