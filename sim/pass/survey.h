/** @file survey.h
 * A trace as passes that move copies and buffers about look at it: which loop an op stands in, when the computing queue comes to it, what the device memory
 * holds by then. And the writing of a changed one: ops in their order, with others put between them.
 */
#pragma once
#include "models/device/device.h"
#include "sim/trace/trace.h"

typedef struct {
    const EchTrace *t;
    const EchDevice *device; /**< May be NULL. */
    const EchMemory *tier;   /**< Of the device: what goes to the host goes there; NULL: to what is the host's. */
    const EchOp *ops;
    const EchUse *uses;
    const EchDep *deps;
    const EchBuffer *buffers;
    size_t n; /**< Ops. */
    size_t n_buffers;
    EchId hbm, core; /**< The device's memory, and the first computing queue that has kernels. */
    EchId *region;   /**< region[n + 1]: the LOOP around an op, or ECH_NONE. */
    EchId *end;      /**< end[n + 1]: of a LOOP, the first op after its body. */
    EchTime *clock;  /**< clock[n + 1]: when the core comes to an op, each loop run once before it is passed; what a WAIT waits is not in it. */
    EchBytes *live;  /**< live[n + 1]: bytes of hbm taken before an op. */
    bool *is_stack;  /**< is_stack[n_buffers + 1]: see ECH_STACKS. */
} EchSurvey;

/** False where the trace has no memory "hbm", or no queue that computes; must be cleared all the same. */
bool ech_survey_init(EchSurvey *survey, const EchTrace *trace, const EchDevice *device);
void ech_survey_clear(EchSurvey *survey);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchSurvey, ech_survey_clear)

/** How long the core is busy with an op: its estimate, what was recorded, else its roofline. 0 for all but the core's kernels. */
EchTime ech_survey_length(const EchSurvey *survey, EchId op);
/** Bytes of the device memory that an op reads and writes. */
EchBytes ech_survey_moved(const EchSurvey *survey, EchId op);
/** How long the device memory takes for @bytes, and the device for an op's operations, each unit at its peak; 0 without a device. */
EchTime ech_survey_hbm_time(const EchSurvey *survey, EchBytes bytes);
EchTime ech_survey_work_time(const EchSurvey *survey, EchId op);
/** The op directly in @region that @op is, or is part of; ECH_NONE if it is outside. */
EchId ech_survey_at_level(const EchSurvey *survey, EchId op, EchId region);
/** The buffer that is no alias behind @buffer; ECH_NONE for ECH_NONE. */
EchId ech_survey_root(const EchSurvey *survey, EchId buffer);
/** That behind what use @use is of; uses count as EchOp.first_use does. */
static inline EchId ech_survey_used(const EchSurvey *survey, uint32_t use)
{
    return ech_survey_root(survey, survey->uses[use].buffer);
}
/** Whether a memory of the trace is the host's. */
bool ech_survey_is_host(const EchSurvey *survey, EchId memory);
/** The name of the memory that what goes to the host goes to: the tier, else its pinned one; "host" without a device. */
const char *ech_survey_host_memory(const EchSurvey *survey);
/** How long the link to that memory takes for a copy that has it alone; 0 without a device. */
EchTime ech_survey_copy_time(const EchSurvey *survey, EchBytes bytes, bool to_device);
/** The same of a copy from memory @from of the trace to the device's, whichever link joins those. */
EchTime ech_survey_fetch_time(const EchSurvey *survey, EchId from, EchBytes bytes);
/** What op @op does with @buffer or parts of it that go by other names: bytes of its largest use, whether it reads it, whether it writes it. */
EchBytes ech_survey_access(const EchSurvey *survey, EchId op, EchId buffer, bool *ret_reads, bool *ret_writes);
/** Whether an op multiplies matrices. */
bool ech_survey_has_products(const EchSurvey *survey, EchId op);
/** Whether the place that the compiler gave @part on chip is within that of @whole, which is larger; */
bool ech_survey_lies_inside(const EchSurvey *survey, EchId part, EchId whole);
/** and both belong to the same loop. */
bool ech_survey_is_inside(const EchSurvey *survey, EchId part, EchId whole);
/** Whether @buffer, asked for where @old is let go, begins in its place with what it held: all of it, or as one of several parts. */
bool ech_survey_begins_in_place(const EchSurvey *survey, EchId old, EchId buffer);
/** The first op after an op at its level: past the body of a LOOP. */
EchId ech_survey_after(const EchSurvey *survey, EchId op);
/** A name that stands for the results of products (ECH_PRODUCT_RESULT). */
#define ECH_PRODUCTS "products"
/** A name that stands for what a loop writes a slice of each iteration, and one reads slices of: what jax.lax.scan keeps of layers for their gradients. */
#define ECH_STACKS "stacks"
/** Whether the name of @buffer, its role, or a line of what it is known by (argument, operation, source, module), fits @pattern, "*" standing for anything; or
 * ECH_PRODUCTS, or ECH_STACKS. */
bool ech_survey_fits_name(const EchSurvey *survey, EchId buffer, const char *pattern);
/** What its arguments are called ("state[0][1]"), where no buffer's name fits @pattern; else NULL. Free with g_ptr_array_unref. */
GPtrArray *ech_survey_unnamed(const EchSurvey *survey, const char *pattern);
/** How often one pass over the trace runs an op: trip counts of the loops around it multiplied, saturating. */
uint64_t ech_survey_runs(const EchSurvey *survey, EchId op);

