/* What people paste when memory runs out: every wording's figures, and what it comes to; around them what logs, launchers, terminals and services put. */
#include "sim/import/import.h"
#include "sim/import/pasted.h"
#include "sim/import/rounded.h"
#include "sim/trace/lifetime.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* Bytes of all resident buffers that are called @name. */
static EchBytes held(const EchTrace *trace, const char *name)
{
    EchBytes sum = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *b = &ech_trace_buffers(trace)[i];
        sum += b->resident && strcmp(ech_trace_string(trace, b->name), name) == 0 ? b->bytes : 0;
    }
    return sum;
}

static EchBytes asked(const EchTrace *trace)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        if (ech_trace_ops(trace)[i].kind == ECH_OP_ALLOC)
            return ech_trace_ops(trace)[i].bytes;
    }
    return 0;
}

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* A text, what is said of it, what is asked for, who holds how much (NULL: nobody), and a property ("key=value"). */
typedef struct {
    const char *text, *says;
    EchBytes asked;
    const char *holder;
    EchBytes held;
    const char *property;
} Case;

static void check(const Case *c)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(c->text, &error);
    ck_assert_msg(import != NULL, "%s: %s", c->text, error ? error->message : "");
    ck_assert_str_eq(ech_trace_format(import->trace), "out_of_memory");
    ck_assert_msg(ech_test_says(import->diag, c->says), "'%s' of: %s\nsaid: %s", c->says, c->text, ech_diag_remarks(import->diag)[0]);
    ck_assert_msg(asked(import->trace) == c->asked, "%s: asked %" G_GUINT64_FORMAT, c->text, asked(import->trace));
    if (c->holder)
        ck_assert_msg(held(import->trace, c->holder) == c->held, "%s: %s holds %" G_GUINT64_FORMAT, c->text, c->holder, held(import->trace, c->holder));
    if (c->property) {
        g_auto(GStrv) pair = g_strsplit(c->property, "=", 2);
        ck_assert_msg(g_strcmp0(ech_trace_get_property(import->trace, pair[0]), pair[1]) == 0, "%s: %s is %s", c->text, pair[0],
                      ech_trace_get_property(import->trace, pair[0]));
    }
}

#define NEW "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
#define ON_24 ". GPU 0 has a total capacity of 24.00 GiB of which "

