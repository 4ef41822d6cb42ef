/* Medians of recorded copies by what ran the other way. */
#include "sim/import/import.h"
#include "sim/report/transfers.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3 };

static EchId add_copy(EchTraceBuilder *b, const char *name, EchId queue, const char *from, const char *to, EchTime start, EchTime duration)
{
    EchOp op = ech_op_init(ECH_OP_COPY);
    op.name = ech_trace_builder_string(b, name, -1);
    op.queue = queue;
    op.memory_from = ech_trace_builder_memory(b, from);
    op.memory_to = ech_trace_builder_memory(b, to);
    op.bytes = 1000;
    op.bytes_origin = ECH_KNOWN;
    op.recorded = (EchRecorded){start, duration};
    return ech_trace_builder_op(b, op);
}

static void add_wait(EchTraceBuilder *b, EchId queue, EchId copy, EchTime start, EchTime duration)
{
    EchOp op = ech_op_init(ECH_OP_WAIT);
    op.name = ech_trace_builder_string(b, "done", -1);
    op.queue = queue;
    op.target = ECH_NONE;
    op.recorded = (EchRecorded){start, duration};
    ech_trace_builder_op(b, op);
    ech_trace_builder_dep(b, copy, 0);
}

static const EchTransferRow *row_of(const EchTransfers *t, const EchTrace *trace, const char *name, EchOverlap overlap)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->rows[i].overlap == overlap && strcmp(ech_trace_string(trace, t->rows[i].name), name) == 0)
            return &t->rows[i];
    }
    ck_abort_msg("no %s of %s", ech_overlap_name(overlap), name);
    return NULL;
}

/* Streams: the copy's own span decides. */
START_TEST(streams)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    for (uint32_t device = 0; device < 2; device++) {
        EchId in = ech_trace_builder_queue(b, "in", ECH_QUEUE_COMPUTE, device), out = ech_trace_builder_queue(b, "out", ECH_QUEUE_COMPUTE, device);
        const char *memory = device ? "hbm:1" : "hbm";
        EchTime us = ECH_PS_PER_US;
        add_copy(b, "in", in, "host", memory, 0, 10 * us);
        add_copy(b, "in", in, "host", memory, 100 * us, 20 * us + device);
        add_copy(b, "out", out, memory, "host", 105 * us, 100 * us);
        add_copy(b, "in", in, "host", memory, 200 * us, 30 * us);
        add_copy(b, "in", in, "host", memory, 300 * us, 12 * us);
    }
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    g_autoptr(EchTransfers) t = ech_transfers_new(trace);
    const EchTransferRow *alone = row_of(t, trace, "in", ECH_OVERLAP_ALONE), *against = row_of(t, trace, "in", ECH_OVERLAP_AGAINST),
                         *partly = row_of(t, trace, "in", ECH_OVERLAP_PARTLY);
    ck_assert_uint_eq(alone->count, 4);
    ck_assert_int_eq(alone->in_flight, 11 * ECH_PS_PER_US);
    ck_assert_uint_eq(alone->n_devices, 2);
    ck_assert_int_eq(against->in_flight, 20 * ECH_PS_PER_US);
    ck_assert_int_eq(against->devices[1].median, 20 * ECH_PS_PER_US + 1);
    ck_assert_int_eq(partly->in_flight, 30 * ECH_PS_PER_US);
    ck_assert_str_eq(against->to, "hbm");
    ck_assert_int_eq(against->waited, ECH_TIME_NONE);
    row_of(t, trace, "out", ECH_OVERLAP_PARTLY);
}
END_TEST

/* DMA engines: what the core waited decides; a copy nobody waited for may run until it was looked at. */
START_TEST(engines)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0), in = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0),
          out = ech_trace_builder_queue(b, "out", ECH_QUEUE_COPY, 0);
    for (int i = 0; i < N; i++) {
        EchTime ms = ECH_PS_PER_MS, zero = i * 1000 * ms;
        EchId first = add_copy(b, "first", in, "host", "hbm", zero, 100 * ms + i);
        add_wait(b, core, first, zero, 100 * ms + i);
        EchId second = add_copy(b, "second", in, "host", "hbm", zero + 101 * ms, 120 * ms);
        EchId back = add_copy(b, "back", out, "hbm", "host", zero + 110 * ms, ECH_TIME_NONE);
        add_wait(b, core, second, zero + 110 * ms, 111 * ms);
        add_wait(b, core, back, zero + 500 * ms, 5);
    }
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, NULL);
    ck_assert_ptr_nonnull(trace);
    g_autoptr(EchTransfers) t = ech_transfers_new(trace);
    const EchTransferRow *first = row_of(t, trace, "first", ECH_OVERLAP_ALONE), *second = row_of(t, trace, "second", ECH_OVERLAP_AGAINST),
                         *back = row_of(t, trace, "back", ECH_OVERLAP_UNTIMED);
    ck_assert_uint_eq(t->n, 3);
    ck_assert_int_eq(first->waited, 100 * ECH_PS_PER_MS + 1);
    ck_assert_int_eq(second->waited, 111 * ECH_PS_PER_MS);
    ck_assert_int_eq(second->in_flight, 120 * ECH_PS_PER_MS);
    ck_assert_int_eq(back->in_flight, ECH_TIME_NONE);
    ck_assert_int_eq(back->waited, 5);
}
END_TEST

START_TEST(the_v6e_profile)
{
    const char *path = ECH_SHARED "/traces/xplane/tpu_inference_2_old.xplane.pb";
    if (ech_test_lacks(path))
        return;
    g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(import);
    g_autoptr(EchTransfers) t = ech_transfers_new(import->trace);
    static const struct {
        const char *name;
        EchOverlap overlap;
        EchTime us; /* of device 0 */
    } rows[] = {{"copy-start", ECH_OVERLAP_ALONE, 189170},
                {"copy-start.2", ECH_OVERLAP_AGAINST, 194110},
                {"copy-start.4", ECH_OVERLAP_AGAINST, 194440},
                {"copy-start.5", ECH_OVERLAP_ALONE, 182360}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        const EchTransferRow *row = row_of(t, import->trace, rows[i].name, rows[i].overlap);
        ck_assert_uint_eq(row->n_devices, 4);
        ck_assert_int_lt(llabs(row->devices[0].median - rows[i].us * ECH_PS_PER_US), 10 * ECH_PS_PER_US);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transfers");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, streams);
    tcase_add_test(tcase, engines);
    tcase_add_test(tcase, the_v6e_profile);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
