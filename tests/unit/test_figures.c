/* What programs and tools print of memory in use: every wording's figures, and what it comes to. */
#include "sim/import/import.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Bytes of all buffers that are called @name. */
static EchBytes held(const EchTrace *trace, const char *name)
{
    EchBytes sum = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *b = &ech_trace_buffers(trace)[i];
        sum += strcmp(ech_trace_string(trace, b->name), name) == 0 ? b->bytes : 0;
    }
    return sum;
}

/* A file of the corpus, what is said of it, and who holds how much. */
static const struct {
    const char *file, *says, *holder;
    EchBytes held;
} files[] = {
    /* torch.cuda.memory_summary() and memory_stats() of one program, on a GPU that was not there: both tell the same. */
    {"summary.txt", "PyTorch holds 930 MiB of the device, 544 MiB of that are tensors, 386 MiB lie unused", "PyTorch's tensors, at the fullest", 800 * MIB},
    {"summary.txt", "256 MiB are whole segments: torch.cuda.empty_cache() gives them back", "held by PyTorch besides", 130 * MIB},
    {"stats.txt", "256 MiB are whole segments: torch.cuda.empty_cache() gives them back", "held by PyTorch besides", 975175680 - 839058432},
    {"stats.txt", "130 MiB that no tensors needed at once", "PyTorch's tensors, at the fullest", 839058432},
    {"deepspeed.txt", "PyTorch holds 20.2 GiB of the device, 512 MiB of that are tensors, 19.8 GiB lie unused (before step)",
     "PyTorch's tensors, at the fullest", 20 * GIB},
    {"deepspeed.txt", "that peak was at 'initialize [begin]'; afterwards tensors took at most 512 MiB", NULL, 0},
    /* Its peaks are each of the time since the reading before: what was held at the first is of an earlier one. */
    {"deepspeed_excerpt.txt", "PyTorch held 24 GiB at the first of these readings already", "held by PyTorch besides", 45 * GIB / 2},
    {"deepspeed_excerpt.txt", "no fragmentation shows", "PyTorch's tensors, at the fullest", 2 * GIB},
    {"deepspeed_grows.txt", "PyTorch held up to 20 GiB: 8 GiB that no tensors needed at once", NULL, 0},
    {"counters.txt", "at the fullest tensors took 30 GiB of the 32.5 GiB", "held by PyTorch besides", 34896609280 - 30 * GIB},
    {"smi_idle.txt", "GPU 0 (NVIDIA L4): 0 B of 22.5 GiB in use", "in use", 0},
    {"ollama_gpus.txt", "GPU 0 (NVIDIA L4): 16 GiB of 22 GiB in use", "in use", 16 * GIB},
    {"ollama_gpus.txt", "GPU 1 (AMD Radeon RX 7900): 16 GiB of 24 GiB in use", NULL, 0},
    {"ollama_2024.txt", "GPU 0: 4 GiB of 16 GiB in use", "in use", 4 * GIB},
    {"llama_devices.txt", "GPU 0 (AMD Radeon RX 7600 (RADV NAVI33)): 2 GiB of 8 GiB in use", "in use", 2 * GIB},
    {"llama_devices.txt", "most room: GPU 1, 20.0 GiB free; --device Vulkan1 runs there", NULL, 0},
    {"llama_metal.txt", "its GPU may take 8 GiB (recommendedMaxWorkingSetSize), and 9 GiB were in its buffers: 1 GiB too much", "KV, Metal", GIB / 2},
    {"llama_metal.txt", "the Mac's memory that its GPU may take ran out", NULL, 0},
    {"llama_host.txt", "llama.cpp reckoned with 10 GiB of the host's memory, which has 64 GiB in all: it fits", "what llama.cpp reckoned with", 10 * GIB},
    {"tensorrt_llm_old.txt", "the KV cache holds 64000 tokens of all requests together, 512 KiB each", "KV cache", 33554432000},
    {"vllm_peak.txt", "weights 15 GiB; activations 2.50 GiB; beside PyTorch 512 MiB; 18 GiB left for the KV cache", "activations of the trial run",
     5 * GIB / 2},
    {"deepspeed.txt", "up to 120 GiB were in use, of about 200 GiB", "held by PyTorch besides", GIB / 4},
    {"megatron.txt", "PyTorch holds 44 GiB of the device, 20.5 GiB of that are tensors, 23.5 GiB lie unused (after 2 iterations)",
     "PyTorch's tensors, at the fullest", 40 * GIB},
    /* 256 + 512 - 256 + 4096 */
    {"trainer.txt", "tensors took 4.50 GiB at the fullest", "PyTorch's tensors, at the fullest", 4608 * MIB},
    {"trainer.txt", "4 GiB of that only for a time", NULL, 0},
    {"trainer.txt", "512 MiB stay", NULL, 0},
    {"torchtune.txt", "at the fullest tensors took 30.5 GiB, and PyTorch held up to 40.5 GiB: 10 GiB that no tensors needed at once", "held by PyTorch besides",
     10 * GIB},
    {"torchtitan.txt", "the device has 80 GiB of memory: that is 90 % of it", "held by PyTorch, at the fullest", 72 * GIB},
    {"torchtitan.txt", "9 times the device was full", NULL, 0},
    {"words.txt", "PyTorch holds 16 GiB of the device, 2 GiB of that are tensors, 14 GiB lie unused", "PyTorch's tensors, at the fullest", 2 * GIB},
    {"words.txt", "the peaks tell", "held by PyTorch besides", 16 * GIB},
    {"jax.txt", "JAX holds 4 GiB in arrays and programs, 12 GiB at the fullest, of at most 15 GiB", "arrays and programs, at the fullest", 12 * GIB},
    {"jax.txt", "has 11 GiB left", NULL, 0},
    {"compiled.txt", "the program takes 8.00 GiB of each device: arguments 4 GiB, results 3 GiB of which 1 GiB lie in donated arguments, temporaries 2 GiB",
     "results of their own", 2 * GIB},
    {"compiled.txt", "2 GiB of results have places of their own", "temporaries", 2 * GIB},
    {"compiled.txt", "beside that 512 MiB on the host", "arguments", 4 * GIB + GIB / 2},
    {"torch_xla.txt", "the program takes 7.53 GiB of each device: arguments 2 GiB, results 3 GiB of which 1.50 GiB lie in donated arguments, temporaries 4 GiB",
     "results of their own", 3 * GIB / 2},
    {"torch_xla.txt", "that is the largest of 2 programs", "the program's code", GIB / 32},
    {"maxtext.txt", "the program takes 29.3 GiB of each device: arguments 7.40 GiB, results 7.40 GiB of which 7.40 GiB lie in donated arguments", "temporaries",
     (EchBytes)(21.9 * GIB + .5) + (EchBytes)(2.5 * GIB)},
    {"maxtext.txt", "beside that 2.50 GiB on the host", NULL, 0},
    {"jax_devices.txt", "chip 0: 30.5 GiB of 31.2 GiB in use", "in use", (EchBytes)(30.5 * GIB)},
    {"jax_devices.txt", "chip 1: 7.50 GiB of 31.2 GiB in use", NULL, 0},
    {"vllm.txt", "weights 15 GiB; 2 GiB left for the KV cache of 16384 tokens, 128 KiB each", "weights", 15 * GIB},
    {"vllm.txt", "a request of 32768 tokens does not fit, it needs 4 GiB, 2 GiB more; --max-model-len 16384 or less does", "KV cache", 2 * GIB},
    {"vllm_usage.txt", "may take 72 GiB (0.9 of 80 GiB); weights 15 GiB; activations 5 GiB; 50 GiB left for the KV cache", "CUDA graphs", 512 * MIB},
    {"vllm_consumed.txt",
     "may take 72 GiB (0.9 of 80 GiB); weights 30 GiB; activations 8 GiB; beside PyTorch 1.25 GiB; 32 GiB left for the KV cache of 131072 tokens, 256 KiB each",
     "CUDA graphs", 512 * MIB},
    {"vllm_consumed.txt", "requests of 32768 tokens fit 4 at a time", "activations of the trial run", 8 * GIB},
    {"vllm_none.txt", "nothing left for the KV cache, 2.50 GiB too little", "weights", 15 * GIB},
    {"vllm_old.txt", "may take 21.6 GiB (0.9 of 24 GiB); beside PyTorch 358 MiB; 4 GiB left for the KV cache of 32768 tokens", "KV cache", 4 * GIB},
    {"vllm_old.txt", "requests of 16384 tokens fit 2 at a time", NULL, 0},
    {"smi.txt", "GPU 0 (NVIDIA GeForce RTX 4090): 20 GiB of 24.0 GiB in use: python -m serve (4711) 12 GiB, Xwayland (4712) 1 GiB", "Xwayland (4712)", GIB},
    {"smi.txt", "7 GiB of that no process in the list holds", "no listed process", 7 * GIB},
    {"smi.txt", "most room: GPU 1, 23.5 GiB free; CUDA_VISIBLE_DEVICES=1", "python -m serve (4711)", 12 * GIB},
    {"smi_old.txt", "GPU 0 (Tesla P100-SXM2...): 12.5 GiB of 15.9 GiB in use: caffe (31794) 2.50 GiB", "caffe (31794)", 5 * GIB / 2},
    {"smi_times.csv", "GPU 0 (NVIDIA L4): 20 GiB of 24 GiB in use at the fullest (2026/01/02 23:59:59.001)", "in use", 20 * GIB},
    {"smi_times.csv", "3 readings, 2 GiB in use at the first, 8 GiB at the last", NULL, 0},
    /* Two GPUs without a name, told apart by when they were asked. */
    {"smi_grows.csv", "GPU 0: 7 GiB of 16 GiB in use at the fullest (2026/01/02 03:30:00.001)", "in use", 7 * GIB},
    {"smi_grows.csv", "it never fell: 1 GiB a reading, at which it is full after 9 readings more", NULL, 0},
    {"smi_grows.csv", "most room: GPU 1, 15 GiB free", NULL, 0},
    {"mig.txt", "GPU 0, slice 3: 8 GiB of 20 GiB in use: python (4711) 7 GiB", "python (4711)", 7 * GIB},
    {"mig.txt", "most room: GPU 0, slice 4, 15.5 GiB free; CUDA_VISIBLE_DEVICES=MIG-...", "no listed process", GIB},
    {"mig.txt", "--set device.memories.hbm.capacity=20480MiB", NULL, 0},
    {"llama.txt", "CUDA0 4.75 GiB (model 4 GiB, KV 512 MiB, compute 256 MiB)", "model, CUDA0", 4 * GIB},
    {"llama.txt", "20 of its 33 layers lie on GPUs; the others run on the CPU", "on the host", 2320 * MIB},
    {"ollama.txt", "whole on GPUs the model would take 26 GiB: weights 16 GiB, KV cache 4 GiB, compute buffers 2 GiB; free are 10 GiB, 9.50 GiB", "KV cache",
     4 * GIB},
    {"ollama.txt", "30 of its 41 layers lie on GPUs", "besides, on all GPUs", 4 * GIB},
    {"ollama_ps.txt", "ollama: CPU 4.66 GiB (qwen3:32b 4.66 GiB); GPU 19.1 GiB (qwen3:32b 18.6 GiB, nomic:latest 477 MiB)", "nomic:latest, GPU", 500000000},
    {"ollama_ps.txt", "less is taken by a shorter context", "on the host", 5000000000},
    {"ollama_split.txt", "free are 8 GiB, 2 GiB, of which it takes 7.50 GiB, 0 B", "weights", 8 * GIB},
    {"ollama_split.txt", "GPU 1 gets none of it", NULL, 0},
    /* What it would take as asked for, and the last settings it tried. */
    {"llama_fit.txt", "llama.cpp would take: CUDA0 30 GiB (model 20 GiB, context 8 GiB, compute 2 GiB) of 24 GiB; 23 GiB are free: 7 GiB too much",
     "model, CUDA0", 20 * GIB},
    {"llama_fit.txt", "tried last: CUDA0 22 GiB (model 16 GiB, context 4 GiB, compute 2 GiB), 21 layers of 24 GiB; 23 GiB are free: it fits", "on the host",
     GIB},
    {"llama_fit_fails.txt", "llama.cpp reckoned with 20 GiB on its devices, where 15 GiB were free, of which it leaves 1 GiB on each: 6 GiB too much",
     "what llama.cpp reckoned with", 20 * GIB},
    {"llama_fit_fails.txt", "it did not look for settings that fit (n_gpu_layers already set by user to 99) and went on with those it was given", NULL, 0},
    {"llama_table.txt", "llama.cpp took: CUDA0 14 GiB (model 12 GiB, context 1.50 GiB, compute 512 MiB) of 16 GiB; 1 GiB left free, 1 GiB are others'",
     "context, CUDA0", 1536 * MIB},
    {"llama_table.txt", "llama.cpp took: CUDA1 7.50 GiB", "on the host", 2560 * MIB},
    {"ollama_engine.txt", "ollama: CUDA0 12 GiB (model weights 10 GiB, kv cache 1.50 GiB, compute graph 512 MiB); CPU 4.50 GiB", "kv cache, CUDA0", 1536 * MIB},
    {"ollama_engine.txt", "14.5 GiB were free on GPU-00112233", "on the host", 4608 * MIB},
    {"ollama_engine.txt", "24 of its 33 layers lie on GPUs", "model weights, CUDA0", 10 * GIB},
    {"ollama_2025.txt", "ollama: CUDA0 3.25 GiB (model weights 3 GiB, compute graph 256 MiB); CPU 512 MiB", "on the host", 512 * MIB},
    {"diffusion.txt",
     "stable-diffusion.cpp: CPU 4 GiB (t5 4 GiB); GPU 9.50 GiB (Wan2.2-TI2V-5B 6 GiB, vae 512 MiB, Wan2.2-TI2V-5B compute 1 GiB, vae compute 2 GiB)",
     "on the host", 4 * GIB},
    {"diffusion.txt", "--vae-tiling", "Wan2.2-TI2V-5B, GPU", 6 * GIB},
    {"vllm_sleep.txt", "vLLM, asleep, gave back 35 GiB of the GPU and still holds 1.50 GiB", "in use while it sleeps", 3 * GIB / 2},
    {"vllm_sleep.txt", "8 GiB of that wait in the host's memory, 26 GiB (the KV cache, and at level 2 the weights) were dropped", "kept on the host", 8 * GIB},
    {"deepspeed_estimate.txt", "optimizer states, 1024M total params, 64M largest layer params", "parameters, gradients, optimizer states", 18 * GIB},
    {"deepspeed_estimate_log.txt", "256 MiB of a GPU, 24 GiB of a node: offload_param=cpu, offload_optimizer=cpu, zero_init=1", "copies of them on the host",
     GIB / 2},
    {"deepspeed_estimate.txt", "256 MiB of a GPU, 24 GiB of a node: offload_param=cpu, offload_optimizer=cpu, zero_init=1", "copies of them on the host",
     GIB / 2},
    {"unsloth.txt", "PyTorch held 12 GiB at the most", "held by PyTorch, at the fullest", 12 * GIB},
    {"peft.txt", "PyTorch had tensors of 8 GiB at the most", "PyTorch's tensors, at the fullest", 8 * GIB},
    {"vllm_tokens.txt", "a request of 8192 tokens does not fit; --max-model-len 6144 or less does", NULL, 0},
    {"tensorrt_built.txt",
     "needs 385 MiB of the device to run, up to 387 MiB where scratch memory finds no room among the activations: weights 128 MiB, "
     "activations 256 MiB, layers' own memory 1 MiB",
     "activations", 256 * MIB},
    {"tensorrt_built.txt", "building it took up to 444 MiB", "weights", 128 * MIB},
    {"tensorrt_8.txt", "needs 33 MiB of the device to run beside its weights: activations 32 MiB", "layers' own memory", MIB},
    {"tensorrt_llm.txt", "TensorRT holds 6.02 GiB of the device for engines, 24 MiB of it for execution contexts", "engines' weights", 6140 * MIB},
    {"tensorrt_llm.txt", "runtime buffers 1.50 GiB; decoder 4.25 GiB; KV cache 36 GiB", "execution contexts", 24 * MIB},
    {"tensorrt_llm.txt", "the KV cache holds 294912 tokens of all requests together, 128 KiB each", "KV cache", 36 * GIB},
    {"tensorrt_llm.txt", "6.93 GiB of the device were in use when last told", "decoder", 4 * GIB + GIB / 4},
    {"sglang.txt", "weights 56 GiB; a KV cache of 2097152 tokens, of all requests together, 96 GiB, 48 KiB each; 38.0 GiB left beside it", "KV cache",
     96 * GIB},
    /* 12 GiB less the fifth of 80 GiB that the share leaves */
    {"sglang_graphs.txt",
     "SGLang, on each GPU: weights 16 GiB; CUDA graphs 2 GiB; a KV cache of 327680 tokens, of all requests together, 40 GiB, 128 KiB each; 21 GiB left",
     "CUDA graphs", 2 * GIB},
    {"sglang_none.txt", "SGLang, on each GPU: weights 68 GiB; 12 GiB left beside them", "weights", 68 * GIB},
    {"sglang_none.txt",
     "--mem-fraction-static 0.8 leaves nothing for the KV cache: weights alone take 68 GiB of 80 GiB that were free, 4 GiB more than that share", NULL, 0},
    {"sglang_none.txt", "more than 0.85 gives the cache something, each hundredth more 819 MiB", NULL, 0},
    {"sglang_draft.txt", "--mem-fraction-static 0.75 leaves 6 GiB beside the weights, but nothing of that for the KV cache", "weights", 24 * GIB},
    {"sglang_draft.txt", "a larger share gives the cache something, each hundredth more 410 MiB", NULL, 0},
    {"comfy.txt", "ComfyUI found 24 GiB of the GPU's memory and 32 GiB of the host's", "the largest model", 20 * GIB},
    {"comfy.txt", "the largest model that it loaded, WAN21 took 20 GiB of the GPU, of 21 GiB that it left for models, 16 GiB of it stay on the host",
     "what of it stays on the host", 16 * GIB},
    {"comfy_2024.txt", "the largest model that it loaded, Flux took 3 GiB of the GPU, of 3.50 GiB that it left for models, the rest of it stays on the host",
     "the largest model", 3 * GIB},
    /* 16 GiB less 11 GiB that the driver has free and 3 GiB of PyTorch's. */
    {"comfy_report.txt",
     "ComfyUI's report, cuda:0 NVIDIA GeForce RTX 1234: of the GPU's 16 GiB, when it was written, PyTorch held 3 GiB (1 GiB of that unused), others and the "
     "process's context 2 GiB",
     "others and the process's context", 2 * GIB},
    {"comfy_report.txt", "at most 14 GiB together", "PyTorch's, when the report was written", 3 * GIB},
    {"comfy_report.txt", "--disable-cuda-malloc makes PyTorch's message tell the sizes", NULL, 0},
    {"host_ray_users.txt", "Ray killed Engine.__init__ (process 719, which held 512 MiB) for want of the host's memory", "ray::Trainer.train (565)", 32 * GIB},
    {"host_ray_users.txt", "most of it was held by ray::Trainer.train (565) 32 GiB, ray::Trainer (566) 16 GiB, ray::Engine.__init__ (719) 512 MiB",
     "in use on the node besides", 23 * GIB / 2},
    {"host_ray_users.txt", "the newest task that it may begin again, not the one that holds most", "ray::Trainer (566)", 16 * GIB},
    {"host_killed.txt",
     "the kernel killed python3 (4711) for want of the host's memory, not the device's: it held 20 GiB of its own and 2 GiB shared or page-locked, in a "
     "group of processes (a container, a job) that may have 24 GiB; 1 more were killed after it",
     "python3", 20 * GIB},
    {"host_ray.txt",
     "Ray killed train (process 548, which held 12 GiB) for want of the host's memory, not the device's: 30 GiB of the node's 32 GiB were in use, more than "
     "the share that it allows (0.9, RAY_memory_usage_threshold)",
     "in use on the node", 30 * GIB},
    {"torchtitan_grows.txt", "at each of 4 readings PyTorch held as much as before or more, from 11 GiB (step 1) to 14 GiB", "held by PyTorch, at the fullest",
     14 * GIB},
    {"host_raylet.txt",
     "Ray killed a task for want of the host's memory, not the device's: 24 GiB of the node's 32 GiB were in use, more than the share that it allows (0.7, "
     "RAY_memory_usage_threshold)",
     "in use on the node", 24 * GIB},
    {"host_ray_old.txt", "12 GiB of the node's 12.5 GiB were in use", "in use on the node besides", 7 * GIB},
    {"host_ray_old.txt", "most of it was held by ray_X:alloc() (28) 5 GiB", "ray_X:alloc() (28)", 5 * GIB},
    {"host_dask.txt", "a worker of Dask held 3.50 GiB of the host's memory, not the device's, and may hold 4 GiB", "the fullest worker", 7 * GIB / 2},
    {"host_shm.txt", "/dev/shm, a part of the host's memory that workers of data loaders, NCCL and others talk through, had 23 GiB of its 24 GiB in use",
     "/dev/shm", 23 * GIB},
    {"host_kubectl.txt", "the container was ended for want of the host's memory, not the device's (OOMKilled, 137 as signal 9): it may have 48 GiB",
     "the container, at its limit", 48 * GIB},
    {"host_pod.yaml", "it may have 29.8 GiB", "the container, at its limit", 32000000000},
    {"host_docker.json", "it may have 16 GiB", "the container, at its limit", 16 * GIB},
    {"host_free.txt", "of the host's memory, 16 GiB, 10 GiB were available", "in use on the host", 6 * GIB},
    {"onnx_arena.txt", "ONNX Runtime's arena has taken 33 MiB, in 2 pieces: that it grows is no error", "ONNX Runtime's arena", 33 * MIB},
    {"mlx.txt", "MLX's arrays took 10.0 GiB at the fullest", "MLX's arrays, at the fullest", UINT64_C(10737418000)},
    {"mlx.txt", "beside that it keeps 20.0 GiB of buffers that were freed", NULL, 0},
    {"llama_2023.txt", "llama.cpp: CPU 10 GiB (model 9 GiB, KV 1 GiB)", "on the host", 10 * GIB},
    {"tensorrt_llm_2024.txt", "beside its engine: execution contexts' own 36 GiB; KV cache 50 GiB", "execution contexts' own", 36 * GIB},
    {"tensorrt_llm_executor.txt",
     "found no room for this component: Additional executor resources; 13 GiB of 80 GiB were free when it was tried; Model took 30 GiB; Drafter took 512 MiB; "
     "KV cache took 36 GiB; 512 MiB were in use before all of them",
     "Model", 30 * GIB},
    {"tensorrt_llm_executor.txt", "free_gpu_memory_fraction", "KV cache", 36 * GIB},
    {"tensorrt_llm_trial.txt",
     "TensorRT-LLM, on each GPU of 80 GiB: weights 16 GiB; activations of the trial run 2 GiB; outside of PyTorch (contexts, NCCL, CUDA graphs) 1.50 GiB; KV "
     "cache 54 GiB",
     "weights", 16 * GIB},
    {"vllm_short.txt", "vLLM, on each GPU: weights 12 GiB; 48 GiB left for the KV cache of 393216 tokens, 128 KiB each", "CUDA graphs", GIB / 2},
    {"verl.txt", "PyTorch holds 16 GiB of the device, 12 GiB of that are tensors, 4 GiB lie unused (After building rollout)",
     "PyTorch's tensors, at the fullest", 12 * GIB},
    {"verl.txt", "up to 60 GiB were in use, up to 44 GiB of that beside what PyTorch held then", "held by PyTorch besides", 4 * GIB},
    {"allocator_stats.txt", "JAX holds 2 GiB in arrays and programs, 3 GiB at the fullest, of at most 32 GiB", "arrays and programs, at the fullest", 3 * GIB},
    {"allocator_stats.txt", "beside that 24 GiB are reserved", "reserved beside arrays", 24 * GIB},
    {"allocator_stats.txt", "has 6 GiB left", "held by PyTorch besides", 0},
    {"vllm_tpu.txt",
     "vLLM, on all its chips of the TPU together: may take 25 GiB (0.8 of 31.2 GiB); weights and the like 9 GiB; 16 GiB left for the KV cache of 131072 "
     "tokens, "
     "128 KiB each",
     "weights and the like", 9 * GIB},
    {"vllm_tpu.txt", "compiled programs and their temporaries are loaded later", "KV cache", 16 * GIB},
    {"vllm_tpu_none.txt", "nothing left for the KV cache, 2 GiB too little", "weights and the like", 29 * GIB},
    {"mmcv.txt", "PyTorch had tensors of 6.34 GiB at the most", "PyTorch's tensors, at the fullest", 6497 * MIB},
    {"task_manager.txt", "GPU 1: 15.5 GiB of 16 GiB in use", "in use", 31 * GIB / 2},
    {"task_manager.txt", "beside that 12 GiB of the host's memory are in use as the GPU's (shared GPU memory, of up to 32 GiB)", NULL, 0},
    {"smi.csv", "GPU 0 (NVIDIA L4): 21.5 GiB of 22.5 GiB in use", "in use", 22016 * MIB},
    {"smi.csv", "who holds it: the list of processes", NULL, 0},
    {"processes.csv", "python3 (77) holds 2 GiB", "ollama (78)", GIB},
    {"gpustat.txt", "GPU 0 (NVIDIA L4): 20 GiB of 22.5 GiB in use: ann 10 GiB, bob:python (77) 8 GiB", "ann", 10 * GIB},
    {"rocm.txt", "who holds it: 'rocm-smi --showpids'", "in use", UINT64_C(34351349760)},
    {"smi_query.txt", "GPU 0 (NVIDIA L40S): 20.5 GiB of 45.0 GiB in use: python (4711) 16 GiB, serve (4712) 4 GiB, the driver's own 512 MiB", "serve (4712)",
     4 * GIB},
    {"smi_query.txt", "most room: GPU 1, 44.5 GiB free", NULL, 0},
    {"nvitop.txt", "GPU 0 (RTX A6000): 24 GiB of 48.0 GiB in use: ann (12345) 22 GiB", "no listed process", 2 * GIB},
    {"nvitop_compact.txt", "GPU 0: 40 GiB of 48.0 GiB in use", "in use", 40 * GIB},
    {"nvitop_compact.txt", "most room: GPU 1, 47.0 GiB free", NULL, 0},
    {"amd_smi.txt", "GPU 0 (AMD Instinct MI300X): 160 GiB of 192 GiB in use: python3.12 (3050055) 159 GiB", "python3.12 (3050055)", 159 * GIB},
    {"amd_smi.txt", "HIP_VISIBLE_DEVICES=1 runs there", NULL, 0},
    {"amd_figures.txt", "GPU 0: 64 GiB of 192 GiB in use: python3 (4711) 60 GiB", "python3 (4711)", 60 * GIB},
    {"amd_monitor.txt", "GPU 0: 32 GiB of 192 GiB in use: process 2266 30 GiB", "no listed process", 2 * GIB},
    {"rocm_processes.txt", "in use: python3 (8300) 16 GiB", "python3 (8300)", 16 * GIB},
    {"tpu_info.txt", "chip 0 (TPU v6e chip): 18.5 GiB of 31.2 GiB in use", "in use", (EchBytes)(18.45 * GIB + .5)},
    {"tpu_info.txt", "TPU_VISIBLE_CHIPS=1 runs there", NULL, 0},
    {"npu_smi.txt", "NPU 0 (910B3): 56.4 GiB of 64 GiB in use: python3 (692318) 53.1 GiB", "python3 (692318)", 54417 * MIB},
    {"npu_smi.txt", "ASCEND_RT_VISIBLE_DEVICES=1 runs there", "no listed process", 3367 * MIB},
    {"npu_smi_a3.txt", "NPU 7 (Ascend910): 60 GiB of 64 GiB in use: python3 (692318) 57 GiB", "python3 (692318)", 57 * GIB},
    {"hl_smi.txt", "Gaudi 0 (HL-225): 88.6 GiB of 96 GiB in use: python (49151) 87.9 GiB", "python (49151)", 90000 * MIB},
    {"hl_smi.txt", "HABANA_VISIBLE_MODULES=1 runs there", "no listed process", 768 * MIB},
    {"xpu_smi.txt", "GPU 0: 30.3 GiB in use", "in use", 31056 * MIB},
    {"xpu_smi_tiles.txt", "GPU 0: 32 GiB of 128 GiB in use", "in use", 32 * GIB},
    {"xpu_smi.csv", "GPU 0: 30.3 GiB in use at the fullest (06:14:47.000)", NULL, 0},
    {"xpu_smi.json", "GPU 1: 30.3 GiB in use", NULL, 0},
    {"rocm.csv", "GPU 0 (Radeon RX 7900 XT): 18.9 GiB of 20.0 GiB in use", "in use", 20278568960},
    {"rocm.json", "GPU 0 (Radeon RX 7900 XT): 18.9 GiB of 20.0 GiB in use", "in use", 20278568960},
    {"amd_smi.csv", "HIP_VISIBLE_DEVICES=1 runs there", "in use", 182383 * MIB},
    {"amd_smi.json", "GPU 0: 178 GiB of 192 GiB in use", "in use", 182383 * MIB},
    {"amd_process.json", "GPU 2: python3.12 (4242) holds 60 GiB", "python3.12 (4242)", 60 * GIB},
    {"gpustat.json", "GPU 0 (NVIDIA A100-SXM4-80GB): 68.5 GiB of 80 GiB in use: python (4242) 58.8 GiB", "python (4242)", 60211 * MIB},
    {"smi_query.xml", "GPU 0 (NVIDIA GeForce RTX 4090): 22.8 GiB of 24.0 GiB in use: python (4242) 21.5 GiB", "the driver's own", 350 * MIB},
    {"smi_pmon.txt", "GPU 0: python (4242) holds 21.5 GiB", "python (4242)", 22000 * MIB},
    {"smi_dmon.txt", "GPU 0: 68.5 GiB in use", "in use", 70151 * MIB},
    {"listed.txt", "process (79749) holds 601 MiB", "process (79749)", 601 * MIB},
    {"arrays.txt", "5 arrays listed, 128 MiB in all", "f32[4096,4096]", 128 * MIB},
    {"arrays.txt", "where no type is told 4 bytes an element", "f32[64,3,2]", 64 * 3 * 2 * 4},
    {"arrays.txt", "twice", "f32[8,128]", 4096},
};

