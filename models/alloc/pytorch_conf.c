/* Facts: c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.6.0, lines 26 to 346 (read so up to 2.9); c10/core/AllocatorConfig.h from 2.10 on, and how
 * libc10_cuda.so of every release from 2.6 to 2.15 answers the same strings. Told no release, separators are held to the older reader and values to the later
 * one. */
#include "models/alloc/pytorch_conf.h"
#include "sim/base/error.h"
#include "sim/base/param.h"

#include <limits.h>
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
    SET_REJECT,
    SET_RESERVE,
    /* Checked and then left alone, because they change no placement of device memory. */
    SET_FLAG,
    SET_THREADS,
    SET_PINNED_RESERVE,
    SET_PINNED_ROUND,
    SET_PINNED_CACHED,
    SET_LIST,
} Setting;

/* since: N of the first release 2.N that knows it, as libc10_cuda.so of 2.6 to 2.15 answers; 0: all do. */
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
    {"graph_capture_record_stream_reuse", SET_FLAG, 9},
    {"per_process_memory_fraction", SET_FRACTION, 0}, /* since 2.10; before that torch.cuda.set_per_process_memory_fraction is meant */
    {"pinned_reserve_segment_size_mb", SET_PINNED_RESERVE, 10},
    {"large_segment_size_mb", SET_LARGE_SEGMENT, 11},
    {"throw_on_cudamalloc_oom", SET_REJECT, 12},
    {"pinned_free_catch_all", SET_FLAG, 12},
    {"pinned_max_round_threshold_mb", SET_PINNED_ROUND, 13},
    {"pinned_max_cached_size_mb", SET_PINNED_CACHED, 13},
    {"expandable_segments_reserve", SET_RESERVE, 15},
    {"expandable_segments_reserve_by_class", SET_LIST, 15},
    {"release", SET_RELEASE, 0},
};

/* While settings are read. */
typedef struct {
    EchPyTorchConf conf;
    GPtrArray *tokens;                    /* words, and each of ",:[]" alone */
    guint at;                             /* the token that is read next */
    unsigned release;                     /* N of 2.N */
    bool old, lax;                        /* told a release before 2.10, or a later one: how strict each was */
    EchBytes least_split, least_rounding; /* the smallest that was ever given: each is checked; UINT64_MAX: none */
    GString *idle, *native;               /* as in the result */
} Reader;

static void reader_clear(Reader *reader)
{
    ech_pytorch_conf_clear(&reader->conf);
    g_ptr_array_free(reader->tokens, TRUE);
    g_string_free(reader->idle, TRUE);
    g_string_free(reader->native, TRUE);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Reader, reader_clear)

/* A release before 2.10 (PyTorch's later reader knows other blanks too) splits at commas, colons and brackets and drops blanks wherever they stand. */
static GPtrArray *split(const char *text, bool old)
{
    GPtrArray *tokens = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) word = g_string_new(NULL);
    for (const char *at = text;; at++) {
        bool mark = *at && strchr(",:[]", *at);
        if ((mark || !*at) && word->len) {
            g_ptr_array_add(tokens, g_strdup(word->str));
            g_string_truncate(word, 0);
        }
        if (!*at)
            return tokens;
        if (mark)
            g_ptr_array_add(tokens, g_strndup(at, 1));
        else if (*at != ' ' && (old || !g_ascii_isspace(*at)))
            g_string_append_c(word, *at);
    }
}

static const char *peek(const Reader *reader)
{
    return reader->at < reader->tokens->len ? reader->tokens->pdata[reader->at] : NULL;
}

static bool next_is(const Reader *reader, const char *mark)
{
    return g_strcmp0(peek(reader), mark) == 0;
}

static bool bad(GError **error, const char *name, const char *value, const char *expected)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is not %s", name, value, expected);
    return false;
}

