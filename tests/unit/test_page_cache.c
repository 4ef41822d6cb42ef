/* How much memory a page cache needs to still have what is read of files, against a count page by page. */
#include "sim/import/page_cache.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>

static EchPageCache *cache;

/* "100+20": 100 bytes of all files since, 20 never used. */
static const char *take(uint64_t file, uint64_t from, EchBytes bytes)
{
    static char text[64];
    EchBytes fresh, since = ech_page_cache_take(cache, file, from, bytes, &fresh);
    g_snprintf(text, sizeof text, "%" G_GUINT64_FORMAT "+%" G_GUINT64_FORMAT, since, fresh);
    return text;
}

static void setup(void)
{
    cache = ech_page_cache_new();
}

static void teardown(void)
{
    ech_page_cache_free(cache);
}

START_TEST(distances)
{
    ck_assert_str_eq(take(1, 0, 100), "0+100");
    ck_assert_str_eq(take(1, 0, 100), "100+0");
    ck_assert_str_eq(take(2, 0, 50), "0+50");
    ck_assert_str_eq(take(1, 40, 20), "150+0"); /* the rest of it came in with it */
    ck_assert_str_eq(take(1, 40, 20), "20+0");
    ck_assert_str_eq(take(2, 0, 50), "70+0");
    ck_assert_str_eq(take(1, 30, 40), "150+0"); /* its oldest part counts */
    ck_assert_str_eq(take(1, 90, 20), "150+10");
    ck_assert_str_eq(take(1, 0, 0), "0+0");
    ck_assert_str_eq(take(3, UINT64_MAX - 5, UINT64_MAX), "0+5");
    ck_assert_str_eq(take(3, UINT64_MAX - 5, 5), "5+0");
}
END_TEST

/* Each unit of each file has its last use. */
START_TEST(as_counted_one_by_one)
{
    enum { FILES = 3, UNITS = 40, USES = 400 };
    ech_test_print_seed();
    for (int round = 0; round < 20; round++) {
        uint64_t state = ech_test_seed_of(round);
        teardown();
        setup();
        int last[FILES][UNITS];
        memset(last, -1, sizeof last);
        for (int use = 0; use < USES; use++) {
            const uint64_t file = ech_test_draw(&state) % FILES, from = ech_test_draw(&state) % UNITS, n = 1 + ech_test_draw(&state) % (UNITS - from);
            int oldest = use;
            uint64_t since = 0, fresh = 0;
            for (uint64_t i = from; i < from + n; i++) {
                fresh += last[file][i] < 0;
                oldest = last[file][i] >= 0 ? MIN(oldest, last[file][i]) : oldest;
            }
            for (size_t f = 0; f < FILES; f++)
                for (size_t i = 0; i < UNITS; i++)
                    since += last[f][i] >= oldest;
            g_autofree char *expected = g_strdup_printf("%" G_GUINT64_FORMAT "+%" G_GUINT64_FORMAT, since, fresh);
            ck_assert_str_eq(take(file, from, n), expected);
            for (uint64_t i = from; i < from + n; i++)
                last[file][i] = use;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page_cache");
    TCase *cases = tcase_create("page_cache");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, distances);
    tcase_add_test(cases, as_counted_one_by_one);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
