/** @file trace.h
 * The trace: what a program did or will do, as operations on buffers, in a form every engine can replay.
 *
 * A trace is immutable and reference-counted. It is made by EchTraceBuilder, whose finish checks the numbered
 * invariants V1..V17 below, so an invalid trace cannot exist. It knows nothing of devices: memories are names.
 * A trace is not a schedule of times: times exist in it only as what was *recorded*.
 *
 * Invariants:
 *  V1  every id (name, string, memory, queue, buffer, op, use) is below its count, or ECH_NONE where allowed
 *  V2  uses, dependencies and work of an op are a slice inside their arrays; slices do not overlap and are in op order
 *  V3  a dependency with distance 0 points to an earlier op; with distance >= 1 both ops lie in one loop body
 *  V4  LOOP regions nest properly: n_body ops follow the LOOP, and a region ends inside its parent's
 *  V5  a dependency never points into a loop body from outside it (depend on the LOOP op: it ends with its last iteration)
 *  V6  ALLOC and FREE name a buffer that is not an alias; per buffer and scope they alternate, beginning with ALLOC,
 *      unless the buffer is resident at start
 *  V7  an alias lies inside its parent: alias_offset + bytes <= parent's bytes; parents are not cyclic, come first, and have few parents in turn
 *  V8  a use names a buffer whose lifetime covers it: never before its ALLOC or after its FREE in program order
 *  V9  COPY names two memories; a COPY with buffers reads use 0 and writes use 1
 *  V10 recorded durations and estimates are not negative
 *  V11 WAIT waits for ops through its dependencies, or for a SIGNAL with the same event id that comes earlier
 *  V12 trip counts are at least 0, and the product of nested trip counts times body lengths fits in 63 bits
 *  V13 a fixed offset is a multiple of nothing in particular, but offset + bytes does not overflow
 *  V14 a loop-scoped buffer is used only inside its loop
 *  V15 memories and queues are few: what is kept of each for each op, buffer or other queue stays in proportion to the trace
 *  V16 what is taken beside an allocator (direct) is no other's: it has no fixed offset, no private pool, and is no alias
 *  V17 managed memory is the driver's: it is not direct, has no fixed offset, no private pool, and is no alias
 */
#pragma once
#include "sim/base/diag.h"
#include "sim/base/units.h"

typedef uint32_t EchId;
#define ECH_NONE UINT32_MAX
#define ECH_OFFSET_NONE UINT64_MAX
/** V7, V15: far above what machines and programs have. */
enum { ECH_MAX_ALIASES = 64, ECH_MAX_MEMORIES = 1024, ECH_MAX_QUEUES = 16384 };

typedef enum {
#define ECH_OP(NAME, text, doc) ECH_OP_##NAME,
#include "sim/trace/ops.def"
#undef ECH_OP
    ECH_N_OP_KINDS
} EchOpKind;

/** How a field came to be known. Absent fields hold their "none" value. */
typedef enum { ECH_ABSENT, ECH_KNOWN, ECH_INFERRED, ECH_ASSUMED } EchOrigin;

/** Element types; the text names are XLA's ("bf16", "f32", "s8", "pred"...). */
typedef enum {
#define ECH_DTYPE(NAME, text, bits) ECH_DTYPE_##NAME,
#include "sim/trace/dtypes.def"
#undef ECH_DTYPE
    ECH_N_DTYPES
} EchDtype;

typedef enum {
    ECH_ROLE_UNKNOWN,
    ECH_ROLE_PARAMETER,
    ECH_ROLE_ACTIVATION,
    ECH_ROLE_GRADIENT,
    ECH_ROLE_OPTIMIZER,
    ECH_ROLE_TEMPORARY,
    ECH_ROLE_KV_CACHE,
    ECH_ROLE_INPUT,
    ECH_ROLE_OUTPUT,
    ECH_ROLE_CONSTANT,
    ECH_ROLE_WEIGHT_COPY, /**< An average of weights, say, or how they were before. */
    ECH_N_ROLES
} EchRole;

