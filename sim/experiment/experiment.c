/* Reads an experiment: edits, axes, cases. */
#include "sim/experiment/experiment_private.h"

#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/experiment/find.h"
#include "sim/pass/pass.h"

#include <string.h>

enum { MAX_CASES = 10000 };

static void cached_clear(void *data)
{
    EchCachedImport *cached = data;
    g_free(cached->key);
    if (!cached->borrowed)
        ech_import_free(cached->import);
    g_clear_pointer(&cached->selected, ech_trace_unref);
    g_free(cached->pageable);
    g_free(cached->allocator);
    g_clear_pointer(&cached->start, ech_alloc_start_free);
    g_clear_pointer(&cached->owners, g_array_unref);
}

static void case_clear(void *data)
{
    EchCase *c = data;
    g_free(c->label);
    g_strfreev(c->values);
    g_strfreev(c->settings);
    g_strfreev(c->edits);
    ech_yaml_free(c->config);
}

void ech_case_free(EchCase *c)
{
    if (c)
        case_clear(c);
    g_free(c);
}

static struct EchImportCache *cache_new(void)
{
    struct EchImportCache *cache = g_new0(struct EchImportCache, 1);
    cache->items = g_array_new(FALSE, FALSE, sizeof(EchCachedImport));
    g_array_set_clear_func(cache->items, cached_clear);
    cache->devices = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, (GDestroyNotify)ech_yaml_free);
    return cache;
}

void ech_experiment_free(EchExperiment *experiment)
{
    if (!experiment)
        return;
    for (size_t i = 0; i < experiment->n_cases; i++)
        case_clear(&experiment->cases[i]);
    g_free(experiment->cases);
    if (experiment->plain)
        case_clear(experiment->plain);
    g_free(experiment->plain);
    g_strfreev(experiment->axes);
    g_free(experiment->axis_sizes);
    for (size_t i = 0; experiment->axis_bases && experiment->axis_bases[i]; i++)
        g_free(experiment->axis_bases[i]);
    g_free(experiment->axis_bases);
    g_free(experiment->title);
    g_free(experiment->path);
    g_clear_pointer(&experiment->places, g_hash_table_unref);
    ech_find_free(experiment->find);
    if (experiment->cache) {
        g_array_unref(experiment->cache->items);
        g_hash_table_unref(experiment->cache->devices);
        g_clear_pointer(&experiment->cache->parts, g_ptr_array_unref);
        g_free(experiment->cache);
    }
    g_free(experiment);
}

/* Reading */

#define KEY(name, doc, example) name,
static const char *const root_keys[] = {
#include "sim/experiment/keys.def"
    NULL};
#undef KEY

/* Where an edit stands is kept beside its text; its message says "--set EDIT" in front, as if it had been given on the command line. */
static void note_place(GHashTable *places, const char *edit, const EchYamlNode *node)
{
    if (node->line && !g_hash_table_contains(places, edit))
        g_hash_table_insert(places, g_strdup(edit), ech_yaml_place(node));
}

void ech_experiment_say_place(GHashTable *places, GError *error)
{
    size_t longest = 0;
    GHashTableIter iter;
    void *edit, *place;
    g_autofree char *better = NULL;
    g_hash_table_iter_init(&iter, places);
    while (g_hash_table_iter_next(&iter, &edit, &place)) {
        g_autofree char *given = g_strdup_printf("--set %s: ", (char *)edit);
        if (strlen(given) <= longest || !g_str_has_prefix(error->message, given))
            continue;
        longest = strlen(given);
        g_free(better);
        better = g_strdup_printf("%s: %s: %s", (char *)place, (char *)edit, error->message + longest);
    }
    if (better) {
        g_free(error->message);
        error->message = g_steal_pointer(&better);
    }
}

static bool is_device_edit(const char *edit)
{
    return g_str_has_prefix(edit, "device.");
}

/* What a path lacks that begins inside the device, or NULL. */
static const char *missing_of(const char *path)
{
    static const struct {
        const char *begins, *lacks;
    } sections[] = {{"memories.", "device."},      {"links.", "device."},           {"units.", "device."},           {"runtime.", "device."},
                    {"cores", "device."},          {"hbm.", "device.memories."},    {"vector.", "device.memories."}, {"scalar.", "device.memories."},
                    {"host.to_", "device.links."}, {"host.from_", "device.links."}, {"nvlink.", "device.links."},    {"network.", "device.links."},
                    {"ici.", "device.links."},     {"kernel.", "device."}};
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
        if (g_str_has_prefix(path, sections[i].begins))
            return sections[i].lacks;
    }
    return NULL;
}

/* Adds the passes of an edit "passes=..." to those of the case, which come first. */
static void add_passes(EchYamlNode *config, const char *edit)
{
    g_autofree char *place = g_strdup_printf("--set %s", edit);
    const EchYamlNode *before = ech_yaml_get(config, "passes");
    EchYamlNode *all = ech_yaml_new_list(place);
    if (before && before->kind == ECH_YAML_SCALAR)
        ech_yaml_append(all, ech_yaml_copy(before));
    for (size_t i = 0; before && before->kind == ECH_YAML_LIST && i < before->n; i++)
        ech_yaml_append(all, ech_yaml_copy(before->items[i]));
    ech_yaml_append(all, ech_yaml_new_scalar(strchr(edit, '=') + 1, place));
    ech_yaml_put(config, "passes", all);
}

