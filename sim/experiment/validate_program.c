/* A compiled program's kernels against the compiler's own estimates. */
#include "sim/experiment/validate.h"
#include "sim/base/error.h"
#include "sim/program/price_kernels.h"

#define ROUGH "of kinds that the model prices roughly"

/* The chip that the compiler counted cycles of, where that is another one than @device and known here; else NULL. */
static EchDevice *other_chip(const EchProgram *program, const EchDevice *device)
{
    const char *chip = ech_program_kernels_for(program);
    return chip && g_strcmp0(chip, device->name) != 0 ? ech_device_load(chip, NULL, NULL) : NULL;
}

EchValidation *ech_validate_program(const EchProgram *program, const EchDevice *device, bool own_tiles, GError **error)
{
    EchKernelModel compiler, counted;
    g_autoptr(EchDevice) other = other_chip(program, device);
    if (!ech_validate_is_of_kind(ECH_PLATFORM_TPU, device, error) || !ech_kernel_model_init(&compiler, device, ECH_KERNEL_COMPILER, error) ||
        !ech_kernel_model_init(&counted, other ? other : device, ECH_KERNEL_COMPILER, error))
        return NULL;
    g_autoptr(GArray) pairs = g_array_new(FALSE, TRUE, sizeof(EchValidatePair));
    double measured = 0, predicted = 0;
    uint64_t without = 0, ragged = 0;
    const char *first_without = NULL;
    for (size_t i = 0; i < program->n_flat; i++) {
        EchId id = program->flat[i];
        const EchInstruction *at = &program->instructions[id];
        EchKernelCost cost;
        uint64_t cycles;
        bool estimated = ech_program_estimated_cycles(at, &cycles);
        if (!ech_program_is_on_core(program, id) || !ech_program_price_kernel(program, id, &compiler, own_tiles, NULL, &cost))
            continue;
        double runs = (double)ech_program_runs(program, at->computation);
        if (!estimated) {
            without++;
            first_without = first_without ? first_without : at->name;
            continue;
        }
        EchValidatePair pair = {
            .name = g_strdup(at->name),
            .kind = g_strdup("kernel"),
            .group = ech_program_kernel_trust(program, id) == ECH_KERNEL_ROUGH ? g_strdup(ROUGH) : NULL,
            .how = "compiler",
            .start = ECH_TIME_NONE,
            .measured = ech_time_for(cycles, (EchRate)counted.clock_hz),
            .predicted = cost.time,
            .vmem_measured = ech_program_scoped_bytes(at),
            .vmem_predicted = cost.vmem,
            .cost = cost,
        };
        ragged += ech_program_ragged_groups(at) > 0;
        measured += runs * (double)pair.measured;
        predicted += runs * (double)pair.predicted;
        g_array_append_val(pairs, pair);
    }
    if (pairs->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: no kernel of the program carries the compiler's estimate (estimated_cycles)%s",
                    program->name ? program->name : "program", without ? "" : ", and none could be priced");
        return NULL;
    }
    EchValidation *validation = g_new0(EchValidation, 1);
    validation->makespan_measured = ech_time_round(measured);
    validation->makespan_predicted = ech_time_round(predicted);
    uint64_t kernels;
    (void)ech_report_program_basis(program, device, &validation->basis, &kernels);
    validation->estimated = true;
    validation->subject = g_strdup("the compiler's own estimates (estimated_cycles at the core clock)");
    validation->notes = g_ptr_array_new_with_free_func(g_free);
    if (other)
        g_ptr_array_add(
            validation->notes,
            g_strdup_printf("The program was compiled for %s, and the estimates are of that chip; the predictions are for %s: what the two differ in is "
                            "part of every error here.",
                            other->name, device->name));
    g_ptr_array_add(
        validation->notes,
        g_strdup("Predictions here use the constants that the compiler believes in, kernel by kernel: they say whether echelon reads shapes, windows and work "
                 "as the compiler does."));
    g_ptr_array_add(
        validation->notes,
        g_strdup(ech_kernel_stands_alone(device)
                     ? "'echelon run' prices these kernels by the model's hardware constants alone: on this device they were fitted to measured kernels."
                     : "'echelon run' carries each estimate from what the compiler counts to what the hardware does, by the ratio of the two "
                       "views of the model."));
    if (ragged > 0)
        g_ptr_array_add(validation->notes,
                        g_strdup_printf("%" G_GUINT64_FORMAT
                                        " of the kernels are products of ragged groups: their estimates count every block of rows with every "
                                        "group, of which the chip runs those of its rows alone. 'echelon run' does not carry them; the sums above have them.",
                                        ragged));
    if (without > 0) {
        validation->gaps = g_new0(EchValidateGap, 1);
        validation->n_gaps = 1;
        validation->gaps[0] =
            (EchValidateGap){.kind = "kernel", .reason = "the compiler gives no estimate", .example = g_strdup(first_without), .count = without};
    }
    validation->n_pairs = pairs->len;
    validation->pairs = (EchValidatePair *)(void *)g_array_free(g_steal_pointer(&pairs), FALSE);
    return validation;
}
