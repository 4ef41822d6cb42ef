/** @file cuda_driver.h
 * The CUDA driver API by dlopen: a table of the functions echelon calls. Building needs no toolkit; a machine without a driver gets one
 * clear error. Types are the driver's ABI (handles are opaque pointers, CUdeviceptr is 64 bits).
 *
 * ECHELON_LIBCUDA names another library to load: the tests' fake driver. ECHELON_CUDA_KERNELS names a file of our kernels to load instead of the embedded
 * PTX (a cubin or fatbin that ptxas makes of cuda_kernels.ptx): for a driver without its compiler.
 */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int EchCuResult; /**< 0 is success. */
typedef int EchCuDevice;
typedef int EchCuAttribute, EchCuPoolAttribute, EchCuCaptureMode, EchCuGranularity; /**< Enumerations, of an int's size. */
typedef uint64_t EchCuPointer;
typedef struct EchCuContextOpaque *EchCuContext;
typedef struct EchCuStreamOpaque *EchCuStream;
typedef struct EchCuEventOpaque *EchCuEvent;
typedef struct EchCuModuleOpaque *EchCuModule;
typedef struct EchCuFunctionOpaque *EchCuFunction;
typedef struct EchCuGraphOpaque *EchCuGraph;
typedef struct EchCuGraphExecOpaque *EchCuGraphExec;
typedef struct EchCuPoolOpaque *EchCuPool;

enum {
    ECH_CU_ERROR_OUT_OF_MEMORY = 2,
    ECH_CU_ERROR_STUB_LIBRARY = 34,
    ECH_CU_ERROR_DEVICE_UNAVAILABLE = 46,
    ECH_CU_ERROR_NO_DEVICE = 100,
    ECH_CU_ERROR_NO_BINARY = 209,
    ECH_CU_ERROR_INVALID_PTX = 218,
    ECH_CU_ERROR_NO_COMPILER = 221,
    ECH_CU_ERROR_PTX_VERSION = 222,
    ECH_CU_ERROR_NOT_READY = 600,
    ECH_CU_ERROR_SYSTEM_NOT_READY = 802,
    ECH_CU_ERROR_DRIVER_MISMATCH = 803,
    ECH_CU_ERROR_UNKNOWN = 999,
    ECH_CU_STREAM_NON_BLOCKING = 1,
    ECH_CU_EVENT_DEFAULT = 0,
    ECH_CU_EVENT_DISABLE_TIMING = 2,
    ECH_CU_CAPTURE_RELAXED = 2,
    ECH_CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    ECH_CU_ATTRIBUTE_CLOCK_KHZ = 13,
    ECH_CU_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    ECH_CU_ATTRIBUTE_BUS_BITS = 37,
    ECH_CU_ATTRIBUTE_L2_BYTES = 38,
    ECH_CU_ATTRIBUTE_ASYNC_ENGINES = 40,
    ECH_CU_ATTRIBUTE_MAJOR = 75,
    ECH_CU_ATTRIBUTE_MINOR = 76,
    ECH_CU_ATTRIBUTE_VMM = 102,
    ECH_CU_ATTRIBUTE_POOLS = 115,
    ECH_CU_POOL_REUSE_AFTER_EVENTS = 1,
    ECH_CU_POOL_REUSE_OPPORTUNISTIC = 2,
    ECH_CU_POOL_REUSE_BY_WAITING = 3,
    ECH_CU_POOL_RELEASE_THRESHOLD = 4,
    ECH_CU_POOL_RESERVED_CURRENT = 5,
    ECH_CU_POOL_RESERVED_HIGH = 6,
    ECH_CU_POOL_USED_CURRENT = 7,
    ECH_CU_POOL_USED_HIGH = 8,
    ECH_CU_ALLOCATION_PINNED = 1,
    ECH_CU_LOCATION_DEVICE = 1,
    ECH_CU_ACCESS_READ_WRITE = 3,
    ECH_CU_GRANULARITY_MINIMUM = 0,
};

/** CUmemLocation and CUmemAllocationProp, for VMM. */
typedef struct {
    int type, id;
} EchCuLocation;
typedef struct {
    int type, handle_types;
    EchCuLocation location;
    void *win32;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} EchCuAllocationProp;
typedef struct {
    EchCuLocation location;
    int flags;
} EchCuAccess;

typedef struct {
    char bytes[16];
} EchCuUuid;

/** Physical memory behind a range of addresses of its own, in pieces of the same size, each created for itself. */
typedef struct {
    EchCuPointer address;
    size_t piece;                 /**< Bytes of one. */
    unsigned long long *physical; /**< physical[n_pieces], owned */
    size_t n_pieces;
} EchCuMapping;

