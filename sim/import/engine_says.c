#include "sim/import/engine_says.h"
#include "sim/base/error.h"
#include "sim/import/llama_says.h"
#include "sim/import/plain_says.h"
#include "sim/import/refused.h"

#include <math.h>
#include <string.h>

enum { MAX_SIZES = 1 << 12 };
/* Of 2026 the largest accelerators have less than 512 GiB. */
static const EchBytes MOST_OF_A_DEVICE = UINT64_C(1) << 42, MIB = 1 << 20;

/* "2048, 57": a size and how many allocations have it. */
typedef struct {
    EchBytes bytes;
    uint64_t n;
} Size;

typedef struct {
    bool has_asked, has_used, has_free, has_capacity, has_device;
    EchRounded asked, used, free, capacity;
    uint64_t device, tokens, fitting; /* its index; of a model's longest request, and the engine's own estimate of what would fit; 0: not told */
    double share;                     /* of the memory that an engine means to take */
} Figures;

/* One wording. Sizes follow or precede their keys; where that is not enough, @read. */
typedef struct {
    const char *mark, *also; /* begins in its first line; of the sentence, or NULL */
    const char *before;      /* of what stands before that line, or NULL: who logs it */
    const char *who;
    const char *memory;   /* of the refused request */
    const char *holder;   /* what holds what is used */
    const char *asked;    /* key before a size */
    const char *used;     /* key before a size */
    const char *used_by;  /* key after a size */
    const char *free;     /* key before a size */
    const char *capacity; /* key before a size */
    bool (*read)(EchWords, Figures *);
    void (*say)(const Figures *, EchDiag *);
    const char *advice;
    bool warns; /* It goes on without. */
} Wording;

struct EchEngineSays {
    const Wording *wording; /* of the first refusal, or NULL */
    bool only_tried;        /* It was a trial, after which the program goes on. */
    Figures figures;
    EchLlamaSays *llama; /* what llama.cpp told of before it was refused */
    GArray *sizes;       /* Size, of one thread's log */
    char thread[32];
    uint64_t later;
    bool jetson;       /* Its driver logs that it was refused memory. */
    bool of_diffusion; /* The log is of stable-diffusion.cpp, which has ggml's backends, too. */
    bool too_large;    /* ggml's Vulkan backend says that one buffer was. */
    bool scratch;      /* What was refused is scratch memory for a batch. */
};

EchEngineSays *ech_engine_says_new(void)
{
    EchEngineSays *s = g_new0(EchEngineSays, 1);
    s->sizes = g_array_new(FALSE, FALSE, sizeof(Size));
    s->llama = ech_llama_says_new();
    return s;
}

void ech_engine_says_free(EchEngineSays *s)
{
    if (!s)
        return;
    g_array_unref(s->sizes);
    ech_llama_says_free(s->llama);
    g_free(s);
}

/* ---- wordings that take more than keys ---- */

/* A size, or a number of bytes without a unit. */
static bool amount_after(EchWords line, const char *key, EchRounded *ret)
{
    uint64_t bytes;
    if (ech_words_size_after(line, key, ret))
        return true;
    if (!ech_words_number_after(line, key, &bytes))
        return false;
    *ret = (EchRounded){bytes, 0};
    return true;
}

/* "Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB)." */
static bool read_vllm_start(EchWords line, Figures *f)
{
    EchWords pair = ech_words_after(ech_words_after(line, "emory on device"), "("), wish = ech_words_after(line, "GPU memory utilization (");
    const char *slash = pair.n ? memchr(pair.text, '/', MIN(pair.n, (size_t)24)) : NULL,
               *comma = wish.n ? memchr(wish.text, ',', MIN(wish.n, (size_t)24)) : NULL;
    if (!slash || !comma || !ech_words_size_after(pair, "/", &f->capacity) || !ech_words_size_after(wish, ",", &f->asked))
        return false;
    f->share = g_ascii_strtod(wish.text, NULL);
    double free = g_ascii_strtod(pair.text, NULL) * (1 << 30);
    if (!(free >= 0) || free > (double)f->capacity.bytes || !(f->share > 0) || f->share > 1)
        return false;
    f->free = (EchRounded){(EchBytes)free, f->capacity.slack};
    f->used = (EchRounded){f->capacity.bytes - f->free.bytes, f->capacity.slack};
    EchWords device = ech_words_after(line, "emory on device ");
    const char *colon = device.n ? memchr(device.text, ':', MIN(device.n, (size_t)8)) : NULL;
    g_autofree char *index = colon ? g_strndup(colon + 1, strspn(colon + 1, "0123456789")) : NULL;
    f->has_device = index && ech_parse_u64(index, &f->device, NULL);
    return f->has_asked = f->has_free = f->has_used = f->has_capacity = true;
}

/* " on GPU 1", or nothing where it is not told. Owned by the caller. */
static char *device_of(const Figures *f)
{
    return f->has_device ? g_strdup_printf(" on GPU %" G_GUINT64_FORMAT, f->device) : g_strdup("");
}