/* Goes past @mark. From 2.10 on PyTorch looks at what stands there and then takes anything. */
static bool pass(Reader *reader, const char *mark, const char *name, GError **error)
{
    const char *token = peek(reader);
    if (token && (reader->lax || strcmp(token, mark) == 0)) {
        reader->at++;
        return true;
    }
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: expected '%s' before '%s'", name, mark, token ? token : "the end");
    return false;
}

/* The value behind a colon. */
static const char *value_of(Reader *reader, const char *name, GError **error)
{
    if (!pass(reader, ":", name, error))
        return NULL;
    const char *value = peek(reader);
    if (!value)
        bad(error, name, "", "a value");
    reader->at++;
    return value;
}

/* C's reading of a number: what follows the digits is not looked at. To 2.9 of an int's size, then of a size_t's, whose negative numbers wrap. */
static bool number_of(const Reader *reader, const char *text, uint64_t *ret)
{
    while (g_ascii_isspace(*text))
        text++;
    bool minus = *text == '-';
    const char *digits = text + (minus || *text == '+');
    if (!g_ascii_isdigit(*digits))
        return false;
    uint64_t value = 0;
    for (; g_ascii_isdigit(*digits); digits++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) || __builtin_add_overflow(value, (uint64_t)(*digits - '0'), &value))
            return false;
    }
    if (reader->old && value > (uint64_t)INT_MAX + minus)
        return false;
    *ret = minus ? -value : value;
    return true;
}

static bool boolean(const char *name, const char *value, bool *ret, GError **error)
{
    bool yes = strcmp(value, "True") == 0;
    if (!yes && strcmp(value, "False") != 0)
        return bad(error, name, value, "True or False");
    *ret = yes;
    return true;
}

static bool fraction(const char *name, const char *value, bool with_ends, double *ret, GError **error)
{
    char *end;
    double number = g_ascii_strtod(value, &end);
    if (end == value || !(with_ends ? number >= 0 && number <= 1 : number > 0 && number < 1))
        return bad(error, name, value, with_ends ? "a fraction in [0, 1]" : "a fraction in (0, 1)");
    *ret = number;
    return true;
}

static bool power_of_two(const Reader *reader, const char *text, uint64_t *ret)
{
    uint64_t number;
    if (!number_of(reader, text, &number) || number == 0 || (number & (number - 1)))
        return false;
    *ret = number;
    return true;
}

static bool megabytes(const Reader *reader, const char *name, const char *value, EchBytes *ret, GError **error)
{
    uint64_t number;
    if (!number_of(reader, value, &number))
        return bad(error, name, value, "a number of MiB");
    *ret = MIN(number, UINT64_MAX / MIB) * MIB;
    return true;
}

/* For check_sizes(). */
static bool checked_megabytes(const Reader *reader, const char *name, const char *value, EchBytes *ret, EchBytes *least, GError **error)
{
    if (!megabytes(reader, name, value, ret, error))
        return false;
    *least = MIN(*least, *ret);
    return true;
}

static void set_divisions(EchPyTorchConf *conf, unsigned from, unsigned to, uint64_t number)
{
    for (unsigned i = from; i < to; i++)
        conf->divisions[i] = number;
}

/* "256:1,512:2,>:8]": a key sets its entry, the first key all below it too, '>' everything from the last key on. */
static bool division_list(Reader *reader, const char *name, GError **error)
{
    static const Reader wide = {.old = false}; /* a key always was a size_t */
    bool first = true;
    unsigned last = 0;
    while (peek(reader) && !next_is(reader, "]")) {
        const char *key = peek(reader), *value;
        uint64_t mib, number;
        reader->at++;
        if (!(value = value_of(reader, name, error)))
            return false;
        if (!number_of(reader, value, &number) || (number & (number - 1)))
            return bad(error, name, value, "0 or a power of two");
        if (strcmp(key, ">") == 0) {
            set_divisions(&reader->conf, last + reader->lax, ECH_PYTORCH_DIVISIONS, number); /* since 2.10 not the last key's own */
        } else if (power_of_two(&wide, key, &mib)) {
            last = MIN((unsigned)__builtin_ctzll(mib), (unsigned)ECH_PYTORCH_DIVISIONS - 1);
            set_divisions(&reader->conf, first ? 0 : last, last + 1, number);
            first = false;
        } else {
            return bad(error, name, key, "a size in MiB that is a power of two, or >");
        }
        if (!next_is(reader, "]") && !pass(reader, ",", name, error))
            return false;
    }
    if (!peek(reader))
        return bad(error, name, "", "a list that ends with ]");
    reader->at++;
    return true;
}

