#include "sim/import/gpu_tools.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <string.h>

enum { MAX_GPUS = 64, MAX_PROCESSES = 512, MAX_WORDS = 64, MAX_SHOWN = 6 };

static const EchBytes MIB = 1 << 20;
static const uint64_t UNTOLD = UINT64_MAX; /* of which GPU */
static const uint64_t WHOLE = UINT64_MAX;  /* no slice */

/* A GPU, or one of the slices that MIG cuts it into. */
typedef struct {
    uint64_t index, slice; /* slice: nvidia-smi's number of the instance, or WHOLE */
    char name[48];
    bool has_used, has_total;
    EchRounded used, total; /* of several readings the most */
    char key[48];           /* its bus or UUID, in tables without its number */
    uint64_t readings, rises;
    bool falls; /* from a reading to the next */
    EchBytes first, last;
    char fullest_at[32];
} Gpu;

typedef struct {
    uint64_t gpu, slice, id;
    char name[48];
    EchRounded size; /* bytes 0: not told */
} Process;

/* Of a table: nvidia-smi's and nvitop's, of which the latter's processes are told otherwise. */
typedef enum { NOTHING, GPUS, SLICES, PROCESSES, NVITOP_PROCESSES } Section;
/* Of amd-smi's tables and rocm-smi's. */
typedef enum { NO_AMD, AMD_GPUS, AMD_PROCESSES, AMD_MONITOR, ROCM_PROCESSES } AmdSection;

/* Of nvidia-smi -q: which heading the line stands below. */
typedef enum { ELSEWHERE, FRAME_BUFFER, OTHER_MEMORY } Heading;

/* Columns of nvidia-smi --format=csv; -1: not asked for. */
typedef struct {
    int index, name, used, total, pid, process, by_process, time, bus, uuid;
} Columns;

struct EchGpuTools {
    Section section;
    AmdSection amd_section;
    Heading heading;
    bool queried;     /* nvidia-smi -q */
    bool named_first; /* processes of amd-smi's monitor */
    uint64_t pid;     /* whose name or memory comes next, in lists of a line for each */
    char called[48];  /* its name, where that comes first */
    Gpu *row;         /* whose second line comes next, or NULL */
    bool csv;
    bool amd;
    bool lists;      /* Processes are told where there are any. */
    uint64_t listed; /* the GPU that the lines are of: PyTorch's list of processes, amd-smi, nvidia-smi -q */
    uint64_t rows;   /* of the CSV since its heading, or of one reading */
    uint64_t time;   /* of its last row, in ms of its day */
    Columns columns;
    Gpu gpus[MAX_GPUS];
    unsigned n_gpus;
    Process processes[MAX_PROCESSES];
    unsigned n_processes;
};

EchGpuTools *ech_gpu_tools_new(void)
{
    return g_new0(EchGpuTools, 1);
}

void ech_gpu_tools_free(EchGpuTools *tools)
{
    g_free(tools);
}

bool ech_gpu_tools_any(const EchGpuTools *tools)
{
    for (unsigned i = 0; i < tools->n_gpus; i++) {
        if (tools->gpus[i].has_used)
            return true;
    }
    return tools->n_processes > 0;
}

/* ---- words ---- */

static void copy(char *to, size_t size, EchWords words)
{
    g_autofree char *text = ech_quote(words.text, (gssize)MIN(words.n, size - 1), size - 1);
    g_strlcpy(to, text, size);
}

/* The pieces of @line between @separator's; blanks in a row count as one. */
static unsigned split(EchWords line, char separator, EchWords *ret)
{
    unsigned n = 0;
    for (size_t at = 0; at < line.n && n < MAX_WORDS;) {
        const char *end = memchr(line.text + at, separator, line.n - at);
        size_t stop = end ? (size_t)(end - line.text) : line.n;
        EchWords word = ech_words_trim(line.text + at, stop - at);
        if (word.n || separator != ' ')
            ret[n++] = word;
        at = stop + 1;
    }
    return n;
}

static bool is_number(EchWords word, uint64_t *ret)
{
    g_autofree char *text = g_strndup(word.text, MIN(word.n, (size_t)24));
    return word.n && word.n < 21 && ech_parse_u64(text, ret, NULL);
}

static bool is_size(EchWords word, EchRounded *ret)
{
    size_t used;
    return ech_rounded_parse(word.text, word.n, ret, &used) && used == word.n;
}

/* "81920", "81920 MiB": MiB unless it says otherwise. */
static bool is_mib(EchWords word, EchRounded *ret)
{
    uint64_t number;
    if (is_size(word, ret))
        return true;
    if (!is_number(word, &number) || number >= UINT64_C(1) << 40)
        return false;
    *ret = (EchRounded){number * MIB, (double)MIB / 2};
    return true;
}

static Gpu *slice_of(EchGpuTools *t, uint64_t index, uint64_t slice)
{
    for (unsigned i = 0; i < t->n_gpus; i++) {
        if (t->gpus[i].index == index && t->gpus[i].slice == slice)
            return &t->gpus[i];
    }
    if (t->n_gpus == MAX_GPUS)
        return NULL;
    t->gpus[t->n_gpus] = (Gpu){.index = index, .slice = slice};
    return &t->gpus[t->n_gpus++];
}

