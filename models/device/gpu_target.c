#include "models/device/gpu_target.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 16, MAX_FIELDS = 20000 };

/* One field of the flattened message: "gpu_device_info.core_count" -> "132". Entries of a map or list get a number: "rate_infos#2.key". */
typedef struct {
    char *path;
    char *value;
} Field;

typedef struct {
    const char *at, *end;
    const char *where;
    unsigned line;
    GPtrArray *fields;
} Parser;

static void field_free(gpointer data)
{
    Field *field = data;
    g_free(field->path);
    g_free(field->value);
    g_free(field);
}

static bool bad(const Parser *p, GError **error, const char *expected)
{
    char found[24] = "the end";
    if (p->at < p->end)
        g_snprintf(found, sizeof found, g_ascii_isprint(*p->at) ? "'%c'" : "byte 0x%02x", (unsigned char)*p->at);
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%u: found %s; expected %s", p->where, p->line, found, expected);
    return false;
}

static void skip_blank(Parser *p)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            p->line++;
        } else if (*p->at == '#') {
            while (p->at + 1 < p->end && p->at[1] != '\n')
                p->at++;
        } else if (!g_ascii_isspace(*p->at) && *p->at != ',' && *p->at != ';') {
            return;
        }
    }
}

static bool is_name(char c)
{
    return g_ascii_isalnum(c) || c == '_' || c == '.' || c == '-' || c == '+';
}

/* A number, a word or quoted texts, as text. NULL and an error. */
static char *scalar(Parser *p, GError **error)
{
    if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
        g_autoptr(GString) text = g_string_new(NULL);
        while (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
            char quote = *p->at++;
            for (; p->at < p->end && *p->at != quote && *p->at != '\n'; p->at++) {
                if (*p->at == '\\' && p->at + 1 < p->end && p->at[1] != '\n')
                    p->at++;
                g_string_append_c(text, *p->at);
            }
            if (p->at == p->end || *p->at != quote) {
                bad(p, error, "the end of a quoted text");
                return NULL;
            }
            p->at++;
            skip_blank(p);
        }
        return g_utf8_make_valid(text->str, (gssize)text->len);
    }
    const char *begin = p->at;
    while (p->at < p->end && is_name(*p->at))
        p->at++;
    if (p->at == begin) {
        bad(p, error, "a value");
        return NULL;
    }
    return g_strndup(begin, (gsize)(p->at - begin));
}

static bool message(Parser *p, const char *prefix, unsigned depth, GError **error)
{
    if (depth > MAX_DEPTH)
        return bad(p, error, "fewer levels of braces");
    unsigned n = 0;
    for (skip_blank(p); p->at < p->end && *p->at != '}'; skip_blank(p)) {
        const char *begin = p->at;
        while (p->at < p->end && is_name(*p->at))
            p->at++;
        if (p->at == begin)
            return bad(p, error, "a field's name");
        if (p->fields->len >= MAX_FIELDS)
            return bad(p, error, "fewer fields");
        g_autofree char *name = g_strndup(begin, (gsize)MIN(p->at - begin, 64)), *path = NULL;
        skip_blank(p);
        bool colon = p->at < p->end && *p->at == ':';
        if (colon) {
            p->at++;
            skip_blank(p);
        }
        if (p->at < p->end && *p->at == '{') {
            p->at++;
            path = strcmp(name, "rate_infos") == 0 ? g_strdup_printf("%s%s#%u.", prefix, name, n++) : g_strdup_printf("%s%s.", prefix, name);
            if (!message(p, path, depth + 1, error))
                return false;
            if (p->at == p->end)
                return bad(p, error, "'}'");
            p->at++;
            continue;
        }
        if (!colon)
            return bad(p, error, "':' or '{'");
        char *value = scalar(p, error);
        if (!value)
            return false;
        Field *field = g_new(Field, 1);
        field->path = g_strconcat(prefix, name, NULL);
        field->value = value;
        g_ptr_array_add(p->fields, field);
    }
    return true;
}

static const char *get(const GPtrArray *fields, const char *path)
{
    for (guint i = 0; i < fields->len; i++) {
        const Field *field = fields->pdata[i];
        if (strcmp(field->path, path) == 0)
            return field->value;
    }
    return NULL;
}

/* A number of gpu_device_info; 0 where it is not there. */
static double number(const GPtrArray *fields, const char *name)
{
    g_autofree char *path = g_strconcat("gpu_device_info.", name, NULL);
    const char *text = get(fields, path);
    double value = text ? g_ascii_strtod(text, NULL) : 0;
    return isfinite(value) && value > 0 && value < 1e18 ? value : 0;
}

