/* NVML's names, as libnvidia-ml.so.1: how many devices the host has, whichever of them the process sees, and what the processes of a capture take of them,
 * which PyTorch tells in its message when memory runs out. Nothing runs on the device: what its sensors would say (utilization, temperature, power) is 0. */
#include "pretend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

static int devices[PRETEND_DEVICES]; /* a device's handle is its place */

static int index_of(const void *device)
{
    return (int)((const int *)device - devices);
}

enum { MOST_PROCESSES = 256 };

/* The processes that have memory of @device: processes[n]. */
static size_t processes_of(const void *device, PretendProcess processes[MOST_PROCESSES])
{
    return pretend_processes(index_of(device), processes, MOST_PROCESSES);
}

static uint64_t used_of(const void *device)
{
    PretendProcess processes[MOST_PROCESSES];
    uint64_t sum = 0, all = pretend_device()->bytes;
    for (size_t i = 0, n = processes_of(device, processes); i < n; i++)
        sum += processes[i].bytes;
    return sum < all ? sum : all;
}

#define NOTHING_TO_DO(name)                                                                                                                                    \
    PRETEND_EXPORT int name(void)                                                                                                                              \
    {                                                                                                                                                          \
        return SUCCESS;                                                                                                                                        \
    }
#define UNKNOWN(name)                                                                                                                                          \
    PRETEND_EXPORT int name(void)                                                                                                                              \
    {                                                                                                                                                          \
        return NOT_SUPPORTED;                                                                                                                                  \
    }
NOTHING_TO_DO(nvmlInit)
NOTHING_TO_DO(nvmlInit_v2)
NOTHING_TO_DO(nvmlInitWithFlags)
NOTHING_TO_DO(nvmlShutdown)
UNKNOWN(nvmlDeviceGetGpuFabricInfo)
UNKNOWN(nvmlDeviceGetNvLinkRemoteDeviceType)
UNKNOWN(nvmlDeviceGetNvLinkRemotePciInfo_v2)
UNKNOWN(nvmlDeviceGetNvLinkState)
UNKNOWN(nvmlDeviceGetPowerManagementLimit)
UNKNOWN(nvmlDeviceGetPowerManagementLimitConstraints)
UNKNOWN(nvmlDeviceGetPowerManagementDefaultLimit)
UNKNOWN(nvmlDeviceGetEnforcedPowerLimit)
UNKNOWN(nvmlDeviceGetFanSpeed)
UNKNOWN(nvmlDeviceGetFanSpeed_v2)
UNKNOWN(nvmlDeviceGetSerial)
UNKNOWN(nvmlDeviceGetBoardId)
UNKNOWN(nvmlDeviceGetVbiosVersion)
UNKNOWN(nvmlDeviceGetEccMode)
UNKNOWN(nvmlDeviceGetTotalEccErrors)
UNKNOWN(nvmlDeviceGetMemoryErrorCounter)
UNKNOWN(nvmlDeviceGetAttributes_v2)
UNKNOWN(nvmlDeviceGetBAR1MemoryInfo)
UNKNOWN(nvmlDeviceGetMemoryBusWidth)
UNKNOWN(nvmlDeviceGetNumGpuCores)
UNKNOWN(nvmlDeviceGetTopologyCommonAncestor)
UNKNOWN(nvmlDeviceGetSupportedEventTypes)
NOTHING_TO_DO(nvmlDeviceSetCpuAffinity)
NOTHING_TO_DO(nvmlDeviceClearCpuAffinity)

/* Functions of a device that give one number. */
#define NUMBER(name, type, value)                                                                                                                              \
    PRETEND_EXPORT int name(const void *device, type *ret)                                                                                                     \
    {                                                                                                                                                          \
        (void)device;                                                                                                                                          \
        *ret = (value);                                                                                                                                        \
        return SUCCESS;                                                                                                                                        \
    }
/* Functions of a device that give two. */
#define NUMBERS(name, type, first, second)                                                                                                                     \
    PRETEND_EXPORT int name(const void *device, type *ret_first, type *ret_second)                                                                             \
    {                                                                                                                                                          \
        (void)device;                                                                                                                                          \
        *ret_first = (first);                                                                                                                                  \
        *ret_second = (second);                                                                                                                                \
        return SUCCESS;                                                                                                                                        \
    }
