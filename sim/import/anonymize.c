/* Pseudonyms for what identifies. Nothing of a trace is copied unless a rule here lets it through. */
#include "sim/import/anonymize.h"

#include "models/alloc/alloc.h"
#include "models/kernel/gpu.h"
#include "models/kernel/stalls.h"
#include "models/layout/layout.h"
#include "models/link/link.h"
#include "sim/base/hash.h"
#include "sim/program/price_kernels.h"
#include "sim/program/price_stationary.h"
#include "sim/program/program.h"
#include "sim/trace/allocator_marks.h"
#include "sim/trace/meets.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"

#include <string.h>

/* ---- Words that tell nothing of whose trace it is ---- */

/* Besides XLA's opcodes: what our readers, CUPTI, CUDA's calls and PyTorch write of their own accord. */
static const char *const own_words[] = {"accumulator", "activation", "address",     "advise",      "alloc",     "allocation", "allocations",
                                        "allocator",   "alone",      "annotations", "apart",       "asked",     "async",      "attribute",
                                        "autograd",    "backward",   "before",      "begin",       "beside",    "bfc",        "bins",
                                        "block",       "blocks",     "buffer",      "buffers",     "c",         "cache",      "caching",
                                        "capture",     "chunks",     "collectives", "completed",   "context",   "control",    "core",
                                        "cpu",         "create",     "cuda",        "data",        "decorate",  "default",    "destroy",
                                        "detail",      "device",     "dma",         "done",        "driver",    "dtod",       "dtoh",
                                        "empty",       "emptycache", "end",         "event",       "ex",        "executable", "expandable",
                                        "expert",      "external",   "fills",       "flags",       "flow",      "for",        "forward",
                                        "free",        "function",   "fusion",      "get",         "gpu",       "gradient",   "graph",
                                        "handle",      "hbm",        "host",        "htod",        "htoh",      "impl",       "in",
                                        "info",        "init",       "input",       "instantiate", "jax",       "kernel",     "kind",
                                        "lambda",      "large",      "launch",      "library",     "loop",      "main",       "malloc",
                                        "managed",     "map",        "marks",       "mem",         "memcpy",    "memory",     "memset",
                                        "migration",   "migrations", "module",      "modules",     "nccl",      "network",    "nothing",
                                        "nvtx",        "of",         "oom",         "operations",  "operator",  "optimizer",  "optimizers",
                                        "out",         "output",     "page",        "pageable",    "parameter", "peer",       "permutes",
                                        "pinned",      "pitch",      "place",       "pool",        "prefetch",  "priority",   "profilerstep",
                                        "program",     "ptop",       "query",       "queue",       "record",    "recording",  "regions",
                                        "register",    "release",    "request",     "requested",   "reserved",  "runtime",    "s",
                                        "scalar",      "segment",    "segments",    "set",         "small",     "snapshot",   "start",
                                        "state",       "step",       "stream",      "sums",        "symbol",    "sync",       "synchronisation",
                                        "synchronize", "temporary",  "tensorflow",  "the",         "thread",    "to",         "torch",
                                        "tuple",       "type",       "unified",     "unknown",     "unmap",     "unregister", "untouched",
                                        "use",         "user",       "variables",   "vector",      "wait",      "waits",      "was",
                                        "what",        "with",       "wrapped",     "wrapper",     "write",     "xla"};

static GHashTable *public_words(void)
{
    GHashTable *words = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(own_words); i++)
        g_hash_table_add(words, g_strdup(own_words[i]));
    for (EchHlo opcode = 0; opcode < ECH_N_HLO; opcode++) {
        g_auto(GStrv) parts = g_strsplit(ech_hlo_name(opcode), "-", -1);
        for (char **part = parts; *part; part++)
            if (**part)
                g_hash_table_add(words, g_ascii_strdown(*part, -1));
    }
    return words;
}

static bool is_word(GHashTable *words, const char *text, size_t n)
{
    g_autofree char *word = g_ascii_strdown(text, (gssize)n);
    return g_hash_table_contains(words, word);
}

/* "cudaStreamWaitEvent": each part is a public word. Programs have kernels of their own that begin so. */
static bool is_call(GHashTable *words, const char *text, size_t n)
{
    size_t i = strlen("cuda");
    if (n <= i || strncmp(text, "cuda", i) != 0 || !g_ascii_isupper(text[i]))
        return false;
    while (i < n) {
        size_t end = i + 1;
        while (end < n && !g_ascii_isupper(text[end]))
            end++;
        if (!is_word(words, text + i, end - i))
            return false;
        i = end;
    }
    return true;
}

/* Every run of letters is a public word, or a function of CUDA's; digits and ASCII punctuation do not matter, but that three numbers in a row may be a date or
 * the address of a machine. */