/* ---- what the file does not say ---- */

/* Multiply-adds per clock and multiprocessor of the tensor cores in 16-bit floats, and what else a generation settles. */
typedef struct {
    int major, minor; /* minor -1: any */
    const char *compiler;
    double fma16, s8, f8; /* the last two over the first; 0: tensor cores take none */
    double pcie, nvlink;  /* GB/s, one way (of one link) */
    unsigned f32;         /* the 16-bit rate over that of f32 products (NVIDIA: as TF32); 0: tensor cores take none */
    const char *source;
} Generation;

static const Generation generations[] = {
    {7, 0, "", 512, 0, 0, 15.75, 25, 0, "data sheet: V100"},
    {7, 5, "", 512, 2, 0, 15.75, 25, 0, "data sheet: T4"},
    {8, 0, "a100", 1024, 2, 0, 31.5, 25, 2, "data sheet: A100"},
    {8, 9, "", 512, 2, 2, 31.5, 14, 2, "data sheet: L4"},
    {8, -1, "", 512, 2, 0, 31.5, 14, 2, "data sheet: A10"},
    {9, -1, "h100", 2048, 2, 2, 63, 25, 2, "data sheet: H100"},
    {10, 3, "b300", 4096, 1.0 / 12, 2, 63, 50, 2, "data sheet: B300"},
    {10, -1, "b200", 4096, 2, 2, 63, 50, 2, "data sheet: B200"},
    {12, -1, "", 512, 2, 2, 63, 50, 2, "data sheet: RTX PRO 6000"},
};

static const Generation amd_generations[] = {
    {90, -1, "gfx90a", 512, 1, 0, 31.5, 50, 4, "data sheet: MI250X, one die"},
    {94, -1, "gfx942", 1024, 2, 2, 63, 64, 8, "data sheet: MI300X"},
    {95, -1, "gfx950", 2048, 2, 2, 63, 64, 16, "data sheet: MI355X"},
};

static const Generation *generation_of(const GPtrArray *fields)
{
    const char *gcn = get(fields, "gpu_device_info.rocm_compute_capability.gcn_arch_name");
    if (gcn && g_str_has_prefix(gcn, "gfx9")) {
        int major = gcn[4] >= '0' && gcn[4] <= '9' ? 90 + gcn[4] - '0' : 0;
        if (strncmp(gcn, "gfx90a", 6) != 0 && major == 90)
            return NULL;
        for (size_t i = 0; i < G_N_ELEMENTS(amd_generations); i++) {
            if (amd_generations[i].major == major)
                return &amd_generations[i];
        }
        return NULL;
    }
    int major = (int)MIN(number(fields, "cuda_compute_capability.major"), 1000.0), minor = (int)MIN(number(fields, "cuda_compute_capability.minor"), 1000.0);
    for (size_t i = 0; i < G_N_ELEMENTS(generations); i++) {
        if (generations[i].major == major && (generations[i].minor < 0 || generations[i].minor == minor))
            return &generations[i];
    }
    return NULL;
}

/* XLA's primitive types by number. */
static const char *dtype_name(const char *key)
{
    static const struct {
        const char *key, *name;
    } names[] = {{"2", "s8"},    {"4", "s32"},     {"10", "f16"},      {"11", "f32"},     {"12", "f64"},
                 {"16", "bf16"}, {"19", "f8e5m2"}, {"20", "f8e4m3fn"}, {"32", "f4e2m1fn"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(names[i].key, key) == 0)
            return names[i].name;
    }
    return NULL;
}

/* Peaks of a unit from its rate_infos; the number of lines written. A multiply-add counts as two, as XLA counts it. */
static unsigned rates(GString *out, const GPtrArray *fields, const char *unit, double cores, double *ret_units, double *ret_clock)
{
    unsigned n = 0;
    for (unsigned i = 0; i < 64; i++) {
        g_autofree char *base = g_strdup_printf("gpu_device_info.%s.rate_infos#%u.", unit, i);
        g_autofree char *key_path = g_strconcat(base, "key", NULL);
        const char *key = get(fields, key_path), *dtype = key ? dtype_name(key) : NULL;
        if (!key)
            break;
        g_autofree char *clock_path = g_strconcat(base + strlen("gpu_device_info."), "value.clock_rate_ghz", NULL),
                        *units_path = g_strconcat(base + strlen("gpu_device_info."), "value.units_per_core", NULL),
                        *ops_path = g_strconcat(base + strlen("gpu_device_info."), "value.ops_per_clock", NULL);
        double clock = number(fields, clock_path), units = number(fields, units_path), ops = number(fields, ops_path),
               peak = clock * 1e9 * units * ops * 2 * cores;
        if (!dtype || !(peak >= 1) || peak > 1e18)
            continue;
        g_string_append_printf(out, "      %s: {value: %.0f, source: \"compiler: gpu_target_config\"}\n", dtype, peak);
        *ret_units = units;
        *ret_clock = clock;
        n++;
    }
    return n;
}