/* ECH_CU(result, member, symbol, parameters): every driver function in use. */
#define ECH_CU_FUNCTIONS(X)                                                                                                                                    \
    X(init, cuInit, (unsigned flags))                                                                                                                          \
    X(driver_version, cuDriverGetVersion, (int *ret))                                                                                                          \
    X(device_count, cuDeviceGetCount, (int *ret))                                                                                                              \
    X(device_get, cuDeviceGet, (EchCuDevice * ret, int ordinal))                                                                                               \
    X(device_name, cuDeviceGetName, (char *ret, int length, EchCuDevice device))                                                                               \
    X(device_total_memory, cuDeviceTotalMem_v2, (size_t * ret, EchCuDevice device))                                                                            \
    X(device_attribute, cuDeviceGetAttribute, (int *ret, EchCuAttribute attribute, EchCuDevice device))                                                        \
    X(context_retain, cuDevicePrimaryCtxRetain, (EchCuContext * ret, EchCuDevice device))                                                                      \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (EchCuDevice device))                                                                                     \
    X(context_set, cuCtxSetCurrent, (EchCuContext context))                                                                                                    \
    X(context_synchronize, cuCtxSynchronize, (void))                                                                                                           \
    X(memory_info, cuMemGetInfo_v2, (size_t * ret_free, size_t * ret_total))                                                                                   \
    X(allocate, cuMemAlloc_v2, (EchCuPointer * ret, size_t bytes))                                                                                             \
    X(release, cuMemFree_v2, (EchCuPointer pointer))                                                                                                           \
    X(host_allocate, cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags))                                                                               \
    X(host_release, cuMemFreeHost, (void *pointer))                                                                                                            \
    X(allocate_async, cuMemAllocAsync, (EchCuPointer * ret, size_t bytes, EchCuStream stream))                                                                 \
    X(release_async, cuMemFreeAsync, (EchCuPointer pointer, EchCuStream stream))                                                                               \
    X(default_pool, cuDeviceGetDefaultMemPool, (EchCuPool * ret, EchCuDevice device))                                                                          \
    X(pool_get, cuMemPoolGetAttribute, (EchCuPool pool, EchCuPoolAttribute attribute, void *ret))                                                              \
    X(pool_set, cuMemPoolSetAttribute, (EchCuPool pool, EchCuPoolAttribute attribute, void *value))                                                            \
    X(pool_trim, cuMemPoolTrimTo, (EchCuPool pool, size_t keep))                                                                                               \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (EchCuPointer target, const void *source, size_t bytes, EchCuStream stream))                                       \
    X(copy_from_device, cuMemcpyDtoHAsync_v2, (void *target, EchCuPointer source, size_t bytes, EchCuStream stream))                                           \
    X(copy_on_device, cuMemcpyDtoDAsync_v2, (EchCuPointer target, EchCuPointer source, size_t bytes, EchCuStream stream))                                      \
    X(fill, cuMemsetD32Async, (EchCuPointer target, unsigned value, size_t words, EchCuStream stream))                                                         \
    X(stream_create, cuStreamCreate, (EchCuStream * ret, unsigned flags))                                                                                      \
    X(stream_destroy, cuStreamDestroy_v2, (EchCuStream stream))                                                                                                \
    X(stream_synchronize, cuStreamSynchronize, (EchCuStream stream))                                                                                           \
    X(stream_wait, cuStreamWaitEvent, (EchCuStream stream, EchCuEvent event, unsigned flags))                                                                  \
    X(capture_begin, cuStreamBeginCapture_v2, (EchCuStream stream, EchCuCaptureMode mode))                                                                     \
    X(capture_end, cuStreamEndCapture, (EchCuStream stream, EchCuGraph * ret))                                                                                 \
    X(graph_instantiate, cuGraphInstantiateWithFlags, (EchCuGraphExec * ret, EchCuGraph graph, unsigned long long flags))                                      \
    X(graph_upload, cuGraphUpload, (EchCuGraphExec graph, EchCuStream stream))                                                                                 \
    X(graph_launch, cuGraphLaunch, (EchCuGraphExec graph, EchCuStream stream))                                                                                 \
    X(graph_exec_destroy, cuGraphExecDestroy, (EchCuGraphExec graph))                                                                                          \
    X(graph_destroy, cuGraphDestroy, (EchCuGraph graph))                                                                                                       \
    X(event_create, cuEventCreate, (EchCuEvent * ret, unsigned flags))                                                                                         \
    X(event_destroy, cuEventDestroy_v2, (EchCuEvent event))                                                                                                    \
    X(event_record, cuEventRecord, (EchCuEvent event, EchCuStream stream))                                                                                     \
    X(event_query, cuEventQuery, (EchCuEvent event))                                                                                                           \
    X(event_synchronize, cuEventSynchronize, (EchCuEvent event))                                                                                               \
    X(event_elapsed, cuEventElapsedTime, (float *ret_ms, EchCuEvent begin, EchCuEvent end))                                                                    \
    X(module_load, cuModuleLoadData, (EchCuModule * ret, const void *image))                                                                                   \
    X(module_unload, cuModuleUnload, (EchCuModule module))                                                                                                     \
    X(module_function, cuModuleGetFunction, (EchCuFunction * ret, EchCuModule module, const char *name))                                                       \
    X(launch, cuLaunchKernel,                                                                                                                                  \
      (EchCuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
       EchCuStream stream, void **parameters, void **extra))                                                                                                   \
    X(error_name, cuGetErrorName, (EchCuResult result, const char **ret))                                                                                      \
    X(granularity, cuMemGetAllocationGranularity, (size_t * ret, const EchCuAllocationProp *prop, EchCuGranularity option))                                    \
    X(address_reserve, cuMemAddressReserve, (EchCuPointer * ret, size_t bytes, size_t alignment, EchCuPointer hint, unsigned long long flags))                 \
    X(address_free, cuMemAddressFree, (EchCuPointer pointer, size_t bytes))                                                                                    \
    X(physical_create, cuMemCreate, (unsigned long long *ret, size_t bytes, const EchCuAllocationProp *prop, unsigned long long flags))                        \
    X(physical_release, cuMemRelease, (unsigned long long handle))                                                                                             \
    X(map, cuMemMap, (EchCuPointer pointer, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags))                                 \
    X(unmap, cuMemUnmap, (EchCuPointer pointer, size_t bytes))                                                                                                 \
    X(set_access, cuMemSetAccess, (EchCuPointer pointer, size_t bytes, const EchCuAccess *access, size_t n))

