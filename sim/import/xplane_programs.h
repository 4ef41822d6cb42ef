/** @file xplane_programs.h
 * XLA's programs travel in a profile of what they ran. Of a GPU's kernels the profile tells the instruction that launched them, and nothing of what they move:
 * the program does.
 */
#pragma once
#include "sim/import/capture.h"

typedef struct EchXplanePrograms EchXplanePrograms;

EchXplanePrograms *ech_xplane_programs_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_xplane_programs_free(EchXplanePrograms *programs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchXplanePrograms, ech_xplane_programs_free)
/** The HloProto of program @id; borrowed until ech_xplane_programs_apply. */
void ech_xplane_programs_add(EchXplanePrograms *programs, uint64_t id, const uint8_t *data, size_t n);
/** A kernel of a program's. */
typedef struct {
    size_t item;       /**< Of the capture. */
    uint64_t program;  /**< Its id. */
    EchId instruction; /**< What launched it, a string of the capture: an instruction, or a command buffer (a CUDA graph), which is none of the program's. */
    uint64_t launch;   /**< Number of the call that launched it, the same for all kernels of a graph; 0 where not told. */
    uint64_t threads;  /**< Of all its blocks; 0 where not told. */
} EchXplaneLaunched;

void ech_xplane_programs_launched(EchXplanePrograms *programs, const EchXplaneLaunched *launched);
/** Gives kernels the traffic, the operations and the launch of their instruction, and makes collectives of the kernels that a library of collectives ran for
 * one. Of several kernels of one instruction those of the name that took longest do its work. Of a graph's kernels only the graph is told: those that XLA wrote
 * are known by their name, which is the instruction's ('.' is '_'; instructions that share a kernel name its first one); the driver's own copies by their
 * threads, where the program has a copy of just as many bytes; calls of libraries by what ran before and after them, where as many calls stand between. What
 * stays is counted in @diag, as is a program that cannot be read. */
void ech_xplane_programs_apply(EchXplanePrograms *programs, EchCapture *capture, EchDiag *diag);
