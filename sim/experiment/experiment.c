#include "sim/experiment/experiment.h"

#include "models/alloc/alloc.h"
#include "models/device/device_yaml.h"
#include "models/kernel/kernel.h"
#include "sim/base/error.h"
#include "sim/base/param.h"
#include "sim/experiment/find.h"
#include "sim/experiment/layers.h"
#include "sim/experiment/product.h"
#include "sim/pass/pass.h"
#include "sim/trace/select.h"

#include <string.h>

enum { MAX_CASES = 10000 };

/* An import that is shared by the cases that read the same file the same way. */
typedef struct {
    char *key;
    EchImport *import;
    EchTrace *selected; /* Of a capture: what was last selected of it, or NULL; and by which device number and pageable memory. */
    uint32_t device;
    char *pageable;
} Cached;

/* What the points of a sweep share. */
struct EchImportCache {
    GArray *items;       /* Cached */
    GHashTable *devices; /* name -> EchYamlNode */
};

static void cached_clear(void *data)
{
    Cached *cached = data;
    g_free(cached->key);
    ech_import_free(cached->import);
    g_clear_pointer(&cached->selected, ech_trace_unref);
    g_free(cached->pageable);
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
        g_free(experiment->cache);
    }
    g_free(experiment);
}

/* Folders */

/* Folders of shipped experiments: beside the program, of the installation, of the source tree. */
static GPtrArray *experiment_folders(void)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    if (program) {
        g_autofree char *beside = g_path_get_dirname(program);
        g_ptr_array_add(folders, g_build_filename(beside, "experiments", NULL));
        g_ptr_array_add(folders, g_build_filename(beside, "..", ECH_INSTALL_DATA, "experiments", NULL));
    }
    g_ptr_array_add(folders, g_build_filename(ECH_SOURCE_CONFIGS, "experiments", NULL));
    return folders;
}

char *ech_experiment_find(const char *name)
{
    if (g_file_test(name, G_FILE_TEST_EXISTS) || strchr(name, '/'))
        return g_strdup(name);
    g_autofree char *file = g_str_has_suffix(name, ".yaml") ? g_strdup(name) : g_strconcat(name, ".yaml", NULL);
    g_autoptr(GPtrArray) folders = experiment_folders();
    for (guint i = 0; i < folders->len; i++) {
        g_autofree char *path = g_build_filename(folders->pdata[i], file, NULL);
        if (g_file_test(path, G_FILE_TEST_EXISTS))
            return g_canonicalize_filename(path, NULL);
    }
    return g_strdup(name);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **ech_experiment_list(void)
{
    g_autoptr(GPtrArray) folders = experiment_folders();
    GPtrArray *names = g_ptr_array_new();
    for (guint i = 0; i < folders->len; i++) {
        g_autoptr(GDir) folder = g_dir_open(folders->pdata[i], 0, NULL);
        const char *file;
        while (folder && (file = g_dir_read_name(folder))) {
            g_autofree char *name = g_str_has_suffix(file, ".yaml") ? g_strndup(file, strlen(file) - strlen(".yaml")) : NULL;
            if (name && !g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL))
                g_ptr_array_add(names, g_steal_pointer(&name));
        }
    }
    if (names->len > 1)
        qsort(names->pdata, names->len, sizeof *names->pdata, compare_texts);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static GPtrArray *trace_folders(void)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(g_free);
    const char *own = g_getenv("ECHELON_TRACES");
    if (own && *own)
        g_ptr_array_add(folders, g_strdup(own));
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    if (program) {
        g_autofree char *beside = g_path_get_dirname(program);
        g_ptr_array_add(folders, g_build_filename(beside, "traces", NULL));
        g_ptr_array_add(folders, g_build_filename(beside, "..", ECH_INSTALL_DATA, "traces", NULL));
    }
    g_ptr_array_add(folders, g_build_filename(ECH_SOURCE_CONFIGS, "..", "traces", NULL));
    return folders;
}

char *ech_trace_find(const char *name, const char *folder)
{
    char *path = g_path_is_absolute(name) || !folder ? g_strdup(name) : g_build_filename(folder, name, NULL);
    if (g_path_is_absolute(name) || g_file_test(path, G_FILE_TEST_EXISTS))
        return path;
    g_autoptr(GPtrArray) folders = trace_folders();
    for (guint i = 0; i < folders->len; i++) {
        g_autofree char *there = g_build_filename(folders->pdata[i], name, NULL);
        if (g_file_test(there, G_FILE_TEST_EXISTS)) {
            g_free(path);
            return g_canonicalize_filename(there, NULL);
        }
    }
    return path;
}

/* The name of a shipped trace that @name was meant to be, or NULL. Owned. */
static char *nearest_trace(const char *name)
{
    g_autoptr(GPtrArray) folders = trace_folders();
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < folders->len; i++) {
        g_autoptr(GDir) folder = g_dir_open(folders->pdata[i], 0, NULL);
        const char *entry;
        while (folder && (entry = g_dir_read_name(folder)))
            g_ptr_array_add(names, g_strdup(entry));
    }
    if (names->len > 1)
        qsort(names->pdata, names->len, sizeof *names->pdata, compare_texts);
    g_ptr_array_add(names, NULL);
    g_autofree char *last = g_path_get_basename(name);
    return g_strdup(ech_nearest_name(last, (const char *const *)names->pdata));
}

