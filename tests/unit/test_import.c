/* Importers: sources and gzip, sniffing, hostile bytes, and what small hand-made captures must become. */
#include "sim/base/error.h"
#include "sim/import/alloc_events.h"
#include "sim/import/import.h"
#include "sim/import/json_stream.h"
#include "sim/report/wire_out.h"
#include "sim/trace/file.h"
#include "sim/trace/lifetime.h"
#include "sim/trace/meets.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>
#include <zlib.h>

static GBytes *gzip(const uint8_t *data, size_t n)
{
    z_stream stream = {0};
    ck_assert_int_eq(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&stream, n) + 64;
    uint8_t *out = g_malloc(room);
    g_autofree uint8_t *copy = g_memdup2(data, n);
    stream.next_in = copy;
    stream.avail_in = (uInt)n;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t used = stream.total_out;
    deflateEnd(&stream);
    return g_bytes_new_take(out, used);
}

START_TEST(gzip_by_content)
{
    static const char text[] = "{\"traceEvents\":[]}";
    g_autoptr(GBytes) packed = gzip((const uint8_t *)text, sizeof text - 1);
    gsize n;
    const uint8_t *data = g_bytes_get_data(packed, &n);
    g_autoptr(EchSource) source = ech_source_new_memory(data, n, NULL);
    g_autoptr(GBytes) whole = ech_source_bytes(source, 0, NULL);
    ck_assert_uint_eq(g_bytes_get_size(whole), sizeof text - 1);
    char byte;
    size_t read = 0;
    while (ech_source_read(source, &byte, 1, NULL) == 1)
        ck_assert_int_eq(byte, text[read++]);
    ck_assert_uint_eq(read, sizeof text - 1);
    for (size_t cut = 3; cut < n; cut++) {
        g_autoptr(EchSource) part = ech_source_new_memory(data, cut, "part.gz");
        g_autoptr(GError) error = NULL;
        GBytes *bytes = ech_source_bytes(part, 0, &error);
        ck_assert_ptr_null(bytes);
        ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_PARSE));
    }
}
END_TEST

START_TEST(gzip_bomb)
{
    size_t n = (size_t)96 << 20;
    g_autofree uint8_t *zeros = g_malloc0(n);
    g_autoptr(GBytes) packed = gzip(zeros, n);
    gsize n_packed;
    const uint8_t *data = g_bytes_get_data(packed, &n_packed);
    g_autoptr(EchSource) source = ech_source_new_memory(data, n_packed, "bomb.gz");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_source_bytes(source, 0, &error));
    ck_assert_msg(strstr(error->message, "refusing to unpack"), "%s", error->message);
}
END_TEST

START_TEST(unknown_bytes_are_described)
{
    static const struct {
        const char *bytes, *says;
    } rows[] = {{"\xfd"
                 "7zXZ..",
                 "xz"},
                {"PK\x03\x04....", "zip"},
                {"SQLite format 3....", "SQLite"},
                {"hello, world", "hello"}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)rows[i].bytes, strlen(rows[i].bytes), "x");
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(ech_import_source(source, NULL, NULL, &error));
        ck_assert_msg(strstr(error->message, rows[i].says), "%s", error->message);
    }
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_test_try_corpus("source/mangled.pb", &error));
    ck_assert_msg(strstr(error->message, "saved as UTF-8"), "%s", error->message);
}
END_TEST

START_TEST(json_numbers_keep_every_digit)
{
    static const struct {
        const char *text;
        int64_t us;
        int32_t ps;
    } rows[] = {{"1695835542514261", 1695835542514261, 0},
                {"1419116104994.671", 1419116104994, 671000},
                {"0.000001", 0, 1},
                {"1e-06", 0, 1},
                {"1.5e3", 1500, 0},
                {"-0.25", -1, 750000},
                {"12.3456789", 12, 345678}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        int64_t us;
        int32_t ps;
        ck_assert(ech_json_parse_us(rows[i].text, strlen(rows[i].text), &us, &ps));
        ck_assert_int_eq(us, rows[i].us);
        ck_assert_int_eq(ps, rows[i].ps);
    }
    int64_t us;
    int32_t ps;
    ck_assert(!ech_json_parse_us("99999999999999999999", 20, &us, &ps));
    ck_assert(!ech_json_parse_us("1.2.3", 5, &us, &ps));
    ck_assert(!ech_json_parse_us("", 0, &us, &ps));
}
END_TEST

/* Strings, escapes and skips must not depend on where the window is refilled. */
START_TEST(json_tokens_across_windows)
{
    g_autoptr(GString) text = g_string_new("[");
    for (int i = 0; i < 60000; i++)
        g_string_append_printf(text, "%s{\"k\\u00e9y\\\\%d\": \"v\\\"%d\\n\", \"skip\": {\"a\": [1, \"]}\\\\\", {}]}, \"n\": -%d.5e0}", i ? ",\n " : "", i, i,
                               i);
    g_string_append(text, "]");
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, NULL);
    g_autoptr(EchJson) json = ech_json_new(source);
    ck_assert_int_eq(ech_json_next(json), ECH_JSON_ARRAY);
    for (int i = 0; i < 60000; i++) {
        char expected[64];
        size_t n;
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_OBJECT);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        g_snprintf(expected, sizeof expected, "k\xc3\xa9y\\%d", i);
        ck_assert_str_eq(ech_json_text(json, &n), expected);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_STRING);
        g_snprintf(expected, sizeof expected, "v\"%d\n", i);
        ck_assert_str_eq(ech_json_text(json, &n), expected);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        ck_assert(ech_json_skip(json));
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_NUMBER);
        g_snprintf(expected, sizeof expected, "-%d.5e0", i);
        ck_assert_str_eq(ech_json_text(json, &n), expected);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_OBJECT_END);
    }
    ck_assert_int_eq(ech_json_next(json), ECH_JSON_ARRAY_END);
    ck_assert_int_eq(ech_json_next(json), ECH_JSON_END);
}
END_TEST

/* Quotes inside names that nobody escaped, wherever the window is refilled; what follows a string says where it ends. */
START_TEST(json_quotes_in_names)
{
    g_autoptr(GString) text = g_string_new("[");
    for (int i = 0; i < 30000; i++)
        g_string_append_printf(
            text,
            "%s{\"name\": \"f(\"a\", \"b\") %d\" ,\n \"skip\": {\"x\": \"one \"two\" three\"}, \"paths\": [\"/\"a/\"\", \"b\"], \"last\": \"is \"quoted\"\"}",
            i ? ",\n " : "", i);
    g_string_append(text, "]");
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, NULL);
    g_autoptr(EchJson) json = ech_json_new(source);
    ck_assert_int_eq(ech_json_next(json), ECH_JSON_ARRAY);
    for (int i = 0; i < 30000; i++) {
        char expected[64];
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_OBJECT);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_STRING);
        g_snprintf(expected, sizeof expected, "f(\"a\", \"b\") %d", i);
        ck_assert_str_eq(ech_json_text(json, NULL), expected);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        ck_assert(ech_json_skip(json));
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        ck_assert_str_eq(ech_json_text(json, NULL), "paths");
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_ARRAY);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_STRING);
        ck_assert_str_eq(ech_json_text(json, NULL), "/\"a/\"");
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_STRING);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_ARRAY_END);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_KEY);
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_STRING);
        ck_assert_str_eq(ech_json_text(json, NULL), "is \"quoted\"");
        ck_assert_int_eq(ech_json_next(json), ECH_JSON_OBJECT_END);
    }
    ck_assert_int_eq(ech_json_next(json), ECH_JSON_ARRAY_END);
    ck_assert_int_eq(ech_json_next(json), ECH_JSON_END);
    ck_assert_uint_ge(ech_json_repaired(json), 30000 * 4);
}
END_TEST

/* What is no quote in a name is an error where it stands, not at the end of the text. */
START_TEST(json_missing_comma)
{
    g_autoptr(GString) text = g_string_new("{\"a\": \"b\" \"c\": [");
    for (int i = 0; i < 200000; i++)
        g_string_append(text, "1, ");
    g_string_append(text, "1]}");
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, NULL);
    g_autoptr(EchJson) json = ech_json_new(source);
    EchJsonToken token;
    do
        token = ech_json_next(json);
    while (token != ECH_JSON_BAD && token != ECH_JSON_END);
    g_autoptr(GError) error = NULL;
    ck_assert(!ech_json_error(json, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "byte 9: expected ',' or a closing bracket"));
}
END_TEST

START_TEST(source_without_its_mark)
{
    static const char marked[] = "\xef\xbb\xbf[]";
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)marked, 5, NULL);
    size_t n;
    ck_assert_int_eq(ech_source_head(source, &n)[0], '[');
    ck_assert_uint_eq(n, 2);
    char two[8];
    ck_assert_int_eq(ech_source_read(source, two, sizeof two, NULL), 2);
    ck_assert_mem_eq(two, "[]", 2);
    /* Inside gzip as well: "\xef\xbb\xbf[]", packed. */
    static const uint8_t packed[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0x7b, 0xbf, 0x7b, 0x7f, 0x74, 0x2c, 0, 0x73, 0x7e, 0x42, 0x24, 5, 0, 0, 0};
    g_autoptr(EchSource) inside = ech_source_new_memory(packed, sizeof packed, NULL);
    ck_assert_int_eq(ech_source_head(inside, &n)[0], '[');
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(ech_source_read(inside, two, 1, NULL), 1);
    ck_assert_int_eq(ech_source_read(inside, two + 1, 7, NULL), 1);
    ck_assert_mem_eq(two, "[]", 2);
    g_autoptr(GBytes) bytes = ech_source_bytes(inside, 0, NULL);
    ck_assert_uint_eq(g_bytes_get_size(bytes), 2);
}
END_TEST

START_TEST(snapshot_is_rewound)
{
    static const char *const files[] = {"memory_snapshot/small.2.pickle", "memory_snapshot/small.4.pickle", "memory_snapshot/small.5.pickle"};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autoptr(EchImport) import = ech_test_corpus(files[i], NULL);
        const EchTrace *t = import->trace;
        ck_assert_uint_eq(ech_trace_n_buffers(t), 4);
        const EchBuffer *b = ech_trace_buffers(t);
        /* By address: the one live throughout, then the one the window frees. */
        ck_assert(b[0].resident && b[0].bytes == 300 && b[0].rounded == 512 && b[0].address == UINT64_C(0x7f0000000000));
        ck_assert(b[1].resident && b[1].bytes == 77 && b[1].rounded == 0);
        ck_assert(!b[2].resident && b[2].bytes == 2 << 20);
        ck_assert_str_eq(ech_trace_string(t, b[0].stack), "/home/me/train.py:7:forward\n/home/me/train.py:40:main");
        ck_assert_str_eq(ech_trace_string(t, b[0].name), "train.py:7");
        ck_assert_uint_eq(ech_test_count(t, ECH_OP_ALLOC), 2);
        ck_assert_uint_eq(ech_test_count(t, ECH_OP_FREE), 2);
        ech_test_op(t, ECH_OP_MARK, "segment_start address=0x7f0000000000 stream=0 type=small");
        /* Its pool is told by what is there at the end. */
        ech_test_op(t, ECH_OP_MARK, "segment_alloc address=0x7f0004000000 stream=7 pool=0:1");
        ech_test_op(t, ECH_OP_MARK, "free_requested address=0x7f0004000000");
        ech_test_op(t, ECH_OP_MARK, "oom device_free=99 reserved=23068672 stream=0");
        /* The refused request is asked for again, behind everything else; 1 GiB from a device that had 99 bytes left. */
        EchId hbm = ech_trace_find_memory(t, "hbm");
        g_autoptr(GArray) refusals = ech_alloc_refusals(t, hbm);
        ck_assert_uint_eq(refusals->len, 1);
        ck_assert_uint_eq(g_array_index(refusals, EchRefusal, 0).bytes, 1 << 30);
        bool limited;
        ck_assert_uint_eq(ech_alloc_refused_capacity(t, hbm, &limited), 23068672 + 99);
        ck_assert(!limited);
        g_autoptr(GArray) events = ech_alloc_events_of_trace(t, hbm, true, false);
        const EchAllocEvent *last = &g_array_index(events, EchAllocEvent, events->len - 2);
        guint captured = 0; /* what its program's own pool is asked for, on another stream than the default one */
        for (guint j = 0; j < events->len; j++) {
            const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, j);
            ck_assert_uint_eq(event->captured, event->private_pool);
            captured += event->captured && event->bytes == 2 << 20;
        }
        ck_assert_uint_gt(captured, 0);
        ck_assert(last->kind == ECH_EVENT_ALLOC && last->id == 4 && last->bytes == 1 << 30 && last[1].kind == ECH_EVENT_FREE && last[1].id == 4);
        ech_test_op(t, ECH_OP_MARK, "START step");
        g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(t, ech_trace_find_memory(t, "hbm"));
        ck_assert_uint_eq(lifetimes->end_live, 1300);
        ck_assert_str_eq(ech_trace_get_property(t, "end_reserved_bytes"), "23068672");
        ck_assert_uint_eq(ech_diag_count(import->records, "alloc"), 2);
    }
}
END_TEST

