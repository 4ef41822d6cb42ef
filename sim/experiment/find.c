#include "sim/experiment/find.h"

#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/base/param.h"
#include "sim/base/units.h"
#include "sim/experiment/devices.h"
#include "sim/experiment/experiment_private.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"

#include <math.h>
#include <string.h>

enum { MOST_HALVES = 60, USUAL_RUNS = 14 };

/* time or a memory's bytes, at most so many or so many times what they are without the edit. */
typedef struct {
    char *what;
    bool relative;
    double limit;
} Goal;

struct EchFind {
    char *name, *values, *asked; /* asked: goals as written */
    char *values_at, *asked_at;  /* Where they stand: FILE:line:column, "--find", "--for". */
    char **paths;
    char *before, *after, *unit; /* Of a value: what stands around its number. */
    char *small_unit;            /* Unit of the first bound, for numbers below 1, and how many make one. */
    double per_unit;
    double from, to;
    bool whole;
    GArray *goals; /* Goal; none: that it fits */
};

static void goal_clear(void *data)
{
    Goal *goal = data;
    g_free(goal->what);
}

void ech_find_free(EchFind *find)
{
    if (!find)
        return;
    g_free(find->name);
    g_free(find->values);
    g_free(find->asked);
    g_free(find->values_at);
    g_free(find->asked_at);
    g_strfreev(find->paths);
    g_free(find->before);
    g_free(find->after);
    g_free(find->unit);
    g_free(find->small_unit);
    g_array_unref(find->goals);
    g_free(find);
}

char **ech_find_paths(const EchFind *find)
{
    return find->paths;
}

bool ech_find_multiplies(const EchFind *find)
{
    return strcmp(find->before, "x") == 0;
}

/* Reading */

static bool read_list(const EchYamlNode *node, GPtrArray *out)
{
    if (node->kind == ECH_YAML_SCALAR && *node->text) {
        g_ptr_array_add(out, g_strdup(node->text));
        return true;
    }
    for (size_t i = 0; node->kind == ECH_YAML_LIST && i < node->n; i++) {
        if (node->items[i]->kind != ECH_YAML_SCALAR)
            return false;
        g_ptr_array_add(out, g_strdup(node->items[i]->text));
    }
    return out->len > 0;
}

/* What a number is of. */
typedef enum { OF_NOTHING, OF_BYTES, OF_RATE, OF_OPS, OF_TIME } Quantity;

/* How many of the smallest unit one @unit is: of sizes, rates, times, frequencies; 1 without one. False where it is none. */
static bool unit_size(const char *unit, double *ret, Quantity *ret_of)
{
    g_autofree char *one = g_strconcat("1000", unit, NULL); /* a thousand, that bits are whole bytes */
    uint64_t amount = 1000;
    EchTime time;
    if (!*unit)
        *ret_of = OF_NOTHING;
    else if (ech_parse_bytes(one, &amount, NULL))
        *ret_of = OF_BYTES;
    else if (ech_parse_rate(one, &amount, NULL))
        *ret_of = OF_RATE;
    else if (ech_parse_ops(one, &amount, NULL))
        *ret_of = OF_OPS;
    else if (ech_parse_time(one, &time, NULL)) {
        amount = (uint64_t)time;
        *ret_of = OF_TIME;
    } else
        return false;
    *ret = (double)amount / 1000;
    return true;
}

/* "x0.5", "16GiB", "3". */
typedef struct {
    char *text;
    bool factor;
    double number;
    const char *unit; /* Within the text. */
    double size;      /* Of one unit. */
    Quantity of;
} Bound;

static void bound_clear(Bound *bound)
{
    g_free(bound->text);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Bound, bound_clear)

static bool read_bound(const char *text, size_t n, Bound *ret)
{
    ret->text = g_strndup(text, n);
    ret->factor = *ret->text == 'x';
    const char *digits = ret->text + ret->factor;
    char *end;
    if (!g_ascii_isdigit(*digits) && *digits != '.')
        return false;
    ret->number = g_ascii_strtod(digits, &end);
    ret->unit = end;
    return isfinite(ret->number) && !(ret->factor && *end) && unit_size(end, &ret->size, &ret->of);
}

