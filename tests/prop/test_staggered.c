/* Places whose parts begin at different times: legal whatever the order of events, at least as high as what lives at once, the same every time. */
#include "models/place/xheap.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>

typedef struct {
    uint32_t begin, end, place;
} Life;

/* Random arrays, some of which come in slices that lie side by side and then become one, some of which take the place of one that ends. */
static uint32_t make(GRand *rand, uint32_t n, EchXheapEvent *events, EchBytes *sizes, EchBytes *within, Life *lives)
{
    g_autofree uint32_t *when = g_new0(uint32_t, n); /* 0 not begun, 1 there, 2 gone */
    uint32_t n_events = 0, next = 0, n_places = 0;
    while (next < n || n_events < 2 * n) {
        uint32_t some = (uint32_t)g_rand_int_range(rand, 0, (gint32)n);
        bool begin = next < n && (g_rand_int_range(rand, 0, 5) < 3 || when[some] != 1);
        if (begin) {
            bool share = next > 0 && when[next - 1] == 1 && g_rand_int_range(rand, 0, 3) == 0;
            sizes[next] = 1 + (EchBytes)g_rand_int_range(rand, 0, 1000);
            within[next] = share ? within[next - 1] + sizes[next - 1] : 0;
            lives[next] = (Life){.begin = n_events, .place = share ? lives[next - 1].place : n_places++};
            events[n_events++] = (EchXheapEvent){.kind = share ? ECH_XHEAP_SHARE : ECH_XHEAP_ALLOC, .buffer = next, .with = share ? next - 1 : 0};
            when[next++] = 1;
        } else if (when[some] == 1) {
            lives[some].end = n_events;
            events[n_events++] = (EchXheapEvent){.kind = ECH_XHEAP_RELEASE, .buffer = some};
            when[some] = 2;
        }
    }
    return n_events;
}

START_TEST(staggered_places_are_legal)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)ech_test_seed_of(_i));
    enum { N = 60 };
    EchXheapEvent events[2 * N];
    EchBytes sizes[N], within[N];
    Life lives[N];
    uint64_t offsets[N], again[N];
    uint32_t n_events = make(rand, N, events, sizes, within, lives);
    EchBytes alignment = _i % 2 ? 1 : 256;
    EchBytes height = ech_xheap_run_staggered(alignment, events, n_events, sizes, within, N, offsets);
    ck_assert_uint_eq(ech_xheap_run_staggered(alignment, events, n_events, sizes, within, N, again), height);
    EchBytes most = 0;
    for (uint32_t e = 0; e < n_events; e++) {
        EchBytes live = 0;
        for (uint32_t b = 0; b < N; b++)
            live += lives[b].begin <= e && e < lives[b].end ? sizes[b] : 0;
        most = MAX(most, live);
    }
    ck_assert_uint_ge(height, most);
    for (uint32_t x = 0; x < N; x++) {
        ck_assert_uint_eq(offsets[x], again[x]);
        ck_assert_uint_le(offsets[x] + sizes[x], height);
        ck_assert_uint_eq((offsets[x] - within[x]) % alignment, 0);
        for (uint32_t y = 0; y < x; y++) {
            bool meet = lives[x].begin < lives[y].end && lives[y].begin < lives[x].end;
            ck_assert(!meet || offsets[x] >= offsets[y] + sizes[y] || offsets[y] >= offsets[x] + sizes[x]);
            if (lives[x].place == lives[y].place)
                ck_assert_uint_eq(offsets[x] - within[x], offsets[y] - within[y]);
        }
    }
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("staggered");
    TCase *tests = tcase_create("staggered");
    tcase_add_loop_test(tests, staggered_places_are_legal, 0, 40);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
