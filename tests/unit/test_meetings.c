/* Who met whom in a recording of several devices, by names and times. */
#include "sim/import/meetings.h"
#include "tests/support/support.h"

static const char *const names[] = {"gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_SendRecv(int)",
                                    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
enum { GEMM, REDUCE, SENDRECV, BROADCAST };

typedef struct {
    int name, device, start, end, size; /* us; size: a collective of so many, 0: a kernel; name -1: none */
} Row;

static const struct {
    int met[6]; /* row by row: a number for each meeting; 0: none */
    Row rows[6];
} cases[] = {
    /* One came early and waited. The next of that name is another. */
    {{1, 1, 2, 2}, {{REDUCE, 0, 0, 100, 0}, {REDUCE, 1, 80, 101, 0}, {REDUCE, 0, 200, 300, 0}, {REDUCE, 1, 210, 300, 0}, {-1, 0, 0, 0, 0}}},
    /* What computes meets nobody, nor does who was alone. */
    {{0, 0, 0, 0}, {{GEMM, 0, 0, 100, 0}, {GEMM, 1, 0, 100, 0}, {REDUCE, 0, 0, 100, 0}, {REDUCE, 1, 150, 200, 0}, {-1, 0, 0, 0, 0}}},
    /* On one device nobody meets; under other names neither. */
    {{0, 0, 0}, {{REDUCE, 0, 0, 100, 0}, {REDUCE, 0, 50, 101, 0}, {SENDRECV, 1, 60, 101, 0}, {-1, 0, 0, 0, 0}}},
    /* It ended long before. */
    {{0, 0}, {{REDUCE, 0, 0, 1000, 0}, {REDUCE, 1, 0, 100, 0}, {-1, 0, 0, 0, 0}}},
    /* Two pairs at a time, of collectives that say they are of two: those that are through together. */
    {{1, 2, 1, 2}, {{REDUCE, 0, 0, 100, 2}, {REDUCE, 1, 1, 109, 2}, {REDUCE, 2, 2, 101, 2}, {REDUCE, 3, 3, 108, 2}, {-1, 0, 0, 0, 0}}},
    /* A broadcast's root is through before the other begins, and with the next when the other is with the first: turns tell. */
    {{1, 1, 2, 3, 2, 3},
     {{REDUCE, 0, 0, 100, 0},
      {REDUCE, 1, 80, 101, 0},
      {BROADCAST, 0, 200, 300, 0},
      {BROADCAST, 0, 301, 400, 0},
      {BROADCAST, 1, 305, 401, 0},
      {BROADCAST, 1, 402, 500, 0}}},
    /* ... but not where those that leave together are not those of one turn: one device's first was not recorded, nor the other's last. */
    {{0, 1, 1, 0, 2, 2},
     {{REDUCE, 0, 0, 100, 0},
      {REDUCE, 0, 200, 300, 0},
      {REDUCE, 1, 202, 301, 0},
      {REDUCE, 1, 402, 500, 0},
      {BROADCAST, 0, 600, 700, 0},
      {BROADCAST, 1, 602, 702, 0}}},
    /* ... nor where one device runs one more. */
    {{1, 1, 0, 2, 2},
     {{REDUCE, 0, 0, 100, 0},
      {REDUCE, 1, 80, 101, 0},
      {BROADCAST, 0, 200, 300, 0},
      {BROADCAST, 0, 301, 400, 0},
      {BROADCAST, 1, 305, 401, 0},
      {-1, 0, 0, 0, 0}}},
    /* Of all there are. */
    {{1, 1, 1, 1}, {{SENDRECV, 0, 0, 100, 0}, {SENDRECV, 1, 1, 104, 0}, {SENDRECV, 2, 2, 101, 0}, {SENDRECV, 3, 3, 103, 0}, {-1, 0, 0, 0, 0}}},
};

START_TEST(who_met)
{
    static const uint32_t devices[] = {0, 1, 2, 3};
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    g_autoptr(GArray) items = g_array_new(FALSE, FALSE, sizeof(EchItem));
    uint64_t n = 0;
    for (const Row *row = cases[_i].rows; row < cases[_i].rows + 6 && row->name >= 0; row++) {
        EchItem item = ech_item_init(row->size ? ECH_ITEM_COLLECTIVE : ECH_ITEM_KERNEL);
        item.from = row->size ? ECH_COLLECTIVE_ALL_REDUCE : 0;
        item.other = row->size ? (uint32_t)row->size : ECH_NONE;
        item.name = ech_trace_builder_string(builder, names[row->name], -1);
        item.start = row->start * ECH_PS_PER_US;
        item.duration = (row->end - row->start) * ECH_PS_PER_US;
        item.queue = (uint32_t)row->device;
        g_array_append_val(items, item);
        n += cases[_i].met[items->len - 1] > 0;
    }
    ck_assert_uint_eq(ech_meetings_find(builder, items, devices), n);
    for (guint i = 0; i < items->len; i++) {
        const EchItem *item = &g_array_index(items, EchItem, i);
        bool met = cases[_i].met[i] > 0;
        ck_assert_msg((item->meets != ECH_NONE) == met, "row %u", i);
        ck_assert_int_eq(item->kind, met || cases[_i].rows[i].size ? ECH_ITEM_COLLECTIVE : ECH_ITEM_KERNEL);
        for (guint k = 0; k < i && met; k++)
            ck_assert_msg((item->meets == g_array_index(items, EchItem, k).meets) == (cases[_i].met[i] == cases[_i].met[k]), "rows %u, %u", k, i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("meetings");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, who_met, 0, G_N_ELEMENTS(cases));
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
