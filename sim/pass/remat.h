/** @file remat.h
 * Rematerialisation planned: which arrays of a trace could be made again instead of being kept, and what would have to run again for it.
 *
 * An array that a program makes and comes back to much later is let go in between; before it is needed the op that made it runs again, after those that make
 * what that op reads and what is gone by then too. Of what a loop stacks up slice by slice for a later loop to take slice by slice (a scan and its
 * gradient), nothing is kept: the later loop makes its slice each iteration. Where that begins with what one iteration hands to the next, that is stacked
 * instead, as is what a product gives where those are to be kept. What it would be made of and cannot be made again itself, weights in a smaller type whose
 * originals have been updated by then, say, stays for it. An op runs again once at most: what it made stays until nobody needs it any more. A loop that made an
 * array on its own runs again whole, on buffers of its own: what its iterations change begins as it began at first.
 */
#pragma once
#include "sim/pass/survey.h"

/** Bytes up to which an input is no array but an index, a counter, a scale: the later loop has its own. What a scalar takes on a TPU. */
#define ECH_REMAT_SMALL 512

/** Times that a compiler asked for jax.checkpoint takes what a compiled program's pass says, at most, as text: 1.2 of some 60 training steps
 * (traces/capture/examples/checkpointed.py; validation/what_ifs.md) all but four: two state spaces, whose scans it schedules for speed, and two Llamas block
 * after block, of whose loss it keeps what the pass makes again. 1.4 where a TPU's compiler had to make arrays again itself: of 30 such steps, refused, six
 * took 1.4 to 1.9 times. */
const char *ech_remat_margin(const EchTrace *trace);
/** The same of modules that are parts of a graph of torch.compile's, which decides itself when gradients are computed: 14 steps 0.8 to 1.3 times. */
#define ECH_REMAT_GRAPH_MARGIN "1.3"
/** And of what takes what is told. */
#define ECH_REMAT_APART "modules compiled one at a time (module.compile()) take what is told"

typedef enum {
    ECH_REMAT_OK,
    ECH_REMAT_ALIASED,
    ECH_REMAT_REMADE,
    ECH_REMAT_PARTS,
    ECH_REMAT_COPIED,
    ECH_REMAT_SENT,
    ECH_REMAT_GONE,
    ECH_REMAT_PRODUCT,
    ECH_REMAT_DEEP,
    ECH_REMAT_LONG,
    ECH_REMAT_OUTSIDE,
    ECH_REMAT_N_REASONS
} EchRematReason;

/** An array that is kept for later. */
typedef struct {
    EchId buffer, level; /**< level: the LOOP that makes one an iteration, or ECH_NONE. */
    EchId source;        /**< Where it is made: buffer itself, or of a stack that is turned round between its loops, the one that is turned. */
    EchId alloc, free;   /**< ECH_NONE: never. */
    EchId maker;         /**< The op that made what is kept; a LOOP whose iterations did together. */
    EchId made_in;       /**< Of a stack: the LOOP whose iterations make a slice each, or ECH_NONE. */
    EchId used_in;       /**< Of a stack: the LOOP whose iterations take one each. */
    EchBytes slice;      /**< Of a stack; else all of it. */
    EchId gone;          /**< It is let go before this op; a stack is never there. */
    EchId back;          /**< It must be there again before this op. */
    EchId until;         /**< Nobody needs it from this op on. */
    EchTime pause;       /**< Of none that is a stack: how long the core is busy while nobody needs it. */
    double price;        /**< Time that making it again takes, a byte. */
    bool chosen, tried;
    uint32_t stand; /**< When planned: what stands for it from back on, an EchRematInput. */
} EchRematArray;

typedef enum {
    ECH_REMAT_DIRECT, /**< A buffer that is there. */
    ECH_REMAT_KEPT,   /**< A buffer that stays longer for this: what it was made of is overwritten by then. */
    ECH_REMAT_VALUE,  /**< Made again. */
    ECH_REMAT_CARRY,  /**< Carried into a loop. */
} EchRematInputKind;

/** What a repeated op, or a late user, reads. */
typedef struct {
    EchRematInputKind kind;
    uint32_t id; /**< The buffer; an EchRematValue; an EchRematCarry. */
    EchBytes bytes;
} EchRematInput;