/** Whether a compiler gave places in the device memory. */
bool ech_survey_has_places(const EchSurvey *survey);

/** What XLA calls an instruction that it made again has this after the first one's name. */
#define ECH_REMADE ".remat"
/** Whether a TPU's compiler had to make arrays of the program again itself to come down to memory, by its names. */
bool ech_trace_is_remade(const EchTrace *trace);

/** Which ops use a buffer. */
typedef struct {
    uint32_t *first; /**< first[n_buffers + 1]: a buffer's slice of op. */
    EchId *op;       /**< Ascending, each once. */
} EchUsers;

/** Of every buffer; with @roots, uses of parts that go by other names are the whole's; with @writes, only ops that write it. */
void ech_users_init(EchUsers *users, const EchSurvey *survey, bool roots, bool writes);
/** Whether any use is of an array: captures of PyTorch tell how much a kernel moves, but not of which array. */
bool ech_users_of_arrays(const EchUsers *users, const EchSurvey *survey);
/** What is said where none does; of a profile that holds the program, how to take that in its place. Owned by the caller. */
char *ech_users_untold(const EchSurvey *survey) G_GNUC_WARN_UNUSED_RESULT;
void ech_users_clear(EchUsers *users);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchUsers, ech_users_clear)

/** A changed trace under way. */
typedef struct {
    const EchSurvey *survey;
    EchTraceBuilder *builder; /**< Owned by whoever made it. */
    EchId *map;               /**< map[n]: new number of an op; ECH_NONE until it is written. */
    EchId asks;               /**< The queue that asks for memory, PyTorch's host; ECH_NONE: the core's, whatever there is. */
    bool tells_operators;     /**< The trace tells how many operators a framework's host begins (ech_op_operators()). */
    EchId last_core;          /**< The last op written to the core's queue in the body that is open, or ECH_NONE. */
    EchId host;    /**< The queue of PyTorch's host, on which it waits for the device; ECH_NONE: none is told of, or ech_edit_host() was not called. */
    EchId waited;  /**< The WAIT there that was appended last, or ECH_NONE, */
    EchId *heard;  /**< and per queue that which its ops depend on. */
    GArray *ahead; /**< Dependencies on ops that come later in a loop's body; settled last of all. */
} EchEdit;

/** Copies all but ops into @builder: memories, queues, properties but the assignment's, buffers, those of hbm without their fixed places, which hold for the
 * order of the ops as it was. */
void ech_edit_init(EchEdit *edit, const EchSurvey *survey, EchTraceBuilder *builder);
/** The compiler's places hold all the same: for a pass that lets nothing live longer than it did. */
void ech_edit_keep_places(EchEdit *edit);
void ech_edit_clear(EchEdit *edit);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchEdit, ech_edit_clear)
/** A string of the old trace in the new one. */
EchId ech_edit_text(EchEdit *edit, EchId string);
/** An op of the old trace, its strings the new one's; to be appended. */
EchOp ech_edit_op(EchEdit *edit, EchId op);
/** Appends an op of the old trace as it is, with its uses, operations and dependencies. */
void ech_edit_keep(EchEdit *edit, EchId op);
/** ALLOC or FREE of @buffer on the core's queue. */
EchId ech_edit_memory(EchEdit *edit, EchOpKind kind, EchId buffer);
/** Puts a buffer into another memory: what a recording or a compiler said of its place is no more. */
void ech_edit_move_buffer(EchBuffer *buffer, EchId memory);
/** The queue of copies to the host, or from it: the trace's own, or one made for them. */
EchId ech_edit_copy_queue(EchEdit *edit, bool to_host);
/** Copies @bytes of buffer @from to @to, once the core has come here; named as @from is. */
EchId ech_edit_copy(EchEdit *edit, EchId queue, EchId from, EchId to, EchBytes bytes);
/** The operations counts of an old op, a part in @parts of each, for the one appended last. */
void ech_edit_work(EchEdit *edit, EchId op, uint64_t parts);
/** How a kernel that was launched as the old trace's @launch says is launched on a part in @parts of what it works on. */
EchId ech_edit_launch(EchEdit *edit, EchId launch, uint64_t parts);
/** From now on ech_edit_host_wait() has the host wait, where the old trace tells in what order it asked; to be called once all queues are there. */
void ech_edit_host(EchEdit *edit);
/** The host asks for nothing more before @op is done. */
void ech_edit_host_wait(EchEdit *edit, EchId op);
/** The op appended last, of @queue, is asked for after that. */
void ech_edit_asked(EchEdit *edit, EchId queue);
/** @op of the new trace has @operators begun for it, where the old one tells operators. */
void ech_edit_operators(EchEdit *edit, EchOp *op, uint64_t operators);
/** A dependency of an old op, for the one appended last; @more: iterations more. What it depends on may come later in the body, or be left out: then there is
 * none. */
void ech_edit_dep(EchEdit *edit, const EchDep *dep, uint32_t more);
/** Ends the body of a loop, whose new number is @loop. */
void ech_edit_close(EchEdit *edit, EchId loop);
/** Lets the first @n buffers that are made once an iteration name their loops' new numbers, and dependencies what comes later in a body. Last of all. */
void ech_edit_loops(EchEdit *edit, size_t n);
