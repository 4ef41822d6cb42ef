/* The passes pad, unplan, pin and serial: what they change, what they leave as it is, and that they say which. */
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

/* 24 bytes in a tile of 4096, a view of all of it, and one of that view's half: what the views lose, their views and uses lose, too. */
START_TEST(views_of_views_become_smaller)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId tile = ech_test_buffer(b, "tile", 4 * KIB, ECH_ROLE_PARAMETER, true), all = ech_test_buffer(b, "all", 4 * KIB, ECH_ROLE_PARAMETER, true),
          half = ech_test_buffer(b, "half", 2 * KIB, ECH_ROLE_PARAMETER, true);
    ech_trace_builder_peek_buffer(b, tile)->shape = ech_trace_builder_string(b, "f32[2,3]{1,0:T(8,128)}", -1);
    ech_trace_builder_peek_buffer(b, all)->alias_of = tile;
    ech_trace_builder_peek_buffer(b, all)->alias_offset = 0;
    ech_trace_builder_peek_buffer(b, half)->alias_of = all;
    ech_trace_builder_peek_buffer(b, half)->alias_offset = 2 * KIB;
    ech_test_kernel(b, 0, all, ECH_READ, 4 * KIB);
    ech_test_kernel(b, 0, half, ECH_READ, 2 * KIB);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchDevice) on = device();
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, on, diag, (const char *const[]){"pad:tiles=dense,align=1", NULL});
    ck_assert_uint_eq(ech_test_find_buffer(out, "tile")->bytes, 24);
    ck_assert_uint_eq(ech_test_find_buffer(out, "all")->bytes, 24);
    ck_assert_uint_eq(ech_test_find_buffer(out, "half")->alias_offset, 12);
    ck_assert_uint_eq(ech_test_find_buffer(out, "half")->bytes, 12);
    ck_assert_uint_eq(ech_trace_uses(out)[ech_trace_ops(out)[0].first_use].bytes, 24);
    ck_assert_uint_eq(ech_trace_uses(out)[ech_trace_ops(out)[1].first_use].bytes, 12);
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

/* [300, 5] with 300 along the lanes takes 8 x 384, row-major 304 x 128. A view begins half-way through it, whatever it takes, and ends where it does. */
static const struct {
    const char *spec;
    EchBytes array, list, view_at, view;
    const char *unknown, *sum;
} layouts[] = {
    {"pad:tiles=dense,align=1", 300 * 5 * 4, 4000, 3000, 3000, "pad: the shape of 2 buffers is not known; they keep their sizes",
     "pad: changed 2 buffers: 0 B more, 6.23 KiB less"},
    {"pad:tiles=row_major,align=1", 304 * 128 * 4, 4096, 304 * 128 * 2, 6144, "pad: the shape of 2 buffers is not known; they keep their sizes",
     "pad: enlarged 1 buffer by 140 KiB in all"},
    {"pad:tiles=dense,align=1,above=6145", 300 * 5 * 4, 4096, 3000, 3000, NULL, "pad: changed 1 buffer: 0 B more, 6.14 KiB less"},
    {"pad:tiles=row_major,align=1,above=12289", 12288, 4096, 6144, 6144, NULL, NULL},
};

