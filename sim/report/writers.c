#include "sim/report/writers.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/base/param.h"
#include "sim/trace/file.h"
#include "sim/trace/lifetime.h"
#include "sim/trace/select.h"

#include <string.h>

/* Most nodes of an unrolled trace: 64 bytes and more each. */
#define MAX_NODES 5000000

static GBytes *write_ech(const EchTrace *trace, const char *title, EchDiag *diag, GError **error)
{
    (void)title;
    (void)diag;
    (void)error;
    return g_string_free_to_bytes(ech_trace_file_print(trace));
}

/* A report on a run that is nothing but the recordings; @device has a name and no parts. */
static EchReport recorded_report(const EchTrace *trace, const char *title, const EchDevice *device, const EchRun *run)
{
    return (EchReport){.title = title, .trace_path = title, .format = ech_trace_format(trace), .trace = trace, .device = device, .run = run};
}

static EchDevice *no_device(void)
{
    EchDevice *device = ech_device_new();
    g_free(device->name);
    device->name = g_strdup("as recorded");
    return device;
}

static GBytes *write_timeline(const EchTrace *trace, const char *title, bool perfetto, GError **error)
{
    g_autoptr(EchRun) run = ech_recorded_run(trace);
    g_autoptr(EchDevice) device = no_device();
    if (run->n_spans == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "%s: no operation has a recorded start, so there is no timeline to write; 'echelon run -o DIR' writes the simulated one", title);
        return NULL;
    }
    EchReport report = recorded_report(trace, title, device, run);
    return perfetto ? g_byte_array_free_to_bytes(ech_report_perfetto(&report)) : g_string_free_to_bytes(ech_report_chrome(&report));
}

static GBytes *write_chrome(const EchTrace *trace, const char *title, EchDiag *diag, GError **error)
{
    (void)diag;
    return write_timeline(trace, title, false, error);
}

static GBytes *write_perfetto(const EchTrace *trace, const char *title, EchDiag *diag, GError **error)
{
    (void)diag;
    return write_timeline(trace, title, true, error);
}

static GBytes *write_pprof(const EchTrace *trace, const char *title, EchDiag *diag, GError **error)
{
    g_autoptr(EchRun) run = ech_recorded_run(trace);
    g_autoptr(EchDevice) device = no_device();
    EchBytes peak = 0;
    for (size_t i = 0; i < run->n_memories; i++)
        peak = MAX(peak, run->memories[i].peak_live);
    if (peak == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: nothing is ever allocated, so there is no memory profile to write", title);
        return NULL;
    }
    EchReport report = recorded_report(trace, title, device, run);
    ech_diag_remark(diag, "the profile holds what is live at each memory's peak, by stack where stacks were recorded");
    return g_byte_array_free_to_bytes(ech_report_pprof(&report, ECH_PPROF_MEMORY));
}

static EchBytes allocated_in(const EchTrace *trace, EchId memory)
{
    g_autoptr(EchLifetimes) lives = ech_lifetimes_new(trace, memory);
    return lives->total;
}

/* hbm, as 'echelon plan' has it; where nothing is allocated in it the memory with the most bytes, the host's last. */
static EchId main_memory(const EchTrace *trace)
{
    EchId best = ech_trace_find_memory(trace, "hbm");
    if (best != ECH_NONE && allocated_in(trace, best) > 0)
        return best;
    best = ECH_NONE;
    EchBytes most = 0;
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        EchBytes bytes = allocated_in(trace, m);
        bool host = ech_trace_is_host(trace, m);
        if (bytes > most && (!host || best == ECH_NONE)) {
            best = m;
            most = host ? 0 : bytes;
        }
    }
    return best;
}

static void append_cell(GString *out, const char *text)
{
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    if (quote)
        g_string_append_c(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            g_string_append_c(out, '"');
        g_string_append_c(out, *text == '\n' || *text == '\r' ? ' ' : *text);
    }
    if (quote)
        g_string_append_c(out, '"');
}

