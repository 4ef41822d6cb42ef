/** @file fuzz_mosaic.c  A kernel's code: read and walked, whatever it says. */
#include "sim/program/mosaic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t numbers[] = {0, 1, 2, 3, 0, 1, 1, 1, 0, 0, 2, 2, 0, 0, 0, 3};
    EchMosaicArray arrays[8] = {{.values = numbers, .n = G_N_ELEMENTS(numbers)}, {.values = numbers, .n = 4}, {.on_chip = true}};
    EchKernelGrid grid;
    uint64_t visits = ECH_MOSAIC_VISITS;
    g_autoptr(GError) error = NULL;
    if (!ech_mosaic_read(data, size, arrays, 5, G_N_ELEMENTS(arrays), &visits, &grid, &error))
        g_assert_nonnull(error);
    else
        g_assert_true(grid.steps >= 1 && grid.n_products <= ECH_KERNEL_MAX_PRODUCTS && grid.vector >= 0);
    return 0;
}
