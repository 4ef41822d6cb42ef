/* Readers of what is no profile: topologies, memory profiles, reports, device descriptions; and that a trace's own file loses nothing. */
#include "models/device/device.h"
#include "models/device/gpu_target.h"
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/trace/file.h"
#include "sim/trace/lifetime.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

static void must_fail(const char *name, const char *says)
{
    g_autoptr(GError) error = NULL;
    EchImport *import = ech_test_try_corpus(name, &error);
    ck_assert_msg(import == NULL, "%s was read", name);
    ck_assert_msg(strstr(error->message, says) != NULL, "%s: %s", name, error->message);
}

START_TEST(scalesim_convolutions)
{
    g_autoptr(EchImport) import = ech_test_corpus("scalesim/conv.csv", "scalesim");
    const EchTrace *t = import->trace;
    /* 8x8x3 with 16 filters of 3x3x3: 6x6x16. */
    const EchOp *first = ech_test_op(t, ECH_OP_KERNEL, "Conv1");
    ck_assert_uint_eq(first->n_uses, 3);
    ck_assert_uint_eq(ech_trace_uses(t)[first->first_use].bytes, 8 * 8 * 3);
    ck_assert_uint_eq(ech_trace_uses(t)[first->first_use + 1].bytes, 3 * 3 * 3 * 16);
    ck_assert_uint_eq(ech_trace_uses(t)[first->first_use + 2].bytes, 6 * 6 * 16);
    ck_assert_int_eq(ech_trace_uses(t)[first->first_use].origin, ECH_ASSUMED);
    ck_assert_uint_eq(ech_trace_work(t)[first->first_work].count, 2 * 6 * 6 * 3 * 3 * 3 * 16);
    ck_assert_int_eq(ech_trace_work(t)[first->first_work].unit, ECH_WORK_MATRIX);
    /* The next layer reads the same array. */
    const EchOp *second = ech_test_op(t, ECH_OP_KERNEL, "Same"), *depthwise = ech_test_op(t, ECH_OP_KERNEL, "DP_conv");
    ck_assert_uint_eq(ech_trace_uses(t)[second->first_use].buffer, ech_trace_uses(t)[first->first_use + 2].buffer);
    /* Depthwise: (6 - 3 + 2) / 2 rounded up, as SCALE-Sim does, twice; one filter a channel. */
    ck_assert_uint_eq(ech_trace_uses(t)[depthwise->first_use + 2].bytes, 3 * 3 * 8 * 2);
    ck_assert_uint_eq(ech_trace_work(t)[depthwise->first_work].count, 2 * 3 * 3 * 3 * 3 * 8 * 2);
    ck_assert_uint_eq(ech_diag_count(import->records, "conv layers"), 3);
    ck_assert_uint_eq(ech_diag_count(import->records, "section titles"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "layers_with_a_filter_larger_than_their_input"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "rows_with_too_few_columns"), 1);
    g_autoptr(GError) error = NULL;
    ck_assert(!ech_diag_check_strict(import->diag, &error));
}
END_TEST

START_TEST(scalesim_products)
{
    g_autoptr(EchImport) import = ech_test_corpus("scalesim/gemm.csv", "scalesim");
    const EchOp *op = ech_test_op(import->trace, ECH_OP_KERNEL, "qkv");
    ck_assert_uint_eq(ech_trace_work(import->trace)[op->first_work].count, 2 * 128 * 192 * 64);
    ck_assert_uint_eq(ech_test_find_buffer(import->trace, "qkv filters")->bytes, 64 * 192);
    /* A row that cannot be read is left out and told of; a file of such rows is refused with the first. */
    g_autoptr(EchImport) some = ech_test_corpus("scalesim/bad.csv", "scalesim");
    ck_assert_uint_eq(ech_diag_count(some->records, "gemm layers"), 1);
    ck_assert_uint_eq(ech_diag_count(some->diag, "rows_without_dimensions"), 1);
    must_fail("scalesim/none.csv", "none.csv:2: 'B' is not");
    must_fail("scalesim/huge.csv", "larger than 2^61");
}
END_TEST

/* Tabs, blanks that do not break, a stride for each direction; a sparsity. */
START_TEST(scalesim_columns)
{
    g_autoptr(EchImport) import = ech_test_corpus("scalesim/strides.csv", "scalesim");
    const EchOp *op = ech_test_op(import->trace, ECH_OP_KERNEL, "Conv1");
    ck_assert_uint_eq(ech_trace_uses(import->trace)[op->first_use + 2].bytes, 4 * 6 * 16);
    g_autoptr(EchImport) sparse = ech_test_corpus("scalesim/sparse.csv", "scalesim");
    op = ech_test_op(sparse->trace, ECH_OP_KERNEL, "Conv1");
    ck_assert_uint_eq(ech_trace_uses(sparse->trace)[op->first_use + 2].bytes, 6 * 6 * 16);
    ck_assert_uint_eq(ech_diag_count(sparse->diag, "sparse_layers_taken_as_dense"), 1);
    ck_assert_uint_eq(ech_diag_count(sparse->records, "conv layers"), 3);
}
END_TEST

