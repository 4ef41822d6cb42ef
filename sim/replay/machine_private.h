/** @file machine_private.h
 * What the files of the replay state machine share: its state, and the steps that are too small for a call. Short type names, because nothing else includes it.
 *
 * machine_compile.c makes the machine with the tables that do not change while it runs, machine_memory.c gives buffers their bytes and takes them back,
 * machine_loop.c begins and ends iterations and skips steady ones, machine.c runs ops.
 */
#pragma once
#include "models/memory/managed.h"
#include "sim/base/compare.h"
#include "sim/replay/machine.h"

#define NOWHERE UINT32_MAX
enum { MAX_DEPTH = 32 };

/* How many launches a host is ahead of the GPU, at most: a queue of the driver's takes some thousand before it makes the host wait (NVIDIA names no figure,
 * only CUDA_SCALE_LAUNCH_QUEUES, which scales it): assumed. */
enum { ECH_AHEAD = 1024 };

/* What a cursor meets. */
typedef enum { ENTRY_OP, ENTRY_LOOP_START, ENTRY_LOOP_FINISH, ENTRY_BEGIN, ENTRY_END } EntryKind;
typedef struct {
    uint8_t kind;
    bool home;     /* BEGIN: of the loop's own queue. */
    bool watch;    /* BEGIN: where its steady state is looked for. */
    uint32_t id;   /* Op, or loop number. */
    uint32_t jump; /* BEGIN: its END. END: its BEGIN. */
    uint32_t participant;
} Entry;

/* done[op] must reach (ordinal / div + 1) * times - distance. */
typedef struct {
    uint32_t op, distance;
    uint64_t div, times; /* Instances in one iteration of the loop around both: of the op that waits, of @op. */
    bool other_queue;
} Need;

/* Life @life of instance ordinal / div is used by the op. Of a life that turns over, div is the use's position. */
typedef struct {
    uint32_t life;
    uint64_t div;
} LifeUse;

/* How often one iteration of a loop allocates a buffer that turns over, and how often queues other than the FREE's use it there. */
typedef struct {
    uint32_t loop;
    uint64_t allocs, uses;
} Rate;

/* How many ALLOCs and uses of a buffer come before one of its ops: so many in the first iteration of every loop around, and the rates of those loops. */
typedef struct {
    uint64_t allocs, uses;
    uint32_t first_turn, n_turns;
} Position;

/* One loop around an op: its iteration is ordinal / div % trips. */
typedef struct {
    uint64_t div, trips;
    uint32_t rate;
} Turn;

typedef struct {
    uint32_t op, parent, end; /* end: first op after the body. parent: loop number or NOWHERE. */
    uint64_t trips, started;
    uint64_t mult; /* Instances of the LOOP op in the whole trace, saturating. */
    uint32_t first_participant, n_participants;
    uint32_t depth; /* 0 outermost. */
    GArray *marks;  /* Mark: of its last iterations, at most MAX_PERIOD; or NULL. */
    GArray *made;   /* Made: the buffers that its body allocates, by life; NULL until they are asked for. */
} Loop;

/* A life that a loop's body makes instances of, and the first ALLOC there that does. */
typedef struct {
    uint32_t life, op;
} Made;

/*
 * One ALLOC .. FREE of a buffer in the trace, or a buffer there from the start. Instances of it live at one time are in a list of the machine.
 * Where a loop's body frees what came from outside or from the iteration before, and allocates it anew, the buffer turns over: all its ALLOCs
 * and FREEs are one life then, and its instances are numbered by the ALLOCs before them.
 */
typedef struct {
    EchId buffer;
    uint32_t alloc_op, free_op;       /* NOWHERE: from the start; never. Of a life that turns over: the first, the last. */
    uint64_t users;                   /* Uses per instance by queues other than the FREE's, which must have ended before the bytes are free. */
    uint32_t first, last;             /* Live instances in the order of their ordinals; NOWHERE: none. */
    bool turns_over, freed_elsewhere; /* freed_elsewhere: its FREEs are on more than one queue. */
    uint32_t first_rate, n_rates;     /* Of a life that turns over: its loops, in the trace's order. */
} Life;

typedef struct {
    uint64_t ordinal, ended; /* ended: uses so far. */
    uint64_t users;          /* Uses that must have ended before the bytes are free; known when freed. */
    uint64_t used_before;    /* Of a life that turns over: uses before the ALLOC. */
    uint32_t next;           /* In the life's list, or in the free list. */
    uint32_t alloc_id;       /* Of the allocator, or NOWHERE. */
    uint32_t placed;         /* Index in placed, or NOWHERE. */
    EchBytes bytes;          /* Counted as live. */
    uint64_t address;
    uint64_t pages; /* Of a managed buffer: where its pages lie among those of all. */
    bool allocated, freed;
} Instance;

