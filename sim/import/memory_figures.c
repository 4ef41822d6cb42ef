/* What programs and tools print of memory in use. Figures become a trace of what was there, as those of a message about refused memory do. */
#include "sim/import/memory_figures.h"
#include "sim/base/error.h"
#include "sim/import/comfy_says.h"
#include "sim/import/gpu_tools.h"
#include "sim/import/host_says.h"
#include "sim/import/llama_says.h"
#include "sim/import/memory_texts.h"
#include "sim/import/plain_says.h"
#include "sim/import/pool_says.h"
#include "sim/import/refused.h"
#include "sim/import/tensorrt_says.h"

#include <math.h>
#include <string.h>

#define SGLANG_MAX_BS "--cuda-graph-max-bs-decode (older: --cuda-graph-max-bs)"

enum { MAX_ARRAYS = 1 << 16, MAX_ESTIMATES = 16, MAX_NODES = 1 << 12, MAX_NAME = 120, MAX_GRAPHS = 8 };

/* Of XLA's memory_analysis(); [1]: of the host's memory. */
typedef enum { CODE, ARGUMENTS, RESULTS, ALIASED, TEMPORARIES, N_PARTS } Part;

typedef struct {
    bool any;
    EchBytes parts[2][N_PARTS];
} Compiled;

typedef struct {
    bool has_weights, has_cache, has_total, has_graphs, has_activations;
    bool asked_for; /* The cache's size is one that was told. */
    bool tpu;       /* Of all chips of a TPU together, not of one GPU; weights: all that is in use before the cache. */
    bool consumed;  /* weights: with what is beside PyTorch */
    EchRounded weights, total, graphs, activations;
    EchRounded peak, beside;               /* of the trial run, weights among it; beside PyTorch. bytes 0: not told */
    double cache;                          /* bytes for keys and values; below 0: how much is missing */
    uint64_t tokens, per_request, least;   /* that the cache holds; of a request; that the largest request may have */
    double times;                          /* as many such requests fit; 0: not told */
    double share;                          /* of the memory; 0: not told */
    EchRounded freed, kept, dropped, left; /* by sleeping: of the GPU; on the host; neither; what it still holds. bytes 0: not told */
} Vllm;

/* CUDA graphs of one kind: "target decode CUDA". */
typedef struct {
    char kind[32];
    EchBytes bytes;
} Graphs;

/* Of one GPU, as SGLang tells while it starts. */
typedef struct {
    bool has_weights, has_left;
    bool captures;          /* It has begun to capture graphs, and not ended. */
    bool cacheless;         /* Nothing was left for its cache. */
    double share;           /* of what is free before the weights are loaded, that weights and cache get; 0: not told */
    EchBytes before, after; /* free before the weights and with them; 0: not told */
    EchRounded weights, left;
    Graphs graphs[MAX_GRAPHS];
    unsigned n_graphs;
    EchBytes cache;
    uint64_t tokens;
} Sglang;

/* Arrays of one shape: "f32[4096,4096]". */
typedef struct {
    char *name;
    EchBytes bytes; /* each */
} Array;

/* DeepSpeed's estimate of what ZeRO takes: how much of each GPU and of a node's memory, by options. */
typedef struct {
    EchRounded gpu, host;
    char options[128];
} Estimate;

struct EchMemoryFigures {
    bool beside; /* a message about refused memory */
    bool ran_out;
    char refused[96]; /* the line that says so, where that gives no sizes */
    EchPlace place;   /* whose memory that was */
    EchPoolSays *pool;
    EchHostSays *host;
    EchComfySays *comfy;
    EchGpuTools *tools;
    EchLlamaSays *llama;
    EchTensorrtSays *tensorrt;
    Compiled compiled, one;
    bool of_torch; /* by PyTorch/XLA */
    uint64_t programs;
    Vllm vllm;
    Sglang sglang;
    GArray *arrays;           /* Array */
    bool untyped;             /* 4 bytes an element were assumed of some */
    GArray *nodes;            /* Array, of TensorFlow's report */
    bool in_nodes, has_nodes; /* has_nodes: a list has ended; one of another device or a later refusal is not added to it */
    GArray *estimates;        /* Estimate */
    bool in_estimates;
    char model[96]; /* that they are of */
};

static void array_clear(gpointer data)
{
    g_free(((Array *)data)->name);
}

EchMemoryFigures *ech_memory_figures_new(bool beside)
{
    EchMemoryFigures *f = g_new0(EchMemoryFigures, 1);
    f->pool = ech_pool_says_new(!beside);
    f->beside = beside;
    f->tools = ech_gpu_tools_new();
    f->host = ech_host_says_new();
    f->comfy = ech_comfy_says_new();
    f->llama = ech_llama_says_new();
    f->tensorrt = ech_tensorrt_says_new();
    f->arrays = g_array_new(FALSE, TRUE, sizeof(Array));
    f->nodes = g_array_new(FALSE, TRUE, sizeof(Array));
    f->estimates = g_array_new(FALSE, TRUE, sizeof(Estimate));
    g_array_set_clear_func(f->arrays, array_clear);
    g_array_set_clear_func(f->nodes, array_clear);
    return f;
}

void ech_memory_figures_free(EchMemoryFigures *f)
{
    if (!f)
        return;
    ech_pool_says_free(f->pool);
    ech_gpu_tools_free(f->tools);
    ech_host_says_free(f->host);
    ech_comfy_says_free(f->comfy);
    ech_llama_says_free(f->llama);
    ech_tensorrt_says_free(f->tensorrt);
    g_array_unref(f->arrays);
    g_array_unref(f->nodes);
    g_array_unref(f->estimates);
    g_free(f);
}

/* ---- XLA's programs ---- */

static EchBytes needs(const Compiled *c, int space)
{
    EchBytes all = 0;
    for (int part = 0; part < N_PARTS; part++)
        all = part == ALIASED ? all : ech_bytes_add(all, c->parts[space][part]);
    return all - MIN(all, c->parts[space][ALIASED]);
}

/* Of several the one that takes most; the last is told until the text ends. */
static const Compiled *largest(const EchMemoryFigures *f)
{
    return f->one.any && (!f->compiled.any || needs(&f->one, 0) >= needs(&f->compiled, 0)) ? &f->one : &f->compiled;
}

/* CompiledMemoryStats(generated_code_size_in_bytes=5792, argument_size_in_bytes=131072, ...): on one line or on many. */
static bool read_compiled(EchMemoryFigures *f, EchWords line)
{
    static const char *const names[N_PARTS] = {"generated_code", "argument", "output", "alias", "temp"};
    bool any = ech_words_have(line, "CompiledMemoryStats(");
    if (any) {
        f->compiled = *largest(f);
        f->one = (Compiled){0};
        f->programs++;
    }
    for (int part = 0; part < N_PARTS && ech_words_have(line, "_size_in_bytes"); part++) {
        for (int host = 0; host < 2; host++) {
            g_autofree char *key = g_strdup_printf("%s%s_size_in_bytes", host ? "host_" : "", names[part]);
            uint64_t value;
            EchWords rest = ech_words_after(line, key);
            /* "argument" stands in "host_argument" too. */
            while (rest.n && !host && rest.text - strlen(key) > line.text && rest.text[-(ptrdiff_t)strlen(key) - 1] == '_')
                rest = ech_words_after(rest, key);
            EchWords value_of = rest.n && strchr("=:", *rest.text) ? ech_words_trim(rest.text + 1, rest.n - 1) : rest;
            if (rest.n == 0 || !ech_words_number_after(value_of, "", &value) || value >= UINT64_C(1) << 60)
                continue;
            f->one.parts[host][part] = value;
            f->one.any = any = true;
        }
    }
    return any;
}

