#include "sim/import/llama_says.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <string.h>

enum { MAX_PARTS = 64, MAX_GPUS = 16 };

/* "CUDA0 KV buffer size = 379.23 MiB". */
typedef struct {
    char device[16], kind[32];
    EchBytes bytes;
} Part;

/* Of ollama's "msg=offload": what all of the model takes, and what there is. */
typedef struct {
    bool has_full;
    EchRounded full, cache, weights, graph; /* bytes 0: not told */
    EchBytes available[MAX_GPUS];
    unsigned n_available;
} Plan;

struct EchLlamaSays {
    Part parts[MAX_PARTS];
    unsigned n_parts;
    Plan plan;
    bool has_layers;
    uint64_t on_gpus, layers;
    EchBytes unpinned; /* the most that was asked for page-locked and is not */
};

EchLlamaSays *ech_llama_says_new(void)
{
    return g_new0(EchLlamaSays, 1);
}

void ech_llama_says_free(EchLlamaSays *says)
{
    g_free(says);
}

bool ech_llama_says_any(const EchLlamaSays *s)
{
    return s->n_parts || s->plan.has_full;
}

/* ---- lines ---- */

/* "load_tensors:        CUDA0 model buffer size = 48928.09 MiB", "llm_load_tensors:      CUDA0 buffer size = 14132.19 MiB" */
static bool read_part(EchLlamaSays *s, EchWords line)
{
    Part part = {.bytes = 0};
    EchRounded size;
    const char *end = line.n ? memmem(line.text, line.n, " buffer size = ", 15) : NULL;
    if (!end || !ech_words_size_after(line, " buffer size = ", &size))
        return false;
    EchWords before = ech_words_trim(line.text, (size_t)(end - line.text));
    const char *colon = before.n ? memrchr(before.text, ':', before.n) : NULL;
    bool of_tensors = colon && ech_words_have(before, "load_tensors");
    if (colon)
        before = ech_words_trim(colon + 1, (size_t)(before.text + before.n - colon - 1));
    const char *blank = before.n ? memchr(before.text, ' ', before.n) : NULL;
    size_t name = blank ? (size_t)(blank - before.text) : of_tensors ? before.n : 0;
    EchWords kind = ech_words_trim(before.text + name, before.n - name);
    if (kind.n == 0)
        kind = (EchWords){"model", 5};
    if (name == 0 || name >= sizeof part.device || kind.n >= sizeof part.kind)
        return false;
    memcpy(part.device, before.text, name);
    memcpy(part.kind, kind.text, kind.n);
    part.bytes = size.bytes;
    for (unsigned i = 0; i < s->n_parts; i++) {
        /* Asked for again with other settings. */
        if (strcmp(s->parts[i].device, part.device) == 0 && strcmp(s->parts[i].kind, part.kind) == 0 && strcmp(part.kind, "compute") == 0) {
            s->parts[i] = part;
            return true;
        }
    }
    if (s->n_parts < MAX_PARTS)
        s->parts[s->n_parts++] = part;
    return true;
}

/* "offloaded 33/81 layers to GPU" */
static bool read_layers(EchLlamaSays *s, EchWords line)
{
    EchWords rest = ech_words_after(line, "offloaded ");
    const char *slash = rest.n ? memchr(rest.text, '/', MIN(rest.n, (size_t)12)) : NULL;
    uint64_t some, all;
    if (!slash || !ech_words_have(rest, " layers to GPU") || !ech_words_number_after((EchWords){rest.text, (size_t)(slash - rest.text)}, "", &some) ||
        !ech_words_number_after(rest, "/", &all) || some > all)
        return false;
    s->on_gpus = some;
    s->layers = all;
    return s->has_layers = true;
}

/* "ggml_cuda_host_malloc: failed to allocate 349659.17 MiB of pinned memory: out of memory": it goes on with the host's ordinary memory (ggml-cuda.cu). */
static bool read_unpinned(EchLlamaSays *s, EchWords line)
{
    EchRounded size;
    if (!ech_words_have(line, "of pinned memory") || !ech_words_size_after(line, "_host_malloc: failed to allocate ", &size))
        return false;
    s->unpinned = MAX(s->unpinned, size.bytes);
    return true;
}