START_TEST(figures)
{
    g_autofree char *name = g_strconcat("memory_figures/", files[_i].file, NULL);
    g_autoptr(EchImport) import = ech_test_corpus(name, NULL);
    ck_assert_str_eq(import->format, "memory_figures");
    ck_assert_msg(ech_test_says(import->diag, files[_i].says), "%s: '%s'\nsaid: %s", name, files[_i].says, ech_diag_remarks(import->diag)[0]);
    if (files[_i].holder)
        ck_assert_msg(held(import->trace, files[_i].holder) == files[_i].held, "%s: %s holds %" G_GUINT64_FORMAT, name, files[_i].holder,
                      held(import->trace, files[_i].holder));
}
END_TEST

/* What is printed again, by a tool that repeats itself, by each rank or by a server that was started again, is not there twice; the last of it counts. */
START_TEST(told_again)
{
    static const char *const names[] = {"amd_figures.txt", "amd_monitor.txt", "amd_smi.txt",   "deepspeed_estimate.txt", "gpustat.txt", "hl_smi.txt",
                                        "mig.txt",         "nodes.txt",       "npu_smi.txt",   "npu_smi_a3.txt",         "nvitop.txt",  "rocm_processes.txt",
                                        "smi.txt",         "smi_old.txt",     "smi_query.txt", "smi_pmon.txt",           "trainer.txt", "llama.txt"};
    static const char began[] = "llama_model_loader: loaded meta data with 24 key-value pairs and 291 tensors\n";
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/memory_figures", names[i], NULL), *text = NULL;
        ck_assert(g_file_get_contents(path, &text, NULL, NULL));
        const char *head = strcmp(names[i], "llama.txt") == 0 ? began : "";
        g_autofree char *once = g_strconcat(head, text, "\n", NULL), *twice = g_strconcat(once, once, NULL);
        g_autoptr(EchSource) a = ech_source_new_memory((const uint8_t *)once, strlen(once), "a.txt"),
                             b = ech_source_new_memory((const uint8_t *)twice, strlen(twice), "b.txt");
        g_autoptr(EchImport) first = ech_import_source(a, "memory_figures", NULL, NULL), second = ech_import_source(b, "memory_figures", NULL, NULL);
        ck_assert(first && second);
        for (size_t k = 0; ech_diag_remarks(first->diag)[k]; k++)
            ck_assert_msg(g_strcmp0(ech_diag_remarks(first->diag)[k], ech_diag_remarks(second->diag)[k]) == 0, "%s: '%s', then '%s'", names[i],
                          ech_diag_remarks(first->diag)[k], ech_diag_remarks(second->diag)[k]);
        ck_assert_msg(ech_trace_n_buffers(first->trace) == ech_trace_n_buffers(second->trace), "%s", names[i]);
    }
}
END_TEST

