/** @file report.h
 * What a run says: for a terminal, as JSON, as timelines for Perfetto, as a profile for pprof, as one HTML page.
 *
 * Writers are pure functions of an EchReport: same run, same bytes. Times are integer picoseconds and sizes bytes unless a name says otherwise.
 *
 * The files: report.c, critical.c, holding.c, basis.c answer what several writers ask; summary.c writes for a terminal (text.h), run_json.c JSON, chrome.c and
 * perfetto.c timelines (timeline.h), pprof.c profiles, html.c a page (details.c). Parts of theirs: counters.h, origins.h, padding.h, stalls.h, steps.h,
 * transfers.h, program_info.h. Of several runs tell explain.h, table.h and ranks.h (rank_times.h); of a trace without a run writers.h (recorded.c, chakra.c),
 * placements_csv.h and minimalloc_csv.h.
 */
#pragma once
#include "models/kernel/gpu.h"
#include "models/device/device.h"
#include "sim/base/diag.h"
#include "sim/program/program.h"
#include "sim/replay/replay.h"
#include "sim/trace/trace.h"

#include <json-glib/json-glib.h>

/** Everything a writer may look at; all borrowed. */
typedef struct {
    const char *title;         /**< What the run is called: a file's name or an experiment's title. */
    const char *trace_path;    /**< As given. */
    const char *format;        /**< Of the captured file. */
    const EchTrace *trace;     /**< What was replayed. */
    bool is_step;              /**< That is a step of a longer trace. */
    const EchProgram *program; /**< Where it was lowered from, or NULL. */
    const EchDevice *device;
    const EchRun *run;
    const char *refusal;         /**< What the program's compiler said when it refused it, or NULL. */
    const EchDiag *import_diag;  /**< Or NULL. */
    const EchDiag *pass_diag;    /**< Remarks of passes and lowering, or NULL. */
    const char *const *passes;   /**< Canonical specs, NULL-terminated, or NULL. */
    EchBytes goal;               /**< What passes were asked to bring the device's memory down to; 0: nothing. */
    const char *const *settings; /**< PATH=VALUE edits in force, NULL-terminated, or NULL. */
    const char *words;           /**< Of the command line that asked for it, as `advise` takes them, where it said more than trace and device; or NULL. */
    struct {
        const char *allocator; /**< Of the device's memory where it is the one that was recorded, or NULL. */
        const char *release;   /**< Its release in words ("2.13 or later"), or NULL. */
        EchBytes peak;         /**< The most that it held in the recording, where that is what was replayed; 0: unknown. */
    } recorded;
    bool brief;        /**< For a caller that asks no single kernel: ech_report_json() leaves out where each spends its time. */
    JsonObject *plain; /**< The same without what the command line changed, as ech_report_json() tells it, or NULL. */
} EchReport;

/** What the program's assignment comes to, or that of the program that the trace was exported from; false where there is none. */
bool ech_report_memory_needs(const EchReport *report, EchMemoryAnalysis *ret);
/** Space by space, what an XLA program's assignment needs of what the runtime hands out. */
typedef struct {
    const char *memory; /**< Name of the device's memory; borrowed. */
    EchBytes needed, available;
    bool anew; /**< By a plan that was made after passes changed the program. */
} EchFitRow;
/** Where it fits, and passes have said how much more than their own figure of the device's memory a compiler may take (sim/pass/remat.c, offload.c): how much
 * that comes to, if that is more than there is; else 0. */
EchBytes ech_report_may_need(const EchReport *report);
/** What the device holds at the least where a compiler brings back early, and whole, what an offload lets wait on the host; 0 where none said so. */
EchBytes ech_report_fetched_early(const EchReport *report);
/** What pass schedule says that the device holds where the compiler's scheduler is given what is brought before all else; 0 where that does not matter. */
EchBytes ech_report_brought_first(const EchReport *report);
/** How a program says that it is not. */
#define ECH_BRING_LATE "jax.jit(step, compiler_options={\"xla_memory_scheduler\": \"dfs\"})"
/** Of a run that fits only because pass remat makes again: how much of that is there at once at most, which a block of the program's own (jax.checkpoint) may
 * exceed; else 0. */
