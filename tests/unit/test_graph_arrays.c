/* Blocks of a graph's pool: asked for while it is captured, used whenever it is launched. */
#include "sim/base/compare.h"
#include "sim/import/graph_arrays.h"
#include "tests/support/made.h"

#include <check.h>

#define US ECH_PS_PER_US

static GArray *items, *uses, *captured;
static EchTraceBuilder *builder;

/* A block of the pool, unless @pool is NULL. */
static EchId block(const char *pool, uint64_t address, EchBytes bytes)
{
    EchId buffer = ech_test_buffer(builder, "block", bytes, ECH_ROLE_UNKNOWN, false);
    EchBuffer *b = ech_trace_builder_peek_buffer(builder, buffer);
    b->address = address;
    b->pool = pool ? ech_trace_builder_string(builder, pool, -1) : ECH_NONE;
    return buffer;
}

/* The allocator's event, as an item; returns its op. */
static EchId event(EchOpKind kind, EchId buffer, EchTime time)
{
    EchItem item = ech_item_init(ECH_ITEM_FOREIGN);
    item.issued = time;
    item.address = ech_test_put(builder, kind, buffer);
    g_array_append_val(items, item);
    return (EchId)item.address;
}

/* A kernel that uses what lies at @address; @node of a graph, not its first where @together. */
static void kernel(EchTime time, guint node, bool together, uint64_t address, EchAddressAccess access)
{
    EchItem item = ech_item_init(ECH_ITEM_KERNEL);
    EchAddressUse use = {address, 0, access};
    item.issued = time;
    item.node = node;
    item.together = together;
    item.first_use = uses->len;
    item.n_uses = 1;
    g_array_append_val(items, item);
    g_array_append_val(uses, use);
}

static void begin(void)
{
    items = g_array_new(FALSE, FALSE, sizeof(EchItem));
    uses = g_array_new(FALSE, FALSE, sizeof(EchAddressUse));
    captured = g_array_new(FALSE, FALSE, sizeof(EchTime));
    builder = ech_test_begin();
}

static void end(void)
{
    g_array_unref(items);
    g_array_unref(uses);
    g_array_unref(captured);
    g_clear_pointer(&builder, ech_trace_builder_free);
}

static EchTime issued(EchId op, EchOpKind kind)
{
    for (guint i = 0; i < items->len; i++) {
        const EchItem *item = &g_array_index(items, EchItem, i);
        if (item->kind == ECH_ITEM_FOREIGN && item->address == op + (kind == ECH_OP_FREE))
            return item->issued;
    }
    return ECH_TIME_NONE;
}

static gint by_time(gconstpointer a, gconstpointer b)
{
    return ech_compare_i64(&((const EchItem *)a)->issued, &((const EchItem *)b)->issued);
}

static guint at(EchTime time)
{
    for (guint i = 0; i < items->len; i++)
        if (g_array_index(items, EchItem, i).issued == time)
            return i;
    ck_abort_msg("no item at that time");
}

