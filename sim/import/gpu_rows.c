#include "sim/import/gpu_rows.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <string.h>

enum { MAX_SHOWN = 6 };

static const EchBytes MIB = 1 << 20;

/* How the devices of a maker are called, what shows a program one of them, what has them open, where their processes are told, and what an idle one's own
 * software holds at the most, MiB (idle Ascend 910B: 2.8 to 3.4 GiB, Gaudi 2: 768 MiB, by what their tools print of them). */
static const struct {
    const char *called, *shows, *files, *list;
    uint64_t idle;
} makers[ECH_GPU_N_MAKERS] = {
    [ECH_GPU_NVIDIA] = {"GPU", "CUDA_VISIBLE_DEVICES", "/dev/nvidia*", "the list of processes at the end of what nvidia-smi prints", 512},
    [ECH_GPU_AMD] = {"GPU", "HIP_VISIBLE_DEVICES", "/dev/kfd", "'rocm-smi --showpids'", 512},
    [ECH_GPU_INTEL] = {"GPU", "ZE_AFFINITY_MASK", "/dev/dri/*", "'xpu-smi ps'", 512},
    [ECH_GPU_GAUDI] = {"Gaudi", "HABANA_VISIBLE_MODULES", "/dev/accel/*", "the list of processes at the end of what hl-smi prints", 1024},
    [ECH_GPU_ASCEND] = {"NPU", "ASCEND_RT_VISIBLE_DEVICES", "/dev/davinci*", "the list of processes at the end of what 'npu-smi info' prints", 3584},
    [ECH_GPU_TPU] = {"chip", "TPU_VISIBLE_CHIPS", "/dev/vfio/* /dev/accel*", "the table of chips that tpu-info prints first", 512},
};

/* ---- words ---- */

void ech_gpu_copy(char *to, size_t size, EchWords words)
{
    g_autofree char *text = ech_quote(words.text, (gssize)MIN(words.n, size - 1), size - 1);
    g_strlcpy(to, text, size);
}

unsigned ech_gpu_split(EchWords line, char separator, EchWords *ret)
{
    unsigned n = 0;
    for (size_t at = 0; at < line.n && n < ECH_GPU_MAX_WORDS;) {
        const char *end = memchr(line.text + at, separator, line.n - at);
        size_t stop = end ? (size_t)(end - line.text) : line.n;
        EchWords word = ech_words_trim(line.text + at, stop - at);
        if (word.n || separator != ' ')
            ret[n++] = word;
        at = stop + 1;
    }
    return n;
}

bool ech_gpu_is_number(EchWords word, uint64_t *ret)
{
    g_autofree char *text = g_strndup(word.text, MIN(word.n, (size_t)24));
    return word.n && word.n < 21 && ech_parse_u64(text, ret, NULL);
}

bool ech_gpu_is_size(EchWords word, EchRounded *ret)
{
    size_t used;
    return ech_rounded_parse(word.text, word.n, ret, &used) && used == word.n;
}

bool ech_gpu_is_mib(EchWords word, EchRounded *ret)
{
    if (ech_gpu_is_size(word, ret))
        return true;
    if (word.n == 0 || word.n > 16 || !g_ascii_isdigit(*word.text))
        return false;
    g_autofree char *text = g_strdup_printf("%.*s MiB", (int)word.n, word.text);
    return ech_gpu_is_size((EchWords){text, strlen(text)}, ret);
}

bool ech_gpu_is_pair(EchWords cell, EchRounded *ret_used, EchRounded *ret_total)
{
    EchWords pair[ECH_GPU_MAX_WORDS];
    if (ech_gpu_split(cell, '/', pair) != 2 || !ech_gpu_is_size(pair[1], ret_total))
        return false;
    if (ech_gpu_is_size(pair[0], ret_used))
        return true;
    size_t digits = 0;
    while (digits < pair[1].n && !g_ascii_isalpha(pair[1].text[digits]))
        digits++;
    g_autofree char *text =
        g_strdup_printf("%.*s%.*s", (int)MIN(pair[0].n, (size_t)32), pair[0].text, (int)MIN(pair[1].n - digits, (size_t)8), pair[1].text + digits);
    size_t used;
    return ech_rounded_parse(text, strlen(text), ret_used, &used) && text[used] == '\0';
}

