/* The CUDA runtime's names. What is not here is the real runtime's, which finds no GPU and says so. */
#include "pretend.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Error codes of driver_types.h. */
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONFIGURATION = 9, PEER_ACCESS_UNSUPPORTED = 217, NOT_FOUND = 500, NOT_SUPPORTED = 801 };
enum { RESERVED_SHARED = 1024 }; /* bytes of shared memory that the driver takes of each block from compute capability 8.0 on */

static __thread int current, last_error;

int pretend_fail(int error)
{
    last_error = error;
    return error;
}

static int fail(int error)
{
    return pretend_fail(error);
}

int pretend_refuse(const char *name)
{
    char what[128];
    snprintf(what, sizeof what, "the program called %s, which is not pretended; it is told that it is not supported", name);
    pretend_say_once(what);
    return strncmp(name, "cuda", 4) == 0 ? fail(NOT_SUPPORTED) : NOT_SUPPORTED; /* the driver's errors are not the runtime's */
}

int pretend_current_device(void)
{
    return current;
}

/* ---- devices ---- */

static uint64_t number_of(const char *settings, const char *key, uint64_t otherwise)
{
    size_t length = strlen(key);
    for (const char *at = settings; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return strtoull(at + length + 1, NULL, 10);
    }
    return otherwise;
}

static void text_of(const char *settings, const char *key, char *ret, size_t room)
{
    size_t length = strlen(key);
    for (const char *at = settings; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            snprintf(ret, room, "%.*s", (int)strcspn(at + length + 1, ";"), at + length + 1);
    }
}

/* Which of the host's devices each of the process's is. */
static int on_host[PRETEND_DEVICES];

/* The device that an entry of CUDA_VISIBLE_DEVICES names, by its number or as NVML names it ("GPU-03...", of nvml.c); -1: none. */
static int device_of_entry(const char *entry)
{
    unsigned number = 0;
    if (sscanf(entry, "GPU-%2x", &number) == 1)
        return (int)number - 1;
    return *entry >= '0' && *entry <= '9' ? atoi(entry) : -1;
}

static PretendDevice pretended;
static bool
    seen_devices; /* the program has asked which devices it has: from then on they stay, as the driver has it, which reads the variable when it begins */

/* How many of @n devices CUDA_VISIBLE_DEVICES leaves: up to the first that is none. */
static uint32_t visible(uint32_t n)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t seen = 0;
    for (; seen < n && seen < PRETEND_DEVICES; seen++) {
        int device = at ? device_of_entry(at) : (int)seen;
        if (device < 0 || (uint32_t)device >= n)
            break;
        on_host[seen] = device;
        at = at && strchr(at, ',') ? strchr(at, ',') + 1 : at ? "" : NULL;
    }
    return seen;
}

/* How many the program has. */
static uint32_t see_devices(void)
{
    const PretendDevice *d = pretend_device();
    if (!__atomic_load_n(&seen_devices, __ATOMIC_ACQUIRE)) {
        pretend_lock();
        if (!seen_devices)
            pretended.devices = visible(d->all_devices);
        __atomic_store_n(&seen_devices, true, __ATOMIC_RELEASE);
        pretend_unlock();
    }
    return d->devices;
}

int pretend_on_host(int device)
{
    return device >= 0 && (uint32_t)device < see_devices() ? on_host[device] : device;
}

bool pretend_reaches_peers(void)
{
    return pretend_device()->links > 0 || !pretend_device()->staged;
}

static void read_device(void)
{
    const char *settings = getenv("ECHELON_PRETEND_DEVICE");
    PretendDevice *d = &pretended;
    snprintf(d->id, sizeof d->id, "gpu");
    snprintf(d->name, sizeof d->name, "NVIDIA GPU");
    text_of(settings, "id", d->id, sizeof d->id);
    text_of(settings, "name", d->name, sizeof d->name);
    d->bytes = number_of(settings, "bytes", UINT64_C(16) << 30);
    d->context_bytes = number_of(settings, "context", 0);
    d->all_devices = (uint32_t)number_of(settings, "devices", 1);
    d->devices = visible(d->all_devices);
    seen_devices = false;
    d->links = (uint32_t)number_of(settings, "links", 0);
    d->staged = number_of(settings, "staged", 0) > 0;
    d->multiprocessors = (uint32_t)number_of(settings, "multiprocessors", 108);
    d->major = (uint32_t)number_of(settings, "major", 8);
    d->minor = (uint32_t)number_of(settings, "minor", 0);
    d->clock_khz = (uint32_t)number_of(settings, "clock_khz", 1410000);
    d->memory_clock_khz = (uint32_t)number_of(settings, "memory_clock_khz", 1215000);
    d->memory_bus_bits = (uint32_t)number_of(settings, "memory_bus_bits", 5120);
    d->l2_bytes = number_of(settings, "l2", UINT64_C(40) << 20);
    d->shared_per_multiprocessor = number_of(settings, "shared", 164 << 10);
    d->host_rate = number_of(settings, "host_rate", UINT64_C(31500000000));
    /* CUDA programming guide, table of compute capabilities. */
    uint32_t capability = 10 * d->major + d->minor;
    bool small = capability == 86 || capability == 87 || capability == 89 || capability >= 110;
    d->threads = capability == 75 ? 1024 : small ? 1536 : 2048;
    d->blocks = capability == 75 || capability == 86 || capability == 87 ? 16 : small ? 24 : 32;
    d->shared_per_block = capability < 70 ? 48 << 10 : d->shared_per_multiprocessor - (capability < 80 ? 0 : RESERVED_SHARED);
}

/* A program may fork processes that see another device each. */
static void read_first_device(void)
{
    read_device();
    pthread_atfork(NULL, NULL, read_device);
}

const PretendDevice *pretend_device(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_first_device);
    return &pretended;
}

PRETEND_EXPORT int cudaGetDeviceCount(int *ret)
{
    *ret = (int)see_devices();
    return SUCCESS;
}

