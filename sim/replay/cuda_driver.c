#include "sim/replay/cuda_driver.h"

#include "sim/base/error.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <string.h>

/* Opens what @pattern matches, the last in the order of names first: the newest version. */
static void *open_matching(const char *pattern, char **why)
{
    glob_t found = {0};
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; !library && i-- > 0;) {
            library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
            /* A file that is there and does not load is worth more than one that is not there. */
            if (!library) {
                g_free(*why);
                *why = g_strdup(dlerror());
            }
        }
    }
    globfree(&found);
    return library;
}

static void *open_in(const char *root, const char *under, const char *name, char **why)
{
    if (!root || !*root)
        return NULL;
    g_autofree char *pattern = g_build_filename(root, under, name, NULL);
    return open_matching(pattern, why);
}

void *ech_cuda_open_library(const char *const *names, char **ret_why)
{
    static const char *const toolkits[] = {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"};
    static const char *const below[] = {"lib64", "lib", "targets/*/lib", "extras/CUPTI/lib64"};
    static const char *const drivers[] = {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib64-nvidia", "/run/opengl-driver/lib"};
    static const char *const packages[] = {"lib/python3*/site-packages/nvidia/*/lib", "lib/python3*/dist-packages/nvidia/*/lib",
                                           "lib/python3/dist-packages/nvidia/*/lib"};
    g_autofree char *why = NULL, *python = g_find_program_in_path("python3"), *bin = python ? g_path_get_dirname(python) : NULL;
    g_autofree char *prefix = bin ? g_path_get_dirname(bin) : NULL, *user = g_build_filename(g_get_home_dir(), ".local", NULL);
    const char *const roots[] = {g_getenv("VIRTUAL_ENV"), g_getenv("CONDA_PREFIX"), prefix, user, "/usr/local", "/usr"};
    const char *const homes[] = {g_getenv("CUDA_HOME"), g_getenv("CUDA_PATH")};
    void *library = NULL;
    for (size_t i = 0; !library && names[i]; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library && !why)
            why = g_strdup(dlerror());
    }
    for (size_t i = 0; !library && names[i]; i++) {
        for (size_t b = 0; !library && b < G_N_ELEMENTS(below); b++) {
            for (size_t h = 0; !library && h < G_N_ELEMENTS(homes); h++)
                library = open_in(homes[h], below[b], names[i], &why);
            for (size_t t = 0; !library && t < G_N_ELEMENTS(toolkits); t++)
                library = open_in(toolkits[t], below[b], names[i], &why);
        }
        for (size_t d = 0; !library && d < G_N_ELEMENTS(drivers); d++)
            library = open_in(drivers[d], "", names[i], &why);
        for (size_t r = 0; !library && r < G_N_ELEMENTS(roots); r++) {
            for (size_t p = 0; !library && p < G_N_ELEMENTS(packages); p++)
                library = open_in(roots[r], packages[p], names[i], &why);
        }
    }
    if (!library)
        *ret_why = g_steal_pointer(&why);
    return library;
}

/* The driver loads its compiler by name, and finds it so where the dynamic linker does not look too, once it is there. */
static void load_compiler_beside(void *library)
{
    static const char *const compiler = "libnvidia-ptxjitcompiler.so.1";
    struct link_map *map = NULL;
    void *found = dlopen(compiler, RTLD_LAZY | RTLD_LOCAL);
    if (found || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !strchr(map->l_name, '/'))
        return;
    g_autofree char *folder = g_path_get_dirname(map->l_name), *path = g_build_filename(folder, compiler, NULL);
    dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

static bool load(EchCuDriver *driver, GError **error)
{
    const char *name = g_getenv("ECHELON_LIBCUDA");
    static const char *const names[] = {"libcuda.so.1", NULL};
    g_autofree char *why = NULL;
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : ech_cuda_open_library(names, &why);
    if (!library) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no NVIDIA driver here: %s", why ? why : dlerror());
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
#define ECH_CU_LOAD_OPTIONAL(member, symbol, parameters)                                                                                                       \
    {                                                                                                                                                          \
        void *found = dlsym(library, #symbol);                                                                                                                 \
        memcpy(&driver->member, &found, sizeof found);                                                                                                         \
    }
    ECH_CU_FUNCTIONS(ECH_CU_LOAD)
    ECH_CU_OPTIONAL_FUNCTIONS(ECH_CU_LOAD_OPTIONAL)
    load_compiler_beside(library);
#undef ECH_CU_LOAD
#undef ECH_CU_LOAD_OPTIONAL
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

/* A member of the table, as callers name functions, to what the driver calls it. */
static const char *symbol_of(const char *member)
{
    static const struct {
        const char *member, *symbol;
    } names[] = {
#define ECH_CU_NAMES(member, symbol, parameters) {#member, #symbol},
        ECH_CU_FUNCTIONS(ECH_CU_NAMES)
#undef ECH_CU_NAMES
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(names[i].member, member) == 0)
            return names[i].symbol;
    }
    return member;
}

#define SEES_NO_GPU "the driver is installed but sees no GPU; nvidia-smi and CUDA_VISIBLE_DEVICES tell more"

/* What refusals mean to whoever has to act on them. */
static const char *advice_for(EchCuResult result)
{
    static const struct {
        EchCuResult result;
        const char *advice;
    } known[] = {
        {ECH_CU_ERROR_NO_DEVICE, SEES_NO_GPU},
        {ECH_CU_ERROR_STUB_LIBRARY, "this libcuda is the toolkit's stub for linking; take its folder out of LD_LIBRARY_PATH"},
        {ECH_CU_ERROR_DRIVER_MISMATCH, "libcuda and the kernel's driver are of different versions; load the driver's module again or reboot"},
        {ECH_CU_ERROR_DEVICE_UNAVAILABLE, "another process has the GPU for itself (nvidia-smi shows its compute mode)"},
        {ECH_CU_ERROR_SYSTEM_NOT_READY, "GPUs behind an NVSwitch need nvidia-fabricmanager running"},
        {ECH_CU_ERROR_UNKNOWN, "often nvidia-uvm is not loaded, or /dev/nvidia-uvm is not there: nvidia-modprobe -u makes both"},
        {ECH_CU_ERROR_INVALID_PTX, "the driver's compiler does not take our kernels; ECHELON_CUDA_KERNELS names a file that ptxas made of cuda_kernels.ptx"},
        {ECH_CU_ERROR_NO_BINARY, "the kernels are machine code of another GPU; ECHELON_CUDA_KERNELS names their file"},
        {ECH_CU_ERROR_NO_COMPILER, "libnvidia-ptxjitcompiler.so.1 is not found beside libcuda; add its folder to LD_LIBRARY_PATH, or let "
                                   "ECHELON_CUDA_KERNELS name a file that ptxas made of cuda_kernels.ptx"},
        {ECH_CU_ERROR_PTX_VERSION, "the driver is older than CUDA 11.4"}};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        if (known[i].result == result)
            return known[i].advice;
    }
    return NULL;
}

bool ech_cuda_check(const EchCuDriver *driver, EchCuResult result, const char *symbol, const char *what, GError **error)
{
    if (result == 0)
        return true;
    const char *name = NULL, *advice = advice_for(result);
    driver->error_name(result, &name);
    g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s: %s (%d) while %s%s%s", symbol_of(symbol), name ? name : "unknown error", result, what,
                advice ? ": " : "", advice ? advice : "");
    return false;
}

static bool start(const EchCuDriver *driver, GError **error)
{
    /* Streams that share a hardware queue wait for each other, and by default there are 8 of those. Only read when the driver starts. */
    g_setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", FALSE);
    return ech_cuda_check(driver, driver->init(0), "cuInit", "starting the driver", error);
}

/* Hexadecimal digits of the GPU's identity, where the driver knows it. */
static void read_uuid(const EchCuDriver *driver, EchCuGpu *gpu)
{
    EchCuUuid uuid;
    if (!driver->device_uuid || driver->device_uuid(&uuid, gpu->device) != 0)
        return;
    for (size_t i = 0; i < sizeof uuid.bytes; i++)
        g_snprintf(gpu->uuid + 2 * i, 3, "%02x", (unsigned char)uuid.bytes[i]);
}

bool ech_cuda_load_kernels(const EchCuDriver *driver, EchCuModule *ret, GError **error)
{
    const char *file = g_getenv("ECHELON_CUDA_KERNELS");
    g_autofree char *image = NULL;
    if (file && !g_file_get_contents(file, &image, NULL, error)) {
        g_prefix_error(error, "ECHELON_CUDA_KERNELS: ");
        return false;
    }
    return ech_cuda_check(driver, driver->module_load(ret, image ? image : ech_cuda_kernels_ptx), "cuModuleLoadData", "loading kernels", error);
}

static EchCuAllocationProp device_memory(EchCuDevice device)
{
    return (EchCuAllocationProp){.type = ECH_CU_ALLOCATION_PINNED, .location = {ECH_CU_LOCATION_DEVICE, device}};
}

bool ech_cuda_open(const EchCuDriver *driver, int ordinal, EchCuGpu *ret, GError **error)
{
    EchCuGpu gpu = {0};
    int count = 0, has_vmm = 0;
    if (!start(driver, error) || !ech_cuda_check(driver, driver->driver_version(&gpu.driver_version), "cuDriverGetVersion", "starting the driver", error) ||
        !ech_cuda_check(driver, driver->device_count(&count), "cuDeviceGetCount", "looking for GPUs", error))
        return false;
    if (count == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, SEES_NO_GPU);
        return false;
    }
    if (ordinal >= count) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "GPU %d: the driver sees %d; expected an ordinal below that", ordinal, count);
        return false;
    }
    if (!ech_cuda_check(driver, driver->device_get(&gpu.device, ordinal), "cuDeviceGet", "opening the GPU", error) ||
        !ech_cuda_check(driver, driver->device_name(gpu.name, sizeof gpu.name, gpu.device), "cuDeviceGetName", "opening the GPU", error) ||
        !ech_cuda_check(driver, driver->device_total_memory(&gpu.total_memory, gpu.device), "cuDeviceTotalMem_v2", "opening the GPU", error))
        return false;
    read_uuid(driver, &gpu);
    /* What a newer driver no longer tells (clocks are deprecated) is not known, 0. */
    const struct {
        int attribute, *field;
        bool needed;
    } attributes[] = {
        {ECH_CU_ATTRIBUTE_MULTIPROCESSORS, &gpu.multiprocessors, true},
        {ECH_CU_ATTRIBUTE_CLOCK_KHZ, &gpu.clock_khz, false},
        {ECH_CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, &gpu.memory_clock_khz, false},
        {ECH_CU_ATTRIBUTE_BUS_BITS, &gpu.bus_bits, false},
        {ECH_CU_ATTRIBUTE_L2_BYTES, &gpu.l2_bytes, false},
        {ECH_CU_ATTRIBUTE_ASYNC_ENGINES, &gpu.async_engines, false},
        {ECH_CU_ATTRIBUTE_MAJOR, &gpu.major, true},
        {ECH_CU_ATTRIBUTE_MINOR, &gpu.minor, true},
        {ECH_CU_ATTRIBUTE_VMM, &has_vmm, true},
        {ECH_CU_ATTRIBUTE_POOLS, &gpu.has_pools, true},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(attributes); i++) {
        int value = 0;
        EchCuResult result = driver->device_attribute(&value, attributes[i].attribute, gpu.device);
        if (attributes[i].needed && !ech_cuda_check(driver, result, "cuDeviceGetAttribute", "reading the GPU's facts", error))
            return false;
        *attributes[i].field = result == 0 ? value : 0;
    }
    if (!ech_cuda_check(driver, driver->context_retain(&gpu.context, gpu.device), "cuDevicePrimaryCtxRetain", "making a context", error))
        return false;
    const EchCuAllocationProp prop = device_memory(gpu.device);
    if (!ech_cuda_check(driver, driver->context_set(gpu.context), "cuCtxSetCurrent", "making a context", error)) {
        ech_cuda_close(driver, &gpu);
        return false;
    }
    /* Where it is there and does not work, all but that works. */
    if (has_vmm && driver->granularity(&gpu.page, &prop, ECH_CU_GRANULARITY_MINIMUM) != 0)
        gpu.page = 0;
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

