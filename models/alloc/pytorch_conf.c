/* Facts: c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.6.0, lines 26 to 346; settings of later releases from c10/core/AllocatorConfig.h. */
#include "models/alloc/pytorch_conf.h"
#include "sim/base/error.h"
#include "sim/base/param.h"

#include <math.h>
#include <string.h>

static const EchBytes MIB = UINT64_C(1) << 20;

typedef enum {
    SET_MAX_SPLIT,
    SET_NON_SPLIT,
    SET_GC,
    SET_DIVISIONS,
    SET_BACKEND,
    SET_EXPANDABLE,
    SET_FRACTION,
    SET_LARGE_SEGMENT,
    SET_RELEASE,
    /* Checked and then left alone, because they change no placement of device memory. */
    SET_FLAG,
    SET_THREADS,
    SET_NUMBER,
    SET_ANY,
} Setting;

/* since: N of the first release 2.N that knows it; 0: all do. */
static const struct {
    const char *name;
    Setting setting;
    unsigned since;
} settings[] = {
    {"max_split_size_mb", SET_MAX_SPLIT, 0},
    {"max_non_split_rounding_mb", SET_NON_SPLIT, 0},
    {"garbage_collection_threshold", SET_GC, 0},
    {"roundup_power2_divisions", SET_DIVISIONS, 0},
    {"backend", SET_BACKEND, 0},
    {"expandable_segments", SET_EXPANDABLE, 0},
    {"release_lock_on_cudamalloc", SET_FLAG, 0},
    {"release_lock_on_hipmalloc", SET_FLAG, 0},
    {"pinned_use_cuda_host_register", SET_FLAG, 0},
    {"pinned_use_hip_host_register", SET_FLAG, 0},
    {"pinned_num_register_threads", SET_THREADS, 0},
    {"pinned_use_background_threads", SET_FLAG, 0},
    {"per_process_memory_fraction", SET_FRACTION, 9},
    {"graph_capture_record_stream_reuse", SET_FLAG, 9},
    {"pinned_reserve_segment_size_mb", SET_NUMBER, 9},
    {"large_segment_size_mb", SET_LARGE_SEGMENT, 11},
    {"throw_on_cudamalloc_oom", SET_FLAG, 13},
    {"expandable_segments_reserve", SET_ANY, 13},
    {"expandable_segments_reserve_by_class", SET_ANY, 13},
    {"release", SET_RELEASE, 0},
};

/* While settings are read. */
typedef struct {
    EchPyTorchConf conf;
    unsigned release;       /* N of 2.N */
    bool non_split_given;   /* its least value depends on another setting */
    GString *idle, *native; /* as in the result */
} Reader;

static void reader_clear(Reader *reader)
{
    ech_pytorch_conf_clear(&reader->conf);
    g_string_free(reader->idle, TRUE);
    g_string_free(reader->native, TRUE);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Reader, reader_clear)

static bool bad(GError **error, const char *name, const char *value, const char *expected)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is not %s", name, value, expected);
    return false;
}

static bool boolean(const char *name, const char *value, bool *ret, GError **error)
{
    bool yes = strcmp(value, "True") == 0 || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!yes && strcmp(value, "False") != 0 && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return bad(error, name, value, "True or False");
    *ret = yes;
    return true;
}

static bool fraction(const char *name, const char *value, bool with_one, double *ret, GError **error)
{
    char *end;
    double number = g_ascii_strtod(value, &end);
    if (end == value || *end || !isfinite(number) || number <= 0 || number > 1 || (number == 1 && !with_one))
        return bad(error, name, value, with_one ? "a fraction in (0, 1]" : "a fraction in (0, 1)");
    *ret = number;
    return true;
}

static bool power_of_two(const char *text, uint64_t most, uint64_t *ret)
{
    uint64_t number;
    if (!ech_parse_u64(text, &number, NULL) || number == 0 || number > most || (number & (number - 1)))
        return false;
    *ret = number;
    return true;
}

static bool megabytes(const char *name, const char *value, uint64_t least, EchBytes *ret, GError **error)
{
    uint64_t number;
    if (!ech_parse_u64(value, &number, NULL))
        return bad(error, name, value, "a whole number of MiB, without a unit");
    if (number < least) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is too small; expected at least %" G_GUINT64_FORMAT " (MiB)", name, value, least);
        return false;
    }
    *ret = ech_bytes_mul(number, MIB);
    return true;
}