static Gpu *gpu(EchGpuTools *t, uint64_t index)
{
    return slice_of(t, index, WHOLE);
}

/* Whether it is told by its slices, whose memory a program sees instead of the GPU's. */
static bool is_sliced(const EchGpuTools *t, const Gpu *g)
{
    for (unsigned i = 0; i < t->n_gpus && g->slice == WHOLE; i++) {
        if (t->gpus[i].index == g->index && t->gpus[i].slice != WHOLE)
            return true;
    }
    return false;
}

static void add_process(EchGpuTools *t, uint64_t index, uint64_t slice, uint64_t id, EchWords name, EchRounded size)
{
    if (t->n_processes == MAX_PROCESSES)
        return;
    Process *p = &t->processes[t->n_processes++];
    *p = (Process){.gpu = index, .slice = slice, .id = id, .size = size};
    const char *slash = name.n ? memrchr(name.text, '/', name.n) : NULL;
    if (slash)
        name = (EchWords){slash + 1, (size_t)(name.text + name.n - slash - 1)};
    copy(p->name, sizeof p->name, name);
}

static void set_memory(Gpu *g, EchRounded used, EchRounded total)
{
    if (!g)
        return;
    g->used = used;
    g->total = total;
    g->has_used = g->has_total = true;
}

/* What @line, "KEY : VALUE", says of @key; nothing where it does not. */
static EchWords value_of(EchWords line, const char *key)
{
    EchWords rest = ech_words_start(line, key) ? ech_words_trim(line.text + strlen(key), line.n - strlen(key)) : (EchWords){line.text, 0};
    return rest.n && *rest.text == ':' ? ech_words_trim(rest.text + 1, rest.n - 1) : (EchWords){line.text, 0};
}

/* "3.0/191.7 GB", "11MiB / 20096MiB": the unit may stand behind the second alone. */
static bool is_pair(EchWords cell, EchRounded *ret_used, EchRounded *ret_total)
{
    EchWords pair[MAX_WORDS];
    if (split(cell, '/', pair) != 2 || !is_size(pair[1], ret_total))
        return false;
    if (is_size(pair[0], ret_used))
        return true;
    size_t digits = 0;
    while (digits < pair[1].n && !g_ascii_isalpha(pair[1].text[digits]))
        digits++;
    g_autofree char *text =
        g_strdup_printf("%.*s%.*s", (int)MIN(pair[0].n, (size_t)32), pair[0].text, (int)MIN(pair[1].n - digits, (size_t)8), pair[1].text + digits);
    size_t used;
    return ech_rounded_parse(text, strlen(text), ret_used, &used) && text[used] == '\0';
}

/* ---- nvidia-smi ---- */

/* "0  NVIDIA GeForce RTX 4090        Off |   00000000:4E:00.0 Off |": a number, a name up to its persistence mode. */
static bool read_name(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    const char *bar = line.n ? memchr(line.text, '|', line.n) : NULL;
    uint64_t index;
    unsigned n = bar ? split((EchWords){line.text, (size_t)(bar - line.text)}, ' ', words) : 0;
    if (n < 2 || !is_number(words[0], &index) || g_ascii_isdigit(*words[1].text))
        return false;
    unsigned last = n - 1;
    if (last > 1 && (ech_words_start(words[last], "Off") || ech_words_start(words[last], "On")))
        last--;
    Gpu *g = gpu(t, index);
    if (g)
        copy(g->name, sizeof g->name, (EchWords){words[1].text, (size_t)(words[last].text + words[last].n - words[1].text)});
    t->row = g;
    return g != NULL;
}

/* "30%   29C    P8             22W /  450W |   18507MiB /  24564MiB |" */
static bool read_usage(EchGpuTools *t, EchWords line)
{
    EchWords cells[MAX_WORDS];
    unsigned n = split(line, '|', cells);
    for (unsigned i = 0; i < n; i++) {
        EchRounded used, total;
        if (!is_pair(cells[i], &used, &total))
            continue;
        set_memory(t->row, used, total);
        t->row = NULL;
        return true;
    }
    return false;
}

/* "0   N/A  N/A     10734      C   /usr/bin/python                     14160MiB |" */
static bool read_process(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    unsigned n = split(line, ' ', words), at = 1;
    uint64_t index, id;
    EchRounded size = {0};
    if (n && words[n - 1].n == 1 && *words[n - 1].text == '|')
        n--;
    if (n < 4 || !is_number(words[0], &index))
        return false;
    while (at < 3 && ech_words_start(words[at], "N/A"))
        at++;
    /* Of a slice of a GPU its two numbers come first. */
    uint64_t slice = WHOLE, instance;
    if (at + 2 < n && is_number(words[at], &slice) && is_number(words[at + 1], &instance) && is_number(words[at + 2], &id))
        at += 2;
    else
        slice = WHOLE;
    if (at + 3 > n || !is_number(words[at], &id) || words[at + 1].n > 3)
        return false;
    if (!is_size(words[n - 1], &size) && !ech_words_start(words[n - 1], "N/A"))
        return false;
    EchWords name =
        n - 1 > at + 2 ? (EchWords){words[at + 2].text, (size_t)(words[n - 2].text + words[n - 2].n - words[at + 2].text)} : (EchWords){words[at].text, 0};
    add_process(t, index, slice, id, name, size);
    return true;
}

