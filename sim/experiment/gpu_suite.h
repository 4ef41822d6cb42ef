/** @file gpu_suite.h
 * Everything that can be learnt from a GPU in one go: its device file, then a set of traces predicted with that file and replayed on it.
 *
 * The traces: a ladder of copies, tiles streamed through 1, 2 and 3 buffers, parameters offloaded layer by layer, activations offloaded, a fragmenting
 * allocation pattern under four allocators, matrix products at padded and unpadded sides, and compiled GPU programs, offload with and without overlap among
 * them. Left in the folder: device.yaml, table.md with date and command, and for each case the trace as replayed, the comparison as JSON and its row.
 *
 * Every stage runs in a process of its own, with a time limit: a GPU that hangs, a crash or a lost context costs one row. What a stage has found is written
 * when it ends, the table anew each time, so that nothing is lost when the whole is killed; called again for the same folder and GPU, it goes on with what is
 * missing, and with programs that have changed. The process that calls it must not have started CUDA itself.
 */
#pragma once
#include "sim/experiment/calibrate.h"

typedef struct {
    uint64_t gpu;                /**< Ordinal. */
    const char *folder;          /**< Made if it is not there. */
    const char *name;            /**< Of the device. */
    const char *date;            /**< "2026-11-21" */
    const char *command;         /**< As it was called, for the table. */
    const char *const *programs; /**< Compiled GPU programs beside the shipped ones: files; NULL-terminated or NULL. */
    uint64_t repeats;            /**< Of each case; 0: 10. */
    bool no_shipped_programs;    /**< Leaves out the shipped programs. */
    double budget;               /**< Seconds for all; the most valuable stages come first, what is left is told. 0: no limit. */
    double stage_limit;          /**< Seconds for one case before it is ended; 0: 90 (calibration twice that, a step of it half). */
} EchGpuSuiteOptions;

/** One case, as it stands in the table. */
typedef struct {
    char *name, *allocator; /**< name: no other case's. allocator: "" where the trace's own offsets or the driver place. */
    char *file;             /**< Of a program: which file, how large, changed when; "" for a trace that is made here. */
    EchTime measured, low, high, predicted;
    EchBytes memory_measured, memory_predicted;
    double copies, kernels;                          /**< Mean absolute errors: copies of 1 MiB and more, kernels; -1 without any. */
    double copies_interval;                          /**< Of those copies, ech_cuda_validation_interval; 0 or -1: not known. */
    double goal_copies, goal_makespan, goal_kernels; /**< Largest error aimed at; 0: none. */
    double scale;
    double seconds; /**< It took. */
    uint64_t tries; /**< In this call and those before it. */
    bool left;      /**< Not reached in the budget. */
    char *error;    /**< Why there is no result, or NULL. */
} EchGpuCase;

typedef struct {
    char *gpu, *device_path, *table; /**< Name as the driver gives it; the file; the table as Markdown. */
    char *calibration;               /**< The calibration for a terminal. */
    EchGpuCase *cases;               /**< cases[n_cases] */
    size_t n_cases;
    size_t missed; /**< Cases that missed a goal, or failed. */
    size_t left;   /**< Cases not reached in the budget. */
    size_t kept;   /**< Cases found done by an earlier call. */
    double seconds;
} EchGpuSuite;

/** Called before each stage (@outcome NULL) and after it; @elapsed: seconds since the call. May be NULL. */
typedef void (*EchGpuSuiteProgress)(const char *stage, const char *outcome, unsigned done, unsigned total, double elapsed, void *data);

/** ECH_ERROR_BACKEND without a driver or a GPU, or where calibration fails three times; a case that fails is a row of the table, and tried once more by the
 * next call. */
EchGpuSuite *ech_gpu_suite_run(const EchGpuSuiteOptions *options, EchGpuSuiteProgress progress, void *data, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_gpu_suite_free(EchGpuSuite *suite);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGpuSuite, ech_gpu_suite_free)