/* A name written in a file is relative to that file; one from the command line to where we are. */
static char *folder_of(const EchYamlNode *node)
{
    return node->line ? g_path_get_dirname(node->file) : NULL;
}

static char *resolve_trace(const EchYamlNode *node)
{
    g_autofree char *folder = folder_of(node);
    return ech_trace_find(node->text, folder);
}

static char *resolve_device(const EchYamlNode *node)
{
    g_autofree char *folder = folder_of(node);
    bool is_path = strchr(node->text, '/') || g_str_has_suffix(node->text, ".yaml");
    return is_path && folder && !g_path_is_absolute(node->text) ? g_build_filename(folder, node->text, NULL) : g_strdup(node->text);
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
        g_hash_table_insert(places, g_strdup(edit), g_strdup_printf("%s:%u:%u", node->file, node->line, node->column));
}

static void say_place(GHashTable *places, GError *error)
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

/* A path that lacks "device.". */
static bool is_of_device(const char *path)
{
    static const char *const sections[] = {"memories.", "links.", "units.", "runtime.", "cores"};
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
        if (g_str_has_prefix(path, sections[i]))
            return true;
    }
    return false;
}

/* Applies one edit to a case: to its device's list, or to its configuration. */
static bool apply_edit(EchYamlNode *config, GPtrArray *settings, GPtrArray *edits, const char *edit, GError **error)
{
    g_ptr_array_add(edits, g_strdup(edit));
    if (is_device_edit(edit)) {
        g_ptr_array_add(settings, g_strdup(edit + strlen("device.")));
        return true;
    }
    if (is_of_device(edit)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--set %s: that is the device's; did you mean 'device.%s'?", edit, edit);
        return false;
    }
    return ech_yaml_edit(config, "", edit, error);
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

static bool read_texts(const EchYamlNode *node, const char *what, GPtrArray *out, GError **error)
{
    if (node->kind == ECH_YAML_SCALAR) {
        g_ptr_array_add(out, g_strdup(node->text));
        return true;
    }
    for (size_t i = 0; i < node->n; i++) {
        if (node->kind != ECH_YAML_LIST || node->items[i]->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node, error, "%s: expected a list of texts", what);
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

/* Can @text be varied? @node: where it stands. */
static bool check_path(const EchYamlNode *node, const char *text, GError **error)
{
    g_autofree char *head = g_strndup(text, strcspn(text, "."));
    if (g_str_has_prefix(text, "passes.")) {
        ech_yaml_error(node, error, "path: '%s' cannot be varied; expected path: passes, with values like \"prefetch:depth=1\"", text);
        return false;
    }
    static const char *const own[] = {"sweep", "find", "set", NULL};
    if (g_strv_contains(root_keys, head) && !g_strv_contains(own, head))
        return true;
    bool lacks = is_of_device(text);
    const char *nearest = lacks ? "device." : ech_nearest_name(head, root_keys);
    ech_yaml_error(node, error, "path: '%s' cannot be varied%s%s%s%s", text, nearest ? "; did you mean '" : "", nearest ? nearest : "", lacks ? text : "",
                   nearest ? "'?" : "; 'echelon help experiment' tells what can");
    return false;
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
    if (!ok)
        ech_yaml_error(node, error, "sweep: expected a path and a list of values");
    ok = ok && read_texts(path, "path", axis.paths, error) && read_texts(values, "values", axis.values, error) &&
         (!labels || read_texts(labels, "labels", axis.labels, error));
    if (ok && axis.paths->len == 0) {
        ech_yaml_error(path, error, "path: expected what to vary, such as device.memories.hbm.capacity");
        ok = false;
    }
    if (ok && labels && axis.labels->len != axis.values->len) {
        ech_yaml_error(labels, error, "labels: %u of them for %u values", axis.labels->len, axis.values->len);
        ok = false;
    }
    for (guint i = 0; ok && i < axis.paths->len; i++) {
        ok = check_path(path, axis.paths->pdata[i], error);
    }
    if (!ok) {
        axis_clear(&axis);
        return false;
    }
    const char *first = axis.paths->pdata[0], *dot = strrchr(first, '.');
    axis.name = name && name->kind == ECH_YAML_SCALAR ? g_strdup(name->text) : g_strdup(dot ? dot + 1 : first);
    bool names_files = strcmp(first, "trace") == 0 || strcmp(first, "device") == 0;
    for (guint i = 0; i < axis.values->len; i++) {
        char **value = (char **)&axis.values->pdata[i];
        if (!labels)
            g_ptr_array_add(axis.labels, names_files ? short_name(*value) : g_strdup(**value ? *value : "none"));
        if (names_files) {
            char *resolved = strcmp(first, "trace") == 0 ? resolve_trace(values->items[i]) : resolve_device(values->items[i]);
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
            if (!apply_edit(c->config, settings, said, edit, error))
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
        ok = apply_edit(c->config, settings, edits, edit, error);
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
    ech_yaml_put(root, key, ech_yaml_new_scalar(value, option));
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
        n_cases *= g_array_index(axes, Axis, axes->len - 1).values->len;
        if (n_cases > MAX_CASES) {
            ech_yaml_error(sweep, error, "sweep: more than %d runs", MAX_CASES);
            return false;
        }
    }
    *ret_cases = n_cases;
    return true;
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
    experiment->cache = g_new0(struct EchImportCache, 1);
    experiment->cache->items = g_array_new(FALSE, FALSE, sizeof(Cached));
    g_array_set_clear_func(experiment->cache->items, cached_clear);
    experiment->cache->devices = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)ech_yaml_free);
    return experiment;
}

/* --find PATH,PATH=FROM..TO and --for GOAL in the place of the file's. */
static void override_find(const EchExperimentOverrides *overrides, EchYamlNode *root)
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
    if (overrides->goals && find && find->kind == ECH_YAML_MAP) {
        EchYamlNode *list = ech_yaml_new_list("--for");
        for (const char *const *goal = overrides->goals; *goal; goal++)
            ech_yaml_append(list, ech_yaml_new_scalar(*goal, "--for"));
        ech_yaml_put(find, "for", list);
    }
}

/* What is looked for; taken out of the tree. */
static bool read_find(EchYamlNode *root, EchFind **ret, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(root, "find");
    if (!node)
        return true;
    *ret = ech_find_read(node, error);
    if (!*ret)
        return false;
    for (char **path = ech_find_paths(*ret); *path; path++) {
        if (!check_path(ech_yaml_get(node, "path"), *path, error))
            return false;
    }
    return true;
}

static char *title_of(const EchYamlNode *config, const char *path)
{
    const EchYamlNode *title = ech_yaml_get(config, "title"), *trace = ech_yaml_get(config, "trace");
    if (title && title->kind == ECH_YAML_SCALAR)
        return g_strdup(title->text);
    if (path)
        return short_name(path);
    return trace && trace->kind == ECH_YAML_SCALAR ? short_name(trace->text) : g_strdup("run");
}

static bool check_values(EchExperiment *experiment, GError **error);

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

EchExperiment *ech_experiment_load(const char *path, const EchExperimentOverrides *overrides, GError **error)
{
    g_autoptr(EchYamlNode) root = path ? ech_yaml_load(path, error) : ech_yaml_new_map("command line");
    if (!root || !ech_yaml_check_keys(root, "experiment", root_keys, error))
        return NULL;
    override(root, "trace", overrides->trace);
    override(root, "device", overrides->device);
    override(root, "format", overrides->format);
    override(root, "beside", overrides->beside);
    override_find(overrides, root);
    /* What the command line does not change: the run that the others are compared with. */
    g_autoptr(EchYamlNode) plain = ech_yaml_copy(root);
    override(root, "allocator", overrides->allocator);
    override(root, "host_allocator", overrides->host_allocator);
    override_passes(overrides->passes, root, plain);
    g_autoptr(GPtrArray) edits = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    if (!read_sets(ech_yaml_get(root, "set"), edits, places, error))
        return NULL;
    guint n_own = edits->len;
    if (overrides->engine)
        g_ptr_array_add(edits, g_strdup_printf("replay.engine=%s", overrides->engine));
    for (const char *const *setting = overrides->settings; setting && *setting; setting++) {
        /* The sweep is laid out below, so its edits come first. */
        if (!g_str_has_prefix(*setting, "sweep"))
            g_ptr_array_add(edits, g_strdup(*setting));
        else if (!ech_yaml_edit(root, "", *setting, error))
            return NULL;
    }
    g_autoptr(GArray) axes = g_array_new(FALSE, FALSE, sizeof(Axis));
    g_array_set_clear_func(axes, axis_clear);
    size_t n_cases;
    if (!read_sweep(ech_yaml_get(root, "sweep"), axes, places, &n_cases, error))
        return NULL;
    g_autoptr(EchFind) find = NULL;
    if (!read_find(root, &find, error))
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
                say_place(places, *error);
            return NULL;
        }
    }
    for (size_t i = 0; i < n_cases; i++) {
        add_said(&experiment->cases[i], "allocator", overrides->allocator);
        add_said(&experiment->cases[i], "host_allocator", overrides->host_allocator);
    }
    if (n_cases > 1 && !check_values(experiment, error))
        return NULL;
    if (!lay_out_plain(experiment, plain, overrides, edits, n_own, error))
        return NULL;
    experiment->title = title_of(experiment->cases[0].config, path);
    experiment->find = g_steal_pointer(&find);
    return g_steal_pointer(&experiment);
}

