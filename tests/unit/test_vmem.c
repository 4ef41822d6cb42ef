/* The address line of the fast memory: places found among what is added and taken away, against all places tried one by one. */
#include "models/place/vmem.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>

enum { STEPS = 200, ROOM = 1 << 16, ALIGNMENT = 64, MOST = 1500 };

static bool is_free(const EchVmemChunk *chunks, unsigned n, int64_t start, int64_t end, int64_t offset, int64_t bytes)
{
    for (unsigned k = 0; k < n; k++) {
        const EchVmemChunk *c = &chunks[k];
        if (c->start <= end && c->end >= start && c->offset < offset + bytes && offset < c->offset + c->bytes)
            return false;
    }
    return true;
}

/* Of the gaps that fit the smallest, then the lowest. */
static int64_t best_fit(const EchVmemChunk *chunks, unsigned n, int64_t start, int64_t end, int64_t bytes)
{
    int64_t best = -1, best_gap = INT64_MAX, top = 0;
    for (unsigned k = 0; k < n; k++)
        top = MAX(top, chunks[k].offset + chunks[k].bytes);
    for (int64_t at = 0; at <= top; at++) {
        bool begins = is_free(chunks, n, start, end, at, 1) && (at == 0 || !is_free(chunks, n, start, end, at - 1, 1));
        if (!begins)
            continue;
        int64_t from = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, until = at;
        while (until <= top && is_free(chunks, n, start, end, until, 1))
            until++;
        int64_t gap = until > top ? INT64_MAX - 1 : until - from;
        if (gap >= bytes && gap < best_gap) {
            best = from;
            best_gap = gap;
        }
    }
    return best;
}

START_TEST(places_are_those_of_one_by_one)
{
    uint64_t seed = ech_test_seed_of(_i);
    g_autoptr(EchVmem) vmem = ech_vmem_new(STEPS, ALIGNMENT);
    g_autofree EchVmemChunk *chunks = g_new(EchVmemChunk, MOST);
    unsigned n = 0, most = _i % 2 == 0 ? MOST : 40;
    for (unsigned k = 0; k < 4 * most; k++) {
        if (n == most || (n > 0 && ech_test_draw(&seed) % 3 == 0)) {
            unsigned one = (unsigned)(ech_test_draw(&seed) % n);
            ck_assert(ech_vmem_remove(vmem, chunks[one]));
            chunks[one] = chunks[--n];
        }
        int64_t start = (int64_t)(ech_test_draw(&seed) % STEPS), end = MIN(start + (int64_t)(ech_test_draw(&seed) % STEPS), STEPS - 1);
        EchVmemChunk chunk = {start, end, (int64_t)(ech_test_draw(&seed) % (ROOM / 32) * 32), 1 + (int64_t)(ech_test_draw(&seed) % 300)};
        if (is_free(chunks, n, start, end, chunk.offset, chunk.bytes)) {
            ech_vmem_add(vmem, chunk);
            chunks[n++] = chunk;
        }
        if (k % 64 != 0)
            continue;
        int64_t within = (int64_t)(ech_test_draw(&seed) % 200), lowest = 0;
        while (!is_free(chunks, n, start, end, lowest + within, chunk.bytes))
            lowest += ALIGNMENT;
        ck_assert_int_eq(ech_vmem_find_lowest(vmem, start, end, within, chunk.bytes, 0), lowest);
        if (most <= 40)
            ck_assert_int_eq(ech_vmem_find(vmem, start, end, chunk.bytes, -1), best_fit(chunks, n, start, end, chunk.bytes));
    }
    ech_vmem_clear(vmem);
    ck_assert_int_eq(ech_vmem_find_lowest(vmem, 0, STEPS - 1, 0, 100, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vmem");
    TCase *tests = tcase_create("vmem");
    tcase_add_loop_test(tests, places_are_those_of_one_by_one, 0, 12);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
