/* Runs of random traces: same inputs, same bytes, whatever the writer; slices of a track never overlap; the critical path adds up to the makespan;
 * every JSON that is written can be read. */
#include "models/device/device_yaml.h"
#include "sim/experiment/sweep.h"
#include "sim/report/json_out.h"
#include "sim/report/timeline.h"
#include "sim/report/transfer_waits.h"
#include "sim/trace/file.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 40 };

static const char device_text[] = "name: small\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 64MB, read: 100GB/s, write: 80GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 9GB/s, both_ways: 15GB/s, setup: 2us}\n"
                                  "units:\n  matrix: {peaks: {bf16: 100GFLOP/s}}\n  vector: {peaks: {f32: 10GFLOP/s}}\n";

static EchTrace *random_trace(GRand *rand)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("random");
    EchId memories[2] = {ech_trace_builder_memory(builder, "hbm"), ech_trace_builder_memory(builder, "host")};
    EchId queues[3] = {ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0), ech_trace_builder_queue(builder, "in", ECH_QUEUE_COPY, 0),
                       ech_trace_builder_queue(builder, "out", ECH_QUEUE_COPY, 0)};
    int n = g_rand_int_range(rand, 1, 40);
    for (int i = 0; i < n; i++) {
        EchBytes bytes = (EchBytes)g_rand_int_range(rand, 1, 8000000);
        g_autofree char *name = g_strdup_printf("op \"%d\" <b>", i % 7);
        EchBuffer device_buffer = ech_buffer_init(), host_buffer = ech_buffer_init();
        device_buffer.name = host_buffer.name = ech_trace_builder_string(builder, name, -1);
        device_buffer.memory = memories[0];
        host_buffer.memory = memories[1];
        device_buffer.bytes = host_buffer.bytes = bytes;
        host_buffer.resident = 1;
        EchId on_device = ech_trace_builder_buffer(builder, device_buffer), on_host = ech_trace_builder_buffer(builder, host_buffer);
        EchOp alloc = ech_op_init(ECH_OP_ALLOC);
        alloc.name = device_buffer.name;
        alloc.queue = queues[0];
        alloc.target = on_device;
        alloc.bytes = bytes;
        EchId allocated = ech_trace_builder_op(builder, alloc);
        bool copies = g_rand_boolean(rand), in = g_rand_boolean(rand);
        EchOp op = ech_op_init(copies ? ECH_OP_COPY : ECH_OP_KERNEL);
        op.name = device_buffer.name;
        op.queue = copies ? queues[in ? 1 : 2] : queues[0];
        op.bytes = copies ? bytes : 0;
        op.memory_from = copies ? memories[in ? 1 : 0] : ECH_NONE;
        op.memory_to = copies ? memories[in ? 0 : 1] : ECH_NONE;
        EchId at = ech_trace_builder_op(builder, op);
        ech_trace_builder_use(builder, copies && in ? on_host : on_device, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(builder, copies && !in ? on_host : on_device, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
        if (!copies)
            ech_trace_builder_work(builder, ECH_WORK_MATRIX, ECH_DTYPE_BF16, (uint64_t)g_rand_int_range(rand, 1, 100000000), ECH_KNOWN);
        ech_trace_builder_dep(builder, allocated, 0);
        if (at > 3 && g_rand_boolean(rand))
            ech_trace_builder_dep(builder, (EchId)g_rand_int_range(rand, 0, (gint32)at - 1), 0);
        if (g_rand_int_range(rand, 0, 4)) {
            EchOp release = ech_op_init(ECH_OP_FREE);
            release.name = device_buffer.name;
            release.queue = queues[0];
            release.target = on_device;
            release.bytes = bytes;
            ech_trace_builder_op(builder, release);
            ech_trace_builder_dep(builder, at, 0);
        }
    }
    GError *error = NULL;
    EchTrace *trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

static EchDevice *small_device(void)
{
    GError *error = NULL;
    g_autoptr(EchYamlNode) root = ech_yaml_parse(device_text, strlen(device_text), "device", &error);
    ck_assert(root != NULL);
    EchDevice *device = ech_device_from_yaml(root, &error);
    ck_assert_ok(device != NULL, error);
    return device;
}

/* Everything that is written about a run, one after the other. */
static GString *everything(const EchReport *report)
{
    GString *out = ech_report_summary(report, 100);
    JsonNode *node = ech_report_json(report);
    g_autofree char *json = ech_json_print(node);
    json_node_unref(node);
    g_autoptr(GString) chrome = ech_report_chrome(report);
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(report);
    g_autoptr(GByteArray) time = ech_report_pprof(report, ECH_PPROF_TIME);
    g_autoptr(GByteArray) memory = ech_report_pprof(report, ECH_PPROF_MEMORY);
    g_autoptr(GString) details = ech_report_details(report, 1000);
    g_autoptr(GString) html = ech_report_html(json, details->str);
    const char *const texts[] = {json, chrome->str, details->str};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(JsonParser) parser = json_parser_new();
        GError *error = NULL;
        ck_assert_msg(json_parser_load_from_data(parser, texts[i], -1, &error), "%zu: %s", i, error ? error->message : "");
        g_string_append(out, texts[i]);
    }
    /* Data cannot end the page's script elements early: as many of them close as the template has. */
    size_t closed = 0;
    for (const char *at = html->str; (at = strstr(at, "</script>")); at++)
        closed++;
    ck_assert_uint_eq(closed, 4);
    g_string_append_len(out, (const char *)perfetto->data, perfetto->len);
    g_string_append_len(out, (const char *)time->data, time->len);
    g_string_append_len(out, (const char *)memory->data, memory->len);
    return out;
}

static void check_perfetto(const GByteArray *bytes)
{
    for (guint at = 0; at < bytes->len;) {
        ck_assert_uint_eq(bytes->data[at], 1 << 3 | 2);
        at++;
        uint64_t length = 0;
        unsigned shift = 0;
        do {
            ck_assert_uint_lt(at, bytes->len);
            length |= (uint64_t)(bytes->data[at] & 0x7f) << shift;
            shift += 7;
        } while (bytes->data[at++] & 0x80);
        ck_assert_uint_le(length, bytes->len - at);
        at += (guint)length;
    }
}

START_TEST(test_random)
{
    guint32 seed = (guint32)ech_test_seed_of(_i);
    GRand *rand = g_rand_new_with_seed(seed);
    g_autoptr(EchTrace) trace = random_trace(rand);
    g_rand_free(rand);
    g_autoptr(EchDevice) device = small_device();
    g_autoptr(EchRun) run = ech_test_replay(trace, device);
    g_autoptr(EchRun) again = ech_test_replay(trace, device);
    EchReport report = {.title = "random", .trace_path = "random.ech", .format = "random", .trace = trace, .device = device, .run = run};
    EchReport second = report;
    second.run = again;
    g_autoptr(GString) first_bytes = everything(&report);
    g_autoptr(GString) second_bytes = everything(&second);
    ck_assert_uint_eq(first_bytes->len, second_bytes->len);
    ck_assert(memcmp(first_bytes->str, second_bytes->str, first_bytes->len) == 0);
    size_t n;
    EchShare *shares = ech_report_critical_path(&report, &n);
    EchTime sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += shares[i].time;
    ck_assert_int_eq(sum, run->makespan);
    ech_shares_free(shares, n);
    g_autoptr(EchTransferWaits) waits = ech_transfer_waits_new(&report);
    EchTime waited = 0;
    for (size_t i = 0; i < waits->n; i++) {
        ck_assert(waits->waits[i].time > 0 && waits->waits[i].behind >= 0);
        waited += waits->waits[i].time;
    }
    ck_assert_int_eq(waited, waits->total);
    ck_assert(waits->least >= 0 && waits->least <= waits->total && waits->total <= run->makespan);
    g_autoptr(EchTimeline) timeline = ech_timeline_new(&report);
    for (size_t i = 1; i < timeline->n_slices; i++) {
        const EchSlice *a = &timeline->slices[i - 1], *b = &timeline->slices[i];
        ck_assert(a->track < b->track || (a->track == b->track && a->end <= b->start));
    }
    g_autoptr(GByteArray) perfetto = ech_report_perfetto(&report);
    check_perfetto(perfetto);
}
END_TEST

/* Of more buffers of one size than a page draws, some from all over the time. */
START_TEST(blocks_from_all_over)
{
    enum { N = 400, SPANS = 80, DRAWN = SPANS / 4 };
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("equals");
    EchId memory = ech_trace_builder_memory(builder, "hbm"), queue = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    for (int i = 0; i < N; i++) {
        EchBuffer buffer = ech_buffer_init();
        g_autofree char *name = g_strdup_printf("buffer %d of equals", i);
        buffer.name = ech_trace_builder_string(builder, name, -1);
        buffer.memory = memory;
        buffer.bytes = 4096;
        for (int kind = 0; kind < 3; kind++) {
            static const EchOpKind kinds[] = {ECH_OP_ALLOC, ECH_OP_KERNEL, ECH_OP_FREE};
            EchOp op = ech_op_init(kinds[kind]);
            op.name = buffer.name;
            op.queue = queue;
            if (kind == 0)
                op.target = ech_trace_builder_buffer(builder, buffer);
            else if (kind == 2)
                op.target = (EchId)i;
            op.bytes = kind == 1 ? 0 : buffer.bytes;
            EchId at = ech_trace_builder_op(builder, op);
            if (kind == 1)
                ech_trace_builder_use(builder, (EchId)i, ECH_WRITE, buffer.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
            if (at > 0)
                ech_trace_builder_dep(builder, at - 1, 0);
        }
    }
    GError *error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchDevice) device = small_device();
    g_autoptr(EchRun) run = ech_test_replay(trace, device);
    EchReport report = {.title = "equals", .trace_path = "equals.ech", .format = "ech", .trace = trace, .device = device, .run = run};
    g_autoptr(GString) details = ech_report_details(&report, SPANS);
    g_autofree char *left = g_strdup_printf("\"blocks_left_out\":%d}", N - DRAWN);
    ck_assert(strstr(details->str, left) != NULL);
    g_autoptr(JsonParser) parser = json_parser_new();
    ck_assert(json_parser_load_from_data(parser, details->str, -1, NULL));
    JsonArray *memories = json_object_get_array_member(json_node_get_object(json_parser_get_root(parser)), "memories");
    JsonArray *blocks = json_object_get_array_member(json_array_get_object_element(memories, 0), "blocks");
    ck_assert_uint_eq(json_array_get_length(blocks), DRAWN);
    for (guint i = 0; i < DRAWN; i++) {
        gint64 begin = json_array_get_int_element(json_array_get_array_element(blocks, i), 1);
        ck_assert_int_ge(begin, run->makespan / DRAWN * (gint64)i - run->makespan / DRAWN);
        ck_assert_int_le(begin, run->makespan / DRAWN * (gint64)i + run->makespan / DRAWN);
    }
}
END_TEST

/* A sweep says the same whoever runs it, of points that cannot be run too. */
START_TEST(test_jobs)
{
    const char *const settings[] = {"sweep=[{path: device.links.host.to_device, values: [x1, x0.5]}, {path: trace, values: [" ECH_SOURCE_DIR
                                    "/tests/golden/data/stream.ech, " ECH_SOURCE_DIR
                                    "/tests/golden/data/small.yaml]}, {path: device.memories.hbm.capacity, values: [4GB, 2GB]}]",
                                    NULL};
    const EchExperimentOverrides overrides = {
        .trace = ECH_SOURCE_DIR "/tests/golden/data/stream.ech", .device = ECH_SOURCE_DIR "/tests/golden/data/small.yaml", .settings = settings};
    char *texts[3];
    for (unsigned jobs = 1; jobs <= 3; jobs++) {
        GError *error = NULL;
        g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
        ck_assert_ok(experiment != NULL, error);
        ck_assert_uint_eq(experiment->n_cases, 8);
        EchSweepPoint *points = ech_sweep_run(experiment, jobs, NULL, NULL, NULL, &error);
        ck_assert(points != NULL);
        ck_assert_ptr_nonnull(points[0].run);
        ck_assert_ptr_null(points[6].run);
        ck_assert_ptr_nonnull(strstr(points[7].error, "small.yaml: "));
        g_autoptr(EchSweepRows) rows = ech_sweep_rows(experiment, points, NULL, NULL);
        g_autoptr(JsonNode) node = ech_sweep_json(experiment, points, rows);
        size_t size;
        FILE *file = open_memstream(&texts[jobs - 1], &size);
        ck_assert(ech_sweep_write(node, points, experiment->n_cases, false, file, NULL, NULL) && fclose(file) == 0);
        /* As it is written it is one document whose runs are whole; what it was made from stays. */
        g_autoptr(JsonNode) read = json_from_string(texts[jobs - 1], NULL);
        ck_assert_ptr_nonnull(read);
        JsonArray *told = json_object_get_array_member(json_node_get_object(read), "points"),
                  *shown = json_object_get_array_member(json_node_get_object(node), "points");
        ck_assert_uint_eq(json_array_get_length(told), 8);
        guint parts = 0; /* Runs that no step goes through. */
        for (guint i = 0; i < 8; i++) {
            g_autoptr(JsonNode) alone = ech_sweep_point_json(&points[i]);
            JsonNode *run = json_object_get_member(json_array_get_object_element(told, i), "run");
            ck_assert((run != NULL) == (alone != NULL) && (!run || json_node_equal(run, alone)));
            JsonObject *part = ech_member_object(json_array_get_object_element(shown, i), "run");
            parts += part && !json_object_has_member(part, "provenance");
        }
        ck_assert_uint_gt(parts, 0);
        ech_sweep_free(points, experiment->n_cases);
    }
    ck_assert(strcmp(texts[0], texts[1]) == 0);
    ck_assert(strcmp(texts[0], texts[2]) == 0);
    for (size_t i = 0; i < 3; i++)
        g_free(texts[i]);
}
END_TEST

static volatile sig_atomic_t stop;

static void stop_after_three(size_t done, size_t total, void *data)
{
    (void)total;
    (void)data;
    if (done >= 3)
        stop = 1;
}

/* A sweep of @n points. */
static EchExperiment *sweep_of(unsigned n)
{
    GString *values = g_string_new("x1");
    for (unsigned i = 2; i <= n; i++)
        g_string_append_printf(values, ", x%u", i);
    g_autofree char *sweep = g_strdup_printf("sweep=[{path: device.links.host.to_device, values: [%s]}]", values->str);
    g_string_free(values, TRUE);
    const char *const settings[] = {sweep, NULL};
    const EchExperimentOverrides overrides = {
        .trace = ECH_SOURCE_DIR "/tests/golden/data/stream.ech", .device = ECH_SOURCE_DIR "/tests/golden/data/small.yaml", .settings = settings};
    GError *error = NULL;
    EchExperiment *experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    return experiment;
}

/* An interrupted sweep keeps what had run, and begins nothing more. */
START_TEST(test_interrupted)
{
    for (unsigned jobs = 1; jobs <= 2; jobs++) {
        GError *error = NULL;
        g_autoptr(EchExperiment) experiment = sweep_of(400);
        stop = 0;
        EchSweepPoint *points = ech_sweep_run(experiment, jobs, &stop, stop_after_three, NULL, &error);
        ck_assert_ok(points != NULL, error);
        size_t ran = 0;
        for (size_t i = 0; i < experiment->n_cases; i++) {
            ck_assert((points[i].run != NULL) != (points[i].error != NULL));
            if (points[i].error)
                ck_assert_str_eq(points[i].error, "interrupted before it ran");
            ran += points[i].run != NULL;
        }
        ck_assert_uint_ge(ran, 3);
        if (jobs == 1)
            ck_assert_uint_eq(ran, 3);
        ech_sweep_free(points, experiment->n_cases);
    }
}
END_TEST

static pid_t victim;

/* Ends one of this process's children, once. */
static void kill_a_worker(size_t done, size_t total, void *data)
{
    (void)total;
    (void)data;
    g_autoptr(GDir) processes = done > 0 && victim == 0 ? g_dir_open("/proc", 0, NULL) : NULL;
    for (const char *name = processes ? g_dir_read_name(processes) : NULL; name && victim == 0; name = g_dir_read_name(processes)) {
        g_autofree char *path = g_build_filename("/proc", name, "stat", NULL), *text = NULL;
        const char *behind = g_ascii_isdigit(*name) && g_file_get_contents(path, &text, NULL, NULL) ? strrchr(text, ')') : NULL;
        if (behind && g_ascii_strtoll(behind + 4, NULL, 10) == getpid()) /* ") S PARENT" */
            victim = (pid_t)g_ascii_strtoll(name, NULL, 10);
    }
    if (processes && victim > 0)
        kill(victim, SIGKILL);
}

/* A worker that is killed costs the case that it was running, and that is said; the other one runs the rest. */
START_TEST(test_killed)
{
    GError *error = NULL;
    g_autoptr(EchExperiment) experiment = sweep_of(300);
    victim = 0;
    EchSweepPoint *points = ech_sweep_run(experiment, 2, NULL, kill_a_worker, NULL, &error);
    ck_assert_ok(points != NULL, error);
    ck_assert_int_gt(victim, 0);
    size_t lost = 0;
    for (size_t i = 0; i < experiment->n_cases; i++) {
        ck_assert((points[i].run != NULL) != (points[i].error != NULL));
        if (points[i].error)
            ck_assert_str_eq(points[i].error, "the worker that ran it was ended by signal 9");
        lost += points[i].error != NULL;
    }
    ck_assert_uint_le(lost, 1);
    ech_sweep_free(points, experiment->n_cases);
}
END_TEST

/* One that has no room for its answers says so of what it ran. */
START_TEST(test_no_room)
{
    const char *const settings[] = {"sweep=[{path: device.links.host.to_device, values: [x1, x2, x3]}]", NULL};
    const EchExperimentOverrides overrides = {
        .trace = ECH_SOURCE_DIR "/tests/golden/data/stream.ech", .device = ECH_SOURCE_DIR "/tests/golden/data/small.yaml", .settings = settings};
    GError *error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    struct rlimit before;
    ck_assert(getrlimit(RLIMIT_FSIZE, &before) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    const struct rlimit little = {16, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &little);
    EchSweepPoint *points = ech_sweep_run(experiment, 2, NULL, NULL, NULL, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_ok(points != NULL, error);
    for (size_t i = 0; i < experiment->n_cases; i++)
        ck_assert_str_eq(points[i].error, "the worker that ran it ended with exit code 1, for want of memory or of room for its answer");
    ech_sweep_free(points, experiment->n_cases);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("report");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, test_random, 0, ROUNDS);
    tcase_add_test(tcase, blocks_from_all_over);
    tcase_add_test(tcase, test_jobs);
    tcase_add_test(tcase, test_interrupted);
    tcase_add_test(tcase, test_killed);
    tcase_add_test(tcase, test_no_room);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
