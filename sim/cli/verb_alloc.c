/* echelon alloc: a trace's allocations under one allocator or several, without a clock. */
#include "models/alloc/fixed.h"
#include "models/alloc/report.h"
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/import/alloc_events.h"
#include "sim/import/alloc_text.h"
#include "sim/report/json_out.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

/* Where no --capacity is given: the H100 and A100 of 80 GB, and the device the recorded placements were made on. */
static const EchBytes DEFAULT_CAPACITY = UINT64_C(80) << 30;
/* Events up to which the smallest capacity is searched without being asked for. */
enum { SEARCH_UNASKED = 200000 };
/* Events up to which max_split_size_mb is tried at all its usual values unasked. */
enum { SPLITS_UNASKED = 50000 };
/* Events up to which "plan" means XLA's default heap. */
enum { BEST_FIT_UNASKED = 50000 };
/* Behind the allocator of a recording that begins from the recorded start state. */
#define AS_RECORDED ", as recorded"

typedef struct {
    GArray *events;       /* EchAllocEvent: what is resident first */
    GArray *after;        /* EchAllocEvent: without what is resident; only with start */
    EchAllocStart *start; /* what the recorded allocator held, or NULL */
    EchTrace *trace;      /* for names, or NULL */
    GArray *refusals;     /* EchRefusal: requests that the recorded allocator refused; NULL without a trace */
    EchBytes had;         /* what the recorded allocator could have at most, as far as the recording tells; 0: unknown */
    EchBytes held;        /* the most that it held, or held at the end; 0: unknown */
    bool limited;         /* and it was not the device that refused, but a limit */
    bool of_pytorch;
    const char *memory; /* whose allocations these are; borrowed from the trace */
    char *others;       /* memories that have buffers too, or NULL */
    char *format;
    EchDiag *diag;
    bool is_program, without_residents;
    EchPlatform platform;
    EchBytes resident, compiler_bytes; /* programs: arguments and constants; all that the compiler assigned in this memory */
} Input;

/* One allocator's results. */
typedef struct {
    const char *spec;
    EchAllocOutcome outcome;
    EchAllocReport *report; /* or NULL */
    GArray *own;            /* EchAllocStat */
    char *note, *fault;
    EchBytes smallest; /* 0: not searched, or none */
    bool is_static;
    char *misfit;             /* why it did not begin from the recorded start state, or NULL */
    bool recorded;            /* began from the recorded start state */
    uint64_t compared, equal; /* recorded: allocations with a recorded address, and those placed there */
    char *difference;         /* the first one that was not */
    char *settings;           /* recorded: the settings taken from the recording */
    uint32_t served;          /* requests that the recorded allocator refused and this one granted */
    EchFit last_fit;          /* the last of those here */
    const GArray *events;     /* what it replayed; the input's */
} Result;

static void input_clear(Input *input)
{
    g_clear_pointer(&input->events, g_array_unref);
    g_clear_pointer(&input->after, g_array_unref);
    g_clear_pointer(&input->start, ech_alloc_start_free);
    g_clear_pointer(&input->trace, ech_trace_unref);
    g_clear_pointer(&input->refusals, g_array_unref);
    g_clear_pointer(&input->diag, ech_diag_free);
    g_free(input->format);
    g_free(input->others);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Input, input_clear)

static void result_clear(gpointer data)
{
    Result *result = data;
    g_clear_pointer(&result->report, ech_alloc_report_free);
    g_clear_pointer(&result->own, g_array_unref);
    g_free(result->note);
    g_free(result->fault);
    g_free(result->difference);
    g_free(result->settings);
    g_free(result->misfit);
}

/* What of a program's memory is there before it runs, and what its compiler needs in all. */
static void count_program(const EchProgram *program, EchId memory, bool temporaries, Input *input)
{
    for (size_t i = 0; i < ech_trace_n_buffers(input->trace); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(input->trace)[i];
        if (buffer->memory == memory && buffer->resident && buffer->alias_of == ECH_NONE)
            input->resident = ech_bytes_add(input->resident, buffer->bytes);
    }
    if (memory == ECH_NONE || strcmp(ech_trace_memory(input->trace, memory), "hbm") != 0 || !program->assignment)
        return;
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    EchBytes more = ech_bytes_add(m.output - MIN(m.alias, m.output), m.temp);
    input->compiler_bytes = temporaries ? more : ech_bytes_add(more, ech_bytes_add(m.argument, m.constant));
}

/* The memory that ran out, if it is one of several devices'; else the main one. */
static EchId memory_of(const EchTrace *trace)
{
    EchId best = ech_alloc_main_memory(trace);
    g_autoptr(GArray) of_main = ech_alloc_refusals(trace, best);
    for (EchId m = 0; m < ech_trace_n_memories(trace) && of_main->len == 0; m++) {
        g_autoptr(GArray) refusals = ech_alloc_refusals(trace, m);
        if (refusals->len)
            return m;
    }
    return best;
}

/* Names what else has buffers. */
static void list_others(Input *input, EchId id)
{
    size_t n = ech_trace_n_memories(input->trace);
    g_autofree bool *has = g_new0(bool, n + 1);
    for (size_t i = 0; i < ech_trace_n_buffers(input->trace); i++)
        has[MIN((size_t)ech_trace_buffers(input->trace)[i].memory, n)] = true;
    g_autoptr(GString) names = g_string_new(NULL);
    for (EchId m = 0; m < n; m++) {
        if (has[m] && m != id)
            g_string_append_printf(names, "%s%s", names->len ? ", " : "", ech_trace_memory(input->trace, m));
    }
    input->memory = id == ECH_NONE ? NULL : ech_trace_memory(input->trace, id);
    input->others = names->len ? g_strdup(names->str) : NULL;
}

/* Text of events is read straight into the array; everything else through its importer. */
static bool load(const char *path, const char *format, const char *memory, const char *device, bool temporaries, Input *input, GError **error)
{
    bool folder = g_file_test(path, G_FILE_TEST_IS_DIR);
    g_autoptr(EchSource) source = folder ? NULL : ech_source_open(path, error);
    if (!source && !folder)
        return false;
    size_t n = 0;
    const uint8_t *head = source ? ech_source_head(source, &n) : NULL;
    if (source && (!format || strcmp(format, "alloc_text") == 0) && ech_alloc_text_probe(head, n)) {
        input->diag = ech_diag_new();
        input->format = g_strdup("alloc_text");
        input->events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
        g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
        if (!bytes)
            return false;
        gsize size;
        const char *data = g_bytes_get_data(bytes, &size);
        return ech_alloc_text_read(data, size, path, input->events, input->diag, error);
    }
    EchImportOptions options = {.loop_trips = 1, .device = device};
    g_autoptr(EchImport) import = source ? ech_import_source(source, format, &options, error) : ech_import_file(path, format, &options, error);
    if (!import)
        return false;
    input->format = g_strdup(import->format);
    if (import->trace) {
        input->trace = ech_trace_ref(import->trace);
    } else {
        EchLowerOptions lower = {.loop_trips = 1};
        input->trace = ech_program_lower(import->program, NULL, &lower, import->diag, error);
        if (!input->trace)
            return false;
        input->is_program = true;
        input->without_residents = temporaries;
        input->platform = import->program->platform;
    }
    input->diag = g_steal_pointer(&import->diag);
    EchId id = memory ? ech_trace_find_memory(input->trace, memory) : memory_of(input->trace);
    list_others(input, id);
    if (memory && id == ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--memory: the trace has no memory '%s'; it has %s", memory, input->others ? input->others : "none");
        return false;
    }
    input->events = ech_alloc_events_of_trace(input->trace, id, !temporaries);
    if (input->is_program)
        count_program(import->program, id, temporaries, input);
    input->start = ech_alloc_start_of_trace(input->trace, id);
    input->refusals = ech_alloc_refusals(input->trace, id);
    input->had = input->refusals->len ? ech_alloc_refused_capacity(input->trace, id, &input->limited) : ech_alloc_recorded_peak(input->trace, id);
    const char *reserved = ech_trace_get_property(input->trace, "end_reserved_bytes");
    input->held = ech_alloc_recorded_peak(input->trace, id);
    if (input->held == 0 && (!reserved || !ech_parse_bytes(reserved, &input->held, NULL)))
        input->held = 0;
    static const char *const pytorch[] = {"memory_snapshot", "kineto", "pytorch_et", "memory_timeline", NULL};
    input->of_pytorch = g_strv_contains(pytorch, input->format);
    if (input->start)
        input->after = ech_alloc_events_of_trace(input->trace, id, false);
    return true;
}

