/** @file pipeline.h
 * A kernel whose grid walks blocks through double (or deeper) buffers, on the schedule of Pallas' emit_pipeline, exactly.
 *
 * Two fidelities that agree to the picosecond: ech_pipeline_run() evaluates the schedule step by step (nanoseconds of ours a step);
 * ech_pipeline_expand() lists every copy and every compute as an activity with its queue and its dependencies, for an engine.
 *
 * The schedule (jax/_src/pallas/mosaic/pipeline.py), B buffers, N steps. Before step 0 the blocks of steps 0 to B-2 are asked for, all inputs
 * of a step before the next. Step i: (1) ask for the block of step i+B-1 if its index differs from that of step i+B-2; (2) wait for the
 * block of step i if its index changed; (3) compute; (4) send the result if its index changes after this step; (5) wait for the result sent
 * before, if the index changed at this step. At the end, wait for the last result. Equal consecutive indices copy nothing; a block that is
 * the whole array is copied once, before or after; outputs use at most two buffers. With lookahead an input asks for the next *different*
 * block as soon as a buffer is free.
 */
#pragma once
#include "sim/base/units.h"

#define ECH_PIPELINE_MAX_AXES 6
#define ECH_PIPELINE_MAX_OPERANDS 16

/** One array and how the grid walks it. */
typedef struct {
    bool output;
    uint8_t n_dims;                         /**< 1 or 2 block dimensions that matter for size: rows, lanes; leading ones count as rows of size 1. */
    int8_t axis[ECH_PIPELINE_MAX_AXES];     /**< Per dimension: the grid axis that indexes it, or -1 (always block 0). */
    uint64_t extent[ECH_PIPELINE_MAX_AXES]; /**< Elements of the array. */
    uint64_t block[ECH_PIPELINE_MAX_AXES];  /**< Elements of the block; the last may be cut. */
    uint32_t bits;                          /**< Of an element. */
    uint32_t buffers;                       /**< 0: two. Outputs: at most two. */
    bool lookahead;                         /**< Inputs only. */
} EchPipelineOperand;

typedef struct {
    uint8_t n_axes;
    uint64_t grid[ECH_PIPELINE_MAX_AXES]; /**< Steps per axis, outermost first. */
    const EchPipelineOperand *operands;   /**< operands[n_operands]; borrowed. */
    size_t n_operands;
    EchTime compute; /**< Of a step with full blocks. */
    EchTime port;    /**< What a step with full blocks takes of the on-chip memory's port; a step takes the longer of the two. */
    /** Compute of a step with cut blocks: compute x product of these axes' shares (an axis of -1 ends the list). 0: every step costs the same. */
    uint64_t compute_extent[ECH_PIPELINE_MAX_AXES], compute_block[ECH_PIPELINE_MAX_AXES]; /**< Per axis; extent 0: not cut. */
    EchTime step_overhead;                                                                /**< Added to every step's compute. */
    EchRate read, write;                                                                  /**< Bytes a second of copies in and out. */
    EchTime setup;                                                                        /**< A copy occupies its queue this much longer. */
    EchTime latency;                                                                      /**< A copy ends this much after its queue is free again. */
    bool shared_port;     /**< Copies in and out share one queue, in the order they are asked for. */
    uint32_t rows, lanes; /**< Tile to which cut blocks and buffers are padded: 8 and 128. */
    uint64_t scratch;     /**< Bytes on chip besides the buffers. */
} EchPipeline;

/** What a run says; times in picoseconds. total = compute + overhead + fill + wait_in + wait_out + drain. */
typedef struct {
    EchTime total;
    EchTime compute;           /**< Sum over steps. */
    EchTime overhead;          /**< Steps times step_overhead. */
    EchTime fill;              /**< Waiting for the first blocks. */
    EchTime wait_in;           /**< Waiting for later blocks. */
    EchTime wait_out;          /**< Waiting for a result's buffer. */
    EchTime drain;             /**< Waiting for the last result. */
    EchTime busy_in, busy_out; /**< Queues' busy time. */
    EchBytes bytes_in, bytes_out;
    uint64_t steps, copies_in, copies_out;
    EchBytes vmem; /**< On chip: buffers times padded blocks, and scratch. */
} EchPipelineResult;

/** Checks a pipeline: axes, blocks, counts (at most 2^26 steps). ECH_ERROR_CONFIG. */
bool ech_pipeline_check(const EchPipeline *pipeline, GError **error);
/** Evaluates the schedule. The pipeline must have passed ech_pipeline_check(). */
void ech_pipeline_run(const EchPipeline *pipeline, EchPipelineResult *ret);

typedef enum { ECH_PIPELINE_COMPUTE, ECH_PIPELINE_IN, ECH_PIPELINE_OUT } EchPipelineKind;

/** One activity. It starts when all before it on its queue have left the queue and its dependencies have ended. */
typedef struct {
    EchPipelineKind kind;
    uint32_t operand; /**< Of copies. */
    uint64_t step;
    EchBytes bytes;
    EchTime duration;                          /**< On the queue: compute and overhead, or setup and transfer. */
    EchTime tail;                              /**< Ends this long after leaving the queue (latency). */
    uint8_t queue;                             /**< 0 core, 1 copies in (and out where the port is shared), 2 copies out. */
    uint32_t first_dependency, n_dependencies; /**< Into the dependency array: activity indices. */
} EchPipelineActivity;

typedef struct {
    EchPipelineActivity *activities; /**< In the order each queue runs them. */
    size_t n_activities;
    uint32_t *dependencies;
    size_t n_dependencies;
} EchPipelineExpansion;

/** Every copy and compute of the schedule. ECH_ERROR_CONFIG beyond 2^22 activities. Free with ech_pipeline_expansion_free(). */
EchPipelineExpansion *ech_pipeline_expand(const EchPipeline *pipeline, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_pipeline_expansion_free(EchPipelineExpansion *expansion);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPipelineExpansion, ech_pipeline_expansion_free)

/** A matrix product [m,k] x [k,n] as a pipeline over (m, n, k) blocks, k innermost, with an f32 accumulator. */
typedef struct {
    uint64_t m, n, k;
    uint32_t bits, out_bits;
    uint64_t bm, bn, bk;
    uint32_t buffers; /**< Per input. */
    double macs_per_second;
    EchRate port; /**< Bytes a second of on-chip memory: a step reads both blocks. 0: does not bind. */
    EchTime step_overhead;
    EchRate read, write;
    EchTime setup, latency;
    bool shared_port;
    uint32_t cores; /**< The m axis is split over them; they share the memory's bandwidth. */
} EchPipelineProduct;

/** Builds the pipeline of a product; @operands has room for three and must live as long as *ret. */
void ech_pipeline_product(const EchPipelineProduct *product, EchPipelineOperand operands[3], EchPipeline *ret);
/** Tries blocks (multiples of 128 that fit into @budget bytes) and up to @max_buffers buffers; the fastest goes to *ret with its result.
 * Returns how many were tried; 0 where nothing fits. */
size_t ech_pipeline_search(const EchPipelineProduct *product, EchBytes budget, uint32_t max_buffers, EchPipelineProduct *ret, EchPipelineResult *ret_result);
