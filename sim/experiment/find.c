#include "sim/experiment/find.h"

#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/base/units.h"
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

/* How many of the smallest unit one @unit is: of sizes, rates, times, frequencies; 1 without one. False where it is none. */
static bool unit_size(const char *unit, double *ret)
{
    g_autofree char *one = g_strconcat("1", unit, NULL);
    EchBytes bytes;
    EchTime time;
    if (!*unit)
        *ret = 1;
    else if (ech_parse_bytes(one, &bytes, NULL) || ech_parse_rate(one, &bytes, NULL) || ech_parse_ops(one, &bytes, NULL))
        *ret = (double)bytes;
    else if (ech_parse_time(one, &time, NULL))
        *ret = (double)time;
    else
        return false;
    return true;
}

/* "x0.5", "16GiB", "3": the number and what follows it. */
static bool read_bound(const char *text, double *ret_number, const char **ret_unit)
{
    const char *digits = text + (*text == 'x');
    char *end;
    if (!g_ascii_isdigit(*digits) && *digits != '.')
        return false;
    *ret_number = g_ascii_strtod(digits, &end);
    *ret_unit = end;
    return isfinite(*ret_number) && (*text != 'x' || !*end);
}

static bool read_values(const EchYamlNode *node, EchFind *find, GError **error)
{
    const char *text = node->kind == ECH_YAML_SCALAR ? node->text : "", *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL;
    const char *start = close ? open + 1 : text, *dots = strstr(start, "..");
    double from_size, to_size;
    const char *from_unit, *to_unit;
    g_autofree char *from = dots ? g_strndup(start, (gsize)(dots - start)) : NULL;
    g_autofree char *to = dots ? (close ? g_strndup(dots + 2, (gsize)MAX(close - dots - 2, 0)) : g_strdup(dots + 2)) : NULL;
    bool ok = dots && (!close || dots < close) && read_bound(from, &find->from, &from_unit) && read_bound(to, &find->to, &to_unit) &&
              (*from == 'x') == (*to == 'x') && unit_size(from_unit, &from_size) && unit_size(to_unit, &to_size);
    if (ok) {
        find->per_unit = *from_unit ? to_size / from_size : 1;
        find->from /= find->per_unit;
        ok = find->from < find->to;
    }
    if (!ok) {
        ech_yaml_error(node, error, "find: expected values like 1GiB..16GiB, x0.1..x2, 1..8 or prefetch:budget={1MiB..1GiB}, the smaller first");
        return false;
    }
    find->before = g_strdup_printf("%.*s%s", close ? (int)(open - text) : 0, text, *to == 'x' ? "x" : "");
    find->after = g_strdup(close ? close + 1 : "");
    find->unit = g_strdup(to_unit);
    find->small_unit = g_strdup(*from_unit ? from_unit : to_unit);
    find->whole = *to != 'x' && !*to_unit && !strchr(from, '.') && !strchr(to, '.');
    find->values = g_strdup(text);
    return true;
}

static bool read_goal(const EchYamlNode *node, const char *text, EchFind *find, GError **error)
{
    const char *sign = strstr(text, "<=");
    if (strcmp(text, "fits") == 0)
        return true;
    Goal goal = {NULL, false, 0};
    EchBytes bytes;
    EchTime time;
    bool ok = sign && sign > text;
    goal.what = ok ? g_strstrip(g_strndup(text, (gsize)(sign - text))) : NULL;
    g_autofree char *limit = ok ? g_strstrip(g_strdup(sign + 2)) : NULL;
    if (ok && *limit == 'x') {
        goal.relative = true;
        ok = ech_parse_double(limit + 1, &goal.limit, NULL) && goal.limit > 0;
    } else if (ok && strcmp(goal.what, "time") == 0) {
        ok = ech_parse_time(limit, &time, NULL);
        goal.limit = ok ? (double)time : 0;
    } else if (ok) {
        ok = ech_parse_bytes(limit, &bytes, NULL);
        goal.limit = ok ? (double)bytes : 0;
    }
    if (!ok) {
        g_free(goal.what);
        ech_yaml_error(node, error, "for: '%s' cannot be asked for; expected fits, time<=10ms, time<=x1.05 or hbm<=4GiB", text);
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
        ech_yaml_error(node, error,
                       "find: expected a path and values, like {path: device.memories.hbm.capacity, values: 1GiB..16GiB}; or --find PATH=1GiB..16GiB");
        return NULL;
    }
    if (asked && !read_list(asked, goals)) {
        ech_yaml_error(asked, error, "for: expected fits, time<=10ms, time<=x1.05 or hbm<=4GiB, or a list of such");
        return NULL;
    }
    if (!read_values(values, find, error))
        return NULL;
    for (guint i = 0; i < goals->len; i++) {
        if (!read_goal(asked, goals->pdata[i], find, error))
            return NULL;
    }
    find->name = name && name->kind == ECH_YAML_SCALAR ? g_strdup(name->text) : name_of(paths->pdata[0], find->before);
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
} Try;