/* "1    3   0   0  |  14366MiB / 19968MiB | 28      0 |  2   0    1    0    0 |": the GPU, its instance, a computing one in that, the device */
static bool read_slice(EchGpuTools *t, EchWords line)
{
    EchWords cells[MAX_WORDS], words[MAX_WORDS];
    uint64_t index, slice;
    if (split(line, '|', cells) < 3 || split(cells[0], ' ', words) != 4 || !is_number(words[0], &index) || !is_number(words[1], &slice))
        return false;
    t->row = slice_of(t, index, slice);
    return t->row && read_usage(t, line);
}

/* nvitop's compact rows have the number and the memory on one line: "0 30%  35C  P8   14W / 300W |  22.69MiB / 47.99GiB |" */
static bool read_compact(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    uint64_t index;
    if (split(line, ' ', words) < 4 || !is_number(words[0], &index) || !ech_words_have(words[1], "%"))
        return false;
    t->row = gpu(t, index);
    return t->row && read_usage(t, line);
}

/* nvitop: "0   12345 C   ann 22.90GiB  98  100.2   3.1  10:12:11  python train.py |" */
static bool read_nvitop_process(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    unsigned n = split(line, ' ', words);
    uint64_t index, id;
    EchRounded size = {0};
    if (n < 6 || !is_number(words[0], &index) || !is_number(words[1], &id) || !is_size(words[4], &size))
        return false;
    add_process(t, index, WHOLE, id, words[3], size);
    return true;
}

static bool read_table(EchGpuTools *t, EchWords line)
{
    bool head = ech_words_start(line, "GPU ") &&
                ((ech_words_have(line, " Name ") && ech_words_have(line, "Persistence")) || (ech_words_have(line, " Fan ") && ech_words_have(line, "|")));
    if (head || (ech_words_have(line, "NVIDIA-SMI ") && ech_words_have(line, "|"))) {
        t->section = GPUS;
        t->row = NULL;
        return true;
    }
    bool list = ech_words_start(line, "Processes:") && ech_words_have(line, "|"), slices = ech_words_start(line, "MIG devices:");
    if (t->section == NOTHING && !list && !slices)
        return false;
    if (list || slices) {
        t->section = slices ? SLICES : PROCESSES;
        t->lists |= t->section == PROCESSES;
        return true;
    }
    if (t->section == PROCESSES && ech_words_start(line, "GPU ") && ech_words_have(line, "GPU-MEM")) {
        t->section = NVITOP_PROCESSES;
        return true;
    }
    switch (t->section) {
    case GPUS: return (t->row && read_usage(t, line)) || read_compact(t, line) || read_name(t, line);
    case SLICES: return read_slice(t, line);
    case PROCESSES: return read_process(t, line);
    case NVITOP_PROCESSES: return read_nvitop_process(t, line);
    case NOTHING: break;
    }
    return false;
}

/* nvidia-smi -q: a line for each figure, below headings. "Used" is without what the driver reserves for itself, which stands before it. */
static bool read_query(EchGpuTools *t, EchWords line)
{
    EchRounded size;
    if (ech_words_have(line, "NVSMI LOG==")) {
        t->queried = true;
        t->listed = UNTOLD;
        return true;
    }
    if (!t->queried)
        return false;
    if (ech_words_start(line, "GPU ") && ech_words_have(line, ":") && !ech_words_have(line, " :")) {
        t->listed = t->listed == UNTOLD ? 0 : t->listed + 1; /* "GPU 00000000:17:00.0" */
        return gpu(t, t->listed) != NULL;
    }
    if (!memchr(line.text, ':', line.n)) {
        t->heading = ech_words_start(line, "FB Memory Usage") ? FRAME_BUFFER : ech_words_have(line, "Memory Usage") ? OTHER_MEMORY : ELSEWHERE;
        return t->heading != ELSEWHERE;
    }
    Gpu *g = t->listed == UNTOLD ? NULL : gpu(t, t->listed);
    EchWords name = value_of(line, "Product Name"), called = value_of(line, "Name");
    if (g && name.n)
        copy(g->name, sizeof g->name, name);
    if (t->heading == FRAME_BUFFER && g && is_size(value_of(line, "Total"), &g->total))
        return g->has_total = true;
    bool used = t->heading == FRAME_BUFFER && is_size(value_of(line, "Used"), &size);
    if (g && (used || (t->heading == FRAME_BUFFER && is_size(value_of(line, "Reserved"), &size)))) {
        g->used.bytes = ech_bytes_add(g->used.bytes, size.bytes);
        g->has_used |= used;
        if (!used && size.bytes)
            add_process(t, t->listed, WHOLE, 0, (EchWords){"the driver's own", 16}, size);
        return true;
    }
    if (is_number(value_of(line, "Process ID"), &t->pid)) {
        t->called[0] = '\0';
        return t->lists = true;
    }
    if (t->pid && called.n)
        copy(t->called, sizeof t->called, called);
    if (t->pid && is_size(value_of(line, "Used GPU Memory"), &size)) {
        add_process(t, t->listed, WHOLE, t->pid, (EchWords){t->called, strlen(t->called)}, size);
        t->pid = 0;
        return true;
    }
    return name.n || called.n;
}