/* What a use does with pages: a kernel's, a copy engine's, the host's; a prefetch. */
typedef enum { TOUCH_BY_KERNEL, TOUCH_BY_COPY, TOUCH_BY_HOST, TOUCH_TO_DEVICE, TOUCH_TO_HOST } TouchKind;

/* A use of a managed buffer, or of one in unified memory. Where it is of a part of it, every instance of the op takes the next part. */
typedef struct {
    uint32_t life;
    uint64_t div;           /* As in LifeUse; of a life that turns over it means nothing. */
    EchBytes offset, bytes; /* Of the use in the buffer. */
    EchBytes whole;         /* What it is a part of. */
    TouchKind kind;
    bool reads, writes;
} Touch;

typedef enum { STATE_IDLE, STATE_BLOCKED, STATE_GAP, STATE_FIXED, STATE_PAGING, STATE_ENGINE, STATE_RUNNING, STATE_FINISHED } State;

typedef struct {
    const Entry *entries;
    uint32_t n_entries, at, depth;
    uint64_t iter[MAX_DEPTH];
    EchTime began[MAX_DEPTH]; /* This iteration of loop[d], on this queue. */
    uint32_t loop[MAX_DEPTH]; /* Loop number at each depth. */
    uint64_t ordinal;         /* Of ops directly in the innermost loop. */
    State state;
    EchWait reason;
    EchTime head;        /* Since when its entry is at the head. */
    EchTime ready;       /* Dependencies satisfied. */
    EchTime start;       /* Of the running op. */
    EchTime work_start;  /* Of its amounts. */
    EchTime issued;      /* Copies: when the last one's set-up was over. */
    EchTime space_since; /* Allocation waits for space since then, or -1. */
    EchTime stall_since; /* Waits for an allocator's driver call since then, or -1. */
    EchTime peers_since; /* Waits for other machines since then, or -1. */
    EchTime driver;      /* What the allocator's driver calls take, at the op at the head. */
    EchTime pages_since; /* Of the op that blocks come for. */
    EchTime host_gap;    /* How long the host has not asked for the op at the head, in the gap that passes now. */
    EchTime handoff;     /* What being released by another queue takes, in the gap that passes now. */
    EchTime works_from;  /* What has waited for a copy without work learns of its end before work does: from then on. */
    bool tells_copy;     /* It has waited for a copy, and done no work since. */
    bool drains;         /* They wait for all that was asked for before. */
    EchTime waits[ECH_N_WAITS];
    double *pressed;      /* Per part of the running op: what `pressed` of its resource was when it began. */
    uint32_t next_waiter; /* In the list of the op, link or memory it waits for. */
    bool in_todo;
    bool has_head;
    bool gap_over; /* The gap before the op at the head, the host's or between queues, has passed. */
} Queue;

typedef struct {
    uint32_t active[2], limit[2], promised[2]; /* promised: engines that are free but for those who were woken to take them */
    uint32_t first_waiter[2], last_waiter[2];
    EchTime since[2], since_any;
} LinkState;

/*
 * What calls of the driver take: a call for 2 MiB, every further piece of physical memory of 2 MiB in it (of the same addresses, mapped in one go), every
 * further 2 MiB of a piece. 0 where the device does not say. And the call where the device is at work; whether it waits for that, as what gives back does.
 */
typedef struct {
    EchTime call, piece, page, beside;
    bool waits;
} DriverPrice;

struct EchMachine {
    const EchTrace *trace;
    const EchOp *ops;
    const EchBuffer *buffers;
    const EchWork *work;
    uint32_t kind_unit[ECH_N_WORK_UNITS]; /* Device unit that does each kind of work, or NOWHERE. */
    const EchDevice *device;
    const EchPrices *prices;
    const EchReplayOptions *options;
    size_t n_ops;