/* The same as MaxText prints it, in units of 2^30 bytes: "Total memory size: 29.3 GB, Output size: 7.4 GB, Temp size: 21.9 GB, Argument size: 7.4 GB, Host temp
 * size: 0.0 GB."; what the parts are more than the whole lies in both arguments and results. */
static bool read_compiled_sums(EchMemoryFigures *f, EchWords line)
{
    static const char *const keys[] = {"Total memory size: ", "Output size: ", "Temp size: ", "Argument size: ", "Host temp size: "};
    enum { TOTAL, OUTPUT, TEMP, ARGUMENT, HOST, N_SUMS };
    EchRounded sums[N_SUMS];
    for (int i = 0; i < N_SUMS; i++) {
        if (!ech_words_size_after(line, keys[i], &sums[i]))
            return false;
    }
    f->compiled = *largest(f);
    f->one = (Compiled){.any = true};
    f->programs++;
    EchBytes *p = f->one.parts[0], parts = ech_bytes_add(ech_bytes_add(sums[OUTPUT].bytes, sums[TEMP].bytes), sums[ARGUMENT].bytes);
    p[RESULTS] = sums[OUTPUT].bytes;
    p[TEMPORARIES] = sums[TEMP].bytes;
    p[ARGUMENTS] = sums[ARGUMENT].bytes;
    f->one.parts[1][TEMPORARIES] = sums[HOST].bytes;
    double slack = 0;
    for (int i = 0; i < HOST; i++)
        slack += sums[i].slack;
    if (parts > sums[TOTAL].bytes && (double)(parts - sums[TOTAL].bytes) > slack)
        p[ALIASED] = MIN(parts - sums[TOTAL].bytes, MIN(p[RESULTS], p[ARGUMENTS]));
    return true;
}

/* PT_XLA_DEBUG_LEVEL's "Graph input size: 1.548000 GB", of 2^30 bytes, and so on, a line each (torch_xla/csrc/debug_util.cpp). */
static bool read_compiled_torch(EchMemoryFigures *f, EchWords line)
{
    static const char *const keys[N_PARTS] = {
        "Compiled program size: ", "Graph input size: ", "Graph output size: ", "Aliased Input size: ", "Intermediate tensor size: "};
    if (!ech_words_have(line, "Compilation Analysis: "))
        return false;
    for (int part = 0; part < N_PARTS; part++) {
        EchRounded size;
        if (!ech_words_size_after(line, keys[part], &size))
            continue;
        if (part == ARGUMENTS) {
            f->compiled = *largest(f);
            f->one = (Compiled){0};
            f->programs++;
        }
        f->one.parts[0][part] = size.bytes;
        return f->one.any = f->of_torch = true;
    }
    return false;
}

static void say_compiled(const EchMemoryFigures *f, EchDiag *diag)
{
    const Compiled *c = largest(f);
    const EchBytes *p = c->parts[0];
    g_autofree char *all = ech_format_bytes(needs(c, 0)), *arguments = ech_format_bytes(p[ARGUMENTS]), *results = ech_format_bytes(p[RESULTS]),
                    *aliased = ech_format_bytes(p[ALIASED]), *temporaries = ech_format_bytes(p[TEMPORARIES]),
                    *fresh = ech_format_bytes(p[RESULTS] - MIN(p[RESULTS], p[ALIASED])), *host = ech_format_bytes(needs(c, 1));
    ech_diag_remark(diag, "the program takes %s of each device: arguments %s, results %s of which %s lie in donated arguments, temporaries %s", all, arguments,
                    results, aliased, temporaries);
    if (p[ARGUMENTS] == 0 && p[RESULTS] == 0 && p[TEMPORARIES] == 0)
        ech_diag_remark(
            diag, "all three 0: old releases of JAX counted no arrays on GPUs and CPUs; later ones do, and echelon does from compiled.as_text() in a file");
    if (!f->of_torch && p[RESULTS] > p[ALIASED] && p[RESULTS] - p[ALIASED] > needs(c, 0) / 50)
        ech_diag_remark(diag,
                        "%s of results have places of their own; where they have an argument's shape and type and that is not needed afterwards (parameters, "
                        "optimizer state), jax.jit(f, donate_argnums=...) saves as much",
                        fresh);
    if (needs(c, 1))
        ech_diag_remark(diag, "beside that %s on the host", host);
    if (f->programs > 1)
        ech_diag_remark(diag, "that is the largest of %" G_GUINT64_FORMAT " programs", f->programs);
    ech_diag_remark(diag, "temporaries are what checkpointing, offload and smaller batches make less; which arrays they are the program itself tells: %s",
                    f->of_torch ? "what XLA_FLAGS=--xla_dump_to=FOLDER writes down, which 'echelon run' and 'echelon advise' read"
                                : "'echelon capture --pretend CHIP -- COMMAND', then 'echelon run' and 'echelon advise', or compiled.as_text() in a file");
}

/* ---- vLLM ---- */

/* A size that may be negative: "-2.81 GiB". */
static bool signed_at(EchWords rest, double *ret)
{
    EchRounded size;
    size_t used;
    bool minus = rest.n > 1 && *rest.text == '-';
    if (minus)
        rest.text++, rest.n--;
    if (!ech_rounded_parse(rest.text, rest.n, &size, &used))
        return false;
    *ret = minus ? -(double)size.bytes : (double)size.bytes;
    return true;
}

static bool signed_after(EchWords line, const char *key, double *ret)
{
    return signed_at(ech_words_after(line, key), ret);
}

/* "18,832 tokens" behind @key. */
static bool count_after(EchWords line, const char *key, uint64_t *ret)
{
    EchWords rest = ech_words_after(line, key);
    char digits[24];
    size_t n = 0, at = 0;
    for (; at < rest.n && n < sizeof digits - 1 && (g_ascii_isdigit(rest.text[at]) || (rest.text[at] == ',' && n)); at++) {
        if (rest.text[at] != ',')
            digits[n++] = rest.text[at];
    }
    digits[n] = '\0';
    return n && ech_parse_u64(digits, ret, NULL) && *ret < UINT64_C(1) << 50;
}

static bool share_after(EchWords line, const char *key, double *ret)
{
    EchWords rest = ech_words_after(line, key);
    g_autofree char *text = g_strndup(rest.text, MIN(rest.n, (size_t)12));
    double value = g_ascii_strtod(text, NULL);
    if (!(value > 0) || value > 1)
        return false;
    *ret = value;
    return true;
}

/* "Memory statistics | total_hbm_limit_gb=94.75GiB | total_hbm_limit_cap_gb=80.53GiB | total_hbm_used_gb=16.58GiB | total_hbm_avail_gb=63.95GiB", and where
 * nothing is left "total_hbm_used_gb=8.97GiB exceeds total_hbm_limit_cap_gb=7.2GiB by 1.77GiB" (tpu_inference/worker/tpu_worker.py) */
static bool read_vllm_tpu(Vllm *v, EchWords line)
{
    EchRounded cap, used, by;
    if (!ech_words_size_after(line, "total_hbm_limit_cap_gb=", &cap) || !ech_words_size_after(line, "total_hbm_used_gb=", &used))
        return false;
    v->tpu = v->has_weights = true;
    v->weights = used;
    if (ech_words_size_after(line, "total_hbm_limit_gb=", &v->total) && v->total.bytes) {
        v->has_total = true;
        v->share = MIN((double)cap.bytes / (double)v->total.bytes, 1);
        v->share = round(v->share * 1e3) / 1e3; /* from figures of two decimals */
    }
    if (signed_after(line, "total_hbm_avail_gb=", &v->cache))
        v->has_cache = true;
    else if (ech_words_size_after(ech_words_after(line, "total_hbm_limit_cap_gb="), " by ", &by))
        v->cache = -(double)by.bytes, v->has_cache = true;
    return true;
}

