/* Lossless: a trace written and read is the same trace, whatever made it; a second import of an .ech gives the same bytes. Random traces with every field
 * set, all our corpora, and every captured file that is at hand. ECH_SEED chooses another seed. */
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/trace/file.h"
#include "sim/trace/select.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 60 };

static void assert_lossless(const EchTrace *trace, const char *what)
{
    g_autoptr(GString) text = ech_trace_file_print(trace);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) again = ech_trace_file_read(text->str, text->len, what, &error);
    ck_assert_msg(again != NULL, "%s: %s", what, error ? error->message : "");
    g_autoptr(GString) text2 = ech_trace_file_print(again);
    ck_assert_msg(text->len == text2->len && memcmp(text->str, text2->str, text->len) == 0, "%s: changes when it is read again", what);
    ck_assert_msg(ech_trace_hash(trace) == ech_trace_hash(again), "%s: another hash", what);
    /* Field by field, so that what the file does not hold at all is noticed too. */
    ck_assert_uint_eq(ech_trace_n_ops(trace), ech_trace_n_ops(again));
    ck_assert_uint_eq(ech_trace_n_buffers(trace), ech_trace_n_buffers(again));
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *a = &ech_trace_ops(trace)[i], *b = &ech_trace_ops(again)[i];
        ck_assert_msg(a->kind == b->kind && a->collective == b->collective && a->queue == b->queue && a->n_uses == b->n_uses && a->n_deps == b->n_deps &&
                          a->n_work == b->n_work && a->memory_from == b->memory_from && a->memory_to == b->memory_to && a->target == b->target &&
                          a->bytes == b->bytes && a->estimate == b->estimate && a->recorded.start == b->recorded.start &&
                          a->recorded.duration == b->recorded.duration && strcmp(ech_trace_string(trace, a->name), ech_trace_string(again, b->name)) == 0 &&
                          strcmp(ech_trace_string(trace, a->stack), ech_trace_string(again, b->stack)) == 0,
                      "%s: op %zu", what, i);
        for (uint32_t k = 0; k < a->n_uses; k++) {
            const EchUse *x = &ech_trace_uses(trace)[a->first_use + k], *y = &ech_trace_uses(again)[b->first_use + k];
            ck_assert_msg(x->buffer == y->buffer && x->access == y->access && x->pattern == y->pattern && x->origin == y->origin && x->bytes == y->bytes,
                          "%s: op %zu, use %u", what, i, k);
        }
        for (uint32_t k = 0; k < a->n_deps; k++) {
            const EchDep *x = &ech_trace_deps(trace)[a->first_dep + k], *y = &ech_trace_deps(again)[b->first_dep + k];
            ck_assert_msg(x->op == y->op && x->distance == y->distance, "%s: op %zu, dependency %u", what, i, k);
        }
        for (uint32_t k = 0; k < a->n_work; k++) {
            const EchWork *x = &ech_trace_work(trace)[a->first_work + k], *y = &ech_trace_work(again)[b->first_work + k];
            ck_assert_msg(x->unit == y->unit && x->dtype == y->dtype && x->origin == y->origin && x->count == y->count, "%s: op %zu, work %u", what, i, k);
        }
    }
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *a = &ech_trace_buffers(trace)[i], *b = &ech_trace_buffers(again)[i];
        ck_assert_msg(a->memory == b->memory && a->role == b->role && a->dtype == b->dtype && a->resident == b->resident && a->upper_end == b->upper_end &&
                          a->direct == b->direct && a->product == b->product && a->bytes == b->bytes && a->rounded == b->rounded && a->dense == b->dense &&
                          a->offset == b->offset && a->address == b->address && a->alias_of == b->alias_of && a->alias_offset == b->alias_offset &&
                          a->loop == b->loop && a->queue == b->queue && a->segment == b->segment &&
                          strcmp(ech_trace_string(trace, a->name), ech_trace_string(again, b->name)) == 0 &&
                          strcmp(ech_trace_string(trace, a->pool), ech_trace_string(again, b->pool)) == 0 &&
                          strcmp(ech_trace_string(trace, a->stack), ech_trace_string(again, b->stack)) == 0 &&
                          strcmp(ech_trace_string(trace, a->shape), ech_trace_string(again, b->shape)) == 0,
                      "%s: buffer %zu", what, i);
    }
}

