/* Importers: megabytes of Kineto JSON and events of a memory snapshot per second of one core, and memory per byte of text, beside peers that only parse:
 * json-glib on a smaller file of the same kind, and the json and pickle modules of the python3 that is there. The captures are generated, in the shapes that
 * PyTorch writes; the first argument is the size of the JSON in MB (default 96; 1000 for the large figure). */
#include "sim/import/import.h"
#include "tests/support/clock.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* One launch as the profiler tells it: operator, Python frames, memory event, runtime call, flow and kernel. About 1.9 kB. */
static uint64_t write_launch(FILE *out, uint64_t i)
{
    static const char *const kernels[] = {
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
        "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int)",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, at::native::(anonymous "
        "namespace)::SoftMaxForwardEpilogue>(c10::BFloat16*, c10::BFloat16 const*, int)"};
    uint64_t us = 1419116239774 + i * 40, bytes = 0;
    bytes += (uint64_t)fprintf(out,
                               "  {\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"torch/nn/modules/linear.py(%" G_GUINT64_FORMAT
                               "): forward\", \"pid\": 21587, \"tid\": 21587,\n    \"ts\": %" G_GUINT64_FORMAT
                               ".105, \"dur\": 38.410,\n    \"args\": {\n      \"Python parent id\": %" G_GUINT64_FORMAT ", \"Python id\": %" G_GUINT64_FORMAT
                               ", \"Ev Idx\": %" G_GUINT64_FORMAT "\n    }\n  },\n",
                               100 + i % 40, us, i, i + 1, i * 3);
    bytes += (uint64_t)fprintf(
        out,
        "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mul\", \"pid\": 21587, \"tid\": 21587,\n    \"ts\": %" G_GUINT64_FORMAT
        ".695, \"dur\": 30.390,\n    \"args\": {\n      \"External id\": %" G_GUINT64_FORMAT
        ",\"Record function id\": 0, \"Concrete Inputs\": [\"\", \"[5185, 1024]\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\"], \"Input Strides\": "
        "[[5309440, 1024, 1], "
        "[5309440, 1024, 1]], \"Input Dims\": [[1, 5185, 1024], [1, 5185, 1024]], \"Ev Idx\": %" G_GUINT64_FORMAT "\n    }\n  },\n",
        us + 2, i + 1, i * 3 + 1);
    bytes += (uint64_t)fprintf(out,
                               "  {\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": 21587, \"tid\": "
                               "21587,\n    \"ts\": %" G_GUINT64_FORMAT
                               ".085,\n    \"args\": {\n      \"Total Reserved\": 3600809984, \"Total Allocated\": %d, \"Bytes\": %s1048576, \"Addr\": "
                               "137278998388736, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": %" G_GUINT64_FORMAT "\n    }\n  },\n",
                               us + 5, i % 2 ? 976637440 : 977686016, i % 2 ? "-" : "", i * 3 + 2);
    bytes += (uint64_t)fprintf(
        out,
        "  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 21587, \"tid\": 21587,\n    \"ts\": %" G_GUINT64_FORMAT
        ".259, \"dur\": 3.870,\n    \"args\": {\n      \"External id\": %" G_GUINT64_FORMAT ", \"cbid\": 211, \"correlation\": %" G_GUINT64_FORMAT
        "\n    }\n  },\n"
        "  {\n    \"ph\": \"s\", \"id\": %" G_GUINT64_FORMAT ", \"pid\": 21587, \"tid\": 21587, \"ts\": %" G_GUINT64_FORMAT
        ".259,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  },\n",
        us + 10, i + 1, i + 9, i + 9, us + 10);
    bytes += (uint64_t)fprintf(out,
                               "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %" G_GUINT64_FORMAT
                               ".818, \"dur\": 21.016,\n    \"args\": {\n      \"External id\": %" G_GUINT64_FORMAT
                               ", \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": %" G_GUINT64_FORMAT
                               ",\n      \"registers per thread\": 21,\n      \"shared memory\": 0,\n      \"blocks per SM\": 0.015152,\n      \"warps per "
                               "SM\": 0.060606,\n      \"grid\": [2, 1, 1],\n      \"block\": [8, 16, 1],\n"
                               "      \"est. achieved occupancy %%\": 0\n    }\n  },\n"
                               "  {\n    \"ph\": \"f\", \"id\": %" G_GUINT64_FORMAT ", \"pid\": 0, \"tid\": 7, \"ts\": %" G_GUINT64_FORMAT
                               ".818,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  },\n",
                               kernels[i % G_N_ELEMENTS(kernels)], us + 16, i + 1, i + 9, i + 9, us + 16);
    return bytes;
}

