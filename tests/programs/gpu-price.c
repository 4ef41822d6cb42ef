/* gpu-price DEVICE: prices kernels with the GPU model, one a line of standard input: "name|launch|read|written|dtype", behind it for attention
 * "|operations", or "operator|NAME|rows|columns|bits" or "product|m|n|k|dtype|bits"; prints picoseconds and what bounds each. For comparing the model with
 * tables that are not in this tree. */
#include "models/kernel/gpu.h"

#include <stdio.h>
#include <string.h>

static uint64_t number(const char *text)
{
    return text ? g_ascii_strtoull(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    GError *error = NULL;
    g_autoptr(EchDevice) device = argc == 2 ? ech_device_load(argv[1], NULL, &error) : NULL;
    if (!device) {
        fprintf(stderr, "usage: gpu-price DEVICE <ROWS%s%s\n", error ? "\n" : "", error ? error->message : "");
        g_clear_error(&error);
        return 2;
    }
    static char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        g_auto(GStrv) f = g_strsplit(line, "|", -1);
        guint n = g_strv_length(f);
        EchGpuCost cost = {0};
        bool known = false;
        if (n == 5 && strcmp(f[0], "operator") == 0) {
            known = ech_gpu_operator(device, f[1], number(f[2]), number(f[3]), (unsigned)number(f[4]), &cost);
        } else if (n == 6 && strcmp(f[0], "product") == 0) {
            known = ech_gpu_product(device, 1, number(f[1]), number(f[2]), number(f[3]), f[4], (unsigned)number(f[5]), &cost);
        } else if (n == 5 || n == 6) {
            EchGpuKernel kernel = {
                .read = number(f[2]), .written = number(f[3]), .dtype = *f[4] ? f[4] : NULL, .operations = n == 6 ? (double)number(f[5]) : 0};
            ech_gpu_name(f[0], &kernel.name);
            if (ech_gpu_launch_parse(f[1], &kernel.launch))
                ech_gpu_launch_says(&kernel.launch, &kernel.name);
            known = ech_gpu_kernel_price(device, &kernel, &cost);
            printf("%s %ux%ux%u ", ech_gpu_class_name((EchGpuClass)kernel.name.kind), kernel.name.tile_m, kernel.name.tile_n, kernel.name.tile_k);
        }
        printf("%" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %u\n", known ? cost.time : -1, cost.latency, cost.compute,
               cost.memory, cost.bound);
    }
    return 0;
}
