/* Finds and loads the SimGrid module. Kept apart so that native users never touch it. */
#include "sim/base/error.h"
#include "sim/replay/fluid.h"

#include <gmodule.h>

const EchFluidModule *ech_simgrid_module(GError **error)
{
    /* Loaded once and kept: its libraries' constructors do not survive unloading. */
    static const EchFluidModule *loaded;
    if (loaded)
        return loaded;
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = program ? g_path_get_dirname(program) : g_strdup(".");
    const char *chosen = g_getenv("ECHELON_MODULES");
    char *const folders[] = {
        g_strdup(chosen && *chosen ? chosen : NULL),
        g_build_filename(folder, "lib", "echelon", NULL),
        g_build_filename(folder, "..", "lib", "echelon", NULL),
        g_build_filename(folder, "..", ECH_INSTALL_LIB, NULL),
    };
    g_autoptr(GString) tried = g_string_new(NULL);
    const EchFluidModule *found = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *place = folders[i];
        if (!place || found)
            continue;
        g_autofree char *path = g_build_filename(place, "engine_simgrid.so", NULL);
        if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
            g_string_append_printf(tried, "%s%s (no such file)", tried->len ? ", " : "", path);
            continue;
        }
        GModule *module = g_module_open(path, G_MODULE_BIND_LOCAL | G_MODULE_BIND_LAZY);
        gpointer symbol = NULL;
        if (!module || !g_module_symbol(module, "ech_fluid_module", &symbol) || ((const EchFluidModule *)symbol)->abi != ECH_FLUID_MODULE_ABI) {
            g_string_append_printf(tried, "%s%s (%s)", tried->len ? ", " : "", path, module && symbol ? "of another version" : g_module_error());
            if (module)
                g_module_close(module);
            continue;
        }
        g_module_make_resident(module);
        found = symbol;
    }
    if (!found)
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the SimGrid engine cannot be loaded: %s; --engine native needs no module", tried->str);
    loaded = found;
    return found;
}