PRETEND_EXPORT int cudaGetDevice(int *ret)
{
    pretend_clear_stack();
    *ret = current;
    return SUCCESS;
}

PRETEND_EXPORT int cudaSetDevice(int device)
{
    if (device < 0 || (uint32_t)device >= see_devices()) {
        pretend_say_once("the program asked for a GPU that there is not: 'echelon capture --gpus N' tells how many each host has");
        return fail(101); /* cudaErrorInvalidDevice */
    }
    current = device;
    return SUCCESS;
}

/* What the program was built for; its own library knows without a device. */
int pretend_runtime_version(void)
{
    static int version;
    static _Thread_local bool asked;
    if (version != 0)
        return version;
    if (asked)
        return 12000; /* by CUDA 11's own, which wants to know of a driver before it answers, and waits for itself */
    asked = true;
    static const char *const libraries[] = {"libcudart.so.13", "libcudart.so.12", NULL};
    void *real = pretend_real_symbol("cudaRuntimeGetVersion", libraries);
    int (*ask)(int *);
    memcpy(&ask, &real, sizeof real);
    if (real)
        ask(&version);
    else
        version = pretend_linked_version();
    asked = false;
    int known = pretend_shared_runtime(version);
    return known != 0 ? known : 12000; /* it may load one later */
}

PRETEND_EXPORT int cudaRuntimeGetVersion(int *ret)
{
    *ret = pretend_runtime_version();
    return SUCCESS;
}

PRETEND_EXPORT int cudaDriverGetVersion(int *ret)
{
    *ret = pretend_runtime_version();
    return SUCCESS;
}

static bool is_device_number(int device)
{
    return device >= 0 && (uint32_t)device < see_devices();
}

/* Multiply-adds of f32 in a clock for one of f64 (CUDA C++ Programming Guide, throughput of native arithmetic instructions); 0: not known. */
static int ratio_of_doubles(const PretendDevice *d)
{
    bool whole = d->minor == 0 && d->major >= 6 && d->major <= 10, known = 10 * d->major + d->minor != 107;
    return !known ? 0 : whole ? 2 : d->major < 8 ? 32 : 64;
}

/* What a device of such a compute capability can do (CUDA C++ Programming Guide, features and technical specifications per compute capability), on Linux. What
 * is not offered is answered 0: memory that is exported (103 to 105, 119, 128), switches that reduce (132), streams that write words (92, 122), textures. */
PRETEND_EXPORT int cudaDeviceGetAttribute(int *ret, int attribute, int device)
{
    if (!is_device_number(device))
        return fail(101); /* cudaErrorInvalidDevice */
    const PretendDevice *d = pretend_device();
    switch (attribute) {        /* CUdevice_attribute of cuda.h */
    case 1: *ret = 1024; break; /* threads a block */
    case 2:
    case 3: *ret = 1024; break;      /* block x, y */
    case 4: *ret = 64; break;        /* block z */
    case 5: *ret = INT32_MAX; break; /* grid x */
    case 6:
    case 7: *ret = 65535; break;      /* grid y, z */
    case 8: *ret = 48 << 10; break;   /* shared memory a block */
    case 9: *ret = 64 << 10; break;   /* constant memory */
    case 10: *ret = 32; break;        /* warp */
    case 11: *ret = INT32_MAX; break; /* pitch */
    case 12: *ret = 65536; break;     /* registers a block */
    case 13: *ret = (int)d->clock_khz; break;
    case 14: *ret = 512; break; /* texture alignment */
    case 15: *ret = 1; break;   /* copies beside kernels */
    case 16: *ret = (int)d->multiprocessors; break;
    case 19: *ret = 1; break;                           /* maps host memory */
    case 30: *ret = 512; break;                         /* surface alignment */
    case 31: *ret = 1; break;                           /* concurrent kernels */
    case 33: *ret = pretend_on_host(device) + 1; break; /* PCI bus */
    case 36: *ret = (int)d->memory_clock_khz; break;
    case 37: *ret = (int)d->memory_bus_bits; break;
    case 38: *ret = (int)d->l2_bytes; break;
    case 39: *ret = (int)d->threads; break;
    case 40: *ret = 3; break;  /* copy engines */
    case 41: *ret = 1; break;  /* unified addressing */
    case 51: *ret = 32; break; /* texture pitch */
    case 75: *ret = (int)d->major; break;
    case 76: *ret = (int)d->minor; break;
    case 78: *ret = 1; break; /* stream priorities */
    case 79:
    case 80: *ret = 1; break; /* L1 caches */
    case 81: *ret = (int)d->shared_per_multiprocessor; break;
    case 82: *ret = 65536; break; /* registers a multiprocessor */
    case 83: *ret = 1; break;     /* managed memory */
    case 87: *ret = ratio_of_doubles(d); break;
    case 89: *ret = 1; break;                                    /* managed memory that host and device use at once */
    case 90: *ret = 1; break;                                    /* kernels are interrupted */
    case 91: *ret = 1; break;                                    /* registered host memory has one address */
    case 95: *ret = 1; break;                                    /* cooperative launches */
    case 97: *ret = (int)d->shared_per_block; break;             /* shared memory a block that asks for it */
    case 99: *ret = 1; break;                                    /* cudaHostRegister */
    case 102: *ret = 1; break;                                   /* virtual memory management */
    case 106: *ret = (int)d->blocks; break;                      /* of a multiprocessor */
    case 111: *ret = d->major >= 8 ? RESERVED_SHARED : 0; break; /* shared memory that the driver takes of a block */
    case 115: *ret = 1; break;                                   /* memory pools */
    case 120: *ret = d->major >= 9; break;                       /* clusters of blocks */
    case 125: *ret = 1; break;                                   /* events between processes */
    case 126: *ret = d->major >= 9 ? 4 : 1; break;               /* domains of memory synchronization */
    case 127: *ret = d->major >= 9; break;                       /* tensor maps */
    default: *ret = 0; break;
    }
    return SUCCESS;
}

