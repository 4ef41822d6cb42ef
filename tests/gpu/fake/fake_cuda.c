/* A CUDA driver of our own for tests: the same symbols, host memory behind them, a clock of its own, and failures on request.
 *
 * Memory is touched at once when something is issued; time passes later, when somebody waits or asks for it: queues run side by side, copies of one
 * direction one after the other, and what runs together shares the link and the memory port. The figures of this GPU are those of FAKE_FIGURES; with
 * ECH_FAKE_CUDA_FIGURES=NAME=VALUE,... it is another one. Copies on the device use the port, ranges that fit the cache and are read over and over do not; a
 * link of a chain takes 600 ns, 200 ns where it is one of the last lines that chains came to; products at odd sides reach .7 of their rate.
 *
 * ECH_FAKE_CUDA_FAIL=N makes the N-th call (from 1) return an error; every call checks its handles, and what is still held at the end is counted in
 * fake_cuda_held() (looked up by the tests). A release that fails has still released. A context is current in the thread that made it so, and the driver works
 * in the process that started it: not after a fork(). What is used after it was destroyed, given back twice or without a context ends the process
 * (fake_misused). ECH_FAKE_CUDA_BYTES is the card's memory, ECH_FAKE_CUDA_NAME its name, ECH_FAKE_CUDA_ALLOC_US how long an allocation keeps the host busy, and
 * as long again for every page of 2 MiB more; ECH_FAKE_CUDA_INIT is what cuInit returns; ECH_FAKE_CUDA_MAP=crash or hang is what mapping memory does; with
 * ECH_FAKE_CUDA_STRAY a copy to the device changes other blocks too; with ECH_FAKE_CUDA_FAULT=N the N-th kernel fails as kernels do: its launch goes well,
 * whoever waits next is told, and so is every call after that; ECH_FAKE_CUDA_PINNED is the most that can be pinned at once; with ECH_FAKE_CUDA_SOCKETS what is
 * pinned lies at another processor, and is copied at 0.7 of the rate, until NVML is asked to keep the thread near; ECH_FAKE_CUDA_OTHERS is what other processes
 * have of the card's memory, and a context then takes 8 MiB.
 *
 * Of a kernel's parameters as many bytes are read as its PTX says: a sanitizer sees what is too short. What kernels do to memory is done by functions of
 * their names here; with ECH_FAKE_CUDA_PTX=N by the PTX itself, whose every access is checked, at most N instructions a launch (0: all), from both ends.
 *
 * ECH_FAKE_CUDA_REAL=1 makes it less of a model and more of a machine: times scatter by some percent with a long tail and come in steps, clocks rise in the
 * first 20 ms of work and tensor cores fall by a share once they have done much of what they can for milliseconds, copies have a rate that depends on their
 * size and share the link unevenly, run slower while something uses the memory port and take several times their bytes of it, streaming kernels a ramp and the
 * speed of the cache where they find the bytes of one before them, matrix products tiles, waves, a prologue and a small share of the rate at odd sides, events
 * and waits take time (events with their time three times as long before clocks have risen), code takes memory and a millisecond when it is first used, once
 * the GPU is idle, a graph is brought to the GPU when it is first launched, a pool takes and gives back 32 MiB at a time, and memory comes in pages; a call
 * takes the host some time (ECH_FAKE_CUDA_SLOW times as long), in which queues go on, pageable copies make it wait, and so does a queue that holds a thousand
 * things (four times as many where CUDA_SCALE_LAUNCH_QUEUES=4x, as the driver has it); cudaMalloc and cudaFree 20 us and 1 us a page more, the latter once the
 * GPU is idle; the device's own clock goes in steps of two microseconds; mapping memory takes what fake_mapping.c says. With
 * ECH_FAKE_CUDA_LATE the so manieth copy, or those from one to another (113-126), takes 20 ms more. With ECH_FAKE_CUDA_WEIGHTLESS copies and streaming kernels
 * move nothing but a copy's first and last byte: their time is the model's either way, and the host's is spared.
 */
#include "tests/gpu/fake/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Fake fake;
_Thread_local int fake_current;
static char context_of;

EXPORT long fake_cuda_held(void);
EXPORT long fake_cuda_calls(void);
EXPORT void fake_cuda_reset(void);

long fake_cuda_held(void)
{
    return fake.held;
}

long fake_cuda_calls(void)
{
    return fake.calls;
}

void fake_cuda_reset(void)
{
    fake.calls = fake.launches = 0;
    fake.faulty = fake.faulted = 0;
    fake_run_all();
    fake.capturing = 0;
}

_Noreturn void fake_misused(const char *symbol, const char *how)
{
    fprintf(stderr, "fake CUDA: %s: %s\n", symbol, how);
    abort();
}

void fake_enter_release(const char *symbol)
{
    if (!fake_current)
        fake_misused(symbol, "no current context");
    if (fake.process != (long)getpid())
        fake_misused(symbol, "another process started the driver");
}

/* True if this call is to fail. */
int fake_failing(void)
{
    const char *fail = getenv("ECH_FAKE_CUDA_FAIL");
    fake.calls++;
    if (fake.faulted)
        return 1;
    return fail && strtol(fail, NULL, 10) == fake.calls;
}

