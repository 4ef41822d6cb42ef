/* Finds and loads the SimGrid module. Kept apart so that native users never touch it. */
#include "sim/base/error.h"
#include "sim/base/modules.h"
#include "sim/replay/fluid.h"

#include <gmodule.h>

const EchFluidModule *ech_simgrid_module(GError **error)
{
    /* Loaded once and kept: its libraries' constructors do not survive unloading. */
    static const EchFluidModule *loaded;
    if (loaded)
        return loaded;
    g_autoptr(GString) tried = g_string_new(NULL);
    const EchFluidModule *found = NULL;
    g_autofree char *path = ech_module_find("engine_simgrid.so", tried);
    if (path) {
        GModule *module = g_module_open(path, G_MODULE_BIND_LOCAL | G_MODULE_BIND_LAZY);
        gpointer symbol = NULL;
        if (!module || !g_module_symbol(module, "ech_fluid_module", &symbol) || ((const EchFluidModule *)symbol)->abi != ECH_FLUID_MODULE_ABI) {
            g_string_append_printf(tried, "%s%s (%s)", tried->len ? ", " : "", path, module && symbol ? "of another version" : g_module_error());
            if (module)
                g_module_close(module);
        } else {
            g_module_make_resident(module);
            found = symbol;
        }
    }
    if (!found)
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the SimGrid engine cannot be loaded: %s; --engine native needs no module", tried->str);
    loaded = found;
    return found;
}