START_TEST(timeline_of_categories)
{
    g_autoptr(EchImport) import = ech_test_corpus("memory_timeline/small.json", "memory_timeline");
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_trace_n_buffers(t), 5);
    const EchBuffer *b = ech_trace_buffers(t);
    ck_assert(b[0].resident && b[0].role == ECH_ROLE_PARAMETER && b[2].role == ECH_ROLE_UNKNOWN);
    /* Created of unknown kind, then an activation. */
    ck_assert(!b[3].resident && b[3].role == ECH_ROLE_ACTIVATION && b[3].bytes == 4096);
    ck_assert_int_eq(ech_trace_ops(t)[1].kind, ECH_OP_FREE);
    ck_assert_uint_eq(ech_trace_ops(t)[1].target, 3);
    ck_assert_int_eq(ech_trace_ops(t)[1].recorded.start, 2 * ECH_PS_PER_US);
    ck_assert_str_eq(ech_trace_get_property(t, "time_zero_unix_us"), "1696966047395848");
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(t, ECH_NONE);
    ck_assert_uint_eq(lifetimes->end_live, 1024 + 512 + 64);
    g_autoptr(EchImport) odd = ech_test_corpus("memory_timeline/odd.json", "memory_timeline");
    ck_assert_uint_eq(ech_diag_count(odd->diag, "frees_of_unknown_tensors"), 1);
    ck_assert_uint_eq(ech_diag_count(odd->diag, "events_of_unknown_action"), 1);
    ck_assert_uint_eq(ech_diag_count(odd->diag, "times_out_of_range"), 1);
    must_fail("memory_timeline/cut.json", "byte 21");
}
END_TEST

START_TEST(memory_profile_is_a_resident_set)
{
    static const char *const files[] = {"memory_profile/small.pb", "memory_profile/small.prof.gz"};
    g_autoptr(EchImport) import = ech_test_corpus(files[_i], "memory_profile");
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_trace_n_ops(t), 0);
    ck_assert_uint_eq(ech_trace_n_buffers(t), 5);
    const EchBuffer *b = ech_trace_buffers(t);
    ck_assert(b[0].resident && b[0].bytes == 1000 && b[2].bytes == 1000 && b[3].bytes == 512);
    ck_assert_str_eq(ech_trace_memory(t, b[0].memory), "hbm");
    ck_assert_str_eq(ech_trace_memory(t, b[3].memory), "hbm:1");
    ck_assert_str_eq(ech_trace_memory(t, b[4].memory), "host");
    ck_assert_str_eq(ech_trace_string(t, b[0].stack), "/home/me/train.py:7:f\n/home/me/train.py:40:main");
    ck_assert_str_eq(ech_trace_string(t, b[0].name), "train.py:7:f");
    ck_assert_uint_eq(ech_diag_count(import->diag, "executables_of_unknown_size"), 4);
    g_autoptr(GError) error = NULL;
    ck_assert(ech_diag_check_strict(import->diag, &error));
    must_fail("memory_profile/time.pb", "counts no bytes");
    /* 2^40 buffers claimed: one, not memory for all. */
    g_autoptr(EchImport) many = ech_test_corpus("memory_profile/many.pb", "memory_profile");
    ck_assert_uint_eq(ech_trace_n_buffers(many->trace), 1);
    ck_assert_uint_eq(ech_diag_count(many->diag, "samples_of_negative_size"), 1);
    ck_assert(!ech_test_says(import->diag, "another program's heap"));
    /* What Go and tcmalloc write of a heap: nothing of devices. */
    g_autoptr(EchImport) heap = ech_test_corpus("memory_profile/heap.pb", "memory_profile");
    ck_assert(ech_test_says(heap->diag, "another program's heap"));
}
END_TEST

START_TEST(memory_profile_beside_a_capture)
{
    g_autofree char *main = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/kineto/new.json", NULL);
    g_autofree char *beside = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/memory_profile/small.pb", NULL);
    g_autofree char *snapshot = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/memory_snapshot/small.4.pickle", NULL);
    g_autofree char *xplane = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/xplane/tpu.pb", NULL);
    EchImportOptions options = {.beside = beside};
    g_autoptr(EchImport) alone = ech_test_corpus("kineto/new.json", "kineto");
    g_autoptr(EchImport) import = ech_import_file(main, NULL, &options, NULL);
    ck_assert_ptr_nonnull(import);
    ck_assert_str_eq(import->format, "kineto");
    ck_assert_uint_eq(ech_trace_n_buffers(import->trace), ech_trace_n_buffers(alone->trace) + 4);
    ck_assert_uint_eq(ech_diag_count(import->diag, "resident_buffers_added"), 4);
    ck_assert_uint_eq(ech_diag_count(import->diag, "resident_buffers_of_other_devices"), 1);
    /* The same again adds nothing: as large as what is resident already. */
    g_autoptr(EchImport) profile = ech_test_corpus("memory_profile/small.pb", "memory_profile");
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) twice = ech_import_add_resident(import->trace, profile->trace, diag, NULL);
    ck_assert_uint_eq(ech_trace_n_buffers(twice), ech_trace_n_buffers(import->trace));
    ck_assert_uint_eq(ech_diag_count(diag, "resident_buffers_that_are_inputs"), 4);
    /* A snapshot belongs beside a Kineto profile only. */
    g_autoptr(GError) error = NULL;
    options.beside = snapshot;
    ck_assert_ptr_null(ech_import_file(xplane, NULL, &options, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_CONFIG));
}
END_TEST

