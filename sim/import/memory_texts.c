#include "sim/import/memory_texts.h"
#include "sim/base/error.h"
#include "sim/import/engine_says.h"
#include "sim/import/host_says.h"
#include "sim/import/plain_says.h"

#include <string.h>

/* What is looked at of a long log: its end, where it failed. */
enum { MOST = 16 << 20, MAX_QUOTED = 120 };

#define SNAPSHOT                                                                                                                                               \
    "torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot(\"oom.pickle\") where the error is caught"
#define TELLS_MORE                                                                                                                                             \
    "; 'echelon capture --pretend DEVICE -- COMMAND' runs the program on a device that is not there and tells who asks for what, and so does PyTorch's "       \
    "memory snapshot"
#define SUMS_OF_JAX                                                                                                                                            \
    "the text tells of memory without saying what was in it; of arrays that are alive jax.profiler.save_device_memory_profile(\"memory.prof\") does, of a "    \
    "program "                                                                                                                                                 \
    "its compiled text (jax.jit(f).lower(...).compile().as_text())"

#define KILLED                                                                                                                                                 \
    "the text says that a process was killed (signal 9), as the kernel, or a container's or a job's limit, does for want of the host's memory, not the "       \
    "device's: what it held stands in dmesg as anon-rss (its own) and shmem-rss (shared and page-locked). " ECH_HOST_FULL

#define KILLED_BY_SLURM                                                                                                                                        \
    "the text says that a process of a job of Slurm's was killed for want of the host's memory, not the device's: the step reached what the job has of it. "   \
    "--mem=SIZE (--mem-per-cpu, --mem-per-gpu) asks for more, 'sacct -j JOB --format=JobID,ReqMem,MaxRSS,State' tells what it had and what one task held; "    \
    "files in /dev/shm count too. " ECH_HOST_FULL

#define KILLED_BY_LIMIT                                                                                                                                        \
    "the text says that a batch system ended a job that held more of the host's memory, not the device's, than it had asked for: a larger request (LSF: bsub " \
    "-M and -R \"rusage[mem=...]\"; PBS: -l mem=...) allows it. " ECH_HOST_FULL

#define KILLED_BY_RAY                                                                                                                                          \
    "the text says that Ray ended workers for want of the host's memory on their node, not the device's: its monitor does where more is in use than "          \
    "RAY_memory_usage_threshold allows (0.95), before the kernel would, so that dmesg tells nothing; 'ray logs raylet.out -ip NODE' tells which, what they "   \
    "held and who held most, which echelon reads. " ECH_HOST_FULL

#define MORE_SHARED                                                                                                                                            \
    "It is the host's memory, not the device's ('df -h /dev/shm'; a container has 64 MB of it unless told otherwise): docker run --shm-size=16g or "           \
    "--ipc=host, in Kubernetes an emptyDir with 'medium: Memory' there, fewer workers, or torch.multiprocessing.set_sharing_strategy(\"file_system\")"

#define SHARED_FILES                                                                                                                                           \
    "the text says that a process died of a bus error (signal 7), as it does where /dev/shm is full: workers of data loaders hand batches over in it, NCCL "   \
    "and others talk through it. " MORE_SHARED

#define NOT_SHARED                                                                                                                                             \
    "the text says that memory which processes were to share ran out, where workers of data loaders hand batches over and servers' processes talk: files in "  \
    "/dev/shm. " MORE_SHARED

#define OPEN_FILES                                                                                                                                             \
    "the text says that a process has as many files open as it may, not that memory ran out: each tensor that workers of data loaders hand over is one. "      \
    "'ulimit -n 65536' (docker run --ulimit nofile=65536) allows more, torch.multiprocessing.set_sharing_strategy(\"file_system\") keeps none open, and "      \
    "batches that are copied, not kept, let go of theirs"

#define NCCL_SHARED                                                                                                                                            \
    "the text says that NCCL could not make a segment in /dev/shm, through which ranks of one machine talk: the host's memory, not the device's. It is full "  \
    "('df -h /dev/shm'; a container has 64 MB unless told otherwise: docker run --shm-size=16g or --ipc=host), segments of jobs that ended before lie in it "  \
    "(/dev/shm/nccl-*), or the driver could not page-lock it ('ulimit -l'); NCCL_SHM_DISABLE=1 does without, slower"

#define SGLANG_TOKENS                                                                                                                                          \
    "the text says that SGLang's KV cache had no room for the tokens of a step, not that the device's memory ran out: the cache is made once, at the start "   \
    "('max_total_num_tokens' in its log), and what the message tells as available are tokens of it. Fewer requests at once (--max-running-requests), fewer "   \
    "let in ahead of what they will write (--schedule-conservativeness above 1), shorter ones, or a larger cache (--mem-fraction-static, a --kv-cache-dtype "  \
    "of 8 bits, more GPUs with --tp) make room; what nvidia-smi shows as free it does not use"

#define TGI                                                                                                                                                    \
    "the text says that text-generation-inference ran out of memory in its trial run, which takes as many tokens at once as it may later: a smaller "          \
    "--max-batch-prefill-tokens (and --max-batch-total-tokens, where that is set), a shorter --max-input-tokens, more GPUs (--num-shard) or weights of fewer " \
    "bits (--quantize) need less; what the weights took, and whether others hold the GPU, nvidia-smi tells before it starts"

#define NOT_PINNED                                                                                                                                             \
    "the text says that memory of the host could not be page-locked, which is not the device's memory: 'ulimit -l' and a container's limit bound it, drivers " \
    "what one piece may be, and on AMD's a process in all; a smaller cache on the host (SGLang's --hicache-size or --hicache-ratio, LMCache's "                \
    "LMCACHE_MAX_LOCAL_CPU_SIZE), which each rank takes of its own"

#define MAC                                                                                                                                                    \
    "the text says that the GPU of a Mac had no memory left for a step: of the machine's it may take some two thirds to three quarters "                       \
    "(recommendedMaxWorkingSetSize). Other models that are loaded count; a shorter context, a smaller batch (prompts in smaller chunks), weights or a KV "     \
    "cache of fewer bits need less; 'sudo sysctl iogpu.wired_limit_mb=N' lets it take more, as far as the rest of the machine needs none"

#define DASK                                                                                                                                                   \
    "the text says that Dask ended workers that held nearly all of the host's memory that each may (memory_limit, --memory-limit), not the device's: fewer "   \
    "workers with more each, smaller partitions, or results that are not all gathered need less"

#define NOT_SCHEDULED                                                                                                                                          \
    "the text says that Kubernetes found no node for the pod, so that nothing ran and no memory ran out: it asks for more than any node has left to promise "  \
    "(resources.requests; 'Insufficient memory' is of the host's, 'Insufficient nvidia.com/gpu' of whole GPUs or slices, whose memory Kubernetes does not "    \
    "count). 'kubectl describe node' lists what pods have been promised; what the program needs of both 'echelon run' of a capture tells"

#define MPS_LIMIT                                                                                                                                              \
    "the text is of CUDA's MPS, which bounds the device's memory that each of its clients may allocate ('pinned' means device memory here, not the host's): "  \
    "beyond it a client is told 'out of memory', whatever nvidia-smi shows as free. It is each process's own, not a container's or a pod's, the context "      \
    "counts, and several processes may have it each; CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=SIZE sets it. What a program would need: 'echelon capture --pretend "  \
    "DEVICE -- COMMAND'"