/* "Actual usage is 14.9 GiB for weight", since 0.33 "16.5 GiB for consumed memory (weights + non-torch)", of which the weights may have been told before. */
static bool read_vllm_usage(Vllm *v, EchWords desired)
{
    EchRounded consumed;
    if (ech_words_size_before(desired, " for weight", &v->weights))
        return v->has_weights = true;
    if (!ech_words_size_before(desired, " for consumed memory", &consumed))
        return false;
    if (v->has_weights && !v->consumed)
        v->beside.bytes = consumed.bytes - MIN(consumed.bytes, v->weights.bytes);
    else
        v->weights = consumed, v->consumed = true;
    return v->has_weights = true;
}

/* "Maximum concurrency for 8,192 tokens per request: 24.13x" */
static bool read_vllm_concurrency(Vllm *v, EchWords line)
{
    EchWords times = ech_words_after(line, "tokens per request: ");
    g_autofree char *factor = g_strndup(times.text, MIN(times.n, (size_t)16));
    if (!count_after(line, "Maximum concurrency for ", &v->per_request))
        return false;
    v->times = CLAMP(g_ascii_strtod(factor, NULL), 0, 1e9);
    return true;
}

static bool read_vllm(EchMemoryFigures *f, EchWords line)
{
    Vllm *v = &f->vllm;
    uint64_t blocks;
    double cache;
    if (read_vllm_tpu(v, line))
        return true;
    /* "CuMemAllocator: sleep freed 34.06 GiB memory in total, of which 7.56 GiB is backed up in CPU and the rest 26.51 GiB is discarded directly.", "Sleep mode
     * freed 35.43 GiB memory, 1.19 GiB memory is still in use." */
    if (ech_words_size_after(line, "sleep freed ", &v->freed) && ech_words_size_before(line, " is backed up in CPU", &v->kept))
        return ech_words_size_before(line, " is discarded", &v->dropped);
    if (ech_words_size_after(line, "Sleep mode freed ", &v->freed))
        return ech_words_size_before(line, " memory is still in use", &v->left);
    /* "Init model | hbm=[(3.74, 31.25), ...]Gb", of each chip, the first of each pair before the cache */
    v->tpu |= ech_words_have(line, " | hbm=[(");
    if (ech_words_size_after(line, "odel loading took ", &v->weights) || ech_words_size_after(line, "oading model weights took ", &v->weights)) {
        v->consumed = false;
        return v->has_weights = true;
    }
    if (ech_words_size_after(line, "model weights take ", &v->weights)) {
        v->has_weights = true;
        v->has_activations = ech_words_size_after(line, "activation peak memory takes ", &v->activations);
        v->has_cache |= signed_after(line, "reserved for KV Cache is ", &v->cache);
        return true;
    }
    /* "Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config" */
    if (ech_words_have(line, "memory for KV Cache as specified") && signed_after(line, ", reserved ", &v->cache))
        return v->has_cache = v->asked_for = true;
    /* "Free memory on device (78.7/79.2 GiB) on startup. Desired GPU memory utilization is (0.9, 71.3 GiB). Actual usage is 14.9 GiB for weight, 5.6 GiB for
     * peak activation, ... Current kv cache memory in use is 50.3 GiB." (vllm/v1/worker/gpu_worker.py; vllm-ascend's worker likewise) */
    EchWords desired = ech_words_after(line, "Desired GPU memory utilization is (");
    if (desired.n && read_vllm_usage(v, desired)) {
        v->has_activations = ech_words_size_before(desired, " for peak activation", &v->activations);
        v->has_graphs |=
            ech_words_size_before(desired, " for CUDAGraph memory", &v->graphs) || ech_words_size_before(desired, " for NPU graph memory", &v->graphs);
        v->has_total = ech_words_size_after(ech_words_after(line, "Free memory on device "), "/", &v->total) && share_after(desired, "", &v->share);
        bool in_use = signed_after(desired, "kv cache memory in use is ", &cache);
        if (in_use || (!v->has_cache && signed_after(ech_words_after(desired, "--kv-cache-memory="), "(", &cache))) {
            v->cache = v->has_cache ? MIN(v->cache, cache) : cache;
            v->has_cache = true;
        }
        return true;
    }
    EchWords available = ech_words_after(line, "Available KV cache");
    if (signed_after(available, "memory: ", &cache) || (available.n && !ech_words_start(available, "memory") && signed_at(available, &cache))) {
        /* Of several GPUs the one with the least decides. */
        v->cache = v->has_cache ? MIN(v->cache, cache) : cache;
        if (ech_words_have(available, " tokens)"))
            count_after(available, "(", &v->tokens);
        return v->has_cache = true;
    }
    if (ech_words_size_after(line, "CUDA graph memory: ", &v->graphs) ||
        (ech_words_have(line, "raph capturing ") && ech_words_size_after(line, " took ", &v->graphs)))
        return v->has_graphs = true;
    /* "Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB peak_torch_memory=17.98GiB memory_usage_post_profile=15.35GiB
     * non_torch_memory=0.35GiB kv_cache_size=2.89GiB gpu_memory_utilization=0.90" (0.6.4) */
    if (ech_words_size_after(line, "total_gpu_memory=", &v->total) && signed_after(line, "kv_cache_size=", &v->cache)) {
        ech_words_size_after(line, "peak_torch_memory=", &v->peak);
        ech_words_size_after(line, "non_torch_memory=", &v->beside);
        v->has_total = v->has_cache = true;
        share_after(line, "gpu_memory_utilization=", &v->share);
        return true;
    }
    if (ech_words_size_after(line, "total_gpu_memory (", &v->total)) {
        share_after(line, "gpu_memory_utilization (", &v->share);
        return v->has_total = true;
    }
    if (count_after(line, "GPU KV cache size: ", &v->tokens) || count_after(line, "number of tokens that can be stored in KV cache (", &v->tokens)) {
        count_after(line, "max seq len (", &v->least);
        read_vllm_concurrency(v, line); /* since 0.33 on that line */
        return true;
    }
    if (count_after(line, "GPU blocks: ", &blocks)) {
        v->tokens = v->tokens ? v->tokens : blocks * 16; /* tokens a block, unless told otherwise */
        return true;
    }
    return read_vllm_concurrency(v, line);
}

static bool is_vllm(const Vllm *v)
{
    return v->has_cache || v->tokens;
}

/* Of the trial run: as it says, or what its peak had beside the weights. */
static EchBytes activations_of(const Vllm *v)
{
    return v->has_activations ? v->activations.bytes : v->has_weights ? v->peak.bytes - MIN(v->peak.bytes, v->weights.bytes) : 0;
}