static bool divisions(Reader *reader, const char *name, const char *value, GError **error)
{
    uint64_t number;
    if (strcmp(value, "[") == 0)
        return division_list(reader, name, error);
    if (!power_of_two(reader, value, &number))
        return bad(error, name, value, "a power of two, or a list like [256:1,512:2,>:8]");
    set_divisions(&reader->conf, 0, ECH_PYTORCH_DIVISIONS, number);
    return true;
}

static bool set_release(Reader *reader, const char *name, const char *value, GError **error)
{
    uint64_t minor;
    if (strncmp(value, "2.", 2) != 0 || !ech_parse_u64(value + 2, &minor, NULL) || minor > 99)
        return bad(error, name, value, "a release like 2.6");
    reader->release = (unsigned)minor;
    reader->old = minor < 10;
    reader->lax = !reader->old;
    reader->conf.release = reader->release;
    return true;
}

/* Past the rest of a list that is not looked at. */
static bool skip(Reader *reader, const char *name, const char *value, GError **error)
{
    if (strcmp(value, "[") != 0)
        return bad(error, name, value, "a list in brackets");
    while (peek(reader) && !next_is(reader, "]"))
        reader->at++;
    if (!peek(reader))
        return bad(error, name, "", "a list that ends with ]");
    reader->at++;
    return true;
}

/* "0.5" of the device's memory or "40G" (GiB). PyTorch warns of anything else and goes on as if it were not there. */
static void set_reserve(EchPyTorchConf *conf, const char *value)
{
    size_t n = strlen(value);
    bool gib = n && (value[n - 1] == 'G' || value[n - 1] == 'g');
    char *end;
    double number = g_ascii_strtod(value, &end);
    if (end != value + n - gib || strspn(value, "0123456789.eE+-") != n - gib || !(number > 0))
        return;
    conf->reserve = number;
    conf->reserve_in_gib = gib;
}

static bool set_value(Reader *reader, Setting setting, const char *name, GError **error)
{
    EchPyTorchConf *conf = &reader->conf;
    bool flag;
    uint64_t number;
    const char *value = value_of(reader, name, error);
    if (!value)
        return false;
    switch (setting) {
    case SET_MAX_SPLIT: return checked_megabytes(reader, name, value, &conf->max_split, &reader->least_split, error);
    case SET_NON_SPLIT: return checked_megabytes(reader, name, value, &conf->max_non_split_rounding, &reader->least_rounding, error);
    case SET_LARGE_SEGMENT: return megabytes(reader, name, value, &conf->large_buffer, error);
    case SET_GC: return fraction(name, value, false, &conf->gc_threshold, error);
    case SET_FRACTION: conf->has_fraction = true; return fraction(name, value, true, &conf->fraction, error);
    case SET_DIVISIONS: return divisions(reader, name, value, error);
    case SET_EXPANDABLE: return boolean(name, value, &conf->expandable, error);
    case SET_REJECT: return boolean(name, value, &conf->reject, error);
    case SET_RESERVE: set_reserve(conf, value); return true;
    case SET_BACKEND: /* alloc.c has chosen the allocator by it */
        return strcmp(value, "native") == 0 || strcmp(value, "cudaMallocAsync") == 0 || strcmp(value, "hipMallocAsync") == 0 ||
               bad(error, name, value, "native or cudaMallocAsync");
    case SET_RELEASE: return set_release(reader, name, value, error);
    case SET_FLAG: return boolean(name, value, &flag, error);
    case SET_THREADS: return (power_of_two(reader, value, &number) && number <= 128) || bad(error, name, value, "a power of two up to 128");
    case SET_PINNED_RESERVE:
        return megabytes(reader, name, value, &conf->pinned_reserve, error) && (conf->pinned_reserve || bad(error, name, value, "a number above 0"));
    case SET_PINNED_ROUND: return megabytes(reader, name, value, &conf->pinned_round, error);
    case SET_PINNED_CACHED: return megabytes(reader, name, value, &conf->pinned_cached, error);
    case SET_LIST: return skip(reader, name, value, error);
    }
    g_assert_not_reached();
}