/* ---- rows ---- */

EchGpuRow *ech_gpu_row_slice(EchGpuRows *all, uint64_t index, uint64_t slice)
{
    for (unsigned i = 0; i < all->n_rows; i++) {
        if (all->rows[i].index == index && all->rows[i].slice == slice)
            return &all->rows[i];
    }
    if (all->n_rows == ECH_GPU_MAX_ROWS)
        return NULL;
    all->rows[all->n_rows] = (EchGpuRow){.index = index, .slice = slice};
    return &all->rows[all->n_rows++];
}

EchGpuRow *ech_gpu_row(EchGpuRows *all, uint64_t index)
{
    return ech_gpu_row_slice(all, index, ECH_GPU_WHOLE);
}

/* Whether it is told by its slices, whose memory a program sees instead of the GPU's. */
static bool is_sliced(const EchGpuRows *all, const EchGpuRow *g)
{
    for (unsigned i = 0; i < all->n_rows && g->slice == ECH_GPU_WHOLE; i++) {
        if (all->rows[i].index == g->index && all->rows[i].slice != ECH_GPU_WHOLE)
            return true;
    }
    return false;
}

EchGpuRow *ech_gpu_row_keyed(EchGpuRows *all, EchWords key)
{
    char text[48];
    ech_gpu_copy(text, sizeof text, key);
    for (unsigned i = 0; i < all->n_rows; i++) {
        if (strcmp(all->rows[i].key, text) == 0)
            return &all->rows[i];
    }
    EchGpuRow *row = all->n_rows < ECH_GPU_MAX_ROWS ? ech_gpu_row(all, all->n_rows) : NULL;
    if (row)
        g_strlcpy(row->key, text, sizeof row->key);
    return row;
}

void ech_gpu_process_add(EchGpuRows *all, uint64_t index, uint64_t slice, uint64_t id, EchWords name, EchRounded size)
{
    unsigned i = 0;
    while (i < all->n_processes &&
           (id == 0 || index == ECH_GPU_UNTOLD || all->processes[i].id != id || all->processes[i].gpu != index || all->processes[i].slice != slice))
        i++;
    if (i == ECH_GPU_MAX_PROCESSES)
        return;
    all->n_processes = MAX(all->n_processes, i + 1);
    EchGpuProcess *p = &all->processes[i];
    *p = (EchGpuProcess){.gpu = index, .slice = slice, .id = id, .size = size};
    const char *slash = name.n ? memrchr(name.text, '/', name.n) : NULL;
    if (slash)
        name = (EchWords){slash + 1, (size_t)(name.text + name.n - slash - 1)};
    ech_gpu_copy(p->name, sizeof p->name, name);
}

void ech_gpu_processes_forget(EchGpuRows *all, uint64_t index)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < all->n_processes; i++) {
        if (index != ECH_GPU_UNTOLD && all->processes[i].gpu != index)
            all->processes[kept++] = all->processes[i];
    }
    all->n_processes = kept;
}

void ech_gpu_row_set(EchGpuRow *g, EchRounded used, EchRounded total)
{
    if (!g)
        return;
    g->used = used;
    g->total = total;
    g->has_used = g->has_total = true;
}

void ech_gpu_row_reading(EchGpuRow *row, EchRounded used, EchWords time)
{
    if (row->readings == 0)
        row->first = used.bytes;
    row->rises += row->readings && used.bytes > row->last;
    row->falls |= row->readings && used.bytes < row->last;
    row->last = used.bytes;
    if (row->readings++ == 0 || used.bytes > row->used.bytes) {
        row->used = used;
        ech_gpu_copy(row->fullest_at, sizeof row->fullest_at, time);
    }
    row->has_used = true;
}

