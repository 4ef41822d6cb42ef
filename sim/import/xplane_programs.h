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
/** Item @item of the capture was launched by @instruction (a string of the capture) of program @id. */
void ech_xplane_programs_launched(EchXplanePrograms *programs, size_t item, uint64_t id, EchId instruction);
/** Gives kernels the traffic, the operations and the launch of their instruction, and makes collectives of the kernels that a library of collectives ran for
 * one. Of several kernels of one instruction those of the name that took longest do its work. A program that cannot be read is counted in @diag. */
void ech_xplane_programs_apply(EchXplanePrograms *programs, EchCapture *capture, EchDiag *diag);
