/** @file fake.h
 * What the files of the fake driver share. fake_cuda.c says what it is and how it is told to misbehave; fake_gpu.c is its time, fake_memory.c its memory,
 * fake_mapping.c memory that is mapped, fake_streams.c queues, events, copies and graphs, fake_kernels.c what kernels do, fake_blas.c the products, fake_nvml.c
 * the clocks.
 */
#pragma once
#include "sim/replay/cuda_blas.h"
#include "sim/replay/cuda_driver.h"

#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CARD_BYTES (getenv("ECH_FAKE_CUDA_BYTES") ? strtoull(getenv("ECH_FAKE_CUDA_BYTES"), NULL, 10) : (size_t)1 << 28)

#define PROTOTYPE(member, symbol, parameters) EchCuResult symbol parameters;
ECH_CU_FUNCTIONS(PROTOTYPE)
ECH_CU_OPTIONAL_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(member, symbol, parameters) int symbol parameters;
ECH_CUBLAS_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    BLAS_INVALID_VALUE = 7, /* Of cuBLAS, as the next */
    NOT_SUPPORTED = 15,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907
};

typedef struct Block {
    struct Block *next;
    char *data;
    size_t bytes;
    size_t noise;               /* So many from the beginning are what the noise kernel left */
    int host, pooled, returned; /* returned: to the pool, from when its queue comes to that */
    int far;                    /* Of the host, at another processor than the GPU */
    struct Page *page;          /* That it shares, from @unit on; NULL: none */
    size_t unit;
    struct Granule *granules; /* Of addresses that were reserved: what lies behind each of them; NULL: an allocation */
} Block;

/* What is issued. */
typedef enum { TO_DEVICE, FROM_DEVICE, PORT, OPERATIONS, MARK, WAIT, RELEASE } Kind;

/* One recording of an event. */
typedef struct Mark {
    struct Mark *next;
    double time;
    int done;
    long captured;                /* In the graph of that number: nobody can wait for it outside; 0: in none */
    struct EchCuStreamOpaque *of; /* Where it was captured, behind so many others */
    long behind, frees;           /* frees: of the pool so far */
} Mark;

typedef struct Task {
    struct Task *next;
    Kind kind;
    double fixed, amount, rate; /* Nanoseconds that pass first; then units, at most so many a nanosecond */
    Mark *mark;
    const void *pointer;              /* RELEASE */
    struct EchCuStreamOpaque *stream; /* Where it was captured */
    long order;
    int running;
    int kernel; /* Starts faster in a graph */
} Task;

/* What was issued last: an event behind a kernel that waits is another than the rest. */
typedef enum { BEHIND_KERNEL, BEHIND_WAITING, BEHIND_THAT_EVENT, BEHIND_EVENT } Behind;

struct EchCuStreamOpaque {
    struct EchCuStreamOpaque *next;
    Task *first, **last;
    double length, room; /* Tasks in it; room 0: as many as come */
    int capturing;       /* The capture began on it, or it has waited for that */
    int loose;           /* Something captured on it, after so many others, that nobody has waited for */
    long captured;
    Behind behind;
};
struct EchCuEventOpaque {
    Mark *mark; /* NULL: never recorded */
    struct EchCuEventOpaque *next;
    int untimed, destroyed;
};
struct EchCuGraphOpaque {
    Task *first, **last;
};

typedef struct {
    long held, calls;
    int ready;                     /* cuInit was called */
    long retained;                 /* Times that the context was, and not released */
    long process;                  /* That called cuInit: after fork() the driver works in no other */
    int near;                      /* The thread was told to stay on the GPU's side */
    size_t used;                   /* Of the card */
    int capturing, launching;      /* A graph; a kernel */
    long captures;                 /* So far */
    long launches;                 /* So far */
    int faulty, faulted;           /* A kernel that was issued fails; it has, and nothing works any more */
    struct EchCuGraphOpaque graph; /* The one that is captured */
    int uploaded;                  /* It lies on the GPU */
    struct EchCuStreamOpaque *streams;
    double busy; /* Nanoseconds worked since the context was made */
} Fake;
extern Fake fake;
extern _Thread_local int fake_current; /* Whether this thread has the context: the others do not have it by that */

/* ---- fake_cuda.c ---- */

/** Ends the process: what the driver's manual leaves undefined, or what only a return code tells of that nobody looks at when something is given back. */
_Noreturn void fake_misused(const char *symbol, const char *how);
/** Of a call that gives something back: a context must be current, in the process that started the driver. */
void fake_enter_release(const char *symbol);
/** What is given to a call is there: made, and not yet destroyed. */
void fake_know_stream(const struct EchCuStreamOpaque *stream, const char *symbol);
void fake_know_event(const struct EchCuEventOpaque *event, const char *symbol);

/** True if this call is to fail. */
int fake_failing(void);
/** Of a call that waits: true from when it comes to a kernel that fails. */
int fake_comes_to_fault(void);
#define ENTER()                                                                                                                                                \
    do {                                                                                                                                                       \
        if (fake_failing())                                                                                                                                    \
            return LAUNCH_FAILED;                                                                                                                              \
        if (!fake.ready || fake.process != (long)getpid())                                                                                                     \
            return NOT_INITIALIZED;                                                                                                                            \
    } while (0)
#define ENTER_CONTEXT()                                                                                                                                        \
    do {                                                                                                                                                       \
        ENTER();                                                                                                                                               \
        if (!fake_current)                                                                                                                                     \
            return INVALID_CONTEXT;                                                                                                                            \
    } while (0)