/* Running */

static const char *text_or_null(const EchYamlNode *config, const char *key)
{
    const EchYamlNode *node = ech_yaml_get(config, key);
    return node && node->kind == ECH_YAML_SCALAR && *node->text ? node->text : NULL;
}

/* The place of a node that stands in a file, or was put there by an edit, before an error that does not say it. */
static void prefix_place(const EchYamlNode *node, GError **error)
{
    if (node && error && *error && (node->line || g_str_has_prefix(node->file, "--set ")) && !g_str_has_prefix((*error)->message, node->file))
        ech_yaml_prefix(node, error);
}

static const EchYamlNode *required(const EchYamlNode *config, const char *key, const char *example, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(config, key);
    if (!node)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "no %s is given; expected '%s: %s' in the experiment, or --%s %s", key, key, example, key, example);
    else if (node->kind == ECH_YAML_LIST) {
        ech_yaml_error(node, error, "%s: expected something like %s; a sweep varies it: sweep: [{path: %s, values: [...]}]", key, example, key);
        node = NULL;
    } else if (node->kind == ECH_YAML_SCALAR && !*node->text) {
        ech_yaml_error(node, error, "%s: expected something like %s", key, example);
        node = NULL;
    }
    return node;
}

static bool trace_is_there(const EchYamlNode *node, const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_EXISTS) || strcmp(path, "-") == 0)
        return true;
    g_autofree char *nearest = nearest_trace(path);
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT, "%s: No such file or directory%s%s%s", path, nearest ? "; did you mean the shipped '" : "",
                nearest ? nearest : "", nearest ? "'?" : "");
    prefix_place(node, error);
    return false;
}

