/** @file xla_folders.h
 * What XLA compiled, for a capture that tells of its launches only whose they are: the programs' folders beside it, PREFIX.PID.NAME beside PREFIX.PID.pretend
 * (a module's text, its buffer assignment, and in program.json which module of the process it was). An instruction's kernel is what lowering makes of it when
 * the folder itself is replayed: there is no second account of it.
 *
 * A folder counts where its number and its module's name are those of the launches, where it was written after the capture had begun, and where it has every
 * instruction that was launched; else its launches stay as they are, and a remark says why. Only names that are found in the capture's own folder are opened.
 */
#pragma once
#include "sim/import/import.h"

/** A kernel that a compiled program launched. */
typedef struct {
    uint64_t run, number;      /**< Which run of all programs; which of the process's modules it is of. */
    EchId module, instruction; /**< Their names, of the builder that is handed over. */
    /* Set by ech_xla_folders_find(): */
    const EchTrace *trace; /**< What the program was lowered to, or NULL: nothing is known. Borrowed of the folders. */
    const EchOp *op;       /**< Its kernel there. NULL with a trace: it is a further kernel of an instruction that stands with its first one. */
    const struct EchXlaArgument *arguments; /**< arguments[n_arguments], in their order. */
    uint32_t n_arguments;
} EchXlaLaunch;

/** An array that a kernel is given: the operands' leaves, then the results'. */
typedef struct EchXlaArgument {
    EchBytes bytes; /**< That are moved; 0: none, as of an array that is updated in place. */
    bool written;
} EchXlaArgument;

typedef struct EchXlaFolders EchXlaFolders;

/** Of a capture of this @path that began at @clock_ns of the Unix epoch (NULL: there are no folders); @device as for ech_device_load, or NULL: launches are
 * those on it. */
EchXlaFolders *ech_xla_folders_new(const char *path, uint64_t clock_ns, const char *device) G_GNUC_WARN_UNUSED_RESULT;
void ech_xla_folders_free(EchXlaFolders *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchXlaFolders, ech_xla_folders_free)
/** Sets what is known of each of @launches[@n], in the order of their launches; remarks and counters go to @diag. */
void ech_xla_folders_find(EchXlaFolders *self, const EchTraceBuilder *names, EchXlaLaunch *launches, size_t n, EchDiag *diag);
