#include "sim/import/gpu_tools.h"
#include "sim/base/error.h"
#include "sim/import/gpu_others.h"

#include <string.h>

/* Of a table: nvidia-smi's and nvitop's, of which the latter's processes are told otherwise. */
typedef enum { NOTHING, GPUS, SLICES, PROCESSES, NVITOP_PROCESSES } Section;
/* Of amd-smi's tables and rocm-smi's. */
typedef enum { NO_AMD, AMD_GPUS, AMD_PROCESSES, AMD_MONITOR, ROCM_PROCESSES } AmdSection;

/* Of nvidia-smi -q: which heading the line stands below. */
typedef enum { ELSEWHERE, FRAME_BUFFER, OTHER_MEMORY } Heading;

/* Columns of a table with commas; -1: not asked for. */
typedef struct {
    int index, name, used, total, pid, process, by_process, time, bus, uuid;
    bool in_bytes; /* not MiB */
} Columns;

struct EchGpuTools {
    Section section;
    AmdSection amd_section;
    Heading heading;
    bool queried;     /* nvidia-smi -q */
    bool named_first; /* processes of amd-smi's monitor */
    uint64_t pid;     /* whose name or memory comes next, in lists of a line for each */
    char called[48];  /* its name, where that comes first */
    EchGpuRow *row;   /* whose second line comes next, or NULL */
    bool csv;
    uint64_t listed; /* the GPU that the lines are of: PyTorch's list of processes, amd-smi, nvidia-smi -q */
    uint64_t rows;   /* of the CSV since its heading, or of one reading */
    uint64_t time;   /* of its last row, in ms of its day */
    Columns columns;
    EchBytes shared, shared_all; /* of the host's memory, by Windows, beside a GPU's own that is nearly full; 0: not told */
    bool nearly_full;
    EchGpuOthers others;
    EchGpuRows all;
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
    return ech_gpu_rows_any(&tools->all);
}

bool ech_gpu_tools_whole(const EchGpuTools *tools)
{
    return ech_gpu_rows_whole(&tools->all);
}

void ech_gpu_tools_say(const EchGpuTools *tools, bool beside, EchDiag *diag)
{
    const EchBytes of_desktops = UINT64_C(1) << 30; /* more than their windows take */
    ech_gpu_rows_say(&tools->all, beside, diag);
    g_autofree char *shared = ech_format_bytes(tools->shared), *all = ech_format_bytes(tools->shared_all);
    if (tools->shared > of_desktops)
        ech_diag_remark(
            diag,
            "beside that %s of the host's memory are in use as the GPU's (shared GPU memory, of up to %s): what its own had no room for. The GPU reaches "
            "it over PCIe alone, many times slower, and nothing is refused: less in use (a smaller batch or context, fewer bits) makes it fast "
            "again. NVIDIA's control panel (CUDA - Sysmem Fallback Policy) can make the driver refuse instead",
            shared, all);
}

void ech_gpu_tools_write(const EchGpuTools *tools, EchTraceBuilder *builder)
{
    ech_gpu_rows_write(&tools->all, builder);
}

/* What @line, "KEY : VALUE", says of @key; nothing where it does not. */
static EchWords value_of(EchWords line, const char *key)
{
    EchWords rest = ech_words_start(line, key) ? ech_words_trim(line.text + strlen(key), line.n - strlen(key)) : (EchWords){line.text, 0};
    return rest.n && *rest.text == ':' ? ech_words_trim(rest.text + 1, rest.n - 1) : (EchWords){line.text, 0};
}

/* ---- nvidia-smi ---- */

/* "0  NVIDIA GeForce RTX 4090        Off |   00000000:4E:00.0 Off |": a number, a name up to its persistence mode. */
static bool read_name(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    const char *bar = line.n ? memchr(line.text, '|', line.n) : NULL;
    uint64_t index;
    unsigned n = bar ? ech_gpu_split((EchWords){line.text, (size_t)(bar - line.text)}, ' ', words) : 0;
    if (n < 2 || !ech_gpu_is_number(words[0], &index) || g_ascii_isdigit(*words[1].text))
        return false;
    unsigned last = n - 1;
    if (last > 1 && (ech_words_start(words[last], "Off") || ech_words_start(words[last], "On") || ech_words_start(words[last], "N/A")))
        last--;
    EchGpuRow *g = ech_gpu_row(&t->all, index);
    if (g)
        ech_gpu_copy(g->name, sizeof g->name, (EchWords){words[1].text, (size_t)(words[last].text + words[last].n - words[1].text)});
    t->row = g;
    return g != NULL;
}

