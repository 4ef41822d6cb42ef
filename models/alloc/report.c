#include "models/alloc/report.h"

#include <string.h>

static void moment_clear(gpointer data)
{
    EchMoment *moment = data;
    g_free(moment->segments);
    g_free(moment->pins);
    g_free(moment->picture);
    g_free(moment->hole_pins);
}

void ech_alloc_report_free(EchAllocReport *report)
{
    if (!report)
        return;
    g_array_unref(report->moments);
    g_array_unref(report->samples);
    g_array_unref(report->failures);
    for (uint32_t r = 0; r < report->map.n_rows; r++)
        g_free(report->map.rows[r]);
    g_free(report->map.rows);
    g_free(report->map.events);
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

static EchPin pin_of(const EchAllocBlock *block, const uint32_t *born, uint32_t n_born)
{
    return (EchPin){block->id, block->id < n_born ? born[block->id] : 0, block->address, block->bytes, block->requested};
}

/* The run of blocks of one segment that is at least as large as what was asked, with the fewest bytes in use. */
static void find_hole(EchMoment *moment, const EchAllocBlock *blocks, size_t n, const uint32_t *born, uint32_t n_born)
{
    size_t best_from = 0, best_to = 0;
    EchBytes best = UINT64_MAX;
    for (size_t from = 0, to = 0, bytes = 0, used = 0; from < n; from++) {
        if (to < from || (from > 0 && blocks[from].segment != blocks[from - 1].segment)) {
            to = from;
            bytes = used = 0;
        }
        while (bytes < moment->asked && to < n && blocks[to].segment == blocks[from].segment) {
            bytes += blocks[to].bytes;
            used += blocks[to].state == ECH_BLOCK_FREE ? 0 : blocks[to].bytes;
            to++;
        }
        if (bytes >= moment->asked && used < best) {
            best = used;
            best_from = from;
            best_to = to;
        }
        bytes -= MIN(bytes, blocks[from].bytes);
        used -= blocks[from].state == ECH_BLOCK_FREE ? 0 : MIN(used, blocks[from].bytes);
    }
    if (best == UINT64_MAX)
        return;
    moment->hole = (EchSegmentReport){.segment = blocks[best_from].segment, .address = blocks[best_from].address, .used = best};
    moment->hole_pins = g_new(EchPin, best_to - best_from + 1);
    for (size_t i = best_from; i < best_to; i++) {
        moment->hole.bytes += blocks[i].bytes;
        if (blocks[i].state == ECH_BLOCK_FREE)
            moment->hole.largest_free = MAX(moment->hole.largest_free, blocks[i].bytes);
        else if (blocks[i].state == ECH_BLOCK_USED)
            moment->hole_pins[moment->hole.n_blocks++] = pin_of(&blocks[i], born, n_born);
    }
    qsort(moment->hole_pins, moment->hole.n_blocks, sizeof(EchPin), by_bytes);
}

/* Blocks come by address, segments do not overlap: the blocks of one are together, unless segments share an address range (expandable ones),
 * where equal numbers in a row decide. */
static void look(EchMoment *moment, const EchAllocator *allocator, const uint32_t *born, uint32_t n_born, EchBytes capacity)
{
    ech_allocator_stats(allocator, &moment->stats);
    moment->device_free = capacity - MIN(capacity, ech_bytes_add(moment->stats.reserved, moment->stats.direct));
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
                moment->n_free++;
                segment.largest_free = MAX(segment.largest_free, blocks[i].bytes);
                continue;
            }
            segment.used += blocks[i].bytes;
            if (blocks[i].state == ECH_BLOCK_PENDING) {
                pending += blocks[i].bytes;
                continue;
            }
            EchPin pin = pin_of(&blocks[i], born, n_born);
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
    if (moment->kind == ECH_MOMENT_FAILURE)
        find_hole(moment, blocks, n, born, n_born);
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

/* ---- the map ---- */

typedef struct {
    uint64_t address;
    EchBytes bytes;
    bool used;
    uint32_t column;
} Tile;

static int by_address(const void *a, const void *b)
{
    const Tile *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* Blocks that touch and are of one kind make one tile. */
static void take_column(const EchAllocator *allocator, uint32_t column, GArray *tiles)
{
    size_t n;
    g_autofree EchAllocBlock *blocks = ech_allocator_blocks(allocator, &n);
    for (size_t i = 0; i < n; i++) {
        bool used = blocks[i].state != ECH_BLOCK_FREE;
        Tile *last = i ? &g_array_index(tiles, Tile, tiles->len - 1) : NULL;
        if (last && last->used == used && last->address + last->bytes == blocks[i].address) {
            last->bytes += blocks[i].bytes;
        } else {
            Tile tile = {blocks[i].address, blocks[i].bytes, used, column};
            g_array_append_val(tiles, tile);
        }
    }
}

static void draw_map(EchAddressMap *map, GArray *tiles, uint32_t n_rows)
{
    /* Where an address lies when what was never reserved is left out: by the tiles in order of address. */
    if (tiles->len)
        qsort(tiles->data, tiles->len, sizeof(Tile), by_address);
    uint64_t reach = 0;
    for (guint i = 0; i < tiles->len; i++) {
        Tile *tile = &g_array_index(tiles, Tile, i);
        uint64_t end = tile->address + tile->bytes;
        if (i == 0 || tile->address >= reach) {
            tile->address = map->bytes; /* from here on a place in the map */
            map->bytes += tile->bytes;
            reach = end;
        } else {
            tile->address = map->bytes - (reach - tile->address);
            if (end > reach) {
                map->bytes += end - reach;
                reach = end;
            }
        }
    }
    map->n_rows = map->bytes ? n_rows : 0;
    map->rows = g_new0(char *, (gsize)map->n_rows + 1);
    size_t cells = (size_t)map->n_rows * map->n_columns;
    g_autofree double *used = g_new0(double, cells + 1), *reserved = g_new0(double, cells + 1);
    double height = (double)map->bytes / MAX(map->n_rows, 1u);
    for (guint i = 0; i < tiles->len; i++) {
        const Tile *tile = &g_array_index(tiles, Tile, i);
        double from = (double)tile->address, to = (double)(tile->address + tile->bytes);
        for (uint32_t r = (uint32_t)(from / height); r < map->n_rows && r * height < to; r++) {
            double part = MIN(to, (r + 1) * height) - MAX(from, r * height);
            reserved[(size_t)r * map->n_columns + tile->column] += part;
            used[(size_t)r * map->n_columns + tile->column] += tile->used ? part : 0;
        }
    }
    for (uint32_t r = 0; r < map->n_rows; r++) {
        char *row = g_malloc((gsize)map->n_columns + 1);
        for (uint32_t c = 0; c < map->n_columns; c++) {
            double in_use = used[(size_t)r * map->n_columns + c] / height, held = reserved[(size_t)r * map->n_columns + c] / height;
            row[c] = (char)(in_use >= 0.9 ? '#' : in_use >= 0.5 ? '+' : in_use > 1e-6 ? ':' : held > 1e-6 ? '.' : ' ');
        }
        row[map->n_columns] = '\0';
        map->rows[map->n_rows - 1 - r] = row;
    }
}

EchAllocReport *ech_alloc_report_new(const char *spec, const EchAllocDevice *device, const EchAllocEvent *events, size_t n,
                                     const EchAllocReportOptions *options, GError **error)
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
    report->failures = g_array_new(FALSE, FALSE, sizeof(EchAllocFailure));
    EchAddressMap *map = &report->map;
    uint32_t columns = (uint32_t)MIN((size_t)options->map_columns, n);
    map->events = g_new0(uint32_t, (gsize)columns + 1);
    g_autoptr(GArray) tiles = g_array_new(FALSE, FALSE, sizeof(Tile));
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    uint32_t n_born = 0;
    for (size_t i = 0; i < n; i++)
        n_born = events[i].kind == ECH_EVENT_ALLOC ? MAX(n_born, events[i].id + 1) : n_born;
    g_autofree uint32_t *born = g_new0(uint32_t, (gsize)n_born + 1);
    size_t step = MAX(n / MAX(options->n_samples, 1u), (size_t)1);
    for (size_t i = 0; i < n; i++) {
        EchAllocStats before, after;
        ech_allocator_counters(allocator, &before);
        EchAllocRunOptions quiet = {.placed = placed};
        g_array_set_size(placed, 0);
        if (events[i].kind == ECH_EVENT_ALLOC)
            born[events[i].id] = (uint32_t)i;
        ech_alloc_run(allocator, events + i, 1, &quiet);
        ech_allocator_counters(allocator, &after);
        if (after.failed > before.failed) {
            EchFit fit = placed->len ? g_array_index(placed, EchPlacedEvent, 0).fit : ECH_FIT_FULL;
            if (report->failures->len < options->max_failures) {
                EchMoment moment = {.kind = ECH_MOMENT_FAILURE, .event = i, .asked = events[i].bytes, .asked_id = events[i].id, .fit = fit};
                look(&moment, allocator, born, n_born, device->capacity);
                g_array_append_val(report->moments, moment);
            }
            EchAllocFailure failure = {(uint32_t)i, events[i].id, events[i].bytes, after.live, after.reserved, fit};
            if (report->failures->len < ECH_REPORT_MAX_FAILURES)
                g_array_append_val(report->failures, failure);
        }
        if (columns && i + 1 >= ((uint64_t)map->n_columns + 1) * n / columns) {
            map->events[map->n_columns] = (uint32_t)i;
            take_column(allocator, map->n_columns++, tiles);
        }
        if (i == options->peak_at) {
            EchMoment moment = {.kind = ECH_MOMENT_PEAK, .event = i};
            look(&moment, allocator, born, n_born, device->capacity);
            g_array_append_val(report->moments, moment);
        }
        if (options->n_samples && (i % step == 0 || i == n - 1)) {
            EchAllocSample sample = {(uint32_t)i, after.requested, after.live, after.reserved};
            g_array_append_val(report->samples, sample);
        }
    }
    EchMoment end = {.kind = ECH_MOMENT_END, .event = n ? n - 1 : 0};
    look(&end, allocator, born, n_born, device->capacity);
    g_array_append_val(report->moments, end);
    draw_map(map, tiles, options->map_rows);
    return report;
}