static void say_vllm_start(const Figures *f, EchDiag *diag)
{
    g_autofree char *free = ech_format_bytes(f->free.bytes), *all = ech_format_bytes(f->capacity.bytes), *wish = ech_format_bytes(f->asked.bytes),
                    *held = ech_format_bytes(f->used.bytes);
    double most = floor((double)f->free.bytes / (double)f->capacity.bytes * 100) / 100;
    g_autofree char *device = device_of(f),
                    *missing = ech_format_bytes((f->asked.bytes - MIN(f->asked.bytes, f->free.bytes) + MIB / 2) / MIB * MIB); /* told in hundredths of a GiB */
    ech_diag_remark(diag, "vLLM means to take %s%s (%g of %s), and %s were free when it began: %s too little", wish, device, f->share, all, free, missing);
    g_autofree char *who = g_strdup_printf("%s were held by others: nvidia-smi names them (an earlier run that has not ended, another server, a desktop), its "
                                           "own context, some 300 to 600 MiB, among them",
                                           held);
    /* Less than a context takes is left to the model, or less than a share with two digits tells. */
    if (f->free.bytes < UINT64_C(1) << 30 || most <= 0)
        ech_diag_remark(diag, "%s. They have to go, or vLLM to another GPU (CUDA_VISIBLE_DEVICES): in %s no --gpu-memory-utilization has room for a model", who,
                        free);
    else
        ech_diag_remark(diag,
                        "%s. Free that; --gpu-memory-utilization %g or less passes this check too, and weights, the peak of a trial run and the KV cache then "
                        "have to fit into so much less",
                        who, most);
}

/* "To serve at least one request with the model's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory
 * (3.18 GiB)." */
static bool read_vllm_cache(EchWords line, Figures *f)
{
    f->has_asked = ech_words_size_before(line, " KV cache is needed", &f->asked);
    f->has_capacity = ech_words_size_after(line, "available KV cache memory (", &f->capacity);
    if (!ech_words_number_after(line, "max seq len (", &f->tokens))
        f->tokens = 0;
    if (!ech_words_number_after(line, "estimated maximum model length is ", &f->fitting))
        f->fitting = 0;
    return f->has_asked && f->has_capacity;
}

static void say_vllm_cache(const Figures *f, EchDiag *diag)
{
    g_autofree char *needed = ech_format_bytes(f->asked.bytes), *room = ech_format_bytes(f->capacity.bytes);
    if (f->tokens) {
        g_autofree char *each = ech_format_bytes(f->asked.bytes / f->tokens);
        ech_diag_remark(
            diag, "vLLM: one request of %" G_GUINT64_FORMAT " tokens needs %s of KV cache (%s a token), and %s are left for it beside weights and activations",
            f->tokens, needed, each, room);
    } else {
        ech_diag_remark(diag, "vLLM: one request needs %s of KV cache, and %s are left for it beside weights and activations", needed, room);
    }
    g_autofree char *length = f->fitting  ? g_strdup_printf(" %" G_GUINT64_FORMAT, f->fitting)
                              : f->tokens ? g_strdup_printf(" %.0f (as many tokens as it holds, if all take the same)",
                                                            floor((double)f->capacity.bytes / (double)f->asked.bytes * (double)f->tokens))
                                          : g_strdup("");
    ech_diag_remark(
        diag,
        "shorter requests: --max-model-len%s. More room for the cache: --gpu-memory-utilization nearer to 1, fewer --max-num-batched-tokens, a cache of "
        "8 bits (--kv-cache-dtype fp8: half of 16), more GPUs (--tensor-parallel-size)",
        length);
}

/* MLX, of one array: "Attempting to allocate 48736917632 bytes which is greater than the maximum allowed buffer size of 30150672384 bytes.", which Metal sets
 * by the machine (mlx/backend/metal/allocator.cpp). */
static void say_metal_buffer(const Figures *f, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(f->asked.bytes), *most = ech_format_bytes(f->capacity.bytes);
    ech_diag_remark(diag, "MLX was refused one array of %s: Metal gives no buffer larger than %s on this machine, however much memory is free", asked, most);
    ech_diag_remark(diag,
                    "so what else runs does not matter, nor does iogpu.wired_limit_mb: prompts in smaller chunks (mlx_lm's --prefill-step-size), a shorter "
                    "context, a smaller batch or picture, attention that makes no whole matrix (mx.fast.scaled_dot_product_attention) keep arrays below it");
}

/* "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144.00 MiB on device 4: cudaMalloc failed: out of memory" */
static bool read_llama(EchWords line, Figures *f)
{
    f->has_asked = ech_words_size_after(line, "allocating ", &f->asked);
    return f->has_asked && (f->has_device = ech_words_number_after(line, " on device ", &f->device));
}

/* ggml, of a buffer that it has: "ggml_allocr_alloc: not enough space in the buffer (needed 409600000, largest block available 339804192)", "ggml_new_object:
 * not enough space in the context's memory pool (needed 1048704, available 1048576)", "... not enough space in the buffer to allocate 4096 bytes, largest block
 * available 1024 bytes" */
static bool read_ggml_space(EchWords line, Figures *f)
{
    EchWords rest = ech_words_after(line, "not enough space in the ");
    f->has_asked = amount_after(rest, "needed ", &f->asked) || amount_after(rest, "to allocate ", &f->asked);
    f->has_capacity = amount_after(rest, "available ", &f->capacity);
    return f->has_asked && f->has_capacity && f->asked.bytes > f->capacity.bytes;
}

/* The older wording counts the request into its total. */
static bool read_cupy_old(EchWords line, Figures *f)
{
    f->has_asked = ech_words_size_after(line, "out of memory to allocate ", &f->asked);
    f->has_used = f->has_asked && ech_words_size_after(line, "(total ", &f->used) && f->used.bytes >= f->asked.bytes;
    f->has_capacity = ech_words_size_after(line, "limit set to ", &f->capacity);
    if (f->has_used)
        f->used.bytes -= f->asked.bytes;
    return f->has_asked;
}

