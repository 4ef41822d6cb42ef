#include "sim/import/gpu_others.h"

#include <string.h>

enum { NO_TABLE, TPU_CHIPS, TPU_USAGE, NPUS, NPU_PROCESSES, SCROLLING };

static const EchBytes MIB = 1 << 20;

/* The cells of "| a | b |": those between bars. */
static unsigned cells_of(EchWords line, EchWords *ret)
{
    if (line.n && *line.text == '|')
        line = ech_words_trim(line.text + 1, line.n - 1);
    return ech_gpu_split(line, '|', ret);
}

/* ---- tpu-info ---- */

/* Chips come first, "| /dev/vfio/0  | TPU v6e chip | 1       | 1052 |", then what they hold, "| 8     | 18.45 GiB / 31.25 GiB  |    100.00% |". The numbers of
 * the two tables are not of one kind. */
static bool read_tpu(EchGpuOthers *o, EchGpuRows *all, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS];
    EchRounded used, total;
    uint64_t index;
    if (!ech_words_have(line, "|"))
        return false;
    bool chips = ech_words_have(line, "Chip") && ech_words_have(line, "Type") && ech_words_have(line, "PID"),
         usage = ech_words_have(line, "Duty cycle") && (ech_words_have(line, "HBM ") || ech_words_have(line, "Memory usage"));
    if (chips || usage) {
        o->table = chips ? TPU_CHIPS : TPU_USAGE;
        if (chips)
            o->called[0] = '\0';
        return true;
    }
    unsigned n = o->table == TPU_CHIPS || o->table == TPU_USAGE ? cells_of(line, cells) : 0;
    if (o->table == TPU_CHIPS && n >= 4 && ech_words_start(cells[0], "/dev/")) {
        ech_gpu_copy(o->called, sizeof o->called, cells[1]);
        return true;
    }
    if (o->table != TPU_USAGE || n < 2 || !ech_gpu_is_number(cells[0], &index) || !ech_gpu_is_pair(cells[1], &used, &total))
        return false;
    EchGpuRow *row = ech_gpu_row(all, index);
    all->maker = ECH_GPU_TPU;
    ech_gpu_row_set(row, used, total);
    if (row)
        g_strlcpy(row->name, o->called, sizeof row->name);
    return true;
}

/* ---- JAX's memory_stats() ---- */

/* As MaxText, Tunix and their like print them of each device: "Using (GB) 7.42 / 31.25 (23.744000%) on TPU_0(process=0,(0,0,0,0))", "... on cuda:0"; a GB is
 * 2^30 bytes. */
static bool read_jax(EchGpuRows *all, EchWords line)
{
    EchWords rest = ech_words_after(line, "Using (GB) "), on = ech_words_after(line, ") on ");
    const char *share = rest.n ? memchr(rest.text, '(', rest.n) : NULL;
    if (!share || on.n == 0)
        return false;
    g_autofree char *pair = g_strdup_printf("%.*sGB", (int)MIN(share - rest.text, 40), rest.text), *device = g_strndup(on.text, MIN(on.n, (size_t)40));
    const char *number = device + strcspn(device, "0123456789");
    EchRounded used, total;
    if (!*number || !ech_gpu_is_pair((EchWords){pair, strlen(pair)}, &used, &total))
        return false;
    EchGpuRow *row = ech_gpu_row(all, g_ascii_strtoull(number, NULL, 10));
    if (g_ascii_strncasecmp(device, "tpu", 3) == 0)
        all->maker = ECH_GPU_TPU;
    all->own = true;
    if (row && (!row->has_used || row->used.bytes <= used.bytes)) /* it is printed again as the program goes on: the most */
        ech_gpu_row_set(row, used, total);
    return true;
}

/* ---- npu-smi info ---- */

/* The last "57784/ 65536" of a cell, in MiB. */
static bool last_pair(EchWords cell, EchRounded *ret_used, EchRounded *ret_total)
{
    const char *slash = cell.n ? memrchr(cell.text, '/', cell.n) : NULL;
    EchWords words[ECH_GPU_MAX_WORDS];
    unsigned n = slash ? ech_gpu_split((EchWords){cell.text, (size_t)(slash - cell.text)}, ' ', words) : 0;
    return n && ech_gpu_is_mib(words[n - 1], ret_used) && ech_gpu_is_mib(ech_words_trim(slash + 1, (size_t)(cell.text + cell.n - slash - 1)), ret_total) &&
           ret_total->bytes;
}