START_TEST(lays_arrays_out)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId array = ech_test_buffer(b, "array", 12288, ECH_ROLE_TEMPORARY, false), list = ech_test_buffer(b, "list", 4096, ECH_ROLE_TEMPORARY, false),
          other = ech_test_buffer(b, "other", 4096, ECH_ROLE_TEMPORARY, false), view = ech_test_buffer(b, "view", 6144, ECH_ROLE_TEMPORARY, false);
    ech_trace_builder_peek_buffer(b, array)->shape = ech_trace_builder_string(b, "f32[300,5]{0,1:T(8,128)}", -1);
    ech_trace_builder_peek_buffer(b, list)->shape = ech_trace_builder_string(b, "f32[1000]{0:T(1024)}", -1);
    ech_trace_builder_peek_buffer(b, view)->alias_of = array;
    ech_trace_builder_peek_buffer(b, view)->alias_offset = 6144;
    for (EchId buffer = array; buffer <= other; buffer++) /* the first asks for what it has */
        ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_ALLOC, buffer))->bytes = buffer == array ? 12288 : 100;
    ech_test_kernel(b, 0, array, ECH_WRITE, 6144); /* half of it */
    EchId copy = ech_test_put(b, ECH_OP_COPY, ECH_NONE);
    ech_trace_builder_peek_op(b, copy)->bytes = 4096;
    ech_trace_builder_peek_op(b, copy)->memory_from = ech_trace_builder_peek_op(b, copy)->memory_to = ech_trace_builder_memory(b, "hbm");
    ech_trace_builder_use(b, array, ECH_READ, 4096, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, other, ECH_WRITE, 4096, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_FREE, array))->bytes = 12288;
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchDevice) on = ech_test_device("tpu-v5e", NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, on, diag, (const char *const[]){layouts[_i].spec, NULL});
    const EchBuffer *seen = ech_test_find_buffer(out, "view");
    ck_assert_uint_eq(ech_test_find_buffer(out, "array")->bytes, layouts[_i].array);
    ck_assert_uint_eq(ech_test_find_buffer(out, "list")->bytes, layouts[_i].list);
    ck_assert_uint_eq(ech_test_find_buffer(out, "other")->bytes, 4096);
    ck_assert(seen->bytes == layouts[_i].view && seen->alias_offset == layouts[_i].view_at);
    const EchOp *ops = ech_trace_ops(out);
    const EchUse *uses = ech_trace_uses(out);
    ck_assert(ops[0].bytes == layouts[_i].array && ops[1].bytes == 100 && ops[2].bytes == 100 && ops[5].bytes == layouts[_i].array);
    ck_assert_uint_eq(uses[ops[3].first_use].bytes, layouts[_i].array / 2);
    ck_assert_uint_eq(uses[ops[4].first_use].bytes, layouts[_i].array / 3);
    ck_assert_uint_eq(uses[ops[4].first_use + 1].bytes, 4096);
    ck_assert_uint_eq(ops[4].bytes, MAX(layouts[_i].array / 3, 4096));
    ck_assert(layouts[_i].sum ? ech_test_says(diag, layouts[_i].sum) : out == in);
    ck_assert(layouts[_i].unknown ? ech_test_says(diag, layouts[_i].unknown) : !ech_test_says(diag, "is not known"));
}
END_TEST

/* Pinned memory is four times as fast here. */
static const struct {
    const char *from, *to;
    EchTime recorded, wanted;
    const char *now_from, *now_to;
} pinned[] = {
    {"pageable", "hbm", 6 * ECH_TEST_MS, 6 * ECH_TEST_MS / 4, "host", "hbm"},
    {"hbm", "pageable", 2 * ECH_TEST_MS, 2 * ECH_TEST_MS / 4, "hbm", "host"},
    {"hbm", "pageable", 0, 0, "hbm", "host"}, /* took no time */
    {"pageable", "hbm", ECH_TIME_NONE, ECH_TIME_NONE, "host", "hbm"},
    {"host", "hbm", 6 * ECH_TEST_MS, 6 * ECH_TEST_MS, "host", "hbm"},
    {"pageable", "pageable", 6 * ECH_TEST_MS, 6 * ECH_TEST_MS, "host", "host"}, /* no link's */
};