/* "30%   29C    P8             22W /  450W |   18507MiB /  24564MiB |" */
static bool read_usage(EchGpuTools *t, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS];
    unsigned n = ech_gpu_split(line, '|', cells);
    for (unsigned i = 0; i < n; i++) {
        EchRounded used, total;
        if (!ech_gpu_is_pair(cells[i], &used, &total))
            continue;
        ech_gpu_row_set(t->row, used, total);
        t->row = NULL;
        return true;
    }
    return false;
}

/* "0   N/A  N/A     10734      C   /usr/bin/python                     14160MiB |" */
static bool read_process(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    unsigned n = ech_gpu_split(line, ' ', words), at = 1;
    uint64_t index, id;
    EchRounded size = {0};
    if (n && words[n - 1].n == 1 && *words[n - 1].text == '|')
        n--;
    if (n < 4 || !ech_gpu_is_number(words[0], &index))
        return false;
    while (at < 3 && ech_words_start(words[at], "N/A"))
        at++;
    /* Of a slice of a GPU its two numbers come first. */
    uint64_t slice = ECH_GPU_WHOLE, instance;
    if (at + 2 < n && ech_gpu_is_number(words[at], &slice) && ech_gpu_is_number(words[at + 1], &instance) && ech_gpu_is_number(words[at + 2], &id))
        at += 2;
    else
        slice = ECH_GPU_WHOLE;
    if (at + 3 > n || !ech_gpu_is_number(words[at], &id) || words[at + 1].n > 3)
        return false;
    if (!ech_gpu_is_size(words[n - 1], &size) && !ech_words_start(words[n - 1], "N/A"))
        return false;
    EchWords name =
        n - 1 > at + 2 ? (EchWords){words[at + 2].text, (size_t)(words[n - 2].text + words[n - 2].n - words[at + 2].text)} : (EchWords){words[at].text, 0};
    ech_gpu_process_add(&t->all, index, slice, id, name, size);
    return true;
}

/* "1    3   0   0  |  14366MiB / 19968MiB | 28      0 |  2   0    1    0    0 |": the GPU, its instance, a computing one in that, the device */
static bool read_slice(EchGpuTools *t, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS], words[ECH_GPU_MAX_WORDS];
    uint64_t index, slice;
    if (ech_gpu_split(line, '|', cells) < 3 || ech_gpu_split(cells[0], ' ', words) != 4 || !ech_gpu_is_number(words[0], &index) ||
        !ech_gpu_is_number(words[1], &slice))
        return false;
    t->row = ech_gpu_row_slice(&t->all, index, slice);
    return t->row && read_usage(t, line);
}

/* nvitop's compact rows have the number and the memory on one line: "0 30%  35C  P8   14W / 300W |  22.69MiB / 47.99GiB |" */
static bool read_compact(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    uint64_t index;
    if (ech_gpu_split(line, ' ', words) < 4 || !ech_gpu_is_number(words[0], &index) || !ech_words_have(words[1], "%"))
        return false;
    t->row = ech_gpu_row(&t->all, index);
    return t->row && read_usage(t, line);
}

/* nvitop: "0   12345 C   ann 22.90GiB  98  100.2   3.1  10:12:11  python train.py |" */
static bool read_nvitop_process(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    unsigned n = ech_gpu_split(line, ' ', words);
    uint64_t index, id;
    EchRounded size = {0};
    if (n < 6 || !ech_gpu_is_number(words[0], &index) || !ech_gpu_is_number(words[1], &id) || !ech_gpu_is_size(words[4], &size))
        return false;
    ech_gpu_process_add(&t->all, index, ECH_GPU_WHOLE, id, words[3], size);
    return true;
}