static void peak(GString *out, const char *dtype, double value, const char *source)
{
    if (value >= 1 && value < 1e18)
        g_string_append_printf(out, "      %s: {value: %.0f, source: \"%s\"}\n", dtype, value, source);
}

static void matrix_unit(GString *out, const GPtrArray *fields, const Generation *g, double cores, double clock)
{
    double units = 4, own_clock = clock;
    g_autoptr(GString) peaks = g_string_new(NULL);
    if (!rates(peaks, fields, "matrix_unit_description", cores, &units, &own_clock) && g) {
        double fma = g->fma16 * clock * 1e9 * 2 * cores;
        g_autofree char *source = g_strdup_printf("%s, %.0f multiply-adds a clock and multiprocessor, at the file's clock", g->source, g->fma16);
        peak(peaks, "s8", fma * g->s8, source);
        if (g->major >= 8)
            peak(peaks, "bf16", fma, source);
        peak(peaks, "f16", fma, source);
        if (g->f32)
            peak(peaks, "f32", fma / g->f32, g->f32 == 2 ? "compiler: TF32 at default precision, half of the 16-bit rate" : source);
        peak(peaks, "f8e4m3fn", fma * g->f8, source);
    }
    if (!peaks->len)
        return;
    g_string_append_printf(out,
                           "  matrix:\n    count: {value: %.0f, source: \"compiler: gpu_target_config\"}\n    clock: {value: %.0f, source: \"compiler: "
                           "gpu_target_config\"}\n    peaks:\n%s",
                           MAX(cores * units, 1), MAX(own_clock * 1e9, 1), peaks->str);
}

static void units(GString *out, const GPtrArray *fields, const Generation *g, double cores, double fpus, double clock)
{
    double columns = fpus, own_clock = clock;
    g_autoptr(GString) peaks = g_string_new(NULL);
    if (!rates(peaks, fields, "scalar_unit_description", cores, &columns, &own_clock))
        peak(peaks, "f32", cores * fpus * clock * 1e9 * 2, "compiler: gpu_target_config, fpus_per_core, two operations a clock");
    g_string_append(out, "units:\n");
    matrix_unit(out, fields, g, cores, clock);
    if (peaks->len)
        g_string_append_printf(out,
                               "  vector:\n    count: {value: %.0f, source: \"compiler: gpu_target_config\"}\n    columns: {value: %.0f, source: \"compiler: "
                               "gpu_target_config\"}\n"
                               "    clock: {value: %.0f, source: \"compiler: gpu_target_config\"}\n    peaks:\n%s",
                               cores, MAX(fpus, 1), MAX(clock * 1e9, 1), peaks->str);
    g_string_append_printf(out,
                           "  transcendental:\n    count: {value: %.0f, source: \"compiler: gpu_target_config\"}\n    columns: {value: 16, source: \"data "
                           "sheet: CUDA programming guide\"}\n"
                           "    clock: {value: %.0f, source: \"compiler: gpu_target_config\"}\n    peaks:\n",
                           cores, MAX(clock * 1e9, 1));
    peak(out, "f32", cores * 16 * clock * 1e9, "data sheet: special functions, 16 a clock and multiprocessor");
}

static void append_quoted(GString *out, const char *text)
{
    g_string_append_c(out, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            g_string_append_c(out, '\\');
        g_string_append_c(out, g_ascii_iscntrl(*c) ? ' ' : *c);
    }
    g_string_append_c(out, '"');
}