static const Case of_pytorch[] = {
    /* The sentence alone, as a title or a quotation has it. */
    {"Tried to allocate 512.00 MiB (GPU 1; 8.00 GiB total capacity; 5.00 GiB already allocated; 128.00 MiB free; 7.00 GiB reserved in total by PyTorch)",
     "512 MiB would fit into what is free (128 MiB) and what PyTorch holds unused (2 GiB)", 512 * MIB, "PyTorch's tensors", 5 * GIB, "had_bytes=8589934592"},
    /* Of R's torch. */
    {"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 5.00 GiB already allocated; 1.00 GiB free; 5.50 GiB reserved in total by "
     "Pytorch)",
     "no setting of the allocator would have served it: 2 GiB asked for, 1.50 GiB free and unused together", 2 * GIB, "PyTorch's tensors", 5 * GIB, NULL},
    /* Up to PyTorch 1.3 "cached" is what of that is not allocated; and a title that ends before what PyTorch holds. */
    {"CUDA out of memory. Tried to allocate 6.00 GiB (GPU 0; 32.00 GiB total capacity; 25.00 GiB already allocated; 4.50 GiB free; 1.25 GiB cached)",
     "6 GiB asked for, 5.75 GiB free and unused together", 6 * GIB, "not PyTorch's (context, libraries, other processes)", GIB + GIB / 4, NULL},
    {NEW "9.50 GiB" ON_24 "8.00 GiB is free. Including non-PyTorch memory, this process has 15.25 GiB memory in use.",
     "9.50 GiB were refused with 8 GiB free of 24 GiB that the device has", 9 * GIB + GIB / 2, NULL, 0, NULL},
    {"RuntimeError: XPU out of memory. Tried to allocate 1.00 GiB (GPU 0; 16.00 GiB total capacity; 1.00 GiB already allocated; 1.00 GiB reserved in total by "
     "PyTorch)",
     "1 GiB were refused beside 1 GiB that PyTorch held, of 16 GiB that the device has", GIB, "PyTorch's tensors", GIB, NULL},
    /* Whose the rest is old messages do not tell: of much of it not this process's. */
    {"RuntimeError: NPU out of memory. Tried to allocate 64.00 MiB (NPU 0; 32.00 GiB total capacity; 8.00 GiB already allocated; 8.00 GiB current active; "
     "16.00 "
     "MiB free; 8.50 GiB reserved in total by PyTorch)",
     "23.5 GiB are neither PyTorch's nor free, which is more than a context and libraries mostly take: other processes hold it, most likely", 64 * MIB, NULL, 0,
     NULL},
    {"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 5.00 GiB already allocated; 1.00 GiB free; 5.50 GiB reserved in total by "
     "PyTorch)",
     "1.50 GiB are neither PyTorch's nor free: the context, libraries, other processes", 2 * GIB, NULL, 0, NULL},
    /* A card that is full: what a setting would give is soon gone. */
    {NEW "64.00 MiB" ON_24
         "32.00 MiB is free. Including non-PyTorch memory, this process has 23.97 GiB memory in use. Of the allocated memory 23.50 GiB is allocated by "
         "PyTorch, and 48.00 MiB is reserved by PyTorch but unallocated.",
     "the device is full: 64 MiB more were asked for beside 23.5 GiB of tensors, of 24 GiB in all", 64 * MIB, NULL, 0, NULL},
    /* Wrapped by a terminal. */
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 8.00\nGiB total capacity; 5.00 GiB already allocated; 1.00 GiB free; 6.00\n"
     "GiB reserved in total by PyTorch) If reserved memory is >> allocated memory",
     "no setting of the allocator would have served it: 3 GiB asked for, 2 GiB free and unused together, 1 GiB too much beside 5 GiB in use", 3 * GIB,
     "PyTorch's tensors", 5 * GIB, NULL},
    {"RuntimeError: MPS backend out of memory (MPS allocated: 12.00 GB, other allocations: 2.00 GB, max allowed: 18.00 GB). Tried to allocate\n5.00 GB on "
     "private "
     "pool.\n",
     "no room: 5 GiB asked for beside 12 GiB of PyTorch's, of 18 GiB that it may take", 5 * GIB, "PyTorch's tensors", 12 * GIB, NULL},
    {"torch.OutOfMemoryError: CUDA out of memory. Tried\nto allocate 2.00 GiB" ON_24 "1.00 GiB is free. Of the allocated memory 22.00\nGiB is allocated by "
     "PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     "no setting of the allocator would have served it", 2 * GIB, "PyTorch's tensors", 22 * GIB, NULL},
    {NEW "1024.00 TiB" ON_24 "20.00 GiB is free. Of the allocated memory 1.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     "1 PiB asked for at once: no machine has as much", 1024 * 1024 * GIB, NULL, 0, NULL},
    /* This process and others, as the driver counts them. */
    {NEW "2.00 GiB" ON_24
         "0.50 GiB is free. Process 77 has 4.25 GiB memory in use. Including non-PyTorch memory, this process has 19.25 GiB memory in use. Of the "
         "allocated memory 17.00 GiB is allocated by PyTorch, and 0.25 GiB is reserved by PyTorch but unallocated.",
     "4.25 GiB are other processes', by number 77 (4.25 GiB)", 2 * GIB, "of this process, not PyTorch's (context, libraries)", 2 * GIB,
     "others_bytes=4563402752"},
    /* None of which is this one by its number: in a container. */
    {NEW "64.00 MiB" ON_24
         "16.00 MiB is free. Process 7 has 16.00 GiB memory in use. Process 9 has 7.90 GiB memory in use. Of the allocated memory 7.00 GiB is "
         "allocated by PyTorch, and 128.00 MiB is reserved by PyTorch but unallocated.",
     "by process: 7 (16 GiB), 9 (7.90 GiB); this one is among them", 64 * MIB, NULL, 0, NULL},
    /* What the driver does not tell. */
    {NEW "2.00 GiB" ON_24
         "1.00 GiB is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 22.00 GiB is "
         "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     "1 GiB are neither PyTorch's nor free", 2 * GIB, "not PyTorch's (context, libraries, other processes)", GIB, NULL},
    {NEW "512.00 MiB" ON_24
         "20.00 GiB is free. 2.00 GiB allowed; Of the allocated memory 1.75 GiB is allocated by PyTorch, with 16.00 MiB allocated in private pools "
         "(e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but unallocated.",
     "a limit of its own refused, not the device: 2 GiB are allowed to it (set_per_process_memory_fraction); of the device 20 GiB are free", 512 * MIB,
     "not PyTorch's (context, libraries, other processes)", 0, "had_bytes=2147483648"},
    {NEW "1.50 MiB" ON_24 "12.00 MiB is free. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     "1.50 MiB asked for, for which PyTorch takes 20 MiB from the device, and 12 MiB were free", 3 * MIB / 2, NULL, 0, NULL},
    {"CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 2.00 GiB, reserved "
     "(9.00 "
     "GiB) + requested size would exceed memory limit (10.00 GiB)",
     "a limit of its own refused, not the device: 10 GiB are allowed", 2 * GIB, "PyTorch's tensors", 9 * GIB, NULL},
    {"torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 6.00 GiB\nRequested          "
     "     : "
     "1.00 GiB\nDevice limit            : 8.00 GiB\nFree (according to CUDA): 256.00 MiB\nPyTorch limit (set by user-supplied memory fraction)\n               "
     "        "
     " : 17179869184.00 GiB\n",
     "1 GiB asked for beside 6 GiB of tensors, 256 MiB free", GIB, "neither tensors nor free (unused in the pool, context, other processes)", 7 * GIB / 4,
     NULL},
    {"torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated : 2.00 GiB\nRequested : 64.00 MiB\n"
     "Device limit : 8.00 GiB\nFree (according to CUDA): 5.00 GiB\nPyTorch limit (set by user-supplied memory fraction)\n: 17179869184.00 GiB\n",
     "5 GiB were free and 64 MiB refused all the same", 64 * MIB, NULL, 0, NULL},
    /* Intel's: 4 GiB and more not in one piece, whether it says what was free or not; more than there is, is more than there is. */
    {"XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 16.00 GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 "
     "bytes is reserved by PyTorch but unallocated.",
     "4 GiB in one piece, of 16 GiB that the GPU has: Intel's driver gives no piece of 4 GiB or more", 4 * GIB, NULL, 0, NULL},
    {"RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.00 GiB (GPU  0; 16.00 GiB total capacity; "
     "2.00 "
     "GiB already allocated; 2.00 GiB reserved in total by PyTorch)",
     "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1", 6 * GIB, "PyTorch's tensors", 2 * GIB, NULL},
    {"XPU out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 12.00 GiB of which 7.00 GiB is free. Of the allocated memory 4.00 GiB is "
     "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     "no setting of the allocator would have served it: 8 GiB asked for, 7 GiB free", 8 * GIB, "PyTorch's tensors", 4 * GIB, NULL},
    {"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 120.00 GiB of which 20.00 GiB is free. Of the "
     "allocated memory 90.00 GiB is allocated by PyTorch, and 128.00 MiB is reserved by PyTorch but unallocated.",
     "20 GiB were free and 8 GiB refused all the same: the driver did not give it, or other processes held it at that moment; of an APU's memory", 8 * GIB,
     "PyTorch's tensors", 90 * GIB, NULL},
    {"RuntimeError: MPS backend out of memory (MPS allocated: 12.00 GB, other allocations: 2.00 GB, max allowed: 18.00 GB). Tried to allocate 5.00 GB on "
     "private pool.",
     "no room: 5 GiB asked for beside 12 GiB of PyTorch's, of 18 GiB that it may take", 5 * GIB, "of this process, not PyTorch's (context, libraries)", 2 * GIB,
     NULL},
    {"RuntimeError: NPU out of memory. Tried to allocate 64.00 MiB (NPU 0; 60.00 GiB total capacity; 9.00 GiB already allocated; 9.00 GiB current active; "
     "32.00 MiB "
     "free; 10.00 GiB reserved in total by PyTorch)",
     "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", 64 * MIB, NULL, 0, NULL},
    {"{\"severity\":\"ERROR\",\"message\":\"" NEW "2.00 GiB" ON_24
     "1.00 GiB is free. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 0 bytes is "
     "reserved by PyTorch but unallocated.\\nSee the documentation\"}",
     "no setting of the allocator would have served it", 2 * GIB, "PyTorch's tensors", 22 * GIB, NULL},
    {"\x1b[31m\x1b[1mCUDA out of memory.\x1b[0m Tried to allocate \x1b[1m2.00 GiB\x1b[0m" ON_24
     "1.00 GiB is free. Of the allocated memory 22.00 GiB is allocated by "
     "PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     "no setting of the allocator would have served it", 2 * GIB, "PyTorch's tensors", 22 * GIB, NULL},
};

static const Case of_engines[] = {
    /* A line may end within the words that it is known by. */
    {"ValueError: Free memory on device cuda:1 (23.92/24.0 GiB) on startup is less\nthan desired GPU memory utilization (0.999, 23.98 GiB). Decrease GPU "
     "memory\n"
     "utilization or reduce GPU memory used by other processes.",
     "vLLM means to take 24.0 GiB on GPU 1 (0.999 of 24 GiB), and 23.9 GiB were free when it began: 61 MiB too little", 25748328940, "held by others", 85899346,
     NULL},
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 96.00 MiB on device\n4: cudaMalloc failed: out of memory", "llama.cpp was refused 96 MiB on GPU 4",
     96 * MIB, NULL, 0, NULL},
    {"E stream_executor/cuda/cuda_driver.cc:600] failed to\nallocate 512.00M (536870912 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY",
     "the framework's pool was refused 512 MiB", 512 * MIB, NULL, 0, NULL},
    /* Both lines are of one refusal. */
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 96.00 MiB on device 3: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to "
     "allocate "
     "CUDA3 buffer of size 100664320\n",
     "llama.cpp was refused 96 MiB on GPU 3", 96 * MIB, NULL, 0, NULL},
    {"level=INFO source=memory.go:356 msg=\"offload to cuda\" layers.requested=-1 layers.model=41 layers.offload=9 memory.available=\"[15.5 GiB]\" "
     "memory.required.full=\"80.0 GiB\" memory.required.kv=\"8.0 GiB\" memory.required.allocations=\"[15.0 GiB]\" memory.weights.total=\"64.0 GiB\" "
     "memory.graph.full=\"1.0 GiB\"\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 24576.00 MiB on device 0: cudaMalloc failed: out of memory\n",
     "what was refused is more than all that was free on that GPU (15.5 GiB)", 24 * GIB, NULL, 0, NULL},
    /* Scratch memory is no layer's. */
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to "
     "allocate ROCm0 buffer of size 17179869184\ngraph_reserve: failed to allocate compute buffers\n",
     "of which fewer layers here take nothing", 16 * GIB, NULL, 0, NULL},
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory\nalloc_tensor_range: failed to "
     "allocate CUDA0 buffer of size 17179869184\n",
     "fewer layers on this device (-ngl, --tensor-split), a shorter context", 16 * GIB, NULL, 0, NULL},
    {"Error: Model loading was stopped due to insufficient system resources. Under the current settings, this model requires approximately 24.00 GB of memory, "
     "and continuing to load it would likely overload your system and cause it to freeze.",
     "no memory was refused", 24 * GIB, NULL, 0, NULL},
    {"ValueError: To serve at least one request with the model's\nmax seq len (65536), (8.0 GiB KV cache is needed, which is larger than the\navailable KV "
     "cache memory (4.0 GiB). Based on the available memory, the\nestimated maximum model length is 32768.",
     "--max-model-len 32768", 8 * GIB, NULL, 0, NULL},
    {"Error: llama runner process has terminated: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1073741824",
     "llama.cpp was refused 1 GiB", GIB, NULL, 0, NULL},
    {"(EngineCore pid=12) ERROR 01-02 03:04:05 [core.py:5] ValueError: Free memory on device cuda:0 (30.00/40.00 GiB) on startup is less than desired GPU "
     "memory "
     "utilization (0.9, 36.00 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
     "10 GiB were held by others", 36 * GIB, "held by others", 10 * GIB, "had_bytes=42949672960"},
    {"Free memory on device (30.00/40.00 GiB) on startup is less than desired GPU memory utilization (0.9, 36.00 GiB).",
     "--gpu-memory-utilization 0.75 or less", 36 * GIB, NULL, 0, NULL},
    {"ValueError: Free memory on device cuda:0 (1.31/267.69 GiB) on startup is less than desired GPU memory utilization (0.9, 240.92 GiB).",
     "no --gpu-memory-utilization has room for a model", 240 * GIB + 987842478, NULL, 0, NULL},
    /* Nothing that a share of it could help. */
    {"ValueError: Free memory on device (0.25/40.00 GiB) on startup is less than desired GPU memory utilization (0.9, 36.00 GiB).",
     "in 256 MiB no --gpu-memory-utilization has room for a model", 36 * GIB, "held by others", 40 * GIB - GIB / 4, NULL},
    {"ValueError: To serve at least one request with the model's max seq len (65536),\n8.0 GiB KV cache is needed, which is larger than the available KV cache "
     "memory\n"
     "(2.00 GiB).",
     "one request of 65536 tokens needs 8 GiB of KV cache (128 KiB a token), and 2 GiB are left", 8 * GIB, NULL, 0, NULL},
    {"To serve at least one request with the models's max seq len (65536), (8.0 GiB KV cache is needed, which is larger than the available KV cache memory "
     "(2.00 GiB).",
     "--max-model-len 16384 (as many tokens as it holds", 8 * GIB, NULL, 0, "had_bytes=2147483648"},
    {"load_tensors:        CUDA0 model buffer size =  1024.00 MiB\nload_tensors:        CUDA1 model buffer size =  4096.00 MiB\nllama_context:  CUDA_Host  "
     "output buffer "
     "size = 1.00 MiB\nllama_kv_cache:      CUDA1 KV buffer size =   512.00 MiB\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device "
     "1: "
     "cudaMalloc failed: out of memory\n",
     "llama.cpp was refused 2 GiB on GPU 1, with 4.50 GiB that it tells of on that device", 2 * GIB, "model, CUDA1", 4 * GIB, NULL},
    {"Exception: Capture cuda graph failed: Failed to allocate memory for batch_prefill_tmp_v with size 1073741824 and alignment 16 in AlignedAllocator",
     "FlashInfer was refused 1 GiB of its workspace", GIB, NULL, 0, "limit_of_a_kernel=true"},
    {"triton.code_gen.OutOfResources: out of resource: shared memoryRequired: 131072Hardware limit: 65536", "of 64 KiB there are: 64 KiB too much", 128 * KIB,
     NULL, 0, NULL},
    {"E cuda_driver.cc:802] failed to alloc 1073741824 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "that is page-locked memory", GIB, NULL, 0,
     NULL},
    /* Where a comma stands before decimals, and where it divides thousands. */
    {"Out of memory error on GPU 0. Cannot allocate 256.000000MB GPU memory, available memory is 64.500000MB.",
     "PaddlePaddle was refused 256 MiB, 64.5 MiB free", 256 * MIB, NULL, 0, NULL},
    {"ValueError: Not enough host memory available. Requesting 64.00 GB but only have 54.00 GB free. Please reduce the size of the hierarchical cache.",
     "SGLang was refused 59.6 GiB of the host's memory, 50.3 GiB free", UINT64_C(64000000000), NULL, 0, NULL},
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048,50 MiB on device 0: cudaMalloc failed: out of memory\n", "llama.cpp was refused 2.00 GiB",
     4097 * MIB / 2, NULL, 0, NULL},
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1024,125 MiB on device 0: cudaMalloc failed: out of memory\n", "llama.cpp was refused 1.00 GiB",
     GIB + MIB / 8, NULL, 0, NULL},
    {"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,048,576 bytes (allocated so far: 2,097,152 bytes).",
     "CuPy was refused 1 MiB, with 2 MiB in use", MIB, "CuPy's pool", 2 * MIB, NULL},
    {"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 65536. Reducing block sizes or `num_stages` may "
     "help.",
     "Triton was refused 128 KiB of shared memory, of 64 KiB there are: 64 KiB too much", 128 * KIB, NULL, 0, "limit_of_a_kernel=true"},
    {"out of resource: shared memory, Required: 131072, Hardware limitation: 65536. reducing the block size may help", "of 64 KiB there are", 128 * KIB, NULL,
     0, NULL},
    {"error: 'memref.alloca' op current allocation offset upper bound (2048 words) exceeds the legitimate user allocatable offset upper bound (1024 words) in "
     "memory space 201",
     "was refused 8 KiB of the scratchpad, of 4 KiB there are: 4 KiB too much", 8 * KIB, NULL, 0, "limit_of_a_kernel=true"},
    {"RuntimeError: No valid triton configs. OutOfMemoryError: out of resource: triton_mm_3 Required: 294912 Hardware limit:131072 Reducing block sizes may "
     "help.",
     "Triton was refused 288 KiB of shared memory, of 128 KiB there are: 160 KiB too much", 288 * KIB, NULL, 0, NULL},
    {"[TRT] [W] Requested amount of GPU memory (2147483648 bytes) could not be allocated. There may not be enough free memory", "TensorRT was refused 2 GiB",
     2 * GIB, NULL, 0, NULL},
    {"[TRT] [E] [a.cpp::b::1] Error Code 2: OutOfMemory (Requested size was 1073741824 bytes.)", "TensorRT was refused 1 GiB", GIB, NULL, 0, NULL},
    {"std::bad_alloc: out_of_memory: RMM failure at:/a/pool_memory_resource.hpp:196: Maximum pool size exceeded (failed to allocate 4.000000 GiB)",
     "RMM was refused 4 GiB", 4 * GIB, NULL, 0, NULL},
    {"MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 3221225472 bytes) at: /a/cuda_memory_resource.hpp:62: "
     "cudaErrorMemoryAllocation out of memory",
     "RMM was refused 3 GiB", 3 * GIB, NULL, 0, NULL},
    {"ggml_vulkan: Device memory allocation of size 1073741824 failed.\nggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
     "llama.cpp was refused 1 GiB", GIB, NULL, 0, NULL},
    {"XlaRuntimeError: RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 262144, available: 101376", "XLA was refused 256 KiB of shared memory",
     256 * KIB, NULL, 0, "had_bytes=101376"},
    {"Out of memory error on GPU 0. Cannot allocate 256.000000MB memory on GPU 0, 7.000000GB memory has been allocated and available memory is only "
     "96.000000MB.",
     "PaddlePaddle was refused 256 MiB, with 7 GiB in use, 96 MiB free", 256 * MIB, "allocated on the device, by whomever", 7 * GIB, NULL},
    {"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes (allocated so far: 3,221,225,472 bytes, limit set to: 4,000,000,000 "
     "bytes).",
     "CuPy was refused 1 GiB, with 3 GiB in use, of 3.73 GiB there are", GIB, "CuPy's pool", 3 * GIB, NULL},
    {"out of memory to allocate 1073741824 bytes (total 4294967296 bytes)", "CuPy was refused 1 GiB, with 3 GiB in use", GIB, "CuPy's pool", 3 * GIB, NULL},
    {"ERROR: Out of GPU memory trying to allocate 2.000 GiB\nEffective GPU memory usage: 87.50% (7.000 GiB/8.000 GiB)\nMemory pool usage: 5.000 GiB (6.500 GiB "
     "reserved)",
     "CUDA.jl was refused 2 GiB, with 7 GiB in use, of 8 GiB there are", 2 * GIB, "allocated on the device, by whomever", 7 * GIB, NULL},
    {"Error: model requires more system memory (12.0 GiB) than is available (9.0 GiB)", "ollama was refused 12 GiB of the host's memory, 9 GiB free", 12 * GIB,
     NULL, 0, NULL},
    {"BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 1073741824", "ONNX Runtime was refused 1 GiB", GIB, NULL, 0, NULL},
    {"BFCArena::AllocateRawInternal Available memory of 4096 is smaller than requested bytes of 8192", "ONNX Runtime was refused 8 KiB, 4 KiB free", 8 * KIB,
     NULL, 0, NULL},
    {"[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12",
     "PyTorch was refused 64 GiB of the host's memory", 64 * GIB, NULL, 0, NULL},
    {"E cuda_driver.cc:1] failed to alloc 2147483648 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "2 GiB of the host's memory", 2 * GIB, NULL, 0,
     NULL},
    {"2026-01-02 03:04:05.6: E rocm_driver.cc:1] failed to allocate 96.00TiB (105553116266496 bytes) from device: HIP_ERROR_OutOfMemory\n",
     "no device has that much", 98304 * GIB, NULL, 0, NULL},
    {"2026-01-02 03:04:05.6: E rocm_driver.cc:1] failed to allocate 7.00G (7516192768 bytes) from device: hipError_t(2)\n", "this alone is no error", 7 * GIB,
     NULL, 0, NULL},
    {"E0102 03:04:05.678901 11 gpu_cudamallocasync_allocator.cc:9] gpu_async_0 cuMemAllocAsync failed to allocate 2147483648 bytes: out of memory\n Reported "
     "by CUDA: "
     "Free memory/Total memory: 1073741824/17179869184\nE0102 03:04:05.678902 11 gpu_cudamallocasync_allocator.cc:9] 4096, 3\nE0102 03:04:05.678903 12 "
     "gpu_cudamallocasync_allocator.cc:9] 8192, 3\nE0102 03:04:05.678904 11 gpu_cudamallocasync_allocator.cc:9] 1048576, 2\n",
     "cudaMallocAsync's pool was refused 2 GiB, with 2.01 MiB that it tells of on that device, 1 GiB free, of 16 GiB there are", 2 * GIB, "2 of 1 MiB", 2 * MIB,
     NULL},
    /* As TensorFlow logs it: for which array, after what the pool held. */
    {"E0000 00:00:1767323045.000001    4321 gpu_cudamallocasync_allocator.cc:9] gpu_async_0 cuMemAllocAsync failed to allocate 3221225472 bytes: "
     "RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\n Reported by CUDA: Free memory/Total memory: 1073741824/17179869184\n"
     "E0000 00:00:1767323045.000002    4321 gpu_cudamallocasync_allocator.cc:9] 4, 7\nE0000 00:00:1767323045.000003    4321 "
     "gpu_cudamallocasync_allocator.cc:9] 1073741824, 5\nW0000 00:00:1767323045.000004    4321 op_kernel.cc:1] OP_REQUIRES failed at matmul.h:1 : "
     "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[98304,8192] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator "
     "gpu_async_0\n",
     "cudaMallocAsync's pool was refused 3 GiB, with 5.00 GiB that it tells of on that device, 1 GiB free, of 16 GiB there are", 3 * GIB, "5 of 1 GiB", 5 * GIB,
     NULL},
    /* One array that is larger than Metal's buffers, however much is free; and a Mac that is full. */
    {"    mx.eval(scores)\nRuntimeError: [metal::malloc] Attempting to allocate 68719476736 bytes which is greater than the maximum allowed buffer size of "
     "34359738368 bytes.",
     "MLX was refused one array of 64 GiB: Metal gives no buffer larger than 32 GiB on this machine", 64 * GIB, NULL, 0, "had_bytes=34359738368"},
    {"[malloc_or_wait] Unable to allocate 2147483648 bytes.", "that is the machine's memory, which its CPU shares", 2 * GIB, NULL, 0, NULL},
    {"RuntimeError: [malloc_or_wait] Unable to allocate 2147483648 bytes.", "that is the machine's memory, which its CPU shares", 2 * GIB, NULL, 0, NULL},
    {"ggml_new_object: not enough space in the context's memory pool (needed 1048704, available 1048576)",
     "ggml was refused 1.00 MiB of its workspace, of 1 MiB there are: 128 B too much", 1048704, NULL, 0, "limit_of_a_kernel=true"},
    {"ggml_allocr_alloc: not enough space in the buffer (needed 409600, largest block available 102400)\nAborted", "a fault of the program", 409600, NULL, 0,
     NULL},
    {"[INFO ] stable-diffusion.cpp:558  - loading model\nggml_vulkan: Device memory allocation of size 3221225472 failed.\nggml_vulkan: Requested buffer size "
     "exceeds device memory allocation limit: ErrorOutOfDeviceMemory\n",
     "stable-diffusion.cpp was refused 3 GiB", 3 * GIB, NULL, 0, NULL},
    {"ggml_vulkan: Device memory allocation of size 3221225472 failed.\nggml_vulkan: Requested buffer size exceeds device memory allocation limit: "
     "ErrorOutOfDeviceMemory\n",
     "larger than the driver allows one buffer to be, however much is free", 3 * GIB, NULL, 0, NULL},
    {"NvMapMemAllocInternalTagged: 1075072515 error 12\nNvMapMemHandleAlloc: error 0\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on "
     "device 0: cudaMalloc failed: out of memory\n",
     "share one memory: 'free -h' and tegrastats tell who holds it", 2 * GIB, NULL, 0, NULL},
    /* What llama.cpp reckoned with before. */
    {"common_params_fit_impl: projected to use 20480 MiB of device memory vs. 15360 MiB of free device memory\ncommon_params_fit_impl: cannot meet free memory "
     "target of "
     "1024 MiB, need to reduce device memory by 6144 MiB\ncommon_fit_params: failed to fit params to free device memory: model_params::tensor_buft_overrides "
     "already "
     "set by user, abort\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 0: cudaMalloc failed: out of memory\n",
     "it did not look for settings that fit (model_params::tensor_buft_overrides already set by user)", 2048 * MIB, NULL, 0, NULL},
    /* Two devices that together have more than enough, one of them not; and one that counted more as free than its driver gives. */
    {"llama_params_fit_impl: projected memory use with initial parameters [MiB]:\nllama_params_fit_impl:   - ROCm0 (Radeon):  16384 total,  20480 used,  -5120 "
     "free vs. target of   1024\nllama_params_fit_impl:   - RPC0 (10.0.0.7:50052):  65536 total,   8192 used,  49152 free vs. target of   1024\n"
     "llama_params_fit_impl: projected to use 28672 MiB of device memory vs. 72704 MiB of free device memory\nllama_params_fit: failed to fit params to free "
     "device memory: n_gpu_layers already set by user to 99, abort\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 0: "
     "cudaMalloc failed: out of memory\n",
     "28 GiB on its devices, where 71 GiB were free: less than is free of all of them together, but each has to hold its own share", 20 * GIB, NULL, 0, NULL},
    {"llama_params_fit_impl:   - ROCm0 (Radeon):  16384 total,  20480 used,  -5120 free vs. target of   1024\nllama_params_fit_impl:   - RPC0 "
     "(10.0.0.7:50052):  65536 total,   8192 used,  49152 free vs. target of   1024\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on "
     "device 0: cudaMalloc failed: out of memory\n",
     "ROCm0: 20 GiB of 16 GiB, 5 GiB more than was free: too much, as it is to leave 1 GiB. Less of it there", 20 * GIB, NULL, 0, NULL},
    {"llama_params_fit_impl:   - ROCm0 (Radeon):  16384 total,  20480 used,  -5120 free vs. target of   1024\nllama_params_fit_impl:   - RPC0 "
     "(10.0.0.7:50052):  65536 total,   8192 used,  49152 free vs. target of   1024\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on "
     "device 0: cudaMalloc failed: out of memory\n",
     "RPC0: 8 GiB of 64 GiB, 48 GiB left free", 20 * GIB, NULL, 0, NULL},
    {"llama_params_fit_impl:   - CUDA0 (A):  49152 total, 65536 used,  20480 deficit\nllama_params_fit_impl:   - CUDA1 (A):  49152 total, 16384 used,  28672 "
     "surplus\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 65536.00 MiB on device 0: cudaMalloc failed: out of memory\n",
     "CUDA0: 64 GiB of 48 GiB, 20 GiB more than was free. Less of it there", 64 * GIB, NULL, 0, NULL},
    {"llama_params_fit_impl: projected to use 12288 MiB of device memory vs. 24576 MiB of free device memory\nllama_params_fit_impl: will leave 12288 >= 1024 "
     "MiB "
     "of free device memory, no changes needed\nggml_vulkan: Device memory allocation of size 12884901888 failed.\n",
     "gives less in one piece, or to one process, than it counts as free", 12 * GIB, NULL, 0, NULL},
    /* Triton's own pools. */
    {"W0410 13:51:44.743979 1 memory.cc:212] Failed to allocate CUDA memory with byte size 134217728 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY, falling back to "
     "pinned system memory",
     "--cuda-memory-pool-byte-size", 128 * MIB, NULL, 0, NULL},
    {"W0410 13:51:44.743979 1 memory.cc:212] Failed to allocate pinned system memory with byte size 134217728: falling back to non-pinned system memory",
     "--pinned-memory-pool-byte-size", 128 * MIB, NULL, 0, NULL},
    /* A warning before what failed is not what failed. */
    {"Failed to allocate CUDA memory with byte size 134217728 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory\n"
     "bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 2147483648\n",
     "ONNX Runtime was refused 2 GiB", 2 * GIB, NULL, 0, NULL},
};