/* CUDA.jl, of a limit of its own or of the device: "Out of GPU memory trying to allocate 3.725 GiB\nEffective GPU memory usage: 98.21% (7.731 GiB/7.872
 * GiB)\nMemory pool usage: 6.912 GiB (7.156 GiB reserved)" (src/memory.jl) */
static bool read_julia(EchWords line, Figures *f)
{
    EchWords usage = ech_words_after(line, "Effective GPU memory usage: ");
    f->has_used = ech_words_size_after(usage, "% (", &f->used);
    f->has_capacity = f->has_used && ech_words_size_after(ech_words_after(usage, "% ("), "/", &f->capacity);
    return f->has_asked = ech_words_size_after(line, "trying to allocate ", &f->asked);
}

/* "Not enough host memory available. Requesting 40.00 GB but only have 44.87 GB free.": of 10^9 bytes each; before July 2025 what is free counted the 10 GB
 * that it leaves to others (sglang pull request 8102). */
static bool read_hicache(EchWords line, Figures *f)
{
    const double gib = 1 << 30, gb = 1e9;
    f->has_asked = ech_words_size_after(line, "Requesting ", &f->asked);
    f->has_free = ech_words_size_after(line, "but only have ", &f->free);
    f->asked.bytes = ech_rounded_bytes((double)f->asked.bytes / gib * gb);
    f->free.bytes = ech_rounded_bytes((double)f->free.bytes / gib * gb);
    return f->has_asked && f->has_free;
}

/* "out of resource: shared memory, Required: 98304, Hardware limit: 65536", "Hardware limitation: 101376", "shared memoryRequired: 110592Hardware limit:
 * 101376" of releases before 2. */
static bool read_triton(EchWords line, Figures *f)
{
    EchWords required = ech_words_after(line, "Required"), limit = ech_words_after(line, "Hardware limit");
    while (required.n && strchr(": ", *required.text))
        required.text++, required.n--;
    while (limit.n && !g_ascii_isdigit(*limit.text) && *limit.text != '.')
        limit.text++, limit.n--;
    g_autofree char *asked = g_strndup(required.text, MIN(required.n, (size_t)18)), *room = g_strndup(limit.text, MIN(limit.n, (size_t)18));
    f->asked.bytes = g_ascii_strtoull(asked, NULL, 10);
    f->capacity.bytes = g_ascii_strtoull(room, NULL, 10);
    f->has_capacity = f->capacity.bytes != 0;
    return f->has_asked = f->asked.bytes != 0;
}

/* "Kernel requires 262144 bytes of shared memory, which exceeds the device limit of 232448" */
static bool read_xla_shared(EchWords line, Figures *f)
{
    f->has_asked = ech_words_size_before(line, " of shared memory, which", &f->asked);
    return f->has_asked && (f->has_capacity = amount_after(line, "exceeds the device limit of ", &f->capacity));
}

/* ptxas: "Entry function 'k' uses too much shared data (0x1c000 bytes, 0xc000 max)" */
static bool read_ptxas(EchWords line, Figures *f)
{
    EchWords asked = ech_words_after(line, "uses too much shared data ("), most = ech_words_after(asked, " bytes, ");
    g_autofree char *size = g_strndup(asked.text, MIN(asked.n, (size_t)18)), *limit = g_strndup(most.text, MIN(most.n, (size_t)18));
    f->asked.bytes = g_ascii_strtoull(size, NULL, 16);
    f->capacity.bytes = g_ascii_strtoull(limit, NULL, 16);
    f->has_asked = f->has_capacity = f->asked.bytes > f->capacity.bytes && f->capacity.bytes > 0 && ech_words_have(most, " max)");
    return f->has_asked;
}

/* "failed to allocate 7.35G (7889485824 bytes) from device: ..." */
static bool read_driver(EchWords line, Figures *f)
{
    EchWords size = ech_words_after(line, "failed to allocate ");
    return f->has_asked = ech_words_size_after(size, "(", &f->asked) || ech_words_size_after(line, "failed to allocate ", &f->asked);
}

/* "failed to allocate 127.99TiB (140729850295296 bytes) from device: HIP_ERROR_OutOfMemory" */
static void say_pool(const Figures *f, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(f->asked.bytes);
    ech_diag_remark(diag, "the framework's pool was refused %s", asked);
    if (f->asked.bytes > MOST_OF_A_DEVICE)
        ech_diag_remark(diag,
                        "no device has that much: what the framework took for the device's free memory was wrong, as where it was built for another version "
                        "of CUDA or ROCm than the driver is of; who else holds memory does not matter");
    else
        ech_diag_remark(diag,
                        "the framework tried to take that much for its pool at once and asks for less when refused, so this alone is no error; that it was "
                        "refused means that others hold the device's memory: nvidia-smi (rocm-smi) names them");
}

