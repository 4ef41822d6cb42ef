/* echelon layout: padded bytes and waste of shapes, and what would avoid it. */
#include "models/device/device.h"
#include "models/layout/advice.h"
#include "sim/cli/cli.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    EchLayout layout;
    EchLayoutAdvice advice;
} Row;

static void add_json(JsonBuilder *json, const Row *row, bool gpu)
{
    const EchLayoutAdvice *advice = &row->advice;
    g_autofree char *text = ech_layout_print(&row->layout);
    json_builder_begin_object(json);
    ech_json_add_text(json, "text", text);
    ech_json_add_count(json, "dense_bytes", advice->dense);
    ech_json_add_count(json, "padded_bytes", advice->padded);
    ech_json_add_double(json, "waste", advice->waste);
    ech_json_begin_array(json, "dimensions");
    for (unsigned i = 0; i < advice->rank; i++) {
        json_builder_begin_object(json);
        ech_json_add_count(json, "size", advice->dims[i].size);
        ech_json_add_count(json, "padded", advice->dims[i].padded);
        ech_json_add_count(json, "lost_bytes", advice->dims[i].lost);
        if (advice->dims[i].lost > 0)
            ech_json_add_count(json, "grow", advice->dims[i].grow);
        if (advice->dims[i].lost > 0 && advice->dims[i].shrink > 0)
            ech_json_add_count(json, "shrink", advice->dims[i].shrink);
        json_builder_end_object(json);
    }
    json_builder_end_array(json);
    if (advice->has_better) {
        g_autofree char *better = ech_layout_print(&advice->better);
        ech_json_add_text(json, "better", better);
        ech_json_add_count(json, "better_bytes", advice->better_bytes);
    }
    if (gpu && row->layout.rank > 0) {
        EchGpuAlignment alignment = ech_gpu_alignment(row->layout.dims[row->layout.order[0]], ech_layout_element_bits(&row->layout));
        ech_json_begin_object(json, "tensor_cores");
        ech_json_add_count(json, "row_bytes", alignment.row_bytes);
        ech_json_add_bool(json, "usable", alignment.usable);
        ech_json_add_bool(json, "best", alignment.best);
        ech_json_add_count(json, "next_usable", alignment.next_usable);
        ech_json_add_count(json, "next_best", alignment.next_best);
        json_builder_end_object(json);
    }
    json_builder_end_object(json);
}

static void add_text(GString *out, const Row *row, bool gpu)
{
    const EchLayoutAdvice *advice = &row->advice;
    g_autofree char *text = ech_layout_print(&row->layout), *dense = ech_format_bytes(advice->dense), *padded = ech_format_bytes(advice->padded);
    g_string_append_printf(out, "%s\n  %" G_GUINT64_FORMAT " bytes dense (%s), %" G_GUINT64_FORMAT " padded (%s): %.1f %% waste, %.3fx\n", text, advice->dense,
                           dense, advice->padded, padded, 100 * advice->waste, advice->dense > 0 ? (double)advice->padded / (double)advice->dense : 1.0);
    if (ech_layout_element_bits(&row->layout) > row->layout.bits)
        g_string_append_printf(out, "  elements of %u bits are stored in %u\n", row->layout.bits, ech_layout_element_bits(&row->layout));
    const EchLayoutDimension *worst = NULL;
    unsigned at = 0;
    for (unsigned i = 0; i < advice->rank; i++) {
        const EchLayoutDimension *d = &advice->dims[i];
        if (d->lost == 0)
            continue;
        g_autofree char *lost = ech_format_bytes(d->lost);
        g_string_append_printf(out, "  dimension %u: %" G_GUINT64_FORMAT " takes %" G_GUINT64_FORMAT ", which alone costs %s\n", i, d->size, d->padded, lost);
        if (worst == NULL || d->lost > worst->lost) {
            worst = d;
            at = i;
        }
    }
    if (advice->has_better) {
        g_autofree char *better = ech_layout_print(&advice->better), *bytes = ech_format_bytes(advice->better_bytes);
        g_string_append_printf(out, "  cheapest order: %s takes %s\n", better, bytes);
    } else if (worst != NULL) {
        g_string_append_printf(out, "  cheapest change: dimension %u up to %" G_GUINT64_FORMAT " for free", at, worst->grow);
        if (worst->shrink > 0)
            g_string_append_printf(out, ", or down to %" G_GUINT64_FORMAT, worst->shrink);
        g_string_append(out, "\n");
    }
    if (gpu && row->layout.rank > 0) {
        EchGpuAlignment alignment = ech_gpu_alignment(row->layout.dims[row->layout.order[0]], ech_layout_element_bits(&row->layout));
        g_string_append_printf(out, "  tensor cores: rows of %" G_GUINT64_FORMAT " bytes, %s", alignment.row_bytes,
                               alignment.best     ? "a multiple of 128: best"
                               : alignment.usable ? "a multiple of 16: usable"
                                                  : "not a multiple of 16: slow path");
        if (!alignment.best)
            g_string_append_printf(out, "; next best width %" G_GUINT64_FORMAT, alignment.next_best);
        g_string_append(out, "\n");
    }
}