/* A memory snapshot of the same run in place of a profile's own allocator events, on the profile's clock. */
START_TEST(snapshot_beside_a_profile)
{
    static const char json[] =
        "{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1700000000000000000, \"traceEvents\": ["
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"early\",\"pid\":0,\"tid\":7,\"ts\":2.500,\"dur\":1.000,\"args\":{\"device\":0,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"late\",\"pid\":0,\"tid\":7,\"ts\":6.500,\"dur\":1.000,\"args\":{\"device\":0,\"stream\":7}},"
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":9,\"tid\":9,\"ts\":1.000,\"args\":{\"Bytes\":512,\"Addr\":4096,"
        "\"Device Id\":0,\"Device Type\":1}}]}";
    g_autofree char *beside = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/memory_snapshot/small.4.pickle", NULL);
    EchImportOptions options = {.beside = beside};
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)json, sizeof json - 1, "profile.json");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, &options, &error);
    ck_assert_ok(import != NULL, error);
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_diag_count(import->diag, "memory_events_replaced_by_the_snapshot"), 1);
    /* The snapshot frees at 1 us and at 7 us, allocates at 3 and 4 us: the kernels stand where they ran. */
    int order[4] = {-1, -1, -1, -1};
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        const char *name = ech_trace_string(t, op->name);
        if (op->kind == ECH_OP_KERNEL)
            order[strcmp(name, "early") == 0 ? 0 : 2] = (int)i;
        else if (op->kind == ECH_OP_ALLOC && order[1] < 0)
            order[1] = (int)i;
        else if (op->kind == ECH_OP_FREE)
            order[3] = (int)i;
    }
    ck_assert(order[0] >= 0 && order[0] < order[1] && order[1] < order[2] && order[2] < order[3]);
    ck_assert_int_eq(ech_trace_ops(t)[order[1]].recorded.start - ech_trace_ops(t)[order[0]].recorded.start, 500000);
}
END_TEST

/* ROCm's profiler counts a machine's GPUs, its allocator those that the process sees: one of each is one GPU; a stream on the allocator's own says otherwise.
 */
START_TEST(one_gpu_by_two_numbers)
{
    for (int other = 2; other >= 0; other -= 2) {
        g_autofree char *json = g_strdup_printf(
            "{\"schemaVersion\": 1, \"traceEvents\": ["
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":2,\"tid\":0,\"ts\":1,\"dur\":10,\"args\":{\"device\":2,\"stream\":0}},"
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"l\",\"pid\":2,\"tid\":1,\"ts\":12,\"dur\":1,\"args\":{\"device\":%d,\"stream\":1}},"
            "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":9,\"tid\":9,\"ts\":0.5,\"args\":{\"Bytes\":512,"
            "\"Addr\":4096,\"Device Id\":0,\"Device Type\":6}}]}",
            other);
        EchImportOptions options = {0};
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)json, strlen(json), "profile.json");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, &options, &error);
        ck_assert_ok(import != NULL, error);
        const EchTrace *t = import->trace;
        ck_assert_uint_eq(ech_trace_n_memories(t), other == 2 ? 1u : 2u);
        ck_assert_str_eq(ech_trace_memory(t, ech_trace_buffers(t)[0].memory), "hbm");
        for (size_t i = 0; i < ech_trace_n_ops(t); i++)
            if (ech_trace_ops(t)[i].kind == ECH_OP_ALLOC)
                ck_assert_int_eq((int)ech_trace_queues(t)[ech_trace_ops(t)[i].queue].device, other);
    }
}
END_TEST

/* Profiles of several processes in one file, as SGLang's merger and TraceLens's write them, number calls, operators and devices each from the beginning: what a
 * kernel is joined to is of its own process, and so is its device, wherever two have the same number. */