/* memory.available="[22.0 GiB 22.0 GiB]" */
static void read_available(Plan *plan, EchWords line)
{
    EchWords rest = ech_words_after(line, "memory.available=\"[");
    const char *close = rest.n ? memchr(rest.text, ']', rest.n) : NULL;
    EchRounded size;
    size_t used;
    if (!close)
        return;
    rest.n = (size_t)(close - rest.text);
    plan->n_available = 0;
    while (plan->n_available < MAX_GPUS && ech_rounded_parse(rest.text, rest.n, &size, &used)) {
        plan->available[plan->n_available++] = size.bytes;
        rest = ech_words_trim(rest.text + used, rest.n - used);
    }
}

/* ollama's log puts all of it on one line, which terminals and journals wrap. */
static bool read_plan(EchLlamaSays *s, EchWords line)
{
    Plan *p = &s->plan;
    const struct {
        const char *key;
        EchRounded *size;
    } keys[] = {{"memory.required.full=\"", &p->full},
                {"memory.required.kv=\"", &p->cache},
                {"memory.weights.total=\"", &p->weights},
                {"memory.graph.full=\"", &p->graph}};
    uint64_t all, some;
    bool any = false;
    if (!ech_words_have(line, "memory.") && !ech_words_have(line, "layers."))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        any |= ech_words_size_after(line, keys[i].key, keys[i].size);
    p->has_full |= ech_words_have(line, keys[0].key) && p->full.bytes;
    read_available(p, line);
    if (ech_words_number_after(line, "layers.model=", &all) && all) {
        s->layers = all;
        any = true;
    }
    if (ech_words_number_after(line, "layers.offload=", &some)) {
        s->on_gpus = some;
        any = true;
    }
    s->has_layers |= any && s->layers && s->on_gpus <= s->layers;
    return any;
}

bool ech_llama_says_line(EchLlamaSays *s, EchWords line)
{
    return read_part(s, line) || read_layers(s, line) || read_unpinned(s, line) || read_plan(s, line);
}

/* ---- what it comes to ---- */

static bool is_of_host(const Part *part)
{
    return strncmp(part->device, "CPU", 3) == 0 || strstr(part->device, "_Host") != NULL;
}

/* Whether llama.cpp calls the device of that index so: "CUDA4", "ROCm4", but not "CUDA_Host". */
static bool is_of_device(const Part *part, uint64_t device)
{
    size_t n = strlen(part->device), digits = 0;
    uint64_t index;
    while (digits < n && g_ascii_isdigit(part->device[n - 1 - digits]))
        digits++;
    return digits && ech_parse_u64(part->device + n - digits, &index, NULL) && index == device;
}

static EchBytes sum_of(const EchLlamaSays *s, const char *device)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < s->n_parts; i++)
        sum = strcmp(s->parts[i].device, device) == 0 ? ech_bytes_add(sum, s->parts[i].bytes) : sum;
    return sum;
}

static EchBytes sum_of_host(const EchLlamaSays *s)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < s->n_parts; i++)
        sum = is_of_host(&s->parts[i]) ? ech_bytes_add(sum, s->parts[i].bytes) : sum;
    return sum;
}

/* The GPU that holds most, or NULL. */
static const char *fullest(const EchLlamaSays *s)
{
    const char *best = NULL;
    for (unsigned i = 0; i < s->n_parts; i++) {
        if (!is_of_host(&s->parts[i]) && (!best || sum_of(s, s->parts[i].device) > sum_of(s, best)))
            best = s->parts[i].device;
    }
    return best;
}

static bool is_first(const EchLlamaSays *s, unsigned part)
{
    for (unsigned i = 0; i < part; i++) {
        if (strcmp(s->parts[i].device, s->parts[part].device) == 0)
            return false;
    }
    return true;
}

static void say_layers(const EchLlamaSays *s, EchDiag *diag)
{
    if (s->has_layers && s->on_gpus == s->layers)
        ech_diag_remark(diag, "all of its %" G_GUINT64_FORMAT " layers lie on GPUs", s->layers);
    else if (s->has_layers)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT " of its %" G_GUINT64_FORMAT " layers lie on GPUs; the others run on the CPU, from the host's memory, which "
                        "is what makes it slow",
                        s->on_gpus, s->layers);
    g_autofree char *unpinned = ech_format_bytes(s->unpinned);
    if (s->unpinned)
        ech_diag_remark(
            diag,
            "%s of the host's memory could not be page-locked, which is no error: llama.cpp goes on with ordinary memory, from which copies to a GPU "
            "are slower",
            unpinned);
}