static void memories(GString *out, const GPtrArray *fields, double size, double bandwidth)
{
    g_string_append_printf(
        out,
        "memories:\n  hbm:\n    kind: hbm\n    space: 0\n    capacity: {value: %.0f, source: \"compiler: gpu_target_config, what the driver reports\"}\n"
        "    nominal: {value: %.0fB/s, source: \"compiler: gpu_target_config\"}\n"
        "    read: {value: %.0fB/s, source: \"assumed: 93 %% of nominal, as A100 and H100 reach\"}\n    write: {value: %.0fB/s, source: \"assumed: as read\"}\n"
        "    both: {value: %.0fB/s, source: \"assumed: 90 %% of nominal; 88 %% on A100, 94 %% on H100\"}\n    granule: {value: 64, source: \"compiler: XLA's "
        "DRAM transaction\"}\n"
        "    latency: {value: 400ns, source: assumed}\n    assignable: {value: true, source: compiler}\n",
        size, bandwidth, bandwidth * 0.93, bandwidth * 0.93, bandwidth * 0.9);
    double l2 = number(fields, "l2_cache_size");
    if (l2 >= 1)
        g_string_append_printf(
            out,
            "  l2:\n    kind: cache\n    capacity: {value: %.0fB, source: \"compiler: gpu_target_config\"}\n    granule: {value: 32, source: "
            "\"data sheet: sectors of 128-byte lines\"}\n"
            "    assignable: {value: false, source: compiler}\n",
            l2);
    g_string_append(out, "  host:\n    kind: host-pinned\n    space: 5\n    capacity: {value: 1TiB, source: assumed}\n    read: {value: 300GB/s, source: "
                         "assumed}\n    write: {value: 300GB/s, source: assumed}\n"
                         "    assignable: {value: true, source: compiler}\n");
}

static void links(GString *out, const GPtrArray *fields, const Generation *g)
{
    double pcie = number(fields, "pcie_bandwidth"), nominal = pcie >= 1e6 ? pcie : (g ? g->pcie : 31.5) * 1e9,
           ports = number(fields, "device_interconnect_info.active_links");
    g_string_append_printf(
        out,
        "links:\n  host:\n    from: host\n    to: hbm\n    nominal: {value: %.0fB/s, source: \"%s\"}\n    to_device: {value: %.0fB/s, source: \"assumed: 84 %% "
        "of nominal, as A100 and H100 reach\"}\n"
        "    from_device: {value: %.0fB/s, source: \"assumed: as to_device\"}\n    both_ways: {value: %.0fB/s, source: \"assumed: 1.3 times nominal, as H100 "
        "reaches\"}\n"
        "    setup: {value: 6us, source: \"measured: cudaMemcpyAsync takes 5 to 7 us (arXiv 2602.21548)\"}\n    latency: {value: 1us, source: assumed}\n"
        "    engines_to: {value: 1, source: assumed}\n    engines_from: {value: 1, source: assumed}\n",
        nominal, pcie >= 1e6 ? "compiler: gpu_target_config, of the host it was taken on" : "assumed: PCIe x16 of the generation", nominal * 0.84,
        nominal * 0.84, nominal * 1.3);
    if (ports >= 1 && ports <= 64 && g)
        g_string_append_printf(out,
                               "  nvlink:\n    from: hbm\n    to: hbm\n    nominal: {value: %.0fB/s, source: \"%s, one way and link\"}\n    to_device: {value: "
                               "%.0fB/s, source: \"assumed: 92 %% of nominal, as A100 reaches\"}\n"
                               "    from_device: {value: %.0fB/s, source: \"assumed: as to_device\"}\n    latency: {value: 1us, source: assumed}\n    ports: "
                               "{value: %.0f, source: \"compiler: gpu_target_config, active links\"}\n",
                               g->nvlink * 1e9, g->source, g->nvlink * 0.92e9, g->nvlink * 0.92e9, ports);
}

