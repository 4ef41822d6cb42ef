/** @file cuda_private.h
 * What the files of the CUDA engine share: its state, and what they do for each other. Short type names, because nothing else includes it.
 *
 * In the order in which a replay meets them: cuda.c opens the GPU and closes it, cuda_scale.c makes a trace smaller that is larger than the card, cuda_plan.c
 * says what a trace needs of the machine and takes what is held throughout, cuda_measure.c repeats the replay and reads the clock, cuda_issue.c fills the
 * streams, cuda_memory.c gives buffers their bytes and takes them back, cuda_work.c does what kernels and copies do, cuda_verify.c looks whether memory kept
 * its content.
 *
 * Every function that returns bool returns false with @error set (ECH_ERROR_BACKEND unless it says otherwise); what was reached by then is given back by
 * cuda.c.
 */
#pragma once
#include "models/alloc/alloc.h"
#include "sim/replay/cuda.h"

/* A buffer of the trace on the machine. */
typedef struct {
    EchCuPointer device;                                           /* 0: none */
    void *host;                                                    /* Pinned or pageable */
    EchBytes bytes;                                                /* 0: an alias, or nothing */
    uint64_t offset;                                               /* In the block of its memory, where fixed */
    EchCuMapping mapping;                                          /* alloc=vmm */
    uint32_t range;                                                /* alloc=arena: the allocator's id of what it was given */
    uint8_t is_host, pinned, written, live, fixed, overlaps, kept; /* kept: host memory that lives from set-up to the end */
} Place;

/* What buffers with fixed offsets share: one block per memory of the trace. */
typedef struct {
    EchCuPointer device;
    void *host;
    EchBytes bytes;
} Block;

/* What a FREE has given back, from the point on that @queue has reached at @end. */
typedef struct {
    uint32_t range; /* Of the arena; ECH_NONE: the driver's pool knows */
    EchId queue;
    EchCuEvent end;
    bool released; /* To the allocator, for the same queue; others wait for the end */
} Freed;

/* The events of the instances of an op in this replay, in order of issue, made once and used again in every replay: where it is timed begin[n] and end[n]
 * around each, else over[n], without time, where another queue waits for it. */
typedef struct {
    EchCuEvent *begin, *end, *over; /* [room]; NULL: not made yet */
    uint64_t n, room;
} Instances;