/* ---- placements ---- */

static char *put_u64(char *at, uint64_t value)
{
    char digits[20];
    unsigned n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n)
        *at++ = digits[--n];
    return at;
}

/* Lines are made by hand: 10^6 of them should take no longer than placing them. */
static bool write_placements(const char *path, const GArray *events, const GArray *placed, GError **error)
{
    FILE *file = g_fopen(path, "w");
    if (!file) {
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: %s", path, g_strerror(errno));
        return false;
    }
    enum { LINE = 192, SIZE = 1 << 18 };
    g_autofree char *buffer = g_malloc(SIZE);
    char *at = buffer;
    bool ok = true;
    at += g_snprintf(at, LINE, "event,id,requested,rounded,segment,offset,address\n");
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, item->event);
        const EchPlacement *p = &item->placement;
        at = put_u64(at, item->event);
        *at++ = ',';
        at = put_u64(at, event->id);
        *at++ = ',';
        at = put_u64(at, event->bytes);
        *at++ = ',';
        if (item->fit == ECH_FIT_OK && p->address != ECH_ADDRESS_NONE) {
            at = put_u64(at, p->rounded);
            *at++ = ',';
            at = put_u64(at, p->segment);
            *at++ = ',';
            at = put_u64(at, p->offset);
            *at++ = ',';
            if (p->reservation >= 0) {
                *at++ = 'E';
                at = put_u64(at, (uint64_t)p->reservation);
                *at++ = '+';
                at = put_u64(at, p->address - ((uint64_t)(p->reservation + 1) << 48));
            } else {
                at = put_u64(at, p->address);
            }
        } else {
            *at++ = ',';
            *at++ = ',';
            *at++ = ',';
        }
        *at++ = '\n';
        if (at > buffer + SIZE - LINE) {
            ok = ok && fwrite(buffer, 1, (size_t)(at - buffer), file) == (size_t)(at - buffer);
            at = buffer;
        }
    }
    ok = ok && fwrite(buffer, 1, (size_t)(at - buffer), file) == (size_t)(at - buffer);
    ok = (fclose(file) == 0) && ok;
    if (!ok)
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: %s", path, g_strerror(errno));
    return ok;
}

/* ---- output ---- */

static double fragmentation(const EchAllocStats *stats)
{
    return stats->peak_reserved ? 1 - (double)stats->peak_live / (double)stats->peak_reserved : 0;
}

static const char *const moment_names[] = {"peak", "failure", "end"};
static const char *const fit_names[] = {"ok", "full", "fragmented"};

static const EchBuffer *buffer_of(const Input *input, uint32_t id)
{
    return input->trace && id < ech_trace_n_buffers(input->trace) ? &ech_trace_buffers(input->trace)[id] : NULL;
}

/* A request that the recorded allocator refused, or NULL. */
static const EchRefusal *refusal_of(const Input *input, uint32_t id)
{
    size_t first = input->trace ? ech_trace_n_buffers(input->trace) : 0;
    return input->refusals && id >= first && id - first < input->refusals->len ? &g_array_index(input->refusals, EchRefusal, id - first) : NULL;
}

/* Where it was asked for, innermost frame first, a line each, or NULL. */
static const char *stack_of(const Input *input, uint32_t id)
{
    const EchBuffer *buffer = buffer_of(input, id);
    const EchRefusal *refusal = refusal_of(input, id);
    EchId stack = buffer ? buffer->stack : refusal ? ech_trace_ops(input->trace)[refusal->op].stack : ECH_NONE;
    return stack == ECH_NONE ? NULL : ech_trace_string(input->trace, stack);
}

/* What people call an allocation. Owned by the caller. */
static char *name_of(const Input *input, uint32_t id)
{
    const EchBuffer *buffer = buffer_of(input, id);
    const char *name = buffer ? ech_trace_string(input->trace, buffer->name) : "";
    if (*name)
        return g_strdup(name);
    if (!refusal_of(input, id))
        return g_strdup_printf("#%u", id);
    /* The innermost line of Python, without its folder. */
    const char *stack = stack_of(input, id), *dot = stack ? strstr(stack, ".py:") : NULL;
    if (!dot)
        return g_strdup("the refused request");
    const char *begin = dot;
    while (begin > stack && begin[-1] != '/' && begin[-1] != '\\' && begin[-1] != '\n')
        begin--;
    return g_strdup_printf("%.*s", (int)(dot - begin + 4 + (ptrdiff_t)strspn(dot + 4, "0123456789")), begin);
}

