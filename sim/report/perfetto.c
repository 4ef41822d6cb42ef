/* Perfetto's protobuf timeline; field numbers from trace_packet.proto, track_event.proto, track_descriptor.proto and interned_data.proto. */
#include "sim/report/ranks.h"
#include "sim/base/hash.h"
#include "sim/report/timeline.h"
#include "sim/report/wire_out.h"
#include "sim/trace/meets.h"

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
/* Of a run: what its queues, links and memories stand below, then queues and links, then two counters a memory. Of several ranks each has a range of numbers.
 */
enum { UUID_QUEUES = 1, UUID_LINKS, UUID_MEMORIES, UUID_WAITS, UUID_REPEATS, UUID_TRACKS = 100 };
#define UUIDS_OF_A_RANK (UINT64_C(1) << 32)

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

/* A run on its way into the file. */
typedef struct {
    const EchReport *report;
    EchTimeline *timeline;
    EchBounds *bounds;
    uint64_t first; /* added to its uuids */
    GArray *ends;   /* End: of the arrows at its slices, in lists */
    guint *at;      /* of each slice: the first of its ends, + 1; 0 is none */
} Drawn;

/* An arrow begins or ends at a slice. */
typedef struct {
    uint64_t flow, other; /* other: what it leads to or comes from, in another rank; else UINT64_MAX */
    guint next;           /* of the same slice, + 1 */
    bool last;
} End;

static Drawn drawn_new(const EchReport *report, uint64_t first)
{
    Drawn drawn = {.report = report,
                   .timeline = ech_timeline_new(report),
                   .bounds = ech_report_bounds_new(report),
                   .first = first,
                   .ends = g_array_new(FALSE, FALSE, sizeof(End))};
    drawn.at = g_new0(guint, drawn.timeline->n_slices + 1);
    return drawn;
}

static void drawn_clear(Drawn *drawn)
{
    ech_timeline_free(drawn->timeline);
    ech_bounds_free(drawn->bounds);
    g_array_unref(drawn->ends);
    g_free(drawn->at);
}

/* In front of those that the slice has. */
static void add_end(Drawn *drawn, size_t slice, uint64_t other, uint64_t flow, bool last)
{
    End end = {flow, other, drawn->at[slice], last};
    g_array_append_val(drawn->ends, end);
    drawn->at[slice] = drawn->ends->len;
}

/* The arrows of the run's own timeline; they have the numbers from @flow + 1 on. */
static uint64_t add_own_flows(Drawn *drawn, uint64_t flow)
{
    const EchTimeline *timeline = drawn->timeline;
    for (size_t i = timeline->n_flows; i-- > 0;) {
        add_end(drawn, timeline->flows[i].to, UINT64_MAX, flow + i + 1, true);
        add_end(drawn, timeline->flows[i].from, UINT64_MAX, flow + i + 1, false);
    }
    return flow + timeline->n_flows;
}

static void begin_slice(Writer *writer, const Drawn *drawn, size_t i)
{
    const EchReport *report = drawn->report;
    const EchSlice *slice = &drawn->timeline->slices[i];
    const EchRun *run = report->run;
    const EchSpan *span = &run->spans[slice->span];
    const EchOp *op = &ech_trace_ops(report->trace)[span->op];
    g_autofree char *name = ech_slice_label(report, slice);
    g_autoptr(GByteArray) begin = g_byte_array_new();
    ech_wire_u64(begin, EVENT_TYPE, TYPE_BEGIN);
    ech_wire_u64(begin, EVENT_TRACK, drawn->first + UUID_TRACKS + slice->track);
    ech_wire_u64(begin, EVENT_NAME_IID, intern(writer, writer->names, INTERNED_NAMES, name));
    note_u64(begin, NOTE_DURATION, (uint64_t)(slice->end - slice->start));
    int bound = slice->waits ? -1 : ech_bounds_of(drawn->bounds, span);
    if (!slice->waits && (op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE))
        note_u64(begin, NOTE_BYTES, op->bytes);
    if (span->iteration)
        note_u64(begin, NOTE_ITERATION, span->iteration);
    if (bound >= 0)
        note_text(writer, begin, NOTE_BOUND, ech_bounds_words(drawn->bounds)[bound]);
    if (!slice->waits && span->op < run->n_prices)
        note_text(writer, begin, NOTE_PRICED, ech_price_name((EchPriceSource)run->prices[span->op].source));
    for (uint64_t w = 0; w < ECH_N_WAITS && !slice->waits; w++) {
        if (span->waits[w])
            note_u64(begin, NOTE_WAITS + w, (uint64_t)span->waits[w]);
    }
    for (guint at = drawn->at[i]; at; at = g_array_index(drawn->ends, End, at - 1).next) {
        const End *end = &g_array_index(drawn->ends, End, at - 1);
        ech_wire_fixed64(begin, end->last ? EVENT_FLOW_END : EVENT_FLOW, end->flow);
    }
    write_event(writer, slice->start, begin);
}

