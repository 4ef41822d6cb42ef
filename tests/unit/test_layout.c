#include "models/layout/layout.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

static EchLayout parse(const char *text)
{
    EchLayout layout;
    g_autoptr(GError) error = NULL;
    bool ok = ech_layout_parse(text, strlen(text), &layout, NULL, &error);
    ck_assert_msg(ok, "%s: %s", text, error ? error->message : "");
    return layout;
}

/* Worked examples: XLA's tiled layout document, JAX's Pallas guide, and sizes the TPU compiler printed. */
static const struct {
    const char *text;
    EchBytes dense, padded;
} sizes[] = {
    {"f32[3,5]{1,0:T(2,2)}", 60, 96},
    {"f32[8,128]{1,0:T(8,128)}", 4096, 4096},
    {"f32[1,1]{1,0:T(8,128)}", 4, 4096},
    {"f32[8,128,1,1]{3,2,1,0:T(8,128)}", 4096, 4194304},
    {"f32[1000]{0:T(1024)}", 4000, 4096},
    {"f32[1025]{0:T(1024)}", 4100, 8192},
    {"bf16[4096,64]{1,0:T(8,128)(2,1)}", 524288, 1048576},
    {"bf16[64,4096]{0,1:T(8,128)(2,1)}", 524288, 1048576},
    {"s8[100,200]{1,0:T(32,128)(4,1)}", 20000, 32768},
    {"s4[100,200]{1,0:T(64,128)(8,1)E(4)}", 10000, 16384},
    {"pred[64,512,2048]{2,1,0:T(8,128)E(32)}", 64 << 20, 256 << 20}, /* as XLA's report of such a program says: 4.0x expansion */
    {"s4[9,129]{1,0:T(8,128)(4,1)}", 1161, 4096},
    {"f32[128,224,224,3]{0,3,2,1:T(4,128)}", 77070336, 102760448},
    {"f32[1000,1000]{1,0:T(8,128)S(1)SC(0:504)}", 4000000, 2064384},
    {"f32[2,9,17,65]{3,0,2,1:T(2,128)}", 79560, 156672},
    {"bf16[]{:T(256)}", 2, 512},
    {"pred[]{:S(6)}", 1, 1024},
    {"u32[]{:S(2)}", 4, 4},
    {"u32[]{:T(128)S(2)}", 4, 4},
    {"s32[2]{0:S(4)}", 8, 4096},
    {"s32[3]{0:S(10)}", 12, 12},
    {"f32[0,128]{1,0:T(8,128)}", 0, 0},
    {"f32[2,3,128]{2,1,0:T(*,8,128)}", 3072, 4096},
    {"f32[12,320]{1,0:T(8,128)}", 15360, 24576},
    {"f32[1,1000]{1,0:T(1,128)}", 4000, 4096},
    {"f32[2,1000]{1,0:T(2,128)}", 8000, 8192},
    {"f32[2,1000]{1,0:T(8,128)}", 8000, 32768},
    {"f32[3,1000]{1,0:T(4,128)}", 12000, 16384},
    {"f32[1]{0:T(128)}", 4, 512},
    {"bf16[32,32,4096]{2,1,0:T(8,128)(2,1)}", 8388608, 8388608},
    {"bf16[64,4096]{1,0:T(8,128)(2,1)}", 524288, 524288},
    {"bf16[9,128]{1,0:T(8,128)(2,1)}", 2304, 4096},
    {"bf16[9,128]{1,0:T(16,128)(2,1)}", 2304, 4096},
    {"bf16[24,128]{1,0:T(8,128)(2,1)}", 6144, 6144},
    {"bf16[24,128]{1,0:T(16,128)(2,1)}", 6144, 8192},
    {"s8[100,200]{1,0:T(8,128)(4,1)}", 20000, 26624},
    {"pred[1000,1000]{1,0:T(32,128)(4,1)}", 1000000, 1048576},
    {"f32[128,224,224,3]{3,2,1,0:T(8,128)}", 77070336, 3288334336},
    {"bf16[8,1024,16,64]{3,2,1,0:T(8,128)(2,1)}", 16777216, 33554432},
    {"bf16[8,1024,16,128]{3,2,1,0:T(8,128)(2,1)}", 33554432, 33554432},
    {"bf16[50257,768]{1,0:T(8,128)(2,1)}", 77194752, 77205504},
    {"f32[1024,1]{1,0:T(8,128)}", 4096, 524288},
    {"f32[1024,1]{0,1:T(1,128)}", 4096, 4096},
    /* What users' out-of-memory messages said: google-research/flowpm#27, pytorch/xla#6674, tensorflow#30803, pytorch/xla#1965, jax#7502, pytorch/xla#7942. */
    {"s32[8388608,8,4]{2,1,0:T(8,128)}", UINT64_C(1) << 30, UINT64_C(32) << 30},
    {"bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}", UINT64_C(1) << 30, UINT64_C(4) << 30},
    {"f32[32,128,32,64]{3,0,2,1:T(8,128)}", 32 << 20, 64 << 20},
    {"u32[12582912,1]{1,0:T(8,128)}", 48 << 20, UINT64_C(6) << 30},
    {"s32[2048,1,128,128,4]{4,3,2,0,1:T(8,128)}", 512 << 20, UINT64_C(16) << 30},
    {"f32[128,3]{1,0:T(8,128)}", 1536, 64 << 10},
};

START_TEST(padded_sizes_are_exact)
{
    EchLayout layout = parse(sizes[_i].text);
    g_autofree char *printed = ech_layout_print(&layout);
    ck_assert_str_eq(printed, sizes[_i].text);
    ck_assert_uint_eq(ech_layout_dense_bytes(&layout), sizes[_i].dense);
    ck_assert_uint_eq(ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU), sizes[_i].padded);
}
END_TEST

