/** @file program.h
 * The XLA program as its own model: computations, instructions in schedule order, values, live ranges, buffer assignment.
 *
 * A program is what a compiler says about one chip's work; it has no clock. Readers and passes fill an EchProgramBuilder; its finish
 * checks ids and shapes and derives everything below "derived". The struct is public and read-only for everyone but sim/program;
 * ids are indices, ECH_NONE means none; strings are NUL-terminated and live as long as the program.
 *
 * Words: a *position* is one place in an instruction's shape tree, numbered in pre-order (0 is the whole, `{}`); a *value* is what one
 * position defines; several positions may hold the same value (tuples, bitcasts, loops). A *buffer* is the set of values that must
 * lie in one place (loops, in-place updates, donation). The *flat schedule* is the entry computation with the bodies of loops,
 * conditionals, calls and async computations inline, before the instruction that runs them; times of live ranges are its positions.
 *
 * The files: program.c holds it and derive.c derives; assign.c makes a buffer assignment (share.c), assignment.c counts one; what instructions cost is work.c's
 * and touched.c's, as kernels price_kernels.c's, gpu_launch.c's (gpu_library.c) and own_kernel.c's (mosaic.c, triton.c, both by mlir_bytecode.c and
 * mlir_arith.c), on a chip with stationary weights price_stationary.c's. A program without a schedule is a graph.h on its way: unscheduled.c, then products.c,
 * on TPUs transforms.c, masks.c, sink.c, on GPUs ragged.c, running.c, conv_pads.c, split_sums.c, then host_offload.c, fuse.c, join.c, copies.c, and schedule.c.
 * Placement takes place_inputs.c and place_rewrite.c, donation donation.c; origin.c names arrays, replicated.c tells which devices hold alike; lower.c
 * (lower_buffers.c) makes a trace.
 */
#pragma once
#include "models/kernel/grid.h"
#include "models/layout/layout.h"
#include "sim/base/diag.h"
#include "sim/trace/trace.h"

typedef enum {
#define ECH_HLO(NAME, text, class, cost) ECH_HLO_##NAME,
#include "sim/program/opcodes.def"
#undef ECH_HLO
    ECH_N_HLO
} EchHlo;

typedef enum { ECH_PLATFORM_UNKNOWN, ECH_PLATFORM_TPU, ECH_PLATFORM_GPU } EchPlatform;

/** XLA's memory space numbers, as layouts print them: S(n). TPU v4's common memory is 3; the others of 7 and above are the SparseCore's. */
enum {
    ECH_SPACE_HBM = 0,
    ECH_SPACE_VECTOR = 1,
    ECH_SPACE_FLAGS = 2,
    ECH_SPACE_COMMON = 3,
    ECH_SPACE_HOST = 5,
    ECH_SPACE_SCALAR = 6,
    ECH_SPACE_SPARSE_CORE = 7 /**< Tables of what it writes, which take nothing. */
};

/** An array or a tuple; interned: equal shapes have equal ids. */
typedef struct {
    uint8_t dtype; /**< EchDtype; ECH_DTYPE_TUPLE for tuples. */
    uint8_t is_tuple;
    int32_t space;                      /**< Memory space number; 0 for tuples. */
    uint32_t first_element, n_elements; /**< Tuple members: shape ids in EchProgram.elements. */
    uint32_t n_positions;               /**< Of the tree, itself included. */
    uint32_t n_leaves;                  /**< Arrays in it, itself included. */
    uint32_t layout;                    /**< Arrays: index into EchProgram.layouts; else ECH_NONE. */
    uint64_t count;                     /**< Array elements. */
    EchBytes dense;                     /**< Bytes without padding; a tuple's table is not counted. */
    EchBytes bytes;                     /**< As the compiler sizes it on the program's platform: padded array, or a tuple's own pointer table. */
    EchBytes whole;                     /**< The same of all arrays in it, tables aside. */
} EchShape;