#define ON_INTEL                                                                                                                                               \
    "the text says that an Intel GPU or its driver ran out of memory for a command, not what was asked for (sizes stand in PyTorch's own message, 'XPU out "   \
    "of "                                                                                                                                                      \
    "memory', which comes where its allocator is refused): torch.xpu.memory_summary() where the error is caught tells the sums, 'xpu-smi stats -d 0' what "    \
    "all "                                                                                                                                                     \
    "processes hold; on integrated GPUs it is the host's memory; pieces of 4 GiB and more need UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"

#define NO_ALGORITHM                                                                                                                                           \
    "the text says that cuDNN ran none of its ways to compute a convolution or attention. Mostly the device has no memory left for any of their workspaces, "  \
    "which PyTorch tries from fast to small and whose refusals it does not tell (nvidia-smi, torch.cuda.memory_summary()): a smaller batch or picture shows "  \
    "whether that was it, torch.backends.cudnn.benchmark=False tries fewer. Otherwise sizes or a type that this cuDNN does not have on this GPU, or a cuDNN "  \
    "that does not fit PyTorch" TELLS_MORE

#define ONE_BUFFER                                                                                                                                             \
    "the text says that one array was asked for that is larger than Metal gives a buffer on this Mac, however much memory is free: attention that makes no "   \
    "whole matrix (scaled_dot_product_attention, attention in slices), a smaller batch, a shorter context or a lower resolution keep arrays below it"