/* Why there is nothing between the two, or NULL. Owned by the caller. */
static char *refuse_bounds(const Bound *from, const Bound *to)
{
    if (from->factor != to->factor)
        return g_strdup("both begin with x, as factors do, or neither");
    if (from->of != to->of && (from->of == OF_NOTHING || to->of == OF_NOTHING))
        return g_strdup_printf("'%s' has a unit, '%s' has none", from->of ? from->text : to->text, from->of ? to->text : from->text);
    if (from->of != to->of)
        return g_strdup_printf("'%s' and '%s' are not of one kind", from->text, to->text);
    if (from->number * from->size >= to->number * to->size)
        return g_strdup("the smaller comes first");
    return NULL;
}

static bool read_values(const EchYamlNode *node, EchFind *find, GError **error)
{
    static const char expected[] = "expected values like 1GiB..16GiB, x0.1..x2, 1..8 or prefetch:budget={1MiB..1GiB}, the smaller first";
    const char *text = node->kind == ECH_YAML_SCALAR ? node->text : "", *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL;
    const char *start = close ? open + 1 : text, *end = close ? close : strchr(text, '\0'), *dots = strstr(start, "..");
    if (!dots || dots > end) {
        const char *quote = node->kind == ECH_YAML_SCALAR ? "'" : "";
        ech_yaml_error(node, error, "%s%s%s is no range; %s", quote, node->kind == ECH_YAML_SCALAR ? text : "a list", quote, expected);
        return false;
    }
    g_auto(Bound) from = {0}, to = {0};
    bool first = read_bound(start, (gsize)(dots - start), &from);
    if (!first || !read_bound(dots + 2, (gsize)(end - dots - 2), &to)) {
        ech_yaml_error(node, error, "'%s': '%s' is no number, with a unit or without; %s", text, first ? to.text : from.text, expected);
        return false;
    }
    g_autofree char *why = refuse_bounds(&from, &to);
    if (why) {
        ech_yaml_error(node, error, "'%s': %s; %s", text, why, expected);
        return false;
    }
    find->per_unit = to.size / from.size;
    find->from = from.number / find->per_unit;
    find->to = to.number;
    find->before = g_strdup_printf("%.*s%s", close ? (int)(open - text) : 0, text, to.factor ? "x" : "");
    find->after = g_strdup(close ? close + 1 : "");
    find->unit = g_strdup(to.unit);
    find->small_unit = g_strdup(from.unit);
    find->whole = !to.factor && to.of == OF_NOTHING && !strchr(from.text, '.') && !strchr(to.text, '.');
    find->values = g_strdup(text);
    return true;
}

/* @limit of @what, "50us", "x1.05" or "4GiB", into @goal. */
static bool read_limit(const char *what, const char *limit, Goal *goal, GError **error)
{
    enum { MOST_PLAIN_BYTES = 1024 };
    EchBytes bytes;
    EchTime time;
    goal->relative = *limit == 'x';
    if (goal->relative) {
        if (ech_parse_double(limit + 1, &goal->limit, NULL) && goal->limit > 0)
            return true;
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is no factor; expected something like x1.05", limit);
        return false;
    }
    if (g_str_has_suffix(limit, "x") || g_str_has_suffix(limit, "%")) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s': how much of what it is now is a factor, something like x1.05", limit);
        return false;
    }
    if (strcmp(what, "time") == 0) {
        if (!ech_parse_time(limit, &time, error))
            return false;
        goal->limit = (double)time;
        return true;
    }
    if (ech_parse_time(limit, &time, NULL) && time > 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is a time, and a memory is asked for in bytes; expected something like time<=%s or hbm<=4GiB",
                    limit, limit);
        return false;
    }
    if (!ech_parse_bytes(limit, &bytes, error))
        return false;
    /* A number without a unit is bytes, which nobody means who writes so few. */
    if (bytes < MOST_PLAIN_BYTES && !limit[strspn(limit, "0123456789.")]) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' has no unit; expected something like %sGiB", limit, limit);
        return false;
    }
    goal->limit = (double)bytes;
    return true;
}

static bool read_goal(const EchYamlNode *node, const char *text, EchFind *find, GError **error)
{
    const char *sign = strstr(text, "<=");
    if (strcmp(text, "fits") == 0)
        return true;
    if (!sign || sign == text) {
        ech_yaml_error(node, error, "'%s' cannot be asked for%s; expected fits, time<=10ms, time<=x1.05 or hbm<=4GiB", text,
                       strpbrk(text, "<=>") ? ": only 'at most' can, which is <=" : "");
        return false;
    }
    Goal goal = {g_strstrip(g_strndup(text, (gsize)(sign - text))), false, 0};
    g_autofree char *limit = g_strstrip(g_strdup(sign + 2));
    if (!read_limit(goal.what, limit, &goal, error)) {
        g_prefix_error(error, "'%s': ", text);
        ech_yaml_prefix(node, error);
        g_free(goal.what);
        return false;
    }
    g_array_append_val(find->goals, goal);
    return true;
}

