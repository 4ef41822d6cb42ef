/** @file alloc_study.h
 * What `echelon alloc` finds out: the allocations of one file, replayed under one allocator after the other, without a clock.
 *
 * Reading makes a study; every allocator makes a row of it; a study with its rows is written as text or as JSON.
 */
#pragma once
#include "models/alloc/report.h"
#include "sim/import/alloc_events.h"
#include "sim/program/program.h"

/** The allocations of one memory of one file. */
typedef struct {
    char *format;          /**< Name of the reader that took the file. */
    EchTrace *trace;       /**< For names and stacks; NULL: the file was text of events. */
    EchDiag *diag;         /**< What reading dropped or repaired. */
    GArray *events;        /**< EchAllocEvent; what is resident at the start comes first as allocations. */
    GArray *planned;       /**< The same without what is taken beside the allocator. */
    GArray *after;         /**< events without what is resident in the allocator; NULL where start is. */
    EchAllocStart *start;  /**< What the recorded allocator held when the recording began, or NULL. */
    GArray *refusals;      /**< EchRefusal: requests that the recorded allocator refused; NULL without a trace. */
    const char *memory;    /**< Whose allocations these are; borrowed from the trace, or NULL. */
    char *others;          /**< Names of other memories with buffers, "a, b", or NULL. */
    EchBytes held;         /**< The most that the recorded allocator held, or what it held at the end; 0: unknown. */
    EchBytes had;          /**< What it could have had at most, as far as the recording tells; 0: unknown. */
    EchBytes direct;       /**< Taken beside it at the most. */
    bool limited;          /**< A limit refused its requests, not the device. */
    EchAddressOrder order; /**< Of the device's addresses, as recorded. */
    bool of_pytorch;       /**< Captured from PyTorch. */
    const char *release;   /**< "release:2.15" for rows of PyTorch that say none: the one that a snapshot's addresses agree with. NULL: none. Static. */
    const char *released;  /**< That in words, "2.13 or later", or NULL. Static. */
    bool is_program;       /**< Lowered from an XLA program. */
    bool temporaries;      /**< Programs: without arguments and constants. */
    EchPlatform platform;
    EchBytes resident;         /**< Programs: bytes of arguments and constants. */
    EchBytes compiler_bytes;   /**< Programs: all that the compiler assigned in this memory; 0: unknown. */
    EchBytes capacity;         /**< Of the device memory that allocators are given. */
    EchBytes context;          /**< That the process has besides; 0: not known. */
    const char *capacity_from; /**< What says so, as words behind the number; NULL: the user. Borrowed. */
} EchAllocStudy;

/** How to read. NULL: as found. */
typedef struct {
    const char *format; /**< Reader to take instead of looking at the bytes. */
    const char *memory; /**< Which of the trace's memories; else the one that ran out, else the main one. */
    const char *device; /**< Device whose memory is the capacity, and which a compiled program may need. */
    bool temporaries;   /**< Only what is allocated while the trace runs. */
    EchBytes capacity;  /**< Of the device memory; 0: the device's, else what the file tells, else 80 GiB. */
} EchAllocStudyOptions;

/** Reads a file (or a program's folder). ECH_ERROR_CONFIG for a memory or device there is not, G_FILE_ERROR, errors of the readers. */
EchAllocStudy *ech_alloc_study_read(const char *path, const EchAllocStudyOptions *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_alloc_study_free(EchAllocStudy *study);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocStudy, ech_alloc_study_free)

/** The allocator that a captured trace's allocations were made by, with its settings and, as far as recorded addresses tell it, its release
 * ("pytorch:release:2.15,expandable_segments:True"; "jax" for XLA's BFC): what it is replayed under where nothing else is said. NULL where the trace does not
 * tell. *@ret_released: that release in words, "2.13 or later", or NULL; static. Tries settings on snapshots, which takes a multiple of an allocator's time. */
char *ech_recorded_allocator(const EchTrace *trace, const char **ret_released) G_GNUC_WARN_UNUSED_RESULT;

/** What a user of such a file would compare, the recorded allocator first (none for sums): specs, NULL-terminated, owned by the caller. @fresh: see
 * EchAllocRowOptions. May try several settings, which takes a multiple of a row's time; once *@stop is not 0 (NULL: never), no more of them. */
