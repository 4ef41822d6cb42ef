/* A compiled program's kernels against the compiler's own estimates. */
#include "sim/experiment/validate.h"
#include "sim/program/price_kernels.h"

#define MAX_NESTING 64

/* How often a computation of the flat schedule runs: the product of the trip counts around it; loops that tell none count once. */
static double runs_of(const EchProgram *program, EchId computation)
{
    double runs = 1;
    for (unsigned depth = 0; depth < MAX_NESTING && computation != ECH_NONE; depth++) {
        EchId caller = program->computations[computation].caller;
        if (caller == ECH_NONE)
            break;
        uint64_t trips;
        EchOrigin origin;
        if (program->instructions[caller].opcode == ECH_HLO_WHILE && ech_program_trips(program, caller, &trips, &origin))
            runs *= (double)trips;
        computation = program->instructions[caller].computation;
    }
    return runs;
}

EchValidation *ech_validate_program(const EchProgram *program, const EchDevice *device, bool own_tiles, GError **error)
{
    EchKernelModel compiler, hardware;
    if (!ech_kernel_model_init(&compiler, device, ECH_KERNEL_COMPILER, error) || !ech_kernel_model_init(&hardware, device, ECH_KERNEL_HARDWARE, error))
        return NULL;
    g_autoptr(GArray) pairs = g_array_new(FALSE, TRUE, sizeof(EchValidatePair));
    double measured = 0, predicted = 0;
    for (size_t i = 0; i < program->n_flat; i++) {
        EchId id = program->flat[i];
        const EchInstruction *at = &program->instructions[id];
        EchKernelCost cost, real;
        if (!ech_program_price_kernel(program, id, &compiler, own_tiles, &cost) || !ech_program_price_kernel(program, id, &hardware, own_tiles, &real))
            continue;
        double runs = runs_of(program, at->computation);
        predicted += runs * (double)real.time;
        uint64_t cycles;
        if (!ech_program_config_u64(at, "window_config.estimated_cycles", &cycles) || cycles == 0)
            continue;
        EchValidatePair pair = {
            .name = g_strdup(at->name),
            .kind = g_strdup("kernel"),
            .measured = ech_time_for(cycles, (EchRate)compiler.clock_hz),
            .predicted = cost.time,
            .vmem_measured = ech_program_scoped_bytes(at, ECH_SPACE_VECTOR),
            .vmem_predicted = cost.vmem,
            .cost = cost,
        };
        measured += runs * (double)pair.measured;
        g_array_append_val(pairs, pair);
    }
    EchValidation *validation = g_new0(EchValidation, 1);
    validation->makespan_measured = measured > 0 && measured < 9e18 ? (EchTime)measured : ECH_TIME_NONE;
    validation->makespan_predicted = predicted < 9e18 ? (EchTime)predicted : ECH_TIME_MAX;
    validation->n_pairs = pairs->len;
    validation->pairs = (EchValidatePair *)(void *)g_array_free(g_steal_pointer(&pairs), FALSE);
    return validation;
}