/* Two lines for a chip: "| 0     910B3     | OK            | 98.4        50      0    / 0      |" and "| 0    [its number]    | 0000:C1:00.0  | 0    0    / 0
 * 3369 / 65536  |", whose first number is the chip's on its card. Programs count chips: by their numbers where those are told, else a card is one. */
static bool read_npu(EchGpuOthers *o, EchGpuRows *all, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS], words[ECH_GPU_MAX_WORDS];
    EchRounded used, total;
    uint64_t chip, device;
    if (cells_of(line, cells) < 3)
        return false;
    unsigned n = ech_gpu_split(cells[0], ' ', words);
    if (n < 1 || !ech_gpu_is_number(words[0], &chip))
        return false;
    if (cells[1].n == 0 || !memchr(cells[1].text, ':', cells[1].n)) {
        o->device = chip;
        ech_gpu_copy(o->called, sizeof o->called,
                     n > 1 ? (EchWords){words[1].text, (size_t)(words[n - 1].text + words[n - 1].n - words[1].text)} : (EchWords){line.text, 0});
        return true;
    }
    if (!last_pair(cells[2], &used, &total))
        return false;
    if (n < 2 || !ech_gpu_is_number(words[1], &device))
        device = o->device;
    EchGpuRow *row = ech_gpu_row(all, device);
    all->maker = ECH_GPU_ASCEND;
    ech_gpu_row_set(row, used, total);
    if (row) {
        g_strlcpy(row->name, o->called, sizeof row->name);
        g_snprintf(row->key, sizeof row->key, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, o->device, chip);
    }
    return true;
}

/* "| 0       0                 | 692318        | python3        | 54417                   |": card and chip, MiB. */
static bool read_npu_process(EchGpuRows *all, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS], words[ECH_GPU_MAX_WORDS];
    EchRounded size;
    uint64_t card, chip, id, device = ECH_GPU_UNTOLD;
    char key[48];
    if (cells_of(line, cells) < 4 || ech_gpu_split(cells[0], ' ', words) != 2 || !ech_gpu_is_number(words[0], &card) || !ech_gpu_is_number(words[1], &chip) ||
        !ech_gpu_is_number(cells[1], &id) || !ech_gpu_is_mib(cells[3], &size))
        return false;
    g_snprintf(key, sizeof key, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, card, chip);
    for (unsigned i = 0; i < all->n_rows; i++) {
        if (strcmp(all->rows[i].key, key) == 0)
            device = all->rows[i].index;
    }
    all->maker = ECH_GPU_ASCEND;
    ech_gpu_process_add(all, device, ECH_GPU_WHOLE, id, cells[2], size);
    return true;
}

static bool read_npu_table(EchGpuOthers *o, EchGpuRows *all, EchWords line)
{
    EchWords head = line.n && *line.text == '|' ? ech_words_trim(line.text + 1, line.n - 1) : line;
    if (ech_words_start(head, "NPU ") && (ech_words_have(head, "Health") || ech_words_have(head, "Process id"))) {
        o->table = ech_words_have(head, "Health") ? NPUS : NPU_PROCESSES;
        all->lists |= o->table == NPU_PROCESSES;
        return true;
    }
    return (o->table == NPUS && read_npu(o, all, line)) || (o->table == NPU_PROCESSES && read_npu_process(all, line));
}

/* ---- xpu-smi ---- */

/* xpu-smi stats and discovery, a line for each figure: "| Device ID                   | 0   |", "| GPU Memory Used (MiB)       | 31056   |", with two tiles
 * "Tile 0: 193, Tile 1: 33". */