/** Of managed memory, and what cudaMemAdvise said of it: mostly read; a preferred location; mapped for the device. */
typedef enum {
    ECH_MANAGED = 1,
    ECH_MANAGED_READ_MOSTLY = 2,
    ECH_MANAGED_ON_HOST = 4,
    ECH_MANAGED_ON_DEVICE = 8,
    ECH_MANAGED_MAPPED = 16,
    ECH_MANAGED_ALL = 31
} EchManagedFlag;

/** Whether an array holds the result of a matrix product; of what a kernel makes of such a result element by element, one array stands for it. */
typedef enum {
    ECH_PRODUCT_NONE,
    ECH_PRODUCT_RESULT, /**< Of a product without batch dimensions, or of a convolution. */
    ECH_PRODUCT_BATCH,  /**< Of one with batch dimensions. */
    ECH_PRODUCT_BESIDE, /**< Made, element by element or by sums, of what stands in another array that the same kernel makes. */
    ECH_N_PRODUCTS
} EchProduct;

typedef enum { ECH_READ, ECH_WRITE } EchAccess;
typedef enum { ECH_PATTERN_STREAM, ECH_PATTERN_STRIDED, ECH_PATTERN_RANDOM, ECH_N_PATTERNS } EchPattern;

/** Which unit does the work: multiply-accumulate arrays, lane arithmetic, or transcendental lanes. */
typedef enum { ECH_WORK_MATRIX, ECH_WORK_VECTOR, ECH_WORK_TRANSCENDENTAL, ECH_N_WORK_UNITS } EchWorkUnit;

typedef enum {
    ECH_COLLECTIVE_NONE,
    ECH_COLLECTIVE_ALL_REDUCE,
    ECH_COLLECTIVE_ALL_GATHER,
    ECH_COLLECTIVE_REDUCE_SCATTER,
    ECH_COLLECTIVE_ALL_TO_ALL,
    ECH_COLLECTIVE_PERMUTE,
    ECH_COLLECTIVE_BROADCAST,
    ECH_COLLECTIVE_SEND,
    ECH_COLLECTIVE_RECV,
    ECH_N_COLLECTIVES
} EchCollective;

/** One access of an op to a buffer. */
typedef struct {
    EchId buffer;
    uint8_t access;  /**< EchAccess */
    uint8_t pattern; /**< EchPattern */
    uint8_t origin;  /**< EchOrigin of bytes */
    uint8_t reserved;
    EchBytes bytes; /**< Moved between the buffer's memory and the unit (or link). */
} EchUse;

/** Operations of one kind done by an op. A multiply-add counts as two. */
typedef struct {
    uint8_t unit;   /**< EchWorkUnit */
    uint8_t dtype;  /**< EchDtype of the inputs */
    uint8_t origin; /**< EchOrigin */
    uint8_t reserved[5];
    uint64_t count;
} EchWork;

/** The op may start when @op of the iteration @distance before this one has ended. Distance 0: this iteration, or
 * an op outside the loop. Iterations before the first count as ended. */
typedef struct {
    EchId op;
    uint32_t distance;
} EchDep;

/** How an op was written by the tool that captured it. Unset fields: ECH_TIME_NONE. Times are relative to the trace's start. */
typedef struct {
    EchTime start;    /**< Picoseconds since the trace's time zero. */
    EchTime duration; /**< Picoseconds, >= 0. */
} EchRecorded;