/* Three nodes, launched twice: a temporary, in whose place the second makes what the program keeps, and what it lets go behind the first launch. */
START_TEST(blocks_belong_to_launches)
{
    begin();
    const EchTime capture[] = {200 * US, 500 * US, 600 * US};
    g_array_append_vals(captured, capture, G_N_ELEMENTS(capture));
    EchId temporary = block("0:1", 4096, 512), kept = block("0:1", 4096, 256), result = block("0:1", 8192, 512), outside = block(NULL, 65536, 512);
    EchId asked_outside = event(ECH_OP_ALLOC, outside, 50 * US), asked_temporary = event(ECH_OP_ALLOC, temporary, 100 * US);
    event(ECH_OP_FREE, temporary, 300 * US);
    EchId asked_kept = event(ECH_OP_ALLOC, kept, 400 * US), asked_result = event(ECH_OP_ALLOC, result, 550 * US);
    kernel(1000 * US, 1, false, 4096, ECH_ADDRESS_WRITE);
    kernel(1001 * US, 2, true, 4096, ECH_ADDRESS_WRITE);
    kernel(1002 * US, 3, true, 8192, ECH_ADDRESS_WRITE);
    event(ECH_OP_FREE, result, 2000 * US);
    kernel(3000 * US, 1, false, 4096, ECH_ADDRESS_WRITE);
    kernel(3001 * US, 2, true, 4096, ECH_ADDRESS_WRITE);
    kernel(3002 * US, 3, true, 8192, ECH_ADDRESS_WRITE);
    kernel(4000 * US, 0, false, 8192, ECH_ADDRESS_READ);
    kernel(4001 * US, 0, false, 65536, ECH_ADDRESS_READ);
    g_autoptr(EchTrace) snapshot = ech_trace_builder_finish(builder, NULL);
    ck_assert_ptr_nonnull(snapshot);
    g_autoptr(EchGraphArrays) captures = ech_graph_arrays_new(items, uses, captured, snapshot);
    ech_graph_arrays_settle(captures);
    ck_assert_int_eq(issued(asked_temporary, ECH_OP_ALLOC), 1000 * US - 1);
    ck_assert_int_eq(issued(asked_temporary, ECH_OP_FREE), 1001 * US - 1);
    ck_assert_int_eq(issued(asked_kept, ECH_OP_ALLOC), 1001 * US - 1);
    ck_assert_int_eq(issued(asked_result, ECH_OP_ALLOC), 1002 * US - 1);
    ck_assert_int_eq(issued(asked_outside, ECH_OP_ALLOC), 50 * US);
    ck_assert_int_eq(g_array_index(items, EchItem, at(2000 * US)).kind, ECH_ITEM_FOREIGN); /* the program's own doing */
    g_array_sort(items, by_time);
    g_autoptr(GArray) arrays = ech_graph_arrays_find(captures);
    ck_assert_uint_eq(arrays->len, 3);
    const EchGraphArray *of = (const EchGraphArray *)(const void *)arrays->data;
    ck_assert(of[0].alloc == asked_temporary && of[0].first == at(3000 * US) && of[0].last == of[0].first && of[0].after == G_MAXUINT);
    ck_assert(of[1].alloc == asked_kept && of[1].first == at(3001 * US) && of[1].last == G_MAXUINT && of[1].after == at(3000 * US));
    ck_assert(of[2].alloc == asked_result && of[2].first == at(3002 * US) && of[2].last == at(4000 * US) && of[2].after == G_MAXUINT);
    end();
}
END_TEST

/* What the program writes before each launch for the graph to read is there from then on. */
START_TEST(inputs_are_filled_outside)
{
    begin();
    const EchTime capture[] = {200 * US};
    g_array_append_vals(captured, capture, G_N_ELEMENTS(capture));
    EchId input = block("0:1", 4096, 512), asked = event(ECH_OP_ALLOC, input, 100 * US);
    kernel(900 * US, 0, false, 4096, ECH_ADDRESS_WRITE);
    kernel(1000 * US, 1, false, 4096, ECH_ADDRESS_READ);
    event(ECH_OP_FREE, input, 1500 * US);
    kernel(1900 * US, 0, false, 4096, ECH_ADDRESS_WRITE);
    kernel(2000 * US, 1, false, 4096, ECH_ADDRESS_READ);
    g_autoptr(EchTrace) snapshot = ech_trace_builder_finish(builder, NULL);
    g_autoptr(EchGraphArrays) captures = ech_graph_arrays_new(items, uses, captured, snapshot);
    ech_graph_arrays_settle(captures);
    ck_assert_int_eq(issued(asked, ECH_OP_ALLOC), 100 * US); /* it was used before */
    g_autoptr(GArray) arrays = ech_graph_arrays_find(captures);
    ck_assert_uint_eq(arrays->len, 1);
    const EchGraphArray *of = &g_array_index(arrays, EchGraphArray, 0);
    ck_assert(of->first == at(1900 * US) && of->last == at(2000 * US));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph_arrays");
    TCase *cases = tcase_create("cases");
    tcase_add_test(cases, blocks_belong_to_launches);
    tcase_add_test(cases, inputs_are_filled_outside);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
