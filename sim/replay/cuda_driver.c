#include "sim/replay/cuda_driver.h"

#include "sim/base/error.h"

#include <dlfcn.h>
#include <string.h>

static bool load(EchCuDriver *driver, GError **error)
{
    const char *name = g_getenv("ECHELON_LIBCUDA");
    void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no NVIDIA driver here: %s", dlerror());
        return false;
    }
#define ECH_CU_LOAD(member, symbol, parameters)                                                                                                                \
    {                                                                                                                                                          \
        void *found = dlsym(library, #symbol);                                                                                                                 \
        if (!found) {                                                                                                                                          \
            g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the NVIDIA driver has no %s; expected CUDA 11.4 or newer", #symbol);                             \
            dlclose(library);                                                                                                                                  \
            return false;                                                                                                                                      \
        }                                                                                                                                                      \
        memcpy(&driver->member, &found, sizeof found);                                                                                                         \
    }
    ECH_CU_FUNCTIONS(ECH_CU_LOAD)
#undef ECH_CU_LOAD
    return true;
}

const EchCuDriver *ech_cuda_driver(GError **error)
{
    static EchCuDriver driver;
    static bool loaded;
    if (!loaded) {
        EchCuDriver fresh;
        if (!load(&fresh, error))
            return NULL;
        driver = fresh;
        loaded = true;
    }
    return &driver;
}

bool ech_cuda_check(const EchCuDriver *driver, EchCuResult result, const char *symbol, const char *what, GError **error)
{
    if (result == 0)
        return true;
    const char *name = NULL;
    driver->error_name(result, &name);
    g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s: %s (%d) while %s", symbol, name ? name : "unknown error", result, what);
    return false;
}

bool ech_cuda_open(const EchCuDriver *driver, int ordinal, EchCuGpu *ret, GError **error)
{
    EchCuGpu gpu = {0};
    int count = 0;
    if (!ech_cuda_check(driver, driver->init(0), "cuInit", "starting the driver", error) ||
        !ech_cuda_check(driver, driver->driver_version(&gpu.driver_version), "cuDriverGetVersion", "starting the driver", error) ||
        !ech_cuda_check(driver, driver->device_count(&count), "cuDeviceGetCount", "looking for GPUs", error))
        return false;
    if (ordinal >= count) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "GPU %d: the driver sees %d; expected an ordinal below that", ordinal, count);
        return false;
    }
    if (!ech_cuda_check(driver, driver->device_get(&gpu.device, ordinal), "cuDeviceGet", "opening the GPU", error) ||
        !ech_cuda_check(driver, driver->device_name(gpu.name, sizeof gpu.name, gpu.device), "cuDeviceGetName", "opening the GPU", error) ||
        !ech_cuda_check(driver, driver->device_total_memory(&gpu.total_memory, gpu.device), "cuDeviceTotalMem_v2", "opening the GPU", error))
        return false;
    const struct {
        int attribute, *field;
    } attributes[] = {
        {ECH_CU_ATTRIBUTE_MULTIPROCESSORS, &gpu.multiprocessors},
        {ECH_CU_ATTRIBUTE_CLOCK_KHZ, &gpu.clock_khz},
        {ECH_CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, &gpu.memory_clock_khz},
        {ECH_CU_ATTRIBUTE_BUS_BITS, &gpu.bus_bits},
        {ECH_CU_ATTRIBUTE_L2_BYTES, &gpu.l2_bytes},
        {ECH_CU_ATTRIBUTE_ASYNC_ENGINES, &gpu.async_engines},
        {ECH_CU_ATTRIBUTE_MAJOR, &gpu.major},
        {ECH_CU_ATTRIBUTE_MINOR, &gpu.minor},
        {ECH_CU_ATTRIBUTE_VMM, &gpu.has_vmm},
        {ECH_CU_ATTRIBUTE_POOLS, &gpu.has_pools},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(attributes); i++) {
        if (!ech_cuda_check(driver, driver->device_attribute(attributes[i].field, attributes[i].attribute, gpu.device), "cuDeviceGetAttribute",
                            "reading the GPU's facts", error))
            return false;
    }
    if (!ech_cuda_check(driver, driver->context_retain(&gpu.context, gpu.device), "cuDevicePrimaryCtxRetain", "making a context", error))
        return false;
    if (!ech_cuda_check(driver, driver->context_set(gpu.context), "cuCtxSetCurrent", "making a context", error)) {
        driver->context_release(gpu.device);
        return false;
    }
    *ret = gpu;
    return true;
}

void ech_cuda_close(const EchCuDriver *driver, EchCuGpu *gpu)
{
    if (gpu->context) {
        driver->context_set(NULL);
        driver->context_release(gpu->device);
        gpu->context = NULL;
    }
}