typedef struct {
    uint8_t kind;            /**< EchOpKind */
    uint8_t collective;      /**< COLLECTIVE: EchCollective */
    uint8_t bytes_origin;    /**< EchOrigin of bytes (or of trips for a LOOP) */
    uint8_t estimate_origin; /**< EchOrigin of estimate */
    EchId name;              /**< String id. */
    EchId queue;             /**< Ops of one queue run in order. */
    EchId stack;             /**< String id of a stack (frames joined by newlines), or ECH_NONE. */
    uint32_t first_use, n_uses;
    uint32_t first_dep, n_deps;
    uint32_t first_work, n_work;
    /** COPY: memory ids. COLLECTIVE: memory_from is the group size (0 unknown), memory_to ECH_NONE. */
    EchId memory_from, memory_to;
    /** KERNEL of a GPU: string id of how it was launched and on what shape ("grid=96 block=128 shared=49152 registers=230 product=1x5185x1024x4096": the fields
     * of models/kernel/gpu.h, those not known left out; graph=1, of copies too: the host asked for it with the op before; prefetch=1, of copies: so many bytes
     * of managed memory are to lie in memory_to from now on, and those that do not are moved; file=read needs=81920, of the host's work: EchFileUse below); of
     * a TPU: what its time is spent on (models/kernel/stalls.h). COLLECTIVE: how its groups lie
     * ("devices=8 stride=4 sparse": models/link/link.h) and whom it meets in traces of other ranks ("meets=4be1/12,9f/3>8388608": sim/trace/meets.h); WAIT of
     * a host for other hosts: whom it meets. ECH_NONE where not known. */
    EchId launch;
    /** ALLOC, FREE: the buffer. SIGNAL, WAIT: event id or ECH_NONE. LOOP: number of ops in its body. */
    EchId target;
    /** COPY: bytes moved. COLLECTIVE: bytes of the operand on one device. ALLOC, FREE: bytes asked for.
     * LOOP: trip count (its origin in bytes_origin). */
    uint64_t bytes;
    /** Kernel: the compiler's own estimate of the time, picoseconds, or ECH_TIME_NONE. */
    EchTime estimate;
    EchRecorded recorded;
} EchOp;

typedef struct {
    EchId name;        /**< String id. */
    EchId memory;      /**< Memory id. */
    uint8_t role;      /**< EchRole */
    uint8_t dtype;     /**< EchDtype, ECH_DTYPE_NONE where unknown */
    uint8_t resident;  /**< 1: exists before the first op (no ALLOC needed). */
    uint8_t upper_end; /**< 1: asked for from the upper end (BFC two-ended). */
    uint8_t direct;    /**< 1: a library's, of the driver itself: beside the program's allocator (NCCL's buffers). */
    uint8_t managed;   /**< EchManagedFlag: of the host's memory, but its pages come to the device where that touches them (cudaMallocManaged); 0: not so. */
    uint8_t product;   /**< EchProduct, of a compiled program. */
    uint8_t product_dtype; /**< EchDtype of that result where what stands for it has another; else ECH_DTYPE_NONE. */
    uint32_t replicas;     /**< Devices of a group that hold the same, of an argument that a compiled program updates; 0: not known of any. */
    EchBytes bytes;        /**< Bytes the program asked for: padded size of an array, or the requested size. */
    EchBytes rounded;      /**< What the recorded allocator gave, or 0 where not recorded. */
    EchBytes dense;        /**< Unpadded bytes, or 0 where not known. */
    uint64_t offset;       /**< Fixed offset in its memory (a compiler's assignment) or ECH_OFFSET_NONE. */
    uint64_t address;      /**< Recorded address, or ECH_OFFSET_NONE. */
    EchId alias_of;        /**< Parent buffer or ECH_NONE. */
    uint64_t alias_offset; /**< Inside the parent. */
    EchId loop;            /**< LOOP op that makes one per iteration, or ECH_NONE. */
    EchId queue;           /**< Stream it was allocated on, or ECH_NONE. */
    EchId pool;            /**< String id of a private pool, or ECH_NONE. */
    EchId segment;         /**< Recorded segment number, or ECH_NONE. */
    EchId stack;           /**< String id, or ECH_NONE. */
    EchId shape;           /**< String id "f32[8,128]{1,0:T(8,128)}", or ECH_NONE. */
} EchBuffer;

