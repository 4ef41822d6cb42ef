/* Names and launches of GPU kernels: whatever they say, a price is a time. First line the name, then the launch. */
#include "models/kernel/gpu.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EchDevice *device;
    if (!device)
        device = ech_device_load("h100-sxm", NULL, NULL);
    g_assert(device);
    g_autofree char *text = g_strndup((const char *)data, size);
    char *line = strchr(text, '\n');
    if (line)
        *line++ = '\0';
    EchGpuKernel kernel = {.read = size ? (EchBytes)data[0] << (data[size - 1] % 64) : 0, .written = size, .operations = 1e12 * (double)size};
    ech_gpu_name(text, &kernel.name);
    g_assert(kernel.name.kind < ECH_GPU_N_CLASSES);
    if (line && ech_gpu_launch_parse(line, &kernel.launch)) {
        g_autoptr(GString) printed = g_string_new(NULL), again = g_string_new(NULL);
        EchGpuLaunch read;
        ech_gpu_launch_print(&kernel.launch, printed);
        if (ech_gpu_launch_parse(printed->str, &read))
            ech_gpu_launch_print(&read, again);
        g_assert_cmpstr(printed->str, ==, again->str);
        ech_gpu_launch_says(&kernel.launch, &kernel.name);
    }
    EchGpuCost cost;
    if (ech_gpu_kernel_price(device, &kernel, &cost))
        g_assert(cost.time > 0 && cost.time >= cost.launch);
    return 0;
}