static void set_divisions(EchPyTorchConf *conf, unsigned from, unsigned to, uint64_t number)
{
    for (unsigned i = from; i < to; i++)
        conf->divisions[i] = (uint32_t)number;
}

/* "4", or "[256:1,512:2,>:8]": a key sets its entry, the first key all below it too, '>' everything from the last key on. */
static bool divisions(EchPyTorchConf *conf, const char *name, const char *value, GError **error)
{
    static const uint64_t most = 1u << 30;
    uint64_t number;
    if (*value != '[') {
        if (!power_of_two(value, most, &number))
            return bad(error, name, value, "a power of two, or a list like [256:1,512:2,>:8]");
        set_divisions(conf, 0, ECH_PYTORCH_DIVISIONS, number);
        return true;
    }
    size_t n = strlen(value);
    if (value[n - 1] != ']')
        return bad(error, name, value, "a list that ends with ]");
    g_autofree char *inside = g_strndup(value + 1, n - 2);
    g_auto(GStrv) items = g_strsplit(inside, ",", -1);
    bool first = true;
    unsigned last = 0;
    for (char **item = items; *item; item++) {
        char *colon = strchr(*item, ':');
        if (!colon || !power_of_two(colon + 1, most, &number))
            return bad(error, name, *item, "SIZE:DIVISIONS with a power of two");
        *colon = '\0';
        if (strcmp(*item, ">") == 0) {
            set_divisions(conf, last, ECH_PYTORCH_DIVISIONS, number);
            continue;
        }
        uint64_t mib;
        if (!power_of_two(*item, UINT64_MAX, &mib))
            return bad(error, name, *item, "a size in MiB that is a power of two, or >");
        last = MIN((unsigned)__builtin_ctzll(mib), (unsigned)ECH_PYTORCH_DIVISIONS - 1);
        set_divisions(conf, first ? 0 : last, last + 1, number);
        first = false;
    }
    return true;
}

static bool set_release(Reader *reader, const char *name, const char *value, GError **error)
{
    uint64_t minor;
    if (strncmp(value, "2.", 2) != 0 || !ech_parse_u64(value + 2, &minor, NULL) || minor < 1 || minor > 99)
        return bad(error, name, value, "a release like 2.6");
    reader->release = (unsigned)minor;
    return true;
}

static bool set_value(Reader *reader, Setting setting, const char *name, const char *value, GError **error)
{
    EchPyTorchConf *conf = &reader->conf;
    bool flag;
    uint64_t number;
    switch (setting) {
    case SET_MAX_SPLIT: return megabytes(name, value, 1, &conf->max_split, error);                                              /* and check_sizes() */
    case SET_NON_SPLIT: reader->non_split_given = true; return megabytes(name, value, 1, &conf->max_non_split_rounding, error); /* likewise */
    case SET_LARGE_SEGMENT: return megabytes(name, value, 11, &conf->large_buffer, error);
    case SET_GC: return fraction(name, value, false, &conf->gc_threshold, error);
    case SET_FRACTION: return fraction(name, value, true, &conf->fraction, error);
    case SET_DIVISIONS: return divisions(conf, name, value, error);
    case SET_EXPANDABLE: return boolean(name, value, &conf->expandable, error);
    case SET_BACKEND: /* alloc.c has chosen the allocator by it */
        return strcmp(value, "native") == 0 || strcmp(value, "cudaMallocAsync") == 0 || strcmp(value, "hipMallocAsync") == 0 ||
               bad(error, name, value, "native or cudaMallocAsync");
    case SET_RELEASE: return set_release(reader, name, value, error);
    case SET_FLAG: return boolean(name, value, &flag, error);
    case SET_THREADS: return power_of_two(value, 128, &number) || bad(error, name, value, "a power of two up to 128");
    case SET_NUMBER: return (ech_parse_u64(value, &number, NULL) && number) || bad(error, name, value, "a number above 0");
    case SET_ANY: return true;
    }
    g_assert_not_reached();
}