/* As `import` writes: with the counters of the import; and what `import` makes of that again. */
static void assert_import_is_idempotent(EchImport *import, const char *what)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) first = ech_import_with_counters(import, import->trace);
    ck_assert_msg(first != NULL, "%s: %s", what, error ? error->message : "");
    g_autoptr(GString) text = ech_trace_file_print(first);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, what);
    g_autoptr(EchImport) again = ech_import_source(source, NULL, NULL, &error);
    ck_assert_msg(again != NULL, "%s: %s", what, error ? error->message : "");
    g_autoptr(EchTrace) second = ech_import_with_counters(again, again->trace);
    ck_assert_msg(second != NULL, "%s: %s", what, error ? error->message : "");
    g_autoptr(GString) text2 = ech_trace_file_print(second);
    ck_assert_msg(text->len == text2->len && memcmp(text->str, text2->str, text->len) == 0, "%s: the import of the import differs", what);
}

static uint64_t any_u64(GRand *rand)
{
    static const uint64_t special[] = {0, 1, 255, 256, UINT32_MAX, (uint64_t)1 << 40, INT64_MAX, UINT64_MAX - 1};
    return g_rand_int_range(rand, 0, 4) ? (uint64_t)g_rand_int_range(rand, 0, 1 << 30) : special[g_rand_int_range(rand, 0, G_N_ELEMENTS(special))];
}

static EchTime any_time(GRand *rand)
{
    static const EchTime special[] = {ECH_TIME_NONE, 0, 1, INT64_MAX, 999999999999};
    return g_rand_boolean(rand) ? special[g_rand_int_range(rand, 0, G_N_ELEMENTS(special))] : (EchTime)g_rand_int(rand);
}

static EchId any_text(EchTraceBuilder *builder, GRand *rand)
{
    static const char *const texts[] = {"a",
                                        "",
                                        "with \"quotes\" and \\",
                                        "two\nlines",
                                        "tab\tand \x01 control",
                                        "caf\xc3\xa9",
                                        "bad \xff bytes",
                                        "f32[8,128]{1,0:T(8,128)}",
                                        "=x #y ~!",
                                        " leading and trailing "};
    int i = g_rand_int_range(rand, -1, G_N_ELEMENTS(texts));
    return i < 0 ? ECH_NONE : ech_trace_builder_string(builder, texts[i], -1);
}

static EchOrigin any_origin(GRand *rand)
{
    return (EchOrigin)g_rand_int_range(rand, ECH_KNOWN, ECH_ASSUMED + 1);
}