START_TEST(pickles_run_nothing)
{
    static const char *const refused[] = {"\x80\x04"
                                          "cos\nsystem\n.",
                                          "\x80\x04\x8c\x02os\x8c\x06system\x93.",
                                          "\x80\x04}\x81.",
                                          "\x80\x04}b.",
                                          "\x80\x04}R.",
                                          "\x80\x04P1\n.",
                                          "\x80\x04\x82\x01."};
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)refused[i], strlen(refused[i]), "evil");
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(ech_import_source(source, "memory_snapshot", NULL, &error));
        ck_assert(error->domain == ECH_ERROR);
    }
}
END_TEST

static EchImport *must_import(const char *text)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), NULL);
    g_autoptr(GError) error = NULL;
    EchImport *import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    return import;
}

START_TEST(kineto_joins)
{
    g_autoptr(EchImport) import = ech_test_corpus("kineto/new.json", NULL);
    const EchTrace *t = import->trace;
    const EchOp *kernel = ech_test_op(t, ECH_OP_KERNEL, "sgemm<float>");
    ck_assert_int_eq(kernel->recorded.duration, 20500000);
    ck_assert_str_eq(ech_trace_string(t, kernel->stack), "aten::mm\ntrain.py(3): step");
    /* 64x128 times 128x32 in float: inputs read once, product written. */
    ck_assert_uint_eq(kernel->n_uses, 2);
    ck_assert_uint_eq(ech_trace_uses(t)[kernel->first_use].bytes, (64 * 128 + 128 * 32) * 4);
    ck_assert_uint_eq(ech_trace_uses(t)[kernel->first_use + 1].bytes, 64 * 32 * 4);
    ck_assert_uint_eq(ech_trace_work(t)[kernel->first_work].count, 2 * 64 * 128 * 32);
    ck_assert_int_eq(ech_trace_work(t)[kernel->first_work].origin, ECH_INFERRED);
    /* The stream wait waits for the copy issued before the event was recorded. */
    const EchOp *copy = ech_test_op(t, ECH_OP_COPY, NULL), *wait = ech_test_op(t, ECH_OP_WAIT, "Stream Wait Event");
    ck_assert_uint_eq(copy->bytes, 4096);
    ck_assert_uint_eq(wait->n_deps, 1);
    ck_assert_ptr_eq(&ech_trace_ops(t)[ech_trace_deps(t)[wait->first_dep].op], copy);
    /* 5120 after an allocation of 1024: 4096 before it, 512 of them freed later. */
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(t, ech_trace_find_memory(t, "hbm"));
    ck_assert_uint_eq(lifetimes->peak, 5120);
    ck_assert_uint_eq(lifetimes->end_live, 3584);
    ck_assert_uint_eq(ech_diag_count(import->records, "kernel"), 1);
}
END_TEST

/* Calls in their order: a kernel (name, stream, when it began and for how long, microseconds) or, without a name, a wait that says nothing. A letter in
 * @waits for each wait that is to come out: the kernel that it is before, then the one that it is for. */
static const struct {
    const char *waits;
    struct {
        const char *name;
        int stream, start, duration, device, thread;
    } calls[8];
} untold[] = {
    /* A collective that is waited for at once. */
    {"ra br", {{"a", 7, 100, 50, 0, 1}, {0}, {"r", 14, 152, 40, 0, 1}, {0}, {0}, {"b", 7, 194, 50, 0, 1}}},
    /* One that goes on beside the next kernel, waited for in front of the one after. */
    {"ra cr", {{"a", 7, 100, 50, 0, 1}, {0}, {"r", 14, 152, 90, 0, 1}, {"b", 7, 152, 50, 0, 1}, {0}, {"c", 7, 244, 50, 0, 1}}},
    /* It had not ended when the kernel began: so that did not wait for it. */
    {"ra", {{"a", 7, 100, 50, 0, 1}, {0}, {"r", 14, 152, 90, 0, 1}, {0}, {"b", 7, 160, 50, 0, 1}}},
    /* Two gathers asked for ahead: the wait for the first comes before the second is launched, and holds up what is launched after. */
    {"ra sa br", {{"a", 7, 100, 20, 0, 1}, {0}, {"r", 14, 122, 90, 0, 1}, {0}, {0}, {"s", 15, 122, 150, 0, 1}, {"b", 7, 215, 50, 0, 1}}},
    /* The same, but the kernel was late for a reason of its own (nothing ended just before): no more is known. */
    {"ra sa", {{"a", 7, 100, 20, 0, 1}, {0}, {"r", 14, 122, 40, 0, 1}, {0}, {0}, {"s", 15, 122, 150, 0, 1}, {"b", 7, 215, 50, 0, 1}}},
    /* Another thread launches what waits. */
    {"ra br", {{"a", 7, 100, 50, 0, 1}, {0}, {"r", 14, 152, 40, 0, 1}, {.thread = 1}, {"b", 7, 194, 50, 0, 2}}},
    /* But not for another device. */
    {"", {{"a", 7, 100, 50, 0, 1}, {.thread = 1}, {"b", 7, 194, 50, 1, 1}}},
};

/* "ra br": r comes after a, b after r. */
static char *order_of(const EchTrace *t)
{
    g_autoptr(GString) found = g_string_new(NULL);
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++)
            g_string_append_printf(found, "%s%s%s", found->len ? " " : "", ech_trace_string(t, op->name),
                                   ech_trace_string(t, ech_trace_ops(t)[ech_trace_deps(t)[d].op].name));
    }
    return g_string_free(g_steal_pointer(&found), FALSE);
}

START_TEST(kineto_waits_untold)
{
    g_autoptr(GString) text = g_string_new("{\"traceEvents\": [");
    for (int i = 0; i < 8; i++) {
        const char *name = untold[_i].calls[i].name;
        int thread = MAX(untold[_i].calls[i].thread, 1), device = untold[_i].calls[i].device;
        g_string_append_printf(
            text,
            "%s{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"%s\", \"pid\": 1, \"tid\": %d, \"ts\": %d, \"dur\": 1, \"args\": {\"correlation\": %d}}",
            i ? ", " : "", name ? "cudaLaunchKernel" : "cudaStreamWaitEvent", thread, 10 + 2 * i, i + 1);
        if (name)
            g_string_append_printf(text,
                                   ", {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %d, \"dur\": %d, \"args\": "
                                   "{\"correlation\": %d, \"device\": %d, \"stream\": %d}}",
                                   name, device, untold[_i].calls[i].stream, untold[_i].calls[i].start, untold[_i].calls[i].duration, i + 1, device,
                                   untold[_i].calls[i].stream);
    }
    g_string_append(text, "]}");
    g_autoptr(EchImport) import = must_import(text->str);
    const EchTrace *t = import->trace;
    g_autofree char *found = order_of(t);
    ck_assert_str_eq(found, untold[_i].waits);
}
END_TEST

/* A copy between two devices runs on a stream of either. */
START_TEST(copies_between_devices)
{
    static const struct {
        const char *text;
        const char *from, *to;
    } cases[] = {
        {"echelon-capture 1\nclock 0 1\nkernel 0 10 0 7 1 1 1 1 1 1 1 \"a\"\nkernel 0 10 1 7 2 1 1 1 1 1 1 \"b\"\npeer 100 200 0 7 3 4096 0 1 1\nend\n", "hbm",
         "hbm:1"},
        {"echelon-capture 1\nclock 0 1\nkernel 0 10 0 7 1 1 1 1 1 1 1 \"a\"\nkernel 0 10 1 7 2 1 1 1 1 1 1 \"b\"\npeer 100 200 1 7 3 4096 0 1 1\nend\n", "hbm",
         "hbm:1"},
#define KINETO(device)                                                                                                                                         \
    "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"pid\": 0, \"tid\": 7, \"ts\": 0, \"dur\": 1, \"args\": {\"stream\": 7}}, "     \
    "{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy PtoP (Device -> Device)\", \"pid\": " device                                                  \
    ", \"tid\": 7, \"ts\": 2, \"dur\": 1, \"args\": "                                                                                                          \
    "{\"bytes\": 4096, \"stream\": 7, \"fromDevice\": 1, \"inDevice\": " device ", \"toDevice\": 0}}]}"
        {KINETO("1"), "hbm:1", "hbm"},
        {KINETO("0"), "hbm:1", "hbm"},
#undef KINETO
    };
    g_autoptr(EchImport) import = must_import(cases[_i].text);
    const EchOp *copy = ech_test_op(import->trace, ECH_OP_COPY, NULL);
    ck_assert_str_eq(ech_trace_memory(import->trace, copy->memory_from), cases[_i].from);
    ck_assert_str_eq(ech_trace_memory(import->trace, copy->memory_to), cases[_i].to);
    ck_assert_uint_eq(copy->bytes, 4096);
    ck_assert(ech_trace_copy_between(import->trace, copy));
}
END_TEST

/* Waits of streams that were recorded, and of none of which it is told what for (CUDA 12.9): the calls tell it. Where some are, that is all there was. */
START_TEST(kineto_waits_unheard)
{
    static const char *const others[] = {
        "", ", {\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Stream Wait Event\", \"pid\": 0, \"tid\": 9, \"ts\": 1, \"dur\": 0, "
            "\"args\": {\"cuda_sync_kind\": \"Stream Wait Event\", \"stream\": 9, \"device\": 0, \"wait_on_stream\": 7, "
            "\"wait_on_cuda_event_record_corr_id\": 1}}"};
    g_autofree char *text = g_strdup_printf(
        "{\"traceEvents\": ["
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"pid\": 0, \"tid\": 7, \"ts\": 5, \"dur\": 50, \"args\": {\"stream\": 7, \"correlation\": 1}},"
        "{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Stream Wait Event\", \"pid\": 0, \"tid\": 14, \"ts\": 3, \"dur\": 0, \"args\": "
        "{\"cuda_sync_kind\": "
        "\"Stream Wait Event\", \"stream\": 14, \"device\": 0, \"wait_on_stream\": -1, \"wait_on_cuda_event_record_corr_id\": -1}},"
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"pid\": 0, \"tid\": 14, \"ts\": 57, \"dur\": 10, \"args\": {\"stream\": 14, \"correlation\": "
        "2}},"
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, \"ts\": 2, \"dur\": 1, \"args\": {\"correlation\": "
        "1}},"
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, \"ts\": 4, \"dur\": 1, \"args\": {\"correlation\": "
        "2}}%s]}",
        others[_i]);
    g_autoptr(EchImport) import = must_import(text);
    g_autofree char *found = order_of(import->trace);
    ck_assert_str_eq(found, _i == 0 ? "ba" : "");
    ck_assert_int_eq(*ech_diag_remarks(import->diag) != NULL, _i == 0);
}
END_TEST