typedef struct {
    const EchTrace *trace;
    const EchDevice *device;
    const EchCudaOptions *options;
    const EchCuDriver *cu;
    EchCuGpu gpu;
    EchPrices *prices;
    EchCudaRun *run;

    /* Work */
    EchCuModule module;
    EchCuFunction stream_kernel, fma_kernel, mma_kernel, spin_kernel, verify_kernel, noise_kernel;
    const EchCuBlas *blas; /* NULL: no product, or no cuBLAS */
    EchCuBlasHandle blas_handle;
    EchCuPointer *workspaces; /* One per queue that multiplies, else 0: what runs side by side must not share one */
    size_t workspace_bytes;
    EchCuPointer scratch; /* Traffic of kernels without buffers, and of copies without buffers: two halves */
    EchBytes scratch_bytes;
    EchBytes cursor; /* Where the next kernel streams from, so that kernels do not find their bytes in the cache, nor those of the replay before */
    EchBytes host_scratch_bytes[2]; /* Pageable and pinned; 0: no copy needs it */
    void *host_scratch[2];
    EchCuPointer sink;
    uint64_t n_clipped;  /* Kernels that moved less than they should */
    uint64_t n_reshaped; /* Products of another shape than the trace's */

    /* Memory */
    Place *places; /* One per buffer */
    Block *blocks; /* One per memory of the trace */
    EchCuPointer arena;
    EchAllocator *allocator;
    uint32_t next_range;
    GArray *freed;                 /* Freed whose end has not come yet as far as is known */
    bool several_queues;           /* Allocate and free */
    bool synchronous;              /* The driver stops for allocations on the way, so nothing can be issued ahead */
    size_t free_before, free_idle; /* Before and after set-up */
    bool noting;                   /* Memory is looked at in this replay */
    EchBytes extent;               /* alloc=arena: highest end of a buffer in this replay */
    GArray *extents;               /* And of those done: EchTime, for their median */
    double fitting;                /* Above 0: the trace did not fit, and would at this scale */

    /* Streams */
    EchCuStream *streams; /* One per queue, at least one */
    size_t n_streams;
    EchCuEvent *done; /* Per stream, for the end of a replay */
    EchCuEvent base;  /* The replay's beginning */
    EchCuEvent first; /* The first measured replay's */
    Instances *instances;
    bool *needed;    /* Ops that another queue waits for: their end always needs an event */
    GArray *marks;   /* EchCuEvent without time: begins and ends of loops, frees; in order of issue, made once and used again in every replay */
    guint n_marks;   /* Of this replay */
    bool timed;      /* This replay records events around every op; the others only where queues wait, for the makespan */
    uint64_t issued; /* Instances of this replay */

    /* Measuring */
    EchGpuWatch *watch;                  /* NULL: no NVML */
    uint64_t n_replays;                  /* Done */
    EchTime replayed;                    /* By them, their makespans */
    uint64_t works, works_before;        /* Instances that take the GPU's time, in this replay and in the one before */
    uint64_t n_late;                     /* Measured replays that were issued no faster than the GPU ran them */
    gint64 issue_begin;                  /* When the issuing of this replay began, later by what the host waited since */
    gint64 issue_us[2];                  /* How long it took at best, without and with events around every op; 0 before that is known */
    EchCuEvent head;                     /* Behind the newest head start */
    uint64_t behind_head;                /* Of works since that */
    bool late;                           /* The GPU has been through a head start before all that it was for had been issued */
    EchTime gap;                         /* Between two events with nothing between them: taken off what is measured of an op */
    EchTime kernel_gaps[ECH_CUDA_GAPS];  /* The same of a kernel: what one between two events takes more than one of many in a row, */
    EchTime kernel_spans[ECH_CUDA_GAPS]; /* where it is so long between them, ascending */
    size_t n_kernel_gaps;
    EchTime spin_extra;           /* What a kernel that waits takes beyond launch and time asked for: the device's clock has steps */
    GArray **durations, **starts; /* Per op: EchTime, one a repeat */
} Engine;

/* A call of the driver's table while doing @what. */
#define CU(e, member, what, error, ...) ech_cuda_check((e)->cu, (e)->cu->member(__VA_ARGS__), #member, what, error)

/* Waits until the GPU has nothing left to do. */
static inline bool synchronize(Engine *e, GError **error)
{
    return ech_cuda_check(e->cu, e->cu->context_synchronize(), "cuCtxSynchronize", "waiting for the GPU", error);
}

/* What is there before a program begins and after it stays for its next step, and is not the driver's again in between: memory given back is cleared behind the
 * scenes, which slows what runs meanwhile. An allocator of ours, or the pool, begins every replay empty. */
static inline bool ech_cuda_stays(const Engine *e, EchId buffer)
{
    return ech_trace_buffers(e->trace)[buffer].resident && !e->options->graph && e->options->alloc != ECH_CUDA_ALLOC_ARENA &&
           e->options->alloc != ECH_CUDA_ALLOC_ASYNC;
}

/* ---- cuda_scale.c ---- */

