/** @file cuda_state.h
 * What a GPU's clocks were while something was measured, and what held them back, by NVML where it is there: the conditions that a measurement holds for.
 * Nothing of the GPU's is set, and nothing fails without it.
 *
 * ECHELON_LIBNVML names another library to load, "" none.
 */
#pragma once
#include "sim/replay/cuda_driver.h"

/** Of all looks together. */
typedef struct {
    unsigned looks;             /**< 0: nothing is known. */
    unsigned sm_low, sm_high;   /**< MHz */
    unsigned memory_mhz;        /**< As looked last; 0: not known. */
    unsigned power_mw;          /**< Highest; 0: not known. */
    unsigned limit_mw;          /**< That the GPU keeps to; 0: not known. */
    unsigned celsius;           /**< Highest; 0: not known. */
    int ecc;                    /**< 1: on, 0: off, -1: not known. */
    unsigned long long reasons; /**< Bits of what has held the clocks back at any look. */
} EchGpuState;

typedef struct EchGpuWatch EchGpuWatch;
/** NULL where there is no NVML, or it does not know this GPU. */
EchGpuWatch *ech_gpu_watch_new(const EchCuGpu *gpu) G_GNUC_WARN_UNUSED_RESULT;
void ech_gpu_watch_free(EchGpuWatch *watch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGpuWatch, ech_gpu_watch_free)
/** Keeps this thread, and so the host memory that it takes, on the GPU's side of a machine of several processors until @watch is freed: copies of what lies at
 * another processor go through both. Nothing where NVML knows no side, or @watch is NULL. */
void ech_gpu_watch_stay_near(EchGpuWatch *watch);
/** Bytes of the GPU's memory that are taken, whoever has them; false where that is not known. */
bool ech_gpu_watch_memory(const EchGpuWatch *watch, uint64_t *ret_used);
/** Looks now, which is best done while the GPU is busy, and adds what it sees to @state; nothing where @watch is NULL. Takes the host from microseconds to some
 * milliseconds. */
void ech_gpu_watch_look(EchGpuWatch *watch, EchGpuState *state);

/** "SM clock 1410 to 1980 MHz, memory 2619 MHz, at most 652 of 700 W and 61 C, ECC on; held back by the power limit", or NULL where nothing is known. Owned by
 * the caller. */
char *ech_gpu_state_text(const EchGpuState *state);
/** Whether power or heat has held the clocks back: times of arithmetic then depend on what ran before. */
bool ech_gpu_state_throttled(const EchGpuState *state);