/* Messages that have no sizes to read, or only sums of what an engine means to do. */
static const struct {
    const char *mark, *advice;
} known_texts[] = {
    {"No available memory for the cache blocks", "the text says that vLLM had nothing left for its KV cache, which gets --gpu-memory-utilization of the "
                                                 "memory less weights and the peak of a trial run: "
                                                 "a larger share, fewer --max-num-batched-tokens and --max-num-seqs, --enforce-eager, more GPUs "
                                                 "(--tensor-parallel-size); how much the weights took stands "
                                                 "in its log ('Model loading took')"},
    {"Too large swap space", "the text says that vLLM was to keep more of the host's memory for swapped caches than seven tenths of it (--swap-space, in GiB, "
                             "times --tensor-parallel-size), not that the device's memory ran out: a smaller --swap-space, 0 in most cases, starts it"},
    /* vllm/v1/worker/gpu_worker.py, determine_available_memory */
    {"Error in memory profiling",
     "the text says that more of the GPU was free behind vLLM's trial run than before it, so that what it measured means nothing: another process gave memory "
     "back meanwhile. Memory did not run out; start it once the others (an earlier server that still ends, training beside it) have settled, one server after "
     "the other, or give it a cache of a fixed size (--kv-cache-memory-bytes), which needs no such measure"},
    {"when warming up sampler with", "the text says that the device's memory ran out while vLLM tried its sampler on as many requests as it may have "
                                     "(--max-num-seqs), once weights and the KV cache were taken: logits of all of them in 32 bits, a vocabulary wide, and "
                                     "what sorts them. A smaller --max-num-seqs or --gpu-memory-utilization leaves it room"},
    /* sglang's model_runner.py */
    {"The memory capacity is unbalanced",
     "the text says that SGLang's GPUs have not nearly as much free memory each (the least of them less than nine tenths of this one's), not that memory ran "
     "out: others hold some of one (nvidia-smi names them: an earlier run that has not ended, another server), or the cards differ. Of all it uses as much as "
     "the fullest has; free that, choose others (CUDA_VISIBLE_DEVICES, --base-gpu-id), or SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0 goes on as it is"},
    /* sglang's mem_cache/common.py: what it counts in tokens and requests, not bytes */
    {"refill out of memory. Try to lower", SGLANG_TOKENS},
    {"ecode out of memory. Try to lower", SGLANG_TOKENS},
    {"KV cache pool is full. Retract requests",
     "the text says that SGLang's KV cache was full and it took back requests, which it computes again later: slower, no error, and no memory ran out. "
     "Where it comes often: --schedule-conservativeness above 1, fewer --max-running-requests, or a larger cache (--mem-fraction-static, a --kv-cache-dtype of "
     "8 bits)"},
    {"alloc_req_slots runs out of memory",
     "the text says that SGLang's table of requests (req_to_token_pool) had no row left for another one, not that the device's or the host's memory ran out: "
     "what it tells as available, and num_reqs, are counts of requests. It has as many rows as --max-running-requests says, or SGLang reckons by itself; its "
     "scheduler let in more, which is a fault of it where that setting makes no difference: another release, or features that hold rows longer (overlap, "
     "pipelines, disaggregation, --enable-mixed-chunk) left out, show whether it is"},
    {"The KV cache will not be stored",
     "the text warns that LMCache has no room left in its memory on the host, and goes on: what it could not store is computed again when it is asked for "
     "again. LMCACHE_MAX_LOCAL_CPU_SIZE (in GB, of each process) gives it more, a disk behind it (LMCACHE_LOCAL_DISK) too"},
    {" prefill tokens. You need to decrease", TGI},
    {"memory budget. Restarting", DASK},
    {"memory budget.  Restarting", DASK},
    /* https://openxla.org/xla/errors/error_1001 */
    {"CompileTimeScopedVmemOom",
     "the text says that a kernel needs more vector memory (VMEM) than a kernel may take (scoped VMEM), which is not the device's HBM: "
     "smaller blocks or fewer buffers need less; Pallas kernels may ask for more (pltpu.CompilerParams(vmem_limit_bytes=...)), XLA's "
     "own with --xla_tpu_scoped_vmem_limit_kib=... in LIBTPU_INIT_ARGS, set before JAX begins"},
    {"devices are busy or unavailable", "the text says that the driver gave this process no GPU, not that memory ran out: it is in exclusive mode and another "
                                        "process has it (nvidia-smi -q -d COMPUTE), MPS's server does not take this client, or the GPU needs a reset"},
    /* kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction */
    {"was low on resource: memory", "the text says that Kubernetes evicted the pod for want of the memory of its node (the host's, not the device's), before "
                                    "its own limit stopped it: pods that "
                                    "hold more than they requested go first. resources.requests.memory as large as what it holds gets it a node that has as "
                                    "much, and keeps it there. " ECH_HOST_FULL},
    {"Killed process", KILLED},
    {"Workers (tasks / actors) killed due to memory pressure", KILLED_BY_RAY},
    {"slurmstepd: error: Exceeded job memory limit", KILLED_BY_SLURM},
    {"), being killed", KILLED_BY_SLURM}, /* slurm's jobacct_gather */
    {"TERM_MEMLIMIT", KILLED_BY_LIMIT},   /* LSF */
    {"PBS: job killed: mem ", KILLED_BY_LIMIT},
    {"PBS: job killed: vmem ", KILLED_BY_LIMIT},
    {"tried to allocate more memory than is available. It has restarted", KILLED}, /* Kaggle */
    {"due to memory pressure for ", KILLED},                                       /* systemd-oomd */
    {"\": badness ", KILLED},
    {"oom_kill event", KILLED_BY_SLURM}, /* slurm's src/plugins/task/cgroup */
    {"oom-kill event", KILLED_BY_SLURM},
    {"OUT_OF_ME+", KILLED_BY_SLURM}, /* sacct's state, cut to its column */
    {"oom-kill", KILLED},
    {"oom_kill", KILLED},
    {"OOM Killed", KILLED},
    {"in pin memory thread",
     "the text says that the driver refused memory to the thread that page-locks batches (pin_memory=True): either the GPU is full, "
     "so that not even that thread's context finds room (nvidia-smi says by whom), or the host's memory, or what of it may be "
     "page-locked, is ('ulimit -l', a container's limit): fewer workers, a smaller prefetch_factor or pin_memory=False need less" TELLS_MORE},
    /* github.com/pytorch/pytorch pull request 99699: asked for only where memory ran out */
    {"NVML_SUCCESS == ", "the text says that PyTorch could not ask the driver who holds the memory, which it only does when memory ran out: that is what "
                         "happened, and its message with the sizes was lost (MIG slices, Jetson, WSL, a driver without a matching libnvidia-ml). "
                         "torch.cuda.memory_summary() where the error is caught tells the sums" TELLS_MORE},
    {"creating shared memory segment /dev/shm/nccl-", NCCL_SHARED},
    {"failed to extend /dev/shm/nccl-", NCCL_SHARED},
    {"insufficient shared memory (shm)", SHARED_FILES},
    {"are out of shared memory", SHARED_FILES},
    /* pytorch's aten/src/ATen/MapAllocator.cpp, of files whose names begin so */
    {"unable to allocate shared memory(shm)", NOT_SHARED},
    {"unable to write to file </torch_", NOT_SHARED},
    {"unable to resize file </torch_", NOT_SHARED},
    {"bytes from file </torch_", NOT_SHARED},
    {"No space left on device: '/dev/shm", NOT_SHARED},
    /* aten/src/ATen/MapAllocator.cpp, of any other file: mapped private and writable; Documentation/mm/overcommit-accounting.rst of Linux */
    {"unable to mmap ",
     "the text says that the kernel refused to map a file into the host's memory, not that the device's ran out: PyTorch and safetensors map weights so that "
     "a page may be written to, in a copy of its own, and the kernel promises no more of those than it finds likely to be there (memory and swap), or than a "
     "limit ('ulimit -v', a job's) allows, though nothing is read yet. 'sysctl vm.overcommit_memory=1' or swap lets it, checkpoints in smaller files map less "
     "at once; and maps of files before, which are still referred to, count"},
    {" result=2 file=csrc/torch_memory_saver",
     "the text says that torch_memory_saver found no room on the GPU (result 2 of CUDA's driver: out of memory) for what it gives back where training and a "
     "server share it: what the other side holds has to go before (its arrays to the host, torch.cuda.empty_cache()), or a smaller share of the server's "
     "(--mem-fraction-static) leaves it room. What both hold together: nvidia-smi, while it takes it" TELLS_MORE},
    {"[Errno 28] No space left on device",
     "the text says that a disk is full, or somebody's share of it ('df -h', quotas), not that memory ran out: 'device' means a file system here. Checkpoints, "
     "caches of models (HF_HOME) and of compilers, /tmp (TMPDIR), and /dev/shm, which is the host's memory, are such"},
    {"received 0 items of ancdata", OPEN_FILES},
    {"unable to open shared memory object </torch_", OPEN_FILES},
    {"_host_malloc: failed to allocate ",
     "the text says that llama.cpp could not page-lock as much of the host's memory; it goes on with ordinary memory, from which copies to "
     "the GPU are slower, so this alone is no error: 'ulimit -l' and a container's limit say how much may be page-locked, "
     "GGML_CUDA_NO_PINNED=1 asks for none"},
    {"Allocation on device", "the text says that memory ran out, but not what was asked for and what held it: of cudaMallocAsync this message has no "
                             "sizes; PyTorch's own allocator tells "
                             "them (PYTORCH_CUDA_ALLOC_CONF=backend:native; ComfyUI: --disable-cuda-malloc)" TELLS_MORE},
    {"donated buffers were not usable", "the text is a warning of JAX: a donated argument gives its memory only to a result of the same shape, type and "
                                        "sharding, and these found none, so argument and "
                                        "result are held at once; 'echelon info' of the compiled program tells what that takes (traces/capture/compile.py, "
                                        "'echelon capture'), and 'echelon advise' "
                                        "what donating would save"},
    {"Theoretical memory footprints: ", "the text is Megatron's estimate of weights, optimizer state and activations, by formulas of a transformer; "
                                        "buckets of gradients, logits, what NCCL and the allocator take come on top: 'echelon capture --pretend DEVICE "
                                        "--world N -- COMMAND' runs one rank on a device that is not there and tells all"},
    /* mlx/backend/metal/allocator.cpp: of buffers by their number */
    {"[metal::malloc] Resource limit (",
     "the text says that MLX's buffers that are alive are as many as Metal allows (the number in it counts them, not bytes), not that memory ran out: arrays "
     "that nothing evaluates or lets go of pile up, one or more a step, and those that it keeps for reuse count too (mx.clear_cache(), a smaller "
     "mx.set_cache_limit()). mx.eval() of what is kept (caches, optimizer state) at each step, fewer references to "
     "old arrays, a shorter sequence or fewer layers at once keep them fewer; smaller arrays do not"},
    {"Insufficient Memory (IOAF code 8)", MAC},
    {"kIOGPUCommandBufferCallbackErrorOutOfMemory", MAC},
    {"[metal::malloc]", MAC},
    /* MTLCommandBufferError of Apple's Metal, by the driver's names */
    {"kIOGPUCommandBufferCallbackError",
     "the text says that macOS ended a command of the GPU, not that memory ran out: ImpactingInteractivity, Timeout and Hang mean that one command ran too "
     "long while the screen waited for the GPU (a smaller batch, prompts in smaller chunks, tiles, a lower resolution make commands shorter), PageFault that "
     "it used an address that is not its own; SubmissionsIgnored and InnocentVictim follow from an error before it, which tells the cause"},
    {"dxgkio_make_resident",
     "the text says that Windows, which manages the GPU's memory for WSL 2, could not keep all that was allocated on the GPU (-12: out of memory): what "
     "Windows and its desktop hold counts, so less may be had than nvidia-smi shows as free. Leave it room: a smaller share of the memory "
     "(--gpu-memory-utilization, torch.cuda.set_per_process_memory_fraction), the desktop on another GPU"},
    /* docs.nvidia.com/deploy/mps: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT */
    {"pinned_mem_limit", MPS_LIMIT},
    {"PINNED_DEVICE_MEM_LIMIT", MPS_LIMIT},
    {"pinned memory limit for device", MPS_LIMIT},
    {"cudaHostRegister failed", NOT_PINNED},
    {"register ptr failed", NOT_PINNED},
    /* drivers/gpu/drm/amd/amdgpu/amdgpu_cs.c */
    {"Not enough memory for command submission",
     "the text says that the kernel's driver of AMD's GPUs (amdgpu) found no room for all that one command uses, in the GPU's own memory (VRAM) and what it "
     "may "
     "have of the host's (GTT); 'amdgpu: ... of VRAM memory ready' and '... of GTT memory ready', logged when it starts, tell how much that is. Others that "
     "use "
     "the GPU, the desktop too, count (rocm-smi, radeontop); of integrated GPUs ttm.pages_limit (pages of 4 KiB) gives it more of the host's"},
    {"UR_RESULT_ERROR_OUT_OF_", ON_INTEL},
    {"PI_ERROR_OUT_OF_", ON_INTEL},
    {"pooled_storage_manager.h", "the text says that MXNet's pool was refused memory by the driver, not what was asked for: nvidia-smi says who holds the "
                                 "GPU; a smaller batch or MXNET_BACKWARD_DO_MIRROR=1 (activations made again) needs less; "
                                 "MXNET_GPU_MEM_POOL_TYPE=Round keeps less unused where shapes change"},
    /* tensorrt_llm/_torch/pyexecutor/py_executor_creator.py */
    {"Executor creation failed due to insufficient GPU memory",
     "the text says that memory ran out while TensorRT-LLM made its executor, part after part (weights, trial run, KV cache, graphs); the lines below that one "
     "name the part, and what was free before and behind each. Smaller max_batch_size, max_num_tokens and max_seq_len, a smaller free_gpu_memory_fraction of "
     "kv_cache_config (where later parts failed) and more GPUs need less; nvidia-smi says what others hold" TELLS_MORE},
    /* lmdeploy's src/turbomind */
    {"[TM][ERROR] CUDA runtime error: out of memory",
     "the text says that the device's memory ran out for LMDeploy's TurboMind, not what was asked for: once the weights are there its KV cache takes "
     "cache_max_entry_count of the memory (--cache-max-entry-count; of what is free, in old releases of all), and what else a request needs (its prompt at "
     "once, pictures, the vision model beside it) comes on top of that. A smaller share, 0.2 say, a shorter --session-len, fewer --max-prefill-token-num and "
     "--max-batch-size, more GPUs (--tp) leave it room; where even the weights do not fit, others hold the GPU (nvidia-smi) or they want fewer "
     "bits" TELLS_MORE},
    {"CUDA runtime error in ::cudaMalloc", "the text says that memory ran out for TensorRT-LLM, not what was asked for: its log from the start tells what the "
                                           "engine takes (lines with MiB, which echelon reads). Engines built for smaller max_batch_size and max_num_tokens, "
                                           "a smaller free_gpu_memory_fraction of kv_cache_config and more GPUs need less of each"},
    {"paging file is too small",
     "the text says that Windows had nothing left that it may back with memory (the machine's RAM and its paging file together), which is the host's "
     "memory, not the GPU's: libraries of CUDA take some gigabytes of it in every process that loads them, whether they use them or not. A larger paging "
     "file (System, Advanced, Performance, Virtual memory), fewer workers of data loaders, fewer programs beside it"},
    {"csrc/cumem_allocator.cpp",
     "the text says that vLLM found no room on the GPU for what it gives back in sleep mode, as it does where it shares the GPU with training: what the "
     "trainer holds has to go before it wakes up (its arrays to the host, torch.cuda.empty_cache()), or a smaller --gpu-memory-utilization leaves it "
     "room. What both hold together: nvidia-smi, while it wakes up" TELLS_MORE},
    /* github.com/triton-inference-server/tensorrtllm_backend */
    {"maxTokensInPagedKvCache must be large enough",
     "the text says that TensorRT-LLM's KV cache holds fewer tokens than one request may have (how many, its log tells: 'Using ... tokens in paged KV "
     "cache'): it gets kv_cache_free_gpu_mem_fraction of what is free once the engine is loaded, or max_tokens_in_paged_kv_cache; a larger share, an "
     "engine for shorter requests (max_input_len, max_seq_len) or fewer beams, and GPUs that others do not hold give it enough"},
    /* github.com/huggingface/transformers pull requests 47203 and 47211 */
    {"modules are dispatched on the CPU or the disk",
     "the text says that transformers, told to divide a model over devices by itself (device_map=\"auto\"), found no room on GPUs for all of it, and "
     "weights of 4 or 8 bits may not lie elsewhere. That is reckoned before anything is loaded, from what is free then (nvidia-smi says who holds the "
     "rest) or max_memory, with embeddings and the last layer in 16 bits; over several GPUs, releases before July 2026 left some empty where layers "
     "differ in size. device_map={\"\": 0} puts all of it on one GPU, and PyTorch's message then tells how much does not fit" TELLS_MORE},
    /* accelerate's dispatch_model, transformers' from_pretrained */
    {"had weights offloaded to the disk", "the text says that accelerate found room on GPUs and in the host's memory for a part of the model only, and was to "
                                          "put the rest on disk: both are too small for it, or max_memory says so. offload_folder=\"DIR\" lets it (each step "
                                          "then reads the disk), weights of fewer bits or more GPUs avoid it" TELLS_MORE},
    /* tensorflow/core/common_runtime/gpu/gpu_util.cc, where the destination of a copy could not be allocated */
    {"Dst tensor is not initialized", "the text says that TensorFlow had no memory on the GPU for an array that was to be copied there, by the name of what "
                                      "followed from it: a whole data set as one tensor (tf.data from batches or a generator, on the CPU, instead), too large "
                                      "a batch, or other programs and notebooks that hold the GPU (nvidia-smi)"},
    /* aten/src/ATen/native/cudnn/Conv_v7.cpp and Conv_v8.cpp of pytorch: each way was tried, and none ran */
    {"Unable to find a valid cuDNN algorithm", NO_ALGORITHM},
    {"unable to find an engine to execute this computation", NO_ALGORITHM},
    /* aten/src/ATen/mps/MPSAllocator.mm: one buffer that is larger than Metal gives */
    {"RuntimeError: Invalid buffer size: ", ONE_BUFFER},
    {"total bytes of NDArray > 2**32", ONE_BUFFER},
    /* xla/backends/gpu/runtime/command_buffer_thunk.cc */
    {"ran out of memory trying to instantiate command buffer",
     "the text says that the driver had no memory left for CUDA graphs, which it takes beside the share that JAX takes of the GPU at its start "
     "(XLA_PYTHON_CLIENT_MEM_FRACTION, .75 unless set): a smaller share leaves it some, XLA_FLAGS=--xla_gpu_enable_command_buffer= (nothing behind it) makes "
     "none, and fewer compiled programs alive (shapes that do not change) hold fewer"},
    {"aximum pool size exceeded", "the text says that memory ran out, but not what was asked for: " ECH_RMM_POOL},
    {"increase --mem-fraction-static", "the text says that SGLang's share of the memory (--mem-fraction-static) leaves nothing for its KV cache beside the "
                                       "weights: a larger share, more GPUs (--tp) or smaller weights; where a larger share makes requests run out of "
                                       "memory, --chunked-prefill-size and --cuda-graph-max-bs-decode (older: --cuda-graph-max-bs) make those smaller"},
    {"leave no GPU memory for the KV cache", "the text says that SGLang's weights leave nothing for its KV cache under its share of the memory: a larger "
                                             "--mem-fraction-static than the least that it names (draft weights, another server and whatever else holds the "
                                             "GPU's memory count against it: nvidia-smi names them), more GPUs (--tp) or smaller weights"},
    {"[Array([", "the text is what arrays of JAX hold; 'for a in jax.live_arrays(): print(a.shape, a.dtype)' prints what they take, which echelon reads, and "
                 "jax.profiler.save_device_memory_profile(\"memory.prof\") who made them"},
    {"eserved memory", "the text names figures of memory in a form that is not read; print(torch.cuda.memory_summary()) is"},
    {"'segment_type':", "the text is what Python prints of PyTorch's segments; echelon reads the snapshot that PyTorch writes: " SNAPSHOT},
    {"Largest Free Block:", SUMS_OF_JAX},
    {"Total memory size: ", SUMS_OF_JAX},
    {"estimated memory size: ", SUMS_OF_JAX},
    {"VRAM%", "the text is rocm-smi's, which tells shares without sizes here; 'rocm-smi --showmeminfo vram' tells sizes, 'rocm-smi --showpids' who holds them"},
};

