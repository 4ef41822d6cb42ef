/** @file msa.h
 * Memory-space assignment on plain arrays: which values stay in, are copied to or evicted from the fast memory, when and where.
 *
 * The decisions of XLA's TPU compiler: values in order of benefit, each cut into segments between uses; a segment is kept in the fast memory, or
 * prefetched under limits of bandwidth, outstanding copies and space, or read from the slow memory. Knows no programs: flow.h makes its input.
 * Times are steps of the flat schedule unless they are said to be seconds; intervals are closed.
 */
#pragma once
#include "sim/base/units.h"

#define ECH_PLACE_NONE UINT32_MAX

/** What is special about a step. */
typedef enum {
    ECH_MSA_PLAIN,
    ECH_MSA_TRIVIAL, /**< get-tuple-element, tuple, bitcast: no data moves. */
    ECH_MSA_WHILE,
    ECH_MSA_CONDITIONAL,
    ECH_MSA_ASYNC_START, /**< async-start, async-update, copy-start, the start of a collective: its arrays stay where they are. */
    ECH_MSA_ASYNC_DONE,
    ECH_MSA_COPY,  /**< A synchronous copy without change of layout: may become a prefetch. */
    ECH_MSA_SLICE, /**< A synchronous slice: may become a prefetch. */
} EchMsaStepKind;

/** One instruction of the flat schedule. */
typedef struct {
    double seconds; /**< Time with everything in the slow memory; 0 for while, conditional, parameters. */
    double taken;   /**< Share of the slow memory's bandwidth that another core takes meanwhile, 0 to 1: copies find the rest. */
    EchMsaStepKind kind;
    uint32_t computation;    /**< Any number, equal for instructions of one computation. */
    uint32_t while_nest;     /**< While loops around it. */
    uint32_t nest;           /**< While loops and conditionals around it. */
    uint32_t called_from;    /**< while, conditional: earliest step of a called computation; else its own step. */
    uint32_t corrected;      /**< while: step of the body's parameter; conditional: of the earliest branch parameter; else its own step. */
    bool root;               /**< Root of its computation. */
    bool parameter;          /**< A parameter. */
    uint32_t operand;        /**< COPY, SLICE: value it reads. */
    uint32_t latest_operand; /**< COPY, SLICE: latest step of an operand. */
    uint32_t result;         /**< COPY, SLICE: value it makes. */
} EchMsaStep;

/** One value: one array, defined once. */
typedef struct {
    EchBytes bytes;       /**< Padded. */
    uint32_t group;       /**< Values that must share one place (loop-carried, in-place). */
    uint32_t step;        /**< Where it is defined. */
    uint32_t first, last; /**< Its live range; entry parameters live from the first step to the end. */
    int64_t duration;     /**< Length of its life, in allocations and releases (XLA's heap clock): a key of the order. */
    uint64_t id;          /**< Last key of the order. */
    double boundedness;   /**< First key of the order: seconds saved / sqrt(bytes). */
    uint32_t major;       /**< Pieces of the most major dimension (tiles where they cover it), 0 for scalars: sliced prefetch cuts between them. */
    bool eligible;        /**< Entry of its group in the order; the other members are placed with it. */
    bool allowed;         /**< May be in the fast memory at its definition. */
    bool output;          /**< Alive when the program ends. */
} EchMsaValue;

/** One instruction's array that holds a value and is not a mere view (parameter of a loop body, result of a loop, ...). */
typedef struct {
    uint32_t value;
    uint32_t step;
    uint64_t key; /**< Names the instruction and the array of it; any number, unique. */
} EchMsaPosition;

/** What the optimizer of unrolled loops (loop.h) wants for a use. */
typedef enum {
    ECH_MSA_HINT_NONE,
    ECH_MSA_HINT_SLOW,  /**< Neither keep nor fetch. */
    ECH_MSA_HINT_KEEP,  /**< Keep, however long. */
    ECH_MSA_HINT_FETCH, /**< Fetch from preferred_start on. */
} EchMsaHint;

/** One use of a value. */
typedef struct {
    uint32_t value;
    uint32_t step;                   /**< Of the instruction that uses it. */
    uint32_t position;               /**< Position that the use reads, or ECH_PLACE_NONE to find it. */
    double reduction;                /**< Seconds less that the instruction takes with this operand in the fast memory. */
    int64_t accessed;                /**< Bytes the instruction reads of it. */
    uint32_t loop_position;          /**< while: position of the body's parameter for this leaf, or ECH_PLACE_NONE. */
    uint32_t loop_value;             /**< while: the value of the result for this leaf; else ECH_PLACE_NONE. */
    uint32_t first_alias, n_aliases; /**< Slice of aliases[]: positions that must get the same place. */
    uint64_t tuple_key;              /**< A root tuple's use: key of the tuple's array it becomes; else UINT64_MAX. */
    uint32_t branch_value;           /**< conditional: value of the branch's parameter for this leaf, else ECH_PLACE_NONE. */
    uint64_t tag;                    /**< The caller's. */
    EchMsaHint hint;
    int64_t preferred_start; /**< HINT_FETCH: the step after which to start. */
} EchMsaUse;

/** A value must be in the slow memory at a step. */
typedef struct {
    uint32_t value;
    uint32_t step;
} EchMsaRequired;

/** A kernel asks by name that a value be in the fast (or in the slow) memory at its step: where it is defined, or at a use. */
typedef struct {
    uint32_t value;
    uint32_t step;
    bool fast;
} EchMsaColor;

/** An entry parameter that may be fetched before the program begins; best first. */
typedef struct {
    uint32_t value;
    uint32_t first_use, last_use; /**< Steps. */
} EchMsaCandidate;

