/* What comes after what in a GPU's streams, where a recording does not say it. */
#include "sim/import/stream_waits.h"
#include "tests/support/support.h"

/* Work "name" asked for, begun and lasting so long (us) on a queue, in capitals a copy to the other device; without a name a call that lets a stream wait, or
 * the thread itself (queue -1). */
typedef struct {
    char name;
    int asked, start, duration, queue;
    int thread; /* 0: not told */
} Row;

static const struct {
    EchWaitsTold told;
    const char *waits; /* "ba": b comes after a */
    Row rows[6];
} cases[] = {
    /* The host asked for b after a had ended. */
    {ECH_WAITS_TOLD, "ba", {{'a', 0, 5, 10, 0, 0}, {'b', 20, 30, 10, 1, 0}}},
    /* It asked before: it need not come after it. */
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 10, 0, 0}, {'b', 10, 30, 10, 1, 0}}},
    /* Told once: c of the same stream comes after b anyway. */
    {ECH_WAITS_TOLD, "ba", {{'a', 0, 5, 10, 0, 0}, {'b', 20, 30, 10, 1, 0}, {'c', 50, 60, 10, 1, 0}}},
    /* The newest of each stream that had ended. */
    {ECH_WAITS_TOLD, "cb ca", {{'a', 0, 5, 10, 0, 0}, {'b', 1, 5, 12, 1, 0}, {'c', 40, 41, 10, 2, 0}}},
    /* Of another device, of another process. */
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 10, 0, 0}, {'b', 20, 30, 10, 3, 0}, {'c', 50, 60, 10, 4, 0}}},
    /* What is no stream is left alone. */
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 10, 0, 0}, {'b', 20, 30, 10, 5, 0}}},
    /* Asked for early, begun when a had ended: where nothing is known of waits, it waited; with all waits told it did not. */
    {ECH_WAITS_UNKNOWN, "ba", {{'a', 0, 5, 50, 0, 0}, {'b', 1, 57, 10, 1, 0}}},
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 50, 0, 0}, {'b', 1, 57, 10, 1, 0}}},
    {ECH_WAITS_CALLS, "", {{'a', 0, 5, 50, 0, 0}, {'b', 1, 57, 10, 1, 0}}},
    /* Begun much later: for a reason of its own. */
    {ECH_WAITS_UNKNOWN, "", {{'a', 0, 5, 50, 0, 0}, {'b', 1, 95, 10, 1, 0}}},
    /* A call for stream 1: what is next there waits, what is next in stream 2 does not. */
    {ECH_WAITS_CALLS, "ba", {{'a', 0, 5, 50, 0, 0}, {0, 1, 0, 0, 1, 0}, {'c', 2, 10, 10, 2, 0}, {'b', 3, 57, 10, 1, 0}}},
    /* Another device's: the same thread asked for it when the other had ended, after it stood still for that, after another did, until long after. */
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 10, 0, 1}, {'b', 20, 30, 10, 3, 1}}},
    {ECH_WAITS_TOLD, "ba", {{'a', 0, 5, 10, 0, 1}, {0, 2, 0, 15, -1, 1}, {'b', 20, 30, 10, 3, 1}}},
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 10, 0, 1}, {0, 2, 0, 15, -1, 2}, {'b', 20, 30, 10, 3, 1}}},
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 10, 0, 1}, {0, 2, 0, 95, -1, 1}, {'b', 99, 99, 10, 3, 1}}},
    /* A wait for an event that is not told of is one of another device: not a's of the same one. */
    {ECH_WAITS_TOLD, "ba", {{'a', 0, 5, 50, 0, 0}, {0, 1, 0, 0, 3, 0}, {'b', 3, 57, 10, 3, 0}}},
    {ECH_WAITS_TOLD, "", {{'a', 0, 5, 50, 0, 0}, {0, 1, 0, 0, 1, 0}, {'b', 3, 57, 10, 1, 0}}},
    {ECH_WAITS_CALLS, "bA", {{'A', 0, 5, 50, 0, 0}, {0, 1, 0, 0, 3, 0}, {'b', 3, 57, 10, 3, 0}}},
    {ECH_WAITS_CALLS, "", {{'a', 0, 5, 50, 0, 0}, {0, 1, 0, 0, 3, 0}, {'b', 3, 57, 10, 3, 0}}},
    /* A copy to the device is waited for, and waits for what that device does; kernels are not. */
    {ECH_WAITS_UNKNOWN, "bA", {{'A', 0, 5, 50, 0, 0}, {'b', 1, 57, 10, 3, 0}}},
    {ECH_WAITS_UNKNOWN, "Ab", {{'b', 0, 5, 50, 3, 0}, {'A', 1, 57, 10, 0, 0}}},
    {ECH_WAITS_UNKNOWN, "", {{'a', 0, 5, 50, 0, 0}, {'b', 1, 57, 10, 3, 0}}},
    /* When it was asked for is not told: a copy that had ended when it began, and of what was there before that. */
    {ECH_WAITS_CALLS, "bA", {{'A', 0, 5, 50, 0, 0}, {'b', 57, 57, 10, 3, 0}}},
    {ECH_WAITS_CALLS, "bA", {{'A', 0, 5, 50, 0, 0}, {'c', 56, 56, 1, 0, 0}, {'b', 57, 57, 10, 3, 0}}},
    {ECH_WAITS_CALLS, "", {{'a', 0, 5, 50, 0, 0}, {'b', 57, 57, 10, 3, 0}}},
    /* It had not ended: so that it was not waited for. */
    {ECH_WAITS_CALLS, "", {{'a', 0, 5, 50, 0, 0}, {0, 1, 0, 0, 1, 0}, {'b', 3, 30, 10, 1, 0}}},
};