static bool read_table(EchGpuTools *t, EchWords line)
{
    bool gaudi = ech_words_start(line, "AIP ") && ech_words_have(line, "Persistence"); /* hl-smi's is drawn like nvidia-smi's */
    bool head = (ech_words_start(line, "GPU ") || gaudi) &&
                ((ech_words_have(line, " Name ") && ech_words_have(line, "Persistence")) || (ech_words_have(line, " Fan ") && ech_words_have(line, "|")));
    if (head || (ech_words_have(line, "NVIDIA-SMI ") && ech_words_have(line, "|"))) {
        if (t->section == PROCESSES || t->section == NVITOP_PROCESSES)
            ech_gpu_processes_forget(&t->all, ECH_GPU_UNTOLD); /* of the table before */
        t->section = GPUS;
        t->row = NULL;
        t->all.maker = gaudi ? ECH_GPU_GAUDI : ECH_GPU_NVIDIA;
        return true;
    }
    bool list = (ech_words_start(line, "Processes:") || ech_words_start(line, "Compute Processes:")) && ech_words_have(line, "|"),
         slices = ech_words_start(line, "MIG devices:");
    if (t->section == NOTHING && !list && !slices)
        return false;
    if (list || slices) {
        t->section = slices ? SLICES : PROCESSES;
        t->all.lists |= t->section == PROCESSES;
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
        for (unsigned i = 0; i < t->all.n_rows && t->queried; i++)
            t->all.rows[i].used = (EchRounded){0}; /* of the log before */
        if (t->queried)
            ech_gpu_processes_forget(&t->all, ECH_GPU_UNTOLD);
        t->queried = true;
        t->listed = ECH_GPU_UNTOLD;
        return true;
    }
    if (!t->queried)
        return false;
    if (ech_words_start(line, "GPU ") && ech_words_have(line, ":") && !ech_words_have(line, " :")) {
        t->listed = t->listed == ECH_GPU_UNTOLD ? 0 : t->listed + 1; /* "GPU 00000000:17:00.0" */
        return ech_gpu_row(&t->all, t->listed) != NULL;
    }
    if (!memchr(line.text, ':', line.n)) {
        t->heading = ech_words_start(line, "FB Memory Usage") ? FRAME_BUFFER : ech_words_have(line, "Memory Usage") ? OTHER_MEMORY : ELSEWHERE;
        return t->heading != ELSEWHERE;
    }
    EchGpuRow *g = t->listed == ECH_GPU_UNTOLD ? NULL : ech_gpu_row(&t->all, t->listed);
    EchWords name = value_of(line, "Product Name"), called = value_of(line, "Name");
    if (g && name.n)
        ech_gpu_copy(g->name, sizeof g->name, name);
    if (t->heading == FRAME_BUFFER && g && ech_gpu_is_size(value_of(line, "Total"), &g->total))
        return g->has_total = true;
    bool used = t->heading == FRAME_BUFFER && ech_gpu_is_size(value_of(line, "Used"), &size);
    if (g && (used || (t->heading == FRAME_BUFFER && ech_gpu_is_size(value_of(line, "Reserved"), &size)))) {
        g->used.bytes = ech_bytes_add(g->used.bytes, size.bytes);
        g->has_used |= used;
        if (!used && size.bytes)
            ech_gpu_process_add(&t->all, t->listed, ECH_GPU_WHOLE, 0, (EchWords){"the driver's own", 16}, size);
        return true;
    }
    if (ech_gpu_is_number(value_of(line, "Process ID"), &t->pid)) {
        t->called[0] = '\0';
        return t->all.lists = true;
    }
    if (t->pid && called.n)
        ech_gpu_copy(t->called, sizeof t->called, called);
    if (t->pid && ech_gpu_is_size(value_of(line, "Used GPU Memory"), &size)) {
        ech_gpu_process_add(&t->all, t->listed, ECH_GPU_WHOLE, t->pid, (EchWords){t->called, strlen(t->called)}, size);
        t->pid = 0;
        return true;
    }
    return name.n || called.n;
}