static bool is_public(GHashTable *words, const char *text, size_t n)
{
    unsigned numbers = 0;
    for (size_t i = 0; i < n;) {
        if (n - i > 2 && text[i] == '0' && text[i + 1] == 'x') { /* an address */
            for (i += 2; i < n && g_ascii_isxdigit(text[i]);)
                i++;
            continue;
        }
        size_t end = i;
        if (!g_ascii_isalpha(text[i])) {
            while (end < n && g_ascii_isdigit(text[end]))
                end++;
            if (!g_ascii_isprint(text[i]) || (end > i && ++numbers > 2))
                return false;
            i = MAX(end, i + 1);
            continue;
        }
        while (end < n && g_ascii_isalpha(text[end]))
            end++;
        if (!is_word(words, text + i, end - i) && !is_call(words, text + i, end - i))
            return false;
        numbers = 0;
        i = end;
    }
    return true;
}

/* ---- Kernels of GPUs: their names said again ---- */

/* cuDNN's batch norm of planes, by how long a thread waits for an element. */
static const char *say_plane_norm(const EchGpuName *name)
{
    return name->chain == 1    ? "bn_fw_tr_1c11_singleread"
           : name->chain == 5  ? "bn_bw_1c11_singleread"
           : name->chain == 7  ? "bn_fw_tr_1c11"
           : name->chain == 10 ? "bn_bw_1c11<x, 32,"
                               : "bn_bw_1c11";
}

/* The one word that makes a class, and what of the word decides more than the class. */
static const char *word_of_class(const EchGpuName *name)
{
    switch ((EchGpuClass)name->kind) {
    case ECH_GPU_REDUCE:
        return name->counts        ? "radixsorthistogram"
               : name->chain       ? "tensor_kernel_scan_innermost_dim"
               : name->looks_back  ? "devicescankernel"
               : name->generated   ? "triton_red_"
               : !name->joins      ? "reduce_kernel"
               : name->vector == 8 ? "reduce_kernel<128, 4, "
               : name->vector == 4 ? "reduce_kernel<256, 2, "
               : name->vector == 2 ? "reduce_kernel<256, 2, welfordops"
                                   : "reduce_kernel<512, 1, ";
    case ECH_GPU_SOFTMAX: return name->generated ? "softmaxforwardreg" : "softmax";
    case ECH_GPU_SOFTMAX_WARP: return "softmax_warp";
    case ECH_GPU_NORM:
        return name->row_instructions     ? "layer_norm_grad_input_kernel_vectorized"
               : name->walks              ? "batch_norm collect_statistics_channels_last"
               : name->chain > 0          ? say_plane_norm(name)
               : name->instructions == 52 ? "batch_norm transform_input_channels_last"
               : name->sums_rows          ? (name->generated          ? "internalgradients"
                                             : name->instructions > 0 ? "gammabeta"
                                                                      : "rowwisemoments")
               : name->generated          ? "triton_norm layer_norm"
               : name->instructions > 0   ? "vectorized_layer_norm_kernel<x, x, true>"
                                          : "layer_norm";
    case ECH_GPU_PRODUCT: return "gemm";
    case ECH_GPU_VECTOR: return "gemv";
    case ECH_GPU_SPLIT_REDUCE: return "splitkreduce";
    case ECH_GPU_ATTENTION: return "flash_";
    case ECH_GPU_GATHER: return name->whole_rows ? "vectorized_gather" : name->adds ? "indexselect reduceadd" : "indexselect";
    case ECH_GPU_SCATTER: return name->adds ? "index_put reduceadd" : name->trips ? "sum_and_scatter" : "index_put";
    case ECH_GPU_CONCAT:
        return name->chain          ? NULL /* with its dimensions, below */
               : name->instructions ? "catarraybatchedcopy_vectorized"
               : name->vector == 2  ? "catarraybatchedcopy_contig"
                                    : "catarraybatchedcopy";
    case ECH_GPU_RELAYOUT:
        return name->sorts          ? "radixsort onesweep"
               : name->instructions ? "radixsortkvinplace"
               : name->vector == 16 ? "radixsort"
               : name->vector == 4  ? "nhwctonchw"
                                    : "transpose";
    case ECH_GPU_OPTIMIZER: return "multi_tensor_apply";
    case ECH_GPU_FILL:
        return name->block_elements == 1024 && name->element_bytes == 8 && !name->instructions ? "fill_reverse_indices"
               : name->instructions                                                            ? "fillfunctor"
                                                                                               : "memset";
    case ECH_GPU_UNKNOWN:
    case ECH_GPU_ELEMENTWISE:
    case ECH_GPU_STRIDED:
    case ECH_GPU_SORT:
    case ECH_GPU_FFT:
    case ECH_GPU_SOLVER:
    case ECH_GPU_N_CLASSES: break;
    }
    return NULL;
}