/* @filled: the cache was there when a later request was refused. */
static void say_vllm(const Vllm *v, EchDiag *diag, bool filled)
{
    g_autofree char *weights = ech_format_bytes(v->weights.bytes), *total = ech_format_bytes(v->total.bytes),
                    *cache = ech_format_bytes(ech_rounded_bytes(fabs(v->cache))), *activations = ech_format_bytes(activations_of(v)),
                    *beside = ech_format_bytes(v->beside.bytes);
    g_autoptr(GString) text = g_string_new(v->tpu ? "vLLM, on all its chips of the TPU together:" : "vLLM, on each GPU:");
    if (v->has_total && v->share > 0) {
        g_autofree char *may = ech_format_bytes(ech_rounded_bytes(v->share * (double)v->total.bytes));
        g_string_append_printf(text, " may take %s (%g of %s);", may, v->share, total);
    }
    if (v->has_weights)
        g_string_append_printf(text, " %s %s;", v->tpu || v->consumed ? "weights and the like" : "weights", weights);
    if (v->has_activations || activations_of(v))
        g_string_append_printf(text, " activations %s;", activations);
    if (v->beside.bytes)
        g_string_append_printf(text, " beside PyTorch %s;", beside);
    if (v->has_cache && v->cache > 0)
        g_string_append_printf(text, " %s %s the KV cache", cache, v->asked_for ? "asked for as" : "left for");
    else if (v->has_cache)
        g_string_append_printf(text, " nothing left for the KV cache, %s too little", cache);
    else
        g_string_append(text, " a KV cache");
    /* Layers whose state does not grow with the tokens, or windows, let more requests in than their tokens would. */
    double of_tokens = v->per_request ? (double)v->tokens / (double)v->per_request : 0;
    bool even = v->times == 0 || fabs(v->times - of_tokens) <= 0.02 * of_tokens + 0.01;
    double each = v->has_cache && v->tokens && v->cache > 0 && even ? v->cache / (double)v->tokens : 0;
    g_autofree char *size = ech_format_bytes(ech_rounded_bytes(each));
    if (v->tokens)
        g_string_append_printf(text, " of %" G_GUINT64_FORMAT " tokens%s%s%s", v->tokens, each > 0 ? ", " : "", each > 0 ? size : "", each > 0 ? " each" : "");
    ech_diag_remark(diag, "%s", text->str);
    uint64_t request = v->per_request ? v->per_request : v->least;
    if (v->tokens && request && (even ? request > v->tokens : v->times < 1)) {
        g_autofree char *needed = ech_format_bytes(ech_rounded_bytes(each * (double)request)),
                        *more = ech_format_bytes(ech_rounded_bytes(each * (double)(request - v->tokens))),
                        *sizes = each > 0 ? g_strdup_printf(", it needs %s, %s more", needed, more) : g_strdup("");
        ech_diag_remark(diag, "a request of %" G_GUINT64_FORMAT " tokens does not fit%s; --max-model-len %" G_GUINT64_FORMAT " or less does", request, sizes,
                        v->tokens);
    } else if (v->tokens && request) {
        double times = v->times > 0 ? v->times : (double)v->tokens / (double)request;
        ech_diag_remark(diag, "requests of %" G_GUINT64_FORMAT " tokens fit %.4g at a time; shorter ones more, others wait or are computed again", request,
                        times);
    }
    if (v->tpu)
        ech_diag_remark(
            diag, "the cache gets what --gpu-memory-utilization leaves of the memory beside what is in use once the weights are loaded; compiled programs and "
                  "their temporaries are loaded later, into the rest. Out of memory then: a smaller share, fewer --max-num-seqs and --max-num-batched-tokens. "
                  "The cache grows by --kv-cache-dtype fp8 (twice the tokens of 16 bits), more chips (--tensor-parallel-size), quantised weights");
    else if (v->asked_for)
        ech_diag_remark(diag,
                        "the cache gets what --kv-cache-memory-bytes says, whatever --gpu-memory-utilization and however much is free; weights, graphs and "
                        "each batch have to find room beside it. More tokens: a larger one, --kv-cache-dtype fp8 (twice the tokens of 16 bits), more GPUs "
                        "(--tensor-parallel-size); out of memory: a smaller one");
    else if (filled)
        ech_diag_remark(diag, "the cache was taken first, all that --gpu-memory-utilization leaves for it; graphs that are captured, larger batches than the "
                              "trial run's and other processes have to find room beside it. Out of memory then: a smaller share (0.01 less is a hundredth of "
                              "the GPU), or --enforce-eager (no graphs), fewer --max-num-seqs and --max-num-batched-tokens");
    else
        ech_diag_remark(
            diag, "the cache gets what --gpu-memory-utilization leaves of the memory beside weights, the peak of a trial run and CUDA graphs. It grows by: "
                  "a larger share, fewer --max-num-batched-tokens (the trial run), --enforce-eager (no graphs), --kv-cache-dtype fp8 (twice the tokens of 16 "
                  "bits), more GPUs (--tensor-parallel-size), quantised weights");
    if (!filled && !v->asked_for && v->tokens && (!request || request <= v->tokens))
        ech_diag_remark(diag, "that share is taken when vLLM starts, however short the requests are: where fewer tokens will do, a smaller "
                              "--gpu-memory-utilization leaves the rest to others");
    if (!v->tpu)
        ech_diag_remark(diag, "what another GPU would have for it: 'echelon capture --pretend NAME -- python serve.py' with load_format=\"dummy\", without the "
                              "weights");
}

static void say_sleep(const Vllm *v, EchDiag *diag)
{
    g_autofree char *freed = ech_format_bytes(v->freed.bytes), *kept = ech_format_bytes(v->kept.bytes), *dropped = ech_format_bytes(v->dropped.bytes),
                    *left = ech_format_bytes(v->left.bytes);
    g_autofree char *holds = v->left.bytes ? g_strdup_printf(" and still holds %s (its context, graphs, libraries)", left) : g_strdup("");
    ech_diag_remark(diag, "vLLM, asleep, gave back %s of the GPU%s", freed, holds);
    if (v->kept.bytes || v->dropped.bytes)
        ech_diag_remark(diag,
                        "%s of that wait in the host's memory, %s (the KV cache, and at level 2 the weights) were dropped; to wake up it needs all of it "
                        "again, in parts where it is told so (wake_up(tags=[...]))",
                        kept, dropped);
}

/* Of a log that ends, or breaks off, before the cache. */
static void say_weights(const Vllm *v, EchDiag *diag)
{
    g_autofree char *weights = ech_format_bytes(v->weights.bytes);
    ech_diag_remark(diag,
                    "vLLM's weights take %s of each GPU; what is left for the KV cache ('Available KV cache memory') the text does not say. It gets what "
                    "--gpu-memory-utilization leaves beside weights, the peak of a trial run and CUDA graphs",
                    weights);
}

/* ---- SGLang ---- */

/* "Load weight begin. avail mem=78.58 GB", "Load weight end. elapsed=19.09 s, type=..., avail mem=12.25 GB, mem usage=65.65 GB.": of several ranks the one with
 * least counts, and of a draft model's, which is loaded after the other, what both leave. Its GB are of 2^30 bytes. */
static bool read_sglang_weights(Sglang *s, EchWords line)
{
    EchRounded left, weights;
    bool has_left = ech_words_size_after(line, "avail mem", &left), begins = ech_words_have(line, "Load weight begin");
    if (has_left && begins)
        s->before = MAX(s->before, left.bytes);
    if (begins || !ech_words_have(line, "Load weight end") || !ech_words_size_after(line, "mem usage", &weights))
        return has_left && begins;
    if (!s->has_weights || weights.bytes > s->weights.bytes)
        s->weights = weights;
    if (has_left) {
        s->before = MAX(s->before, ech_bytes_add(left.bytes, weights.bytes));
        s->after = s->after ? MIN(s->after, left.bytes) : left.bytes;
    }
    return s->has_weights = true;
}

/* "Capture cuda graph begin. This can take up to several minutes.", "Capture cuda graph end. Time elapsed: 19.50 s. mem usage=6.19 GB. avail mem=5.24 GB.", of
 * a draft model "Capture draft cuda graph end.", since 0.5.20 or so of prompts and tokens "Capture target decode CUDA graph end. bs=[1, 2], elapsed=4.10 s, mem
 * usage=0.40 GB, avail mem=5.24 GB.": kinds add up, of several ranks the one with most counts. */
