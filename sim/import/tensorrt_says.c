#include "sim/import/tensorrt_says.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum { MAX_COMPONENTS = 64, MAX_NAME = 80 };

/* What an engine needs while it runs, as its builder tells. */
typedef enum { WEIGHTS, ACTIVATIONS, PERSISTENT, SCRATCH, N_NEEDS } Need;
/* What TensorRT-LLM allocates beside engines. */
typedef enum { MODEL, TRIAL, OUTSIDE, CONTEXTS, BUFFERS, DECODER, CACHE, N_OTHERS } Other;

static const char *const need_names[N_NEEDS] = {"weights", "activations", "layers' own memory", NULL};
static const char *const other_names[N_OTHERS] = {
    "weights", "activations of the trial run", "outside of PyTorch (contexts, NCCL, CUDA graphs)", "execution contexts' own", "runtime buffers", "decoder",
    "KV cache"};

/* A component that TensorRT-LLM's executor made, and what was free before and after. */
typedef struct {
    char *name;
    EchBytes before, after;
} Component;

struct EchTensorrtSays {
    GArray *components;   /* Component, made before the one that there was no room for; of one process, in the order in which they were made */
    char *failed;         /* that one; NULL: none was told of */
    EchBytes total, free; /* of the device, and what was free before it was tried; 0: not told */
    bool in_components;
    EchBytes needs[N_NEEDS];    /* of the engine built last */
    EchBytes others[N_OTHERS];  /* the last told of each */
    EchBytes contexts, managed; /* of engines loaded: of their contexts, and in all, when last told */
    EchBytes building, in_use;  /* the most while building; of the device, by all processes, when last told */
    uint64_t tokens;            /* that the KV cache holds */
};

static void clear_component(void *component)
{
    g_free(((Component *)component)->name);
}

EchTensorrtSays *ech_tensorrt_says_new(void)
{
    EchTensorrtSays *says = g_new0(EchTensorrtSays, 1);
    says->components = g_array_new(FALSE, FALSE, sizeof(Component));
    g_array_set_clear_func(says->components, clear_component);
    return says;
}

void ech_tensorrt_says_free(EchTensorrtSays *says)
{
    if (!says)
        return;
    g_array_unref(says->components);
    g_free(says->failed);
    g_free(says);
}

/* A number of MiB as bytes. */
static bool mib_after(EchWords words, const char *key, EchBytes *ret)
{
    uint64_t value;
    if (!ech_words_number_after(words, key, &value))
        return false;
    *ret = value > G_MAXINT64 / MIB ? G_MAXINT64 : value * MIB;
    return true;
}

/* "Init cuDNN: CPU +0, GPU +8, now: CPU 12284, GPU 2740 (MiB)" ("GPU -33" where some was given back). */
static bool read_change(EchTensorrtSays *says, EchWords line)
{
    EchBytes now, more;
    if (!ech_words_have(line, "(MiB)") || !mib_after(ech_words_after(line, "now: CPU "), "GPU ", &now))
        return false;
    if (!ech_words_have(line, "TensorRT-managed allocation in")) {
        says->in_use = now;
    } else if (!ech_words_have(line, "building engine")) {
        says->managed = now;
        if (ech_words_have(line, "IExecutionContext creation") && mib_after(line, "GPU +", &more))
            says->contexts = ech_bytes_add(says->contexts, more);
    }
    return true;
}

/* A number of GiB with its decimals, without its unit: "(GiB): 140.06". */
static bool gib_after(EchWords words, const char *key, EchBytes *ret)
{
    EchWords rest = ech_words_after(words, key);
    g_autofree char *text = g_strndup(rest.text, MIN(rest.n, (size_t)24));
    char *end = NULL;
    double value = g_ascii_strtod(text, &end);
    if (rest.n == 0 || !g_ascii_isdigit(text[0]) || end == text || !(value >= 0 && value < 1e6))
        return false;
    *ret = ech_rounded_bytes(value * (double)(UINT64_C(1) << 30));
    return true;
}