/* Where attributes stand in cudaDeviceProp of CUDA 12 (of CUDA 11 its beginning) and of CUDA 13; 0: nowhere. Wide ones have 8 bytes. */
static const struct {
    uint16_t in12, in13;
    uint8_t attribute;
    bool wide;
} properties[] = {{296, 296, 8, true},   {304, 304, 12, false}, {308, 308, 10, false},  {312, 312, 11, true},   {320, 320, 1, false},  {324, 324, 2, false},
                  {328, 328, 3, false},  {332, 332, 4, false},  {336, 336, 5, false},   {340, 340, 6, false},   {344, 344, 7, false},  {348, 0, 13, false},
                  {352, 352, 9, true},   {360, 360, 75, false}, {364, 364, 76, false},  {368, 368, 14, true},   {376, 376, 51, true},  {384, 0, 15, false},
                  {388, 384, 16, false}, {400, 392, 19, false}, {568, 552, 30, true},   {576, 560, 31, false},  {584, 568, 33, false}, {600, 584, 40, false},
                  {604, 588, 41, false}, {608, 0, 36, false},   {612, 592, 37, false},  {616, 596, 38, false},  {624, 604, 39, false}, {628, 608, 78, false},
                  {632, 612, 79, false}, {636, 616, 80, false}, {640, 624, 81, true},   {648, 632, 82, false},  {652, 636, 83, false}, {668, 0, 87, false},
                  {676, 656, 89, false}, {680, 660, 90, false}, {684, 664, 91, false},  {688, 668, 95, false},  {696, 672, 97, true},  {712, 688, 106, false},
                  {720, 696, 111, true}, {728, 704, 99, false}, {744, 720, 115, false}, {768, 744, 125, false}, {772, 748, 120, false}};

/* As CUDA 12 lays it out, with clocks and modes, or 13. */
static int fill_properties(uint8_t *p, size_t size, bool of12, int device)
{
    if (!is_device_number(device))
        return fail(101);
    const PretendDevice *d = pretend_device();
    memset(p, 0, size);
    snprintf((char *)p, 256, "%s", d->name);
    p[256] = (uint8_t)(pretend_on_host(device) + 1); /* uuid */
    memcpy(p + 288, &d->bytes, sizeof d->bytes);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        size_t at = of12 ? properties[i].in12 : properties[i].in13, bytes = properties[i].wide ? 8 : 4;
        int value = 0;
        cudaDeviceGetAttribute(&value, properties[i].attribute, device);
        if (at > 0 && at + bytes <= size)
            memcpy(p + at, &(uint64_t){(uint64_t)value}, bytes);
    }
    return SUCCESS;
}

PRETEND_EXPORT int cudaGetDeviceProperties_v2(void *ret, int device)
{
    return fill_properties(ret, 1032, true, device);
}

PRETEND_EXPORT int cudaGetDeviceProperties(void *ret, int device)
{
    bool of12 = pretend_runtime_version() < 13000; /* a program of CUDA 12 asks for _v2 */
    return fill_properties(ret, of12 ? 728 : 1008, of12, device);
}