/* "index, name, memory.used [MiB], memory.total [MiB]", "pid, process_name, used_gpu_memory [MiB]" */
static bool read_heading(EchGpuTools *t, EchWords line)
{
    EchWords cells[MAX_WORDS];
    Columns c = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (!ech_words_have(line, "memory") || !ech_words_have(line, ","))
        return false;
    unsigned n = split(line, ',', cells);
    for (unsigned i = 0; i < n; i++) {
        const struct {
            const char *name;
            int *column;
        } known[] = {{"memory.used", &c.used},
                     {"memory.total", &c.total},
                     {"index", &c.index},
                     {"name", &c.name},
                     {"pid", &c.pid},
                     {"process", &c.process},
                     {"used_gpu_memory", &c.by_process},
                     {"used_memory", &c.by_process},
                     {"timestamp", &c.time},
                     {"pci.bus_id", &c.bus},
                     {"uuid", &c.uuid},
                     {"gpu_uuid", &c.uuid}};
        for (size_t k = 0; k < G_N_ELEMENTS(known); k++) {
            if (ech_words_start(cells[i], known[k].name))
                *known[k].column = (int)i;
        }
    }
    if ((c.used < 0 || (c.total < 0 && c.time < 0)) && (c.by_process < 0 || c.pid < 0))
        return false;
    t->columns = c;
    t->csv = true;
    t->rows = 0;
    return true;
}

/* Milliseconds of its day of "2026/01/02 03:04:05.678". */
static bool is_time(EchWords cell, uint64_t *ret)
{
    static const uint64_t units[] = {3600000, 60000, 1000, 1};
    EchWords words[MAX_WORDS], parts[MAX_WORDS], second[MAX_WORDS];
    uint64_t part[4] = {0};
    if (split(cell, ' ', words) != 2 || split(words[1], ':', parts) != 3 || split(parts[2], '.', second) != 2 || !is_number(parts[0], &part[0]) ||
        !is_number(parts[1], &part[1]) || !is_number(second[0], &part[2]) || !is_number(second[1], &part[3]))
        return false;
    *ret = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        *ret += MIN(part[i], (uint64_t)1000) * units[i];
    return true;
}

/* The GPU of a bus or UUID; those not met before are numbered as they come. */
static Gpu *gpu_of(EchGpuTools *t, EchWords key)
{
    char text[48];
    copy(text, sizeof text, key);
    for (unsigned i = 0; i < t->n_gpus; i++) {
        if (strcmp(t->gpus[i].key, text) == 0)
            return &t->gpus[i];
    }
    Gpu *g = t->n_gpus < MAX_GPUS ? gpu(t, t->n_gpus) : NULL;
    if (g)
        g_strlcpy(g->key, text, sizeof g->key);
    return g;
}

/* The GPU of a row. Where nothing names it, rows within 20 ms of one another are of one reading (nvidia-smi asks one GPU after the other, some 2 ms each). */
static Gpu *gpu_of_row(EchGpuTools *t, const EchWords *cells, unsigned n)
{
    const Columns *c = &t->columns;
    uint64_t index, time;
    if (c->index >= 0 && (int)n > c->index)
        return is_number(cells[c->index], &index) ? gpu(t, index) : NULL;
    int key = c->uuid >= 0 ? c->uuid : c->bus;
    if (key >= 0 && (int)n > key)
        return gpu_of(t, cells[key]);
    if (c->time >= 0 && (int)n > c->time && is_time(cells[c->time], &time)) {
        if (t->rows && time - t->time >= 20)
            t->rows = 0;
        t->time = time;
    }
    return gpu(t, t->rows++);
}

/* One more reading: of a table over time, or one after another. */
static void add_reading(Gpu *g, EchRounded used, EchWords time)
{
    if (g->readings == 0)
        g->first = used.bytes;
    g->rises += g->readings && used.bytes > g->last;
    g->falls |= g->readings && used.bytes < g->last;
    g->last = used.bytes;
    if (g->readings++ == 0 || used.bytes > g->used.bytes) {
        g->used = used;
        copy(g->fullest_at, sizeof g->fullest_at, time);
    }
    g->has_used = true;
}