char **ech_alloc_study_specs(const EchAllocStudy *study, bool fresh, const volatile sig_atomic_t *stop) G_GNUC_WARN_UNUSED_RESULT;
/** Bytes that no device can do without: the most that live together, as asked for, those beside the allocator among them. */
EchBytes ech_alloc_study_bound(const EchAllocStudy *study);
/** Whether the file tells sums, not allocations and their places: then no allocator can be told from another by it. */
bool ech_alloc_study_sums_only(const EchAllocStudy *study);
/** Whether the smallest capacity is worth searching unasked: for programs and captures of PyTorch that are not long. */
bool ech_alloc_study_searches(const EchAllocStudy *study);

/** One allocator's results. */
typedef struct {
    char *spec; /**< As given. */
    EchAllocOutcome outcome;
    EchAllocReport *report; /**< Or NULL. */
    GArray *own;            /**< EchAllocStat: what the framework counts under its own names. */
    char *note;             /**< What a reader of its placements must know, or NULL. */
    char *fault;            /**< Why it failed for a reason that is not memory, or NULL. */
    EchBytes smallest;      /**< Smallest capacity at which nothing fails; 0: not searched, or none. */
    bool is_static;         /**< Placed in advance, all lives known. */
    bool recorded;          /**< Began from the recorded start state. */
    uint64_t compared;      /**< recorded: allocations whose recorded address is known. */
    uint64_t equal;         /**< recorded: those placed there here too. */
    char *difference;       /**< recorded: the first one that was not, or NULL. */
    char *settings;         /**< recorded: settings taken from the recording, or NULL. */
    const char *release;    /**< recorded: of the study's released. */
    uint32_t served;        /**< Requests that the recorded allocator refused and this one granted. */
    EchFit last_fit;        /**< Of the last of those requests. */
    const GArray *events;   /**< What it replayed: the study's events or after. */
} EchAllocRow;

/** What to find out for a row beyond what its replay tells. */
typedef struct {
    const char *placements;                          /**< Write where each allocation went (placements_csv.h) to this file, or NULL. */
    bool report;                                     /**< Explain fragmentation. */
    unsigned n_samples;                              /**< report: of the time series. */
    bool search;                                     /**< Search the smallest capacity. */
    bool fresh;                                      /**< Begin empty, not from the start state that the recording implies. */
    void (*progress)(uint64_t done, uint64_t total); /**< Now and then, and at the end; or NULL. */
    const volatile sig_atomic_t *stop;               /**< Once not 0, nothing more is searched; NULL: never. */
} EchAllocRowOptions;

/** Replays the study under @spec: an online allocator's (alloc.h), "plan", "plan:PLANNER" (plan.h), or "compiler" for the program's own assignment. That
 * something does not fit is a result. ECH_ERROR_CONFIG where the spec makes no sense, G_FILE_ERROR. The study must outlive the row. */
EchAllocRow *ech_alloc_row_new(const EchAllocStudy *study, const char *spec, const EchAllocRowOptions *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_alloc_row_free(EchAllocRow *row);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocRow, ech_alloc_row_free)

/** How to write. */
typedef struct {
    unsigned top;     /**< Segments, blocks and lines to name. */
    unsigned columns; /**< Text: of the terminal; 0: no limit. */
    bool searched;    /**< Rows have a smallest capacity. */
    char *left_out;   /**< Specs that an interrupt came before, "a, b"; NULL: none did. */
    bool interrupted; /**< It came before all was tried or searched. */
} EchAllocStudyOutput;

/** For a terminal; ends with a newline. @rows: EchAllocRow. @path names the file. */
GString *ech_alloc_study_text(const EchAllocStudy *study, const GPtrArray *rows, const char *path, const EchAllocStudyOutput *output) G_GNUC_WARN_UNUSED_RESULT;
/** One JSON document; ends with a newline. Owned by the caller. */
char *ech_alloc_study_json(const EchAllocStudy *study, const GPtrArray *rows, const EchAllocStudyOutput *output) G_GNUC_WARN_UNUSED_RESULT;
