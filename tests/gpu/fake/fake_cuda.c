/* A CUDA driver of our own for tests: the same symbols, host memory behind them, a clock of its own, and failures on request.
 *
 * Memory is touched at once when something is issued; time passes later, when somebody waits or asks for it: queues run side by side, copies of one
 * direction one after the other, and what runs together shares the link and the memory port. The figures of this GPU, in bytes or operations a nanosecond:
 *
 *     pinned copies to the device 20, from it 18, both together 30, 5 us each; pageable 6 and 5
 *     memory port 1000 (writes at 900, mixed at 950); copies on the device use it; 4000 where a range of at most 4 MiB is read over and over
 *     float32 1000, float64 500, special functions 125, tensor cores 100000, cuBLAS 200000 (half for f32, 1/8 for f64; .7 of it at odd sides)
 *     a kernel 2 us to launch, 1 us in a graph; a link of a chain 600 ns, 200 ns where it is one of the last 4 MiB of lines that chains came to
 *
 * ECH_FAKE_CUDA_FAIL=N makes the N-th call (from 1) return an error; every call checks its handles, and what is still held at the end is counted in
 * fake_cuda_held() (looked up by the tests). A release that fails has still released. ECH_FAKE_CUDA_BYTES is the card's memory, ECH_FAKE_CUDA_NAME its name,
 * ECH_FAKE_CUDA_ALLOC_US how long an allocation keeps the host busy; ECH_FAKE_CUDA_INIT is what cuInit returns; ECH_FAKE_CUDA_MAP=crash or hang is what mapping
 * memory does.
 *
 * Of a kernel's parameters as many bytes are read as its PTX says: a sanitizer sees what is too short. What kernels do to memory is done by functions of
 * their names here; with ECH_FAKE_CUDA_PTX=N by the PTX itself, whose every access is checked, at most N instructions a launch (0: all), from both ends.
 *
 * ECH_FAKE_CUDA_REAL=1 makes it less of a model and more of a machine: times scatter by some percent with a long tail and come in steps of half a microsecond,
 * clocks rise in the first 20 ms of work and tensor cores fall by an eighth once they have been busy for milliseconds, copies have a rate that depends
 * on their size and share the link unevenly, streaming kernels a ramp and the speed of the cache where they find the bytes of one before them, matrix products
 * tiles, waves, a prologue and a sixth of the rate at odd sides, events and waits take time, code takes memory when it is first used, and memory comes in
 * pages; a call takes the host 1.5 us (ECH_FAKE_CUDA_SLOW times as long), in which queues go on, and pageable copies make it wait. */
#include "sim/replay/cuda_blas.h"
#include "sim/replay/cuda_driver.h"
#include "tests/gpu/fake/ptx.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, LAUNCH_FAILED = 719 };

typedef struct Block {
    struct Block *next;
    char *data;
    size_t bytes;
    int host, pooled;
} Block;

/* What is issued. */
typedef enum { TO_DEVICE, FROM_DEVICE, PORT, OPERATIONS, MARK, WAIT, RELEASE } Kind;

/* One recording of an event. */
typedef struct Mark {
    struct Mark *next;
    double time;
    int done;
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
} Task;

struct EchCuStreamOpaque {
    struct EchCuStreamOpaque *next;
    Task *first, **last;
    int capturing;
};
struct EchCuEventOpaque {
    Mark *mark; /* NULL: never recorded */
};
struct EchCuGraphOpaque {
    Task *first, **last;
};
struct EchCuModuleOpaque {
    Ptx *ptx;
};
struct EchCuFunctionOpaque {
    char name[32];
    const Ptx *ptx;
    int loaded; /* Its code takes memory from the first launch on */
};

static Block *blocks;
static size_t used, pool_used, pool_high;
static long held, calls;
static int ready, current;
static struct EchCuFunctionOpaque functions[16];
static struct EchCuStreamOpaque *streams;
static char pool, instance;
static struct EchCuGraphOpaque graph;
static uint32_t chase_from; /* Where a chain was before its PTX ran */
static int capturing;
static double now, busy;          /* busy: worked since the context was made */
static double horizon = INFINITY; /* Time passes no further: what the host takes for a call */
static double heat;               /* Tensor cores' share of the last milliseconds */
static Mark *marks;
static long order;

static void run_until(const struct EchCuStreamOpaque *empty, const Mark *mark);
#define run_all() run_until(NULL, NULL)

EXPORT long fake_cuda_held(void);
EXPORT long fake_cuda_calls(void);
EXPORT void fake_cuda_reset(void);

long fake_cuda_held(void)
{
    return held;
}

long fake_cuda_calls(void)
{
    return calls;
}

void fake_cuda_reset(void)
{
    calls = 0;
    run_all();
    capturing = 0;
}

/* True if this call is to fail. */
static int failing(void)
{
    const char *fail = getenv("ECH_FAKE_CUDA_FAIL");
    calls++;
    return fail && strtol(fail, NULL, 10) == calls;
}

#define ENTER()                                                                                                                                                \
    do {                                                                                                                                                       \
        if (failing())                                                                                                                                         \
            return LAUNCH_FAILED;                                                                                                                              \
        if (!ready)                                                                                                                                            \
            return NOT_INITIALIZED;                                                                                                                            \
    } while (0)
#define ENTER_CONTEXT()                                                                                                                                        \
    do {                                                                                                                                                       \
        ENTER();                                                                                                                                               \
        if (!current)                                                                                                                                          \
            return INVALID_CONTEXT;                                                                                                                            \
    } while (0)

/* What is taken of the card. A machine rounds up to pages of 2 MiB, which allocations up to 1 MiB share. */
enum { PAGE = 2 << 20, SHARED = 1 << 20, POOL_GROWTH = 32 << 20 };
static size_t small_used;