/* "index, name, memory.used [MiB], memory.total [MiB]", "pid, process_name, used_gpu_memory [MiB]"; rocm-smi's, amd-smi's and xpu-smi's have other names. */
static bool read_heading(EchGpuTools *t, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS];
    Columns c = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, false};
    if (!ech_words_have(line, ",") || (!ech_words_have(line, "memory") && !ech_words_have(line, "Memory") && !ech_words_have(line, "vram")))
        return false;
    /* Begins a cell, which says no more, or a unit or more behind it. */
    const struct {
        const char *name;
        int *column;
        bool whole;
    } known[] = {{"memory.used", &c.used, false},
                 {"memory.total", &c.total, false},
                 {"index", &c.index, false},
                 {"name", &c.name, false},
                 {"pid", &c.pid, false},
                 {"process", &c.process, false},
                 {"used_gpu_memory", &c.by_process, false},
                 {"used_memory", &c.by_process, false},
                 {"timestamp", &c.time, false},
                 {"pci.bus_id", &c.bus, false},
                 {"uuid", &c.uuid, false},
                 {"gpu_uuid", &c.uuid, false},
                 {"device", &c.index, true},
                 {"VRAM Total Used Memory (B)", &c.used, true},
                 {"VRAM Total Memory (B)", &c.total, true},
                 {"Card Series", &c.name, false},
                 {"gpu", &c.index, true},
                 {"used_vram", &c.used, true},
                 {"total_vram", &c.total, true},
                 {"vram_used", &c.used, true},
                 {"vram_total", &c.total, true},
                 {"Timestamp", &c.time, true},
                 {"DeviceId", &c.index, true},
                 {"GPU Memory Used (MiB)", &c.used, true}};
    unsigned n = ech_gpu_split(line, ',', cells);
    for (unsigned i = 0; i < n; i++) {
        for (size_t k = 0; k < G_N_ELEMENTS(known); k++) {
            if (ech_words_start(cells[i], known[k].name) && (!known[k].whole || cells[i].n == strlen(known[k].name)))
                *known[k].column = (int)i;
        }
    }
    if ((c.used < 0 || (c.total < 0 && c.time < 0)) && (c.by_process < 0 || c.pid < 0))
        return false;
    c.in_bytes = ech_words_have(line, "VRAM Total Used Memory (B)");
    if (c.in_bytes || ech_words_have(line, "vram"))
        t->all.maker = ECH_GPU_AMD;
    else if (ech_words_have(line, "DeviceId"))
        t->all.maker = ECH_GPU_INTEL;
    t->columns = c;
    t->csv = true;
    t->rows = 0;
    return true;
}

/* Milliseconds of its day of "2026/01/02 03:04:05.678". */
static bool is_time(EchWords cell, uint64_t *ret)
{
    static const uint64_t units[] = {3600000, 60000, 1000, 1};
    EchWords words[ECH_GPU_MAX_WORDS], parts[ECH_GPU_MAX_WORDS], second[ECH_GPU_MAX_WORDS];
    uint64_t part[4] = {0};
    if (ech_gpu_split(cell, ' ', words) != 2 || ech_gpu_split(words[1], ':', parts) != 3 || ech_gpu_split(parts[2], '.', second) != 2 ||
        !ech_gpu_is_number(parts[0], &part[0]) || !ech_gpu_is_number(parts[1], &part[1]) || !ech_gpu_is_number(second[0], &part[2]) ||
        !ech_gpu_is_number(second[1], &part[3]))
        return false;
    *ret = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        *ret += MIN(part[i], (uint64_t)1000) * units[i];
    return true;
}