static const char *known_text(const char *text, size_t n)
{
    for (size_t i = 0; i < G_N_ELEMENTS(known_texts); i++) {
        if (memmem(text, n, known_texts[i].mark, strlen(known_texts[i].mark)))
            return known_texts[i].advice;
    }
    static const char unscheduled[] = "nodes are available: ", lacks[] = " Insufficient ";
    const char *at = memmem(text, n, unscheduled, strlen(unscheduled));
    if (at && memmem(at, n - (size_t)(at - text), lacks, strlen(lacks)))
        return NOT_SCHEDULED;
    return NULL;
}

static const char *tail(const char *text, size_t *n)
{
    size_t skipped = *n > MOST ? *n - MOST : 0;
    *n -= skipped;
    return text + skipped;
}

static bool has(const char *text, size_t n, const char *key)
{
    return n && memmem(text, n, key, strlen(key)) != NULL;
}

/* ---- how processes ended ---- */

/* The first status that @text tells of, behind "exit code", "exitcode  :", "ExitCode\":", "return code =", "exited with status"; 0: none. */
static int exit_status(const char *text, size_t n)
{
    static const char *const keys[] = {"code", "Code", "status", "] Error"}; /* the last is make's */
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        size_t length = strlen(keys[i]);
        for (const char *at = n ? memmem(text, n, keys[i], length) : NULL; at; at = memmem(at + 1, n - (size_t)(at + 1 - text), keys[i], length)) {
            const char *value = at + length, *end = text + n;
            while (value < end && value < at + length + 10 && strchr(" \t\":=(", *value) && *value)
                value++;
            g_autofree char *number = g_strndup(value, MIN((size_t)(end - value), (size_t)6));
            char *rest;
            gint64 status = g_ascii_strtoll(number, &rest, 10);
            bool whole = rest != number && !g_ascii_isalnum(*rest) && !(*rest == '.' && g_ascii_isdigit(rest[1]));
            if (whole && (status == 137 || status == -9 || status == 135 || status == -7 || status == 139 || status == -11))
                return (int)(status < 0 ? 128 - status : status);
        }
    }
    return 0;
}

