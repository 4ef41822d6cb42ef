/* Files of other tools, of which no reader makes a trace: each is named, with what to give instead; and logs in which such a table stands beside a message are
 * read for the message. */
#include "sim/import/import.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

static void refused(const char *data, size_t n, const char *said)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)data, n, "x");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_msg(import == NULL, "read: %s", data);
    ck_assert_msg(strstr(error->message, said) != NULL, "'%s' of: %s\nsaid: %s", said, data, error->message);
}

START_TEST(texts_are_named)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total Time (ns)  Instances  Name\n", "'nsys stats'"},
        {"Processing [r.sqlite] with [cuda_gpu_mem_size_sum.py]...\n Total (MB)  Count  Operation\n 8.4  2  [CUDA memcpy HtoD]\n", "'nsys stats'"},
        {"CUDA API Statistics:\n\n Time(%)  Total Time (ns)  Num Calls  Name\n  92.1  2500  3  cudaMallocHost\n  1.0  20  2  cudaGetLastError\n",
         "'nsys stats'"},
        {"\n ** CUDA GPU Trace (cuda_gpu_trace):\n\n Start (ns)   Duration (ns)  CorrId  GrdX\n 632,188,511  1,248  110  \n", "'nsys stats'"},
        {"\"Time(%)\",\"Total Time (ns)\",\"Instances\",\"Average\",\"Name\"\n52.7,1093,1200,9.5,\"gemm\"\n", "'nsys stats'"},
        {"\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Min\",\"Max\",\"Name\"\n,%,ms,,us,us,us,\n", "the text is nvprof's"},
        {"\"Start\",\"Duration\",\"Grid X\",\"Grid Y\",\"Grid Z\",\"Block X\"\ns,ms,,,,\n8.36,0.19,,,,\n", "the text is nvprof's"},
        {"\"Device\",\"Kernel\",\"Invocations\",\"Metric Name\",\"Min\"\n", "the text is nvprof's"},
        {"<?xml version=\"1.0\"?>\n<session version=\"2\" name=\"n.nvvp\">\n<timelineoptions enabletimerange=\"false\"/>\n", "Visual Profiler"},
        {"==41== NVPROF is profiling process 41, command: ./a\n==41== Profiling result:\n Type  Time(%)  Time\n", "the text is nvprof's"},
        {"==41== Profiling result:\n\"Type\",\"Time(%)\",\"Time\",\"Calls\"\n", "the text is nvprof's"},
        {"==PROF== Connected to process 41\n==PROF== Profiling \"k\": 0%....100% - 8 passes\n", "Nsight Compute's"},
        {"  k(float *) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n    Section: Occupancy\n", "Nsight Compute's"},
        {"File: python\nType: space\nShowing nodes accounting for 1.50GB, 99.9% of 1.50GB total\n", "what pprof prints"},
        {"-------- DeepSpeed Flops Profiler --------\nProfile Summary at step 5:\nparams per GPU:  60.51 M\n", "tells of no memory"},
        {"Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB)\nPTA,17.1,12.5,20.0\n", "Ascend NPUs"},
        {"Name,Size(KB),Allocation Time(us),Release Time(us)\naten::empty,512,17.0,18.0\n", "Ascend NPUs"},
        {"Kernel_Name,Count,Sum(ns),Mean(ns)\n\"k\",1,2,2\n", "ROCm Compute Profiler"},
        {"ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        def forward(self, x):\n", "torch.export made"},
        {"graph():\n    %x : [num_users=1] = placeholder[target=x]\n", "torch.fx traced"},
        {"{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }\n", "a jaxpr"},
        {".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry fusion(\n", "code of single kernels"},
        {"[{\"cols\":[{\"id\":\"a\",\"label\":\"A\"}],\"rows\":[{\"c\":[{\"v\":1}]}]}]", "XProf's or TensorBoard's"},
        {"[{\"memoryProfilePerAllocator\":{\"0\":{}}}]", "XProf's memory profile"},
        /* Rows whose head was not pasted. */
        {"               aten::addmm        48.43%      90.4us        51.07%      95.3us      47.7us    1.13 KB    1.13 KB     2\n",
         "torch.profiler's table of operators"},
        {"{\"byCategory\": {}, \"deviceType\": \"TPU\"}", "a page of XProf's"},
        {"{\"heapSizes\": [1], \"unpaddedHeapSizes\": [1], \"maxHeap\": []}", "PROGRAM.hlo_proto.pb"},
        {"{\"hloModule\": {}, \"bufferAssignment\": {}}", "PROGRAM.hlo_proto.pb"},
        {"{\"cells\": [], \"metadata\": {}, \"nbformat\": 4}", "a notebook"},
        {"{\"metadata\": {\"total_size\": 5}, \"weight_map\": {\"a\": \"b\"}}", "in which files the weights"},
        {"{\"segments\": [], \"device_traces\": [[]]}", "pickle.dump(json.load(open(\"FILE\"))"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        refused(cases[i].text, strlen(cases[i].text), cases[i].said);
}
END_TEST

