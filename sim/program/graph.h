/** @file graph.h
 * A program that has no schedule yet, while it is changed: instructions without an order but that of their operands, in lists by computation. Made from a
 * program with its calls inlined and equal instructions merged; written back as a program of the live ones. Ids index nodes and computations; none is ever
 * taken away. Shapes are those of the program being made.
 */
#pragma once
#include "sim/program/private.h"

typedef struct {
    const char *name, *thread;
    EchId root;
    GArray *order; /**< EchId: every instruction, operands first but for what was added later. */
    bool body;     /**< Of a fusion, a reducer or an asynchronous computation: none of the passes looks inside. */
} EchGraphComputation;

/** Who reads a node: as its operand number @operand. */
typedef struct {
    EchId user;
    uint32_t operand;
} EchGraphUse;

typedef struct {
    const EchProgram *source;
    EchProgramBuilder *out;
    GArray *nodes;        /**< EchInstruction; first_operand, first_called and first_control index the arrays below. */
    GArray *operands;     /**< EchId */
    GArray *called;       /**< EchId of computations */
    GArray *control;      /**< EchId */
    GArray *computations; /**< EchGraphComputation */
    EchId entry;
    unsigned generation; /**< Of the TPU whose tiles arrays get; 0: arrays are dense. */
    bool two_cores;      /**< One program runs on both cores of the chip together (v5p). */
    EchDiag *diag;
    EchId *shapes;      /**< Source shape -> shape, or ECH_NONE. */
    EchId *shared;      /**< Source computation -> the one computation made of it, or ECH_NONE. */
    GHashTable *turned; /**< Argument -> the copy of it in the tiles of loops, + 1 each. */
    GHashTable *rows;   /**< Table -> its copy row after row, + 1 each. */
    GHashTable *apart;  /**< What nothing is fused with, + 1 each. */
    unsigned serial;
    /* ech_graph_find_uses */
    EchGraphUse *uses;
    uint32_t *first_use; /**< first_use[n_nodes + 1] */
    bool *live;          /**< live[n_nodes] */
    size_t n_known;      /**< Nodes there were then. */
    bool *own_kernel;    /**< own_kernel[n_own]: while kernels are made, nodes that nothing is fused with. */
    size_t n_own;
} EchGraph;

/** Calls inlined, bodies of loops and branches one for each of their callers. @generation: see above. ECH_ERROR_VERIFY where that makes too many
 * instructions. */