/* What PyTorch says of NCCL's kernels. Nothing expected: it stays a kernel. */
static const struct {
    const char *args;
    EchCollective kind;
    EchBytes bytes;
    uint32_t group;
    const char *layout;
} collectives[] = {
    {"\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Group size\": 8, \"dtype\": \"BFloat16\", \"Process Group Ranks\": \"[0, 1, 2, 3, 4, "
     "5, 6, 7]\"",
     ECH_COLLECTIVE_ALL_REDUCE, 2000, 8, "devices=8 stride=1"},
    {"\"Collective name\": \"_allgather_base\", \"In msg nelems\": 1000, \"Group size\": 4, \"dtype\": \"Float\", \"Process Group Ranks\": \"[3, 11, ...]\"",
     ECH_COLLECTIVE_ALL_GATHER, 4000, 4, "devices=32 stride=8"},
    {"\"Collective name\": \"_reduce_scatter_base\", \"In msg nelems\": 16, \"Group size\": 2, \"dtype\": \"Byte\"", ECH_COLLECTIVE_REDUCE_SCATTER, 16, 2, ""},
    {"\"Collective name\": \"all_to_allv\", \"In msg nelems\": 16, \"Group size\": 2, \"dtype\": \"Long\"", ECH_COLLECTIVE_ALL_TO_ALL, 128, 2, ""},
    {"\"Collective name\": \"send\", \"In msg nelems\": 16, \"Group size\": 1, \"dtype\": \"Half\"", ECH_COLLECTIVE_SEND, 32, 2, ""},
    {"\"Collective name\": \"gather\", \"In msg nelems\": 16, \"Group size\": 2, \"dtype\": \"Half\"", ECH_COLLECTIVE_NONE, 0, 0, ""},
    {"\"Collective name\": \"allreduce\", \"In msg nelems\": 16, \"Group size\": 1, \"dtype\": \"Half\"", ECH_COLLECTIVE_NONE, 0, 0, ""},
    {"\"Collective name\": \"allreduce\", \"In msg nelems\": -16, \"Group size\": 2, \"dtype\": \"Half\"", ECH_COLLECTIVE_NONE, 0, 0, ""},
    {"\"Collective name\": \"allreduce\", \"In msg nelems\": 16, \"Group size\": 2, \"dtype\": \"Quaternion\"", ECH_COLLECTIVE_NONE, 0, 0, ""},
};

START_TEST(kineto_collectives)
{
    g_autofree char *text = g_strdup_printf("{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"nccl\", \"ts\": 10, \"dur\": 1, \"args\": "
                                            "{\"stream\": 7, \"grid\": [8, 1, 1], \"block\": [512, 1, 1], %s}}]}",
                                            collectives[_i].args);
    g_autoptr(EchImport) import = must_import(text);
    bool is = collectives[_i].kind != ECH_COLLECTIVE_NONE;
    const EchOp *op = ech_test_op(import->trace, is ? ECH_OP_COLLECTIVE : ECH_OP_KERNEL, "nccl");
    ck_assert_int_eq(op->recorded.duration, ECH_PS_PER_US);
    if (!is)
        return;
    ck_assert_int_eq(op->collective, collectives[_i].kind);
    ck_assert_uint_eq(op->bytes, collectives[_i].bytes);
    ck_assert_uint_eq(op->memory_from, collectives[_i].group);
    const char *launch = op->launch == ECH_NONE ? "" : ech_trace_string(import->trace, op->launch);
    ck_assert_msg(g_str_has_prefix(launch, collectives[_i].layout), "%s", launch);
    ck_assert_int_eq(*ech_meets_of(launch) != '\0', strstr(collectives[_i].args, "Process Group") != NULL);
}
END_TEST

/* Who meets whom: a group by its name and ranks, in the order in which it ran whatever the file's; messages by who sends to whom; what says its number ("Seq")
 * is not counted. */
START_TEST(kineto_meetings)
{
#define GROUP(collective, name) "\"Collective name\": \"" collective "\", \"Process Group Ranks\": \"[0, 1]\", \"Process Group Name\": \"" name "\""
    static const struct {
        const char *args;
        int start, like, times; /* like: the one before whose group it is, or -1 */
    } events[] = {
        {GROUP("allreduce", "0"), 30, -1, 1},
        {GROUP("_allgather_base", "0"), 10, 0, 0},
        {GROUP("allreduce", "1"), 50, -1, 0},
        {GROUP("allreduce", "0") ", \"Seq\": 7", 60, -1, 0},
        {GROUP("send", "0") ", \"Dst Rank\": 1", 70, -1, 0},
        {GROUP("recv", "0") ", \"Src Rank\": 1", 80, -1, 0},
        {GROUP("send", "0") ", \"Dst Rank\": 1", 90, 4, 1},
    };
#undef GROUP
    g_autoptr(GString) text = g_string_new("{\"traceEvents\": [");
    for (size_t i = 0; i < G_N_ELEMENTS(events); i++)
        g_string_append_printf(text,
                               "%s{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"nccl%zu\", \"ts\": %d, \"dur\": 1, \"args\": {\"stream\": 7, "
                               "\"In msg nelems\": 16, \"Group size\": 2, \"dtype\": \"Half\", %s}}",
                               i ? ", " : "", i, events[i].start, events[i].args);
    g_string_append(text, "], \"distributedInfo\": {\"rank\": 0, \"world_size\": 2}}");
    g_autoptr(EchImport) import = must_import(text->str);
    ck_assert_str_eq(ech_trace_get_property(import->trace, "rank"), "0");
    EchMeeting met[G_N_ELEMENTS(events)];
    for (size_t i = 0; i < G_N_ELEMENTS(events); i++) {
        g_autofree char *name = g_strdup_printf("nccl%zu", i);
        const char *at = ech_meets_of(ech_trace_string(import->trace, ech_test_op(import->trace, ECH_OP_COLLECTIVE, name)->launch));
        ck_assert_msg(ech_meets_next(&at, &met[i]), "%zu", i);
        ck_assert_msg((int)met[i].times == events[i].times, "%zu", i);
        ck_assert_int_eq(met[i].sends, strstr(events[i].args, "send") != NULL);
        for (size_t k = 0; k < i; k++)
            ck_assert_msg((met[i].group == met[k].group) == (events[i].like == (int)k), "%zu, %zu", k, i);
    }
}
END_TEST

/* What does not say it itself is sized by the call or the operator that launched it; the kernels of one call share what it sends. @events: of the host, at 10
 * to 20 us. Nothing expected: it stays a kernel. */
static const struct {
    const char *kernel, *events;
    int64_t world;
    EchCollective kind;
    EchBytes bytes;
    uint32_t group;
} sized[] = {
    {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
     "{\"cat\": \"cpu_op\", \"name\": \"nccl:all_reduce\", \"args\": {\"Input Dims\": [[1000]], \"Input type\": [\"float\"]}", 8, ECH_COLLECTIVE_ALL_REDUCE,
     4000, 8},
    {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
     "{\"cat\": \"cpu_op\", \"name\": \"c10d::_reduce_scatter_base_\", \"args\": {\"Input Dims\": [[100], [400]], \"Input type\": [\"float\", \"float\"]}"
     ", {\"cat\": \"cpu_op\", \"name\": \"nccl:_reduce_scatter_base\", \"args\": {\"Input Dims\": [[400]], \"Input type\": [\"float\"]}",
     16, ECH_COLLECTIVE_REDUCE_SCATTER, 1600, 4},
    {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)",
     "{\"cat\": \"cpu_op\", \"name\": \"_C_custom_ar::all_reduce\", \"args\": {\"External id\": 5, \"Input Dims\": [[], [4, 100], [4, 100], [], []], \"Input "
     "type\": [\"Scalar\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", \"Scalar\"]}",
     8, ECH_COLLECTIVE_ALL_REDUCE, 800, 4},
    /* How many take part nobody says. */
    {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
     "{\"cat\": \"cpu_op\", \"name\": \"nccl:all_reduce\", \"args\": {\"Input Dims\": [[1000]], \"Input type\": [\"float\"]}", 0, ECH_COLLECTIVE_NONE, 0, 0},
    /* What is sent nobody says; of what kind it is. */
    {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "{\"cat\": \"cpu_op\", \"name\": \"nccl:all_reduce\", \"args\": {}", 8, ECH_COLLECTIVE_NONE, 0, 0},
    {"ncclDevKernel_Generic(x)", "{\"cat\": \"cpu_op\", \"name\": \"nccl:coalesced\", \"args\": {\"Input Dims\": [[1000]], \"Input type\": [\"float\"]}", 8,
     ECH_COLLECTIVE_NONE, 0, 0},
};

START_TEST(kineto_collectives_sized_by_calls)
{
    g_autoptr(GString) events = g_string_new(sized[_i].events);
    g_string_replace(events, "{\"cat\"", "{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": 10, \"dur\": 10, \"cat\"", 0);
    g_string_replace(events, "]}, {", "]}}, {", 0);
    g_autofree char *text = g_strdup_printf(
        "{\"distributedInfo\": {\"backend\": \"nccl\", \"pg_config\": [{\"pg_size\": 3}], \"world_size\": %" G_GINT64_FORMAT "}, \"traceEvents\": [%s}, "
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, \"ts\": 15, \"dur\": 1, \"args\": "
        "{\"correlation\": "
        "9}}, {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7, \"ts\": 30, \"dur\": 1, \"args\": {\"stream\": 7, \"device\": 0, "
        "\"correlation\": 9, \"External id\": 5}}]}",
        sized[_i].world, events->str, sized[_i].kernel);
    g_autoptr(EchImport) import = must_import(text);
    bool is = sized[_i].kind != ECH_COLLECTIVE_NONE;
    const EchOp *op = ech_test_op(import->trace, is ? ECH_OP_COLLECTIVE : ECH_OP_KERNEL, sized[_i].kernel);
    ck_assert_int_eq(op->recorded.duration, ECH_PS_PER_US);
    if (!is)
        return;
    ck_assert_int_eq(op->collective, sized[_i].kind);
    ck_assert_uint_eq(op->bytes, sized[_i].bytes);
    ck_assert_int_eq(op->bytes_origin, ECH_INFERRED);
    ck_assert_uint_eq(op->memory_from, sized[_i].group);
}
END_TEST

/* A kernel whose call is not recorded was asked for no later than what comes behind it in its stream; work of one launch is in the order in which it began. */
START_TEST(kineto_streams_keep_their_order)
{
    g_autoptr(EchImport) import = must_import(
        "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaGraphLaunch\", \"pid\": 1, \"tid\": 1, \"ts\": 10, \"dur\": 1, "
        "\"args\": {\"correlation\": 1}}, "
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"c\", \"ts\": 50, \"dur\": 5, \"args\": {\"stream\": 7, \"correlation\": 1}}, "
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"ts\": 40, \"dur\": 5, \"args\": {\"stream\": 7, \"correlation\": 1}}, "
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 30, \"dur\": 5, \"args\": {\"stream\": 7}}]}");
    const EchTrace *t = import->trace;
    const EchOp *a = ech_test_op(t, ECH_OP_KERNEL, "a"), *b = ech_test_op(t, ECH_OP_KERNEL, "b"), *c = ech_test_op(t, ECH_OP_KERNEL, "c");
    ck_assert(a < b && b < c);
    ck_assert_uint_eq(ech_diag_count(import->diag, "issue_times_by_stream_order"), 1);
}
END_TEST

START_TEST(kineto_of_2021)
{
    g_autoptr(EchImport) import = ech_test_corpus("kineto/old.json", NULL);
    ech_test_op(import->trace, ECH_OP_KERNEL, "a\\xq<float>");
    ck_assert_uint_eq(ech_diag_count(import->diag, "strings_repaired"), 1);
    ck_assert_int_eq(ech_test_op(import->trace, ECH_OP_COPY, NULL)->bytes_origin, ECH_ABSENT);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_without_bytes"), 1);
}
END_TEST