static void say_plan(const EchLlamaSays *s, EchDiag *diag)
{
    const Plan *p = &s->plan;
    g_autofree char *full = ech_format_bytes(p->full.bytes), *weights = ech_format_bytes(p->weights.bytes), *cache = ech_format_bytes(p->cache.bytes),
                    *graph = ech_format_bytes(p->graph.bytes);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "ollama: whole on GPUs the model would take %s", full);
    if (p->weights.bytes)
        g_string_append_printf(text, ": weights %s, KV cache %s, compute buffers %s", weights, cache, graph);
    for (unsigned i = 0; i < p->n_available; i++) {
        g_autofree char *free = ech_format_bytes(p->available[i]);
        g_string_append_printf(text, "%s%s", i ? ", " : "; free are ", free);
    }
    ech_diag_remark(diag, "%s", text->str);
    say_layers(s, diag);
    ech_diag_remark(
        diag, "less is taken by a shorter context (num_ctx, which the KV cache grows with), fewer requests at once (OLLAMA_NUM_PARALLEL), a KV cache of 8 "
              "bits (OLLAMA_FLASH_ATTENTION=1 with OLLAMA_KV_CACHE_TYPE=q8_0), weights of fewer bits; what others hold of the GPU nvidia-smi names");
}

void ech_llama_says_say(const EchLlamaSays *s, EchDiag *diag)
{
    if (s->plan.has_full) {
        say_plan(s, diag);
        return;
    }
    g_autoptr(GString) text = g_string_new("llama.cpp:");
    for (unsigned i = 0; i < s->n_parts; i++) {
        g_autofree char *sum = ech_format_bytes(sum_of(s, s->parts[i].device));
        if (!is_first(s, i))
            continue;
        g_string_append_printf(text, "%s %s %s", i ? ";" : "", s->parts[i].device, sum);
        const char *before = " (";
        for (unsigned k = i; k < s->n_parts; k++) {
            g_autofree char *size = ech_format_bytes(s->parts[k].bytes);
            if (strcmp(s->parts[k].device, s->parts[i].device) != 0)
                continue;
            g_string_append_printf(text, "%s%s %s", before, s->parts[k].kind, size);
            before = ", ";
        }
        g_string_append_c(text, ')');
    }
    ech_diag_remark(diag, "%s", text->str);
    say_layers(s, diag);
    ech_diag_remark(diag, "the context of each process (some 300 to 600 MiB) comes on top. The KV cache grows with the context (-c) and halves in 8 bits "
                          "(--cache-type-k q8_0 --cache-type-v q8_0, the latter with flash attention); compute buffers shrink with the batch (-ub)");
}

EchBytes ech_llama_says_held(const EchLlamaSays *s, uint64_t device, EchTraceBuilder *builder, EchId memory)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < s->n_parts; i++) {
        if (!is_of_device(&s->parts[i], device))
            continue;
        g_autofree char *name = g_strdup_printf("%s, %s", s->parts[i].kind, s->parts[i].device);
        ech_refused_held(builder, memory, name, s->parts[i].bytes);
        sum = ech_bytes_add(sum, s->parts[i].bytes);
    }
    return sum;
}

void ech_llama_says_write(const EchLlamaSays *s, EchTraceBuilder *builder)
{
    const Plan *p = &s->plan;
    const char *full = fullest(s);
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    EchBytes told = ech_bytes_add(ech_bytes_add(p->weights.bytes, p->cache.bytes), p->graph.bytes);
    if (p->has_full) {
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
        ech_refused_held(builder, memory, "weights", p->weights.bytes);
        ech_refused_held(builder, memory, "KV cache", p->cache.bytes);
        ech_refused_held(builder, memory, "compute buffers", p->graph.bytes);
        ech_refused_held(builder, memory, "besides, on all GPUs", p->full.bytes - MIN(p->full.bytes, told));
        return;
    }
    for (unsigned i = 0; i < s->n_parts && full; i++) {
        g_autofree char *name = g_strdup_printf("%s, %s", s->parts[i].kind, s->parts[i].device);
        if (strcmp(s->parts[i].device, full) == 0)
            ech_refused_held(builder, memory, name, s->parts[i].bytes);
    }
    ech_refused_held(builder, ech_trace_builder_memory(builder, "host"), "on the host", sum_of_host(s));
}
