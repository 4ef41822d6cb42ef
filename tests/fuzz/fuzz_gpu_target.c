/* XLA's description of a GPU: what is accepted must be a device. */
#include "models/device/device_yaml.h"
#include "models/device/gpu_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    (void)ech_gpu_target_probe((const char *)data, size);
    g_autoptr(GString) yaml = ech_gpu_target_yaml((const char *)data, size, "fuzz", &error);
    g_assert((yaml != NULL) == (error == NULL));
    if (!yaml)
        return 0;
    g_autoptr(EchYamlNode) root = ech_yaml_parse(yaml->str, yaml->len, "fuzz", &error);
    if (!root)
        g_error("%s in\n%s", error->message, yaml->str);
    g_autoptr(EchDevice) device = ech_device_load_yaml(root, NULL, &error);
    if (!device)
        g_error("%s in\n%s", error->message, yaml->str);
    return 0;
}