START_TEST(order)
{
    static const EchStreamOf queues[] = {{0, 0, true}, {0, 0, true}, {0, 0, true}, {1, 0, true}, {0, 1, true}, {0, 0, false}};
    g_autoptr(GArray) calls = g_array_new(FALSE, FALSE, sizeof(EchWaitCall));
    EchItem items[G_N_ELEMENTS(cases[0].rows)];
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(items); i++) {
        const Row *row = &cases[_i].rows[i];
        if (row->name) {
            items[n] = ech_item_init(g_ascii_isupper(row->name) ? ECH_ITEM_COPY : ECH_ITEM_KERNEL);
            items[n].other = g_ascii_isupper(row->name) ? 1 - queues[row->queue].device : ECH_NONE;
            items[n].thread = row->thread ? (uint32_t)row->thread : ECH_NONE;
            items[n].name = (EchId)row->name;
            items[n].issued = row->asked * ECH_PS_PER_US;
            items[n].start = row->start * ECH_PS_PER_US;
            items[n].duration = row->duration * ECH_PS_PER_US;
            items[n++].queue = (uint32_t)row->queue;
        } else if (row->asked > 0) {
            g_array_append_val(calls, ((EchWaitCall){row->asked * ECH_PS_PER_US, row->queue < 0 ? (row->asked + row->duration) * ECH_PS_PER_US : ECH_TIME_NONE,
                                                     row->queue < 0 ? (uint32_t)row->thread : 0, (uint32_t)row->queue}));
        }
    }
    uint32_t left_out;
    g_autoptr(GArray) waits = ech_stream_waits(items, n, queues, G_N_ELEMENTS(queues), cases[_i].told, calls, &left_out);
    ck_assert_uint_eq(left_out, 0);
    g_autoptr(GString) found = g_string_new(NULL);
    for (guint i = 0; i < waits->len; i++) {
        const EchStreamWait *wait = &g_array_index(waits, EchStreamWait, i);
        g_string_append_printf(found, "%s%c%c", i ? " " : "", (char)items[wait->item].name, (char)items[wait->awaited].name);
    }
    ck_assert_str_eq(found->str, cases[_i].waits);
}
END_TEST

/* Merged profiles of many ranks have more streams than any device: one that has too many is left out alone. */
START_TEST(many_streams)
{
    enum { RANKS = 40, STREAMS = 8, CROWD = 300 };
    g_autoptr(GArray) calls = g_array_new(FALSE, FALSE, sizeof(EchWaitCall));
    EchStreamOf queues[RANKS * STREAMS + CROWD];
    EchItem items[G_N_ELEMENTS(queues)];
    for (uint32_t q = 0; q < G_N_ELEMENTS(queues); q++) { /* each asks for its work when all before it has ended */
        bool ranked = q < RANKS * STREAMS;
        queues[q] = (EchStreamOf){ranked ? q / STREAMS : RANKS, 0, true};
        items[q] = ech_item_init(ECH_ITEM_KERNEL);
        items[q].queue = q;
        items[q].issued = items[q].start = 10 * q * ECH_PS_PER_US;
        items[q].duration = 5 * ECH_PS_PER_US;
    }
    uint32_t left_out;
    g_autoptr(GArray) waits = ech_stream_waits(items, G_N_ELEMENTS(items), queues, G_N_ELEMENTS(queues), ECH_WAITS_TOLD, calls, &left_out);
    ck_assert_uint_eq(left_out, CROWD);
    ck_assert_uint_eq(waits->len, RANKS * STREAMS * (STREAMS - 1) / 2);
    for (guint i = 0; i < waits->len; i++) {
        const EchStreamWait *wait = &g_array_index(waits, EchStreamWait, i);
        ck_assert_uint_lt(wait->awaited, wait->item);
        ck_assert_uint_eq(wait->item / STREAMS, wait->awaited / STREAMS);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream_waits");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, order, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tcase, many_streams);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