/* "cuMemAllocAsync failed to allocate 281923031072 bytes: ... Reported by CUDA: Free memory/Total memory: 5/10" */
static bool read_driver_pool(EchWords line, Figures *f)
{
    uint64_t free, total;
    f->has_asked = amount_after(line, "failed to allocate ", &f->asked);
    EchWords told = ech_words_after(line, "Free memory/Total memory");
    const char *slash = told.n ? memchr(told.text, '/', told.n) : NULL;
    if (slash && ech_words_number_after((EchWords){told.text, (size_t)(slash - told.text)}, ": ", &free) && ech_words_number_after(told, "/", &total) &&
        free <= total) {
        f->free = (EchRounded){free, 0};
        f->capacity = (EchRounded){total, 0};
        f->has_free = f->has_capacity = true;
    }
    return f->has_asked;
}

/* "... current allocation offset upper bound (140704 words) exceeds the legitimate user allocatable offset upper bound (131071 words) in memory space 201" */
static bool read_sparse_core(EchWords line, Figures *f)
{
    uint64_t words, most;
    EchWords limit = ech_words_after(line, "allocatable offset upper bound");
    if (!ech_words_number_after(line, "offset upper bound (", &words) || !ech_words_number_after(limit, "(", &most) || words > UINT64_C(1) << 40 ||
        most > UINT64_C(1) << 40)
        return false;
    f->asked = (EchRounded){words * 4, 0};
    f->capacity = (EchRounded){most * 4, 0};
    return f->has_asked = f->has_capacity = true;
}

#define SHARED_MEMORY                                                                                                                                          \
    "this is memory on the chip that one block of a kernel shares, not the GPU's: the kernel fits with smaller blocks or fewer stages (num_stages buffers of " \
    "each tile it loads), or was tuned for a GPU with more of it; what else runs does not matter"
#define PAGE_LOCKED                                                                                                                                            \
    "that is page-locked memory, for copies to the device, which the driver gives less of than there is: 'ulimit -l' and a container's limit bound it, under " \
    "WSL 2 Windows does; the framework asks for less when refused, so this alone is no error"
/* ggml/src/ggml-alloc.c: of a graph, what lies between its nodes */
#define SCRATCH "ggml_gallocr_reserve_n"
#define SCRATCH_GROWS                                                                                                                                          \
    "that is scratch memory for a batch (compute buffer), of which fewer layers here take nothing: it grows with the batch (-ub; of ollama num_batch) and, "   \
    "where attention is not flash attention (-fa on; of ollama OLLAMA_FLASH_ATTENTION=1; some models and backends have none), with batch times context (-c, "  \
    "num_ctx); pipelines over several GPUs keep more"
#define SCRATCH_LESS SCRATCH_GROWS ". Where it is no more than some GiB, fewer layers on this device (-ngl, --tensor-split; of ollama num_gpu) leave it room"
#define LM_STUDIO                                                                                                                                              \
    "the context counts most where it is long (a model's own may be a million tokens), and what is loaded already: a shorter context, a KV cache of 8 bits "   \
    "and unloading the model before need less. Where the estimate is wrong, 'Load anyway' or a lower level of guardrails in its settings tries it; what it "   \
    "then takes, its log of llama.cpp tells, which echelon reads"
#define HOST_MEMORY "that is not the device: the program itself, data loaders' workers, page-locked buffers and offloaded state share it"

#define TENSORRT                                                                                                                                               \
    "engines take their weights and activations in one piece each: built for smaller batches and shorter sequences (max_batch_size, max_num_tokens), with "    \
    "lower "                                                                                                                                                   \
    "precision or over more GPUs they need less; a KV cache that the runtime made before (free_gpu_memory_fraction) and other processes hold the rest"

#define PADDLE "nvidia-smi says who holds it; a smaller batch or recomputation (paddle.distributed.fleet.utils.recompute) needs less"

/* "Model loading was stopped due to insufficient system resources. Under the current settings, this model requires approximately 22.92 GB of memory": nothing
 * was asked for yet. */
static void say_lm_studio(const Figures *f, EchDiag *diag)
{
    g_autofree char *asked = ech_format_bytes(f->asked.bytes);
    ech_diag_remark(diag, "LM Studio did not try to load the model: by its estimate it would take %s, of GPUs and the host together; no memory was refused",
                    asked);
    ech_diag_remark(diag, "%s", LM_STUDIO);
}

