/** @file pass.h
 * What-if transformations: one file per pass, one table, one pipeline.
 *
 * A pass is a pure function from program to program, or from trace to trace: it never changes its input, takes a reference to it where it
 * changes nothing, and leaves a remark (ech_diag_remark) for what it did, what it declined and why. Program passes do what a compiler could
 * do and run before lowering; trace passes run after it, and on every other format.
 *
 * To add a pass: write sim/pass/NAME.c with a const EchPassClass ech_pass_NAME and add a row to passes.def.
 */
#pragma once
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/base/param.h"
#include "sim/program/program.h"
#include "sim/trace/trace.h"

/** Property of a trace: bytes that an offload was told to hold the device to; what fetches earlier after it keeps to that, too. */
#define ECH_PASS_MEMORY "offload_memory"

/** A pass's row. Exactly one of program and trace is set. */
typedef struct {
    const char *name;                      /**< As written in a spec: "pad". */
    const char *summary;                   /**< One sentence. */
    const char *source;                    /**< Where its rules come from, or "ours". */
    const EchParam *params;                /**< Its options, ended by a row without a name; NULL: none. */
    size_t options_size;                   /**< Of the struct the params fill; 0 without params. */
    bool of_tensors;                       /**< Goes by what arrays are and when they live: of PyTorch's memory it needs tensors (ECH_TRACE_SEGMENTS). */
    EchBytes (*goal)(const void *options); /**< What the device is to hold at its fullest, 0: as little as can be; NULL: no such pass. */
    /** An owned program: a changed one, or another reference to @in. @device is what it will run on. ECH_ERROR_UNSUPPORTED where it cannot say anything. */
    EchProgram *(*program)(const void *options, const EchDevice *device, EchProgram *in, EchDiag *diag, GError **error);
    /** The same for traces. */
    EchTrace *(*trace)(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error);
} EchPassClass;

/** Why a pass found nothing by @pattern: "no array is called 'opt_state*'; arguments are state*, ws* and x", of @names (an argument's own, as "state[0][1]")
 * what they begin with. Owned by the caller. */
char *ech_pass_unnamed(const char *pattern, const GPtrArray *names) G_GNUC_WARN_UNUSED_RESULT;

/** All passes, in the order of passes.def. */
const EchPassClass *const *ech_pass_classes(size_t *ret_n);

/** A pass with its options, from a spec "name:key=value,...". */
typedef struct EchPass EchPass;
/** ECH_ERROR_CONFIG with the nearest name. */
EchPass *ech_pass_new(const char *spec, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_pass_free(EchPass *pass);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPass, ech_pass_free)
/** "pad"; static. */
const char *ech_pass_name(const EchPass *pass);
/** True where it changes programs, before lowering. */
bool ech_pass_is_program(const EchPass *pass);
/** What the device is to hold at its fullest after the pass; 0: it is not asked for that. */
EchBytes ech_pass_goal(const EchPass *pass);
/** Canonical spec; owned by the caller. */
char *ech_pass_print(const EchPass *pass) G_GNUC_WARN_UNUSED_RESULT;

/** Runs the program passes among @passes (a GPtrArray of EchPass) in their order; the result is owned. */
EchProgram *ech_passes_run_program(const GPtrArray *passes, const EchDevice *device, EchProgram *in, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Runs the trace passes among @passes in their order; the result is owned. */
EchTrace *ech_passes_run_trace(const GPtrArray *passes, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