static EchImport *import_trace(EchExperiment *experiment, const EchYamlNode *config, const char **ret_path, GError **error)
{
    const EchYamlNode *trace = required(config, "trace", "step.hlo.txt", error);
    if (!trace)
        return NULL;
    if (trace->kind != ECH_YAML_SCALAR) {
        ech_yaml_error(trace, error, "trace: expected a file's name");
        return NULL;
    }
    g_autofree char *path = resolve_trace(trace);
    if (!trace_is_there(trace, path, error))
        return NULL;
    const char *trips = text_or_null(config, "trips"), *format = text_or_null(config, "format"), *device = text_or_null(config, "device");
    EchImportOptions options = {.device = device, .loop_trips = 1};
    if (trips && !ech_parse_u64(trips, &options.loop_trips, error)) {
        g_prefix_error(error, "trips: ");
        ech_yaml_prefix(ech_yaml_get(config, "trips"), error);
        return NULL;
    }
    g_autofree char *beside = NULL;
    if (text_or_null(config, "beside"))
        beside = resolve_trace(ech_yaml_get(config, "beside"));
    options.beside = beside;
    g_autofree char *key = g_strdup_printf("%s\n%s\n%s\n%s\n%s", path, trips ? trips : "", format ? format : "", beside ? beside : "", device ? device : "");
    GArray *items = experiment->cache->items;
    for (guint i = 0; i < items->len; i++) {
        const Cached *cached = &g_array_index(items, Cached, i);
        if (strcmp(cached->key, key) == 0) {
            *ret_path = cached->key;
            return cached->import;
        }
    }
    EchImport *import = ech_import_file(path, format, &options, error);
    if (!import)
        return NULL;
    Cached cached = {g_steal_pointer(&key), import, NULL, 0, NULL};
    g_array_append_val(items, cached);
    *ret_path = cached.key;
    return import;
}

bool ech_experiment_preload(EchExperiment *experiment, GError **error)
{
    for (size_t i = 0; i < experiment->n_cases; i++) {
        const char *path;
        if (!ech_yaml_get(experiment->cases[i].config, "matmul") && !import_trace(experiment, experiment->cases[i].config, &path, error))
            return false;
    }
    return true;
}

/* The chip a program was compiled for, where that is another one than it runs on. */
static EchDevice *compiled_device(const EchProgram *program, const EchDevice *device)
{
    const char *chip = program ? ech_program_kernels_for(program) : NULL;
    if (!chip || strcmp(chip, device->name) == 0)
        return NULL;
    EchDevice *compiled = ech_device_load(chip, NULL, NULL);
    /* Kernels cut for another kind of chip say nothing about this one: its roofline does. */
    if (compiled && g_strcmp0(compiled->family, device->family) != 0)
        g_clear_pointer(&compiled, ech_device_free);
    return compiled;
}

char *ech_recorded_on(const EchTrace *trace, uint32_t device)
{
    static const char *const keys[] = {"name", "device_type_string", "device_vendor"};
    for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
        g_autofree char *key = g_strdup_printf("device.%u.%s", device, keys[k]);
        const char *value = ech_trace_get_property(trace, key);
        if (value && *value)
            return k < 2 ? g_strdup(value) : g_strconcat("a GPU by ", value, NULL);
    }
    return NULL;
}

/* Recorded times hold for the hardware they were recorded on: where that is another device that we describe, it becomes the reference they are carried over
 * from. */
static void find_recorded_device(const EchTrace *trace, EchResult *result)
{
    g_autofree char *hardware = ech_recorded_on(trace, 0);
    if (!hardware || ech_device_is_product(result->reference, hardware))
        return;
    EchDevice *found = ech_device_load_product(hardware);
    if (!found) {
        ech_diag_remark(result->pass_diag, "recorded on %s, of which there is no device file: its recorded times count as those of %s", hardware,
                        result->reference->name);
        return;
    }
    ech_diag_remark(result->pass_diag, "recorded on %s: recorded times are carried from %s to %s by the ratio of %s", hardware, found->name,
                    result->device->name,
                    g_strcmp0(result->device->family, "gpu") == 0 ? "their times by the kernel model, or of the rooflines for kernels it does not know"
                                                                  : "the two rooflines");
    ech_device_free(result->reference);
    result->reference = found;
}

static const EchYamlNode *device_tree(EchExperiment *experiment, const char *name, GError **error)
{
    EchYamlNode *tree = g_hash_table_lookup(experiment->cache->devices, name);
    if (!tree) {
        tree = ech_device_tree(name, error);
        if (tree)
            g_hash_table_insert(experiment->cache->devices, g_strdup(name), tree);
    }
    return tree;
}

