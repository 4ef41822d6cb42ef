#include "sim/import/gpu_others.h"

#include "sim/import/json_stream.h"

#include <string.h>

/* What the document said so far of the device and the process that it is at. */
typedef struct {
    EchGpuRows *all;
    EchGpuRow *row; /* or NULL */
    uint64_t index;
    char of[48];    /* the key of the object that this is in, or what it says it measures */
    char value[32]; /* a number that stands apart from its unit; "": none */
    char unit[16];
    uint64_t pid; /* 0: none */
    char name[48];
    bool has_held;
    EchRounded held;
} Json;

static bool is(const char *key, const char *const *names)
{
    for (; *names; names++) {
        if (strcmp(key, *names) == 0)
            return true;
    }
    return false;
}

static void begin_device(Json *j, uint64_t index, EchGpuMaker maker)
{
    j->index = index;
    j->row = ech_gpu_row(j->all, index);
    j->all->maker = maker;
}

static void set(Json *j, bool used, EchRounded size)
{
    if (!j->row)
        return;
    *(used ? &j->row->used : &j->row->total) = size;
    *(used ? &j->row->has_used : &j->row->has_total) = true;
}

/* A size that is called @key. */
static void take_size(Json *j, const char *key, EchRounded size)
{
    static const char *const used[] = {"used_vram", "vram_used", "memory.used", "XPUM_STATS_MEMORY_USED", NULL},
                             *const total[] = {"total_vram", "vram_total", "memory.total", NULL}, *const held[] = {"vram_mem", "gpu_memory_usage", NULL};
    if (is(key, used) || is(key, total)) {
        set(j, is(key, used), size);
    } else if (is(key, held)) {
        j->held = size;
        j->has_held = true;
    }
}

/* rocm-smi's card0 and what it says of it: {"card0": {"VRAM Total Memory (B)": "21458059264", "Card Series": "..."}}. */
static void take_card(Json *j, const char *key, EchWords text)
{
    static const char *const series[] = {"Card Series", "Card series", NULL};
    uint64_t bytes;
    bool used = strcmp(key, "VRAM Total Used Memory (B)") == 0;
    if ((used || strcmp(key, "VRAM Total Memory (B)") == 0) && ech_gpu_is_number(text, &bytes))
        set(j, used, (EchRounded){bytes, 0});
    if (j->row && is(key, series))
        ech_gpu_copy(j->row->name, sizeof j->row->name, text);
}

static void take(Json *j, const char *key, EchWords text)
{
    static const struct {
        const char *key;
        EchGpuMaker maker;
    } numbers[] = {{"gpu", ECH_GPU_AMD}, {"index", ECH_GPU_NVIDIA}, {"device_id", ECH_GPU_INTEL}};
    uint64_t number;
    EchRounded size;
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        if (strcmp(key, numbers[i].key) == 0 && ech_gpu_is_number(text, &number))
            begin_device(j, number, numbers[i].maker);
    }
    if (strcmp(key, "value") == 0)
        ech_gpu_copy(j->value, sizeof j->value, text);
    else if (strcmp(key, "unit") == 0)
        ech_gpu_copy(j->unit, sizeof j->unit, text);
    else if (strcmp(key, "metrics_type") == 0)
        ech_gpu_copy(j->of, sizeof j->of, text);
    else if (strcmp(key, "pid") == 0 && ech_gpu_is_number(text, &number))
        j->pid = number;
    else if (strcmp(key, "name") == 0 && j->row && j->all->maker == ECH_GPU_NVIDIA)
        ech_gpu_copy(j->row->name, sizeof j->row->name, text);
    else if (strcmp(key, "name") == 0 || strcmp(key, "command") == 0)
        ech_gpu_copy(j->name, sizeof j->name, text);
    else if (ech_gpu_is_mib(text, &size))
        take_size(j, key, size);
    take_card(j, key, text);
}

static void begin_object(Json *j, const char *key)
{
    uint64_t index;
    j->value[0] = j->unit[0] = '\0';
    ech_gpu_copy(j->of, sizeof j->of, (EchWords){key, strlen(key)});
    if (g_str_has_prefix(key, "card") && ech_gpu_is_number((EchWords){key + 4, strlen(key + 4)}, &index))
        begin_device(j, index, ECH_GPU_AMD);
}

static void end_object(Json *j)
{
    g_autofree char *text = g_strdup_printf("%s%s%s", j->value, j->unit[0] ? " " : "", j->unit);
    EchRounded size;
    if (j->value[0] && ech_gpu_is_mib((EchWords){text, strlen(text)}, &size))
        take_size(j, j->of, size);
    j->value[0] = '\0';
    if (!j->pid || !j->has_held)
        return;
    j->all->lists = true;
    if (j->held.bytes)
        ech_gpu_process_add(j->all, j->row ? j->index : ECH_GPU_UNTOLD, ECH_GPU_WHOLE, j->pid, (EchWords){j->name, strlen(j->name)}, j->held);
    j->pid = 0;
    j->has_held = false;
    j->name[0] = '\0';
}

bool ech_gpu_json_read(EchGpuRows *all, const char *text, size_t n)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, n, NULL);
    g_autoptr(EchJson) json = ech_json_new(source);
    Json j = {.all = all};
    char key[64] = "";
    for (EchJsonToken token = ech_json_next(json); token != ECH_JSON_BAD && token != ECH_JSON_END; token = ech_json_next(json)) {
        size_t length;
        const char *word = token == ECH_JSON_KEY || token == ECH_JSON_STRING || token == ECH_JSON_NUMBER ? ech_json_text(json, &length) : NULL;
        if (token == ECH_JSON_KEY)
            ech_gpu_copy(key, sizeof key, (EchWords){word, length});
        else if (token == ECH_JSON_OBJECT)
            begin_object(&j, key);
        else if (token == ECH_JSON_OBJECT_END)
            end_object(&j);
        else if (word)
            take(&j, key, (EchWords){word, length});
    }
    return ech_gpu_rows_any(all);
}