/* Its nodes are the host's, and told beside the kernels. */
START_TEST(onnx_runtime)
{
    static const char *const said[] = {"nodes run by CUDAExecutionProvider: 3, in 440 us: MatMul 400 us, MemcpyToHost 40 us",
                                       "nodes run by CPUExecutionProvider: 1, in 200 us: NonMaxSuppression",
                                       "(MemcpyToHost and MemcpyFromHost: 1)",
                                       "weights: 1 MiB",
                                       "the largest result, 256 KiB: /mm",
                                       "its arena had given out 2 MiB"};
    g_autoptr(EchImport) import = ech_test_corpus("kineto/onnx.json", "kineto");
    ck_assert_int_eq(ech_test_op(import->trace, ECH_OP_KERNEL, "sgemm_32x32")->recorded.duration, 20 * ECH_PS_PER_US);
    for (size_t i = 0; i < G_N_ELEMENTS(said); i++)
        ck_assert_msg(ech_test_says(import->diag, said[i]), "%s", said[i]);
    /* What holds other nodes takes no time of its own; that none ran on a GPU is theirs to say. */
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) nested = ech_test_text("[{\"cat\":\"Node\",\"pid\":1,\"tid\":1,\"dur\":30,\"ts\":5,\"ph\":\"X\",\"name\":\"r\",\"args\":{\"op_name\":"
                                                "\"Relu\",\"provider\":\"CPUExecutionProvider\"}},"
                                                "{\"cat\":\"Node\",\"pid\":1,\"tid\":1,\"dur\":50,\"ts\":1,\"ph\":\"X\",\"name\":\"i\",\"args\":{\"op_name\":"
                                                "\"If\",\"provider\":\"CPUExecutionProvider\"}}]",
                                                &error);
    ck_assert_ok(nested != NULL, error);
    ck_assert(ech_test_says(nested->diag, "nodes run by CPUExecutionProvider: 2, in 30 us: Relu 30 us"));
    ck_assert(!ech_test_says(nested->diag, "ProfilerActivity"));
}
END_TEST

/* What a kernel was launched with: lists of three, shorter ones filled up, what is no number left alone. */
static const struct {
    const char *args, *launch;
} launched[] = {
    {"\"grid\": [96, 2, 3], \"block\": [128, 4, 1], \"shared memory\": 49152, \"registers per thread\": 230",
     "grid=96x2x3 block=128x4x1 shared=49152 registers=230"},
    {"\"grid\": [96], \"block\": [128, 2]", "grid=96x1x1 block=128x2x1"},
    {"\"grid\": [7, 1, 1, 9, 9], \"block\": [32, 1, 1]", "grid=7x1x1 block=32x1x1"},
    {"\"grid\": null, \"block\": \"32\"", ""},
};

START_TEST(kineto_launches)
{
    g_autofree char *text = g_strdup_printf("{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 10, \"dur\": 1, \"args\": "
                                            "{\"stream\": 7, %s}}]}",
                                            launched[_i].args);
    g_autoptr(EchImport) import = must_import(text);
    ck_assert_str_eq(ech_trace_string(import->trace, ech_test_op(import->trace, ECH_OP_KERNEL, "k")->launch), launched[_i].launch);
}
END_TEST

/* Numbers as other tools write them again, an array that nobody closed, events that are none or have no time. */
START_TEST(kineto_written_by_others)
{
    static const char text[] =
        "[{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pinned -> Device)\", \"pid\": 0.0, \"tid\": 7.0, \"ts\": 1e2, \"dur\": 2.5, "
        "\"args\": {\"bytes\": 4096.0, \"device\": 0.0, \"stream\": 7.0, \"memory bandwidth (GB/s)\": Infinity}},\n"
        "null, {}, [1, [2]],\n"
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": NaN, \"dur\": 1},\n"
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"last\", \"ts\": 110, \"dur\": 1, \"args\": {\"stream\": 7}},\n";
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, sizeof text - 1, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_msg(import != NULL, "%s", error ? error->message : "");
    const EchOp *copy = ech_test_op(import->trace, ECH_OP_COPY, NULL), *last = ech_test_op(import->trace, ECH_OP_KERNEL, "last");
    ck_assert_uint_eq(copy->bytes, 4096);
    ck_assert_uint_eq(copy->queue, last->queue);
    ck_assert_int_eq(last->recorded.start - copy->recorded.start, 10 * ECH_PS_PER_US);
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_KERNEL), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "events_without_time"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "events_that_are_no_objects"), 2);
    /* Within an event the text may not end: what comes before it is used, and that it does is counted. */
    g_autoptr(EchSource) cut = ech_source_new_memory((const uint8_t *)text, sizeof text - 6, NULL);
    g_autoptr(EchImport) part = ech_import_source(cut, NULL, NULL, &error);
    ck_assert_ok(part != NULL, error);
    ck_assert_uint_eq(ech_diag_count(part->diag, "cut_files"), 1);
    ck_assert_uint_eq(ech_test_count(part->trace, ECH_OP_COPY), 1);
    ck_assert_uint_eq(ech_test_count(part->trace, ECH_OP_KERNEL), 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "cut_files"), 0);
}
END_TEST

/* A profile of the CPU alone says so; one with kernels does not. */
START_TEST(profiles_without_a_device)
{
    static const char text[] =
        "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"a\", \"ts\": 1, \"dur\": 2}]}";
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, sizeof text - 1, NULL);
    g_autoptr(EchImport) alone = ech_import_source(source, NULL, NULL, NULL), both = ech_test_corpus("kineto/metadata_at_zero.json", NULL);
    ck_assert_ptr_nonnull(ech_diag_remarks(alone->diag)[0]);
    ck_assert_ptr_nonnull(strstr(ech_diag_remarks(alone->diag)[0], "nothing in it ran on a GPU"));
    ck_assert_ptr_null(ech_diag_remarks(both->diag)[0]);
}
END_TEST

/* What is no capture but lies where captures lie is named, with what to give instead. */
START_TEST(look_alikes_are_named)
{
    static const struct {
        const char *text;
        size_t n; /* 0: up to the NUL */
        const char *said;
    } cases[] = {
        {"BufferAssignment:\nallocation 0: size 4, parameter 0", 0, "read beside its program"},
        {"HloLiveRange (max 12):\n  InstructionSequence:", 0, "read beside its program"},
        {"; ModuleID = '__compute_module'\nsource_filename = \"x\"", 0, "LLVM"},
        {"xla_cpu_enable_fast_math: false\nxla_dump_to: \"\"", 0, "options"},
        {"\xff\xfe\0\xd8[\0", 6, "damaged UTF-16"},
        {"name: x\nmemories:\n  hbm:\n    capacity: 80GiB\nlinks:\n  host:\n", 0, "looks like a device"},
        {"PK\x03\x04....snapshot/data.pkl", 0, "torch.save"},
        {"(dp0\nVsegments\np1\n(lp2\n(dp3\nVdevice\np4\nI0\nsVaddress\np5\nI5\nsVtotal_size\np6", 0, "protocol 2 or later"},
        {"ML\xefR\x0dMLIR", 0, "MLIR bytecode"},
        {"\x3c\0\0\0ML\xefR\rStableHLO_v1.15.0\0", 28, "a program that jax.export wrote"},
        {"\x08\x09\x12\x07pytorch\x1a\x03"
         "2.9",
         16, "an ONNX model"},
        {"\x08\x09\x3a\x20\n\x1e\n\x01x\n\x01w\x12\x01m\"\x06MatMul", 23, "an ONNX model"},
        {"digraph G {\nrankdir = TB;\n", 0, "a picture of a program"},
        {"{\"Type\":48,\"TraceProcessEvent\":{\"startNs\":\"1\"}}\n{\"Type\":79,\"CudaEvent\":{}}\n", 0, "'nsys export --type sqlite REPORT'"},
        {"Layer name, IFMAP Height Intraline Factor, IFMAP Width Intraline Factor, Filter Height Intraline Factor, Filter Width Intraline Factor, "
         "Channel Intraline Factor, Num Filter Intraline Factor, IFMAP Height Intraline Order,\nL0,128,8,1,8,1,128,2,\n",
         0, "layout of the layers' data"},
        {"LayerID, Total Cycles (incl. prefetch), Total Cycles, Stall Cycles,\n0, 5, 5, 0,\n", 0, "report that SCALE-Sim wrote"},
        {"-------  ------------\n   Name    Self CPU %      Self CPU\n-------  ------------\n", 0, "torch.profiler's table"},
        {"GGUF\3\0\0\0\0\0\0\0", 12, "weights alone"},
        {"NVIDIA Tegra Profiler Report 1.\n\v\1\2\3", 0, "'nsys export --type sqlite FILE'"},
        {"\x3b\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}", 60, "weights alone"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, \"num_hidden_layers\": 2}", 0, "describes a model, not what it does"},
        {"Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n1024.000,8,128.000,128.000,128.000,128.000,0.000,[CUDA memcpy]\n", 0,
         "'nsys stats'"},
        {"Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd\n0,\"scale.kd\",0,0,0,71,71,4096\n", 0, "without BeginNs and EndNs"},
        {"Kernel_Name,GPU_ID,Start_Timestamp,End_Timestamp\nscale,1,1.0E+05,1.0E+05\n", 0, "x:2: Start_Timestamp: '1.0E+05' is no time"},
        {"{\"segments\": [], \"device_traces\": [[]]}", 0, "its keys begin \"segments\", \"device_traces\"; it looks like a memory snapshot"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)cases[i].text, cases[i].n ? cases[i].n : strlen(cases[i].text), "x");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert_ptr_null(import);
        ck_assert_msg(strstr(error->message, cases[i].said) != NULL, "%s", error->message);
    }
    g_autoptr(EchSource) report = ech_source_new_memory((const uint8_t *)"\n\1\2\3\4", 5, "module_0001.jit_f-memory-usage-report.pb");
    g_autoptr(GError) unread = NULL;
    ck_assert_ptr_null(ech_import_source(report, NULL, NULL, &unread));
    ck_assert_ptr_nonnull(strstr(unread->message, "the text beside it is read"));
    char tar[512] = "profile/trace.json";
    memcpy(tar + 257, "ustar", 5);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)tar, sizeof tar, "x");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_import_source(source, NULL, NULL, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "a tar archive, of 'profile/trace.json' first"));
}
END_TEST

/* Logs of jax.profiler.trace hold their runs by date; the last one is read. */
START_TEST(folders_of_logs)
{
    g_autofree char *log = g_dir_make_tmp("echelon-log-XXXXXX", NULL);
    static const char *const runs[] = {"2026_01_02_03_04_05", "2026_01_02_03_04_06"};
    const char *files[] = {"xplane/gpu.pb", "xplane/tpu.pb"};
    g_autoptr(GPtrArray) made = g_ptr_array_new_with_free_func(g_free);
    for (size_t i = 0; i < 2; i++) {
        g_autofree char *folder = g_build_filename(log, "plugins", "profile", runs[i], NULL),
                        *from = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus", files[i], NULL), *bytes = NULL;
        gsize n;
        ck_assert_int_eq(g_mkdir_with_parents(folder, 0700), 0);
        ck_assert(g_file_get_contents(from, &bytes, &n, NULL));
        char *to = g_build_filename(folder, "host.xplane.pb", NULL);
        ck_assert(g_file_set_contents(to, bytes, (gssize)n, NULL));
        g_ptr_array_add(made, to);
    }
    g_autoptr(EchImport) last = ech_import_file(log, NULL, NULL, NULL), expected = ech_test_corpus("xplane/tpu.pb", NULL);
    ck_assert_ptr_nonnull(last);
    ck_assert_uint_eq(ech_trace_n_ops(last->trace), ech_trace_n_ops(expected->trace));
    for (guint i = 0; i < made->len; i++) {
        g_autofree char *folder = g_path_get_dirname(made->pdata[i]);
        g_unlink(made->pdata[i]);
        g_rmdir(folder);
    }
    g_autofree char *profile = g_build_filename(log, "plugins", "profile", NULL), *plugins = g_build_filename(log, "plugins", NULL);
    g_rmdir(profile);
    g_rmdir(plugins);
    g_rmdir(log);
}
END_TEST

/* Metadata without a time say 0: they move nothing else out of reach. Times may be quoted, names hold quotes. */
START_TEST(kineto_metadata_at_zero)
{
    g_autoptr(EchImport) import = ech_test_corpus("kineto/metadata_at_zero.json", NULL);
    ck_assert_uint_eq(ech_diag_count(import->diag, "times_out_of_range"), 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "strings_repaired"), 2);
    const EchOp *first = ech_test_op(import->trace, ECH_OP_KERNEL, "a"), *mark = ech_test_op(import->trace, ECH_OP_MARK, "the \"first\" step");
    ck_assert_int_eq(first->recorded.start - mark->recorded.start, 2 * ECH_PS_PER_US);
    ck_assert_int_eq(first->recorded.duration, 1500000);
}
END_TEST