START_TEST(processes_in_one_file)
{
    static const char *const pids[2][2] = {{"\"[TP00] %d\"", "\"[TP01] %d\""}, {"%d", "1000000%d"}};
    static const char *const args[2][2] = {{"", ""}, {",\"rank\":0,\"pid_raw\":%d", ",\"rank\":1,\"pid_raw\":%d"}};
    for (int style = 0; style < 2; style++) {
        g_autoptr(GString) json = g_string_new("{\"schemaVersion\": 1, \"traceEvents\": [");
        for (int p = 0; p < 2; p++) {
            for (int event = 0; event < 3; event++) {
                int pid = event == 2 ? 0 : 4;
                g_autofree char *of = g_strdup_printf(pids[style][p], pid), *more = g_strdup_printf(args[style][p], pid);
                g_string_append_printf(json, "%s{\"ph\":\"X\",\"pid\":%s,\"ts\":%d,\"dur\":%d,\"tid\":7,", p || event ? "," : "", of, 10 + event + 20 * p,
                                       9 - 3 * event);
                if (event == 0)
                    g_string_append_printf(json,
                                           "\"cat\":\"cpu_op\",\"name\":\"aten::mul\",\"args\":{\"External id\":5,\"Input Dims\":[[%d],[%d]],\"Input "
                                           "type\":[\"float\",\"float\"]%s}}",
                                           1024 << p, 1024 << p, more);
                else if (event == 1)
                    g_string_append_printf(json, "\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"args\":{\"correlation\":3,\"External id\":5%s}}",
                                           more);
                else
                    g_string_append_printf(
                        json, "\"cat\":\"kernel\",\"name\":\"k%d\",\"args\":{\"correlation\":3,\"External id\":5,\"device\":0,\"stream\":7%s}}", p, more);
            }
        }
        g_string_append(json, "]}");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_test_text(json->str, &error);
        ck_assert_ok(import != NULL, error);
        ck_assert_uint_eq(ech_diag_count(import->diag, "processes_merged_in_the_file"), 2);
        ck_assert_uint_eq(ech_diag_count(import->diag, "device_events_without_launch"), 0);
        const EchTrace *t = import->trace;
        for (int p = 0; p < 2; p++) {
            const EchOp *op = ech_test_op(t, ECH_OP_KERNEL, p ? "k1" : "k0");
            EchBytes bytes = 0;
            for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
                bytes += ech_trace_uses(t)[u].bytes;
            ck_assert_uint_eq(bytes, 3u * 4 * (1024u << p));
            ck_assert_uint_eq(ech_trace_queues(t)[op->queue].device, (uint32_t)p);
        }
    }
}
END_TEST

/* Of a list of tensors the largest is told, too: its row of a concatenation's grid works longest. */
START_TEST(largest_of_a_list)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import =
        ech_test_text("{\"schemaVersion\": 1, \"traceEvents\": "
                      "[{\"ph\":\"X\",\"pid\":4,\"ts\":10,\"dur\":9,\"tid\":7,\"cat\":\"cpu_op\",\"name\":\"aten::cat\",\"args\":{\"External id\":5,"
                      "\"Input Dims\":[[[64,32],[64,96],[64,8]],[]],\"Input type\":[\"TensorList\",\"Scalar\"]}},"
                      "{\"ph\":\"X\",\"pid\":4,\"ts\":11,\"dur\":6,\"tid\":7,\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"args\":{\"correlation\":"
                      "3,\"External id\":5}},"
                      "{\"ph\":\"X\",\"pid\":0,\"ts\":12,\"dur\":3,\"tid\":7,\"cat\":\"kernel\",\"name\":\"CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, "
                      "4, 64, 64>\",\"args\":{"
                      "\"correlation\":3,\"External id\":5,\"device\":0,\"stream\":7,\"grid\":[16,3,1],\"block\":[512,1,1]}}]}",
                      &error);
    ck_assert_ok(import != NULL, error);
    const EchOp *op = ech_test_op(import->trace, ECH_OP_KERNEL, "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>");
    ck_assert_ptr_nonnull(strstr(ech_trace_string(import->trace, op->launch), " rows=6144x1"));
}
END_TEST

/* Of a second machine's process with two GPUs, the first of which takes the number that the other one has there, both stay apart. */
START_TEST(devices_of_processes)
{
    static const char *const kernels[][3] = {{"a", "[TP00] 0", "0"}, {"b", "[TP01] 0", "0"}, {"c", "[TP01] 1", "1"}, {"d", "[TP01] 0", "0"}};
    static const uint32_t devices[] = {0, 1, 2, 1};
    g_autoptr(GString) json = g_string_new("{\"schemaVersion\": 1, \"traceEvents\": [");
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++)
        g_string_append_printf(json,
                               "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":\"%s\",\"tid\":7,\"ts\":%zu,\"dur\":1,\"args\":{\"device\":%s,"
                               "\"stream\":7}}",
                               i ? "," : "", kernels[i][0], kernels[i][1], 10 * i, kernels[i][2]);
    g_string_append(json, "]}");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(json->str, &error);
    ck_assert_ok(import != NULL, error);
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++)
        ck_assert_uint_eq(ech_trace_queues(import->trace)[ech_test_op(import->trace, ECH_OP_KERNEL, kernels[i][0])->queue].device, devices[i]);
}
END_TEST

