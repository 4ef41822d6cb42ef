#include "sim/import/tool_files.h"

#include <glib.h>
#include <string.h>

#define NSYS_STATS                                                                                                                                             \
    "the text is a table of 'nsys stats', which leaves out most of what was recorded; the database that it was made from is read (.sqlite; 'nsys export "      \
    "--type sqlite REPORT' makes one)"
#define NVPROF                                                                                                                                                 \
    "the text is nvprof's, sums or single lines without who waited for whom; 'nsys profile -o REPORT COMMAND' (it takes nvprof's options behind 'nsys "        \
    "nvprof') and 'nsys export --type sqlite REPORT' write what echelon reads"
#define VISUAL_PROFILER                                                                                                                                        \
    "the text is a session of NVIDIA's Visual Profiler, which is not read; 'nsys profile -o REPORT COMMAND' and 'nsys export --type sqlite REPORT' write "     \
    "what echelon reads"
#define NSIGHT_COMPUTE                                                                                                                                         \
    "the text is Nsight Compute's, of single kernels run again and again; echelon reads what ran when: 'nsys profile', torch.profiler, 'echelon capture'"
#define ASCEND                                                                                                                                                 \
    "the text is a table of the profiler of Ascend NPUs, whose work is not read; of their memory the snapshot of torch_npu.npu.memory._dump_snapshot is, "     \
    "which has PyTorch's form"
#define NOT_RUN                                                                                                                                                \
    "which nothing has run or compiled yet: 'echelon capture --pretend DEVICE -- COMMAND' runs the program that makes it on a device that is not there and "   \
    "leaves what echelon reads"
#define PTX "the text is the code of single kernels; give the program, module_....after_optimizations.txt"
#define MEMORY_PROFILE "what XProf's memory profile shows, whose events are read from the .xplane.pb that it was made from"
#define SNAPSHOT "it looks like a memory snapshot, which is read as the pickle that torch.cuda.memory._dump_snapshot writes"
#define MODEL                                                                                                                                                  \
    "it describes a model, not what it does: 'echelon capture --pretend DEVICE -- COMMAND' runs the program that makes it (from_config, "                      \
    "load_format=\"dummy\") on a device that is not there and says whether it fits"
#define NOTEBOOK "it is a notebook; what a cell printed is read, pasted into a file of its own"
#define XPROF_PAGE "it is a page of XProf's or TensorBoard's; the .xplane.pb that it was made from is read"

/* Each is where all of its marks are. */
static const struct {
    const char *marks[3], *what;
} texts[] = {
    {{"** CUDA ", "Summary", "\n"}, NSYS_STATS},
    {{"** CUDA GPU Trace (cuda_gpu_trace)"}, NSYS_STATS},
    {{"cuda_gpu_mem_size_sum", "Total (MB)"}, NSYS_STATS},
    {{"cuda_gpu_kern_sum", "Total Time (ns)"}, NSYS_STATS},
    {{"cuda_api_sum", "Total Time (ns)"}, NSYS_STATS},
    {{"\"Time(%)\",\"Total Time (ns)\",\""}, NSYS_STATS}, /* before 2022 */
    {{"CUDA API Statistics:", "Time(%)"}, NSYS_STATS},    /* before 2021 */
    {{"CUDA Kernel Statistics:", "Time(%)"}, NSYS_STATS},
    {{"CUDA Memory Operation Statistics"}, NSYS_STATS},
    {{"== NVPROF is profiling process"}, NVPROF},
    {{"== Profiling result:", "Time(%)"}, NVPROF},
    {{"GPU activities:", "Time(%)"}, NVPROF},
    {{"\"Type\",\"Time(%)\",\"Time\",\"Calls\","}, NVPROF},
    {{"\"Start\",\"Duration\",\"Grid X\",\"Grid Y\","}, NVPROF},
    {{"\"Device\",\"Kernel\",\"Invocations\",\""}, NVPROF},
    {{"<session version=\"", "<timelineoptions "}, VISUAL_PROFILER},
    {{"==PROF== Connected to process"}, NSIGHT_COMPUTE},
    {{"    Section: ", ", Context ", ", Stream "}, NSIGHT_COMPUTE},
    {{"Showing nodes accounting for "},
     "the text is what pprof prints of a profile; the profile itself is read (memory.prof of jax.profiler.save_device_memory_profile)"},
    {{"Component,Timestamp(us),Total "}, ASCEND},
    {{"Name,Size(KB),Allocation Time(us),"}, ASCEND},
    {{"Task ID,Stream ID,Name,Type,", "Accelerator Core"}, ASCEND},
    {{"Kernel_Name,Count,Sum(ns),"},
     "the text is a table of sums of ROCm Compute Profiler; what ran when is read: rocprofv3's database, its JSON, or STEM_kernel_trace.csv with what lies "
     "beside it (--runtime-trace)"},
    {{"KernelName", "gpu-id", "queue-index"},
     "the text is a table of rocprof's kernels without BeginNs and EndNs, which say when each ran: 'rocprof --timestamp on' writes them"},
    {{"ExportedProgram:", "class GraphModule("}, "the text is a program that torch.export made, " NOT_RUN},
    {{"graph():\n", "[num_users="}, "the text is a program that torch.fx traced, " NOT_RUN},
    {{"{ lambda ;", "let"}, "the text is a jaxpr, " ECH_NOT_COMPILED},
    {{".version ", ".target sm_", ".visible .entry"}, PTX},
    {{"\"memoryProfilePerAllocator\""}, "the text is " MEMORY_PROFILE},
    {{"\"cols\"", "\"rows\"", "\"label\""}, "the text is a table of a page of XProf's or TensorBoard's; the .xplane.pb that it was made from is read"},
};