/* XLA's, of one array, and who asks. */
static const Case of_arrays[] = {
    {"ValueError: Allocation (size=21474836480) would exceed memory (size=17179869184) :: #allocation14 [shape = 'f32[320,4096,4096]{1,2,0:T(8,128)}', "
     "space=hbm, size = 0xffffffffffffffff, tag = 'output of fusion.3@{1}'] :: <no-hlo-instruction>",
     "XLA refused one array: 20 GiB of hbm asked for as output of fusion.3@{1}, of 16 GiB there are: 4 GiB too much", 0, "one array", 20 * GIB,
     "had_bytes=17179869184"},
    {"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Allocation (size=134217728) would exceed memory (size=67108864) :: #allocation25 [shape = "
     "'u8[134217728]{0}', space=vmem, size = 0x8000000, tag = 'scoped memory for my_kernel.2'] :: my_kernel.2",
     "asked for as scoped memory for my_kernel.2, of 64 MiB there are: 64 MiB too much", 0, "one array", 128 * MIB, "limit_of_a_kernel=true"},
    {"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Allocation (size=268435456) would exceed memory (size=134217728) :: #allocation3 [shape = "
     "'u8[268435456]{0}', space=vmem, size = 0x10000000, scoped, tag = 'input window allocation for operator input 0. The window shape is f32[8192,8192], "
     "while "
     "the full shape is f32[8192,8192].']",
     "no limit helps: smaller blocks", 0, "one array", 256 * MIB, "had_bytes=134217728"},
    {"RESOURCE_EXHAUSTED: Allocation (size=2097152) would exceed memory (size=1048576) :: #allocation2 [shape = 's32[524288]{0}', space=smem, size = 0x200000]",
     "prefetched scalars", 0, "one array", 2 * MIB, "limit_of_a_kernel=true"},
    /* JAX on the host's processor: GPUs' and TPUs' clients have other words. */
    {"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1099511627776 bytes.",
     "1 TiB at once of the host's memory: JAX ran on the processor", 1024 * GIB, NULL, 0, NULL},
    {"XlaRuntimeError: INTERNAL: Autotuning failed for HLO: %gemm_fusion_dot.3 = f32[16384,16384]{1,0} fusion(...), calls=%c with error: RESOURCE_EXHAUSTED: "
     "Out "
     "of memory while trying to allocate 1073741824 bytes.",
     "--xla_gpu_autotune_level=0", GIB, NULL, 0, NULL},
    {"XlaRuntimeError: UNKNOWN: Failed to determine best cudnn convolution algorithm for:\n%cudnn-conv.1 = (f32[1,64,1200,1200]{3,2,1,0}, u8[0]{0}) "
     "custom-call(...)\n\nOriginal error: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5898240000 bytes.\n",
     "while XLA timed kernels for one instruction", 5898240000, NULL, 0, NULL},
    {"INTERNAL: Kernel requires 262144 bytes of shared memory, which exceeds the device limit of 232448", "XLA was refused 256 KiB of shared memory", 256 * KIB,
     NULL, 0, "limit_of_a_kernel=true"},
    {"ValueError: Mosaic GPU kernel exceeds available shared memory: smem_bytes=114688 > max_smem_bytes=101376", "of 99 KiB there are: 13 KiB too much",
     112 * KIB, NULL, 0, NULL},
    {"ptxas error   : Entry function 'k' uses too much shared data (0x1c000 bytes, 0xc000 max)", "of 48 KiB there are: 64 KiB too much", 112 * KIB, NULL, 0,
     "limit_of_a_kernel=true"},
    {"RuntimeError: PyTorch XPU: Failed to allocate pinned memory of 1073741824 bytes", "1 GiB of page-locked memory of the host were refused", GIB, NULL, 0,
     NULL},
    {"RESOURCE_EXHAUSTED: Failed to allocate a 4294967296-byte pinned host staging buffer for a host-to-device transfer.",
     "4 GiB of page-locked memory of the host were refused", 4 * GIB, NULL, 0, NULL},
    {"cudaMallocManaged(&p, 137438953472) failed: out of memory", "128 GiB of the device's memory were refused", 128 * GIB, NULL, 0, NULL},
    {"fatal error: runtime: out of memory: cannot allocate 4194304-byte block (34359738368 in use)", "4 MiB of the host's memory were refused", 4 * MIB, NULL,
     0, NULL},
    {"INTERNAL: Failed to allocate 402653184 bytes for new constant", "384 MiB of the device's memory were refused", 384 * MIB, NULL, 0, NULL},
    {"2024-May-01 10:00:00.0 1:1 ERROR  TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 536870912", "512 MiB of the device's memory were refused",
     512 * MIB, NULL, 0, NULL},
};

#define ITEM(label) "     XLA label: %" label "\n     Allocation type: HLO temp\n     ==========================\n"

/* Software that no reader knows by its name: what the words say, and whose memory it was. */
static const Case of_others[] = {
    {"ggml_metal_init: recommendedMaxWorkingSetSize  = 49152.00 MiB\nggml_metal_add_buffer: error: failed to allocate 'data            ' buffer, size = "
     "20480.00 "
     "MiB\n",
     "iogpu.wired_limit_mb", 20 * GIB, NULL, 0, NULL},
    {"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.00 GiB for an array with shape (402653184, 2) and data type float32",
     "3 GiB of the host's memory were refused (line 1: 'numpy", 3 * GIB, NULL, 0, NULL},
    {"MemoryError: Unable to allocate 128. GiB for an array with shape (131072, 131072) and data type float64", "128 GiB of the host's memory", 128 * GIB, NULL,
     0, NULL},
    {"load.py:3: UserWarning: Using synchronous transfer as pinned memory (2147483648 bytes) could not be allocated. The original error was: out of memory",
     "2 GiB of page-locked memory of the host were refused, and the program goes on without: a warning, not an error", 2 * GIB, NULL, 0, NULL},
    {"Model loading was stopped due to insufficient system resources. This model requires approximately 40.00 GB of memory", "40 GiB of memory were refused",
     40 * GIB, NULL, 0, NULL},
    {"step 1 done\nFailed to allocate resource[DeviceMemory] with info [size:2147483648]. Reason: Memory resources are exhausted.",
     "2 GiB of the device's memory were refused (line 2:", 2 * GIB, NULL, 0, NULL},
    {"RuntimeError: Could not allocate tensor with 67108864 bytes. There is not enough GPU video memory available!",
     "64 MiB of the device's memory were refused", 64 * MIB, NULL, 0, NULL},
    {"Failed to clCreateBuffer(ctx, CL_MEM_READ_WRITE, 67108864, nullptr, ...)", "64 MiB of the device's memory were refused", 64 * MIB, NULL, 0, NULL},
    {"memory allocation of 34359738368 bytes failed", "32 GiB of memory were refused", 32 * GIB, NULL, 0, NULL},
    {"ValueError: kernel exceeds available shared memory smem_bytes=262144 > 228000", "256 KiB of memory on the chip were refused", 256 * KIB, NULL, 0,
     "limit_of_a_kernel=true"},
    {"warning: could not allocate 2.00 GiB on the GPU, falling back to pinned memory", "2 GiB of the device's memory were refused, and the program goes on",
     2 * GIB, NULL, 0, NULL},
    /* The first with a size counts, and one that the program does without counts last. */
    {"Failed to allocate memory.\nwarning: could not allocate 4.00 GiB of device memory, falling back\nerror: cannot allocate 1.00 GiB of device memory\n",
     "1 GiB of the device's memory were refused (line 3:", GIB, NULL, 0, NULL},
    /* Figures on lines of their own; whose memory a status of CUDA tells, or the file that logs. */
    {"device_helpers.cuh:431: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n- Free memory: 8388608\n"
     "- Requested memory: 33554432\n\nStack trace:\n",
     "32 MiB of the device's memory were refused; 8 MiB were there", 32 * MIB, NULL, 0, NULL},
    {"Error: 'err == cudaSuccess' failed: Failed to cudaMalloc 1073741824 bytes on device 1 (error 2 out of memory\nOutstanding allocations:",
     "1 GiB of the device's memory were refused", GIB, NULL, 0, NULL},
    {"memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 8192 MB; Free 5888.061425 MB",
     "8 GiB of memory were refused; 5.75 GiB were there", 8 * GIB, NULL, 0, NULL},
    {"Faiss device allocator fail type IVFLists dev 1 space Device stream 0x7f size 4096 bytes\nAllocator state:\nGPU device 1 allocator "
     "state:\n==========\nDevice "
     "free memory: 82400968704 bytes",
     "more was free than was asked for", 4096, NULL, 0, NULL},
    {"2026-01-02 03:04:05.678901: E external/xla/stream_executor/cuda/cuda_driver.cc:828] failed to allocate 2.00G (2147483648 bytes) from devic\ne: "
     "CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
     "2 GiB of the device's memory were refused", 2 * GIB, NULL, 0, NULL},
    {"ROCm model arena alloc failed for span:7 (2048.00 MiB chunk): out of memory", "2 GiB of the device's memory were refused", 2 * GIB, NULL, 0, NULL},
    {"[TRT] [W] UNSUPPORTED_STATE: Skipping tactic 4 due to insufficient memory on requested size of 65536 detected for tactic 0x1f.",
     "64 KiB of memory were refused, and the program goes on without: a warning, not an error", 64 * KIB, NULL, 0, NULL},
    /* What others begin as TPUs' runtime does is not told as an array of JAX's. */
    {"[server] Attempting to allocate 24.00 GiB for the GPU's cache failed: out of memory", "nvidia-smi (rocm-smi, xpu-smi, npu-smi) says who holds the rest",
     24 * GIB, NULL, 0, NULL},
    {"error: (-4:Insufficient memory) Failed to allocate 281474976710656 bytes in function 'OutOfMemoryError'", "no machine has as much", 256 * 1024 * GIB,
     NULL, 0, NULL},
    {"Unable to allocate framebuffer: requested 16384 MB", "16 GiB of the device's memory were refused", 16 * GIB, NULL, 0, NULL},
    /* One buffer that is larger than the device allows; sizes on lines of their own. */
    {"[GPU] Exceeded max size of memory object allocation: requested 2147483648 bytes, but max alloc size supported by device is 1073741824 bytes.",
     "one buffer may be no larger than 1 GiB there, however much is free", 2 * GIB, NULL, 0, NULL},
    {"Failed to create a  6.00 GB Metal buffer. The max buffer length is  4.00 GB.", "one buffer may be no larger than 4 GiB there", 6 * GIB, NULL, 0, NULL},
    {"Validation error: Buffer size 536870912 is greater than the maximum buffer size (268435456)", "one buffer may be no larger than 256 MiB there", 512 * MIB,
     NULL, 0, NULL},
    {"MESA: error: amdgpu: Failed to allocate a buffer:\nMESA: error: amdgpu:    size      : 2147483648 bytes\nMESA: error: amdgpu:    alignment : 2097152 "
     "bytes\n",
     "2 GiB of the device's memory were refused (line 1:", 2 * GIB, NULL, 0, NULL},
    /* A lock in RAM is no memory that the program lacks, and does not hide a refusal behind it. */
    {"Cannot allocate 4194304 bytes directly in RAM\nCannot allocate 8388608 bytes directly in RAM\n",
     "4 MiB of the host's memory that was to be kept in RAM (mlock) were refused, and the program goes on without: a warning, not an error (line 1:", 4 * MIB,
     NULL, 0, NULL},
    {"Cannot allocate 4194304 bytes directly in RAM\nerror: cannot allocate 1.00 GiB of device memory\n",
     "1 GiB of the device's memory were refused (line 2:", GIB, NULL, 0, NULL},
    /* Where figures of the host stand beside it. */
    {"numpy.core._exceptions.MemoryError: Unable to allocate 3.00 GiB for an array\n               total        used        free      shared  buff/cache   "
     "available\n"
     "Mem:            15Gi       3.6Gi       7.8Gi       641Mi       3.9Gi        10Gi\n",
     "of the host's memory, 15 GiB, 10 GiB were available", 3 * GIB, NULL, 0, NULL},
    /* A log that begins with what Python prints of a dictionary. */
    {"{'loss': 1.25, 'epoch': 0.99}\n" NEW "1.00 GiB" ON_24
     "512.00 MiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 64.00 MiB is reserved "
     "by PyTorch but unallocated.",
     "no setting of the allocator would have served it: 1 GiB asked for", GIB, NULL, 0, NULL},
};

