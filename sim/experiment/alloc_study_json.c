/* A study as one JSON document. */
#include "sim/experiment/alloc_study_private.h"
#include "sim/report/json_out.h"

static void add_stack(JsonBuilder *b, const EchAllocStudy *study, uint32_t id)
{
    const char *stack = ech_alloc_study_stack(study, id);
    if (stack)
        ech_json_add_text(b, "stack", stack);
}

/* Live blocks, pins[n]. */
static void json_pins(JsonBuilder *b, const char *member, const EchAllocStudy *study, const EchMoment *moment, const EchPin *pins, uint32_t n)
{
    ech_json_begin_array(b, member);
    for (uint32_t j = 0; j < n; j++) {
        g_autofree char *name = ech_alloc_study_name(study, pins[j].id);
        json_builder_begin_object(b);
        ech_json_add_count(b, "id", pins[j].id);
        ech_json_add_text(b, "name", name);
        ech_json_add_count(b, "bytes", pins[j].bytes);
        ech_json_add_count(b, "requested_bytes", pins[j].requested);
        ech_json_add_count(b, "age_events", moment->event - MIN(moment->event, (uint64_t)pins[j].born));
        add_stack(b, study, pins[j].id);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void add_segment(JsonBuilder *b, const EchSegmentReport *segment)
{
    ech_json_add_count(b, "segment", segment->segment);
    ech_json_add_count(b, "address", segment->address);
    ech_json_add_count(b, "bytes", segment->bytes);
    ech_json_add_count(b, "used_bytes", segment->used);
    ech_json_add_count(b, "live_blocks", segment->n_blocks);
}

static void json_moment(JsonBuilder *b, const EchAllocStudy *study, const EchMoment *moment, unsigned top)
{
    json_builder_begin_object(b);
    ech_json_add_text(b, "moment", ech_alloc_moment_name(moment->kind));
    ech_json_add_count(b, "event", moment->event);
    if (moment->kind == ECH_MOMENT_FAILURE) {
        ech_json_add_count(b, "asked_bytes", moment->asked);
        ech_json_add_count(b, "asked_id", moment->asked_id);
        ech_json_add_text(b, "why", ech_alloc_fit_name(moment->fit));
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
        ech_json_begin_object(b, "would_fit_without");
        add_segment(b, &moment->hole);
        json_pins(b, "blocks", study, moment, moment->hole_pins, MIN(moment->hole.n_blocks, top));
        json_builder_end_object(b);
    }
    ech_json_begin_array(b, "segments");
    for (uint32_t i = 0; i < MIN(moment->n_segments, top); i++) {
        const EchSegmentReport *segment = &moment->segments[i];
        json_builder_begin_object(b);
        add_segment(b, segment);
        ech_json_add_count(b, "stranded_bytes", segment->bytes - segment->used);
        ech_json_add_count(b, "largest_free_bytes", segment->largest_free);
        json_pins(b, "pinned_by", study, moment, &moment->pins[segment->first_block], MIN(segment->n_blocks, top));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
}

static void json_map(JsonBuilder *b, const EchAddressMap *map)
{
    ech_json_begin_object(b, "address_map");
    ech_json_add_count(b, "bytes", map->bytes);
    ech_json_begin_array(b, "events");
    for (uint32_t c = 0; c < map->n_columns; c++)
        json_builder_add_int_value(b, map->events[c]);
    json_builder_end_array(b);
    ech_json_begin_array(b, "rows");
    for (uint32_t r = 0; r < map->n_rows; r++)
        json_builder_add_string_value(b, map->rows[r]);
    json_builder_end_array(b);
    json_builder_end_object(b);
}

static void json_report(JsonBuilder *b, const EchAllocStudy *study, const EchAllocReport *report, unsigned top)
{
    ech_json_begin_array(b, "moments");
    for (guint i = 0; i < report->moments->len; i++)
        json_moment(b, study, &g_array_index(report->moments, EchMoment, i), top);
    json_builder_end_array(b);
    ech_json_begin_array(b, "failures");
    for (guint i = 0; i < report->failures->len; i++) {
        const EchAllocFailure *failure = &g_array_index(report->failures, EchAllocFailure, i);
        json_builder_begin_object(b);
        ech_json_add_count(b, "event", failure->event);
        ech_json_add_count(b, "id", failure->id);
        ech_json_add_count(b, "asked_bytes", failure->asked);
        ech_json_add_text(b, "why", ech_alloc_fit_name(failure->fit));
        ech_json_add_count(b, "allocated_bytes", failure->live);
        ech_json_add_count(b, "reserved_bytes", failure->reserved);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_map(b, &report->map);
    ech_json_begin_array(b, "series");
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

/* How near the replay came to what was recorded. */
static void json_recorded(JsonBuilder *b, const EchAllocStudy *study, const EchAllocRow *row)
{
    ech_json_begin_object(b, "recorded");
    ech_json_add_count(b, "start_blocks", study->start->seeds->len);
    ech_json_add_count(b, "start_blocks_guessed", study->start->guessed);
    ech_json_add_count(b, "compared", row->compared);
    ech_json_add_count(b, "equal", row->equal);
    if (row->release)
        ech_json_add_text(b, "release", row->release);
    if (row->settings)
        ech_json_add_text(b, "settings", row->settings);
    if (row->difference)
        ech_json_add_text(b, "first_difference", row->difference);
    json_builder_end_object(b);
}

static void json_row(JsonBuilder *b, const EchAllocStudy *study, const EchAllocRow *row, const EchAllocStudyOutput *output)
{
    const EchAllocOutcome *outcome = &row->outcome;
    const EchAllocStats *stats = &outcome->stats;
    json_builder_begin_object(b);
    ech_json_add_text(b, "name", row->spec);
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
    ech_json_add_double(b, "fragmentation", ech_alloc_fragmentation(stats));
    ech_json_add_count(b, "internal_waste_bytes", stats->waste_at_peak);
    ech_json_add_count(b, "segments_allocated", stats->segments_allocated);
    ech_json_add_count(b, "segments_freed", stats->segments_freed);
    ech_json_add_double(b, "events_per_second", outcome->seconds > 0 ? (double)outcome->events / outcome->seconds : 0);
    if (output->searched)
        ech_json_add_count(b, "smallest_capacity_bytes", row->smallest);
    if (ech_alloc_study_n_refusals(study))
        ech_json_add_count(b, "out_of_memory_served", row->served);
    if (row->recorded)
        json_recorded(b, study, row);
    if (row->note)
        ech_json_add_text(b, "note", row->note);
    if (row->fault)
        ech_json_add_text(b, "fault", row->fault);
    ech_json_begin_object(b, "statistics");
    for (guint i = 0; i < row->own->len; i++) {
        const EchAllocStat *stat = &g_array_index(row->own, EchAllocStat, i);
        ech_json_add_int(b, stat->name, stat->value);
    }
    json_builder_end_object(b);
    if (row->report)
        json_report(b, study, row->report, output->top);
    json_builder_end_object(b);
}

static void json_refusals(JsonBuilder *b, const EchAllocStudy *study)
{
    guint n = ech_alloc_study_n_refusals(study);
    if (n == 0)
        return;
    ech_json_begin_array(b, "out_of_memory");
    for (guint i = 0; i < n; i++) {
        const EchRefusal *refusal = &g_array_index(study->refusals, EchRefusal, i);
        uint32_t id = ech_alloc_study_refusal_id(study, i);
        g_autofree char *name = ech_alloc_study_name(study, id);
        json_builder_begin_object(b);
        ech_json_add_count(b, "id", id);
        ech_json_add_text(b, "name", name);
        ech_json_add_count(b, "asked_bytes", refusal->bytes);
        ech_json_add_count(b, "reserved_bytes", refusal->reserved);
        ech_json_add_count(b, "device_free_bytes", refusal->device_free);
        add_stack(b, study, id);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

/* The settings that would have served what was refused. */
static void json_advice(JsonBuilder *b, const EchAllocStudy *study, const GPtrArray *rows)
{
    const char *instead;
    const EchAllocRow *best = ech_alloc_study_advice(study, rows, &instead);
    if (!best)
        return;
    ech_json_begin_object(b, "try");
    ech_json_add_text(b, "PYTORCH_CUDA_ALLOC_CONF", ech_alloc_row_settings(best));
    if (instead)
        ech_json_add_text(b, "instead_of", instead);
    ech_json_add_count(b, "empties_cache", (uint64_t)ech_alloc_row_emptied(best));
    json_builder_end_object(b);
}

static void json_holders(JsonBuilder *b, const EchAllocStudy *study, unsigned top)
{
    EchBytes live;
    g_autoptr(GArray) held = ech_alloc_study_holders(study, false, &live);
    ech_json_begin_array(b, "in_use_by_line");
    for (guint i = 0; i < MIN(held->len, top); i++) {
        const EchTallyRow *holder = &g_array_index(held, EchTallyRow, i);
        json_builder_begin_object(b);
        ech_json_add_text(b, "line", holder->name);
        ech_json_add_count(b, "blocks", holder->blocks);
        ech_json_add_count(b, "bytes", holder->bytes);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

char *ech_alloc_study_json(const EchAllocStudy *study, const GPtrArray *rows, const EchAllocStudyOutput *output)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "format", study->format);
    ech_json_add_count(b, "events", study->events->len);
    ech_json_add_count(b, "capacity_bytes", study->capacity);
    ech_json_add_text(b, "capacity_from", study->capacity_from ? study->capacity_from : "given");
    ech_json_add_count(b, "lower_bound_bytes", ech_alloc_study_bound(study));
    if (study->direct)
        ech_json_add_count(b, "direct_bytes", study->direct);
    if (study->held)
        ech_json_add_count(b, "recorded_reserved_bytes", study->held);
    json_refusals(b, study);
    json_advice(b, study, rows);
    if (study->of_pytorch)
        json_holders(b, study, output->top);
    if (study->is_program)
        ech_json_add_count(b, "arguments_and_constants_bytes", study->resident);
    if (output->interrupted)
        ech_json_add_bool(b, "interrupted", true);
    if (output->left_out)
        ech_json_add_text(b, "left_out", output->left_out);
    ech_json_begin_array(b, "allocators");
    for (guint i = 0; i < rows->len; i++)
        json_row(b, study, g_ptr_array_index(rows, i), output);
    json_builder_end_array(b);
    json_builder_end_object(b);
    return ech_json_finish(b);
}