/* A document is pasted with what stood around it in the terminal. */
START_TEST(document_among_lines)
{
    static const char *const names[] = {"rocm.json", "amd_smi.json", "gpustat.json", "xpu_smi.json"};
    static const char *const before[] = {"\n\n", "$ rocm-smi --showmeminfo vram --json\n",
                                         "$ smi --json\n\nWARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n"};
    for (size_t i = 0; i < G_N_ELEMENTS(names) * G_N_ELEMENTS(before); i++) {
        const char *name = names[i / G_N_ELEMENTS(before)];
        g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/memory_figures", name, NULL), *text = NULL;
        ck_assert(g_file_get_contents(path, &text, NULL, NULL));
        g_autofree char *among = g_strconcat(before[i % G_N_ELEMENTS(before)], text, "\nme@host:~$ \n", NULL);
        g_autoptr(EchSource) a = ech_source_new_memory((const uint8_t *)text, strlen(text), "a.json"),
                             b = ech_source_new_memory((const uint8_t *)among, strlen(among), "b.txt");
        g_autoptr(EchImport) first = ech_import_source(a, NULL, NULL, NULL);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchImport) second = ech_import_source(b, NULL, NULL, &error);
        ck_assert_ok(second != NULL, error);
        ck_assert_str_eq(ech_diag_remarks(first->diag)[0], ech_diag_remarks(second->diag)[0]);
    }
}
END_TEST

