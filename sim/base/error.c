#include "sim/base/error.h"

#include <string.h>

G_DEFINE_QUARK(ech - error - quark, ech_error)

GMappedFile *ech_map_file(const char *path, GError **error)
{
    GError *own = NULL;
    GMappedFile *file = g_mapped_file_new(path, FALSE, &own);
    if (file)
        return file;
    /* GLib's message quotes the path and names the system call; what is left behind its last colon is the reason. */
    const char *reason = strrchr(own->message, ':');
    g_set_error(error, own->domain, own->code, "%s: %s", path, reason && reason[1] ? reason + 2 : own->message);
    g_error_free(own);
    return NULL;
}