/* Whether an edit is of one of these keys, or of something in it. */
static bool is_of_key(const char *edit, const char *const *keys)
{
    g_autofree char *key = g_strndup(edit, strcspn(edit, ".="));
    return g_strv_contains(keys, key);
}

/* Applies one edit to a case: to its device's list, or to its configuration. What says which cases there are is nothing of one of them. */
static bool apply_edit(EchYamlNode *config, GPtrArray *settings, GPtrArray *edits, const char *edit, GError **error)
{
    static const char *const whole[] = {"set", "sweep", "find", NULL};
    if (is_of_key(edit, whole)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "--set %s: that is of the whole experiment, and a setting is of each of its runs; 'echelon help experiment' tells what can be set", edit);
        return false;
    }
    g_ptr_array_add(edits, g_strdup(edit));
    if (is_device_edit(edit)) {
        g_ptr_array_add(settings, g_strdup(edit + strlen("device.")));
        return true;
    }
    const char *lacks = missing_of(edit);
    bool size = g_str_has_prefix(edit, "hbm=");
    if (lacks || size) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--set %s: that is the device's; did you mean '%s%s'?", edit,
                    size ? "device.memories.hbm.capacity" : lacks, size ? edit + strlen("hbm") : edit);
        return false;
    }
    return ech_yaml_edit(config, "", edit, error);
}

/* The same of what is varied: passes are added to those that hold for all and to those of other axes. */
static bool apply_variation(EchYamlNode *config, GPtrArray *settings, GPtrArray *edits, const char *edit, GError **error)
{
    if (!g_str_has_prefix(edit, "passes="))
        return apply_edit(config, settings, edits, edit, error);
    g_ptr_array_add(edits, g_strdup(edit));
    add_passes(config, edit);
    return true;
}

typedef struct {
    char *name;
    GPtrArray *paths;  /* char * */
    GPtrArray *values; /* char * */
    GPtrArray *labels; /* char * */
    GArray *bases;     /* size_t */
} Axis;

static void axis_clear(void *data)
{
    Axis *axis = data;
    g_free(axis->name);
    g_ptr_array_unref(axis->paths);
    g_ptr_array_unref(axis->values);
    g_ptr_array_unref(axis->labels);
    g_array_unref(axis->bases);
}

static char *edit_of(const Axis *axis, size_t path, size_t value)
{
    return g_strdup_printf("%s=%s", (const char *)axis->paths->pdata[path], (const char *)axis->values->pdata[value]);
}

/* A text, or a list of texts, appended to @out; @what names them in the error. */
static bool read_texts(const EchYamlNode *node, const char *what, GPtrArray *out, GError **error)
{
    if (node->kind == ECH_YAML_SCALAR) {
        g_ptr_array_add(out, g_strdup(node->text));
        return true;
    }
    for (size_t i = 0; i < node->n; i++) {
        if (node->kind != ECH_YAML_LIST || node->items[i]->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node, error, "%s: expected a list of texts%s", what,
                           strcmp(what, "values") == 0 ? "; several passes are one text, \"offload:idle=0 prefetch\", none is \"\"" : "");
            return false;
        }
        g_ptr_array_add(out, g_strdup(node->items[i]->text));
    }
    return true;
}

static char *short_name(const char *value)
{
    static const char *const endings[] = {".gz", ".txt", ".hlo", ".pb", ".yaml", ".ech", ".json", NULL};
    char *name = strchr(value, '/') ? g_path_get_basename(value) : g_strdup(value);
    for (const char *const *ending = endings; *ending; ending++) {
        if (g_str_has_suffix(name, *ending) && strlen(name) > strlen(*ending))
            name[strlen(name) - strlen(*ending)] = '\0';
    }
    return name;
}

/* A count, a factor or a size as a number. */
static bool value_of(const char *text, double *ret)
{
    EchBytes bytes;
    char *end;
    *ret = g_ascii_strtod(text + (*text == 'x'), &end);
    if (end != text + (*text == 'x') && !*end)
        return true;
    if (!ech_parse_bytes(text, &bytes, NULL) && !ech_parse_rate(text, &bytes, NULL))
        return false;
    *ret = (double)bytes;
    return true;
}

/* Numbers that ascend or descend. */
static bool is_series(const EchYamlNode *values)
{
    double before = 0;
    int way = 0;
    for (size_t i = 0; i < values->n; i++) {
        double value;
        if (!value_of(values->items[i]->text, &value) || (i > 0 && (value == before || way * (value - before) < 0)))
            return false;
        way = i > 0 ? (value > before ? 1 : -1) : 0;
        before = value;
    }
    return true;
}