    Queue *queues;
    uint32_t n_queues;
    Entry *entries;
    Loop *loops;
    uint32_t n_loops;
    bool host_ordered;     /* One host asked for all ops, in their order; no loops. */
    uint64_t *arrived;     /* Per loop and participant: instances finished there. */
    uint32_t *participant; /* Queue of each. */
    uint32_t *last_free;   /* Per queue and memory: 1 + entry of its last FREE there, or 0. */
    uint32_t *loop_waiter; /* Per loop: queue that waits for its finish. */
    uint32_t *op_loop;     /* Innermost loop of each op, or NOWHERE. */
    uint64_t *mult;        /* Instances of each op. */
    Need *needs;
    uint32_t *first_need; /* first_need[n_ops + 1] */
    LifeUse *life_uses;
    uint32_t *first_life;  /* first_life[n_ops + 1] */
    uint32_t *op_life;     /* ALLOC, FREE: life. */
    uint32_t *op_position; /* ALLOC, FREE of lives that turn over; NULL if there are none. */
    Position *positions;
    Turn *turns;
    Rate *rates;
    Life *lives;
    uint32_t n_lives;
    GArray *instances; /* Instance */
    uint32_t free_instance;

    uint64_t *done;
    EchTime *last_end;
    bool *tells_copy;     /* Of the op, as it ended last: its queue had waited for a copy and done no work since. */
    uint32_t *op_waiters; /* First queue that waits for the op. */
    LinkState *links;
    EchMemoryState *memories;
    EchAllocator **allocators; /* Per trace memory, or NULL. */
    uint32_t *next_id;
    uint64_t *freed_before;  /* Where an allocator goes by queues: per op, how often memory had been given back when it ended last; else NULL. */
    uint64_t *freed_by;      /* The same when each of the last ECH_AHEAD launches began, in a ring. */
    uint64_t frees;          /* How often memory has been given back. */
    uint64_t launches;       /* Kernels and copies begun. */
    uint32_t begun;          /* the memory whose allocator began in a recorded state, or NOWHERE */
    GHashTable *held;        /* resident buffers + 1 that allocators hold before the run -> EchPlacement, or NULL */
    EchBytes *limits;        /* Per trace memory; UINT64_MAX unlimited. */
    uint32_t *whole;         /* Per trace memory, where host and device have one: the trace's memory that its bytes are of, itself too; else NULL. */
    uint32_t *space_waiters; /* Per trace memory, first; lists keep order. */
    uint32_t *pending_frees; /* Per trace memory. */
    bool *has_fixed;
    GHashTable *pools;             /* Private pools' names to string id + 1; NULL where the trace has none, never walked. */
    const DriverPrice **free_call; /* Per trace memory: of the call that waits for the device which each FREE is, or NULL. */
    DriverPrice driver_malloc, driver_free, driver_map, driver_unmap;
    EchTime driver_malloc_small, driver_free_small; /* Of a request that shares a page; 0: driver_free, and no call to take one */
    bool driven;                                    /* Any of them. */
    bool paced;                                     /* The host makes a driver call for every request, ahead of the device's queues. */
    EchTime submit;                                 /* Host time of asking for a kernel or a copy; paced only */
    EchTime host_launch;                            /* Of the host for every op that it asks for; 0: not charged. */
    EchTime host_operator;                          /* Of the host for every operator, beside that; 0: host_launch has it. */
    EchTime kernel_gap;                             /* Between a kernel's end and the start of the next in its queue, asked for in time. */
    uint32_t *kernel_before;                        /* Per op, or NULL: the kernel before it in its queue, where that gap lies between them; else NOWHERE. */
    uint32_t *host_since;                           /* Per op, or NULL: the host's newest wait before it, or NOWHERE. */
    EchTime *host_asked;                            /* Per op: what asking for what it has asked for since takes, this op too. */
    EchTime host_asks;                              /* The same of all ops. */
    EchTime host_lead;                              /* How far it is ahead of the device when the run begins. */
    uint64_t host_waits;                            /* After how many of its waits it asks for anything. */
    EchTime host_free;                              /* paced: when the host is through with all that it was asked for so far. */
    uint32_t barrier;                               /* Op whose driver call waits for all before it and holds all behind it, or NOWHERE. */
    uint32_t barrier_queue, barrier_waiters;
    uint32_t n_memories;
    EchManaged *managed;      /* Of the memory that is unified, or of managed buffers; NULL: there is neither. */
    bool unified;             /* All of the device's memory is. */
    bool paged_before;        /* Its blocks lie where an earlier step left them. */
    uint32_t managed_memory;  /* The device's, which one of the trace's. */
    EchBytes managed_most;    /* A touch is of no more: all memory there is. */
    EchBytes managed_live;    /* Of managed buffers. */
    uint64_t next_pages;      /* Of the next managed buffer that is allocated. */
    EchMigration pressed_out; /* What went for a request of what is not managed, and is not waited for yet. */
    uint32_t host_link;       /* That its blocks take. */
    uint32_t link_parts[2];   /* Resources of that link, from the device and to it, or NOWHERE. */
    Touch *touches;
    uint32_t *first_touch; /* first_touch[n_ops + 1] */
    uint32_t *todo;
    uint32_t todo_first, todo_n;
    double *load; /* Per resource: what its demands would draw alone, over its capacity. */
    uint32_t *n_load;
    double *pressed; /* Integral of load beyond one, up to pressed_at. */
    EchTime *pressed_at;