static void end_slice(Writer *writer, uint64_t track, EchTime time)
{
    g_autoptr(GByteArray) end = g_byte_array_new();
    ech_wire_u64(end, EVENT_TYPE, TYPE_END);
    ech_wire_u64(end, EVENT_TRACK, track);
    write_event(writer, time, end);
}

static void write_slice(Writer *writer, const Drawn *drawn, size_t i)
{
    begin_slice(writer, drawn, i);
    end_slice(writer, drawn->first + UUID_TRACKS + drawn->timeline->slices[i].track, drawn->timeline->slices[i].end);
}

/* Iterations that are not drawn. */
static void write_repeats(Writer *writer, const Drawn *drawn)
{
    const EchRun *run = drawn->report->run;
    uint64_t track = drawn->first + UUID_REPEATS;
    for (size_t i = 0; i < run->n_skips; i++) {
        g_autofree char *name = ech_skip_label(run, i);
        g_autoptr(GByteArray) begin = g_byte_array_new();
        ech_wire_u64(begin, EVENT_TYPE, TYPE_BEGIN);
        ech_wire_u64(begin, EVENT_TRACK, track);
        ech_wire_u64(begin, EVENT_NAME_IID, intern(writer, writer->names, INTERNED_NAMES, name));
        write_event(writer, run->skips[i].time, begin);
        end_slice(writer, track, ech_skip_end(run, i));
    }
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

static void write_failure(Writer *writer, const EchRun *run, uint64_t track)
{
    g_autoptr(GByteArray) event = g_byte_array_new();
    g_autofree char *name = g_strdup_printf("%s does not fit", run->failure.memory);
    ech_wire_u64(event, EVENT_TYPE, TYPE_INSTANT);
    ech_wire_u64(event, EVENT_TRACK, track);
    append_text(event, EVENT_NAME, name);
    note_u64(event, NOTE_BYTES, run->failure.asked);
    write_event(writer, run->failure.time, event);
}

/* Queues, links and counters, below what is there for each. */
static void describe_tracks(Writer *writer, const Drawn *drawn)
{
    const EchTimeline *timeline = drawn->timeline;
    const EchRun *run = drawn->report->run;
    for (size_t i = 0; i < timeline->n_tracks; i++) {
        const EchTrack *track = &timeline->tracks[i];
        describe(writer, drawn->first + UUID_TRACKS + i, drawn->first + (track->group == ECH_TRACK_QUEUE ? UUID_QUEUES : UUID_LINKS), track->name, 0, false);
    }
    if (run->n_skips > 0)
        describe(writer, drawn->first + UUID_REPEATS, drawn->first + UUID_QUEUES, ECH_TRACK_REPEATS, 0, false);
    uint64_t counters = drawn->first + UUID_TRACKS + timeline->n_tracks;
    for (size_t i = 0; i < run->n_memories; i++) {
        g_autofree char *live = g_strdup_printf("%s live bytes", run->memories[i].name);
        g_autofree char *reserved = g_strdup_printf("%s reserved bytes", run->memories[i].name);
        describe(writer, counters + i * 2, drawn->first + UUID_MEMORIES, live, 0, true);
        describe(writer, counters + i * 2 + 1, drawn->first + UUID_MEMORIES, reserved, 0, true);
    }
}

/* What is not an operation. */
static void write_rest(Writer *writer, const Drawn *drawn)
{
    write_repeats(writer, drawn);
    write_memories(writer, drawn->report->run, drawn->first + UUID_TRACKS + drawn->timeline->n_tracks);
    if (!drawn->report->run->fits)
        write_failure(writer, drawn->report->run, drawn->first + UUID_MEMORIES);
}

static Writer writer_new(void)
{
    return (Writer){g_byte_array_new(), false, g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL),
                    g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL), g_byte_array_new()};
}

/* What was written; the writer is gone. */
static GByteArray *writer_end(Writer *writer)
{
    g_hash_table_unref(writer->names);
    g_hash_table_unref(writer->texts);
    g_byte_array_unref(writer->fresh);
    return writer->out;
}