static int real(void);

static size_t up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static size_t charged(size_t bytes, int taking)
{
    if (!real())
        return bytes;
    if (bytes > SHARED)
        return up(bytes, PAGE);
    size_t before = up(small_used, PAGE), after = up(taking ? small_used + up(bytes, 512) : small_used - up(bytes, 512), PAGE);
    return taking ? after - before : before - after;
}

static void note_small(size_t bytes, int taking)
{
    if (real() && bytes <= SHARED)
        small_used = taking ? small_used + up(bytes, 512) : small_used - up(bytes, 512);
}

static Block *block_at(const void *pointer, size_t bytes)
{
    for (Block *b = blocks; b; b = b->next) {
        if ((const char *)pointer >= b->data && (const char *)pointer + bytes <= b->data + b->bytes)
            return b;
    }
    return NULL;
}

static EchCuResult take(void **ret, size_t bytes, int host)
{
    if (bytes == 0)
        return INVALID_VALUE;
    if (!host && used + charged(bytes, 1) > CARD_BYTES)
        return ECH_CU_ERROR_OUT_OF_MEMORY;
    Block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->data = malloc(bytes);
    if (!b->data)
        abort();
    b->bytes = bytes;
    b->host = host;
    b->next = blocks;
    blocks = b;
    if (!host) {
        used += charged(bytes, 1);
        note_small(bytes, 1);
    }
    held++;
    *ret = b->data;
    return 0;
}

static EchCuResult give(const void *pointer, int host)
{
    for (Block **at = &blocks; *at; at = &(*at)->next) {
        Block *b = *at;
        if (b->data != pointer || b->host != host)
            continue;
        *at = b->next;
        if (!host) {
            used -= charged(b->bytes, 0);
            note_small(b->bytes, 0);
        }
        free(b->data);
        free(b);
        held--;
        return 0;
    }
    return INVALID_VALUE;
}

/* ---- time ---- */

static int real(void)
{
    static int is = -1;
    if (is < 0)
        is = getenv("ECH_FAKE_CUDA_REAL") != NULL;
    return is;
}

/* 1 in the middle, some percent around it, sometimes much more. */
static double scatter(double width)
{
    static uint64_t state = 88172645463325252u;
    double sum = 0;
    if (!real())
        return 1;
    for (int i = 0; i < 4; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += (double)(state >> 11) / 9007199254740992.0 - 0.5;
    }
    return 1 + width * sum + (state % 97 == 0 ? 0.3 : 0);
}

static Mark *new_mark(void)
{
    Mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        abort();
    mark->next = marks;
    marks = mark;
    return mark;
}

static void append(Task ***last, Task *task)
{
    **last = task;
    *last = &task->next;
    task->next = NULL;
}

static EchCuResult issue(EchCuStream stream, Task model)
{
    Task *task = malloc(sizeof *task);
    if (!task)
        abort();
    *task = model;
    task->order = order++;
    task->stream = stream;
    append(capturing ? &graph.last : &stream->last, task);
    return 0;
}

static EchCuResult issue_work(EchCuStream stream, Kind kind, double fixed, double amount, double rate)
{
    double by = scatter(0.015);
    fixed *= scatter(0.05);
    amount *= by;
    return issue(stream, (Task){.kind = kind, .fixed = fixed, .amount = amount, .rate = rate});
}

static void drop_first(struct EchCuStreamOpaque *stream)
{
    Task *task = stream->first;
    stream->first = task->next;
    if (!stream->first)
        stream->last = &stream->first;
    free(task);
}

static void release_pooled(const void *pointer)
{
    Block *block = block_at(pointer, 1);
    pool_used -= block && block->pooled ? block->bytes : 0;
    give(pointer, 0);
}

/* Marks, waits and releases at the heads of queues, until none can pass. */
static int pass_heads(void)
{
    int passed = 0;
    for (struct EchCuStreamOpaque *stream = streams; stream; stream = stream->next) {
        while (stream->first && (stream->first->kind == MARK || stream->first->kind == RELEASE || (stream->first->kind == WAIT && stream->first->mark->done))) {
            int waited = stream->first->kind == WAIT;
            if (stream->first->kind == RELEASE)
                release_pooled(stream->first->pointer);
            if (stream->first->kind == MARK) {
                stream->first->mark->time = now;
                stream->first->mark->done = 1;
            }
            drop_first(stream);
            if (waited && real() && stream->first && !stream->first->running)
                stream->first->fixed += 1500;
            passed = 1;
        }
    }
    return passed;
}

