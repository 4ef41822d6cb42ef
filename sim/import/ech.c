/* The trace's own file. What the importer counted and remarked travels in properties "records.NAME", "dropped.NAME", "noted.NAME" and "remark.N" and becomes
 * that again, so that nothing tells an imported capture from its file. */
#include "sim/import/import.h"

#include "sim/trace/file.h"

#include <string.h>

static int probe(const uint8_t *head, size_t n)
{
    return ech_trace_file_probe(head, n) ? 2 : 0;
}

EchTrace *ech_import_with_counters(const EchImport *import, EchTrace *trace)
{
    g_autoptr(GPtrArray) pairs = g_ptr_array_new_with_free_func(g_free);
    const EchDiag *tables[] = {import->records, import->diag};
    for (size_t t = 0; t < G_N_ELEMENTS(tables); t++) {
        size_t n;
        const EchDiagRow *rows = ech_diag_rows(tables[t], &n);
        for (size_t i = 0; i < n; i++) {
            g_ptr_array_add(pairs, g_strdup_printf("%s.%s", t == 0 ? "records" : rows[i].fatal_if_strict ? "dropped" : "noted", rows[i].name));
            g_ptr_array_add(pairs, g_strdup_printf("%" G_GUINT64_FORMAT, rows[i].count));
        }
    }
    const char *const *remarks = ech_diag_remarks(import->diag);
    for (size_t i = 0; remarks[i]; i++) {
        g_ptr_array_add(pairs, g_strdup_printf("remark.%zu", i));
        g_ptr_array_add(pairs, g_strdup(remarks[i]));
    }
    g_ptr_array_add(pairs, NULL);
    return ech_trace_with_properties(trace, (const char *const *)pairs->pdata);
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
    bool any = false;
    for (size_t i = 0; (key = ech_trace_property(ret->trace, i, &value)) != NULL; i++) {
        const char *dot = strchr(key, '.');
        uint64_t count;
        if (dot && g_str_has_prefix(key, "remark."))
            ech_diag_remark(ret->diag, "%s", value);
        else if (!dot || !ech_parse_u64(value, &count, NULL))
            continue;
        else if (g_str_has_prefix(key, "records."))
            ech_diag_note(ret->records, dot + 1, count);
        else if (g_str_has_prefix(key, "noted."))
            ech_diag_note(ret->diag, dot + 1, count);
        else if (g_str_has_prefix(key, "dropped."))
            ech_diag_dropped(ret->diag, dot + 1, count, NULL);
        else
            continue;
        any = true;
    }
    if (any) {
        static const char *const prefixes[] = {"records.", "noted.", "dropped.", "remark.", NULL};
        EchTrace *plain = ech_trace_without_properties(ret->trace, prefixes);
        ech_trace_unref(ret->trace);
        ret->trace = plain;
    }
    return true;
}

const EchImportClass ech_import_ech = {
    .name = "ech",
    .summary = "echelon's own trace file, written by echelon import, or by hand",
    .probe = probe,
    .read = ech_read,
    .by_hand =
        "echelon-trace 1 \"by hand\"\n"
        "strings 0\n"
        "memories 2\n"
        "\"hbm\"\n"
        "\"host\"\n"
        "queues 2\n"
        "compute 0 \"core\"\n"
        "copy 0 \"dma\"\n"
        "buffers 2\n"
        "b \"weights\" m=1 bytes=4000000 resident=1\n"
        "b \"window\" m=0 bytes=1000000\n"
        "ops 5\n"
        "loop \"layers\" q=0 target=4 bytes=4\n"
        "alloc \"window\" q=0 target=1 bytes=1000000\n"
        "copy \"fetch\" q=1 from=1 to=0 bytes=1000000 r=0:1000000 w=1:1000000 after=-1\n"
        "kernel \"product\" q=0 r=1:1000000 work=matrix:bf16:9000000000 after=-1\n"
        "free \"window\" q=0 target=1 bytes=1000000\n"
        "\n"
        "Each section begins with its count; memories, queues and buffers are numbered from 0 as they stand. A buffer (b) lies in memory m; resident=1: from "
        "the start, else from its alloc to its free. offset= gives it a place.\n"
        "An operation runs behind the one before it on its queue, and behind those that after= names: -1 the line before, -1@2 that line two iterations ago. "
        "r= and w= are buffers that it reads and writes, and bytes of each; work= the unit (matrix, vector, transcendental), the type, and operations (a "
        "multiply-add is two); duration= what was recorded, in ps.\n"
        "loop runs the next lines, so many as target= says, bytes= times. wait \"done\" q=0 after=-3 holds a queue for an operation of another.",
};
