/** @file stalls.h
 * What the time of tiled kernels is spent on, like the counters of a core: every reason that keeps its compute units from working, and the work itself.
 */
#pragma once
#include "models/kernel/kernel.h"
#include "models/kernel/pipeline.h"

typedef enum {
    ECH_STALL_COMPUTE,  /**< The matrix or vector units work. */
    ECH_STALL_HBM,      /**< They wait for bytes to or from HBM, every byte counted once. */
    ECH_STALL_SPACE,    /**< The same for want of room on chip: bytes fetched again, or fetched late because no buffer is free. */
    ECH_STALL_PORT,     /**< They wait for the on-chip memory's port. */
    ECH_STALL_LATENCY,  /**< They wait for a copy to begin or to arrive: its latency, not its bytes. */
    ECH_STALL_FILL,     /**< First fetch, start, and last store: nothing else runs. */
    ECH_STALL_OVERHEAD, /**< What a grid step costs besides its work. */
    ECH_STALL_LINK,     /**< They wait for bytes that the kernel sends to other devices. */
    ECH_N_STALLS,
} EchStall;

/** Times by reason; they add up to the whole. */
typedef struct {
    EchTime at[ECH_N_STALLS];
} EchStalls;

/** What one kernel spends its time on, by the kernel model. */
typedef struct {
    EchStalls stalls; /**< As the model times it. */
    EchBytes vmem;    /**< On-chip bytes of its windows; 0: not known. */
    bool by_vector;   /**< What computes is not the matrix unit. */
} EchKernelInside;

/** "compute", "hbm", "space", "vmem_port", "dma_latency", "fill_drain", "step_overhead", "link". */
const char *ech_stall_name(EchStall stall);
/** Sum of all reasons. */
EchTime ech_stalls_total(const EchStalls *stalls);
/** Adds @more, scaled so that it adds up to @time. */
void ech_stalls_add(EchStalls *stalls, const EchStalls *more, EchTime time);
/** Of one priced kernel; they add up to its time. */
void ech_kernel_stalls(const EchKernelCost *cost, EchStalls *ret);
/** Of one pipeline, by evaluating its schedule again without what is asked about: with all the buffers one could want (what that gains is space), without
 * latency. They add up to the pipeline's time as ech_pipeline_run() gives it. The pipeline must have passed ech_pipeline_check(). */
void ech_pipeline_stalls(const EchPipeline *pipeline, EchStalls *ret);
/** Of one priced kernel. */
EchKernelInside ech_kernel_inside(const EchKernelCost *cost);
/** Appends it as "compute_ps=1200 hbm_ps=40 vmem_bytes=8192 vector=1": what is 0 is left out, but the first. */
void ech_kernel_inside_print(const EchKernelInside *inside, GString *out);
/** Reads that; false, and *ret untouched, where @text is none. */
bool ech_kernel_inside_parse(const char *text, EchKernelInside *ret);