/* The heads that run: all, but of the copies of one direction the one issued first or already running. */
static size_t running_heads(Task **running, size_t room)
{
    size_t n = 0;
    Task *copies[2] = {NULL, NULL};
    for (struct EchCuStreamOpaque *stream = streams; stream; stream = stream->next) {
        Task *task = stream->first;
        if (!task || task->kind == WAIT)
            continue;
        if (task->kind == TO_DEVICE || task->kind == FROM_DEVICE) {
            Task **best = &copies[task->kind == FROM_DEVICE];
            if (!*best || task->running > (*best)->running || (task->running == (*best)->running && task->order < (*best)->order))
                *best = task;
        } else if (n < room) {
            running[n++] = task;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (copies[i] && n < room)
            running[n++] = copies[i];
    }
    for (size_t i = 0; i < n; i++)
        running[i]->running = 1;
    return n;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static int is_tensor(const Task *task)
{
    return task->kind == OPERATIONS && task->rate >= 25000;
}

/* Power is limited over milliseconds. */
static void warm(Task *const *running, size_t n, double step)
{
    int tensor = 0;
    for (size_t i = 0; i < n; i++)
        tensor |= is_tensor(running[i]) && running[i]->fixed <= 0;
    double keep = exp(-step / 5e6);
    heat = real() ? heat * keep + tensor * (1 - keep) : 0;
}

/* Units a nanosecond of each. */
static void share(Task **running, size_t n, double *rates)
{
    double port = 1000, port_users = 0, computing = 0;
    size_t copies = 0;
    for (size_t i = 0; i < n; i++) {
        Task *task = running[i];
        if (task->fixed > 0)
            continue;
        copies += task->kind == TO_DEVICE || task->kind == FROM_DEVICE;
        port_users += task->kind == PORT;
        computing += task->kind == OPERATIONS;
    }
    for (size_t i = 0; i < n; i++) {
        rates[i] = running[i]->fixed > 0 ? 0 : running[i]->rate;
        if (rates[i] > 0 && (running[i]->kind == TO_DEVICE || running[i]->kind == FROM_DEVICE)) {
            if (copies == 2)
                rates[i] = least(rates[i], real() ? (running[i]->kind == TO_DEVICE ? 17 : 12) : 15);
            port -= rates[i];
        }
    }
    double clocks = real() && busy < 20e6 ? 0.5 : 1;
    for (size_t i = 0; i < n; i++) {
        if (running[i]->kind == PORT)
            rates[i] *= clocks < 1 ? 0.8 : 1;
        if (running[i]->kind == OPERATIONS)
            rates[i] *= clocks * (is_tensor(running[i]) ? 1 - heat / 8 : 1);
        if (rates[i] > 0 && running[i]->kind == PORT)
            rates[i] = least(rates[i], port / port_users * (running[i]->rate / 1000 > 1 ? running[i]->rate / 1000 : 1));
        else if (rates[i] > 0 && running[i]->kind == OPERATIONS)
            rates[i] /= computing;
    }
}

/* Lets time pass until a queue is empty or a mark is reached, or, without either, until all queues are empty: a wait for a mark that never comes is then
 * left out. */
static void run_until(const struct EchCuStreamOpaque *empty, const Mark *mark)
{
    for (;;) {
        Task *running[64];
        double rates[64], step = 1e18;
        if (pass_heads())
            continue;
        if ((empty && !empty->first) || (mark && mark->done))
            return;
        size_t n = running_heads(running, 64);
        if (n == 0 && horizon < INFINITY) {
            now = horizon;
            return;
        }
        if (n == 0)
            break;
        share(running, n, rates);
        for (size_t i = 0; i < n; i++)
            step = least(step, running[i]->fixed > 0 ? running[i]->fixed : running[i]->amount > 0 ? running[i]->amount / rates[i] : 0);
        if (now >= horizon)
            return;
        step = least(step, horizon - now);
        warm(running, n, step);
        now += step;
        busy += step;
        for (size_t i = 0; i < n; i++) {
            Task *task = running[i];
            if (task->fixed > 0) {
                task->fixed = task->fixed <= step * (1 + 1e-12) ? 0 : task->fixed - step;
            } else {
                task->amount -= step * rates[i];
            }
            if (task->fixed > 0 || task->amount > 1e-6)
                continue;
            for (struct EchCuStreamOpaque *stream = streams; stream; stream = stream->next) {
                if (stream->first == task) {
                    drop_first(stream);
                    break;
                }
            }
        }
    }
    for (struct EchCuStreamOpaque *stream = streams; stream; stream = stream->next) {
        while (stream->first) {
            if (stream->first->kind == RELEASE)
                release_pooled(stream->first->pointer);
            drop_first(stream);
        }
    }
}

/* A call that takes the host some time, in which the GPU goes on. */
static void host_takes(double nanoseconds)
{
    if (!real() || capturing)
        return;
    const char *slower = getenv("ECH_FAKE_CUDA_SLOW");
    horizon = now + nanoseconds * (slower ? strtod(slower, NULL) : 1);
    run_until(NULL, NULL);
    horizon = INFINITY;
}

static void empty_graph(void)
{
    while (graph.first) {
        Task *task = graph.first;
        graph.first = task->next;
        free(task);
    }
    graph.last = &graph.first;
}

static void dawdle(void)
{
    const char *text = getenv("ECH_FAKE_CUDA_ALLOC_US");
    if (!text)
        return;
    struct timespec begin, at;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &at);
    while ((double)(at.tv_sec - begin.tv_sec) * 1e6 + (double)(at.tv_nsec - begin.tv_nsec) / 1e3 < strtod(text, NULL));
}

EXPORT EchCuResult cuInit(unsigned flags)
{
    if (failing() || flags)
        return INVALID_VALUE;
    if (getenv("ECH_FAKE_CUDA_INIT"))
        return atoi(getenv("ECH_FAKE_CUDA_INIT"));
    if (!graph.last)
        graph.last = &graph.first;
    ready = 1;
    return 0;
}

EXPORT EchCuResult cuDriverGetVersion(int *ret)
{
    ENTER();
    *ret = 13000;
    return 0;
}

EXPORT EchCuResult cuDeviceGetCount(int *ret)
{
    ENTER();
    *ret = getenv("ECH_FAKE_CUDA_NONE") ? 0 : 1;
    return 0;
}

EXPORT EchCuResult cuDeviceGet(EchCuDevice *ret, int ordinal)
{
    ENTER();
    *ret = ordinal;
    return ordinal == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDeviceGetName(char *ret, int length, EchCuDevice device)
{
    ENTER();
    const char *name = getenv("ECH_FAKE_CUDA_NAME");
    if (name)
        snprintf(ret, (size_t)length, "%s", name);
    else
        snprintf(ret, (size_t)length, "Fake GPU %d", device);
    return 0;
}

EXPORT EchCuResult cuDeviceGetUuid_v2(EchCuUuid *ret, EchCuDevice device)
{
    ENTER();
    memset(ret->bytes, 0xab, sizeof ret->bytes);
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDeviceTotalMem_v2(size_t *ret, EchCuDevice device)
{
    ENTER();
    *ret = CARD_BYTES;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDeviceGetAttribute(int *ret, int attribute, EchCuDevice device)
{
    ENTER();
    switch (attribute) {
    case ECH_CU_ATTRIBUTE_MULTIPROCESSORS: *ret = 4; break;
    case ECH_CU_ATTRIBUTE_MAJOR: *ret = 9; break;
    case ECH_CU_ATTRIBUTE_MINOR: *ret = 0; break;
    case ECH_CU_ATTRIBUTE_L2_BYTES: *ret = 4 << 20; break;
    case ECH_CU_ATTRIBUTE_ASYNC_ENGINES: *ret = 3; break;
    case ECH_CU_ATTRIBUTE_CLOCK_KHZ: *ret = 1500000; break;
    case ECH_CU_ATTRIBUTE_MEMORY_CLOCK_KHZ: *ret = 2000000; break;
    case ECH_CU_ATTRIBUTE_BUS_BITS: *ret = 2048; break;
    default: *ret = 1;
    }
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDevicePrimaryCtxRetain(EchCuContext *ret, EchCuDevice device)
{
    ENTER();
    held++;
    busy = 0;
    *ret = (EchCuContext)(void *)&pool;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDevicePrimaryCtxRelease_v2(EchCuDevice device)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuCtxSetCurrent(EchCuContext context)
{
    ENTER();
    current = context != NULL;
    return 0;
}

EXPORT EchCuResult cuCtxSynchronize(void)
{
    ENTER_CONTEXT();
    run_all();
    return 0;
}

EXPORT EchCuResult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    ENTER_CONTEXT();
    *ret_total = CARD_BYTES;
    *ret_free = CARD_BYTES - used;
    return 0;
}

EXPORT EchCuResult cuMemAlloc_v2(EchCuPointer *ret, size_t bytes)
{
    ENTER_CONTEXT();
    void *data;
    dawdle();
    EchCuResult result = take(&data, bytes, 0);
    if (result == ECH_CU_ERROR_OUT_OF_MEMORY && !capturing) {
        run_all(); /* What queues have yet to give back */
        result = take(&data, bytes, 0);
    }
    if (result == 0)
        *ret = (EchCuPointer)(uintptr_t)data;
    return result;
}

EXPORT EchCuResult cuMemFree_v2(EchCuPointer pointer)
{
    int fails = failing();
    EchCuResult result = give((void *)(uintptr_t)pointer, 0);
    return fails ? LAUNCH_FAILED : result;
}

EXPORT EchCuResult cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    return take(ret, bytes, 1);
}

EXPORT EchCuResult cuMemFreeHost(void *pointer)
{
    int fails = failing();
    EchCuResult result = give(pointer, 1);
    return fails ? LAUNCH_FAILED : result;
}

EXPORT EchCuResult cuMemAllocAsync(EchCuPointer *ret, size_t bytes, EchCuStream stream)
{
    /* What this queue has freed before is there for it at once. */
    for (Task *task = stream ? stream->first : NULL; task; task = task->next) {
        Block *freed = task->kind == RELEASE ? block_at(task->pointer, 1) : NULL;
        if (freed && freed->pooled) {
            pool_used -= freed->bytes;
            freed->pooled = 0;
        }
    }
    EchCuResult result = cuMemAlloc_v2(ret, bytes);
    if (result == 0)
        block_at((void *)(uintptr_t)*ret, bytes)->pooled = 1;
    pool_used += result == 0 ? bytes : 0;
    pool_high = pool_used > pool_high ? pool_used : pool_high;
    return result;
}

EXPORT EchCuResult cuMemFreeAsync(EchCuPointer pointer, EchCuStream stream)
{
    int fails = failing();
    const void *data = (void *)(uintptr_t)pointer;
    Block *block = block_at(data, 1);
    if (!stream || !block || !block->pooled)
        return INVALID_VALUE;
    issue(stream, (Task){.kind = RELEASE, .pointer = data});
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuDeviceGetDefaultMemPool(EchCuPool *ret, EchCuDevice device)
{
    ENTER_CONTEXT();
    *ret = (EchCuPool)(void *)&pool;
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemPoolGetAttribute(EchCuPool which, int attribute, void *ret)
{
    ENTER_CONTEXT();
    uint64_t value = attribute == ECH_CU_POOL_RESERVED_HIGH || attribute == ECH_CU_POOL_USED_HIGH ? pool_high : pool_used;
    if (real() && (attribute == ECH_CU_POOL_RESERVED_HIGH || attribute == ECH_CU_POOL_RESERVED_CURRENT))
        value = up(value, POOL_GROWTH);
    memcpy(ret, &value, sizeof value);
    return (void *)which == &pool && attribute > 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemPoolSetAttribute(EchCuPool which, int attribute, void *value)
{
    ENTER_CONTEXT();
    uint64_t wanted = 0;
    if ((void *)which != &pool || attribute <= 0 || !value)
        return INVALID_VALUE;
    memcpy(&wanted, value, sizeof wanted);
    /* A high-water mark can only be set back. */
    if (attribute == ECH_CU_POOL_RESERVED_HIGH || attribute == ECH_CU_POOL_USED_HIGH) {
        if (wanted != 0)
            return INVALID_VALUE;
        pool_high = pool_used;
    }
    return 0;
}

EXPORT EchCuResult cuMemPoolTrimTo(EchCuPool which, size_t keep)
{
    ENTER_CONTEXT();
    (void)keep;
    return (void *)which == &pool ? 0 : INVALID_VALUE;
}

static EchCuResult copy(void *target, const void *source, size_t bytes, EchCuStream stream, int to_host, int from_host)
{
    Block *t = block_at(target, bytes), *s = block_at(source, bytes);
    if (!stream || (!to_host && (!t || t->host)) || (!from_host && (!s || s->host)))
        return INVALID_VALUE;
    if (!capturing)
        memmove(target, source, bytes);
    /* Large copies reach their rate only slowly. */
    double slow = real() ? 8 * sqrt((double)bytes) : 0;
    if (from_host || to_host) {
        const Block *pinned = from_host ? s : t;
        double rate = from_host ? (pinned ? 20 : 6) : (pinned ? 18 : 5);
        EchCuResult result = issue_work(stream, from_host ? TO_DEVICE : FROM_DEVICE, 5000 + slow, (double)bytes * (pinned ? 1 : scatter(0.05)), rate);
        if (real() && !pinned && !capturing)
            run_until(stream, NULL); /* The host copies, and waits */
        return result;
    }
    return issue_work(stream, PORT, 2000, 2 * (double)bytes, 950);
}

EXPORT EchCuResult cuMemcpyHtoDAsync_v2(EchCuPointer target, const void *source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    host_takes(1500);
    return copy((void *)(uintptr_t)target, source, bytes, stream, 0, 1);
}

EXPORT EchCuResult cuMemcpyDtoHAsync_v2(void *target, EchCuPointer source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    host_takes(1500);
    return copy(target, (void *)(uintptr_t)source, bytes, stream, 1, 0);
}

EXPORT EchCuResult cuMemcpyDtoDAsync_v2(EchCuPointer target, EchCuPointer source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    host_takes(1500);
    return copy((void *)(uintptr_t)target, (void *)(uintptr_t)source, bytes, stream, 0, 0);
}

EXPORT EchCuResult cuMemsetD32Async(EchCuPointer target, unsigned value, size_t words, EchCuStream stream)
{
    ENTER_CONTEXT();
    uint32_t *data = (uint32_t *)(uintptr_t)target;
    if (!stream || !block_at(data, words * 4))
        return INVALID_VALUE;
    for (size_t i = 0; i < words; i++)
        data[i] = value;
    return issue_work(stream, PORT, 2000, (double)words * 4, 900);
}

EXPORT EchCuResult cuStreamCreate(EchCuStream *ret, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    EchCuStream stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->last = &stream->first;
    stream->next = streams;
    streams = stream;
    *ret = stream;
    held++;
    return 0;
}

static void forget(EchCuStream stream)
{
    struct EchCuStreamOpaque **at = &streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    free(stream);
}

EXPORT EchCuResult cuStreamDestroy_v2(EchCuStream stream)
{
    int fails = failing();
    run_all();
    forget(stream);
    held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuStreamSynchronize(EchCuStream stream)
{
    ENTER_CONTEXT();
    if (!stream || capturing)
        return INVALID_HANDLE;
    run_until(stream, NULL);
    return 0;
}

EXPORT EchCuResult cuStreamWaitEvent(EchCuStream stream, EchCuEvent event, unsigned flags)
{
    ENTER_CONTEXT();
    host_takes(1500);
    if (!stream || !event || flags)
        return INVALID_HANDLE;
    return event->mark ? issue(stream, (Task){.kind = WAIT, .mark = event->mark}) : 0;
}

EXPORT EchCuResult cuStreamBeginCapture_v2(EchCuStream stream, int mode)
{
    ENTER_CONTEXT();
    if (!stream || mode != ECH_CU_CAPTURE_RELAXED || capturing)
        return INVALID_VALUE;
    run_all();
    empty_graph();
    capturing = stream->capturing = 1;
    return 0;
}

EXPORT EchCuResult cuStreamEndCapture(EchCuStream stream, EchCuGraph *ret)
{
    int fails = failing();
    if (!stream->capturing)
        return INVALID_HANDLE;
    capturing = stream->capturing = 0;
    if (fails)
        return LAUNCH_FAILED;
    held++;
    *ret = &graph;
    return 0;
}

EXPORT EchCuResult cuGraphInstantiateWithFlags(EchCuGraphExec *ret, EchCuGraph from, unsigned long long flags)
{
    ENTER_CONTEXT();
    if (from != &graph || flags)
        return INVALID_HANDLE;
    held++;
    *ret = (EchCuGraphExec)(void *)&instance;
    return 0;
}

/* The captured queues run as hidden ones, after what is ahead in @stream; kernels start faster. */
EXPORT EchCuResult cuGraphLaunch(EchCuGraphExec exec, EchCuStream stream)
{
    ENTER_CONTEXT();
    if ((void *)exec != &instance || !stream || capturing)
        return INVALID_HANDLE;
    Mark *begin = new_mark();
    issue(stream, (Task){.kind = MARK, .mark = begin});
    struct EchCuStreamOpaque *hidden[64] = {NULL}, *of[64] = {NULL};
    size_t n = 0;
    for (Task *task = graph.first; task; task = task->next) {
        size_t i = 0;
        while (i < n && of[i] != task->stream)
            i++;
        if (i == 64)
            return INVALID_VALUE;
        if (i == n) {
            n++;
            of[i] = task->stream;
            hidden[i] = calloc(1, sizeof *hidden[i]);
            if (!hidden[i])
                abort();
            hidden[i]->last = &hidden[i]->first;
            hidden[i]->next = streams;
            streams = hidden[i];
            issue(hidden[i], (Task){.kind = WAIT, .mark = begin});
        }
        if (task->kind == MARK)
            task->mark->done = 0;
        Task again = *task;
        if (again.fixed == 2000)
            again.fixed = 1000;
        issue(hidden[i], again);
    }
    for (size_t i = 0; i < n; i++) {
        Mark *end = new_mark();
        issue(hidden[i], (Task){.kind = MARK, .mark = end});
        issue(stream, (Task){.kind = WAIT, .mark = end});
    }
    run_all();
    for (size_t i = 0; i < n; i++)
        forget(hidden[i]);
    return 0;
}

EXPORT EchCuResult cuGraphExecDestroy(EchCuGraphExec exec)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : (void *)exec == &instance ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuGraphDestroy(EchCuGraph which)
{
    int fails = failing();
    held--;
    empty_graph();
    return fails ? LAUNCH_FAILED : which == &graph ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuEventCreate(EchCuEvent *ret, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    *ret = calloc(1, sizeof **ret);
    held++;
    return 0;
}

EXPORT EchCuResult cuEventDestroy_v2(EchCuEvent event)
{
    int fails = failing();
    free(event);
    held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuEventRecord(EchCuEvent event, EchCuStream stream)
{
    ENTER_CONTEXT();
    host_takes(1500);
    if (!event || !stream)
        return INVALID_HANDLE;
    event->mark = new_mark();
    if (real() && !capturing)
        issue_work(stream, OPERATIONS, 450, 0, 1);
    return issue(stream, (Task){.kind = MARK, .mark = event->mark});
}

EXPORT EchCuResult cuEventSynchronize(EchCuEvent event)
{
    ENTER_CONTEXT();
    if (!event || !event->mark)
        return INVALID_HANDLE;
    run_until(NULL, event->mark);
    return event->mark->done ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuEventQuery(EchCuEvent event)
{
    ENTER_CONTEXT();
    return !event ? INVALID_HANDLE : !event->mark || event->mark->done ? 0 : ECH_CU_ERROR_NOT_READY;
}

EXPORT EchCuResult cuEventElapsedTime(float *ret_ms, EchCuEvent begin, EchCuEvent end)
{
    ENTER_CONTEXT();
    if (!begin || !end || !begin->mark || !end->mark || !begin->mark->done || !end->mark->done)
        return INVALID_HANDLE;
    double time = end->mark->time - begin->mark->time;
    *ret_ms = (float)((real() ? round(time / 500) * 500 : time) / 1e6);
    return 0;
}

EXPORT EchCuResult cuModuleLoadData(EchCuModule *ret, const void *image)
{
    ENTER_CONTEXT();
    char why[256];
    Ptx *ptx = ptx_load(image, why, sizeof why);
    if (!ptx) {
        fprintf(stderr, "fake CUDA: %s\n", why);
        return ECH_CU_ERROR_INVALID_PTX;
    }
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        abort();
    (*ret)->ptx = ptx;
    held++;
    return 0;
}

EXPORT EchCuResult cuModuleUnload(EchCuModule module)
{
    int fails = failing();
    run_all();
    ptx_free(module->ptx);
    free(module);
    held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuModuleGetFunction(EchCuFunction *ret, EchCuModule module, const char *name)
{
    ENTER_CONTEXT();
    if (!module)
        return INVALID_HANDLE;
    if (ptx_parameters(module->ptx, name, NULL, 0) < 0)
        return NOT_FOUND;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].name[0] == '\0')
            snprintf(functions[i].name, sizeof functions[i].name, "%s", name);
        if (strcmp(functions[i].name, name) == 0) {
            functions[i].ptx = module->ptx;
            *ret = &functions[i];
            return 0;
        }
    }
    return INVALID_VALUE;
}

static uint64_t word(void **parameters, int i)
{
    return *(uint64_t *)parameters[i];
}

/* The cache: lines of 128 bytes, the 4 MiB that were touched last by a chain, as far as a table remembers. */
static bool in_cache(const void *pointer)
{
    enum { LINES = 1 << 20 };
    static uint64_t touched[LINES], tick;
    uint64_t line = (uint64_t)(uintptr_t)pointer / 128, *at = &touched[line % LINES];
    bool is = *at != 0 && tick - *at < (4 << 20) / 128;
    *at = ++tick;
    return is;
}

static EchCuResult chase(void **parameters, EchCuStream stream, bool done)
{
    const uint32_t *next = (const uint32_t *)(uintptr_t)word(parameters, 0);
    uint32_t *place = (uint32_t *)(uintptr_t)word(parameters, 2);
    double time = 2000;
    if (!block_at(place, 4))
        return LAUNCH_FAILED;
    /* Where the PTX has been already this goes once more, for the time it takes: the places do not depend on it. */
    uint32_t at = done ? chase_from : *place;
    for (uint64_t i = 0; i < word(parameters, 1); i++) {
        if (!block_at(next + at, 4))
            return LAUNCH_FAILED;
        time += in_cache(next + at) ? 200 : 600;
        at = next[at];
    }
    *place = at;
    return issue_work(stream, OPERATIONS, time, 0, 1);
}

static void *reach(uint64_t address, unsigned bytes, bool writes, void *data)
{
    (void)writes, (void)data;
    return block_at((void *)(uintptr_t)address, bytes) ? (void *)(uintptr_t)address : NULL;
}

/* Whether a range lies in the cache: within the last 4 MiB that streaming kernels have moved. */
static int is_cached(const void *pointer, size_t bytes)
{
    enum { KNOWN = 64 };
    static struct {
        const char *begin;
        size_t bytes;
        uint64_t when; /* Bytes moved before it was */
    } ranges[KNOWN];
    static uint64_t moved;
    static unsigned next;
    int is = 0;
    for (int i = 0; i < KNOWN; i++)
        is |=
            ranges[i].begin <= (const char *)pointer && (const char *)pointer + bytes <= ranges[i].begin + ranges[i].bytes && moved - ranges[i].when <= 4 << 20;
    ranges[next % KNOWN].begin = pointer;
    ranges[next % KNOWN].bytes = bytes;
    ranges[next++ % KNOWN].when = moved;
    moved += bytes;
    return is && bytes > 0;
}

/* Lets the PTX itself do what it does to memory. */
static EchCuResult interpret(const struct EchCuFunctionOpaque *function, unsigned n_blocks, unsigned threads, void *const *parameters, bool *ret_done)
{
    const char *fuel = getenv("ECH_FAKE_CUDA_PTX");
    /* These add to what is there, and so must not be done in part and then once more. */
    bool whole = strcmp(function->name, "echelon_verify") == 0 || strcmp(function->name, "echelon_chase") == 0;
    char why[256];
    PtxCounts counts;
    *ret_done = false;
    if (!fuel || capturing)
        return 0;
    if (strcmp(function->name, "echelon_chase") == 0 && block_at((void *)(uintptr_t)word((void **)(uintptr_t)parameters, 2), 4))
        memcpy(&chase_from, (void *)(uintptr_t)word((void **)(uintptr_t)parameters, 2), 4);
    if (!ptx_run(function->ptx, function->name, n_blocks, threads, parameters, whole ? 0 : strtoull(fuel, NULL, 10), reach, NULL, &counts, why, sizeof why)) {
        fprintf(stderr, "fake CUDA: %s\n", why);
        return LAUNCH_FAILED;
    }
    *ret_done = counts.complete;
    return 0;
}

/* Kernels do on the host what they would do to memory, but where their PTX has @done it, and take the time of their bytes or operations. */
static EchCuResult run_kernel(const char *name, void **parameters, EchCuStream stream, unsigned threads, bool done)
{
    const void *first = (const void *)(uintptr_t)word(parameters, 0);
    double all = threads;
    if (strcmp(name, "echelon_stream") == 0) {
        uint64_t reads = word(parameters, 2), writes = word(parameters, 3);
        void *target = (void *)(uintptr_t)word(parameters, 1);
        if ((reads > 0 && !block_at(first, reads * 16)) || (writes > 0 && !block_at(target, writes * 16)))
            return LAUNCH_FAILED;
        if (writes > 0 && !done)
            memset(target, 1, writes * 16);
        double mixed = (double)(reads < writes ? reads : writes);
        /* As bytes at the full rate. */
        double amount = 16 * (((double)reads - mixed) + ((double)writes - mixed) / .9 + 2 * mixed / .95);
        double ramp = real() ? 2500 * (1 - exp(-amount / 3e5)) : 0;
        return issue_work(stream, PORT, 2000 + ramp, amount, real() && is_cached(first, reads * 16) ? 4000 : 1000);
    }
    if (strcmp(name, "echelon_strided") == 0 || strcmp(name, "echelon_random") == 0) {
        uint64_t mask = word(parameters, 1), stride = strcmp(name, "echelon_strided") == 0 ? word(parameters, 2) : 4;
        uint64_t reads = word(parameters, strcmp(name, "echelon_strided") == 0 ? 3 : 2);
        if (!block_at(first, (mask + 1) * 16) || (mask & (mask + 1)) != 0)
            return LAUNCH_FAILED;
        /* Sectors of 32 bytes; a small range lives in the cache. */
        return issue_work(stream, PORT, 2000, (double)reads * 16 * (stride > 1 ? 2 : 1), (mask + 1) * 16 <= 4 << 20 ? 4000 : 1000);
    }
    if (strcmp(name, "echelon_chase") == 0)
        return chase(parameters, stream, done);
    if (strcmp(name, "echelon_spin") == 0)
        return issue_work(stream, OPERATIONS, 2000 + (double)word(parameters, 0), 0, 1);
    if (strcmp(name, "echelon_fma") == 0)
        return issue_work(stream, OPERATIONS, 2000, (double)word(parameters, 0) * all * 32, 1000);
    if (strcmp(name, "echelon_fma64") == 0)
        return issue_work(stream, OPERATIONS, 2000, (double)word(parameters, 0) * all * 32, 500);
    if (strcmp(name, "echelon_exp") == 0)
        return issue_work(stream, OPERATIONS, 2000, (double)word(parameters, 0) * all * 16, 125);
    if (strcmp(name, "echelon_mma") == 0)
        return issue_work(stream, OPERATIONS, 2000, (double)word(parameters, 0) * (all / 32) * 16384, 100000);
    if (strcmp(name, "echelon_noise") == 0) {
        uint64_t words = word(parameters, 1);
        if (words > 0 && !block_at(first, words * 4))
            return LAUNCH_FAILED;
        if (words > 0 && !done) /* Noise that nobody looks at: the first page will do */
            memset((void *)(uintptr_t)first, 0x3c, words < 1024 ? words * 4 : 4096);
        return issue_work(stream, PORT, 2000, (double)words * 4, 900);
    }
    if (strcmp(name, "echelon_verify") == 0) {
        const uint32_t *data = first;
        uint64_t words = word(parameters, 1);
        uint32_t pattern = *(uint32_t *)parameters[2], *differing = (uint32_t *)(uintptr_t)word(parameters, 3);
        if (words > 0 && (!block_at(data, words * 4) || !block_at(differing, 4)))
            return LAUNCH_FAILED;
        for (uint64_t i = 0; i < words && !done; i++)
            *differing += data[i] != pattern;
        return issue_work(stream, PORT, 2000, (double)words * 4, 1000);
    }
    return INVALID_VALUE;
}

EXPORT EchCuResult cuLaunchKernel(EchCuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, EchCuStream stream, void **parameters, void **extra)
{
    ENTER_CONTEXT();
    host_takes(1500);
    if (real() && function && !function->loaded) {
        function->loaded = 1;
        used += 3 << 20;
    }
    if (!function || !stream || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1 || shared_bytes ||
        extra)
        return INVALID_VALUE;
    unsigned sizes[16];
    uint64_t values[16] = {0};
    void *copies[16];
    int n = ptx_parameters(function->ptx, function->name, sizes, 16);
    for (int i = 0; i < n; i++) {
        memcpy(&values[i], parameters[i], sizes[i]);
        copies[i] = &values[i];
    }
    bool done = false;
    EchCuResult result = interpret(function, grid_x, block_x, copies, &done);
    return result ? result : run_kernel(function->name, copies, stream, grid_x * block_x, done);
}

EXPORT EchCuResult cuGetErrorName(EchCuResult result, const char **ret)
{
    *ret = result == ECH_CU_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
           : result == LAUNCH_FAILED            ? "CUDA_ERROR_LAUNCH_FAILED"
           : result == ECH_CU_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
                                                : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

EXPORT EchCuResult cuMemGetAllocationGranularity(size_t *ret, const EchCuAllocationProp *prop, int option)
{
    ENTER_CONTEXT();
    *ret = (size_t)2 << 20;
    return prop && option >= 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemAddressReserve(EchCuPointer *ret, size_t bytes, size_t alignment, EchCuPointer hint, unsigned long long flags)
{
    (void)alignment, (void)hint, (void)flags;
    return cuMemAlloc_v2(ret, bytes);
}

EXPORT EchCuResult cuMemAddressFree(EchCuPointer pointer, size_t bytes)
{
    (void)bytes;
    return cuMemFree_v2(pointer);
}

EXPORT EchCuResult cuMemCreate(unsigned long long *ret, size_t bytes, const EchCuAllocationProp *prop, unsigned long long flags)
{
    ENTER_CONTEXT();
    *ret = 1;
    held++;
    return bytes > 0 && prop && !flags ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemRelease(unsigned long long handle)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : handle == 1 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemMap(EchCuPointer pointer, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags)
{
    ENTER_CONTEXT();
    const char *harm = getenv("ECH_FAKE_CUDA_MAP");
    if (harm && strcmp(harm, "crash") == 0)
        raise(SIGKILL);
    while (harm && strcmp(harm, "hang") == 0)
        pause();
    return block_at((void *)(uintptr_t)pointer, bytes) && offset == 0 && handle == 1 && !flags ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemUnmap(EchCuPointer pointer, size_t bytes)
{
    ENTER_CONTEXT();
    return block_at((void *)(uintptr_t)pointer, bytes) ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemSetAccess(EchCuPointer pointer, size_t bytes, const EchCuAccess *access, size_t n)
{
    ENTER_CONTEXT();
    return block_at((void *)(uintptr_t)pointer, bytes) && access && n == 1 ? 0 : INVALID_VALUE;
}

/* ---- cuBLAS ---- */

static EchCuStream blas_stream;

EXPORT int cublasCreate_v2(EchCuBlasHandle *ret)
{
    ENTER_CONTEXT();
    *ret = (EchCuBlasHandle)(void *)&pool;
    held++;
    return 0;
}

EXPORT int cublasDestroy_v2(EchCuBlasHandle handle)
{
    int fails = failing();
    held--;
    return fails ? LAUNCH_FAILED : (void *)handle == &pool ? 0 : INVALID_VALUE;
}

EXPORT int cublasGetVersion_v2(EchCuBlasHandle handle, int *ret)
{
    ENTER_CONTEXT();
    *ret = 130000;
    return (void *)handle == &pool ? 0 : INVALID_VALUE;
}

EXPORT int cublasSetStream_v2(EchCuBlasHandle handle, EchCuStream stream)
{
    ENTER_CONTEXT();
    blas_stream = stream;
    return (void *)handle == &pool ? 0 : INVALID_VALUE;
}

EXPORT int cublasSetWorkspace_v2(EchCuBlasHandle handle, void *workspace, size_t bytes)
{
    ENTER_CONTEXT();
    return (void *)handle == &pool && block_at(workspace, bytes) ? 0 : INVALID_VALUE;
}

EXPORT int cublasGemmStridedBatchedEx(EchCuBlasHandle handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a,
                                      int type_a, int lda, long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta,
                                      void *c, int type_c, int ldc, long long stride_c, int batch, int compute, int algorithm)
{
    ENTER_CONTEXT();
    host_takes(1500);
    size_t element = type_a == 3 ? 1 : type_a == 1 ? 8 : type_a == 0 ? 4 : 2, result = type_c == 1 ? 8 : type_c == 0 || type_c == 10 ? 4 : 2;
    (void)compute;
    if ((void *)handle != &pool || m <= 0 || n <= 0 || k <= 0 || batch <= 0 || !alpha || !beta || type_a != type_b || transpose_b || algorithm != -1 ||
        lda < (transpose_a ? k : m) || ldb < k || ldc < m || stride_a < (long long)m * k || stride_b < (long long)k * n || stride_c < (long long)m * n ||
        !block_at(a, (size_t)batch * (size_t)stride_a * element) || !block_at(b, (size_t)batch * (size_t)stride_b * element) ||
        !block_at(c, (size_t)batch * (size_t)stride_c * result))
        return INVALID_VALUE;
    if (real()) {
        /* Tiles of 128 x 128 in waves of 32; a prologue as long as 200 steps of k. */
        double tiles = (double)((m + 127) / 128) * ((n + 127) / 128) * batch, waves = ceil(tiles / 32);
        double full = type_a == 0 ? 100000 : type_a == 1 ? 25000 : 200000, uneven = m % 8 || n % 8 || k % 8 ? .16 : 1;
        return issue_work(blas_stream, OPERATIONS, 2000, waves * 32 * 128 * 128 * 2.0 * (k + 200), full * uneven);
    }
    double rate = type_a == 0 ? 100000 : type_a == 1 ? 25000 : 200000;
    return issue_work(blas_stream, OPERATIONS, 2000, 2.0 * m * n * k * batch, m % 2 || n % 2 || k % 2 ? .7 * rate : rate);
}