static bool read_sglang_graphs(Sglang *s, EchWords line)
{
    EchRounded usage;
    EchWords what = ech_words_after(line, "Capture ");
    const char *begin = ech_words_find(what, "graph begin"), *end = ech_words_find(what, "graph end");
    if (!ech_words_start(line, "Capture ") || !(begin || end))
        return false;
    s->captures = begin != NULL;
    if (!end || !ech_words_size_after(what, "mem usage", &usage))
        return true;
    s->has_left |= ech_words_size_after(what, "avail mem", &s->left);
    Graphs graphs = {.bytes = usage.bytes};
    memcpy(graphs.kind, what.text, MIN((size_t)(end - what.text), sizeof graphs.kind - 1));
    unsigned at = 0;
    while (at < s->n_graphs && strcmp(s->graphs[at].kind, graphs.kind) != 0)
        at++;
    if (at == MAX_GRAPHS)
        return true;
    graphs.bytes = MAX(graphs.bytes, s->graphs[at].bytes);
    s->graphs[at] = graphs;
    s->n_graphs = MAX(s->n_graphs, at + 1);
    return true;
}

static EchBytes graphs_of_sglang(const Sglang *s)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < s->n_graphs; i++)
        sum = ech_bytes_add(sum, s->graphs[i].bytes);
    return sum;
}

/* "KV Cache is allocated. #tokens: 2243474, K size: 59.91 GB, V size: 59.91 GB", or "KV size: 12.00 GB" where keys and values are one (quoted without 'is' and
 * 'size' too); before and after it how much of the device is left. */
static bool read_sglang(EchMemoryFigures *f, EchWords line)
{
    Sglang *s = &f->sglang;
    EchRounded keys, values = {0};
    uint64_t tokens;
    if (ech_words_have(line, "Load weight "))
        return read_sglang_weights(s, line);
    /* model_runner_kv_cache_mixin.py and, where that leaves less than a token, "Not enough memory. Please try to increase --mem-fraction-static. Current value:
     * mem_fraction_static=0.8" */
    s->cacheless |= ech_words_have(line, "leave no GPU memory for the KV cache") || ech_words_have(line, "increase --mem-fraction-static");
    if (s->share <= 0 && !share_after(line, "mem-fraction-static=", &s->share))
        share_after(line, "mem_fraction_static=", &s->share);
    /* Addresses alone, of which memory is taken once graphs are captured: "Post-capture KV sizing: KV cache allocated. dtype: ..., #tokens: 100000, KV size:
     * ..." */
    if (ech_words_have(line, "KV Cache VA upper bound"))
        return true;
    if ((ech_words_have(line, "KV Cache ") || ech_words_have(line, "KV cache allocated")) && count_after(line, "#tokens: ", &tokens) &&
        (ech_words_size_after(line, "K size", &keys) || ech_words_size_after(line, "KV size", &keys) || ech_words_size_after(line, ", K ", &keys))) {
        if (!ech_words_size_after(line, "V size", &values))
            ech_words_size_after(line, ", V ", &values);
        s->has_left |= ech_words_size_after(line, "avail mem", &s->left);
        /* Of several GPUs the one with the fewest decides. */
        if (s->tokens == 0 || tokens < s->tokens) {
            s->tokens = tokens;
            s->cache = ech_bytes_add(keys.bytes, ech_words_have(line, "KV size") ? 0 : values.bytes);
        }
        return true;
    }
    /* "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)", later "--cuda-graph-max-bs-decode", behind what was refused
     * (sglang/srt/model_executor/runner_backend_utils/__init__.py) */
    if (ech_words_have(line, "set --cuda-graph-max-bs"))
        return s->captures = true;
    if (read_sglang_graphs(s, line))
        return true;
    bool of_server = ech_words_have(line, "max_total_num_tokens=") && ech_words_size_after(line, "available_gpu_mem", &s->left);
    if (of_server && s->tokens == 0)
        count_after(line, "max_total_num_tokens=", &s->tokens);
    s->has_left |= of_server;
    return of_server;
}

static bool is_sglang(const Sglang *s)
{
    return s->tokens || s->n_graphs || s->has_weights;
}

/* What the cache gets is what is free with the weights, less the part of what was free before them that the share leaves to others. */
static void say_cacheless(const Sglang *s, EchDiag *diag)
{
    double least = 1 - (double)s->after / (double)s->before, wanted = (1 - s->share) * (double)s->before;
    g_autofree char *each = ech_format_bytes(s->before / 100), *weights = ech_format_bytes(s->before - MIN(s->before, s->after)),
                    *before = ech_format_bytes(s->before),
                    *missing = ech_format_bytes(ech_rounded_bytes(round(fabs(wanted - (double)s->after) / (1 << 20))) << 20);
    bool enough = s->share > 0 && wanted < (double)s->after;
    if (s->share > 0 && !enough)
        ech_diag_remark(diag, "--mem-fraction-static %g leaves nothing for the KV cache: weights alone take %s of %s that were free, %s more than that share",
                        s->share, weights, before, missing);
    else if (enough)
        ech_diag_remark(
            diag,
            "--mem-fraction-static %g leaves %s beside the weights, but nothing of that for the KV cache: a draft model, states of linear attention, "
            "workspaces of quantised weights and the like come first",
            s->share, missing);
    g_autofree char *than = enough ? g_strdup("a larger share") : g_strdup_printf("more than %.4g", ceil(least * 1e4) / 1e4);
    ech_diag_remark(
        diag,
        "%s gives the cache something, each hundredth more %s; what the share leaves is for activations and graphs: --chunked-prefill-size and " SGLANG_MAX_BS
        " make those smaller where it gets tight. Smaller weights, more GPUs (--tp), and whoever else holds the GPU (nvidia-smi; "
        "another server, draft weights) count as much",
        than, each);
}

static void say_sglang(const Sglang *s, EchDiag *diag)
{
    g_autofree char *weights = ech_format_bytes(s->weights.bytes), *cache = ech_format_bytes(s->cache), *each = ech_format_bytes(s->cache / MAX(s->tokens, 1)),
                    *graphs = ech_format_bytes(graphs_of_sglang(s)), *left = ech_format_bytes(s->left.bytes);
    g_autoptr(GString) text = g_string_new("SGLang, on each GPU:");
    if (s->has_weights)
        g_string_append_printf(text, " weights %s;", weights);
    g_autofree char *after = ech_format_bytes(s->after);
    if (s->after && !s->tokens)
        g_string_append_printf(text, " %s left beside them%s", after, s->n_graphs ? ";" : "");
    if (s->n_graphs)
        g_string_append_printf(text, " CUDA graphs %s%s", graphs, s->tokens ? ";" : "");
    if (s->tokens)
        g_string_append_printf(text, " a KV cache of %" G_GUINT64_FORMAT " tokens, of all requests together", s->tokens);
    if (s->cache)
        g_string_append_printf(text, ", %s, %s each", cache, each);
    if (s->has_left)
        g_string_append_printf(text, "; %s left beside it", left);
    if (text->str[text->len - 1] == ';')
        g_string_truncate(text, text->len - 1);
    ech_diag_remark(diag, "%s", text->str);
    if (s->cacheless && s->after && !s->tokens) {
        say_cacheless(s, diag);
        return;
    }
    ech_diag_remark(
        diag,
        "weights and cache get --mem-fraction-static of the memory; the rest is for activations and CUDA graphs. More tokens: a larger share, "
        "--kv-cache-dtype fp8_e4m3 (twice those of 16 bits), more GPUs (--tp). Out of memory later: a smaller share, --chunked-prefill-size, " SGLANG_MAX_BS);
    ech_diag_remark(diag,
                    "what another GPU would have for it: 'echelon capture --pretend NAME -- python serve.py' with load_format=\"dummy\", without the weights");
}

/* ---- arrays ---- */

/* XLA's name of a type that NumPy, PyTorch and JAX call @word, which may go on. NULL: none. */
static const char *type_of(EchWords word)
{
    size_t n = 0;
    while (n < word.n && (g_ascii_isalnum(word.text[n]) || word.text[n] == '_'))
        n++;
    return ech_layout_dtype_of(word.text, n);
}

