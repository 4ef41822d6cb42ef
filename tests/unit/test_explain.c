/* Sentences about two runs, and what a memory holds at its fullest, by purpose. */
#include "models/device/device_yaml.h"
#include "sim/report/explain.h"
#include "sim/report/report.h"
#include "tests/support/support.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

static JsonObject *parse(JsonParser **ret, const char *text)
{
    GError *error = NULL;
    *ret = json_parser_new();
    ck_assert_ok(json_parser_load_from_data(*ret, text, -1, &error), error);
    return json_node_get_object(json_parser_get_root(*ret));
}

static const char base_run[] =
    "{'makespan_ps': 1000000000, 'completed': true, 'fits': true, 'bound_by': 'hbm port', 'critical_path': {'hbm port': 700000000, 'matrix unit': 300000000},"
    " 'memories': {'hbm': {'planned_bytes': 1073741824, 'allocator': 'fixed', 'traffic_read_bytes': 600000000, 'traffic_written_bytes': 100000000, 'busy_ps': "
    "700000000,"
    " 'holds': {'kept for later use': {'bytes': 900000000}, 'arguments': {'bytes': 173741824}}}}, 'needs': {'hbm': {'bytes': 1073741824, 'available_bytes': "
    "2147483648, 'planned': true}},"
    " 'provenance': {'trace': 'a'}, 'longest': [{'name': 'f', 'kind': 'kernel', 'time_ps': 600000000}]}";

static char *json(const char *text)
{
    char *copy = g_strdup(text);
    g_strdelimit(copy, "'", '"');
    return copy;
}

static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "%s", from);
    return g_strdup_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void check_sentences(const char *a_text, const char *b_text, const char *const *wanted)
{
    g_autofree char *a_json = json(a_text), *b_json = json(b_text);
    g_autoptr(JsonParser) pa = NULL, pb = NULL;
    JsonObject *a = parse(&pa, a_json), *b = parse(&pb, b_json);
    g_autoptr(GPtrArray) sentences = ech_explain_change(a, b);
    g_autoptr(GString) all = g_string_new(NULL);
    for (guint i = 0; i < sentences->len; i++)
        g_string_append_printf(all, "%s\n", (const char *)sentences->pdata[i]);
    for (const char *const *want = wanted; *want; want++)
        ck_assert_msg(strstr(all->str, *want) != NULL, "'%s' is not in:\n%s", *want, all->str);
}

START_TEST(test_same)
{
    const char *const wanted[] = {"It takes as long as before, 1 ms: 70 % of its critical path is on the hbm port", NULL};
    check_sentences(base_run, base_run, wanted);
}
END_TEST

START_TEST(test_faster_memory)
{
    g_autofree char *b1 = replaced(base_run, "'makespan_ps': 1000000000", "'makespan_ps': 650000000");
    g_autofree char *b2 = replaced(b1, "'hbm port': 700000000", "'hbm port': 350000000");
    g_autofree char *b3 = replaced(b2, "'busy_ps': 700000000", "'busy_ps': 350000000");
    g_autofree char *b4 = replaced(b3, "'time_ps': 600000000", "'time_ps': 250000000");
    const char *const wanted[] = {"It takes 35.0 % less time: 1 ms -> 650 us. Along the critical path: -350 us hbm port.",
                                  "The hbm port moves the same 668 MiB in 350 us instead of 700 us: 2 TB/s instead of 1 TB/s.", "'f' 600 us -> 250 us", NULL};
    check_sentences(base_run, b4, wanted);
}
END_TEST

/* Waits are told where they changed by more than a tenth of the run; a run that stopped where it did not fit tells no times. */
/* What is told along the critical path adds up to the difference. */
START_TEST(test_parts_add_up)
{
    g_autofree char *a = replaced(base_run, "{'hbm port': 700000000, 'matrix unit': 300000000}",
                                  "{'hbm port': 200000000, 'matrix unit': 200000000, 'overhead': 200000000, 'allocator': 200000000, 'vector unit': 200000000}");
    g_autofree char *half = replaced(a, "'makespan_ps': 1000000000", "'makespan_ps': 500000000");
    g_autofree char *b =
        replaced(half, "{'hbm port': 200000000, 'matrix unit': 200000000, 'overhead': 200000000, 'allocator': 200000000, 'vector unit': 200000000}",
                 "{'hbm port': 90000000, 'matrix unit': 95000000, 'overhead': 100000000, 'allocator': 105000000, 'vector unit': 110000000}");
    const char *const wanted[] = {"Along the critical path: -110 us hbm port, -105 us matrix unit, -100 us overhead, -185 us others.", NULL};
    check_sentences(a, b, wanted);
}
END_TEST