    int64_t *sums;
    double *amounts;
    size_t n_sums, n_amounts;
    /* Bytes an op moves per memory. */
    struct Traffic {
        uint32_t memory;
        EchBytes read, written, cached;
    } * traffic;
    uint32_t *first_traffic;

    EchTime longest_setup;          /* Of any copy. */
    uint32_t longest_distance;      /* Of all needs, in iterations. */
    EchTime wait_passed;            /* What waiting for what is over already takes. */
    EchTime trip;                   /* Of what the host waits for: a launch's way to the device and the news of its end. */
    EchTime wait_through;           /* From the end of a copy to that of its wait in a queue without work, and from there to another copy. */
    EchTime wait_kernel, wait_copy; /* From the end of an op to the start of one in another queue that it releases: kernels only, or with a copy. */
    EchTime now, base;
    double base_fraction;
    EchTime engine_now;
    EchOutcome out;
    GArray *skips, *placed;
    EchSpanSink sink;
    void *sink_user;
    EchMachineMeet meet; /* NULL: nobody is met. */
    void *meet_user;
    bool takes_turns;   /* kernels meet others, too */
    uint32_t hbm;       /* the device's memory, or NOWHERE */
    EchBytes elsewhere; /* of it, other processes' */
    uint64_t *progress;
    bool stop;
    const EchFluidClass *class;
    void *engine;
};

static inline uint32_t queue_of(const EchMachine *m, uint32_t op)
{
    return MIN(m->ops[op].queue, m->n_queues - 1);
}

/* The number of the loop that op @op is. */
static inline uint32_t loop_of(const EchMachine *m, uint32_t op)
{
    uint32_t low = 0, high = m->n_loops;
    ECH_SEARCH(low, high, middle, m->loops[middle].op < op);
    return low;
}

/* Places in the sums. */
static inline int64_t *queue_sums(EchMachine *m, uint32_t queue)
{
    return m->sums + ECH_N_WAITS + (size_t)queue * ECH_SUMS_PER_QUEUE;
}

static inline int64_t *memory_sums(EchMachine *m, uint32_t memory)
{
    return m->sums + ECH_N_WAITS + (size_t)m->n_queues * ECH_SUMS_PER_QUEUE + (size_t)memory * ECH_SUMS_PER_MEMORY;
}

static inline int64_t *link_sums(EchMachine *m, uint32_t link)
{
    return m->sums + ECH_N_WAITS + (size_t)m->n_queues * ECH_SUMS_PER_QUEUE + (size_t)m->n_memories * ECH_SUMS_PER_MEMORY + (size_t)link * ECH_SUMS_PER_LINK;
}

static inline void add_sum(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = INT64_MAX;
}

/* Product of the trips of the loops from @inner_loop outwards up to, but without, @outer_loop. */
static inline uint64_t trips_between(const EchMachine *m, uint32_t inner_loop, uint32_t outer_loop)
{
    uint64_t product = 1;
    for (uint32_t loop = inner_loop; loop != outer_loop && loop != NOWHERE; loop = m->loops[loop].parent)
        product = ech_bytes_mul(product, MAX(m->loops[loop].trips, 1u));
    return product;
}

/* The queue is looked at again before time goes on. */
static inline void schedule(EchMachine *m, uint32_t queue)
{
    Queue *q = &m->queues[queue];
    if (q->in_todo || q->state == STATE_FINISHED)
        return;
    q->in_todo = true;
    m->todo[(m->todo_first + m->todo_n++) % m->n_queues] = queue;
}

/* Everything in the list may go on; it is empty then. */
static inline void wake_list(EchMachine *m, uint32_t *first)
{
    uint32_t queue = *first;
    *first = NOWHERE;
    while (queue != NOWHERE) {
        uint32_t next = m->queues[queue].next_waiter;
        m->queues[queue].next_waiter = NOWHERE;
        m->queues[queue].state = STATE_IDLE;
        schedule(m, queue);
        queue = next;
    }
}

/* Last in the list; who wakes it takes the whole list. */
static inline void wait_on(EchMachine *m, uint32_t queue, uint32_t *first, EchWait reason)
{
    Queue *q = &m->queues[queue];
    q->state = STATE_BLOCKED;
    q->reason = reason;
    q->next_waiter = NOWHERE;
    while (*first != NOWHERE)
        first = &m->queues[*first].next_waiter;
    *first = queue;
}