/* Adds an array of @type and of the numbers between brackets. */
static bool add_array(EchMemoryFigures *f, const char *type, EchWords numbers)
{
    g_autoptr(GString) name = g_string_new(type);
    g_string_append_c(name, '[');
    for (size_t i = 0; i < numbers.n && i < MAX_NAME; i++) {
        if (!g_ascii_isdigit(numbers.text[i]) && numbers.text[i] != ',' && numbers.text[i] != ' ')
            return false;
        if (numbers.text[i] != ' ')
            g_string_append_c(name, numbers.text[i]);
    }
    if (name->str[name->len - 1] == ',')
        g_string_truncate(name, name->len - 1);
    g_string_append_c(name, ']');
    EchLayout layout;
    size_t used;
    if (numbers.n > MAX_NAME || !ech_layout_parse(name->str, name->len, &layout, &used, NULL) || used != name->len)
        return false;
    Array array = {.bytes = ech_layout_dense_bytes(&layout)};
    if (array.bytes == 0 || array.bytes >= UINT64_C(1) << 50 || f->arrays->len == MAX_ARRAYS)
        return array.bytes == 0;
    array.name = g_strdup(name->str);
    g_array_append_val(f->arrays, array);
    return true;
}

/* Of "(4096, 4096) float32", "((2, 3), dtype('float32'), 24)", "torch.Size([64, 3]) torch.float32", "float32[4096,4096]", all that stand on @line. */
static bool read_arrays(EchMemoryFigures *f, EchWords line)
{
    /* A call of Inductor's code in a traceback: "empty_strided_cuda((76800, 5120), (5120, 1), torch.float16)", whose second tuple are strides. */
    if (ech_words_have(line, "empty_strided"))
        return false;
    bool any = false;
    if (line.n > 1 << 20)
        return false;
    for (size_t at = 0; at < line.n; at++) {
        char open = line.text[at], shut = open == '(' ? ')' : ']';
        EchWords rest = {line.text + at + 1, line.n - at - 1};
        if (open != '(' && open != '[')
            continue;
        const char *close = rest.n ? memchr(rest.text, shut, MIN(rest.n, (size_t)MAX_NAME)) : NULL;
        if (!close || !g_ascii_isdigit(*rest.text))
            continue;
        EchWords numbers = {rest.text, (size_t)(close - rest.text)}, before = {line.text, at}, behind = {close + 1, (size_t)(line.text + line.n - close) - 1};
        const char *type = NULL;
        if (open == '[') {
            size_t word = before.n;
            while (word && (g_ascii_isalnum(before.text[word - 1]) || before.text[word - 1] == '_'))
                word--;
            type = type_of((EchWords){before.text + word, before.n - word});
        }
        bool size = before.n >= 11 && memcmp(before.text + before.n - 11, "torch.Size(", 11) == 0;
        for (size_t i = 0; !type && i < behind.n && i < 24 && (open == '(' || size); i++) {
            if (g_ascii_isalpha(behind.text[i]) && (i == 0 || !g_ascii_isalpha(behind.text[i - 1])))
                type = type_of((EchWords){behind.text + i, behind.n - i});
        }
        if (!type && !size)
            continue;
        if (add_array(f, type ? type : "f32", numbers)) {
            f->untyped |= !type;
            any = true;
            at += numbers.n;
        }
    }
    return any;
}

static EchBytes sum_of(const GArray *arrays)
{
    EchBytes sum = 0;
    for (guint i = 0; i < arrays->len; i++)
        sum = ech_bytes_add(sum, g_array_index(arrays, Array, i).bytes);
    return sum;
}

static void say_arrays(const EchMemoryFigures *f, EchDiag *diag)
{
    g_autofree char *all = ech_format_bytes(sum_of(f->arrays));
    ech_diag_remark(diag, "%u arrays listed, %s in all as their shapes say%s", f->arrays->len, all,
                    f->untyped ? "; where no type is told 4 bytes an element were assumed" : "");
    ech_diag_remark(diag,
                    "an array that is split over devices counts whole here, one that shares another's memory (a view, weights that are tied) twice; padding on "
                    "a TPU, temporaries and what an allocator keeps come on top");
}

/* ---- DeepSpeed's estimates ---- */

static void copy(char *to, size_t size, EchWords words)
{
    g_autofree char *text = ech_quote(words.text, (gssize)MIN(words.n, size - 1), size - 1);
    g_strlcpy(to, text, size);
}

/* "71.71GB |   0.12GB | offload_param=cpu", maybe behind what a launcher puts before its lines: the options; nothing where it is no such row. */
static EchWords estimate_row(EchWords row, Estimate *ret)
{
    for (size_t at = 0; at < MIN(row.n, (size_t)MAX_NAME); at++) {
        bool begins = g_ascii_isdigit(row.text[at]) && (at == 0 || g_ascii_isspace(row.text[at - 1]));
        size_t used, more;
        if (!begins || !ech_rounded_parse(row.text + at, row.n - at, &ret->host, &used))
            continue;
        EchWords rest = ech_words_trim(row.text + at + used, row.n - at - used);
        EchWords gpu = ech_words_start(rest, "|") ? ech_words_trim(rest.text + 1, rest.n - 1) : (EchWords){rest.text, 0};
        if (gpu.n && ech_rounded_parse(gpu.text, gpu.n, &ret->gpu, &more))
            return ech_words_after((EchWords){gpu.text + more, gpu.n - more}, "|");
    }
    return (EchWords){row.text, 0};
}

/* estimate_zero2_model_states_mem_needs_all_live() and its kin (deepspeed/runtime/zero): "SW: Model with 2851M total params, 32M largest layer params.",
 * "per CPU  |  per GPU |   Options", "71.71GB |   0.12GB | offload_param=cpu, offload_optimizer=cpu, zero_init=1". Their "GB" are of 2^30 bytes. */
static bool read_estimate(EchMemoryFigures *f, EchWords before, EchWords line)
{
    Estimate e;
    EchWords model = ech_words_start(line, "SW: ") ? ech_words_after(line, "SW: Model with ") : (EchWords){line.text, 0};
    if (model.n) {
        copy(f->model, sizeof f->model, (EchWords){model.text, model.n - (model.text[model.n - 1] == '.')});
        return true;
    }
    /* A row's beginning looks like the name of a service that a launcher puts before its lines. */
    EchWords row = before.n ? (EchWords){before.text, (size_t)(line.text + line.n - before.text)} : line;
    if (ech_words_have(row, "per CPU") && ech_words_have(row, "per GPU"))
        return f->in_estimates = true;
    EchWords options = f->in_estimates ? estimate_row(row, &e) : (EchWords){row.text, 0};
    if (options.n == 0)
        return f->in_estimates = false;
    copy(e.options, sizeof e.options, options);
    for (guint i = 0; i < f->estimates->len; i++) { /* each rank prints them */
        const Estimate *other = &g_array_index(f->estimates, Estimate, i);
        if (other->gpu.bytes == e.gpu.bytes && other->host.bytes == e.host.bytes && strcmp(other->options, e.options) == 0)
            return true;
    }
    if (f->estimates->len < MAX_ESTIMATES)
        g_array_append_val(f->estimates, e);
    return true;
}

/* Of those that take most of a GPU, hence nothing offloaded, the one that takes least of the host. */
static const Estimate *whole(const EchMemoryFigures *f)
{
    const Estimate *best = NULL;
    for (guint i = 0; i < f->estimates->len; i++) {
        const Estimate *e = &g_array_index(f->estimates, Estimate, i);
        if (!best || e->gpu.bytes > best->gpu.bytes || (e->gpu.bytes == best->gpu.bytes && e->host.bytes < best->host.bytes))
            best = e;
    }
    return best;
}

