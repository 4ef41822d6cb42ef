#include "sim/experiment/output.h"

#include "sim/base/file.h"
#include "sim/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEING_MADE ".echelon-"

struct EchOutput {
    char *path;
    char *made; /* Beside path, or in it where that is there already, until it is committed. */
    bool inside;
    sigset_t signals;
};

/* Whether a run, a sweep or ranks write an entry of that name: those are replaced, what else lies in a folder of results is its owner's. */
static bool is_written(const char *folder, const char *name)
{
    enum { DIGITS = 3 }; /* at least, of the folder of a point or of a rank */
    static const char *const files[] = {"run.json",      "sweep.json",      "ranks.json",       "details.json",     "report.html", "summary.txt",
                                        "time.pprof.gz", "memory.pprof.gz", "timeline.json.gz", "timeline.pftrace", NULL};
    size_t digits = strspn(name, "0123456789");
    g_autofree char *of_point = digits >= DIGITS && name[digits] == '\0' ? g_build_filename(folder, name, "run.json", NULL) : NULL;
    return g_strv_contains(files, name) || (of_point && g_file_test(of_point, G_FILE_TEST_IS_REGULAR));
}

static bool is_ours(const char *path)
{
    static const char *const files[] = {"run.json", "sweep.json", "ranks.json", NULL};
    for (const char *const *file = files; *file; file++) {
        g_autofree char *there = g_build_filename(path, *file, NULL);
        if (g_file_test(there, G_FILE_TEST_IS_REGULAR))
            return true;
    }
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name = dir ? g_dir_read_name(dir) : NULL;
    while (name && g_str_has_prefix(name, BEING_MADE)) /* by one that was killed */
        name = g_dir_read_name(dir);
    return dir && !name;
}

static bool set_errno_error(GError **error, const char *path, int code)
{
    g_set_error(error, G_FILE_ERROR, (int)g_file_error_from_errno(code), "%s: %s", path, g_strerror(code));
    return false;
}

/* GLib's message names a file beside it that nobody asked for; the reason is what follows. */
static void say_reason(GError **error, const char *path, const GError *own)
{
    const char *reason = g_strrstr(own->message, ": ");
    g_set_error(error, own->domain, own->code, "%s: %s", path, reason ? reason + 2 : own->message);
}

/* Until it is closed, no other process puts results into the folder @path. -1: it is none, errno says why. */
static int hold(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        flock(folder, LOCK_EX); /* where the file system has none, as if nobody else were there */
    return folder;
}

/* Between two results, as another process puts its own there, none may be there. */
static bool is_ours_at_last(const char *path)
{
    if (is_ours(path))
        return true;
    int folder = hold(path);
    bool ours = folder >= 0 && is_ours(path);
    if (folder >= 0)
        close(folder);
    return ours;
}

bool ech_output_check(const char *path, GError **error)
{
    g_autofree char *at = g_strdup(path);
    if (g_file_test(at, G_FILE_TEST_EXISTS) && !is_ours_at_last(at)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST, "%s: is there already and holds no results of echelon; give another -o or remove it", path);
        return false;
    }
    while (!g_file_test(at, G_FILE_TEST_EXISTS)) {
        char *parent = g_path_get_dirname(at);
        g_free(at);
        at = parent;
    }
    if (!g_file_test(at, G_FILE_TEST_IS_DIR))
        return set_errno_error(error, at, ENOTDIR);
    return g_access(at, W_OK | X_OK) == 0 || set_errno_error(error, at, errno);
}

EchOutput *ech_output_new(const char *path, GError **error)
{
    g_autofree char *plain = g_canonicalize_filename(path, NULL);
    if (!ech_output_check(path, error))
        return NULL;
    bool inside = g_file_test(plain, G_FILE_TEST_IS_DIR);
    g_autofree char *parent = g_path_get_dirname(plain);
    if (!inside && g_mkdir_with_parents(parent, 0777) != 0) {
        set_errno_error(error, parent, errno);
        return NULL;
    }
    /* What is there stays the folder that it is: a shell may stand in it, it may be a link, or where another file system begins. */
    g_autofree char *made = inside ? g_build_filename(plain, BEING_MADE "XXXXXX", NULL) : g_strconcat(plain, ".XXXXXX", NULL);
    sigset_t signals;
    ech_signals_hold(&signals);
    if (!g_mkdtemp_full(made, 0777)) {
        set_errno_error(error, path, errno);
        pthread_sigmask(SIG_SETMASK, &signals, NULL);
        return NULL;
    }
    EchOutput *output = g_new0(EchOutput, 1);
    output->signals = signals;
    output->path = g_steal_pointer(&plain);
    output->made = g_steal_pointer(&made);
    output->inside = inside;
    return output;
}

bool ech_output_write(EchOutput *output, const char *name, const void *data, size_t n, GError **error)
{
    g_autofree char *path = g_build_filename(output->made, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);
    if (g_mkdir_with_parents(folder, 0777) != 0)
        return set_errno_error(error, folder, errno);
    g_autoptr(GError) own = NULL;
    if (g_file_set_contents_full(path, data, (gssize)n, G_FILE_SET_CONTENTS_NONE, 0666, &own))
        return true;
    g_autofree char *asked = g_build_filename(output->path, name, NULL);
    say_reason(error, asked, own);
    return false;
}

