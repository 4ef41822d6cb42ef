#include "tests/fuzz/import_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ech_fuzz_import("pretend_tpu", data, size);
    return 0;
}