static void say_estimates(const EchMemoryFigures *f, EchDiag *diag)
{
    ech_diag_remark(diag, "DeepSpeed's estimate of parameters, gradients and optimizer states%s%s", f->model[0] ? ", " : "", f->model);
    for (guint i = 0; i < f->estimates->len; i++) {
        const Estimate *e = &g_array_index(f->estimates, Estimate, i);
        g_autofree char *gpu = ech_format_bytes(e->gpu.bytes), *host = ech_format_bytes(e->host.bytes);
        ech_diag_remark(diag, "%s of a GPU, %s of a node: %s", gpu, host, e->options);
    }
    ech_diag_remark(diag,
                    "on top of that come activations, what is gathered for use (stage3_max_live_parameters, 10^9 unless set: 1.86 GiB in 16 bits), buckets "
                    "(reduce_bucket_size, 5 x 10^8 unless set), NCCL's buffers and the context. All of it: 'echelon capture --pretend DEVICE --world N -- "
                    "COMMAND' runs one rank on a device that is not there");
}

/* ---- TensorFlow ---- */

/* "Current usage from device: ...", "  1.84GiB from model/conv1/Relu", "  Remaining 112 nodes with 1.09GiB" */
static bool read_nodes(EchMemoryFigures *f, EchWords line)
{
    EchRounded size;
    size_t used;
    if (ech_words_start(line, "Current usage from device:")) {
        f->has_nodes |= f->nodes->len > 0;
        return f->in_nodes = true;
    }
    if (!f->in_nodes || f->nodes->len == MAX_NODES)
        return false;
    bool remaining = ech_words_start(line, "Remaining ") && ech_words_size_after(line, " nodes with ", &size);
    EchWords name = ech_words_after(line, " from ");
    if (!remaining && (name.n == 0 || !ech_rounded_parse(line.text, line.n, &size, &used)))
        return f->in_nodes = false;
    if (f->has_nodes)
        return true;
    Array node = {.bytes = size.bytes, .name = remaining ? g_strdup("other nodes") : ech_quote(name.text, (gssize)MIN(name.n, (size_t)MAX_NAME), MAX_NAME)};
    g_array_append_val(f->nodes, node);
    return true;
}

EchBytes ech_memory_figures_nodes(const EchMemoryFigures *f, EchTraceBuilder *builder)
{
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    for (guint i = 0; i < f->nodes->len; i++)
        ech_refused_held(builder, memory, g_array_index(f->nodes, Array, i).name, g_array_index(f->nodes, Array, i).bytes);
    return sum_of(f->nodes);
}

/* ---- all of them ---- */

/* That memory ran out, where nothing tells how much. */
static void read_refusal(EchMemoryFigures *f, EchWords line)
{
    if (!f->beside && !f->refused[0] && ech_plain_says_refuses(line))
        copy(f->refused, sizeof f->refused, line);
}

static bool read_any(EchMemoryFigures *f, EchWords before, EchWords line)
{
    return read_compiled(f, line) || read_compiled_sums(f, line) || read_compiled_torch(f, line) || (!f->ran_out && read_vllm(f, line)) ||
           read_sglang(f, line) || ech_tensorrt_says_line(f->tensorrt, line) || ech_gpu_tools_line(f->tools, before, line) || read_nodes(f, line) ||
           read_estimate(f, before, line) || ech_pool_says_line(f->pool, before, line) || ech_host_says_line(f->host, line) ||
           ech_comfy_says_line(f->comfy, line) || (!f->beside && (ech_llama_says_line(f->llama, line) || read_arrays(f, line)));
}

bool ech_memory_figures_line(EchMemoryFigures *f, EchWords before, EchWords line)
{
    bool taken = read_any(f, before, line);
    if (!taken)
        read_refusal(f, line);
    return taken;
}

void ech_memory_figures_ran_out(EchMemoryFigures *f)
{
    f->ran_out = true;
}

/* One shape may stand anywhere; some are a list. */
static bool is_list(const EchMemoryFigures *f)
{
    return f->arrays->len > 1;
}

/* Whether it was told how much of something there is. */
static bool tells_any(const EchMemoryFigures *f)
{
    return largest(f)->any || is_vllm(&f->vllm) || is_sglang(&f->sglang) || ech_gpu_tools_any(f->tools) || ech_pool_says_any(f->pool) ||
           ech_llama_says_any(f->llama) || ech_tensorrt_says_any(f->tensorrt) || ech_host_says_any(f->host) || ech_comfy_says_any(f->comfy) || is_list(f) ||
           f->nodes->len || f->estimates->len || f->vllm.has_weights || f->vllm.freed.bytes;
}

/* What ran out without sizes; figures of the device do not explain what was not its own. */
static void say_refused(const EchMemoryFigures *f, EchDiag *diag)
{
    ech_diag_remark(diag, "%s ran out ('%s'), of how much is not told there; around it the text tells:", ech_place_name(f->place), f->refused);
    if (f->place != ECH_PLACE_UNTOLD && f->place != ECH_PLACE_DEVICE)
        ech_diag_remark(diag, "of what ran out: %s", ech_place_advice(f->place));
}

void ech_memory_figures_say(const EchMemoryFigures *f, EchDiag *diag)
{
    bool pool = ech_pool_says_any(f->pool), llama = ech_llama_says_any(f->llama), tensorrt = ech_tensorrt_says_any(f->tensorrt),
         others = largest(f)->any || is_vllm(&f->vllm) || is_sglang(&f->sglang) || llama || tensorrt;
    if (ech_host_says_any(f->host))
        ech_host_says_say(f->host, diag);
    else if (f->refused[0])
        say_refused(f, diag);
    if (largest(f)->any)
        say_compiled(f, diag);
    if (is_vllm(&f->vllm))
        say_vllm(&f->vllm, diag, (f->ran_out || f->refused[0]) && f->vllm.cache >= 0);
    else if (f->ran_out && f->vllm.has_weights)
        ech_diag_remark(diag,
                        "vLLM had loaded its weights and not yet sized the KV cache: that was its trial run, which --max-num-batched-tokens, --max-num-seqs "
                        "and, of images and the like, --limit-mm-per-prompt make smaller; --gpu-memory-utilization does not bound it");
    else if (f->vllm.has_weights && !f->beside)
        say_weights(&f->vllm, diag);
    if (f->vllm.freed.bytes)
        say_sleep(&f->vllm, diag);
    if (is_sglang(&f->sglang))
        say_sglang(&f->sglang, diag);
    if (f->ran_out && f->sglang.captures)
        ech_diag_remark(diag,
                        "SGLang was capturing its graphs, which have to fit beside weights and KV cache, into what --mem-fraction-static leaves: a smaller "
                        "share, a smaller " SGLANG_MAX_BS ", or none (--disable-cuda-graph, slower)");
    if (llama)
        ech_llama_says_say(f->llama, diag);
    if (tensorrt)
        ech_tensorrt_says_say(f->tensorrt, diag);
    if (ech_comfy_says_any(f->comfy))
        ech_comfy_says_say(f->comfy, diag);
    if (pool)
        ech_pool_says_say(f->pool, f->beside, diag);
    if (ech_gpu_tools_any(f->tools))
        ech_gpu_tools_say(f->tools, f->beside || pool || llama || tensorrt, diag);
    if (f->estimates->len)
        say_estimates(f, diag);
    else if (is_list(f) && !pool && !others)
        say_arrays(f, diag);
}