static void json_pins(JsonBuilder *b, const char *member, const Input *input, const EchMoment *moment, const EchPin *pins, uint32_t n)
{
    json_builder_set_member_name(b, member);
    json_builder_begin_array(b);
    for (uint32_t j = 0; j < n; j++) {
        g_autofree char *name = name_of(input, pins[j].id);
        json_builder_begin_object(b);
        ech_json_add_count(b, "id", pins[j].id);
        ech_json_add_text(b, "name", name);
        ech_json_add_count(b, "bytes", pins[j].bytes);
        ech_json_add_count(b, "requested_bytes", pins[j].requested);
        ech_json_add_count(b, "age_events", moment->event - MIN(moment->event, (uint64_t)pins[j].born));
        if (stack_of(input, pins[j].id))
            ech_json_add_text(b, "stack", stack_of(input, pins[j].id));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void json_moment(JsonBuilder *b, const Input *input, const EchMoment *moment, unsigned top)
{
    json_builder_begin_object(b);
    ech_json_add_text(b, "moment", moment_names[moment->kind]);
    ech_json_add_count(b, "event", moment->event);
    if (moment->kind == ECH_MOMENT_FAILURE) {
        ech_json_add_count(b, "asked_bytes", moment->asked);
        ech_json_add_count(b, "asked_id", moment->asked_id);
        ech_json_add_text(b, "why", fit_names[moment->fit]);
    }
    ech_json_add_count(b, "reserved_bytes", moment->stats.reserved);
    ech_json_add_count(b, "allocated_bytes", moment->stats.live);
    ech_json_add_count(b, "requested_bytes", moment->stats.requested);
    ech_json_add_count(b, "internal_waste_bytes", moment->internal_waste);
    ech_json_add_count(b, "largest_free_bytes", moment->stats.largest_free);
    ech_json_add_count(b, "free_blocks", moment->n_free);
    ech_json_add_count(b, "device_free_bytes", moment->device_free);
    ech_json_add_count(b, "stranded_bytes", moment->stranded);
    ech_json_add_count(b, "cached_bytes", moment->cached);
    ech_json_add_count(b, "pending_bytes", moment->pending);
    ech_json_add_text(b, "picture", moment->picture);
    if (moment->hole.bytes) {
        json_builder_set_member_name(b, "would_fit_without");
        json_builder_begin_object(b);
        ech_json_add_count(b, "segment", moment->hole.segment);
        ech_json_add_count(b, "address", moment->hole.address);
        ech_json_add_count(b, "bytes", moment->hole.bytes);
        ech_json_add_count(b, "used_bytes", moment->hole.used);
        ech_json_add_count(b, "live_blocks", moment->hole.n_blocks);
        json_pins(b, "blocks", input, moment, moment->hole_pins, MIN(moment->hole.n_blocks, top));
        json_builder_end_object(b);
    }
    json_builder_set_member_name(b, "segments");
    json_builder_begin_array(b);
    for (uint32_t i = 0; i < MIN(moment->n_segments, top); i++) {
        const EchSegmentReport *segment = &moment->segments[i];
        json_builder_begin_object(b);
        ech_json_add_count(b, "segment", segment->segment);
        ech_json_add_count(b, "address", segment->address);
        ech_json_add_count(b, "bytes", segment->bytes);
        ech_json_add_count(b, "used_bytes", segment->used);
        ech_json_add_count(b, "stranded_bytes", segment->bytes - segment->used);
        ech_json_add_count(b, "largest_free_bytes", segment->largest_free);
        ech_json_add_count(b, "live_blocks", segment->n_blocks);
        json_pins(b, "pinned_by", input, moment, &moment->pins[segment->first_block], MIN(segment->n_blocks, top));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
}

static void json_report(JsonBuilder *b, const Input *input, const EchAllocReport *report, unsigned top)
{
    json_builder_set_member_name(b, "moments");
    json_builder_begin_array(b);
    for (guint i = 0; i < report->moments->len; i++)
        json_moment(b, input, &g_array_index(report->moments, EchMoment, i), top);
    json_builder_end_array(b);
    json_builder_set_member_name(b, "failures");
    json_builder_begin_array(b);
    for (guint i = 0; i < report->failures->len; i++) {
        const EchAllocFailure *failure = &g_array_index(report->failures, EchAllocFailure, i);
        json_builder_begin_object(b);
        ech_json_add_count(b, "event", failure->event);
        ech_json_add_count(b, "id", failure->id);
        ech_json_add_count(b, "asked_bytes", failure->asked);
        ech_json_add_text(b, "why", fit_names[failure->fit]);
        ech_json_add_count(b, "allocated_bytes", failure->live);
        ech_json_add_count(b, "reserved_bytes", failure->reserved);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_set_member_name(b, "address_map");
    json_builder_begin_object(b);
    ech_json_add_count(b, "bytes", report->map.bytes);
    json_builder_set_member_name(b, "events");
    json_builder_begin_array(b);
    for (uint32_t c = 0; c < report->map.n_columns; c++)
        json_builder_add_int_value(b, report->map.events[c]);
    json_builder_end_array(b);
    json_builder_set_member_name(b, "rows");
    json_builder_begin_array(b);
    for (uint32_t r = 0; r < report->map.n_rows; r++)
        json_builder_add_string_value(b, report->map.rows[r]);
    json_builder_end_array(b);
    json_builder_end_object(b);
    json_builder_set_member_name(b, "series");
    json_builder_begin_array(b);
    for (guint i = 0; i < report->samples->len; i++) {
        const EchAllocSample *sample = &g_array_index(report->samples, EchAllocSample, i);
        json_builder_begin_array(b);
        json_builder_add_int_value(b, (gint64)sample->event);
        json_builder_add_int_value(b, (gint64)sample->requested);
        json_builder_add_int_value(b, (gint64)sample->live);
        json_builder_add_int_value(b, (gint64)sample->reserved);
        json_builder_end_array(b);
    }
    json_builder_end_array(b);
}

static void json_result(JsonBuilder *b, const Input *input, const Result *result, unsigned top, bool searched)
{
    const EchAllocOutcome *outcome = &result->outcome;
    const EchAllocStats *stats = &outcome->stats;
    json_builder_begin_object(b);
    ech_json_add_text(b, "name", result->spec);
    ech_json_add_count(b, "events", outcome->events);
    ech_json_add_count(b, "failed", stats->failed);
    ech_json_add_count(b, "failed_fragmented", outcome->fragmented);
    if (outcome->first_failed != UINT64_MAX)
        ech_json_add_count(b, "first_failed_event", outcome->first_failed);
    ech_json_add_count(b, "peak_live_bytes", stats->peak_live);
    ech_json_add_count(b, "peak_requested_bytes", stats->peak_requested);
    ech_json_add_count(b, "peak_reserved_bytes", stats->peak_reserved);
    ech_json_add_count(b, "end_live_bytes", stats->live);
    ech_json_add_count(b, "end_reserved_bytes", stats->reserved);
    ech_json_add_count(b, "largest_free_bytes", stats->largest_free);
    ech_json_add_double(b, "fragmentation", fragmentation(stats));
    ech_json_add_count(b, "internal_waste_bytes", stats->waste_at_peak);
    ech_json_add_count(b, "segments_allocated", stats->segments_allocated);
    ech_json_add_count(b, "segments_freed", stats->segments_freed);
    ech_json_add_double(b, "events_per_second", outcome->seconds > 0 ? (double)outcome->events / outcome->seconds : 0);
    if (searched)
        ech_json_add_count(b, "smallest_capacity_bytes", result->smallest);
    if (input->refusals && input->refusals->len)
        ech_json_add_count(b, "out_of_memory_served", result->served);
    if (result->recorded) {
        json_builder_set_member_name(b, "recorded");
        json_builder_begin_object(b);
        ech_json_add_count(b, "start_blocks", input->start->seeds->len);
        ech_json_add_count(b, "start_blocks_guessed", input->start->guessed);
        ech_json_add_count(b, "compared", result->compared);
        ech_json_add_count(b, "equal", result->equal);
        if (result->settings)
            ech_json_add_text(b, "settings", result->settings);
        if (result->difference)
            ech_json_add_text(b, "first_difference", result->difference);
        json_builder_end_object(b);
    }
    if (result->note)
        ech_json_add_text(b, "note", result->note);
    if (result->fault)
        ech_json_add_text(b, "fault", result->fault);
    json_builder_set_member_name(b, "statistics");
    json_builder_begin_object(b);
    for (guint i = 0; i < result->own->len; i++) {
        const EchAllocStat *stat = &g_array_index(result->own, EchAllocStat, i);
        json_builder_set_member_name(b, stat->name);
        json_builder_add_int_value(b, stat->value);
    }
    json_builder_end_object(b);
    if (result->report)
        json_report(b, input, result->report, top);
    json_builder_end_object(b);
}

/* Bytes in use, as asked for, when a request was refused. */
static EchBytes live_at_refusal(const Input *input, uint32_t id)
{
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)input->events->data;
    EchBytes live = 0;
    for (guint i = 0; i < input->events->len; i++) {
        const EchAllocEvent *event = &events[i];
        if (event->kind == ECH_EVENT_ALLOC && event->id == id)
            break;
        const EchBuffer *buffer = buffer_of(input, event->id);
        if (buffer && event->kind == ECH_EVENT_ALLOC)
            live = ech_bytes_add(live, event->bytes);
        else if (buffer && event->kind == ECH_EVENT_FREE)
            live -= MIN(live, buffer->bytes);
    }
    return live;
}

static void json_refusals(JsonBuilder *b, const Input *input)
{
    if (!input->refusals || input->refusals->len == 0)
        return;
    json_builder_set_member_name(b, "out_of_memory");
    json_builder_begin_array(b);
    for (guint i = 0; i < input->refusals->len; i++) {
        const EchRefusal *refusal = &g_array_index(input->refusals, EchRefusal, i);
        uint32_t id = (uint32_t)ech_trace_n_buffers(input->trace) + i;
        g_autofree char *name = name_of(input, id);
        json_builder_begin_object(b);
        ech_json_add_count(b, "id", id);
        ech_json_add_text(b, "name", name);
        ech_json_add_count(b, "asked_bytes", refusal->bytes);
        ech_json_add_count(b, "reserved_bytes", refusal->reserved);
        ech_json_add_count(b, "device_free_bytes", refusal->device_free);
        if (stack_of(input, id))
            ech_json_add_text(b, "stack", stack_of(input, id));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void json_holders(JsonBuilder *b, const Input *input, unsigned top);

static void print_json(const Input *input, const GArray *results, EchBytes capacity, const char *source, EchBytes bound, unsigned top, bool searched)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "format", input->format);
    ech_json_add_count(b, "events", input->events->len);
    ech_json_add_count(b, "capacity_bytes", capacity);
    ech_json_add_text(b, "capacity_from", source ? source : "given");
    ech_json_add_count(b, "lower_bound_bytes", bound);
    if (input->held)
        ech_json_add_count(b, "recorded_reserved_bytes", input->held);
    json_refusals(b, input);
    if (input->of_pytorch)
        json_holders(b, input, top);
    if (input->is_program)
        ech_json_add_count(b, "arguments_and_constants_bytes", input->resident);
    json_builder_set_member_name(b, "allocators");
    json_builder_begin_array(b);
    for (guint i = 0; i < results->len; i++)
        json_result(b, input, &g_array_index(results, Result, i), top, searched);
    json_builder_end_array(b);
    json_builder_end_object(b);
    g_autofree char *text = ech_json_finish(b);
    ech_cli_print(text);
}

/* "NAME (SIZE, age N), ...": at most @most of @n. */
static void text_pins(GString *out, const Input *input, const EchMoment *moment, const EchPin *pins, uint32_t n, uint32_t most)
{
    for (uint32_t j = 0; j < MIN(n, most); j++) {
        g_autofree char *name = name_of(input, pins[j].id), *size = ech_format_bytes(pins[j].bytes);
        g_string_append_printf(out, "%s %.40s (%s, age %" G_GUINT64_FORMAT ")", j ? "," : "", name, size,
                               moment->event - MIN(moment->event, (uint64_t)pins[j].born));
    }
    if (n > most)
        g_string_append(out, ", ...");
}

/* Frames of the capture and of the allocator itself, which every stack begins with. */
static bool is_plumbing(const char *frame)
{
    static const char *const words[] = {"torch::unwind",     "CapturedTraceback", "gather_with_cpp", "CachingAllocator",   "c10::",
                                        "at::detail::empty", "at::empty",         "empty_strided",   "empty_memory_format"};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strstr(frame, words[i]))
            return true;
    }
    return false;
}

/* "    NAME was made in FRAME < FRAME" (@what: "made"): the innermost frames, where the capture has them; of a stack with Python in it only that. */
static void text_stack(GString *out, const Input *input, uint32_t id, const char *what)
{
    const char *stack = stack_of(input, id);
    if (!stack)
        return;
    bool python = strstr(stack, ".py:") != NULL;
    g_autofree char *name = name_of(input, id);
    g_auto(GStrv) frames = g_strsplit(stack, "\n", -1);
    g_string_append_printf(out, "    %.40s was %s in ", name, what);
    unsigned shown = 0;
    for (char **frame = frames; *frame && shown < 4; frame++) {
        if (python ? !strstr(*frame, ".py:") : shown == 0 && is_plumbing(*frame))
            continue;
        g_autofree char *valid = g_utf8_make_valid(*frame, -1);
        g_string_append_printf(out, "%s%.120s", shown++ ? " < " : "", valid);
    }
    g_string_append_c(out, '\n');
}

/* Why a request failed, and what stood in its way. */
static void text_failure(GString *out, const Input *input, const EchMoment *moment, EchBytes capacity)
{
    g_autofree char *asked = ech_format_bytes(moment->asked), *name = name_of(input, moment->asked_id), *device_free = ech_format_bytes(moment->device_free);
    g_autofree char *not_live = ech_format_bytes(capacity - MIN(capacity, moment->stats.live)), *largest = ech_format_bytes(moment->stats.largest_free);
    if (moment->fit == ECH_FIT_FULL) {
        g_string_append_printf(out, ": %s asked for %.40s; what lives leaves no more than %s: only using less, or more memory, helps\n", asked, name, not_live);
        return;
    }
    g_string_append_printf(out, ": %s asked for %.40s; %s are not in use, but fragmented: %s left on the device, %u free block%s, the largest %s\n", asked,
                           name, not_live, device_free, moment->n_free, moment->n_free == 1 ? "" : "s", largest);
    if (moment->device_free >= moment->asked)
        g_string_append(out, "    of what is left on the device it takes nothing: it takes larger pieces at a time, or is at its limit\n");
    if (moment->hole.bytes == 0) {
        g_string_append(out, "    no segment is that large\n");
    } else if (moment->hole.used == 0) {
        g_autofree char *bytes = ech_format_bytes(moment->hole.bytes);
        g_string_append_printf(out,
                               "    %s are free in one piece in segment %u, but this allocator does not use them for such a request (other pool, other stream, "
                               "or kept for larger ones)\n",
                               bytes, moment->hole.segment);
    } else {
        g_autofree char *bytes = ech_format_bytes(moment->hole.bytes), *used = ech_format_bytes(moment->hole.used);
        g_string_append_printf(out, "    least in the way: %s of %s in segment %u, held by %u live block%s:", used, bytes, moment->hole.segment,
                               moment->hole.n_blocks, moment->hole.n_blocks == 1 ? "" : "s");
        text_pins(out, input, moment, moment->hole_pins, moment->hole.n_blocks, 3);
        g_string_append_c(out, '\n');
        if (moment->hole.n_blocks)
            text_stack(out, input, moment->hole_pins[0].id, "made");
    }
}

/* @brief: what led to it only, for failures after the first. */
static void text_moment(GString *out, const Input *input, const EchMoment *moment, unsigned top, EchBytes capacity, bool brief)
{
    g_autofree char *reserved = ech_format_bytes(moment->stats.reserved), *live = ech_format_bytes(moment->stats.live),
                    *waste = ech_format_bytes(moment->internal_waste);
    g_autofree char *largest = ech_format_bytes(moment->stats.largest_free), *stranded = ech_format_bytes(moment->stranded),
                    *cached = ech_format_bytes(moment->cached);
    g_string_append_printf(out, "  %s, event %" G_GUINT64_FORMAT, moment_names[moment->kind], moment->event);
    if (moment->kind == ECH_MOMENT_FAILURE)
        text_failure(out, input, moment, capacity);
    else
        g_string_append_c(out, '\n');
    if (brief)
        return;
    g_string_append_printf(out, "    reserved %s, allocated %s (%s of it waste), largest free %s, stranded %s, cached %s\n    [%s]\n", reserved, live, waste,
                           largest, stranded, cached, moment->picture);
    for (uint32_t i = 0; i < MIN(moment->n_segments, top); i++) {
        const EchSegmentReport *segment = &moment->segments[i];
        g_autofree char *bytes = ech_format_bytes(segment->bytes), *free_bytes = ech_format_bytes(segment->bytes - segment->used);
        g_string_append_printf(out, "    segment %u: %s of %s stranded by %u live block%s:", segment->segment, free_bytes, bytes, segment->n_blocks,
                               segment->n_blocks == 1 ? "" : "s");
        text_pins(out, input, moment, &moment->pins[segment->first_block], segment->n_blocks, 3);
        g_string_append_c(out, '\n');
    }
}

static void text_report(GString *out, const Input *input, const Result *result, unsigned top, EchBytes capacity)
{
    const EchAllocReport *report = result->report;
    g_string_append_printf(out, "\n%s\n", result->spec);
    guint shown = 0;
    for (guint i = 0; i < report->moments->len; i++) {
        const EchMoment *moment = &g_array_index(report->moments, EchMoment, i);
        text_moment(out, input, moment, top, capacity, moment->kind == ECH_MOMENT_FAILURE && shown > 0);
        shown += moment->kind == ECH_MOMENT_FAILURE;
    }
    if (result->outcome.stats.failed > shown)
        g_string_append_printf(out, "  %" G_GUINT64_FORMAT " more failure%s; --json lists them\n", result->outcome.stats.failed - shown,
                               result->outcome.stats.failed - shown == 1 ? "" : "s");
    if (report->map.n_rows == 0)
        return;
    g_autofree char *bytes = ech_format_bytes(report->map.bytes);
    g_string_append_printf(out, "  addresses (%s ever reserved, high ones on top) over events: # in use, + mostly, : partly, . free, blank not reserved\n",
                           bytes);
    for (uint32_t r = 0; r < report->map.n_rows; r++)
        g_string_append_printf(out, "    |%s|\n", report->map.rows[r]);
}

/* Blocks that one line asked for and that live at the same time. */
typedef struct {
    char *line; /* owned */
    uint64_t blocks;
    EchBytes bytes;
} Holder;

static void holder_clear(gpointer data)
{
    g_free(((Holder *)data)->line);
}

static int by_held(const void *a, const void *b)
{
    const Holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->line, y->line);
}

