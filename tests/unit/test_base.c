/* Units, parameters, diagnostics. */
#include "sim/base/diag.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/base/heap.h"
#include "sim/base/param.h"
#include "sim/base/range_max.h"
#include "sim/base/stretches.h"
#include "sim/base/units.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* Whatever their order: what touches is one; what lies before a time counts once. */
START_TEST(stretches_join)
{
    g_autoptr(GArray) stretches = g_array_new(FALSE, FALSE, sizeof(EchStretch));
    const EchStretch given[] = {{50, 60, 0}, {10, 20, 0}, {15, 18, 0}, {20, 30, 0}, {55, 70, 0}};
    g_array_append_vals(stretches, given, G_N_ELEMENTS(given));
    ech_stretches_merge(stretches);
    ck_assert_uint_eq(stretches->len, 2);
    const EchTime times[][2] = {{5, 0}, {10, 0}, {12, 2}, {30, 20}, {40, 20}, {50, 20}, {52, 22}, {70, 40}, {1000, 40}};
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++)
        ck_assert_int_eq(ech_stretches_before(stretches, times[i][0]), times[i][1]);
    g_array_set_size(stretches, 0);
    ech_stretches_merge(stretches);
    ck_assert_int_eq(ech_stretches_before(stretches, 5), 0);
}
END_TEST

START_TEST(time_for_rounds_up_and_saturates)
{
    ck_assert_int_eq(ech_time_for(0, 0), 0);
    ck_assert_int_eq(ech_time_for(1, 0), ECH_TIME_MAX);
    ck_assert_int_eq(ech_time_for(1, 3), 333333333334);
    ck_assert_int_eq(ech_time_for(UINT64_MAX, 1), ECH_TIME_MAX);
    ck_assert_int_eq(ech_time_for(UINT64_C(1) << 40, UINT64_C(1) << 40), ECH_PS_PER_S);
}
END_TEST

START_TEST(times_round_to_the_nearest)
{
    ck_assert_int_eq(ech_time_round(-3), 0);
    ck_assert_int_eq(ech_time_round(1.49), 1);
    ck_assert_int_eq(ech_time_round(1.5), 2);
    ck_assert_int_eq(ech_time_round(8.9e18), INT64_C(8900000000000000000));
    ck_assert_int_eq(ech_time_round(9e18), ECH_TIME_MAX);
    ck_assert_uint_eq(ech_div_up(0, 3), 0);
    ck_assert_uint_eq(ech_div_up(6, 3), 2);
    ck_assert_uint_eq(ech_div_up(UINT64_MAX, 2), UINT64_C(1) << 63);
}
END_TEST

typedef struct {
    uint32_t key, serial;
} Row;

static gint compare_rows(gconstpointer a, gconstpointer b, gpointer data)
{
    (*(unsigned *)data)++;
    uint32_t x = ((const Row *)a)->key, y = ((const Row *)b)->key;
    return (x > y) - (x < y);
}

START_TEST(heaps_give_the_first)
{
    enum { N = 500 };
    g_autoptr(GArray) heap = g_array_new(FALSE, FALSE, sizeof(Row));
    unsigned asked = 0;
    uint32_t state = 1;
    bool given[N] = {false};
    for (uint32_t i = 0; i < N; i++) {
        state = state * 1664525 + 1013904223;
        ech_heap_push(heap, &(Row){(state >> 16) % 100, i}, compare_rows, &asked);
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < N; i++) {
        Row row;
        ech_heap_pop(heap, &row, compare_rows, &asked);
        ck_assert_uint_ge(row.key, last);
        ck_assert(!given[row.serial]);
        given[row.serial] = true;
        last = row.key;
    }
    ck_assert_uint_eq(heap->len, 0);
    ck_assert_uint_lt(asked, 40 * N); /* a few a level, of which there are nine */
}
END_TEST