/* "budget" of prefetch:budget=, "capacity" of device.memories.hbm.capacity. */
static char *name_of(const char *path, const char *before)
{
    size_t end = strlen(before) - (g_str_has_suffix(before, "x") ? 1 : 0), start = end > 0 ? end - 1 : 0;
    while (start > 0 && (g_ascii_isalnum(before[start - 1]) || before[start - 1] == '_'))
        start--;
    if (end > 1 && before[end - 1] == '=' && start < end - 1)
        return g_strndup(before + start, end - 1 - start);
    const char *dot = strrchr(path, '.');
    return g_strdup(dot ? dot + 1 : path);
}

EchFind *ech_find_read(const EchYamlNode *node, GError **error)
{
    static const char *const keys[] = {"path", "values", "for", "name", NULL};
    if (!ech_yaml_check_keys(node, "find", keys, error))
        return NULL;
    const EchYamlNode *path = ech_yaml_get(node, "path"), *values = ech_yaml_get(node, "values"), *asked = ech_yaml_get(node, "for"),
                      *name = ech_yaml_get(node, "name");
    g_autoptr(EchFind) find = g_new0(EchFind, 1);
    find->goals = g_array_new(FALSE, FALSE, sizeof(Goal));
    g_array_set_clear_func(find->goals, goal_clear);
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free), goals = g_ptr_array_new_with_free_func(g_free);
    if (!path || !values || !read_list(path, paths)) {
        ech_yaml_error(node, error, "expected a path and values, like {path: device.memories.hbm.capacity, values: 1GiB..16GiB}; or --find PATH=1GiB..16GiB");
        return NULL;
    }
    if (asked && !read_list(asked, goals)) {
        ech_yaml_error(asked, error, "expected fits, time<=10ms, time<=x1.05 or hbm<=4GiB, or a list of such");
        return NULL;
    }
    if (name && name->kind != ECH_YAML_SCALAR) {
        ech_yaml_error(name, error, "name: expected one text");
        return NULL;
    }
    if (!read_values(values, find, error))
        return NULL;
    for (guint i = 0; i < goals->len; i++) {
        if (!read_goal(asked->kind == ECH_YAML_LIST ? asked->items[i] : asked, goals->pdata[i], find, error))
            return NULL;
    }
    find->values_at = ech_yaml_place(values);
    find->asked_at = asked ? ech_yaml_place(asked) : NULL;
    find->name = name ? g_strdup(name->text) : name_of(paths->pdata[0], find->before);
    g_ptr_array_add(paths, NULL);
    g_ptr_array_add(goals, NULL);
    find->asked = goals->len > 1 ? g_strjoinv(", ", (char **)goals->pdata) : g_strdup("fits");
    find->paths = (char **)g_ptr_array_steal(paths, NULL);
    return g_steal_pointer(&find);
}

/* Looking */

/* A run that was tried. */
typedef struct {
    double number;
    EchCase *own; /* Moves to the result. */
    EchSweepPoint point;
    bool holds;
    double *figures; /* figures[find->goals]: what each goal is about; NULL of a run that came to no end */
} Try;

static void try_clear(void *data)
{
    Try *t = data;
    ech_case_free(t->own);
    ech_sweep_point_clear(&t->point);
    g_free(t->figures);
}

/* Of one combination of the sweep. */
typedef struct {
    const EchFind *find;
    EchExperiment *experiment;
    const EchCase *of;
    JsonNode *base; /* The run without the edit, where a goal asks for it. */
    GArray *tries;  /* Try, as they were made */
    const volatile sig_atomic_t *stop;
    bool interrupted; /* before it had its answer */
} Search;

/* The number as it is written, which is also what is run: four digits, or all of a whole one. */
static char *number_text(const EchFind *find, double number)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    bool small = number < 1 && find->per_unit > 1;
    double shown = small ? number * find->per_unit : number;
    g_ascii_formatd(text, sizeof text, find->whole || shown >= 10000 ? "%.0f" : shown >= 1e-3 || shown == 0 ? "%.4g" : "%.8f", shown);
    return g_strconcat(text, small ? find->small_unit : find->unit, NULL);
}

