/** @file experiment.h
 * The experiment: everything a user can vary, as data. One file, or the same from the command line.
 *
 *     title: half the host link            # all keys but trace and device may be left out
 *     trace: step.hlo.txt.gz               # relative to this file, else among the shipped traces
 *     matmul: {m: 4096, n: 4096, k: 4096, buffers: 2}   # in place of a trace: a tiled product (product.h)
 *     device: tpu-v5e                      # a name, a file relative to this one, or a device inline, whole or over its base
 *     allocator: bfc:limit=60GiB           # of the device's memory; host_allocator: of every other
 *     passes: [unplan, "pad:align=1MiB"]
 *     replay: {engine: native}             # the rows of ech_replay_params
 *     step: 2                              # of a capture, one step alone (default: all of it)
 *     capture_device: 0                    # which device of a capture of several, alone (default: the fullest that computes; run by itself: all, together)
 *     format: hlo                          # and beside: see EchImportOptions
 *     set: {device.memories.hbm.capacity: x2}   # edits, as --set
 *     find: {path: device.memories.hbm.capacity, values: 1GiB..16GiB, for: fits}   # see find.h
 *     sweep:
 *       - {path: device.memories.hbm.capacity, values: [8GiB, 16GiB, x4]}
 *       - {name: host link, path: [device.links.host.to_device, device.links.host.from_device], values: [x1, x0.5], labels: [as it is, half]}
 *
 *       - {name: offload, path: trace, values: [a, b, c, d], against: [a, a, c, c]}   # what each is compared with; see below
 *
 * Edits apply in the order file's set, command line, axis. A sweep runs every combination of its axes, the last axis fastest. A value is
 * compared with the one before it where the values are numbers that ascend or descend, else with the axis' first; `against` names (as `values` or `labels`
 * does) another. A value with which no combination can run is refused before anything runs.
 */
#pragma once
#include "sim/base/yaml.h"
#include "sim/import/import.h"
#include "sim/report/report.h"

/** One run of an experiment. */
typedef struct {
    char *label;         /**< "host link=half, capacity=8GiB"; "" where there is no sweep. */
    char **values;       /**< The axes' values as labels, NULL-terminated. */
    char **settings;     /**< Edits of the device, "PATH=VALUE" below device., NULL-terminated. */
    char **edits;        /**< All edits in force as given, for the report, NULL-terminated. */
    EchYamlNode *config; /**< Root without set and sweep. */
} EchCase;

typedef struct {
    char *title;
    char *path;          /**< Or NULL. */
    char **axes;         /**< Names of the sweep's axes, NULL-terminated. */
    size_t *axis_sizes;  /**< Values of each axis. */
    size_t **axis_bases; /**< Per axis and value: the value it is compared with; itself where it begins a group of its own. */
    EchCase *cases;      /**< cases[n_cases], at least one. */
    size_t n_cases;
    EchCase *plain; /**< The one case without the passes, edits of device and replay, and allocators that the command line gives; NULL where it gives none, or
                         the file sweeps. Of pass place its parameters are left out, not the pass. */
    struct EchFind *find; /**< The number that is looked for (find.h), or NULL. */
    struct EchImportCache *cache;
    bool brief;         /**< Its runs are told without each kernel (EchReport.brief). */
    uint32_t of_device; /**< Of a capture of several devices this one, to be run together with experiments of the others; ECH_NONE: one alone. */
    bool least_cache;   /**< A server's cache is left out of what its runs need (served.h). */
    GHashTable *places; /**< Where an edit stands: "PATH=VALUE" -> "FILE:line:column"; edits of the command line are not in it. */
} EchExperiment;

/** What the command line says in place of the file; NULL or 0: nothing. */
typedef struct {
    const char *trace, *device, *allocator, *host_allocator, *engine, *format, *beside, *step;
    const char *const *passes;   /**< NULL-terminated; replace the file's. */
    const char *const *settings; /**< --set PATH=VALUE, NULL-terminated. */
    const char *find;            /**< --find PATH[,PATH]=VALUES. */
    const char *const *goals;    /**< --for GOAL, NULL-terminated. */
} EchExperimentOverrides;

/** Reads @path (NULL: nothing but the overrides) and lays out its cases. ECH_ERROR_CONFIG or G_FILE_ERROR. */
EchExperiment *ech_experiment_load(const char *path, const EchExperimentOverrides *overrides, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_experiment_free(EchExperiment *experiment);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchExperiment, ech_experiment_free)