START_TEST(test_waits)
{
    g_autofree char *a = replaced(base_run, "'provenance'", "'waits': {'link': 50000000, 'space': 500000000, 'compute': 7}, 'provenance'");
    g_autofree char *later = replaced(base_run, "'makespan_ps': 1000000000", "'makespan_ps': 1200000000");
    g_autofree char *b = replaced(later, "'provenance'", "'waits': {'link': 250000000, 'memory_port': 120000000, 'space': 100000000}, 'provenance'");
    const char *const wanted[] = {"Operations wait 200 us longer for other transfers on their link (summed over all of them).",
                                  "Operations wait 400 us less for memory to come free (summed over all of them).", NULL};
    check_sentences(a, b, wanted);
    g_autofree char *a_json = json(a), *b_json = json(b), *stopped = replaced(b_json, "\"completed\": true", "\"completed\": false");
    g_autoptr(JsonParser) pa = NULL, pb = NULL, ps = NULL;
    JsonObject *first = parse(&pa, a_json), *second = parse(&pb, b_json), *stops = parse(&ps, stopped);
    g_autoptr(GPtrArray) whole = ech_explain_change(first, second);
    unsigned waits = 0;
    for (guint i = 0; i < whole->len; i++)
        waits += strstr(whole->pdata[i], "Operations wait") != NULL;
    ck_assert_uint_eq(waits, 2);
    for (unsigned way = 0; way < 2; way++) {
        g_autoptr(GPtrArray) sentences = way ? ech_explain_change(first, stops) : ech_explain_change(stops, first);
        for (guint i = 0; i < sentences->len; i++)
            ck_assert_msg(!strstr(sentences->pdata[i], "critical path"), "%s", (const char *)sentences->pdata[i]);
    }
}
END_TEST

START_TEST(test_does_not_fit)
{
    g_autofree char *b1 = replaced(base_run, "'fits': true", "'fits': false");
    g_autofree char *b2 = replaced(b1, "'available_bytes': 2147483648", "'available_bytes': 536870912");
    const char *const wanted[] = {"It stops fitting: hbm needs 1 GiB and 512 MiB are handed out, 512 MiB too little.", NULL};
    check_sentences(base_run, b2, wanted);
    const char *const back[] = {"It fits now.", NULL};
    check_sentences(b2, base_run, back);
}
END_TEST

START_TEST(test_offload_that_costs)
{
    g_autofree char *b1 = replaced(base_run, "'needs': {", "'links': {'host': {'bytes_backward': 209715200}}, 'needs': {'host': {'bytes': 104857600}, ");
    g_autofree char *b2 = replaced(b1, "'hbm': {'bytes': 1073741824", "'hbm': {'bytes': 1283457024");
    g_autofree char *b3 = replaced(b2, "'kept for later use': {'bytes': 900000000}", "'kept for later use': {'bytes': 1100000000, 'largest': ['g', 'h']}");
    const char *const wanted[] = {"So this offload costs device memory: 100 MiB of saved arrays moved to the host, and hbm needs 200 MiB more.",
                                  "(200 MiB were sent there in all, at most 100 MiB at a time.)", "191 MiB more kept for later use (largest: 'g', 'h').", NULL};
    check_sentences(base_run, b3, wanted);
}
END_TEST

