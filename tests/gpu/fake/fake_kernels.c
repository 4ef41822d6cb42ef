/* Kernels: what they do to memory, by functions of their names or by their PTX, and how long they take. */
#include "tests/gpu/fake/fake.h"
#include "tests/gpu/fake/ptx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct EchCuModuleOpaque {
    struct EchCuModuleOpaque *next;
    const Ptx *ptx; /* borrowed */
};
struct EchCuFunctionOpaque {
    char name[32];
    const struct EchCuModuleOpaque *module;
    const Ptx *ptx;
    int loaded; /* Its code takes memory from the first launch on */
};
static struct EchCuModuleOpaque *modules;

static void know_module(const struct EchCuModuleOpaque *module, const char *symbol)
{
    const struct EchCuModuleOpaque *at = modules;
    while (at && at != module)
        at = at->next;
    if (!at)
        fake_misused(symbol, "a module that is not there");
}

static struct EchCuFunctionOpaque functions[16];
static uint32_t chase_from; /* Where a chain was before its PTX ran */

/* Reads every text once: tests load the same one a thousand times. What was read stays until the process ends. */
static const Ptx *ptx_of(const char *text, char *why, size_t room)
{
    static struct {
        char *text;
        Ptx *ptx;
    } read[8];
    size_t i = 0;
    while (i < sizeof read / sizeof *read - 1 && read[i].text && strcmp(read[i].text, text) != 0)
        i++;
    if (read[i].text && strcmp(read[i].text, text) == 0)
        return read[i].ptx;
    Ptx *ptx = ptx_load(text, why, room);
    char *copy = ptx ? malloc(strlen(text) + 1) : NULL;
    if (!ptx)
        return NULL;
    if (!copy || read[i].text) /* more texts than any test has */
        abort();
    strcpy(copy, text);
    read[i].text = copy;
    read[i].ptx = ptx;
    return ptx;
}

EXPORT EchCuResult cuModuleLoadData(EchCuModule *ret, const void *image)
{
    ENTER_CONTEXT();
    char why[256];
    const Ptx *ptx = ptx_of(image, why, sizeof why);
    if (!ptx) {
        fprintf(stderr, "fake CUDA: %s\n", why);
        return ECH_CU_ERROR_INVALID_PTX;
    }
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        abort();
    (*ret)->ptx = ptx;
    (*ret)->next = modules;
    modules = *ret;
    fake.held++;
    return 0;
}

