/* Device files: any bytes give a device or an error; a tree that is printed reads back as the same text; edits do not crash. */
#include "models/device/device_yaml.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    g_autoptr(EchYamlNode) root = ech_yaml_parse((const char *)data, n, "fuzz.yaml", NULL);
    if (!root)
        return 0;
    g_autofree char *printed = ech_yaml_print(root);
    GError *error = NULL;
    EchYamlNode *again = ech_yaml_parse(printed, strlen(printed), "printed", &error);
    if (again) {
        g_autofree char *twice = ech_yaml_print(again);
        g_assert_cmpstr(printed, ==, twice);
        ech_yaml_free(again);
    }
    g_clear_error(&error);
    static const char *const settings[] = {"memories.hbm.capacity=x2", "links.host.to_device=x0.5", "kernel.new.number=3", NULL};
    g_autoptr(EchDevice) device = ech_device_load_yaml(root, NULL, NULL);
    g_autoptr(EchDevice) edited = ech_device_load_yaml(root, settings, NULL);
    return 0;
}
