#include "models/place/cost.h"

#include "sim/base/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB UINT64_C(1048576)
#define GIB 1073741824.0

static const EchPlaceChip chips[] = {
    {"v4", 457.5 * GIB, 6, 137e12, 1 / 1.05e9, 512, true, 3, 67108864, 4, 0, 0, false, false, 0},
    {"v5e", 687.0 * GIB, 22.5, 197e12, 1 / 1.5e9, 512, true, 1, 117440512, 4, 0, 0, true, false, 0},
    {"v5p", 2189.0 * GIB, 7.7, 394e12, 1 / 1.75e9, 0, true, 1, 50266112, 0, 0, 0, true, true, 0},
    {"v6e", 1638e9, 13, 0, 1 / 1.75e9, 0, false, 1, 100597760, UINT32_MAX, 4 * MIB, 262144, true, false, 0},
    {"tpu7x", 3686e9, 3.2, 0, 1 / 1.9e9, 0, false, 1, 67043328, UINT32_MAX, 4 * MIB, 262144, true, false, 32 * MIB},
    {NULL, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, 0, false, false, 0},
};

const EchPlaceChip *ech_place_chip(const char *name)
{
    if (g_str_has_prefix(name, "tpu-"))
        name += 4;
    for (const EchPlaceChip *chip = chips; chip->name != NULL; chip++)
        if (strcmp(chip->name, name) == 0 || (strcmp(name, "v7x") == 0 && strcmp(chip->name, "tpu7x") == 0))
            return chip;
    return NULL;
}

float ech_place_memory_seconds(const EchPlaceChip *chip, float total, float read, float written)
{
    float fast = (float)(chip->hbm_bytes_per_s * chip->fast_ratio);
    float in_fast = read / fast + written / fast;
    float in_hbm = (float)((double)(total - (read + written)) / chip->hbm_bytes_per_s);
    return in_fast + in_hbm;
}

float ech_place_elapsed(float compute, float memory)
{
    return MAX(compute, memory);
}

float ech_place_benefit(const EchPlaceChip *chip, float compute, float total, float read, float written, uint32_t while_nest)
{
    float memory = ech_place_memory_seconds(chip, total, 0, 0);
    if (memory <= compute)
        return memory - compute;
    float times = 1;
    for (uint32_t i = 0; i < while_nest && i < 32; i++)
        times *= 5;
    return (memory - ech_place_memory_seconds(chip, total, read, written)) * times;
}

float ech_place_reduction(const EchPlaceChip *chip, float compute, float total, float read)
{
    float memory = ech_place_memory_seconds(chip, total, 0, 0);
    return ech_place_elapsed(compute, memory) - ech_place_elapsed(compute, ech_place_memory_seconds(chip, total, read, 0));
}

float ech_place_add_benefit(float sum, float benefit)
{
    return sum > 0 && benefit > 0 ? sum + benefit : MAX(sum, benefit);
}

float ech_place_boundedness(float benefit, EchBytes bytes)
{
    return bytes == 0 ? 0 : (float)((double)benefit / sqrt((double)bytes));
}

EchBytes ech_place_picker_bytes(EchBytes *sizes, size_t n, EchBytes largest_outside)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (sizes[i] > MIB)
            sizes[kept++] = sizes[i];
    if (kept == 0)
        return 0;
    qsort(sizes, kept, sizeof *sizes, ech_compare_u64);
    return MIN(sizes[kept / 2], largest_outside);
}