/* The GPU of a row. Where nothing names it, rows within 20 ms of one another are of one reading (nvidia-smi asks one GPU after the other, some 2 ms each). */
static EchGpuRow *gpu_of_row(EchGpuTools *t, const EchWords *cells, unsigned n)
{
    const Columns *c = &t->columns;
    uint64_t index, time;
    if (c->index >= 0 && (int)n > c->index) {
        EchWords cell = cells[c->index];
        if (ech_words_start(cell, "card")) /* rocm-smi's "card0" */
            cell = (EchWords){cell.text + 4, cell.n - 4};
        return ech_gpu_is_number(cell, &index) ? ech_gpu_row(&t->all, index) : NULL;
    }
    int key = c->uuid >= 0 ? c->uuid : c->bus;
    if (key >= 0 && (int)n > key)
        return ech_gpu_row_keyed(&t->all, cells[key]);
    if (c->time >= 0 && (int)n > c->time && is_time(cells[c->time], &time)) {
        if (t->rows && time - t->time >= 20)
            t->rows = 0;
        t->time = time;
    }
    return ech_gpu_row(&t->all, t->rows++);
}

/* A size of a row. */
static bool is_cell(const Columns *c, EchWords cell, EchRounded *ret)
{
    uint64_t bytes;
    if (!c->in_bytes)
        return ech_gpu_is_mib(cell, ret);
    if (!ech_gpu_is_number(cell, &bytes))
        return false;
    *ret = (EchRounded){bytes, 0};
    return true;
}

static bool read_csv(EchGpuTools *t, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS], none = {line.text, 0};
    unsigned n = ech_gpu_split(line, ',', cells);
    const Columns *c = &t->columns;
    EchRounded used, total;
    uint64_t id;
    if (c->pid >= 0 && c->by_process >= 0 && (int)n > MAX(c->pid, c->by_process)) {
        EchWords name = c->process >= 0 && (int)n > c->process ? cells[c->process] : none;
        if (!ech_gpu_is_number(cells[c->pid], &id) || !ech_gpu_is_mib(cells[c->by_process], &used))
            return t->csv = false;
        ech_gpu_process_add(&t->all, ECH_GPU_UNTOLD, ECH_GPU_WHOLE, id, name, used);
        return true;
    }
    if (c->used < 0 || (int)n <= MAX(c->used, c->total) || !is_cell(c, cells[c->used], &used) || (c->total >= 0 && !is_cell(c, cells[c->total], &total)))
        return t->csv = false;
    EchGpuRow *g = gpu_of_row(t, cells, n);
    if (!g)
        return true;
    ech_gpu_row_reading(g, used, c->time >= 0 && (int)n > c->time ? cells[c->time] : none);
    g->has_total = c->total >= 0;
    if (g->has_total)
        g->total = total;
    if (c->name >= 0 && (int)n > c->name)
        ech_gpu_copy(g->name, sizeof g->name, cells[c->name]);
    return true;
}

/* ---- others ---- */

