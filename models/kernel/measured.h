/** @file measured.h
 * Kernel times that a calibrated device file carries as measured: matrix products over a grid of sides, streaming kernels over a ladder of sizes.
 *
 * In the file: `kernel.products.DTYPE.EDGExK` and `kernel.products_odd.DTYPE.EDGExK` are shares of the matrix unit's peak that a product of EDGE x K by
 * K x EDGE reaches, its launch taken off; the latter with sides that no vector access is aligned to. `kernel.stream_extra.SIZE` is what a kernel that reads
 * SIZE takes beyond its launch and its bytes at the memory's rate. Shares and extras, so that a what-if on the peak or the rate still does what it says.
 * Between the points the logarithm of the share is taken as linear in the logarithms of the sides; larger products keep the share of the largest, smaller
 * ones the time of the smallest. Devices without such numbers get nothing from here.
 */
#pragma once
#include "models/device/device.h"

typedef struct EchMeasured EchMeasured;

/** NULL where the device has no such numbers. */
EchMeasured *ech_measured_new(const EchDevice *device) G_GNUC_WARN_UNUSED_RESULT;
void ech_measured_free(EchMeasured *measured);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchMeasured, ech_measured_free)

/** Share of the peak that @batch products of m x k by k x n reach. 0 where @measured is NULL or knows none of @dtype. */
double ech_measured_product(const EchMeasured *measured, const char *dtype, uint64_t m, uint64_t n, uint64_t k, uint64_t batch);
/** What a kernel that streams @bytes takes beyond its launch and those bytes at the device memory's full rate; 0 where nothing is known. Linear in the size
 * between the points. */
EchTime ech_measured_stream_extra(const EchMeasured *measured, EchBytes bytes);
/** Parts of the time, ascending, for which a device file may say what products do that rest in between: kernel.duty_rates.50, .70 and .85. */
enum { ECH_MEASURED_DUTIES = 3 };
extern const double ech_measured_duties[ECH_MEASURED_DUTIES];
/** The rate of matrix products that run @duty (0..1) of the time, over their rate where nothing else runs for long and power and heat have settled; @burst: the
 * same just after a pause. A GPU lowers its clocks where the power of the last milliseconds is above its limit, which products just keep when they are all
 * there is; the power of arithmetic goes with the clock to about 2.5 (voltage rises with it), so that many times the time that products leave to rest is worth.
 * What else runs draws power too: that is not in it. Where @device (may be NULL) was measured with products that rest in between (kernel.duty_rates: the same
 * ratio where they run ech_measured_duties of the time), linear between those and 1, and by that law below the first. At least 1, at most
 * @burst. */
double ech_measured_duty_rate(const EchDevice *device, double burst, double duty);
/** Whether @device has those. */
bool ech_measured_has_duty_rates(const EchDevice *device);
/** What a second of products with a burst of @own is worth in @duty, which is counted in those of @burst: as their power at full clocks. */
double ech_measured_duty_weight(double burst, double own);
/** The rate just after a pause, over the one where power and heat have settled, of large products of @dtype (kernel.bursts, kernel.bursts_odd), @odd: with
 * sides that no vector access is aligned to. Where the device does not say, that of bf16 (kernel.burst_share). At least 1. */
double ech_measured_burst(const EchDevice *device, const char *dtype, bool odd);
/** The same of the very product that the rate of all of the time and kernel.duty_rates are of, the largest of bf16: kernel.burst_share is of smaller ones,
 * between which lie such, and @measured (may be NULL: as those) has what the largest reaches of that, or, with no more than @heats operations, of the rate of
 * all of the time. At least 1. */
double ech_measured_largest_burst(const EchMeasured *measured, const EchDevice *device, double heats);
/** What a GPU that looks at the mean power of the last @constant, fading, sees of a load while that is on, which it is for @busy of every @period, as a share
 * of the load: busy / period where the constant is long, or 0 (not known), 1 where it is short. All in one unit of time. */
double ech_measured_heat(double constant, double busy, double period);
/** That constant, of a GPU that after a pause takes @half of full load until products have lost half of their @burst; 0 where there is none. */
double ech_measured_heat_constant(double burst, double half);