static uint64_t write_kineto(const char *path, uint64_t size)
{
    FILE *out = fopen(path, "w");
    if (!out) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(EXIT_FAILURE);
    }
    uint64_t bytes = (uint64_t)fprintf(
        out, "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100\", \"totalGlobalMem\": 84929478656}],\n"
             "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1751410836000000000,\n  \"traceEvents\": [\n");
    for (uint64_t i = 0; bytes < size; i++)
        bytes += write_launch(out, i);
    bytes += (uint64_t)fprintf(out, "  {\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"args\": {\"name\": \"python\"}}\n  ]\n}\n");
    if (fclose(out) != 0)
        exit(EXIT_FAILURE);
    return bytes;
}

/* ---- a pickle of n allocator events ---- */

static void text(GByteArray *out, const char *s)
{
    uint8_t head[2] = {0x8c, (uint8_t)strlen(s)};
    g_byte_array_append(out, head, 2);
    g_byte_array_append(out, (const uint8_t *)s, (guint)strlen(s));
    g_byte_array_append(out, (const uint8_t *)"\x94", 1);
}

static void get(GByteArray *out, uint8_t memo)
{
    uint8_t op[2] = {0x68, memo};
    g_byte_array_append(out, op, 2);
}

static void integer(GByteArray *out, uint64_t value)
{
    uint8_t op[10] = {0x8a, 8};
    for (int i = 0; i < 8; i++)
        op[2 + i] = (uint8_t)(value >> 8 * i);
    g_byte_array_append(out, op, 10);
}

/* Events as Python's pickler writes them: keys and actions from the memo, a shared list of frames. */
static GByteArray *make_snapshot(uint64_t n)
{
    static const char *const keys[] = {"action", "addr",           "size",           "stream",   "time_us",      "frames",
                                       "alloc",  "free_requested", "free_completed", "segments", "device_traces"};
    enum { MEMO_FRAMES = 14 };
    GByteArray *out = g_byte_array_new();
    g_byte_array_append(out, (const uint8_t *)"\x80\x04", 2);
    /* Memo 0 to 10: the texts, in a list that is thrown away with the first key. */
    g_byte_array_append(out, (const uint8_t *)"}\x94(", 3); /* memo 0: the whole */
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        text(out, keys[i]); /* memo 1 to 11 */
        if (i < G_N_ELEMENTS(keys) - 2)
            g_byte_array_append(out, (const uint8_t *)"N", 1);
        else if (i == G_N_ELEMENTS(keys) - 2)
            g_byte_array_append(out, (const uint8_t *)"]\x94", 2); /* memo 11: no segments */
    }
    g_byte_array_append(out, (const uint8_t *)"]\x94(]\x94(", 6); /* one device's events: memo 13 and 14 are lists */
    uint64_t action = 0;
    for (uint64_t i = 0; action < n; i++) {
        for (unsigned k = 0; k < 3 && action < n; k++, action++) {
            g_byte_array_append(out, (const uint8_t *)"}(", 2);
            get(out, 1);
            get(out, (uint8_t)(7 + k));
            get(out, 2);
            integer(out, UINT64_C(0x7f0000000000) + (i % 4096) * 2097152);
            get(out, 3);
            integer(out, 1048576 + i % 7 * 512);
            get(out, 4);
            g_byte_array_append(out, (const uint8_t *)"K\x00", 2);
            get(out, 5);
            integer(out, UINT64_C(1700000000000000) + action);
            g_byte_array_append(out, (const uint8_t *)"u", 1);
        }
    }
    g_byte_array_append(out, (const uint8_t *)"eeu.", 4);
    return out;
}

/* ---- measuring ---- */

typedef struct {
    double seconds, peak_bytes;
    uint64_t ops;
} Result;

static bool read_by_us(const char *path, uint64_t *ret_ops)
{
    GError *error = NULL;
    g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, &error);
    if (!import) {
        fprintf(stderr, "%s\n", error->message);
        return false;
    }
    *ret_ops = ech_trace_n_ops(import->trace);
    return true;
}

static bool read_by_json_glib(const char *path, uint64_t *ret_ops)
{
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    *ret_ops = 0;
    return json_parser_load_from_mapped_file(parser, path, NULL);
}