/* What each value is compared with. */
static bool read_bases(const EchYamlNode *values, const EchYamlNode *against, Axis *axis, GError **error)
{
    bool series = is_series(values);
    for (size_t i = 0; i < values->n; i++) {
        size_t base = series && i > 0 ? i - 1 : 0;
        if (against && (against->kind != ECH_YAML_LIST || against->n != values->n || against->items[i]->kind != ECH_YAML_SCALAR))
            return ech_yaml_error(against, error, "against: expected a list of %zu values or labels", values->n), false;
        for (size_t k = 0; against && k <= values->n; k++) {
            if (k == values->n)
                return ech_yaml_error(against->items[i], error, "against: '%s' is no value of this axis", against->items[i]->text), false;
            base = k;
            if (strcmp(values->items[k]->text, against->items[i]->text) == 0 || strcmp(axis->labels->pdata[k], against->items[i]->text) == 0)
                break;
        }
        g_array_append_val(axis->bases, base);
    }
    return true;
}

/* What people call what is a path of the device, or NULL. */
static const char *path_called(const char *word)
{
    static const struct {
        const char *word, *path;
    } words[] = {{"hbm", "device.memories.hbm.capacity"},      {"memory", "device.memories.hbm.capacity"},       {"vram", "device.memories.hbm.capacity"},
                 {"capacity", "device.memories.hbm.capacity"}, {"vmem", "device.memories.vector.capacity"},      {"pcie", "device.links.host.to_device"},
                 {"to_device", "device.links.host.to_device"}, {"from_device", "device.links.host.from_device"}, {"nvlink", "device.links.nvlink.to_device"},
                 {"clock", "device.units.matrix.clock"}};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (g_ascii_strcasecmp(words[i].word, word) == 0)
            return words[i].path;
    }
    return NULL;
}

static bool is_pass(const char *name)
{
    size_t n;
    const EchPassClass *const *classes = ech_pass_classes(&n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(classes[i]->name, name) == 0)
            return true;
    }
    return false;
}

/* Can @text be varied? @node: where it stands. */
static bool check_path(const EchYamlNode *node, const char *text, GError **error)
{
    g_autofree char *head = g_strndup(text, strcspn(text, "."));
    g_autofree char *pass = g_strndup(text, strcspn(text, ".:"));
    bool passes = g_str_has_prefix(text, "passes.");
    if (passes || is_pass(pass)) {
        const char *rest = passes ? text + strlen("passes.") : text;
        g_autofree char *spec = g_strdup(rest[strcspn(rest, ".:")] ? rest : "prefetch:depth");
        g_strdelimit(spec, ".", ':');
        ech_yaml_error(node, error, "path: '%s' cannot be varied; expected path: passes, with values like \"%s=1\", or of find \"%s={1..8}\"", text, spec,
                       spec);
        return false;
    }
    static const char *const own[] = {"sweep", "find", "set", NULL};
    if (g_strv_contains(root_keys, head) && !g_strv_contains(own, head))
        return true;
    const char *lacks = missing_of(text), *called = path_called(text);
    const char *nearest = lacks ? lacks : called ? called : g_strv_contains(own, head) ? NULL : ech_nearest_name(head, root_keys);
    ech_yaml_error(node, error, "path: '%s' cannot be varied%s%s%s%s", text, nearest ? "; did you mean '" : "", nearest ? nearest : "", lacks ? text : "",
                   nearest ? "'?" : "; 'echelon help experiment' tells what can");
    return false;
}

/* The first of @texts that stands there once more, or NULL. */
static const char *first_again(char *const *texts, size_t n)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(ech_hash_text, g_str_equal);
    for (size_t i = 0; i < n; i++) {
        if (!g_hash_table_add(seen, texts[i]))
            return texts[i];
    }
    return NULL;
}

/* What tells values of an axis apart: of files their names alone, unless two of one name lie in different folders. */
static void label_values(Axis *axis, bool names_files)
{
    for (int whole = !names_files; whole <= 1; whole++) {
        g_ptr_array_set_size(axis->labels, 0);
        for (guint i = 0; i < axis->values->len; i++) {
            const char *value = axis->values->pdata[i];
            g_ptr_array_add(axis->labels, !*value ? g_strdup("none") : whole ? g_strdup(value) : short_name(value));
        }
        if (!first_again((char *const *)axis->labels->pdata, axis->labels->len))
            return;
    }
}

/* Can each of them be varied? One that stands there twice would be multiplied twice, by values that are told once. */
static bool check_paths(const EchYamlNode *node, char *const *paths, size_t n, GError **error)
{
    for (size_t i = 0; i < n; i++) {
        if (!check_path(node, paths[i], error))
            return false;
    }
    const char *twice = first_again(paths, n);
    if (twice)
        ech_yaml_error(node, error, "path: '%s' stands here twice", twice);
    return !twice;
}