/* Events that are told by their beginnings and ends are none that are read; that is not to say that nothing ran. */
START_TEST(events_in_halves)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import =
        ech_test_text("{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"pid\":0,\"tid\":7},"
                      "{\"ph\":\"E\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":3,\"pid\":0,\"tid\":7}]}",
                      &error);
    ck_assert_ok(import != NULL, error);
    ck_assert_uint_eq(ech_diag_count(import->diag, "events_in_halves"), 2);
    ck_assert(ech_test_says(import->diag, "2 of its events of the host and the device are told by their beginnings and ends"));
    ck_assert(!ech_test_says(import->diag, "nothing in it ran on a GPU"));
}
END_TEST

/* An allocator's events come after the work that had ended before them, whatever its stream; work under way ties nothing. */
START_TEST(memory_events_follow_ended_work)
{
    static const char json[] =
        "{\"schemaVersion\": 1, \"traceEvents\": ["
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"long\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":10,\"args\":{\"device\":0,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"short\",\"pid\":0,\"tid\":8,\"ts\":2,\"dur\":1,\"args\":{\"device\":0,\"stream\":8}},"
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":9,\"tid\":9,\"ts\":2.5,\"args\":{\"Bytes\":512,\"Addr\":4096,"
        "\"Device Id\":0,\"Device Type\":1}},"
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":9,\"tid\":9,\"ts\":4,\"args\":{\"Bytes\":1024,\"Addr\":8192,"
        "\"Device Id\":0,\"Device Type\":1}},"
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":9,\"tid\":9,\"ts\":12,\"args\":{\"Bytes\":-512,\"Addr\":4096,"
        "\"Device Id\":0,\"Device Type\":1}}]}";
    EchImportOptions options = {0};
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)json, sizeof json - 1, "profile.json");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, &options, &error);
    ck_assert_ok(import != NULL, error);
    static const char *const awaited[] = {NULL, "short", "long"};
    const EchTrace *t = import->trace;
    size_t events = 0;
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        if (op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE)
            continue;
        ck_assert_uint_lt(events, 3);
        ck_assert_uint_eq(op->n_deps, awaited[events] ? 1 : 0);
        if (op->n_deps > 0)
            ck_assert_str_eq(ech_trace_string(t, ech_trace_ops(t)[ech_trace_deps(t)[op->first_dep].op].name), awaited[events]);
        events++;
    }
    ck_assert_uint_eq(events, 3);
}
END_TEST

START_TEST(usage_reports)
{
    g_autoptr(EchImport) import = ech_test_corpus("memory_usage_report/new.txt", "memory_usage_report");
    const EchTrace *t = import->trace;
    const EchBuffer *b = ech_trace_buffers(t);
    /* 1 MiB and bf16[256,1025] behind it: the shape is exact where "512.50KiB" is not. */
    ck_assert_uint_eq(b[0].bytes, (1 << 20) + 256 * 1025 * 2);
    ck_assert_uint_eq(b[2].alias_of, 0);
    ck_assert_uint_eq(b[2].alias_offset, 1 << 20);
    ck_assert_uint_eq(ech_test_find_buffer(t, "f32[1024]")->bytes, 4096);
    g_autoptr(EchLifetimes) hbm = ech_lifetimes_new(t, ech_trace_find_memory(t, "hbm")), host = ech_lifetimes_new(t, ech_trace_find_memory(t, "host"));
    ck_assert_uint_eq(hbm->peak, 1574144);
    ck_assert_uint_eq(host->peak, 4096);
    g_autoptr(EchImport) old = ech_test_corpus("memory_usage_report/old.txt", "memory_usage_report");
    g_autoptr(EchLifetimes) all = ech_lifetimes_new(old->trace, ECH_NONE);
    ck_assert_uint_eq(all->peak, 2097664);
    must_fail("memory_usage_report/bad.txt", "bad.txt:4");
}
END_TEST

/* A file that TorchInductor wrote is PyTorch's own; one that is only called as long a name is the program's. */
START_TEST(snapshots_of_compiled_models)
{
    g_autoptr(EchImport) import = ech_test_corpus("memory_snapshot/compiled.pickle", "memory_snapshot");
    g_autofree char *program = g_strdup_printf("c%s.py:3", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    ck_assert_uint_eq(ech_test_find_buffer(import->trace, "train.py:9 (compiled:1867)")->bytes, 2048);
    ck_assert_uint_eq(ech_test_find_buffer(import->trace, program)->bytes, 1024);
}
END_TEST

/* Arrays are called by the line of the program that made them, not by JAX's own, which made them all. */
START_TEST(profiles_name_the_program)
{
    g_autoptr(EchImport) import = ech_test_corpus("memory_profile/frames.pb", "memory_profile");
    ck_assert_uint_eq(ech_test_find_buffer(import->trace, "train.py:7:init")->bytes, 4096);
    ck_assert_uint_eq(ech_test_find_buffer(import->trace, "pxla.py:395:__call__")->bytes, 512);
}
END_TEST

/* Real reports: what lies in the allocations adds up to the compiler's exact totals. */
START_TEST(usage_reports_of_the_compiler)
{
    const char *folder = ECH_SHARED "/traces/gpu_aot";
    if (ech_test_lacks(folder))
        return;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    ck_assert_ptr_nonnull(dir);
    size_t n = 0;
    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        if (!g_str_has_suffix(name, ".memory-usage-report.txt.gz"))
            continue;
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, NULL);
        ck_assert_msg(import != NULL, "%s", path);
        ck_assert_msg(ech_diag_count(import->diag, "bytes_above_the_total") == 0, "%s", path);
        n++;
    }
    ck_assert_uint_gt(n, 0);
}
END_TEST