static bool load_devices(EchExperiment *experiment, const EchCase *c, EchResult *result, GError **error)
{
    const EchYamlNode *node = required(c->config, "device", "tpu-v5e", error);
    if (!node)
        return false;
    const EchYamlNode *said = node;
    const char *const *settings = (const char *const *)c->settings;
    if (node->kind != ECH_YAML_MAP) {
        g_autofree char *name = resolve_device(node);
        node = device_tree(experiment, name, error);
        if (!node)
            prefix_place(said, error);
    }
    result->reference = node ? ech_device_from_yaml(node, error) : NULL;
    result->device = result->reference ? ech_device_load_yaml(node, settings, error) : NULL;
    return result->device != NULL;
}

static GPtrArray *read_passes(const EchYamlNode *config, GError **error)
{
    g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    g_autoptr(GPtrArray) specs = g_ptr_array_new_with_free_func(g_free);
    const EchYamlNode *node = ech_yaml_get(config, "passes");
    if (node && !(node->kind == ECH_YAML_SCALAR && !*node->text) && !read_texts(node, "passes", specs, error))
        return NULL;
    /* One text may name several, as an axis of a sweep does: "unplan pad:align=1MiB". */
    for (guint i = 0; i < specs->len; i++) {
        g_auto(GStrv) words = g_strsplit_set(specs->pdata[i], " \n\t", -1);
        guint at = i;
        for (char **word = words; *word; word++) {
            if (**word && at++ > i)
                g_ptr_array_insert(specs, (gint)at - 1, g_strdup(*word));
            else if (**word) {
                g_free(specs->pdata[i]);
                specs->pdata[i] = g_strdup(*word);
            }
        }
        i = MAX(at, i + 1) - 1;
    }
    for (guint i = 0; i < specs->len; i++) {
        EchPass *pass = ech_pass_new(specs->pdata[i], error);
        if (!pass) {
            ech_yaml_prefix(node, error);
            return NULL;
        }
        g_ptr_array_add(passes, pass);
    }
    return g_steal_pointer(&passes);
}

static bool read_options(const EchCase *c, bool sweep, EchReplayOptions *options, GError **error)
{
    const EchYamlNode *replay = ech_yaml_get(c->config, "replay");
    if (replay && replay->kind == ECH_YAML_LIST) {
        ech_yaml_error(replay, error, "replay: expected options with their values");
        return false;
    }
    for (size_t i = 0; replay && i < replay->n; i++) {
        const EchYamlNode *value = replay->items[i];
        if (value->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(value, error, "replay.%s: expected one value", replay->keys[i]);
            return false;
        }
        if (!ech_params_set(ech_replay_params, options, replay->keys[i], value->text, error)) {
            g_prefix_error(error, "replay: ");
            ech_yaml_prefix(value, error);
            return false;
        }
    }
    /* Sweeps take the engine without a process of its own unless told otherwise. */
    if (sweep && options->engine == ECH_ENGINE_AUTO)
        options->engine = ECH_ENGINE_NATIVE;
    static const char *const allocators[] = {"allocator", "host_allocator", NULL};
    for (const char *const *key = allocators; *key; key++) {
        const EchYamlNode *node = ech_yaml_get(c->config, *key);
        if (!node)
            continue;
        if (node->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node, error, "%s: expected a spec like bfc:limit=60GiB", *key);
            return false;
        }
        char **field = strcmp(*key, "allocator") == 0 ? &options->allocator : &options->host_allocator;
        g_free(*field);
        *field = g_strdup(node->text);
    }
    return true;
}

EchTrace *ech_experiment_lower(EchProgram *program, const EchDevice *device, EchDevice **reference, EchKernelTime kernel_time, uint64_t trips, EchDiag *diag,
                               GError **error)
{
    EchDevice *compiled = compiled_device(program, *reference);
    /* TPU kernels: the compiler's estimates, carried by our kernel model to the device itself, its settings included; unless the bare estimates are asked for.
     * Where the device's hardware constants were fitted to measured kernels, the model alone comes closer than a carried estimate. */
    bool by_model = kernel_time == ECH_KERNEL_TIME_MODEL || (kernel_time == ECH_KERNEL_TIME_AUTO && ech_kernel_stands_alone(device));
    bool model = program->platform == ECH_PLATFORM_TPU && g_strcmp0(device->family, "tpu") == 0 && (by_model || kernel_time == ECH_KERNEL_TIME_AUTO);
    if (compiled && model) {
        ech_diag_remark(diag, "the program was compiled for %s; its kernels keep their windows and are priced on %s", compiled->name, device->name);
        ech_device_free(*reference);
        *reference = compiled;
    } else if (compiled) {
        ech_diag_remark(diag, "the program was compiled for %s; its estimates are scaled to %s by the ratio of the two rooflines", compiled->name,
                        device->name);
        ech_device_free(*reference);
        *reference = compiled;
    }
    if (!program->assignment) {
        if (program->platform == ECH_PLATFORM_TPU && !program->chip && strcmp((*reference)->family, "tpu") == 0 &&
            !ech_program_set_chip(program, (*reference)->name, error))
            return NULL;
        const EchMemory *hbm = ech_device_memory(*reference, "hbm");
        EchProgramAssignment *made = ech_program_assign(program, hbm ? hbm->assignment_limit : 0, diag, error);
        if (!made)
            return NULL;
        ech_program_set_assignment(program, made, "made by echelon");
    }
    EchLowerOptions options = {.loop_trips = trips, .price_on = model ? device : NULL, .price_by_model = by_model};
    EchTrace *trace = ech_program_lower(program, *reference, &options, diag, error);
    if (trace && model) /* nothing is left to scale */
        g_clear_pointer(reference, ech_device_free);
    return trace;
}

