/* What padding takes of a memory: rows by what they lose, views and other memories left out. */
#include "sim/report/padding.h"
#include "sim/report/report.h"
#include "tests/support/support.h"

#include <check.h>

static EchId add(EchTraceBuilder *b, const char *name, EchId memory, EchBytes bytes, EchBytes dense)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(b, name, -1);
    buffer.memory = memory;
    buffer.bytes = bytes;
    buffer.dense = dense;
    buffer.resident = 1;
    return ech_trace_builder_buffer(b, buffer);
}

START_TEST(most_padding_first)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    add(b, "large, little lost", hbm, 1000000, 999000);
    EchId small = add(b, "small, most lost", hbm, 70000, 20000);
    add(b, "none lost", hbm, 5000, 5000);
    add(b, "shape not known", hbm, 800, 0);
    add(b, "elsewhere", host, 90000, 1);
    add(b, "some lost", hbm, 30000, 10000);
    EchBuffer view = ech_buffer_init();
    view.memory = hbm;
    view.bytes = 70000;
    view.dense = 1;
    view.alias_of = small;
    ech_trace_builder_buffer(b, view);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchPadding) padding = ech_padding_new(trace, "hbm", NULL, 0);
    ck_assert_uint_eq(padding->bytes, 1000000 + 70000 + 5000 + 30000);
    ck_assert_uint_eq(padding->padding, 1000 + 50000 + 20000);
    ck_assert_uint_eq(padding->n_rows, 3);
    static const EchBytes lost[] = {50000, 20000, 1000};
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(padding->rows[i].bytes - padding->rows[i].dense, lost[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("padding");
    TCase *tests = tcase_create("padding");
    tcase_add_test(tests, most_padding_first);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
