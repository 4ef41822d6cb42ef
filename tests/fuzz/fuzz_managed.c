/* Any run of managed memory. */
#include "tests/fuzz/managed_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ech_managed_case(data, size);
    return 0;
}
