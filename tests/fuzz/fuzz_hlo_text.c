#include "tests/fuzz/program_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 << 18)
        ech_fuzz_program_bytes("hlo", data, size, false);
    return 0;
}
