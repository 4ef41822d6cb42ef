/** @file hlo.h
 * XLA programs: the readers of HLO text and HloProto, which fill the same model, and the compiler's buffer assignment beside them.
 */
#pragma once
#include "sim/import/import.h"

/** Reads a module's text ("HloModule NAME, is_scheduled=true, ..."). @text is kept by the program. @where is used in messages.
 * ECH_ERROR_PARSE with the line, ECH_ERROR_VERIFY. */
EchProgram *ech_hlo_read_text(GBytes *text, const char *where, const char *device, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Reads an HloProto, an HloModuleProto, or a message that holds an HloProto as its field 1; takes the buffer assignment inside. */
EchProgram *ech_hlo_read_proto(GBytes *bytes, const char *where, const char *device, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** How sure the bytes are an HloProto (2), could be one (1), or are not (0). */
int ech_hlo_probe_proto(const uint8_t *head, size_t n);
/** Reads "BufferAssignment:" text (XLA's *-buffer-assignment.txt) into @program. Values the program does not have are counted. */
bool ech_hlo_read_assignment(EchProgram *program, const char *text, size_t n, const char *where, EchDiag *diag, GError **error);
/** An argument that was donated, and that the compiler gave to no output (HloModule's buffer_donor). */
typedef struct {
    int64_t parameter;
    uint32_t position; /**< In the parameter's shape. */
} EchHloDonor;
/** Gives the @donors of a module that no compiler has seen to outputs of the same size and memory that have none, the largest first, as XLA does
 * (OptimizeInputOutputBufferAlias): adds to the program's donations. Not to be called on a program that others hold. */
void ech_hlo_pair_donors(EchProgram *program, const EchHloDonor *donors, size_t n);
/** Says in @diag what the @donors of a compiled program would have saved, where that is a mebibyte or more. */
void ech_hlo_remark_donors(const EchProgram *program, const EchHloDonor *donors, size_t n, EchDiag *diag);
/** Says in @diag which donated arguments a compiled program copies its outputs over, instead of updating them in place. */
void ech_hlo_remark_copied_back(const EchProgram *program, EchDiag *diag);
/** What the remark on arguments that are not donated says of them, which advice looks for. */
#define ECH_REMARK_UNDONATED "not donated in the program as captured"
/** What names of a function's arguments are made of, and how that remark begins to tell them where there are several: "of p, state: ". */
#define ECH_ARGUMENT_LETTERS G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_"
#define ECH_REMARK_OF_ARGUMENTS "of "
/** Says in @diag which arguments of a compiled program its results could lie in and do not, because they are not donated. */
void ech_hlo_remark_undonated(const EchProgram *program, EchDiag *diag);
