#include "sim/replay/cuda_state.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

typedef int NvmlResult;                       /* 0 is success */
typedef int NvmlClock, NvmlSensor, NvmlState; /* Enumerations, of an int's size */
typedef struct NvmlDeviceOpaque *NvmlDevice;
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

/* nvmlMemory_t */
typedef struct {
    unsigned long long total, free, used;
} NvmlMemory;

/* NVML(member, symbol, parameters): every function in use. */
#define NVML_FUNCTIONS(X)                                                                                                                                      \
    X(init, nvmlInit_v2, (void))                                                                                                                               \
    X(shutdown, nvmlShutdown, (void))                                                                                                                          \
    X(by_uuid, nvmlDeviceGetHandleByUUID, (const char *uuid, NvmlDevice *ret))                                                                                 \
    X(clock, nvmlDeviceGetClockInfo, (NvmlDevice device, NvmlClock type, unsigned *ret_mhz))                                                                   \
    X(power, nvmlDeviceGetPowerUsage, (NvmlDevice device, unsigned *ret_mw))                                                                                   \
    X(limit, nvmlDeviceGetEnforcedPowerLimit, (NvmlDevice device, unsigned *ret_mw))                                                                           \
    X(temperature, nvmlDeviceGetTemperature, (NvmlDevice device, NvmlSensor sensor, unsigned *ret_celsius))                                                    \
    X(ecc, nvmlDeviceGetEccMode, (NvmlDevice device, NvmlState * ret_current, NvmlState * ret_pending))                                                        \
    X(memory, nvmlDeviceGetMemoryInfo, (NvmlDevice device, NvmlMemory * ret))                                                                                  \
    X(stay_near, nvmlDeviceSetCpuAffinity, (NvmlDevice device))

typedef struct {
#define NVML_MEMBER(member, symbol, parameters) NvmlResult(*member) parameters;
    NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
    NvmlResult (*reasons)(NvmlDevice device, unsigned long long *ret); /* NULL: not known */
} Nvml;

struct EchGpuWatch {
    const Nvml *nvml;
    NvmlDevice device;
    bool near;
    cpu_set_t before; /* Where the thread might run, @near */
};

/* Source: nvmlClocksEventReasons of the NVML reference (docs.nvidia.com/deploy/nvml-api). Idleness and settings are no news. */
static const struct {
    unsigned long long bit;
    const char *words;
    bool throttles;
} known_reasons[] = {{0x4, "the power limit", true},    {0x8, "a slowdown of the hardware", true},  {0x10, "the slowest GPU of a group", false},
                     {0x20, "its temperature", true},   {0x40, "its temperature (hardware)", true}, {0x80, "the power supply's brake", true},
                     {0x2, "application clocks", false}};