NUMBER(nvmlDeviceGetIndex, unsigned, (unsigned)index_of(device))
NUMBER(nvmlDeviceGetMinorNumber, unsigned, (unsigned)index_of(device))
NUMBER(nvmlDeviceGetBrand, int, 0)       /* NVML_BRAND_UNKNOWN */
NUMBER(nvmlDeviceGetComputeMode, int, 0) /* NVML_COMPUTEMODE_DEFAULT */
NUMBER(nvmlDeviceGetPersistenceMode, int, 1)
NUMBER(nvmlDeviceGetDisplayMode, int, 0)
NUMBER(nvmlDeviceGetDisplayActive, int, 0)
NUMBER(nvmlDeviceGetPerformanceState, int, 0) /* of 16, the fastest */
NUMBER(nvmlDeviceGetPowerState, int, 0)
NUMBER(nvmlDeviceGetPowerUsage, unsigned, 0)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, uint64_t, 0)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, 0)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, 0)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, 0)
NUMBER(nvmlDeviceIsMigDeviceHandle, unsigned, 0)
NUMBERS(nvmlDeviceGetMigMode, unsigned, 0, 0)            /* now and after the next reset */
NUMBERS(nvmlDeviceGetEncoderUtilization, unsigned, 0, 0) /* per cent, and the period */
NUMBERS(nvmlDeviceGetDecoderUtilization, unsigned, 0, 0)

/* nvmlUtilization_t: of the multiprocessors, of the memory. */
PRETEND_EXPORT int nvmlDeviceGetUtilizationRates(const void *device, unsigned *ret)
{
    (void)device;
    ret[0] = ret[1] = 0;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetTemperature(const void *device, int sensor, unsigned *ret)
{
    (void)device, (void)sensor;
    *ret = 0;
    return SUCCESS;
}

/* nvmlTemperature_t: behind its version and a sensor. */
PRETEND_EXPORT int nvmlDeviceGetTemperatureV(const void *device, int *ret)
{
    (void)device;
    ret[2] = 0;
    return SUCCESS;
}

/* nvmlClockType_t: 2 is the memory's; of graphics, multiprocessors and video. In MHz. */
PRETEND_EXPORT int nvmlDeviceGetClockInfo(const void *device, int clock, unsigned *ret)
{
    (void)device;
    *ret = (clock == 2 ? pretend_device()->memory_clock_khz : pretend_device()->clock_khz) / 1000;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetMaxClockInfo(const void *device, int clock, unsigned *ret)
{
    return nvmlDeviceGetClockInfo(device, clock, ret);
}

PRETEND_EXPORT int nvmlDeviceGetApplicationsClock(const void *device, int clock, unsigned *ret)
{
    return nvmlDeviceGetClockInfo(device, clock, ret);
}

/* NVML_DEVICE_ARCH_*: Pascal 4, Volta 5, Turing 6, Ampere 7, Ada 8, Hopper 9, Blackwell 10. */
PRETEND_EXPORT int nvmlDeviceGetArchitecture(const void *device, unsigned *ret)
{
    (void)device;
    unsigned capability = 10 * pretend_device()->major + pretend_device()->minor;
    *ret = capability < 70 ? 4 : capability < 75 ? 5 : capability < 80 ? 6 : capability < 89 ? 7 : capability < 90 ? 8 : capability < 100 ? 9 : 10;
    return SUCCESS;
}

/* One bit for each of the host's processors: all are as near. */
PRETEND_EXPORT int nvmlDeviceGetCpuAffinity(const void *device, unsigned words, unsigned long *ret)
{
    (void)device;
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    for (unsigned i = 0, bits = 8 * sizeof *ret; i < words; i++)
        ret[i] = processors >= (long)bits * (i + 1) ? ~0UL : processors <= (long)bits * i ? 0 : (1UL << (processors - (long)bits * i)) - 1;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetCpuAffinityWithinScope(const void *device, unsigned words, unsigned long *ret, int scope)
{
    (void)scope;
    return nvmlDeviceGetCpuAffinity(device, words, ret);
}

/* nvmlFieldValue_t, 40 bytes: its return value stands at 28. */
PRETEND_EXPORT int nvmlDeviceGetFieldValues(const void *device, int n, uint8_t *ret)
{
    (void)device;
    for (int i = 0, unknown = NOT_SUPPORTED; i < n; i++)
        memcpy(ret + (size_t)40 * (size_t)i + 28, &unknown, sizeof unknown);
    return SUCCESS;
}

PRETEND_EXPORT int nvmlUnitGetCount(unsigned *ret)
{
    *ret = 0;
    return SUCCESS;
}

PRETEND_EXPORT const char *nvmlErrorString(int error)
{
    switch (error) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case TOO_SMALL: return "Insufficient Size";
    default: return "Not Found";
    }
}

/* The first that run CUDA 13 and 12.8; programs compare it. */
static const char *driver_version(void)
{
    return pretend_runtime_version() >= 13000 ? "580.0.0" : "570.0.0";
}

PRETEND_EXPORT int nvmlSystemGetDriverVersion(char *ret, unsigned room)
{
    snprintf(ret, room, "%s", driver_version());
    return SUCCESS;
}

PRETEND_EXPORT int nvmlSystemGetNVMLVersion(char *ret, unsigned room)
{
    snprintf(ret, room, "%d.%s", pretend_runtime_version() / 1000, driver_version());
    return SUCCESS;
}

PRETEND_EXPORT int nvmlSystemGetProcessName(unsigned process, char *ret, unsigned room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/exe", process);
    ssize_t n = room > 0 ? readlink(path, ret, room - 1) : -1;
    if (n < 0)
        return NOT_FOUND;
    ret[n] = '\0';
    return SUCCESS;
}

/* What that driver runs at most: of a program that has loaded no runtime yet nothing else is known. */
PRETEND_EXPORT int nvmlSystemGetCudaDriverVersion(int *ret)
{
    int version = pretend_runtime_version();
    *ret = version < 12080 ? 12080 : version;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *ret)
{
    return nvmlSystemGetCudaDriverVersion(ret);
}

PRETEND_EXPORT int nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = pretend_device()->all_devices;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetCount(unsigned *ret)
{
    return nvmlDeviceGetCount_v2(ret);
}

PRETEND_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
    if (index >= pretend_device()->all_devices || index >= PRETEND_DEVICES)
        return INVALID_ARGUMENT;
    *ret = &devices[index];
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, void **ret)
{
    return nvmlDeviceGetHandleByIndex_v2(index, ret);
}

PRETEND_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **ret)
{
    unsigned domain, number;
    if (sscanf(bus, "%x:%x:", &domain, &number) != 2 || number == 0)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(number - 1, ret);
}