PRETEND_EXPORT int cudaDeviceGetPCIBusId(char *ret, int room, int device)
{
    snprintf(ret, (size_t)room, "0000:%02x:00.0", pretend_on_host(device) + 1);
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceGetByPCIBusId(int *ret, const char *bus)
{
    unsigned domain, number;
    int whole = 0; /* letters, where the domain is told, too */
    bool read = sscanf(bus, "%x:%x:%n", &domain, &number, &whole) == 2 && whole > 0;
    read = read || sscanf(bus, "%x:", &number) == 1;
    for (int device = 0; read && is_device_number(device); device++) {
        if (pretend_on_host(device) + 1 == (int)number) {
            *ret = device;
            return SUCCESS;
        }
    }
    return fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaDeviceCanAccessPeer(int *ret, int device, int peer)
{
    *ret = device != peer && pretend_reaches_peers();
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    if (!pretend_reaches_peers())
        return fail(PEER_ACCESS_UNSUPPORTED);
    pretend_reach(pretend_current_device(), peer);
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    *ret_free = pretend_free_bytes(current);
    *ret_total = pretend_device()->bytes;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGetLastError(void)
{
    int error = last_error;
    pretend_clear_stack();
    last_error = SUCCESS;
    return error;
}

PRETEND_EXPORT int cudaPeekAtLastError(void)
{
    return last_error;
}

PRETEND_EXPORT const char *cudaGetErrorString(int error)
{
    switch (error) {
    case SUCCESS: return "no error";
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case INVALID_CONFIGURATION: return "invalid configuration argument";
    case 101: return "invalid device ordinal";
    case 209: return "no kernel image is available for execution on the device";
    case NOT_FOUND: return "named symbol not found";
    case 600: return "device not ready";
    case 713: return "part or all of the requested memory range is not mapped";
    case PEER_ACCESS_UNSUPPORTED: return "peer access is not supported between these two devices";
    case NOT_SUPPORTED: return "operation not supported on a pretended GPU";
    case 900: return "operation not permitted when stream is capturing";
    case 901: return "operation failed due to a previous error during capture";
    case 903: return "no capture is in progress in this thread";
    default: return "error of a pretended GPU";
    }
}

PRETEND_EXPORT const char *cudaGetErrorName(int error)
{
    switch (error) {
    case SUCCESS: return "cudaSuccess";
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case INVALID_CONFIGURATION: return "cudaErrorInvalidConfiguration";
    case 101: return "cudaErrorInvalidDevice";
    case 209: return "cudaErrorNoKernelImageForDevice";
    case NOT_FOUND: return "cudaErrorSymbolNotFound";
    case 600: return "cudaErrorNotReady";
    case 713: return "cudaErrorHostMemoryNotRegistered";
    case 900: return "cudaErrorStreamCaptureUnsupported";
    case 901: return "cudaErrorStreamCaptureInvalidated";
    case 903: return "cudaErrorStreamCaptureUnmatched";
    case PEER_ACCESS_UNSUPPORTED: return "cudaErrorPeerAccessUnsupported";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    default: return "cudaErrorUnknown";
    }
}

/* ---- memory ---- */

PRETEND_EXPORT int cudaMalloc(void **ret, size_t bytes)
{
    *ret = pretend_allocate(current, bytes, PRETEND_DEVICE, NULL, false);
    return *ret || bytes == 0 ? SUCCESS : fail(OUT_OF_MEMORY);
}

PRETEND_EXPORT int cudaMallocManaged(void **ret, size_t bytes, unsigned flags)
{
    (void)flags;
    *ret = pretend_allocate(current, bytes, PRETEND_MANAGED, NULL, false);
    return *ret || bytes == 0 ? SUCCESS : fail(OUT_OF_MEMORY);
}

/* A location is its type and a number in one register: 1 is a device. Before CUDA 13 it was the number of a device, negative for the host. */
static bool is_device(uint64_t location)
{
    return pretend_runtime_version() >= 13000 ? (uint32_t)location == 1 : (int32_t)location >= 0;
}

PRETEND_EXPORT int cudaMemPrefetchAsync_v2(const void *address, size_t bytes, uint64_t location, unsigned flags, void *stream)
{
    (void)flags;
    return pretend_prefetch(address, bytes, (uint32_t)location == 1, stream) ? SUCCESS : fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaMemAdvise_v2(const void *address, size_t bytes, int advice, uint64_t location)
{
    return pretend_advise(address, bytes, advice, (uint32_t)location == 1) ? SUCCESS : fail(INVALID_VALUE);
}

/* Before CUDA 13 it had no flags. */
PRETEND_EXPORT int cudaMemPrefetchAsync(const void *address, size_t bytes, uint64_t location, void *stream_or_flags, void *stream)
{
    bool has_flags = pretend_runtime_version() >= 13000;
    return pretend_prefetch(address, bytes, is_device(location), has_flags ? stream : stream_or_flags) ? SUCCESS : fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaMemAdvise(const void *address, size_t bytes, int advice, uint64_t location)
{
    return pretend_advise(address, bytes, advice, is_device(location)) ? SUCCESS : fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaFree(void *address)
{
    return !address || pretend_free(address, NULL, false) ? SUCCESS : fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaMallocAsync(void **ret, size_t bytes, void *stream)
{
    *ret = pretend_allocate(current, bytes, PRETEND_DEVICE, stream, true);
    return *ret || bytes == 0 ? SUCCESS : fail(OUT_OF_MEMORY);
}

PRETEND_EXPORT int cudaFreeAsync(void *address, void *stream)
{
    return !address || pretend_free(address, stream, true) ? SUCCESS : fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    (void)flags;
    *ret = pretend_allocate(current, bytes, PRETEND_PINNED, NULL, false);
    return *ret || bytes == 0 ? SUCCESS : fail(OUT_OF_MEMORY);
}

PRETEND_EXPORT int cudaMallocHost(void **ret, size_t bytes)
{
    return cudaHostAlloc(ret, bytes, 0);
}

PRETEND_EXPORT int cudaFreeHost(void *address)
{
    return cudaFree(address);
}

PRETEND_EXPORT int cudaHostRegister(void *address, size_t bytes, unsigned flags)
{
    (void)flags;
    pretend_pin(current, address, bytes);
    return SUCCESS;
}

PRETEND_EXPORT int cudaHostUnregister(void *address)
{
    return pretend_unpin(current, address) ? SUCCESS : fail(713); /* cudaErrorHostMemoryNotRegistered */
}

PRETEND_EXPORT int cudaHostGetDevicePointer(void **ret, void *host, unsigned flags)
{
    (void)flags;
    *ret = host;
    return SUCCESS;
}

typedef struct {
    int type; /* 0 not registered, 1 host, 2 device, 3 managed */
    int device;
    void *device_pointer, *host_pointer;
} PointerAttributes;

PRETEND_EXPORT int cudaPointerGetAttributes(void *ret, const void *address)
{
    PretendBlock block = {.kind = PRETEND_PAGEABLE};
    bool found = pretend_find(address, &block);
    PointerAttributes *a = ret;
    *a = (PointerAttributes){.device = found ? block.device : -1};
    if (!found)
        return SUCCESS;
    a->type = block.kind == PRETEND_DEVICE ? 2 : block.kind == PRETEND_MANAGED ? 3 : 1;
    a->device_pointer = (void *)(uintptr_t)address;
    a->host_pointer = block.kind == PRETEND_DEVICE ? NULL : (void *)(uintptr_t)address;
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    (void)kind;
    if (bytes > 0)
        pretend_copy(to, from, bytes, stream, PRETEND_ASYNC);
    return SUCCESS;
}

/* Before CUDA 13 it told which of them failed. */
PRETEND_EXPORT int cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes, size_t n, void *attributes, size_t *first_with,
                                        size_t n_attributes, void *stream_or_failed, void *stream)
{
    (void)attributes, (void)first_with, (void)n_attributes;
    return cuMemcpyBatchAsync_v2(to, from, bytes, n, NULL, NULL, 0, pretend_runtime_version() >= 13000 ? stream_or_failed : stream);
}

PRETEND_EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    (void)kind;
    if (bytes > 0)
        pretend_copy(to, from, bytes, NULL, PRETEND_SYNC);
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream)
{
    (void)to_device;
    (void)from_device;
    return cudaMemcpyAsync(to, from, bytes, 3, stream);
}

/* Rows of a pitch, of which nothing stays known on a device. */
PRETEND_EXPORT int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, void *stream)
{
    (void)kind;
    if (width == 0 || height == 0)
        return SUCCESS;
    PretendBlock target = {.kind = PRETEND_PAGEABLE}, source = {.kind = PRETEND_PAGEABLE};
    pretend_find(to, &target);
    pretend_find(from, &source);
    for (size_t row = 0; row < height; row++) {
        uint8_t *there = (uint8_t *)to + row * to_pitch;
        if (target.kind == PRETEND_DEVICE)
            pretend_clear(there, width);
        else if (source.kind == PRETEND_DEVICE)
            memset(there, 0, width);
        else
            memmove(there, (const uint8_t *)from + row * from_pitch, width);
    }
    pretend_use(PRETEND_READS, from, from_pitch * (height - 1) + width);
    pretend_use(PRETEND_WRITES, to, to_pitch * (height - 1) + width);
    pretend_work("copy", stream, "%zu %d %d 1", width * height, source.kind, target.kind);
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream)
{
    if (bytes > 0)
        pretend_set(to, value, bytes, stream);
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}

PRETEND_EXPORT int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}

PRETEND_EXPORT int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL);
}

PRETEND_EXPORT int cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream)
{
    (void)value;
    if (width == 0 || height == 0)
        return SUCCESS;
    for (size_t row = 0; row < height; row++)
        pretend_clear((uint8_t *)to + row * pitch, width);
    pretend_use(PRETEND_WRITES, to, pitch * (height - 1) + width);
    pretend_work("set", stream, "%zu", width * height);
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}

