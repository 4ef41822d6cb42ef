#include "sim/report/minimalloc_csv.h"

#include <string.h>

void ech_minimalloc_csv_print_id(GString *out, const char *id)
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
    bool gaps = false;
    for (size_t i = 0; i < n && !gaps; i++)
        gaps = rows[i].gaps != NULL;
    g_string_append_printf(out, "id,lower,upper,size%s%s,offset\n", alignment ? ",alignment" : "", gaps ? ",gaps" : "");
    for (size_t i = 0; i < n; i++) {
        const EchMinimallocCsvRow *row = &rows[i];
        ech_minimalloc_csv_print_id(out, row->id);
        g_string_append_printf(out, ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GUINT64_FORMAT, row->lower, row->upper, row->size);
        if (alignment)
            g_string_append_printf(out, ",%" G_GUINT64_FORMAT, MAX(row->alignment, 1));
        if (gaps)
            g_string_append_printf(out, ",%s", row->gaps ? row->gaps : "");
        if (heaps)
            g_string_append_printf(out, ",H%u+%" G_GUINT64_FORMAT "\n", row->heap, row->offset);
        else
            g_string_append_printf(out, ",%" G_GUINT64_FORMAT "\n", row->offset);
    }
}
