#include "sim/base/modules.h"

#include <stdbool.h>

char *ech_module_find(const char *file, GString *tried)
{
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = program ? g_path_get_dirname(program) : g_strdup(".");
    const char *chosen = g_getenv("ECHELON_MODULES");
    char *const folders[] = {
        g_strdup(chosen && *chosen ? chosen : NULL),
        g_build_filename(folder, "lib", "echelon", NULL),
        g_build_filename(folder, "..", "lib", "echelon", NULL),
        g_build_filename(folder, "..", ECH_INSTALL_LIB, NULL),
    };
    char *found = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *place = folders[i];
        if (!place || found)
            continue;
        g_autofree char *path = g_build_filename(place, file, NULL);
        if (g_file_test(path, G_FILE_TEST_EXISTS))
            found = g_steal_pointer(&path);
        else if (tried)
            g_string_append_printf(tried, "%s%s (no such file)", tried->len ? ", " : "", path);
    }
    return found;
}