PRETEND_EXPORT int cudaMallocPitch(void **ret, size_t *ret_pitch, size_t width, size_t height)
{
    *ret_pitch = (width + 511) / 512 * 512;
    return height > 0 && *ret_pitch > SIZE_MAX / height ? fail(OUT_OF_MEMORY) : cudaMalloc(ret, *ret_pitch * height);
}

/* A variable of the device is its shadow on the host. */
PRETEND_EXPORT int cudaGetSymbolAddress(void **ret, const void *symbol)
{
    *ret = (void *)(uintptr_t)symbol;
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind)
{
    (void)symbol;
    (void)from;
    (void)bytes;
    (void)offset;
    (void)kind;
    return SUCCESS;
}

/* ---- what changes nothing here ---- */

#define NOTHING_TO_DO(name)                                                                                                                                    \
    PRETEND_EXPORT int name(void)                                                                                                                              \
    {                                                                                                                                                          \
        return SUCCESS;                                                                                                                                        \
    }
NOTHING_TO_DO(cudaCtxResetPersistingL2Cache)
NOTHING_TO_DO(cudaDeviceDisablePeerAccess)
NOTHING_TO_DO(cudaDeviceGraphMemTrim)
NOTHING_TO_DO(cudaDeviceReset)
NOTHING_TO_DO(cudaDeviceSetCacheConfig)
NOTHING_TO_DO(cudaDeviceSetGraphMemAttribute)
NOTHING_TO_DO(cudaDeviceSetLimit)
NOTHING_TO_DO(cudaDeviceSetSharedMemConfig)
NOTHING_TO_DO(cudaFuncSetCacheConfig)
NOTHING_TO_DO(cudaFuncSetSharedMemConfig)
NOTHING_TO_DO(cudaInitDevice)
NOTHING_TO_DO(cudaMemcpyToSymbolAsync)
NOTHING_TO_DO(cudaSetDeviceFlags)
NOTHING_TO_DO(cudaSetValidDevices)
NOTHING_TO_DO(cudaStreamAttachMemAsync)
NOTHING_TO_DO(cudaStreamCopyAttributes)
NOTHING_TO_DO(cudaStreamSetAttribute)
NOTHING_TO_DO(__cudaRegisterHostVar)
NOTHING_TO_DO(__cudaRegisterManagedVar)
NOTHING_TO_DO(__cudaRegisterSurface)
NOTHING_TO_DO(__cudaRegisterTexture)
NOTHING_TO_DO(__cudaRegisterUnifiedTable)

PRETEND_EXPORT char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