/** One instruction. */
typedef struct {
    uint16_t opcode; /**< EchHlo; ECH_HLO_UNKNOWN keeps its text in opcode_name. */
    uint8_t is_root;
    uint8_t fusion_kind; /**< 'L' kLoop, 'I' kInput, 'O' kOutput, 'C' kCustom, 0 none. */
    EchId computation;
    EchId shape;
    const char *name;                   /**< Without '%'. */
    const char *opcode_name;            /**< As the file says: "fusion", "async-start"; static or the program's. */
    uint32_t first_operand, n_operands; /**< Instruction ids in EchProgram.operands. */
    uint32_t first_called, n_called;    /**< Computation ids in EchProgram.called: body/condition of a while in the order condition, body; branches in order. */
    uint32_t first_control, n_control;  /**< Control predecessors: instruction ids in EchProgram.control. */
    uint32_t first_position;            /**< Of its positions in EchProgram.positions. */
    int64_t number;                     /**< parameter: its number. get-tuple-element: the index. constant: an integer scalar's value (valid if has_literal). */
    uint8_t has_literal;
    const char *literal; /**< Array of integers, a constant or an argument that is known: its text ("{ {1, 2}, {3, 4} }"), literal_n bytes of something in keep;
                            or NULL. */
    uint32_t literal_n;
    uint32_t grid;          /**< Derived: a kernel of the program's own whose code was read: 1 + its place in EchProgram.grids; else 0. */
    const char *attributes; /**< The rest of the line, as XLA prints it: ", dimensions={0}, metadata={...}"; attributes_n bytes, not terminated. */
    uint32_t attributes_n;
    const char *config; /**< Derived: the value of backend_config in config_of, which are the attributes of a finished program; config_n bytes, or NULL. */
    const char *config_of;
    uint32_t config_n;
    const char *op_name; /**< metadata op_name, or NULL. */
    const char *twin;    /**< metadata deduplicated_name: the first instruction whose kernel runs for this one too; or NULL. */
    const char *source;  /**< Frames of the program's source, innermost first, one a line: "dir/model.py:29:layer"; or NULL. */
    const char *target;  /**< custom_call_target, or NULL. */
    uint64_t id;         /**< HloProto: the instruction's unique id; else 0. */
    uint32_t schedule;   /**< Derived: position in the flat schedule, or ECH_NONE. */
    uint64_t compiled;   /**< Where a pass has moved arrays: which were on chip when the instruction was compiled (and its estimate made). Bit 63: set; bit k:
                            operand   k (below 32); bit 32 + l: array l of the result (below 31). 0: all are where they were. */
} EchInstruction;

typedef struct {
    const char *name;
    uint32_t first, n; /**< Instructions [first, first + n), in schedule (file) order. */
    EchId root;
    EchId caller;        /**< Derived: the instruction that runs it in the flat schedule, or ECH_NONE. */
    uint32_t begin, end; /**< Derived: span in the flat schedule, half-open; begin == end when it is not in it. */
    const char *thread;  /**< Execution thread, or NULL for main. */
    uint32_t loop_depth; /**< Derived: while loops around it. */
} EchComputation;

/** A place that holds a value. */
typedef struct {
    EchId instruction;
    uint32_t position;
} EchPosition;

/** A use of a value: @user reads it at position @position of operand number @operand. */
typedef struct {
    EchId user;
    uint32_t operand, position;
} EchValueUse;

/** What one position of one instruction defines (derived). */
typedef struct {
    EchPosition defined;
    uint8_t is_phi; /**< Born by a loop: parameter of a body or condition, or the loop's result. */
    int32_t space;
    EchBytes bytes;
    uint32_t first_holder, n_holders; /**< EchProgram.holders: all positions with this value, its definition first. */
    uint32_t first_use, n_uses;       /**< EchProgram.uses, in flat-schedule order. */
    int64_t start, end;               /**< Live range in flat-schedule positions, both inclusive; -1, -1 where it is not in the flat schedule. */
    int64_t made;                     /**< Where its definition ends: of what is made asynchronously the async-done; -1 likewise. */
    int64_t natural_end;              /**< The end before values of one buffer were made to follow each other; -1 likewise. */
    EchId buffer;
    uint32_t order; /**< The rank that stands for XLA's value id in ties. */
} EchValue;

