/** @file flow.h
 * From a flat schedule of instructions to the plain arrays of msa.h: values, positions, uses, aliases, requirements.
 *
 * Follows XLA's dataflow and alias analyses in SSA form: tuples, get-tuple-element and bitcasts hand values on; a loop's parameter and result are
 * values of their own unless the loop leaves them as they are; arrays of one buffer form a group.
 */
#pragma once
#include "models/layout/layout.h"
#include "models/place/msa.h"

typedef enum {
    ECH_FLOW_OTHER,
    ECH_FLOW_PARAMETER,
    ECH_FLOW_CONSTANT,
    ECH_FLOW_TUPLE,
    ECH_FLOW_ELEMENT, /**< get-tuple-element */
    ECH_FLOW_BITCAST,
    ECH_FLOW_FORWARD, /**< Result is the operand: all-reduce-done, opt-barrier, ... */
    ECH_FLOW_WHILE,
    ECH_FLOW_CONDITIONAL,
    ECH_FLOW_CALL,
    ECH_FLOW_ASYNC_START,
    ECH_FLOW_ASYNC_UPDATE,
    ECH_FLOW_ASYNC_DONE,
    ECH_FLOW_COPY_START,
    ECH_FLOW_COPY_DONE,
    ECH_FLOW_GATHER_START, /**< all-gather-start, collective-permute-start: the operands, then as many results, then what they need. */
    ECH_FLOW_GATHER_DONE,
    ECH_FLOW_COPY,
    ECH_FLOW_SLICE, /**< slice and dynamic-slice */
} EchFlowOp;

/** The opcode's class by XLA's name. */
EchFlowOp ech_flow_op(const char *opcode);

/** One array of an instruction's result. */
typedef struct {
    EchBytes bytes;    /**< Padded. */
    uint64_t elements; /**< Without padding. */
    uint32_t major;    /**< ech_flow_major() of its layout. */
    int32_t space;     /**< Memory space in the layout. */
    const char *text;  /**< Shape and layout; borrowed; tells whether a copy changes the layout. */
} EchFlowLeaf;

/** One instruction; the index in the array is its step. */
typedef struct {
    const char *name; /**< Borrowed. */
    EchFlowOp op;
    const char *opcode;   /**< XLA's name of it; borrowed. */
    uint32_t computation; /**< Dense number. */
    bool entry;           /**< In the entry computation. */
    bool root;
    const uint32_t *operands; /**< Steps; ECH_PLACE_NONE for one that is not scheduled. Borrowed. */
    uint32_t n_operands;
    const EchFlowLeaf *leaves; /**< Borrowed. */
    uint32_t n_leaves;
    bool tuple;             /**< The result is a tuple even if it has one leaf. */
    uint32_t number;        /**< Of a parameter. */
    uint32_t index;         /**< ELEMENT. */
    const uint32_t *called; /**< Computations: WHILE body, condition; CONDITIONAL branches; CALL and ASYNC_START the one. Borrowed. */
    uint32_t n_called;
    double seconds;
    bool synchronous; /**< SLICE: more than a copy engine can do (ech_flow_slice_is_copy()); never becomes a prefetch. */
} EchFlowInstruction;

/** Length of the most major dimension, in tiles where they cover it: the pieces that a sliced prefetch may be made of. 0 for scalars. @ret_side: length of one
 * piece, in elements of that dimension; NULL if not wanted. */
uint32_t ech_flow_major(const EchLayout *layout, uint64_t *ret_side);

/** Whether a copy engine can make the slice @bounds ("[0:8:1], [16:32]", @n bytes, braces or none around) of @from as @to (shapes with layout): one dimension
 * is cut, without a stride, from the start of a tile on, and the tiles stay (the sublanes may get fewer from the first one on, but not one alone).
 * True where a text cannot be read. Measured on 120 slices, v5e and v6e, libtpu 2026-10. */
bool ech_flow_slice_is_copy(const char *from, const char *to, const char *bounds, size_t n);

/** Two arrays that share one buffer for a reason that the instructions alone do not tell (in-place operands). */
typedef struct {
    uint32_t step_a, leaf_a, step_b, leaf_b;
} EchFlowPair;

/** Where a use, a position or a value lies: step, operand (uses only), leaf of the operand or result. */
typedef struct {
    uint32_t step, operand, leaf;
} EchFlowPlace;

typedef struct {
    EchMsaProblem problem;
    EchFlowPlace *value_places;    /**< [n_values] where defined. */
    EchFlowPlace *position_places; /**< [n_positions] */
    EchFlowPlace *use_places;      /**< [n_uses] */
    uint32_t *leaf_start;          /**< [n_steps + 1] first leaf number of a step. */
    uint32_t *value_of;            /**< Per leaf number: the value there. */
    struct EchFlowTree **trees;    /**< [n_steps] nesting of the result. */
    GPtrArray *all_trees;
} EchFlow;

/** Analyses. Options are defaults; benefits and bytes accessed of uses are 0, nothing is eligible: the caller fills them in. NULL where so many arrays of loops
 * share one place that listing them takes too much memory. */
EchFlow *ech_flow_new(const EchFlowInstruction *instructions, uint32_t n, uint32_t n_computations, const EchFlowPair *pairs,
                      uint32_t n_pairs) G_GNUC_WARN_UNUSED_RESULT;
void ech_flow_free(EchFlow *flow);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchFlow, ech_flow_free)
/** Leaf number inside the result of @step for an XLA index such as "0,1" ("" is the whole); ECH_PLACE_NONE if there is no such array. */
uint32_t ech_flow_leaf(const EchFlow *flow, uint32_t step, const char *index);
/** The XLA index of a leaf, "{0,1}" or "" for a result that is an array; owned by the caller. */
char *ech_flow_index(const EchFlow *flow, uint32_t step, uint32_t leaf) G_GNUC_WARN_UNUSED_RESULT;
/** After ids are set: fills in duration. @table_bytes: bytes of a tuple's pointer table, 0 where the chip has none. */
void ech_flow_clock(EchFlow *flow, const EchFlowInstruction *instructions, EchBytes table_bytes);
/** After eligible and the allowed flags are set: which copies and slices may become prefetches. */
void ech_flow_mark_sync(EchFlow *flow, const EchFlowInstruction *instructions);
/** Requires slow memory for entry parameters, results and constants, and lists the parameters that may be fetched before the program. */
void ech_flow_finish(EchFlow *flow, const EchFlowInstruction *instructions);
