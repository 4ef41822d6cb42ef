#include "sim/import/llama_says.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 64, MAX_GPUS = 16 };

#define OLLAMA_LESS                                                                                                                                            \
    "less is taken by a shorter context (num_ctx, which the KV cache grows with), fewer requests at once (OLLAMA_NUM_PARALLEL), a KV cache of 8 "              \
    "bits (OLLAMA_FLASH_ATTENTION=1 with OLLAMA_KV_CACHE_TYPE=q8_0), weights of fewer bits; what others hold of the GPU nvidia-smi names"

/* "CUDA0 KV buffer size = 379.23 MiB". */
typedef struct {
    char device[16], kind[32];
    EchBytes bytes;
} Part;

typedef struct {
    Part part[MAX_PARTS];
    unsigned n;
} Parts;

/* A device of llama.cpp's table of memory; @layers: that it is to get, 0: not told. */
typedef struct {
    char name[16];
    EchBytes total, free;
    uint64_t layers;
} Device;

/* Such a table: one before anything is loaded, of what it would take, has devices whose free memory and parts are more than they have in all. */
typedef struct {
    Parts parts;
    Device device[MAX_GPUS];
    unsigned n_devices;
    bool ahead;
} Table;

/* Of ollama's "msg=offload": what all of the model takes, and what there is. */
typedef struct {
    bool has_full;
    EchRounded full, cache, weights, graph; /* bytes 0: not told */
    EchBytes available[MAX_GPUS], taken[MAX_GPUS];
    unsigned n_taken;
    char gpu[MAX_GPUS][48]; /* whose that is; empty where they are listed on one line */
    unsigned n_available;
} Plan;

/* One of several devices, as it reckons with it before anything is loaded; @left: less than 0 where it would take more than is free. */
typedef struct {
    char name[16];
    EchBytes total, used, target;
    double left;
} Share;

/* What it settles for on a device: "- CUDA0 (NVIDIA RTX 2000 Ada): 42 layers (34 overflowing),   5658 MiB used,   1968 MiB free". */
typedef struct {
    char name[16];
    uint64_t layers, overflowing; /* of these parts lie on the next device or the host */
    double used, left;            /* bytes */
} Fitted;

/* Before anything is loaded: what it would take of all devices, what is free of them, what is to stay free of each, how much is too much; 0: not told. */
typedef struct {
    EchRounded projected, free, target, excess;
    bool of_all;       /* free: what the devices have in all */
    bool of_host;      /* projected: of the host's memory, without devices */
    bool fits;         /* It says so, of each. */
    char given_up[96]; /* why it did not look for settings that fit */
    Share share[MAX_GPUS];
    unsigned n_shares; /* 0: of one device, or not told */
    bool found;        /* settings that fit, by changing those it was given */
    uint64_t context, asked_context;
    Fitted fitted[MAX_GPUS];
    unsigned n_fitted;
} Fit;

struct EchLlamaSays {
    Parts parts;
    bool of_diffusion;     /* stable-diffusion.cpp */
    bool of_ollama, whole; /* who told of them, and whether the next begins them anew */
    bool draft;            /* the model that is loaded next is a draft model, beside the one before */
    Table asked, last;     /* llama.cpp's first table and its last one */
    uint64_t tables;
    bool fitting; /* It is looking for settings that fit: tables are of what they would take. */
    Fit fit;
    Plan plan;
    bool metal;                       /* on a Mac's GPU, */
    EchBytes metal_used, metal_limit; /* of which it has as much in buffers, of what it may take; 0: not told */
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
    return s->parts.n || s->metal_used || s->plan.has_full || s->last.parts.n || s->fit.projected.bytes;
}

/* ---- lines ---- */

/* Adds to what a device holds of a kind; @instead: in place of what it held of it. False: no name of a device or kind. */
static bool add_part(Parts *parts, EchWords device, EchWords kind, EchBytes bytes, bool instead)
{
    Part part = {.bytes = bytes};
    if (device.n == 0 || device.n >= sizeof part.device || kind.n == 0 || kind.n >= sizeof part.kind)
        return false;
    memcpy(part.device, device.text, device.n);
    memcpy(part.kind, kind.text, kind.n);
    for (unsigned i = 0; i < parts->n && instead; i++) {
        if (strcmp(parts->part[i].device, part.device) == 0 && strcmp(parts->part[i].kind, part.kind) == 0) {
            parts->part[i] = part;
            return true;
        }
    }
    if (parts->n < MAX_PARTS)
        parts->part[parts->n++] = part;
    return true;
}

/* stable-diffusion.cpp's (ggml_extend.hpp): "ggml_extend.hpp:1783 - t5 params backend buffer size =  5757.05 MB(RAM) (242 tensors)", "... - vae compute buffer
 * size: 640.00 MB(VRAM)". Of a model of vision llama.cpp says as much without where it lies, which is read nowhere. */