GByteArray *ech_report_perfetto(const EchReport *report)
{
    Writer writer = writer_new();
    Drawn drawn = drawn_new(report, 0);
    describe(&writer, UUID_QUEUES, 0, "Queues", 1, false);
    describe(&writer, UUID_LINKS, 0, "Links", 2, false);
    describe(&writer, UUID_MEMORIES, 0, "Memories", 3, false);
    describe_tracks(&writer, &drawn);
    (void)add_own_flows(&drawn, 0);
    for (size_t i = 0; i < drawn.timeline->n_slices; i++)
        write_slice(&writer, &drawn, i);
    write_rest(&writer, &drawn);
    drawn_clear(&drawn);
    return writer_end(&writer);
}

/* ---- several ranks ---- */

/* A slice begins, or ends. In the file's nanoseconds, at one time: ends, then what begins and ends in it, then beginnings; what is sent first, what is received
 * last: arrows go to what comes later in the file. */
typedef struct {
    int64_t ns;
    uint64_t order; /* from the highest bit: 3 of what it is, 6 of the rank, the slice's number */
} Moment;
enum { MOMENT_END, MOMENT_WHOLE, MOMENT_BEGIN = MOMENT_WHOLE + 3 };
enum { RANK_BITS = 6, SLICE_BITS = 55 };
_Static_assert(ECH_MAX_RANKS <= 1 << RANK_BITS, "a rank's number fits");