/* Such a table in a log is not what the log is about. */
START_TEST(messages_come_first)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(
        "-------- DeepSpeed Flops Profiler --------\nparams per GPU:  60.51 M\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. "
        "GPU 0 has a total capacity of 24.00 GiB of which 32.00 MiB is free.\n",
        &error);
    ck_assert_ptr_nonnull(import);
    ck_assert_str_eq(ech_trace_format(import->trace), "out_of_memory");
    static const char killed[] = "-------- DeepSpeed Flops Profiler --------\nparams per GPU:  60.51 M\nworker exited with exitcode: -9\n";
    refused(killed, sizeof killed - 1, "was killed");
}
END_TEST

START_TEST(archives_are_named)
{
    static const char exported[] = "PK\3\4..........................m/data/weights/weight_0",
                      script[] = "PK\3\4....ts/data/0....PK\3\4....ts/code/__torch__/m.py", arrays[] = "PK\3\4....arr_0.npy", parquet[] = "PAR1\25\4\25\20";
    refused(exported, sizeof exported - 1, "torch.export wrote");
    refused(script, sizeof script - 1, "TorchScript");
    refused(arrays, sizeof arrays - 1, "NumPy");
    refused(parquet, sizeof parquet - 1, "'nsys export --type sqlite REPORT'");
}
END_TEST

/* Pickles of others, and snapshots within what a program keeps them in. */
START_TEST(pickles_are_named)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *said;
    } cases[] = {
#define PICKLE(text) text, sizeof text - 1
        {PICKLE("\x80\4\x8c\x0bnumpy._core\x8c\5array\x93."), "it holds objects of numpy._core.array"},
        {PICKLE("\x80\4\x8c\5bad\n.\x8c\5array\x93."), "refusing the file"},
        {PICKLE("\x80\4](K\1K\2e."), "a list of 2 values of another kind"},
        {PICKLE("\x80\4](}\x8c\x08segments]sh\x00.}e."), "opcode"}, /* damaged stays damaged */
        {PICKLE("\x80\4](}\x8c\x08segments]s}\x8c\x08segments]se."), "a list of 2 of them"},
        {PICKLE("\x80\4}(\x8c\4rankK\0\x8c\4snap}\x8c\x08segments]su."), "under 'snap'"},
        {PICKLE("\x80\4}(\x8c\4lossK\0\x8c\4step]u."), "its keys begin 'loss', 'step'"},
        {PICKLE("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."), "older files of torch.save"},
        {PICKLE("\x80\4K\5."), "a single value"},
#undef PICKLE
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        refused(cases[i].bytes, cases[i].n, cases[i].said);
}
END_TEST