/** A trace with every size times @scale, operations as they are; ECH_ERROR_VERIFY. */
EchTrace *ech_cuda_scale_trace(const EchTrace *trace, double scale, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* ---- cuda_plan.c ---- */

/** Whether a memory of the trace is the host's, and of that pinned, by its name. */
bool ech_cuda_is_host(const EchTrace *trace, EchId memory);
bool ech_cuda_is_pinned(const EchTrace *trace, EchId memory);
/** Says of every buffer where it lives, and takes what is held from set-up to the end: blocks, arena, scratch. ECH_ERROR_UNSUPPORTED where the trace does not
 * fit, with @e->fitting set to the scale at which it might. */
bool ech_cuda_plan_memory(Engine *e, GError **error);

/* ---- cuda_memory.c ---- */

/** Host memory, touched. */
bool ech_cuda_take_host(Engine *e, EchBytes bytes, bool pinned, void **ret, GError **error);
bool ech_cuda_give_host(Engine *e, void *host, bool pinned, GError **error);
/** Gives a buffer its bytes as @queue asks for them; nothing where it has them. */
bool ech_cuda_place_buffer(Engine *e, EchId id, EchId queue, GError **error);
/** Takes them back at once, whatever state the buffer is in; a pool's from @stream. */
bool ech_cuda_release_buffer(Engine *e, EchId id, EchCuStream stream, GError **error);
/** A FREE in the trace: at once, but of an arena or a pool when its queue has come to it. */
bool ech_cuda_free_buffer(Engine *e, EchId id, EchId queue, GError **error);
/** After a replay, when nothing runs: the arena has back all that was freed. */
void ech_cuda_settle_all(Engine *e);
/** Looks how much the driver has given out, in the one replay that does so. */
bool ech_cuda_note_memory(Engine *e, GError **error);

/* ---- cuda_work.c ---- */

/** Loads the kernels and cuBLAS where the trace multiplies matrices; everything has run once when this returns, for code takes memory and time then. */
bool ech_cuda_start_work(Engine *e, GError **error);
/** Whether the trace has products that the device's power slows down once they have run for a while. */
bool ech_cuda_heats(const Engine *e);
/** Fills the scratch with what products multiply. */
bool ech_cuda_fill_scratch(Engine *e, GError **error);
bool ech_cuda_launch(Engine *e, EchCuFunction function, unsigned blocks, unsigned threads, EchCuStream stream, void **parameters, GError **error);
/** A kernel that waits for @time, one that does nothing, and one that does @operations of vector arithmetic. */
bool ech_cuda_issue_spin(Engine *e, EchTime time, EchCuStream stream, GError **error);
bool ech_cuda_issue_empty(Engine *e, EchCuStream stream, GError **error);
bool ech_cuda_issue_vector(Engine *e, uint64_t operations, EchCuStream stream, GError **error);
/** A kernel that reads so many bytes of scratch, of those that none just before it has read. */
bool ech_cuda_issue_reads(Engine *e, EchBytes bytes, EchCuStream stream, GError **error);
/** What bounds the kernel @at, and the bytes of a copy. */
bool ech_cuda_issue_kernel(Engine *e, EchId at, const EchOp *op, EchCuStream stream, GError **error);
bool ech_cuda_issue_copy(Engine *e, const EchOp *op, EchCuStream stream, GError **error);

/* ---- cuda_issue.c ---- */

/** The whole trace, loops expanded. ECH_ERROR_UNSUPPORTED: more instances than allowed. */
bool ech_cuda_issue_all(Engine *e, GError **error);
/** Every stream waits for the base event, so that all start together; afterwards the first stream waits for all. */
bool ech_cuda_fork_streams(Engine *e, GError **error);
bool ech_cuda_join_streams(Engine *e, GError **error);
/** An event without time that @stream has come to this point. */
bool ech_cuda_next_mark(Engine *e, EchCuStream stream, EchCuEvent *ret, GError **error);

/* ---- cuda_measure.c ---- */

/** Before an op: where as much has been issued as a queue of the driver's takes, waits until it is done and begins a new head start. */
bool ech_cuda_keep_ahead(Engine *e, GError **error);
/** Warm-ups and repeats; fills the run. */
bool ech_cuda_replay_all(Engine *e, GError **error);

/* ---- cuda_verify.c ---- */

/** Fills a buffer with a pattern before a replay, where nothing of the trace writes it. */
bool ech_cuda_poison_buffer(Engine *e, EchId id, GError **error);
/** After a replay: counts words of resident buffers that are not the pattern any more. */
bool ech_cuda_verify_buffers(Engine *e, GError **error);