/** Scratch memory of one step, placed before everything else; all at one offset. */
typedef struct {
    uint32_t step; /**< n_steps: after the program's end. */
    EchBytes bytes;
    int64_t tag; /**< The caller's. */
} EchMsaScoped;

typedef struct {
    EchBytes size;                                      /**< Fast memory to use. */
    EchBytes alignment;                                 /**< Of offsets. */
    double copy_bytes_per_s;                            /**< Of an asynchronous copy. */
    EchBytes picker_bytes;                              /**< Size that stands for every buffer in the choice of distances; 0: each its own. */
    double min_overlap, preferred_overlap, max_overlap; /**< 1, 2, 8. */
    int64_t max_prefetches, max_evictions;              /**< Outstanding at a time; -1 no limit. */
    int64_t while_extra;                                /**< More for the operands of loops. */
    uint32_t max_retries, max_repacks, max_cross_program;
    bool cross_program, cross_program_free, fifo;
    uint32_t max_slices;           /**< 0 or 1: none. */
    EchBytes min_slice_bytes;      /**< Smaller buffers are not sliced. */
    EchBytes preferred_slice;      /**< 0: equal parts of the major dimension; else pieces of this size. */
    uint32_t all_permutations;     /**< Up to this many slices, try all their orders. */
    double inefficient_ratio;      /**< Undo where bytes used < this x bytes copied. */
    bool sync_copies, sync_slices; /**< Turn synchronous copies, slices into prefetches. */
    bool keep_largest_gap; /**< Ours, not XLA's: of the gaps that fit take the one that leaves the largest gap whole, at the end that touches a neighbour. */
    bool on_demand;        /**< Ours: start every copy as late as its time allows. */
    uint32_t depth;        /**< Ours: start every copy this many kernels ahead; 0 as XLA. */
    bool belady;           /**< Ours: the value whose longest wait for a use is shortest comes first. */
} EchMsaOptions;

typedef struct {
    uint32_t n_steps, n_values, n_positions, n_views, n_uses, n_aliases, n_required, n_candidates, n_scoped, n_colors;
    EchMsaStep *steps;
    EchMsaValue *values;
    EchMsaPosition *positions; /**< Ascending by value, then by step. */
    EchMsaPosition *views;     /**< Mere views of values, ascending likewise. */
    EchMsaUse *uses;           /**< Ascending by value. */
    EchMsaPosition *aliases;   /**< Positions, views included. */
    EchMsaRequired *required;
    EchMsaCandidate *candidates;
    EchMsaScoped *scoped;      /**< In the order in which they are placed. */
    EchMsaColor *colors;       /**< In the order in which room is kept for them; what finds none is not served. */
    int64_t *definition_bytes; /**< [n_positions]: bytes written there. */
    EchMsaOptions options;
} EchMsaProblem;

typedef enum { ECH_MSA_PINNED, ECH_MSA_COPIED, ECH_MSA_SLICED, ECH_MSA_MIRRORED, ECH_MSA_PARENT, ECH_MSA_SCOPED } EchMsaKind;

/** One slice of a sliced prefetch. */
typedef struct {
    uint32_t after; /**< Starts after this step. */
    uint64_t offset;
    EchBytes bytes;
} EchMsaSlice;

/** One stay of a value in a memory. */
typedef struct {
    EchMsaKind kind;
    bool fast;                /**< In the fast memory. */
    uint32_t value, position; /**< position ECH_PLACE_NONE: cross-program or scoped. */
    uint64_t offset;
    EchBytes bytes;
    int64_t start, end;              /**< Closed. */
    int64_t copy_after, copy_before; /**< COPIED, SLICED: starts after, done before. */
    bool cross_program;
    uint32_t sync_step; /**< The synchronous copy or slice it replaces, or ECH_PLACE_NONE. */
    uint32_t first_slice, n_slices;
    uint32_t first_use, n_uses; /**< Slice of use_list[]. */
} EchMsaStay;

/** Why a use was not served from the fast memory: bits. */
enum {
    ECH_MSA_WHY_SPACE = 1,  /**< No room. */
    ECH_MSA_WHY_TIME = 2,   /**< Live range too short for a copy, or too long to keep. */
    ECH_MSA_WHY_COPIES = 4, /**< Too many copies under way, or no bandwidth. */
};

typedef struct {
    EchMsaStay *stays;
    uint32_t n_stays;
    EchMsaSlice *slices;
    uint32_t *use_list;
    bool *use_fast;               /**< [n_uses]: reads the fast memory. */
    uint8_t *use_why;             /**< [n_uses]: ECH_MSA_WHY_* of the last try; 0 where none was made. */
    EchBytes prefetched, evicted; /**< Bytes copied in and out. */
    uint32_t repacks, repacks_good, freed;
    EchBytes peak;   /**< Highest end of a stay. */
    uint32_t *order; /**< Values in processing order. */
    uint32_t n_order;
} EchMsaResult;

/** The defaults of the TPU compiler (facts of its own options dump): overlap 1/2/8, 40 outstanding, 2 retries, 4 repacks, 1 cross-program prefetch. */
void ech_msa_options_default(EchMsaOptions *options);
/** Places. Never fails: what does not fit stays in the slow memory. */
EchMsaResult *ech_msa_run(const EchMsaProblem *problem) G_GNUC_WARN_UNUSED_RESULT;
void ech_msa_result_free(EchMsaResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchMsaResult, ech_msa_result_free)
/** Independent check of a result: no overlap in time x offset, aligned, inside the limit. NULL, or what is wrong (owned by the caller). */
char *ech_msa_check(const EchMsaProblem *problem, const EchMsaResult *result) G_GNUC_WARN_UNUSED_RESULT;