START_TEST(gpu_arrays_are_dense)
{
    EchLayout layout = parse("s32[5]{0}");
    ck_assert_uint_eq(ech_layout_padded_bytes(&layout, ECH_LAYOUT_DENSE), 20);
    layout = parse("f32[<=7,3]");
    ck_assert_uint_eq(layout.dynamic, 1);
    ck_assert_uint_eq(ech_layout_padded_bytes(&layout, ECH_LAYOUT_DENSE), 84);
}
END_TEST

static const char *const refused[] = {
    "",
    "f32",
    "f32[",
    "f32[3",
    "f32[3]{",
    "f32[3]{0",
    "f32[3]{1}",
    "f32[3,3]{0,0}",
    "f32[3,3]{0}",
    "f32[3]{0:Q(1)}",
    "f32[3]{0:T(0)}",
    "f32[3]{0:T()}",
    "f32[3]{0:SC(1:2)}",
    "f32[3]{0:SC(0:2,1)}",
    "f33[3]",
    "f32[99999999999999999999]",
    "f32[3] ",
    "f32[3]{0:S(70000)}",
    "f32[3]{0:#(u32}",
};

START_TEST(malformed_shapes_are_refused)
{
    EchLayout layout;
    g_autoptr(GError) error = NULL;
    ck_assert(!ech_layout_parse(refused[_i], strlen(refused[_i]), &layout, NULL, &error));
    ck_assert_ptr_nonnull(error);
}
END_TEST

static const struct {
    const char *shape, *tiled;
    unsigned generation;
} choices[] = {
    {"f32[8,128]{1,0}", "f32[8,128]{1,0:T(8,128)}", 5},
    {"f32[1000,1]{0,1}", "f32[1000,1]{0,1:T(1,128)}", 5},
    {"f32[1,1000]{1,0}", "f32[1,1000]{1,0:T(2,128)}", 3},
    {"bf16[64,64]{1,0}", "bf16[64,64]{1,0:T(8,128)(2,1)}", 6},
    {"bf16[1,64]{1,0}", "bf16[1,64]{1,0:T(2,128)(2,1)}", 6},
    {"s8[64,64]{1,0}", "s8[64,64]{1,0:T(32,128)(4,1)}", 6},
    {"s8[100,64]{1,0}", "s8[100,64]{1,0:T(8,128)(4,1)}", 6},
    {"f32[]", "f32[]{:T(128)}", 5},
    {"f32[]", "f32[]{:T(256)}", 3},
    {"f32[1000]{0}", "f32[1000]{0:T(1024)}", 5},
    {"f32[300]{0}", "f32[300]{0:T(512)}", 5},
    {"f32[3,5,7]{2,0,1}", "f32[3,5,7]{2,0,1:T(4,128)}", 5},
};

/* A scalar has no order to tell: XLA prints what is known of it, or nothing. */
/* As people have them from print(x.shape, x.dtype). */
START_TEST(types_have_two_names)
{
    static const char *const names[][2] = {{"float32[4,64]", "f32[4,64]"},
                                           {"bfloat16[8,128]{1,0:T(8,128)(2,1)}", "bf16[8,128]{1,0:T(8,128)(2,1)}"},
                                           {"bool[3]", "pred[3]"},
                                           {"float8_e4m3b11fnuz[2]", "f8e4m3b11fnuz[2]"},
                                           {"int4[16]", "s4[16]"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        EchLayout layout = parse(names[i][0]);
        g_autofree char *text = ech_layout_print(&layout);
        ck_assert_str_eq(text, names[i][1]);
    }
    ck_assert_ptr_null(ech_layout_dtype_of("f32", 3));
    ck_assert_ptr_null(ech_layout_dtype_of("float32", 5));
    EchLayout layout;
    ck_assert(!ech_layout_parse("float33[4]", 10, &layout, NULL, NULL));
}
END_TEST

START_TEST(scalars_are_printed_bare)
{
    static const char *const scalars[][2] = {
        {"f32[]", "f32[]"}, {"f32[]{}", "f32[]"}, {"s32[]{:S(2)}", "s32[]{:S(2)}"}, {"pred[]{:T(512)}", "pred[]{:T(512)}"}};
    for (size_t i = 0; i < G_N_ELEMENTS(scalars); i++) {
        EchLayout layout = parse(scalars[i][0]);
        g_autofree char *printed = ech_layout_print(&layout);
        ck_assert_str_eq(printed, scalars[i][1]);
    }
}
END_TEST

START_TEST(tiles_are_chosen_as_the_compiler_does)
{
    EchLayout layout = parse(choices[_i].shape);
    ech_layout_choose_tiles(&layout, choices[_i].generation);
    g_autofree char *printed = ech_layout_print(&layout);
    ck_assert_str_eq(printed, choices[_i].tiled);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layout");
    TCase *tests = tcase_create("layout");
    tcase_add_loop_test(tests, padded_sizes_are_exact, 0, G_N_ELEMENTS(sizes));
    tcase_add_test(tests, gpu_arrays_are_dense);
    tcase_add_loop_test(tests, malformed_shapes_are_refused, 0, G_N_ELEMENTS(refused));
    tcase_add_test(tests, types_have_two_names);
    tcase_add_test(tests, scalars_are_printed_bare);
    tcase_add_loop_test(tests, tiles_are_chosen_as_the_compiler_does, 0, G_N_ELEMENTS(choices));
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