static bool read_axis(const EchYamlNode *node, GArray *axes, GHashTable *places, GError **error)
{
    static const char *const keys[] = {"path", "values", "name", "labels", "against", NULL};
    if (!ech_yaml_check_keys(node, "sweep", keys, error))
        return false;
    Axis axis = {NULL, g_ptr_array_new_with_free_func(g_free), g_ptr_array_new_with_free_func(g_free), g_ptr_array_new_with_free_func(g_free),
                 g_array_new(FALSE, FALSE, sizeof(size_t))};
    const EchYamlNode *path = ech_yaml_get(node, "path"), *values = ech_yaml_get(node, "values"), *labels = ech_yaml_get(node, "labels"),
                      *name = ech_yaml_get(node, "name");
    bool ok = path && values && values->kind == ECH_YAML_LIST && values->n > 0;
    if (!ok && path && values)
        ech_yaml_error(values, error, "values: %s%s%s; expected something like [x0.5, x1, x2] ('find' takes a range)",
                       values->kind == ECH_YAML_SCALAR ? "'" : "", values->kind == ECH_YAML_SCALAR ? values->text : "",
                       values->kind == ECH_YAML_SCALAR ? "' is no list"
                       : values->kind == ECH_YAML_LIST ? "nothing is in the list"
                                                       : "a map is no list");
    else if (!ok)
        ech_yaml_error(node, error, "sweep: expected a path and a list of values");
    ok = ok && read_texts(path, "path", axis.paths, error) && read_texts(values, "values", axis.values, error) &&
         (!labels || read_texts(labels, "labels", axis.labels, error));
    if (ok && name && name->kind != ECH_YAML_SCALAR) {
        ech_yaml_error(name, error, "name: expected one text");
        ok = false;
    }
    if (ok && axis.paths->len == 0) {
        ech_yaml_error(path, error, "path: expected what to vary, such as device.memories.hbm.capacity");
        ok = false;
    }
    if (ok && labels && axis.labels->len != axis.values->len) {
        ech_yaml_error(labels, error, "labels: %u of them for %u values", axis.labels->len, axis.values->len);
        ok = false;
    }
    const char *twice = ok ? first_again((char *const *)axis.labels->pdata, axis.labels->len) : NULL;
    if (twice) {
        ech_yaml_error(labels, error, "labels: '%s' stands for two values", twice);
        ok = false;
    }
    ok = ok && check_paths(path, (char *const *)axis.paths->pdata, axis.paths->len, error);
    if (!ok) {
        axis_clear(&axis);
        return false;
    }
    const char *first = axis.paths->pdata[0], *dot = strrchr(first, '.');
    axis.name = name ? g_strdup(name->text) : g_strdup(dot ? dot + 1 : first);
    bool names_files = strcmp(first, "trace") == 0 || strcmp(first, "device") == 0 || strcmp(first, "beside") == 0;
    if (!labels)
        label_values(&axis, names_files);
    for (guint i = 0; i < axis.values->len; i++) {
        char **value = (char **)&axis.values->pdata[i];
        if (names_files && **value) {
            char *resolved = strcmp(first, "device") == 0 ? ech_experiment_device_path(values->items[i]) : ech_experiment_trace_path(values->items[i]);
            g_free(*value);
            *value = resolved;
        }
    }
    for (guint i = 0; i < axis.values->len; i++) {
        for (guint j = 0; j < axis.paths->len; j++) {
            g_autofree char *edit = edit_of(&axis, j, i);
            note_place(places, edit, values->items[i]);
        }
    }
    if (!read_bases(values, ech_yaml_get(node, "against"), &axis, error)) {
        axis_clear(&axis);
        return false;
    }
    g_array_append_val(axes, axis);
    return true;
}

static char **steal_strv(GPtrArray *array)
{
    g_ptr_array_add(array, NULL);
    return (char **)g_ptr_array_steal(array, NULL);
}

static bool lay_out_case(const EchExperiment *experiment, EchCase *c, const EchYamlNode *root, const GPtrArray *edits, GArray *axes, size_t index,
                         GError **error)
{
    c->config = ech_yaml_copy(root);
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) said = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) label = g_string_new(NULL);
    for (guint i = 0; i < edits->len; i++) {
        if (!apply_edit(c->config, settings, said, edits->pdata[i], error))
            return false;
    }
    size_t rest = index, stride = experiment->n_cases;
    for (guint i = 0; i < axes->len; i++) {
        const Axis *axis = &g_array_index(axes, Axis, i);
        stride /= axis->values->len;
        size_t at = rest / stride;
        rest %= stride;
        g_string_append_printf(label, "%s%s=%s", i ? ", " : "", axis->name, (const char *)axis->labels->pdata[at]);
        g_ptr_array_add(values, g_strdup(axis->labels->pdata[at]));
        for (guint j = 0; j < axis->paths->len; j++) {
            g_autofree char *edit = edit_of(axis, j, at);
            if (!apply_variation(c->config, settings, said, edit, error))
                return false;
        }
    }
    c->label = g_strdup(label->str);
    c->values = steal_strv(values);
    c->settings = steal_strv(settings);
    c->edits = steal_strv(said);
    return true;
}

static char **append_text(char **texts, const char *text)
{
    guint n = g_strv_length(texts);
    char **out = g_new0(char *, n + 2);
    for (guint i = 0; i < n; i++)
        out[i] = g_strdup(texts[i]);
    out[n] = g_strdup(text);
    return out;
}