START_TEST(kineto_of_rocm)
{
    g_autoptr(EchImport) import = ech_test_corpus("kineto/rocm.json", NULL);
    const EchTrace *t = import->trace;
    /* One copy says its bytes, the other only its call. */
    const EchOp *in = ech_test_op(t, ECH_OP_COPY, "Memcpy HtoD (Host -> Device)"), *out = ech_test_op(t, ECH_OP_COPY, "Memcpy DtoH (Device -> Host)");
    ck_assert_uint_eq(in->bytes, 1024);
    ck_assert_int_eq(in->bytes_origin, ECH_INFERRED);
    ck_assert_uint_eq(out->bytes, 4096);
    ck_assert_int_eq(out->bytes_origin, ECH_KNOWN);
    ck_assert_str_eq(ech_trace_memory(t, in->memory_from), "host");
    ck_assert_uint_eq(ech_diag_count(import->diag, "copy_bytes_from_their_calls"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_without_bytes"), 0);
    /* Device type 6 is HIP: the allocation is the device's. */
    ck_assert_str_eq(ech_trace_memory(t, ech_trace_buffers(t)[0].memory), "hbm");
    ck_assert_uint_eq(ech_test_op(t, ECH_OP_KERNEL, "Cijk_Ailk_Bljk_BBS")->n_work, 1);
    /* The grid of one that was launched as a module's counts threads. */
    ck_assert(g_str_has_prefix(ech_trace_string(t, ech_test_op(t, ECH_OP_KERNEL, "Cijk_Ailk_Bljk_BBS")->launch), "grid=4x2x1 block=256x1x1 "));
}
END_TEST

/* Each process has addresses and waits of its own. */
START_TEST(nsys_processes)
{
    g_autoptr(EchImport) import = ech_test_corpus("nsys/processes.sqlite", NULL);
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_diag_count(import->diag, "allocs_of_live_addresses"), 0);
    g_autoptr(EchLifetimes) hbm = ech_lifetimes_new(t, ech_trace_find_memory(t, "hbm"));
    ck_assert_uint_eq(hbm->peak, (1 << 20) + (1 << 21));
    ck_assert_uint_eq(hbm->end_live, 0);
    const EchOp *wait = ech_test_op(t, ECH_OP_WAIT, "Context Sync");
    ck_assert_uint_eq(wait->n_deps, 1);
    ck_assert_str_eq(ech_trace_string(t, ech_trace_ops(t)[ech_trace_deps(t)[wait->first_dep].op].name), "one");
    unsigned held_up = 0;
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        for (uint32_t d = 0; op->kind == ECH_OP_KERNEL && d < op->n_deps; d++) {
            if (&ech_trace_ops(t)[ech_trace_deps(t)[op->first_dep + d].op] != wait)
                continue;
            held_up++;
            ck_assert_str_eq(ech_trace_string(t, op->name), "one");
        }
    }
    ck_assert_uint_eq(held_up, 1);
    /* Both have recorded an event of the same number. */
    const EchOp *event = ech_test_op(t, ECH_OP_WAIT, "Stream Wait Event");
    ck_assert_uint_eq(event->n_deps, 1);
    ck_assert_str_eq(ech_trace_string(t, ech_trace_ops(t)[ech_trace_deps(t)[event->first_dep].op].name), "two");
}
END_TEST

/* A process's device is the GPU that the export says it is, whatever number the process has for it; what waits for a device does for the process's. */
/* Runs of graphs that were recorded as a whole are work of their stream: not where their kernels were recorded, too, nor without times. */
START_TEST(nsys_graphs)
{
    g_autofree char *path = ech_test_database(
        "CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1,'add'),(2,'cudaGraphLaunch');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
        " globalPid INTEGER, shortName INTEGER, graphNodeId INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000,2100,0,1,7,1,0,1,NULL),(3000,3100,0,1,7,2,0,1,5),(3200,3300,0,1,7,2,0,1,6);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000,1010,0,1,2),(1020,1030,0,2,2),(1040,1050,0,3,2);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, graphId INTEGER, contextId INTEGER, streamId INTEGER,"
        " correlationId INTEGER, globalPid INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (3000,3300,0,4,1,7,2,0),(4000,9000,0,109,1,7,3,0),(0,0,0,109,1,7,4,0);");
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_KERNEL), 4);
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_MARK), 0);
    const EchOp *graph = ech_test_op(t, ECH_OP_KERNEL, "CUDA graph 109"), *kernel = ech_test_op(t, ECH_OP_KERNEL, "add");
    ck_assert_int_eq(graph->recorded.duration, 5000 * ECH_PS_PER_NS);
    ck_assert_int_eq(graph->recorded.start - kernel->recorded.start, 2000 * ECH_PS_PER_NS);
    ck_assert_uint_eq(graph->queue, kernel->queue);
    ck_assert_uint_eq(graph->n_uses + graph->n_work, 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "graphs_recorded_as_a_whole"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "graphs_without_times"), 1);
    ck_assert(ech_test_says(import->diag, "--cuda-graph-trace=node"));
}
END_TEST

START_TEST(nsys_numbers_gpus)
{
    g_autoptr(EchImport) import = ech_test_corpus("nsys/gpus.sqlite", NULL);
    const EchTrace *t = import->trace;
    static const char *const kernels[] = {"one", "two"}, *const memories[] = {"hbm", "hbm:2"};
    for (uint32_t p = 0; p < 2; p++) {
        ck_assert_uint_eq(ech_trace_queues(t)[ech_test_op(t, ECH_OP_KERNEL, kernels[p])->queue].device, p + 1);
        g_autoptr(EchLifetimes) lives = ech_lifetimes_new(t, ech_trace_find_memory(t, memories[p]));
        ck_assert_uint_eq(lives->peak, 1u << (20 + p));
    }
    ck_assert_uint_eq(ech_trace_n_memories(t), 2);
    for (size_t i = 0; i < ech_trace_n_ops(t); i++)
        if (ech_trace_ops(t)[i].kind == ECH_OP_WAIT)
            ck_assert_uint_eq(ech_trace_ops(t)[i].n_deps, 1);
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_WAIT), 2);
    /* Of one of them the memory is the device's, whichever it is. */
    for (uint32_t p = 0; p < 2; p++) {
        EchSelectOptions options = {.device = p + 1};
        g_autoptr(GError) error = NULL;
        g_autoptr(EchTrace) one = ech_trace_select(t, &options, NULL, &error);
        ck_assert_ok(one != NULL, error);
        ck_assert_uint_eq(ech_trace_n_memories(one), 1);
        g_autoptr(EchLifetimes) lives = ech_lifetimes_new(one, ech_trace_find_memory(one, "hbm"));
        ck_assert_uint_eq(lives->peak, 1u << (20 + p));
        g_autofree char *hardware = ech_recorded_on(t, p + 1);
        ck_assert_str_eq(hardware, "NVIDIA H100 80GB HBM3");
    }
}
END_TEST

/* Managed memory is the host's until it is moved; what moved is recorded, and not to be modelled besides. */
START_TEST(recorded_migrations)
{
    static const char text[] = "echelon-capture 1\nclock 1000 1790000000000000000\nalloc 1500 0 7 11 140000000000000 2097152 5 0\n"
                               "kernel 3000 4500 0 7 13 4 1 1 128 1 1 \"add\"\nunified 3000 3200 1 65536 140000000000000 0 0\n"
                               "unified 4000 4200 2 32768 140000000000000 0 0\nunified 4000 4000 4 3 140000000000000 0 0\ndropped 0 0\nend\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text, &error);
    ck_assert_ok(import, error);
    const EchTrace *t = import->trace;
    const EchBuffer *buffer = &ech_trace_buffers(t)[ech_test_op(t, ECH_OP_ALLOC, "managed")->target];
    ck_assert_int_eq(buffer->managed, ECH_MANAGED);
    ck_assert_str_eq(ech_trace_memory(t, buffer->memory), "host");
    ck_assert_str_eq(ech_trace_get_property(t, "recorded_paged_in_bytes"), "65536");
    ck_assert_str_eq(ech_trace_get_property(t, "recorded_paged_out_bytes"), "32768");
    ck_assert_str_eq(ech_trace_get_property(t, "migrations_recorded"), "1");
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_COPY), 2);
}
END_TEST

START_TEST(nsys_schemas)
{
    g_autoptr(EchImport) fresh = ech_test_corpus("nsys/new.sqlite", NULL), old = ech_test_corpus("nsys/old.sqlite", NULL);
    const EchTrace *t = fresh->trace;
    ck_assert_int_eq(ech_test_op(t, ECH_OP_KERNEL, "add(float*)")->recorded.duration, 35000);
    ck_assert_uint_eq(ech_test_op(t, ECH_OP_COPY, "Unified memory HtoD (page fault)")->bytes, 65536);
    ck_assert_str_eq(ech_trace_get_property(t, "recorded_paged_in_bytes"), "65536");
    ck_assert_uint_eq(ech_diag_count(fresh->records, "unified_memory_gpu_faults"), 5);
    const EchBuffer *managed = &ech_trace_buffers(t)[ech_test_op(t, ECH_OP_ALLOC, "Managed memory")->target];
    ck_assert(managed->managed == ECH_MANAGED && managed->bytes == 65536 && strcmp(ech_trace_memory(t, managed->memory), "host") == 0);
    const EchOp *wait = ech_test_op(t, ECH_OP_WAIT, "Stream Wait Event");
    ck_assert_uint_eq(wait->n_deps, 1);
    ck_assert_int_eq(ech_trace_ops(t)[ech_trace_deps(t)[wait->first_dep].op].kind, ECH_OP_COPY);
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_FREE), 2);
    ck_assert_uint_eq(ech_test_count(old->trace, ECH_OP_WAIT), 1);
    ck_assert_uint_eq(ech_diag_count(old->diag, "inferred_host_waits"), 1);
}
END_TEST

/* The same run in all that rocprofv3 writes; what frees do not say, what scratch memory is, and which streams there are. */
START_TEST(rocprof_outputs)
{
    static const struct {
        const char *file, *format, *kernels;
        EchBytes copied; /* tables do not tell */
    } outputs[] = {{"rocpd/schema3.db", "rocpd", "rocpd_kernel_dispatch", 4096},
                   {"rocpd/schema4.db", "rocpd", "rocpd_kernel_dispatch", 4096},
                   {"rocprof_json/run.json", "rocprof_json", "kernel_dispatch", 4096},
                   {"rocprof_csv/run_kernel_trace.csv", "rocprof_csv", "kernel_trace", 0},
                   {"rocprof_csv/run_hip_api_trace.csv", "rocprof_csv", "kernel_trace", 0},
                   {"rocprof_csv", "rocprof_csv", "kernel_trace", 0}}; /* a folder */
    g_autoptr(EchImport) import = ech_test_corpus(outputs[_i].file, outputs[_i].format);
    const EchTrace *t = import->trace;
    ck_assert_str_eq(ech_trace_get_property(t, "device.0.name"), "AMD Instinct MI300X");
    const EchOp *add = ech_test_op(t, ECH_OP_KERNEL, "add(float*)"), *product = ech_test_op(t, ECH_OP_KERNEL, "Cijk_Ailk_Bljk_BBS");
    ck_assert_int_eq(add->recorded.duration, 35000);
    /* A grid counts work-items, of which the last block may have too few. */
    ck_assert_str_eq(ech_trace_string(t, add->launch), "grid=4x1x1 block=256x1x1 shared=64");
    ck_assert_str_eq(ech_trace_string(t, ech_trace_queues(t)[add->queue].name), "stream 1");
    ck_assert_str_eq(ech_trace_string(t, ech_trace_queues(t)[product->queue].name), "stream 2");
    const EchOp *up = ech_test_op(t, ECH_OP_COPY, "Memcpy HtoD"), *across = ech_test_op(t, ECH_OP_COPY, "Memcpy DtoD");
    ck_assert_uint_eq(up->bytes, outputs[_i].copied);
    ck_assert(up->bytes_origin == (outputs[_i].copied ? ECH_KNOWN : ECH_ABSENT));
    ck_assert_str_eq(ech_trace_memory(t, up->memory_from), "host");
    ck_assert_str_eq(ech_trace_memory(t, across->memory_to), "hbm:1");
    ck_assert_int_eq(ech_test_op(t, ECH_OP_MARK, "step")->recorded.duration, 230000);
    /* The host waits for both kernels, and what it asks for then comes after that. */
    ck_assert_uint_eq(ech_test_op(t, ECH_OP_WAIT, "hipDeviceSynchronize")->n_deps, 2);
    g_autoptr(EchLifetimes) hbm = ech_lifetimes_new(t, ech_trace_find_memory(t, "hbm"));
    ck_assert_uint_eq(hbm->peak, 1 << 20);
    ck_assert_uint_eq(hbm->end_live, 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "scratch_memory_left_out"), strcmp(outputs[_i].format, "rocpd") == 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "frees_of_unknown_addresses"), 1);
    ck_assert_uint_eq(ech_diag_count(import->records, outputs[_i].kernels), 2);
}
END_TEST

