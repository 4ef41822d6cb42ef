/** @file place_inputs.h
 * What memory-space assignment needs to know of a program: bytes every operand and result is charged for, seconds, and the flat schedule as plain arrays.
 *
 * The bytes and operation counts follow XLA's TPU cost analysis (rules measured on libtpu 2026-10: exact for every instruction of v4, v5e, v5p; v6e and
 * tpu7x choose windows for matrix products that are modelled only roughly).
 */
#pragma once
#include "models/place/cost.h"
#include "models/place/flow.h"
#include "models/place/time.h"
#include "sim/program/program.h"

/** Costs of every instruction of a program, by instruction id. */
typedef struct {
    const EchPlaceChip *chip;
    float *compute, *total;                 /**< Seconds of arithmetic; bytes moved. */
    float *seconds;                         /**< Everything in HBM. */
    float *taken;                           /**< Share of HBM's bandwidth that another core takes meanwhile. */
    uint32_t *first_operand, *first_result; /**< [n + 1] first entry in the two arrays below: arrays of all operands, of the result, in pre-order. */
    uint32_t *operand_start;                /**< [n_operands] the same of every operand of the program; UINT32_MAX: nothing is read. */
    uint64_t *operand_bytes, *result_bytes;
    EchBytes picker_bytes; /**< 0: each buffer its own size. */
} EchPlaceCosts;

EchPlaceCosts *ech_place_costs_new(const EchProgram *program, const EchPlaceChip *chip) G_GNUC_WARN_UNUSED_RESULT;
void ech_place_costs_free(EchPlaceCosts *costs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPlaceCosts, ech_place_costs_free)
/** Bytes of array @leaf (pre-order among arrays) of operand @k. */
uint64_t ech_place_costs_operand(const EchPlaceCosts *costs, const EchProgram *program, EchId instruction, uint32_t k, uint32_t leaf);
/** Number of arrays in a shape. */
uint32_t ech_place_leaves(const EchProgram *program, EchId shape);

/** The flat schedule of a program as plain arrays, ready to be placed. */
typedef struct {
    EchFlow *flow;                    /**< Costs, order, requirements and options of the chip filled in; the caller may change the options. */
    EchFlowInstruction *instructions; /**< instructions[n] */
    EchId *ids;                       /**< ids[n]: the program's instruction of each step. */
    uint32_t n;
    uint32_t loops;   /**< Unrolled loops whose iterations were decided together. */
    GPtrArray *texts; /**< Shapes the leaves borrow. */
} EchPlaceProblem;

/** The problem that memory-space assignment has to solve for @program, nothing of which is in the fast memory yet. @loops: decide iterations of
 * unrolled loops together where the chip's compiler does. ECH_ERROR_UNSUPPORTED where its schedule
 * runs a computation from several places. */
EchPlaceProblem *ech_place_problem_new(const EchProgram *program, const EchPlaceCosts *costs, bool loops, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_place_problem_free(EchPlaceProblem *problem);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPlaceProblem, ech_place_problem_free)
/** How long the program takes by the cost analysis that placed it, with @result (NULL: everything in HBM); loops run as often as the program tells. */
EchPlaceTime ech_place_problem_time(const EchPlaceProblem *problem, const EchProgram *program, const EchPlaceCosts *costs, const EchMsaResult *result);
/** Seconds, reductions, bytes accessed and the first key of the order from @costs; ids[step] names the instructions. */
void ech_place_fill_costs(EchFlow *flow, const EchProgram *program, const EchPlaceCosts *costs, const EchId *ids);
/** Which arrays kernels ask for by name in the chip's fast memory or in the slow one (custom_call_config.*_memory_space_colors); ids as above. */
void ech_place_fill_colors(EchFlow *flow, const EchProgram *program, const EchPlaceChip *chip, const EchId *ids);
/** Pre-order position of array number @leaf of a shape; UINT32_MAX if there is none. */
uint32_t ech_place_position(const EchProgram *program, EchId shape, uint32_t leaf);