static bool read_csv(EchGpuTools *t, EchWords line)
{
    EchWords cells[MAX_WORDS], none = {line.text, 0};
    unsigned n = split(line, ',', cells);
    const Columns *c = &t->columns;
    EchRounded used, total;
    uint64_t id;
    if (c->pid >= 0 && c->by_process >= 0 && (int)n > MAX(c->pid, c->by_process)) {
        EchWords name = c->process >= 0 && (int)n > c->process ? cells[c->process] : none;
        if (!is_number(cells[c->pid], &id) || !is_mib(cells[c->by_process], &used))
            return t->csv = false;
        add_process(t, UNTOLD, WHOLE, id, name, used);
        return true;
    }
    if (c->used < 0 || (int)n <= MAX(c->used, c->total) || !is_mib(cells[c->used], &used) || (c->total >= 0 && !is_mib(cells[c->total], &total)))
        return t->csv = false;
    Gpu *g = gpu_of_row(t, cells, n);
    if (!g)
        return true;
    add_reading(g, used, c->time >= 0 && (int)n > c->time ? cells[c->time] : none);
    g->has_total = c->total >= 0;
    if (g->has_total)
        g->total = total;
    if (c->name >= 0 && (int)n > c->name)
        copy(g->name, sizeof g->name, cells[c->name]);
    return true;
}

/* ---- others ---- */

/* "[0] NVIDIA A100 80GB PCIe | 52'C, 100 % | 70151 / 81920 MB | alice(60211M) bob:python/77(9300M)" */
static bool read_gpustat(EchGpuTools *t, EchWords before, EchWords line)
{
    EchWords cells[MAX_WORDS], pair[MAX_WORDS], who[MAX_WORDS];
    EchRounded used, total;
    const char *bracket = before.n ? memrchr(before.text, '[', before.n) : NULL;
    size_t digits = 0;
    uint64_t index;
    while (bracket && bracket + 1 + digits < before.text + before.n && g_ascii_isdigit(bracket[1 + digits]))
        digits++;
    unsigned n_cells = split(line, '|', cells);
    if (!bracket || !is_number((EchWords){bracket + 1, digits}, &index) || n_cells < 3 || split(cells[2], '/', pair) != 2 || !is_mib(pair[0], &used) ||
        !is_size(pair[1], &total) || !ech_words_have(cells[1], "C"))
        return false;
    Gpu *g = gpu(t, index);
    t->lists = true;
    if (!g)
        return true;
    copy(g->name, sizeof g->name, cells[0]);
    set_memory(g, used, total);
    unsigned n = n_cells > 3 ? split(cells[3], ' ', who) : 0;
    for (unsigned i = 0; i < n; i++) {
        const char *open = memrchr(who[i].text, '(', who[i].n), *slash = memrchr(who[i].text, '/', who[i].n);
        EchRounded size;
        uint64_t id = 0;
        if (!open || who[i].text[who[i].n - 1] != ')' || !is_size((EchWords){open + 1, (size_t)(who[i].text + who[i].n - open) - 2}, &size))
            continue;
        bool numbered = slash && slash < open && is_number((EchWords){slash + 1, (size_t)(open - slash) - 1}, &id);
        add_process(t, index, WHOLE, numbered ? id : 0, (EchWords){who[i].text, (size_t)((numbered ? slash : open) - who[i].text)}, size);
    }
    return true;
}

/* "GPU[0]		: VRAM Total Used Memory (B): 66642000000" */
static bool read_rocm(EchGpuTools *t, EchWords line)
{
    uint64_t index, bytes;
    EchWords at = ech_words_after(line, "GPU["), rest = ech_words_after(line, "VRAM Total ");
    const char *close = at.n ? memchr(at.text, ']', MIN(at.n, (size_t)8)) : NULL;
    bool used = ech_words_start(rest, "Used Memory (B)");
    if (!close || !is_number((EchWords){at.text, (size_t)(close - at.text)}, &index) || (!used && !ech_words_start(rest, "Memory (B)")) ||
        !ech_words_number_after(rest, "Memory (B)", &bytes))
        return false;
    Gpu *g = gpu(t, index);
    t->amd = true;
    if (g && used) {
        g->used = (EchRounded){bytes, 0};
        g->has_used = true;
    } else if (g) {
        g->total = (EchRounded){bytes, 0};
        g->has_total = true;
    }
    return true;
}

/* ---- amd-smi, rocm-smi --showpids ---- */

/* Two lines for a GPU: "0000:0c:00.0    AMD Instinct MI300X | 0 %   40 C   0   143/750 W |" and "0   0   2   SPX/NPS1 | 0 %   N/A   283/196592 MB |". */
static bool read_amd_row(EchGpuTools *t, EchWords line)
{
    EchWords cells[MAX_WORDS], left[MAX_WORDS], right[MAX_WORDS];
    EchRounded used, total;
    uint64_t index;
    if (split(line, '|', cells) < 2)
        return false;
    unsigned n = split(cells[0], ' ', left), m = split(cells[1], ' ', right);
    if (n > 1 && left[0].n > 8 && memchr(left[0].text, ':', left[0].n)) {
        copy(t->called, sizeof t->called, (EchWords){left[1].text, (size_t)(left[n - 1].text + left[n - 1].n - left[1].text)});
        return true;
    }
    if (n < 2 || m < 2 || !is_number(left[0], &index) ||
        !is_pair((EchWords){right[m - 2].text, (size_t)(right[m - 1].text + right[m - 1].n - right[m - 2].text)}, &used, &total))
        return false;
    Gpu *g = gpu(t, index);
    set_memory(g, used, total);
    if (g)
        g_strlcpy(g->name, t->called, sizeof g->name);
    t->called[0] = '\0';
    return true;
}