/* GPUs counted by themselves, two processes by their GUIDs; and rocprof's own table, with quotes in a name and a row that is cut off. */
START_TEST(rocprof_tables)
{
    g_autoptr(EchImport) typed = ech_test_corpus("rocprof_csv/typed.csv", "rocprof_csv"), old = ech_test_corpus("rocprof_csv/results.csv", "rocprof_csv");
    const EchOp *up = ech_test_op(typed->trace, ECH_OP_COPY, "Memcpy HtoD"), *across = ech_test_op(typed->trace, ECH_OP_COPY, "Memcpy DtoD"),
                *down = ech_test_op(typed->trace, ECH_OP_COPY, "Memcpy DtoH");
    ck_assert_str_eq(ech_trace_memory(typed->trace, up->memory_to), "hbm");
    ck_assert_str_eq(ech_trace_memory(typed->trace, across->memory_from), "hbm:1");
    ck_assert_str_eq(ech_trace_memory(typed->trace, down->memory_to), "host");
    ck_assert_str_eq(ech_trace_string(typed->trace, ech_trace_queues(typed->trace)[down->queue].name), "queue 0 process 1");
    const EchOp *f = ech_test_op(old->trace, ECH_OP_KERNEL, "void f<int>(int, char const*)");
    ck_assert_str_eq(ech_trace_string(old->trace, f->launch), "grid=256x1x1 block=256x1x1 shared=1024");
    ck_assert_int_eq(f->recorded.duration, 250000);
    const EchOp *say = ech_test_op(old->trace, ECH_OP_KERNEL, "say \"hi\", \nthere");
    ck_assert_uint_eq(ech_trace_queues(old->trace)[say->queue].device, 1);
    ck_assert_uint_eq(ech_diag_count(old->diag, "rows_of_other_lengths"), 1);
}
END_TEST

/* ROCm Compute Profiler's: a column for each counter, times with fractions; one that was rounded is none. */
START_TEST(rocprof_tables_of_counters)
{
    g_autoptr(EchImport) import = ech_test_corpus("rocprof_csv/compute.csv", NULL);
    const EchOp *scale = ech_test_op(import->trace, ECH_OP_KERNEL, "scale(float*, int)"), *shift = ech_test_op(import->trace, ECH_OP_KERNEL, "shift");
    ck_assert_str_eq(ech_trace_string(import->trace, scale->launch), "grid=256x1x1 block=256x1x1 shared=2048");
    ck_assert_int_eq(scale->recorded.duration, 750 * ECH_PS_PER_NS);
    ck_assert_int_eq(shift->recorded.start, 3000 * ECH_PS_PER_NS);
    ck_assert_uint_eq(ech_trace_queues(import->trace)[scale->queue].device, 0);
    ck_assert_uint_eq(ech_trace_queues(import->trace)[shift->queue].device, 1);
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_KERNEL), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "rows_without_times"), 1);
}
END_TEST

/* Two processes of one file have the same addresses and numbers of calls. */
START_TEST(rocprof_processes)
{
    g_autoptr(EchImport) import = ech_test_corpus(_i ? "rocprof_json/processes.json" : "rocpd/merged.db", NULL);
    const EchTrace *t = import->trace;
    g_autoptr(EchLifetimes) hbm = ech_lifetimes_new(t, ech_trace_find_memory(t, "hbm"));
    ck_assert_uint_eq(hbm->peak, 2 << 20);
    ck_assert_uint_eq(hbm->end_live, 0);
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_WAIT), 2);
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        if (ech_trace_ops(t)[i].kind == ECH_OP_WAIT)
            ck_assert_uint_eq(ech_trace_ops(t)[i].n_deps, 2);
    }
}
END_TEST

/* The lowest device that anything was asked of has the device's memory, though nothing is left of it at the end. */
START_TEST(snapshot_of_several_devices)
{
    g_autoptr(EchImport) import = ech_test_corpus("memory_snapshot/emptied.pickle", "memory_snapshot");
    const EchTrace *t = import->trace;
    static const struct {
        const char *memory;
        EchBytes peak;
    } devices[] = {{"hbm", 300}, {"hbm:2", 1300}, {"hbm:0", 0}};
    ck_assert_uint_eq(ech_trace_n_memories(t), G_N_ELEMENTS(devices));
    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++) {
        EchId memory = ech_trace_find_memory(t, devices[i].memory);
        ck_assert_uint_ne(memory, ECH_NONE);
        g_autoptr(EchLifetimes) lives = ech_lifetimes_new(t, memory);
        ck_assert_uint_eq(lives->peak, devices[i].peak);
    }
}
END_TEST

/* A free that is completed at once is one event, whatever another device does between. */
START_TEST(snapshot_of_devices_at_once)
{
    g_autoptr(EchImport) import = ech_test_corpus("memory_snapshot/interleaved.pickle", "memory_snapshot");
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_FREE), 1);
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++)
        ck_assert(!g_str_has_prefix(ech_trace_string(import->trace, ech_trace_ops(import->trace)[i].name), "free_requested"));
}
END_TEST

/* Addresses come again, on another device: what a free gives back is what was allocated there last before it. And calls that wait do not say for which device.
 */
START_TEST(rocprof_devices)
{
    static const char text[] =
        "{\"rocprofiler-sdk-tool\": [{\"agents\": [{\"id\": {\"handle\": 1}, \"type\": 2}, {\"id\": {\"handle\": 2}, \"type\": 2}],"
        "\"strings\": {\"buffer_records\": [{\"kind\": \"HIP_RUNTIME_API\", \"operations\": [\"hipLaunchKernel\", \"hipDeviceSynchronize\"]},"
        "{\"kind\": \"MEMORY_ALLOCATION\", \"operations\": [\"NONE\", \"ALLOCATE\", \"FREE\"]}]},"
        "\"kernel_symbols\": [{\"kernel_id\": 1, \"formatted_kernel_name\": \"k\"}], \"buffer_records\": {"
        "\"memory_allocation\": ["
        "{\"kind\": 1, \"operation\": 1, \"start_timestamp\": 10, \"end_timestamp\": 11, \"agent_id\": {\"handle\": 1}, \"address\": \"0x7000\", "
        "\"allocation_size\": 4096},"
        "{\"kind\": 1, \"operation\": 2, \"start_timestamp\": 20, \"end_timestamp\": 21, \"address\": \"0x7000\", \"allocation_size\": 0},"
        "{\"kind\": 1, \"operation\": 1, \"start_timestamp\": 30, \"end_timestamp\": 31, \"agent_id\": {\"handle\": 2}, \"address\": \"0x7000\", "
        "\"allocation_size\": 8192},"
        "{\"kind\": 1, \"operation\": 2, \"start_timestamp\": 90, \"end_timestamp\": 91, \"address\": \"0x7000\", \"allocation_size\": 0}],"
        "\"hip_api\": ["
        "{\"kind\": 0, \"operation\": 0, \"thread_id\": 5, \"correlation_id\": {\"internal\": 1}, \"start_timestamp\": 40, \"end_timestamp\": 41},"
        "{\"kind\": 0, \"operation\": 1, \"thread_id\": 5, \"correlation_id\": {\"internal\": 2}, \"start_timestamp\": 50, \"end_timestamp\": 61},"
        "{\"kind\": 0, \"operation\": 0, \"thread_id\": 5, \"correlation_id\": {\"internal\": 3}, \"start_timestamp\": 62, \"end_timestamp\": 63}],"
        "\"kernel_dispatch\": ["
        "{\"correlation_id\": {\"internal\": 1}, \"start_timestamp\": 45, \"end_timestamp\": 60, \"stream_id\": {\"handle\": 1}, "
        "\"dispatch_info\": {\"kernel_id\": 1, \"agent_id\": {\"handle\": 2}}},"
        "{\"correlation_id\": {\"internal\": 3}, \"start_timestamp\": 65, \"end_timestamp\": 70, \"stream_id\": {\"handle\": 2}, "
        "\"dispatch_info\": {\"kernel_id\": 1, \"agent_id\": {\"handle\": 2}}}]}}]}";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text, &error);
    ck_assert_ok(import != NULL, error);
    const EchTrace *t = import->trace;
    ck_assert_str_eq(ech_trace_format(t), "rocprof_json");
    static const EchBytes peaks[] = {4096, 8192};
    for (size_t i = 0; i < G_N_ELEMENTS(peaks); i++) {
        g_autoptr(EchLifetimes) lives = ech_lifetimes_new(t, ech_trace_find_memory(t, i ? "hbm:1" : "hbm"));
        ck_assert_uint_eq(lives->peak, peaks[i]);
        ck_assert_uint_eq(lives->end_live, 0);
    }
    ck_assert_uint_eq(ech_diag_count(import->diag, "frees_of_unknown_addresses"), 0);
    const EchOp *wait = ech_test_op(t, ECH_OP_WAIT, "hipDeviceSynchronize");
    ck_assert_uint_eq(ech_trace_queues(t)[wait->queue].device, 1);
    ck_assert_uint_eq(wait->n_deps, 1);
}
END_TEST

START_TEST(xplane_times_transfers_by_completion)
{
    g_autoptr(EchImport) import = ech_test_corpus("xplane/tpu.pb", NULL);
    const EchTrace *t = import->trace;
    const EchOp *first = ech_test_op(t, ECH_OP_COPY, "copy-start"), *second = ech_test_op(t, ECH_OP_COPY, "copy-start.1"),
                *slice = ech_test_op(t, ECH_OP_COPY, "slice-start");
    ck_assert_int_eq(first->recorded.duration, 10 * ECH_PS_PER_MS + 2000);
    /* The second began when the first ended, not when it was issued. */
    ck_assert_int_eq(second->recorded.start, first->recorded.start + first->recorded.duration);
    ck_assert_int_eq(second->recorded.duration, 10 * ECH_PS_PER_MS + 1000);
    ck_assert_int_eq(slice->recorded.duration, ECH_TIME_NONE);
    ck_assert_uint_eq(slice->bytes, 1 << 20);
    ck_assert_str_eq(ech_trace_memory(t, slice->memory_to), "vector");
    ck_assert_str_eq(ech_trace_memory(t, first->memory_from), "host");
    const EchOp *fusion = ech_test_op(t, ECH_OP_KERNEL, "fusion");
    ck_assert_uint_eq(fusion->n_uses, 2);
    ck_assert_uint_eq(ech_trace_uses(t)[fusion->first_use].bytes, 4 << 20);
    const EchOp *reduce = ech_test_op(t, ECH_OP_COLLECTIVE, "all-reduce");
    ck_assert_uint_eq(reduce->memory_from, 2);
    ck_assert_int_eq(reduce->recorded.duration, ECH_PS_PER_MS - 7);
    g_autoptr(EchImport) gpu = ech_test_corpus("xplane/gpu.pb", NULL);
    ck_assert_uint_eq(ech_test_op(gpu->trace, ECH_OP_COPY, "MemcpyH2D")->bytes, 512);
    ck_assert_uint_eq(ech_test_count(gpu->trace, ECH_OP_ALLOC), 1);
    /* What was in use before is told by the event that came first, whatever thread's line the file begins with. */
    g_autoptr(EchImport) threads = ech_test_corpus("xplane/threads.pb", "xplane");
    g_autoptr(EchLifetimes) hbm = ech_lifetimes_new(threads->trace, ech_trace_find_memory(threads->trace, "hbm"));
    ck_assert_uint_eq(hbm->peak, 1768);
}
END_TEST