static GString *write_yaml(const GPtrArray *fields, const char *where, GError **error)
{
    double cores = number(fields, "core_count"), clock = number(fields, "clock_rate_ghz"), size = number(fields, "device_memory_size"),
           bandwidth = number(fields, "memory_bandwidth"), fpus = number(fields, "fpus_per_core");
    const struct {
        const char *name;
        double value, low, high;
    } needed[] = {{"core_count", cores, 1, 1e5},
                  {"clock_rate_ghz", clock, 1e-3, 100},
                  {"device_memory_size", size, 1 << 20, 1e15},
                  {"memory_bandwidth", bandwidth, 1e6, 1e15}};
    for (size_t i = 0; i < G_N_ELEMENTS(needed); i++) {
        if (needed[i].value < needed[i].low || needed[i].value > needed[i].high) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: gpu_device_info.%s is missing or out of range; expected a number from %g to %g", where,
                        needed[i].name, needed[i].low, needed[i].high);
            return NULL;
        }
    }
    const char *title = get(fields, "device_description_str");
    title = title ? title : get(fields, "gpu_device_info.name");
    title = title && *title ? title : "GPU";
    g_autofree char *slug = g_ascii_strdown(title, (gssize)MIN(strlen(title), 60));
    g_strcanon(slug, "abcdefghijklmnopqrstuvwxyz0123456789-", '-');
    const Generation *g = generation_of(fields);
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "# Made from XLA's gpu_target_config; what it does not say is marked assumed.\nname: \"%s\"\nsummary: ", slug);
    append_quoted(out, title);
    g_string_append_printf(out, "\nfamily: gpu\n%s%s%scores: {value: 1, source: \"one program has the whole GPU\"}\n", g && *g->compiler ? "compiler: " : "",
                           g ? g->compiler : "", g && *g->compiler ? "\n" : "");
    memories(out, fields, size, bandwidth);
    links(out, fields, g);
    units(out, fields, g, cores, fpus >= 1 ? fpus : 64, clock);
    g_string_append(out,
                    "runtime:\n  launch_ps: {value: 1us, source: \"compiler: XLA's kKernelLaunchOverhead\"}\n  collective_launch_ps: {value: 6.5us, source: "
                    "\"assumed: as measured on an A100\"}\n  collective_bulk_ps: {value: 51.8us, source: \"assumed: as measured on an A100\"}\n"
                    "  host_launch_ps: {value: 20us, source: \"measured: eager PyTorch to the start of a kernel, V100\"}\n");
    g_string_append(out, "  driver:\n    context_bytes: {value: 512MiB, source: \"assumed: as measured on A100s\"}\n");
    if (strstr(title, "GeForce"))
        g_string_append(
            out, "    peer_share: {value: 0.69, source: \"assumed: as an H100 with peer access off; GeForces have none (NVIDIA/nccl issues 1264, 1309)\"}\n");
    g_string_append(out, "kernel:\n  collective_small_share: {value: 0.082, source: \"assumed: as measured on an A100\"}\n"
                         "  collective_share: {value: 0.847, source: \"assumed: as measured on an A100\"}\n");
    double major = number(fields, "cuda_compute_capability.major"), minor = number(fields, "cuda_compute_capability.minor");
    if (g && g_str_has_prefix(g->compiler, "gfx"))
        g_string_append(out, "  sm_lanes: {value: 64, source: \"data sheet: AMD CDNA, four SIMDs of 16 lanes\"}\n");
    /* Those of PCs and their like have 4 such units in each quarter of a multiprocessor, others 8: NVIDIA's papers on TU102, GA102, AD102 and GB202. */
    if ((major == 7 && minor == 5) || (major == 8 && minor >= 6) || major == 12)
        g_string_append(out, "  sm_load_lanes: {value: 16, source: \"data sheet: as NVIDIA's papers have chips of this compute capability\"}\n");
    if (major >= 1 && major <= 1000 && minor >= 0 && minor <= 9)
        g_string_append_printf(out, "  compute_capability: {value: %.0f.%.0f, source: \"compiler: gpu_target_config\"}\n", major, minor);
    return out;
}

bool ech_gpu_target_probe(const char *head, size_t n)
{
    /* The first field that is no comment; the message's own fields may come in any order. */
    size_t i = 0;
    while (i < n && (g_ascii_isspace(head[i]) || head[i] == '#')) {
        if (head[i] == '#') {
            const char *end = memchr(head + i, '\n', n - i);
            i = end ? (size_t)(end - head) : n;
        } else {
            i++;
        }
    }
    static const char *const first[] = {"gpu_device_info", "platform_name", "dnn_version_info", "device_description_str"};
    for (size_t k = 0; k < G_N_ELEMENTS(first); k++) {
        if (n - i > strlen(first[k]) && strncmp(head + i, first[k], strlen(first[k])) == 0)
            return memmem(head, n, "gpu_device_info", strlen("gpu_device_info")) != NULL;
    }
    return false;
}

GString *ech_gpu_target_yaml(const char *text, size_t n, const char *where, GError **error)
{
    g_autoptr(GPtrArray) fields = g_ptr_array_new_with_free_func(field_free);
    Parser parser = {.at = text, .end = text + n, .where = where, .line = 1, .fields = fields};
    if (!message(&parser, "", 0, error))
        return NULL;
    if (parser.at < parser.end) {
        bad(&parser, error, "a field's name");
        return NULL;
    }
    return write_yaml(fields, where, error);
}