/* "0    3050055  python3.12             2.0 MB  255.0 GB   261.9 GB    0.0 % |"; the monitor has names first, and one size more: "0   N/A  2266127   0.0 B
 * 0.0 B    2.8 GB      0.0 B". */
static bool read_amd_process(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    uint64_t index, id;
    EchRounded size = {0};
    unsigned n = split(line, ' ', words), sizes = 0, name = t->named_first ? 1 : 2, wanted = t->named_first ? 3 : 2;
    if (n < 7 || !is_number(words[0], &index) || !is_number(words[3 - name], &id))
        return false;
    for (unsigned at = 3; at + 1 < n && sizes < wanted; at++) {
        if (is_size((EchWords){words[at].text, (size_t)(words[at + 1].text + words[at + 1].n - words[at].text)}, &size)) {
            sizes++;
            at++;
        }
    }
    if (sizes < wanted)
        return false;
    if (size.bytes)
        add_process(t, index, WHOLE, id, ech_words_start(words[name], "N/A") ? (EchWords){line.text, 0} : words[name], size);
    return true;
}

/* amd-smi monitor: "0  305 W   49 C   43 C  2106 MHz   97 %    1 %    N/A    0 %    3.0/191.7 GB" */
static bool read_amd_monitor(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    uint64_t index;
    EchRounded used, total;
    unsigned n = split(line, ' ', words);
    if (n < 3 || !is_number(words[0], &index) ||
        !is_pair((EchWords){words[n - 2].text, (size_t)(words[n - 1].text + words[n - 1].n - words[n - 2].text)}, &used, &total))
        return false;
    set_memory(gpu(t, index), used, total);
    return true;
}

/* rocm-smi --showpids: "8300   python3   1   17925210112   0   0", bytes; on how many GPUs, not on which. */
static bool read_rocm_process(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    uint64_t id, gpus, bytes;
    if (split(line, ' ', words) < 5 || !is_number(words[0], &id) || !is_number(words[2], &gpus) || !is_number(words[3], &bytes))
        return false;
    if (bytes)
        add_process(t, UNTOLD, WHOLE, id, words[1], (EchRounded){bytes, 0});
    return true;
}

/* amd-smi metric, amd-smi process: a line for each figure, below "GPU: 0". */
static bool read_amd_figure(EchGpuTools *t, EchWords line)
{
    EchRounded size;
    EchWords name = value_of(line, "NAME");
    bool used = is_size(value_of(line, "USED_VRAM"), &size), total = !used && is_size(value_of(line, "TOTAL_VRAM"), &size);
    if (used || total) {
        Gpu *g = gpu(t, t->listed);
        t->amd = true;
        if (g && used)
            g->used = size;
        else if (g)
            g->total = size;
        if (g)
            *(used ? &g->has_used : &g->has_total) = true;
        return true;
    }
    if (name.n) {
        copy(t->called, sizeof t->called, name);
        return false; /* others have names, too */
    }
    if (is_number(value_of(line, "PID"), &t->pid))
        return true;
    if (!t->pid || !is_size(value_of(line, "VRAM_MEM"), &size))
        return false;
    t->amd = t->lists = true;
    if (size.bytes)
        add_process(t, t->listed, WHOLE, t->pid, (EchWords){t->called, strcmp(t->called, "N/A") == 0 ? 0 : strlen(t->called)}, size);
    t->pid = 0;
    return true;
}

static bool read_amd(EchGpuTools *t, EchWords line)
{
    static const struct {
        const char *first, *second;
        AmdSection section;
    } heads[] = {
        {"BDF ", "GPU-Name", AMD_GPUS}, {"GPU ", "VRAM_MEM", AMD_PROCESSES}, {"GPU ", "VRAM_USAGE", AMD_MONITOR}, {"PID", "VRAM USED", ROCM_PROCESSES}};
    for (size_t i = 0; i < G_N_ELEMENTS(heads); i++) {
        if (!ech_words_start(line, heads[i].first) || !ech_words_have(line, heads[i].second))
            continue;
        t->amd_section = heads[i].section;
        t->named_first = ech_words_have(line, "CPU_MEM");
        t->amd = true;
        t->lists |= t->amd_section == AMD_PROCESSES || t->amd_section == ROCM_PROCESSES;
        return true;
    }
    switch (t->amd_section) {
    case AMD_GPUS: return read_amd_row(t, line);
    case AMD_PROCESSES: return read_amd_process(t, line);
    case AMD_MONITOR: return read_amd_monitor(t, line);
    case ROCM_PROCESSES: return read_rocm_process(t, line);
    case NO_AMD: break;
    }
    return read_amd_figure(t, line);
}