/* Frames of PyTorch that only call the next one. */
static bool is_calling(const char *name, const char *end)
{
    static const char *const names[] = {"_call_impl", "_wrapped_call_impl", "__torch_function__", "handle_torch_function", "wrapper", "decorate_context"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        size_t n = strlen(names[i]);
        if ((size_t)(end - MIN(name, end)) >= n && strncmp(name, names[i], n) == 0 && (name + n == end || !g_ascii_isalnum(name[n])))
            return true;
    }
    return false;
}

/* "model.py:12 __init__ < train.py:30 main": up to three frames of Python, without folders (snapshots write file.py:12:name, profiles file.py(12): name). */
static char *line_of(const Input *input, uint32_t id)
{
    const EchBuffer *buffer = buffer_of(input, id);
    g_autoptr(GString) out = g_string_new(NULL);
    unsigned shown = 0;
    for (const char *at = stack_of(input, id); at && *at && shown < 3;) {
        const char *end = at + strcspn(at, "\n"), *dot = g_strstr_len(at, end - at, ".py");
        if (dot && (dot[3] == ':' || dot[3] == '(')) {
            const char *begin = dot, *digits = dot + 4;
            while (begin > at && begin[-1] != '/' && begin[-1] != '\\')
                begin--;
            const char *past = digits + strspn(digits, "0123456789"), *name = past + strspn(past, "): ");
            if (!is_calling(name, end)) {
                g_string_append_printf(out, "%s%.*s:%.*s", shown++ ? " < " : "", (int)(dot + 3 - begin), begin, (int)(past - digits), digits);
                g_string_append_printf(out, " %.*s", (int)(end > name ? end - name : 0), name);
            }
        }
        at = *end ? end + 1 : end;
    }
    const char *name = ech_trace_string(input->trace, buffer->name);
    if (shown == 0 && buffer->resident && !*name)
        g_string_append(out, "(in use before the recording, without a stack)");
    else if (shown == 0)
        g_string_append(out, *name && *name != '[' ? name : "(without a line of Python: gradients of a backward pass, libraries)");
    return g_utf8_make_valid(out->str, -1);
}