/* A shell's "Killed", alone on its line, behind a progress bar, which ends none ("[00:20<00:31, 10.5s/it]Killed"), or "line 28:  8156 Killed      python". */
static bool is_killed_by_shell(const char *text, size_t n)
{
    const char *end = text + n;
    for (const char *at = n ? memmem(text, n, "Killed", 6) : NULL; at; at = memmem(at + 6, (size_t)(end - at) - 6, "Killed", 6)) {
        const char *behind = at + 6;
        bool ends = behind == end || *behind == '\n' || *behind == '\r' || (end - behind > 1 && behind[0] == ' ' && behind[1] == ' ');
        bool begins = at == text || strchr("\n\r])|%", at[-1]) || (at - text > 1 && at[-1] == ' ' && g_ascii_isdigit(at[-2]));
        if (begins && ends)
            return true;
    }
    return false;
}

static char *describe_end(const char *text, size_t n)
{
    int status = exit_status(text, n);
    bool within = has(text, n, "OOMKilled\": false") || has(text, n, "OOMKilled\":false"), limited = has(text, n, "OOMKilled") && !within;
    if (status == 137 || is_killed_by_shell(text, n) || has(text, n, "SIGKILL") || has(text, n, "signal 9") || has(text, n, "Signal 9") ||
        has(text, n, "signal: Killed") || has(text, n, "using all available RAM") || limited)
        return g_strconcat(KILLED, within ? ". The container's own limit it was not ('OOMKilled' is false): the machine had no more, or somebody ended it" : "",
                           NULL);
    if (status == 135 || has(text, n, "Bus error") || has(text, n, "SIGBUS"))
        return g_strdup(SHARED_FILES);
    return NULL;
}

/* ---- libraries ---- */

/* The word around @at: "CUDNN_STATUS_ALLOC_FAILED". Owned by the caller. */
static char *word_at(const char *text, size_t n, const char *at)
{
    const char *begin = at, *end = at;
    while (begin > text && (g_ascii_isupper(begin[-1]) || begin[-1] == '_') && at - begin < 40)
        begin--;
    while (end < text + n && (g_ascii_isupper(*end) || *end == '_') && end - at < 40)
        end++;
    return g_strndup(begin, (gsize)(end - begin));
}

/* Statuses of the libraries beside a framework: what they take, they take from the driver. */
static char *describe_library(const char *text, size_t n)
{
    static const struct {
        const char *mark;
        bool sure;
    } marks[] = {{"_ALLOC_FAILED", true},
                 {"_STATUS_NOT_INITIALIZED", false},
                 {"CUDNN_STATUS_INTERNAL_ERROR", false},
                 {"CUSOLVER_STATUS_INTERNAL_ERROR", false},
                 {"CUFFT_INTERNAL_ERROR", false},
                 {"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", false}};
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        const char *at = n ? memmem(text, n, marks[i].mark, strlen(marks[i].mark)) : NULL;
        if (!at)
            continue;
        g_autofree char *status = word_at(text, n, at), *library = g_strndup(status, strcspn(status, "_"));
        return marks[i].sure
                   ? g_strdup_printf("the text says that memory ran out for %s (%s), which takes its own from the driver beside the framework's pool: what "
                                     "that keeps unused is not there for it. The device was full, by this process or others (nvidia-smi); what was asked "
                                     "for and what held it the text does not say" TELLS_MORE,
                                     library, status)
                   : g_strdup_printf("the text says that %s could not begin or go on (%s), mostly for want of memory: it takes its own from the driver "
                                     "beside the framework's pool, and what that keeps unused is not there for it. nvidia-smi says whether the device was "
                                     "full; a smaller batch, or a framework that is told to leave some (torch.cuda.set_per_process_memory_fraction, "
                                     "TensorFlow's allow_growth, XLA_PYTHON_CLIENT_MEM_FRACTION), shows whether that was it. Otherwise its version does "
                                     "not fit the driver or the GPU",
                                     library, status);
    }
    return NULL;
}

/* ---- NCCL and RCCL ---- */

/* nccl's src/include/alloc.h and checks.h: "Failed to CUDA calloc async 608 bytes", "Failed to CUDA host alloc 4923392 bytes", which is page-locked memory of
 * the host, "Cuda failure 2 'out of memory'", "HIP failure 'out of memory'" of RCCL's. */