static const Case of_xla[] = {
    {"RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 30.00G, SparseCore Hbm usage 100.00G, exceeding available bytes: 95.00G",
     "XLA refused the program: 130 GiB of hbm asked for, of 95 GiB there are: 35 GiB too much", 0, "program", 130 * GIB, NULL},
    {"RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 30.00G, SparseCore Hbm usage 100.00G, exceeding available bytes: 95.00G",
     "100 GiB of that are for SparseCores", 0, NULL, 0, NULL},
    /* A list without its head: a kernel's scoped allocations lie on chip. */
    {"  XLA label: k.72 = custom-call(), custom_call_target=\"tpu_custom_call\"\n     Allocation type: scoped\n     ==========================\n  5. Size: "
     "4.00M\n"
     "     Operator: op_name=\"jit(f)/pallas_call\"\n     Shape: bf16[8,2048,128]{2,1,0:T(16,128)(2,1)}\n     Unpadded size: 4.00M\n",
     "memory on chip (scoped)", 0, "bf16[8,2048,128] pallas_call", 4 * MIB, "limit_of_a_kernel=true"},
    /* What was refused stands before what its program's buffers are. */
    {"        Buffer 1:\n                Size: 96.00MiB\n                XLA Label: fusion\n                Shape: bf16[128,6,256,256]\n"
     "                ==========================\n\nW bfc_allocator.cc:479] Allocator (GPU_1_bfc) ran out of memory trying to allocate 2.00GiB (rounded to "
     "2147483648)requested by op\n",
     "GPU_1_bfc refused 2 GiB", 0, "bf16[128,6,256,256] fusion", 96 * MIB, NULL},
    {"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.", "refused: 1 GiB at once, of the share of the GPU's memory that JAX takes",
     GIB, NULL, 0, NULL},
    /* The list was pasted without its head, but the memory was told before. */
    {"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack for %k = bf16[8,128] custom-call(). Scoped allocation with size "
     "36.00M and limit 32.00M exceeded scoped vmem limit by 4.00M.\n  5. Size: 4.00M\n     Shape: bf16[2048,1024]{1,0:T(16,128)(2,1)}\n     Unpadded size: "
     "4.00M\n     Allocation type: scoped\n     ==========================\n",
     "the list's beginning, with its sums, is not in the text", 0, "scoped, not listed", 32 * MIB, NULL},
    {"RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in\nmemory space vmem. Used 20.00M of 16.00M vmem. Exceeded vmem capacity by "
     "4.00M",
     "20 MiB of vmem asked for, of 16 MiB there are: 4 MiB too much", 0, "program", 20 * MIB, "limit_of_a_kernel=true"},
    {"Ran out of memory in memory space hbm. Used 8.38G of 8.00G hbm. Exceeded hbm capacity by 385.25M.", "385 MiB too much", 0, "program", 8997956485, NULL},
    {"Ran out of memory in memory space smem. Used 1.00M of 1.00M smem. Exceeded smem capacity by 2.0K.", "of 1 MiB there are: 2 KiB too much", 0, "program",
     MIB, NULL},
    {"Compilation failure: Aborting compilation early because it's unlikely to have enough device memory. Requires 2.00E, has 16.00G available.",
     "2 EiB of hbm asked for", 0, "program", UINT64_C(1) << 61, "refused_on=tpu"},
    {"W hlo_rematerialization.cc:9] Can't reduce memory use below 8.00GiB (8589934592 bytes) by rematerialization; only reduced to 12.00GiB (12884901888 "
     "bytes), down "
     "from 13.00GiB",
     "XLA's compiler warns, and goes on: with what it makes again the program's buffers come to 12 GiB, and it aimed at 8 GiB", 0, "program", 12 * GIB,
     "refused_on=gpu"},
    {"W hlo_rematerialization.cc:9] Can't reduce memory use below 8.00GiB (8589934592 bytes) by rematerialization; only reduced to 12.00GiB (12884901888 "
     "bytes)\nE pjrt_stream_executor_client.cc:9] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
     "does not say what was in use", 16 * GIB, NULL, 0, "asked_for_bytes=17179869184"},
    {"W hlo_rematerialization.cc:9] Can't reduce memory use below 8.00GiB (8589934592 bytes) by rematerialization; only reduced to 12.00GiB (12884901888 "
     "bytes)\nRESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.00G of 15.75G hbm. Exceeded hbm capacity by "
     "1.25G.",
     "XLA refused the program: 17 GiB of hbm asked for", 0, "program", 17 * GIB, "refused_on=tpu"},
    {"[1] 2026-01-02 03:04:05.6: E local_client.cc:9] Execution of replica 0 failed: Resource exhausted: Out \nof memory while trying to allocate 5368709120 "
     "bytes.",
     "does not say what was in use", 5 * GIB, NULL, 0, "asked_for_bytes=5368709120"},
    {"RuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 32.00M. That was not possible. There are 48.00M free. Due to fragmentation, the largest "
     "contiguous region "
     "of free memory is 24.00M.; (0x0x0_HBM0)",
     "refused: 32 MiB at once; 48 MiB were free, 24 MiB of it in one piece: fragmentation", 32 * MIB, NULL, 0, NULL},
    {"RESOURCE_EXHAUSTED: Could not allocate 8388608 bytes in memory 0x0x0_HBM0; 4194304 bytes allocatable, 16777216 bytes available",
     "refused: 8 MiB at once; 16 MiB were free, 4 MiB of it in one piece", 8 * MIB, NULL, 0, NULL},
    {"Error loading program 'jit_f': Attempting to reserve 6.00G at the bottom of memory. That was not possible. There are 7.00G free, 0B reserved, and 3.00G "
     "reservable.",
     "refused: 6 GiB at once; 7 GiB were free, 3 GiB of it in one piece", 6 * GIB, NULL, 0, NULL},
    /* A program, not an array, though the word is that of arrays. */
    {"RuntimeProgramAllocationFailure: Error loading program 'jit_f':\nAttempting to allocate 1.00G. That was not possible. There are 512.00M free.",
     "what a program needs beside its arguments", GIB, NULL, 0, NULL},
    {"Error loading program 'jit_f': Attempting to allocate 1.00G. That was not possible. There are 512.00M free.", "what a program needs beside its arguments",
     GIB, NULL, 0, NULL},
    {"Loading program 'jit_f' took 3 s\n\nAttempting to allocate 1.00G. That was not possible. There are 512.00M free.", "that is an array", GIB, NULL, 0,
     NULL},
    {"HBM capacity 8.00G:\n       Top-of-Memory reserved:    1.00G (   1,073,741,824 bytes)\n          Currently allocated:    6.00G\nAttempting to reserve "
     "3.00G at the "
     "bottom of memory. That was not possible. There are 1.00G free, 0B reserved, and 1.00G reservable.",
     "that is what a program needs beside its arguments", 3 * GIB, NULL, 0, "had_bytes=7516192768"},
    /* The middle of a list, as a page of a long log has it. */
    {"2026-01-02 03:04:05.678901: E    1578 xla_util.cc:76]   3. Size: 4.00M\n2026-01-02 03:04:05.678901: E    1578 xla_util.cc:76]      Shape: "
     "f32[8192,1]{1,0:T(8,128)}\n2026-01-02 03:04:05.678901: E    1578 xla_util.cc:76]      Unpadded size: 32.0K\n2026-01-02 03:04:05.678901: E    1578 "
     "xla_util.cc:76]      Extra memory due to padding: 3.97M (128.0x expansion)\n2026-01-02 03:04:05.678901: E    1578 xla_util.cc:76]      XLA label: "
     "%copy.3 = x\n",
     "which memory it is of (taken as hbm), is not in the text", 0, "f32[8192,1] copy.3", 4 * MIB, NULL},
    {"        Buffer 7:\n                Size: 64.00MiB\n                XLA Label: fusion\n                Shape: f32[4096,4096]\n                ====\n",
     "listed: 1 allocation, 64 MiB", 0, "f32[4096,4096] fusion", 64 * MIB, NULL},
    {"jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 4.00G. That was not\npossible. There are 1.00G free.\n", "that is an array", 4 * GIB,
     NULL, 0, NULL},
    /* Behind what Ray, docker compose, srun, kubectl put before every line, or quoted. */
    {"(Worker pid=7, ip=10.0.0.1) Program hbm requirement 2.00G:\n(Worker pid=7, ip=10.0.0.1)     HLO temp   2.00G (100.0% utilization)\n",
     "what would make room", 0, "HLO temp", 2 * GIB, NULL},
    {"trainer-1  | Program hbm requirement 2.00G:\ntrainer-1  |     HLO temp   2.00G (100.0% utilization)\n", "what would make room", 0, "HLO temp", 2 * GIB,
     NULL},
    {"12: Program hbm requirement 2.00G:\n12:     HLO temp   2.00G (100.0% utilization)\n", "what would make room", 0, "HLO temp", 2 * GIB, NULL},
    {"2026-01-02T03:04:05.123456789Z Program hbm requirement 2.00G:\r\n2026-01-02T03:04:05.123456789Z     HLO temp   2.00G\r\n", "what would make room", 0,
     "HLO temp", 2 * GIB, NULL},
    {"> Program hbm requirement 2.00G:\n>     HLO temp   2.00G (100.0% utilization)\n", "what would make room", 0, "HLO temp", 2 * GIB, NULL},
    /* As repr() prints it. */
    {"E   'Ran out of memory in memory space hbm. Used 3.00G of 1.00G hbm.\\n\\nProgram hbm requirement 3.00G:\\n    HLO temp   3.00G (100.0% "
     "utilization)\\n\\n  Largest "
     "program allocations in hbm:\\n\\n  1. Size: 2.00G\\n     Operator: op_name=\"params[\\'w\\'][0]\"\\n     Shape: f32[536870912]\\n     Allocation type: "
     "HLO temp\\n'",
     "2 GiB too much", 0, "f32[536870912] params['w'][0]", 2 * GIB, NULL},
};

static const Case of_tensorflow[] = {
    {"I cuda_driver.cc:1] failed to allocate 6.00G (6442450944 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\nW bfc_allocator.cc:1] Allocator "
     "(GPU_0_bfc) ran "
     "out of memory trying to allocate 1.00GiB (rounded to 1073741824)requested by op X\n",
     "before that the driver refused 6 GiB", GIB, NULL, 0, "sums_only=true"},
    {"W bfc_allocator.cc:502] Allocator (xla_gpu_bfc) ran out of memory trying to allocate 309.4KiB (rounded to 316928)requested by op \n", "310 KiB", 316928,
     NULL, 0, "asked_for_bytes=316928"},
    {"W bfc_allocator.cc:502] Allocator (xla_gpu_bfc) ran out of memory trying to allocate 309.4KiB (rounded to 317184)requested by op \n", "309 KiB", 316826,
     NULL, 0, "asked_for_bytes=316826"},
    {"OOM when allocating tensor with shape[1024,1024]\n\t [[Node: a]]", "f32[1024,1024] if its elements have 4 bytes, which the text does not say", 4 * MIB,
     NULL, 0, NULL},
    {"resource exhausted: oom when allocating tensor with shape[1024,1024] and type float on /device:gpu:0", "the BFC allocator refused 4 MiB", 4 * MIB, NULL,
     0, NULL},
    {"ResourceExhaustedError: OOM when allocating tensor of shape [1024,1024] and type half", "the BFC allocator refused 2 MiB, f16[1024,1024]", 2 * MIB, NULL,
     0, NULL},
    /* How much of the limit was taken from the device is not told: not who had the rest. */
    {"I bfc_allocator.cc:1100] Sum Total of in-use chunks: 2.00GiB\nI bfc_allocator.cc:1102] Stats:\nLimit:  8589934592\nInUse:  2147483648\nMaxInUse: "
     "3221225472\n\nW bfc_allocator.cc:491] ******____\nOOM when allocating tensor with shape[1024,1024,256]\n",
     "6 GiB were free or not taken yet, so it is fragmentation, or the device had less", GIB, "in use", 2 * GIB, "had_bytes=8589934592"},
    {"I bfc_allocator.cc:687] Free at 0x1200000000 of size 256\nI bfc_allocator.cc:696] 3 Chunks of size 1048576 totalling 3.00MiB\n", "3 MiB were in use", 0,
     "chunk of 1 MiB", 3 * MIB, NULL},
    {"I bfc_allocator.cc:800] InUse at 0x7f0000000000 next 5 of size 256\nI bfc_allocator.cc:800] InUse at 0x7f0000000100 next 6 of size 2048\n",
     "2.25 KiB were in use, by what is listed; the log's end, with its limit, is not in the text", 0, "chunk of 2 KiB", 2 * KIB, NULL},
};

START_TEST(pytorch)
{
    check(&of_pytorch[_i]);
}
END_TEST

START_TEST(engines)
{
    check(&of_engines[_i]);
}
END_TEST

START_TEST(other_software)
{
    check(&of_others[_i]);
}
END_TEST

/* Kernels that were tried while tuning are no failure, unless one is refused outside of it. */
START_TEST(trials)
{
    static const char tried[] =
        "E0912 11:54:57.366000 11 torch/_inductor/select_algorithm.py:2100] [7/0] OutOfResources: out of resource: shared memory, Required: "
        "131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.\n",
                      refused[] = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 262144, Hardware limit: 101376.\n";
    g_autofree char *both = g_strconcat(tried, "\n", refused, NULL);
    g_autoptr(EchImport) alone = ech_test_text(tried, NULL), after = ech_test_text(both, NULL);
    ck_assert(ech_test_says(alone->diag, "nothing failed") && ech_test_says(alone->diag, "128 KiB of shared memory"));
    ck_assert(!ech_test_says(after->diag, "nothing failed") && ech_test_says(after->diag, "Triton was refused 256 KiB of shared memory"));
}
END_TEST

/* What llama.cpp does without is no failure, and does not hide one behind it. */
START_TEST(tried_again)
{
    static const char tried[] = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 1: cudaMalloc failed: out of memory\n"
                                "ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 4294967296\ngraph_reserve: failed to allocate compute "
                                "buffers\nsched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n";
    g_autofree char *failed =
        g_strconcat(tried, "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 0: cudaMalloc failed: out of memory\n", NULL);
    g_autoptr(EchImport) on = ech_test_text(tried, NULL), refused = ech_test_text(failed, NULL);
    ck_assert(on && ech_test_says(on->diag, "nothing failed by that: llama.cpp was refused 4 GiB of scratch memory"));
    ck_assert(refused && ech_test_says(refused->diag, "llama.cpp was refused 2 GiB on GPU 0"));
    ck_assert_uint_eq(asked(refused->trace), 2 * GIB);
}
END_TEST

/* What the compiler warned of stands behind what was refused then. */
START_TEST(warned_before)
{
    g_autoptr(EchImport) import = ech_test_text(
        "W hlo_rematerialization.cc:2202] Can't reduce memory use below 8.00GiB (8589934592 bytes) by rematerialization; only reduced to 20.00GiB "
        "(21474836480 bytes), down from 30.00GiB (32212254720 bytes) originally\n\nW bfc_allocator.cc:485] Allocator (GPU_0_bfc) ran out of memory "
        "trying to allocate 19.00GiB (rounded to 20401094656)requested by op\n",
        NULL);
    ck_assert(import != NULL);
    const char *const *said = ech_diag_remarks(import->diag);
    ck_assert_str_eq(said[0], "GPU_0_bfc refused 19 GiB");
    ck_assert_msg(g_str_has_prefix(said[1], "XLA's compiler had warned of it"), "%s", said[1]);
    ck_assert_ptr_null(said[2]);
}
END_TEST

/* What loggers, launchers, containers and services put around a text, each line of it or all. */
typedef enum {
    CRLF,
    QUOTED,
    RANK,
    COLOUR,
    TIME,
    LOGGER,
    LOGURU,
    COMPOSE,
    KUBERNETES,
    JOURNAL,
    ACTIONS,
    CLOUDWATCH,
    RECORDS,
    RECORD,
    FAR_BEHIND,
    WARNING,
    BAR,
    OVERWRITTEN,
    N_AROUND
} Around;

static void append_escaped(GString *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            g_string_append_c(out, '\\');
        const char as_it_is[] = {*text, '\0'};
        g_string_append(out, *text == '\n' ? "\\n" : *text == '\t' ? "\\t" : as_it_is);
    }
}

static char *put_around(const char *text, Around around)
{
    static const char *const before[N_AROUND] = {[QUOTED] = "> ",
                                                 [RANK] = "[rank0]: ",
                                                 [COLOUR] = "\x1b[31m",
                                                 [TIME] = "2026-01-02 03:04:05,678 ",
                                                 [LOGGER] = "2026-01-02 03:04:05,678 - root - ERROR - ",
                                                 [LOGURU] = "2026-01-02 03:04:05.678 | ERROR    | app.main:step:12 - ",
                                                 [COMPOSE] = "app-1  | ",
                                                 [KUBERNETES] = "2026-01-02T03:04:05.678901234Z stderr F ",
                                                 [JOURNAL] = "Jan 02 03:04:05 host svc[12]: ",
                                                 [ACTIONS] = "build\tRun tests\t2026-01-02T03:04:05.6789012Z ",
                                                 [CLOUDWATCH] = "1767323045678\t",
                                                 [RECORDS] = "{\"log\":\""},
                             *const behind[N_AROUND] = {[CRLF] = "\r\n", [COLOUR] = "\x1b[0m\n", [RECORDS] = "\\n\",\"stream\":\"stderr\"}\n"};
    GString *out = g_string_new(NULL);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    if (around == RECORD) {
        g_string_append(out, "{\"message\": \"");
        append_escaped(out, text);
        g_string_append(out, "\", \"severity\": \"ERROR\"}\n");
        return g_string_free(out, FALSE);
    }
    for (unsigned i = 0; around == FAR_BEHIND && i < 9000; i++)
        g_string_append(out, "step 1 ok\n");
    /* What Python and tqdm leave before the first line. */
    if (around == WARNING)
        g_string_append(out, "<frozen runpy>:128: RuntimeWarning: 'app.main' found in sys.modules after import of package 'app'\n");
    if (around == BAR || around == OVERWRITTEN)
        g_string_append_printf(out, "train:   4%%|3         | 80/2000 [01:00<24:00,  1.33it/s, loss=0.5]%s", around == BAR ? "" : "\r  5%|#         | ?\r");
    for (char **line = lines; *line; line++) {
        g_string_append(out, before[around] ? before[around] : "");
        around == RECORDS ? append_escaped(out, *line) : (void)g_string_append(out, *line);
        g_string_append(out, behind[around] ? behind[around] : "\n");
    }
    return g_string_free(out, FALSE);
}