int fake_comes_to_fault(void)
{
    fake.faulted = fake.faulty;
    return fake.faulted;
}

int fake_real(void)
{
    static int is = -1;
    if (is < 0)
        is = getenv("ECH_FAKE_CUDA_REAL") != NULL;
    return is;
}

static FakeFigures figures;

const FakeFigures *fake_figures(void)
{
    return &figures;
}

static void read_figures(void)
{
    static const struct {
        const char *name;
        double *figure, value;
    } all[] = {
#define ROW(name, value) {#name, &figures.name, value},
        FAKE_FIGURES(ROW)
#undef ROW
    };
    const char *text = getenv("ECH_FAKE_CUDA_FIGURES"), *scale = getenv("CUDA_SCALE_LAUNCH_QUEUES");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].figure = all[i].value;
    while (text && *text) {
        size_t length = strcspn(text, "="), i = 0;
        while (i < sizeof all / sizeof *all && (strlen(all[i].name) != length || strncmp(all[i].name, text, length) != 0))
            i++;
        if (i == sizeof all / sizeof *all || text[length] != '=') {
            fprintf(stderr, "fake CUDA: no figure %s\n", text);
            abort();
        }
        char *end;
        *all[i].figure = strtod(text + length + 1, &end);
        text = end + (*end == ',');
    }
    figures.depth *= scale && strcmp(scale, "4x") == 0 ? 4 : 1;
}

size_t fake_foreign(void)
{
    const char *others = getenv("ECH_FAKE_CUDA_OTHERS");
    return others ? strtoull(others, NULL, 10) + (fake.retained > 0 ? (size_t)8 << 20 : 0) : 0;
}

int fake_moves(void)
{
    return getenv("ECH_FAKE_CUDA_WEIGHTLESS") == NULL;
}

EXPORT EchCuResult cuInit(unsigned flags)
{
    if (fake_failing() || flags)
        return INVALID_VALUE;
    if (getenv("ECH_FAKE_CUDA_INIT"))
        return atoi(getenv("ECH_FAKE_CUDA_INIT"));
    read_figures();
    if (!fake.graph.last)
        fake.graph.last = &fake.graph.first;
    /* A process made by fork() has its parent's memory, and no driver: not one of the parent's, and not one of its own. */
    if (fake.ready && fake.process != (long)getpid())
        return NOT_INITIALIZED;
    fake.ready = 1;
    fake.process = (long)getpid();
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
    case ECH_CU_ATTRIBUTE_MULTIPROCESSORS: *ret = (int)fake_figures()->sms; break;
    case ECH_CU_ATTRIBUTE_MAJOR: *ret = 9; break;
    case ECH_CU_ATTRIBUTE_MINOR: *ret = 0; break;
    case ECH_CU_ATTRIBUTE_L2_BYTES: *ret = (int)fake_figures()->l2; break;
    case ECH_CU_ATTRIBUTE_ASYNC_ENGINES: *ret = 3; break;
    case ECH_CU_ATTRIBUTE_CLOCK_KHZ: *ret = (int)fake_figures()->khz; break;
    case ECH_CU_ATTRIBUTE_MEMORY_CLOCK_KHZ: *ret = 2000000; break;
    case ECH_CU_ATTRIBUTE_BUS_BITS: *ret = 2048; break;
    case ECH_CU_ATTRIBUTE_VMM:
    case ECH_CU_ATTRIBUTE_POOLS: *ret = 1; break;
    default: return INVALID_VALUE;
    }
    return device == 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuDevicePrimaryCtxRetain(EchCuContext *ret, EchCuDevice device)
{
    ENTER();
    if (device != 0)
        return INVALID_VALUE;
    fake.held++;
    fake.busy = 0;
    fake.retained++;
    *ret = (EchCuContext)(void *)&context_of;
    return 0;
}

EXPORT EchCuResult cuDevicePrimaryCtxRelease_v2(EchCuDevice device)
{
    int fails = fake_failing();
    if (device != 0 || fake.retained == 0)
        fake_misused(__func__, "no context to release");
    if (fake.retained == 1 && fake_current)
        fake_misused(__func__, "the last of a context that is still current");
    fake.retained--;
    fake.held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuCtxSetCurrent(EchCuContext context)
{
    /* Whatever fails, nothing is current after a call that takes the context away. */
    fake_current = context ? fake_current : 0;
    ENTER();
    if (context && ((void *)context != &context_of || fake.retained == 0))
        fake_misused(__func__, "no such context");
    fake_current = context != NULL;
    return 0;
}

EXPORT EchCuResult cuCtxSynchronize(void)
{
    ENTER_CONTEXT();
    if (fake.capturing)
        return CAPTURE_UNSUPPORTED;
    fake_run_all();
    fake_order_pool(NULL, fake_pool_frees(), 1);
    fake_trim_pool();
    return fake_comes_to_fault() ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuGetErrorName(EchCuResult result, const char **ret)
{
    *ret = result == ECH_CU_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
           : result == LAUNCH_FAILED            ? "CUDA_ERROR_LAUNCH_FAILED"
           : result == ECH_CU_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
                                                : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}