static bool read_part_of_diffusion(EchLlamaSays *s, EchWords line)
{
    static const char *const keys[] = {" params backend buffer size = ", " compute buffer size: "};
    for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++) {
        EchRounded size;
        const char *end = ech_words_find(line, keys[i]);
        bool on_gpu = ech_words_have(line, "MB(VRAM)");
        if (!end || !ech_words_size_after(line, keys[i], &size))
            continue;
        if (!on_gpu && !ech_words_have(line, "MB(RAM)"))
            return i == 0;
        EchWords before = {line.text, (size_t)(end - line.text)}, name = before;
        for (EchWords rest = ech_words_after(before, " - "); rest.n; rest = ech_words_after(rest, " - "))
            name = rest;
        g_autofree char *kind = g_strdup_printf("%.*s%s", (int)MIN(name.n, (size_t)20), name.text, i ? " compute" : "");
        s->of_diffusion = true;
        return add_part(&s->parts, (EchWords){on_gpu ? "GPU" : "CPU", 3}, (EchWords){kind, strlen(kind)}, size.bytes, true);
    }
    return false;
}

/* "load_tensors:        CUDA0 model buffer size = 48928.09 MiB", "llm_load_tensors:      CUDA0 buffer size = 14132.19 MiB" */
static bool read_part(EchLlamaSays *s, EchWords line)
{
    EchRounded size;
    const char *end = ech_words_find(line, " buffer size = ");
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
    /* Of scratch memory: asked for again with other settings. */
    return add_part(&s->parts, (EchWords){before.text, name}, kind, size.bytes, kind.n == 7 && memcmp(kind.text, "compute", 7) == 0);
}

/* A number with a point or without, of MiB at the most. */
static bool number_at(EchWords text, double *ret)
{
    g_autofree char *number = g_strndup(text.text, MIN(text.n, (size_t)24));
    *ret = g_ascii_isdigit(*number) ? g_ascii_strtod(number, NULL) : 0;
    return *ret > 0 && *ret < 1 << 30;
}

/* A model is loaded: after another, whose scratch memory is told last, it takes that one's place, but for a draft model. */
static bool read_load(EchLlamaSays *s, EchWords line)
{
    s->draft |= ech_words_have(line, "draft model");
    if (!ech_words_have(line, "llama_model_loader: loaded meta data"))
        return false;
    bool complete = false;
    for (unsigned i = 0; i < s->parts.n; i++)
        complete |= strcmp(s->parts.part[i].kind, "compute") == 0;
    if (complete && !s->draft)
        s->parts.n = 0;
    s->draft = false;
    return true;
}

/* What stands up to a blank or a quote. */
static EchWords word(EchWords text)
{
    size_t n = 0;
    while (n < text.n && text.text[n] != ' ' && text.text[n] != '"')
        n++;
    return (EchWords){text.text, n};
}

/* ollama's own engine: msg="model weights" device=CUDA0 size="12.1 GiB", of 2025 buffer=CUDA0, backend=CUDA0; the last of a load is msg="total memory". */
static bool read_ollama_part(EchLlamaSays *s, EchWords line)
{
    static const char *const kinds[] = {"model weights", "kv cache", "compute graph"}, *const devices[] = {" device=", " buffer=", " backend="};
    EchWords message = ech_words_after(line, "msg=\""), device = {line.text, 0};
    EchRounded size;
    if (ech_words_start(message, "total memory\""))
        return s->whole = true;
    if (!ech_words_size_after(message, " size=\"", &size))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(devices) && device.n == 0; i++)
        device = word(ech_words_after(message, devices[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (!ech_words_start(message, kinds[i]))
            continue;
        if (s->whole)
            s->parts.n = 0;
        s->whole = false;
        s->of_ollama = true;
        return size.bytes == 0 || add_part(&s->parts, device, (EchWords){kinds[i], strlen(kinds[i])}, size.bytes, true);
    }
    return false;
}

/* "|   - CUDA0 (RTX 5090)   | 32111 = 31153 + (33975 = 16386 +   16832 +     756) +      -33017 |", in MiB: all of the device, free, llama.cpp's own, which
 * is weights, context and scratch memory, and what nobody accounts for; of the host "1234 =   682 +       0 +     552", its own alone. */
static bool read_row(Table *t, EchWords line)
{
    static const char *const kinds[] = {"model", "context", "compute"};
    enum { TOTAL, FREE, OWN, N_DEVICE = 7, N_HOST = 4, N_OLD_HOST = 5 };
    uint64_t mib[N_DEVICE] = {0};
    unsigned n = 0;
    EchWords rest = ech_words_after(line, "- "), name = word(rest);
    const char *numbers = rest.n ? memchr(rest.text, '|', rest.n) : NULL;
    /* Before the first release: "- CUDA0 (RTX 4090):  24080 = ..." */
    numbers = numbers ? numbers : rest.n ? memchr(rest.text, ':', rest.n) : NULL;
    if (!numbers || name.n == 0)
        return false;
    for (const char *at = numbers + 1, *end = rest.text + rest.n; at < end && n < N_DEVICE; at++) {
        if (!g_ascii_isdigit(*at))
            continue;
        for (; at < end && g_ascii_isdigit(*at) && mib[n] < UINT64_C(1) << 40; at++)
            mib[n] = mib[n] * 10 + (uint64_t)(*at - '0');
        n++;
    }
    bool device = n == N_DEVICE;
    unsigned first = device ? OWN + 1 : n == N_HOST ? 1 : n == N_OLD_HOST ? 2 : 0;
    if (first == 0 || (device && (mib[TOTAL] >= UINT64_C(1) << 40 || mib[FREE] >= UINT64_C(1) << 40)))
        return false;
    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (mib[first + i] >= UINT64_C(1) << 40)
            return false;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (mib[first + i])
            add_part(&t->parts, name, (EchWords){kinds[i], strlen(kinds[i])}, mib[first + i] << 20, true);
    }
    if (device && t->n_devices < MAX_GPUS && name.n < sizeof t->device->name) {
        Device *d = &t->device[t->n_devices++];
        *d = (Device){.total = mib[TOTAL] << 20, .free = mib[FREE] << 20};
        memcpy(d->name, name.text, name.n);
        t->ahead |= mib[FREE] + mib[OWN] > mib[TOTAL];
    }
    return true;
}