static void say_product(const EchGpuName *name, GString *out)
{
    if (name->tile_m > 512) { /* rows by columns of a picture */
        g_string_append_printf(out, " fprop_image_first_layer_k%uc%u_8x%u", name->tile_n, name->tile_k, name->tile_m / 8);
    } else if (name->tile_m) {
        g_string_append_printf(out, " %ux%u", name->tile_m, name->tile_n);
        if (name->stages > 9)
            g_string_append_printf(out, "_%ux%u", name->tile_k, name->stages);
        else if (name->tile_k)
            g_string_append_printf(out, "x%u", name->tile_k);
        if (name->stages && name->stages <= 9)
            g_string_append_printf(out, "_stage%u", name->stages);
    }
    if (name->arithmetic == ECH_GPU_WGMMA)
        g_string_append(out, " gmma");
    else if (name->arithmetic == ECH_GPU_FMA)
        g_string_append(out, " ffma");
    if (name->tf32)
        g_string_append(out, " tf32");
    if (name->alignment)
        g_string_append_printf(out, " align%u", name->alignment);
    if (name->split)
        g_string_append(out, " nvjet_splitk_");
}

/* Threads of a block, 32 to 1024 as CUDA's are, times what each does. False where the name does not say it. */
static bool say_block(const EchGpuName *name, GString *out)
{
    unsigned each = 1;
    while (each <= 16 && (name->block_elements % each || name->block_elements / each > 1024))
        each++;
    if (name->block_elements == 0 || each > 16)
        return false;
    g_string_append_printf(out, " elementwise_kernel<%u, %u,", name->block_elements / each, each);
    return true;
}

/* A pass of a sort: keys and values as large. */
static void say_relayout(const EchGpuName *name, GString *out)
{
    static const char *const plain[] = {[1] = "signed char", [2] = "short", [4] = "int", [8] = "long"};
    unsigned keys = name->element_bytes;
    if (!name->sorts || name->read_bytes == 0)
        return;
    if (keys < name->read_bytes)
        g_string_append_printf(out, " policy_hub<%s, opaquetype<%u>,", plain[keys], name->read_bytes - keys);
    else
        g_string_append_printf(out, " policy_hub<%s, nulltype,", plain[keys]);
}

/* Of cub's count of digits: keys. Kernels of PyTorch's that are of a kind of their own, by a part of their names. */
static void say_own(const char *text, const EchGpuName *name, GString *out)
{
    static const char *const plain[] = {[1] = "signed char", [2] = "short", [4] = "int", [8] = "long"};
    static const char *const parts[] = {"triu_tril",
                                        "gathermedian",
                                        "sbtopk::gathertopk",
                                        "kernelhistogram1d",
                                        "upsample_bilinear2d_out_frame",
                                        "max_pool_forward_nhwc",
                                        "max_pool_backward_nhwc",
                                        "upsample_nearest2d_out_frame",
                                        "upsample_bicubic2d_out_frame"};
    g_autofree char *lower = g_ascii_strdown(text, -1);
    if (name->counts)
        g_string_append_printf(out, " policy_hub<%s,", plain[name->element_bytes]);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        if (strstr(lower, parts[i]))
            g_string_append_printf(out, " %s", parts[i]);
    static const char *const apart[] = {"roll_cuda", "loadwithcast<", "gpu_kernel_impl<"};
    for (size_t i = 0; i < G_N_ELEMENTS(apart) && name->kind == ECH_GPU_STRIDED; i++)
        if (strstr(lower, apart[i]))
            g_string_append_printf(out, " %s", apart[i]);
}

static void say_cost(unsigned instructions, GString *out)
{
    static const struct {
        unsigned count;
        const char *word;
    } costs[] = {{46, "gelubackward"},         {54, "erf_"}, {90, "pow_tensor_tensor"}, {24, "pow_"},       {60, "dropout"},
                 {70, "normal_and_transform"}, {34, "silu"}, {30, "exp_kernel"},        {40, "sin_kernel"}, {20, "div_"}};
    for (size_t i = 0; i < G_N_ELEMENTS(costs); i++)
        if (costs[i].count == instructions)
            g_string_append_printf(out, " %s", costs[i].word);
}