bool ech_cuda_map(const EchCuDriver *driver, const EchCuGpu *gpu, size_t piece, size_t n, EchCuMapping *ret, GError **error)
{
    const EchCuAllocationProp prop = device_memory(gpu->device);
    const EchCuAccess access = {.location = prop.location, .flags = ECH_CU_ACCESS_READ_WRITE};
    EchCuMapping new = {.piece = piece};
    if (!ech_cuda_check(driver, driver->address_reserve(&new.address, piece * n, 0, 0, 0), "cuMemAddressReserve", "reserving addresses", error))
        return false;
    g_autofree unsigned long long *physical = new.physical = g_new0(unsigned long long, n);
    size_t mapped = 0;
    bool ok = true;
    while (ok && new.n_pieces < n) {
        ok = ech_cuda_check(driver, driver->physical_create(&physical[new.n_pieces], piece, &prop, 0), "cuMemCreate", "taking physical memory", error);
        new.n_pieces += ok;
    }
    while (ok && mapped < n) {
        ok = ech_cuda_check(driver, driver->map(new.address + mapped *piece, piece, 0, physical[mapped], 0), "cuMemMap", "mapping memory", error);
        mapped += ok;
    }
    if (ok && ech_cuda_check(driver, driver->set_access(new.address, piece * n, &access, 1), "cuMemSetAccess", "opening mapped memory", error)) {
        *ret = new;
        g_steal_pointer(&physical);
        return true;
    }
    for (size_t i = 0; i < mapped; i++)
        driver->unmap(new.address + i *piece, piece);
    for (size_t i = 0; i < new.n_pieces; i++)
        driver->physical_release(physical[i]);
    driver->address_free(new.address, piece * n);
    return false;
}

bool ech_cuda_unmap(const EchCuDriver *driver, EchCuMapping *mapping, GError **error)
{
    EchCuResult unmapped = 0, released = 0;
    g_autofree unsigned long long *physical = g_steal_pointer(&mapping->physical);
    for (size_t i = 0; i < mapping->n_pieces; i++) {
        EchCuResult one = driver->unmap(mapping->address + i * mapping->piece, mapping->piece), other = driver->physical_release(physical[i]);
        unmapped = unmapped ? unmapped : one;
        released = released ? released : other;
    }
    EchCuResult freed = driver->address_free(mapping->address, mapping->piece * mapping->n_pieces);
    return ech_cuda_check(driver, unmapped, "cuMemUnmap", "unmapping memory", error) &&
           ech_cuda_check(driver, released, "cuMemRelease", "giving back physical memory", error) &&
           ech_cuda_check(driver, freed, "cuMemAddressFree", "giving back addresses", error);
}