static const Wording wordings[] = {
    {.mark = "emory on device ",
     .also = "on startup is less than desired GPU memory utilization",
     .who = "vLLM",
     .memory = "hbm",
     .holder = "held by others",
     .read = read_vllm_start,
     .say = say_vllm_start},
    {.mark = "To serve at least one request with the model",
     .also = "KV cache is needed",
     .who = "vLLM",
     .memory = "hbm",
     .read = read_vllm_cache,
     .say = say_vllm_cache},
    {.mark = "Attempting to allocate ",
     .also = "maximum allowed buffer size of ",
     .who = "MLX",
     .memory = "hbm",
     .asked = "Attempting to allocate ",
     .capacity = "maximum allowed buffer size of ",
     .say = say_metal_buffer},
    {.mark = "Unable to allocate ", .before = "[malloc", .who = "MLX", .memory = "hbm", .asked = "Unable to allocate ", .advice = ECH_MAC_LESS},
    {.mark = "[malloc] Unable to allocate ", .who = "MLX", .memory = "hbm", .asked = "Unable to allocate ", .advice = ECH_MAC_LESS},
    {.mark = "[malloc_or_wait] Unable to allocate ", .who = "MLX", .memory = "hbm", .asked = "Unable to allocate ", .advice = ECH_MAC_LESS},
    {.mark = "allocating ",
     .also = "cudaMalloc failed: out of memory",
     .who = "llama.cpp",
     .memory = "hbm",
     .read = read_llama,
     .advice =
         "fewer layers on this device (-ngl, --tensor-split), a shorter context (-c) or a KV cache of 8 bits (--cache-type-k q8_0), a smaller batch (-ub) "
         "need less of it"},
    {.mark = "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size ",
     .who = "llama.cpp",
     .memory = "host",
     .asked = "buffer of size ",
     .advice = "that is not the device: a shorter context (-c; where none is given the model's own, which may be a million tokens), a KV cache of 8 bits "
               "(--cache-type-k q8_0) or more layers on the GPU (-ngl) need less of it"},
    {.mark = SCRATCH, /* of several releases */
     .also = "failed to allocate ",
     .who = "llama.cpp",
     .memory = "hbm",
     .asked = "buffer of size ",
     .advice = SCRATCH_LESS},
    {.mark = "not enough space in the ",
     .also = "available ",
     .who = "ggml",
     .memory = "workspace",
     .read = read_ggml_space,
     .advice =
         "the program reckons the size of that buffer itself before it starts, and what lies in it did not fit: a fault of the program, or of a setting that "
         "it did not reckon with, not of how much memory there is. Another release, or a batch and context as the model is mostly run with, may do"},
    {.mark = "out of resource: ", .also = "Hardware limit", .who = "Triton", .memory = "shared", .read = read_triton, .advice = SHARED_MEMORY},
    {.mark = "Failed to allocate memory for ",
     .also = " in AlignedAllocator", /* flashinfer's include/flashinfer/allocator.h */
     .who = "FlashInfer",
     .memory = "workspace",
     .asked = " with size ",
     .advice =
         "that is a buffer of a fixed size that attention is given for its intermediate results, not the device's memory: more sequences or longer ones at "
         "once need more of it, and what else runs does not matter (SGLang: SGLANG_FLASHINFER_WORKSPACE_SIZE, before FLASHINFER_WORKSPACE_SIZE, in bytes)"},
    {.mark = " of shared memory, which exceeds the device limit of ", .who = "XLA", .memory = "shared", .read = read_xla_shared, .advice = SHARED_MEMORY},
    {.mark = "exceeds available shared memory: smem_bytes=", /* jax/experimental/mosaic/gpu/core.py */
     .also = " > max_smem_bytes=",
     .who = "Pallas (Mosaic GPU)",
     .memory = "shared",
     .asked = ": smem_bytes=",
     .capacity = " > max_smem_bytes=",
     .advice = SHARED_MEMORY},
    {.mark = "uses too much shared data (", .who = "ptxas", .memory = "shared", .read = read_ptxas, .advice = SHARED_MEMORY},
    {.mark = "Shared memory size limit exceeded: requested ",
     .who = "XLA",
     .memory = "shared",
     .asked = "requested ",
     .capacity = "available",
     .advice = SHARED_MEMORY},
    {.mark = "ggml_vulkan: Device memory allocation of size ",
     .who = "llama.cpp",
     .memory = "hbm",
     .asked = "allocation of size ",
     .advice =
         "fewer layers on this device (-ngl), a shorter context (-c), a smaller batch (-ub) need less of it; where the log says that the buffer is larger than "
         "the driver allows for one, GGML_VK_FORCE_MAX_ALLOCATION_SIZE bounds them"},
    {.mark = "Requested amount of GPU memory (", .who = "TensorRT", .memory = "hbm", .asked = "Requested amount of GPU memory (", .advice = TENSORRT},
    {.mark = "OutOfMemory (Requested size was ", .who = "TensorRT", .memory = "hbm", .asked = "Requested size was ", .advice = TENSORRT},
    {.mark = "pool size exceeded (failed to allocate ", .who = "RMM", .memory = "hbm", .asked = "(failed to allocate ", .advice = ECH_RMM_POOL},
    {.mark = "CUDA error (failed to allocate ", /* rmm's detail/error.hpp */
     .also = "out_of_memory",
     .who = "RMM",
     .memory = "hbm",
     .asked = "(failed to allocate ",
     .advice =
         "the driver had no such piece left, for no pool's limit: nvidia-smi says who holds the rest (PyTorch's cache and RMM's pool, where both are in use, "
         "do not share: rmm.allocators.torch.rmm_torch_allocator makes one of them); less at a time, or memory that spills to the host "
         "(rmm.mr.ManagedMemoryResource, cudf's spill option)"},
    {.mark = "allocation offset upper bound (",
     .also = "exceeds the legitimate user allocatable offset upper bound",
     .who = "XLA's compiler of SparseCores",
     .memory = "spmem",
     .read = read_sparse_core,
     .advice = "this is the scratchpad of a tile of a SparseCore, not HBM: smaller batches, fewer or narrower embeddings at once need less"},
    {.mark = "Cannot allocate ",
     .also = "available memory is only ",
     .who = "PaddlePaddle",
     .memory = "hbm",
     .holder = "allocated on the device, by whomever",
     .asked = "Cannot allocate ",
     .used_by = " memory has been allocated",
     .free = "available memory is only ",
     .advice = PADDLE},
    {.mark = "Cannot allocate ", /* of 2019 */
     .also = "GPU memory, available memory is ",
     .who = "PaddlePaddle",
     .memory = "hbm",
     .asked = "Cannot allocate ",
     .free = "available memory is ",
     .advice = PADDLE},
    {.mark = "Out of memory allocating ",
     .also = "(allocated so far",
     .who = "CuPy",
     .memory = "hbm",
     .holder = "CuPy's pool",
     .asked = "Out of memory allocating ",
     .used = "(allocated so far",
     .capacity = "limit set to",
     .advice = "free_all_blocks() of cupy.get_default_memory_pool() gives back what it keeps unused; its set_limit() sets how much it may take"},
    {.mark = "out of memory to allocate ",
     .also = "bytes (total ",
     .who = "CuPy",
     .memory = "hbm",
     .holder = "CuPy's pool",
     .read = read_cupy_old,
     .advice = "free_all_blocks() of cupy.get_default_memory_pool() gives back what it keeps unused"},
    {.mark = "Failed to allocate CUDA memory with byte size ",
     .who = "Triton's server",
     .memory = "hbm",
     .asked = "with byte size ",
     .warns = true,
     .advice =
         "that is its own pool for inputs and results (--cuda-memory-pool-byte-size=GPU:BYTES, 64 MiB of each GPU unless set), not all of the GPU, and it "
         "goes on with page-locked memory of the host, from which copies are slower: a warning, not an error; a larger pool, or fewer requests at once, "
         "and it stays on the GPU"},
    {.mark = "Failed to allocate pinned system memory with byte size ",
     .who = "Triton's server",
     .memory = "host",
     .asked = "with byte size ",
     .warns = true,
     .advice =
         "that is its own pool of page-locked memory (--pinned-memory-pool-byte-size, 256 MiB unless set), and it goes on with ordinary memory, from which "
         "copies to a GPU are slower: a warning, not an error"},
    {.mark = "Failed to allocate memory for requested buffer of size ",
     .who = "ONNX Runtime",
     .memory = "hbm",
     .asked = "requested buffer of size ",
     .advice =
         "its arena grows by powers of two and keeps what it has: arena_extend_strategy kSameAsRequested takes less, gpu_mem_limit bounds it; other processes "
         "and sessions hold the rest"},
    {.mark = "is smaller than requested bytes of ",
     .who = "ONNX Runtime",
     .memory = "hbm",
     .asked = "requested bytes of ",
     .free = "Available memory of ",
     .advice = "a limit of its arena stands (gpu_mem_limit, max_mem of OrtArenaCfg)"},
    {.mark = "Out of GPU memory trying to allocate ",
     .who = "CUDA.jl",
     .memory = "hbm",
     .holder = "allocated on the device, by whomever",
     .read = read_julia,
     .advice =
         "GC.gc(true) collects arrays that nothing refers to and CUDA.reclaim() gives back what the pool keeps of them (CUDA.pool_status() says how much); "
         "CUDA.unsafe_free!(x) does not wait for either"},
    {.mark = "model requires more system memory (",
     .also = "than is available (",
     .who = "ollama",
     .memory = "host",
     .asked = "model requires more system memory (",
     .free = "than is available (",
     .advice = "what of the model does not fit on GPUs has to fit there: a model of fewer bits, a shorter context (num_ctx), fewer requests at once "
               "(OLLAMA_NUM_PARALLEL)"},
    {.mark = "Model loading was stopped",
     .also = "this model requires approximately ",
     .who = "LM Studio",
     .memory = "host",
     .asked = "this model requires approximately ",
     .say = say_lm_studio},
    {.mark = "Not enough host memory available. Requesting ",
     .who = "SGLang",
     .memory = "host",
     .read = read_hicache,
     .advice =
         "that is the cache on the host (--enable-hierarchical-cache), of which each rank takes as much (times --tp) and leaves 10 GB to others: a smaller "
         "--hicache-size (in GB) or --hicache-ratio (times the cache on the GPU)"},
    {.mark = "you tried to allocate ", .who = "PyTorch", .memory = "host", .asked = "you tried to allocate ", .advice = HOST_MEMORY},
    {.mark = "failed to alloc ",
     .also = " bytes on host: CUDA_ERROR_OUT_OF_MEMORY",
     .who = "the framework",
     .memory = "host",
     .asked = "failed to alloc ",
     .advice = PAGE_LOCKED},
    {.mark = "cuMemAllocAsync failed to allocate ",
     .who = "cudaMallocAsync's pool",
     .memory = "hbm",
     .holder = "allocations of this process",
     .read = read_driver_pool,
     .advice = "use less at a time (a smaller batch, rematerialisation, offload); where much is free all the same, the pool's limit stands "
               "(JAX's XLA_PYTHON_CLIENT_MEM_FRACTION, .75 of the memory unless set)"},
    {.mark = "failed to allocate ", .also = " bytes) from device: ", .who = "the framework's pool", .memory = "hbm", .read = read_driver, .say = say_pool},
};