static bool has_all(const char *text, size_t n, const char *const *marks, size_t n_marks)
{
    for (size_t i = 0; i < n_marks && marks[i]; i++) {
        if (!memmem(text, n, marks[i], strlen(marks[i])))
            return false;
    }
    return true;
}

/* A row of torch.profiler's table whose head was not pasted: an operator's name, then shares and times. */
static bool is_operators(const char *text, size_t n)
{
    for (const char *at = memmem(text, n, "aten::", 6); at; at = memmem(at + 6, n - (size_t)(at + 6 - text), "aten::", 6)) {
        const char *end = memchr(at, '\n', n - (size_t)(at - text)), *line_end = end ? end : text + n;
        const char *share = memchr(at, '%', (size_t)(line_end - at));
        const char *gap = memmem(at, (size_t)(line_end - at), "  ", 2);
        if (share && gap && gap < share && g_ascii_isdigit(share[-1]) && memchr(share + 1, '%', (size_t)(line_end - share - 1)))
            return true;
    }
    return false;
}

static const char *in_logs(const char *head, size_t n)
{
    if (memmem(head, n, "-- DeepSpeed Flops Profiler --", 30))
        return "the text is DeepSpeed's count of parameters, operations and times, which tells of no memory; 'echelon capture --pretend DEVICE -- COMMAND' "
               "runs the program on a device that is not there and tells what it needs and takes";
    if (is_operators(head, n))
        return "the text is torch.profiler's table of operators; prof.export_chrome_trace(\"trace.json.gz\") writes what echelon reads";
    return NULL;
}

const char *ech_tool_file_text(const char *head, size_t n, bool beside)
{
    if (n == 0)
        return NULL;
    if (beside)
        return in_logs(head, n);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        if (has_all(head, n, texts[i].marks, G_N_ELEMENTS(texts[i].marks)))
            return texts[i].what;
    }
    return NULL;
}

const char *ech_tool_file_json(const char *keys)
{
    static const struct {
        const char *marks[2], *what;
    } kinds[] = {
        {{"\"segments\""},
         SNAPSHOT "; python -c 'import json, pickle; "
                  "pickle.dump(json.load(open(\"FILE\")), open(\"FILE.pickle\", \"wb\"))' makes one of it"},
        {{"\"device_traces\""}, SNAPSHOT},
        {{"\"architectures\""}, MODEL},
        {{"\"model_type\""}, MODEL},
        {{"\"weight_map\""},
         "it says in which files the weights of a model lie: 'echelon capture --pretend DEVICE -- COMMAND' runs the program that uses them "
         "(from_config, load_format=\"dummy\") on a device that is not there and says whether it fits"},
        {{"\"memoryProfilePerAllocator\""}, "it is " MEMORY_PROFILE},
        {{"\"heapSizes\"", "\"maxHeap\""},
         "it is what XProf's memory viewer shows of one program; the program itself is read, with its buffer assignment: PROGRAM.hlo_proto.pb, which XProf "
         "keeps beside the .xplane.pb, or the .xplane.pb itself"},
        {{"\"hloModule\"", "\"bufferAssignment\""},
         "it is what TensorBoard's memory viewer shows of one program; the program itself is read, with its buffer assignment: PROGRAM.hlo_proto.pb beside the "
         ".xplane.pb, or the .xplane.pb itself"},
        {{"\"byCategory\""}, XPROF_PAGE},
        {{"\"byProgram\""}, XPROF_PAGE},
        {{"\"podStatsSequence\""}, XPROF_PAGE},
        {{"\"cols\"", "\"rows\""}, XPROF_PAGE},
        {{"\"nbformat\""}, NOTEBOOK},
        {{"\"cells\""}, NOTEBOOK},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (strstr(keys, kinds[i].marks[0]) && (!kinds[i].marks[1] || strstr(keys, kinds[i].marks[1])))
            return kinds[i].what;
    }
    return NULL;
}

const char *ech_tool_file_zip(const char *head, size_t n)
{
    static const struct {
        const char *mark, *what;
    } kinds[] = {
        {"/data/weights/weight_", "a program that torch.export wrote (.pt2), " NOT_RUN},
        {"archive_format", "a program that torch.export wrote (.pt2), " NOT_RUN},
        {"/code/__torch__", "a program of TorchScript, " NOT_RUN},
        {".npy", "arrays of NumPy (.npz)"},
        {"data.pkl", "a file of torch.save; write a memory snapshot with torch.cuda.memory._dump_snapshot"},
        {"word/document.xml", "a document of Word; paste its text into a file"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (memmem(head, n, kinds[i].mark, strlen(kinds[i].mark)))
            return kinds[i].what;
    }
    return NULL;
}