/* An entry of a plane's tables of names (4: events, 5: stats). */
static void put_name(GByteArray *plane, uint32_t field, uint64_t id, const char *text)
{
    g_autoptr(GByteArray) value = g_byte_array_new(), entry = g_byte_array_new();
    ech_wire_u64(value, 1, id);
    ech_wire_text(value, 2, text);
    ech_wire_u64(entry, 1, id);
    ech_wire_message(entry, 2, value);
    ech_wire_message(plane, field, entry);
}

/* Allocators of the host's memory are not the device's, an impossible duration is none, and what the profiler says of itself is passed on. */
/* Two profiles one behind the other are one message, as protobuf has it, and no profile. */
START_TEST(xplanes_in_one_file)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/xplane/tpu.pb", NULL), *bytes = NULL;
    gsize n;
    ck_assert(g_file_get_contents(path, &bytes, &n, NULL));
    g_autoptr(GByteArray) both = g_byte_array_new();
    for (int i = 0; i < 2; i++) {
        g_byte_array_append(both, (const uint8_t *)bytes, (guint)n);
        g_autoptr(EchSource) source = ech_source_new_memory(both->data, both->len, "all.xplane.pb");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert_ok(import, error);
        ck_assert(ech_test_says(import->diag, "several profiles one behind the other") == (i > 0));
    }
}
END_TEST

START_TEST(xplane_of_the_host)
{
    g_autoptr(GByteArray) space = g_byte_array_new(), host = g_byte_array_new(), tpu = g_byte_array_new();
    static const char *const allocators[] = {"mklcpu", "gpu_host_bfc", "GPU_0_bfc"};
    g_autoptr(GByteArray) line = g_byte_array_new(), core = g_byte_array_new();
    for (uint64_t i = 0; i < G_N_ELEMENTS(allocators); i++) {
        g_autoptr(GByteArray) event = g_byte_array_new();
        ech_wire_u64(event, 1, 1);
        ech_wire_u64(event, 2, i * 1000);
        for (uint64_t k = 1; k <= 3; k++) {
            g_autoptr(GByteArray) stat = g_byte_array_new();
            ech_wire_u64(stat, 1, k);
            if (k == 3)
                ech_wire_text(stat, 5, allocators[i]);
            else
                ech_wire_u64(stat, 3, k == 1 ? 4096 * (i + 1) : UINT64_C(256) << i);
            ech_wire_message(event, 4, stat);
        }
        ech_wire_message(line, 4, event);
    }
    ech_wire_text(host, 2, "/host:CPU");
    ech_wire_message(host, 3, line);
    put_name(host, 4, 1, "MemoryAllocation");
    put_name(host, 5, 1, "addr");
    put_name(host, 5, 2, "requested_bytes");
    put_name(host, 5, 3, "allocator_name");
    ech_wire_text(core, 2, "XLA Ops");
    static const char *const ops[] = {"%copy-start = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %a)", "%copy-done = f32[8]{0} copy-done(%copy-start)"};
    for (uint64_t i = 0; i < G_N_ELEMENTS(ops); i++) {
        g_autoptr(GByteArray) event = g_byte_array_new();
        ech_wire_u64(event, 1, i + 1);
        ech_wire_u64(event, 2, 1000 + i * 1000);
        ech_wire_u64(event, 3, i == 0 ? 5 : INT64_MAX);
        ech_wire_message(core, 4, event);
        put_name(tpu, 4, i + 1, ops[i]);
    }
    ech_wire_text(tpu, 2, "/device:TPU:0");
    ech_wire_message(tpu, 3, core);
    ech_wire_message(space, 1, host);
    ech_wire_message(space, 1, tpu);
    ech_wire_text(space, 2, "could not read the device's counters");
    g_autoptr(EchSource) source = ech_source_new_memory(space->data, space->len, "made.xplane.pb");
    GError *error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, "xplane", NULL, &error);
    ck_assert_msg(import, "%s", error ? error->message : "");
    static const struct {
        const char *memory;
        EchBytes peak;
    } held[] = {{"host", 256 + 512}, {"hbm", 1024}};
    for (size_t i = 0; i < G_N_ELEMENTS(held); i++) {
        g_autoptr(EchLifetimes) lives = ech_lifetimes_new(import->trace, ech_trace_find_memory(import->trace, held[i].memory));
        ck_assert_uint_eq(lives->peak, held[i].peak);
    }
    ck_assert_uint_eq(ech_diag_count(import->diag, "times_out_of_range"), 1);
    ck_assert_str_eq(ech_diag_remarks(import->diag)[0], "the profiler failed: could not read the device's counters");
}
END_TEST

/* A GPU's kernels have the work of their instruction in the program beside them; NCCL's are its collectives, in the order of their streams. */
START_TEST(xplane_programs_of_gpus)
{
    g_autoptr(EchImport) import = ech_test_corpus("xplane/gpu_program.pb", "xplane");
    const EchTrace *t = import->trace;
    const EchOp *fusion = ech_test_op(t, ECH_OP_KERNEL, "loop_add_fusion"), *other = ech_test_op(t, ECH_OP_KERNEL, "other");
    ck_assert_uint_eq(fusion->n_uses, 2);
    for (uint32_t u = fusion->first_use; u < fusion->first_use + 2; u++) {
        ck_assert_uint_eq(ech_trace_uses(t)[u].bytes, 4 << 20);
        ck_assert_int_eq(ech_trace_uses(t)[u].origin, ECH_INFERRED);
    }
    ck_assert_uint_eq(ech_trace_work(t)[fusion->first_work].count, 1 << 20);
    ck_assert_ptr_nonnull(strstr(ech_trace_string(t, fusion->launch), "class=elementwise"));
    ck_assert_uint_eq(other->n_uses + other->n_work, 0);
    const EchOp *reduce = ech_test_op(t, ECH_OP_COLLECTIVE, NULL);
    ck_assert_int_eq(reduce->collective, ECH_COLLECTIVE_ALL_REDUCE);
    ck_assert_uint_eq(reduce->bytes, 4 << 20);
    ck_assert_uint_eq(reduce->memory_from, 4);
    ck_assert_str_eq(ech_trace_string(t, reduce->launch), "devices=8 stride=2");
    g_autofree char *order = order_of(t);
    ck_assert_ptr_nonnull(strstr(order, "RING_LL(ncclDevKernelArgsStorage<4096ul>)loop_add_fusion loop_add_fusionncclDevKernel"));
    ck_assert_uint_eq(ech_diag_count(import->diag, "inferred_stream_waits"), 2);
}
END_TEST

static bool has_work(const EchTrace *t, const char *name, unsigned nth)
{
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        if (op->kind == ECH_OP_KERNEL && strcmp(ech_trace_string(t, op->name), name) == 0 && nth-- == 0)
            return op->n_uses > 0;
    }
    ck_abort_msg("no kernel %s", name);
}

/* Of kernels in a CUDA graph the graph is told: they have work by their name, which an instruction's or two equal ones' is, or by what ran before and after.
 * Not where two instructions' names make one kernel's and differ, nor without a kernel on both sides, nor copies of no size that the program copies. */
START_TEST(xplane_programs_of_graphs)
{
    g_autoptr(EchImport) import = ech_test_corpus("xplane/gpu_graph.pb", "xplane");
    const EchTrace *t = import->trace;
    ck_assert(has_work(t, "loop_add_fusion_1", 0) && has_work(t, "loop_add_fusion_1", 1) && has_work(t, "loop_negate_fusion", 0));
    ck_assert(has_work(t, "nvjet_a", 0));
    ck_assert(has_work(t, "nvjet_b", 0) && has_work(t, "nvjet_c", 0) && has_work(t, "loop_negate_fusion_2", 0));
    ck_assert(!has_work(t, "memcpy32", 0) && !has_work(t, "reduce_b", 0));
    const EchOp *copy = ech_test_op(t, ECH_OP_COPY, "memcpy128");
    ck_assert_uint_eq(copy->bytes, 4 << 20);
    ck_assert_int_eq(copy->bytes_origin, ECH_INFERRED);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernel_traffic_from_programs"), 8);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_graphs_by_name"), 5);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_of_graphs_from_programs"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_graphs_not_in_programs"), 2);
}
END_TEST

/* A step of JAX on an H100: three launches each of two loops' graphs, ten times; all that is not told is what memory is filled with. */
START_TEST(xplane_of_an_h100)
{
    g_autoptr(EchImport) import = ech_test_import(ECH_SOURCE_DIR "/traces/gpu_h100-sxm/jax_profile.xplane.pb.gz", NULL);
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernel_traffic_from_programs"), 345);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_graphs_by_name"), 300);
    ck_assert_uint_eq(ech_diag_count(import->diag, "copies_of_graphs_from_programs"), 180);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_graphs_not_in_programs"), 0);
    const EchOp *product = ech_test_op(t, ECH_OP_KERNEL, "nvjet_sm90_tst_176x128_64x5_1x2_h_bz_TNN");
    ck_assert_uint_eq(ech_trace_work(t)[product->first_work].count, UINT64_C(2) * 4096 * 4096 * 1024);
    /* What lies in the ranges of one run of the program: a step begins with its first copy. */
    size_t n;
    g_autofree EchTraceStep *steps = ech_trace_steps(t, &n);
    ck_assert_uint_eq(n, 3);
    for (size_t i = 0; i < n; i++) {
        const EchOp *run = &ech_trace_ops(t)[steps[i].mark], *first = run + 1;
        ck_assert_str_eq(ech_trace_string(t, run->name), "jit_step(6643)");
        ck_assert_uint_eq(first->kind, ECH_OP_COPY);
        ck_assert_int_eq(first->recorded.start, run->recorded.start);
        unsigned kernels = 0;
        for (EchId op = steps[i].mark; op < steps[i].end; op++)
            kernels += ech_trace_ops(t)[op].kind == ECH_OP_KERNEL;
        ck_assert_uint_eq(kernels, 125);
    }
}
END_TEST

/* Many ids may refer to one module in a small file: it is read, here in vain, once. */
START_TEST(xplane_programs_of_one_module)
{
    g_autoptr(EchImport) import = ech_test_corpus("xplane/shared_program.pb", "xplane");
    ck_assert_uint_eq(ech_test_count(import->trace, ECH_OP_KERNEL), 2);
    ck_assert_uint_eq(ech_diag_count(import->records, "Hlo Proto"), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "programs_not_read"), 1);
}
END_TEST

START_TEST(json_twin_of_xplane)
{
    g_autoptr(EchImport) import = ech_test_corpus("xplane_json/tpu.json", NULL);
    const EchTrace *t = import->trace;
    ck_assert_str_eq(import->format, "xplane_json");
    ck_assert_int_eq(ech_test_op(t, ECH_OP_MARK, "jit_f(1)")->recorded.duration, INT64_C(24000500000));
    const EchOp *copy = ech_test_op(t, ECH_OP_COPY, "copy-start"), *wait = ech_test_op(t, ECH_OP_WAIT, "copy-done");
    ck_assert_uint_eq(copy->bytes, 4 << 20);
    ck_assert_int_eq(copy->recorded.start + copy->recorded.duration, wait->recorded.start + wait->recorded.duration);
    const EchOp *fusion = ech_test_op(t, ECH_OP_KERNEL, "fusion");
    ck_assert_uint_eq(fusion->n_uses, 2);
    ck_assert_int_eq(ech_trace_uses(t)[fusion->first_use].origin, ECH_INFERRED);
    ck_assert_str_eq(ech_trace_string(t, fusion->stack), "jit(f)/add:");
    ck_assert_uint_eq(ech_test_op(t, ECH_OP_COPY, "MemcpyH2D")->bytes, 512);
}
END_TEST