static void try_clear(void *data)
{
    Try *t = data;
    ech_case_free(t->own);
    g_free(t->point.json);
    g_free(t->point.error);
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
    g_autoptr(EchResult) result = ech_experiment_run_case(experiment, c, error);
    if (!result)
        return NULL;
    for (guint i = 0; i < experiment->find->goals->len; i++) {
        const char *what = g_array_index(experiment->find->goals, Goal, i).what;
        if (strcmp(what, "time") == 0 || ech_device_memory(result->device, what))
            continue;
        g_autoptr(GPtrArray) names = g_ptr_array_new();
        for (size_t k = 0; k < result->device->n_memories; k++)
            g_ptr_array_add(names, result->device->memories[k].name);
        g_ptr_array_add(names, NULL);
        g_autofree char *all = g_strjoinv(", ", (char **)names->pdata);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "for: '%s' is no memory of %s; expected time or one of %s", what, result->device->name, all);
        return NULL;
    }
    EchReport report = ech_result_report(result);
    report.brief = experiment->brief;
    return ech_report_json(&report);
}

/* The run that relative goals are held against; it must have come to its end, for what it took until it found no room says nothing. */
static bool run_base(Search *search, GError **error)
{
    search->base = run_json(search->experiment, search->of, error);
    if (!search->base || ech_member_bool(json_node_get_object(search->base), "completed"))
        return search->base != NULL;
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                "for: '%s' is held against the run without the edit, which does not fit and so has no time; expected time<=10ms or hbm<=4GiB, or a device that "
                "it fits",
                search->find->asked);
    return false;
}

/* Index of the try, or -1. */
static int try_number(Search *search, double number, GError **error)
{
    const EchFind *find = search->find;
    g_autofree char *text = number_text(find, number);
    g_autofree char *value = g_strconcat(find->before, text, find->after, NULL);
    g_autofree char *label = g_strconcat(g_str_has_suffix(find->before, "x") ? "x" : "", text, NULL);
    Try t = {number, ech_case_vary(search->of, find->name, label, (const char *const *)find->paths, value, error), {NULL, NULL}, false};
    if (!t.own)
        return -1;
    g_autoptr(JsonNode) node = run_json(search->experiment, t.own, error);
    if (!node) {
        ech_case_free(t.own);
        return -1;
    }
    t.holds = holds(search, json_node_get_object(node));
    t.point.json = ech_json_print(node);
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
    if (search->interrupted)
        ech_json_add_bool(b, "interrupted", true);
    ech_json_add_text(b, "text", line->str);
    json_builder_end_object(b);
}

static int compare_tries(const void *a, const void *b)
{
    const Try *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
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
    t->point = (EchSweepPoint){NULL, NULL};
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
    g_array_sort(tries, compare_tries);
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

/* A combination that an interrupt came before. */
static bool leave_out(EchFound *found, const EchFind *find, const EchExperiment *experiment, size_t index, GString *text, GError **error)
{
    const EchCase *of = &experiment->cases[index];
    g_autofree char *number = number_text(find, find->from), *value = g_strconcat(find->before, number, find->after, NULL);
    EchCase *none = ech_case_vary(of, find->name, "none", (const char *const *)find->paths, value, error);
    if (!none)
        return false;
    Try t = {find->from, none, {NULL, g_strdup(ech_sweep_interrupted)}, false};
    g_autofree char *values = g_strjoinv(", ", of->values), *label = g_strconcat(values, ", none", NULL);
    take(found, index, &t, label);
    g_string_append_printf(text, "%s: %s.\n", of->label, ech_sweep_interrupted);
    found->somewhere = false;
    return true;
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
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (i > 0 && ech_stopped(stop)) {
            ok = leave_out(found, find, experiment, i, text, error);
            continue;
        }
        Search search = {find, experiment, &experiment->cases[i], NULL, g_array_new(FALSE, FALSE, sizeof(Try)), stop, false};
        g_array_set_clear_func(search.tries, try_clear);
        int at[2] = {-1, -1};
        ok = search_one(&search, progress, data, i * USUAL_RUNS, total, at, error);
        if (ok)
            tell(&search, at, found, text, b);
        if (ok && n == 1) {
            show_tries(found, find, experiment, search.tries, at);
        } else if (ok) {
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
    if (!ok)
        return NULL;
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
