#include "sim/experiment/output.h"

#include "sim/base/file.h"
#include "sim/base/signals.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct EchOutput {
    char *path;
    char *made; /* Beside path, until it is committed. */
    sigset_t signals;
};

static bool is_ours(const char *path)
{
    static const char *const files[] = {"run.json", "sweep.json", "ranks.json", NULL};
    for (const char *const *file = files; *file; file++) {
        g_autofree char *there = g_build_filename(path, *file, NULL);
        if (g_file_test(there, G_FILE_TEST_IS_REGULAR))
            return true;
    }
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    return dir && !g_dir_read_name(dir);
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

EchOutput *ech_output_new(const char *path, GError **error)
{
    g_autofree char *plain = g_canonicalize_filename(path, NULL);
    if (g_file_test(plain, G_FILE_TEST_EXISTS) && !is_ours(plain)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_EXIST, "%s: is there already and holds no results of echelon; give another -o or remove it", path);
        return NULL;
    }
    g_autofree char *parent = g_path_get_dirname(plain);
    if (g_mkdir_with_parents(parent, 0777) != 0) {
        set_errno_error(error, parent, errno);
        return NULL;
    }
    g_autofree char *made = g_strconcat(plain, ".XXXXXX", NULL);
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

bool ech_output_commit(EchOutput *output, GError **error)
{
    g_autofree char *old = NULL;
    if (g_file_test(output->path, G_FILE_TEST_EXISTS)) {
        old = g_strconcat(output->made, ".old", NULL);
        if (g_rename(output->path, old) != 0)
            return set_errno_error(error, output->path, errno);
    }
    if (g_rename(output->made, output->path) != 0) {
        int code = errno;
        if (old && g_rename(old, output->path) != 0)
            g_clear_pointer(&old, g_free);
        return set_errno_error(error, output->path, code);
    }
    g_clear_pointer(&output->made, g_free);
    if (old)
        ech_remove_tree(old);
    return true;
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