/** An output of a repeated op. */
typedef struct {
    EchId op, buffer; /**< The op, and the buffer it stood in at first. */
    EchId region;     /**< Where it is made again: a LOOP or ECH_NONE. */
    EchBytes bytes;
    uint32_t run;      /**< The EchRematRun that makes it. */
    uint32_t last_run; /**< The last that reads it, or run itself. */
    EchId until;       /**< No op of the trace reads it from this one on; 0: only repeated ops do. */
    uint32_t next;     /**< Of the same run, or UINT32_MAX. */
    uint32_t over;     /**< What an op before wrote of it, to which this adds where it is: a value that nobody else reads, or UINT32_MAX. */
    uint64_t offset;   /**< Its place in on-chip memory, or ECH_OFFSET_NONE: it is in device memory. */
    EchId made;        /**< Writing: its buffer. */
    EchId made_by;     /**< Writing: the op. */
} EchRematValue;

/** What stands, while a loop runs again, for an array from outside of it. */
typedef struct {
    EchId buffer;
    uint32_t first_input, n_inputs; /**< What it is read from, or, where the loop writes it, begins as: nothing, if there are none. */
    uint32_t value;                 /**< Where the loop writes it, its value; else UINT32_MAX. */
} EchRematBinding;

/** An op that runs again. */
typedef struct {
    EchId op, region;
    EchId site; /**< Before this op. */
    uint32_t first_input, n_inputs;
    uint32_t first_binding, n_bindings; /**< Of a LOOP. */
    uint32_t value;                     /**< First of its values. */
    EchBytes inside;                    /**< Of a LOOP: most bytes that its iterations have of their own. */
    bool fused;                         /**< It runs inside those that read it: nothing of it is stored. */
} EchRematRun;

/** An array that is there before a loop, or stays after it. */
typedef struct {
    EchId buffer;
    EchBytes read; /**< By an op of the body, the most. */
    bool written;
    bool begins; /**< The body reads, or leaves a part of, what was there before it wrote. */
} EchRematOutside;

/** What running a loop again takes. */
typedef struct {
    GArray *outside;    /**< EchRematOutside: by where the body first uses them. */
    EchRematReason why; /**< It cannot; else ECH_REMAT_OK. */
    EchBytes inside;    /**< Most bytes of buffers that an iteration has of its own. */
} EchRematLoop;

/** Where a buffer of a repeated loop's own lies in on-chip memory. */
typedef struct {
    uint32_t run;
    EchId buffer;
    uint64_t offset;
} EchRematPlace;

/** What is to be stacked of each iteration of a loop: what one hands to the next, or what it makes and keeps. */
typedef struct {
    EchId buffer, made_in, used_in;
    EchId after;    /**< The op of the body that makes it; ECH_NONE: it is there when an iteration begins. */
    EchBytes bytes; /**< Of a slice. */
    EchId made;     /**< Writing: the stack. */
} EchRematCarry;

/** A buffer that stays longer than it did. */
typedef struct {
    EchId buffer, until; /**< It is let go before op until, at its own level. */
} EchRematLonger;

/** What runs again though nobody asks for what it makes, as what was compiled as one does: what @op makes of @buffer, before op @site. */
typedef struct {
    EchId op, buffer, site;
} EchRematAlong;

/** Which arrays may be made again. */
typedef struct {
    const char *names; /**< Those that fit this pattern, */
    const char *keep;  /**< but not those that fit this one, unless it is empty; */
    EchBytes above;    /**< of at least this size. */
    bool products;     /**< Whether matrix products may run again; */
    bool nested;       /**< only what loops inside of others stack up. */
} EchRematAsked;

