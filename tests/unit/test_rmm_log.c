/* RMM's log as a trace of allocations: hand-made logs of both kinds of header and of time, what is missing in them, damage. */
#include "sim/import/import.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

START_TEST(events_in_their_order)
{
    g_autoptr(EchImport) import = ech_test_corpus("rmm_log/pool.csv", NULL);
    const EchTrace *trace = import->trace;
    ck_assert_str_eq(import->format, "rmm_log");
    ck_assert_uint_eq(ech_test_count(trace, ECH_OP_ALLOC), 3);
    ck_assert_uint_eq(ech_test_count(trace, ECH_OP_FREE), 2);
    static const struct {
        const char *name, *stream;
        EchBytes bytes;
        uint64_t address;
    } held[] = {
        {"line 2", "stream 0", 1 << 20, 0x7f2000000000}, {"line 3", "stream 0x2", 3 << 20, 0x7f2000100000}, {"line 5", "stream 0x2", 1 << 19, 0x7f2000000000}};
    for (size_t i = 0; i < G_N_ELEMENTS(held); i++) {
        const EchBuffer *buffer = ech_test_find_buffer(trace, held[i].name);
        ck_assert_uint_eq(buffer->bytes, held[i].bytes);
        ck_assert_uint_eq(buffer->address, held[i].address);
        ck_assert_str_eq(ech_trace_string(trace, ech_trace_queues(trace)[buffer->queue].name), held[i].stream);
    }
    ck_assert(ech_test_says(import->diag, "requests were refused (1), the largest of 1 GiB beside 3.50 MiB in use"));
}
END_TEST

/* Without its first line, with CRLF, times of other kinds, "deallocate", and a last line that is cut off. */
START_TEST(logs_of_others)
{
    g_autoptr(EchImport) import = ech_test_corpus("rmm_log/spark.csv", NULL);
    ck_assert_str_eq(import->format, "rmm_log");
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_ALLOC), 3);
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_FREE), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "frees_of_unknown_addresses"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "frees_not_logged"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "lines_cut_off"), 1);
}
END_TEST

static const char *const damaged[] = {
    "1,2,allocate,xyz,1,0\n", "1,2,allocate,0x10,-1,0\n", "1,2,alloc,0x10,1,0\n", "1,2,allocate,0x10,1\n", "1,2,allocate,0x10,99999999999999999999,0\n",
    "1,2,free,0x10,1,0,0\n",  "1,2,free,0x10,1,\n"};

START_TEST(errors_have_places)
{
    g_autofree char *text = g_strconcat(HEADER "1,2,allocate,0x10,256,0\n", damaged[_i], NULL);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "rmm.csv");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_ptr_null(import);
    ck_assert_msg(g_str_has_prefix(error->message, "rmm.csv:3: '1,2,") && strstr(error->message, "expected Thread,Time,Action"), "%s", error->message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rmm_log");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, events_in_their_order);
    tcase_add_test(tests, logs_of_others);
    tcase_add_loop_test(tests, errors_have_places, 0, G_N_ELEMENTS(damaged));
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