static double figure(JsonObject *run, const char *what)
{
    return strcmp(what, "time") == 0 ? (double)ech_member_int(run, "makespan_ps") : (double)ech_run_memory_bytes(run, what);
}

static double limit_of(const Search *search, const Goal *goal)
{
    return goal->relative ? goal->limit * figure(json_node_get_object(search->base), goal->what) : goal->limit;
}

static bool holds(const Search *search, JsonObject *run)
{
    bool good = ech_member_bool(run, "fits") && ech_member_bool(run, "completed") && !json_object_has_member(run, "may_need_hbm_bytes");
    for (guint i = 0; good && i < search->find->goals->len; i++) {
        const Goal *goal = &g_array_index(search->find->goals, Goal, i);
        good = figure(run, goal->what) <= limit_of(search, goal);
    }
    return good;
}

static JsonNode *run_json(EchExperiment *experiment, const EchCase *c, GError **error)
{
    g_autoptr(GPtrArray) results = ech_experiment_run_whole(experiment, c, error);
    const EchResult *result = results ? results->pdata[0] : NULL;
    if (!result)
        return NULL;
    for (guint i = 0; i < experiment->find->goals->len; i++) {
        const char *what = g_array_index(experiment->find->goals, Goal, i).what;
        if (strcmp(what, "time") == 0 || ech_device_memory(result->device, what))
            continue;
        g_autoptr(GPtrArray) names = g_ptr_array_new();
        for (size_t k = 0; k < result->device->n_memories; k++)
            g_ptr_array_add(names, result->device->memories[k].name);
        g_ptr_array_add(names, (char *)(uintptr_t) "time");
        g_ptr_array_add(names, NULL);
        const char *nearest = ech_nearest_name(what, (const char *const *)names->pdata);
        g_autofree char *all = g_strjoinv(", ", (char **)names->pdata);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: '%s' is no memory of %s; %s%s%s", experiment->find->asked_at, what, result->device->name,
                    nearest ? "did you mean '" : "expected one of ", nearest ? nearest : all, nearest ? "'?" : "");
        return NULL;
    }
    return ech_results_json(results, experiment->brief);
}

/* The run that relative goals are held against; it must have come to its end, for what it took until it found no room says nothing. */
static bool run_base(Search *search, GError **error)
{
    search->base = run_json(search->experiment, search->of, error);
    if (!search->base || ech_member_bool(json_node_get_object(search->base), "completed"))
        return search->base != NULL;
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                "%s: '%s' is held against the run without the edit, which does not fit and so has no time; expected time<=10ms or hbm<=4GiB, or a device that "
                "it fits",
                search->find->asked_at, search->find->asked);
    return false;
}

/* Index of the try, or -1. */
static int try_number(Search *search, double number, GError **error)
{
    const EchFind *find = search->find;
    g_autofree char *text = number_text(find, number);
    g_autofree char *value = g_strconcat(find->before, text, find->after, NULL);
    g_autofree char *label = g_strconcat(g_str_has_suffix(find->before, "x") ? "x" : "", text, NULL);
    for (char **path = find->paths; *path; path++)
        g_hash_table_replace(search->experiment->places, g_strdup_printf("%s=%s", *path, value), g_strdup(find->values_at));
    Try t = {number, ech_case_vary(search->of, find->name, label, (const char *const *)find->paths, value, error), {0}, false, NULL};
    if (!t.own) {
        if (error)
            ech_experiment_say_place(search->experiment->places, *error);
        return -1;
    }
    g_autoptr(JsonNode) node = run_json(search->experiment, t.own, error);
    if (!node) {
        ech_case_free(t.own);
        return -1;
    }
    JsonObject *run = json_node_get_object(node);
    t.holds = holds(search, run);
    if (ech_member_bool(run, "fits") && ech_member_bool(run, "completed")) {
        t.figures = g_new(double, find->goals->len + 1);
        for (guint i = 0; i < find->goals->len; i++)
            t.figures[i] = figure(run, g_array_index(find->goals, Goal, i).what);
    }
    t.point = ech_sweep_point(node);
    g_array_append_val(search->tries, t);
    return (int)search->tries->len - 1;
}