/* As people write it: without the blanks beside its brackets, braces and commas. Owned by the caller. */
static char *without_blanks(const char *shape)
{
    char *out = g_strdup(shape), *to = out;
    for (const char *at = shape; *at; at++) {
        const char *next = at + strspn(at, " ");
        bool beside = to == out || !g_ascii_isalnum(to[-1]) || !g_ascii_isalnum(*next);
        if (*at != ' ' || !beside)
            *to++ = *at;
    }
    *to = '\0';
    return out;
}

int ech_verb_layout(int argc, char **argv)
{
    g_autofree char *device_name = NULL;
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        {"device", 'd', 0, G_OPTION_ARG_STRING, &device_name, "device whose compiler chooses tiles where the shape gives none", "NAME"},
        {"json", 'j', 0, G_OPTION_ARG_NONE, &json, "print one JSON document", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (rest[0] == NULL) {
        fputs("echelon layout: at least one SHAPE is needed, such as 'f32[3,5]{1,0:T(8,128)}'\n", stderr);
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    g_autoptr(EchDevice) device = NULL;
    if (device_name != NULL) {
        device = ech_device_load(device_name, NULL, &error);
        if (device == NULL)
            return ech_cli_fail(error);
    }
    bool gpu = device != NULL && g_strcmp0(device->family, "gpu") == 0;
    unsigned generation = device != NULL && !gpu ? ech_layout_generation(device->compiler != NULL && *device->compiler ? device->compiler : device->name) : 0;
    EchLayoutRules rules = generation > 0 ? ECH_LAYOUT_TPU : ECH_LAYOUT_DENSE;
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(Row));
    for (char **shape = rest; *shape != NULL; shape++) {
        Row row = {0};
        g_autofree char *plain = without_blanks(*shape);
        if (!ech_layout_parse(plain, strlen(plain), &row.layout, NULL, &error)) {
            const char *where = error->message + (g_str_has_prefix(error->message, "shape: ") ? strlen("shape: ") : 0);
            ech_cli_say("echelon layout: '%s': %s\n", *shape, where);
            g_error_free(error);
            return ECH_EXIT_USAGE;
        }
        /* A tile the user wrote is what is asked about. */
        if (generation > 0 && row.layout.n_tiles == 0 && !(row.layout.has_layout && row.layout.rank == 0))
            ech_layout_choose_tiles(&row.layout, generation);
        ech_layout_advise(&row.layout, rules, generation, &row.advice);
        if (row.advice.padded == UINT64_MAX) {
            fprintf(stderr, "echelon layout: '%s' is larger than 16 EiB\n", *shape);
            return ECH_EXIT_USAGE;
        }
        g_array_append_val(rows, row);
    }
    if (json) {
        g_autoptr(JsonBuilder) builder = json_builder_new();
        json_builder_begin_object(builder);
        ech_json_begin_array(builder, "shapes");
        for (guint i = 0; i < rows->len; i++)
            add_json(builder, &g_array_index(rows, Row, i), gpu);
        json_builder_end_array(builder);
        json_builder_end_object(builder);
        g_autofree char *text = ech_json_finish(builder);
        ech_cli_print(text);
    } else {
        g_autoptr(GString) text = g_string_new(NULL);
        bool tiled = true;
        for (guint i = 0; i < rows->len; i++) {
            add_text(text, &g_array_index(rows, Row, i), gpu);
            tiled = tiled && g_array_index(rows, Row, i).layout.n_tiles > 0;
        }
        if (!tiled && !device)
            g_string_append(text, "(without tiles in the shape nothing is padded; --device tpu-v5e takes those that its compiler chooses)\n");
        g_autoptr(GString) folded = ech_text_fold(text->str, ech_cli_columns());
        ech_cli_print(folded->str);
    }
    return ECH_EXIT_DONE;
}