static void write_compiled(const Compiled *c, EchTraceBuilder *builder)
{
    static const char *const names[N_PARTS] = {"the program's code", "arguments", "results of their own", NULL, "temporaries"};
    static const EchRole roles[N_PARTS] = {ECH_ROLE_UNKNOWN, ECH_ROLE_PARAMETER, ECH_ROLE_UNKNOWN, ECH_ROLE_UNKNOWN, ECH_ROLE_TEMPORARY};
    for (int host = 0; host < 2; host++) {
        for (int part = 0; part < N_PARTS; part++) {
            EchBytes bytes = c->parts[host][part];
            if (part == RESULTS)
                bytes -= MIN(bytes, c->parts[host][ALIASED]);
            if (!names[part] || bytes == 0)
                continue;
            EchBuffer b = ech_buffer_init();
            b.name = ech_trace_builder_string(builder, names[part], -1);
            b.memory = ech_trace_builder_memory(builder, host ? "host" : "hbm");
            b.bytes = bytes;
            b.resident = 1;
            b.role = (uint8_t)roles[part];
            ech_trace_builder_buffer(builder, b);
        }
    }
}

static void write_figures(const EchMemoryFigures *f, EchTraceBuilder *builder, EchImport *import)
{
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    const Vllm *v = &f->vllm;
    ech_trace_builder_set_property(builder, "sums_only", "true");
    if (largest(f)->any) {
        write_compiled(largest(f), builder);
        ech_trace_builder_set_property(builder, "refused_on", "any");
    } else if (is_vllm(v)) {
        ech_refused_held(builder, memory, v->tpu || v->consumed ? "weights and the like" : "weights", v->has_weights ? v->weights.bytes : 0);
        ech_refused_held(builder, memory, "KV cache", ech_rounded_bytes(v->cache));
        ech_refused_held(builder, memory, "activations of the trial run", activations_of(v));
        ech_refused_held(builder, memory, "beside PyTorch (context, libraries)", v->beside.bytes);
        ech_refused_held(builder, memory, "CUDA graphs", v->has_graphs ? v->graphs.bytes : 0);
        ech_refused_number(builder, "had_bytes", v->has_total, v->total.bytes);
    } else if (is_sglang(&f->sglang)) {
        ech_refused_held(builder, memory, "CUDA graphs", graphs_of_sglang(&f->sglang));
        ech_refused_held(builder, memory, "weights", f->sglang.has_weights ? f->sglang.weights.bytes : 0);
        ech_refused_held(builder, memory, "KV cache", f->sglang.cache);
    } else if (ech_llama_says_any(f->llama)) {
        ech_llama_says_write(f->llama, builder);
    } else if (ech_tensorrt_says_any(f->tensorrt)) {
        ech_tensorrt_says_write(f->tensorrt, builder);
    } else if (ech_pool_says_any(f->pool)) {
        ech_pool_says_write(f->pool, builder, import);
    } else if (ech_gpu_tools_any(f->tools)) {
        ech_gpu_tools_write(f->tools, builder);
    } else if (ech_comfy_says_any(f->comfy)) {
        ech_comfy_says_write(f->comfy, builder);
    } else if (ech_host_says_any(f->host)) {
        ech_host_says_write(f->host, builder);
    } else if (v->freed.bytes) {
        ech_refused_held(builder, memory, "in use while it sleeps", v->left.bytes);
        ech_refused_held(builder, ech_trace_builder_memory(builder, "host"), "kept on the host", v->kept.bytes);
    } else if (v->has_weights) {
        ech_refused_held(builder, memory, "weights", v->weights.bytes);
    } else if (f->nodes->len) {
        ech_memory_figures_nodes(f, builder);
    } else if (f->estimates->len) {
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
        ech_refused_held(builder, memory, "parameters, gradients, optimizer states", whole(f)->gpu.bytes);
        ech_refused_held(builder, ech_trace_builder_memory(builder, "host"), "copies of them on the host", whole(f)->host.bytes);
    } else {
        for (guint i = 0; i < f->arrays->len; i++)
            ech_refused_held(builder, memory, g_array_index(f->arrays, Array, i).name, g_array_index(f->arrays, Array, i).bytes);
        ech_diag_note(import->records, "arrays", f->arrays->len);
    }
}

/* A whole document in JSON, which the command and a warning may stand before; a log's records are lines. */
static EchWords document(const char *data, size_t n)
{
    enum { LINES_BEFORE = 4 };
    size_t at = ech_head_begin((const uint8_t *)data, n);
    for (unsigned i = 0; i <= LINES_BEFORE && at < n; i++) {
        if (data[at] == '{' || data[at] == '[')
            return (EchWords){data + at, ech_pasted_is_record(data + at, n - at) ? 0 : n - at};
        const char *end = memchr(data + at, '\n', n - at);
        at = end ? (size_t)(end - data) : n;
        at += ech_head_begin((const uint8_t *)data + at, n - at);
    }
    return (EchWords){data, 0};
}

static void read_lines(EchMemoryFigures *f, const char *data, size_t n)
{
    EchWords json = document(data, n);
    if (json.n && ech_gpu_tools_json(f->tools, json.text, json.n))
        return;
    g_autoptr(EchPasted) pasted = ech_pasted_new(data, n);
    EchWords line;
    while (ech_pasted_next(pasted, &line))
        ech_memory_figures_line(f, ech_pasted_before(pasted), line);
}

static bool read_text(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, (size_t)256 << 20, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("memory_figures");
    g_autoptr(EchMemoryFigures) f = ech_memory_figures_new(false);
    read_lines(f, data, n);
    EchPlainSays refusal;
    if (f->refused[0] && ech_plain_says_find(data, n, &refusal) && !refusal.goes_on && g_str_has_prefix(refusal.line, f->refused))
        f->place = refusal.place;
    if (options->device)
        ech_trace_builder_set_property(builder, "chip", options->device);
    if (tells_any(f))
        write_figures(f, builder, ret);
    /* Caches may be told in tokens alone, and of GPUs nothing may be in use. */
    bool nothing_left = f->vllm.has_cache && f->vllm.cache <= 0;
    if (ech_trace_builder_n_buffers(builder) == 0 && !f->vllm.tokens && !f->sglang.tokens && !nothing_left && !ech_gpu_tools_whole(f->tools)) {
        g_autofree char *told = ech_memory_text_describe(data, n);
        if (told)
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: %s", ech_source_path(source), told);
        else
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                        "%s: no figures of memory in use in it; expected what torch.cuda.memory_summary(), device.memory_stats(), compiled.memory_analysis(), "
                        "nvidia-smi, vLLM, SGLang, TensorRT, llama.cpp or ollama print",
                        ech_source_path(source));
        return false;
    }
    ech_memory_figures_say(f, ret->diag);
    ret->trace = ech_trace_builder_finish(builder, error);
    return ret->trace != NULL;
}

/* The text is read: what single words would promise in it, it need not keep. */
static int probe(const uint8_t *head, size_t n)
{
    bool json = n && *head == '{' && memmem(head, n, "\"traceEvents\"", 13);
    bool page = ech_head_is_document(head, n) && !memmem(head, MIN(n, (size_t)1024), "<nvidia_smi_log", 15);
    if (n < 2 || page || json || memchr(head, 0, n))
        return 0;
    g_autoptr(EchMemoryFigures) f = ech_memory_figures_new(false);
    read_lines(f, (const char *)head, n);
    /* Shapes in a program are not what it printed. */
    bool arrays_alone = is_list(f);
    g_array_set_size(f->arrays, 0);
    return tells_any(f) || (arrays_alone && !ech_memory_text_is_program((const char *)head, n));
}

const EchImportClass ech_import_memory_figures = {
    .name = "memory_figures",
    .summary = "what PyTorch, JAX, XLA, DeepSpeed, Trainer, vLLM, SGLang, TensorRT, llama.cpp, ollama, nvidia-smi, tpu-info and others print of memory in use, "
               "pasted into a file",
    .probe = probe,
    .read = read_text,
};
