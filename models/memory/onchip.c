#include "models/memory/onchip.h"

enum { LANES = 128, SUBLANES = 8, WORD_BITS = 32 };

EchBytes ech_onchip_scalar_bytes(uint64_t n)
{
    return ech_bytes_mul(n, WORD_BITS / 8);
}

EchOnchipFit ech_onchip_fit(const EchMemory *memory, EchBytes windows)
{
    EchBytes kept = MIN(memory->kernel_reserved, memory->available);
    return (EchOnchipFit){.windows = windows, .kept = kept, .spilled = windows > kept ? windows - kept : 0, .values = memory->available - kept};
}

EchAccumulators ech_onchip_accumulators(const EchDevice *device, uint64_t rows, uint64_t columns)
{
    const EchMemory *memory = ech_device_memory_kind(device, ECH_MEM_ACCUMULATOR);
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    EchBytes row = ech_bytes_mul(unit && unit->columns ? unit->columns : LANES, WORD_BITS / 8);
    g_assert(row > 0);
    uint64_t across = ech_div_up(ech_bytes_mul(columns, WORD_BITS / 8), row);
    EchAccumulators ret = {.block = ech_bytes_mul(ech_bytes_mul(ech_round_up(rows, SUBLANES), across), row)};
    ret.held = memory ? MIN(memory->capacity / row * row, ret.block) : 0;
    ret.spilled = ret.block - ret.held;
    return ret;
}