/* "Model: 139.55 / 110.70" */
static bool read_component(EchTensorrtSays *says, EchWords line)
{
    const char *colon = line.n ? memrchr(line.text, ':', line.n) : NULL;
    Component c = {0};
    EchWords sizes = colon ? (EchWords){colon, (size_t)(line.text + line.n - colon)} : (EchWords){line.text, 0};
    if (colon == line.text || !gib_after(sizes, ":", &c.before) || !gib_after(sizes, " / ", &c.after))
        return false;
    if (says->components->len < MAX_COMPONENTS) {
        c.name = ech_quote(line.text, colon - line.text, MAX_NAME);
        g_array_append_val(says->components, c);
    }
    return true;
}

/* Why an executor could not be made (py_executor_creator.py of TensorRT-LLM 1.0 to 1.3): "The following component could not be created: KV cache", how much was
 * free then, and a list of what was made before. Of several processes the first counts. */
static bool read_executor(EchTensorrtSays *says, EchWords line)
{
    EchWords failed = ech_words_after(line, "The following component could not be created:");
    if (says->in_components && read_component(says, line))
        return true;
    says->in_components = false;
    if (failed.n && !says->failed)
        says->failed = ech_quote(failed.text, (gssize)failed.n, MAX_NAME);
    if (!says->failed || failed.n)
        return failed.n != 0;
    if (ech_words_start(line, "Previously created components and free GPU memory before/after")) {
        says->in_components = says->components->len == 0;
        return true;
    }
    EchBytes bytes;
    bool total = gib_after(line, "Total GPU memory (GiB):", &bytes),
         free = !total && gib_after(line, "Free GPU memory before component creation attempt (GiB):", &bytes);
    if (total && !says->total)
        says->total = bytes;
    if (free && !says->free)
        says->free = bytes;
    return total || free;
}

bool ech_tensorrt_says_line(EchTensorrtSays *says, EchWords line)
{
    static const struct {
        const char *key;
        Need need;
    } needs[] = {{"Total Weights Memory:", WEIGHTS},
                 {"Total Activation Memory:", ACTIVATIONS},
                 {"Total Device Persistent Memory:", PERSISTENT},
                 {"Total Scratch Memory:", SCRATCH},
                 {"Max Scratch Memory:", SCRATCH}};
    static const char *const others[N_OTHERS] = {" for model weights",
                                                 NULL,
                                                 NULL,
                                                 " for execution context memory",
                                                 " GPU memory for runtime buffers",
                                                 " GPU memory for decoder",
                                                 " for max tokens in paged KV cache"};
    EchRounded size;
    uint64_t bytes;
    if (read_executor(says, line))
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(needs); i++) {
        if (ech_words_number_after(line, needs[i].key, &bytes)) {
            says->needs[needs[i].need] = bytes;
            return true;
        }
    }
    for (size_t i = 0; i < N_OTHERS; i++) {
        if (others[i] && (i != MODEL || ech_words_have(line, " uses ")) && ech_words_size_before(line, others[i], &size)) {
            says->others[i] = size.bytes;
            if (i == CACHE)
                ech_words_number_after(line, "paged KV cache (", &says->tokens);
            return true;
        }
    }
    /* Of its PyTorch backend, which sizes the cache by a trial run (pyexecutor/_util.py). */
    static const struct {
        const char *key;
        Other other;
    } trial[] = {{"after loading model weights (inside torch) in memory usage profiling:", MODEL},
                 {"dynamically allocated during inference (inside torch) in memory usage profiling:", TRIAL},
                 {"used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling:", OUTSIDE},
                 {"available KV cache memory when calculating max tokens:", CACHE}};
    for (size_t i = 0; i < G_N_ELEMENTS(trial); i++) {
        if (ech_words_size_after(line, trial[i].key, &size)) {
            says->others[trial[i].other] = size.bytes;
            if (trial[i].other == CACHE && ech_words_size_after(line, "device total memory", &size))
                says->total = size.bytes;
            return true;
        }
    }
    /* Of 2024: "Max tokens in paged KV cache: 117760. Allocating 54022635520 bytes." */
    if (ech_words_number_after(line, "Max tokens in paged KV cache", &says->tokens) && ech_words_size_after(line, "Allocating ", &size)) {
        says->others[CACHE] = size.bytes;
        return true;
    }
    /* Until February 2024: "Allocate 33554432000 bytes for k/v cache.", "Using 64000 tokens in paged KV cache." */
    if (ech_words_size_before(line, " for k/v cache", &size)) {
        says->others[CACHE] = size.bytes;
        return true;
    }
    if (ech_words_have(line, " tokens in paged KV cache"))
        return ech_words_number_after(line, "Using ", &says->tokens);
    if (ech_words_have(line, "Peak memory usage of TRT CPU/GPU memory allocators"))
        return mib_after(ech_words_after(line, "allocators: CPU "), "GPU ", &says->building);
    return read_change(says, line);
}

