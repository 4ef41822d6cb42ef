#include "models/alloc/report.h"

#include <string.h>

static void moment_clear(gpointer data)
{
    EchMoment *moment = data;
    g_free(moment->segments);
    g_free(moment->pins);
    g_free(moment->picture);
}

void ech_alloc_report_free(EchAllocReport *report)
{
    if (!report)
        return;
    g_array_unref(report->moments);
    g_array_unref(report->samples);
    g_free(report);
}

static int by_bytes(const void *a, const void *b)
{
    const EchPin *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_stranded(const void *a, const void *b)
{
    const EchSegmentReport *x = a, *y = b;
    EchBytes p = x->bytes - x->used, q = y->bytes - y->used;
    if (p != q)
        return p < q ? 1 : -1;
    return (x->segment > y->segment) - (x->segment < y->segment);
}

/* Blocks come by address, segments do not overlap: the blocks of one are together, unless segments share an address range (expandable ones),
 * where equal numbers in a row decide. */
static void look(EchMoment *moment, const EchAllocator *allocator, const uint32_t *born, uint32_t n_born)
{
    ech_allocator_stats(allocator, &moment->stats);
    moment->internal_waste = moment->stats.live - moment->stats.requested;
    size_t n;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n);
    g_autoptr(GArray) segments = g_array_new(FALSE, FALSE, sizeof(EchSegmentReport));
    g_autoptr(GArray) pins = g_array_new(FALSE, FALSE, sizeof(EchPin));
    EchBytes total = 0;
    for (size_t i = 0; i < n;) {
        EchSegmentReport segment = {.segment = blocks[i].segment, .address = blocks[i].address, .first_block = pins->len};
        EchBytes pending = 0;
        for (; i < n && blocks[i].segment == segment.segment; i++) {
            segment.bytes += blocks[i].bytes;
            if (blocks[i].state == ECH_BLOCK_FREE) {
                segment.largest_free = MAX(segment.largest_free, blocks[i].bytes);
                continue;
            }
            segment.used += blocks[i].bytes;
            if (blocks[i].state == ECH_BLOCK_PENDING) {
                pending += blocks[i].bytes;
                continue;
            }
            EchPin pin = {blocks[i].id, blocks[i].id < n_born ? born[blocks[i].id] : 0, blocks[i].address, blocks[i].bytes, blocks[i].requested};
            g_array_append_val(pins, pin);
        }
        segment.n_blocks = pins->len - segment.first_block;
        total += segment.bytes;
        moment->pending += pending;
        if (segment.used == 0)
            moment->cached += segment.bytes;
        else
            moment->stranded += segment.bytes - segment.used;
        if (segment.used == 0 || segment.used == segment.bytes)
            g_array_set_size(pins, segment.first_block);
        else
            g_array_append_val(segments, segment);
    }
    /* 100 columns over the reserved bytes, holes between segments left out. */
    char picture[101];
    memset(picture, '_', sizeof picture - 1);
    picture[100] = '\0';
    EchBytes at = 0;
    for (size_t i = 0; i < n && total; i++) {
        double from = (double)at * 100 / (double)total, to = (double)(at + blocks[i].bytes) * 100 / (double)total;
        at += blocks[i].bytes;
        if (blocks[i].state == ECH_BLOCK_FREE)
            continue;
        for (unsigned c = (unsigned)from; c < 100 && (double)c < to; c++)
            picture[c] = '*';
        double waste = to - (double)(blocks[i].bytes - MIN(blocks[i].requested, blocks[i].bytes)) * 100 / (double)total;
        for (unsigned c = (unsigned)(waste + 1); blocks[i].state == ECH_BLOCK_USED && c < 100 && (double)c < to; c++)
            picture[c] = 'x';
    }
    moment->picture = g_strdup(picture);
    for (guint i = 0; i < segments->len; i++) {
        const EchSegmentReport *segment = &g_array_index(segments, EchSegmentReport, i);
        if (segment->n_blocks)
            qsort(&g_array_index(pins, EchPin, segment->first_block), segment->n_blocks, sizeof(EchPin), by_bytes);
    }
    if (segments->len)
        g_array_sort(segments, by_stranded);
    moment->n_segments = segments->len;
    moment->n_pins = pins->len;
    moment->segments = (EchSegmentReport *)(void *)g_array_free(g_steal_pointer(&segments), FALSE);
    moment->pins = (EchPin *)(void *)g_array_free(g_steal_pointer(&pins), FALSE);
}

EchAllocReport *ech_alloc_report_new(const char *spec, const EchAllocDevice *device, const EchAllocEvent *events, size_t n, const EchAllocReportOptions *options,
                                     GError **error)
{
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, device, error);
    if (!allocator || (options->n_seeds && !ech_allocator_seed(allocator, options->seeds, options->n_seeds, error)))
        return NULL;
    if (options->n_script)
        ech_allocator_script(allocator, options->script, options->n_script);
    EchAllocReport *report = g_new0(EchAllocReport, 1);
    report->moments = g_array_new(FALSE, FALSE, sizeof(EchMoment));
    g_array_set_clear_func(report->moments, moment_clear);
    report->samples = g_array_new(FALSE, FALSE, sizeof(EchAllocSample));
    uint32_t n_born = 0;
    for (size_t i = 0; i < n; i++)
        n_born = events[i].kind == ECH_EVENT_ALLOC ? MAX(n_born, events[i].id + 1) : n_born;
    g_autofree uint32_t *born = g_new0(uint32_t, (gsize)n_born + 1);
    size_t step = MAX(n / MAX(options->n_samples, 1u), (size_t)1);
    unsigned failures = 0;
    for (size_t i = 0; i < n; i++) {
        EchAllocStats before, after;
        ech_allocator_counters(allocator, &before);
        EchAllocRunOptions quiet = {0};
        if (events[i].kind == ECH_EVENT_ALLOC)
            born[events[i].id] = (uint32_t)i;
        ech_alloc_run(allocator, events + i, 1, &quiet);
        ech_allocator_counters(allocator, &after);
        if (after.failed > before.failed && failures < options->max_failures) {
            failures++;
            EchMoment moment = {.kind = ECH_MOMENT_FAILURE, .event = i, .asked = events[i].bytes, .asked_id = events[i].id};
            look(&moment, allocator, born, n_born);
            /* After an out-of-memory the caches are gone: what counts is what was live. */
            moment.fit = events[i].bytes > (device->capacity > after.live ? device->capacity - after.live : 0) ? ECH_FIT_FULL : ECH_FIT_FRAGMENTED;
            g_array_append_val(report->moments, moment);
        }
        if (i == options->peak_at) {
            EchMoment moment = {.kind = ECH_MOMENT_PEAK, .event = i};
            look(&moment, allocator, born, n_born);
            g_array_append_val(report->moments, moment);
        }
        if (options->n_samples && (i % step == 0 || i == n - 1)) {
            EchAllocSample sample = {(uint32_t)i, after.requested, after.live, after.reserved};
            g_array_append_val(report->samples, sample);
        }
    }
    EchMoment end = {.kind = ECH_MOMENT_END, .event = n ? n - 1 : 0};
    look(&end, allocator, born, n_born);
    g_array_append_val(report->moments, end);
    return report;
}