typedef enum { ECH_QUEUE_COMPUTE, ECH_QUEUE_COPY, ECH_QUEUE_HOST, ECH_QUEUE_COLLECTIVE, ECH_N_QUEUE_KINDS } EchQueueKind;
typedef struct {
    EchId name;   /**< String id: "core", "dma h2d", "stream 7". */
    uint8_t kind; /**< EchQueueKind */
    uint8_t reserved[3];
    uint32_t device; /**< Device ordinal in the capture. */
} EchQueue;

typedef struct EchTrace EchTrace;
typedef struct EchTraceBuilder EchTraceBuilder;

EchTrace *ech_trace_ref(EchTrace *trace);
void ech_trace_unref(EchTrace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTrace, ech_trace_unref)

/* Borrowed views; arrays live as long as the trace. */
size_t ech_trace_n_ops(const EchTrace *trace);
size_t ech_trace_n_uses(const EchTrace *trace);
size_t ech_trace_n_deps(const EchTrace *trace);
size_t ech_trace_n_work(const EchTrace *trace);
size_t ech_trace_n_buffers(const EchTrace *trace);
size_t ech_trace_n_queues(const EchTrace *trace);
size_t ech_trace_n_memories(const EchTrace *trace);
size_t ech_trace_n_strings(const EchTrace *trace);
const EchOp *ech_trace_ops(const EchTrace *trace);
const EchUse *ech_trace_uses(const EchTrace *trace);
const EchDep *ech_trace_deps(const EchTrace *trace);
const EchWork *ech_trace_work(const EchTrace *trace);
const EchBuffer *ech_trace_buffers(const EchTrace *trace);
const EchQueue *ech_trace_queues(const EchTrace *trace);
/** Name of a memory ("hbm", "host", "vector", ...: a device's memory names). */
const char *ech_trace_memory(const EchTrace *trace, EchId memory);
/** By its name, a memory of the host. */
bool ech_trace_is_host(const EchTrace *trace, EchId memory);
/** An interned string; "" for ECH_NONE. */
const char *ech_trace_string(const EchTrace *trace, EchId string);
/** Whether any string has @part and, from there on, @after; "" for anything. */
bool ech_trace_says(const EchTrace *trace, const char *part, const char *after);
/** Whether any op is of @kind. */
bool ech_trace_has_op(const EchTrace *trace, EchOpKind kind);
/** Id of a memory by name, or ECH_NONE. */
EchId ech_trace_find_memory(const EchTrace *trace, const char *name);
/** What it was imported from: "hlo", "memory_snapshot", ... or "ech". */
const char *ech_trace_format(const EchTrace *trace);
/** Free-form facts, in the order they were added: key i, value i; *ret_value borrowed. Returns NULL past the end. */
const char *ech_trace_property(const EchTrace *trace, size_t i, const char **ret_value);
/** Value of a property, or NULL. */
const char *ech_trace_get_property(const EchTrace *trace, const char *key);
/** Key of a property: how many rows what a program hands to its modules has, a batch's. */
#define ECH_TRACE_BATCH "batch"
/** Key of a property: elements of the logits of a compiled program's losses, and of a row of each: "2147483648/65536", commas between several. */
#define ECH_TRACE_LOGITS "logits"
/** Key of a property: measures of PyTorch's that a program was captured with and does not have itself: "autocast=bfloat16,fused". */
#define ECH_TRACE_WITH "pretended_with"
/** Key of a property: how many tokens a server's cache has room for. */
#define ECH_TRACE_SERVED_TOKENS "served_tokens"
/** Key of a property: what a server said that had too little memory left for its cache, and ended. */
#define ECH_TRACE_NO_ROOM "server_has_no_room"
/** A property: one of PyTorch's modules ran with gradients, so that what a backward pass takes is kept, whether one follows or not. */
#define ECH_TRACE_KEEPS "keeps_for_backward"
/** A property of PyTorch's programs of which no memory snapshot was found: what they allocate are the segments of its allocator, not tensors. */
#define ECH_TRACE_SEGMENTS "segments_alone"
/** Value of the property "host_order", of programs that ran on a GPU that was not there, where no framework asked for their work: it is in CUDA C++, or nothing
 * is known of it. */