/* "GPU:0", "process      79749 uses      601.000 MB GPU memory" */
static bool read_listed(EchGpuTools *t, EchWords line)
{
    EchWords words[MAX_WORDS];
    uint64_t id;
    EchRounded size;
    if (ech_words_start(line, "GPU:") && is_number(ech_words_trim(line.text + 4, line.n - 4), &id)) {
        t->listed = id;
        return true;
    }
    if (!ech_words_start(line, "process ") || split(line, ' ', words) < 5 || !is_number(words[1], &id) || !ech_words_size_after(line, " uses", &size))
        return false;
    add_process(t, t->listed, WHOLE, id, (EchWords){line.text, 7}, size);
    return true;
}

static bool read_line(EchGpuTools *t, EchWords before, EchWords line)
{
    if (t->csv && read_csv(t, line))
        return true;
    return read_amd(t, line) || read_table(t, line) || read_query(t, line) || read_heading(t, line) || read_gpustat(t, before, line) || read_rocm(t, line) ||
           read_listed(t, line);
}

bool ech_gpu_tools_line(EchGpuTools *t, EchWords before, EchWords line)
{
    static const char bar[] = "\xe2\x94\x82"; /* which nvitop draws its tables with */
    if (line.n == 0)
        return false;
    if (!ech_words_have(line, bar) && !memchr(line.text, '\t', line.n))
        return read_line(t, before, line);
    g_autofree char *text = g_strdelimit(g_strndup(line.text, line.n), "\t", ' ');
    for (char *at = strstr(text, bar); at; at = strstr(at, bar))
        memcpy(at, " | ", 3);
    return read_line(t, before, (EchWords){text, strlen(text)});
}

/* ---- what it comes to ---- */

static EchBytes free_of(const Gpu *g)
{
    return g->total.bytes - MIN(g->total.bytes, g->used.bytes);
}

static char *name_of(const Process *p)
{
    if (p->id && p->name[0])
        return g_strdup_printf("%s (%" G_GUINT64_FORMAT ")", p->name, p->id);
    return p->id ? g_strdup_printf("process %" G_GUINT64_FORMAT, p->id) : g_strdup(p->name[0] ? p->name : "a process without a name");
}

static const Gpu *fullest(const EchGpuTools *t)
{
    const Gpu *best = NULL;
    for (unsigned i = 0; i < t->n_gpus; i++) {
        const Gpu *g = &t->gpus[i];
        if (g->has_used && !is_sliced(t, g) && (!best || g->used.bytes > best->used.bytes))
            best = g;
    }
    return best;
}

static int by_size(const void *a, const void *b)
{
    const Process *x = a, *y = b;
    if (x->size.bytes != y->size.bytes)
        return x->size.bytes < y->size.bytes ? 1 : -1;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : strcmp(x->name, y->name);
}

/* Processes on the slice of @index that say how much they hold, the largest first; *ret_sum: in all. Owned by the caller. */
static GArray *processes_of(const EchGpuTools *t, uint64_t index, uint64_t slice, EchBytes *ret_sum)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(Process));
    *ret_sum = 0;
    for (unsigned i = 0; i < t->n_processes; i++) {
        const Process *p = &t->processes[i];
        bool here = (p->gpu == index && p->slice == slice) || (p->gpu == UNTOLD && t->n_gpus == 1);
        if (!here || p->size.bytes == 0)
            continue;
        g_array_append_val(list, *p);
        *ret_sum = ech_bytes_add(*ret_sum, p->size.bytes);
    }
    g_array_sort(list, by_size);
    return list;
}

/* "GPU 1", "GPU 1, slice 3". Owned by the caller. */
static char *gpu_name(const Gpu *g)
{
    return g->slice == WHOLE ? g_strdup_printf("GPU %" G_GUINT64_FORMAT, g->index)
                             : g_strdup_printf("GPU %" G_GUINT64_FORMAT ", slice %" G_GUINT64_FORMAT, g->index, g->slice);
}

/* How it went from the first reading to the last. */
static void say_readings(const Gpu *g, EchDiag *diag)
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

static void say_gpu(const EchGpuTools *t, const Gpu *g, EchDiag *diag)
{
    EchBytes sum;
    g_autoptr(GArray) list = processes_of(t, g->index, g->slice, &sum);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *used = ech_format_bytes(g->used.bytes), *total = ech_format_bytes(g->total.bytes), *which = gpu_name(g);
    g_string_append_printf(text, "%s%s%s%s: %s", which, g->name[0] ? " (" : "", g->name, g->name[0] ? ")" : "", used);
    if (g->has_total)
        g_string_append_printf(text, " of %s", total);
    g_string_append(text, g->readings > 1 ? " in use at the fullest" : " in use");
    if (g->fullest_at[0] && g->readings > 1)
        g_string_append_printf(text, " (%s)", g->fullest_at);
    for (guint i = 0; i < MIN(list->len, MAX_SHOWN); i++) {
        g_autofree char *size = ech_format_bytes(g_array_index(list, Process, i).size.bytes), *name = name_of(&g_array_index(list, Process, i));
        g_string_append_printf(text, "%s%s %s", i ? ", " : ": ", name, size);
    }
    if (list->len > MAX_SHOWN)
        g_string_append_printf(text, " and %u more", list->len - MAX_SHOWN);
    ech_diag_remark(diag, "%s", text->str);
    say_readings(g, diag);
    EchBytes rest = g->used.bytes - MIN(g->used.bytes, sum);
    g_autofree char *size = ech_format_bytes(rest);
    if (rest > 512 * MIB && rest > g->used.bytes / 20 && (t->lists || list->len))
        ech_diag_remark(diag,
                        "%s of that no process in the list holds: those of other containers and a killed one that has not let go yet are not in it ('fuser -v "
                        "%s', as root outside containers, finds whoever has the device open)",
                        size, t->amd ? "/dev/kfd" : "/dev/nvidia*");
    for (guint i = 0; i < list->len && g->has_total; i++) {
        const Process *p = &g_array_index(list, Process, i);
        double share = (double)p->size.bytes / (double)g->total.bytes;
        g_autofree char *name = name_of(p);
        if (share > 0.745 && share < 0.78)
            ech_diag_remark(diag,
                            "%s holds three quarters of it: as much as JAX takes when it starts, used or not; XLA_PYTHON_CLIENT_PREALLOCATE=false lets it take "
                            "what it needs",
                            name);
        else if (share > 0.88)
            ech_diag_remark(
                diag,
                "%s holds nearly all of it: vLLM and TensorFlow take as much when they start, used or not (--gpu-memory-utilization, .9 unless set; "
                "TF_FORCE_GPU_ALLOW_GROWTH=true)",
                name);
    }
}