START_TEST(gpu_targets_are_devices)
{
    g_autofree char *old_path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/gpu_target/old.pbtxt", NULL);
    g_autofree char *new_path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/gpu_target/new.txtpb", NULL);
    g_autoptr(EchDevice) old = ech_test_device(old_path, NULL), fresh = ech_test_device(new_path, NULL);
    ck_assert_ptr_nonnull(fresh);
    ck_assert_str_eq(old->summary, "My \"GPU\"");
    ck_assert_str_eq(old->compiler, "a100");
    ck_assert_uint_eq(ech_device_memory(old, "hbm")->capacity, UINT64_C(42505273344));
    ck_assert_uint_eq(ech_device_memory(old, "hbm")->nominal, UINT64_C(1555200000000));
    ck_assert_uint_eq(ech_device_memory(old, "l2")->capacity, 41943040);
    /* 108 multiprocessors x 1024 multiply-adds x 1.41 GHz: the data sheet's 312 TFLOP/s. */
    ck_assert_uint_eq(ech_unit_peak(ech_device_unit(old, ECH_UNIT_MATRIX), "bf16") / 1000000000000, 311);
    /* The file's own rates win: 132 x 4 x 512 x 2 x 1.8295201 GHz. */
    ck_assert_uint_eq(ech_unit_peak(ech_device_unit(fresh, ECH_UNIT_MATRIX), "bf16") / 1000000000, 989170);
    ck_assert_str_eq(fresh->summary, "NVIDIA H100");
    ck_assert_uint_eq(ech_device_link(fresh, "host")->nominal, UINT64_C(34359738368));
    ck_assert_uint_eq(ech_device_link(fresh, "nvlink")->ports, 18);
    /* AMD's, whose matrix cores take f32 at an eighth of the rate of 16 bits: 304 x 1024 x 2.1 GHz. */
    static const char amd[] = "gpu_device_info { core_count: 304 fpus_per_core: 128 clock_rate_ghz: 2.1 memory_bandwidth: 5300000000000 "
                              "device_memory_size: 206158430208 rocm_compute_capability { gcn_arch_name: \"gfx942:sramecc+:xnack-\" } }";
    g_autoptr(GString) yaml = ech_gpu_target_yaml(amd, strlen(amd), "x", NULL);
    g_autoptr(EchDevice) mi300 = ech_test_device_yaml(yaml->str);
    ck_assert(ech_device_is_amd(mi300));
    ck_assert_uint_eq(ech_unit_peak(ech_device_unit(mi300, ECH_UNIT_MATRIX), "bf16") / 1000000000, 1307443);
    ck_assert_uint_eq(ech_unit_peak(ech_device_unit(mi300, ECH_UNIT_MATRIX), "f32") / 1000000000, 163430);
    ck_assert(ech_device_number(mi300, "kernel.sm_lanes", 0) == 64);
    ck_assert(!ech_device_is_amd(fresh));
    /* GeForces alone are kept from one another, when no link joins them. */
    static const char geforce[] = "gpu_device_info { core_count: 128 fpus_per_core: 128 clock_rate_ghz: 2.5 memory_bandwidth: 1008000000000 "
                                  "device_memory_size: 25282805760 } device_description_str: \"NVIDIA GeForce RTX 4090\"";
    g_autoptr(GString) cards = ech_gpu_target_yaml(geforce, strlen(geforce), "x", NULL);
    g_autoptr(EchDevice) card = ech_test_device_yaml(cards->str);
    ck_assert_double_eq_tol(ech_device_peer_share(card), 0.69, 1e-9);
    ck_assert(ech_device_peer_share(fresh) == 1 && ech_device_peer_share(mi300) == 1);
    /* Whose matrix units take 8 bits, and how fast: a die of an MI250X integers alone, at the rate of 16 bits; an L4 floats too, which an A10 does not. */
    static const struct {
        const char *capability;
        double s8, f8; /* over bf16; what is not listed is as f16 */
    } narrow[] = {{"rocm_compute_capability { gcn_arch_name: \"gfx90a\" }", 1, 1},
                  {"cuda_compute_capability { major: 8 minor: 9 }", 2, 2},
                  {"cuda_compute_capability { major: 8 minor: 6 }", 2, 1},
                  {"cuda_compute_capability { major: 10 minor: 3 }", 1.0 / 12, 2}};
    for (size_t i = 0; i < G_N_ELEMENTS(narrow); i++) {
        g_autofree char *text = g_strdup_printf(
            "gpu_device_info { core_count: 100 fpus_per_core: 128 clock_rate_ghz: 2 memory_bandwidth: 1e12 device_memory_size: 206158430208 %s }",
            narrow[i].capability);
        g_autoptr(GString) made = ech_gpu_target_yaml(text, strlen(text), "x", NULL);
        g_autoptr(EchDevice) gpu = ech_test_device_yaml(made->str);
        const EchUnit *matrix = ech_device_unit(gpu, ECH_UNIT_MATRIX);
        double bf16 = (double)ech_unit_peak(matrix, "bf16");
        ck_assert_double_eq_tol((double)ech_unit_peak(matrix, "s8") / bf16, narrow[i].s8, 1e-6);
        ck_assert_double_eq_tol((double)ech_unit_peak(matrix, "f8e4m3fn") / bf16, narrow[i].f8, 1e-6);
        ck_assert(ech_device_number(gpu, "kernel.sm_load_lanes", 32) == (strstr(text, "major: 8") ? 16 : 32));
    }
    /* Settings apply as to any device, and as a trace it is refused with advice. */
    const char *const settings[] = {"memories.hbm.capacity=x2", NULL};
    g_autoptr(EchDevice) doubled = ech_test_device(old_path, settings);
    ck_assert_uint_eq(ech_device_memory(doubled, "hbm")->capacity, 2 * UINT64_C(42505273344));
    must_fail("gpu_target/old.pbtxt", "--device FILE");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_gpu_target_yaml("gpu_device_info { core_count: 1 }", 33, "x", &error));
    ck_assert_msg(strstr(error->message, "clock_rate_ghz") != NULL, "%s", error->message);
}
END_TEST