#define ECH_HOST_COMPILED "as asked by compiled code"
/** Of a program that ran on a GPU, or on one that was not there; its kernels are as a profiler times them. */
static inline bool ech_trace_is_captured(const EchTrace *trace)
{
    return ech_trace_get_property(trace, "time_zero_ps") || ech_trace_get_property(trace, "host_order");
}
/** 64-bit content hash (FNV-1a over the canonical file form). */
uint64_t ech_trace_hash(const EchTrace *trace);

/** The same trace (sharing all but properties) with these properties besides its own: key, value, key, value..., NULL. A key that is there gets the new value.
 * Owned by the caller. */
EchTrace *ech_trace_with_properties(EchTrace *trace, const char *const *pairs) G_GNUC_WARN_UNUSED_RESULT;
/** The same trace without the properties whose keys begin with one of the NULL-terminated @prefixes. Owned by the caller. */
EchTrace *ech_trace_without_properties(EchTrace *trace, const char *const *prefixes) G_GNUC_WARN_UNUSED_RESULT;

/** Does it take time on a unit or a link: KERNEL, COPY or COLLECTIVE. */
static inline bool ech_op_is_work(const EchOp *op)
{
    return op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE;
}
/** Its recorded start is known, and near enough to time zero that no sum or difference of two overflows. */
static inline bool ech_op_has_start(const EchOp *op)
{
    return op->recorded.start > -ECH_TIME_MAX / 4 && op->recorded.start < ECH_TIME_MAX / 4;
}
/** A COPY that moves pages of managed memory. */
bool ech_op_is_prefetch(const EchTrace *trace, const EchOp *op);

/** How the host asked for a copy behind another: by a call of its own, of one operator's loop over copies, or of a batch (cudaMemcpyBatchAsync). */
typedef enum { ECH_BEHIND_NONE, ECH_BEHIND_LOOP, ECH_BEHIND_BATCH } EchBehind;
EchBehind ech_op_behind(const EchTrace *trace, const EchOp *op);
/** What the host does with a file, whose bytes are what the operation writes to the host's memory, or reads of it, or copies there, while the host goes on;
 * MAPPED: it reads the pages that a copy to a device is about to take. */
typedef enum { ECH_FILE_NONE, ECH_FILE_READ, ECH_FILE_MAPPED, ECH_FILE_WRITTEN } EchFileUse;
/** *@ret_needs: with that much memory, bytes, the host's page cache still has what is read, or takes what is written before the disk has it; ECH_FILE_DISK: it
 * never does. */
EchFileUse ech_op_file(const EchTrace *trace, const EchOp *op, EchBytes *ret_bytes, EchBytes *ret_needs);
#define ECH_FILE_DISK UINT64_MAX
/** Adds to @launch, an operation's, what ech_op_file() tells. */
void ech_file_print(EchFileUse use, EchBytes needs, GString *launch);
/** How many operators and nodes of gradients the host of a framework began since it asked for something before, and for this; 0 where that is not told. */
uint32_t ech_op_operators(const EchTrace *trace, const EchOp *op);
/** @launch, an operation's, or "", of which ech_op_operators() tells @operators. Owned by the caller. */
char *ech_launch_with_operators(const char *launch, uint64_t operators) G_GNUC_WARN_UNUSED_RESULT;
/** How much the thread that asked for this had asked of other devices since it asked this one for something before, and since it waited last; *ret_operators:
 * as above, of all that. 0 of a program on one device. */
uint32_t ech_op_elsewhere(const EchTrace *trace, const EchOp *op, uint32_t *ret_operators);
const char *ech_op_kind_name(EchOpKind kind);
const char *ech_dtype_name(EchDtype dtype);
/** Bits of an element (4 for s4); 0 for none, token and tuple. */
unsigned ech_dtype_bits(EchDtype dtype);
/** Dtype by name, ECH_DTYPE_NONE if unknown. */
EchDtype ech_dtype_parse(const char *name, size_t length);
const char *ech_role_name(EchRole role);
const char *ech_collective_name(EchCollective collective);
const char *ech_origin_name(EchOrigin origin);

