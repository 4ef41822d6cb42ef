/** @file price.h
 * What one instance of an op asks of the device when it runs alone: a fixed time, then amounts on resources.
 *
 * Kernels: the compiler's own estimate where the program carries one, the kernel model, a roofline of the device, or the recorded duration. Copies: their
 * link's cost. Collectives: an algorithm over the device's links. The result says which, per op.
 */
#pragma once
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/replay/fluid.h"
#include "sim/trace/trace.h"

typedef enum {
    ECH_KERNEL_TIME_AUTO,
    ECH_KERNEL_TIME_ROOFLINE,
    ECH_KERNEL_TIME_ESTIMATE,
    ECH_KERNEL_TIME_RECORDED,
    ECH_KERNEL_TIME_MODEL,
    ECH_N_KERNEL_TIMES
} EchKernelTime;

/** Where an op's price came from. */
typedef enum {
    ECH_PRICE_FREE,            /**< Costs no time (signal, wait, mark, loop), or none that is known before it runs (prefetches of managed memory). */
    ECH_PRICE_ROOFLINE,        /**< The device's peaks and bandwidths. */
    ECH_PRICE_ESTIMATE,        /**< The compiler's estimate, spread over the roofline's resources. */
    ECH_PRICE_RECORDED,        /**< As long as it was recorded. */
    ECH_PRICE_RECORDED_SCALED, /**< Recorded on another device, scaled by what the kernel model (GPUs) or else the roofline gives on each. */
    ECH_PRICE_LINK,            /**< A copy over a link. */
    ECH_PRICE_PORT,            /**< A copy inside the device: memory ports only. */
    ECH_PRICE_COLLECTIVE,      /**< An algorithm over the device's links. */
    ECH_PRICE_RUNTIME,         /**< A runtime cost of the device (allocation). */
    ECH_PRICE_UNKNOWN,         /**< Nothing known: costs only the launch. */
    ECH_PRICE_ESTIMATE_SCALED, /**< The compiler's estimate for another device or other settings, scaled by the kernel model. */
    ECH_PRICE_MODEL,           /**< The kernel model (models/kernel): the program carries no estimate of it, or the model was asked for. */
    ECH_PRICE_HOST,            /**< An operator that the host's processor runs on its own memory: what that gives and takes. */
    ECH_PRICE_PIN,             /**< The host pins memory, page by page. */
    ECH_PRICE_FILE,            /**< The host reads or writes a file: its disk, or its page cache. */
    ECH_PRICE_CODE,            /**< A GPU's kernel by what its own code issues, accesses and waits for (ech_gpu_code_cost). */
    ECH_N_PRICES,
} EchPriceSource;
/** "roofline", "estimate", "recorded", ... */
const char *ech_price_name(EchPriceSource source);
/** The same in words: "compiler's estimate", "kernel model", "roofline"... */
const char *ech_price_words(EchPriceSource source);
/** What asking for a copy takes of the host that is right behind another (runtime.copy_in_loop_ps, copy_in_batch_ps), which is its set-up as well; of others
 * ECH_TIME_MAX: they take what any launch does. */
EchTime ech_price_behind(const EchDevice *device, EchBehind behind);

/** The price of one instance of an op. */
typedef struct {
    uint8_t source;               /**< EchPriceSource */
    uint8_t forward;              /**< Copies over a link: 1 to the device, 0 from it. */
    uint8_t duplex;               /**< 1: a collective that sends and receives at once over its link. */
    uint8_t ports;                /**< Of the ports of what joins its host's devices, those a collective uses at once; 0 for others. */
    uint8_t on_engine;            /**< 1: a copy's fixed time was measured of copies one after the other, so it does not pass ahead of its turn. */
    uint8_t kernel_class;         /**< ECH_PRICE_MODEL on a GPU: EchGpuClass of the kernel; else 0. */
    uint8_t kernel_bound;         /**< Likewise, and of ECH_PRICE_CODE: EchGpuBound. */
    uint8_t on_lanes;             /**< 1: the vector unit multiplies, as with 32-bit floats that tensor cores would round. */
    uint8_t loose;                /**< 1: it takes more than three times the device's roofline, so no resource is what bounds it. */
    uint32_t first_part, n_parts; /**< Of EchPrices.parts. */
    uint32_t bound;               /**< Resource that bounds it alone, or ECH_NONE (fixed or minimum time, @loose). */
    uint32_t link;                /**< Device link whose engine it occupies, or ECH_NONE. */
    uint32_t given;               /**< ECH_PRICE_MODEL on a GPU: EchGpuCost.given; else 0. */
    double rounds;                /**< There, of what has tiles: those of them over what a multiprocessor holds at once; else 0. */
    EchBytes cached;              /**< Where the GPU kernel model knows it: EchGpuCost.cached; else 0. */
    EchTime fixed;                /**< Set-up, launch, latency: passes before the amounts begin. */
    EchTime minimum;              /**< The amounts take at least this long. */
    EchTime alone;                /**< Whole time when nothing else runs. */
} EchPrice;