/** Values that must share one place (derived). */
typedef struct {
    uint32_t first_value, n_values; /**< EchProgram.buffer_values */
    EchBytes bytes;                 /**< The largest. */
    int32_t space;
    uint8_t live_out, is_parameter, is_constant, is_tuple, in_flat;
} EchValueBuffer;

/** One allocation of the buffer assignment. */
typedef struct {
    EchBytes bytes;
    int32_t space;
    uint8_t is_parameter, is_constant, is_thread_local, is_live_out, is_tuple, is_temp;
    int64_t parameter;                   /**< Parameter number, or -1. */
    uint32_t first_assigned, n_assigned; /**< EchProgramAssignment.assigned */
} EchAllocation;

/** A value inside an allocation. */
typedef struct {
    EchId value; /**< ECH_NONE if the file names one that the program does not have. */
    EchBytes offset, bytes;
} EchAssigned;

/** Where every value lies: read from beside (or inside) the program, or made by echelon. */
typedef struct {
    EchAllocation *allocations;
    size_t n_allocations;
    EchAssigned *assigned;
    size_t n_assigned;
    bool made;     /**< By echelon's own rules. */
    EchBytes peak; /**< peak_memory_in_bytes; 0 where unknown. */
    /** Per memory space: size and largest live sum of its heap. heaps[n_heaps], ascending space. */
    struct EchHeapFigures {
        int32_t space;
        EchBytes allocation_bytes, peak_live_bytes;
    } * heaps;
    size_t n_heaps;
} EchProgramAssignment;

/** input_output_alias: output position (pre-order in the entry root's shape) and the parameter position it shares with. */
typedef struct {
    uint32_t output_position;
    int64_t parameter;
    uint32_t parameter_position;
} EchDonation;

/** What an instruction costs the chip, counted from its shape and, for a fusion, its body (see ech_program_work). */
typedef struct {
    uint64_t matrix; /**< Operations of dots and convolutions (a multiply-add is two). */
    uint64_t vector; /**< Element-wise and reduction operations. */
    uint64_t transcendental;
    uint8_t matrix_dtype, vector_dtype; /**< EchDtype of the inputs. */
} EchHloWork;

/** What a fusion's body does with one of its parameters. */
typedef struct {
    EchBytes sliced; /**< Bytes of slices taken of it. */
    bool whole;      /**< Some user reads all of it. */
} EchTouched;

/** A computation as a body: its own work, callees included, counted once. */
typedef struct {
    EchHloWork work;
    EchTouched *parameters; /**< parameters[n_parameters] of a fusion's body; else NULL. */
    uint32_t n_parameters;
    uint8_t state;
    bool touched;
    uint64_t steps; /**< Instructions and operands that are gone through where its kernels are told: its own, and those of what it calls in turn. */
} EchBody;

typedef struct EchProgram {
    gatomicrefcount refs;
    const char *name;
    EchPlatform platform;
    EchBytes tuple_granule; /**< Of a tuple's table: 8 bytes a member on GPU (granule 8); TPU: 1024, 512 or 32 by chip. */
    const char *chip;       /**< Device name the sizes hold for ("tpu-v5e"), or NULL where it was not needed or not known. */
    const char
        *kernels_for; /**< Device name its kernels and their estimates were compiled for, where a pass has made the rest another chip's; else NULL: chip. */
    bool scheduled;
    uint32_t replicas, partitions; /**< As the module says; 1 where it does not. */
    bool unsplit;                  /**< Its arrays are those of all partitions together: no partitioner has seen it. */
    EchId entry;
    EchId entry_layout; /**< Of a program without a schedule: ((parameters), result) as entry_computation_layout has them; ECH_NONE where it says nothing. */
    EchShape *shapes;
    EchId *elements;
    uint32_t *starts; /**< starts[n_starts], as many as elements: the position of each in its tuple. */
    EchLayout *layouts;
    EchInstruction *instructions;
    EchComputation *computations;
    EchId *operands, *called, *control;
    EchDonation *donations;
    size_t n_shapes, n_elements, n_starts, n_layouts, n_instructions, n_computations, n_operands, n_called, n_control, n_donations;
    /* derived */
    EchBody *bodies;      /**< bodies[n_computations] */
    EchKernelGrid *grids; /**< What kernels of the program's own do; see EchInstruction.grid. */
    EchId *flat;          /**< flat[n_flat]: instruction ids, the flat schedule. */
    size_t n_flat;
    EchId *positions; /**< positions[n_positions]: value held by each position of each instruction, or ECH_NONE (fusion bodies). */
    size_t n_positions;
    EchValue *values;
    EchPosition *holders;
    EchValueUse *uses;
    EchValueBuffer *buffers;
    EchId *buffer_values;
    size_t n_values, n_holders, n_uses, n_buffers;
    EchProgramAssignment *assignment; /**< NULL until read or made. */
    const char *assignment_source;    /**< "inside the program", a path, or "made by echelon"; NULL while there is none. */
    GPtrArray *keep;                  /**< GBytes that strings point into. */
    GStringChunk *strings;
} EchProgram;