static int compare_moments(const void *a, const void *b)
{
    const Moment *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void add_moment(GArray *moments, EchTime time, unsigned what, size_t rank, size_t slice)
{
    Moment moment = {MAX(time, 0) / ECH_PS_PER_NS, (uint64_t)what << (RANK_BITS + SLICE_BITS) | (uint64_t)rank << SLICE_BITS | slice};
    g_array_append_val(moments, moment);
}

static const EchOp *op_of(const Drawn *drawn, size_t slice)
{
    return &ech_trace_ops(drawn->report->trace)[drawn->report->run->spans[drawn->timeline->slices[slice].span].op];
}

/* Of what begins at one time: 0 what is sent, 2 what is received, 1 all else. */
static unsigned turn_of(const EchOp *op)
{
    return op->collective == ECH_COLLECTIVE_SEND ? 0 : op->collective == ECH_COLLECTIVE_RECV ? 2 : 1;
}

static void add_moments(GArray *moments, const Drawn *drawn, size_t rank)
{
    for (size_t i = 0; i < drawn->timeline->n_slices; i++) {
        const EchSlice *slice = &drawn->timeline->slices[i];
        bool whole = MAX(slice->start, 0) / ECH_PS_PER_NS == MAX(slice->end, 0) / ECH_PS_PER_NS;
        add_moment(moments, slice->start, (whole ? MOMENT_WHOLE : MOMENT_BEGIN) + turn_of(op_of(drawn, i)), rank, i);
        if (!whole)
            add_moment(moments, slice->end, MOMENT_END, rank, i);
    }
}

/* Who came to a meeting before, in the order of the ranks. */
typedef struct {
    size_t rank, slice;
} Party;

static bool are_joined(const Drawn *drawn, size_t slice, uint64_t other)
{
    for (guint at = drawn->at[slice]; at; at = g_array_index(drawn->ends, End, at - 1).next)
        if (g_array_index(drawn->ends, End, at - 1).other == other)
            return true;
    return false;
}

/* An arrow between two parties, unless there is one: from what is sent to what is received, else from the first to the second. */
static void join_parties(Drawn *drawn, Party a, Party b, uint64_t *flow)
{
    uint64_t place_a = (uint64_t)a.rank << SLICE_BITS | a.slice, place_b = (uint64_t)b.rank << SLICE_BITS | b.slice;
    if (are_joined(&drawn[a.rank], a.slice, place_b))
        return;
    bool back = turn_of(op_of(&drawn[b.rank], b.slice)) < turn_of(op_of(&drawn[a.rank], a.slice));
    ++*flow;
    add_end(&drawn[a.rank], a.slice, place_b, *flow, back);
    add_end(&drawn[b.rank], b.slice, place_a, *flow, !back);
}

/* Arrows from each party of a meeting to the next one. */
static void join_ranks(Drawn *drawn, size_t n, uint64_t flow)
{
    g_autoptr(GHashTable) before = g_hash_table_new_full(ech_meeting_hash, ech_meeting_equal, g_free, g_free);
    for (size_t rank = 0; rank < n; rank++) {
        const EchTimeline *timeline = drawn[rank].timeline;
        for (size_t i = 0; i < timeline->n_slices; i++) {
            const EchOp *op = op_of(&drawn[rank], i);
            if (op->kind != ECH_OP_COLLECTIVE || timeline->slices[i].waits || timeline->tracks[timeline->slices[i].track].group != ECH_TRACK_QUEUE ||
                op->launch == ECH_NONE)
                continue;
            const char *at = ech_meets_of(ech_trace_string(drawn[rank].report->trace, op->launch));
            const Party party = {rank, i};
            for (EchMeeting key; ech_meets_next(&at, &key);) {
                const Party *last = g_hash_table_lookup(before, &key);
                if (last)
                    join_parties(drawn, *last, party, &flow);
                g_hash_table_replace(before, g_memdup2(&key, sizeof key), g_memdup2(&party, sizeof party));
            }
        }
    }
}

static void write_waits(Writer *writer, const EchRanks *ranks, size_t rank)
{
    const EchRankTimes *times = &ranks->ranks[rank];
    uint64_t track = UUIDS_OF_A_RANK * (rank + 1) + UUID_WAITS;
    for (size_t i = 0; i < times->n_stretches; i++) {
        const EchRankStretch *stretch = &times->stretches[i];
        if (stretch->state != ECH_RANK_WAITS)
            continue;
        const EchSlice slice = {.waits = true, .span = stretch->span};
        g_autofree char *name = ech_slice_label(&ranks->reports[rank], &slice);
        g_autoptr(GByteArray) begin = g_byte_array_new();
        ech_wire_u64(begin, EVENT_TYPE, TYPE_BEGIN);
        ech_wire_u64(begin, EVENT_TRACK, track);
        ech_wire_u64(begin, EVENT_NAME_IID, intern(writer, writer->names, INTERNED_NAMES, name));
        note_u64(begin, NOTE_DURATION, (uint64_t)(stretch->end - stretch->start));
        write_event(writer, stretch->start, begin);
        end_slice(writer, track, stretch->end);
    }
}

GByteArray *ech_report_ranks_perfetto(const EchRanks *ranks)
{
    Writer writer = writer_new();
    g_autofree Drawn *drawn = g_new0(Drawn, ranks->n);
    g_autoptr(GArray) moments = g_array_new(FALSE, FALSE, sizeof(Moment));
    uint64_t flow = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        uint64_t first = UUIDS_OF_A_RANK * (i + 1);
        drawn[i] = drawn_new(&ranks->reports[i], first);
        g_autofree char *name =
            g_strdup_printf("%s %" G_GUINT64_FORMAT ", %s", ranks->devices ? "device" : "rank", ranks->ranks[i].number, ranks->reports[i].device->name);
        describe(&writer, first + UUID_QUEUES, 0, name, (int)i + 1, false);
        describe(&writer, first + UUID_WAITS, first + UUID_QUEUES,
                 ranks->devices ? "nothing runs, waits for other devices" : "nothing runs, waits for other ranks", 0, false);
        describe(&writer, first + UUID_LINKS, first + UUID_QUEUES, "Links", 0, false);
        describe(&writer, first + UUID_MEMORIES, first + UUID_QUEUES, "Memories", 0, false);
        describe_tracks(&writer, &drawn[i]);
        flow = add_own_flows(&drawn[i], flow);
        add_moments(moments, &drawn[i], i);
    }
    join_ranks(drawn, ranks->n, flow);
    g_array_sort(moments, compare_moments);
    for (guint m = 0; m < moments->len; m++) {
        uint64_t order = g_array_index(moments, Moment, m).order, what = order >> (RANK_BITS + SLICE_BITS);
        const Drawn *of = &drawn[order >> SLICE_BITS & ((1 << RANK_BITS) - 1)];
        size_t slice = order & ((UINT64_C(1) << SLICE_BITS) - 1);
        if (what == MOMENT_END)
            end_slice(&writer, of->first + UUID_TRACKS + of->timeline->slices[slice].track, of->timeline->slices[slice].end);
        else if (what < MOMENT_BEGIN)
            write_slice(&writer, of, slice);
        else
            begin_slice(&writer, of, slice);
    }
    for (size_t i = 0; i < ranks->n; i++) {
        write_waits(&writer, ranks, i);
        write_rest(&writer, &drawn[i]);
        drawn_clear(&drawn[i]);
    }
    return writer_end(&writer);
}
