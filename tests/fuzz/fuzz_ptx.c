/** @file fuzz_ptx.c  A module's text: its kernel "k" read, and run over memory of which little is known. */
#include "traces/capture/pretend/ptx.h"

#include <glib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool peek(uint64_t address, unsigned bytes, uint64_t *ret)
{
    *ret = address % 251;
    return bytes < 8 && address % 3 == 0;
}

static uint64_t end_of(uint64_t address)
{
    return address < (UINT64_C(1) << 40) ? UINT64_C(1) << 40 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    PtxKernel *kernel = ptx_kernel_new(text, "k");
    if (!kernel)
        return 0;
    static const uint64_t parameters[4] = {UINT64_C(1) << 30, UINT64_C(1) << 31, 100, 3};
    static const PtxTensor tensor = {.address = UINT64_C(1) << 30, .apart = {256}, .sizes = {100, 60}, .box = {64, 8}, .dimensions = 2, .bits = 16};
    static const uint32_t bytes[] = {8, 8, 8, 8, sizeof tensor};
    const void *at[] = {&parameters[0], &parameters[1], &parameters[2], &parameters[3], &tensor};
    g_autofree uint64_t *variables = g_new0(uint64_t, kernel->n_variables + 1);
    PtxLaunch launch = {{40, 2, 1}, {48, 1, 1}, 1024, 20000, 60000, (void *const *)(uintptr_t)at, bytes, 5, variables, peek, end_of};
    PtxMoves found;
    if (ptx_moves(kernel, &launch, &found))
        for (size_t i = 0; i < found.n; i++)
            g_assert_true(found.moves[i].bytes > 0 && found.moves[i].address < (UINT64_C(1) << 40));
    ptx_kernel_free(kernel);
    return 0;
}