FILE *ech_output_open(EchOutput *output, const char *name, GError **error)
{
    g_autofree char *path = g_build_filename(output->made, name, NULL), *asked = g_build_filename(output->path, name, NULL);
    FILE *file = fopen(path, "wb");
    if (!file)
        set_errno_error(error, asked, errno);
    return file;
}

bool ech_output_close(EchOutput *output, const char *name, FILE *file, bool written, GError **error)
{
    int code = written ? 0 : errno;
    if (fclose(file) != 0 && written)
        code = errno;
    g_autofree char *asked = g_build_filename(output->path, name, NULL);
    return code == 0 || set_errno_error(error, asked, code);
}

/* The entries of the folder @path for which @choose(path, name) holds (NULL: all). */
static GPtrArray *entries_of(const char *path, bool (*choose)(const char *, const char *))
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;
    while (dir && (name = g_dir_read_name(dir))) {
        if (!choose || choose(path, name))
            g_ptr_array_add(names, g_strdup(name));
    }
    return names;
}

/* Gives entries of the folder @from the same names in @to; *ret_n: how many of them it gave. */
static bool move_entries(const char *from, const char *to, const GPtrArray *names, guint *ret_n, GError **error)
{
    for (*ret_n = 0; *ret_n < names->len; (*ret_n)++) {
        g_autofree char *is = g_build_filename(from, names->pdata[*ret_n], NULL), *will_be = g_build_filename(to, names->pdata[*ret_n], NULL);
        if (g_rename(is, will_be) != 0)
            return set_errno_error(error, will_be, errno);
    }
    return true;
}

/* Moves what lies in the numbered folders of @old and is not ours to where it was. */
static bool give_back(const char *old, const char *path, GError **error)
{
    g_autoptr(GPtrArray) names = entries_of(old, NULL);
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        g_autofree char *is = g_build_filename(old, name, NULL), *was = g_build_filename(path, name, NULL);
        bool ours = is_written(old, name);
        if (ours && !g_file_test(is, G_FILE_TEST_IS_SYMLINK) && g_file_test(is, G_FILE_TEST_IS_DIR)) {
            if (!give_back(is, was, error))
                return false;
        } else if (!ours && (g_mkdir_with_parents(path, 0777) != 0 || g_rename(is, was) != 0)) {
            return set_errno_error(error, was, errno);
        }
    }
    return true;
}

/* Results in the place of those that are there; on failure as they were. */
static bool put_in_place(const EchOutput *output, GError **error)
{
    g_autofree char *old = g_strconcat(output->made, ".old", NULL);
    g_autoptr(GPtrArray) before = entries_of(output->path, is_written), now = entries_of(output->made, NULL);
    guint taken = 0, put = 0, returned;
    if (g_mkdir(old, 0777) != 0)
        return set_errno_error(error, output->path, errno);
    if (!move_entries(output->path, old, before, &taken, error) || !move_entries(output->made, output->path, now, &put, error)) {
        g_ptr_array_set_size(now, (gint)put);
        g_ptr_array_set_size(before, (gint)taken);
        if (move_entries(output->path, output->made, now, &returned, NULL) && move_entries(old, output->path, before, &returned, NULL))
            g_rmdir(old);
        return false;
    }
    if (!give_back(old, output->path, error)) {
        g_prefix_error(error, "%s keeps what was there: ", old);
        return false;
    }
    ech_remove_tree(old);
    return true;
}

/* One process at a time, of several that write to the same folder: the results of the last one stay, whole. */
static bool replace(const EchOutput *output, GError **error)
{
    int folder = hold(output->path);
    if (folder < 0)
        return set_errno_error(error, output->path, errno);
    bool ok = is_ours(output->path) && put_in_place(output, error);
    if (!ok && (!error || !*error))
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST,
                    "%s: holds what is no result of echelon by now, and did not when this began; give another -o or remove it", output->path);
    close(folder);
    return ok;
}

bool ech_output_commit(EchOutput *output, GError **error)
{
    if (output->inside)
        return replace(output, error); /* and what it was made in goes with the output */
    if (g_rename(output->made, output->path) == 0) {
        g_clear_pointer(&output->made, g_free);
        return true;
    }
    /* Another process has written there since. */
    return errno == ENOTEMPTY || errno == EEXIST ? replace(output, error) : set_errno_error(error, output->path, errno);
}

void ech_output_free(EchOutput *output)
{
    if (!output)
        return;
    if (output->made)
        ech_remove_tree(output->made);
    pthread_sigmask(SIG_SETMASK, &output->signals, NULL);
    g_free(output->made);
    g_free(output->path);
    g_free(output);
}

/* Devices, pipes and links are written in place: a rename would put a file where they were. */
static bool write_in_place(const char *path, const void *data, size_t n, GError **error)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return set_errno_error(error, path, errno);
    bool ok = fwrite(data, 1, n, file) == n;
    int code = errno;
    if (fclose(file) != 0 && ok) {
        code = errno;
        ok = false;
    }
    return ok || set_errno_error(error, path, code);
}

bool ech_output_file(const char *path, const void *data, size_t n, GError **error)
{
    GStatBuf status;
    if (g_lstat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return write_in_place(path, data, n, error);
    g_autoptr(GError) own = NULL;
    sigset_t signals;
    ech_signals_hold(&signals);
    bool ok = g_file_set_contents_full(path, data, (gssize)n, G_FILE_SET_CONTENTS_CONSISTENT, 0666, &own);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    if (ok)
        return true;
    say_reason(error, path, own);
    return false;
}