/** What a plan is made of, and the plan. */
typedef struct {
    const EchSurvey *s;
    EchRematAsked asked;
    EchUsers users, writers;
    EchId *alloc, *free; /**< Per buffer: the op, or ECH_NONE. */
    EchId *first_within; /**< Per buffer: of the ops that let it go, and ask for it again, in loops below it, the first, or ECH_NONE; */
    EchId *last_within;  /**< and the last. */
    GArray *arrays;      /**< EchRematArray */
    uint32_t *array_of;  /**< Per buffer, sources too; UINT32_MAX: none. */
    EchId *slice_of;     /**< Per buffer that is a copy of an iteration's slice of a stack, or of such a copy: the stack; ECH_NONE. */
    bool *is_gathered;   /**< Per buffer: what fully_shard (FSDP) gathered a weight in, of a unit of modules, once; */
    EchId *gathered;     /**< and what it gathered the same in the next time, or ECH_NONE. */
    GArray *along;       /**< EchRematAlong, by site. */
    GStrv modules;       /**< Patterns of those that are made again, NULL-terminated; NULL: arrays are chosen one by one. */
    bool in_graph;       /**< Modules are made again inside of a graph that torch.compile made of more than them. */
    bool *wanted;        /**< Per buffer, by the plan: what runs again reads it where it is. */
    EchId fullest;       /**< The op before which the device holds most, as the trace is. */
    /** Arrays that are there then and cannot be made again, by reason. */
    uint32_t declined[ECH_REMAT_N_REASONS];
    EchBytes declined_bytes[ECH_REMAT_N_REASONS];
    GHashTable *loops;                                   /**< LOOP -> EchRematLoop, of those that were asked for. */
    GArray *runs, *values, *inputs, *bindings, *carries; /**< The plan for the arrays that are chosen. */
    GArray *longer;                                      /**< EchRematLonger */
    uint32_t *longer_of;                                 /**< Per buffer; UINT32_MAX: none. */
    GHashTable *stays;                                   /**< Buffers that could not be made again. */
    GArray *order;                                       /**< uint32_t: runs by site, what makes an input first. */
    GArray *places;                                      /**< EchRematPlace: by run in that order. */
    GHashTable *value_of;                                /**< Op, buffer and region -> value + 1. */
    GHashTable *run_of;                                  /**< Op and region -> run + 1. */
} EchRemat;

/** An op that, by the plan, uses what stands for an array, and the name that the array goes by there: its own, or that of a copy of its slice. */
typedef struct {
    EchId op, buffer;
} EchRematUser;

static inline EchRematArray *ech_remat_array(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->arrays, EchRematArray, k);
}

static inline EchRematRun *ech_remat_run(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->runs, EchRematRun, k);
}

static inline EchRematValue *ech_remat_value(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->values, EchRematValue, k);
}

static inline EchRematInput *ech_remat_input(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->inputs, EchRematInput, k);
}

static inline EchRematBinding *ech_remat_binding(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->bindings, EchRematBinding, k);
}

static inline EchRematLonger *ech_remat_longer(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->longer, EchRematLonger, k);
}

static inline EchRematCarry *ech_remat_carry(const EchRemat *remat, uint32_t k)
{
    return &g_array_index(remat->carries, EchRematCarry, k);
}

/** Finds what could be made again; must be cleared. @survey and the texts of @asked are borrowed. */
void ech_remat_init(EchRemat *remat, const EchSurvey *survey, const EchRematAsked *asked);
void ech_remat_clear(EchRemat *remat);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchRemat, ech_remat_clear)

/** Only arrays k with kept[k] are to choose from. */
void ech_remat_keep_arrays(EchRemat *remat, const bool *kept);
/** Counts an array that cannot be made again, if it is there when the device holds most. */
void ech_remat_decline(EchRemat *remat, const EchRematArray *array, EchRematReason why);
/** Begins a plan. */
void ech_remat_reset(EchRemat *remat);
/** Adds to the plan what making @array again takes; @ret_stand is what stands for it then. */
EchRematReason ech_remat_bring_back(EchRemat *remat, const EchRematArray *array, EchRematInput *ret_stand);
/** Whether @buffer still holds before op @site what it held after op @from; after a LOOP: when its first iteration begins. */
bool ech_remat_is_there(const EchRemat *remat, EchId buffer, EchId from, EchId site);
/** The last op of @op: itself, or of a LOOP's body the last. */
static inline EchId ech_remat_last_of(const EchSurvey *survey, EchId op)
{
    return ech_survey_after(survey, op) - 1;
}
/** Whether @op passes something between two ranks of a program, each of which does something of its own: the other would have to do it again, too. */
bool ech_remat_is_message(const EchSurvey *survey, EchId op);
/** Whether @buffer is one that the iterations of @loop, or of loops in it, have of their own. */
bool ech_remat_is_inside(const EchSurvey *survey, EchId buffer, EchId loop);
/** Bytes of the largest write of @op to @buffer; of a LOOP, of all of them, no more than the buffer has. */
EchBytes ech_remat_written(const EchRemat *remat, EchId op, EchId buffer);
/** What running @loop again takes; borrowed. */
const EchRematLoop *ech_remat_loop(EchRemat *remat, EchId loop);
/** What reads what @input stands for has to read and do: @ret_inputs (EchRematInput), each once; @ret_ops (EchId): the ops fused into it. Both are added to. */
void ech_remat_gather(const EchRemat *remat, const EchRematInput *input, GArray *ret_inputs, GArray *ret_ops);
/** The same for all inputs of run @run. */
void ech_remat_gather_run(const EchRemat *remat, uint32_t run, GArray *ret_inputs, GArray *ret_ops);
/** Lets what compilers fuse run inside what reads it, of a plan for the arrays @chosen. */
void ech_remat_fuse(EchRemat *remat, const GArray *chosen);
/** The same, on a GPU, of ops of loops that stay in their places but whose readers, or what they read, are others by the plan: how many. They are added to it,
 * as runs of their own, to @dropped (per op), and what stands for what they made to @stands (per buffer: an EchRematInput or UINT32_MAX). */
