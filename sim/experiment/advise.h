/** @file advise.h
 * What would make it fit? Or, where it fits, what would it cost to need less: each measure that a user could take, tried on the program by the passes, the
 * allocators and the devices that there are, with what it saves and what it costs.
 *
 * A measure is tried with the memory there is as its goal first, then with less where that was not enough (what a pass counts is what is live; a plan or an
 * allocator needs some more). What a measure that is not enough would need is learnt from its plan, or a run in as much memory
 * as it wants.
 */
#pragma once
#include "sim/experiment/sweep.h"

/** A run as the advice tells it. */
typedef struct {
    bool fits;
    bool planned;       /**< What it needs of hbm is what a plan of all its places takes. */
    EchBytes hbm, host; /**< What it needs of each, as `run` has it (ech_run_memory_bytes()). */
    EchTime makespan;   /**< Of a whole step, where the capture tells steps (EchAdvice.n_steps), else of the run; 0 where it is not known. */
    EchTime whole;      /**< Of the run. */
    EchBytes once;      /**< Of what is made again so much is there at once at most, where that makes it fit; else 0. */
    EchBytes early;     /**< What it needs at the least where a compiler brings back early what waited on the host; 0: nothing does that. */
    EchBytes first;     /**< What it needs where a compiler's scheduler is given that before all else; 0: that does not matter. */
    bool narrow; /**< It has room, but not all that a compiler may take ("may_need_hbm_bytes"), or none with the kernels that there are, where a compiler that
                    fuses anew may need less: it is not said to fit. */
} EchAdviceRun;

/** A measure, tried. */
typedef struct {
    const char *name;    /**< "remat", "offload_arguments", "device", "captured" */
    char *label;         /**< What it does, for people. */
    const char *in_code; /**< How such a program says so, or NULL. Interned where it is made up. */
    char *options;       /**< What to add to `echelon run` for these numbers: "--pass remat:memory=24GiB", and the memory they are of, where that is another;
                            NULL: nothing does that. */
    EchAdviceRun run;
    bool donated;  /**< Tried with what results can replace donated, too. */
    bool growing;  /**< Tried with segments of PyTorch's allocator that grow, too. */
    bool device;   /**< Another device, as it is. */
    bool captured; /**< Another capture of the program, with measures of PyTorch's (torch_measures.h). */
    bool several;  /**< On several of the device, where the program is one's alone. */
    bool spread;   /**< Blocks divided anew between devices of one process (spread.h). */
    bool paged;    /**< Unified memory: what has no room is on the host, and comes when it is touched. */
    char *nothing; /**< Why it changes nothing, or NULL. */
    char *error;   /**< Why there is no run, or NULL. */
} EchAdviceRow;

/** One of several devices of its process, as it is. */
typedef struct {
    uint32_t number;
    bool fits;
    EchBytes hbm;
    EchBytes beside; /**< Reserved by its allocator at the most, beyond that. */
} EchAdviceDevice;

typedef struct {
    char *title, *device, *summary; /**< summary: of the device. */
    EchAdviceDevice *devices;       /**< devices[n_devices] that one process runs on, whose runs are all of them, and hbm the fullest's; NULL and 0: one. */
    size_t n_devices;
    char **given;                /**< Edits and passes that hold for all runs, NULL-terminated. */
    EchBytes available, context; /**< Of hbm: what allocators and plans may have; taken by the context of a process, beside that. */
    EchAdviceRun base;           /**< As it is, in as much memory as it wants. */
    char *kernel;                /**< Of a kernel without room on chip: what it keeps, what would make room; or NULL. Rows are of hbm alone then. */
    size_t n_steps;              /**< Whole steps that the capture tells; times are of one of them. 0: of the run. */
    size_t number;               /**< Of them the one that times are of, from 1: the last, or the last whose batch is as most are. */
    char *step;                  /**< From which mark it goes, "Optimizer.step#AdamW.step to the next"; NULL where n_steps is 0. */
    const char *per;             /**< What times are of: "a step", or "in all" where nothing tells steps. */
    const char *margin;          /**< ech_remat_margin. */
    bool live_fits;              /**< What is live at the fullest moment has room. Where it does not fit all the same, that is fragmentation. */
    char *undonated;             /**< Arguments whose places results could take and do not, quoted, in a list; NULL: none, or none that is named. */
    bool is_graph, of_pairs;     /**< Its rows are nodes of one graph; all are compared with all (EchBatch). */
    uint64_t batch;              /**< Its rows; 0: not told, or those of a graph. */
    uint64_t most_batch;         /**< Rows of the largest that has room as it is; 0: none has, or it is not known. */
    bool more_batch;             /**< More than that may have room, which was not tried. */
    uint64_t row_parts;          /**< Where a batch of one row has none: 2, 4 or 8, of which one part of that row has; 0: an eighth has none, or rows have. */
    EchAdviceRun most;           /**< With those; where none has room of a batch of one row, of that part of a row, or of an eighth of it. */
    char *blocks;                /**< Paths of the modules that a PyTorch program repeats, "encoder.*+decoder.*"; or NULL. */
    bool checkpointed;           /**< A JAX program that makes activations again by itself (jax.checkpoint). */
    bool forward;                /**< A JAX program without a backward pass. */
    bool keeps;                  /**< A PyTorch program keeps what a backward pass takes, and none follows. */
    bool holds_alone;            /**< It tells who holds memory, and nothing that computes. */
    bool serves;                 /**< A server, with its cache of keys and values. */
    char *to_capture;            /**< Measures that another capture would tell, "autocast, compile" (--also); or NULL. */
    char **holds;                /**< What it takes and holds at its fullest, in sentences, NULL-terminated. */
    EchAdviceRow *rows; /**< rows[n]: those that fit first, quickest first; then those that may, larger devices, unified memory, those that do not; then those
                          without effect. */
    size_t n;
} EchAdvice;

/** Tries; @experiment has one case and no search. @memory: how much of hbm it may take ("24GiB"; NULL: the device's). @also: other captures of the program,
 * which count as measures, NULL-terminated (NULL: none). @jobs, @stop, @progress: as ech_sweep_run() has them. Errors of the run as it is.
 * ECH_ERROR_UNSUPPORTED where the device has no hbm, or another memory is what is short. */
EchAdvice *ech_advise(EchExperiment *experiment, const char *memory, const char *const *also, unsigned jobs, const volatile sig_atomic_t *stop,
                      EchSweepProgress progress, void *data, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_advice_free(EchAdvice *advice);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAdvice, ech_advice_free)
/** Whether it fits as it is or with one of the measures, but for unified memory. */
bool ech_advice_helps(const EchAdvice *advice);
/** For a terminal of so many columns (0: ECH_TEXT_COLUMNS). */
GString *ech_advice_text(const EchAdvice *advice, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
/** {title, trace, device, given, hbm_available_bytes, step: {number, from} where the capture tells steps, fits, hbm_bytes, host_bytes, makespan_ps, batch:
 * {rows, most_rows, fits, hbm_bytes, host_bytes, makespan_ps} where rows are told, kernel where there is, to_capture likewise, keeps_for_backward where it is
 * so, measures:
 * [{name, does, options, donated, growing, fits, hbm_bytes, host_bytes, makespan_ps, relative, why, error}]}; makespan_ps and relative (to the run as it is)
 * are null where they are not known, why and error where there is none. */
JsonNode *ech_advice_json(const EchAdvice *advice) G_GNUC_WARN_UNUSED_RESULT;