EchBytes ech_report_again_at_once(const EchReport *report);

/** How much of the device's memory is needed, if that is more than passes were asked to leave (EchReport.goal); else 0. */
EchBytes ech_report_beyond_goal(const EchReport *report);

/** What settles on @device whether a program may or does fit: its compiler, asked for the measure, told as a sentence with the command. g_free. */
char *ech_report_how_to_know(const char *device) G_GNUC_WARN_UNUSED_RESULT;
/** Rows of spaces the device has; NULL and 0 without a program with an assignment, or a trace made of one. g_free the rows. */
EchFitRow *ech_report_fit_rows(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Memory by memory, the most that a run takes of it: a plan's extent, not the sum of what shares places in it; where it stopped, with what it asked for then;
 * of a program no less than its assignment needs. */
typedef struct {
    const char *memory; /**< Borrowed. */
    EchBytes bytes, available;
    bool planned; /**< A compiled program's: a row of ech_report_fit_rows() says so. */
    bool anew;    /**< EchFitRow.anew */
    bool fits;
} EchMemoryUse;
/** Rows of the memories that the run has and takes anything of, in its order; memories without a limit are left out. g_free. */
EchMemoryUse *ech_report_uses(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** The compiler refused the program for want of a memory other than HBM: for a kernel's own windows and scratch, say, which no list of values shows. (Whether
 * HBM suffices is counted from the program itself, so that a device with more of it can be asked for; what it cannot compile at all is no want of memory.) */
bool ech_report_refused(const EchReport *report);
/** A program that ran out of memory on a device that was not there, and stopped: on a device of no more memory it does not fit, as long as no pass has taken
 * anything out of it. On a larger one the run is of the program up to there. */
typedef struct {
    EchBytes asked, live, held, left; /**< What was refused; in use, held by the allocator and free on the device then. */
    EchBytes capacity;                /**< Of the device that was not there. */
    char *line;                       /**< "model.py:29" that asked, or NULL. Owned. */
    const char *said;                 /**< A server's words, which asked for nothing, but found too little left for its cache; else NULL. Borrowed. */
    bool here;                        /**< It is said of the report's device. */
} EchRanOut;
/** False, and *ret untouched, where it did not, or where the program went on. */
bool ech_report_ran_out(const EchReport *report, EchRanOut *ret);
/** What is said of a program that ran out of memory on a device that was not there, and went on, one sentence; NULL where no kernel ran behind a refusal. Owned
 * by the caller. */
char *ech_report_went_on(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
/** What is said of a recorded program that ran out of memory and did nothing behind that; NULL where it did not. Owned by the caller. */
char *ech_report_refused_when_recorded(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
/** A kernel of the program's own (Pallas) that keeps more of vector memory than it may. */
typedef struct {
    EchId instruction;
    EchBytes kept;  /**< By its code. */
    EchBytes limit; /**< What it asked for or, where it did not, what the compiler gives each. */
    EchBytes said;  /**< What the compiler said that it needs, up to where it gave up; 0: no compiler did. */
} EchCrowded;
/** The one that the compiler refused or, where no compiler has seen the program, that is furthest beyond its limit; false where there is none. */
bool ech_report_crowded(const EchReport *report, EchCrowded *ret);
/** What it keeps, array by array, and what would make room for it. */
void ech_report_append_crowded(GString *out, const EchReport *report, const EchCrowded *crowded, unsigned columns);
/** The replay fitted, every row fits, no compiler refused it, and no kernel is crowded. */
bool ech_report_fits(const EchReport *report);

/** What a resource of the run is called for people: "hbm port", "host link to device", "ici link out", "matrix unit"; "overhead" for none. Owned by
 * the caller. */
char *ech_report_resource_name(const EchReport *report, uint32_t resource) G_GNUC_WARN_UNUSED_RESULT;
/** What a direction of a link is called, behind its name and "link": 0 "to device", 1 "from device", 2 "both ways"; of a link between devices of
 * one kind (@peers) "out", "in", "both ways". */
const char *ech_report_link_way(bool peers, unsigned way);
/** The link joins devices to one another (ICI, NVLink), not a device to its host. False for an unknown name. */
bool ech_report_link_peers(const EchDevice *device, const char *name);

/** What bounds the operations of a run, in words. */
typedef struct EchBounds EchBounds;
EchBounds *ech_report_bounds_new(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
void ech_bounds_free(EchBounds *bounds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchBounds, ech_bounds_free)
/** All words there are for it, NULL-terminated; borrowed. */
const char *const *ech_bounds_words(const EchBounds *bounds);
/** Which of them most of the span's time is due to; -1 for what takes no time or was never priced. */
int ech_bounds_of(const EchBounds *bounds, const EchSpan *span);

/** A share of the critical path: the chain of operations, each started by the end of the one before, that leads to the end of the run. */
typedef struct {
    char *name; /**< What bounded them: one of ech_bounds_words(), or "idle". A kernel that the model knows the inside of has several shares. */
    EchTime time;
} EchShare;
/** Shares of the critical path, largest first; they add up to the makespan. Free with ech_shares_free. */
EchShare *ech_report_critical_path(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
void ech_shares_free(EchShare *shares, size_t n);

/** The run's figures of a memory, or NULL. Borrowed. */
const EchMemoryRun *ech_report_memory(const EchRun *run, const char *name);
/** Those of the device's HBM, or NULL. Borrowed. */
const EchMemoryRun *ech_report_main_memory(const EchReport *report);
/** Whether what precedes the step that is replayed alone has no room. */
bool ech_report_failed_before(const EchReport *report);
/** Of unified memory that does not all have room on the device: bytes used in parts, of which it is not known when they are used, where they are as much as to
 * matter beside what has none; else 0. */
EchBytes ech_report_untold(const EchMemoryRun *memory);
/** Whether an allocation of @memory (or NULL) is live at @time; at the time of the memory's peak: at the peak itself, of all that happens in that instant. */
bool ech_report_live(const EchMemoryRun *memory, const EchPlaced *placed, EchTime time);
/** Buffers live in a memory at a time, largest first; g_free. Bytes are what the allocator gave (asked for where it only counts). */
EchHolder *ech_report_holders(const EchReport *report, const char *memory, EchTime time, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Buffers live where the replay failed, largest first: all of them where the run tells who they were, else the 16 largest; g_free. */
EchHolder *ech_report_failure_holders(const EchReport *report, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Buffers of one name: layers share a line of Python, Kineto's allocations their stack. */
typedef struct {
    char *name;       /**< Theirs; without a number where they are several. */
    EchId buffer;     /**< The largest of them, the first of equals. */
    EchBytes bytes;   /**< Of all of them. */
    uint64_t buffers; /**< How many. */
} EchHolderGroup;
/** Holders of one name together, most bytes first; what has neither name nor stack is told as in use before the recording, or as without a name. Free
 * with ech_holder_groups_free. */
EchHolderGroup *ech_report_holder_groups(const EchReport *report, const EchHolder *holders, size_t n, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
void ech_holder_groups_free(EchHolderGroup *groups, size_t n);
/** Of PyTorch's, which module that is called outside of others uses how much of the weights among @holders ("FluxTransformer2DModel 4.76 GiB, T5EncoderModel
 * 2.40 GiB"), most bytes first, without trifles; NULL where no two do. Owned by the caller. */
char *ech_report_parts(const EchReport *report, const EchHolder *holders, size_t n) G_GNUC_WARN_UNUSED_RESULT;

/** Bytes that a memory holds for one purpose. */
typedef struct {
    char *name; /**< "arguments", "temporaries in use", "kept for later use", "arriving from host", "back from host before its use", "leaving for host"... */
    EchBytes bytes; /**< Places shared by several buffers of a plan count once. */
    uint64_t buffers;
    EchId largest[4]; /**< Its largest buffers, largest first; ECH_NONE behind the last. */
} EchHolding;
/** What a memory holds at a time, by purpose, largest first. Free with ech_holdings_free. */
EchHolding *ech_report_holdings(const EchReport *report, const char *memory, EchTime time, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
void ech_holdings_free(EchHolding *holdings, size_t n);

/** What the kernels of a program keep of an on-chip memory for themselves, besides the values placed there. */
typedef struct {
    EchBytes kept;      /**< By the compiler, for all of them: the device's kernel_reserved. */
    EchBytes most;      /**< Of the largest. */
    const char *kernel; /**< Its name; borrowed from the program, or NULL. */
    uint64_t kernels;   /**< That have any. */
    EchBytes spilled;   /**< Beyond what is kept, summed over kernels. */
    EchBytes results;   /**< Of kernels that no compiler has seen, the most that one may take with registers that are spilled, where that is beyond kept. */
} EchWindows;
/** Zeros where there is no program, or the memory has no number in it. */
EchWindows ech_report_windows(const EchReport *report, const char *memory);

/** Operations of one kind, name, class and source of their times together: layers of a network share their names, a library's calls may differ. */
typedef struct {
    const char *name; /**< Borrowed from the trace. */
    EchOpKind kind;
    EchTime time; /**< Sum over its spans, skipped iterations included. */
    uint64_t count;
    size_t n_alike;                     /**< Names that were taken together, of which the one that takes longest is told; 1: its own alone. */
    EchPriceSource price;               /**< Where its time came from. */
    uint8_t kernel_class, kernel_bound; /**< By a GPU's kernel model: EchGpuClass (0: not by it) and EchGpuBound, of its longest span. */
    const char *stack;                  /**< Of its first span; borrowed from the trace. */
    bool one_asker;                     /**< The first line of all its spans' stacks is the same. */
} EchNameTime;
/** Kernels, copies and collectives by name, longest first, at most @most; g_free. */
EchNameTime *ech_report_longest(const EchReport *report, size_t most, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** The first @most of times[n], which are all of ech_report_longest(); but where those take less than half of the time of all, names that differ in the number
 * they end in alone ("fusion.577") are taken together if they come from one line of source: those of the layers of an unrolled program. g_free. */
EchNameTime *ech_report_longest_alike(const EchNameTime *times, size_t n, size_t most, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Length of @name without such a number: "fusion" of "fusion.577". */
size_t ech_report_stem(const char *name);

/** What the kernel times of a program rest on, as sums over its spans, skipped iterations included. */
typedef struct {
    bool pytorch;                       /**< Of PyTorch's own kernels: GPU. */
    bool by_hand;                       /**< Of a program in CUDA C++: GPU, and pytorch. */
    bool transforms;                    /**< FFTs among them: GPU. */
    bool tpu;                           /**< Of a TPU: the members that say so, and roofline and unknown. */
    EchTime compiler;                   /**< TPU: the compiler's own estimates, as they are or carried to the hardware or another chip. */
    EchTime held, rough, untested;      /**< TPU: by the kernel model alone, by EchKernelTrust. */
    EchTime all;                        /**< Of all kernels below. */
    EchTime model[ECH_GPU_N_BASES];     /**< GPU: by the kernel model, by EchGpuBasis. */
    EchTime code;                       /**< By their own code. */
    EchTime roofline, unknown;          /**< A plain roofline; only a start. */
    EchTime classes[ECH_GPU_N_CLASSES]; /**< Of what is assumed, by EchGpuClass. */
} EchBasis;
/** False, and *ret untouched, where the report is of no XLA program and of no capture without a GPU, or no kernel of it took time by a model of ours. */
bool ech_report_basis(const EchReport *report, EchBasis *ret);
/** The same for a TPU program that nothing has replayed: its kernels one after the other on @device, loops as often as they run, priced as a run would.
 * @ret_kernels: how many of the schedule were priced. False, and *ret untouched, for other programs and devices. */
bool ech_report_program_basis(const EchProgram *program, const EchDevice *device, EchBasis *ret, uint64_t *ret_kernels);
/** Adds `kernel_time_basis` to the open object. */
void ech_report_add_basis(JsonBuilder *builder, const EchBasis *basis);
/** "Of the kernels' time 55 % is products, ..."; owned by the caller. */
char *ech_report_basis_text(const EchBasis *basis) G_GNUC_WARN_UNUSED_RESULT;

/** Of a stack, whose first line may name an operation: the innermost frame of the program's own source (not of an installed package), as "model.py:29". Of what
 * PyTorch runs only so far as the innermost module that is not PyTorch's own reaches, else that module's line in a library ("modeling_llama.py:123"); of what
 * is in no module, the innermost line that is not PyTorch's. Owned by the caller, NULL where there are no frames. */
char *ech_report_source_line(const char *stack) G_GNUC_WARN_UNUSED_RESULT;
/** A name for a buffer that a reader can find again: its own, or its shape and number. Owned by the caller. */
char *ech_report_buffer_name(const EchTrace *trace, EchId buffer) G_GNUC_WARN_UNUSED_RESULT;

/** "It may fit.", what the terminal summary begins with. */
const char *ech_report_verdict(const EchReport *report);
/** Whether an allocator's pool is taken whole at the start: what it holds says nothing of what is needed. @allocator: its spec. */
bool ech_report_is_taken_whole(const char *allocator);
/** "If it fitted, it would take", what it begins to tell of the time with. */
const char *ech_report_time_verdict(const EchReport *report);
/** What the terminal summary says of that verdict beside the figures: who reserves what, what was refused when it was captured. Sentences; owned by the
 * caller. */
char **ech_report_said(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
/** What a share of the critical path means whose name does not say it; NULL for others. Static. */
const char *ech_report_bound_meaning(const char *bound);
#define ECH_BOUND_HOST "the host's launches"
/** "a link in use": what operations waited for. @launches: the host asks for kernels one after the other, else it does as recorded. */
const char *ech_report_wait_words(EchWait wait, bool launches);
/** The terminal summary in lines of at most @columns (0: for a file or a pipe) where that can be; ends with a newline. */
GString *ech_report_summary(const EchReport *report, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
/** Of it whether it fits, what it needs, and where it does not what held the memory and what to do; and what memories hold at their fullest. */
void ech_report_append_fit(GString *out, const EchReport *report, unsigned columns);
void ech_report_append_memories(GString *out, const EchReport *report, unsigned columns);
/** The run as one JSON object with the names of the documentation. */
JsonNode *ech_report_json(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;

/** Chrome's JSON timeline (Perfetto, chrome://tracing and TensorBoard read it): a track per queue, per link direction, a counter per memory,
 * flows from copies to what waited for them. */
GString *ech_report_chrome(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
/** The same as Perfetto's own protobuf, names interned. */
GByteArray *ech_report_perfetto(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
typedef enum { ECH_PPROF_TIME, ECH_PPROF_MEMORY } EchPprofKind;
/** A pprof profile, not compressed: time by operation, or bytes held at each memory's peak by buffer. */
GByteArray *ech_report_pprof(const EchReport *report, EchPprofKind kind) G_GNUC_WARN_UNUSED_RESULT;
/** What the HTML page draws: spans, series, blocks, waits, as one compact JSON object. At most @max_spans spans (the longest) and as many blocks. */
GString *ech_report_details(const EchReport *report, size_t max_spans) G_GNUC_WARN_UNUSED_RESULT;
/** The HTML page around a run's JSON and its details (both JSON texts). */
GString *ech_report_html(const char *run_json, const char *details_json) G_GNUC_WARN_UNUSED_RESULT;
/** The HTML page of a sweep, as ech_sweep_json() has it: a list "points" is there. It holds what it draws of each run, not the run. */
GString *ech_report_sweep_html(JsonObject *sweep) G_GNUC_WARN_UNUSED_RESULT;
/** Of a run what ech_report_table(), ech_explain_steps() and that page look at, a small part; owned by the caller. */
JsonObject *ech_report_table_run(JsonObject *run) G_GNUC_WARN_UNUSED_RESULT;
/** gzip of some bytes, without a time or a name in it. */
GBytes *ech_report_gzip(const void *data, size_t n) G_GNUC_WARN_UNUSED_RESULT;
