#include "sim/import/comfy_says.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <string.h>

/* A model that was loaded, whole or in part. */
typedef struct {
    bool any, partly;
    EchBytes usable, loaded, offloaded; /* offloaded 0: not told, or nothing */
    char name[64];                      /* or "" */
} Load;

/* A device of an error report's list, as it was when the report was written. */
typedef struct {
    char name[96];
    bool has_all, has_free, async; /* async: memory from cudaMallocAsync */
    EchBytes all, free;            /* free: what PyTorch keeps unused included */
    EchBytes of_torch, unused;     /* what PyTorch holds, and what of it no tensor has */
} Card;

struct EchComfySays {
    bool has_total;
    EchBytes vram, ram;
    Card card;     /* the first */
    char name[64]; /* of the model that is asked for next */
    Load largest;
    uint64_t loads, partly;
};

EchComfySays *ech_comfy_says_new(void)
{
    return g_new0(EchComfySays, 1);
}

void ech_comfy_says_free(EchComfySays *says)
{
    g_free(says);
}

static bool is_told(const Card *c)
{
    return c->has_all && c->has_free;
}

bool ech_comfy_says_any(const EchComfySays *says)
{
    return says->largest.any || is_told(&says->card);
}

/* ---- lines ---- */

/* A number of MiB with decimals, which the text goes on behind. */
static bool mib_at(EchWords *words, EchBytes *ret)
{
    g_autofree char *text = g_strndup(words->text, MIN(words->n, (size_t)32));
    char *end;
    double value = g_ascii_isdigit(*text) ? g_ascii_strtod(text, &end) : -1;
    if (!(value >= 0) || value >= 1e12)
        return false;
    *ret = ech_rounded_bytes(value * (double)(1 << 20) + 0.5);
    *words = ech_words_trim(words->text + (end - text), words->n - (size_t)(end - text));
    return true;
}

/* "; 20034.67 MB usable, 20024.84 MB loaded, 18943.05 MB offloaded, lowvram patches: 0" */
static bool read_sizes(EchWords rest, Load *load)
{
    EchRounded usable, loaded, offloaded;
    if (!ech_words_size_before(rest, " usable", &usable) || !ech_words_size_before(rest, " loaded", &loaded))
        return false;
    load->usable = usable.bytes;
    load->loaded = loaded.bytes;
    load->offloaded = ech_words_size_before(rest, " offloaded", &offloaded) ? offloaded.bytes : 0;
    return true;
}

/* Until November 2025: "loaded partially 3753.05 3753.05 0", of usable and loaded MiB. */
static bool read_load(EchComfySays *s, EchWords line)
{
    Load load = {.any = true, .partly = ech_words_have(line, "loaded partially")};
    EchWords rest = ech_words_after(line, load.partly ? "loaded partially" : "loaded completely");
    if (rest.n == 0 || !(*rest.text == ';' ? read_sizes(rest, &load) : mib_at(&rest, &load.usable) && mib_at(&rest, &load.loaded)))
        return false;
    g_strlcpy(load.name, s->name, sizeof load.name);
    s->loads++;
    s->partly += load.partly;
    if (ech_bytes_add(load.loaded, load.offloaded) >= ech_bytes_add(s->largest.loaded, s->largest.offloaded))
        s->largest = load;
    return true;
}

/* "- **Name:** cuda:0 NVIDIA GeForce RTX 4070 Ti : cudaMallocAsync", "  - **VRAM Total:** 12878086144", "- **Torch VRAM Free:** 0": of system_stats, by
 * comfy/model_management.py's get_total_memory() and get_free_memory(). */
static bool read_card(EchComfySays *s, EchWords line)
{
    Card *c = &s->card;
    EchWords name = ech_words_after(line, "**Name:**");
    if (name.n && !is_told(c)) {
        g_autofree char *text = ech_quote(name.text, (gssize)MIN(name.n, sizeof c->name - 1), sizeof c->name - 1);
        char *allocator = strstr(text, " : ");
        c->async = allocator && strstr(allocator, "cudaMallocAsync");
        if (allocator)
            *allocator = '\0';
        g_strlcpy(c->name, text, sizeof c->name);
        return true;
    }
    if (ech_words_have(line, "**Torch VRAM "))
        return ech_words_number_after(line, "**Torch VRAM Total:**", &c->of_torch) || ech_words_number_after(line, "**Torch VRAM Free:**", &c->unused);
    if (!c->has_all)
        return c->has_all = ech_words_number_after(line, "**VRAM Total:**", &c->all) && c->all < UINT64_C(1) << 50;
    return !c->has_free && (c->has_free = ech_words_number_after(line, "**VRAM Free:**", &c->free));
}

