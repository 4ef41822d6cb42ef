/** @file calibrate.h
 * Measures the GPU that is here and writes a device file of it: copy curves each way, pinned and pageable, both ways at once, memory and cache
 * bandwidth and latency, launches, allocations, matrix and vector rates, and how copies slow kernels.
 *
 * Every number of the file says that it was measured, when, with which driver, over how many repeats and with what spread; the few that one GPU
 * cannot tell say `assumed` or where they come from. What another GPU of the same kind does is not claimed.
 */
#pragma once
#include "models/device/device.h"
#include "models/kernel/measured.h"
#include "sim/replay/cuda_state.h"
#include "sim/trace/trace.h"

#include <glib.h>

/** Half the middle half of the repeats as a share of their median: what the spreads below are. */
typedef struct {
    double median; /**< Nanoseconds, or units a second where the member says so. */
    double spread; /**< 0..1 */
    unsigned n;    /**< Repeats; 0: not measured. */
} EchFigure;

enum { ECH_CALIBRATE_MOST_SIZES = 16, ECH_CALIBRATE_SIDES = 7, ECH_CALIBRATE_PRODUCTS = 4, ECH_CALIBRATE_WAITS = 3 };

/** A way over the host link. */
typedef struct {
    EchBytes bytes[ECH_CALIBRATE_MOST_SIZES];
    EchFigure time[ECH_CALIBRATE_MOST_SIZES]; /**< Of one copy of so many bytes, one after the other in a queue. */
    size_t n;
    double rate;  /**< Bytes a second: of the growth between the largest and a quarter of it, but at least the best of all sizes and at most 1.05 of that. */
    double setup; /**< Nanoseconds that the largest copy takes beyond its bytes at that rate; at least 0. */
} EchCopyCurve;

/** Products of one dtype over edges (square outputs) and inner sides; odd: every side one less. */
typedef struct {
    EchDtype dtype;
    bool odd;
    unsigned sides[ECH_CALIBRATE_SIDES];                       /**< Of edges and of inner sides alike, ascending. */
    size_t n;                                                  /**< 0: not measured. */
    EchFigure time[ECH_CALIBRATE_SIDES * ECH_CALIBRATE_SIDES]; /**< time[edge * n + inner], with the launch. */
} EchProductGrid;