/** A case that ran; owns everything. */
typedef struct {
    char *title, *trace_path, *format;
    EchDevice *device, *reference;
    EchProgram *program;
    EchTrace *trace;
    EchTrace *whole;      /**< Of which the trace is a step (ech_trace_part), or NULL. */
    EchDiag *import_diag; /**< Borrowed from the experiment's cache. */
    const char *refusal;  /**< EchImport.refusal, likewise. */
    EchDiag *pass_diag;
    char **passes;
    EchBytes goal;          /**< The least that passes are asked to bring the device's memory down to; 0: nothing. */
    char **settings;        /**< Copy of the case's edits. */
    char *words;            /**< EchReport.words. */
    char *allocator;        /**< Of the device's memory, where it is the one that was recorded (ech_recorded_allocator), or NULL. */
    const char *released;   /**< Its release in words, or NULL; static. */
    EchBytes recorded_peak; /**< The most that it held when it was recorded; 0: unknown. */
    EchRun *run;
} EchResult;

/** Imports (once per file), loads the device, runs the passes, lowers, replays. Errors of any of these. */
EchResult *ech_experiment_run(EchExperiment *experiment, size_t index, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The same of a case that is not the experiment's own. */
EchResult *ech_experiment_run_case(EchExperiment *experiment, const EchCase *c, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** @from with @paths edited to @value besides (passes: added); its values have @label more, its label @name=@label. ECH_ERROR_CONFIG. */
EchCase *ech_case_vary(const EchCase *from, const char *name, const char *label, const char *const *paths, const char *value,
                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_case_free(EchCase *c);
/** EchExperiment.plain, which must be there, on the native engine: what a run is compared with. */
EchResult *ech_experiment_run_plain(EchExperiment *experiment, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Lowers a program as `run` does: an assignment is made where it has none, TPU kernels are priced for @device. *@reference: the device without edits; becomes
 * the one that the program was compiled for, or NULL where nothing is left to scale (owned by the caller throughout). Remarks go to @diag. */
EchTrace *ech_experiment_lower(EchProgram *program, const EchDevice *device, EchDevice **reference, EchKernelTime kernel_time, uint64_t trips, EchDiag *diag,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** What of several experiments is replayed together. */
typedef enum {
    ECH_TOGETHER_ASKED, /**< The first case of each. */
    ECH_TOGETHER_PLAIN, /**< EchExperiment.plain, of those that have one. */
    ECH_TOGETHER_APART, /**< The first case, of processes that share a device each on one of its own. */
} EchTogether;
/** @how of the @experiments[n], ranks of one program or processes on one device (ech_replay_run_together).
 * ret_results[n]: owned by the caller; untouched on failure. ECH_ERROR_CONFIG where two are the same rank. */
bool ech_experiment_run_together(EchExperiment *const *experiments, size_t n, EchTogether how, EchResult **ret_results,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Imports the traces of all cases, so that workers forked later share them. */
bool ech_experiment_preload(EchExperiment *experiment, GError **error);
/** What the first case, which has a trace, imports, as its run will have it; borrowed from the experiment. */
const EchImport *ech_experiment_import(EchExperiment *experiment, GError **error);
/** What @from has read, @to need not read again; @from is left without. */
void ech_experiment_take_imports(EchExperiment *to, EchExperiment *from);
/** Gives @to what @from has read and it has not, which stays @from's and has to outlive @to. */
void ech_experiment_borrow_imports(EchExperiment *to, const EchExperiment *from);
void ech_result_free(EchResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchResult, ech_result_free)
/** A view for the report's writers; valid as long as @result. */
EchReport ech_result_report(const EchResult *result);

/** Name of the hardware that a capture says its device number @device was; owned by the caller, NULL where it says none. */
char *ech_recorded_on(const EchTrace *trace, uint32_t device) G_GNUC_WARN_UNUSED_RESULT;

/** Path of an experiment: @name as it is where there is such a file, else NAME.yaml among the shipped ones ("tutorial"). Owned by the caller; @name itself
 * where nothing is found. */
char *ech_experiment_find(const char *name) G_GNUC_WARN_UNUSED_RESULT;
/** Names of the shipped experiments, sorted, NULL-terminated; owned by the caller. */
char **ech_experiment_list(void) G_GNUC_WARN_UNUSED_RESULT;
/** Path of a trace: @name as it is, relative to @folder (NULL: here), else among the shipped traces. Owned by the caller; @name itself where nothing is found.
 */
char *ech_trace_find(const char *name, const char *folder) G_GNUC_WARN_UNUSED_RESULT;
/** The name of a shipped trace that @name was meant to be, or NULL. Owned by the caller. */
char *ech_experiment_nearest_trace(const char *name);
