/* NVML: the clocks of the fake GPU, which fall with the heat of its tensor cores. ECH_FAKE_NVML_REASONS is what holds them back. */
#include "tests/gpu/fake/fake.h"

#include <stdlib.h>
#include <string.h>

static int started;

#define NVML(symbol, parameters)                                                                                                                               \
    EXPORT int symbol parameters;                                                                                                                              \
    int symbol parameters

NVML(nvmlInit_v2, (void))
{
    started++;
    fake.held++;
    return 0;
}

NVML(nvmlShutdown, (void))
{
    started--;
    fake.held--;
    return 0;
}

NVML(nvmlDeviceGetHandleByUUID, (const char *uuid, void **ret))
{
    *ret = &started;
    return started <= 0 || strcmp(uuid, "GPU-abababab-abab-abab-abab-abababababab") != 0;
}

NVML(nvmlDeviceGetClockInfo, (void *device, int type, unsigned *ret_mhz))
{
    *ret_mhz = type == 2 ? 2000 : (unsigned)(1500 * (1 - fake_heat() / 8));
    return device != &started;
}

NVML(nvmlDeviceGetPowerUsage, (void *device, unsigned *ret_mw))
{
    *ret_mw = 300000 + (unsigned)(400000 * fake_heat());
    return device != &started;
}

NVML(nvmlDeviceGetEnforcedPowerLimit, (void *device, unsigned *ret_mw))
{
    *ret_mw = 700000;
    return device != &started;
}

NVML(nvmlDeviceGetCurrentClocksThrottleReasons, (void *device, unsigned long long *ret))
{
    const char *reasons = getenv("ECH_FAKE_NVML_REASONS");
    *ret = reasons ? strtoull(reasons, NULL, 0) : 0;
    return device != &started;
}

NVML(nvmlDeviceGetTemperature, (void *device, int sensor, unsigned *ret_celsius))
{
    *ret_celsius = 55;
    return sensor != 0 || device != &started;
}

/* nvmlMemory_t. */
NVML(nvmlDeviceGetMemoryInfo, (void *device, unsigned long long ret[3]))
{
    ret[0] = CARD_BYTES;
    ret[2] = fake.used + fake_foreign();
    ret[1] = ret[0] - ret[2];
    return device != &started;
}

NVML(nvmlDeviceSetCpuAffinity, (void *device))
{
    fake.near = 1;
    return device != &started;
}

NVML(nvmlDeviceGetEccMode, (void *device, int *ret_current, int *ret_pending))
{
    *ret_current = *ret_pending = 1;
    return device != &started;
}