/* machine_unified.c */

/** Makes the device's memory unified where the options or its allocator have it so, ECH_ERROR_CONFIG where the device knows nothing of the kind; else sees to
 * managed buffers, with a remark where it does not. */
bool ech_machine_compile_unified(EchMachine *m, EchDiag *diag, GError **error);
/** An instance of a buffer is there, or no more; nothing is done where it is not managed. */
void ech_machine_give_pages(EchMachine *m, const EchBuffer *buffer, Instance *instance);
void ech_machine_take_pages_back(EchMachine *m, const EchBuffer *buffer, const Instance *instance);
/** What is not managed has @taken bytes of @memory now: managed pages have the rest. */
void ech_machine_press(EchMachine *m, uint32_t memory, EchBytes taken);
/** Whether blocks of unified memory come and go, or will: iterations of a loop then differ in what is resident. */
bool ech_machine_may_page(const EchMachine *m);
/** A buffer is there from the start: made on the device, as far as there is room. */
void ech_machine_populate(EchMachine *m, uint32_t life);
/** What op @op's instance @ordinal touches becomes resident; returns how long the op waits for it, and the bytes that cross the link. */
EchTime ech_machine_touch(EchMachine *m, uint32_t op, uint64_t ordinal, EchMigration *ret);

/* machine_memory.c */

/** ALLOCs and uses of the buffer before the op at @position in its instance @ordinal. */
Position ech_machine_count_before(const EchMachine *m, uint64_t position, uint64_t ordinal);
/** Which instance of its life a use by an op's instance @ordinal means. */
uint64_t ech_machine_instance_used(const EchMachine *m, const LifeUse *use, uint64_t ordinal);
/** What one iteration of loop @l adds to the numbers of a life's instances, all zero if the loop does not allocate it. */
Rate ech_machine_rate_in(const EchMachine *m, const Life *life, uint32_t l);
/** The allocator's number for a buffer's queue; in a private pool for the two together. */
uint32_t ech_machine_stream(const EchMachine *m, EchId queue, EchId pool);
/** The live instance of that number, or NULL; with @make a new one. Good until the next one is made. */
Instance *ech_machine_find_instance(EchMachine *m, uint32_t life, uint64_t ordinal, bool make);
/** Counts an allocation that does not fit; the first is the one reported, with the largest buffers that were there. */
void ech_machine_record_failure(EchMachine *m, uint32_t memory, EchId op, EchId buffer, EchBytes asked, EchFit fit);
/** A MARK: a private pool gives a segment back, which it does once what it was for is gone. */
void ech_machine_run_mark(EchMachine *m, const EchOp *op);
/** Whether @buffer finds no room beside what lies in the memories that its own shares one with. */
bool ech_machine_is_taken_by_others(const EchMachine *m, const EchBuffer *buffer);
/** Tries to give life @life its bytes; @op: its ALLOC, or ECH_NONE. */
EchFit ech_machine_allocate(EchMachine *m, uint32_t life, uint64_t ordinal, EchId op);
/** The FREE @op has run: gives the bytes back, or leaves that to the last use still running. */
void ech_machine_run_free(EchMachine *m, uint32_t op, uint64_t ordinal);
/** The op's uses are over: buffers freed meanwhile that waited for it are given back. */
void ech_machine_end_uses(EchMachine *m, uint32_t op, uint64_t ordinal);
/** Whether bytes of @memory may become free without @queue going on. */
bool ech_machine_space_may_come(const EchMachine *m, uint32_t queue, uint32_t memory, uint32_t op);

/* machine_loop.c */

/** Asks allocators for what was asked for before the trace (EchReplayOptions.whole). */
void ech_machine_run_before(EchMachine *m);
/** An allocator holds resident buffer @buffer at @place before the run, under the buffer's number. */
void ech_machine_hold(EchMachine *m, EchId buffer, const EchPlacement *place);
/** The queue's head is a loop's begin: goes in, or past a loop without trips. False: it must wait for the loop's op. */
bool ech_machine_begin_loop(EchMachine *m, uint32_t queue);
/** The queue's head is the end of an iteration: the next one, or out of the loop. */
void ech_machine_end_iteration(EchMachine *m, uint32_t queue);
/** Whether every queue in loop @l has left its instance @ordinal. */
bool ech_machine_loop_over(const EchMachine *m, uint32_t l, uint64_t ordinal);