EchGraph *ech_graph_new(const EchProgram *program, unsigned generation, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_graph_free(EchGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchGraph, ech_graph_free)
/** The live instructions as a program, operands first. */
EchProgram *ech_graph_finish(EchGraph *graph, const char *chip, GError **error) G_GNUC_WARN_UNUSED_RESULT;

static inline EchInstruction *ech_graph_node(const EchGraph *graph, EchId id)
{
    return &g_array_index(graph->nodes, EchInstruction, id);
}
static inline EchGraphComputation *ech_graph_computation(const EchGraph *graph, EchId id)
{
    return &g_array_index(graph->computations, EchGraphComputation, id);
}
static inline EchId ech_graph_operand(const EchGraph *graph, EchId id, uint32_t k)
{
    return g_array_index(graph->operands, EchId, ech_graph_node(graph, id)->first_operand + k);
}
static inline void ech_graph_set_operand(EchGraph *graph, EchId id, uint32_t k, EchId operand)
{
    g_array_index(graph->operands, EchId, ech_graph_node(graph, id)->first_operand + k) = operand;
}
static inline EchId ech_graph_called(const EchGraph *graph, EchId id, uint32_t k)
{
    return g_array_index(graph->called, EchId, ech_graph_node(graph, id)->first_called + k);
}
static inline const EchShape *ech_graph_shape(const EchGraph *graph, EchId id)
{
    return &ech_program_builder_peek(graph->out)->shapes[ech_graph_node(graph, id)->shape];
}
/** Positions of a node's shape: one of an array, those of a tuple's subshapes with itself. */
static inline uint32_t ech_graph_n_positions(const EchGraph *graph, EchId id)
{
    return ech_graph_shape(graph, id)->n_positions;
}
/** Position of element @k of a tuple; UINT32_MAX where there is none. */
static inline uint32_t ech_graph_member(const EchGraph *graph, EchId id, int64_t k)
{
    const EchShape *shape = ech_graph_shape(graph, id);
    return k >= 0 && k < shape->n_elements ? ech_program_member_position(ech_program_builder_peek(graph->out), ech_graph_node(graph, id)->shape, (uint32_t)k)
                                           : UINT32_MAX;
}
/** Elements of an array. */
static inline uint64_t ech_graph_count(const EchGraph *graph, EchId id)
{
    return ech_graph_shape(graph, id)->count;
}
static inline const EchLayout *ech_graph_layout(const EchGraph *graph, EchId id)
{
    return ech_program_layout(ech_program_builder_peek(graph->out), ech_graph_node(graph, id)->shape);
}

/** Adds an instruction to a computation. Strings are the caller's until the end; @operands may be NULL for none. */
EchId ech_graph_add(EchGraph *graph, EchId computation, EchInstruction instruction, const EchId *operands, uint32_t n);
/** The same by opcode and shape, named "@name.N"; @target: of a custom call, or NULL. */
EchId ech_graph_add_new(EchGraph *graph, EchId computation, EchHlo opcode, const char *name, EchId shape, const EchId *operands, uint32_t n);
/** The shape of an array of these dimensions, major first, and @like's type. */
EchId ech_graph_array(EchGraph *graph, const EchLayout *like, const uint64_t *dims, uint8_t rank);
/** Makes @id another instruction of the same shape. */
void ech_graph_become(EchGraph *graph, EchId id, EchHlo opcode, const EchId *operands, uint32_t n);
/** @id in a shape of @rank dimensions @dims, its own wide dimension d being to[d] there: reshaped, turned and broadcast as far as that needs. */
EchId ech_graph_spread(EchGraph *graph, EchId computation, EchId id, const int8_t *to, const uint64_t *dims, uint8_t rank);
/** A new body of a fusion, a reducer or an asynchronous computation, with no instruction yet; @name is made unlike others. */
EchId ech_graph_add_body(EchGraph *graph, const char *name);
/** A new reducer that combines two numbers of shape @scalar by @opcode. */
EchId ech_graph_add_reducer(EchGraph *graph, EchHlo opcode, EchId scalar);
void ech_graph_set_called(EchGraph *graph, EchId id, EchId computation);
void ech_graph_add_control(EchGraph *graph, EchId id, EchId predecessor);
/** Which dimensions of @from, which lies row after row, a sum is over: how many, each once; 0 for none, or what makes no sense. */
uint8_t ech_graph_summed(const EchInstruction *sum, const EchLayout *from, bool *ret);
/** The sum by @body of @array, of @rank dimensions @dims, over those that are @summed, as @into, or a new instruction where that is ECH_NONE; told of as @like.
 */
EchId ech_graph_sum(EchGraph *graph, const EchInstruction *like, EchId array, EchId start, EchId body, const uint64_t *dims, uint8_t rank, const bool *summed,
                    EchId into);
/** A shape of the source, tiled where the program's arrays are. */
EchId ech_graph_shape_of(EchGraph *graph, EchId shape);
/** The same array in another memory. */
EchId ech_graph_in_space(EchGraph *graph, EchId shape, int32_t space);
/** What lives, and who reads it, as things are now. Bodies' instructions count as live. */
void ech_graph_find_uses(EchGraph *graph);
/** The parameter @number of a computation, or ECH_NONE. */
EchId ech_graph_parameter(const EchGraph *graph, EchId computation, int64_t number);
/** Live nodes of a computation, operands first; owned by the caller. */
GArray *ech_graph_sorted(const EchGraph *graph, EchId computation) G_GNUC_WARN_UNUSED_RESULT;
/** True where bytes stay as they are: the instruction only gives its operand another shape. */
bool ech_graph_is_no_op(const EchGraph *graph, EchId id);
/** Computations that run, in reverse order of nesting: callers before what they call. Owned by the caller. */
GArray *ech_graph_running(const EchGraph *graph) G_GNUC_WARN_UNUSED_RESULT;

/** Fourier transforms along the last dimension become products with their matrices, as on a TPU. */
void ech_graph_expand_transforms(EchGraph *graph);
/** Ragged products become those of every row with every group, what is not a group's own masked in memory, as XLA has them on GPUs. */
void ech_graph_expand_ragged(EchGraph *graph);
/** Running sums become windows of 16 and running sums of those, as XLA has them on GPUs. */
void ech_graph_expand_running(EchGraph *graph);
/** Convolutions whose input is spread or padded unequally read it so from memory, as XLA has it on GPUs. */
void ech_graph_pad_convolutions(EchGraph *graph);
/** Sums over thousands of rows are made in two steps, as XLA does on GPUs. */
void ech_graph_split_sums(EchGraph *graph);
/** The least or largest of what another sum finds with its place is that one's, as compilers of XLA for TPUs and GPUs have it. */
void ech_graph_share_extremes(EchGraph *graph);
/** Products that sum nothing, or have a vector on one side (GPUs: and are small, or on both), become element-wise ones and sums. */
void ech_graph_reduce_products(EchGraph *graph);
/** Reshapes come after what is computed element by element of one array and after sums, as far as they can; what is computed between two that undo each other
 * is computed without them: as on a TPU. Before layouts. */
void ech_graph_move_reshapes(EchGraph *graph);
/** Products of 32 bits that are only read as bf16 are made so, as on a TPU. After ech_graph_reduce_products. */
void ech_graph_narrow_products(EchGraph *graph);
/** What is computed element by element in 32 bits and read by products alone is made in 16, as those multiply it on a TPU. */
void ech_graph_narrow_factors(EchGraph *graph);
/** A TPU's convolution gets its images, and leaves them, as such do. */
void ech_graph_lay_convolution(EchGraph *graph, EchId id);
/** How member @member of what a loop with @body carries lies in it, where that is a cache that rounds write a row of; false where nothing tells. */
bool ech_graph_cache_layout(const EchGraph *graph, EchId body, uint32_t member, EchLayout *ret);
/** One update for each row of an array of one number becomes a choice between the two, element by element, as on a TPU. */
void ech_graph_mask_updates(EchGraph *graph);
/** The largest few of each row are a sort of all and a slice of that where a TPU's compiler finds them so. */
void ech_graph_sort_largest(EchGraph *graph);
/** Sorts that keep what is equal in order sort its place with it, as on a TPU. */
void ech_graph_keep_order(EchGraph *graph);
/** Masks and the like that a loop only reads are made inside it. Before layouts: loops carry a number in their place. */
void ech_graph_sink_constants(EchGraph *graph);
/** Arrays of f32 that a loop only reads, as bf16 alone, are converted before it, as on a TPU. Before layouts: loops carry the narrower ones. */
void ech_graph_narrow_loops(EchGraph *graph);
/** Where offload marks say so, values move to host memory and back: XLA's HostOffloader. */
void ech_graph_offload(EchGraph *graph);
/** Copies where a loop, an update in place or the result needs a place of its own: XLA's CopyInsertion, by a simpler rule. */
void ech_graph_insert_copies(EchGraph *graph);
/** Element-wise producers become part of their readers. */
void ech_graph_fuse(EchGraph *graph);
/** Kernels that read the same arrays, and sums of what a kernel makes, become one kernel of several results. After ech_graph_fuse. */
void ech_graph_join_kernels(EchGraph *graph);
