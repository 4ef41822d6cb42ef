/* The plan pass on small traces: who may lend its place to whom, by the order of the program, by what other queues still do, and by what is a result. */
#include "tests/support/made.h"

#include <check.h>

static const EchBytes MB = 1000000;

static EchDevice *device(const char *family, const char *available)
{
    g_autofree char *text =
        g_strdup_printf("name: t\nfamily: %s\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 8GB, available: %s, read: 100GB/s, write: 100GB/s}\n"
                        "units:\n  vector: {peaks: {f32: 10GFLOP/s}}\n",
                        family, available);
    return ech_test_device_yaml(text);
}

/* Where plan lets places end; 0 where it leaves the trace as it is. */
static EchBytes height(EchTraceBuilder *b, const char *spec, const EchDevice *on)
{
    g_autoptr(EchTrace) trace = ech_test_finish(b);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) out = ech_test_pass(trace, on, diag, (const char *const[]){spec, NULL});
    EchBytes most = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(out); i++)
        if (ech_trace_buffers(out)[i].offset != ECH_OFFSET_NONE)
            most = MAX(most, ech_trace_buffers(out)[i].offset + ech_trace_buffers(out)[i].bytes);
    ck_assert_int_eq(most > 0, ech_trace_get_property(out, "planned_anew") != NULL);
    return most;
}

static EchTraceBuilder *begin(void)
{
    EchTraceBuilder *b = ech_test_begin();
    (void)ech_trace_builder_queue(b, "copies", ECH_QUEUE_COPY, 0);
    return b;
}

/* On queue 1, reading @buffer (ECH_NONE: nothing) when op @after is done. */
static EchId copy_away(EchTraceBuilder *b, EchId buffer, EchId after)
{
    EchOp op = ech_op_init(ECH_OP_KERNEL);
    op.queue = 1;
    op.name = ech_trace_builder_string(b, "away", -1);
    EchId made = ech_trace_builder_op(b, op);
    if (buffer != ECH_NONE)
        ech_trace_builder_use(b, buffer, ECH_READ, MB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, after, 0);
    return made;
}

static EchId last(const EchTraceBuilder *b)
{
    return (EchId)ech_trace_builder_n_ops(b) - 1;
}

/* The core waits for @op. */
static void wait_for(EchTraceBuilder *b, EchId op)
{
    ech_test_kernel(b, 0, ECH_NONE, ECH_READ, 0);
    ech_trace_builder_dep(b, op, 0);
}

/* a is copied away while it is freed; c comes before the core has waited for that copy, or after. Another copy, of before, says nothing, nor does the copy of
 * the iteration before. */
enum { NOT = 0, BEFORE = 1, AT_LAST = 2, BEHIND = 4, EARLIER = 8, LOOPS = 16 };
static EchBytes with_copy(unsigned waits)
{
    bool loops = waits & LOOPS;
    g_autoptr(EchTraceBuilder) b = begin();
    EchId a = ech_test_buffer(b, "a", MB, ECH_ROLE_TEMPORARY, false), c = ech_test_buffer(b, "c", MB, ECH_ROLE_TEMPORARY, false);
    EchId loop = loops ? ech_test_loop(b, 3) : ECH_NONE;
    if (loops)
        for (EchId buffer = a; buffer <= c; buffer++)
            ech_trace_builder_peek_buffer(b, buffer)->loop = loop;
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, MB);
    EchId before = copy_away(b, a, last(b)), copy = copy_away(b, a, before);
    if (waits & BEFORE)
        wait_for(b, copy);
    wait_for(b, before);
    if (waits & EARLIER) {
        ech_test_kernel(b, 0, ECH_NONE, ECH_READ, 0);
        ech_trace_builder_dep(b, copy, 1);
    }
    (void)ech_test_put(b, ECH_OP_FREE, a);
    (void)ech_test_put(b, ECH_OP_ALLOC, c);
    ech_test_kernel(b, 0, c, ECH_WRITE, MB);
    (void)ech_test_put(b, ECH_OP_FREE, c);
    if (waits & AT_LAST)
        wait_for(b, copy);
    if (loops)
        ech_test_close_loop(b, loop);
    if (waits & BEHIND) /* for what comes behind it on its queue */
        wait_for(b, copy_away(b, ECH_NONE, loop));
    return height(b, "plan", NULL);
}