EXPORT EchCuResult cuModuleUnload(EchCuModule module)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    know_module(module, __func__);
    fake_run_all();
    struct EchCuModuleOpaque **at = &modules;
    while (*at != module)
        at = &(*at)->next;
    *at = module->next;
    free(module);
    fake.held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuModuleGetFunction(EchCuFunction *ret, EchCuModule module, const char *name)
{
    ENTER_CONTEXT();
    if (!module)
        return INVALID_HANDLE;
    know_module(module, __func__);
    if (ptx_parameters(module->ptx, name, NULL, 0) < 0)
        return NOT_FOUND;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].name[0] == '\0')
            snprintf(functions[i].name, sizeof functions[i].name, "%s", name);
        if (strcmp(functions[i].name, name) == 0) {
            functions[i].ptx = module->ptx;
            functions[i].module = module;
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

/* What a kernel would end the context by: a pointer that its accesses are not aligned to. */
static bool is_aligned(const void *pointer, unsigned to)
{
    return (uintptr_t)pointer % to == 0;
}

/* The cache: lines of 128 bytes, the 4 MiB that were touched last by a chain, as far as a table remembers. */
static bool in_cache(const void *pointer)
{
    enum { LINES = 1 << 20 };
    static uint64_t touched[LINES], tick;
    uint64_t line = (uint64_t)(uintptr_t)pointer / 128, *at = &touched[line % LINES];
    bool is = *at != 0 && (double)(tick - *at) < fake_figures()->l2 / 128;
    *at = ++tick;
    return is;
}

static EchCuResult chase(void **parameters, EchCuStream stream, bool done)
{
    const uint32_t *next = (const uint32_t *)(uintptr_t)word(parameters, 0);
    uint32_t *place = (uint32_t *)(uintptr_t)word(parameters, 2);
    double time = fake_figures()->launch;
    if (!is_aligned(place, 4) || !is_aligned(next, 4) || !fake_block_at(place, 4))
        return LAUNCH_FAILED;
    /* Where the PTX has been already this goes once more, for the time it takes: the places do not depend on it. */
    uint32_t at = done ? chase_from : *place;
    for (uint64_t i = 0; i < word(parameters, 1); i++) {
        if (!fake_block_at(next + at, 4))
            return LAUNCH_FAILED;
        time += in_cache(next + at) ? 200 : 600;
        at = next[at];
    }
    *place = at;
    return fake_issue_work(stream, OPERATIONS, time, 0, 1);
}

static void *reach(uint64_t address, unsigned bytes, bool writes, void *data)
{
    (void)writes, (void)data;
    return fake_block_at((void *)(uintptr_t)address, bytes) ? (void *)(uintptr_t)address : NULL;
}

/* Whether a range lies in the cache: within the last 4 MiB that streaming kernels have moved. */
int fake_is_cached(const void *pointer, size_t bytes)
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
        is |= ranges[i].begin <= (const char *)pointer && (const char *)pointer + bytes <= ranges[i].begin + ranges[i].bytes &&
              (double)(moved - ranges[i].when) <= fake_figures()->l2;
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
    if (!fuel || fake.capturing)
        return 0;
    if (strcmp(function->name, "echelon_chase") == 0 && fake_block_at((void *)(uintptr_t)word((void **)(uintptr_t)parameters, 2), 4))
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
    const FakeFigures *figures = fake_figures();
    if (strcmp(name, "echelon_stream") == 0) {
        uint64_t reads = word(parameters, 2), writes = word(parameters, 3);
        void *target = (void *)(uintptr_t)word(parameters, 1);
        if ((reads > 0 && (!is_aligned(first, 16) || !fake_block_at(first, reads * 16))) ||
            (writes > 0 && (!is_aligned(target, 16) || !fake_block_at(target, writes * 16))))
            return LAUNCH_FAILED;
        if (writes > 0 && !done && fake_moves())
            memset(target, 1, writes * 16);
        fake_note_written(target, writes * 16, 0);
        double mixed = (double)(reads < writes ? reads : writes);
        /* As bytes at the full rate. */
        double amount = 16 * (((double)reads - mixed) + ((double)writes - mixed) / figures->write + 2 * mixed / figures->mixed);
        double ramp = fake_real() ? figures->stream * (1 - exp(-amount / figures->stream_bytes)) : 0;
        double more = stream->behind == BEHIND_EVENT ? figures->alone : 0;
        stream->behind = BEHIND_KERNEL;
        return fake_issue_work(stream, PORT, figures->launch + more + ramp, amount,
                               fake_real() && fake_is_cached(first, reads * 16) ? figures->cache : figures->port);
    }
    if (strcmp(name, "echelon_strided") == 0 || strcmp(name, "echelon_random") == 0) {
        uint64_t mask = word(parameters, 1), stride = strcmp(name, "echelon_strided") == 0 ? word(parameters, 2) : 4;
        uint64_t reads = word(parameters, strcmp(name, "echelon_strided") == 0 ? 3 : 2);
        if (!is_aligned(first, 16) || !fake_block_at(first, (mask + 1) * 16) || (mask & (mask + 1)) != 0)
            return LAUNCH_FAILED;
        /* Sectors of 32 bytes; a small range lives in the cache. */
        return fake_issue_work(stream, PORT, figures->launch, (double)reads * 16 * (stride > 1 ? 2 : 1),
                               (double)(mask + 1) * 16 <= figures->l2 ? figures->cache : figures->port);
    }
    if (strcmp(name, "echelon_chase") == 0)
        return chase(parameters, stream, done);
    if (strcmp(name, "echelon_spin") == 0) {
        static uint32_t phase = 1;
        phase = phase * 1664525 + 1013904223;
        /* Its clock goes in steps, and is first read somewhere in one. */
        double time = (double)word(parameters, 0), steps = fake_real() && time > 0 ? time + 500 + 2000 * (double)(phase >> 8) / (1 << 24) : time;
        EchCuResult result = fake_issue_work(stream, OPERATIONS, figures->launch, 0, 1);
        result = result ? result : fake_issue(stream, (Task){.kind = OPERATIONS, .fixed = steps, .rate = 1});
        stream->behind = BEHIND_WAITING;
        return result;
    }
    if (strcmp(name, "echelon_fma") == 0)
        return fake_issue_work(stream, OPERATIONS, figures->launch, (double)word(parameters, 0) * all * 32, figures->f32);
    if (strcmp(name, "echelon_fma64") == 0)
        return fake_issue_work(stream, OPERATIONS, figures->launch, (double)word(parameters, 0) * all * 32, figures->f64);
    if (strcmp(name, "echelon_exp") == 0)
        return fake_issue_work(stream, OPERATIONS, figures->launch, (double)word(parameters, 0) * all * 16, figures->special);
    if (strcmp(name, "echelon_mma") == 0)
        return fake_issue_work(stream, OPERATIONS, figures->launch, (double)word(parameters, 0) * (all / 32) * 16384, figures->tensor);
    if (strcmp(name, "echelon_noise") == 0) {
        uint64_t words = word(parameters, 1);
        if (words > 0 && (!is_aligned(first, 4) || !fake_block_at(first, words * 4)))
            return LAUNCH_FAILED;
        if (words > 0 && !done) /* Noise that nobody looks at: the first page will do */
            memset((void *)(uintptr_t)first, 0x3c, words < 1024 ? words * 4 : 4096);
        fake_note_written(first, words * 4, 1);
        return fake_issue_work(stream, PORT, figures->launch, (double)words * 4, figures->port * figures->write);
    }
    if (strcmp(name, "echelon_verify") == 0) {
        const uint32_t *data = first;
        uint64_t words = word(parameters, 1);
        uint32_t pattern = *(uint32_t *)parameters[2], *differing = (uint32_t *)(uintptr_t)word(parameters, 3);
        if (words > 0 && (!is_aligned(data, 4) || !fake_block_at(data, words * 4) || !fake_block_at(differing, 4)))
            return LAUNCH_FAILED;
        for (uint64_t i = 0; i < words && !done; i++)
            *differing += data[i] != pattern;
        return fake_issue_work(stream, PORT, figures->launch, (double)words * 4, figures->port);
    }
    return INVALID_VALUE;
}

EXPORT EchCuResult cuLaunchKernel(EchCuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, EchCuStream stream, void **parameters, void **extra)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    if (fake_real() && function && !function->loaded) {
        function->loaded = 1;
        fake.used += 3 << 20;
        fake_load_code();
    }
    fake_know_stream(stream, __func__);
    if (function)
        know_module(function->module, __func__);
    if (!function || !stream || !parameters || grid_x == 0 || grid_x > INT32_MAX || grid_y != 1 || grid_z != 1 || block_x == 0 ||
        block_x > ptx_most_threads(function->ptx, function->name) || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return INVALID_VALUE;
    const char *fault = getenv("ECH_FAKE_CUDA_FAULT");
    fake.faulty |= fault && strtol(fault, NULL, 10) == ++fake.launches;
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
    fake.launching = 1;
    result = result ? result : run_kernel(function->name, copies, stream, grid_x * block_x, done);
    fake.launching = 0;
    return result;
}