START_TEST(pins_what_copies_find_pageable)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId buffer = ech_test_buffer(b, "pageable", 4096, ECH_ROLE_TEMPORARY, true);
    ech_trace_builder_peek_buffer(b, buffer)->memory = ech_trace_builder_memory(b, "pageable");
    for (size_t i = 0; i < G_N_ELEMENTS(pinned); i++) {
        EchOp *op = ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_COPY, ECH_NONE));
        op->bytes = 20000000;
        op->recorded = (EchRecorded){.start = 0, .duration = pinned[i].recorded};
        op->memory_from = ech_trace_builder_memory(b, pinned[i].from);
        op->memory_to = ech_trace_builder_memory(b, pinned[i].to);
    }
    ech_test_kernel(b, ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    EchOp *sum = ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_COLLECTIVE, ECH_NONE));
    sum->collective = ECH_COLLECTIVE_ALL_REDUCE;
    sum->memory_from = ech_trace_builder_memory(b, "pageable"); /* its group's size stands there */
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchDevice) on =
        ech_test_device_yaml("name: t\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, read: 100GB/s, write: 100GB/s}\n"
                             "  host: {kind: host-pinned, space: 5, capacity: 8GB}\n  pageable: {kind: host-pageable, capacity: 8GB}\n"
                             "links:\n  host: {from: host, to: hbm, to_device: 20GB/s, from_device: 20GB/s}\n"
                             "  pageable: {from: pageable, to: hbm, to_device: 5GB/s, from_device: 5GB/s}\nunits:\n  vector: {peaks: {f32: 10GFLOP/s}}\n");
    g_autoptr(EchDiag) diag = ech_diag_new(), none = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, on, diag, (const char *const[]){"pin", NULL});
    for (size_t i = 0; i < G_N_ELEMENTS(pinned); i++) {
        const EchOp *op = &ech_trace_ops(out)[i];
        ck_assert_int_eq(op->recorded.duration, pinned[i].wanted);
        ck_assert_str_eq(ech_trace_memory(out, op->memory_from), pinned[i].now_from);
        ck_assert_str_eq(ech_trace_memory(out, op->memory_to), pinned[i].now_to);
    }
    ck_assert_str_eq(ech_trace_memory(out, ech_test_find_buffer(out, "pageable")->memory), "host");
    ck_assert_uint_eq(ech_test_op(out, ECH_OP_COLLECTIVE, NULL)->memory_from, ech_test_op(in, ECH_OP_COLLECTIVE, NULL)->memory_from);
    ck_assert(ech_test_says(diag, "pin: 5 copies of 95.4 MiB in all"));
    g_autoptr(EchTrace) same = ech_test_pass(out, on, none, (const char *const[]){"pin", NULL});
    ck_assert_ptr_eq(same, out);
    ck_assert(ech_test_says(none, "pin: no copy is from or to pageable memory"));
}
END_TEST

/* 10 ms of the core and 10 ms of the memory beside it, three times 5 ms beside it in a loop, and 20 ms of the core: one after the other. */
START_TEST(lets_nothing_overlap)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin(), alone = ech_test_begin();
    EchId beside = ech_trace_builder_queue(b, "beside", ECH_QUEUE_COMPUTE, 0);
    ech_test_kernel(b, 10 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    ech_test_kernel(b, 0, ech_test_buffer(b, "read", 1000000000, ECH_ROLE_PARAMETER, true), ECH_READ, 1000000000);
    EchId loop = ech_test_loop(b, 3);
    ech_test_kernel(b, 5 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    ech_test_close_loop(b, loop);
    for (EchId op = loop - 1; op <= loop + 1; op++)
        ech_trace_builder_peek_op(b, op)->queue = beside;
    EchId own = ech_test_loop(b, 2);
    ech_test_kernel(b, 10 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    ech_test_close_loop(b, own);
    ech_test_kernel(alone, 10 * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    g_autoptr(EchTrace) in = ech_test_finish(b), single = ech_test_finish(alone);
    g_autoptr(EchDevice) on = device();
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(in, on, diag, (const char *const[]){"serial", NULL});
    g_autoptr(EchTrace) same = ech_test_pass(single, on, diag, (const char *const[]){"serial", NULL});
    ck_assert_ptr_eq(same, single);
    g_autoptr(EchRun) before = ech_test_replay(in, on), run = ech_test_replay(out, on);
    ck_assert_int_eq(before->makespan, 45 * ECH_TEST_MS);
    ck_assert_int_eq(run->makespan, 55 * ECH_TEST_MS);
    ck_assert(ech_test_says(diag, "serial: 3 operations of other queues take turns with those of 'core'"));
    /* Behind the kernel, as an iteration begins, behind its kernel, and behind the loop. */
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_WAIT), 4);
    ck_assert_int_eq(ech_trace_ops(out)[ech_trace_n_ops(out) - 3].kind, ECH_OP_WAIT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pad");
    TCase *tests = tcase_create("pad");
    tcase_add_test(tests, pads_what_has_no_place);
    tcase_add_test(tests, views_of_views_become_smaller);
    tcase_add_test(tests, forgets_places);
    tcase_add_loop_test(tests, lays_arrays_out, 0, G_N_ELEMENTS(layouts));
    tcase_add_test(tests, pins_what_copies_find_pageable);
    tcase_add_test(tests, lets_nothing_overlap);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