/* Cut anywhere and with any bit changed: a trace or an error of ours that begins with the file's name, quickly. */
START_TEST(damage)
{
    static const char *const files[] = {"scalesim/conv.csv",           "memory_timeline/small.json",  "memory_profile/small.pb", "memory_profile/small.prof.gz",
                                        "memory_usage_report/new.txt", "memory_usage_report/old.txt", "out_of_memory/tpu.txt",   "out_of_memory/pytorch.txt"};
    static const char *const formats[] = {"scalesim",      "memory_timeline", "memory_profile", "memory_profile", "memory_usage_report", "memory_usage_report",
                                          "out_of_memory", "out_of_memory"};
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus", files[_i], NULL);
    g_autofree char *data = NULL;
    gsize n;
    ck_assert(g_file_get_contents(path, &data, &n, NULL));
    for (size_t i = 0; i < n; i++) {
        g_autofree uint8_t *copy = g_memdup2(data, n);
        copy[i] ^= (uint8_t)(1u << i % 8);
        for (int cut = 0; cut < 2; cut++) {
            g_autoptr(EchSource) source = ech_source_new_memory(copy, cut ? i : n, "damaged");
            g_autoptr(GError) error = NULL;
            g_autoptr(EchImport) import = ech_import_source(source, formats[_i], NULL, &error);
            ck_assert((import == NULL) == (error != NULL));
            ck_assert_msg(!error || error->domain != ECH_ERROR || error->code != ECH_ERROR_PARSE || g_str_has_prefix(error->message, "damaged:"), "%s",
                          error ? error->message : "");
        }
    }
}
END_TEST

/* Every byte above 127 replaced, as when a binary file is saved as text: the cause is named. */
START_TEST(mangled)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/xplane/tpu.pb", NULL);
    g_autofree char *data = NULL;
    gsize n;
    ck_assert(g_file_get_contents(path, &data, &n, NULL));
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    for (size_t i = 0; i < n; i++) {
        if ((uint8_t)data[i] < 0x80)
            g_byte_array_append(bytes, (const uint8_t *)&data[i], 1);
        else
            g_byte_array_append(bytes, (const uint8_t *)"\xef\xbf\xbd", 3);
    }
    g_autoptr(EchSource) source = ech_source_new_memory(bytes->data, bytes->len, "mangled.pb");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_import_source(source, NULL, NULL, &error));
    ck_assert_msg(strstr(error->message, "saved as UTF-8") != NULL, "%s", error->message);
}
END_TEST

/* ---- nothing is lost in a trace's own file ---- */

static void same_rows(const EchDiag *a, const EchDiag *b, const char *path)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(a, &n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(ech_diag_count(b, rows[i].name) == rows[i].count, "%s: %s", path, rows[i].name);
    size_t m;
    ech_diag_rows(b, &m);
    ck_assert_uint_eq(n, m);
    ck_assert_uint_eq(g_strv_length((char **)(uintptr_t)ech_diag_remarks(a)), g_strv_length((char **)(uintptr_t)ech_diag_remarks(b)));
}

