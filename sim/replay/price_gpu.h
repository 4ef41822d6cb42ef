/** @file price_gpu.h
 * Times of a trace's kernels by the GPU kernel model. Inside sim/replay only; price.c spreads them over resources.
 *
 * A step asks for the same kernels with the same amounts again and again: each is priced once.
 */
#pragma once
#include "models/device/device.h"
#include "models/kernel/gpu.h"
#include "sim/base/diag.h"
#include "sim/trace/trace.h"

typedef struct EchGpuPricer EchGpuPricer;

/** @compiled_for: the device whose tuner would have chosen tiles; @tuned_tiles as in EchPriceOptions; @duty as in EchGpuKernel. What was assumed is counted in
 * @diag. Borrows everything, and the devices that it is asked for. */
EchGpuPricer *ech_gpu_pricer_new(const EchTrace *trace, const EchDevice *compiled_for, bool tuned_tiles, double duty, EchDiag *diag) G_GNUC_WARN_UNUSED_RESULT;
void ech_gpu_pricer_free(EchGpuPricer *pricer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGpuPricer, ech_gpu_pricer_free)

/* Of a @pricer that is NULL nothing is known. */

/** A kernel of the trace as the GPU model wants it; false where its launch is not known, or @device is no GPU. */
bool ech_gpu_pricer_kernel(EchGpuPricer *pricer, const EchDevice *device, const EchOp *op, EchGpuKernel *ret);
/** The kernel model's time, for kernels whose launch is known; ret_class: EchGpuClass, or NULL. */
bool ech_gpu_pricer_cost(EchGpuPricer *pricer, const EchDevice *device, const EchOp *op, EchGpuCost *ret, uint8_t *ret_class);
/** Its times here and where the kernel was recorded; false where it does not know it. ret_whole: their ratio is what it takes longer here. */
bool ech_gpu_pricer_costs(EchGpuPricer *pricer, const EchDevice *device, const EchDevice *reference, const EchOp *op, EchGpuCost *here, EchGpuCost *there,
                          bool *ret_whole);
/** How much longer a kernel takes here of which neither bytes nor operations are known: by the rate of what its name says that it needs. */
double ech_gpu_pricer_blind_ratio(EchGpuPricer *pricer, const EchDevice *device, const EchDevice *reference, const EchOp *op);