/* "[0] NVIDIA A100 80GB PCIe | 52'C, 100 % | 70151 / 81920 MB | alice(60211M) bob:python/77(9300M)" */
static bool read_gpustat(EchGpuTools *t, EchWords before, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS], pair[ECH_GPU_MAX_WORDS], who[ECH_GPU_MAX_WORDS];
    EchRounded used, total;
    const char *bracket = before.n ? memrchr(before.text, '[', before.n) : NULL;
    size_t digits = 0;
    uint64_t index;
    while (bracket && bracket + 1 + digits < before.text + before.n && g_ascii_isdigit(bracket[1 + digits]))
        digits++;
    unsigned n_cells = ech_gpu_split(line, '|', cells);
    if (!bracket || !ech_gpu_is_number((EchWords){bracket + 1, digits}, &index) || n_cells < 3 || ech_gpu_split(cells[2], '/', pair) != 2 ||
        !ech_gpu_is_mib(pair[0], &used) || !ech_gpu_is_size(pair[1], &total) || !ech_words_have(cells[1], "C"))
        return false;
    EchGpuRow *g = ech_gpu_row(&t->all, index);
    t->all.lists = true;
    if (!g)
        return true;
    ech_gpu_copy(g->name, sizeof g->name, cells[0]);
    ech_gpu_row_set(g, used, total);
    ech_gpu_processes_forget(&t->all, index); /* the line names them all */
    unsigned n = n_cells > 3 ? ech_gpu_split(cells[3], ' ', who) : 0;
    for (unsigned i = 0; i < n; i++) {
        const char *open = memrchr(who[i].text, '(', who[i].n), *slash = memrchr(who[i].text, '/', who[i].n);
        EchRounded size;
        uint64_t id = 0;
        if (!open || who[i].text[who[i].n - 1] != ')' || !ech_gpu_is_size((EchWords){open + 1, (size_t)(who[i].text + who[i].n - open) - 2}, &size))
            continue;
        bool numbered = slash && slash < open && ech_gpu_is_number((EchWords){slash + 1, (size_t)(open - slash) - 1}, &id);
        ech_gpu_process_add(&t->all, index, ECH_GPU_WHOLE, numbered ? id : 0, (EchWords){who[i].text, (size_t)((numbered ? slash : open) - who[i].text)}, size);
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
    if (!close || !ech_gpu_is_number((EchWords){at.text, (size_t)(close - at.text)}, &index) || (!used && !ech_words_start(rest, "Memory (B)")) ||
        !ech_words_number_after(rest, "Memory (B)", &bytes))
        return false;
    EchGpuRow *g = ech_gpu_row(&t->all, index);
    t->all.maker = ECH_GPU_AMD;
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
    EchWords cells[ECH_GPU_MAX_WORDS], left[ECH_GPU_MAX_WORDS], right[ECH_GPU_MAX_WORDS];
    EchRounded used, total;
    uint64_t index;
    if (ech_gpu_split(line, '|', cells) < 2)
        return false;
    unsigned n = ech_gpu_split(cells[0], ' ', left), m = ech_gpu_split(cells[1], ' ', right);
    if (n > 1 && left[0].n > 8 && memchr(left[0].text, ':', left[0].n)) {
        ech_gpu_copy(t->called, sizeof t->called, (EchWords){left[1].text, (size_t)(left[n - 1].text + left[n - 1].n - left[1].text)});
        return true;
    }
    if (n < 2 || m < 2 || !ech_gpu_is_number(left[0], &index) ||
        !ech_gpu_is_pair((EchWords){right[m - 2].text, (size_t)(right[m - 1].text + right[m - 1].n - right[m - 2].text)}, &used, &total))
        return false;
    EchGpuRow *g = ech_gpu_row(&t->all, index);
    ech_gpu_row_set(g, used, total);
    if (g)
        g_strlcpy(g->name, t->called, sizeof g->name);
    t->called[0] = '\0';
    return true;
}

/* "0    3050055  python3.12             2.0 MB  255.0 GB   261.9 GB    0.0 % |"; the monitor has names first, and one size more: "0   N/A  2266127   0.0 B
 * 0.0 B    2.8 GB      0.0 B". */
static bool read_amd_process(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    uint64_t index, id;
    EchRounded size = {0};
    unsigned n = ech_gpu_split(line, ' ', words), sizes = 0, name = t->named_first ? 1 : 2, wanted = t->named_first ? 3 : 2;
    if (n < 7 || !ech_gpu_is_number(words[0], &index) || !ech_gpu_is_number(words[3 - name], &id))
        return false;
    for (unsigned at = 3; at + 1 < n && sizes < wanted; at++) {
        if (ech_gpu_is_size((EchWords){words[at].text, (size_t)(words[at + 1].text + words[at + 1].n - words[at].text)}, &size)) {
            sizes++;
            at++;
        }
    }
    if (sizes < wanted)
        return false;
    if (size.bytes)
        ech_gpu_process_add(&t->all, index, ECH_GPU_WHOLE, id, ech_words_start(words[name], "N/A") ? (EchWords){line.text, 0} : words[name], size);
    return true;
}

/* amd-smi monitor: "0  305 W   49 C   43 C  2106 MHz   97 %    1 %    N/A    0 %    3.0/191.7 GB" */
static bool read_amd_monitor(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    uint64_t index;
    EchRounded used, total;
    unsigned n = ech_gpu_split(line, ' ', words);
    if (n < 3 || !ech_gpu_is_number(words[0], &index) ||
        !ech_gpu_is_pair((EchWords){words[n - 2].text, (size_t)(words[n - 1].text + words[n - 1].n - words[n - 2].text)}, &used, &total))
        return false;
    ech_gpu_row_set(ech_gpu_row(&t->all, index), used, total);
    return true;
}