/* Who holds memory when most is in use, or when a request was refused last: the most first (Holder). */
static GArray *holders(const Input *input, EchBytes *ret_live)
{
    GArray *out = g_array_new(FALSE, FALSE, sizeof(Holder));
    g_array_set_clear_func(out, holder_clear);
    size_t n = input->trace ? ech_trace_n_buffers(input->trace) : 0, at;
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)input->events->data;
    ech_alloc_lower_bound(events, input->events->len, &at);
    if (input->refusals && input->refusals->len) {
        for (at = 0; at + 1 < input->events->len && (events[at].kind != ECH_EVENT_ALLOC || events[at].id != n + input->refusals->len - 1);)
            at++;
    }
    g_autofree bool *live = g_new0(bool, n + 1);
    for (size_t i = 0; i <= at && i < input->events->len; i++) {
        if (events[i].id < n && (events[i].kind == ECH_EVENT_ALLOC || events[i].kind == ECH_EVENT_FREE))
            live[events[i].id] = events[i].kind == ECH_EVENT_ALLOC;
    }
    g_autoptr(GHashTable) known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL); /* line to index + 1 */
    *ret_live = 0;
    for (size_t i = 0; i < n; i++) {
        EchBytes bytes = ech_trace_buffers(input->trace)[i].bytes;
        if (!live[i] || bytes == 0)
            continue;
        *ret_live = ech_bytes_add(*ret_live, bytes);
        g_autofree char *line = line_of(input, (uint32_t)i);
        guint index = GPOINTER_TO_UINT(g_hash_table_lookup(known, line));
        if (index == 0) {
            Holder holder = {.line = g_strdup(line)};
            g_array_append_val(out, holder);
            index = out->len;
            g_hash_table_insert(known, g_steal_pointer(&line), GUINT_TO_POINTER(index));
        }
        Holder *holder = &g_array_index(out, Holder, index - 1);
        holder->blocks++;
        holder->bytes = ech_bytes_add(holder->bytes, bytes);
    }
    if (out->len)
        g_array_sort(out, by_held);
    return out;
}

static void text_holders(GString *out, const Input *input, unsigned top)
{
    EchBytes live;
    g_autoptr(GArray) held = holders(input, &live);
    if (held->len == 0 || top == 0)
        return;
    g_autofree char *sum = ech_format_bytes(live);
    bool refused = input->refusals && input->refusals->len;
    g_string_append_printf(out, "\n%s, %s, by what asked for it\n", refused ? "in use at the refusal" : "in use when most is", sum);
    EchBytes rest = 0;
    uint64_t blocks = 0;
    for (guint i = 0; i < held->len; i++) {
        const Holder *holder = &g_array_index(held, Holder, i);
        if (i >= top && held->len > top + 1) {
            rest = ech_bytes_add(rest, holder->bytes);
            blocks += holder->blocks;
            continue;
        }
        g_autofree char *bytes = ech_format_bytes(holder->bytes);
        g_string_append_printf(out, "  %10s  %5" G_GUINT64_FORMAT " block%s  %.140s\n", bytes, holder->blocks, holder->blocks == 1 ? " " : "s", holder->line);
    }
    if (blocks) {
        g_autofree char *bytes = ech_format_bytes(rest);
        g_string_append_printf(out, "  %10s  %5" G_GUINT64_FORMAT " block%s  of %u more lines (--top)\n", bytes, blocks, blocks == 1 ? " " : "s",
                               held->len - top);
    }
}

