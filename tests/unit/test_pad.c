/* The passes pad and unplan: what they change, what they leave as it is, and that they say which. */
#include "tests/support/made.h"

#include <check.h>

static const EchBytes KIB = 1024;

/* Buffers of 1000 bytes, of 1024 and of 3000 with a place; the first has a view of its last 500 bytes. */
static EchTrace *made(void)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId odd = ech_test_buffer(b, "odd", 1000, ECH_ROLE_TEMPORARY, false), whole = ech_test_buffer(b, "whole", KIB, ECH_ROLE_TEMPORARY, false),
          placed = ech_test_buffer(b, "placed", 3000, ECH_ROLE_PARAMETER, true), fits = ech_test_buffer(b, "fits", 2 * KIB, ECH_ROLE_PARAMETER, true);
    EchId view = ech_test_buffer(b, "view", 500, ECH_ROLE_TEMPORARY, false);
    ech_trace_builder_peek_buffer(b, view)->alias_of = odd;
    ech_trace_builder_peek_buffer(b, view)->alias_offset = 500;
    ech_trace_builder_peek_buffer(b, placed)->offset = 0;
    ech_trace_builder_peek_buffer(b, fits)->offset = 4096;
    for (EchId buffer = odd; buffer <= whole; buffer++) {
        (void)ech_test_put(b, ECH_OP_ALLOC, buffer);
        ech_test_kernel(b, 0, buffer, ECH_WRITE, buffer == odd ? 1000 : KIB);
    }
    ech_test_kernel(b, 0, view, ECH_READ, 500);
    return ech_test_finish(b);
}

static EchDevice *device(void)
{
    return ech_test_device_yaml("name: t\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                                "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n");
}

START_TEST(pads_what_has_no_place)
{
    g_autoptr(EchTrace) in = made();
    g_autoptr(EchDevice) on = device();
    g_autoptr(EchDiag) diag = ech_diag_new(), none = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, on, diag, (const char *const[]){"pad:align=512", NULL});
    ck_assert_uint_eq(ech_test_find_buffer(out, "odd")->bytes, KIB);
    ck_assert_uint_eq(ech_test_find_buffer(out, "whole")->bytes, KIB);
    ck_assert_uint_eq(ech_test_find_buffer(out, "placed")->bytes, 3000);
    ck_assert_uint_eq(ech_test_find_buffer(out, "view")->bytes, 500);
    ck_assert_uint_eq(ech_trace_ops(out)[1].n_uses, 1);
    ck_assert_uint_eq(ech_trace_uses(out)[ech_trace_ops(out)[1].first_use].bytes, KIB);
    ck_assert_uint_eq(ech_trace_uses(out)[ech_trace_ops(out)[3].first_use].bytes, KIB);
    ck_assert(ech_test_says(diag, "pad: left 1 buffer as compiled"));
    ck_assert(ech_test_says(diag, "pad: enlarged 1 buffer by 24 B in all"));
    /* All of that size lie well already. */
    g_autoptr(EchTrace) same = ech_test_pass(out, on, none, (const char *const[]){"pad:align=512,above=3001", NULL});
    ck_assert_ptr_eq(same, out);
    ck_assert_ptr_null(ech_diag_remarks(none)[0]);
}
END_TEST

START_TEST(forgets_places)
{
    g_autoptr(EchTrace) in = made();
    g_autoptr(EchDevice) on = device();
    g_autoptr(EchDiag) diag = ech_diag_new(), none = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, on, diag, (const char *const[]){"unplan", NULL});
    for (size_t i = 0; i < ech_trace_n_buffers(out); i++)
        ck_assert_uint_eq(ech_trace_buffers(out)[i].offset, ECH_OFFSET_NONE);
    ck_assert(ech_test_says(diag, "unplan: forgot the places of 2 buffers in 'hbm', 2 of them there from the start"));
    g_autoptr(EchTrace) same = ech_test_pass(out, on, none, (const char *const[]){"unplan", NULL});
    ck_assert_ptr_eq(same, out);
    ck_assert(ech_test_says(none, "unplan: nothing in 'hbm' has a fixed place"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pad");
    TCase *tests = tcase_create("pad");
    tcase_add_test(tests, pads_what_has_no_place);
    tcase_add_test(tests, forgets_places);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