static char *describe_nccl(const char *text, size_t n)
{
    static const char *const failures[] = {"Cuda failure 'out of memory'", "Cuda failure 2 'out of memory'", "HIP failure 'out of memory'",
                                           "HIP failure 2 'out of memory'"};
    EchWords rest = {text, n}, refused = ech_words_after(rest, "Failed to CUDA ");
    bool any = refused.n != 0;
    for (size_t i = 0; i < G_N_ELEMENTS(failures) && !any; i++)
        any = has(text, n, failures[i]);
    EchRounded size = {0};
    refused.n = MIN(refused.n, (size_t)80);
    const char *end = refused.n ? memchr(refused.text, '\n', refused.n) : NULL;
    refused.n = end ? (size_t)(end - refused.text) : refused.n;
    bool host = ech_words_start(refused, "host "), sized = ech_words_size_after(refused, "alloc ", &size) || ech_words_size_after(refused, "async ", &size);
    g_autofree char *bytes = ech_format_bytes(size.bytes), *asked = sized ? g_strdup(bytes) : g_strdup("memory");
    if (any && host)
        return g_strdup_printf("the text says that NCCL was refused %s of page-locked memory of the host%s, not of the device's: ranks talk to one another "
                               "through it, for each group and peer. 'ulimit -l' and a container's limit bound it, and the host itself may be full ('free "
                               "-h'). Fewer groups, and less of each (NCCL_MAX_NCHANNELS, NCCL_BUFFSIZE), need less",
                               asked, sized ? "" : ", how much it does not say,");
    if (any)
        return g_strdup_printf("the text says that NCCL was refused %s%s, which it takes from the driver beside PyTorch's pool: what the pool keeps unused is "
                               "not there for it. Leave it room (torch.cuda.set_per_process_memory_fraction, expandable_segments:True, a smaller batch), give "
                               "it less (NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS), or let it take its buffers before the rest does: each group's are made at its "
                               "first collective, or where init_process_group(device_id=...) is told the device" TELLS_MORE,
                               asked, sized ? " on the device" : "");
    if (has(text, n, "ncclUnhandledCudaError") || (has(text, n, "NCCL") && has(text, n, "unhandled cuda error")))
        return g_strdup("the text says that a call of CUDA's failed within NCCL, not which and why: NCCL_DEBUG=WARN prints it (\"Cuda failure 'out of "
                        "memory'\", where memory ran out: NCCL takes its own beside PyTorch's pool)");
    return NULL;
}

/* ---- contexts ---- */

/* Where the driver could not even begin: "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY" of XLA, "Call to cuDevicePrimaryCtxRetain results
 * in ..." of Numba, "cuCtxCreate failed: out of memory". */
static char *describe_context(const char *text, size_t n)
{
    static const char *const calls[] = {"cuDevicePrimaryCtxRetain", "cuCtxCreate"};
    EchWords rest = {text, n}, line;
    while (rest.n) {
        const char *end = memchr(rest.text, '\n', rest.n);
        line = (EchWords){rest.text, end ? (size_t)(end - rest.text) : rest.n};
        for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
            if (ech_words_have(line, calls[i]) && (ech_words_have(line, "OUT_OF_MEMORY") || ech_words_have(line, "out of memory")))
                return g_strdup(
                    "the text says that a process found no room on the GPU for its context (some 300 to 600 MiB), which comes before all else: the GPU was "
                    "full before the program asked for anything, and less at a time changes nothing. nvidia-smi names who holds it: mostly another process "
                    "that took a share at once (JAX three quarters, TensorFlow nearly all; XLA_PYTHON_CLIENT_PREALLOCATE=false, allow_growth), or an earlier "
                    "one that has not ended. Where it holds nothing, the job was given none of that GPU: CUDA_VISIBLE_DEVICES names the one it was given");
        }
        rest = end ? (EchWords){end + 1, rest.n - line.n - 1} : (EchWords){rest.text, 0};
    }
    return NULL;
}

/* ---- graphs ---- */

/* torch/cuda/graphs.py: where a captured graph is made ready, its driver's own memory is taken beside PyTorch's pool. */
static char *describe_graph(const char *text, size_t n)
{
    return has(text, n, "capture_end(") && has(text, n, "CUDA error: out of memory")
               ? g_strdup(
                     "the text says that the driver had no memory left for a CUDA graph that had been captured, which it takes beside PyTorch's pool: what "
                     "the pool keeps unused is not there for it. Of a server weights and KV cache are taken first, and graphs get what its share leaves: a "
                     "smaller share (vLLM: --gpu-memory-utilization, SGLang: --mem-fraction-static), fewer or smaller graphs (--max-num-seqs, "
                     "--cuda-graph-max-bs-decode) or none (--enforce-eager, --disable-cuda-graph; slower) leave it room" TELLS_MORE)
               : NULL;
}

/* ---- new processes ---- */

/* Documentation/mm/overcommit-accounting.rst of Linux */
static char *describe_fork(const char *text, size_t n)
{
    return has(text, n, "Errno 12] Cannot allocate memory") && (has(text, n, "os.fork()") || has(text, n, "fork_exec("))
               ? g_strdup(
                     "the text says that the kernel refused to make a process (fork), for want of the host's memory, not the device's: to a child it promises "
                     "as much as its parent has written, though the child writes little of it. Processes that are made early, before data is loaded, or "
                     "with spawn or forkserver (multiprocessing_context of a data loader) are promised little; swap or 'sysctl vm.overcommit_memory=1' "
                     "lets it, and so do fewer workers, or data that is mapped from files instead of kept. 'free -h', a container's or a job's limit and "
                     "'ulimit -v' tell what there is")
               : NULL;
}

/* ---- page-locked memory ---- */

static char *describe_pinning(const char *text, size_t n)
{
    static const char *const marks[] = {"hostAlloc", "HostAlloc", "cudaMallocHost", "hipHostMalloc", "PinnedMemory", "cudaHostRegister"};
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (has(text, n, marks[i]) && has(text, n, "rror"))
            return g_strdup(NOT_PINNED);
    }
    /* A piece that the driver does not lock, however much there is. */
    if (has(text, n, "pin_memory(") && has(text, n, "CUDA error: invalid argument"))
        return g_strdup_printf("the text says that the driver did not page-lock a piece of the host's memory (pin_memory, 'invalid argument'): %s",
                               ech_place_advice(ECH_PLACE_PINNED));
    return NULL;
}

/* ---- workers ---- */

/* A loader's sentence says nothing that the worker's own message does not say better. */
static char *describe_workers(const char *text, size_t n)
{
    return has(text, n, "DataLoader worker (pid(s) ")
               ? g_strdup(
                     "the text says that workers of a data loader ended, not why: their own message comes before it, and where none does they were mostly "
                     "killed for want of the host's memory (dmesg tells, or a container's and a job's log; exit code 137) or for a full /dev/shm. Each holds "
                     "prefetch_factor batches and its own copy of what the data set keeps: fewer workers need less, and num_workers=0 shows the error itself")
               : NULL;
}

/* ---- faults ---- */