bool ech_comfy_says_line(EchComfySays *s, EchWords line)
{
    EchRounded vram, ram;
    EchWords name = ech_words_after(line, "Requested to load ");
    if (ech_words_size_after(line, "Total VRAM ", &vram) && ech_words_size_after(line, "total RAM ", &ram)) {
        s->vram = vram.bytes;
        s->ram = ram.bytes;
        return s->has_total = true;
    }
    if (name.n && name.n < sizeof s->name) {
        g_autofree char *text = ech_quote(name.text, (gssize)name.n, sizeof s->name - 1);
        g_strlcpy(s->name, text, sizeof s->name);
        return true;
    }
    return read_load(s, line) || read_card(s, line);
}

/* ---- what it comes to ---- */

/* What neither PyTorch holds nor is free. */
static EchBytes of_others(const Card *c)
{
    EchBytes free = c->free - MIN(c->free, c->unused), rest = c->all - MIN(c->all, free);
    return rest - MIN(rest, c->of_torch);
}

/* After memory ran out ComfyUI unloads its models, and only then the report is written. */
static void say_card(const Card *c, EchDiag *diag)
{
    EchBytes others = of_others(c);
    g_autofree char *all = ech_format_bytes(c->all), *torch = ech_format_bytes(c->of_torch), *unused = ech_format_bytes(c->unused),
                    *rest = ech_format_bytes(others), *most = ech_format_bytes(c->all - MIN(c->all, others));
    ech_diag_remark(
        diag,
        "ComfyUI's report%s%s: of the GPU's %s, when it was written, PyTorch held %s (%s of that unused), others and the process's context %s. It is "
        "written behind the error, when models may have been let go: what was asked for and what was in use then it does not tell",
        c->name[0] ? ", " : "", c->name, all, torch, unused, rest);
    ech_diag_remark(diag,
                    "models and what a step computes with have at most %s together: a smaller picture, fewer frames, the VAE in tiles, weights of fewer bits "
                    "(fp8, GGUF), --lowvram or a larger --reserve-vram need less%s",
                    most, c->async ? "; --disable-cuda-malloc makes PyTorch's message tell the sizes" : "");
}

void ech_comfy_says_say(const EchComfySays *s, EchDiag *diag)
{
    const Load *l = &s->largest;
    g_autofree char *vram = ech_format_bytes(s->vram), *ram = ech_format_bytes(s->ram), *usable = ech_format_bytes(l->usable),
                    *loaded = ech_format_bytes(l->loaded), *offloaded = ech_format_bytes(l->offloaded);
    if (s->has_total)
        ech_diag_remark(diag, "ComfyUI found %s of the GPU's memory and %s of the host's", vram, ram);
    if (is_told(&s->card))
        say_card(&s->card, diag);
    if (!l->any)
        return;
    g_autofree char *rest = l->offloaded ? g_strdup_printf(", %s of it stay on the host and are copied over at each step", offloaded)
                            : l->partly  ? g_strdup(", the rest of it stays on the host and is copied over at each step")
                                         : g_strdup("");
    ech_diag_remark(diag, "the largest model that it loaded%s%s took %s of the GPU, of %s that it left for models%s", l->name[0] ? ", " : "", l->name, loaded,
                    usable, rest);
    if (s->partly)
        ech_diag_remark(diag,
                        "that is slower, and no error: weights of fewer bits (fp8, GGUF) leave more of it on the GPU, a smaller picture or fewer frames more "
                        "room for it; out of memory all the same: --reserve-vram GB, more or --lowvram");
}

void ech_comfy_says_write(const EchComfySays *s, EchTraceBuilder *builder)
{
    const Card *c = &s->card;
    ech_trace_builder_set_property(builder, "sums_only", "true");
    ech_refused_number(builder, "had_bytes", s->has_total || is_told(c), is_told(c) ? c->all : s->vram);
    if (is_told(c) && !s->largest.any) {
        EchId memory = ech_trace_builder_memory(builder, "hbm");
        ech_refused_held(builder, memory, "PyTorch's, when the report was written", c->of_torch);
        ech_refused_held(builder, memory, "others and the process's context", of_others(c));
        if (of_others(c) > 0)
            ech_trace_builder_set_property(builder, "context_held", "true");
    }
    ech_refused_held(builder, ech_trace_builder_memory(builder, "hbm"), "the largest model", s->largest.loaded);
    ech_refused_held(builder, ech_trace_builder_memory(builder, "host"), "what of it stays on the host", s->largest.offloaded);
}
