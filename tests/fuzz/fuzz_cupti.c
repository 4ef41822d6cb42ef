#include "sim/import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(EchSource) source = ech_source_new_memory(data, size, "fuzz");
    EchImportOptions options = {0};
    g_autoptr(EchImport) import = ech_import_source(source, "cupti", &options, NULL);
    return 0;
}
