#include "sim/report/padding.h"

#include "models/layout/advice.h"
#include "sim/report/json_out.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

#include <string.h>

enum { ADVISED = 64 }; /* Rows for which other orders are tried. */

static int compare_rows(const void *a, const void *b)
{
    const EchPaddingRow *x = a, *y = b;
    EchBytes of_x = x->bytes - x->dense, of_y = y->bytes - y->dense;
    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static void advise(const EchTrace *trace, EchPaddingRow *row, unsigned generation)
{
    const char *shape = ech_trace_string(trace, ech_trace_buffers(trace)[row->buffer].shape);
    EchLayout layout;
    if (generation == 0 || !*shape || !ech_layout_parse(shape, strlen(shape), &layout, NULL, NULL))
        return;
    EchLayoutAdvice advice;
    ech_layout_advise(&layout, ECH_LAYOUT_TPU, generation, &advice);
    EchBytes most = 0;
    for (unsigned d = 0; d < advice.rank; d++) {
        if (advice.dims[d].lost > most) {
            most = advice.dims[d].lost;
            row->dimension = d;
            row->size = advice.dims[d].size;
            row->stored = advice.dims[d].padded;
        }
    }
    if (!advice.has_better || advice.better_bytes >= row->bytes)
        return;
    row->better_bytes = advice.better_bytes;
    row->better = ech_layout_print(&advice.better);
}

EchPadding *ech_padding_new(const EchTrace *trace, const char *memory, const EchRun *run, EchTime time)
{
    EchPadding *padding = g_new0(EchPadding, 1);
    EchId id = ech_trace_find_memory(trace, memory);
    size_t n = ech_trace_n_buffers(trace);
    g_autofree bool *live = run ? g_new0(bool, n + 1) : NULL;
    const EchMemoryRun *of = run ? ech_report_memory(run, memory) : NULL;
    for (size_t i = 0; run && i < run->n_placed; i++) {
        if (ech_trace_buffers(trace)[run->placed[i].buffer].memory == id && ech_report_live(of, &run->placed[i], time))
            live[run->placed[i].buffer] = true;
    }
    g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(EchPaddingRow));
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[i];
        if (buffer->memory != id || buffer->alias_of != ECH_NONE || buffer->dense == 0 || (live && !live[i]))
            continue;
        padding->bytes = ech_bytes_add(padding->bytes, buffer->bytes);
        if (buffer->dense >= buffer->bytes)
            continue;
        padding->padding = ech_bytes_add(padding->padding, buffer->bytes - buffer->dense);
        EchPaddingRow row = {.buffer = (EchId)i, .bytes = buffer->bytes, .dense = buffer->dense};
        g_array_append_val(rows, row);
    }
    if (rows->len > 1)
        qsort(rows->data, rows->len, sizeof(EchPaddingRow), compare_rows);
    const char *chip = ech_trace_get_property(trace, "chip");
    unsigned generation = chip ? ech_layout_generation(chip) : 0;
    for (guint i = 0; i < MIN(rows->len, (guint)ADVISED); i++)
        advise(trace, &g_array_index(rows, EchPaddingRow, i), generation);
    padding->n_rows = rows->len;
    padding->rows = (EchPaddingRow *)(void *)g_array_steal(rows, NULL);
    return padding;
}

void ech_padding_free(EchPadding *padding)
{
    if (!padding)
        return;
    for (size_t i = 0; i < padding->n_rows; i++)
        g_free(padding->rows[i].better);
    g_free(padding->rows);
    g_free(padding);
}

void ech_padding_json(JsonBuilder *b, const EchTrace *trace, const EchPadding *padding, size_t most)
{
    json_builder_begin_object(b);
    ech_json_add_count(b, "bytes", padding->bytes);
    ech_json_add_count(b, "padding_bytes", padding->padding);
    ech_json_begin_array(b, "buffers");
    for (size_t i = 0; i < MIN(padding->n_rows, most); i++) {
        const EchPaddingRow *row = &padding->rows[i];
        g_autofree char *name = ech_report_buffer_name(trace, row->buffer);
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", name);
        ech_json_add_text(b, "shape", ech_trace_string(trace, ech_trace_buffers(trace)[row->buffer].shape));
        ech_json_add_count(b, "bytes", row->bytes);
        ech_json_add_count(b, "padding_bytes", row->bytes - row->dense);
        if (row->stored) {
            ech_json_add_count(b, "dimension", row->dimension);
            ech_json_add_count(b, "size", row->size);
            ech_json_add_count(b, "stored", row->stored);
        }
        if (row->better) {
            ech_json_add_text(b, "better", row->better);
            ech_json_add_count(b, "better_bytes", row->better_bytes);
        }
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
}

void ech_padding_text(GString *out, const EchTrace *trace, const EchPadding *padding, size_t most, const char *indent, unsigned columns)
{
    if (padding->padding < 16384 || padding->padding * 100 < padding->bytes)
        return;
    g_autofree char *sum = ech_format_bytes(padding->padding), *all = ech_format_bytes(padding->bytes);
    g_string_append_printf(out, "%s%s of %s is padding (%.1f %%)\n", indent, sum, all, 100 * (double)padding->padding / (double)padding->bytes);
    for (size_t i = 0; i < MIN(padding->n_rows, most); i++) {
        const EchPaddingRow *row = &padding->rows[i];
        if ((row->bytes - row->dense) * 20 < padding->padding)
            break;
        g_autofree char *name = ech_report_buffer_name(trace, row->buffer), *lost = ech_format_bytes(row->bytes - row->dense),
                        *bytes = ech_format_bytes(row->bytes);
        const char *shape = ech_trace_string(trace, ech_trace_buffers(trace)[row->buffer].shape);
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "of %s in %s", bytes, name);
        if (!strstr(name, shape))
            g_string_append_printf(text, "  %s", shape);
        if (row->stored)
            g_string_append_printf(text, ", dimension %u: %" G_GUINT64_FORMAT " stored as %" G_GUINT64_FORMAT, row->dimension, row->size, row->stored);
        if (row->better) {
            g_autofree char *better = ech_format_bytes(row->better_bytes);
            g_string_append_printf(text, "; %s would take %s", row->better, better);
        }
        g_autofree char *first = g_strdup_printf("%s%10s  ", indent, lost);
        ech_text_wrap(out, first, text->str, columns);
    }
}