/* A number of MiB, maybe below 0, that ends where @key begins. */
static bool mib_before(EchWords line, const char *key, double *ret)
{
    const char *end = ech_words_find(line, key), *begin = end;
    while (begin && begin > line.text && (g_ascii_isdigit(begin[-1]) || begin[-1] == '-'))
        begin--;
    if (!end || begin == end || end - begin > 12)
        return false;
    g_autofree char *text = g_strndup(begin, (gsize)(end - begin));
    *ret = g_ascii_strtod(text, NULL) * (1 << 20);
    return true;
}

static bool read_fitted(Table *t, Fit *fit, EchWords line)
{
    Fitted fitted = {0};
    EchWords name = word(ech_words_after(line, "- "));
    const char *end = ech_words_find(line, " layers"), *digit = end;
    while (digit && digit > line.text && g_ascii_isdigit(digit[-1]))
        digit--;
    if (!end || !mib_before(line, " MiB used", &fitted.used) || !ech_words_number_after((EchWords){digit, (size_t)(end - digit)}, "", &fitted.layers))
        return false;
    for (unsigned i = 0; i < t->n_devices; i++) {
        if (strlen(t->device[i].name) == name.n && memcmp(t->device[i].name, name.text, name.n) == 0)
            t->device[i].layers = fitted.layers;
    }
    mib_before(line, " MiB free", &fitted.left);
    ech_words_number_after(line, " layers (", &fitted.overflowing);
    memcpy(fitted.name, name.text, MIN(name.n, sizeof fitted.name - 1));
    /* It tells of them again as it goes on looking: the last counts. */
    unsigned at = 0;
    while (at < fit->n_fitted && strcmp(fit->fitted[at].name, fitted.name) != 0)
        at++;
    if (at == MAX_GPUS)
        return true;
    fit->fitted[at] = fitted;
    fit->n_fitted = MAX(fit->n_fitted, at + 1);
    return true;
}

/* "projected to use 24840 MiB of device memory vs. 22341 MiB of free device memory" (of 2025 "vs. a total of 65424 MiB"), without devices "projected to use
 * 9120 MiB of host memory vs. 64210 MiB of total host memory", "cannot meet free memory target of 1024 MiB, need to reduce device memory by 3523 MiB", "failed
 * to fit params to free device memory: n_gpu_layers already set by user to 99, abort"; the first.
 */
static void read_fit(Fit *fit, EchWords line)
{
    EchWords against = ech_words_after(line, " vs. "), why = ech_words_after(line, "failed to fit params to free device memory:");
    if (fit->projected.bytes == 0 && against.n && ech_words_size_after(line, "projected to use ", &fit->projected)) {
        fit->of_host = ech_words_have(against, " host memory");
        fit->of_all = ech_words_start(against, "a total of ") || ech_words_have(against, " of total ");
        ech_words_size_after(against, ech_words_start(against, "a total of ") ? "a total of " : "", &fit->free);
    }
    if (fit->excess.bytes == 0 && ech_words_size_after(line, "need to reduce device memory by ", &fit->excess))
        ech_words_size_after(line, "memory target of ", &fit->target);
    if (fit->excess.bytes == 0 && ech_words_size_after(line, "on all devices, need to use ", &fit->excess))
        ech_words_size_after(line, "margin of ", &fit->target);
    fit->fits |= ech_words_have(line, "no changes needed");
    fit->found |= ech_words_have(line, "successfully fit params");
    if (ech_words_number_after(line, "context size reduced from ", &fit->asked_context))
        ech_words_number_after(ech_words_after(line, "context size reduced from "), " to ", &fit->context);
    const char *abort = ech_words_find(why, ", abort");
    why.n = abort ? (size_t)(abort - why.text) : why.n;
    g_autofree char *text = ech_quote(why.text, (gssize)MIN(why.n, sizeof fit->given_up - 1), sizeof fit->given_up - 1);
    if (why.n && !fit->given_up[0])
        g_strlcpy(fit->given_up, text, sizeof fit->given_up);
}