/* What passes beside it change is not the offload's, whichever memory that goes to. */
START_TEST(test_offload_among_others)
{
    static const struct {
        const char *passes, *wanted;
    } cases[] = {{"['offload:what=activations', 'prefetch']", "So this offload saves 512 MiB of hbm for 100 MiB on the host."},
                 {"['remat:modules=blocks.*', 'offload:what=activations']", NULL},
                 {"['offload:to=cxl']", "So this offload saves 512 MiB of hbm for 200 MiB in cxl."}};
    g_autofree char *b1 = replaced(base_run, "'needs': {", "'needs': {'host': {'bytes': 104857600}, 'cxl': {'bytes': 209715200}, ");
    g_autofree char *b2 = replaced(b1, "'hbm': {'bytes': 1073741824", "'hbm': {'bytes': 536870912");
    g_autofree char *with = g_strdup_printf("'passes': %s, 'trace': ", cases[_i].passes), *b3 = replaced(b2, "'trace': ", with);
    g_autofree char *a_json = json(base_run), *b_json = json(b3);
    g_autoptr(JsonParser) pa = NULL, pb = NULL;
    g_autoptr(GPtrArray) said = ech_explain_change(parse(&pa, a_json), parse(&pb, b_json));
    const char *found = NULL;
    for (guint i = 0; i < said->len; i++)
        found = strstr(said->pdata[i], "So this offload") ? said->pdata[i] : found;
    ck_assert_str_eq(found ? found : "", cases[_i].wanted ? cases[_i].wanted : "");
}
END_TEST

START_TEST(test_nothing_is_read_that_is_not_there)
{
    static const char *const odd[] = {"{}", "{'memories': 3, 'critical_path': [], 'longest': {}, 'needs': null}",
                                      "{'longest': [1, 'a', {}], 'memories': {'hbm': 'x'}, 'fits': 'no'}"};
    for (size_t i = 0; i < G_N_ELEMENTS(odd); i++) {
        for (size_t k = 0; k < G_N_ELEMENTS(odd); k++) {
            const char *const none[] = {NULL};
            check_sentences(odd[i], odd[k], none);
        }
        g_autofree char *text = json(odd[i]);
        g_autoptr(JsonParser) parser = NULL;
        g_autoptr(GPtrArray) sentences = ech_explain_run(parse(&parser, text));
    }
    g_autoptr(GPtrArray) empty = ech_explain_change(NULL, NULL);
    ck_assert_uint_eq(empty->len, 0);
}
END_TEST

START_TEST(test_steps)
{
    /* Two axes: a series of three, and a choice of two. The second axis matters only at the first one's last value. */
    const size_t series[] = {0, 0, 1}, choice[] = {0, 0}, *const bases[] = {series, choice}, sizes[] = {3, 2};
    g_autoptr(GPtrArray) parsers = g_ptr_array_new_with_free_func(g_object_unref);
    EchTableRow rows[6] = {0};
    static const int makespans[] = {10, 10, 10, 10, 10, 20};
    for (size_t i = 0; i < 6; i++) {
        g_autofree char *text = g_strdup_printf("{\"makespan_ps\": %d, \"fits\": true}", makespans[i]);
        JsonParser *parser;
        rows[i].run = parse(&parser, text);
        g_ptr_array_add(parsers, parser);
    }
    size_t n;
    g_autofree EchExplainStep *steps = ech_explain_steps(rows, sizes, bases, 2, &n);
    ck_assert_uint_eq(n, 4);
    ck_assert(steps[0].from == SIZE_MAX && steps[0].to == 0);
    ck_assert(steps[1].from == 1 && steps[1].to == 3 && steps[2].from == 3 && steps[2].to == 5);
    ck_assert(steps[3].from == 4 && steps[3].to == 5);
    ck_assert_uint_eq(ech_explain_base(sizes, bases, 2, 5), 0);
}
END_TEST

