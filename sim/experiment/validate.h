/** @file validate.h
 * Predicted against measured, pair by pair: tables of kernels with the compiler's own estimates, and traces with recorded times.
 */
#pragma once
#include "models/kernel/kernel.h"
#include "sim/base/diag.h"
#include "sim/program/program.h"
#include "sim/report/report.h"
#include "sim/trace/trace.h"

#include <json-glib/json-glib.h>

/** One comparison. */
typedef struct {
    char *name;       /**< What was compared: "mode/case/instruction" of a table, the operation of a trace. */
    char *kind;       /**< Family: "matmul_bf16", "elementwise"... of a table; "copy", "kernel" or "collective" of a trace or a program. */
    char *group;      /**< Traces: what belongs together inside a kind ("host to hbm, against the other direction"), or NULL. */
    const char *how;  /**< Traces: the model behind the prediction, "link", "port", "roofline", "estimate", "collective"; NULL elsewhere. Static. */
    EchTime start;    /**< Recorded, since the trace's time zero, or ECH_TIME_NONE. */
    EchBytes bytes;   /**< Moved; 0 where not known. */
    uint32_t device;  /**< Ordinal in the capture. */
    EchTime measured; /**< Recorded, or the compiler's estimate at the core clock. */
    EchTime predicted;
    EchBytes vmem_measured, vmem_predicted; /**< On-chip bytes of the kernel's windows; 0 where not said. */
    EchKernelCost cost;                     /**< Where the predicted time goes; zeros for operations that are not kernels of a table. */
} EchValidatePair;

/** Recorded operations that no prediction could be held against. */
typedef struct {
    const char *kind, *reason; /**< Static. */
    char *example;             /**< Name of the first. */
    uint64_t count;
    EchTime measured; /**< Sum of their recorded durations. */
} EchValidateGap;

/** The whole of what one device of the capture did. */
typedef struct {
    uint32_t device;
    EchTime span;      /**< Recorded: from the first start to the last end. */
    EchTime measured;  /**< Recorded: time in which at least one kernel, copy or collective ran. */
    EchTime predicted; /**< Makespan of the replay, without the host's set-ups of copies on GPUs. */
    EchTime stand_in;  /**< Recorded durations of kernels about which nothing else is known; the replay used them, so predicted has them too. */
} EchValidateWhole;

/** All comparisons of one file; plain arrays. */
typedef struct {
    EchValidatePair *pairs; /**< pairs[n_pairs], in the file's order. */
    size_t n_pairs;
    EchTime makespan_measured, makespan_predicted; /**< ECH_TIME_NONE where the file has none, or where nothing of it is predicted. */
    EchBasis basis;       /**< Programs of TPUs: all kernels, also those without an estimate, as a run prices them; @all 0 where there is none. */
    EchValidateGap *gaps; /**< gaps[n_gaps], in order of first occurrence. */
    size_t n_gaps;
    EchValidateWhole *wholes; /**< wholes[n_wholes], one a device of the capture. */
    size_t n_wholes;
    bool estimated;   /**< What is compared with is a compiler's estimate, not a measurement. */
    char *subject;    /**< What was measured, for people: "recorded on NVIDIA H100 80GB HBM3", "the compiler's estimates"; or NULL. */
    GPtrArray *notes; /**< Sentences (char *) that say what the numbers mean; or NULL. */
} EchValidation;

void ech_validation_free(EchValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchValidation, ech_validation_free)

/** True where @data begins with the header of a table of kernels. */
bool ech_validate_is_table(const char *data, size_t size);
/** Prices every row of a table of kernels (comma-separated, with the columns case, kind, out, operands, estimated_cycles, the windows...).
 * @own_tiles: with windows of our own choice. @path names the file in messages. Rows that cannot be read are an error: file, line, column, value. */
EchValidation *ech_validate_table(const char *path, const char *data, size_t size, const EchDevice *device, bool own_tiles,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Whether estimates of the compiler for @platform may be held against @device: ECH_ERROR_UNSUPPORTED where it is a GPU and they are a TPU's, or the other way
 * round. */
bool ech_validate_is_of_kind(EchPlatform platform, const EchDevice *device, GError **error);
/** Prices every kernel of a compiled program that carries the compiler's estimate, one pair each, by the compiler's constants; with the makespan: the same
 * kernels one after the other, loops as often as they run. Cycles are those of the chip that it was compiled for. ECH_ERROR_UNSUPPORTED for programs without
 * estimates. */
EchValidation *ech_validate_program(const EchProgram *program, const EchDevice *device, bool own_tiles, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The same of a program compiled for a GPU (assigned, if nobody did): against what XLA left of its cost models in backend_config (reification_cost), a
 * kernel's start left out on both sides, tiles as written. ECH_ERROR_UNSUPPORTED where it left none. */
EchValidation *ech_validate_gpu_program(EchProgram *program, const EchDevice *device, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Holds the recorded durations of a trace's copies, kernels and collectives against the model's, device by device of the capture, each in the company it was
 * recorded in (a replay in which nothing starts before its recorded start); with the makespan of a replay that waits for nothing but dependencies. A recorded
 * duration is never its own prediction: kernels about which nothing else is known are gaps. ECH_ERROR_UNSUPPORTED where nothing was recorded. */
EchValidation *ech_validate_trace(const EchTrace *trace, const EchDevice *device, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** @predicted over @measured (both picoseconds, or both bytes) less 1; 0 where nothing was measured. */
static inline double ech_relative_error(int64_t predicted, int64_t measured)
{
    return measured > 0 ? (double)predicted / (double)measured - 1 : 0;
}
/** Mean absolute relative error of the pairs whose kind is @kind (NULL: all); -1 without any. */
double ech_validation_mape(const EchValidation *validation, const char *kind);

/** Where not one pair could be compared: a sentence that says so, with the reason kind by kind and what to do about it (g_free); NULL where something was. */
char *ech_validation_nothing(const EchValidation *validation);

/** As one JSON object: device, measured, comparable, pairs[], makespan, mape{}, groups[], scatter[], not_compared[], notes[]. */
JsonNode *ech_validation_json(const EchValidation *validation, const EchDevice *device) G_GNUC_WARN_UNUSED_RESULT;
/** For a terminal of @columns (0: a file); ends with a newline. @title names the file. */
GString *ech_validation_text(const EchValidation *validation, const EchDevice *device, const char *title, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
/** Predicted over measured on two logarithmic axes, a point for each distinct operation; an SVG document. */
GString *ech_validation_svg(const EchValidation *validation, const EchDevice *device, const char *title) G_GNUC_WARN_UNUSED_RESULT;
/** A page of its own with the scatter and the tables. */
GString *ech_validation_html(const EchValidation *validation, const EchDevice *device, const char *title) G_GNUC_WARN_UNUSED_RESULT;
/** All pairs as comma-separated values. */
GString *ech_validation_csv(const EchValidation *validation) G_GNUC_WARN_UNUSED_RESULT;
