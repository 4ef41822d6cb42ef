/* Where experiments and traces lie: beside the program, in the installation, in the source tree; and what a name in a file means. */
#include "sim/experiment/experiment_private.h"

#include <stdlib.h>
#include <string.h>

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

char *ech_experiment_nearest_trace(const char *name)
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

char *ech_experiment_trace_path(const EchYamlNode *node)
{
    g_autofree char *folder = folder_of(node);
    return ech_trace_find(node->text, folder);
}

char *ech_experiment_device_path(const EchYamlNode *node)
{
    g_autofree char *folder = folder_of(node);
    bool is_path = strchr(node->text, '/') || g_str_has_suffix(node->text, ".yaml");
    return is_path && folder && !g_path_is_absolute(node->text) ? g_build_filename(folder, node->text, NULL) : g_strdup(node->text);
}