static GPtrArray *array_of(char **texts)
{
    GPtrArray *array = g_ptr_array_new_with_free_func(g_free);
    for (; *texts; texts++)
        g_ptr_array_add(array, g_strdup(*texts));
    return array;
}

EchCase *ech_case_vary(const EchCase *from, const char *name, const char *label, const char *const *paths, const char *value, GError **error)
{
    EchCase *c = g_new0(EchCase, 1);
    c->config = ech_yaml_copy(from->config);
    g_autoptr(GPtrArray) settings = array_of(from->settings), edits = array_of(from->edits);
    bool ok = true;
    for (; ok && *paths; paths++) {
        g_autofree char *edit = g_strdup_printf("%s=%s", *paths, value);
        ok = apply_variation(c->config, settings, edits, edit, error);
    }
    ok = ok && ech_yaml_check_keys(c->config, "experiment", root_keys, error);
    c->label = g_strdup_printf("%s%s%s=%s", from->label, *from->label ? ", " : "", name, label);
    c->values = append_text(from->values, label);
    c->settings = steal_strv(settings);
    c->edits = steal_strv(edits);
    if (!ok)
        g_clear_pointer(&c, ech_case_free);
    return c;
}

static void override(EchYamlNode *root, const char *key, const char *value)
{
    if (!value)
        return;
    g_autofree char *option = g_strdup_printf("--%s", key);
    ech_yaml_put(root, key, ech_yaml_new_scalar(value, g_strdelimit(option, "_", '-')));
}

static void remove_key(EchYamlNode *map, const char *key)
{
    for (size_t i = 0; i < map->n; i++) {
        if (strcmp(map->keys[i], key) != 0)
            continue;
        g_free(map->keys[i]);
        ech_yaml_free(map->items[i]);
        memmove(map->keys + i, map->keys + i + 1, (map->n - i - 1) * sizeof *map->keys);
        memmove(map->items + i, map->items + i + 1, (map->n - i - 1) * sizeof *map->items);
        map->n--;
        return;
    }
}

static bool read_sets(const EchYamlNode *set, GPtrArray *edits, GHashTable *places, GError **error)
{
    if (!set)
        return true;
    if (set->kind != ECH_YAML_MAP) {
        ech_yaml_error(set, error, "set: expected paths with their values");
        return false;
    }
    for (size_t i = 0; i < set->n; i++) {
        if (set->items[i]->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(set->items[i], error, "set: expected one value for '%s'", set->keys[i]);
            return false;
        }
        char *edit = g_strdup_printf("%s=%s", set->keys[i], set->items[i]->text);
        g_ptr_array_add(edits, edit);
        note_place(places, edit, set->items[i]);
    }
    return true;
}

/* An edit of what is run on, not of what is run; engines agree. */
static bool is_what_if(const char *edit)
{
    if (g_str_has_prefix(edit, "replay.engine="))
        return false;
    return is_device_edit(edit) || g_str_has_prefix(edit, "replay.") || g_str_has_prefix(edit, "allocator=") || g_str_has_prefix(edit, "host_allocator=");
}

/* The case as it would be without what the command line makes of it. @root: as the file has it, trace and device given. */
static bool lay_out_plain(EchExperiment *experiment, const EchYamlNode *root, const EchExperimentOverrides *overrides, const GPtrArray *edits, guint n_own,
                          GError **error)
{
    bool differs = (overrides->passes && *overrides->passes) || overrides->allocator || overrides->host_allocator;
    g_autoptr(GPtrArray) kept = g_ptr_array_new(); /* borrowed */
    for (guint i = 0; i < edits->len; i++) {
        if (i >= n_own && is_what_if(edits->pdata[i]))
            differs = true;
        else
            g_ptr_array_add(kept, edits->pdata[i]);
    }
    if (!differs || experiment->n_cases != 1)
        return true;
    static char native[] = "replay.engine=native"; /* The same times, and no second worker. */
    g_ptr_array_add(kept, native);
    g_autoptr(GArray) no_axes = g_array_new(FALSE, FALSE, sizeof(Axis));
    experiment->plain = g_new0(EchCase, 1);
    return lay_out_case(experiment, experiment->plain, root, kept, no_axes, 0, error);
}

/* Whether all its values multiply what stands there. */
static bool multiplies(const Axis *axis)
{
    for (guint i = 0; i < axis->values->len; i++) {
        const char *value = axis->values->pdata[i];
        if (value[0] != 'x' || !(g_ascii_isdigit(value[1]) || value[1] == '.'))
            return false;
    }
    return true;
}

/* The axis over @path, or NULL; of passes, which are added, none. @alone: one that decides alone, with values that are no factors of what stands there. */
static const Axis *axis_over(const GArray *axes, const char *path, bool alone)
{
    for (guint k = 0; strcmp(path, "passes") != 0 && k < axes->len; k++) {
        const Axis *axis = &g_array_index(axes, Axis, k);
        if (!(alone && multiplies(axis)) && g_ptr_array_find_with_equal_func(axis->paths, path, g_str_equal, NULL))
            return axis;
    }
    return NULL;
}