PRETEND_EXPORT int nvmlDeviceGetName(const void *device, char *ret, unsigned room)
{
    (void)device;
    snprintf(ret, room, "%s", pretend_device()->name);
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetUUID(const void *device, char *ret, unsigned room)
{
    snprintf(ret, room, "GPU-%02x000000-0000-0000-0000-000000000000", index_of(device) + 1);
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret)
{
    unsigned number;
    if (sscanf(uuid, "GPU-%2x000000-", &number) != 1 || number == 0)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(number - 1, ret);
}

/* Where the runtime says that they are. */
PRETEND_EXPORT int nvmlDeviceGetPciInfo_v3(const void *device, void *ret)
{
    const unsigned bus = (unsigned)index_of(device) + 1;
    struct {
        char legacy[16];
        unsigned domain, bus, device, number, subsystem;
        char id[32];
    } info = {.bus = bus};
    snprintf(info.legacy, sizeof info.legacy, "0000:%02X:00.0", bus);
    snprintf(info.id, sizeof info.id, "00000000:%02X:00.0", bus);
    memcpy(ret, &info, sizeof info);
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetCudaComputeCapability(const void *device, int *ret_major, int *ret_minor)
{
    (void)device;
    *ret_major = (int)pretend_device()->major;
    *ret_minor = (int)pretend_device()->minor;
    return SUCCESS;
}

/* Of 16 lanes: 15.75 GB/s in generation 3, and twice as much in each that follows. */
PRETEND_EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(const void *device, unsigned *ret)
{
    (void)device;
    *ret = 3;
    for (uint64_t rate = UINT64_C(22000000000); pretend_device()->host_rate > rate && *ret < 7; rate *= 2)
        (*ret)++;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetCurrPcieLinkWidth(const void *device, unsigned *ret)
{
    (void)device;
    *ret = 16;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetMemoryInfo(const void *device, uint64_t *ret)
{
    uint64_t used = used_of(device);
    ret[0] = pretend_device()->bytes;
    ret[1] = ret[0] - used;
    ret[2] = used;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(const void *device, unsigned *ret)
{
    return nvmlDeviceGetCurrPcieLinkGeneration(device, ret);
}

PRETEND_EXPORT int nvmlDeviceGetMaxPcieLinkWidth(const void *device, unsigned *ret)
{
    return nvmlDeviceGetCurrPcieLinkWidth(device, ret);
}

/* nvmlMemory_v2_t: behind its version all, what the driver keeps, what is free and what is used. */
PRETEND_EXPORT int nvmlDeviceGetMemoryInfo_v2(const void *device, uint64_t *ret)
{
    uint64_t info[3];
    nvmlDeviceGetMemoryInfo(device, info);
    ret[1] = info[0];
    ret[2] = 0;
    ret[3] = info[1];
    ret[4] = info[2];
    return SUCCESS;
}

/* nvmlGpuFabricInfoV: behind its version a cluster, a status, a clique and, at 28, the state: 0 that there is none. */
PRETEND_EXPORT int nvmlDeviceGetGpuFabricInfoV(const void *device, uint8_t *ret)
{
    (void)device;
    memset(ret + 4, 0, 25);
    return SUCCESS;
}

/* NVML_P2P_CAPS_INDEX 2: by NVLink; the others (reads, writes, atomics) go over PCIe, too, where peers are reached. NVML_P2P_STATUS 5: not supported. */
PRETEND_EXPORT int nvmlDeviceGetP2PStatus(const void *device, const void *peer, int capability, int *ret)
{
    (void)device, (void)peer;
    *ret = !pretend_reaches_peers() || (capability == 2 && pretend_device()->links == 0) ? 5 : 0;
    return SUCCESS;
}

/* XLA before 0.8 looks whether the first link reaches peers (NVML_NVLINK_CAP_P2P_SUPPORTED). */
PRETEND_EXPORT int nvmlDeviceGetNvLinkCapability(const void *device, unsigned link, int capability, unsigned *ret)
{
    (void)device, (void)capability;
    *ret = link < pretend_device()->links;
    return pretend_device()->links > 0 ? SUCCESS : NOT_SUPPORTED;
}

/* Writes the processes into @ret, of room for @n entries of @bytes each; how many there are. */
static int write_processes(const void *device, unsigned *n, uint8_t *ret, size_t bytes)
{
    PretendProcess processes[MOST_PROCESSES];
    unsigned room = *n;
    *n = (unsigned)processes_of(device, processes);
    if (room < *n)
        return TOO_SMALL;
    for (unsigned i = 0; i < *n; i++) {
        struct {
            unsigned process;
            uint64_t used;
            unsigned gpu_instance, compute_instance; /* none */
        } one = {processes[i].process, processes[i].bytes, UINT32_MAX, UINT32_MAX};
        memcpy(ret + bytes * i, &one, bytes);
    }
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetComputeRunningProcesses(const void *device, unsigned *n, void *ret)
{
    return write_processes(device, n, ret, 16);
}

PRETEND_EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(const void *device, unsigned *n, void *ret)
{
    return write_processes(device, n, ret, 24);
}

PRETEND_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *n, void *ret)
{
    return write_processes(device, n, ret, 24);
}

#define NO_PROCESSES(name)                                                                                                                                     \
    PRETEND_EXPORT int name(const void *device, unsigned *n, void *ret)                                                                                        \
    {                                                                                                                                                          \
        (void)device, (void)ret;                                                                                                                               \
        *n = 0;                                                                                                                                                \
        return SUCCESS;                                                                                                                                        \
    }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* Samples of what each process took of the device's time since @since: there are none. */
PRETEND_EXPORT int nvmlDeviceGetProcessUtilization(const void *device, void *ret, unsigned *n, uint64_t since)
{
    (void)device, (void)ret, (void)since;
    *n = 0;
    return NOT_FOUND;
}