/* Between the two, or at one of them where nothing lies between. */
static double between(const EchFind *find, double low, double high)
{
    double middle = find->whole ? floor((low + high) / 2) : low > 0 && high > 2 * low ? sqrt(low * high) : (low + high) / 2;
    g_autofree char *text = number_text(find, middle), *low_text = number_text(find, low), *high_text = number_text(find, high);
    if (strcmp(text, low_text) == 0 || strcmp(text, high_text) == 0)
        return low;
    return g_ascii_strtod(text, NULL) / (middle < 1 && find->per_unit > 1 ? find->per_unit : 1);
}

/* @ret: where it holds (-1: nowhere) and beside it where it does not (-1: everywhere), as indices of tries. */
static bool search_one(Search *search, EchSweepProgress progress, void *data, size_t done, size_t total, int ret[2], GError **error)
{
    const EchFind *find = search->find;
    bool relative = false;
    for (guint i = 0; i < find->goals->len; i++)
        relative = relative || g_array_index(find->goals, Goal, i).relative;
    if (relative && !run_base(search, error))
        return false;
    int low = try_number(search, find->from, error);
    if (low < 0)
        return false;
    bool low_holds = g_array_index(search->tries, Try, low).holds;
    search->interrupted = ech_stopped(search->stop);
    if (search->interrupted) {
        ret[low_holds ? 0 : 1] = low;
        return true;
    }
    int high = try_number(search, find->to, error);
    if (high < 0)
        return false;
    bool high_holds = g_array_index(search->tries, Try, high).holds;
    ret[0] = low_holds ? low : high_holds ? high : -1;
    ret[1] = !low_holds ? low : !high_holds ? high : -1;
    for (size_t i = 0; low_holds != high_holds && i < MOST_HALVES; i++) {
        double a = g_array_index(search->tries, Try, ret[0]).number, b = g_array_index(search->tries, Try, ret[1]).number;
        double middle = between(find, MIN(a, b), MAX(a, b));
        search->interrupted = middle != MIN(a, b) && ech_stopped(search->stop);
        if (middle == MIN(a, b) || search->interrupted)
            break;
        int at = try_number(search, middle, error);
        if (at < 0)
            return false;
        ret[g_array_index(search->tries, Try, at).holds ? 0 : 1] = at;
        if (progress)
            progress(MIN(done + i + 2, total - 1), total, data);
    }
    return true;
}

/* Telling */

/* What is asked for, in words. */
static char *goal_words(const Search *search)
{
    const EchFind *find = search->find;
    g_autoptr(GString) out = g_string_new("it fits");
    for (guint i = 0; i < find->goals->len; i++) {
        const Goal *goal = &g_array_index(find->goals, Goal, i);
        bool time = strcmp(goal->what, "time") == 0;
        double base = goal->relative ? figure(json_node_get_object(search->base), goal->what) : 0, limit = limit_of(search, goal);
        g_autofree char *most = time ? ech_format_time((EchTime)MIN(limit, 9e18)) : ech_format_bytes((EchBytes)MIN(limit, 1.8e19));
        g_autofree char *is = time ? ech_format_time((EchTime)base) : ech_format_bytes((EchBytes)base);
        g_string_append_printf(out, " and %s at most %s", time ? "takes" : "needs", most);
        if (!time)
            g_string_append_printf(out, " of %s", goal->what);
        if (goal->relative)
            g_string_append_printf(out, " (%g times the %s that it %s as it is)", goal->limit, is, time ? "takes" : "needs");
    }
    return g_string_free(g_steal_pointer(&out), FALSE);
}

static const char *label_at(const Search *search, int at)
{
    const EchCase *c = g_array_index(search->tries, Try, at).own;
    return c->values[g_strv_length(c->values) - 1];
}

static const char *side(const Search *search, const int found[2])
{
    if (search->tries->len == 1)
        return "unknown";
    if (found[0] < 0 || found[1] < 0)
        return found[0] < 0 ? "nowhere" : "throughout";
    return g_array_index(search->tries, Try, found[0]).number > g_array_index(search->tries, Try, found[1]).number ? "from" : "up to";
}