PRETEND_EXPORT int cudaDeviceGetLimit(size_t *ret, int limit)
{
    /* cudaLimit: a thread's stack, what printf writes into, the heap; the L2 cache's sector that is fetched, and its part that stays. */
    static const size_t limits[] = {[0] = 1024, [1] = (size_t)1 << 20, [2] = (size_t)8 << 20, [5] = 64, [6] = 0};
    *ret = limit >= 0 && (size_t)limit < sizeof limits / sizeof *limits ? limits[limit] : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceGetGraphMemAttribute(int device, int attribute, uint64_t *ret)
{
    (void)device;
    (void)attribute;
    *ret = 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceGetP2PAttribute(int *ret, int attribute, int source, int target)
{
    (void)attribute;
    *ret = source != target && pretend_reaches_peers();
    return SUCCESS;
}

PRETEND_EXPORT int cudaGetDeviceFlags(unsigned *ret)
{
    *ret = 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudaHostGetFlags(unsigned *ret, void *address)
{
    (void)address;
    *ret = 0;
    return SUCCESS;
}

/* ---- pools of cudaMallocAsync: one for each device ---- */

static int pools[PRETEND_DEVICES];

static int device_of_pool(const void *pool)
{
    return (int)((const int *)pool - pools);
}

PRETEND_EXPORT int cudaDeviceGetDefaultMemPool(void **ret, int device)
{
    *ret = &pools[(unsigned)device % PRETEND_DEVICES];
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceGetMemPool(void **ret, int device)
{
    return cudaDeviceGetDefaultMemPool(ret, device);
}

/* cudaMemPoolAttr: 1 to 3 whether memory is used again in several ways, 4 how much is kept; 5 and 6 bytes reserved, now and at most; 7 and 8 bytes used. Ours
 * reserves what is used. What a program sets is told again: CuPy keeps its limit there. */
enum { POOL_KEEPS = 4 };
static uint64_t kept_by_pool[PRETEND_DEVICES];

PRETEND_EXPORT int cudaMemPoolGetAttribute(void *pool, int attribute, void *ret)
{
    int device = device_of_pool(pool);
    uint64_t value = attribute < POOL_KEEPS    ? 1
                     : attribute == POOL_KEEPS ? __atomic_load_n(&kept_by_pool[device], __ATOMIC_RELAXED)
                                               : pretend_pool_bytes(device, attribute == 6 || attribute == 8);
    memcpy(ret, &value, attribute >= POOL_KEEPS ? sizeof value : sizeof(int));
    return SUCCESS;
}

/* What a program of TensorFlow's tells its own pool, in whose place this one is asked; or that it wants this one itself. */
static struct {
    uint64_t bytes; /* at most; 0: all that TensorFlow takes */
    bool in_place, grows, wanted;
} of_program;

PRETEND_EXPORT void pretend_tell_pool(uint64_t bytes, int grows)
{
    of_program.bytes = bytes;
    of_program.grows = grows;
    of_program.in_place = true;
}

PRETEND_EXPORT void pretend_pool_is_wanted(void)
{
    of_program.wanted = true;
}

/* Which share of the memory JAX's own pool would take, and whether as it is needed, where the program's environment says so: this one is asked in its place. */
static void tell_pool(void)
{
    static bool told;
    const char *of_jax = getenv("XLA_PYTHON_CLIENT_MEM_FRACTION"), *share = of_jax && *of_jax ? of_jax : getenv("XLA_CLIENT_MEM_FRACTION");
    const char *whole = getenv("XLA_PYTHON_CLIENT_PREALLOCATE");
    double fraction = share ? strtod(share, NULL) : 0;
    bool grows = whole && (strcmp(whole, "false") == 0 || strcmp(whole, "False") == 0 || strcmp(whole, "0") == 0);
    fraction = fraction > 0 && fraction <= 1 ? fraction : 0;
    if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        return;
    if (of_program.wanted)
        pretend_line("pool_wanted", "1");
    else if (of_program.bytes > 0 || of_program.grows)
        pretend_line("pool_told", "%" PRIu64 " %d", of_program.bytes, (int)of_program.grows);
    else if (!of_program.in_place && (fraction > 0 || grows))
        pretend_line("pool", "%u %u", (unsigned)(fraction * 1e6 + 0.5), (unsigned)grows);
}

PRETEND_EXPORT int cudaMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    uint64_t kept = 0;
    if (attribute == POOL_KEEPS) {
        tell_pool();
        memcpy(&kept, value, sizeof kept);
        if (of_program.in_place) /* as much as TensorFlow's own may take: of each into which the program cuts a device */
            pretend_limit_pool(device_of_pool(pool), kept);
        __atomic_store_n(&kept_by_pool[device_of_pool(pool)], kept, __ATOMIC_RELAXED);
    }
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemPoolSetAccess(void *pool, const void *access, size_t n)
{
    (void)pool;
    (void)access;
    if (n > 0 && pretend_reaches_peers())
        pretend_reach(-1, -1);
    return SUCCESS;
}

PRETEND_EXPORT int cudaMemPoolTrimTo(void *pool, size_t keep)
{
    (void)pool;
    (void)keep;
    return SUCCESS;
}

/* A pool of the program's own is the device's. cudaMemPoolProps: a kind of memory, of handles, of location, and its number. */
PRETEND_EXPORT int cudaMemPoolCreate(void **ret, const int *wanted)
{
    return cudaDeviceGetDefaultMemPool(ret, wanted[3]);
}

PRETEND_EXPORT int cudaMemPoolDestroy(void *pool)
{
    (void)pool;
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceSetMemPool(int device, void *pool)
{
    (void)pool;
    return is_device_number(device) ? SUCCESS : fail(101);
}

PRETEND_EXPORT int cudaMallocFromPoolAsync(void **ret, size_t bytes, void *pool, void *stream)
{
    *ret = pretend_allocate(device_of_pool(pool), bytes, PRETEND_DEVICE, stream, true);
    return *ret || bytes == 0 ? SUCCESS : fail(OUT_OF_MEMORY);
}

PRETEND_EXPORT int cudaProfilerStart(void)
{
    return SUCCESS;
}

PRETEND_EXPORT int cudaProfilerStop(void)
{
    return SUCCESS;
}

/* ---- kernels ---- */

typedef struct {
    const void *function;
    const char *name;
    PretendCode *code; /* NULL: not known */
} Kernel;

static Kernel *kernels;
static size_t n_kernels, kernel_room, n_sorted;

void pretend_register_kernel(const void *function, const char *name, PretendCode *code)
{
    pretend_lock();
    if (n_kernels == kernel_room) {
        size_t room = kernel_room ? 2 * kernel_room : 4096;
        Kernel *larger = realloc(kernels, room * sizeof *larger);
        if (larger) {
            kernels = larger;
            kernel_room = room;
        }
    }
    if (n_kernels < kernel_room)
        kernels[n_kernels++] = (Kernel){function, name, code};
    pretend_unlock();
}

PRETEND_EXPORT void **__cudaRegisterFatBinary(void *binary)
{
    return (void **)pretend_code_of_wrapper(binary);
}

PRETEND_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

PRETEND_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
    if (handle)
        pretend_code_leaves((PretendCode *)(void *)handle);
}

PRETEND_EXPORT void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external, size_t size, int constant, int global)
{
    (void)handle;
    (void)host;
    (void)address;
    (void)name;
    (void)external;
    (void)size;
    (void)constant;
    (void)global;
}

PRETEND_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *thread, void *block, void *dim,
                                           void *grid, int *warp)
{
    (void)device;
    (void)threads;
    (void)thread;
    (void)block;
    (void)dim;
    (void)grid;
    (void)warp;
    pretend_register_kernel(host, name, (PretendCode *)(void *)handle);
}

static int by_function(const void *a, const void *b)
{
    const Kernel *x = a, *y = b;
    return ((uintptr_t)x->function > (uintptr_t)y->function) - ((uintptr_t)x->function < (uintptr_t)y->function);
}

/* Kernels of libraries that were unloaded go when others come, so that an exit, which unloads all, looks at none. */
static void sort_kernels(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_kernels; i++) {
        if (!pretend_code_has_left(kernels[i].code))
            kernels[n++] = kernels[i];
    }
    n_kernels = n;
    qsort(kernels, n_kernels, sizeof *kernels, by_function);
    n_sorted = n_kernels;
    pretend_code_forget();
}

/* As @function was registered, its name mangled; "?" and no code where it was not. */
static Kernel kernel_of(const void *function)
{
    pretend_lock();
    if (n_sorted != n_kernels)
        sort_kernels();
    Kernel key = {.function = function, .name = "?"};
    const Kernel *found = kernels ? bsearch(&key, kernels, n_kernels, sizeof *kernels, by_function) : NULL;
    const Kernel kernel = found ? *found : (Kernel){function, "?", NULL};
    pretend_unlock();
    return kernel;
}

static __thread struct {
    PretendDim grid, block;
    size_t shared;
    void *stream;
} configuration;

PRETEND_EXPORT unsigned __cudaPushCallConfiguration(PretendDim grid, PretendDim block, size_t shared, void *stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

PRETEND_EXPORT int __cudaPopCallConfiguration(PretendDim *ret_grid, PretendDim *ret_block, size_t *ret_shared, void **ret_stream)
{
    *ret_grid = configuration.grid;
    *ret_block = configuration.block;
    *ret_shared = configuration.shared;
    *ret_stream = configuration.stream;
    return SUCCESS;
}

/* What is known of a function that was registered; NULL: nothing. */
static const PretendKernelCode *kernel_code(const void *function)
{
    const Kernel kernel = kernel_of(function);
    return pretend_code_kernel(kernel.code, kernel.name);
}

/* Whether a device takes so many blocks of so many threads (CUDA C++ Programming Guide, technical specifications per compute capability). A grid of no blocks,
 * which it does not, is a size that hangs on results here. */
static bool is_configuration(PretendDim grid, PretendDim block)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    return grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 && threads >= 1 && threads <= 1024;
}

/* What a block may ask for when it is launched. */
static bool has_shared(const PretendKernelCode *code, uint64_t bytes)
{
    return bytes + (code ? code->shared : 0) <= pretend_device()->shared_per_block;
}

PRETEND_EXPORT int cudaLaunchKernel(const void *function, PretendDim grid, PretendDim block, void **arguments, size_t shared, void *stream)
{
    const Kernel kernel = kernel_of(function);
    if (pretend_code_version(kernel.code) == PRETEND_NO_CODE)
        return fail(209); /* cudaErrorNoKernelImageForDevice */
    const PretendKernelCode *code = pretend_code_kernel(kernel.code, kernel.name);
    if (!is_configuration(grid, block))
        return fail(INVALID_CONFIGURATION);
    if (!has_shared(code, shared))
        return fail(INVALID_VALUE);
    if (code && (arguments || code->n_parameters == 0))
        pretend_arguments(code, arguments, grid, block, shared);
    uint32_t name = pretend_symbol(kernel.name);
    pretend_work("kernel", stream, "%u %u %u %u %u %u %u %zu", name, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared);
    return SUCCESS;
}

/* Of CUDA 13: a kernel is its function. */
PRETEND_EXPORT int __cudaGetKernel(void **ret, const void *function)
{
    *ret = (void *)(uintptr_t)function;
    return SUCCESS;
}

PRETEND_EXPORT int __cudaLaunchKernel(const void *function, PretendDim grid, PretendDim block, void **arguments, size_t shared, void *stream)
{
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

typedef struct {
    PretendDim grid, block;
    size_t shared;
    void *stream;
    void *attributes;
    unsigned n_attributes;
} LaunchConfig;

PRETEND_EXPORT int cudaLaunchKernelExC(const LaunchConfig *config, const void *function, void **arguments)
{
    return cudaLaunchKernel(function, config->grid, config->block, arguments, config->shared, config->stream);
}

/* CuTe's name of it (cute.c). */
PRETEND_EXPORT int _cudaLaunchKernelEx(const LaunchConfig *config, const void *function, void **arguments)
{
    return cudaLaunchKernelExC(config, function, arguments);
}

PRETEND_EXPORT int cudaLaunchCooperativeKernel(const void *function, PretendDim grid, PretendDim block, void **arguments, size_t shared, void *stream)
{
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

/* The register file of a multiprocessor, in all generations since Kepler (CUDA C++ Programming Guide, technical specifications per compute capability): given
 * to warps in pieces of 256. */
enum { REGISTERS = 65536, REGISTER_PIECE = 256, WARP = 32, ASSUMED_REGISTERS = 32 };

static int registers_of(const PretendKernelCode *code)
{
    return code && code->registers > 0 ? (int)code->registers : ASSUMED_REGISTERS;
}

static int warps_by_registers(const PretendKernelCode *code)
{
    return REGISTERS / ((registers_of(code) * WARP + REGISTER_PIECE - 1) / REGISTER_PIECE * REGISTER_PIECE);
}

static int most_threads(const PretendKernelCode *code)
{
    int most = warps_by_registers(code) * WARP < 1024 ? warps_by_registers(code) * WARP : 1024;
    return code && code->threads > 0 && (int)code->threads < most ? (int)code->threads : most;
}

PRETEND_EXPORT int cudaFuncGetAttributes(PretendFunctionAttributes *ret, const void *function)
{
    const PretendDevice *d = pretend_device();
    const Kernel kernel = kernel_of(function);
    int version = pretend_code_version(kernel.code); /* libraries choose by it among what they were built for */
    if (version == PRETEND_NO_CODE)
        return fail(209);
    version = version == PRETEND_ANY_CODE ? (int)(10 * d->major + d->minor) : version;
    const PretendKernelCode *code = pretend_code_kernel(kernel.code, kernel.name);
    *ret = (PretendFunctionAttributes){.shared = code ? code->shared : 0,
                                       .threads = most_threads(code),
                                       .registers = registers_of(code),
                                       .ptx = version,
                                       .binary = version,
                                       .dynamic_shared = 48 << 10};
    return SUCCESS;
}

PRETEND_EXPORT int cudaFuncSetAttribute(const void *function, int attribute, int value)
{
    enum { MOST_SHARED = 8 }; /* cudaFuncAttributeMaxDynamicSharedMemorySize */
    return attribute != MOST_SHARED || (value >= 0 && has_shared(kernel_code(function), (uint64_t)value)) ? SUCCESS : fail(INVALID_VALUE);
}

/* As many as threads, registers and shared memory leave room for. */
PRETEND_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, const void *function, int threads, size_t shared, unsigned flags)
{
    (void)flags;
    const PretendDevice *d = pretend_device();
    const PretendKernelCode *code = kernel_code(function);
    uint64_t warps = threads > 0 ? (uint64_t)(threads + WARP - 1) / WARP : 0, blocks = warps ? d->threads / (warps * WARP) : 0,
             by_registers = warps ? (uint64_t)warps_by_registers(code) / warps : 0,
             by_shared = d->shared_per_multiprocessor / (shared + (code ? code->shared : 0) + 1024);
    blocks = blocks < by_registers ? blocks : by_registers;
    blocks = blocks < by_shared ? blocks : by_shared;
    *ret = (int)(blocks < d->blocks ? blocks : d->blocks);
    return SUCCESS;
}

PRETEND_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, const void *function, int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret, function, threads, shared, 0);
}