/* An array comes from the host long before it is used, another one waits between its two uses, a third leaves. */
START_TEST(test_holdings)
{
    static const char device_text[] =
        "name: small\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 64GB, read: 100GB/s, write: 100GB/s}\n"
        "  host: {kind: host-pinned, space: 5, capacity: 64GB}\nlinks:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s}\n"
        "units:\n  matrix: {peaks: {bf16: 100GFLOP/s}}\n";
    GError *error = NULL;
    g_autoptr(EchYamlNode) root = ech_yaml_parse(device_text, strlen(device_text), "d.yaml", &error);
    g_autoptr(EchDevice) device = root ? ech_device_load_yaml(root, NULL, &error) : NULL;
    ck_assert_ok(device != NULL, error);
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("test");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    EchId core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0), in = ech_trace_builder_queue(b, "in", ECH_QUEUE_COPY, 0),
          out = ech_trace_builder_queue(b, "out", ECH_QUEUE_COPY, 0);
    static const char *const names[] = {"back", "kept", "leaves", "argument", "there"};
    EchId ids[5];
    for (size_t i = 0; i < 5; i++) {
        EchBuffer buffer = ech_buffer_init();
        buffer.name = ech_trace_builder_string(b, names[i], -1);
        buffer.memory = i == 4 ? host : hbm;
        buffer.bytes = (i + 1) << 20;
        buffer.resident = 1;
        buffer.role = i == 3 ? ECH_ROLE_PARAMETER : ECH_ROLE_TEMPORARY;
        ids[i] = ech_trace_builder_buffer(b, buffer);
    }
    EchOp copy = ech_op_init(ECH_OP_COPY);
    copy.queue = in;
    copy.memory_from = host;
    copy.memory_to = hbm;
    copy.bytes = 1000000; /* 100 us */
    ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, ids[4], ECH_READ, 1000000, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, ids[0], ECH_WRITE, 1000000, ECH_PATTERN_STREAM, ECH_KNOWN);
    EchOp kernel = ech_op_init(ECH_OP_KERNEL);
    kernel.queue = core;
    kernel.recorded.duration = 1000 * ECH_PS_PER_US;
    for (size_t i = 0; i < 3; i++) { /* 0: writes kept and leaves; 1: nothing; 2: reads kept and back */
        ech_trace_builder_op(b, kernel);
        if (i == 0) {
            ech_trace_builder_use(b, ids[1], ECH_WRITE, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
            ech_trace_builder_use(b, ids[2], ECH_WRITE, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
        } else if (i == 2) {
            ech_trace_builder_use(b, ids[1], ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
            ech_trace_builder_use(b, ids[0], ECH_READ, 1, ECH_PATTERN_STREAM, ECH_KNOWN);
        }
    }
    copy.queue = out;
    copy.memory_from = hbm;
    copy.memory_to = host;
    copy.bytes = 3000000; /* 300 us */
    ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, ids[2], ECH_READ, 3000000, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, ids[4], ECH_WRITE, 3000000, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, 1, 0);
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    ck_assert(ech_params_parse(ech_replay_params, &options, "engine=native,kernel_time=recorded", &error));
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ok(run != NULL, error);
    const EchReport report = {.title = "t", .trace = trace, .device = device, .run = run};
    static const struct {
        int64_t us;
        const char *names[4];
        uint64_t mebibytes[4];
    } wanted[] = {
        {50, {"arguments", "temporaries in use", "arriving from host", NULL}, {4, 5, 1, 0}},
        {1100, {"arguments", "leaving for host", "kept for later use", "back from host before its use"}, {4, 3, 2, 1}},
        {2500, {"arguments", "temporaries in use", "from host, in use", NULL}, {4, 5, 1, 0}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        size_t n, found = 0;
        EchHolding *holdings = ech_report_holdings(&report, "hbm", wanted[i].us * ECH_PS_PER_US, &n);
        for (size_t k = 0; k < n; k++) {
            for (size_t w = 0; w < 4 && wanted[i].names[w]; w++) {
                if (strcmp(holdings[k].name, wanted[i].names[w]) == 0) {
                    ck_assert_msg(holdings[k].bytes == wanted[i].mebibytes[w] << 20, "at %d us: %s %d", (int)wanted[i].us, holdings[k].name,
                                  (int)holdings[k].bytes);
                    found++;
                }
            }
        }
        ck_assert_msg(found == n, "at %d us: %d of %d purposes as wanted", (int)wanted[i].us, (int)found, (int)n);
        ech_holdings_free(holdings, n);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("explain");
    TCase *tests = tcase_create("explain");
    tcase_add_test(tests, test_same);
    tcase_add_test(tests, test_faster_memory);
    tcase_add_test(tests, test_does_not_fit);
    tcase_add_test(tests, test_parts_add_up);
    tcase_add_test(tests, test_waits);
    tcase_add_test(tests, test_offload_that_costs);
    tcase_add_loop_test(tests, test_offload_among_others, 0, 3);
    tcase_add_test(tests, test_nothing_is_read_that_is_not_there);
    tcase_add_test(tests, test_steps);
    tcase_add_test(tests, test_holdings);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
