#include "sim/import/folder.h"
#include "sim/base/error.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

/* What a folder is a capture of: the program of a JAX capture or of an XLA dump, a profile of JAX's, PyTorch's or rocprofv3's, what a GPU that was not there
 * was asked for, or memory snapshots alone. Earlier rows are preferred. */
static const char *const patterns[] = {
    "*.hlo.txt.gz",
    "*.hlo.txt",
    "*after_codegen.txt*",
    "*gpu_after_optimizations.hlo.pb*",
    "*gpu_after_optimizations.txt*",
    "*after_optimizations_after_buffer_assignment.hlo.pb*",
    "*after_optimizations.txt*",
    "*.hlo.pb*",
    "*.xplane.pb*",
    "*trace*.json*",
    "*_results.db",
    "*_results.json*",
    "*_kernel_trace.csv",
    "*.pretend*",
    "*.ech",
    "*.pickle*",
};

typedef struct {
    char *path;
    goffset size;
    uint64_t rank; /* set by ech_import_ranks_in() */
} File;

static void file_clear(gpointer data)
{
    g_free(((File *)data)->path);
}

static int by_path(gconstpointer a, gconstpointer b)
{
    return strcmp(((const File *)a)->path, ((const File *)b)->path);
}

/* The last run in LOG/plugins/profile, where jax.profiler.trace(LOG) and TensorBoard put them by date; NULL where there is none. Owned by the caller. */
static char *last_profile(const char *folder)
{
    g_autofree char *profiles = g_build_filename(folder, "plugins", "profile", NULL), *last = NULL;
    g_autoptr(GDir) dir = g_dir_open(profiles, 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        if (!last || strcmp(name, last) > 0) {
            g_free(last);
            last = g_strdup(name);
        }
    }
    return last ? g_build_filename(profiles, last, NULL) : NULL;
}

/* The files in @folder of the pattern that is preferred among those that any has: File[], by name, empty where there is none. NULL and an error where it cannot
 * be read. Owned by the caller. */
static GArray *files_in(const char *folder, GError **error)
{
    g_autofree char *profile = last_profile(folder);
    if (profile)
        folder = profile;
    g_autoptr(GError) own = NULL;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, &own);
    if (!dir) {
        const char *reason = strrchr(own->message, ':');
        g_set_error(error, own->domain, own->code, "%s: %s", folder, reason && reason[1] ? reason + 2 : own->message);
        return NULL;
    }
    GArray *files = g_array_new(FALSE, TRUE, sizeof(File));
    g_array_set_clear_func(files, file_clear);
    size_t best = G_N_ELEMENTS(patterns);
    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        size_t i = 0;
        while (i < G_N_ELEMENTS(patterns) && !g_pattern_match_simple(patterns[i], name))
            i++;
        if (i > best || i == G_N_ELEMENTS(patterns) || strstr(name, ".before."))
            continue;
        g_autofree char *path = g_build_filename(folder, name, NULL);
        GStatBuf status;
        if (g_stat(path, &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        if (i < best)
            g_array_set_size(files, 0);
        best = i;
        File file = {g_steal_pointer(&path), status.st_size, 0};
        g_array_append_val(files, file);
    }
    g_array_sort(files, by_path);
    return files;
}

char *ech_import_file_in(const char *path, unsigned *ret_like, GError **error)
{
    *ret_like = 0;
    if (!g_file_test(path, G_FILE_TEST_IS_DIR))
        return g_strdup(path);
    g_autoptr(GArray) files = files_in(path, error);
    if (!files)
        return NULL;
    const File *largest = NULL; /* of XLA's dumps that is the program itself, not the small modules beside it */
    for (guint i = 0; i < files->len; i++) {
        const File *file = &g_array_index(files, File, i);
        if (!largest || file->size > largest->size)
            largest = file;
    }
    *ret_like = files->len;
    if (largest)
        return g_strdup(largest->path);
    g_autofree char *run = g_build_filename(path, "run.json", NULL);
    if (g_file_test(run, G_FILE_TEST_EXISTS))
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "%s: the results of a finished run, not what was run; 'echelon report' makes its page again, 'echelon compare' sets it beside others",
                    path);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "%s: a folder without a program or a profile; expected something like program.hlo.txt.gz (files of other formats are given one by one)",
                    path);
    return NULL;
}

/* ---- ranks ---- */

/* The digits at @text, after one of " -_" or none. */
static bool number_at(const char *text, uint64_t *ret)
{
    if (*text && strchr(" -_", *text))
        text++;
    if (!g_ascii_isdigit(*text))
        return false;
    *ret = g_ascii_strtoull(text, NULL, 10);
    return true;
}

/* What rank a capture is of, by what it begins with: PyTorch's profiles say "distributedInfo": {..., "rank": 3, ...}, captures of a GPU that was not there
 * "rank PROCESS 3 8", of a TPU "rank 3 8". */
static bool rank_in_head(const char *path, uint64_t *ret)
{
    g_autoptr(EchSource) source = ech_source_open(path, NULL);
    size_t n = 0;
    const uint8_t *bytes = source ? ech_source_head(source, &n) : NULL;
    g_autofree char *head = n ? g_strndup((const char *)bytes, n) : g_strdup("");
    const char *info = strstr(head, "\"distributedInfo\""), *end = info ? strchr(info, '}') : NULL, *said = info ? strstr(info, "\"rank\":") : NULL;
    if (said && end && said < end)
        return number_at(said + strlen("\"rank\":"), ret);
    const char *line = strstr(head, "\nrank ");
    unsigned long long numbers[3];
    int got = line ? sscanf(line, "\nrank %llu %llu%*1[ ]%llu", &numbers[0], &numbers[1], &numbers[2]) : 0;
    if (got < 2)
        return false;
    *ret = numbers[got - 2];
    return true;
}

/* The same by its name: "rank3_trace.json", "trace_rank_3.json.gz". */
static bool rank_in_name(const char *path, uint64_t *ret)
{
    g_autofree char *name = g_path_get_basename(path), *lower = g_ascii_strdown(name, -1);
    const char *said = strstr(lower, "rank");
    return said && number_at(said + strlen("rank"), ret);
}

static int by_rank(gconstpointer a, gconstpointer b)
{
    const File *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : by_path(a, b);
}

char **ech_import_ranks_in(const char *path)
{
    g_autoptr(GArray) files = g_file_test(path, G_FILE_TEST_IS_DIR) ? files_in(path, NULL) : NULL;
    if (!files || files->len < 2)
        return NULL;
    for (guint i = 0; i < files->len; i++) {
        File *file = &g_array_index(files, File, i);
        file->rank = i; /* JAX writes a profile for each host */
        if (!rank_in_head(file->path, &file->rank) && !rank_in_name(file->path, &file->rank) && !strstr(file->path, ".xplane.pb"))
            return NULL;
    }
    g_array_sort(files, by_rank);
    g_autoptr(GStrvBuilder) ranks = g_strv_builder_new();
    guint n = 0;
    for (guint i = 0; i < files->len; i++) {
        const File *file = &g_array_index(files, File, i);
        if (i + 1 < files->len && file[1].rank == file->rank)
            continue;
        g_strv_builder_add(ranks, file->path);
        n++;
    }
    return n > 1 ? g_strv_builder_end(ranks) : NULL;
}