/* Of each of several: "- CUDA0 (NVIDIA A100-SXM4-80GB):  81152 total,  78810 used,   1839 free vs. target of   4096", in MiB, of 2025 "... 153599 deficit" or
 * "... 1839 surplus". The first of each. */
static bool read_share(Fit *fit, EchWords line)
{
    Share share = {0};
    double total, used;
    uint64_t target = 0;
    EchWords name = word(ech_words_after(line, "- "));
    bool lacks = mib_before(line, " deficit", &share.left),
         has = lacks || mib_before(line, " surplus", &share.left) ||
               (mib_before(line, " free vs. target of", &share.left) && ech_words_number_after(line, " free vs. target of", &target));
    if (!has || !mib_before(line, " total,", &total) || !mib_before(line, " used,", &used) || total < 0 || used < 0 || target >= UINT64_C(1) << 40 ||
        name.n == 0 || name.n >= sizeof share.name)
        return false;
    share.left = lacks ? -share.left : share.left;
    share.total = (EchBytes)total;
    share.used = (EchBytes)used;
    share.target = target << 20;
    memcpy(share.name, name.text, name.n);
    for (unsigned i = 0; i < fit->n_shares; i++) {
        if (strcmp(fit->share[i].name, share.name) == 0)
            return true;
    }
    if (fit->n_shares < MAX_GPUS)
        fit->share[fit->n_shares++] = share;
    return true;
}

/* llama.cpp's table, printed when it ends and, since 2026, before it loads, while it looks for settings that fit. */
static bool read_table(EchLlamaSays *s, EchWords line)
{
    bool of_fit = ech_words_have(line, "params_fit_impl") || ech_words_have(line, "params_fit:") || ech_words_have(line, "fit_params:");
    if (of_fit)
        read_fit(&s->fit, line);
    if (of_fit && read_share(&s->fit, line))
        return s->fitting = true;
    if (ech_words_have(line, "params_fit_impl"))
        return read_fitted(&s->last, &s->fit, line) || (s->fitting = true);
    if (of_fit)
        s->fitting = false;
    if (!ech_words_have(line, "memory_breakdown"))
        return false;
    if (ech_words_have(line, "unaccounted")) {
        s->tables++;
        s->last = (Table){.ahead = s->fitting};
        return true;
    }
    if (!read_row(&s->last, line))
        return false;
    if (s->tables <= 1)
        s->asked = s->last;
    return true;
}

/* Of 2023: "llama_model_load_internal: mem required  = 9508.66 MB (+ 1608.00 MB per state)", "llm_load_tensors: VRAM used: 3820.93 MB", "llama_init_from_file:
 * kv self size  = 1343.75 MB". */