/* ---- lines ---- */

/* The histogram of cudaMallocAsync's allocations that XLA and TensorFlow log, of the first thread that does: sizes that rise. */
static bool read_size(EchEngineSays *s, EchWords before, EchWords line)
{
    Size size;
    EchWords words = ech_words_trim(before.text, before.n);
    const char *file = ech_words_find(before, "cudamallocasync_allocator.cc:");
    const char *comma = file ? memchr(line.text, ',', MIN(line.n, (size_t)24)) : NULL;
    g_autofree char *first = comma ? g_strndup(line.text, (gsize)(comma - line.text)) : NULL;
    if (!comma || !ech_parse_u64(first, &size.bytes, NULL) || !ech_words_number_after(line, ",", &size.n) || size.n == 0 || size.bytes == 0 ||
        size.bytes > (UINT64_C(1) << 60) / size.n)
        return false;
    /* "E1103 18:23:55.102250 3413764 gpu_cudamallocasync_allocator.cc:73]": the word before the file is the thread. */
    words.n = (size_t)(file - words.text);
    while (words.n && !g_ascii_isspace(words.text[words.n - 1]))
        words.n--;
    words = ech_words_trim(words.text, words.n);
    size_t begin = words.n;
    while (begin && !g_ascii_isspace(words.text[begin - 1]))
        begin--;
    g_autofree char *thread = g_strndup(words.text + begin, words.n - begin);
    bool rises = s->sizes->len == 0 || g_array_index(s->sizes, Size, s->sizes->len - 1).bytes < size.bytes;
    if (s->sizes->len == 0)
        g_strlcpy(s->thread, thread, sizeof s->thread);
    if (rises && strncmp(thread, s->thread, sizeof s->thread - 1) == 0 && s->sizes->len < MAX_SIZES)
        g_array_append_val(s->sizes, size);
    return true;
}