START_TEST(what_a_copy_still_uses_lends_no_place)
{
    ck_assert_uint_eq(with_copy(BEFORE), MB);
    ck_assert_uint_gt(with_copy(AT_LAST), MB); /* gone when the core waits, after c came */
    ck_assert_uint_eq(with_copy(NOT), 0);      /* who knows when */
    ck_assert_uint_eq(with_copy(LOOPS | BEFORE), MB);
    ck_assert_uint_gt(with_copy(LOOPS | AT_LAST), MB);
    ck_assert_uint_eq(with_copy(LOOPS), 0); /* not before the next iteration */
    ck_assert_uint_eq(with_copy(LOOPS | BEHIND), 0);
    ck_assert_uint_eq(with_copy(LOOPS | EARLIER), 0);
}
END_TEST

/* Each iteration makes anew what the one before made and copied away: the copy has to be waited for before the iteration ends. */
static EchBytes handed_on(bool waits)
{
    g_autoptr(EchTraceBuilder) b = begin();
    EchId a = ech_test_buffer(b, "a", MB, ECH_ROLE_TEMPORARY, false);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    EchId loop = ech_test_loop(b, 3);
    (void)ech_test_put(b, ECH_OP_FREE, a);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, MB);
    EchId copy = copy_away(b, a, last(b));
    if (waits)
        wait_for(b, copy);
    ech_test_close_loop(b, loop);
    wait_for(b, copy_away(b, ECH_NONE, loop));
    (void)ech_test_put(b, ECH_OP_FREE, a);
    return height(b, "plan", NULL);
}

START_TEST(what_loops_hand_on)
{
    ck_assert_uint_eq(handed_on(true), MB);
    ck_assert_uint_eq(handed_on(false), 0);
}
END_TEST

/* A loop is over: what comes behind it is not of its body. */
START_TEST(loops_end)
{
    g_autoptr(EchTraceBuilder) b = begin();
    EchId a = ech_test_buffer(b, "a", MB, ECH_ROLE_TEMPORARY, false), c = ech_test_buffer(b, "c", MB, ECH_ROLE_TEMPORARY, false);
    EchId loop = ech_test_loop(b, 3);
    ech_test_kernel(b, 0, ECH_NONE, ECH_READ, 0);
    ech_test_close_loop(b, loop);
    (void)ech_test_put(b, ECH_OP_ALLOC, a);
    ech_test_kernel(b, 0, a, ECH_WRITE, MB);
    EchId copy = copy_away(b, a, last(b));
    (void)ech_test_put(b, ECH_OP_FREE, a);
    (void)ech_test_put(b, ECH_OP_ALLOC, c);
    wait_for(b, copy);
    (void)ech_test_put(b, ECH_OP_FREE, c);
    EchId second = ech_test_loop(b, 3);
    ech_test_kernel(b, 0, ECH_NONE, ECH_READ, 0);
    ech_test_close_loop(b, second);
    ck_assert_uint_gt(height(b, "plan", NULL), MB);
}
END_TEST

/* Temporaries of 1, 2 and 4 MB, one behind the other, then results of 1 and 3 MB. */
static EchBytes with_results(const char *spec, const EchDevice *on)
{
    g_autoptr(EchTraceBuilder) b = begin();
    static const EchBytes sizes[] = {1, 2, 4};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        EchId buffer = ech_test_buffer(b, "temporary", sizes[i] * MB, ECH_ROLE_TEMPORARY, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, buffer);
        ech_test_kernel(b, 0, buffer, ECH_WRITE, MB);
        (void)ech_test_put(b, ECH_OP_FREE, buffer);
    }
    for (EchBytes size = 1; size <= 3; size += 2) {
        EchId buffer = ech_test_buffer(b, "result", size * MB, ECH_ROLE_OUTPUT, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, buffer);
        ech_test_kernel(b, 0, buffer, ECH_WRITE, MB);
    }
    EchBytes bytes = height(b, spec, on);
    return (bytes + MB / 2) / MB; /* without what alignment takes */
}

