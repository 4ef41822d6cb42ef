/* What the kernel times of a program rest on: how much is held against measurements or estimates, how much is borrowed, assumed, or a roofline alone. */
#include "models/kernel/gpu.h"
#include "sim/base/hash.h"
#include "sim/program/price_kernels.h"
#include "sim/report/json_out.h"
#include "sim/report/report.h"

#include <string.h>

static bool tpu_basis(const EchReport *report, EchBasis *ret)
{
    const EchProgram *program = report->program;
    EchBasis basis = {.tpu = true};
    size_t n;
    g_autofree EchNameTime *times = ech_report_longest(report, SIZE_MAX, &n);
    g_autoptr(GHashTable) named = g_hash_table_new(ech_hash_text, g_str_equal);
    for (size_t i = 0; i < program->n_instructions; i++)
        g_hash_table_insert(named, (gpointer)(uintptr_t)program->instructions[i].name, GSIZE_TO_POINTER(i + 1));
    for (size_t i = 0; i < n; i++) {
        if (times[i].kind != ECH_OP_KERNEL)
            continue;
        size_t at = times[i].price == ECH_PRICE_MODEL ? GPOINTER_TO_SIZE(g_hash_table_lookup(named, times[i].name)) : 0;
        EchKernelTrust trust = at > 0 ? ech_program_kernel_trust(program, (EchId)(at - 1)) : ECH_KERNEL_HELD;
        bool compiler = times[i].price == ECH_PRICE_ESTIMATE || times[i].price == ECH_PRICE_ESTIMATE_SCALED;
        EchTime *into = compiler                               ? &basis.compiler
                        : times[i].price == ECH_PRICE_ROOFLINE ? &basis.roofline
                        : times[i].price == ECH_PRICE_UNKNOWN  ? &basis.unknown
                        : times[i].price != ECH_PRICE_MODEL    ? NULL
                        : trust == ECH_KERNEL_ROUGH            ? &basis.rough
                        : trust == ECH_KERNEL_UNTESTED         ? &basis.untested
                                                               : &basis.held;
        if (!into)
            continue;
        *into = ech_time_add(*into, times[i].time);
        basis.all = ech_time_add(basis.all, times[i].time);
    }
    if (basis.all == 0)
        return false;
    *ret = basis;
    return true;
}

bool ech_report_program_basis(const EchProgram *program, const EchDevice *device, EchBasis *ret, uint64_t *ret_kernels)
{
    EchKernelModel compiler, hardware;
    if (program->platform != ECH_PLATFORM_TPU || g_strcmp0(device->family, "tpu") != 0 ||
        !ech_kernel_model_init(&compiler, device, ECH_KERNEL_COMPILER, NULL) || !ech_kernel_model_init(&hardware, device, ECH_KERNEL_HARDWARE, NULL))
        return false;
    const EchKernelModel *own = ech_kernel_stands_alone(device) ? NULL : &compiler;
    EchBasis basis = {.tpu = true};
    g_autoptr(EchKernelMemo) memo = ech_kernel_memo_new();
    double compiled = 0, held = 0, rough = 0, untested = 0;
    uint64_t kernels = 0;
    for (size_t i = 0; i < program->n_flat; i++) {
        EchId id = program->flat[i];
        const EchInstruction *at = &program->instructions[id];
        uint64_t cycles;
        bool estimated = ech_program_estimated_cycles(at, &cycles), carried;
        EchTime time, estimate = estimated ? ech_time_for(cycles, (EchRate)compiler.clock_hz) : ECH_TIME_NONE;
        if (!ech_program_is_on_core(program, id) || !ech_program_kernel_time(program, id, &hardware, own, estimate, memo, &time, &carried))
            continue;
        EchKernelTrust trust = ech_program_kernel_trust(program, id);
        *(carried                        ? &compiled
          : trust == ECH_KERNEL_ROUGH    ? &rough
          : trust == ECH_KERNEL_UNTESTED ? &untested
                                         : &held) += (double)ech_program_runs(program, at->computation) * (double)time;
        kernels++;
    }
    const struct {
        double from;
        EchTime *to;
    } sums[] = {{compiled, &basis.compiler}, {held, &basis.held}, {rough, &basis.rough}, {untested, &basis.untested}};
    for (size_t i = 0; i < G_N_ELEMENTS(sums); i++) {
        *sums[i].to = ech_time_round(sums[i].from);
        basis.all = ech_time_add(basis.all, *sums[i].to);
    }
    if (basis.all == 0)
        return false;
    *ret = basis;
    *ret_kernels = kernels;
    return true;
}