static void say_elementwise(const EchGpuName *name, GString *out)
{
    static const char *const types[] = {[1] = "bool", [2] = "c10::half", [4] = "float", [8] = "double"};
    bool converts = name->written_bytes && name->arrays == 2;
    bool eight = name->kind == ECH_GPU_ELEMENTWISE && !converts && name->arrays && name->vector < 8 && name->block_elements == 1024;
    bool vectors = name->kind != ECH_GPU_STRIDED && (converts || eight || name->block_elements == 128 * MAX(name->vector, 4u));
    if (vectors)
        g_string_append_printf(out, " vectorized_elementwise_kernel<%u,", name->vector);
    else if (!say_block(name, out))
        g_string_append(out, name->kind == ECH_GPU_STRIDED ? " op_generic_tensor_kernel" : " loop_");
    if (converts)
        g_string_append_printf(out, " converting_copy_kernel_cuda<%s, %s>", types[name->read_bytes], types[name->written_bytes]);
    if (name->arrays || name->kind == ECH_GPU_FILL)
        g_string_append_printf(out, " array<char*, %u%s", name->arrays, eight ? ">, false>" : "");
    say_cost(name->instructions - name->places, out);
}

/* Lists, how many of them are read and written, and what is done with an element. */
static void say_lists(const EchGpuName *name, GString *out)
{
    if (name->lists == 0)
        return;
    bool given = name->lists_read > 0 && name->lists > name->lists_read;
    unsigned read = name->lists_read > 0 ? name->lists_read : name->lists, depth = MAX(name->lists, read);
    const char *functor = name->lists_written == 0 ? "normfunctor" : name->lists_read == 0 ? "zerofunctor" : given ? "copyfunctor" : "functor";
    if (name->lists_written > 1)
        g_string_append_printf(out, " fused metadata<%u>", name->lists_written + 1u);
    else if (name->instructions > 0)
        g_string_append_printf(out, " metadata<%u>, %s<x, %u, %u, 0>", depth, functor, depth, read);
    else
        g_string_append_printf(out, " metadata<%u>, %s<", depth, functor);
    say_cost(name->instructions, out);
}

static void say_attention(const EchGpuName *name, GString *out)
{
    const struct {
        bool said;
        const char *word;
    } kinds[] = {{name->efficient, "fmha_cutlass"}, {name->flexible, "flex_attention"}, {name->splits, "kernel_stage1"}, {name->library, "cudnn"}};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (kinds[i].said)
            g_string_append_printf(out, " %s", kinds[i].word);
    if (name->general)
        g_string_append(out, " ::attentionkernel<x, true, true>");
    if (name->head)
        g_string_append_printf(out, " kernel_traits<%u, %u, %u>, false, %s,", name->head, name->query_rows, name->key_rows, name->causal ? "true" : "false");
}

void ech_anonymize_kernel(const char *text, GString *out)
{
    EchGpuName name;
    ech_gpu_name(text, &name);
    const char *word = word_of_class(&name);
    if (word)
        g_string_append_printf(out, " %s", word);
    if (name.kind == ECH_GPU_CONCAT && name.chain > 0)
        g_string_append_printf(out, " catarraybatchedcopy<x, unsigned int, %u, ", (name.chain - 10) / 2 + 1);
    if (name.kind == ECH_GPU_PRODUCT || name.kind == ECH_GPU_ATTENTION)
        say_product(&name, out);
    else if (name.kind == ECH_GPU_GATHER)
        say_block(&name, out);
    else if (name.kind == ECH_GPU_RELAYOUT)
        say_relayout(&name, out);
    else if (name.kind == ECH_GPU_OPTIMIZER)
        say_lists(&name, out);
    else if (name.instructions && name.kind != ECH_GPU_CONCAT && name.kind != ECH_GPU_NORM && name.kind != ECH_GPU_REDUCE)
        say_elementwise(&name, out);
    if (name.kind == ECH_GPU_ATTENTION)
        say_attention(&name, out);
    if (name.kind == ECH_GPU_REDUCE || name.kind == ECH_GPU_STRIDED)
        say_own(text, &name, out);
    if (name.backward)
        g_string_append(out, " backward");
    static const char *const widths[] = {[1] = " <bool", [2] = " half", [8] = " double"};
    if (name.element_bytes < G_N_ELEMENTS(widths) && widths[name.element_bytes])
        g_string_append(out, widths[name.element_bytes]);
    else if (name.element_bytes != 4)
        g_string_append_printf(out, " opaquetype<%u", name.element_bytes);
}

/* ---- Pseudonyms ---- */

enum { NAMES, FILES, FUNCTIONS, N_TABLES };

typedef struct {
    const EchTrace *trace;
    EchTraceBuilder *builder;
    GHashTable *words;
    GHashTable *tables[N_TABLES]; /* text -> pseudonym */
    unsigned replaced[N_TABLES];
    EchId *names, *stacks; /* by string of the trace: its string here, ECH_NONE until it is asked for */
} Anonymizer;