/* docs.nvidia.com/deploy/xid-errors: what the driver logs. A fault of the hardware comes before what programs do wrong, which it may have caused. */
static const struct {
    int number;
    enum { XID_NONE, XID_FOLLOWS, XID_PROGRAM, XID_HARDWARE } cause;
    const char *what;
} xids[] = {{13, XID_PROGRAM, "a kernel did what it may not (an index out of range, an illegal instruction): the program's fault, or that of a library in it"},
            {31, XID_PROGRAM, "a kernel or a copy used an address that is not mapped: the program's fault, or that of a library in it, rarely the hardware's"},
            {43, XID_FOLLOWS, "the driver ended a program whose kernel had failed: the message before it, or the program's own, tells of what"},
            {45, XID_FOLLOWS, "the driver cleaned up behind a program that had ended or failed: what came before it is the cause"},
            {48, XID_HARDWARE, "an error in the GPU's memory that could not be corrected: the hardware's"},
            {62, XID_HARDWARE, "the GPU's own controller halted: the hardware's, or the driver's"},
            {63, XID_HARDWARE, "a faulty row of the GPU's memory is to be replaced: the hardware's; resetting the GPU does it"},
            {64, XID_HARDWARE, "a faulty row of the GPU's memory could not be replaced: the hardware's"},
            {74, XID_HARDWARE, "an error of NVLink: the hardware's"},
            {79, XID_HARDWARE, "the GPU has fallen off the bus: power, heat, the slot or the card"},
            {92, XID_HARDWARE, "many errors in the GPU's memory that could be corrected: the hardware's"},
            {94, XID_HARDWARE, "an error in the GPU's memory that was contained in one program: the hardware's; starting it again may do"},
            {95, XID_HARDWARE, "an error in the GPU's memory that was not contained: the hardware's; the GPU has to be reset"},
            {109, XID_PROGRAM, "a program's context could not be switched out in time: a kernel that does not end, or the driver"},
            {119, XID_HARDWARE, "the GPU's system processor did not answer: the driver's or the hardware's"},
            {120, XID_HARDWARE, "the GPU's system processor failed: the driver's or the hardware's"},
            {149, XID_HARDWARE, "an error of NVLink: the hardware's"}};

static int cause_of(int xid)
{
    for (size_t i = 0; i < G_N_ELEMENTS(xids); i++)
        if (xids[i].number == xid)
            return (int)xids[i].cause;
    return xid ? XID_PROGRAM : XID_NONE;
}

/* "NVRM: Xid (PCI:0000:3d:00): 43, pid=35521": the first of those that may be the cause, not one that follows from another. */
static char *describe_xid(const char *text, size_t n)
{
    int best = 0;
    for (const char *at = n ? memmem(text, n, "NVRM: Xid (", 11) : NULL; at; at = memmem(at + 1, n - (size_t)(at + 1 - text), "NVRM: Xid (", 11)) {
        const char *close = memchr(at, ')', MIN(n - (size_t)(at - text), (size_t)40));
        g_autofree char *number = close ? g_strndup(close + 1, MIN((size_t)(text + n - close - 1), (size_t)8)) : g_strdup("");
        int xid = (int)g_ascii_strtoll(number + strspn(number, ": "), NULL, 10);
        if (cause_of(xid) > cause_of(best))
            best = xid;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(xids) && best; i++) {
        if (xids[i].number == best)
            return g_strdup_printf("the text is the driver's log of a fault, Xid %d, not of memory that ran out: %s", best, xids[i].what);
    }
    return best ? g_strdup_printf("the text is the driver's log of a fault, Xid %d, not of memory that ran out; docs.nvidia.com/deploy/xid-errors lists them",
                                  best)
                : NULL;
}

#define FAULT                                                                                                                                                  \
    "the text tells of a fault, not of memory that ran out: code on the device used an address that is not its own, or a check in it failed (an index out of " \
    "range, an array that was freed or is smaller than thought). Less memory in use does not mend it, unless a library did not look whether it got its "       \
    "memory. CUDA_LAUNCH_BLOCKING=1 (AMD_SERIALIZE_KERNEL=3) shows the call, compute-sanitizer the kernel"

/* Of Intel's driver and Vulkan's. */
static bool is_lost(const char *text, size_t n)
{
    return has(text, n, "ERROR_DEVICE_LOST") || has(text, n, "ErrorDeviceLost") || has(text, n, "DeviceLostError");
}

static char *describe_fault(const char *text, size_t n)
{
    static const char *const marks[] = {"illegal memory access",
                                        "CUDA_ERROR_ILLEGAL_ADDRESS",
                                        "cudaErrorIllegalAddress",
                                        "hipErrorIllegalAddress",
                                        "misaligned address",
                                        "device-side assert",
                                        "unspecified launch failure",
                                        "CUDA_ERROR_LAUNCH_FAILED",
                                        "Memory access fault by GPU",
                                        "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
                                        "MMU Fault",
                                        "invalid device pointer"};
    char *xid = describe_xid(text, n);
    if (xid)
        return xid;
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        if (has(text, n, marks[i]))
            return g_strdup(FAULT);
    }
    if (is_lost(text, n))
        return g_strdup(
            "the text says that the driver lost the GPU and reset it: a command that ran too long or used an address that is not its own, or a driver "
            "that failed where memory was short (of integrated GPUs the host's); it says of no memory that was refused. The kernel's log (dmesg) or the "
            "system's tells of the reset; a newer driver, and less at a time, show whether it was that");
    if (exit_status(text, n) == 139 || has(text, n, "Segmentation fault") || has(text, n, "SIGSEGV"))
        return g_strdup("the text says that a process died of a fault of its own (signal 11), which is no sign of memory that ran out");
    return NULL;
}

/* ---- TensorRT's builder ---- */

/* "Tactic Device request: 538MB Available: 166MB. Device memory is insufficient to use tactic.", "Skipping tactic 3 due to insufficient memory on requested
 * size of 538 detected for tactic 4.": it goes on. */
static char *describe_tactics(const char *text, size_t n)
{
    if (!has(text, n, "insufficient to use tactic") && !has(text, n, "kipping tactic"))
        return NULL;
    EchPlainSays refusal;
    if (ech_plain_says_find(text, n, &refusal) && !refusal.goes_on)
        return NULL;
    g_autoptr(EchPasted) pasted = ech_pasted_new(text, n);
    EchRounded asked, available, most = {0}, beside = {0};
    EchWords line;
    while (ech_pasted_next(pasted, &line)) {
        if (ech_words_size_after(line, "Tactic Device request:", &asked) && ech_words_size_after(line, "Available:", &available) && asked.bytes > most.bytes) {
            most = asked;
            beside = available;
        }
    }
    g_autofree char *one = ech_format_bytes(most.bytes), *other = ech_format_bytes(beside.bytes),
                    *largest =
                        most.bytes ? g_strdup_printf(" (the largest needed %s of the device's memory, where %s were available)", one, other) : g_strdup("");
    return g_strdup_printf("the text says that TensorRT's builder left out ways to compute a layer (tactics) for want of memory%s and goes on with others: a "
                           "warning, no error by itself; the engine may be slower. More of them are tried where more is free (other processes ended; on a "
                           "Jetson the host's programs share the memory) and --memPoolSize=workspace:SIZE (set_memory_pool_limit, before 8.4 "
                           "max_workspace_size) allows it",
                           largest);
}

/* ---- tables without a header ---- */

