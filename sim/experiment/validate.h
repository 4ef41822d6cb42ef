/** @file validate.h
 * Predicted against measured, pair by pair: tables of kernels with the compiler's own estimates, and traces with recorded times.
 */
#pragma once
#include "models/kernel/kernel.h"
#include "sim/base/diag.h"
#include "sim/program/program.h"

/** One comparison. */
typedef struct {
    char *name;          /**< What was compared: "mode/case/instruction" of a table, the operation of a trace. */
    char *kind;          /**< Family: "matmul_bf16", "elementwise", "copy"... */
    EchTime measured;    /**< Recorded, or the compiler's estimate at the core clock. */
    EchTime predicted;
    EchBytes vmem_measured, vmem_predicted; /**< On-chip bytes of the kernel's windows; 0 where not said. */
    EchKernelCost cost;  /**< Where the predicted time goes; zeros for operations that are not kernels of a table. */
} EchValidatePair;

/** All comparisons of one file; plain arrays. */
typedef struct {
    EchValidatePair *pairs; /**< pairs[n_pairs], in the file's order. */
    size_t n_pairs;
    EchTime makespan_measured, makespan_predicted; /**< ECH_TIME_NONE where the file has none. */
} EchValidation;

void ech_validation_free(EchValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchValidation, ech_validation_free)

/** True where @data begins with the header of a table of kernels. */
bool ech_validate_is_table(const char *data, size_t size);
/** Prices every row of a table of kernels (comma-separated, with the columns case, kind, out, operands, estimated_cycles, the windows...).
 * @own_tiles: with windows of our own choice. @path names the file in messages. Rows that cannot be read are an error: file, line, column, value. */
EchValidation *ech_validate_table(const char *path, const char *data, size_t size, const EchDevice *device, bool own_tiles, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Prices every kernel of a compiled program that carries the compiler's estimate, one pair each; with the makespan: the estimates one after the
 * other, loops as often as they run, and the same by the hardware's constants, kernels without an estimate included. */
EchValidation *ech_validate_program(const EchProgram *program, const EchDevice *device, bool own_tiles, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Mean absolute relative error of the pairs whose kind is @kind (NULL: all); -1 without any. */
double ech_validation_mape(const EchValidation *validation, const char *kind);