/* Copies from and to pageable memory pass through the driver's staging buffer and wait for the host. */
static void remark_pageable(const EchTrace *trace, const EchMemory *pageable, EchDiag *diag)
{
    EchId memory = ech_trace_find_memory(trace, pageable->name);
    uint64_t copies = 0;
    EchBytes bytes = 0;
    for (size_t i = 0; memory != ECH_NONE && i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_COPY || (op->memory_from != memory && op->memory_to != memory))
            continue;
        copies++;
        bytes = ech_bytes_add(bytes, op->bytes);
    }
    g_autofree char *size = ech_format_bytes(bytes);
    if (copies)
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " cop%s of %s in all %s from or to pageable host memory; --pass pin says what pinned memory would be worth",
                        copies, copies == 1 ? "y" : "ies", size, copies == 1 ? "is" : "are");
}

/* The points of a sweep mostly select the same of a capture. */
static EchTrace *select_cached(EchExperiment *experiment, EchTrace *trace, const EchSelectOptions *options, GError **error)
{
    Cached *cached = NULL;
    for (guint i = 0; i < experiment->cache->items->len && !cached; i++) {
        Cached *at = &g_array_index(experiment->cache->items, Cached, i);
        cached = at->import->trace == trace ? at : NULL;
    }
    if (cached && cached->selected && cached->device == options->device && g_strcmp0(cached->pageable, options->pageable) == 0)
        return ech_trace_ref(cached->selected);
    EchTrace *selected = ech_trace_select(trace, options, NULL, error);
    if (!cached || !selected)
        return selected;
    g_clear_pointer(&cached->selected, ech_trace_unref);
    g_free(cached->pageable);
    cached->selected = ech_trace_ref(selected);
    cached->device = options->device;
    cached->pageable = g_strdup(options->pageable);
    return selected;
}

/* One device of a capture of several: its link and its memory are its own. The first, unless capture_device says another. */
static EchTrace *select_device(EchExperiment *experiment, const EchCase *c, EchTrace *trace, const EchDevice *device, EchDiag *diag, GError **error)
{
    const char *text = text_or_null(c->config, "capture_device");
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n);
    uint64_t chosen = n > 0 ? devices[0] : 0;
    if (text && !ech_parse_u64(text, &chosen, error)) {
        g_prefix_error(error, "capture_device: ");
        ech_yaml_prefix(ech_yaml_get(c->config, "capture_device"), error);
        return NULL;
    }
    g_autoptr(GString) list = g_string_new(NULL);
    bool there = false;
    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(list, "%s%u", i ? ", " : "", devices[i]);
        there = there || devices[i] == chosen;
    }
    if (text && !there) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "capture_device: the capture has no device %s; expected one of %s", text, list->str);
        ech_yaml_prefix(ech_yaml_get(c->config, "capture_device"), error);
        return NULL;
    }
    const EchMemory *pageable = ech_device_memory_kind(device, ECH_MEM_HOST_PAGEABLE);
    if (n < 2 && !text && !pageable)
        return ech_trace_ref(trace);
    if (n > 1)
        ech_diag_remark(
            diag, "the capture holds devices %s: device %" G_GUINT64_FORMAT " is replayed, on links and memories of its own (capture_device chooses another)",
            list->str, chosen);
    EchSelectOptions options = {.device = n > 1 || text ? (uint32_t)chosen : ECH_NONE, .pageable = pageable ? pageable->name : NULL};
    EchTrace *selected = select_cached(experiment, trace, &options, error);
    if (selected && pageable)
        remark_pageable(selected, pageable, diag);
    return selected;
}

/* Does the program keep more in an on-chip memory than @device has of it? */
static bool exceeds_chip(const EchProgram *program, const EchDevice *device)
{
    static const int32_t spaces[] = {ECH_SPACE_VECTOR, ECH_SPACE_COMMON};
    for (size_t k = 0; k < G_N_ELEMENTS(spaces); k++) {
        EchBytes bytes = ech_program_space_bytes(program, spaces[k]);
        const EchMemory *memory = ech_device_space(device, spaces[k]);
        if (bytes > 0 && (!memory || bytes > memory->capacity || (memory->available > 0 && bytes > memory->available)))
            return true;
    }
    return false;
}

/* A program goes to another chip as it was placed. Where that chip has less on-chip memory, its compiler would have placed it otherwise: so does the
 * place pass, unless the user chose passes. Owned. */