/* The rate or size of the device that a factor comes to, " (46.5 GB/s)"; "" for what is none, or no factor. */
static char *meant_by(const Search *search, int at)
{
    static const char *const sizes[] = {"capacity", "available", NULL}, *const rates[] = {"to_device", "from_device", "both_ways", "read",
                                                                                          "write",     "both",        NULL};
    const char *path = search->find->paths[0], *key = strrchr(path, '.');
    const EchCase *c = g_array_index(search->tries, Try, at).own;
    const EchYamlNode *node = ech_yaml_get(c->config, "device");
    bool rate = key && g_strv_contains(rates, key + 1);
    if (*label_at(search, at) != 'x' || !g_str_has_prefix(path, "device.") || !node || (!rate && !g_strv_contains(sizes, key + 1)))
        return g_strdup("");
    const char *const *settings = (const char *const *)c->settings;
    g_autofree char *name = node->kind == ECH_YAML_SCALAR ? ech_experiment_device_path(node) : NULL;
    g_autoptr(EchDevice) device = name ? ech_device_load(name, settings, NULL) : ech_device_load_yaml(node, settings, NULL);
    double number = device ? ech_device_number(device, path + strlen("device."), 0) : 0;
    if (!(number > 0))
        return g_strdup("");
    g_autofree char *value = rate ? ech_format_rate((EchRate)number) : ech_format_bytes((EchBytes)number);
    return g_strdup_printf(" (%s)", value);
}