/* Of two axes over one path the last would decide alone, and the other's values would be told beside results that they have no part in. Passes add up, and so
 * do factors. */
static bool check_apart(const Axis *axis, const GArray *axes, const EchYamlNode *node, GError **error)
{
    for (guint i = 0; !multiplies(axis) && i < axis->paths->len; i++) {
        const char *path = axis->paths->pdata[i];
        const Axis *before = axis_over(axes, path, false);
        if (before && before != axis) {
            ech_yaml_error(node, error, "sweep: '%s' is varied by the axis '%s' already; expected factors (x0.5) here, or one axis", path, before->name);
            return false;
        }
    }
    return true;
}

/* What is to be varied: the axes of the tree's sweep, and how many runs they make. */
static bool read_sweep(const EchYamlNode *sweep, GArray *axes, GHashTable *places, size_t *ret_cases, GError **error)
{
    if (sweep && sweep->kind != ECH_YAML_LIST) {
        ech_yaml_error(sweep, error, "sweep: expected a list of axes, each {path: ..., values: [...]}");
        return false;
    }
    size_t n_cases = 1;
    for (size_t i = 0; sweep && i < sweep->n; i++) {
        if (!read_axis(sweep->items[i], axes, places, error))
            return false;
        const Axis *axis = &g_array_index(axes, Axis, axes->len - 1);
        if (!check_apart(axis, axes, sweep->items[i], error))
            return false;
        n_cases *= axis->values->len;
        if (n_cases > MAX_CASES) {
            ech_yaml_error(sweep, error, "sweep: more than %d runs", MAX_CASES);
            return false;
        }
    }
    *ret_cases = n_cases;
    return true;
}

/* What options of their own say, by the paths that settings and sweeps have for it. */
#define N_GIVEN 5
typedef struct {
    const char *path, *option, *value; /* value NULL: not given */
} Given;

static void read_given(const EchExperimentOverrides *overrides, Given given[N_GIVEN])
{
    given[0] = (Given){"trace", "--trace", overrides->trace};
    given[1] = (Given){"device", "--device", overrides->device};
    given[2] = (Given){"allocator", "--allocator", overrides->allocator};
    given[3] = (Given){"host_allocator", "--host-allocator", overrides->host_allocator};
    given[4] = (Given){"replay.engine", "--engine", overrides->engine};
}

/* An axis that the command line gives other values ("sweep.0.values=[x1, x3]") is told by them, and not by what the file calls its own. */
static void forget_labels(EchYamlNode *root, const char *setting)
{
    const EchYamlNode *sweep = ech_yaml_get(root, "sweep");
    for (size_t i = 0; sweep && sweep->kind == ECH_YAML_LIST && i < sweep->n; i++) {
        static const char *const keys[] = {"labels", "against"};
        g_autofree char *values = g_strdup_printf("sweep.%zu.values=", i);
        for (size_t k = 0; k < G_N_ELEMENTS(keys) && g_str_has_prefix(setting, values); k++) {
            const EchYamlNode *said = ech_yaml_get(sweep->items[i], keys[k]);
            if (said && said->line)
                remove_key(sweep->items[i], keys[k]);
        }
    }
}

/* Nor because the command line says it otherwise elsewhere: --engine native --set replay.engine=simgrid. */
static bool check_agreed(const EchExperimentOverrides *overrides, GError **error)
{
    Given given[N_GIVEN];
    read_given(overrides, given);
    for (const char *const *setting = overrides->settings; setting && *setting; setting++) {
        for (size_t i = 0; i < N_GIVEN; i++) {
            size_t path = strlen(given[i].path);
            if (!given[i].value || !g_str_has_prefix(*setting, given[i].path) || (*setting)[path] != '=' || strcmp(*setting + path + 1, given[i].value) == 0)
                continue;
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s %s: --set %s says otherwise; leave one of them out", given[i].option, given[i].value, *setting);
            return false;
        }
    }
    return true;
}

/* Nothing that the command line says may be without effect, because the sweep decides it. @edits: of the command line from @n_own on. Without a @file the
 * command line has to name a trace and a device, whatever its sweep does. */
static bool check_decided(const char *file, const EchExperimentOverrides *overrides, const GPtrArray *edits, guint n_own, const GArray *axes, GError **error)
{
    Given given[N_GIVEN];
    read_given(overrides, given);
    const Axis *axis = NULL;
    g_autofree char *option = NULL;
    for (size_t i = file ? 0 : 2; !axis && i < N_GIVEN; i++) {
        axis = given[i].value ? axis_over(axes, given[i].path, true) : NULL;
        option = axis ? g_strdup(given[i].option) : NULL;
    }
    for (guint i = n_own; !axis && i < edits->len; i++) {
        const char *edit = edits->pdata[i];
        g_autofree char *path = g_strndup(edit, strcspn(edit, "="));
        axis = axis_over(axes, path, true);
        option = axis ? g_strdup_printf("--set %s", edit) : NULL;
    }
    if (!axis)
        return true;
    guint index = (guint)(axis - &g_array_index(axes, Axis, 0));
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                "%s: the experiment's sweep decides that, by its axis '%s'; leave it out, or give the axis other values: --set "
                "'sweep.%u.values=[...]'",
                option, axis->name, index);
    return false;
}

