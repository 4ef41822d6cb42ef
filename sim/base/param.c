#include "sim/base/param.h"

#include "sim/base/error.h"

#include <string.h>

static void *field_of(const EchParam *param, void *object)
{
    return (char *)object + param->offset;
}

static const void *const_field_of(const EchParam *param, const void *object)
{
    return (const char *)object + param->offset;
}

static bool parse_bool(const char *text, uint64_t *ret, GError **error)
{
    if (g_ascii_strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0)
        *ret = 1;
    else if (g_ascii_strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0)
        *ret = 0;
    else {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is neither true nor false", text);
        return false;
    }
    return true;
}

static bool parse_enum(const EchParam *param, const char *text, uint64_t *ret, GError **error)
{
    for (uint64_t i = 0; param->values[i]; i++) {
        if (strcmp(param->values[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)param->values);
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is unknown; expected one of %s", text, all);
    return false;
}

typedef union {
    uint64_t u64;
    int64_t time;
    double ratio;
} Value;

static bool parse_value(const EchParam *param, const char *text, Value *ret, GError **error)
{
    switch (param->type) {
    case ECH_PARAM_U64: return ech_parse_u64(text, &ret->u64, error);
    case ECH_PARAM_BYTES: return ech_parse_bytes(text, &ret->u64, error);
    case ECH_PARAM_RATE: return ech_parse_rate(text, &ret->u64, error);
    case ECH_PARAM_TIME: return ech_parse_time(text, &ret->time, error);
    case ECH_PARAM_BOOL: return parse_bool(text, &ret->u64, error);
    case ECH_PARAM_RATIO: return ech_parse_double(text, &ret->ratio, error);
    case ECH_PARAM_ENUM: return parse_enum(param, text, &ret->u64, error);
    case ECH_PARAM_STRING: break;
    }
    g_assert_not_reached();
}

static int compare_values(const EchParam *param, Value a, Value b)
{
    if (param->type == ECH_PARAM_RATIO)
        return (a.ratio > b.ratio) - (a.ratio < b.ratio);
    if (param->type == ECH_PARAM_TIME)
        return (a.time > b.time) - (a.time < b.time);
    return (a.u64 > b.u64) - (a.u64 < b.u64);
}

static bool in_range(const EchParam *param, Value value)
{
    Value bound;
    if (param->min) {
        bool ok = parse_value(param, param->min, &bound, NULL);
        g_assert(ok);
        if (compare_values(param, value, bound) < 0)
            return false;
    }
    if (param->max) {
        bool ok = parse_value(param, param->max, &bound, NULL);
        g_assert(ok);
        if (compare_values(param, value, bound) > 0)
            return false;
    }
    return true;
}

static bool set_one(const EchParam *param, void *object, const char *text, GError **error)
{
    if (param->type == ECH_PARAM_STRING) {
        char **field = field_of(param, object);
        char *copy = g_strdup(text);
        g_free(*field);
        *field = copy;
        return true;
    }
    Value value;
    if (!parse_value(param, text, &value, error)) {
        g_prefix_error(error, "%s: ", param->name);
        return false;
    }
    if (!in_range(param, value)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is out of range; expected %s to %s", param->name, text, param->min ? param->min : "0",
                    param->max ? param->max : "any");
        return false;
    }
    memcpy(field_of(param, object), &value, sizeof value);
    return true;
}

void ech_params_defaults(const EchParam *params, void *object)
{
    for (const EchParam *param = params; param && param->name; param++) {
        if (!param->def)
            continue;
        GError *error = NULL;
        if (!set_one(param, object, param->def, &error))
            g_error("default of a parameter: %s", error->message);
    }
}

bool ech_params_set(const EchParam *params, void *object, const char *name, const char *value, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (const EchParam *param = params; param && param->name; param++) {
        if (strcmp(param->name, name) == 0)
            return set_one(param, object, value, error);
        g_ptr_array_add(names, (char *)(uintptr_t)param->name);
    }
    g_ptr_array_add(names, NULL);
    const char *nearest = ech_nearest_name(name, (const char *const *)names->pdata);
    g_autofree char *all = g_strjoinv(", ", (char **)names->pdata);
    if (nearest)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no parameter here; did you mean '%s'?", name, nearest);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no parameter here; expected %s", name, *all ? all : "none");
    return false;
}

/* Past the bracket at @open and what it holds, commas too; past itself alone where nothing closes it, as in a pattern of names: "m[*". */
static const char *past_bracket(const char *open)
{
    unsigned depth = 0;
    for (const char *at = open; *at; at++) {
        depth += *at == '[';
        if (*at == ']' && --depth == 0)
            return at + 1;
    }
    return open + 1;
}

bool ech_params_parse(const EchParam *params, void *object, const char *text, GError **error)
{
    const char *at = text ? text : "";
    while (*at) {
        const char *end = at;
        while (*end && *end != ',')
            end = *end == '[' ? past_bracket(end) : end + 1;
        g_autofree char *item = g_strndup(at, (size_t)(end - at));
        char *equals = strchr(item, '=');
        if (!equals) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not of the form key=value", item);
            return false;
        }
        *equals = '\0';
        if (!ech_params_set(params, object, item, equals + 1, error))
            return false;
        at = *end ? end + 1 : end;
    }
    return true;
}

