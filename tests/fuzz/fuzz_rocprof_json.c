#include "tests/fuzz/import_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ech_fuzz_import("rocprof_json", data, size);
    return 0;
}
