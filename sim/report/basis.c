/* What the kernel times of a GPU program rest on: how much is held against measurements, how much is borrowed, assumed, or a roofline alone. */
#include "models/kernel/gpu.h"
#include "sim/report/report.h"

#include <string.h>

bool ech_report_basis(const EchReport *report, EchBasis *ret)
{
    EchBasis basis = {0};
    if (!report->program || report->program->platform != ECH_PLATFORM_GPU)
        return false;
    size_t n;
    g_autofree EchNameTime *times = ech_report_longest(report, SIZE_MAX, &n);
    for (size_t i = 0; i < n; i++) {
        if (times[i].kind != ECH_OP_KERNEL)
            continue;
        EchTime *into = times[i].price == ECH_PRICE_ROOFLINE  ? &basis.roofline
                        : times[i].price == ECH_PRICE_UNKNOWN ? &basis.unknown
                        : times[i].price == ECH_PRICE_MODEL   ? &basis.model[ech_gpu_class_basis((EchGpuClass)times[i].kernel_class)]
                                                              : NULL;
        if (!into)
            continue;
        *into = ech_time_add(*into, times[i].time);
        basis.all = ech_time_add(basis.all, times[i].time);
        if (into == &basis.model[ECH_GPU_ASSUMED])
            basis.classes[times[i].kernel_class] = ech_time_add(basis.classes[times[i].kernel_class], times[i].time);
    }
    if (basis.all == 0)
        return false;
    *ret = basis;
    return true;
}

static void add(GString *text, EchTime part, EchTime all, const char *what)
{
    if (part <= 0)
        return;
    double percent = 100 * (double)part / (double)all;
    g_string_append(text, strchr(text->str, '%') ? "; " : " ");
    if (percent < 0.5)
        g_string_append_printf(text, "less than 1 %% %s", what);
    else
        g_string_append_printf(text, "%.0f %% %s", percent, what);
}

char *ech_report_basis_text(const EchBasis *basis)
{
    GString *text = g_string_new("Of the kernels' time");
    add(text, basis->model[ECH_GPU_HELD], basis->all, "is products, which are held against published times");
    add(text, basis->model[ECH_GPU_BORROWED], basis->all, "other kernels with the constants of PyTorch's, held against no GPU");
    add(text, basis->model[ECH_GPU_ASSUMED], basis->all, "assumed");
    EchGpuClass most = ECH_GPU_UNKNOWN;
    for (size_t c = 0; c < G_N_ELEMENTS(basis->classes); c++)
        most = basis->classes[c] > basis->classes[most] ? (EchGpuClass)c : most;
    if (basis->classes[most] > 0)
        g_string_append_printf(text, " (most of it %s)", ech_gpu_class_name(most));
    add(text, basis->roofline, basis->all, "bytes and operations at the device's rates");
    add(text, basis->unknown, basis->all, "starts of kernels of which nothing is known");
    g_string_append_c(text, '.');
    return g_string_free(text, FALSE);
}