EchProgram *ech_program_ref(EchProgram *program);
void ech_program_unref(EchProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchProgram, ech_program_unref)

/** "fusion", "copy-start", ... */
const char *ech_hlo_name(EchHlo opcode);
/** Opcode by name; ECH_HLO_UNKNOWN for a new one. */
EchHlo ech_hlo_parse(const char *name, size_t length);
/** What kind of work an opcode is. */
typedef enum {
    ECH_CLASS_OTHER,
    ECH_CLASS_ELEMENTWISE,
    ECH_CLASS_DATA,
    ECH_CLASS_CONTROL,
    ECH_CLASS_MATRIX,
    ECH_CLASS_REDUCE,
    ECH_CLASS_COLLECTIVE
} EchHloClass;
EchHloClass ech_hlo_class(EchHlo opcode);
bool ech_hlo_is_elementwise(EchHlo opcode);
/** 1 for a transcendental element function (exp, tanh, sqrt...), else 0. */
bool ech_hlo_is_transcendental(EchHlo opcode);

static inline EchId ech_program_operand(const EchProgram *p, const EchInstruction *i, uint32_t k)
{
    return p->operands[i->first_operand + k];
}
static inline EchId ech_program_called(const EchProgram *p, const EchInstruction *i, uint32_t k)
{
    return p->called[i->first_called + k];
}
/** The value at a position, or ECH_NONE. */
static inline EchId ech_program_value(const EchProgram *p, EchId instruction, uint32_t position)
{
    return p->positions[p->instructions[instruction].first_position + position];
}
/** Shape id at a pre-order position of a shape tree. */
EchId ech_program_subshape(const EchProgram *program, EchId shape, uint32_t position);
/** Pre-order position of tuple member @member of @shape (not nested). */
uint32_t ech_program_member_position(const EchProgram *program, EchId shape, uint32_t member);
/** The member of tuple @shape that holds its pre-order position @position, > 0; *@ret_inner: the position in the member. */
uint32_t ech_program_member_at(const EchProgram *program, EchId shape, uint32_t position, uint32_t *ret_inner);
/** A shape index like {0,1} as a pre-order position of @shape; UINT32_MAX if there is none. */
uint32_t ech_program_index_position(const EchProgram *program, EchId shape, const int64_t *index, size_t n);
/** Number of a parameter of the entry (int64_t, the instruction's own) -> its instruction + 1. Owned by the caller; good while no instruction is added. */
GHashTable *ech_program_entry_parameters(const EchProgram *program) G_GNUC_WARN_UNUSED_RESULT;
/** The position of an index in the shape of the entry's parameter @number; 0 where the index is empty or there is no such parameter, UINT32_MAX where it is
 * none of the shape's. */
uint32_t ech_program_parameter_position(const EchProgram *program, GHashTable *parameters, int64_t number, const int64_t *index, size_t n);
/** Layout of an array shape, or NULL for a tuple. */
const EchLayout *ech_program_layout(const EchProgram *program, EchId shape);
/** The first array of @shape: itself, or its first element's first array; a tuple of nothing is handed back. */
EchId ech_program_first_array(const EchProgram *program, EchId shape);
/** Layout of the first array of what @instruction makes; NULL without one. */
const EchLayout *ech_program_first_layout(const EchProgram *program, EchId instruction);
/** The instruction that made what is at a position of @instruction, followed back through copies, tuples, loops and what a loop's stack is written with, as far
 * as instructions have a name or a line in the source; ECH_NONE where none has. */
