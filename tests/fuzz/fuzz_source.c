/* Sniffing and unpacking: any bytes, by content, including damaged gzip. */
#include "tests/fuzz/import_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ech_fuzz_import(NULL, data, size);
    return 0;
}