/* Functions whose absence is no error: NULL in the table. */
#define ECH_CU_OPTIONAL_FUNCTIONS(X) X(device_uuid, cuDeviceGetUuid_v2, (EchCuUuid * ret, EchCuDevice device))

typedef struct {
#define ECH_CU_MEMBER(member, symbol, parameters) EchCuResult(*member) parameters;
    ECH_CU_FUNCTIONS(ECH_CU_MEMBER)
    ECH_CU_OPTIONAL_FUNCTIONS(ECH_CU_MEMBER)
#undef ECH_CU_MEMBER
} EchCuDriver;

/** Facts of an open GPU. */
typedef struct {
    char name[128];
    char uuid[33]; /**< Hexadecimal; "" where the driver cannot say. */
    EchCuDevice device;
    EchCuContext context;
    int driver_version; /**< 13000 for 13.0. */
    size_t total_memory;
    size_t page; /**< What mappings are multiples of; 0: no virtual memory management. */
    int multiprocessors, clock_khz, memory_clock_khz, bus_bits, l2_bytes, async_engines, major, minor, has_pools;
} EchCuGpu;

/** The driver's functions, loaded once; ECH_ERROR_BACKEND says which library or symbol is missing. Borrowed, never unloaded. */
const EchCuDriver *ech_cuda_driver(GError **error);
/** Initialises the driver, retains the primary context of GPU @ordinal and makes it current. ECH_ERROR_BACKEND. */
bool ech_cuda_open(const EchCuDriver *driver, int ordinal, EchCuGpu *ret, GError **error);
/** Releases the context. */
void ech_cuda_close(const EchCuDriver *driver, EchCuGpu *gpu);
/** True on success; otherwise ECH_ERROR_BACKEND "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2) while WHAT", with advice where there is some. @symbol: the
 * driver's name of the function, or the table's member. */
bool ech_cuda_check(const EchCuDriver *driver, EchCuResult result, const char *symbol, const char *what, GError **error);
/** Maps @n pieces of @piece bytes, a multiple of its page, of @gpu's memory, to be read and written there; as PyTorch's growing segments do it: all pieces
 * created, then mapped, then opened together. What was made before a failure is given back. */
bool ech_cuda_map(const EchCuDriver *driver, const EchCuGpu *gpu, size_t piece, size_t n, EchCuMapping *ret, GError **error);
/** Gives all of it back piece by piece, also where a part of that fails. */
bool ech_cuda_unmap(const EchCuDriver *driver, EchCuMapping *mapping, GError **error);
/** Loads our kernels into the current context. */
bool ech_cuda_load_kernels(const EchCuDriver *driver, EchCuModule *ret, GError **error);
/** Opens the first of @names (NULL-terminated sonames) that is found: as the dynamic linker finds it, else in the folders where toolkits and Python wheels put
 * their libraries (CUDA_HOME, CUDA_PATH, /usr/local/cuda*, the site-packages of VIRTUAL_ENV, of the first python3 of PATH, of the user and the system).
 * NULL: none; @ret_why then says why, to be freed. Never closed. */
void *ech_cuda_open_library(const char *const *names, char **ret_why);
/** PTX of our kernels (cuda_kernels.cu), NUL-terminated. */
extern const char ech_cuda_kernels_ptx[];
