/** @file xla_programs.h
 * XLA's programs beside a recording of what they ran, or inside it: of a GPU's kernels that tells the instruction that launched them, or their names alone, and
 * nothing of what they move. The program does.
 */
#pragma once
#include "sim/import/capture.h"

typedef struct EchXlaPrograms EchXlaPrograms;

EchXlaPrograms *ech_xla_programs_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_xla_programs_free(EchXlaPrograms *programs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchXlaPrograms, ech_xla_programs_free)
/** The HloProto of program @id; borrowed until ech_xla_programs_apply. */
void ech_xla_programs_add(EchXlaPrograms *programs, uint64_t id, const uint8_t *data, size_t n);
/** A kernel of a program's. */
typedef struct {
    size_t item;       /**< Of the capture. */
    uint64_t program;  /**< Its id. */
    EchId instruction; /**< What launched it, a string of the capture: an instruction, or a command buffer (a CUDA graph), which is none of the program's. */
    uint64_t launch;   /**< Number of the call that launched it, the same for all kernels of a graph; 0 where not told. */
    uint64_t threads;  /**< Of all its blocks; 0 where not told. */
} EchXlaLaunched;

void ech_xla_programs_launched(EchXlaPrograms *programs, const EchXlaLaunched *launched);
/** Gives kernels the traffic, the operations and the launch of their instruction, and makes collectives of the kernels that a library of collectives ran for
 * one. Of several kernels of one instruction those of the name that took longest do its work. Of a graph's kernels only the graph is told: those that XLA wrote
 * are known by their name, which is the instruction's ('.' is '_'; instructions that share a kernel name any one of them); the driver's own copies by their
 * threads, where the program has a copy of just as many bytes; calls of libraries by what ran before and after them, where as many calls stand between. What
 * stays is counted in @diag, as is a program that cannot be read. */
void ech_xla_programs_apply(EchXlaPrograms *programs, EchCapture *capture, EchDiag *diag);

/** The programs in folder @path, where XLA has dumped them (*after_optimizations.hlo.pb, or their texts), or the one that @path is, beside a recording whose
 * kernels tell their names, and not who launched them. Where XLA's ranges are in it, those of programs that ran are meant. A kernel's program is the one whose
 * range its call lies in; of a recording that tells no calls the only one that has a kernel of this name, or that has and ran when it did, by the order of the
 * stream. Its instruction is the one whose range its call lies in, or else found as in a graph. Runs of programs become what may be
 * steps, where it is known what the device did for each. With @path NULL a recording with such ranges is told how to get
 * there. To be called once, when all is added. G_FILE_ERROR, ECH_ERROR_UNSUPPORTED where there is no program. */
bool ech_xla_programs_beside(EchCapture *capture, const char *path, EchDiag *diag, GError **error);