uint32_t ech_remat_fuse_left(EchRemat *remat, bool *dropped, uint32_t *stands);
/** @buffer stays until op @until - 1, or the loop at its level that this is in, is over. */
void ech_remat_keep_longer(EchRemat *remat, EchId buffer, EchId until);

/** Plans that what @along says runs again; what cannot, does not. */
void ech_remat_make_along(EchRemat *remat, const EchRematAlong *along);

/** Order of arrays (uint32_t) by when they must be there again; @remat is the EchRemat. */
gint ech_remat_compare_back(gconstpointer x, gconstpointer y, gpointer remat);
/** Plans for the arrays that are chosen; the reason where one cannot be made. */
EchRematReason ech_remat_plan(EchRemat *remat);
/** The same for @array alone, where none is chosen. */
EchRematReason ech_remat_plan_alone(EchRemat *remat, uint32_t array);
/** Appends those that use what stands for chosen @array (EchRematUser). A copy of a slice that is made again in that place is none: what reads it does. */
void ech_remat_late_users(const EchRemat *remat, const EchRematArray *array, GArray *ret_users);
/** Of a kernel that does nothing but copy, where it copies @buffer to, or, @back, what it copies there; ECH_NONE. Of several copies in one kernel they are told
 * by their order. */
EchId ech_remat_copied(const EchSurvey *survey, EchId op, EchId buffer, bool back);
/** Appends the buffers (EchId) that what stands for chosen @array would only be copied to. */
void ech_remat_copies(const EchRemat *remat, const EchRematArray *array, GArray *ret_copies);
/** The buffer that op @op would only copy what stands for chosen @array to, so that it is left out; ECH_NONE. */
EchId ech_remat_left_out(const EchRemat *remat, const EchRematArray *array, EchId op);
/** What the device holds before each op by the plan: @ret_live[survey->n + 1]. Returns the most. */
int64_t ech_remat_live(const EchRemat *remat, int64_t *ret_live);
/** Most bytes of what is made again that there are at once. */
EchBytes ech_remat_at_once(const EchRemat *remat);
/** The value that what a loop changes begins as by @binding, where loop run @run alone reads it, once: it is changed where it is. Else NULL. */
EchRematValue *ech_remat_taken_over(const EchRemat *remat, uint32_t run, const EchRematBinding *binding);
/** Time that the plan's repeated ops take in one pass over the trace. */
EchTime ech_remat_time(const EchRemat *remat);
/** How long the core is busy in one pass over the trace by the plan, kernels by their own times. The plan's places on chip are found anew. */
EchTime ech_remat_measure(EchRemat *remat);
/** Gives values, and what loops that run again had there of their own, places in what the compiler has left of on-chip memory @memory while they are
 * needed. */
void ech_remat_place_on_chip(EchRemat *remat, EchId memory, EchBytes capacity);

/** Finds what fully_shard gathers again and again. */
void ech_remat_find_gathered(EchRemat *remat);
/** Of what it gathered in @buffer, what is there at op @site; ECH_NONE. */
EchId ech_remat_gathered_at(const EchRemat *remat, EchId buffer, EchId site);
/** Chooses all that a forward pass makes within modules whose path fits one of @modules, but their results. False where no module fits. */
bool ech_remat_choose_modules(EchRemat *remat, const char *modules);
/** The trace, owned, in which what such modules are given stays until their backward pass is over, as torch.utils.checkpoint keeps it; and what their matrix
 * products make unless @products, which may run again then, as create_selective_checkpoint_contexts keeps it. */
EchTrace *ech_remat_keep_inputs(const EchSurvey *survey, const char *modules, bool products, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** The trace by the plan; owned. Says what was done. */
EchTrace *ech_remat_write(EchRemat *remat, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