/** What was measured. Rates are bytes or operations a second. */
typedef struct {
    char *gpu; /**< As the driver names it. */
    int driver_version, major, minor, multiprocessors, clock_khz, memory_clock_khz, bus_bits, l2_bytes, async_engines, blas_version; /**< 0: no cuBLAS */
    EchBytes total, available;      /**< Device memory, and what was free before anything was done. */
    EchBytes others;                /**< Of what was not free, other processes'; 0 also where NVML cannot tell. */
    EchBytes host;                  /**< Of this machine. */
    EchFigure event;                /**< Between two events with nothing between them: taken off every time below. */
    EchFigure launch, graph_launch; /**< Empty kernels one after the other, in a queue and in a graph: one of them. */
    EchFigure alone;                /**< One empty kernel between two events. */
    EchFigure submit, synchronize;  /**< Host time of a launch, and of waiting for a queue that has nothing to do. */
    EchFigure wait, wait_copy;      /**< From the end of a kernel to the start of one in another queue that waits for it, beyond what
                                     * one behind another takes; the same between a kernel and a copy, either way, each of 40 us. */
    EchFigure wait_copy_short, wait_copy_by[ECH_CALIBRATE_WAITS]; /**< Of an empty kernel and a small copy; of such that take 10, 40 and 160 us. */
    EchFigure wait_through;                                       /**< From a copy's end to where a queue that does nothing has passed that on, or to
                                                                   * the start of another copy from there. */
    EchFigure wait_passed;                                        /**< What a kernel takes longer that waits for what is over already. */
    EchFigure trip;                                               /**< Host time of a launch and of waiting for its end beyond the call and the kernel. */
    EchFigure malloc, free;                                       /**< Host time of a call, of 2 to 64 MiB in turn while others are held. */
    EchFigure malloc_beside, map_beside;                          /**< Of those that take, while a kernel runs; n 0: they wait for its end. */
    bool malloc_waits, map_waits;
    EchFigure malloc_async, free_async, pin;      /**< Of 2 MiB; pin: of 1 MiB of host memory. */
    EchFigure malloc_small, free_small;           /**< The same for 4 KiB. */
    EchFigure map, unmap;                         /**< The same of mapping: addresses, memory, mapping and access; and back. */
    EchFigure map_piece, unmap_piece;             /**< The same of every further piece of 2 MiB mapped in one go. */
    EchFigure map_page, unmap_page;               /**< Of every further 2 MiB of one piece. */
    EchFigure malloc_page, free_page;             /**< The same of every further 2 MiB of a large one. */
    EchBytes malloc_largest;                      /**< That one. */
    EchBytes page;                                /**< What large allocations are rounded up to; 0: not known. */
    EchBytes page_shared;                         /**< Largest allocation of those tried of which several share a page; 0: none. */
    EchBytes pool_growth;                         /**< What the driver's pool takes for a first small buffer; 0: not known. */
    EchCopyCurve pinned[2], pageable[2];          /**< [0] to the device, [1] from it. */
    EchFigure both_ways;                          /**< Pinned, both directions together. */
    EchFigure both_share;                         /**< Part of those bytes that goes to the device. */
    unsigned engines[2];                          /**< Copies of one direction at once. */
    EchFigure host_rate;                          /**< Bytes that the host's processors read and write together. */
    unsigned processors;                          /**< So many. */
    EchFigure read, write, both, strided, random; /**< Device memory; strided: 16 bytes of every 64, random: 16 bytes anywhere; bytes asked for. */
    EchFigure copy_on_device;                     /**< Bytes copied (each read and written). */
    EchFigure l2_read;
    EchFigure latency, l2_latency;            /**< Of one link of a chain. */
    EchFigure f32, f64, exponential, tensor;  /**< Kernels of ours; tensor: bf16 by mma.sync. */
    EchFigure matrix[5];                      /**< cuBLAS: bf16, f16, f32 (as TF32), f64, s8; each after half a second of it. */
    EchFigure burst[5], burst_odd[5];         /**< Rates of the same just after a pause, over those that power and heat leave; odd: every side one less. */
    EchFigure duty_rate[ECH_MEASURED_DUTIES]; /**< Rate of bf16 products that run so much of the time (ech_measured_duties), over that of all of it. */
    double duty[ECH_MEASURED_DUTIES];         /**< How much they did run. */
    EchFigure heat;                           /**< Nanoseconds over which the GPU looks at its power: ech_measured_heat_constant. */
    EchProductGrid products[ECH_CALIBRATE_PRODUCTS];
    EchCopyCurve stream;         /**< Kernels that read so many bytes from device memory, one behind the other; time of one with its launch. */
    EchFigure unpadded;          /**< Rate of bf16 at sides one short of a multiple of 128, over that at the multiple. */
    EchFigure beside_copies[2];  /**< Rate of a reading kernel while copies run to the device, or from it, over its rate alone. */
    EchFigure copies_beside[2];  /**< Rate of copies to the device, or from it, while kernels read, over their rate alone. */
    EchFigure both_beside;       /**< Rate of copies both ways together while kernels read, over both_ways. */
    EchFigure both_beside_share; /**< Part of those bytes that goes to the device. */
    EchGpuState state;           /**< Of the GPU while everything but matrix products was measured. */
    EchGpuState products_state;  /**< While those were. */
    char *uuid;                  /**< The GPU's identity in hexadecimal, or "". */
    char *failures;              /**< What could not be measured and why, a line each; "" */
    double seconds;              /**< The whole took. */
} EchCalibration;

/** Called before each step with what it measures, and after the last with NULL; may be NULL. */
typedef void (*EchCalibrateProgress)(unsigned done, unsigned total, const char *what, void *data);

/** Measures GPU @ordinal. @left_out: steps, by the names that @progress is told, that are not done where a device file can do without them; NULL-terminated or
 * NULL. ECH_ERROR_BACKEND: no driver, no GPU, or a call failed in what a device file cannot do without (launches, pinned copies, device
 * memory, arithmetic); what else fails is left out and told. Everything is given back. */
EchCalibration *ech_calibrate(uint64_t ordinal, const char *const *left_out, EchCalibrateProgress progress, void *data,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_calibration_free(EchCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchCalibration, ech_calibration_free)

/** Units a second, from the nanoseconds that @units take beyond @fixed ones. */
EchFigure ech_calibration_rate(EchFigure time, double units, double fixed);
/** The same of a product with sides @edge, @edge and @inner. */
EchFigure ech_calibration_gemm_rate(EchFigure time, double edge, double inner, double fixed);

/** The device file. @name: the device's, @date: "2026-11-21", written beside every number. ECH_ERROR_VERIFY if it would not load again. Owned by the caller. */
char *ech_calibration_yaml(const EchCalibration *calibration, const char *name, const char *date, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** A short table for a terminal. Owned by the caller. */
char *ech_calibration_text(const EchCalibration *calibration) G_GNUC_WARN_UNUSED_RESULT;
