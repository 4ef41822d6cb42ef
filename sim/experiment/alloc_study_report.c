/* A row's fragmentation explained, for a terminal. */
#include "sim/experiment/alloc_study_private.h"
#include "sim/report/text.h"

#include <string.h>

enum { PINS = 3, FRAMES = 4 }; /* blocks and frames named in a line */

/* @picture, a character for each stretch, on at most @width columns: of several stretches what comes first in @order. Owned by the caller. */
static char *narrow_picture(const char *picture, size_t width, const char *order)
{
    size_t n = strlen(picture), shown = MIN(n, width);
    char *out = g_malloc0(shown + 1);
    for (size_t i = 0; i < shown; i++) {
        const char *best = strchr(order, picture[i * n / shown]);
        for (size_t k = i * n / shown + 1; k < (i + 1) * n / shown; k++) {
            const char *at = strchr(order, picture[k]);
            best = at && (!best || at < best) ? at : best;
        }
        out[i] = best ? *best : picture[i * n / shown];
    }
    return out;
}

/* Beside its indent and frame. */
static size_t picture_width(unsigned columns)
{
    enum { FRAME = 6, LEAST = 16 };
    return columns == 0 ? SIZE_MAX : MAX(columns, FRAME + LEAST) - FRAME;
}

/* "NAME (SIZE, age N), ...": at most @most of @n. */
static void text_pins(GString *out, const EchAllocStudy *study, const EchMoment *moment, const EchPin *pins, uint32_t n)
{
    for (uint32_t j = 0; j < MIN(n, PINS); j++) {
        g_autofree char *name = ech_alloc_study_short_name(study, pins[j].id, 40), *size = ech_format_bytes(pins[j].bytes);
        g_string_append_printf(out, "%s %s (%s, age %" G_GUINT64_FORMAT ")", j ? "," : "", name, size,
                               moment->event - MIN(moment->event, (uint64_t)pins[j].born));
    }
    if (n > PINS)
        g_string_append(out, ", ...");
}

/* Frames of the capture and of the allocator itself, which every stack begins with. */
static bool is_plumbing(const char *frame)
{
    static const char *const words[] = {"torch::unwind", "CapturedTraceback", "gather_with_cpp",     "CachingAllocator", "c10::",        "at::detail::empty",
                                        "at::empty",     "empty_strided",     "empty_memory_format", "aten::empty",      "aten::resize_"};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strstr(frame, words[i]))
            return true;
    }
    return false;
}

void ech_alloc_study_text_stack(GString *out, const EchAllocStudy *study, uint32_t id, const char *what)
{
    const char *stack = ech_alloc_study_stack(study, id);
    if (!stack || !*stack)
        return;
    bool python = strstr(stack, ".py:") != NULL;
    g_autofree char *name = ech_alloc_study_short_name(study, id, 40);
    g_auto(GStrv) frames = g_strsplit(stack, "\n", -1);
    g_string_append_printf(out, "    %s was %s in ", name, what);
    unsigned shown = 0;
    bool own = !python;
    size_t ranges = 0, inner = 0; /* operators, where a capture tells them, come before Python's lines */
    while (python && frames[ranges] && g_str_has_prefix(frames[ranges], "aten::"))
        ranges++;
    while (inner + 1 < ranges && is_plumbing(frames[inner]))
        inner++;
    if (ranges > 0)
        g_string_append_printf(out, "%s < ", frames[inner]);
    for (char **frame = frames; *frame && shown < FRAMES; frame++) {
        if (python ? !strstr(*frame, ".py:") : shown == 0 && is_plumbing(*frame))
            continue;
        /* The last is the program's own, where there is one. */
        bool ours = ech_alloc_study_is_own(*frame, strlen(*frame));
        char **later = frame + 1;
        while (!own && !ours && shown == FRAMES - 1 && *later && !(strstr(*later, ".py:") && ech_alloc_study_is_own(*later, strlen(*later))))
            later++;
        if (!own && !ours && shown == FRAMES - 1 && *later)
            frame = later;
        own |= ours;
        g_autofree char *valid = ech_text_short(*frame, 120);
        g_string_append_printf(out, "%s%s", shown++ ? " < " : "", valid);
    }
    g_string_append_c(out, '\n');
}