/* Ops in a row, sometimes a loop around some; every optional field set now and then. */
static EchTrace *random_trace(GRand *rand)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("random");
    EchId memories[3] = {ech_trace_builder_memory(builder, "hbm"), ech_trace_builder_memory(builder, "host"), ech_trace_builder_memory(builder, "odd name:7")},
          queues[4];
    for (int q = 0; q < 4; q++)
        queues[q] = ech_trace_builder_queue(builder, q == 3 ? "q \"3\"\n" : "queue", (EchQueueKind)(q % ECH_N_QUEUE_KINDS), (uint32_t)q);
    ech_trace_builder_set_property(builder, "key", "value with \"quotes\"\nand lines");
    ech_trace_builder_set_property(builder, "empty", "");
    int n_buffers = g_rand_int_range(rand, 1, 12), n = g_rand_int_range(rand, 0, 40);
    for (int i = 0; i < n_buffers; i++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.name = any_text(builder, rand);
        buffer.memory = memories[g_rand_int_range(rand, 0, 3)];
        buffer.role = (uint8_t)g_rand_int_range(rand, 0, ECH_N_ROLES);
        buffer.dtype = (uint8_t)g_rand_int_range(rand, 0, ECH_N_DTYPES);
        buffer.resident = 1;
        buffer.upper_end = g_rand_boolean(rand);
        buffer.product = (uint8_t)g_rand_int_range(rand, 0, ECH_N_PRODUCTS);
        buffer.product_dtype = (uint8_t)(buffer.product ? g_rand_int_range(rand, 0, ECH_N_DTYPES) : 0);
        buffer.replicas = g_rand_boolean(rand) ? 0 : g_rand_int(rand);
        buffer.bytes = (EchBytes)g_rand_int_range(rand, 0, 1 << 30);
        buffer.rounded = any_u64(rand);
        buffer.dense = any_u64(rand);
        buffer.offset = g_rand_boolean(rand) ? ECH_OFFSET_NONE : (uint64_t)g_rand_int(rand);
        buffer.address = g_rand_boolean(rand) ? ECH_OFFSET_NONE : any_u64(rand);
        buffer.queue = g_rand_boolean(rand) ? ECH_NONE : queues[g_rand_int_range(rand, 0, 4)];
        buffer.segment = g_rand_boolean(rand) ? ECH_NONE : (EchId)g_rand_int_range(rand, 0, 100);
        buffer.pool = any_text(builder, rand);
        buffer.stack = any_text(builder, rand);
        buffer.shape = any_text(builder, rand);
        if (i > 0 && g_rand_int_range(rand, 0, 4) == 0) {
            buffer.alias_of = (EchId)g_rand_int_range(rand, 0, i);
            EchBytes parent = ech_trace_builder_peek_buffer(builder, buffer.alias_of)->bytes;
            buffer.bytes = parent / 2;
            buffer.alias_offset = parent / 4;
            buffer.resident = ech_trace_builder_peek_buffer(builder, buffer.alias_of)->resident;
        }
        buffer.direct = buffer.alias_of == ECH_NONE && g_rand_boolean(rand);
        if (buffer.direct) { /* V16 */
            buffer.offset = ECH_OFFSET_NONE;
            buffer.pool = ECH_NONE;
        }
        if (!buffer.direct && buffer.alias_of == ECH_NONE && buffer.offset == ECH_OFFSET_NONE && buffer.pool == ECH_NONE && g_rand_boolean(rand))
            buffer.managed = (uint8_t)(ECH_MANAGED | g_rand_int_range(rand, 0, ECH_MANAGED_ALL + 1)); /* V17 */
        ech_trace_builder_buffer(builder, buffer);
    }
    EchId loop = ECH_NONE, loop_end = 0;
    for (int i = 0; i < n; i++) {
        EchId at = (EchId)ech_trace_builder_n_ops(builder);
        bool inside = loop != ECH_NONE && at < loop_end;
        if (!inside && i + 5 < n && g_rand_int_range(rand, 0, 12) == 0) {
            EchOp op = ech_op_init(ECH_OP_LOOP);
            op.name = any_text(builder, rand);
            op.queue = queues[0];
            op.bytes = (uint64_t)g_rand_int_range(rand, 0, 1000);
            op.bytes_origin = (uint8_t)any_origin(rand);
            op.target = (EchId)g_rand_int_range(rand, 1, 4);
            loop = ech_trace_builder_op(builder, op);
            loop_end = loop + 1 + op.target;
            continue;
        }
        static const EchOpKind kinds[] = {ECH_OP_KERNEL, ECH_OP_COPY, ECH_OP_COLLECTIVE, ECH_OP_MARK, ECH_OP_KERNEL};
        EchOp op = ech_op_init(kinds[g_rand_int_range(rand, 0, G_N_ELEMENTS(kinds))]);
        op.name = any_text(builder, rand);
        op.stack = any_text(builder, rand);
        op.queue = queues[g_rand_int_range(rand, 0, 4)];
        op.recorded.start = any_time(rand);
        op.recorded.duration = any_time(rand);
        if (op.kind == ECH_OP_KERNEL && g_rand_boolean(rand)) {
            op.estimate = (EchTime)g_rand_int(rand);
            op.estimate_origin = (uint8_t)any_origin(rand);
        }
        if (op.kind == ECH_OP_COPY) {
            op.memory_from = memories[g_rand_int_range(rand, 0, 3)];
            op.memory_to = memories[g_rand_int_range(rand, 0, 3)];
        }
        if (op.kind == ECH_OP_COLLECTIVE) {
            op.collective = (uint8_t)g_rand_int_range(rand, 1, ECH_N_COLLECTIVES);
            op.memory_from = (EchId)g_rand_int_range(rand, 0, 300);
        }
        if (op.kind == ECH_OP_COPY || op.kind == ECH_OP_COLLECTIVE) {
            op.bytes = any_u64(rand);
            op.bytes_origin = (uint8_t)any_origin(rand);
        }
        ech_trace_builder_op(builder, op);
        for (int u = 0; op.kind == ECH_OP_KERNEL && u < g_rand_int_range(rand, 0, 4); u++)
            ech_trace_builder_use(builder, (EchId)g_rand_int_range(rand, 0, n_buffers), g_rand_boolean(rand) ? ECH_READ : ECH_WRITE, any_u64(rand),
                                  (EchPattern)g_rand_int_range(rand, 0, ECH_N_PATTERNS), any_origin(rand));
        for (int w = 0; op.kind == ECH_OP_KERNEL && w < g_rand_int_range(rand, 0, 3); w++)
            ech_trace_builder_work(builder, (EchWorkUnit)g_rand_int_range(rand, 0, ECH_N_WORK_UNITS), (EchDtype)g_rand_int_range(rand, 0, ECH_N_DTYPES),
                                   any_u64(rand), any_origin(rand));
        if (inside && g_rand_boolean(rand))
            ech_trace_builder_dep(builder, (EchId)g_rand_int_range(rand, (gint32)loop + 1, (gint32)loop_end), 1 + (uint32_t)g_rand_int_range(rand, 0, 3));
        else if (at > 0 && loop == ECH_NONE && g_rand_boolean(rand))
            ech_trace_builder_dep(builder, (EchId)g_rand_int_range(rand, 0, (gint32)at), 0);
    }
    while (loop != ECH_NONE && ech_trace_builder_n_ops(builder) < loop_end) {
        EchOp op = ech_op_init(ECH_OP_MARK);
        op.queue = queues[0];
        ech_trace_builder_op(builder, op);
    }
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