static int compare_numbers(const void *a, const void *b)
{
    const Try *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare_tries(const void *a, const void *b)
{
    return compare_numbers(*(const Try *const *)a, *(const Try *const *)b);
}

/* What a goal is about that goes up and down over what was tried, as where a pass chooses anew each time, so that halving may miss where the goal holds. */
static const char *up_and_down(const Search *search)
{
    const double tells = .01;
    g_autoptr(GPtrArray) tries = g_ptr_array_new();
    for (guint i = 0; i < search->tries->len; i++)
        if (g_array_index(search->tries, Try, i).figures)
            g_ptr_array_add(tries, &g_array_index(search->tries, Try, i));
    g_ptr_array_sort(tries, compare_tries);
    for (guint g = 0; g < search->find->goals->len; g++) {
        bool up = false, down = false;
        double last = tries->len ? ((Try *)tries->pdata[0])->figures[g] : 0;
        for (guint i = 1; i < tries->len; i++) {
            double now = ((Try *)tries->pdata[i])->figures[g];
            if (fabs(now - last) <= tells * MIN(now, last))
                continue;
            *(now > last ? &up : &down) = true;
            last = now;
        }
        if (up && down)
            return g_array_index(search->find->goals, Goal, g).what;
    }
    return NULL;
}

static void tell(const Search *search, const int found[2], EchFound *ret, GString *text, JsonBuilder *b)
{
    const EchFind *find = search->find;
    g_autofree char *words = goal_words(search);
    const char *where = side(search, found);
    g_autoptr(GString) line = g_string_new(NULL);
    if (*search->of->label)
        g_string_append_printf(line, "%s: ", search->of->label);
    if (strcmp(where, "unknown") == 0)
        g_string_append_printf(line, "With %s %s it is %sso that %s.", find->name, label_at(search, 0), found[0] < 0 ? "not " : "", words);
    else if (strcmp(where, "nowhere") == 0)
        g_string_append_printf(line, "Neither with %s %s nor with %s is it so that %s; nothing between was tried: another range may hold the answer.",
                               find->name, label_at(search, 0), label_at(search, 1), words);
    else if (strcmp(where, "throughout") == 0)
        g_string_append_printf(line, "With %s %s as with %s, %s; nothing between was tried: the least lies below %s, or the most above %s.", find->name,
                               label_at(search, 0), label_at(search, 1), words, label_at(search, 0), label_at(search, 1));
    else {
        g_autofree char *meant = meant_by(search, found[0]);
        g_string_append_printf(line, "%s %s with which %s: %s%s. With %s not.", strcmp(where, "from") == 0 ? "Least" : "Most", find->name, words,
                               label_at(search, found[0]), meant, label_at(search, found[1]));
    }
    const char *wanders = up_and_down(search);
    if (wanders)
        g_string_append_printf(line, " But %s%s goes up and down over what was tried: it may hold elsewhere, too, and not all the way.",
                               strcmp(wanders, "time") == 0 ? "" : "what is needed of ", wanders);
    if (search->interrupted)
        g_string_append(line, search->tries->len == 1 ? " Interrupted before more was tried." : " Interrupted before all that lies between was tried.");
    g_string_append_printf(text, "%s\n", line->str);
    ret->somewhere = ret->somewhere && found[0] >= 0;
    json_builder_begin_object(b);
    ech_json_add_text(b, "label", search->of->label);
    ech_json_add_text(b, "holds", where);
    if (found[0] >= 0)
        ech_json_add_text(b, "found", label_at(search, found[0]));
    if (found[1] >= 0)
        ech_json_add_text(b, "beyond", label_at(search, found[1]));
    if (wanders)
        ech_json_add_text(b, "up_and_down", wanders);
    if (search->interrupted)
        ech_json_add_bool(b, "interrupted", true);
    ech_json_add_text(b, "text", line->str);
    json_builder_end_object(b);
}

/* An experiment without a file, whose cases are given one by one. */
static EchExperiment *experiment_of(const EchExperiment *experiment, size_t n)
{
    EchExperiment *out = g_new0(EchExperiment, 1);
    out->title = g_strdup(experiment->title);
    out->brief = experiment->brief;
    out->cases = g_new0(EchCase, n);
    out->n_cases = n;
    return out;
}

static void take(EchFound *found, size_t index, Try *t, const char *label)
{
    found->experiment->cases[index] = *t->own;
    g_clear_pointer(&t->own, g_free);
    found->points[index] = t->point;
    t->point = (EchSweepPoint){0};
    found->labels[index] = g_strdup(label);
}

#define CLOSE .02

/* All that were tried, as a sweep over the number. */
static void show_tries(EchFound *found, const EchFind *find, const EchExperiment *experiment, GArray *tries, const int at[2])
{
    double numbers[2] = {0, 0};
    for (size_t k = 0; k < 2; k++) {
        found->at[k] = SIZE_MAX;
        if (at[k] >= 0)
            numbers[k] = g_array_index(tries, Try, at[k]).number;
    }
    g_array_sort(tries, compare_numbers);
    size_t n = tries->len;
    found->experiment = experiment_of(experiment, n);
    found->points = g_new0(EchSweepPoint, n);
    found->labels = g_new0(char *, n + 1);
    found->close = g_new0(bool, n);
    found->heading = g_strdup(find->name);
    found->experiment->axes = g_strsplit(find->name, "\n", 1);
    found->experiment->axis_sizes = g_memdup2(&n, sizeof n);
    found->experiment->axis_bases = g_new0(size_t *, 2);
    found->experiment->axis_bases[0] = g_new(size_t, n);
    for (size_t i = 0; i < n; i++) {
        Try *t = &g_array_index(tries, Try, i);
        for (size_t k = 0; k < 2; k++) {
            if (at[k] >= 0 && t->number == numbers[k])
                found->at[k] = i;
        }
        found->close[i] = at[0] >= 0 && at[1] >= 0 && i > 0 && i < n - 1 && t->number != numbers[0] && t->number != numbers[1] &&
                          fabs(t->number - numbers[0]) < CLOSE * fabs(numbers[0]);
        const char *label = t->own->values[0];
        found->experiment->axis_bases[0][i] = i ? i - 1 : 0;
        take(found, i, t, label);
    }
}

/* The axes of the sweep, whose points are at their answers. */
static void begin_answers(EchFound *found, const EchFind *find, const EchExperiment *experiment)
{
    size_t n = experiment->n_cases, n_axes = g_strv_length(experiment->axes);
    found->at[0] = found->at[1] = SIZE_MAX;
    found->experiment = experiment_of(experiment, n);
    found->points = g_new0(EchSweepPoint, n);
    found->labels = g_new0(char *, n + 1);
    g_autofree char *axes = g_strjoinv(", ", experiment->axes);
    found->heading = g_strdup_printf("%s, %s", axes, find->name);
    found->experiment->axes = g_strdupv(experiment->axes);
    found->experiment->axis_sizes = g_memdup2(experiment->axis_sizes, n_axes * sizeof *experiment->axis_sizes);
    found->experiment->axis_bases = g_new0(size_t *, n_axes + 1);
    for (size_t i = 0; i < n_axes; i++)
        found->experiment->axis_bases[i] = g_memdup2(experiment->axis_bases[i], experiment->axis_sizes[i] * sizeof **experiment->axis_bases);
}

/* A combination without an answer, for @why, which moves: an interrupt came before it, or it cannot be asked there. */
static void leave_out(EchFound *found, const EchFind *find, const EchExperiment *experiment, size_t index, EchSweepPoint why, GString *text, JsonBuilder *b)
{
    static const char *const none[] = {NULL};
    const EchCase *of = &experiment->cases[index];
    Try t = {find->from, ech_case_vary(of, find->name, "none", none, "", NULL), why, false, NULL};
    g_assert(t.own); /* Nothing of it was changed. */
    g_autofree char *values = g_strjoinv(", ", of->values), *label = g_strconcat(values, ", none", NULL);
    g_autofree char *line = g_strdup_printf("%s: %s%s", of->label, why.error, why.interrupted ? "." : "");
    g_string_append_printf(text, "%s\n", line);
    json_builder_begin_object(b);
    ech_json_add_text(b, "label", of->label);
    ech_json_add_text(b, "holds", "unknown");
    if (why.interrupted)
        ech_json_add_bool(b, "interrupted", true);
    else
        ech_json_add_text(b, "error", why.error);
    ech_json_add_text(b, "text", line);
    json_builder_end_object(b);
    take(found, index, &t, label);
    found->somewhere = false;
}

EchFound *ech_find_run(EchExperiment *experiment, const volatile sig_atomic_t *stop, EchSweepProgress progress, void *data, GError **error)
{
    const EchFind *find = experiment->find;
    g_autoptr(EchFound) found = g_new0(EchFound, 1);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(JsonBuilder) b = json_builder_new();
    size_t n = experiment->n_cases, total = n * USUAL_RUNS;
    found->somewhere = true;
    json_builder_begin_object(b);
    ech_json_add_text(b, "name", find->name);
    ech_json_begin_array(b, "paths");
    for (char **path = find->paths; *path; path++)
        json_builder_add_string_value(b, *path);
    json_builder_end_array(b);
    ech_json_add_text(b, "values", find->values);
    ech_json_add_text(b, "for", find->asked);
    ech_json_begin_array(b, "answers");
    if (n > 1)
        begin_answers(found, find, experiment);
    bool answered = false;
    g_autoptr(GError) first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && ech_stopped(stop)) {
            leave_out(found, find, experiment, i, ech_sweep_left_out(), text, b);
            continue;
        }
        Search search = {find, experiment, &experiment->cases[i], NULL, g_array_new(FALSE, FALSE, sizeof(Try)), stop, false};
        g_array_set_clear_func(search.tries, try_clear);
        int at[2] = {-1, -1};
        g_autoptr(GError) why = NULL;
        bool ok = search_one(&search, progress, data, i * USUAL_RUNS, total, at, &why);
        answered |= ok;
        if (ok)
            tell(&search, at, found, text, b);
        if (!ok) {
            if (n > 1)
                leave_out(found, find, experiment, i, (EchSweepPoint){.error = g_strdup(why->message)}, text, b);
            if (!first)
                first = g_steal_pointer(&why);
        } else if (n == 1) {
            show_tries(found, find, experiment, search.tries, at);
        } else {
            /* Where it holds nowhere, the run at the second bound says by how much. */
            Try *t = &g_array_index(search.tries, Try, at[0] >= 0 ? at[0] : (int)search.tries->len > 1);
            g_autofree char *values = g_strjoinv(", ", experiment->cases[i].values);
            g_autofree char *label = g_strdup_printf("%s, %s", values, at[0] < 0 ? "none" : at[1] < 0 ? "any" : label_at(&search, at[0]));
            take(found, i, t, label);
        }
        g_clear_pointer(&search.base, json_node_unref);
        g_array_unref(search.tries);
    }
    if (progress)
        progress(total, total, data);
    json_builder_end_array(b);
    json_builder_end_object(b);
    if (!answered) {
        g_propagate_error(error, g_steal_pointer(&first));
        return NULL;
    }
    found->json = json_builder_get_root(b);
    if (g_str_has_suffix(ech_find_paths(find)[0], ".capacity"))
        g_string_append(text, "Of a capacity the runtime keeps its part, of a small one up to half: programs get what 'available' says.\n");
    found->text = g_string_free(g_steal_pointer(&text), FALSE);
    return g_steal_pointer(&found);
}

void ech_found_free(EchFound *found)
{
    if (!found)
        return;
    if (found->experiment)
        ech_sweep_free(found->points, found->experiment->n_cases);
    ech_experiment_free(found->experiment);
    g_strfreev(found->labels);
    g_free(found->close);
    g_free(found->heading);
    g_free(found->text);
    g_clear_pointer(&found->json, json_node_unref);
    g_free(found);
}
