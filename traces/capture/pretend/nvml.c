/* NVML's names, as libnvidia-ml.so.1: how many devices there are and what a process takes of them, which PyTorch tells in its message when memory runs out. */
#include "pretend.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

static int devices[64]; /* a device's handle is its place */

static int index_of(const void *device)
{
    return (int)((const int *)device - devices);
}

static uint64_t used_of(const void *device)
{
    return pretend_device()->bytes - pretend_free_bytes(index_of(device));
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
UNKNOWN(nvmlDeviceGetPowerUsage)
UNKNOWN(nvmlDeviceGetTemperature)
UNKNOWN(nvmlDeviceGetUtilizationRates)
UNKNOWN(nvmlDeviceGetClockInfo)

PRETEND_EXPORT const char *nvmlErrorString(int error)
{
    return error == SUCCESS ? "Success" : error == NOT_SUPPORTED ? "Not Supported" : "Not Found";
}

PRETEND_EXPORT int nvmlSystemGetDriverVersion(char *ret, unsigned room)
{
    snprintf(ret, room, "%s", pretend_runtime_version() >= 13000 ? "580.0.0" : "570.0.0"); /* the first that run CUDA 13 and 12.8; programs compare it */
    return SUCCESS;
}

PRETEND_EXPORT int nvmlSystemGetCudaDriverVersion(int *ret)
{
    *ret = pretend_runtime_version();
    return SUCCESS;
}

PRETEND_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *ret)
{
    return nvmlSystemGetCudaDriverVersion(ret);
}

PRETEND_EXPORT int nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = pretend_device()->devices;
    return SUCCESS;
}

PRETEND_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
    if (index >= pretend_device()->devices)
        return NOT_FOUND;
    *ret = &devices[index];
    return SUCCESS;
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

/* nvmlGpuFabricInfoV: behind its version a cluster, a status, a clique and, at 28, the state: 0 that there is none. */
PRETEND_EXPORT int nvmlDeviceGetGpuFabricInfoV(const void *device, uint8_t *ret)
{
    (void)device;
    memset(ret + 4, 0, 25);
    return SUCCESS;
}

/* NVML_P2P_CAPS_INDEX 2: by NVLink; the others (reads, writes, atomics) go over PCIe, too. NVML_P2P_STATUS 5: not supported. */
PRETEND_EXPORT int nvmlDeviceGetP2PStatus(const void *device, const void *peer, int capability, int *ret)
{
    (void)device, (void)peer;
    *ret = capability == 2 && pretend_device()->links == 0 ? 5 : 0;
    return SUCCESS;
}

/* Of this process alone: others' devices are others. */
PRETEND_EXPORT int nvmlDeviceGetComputeRunningProcesses(const void *device, unsigned *n, void *ret)
{
    unsigned room = *n;
    *n = 1;
    if (room < 1)
        return TOO_SMALL;
    const struct {
        unsigned process;
        uint64_t used;
    } mine = {(unsigned)getpid(), used_of(device)};
    memcpy(ret, &mine, sizeof mine);
    return SUCCESS;
}