static void list(GString *names, const char *name)
{
    g_string_append_printf(names, "%s%s", names->len ? ", " : "", name);
}

static bool set_one(Reader *reader, const char *name, const char *value, GError **error)
{
    const char *names[G_N_ELEMENTS(settings) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
        Setting setting = settings[i].setting;
        names[i] = settings[i].name;
        if (strcmp(settings[i].name, name) != 0)
            continue;
        if (settings[i].since > reader->release) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is newer than PyTorch 2.%u", name, reader->release);
            return false;
        }
        if (setting >= SET_FLAG)
            list(reader->idle, name);
        if (setting != SET_BACKEND && setting != SET_FRACTION && setting != SET_RELEASE)
            list(reader->native, name);
        return set_value(reader, setting, name, value, error);
    }
    const char *nearest = ech_nearest_name(name, names);
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
    if (nearest)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting of PYTORCH_CUDA_ALLOC_CONF; did you mean '%s'?", name, nearest);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting of PYTORCH_CUDA_ALLOC_CONF; expected %s", name, all);
    return false;
}

/* What depends on large_segment_size_mb, which may come last. */
static bool check_sizes(const Reader *reader, GError **error)
{
    const EchPyTorchConf *conf = &reader->conf;
    const struct {
        const char *name;
        EchBytes bytes;
    } least[] = {{"max_split_size_mb", conf->max_split}, {"max_non_split_rounding_mb", reader->non_split_given ? conf->max_non_split_rounding : UINT64_MAX}};
    for (size_t i = 0; i < G_N_ELEMENTS(least); i++) {
        if (least[i].bytes >= conf->large_buffer)
            continue;
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "%s: '%" G_GUINT64_FORMAT "' is too small; expected at least a large segment's %" G_GUINT64_FORMAT " (MiB)", least[i].name,
                    least[i].bytes / MIB, conf->large_buffer / MIB);
        return false;
    }
    return true;
}

/* End of the item at @at: the next comma outside of brackets. */
static const char *item_end(const char *at)
{
    unsigned depth = 0;
    for (; *at && (depth > 0 || *at != ','); at++) {
        if (*at == '[')
            depth++;
        else if (*at == ']' && depth > 0)
            depth--;
    }
    return at;
}

static bool read_items(Reader *reader, const char *text, GError **error)
{
    /* Blanks and quotes do not matter to PyTorch's own reader either. */
    g_autoptr(GString) clean = g_string_new(NULL);
    for (const char *at = text; *at; at++) {
        if (*at != ' ' && *at != '\'' && *at != '"')
            g_string_append_c(clean, *at);
    }
    for (const char *at = clean->str; *at;) {
        const char *end = item_end(at);
        g_autofree char *item = g_strndup(at, (gsize)(end - at));
        at = *end ? end + 1 : end;
        if (!*item)
            continue;
        char *colon = strchr(item, ':');
        if (!colon)
            return bad(error, "PYTORCH_CUDA_ALLOC_CONF", item, "of the form KEY:VALUE");
        *colon = '\0';
        if (!set_one(reader, item, colon + 1, error))
            return false;
    }
    return check_sizes(reader, error);
}

bool ech_pytorch_conf_read(const char *text, EchPyTorchConf *ret, GError **error)
{
    g_auto(Reader) reader = {
        .conf = {.max_split = UINT64_MAX, .max_non_split_rounding = 20 * MIB, .large_buffer = 20 * MIB},
        .release = 99,
        .idle = g_string_new(NULL),
        .native = g_string_new(NULL),
    };
    if (text && !read_items(&reader, text, error))
        return false;
    reader.conf.idle = reader.idle->len ? g_strdup(reader.idle->str) : NULL;
    reader.conf.native = reader.native->len ? g_strdup(reader.native->str) : NULL;
    *ret = reader.conf;
    reader.conf = (EchPyTorchConf){0};
    return true;
}

void ech_pytorch_conf_clear(EchPyTorchConf *conf)
{
    g_clear_pointer(&conf->idle, g_free);
    g_clear_pointer(&conf->native, g_free);
}

bool ech_pytorch_is_setting(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
        if (strcmp(settings[i].name, name) == 0)
            return true;
    }
    return false;
}
