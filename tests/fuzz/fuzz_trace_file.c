/* Reads any bytes as an .ech file; what is accepted must print to a text that reads back to the same text. */
#include "sim/trace/file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(EchTrace) trace = ech_trace_file_read((const char *)data, size, "fuzz", NULL);
    if (!trace)
        return 0;
    g_autoptr(GString) text = ech_trace_file_print(trace);
    g_autoptr(EchTrace) again = ech_trace_file_read(text->str, text->len, "again", NULL);
    g_assert(again);
    g_autoptr(GString) text2 = ech_trace_file_print(again);
    g_assert(strcmp(text->str, text2->str) == 0);
    return 0;
}