bool ech_gpu_rows_any(const EchGpuRows *all)
{
    for (unsigned i = 0; i < all->n_rows; i++) {
        if (all->rows[i].has_used)
            return true;
    }
    return all->n_processes > 0;
}

bool ech_gpu_rows_whole(const EchGpuRows *all)
{
    bool whole = false;
    for (unsigned i = 0; i < all->n_rows; i++)
        whole |= all->rows[i].has_used && all->rows[i].has_total && all->rows[i].total.bytes;
    return whole;
}

/* ---- what it comes to ---- */

static EchBytes free_of(const EchGpuRow *g)
{
    return g->total.bytes - MIN(g->total.bytes, g->used.bytes);
}

static char *name_of(const EchGpuProcess *p)
{
    if (p->id && p->name[0])
        return g_strdup_printf("%s (%" G_GUINT64_FORMAT ")", p->name, p->id);
    return p->id ? g_strdup_printf("process %" G_GUINT64_FORMAT, p->id) : g_strdup(p->name[0] ? p->name : "a process without a name");
}

static const EchGpuRow *fullest(const EchGpuRows *all)
{
    const EchGpuRow *best = NULL;
    for (unsigned i = 0; i < all->n_rows; i++) {
        const EchGpuRow *g = &all->rows[i];
        if (g->has_used && !is_sliced(all, g) && (!best || g->used.bytes > best->used.bytes))
            best = g;
    }
    return best;
}

static int by_size(const void *a, const void *b)
{
    const EchGpuProcess *x = a, *y = b;
    if (x->size.bytes != y->size.bytes)
        return x->size.bytes < y->size.bytes ? 1 : -1;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : strcmp(x->name, y->name);
}

/* Processes on the slice of @index that say how much they hold, the largest first; *ret_sum: in all. Owned by the caller. */
static GArray *processes_of(const EchGpuRows *all, uint64_t index, uint64_t slice, EchBytes *ret_sum)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(EchGpuProcess));
    *ret_sum = 0;
    for (unsigned i = 0; i < all->n_processes; i++) {
        const EchGpuProcess *p = &all->processes[i];
        bool here = (p->gpu == index && p->slice == slice) || (p->gpu == ECH_GPU_UNTOLD && all->n_rows == 1);
        if (!here || p->size.bytes == 0)
            continue;
        g_array_append_val(list, *p);
        *ret_sum = ech_bytes_add(*ret_sum, p->size.bytes);
    }
    g_array_sort(list, by_size);
    return list;
}

/* "GPU 1", "GPU 1, slice 3". Owned by the caller. */
static char *gpu_name(const EchGpuRows *all, const EchGpuRow *g)
{
    const char *called = makers[all->maker].called;
    return g->slice == ECH_GPU_WHOLE ? g_strdup_printf("%s %" G_GUINT64_FORMAT, called, g->index)
                                     : g_strdup_printf("%s %" G_GUINT64_FORMAT ", slice %" G_GUINT64_FORMAT, called, g->index, g->slice);
}

/* How it went from the first reading to the last. */
static void say_readings(const EchGpuRow *g, EchDiag *diag)
{
    g_autofree char *first = ech_format_bytes(g->first), *last = ech_format_bytes(g->last);
    if (g->readings < 2)
        return;
    ech_diag_remark(diag, "%" G_GUINT64_FORMAT " readings, %s in use at the first, %s at the last", g->readings, first, last);
    if (g->falls || g->rises < 3 || g->rises < g->readings / 2)
        return;
    EchBytes each = (g->last - g->first) / (g->readings - 1), free = g->total.bytes - MIN(g->total.bytes, g->last);
    g_autofree char *pace = ech_format_bytes(each);
    g_autofree char *full =
        g->has_total && each ? g_strdup_printf(", at which it is full after %" G_GUINT64_FORMAT " readings more", free / each) : g_strdup("");
    ech_diag_remark(diag,
                    "it never fell: %s a reading%s. A program that still warms up does so, and one that keeps what it makes (losses or results with their "
                    "graphs, a cache without a limit); what grows, two memory snapshots of it tell: 'echelon info' of each",
                    pace, full);
}