static bool read_by_python(const char *path, uint64_t *ret_ops)
{
    const char *module = g_str_has_suffix(path, ".json") ? "json" : "pickle";
    g_autofree char *program = g_strdup_printf("import %s, sys; %s.load(open(sys.argv[1], 'rb'))", module, module);
    const char *command[] = {"python3", "-c", program, path, NULL};
    int status = -1;
    *ret_ops = 0;
    return g_spawn_sync(NULL, (char **)(void *)command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, &status, NULL) && status == 0;
}

/* In a process of its own, so that its memory is its own. */
static bool measure(bool (*reads)(const char *path, uint64_t *ret_ops), const char *path, Result *ret)
{
    int fds[2];
    if (pipe(fds) != 0)
        exit(EXIT_FAILURE);
    pid_t child = fork();
    if (child == 0) {
        Result r = {0};
        struct rusage own, children;
        double begin = ech_test_cpu_seconds();
        if (!reads(path, &r.ops))
            _exit(1);
        getrusage(RUSAGE_SELF, &own);
        getrusage(RUSAGE_CHILDREN, &children);
        r.seconds = ech_test_cpu_seconds() - begin + (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
                    (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) * 1e-6;
        r.peak_bytes = (double)MAX(own.ru_maxrss, children.ru_maxrss) * 1024;
        _exit(write(fds[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
    }
    close(fds[1]);
    int status = 0;
    bool ok = read(fds[0], ret, sizeof *ret) == (ssize_t)sizeof *ret;
    close(fds[0]);
    waitpid(child, &status, 0);
    return ok && status == 0;
}

/* The fastest of three. */
static Result measure_ours(const char *path)
{
    Result best = {.seconds = 1e9};
    for (int i = 0; i < 3; i++) {
        Result r;
        if (!measure(read_by_us, path, &r))
            exit(EXIT_FAILURE);
        best = r.seconds < best.seconds ? r : best;
    }
    return best;
}

static void print_peer(const char *name, bool (*reads)(const char *path, uint64_t *ret_ops), const char *path, uint64_t bytes, const Result *ours,
                       uint64_t our_bytes)
{
    Result r;
    if (!measure(reads, path, &r))
        return;
    printf("{\"peer\": \"%s\", \"MB_per_s\": %.0f, \"peak_over_file\": %.1f, \"ours_over_peer\": %.1f}\n", name, (double)bytes / r.seconds / 1e6,
           r.peak_bytes / (double)bytes, (double)our_bytes / ours->seconds / ((double)bytes / r.seconds));
}

int main(int argc, char **argv)
{
    uint64_t megabytes = argc > 1 ? g_ascii_strtoull(argv[1], NULL, 10) : 96, events = 1000000;
    g_autofree char *folder = g_dir_make_tmp("bench-import-XXXXXX", NULL);
    if (!folder || megabytes == 0)
        return EXIT_FAILURE;
    g_autofree char *json = g_build_filename(folder, "kineto.json", NULL), *pickle = g_build_filename(folder, "snapshot.pickle", NULL);
    uint64_t bytes = write_kineto(json, megabytes * 1000000);
    Result best = measure_ours(json);
    printf("{\"kineto_bytes\": %" G_GUINT64_FORMAT ", \"operations\": %" G_GUINT64_FORMAT
           ", \"seconds\": %.3f, \"MB_per_s\": %.0f, \"peak_bytes\": %.0f, \"peak_over_text\": %.3f}\n",
           bytes, best.ops, best.seconds, (double)bytes / best.seconds / 1e6, best.peak_bytes, best.peak_bytes / (double)bytes);
    /* Whole trees take tens of bytes for one of text. */
    uint64_t few = write_kineto(json, MIN(megabytes, 16) * 1000000);
    print_peer("json-glib", read_by_json_glib, json, few, &best, bytes);
    print_peer("python3 json.load", read_by_python, json, few, &best, bytes);
    g_autoptr(GByteArray) snapshot = make_snapshot(events);
    if (!g_file_set_contents(pickle, (const char *)snapshot->data, (gssize)snapshot->len, NULL))
        return EXIT_FAILURE;
    best = measure_ours(pickle);
    printf("{\"snapshot_events\": %" G_GUINT64_FORMAT ", \"operations\": %" G_GUINT64_FORMAT
           ", \"seconds\": %.3f, \"events_per_s\": %.0f, \"peak_bytes\": %.0f}\n",
           events, best.ops, best.seconds, (double)events / best.seconds, best.peak_bytes);
    print_peer("python3 pickle.load", read_by_python, pickle, snapshot->len, &best, snapshot->len);
    g_unlink(json);
    g_unlink(pickle);
    g_rmdir(folder);
    return EXIT_SUCCESS;
}