static void there_and_back(const char *path)
{
    g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, NULL);
    if (!import || !import->trace)
        return;
    g_autoptr(EchTrace) counted = ech_import_with_counters(import, import->trace);
    ck_assert_ptr_nonnull(counted);
    g_autoptr(GString) text = ech_trace_file_print(counted), plain = ech_trace_file_print(import->trace);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text->str, text->len, "again.ech");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) again = ech_import_source(source, NULL, NULL, &error);
    ck_assert_msg(again != NULL, "%s: %s", path, error ? error->message : "");
    ck_assert_str_eq(again->format, "ech");
    g_autoptr(GString) plain_again = ech_trace_file_print(again->trace);
    ck_assert_msg(plain->len == plain_again->len && memcmp(plain->str, plain_again->str, plain->len) == 0, "%s", path);
    same_rows(import->records, again->records, path);
    same_rows(import->diag, again->diag, path);
}

static void walk(const char *folder, const char *const *kinds)
{
    for (const char *const *kind = kinds; *kind; kind++) {
        g_autofree char *path = g_build_filename(folder, *kind, NULL);
        g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
        for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
            g_autofree char *file = g_build_filename(path, name, NULL);
            GStatBuf status;
            if (g_stat(file, &status) == 0 && status.st_size < 1500000)
                there_and_back(file);
        }
    }
}

/* A database is read whole or not at all: one that is cut says so, one that was kept with a log is read if the log is in it. */
START_TEST(databases_whole)
{
    enum { WRITE_VERSION = 18, READ_VERSION = 19 };
    g_autofree char *bytes = NULL, *folder = g_dir_make_tmp("echelon-db-XXXXXX", NULL), *path = g_build_filename(folder, "a.sqlite", NULL),
                    *log = g_strconcat(path, "-wal", NULL);
    gsize n;
    ck_assert(g_file_get_contents(ECH_SOURCE_DIR "/tests/fuzz/corpus/nsys/new.sqlite", &bytes, &n, NULL));
    g_autoptr(EchSource) half = ech_source_new_memory((const uint8_t *)bytes, n / 2, "half.sqlite");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_import_source(half, NULL, NULL, &error));
    ck_assert_msg(strstr(error->message, "half.sqlite: the file is cut: ") != NULL, "%s", error->message);
    g_autoptr(EchImport) before = ech_test_corpus("nsys/new.sqlite", NULL);
    bytes[WRITE_VERSION] = bytes[READ_VERSION] = 2;
    ck_assert(g_file_set_contents(path, bytes, (gssize)n, NULL));
    g_autoptr(EchImport) logged = ech_test_import(path, NULL);
    ck_assert_uint_eq(ech_trace_n_ops(logged->trace), ech_trace_n_ops(before->trace));
    ck_assert(g_file_set_contents(log, "rows", 4, NULL));
    g_autoptr(GError) open = NULL;
    ck_assert_ptr_null(ech_import_file(path, NULL, NULL, &open));
    ck_assert_msg(strstr(open->message, "what was written last lies in ") != NULL, "%s", open->message);
    g_unlink(log);
    g_unlink(path);
    g_rmdir(folder);
}
END_TEST

START_TEST(own_file_loses_nothing)
{
    static const char *const corpora[] = {
        "kineto", "memory_snapshot", "memory_profile", "memory_timeline", "memory_usage_report", "minimalloc", "out_of_memory",
        "nsys",   "rmm_log",         "scalesim",       "xplane",          "xplane_json",         "cupti",      NULL};
    static const char *const traces[] = {"kineto", "memory_snapshot", "minimalloc", "nsys_sqlite", "scalesim", "xplane", NULL};
    walk(ECH_SOURCE_DIR "/tests/fuzz/corpus", corpora);
    if (!ech_test_lacks(ECH_SHARED "/traces"))
        walk(ECH_SHARED "/traces", traces);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("readers");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, scalesim_convolutions);
    tcase_add_test(tcase, scalesim_products);
    tcase_add_test(tcase, scalesim_columns);
    tcase_add_test(tcase, timeline_of_categories);
    tcase_add_loop_test(tcase, memory_profile_is_a_resident_set, 0, 2);
    tcase_add_test(tcase, memory_profile_beside_a_capture);
    tcase_add_test(tcase, snapshot_beside_a_profile);
    tcase_add_test(tcase, memory_events_follow_ended_work);
    tcase_add_test(tcase, one_gpu_by_two_numbers);
    tcase_add_test(tcase, processes_in_one_file);
    tcase_add_test(tcase, largest_of_a_list);
    tcase_add_test(tcase, devices_of_processes);
    tcase_add_test(tcase, events_in_halves);
    tcase_add_test(tcase, usage_reports);
    tcase_add_test(tcase, snapshots_of_compiled_models);
    tcase_add_test(tcase, profiles_name_the_program);
    tcase_add_test(tcase, usage_reports_of_the_compiler);
    tcase_add_test(tcase, gpu_targets_are_devices);
    tcase_add_loop_test(tcase, damage, 0, 8);
    tcase_add_test(tcase, mangled);
    tcase_add_test(tcase, databases_whole);
    tcase_add_test(tcase, own_file_loses_nothing);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