EchId ech_program_origin(const EchProgram *program, EchId instruction, uint32_t position);
/** Whether what is at a position of @instruction holds the result of a matrix product. Where a kernel stores only what it makes of that, element by element,
 * what it makes with the fewest operations stands for it, off the chip where anything is; *ret_dtype is the result's own. Followed back as by
 * ech_program_origin. */
EchProduct ech_program_product(const EchProgram *program, EchId instruction, uint32_t position, EchDtype *ret_dtype);
/** A shape's text with layouts; owned by the caller. */
char *ech_program_shape_text(const EchProgram *program, EchId shape) G_GNUC_WARN_UNUSED_RESULT;
/** An attribute's raw text ("{0,1}" for "dimensions={0,1}"), or NULL; borrowed, *ret_n bytes, not terminated. */
const char *ech_program_attribute(const EchInstruction *instruction, const char *name, size_t *ret_n);
/** One attribute of a line: name and raw value, slices of the line. */
typedef struct {
    const char *name, *value;
    size_t name_n, value_n;
} EchAttribute;
/** The quote that ends the text which begins at @at, behind the opening one; those behind a backslash do not. @end where none does. */
const char *ech_program_quote_end(const char *at, const char *end);
/** Steps through ", name=value, ..." from *at; false at the end. */
bool ech_program_next_attribute(const char **at, const char *end, EchAttribute *ret);
/** A number or string in backend_config JSON, by dotted path of keys ("window_config.estimated_cycles", "known_trip_count.n"): the raw
 * text of the first match, quotes removed; NULL if absent. Keys not given in full match at any depth. Borrowed. */
const char *ech_program_config(const EchInstruction *instruction, const char *key, size_t *ret_n);
/** The same in @object[@object_n], which ech_program_config gave for a key above. */
const char *ech_program_config_member(const char *object, size_t object_n, const char *key, size_t *ret_n);
/** The same as an unsigned integer; false if absent or not a number. */
bool ech_program_config_u64(const EchInstruction *instruction, const char *key, uint64_t *ret);
/** The numbers inside an attribute like "{0,1}" or a config list like ["8","16"]; at most @max; returns how many there were. */
size_t ech_program_numbers(const char *text, size_t n, int64_t *ret, size_t max);
/** VMEM (space 1) bytes a kernel keeps for itself: used_scoped_memory_configs; 0 where it says nothing. */
EchBytes ech_program_scoped_bytes(const EchInstruction *instruction);
/** What the instruction asked for of its own there before anything was placed ("scoped_memory_configs"); at least what it uses in the end. */
EchBytes ech_program_asked_bytes(const EchInstruction *instruction, int32_t space);
/** Trip count of a while: known_trip_count, else from its induction variable (*ret_origin says which); false where neither tells. */
bool ech_program_trips(const EchProgram *program, EchId loop, uint64_t *ret, EchOrigin *ret_origin);
/** Whether that is so by integers that the program was called with (ech_program_set_arguments). */
bool ech_program_trips_given(const EchProgram *program, EchId loop);
/** Of the products of a JAX program's forward pass the share that its backward pass makes again (jax.checkpoint), by what instructions are called; below 0:
 * nothing is made again. */