/* rocm-smi --showpids: "8300   python3   1   17925210112   0   0", bytes; on how many GPUs, not on which. */
static bool read_rocm_process(EchGpuTools *t, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    uint64_t id, gpus, bytes;
    if (ech_gpu_split(line, ' ', words) < 5 || !ech_gpu_is_number(words[0], &id) || !ech_gpu_is_number(words[2], &gpus) || !ech_gpu_is_number(words[3], &bytes))
        return false;
    if (bytes)
        ech_gpu_process_add(&t->all, ECH_GPU_UNTOLD, ECH_GPU_WHOLE, id, words[1], (EchRounded){bytes, 0});
    return true;
}

/* amd-smi metric, amd-smi process: a line for each figure, below "GPU: 0". */
static bool read_amd_figure(EchGpuTools *t, EchWords line)
{
    EchRounded size;
    EchWords name = value_of(line, "NAME");
    bool used = ech_gpu_is_size(value_of(line, "USED_VRAM"), &size), total = !used && ech_gpu_is_size(value_of(line, "TOTAL_VRAM"), &size);
    if (used || total) {
        EchGpuRow *g = ech_gpu_row(&t->all, t->listed);
        t->all.maker = ECH_GPU_AMD;
        if (g && used)
            g->used = size;
        else if (g)
            g->total = size;
        if (g)
            *(used ? &g->has_used : &g->has_total) = true;
        return true;
    }
    if (name.n) {
        ech_gpu_copy(t->called, sizeof t->called, name);
        return false; /* others have names, too */
    }
    if (ech_gpu_is_number(value_of(line, "PID"), &t->pid))
        return true;
    if (!t->pid || !ech_gpu_is_size(value_of(line, "VRAM_MEM"), &size))
        return false;
    t->all.maker = ECH_GPU_AMD;
    t->all.lists = true;
    if (size.bytes)
        ech_gpu_process_add(&t->all, t->listed, ECH_GPU_WHOLE, t->pid, (EchWords){t->called, strcmp(t->called, "N/A") == 0 ? 0 : strlen(t->called)}, size);
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
        if (t->amd_section == ROCM_PROCESSES) /* which do not say of which GPU they are */
            ech_gpu_processes_forget(&t->all, ECH_GPU_UNTOLD);
        t->named_first = ech_words_have(line, "CPU_MEM");
        t->all.maker = ECH_GPU_AMD;
        t->all.lists |= t->amd_section == AMD_PROCESSES || t->amd_section == ROCM_PROCESSES;
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
    EchWords words[ECH_GPU_MAX_WORDS];
    uint64_t id;
    EchRounded size;
    if (ech_words_start(line, "GPU:") && ech_gpu_is_number(ech_words_trim(line.text + 4, line.n - 4), &id)) {
        t->listed = id;
        return true;
    }
    if (!ech_words_start(line, "process ") || ech_gpu_split(line, ' ', words) < 5 || !ech_gpu_is_number(words[1], &id) ||
        !ech_words_size_after(line, " uses", &size))
        return false;
    ech_gpu_process_add(&t->all, t->listed, ECH_GPU_WHOLE, id, (EchWords){line.text, 7}, size);
    return true;
}

