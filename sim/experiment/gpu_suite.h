/** @file gpu_suite.h
 * Everything that can be learnt from a GPU in one go: its device file, then a set of traces predicted with that file and replayed on it.
 *
 * The traces: a ladder of copies, tiles streamed through 1, 2 and 3 buffers, parameters offloaded layer by layer, activations offloaded, a fragmenting
 * allocation pattern under four allocators, matrix products at padded and unpadded sides, and compiled GPU programs, offload with and without overlap among
 * them. Left in the folder: device.yaml, table.md with date and command, and for each case the trace as replayed and the comparison as JSON.
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
} EchGpuSuiteOptions;

/** One case, as it stands in the table. */
typedef struct {
    char *name, *allocator; /**< allocator: "" where the trace's own offsets or the driver place. */
    EchTime measured, low, high, predicted;
    EchBytes memory_measured, memory_predicted;
    double copies, kernels;                          /**< Mean absolute errors: copies of 1 MiB and more, kernels; -1 without any. */
    double goal_copies, goal_makespan, goal_kernels; /**< Largest error aimed at; 0: none. */
    double scale;
    char *error; /**< Why there is no result, or NULL. */
} EchGpuCase;

typedef struct {
    char *gpu, *device_path, *table; /**< Name as the driver gives it; the file; the table as Markdown. */
    char *calibration;               /**< The calibration for a terminal. */
    EchGpuCase *cases;               /**< cases[n_cases] */
    size_t n_cases;
    size_t missed; /**< Cases that missed a goal, or failed. */
    double seconds;
} EchGpuSuite;

/** Called before each step with what it is; may be NULL. */
typedef void (*EchGpuSuiteProgress)(const char *what, unsigned done, unsigned total, void *data);

/** ECH_ERROR_BACKEND without a driver or a GPU, or where calibration fails; a case that fails is a row of the table. */
EchGpuSuite *ech_gpu_suite_run(const EchGpuSuiteOptions *options, EchGpuSuiteProgress progress, void *data, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_gpu_suite_free(EchGpuSuite *suite);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGpuSuite, ech_gpu_suite_free)