/* A process that has ended by the second of two tables holds nothing any more. */
START_TEST(ended_between)
{
    g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "tests/fuzz/corpus/memory_figures/smi.txt", NULL), *text = NULL;
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) parts = g_strsplit(text, "4711", 2);
    g_autofree char *two = g_strconcat(text, "\n", parts[0], "4999", parts[1], NULL);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)two, strlen(two), "two.txt");
    g_autoptr(EchImport) import = ech_import_source(source, "memory_figures", NULL, NULL);
    ck_assert_msg(ech_test_says(import->diag, "20 GiB of 24.0 GiB in use: python -m serve (4999) 12 GiB, Xwayland (4712) 1 GiB"), "%s",
                  ech_diag_remarks(import->diag)[0]);
}
END_TEST

/* Shapes in a program are nothing that it printed; behind a program that was posted with what happened they are. */
START_TEST(shapes_in_a_program)
{
    static const char program[] = "from jax import numpy as jnp\nx = jnp.zeros((4096, 4096), jnp.float32)\ny = jnp.zeros((4096, 8192), jnp.bfloat16)\n";
    g_autofree char *posted = g_strconcat("```\n", program, "```\n(8, 128) float32\n(8, 128) float32\n", NULL);
    GError *error = NULL;
    g_autoptr(EchImport) alone = ech_test_text(program, &error), with_prints = ech_test_text(posted, NULL);
    ck_assert_msg(!alone && error && strstr(error->message, "looks like a Python program"), "%s", error ? error->message : "read");
    g_clear_error(&error);
    ck_assert(with_prints != NULL);
}
END_TEST