START_TEST(results_have_places_of_their_own)
{
    g_autoptr(EchDevice) gpu = device("gpu", "8GB"), tpu = device("tpu", "8GB"), small = device("tpu", "7.9MB");
    ck_assert_uint_eq(with_results("plan:results_apart=false", tpu), 4);
    ck_assert_uint_eq(with_results("plan", tpu), 8);
    ck_assert_uint_eq(with_results("plan", gpu), 8); /* 1 and 2 lie in the results' places, 4 does not */
    ck_assert_uint_eq(with_results("plan", small), 8);
}
END_TEST

/* Two temporaries of 3 MB that live at once, a result of 3 MB: one of them has room there; on a TPU neither, as long as there is room. */
START_TEST(what_lives_at_once_shares_no_result)
{
    const struct {
        const char *family, *available;
        EchBytes height;
    } cases[] = {{"gpu", "8GB", 6}, {"tpu", "8GB", 9}, {"tpu", "8999000", 6}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autoptr(EchTraceBuilder) b = begin();
        g_autoptr(EchDevice) on = device(cases[k].family, cases[k].available);
        EchId buffers[3];
        for (size_t i = 0; i < 3; i++)
            buffers[i] = ech_test_buffer(b, "b", 3 * MB, ECH_ROLE_TEMPORARY, false);
        (void)ech_test_put(b, ECH_OP_ALLOC, buffers[0]);
        (void)ech_test_put(b, ECH_OP_ALLOC, buffers[1]);
        ech_test_kernel(b, 0, buffers[0], ECH_WRITE, MB);
        (void)ech_test_put(b, ECH_OP_FREE, buffers[1]);
        (void)ech_test_put(b, ECH_OP_FREE, buffers[0]);
        (void)ech_test_put(b, ECH_OP_ALLOC, buffers[2]);
        ech_test_kernel(b, 0, buffers[2], ECH_WRITE, MB);
        ck_assert_uint_eq((height(b, "plan", on) + MB / 2) / MB, cases[k].height);
    }
}
END_TEST

/* What is taken beside an allocator, and managed memory, have no place of a compiler's, on whatever queue they are freed. */
START_TEST(nobodys_to_place)
{
    g_autoptr(EchTraceBuilder) b = begin();
    g_autoptr(EchDevice) on = device("gpu", "8GB");
    EchId own = ech_test_buffer(b, "own", 3 * MB, ECH_ROLE_TEMPORARY, false), beside[2];
    for (unsigned k = 0; k < 2; k++) {
        beside[k] = ech_test_buffer(b, "beside", 5 * MB, ECH_ROLE_TEMPORARY, false);
        EchBuffer *buffer = ech_trace_builder_peek_buffer(b, beside[k]);
        buffer->direct = k == 0;
        buffer->managed = k == 1 ? ECH_MANAGED : 0;
        (void)ech_test_put(b, ECH_OP_ALLOC, beside[k]);
    }
    (void)ech_test_put(b, ECH_OP_ALLOC, own);
    ech_test_kernel(b, 0, own, ECH_WRITE, MB);
    (void)ech_test_put(b, ECH_OP_FREE, own);
    for (unsigned k = 0; k < 2; k++)
        ech_trace_builder_peek_op(b, ech_test_put(b, ECH_OP_FREE, beside[k]))->queue = 1;
    ck_assert_uint_eq(height(b, "plan", on), 3 * MB);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan pass");
    TCase *tcase = tcase_create("plan pass");
    tcase_add_test(tcase, what_a_copy_still_uses_lends_no_place);
    tcase_add_test(tcase, what_loops_hand_on);
    tcase_add_test(tcase, loops_end);
    tcase_add_test(tcase, results_have_places_of_their_own);
    tcase_add_test(tcase, what_lives_at_once_shares_no_result);
    tcase_add_test(tcase, nobodys_to_place);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
