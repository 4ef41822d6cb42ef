/** @file cuda.h
 * The CUDA engine: replays a trace for real. Queues become streams, dependencies events, copies real copies between pinned, pageable and
 * device memory, kernels the traffic or the arithmetic that bounds them (cuda_kernels.cu), allocations the driver's own or one of our
 * allocators over an arena. It measures; it predicts nothing.
 *
 * A kernel does what bounds it by the device's roofline (price.h): memory port -> that many bytes streamed, unit -> that many operations; one that
 * only has a recorded or estimated time spins that long. Collectives, which one GPU cannot do, spin for their modelled time.
 */
#pragma once
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/base/param.h"
#include "sim/replay/cuda_blas.h"
#include "sim/replay/cuda_driver.h"
#include "sim/replay/cuda_state.h"
#include "sim/replay/price.h"
#include "sim/trace/trace.h"

typedef enum { ECH_CUDA_ALLOC_AUTO, ECH_CUDA_ALLOC_MALLOC, ECH_CUDA_ALLOC_ASYNC, ECH_CUDA_ALLOC_VMM, ECH_CUDA_ALLOC_ARENA, ECH_N_CUDA_ALLOCS } EchCudaAlloc;

/** Fill with ech_params_defaults(ech_cuda_params, &options). */
typedef struct {
    uint64_t gpu;               /**< Ordinal. */
    uint64_t warmups, repeats;  /**< Whole replays before, and measured. */
    uint64_t alloc;             /**< EchCudaAlloc: cuMemAlloc, cuMemAllocAsync, virtual memory management, an echelon allocator over one arena; auto: buffers
                                 * with fixed offsets in one block a memory, as a compiler planned them, the others by cuMemAlloc. */
    char *allocator;            /**< alloc=arena: spec; NULL is best_fit. */
    uint64_t release_threshold; /**< alloc=async: bytes the pool keeps. */
    uint64_t pool_reuse;        /**< alloc=async: 1: what one queue has freed another may get (the driver's default); 0: only the same queue. */
    uint64_t graph;             /**< 1: the whole replay as one CUDA graph (allocations before it; only the makespan is measured). */
    uint64_t scale;             /**< 1: a trace larger than the card is scaled down, and the factor reported; 0: refused. */
    uint64_t verify;            /**< 1: buffers that nothing writes are filled with a pattern and checked after the run. */
    uint64_t blas;              /**< 1: matrix products run on cuBLAS where it is installed. */
    uint64_t max_ops;           /**< Most op instances after loop expansion. */
} EchCudaOptions;
extern const EchParam ech_cuda_params[];

/** What the engine does in a kernel's place. */
typedef enum {
    ECH_CUDA_SPINS,      /**< Waits as long as the kernel is priced: nothing is measured by it. */
    ECH_CUDA_STREAMS,    /**< Moves its bytes. */
    ECH_CUDA_MULTIPLIES, /**< Does its matrix operations. */
    ECH_CUDA_COMPUTES,   /**< Does its vector operations. */
} EchCudaDoes;
/** Of kernel @at. What the kernels here do not compute (8-bit floats on the matrix unit, float64 on the vector lanes) is waited for. */
EchCudaDoes ech_cuda_does(const EchTrace *trace, EchId at, const EchPrices *prices, const EchDevice *device);

enum { ECH_CUDA_GAPS = 5 };

/** What was measured of one op of the trace (its instances together). Medians over the repeats, each of which is two replays: one for the makespan, with events
 * only where queues wait for each other, and one with events around every op, what two events cost alone taken off. */
typedef struct {
    EchTime start;     /**< First instance, since the replay's start; ECH_TIME_NONE where not measured. */
    EchTime duration;  /**< Sum over instances. */
    EchTime low, high; /**< Around the duration's median: ech_cuda_median. */
    uint64_t instances;
} EchCudaOp;

typedef struct {
    EchCudaOp *ops; /**< ops[n_ops of the trace] */
    size_t n_ops;
    EchTime *makespans; /**< makespans[n_makespans]: one a repeat, in order. */
    size_t n_makespans;
    uint64_t warmups;       /**< Replays before those. */
    EchTime makespan;       /**< Median. */
    EchTime low, high;      /**< Around it: ech_cuda_median. */
    EchTime each;           /**< A measured replay with what lies between it and the next: mean. */
    EchBytes peak_used;     /**< Most bytes the driver had given out for buffers, pools, blocks and arena (the engine's own scratch not counted). */
    EchBytes arena_extent;  /**< alloc=arena: highest end of a buffer, median over the replays. */
    EchBytes pool_reserved; /**< alloc=async: high-water mark of the pool in the last warm-up, which it began empty. */
    EchBytes most_reserved; /**< Of these in any replay. */
    EchTime gap;            /**< Between two events with nothing between them, taken off every copy, */
    /** And what a kernel between two takes beyond one in a row, by how long it is between them: taken off every kernel. */
    EchTime kernel_gaps[ECH_CUDA_GAPS], kernel_spans[ECH_CUDA_GAPS];
    size_t n_kernel_gaps;
    bool paced;         /**< Allocations on the way made the GPU wait for the host: nothing was issued ahead. */
    uint64_t by_blas;   /**< Matrix kernels run on cuBLAS, all replays together. */
    uint64_t differing; /**< Words of untouched buffers that changed; 0 expected. */
    EchBytes verified;  /**< Of untouched buffers, looked at after every replay for the makespan. */
    double scale;       /**< 1, or the factor of every size. */
    EchTrace *trace;    /**< What was replayed: the trace given, or a scaled one; a reference of the run's own. */
    char *gpu;          /**< Name as the driver gives it. */
    int driver_version;
    EchGpuState state; /**< Of the GPU while it replayed. */
    EchDiag *diag;
} EchCudaRun;

/** Least number of repeats whose range holds the true median with 95 % confidence. */
enum { ECH_CUDA_LEAST_REPEATS = 6 };
/** Median of times[n], n > 0, and the narrowest pair of order statistics that holds the true median with at least 95 % confidence, if the values are
 * independent and of one distribution; of fewer than ECH_CUDA_LEAST_REPEATS the least and the most, which hold it less surely (1 - 2^(1-n)). Sorts. */
EchTime ech_cuda_median(EchTime *times, size_t n, EchTime *ret_low, EchTime *ret_high);

/** Replays @trace on a GPU. @device prices kernels (what bounds them), @reference as in ech_prices_new. ECH_ERROR_BACKEND: no driver, no GPU, a call failed
 * (every return code is checked and everything is released); ECH_ERROR_UNSUPPORTED: too large, too many ops. */
EchCudaRun *ech_cuda_replay(EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchCudaOptions *options,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_cuda_run_free(EchCudaRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchCudaRun, ech_cuda_run_free)