static bool read_of_2023(EchLlamaSays *s, EchWords line)
{
    static const struct {
        const char *key, *device, *kind;
    } rows[] = {{": mem required", "CPU", "model"}, {": VRAM used", "GPU", "model"}, {": kv self size", "CPU", "KV"}};
    EchRounded size;
    for (size_t i = 0; i < G_N_ELEMENTS(rows) && ech_words_start(line, "ll"); i++) {
        if (ech_words_size_after(line, rows[i].key, &size))
            return add_part(&s->parts, (EchWords){rows[i].device, strlen(rows[i].device)}, (EchWords){rows[i].kind, strlen(rows[i].kind)}, size.bytes, true);
    }
    return false;
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

/* "ggml_metal_init: recommendedMaxWorkingSetSize  =  5726.63 MB" (of 10^6 bytes; of 2023 in MiB), "ggml_backend_metal_buffer_type_alloc_buffer: allocated
 * buffer, size =   400.00 MiB, ( 5655.70 /  5461.34)": the most of it that was in use, in MiB (ggml-metal.m). */
static bool read_metal(EchLlamaSays *s, EchWords line)
{
    EchWords limit = ech_words_after(line, "recommendedMaxWorkingSetSize"), pair = ech_words_after(line, ", (");
    if (!ech_words_have(line, "metal_"))
        return false;
    s->metal = true;
    while (limit.n && strchr("=: ", *limit.text))
        limit.text++, limit.n--;
    double unit = ech_words_have(limit, "MB") ? 1e6 : 1 << 20, of_limit, used;
    const char *slash = pair.n ? memchr(pair.text, '/', pair.n) : NULL;
    if (number_at(limit, &of_limit)) {
        s->metal_limit = ech_rounded_bytes(of_limit * unit);
        return true;
    }
    EchWords behind = slash ? ech_words_trim(slash + 1, (size_t)(pair.text + pair.n - slash) - 1) : (EchWords){line.text, 0};
    if (!number_at(pair, &used) || !number_at(behind, &of_limit))
        return false;
    s->metal_used = MAX(s->metal_used, ech_rounded_bytes(used * (1 << 20)));
    s->metal_limit = ech_rounded_bytes(of_limit * (1 << 20));
    return true;
}

/* memory.available="[22.0 GiB 22.0 GiB]": one of each GPU. */
static void read_each(EchWords line, const char *key, EchBytes *sizes, unsigned *n)
{
    EchWords rest = ech_words_after(line, key);
    const char *close = rest.n ? memchr(rest.text, ']', rest.n) : NULL;
    EchRounded size;
    size_t used;
    if (!close)
        return;
    rest.n = (size_t)(close - rest.text);
    *n = 0;
    while (*n < MAX_GPUS && ech_rounded_parse(rest.text, rest.n, &size, &used)) {
        sizes[(*n)++] = size.bytes;
        rest = ech_words_trim(rest.text + used, rest.n - used);
    }
}

/* msg="gpu memory" id=GPU-d0f9ed85 available="14.2 GiB" free="14.7 GiB", told again with each load */
static bool read_gpu(Plan *p, EchWords line)
{
    EchWords message = ech_words_after(line, "msg=\"gpu memory\""), id = word(ech_words_after(message, "id="));
    EchRounded size;
    if (id.n == 0 || id.n >= sizeof p->gpu[0] || !ech_words_size_after(message, "available=\"", &size))
        return false;
    unsigned i = 0;
    while (i < p->n_available && (strlen(p->gpu[i]) != id.n || memcmp(p->gpu[i], id.text, id.n) != 0))
        i++;
    if (i == MAX_GPUS)
        return true;
    p->n_available = MAX(p->n_available, i + 1);
    memcpy(p->gpu[i], id.text, id.n);
    p->available[i] = size.bytes;
    return true;
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
    read_each(line, "memory.available=\"[", p->available, &p->n_available);
    read_each(line, "memory.required.allocations=\"[", p->taken, &p->n_taken);
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

/* `ollama ps` (cmd/cmd.go, ListRunningHandler; sizes of 1000): "qwen3:32b  030ee887880f  27 GB  14%/86% CPU/GPU  16384  4 minutes from now", "100% GPU",
 * "100% CPU". What of each model that is loaded lies where; before 0.12 no context stands there. */
static bool read_loaded(EchLlamaSays *s, EchWords line)
{
    char text[160], name[64], id[13], number[16], unit[3], share[12], where[8];
    static const char *const units[] = {"KB", "MB", "GB", "TB"};
    double bytes = 1e3, on_cpu = 0;
    size_t n = MIN(line.n, sizeof text - 1);
    memcpy(text, line.text, n);
    text[n] = '\0';
    if (sscanf(text, "%63s %12s %15s %2s %11s %7s", name, id, number, unit, share, where) != 6 || strlen(id) != 12 || strspn(id, "0123456789abcdef") != 12)
        return false;
    size_t of = 0;
    while (of < G_N_ELEMENTS(units) && strcmp(unit, units[of]) != 0)
        of++;
    for (size_t i = 0; i < of; i++)
        bytes *= 1e3;
    bytes *= g_ascii_strtod(number, NULL);
    char *end;
    double first = g_ascii_strtod(share, &end);
    bool both = strcmp(where, "CPU/GPU") == 0, cpu = strcmp(where, "CPU") == 0;
    if (of == G_N_ELEMENTS(units) || !(bytes > 0 && bytes < 1e15) || *end != '%' || first < 0 || first > 100 || (!both && !cpu && strcmp(where, "GPU") != 0))
        return false;
    on_cpu = both ? bytes * first / 100 : cpu ? bytes : 0;
    s->of_ollama = true;
    EchWords kind = {name, MIN(strlen(name), sizeof s->parts.part->kind - 1)};
    return (on_cpu == 0 || add_part(&s->parts, (EchWords){"CPU", 3}, kind, (EchBytes)on_cpu, true)) &&
           (on_cpu >= bytes || add_part(&s->parts, (EchWords){"GPU", 3}, kind, (EchBytes)(bytes - on_cpu), true));
}

bool ech_llama_says_line(EchLlamaSays *s, EchWords line)
{
    return read_load(s, line) || read_part_of_diffusion(s, line) || read_part(s, line) || read_ollama_part(s, line) || read_table(s, line) ||
           read_layers(s, line) || read_of_2023(s, line) || read_unpinned(s, line) || read_metal(s, line) || read_gpu(&s->plan, line) || read_plan(s, line) ||
           read_loaded(s, line);
}

/* ---- what it comes to ---- */

static bool is_of_host(const Part *part)
{
    return strncmp(part->device, "CPU", 3) == 0 || strstr(part->device, "Host") != NULL;
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

static EchBytes sum_of(const Parts *p, const char *device)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < p->n; i++)
        sum = strcmp(p->part[i].device, device) == 0 ? ech_bytes_add(sum, p->part[i].bytes) : sum;
    return sum;
}

static EchBytes sum_of_host(const Parts *p)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < p->n; i++)
        sum = is_of_host(&p->part[i]) ? ech_bytes_add(sum, p->part[i].bytes) : sum;
    return sum;
}