static EchBytes needed(const EchTensorrtSays *says)
{
    return ech_bytes_add(ech_bytes_add(says->needs[WEIGHTS], says->needs[ACTIVATIONS]), says->needs[PERSISTENT]);
}

static EchBytes other_bytes(const EchTensorrtSays *says)
{
    EchBytes sum = 0;
    for (size_t i = 0; i < N_OTHERS; i++)
        sum = ech_bytes_add(sum, says->others[i]);
    return sum;
}

bool ech_tensorrt_says_any(const EchTensorrtSays *says)
{
    return needed(says) || says->managed || other_bytes(says) || says->building || says->failed;
}

/* What a component holds that is not given back before the next: "(temporary for KV cache size estimation)" is. */
static EchBytes kept(const Component *c)
{
    return strstr(c->name, "(temporary") || c->after > c->before ? 0 : c->before - c->after;
}

/* What was in use before the executor made anything: a context, libraries, other processes. 0: not told. */
static EchBytes before_all(const EchTensorrtSays *says)
{
    EchBytes first = says->components->len ? g_array_index(says->components, Component, 0).before : says->free;
    return says->total > first ? says->total - first : 0;
}

static void say_executor(const EchTensorrtSays *says, EchDiag *diag)
{
    g_autoptr(GString) text = g_string_new("TensorRT-LLM found no room for this component: ");
    g_autofree char *free = ech_format_bytes(says->free), *total = ech_format_bytes(says->total), *before = ech_format_bytes(before_all(says));
    g_string_append(text, says->failed);
    if (says->total)
        g_string_append_printf(text, "; %s of %s were free when it was tried", free, total);
    for (guint i = 0; i < says->components->len; i++) {
        const Component *c = &g_array_index(says->components, Component, i);
        g_autofree char *bytes = ech_format_bytes(kept(c));
        if (kept(c))
            g_string_append_printf(text, "; %s took %s", c->name, bytes);
    }
    if (before_all(says))
        g_string_append_printf(text, "; %s were in use before all of them", before);
    ech_diag_remark(diag, "%s", text->str);
    ech_diag_remark(diag,
                    "the KV cache is made as large as kv_cache_config's free_gpu_memory_fraction of what is free (or max_tokens): a smaller one leaves more "
                    "to what is made beside and after it; the model grows with max_num_tokens and max_batch_size, and is less on each GPU of more "
                    "(tensor_parallel_size, pipeline_parallel_size)");
}

static void say_built(const EchTensorrtSays *says, EchDiag *diag)
{
    g_autofree char *all = ech_format_bytes(needed(says)), *most = ech_format_bytes(ech_bytes_add(needed(says), says->needs[SCRATCH])),
                    *weights = ech_format_bytes(says->needs[WEIGHTS]), *activations = ech_format_bytes(says->needs[ACTIVATIONS]),
                    *persistent = ech_format_bytes(says->needs[PERSISTENT]);
    g_autofree char *scratch =
        says->needs[SCRATCH] ? g_strdup_printf(", up to %s where scratch memory finds no room among the activations", most) : g_strdup("");
    g_autofree char *of_weights = says->needs[WEIGHTS] ? g_strdup_printf("weights %s, ", weights) : g_strdup("");
    ech_diag_remark(diag, "the engine that TensorRT built needs %s of the device to run%s%s: %sactivations %s, layers' own memory %s", all,
                    says->needs[WEIGHTS] ? "" : " beside its weights", scratch, of_weights, activations, persistent);
    if (says->needs[WEIGHTS] == 0)
        ech_diag_remark(diag, "TensorRT before 9 does not tell the weights: they are about as large as the engine's file");
}