static const struct {
    const char *text;
    bool ok;
    uint64_t value;
} byte_cases[] = {
    {"16GiB", true, UINT64_C(16) << 30},
    {"15.75GiB", true, UINT64_C(63) << 28},
    {"16GB", true, UINT64_C(16000000000)},
    {"512", true, 512},
    {"1.5 kB", true, 1500},
    {"18446744073709551615", true, UINT64_MAX},
    {"18446744073709551616", false, 0},
    {"17179869184GiB", false, 0},
    {"", false, 0},
    {"fast", false, 0},
    {"-1", false, 0},
    {"1.GiB", false, 0},
    {"1GiB ", false, 0},
    {"1 GiBs", false, 0},
};

START_TEST(bytes_are_strict)
{
    EchBytes value = 42;
    GError *error = NULL;
    bool ok = ech_parse_bytes(byte_cases[_i].text, &value, &error);
    ck_assert_int_eq(ok, byte_cases[_i].ok);
    ck_assert_uint_eq(value, ok ? byte_cases[_i].value : 42);
    ck_assert(ok == (error == NULL));
    g_clear_error(&error);
}
END_TEST

typedef struct {
    uint64_t limit, growth, mode;
    EchTime wait, pause;
    double fraction;
    char *path;
} Options;

static const char *const modes[] = {"spatial", "temporal", NULL};
static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(Options, limit), "60GiB", "1", NULL, NULL, "bytes"},
    {"growth", ECH_PARAM_BOOL, offsetof(Options, growth), "false", NULL, NULL, NULL, "flag"},
    {"mode", ECH_PARAM_ENUM, offsetof(Options, mode), "spatial", NULL, NULL, modes, "mode"},
    {"wait", ECH_PARAM_TIME, offsetof(Options, wait), "0s", NULL, NULL, NULL, "time"},
    {"pause", ECH_PARAM_TIME, offsetof(Options, pause), "0s", NULL, NULL, NULL, "time"},
    {"fraction", ECH_PARAM_RATIO, offsetof(Options, fraction), "0.5", "0", "1", NULL, "ratio"},
    {"path", ECH_PARAM_STRING, offsetof(Options, path), NULL, NULL, NULL, NULL, "path"},
    {0},
};

static const struct {
    const char *text, *message; /* message: NULL where it is a rate */
    uint64_t value;
} rate_cases[] = {
    {"819GB/s", NULL, UINT64_C(819000000000)},
    {"819GBps", NULL, UINT64_C(819000000000)},
    {"800Gbps", NULL, UINT64_C(100000000000)},
    {"100GbE", NULL, UINT64_C(12500000000)},
    {"0.1 Gb/s", NULL, UINT64_C(12500000)},
    {"1.6Tbit/s", NULL, UINT64_C(200000000000)},
    {"147573952589Gb/s", NULL, UINT64_C(18446744073625000000)},
    {"0", NULL, 0},
    {"2000000", NULL, 2000000},
    {"5", "'5' has no unit; expected something like 819GB/s", 0},
    {"128gb/s", "'128gb/s' is not a rate; did you mean '128GB/s' or '128Gb/s'?", 0},
    {"1kb/s", "'1kb/s' is not a rate; did you mean '1KB/s'?", 0},
    {"18446744074GB/s", "'18446744074GB/s' is too large for a rate; expected something like 819GB/s or 400Gbit/s", 0},
    {"900G", "'900G' is not a rate; expected something like 819GB/s or 400Gbit/s", 0},
};

/* Bits a second are an eighth in bytes, exactly. */
START_TEST(rates_are_bytes_or_bits)
{
    EchRate value = 42;
    g_autoptr(GError) error = NULL;
    bool ok = ech_parse_rate(rate_cases[_i].text, &value, &error);
    ck_assert_int_eq(ok, rate_cases[_i].message == NULL);
    ck_assert_uint_eq(value, ok ? rate_cases[_i].value : 42);
    if (!ok)
        ck_assert_str_eq(error->message, rate_cases[_i].message);
}
END_TEST