static void list(GString *names, const char *name)
{
    g_string_append_printf(names, "%s%s", names->len ? ", " : "", name);
}

static bool set_one(Reader *reader, GError **error)
{
    const char *names[G_N_ELEMENTS(settings) + 1] = {NULL}, *name = peek(reader);
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
        reader->at++;
        return set_value(reader, setting, name, error);
    }
    const char *nearest = ech_nearest_name(name, names);
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
    if (nearest)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting of PYTORCH_CUDA_ALLOC_CONF; did you mean '%s'?", name, nearest);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no setting of PYTORCH_CUDA_ALLOC_CONF; expected %s", name, all);
    return false;
}

static bool too_small(const char *name, EchBytes bytes, EchBytes least, GError **error)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%" G_GUINT64_FORMAT "' is too small; expected at least %" G_GUINT64_FORMAT " (MiB)", name,
                bytes / MIB, least / MIB);
    return false;
}

/* What depends on large_segment_size_mb, which may come last, and on the release: up to 2.9 more than a large segment, then as much. */
static bool check_sizes(Reader *reader, GError **error)
{
    EchPyTorchConf *conf = &reader->conf;
    if (conf->large_buffer < 11 * MIB)
        return too_small("large_segment_size_mb", conf->large_buffer, 11 * MIB, error);
    EchBytes least = conf->large_buffer + (reader->old ? MIB : 0);
    if (reader->least_split < least)
        return too_small("max_split_size_mb", reader->least_split, least, error);
    if (reader->least_rounding < least)
        return too_small("max_non_split_rounding_mb", reader->least_rounding, least, error);
    if (reader->least_rounding == UINT64_MAX)
        conf->max_non_split_rounding = conf->large_buffer;
    return true;
}

/* A release holds for all settings, those before it too. */
static void find_release(Reader *reader, const char *text)
{
    static const char told[] = "release:2.";
    const char *at = strstr(text, told);
    while (at && at > text && at[-1] != ',' && at[-1] != ' ')
        at = strstr(at + 1, told);
    if (!at || !g_ascii_isdigit(at[strlen(told)]))
        return;
    reader->release = (unsigned)MIN(g_ascii_strtoull(at + strlen(told), NULL, 10), 99);
    reader->old = reader->release < 10;
    reader->lax = !reader->old;
}

static bool read_items(Reader *reader, const char *text, GError **error)
{
    find_release(reader, text);
    reader->tokens = split(text, reader->old);
    while (peek(reader)) {
        if (!set_one(reader, error) || (peek(reader) && !pass(reader, ",", "PYTORCH_CUDA_ALLOC_CONF", error)))
            return false;
    }
    return check_sizes(reader, error);
}

bool ech_pytorch_conf_read(const char *text, EchPyTorchConf *ret, GError **error)
{
    g_auto(Reader) reader = {
        .conf =
            {.max_split = UINT64_MAX, .max_non_split_rounding = 20 * MIB, .large_buffer = 20 * MIB, .pinned_round = UINT64_MAX, .pinned_cached = UINT64_MAX},
        .release = 99,
        .least_split = UINT64_MAX,
        .least_rounding = UINT64_MAX,
        .idle = g_string_new(NULL),
        .native = g_string_new(NULL),
    };
    if (!read_items(&reader, text ? text : "", error))
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
