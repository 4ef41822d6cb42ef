/** @file gpu_suite_private.h
 * What the files of the GPU suite share: gpu_suite.c goes through the stages, gpu_suite_traces.c makes the cases' traces, gpu_suite_table.c keeps and prints
 * what was found, gpu_suite_child.c runs a stage in a process of its own.
 */
#pragma once
#include "sim/experiment/gpu_suite.h"

#include <sys/types.h>

/* What a device file says of the GPU that traces are made for. */
typedef struct {
    EchBytes available;
    double copy_rate, read_rate, matrix_rate; /* A second */
} EchGpuMeasure;

/* ---- gpu_suite_traces.c ---- */

/** A case. */
typedef struct {
    const char *name;
    EchTrace *(*make)(const EchGpuMeasure *gpu, uint64_t which, GError **error);
    uint64_t which;                                  /**< Given to make. */
    const char *allocator, *options;                 /**< Of ech_validate_cuda; NULL: none. */
    double goal_copies, goal_makespan, goal_kernels; /**< Of EchGpuCase. */
} EchGpuRecipe;
/** The most valuable first; recipes[ech_gpu_n_recipes]. */
extern const EchGpuRecipe ech_gpu_recipes[];
extern const size_t ech_gpu_n_recipes;
/** The trace of a case, to the measure of the GPU that the device file @device_path describes. */
EchTrace *ech_gpu_make_trace(const EchGpuRecipe *recipe, const char *device_path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* ---- gpu_suite_table.c ---- */

/** FOLDER/NAMESUFFIX; owned by the caller. */
char *ech_gpu_file(const EchGpuSuiteOptions *options, const char *name, const char *suffix) G_GNUC_WARN_UNUSED_RESULT;
bool ech_gpu_write_row(const EchGpuSuiteOptions *options, const EchGpuCase *row, GError **error);
/** What an earlier call, or a child, has found of the case; false where there is nothing. */
bool ech_gpu_read_row(const EchGpuSuiteOptions *options, EchGpuCase *row);
/** Rows measured on another GPU, or before the calibration was made anew, are no rows of this table. */
void ech_gpu_forget_rows(const EchGpuSuiteOptions *options);
/** Whether it failed, or missed one of its goals. */
bool ech_gpu_misses(const EchGpuCase *row);
/** A few words for the terminal, and the whole table as Markdown; owned by the caller. */
char *ech_gpu_outcome(const EchGpuCase *row) G_GNUC_WARN_UNUSED_RESULT;
char *ech_gpu_table(const EchGpuSuite *suite, const EchGpuSuiteOptions *options) G_GNUC_WARN_UNUSED_RESULT;

/* ---- gpu_suite_child.c ---- */

typedef bool (*EchGpuWork)(void *data, GError **error);
/** How long a child may take: in all, and, where it writes a file whenever a step begins, until it is written again. */
typedef struct {
    double seconds, step_seconds;
    const char *step; /**< NULL: no steps. */
} EchGpuLimit;
/** True if @work ended well in a child process within @limit; else its error, or ECH_ERROR_BACKEND saying how it died. */
bool ech_gpu_in_child(EchGpuWork work, void *data, const EchGpuLimit *limit, GError **error);
/** A process that keeps the driver started: without one, every stage would wait for the GPU to be set up anew. */
pid_t ech_gpu_start_keeper(void);
void ech_gpu_stop_keeper(pid_t keeper);