/* Databases that look like Nsight Systems': nvprof's were read as runs in which nothing ran on the GPU. */
START_TEST(databases_are_named)
{
    static const struct {
        const char *sql, *said;
    } cases[] = {
        {"CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (_id_ INTEGER PRIMARY KEY, copyKind INT, bytes INT, start INT, end INT, deviceId INT, contextId INT, "
         "streamId INT);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER PRIMARY KEY, start INT, end INT, deviceId INT, name INT);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 1, 4096, 1500000000000000000, 1500000000000001000, 0, 1, 7);",
         "a database of nvprof"},
        {"CREATE TABLE OPS (BeginNs INTEGER, EndNs INTEGER, Name TEXT); CREATE TABLE COPY (BeginNs INTEGER, EndNs INTEGER, Name TEXT);"
         "CREATE TABLE HIP (BeginNs INTEGER, EndNs INTEGER, Name TEXT);",
         "rocprof before rocprofv3"},
        {"CREATE TABLE A (BeginNs INTEGER, EndNs INTEGER, Name TEXT); CREATE TABLE COPY (BeginNs INTEGER, EndNs INTEGER, Name TEXT);"
         "CREATE TABLE HSA (BeginNs INTEGER, EndNs INTEGER, Name TEXT);",
         "rocprof before rocprofv3"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = ech_test_database(cases[i].sql), *bytes = NULL;
        gsize n;
        ck_assert(g_file_get_contents(path, &bytes, &n, NULL));
        refused(bytes, n, cases[i].said);
    }
}
END_TEST

/* Timelines in Chrome's form, which is everybody's. A profile of PyTorch's in which nothing ran on a GPU is another thing. */
START_TEST(timelines_of_others)
{
    static const char untold[] = "{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1}, {\"ph\": \"X\", \"name\": \"CopyHostToDevice\", "
                                 "\"pid\": \"1\", \"tid\": \"0\", \"ts\": \"622109046136\", \"dur\": \"92212\", \"args\": {\"BeginNs\": \"1\"}}]}",
                      of_tensorflow[] =
                          "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"Op\", \"name\": \"MatMul\", \"pid\": 1, \"tid\": 0, \"ts\": 5, \"dur\": 2}]}",
                      of_pytorch[] =
                          "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"t\", \"pid\": 1, \"tid\": 0, \"ts\": 5, "
                          "\"dur\": 2}]}";
    static const char of_rocprof[] = "{\"traceEvents\": [{}, {\"ph\": \"X\", \"name\": \"scale.kd\", \"pid\": \"6\", \"tid\": \"0\", \"ts\": \"77\", \"dur\": "
                                     "\"5\", \"args\": {\"BeginNs\": \"77000\"}}, {\"ts\": 70, \"ph\": \"s\", \"cat\": \"DataFlow\", \"id\": 0, \"pid\": "
                                     "3, \"tid\": 9, \"name\": \"dep\"}]}",
                      of_mtia[] = "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"mtia_ccp_events\", \"name\": \"mm\", \"pid\": 0, "
                                  "\"tid\": 1, \"ts\": 5, \"dur\": 2}]}";
    g_autoptr(EchImport) rocprof = ech_test_text(of_rocprof, NULL);
    g_autoptr(EchImport) mtia = ech_test_text(of_mtia, NULL);
    ck_assert(ech_test_says(rocprof->diag, "rocprof before rocprofv3") && ech_test_says(rocprof->diag, "results.csv"));
    ck_assert(ech_test_says(mtia->diag, "Meta's MTIA") && !ech_test_says(mtia->diag, "ProfilerActivity") && !ech_test_says(mtia->diag, "another tool"));
    g_autoptr(EchImport) other = ech_test_text(untold, NULL);
    g_autoptr(EchImport) named = ech_test_text(of_tensorflow, NULL);
    g_autoptr(EchImport) own = ech_test_text(of_pytorch, NULL);
    ck_assert(ech_test_says(other->diag, "a timeline of another tool") && !ech_test_says(other->diag, "ProfilerActivity"));
    ck_assert(ech_test_says(named->diag, "its own are 'Op'"));
    ck_assert(ech_test_says(own->diag, "ProfilerActivity.CUDA records what does") && !ech_test_says(own->diag, "another tool"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tool_files");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, texts_are_named);
    tcase_add_test(tests, messages_come_first);
    tcase_add_test(tests, archives_are_named);
    tcase_add_test(tests, pickles_are_named);
    tcase_add_test(tests, databases_are_named);
    tcase_add_test(tests, timelines_of_others);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
