/* GPU operators: tiles in waves, or bytes. */
#include "models/kernel/gpu.h"
#include "models/layout/advice.h"

#include <math.h>

/* Tiles of vendor libraries, largest first (DU-09799-001). */
static const struct {
    uint32_t m, n;
} tiles[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64}};

static EchTime to_time(double seconds)
{
    double ps = seconds * 1e12;
    return ps >= 9e18 ? ECH_TIME_MAX : (EchTime)llround(MAX(ps, 0));
}

static EchTime launch_of(const EchDevice *device)
{
    return (EchTime)ech_device_number(device, "kernel.call_ps", ech_device_number(device, "runtime.host_launch_ps", 20e6));
}

static uint64_t multiprocessors(const EchDevice *device)
{
    const EchUnit *vector = ech_device_unit(device, ECH_UNIT_VECTOR);
    return vector != NULL && vector->count > 0 ? vector->count : 0;
}

bool ech_gpu_product(const EchDevice *device, uint64_t batch, uint64_t m, uint64_t n, uint64_t k, const char *dtype, unsigned bits, EchGpuCost *ret)
{
    const EchUnit *matrix = ech_device_unit(device, ECH_UNIT_MATRIX);
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    uint64_t slots = multiprocessors(device), peak = ech_unit_peak(matrix, dtype);
    if (slots == 0 || peak == 0 || hbm == NULL || hbm->read == 0)
        return false;
    /* A tile of intensity I = m n / (m + n) reaches I / (I + half) of an SM's peak: operands come over the shared memory's port. */
    double half = ech_device_number(device, "kernel.half_intensity", 4.5);
    EchGpuCost best = {.time = ECH_TIME_MAX};
    EchBytes bytes = ech_bytes_mul(ech_bytes_mul(batch, bits), ech_bytes_add(ech_bytes_add(ech_bytes_mul(m, k), ech_bytes_mul(k, n)), ech_bytes_mul(m, n))) / 8;
    for (size_t i = 0; i < G_N_ELEMENTS(tiles); i++) {
        EchWaves one = ech_waves(m, n, tiles[i].m, tiles[i].n, slots);
        uint64_t count = ech_bytes_mul(one.tiles, batch);
        double waves = ceil((double)count / (double)slots);
        double intensity = (double)tiles[i].m * tiles[i].n / (tiles[i].m + tiles[i].n);
        double tile_seconds = 2.0 * tiles[i].m * tiles[i].n * (double)k / ((double)peak / (double)slots * intensity / (intensity + half));
        EchGpuCost cost = {
            .compute = to_time(waves * tile_seconds),
            .memory = to_time((double)bytes / (double)hbm->read),
            .launch = launch_of(device),
            .tile_m = tiles[i].m,
            .tile_n = tiles[i].n,
            .tiles = count,
            .waves = (uint64_t)waves,
            .wave_efficiency = waves > 0 ? (double)count / (waves * (double)slots) : 0,
            .tile_efficiency = ech_tile_efficiency(m, n, tiles[i].m, tiles[i].n),
            .bytes = bytes,
        };
        cost.time = ech_time_add(cost.launch, MAX(cost.compute, cost.memory));
        if (cost.time < best.time)
            best = cost;
    }
    *ret = best;
    return true;
}

bool ech_gpu_stream(const EchDevice *device, EchBytes read, EchBytes written, EchGpuCost *ret)
{
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    if (hbm == NULL || hbm->read == 0)
        return false;
    EchRate write = hbm->write > 0 ? hbm->write : hbm->read;
    EchGpuCost cost = {.memory = to_time((double)read / (double)hbm->read + (double)written / (double)write),
                       .launch = launch_of(device),
                       .bytes = ech_bytes_add(read, written)};
    cost.time = ech_time_add(cost.launch, cost.memory);
    *ret = cost;
    return true;
}

unsigned ech_gpu_row_passes(const EchDevice *device, EchBytes row_bytes, unsigned passes)
{
    return (double)row_bytes <= ech_device_number(device, "kernel.row_bytes", 32768) ? 1 : MAX(passes, 1u);
}