static void say_gpu(const EchGpuRows *all, const EchGpuRow *g, EchDiag *diag)
{
    EchBytes sum;
    g_autoptr(GArray) list = processes_of(all, g->index, g->slice, &sum);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *used = ech_format_bytes(g->used.bytes), *total = ech_format_bytes(g->total.bytes), *which = gpu_name(all, g);
    g_string_append_printf(text, "%s%s%s%s: %s", which, g->name[0] ? " (" : "", g->name, g->name[0] ? ")" : "", used);
    if (g->has_total)
        g_string_append_printf(text, " of %s", total);
    g_string_append(text, g->readings > 1 ? " in use at the fullest" : " in use");
    if (g->fullest_at[0] && g->readings > 1)
        g_string_append_printf(text, " (%s)", g->fullest_at);
    for (guint i = 0; i < MIN(list->len, MAX_SHOWN); i++) {
        g_autofree char *size = ech_format_bytes(g_array_index(list, EchGpuProcess, i).size.bytes), *name = name_of(&g_array_index(list, EchGpuProcess, i));
        g_string_append_printf(text, "%s%s %s", i ? ", " : ": ", name, size);
    }
    if (list->len > MAX_SHOWN)
        g_string_append_printf(text, " and %u more", list->len - MAX_SHOWN);
    ech_diag_remark(diag, "%s", text->str);
    say_readings(g, diag);
    EchBytes rest = g->used.bytes - MIN(g->used.bytes, sum);
    g_autofree char *size = ech_format_bytes(rest);
    if (rest > makers[all->maker].idle * MIB && rest > g->used.bytes / 20 && (all->lists || list->len))
        ech_diag_remark(diag,
                        "%s of that no process in the list holds: those of other containers and a killed one that has not let go yet are not in it ('fuser -v "
                        "%s', as root outside containers, finds whoever has the device open)",
                        size, makers[all->maker].files);
    for (guint i = 0; i < list->len && g->has_total; i++) {
        const EchGpuProcess *p = &g_array_index(list, EchGpuProcess, i);
        double share = (double)p->size.bytes / (double)g->total.bytes;
        g_autofree char *name = name_of(p);
        if (share > 0.745 && share < 0.78 && (all->maker == ECH_GPU_NVIDIA || all->maker == ECH_GPU_AMD))
            ech_diag_remark(diag,
                            "%s holds three quarters of it: as much as JAX takes when it starts, used or not; XLA_PYTHON_CLIENT_PREALLOCATE=false lets it take "
                            "what it needs",
                            name);
        else if (share > 0.88)
            ech_diag_remark(
                diag,
                "%s holds nearly all of it: vLLM and TensorFlow take as much when they start, used or not (--gpu-memory-utilization, .9 or .92 unless set; "
                "TF_FORCE_GPU_ALLOW_GROWTH=true)",
                name);
    }
}