/* A log in JSON whose first record is an empty line. */
START_TEST(empty_record)
{
    static const char text[] = "{\"level\": \"info\", \"message\": \"\"}\n{\"level\": \"info\", \"message\": \"Memstats: After params initialized:\"}\n"
                               "{\"level\": \"info\", \"message\": \"\\tUsing (GB) 8.0 / 32.0 (25.000000%) on TPU_0(process=0,(0,0,0,0))\"}\n";
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "log.json");
    GError *error = NULL;
    g_autoptr(EchImport) import = ech_import_source(source, NULL, NULL, &error);
    ck_assert_msg(import, "%s", error ? error->message : "");
    ck_assert_msg(ech_test_says(import->diag, "chip 0: 8 GiB of 32 GiB in use"), "%s", ech_diag_remarks(import->diag)[0]);
}
END_TEST

#define OOM "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total capacity; "

/* Beside a message about refused memory figures say more, and take nothing from what it says. */
static const struct {
    const char *text, *says, *not_said;
} beside[] = {
    {OOM "20.00 GiB already allocated; 1.00 GiB free; 20.50 GiB reserved in total by PyTorch)\n"
         "|===========================================================================|\n"
         "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
         "|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |\n"
         "| Allocated memory      |  20480 MiB |  21504 MiB |  99999 MiB |  79519 MiB |\n"
         "| GPU reserved memory   |  20992 MiB |  21504 MiB |  22016 MiB |   1024 MiB |\n",
     "3 times the device was full", "memory.pickle"},
    {OOM "0.50 GiB already allocated; 1.00 GiB free; 0.50 GiB reserved in total by PyTorch)\n"
         "GPU[0]\t\t: VRAM Total Memory (B): 25769803776\nGPU[0]\t\t: VRAM Total Used Memory (B): 24159191040\n",
     "PyTorch here holds no more than 512 MiB: nothing that this program changes makes much room", "expandable_segments"},
    {"ResourceExhaustedError: OOM when allocating tensor with shape[1024,1024] and type float on /job:localhost by allocator GPU_0_bfc\n"
     "Current usage from device: /job:localhost/replica:0/task:0/device:GPU:0, allocator: GPU_0_bfc\n  1.00GiB from model/conv1/Relu\n",
     "GPU_0_bfc refused 4 MiB", "arrays listed"},
    {OOM "20.00 GiB already allocated; 1.00 GiB free; 20.50 GiB reserved in total by PyTorch)\n(8, 8) float32\n(8, 8) float32\n",
     "no setting of the allocator would have served it", "arrays listed"},
};