/* The GPU that holds most, or NULL. */
static const char *fullest(const Parts *p)
{
    const char *best = NULL;
    for (unsigned i = 0; i < p->n; i++) {
        if (!is_of_host(&p->part[i]) && (!best || sum_of(p, p->part[i].device) > sum_of(p, best)))
            best = p->part[i].device;
    }
    return best;
}

static bool is_first(const Parts *p, unsigned part)
{
    for (unsigned i = 0; i < part; i++) {
        if (strcmp(p->part[i].device, p->part[part].device) == 0)
            return false;
    }
    return true;
}

/* What was loaded, or else llama.cpp's table: the last of what was taken, the first of what it would take. */
static const Parts *told(const EchLlamaSays *s)
{
    return s->parts.n ? &s->parts : s->last.ahead ? &s->asked.parts : &s->last.parts;
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

/* "CUDA0 4.75 GiB (model 4 GiB, KV 512 MiB)": what lies on @device, or on each (NULL). Owned by the caller. */
static char *list_of(const Parts *p, const char *device)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (unsigned i = 0; i < p->n; i++) {
        g_autofree char *sum = ech_format_bytes(sum_of(p, p->part[i].device));
        if (!is_first(p, i) || (device && strcmp(device, p->part[i].device) != 0))
            continue;
        g_string_append_printf(text, "%s%s %s", text->len ? "; " : "", p->part[i].device, sum);
        const char *before = " (";
        for (unsigned k = i; k < p->n; k++) {
            g_autofree char *size = ech_format_bytes(p->part[k].bytes);
            if (strcmp(p->part[k].device, p->part[i].device) != 0)
                continue;
            g_string_append_printf(text, "%s%s %s", before, p->part[k].kind, size);
            before = ", ";
        }
        g_string_append_c(text, ')');
    }
    return g_strdup(text->str);
}

/* Each device of a table against what it has. */
static void say_table(const Table *t, const char *begin, EchDiag *diag)
{
    for (unsigned i = 0; i < t->n_devices; i++) {
        const Device *d = &t->device[i];
        EchBytes own = sum_of(&t->parts, d->name), others = d->total - MIN(d->total, ech_bytes_add(d->free, own));
        g_autofree char *list = list_of(&t->parts, d->name), *free = ech_format_bytes(d->free), *total = ech_format_bytes(d->total),
                        *more = ech_format_bytes(own - MIN(own, d->free)), *rest = ech_format_bytes(others);
        g_autofree char *layers = d->layers ? g_strdup_printf(", %" G_GUINT64_FORMAT " layers", d->layers) : g_strdup("");
        g_autofree char *verdict = !t->ahead       ? g_strdup_printf("%s left free, %s are others' or contexts'", free, rest)
                                   : own > d->free ? g_strdup_printf("%s are free: %s too much", free, more)
                                                   : g_strdup_printf("%s are free: it fits", free);
        ech_diag_remark(diag, "%s: %s%s of %s; %s", begin, own ? list : d->name, layers, total, verdict);
    }
    EchBytes host = sum_of_host(&t->parts);
    g_autofree char *size = ech_format_bytes(host);
    if (host)
        ech_diag_remark(diag, "%s: %s of the host's memory", begin, size);
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
    for (unsigned i = 0; i < p->n_taken; i++) {
        g_autofree char *taken = ech_format_bytes(p->taken[i]);
        g_string_append_printf(text, "%s%s", i ? ", " : ", of which it takes ", taken);
    }
    ech_diag_remark(diag, "%s", text->str);
    say_layers(s, diag);
    for (unsigned i = 0; i < p->n_taken && s->on_gpus < s->layers; i++) {
        if (p->taken[i] == 0)
            ech_diag_remark(diag,
                            "GPU %u gets none of it: compute buffers and whatever is no layer come first on each, and what is free there does not hold them "
                            "and a layer",
                            i);
    }
    ech_diag_remark(diag, "%s", OLLAMA_LESS);
}

/* What is free of all devices together holds nothing of one that has less. */
static char *verdict_of(const Fit *f)
{
    EchBytes over = f->projected.bytes - MIN(f->projected.bytes, f->free.bytes);
    g_autofree char *excess = ech_format_bytes(f->excess.bytes ? f->excess.bytes : over);
    return f->excess.bytes || over ? g_strdup_printf("%s too much", excess)
           : f->fits || f->of_host ? g_strdup("it fits")
           : f->n_shares           ? g_strdup("less than is free of all of them together, but each has to hold its own share")
                                   : g_strdup("less than is free of all of them together");
}