double ech_program_products_again(const EchProgram *program);
/** Whether a JAX program has no backward pass, by what instructions are called. */
bool ech_program_is_forward(const EchProgram *program);
/** How often a computation of the flat schedule runs: the product of the trip counts around it, saturating; loops that tell none count once. */
uint64_t ech_program_runs(const EchProgram *program, EchId computation);
/** Whether an instruction makes one array, where they lie, of slices next to each other that were fetched one by one. */
bool ech_program_joins_slices(const EchInstruction *instruction);
/** Whether an instruction is a kernel that the program brings along: Pallas. */
bool ech_program_is_own_kernel(const EchInstruction *instruction);
/** What such a kernel does, from its code; NULL for other instructions and where the code cannot be read. Borrowed. */
const EchKernelGrid *ech_program_grid(const EchProgram *program, EchId instruction);
/** What an instruction keeps of vector memory for itself: what the compiler says, or what the code of a kernel of the program's own tells. */
EchBytes ech_program_kept_bytes(const EchProgram *program, EchId instruction);
/** Operations of an instruction, bodies of fusions included. Integers saturate. */
EchHloWork ech_program_work(const EchProgram *program, EchId instruction);
/** Groups of the ragged product that a TPU's fusion is, as its compiler says; 0 where it is none. */
uint64_t ech_program_ragged_groups(const EchInstruction *fusion);
/** Bytes operand @k of an instruction reads (slices count what they touch, in-place destinations nothing), and what position 0..n of its
 * result writes; counted in padded bytes. */
EchBytes ech_program_operand_bytes(const EchProgram *program, EchId instruction, uint32_t k);
EchBytes ech_program_result_bytes(const EchProgram *program, EchId instruction, uint32_t position);

/** Makes a program; used by readers and by passes that change one. */
typedef struct EchProgramBuilder EchProgramBuilder;
EchProgramBuilder *ech_program_builder_new(const char *name) G_GNUC_WARN_UNUSED_RESULT;
/** A builder holding all of @program but what is derived and its assignment: change it, then finish. */
EchProgramBuilder *ech_program_builder_new_from(const EchProgram *program) G_GNUC_WARN_UNUSED_RESULT;
void ech_program_builder_free(EchProgramBuilder *builder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchProgramBuilder, ech_program_builder_free)
/** The program being made: its arrays may be read and their entries changed between calls (they move when something is added). */
EchProgram *ech_program_builder_peek(EchProgramBuilder *builder);
/** Copies a string into the program. @length < 0 means strlen. */
const char *ech_program_builder_string(EchProgramBuilder *builder, const char *text, gssize length);
/** Interns an array shape, or a tuple of shapes. ECH_NONE when there are more than 2^31. */
EchId ech_program_builder_array(EchProgramBuilder *builder, const EchLayout *layout);
EchId ech_program_builder_tuple(EchProgramBuilder *builder, const EchId *members, uint32_t n);
/** Parses and interns a printed shape, tuples included ("(f32[2]{0}, (s32[], pred[]))"); *ret_used bytes were taken. */
bool ech_program_builder_shape(EchProgramBuilder *builder, const char *text, size_t n, EchId *ret, size_t *ret_used, GError **error);
/** Opens a computation; the instructions added next are its, in schedule order. */
EchId ech_program_builder_computation(EchProgramBuilder *builder, const char *name);
/** Appends an instruction to the open computation. Slices are set by the operand/called/control calls that follow it. */
EchId ech_program_builder_instruction(EchProgramBuilder *builder, EchInstruction instruction);
/** Puts an instruction with its operands before instruction @before, in that one's computation: the numbers of @before and of all after it grow by one. */
EchId ech_program_builder_insert(EchProgramBuilder *builder, EchId before, EchInstruction instruction, const EchId *operands, uint32_t n);
void ech_program_builder_operand(EchProgramBuilder *builder, EchId operand);
void ech_program_builder_called(EchProgramBuilder *builder, EchId computation);
void ech_program_builder_control(EchProgramBuilder *builder, EchId predecessor);
void ech_program_builder_donation(EchProgramBuilder *builder, EchDonation donation);
void ech_program_builder_keep(EchProgramBuilder *builder, GBytes *bytes);
/** Checks and derives: shapes' bytes, flat schedule, values, uses, live ranges, must-share buffers. @device_name ("tpu-v5e") settles chip
 * sizes where the program does not tell (may be NULL). Consumes the builder's contents; it must still be freed. ECH_ERROR_VERIFY. */