START_TEST(beside_a_refusal)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(beside[_i].text, &error);
    ck_assert_ok(import, error);
    ck_assert_str_eq(import->format, "out_of_memory");
    ck_assert_msg(ech_test_says(import->diag, beside[_i].says), "'%s'\nsaid: %s", beside[_i].says, ech_diag_remarks(import->diag)[0]);
    ck_assert_msg(!ech_test_says(import->diag, beside[_i].not_said), "'%s'", beside[_i].not_said);
    if (strstr(beside[_i].text, "Relu"))
        ck_assert_uint_eq(held(import->trace, "model/conv1/Relu"), GIB);
}
END_TEST

/* What is pasted without its beginning, of several GPUs, of layers that do not grow, of old releases. */
static const struct {
    const char *text, *says, *not_said;
} others[] = {
    {"INFO [gpu_model_runner.py:1176] Model loading took 14.5000 GiB and 28.7 seconds",
     "vLLM's weights take 14.5 GiB of each GPU; what is left for the KV cache", "nothing left"},
    {"Desired GPU memory utilization is (0.9, 72.0 GiB). Actual usage is 31.25 GiB for consumed memory (weights + non-torch), 8.0 GiB for peak activation, and "
     "0.5 GiB for CUDAGraph memory. Current kv cache memory in use is 32.0 GiB.",
     "weights and the like 31.2 GiB; activations 8 GiB; 32 GiB left for the KV cache", "beside PyTorch"},
    {"Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.",
     "4.25 GiB asked for as the KV cache", "left for the KV cache"},
    {"Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.",
     "the cache gets what --kv-cache-memory-bytes says", "a larger share"},
    {"Capture cuda graph end. Time elapsed: 19.50 s. mem usage=6.00 GB. avail mem=5.00 GB.", "CUDA graphs 6 GiB; 5 GiB left beside it", "a KV cache of"},
    {"KV Cache allocated. #tokens: 2048, K 0.25 GB, V 0.25 GB\ntorch.AcceleratorError: CUDA error: out of memory\n",
     "memory ran out ('torch.AcceleratorError: CUDA error: out of memory'), of how much is not told there", "does not fit"},
    {"INFO model_runner.py:732] Loading model weights took 2.00 GB\nINFO x.py:56] # GPU blocks: 1000, # CPU blocks: 10\ncuda oom when capturing cuda graphs\n",
     "Out of memory then: a smaller share", "a larger share"},
    {"|                  PyTorch CUDA memory summary, device ID 0                 |\n|            CUDA OOMs: 1            |        cudaMalloc retries: 2       "
     "  |\n"
     "| Allocated memory      |   1024 MiB |   4096 MiB |      0 B   |      0 B   |\n",
     "out of memory 1 time (CUDA OOMs)", "lie unused"},
    {"[TP1] KV Cache is allocated. #tokens: 4096, KV size: 1.00 GB\n[TP0] KV Cache is allocated. #tokens: 2048, KV size: 0.50 GB\n",
     "a KV cache of 2048 tokens, of all requests together, 512 MiB, 256 KiB each", "4096 tokens"},
    {"max_total_num_tokens=2086558, chunked_prefill_size=8192, context_len=256000, available_gpu_mem=17.22 GB",
     "2086558 tokens, of all requests together; 17.2 GiB left", "KiB each"},
    {"Available KV cache memory: 7.00 GiB\nGPU KV cache size: 65,536 tokens\n", "a smaller --gpu-memory-utilization leaves the rest to others", "does not fit"},
    {"The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache (6144).", "a KV cache of 6144 tokens",
     "leaves the rest to others"},
    {"llm_load_tensors: offloaded 33/33 layers to GPU\nllm_load_tensors:        CPU buffer size =   400.00 MiB\nllm_load_tensors:      ROCm1 buffer size =  "
     "2048.00 MiB\n",
     "all of its 33 layers lie on GPUs", "run on the CPU"},
    {"ggml_cuda_host_malloc: failed to allocate 3000.00 MiB of pinned memory: out of memory\nload_tensors: offloaded 3/33 layers to GPU\nload_tensors:        "
     "CPU "
     "model buffer size =  3000.00 MiB\n",
     "2.93 GiB of the host's memory could not be page-locked, which is no error", "all of its"},
    {"MemAllocated=18.00GB, MaxMemAllocated=54.00GB", "tensors take 18 GiB, at the fullest they took 54 GiB: 36 GiB of that only for a time", "lie unused"},
    {"Available KV cache memory: 2.50 GiB\nAvailable KV cache memory: 2.00 GiB\nGPU KV cache size: 139,520 tokens\nMaximum concurrency for 120,000 tokens per "
     "request: 4.52x",
     "requests of 120000 tokens fit 4.52 at a time", "KiB each"},
    {"Available KV cache memory: 2.50 GiB\nAvailable KV cache memory: 2.00 GiB\nGPU KV cache size: 139,520 tokens\nMaximum concurrency for 120,000 tokens per "
     "request: 4.52x",
     "2 GiB left for the KV cache of 139520 tokens", "KiB each"},
    {"CompiledMemoryStats(generated_code_size_in_bytes=2856, argument_size_in_bytes=0, output_size_in_bytes=0, alias_size_in_bytes=0, temp_size_in_bytes=0)",
     "all three 0: old releases of JAX counted no arrays", "donate_argnums"},
    {"# CompiledMemoryStats(\n#     generated_code_size_in_bytes=0,\n#     argument_size_in_bytes=8192,\n#     output_size_in_bytes=4096,\n"
     "#     alias_size_in_bytes=4096,\n#     temp_size_in_bytes=512)\nCompiledMemoryStats(argument_size_in_bytes=1024, temp_size_in_bytes=0)",
     "the program takes 8.50 KiB of each device: arguments 8 KiB, results 4 KiB of which 4 KiB lie in donated arguments, temporaries 512 B", "donate_argnums"},
    {"Step 1 | peak_memory_alloc:52.0 peak_memory_reserved:52.0\nStep 2 | peak_memory_alloc:54.0 peak_memory_reserved:54.0\n"
     "Step 3 | peak_memory_alloc:58.0 peak_memory_reserved:58.0\n",
     "at each of 3 readings tensors took as much as before or more, from 52 GiB (step 1) to 58 GiB", "afterwards"},
    {"Step 1 | peak_memory_alloc:52.0 peak_memory_reserved:52.0\nStep 2 | peak_memory_alloc:58.0 peak_memory_reserved:58.0\n"
     "Step 3 | peak_memory_alloc:54.0 peak_memory_reserved:58.0\n",
     "what is held is what the peak needed", "at each of"},
    {"| GPU  Name        Persistence-M| Bus-Id        Disp.A |\n|   0  GeForce GTX 1080  Off  | 00000000:01:00.0  On |\n"
     "|  0%   61C    P0    58W / 180W |   7940MiB /  8112MiB |      3%      Default |\n",
     "GPU 0 (GeForce GTX 1080): 7.75 GiB of 7.92 GiB in use", "no process in the list"},
    {"| Processes:                                                            GPU Memory |\n|    3   N/A  N/A     10734      C   python         160MiB |\n",
     "GPU 3: python (10734) holds 160 MiB", "in use"},
    {"index, memory.total [MiB], memory.used [MiB]\n0, 10000, 9300\npid, used_memory\n5, 9200\n", "GPU 0: 9.08 GiB of 9.77 GiB in use", "three quarters"},
    {"[0] NVIDIA L4 | 52'C, 100 % | 9300 / 10000 MB | vllm/5(9200M)", "vllm (5) holds nearly all of it", "three quarters"},
    {"[0] NVIDIA L4 | 52'C, 100 % | 7600 / 10000 MB | python/5(7600M)", "python (5) holds three quarters of it", "nearly all"},
    {"|                  PyTorch CUDA memory summary, device ID 0                 |\n| Allocated memory      |   1024 MiB |   4096 MiB |      0 B   |      0 B "
     "  |\n"
     "| GPU reserved memory   |  12288 MiB |  12288 MiB |      0 B   |      0 B   |\n| Non-releasable memory |  11264 MiB |  11264 MiB |      0 B   |      0 B "
     "  |\n",
     "torch.cuda.empty_cache() gives none of it back", "whole segments"},
};