static void json_holders(JsonBuilder *b, const Input *input, unsigned top)
{
    EchBytes live;
    g_autoptr(GArray) held = holders(input, &live);
    json_builder_set_member_name(b, "in_use_by_line");
    json_builder_begin_array(b);
    for (guint i = 0; i < MIN(held->len, top); i++) {
        const Holder *holder = &g_array_index(held, Holder, i);
        json_builder_begin_object(b);
        ech_json_add_text(b, "line", holder->line);
        ech_json_add_count(b, "blocks", holder->blocks);
        ech_json_add_count(b, "bytes", holder->bytes);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

/* The recording ran out of memory: who would not have. */
static void text_refusals(GString *out, const Input *input, const GArray *results, EchBytes capacity, EchBytes bound, bool fresh, int width)
{
    guint n = input->refusals ? input->refusals->len : 0;
    if (n == 0)
        return;
    const EchRefusal *refusal = &g_array_index(input->refusals, EchRefusal, n - 1);
    uint32_t id = (uint32_t)ech_trace_n_buffers(input->trace) + n - 1;
    EchBytes live = live_at_refusal(input, id), held = refusal->reserved - MIN(refusal->reserved, live);
    g_autofree char *asked = ech_format_bytes(refusal->bytes), *in_use = ech_format_bytes(live), *unused = ech_format_bytes(held),
                    *left = ech_format_bytes(refusal->device_free), *name = name_of(input, id), *room = ech_format_bytes(capacity);
    g_string_append_printf(out, "\nthe recording ran out of memory");
    if (n > 1)
        g_string_append_printf(out, " %u times, the last time", n);
    g_string_append_printf(out, ": %s asked for by %.60s with %s allocated, %s reserved but unallocated, %s free on the device\n", asked, name, in_use, unused,
                           left);
    text_stack(out, input, id, "asked for");
    if (input->limited)
        g_string_append(out, "    the device had enough left: a limit refused it (set_per_process_memory_fraction or the like); raise it, or see below\n");
    if (bound > capacity) {
        g_autofree char *more = ech_format_bytes(bound - capacity);
        g_string_append_printf(out,
                               "  no allocator can serve it in %s: what lives together is %s more. Use less at a time (micro-batch, checkpointing, offload, "
                               "shards) or a larger device\n",
                               room, more);
        return;
    }
    bool fragmented = false;
    for (guint i = 0; i < results->len; i++) {
        const Result *result = &g_array_index(results, Result, i);
        g_autofree char *label = g_strconcat(result->spec, result->recorded ? AS_RECORDED : NULL, NULL), *smallest = ech_format_bytes(result->smallest);
        g_string_append_printf(out, "  %-*s  ", width, label);
        if (result->served < n) {
            g_string_append_printf(out, "refuses it%s, %s\n", result->recorded ? " too" : "",
                                   result->last_fit == ECH_FIT_FRAGMENTED ? "though as many bytes are free: fragmentation" : "for want of memory");
            fragmented |= result->last_fit == ECH_FIT_FRAGMENTED && !result->report && !result->is_static;
            continue;
        }
        g_string_append(out, n > 1 ? "serves all of them" : "serves it");
        if (result->outcome.stats.failed)
            g_string_append(out, ", but fails elsewhere");
        else if (result->smallest)
            g_string_append_printf(out, "; %s of device memory would do", smallest);
        if (fresh && !result->recorded && !result->is_static)
            g_string_append(out, ", begun without the recording's holes");
        g_string_append_c(out, '\n');
    }
    if (fragmented)
        g_string_append(out, "  --report says what stood in the way\n");
}

/* PyTorch empties its cache before it gives up: not a failure, but slow. */
static void text_retries(GString *out, const Result *result)
{
    int64_t retries = 0, given_up = 0;
    for (guint i = 0; i < result->own->len; i++) {
        const EchAllocStat *stat = &g_array_index(result->own, EchAllocStat, i);
        retries += strcmp(stat->name, "num_alloc_retries") == 0 ? stat->value : 0;
        given_up += strcmp(stat->name, "num_ooms") == 0 ? stat->value : 0;
    }
    if (retries > given_up)
        g_string_append_printf(out, "\n%s: emptied its cache %" G_GINT64_FORMAT " time%s to make room (num_alloc_retries): each waits for the device",
                               result->spec, retries - given_up, retries - given_up == 1 ? "" : "s");
}

/* A program ends at its first failure; what comes after shows only how much more is missing. */
static void text_first_failure(GString *out, const Input *input, const Result *result)
{
    uint64_t failed = result->outcome.stats.failed, at = result->outcome.first_failed, fragmented = result->outcome.fragmented;
    if (failed == 0 || result->is_static || !result->events || at >= result->events->len)
        return;
    const EchAllocEvent *event = &g_array_index(result->events, EchAllocEvent, at);
    if (refusal_of(input, event->id)) /* said already */
        return;
    g_autofree char *asked = ech_format_bytes(event->bytes), *name = name_of(input, event->id);
    g_string_append_printf(out, "\n%s: out of memory at event %" G_GUINT64_FORMAT ", %s for %.60s, %s", result->spec, at, asked, name,
                           result->outcome.first_fit == ECH_FIT_FRAGMENTED ? "though as many bytes are free: fragmentation" : "for want of memory");
    if (failed > 1)
        g_string_append_printf(out,
                               "; a program ends there, the replay goes on without it: %" G_GUINT64_FORMAT " more, %" G_GUINT64_FORMAT
                               " of all %" G_GUINT64_FORMAT " are fragmentation",
                               failed - 1, fragmented, failed);
    if (fragmented && !result->report)
        g_string_append(out, "; --report says what stood in the way");
}

static void print_text(const Input *input, const char *path, const GArray *results, EchBytes capacity, const char *source, EchBytes bound, unsigned top,
                       bool searched)
{
    g_autoptr(GString) out = g_string_new(NULL);
    if (input->events->len == 0) {
        g_string_append_printf(
            out, "%s: %s, without a single allocation of device memory; a memory snapshot, a profile with profile_memory=True or a compiled program has them\n",
            path, input->format);
        ech_cli_print(out->str);
        return;
    }
    g_autofree char *room = ech_format_bytes(capacity), *least = ech_format_bytes(bound);
    g_string_append_printf(out, "%s: %s, %u events; device memory %s%s%s\n", path, input->format, input->events->len, room, source ? ", " : "",
                           source ? source : "");
    if (input->others)
        g_string_append_printf(out, "allocations of %s (--memory: %s)\n", input->memory, input->others);
    g_string_append_printf(out, "no allocator needs less than %s", least);
    if (input->held) {
        g_autofree char *held = ech_format_bytes(input->held);
        g_string_append_printf(out, "; the recorded one held %s", held);
    }
    g_string_append_c(out, '\n');
    if (input->is_program) {
        g_autofree char *resident = ech_format_bytes(input->resident);
        g_string_append_printf(out, "arguments and constants, %s, %s; loop bodies once\n", resident,
                               input->without_residents ? "are left out" : "come first and stay");
    }
    g_string_append_c(out, '\n');
    /* On a narrow terminal what says least is left out. */
    enum { WASTE, LARGEST, SEGMENTS, SMALLEST, N_EXTRA };
    static const struct {
        const char *heading;
        int width;
    } extra[N_EXTRA] = {{"waste", 12}, {"largest", 12}, {"segments", 10}, {"smallest", 12}};
    static const int dispensable[] = {SEGMENTS, WASTE, LARGEST, SMALLEST};
    int width = 20, columns = (int)ech_cli_columns(), sum = 0;
    for (guint i = 0; i < results->len; i++)
        width = MAX(width, (int)MIN(strlen(g_array_index(results, Result, i).spec) + (g_array_index(results, Result, i).recorded ? strlen(AS_RECORDED) : 0),
                                    (size_t)100));
    bool shown[N_EXTRA];
    for (int k = 0; k < N_EXTRA; k++) {
        shown[k] = k != SMALLEST || searched;
        sum += shown[k] ? extra[k].width : 0;
    }
    for (int k = 0; k < N_EXTRA && columns && width + 41 + sum > columns; k++) {
        sum -= shown[dispensable[k]] ? extra[dispensable[k]].width : 0;
        shown[dispensable[k]] = false;
    }
    g_string_append_printf(out, "%-*s %8s %11s %11s %7s", width, "allocator", "failed", "peak live", "reserved", "frag");
    for (int k = 0; k < N_EXTRA; k++) {
        if (shown[k])
            g_string_append_printf(out, "%*s", extra[k].width, extra[k].heading);
    }
    g_string_append_c(out, '\n');
    for (guint i = 0; i < results->len; i++) {
        const Result *result = &g_array_index(results, Result, i);
        const EchAllocStats *stats = &result->outcome.stats;
        g_autofree char *live = ech_format_bytes(stats->peak_live), *reserved = ech_format_bytes(stats->peak_reserved);
        g_autofree char *label = g_strconcat(result->spec, result->recorded ? AS_RECORDED : NULL, NULL);
        g_string_append_printf(out, "%-*s %8" G_GUINT64_FORMAT " %11s %11s %5.1f %%", width, label, stats->failed, live, reserved, 100 * fragmentation(stats));
        for (int k = 0; k < N_EXTRA; k++) {
            g_autofree char *text = k == WASTE         ? ech_format_bytes(stats->waste_at_peak)
                                    : k == LARGEST     ? ech_format_bytes(stats->largest_free)
                                    : k == SEGMENTS    ? g_strdup_printf("%" G_GUINT64_FORMAT, stats->segments_allocated)
                                    : result->smallest ? ech_format_bytes(result->smallest)
                                                       : g_strdup("none");
            if (shown[k])
                g_string_append_printf(out, "%*s", extra[k].width, text);
        }
        g_string_append_c(out, '\n');
    }
    bool fresh = false;
    for (guint i = 0; i < results->len; i++) {
        const Result *result = &g_array_index(results, Result, i);
        if (result->recorded && capacity < input->had && result->difference)
            g_string_append_printf(out, "\n%s" AS_RECORDED ": from the recorded start state, with less memory than was recorded\n", result->spec);
        else if (result->recorded)
            g_string_append_printf(out,
                                   "\n%s" AS_RECORDED ": from the recorded start state; %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                                   " allocations at their recorded addresses%s%s%s%s\n",
                                   result->spec, result->equal, result->compared, result->settings ? "; settings " : "",
                                   result->settings ? result->settings : "", result->difference ? "\n  first difference: " : "",
                                   result->difference ? result->difference : "");
        if (result->note)
            g_string_append_printf(out, "\n%s: %s\n", result->spec, result->note);
        fresh |= !result->recorded && input->start && input->start->seeds->len && !result->is_static;
        if (result->fault)
            g_string_append_printf(out, "\n%s: %s\n", result->spec, result->fault);
        if (result->report)
            text_report(out, input, result, top, capacity);
    }
    bool history = !input->after;
    for (guint i = 0; !history && i < input->after->len; i++)
        history = g_array_index(input->after, EchAllocEvent, i).kind == ECH_EVENT_ALLOC;
    if (!history)
        g_string_append(out,
                        "\nthe recording has no history of allocations (torch.cuda.memory._record_memory_history() begins one): only what lived at its end is "
                        "known\n");
    else if (fresh)
        g_string_append(out,
                        "\nrows that are not as recorded begin with what was live at the start, asked for in order of address: the holes between are gone. "
                        "'pytorch:' is the native allocator begun so, for comparison\n");
    if (input->of_pytorch && strcmp(input->format, "pytorch_et") != 0)
        text_holders(out, input, top);
    text_refusals(out, input, results, capacity, bound, fresh, width);
    bool explained = false;
    for (guint i = 0; i < results->len; i++) {
        text_retries(out, &g_array_index(results, Result, i));
        text_first_failure(out, input, &g_array_index(results, Result, i));
        explained |= g_array_index(results, Result, i).report != NULL;
    }
    if (explained)
        g_string_append(out, "\nstranded: free bytes that live blocks of the same segment keep from going back; cached: free bytes of segments without a live "
                             "block; age: in events");
    if (searched && input->of_pytorch)
        g_string_append(out, "\nsmallest: the least device memory in which nothing fails, with caches emptied as often as that takes");
    if (out->str[out->len - 1] != '\n')
        g_string_append_c(out, '\n');
    ech_cli_print(out->str);
}

/* ---- the verb ---- */

static void progress(uint64_t done, uint64_t total)
{
    ech_cli_progress("allocations", done, total);
}

typedef struct {
    EchBytes capacity;
    const char *placements;
    bool report, search, fresh;
    unsigned n_series;
} Job;

/* Where the recorded allocator put them, and where this one did. */
static void compare_recorded(const Input *input, const GArray *events, const GArray *placed, Result *ret)
{
    g_assert(placed);
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        uint32_t id = g_array_index(events, EchAllocEvent, item->event).id;
        const EchBuffer *buffer = buffer_of(input, id);
        if (!buffer || buffer->address == ECH_OFFSET_NONE)
            continue;
        ret->compared++;
        if (item->fit == ECH_FIT_OK && item->placement.address == buffer->address) {
            ret->equal++;
        } else if (!ret->difference) {
            g_autofree char *here = item->fit == ECH_FIT_OK ? g_strdup_printf("0x%" G_GINT64_MODIFIER "x", item->placement.address) : g_strdup("nowhere");
            ret->difference = g_strdup_printf("allocation %u (#%u, %" G_GUINT64_FORMAT " bytes): recorded at 0x%" G_GINT64_MODIFIER "x, here %s", i, id,
                                              buffer->bytes, buffer->address, here);
        }
    }
}

/* Of what the recorded allocator refused, the requests that were granted here. */
static void count_served(const Input *input, const GArray *events, const GArray *placed, Result *ret)
{
    for (guint i = 0; placed && i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        if (!refusal_of(input, g_array_index(events, EchAllocEvent, item->event).id))
            continue;
        ret->served += item->fit == ECH_FIT_OK;
        ret->last_fit = item->fit;
    }
}

/* The planner that "plan" means: what the program's own compiler uses for its heap (XLA: fast_merge on TPU, best fit on GPU). */
static const char *planner_of(const Input *input, const char *spec)
{
    const char *given = strchr(spec, ':');
    if (given)
        return given + 1;
    if (input->platform == ECH_PLATFORM_TPU)
        return "xla:algorithm=fast_merge,alignment=16384";
    /* Best fit looks at everything that lives at the same time: on captures of whole runs it would take hours. */
    return input->events->len > BEST_FIT_UNASKED ? "xla:algorithm=fast_merge" : "xla:algorithm=best";
}

/* "plan:PLANNER", every life known in advance; "compiler", the offsets the program came with. */
static bool run_static(const Input *input, const char *spec, unsigned number, const Job *job, Result *ret, GError **error)
{
    ret->spec = spec;
    ret->is_static = true;
    ret->own = g_array_new(FALSE, FALSE, sizeof(EchAllocStat));
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)input->events->data;
    size_t n = input->events->len;
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    if (strcmp(spec, "compiler") == 0) {
        g_autofree uint64_t *offsets = g_new(uint64_t, n + 1);
        uint64_t k = 0, known = 0;
        for (size_t i = 0; i < n; i++) {
            if (events[i].kind != ECH_EVENT_ALLOC)
                continue;
            const EchBuffer *buffer = buffer_of(input, events[i].id);
            offsets[k] = buffer ? buffer->offset : ECH_FIXED_NONE;
            known += offsets[k++] != ECH_FIXED_NONE;
        }
        if (known == 0) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "compiler: the file carries no static assignment; plan:xla makes one");
            return false;
        }
        if (known < k)
            ret->note =
                g_strdup_printf("the compiler's own assignment; it does not place %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " buffers", k - known, k);
        else
            ret->note = g_strdup("the compiler's own assignment, tuple tables and alignment included: what it asks the runtime for, once");
        /* It is one request: all of it fits or none. Temporaries may lie in donated arguments, so without those only the sum counts. */
        EchBytes needs = input->compiler_bytes;
        ret->outcome = ech_alloc_run_fixed(events, n, offsets, needs && needs <= job->capacity ? UINT64_MAX : job->capacity, placed);
        EchAllocStats *stats = &ret->outcome.stats;
        if (needs) {
            stats->reserved = stats->peak_reserved = needs;
            stats->failed = needs > job->capacity;
        }
    } else {
        const char *planner = planner_of(input, spec);
        g_autoptr(GArray) items = ech_alloc_lives(events, n);
        gint64 begin = g_get_monotonic_time();
        g_autoptr(EchPlan) plan = ech_plan_new(planner, (const EchPlanItem *)(const void *)items->data, items->len, 0, error);
        if (!plan)
            return false;
        double seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
        /* Heaps one after the other. */
        for (size_t i = 0; i < plan->n; i++) {
            for (uint32_t heap = 0; heap < plan->heaps[i]; heap++)
                plan->offsets[i] = ech_bytes_add(plan->offsets[i], plan->heap_bytes[heap]);
        }
        ret->note = g_strdup_printf("%s, all lifetimes known in advance%s", planner,
                                    plan->proved_optimal ? "; proved lowest"
                                    : plan->out_of_time  ? "; best found in the time given"
                                                         : "");
        ret->outcome = ech_alloc_run_fixed(events, n, plan->offsets, job->capacity, placed);
        ret->outcome.seconds = seconds;
    }
    count_served(input, input->events, placed, ret);
    ret->events = input->events;
    if (job->search)
        ret->smallest = ret->outcome.stats.reserved;
    if (job->placements) {
        g_autofree char *path = number == 0 ? g_strdup(job->placements) : g_strdup_printf("%s.%u", job->placements, number + 1);
        return write_placements(path, input->events, placed, error);
    }
    return true;
}