EchProgram *ech_program_builder_finish(EchProgramBuilder *builder, const char *device_name, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** Makes of a program that was not optimised what its schedule can be made of, by echelon's own plain rules for what a compiler does: calls inlined, equal
 * instructions merged, arrays tiled (TPU), offload marks turned into host arrays and copies, element-wise chains fused. @chip: the TPU it is meant for, or
 * NULL. Owned: a new program, or another reference to one that is optimised already. ECH_ERROR_VERIFY where inlining makes too many instructions. */
EchProgram *ech_program_prepare(EchProgram *program, const char *chip, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** A schedule for a program that has none, by XLA's own rule for memory: what frees most bytes comes first, where that needs less than the order of
 * the file. Says in @diag whose order it is. Owned: a new program, or another reference. ECH_ERROR_VERIFY. */
EchProgram *ech_program_schedule(EchProgram *program, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** Takes an assignment a compiler wrote (ownership passes). Computes heap figures it does not say. */
void ech_program_set_assignment(EchProgram *program, EchProgramAssignment *assignment, const char *source);
void ech_program_assignment_free(EchProgramAssignment *assignment);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchProgramAssignment, ech_program_assignment_free)
/** Assigns buffers as XLA would (TPU or GPU rules), from nothing but the program. @hbm_limit: where the TPU's heap falls back to the
 * default algorithm; 0 for none. ECH_ERROR_CONFIG if a TPU program's chip is not known. Owned by the caller. */
EchProgramAssignment *ech_program_assign(const EchProgram *program, EchBytes hbm_limit, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Says that kernels and estimates stay those of @device_name, whatever chip the program is for from now on. */
void ech_program_set_kernels_for(EchProgram *program, const char *device_name);
/** The device whose compiler made the kernels; NULL if not known. */
static inline const char *ech_program_kernels_for(const EchProgram *program)
{
    return program->kernels_for ? program->kernels_for : program->chip;
}
/** The chip a TPU program's sizes hold for must be known for tuple tables: sets it. ECH_ERROR_CONFIG for a name that is no TPU. */
bool ech_program_set_chip(EchProgram *program, const char *device_name, GError **error);

/** What the program was called with: @texts[k] (char *, or NULL: not known) has the integers that parameter k holds, "1,2,3". Kernels of the program's own that
 * choose their steps by them are read anew: true where there are such, or conditionals or loops that go by them. What is no array of as many integers says
 * nothing. */
bool ech_program_set_arguments(EchProgram *program, const GPtrArray *texts);

/** Bytes as `compiled.memory_analysis()` counts them. */
typedef struct {
    EchBytes argument, output, temp, alias;
    EchBytes host_argument, host_output, host_temp, host_alias;
    EchBytes constant; /**< Constants in space 0 (not in any of the above). */
    EchBytes peak;     /**< peak_memory_in_bytes; 0 where unknown. */
} EchMemoryAnalysis;
/** From the program's assignment; all zero without one. */
EchMemoryAnalysis ech_program_memory_analysis(const EchProgram *program);
/** Total bytes of all allocations in a space. */
EchBytes ech_program_space_bytes(const EchProgram *program, int32_t space);

struct EchDevice;
typedef struct {
    uint64_t loop_trips; /**< Trip count of loops that tell none; 0 means 1. */
    /** Prices kernels of TPU programs for this device with echelon's kernel model; the trace's property "estimates_for" names it. Where the program
     * carries the compiler's estimate, that is multiplied by the model's time on this device over the time the model expects the compiler to say
     * (its origin stays known; "estimates_scaled_from" names the compiler's device where the two differ); else the model's time stands (origin
     * inferred). NULL keeps the compiler's own estimates as they are. Borrowed. */
    const struct EchDevice *price_on;
    bool price_by_model; /**< With @price_on: the model's time even where the program carries an estimate. */
    /** buffers[n_buffers of the program], filled in: the trace's buffer that stands for each of the program's (EchProgram.buffers), or ECH_NONE. May be NULL.
     */
    EchId *buffers;
} EchLowerOptions;
/** The trace of a program: buffers with fixed offsets where there is an assignment, kernels, copies, loops. @device may be NULL (then no
 * estimates in picoseconds, and memories get their usual names). Remarks about what was inferred go to @diag. */
EchTrace *ech_program_lower(const EchProgram *program, const struct EchDevice *device, const EchLowerOptions *options, EchDiag *diag,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;
