#include "sim/import/xplane.h"
#include "tests/fuzz/import_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ech_fuzz_import("xplane", data, size);
    g_autoptr(EchSource) source = ech_source_new_memory(data, size, NULL);
    g_autofree char *name = NULL;
    g_autoptr(GBytes) program = ech_xplane_program(source, "jit_f", &name, NULL);
    return 0;
}