START_TEST(times_have_units)
{
    EchTime value = 42;
    GError *error = NULL;
    ck_assert(!ech_parse_time("50", &value, &error));
    ck_assert_str_eq(error->message, "'50' has no unit; expected 50ps, 50ns, 50us, 50ms or 50s");
    g_clear_error(&error);
    ck_assert(!ech_parse_time("0.5", &value, NULL));
    ck_assert_int_eq(value, 42);
    ck_assert(ech_parse_time("0", &value, NULL));
    ck_assert_int_eq(value, 0);
    ck_assert(ech_parse_time("50us", &value, NULL));
    ck_assert_int_eq(value, 50000000);
    uint64_t ops;
    ck_assert(!ech_parse_ops("1500", &ops, NULL));
    ck_assert(ech_parse_ops("989TFLOPS", &ops, NULL));
    ck_assert_uint_eq(ops, UINT64_C(989000000000000));
}
END_TEST

START_TEST(params_parse_print_and_refuse)
{
    Options options = {0};
    g_autoptr(GError) error = NULL;
    ech_params_defaults(params, &options);
    ck_assert_uint_eq(options.limit, UINT64_C(60) << 30);
    ck_assert(ech_params_parse(params, &options, "growth=true,mode=temporal,path=[a,b],wait=6000ms,pause=1.5ns,fraction=0.25", &error));
    ck_assert_uint_eq(options.growth, 1);
    ck_assert_str_eq(options.path, "[a,b]");
    g_autofree char *text = ech_params_print(params, &options);
    ck_assert_str_eq(text, "growth=true,mode=temporal,wait=6s,pause=1500ps,fraction=0.25,path=[a,b]");
    ck_assert(!ech_params_parse(params, &options, "limt=1", &error));
    ck_assert_str_eq(error->message, "'limt' is no parameter here; did you mean 'limit'?");
    g_clear_error(&error);
    ck_assert(!ech_params_parse(params, &options, "fraction=1.5", &error));
    ck_assert_str_eq(error->message, "fraction: '1.5' is out of range; expected 0 to 1");
    /* A bracket that nothing closes is a letter: "m[*" means any of m's. */
    ck_assert(ech_params_parse(params, &options, "path=m[*,fraction=0.75", NULL));
    ck_assert_str_eq(options.path, "m[*");
    ck_assert_double_eq(options.fraction, 0.75);
    ech_params_clear(params, &options);
}
END_TEST

/* Against plain loops: additions over ranges of any size, the peak and where it comes first, the last place above a limit. */
START_TEST(range_max_as_loops)
{
    enum { MOST = 40, STEPS = 200 };
    uint64_t state = ech_test_seed_of(0);
    ech_test_print_seed();
    for (size_t n = 1; n <= MOST; n++) {
        int64_t values[MOST], read[MOST];
        for (size_t i = 0; i < n; i++)
            values[i] = (int64_t)(ech_test_draw(&state) % (50));
        g_autoptr(EchRangeMax) tree = ech_range_max_new(values, n);
        for (int step = 0; step < STEPS; step++) {
            size_t first = (ech_test_draw(&state) % (n + 1)), end = (ech_test_draw(&state) % (n + 1)), at, peak = 0, last = SIZE_MAX;
            int64_t more = (int64_t)(ech_test_draw(&state) % (21)) - 10, limit = (int64_t)(ech_test_draw(&state) % (60)) - 10;
            ech_range_max_add(tree, first, end, more);
            for (size_t i = first; i < end; i++)
                values[i] += more;
            for (size_t i = 1; i < n; i++)
                peak = values[i] > values[peak] ? i : peak;
            ck_assert_int_eq(ech_range_max_peak(tree, &at), values[peak]);
            ck_assert_uint_eq(at, peak);
            end = (ech_test_draw(&state) % (n + 1));
            for (size_t i = 0; i < end; i++)
                last = values[i] > limit ? i : last;
            ck_assert_uint_eq(ech_range_max_last_above(tree, end, limit), last);
        }
        ech_range_max_values(tree, read);
        ck_assert_mem_eq(read, values, n * sizeof *read);
    }
    const int64_t large = INT64_MAX - 1;
    g_autoptr(EchRangeMax) full = ech_range_max_new(&large, 1);
    for (int k = 0; k < 3; k++)
        ech_range_max_add(full, 0, 1, INT64_MAX / 2);
    ck_assert_int_eq(ech_range_max_peak(full, NULL), INT64_MAX);
}
END_TEST

