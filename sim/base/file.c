#include "sim/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GATHER_BYTES = 1 << 18 };
/* What is gathered lies in memory, and /dev/zero has no end: so much of a pipe, of a terminal or another device. */
#define MOST_OF_PIPE ((uint64_t)16 << 30)
#define MOST_OF_DEVICE ((uint64_t)64 << 20)

/* Copies what a pipe or a terminal gives into memory that can be mapped; -1 with errno. */
static int gather(int from)
{
    int into = memfd_create("echelon", MFD_CLOEXEC), problem = errno;
    g_autofree char *buffer = g_malloc(GATHER_BYTES);
    ssize_t got = into < 0 ? -1 : 1;
    struct stat found;
    uint64_t most = fstat(from, &found) == 0 && S_ISCHR(found.st_mode) ? MOST_OF_DEVICE : MOST_OF_PIPE;
    for (uint64_t all = 0; got > 0;) {
        got = read(from, buffer, GATHER_BYTES);
        problem = errno;
        all += got > 0 ? (uint64_t)got : 0;
        if (all > most) {
            got = -1;
            problem = EFBIG;
        }
        if (got < 0 && problem == EINTR)
            got = 1;
        else if (got > 0) {
            ssize_t put = 0;
            for (ssize_t n = 0; n < got && put >= 0; n += put)
                put = write(into, buffer + n, (size_t)(got - n));
            problem = errno;
            got = put < 0 ? -1 : got;
        }
    }
    if (got < 0 && into >= 0)
        close(into);
    errno = problem;
    return got < 0 ? -1 : into;
}

/* What cannot be mapped because it is read but once; NULL and no error where @path is a file like others. */
static GMappedFile *map_stream(const char *path, GError **error)
{
    /* What was read once cannot be read again, and is asked for again: to see what it is, then to read it. */
    static GMappedFile *last;
    static char *last_path;
    if (last && strcmp(path, last_path) == 0)
        return g_mapped_file_ref(last);
    struct stat found;
    bool input = strcmp(path, "-") == 0;
    if (!input && (stat(path, &found) != 0 || !(S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode) || S_ISSOCK(found.st_mode))))
        return NULL;
    int from = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int into = from < 0 ? -1 : gather(from), problem = errno;
    if (from >= 0 && !input)
        close(from);
    GMappedFile *file = into < 0 ? NULL : g_mapped_file_new_from_fd(into, FALSE, error);
    if (into < 0)
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(problem), "%s: %s", input ? "standard input" : path, g_strerror(problem));
    else
        close(into);
    if (file) {
        g_clear_pointer(&last, g_mapped_file_unref);
        g_free(last_path);
        last = g_mapped_file_ref(file);
        last_path = g_strdup(path);
    }
    return file;
}

GMappedFile *ech_map_file(const char *path, GError **error)
{
    GError *own = NULL;
    GMappedFile *file = map_stream(path, &own);
    if (!file && !own)
        file = g_mapped_file_new(path, FALSE, &own);
    else if (own) {
        g_propagate_error(error, own);
        return NULL;
    }
    if (file)
        return file;
    /* GLib's message quotes the path and names the system call; what is left behind its last colon is the reason. */
    const char *reason = strrchr(own->message, ':');
    bool folder = g_file_test(path, G_FILE_TEST_IS_DIR); /* of which it says "No such device" */
    g_set_error(error, own->domain, own->code, "%s: %s", path, folder ? g_strerror(EISDIR) : reason && reason[1] ? reason + 2 : own->message);
    g_error_free(own);
    return NULL;
}

void ech_remove_tree(const char *path)
{
    if (!g_file_test(path, G_FILE_TEST_IS_SYMLINK) && g_file_test(path, G_FILE_TEST_IS_DIR)) {
        g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
        const char *name;
        while (dir && (name = g_dir_read_name(dir))) {
            g_autofree char *child = g_build_filename(path, name, NULL);
            ech_remove_tree(child);
        }
    }
    g_remove(path);
}

char *ech_shell_word(const char *text)
{
    return !*text || strpbrk(text, " \t\n'\"\\$&;()*?<>|`#~!{}[]") ? g_shell_quote(text) : g_strdup(text);
}