/** Whether it is a machine rather than a model: ECH_FAKE_CUDA_REAL. */
int fake_real(void);
/* What it is made of: bytes and operations a nanosecond, nanoseconds, shares. X(name, value). From `ramp` on only of a machine (ECH_FAKE_CUDA_REAL). */
/* clang-format off */
#define FAKE_FIGURES(X) \
    /* Copies over the host link: rates, both ways together, set-up. */ \
    X(to, 20) X(from, 18) X(both, 30) X(pageable_to, 6) X(pageable_from, 5) X(copy, 5000) \
    /* Device memory: read, shares of that written and mixed; second-level cache: rate, bytes. */ \
    X(port, 1000) X(write, .9) X(mixed, .95) X(cache, 4000) X(l2, 4194304) \
    /* Arithmetic; of cuBLAS the shares of f32 and f64; multiprocessors and their clock as the driver tells them. */ \
    X(f32, 1000) X(f64, 500) X(special, 125) X(tensor, 1e5) X(blas, 2e5) X(tf32, .5) X(wide, .125) X(sms, 4) X(khz, 1.5e6) \
    /* Start of a kernel, what a graph saves of it, and what each node takes to be brought to the GPU. */ \
    X(launch, 2000) X(graph, 1000) X(upload, 400) \
    /* Copies: time for a root of a byte; each way while both go; share kept beside kernels, bytes of the port for one. */ \
    X(ramp, 8) X(both_to, 17) X(both_from, 12) X(keep_to, .93) X(keep_from, .88) X(port_bytes, 4) \
    /* Kernels that stream: ramp, and bytes after which most of it is over. Products: rate at odd sides, tiles a wave, steps of prologue, what heat costs, load without heat. */ \
    X(stream, 2500) X(stream_bytes, 3e5) X(uneven, .16) X(wave, 32) X(prologue, 200) X(heat, .125) X(cool, .7) \
    /* Events with time, what a kernel takes more behind one that is not behind a kernel that waits, events without time, what waits; a call (host); steps of times, times their scatter; what a queue holds before the host waits. */ \
    X(event, 450) X(alone, 0) X(mark, 150) X(wait, 1500) X(call, 1500) X(step, 500) X(scatter, 1) X(depth, 1022) \
    /* Host time: of waiting for what is not over, more; of calls that take memory while the GPU is at work, more; 1: they wait until it is not. */ \
    X(trip, 0) X(beside, 0) X(settle, 0)
/* clang-format on */
typedef struct {
#define MEMBER(name, value) double name;
    FAKE_FIGURES(MEMBER)
#undef MEMBER
} FakeFigures;
/** Of ECH_FAKE_CUDA_FIGURES, else as above; read by cuInit. */
const FakeFigures *fake_figures(void);
/** Bytes of the card that are not this program's allocations. */
size_t fake_foreign(void);
/** 0 where ECH_FAKE_CUDA_WEIGHTLESS is set: copies and kernels take their time, and of a copy only the first and last byte move: for what looks at no bytes. */
int fake_moves(void);

/* ---- fake_gpu.c ---- */

/** 1 in the middle, some percent around it, sometimes much more. */
double fake_scatter(double width);
Mark *fake_new_mark(void);
EchCuResult fake_issue(EchCuStream stream, Task model);
/** The same of work, whose time scatters. */
EchCuResult fake_issue_work(EchCuStream stream, Kind kind, double fixed, double amount, double rate);
/** Whether something is left to do in a queue. */
int fake_at_work(void);
/** Lets time pass until a queue is empty or a mark is reached, or, without either, until all queues are empty: a wait for a mark that never comes is then
 * left out. */
void fake_run_until(const struct EchCuStreamOpaque *empty, const Mark *mark);
#define fake_run_all() fake_run_until(NULL, NULL)
/** A call that takes the host some time, in which the GPU goes on; where the host's clock has gone on already, the GPU's alone. */
void fake_host_takes(double nanoseconds);
void fake_pass(double nanoseconds);
/** Code that is used for the first time: the driver loads it when the GPU has nothing to do, and takes its time. */
void fake_load_code(void);
void fake_empty_graph(void);
/** What tensor cores did in the last milliseconds of what they can. */
double fake_heat(void);

/* ---- fake_memory.c ---- */

/** A block of host memory that counts as one thing held; the one that begins at an address, or NULL; its end. */
Block *fake_new_block(size_t bytes, int host);
Block *fake_block_from(const void *begin);
void fake_drop_block(Block *block);
/** Nanoseconds of the host's clock; a call that began at @begin keeps the host so long, in which the GPU goes on. */
double fake_wall_ns(void);
void fake_keep_host(double begin, double nanoseconds);
/** A call that takes memory: longer while the GPU is at work, or until it is not. */
void fake_take_beside(void);
/** The block that holds all of a range, or NULL; of reserved addresses only where all of it may be reached. */
Block *fake_block_at(const void *pointer, size_t bytes);
/** Changes the first word of every block of the card but this one. */
void fake_stray(const Block *but);
/** What was written, and whether by the noise kernel. */
void fake_note_written(const void *pointer, size_t bytes, int noise);
/** A queue has come to where it gives back what the pool lent. */
void fake_release_pooled(const void *pointer);
/** How often something was freed to the pool. */
long fake_pool_frees(void);
/** What @stream (NULL: whoever) had freed by the @frees-th free is for every queue now: the host has waited for it, or a queue will. */
void fake_order_pool(const struct EchCuStreamOpaque *stream, long frees, int waited);
/** Somebody has waited for the GPU: the pool gives back what it does not keep. */
void fake_trim_pool(void);

/* ---- fake_mapping.c ---- */

/** Whether all of a range of reserved addresses is mapped and open. */
int fake_is_open(const Block *block, const void *pointer, size_t bytes);

/* ---- fake_kernels.c ---- */

/** Whether a range lies in the cache: within the last 4 MiB that kernels have moved. It does from now on. */
int fake_is_cached(const void *pointer, size_t bytes);
