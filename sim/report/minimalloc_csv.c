#include "sim/report/minimalloc_csv.h"

#include <string.h>

static void print_id(GString *out, const char *id)
{
    if (!strpbrk(id, ",\"\r\n")) {
        g_string_append(out, id);
        return;
    }
    g_string_append_c(out, '"');
    for (; *id; id++) {
        if (*id == '"')
            g_string_append_c(out, '"');
        g_string_append_c(out, *id == '\n' || *id == '\r' ? ' ' : *id);
    }
    g_string_append_c(out, '"');
}

void ech_minimalloc_csv_print(GString *out, const EchMinimallocCsvRow *rows, size_t n, bool alignment, bool heaps)
{
    g_string_append(out, alignment ? "id,lower,upper,size,alignment,offset\n" : "id,lower,upper,size,offset\n");
    for (size_t i = 0; i < n; i++) {
        const EchMinimallocCsvRow *row = &rows[i];
        print_id(out, row->id);
        g_string_append_printf(out, ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GUINT64_FORMAT, row->lower, row->upper, row->size);
        if (alignment)
            g_string_append_printf(out, ",%" G_GUINT64_FORMAT, MAX(row->alignment, 1));
        if (heaps)
            g_string_append_printf(out, ",H%u+%" G_GUINT64_FORMAT "\n", row->heap, row->offset);
        else
            g_string_append_printf(out, ",%" G_GUINT64_FORMAT "\n", row->offset);
    }
}