/* Borrowed. Numbers of a table go up over all nouns, so that two pseudonyms are never the same. */
static const char *pseudonym(Anonymizer *a, int table, const char *noun, const char *text, size_t n)
{
    g_autofree char *key = g_strndup(text, n);
    const char *found = g_hash_table_lookup(a->tables[table], key);
    if (found)
        return found;
    g_autoptr(GString) made = g_string_new(NULL);
    if (is_public(a->words, text, n)) {
        g_string_append(made, key);
    } else {
        a->replaced[table]++;
        g_string_printf(made, "%s%u", noun, g_hash_table_size(a->tables[table]) + 1);
        if (strcmp(noun, "kernel") == 0)
            ech_anonymize_kernel(key, made);
    }
    char *owned = g_string_free(g_steal_pointer(&made), FALSE);
    g_hash_table_insert(a->tables[table], g_steal_pointer(&key), owned);
    return owned;
}

static bool begins(const char *text, size_t n, const char *prefix)
{
    return n >= strlen(prefix) && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "train_step_12" as "step4#12": steps are marks that are numbered. */
static bool add_step(Anonymizer *a, GString *out, const char *text)
{
    size_t n = strlen(text), stem = n;
    while (stem > 0 && g_ascii_isdigit(text[stem - 1]))
        stem--;
    size_t name = stem > 0 && text[stem - 1] == '#' ? stem - 1 : stem;
    g_autofree char *lower = g_ascii_strdown(text, (gssize)name);
    static const char *const words[] = {"step", "iter", "batch", "epoch"};
    for (size_t i = 0; i < G_N_ELEMENTS(words) && stem < n; i++) {
        if (!strstr(lower, words[i]))
            continue;
        const char *made = pseudonym(a, NAMES, "step", text, name);
        g_string_append_printf(out, "%s%s%s", made, name < stem || g_ascii_isdigit(made[strlen(made) - 1]) ? "#" : "", text + stem);
        return true;
    }
    return false;
}

/* Names of marks keep what optimizers and steps are known by. */
static void add_mark(Anonymizer *a, GString *out, const char *text)
{
    if (begins(text, strlen(text), ECH_RANGE_OPTIMIZER))
        g_string_append_printf(out, ECH_RANGE_OPTIMIZER "%s", pseudonym(a, NAMES, "mark", text, strlen(text)));
    else if (begins(text, strlen(text), "START ") || !add_step(a, out, text))
        g_string_append(out, pseudonym(a, NAMES, "mark", text, strlen(text)));
}

static EchId name_of(Anonymizer *a, EchId string, const char *noun)
{
    if (string == ECH_NONE)
        return ECH_NONE;
    if (a->names[string] == ECH_NONE) {
        const char *text = ech_trace_string(a->trace, string);
        g_autoptr(GString) mark = g_string_new(NULL);
        if (strcmp(noun, "mark") == 0)
            add_mark(a, mark, text);
        a->names[string] = ech_trace_builder_string(a->builder, mark->len ? mark->str : pseudonym(a, NAMES, noun, text, strlen(text)), -1);
    }
    return a->names[string];
}

/* "layers.3.mlp (MLP)" as "module1.3.module2 (module3)", "Attention_6" as "module4_6": what is numbered stays so. */
static void add_module(Anonymizer *a, GString *out, const char *at, const char *end)
{
    while (at < end) {
        if (!g_ascii_isalpha(*at) && *at != '_') {
            g_string_append_c(out, g_ascii_isprint(*at) ? *at : '?');
            at++;
            continue;
        }
        size_t n = 0, word;
        while (at + n < end && (g_ascii_isalnum(at[n]) || at[n] == '_'))
            n++;
        for (word = n; word > 0 && g_ascii_isdigit(at[word - 1]);)
            word--;
        bool numbered = word > 1 && word < n && at[word - 1] == '_';
        word = numbered ? word - 1 : n;
        g_string_append(out, pseudonym(a, NAMES, "module", at, word));
        g_string_append_len(out, at + word, (gssize)(n - word));
        at += n;
    }
}

/* Of lines that are no Python's: modules, nodes of a backward pass, optimizers and PyTorch's own operators stay what they are; others become a word. */
static void add_line(Anonymizer *a, GString *out, const char *line, size_t n)
{
    static const char operators[] = "aten::";
    size_t n_name = 0;
    while (begins(line, n, operators) && n_name < n && (g_ascii_isalnum(line[n_name]) || strchr("_:.", line[n_name])))
        n_name++;
    if (begins(line, n, ECH_RANGE_MODULE)) {
        g_string_append(out, ECH_RANGE_MODULE);
        add_module(a, out, line + strlen(ECH_RANGE_MODULE), line + n);
    } else if (begins(line, n, ECH_RANGE_BACKWARD)) {
        g_string_append_printf(out, ECH_RANGE_BACKWARD "%s", pseudonym(a, NAMES, "node", line + strlen(ECH_RANGE_BACKWARD), n - strlen(ECH_RANGE_BACKWARD)));
    } else if (begins(line, n, ECH_RANGE_OPTIMIZER)) {
        g_string_append_printf(out, ECH_RANGE_OPTIMIZER "%s", pseudonym(a, NAMES, "optimizer", line, n));
    } else if (n_name > 0 && n_name == n) {
        g_string_append_len(out, line, (gssize)n);
    } else {
        g_autofree char *text = g_strndup(line, n);
        g_string_append_printf(out, "%s%s", pseudonym(a, NAMES, "frame", line, n), ech_stack_empties_cache(text) ? " emptyCache" : "");
    }
}

/* Frames of Python keep their line, whichever way they are written ("a/b.py:12:name", "a/b.py(12): name"), those of PyTorch itself their file and function,
 * those of other installed packages that they are such. */
static void add_frame(Anonymizer *a, GString *out, const char *frame, size_t n)
{
    const char *dot = g_strrstr_len(frame, (gssize)n, ".py"), *end = frame + n;
    if (!dot || dot + 3 == end || (dot[3] != ':' && dot[3] != '(')) {
        add_line(a, out, frame, n);
        return;
    }
    static const char packages[] = "-packages/", torch[] = "-packages/torch/";
    const char *installed = g_strrstr_len(frame, dot - frame, packages);
    bool ours = begins(frame, n, "torch/");
    if (ours || (installed && begins(installed, (size_t)(end - installed), torch))) {
        g_string_append(out, ours ? "" : "site");
        g_string_append_len(out, ours ? frame : installed, end - (ours ? frame : installed));
        return;
    }
    if (installed) {
        g_string_append_printf(out, "site%s", packages);
        frame = installed + strlen(packages);
    }
    const char *name = dot + 4;
    while (name < end && strchr("0123456789): ", *name))
        name++;
    g_string_append(out, pseudonym(a, FILES, "file", frame, (size_t)(dot - frame)));
    g_string_append_len(out, dot, (gssize)(name - dot));
    g_string_append(out, pseudonym(a, FUNCTIONS, "function", name, (size_t)(end - name)));
}

static EchId stack_of(Anonymizer *a, EchId string)
{
    if (string == ECH_NONE)
        return ECH_NONE;
    if (a->stacks[string] == ECH_NONE) {
        g_autoptr(GString) out = g_string_new(NULL);
        for (const char *at = ech_trace_string(a->trace, string); *at;) {
            size_t n = strcspn(at, "\n");
            add_frame(a, out, at, n);
            at += n;
            if (*at == '\n')
                g_string_append_c(out, *at++);
        }
        a->stacks[string] = ech_trace_builder_string(a->builder, out->str, (gssize)out->len);
    }
    return a->stacks[string];
}

/* Numbers and the readers' own words, never free text. */
static EchId launch_of(Anonymizer *a, const EchOp *op)
{
    if (op->launch == ECH_NONE)
        return ECH_NONE;
    const char *text = ech_trace_string(a->trace, op->launch);
    g_autoptr(GString) out = g_string_new(NULL);
    EchGpuLaunch launch;
    EchGroup group;
    if (op->kind == ECH_OP_COLLECTIVE && ech_group_parse(text, op->memory_from, &group))
        ech_group_print(&group, out);
    else if (op->kind != ECH_OP_COLLECTIVE && ech_gpu_launch_parse(text, &launch))
        ech_gpu_launch_print(&launch, out);
    EchKernelInside inside;
    if (op->kind == ECH_OP_KERNEL && ech_kernel_inside_parse(text, &inside))
        ech_kernel_inside_print(&inside, out);
    EchMeeting meeting;
    const char *at = op->kind == ECH_OP_COLLECTIVE || op->kind == ECH_OP_WAIT ? ech_meets_of(text) : "";
    if (*at && out->len)
        g_string_append_c(out, ' ');
    while (ech_meets_next(&at, &meeting))
        ech_meets_print(out, meeting);
    EchBytes bytes, needs;
    const EchFileUse file = ech_op_file(a->trace, op, &bytes, &needs);
    if (file != ECH_FILE_NONE)
        ech_file_print(file, needs, out);
    if (ech_op_is_prefetch(a->trace, op))
        g_string_append(out, out->len ? " prefetch=1" : "prefetch=1");
    if (op->kind != ECH_OP_COLLECTIVE && strstr(text, "graph=1"))
        g_string_append(out, out->len ? " graph=1" : "graph=1");
    if (ech_op_behind(a->trace, op))
        g_string_append_printf(out, "%sbehind=%u", out->len ? " " : "", ech_op_behind(a->trace, op));
    if (ech_op_operators(a->trace, op) > 0)
        g_string_append_printf(out, "%soperators=%u", out->len ? " " : "", ech_op_operators(a->trace, op));
    uint32_t begun, elsewhere = ech_op_elsewhere(a->trace, op, &begun);
    if (elsewhere > 0)
        g_string_append_printf(out, "%selsewhere=%u+%u", out->len ? " " : "", elsewhere, begun);
    return out->len ? ech_trace_builder_string(a->builder, out->str, (gssize)out->len) : ECH_NONE;
}

static EchId shape_of(Anonymizer *a, EchId string)
{
    const char *text = ech_trace_string(a->trace, string);
    EchLayout layout;
    return *text && ech_layout_parse(text, strlen(text), &layout, NULL, NULL) ? ech_trace_builder_string(a->builder, text, -1) : ECH_NONE;
}

/* ---- Properties ---- */

static bool is_number(const char *value)
{
    return strcmp(value, "true") == 0 || strcmp(value, "false") == 0 || (*value && strspn(value, "0123456789.-+e") == strlen(value));
}

/* What an importer counts, what models read, and which hardware it was. Not when, where, by whom or of which file. */
static bool stays(const Anonymizer *a, const char *key, const char *value)
{
    static const char *const hardware[] = {"platform",         "chip",       "estimates_for", "estimates_scaled_from", ECH_INSIDES_OF,
                                           "pretended_device", "host_order", "refused_on"};
    static const char *const pools[] = {"tensorflow", "jax", "cuda_async", NULL};
    static const char *const of_device[] = {".name", ".device_type_string", ".device_vendor", ".chipName"};
    static const char *const numbers[] = {"memory_analysis.",
                                          "dropped.",
                                          "noted.",
                                          "allocator_settings.",
                                          "device.",
                                          "stall.",
                                          ECH_STATIONARY_PROPERTY,
                                          "unplaced.",
                                          "begin_",
                                          "end_",
                                          "peak_",
                                          "had_",
                                          "recurrence_",
                                          "reserved_never_grew",
                                          ECH_TRACE_BATCH,
                                          ECH_TRACE_SEGMENTS,
                                          ECH_TRACE_TORCH_RELEASE,
                                          "pretended_",
                                          "inferred_",
                                          "migrations_recorded",
                                          "recorded_paged_",
                                          "kernels_of_programs",
                                          "rank",
                                          ECH_TRACE_MEETS_COUNTED,
                                          ECH_TRACE_PROCESSES,
                                          "sums_only",
                                          "limit_of_a_kernel"};
    static const char *const figures[] = {"asked_for_bytes",    "needed_bytes", "pool_bytes",    "in_use_bytes", "free_bytes",
                                          "largest_free_bytes", "others_bytes", "share_percent", "context_held"};
    for (size_t i = 0; i < G_N_ELEMENTS(hardware); i++)
        if (strcmp(key, hardware[i]) == 0)
            /* What is given as a device may be a file of its owner's; what was pretended has a name. */
            return strcmp(key, "pretended_device") == 0 || (!strpbrk(value, "/\\") && !g_str_has_suffix(value, ".yaml"));
    for (size_t i = 0; i < G_N_ELEMENTS(of_device); i++)
        if (g_str_has_prefix(key, "device.") && g_str_has_suffix(key, of_device[i]))
            return true;
    if (strcmp(key, "asked_one_by_one") == 0)
        return g_strv_contains(pools, value);
    if (strcmp(key, "stream_waits_told") == 0)
        return strcmp(value, "yes") == 0;
    if (strcmp(key, "allocator_settings.roundup_power2_divisions") == 0)
        return strspn(value, "0123456789:,") == strlen(value);
    if (g_str_has_prefix(key, "allocator_settings.") && g_str_has_suffix(key, "_ALLOC_CONF")) { /* nothing but PyTorch's own words, or it is refused */
        g_autofree char *spec = g_strconcat("pytorch:", value, NULL);
        EchAllocDevice device = {.capacity = UINT64_C(1) << 30};
        g_autoptr(EchAllocator) probe = ech_allocator_new(spec, &device, NULL);
        return probe != NULL;
    }
    if (strcmp(key, "allocator_regions") == 0) /* addresses and sizes */
        return strspn(value, "0123456789abcdefx+ ") == strlen(value);
    if (!is_number(value))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
        if (strcmp(key, figures[i]) == 0)
            return true;
    if (g_str_has_prefix(key, "records."))
        return is_public(a->words, key + strlen("records."), strlen(key) - strlen("records."));
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        if (g_str_has_prefix(key, numbers[i]))
            return true;
    return false;
}

static void copy_properties(Anonymizer *a, EchDiag *diag)
{
    g_autoptr(GString) gone = g_string_new(NULL);
    unsigned n_gone = 0;
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(a->trace, i, &value)) != NULL; i++) {
        if (strcmp(key, "fetched_first") == 0)
            ech_trace_builder_set_property(a->builder, key, pseudonym(a, NAMES, "operation", value, strlen(value)));
        else if (strcmp(key, "time_zero_ps") == 0) /* that it is a capture, not when it was made */
            ech_trace_builder_set_property(a->builder, key, "0");
        else if (strcmp(key, "allocator") == 0 && strstr(value, "bfc"))
            ech_trace_builder_set_property(a->builder, key, "bfc");
        else if (stays(a, key, value))
            ech_trace_builder_set_property(a->builder, key, value);
        else if (!g_str_has_prefix(key, "remark.") && n_gone++ < 12)
            g_string_append_printf(gone, "%s%s", gone->len ? ", " : "", key);
    }
    if (n_gone > 12)
        g_string_append_printf(gone, " and %u more", n_gone - 12);
    if (n_gone)
        ech_diag_remark(diag, "anonymize: properties left out: %s", gone->str);
}