void ech_tensorrt_says_say(const EchTensorrtSays *says, EchDiag *diag)
{
    if (says->failed)
        say_executor(says, diag);
    if (needed(says))
        say_built(says, diag);
    if (says->building) {
        g_autofree char *building = ech_format_bytes(says->building);
        ech_diag_remark(diag, "building it took up to %s of the device: --memPoolSize=workspace:SIZE bounds what tactics may try", building);
    }
    if (says->managed) {
        g_autofree char *all = ech_format_bytes(says->managed), *contexts = ech_format_bytes(says->contexts);
        ech_diag_remark(diag, "TensorRT holds %s of the device for engines, %s of it for execution contexts, the rest weights", all, contexts);
    }
    if (other_bytes(says)) {
        g_autoptr(GString) text = g_string_new("TensorRT-LLM, on each GPU");
        g_autofree char *total = ech_format_bytes(says->total);
        if (says->total && !says->failed)
            g_string_append_printf(text, " of %s", total);
        g_string_append(text, says->others[MODEL] ? ":" : ", beside its engine:");
        for (size_t i = 0; i < N_OTHERS; i++) {
            g_autofree char *bytes = ech_format_bytes(says->others[i]);
            if (says->others[i])
                g_string_append_printf(text, " %s %s;", other_names[i], bytes);
        }
        g_string_truncate(text, text->len - 1);
        ech_diag_remark(diag, "%s", text->str);
    }
    if (says->tokens && says->others[CACHE]) {
        g_autofree char *each = ech_format_bytes(says->others[CACHE] / says->tokens);
        ech_diag_remark(diag,
                        "the KV cache holds %" G_GUINT64_FORMAT " tokens of all requests together, %s each; it gets kv_cache_config's "
                        "free_gpu_memory_fraction of what is free once the engine is loaded, or max_tokens",
                        says->tokens, each);
    }
    if (needed(says) || says->managed)
        ech_diag_remark(diag,
                        "activations grow with the largest shapes that the engine is built for (--maxShapes, max_batch_size, max_num_tokens) and are each "
                        "context's own; weights are shared");
    if (says->in_use) {
        g_autofree char *bytes = ech_format_bytes(says->in_use);
        ech_diag_remark(diag, "%s of the device were in use when last told, by all processes, contexts and libraries of CUDA among it", bytes);
    }
}

void ech_tensorrt_says_write(const EchTensorrtSays *says, EchTraceBuilder *builder)
{
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    if (says->failed) {
        ech_refused_held(builder, memory, "in use before", before_all(says));
        for (guint i = 0; i < says->components->len; i++)
            ech_refused_held(builder, memory, g_array_index(says->components, Component, i).name, kept(&g_array_index(says->components, Component, i)));
        ech_refused_number(builder, "had_bytes", says->total != 0, says->total);
        return;
    }
    if (says->managed) {
        ech_refused_held(builder, memory, "engines' weights", says->managed - MIN(says->contexts, says->managed));
        ech_refused_held(builder, memory, "execution contexts", MIN(says->contexts, says->managed));
    } else {
        for (size_t i = 0; i < SCRATCH; i++)
            ech_refused_held(builder, memory, need_names[i], says->needs[i]);
        if (needed(says) == 0)
            ech_refused_held(builder, memory, "the builder, at the fullest", says->building);
    }
    for (size_t i = 0; i < N_OTHERS; i++)
        ech_refused_held(builder, memory, other_names[i], says->others[i]);
}