START_TEST(diag_counts_in_order)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    ech_diag_note(diag, "inferred_sizes", 3);
    g_autoptr(GError) error = NULL;
    ck_assert(ech_diag_check_strict(diag, &error));
    ech_diag_dropped(diag, "bad_rows", 1, "line %d", 7);
    ech_diag_dropped(diag, "bad_rows", 2, "line %d", 9);
    ck_assert_uint_eq(ech_diag_count(diag, "bad_rows"), 3);
    ck_assert(!ech_diag_check_strict(diag, &error));
    ck_assert_str_eq(error->message, "line 7: 3 bad_rows; expected none with --strict");
    ech_diag_remark(diag, "hello %d", 1);
    ck_assert_str_eq(ech_diag_remarks(diag)[0], "hello 1");
    ck_assert_ptr_null(ech_diag_remarks(diag)[1]);
}
END_TEST

/* What is rounded to a thousand, or to 1024, is told in the next unit. */
START_TEST(test_format_carries)
{
    static const struct {
        EchTime time;
        const char *text;
    } times[] = {{0, "0 ps"}, {999, "999 ps"}, {999499, "999 ns"}, {999500, "1.00 us"}, {999999999, "1.00 ms"}, {1000000000, "1 ms"}};
    static const struct {
        EchBytes bytes;
        const char *text;
    } sizes[] = {{0, "0 B"}, {1023, "1023 B"}, {1024, "1 KiB"}, {1048063, "1023 KiB"}, {1048064, "1.00 MiB"}, {1048576, "1 MiB"}};
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
        g_autofree char *time = ech_format_time(times[i].time), *size = ech_format_bytes(sizes[i].bytes);
        ck_assert_str_eq(time, times[i].text);
        ck_assert_str_eq(size, sizes[i].text);
    }
    g_autofree char *rate = ech_format_rate(UINT64_C(999700000000)), *count = ech_format_count(999.6, "OP");
    ck_assert_str_eq(rate, "1.00 TB/s");
    ck_assert_str_eq(count, "1.00 kOP");
}
END_TEST

START_TEST(numbers_print_shortly)
{
    g_autofree char *bytes = ech_format_bytes(UINT64_C(63) << 28);
    g_autofree char *time = ech_format_time(784120000000);
    g_autofree char *rate = ech_format_rate(819000000000);
    ck_assert_str_eq(bytes, "15.8 GiB");
    ck_assert_str_eq(time, "784 ms");
    ck_assert_str_eq(rate, "819 GB/s");
    /* Beyond the largest unit, in that. */
    g_autofree char *most = ech_format_bytes(UINT64_MAX), *longest = ech_format_time(ECH_TIME_MAX), *many = ech_format_count(5e21, "OP"),
                    *never = ech_format_time(ECH_TIME_NONE), *less = ech_format_time(-784120000000);
    ck_assert_str_eq(most, "16 EiB");
    ck_assert_str_eq(longest, "9223372 s");
    ck_assert_str_eq(many, "5000 EOP");
    ck_assert_str_eq(never, "-");
    ck_assert_str_eq(less, "-784 ms");
}
END_TEST