START_TEST(of_pieces)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(others[_i].text, &error);
    ck_assert_ok(import, error);
    ck_assert_str_eq(import->format, "memory_figures");
    ck_assert_msg(ech_test_says(import->diag, others[_i].says), "'%s'\nsaid: %s", others[_i].says, ech_diag_remarks(import->diag)[0]);
    ck_assert_msg(!ech_test_says(import->diag, others[_i].not_said), "'%s'", others[_i].not_said);
}
END_TEST

/* Words that stand in any log are no figures. */
static const char *const none[] = {
    "step 1: allocated a batch of 3 GB and went on\n",
    "loading (512, 512) float32 pictures\n",
    "GPU:0\nno processes are running\n",
    "worker 4 allocated a memory buffer and could not be happier\n",
    "grpc._channel: status = StatusCode.RESOURCE_EXHAUSTED, details = Received message larger than max (8653914 vs. 4194304)\n",
    "KV Cache is allocated. #tokens: 1000\n",
};

START_TEST(no_figures)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(none[_i], &error);
    ck_assert_msg(!import && (strstr(error->message, "no captured format") || strstr(error->message, "names amounts of memory")), "%s: %s", none[_i],
                  error ? error->message : "read");
    g_clear_error(&error);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)none[_i], strlen(none[_i]), "log");
    g_autoptr(EchImport) forced = ech_import_source(source, "memory_figures", NULL, &error);
    ck_assert_msg(!forced && strstr(error->message, "log: no figures of memory in use"), "%s", none[_i]);
}
END_TEST