/* ---- The trace ---- */

static void copy_buffers(Anonymizer *a)
{
    for (size_t i = 0; i < ech_trace_n_buffers(a->trace); i++) {
        EchBuffer buffer = ech_trace_buffers(a->trace)[i];
        buffer.name = name_of(a, buffer.name, "buffer");
        buffer.pool = name_of(a, buffer.pool, "pool");
        buffer.stack = stack_of(a, buffer.stack);
        buffer.shape = shape_of(a, buffer.shape);
        ech_trace_builder_buffer(a->builder, buffer);
    }
}

static void copy_ops(Anonymizer *a)
{
    const EchTrace *trace = a->trace;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *old = &ech_trace_ops(trace)[i];
        EchOp op = *old;
        op.name = name_of(a, op.name, ech_op_kind_name((EchOpKind)op.kind));
        op.stack = stack_of(a, op.stack);
        op.launch = launch_of(a, old);
        ech_trace_builder_op(a->builder, op);
        for (uint32_t u = old->first_use; u < old->first_use + old->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            ech_trace_builder_use(a->builder, use->buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
        }
        for (uint32_t d = old->first_dep; d < old->first_dep + old->n_deps; d++)
            ech_trace_builder_dep(a->builder, ech_trace_deps(trace)[d].op, ech_trace_deps(trace)[d].distance);
        for (uint32_t w = old->first_work; w < old->first_work + old->n_work; w++) {
            const EchWork *work = &ech_trace_work(trace)[w];
            ech_trace_builder_work(a->builder, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
        }
    }
}

EchTrace *ech_anonymize(const EchTrace *trace, EchDiag *diag, GError **error)
{
    size_t n_strings = ech_trace_n_strings(trace);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(trace));
    g_autoptr(GHashTable) words = public_words();
    g_autofree EchId *names = g_new(EchId, n_strings + 1), *stacks = g_new(EchId, n_strings + 1);
    Anonymizer a = {.trace = trace, .builder = builder, .words = words, .names = names, .stacks = stacks};
    for (size_t i = 0; i < n_strings; i++)
        names[i] = stacks[i] = ECH_NONE;
    for (int t = 0; t < N_TABLES; t++)
        a.tables[t] = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, g_free);
    for (size_t m = 0; m < ech_trace_n_memories(trace); m++)
        ech_trace_builder_memory(builder, ech_trace_memory(trace, (EchId)m));
    /* Kernels first: a name that is a buffer's too says what kernel it is. */
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        if (ech_trace_ops(trace)[i].kind == ECH_OP_KERNEL)
            name_of(&a, ech_trace_ops(trace)[i].name, "kernel");
    for (size_t q = 0; q < ech_trace_n_queues(trace); q++) {
        const EchQueue *queue = &ech_trace_queues(trace)[q];
        EchId name = name_of(&a, queue->name, "queue");
        ech_trace_builder_queue(builder, ech_trace_builder_peek_string(builder, name), (EchQueueKind)queue->kind, queue->device);
    }
    copy_buffers(&a);
    copy_ops(&a);
    copy_properties(&a, diag);
    EchTrace *made = ech_trace_builder_finish(builder, error);
    if (made)
        ech_diag_remark(
            diag,
            "anonymize: %u names, %u files and %u functions have pseudonyms; what remains can still tell a known model: sizes, shapes, element types, "
            "order, times, line numbers, names of memories and hardware",
            a.replaced[NAMES], a.replaced[FILES], a.replaced[FUNCTIONS]);
    for (int t = 0; t < N_TABLES; t++)
        g_hash_table_unref(a.tables[t]);
    return made;
}