/* None of it changes what is said first, nor what was asked for. */
START_TEST(whatever_stands_around)
{
    const struct {
        const Case *cases;
        size_t n;
    } kinds[] = {{of_pytorch, G_N_ELEMENTS(of_pytorch)}, {of_engines, G_N_ELEMENTS(of_engines)}, {of_xla, G_N_ELEMENTS(of_xla)}};
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
        size_t n = _i == FAR_BEHIND ? 2 : kinds[k].n; /* thousands of lines each */
        for (size_t i = 0; i < n; i++) {
            const Case *c = &kinds[k].cases[i];
            g_autofree char *text = put_around(c->text, (Around)_i);
            g_autoptr(GError) error = NULL;
            g_autoptr(EchImport) import = ech_test_text(text, &error);
            ck_assert_msg(import != NULL, "%s: %s", text, error ? error->message : "");
            ck_assert_msg(ech_test_says(import->diag, c->says), "'%s' of: %s\nsaid: %s", c->says, text, ech_diag_remarks(import->diag)[0]);
            ck_assert_msg(asked(import->trace) == c->asked, "%s", text);
        }
    }
}
END_TEST

/* UTF-16, as PowerShell redirects it, and without its mark. */
START_TEST(of_powershell)
{
    static const char text[] =
        "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated; 0 bytes free; 7.50 GiB reserved "
        "in total by PyTorch)\r\n";
    for (int kind = 0; kind < 4; kind++) {
        bool big = kind & 1, marked = kind < 2;
        g_autoptr(GByteArray) wide = g_byte_array_new();
        if (marked)
            g_byte_array_append(wide, (const uint8_t *)(big ? "\xfe\xff" : "\xff\xfe"), 2);
        for (size_t i = 0; i < sizeof text - 1; i++) {
            const uint8_t pair[2] = {big ? 0 : (uint8_t)text[i], big ? (uint8_t)text[i] : 0};
            g_byte_array_append(wide, pair, 2);
        }
        g_autoptr(EchSource) source = ech_source_new_memory(wide->data, wide->len, "oom.txt");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert_ok(import, error);
        ck_assert_uint_eq(asked(import->trace), GIB);
    }
}
END_TEST

/* Times of loggers, containers and the journal. */
START_TEST(times)
{
    static const char *const befores[] = {"2026-01-02 03:04:05.678 ", "2026/01/02 03:04:05,678 ", "03:04:05.6: ", "2026-01-02T03:04:05.6Z stderr F ",
                                          "Jan  2 03:04:05 host ollama[12]: "};
    for (size_t i = 0; i < G_N_ELEMENTS(befores); i++) {
        g_autofree char *text = g_strconcat(befores[i], "memory 1 MiB", NULL);
        g_autoptr(EchPasted) pasted = ech_pasted_new(text, strlen(text));
        EchWords line;
        ck_assert(ech_pasted_next(pasted, &line));
        ck_assert_msg(line.n == 12 && memcmp(line.text, "memory 1 MiB", 12) == 0, "%s: %.*s", befores[i], (int)line.n, line.text);
    }
    /* A sentence goes on where only the time is another. */
    static const char text[] = "2026-01-02 03:04:05 memory\n2026-01-02 03:04:06 ran out\n";
    g_autoptr(EchPasted) pasted = ech_pasted_new(text, sizeof text - 1);
    EchWords line;
    ck_assert(ech_pasted_next(pasted, &line));
    EchWords whole = ech_pasted_sentence(pasted);
    ck_assert_msg(whole.n == 14 && memcmp(whole.text, "memory ran out", 14) == 0, "%.*s", (int)whole.n, whole.text);
}
END_TEST

START_TEST(xla)
{
    check(&of_xla[_i]);
}
END_TEST

START_TEST(arrays)
{
    check(&of_arrays[_i]);
}
END_TEST

static const Case copied = {"CUDA\xc2\xa0out of memory. Tried to allocate\xc2\xa0"
                            "2.00\xc2\xa0GiB (GPU 0; 8.00\xe2\x80\xafGiB total capacity; 5.00\xc2\xa0GiB already allocated; 1.00 "
                            "GiB\xe2\x80\x8b free; 5.50 GiB reserved in total by PyTorch)",
                            "no setting of the allocator would have served it: 2 GiB asked for, 1.50 GiB free and unused together",
                            2 * GIB,
                            "PyTorch's tensors",
                            5 * GIB,
                            NULL};

/* From a page: blanks that do not break, and such of no width. */
START_TEST(copied_from_a_page)
{
    check(&copied);
    g_autofree char *ranked = g_strconcat("[rank0]: ", copied.text, NULL);
    check(&(Case){ranked, copied.says, copied.asked, copied.holder, copied.held, NULL});
}
END_TEST

START_TEST(tensorflow)
{
    check(&of_tensorflow[_i]);
}
END_TEST

static EchBytes peak_in(const EchTrace *trace, const char *memory)
{
    g_autoptr(EchLifetimes) lives = ech_lifetimes_new(trace, ech_trace_find_memory(trace, memory));
    return lives->peak;
}

static const char *property(const EchImport *import, const char *key)
{
    const char *text = ech_trace_get_property(import->trace, key);
    return text ? text : "";
}

/* What XLA lists of a program that a TPU has no room for: sizes are the shapes', sums hold what is not listed, what the runtime keeps is not the program's. */
START_TEST(refused_by_a_tpu)
{
    static const char *const files[] = {"out_of_memory/tpu.txt", "out_of_memory/log.txt"};
    g_autoptr(EchImport) import = ech_test_corpus(files[_i], "out_of_memory");
    const EchTrace *t = import->trace;
    const EchBuffer *padded = ech_test_find_buffer(t, "s32[1048576,8,4] reshape (data.py:17)");
    ck_assert_uint_eq(padded->bytes, UINT64_C(4) << 30);
    ck_assert_uint_eq(padded->dense, 128 << 20);
    ck_assert_uint_eq(ech_test_find_buffer(t, "bf16[32768,50304] fusion.9")->bytes, UINT64_C(32768) * 50304 * 2);
    ck_assert_uint_eq(ech_test_find_buffer(t, "f32[64,2048,2048] exp (attention.py:41)")->role, ECH_ROLE_TEMPORARY);
    ck_assert_uint_eq(ech_test_find_buffer(t, "arguments")->role, ECH_ROLE_PARAMETER);
    ck_assert_uint_eq(ech_diag_count(import->diag, "sizes_from_shapes"), 6);
    ck_assert_uint_eq(ech_diag_count(import->diag, "reports_after_the_first"), (unsigned)_i);
    /* 11.21 + 7.06 GiB by rows of two decimals. */
    double used = (double)peak_in(t, "hbm") / (1 << 30);
    ck_assert_msg(used > 18.26 && used < 18.28, "%g", used);
    ck_assert(ech_test_says(import->diag, "2.52 GiB too much"));
    ck_assert(ech_test_says(import->diag, "without which it would fit"));
}
END_TEST

START_TEST(other_refusals)
{
    g_autoptr(EchImport) shared = ech_test_corpus("out_of_memory/shared.txt", NULL), vmem = ech_test_corpus("out_of_memory/vmem.txt", NULL),
                         brief = ech_test_corpus("out_of_memory/short.txt", NULL), runtime = ech_test_corpus("out_of_memory/runtime.txt", NULL),
                         gpu = ech_test_corpus("out_of_memory/gpu.txt", NULL), stack = ech_test_corpus("out_of_memory/stack.txt", NULL),
                         llama = ech_test_corpus("out_of_memory/llama_host.txt", "out_of_memory");
    ck_assert_uint_eq(peak_in(shared->trace, "hbm"), UINT64_C(3) << 29); /* two of 1 GiB in 1.5 GiB */
    ck_assert_uint_eq(ech_diag_count(shared->diag, "allocations_sharing_places"), 2);
    ck_assert_uint_eq(peak_in(vmem->trace, "vector"), 24 << 20);
    ck_assert(ech_test_says(vmem->diag, "vmem_limit_bytes"));
    ck_assert(ech_test_says(stack->diag, "24 MiB of vmem asked for by reduce-window.7, of 16 MiB there are"));
    ck_assert(ech_test_says(stack->diag, "one of XLA's own instructions") && !ech_test_says(stack->diag, "vmem_limit_bytes"));
    ck_assert_uint_eq(asked(llama->trace), 128 * GIB + 32);
    ck_assert(ech_test_says(llama->diag, "llama.cpp was refused 128 GiB of the host's memory"));
    ck_assert_uint_eq(peak_in(brief->trace, "hbm") >> 20, 8541 * 1024 / 100);
    ck_assert(ech_test_says(runtime->diag, "3.95 GiB at once; 1.92 GiB were free"));
    ck_assert_uint_eq(ech_test_find_buffer(runtime->trace, "allocated before")->bytes, (EchBytes)(6.08 * (1 << 30) + .5));
    ck_assert_uint_eq(peak_in(gpu->trace, "hbm"), (UINT64_C(7) << 30) + 64);
    ck_assert_uint_eq(ech_test_find_buffer(gpu->trace, "arguments, not listed")->bytes, 1 << 30);
    ck_assert_uint_eq(ech_test_find_buffer(gpu->trace, "f32[3,16384,16384] mul (model.py:9)")->bytes, UINT64_C(3) << 30);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) bad = ech_test_try_corpus("out_of_memory/bad.txt", &error);
    ck_assert_msg(!bad && strstr(error->message, "bad.txt: ") != NULL, "%s", error ? error->message : "read");
}
END_TEST

/* XLA's and TensorFlow's allocator says where every chunk lies: whether the request failed for want of memory or of one piece follows, and so does what would
 * have made room. */
START_TEST(refused_by_bfc)
{
    g_autoptr(EchImport) holes = ech_test_corpus("out_of_memory/bfc.txt", "out_of_memory"), grown = ech_test_corpus("out_of_memory/bfc_growth.txt", NULL),
                         old = ech_test_corpus("out_of_memory/bfc_old.txt", NULL), mixed = ech_test_corpus("out_of_memory/bfc_mixed.txt", NULL),
                         cut = ech_test_corpus("out_of_memory/bfc_cut.txt", NULL), bad = ech_test_corpus("out_of_memory/bfc_bad.txt", NULL);
    /* 4 GiB in one region: 700, 600 and 300 MiB are free, 1 GiB is asked for. */
    ck_assert_str_eq(property(holes, "allocator"), "GPU_0_bfc");
    ck_assert_str_eq(property(holes, "asked_for_bytes"), "1073741824");
    ck_assert_str_eq(property(holes, "largest_free_bytes"), "734003200");
    ck_assert_str_eq(property(holes, "free_bytes"), "1677721600");
    ck_assert_uint_eq(ech_test_find_buffer(holes->trace, "loss/Mean")->address, UINT64_C(0x7f0c20000000) + 1280 + (UINT64_C(1212) << 20));
    ck_assert_uint_eq(ech_test_find_buffer(holes->trace, "what was asked for, f32[64,64,256,256]")->bytes, 1 << 30);
    ck_assert(ech_test_says(holes->diag, "fragmentation: 1.56 GiB are free, not in one piece"));
    ck_assert(ech_test_says(holes->diag, "where 1 chunk in use (256 B) lies between free ones: 256 B at 0x7f0c6bc00500 of loss/Mean"));
    /* Three regions of a limit that the request does not fit into, whatever lies where. */
    ck_assert_uint_eq(ech_diag_count(grown->records, "regions"), 3);
    ck_assert(ech_test_says(grown->diag, "1.49 GiB not taken from the device"));
    ck_assert(ech_test_says(grown->diag, "use, not fragmentation: 517 MiB too much"));
    ck_assert(ech_test_says(grown->diag, "refused: 2 GiB at once") == false);
    /* TensorFlow 1.3: what is in use first, then what is free; no regions, no rounded size. */
    ck_assert_uint_eq(ech_diag_count(old->records, "chunks in use"), 3);
    ck_assert_uint_eq(ech_diag_count(old->records, "regions"), 1);
    ck_assert(ech_test_says(old->diag, "116 MiB free in 2 pieces, the largest 60 MiB"));
    /* Lines of two devices' dumps between one another: the first one's alone. */
    ck_assert_uint_eq(peak_in(mixed->trace, "hbm"), UINT64_C(9) << 29);
    ck_assert_uint_eq(ech_diag_count(mixed->diag, "lines_of_another_dump"), 2);
    ck_assert_uint_eq(ech_diag_count(mixed->diag, "reports_after_the_first"), 1);
    ck_assert(ech_test_says(cut->diag, "2 GiB of the pool's 4 GiB are not listed"));
    ck_assert_uint_eq(ech_test_find_buffer(bad->trace, "chunk of 1 EiB")->bytes, UINT64_C(1) << 60);
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"W bfc_allocator.cc:1] Allocator (gpu_host_bfc) ran out of memory trying to allocate 1.00GiB (rounded to 1073741824)requested by op X\nStats: "
         "\nLimit: "
         "1073741824\nInUse: 1048576\nMaxInUse: 1\n",
         "use, not fragmentation: 1 MiB too much, however the chunks lie. Use less at a time (a smaller batch, rematerialisation, offload), or raise the limit "
         "of 1 GiB where the device has more: TF_GPU_HOST_MEM_LIMIT_IN_MB"},
        {"Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25GiB with freed_by_count=0. The caller indicates that this is not a failure, but may "
         "mean "
         "that\nStats: \nInUse: 256\n",
         "that the caller can do without"},
        {"ran out of memory trying to allocate 1.00GiB (rounded to 1073741824)\nNext region of size 536870912\nFree  at 10000 of size 536870912 next "
         "18446744073709551615\nNext region of size 805306368\nFree  at 20010000 of size 536870912 next 2\nInUse at 40010000 of size 268435456 next "
         "18446744073709551615\nTotal bytes in pool: 1342177280 memory_limit_: 1342177280 available bytes: 0\nStats:\nInUse: 268435456\n",
         "1 GiB lie side by side but in different regions"},
        {"ran out of memory trying to allocate 1.00GiB (rounded to 1073741824)\nNext region of size 536870912\nInUse at 10000 of size 536870912 next "
         "18446744073709551615\ntotal_region_allocated_bytes_: 536870912 memory_limit_: 4294967296 available bytes: 1\nStats:\nInUse: 536870912\n",
         "not the limit, the device: the allocator might have taken 3.50 GiB more"},
        {"ran out of memory trying to allocate 1.00GiB (rounded to 1073741824)\nFree  at 10000 of size 536870912\nInUse at 50000000 of size 268435456\nFree  "
         "at "
         "60000000 of size 536870912\nTotal bytes in pool: 1342177280 memory_limit_: 1342177280 available bytes: 0\nStats:\nInUse: 268435456\n",
         "the pool grew in 2 regions"},
        {"ran out of memory trying to allocate 1.00MiB (rounded to 1048576)\nFree  at 10000 of size 2097152 next 18446744073709551615\n",
         "the log is of another moment: a free piece is as large as what was asked for"},
        {"Bin (268435456): \tTotal Chunks: 2, Chunks in use: 2. 1.00GiB allocated for chunks. 1.00GiB in use in bin. 512.00MiB client-requested in use in bin.",
         "512 MiB of the 1 GiB in use were not asked for"},
        {"RuntimeError: Resource exhausted: Out of memory allocating 4294967296 bytes.", "4 GiB at once of the host's memory"},
        {"XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483647B) on device ordinal 0",
         "the message does not say what was in use"},
        {"ResourceExhaustedError: OOM when allocating tensor with shape[1024,1024] and type half on /job:localhost by allocator GPU_0_bfc",
         "GPU_0_bfc refused 2 MiB, f16[1024,1024]"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)cases[i].text, strlen(cases[i].text), "text");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert_ok(import, error);
        ck_assert_msg(ech_test_says(import->diag, cases[i].says), "%s: %s", cases[i].says, ech_diag_remarks(import->diag)[0]);
    }
    /* Every line behind a launcher's prefix. */
    const char *text =
        "[1,0]<stderr>:W bfc_allocator.cc:1] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648)requested by op "
        "X\r\n[1,0]<stderr>:I bfc_allocator.cc:2] Stats: \r\n[1,0]<stderr>:Limit:   3.00GiB\r\n[1,0]<stderr>:InUse:   2.00GiB\r\n"
        "[1,0]<stderr>:MaxInUse:   2.50GiB\r\n";
    g_autoptr(EchSource) launched = ech_source_new_memory((const uint8_t *)text, strlen(text), "launched");
    g_autoptr(EchImport) prefixed = ech_import_source(launched, NULL, NULL, NULL);
    ck_assert(prefixed && ech_test_says(prefixed->diag, "use, not fragmentation: 1 GiB too much"));
    /* Nothing that failed. */
    text = "W bfc_allocator.cc:1] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB with freed_by_count=0. The caller indicates that this is "
           "not a "
           "failure, but\n";
    g_autoptr(EchSource) workspace = ech_source_new_memory((const uint8_t *)text, strlen(text), "workspace");
    g_autoptr(GError) nothing = NULL;
    g_autoptr(EchImport) none = ech_import_source(workspace, NULL, NULL, &nothing);
    ck_assert(!none && strstr(nothing->message, "workspace: nothing ran out of memory"));
    /* Far behind in a log. */
    g_autoptr(GString) log = g_string_new(NULL);
    for (unsigned i = 0; i < 5000; i++)
        g_string_append_printf(log, "step %u of 5000, loss 3.25\n", i);
    g_string_append(log, cases[0].text);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)log->str, log->len, "log");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_ok(import, error);
    ck_assert(ech_test_says(import->diag, cases[0].says));
}
END_TEST