static bool read_keys(const Wording *w, EchWords sentence, Figures *f)
{
    f->has_asked = amount_after(sentence, w->asked, &f->asked);
    f->has_used = (w->used && amount_after(sentence, w->used, &f->used)) || (w->used_by && ech_words_size_before(sentence, w->used_by, &f->used));
    f->has_free = w->free && amount_after(sentence, w->free, &f->free);
    f->has_capacity = w->capacity && amount_after(sentence, w->capacity, &f->capacity);
    return f->has_asked;
}

static bool is_of_llama(const EchEngineSays *s)
{
    return s->wording && strcmp(s->wording->who, "llama.cpp") == 0;
}

bool ech_engine_says_line(EchEngineSays *s, EchWords before, EchWords line, EchWords sentence)
{
    if (read_size(s, before, line))
        return true;
    ech_llama_says_line(s->llama, line);
    s->of_diffusion |=
        ech_words_have(before, "stable-diffusion.cpp") || ech_words_have(line, "stable-diffusion.cpp") || ech_words_have(line, "ggml_extend.hpp");
    s->too_large |= ech_words_have(line, "Requested buffer size exceeds device");
    s->scratch |= s->wording && ech_words_have(line, SCRATCH) && !s->later;
    s->jetson |= ech_words_have(line, "NvMapMem") && ech_words_have(line, "error 12");
    /* llama_context of llama.cpp: scratch memory for batches in a pipeline over its GPUs, which it does without */
    if (is_of_llama(s) && ech_words_have(line, "retrying without pipeline parallelism"))
        return s->only_tried = true;
    for (size_t i = 0; i < G_N_ELEMENTS(wordings); i++) {
        const Wording *w = &wordings[i];
        Figures f = {0};
        if (!ech_words_begin(line, sentence, w->mark) || (w->before && !ech_words_have(before, w->before)) || (w->also && !ech_words_have(sentence, w->also)) ||
            !(w->read ? w->read(sentence, &f) : read_keys(w, sentence, &f)))
            continue;
        bool trial = w->warns || ech_words_have(before, "select_algorithm.py") || ech_words_have(sentence, "Ignoring this choice");
        if (!s->wording || (s->only_tried && !trial)) {
            s->wording = w;
            s->figures = f;
            s->scratch = ech_words_have(line, SCRATCH);
            s->only_tried = trial;
            s->later = 0;
        } else {
            bool elsewhere = f.has_device && s->figures.has_device && f.device != s->figures.device;
            s->later += elsewhere || !ech_rounded_is(&s->figures.asked, f.asked.bytes);
        }
        return true;
    }
    return false;
}

bool ech_engine_says_any(const EchEngineSays *s)
{
    return s->wording || s->sizes->len;
}

bool ech_engine_says_sizes(const EchEngineSays *s)
{
    return s->sizes->len > 0;
}

void ech_engine_says_parts(const EchEngineSays *s, EchDiag *diag)
{
    if (ech_llama_says_any(s->llama))
        ech_llama_says_say(s->llama, diag);
}

bool ech_engine_says_probe(const char *head, size_t n)
{
    for (size_t i = 0; i < G_N_ELEMENTS(wordings); i++) {
        const Wording *w = &wordings[i];
        if (!w->before && memmem(head, n, w->mark, strlen(w->mark)) && (!w->also || memmem(head, n, w->also, strlen(w->also))))
            return true;
    }
    return memmem(head, n, "cudamallocasync_allocator.cc:", 29) != NULL;
}

/* ---- what it comes to ---- */