/* Of Windows' Task Manager, in units of 2^30 bytes: "GPU 0", "Dedicated GPU memory	15.8/16.0 GB", "Shared GPU memory	12.3/31.8 GB". */
static bool read_task_manager(EchGpuTools *t, EchWords line)
{
    bool own = ech_words_start(line, "Dedicated GPU memory");
    uint64_t index;
    if (ech_words_start(line, "GPU ") && ech_gpu_is_number(ech_words_trim(line.text + 4, line.n - 4), &index)) {
        t->listed = index;
        return false; /* others have such lines */
    }
    EchWords pair = own                                          ? ech_words_after(line, "Dedicated GPU memory")
                    : ech_words_start(line, "Shared GPU memory") ? ech_words_after(line, "Shared GPU memory")
                                                                 : line;
    const char *slash = pair.n && pair.text != line.text ? memchr(pair.text, '/', MIN(pair.n, (size_t)12)) : NULL;
    EchRounded used, total;
    if (!slash || !ech_words_size_after(pair, "/", &total))
        return false;
    const char *unit = slash + 1;
    while (unit < pair.text + pair.n && !g_ascii_isalpha(*unit))
        unit++;
    g_autofree char *text = g_strdup_printf("%.*s %.*s", (int)(slash - pair.text), pair.text, (int)(pair.text + pair.n - unit), unit);
    size_t n;
    if (!ech_rounded_parse(text, strlen(text), &used, &n) || used.bytes > total.bytes)
        return false;
    EchGpuRow *g = own ? ech_gpu_row(&t->all, t->listed) : NULL;
    if (g) {
        g->used = used;
        g->total = total;
        g->has_used = g->has_total = true;
        t->nearly_full = total.bytes > UINT64_C(1) << 30 && used.bytes > total.bytes / 4 * 3; /* not one that has none of its own */
    } else if (!own && t->nearly_full && used.bytes >= t->shared) {
        t->shared = used.bytes;
        t->shared_all = total.bytes;
    }
    return true;
}

static bool read_line(EchGpuTools *t, EchWords before, EchWords line)
{
    if (t->csv && read_csv(t, line))
        return true;
    return read_amd(t, line) || read_table(t, line) || read_query(t, line) || read_heading(t, line) || read_gpustat(t, before, line) || read_rocm(t, line) ||
           read_listed(t, line) || read_task_manager(t, line) || ech_gpu_others_line(&t->others, &t->all, before, line);
}

/* nvidia-smi -q -x says in elements what -q says in lines. */
static bool read_element(EchGpuTools *t, EchWords line)
{
    static const struct {
        const char *element, *line;
    } elements[] = {{"nvidia_smi_log>", "NVSMI LOG=="},
                    {"gpu id=", "GPU"},
                    {"product_name>", "Product Name :"},
                    {"fb_memory_usage>", "FB Memory Usage"},
                    {"bar1_memory_usage>", "Memory Usage"},
                    {"cc_protected_memory_usage>", "Memory Usage"},
                    {"total>", "Total :"},
                    {"reserved>", "Reserved :"},
                    {"used>", "Used :"},
                    {"pid>", "Process ID :"},
                    {"process_name>", "Name :"},
                    {"used_memory>", "Used GPU Memory :"}};
    for (size_t i = 0; i < G_N_ELEMENTS(elements); i++) {
        EchWords rest =
            ech_words_start((EchWords){line.text + 1, line.n - 1}, elements[i].element) ? ech_words_after(line, elements[i].element) : (EchWords){line.text, 0};
        if (rest.text == line.text)
            continue;
        const char *end = rest.n ? memchr(rest.text, '<', rest.n) : NULL;
        size_t n = end ? (size_t)(end - rest.text) : rest.n;
        g_autofree char *text = g_strdup_printf("%s %.*s", elements[i].line, (int)MIN(n, (size_t)200), rest.text);
        g_strchomp(text);
        return read_query(t, (EchWords){text, strlen(text)});
    }
    return false;
}

bool ech_gpu_tools_line(EchGpuTools *t, EchWords before, EchWords line)
{
    static const char bars[][4] = {"\xe2\x94\x82", "\xe2\x94\x83"}; /* which nvitop and tpu-info draw their tables with */
    if (line.n == 0)
        return false;
    if (*line.text == '<')
        return read_element(t, line);
    if (!ech_words_have(line, bars[0]) && !ech_words_have(line, bars[1]) && !memchr(line.text, '\t', line.n))
        return read_line(t, before, line);
    g_autofree char *text = g_strdelimit(g_strndup(line.text, line.n), "\t", ' ');
    for (size_t i = 0; i < G_N_ELEMENTS(bars); i++) {
        for (char *at = strstr(text, bars[i]); at; at = strstr(at, bars[i]))
            memcpy(at, " | ", 3);
    }
    return read_line(t, before, ech_words_trim(text, strlen(text)));
}

bool ech_gpu_tools_json(EchGpuTools *t, const char *text, size_t n)
{
    return ech_gpu_json_read(&t->all, text, n);
}