void ech_gpu_rows_say(const EchGpuRows *all, bool beside, EchDiag *diag)
{
    const EchGpuRow *full = fullest(all), *roomiest = NULL;
    unsigned said = 0;
    for (unsigned i = 0; i < all->n_rows; i++) {
        const EchGpuRow *g = &all->rows[i];
        if (!g->has_used || is_sliced(all, g))
            continue;
        if (said++ < MAX_SHOWN)
            say_gpu(all, g, diag);
        if (g->has_total && (!roomiest || free_of(g) > free_of(roomiest)))
            roomiest = g;
    }
    if (said > MAX_SHOWN)
        ech_diag_remark(diag, "and %u more", said - MAX_SHOWN);
    for (unsigned i = 0; i < all->n_processes && said == 0; i++) {
        const EchGpuProcess *p = &all->processes[i];
        g_autofree char *size = ech_format_bytes(p->size.bytes), *name = name_of(p);
        g_autofree char *of = p->gpu == ECH_GPU_UNTOLD ? g_strdup("") : g_strdup_printf("%s %" G_GUINT64_FORMAT ": ", makers[all->maker].called, p->gpu);
        ech_diag_remark(diag, "%s%s holds %s", of, name, p->size.bytes ? size : "memory, how much is not told");
    }
    if (!full || !full->has_total || full->used.bytes == 0)
        return;
    if (!all->lists && !all->own && all->n_processes == 0)
        ech_diag_remark(diag, "who holds it: %s", makers[all->maker].list);
    if (roomiest != full && free_of(roomiest) > free_of(full) + full->total.bytes / 10) {
        g_autofree char *free = ech_format_bytes(free_of(roomiest)), *which = gpu_name(all, roomiest);
        if (all->llama)
            ech_diag_remark(diag, "most room: %s, %s free; --device %s runs there", which, free, roomiest->key);
        else if (roomiest->slice == ECH_GPU_WHOLE)
            ech_diag_remark(diag, "most room: %s, %s free; %s=%" G_GUINT64_FORMAT " runs there", which, free, makers[all->maker].shows, roomiest->index);
        else
            ech_diag_remark(diag, "most room: %s, %s free; CUDA_VISIBLE_DEVICES=MIG-..., which 'nvidia-smi -L' tells, runs there", which, free);
    }
    if (full->slice != ECH_GPU_WHOLE)
        ech_diag_remark(diag,
                        "a program sees one slice and its memory alone; the same on a smaller GPU: 'echelon run' and 'echelon advise' with --set "
                        "device.memories.hbm.capacity=%" G_GUINT64_FORMAT "MiB (the slice's share of the processors and of the bandwidth is not in that)",
                        full->total.bytes / MIB);
    if (!beside && all->maker == ECH_GPU_TPU)
        ech_diag_remark(diag, "that is what the runtime has given out, programs and what they reserve included; what is in it tells "
                              "jax.profiler.save_device_memory_profile(\"memory.prof\"), which 'echelon info' reads");
    else if (!beside)
        ech_diag_remark(diag,
                        "that is what the driver has given out, what frameworks keep unused and each process's context (some 300 to 600 MiB) included; what is "
                        "in it a capture of the program tells: PyTorch's memory snapshot, JAX's device memory profile");
}

void ech_gpu_rows_write(const EchGpuRows *all, EchTraceBuilder *builder)
{
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    const EchGpuRow *full = fullest(all);
    EchBytes sum;
    uint64_t index = full               ? full->index
                     : all->n_processes ? all->processes[0].gpu
                                        : 0,
             slice = full               ? full->slice
                     : all->n_processes ? all->processes[0].slice
                                        : ECH_GPU_WHOLE;
    g_autoptr(GArray) list = processes_of(all, index, slice, &sum);
    for (guint i = 0; i < list->len; i++) {
        g_autofree char *name = name_of(&g_array_index(list, EchGpuProcess, i));
        ech_refused_held(builder, memory, name, g_array_index(list, EchGpuProcess, i).size.bytes);
    }
    if (!full)
        return;
    ech_refused_held(builder, memory, list->len ? "no listed process" : "in use", full->used.bytes - MIN(full->used.bytes, sum));
    ech_refused_number(builder, "had_bytes", full->has_total, full->total.bytes);
    if (full->used.bytes > 0) /* the driver's count has each process's */
        ech_trace_builder_set_property(builder, "context_held", "true");
}