void ech_report_add_basis(JsonBuilder *b, const EchBasis *basis)
{
    ech_json_begin_object(b, "kernel_time_basis");
    if (basis->tpu) {
        ech_json_add_int(b, "compiler_ps", basis->compiler);
        ech_json_add_int(b, "held_ps", basis->held);
        ech_json_add_int(b, "rough_ps", basis->rough);
        ech_json_add_int(b, "untested_ps", basis->untested);
    } else {
        ech_json_add_int(b, "held_ps", basis->model[ECH_GPU_HELD]);
        ech_json_add_int(b, "borrowed_ps", basis->model[ECH_GPU_BORROWED]);
        ech_json_add_int(b, "assumed_ps", basis->model[ECH_GPU_ASSUMED]);
    }
    if (basis->code > 0)
        ech_json_add_int(b, "code_ps", basis->code);
    ech_json_add_int(b, "roofline_ps", basis->roofline);
    ech_json_add_int(b, "unknown_ps", basis->unknown);
    json_builder_end_object(b);
}

bool ech_report_basis(const EchReport *report, EchBasis *ret)
{
    EchBasis basis = {0};
    if (report->program && report->program->platform == ECH_PLATFORM_TPU)
        return tpu_basis(report, ret);
    bool tpu = g_strcmp0(ech_trace_get_property(report->trace, "platform"), "tpu") == 0; /* each kernel says what prices it */
    bool pretended = !report->program && !tpu && ech_trace_get_property(report->trace, "pretended_device");
    basis.pytorch = pretended && !ech_trace_get_property(report->trace, "kernels_of_programs");
    basis.by_hand = g_strcmp0(ech_trace_get_property(report->trace, "host_order"), ECH_HOST_COMPILED) == 0;
    if (!pretended && (!report->program || report->program->platform != ECH_PLATFORM_GPU))
        return false;
    size_t n;
    g_autofree EchNameTime *times = ech_report_longest(report, SIZE_MAX, &n);
    for (size_t i = 0; i < n; i++) {
        if (times[i].kind != ECH_OP_KERNEL)
            continue;
        EchTime *into = times[i].price == ECH_PRICE_ROOFLINE  ? &basis.roofline
                        : times[i].price == ECH_PRICE_CODE    ? &basis.code
                        : times[i].price == ECH_PRICE_UNKNOWN ? &basis.unknown
                        : times[i].price == ECH_PRICE_MODEL   ? &basis.model[ech_gpu_class_basis((EchGpuClass)times[i].kernel_class)]
                                                              : NULL;
        if (!into)
            continue;
        *into = ech_time_add(*into, times[i].time);
        basis.all = ech_time_add(basis.all, times[i].time);
        basis.transforms |= times[i].kernel_class == ECH_GPU_FFT;
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
    if (basis->tpu) {
        add(text, basis->compiler, basis->all, "rests on the compiler's estimates");
        add(text, basis->held, basis->all, "is the model's own, which comes near the compiler's for such kernels");
        add(text, basis->rough, basis->all, "the model's, off by a quarter and more for such kernels (reduced windows, some convolutions)");
        add(text, basis->untested, basis->all, "the model's, held against nothing (sorts, gathers, scatters)");
    }
    add(text, basis->model[ECH_GPU_HELD], basis->all,
        basis->transforms ? "is products and FFTs, which are held against published times" : "is products, which are held against published times");
    add(text, basis->model[ECH_GPU_BORROWED], basis->all,
        basis->pytorch ? "other kernels with constants from recorded ones of their class"
                       : "other kernels with the constants of PyTorch's, held against no GPU");
    add(text, basis->model[ECH_GPU_ASSUMED], basis->all, "assumed");
    EchGpuClass most = ECH_GPU_UNKNOWN;
    for (size_t c = 0; c < G_N_ELEMENTS(basis->classes); c++)
        most = basis->classes[c] > basis->classes[most] ? (EchGpuClass)c : most;
    if (basis->classes[most] > 0)
        g_string_append_printf(text, " (most of it %s)", ech_gpu_class_name(most));
    add(text, basis->code, basis->all, "by what their own code issues, accesses and waits for");
    add(text, basis->roofline, basis->all,
        basis->by_hand   ? "of no known class: bytes and operations at the device's rates, the least that they take"
        : basis->pytorch ? "of no known class: bytes and operations at the device's rates"
                         : "bytes and operations at the device's rates");
    add(text, basis->unknown, basis->all, "starts of kernels of which nothing is known");
    g_string_append_c(text, '.');
    return g_string_free(text, FALSE);
}