START_TEST(quotes_end_between_characters)
{
    static const struct {
        const char *text, *quoted;
        gssize n;
        gsize most;
    } cases[] = {{"hbm", "hbm", -1, 9},
                 {"abc\xc3\xa9", "abc", -1, 4},
                 {"abc\xc3\xa9x", "abc\xc3\xa9", 6, 5},
                 {"\xe2\x82\xac", "", -1, 2},
                 {"a\xff", "a\xef\xbf\xbd", 2, 2},
                 {"\xf0\x9f\x98\x80!", "", -1, 3},
                 {"", "", -1, 5},
                 {"abcdef", "abc", 3, 40}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *quoted = ech_quote(cases[i].text, cases[i].n, cases[i].most);
        ck_assert_str_eq(quoted, cases[i].quoted);
    }
}
END_TEST

START_TEST(plain_text_tells_terminals_nothing)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {{"kernel\t1\n", "kernel\t1\n"},
                 {"\x1b[2J\x1b]0;x\x07y\r\x7f", "?[2J?]0;x?y??"},
                 {"\xc2\x9b"
                  "31m \xc3\xa9",
                  "?31m \xc3\xa9"},
                 {"\xff\x1b", "\xef\xbf\xbd?"},
                 {"", ""}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *plain = ech_plain(cases[i].text);
        ck_assert_str_eq(plain, cases[i].plain);
    }
}
END_TEST

/* GLib's own hashes of these are all alike, before 2.84 also those of the numbers. */
START_TEST(hashes_of_numbers_made_to_meet)
{
    enum { N = 4096 };
    g_autoptr(GHashTable) numbers = g_hash_table_new(NULL, NULL), keys = g_hash_table_new(NULL, NULL), texts = g_hash_table_new(NULL, NULL);
    for (uint64_t k = 1; k <= N; k++) {
        int64_t number = (int64_t)(k << 32);
        char text[13] = "";
        for (unsigned bit = 0; bit < 12; bit += 2) /* "Ez" and "FY" */
            memcpy(text + bit, k >> bit / 2 & 1 ? "FY" : "Ez", 2);
        ck_assert(glib_check_version(2, 84, 0) == NULL || g_int64_hash(&number) == 0);
        ck_assert_uint_eq(g_str_hash(text), g_str_hash("EzEzEzEzEzEz"));
        g_hash_table_add(numbers, GUINT_TO_POINTER(ech_hash_int64(&number)));
        g_hash_table_add(keys, GUINT_TO_POINTER(ech_hash_key(GSIZE_TO_POINTER(k << 32))));
        g_hash_table_add(texts, GUINT_TO_POINTER(ech_hash_text(text)));
    }
    ck_assert_uint_gt(g_hash_table_size(numbers), N - 8);
    ck_assert_uint_gt(g_hash_table_size(keys), N - 8);
    ck_assert_uint_eq(g_hash_table_size(texts), 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = tcase_create("base");
    tcase_add_test(tests, stretches_join);
    tcase_add_test(tests, time_for_rounds_up_and_saturates);
    tcase_add_test(tests, times_round_to_the_nearest);
    tcase_add_test(tests, heaps_give_the_first);
    tcase_add_test(tests, test_format_carries);
    tcase_add_loop_test(tests, bytes_are_strict, 0, G_N_ELEMENTS(byte_cases));
    tcase_add_loop_test(tests, rates_are_bytes_or_bits, 0, G_N_ELEMENTS(rate_cases));
    tcase_add_test(tests, times_have_units);
    tcase_add_test(tests, params_parse_print_and_refuse);
    tcase_add_test(tests, range_max_as_loops);
    tcase_add_test(tests, diag_counts_in_order);
    tcase_add_test(tests, numbers_print_shortly);
    tcase_add_test(tests, quotes_end_between_characters);
    tcase_add_test(tests, plain_text_tells_terminals_nothing);
    tcase_add_test(tests, hashes_of_numbers_made_to_meet);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
