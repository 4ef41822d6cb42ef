/** @file place_rewrite.h
 * Programs without and with a placement: takes out what a compiler's memory-space assignment put in, and writes a new assignment into a program.
 */
#pragma once
#include "sim/base/diag.h"
#include "sim/program/place_inputs.h"

/** What a program has in its fast memory. */
typedef struct {
    uint32_t kept;                                         /**< Arrays made in the fast memory. */
    uint32_t prefetches, sliced, evictions, cross_program; /**< Copies in, those of them in slices, copies out, copies before the program begins. */
    EchBytes kept_bytes, prefetched, evicted, cross_program_bytes;
} EchPlaceCounts;

/** What is placed in memory space @fast. */
EchPlaceCounts ech_place_count(const EchProgram *program, int32_t fast);
/** @program with everything that its compiler placed in memory space @fast back in HBM and the copies between the two gone. Slices that a copy took over are
 * synchronous slices again. */
EchProgram *ech_place_strip(const EchProgram *program, int32_t fast, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** @program, stripped, with @result in it: memory spaces, copies, slices. The assignment of its buffers is made too, the fast memory's offsets as placed;
 * @hbm_limit as for ech_program_assign. ECH_ERROR_UNSUPPORTED where a placement cannot be written (then that is our mistake). */
EchProgram *ech_place_apply(const EchProgram *program, const EchPlaceProblem *problem, const EchMsaResult *result, int32_t fast, EchBytes hbm_limit,
                            EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