/* A refusal far behind the figures of a long log is what it is about. */
START_TEST(refused_later)
{
    g_autoptr(GString) log = g_string_new(NULL);
    for (unsigned i = 0; i < 3000; i++)
        g_string_append_printf(log, "step:  %u  loss:  4.8  memory: 72.00GiB(90.00%%)  tps: 10,917\n", i);
    g_autoptr(EchImport) before = ech_test_text(log->str, NULL);
    g_string_append(log, OOM "20.00 GiB already allocated; 1.00 GiB free; 20.50 GiB reserved in total by PyTorch)\n");
    g_autoptr(EchImport) after = ech_test_text(log->str, NULL);
    ck_assert(before && after);
    ck_assert_str_eq(before->format, "memory_figures");
    ck_assert_uint_eq(ech_diag_count(before->records, "readings"), 3000);
    ck_assert_str_eq(after->format, "out_of_memory");
}
END_TEST

/* What vLLM and llama.cpp tell in a line or two. */
static const struct {
    const char *text, *says, *not_said;
} brief[] = {
    {"INFO 01-15 02:12:11 [gpu_worker.py:375] Available KV cache memory: -0.41 GiB\n", "nothing left for the KV cache, 420 MiB too little", "no figures"},
    {"llama_params_fit_impl:   - CUDA0 (A): 24124 total, 30210 used, -6410 free vs. target of 1024\nllama_params_fit_impl:   - CUDA1 (A): 24124 total, 14012 "
     "used, 9788 free vs. target of 1024\nllama_params_fit_impl: projected to use 44222 MiB of device memory vs. 47600 MiB of free device memory\n"
     "llama_params_fit_impl: context size reduced from 40960 to 4096 -> need 3456 MiB less memory in total\nllama_params_fit_impl:   - CUDA0 (A): 40 layers "
     "(34 "
     "overflowing),  19187 MiB used,   1199 MiB free\nllama_params_fit_impl:   - CUDA0 (A): 48 layers (30 overflowing),  20480 MiB used,   1024 MiB free\n"
     "llama_params_fit: successfully fit params to free device memory\n",
     "it found others that fit: a context of 4096 tokens in place of 40960 (-c); CUDA0 has 48 layers (parts of 30 lie elsewhere), 20 GiB, and leaves 1 GiB",
     "Less of it there"},
    {"llama_params_fit_impl: projected to use 12288 MiB of device memory vs. 24576 MiB of free device memory\nllama_params_fit_impl: will leave 12288 >= 1024 "
     "MiB of free device memory, no changes needed\nllama_params_fit: successfully fit params to free device memory\n",
     "it fits", "it found others"},
    {"common_params_fit_impl: projected to use 10240 MiB of host memory vs. 65536 MiB of total host memory\n", "it fits", "the context of each process"},
    {"index, memory.used [MiB], memory.total [MiB]\n0, 0 MiB, 23034 MiB\n", "GPU 0: 0 B of 22.5 GiB in use", "who holds it"},
    {"<frozen runpy>:128: RuntimeWarning: 'app.main' found in sys.modules\n"
     "[2026-01-17 11:03:46,601] [INFO] [utils.py:803:see_memory_usage] MA 4.0 GB         Max_MA 4.0 GB         CA 4.5 GB         Max_CA 4 GB\n"
     "  0%|          | 0/12000 [00:00<?, ?it/s][2026-01-17 11:03:47,601] [INFO] [utils.py:803:see_memory_usage] MA 8.0 GB         Max_MA 8.0 GB         CA 8.5 "
     "GB         Max_CA 8 GB\r  1%|          | 9/12000 [00:05<?, 2it/s]",
     "PyTorch holds 8.50 GiB of the device, 8 GiB of that are tensors", "4.50 GiB"},
};

START_TEST(in_a_line)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_test_text(brief[_i].text, &error);
    ck_assert_msg(import != NULL, "%s: %s", brief[_i].text, error ? error->message : "");
    ck_assert_msg(ech_test_says(import->diag, brief[_i].says), "%s", ech_diag_remarks(import->diag)[0]);
    ck_assert_msg(!ech_test_says(import->diag, brief[_i].not_said), "%s", brief[_i].not_said);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("figures");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, shapes_in_a_program);
    tcase_add_test(tcase, empty_record);
    tcase_add_test(tcase, told_again);
    tcase_add_test(tcase, ended_between);
    tcase_add_test(tcase, document_among_lines);
    tcase_add_loop_test(tcase, figures, 0, G_N_ELEMENTS(files));
    tcase_add_loop_test(tcase, beside_a_refusal, 0, G_N_ELEMENTS(beside));
    tcase_add_loop_test(tcase, of_pieces, 0, G_N_ELEMENTS(others));
    tcase_add_loop_test(tcase, no_figures, 0, G_N_ELEMENTS(none));
    tcase_add_loop_test(tcase, in_a_line, 0, G_N_ELEMENTS(brief));
    tcase_add_test(tcase, refused_later);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