static void say_shares(const Fit *f, EchDiag *diag)
{
    for (unsigned i = 0; i < f->n_shares; i++) {
        const Share *share = &f->share[i];
        g_autofree char *used = ech_format_bytes(share->used), *total = ech_format_bytes(share->total), *target = ech_format_bytes(share->target),
                        *left = ech_format_bytes(ech_rounded_bytes(fabs(share->left)));
        bool leaves_less = share->target && share->left < (double)share->target;
        ech_diag_remark(diag, "%s: %s of %s, %s %s%s%s%s", share->name, used, total, left, share->left < 0 ? "more than was free" : "left free",
                        leaves_less ? ": too much, as it is to leave " : "", leaves_less ? target : "",
                        share->left < 0 && !f->found ? ". Less of it there: --tensor-split, --device" : "");
    }
}

/* What it chose in place of what it was given. */
static void say_found(const Fit *f, EchDiag *diag)
{
    g_autoptr(GString) text = g_string_new("that was with the settings it was given, and it found others that fit");
    if (f->context && f->asked_context)
        g_string_append_printf(text, ": a context of %" G_GUINT64_FORMAT " tokens in place of %" G_GUINT64_FORMAT " (-c)", f->context, f->asked_context);
    for (unsigned i = 0; i < f->n_fitted; i++) {
        const Fitted *d = &f->fitted[i];
        g_autofree char *used = ech_format_bytes(ech_rounded_bytes(d->used)), *left = ech_format_bytes(ech_rounded_bytes(MAX(d->left, 0)));
        g_string_append_printf(text, "%s %s has %" G_GUINT64_FORMAT " layers", i || f->context ? ";" : ":", d->name, d->layers);
        if (d->overflowing)
            g_string_append_printf(text, " (parts of %" G_GUINT64_FORMAT " lie elsewhere)", d->overflowing);
        g_string_append_printf(text, ", %s, and leaves %s", used, left);
    }
    ech_diag_remark(diag, "%s", text->str);
}

static void say_fit(const EchLlamaSays *s, EchDiag *diag)
{
    const Fit *f = &s->fit;
    g_autofree char *projected = ech_format_bytes(f->projected.bytes), *free = ech_format_bytes(f->free.bytes), *target = ech_format_bytes(f->target.bytes),
                    *verdict = verdict_of(f);
    g_autofree char *left = f->target.bytes ? g_strdup_printf(", of which it leaves %s on each", target) : g_strdup("");
    if (f->projected.bytes && s->last.n_devices == 0)
        ech_diag_remark(diag, "llama.cpp reckoned with %s %s, %s %s%s%s: %s", projected, f->of_host ? "of the host's memory" : "on its devices",
                        !f->of_all   ? "where"
                        : f->of_host ? "which has"
                                     : "which have",
                        free, f->of_all ? " in all" : " were free", left, verdict);
    if (s->last.n_devices == 0)
        say_shares(f, diag);
    if (f->found && !f->fits && f->projected.bytes)
        say_found(f, diag);
    if (f->given_up[0])
        ech_diag_remark(
            diag,
            "it did not look for settings that fit (%s) and went on with those it was given, which run out of memory later: it chooses only what is "
            "not set, the context (-c) first, then layers on devices (-ngl) and a mixture's experts on the host (-ot, --n-cpu-moe)",
            f->given_up);
}

static void say_metal(const EchLlamaSays *s, EchDiag *diag)
{
    EchBytes over = s->metal_used - MIN(s->metal_used, s->metal_limit);
    g_autofree char *used = ech_format_bytes(s->metal_used), *limit = ech_format_bytes(s->metal_limit), *more = ech_format_bytes(over);
    if (s->metal_limit == 0)
        return;
    if (over)
        ech_diag_remark(diag,
                        "of the machine's memory its GPU may take %s (recommendedMaxWorkingSetSize), and %s were in its buffers: %s too much; 'sudo "
                        "sysctl iogpu.wired_limit_mb=N' lets it take more",
                        limit, used, more);
    else if (s->metal_used)
        ech_diag_remark(diag, "of the machine's memory its GPU may take %s (recommendedMaxWorkingSetSize), and %s were in its buffers", limit, used);
    else
        ech_diag_remark(diag, "of the machine's memory its GPU may take %s (recommendedMaxWorkingSetSize)", limit);
}