static EchYamlNode *list_of_passes(const char *const *passes)
{
    EchYamlNode *list = ech_yaml_new_list("--pass");
    for (; *passes; passes++)
        ech_yaml_append(list, ech_yaml_new_scalar(*passes, "--pass"));
    return list;
}

/* Puts the passes of the command line in the place of the file's. Our placement under other terms is compared with our placement, not with the compiler's. */
static void override_passes(const char *const *passes, EchYamlNode *root, EchYamlNode *plain)
{
    if (!passes || !*passes)
        return;
    ech_yaml_put(root, "passes", list_of_passes(passes));
    for (const char *const *pass = passes; *pass; pass++) {
        if (!g_str_has_prefix(*pass, "place:"))
            continue;
        ech_yaml_put(plain, "passes", list_of_passes((const char *const[]){"place", NULL}));
        break;
    }
}

/* An experiment over @axes, whose cases are still empty. Takes the axes' names and bases. */
static EchExperiment *experiment_new(const char *path, const GArray *axes, GHashTable *places, size_t n_cases)
{
    EchExperiment *experiment = g_new0(EchExperiment, 1);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    experiment->path = g_strdup(path);
    experiment->places = g_hash_table_ref(places);
    experiment->axis_sizes = g_new(size_t, axes->len + 1);
    experiment->axis_bases = g_new0(size_t *, axes->len + 1);
    for (guint i = 0; i < axes->len; i++) {
        const Axis *axis = &g_array_index(axes, Axis, i);
        g_ptr_array_add(names, g_strdup(axis->name));
        experiment->axis_sizes[i] = axis->values->len;
        experiment->axis_bases[i] = (size_t *)(void *)g_array_steal(axis->bases, NULL);
    }
    experiment->axes = steal_strv(names);
    experiment->cases = g_new0(EchCase, n_cases);
    experiment->n_cases = n_cases;
    experiment->of_device = ECH_NONE;
    experiment->cache = cache_new();
    return experiment;
}

EchExperiment *ech_experiment_part_new(const EchExperiment *of)
{
    EchExperiment *part = g_new0(EchExperiment, 1);
    part->title = g_strdup(of->title);
    part->path = g_strdup(of->path);
    part->places = of->places ? g_hash_table_ref(of->places) : NULL;
    part->cache = cache_new();
    return part;
}

/* --find PATH,PATH=FROM..TO and --for GOAL in the place of the file's. */
static bool override_find(const EchExperimentOverrides *overrides, EchYamlNode *root, GError **error)
{
    const char *equals = overrides->find ? strchr(overrides->find, '=') : NULL;
    if (overrides->find) {
        EchYamlNode *find = ech_yaml_new_map("--find"), *list = ech_yaml_new_list("--find");
        g_autofree char *before = equals ? g_strndup(overrides->find, (gsize)(equals - overrides->find)) : g_strdup("");
        g_auto(GStrv) paths = g_strsplit(before, ",", -1);
        for (char **path = paths; *path; path++)
            ech_yaml_append(list, ech_yaml_new_scalar(*path, "--find"));
        ech_yaml_put(find, "path", list);
        ech_yaml_put(find, "values", ech_yaml_new_scalar(equals ? equals + 1 : "", "--find"));
        ech_yaml_put(root, "find", find);
    }
    EchYamlNode *find = ech_yaml_get(root, "find");
    if (overrides->goals && !find) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--for: what --find asks for; expected --find PATH=FROM..TO too");
        return false;
    }
    if (overrides->goals && find->kind == ECH_YAML_MAP) {
        EchYamlNode *list = ech_yaml_new_list("--for");
        for (const char *const *goal = overrides->goals; *goal; goal++)
            ech_yaml_append(list, ech_yaml_new_scalar(*goal, "--for"));
        ech_yaml_put(find, "for", list);
    }
    return true;
}

/* What is looked for; taken out of the tree. */
static bool read_find(EchYamlNode *root, const GArray *axes, EchFind **ret, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(root, "find");
    if (!node)
        return true;
    *ret = ech_find_read(node, error);
    if (!*ret)
        return false;
    if (!check_paths(ech_yaml_get(node, "path"), ech_find_paths(*ret), g_strv_length(ech_find_paths(*ret)), error))
        return false;
    for (char **path = ech_find_paths(*ret); *path; path++) {
        const Axis *axis = ech_find_multiplies(*ret) ? NULL : axis_over(axes, *path, false);
        if (axis) {
            ech_yaml_error(ech_yaml_get(node, "path"), error, "find: '%s' is varied by the axis '%s' already; expected factors (x0.5..x2) here, or one of both",
                           *path, axis->name);
            return false;
        }
    }
    return true;
}