static bool is_static(const char *spec)
{
    return strcmp(spec, "compiler") == 0 || strcmp(spec, "plan") == 0 || g_str_has_prefix(spec, "plan:");
}

static bool run_one(const Input *input, const char *spec, unsigned number, const Job *job, Result *ret, GError **error)
{
    EchAllocDevice device = {.capacity = job->capacity};
    ret->spec = spec;
    /* Other settings are a what-if: what was resident is then asked for first, in an empty memory. */
    g_autofree char *recorded = input->start && !job->fresh ? ech_alloc_recorded_spec(input->trace) : NULL;
    ret->recorded = recorded && (strcmp(spec, "pytorch") == 0 || strcmp(spec, recorded) == 0);
    const char *used = ret->recorded ? recorded : spec;
    g_autoptr(EchAllocator) allocator = ech_allocator_new(used, &device, error);
    if (!allocator)
        return false;
    g_autoptr(GError) misfit = NULL;
    if (ret->recorded && !ech_allocator_seed(allocator, (const EchSeedBlock *)(const void *)input->start->seeds->data, input->start->seeds->len, &misfit)) {
        /* A smaller memory, say: then it is a what-if like any other. */
        ret->recorded = false;
        ret->misfit = g_strdup_printf("not from the recorded start state, which does not fit (%s): from an empty memory", misfit->message);
        g_clear_pointer(&allocator, ech_allocator_free);
        allocator = ech_allocator_new(used, &device, error);
        if (!allocator)
            return false;
    }
    if (ret->recorded && strcmp(recorded, "pytorch") != 0)
        ret->settings = g_strdup(recorded + strlen("pytorch:"));
    const GArray *own_events = ret->recorded ? input->after : input->events;
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)own_events->data;
    size_t n = own_events->len;
    EchAllocReportOptions look = {.max_failures = 5, .n_samples = job->n_series, .map_rows = 16, .map_columns = 96};
    if (ret->recorded) {
        look.seeds = (const EchSeedBlock *)(const void *)input->start->seeds->data;
        look.n_seeds = input->start->seeds->len;
        look.script = (const EchSegmentRange *)(const void *)input->start->script->data;
        look.n_script = input->start->script->len;
        ech_allocator_script(allocator, look.script, look.n_script);
    }
    bool refused = input->refusals && input->refusals->len;
    g_autoptr(GArray) placed = job->placements || ret->recorded || refused ? g_array_sized_new(FALSE, FALSE, sizeof(EchPlacedEvent), (guint)n) : NULL;
    EchAllocRunOptions options = {.placed = placed, .watch_peaks = job->report, .progress = progress};
    ret->outcome = ech_alloc_run(allocator, events, n, &options);
    ech_cli_progress("allocations", 1, 1);
    ret->events = own_events;
    count_served(input, own_events, refused ? placed : NULL, ret);
    if (ret->recorded)
        compare_recorded(input, own_events, placed, ret);
    if (job->placements) {
        g_autofree char *path = number == 0 ? g_strdup(job->placements) : g_strdup_printf("%s.%u", job->placements, number + 1);
        if (!write_placements(path, own_events, placed, error))
            return false;
    }
    size_t n_own;
    const EchAllocStat *own = ech_allocator_own_stats(allocator, &n_own);
    ret->own = g_array_new(FALSE, FALSE, sizeof(EchAllocStat));
    g_array_append_vals(ret->own, own, (guint)n_own);
    ret->note = ret->misfit ? g_strdup(ret->misfit) : g_strdup(ech_allocator_note(allocator));
    ret->fault = g_strdup(ech_allocator_fault(allocator));
    g_clear_pointer(&allocator, ech_allocator_free);
    if (job->report) {
        look.peak_at = ret->outcome.peak_reserved_at;
        ret->report = ech_alloc_report_new(used, &device, events, n, &look, error);
        if (!ret->report)
            return false;
    }
    if (job->search) {
        GError *problem = NULL;
        const EchAllocEvent *all = (const EchAllocEvent *)(const void *)input->events->data;
        ret->smallest = ech_alloc_smallest_capacity(used, all, input->events->len, UINT64_C(2) << 20, &problem);
        if (problem) {
            g_propagate_error(error, problem);
            return false;
        }
    }
    return true;
}