static const Nvml *load(void)
{
    static Nvml nvml;
    static enum { UNTRIED, LOADED, ABSENT } state;
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    if (state != UNTRIED)
        return state == LOADED ? &nvml : NULL;
    state = ABSENT;
    const char *name = g_getenv("ECHELON_LIBNVML");
    g_autofree char *why = NULL;
    void *library = name ? (*name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL) : ech_cuda_open_library(names, &why);
    if (!library)
        return NULL;
#define NVML_LOAD(member, symbol, parameters)                                                                                                                  \
    {                                                                                                                                                          \
        void *found = dlsym(library, #symbol);                                                                                                                 \
        if (!found)                                                                                                                                            \
            return NULL;                                                                                                                                       \
        memcpy(&nvml.member, &found, sizeof found);                                                                                                            \
    }
    NVML_FUNCTIONS(NVML_LOAD)
#undef NVML_LOAD
    /* The name of all drivers so far, and the one that is to replace it. */
    static const char *const reasons[] = {"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons"};
    for (size_t i = 0; !nvml.reasons && i < G_N_ELEMENTS(reasons); i++) {
        void *found = dlsym(library, reasons[i]);
        memcpy(&nvml.reasons, &found, sizeof found);
    }
    state = LOADED;
    return &nvml;
}

EchGpuWatch *ech_gpu_watch_new(const EchCuGpu *gpu)
{
    const Nvml *nvml = *gpu->uuid ? load() : NULL;
    if (!nvml || nvml->init() != 0)
        return NULL;
    const char *u = gpu->uuid;
    g_autofree char *uuid = g_strdup_printf("GPU-%.8s-%.4s-%.4s-%.4s-%.12s", u, u + 8, u + 12, u + 16, u + 20);
    NvmlDevice device;
    if (nvml->by_uuid(uuid, &device) != 0) {
        nvml->shutdown();
        return NULL;
    }
    EchGpuWatch *watch = g_new(EchGpuWatch, 1);
    *watch = (EchGpuWatch){.nvml = nvml, .device = device};
    return watch;
}

void ech_gpu_watch_free(EchGpuWatch *watch)
{
    if (!watch)
        return;
    if (watch->near)
        sched_setaffinity(0, sizeof watch->before, &watch->before);
    watch->nvml->shutdown();
    g_free(watch);
}

void ech_gpu_watch_stay_near(EchGpuWatch *watch)
{
    if (watch && !watch->near && sched_getaffinity(0, sizeof watch->before, &watch->before) == 0)
        watch->near = watch->nvml->stay_near(watch->device) == 0;
}

bool ech_gpu_watch_memory(const EchGpuWatch *watch, uint64_t *ret_used)
{
    NvmlMemory memory;
    if (!watch || watch->nvml->memory(watch->device, &memory) != 0)
        return false;
    *ret_used = memory.used;
    return true;
}

void ech_gpu_watch_look(EchGpuWatch *watch, EchGpuState *state)
{
    unsigned sm, value;
    unsigned long long reasons;
    NvmlState current, pending;
    if (!watch || watch->nvml->clock(watch->device, NVML_CLOCK_SM, &sm) != 0)
        return;
    const Nvml *nvml = watch->nvml;
    state->sm_low = state->looks > 0 ? MIN(state->sm_low, sm) : sm;
    state->sm_high = MAX(state->sm_high, sm);
    if (nvml->clock(watch->device, NVML_CLOCK_MEMORY, &value) == 0)
        state->memory_mhz = value;
    if (nvml->power(watch->device, &value) == 0)
        state->power_mw = MAX(state->power_mw, value);
    if (nvml->limit(watch->device, &value) == 0)
        state->limit_mw = value;
    if (nvml->temperature(watch->device, NVML_TEMPERATURE_GPU, &value) == 0)
        state->celsius = MAX(state->celsius, value);
    if (nvml->reasons && nvml->reasons(watch->device, &reasons) == 0)
        state->reasons |= reasons;
    state->ecc = nvml->ecc(watch->device, &current, &pending) == 0 ? current != 0 : -1;
    state->looks++;
}

bool ech_gpu_state_throttled(const EchGpuState *state)
{
    for (size_t i = 0; i < G_N_ELEMENTS(known_reasons); i++) {
        if (known_reasons[i].throttles && (state->reasons & known_reasons[i].bit))
            return true;
    }
    return false;
}

char *ech_gpu_state_text(const EchGpuState *state)
{
    if (state->looks == 0)
        return NULL;
    GString *text = g_string_new(NULL);
    if (state->sm_low == state->sm_high)
        g_string_append_printf(text, "SM clock %u MHz", state->sm_high);
    else
        g_string_append_printf(text, "SM clock %u to %u MHz", state->sm_low, state->sm_high);
    if (state->memory_mhz > 0)
        g_string_append_printf(text, ", memory %u MHz", state->memory_mhz);
    if (state->power_mw > 0 && state->limit_mw > 0)
        g_string_append_printf(text, ", at most %u of %u W", state->power_mw / 1000, state->limit_mw / 1000);
    if (state->celsius > 0)
        g_string_append_printf(text, ", %u C", state->celsius);
    if (state->ecc >= 0)
        g_string_append_printf(text, ", ECC %s", state->ecc ? "on" : "off");
    const char *before = "; held back by ";
    for (size_t i = 0; i < G_N_ELEMENTS(known_reasons); i++) {
        if (!(state->reasons & known_reasons[i].bit))
            continue;
        g_string_append_printf(text, "%s%s", before, known_reasons[i].words);
        before = ", ";
    }
    return g_string_free(text, FALSE);
}