typedef enum {
    ECH_RESOURCE_PORT,
    ECH_RESOURCE_LINK_TO,
    ECH_RESOURCE_LINK_FROM,
    ECH_RESOURCE_LINK_BOTH,
    ECH_RESOURCE_UNIT,
    ECH_RESOURCE_BESIDE,
    ECH_RESOURCE_LINK_LANE,
    ECH_RESOURCE_MULTIPROCESSORS
} EchResourceKind;

/** The prices of all ops of a trace on a device, and the resources they are in.
 *
 * Resources: a port per memory with a bandwidth (units: bytes at the full read rate; what is slower counts more), two directions per link and a
 * both-ways total where the device gives one (bytes), a unit each (operations at its fastest dtype; what is slower counts more), for each direction of the
 * host link what kernels on device memory leave of it, where a device file has that measured (bytes), each way of each axis of a torus (bytes), and of a GPU
 * whose program communicates its multiprocessors (seconds of one): collectives are kernels that hold some of them (kernel.collective_blocks), and a kernel
 * whose time is predicted and that no memory bounds takes longer on the others; where its blocks have their tiles from the beginning, those without a
 * multiprocessor wait for all others, so that it takes twice as long. */
typedef struct {
    EchFluidResource *resources;
    uint8_t *kinds;   /**< EchResourceKind of each. */
    uint32_t *owners; /**< Memory, link or unit index in the device. */
    uint32_t n_resources;
    EchFluidPart *parts;
    double *work; /**< By part: what of it is bytes and operations of the op, in the resource's units; the amount is more where those take longer. */
    size_t n_parts;
    EchPrice *prices; /**< One per op of the trace. */
    size_t n_prices;
    uint64_t kernels[ECH_N_PRICES]; /**< Kernel ops by source. */
    EchTime *gaps;                  /**< Per op: time after it could start until the host asks for it; or NULL. */
    bool gaps_beside;               /**< They lie beside other work of the device. */
} EchPrices;

/** Recorded gaps before operations that neither their queue nor their dependencies explain: the host came late. Those beside other work of the device, which
 * the order of that work alone would not keep apart from it, at the speed of that work; or all of them, as they were. */
typedef enum { ECH_HOST_GAPS_NONE, ECH_HOST_GAPS_BESIDE, ECH_HOST_GAPS_ALL } EchHostGaps;

typedef struct {
    EchKernelTime kernel_time;
    bool overhead;        /**< Charge launch and set-up times. */
    bool copy_curve;      /**< Size curves of links apply. */
    bool tuned_tiles;     /**< Products of GPU programs with a tile that no timing would have chosen take the best one. */
    bool graph;           /**< Kernels are launched by a CUDA graph. */
    bool duty_known;      /**< Else every product has the rate that it was measured at. */
    double products_duty; /**< 0..1: share of the time in which matrix products, attention among them, run. */
    bool side_by_side;    /**< Other processes' kernels run beside the trace's: all hold what they fill of the multiprocessors. */
    EchHostGaps gaps;
} EchPriceOptions;

/** Prices every op. @reference: the device that estimates and recorded times hold for; NULL means @device. What the device lacks costs nothing, and @diag
 * says so. Never NULL. */
EchPrices *ech_prices_new(const EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchPriceOptions *options,
                          EchDiag *diag) G_GNUC_WARN_UNUSED_RESULT;
void ech_prices_free(EchPrices *prices);
/** The memory of @trace that a use of @buffer by @op is of: managed buffers lie in the device's when the device uses them. */
EchId ech_prices_memory(const EchTrace *trace, const EchDevice *device, const EchOp *op, EchId buffer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPrices, ech_prices_free)
