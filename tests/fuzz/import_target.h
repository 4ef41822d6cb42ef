/** @file import_target.h
 * What every importer's fuzz target does: read any bytes as the format; what is accepted must survive its own file.
 */
#pragma once
#include "sim/import/import.h"
#include "sim/trace/file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void ech_fuzz_import(const char *format, const uint8_t *data, size_t size)
{
    g_autoptr(EchSource) source = ech_source_new_memory(data, size, "fuzz");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, format, NULL, &error);
    g_assert((import != NULL) == (error == NULL));
    if (!import || !import->trace)
        return;
    g_autoptr(GString) text = ech_trace_file_print(import->trace);
    g_autoptr(GError) again_error = NULL;
    g_autoptr(EchTrace) again = ech_trace_file_read(text->str, text->len, "again", &again_error);
    if (!again)
        g_error("what was written cannot be read: %s", again_error->message);
    g_autoptr(GString) text2 = ech_trace_file_print(again);
    g_assert(text->len == text2->len && memcmp(text->str, text2->str, text->len) == 0);
}