static char *title_of(const EchYamlNode *config, const char *path)
{
    const EchYamlNode *trace = ech_yaml_get(config, "trace");
    const char *title = ech_yaml_text(config, "title");
    if (title)
        return g_strdup(title);
    if (path)
        return short_name(path);
    return trace && trace->kind == ECH_YAML_SCALAR ? short_name(trace->text) : g_strdup("run");
}

/* What an option of the command line put into the configuration is told like an edit. */
static void add_said(EchCase *c, const char *key, const char *value)
{
    if (!value)
        return;
    g_autofree char *edit = g_strdup_printf("%s=%s", key, value);
    char **edits = append_text(c->edits, edit);
    g_strfreev(c->edits);
    c->edits = edits;
}

/* A device of the experiment's own that says which one it is like becomes whole. */
static bool complete_device(EchYamlNode *root, GError **error)
{
    const EchYamlNode *own = ech_yaml_get(root, "device");
    if (!own || own->kind != ECH_YAML_MAP || !ech_yaml_get(own, "base"))
        return true;
    EchYamlNode *whole = ech_device_tree_over_base(own, error);
    if (whole)
        ech_yaml_put(root, "device", whole);
    return whole != NULL;
}

EchExperiment *ech_experiment_load(const char *path, const EchExperimentOverrides *overrides, GError **error)
{
    g_autoptr(EchYamlNode) root = path ? ech_yaml_load(path, error) : ech_yaml_new_map("command line");
    if (root && (ech_yaml_get(root, "base") || ech_yaml_get(root, "memories"))) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: that is a device's file; expected an experiment, or 'echelon run --trace FILE --device %s'", path,
                    path);
        return NULL;
    }
    if (!root || !ech_yaml_check_keys(root, "experiment", root_keys, error))
        return NULL;
    override(root, "trace", overrides->trace);
    override(root, "device", overrides->device);
    override(root, "format", overrides->format);
    override(root, "beside", overrides->beside);
    override(root, "step", overrides->step);
    if (!override_find(overrides, root, error) || !complete_device(root, error))
        return NULL;
    /* What the command line does not change: the run that the others are compared with. */
    g_autoptr(EchYamlNode) plain = ech_yaml_copy(root);
    override(root, "allocator", overrides->allocator);
    override(root, "host_allocator", overrides->host_allocator);
    override_passes(overrides->passes, root, plain);
    g_autoptr(GPtrArray) edits = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) places = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, g_free);
    if (!read_sets(ech_yaml_get(root, "set"), edits, places, error))
        return NULL;
    guint n_own = edits->len;
    if (!check_agreed(overrides, error))
        return NULL;
    if (overrides->engine)
        g_ptr_array_add(edits, g_strdup_printf("replay.engine=%s", overrides->engine));
    for (const char *const *setting = overrides->settings; setting && *setting; setting++) {
        /* The sweep is laid out below, and what is looked for is read there, so their edits come first. */
        static const char *const first[] = {"sweep", "find", NULL};
        bool comes_first = is_of_key(*setting, first), said = overrides->engine && g_str_has_prefix(*setting, "replay.engine=");
        if (!comes_first && !said)
            g_ptr_array_add(edits, g_strdup(*setting));
        else if (comes_first && !ech_yaml_edit(root, "", *setting, error))
            return NULL;
        forget_labels(root, *setting);
    }
    g_autoptr(GArray) axes = g_array_new(FALSE, FALSE, sizeof(Axis));
    g_array_set_clear_func(axes, axis_clear);
    size_t n_cases;
    if (!read_sweep(ech_yaml_get(root, "sweep"), axes, places, &n_cases, error))
        return NULL;
    g_autoptr(EchFind) find = NULL;
    if (!check_decided(path, overrides, edits, n_own, axes, error) || !read_find(root, axes, &find, error))
        return NULL;
    EchYamlNode *const trees[] = {root, plain};
    for (size_t i = 0; i < G_N_ELEMENTS(trees); i++) {
        remove_key(trees[i], "set");
        remove_key(trees[i], "sweep");
        remove_key(trees[i], "find");
    }
    g_autoptr(EchExperiment) experiment = experiment_new(path, axes, places, n_cases);
    for (size_t i = 0; i < n_cases; i++) {
        if (!lay_out_case(experiment, &experiment->cases[i], root, edits, axes, i, error) ||
            !ech_yaml_check_keys(experiment->cases[i].config, "experiment", root_keys, error)) {
            if (error)
                ech_experiment_say_place(places, *error);
            return NULL;
        }
    }
    for (size_t i = 0; i < n_cases; i++) {
        add_said(&experiment->cases[i], "allocator", overrides->allocator);
        add_said(&experiment->cases[i], "host_allocator", overrides->host_allocator);
    }
    if (n_cases > 1 && !ech_experiment_check_values(experiment, error))
        return NULL;
    if (!lay_out_plain(experiment, plain, overrides, edits, n_own, error))
        return NULL;
    experiment->title = title_of(experiment->cases[0].config, path);
    experiment->find = g_steal_pointer(&find);
    return g_steal_pointer(&experiment);
}