/* Why a request failed, and what stood in its way. */
static void text_failure(GString *out, const EchAllocStudy *study, const EchMoment *moment)
{
    g_autofree char *asked = ech_format_bytes(moment->asked), *name = ech_alloc_study_short_name(study, moment->asked_id, 40),
                    *device_free = ech_format_bytes(moment->device_free);
    g_autofree char *not_live = ech_format_bytes(study->capacity - MIN(study->capacity, ech_bytes_add(moment->stats.live, moment->stats.direct))),
                    *largest = ech_format_bytes(moment->stats.largest_free);
    if (moment->fit == ECH_FIT_FULL) {
        g_string_append_printf(out, ": %s asked for %s; what lives leaves no more than %s: only using less, or more memory, helps\n", asked, name, not_live);
        return;
    }
    g_string_append_printf(out, ": %s asked for %s; %s are not in use, but fragmented: %s left on the device, %u free block%s, the largest %s\n", asked, name,
                           not_live, device_free, moment->n_free, moment->n_free == 1 ? "" : "s", largest);
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
        text_pins(out, study, moment, moment->hole_pins, moment->hole.n_blocks);
        g_string_append_c(out, '\n');
        if (moment->hole.n_blocks)
            ech_alloc_study_text_stack(out, study, moment->hole_pins[0].id, "made");
    }
}

/* @brief: what led to it only, for failures after the first. */
static void text_moment(GString *out, const EchAllocStudy *study, const EchMoment *moment, const EchAllocStudyOutput *output, bool brief)
{
    g_autofree char *reserved = ech_format_bytes(moment->stats.reserved), *live = ech_format_bytes(moment->stats.live),
                    *waste = ech_format_bytes(moment->internal_waste);
    g_autofree char *largest = ech_format_bytes(moment->stats.largest_free), *stranded = ech_format_bytes(moment->stranded),
                    *cached = ech_format_bytes(moment->cached);
    g_string_append_printf(out, "  %s, event %" G_GUINT64_FORMAT, ech_alloc_moment_name(moment->kind), moment->event);
    if (moment->kind == ECH_MOMENT_FAILURE)
        text_failure(out, study, moment);
    else
        g_string_append_c(out, '\n');
    if (brief)
        return;
    g_autofree char *picture = narrow_picture(moment->picture, picture_width(output->columns), "*x_");
    g_string_append_printf(out, "    reserved %s, allocated %s (%s of it waste), largest free %s, stranded %s, cached %s\n    [%s]\n", reserved, live, waste,
                           largest, stranded, cached, picture);
    for (uint32_t i = 0; i < MIN(moment->n_segments, output->top); i++) {
        const EchSegmentReport *segment = &moment->segments[i];
        g_autofree char *bytes = ech_format_bytes(segment->bytes), *free_bytes = ech_format_bytes(segment->bytes - segment->used);
        g_string_append_printf(out, "    segment %u: %s of %s stranded by %u live block%s:", segment->segment, free_bytes, bytes, segment->n_blocks,
                               segment->n_blocks == 1 ? "" : "s");
        text_pins(out, study, moment, &moment->pins[segment->first_block], segment->n_blocks);
        g_string_append_c(out, '\n');
    }
}

void ech_alloc_study_text_report(GString *out, const EchAllocStudy *study, const EchAllocRow *row, const EchAllocStudyOutput *output)
{
    const EchAllocReport *report = row->report;
    g_string_append_printf(out, "\n%s\n", row->spec);
    guint shown = 0;
    for (guint i = 0; i < report->moments->len; i++) {
        const EchMoment *moment = &g_array_index(report->moments, EchMoment, i);
        text_moment(out, study, moment, output, moment->kind == ECH_MOMENT_FAILURE && shown > 0);
        shown += moment->kind == ECH_MOMENT_FAILURE;
    }
    if (row->outcome.stats.failed > shown)
        g_string_append_printf(out, "  %" G_GUINT64_FORMAT " more failure%s; --json lists them\n", row->outcome.stats.failed - shown,
                               row->outcome.stats.failed - shown == 1 ? "" : "s");
    if (report->map.n_rows == 0)
        return;
    g_autofree char *bytes = ech_format_bytes(report->map.bytes);
    g_string_append_printf(out, "  addresses (%s ever reserved, high ones on top) over events: # in use, + mostly, : partly, . free, blank not reserved\n",
                           bytes);
    for (uint32_t r = 0; r < report->map.n_rows; r++) {
        g_autofree char *line = narrow_picture(report->map.rows[r], picture_width(output->columns), "#+:. ");
        g_string_append_printf(out, "    |%s|\n", line);
    }
}