static GBytes *write_minimalloc(const EchTrace *trace, const char *title, EchDiag *diag, GError **error)
{
    EchId memory = main_memory(trace);
    if (memory == ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: nothing is ever allocated, so there are no lifetimes to write", title);
        return NULL;
    }
    g_autoptr(EchLifetimes) lives = ech_lifetimes_new(trace, memory);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    GString *text = g_string_new(NULL);
    bool placed = true;
    for (size_t i = 0; i < lives->n; i++)
        placed = placed && (lives->items[i].bytes == 0 || buffers[lives->items[i].buffer].direct || buffers[lives->items[i].buffer].offset != ECH_OFFSET_NONE);
    g_string_append(text, placed ? "id,lower,upper,size,offset\n" : "id,lower,upper,size\n");
    uint64_t empty = 0;
    for (size_t i = 0; i < lives->n; i++) {
        const EchLifetime *life = &lives->items[i];
        if (life->bytes == 0 || life->end <= life->begin) {
            empty++;
            continue;
        }
        const EchBuffer *buffer = &buffers[life->buffer];
        if (buffer->direct) /* nobody's to place */
            continue;
        g_autofree char *name = g_utf8_make_valid(ech_trace_string(trace, buffer->name), -1);
        while (!*name || g_hash_table_contains(seen, name)) { /* ids are unique */
            char *own = g_strdup_printf("%s#%zu", *name ? name : "b", i);
            g_free(name);
            name = own;
        }
        append_cell(text, name);
        g_hash_table_add(seen, g_strdup(name));
        g_string_append_printf(text, ",%u,%u,%" G_GUINT64_FORMAT, life->begin, life->end, life->bytes);
        if (placed)
            g_string_append_printf(text, ",%" G_GUINT64_FORMAT, buffer->offset);
        g_string_append_c(text, '\n');
    }
    ech_diag_remark(diag, "lifetimes are those of %s, half-open, in numbers of operations", ech_trace_memory(trace, memory));
    if (empty > 0)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " buffers of no bytes or no life are left out", empty);
    return g_string_free_to_bytes(text);
}

static GBytes *write_chakra(const EchTrace *trace, const char *title, EchDiag *diag, GError **error)
{
    size_t n_devices;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n_devices);
    g_autoptr(EchTrace) one = NULL;
    if (n_devices > 1) { /* a file is one rank's */
        EchSelectOptions options = {.device = devices[0]};
        one = ech_trace_select(trace, &options, NULL, error);
        if (!one)
            return NULL;
        ech_diag_remark(diag, "Chakra's files hold one rank: device %u of %zu is written (--capture-device chooses another)", devices[0], n_devices);
    }
    GByteArray *bytes = ech_report_chakra(one ? one : trace, MAX_NODES, diag, error);
    if (!bytes) {
        g_prefix_error(error, "%s: ", title);
        return NULL;
    }
    return g_byte_array_free_to_bytes(bytes);
}

static const EchTraceWriter writers[] = {
    {"ech", ".ech", "echelon's own trace: everything that is known, as text", write_ech},
    {"chrome", ".json", "Chrome's JSON timeline of what was recorded (ui.perfetto.dev, chrome://tracing)", write_chrome},
    {"perfetto", ".pftrace .perfetto-trace", "the same as Perfetto's protobuf", write_perfetto},
    {"pprof", ".pb .pprof .prof", "memory held at the peak by stack, for pprof (gzip with .gz)", write_pprof},
    {"minimalloc", ".csv", "lifetimes of the memory's buffers as MiniMalloc's CSV", write_minimalloc},
    {"chakra", ".et", "MLCommons Chakra execution trace, loops unrolled", write_chakra},
};

const EchTraceWriter *ech_trace_writers(size_t *ret_n)
{
    *ret_n = G_N_ELEMENTS(writers);
    return writers;
}

static bool has_ending(const char *path, const char *endings)
{
    g_autofree char *plain = g_str_has_suffix(path, ".gz") ? g_strndup(path, strlen(path) - 3) : g_strdup(path);
    g_auto(GStrv) each = g_strsplit(endings, " ", -1);
    for (char **ending = each; *ending; ending++)
        if (g_str_has_suffix(plain, *ending))
            return true;
    return false;
}

const EchTraceWriter *ech_trace_writer_find(const char *name, const char *path, GError **error)
{
    const char *names[G_N_ELEMENTS(writers) + 1] = {NULL};
    g_autoptr(GString) all = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(writers); i++) {
        if (name ? strcmp(name, writers[i].name) == 0 : has_ending(path, writers[i].endings))
            return &writers[i];
        names[i] = writers[i].name;
        g_string_append_printf(all, "%s%s", i ? ", " : "", name ? writers[i].name : writers[i].endings);
    }
    const char *nearest = name ? ech_nearest_name(name, names) : NULL;
    if (nearest)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--to %s: no such format to write; did you mean '%s'?", name, nearest);
    else if (name)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--to %s: no such format to write; expected one of %s", name, all->str);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: the ending does not say what to write; expected one of %s (and .gz behind it), or --to FORMAT",
                    path, all->str);
    return NULL;
}
