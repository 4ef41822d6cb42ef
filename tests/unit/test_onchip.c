/* On-chip memories: windows in whole tiles, scalars in whole words, accumulators row by row. */
#include "models/layout/layout.h"
#include "models/memory/onchip.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* The bytes of a window are those of an array of its shape with the tile that the compiler gives it. */
enum { LANES = 128, SUBLANES = 8, WORD_BITS = 32 };

/* What JAX's Pallas guide says a window takes: whole tiles of 8 x 128 32-bit words, rows of narrower elements packed. */
static EchBytes window_bytes(uint64_t rows, uint64_t columns, unsigned bits)
{
    uint64_t width = MAX(bits, 1u), packed = MAX(WORD_BITS / width, 1u);
    /* Fewer rows than a tile has take a smaller tile: a power of two of packed rows. */
    uint64_t tile = packed;
    while (tile < SUBLANES && tile < rows)
        tile *= 2;
    tile = MAX(tile, MIN(SUBLANES, ech_round_up(rows, packed)));
    EchBytes elements = ech_bytes_mul(ech_round_up(rows, tile), ech_round_up(columns, LANES));
    return ech_bytes_mul(elements, width) / 8;
}

/* An array's padded size is the same. */
START_TEST(test_windows)
{
    static const struct {
        const char *dtype;
        unsigned bits;
    } types[] = {{"f32", 32}, {"bf16", 16}, {"s8", 8}};
    for (size_t t = 0; t < G_N_ELEMENTS(types); t++) {
        for (uint64_t rows = 1; rows <= 40; rows++) {
            for (uint64_t columns = 1; columns <= 300; columns += 23) {
                EchLayout layout;
                g_autofree char *text = g_strdup_printf("%s[%d,%d]{1,0}", types[t].dtype, (int)rows, (int)columns);
                ck_assert(ech_layout_parse(text, strlen(text), &layout, NULL, NULL));
                ech_layout_choose_tiles(&layout, 5);
                EchBytes own = window_bytes(rows, columns, types[t].bits), padded = ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU);
                ck_assert_msg(own == padded, "%s: %d, as an array %d", text, (int)own, (int)padded);
            }
        }
    }
    ck_assert_uint_eq(ech_onchip_scalar_bytes(3), 12);
}
END_TEST

START_TEST(test_fit)
{
    const EchMemory memory = {.capacity = 128 << 20, .available = 128 << 20, .kernel_reserved = 16 << 20};
    EchOnchipFit fit = ech_onchip_fit(&memory, 10 << 20);
    ck_assert(fit.spilled == 0 && fit.values == 112 << 20);
    fit = ech_onchip_fit(&memory, 20 << 20);
    ck_assert_uint_eq(fit.spilled, 4 << 20);
}
END_TEST

START_TEST(test_accumulators)
{
    GError *error = NULL;
    g_autoptr(EchDevice) with = ech_device_load("tpu7x", NULL, &error);
    g_autoptr(EchDevice) without = ech_test_device("tpu-v5e", NULL);
    ck_assert_ok(with && without, error);
    /* 2 MiB: 2048 rows of 256 words. */
    EchAccumulators all = ech_onchip_accumulators(with, 1024, 512), more = ech_onchip_accumulators(with, 1024, 513),
                    none = ech_onchip_accumulators(without, 8, 128);
    ck_assert(all.block == 2 << 20 && all.spilled == 0);
    ck_assert(more.block == 3 << 20 && more.held == 2 << 20 && more.spilled == 1 << 20);
    ck_assert(none.held == 0 && none.spilled == 4096);
    /* More than can be counted is spilled, not lost. */
    ck_assert_uint_gt(ech_onchip_accumulators(with, 8, UINT64_MAX / 2).spilled, UINT64_MAX / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("onchip");
    TCase *tests = tcase_create("onchip");
    tcase_add_test(tests, test_windows);
    tcase_add_test(tests, test_fit);
    tcase_add_test(tests, test_accumulators);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