static EchProgram *place_again(const GPtrArray *passes, EchProgram *program, EchResult *result)
{
    bool other = program->platform == ECH_PLATFORM_TPU && program->chip && strcmp(program->chip, result->device->name) != 0 &&
                 g_strcmp0(result->device->family, "tpu") == 0;
    for (guint k = 0; k < passes->len; k++)
        other &= !ech_pass_is_program(passes->pdata[k]);
    if (!other)
        return ech_program_ref(program);
    if (!program->assignment) {
        EchProgramAssignment *made = ech_program_assign(program, 0, result->pass_diag, NULL);
        if (made)
            ech_program_set_assignment(program, made, "made by echelon");
    }
    if (!exceeds_chip(program, result->device))
        return ech_program_ref(program);
    g_autoptr(GPtrArray) again = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    EchPass *place = ech_pass_new("place", NULL);
    if (place)
        g_ptr_array_add(again, place);
    g_autoptr(GError) error = NULL;
    EchProgram *placed = ech_passes_run_program(again, result->device, program, result->pass_diag, &error);
    if (!placed) {
        ech_diag_remark(result->pass_diag, "it keeps more on chip than %s has, and cannot be placed again: %s", result->device->name, error->message);
        return ech_program_ref(program);
    }
    ech_diag_remark(result->pass_diag, "it keeps more on chip than %s has: placed again as that chip's compiler would (--pass place)", result->device->name);
    return placed;
}

/* The trace to replay: passes on the program, its assignment, lowering, passes on the trace. */
static bool make_trace(EchExperiment *experiment, const EchCase *c, const EchImport *import, const GPtrArray *passes, const EchReplayOptions *replay,
                       EchResult *result, GError **error)
{
    g_autoptr(EchTrace) trace = NULL;
    if (import->program) {
        g_autoptr(EchProgram) passed = ech_passes_run_program(passes, result->device, import->program, result->pass_diag, error);
        if (!passed)
            return false;
        g_autoptr(EchProgram) program = place_again(passes, passed, result);
        trace = ech_experiment_lower(program, result->device, &result->reference, (EchKernelTime)replay->kernel_time, replay->trips, result->pass_diag, error);
        result->program = g_steal_pointer(&program);
        if (trace && import->resident) {
            EchTrace *merged = ech_import_add_resident(trace, import->resident, result->pass_diag, error);
            ech_trace_unref(trace);
            trace = merged;
        }
    } else {
        trace = select_device(experiment, c, import->trace, result->device, result->pass_diag, error);
        if (trace)
            find_recorded_device(trace, result);
        if (trace && g_strcmp0(import->format, "scalesim") == 0 && replay->kernel_time == ECH_KERNEL_TIME_AUTO) {
            EchTrace *priced = ech_layers_price(trace, result->device, result->pass_diag, error);
            if (!priced)
                return false;
            ech_trace_unref(trace);
            trace = priced;
        }
    }
    if (!trace)
        return false;
    result->trace = ech_passes_run_trace(passes, result->device, trace, result->pass_diag, error);
    return result->trace != NULL;
}

/* A workload that no program was captured for. */
static EchTrace *make_product(const EchYamlNode *node, EchResult *result, GError **error)
{
    EchProductOptions product = {0};
    ech_params_defaults(ech_product_params, &product);
    bool ok = node->kind == ECH_YAML_MAP;
    if (!ok)
        ech_yaml_error(node, error, "matmul: expected sizes with their values, like {m: 4096, n: 4096, k: 4096, buffers: 2}");
    for (size_t i = 0; ok && i < node->n; i++) {
        if (node->items[i]->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node->items[i], error, "matmul.%s: expected one value", node->keys[i]);
            ok = false;
        } else if (!ech_params_set(ech_product_params, &product, node->keys[i], node->items[i]->text, error)) {
            g_prefix_error(error, "matmul: ");
            ech_yaml_prefix(node->items[i], error);
            ok = false;
        }
    }
    EchTrace *trace = ok ? ech_product_trace(&product, result->device, result->pass_diag, error) : NULL;
    ech_params_clear(ech_product_params, &product);
    return trace;
}

/* What a case says beside its trace: the device, the passes, the options of the replay. Its allocators are made by the replay. */
static bool read_case(EchExperiment *experiment, const EchCase *c, EchResult *result, GPtrArray **ret_passes, EchReplayOptions *options, GError **error)
{
    if (!load_devices(experiment, c, result, error))
        return false;
    const EchYamlNode *matmul = ech_yaml_get(c->config, "matmul"), *trace = ech_yaml_get(c->config, "trace");
    if (matmul && trace) {
        ech_yaml_error(matmul, error, "matmul: stands in place of a trace, and a trace is given too; expected one of them");
        return false;
    }
    g_autoptr(GPtrArray) passes = read_passes(c->config, error);
    if (!passes || !read_options(c, experiment->n_cases > 1 || experiment->find, options, error))
        return false;
    *ret_passes = g_steal_pointer(&passes);
    return true;
}