static bool read_xpu(EchGpuOthers *o, EchGpuRows *all, EchWords line)
{
    EchWords cells[ECH_GPU_MAX_WORDS];
    EchRounded size;
    bool total = o->is_xpu && ech_words_size_after(line, "Memory Physical Size", &size), heading = false, used = false;
    if (!total && (!ech_words_have(line, "|") || cells_of(line, cells) < 2))
        return false;
    if (!total) {
        heading = ech_words_start(cells[0], "Device ID");
        o->is_xpu |= heading;
        used = o->is_xpu && ech_words_start(cells[0], "GPU Memory Used (MiB)");
        if (o->is_xpu)
            (void)ech_gpu_is_number(heading ? cells[1] : cells[0], &o->device);
    }
    EchGpuRow *row = used || total ? ech_gpu_row(all, o->device) : NULL;
    if (!row)
        return heading;
    all->maker = ECH_GPU_INTEL;
    if (total) {
        row->total = size;
        return row->has_total = true;
    }
    EchWords tiles[ECH_GPU_MAX_WORDS];
    unsigned n_tiles = ech_gpu_split(cells[1], ',', tiles);
    row->used = (EchRounded){0};
    for (unsigned i = 0; i < n_tiles; i++) {
        const char *colon = tiles[i].n ? memchr(tiles[i].text, ':', tiles[i].n) : NULL;
        EchWords number = colon ? ech_words_trim(colon + 1, (size_t)(tiles[i].text + tiles[i].n - colon - 1)) : tiles[i];
        if (ech_gpu_is_mib(number, &size)) {
            row->used.bytes = ech_bytes_add(row->used.bytes, size.bytes);
            row->used.slack = (double)MIB / 2;
            row->has_used = true;
        }
    }
    return true;
}

/* ---- nvidia-smi pmon, dmon ---- */

/* "# gpu         pid   type     fb   ccpm    command", "# gpu     fb   bar1   ccpm": MiB. */
static bool read_scrolling(EchGpuOthers *o, EchGpuRows *all, EchWords line)
{
    EchWords words[ECH_GPU_MAX_WORDS];
    uint64_t index, id;
    EchRounded size;
    if (line.n && *line.text == '#') {
        int at[4] = {-1, -1, -1, -1};
        static const char *const names[] = {"gpu", "pid", "fb", "command"};
        unsigned n = ech_gpu_split(ech_words_trim(line.text + 1, line.n - 1), ' ', words);
        for (unsigned i = 0; i < n; i++) {
            for (size_t k = 0; k < G_N_ELEMENTS(names); k++)
                at[k] = words[i].n == strlen(names[k]) && ech_words_start(words[i], names[k]) ? (int)i : at[k];
        }
        if (at[0] < 0 || at[2] < 0)
            return o->table == SCROLLING; /* its second line, of units */
        o->table = SCROLLING;
        o->gpu = at[0];
        o->pid = at[1];
        o->fb = at[2];
        o->named = at[3];
        return true;
    }
    int n = o->table == SCROLLING ? (int)ech_gpu_split(line, ' ', words) : 0;
    if (o->table == SCROLLING && (n == 0 || !ech_gpu_is_number(words[0], &index)))
        o->table = NO_TABLE; /* another text */
    if (o->table != SCROLLING || n <= MAX(o->fb, o->gpu) || !ech_gpu_is_number(words[o->gpu], &index) || !ech_gpu_is_mib(words[o->fb], &size))
        return false;
    if (o->pid < 0) {
        EchGpuRow *row = ech_gpu_row(all, index);
        if (row)
            ech_gpu_row_reading(row, size, (EchWords){line.text, 0});
        return true;
    }
    if (n <= o->pid || !ech_gpu_is_number(words[o->pid], &id))
        return false;
    all->lists = true;
    ech_gpu_process_add(all, index, ECH_GPU_WHOLE, id, o->named >= 0 && n > o->named ? words[o->named] : (EchWords){line.text, 0}, size);
    return true;
}

/* ---- ollama, llama.cpp ---- */

/* The row of a device that is called @key, of which @name tells who made it. */
static EchGpuRow *row_of(EchGpuRows *all, EchWords key, EchWords name)
{
    EchGpuRow *row = ech_gpu_row_keyed(all, key);
    if (row && name.n)
        ech_gpu_copy(row->name, sizeof row->name, name);
    if (ech_words_have(name, "AMD") || ech_words_have(name, "Radeon"))
        all->maker = ECH_GPU_AMD;
    else if (ech_words_have(name, "Intel"))
        all->maker = ECH_GPU_INTEL;
    return row;
}

static void set_free(EchGpuRow *row, EchRounded total, EchRounded free)
{
    ech_gpu_row_set(row, (EchRounded){total.bytes - MIN(total.bytes, free.bytes), total.slack + free.slack}, total);
}