static void say(const EchEngineSays *s, EchBytes listed, EchDiag *diag)
{
    const Figures *f = &s->figures;
    const Wording *w = s->wording;
    g_autofree char *asked = ech_format_bytes(f->asked.bytes), *used = ech_format_bytes(f->used.bytes), *free = ech_format_bytes(f->free.bytes),
                    *room = ech_format_bytes(f->capacity.bytes), *sum = ech_format_bytes(listed);
    g_autoptr(GString) text = g_string_new(NULL);
    if (w->say) {
        w->say(f, diag);
        return;
    }
    if (s->only_tried && is_of_llama(s)) {
        ech_diag_remark(diag,
                        "nothing failed by that: llama.cpp was refused %s of scratch memory for batches in a pipeline over its GPUs, and tried again without "
                        "pipeline parallelism, which needs less",
                        asked);
        return;
    }
    if (s->only_tried && !w->warns) {
        ech_diag_remark(
            diag,
            "nothing failed: while it was tuning, torch.compile tried a kernel that needs %s of shared memory, where the GPU has %s for one block, left it "
            "out and went on with others",
            asked, room);
        return;
    }
    bool of_diffusion = is_of_llama(s) && s->of_diffusion;
    g_autofree char *device = device_of(f);
    g_string_append_printf(text, "%s was refused %s%s%s", of_diffusion ? "stable-diffusion.cpp" : w->who, asked,
                           strcmp(w->memory, "shared") == 0      ? " of shared memory"
                           : strcmp(w->memory, "spmem") == 0     ? " of the scratchpad"
                           : strcmp(w->memory, "workspace") == 0 ? " of its workspace"
                           : strcmp(w->memory, "host") == 0      ? " of the host's memory"
                                                                 : "",
                           device);
    if (f->has_used)
        g_string_append_printf(text, ", with %s in use", used);
    else if (listed)
        g_string_append_printf(text, ", with %s that it tells of on that device", sum);
    if (f->has_free)
        g_string_append_printf(text, ", %s free", free);
    if (f->has_capacity && f->asked.bytes > f->capacity.bytes) {
        g_autofree char *over = ech_format_bytes(f->asked.bytes - f->capacity.bytes);
        g_string_append_printf(text, ", of %s there are: %s too much", room, over);
    } else if (f->has_capacity) {
        g_string_append_printf(text, ", of %s there are", room);
    }
    ech_diag_remark(diag, "%s", text->str);
    if (s->too_large)
        ech_diag_remark(diag, "it is larger than the driver allows one buffer to be, however much is free");
    ech_diag_remark(diag, "%s",
                    of_diffusion ? "a smaller picture, --vae-tiling, --diffusion-fa, weights of fewer bits (--type q8_0, q4_0), what is not in use on the host "
                                   "(--offload-to-cpu, --clip-on-cpu, --vae-on-cpu) need less of it"
                    : is_of_llama(s) && s->scratch ? s->too_large ? SCRATCH_GROWS : SCRATCH_LESS
                                                   : w->advice);
}

bool ech_engine_says_write(const EchEngineSays *s, const char *where, EchTraceBuilder *builder, EchImport *import, GError **error)
{
    const Figures *f = &s->figures;
    if (f->has_asked && f->asked.bytes >= UINT64_C(1) << 55) {
        g_autofree char *asked = ech_format_bytes(f->asked.bytes);
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_PARSE,
            "%s: %s asked for %s: no array is that large; the size is wrong (a negative or uninitialised dimension, a damaged file), memory did not run out",
            where, s->wording->who, asked);
        return false;
    }
    EchId memory = ech_trace_builder_memory(builder, s->wording ? s->wording->memory : "hbm");
    EchBytes listed = 0;
    ech_trace_builder_set_property(builder, "sums_only", "true");
    if (s->wording && strcmp(s->wording->memory, "hbm") != 0 && strcmp(s->wording->memory, "host") != 0)
        ech_trace_builder_set_property(builder, "limit_of_a_kernel", "true");
    for (guint i = s->sizes->len; i-- > 0;) {
        const Size *size = &g_array_index(s->sizes, Size, i);
        g_autofree char *each = ech_format_bytes(size->bytes), *name = g_strdup_printf("%" G_GUINT64_FORMAT " of %s", size->n, each);
        ech_refused_held(builder, memory, name, size->bytes * size->n);
        listed = ech_bytes_add(listed, size->bytes * size->n);
    }
    if (s->wording && s->wording->read == read_llama)
        listed = ech_bytes_add(listed, ech_llama_says_held(s->llama, f->device, builder, memory));
    if (listed == 0 && f->has_used && s->wording->holder)
        ech_refused_held(builder, memory, s->wording->holder, f->used.bytes);
    if (s->wording) {
        ech_refused_number(builder, "asked_for_bytes", f->has_asked, f->asked.bytes);
        ech_refused_number(builder, "had_bytes", f->has_capacity, f->capacity.bytes);
        ech_refused_request(builder, memory, "what was asked for", NULL, f->asked.bytes);
    }
    if (s->wording)
        say(s, listed, import->diag);
    if (is_of_llama(s) && !s->only_tried)
        ech_llama_says_refused(s->llama, f->has_device ? f->device : UINT64_MAX, f->asked.bytes, import->diag);
    if (s->jetson)
        ech_diag_remark(
            import->diag,
            "that is a Jetson (NvMap, error 12: out of memory), whose GPU and CPU share one memory: 'free -h' and tegrastats tell who holds it, swap "
            "does not help the GPU. Fewer programs beside it (the desktop), and files that the kernel keeps in memory let go before it starts ('sync; "
            "echo 3 | sudo tee /proc/sys/vm/drop_caches'), make room");
    if (s->sizes->len) {
        g_autofree char *sum = ech_format_bytes(listed);
        ech_diag_remark(import->diag, "cudaMallocAsync's pool held allocations of %s, told by size; which arrays those are the log does not say", sum);
    }
    if (s->later)
        ech_diag_note(import->diag, "reports_after_the_first", s->later);
    return true;
}