START_TEST(random_traces)
{
    guint32 seed = (guint32)ech_test_seed_of(_i);
    g_autofree char *what = g_strdup_printf("seed %u", seed);
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(EchTrace) trace = random_trace(rand);
    assert_lossless(trace, what);
    /* Nothing selected away: the same trace. */
    EchSelectOptions options = {.device = ECH_NONE};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) selected = ech_trace_select(trace, &options, NULL, &error);
    ck_assert_msg(selected != NULL, "%s: %s", what, error ? error->message : "");
    g_autoptr(GString) a = ech_trace_file_print(trace), b = ech_trace_file_print(selected);
    ck_assert_msg(strcmp(a->str, b->str) == 0, "%s: selecting everything changes the trace", what);
}
END_TEST

/* Imports every file below a folder; counts those that become traces. */
static size_t visit(const char *folder, size_t *ret_files)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    size_t n = 0;
    const char *name;
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_DIR)) {
            n += visit(path, ret_files);
            continue;
        }
        ++*ret_files;
        g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, NULL);
        if (!import || !import->trace)
            continue;
        assert_lossless(import->trace, path);
        assert_import_is_idempotent(import, path);
        n++;
    }
    return n;
}

START_TEST(our_corpora)
{
    size_t files = 0, traces = visit(ECH_SOURCE_DIR "/tests/fuzz/corpus", &files);
    ck_assert_uint_gt(files, 60);
    ck_assert_uint_gt(traces, 25);
}
END_TEST

START_TEST(captured_files)
{
    static const char *const folders[] = {"chakra", "kineto", "nsys_sqlite", "xplane", "memory_snapshot", "minimalloc", "scalesim"};
    g_autofree char *folder = g_build_filename(ECH_SHARED, "traces", folders[_i], NULL);
    if (ech_test_lacks(folder))
        return;
    size_t files = 0;
    ck_assert_uint_gt(visit(folder, &files), 0);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("round trips");
    TCase *cases = tcase_create("ech");
    tcase_add_loop_test(cases, random_traces, 0, ROUNDS);
    tcase_add_test(cases, our_corpora);
    tcase_add_loop_test(cases, captured_files, 0, 7);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