/* PyTorch's sentence: what was asked for against what was free and what the allocator held unused. */
START_TEST(refused_by_pytorch)
{
    g_autoptr(EchImport) now = ech_test_corpus("out_of_memory/pytorch.txt", NULL), old = ech_test_corpus("out_of_memory/pytorch_old.txt", NULL);
    ck_assert_uint_eq(peak_in(now->trace, "hbm"), UINT64_C(41) << 29); /* 18 in use, 1 of others, 1.5 asked for */
    ck_assert(ech_test_says(now->diag, "would fit into what is free (1 GiB) and what PyTorch holds unused (4 GiB)"));
    ck_assert(ech_test_says(old->diag, "2 GiB asked for, 768 MiB free and unused together, 1.25 GiB too much"));
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacty of 4.00 GiB of which 2.80 GiB is free. Of the allocated memory 0 bytes is "
         "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
         "2.80 GiB were free and 2 GiB refused"},
        {"CUDA out of memory. Tried to allocate 1.01 GiB (GPU 0; 4.00 GiB total capacity; 1.00 GiB already allocated; 0.50 GiB free; 1.50 GiB reserved in "
         "total "
         "by PyTorch)",
         "too rounded to tell"},
        {"HIP out of memory. Tried to allocate 1.00 GiB.", "does not say what was allocated"},
        /* What a limit of its own refused, no full device did. */
        {"CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 80.00 GiB of which 70.00 GiB is free. 1.00 GiB allowed; Of the "
         "allocated memory 970.00 MiB is allocated by PyTorch, and 52.00 MiB is reserved by PyTorch but unallocated.",
         "it is used up: 2 MiB more were asked for beside 970 MiB of tensors. What it leaves (2 MiB)"},
        {"CUDA out of memory. Tried to allocate 700.00 MiB (GPU 0; 24.00 GiB total capacity; 20.00 GiB already allocated; 0 bytes free; 22.00 GiB reserved in "
         "total by PyTorch)",
         "It would leave 1.32 GiB for those after it"},
        {"File \"_state_dict_utils.py\", line 303, in _full_pre_state_dict_hook\nCUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity "
         "of "
         "40.00 GiB of which 10.00 GiB is free. Of the allocated memory 28.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but "
         "unallocated.",
         "FullStateDictConfig(offload_to_cpu=True"},
        {"HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 16.00 GiB of which 15.00 GiB is free. Of the allocated memory 0 bytes "
         "is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n\nmachine: 128 GB, gfx1151\n",
         "that is an APU"},
        {"HIP out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 96.00 GiB of which 2.00 GiB is free. Of the allocated memory 40.00 GiB "
         "is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
         "files that were read or mapped"},
        {"    return F.scaled_dot_product_attention(q, k, v, mask)\nCUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 31.00 GiB of "
         "which 5.00 GiB is free. Of the allocated memory 25.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
         "attention's scores are written out"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)cases[i].text, strlen(cases[i].text), "text");
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
        ck_assert_msg(import != NULL, "%s", error ? error->message : "");
        ck_assert_msg(ech_test_says(import->diag, cases[i].says), "%s", cases[i].says);
    }
}
END_TEST

/* Most of the device is another's: that comes before what this process could do. */
START_TEST(others_first)
{
    g_autoptr(EchImport) import =
        ech_test_text("NPU out of memory. Tried to allocate 64.00 MiB (NPU 0; 60.00 GiB total capacity; 9.00 GiB already allocated; 32.00 MiB free; 10.00 "
                      "GiB reserved in total by PyTorch)",
                      NULL);
    ck_assert_ptr_nonnull(import);
    ck_assert_msg(g_str_has_prefix(ech_diag_remarks(import->diag)[0], "50.0 GiB are neither"), "%s", ech_diag_remarks(import->diag)[0]);
}
END_TEST

/* The first report counts; a second one that says something else is counted, one said again is not. */
START_TEST(several_reports)
{
    const char *first = NEW
        "2.00 GiB" ON_24 "1.00 GiB is free. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n";
    g_autofree char *twice = g_strconcat(first, "\n", first, NULL), *other = g_strconcat(first, "[rank1]: ", NEW "4.00 GiB" ON_24 "1.00 GiB is free.\n", NULL);
    g_autoptr(EchImport) same = ech_test_text(twice, NULL), two = ech_test_text(other, NULL);
    ck_assert_uint_eq(ech_diag_count(same->diag, "reports_after_the_first"), 0);
    /* Nor is one of which only the beginning is said again. */
    g_autofree char *cut = g_strconcat(first, "\n", NEW, "2.00 GiB" ON_24 "1.0\n", NULL);
    g_autoptr(EchImport) again = ech_test_text(cut, NULL);
    ck_assert_uint_eq(ech_diag_count(again->diag, "reports_after_the_first"), 0);
    ck_assert_uint_eq(ech_diag_count(two->diag, "reports_after_the_first"), 1);
    ck_assert_uint_eq(asked(two->trace), 2 * GIB);
    g_autofree char *ranks = g_strconcat("[rank2]: ", NEW,
                                         "2.00 GiB. GPU 2 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Of the allocated memory "
                                         "22.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n"
                                         "(Worker rank=0 pid=7) ",
                                         NEW,
                                         "512.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which 128.00 MiB is free. Of the "
                                         "allocated memory 16.00 GiB is allocated by PyTorch, and 7.00 GiB is reserved by PyTorch but unallocated.\n"
                                         "[rank3]: ",
                                         NEW,
                                         "2.00 GiB. GPU 3 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Of the allocated memory "
                                         "22.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n",
                                         NULL);
    g_autoptr(EchImport) three = ech_test_text(ranks, NULL);
    ck_assert_msg(ech_test_says(three->diag,
                                "the first of 3 refusals in the text, GPU 2 (rank 2). Also GPU 0 (rank 0), 512 MiB: it would fit into what is free "
                                "and what PyTorch holds unused (7 GiB); GPU 3 (rank 3), 2 GiB likewise"),
                  "%s", ech_diag_remarks(three->diag)[0]);
    g_autoptr(EchImport) runtime =
        ech_test_text("Attempting to allocate 4.00G. That was not possible. There are 2.00G free.\n\nAttempting to allocate 1.00G. That was not possible.\n"
                      "\nAttempting to allocate 4.00G. That was not possible.\n",
                      NULL);
    ck_assert_uint_eq(ech_diag_count(runtime->diag, "reports_after_the_first"), 1);
    ck_assert(ech_test_says(runtime->diag, "1 more refusal in the text"));
    ck_assert_uint_eq(asked(runtime->trace), 4 * GIB);
}
END_TEST