EchTraceBuilder *ech_trace_builder_new(const char *format) G_GNUC_WARN_UNUSED_RESULT;
/** A builder filled with everything @trace holds, for passes that change a little. */
EchTraceBuilder *ech_trace_builder_new_from(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
void ech_trace_builder_free(EchTraceBuilder *builder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTraceBuilder, ech_trace_builder_free)

/** Interns (returns the same id for the same text). @length: most bytes of it, < 0 for no limit; a text ends at its first zero byte. */
EchId ech_trace_builder_string(EchTraceBuilder *builder, const char *text, gssize length);
/** Text of an interned string; "" for ECH_NONE. Borrowed until the next string is interned. */
const char *ech_trace_builder_peek_string(const EchTraceBuilder *builder, EchId string);
/** Interns a memory by name. */
EchId ech_trace_builder_memory(EchTraceBuilder *builder, const char *name);
EchId ech_trace_builder_queue(EchTraceBuilder *builder, const char *name, EchQueueKind kind, uint32_t device);
/** Initialisers with every "none" value set. */
EchBuffer ech_buffer_init(void);
/** The buffer that @id is a view of, through those between; itself where it is none. *@ret_offset, if not NULL: where in that it begins. */
EchId ech_buffer_root(const EchBuffer *buffers, EchId id, uint64_t *ret_offset);
EchOp ech_op_init(EchOpKind kind);
/** Appends; slice fields of @op are set here, by the use/dep/work calls that follow it until the next op. */
EchId ech_trace_builder_buffer(EchTraceBuilder *builder, EchBuffer buffer);
EchId ech_trace_builder_op(EchTraceBuilder *builder, EchOp op);
void ech_trace_builder_use(EchTraceBuilder *builder, EchId buffer, EchAccess access, EchBytes bytes, EchPattern pattern, EchOrigin origin);
void ech_trace_builder_dep(EchTraceBuilder *builder, EchId op, uint32_t distance);
void ech_trace_builder_work(EchTraceBuilder *builder, EchWorkUnit unit, EchDtype dtype, uint64_t count, EchOrigin origin);
/** Borrowed until the next append: to fix up what is learnt later (a loop's body length, a buffer's address). */
EchOp *ech_trace_builder_peek_op(EchTraceBuilder *builder, EchId op);
EchBuffer *ech_trace_builder_peek_buffer(EchTraceBuilder *builder, EchId buffer);
/** @use counts uses of all ops, as EchOp.first_use does. */
EchUse *ech_trace_builder_peek_use(EchTraceBuilder *builder, uint32_t use);
/** @dep counts likewise. */
EchDep *ech_trace_builder_peek_dep(EchTraceBuilder *builder, uint32_t dep);
size_t ech_trace_builder_n_ops(const EchTraceBuilder *builder);
size_t ech_trace_builder_n_buffers(const EchTraceBuilder *builder);
size_t ech_trace_builder_n_queues(const EchTraceBuilder *builder);
void ech_trace_builder_set_property(EchTraceBuilder *builder, const char *key, const char *value);
void ech_trace_builder_printf_property(EchTraceBuilder *builder, const char *key, const char *format, ...) G_GNUC_PRINTF(3, 4);
/** Takes away the properties whose keys begin with @prefix. */
void ech_trace_builder_drop_properties(EchTraceBuilder *builder, const char *prefix);
/** Verifies V1..V17 and consumes the builder's contents. NULL and ECH_ERROR_VERIFY naming the invariant and the op. The builder
 * must still be freed. */
EchTrace *ech_trace_builder_finish(EchTraceBuilder *builder, GError **error) G_GNUC_WARN_UNUSED_RESULT;