/* What a device's runtime hands out of a memory. */
static bool capacity_of(const char *name, const char *memory, EchBytes *ret, GError **error)
{
    g_autoptr(EchDevice) device = ech_device_load(name, NULL, error);
    if (!device)
        return false;
    const EchMemory *found = ech_device_memory(device, memory ? memory : "hbm");
    if (!found) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--device %s has no memory '%s'", name, memory ? memory : "hbm");
        return false;
    }
    *ret = found->available;
    return true;
}

/* The max_split_size_mb with which the least memory would do, as a spec; NULL where none of the usual values is better than none at all. */
static char *best_split(const Input *input)
{
    static const unsigned mib[] = {32, 64, 128, 256, 512, 1024};
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)input->events->data;
    const EchBytes granule = UINT64_C(2) << 20;
    EchBytes least = ech_alloc_smallest_capacity("pytorch", events, input->events->len, granule, NULL);
    char *best = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(mib); i++) {
        g_autofree char *spec = g_strdup_printf("pytorch:max_split_size_mb:%u", mib[i]);
        EchBytes bytes = ech_alloc_smallest_capacity(spec, events, input->events->len, granule, NULL);
        if (bytes == 0 || bytes >= least)
            continue;
        least = bytes;
        g_free(best);
        best = g_steal_pointer(&spec);
    }
    return best;
}

int ech_verb_alloc(int argc, char **argv)
{
    g_auto(GStrv) specs = NULL;
    g_autofree char *capacity = NULL, *placements = NULL, *format = NULL, *memory = NULL, *device = NULL;
    gboolean json = FALSE, report = FALSE, search = FALSE, strict = FALSE, fresh = FALSE, temporaries = FALSE;
    gint top = 5;
    const GOptionEntry entries[] = {
        {"allocator", 'a', 0, G_OPTION_ARG_STRING_ARRAY, &specs,
         "NAME, NAME:KEY=VALUE,... or a framework's own settings; plan:PLANNER for a static plan, compiler for the program's own; may be repeated", "SPEC"},
        {"capacity", 'c', 0, G_OPTION_ARG_STRING, &capacity,
         "bytes of device memory (default: what --device or the program's chip has available, what a recording that ran out of memory had, else 80GiB)",
         "BYTES"},
        {"device", 'd', 0, G_OPTION_ARG_STRING, &device, "the machine: its memory is the capacity; compiled programs may need it", "NAME"},
        {"placements", 0, 0, G_OPTION_ARG_FILENAME, &placements, "write where each allocation went; the second allocator's go to OUT.csv.2, and so on",
         "OUT.csv"},
        {"report", 'r', 0, G_OPTION_ARG_NONE, &report, "explain fragmentation at the peak, at failures and at the end (with --json: a time series too)", NULL},
        {"smallest", 's', 0, G_OPTION_ARG_NONE, &search,
         "search the smallest capacity at which nothing fails (unasked for programs and PyTorch's captures, unless they are long)", NULL},
        {"fresh", 0, 0, G_OPTION_ARG_NONE, &fresh, "memory snapshots: begin empty, not from the start state the recording implies", NULL},
        {"temporaries", 0, 0, G_OPTION_ARG_NONE, &temporaries,
         "only what is allocated while the trace runs: without arguments, constants and what is resident at the start", NULL},
        {"top", 0, 0, G_OPTION_ARG_INT, &top, "segments and blocks to name in the report (default 5)", "N"},
        {"memory", 0, 0, G_OPTION_ARG_STRING, &memory, "which of the trace's memories (default: the device's main one)", "NAME"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"strict", 0, 0, G_OPTION_ARG_NONE, &strict, "fail if anything was dropped or repaired on reading", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "one JSON document on standard output", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || top < 0) {
        fprintf(stderr, "echelon alloc: %s\n", top < 0 ? "--top must not be negative" : "one FILE is needed");
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    Job job = {.capacity = DEFAULT_CAPACITY, .placements = placements, .report = report, .search = search, .fresh = fresh, .n_series = json ? 500 : 0};
    if (capacity && !ech_parse_bytes(capacity, &job.capacity, &error)) {
        g_prefix_error(&error, "--capacity: ");
        return ech_cli_fail(error);
    }
    if (capacity && job.capacity < UINT64_C(1) << 20) {
        fprintf(stderr, "echelon alloc: --capacity: '%s' is %" G_GUINT64_FORMAT " bytes; expected something like 16GiB\n", capacity, job.capacity);
        return ECH_EXIT_USAGE;
    }
    g_auto(Input) input = {0};
    if (device && !capacity && !capacity_of(device, memory, &job.capacity, &error))
        return ech_cli_fail(error);
    if (!load(rest[0], format, memory, device, temporaries, &input, &error) || (strict && !ech_diag_check_strict(input.diag, &error)))
        return ech_cli_fail(error);
    /* A compiled program says what it is for. */
    const char *chip = input.trace ? ech_trace_get_property(input.trace, "chip") : NULL, *source = NULL;
    if (!device && !capacity) {
        source = "assumed (--device or --capacity says it)";
        if (input.refusals && input.refusals->len) {
            job.capacity = input.had;
            source = input.limited ? "what the recording held when a limit refused more" : "what the recording held and what was free when it ran out";
        } else if (chip && capacity_of(chip, memory, &job.capacity, NULL)) {
            source = chip;
        } else if (input.had > job.capacity) {
            job.capacity = input.had;
            source = "the most that the recording held (--device or --capacity says more)";
        }
    }
    /* A program's table shows what each needs: reserved bytes of a pool that is taken whole at the start say nothing. */
    char *of_trace[] = {(char[]){"bfc"}, (char[]){"pytorch"}, NULL};
    char *of_program[] = {(char[]){"bfc"},
                          (char[]){"pytorch"},
                          (char[]){"pytorch:expandable_segments:True"},
                          (char[]){"plan"},
                          (char[]){"plan:exact:step_limit=200000"},
                          (char[]){"compiler"},
                          NULL};
    if (input.is_program && input.compiler_bytes == 0)
        of_program[G_N_ELEMENTS(of_program) - 2] = NULL;
    /* What a user of PyTorch can choose; the first is what was recorded. */
    g_autofree char *recorded = input.start && !fresh ? ech_alloc_recorded_spec(input.trace) : NULL;
    bool expandable = recorded && strstr(recorded, "expandable_segments:True");
    char *of_pytorch[6] = {(char[]){"pytorch"}}, native[] = "pytorch:", segments[] = "pytorch:expandable_segments:True",
         async[] = "pytorch:backend:cudaMallocAsync";
    unsigned n_of_pytorch = 1;
    if (recorded && (input.start->seeds->len || strcmp(recorded, "pytorch") != 0))
        of_pytorch[n_of_pytorch++] = native;
    g_autofree char *split = !specs && input.of_pytorch && input.events->len && input.events->len <= SPLITS_UNASKED ? best_split(&input) : NULL;
    if (split)
        of_pytorch[n_of_pytorch++] = split;
    if (!expandable || input.start->seeds->len)
        of_pytorch[n_of_pytorch++] = segments;
    of_pytorch[n_of_pytorch] = async;
    char **default_specs = input.is_program ? of_program : input.of_pytorch ? of_pytorch : of_trace;
    job.search |= (input.is_program || input.of_pytorch) && input.events->len <= SEARCH_UNASKED;
    char **wanted = specs ? specs : default_specs;
    g_autoptr(GArray) results = g_array_new(FALSE, TRUE, sizeof(Result));
    g_array_set_clear_func(results, result_clear);
    bool fit = true;
    for (unsigned i = 0; wanted[i]; i++) {
        g_array_set_size(results, i + 1);
        Result *result = &g_array_index(results, Result, i);
        if (!(is_static(wanted[i]) ? run_static : run_one)(&input, wanted[i], i, &job, result, &error))
            return ech_cli_fail(error);
        fit = fit && result->outcome.stats.failed == 0;
    }
    EchBytes bound = ech_alloc_lower_bound((const EchAllocEvent *)(const void *)input.events->data, input.events->len, NULL);
    size_t n_rows;
    const EchDiagRow *rows = ech_diag_rows(input.diag, &n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].fatal_if_strict)
            fprintf(stderr, "echelon: %s: %" G_GUINT64_FORMAT " %s%s%s\n", rest[0], rows[i].count, rows[i].name, rows[i].first ? ", first at " : "",
                    rows[i].first ? rows[i].first : "");
    }
    if (json)
        print_json(&input, results, job.capacity, source, bound, (unsigned)top, job.search);
    else
        print_text(&input, rest[0], results, job.capacity, source, bound, (unsigned)top, job.search);
    return fit ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}