/* Texts without sizes say what they mean and what tells more. */
static const struct {
    const char *text, *says;
} unsized[] = {
    {"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "--max-num-batched-tokens"},
    {"node:1:2 [0] enqueue.cc:9 NCCL WARN Cuda failure 2 'out of memory'", "NCCL_BUFFSIZE"},
    {"Last error: Failed to CUDA calloc async 4096 bytes", "NCCL_BUFFSIZE"},
    {"ggml_cuda_host_malloc: failed to allocate 1900.00 MiB of pinned memory: invalid argument", "this alone is no error"},
    {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "beside the framework's pool"},
    {"- **Exception Message:** Allocation on device ", "backend:native"},
    {"MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/a.hpp:1: Maximum pool size exceeded", "maximum_pool_size"},
    {"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "--chunked-prefill-size"},
    {"ValueError: Loaded weights leave no GPU memory for the KV cache under "
     "--mem-fraction-static=0.9. Raise --mem-fraction-static above 0.938 (minimum viable = 1 - available/pre = 0.9375).",
     "than the least that it names"},
    {"| param | Allocated memory (Peak Usage) | GPU reserved memory (Peak Usage) |\n| 1 | 15006 MB | 16726 MB |\n", "print(torch.cuda.memory_summary()) is"},
    {"[Array([[0., 0.]], dtype=float32), Array([1.], dtype=float32)]", "print(a.shape, a.dtype)"},
    {"GPU  Temp   AvgPwr  SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%\n0    38.0c  41.0W   800Mhz  1600Mhz  0%   auto  300.0W   97%   0%", "--showmeminfo"},
    {"[{'device': 0, 'total_size': 2097152, 'segment_type': 'small', 'blocks': []}]", "what Python prints of PyTorch's segments"},
    {"Time (%),Total Time (ns),Instances,Avg (ns),Name\n45.0,1200000,10,120000.0,gemm", "'nsys export --type sqlite REPORT'"},
    {"Start (ns),Duration (ns),CorrId,GrdX,Name\n100000,5000,12,64,gemm", "'nsys export --type sqlite REPORT'"},
    {"\"ID\",\"Kernel Name\",\"Device\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n", "Nsight Compute's"},
    {"{'device': 0,\n 'total_size': 2097152, 'segment_type': 'small', 'blocks': []}", "what Python prints of PyTorch's segments"},
    {"UserWarning: Some donated buffers were not usable: ShapedArray(float32[8,8]).", "same shape, type and sharding"},
    {"libc++abi: terminating due to uncaught exception: [METAL] Command buffer execution failed: Insufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
     "iogpu.wired_limit_mb"},
    {"RuntimeError: cudaHostRegister failed (rc=1, invalid argument) for ptr=0x7f0000000000 size=68719476736", "'ulimit -l'"},
    {"RuntimeError: UR backend failed. UR backend returns:40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)", "torch.xpu.memory_summary()"},
    {"MXNetError: [01:02:03] src/storage/./pooled_storage_manager.h:161: cudaMalloc retry failed: out of memory", "MXNET_BACKWARD_DO_MIRROR"},
    {"[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory", "free_gpu_memory_fraction"},
    {">>> Theoretical memory footprints: weight and optimizer=46983.28 MB, activation=8989.01 MB, total=55972.29 MB", "Megatron's estimate"},
    {"slurm_script: line 28:  8156 Killed                  python3 main.py", "want of the host's memory"},
    {"LMCache WARNING: Failed to allocate memory for the KV cache.\nThe KV cache will not be stored.", "LMCACHE_MAX_LOCAL_CPU_SIZE"},
    {"app  | exited with code 137\n", "want of the host's memory"},
    {"\"State\": {\n \"OOMKilled\": false,\n \"ExitCode\": 137,\n", "The container's own limit it was not"},
    {"(raylet) node_manager.cc:3064: 12 Workers (tasks / actors) killed due to memory pressure (OOM)", "want of the host's memory"},
    {"(raylet) node_manager.cc:3064: 12 Workers (tasks / actors) killed due to memory pressure (OOM)", "ray logs raylet.out"},
    {"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).", "--shm-size"},
    {"[launch.py:434:sigkill_handler] exits with return code = -7", "--shm-size"},
    {"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "CUDNN could not begin or go on"},
    {"CUSOLVER_STATUS_ALLOC_FAILED", "memory ran out for CUSOLVER"},
    {"Error: Warmup(Generation(\"Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\"))",
     "--max-batch-total-tokens"},
    {"RuntimeError: Insufficient VRAM for model and cache", "the device's memory ran out (line 1: 'RuntimeError: Insufficient VRAM"},
    {"ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model.", "device_map={\"\": 0}"},
    {"[TensorRT-LLM][INFO] Using 693 tokens in paged KV cache.\nunexpected error when creating modelInstanceState: maxTokensInPagedKvCache must be large "
     "enough "
     "to process at least 1 sequence to completion",
     "holds fewer tokens than one request may have"},
    {"OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading \"cudnn64_9.dll\" or one of its dependencies.",
     "may back with memory"},
    {"RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62", "before it wakes up"},
    {"W: CL_MEM_OBJECT_ALLOCATION_FAILURE error executing CL_COMMAND_WRITE_BUFFER", "CL_DEVICE_MAX_MEM_ALLOC_SIZE"},
    {"Error: System is out of GPU and shared host memory", "the device's or the host's, the text does not say"},
    {"RuntimeError: [metal::malloc] Resource limit (499000) exceeded.", "as many as Metal allows (the number in it counts them, not bytes)"},
    {"MetalExecutionError: Code=8 \"Insufficient Memory (IOAF code 8)\"", "iogpu.wired_limit_mb"},
    {"Traceback (most recent call last):\nimport cupy\n  in cupy_backends.cuda.api.runtime.hostAlloc\nCUDARuntimeError: cudaErrorOperatingSystem: OS call "
     "failed",
     "could not be page-locked"},
    {"node:1:2 [0] misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Ab (size 4096)", "NCCL_SHM_DISABLE=1"},
    {"node:1:2 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory", "docker run --ulimit memlock=-1"},
    /* No OpenCL ("NCCL_") and no Mac ("mlx5_0", bare metal). */
    {"node:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE on bare metal\nnode:1:2 [0] net_ib.cc:9 NCCL WARN Call to ibv_reg_mr_iova2 failed with error "
     "Cannot allocate memory\nHint: NCCL_DEBUG=INFO",
     "NCCL_IB_DISABLE=1 goes over TCP, slower"},
    {"RuntimeError: CUDA error: out of memory\nNCCL_DEBUG=INFO on bare-metal nodes with mlx5_0", "nvidia-smi (rocm-smi, xpu-smi, npu-smi) says who holds the "
                                                                                                 "rest"},
    {"ggml_metal_buffer_init: error: failed to allocate buffer", "iogpu.wired_limit_mb"},
    /* The frame that the traceback ends with tells whose memory the driver refused. */
    {"  File \"/a/train.py\", line 3, in setup\n    grads = torch.zeros(n, device=\"cpu\", pin_memory=True)\nRuntimeError: CUDA error: out of memory\n",
     "page-locked memory of the host ran out (line 3:"},
    {"  File \"/a/offload.py\", line 3, in step\n    host = grad.cpu().pin_memory()\n           ^^^^^^^^^^^^^^^^^^^^^^^\nRuntimeError: HIP error: out of "
     "memory\n",
     "page-locked memory of the host ran out (line 4:"},
    {"RuntimeError: CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA\n  File \"/a/loader.py\", line 3, in pin_memory\n    return data.pin_memory()\n",
     "page-locked memory of the host ran out (line 1:"},
    {"Exception: utils -- cudaAllocMapped() failed to allocate memory", "on a Jetson all of it is one memory"},
    {"│ /a/offload.py:7 in step                  │\n│   6 │   x = grad.cpu()                    │\n│ ❱ 7 │   return x.pin_memory()             │\n│   8 │   "
     "return x      "
     "                    │\n╰──────────────────────────────────────────╯\nRuntimeError: CUDA error: out of memory\n",
     "page-locked memory of the host ran out (line 6:"},
    {"E0102 03:04:05.678901 7 rdma_context.cpp:203] Failed to register memory 0x7b0000000000: Cannot allocate memory [12]", "docker run --ulimit memlock=-1"},
    {"requested 2305843008391495680 bytes, but max alloc size supported by device is 4294959104 bytes", "memory did not run out"},
    /* An outer frame, or a loader's option, does not. */
    {"  File \"/a/offload.py\", line 3, in step\n    host = pin_memory(grad)\n  File \"/a/model.py\", line 9, in forward\n    return x @ w\nRuntimeError: CUDA "
     "error: out of memory\n",
     "the device's memory ran out (line 5:"},
    {"  File \"/a/train.py\", line 3, in main\n    loader = torch.utils.data.DataLoader(data, pin_memory=True)\nRuntimeError: CUDA error: out of memory\n",
     "the device's memory ran out (line 3:"},
    {"warning: failed to mlock 4096000-byte buffer (after previously locking 0 bytes): Cannot allocate memory", "goes on without"},
    {"MemoryError: std::bad_alloc: CUDA error at: /a/managed_memory_resource.hpp:73: cudaErrorMemoryAllocation out of memory", "the device's memory ran out"},
    {"distributed.nanny - WARNING - Worker exceeded 95% memory budget.  Restarting", "Dask ended workers"},
    {"[TRT] [W] Tactic Device request: 512MB Available: 128MB. Device memory is insufficient to use tactic.\n[TRT] [W] Tactic Device request: 800MB "
     "Available: 256MB. Device memory is insufficient to use tactic.\n",
     "(the largest needed 800 MiB of the device's memory, where 256 MiB were available) and goes on with others"},
    {"[METAL] Command buffer execution failed: Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)",
     "not that memory ran out"},
    {"On a Mac:\n```\nimport mlx.core as mx\na = mx.eye(28000)\n```\n[METAL] Command buffer execution failed: Insufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n",
     "iogpu.wired_limit_mb"},
    {"[2026-01-02 03:04:05.678 Control    69] Cmd:set_default_device_pinned_mem_limit 0 4606M", "each of its clients may allocate"},
    {"Failed to allocate device vector A (error code all CUDA-capable devices are busy or unavailable)!", "gave this process no GPU"},
    {"[ 4821.113370] misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12", "Windows"},
    {"fails with `E1001: CompileTimeScopedVmemOom` on every cold-cache run", "vmem_limit_bytes"},
    {"RuntimeError: Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)", "lost the GPU"},
    {"RuntimeError: CUDA error: an illegal memory access was encountered", "a fault, not of memory that ran out"},
    {"Call to cuMemAlloc results in CUDA_ERROR_LAUNCH_FAILED", "a fault, not of memory that ran out"},
    {"[1.2] NVRM: Xid (PCI:0000:3b:00): 31, pid=3, name=python, Ch 00000008, MMU Fault\n[1.3] NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', DBE (double bit "
     "error) ECC Error",
     "Xid 48, not of memory that ran out"},
    {"  Warning  FailedScheduling  12s  default-scheduler  0/4 nodes are available: 1 Insufficient memory, 3 Insufficient nvidia.com/gpu. preemption: 0/4 "
     "nodes",
     "no memory ran out"},
    {"[1.2] NVRM: Xid (PCI:0000:3d:00): 43, pid=3, Ch 00000008\n[1.3] NVRM: Xid (PCI:0000:db:00): 31, pid=4, MMU Fault", "Xid 31, not of memory that ran out"},
    {"THCudaCheck FAIL error=59\nRuntimeError: cuda runtime error (59) : device-side assert triggered at x.cu:265", "a fault, not of memory that ran out"},
    /* A figure further behind is not the refusal's. */
    {"error: out of memory\nstep 3\nloss: 12345\nlater\na\nb\nc\nRequested memory: 33554432\n", "not what was asked for and what held it"},
    {"0, NVIDIA L40S, 30000 MiB, 46068 MiB, 97 %\n1, NVIDIA L40S, 5 MiB, 46068 MiB, 0 %\n", "--format=csv in place of csv,noheader"},
    /* A call in a traceback is no list of arrays. */
    {"    buf3 = empty_strided_cuda((76800, 5120), (5120, 1), torch.float16)\ntorch.OutOfMemoryError: Allocation on device\n", "backend:native"},
    {"Failed to allocate memory for the output tensor of the input layer", "the device's or the host's, the text does not say"},
    /* NCCL's own: on the device, or page-locked on the host. */
    {"node:1:2 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes", "NCCL was refused 6 MiB on the device"},
    {"Last error:\nFailed to CUDA host alloc 4923392 bytes\n", "4.70 MiB of page-locked memory of the host, not of the device's"},
    {"node:1:2 [3] include/alloc.h:63 NCCL WARN Cuda failure 2 'out of memory'\nnode:1:2 [3] include/alloc.h:68 NCCL WARN Failed to CUDA host alloc 33554432 "
     "bytes\n",
     "page-locked memory of the host, not of the device's"},
    {"host:7:8 [0] hipify/src/include/alloc.h:211 NCCL WARN HIP failure 'out of memory'", "NCCL_BUFFSIZE"},
    {"ncclUnhandledCudaError: Call to CUDA function failed.", "not which and why: NCCL_DEBUG=WARN prints it"},
    /* Where an exception came from says whose memory it was. */
    {"terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: out of memory\nException raised from allocate at "
     "../aten/src/ATen/cuda/CachingHostAllocator.cpp:97 (most recent call first):\n",
     "page-locked memory of the host ran out (line 2:"},
    {"RuntimeError: CUDA error: out of memory\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n\nException raised from c10_cuda_check_implementation at "
     "../c10/cuda/CUDAException.cpp:44 (most recent call first):\nframe #0: c10::Error::Error() + 0x57\nframe #1: c10::cuda::c10_cuda_check_implementation() + "
     "0x10\nframe #2: <unknown function> + 0x1\nframe #3: at::cuda::HostAlloc(unsigned long) + 0x2\n",
     "page-locked memory of the host ran out (line 1:"},
    {"RuntimeError: CUDA error: out of memory\nException raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:44:\nframe #0: "
     "c10::Error::Error() + 0x57\nframe #1: c10::cuda::CUDACachingAllocator::raw_alloc(unsigned long) + 0x2\n",
     "the device's memory ran out (line 1:"},
    /* A call of several lines. */
    {"  File \"cpu_gpu.py\", line 120, in __init__\n    cpu_tensor = torch.zeros(\n                 ^^^^^^^^^^^^\n    cpu_shape,\n    ^^^^^^^^^^\n    "
     "device=\"cpu\",\n    pin_memory=True,\n    ^^^^^^^^^^^^^^^^\ntorch.AcceleratorError: CUDA error: out of memory\n",
     "page-locked memory of the host ran out (line 9:"},
    {"  File \"cpu_gpu.py\", line 120, in __init__\n    gpu = torch.zeros(\n    shape,\n    device=\"cuda\",\n)\nmade loader, pin_memory=True\n"
     "torch.AcceleratorError: CUDA error: out of memory\n",
     "the device's memory ran out (line 7:"},
    /* The host's, shared or not. */
    {"RuntimeError: unable to write to file </torch_23_40_3>: No space left on device (28)", "memory which processes were to share ran out"},
    {"RuntimeError: unable to allocate shared memory(shm) for file </torch_13_3_0>: Resource temporarily unavailable (11)", "--shm-size"},
    {"RuntimeError: unable to mmap 9976570304 bytes from file <pytorch_model-00001-of-00003.bin>: Cannot allocate memory (12)", "vm.overcommit_memory=1"},
    {"  File \"popen_fork.py\", line 70, in _launch\n    self.pid = os.fork()\nOSError: [Errno 12] Cannot allocate memory", "to a child it promises"},
    {"RuntimeError: received 0 items of ancdata", "ulimit -n"},
    /* A count, not bytes. */
    {"RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
     "self.req_to_token_pool.available_size()=2, num_reqs=3,",
     "had no row left for another one, not that the device's"},
    {"RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 32 tokens.\nAvailable tokens: 3\n", "--schedule-conservativeness"},
    {"[TP0] RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\n", "are tokens of it"},
    {"[TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_token_ratio: 0.30 -> 1.0000", "no memory ran out"},
    /* Before anything was asked for, or beside PyTorch's pool. */
    {"INTERNAL: failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: 8589934592",
     "found no room on the GPU for its context"},
    {"CudaAPIError: [2] Call to cuDevicePrimaryCtxRetain results in CUDA_ERROR_OUT_OF_MEMORY", "less at a time changes nothing"},
    {"  File \"graphs.py\", line 84, in capture_end\n    super().capture_end()\nRuntimeError: CUDA error: out of memory\n",
     "CUDA graph that had been captured"},
    {"[TM][ERROR] CUDA runtime error: out of memory /opt/lmdeploy/src/turbomind/utils/memory_utils.cu:32", "--cache-max-entry-count"},
    {"[torch_memory_saver.cpp] CUresult error  result=2 file=csrc/torch_memory_saver.cpp func=cu_mem_create line=103", "torch_memory_saver found no room"},
    {"  File \"cuda_accelerator.py\", line 296, in pin_memory\n    return tensor.cpu().pin_memory()\nRuntimeError: CUDA error: invalid argument\n",
     "did not page-lock a piece"},
    {"RuntimeError: DataLoader worker (pid(s) 3216) exited unexpectedly", "num_workers=0 shows the error itself"},
    {"RuntimeError: CUDA error: out of memory\nRuntimeError: DataLoader worker (pid(s) 3216) exited unexpectedly", "the device's memory ran out"},
    {"Loading checkpoint shards:  40%|####      | 2/5 [00:20<00:31, 10.5s/it]Killed\n", "want of the host's memory"},
    {"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n", "than it had asked for"},
    {"command terminated with exit code 137.\n", "want of the host's memory"},
    {"make: *** [Makefile:3: train] Error 137\n", "want of the host's memory"},
    {"slurmstepd: error: Job 12 exceeded memory limit (8500000 > 8388608), being killed", "--mem=SIZE (--mem-per-cpu, --mem-per-gpu)"},
    {"earlyoom[9]: sending SIGTERM to process 4411 uid 1000 \"python\": badness 1330, VmRSS 59012 MiB", "want of the host's memory"},
    {"systemd-oomd[7]: Killed /user.slice due to memory pressure for /user.slice being 63.93% > 50.00% for > 20s", "want of the host's memory"},
    {"{\"Status\":\"exited\",\"Running\":false,\"OOMKilled\":true,\"ExitCode\":137}", "want of the host's memory"},
    {"OSError: [Errno 28] No space left on device", "that a disk is full"},
    {"java.lang.OutOfMemoryError: Java heap space", "-Xmx"},
    {"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "--max-old-space-size"},
    /* A line that ends by itself, as wide as a terminal: nothing of the next is its. */
    {"time=2025-01-01T00:00:00.000Z level=INFO source=sched.go:731 msg=\"existing models\" gpu=GPU-1 available=\"1.2 GiB\"\nllama_kv_cache_init: failed to "
     "allocate buffer for kv cache\n",
     "memory ran out (line 2:"},
    /* The device's, by other names. */
    {"llama_model_load: error loading model: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "the device's memory ran out"},
    {"pyopencl._cl.MemoryError: clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE", "the device's memory ran out"},
    {"ValueError:  ## Insufficient space in device allocation", "the device's memory ran out"},
    {"InternalError: Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: Dst tensor is not initialized.", "nvidia-smi"},
    {"RuntimeError: Unable to find a valid cuDNN algorithm to run convolution", "torch.backends.cudnn.benchmark=False"},
    {"RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`", "CUSOLVER could not begin or go on"},
    {"RuntimeError: Invalid buffer size: 24.00 GiB", "larger than Metal gives a buffer"},
    {"RESOURCE_EXHAUSTED: Underlying backend ran out of memory trying to instantiate command buffer with 900 nodes (total of 12 alive graphs in the process).",
     "XLA_FLAGS=--xla_gpu_enable_command_buffer="},
    {"ValueError: Too large swap space. 32.00 GiB out of the 31.26 GiB total CPU memory is allocated for the swap space.", "a smaller --swap-space"},
    {"AssertionError: Error in memory profiling. Initial free memory 21.1 GiB, current free memory 23.0 GiB.", "Memory did not run out"},
    {"RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=22.1, local_gpu_memory=45.2",
     "not that memory ran out"},
    {"RuntimeError: Executor creation failed due to insufficient GPU memory.\nThe following component could not be created: KV cache\n",
     "free_gpu_memory_fraction of"},
    {"ValueError: The current `device_map` had weights offloaded to the disk. Please provide an `offload_folder` for them.", "both are too small for it"},
    {"Segmentation fault (core dumped)", "no sign of memory that ran out"},
    {"Graph name G needs to allocate [ 11852.6 MiB ] device memory.", "names amounts of memory, in words that no reader here knows ('Graph name G"},
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.", "want of the host's memory"},
    {"slurmstepd: error: Detected 2 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
     "--mem=SIZE (--mem-per-cpu, --mem-per-gpu)"},
    {"7            train OUT_OF_ME+                  64G   00:12:31", "asks for more, 'sacct -j JOB"},
    {"[ 81.0] [drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Not enough memory for command submission!", "ttm.pages_limit"},
    {"Evicted: The node was low on resource: memory. Container serve was using 60Gi, request is 16Gi", "resources.requests.memory"},
    {"RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "want of the host's memory"},
    {"vkAllocateMemory failed -2", "the device's memory ran out"},
    /* Which of two limits it reached the text does not tell. */
    {"spec:\n  containers:\n  - resources:\n      limits:\n        memory: 1Gi\n  - resources:\n      limits:\n        memory: 8Gi\nstatus:\n    "
     "lastState:\n      terminated:\n        reason: OOMKilled\n",
     "what it held stands in dmesg"},
    {"[ERROR] failed (exitcode: -9) local_rank: 0 (pid: 598577) of binary: /usr/bin/python", "want of the host's memory"},
    {"Killed\n", "want of the host's memory"},
    {"RuntimeError: Caught RuntimeError in pin memory thread for device 0.\nRuntimeError: CUDA error: out of memory", "page-locks batches"},
    {"RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":995, please report a bug to PyTorch.",
     "only does when memory ran out"},
    {"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n", "how GPUs are joined"},
    {"Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 911.08  20.10\n", "links.nvlink.to_device=RATE"},
    {"#       size         count      type   redop    root     time   algbw   busbw #wrong\n  1048576 262144 float sum -1 161.3 6.50 9.75 0\n", "nccl-tests"},
    {"[CUDA Bandwidth Test] - Starting...\n Host to Device Bandwidth, 1 Device(s)\n", "links.host.to_device=RATE"},
    {"RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58", "not what was asked for and what held it"},
    {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.", "memory did not run out"},
    {"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack for %k = bf16[8,128] custom-call()",
     "vmem ran out, but the text gives no sizes"},
};

START_TEST(without_sizes)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(unsized[_i].text, &error);
    ck_assert_msg(!import, "%s", unsized[_i].text);
    ck_assert_msg(strstr(error->message, unsized[_i].says) != NULL && !strstr(error->message, "no captured format"), "%s", error->message);
}
END_TEST

/* A size that nothing has. */
START_TEST(absurd)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text("Failed to allocate memory for requested buffer of size 4585490524328388608", &error);
    ck_assert(!import);
    ck_assert_msg(strstr(error->message, "no array is that large") != NULL, "%s", error->message);
}
END_TEST

/* A trace in JSON in which such words stand stays a trace. */
START_TEST(traces_stay_traces)
{
    g_autoptr(EchImport) import =
        ech_test_text("{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2,\"pid\":0,\"tid\":7,\"args\":"
                      "{\"device\":0,\"stream\":7,\"message\":\"CUDA out of memory. Tried to allocate 1.00 GiB\"}}]}",
                      NULL);
    ck_assert(import && strcmp(ech_trace_format(import->trace), "kineto") == 0);
}
END_TEST

/* Sentences go on to an empty line, another log's line or a traceback, and no further. */
START_TEST(sentences)
{
    static const char text[] = "[rank0]: one\n[rank0]: two\n[rank1]: three\n\nfour\n```\nfive";
    g_autoptr(EchPasted) pasted = ech_pasted_new(text, sizeof text - 1);
    EchWords line;
    ck_assert(ech_pasted_next(pasted, &line));
    ck_assert_msg(line.n == 3 && memcmp(line.text, "one", 3) == 0, "%.*s", (int)line.n, line.text);
    EchWords whole = ech_pasted_sentence(pasted);
    ck_assert_msg(whole.n == 7 && memcmp(whole.text, "one two", 7) == 0, "%.*s", (int)whole.n, whole.text);
    for (int i = 0; i < 4; i++)
        ck_assert(ech_pasted_next(pasted, &line));
    whole = ech_pasted_sentence(pasted);
    ck_assert_msg(whole.n == 4 && memcmp(whole.text, "four", 4) == 0, "%.*s", (int)whole.n, whole.text);
}
END_TEST

/* Figures of the device beside a refusal of what is not its own. */
START_TEST(refused_beside_figures)
{
    static const char figures[] = "PyTorch: allocated 1.00 GiB, reserved 2.00 GiB\n";
    g_autofree char *pinned =
                        g_strconcat(figures, "  File \"/a/b.py\", line 3, in f\n    return x.pin_memory()\nRuntimeError: CUDA error: out of memory\n", NULL),
                    *device = g_strconcat(figures, "  File \"/a/b.py\", line 3, in f\n    return x.cuda()\nRuntimeError: CUDA error: out of memory\n", NULL);
    g_autoptr(EchImport) of_host = ech_test_text(pinned, NULL), of_device = ech_test_text(device, NULL);
    g_autofree char *intel = g_strconcat(figures, "RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)\n", NULL);
    g_autoptr(EchImport) of_intel = ech_test_text(intel, NULL);
    ck_assert(of_intel && ech_test_says(of_intel->diag, "memory ran out ('RuntimeError: level_zero"));
    ck_assert(of_host && ech_test_says(of_host->diag, "page-locked memory of the host ran out ('RuntimeError") &&
              ech_test_says(of_host->diag, "of what ran out: "));
    ck_assert(of_device && ech_test_says(of_device->diag, "the device's memory ran out ('RuntimeError") &&
              !ech_test_says(of_device->diag, "of what ran out: "));
}
END_TEST

/* Graphs are captured into what SGLang leaves beside weights and cache. */
START_TEST(refused_to_graphs)
{
    static const char refused[] =
        NEW "1.00 GiB" ON_24 "512.00 MiB is free. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 64.00 MiB is reserved "
            "by PyTorch but unallocated.\n",
                      hint[] =
                          "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs to a smaller "
                          "value (e.g., 16)\n",
                      says[] = "SGLang was capturing its graphs";
    g_autofree char *failed = g_strconcat("[2026-01-02 03:04:05 TP0] Scheduler hit an exception: Exception: Capture cuda graph failed: ", refused, hint, NULL),
                    *later = g_strconcat(refused, "Possible solutions:\n2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n", NULL),
                    *begun = g_strconcat("[2026-01-02 03:04:05 TP0] Capture draft cuda graph begin. This can take up to several minutes. avail mem=1.29 GB\n",
                                         refused, NULL),
                    *over = g_strconcat("[2026-01-02 03:04:05 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=1.29 GB\n"
                                        "[2026-01-02 03:04:07 TP0] Capture cuda graph end. Time elapsed: 2.00 s. mem usage=0.50 GB. avail mem=0.79 GB.\n",
                                        refused, NULL);
    g_autoptr(EchImport) of_failed = ech_test_text(failed, NULL), of_begun = ech_test_text(begun, NULL), of_over = ech_test_text(over, NULL),
                         of_later = ech_test_text(later, NULL);
    ck_assert(ech_test_says(of_later->diag, says));
    ck_assert(ech_test_says(of_failed->diag, says) && ech_test_says(of_begun->diag, says) && !ech_test_says(of_over->diag, says));
}
END_TEST

/* What vLLM's cache gets, where it starts and where something is refused after it was taken. */
START_TEST(refused_beside_a_cache)
{
    static const char cache[] = "Available KV cache memory: 4.00 GiB\nGPU KV cache size: 100,000 tokens\n",
                      refused[] =
                          NEW "1.00 GiB" ON_24 "512.00 MiB is free. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 64.00 MiB is reserved by "
                              "PyTorch but unallocated.\n";
    g_autofree char *both = g_strconcat(cache, refused, NULL);
    g_autoptr(EchImport) alone = ech_test_text(cache, NULL), after = ech_test_text(both, NULL);
    ck_assert(ech_test_says(alone->diag, "It grows by: a larger share") && !ech_test_says(alone->diag, "a smaller share"));
    ck_assert(ech_test_says(after->diag, "Out of memory then: a smaller share") && !ech_test_says(after->diag, "a larger share"));
    /* Another start's cache, behind the refusal. */
    g_autofree char *turned = g_strconcat("Model loading took 14.00 GiB memory and 3.1 seconds\n", refused, cache, NULL);
    g_autoptr(EchImport) before = ech_test_text(turned, NULL);
    ck_assert(ech_test_says(before->diag, "not yet sized the KV cache") && !ech_test_says(before->diag, "KV cache of 100000 tokens"));
    ck_assert(!ech_test_says(before->diag, "a smaller share") && !ech_test_says(before->diag, "a larger share"));
}
END_TEST

/* What TensorFlow 2.21 prints of these sizes: cut to whole KiB, or MiB, before it is rounded to two digits. Where the unit stands apart nothing is cut. */
START_TEST(cut_before_rounding)
{
    static const struct {
        const char *text;
        EchBytes bytes;
        bool is;
    } cases[] = {
        {"21.57MiB", 22623232, true},   {"1.33GiB", 1433581056, true}, {"21.57MiB", 22625000, false}, {"1.33GiB", 1435000000, false},
        {"21.57 MiB", 22623232, false}, {"1.2KiB", 1279, true},        {"1.2KiB", 1290, false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        EchRounded size;
        size_t used;
        ck_assert(ech_rounded_parse(cases[i].text, strlen(cases[i].text), &size, &used));
        ck_assert_msg(ech_rounded_is(&size, cases[i].bytes) == cases[i].is, "%s, %" G_GUINT64_FORMAT, cases[i].text, cases[i].bytes);
    }
}
END_TEST

/* Owned by the caller. */
static char *broken(const char *text, size_t width, bool windows)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0, column = 0; text[i]; i++) {
        if (column == width && text[i] != '\n') {
            g_string_append(out, windows ? "\r\n" : "\n");
            column = 0;
        }
        g_string_append_c(out, text[i]);
        column = text[i] == '\n' ? 0 : column + 1;
    }
    return g_string_free(out, FALSE);
}

/* A terminal's copy breaks words and numbers at its width: what is said is the same. */
START_TEST(broken_by_a_terminal)
{
    static const struct {
        const Case *cases;
        size_t n;
    } all[] = {
        {of_pytorch, G_N_ELEMENTS(of_pytorch)}, {of_engines, G_N_ELEMENTS(of_engines)}, {of_others, G_N_ELEMENTS(of_others)}, {of_xla, G_N_ELEMENTS(of_xla)}};
    unsigned seen = 0;
    for (size_t a = 0; a < G_N_ELEMENTS(all); a++) {
        for (size_t i = 0; i < all[a].n; i++) {
            Case c = all[a].cases[i];
            size_t length = strlen(c.text);
            for (size_t width = 60; width <= 160 && *c.text != '{' && !strchr(c.text, '\n') && !strstr(c.text, "\\n") && 2 * width < length;
                 width += 3, seen++) {
                g_autofree char *text = broken(c.text, width, width % 2);
                c.text = text;
                check(&c);
                c.text = all[a].cases[i].text;
            }
        }
    }
    ck_assert_uint_gt(seen, 300);
}
END_TEST

/* Words of @text in lines of @width at most. Owned by the caller. */
static char *wrapped(const char *text, size_t width)
{
    GString *out = g_string_new(NULL);
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    size_t column = 0;
    for (char **word = words; *word; word++) {
        size_t n = strlen(*word);
        bool fits = column == 0 || column + 1 + n <= width;
        g_string_append_printf(out, "%s%s", column == 0 ? "" : fits ? " " : "\n", *word);
        column = fits && column ? column + 1 + n : n;
    }
    return g_string_free(out, FALSE);
}

/* Whether, but for the last, no more than two lines for each narrower one are as wide as the widest, as all that a terminal breaks are. */
static bool is_uneven(const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    size_t n = g_strv_length(lines) - 1, widest = 0, wide = 0;
    for (size_t i = 0; i <= n; i++)
        widest = MAX(widest, strlen(lines[i]));
    for (size_t i = 0; i < n; i++)
        wide += strlen(lines[i]) == widest;
    return 2 * (n - wide) >= wide;
}

/* Mail and editors wrap between words, whatever the width: what is said is the same. */
START_TEST(wrapped_between_words)
{
    static const struct {
        const Case *cases;
        size_t n;
    } all[] = {{of_pytorch, G_N_ELEMENTS(of_pytorch)}, {of_engines, G_N_ELEMENTS(of_engines)}};
    unsigned seen = 0;
    for (size_t a = 0; a < G_N_ELEMENTS(all); a++) {
        for (size_t i = 0; i < all[a].n; i++) {
            Case c = all[a].cases[i];
            size_t length = strlen(c.text);
            for (size_t width = 60; width <= 100 && *c.text != '{' && !strchr(c.text, '\n') && !strstr(c.text, "\\n") && 2 * width < length; width++, seen++) {
                g_autofree char *text = wrapped(c.text, width);
                c.text = text;
                if (is_uneven(text))
                    check(&c);
                c.text = all[a].cases[i].text;
            }
        }
    }
    ck_assert_uint_gt(seen, 300);
}
END_TEST

/* All lines but the last may be as wide by chance. */
START_TEST(wrapped_evenly)
{
    g_autoptr(EchImport) import =
        ech_test_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU\n0 has a total capacity of 15.75 GiB of which "
                      "14.25 GiB is free. Process 4711\nhas 1.50 GiB memory in use. Of the allocated memory 1.00 GiB is allocated by\n"
                      "PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.\n",
                      NULL);
    ck_assert(import && ech_test_says(import->diag, "20 GiB asked for, 14.5 GiB free and unused together"));
}
END_TEST

/* A paragraph is a sentence however long it is. */
START_TEST(long_paragraph)
{
    g_autoptr(GString) text = g_string_new(NEW "48.00 MiB" ON_24 "32.00 MiB is free. ");
    for (unsigned i = 0; i < 14; i++)
        g_string_append_printf(text, "Process %u has 1.00 GiB memory in use. ", 4711 + i);
    g_string_append(text,
                    "Including non-PyTorch memory, this process has 9.75 GiB memory in use. Of the allocated memory 9.00 GiB is allocated by PyTorch, and "
                    "512.00 MiB is reserved by PyTorch but unallocated.");
    g_autofree char *lines = wrapped(text->str, 64);
    g_autoptr(EchImport) import = ech_test_text(lines, NULL);
    ck_assert(import && ech_test_says(import->diag, "4724 (1 GiB): nvidia-smi") &&
              ech_test_says(import->diag, "48 MiB would fit into what is free (32 MiB) and what PyTorch holds unused (512 MiB)"));
}
END_TEST

/* Lines that end there by themselves stay what they are: tables, records, what is indented, what something else logged. */
START_TEST(lines_of_one_width)
{
    static const char
        a[] = "llama_kv_cache: size = 4096.00 MiB (131072 cells, 32 layers), K (f16): 2048.00 MiB",
        *const texts[] = {
            "%s\n%s\nwritten by another\n", /* as wide, and alike */
            "%s\n    return self.model(input)\n%s\n  raise RuntimeError(message)\n",
            "%s\n2026-01-02 03:04:05 one\n%s\n2026-01-02 03:04:05 another\n",
            "%s\n+----------------+\n%s\n| no more        |\n",
            "%s\n\n%s\n",
            "%s\n1000 llama_step: size = 4096.00 MiB (131072 cells, 32 layers), K (f16): 2048.00\n1001 llama_step: size = 4096.00 MiB (131072 cells, "
            "32 layers), K (f16): 2048.00\n1002 llama_step: size = 4096.00 MiB (131072 cells, 32 layers), K (f16): 2048.00\n",
        };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *text = g_strdup_printf(texts[i], a, a);
        size_t n;
        g_autofree char *joined = ech_pasted_joined(text, strlen(text), true, &n);
        ck_assert_msg(!joined, "%s", joined);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("messages");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, pytorch, 0, G_N_ELEMENTS(of_pytorch));
    tcase_add_loop_test(tcase, engines, 0, G_N_ELEMENTS(of_engines));
    tcase_add_loop_test(tcase, other_software, 0, G_N_ELEMENTS(of_others));
    tcase_add_test(tcase, trials);
    tcase_add_test(tcase, tried_again);
    tcase_add_test(tcase, warned_before);
    tcase_add_loop_test(tcase, whatever_stands_around, 0, N_AROUND);
    tcase_add_test(tcase, of_powershell);
    tcase_add_test(tcase, times);
    tcase_add_loop_test(tcase, xla, 0, G_N_ELEMENTS(of_xla));
    tcase_add_loop_test(tcase, tensorflow, 0, G_N_ELEMENTS(of_tensorflow));
    tcase_add_test(tcase, copied_from_a_page);
    tcase_add_loop_test(tcase, arrays, 0, G_N_ELEMENTS(of_arrays));
    tcase_add_test(tcase, refused_beside_a_cache);
    tcase_add_test(tcase, refused_beside_figures);
    tcase_add_test(tcase, refused_to_graphs);
    tcase_add_loop_test(tcase, without_sizes, 0, G_N_ELEMENTS(unsized));
    tcase_add_loop_test(tcase, refused_by_a_tpu, 0, 2);
    tcase_add_test(tcase, other_refusals);
    tcase_add_test(tcase, refused_by_bfc);
    tcase_add_test(tcase, cut_before_rounding);
    tcase_add_test(tcase, refused_by_pytorch);
    tcase_add_test(tcase, others_first);
    tcase_add_test(tcase, several_reports);
    tcase_add_test(tcase, absurd);
    tcase_add_test(tcase, traces_stay_traces);
    tcase_add_test(tcase, sentences);
    tcase_add_test(tcase, broken_by_a_terminal);
    tcase_add_test(tcase, wrapped_between_words);
    tcase_add_test(tcase, wrapped_evenly);
    tcase_add_test(tcase, long_paragraph);
    tcase_add_test(tcase, lines_of_one_width);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