/* What stands behind @key in quotes, or up to a blank. */
static EchWords value_of(EchWords line, const char *key)
{
    EchWords value = ech_words_after(line, key);
    bool quoted = value.n && *value.text == '"';
    if (quoted)
        value.text++, value.n--;
    const char *end = value.n ? memchr(value.text, quoted ? '"' : ' ', value.n) : NULL;
    return end ? (EchWords){value.text, (size_t)(end - value.text)} : value;
}

/* "GPU-1a2b3c4d-...", of which some lines have the beginning alone. */
static EchWords short_id(EchWords id)
{
    return (EchWords){id.text, MIN(id.n, strlen("GPU-1a2b3c4d"))};
}

/* ollama's msg="inference compute" id=GPU-1a2b3c4d library=cuda name="NVIDIA L4" total="22.0 GiB" available="21.6 GiB" (of late name=CUDA0 description="NVIDIA
 * L4"), msg="updating cuda memory data" gpu=GPU-1a2b3c4d-... name="NVIDIA L4" now.total="22.0 GiB" now.free="21.6 GiB"; of 2024 "[GPU-1a2b3c4d-...] CUDA
 * totalMem 22478 mb" and "... CUDA freeMem 22034 mb". */
static bool read_ollama(EchGpuRows *all, EchWords before, EchWords line)
{
    EchWords message = ech_words_after(line, "msg=\""), name = value_of(message, " description="), id = ech_words_after(before, "[GPU-");
    EchRounded total, free;
    uint64_t mib;
    name = name.n ? name : value_of(message, " name=");
    if (ech_words_start(message, "inference compute\"") && ech_words_size_after(message, " total=\"", &total) &&
        ech_words_size_after(message, " available=\"", &free)) {
        set_free(row_of(all, short_id(value_of(message, " id=")), name), total, free);
        return true;
    }
    if (ech_words_start(message, "updating ") && ech_words_size_after(message, " now.total=\"", &total) &&
        ech_words_size_after(message, " now.free=\"", &free)) {
        set_free(row_of(all, short_id(value_of(message, " gpu=")), name), total, free);
        return true;
    }
    bool all_of_it = ech_words_number_after(line, "CUDA totalMem ", &mib);
    if (id.n == 0 || (!all_of_it && !ech_words_number_after(line, "CUDA freeMem ", &mib)) || mib >= UINT64_C(1) << 32)
        return false;
    EchGpuRow *row = row_of(all, short_id((EchWords){id.text - strlen("GPU-"), id.n + strlen("GPU-")}), (EchWords){line.text, 0});
    if (row && all_of_it)
        row->total = (EchRounded){mib * MIB, MIB};
    else if (row && row->total.bytes)
        set_free(row, row->total, (EchRounded){mib * MIB, MIB});
    return true;
}

/* llama.cpp: "- Vulkan0 : AMD Radeon RX 6800 XT (RADV NAVI21) (16368 MiB, 15816 MiB free)"; the host, which is listed, too, is none. */
static bool read_llama(EchGpuRows *all, EchWords line)
{
    const char *end = ech_words_find(line, " MiB free)"), *open = end ? memrchr(line.text, '(', (size_t)(end - line.text)) : NULL;
    EchWords device = ech_words_after(line, "- ");
    const char *colon = open && device.n && device.text < open ? memchr(device.text, ':', (size_t)(open - device.text)) : NULL;
    EchRounded total, free;
    if (!colon || !ech_words_size_after((EchWords){open, (size_t)(end - open) + 4}, "(", &total) ||
        !ech_words_size_before((EchWords){open, (size_t)(end - open) + strlen(" MiB free")}, " free", &free))
        return false;
    EchWords key = ech_words_trim(device.text, (size_t)(colon - device.text));
    all->llama = true;
    if (!ech_words_start(key, "CPU"))
        set_free(row_of(all, key, ech_words_trim(colon + 1, (size_t)(open - colon) - 1)), total, free);
    return true;
}

bool ech_gpu_others_line(EchGpuOthers *o, EchGpuRows *all, EchWords before, EchWords line)
{
    return read_tpu(o, all, line) || read_jax(all, line) || read_npu_table(o, all, line) || read_xpu(o, all, line) || read_scrolling(o, all, line) ||
           read_ollama(all, before, line) || read_llama(all, line);
}