/* "0, NVIDIA L40S, 30000 MiB, 46068 MiB", of 'nvidia-smi --query-gpu=... --format=csv,noheader': the columns have no names. */
static char *describe_headless(const char *text, size_t n)
{
    enum { MOST_ROWS = 1024 };
    g_autoptr(EchPasted) pasted = ech_pasted_new(text, n);
    EchWords line;
    int rows = 0;
    while (ech_pasted_next(pasted, &line) && rows < MOST_ROWS) {
        const char *unit = line.n > 4 ? memmem(line.text, line.n, " MiB", 4) : NULL;
        if (line.n == 0)
            continue;
        /* The cell is that size alone: "VmRSS 59012 MiB" is a sentence's. */
        const char *cell = unit;
        while (cell && cell > line.text && g_ascii_isdigit(cell[-1]))
            cell--;
        while (cell && cell < unit && cell > line.text && cell[-1] == ' ')
            cell--;
        bool alone = cell && (cell == line.text || cell[-1] == ',');
        if (!alone || unit == line.text || !g_ascii_isdigit(unit[-1]) || !memchr(line.text, ',', line.n))
            return NULL;
        rows++;
    }
    return rows ? g_strdup("the text looks like a table of nvidia-smi's without its header, in which nothing says what a column is (used, free, in all); with "
                           "--format=csv in place of csv,noheader it is read, and so is what nvidia-smi prints by itself")
                : NULL;
}

/* ---- all of them ---- */

/* Whether an identifier of @library stands in the text: "CL_MEM_READ_ONLY", not "NCCL_DEBUG". */
static bool has_identifier(const char *text, size_t n, const char *library)
{
    const char *end = text + n;
    size_t length = strlen(library);
    for (const char *at = n ? memmem(text, n, library, length) : NULL; at; at = memmem(at + 1, (size_t)(end - at) - 1, library, length)) {
        if (at == text || (!g_ascii_isalnum(at[-1]) && at[-1] != '_'))
            return true;
    }
    return false;
}

/* Whether Apple's Metal or MLX stands in the text as a word or a part of a name: not bare metal, nor Mellanox's mlx5_0. */
static bool is_of_mac(const char *text, size_t n)
{
    static const char *const words[] = {"metal", "Metal", "METAL", "mlx"};
    const char *end = text + n;
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        size_t length = strlen(words[i]);
        for (const char *at = n ? memmem(text, n, words[i], length) : NULL; at; at = memmem(at + 1, (size_t)(end - at) - 1, words[i], length)) {
            const char *behind = at + length;
            bool begins = at == text || !g_ascii_isalnum(at[-1]), ends = behind == end || (!g_ascii_islower(*behind) && !g_ascii_isdigit(*behind)),
                 bare = at - text > 4 && memcmp(at - 4, "are", 3) == 0;
            if (begins && ends && !bare)
                return true;
        }
    }
    return false;
}

/* Of a refusal of which the text gives no size. */
static char *describe_refusal(const char *text, size_t n)
{
    EchPlainSays s;
    if (!ech_plain_says_find(text, n, &s))
        return NULL;
    if (s.has_asked && s.asked.bytes >= UINT64_C(1) << 55)
        return g_strdup_printf("the text says that one buffer was asked for that no machine could hold (line %" G_GUINT64_FORMAT
                               ": '%s'): the size came out wrong (a "
                               "negative or uninitialised dimension, a damaged cache or file), memory did not run out",
                               s.number, s.line);
    if (s.goes_on)
        return g_strdup_printf("the text warns that %s was refused, and the program goes on without (line %" G_GUINT64_FORMAT ": '%s'): no error by itself%s%s",
                               ech_place_name(s.place), s.number, s.line, s.place == ECH_PLACE_LOCKED ? "; " : "",
                               s.place == ECH_PLACE_LOCKED ? ech_place_advice(s.place) : "");
    /* What can be captured, and what cannot. */
    bool on_device = s.place == ECH_PLACE_DEVICE || s.place == ECH_PLACE_UNTOLD, of_opencl = on_device && has_identifier(text, n, "CL_");
    if (on_device && is_of_mac(text, n))
        return g_strdup(MAC);
    bool captured = on_device && !of_opencl && !has_identifier(text, n, "VK_");
    return g_strdup_printf("the text says that %s ran out (line %" G_GUINT64_FORMAT ": '%s'), but not what was asked for and what held it: %s%s%s",
                           ech_place_name(s.place), s.number, s.line, ech_place_advice(s.place),
                           of_opencl ? ". Of OpenCL one buffer may be no larger than CL_DEVICE_MAX_MEM_ALLOC_SIZE (clinfo tells it), often a quarter of the "
                                       "memory"
                                     : "",
                           captured ? TELLS_MORE : "");
}

/* Whether @line names an amount of memory. */
static bool names_amount(EchWords line)
{
    static const char *const words[] = {"emory", "VRAM", "alloc", "reserved", "RAM"};
    bool of_memory = false;
    for (size_t i = 0; i < G_N_ELEMENTS(words) && !of_memory; i++)
        of_memory = ech_words_have(line, words[i]);
    EchRounded size;
    size_t used;
    for (size_t at = 0; of_memory && at < MIN(line.n, (size_t)400); at++) {
        bool begins = g_ascii_isdigit(line.text[at]) && (at == 0 || (!g_ascii_isalnum(line.text[at - 1]) && line.text[at - 1] != '.'));
        if (begins && ech_rounded_parse(line.text + at, line.n - at, &size, &used) && size.bytes >= 1 << 20)
            return true;
    }
    return false;
}

char *ech_memory_text_amounts(const char *text, size_t n)
{
    text = tail(text, &n);
    g_autoptr(EchPasted) pasted = ech_pasted_new(text, n);
    EchWords line;
    while (ech_pasted_next(pasted, &line)) {
        if (!names_amount(line))
            continue;
        g_autofree char *quoted = ech_quote(line.text, (gssize)MIN(line.n, (size_t)MAX_QUOTED), MAX_QUOTED);
        return g_strdup_printf(
            "the text names amounts of memory, in words that no reader here knows ('%s'), and nothing in it says that memory ran out. What is read: "
            "messages of refused memory, torch.cuda.memory_summary(), device.memory_stats() of JAX, compiled.memory_analysis(), nvidia-smi "
            "(rocm-smi, amd-smi), free, and what vLLM, SGLang, TensorRT, llama.cpp, ollama, DeepSpeed and others log of memory",
            quoted);
    }
    return NULL;
}

bool ech_memory_text_is_program(const char *text, size_t n)
{
    if (has(text, n, "Traceback (") || has(text, n, "```")) /* beside what happened */
        return false;
    EchWords rest = {text, n}, line;
    while (rest.n) {
        const char *end = memchr(rest.text, '\n', rest.n);
        line = (EchWords){rest.text, end ? (size_t)(end - rest.text) : rest.n};
        if (ech_words_start(line, "import ") || (ech_words_start(line, "from ") && ech_words_have(line, " import ")))
            return true;
        rest = end ? (EchWords){end + 1, rest.n - line.n - 1} : (EchWords){rest.text, 0};
    }
    return false;
}

bool ech_memory_text_is_known(const char *text, size_t n)
{
    text = tail(text, &n);
    g_autofree char *nccl = describe_nccl(text, n);
    return nccl || known_text(text, n);
}

char *ech_memory_text_describe(const char *text, size_t n)
{
    text = tail(text, &n);
    const char *advice = known_text(text, n);
    if (advice)
        return g_strdup(advice);
    char *(*const kinds[])(const char *, size_t) = {describe_nccl, describe_end,     describe_library, describe_tactics, describe_context, describe_graph,
                                                    describe_fork, describe_refusal, describe_pinning, describe_fault,   describe_workers, describe_headless};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        char *told = kinds[i](text, n);
        if (told)
            return told;
    }
    return NULL;
}