void ech_params_clear(const EchParam *params, void *object)
{
    for (const EchParam *param = params; param && param->name; param++) {
        if (param->type == ECH_PARAM_STRING) {
            char **field = field_of(param, object);
            g_clear_pointer(field, g_free);
        }
    }
}

/* In the unit that says it exactly in the least number, of 1024 or of 1000: what is printed is read back. */
static char *print_bytes(EchBytes bytes)
{
    static const struct {
        uint64_t step;
        const char *names[5];
    } units[] = {{1024, {"", "KiB", "MiB", "GiB", "TiB"}}, {1000, {"", "kB", "MB", "GB", "TB"}}};
    uint64_t least = bytes;
    const char *name = "";
    for (size_t k = 0; bytes > 0 && k < G_N_ELEMENTS(units); k++) {
        uint64_t number = bytes;
        for (size_t i = 1; i < G_N_ELEMENTS(units[k].names) && number % units[k].step == 0; i++) {
            number /= units[k].step;
            name = number < least ? units[k].names[i] : name;
            least = MIN(least, number);
        }
    }
    return g_strdup_printf("%" G_GUINT64_FORMAT "%s", least, name);
}

/* In the largest unit of which it is a whole number. */
static char *print_time(EchTime time)
{
    static const char *const units[] = {"ps", "ns", "us", "ms", "s"};
    unsigned k = 0;
    for (; k + 1 < G_N_ELEMENTS(units) && time && time % 1000 == 0; k++)
        time /= 1000;
    return g_strdup_printf("%" G_GINT64_FORMAT "%s", time, units[k]);
}

static char *print_value(const EchParam *param, const void *object)
{
    const void *field = const_field_of(param, object);
    Value value;
    if (param->type == ECH_PARAM_STRING)
        return g_strdup(*(char *const *)field);
    memcpy(&value, field, sizeof value);
    switch (param->type) {
    case ECH_PARAM_BOOL: return g_strdup(value.u64 ? "true" : "false");
    case ECH_PARAM_ENUM: return g_strdup(param->values[value.u64]);
    case ECH_PARAM_TIME: return print_time(value.time);
    case ECH_PARAM_RATIO: {
        /* As a human writes it, where that is the same number. */
        char buffer[G_ASCII_DTOSTR_BUF_SIZE];
        if (g_ascii_strtod(g_ascii_formatd(buffer, sizeof buffer, "%.15g", value.ratio), NULL) != value.ratio)
            g_ascii_dtostr(buffer, sizeof buffer, value.ratio);
        return g_strdup(buffer);
    }
    case ECH_PARAM_BYTES: return print_bytes(value.u64);
    case ECH_PARAM_U64:
    case ECH_PARAM_RATE: return g_strdup_printf("%" G_GUINT64_FORMAT, value.u64);
    case ECH_PARAM_STRING: break;
    }
    g_assert_not_reached();
}

char *ech_params_print(const EchParam *params, const void *object)
{
    GString *out = g_string_new(NULL);
    for (const EchParam *param = params; param && param->name; param++) {
        g_autofree char *text = print_value(param, object);
        if (!text)
            continue;
        if (param->def && param->type != ECH_PARAM_STRING) {
            Value def, now;
            memcpy(&now, const_field_of(param, object), sizeof now);
            if (parse_value(param, param->def, &def, NULL) && compare_values(param, def, now) == 0)
                continue;
        } else if (param->def && strcmp(param->def, text) == 0) {
            continue;
        }
        g_string_append_printf(out, "%s%s=%s", out->len ? "," : "", param->name, text);
    }
    return g_string_free(out, FALSE);
}

void ech_spec_split(const char *spec, char **ret_name, char **ret_rest)
{
    const char *colon = strchr(spec, ':');
    *ret_name = colon ? g_strndup(spec, (size_t)(colon - spec)) : g_strdup(spec);
    *ret_rest = colon ? g_strdup(colon + 1) : NULL;
}

static bool same_letter(char a, char b)
{
    return g_ascii_tolower(a) == g_ascii_tolower(b);
}

/* Letters to change, add, leave out or exchange. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t n = strlen(b);
    g_autofree size_t *rows = g_new(size_t, 3 * (n + 1));
    size_t *before = rows, *row = rows + n + 1, *next = row + n + 1;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        next[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = row[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            best = MIN(best, MIN(row[j], next[j - 1]) + 1);
            /* Two letters in the wrong order are one mistake. */
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                best = MIN(best, before[j - 2] + 1);
            next[j] = best;
        }
        size_t *free_row = before;
        before = row;
        row = next;
        next = free_row;
    }
    return row[n];
}

/* Whether @name holds @text, in any case. */
static bool holds(const char *name, const char *text)
{
    size_t n = strlen(text);
    for (; *name; name++) {
        if (g_ascii_strncasecmp(name, text, n) == 0)
            return true;
    }
    return false;
}

const char *ech_nearest_name(const char *text, const char *const *names)
{
    if (strlen(text) > 256)
        return NULL;
    /* More than two letters in five wrong, and it is another word. What holds the text as it stands comes first: "v5e" is "tpu-v5e". */
    const char *best = NULL;
    size_t n = strlen(text), best_distance = MAX(n * 2 / 5, (size_t)1) + 1;
    for (size_t i = 0; names[i]; i++) {
        size_t distance = n >= 2 && holds(names[i], text) ? 0 : MAX(edit_distance(text, names[i]), (size_t)1);
        if (distance < best_distance) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}