/* As many clusters of one block as there are multiprocessors; of eight blocks, which every device has room for. */
PRETEND_EXPORT int cudaOccupancyMaxActiveClusters(int *ret, const void *function, const LaunchConfig *config)
{
    (void)function;
    (void)config;
    *ret = (int)pretend_device()->multiprocessors;
    return SUCCESS;
}

PRETEND_EXPORT int cudaOccupancyMaxPotentialClusterSize(int *ret, const void *function, const LaunchConfig *config)
{
    (void)function;
    (void)config;
    *ret = 8;
    return SUCCESS;
}

PRETEND_EXPORT int cudaOccupancyAvailableDynamicSMemPerBlock(size_t *ret, const void *function, int blocks, int threads)
{
    (void)function;
    (void)threads;
    uint64_t shared = pretend_device()->shared_per_multiprocessor;
    *ret = blocks > 0 && shared / (unsigned)blocks > 1024 ? shared / (unsigned)blocks - 1024 : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudaFuncGetName(const char **ret, const void *function)
{
    *ret = kernel_of(function).name;
    return SUCCESS;
}

/* Parameters lie one behind the other, each at a multiple of its size as far as that is a number's. */
PRETEND_EXPORT int cudaFuncGetParamInfo(const void *function, size_t index, size_t *ret_offset, size_t *ret_size)
{
    const PretendKernelCode *code = kernel_code(function);
    size_t offset = 0;
    for (size_t i = 0; code && i < code->n_parameters && i <= index; i++) {
        size_t size = code->parameters[i], align = size & -size;
        align = align > 8 ? 8 : align > 0 ? align : 1;
        offset = (offset + align - 1) / align * align;
        if (i == index) {
            *ret_offset = offset;
            if (ret_size)
                *ret_size = size;
            return SUCCESS;
        }
        offset += size;
    }
    return fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaFuncGetParamCount(const void *function, size_t *ret)
{
    const PretendKernelCode *code = kernel_code(function);
    *ret = code ? code->n_parameters : 0;
    return code ? SUCCESS : fail(INVALID_VALUE);
}

PRETEND_EXPORT int cudaGetKernel(void **ret, const void *function)
{
    *ret = (void *)(uintptr_t)function;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGetFuncBySymbol(void **ret, const void *function)
{
    *ret = (void *)(uintptr_t)function;
    return SUCCESS;
}

/* ---- the driver's entry points: this library again, as libcuda.so.1 ---- */

/* Calls that take something else from CUDA 12.0, 12.2 or 13.0 on, for programs that were built with it. */
static bool has_changed(const char *symbol, int version)
{
    return (version >= 12000 && strcmp(symbol, "cuGetProcAddress") == 0) ||
           (version >= 12020 && (strcmp(symbol, "cuMemPrefetchAsync") == 0 || strcmp(symbol, "cuMemAdvise") == 0)) ||
           (version >= 13000 && strcmp(symbol, "cuMemcpyBatchAsync") == 0);
}

static int entry_point(const char *symbol, int version, void **ret, int *ret_result)
{
    *ret = has_changed(symbol, version) ? NULL : dlsym(RTLD_DEFAULT, symbol);
    if (!*ret) { /* names of the driver say no version; its libraries' do */
        char versioned[128];
        snprintf(versioned, sizeof versioned, "%s_v%d", symbol, version >= 13000 && strcmp(symbol, "cuCtxCreate") == 0 ? 4 : 2);
        *ret = dlsym(RTLD_DEFAULT, versioned);
    }
    if (ret_result)
        *ret_result = *ret ? 0 : 1; /* cudaDriverEntryPointSymbolNotFound */
    return SUCCESS;
}

PRETEND_EXPORT int cudaGetDriverEntryPoint(const char *symbol, void **ret, unsigned long long flags, int *ret_result)
{
    (void)flags;
    return entry_point(symbol, pretend_runtime_version(), ret, ret_result);
}

PRETEND_EXPORT int cudaGetDriverEntryPointByVersion(const char *symbol, void **ret, unsigned version, unsigned long long flags, int *ret_result)
{
    (void)flags;
    return entry_point(symbol, (int)version, ret, ret_result);
}

PRETEND_EXPORT int cuGetProcAddress_v2(const char *symbol, void **ret, int version, uint64_t flags, int *ret_result)
{
    (void)flags;
    entry_point(symbol, version, ret, ret_result);
    return *ret ? SUCCESS : NOT_FOUND;
}

PRETEND_EXPORT int cuGetProcAddress(const char *symbol, void **ret, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, ret, version, flags, NULL);
}