static EchResult *run_steps(EchExperiment *experiment, const EchCase *c, GError **error)
{
    g_autoptr(EchResult) result = g_new0(EchResult, 1);
    result->title = *c->label ? g_strdup_printf("%s: %s", experiment->title, c->label) : g_strdup(experiment->title);
    result->settings = g_strdupv(c->edits);
    result->pass_diag = ech_diag_new();
    g_autoptr(GPtrArray) passes = NULL;
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    if (!read_case(experiment, c, result, &passes, &options, error)) {
        ech_params_clear(ech_replay_params, &options);
        return NULL;
    }
    g_autoptr(GPtrArray) specs = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < passes->len; i++)
        g_ptr_array_add(specs, ech_pass_print(passes->pdata[i]));
    result->passes = steal_strv(specs);
    const char *key;
    const EchYamlNode *matmul = ech_yaml_get(c->config, "matmul");
    EchImport *import = matmul ? NULL : import_trace(experiment, c->config, &key, error);
    if (matmul) {
        result->trace_path = g_strdup("matmul");
        result->format = g_strdup("matmul");
        g_autoptr(EchTrace) trace = make_product(matmul, result, error);
        result->trace = trace ? ech_passes_run_trace(passes, result->device, trace, result->pass_diag, error) : NULL;
        if (result->trace)
            result->run = ech_replay_run(result->trace, result->device, NULL, &options, error);
    } else if (import) {
        result->trace_path = g_strndup(key, strcspn(key, "\n"));
        result->format = g_strdup(import->format);
        result->import_diag = import->diag;
        result->refusal = import->refusal;
        if (make_trace(experiment, c, import, passes, &options, result, error))
            result->run = ech_replay_run(result->trace, result->device, result->reference, &options, error);
    }
    ech_params_clear(ech_replay_params, &options);
    return result->run ? g_steal_pointer(&result) : NULL;
}

static EchResult *run_case(EchExperiment *experiment, const EchCase *c, GError **error)
{
    EchResult *result = run_steps(experiment, c, error);
    if (!result && error)
        say_place(experiment->places, *error);
    return result;
}

/* Could @index run, as far as that can be told without running it? */
static bool check_case(EchExperiment *experiment, size_t index, GError **error)
{
    const EchCase *c = &experiment->cases[index];
    g_autoptr(EchResult) result = g_new0(EchResult, 1);
    g_autoptr(GPtrArray) passes = NULL;
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    bool ok = read_case(experiment, c, result, &passes, &options, error);
    for (size_t i = 0; ok && i < 2; i++) {
        const EchMemory *memory = ech_device_memory(result->device, i ? "host" : "hbm");
        const char *spec = i ? options.host_allocator : options.allocator;
        const EchAllocDevice below = {.capacity = memory && memory->capacity ? memory->capacity : UINT64_MAX, .granule = 0};
        g_autoptr(EchAllocator) allocator = spec && *spec ? ech_allocator_new(spec, &below, error) : NULL;
        ok = !spec || !*spec || allocator;
        if (!ok)
            prefix_place(ech_yaml_get(c->config, i ? "host_allocator" : "allocator"), error);
    }
    ech_params_clear(ech_replay_params, &options);
    const EchYamlNode *trace = ech_yaml_get(c->config, "trace");
    if (ok && trace && trace->kind == ECH_YAML_SCALAR) {
        g_autofree char *path = resolve_trace(trace);
        ok = trace_is_there(trace, path, error);
    }
    if (!ok && error)
        say_place(experiment->places, *error);
    return ok;
}

/* A value with which no case can run is a slip of the pen, better told at once. (One that some cases can have and others cannot is told by these.) */
static bool check_values(EchExperiment *experiment, GError **error)
{
    enum { UNKNOWN, GOOD, BAD };
    g_autofree uint8_t *known = g_new0(uint8_t, experiment->n_cases);
    size_t stride = experiment->n_cases;
    for (size_t axis = 0; experiment->axes[axis]; axis++) {
        size_t n = experiment->axis_sizes[axis];
        stride /= n;
        for (size_t value = 0; value < n; value++) {
            bool good = false;
            for (size_t i = 0; i < experiment->n_cases && !good; i++) {
                if (i / stride % n != value)
                    continue;
                if (known[i] == UNKNOWN)
                    known[i] = check_case(experiment, i, NULL) ? GOOD : BAD;
                good = known[i] == GOOD;
            }
            if (!good) /* for the error of the first that has it */
                return check_case(experiment, value * stride, error);
        }
    }
    return true;
}

EchResult *ech_experiment_run(EchExperiment *experiment, size_t index, GError **error)
{
    g_assert(index < experiment->n_cases);
    return run_case(experiment, &experiment->cases[index], error);
}

EchResult *ech_experiment_run_case(EchExperiment *experiment, const EchCase *c, GError **error)
{
    return run_case(experiment, c, error);
}

EchResult *ech_experiment_run_plain(EchExperiment *experiment, GError **error)
{
    g_assert(experiment->plain);
    return run_case(experiment, experiment->plain, error);
}

void ech_result_free(EchResult *result)
{
    if (!result)
        return;
    g_free(result->title);
    g_free(result->trace_path);
    g_free(result->format);
    ech_device_free(result->device);
    ech_device_free(result->reference);
    if (result->program)
        ech_program_unref(result->program);
    if (result->trace)
        ech_trace_unref(result->trace);
    ech_diag_free(result->pass_diag);
    g_strfreev(result->passes);
    g_strfreev(result->settings);
    ech_run_free(result->run);
    g_free(result);
}

EchReport ech_result_report(const EchResult *result)
{
    return (EchReport){
        .title = result->title,
        .trace_path = result->trace_path,
        .format = result->format,
        .trace = result->trace,
        .program = result->program,
        .device = result->device,
        .run = result->run,
        .import_diag = result->import_diag,
        .refusal = result->refusal,
        .pass_diag = result->pass_diag,
        .passes = (const char *const *)result->passes,
        .settings = (const char *const *)result->settings,
    };
}