void ech_llama_says_say(const EchLlamaSays *s, EchDiag *diag)
{
    if (s->plan.has_full) {
        say_plan(s, diag);
        return;
    }
    const Parts *p = told(s);
    if (s->last.parts.n)
        say_table(s->last.ahead ? &s->asked : &s->last, s->last.ahead ? "llama.cpp would take" : "llama.cpp took", diag);
    if (s->last.ahead && s->tables > 1)
        say_table(&s->last, "the settings it tried last", diag);
    say_fit(s, diag);
    if (s->parts.n) {
        g_autofree char *text = list_of(p, NULL);
        ech_diag_remark(diag, "%s: %s", s->of_ollama ? "ollama" : s->of_diffusion ? "stable-diffusion.cpp" : "llama.cpp", text);
    }
    say_metal(s, diag);
    for (unsigned i = 0; i < s->plan.n_available; i++) {
        g_autofree char *free = ech_format_bytes(s->plan.available[i]);
        ech_diag_remark(diag, "%s were free on %s when it was loaded", free, s->plan.gpu[i]);
    }
    say_layers(s, diag);
    if (s->of_ollama)
        ech_diag_remark(diag, "%s%s",
                        s->has_layers && s->on_gpus == s->layers
                            ? ""
                            : "what lies on the CPU is computed there, from the host's memory (the table of tokens always lies there, and costs nothing); ",
                        OLLAMA_LESS);
    else if (s->of_diffusion)
        ech_diag_remark(
            diag, "the context of the process (some 300 to 600 MiB) comes on top; models are used one after the other: --offload-to-cpu keeps those that are "
                  "not in use on the host, --clip-on-cpu and --vae-on-cpu compute there, --vae-tiling and a smaller picture make the VAE's compute buffer "
                  "smaller, --diffusion-fa the model's, weights of fewer bits (--type q8_0, q4_0) all of them");
    else
        ech_diag_remark(diag,
                        "%sthe KV cache (in tables: the context) grows with the context (-c) and halves in 8 bits (--cache-type-k q8_0 --cache-type-v "
                        "q8_0, the latter with flash attention); compute buffers shrink with the batch (-ub), weights with fewer layers on the GPU "
                        "(-ngl) or a mixture's experts on the host (--n-cpu-moe)",
                        s->metal || s->fit.of_host || (s->last.parts.n && !s->last.ahead) ? ""
                                                                                          : "the context of each process (some 300 to 600 MiB) comes on top; ");
}

void ech_llama_says_refused(const EchLlamaSays *s, uint64_t device, EchBytes asked, EchDiag *diag)
{
    const Plan *p = &s->plan;
    if (p->has_full)
        say_plan(s, diag);
    if (device < p->n_available && !p->gpu[device][0] && asked > p->available[device]) {
        g_autofree char *free = ech_format_bytes(p->available[device]);
        ech_diag_remark(diag,
                        "what was refused is more than all that was free on that GPU (%s): not what ollama had planned for it, so that fewer layers "
                        "(num_gpu) may do, or another release, which plans otherwise",
                        free);
    }
    say_metal(s, diag);
    say_fit(s, diag);
    if (s->fit.fits && asked <= s->fit.free.bytes)
        ech_diag_remark(diag, "what was refused counted as free when it began: others have taken it since, or the driver gives less in one piece, or to one "
                              "process, than it counts as free (integrated GPUs, which take the host's memory)");
}

EchBytes ech_llama_says_held(const EchLlamaSays *s, uint64_t device, EchTraceBuilder *builder, EchId memory)
{
    EchBytes sum = 0;
    for (unsigned i = 0; i < s->parts.n; i++) {
        const Part *part = &s->parts.part[i];
        if (!is_of_device(part, device))
            continue;
        g_autofree char *name = g_strdup_printf("%s, %s", part->kind, part->device);
        ech_refused_held(builder, memory, name, part->bytes);
        sum = ech_bytes_add(sum, part->bytes);
    }
    return sum;
}

void ech_llama_says_write(const EchLlamaSays *s, EchTraceBuilder *builder)
{
    const Plan *p = &s->plan;
    const Parts *parts = told(s);
    const char *full = fullest(parts);
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    EchBytes parts_of_plan = ech_bytes_add(ech_bytes_add(p->weights.bytes, p->cache.bytes), p->graph.bytes);
    if (p->has_full) {
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
        ech_refused_held(builder, memory, "weights", p->weights.bytes);
        ech_refused_held(builder, memory, "KV cache", p->cache.bytes);
        ech_refused_held(builder, memory, "compute buffers", p->graph.bytes);
        ech_refused_held(builder, memory, "besides, on all GPUs", p->full.bytes - MIN(p->full.bytes, parts_of_plan));
        return;
    }
    if (parts->n == 0 && !s->fit.projected.bytes)
        ech_refused_held(builder, memory, "in buffers of the GPU", s->metal_used);
    if (parts->n == 0)
        ech_refused_held(builder, s->fit.of_host ? ech_trace_builder_memory(builder, "host") : memory, "what llama.cpp reckoned with", s->fit.projected.bytes);
    if (s->parts.n == 0 && s->last.ahead)
        ech_trace_builder_set_property(builder, "refused_on", "gpu");
    for (unsigned i = 0; i < parts->n && full; i++) {
        const Part *part = &parts->part[i];
        g_autofree char *name = g_strdup_printf("%s, %s", part->kind, part->device);
        if (strcmp(part->device, full) == 0)
            ech_refused_held(builder, memory, name, part->bytes);
    }
    ech_refused_held(builder, ech_trace_builder_memory(builder, "host"), "on the host", sum_of_host(parts));
}
