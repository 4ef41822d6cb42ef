/* The trace's own file. What the importer counted travels in properties "records.NAME", "dropped.NAME" and "noted.NAME". */
#include "sim/import/import.h"

#include "sim/trace/file.h"

#include <string.h>

static int probe(const uint8_t *head, size_t n)
{
    return ech_trace_file_probe(head, n) ? 2 : 0;
}

static bool ech_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    ret->trace = ech_trace_file_read(data, n, ech_source_path(source), error);
    if (!ret->trace)
        return false;
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(ret->trace, i, &value)) != NULL; i++) {
        const char *dot = strchr(key, '.');
        uint64_t count;
        if (!dot || !ech_parse_u64(value, &count, NULL))
            continue;
        if (g_str_has_prefix(key, "records."))
            ech_diag_note(ret->records, dot + 1, count);
        else if (g_str_has_prefix(key, "noted."))
            ech_diag_note(ret->diag, dot + 1, count);
        else if (g_str_has_prefix(key, "dropped."))
            ech_diag_dropped(ret->diag, dot + 1, count, NULL);
    }
    return true;
}

const EchImportClass ech_import_ech = {
    .name = "ech",
    .summary = "echelon's own trace file, written by echelon import",
    .probe = probe,
    .read = ech_read,
};