void ech_gpu_tools_say(const EchGpuTools *t, bool beside, EchDiag *diag)
{
    const Gpu *full = fullest(t), *roomiest = NULL;
    unsigned said = 0;
    for (unsigned i = 0; i < t->n_gpus; i++) {
        const Gpu *g = &t->gpus[i];
        if (!g->has_used || is_sliced(t, g))
            continue;
        if (said++ < MAX_SHOWN)
            say_gpu(t, g, diag);
        if (g->has_total && (!roomiest || free_of(g) > free_of(roomiest)))
            roomiest = g;
    }
    if (said > MAX_SHOWN)
        ech_diag_remark(diag, "and %u more", said - MAX_SHOWN);
    for (unsigned i = 0; i < t->n_processes && said == 0; i++) {
        const Process *p = &t->processes[i];
        g_autofree char *size = ech_format_bytes(p->size.bytes), *name = name_of(p);
        g_autofree char *of = p->gpu == UNTOLD ? g_strdup("") : g_strdup_printf("GPU %" G_GUINT64_FORMAT ": ", p->gpu);
        ech_diag_remark(diag, "%s%s holds %s", of, name, p->size.bytes ? size : "memory, how much is not told");
    }
    if (!full || !full->has_total)
        return;
    if (!t->lists && t->n_processes == 0)
        ech_diag_remark(diag, "who holds it: %s", t->amd ? "'rocm-smi --showpids'" : "the list of processes at the end of what nvidia-smi prints");
    if (roomiest != full && free_of(roomiest) > free_of(full) + full->total.bytes / 10) {
        g_autofree char *free = ech_format_bytes(free_of(roomiest)), *which = gpu_name(roomiest);
        if (roomiest->slice == WHOLE)
            ech_diag_remark(diag, "most room: %s, %s free; %s_VISIBLE_DEVICES=%" G_GUINT64_FORMAT " runs there", which, free, t->amd ? "HIP" : "CUDA",
                            roomiest->index);
        else
            ech_diag_remark(diag, "most room: %s, %s free; CUDA_VISIBLE_DEVICES=MIG-..., which 'nvidia-smi -L' tells, runs there", which, free);
    }
    if (full->slice != WHOLE)
        ech_diag_remark(diag,
                        "a program sees one slice and its memory alone; the same on a smaller GPU: 'echelon run' and 'echelon advise' with --set "
                        "device.memories.hbm.capacity=%" G_GUINT64_FORMAT "MiB (the slice's share of the processors and of the bandwidth is not in that)",
                        full->total.bytes / MIB);
    if (!beside)
        ech_diag_remark(diag,
                        "that is what the driver has given out, what frameworks keep unused and each process's context (some 300 to 600 MiB) included; what is "
                        "in it a capture of the program tells: PyTorch's memory snapshot, JAX's device memory profile");
}

void ech_gpu_tools_write(const EchGpuTools *t, EchTraceBuilder *builder)
{
    EchId memory = ech_trace_builder_memory(builder, "hbm");
    const Gpu *full = fullest(t);
    EchBytes sum;
    uint64_t index = full ? full->index : t->n_processes ? t->processes[0].gpu : 0, slice = full ? full->slice : t->n_processes ? t->processes[0].slice : WHOLE;
    g_autoptr(GArray) list = processes_of(t, index, slice, &sum);
    for (guint i = 0; i < list->len; i++) {
        g_autofree char *name = name_of(&g_array_index(list, Process, i));
        ech_refused_held(builder, memory, name, g_array_index(list, Process, i).size.bytes);
    }
    if (!full)
        return;
    ech_refused_held(builder, memory, list->len ? "no listed process" : "in use", full->used.bytes - MIN(full->used.bytes, sum));
    ech_refused_number(builder, "had_bytes", full->has_total, full->total.bytes);
}
