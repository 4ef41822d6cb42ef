/** @file fuzz_mosaic.c  A kernel's code: read and walked, whatever it says. */
#include "sim/program/mosaic_room.h"
#include "sim/program/triton.h"

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
    EchKernelRoom room;
    if (ech_mosaic_room(data, size, arrays, 5, G_N_ELEMENTS(arrays), &room, NULL)) {
        int64_t from;
        g_assert_true(room.n_arrays <= ECH_ROOM_MAX_ARRAYS);
        for (unsigned axis = 0; axis < ECH_ROOM_MAX_GRID; axis++) {
            EchBytes before = room.bytes;
            g_assert_true(ech_room_halve(&room, axis, &from) <= before);
        }
    }
    static const uint64_t launch[3] = {3, 2, 1};
    EchTritonWork work;
    g_autoptr(GError) wrong = NULL;
    if (!ech_triton_read(data, size, launch, &work, &wrong))
        g_assert_nonnull(wrong);
    else
        g_assert_true(work.products >= 0 && work.vector >= 0 && work.loaded >= 0);
    return 0;
}