/* Two programs of one profile may each have a %fusion of the same text. */
START_TEST(instructions_of_one_text)
{
    static const char event[] =
        ",{\"ph\":\"X\",\"pid\":3,\"tid\":3,\"ts\":%d,\"dur\":5,\"name\":\"fusion\",\"args\":{\"long_name\":\"%%fusion = f32[8,128]{1,0:T(8,128)} "
        "fusion(f32[8,128]{1,0:T(8,128)} %%p), kind=kLoop, calls=%%c\",\"bytes_accessed\":\"8192\",\"model_flops\":\"%u\"}}";
    g_autoptr(GString) text =
        g_string_new("{\"displayTimeUnit\":\"ns\",\"metadata\":{\"highres-ticks\":true},\"traceEvents\":[{\"ph\":\"M\",\"pid\":3,\"name\":"
                     "\"process_name\",\"args\":{\"name\":\"/device:TPU:0\"}},{\"ph\":\"M\",\"pid\":3,\"tid\":3,\"name\":\"thread_name\",\"args\":"
                     "{\"name\":\"XLA Ops\"}}");
    static const unsigned flops[] = {1024, 9216, 1024};
    for (int i = 0; i < 3; i++)
        g_string_append_printf(text, event, 10 * i, flops[i]);
    g_string_append(text, "]}");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(text->str, &error);
    ck_assert_ok(import, error);
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_KERNEL), 3);
    for (size_t i = 0, n = 0; i < ech_trace_n_ops(t); i++)
        if (ech_trace_ops(t)[i].kind == ECH_OP_KERNEL)
            ck_assert_uint_eq(ech_trace_work(t)[ech_trace_ops(t)[i].first_work].count, flops[n++]);
}
END_TEST

/* b was asked for early, and began when a had ended; c was asked for after b had ended. */
START_TEST(json_twin_of_a_gpus_xplane)
{
    g_autoptr(EchImport) import = ech_test_corpus("xplane_json/gpu.json", "xplane_json");
    g_autofree char *order = order_of(import->trace);
    ck_assert_str_eq(order, "ba cb");
    ck_assert_str_eq(ech_trace_string(import->trace, ech_test_op(import->trace, ECH_OP_KERNEL, "a")->launch),
                     "grid=8x1x1 block=256x1x1 shared=64 registers=16");
}
END_TEST

/* CUPTI tells that a stream waits, and which, not for what: for the stream that was given work last, if it had ended. */
START_TEST(cupti_waits_of_streams)
{
    g_autoptr(EchImport) import = must_import("echelon-capture 1\n"
                                              "kernel 1000 31000 0 7 1 1 1 1 32 1 1 \"a\"\n"
                                              "sync 2000 2100 2 1 8 5 2\n"
                                              "kernel 31200 41200 0 8 3 1 1 1 32 1 1 \"b\"\n"
                                              "kernel 32000 36000 0 7 4 1 1 1 32 1 1 \"c\"\n"
                                              "end\n");
    g_autofree char *order = order_of(import->trace);
    ck_assert_str_eq(order, "ba");
    ck_assert_uint_eq(ech_diag_count(import->diag, "stream_waits_without_their_event"), 1);
}
END_TEST

/* A wait is of its context's device, which the capture may tell only later; of the one device that there is where it does not. */
START_TEST(cupti_waits_of_devices)
{
    static const char *const contexts[] = {"context 2 1\ncontext 1 0\n", "context 9 1\n"};
    for (size_t i = 0; i < G_N_ELEMENTS(contexts); i++) {
        g_autofree char *text = g_strdup_printf("echelon-capture 1\nkernel 1000 31000 1 7 1 1 1 1 32 1 1 \"a\"\nsync 2000 31100 4 2 0 0 2\n%s"
                                                "kernel 32000 36000 1 8 4 1 1 1 32 1 1 \"b\"\nend\n",
                                                contexts[i]);
        g_autoptr(EchImport) import = must_import(text);
        const EchTrace *t = import->trace;
        const EchOp *wait = ech_test_op(t, ECH_OP_WAIT, "Synchronize context");
        ck_assert_uint_eq(ech_trace_queues(t)[wait->queue].device, 1);
        ck_assert_uint_eq(wait->n_deps, 1);
        ck_assert_str_eq(ech_trace_string(t, ech_trace_ops(t)[ech_trace_deps(t)[wait->first_dep].op].name), "a");
    }
}
END_TEST

/* CUPTI counts nanoseconds since 1970, more than there are picoseconds; what it could not time it gives the time 0; kinds of record of later versions. */
START_TEST(captures_begin_at_zero)
{
    g_autoptr(EchImport) import = must_import("echelon-capture 1\nclock 1795473667468786973 1795473667468786999\n"
                                              "alloc 1795473667468887973 0 7 1 140000000000000 4096 3 0\n"
                                              "kernel 1795473667468987973 1795473667468997973 0 7 2 1 1 1 32 1 1 \"a\"\n"
                                              "kernel 0 0 0 7 3 1 1 1 32 1 1 \"b\"\nother 77\n"
                                              "kernel 1795473667469007973 1795473667469008973 0 7 4 1 1 1 32 1 1 \"c\"\n"
                                              "dropped 12 3\nend\n");
    const EchTrace *t = import->trace;
    ck_assert_int_eq(ech_test_op(t, ECH_OP_KERNEL, "a")->recorded.start, 100 * ECH_PS_PER_US);
    ck_assert_int_eq(ech_test_op(t, ECH_OP_KERNEL, "c")->recorded.duration, ECH_PS_PER_US);
    ck_assert_uint_eq(ech_diag_count(import->diag, "events_without_time"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "records_dropped_by_cupti"), 12);
}
END_TEST

/* Every corpus file, cut anywhere and with any byte changed, must give a trace or an error of ours, quickly. */
START_TEST(damage)
{
    static const char *const files[] = {
        "memory_snapshot/small.4.pickle", "kineto/new.json",      "nsys/new.sqlite",       "xplane/tpu.pb",        "rocpd/schema4.db",
        "source/trace.json.gz",           "xplane_json/tpu.json", "rocprof_json/run.json", "rocprof_csv/typed.csv"};
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus", files[_i], NULL);
    g_autofree char *data = NULL;
    gsize n;
    ck_assert(g_file_get_contents(path, &data, &n, NULL));
    for (size_t i = 0; i < n; i += 1 + n / 400) {
        g_autofree uint8_t *copy = g_memdup2(data, n);
        copy[i] ^= (uint8_t)(1u << i % 8);
        for (int cut = 0; cut < 2; cut++) {
            g_autoptr(EchSource) source = ech_source_new_memory(copy, cut ? i : n, "damaged");
            g_autoptr(GError) error = NULL;
            g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
            ck_assert((import == NULL) == (error != NULL));
        }
    }
}
END_TEST

START_TEST(recorded_medians_of_the_v6e_profile)
{
    const char *path = ECH_SHARED "/traces/xplane/tpu_inference_2_old.xplane.pb";
    if (ech_test_lacks(path))
        return;
    g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(import);
    static const struct {
        const char *name;
        EchOpKind kind;
        EchTime low, high; /* microseconds */
    } rows[] = {{"jit_f(12190760917235803885)", ECH_OP_MARK, 784110, 784130},
                {"copy-start", ECH_OP_COPY, 189160, 189190},
                {"copy-done.2", ECH_OP_WAIT, 194050, 194150},
                {"copy-done.4", ECH_OP_WAIT, 194350, 194450},
                {"copy-start.5", ECH_OP_COPY, 182350, 182370},
                {"broadcast_add_fusion.1", ECH_OP_KERNEL, 8140, 8160}};
    for (size_t r = 0; r < G_N_ELEMENTS(rows); r++) {
        EchTime times[1000];
        size_t n = 0;
        for (size_t i = 0; i < ech_trace_n_ops(import->trace) && n < 1000; i++) {
            const EchOp *op = &ech_trace_ops(import->trace)[i];
            if (op->kind == rows[r].kind && ech_trace_queues(import->trace)[op->queue].device == 0 && op->recorded.duration != ECH_TIME_NONE &&
                strcmp(ech_trace_string(import->trace, op->name), rows[r].name) == 0)
                times[n++] = op->recorded.duration;
        }
        ck_assert_uint_gt(n, 50);
        for (size_t i = 1; i < n; i++) {
            for (size_t k = i; k > 0 && times[k] < times[k - 1]; k--) {
                EchTime swap = times[k];
                times[k] = times[k - 1];
                times[k - 1] = swap;
            }
        }
        ck_assert_int_ge(times[n / 2], rows[r].low * ECH_PS_PER_US);
        ck_assert_int_le(times[n / 2], rows[r].high * ECH_PS_PER_US);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, gzip_by_content);
    tcase_add_test(tcase, gzip_bomb);
    tcase_add_test(tcase, unknown_bytes_are_described);
    tcase_add_test(tcase, json_numbers_keep_every_digit);
    tcase_add_test(tcase, json_tokens_across_windows);
    tcase_add_test(tcase, json_quotes_in_names);
    tcase_add_test(tcase, json_missing_comma);
    tcase_add_test(tcase, source_without_its_mark);
    tcase_add_test(tcase, snapshot_is_rewound);
    tcase_add_test(tcase, pickles_run_nothing);
    tcase_add_test(tcase, kineto_joins);
    tcase_add_loop_test(tcase, kineto_launches, 0, G_N_ELEMENTS(launched));
    tcase_add_loop_test(tcase, kineto_waits_untold, 0, G_N_ELEMENTS(untold));
    tcase_add_loop_test(tcase, kineto_collectives, 0, G_N_ELEMENTS(collectives));
    tcase_add_test(tcase, kineto_meetings);
    tcase_add_loop_test(tcase, copies_between_devices, 0, 4);
    tcase_add_loop_test(tcase, kineto_waits_unheard, 0, 2);
    tcase_add_test(tcase, kineto_of_2021);
    tcase_add_test(tcase, onnx_runtime);
    tcase_add_loop_test(tcase, kineto_collectives_sized_by_calls, 0, G_N_ELEMENTS(sized));
    tcase_add_test(tcase, kineto_streams_keep_their_order);
    tcase_add_test(tcase, xplane_of_the_host);
    tcase_add_test(tcase, xplanes_in_one_file);
    tcase_add_test(tcase, snapshot_of_devices_at_once);
    tcase_add_test(tcase, xplane_programs_of_gpus);
    tcase_add_test(tcase, xplane_programs_of_graphs);
    tcase_add_test(tcase, xplane_of_an_h100);
    tcase_add_test(tcase, xplane_programs_of_one_module);
    tcase_add_test(tcase, instructions_of_one_text);
    tcase_add_test(tcase, json_twin_of_a_gpus_xplane);
    tcase_add_test(tcase, recorded_migrations);
    tcase_add_test(tcase, cupti_waits_of_streams);
    tcase_add_test(tcase, cupti_waits_of_devices);
    tcase_add_test(tcase, captures_begin_at_zero);
    tcase_add_test(tcase, kineto_metadata_at_zero);
    tcase_add_test(tcase, kineto_written_by_others);
    tcase_add_test(tcase, profiles_without_a_device);
    tcase_add_test(tcase, folders_of_logs);
    tcase_add_test(tcase, look_alikes_are_named);
    tcase_add_test(tcase, kineto_of_rocm);
    tcase_add_test(tcase, nsys_schemas);
    tcase_add_test(tcase, nsys_numbers_gpus);
    tcase_add_test(tcase, nsys_graphs);
    tcase_add_test(tcase, nsys_processes);
    tcase_add_loop_test(tcase, rocprof_outputs, 0, 6);
    tcase_add_loop_test(tcase, rocprof_processes, 0, 2);
    tcase_add_test(tcase, rocprof_tables);
    tcase_add_test(tcase, rocprof_tables_of_counters);
    tcase_add_test(tcase, rocprof_devices);
    tcase_add_test(tcase, snapshot_of_several_devices);
    tcase_add_test(tcase, xplane_times_transfers_by_completion);
    tcase_add_test(tcase, json_twin_of_xplane);
    tcase_add_loop_test(tcase, damage, 0, 9);
    tcase_add_test(tcase, recorded_medians_of_the_v6e_profile);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
