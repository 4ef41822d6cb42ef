/* The CUDA driver's names, for those who open libcuda.so.1 themselves: Triton, PyTorch's expandable segments, kernels compiled at run time. Memory, streams and
 * launches are the runtime's. */
#include "pretend.h"
#include "ptx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    PEER_ACCESS_UNSUPPORTED = 217,
    FILE_NOT_FOUND = 301,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801
};
#define PAGE ((uint64_t)2 << 20)

/* Of each device there is one; its place stands for it. */
static int contexts[PRETEND_DEVICES];
static __thread int stack[64], depth; /* devices of contexts that others were pushed upon */

static void *context_of(int device)
{
    return &contexts[(unsigned)device % (sizeof contexts / sizeof *contexts)];
}

static void *current_context(void)
{
    return context_of(pretend_current_device());
}

/* One that is none of ours changes nothing. */
static int use_context(void *context)
{
    for (uint32_t i = 0; i < pretend_device()->devices; i++)
        if (context_of((int)i) == context)
            return cudaSetDevice((int)i);
    return SUCCESS;
}

/* ---- devices and contexts ---- */

PRETEND_EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    int n;
    return cudaGetDeviceCount(&n); /* they stay from now on */
}

/* Of a program that has no runtime of CUDA (yet) the newest: Warp wants a driver of 13 before it loads anything. */
PRETEND_EXPORT int cuDriverGetVersion(int *ret)
{
    int runtime = pretend_runtime_version();
    *ret = runtime > 12000 ? runtime : 13000;
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceGet(int *ret, int ordinal)
{
    int n;
    cudaGetDeviceCount(&n);
    if (ordinal < 0 || ordinal >= n)
        return 101; /* CUDA_ERROR_INVALID_DEVICE */
    *ret = ordinal;
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceGetCount(int *ret)
{
    return cudaGetDeviceCount(ret);
}

PRETEND_EXPORT int cuDeviceGetName(char *ret, int room, int device)
{
    (void)device;
    snprintf(ret, (size_t)room, "%s", pretend_device()->name);
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceGetUuid(uint8_t *ret, int device)
{
    memset(ret, 0, 16);
    ret[0] = (uint8_t)(pretend_on_host(device) + 1);
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceGetUuid_v2(uint8_t *ret, int device)
{
    return cuDeviceGetUuid(ret, device);
}

PRETEND_EXPORT int cuDeviceGetPCIBusId(char *ret, int room, int device)
{
    return cudaDeviceGetPCIBusId(ret, room, device);
}

PRETEND_EXPORT int cuDeviceGetByPCIBusId(int *ret, const char *bus)
{
    return cudaDeviceGetByPCIBusId(ret, bus);
}

PRETEND_EXPORT int cuDeviceComputeCapability(int *ret_major, int *ret_minor, int device)
{
    (void)device;
    *ret_major = (int)pretend_device()->major;
    *ret_minor = (int)pretend_device()->minor;
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceTotalMem_v2(size_t *ret, int device)
{
    (void)device;
    *ret = pretend_device()->bytes;
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceGetAttribute(int *ret, int attribute, int device)
{
    return cudaDeviceGetAttribute(ret, attribute, device);
}

PRETEND_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active)
{
    (void)device;
    *ret_flags = 0;
    *ret_active = 1;
    return SUCCESS;
}

PRETEND_EXPORT int cuDevicePrimaryCtxRetain(void **ret, int device)
{
    *ret = context_of(device);
    return SUCCESS;
}

PRETEND_EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
    (void)device, (void)flags;
    return SUCCESS;
}

PRETEND_EXPORT int cuDevicePrimaryCtxRelease(int device)
{
    (void)device;
    return SUCCESS;
}

PRETEND_EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return SUCCESS;
}

PRETEND_EXPORT int cuCtxGetCurrent(void **ret)
{
    *ret = current_context();
    return SUCCESS;
}

PRETEND_EXPORT int cuCtxSetCurrent(void *context)
{
    return use_context(context);
}

PRETEND_EXPORT int cuCtxPushCurrent(void *context)
{
    if (depth < (int)(sizeof stack / sizeof *stack))
        stack[depth] = pretend_current_device();
    depth++;
    return use_context(context);
}

PRETEND_EXPORT int cuCtxPushCurrent_v2(void *context)
{
    return cuCtxPushCurrent(context);
}

PRETEND_EXPORT int cuCtxPopCurrent(void **ret)
{
    if (ret)
        *ret = current_context();
    if (depth > 0 && --depth < (int)(sizeof stack / sizeof *stack))
        return cudaSetDevice(stack[depth]);
    return SUCCESS;
}

PRETEND_EXPORT int cuCtxPopCurrent_v2(void **ret)
{
    return cuCtxPopCurrent(ret);
}

/* A context of the program's own is its device's, and on top of the others until it is destroyed. */
PRETEND_EXPORT int cuCtxCreate_v2(void **ret, unsigned flags, int device)
{
    (void)flags;
    int n;
    cudaGetDeviceCount(&n);
    if (device < 0 || device >= n)
        return 101;
    *ret = context_of(device);
    return cuCtxPushCurrent(*ret);
}

PRETEND_EXPORT int cuCtxCreate_v3(void **ret, void *affinities, int n, unsigned flags, int device)
{
    (void)affinities, (void)n;
    return cuCtxCreate_v2(ret, flags, device);
}

PRETEND_EXPORT int cuCtxCreate_v4(void **ret, void *how, unsigned flags, int device)
{
    (void)how;
    return cuCtxCreate_v2(ret, flags, device);
}

PRETEND_EXPORT int cuCtxDestroy_v2(void *context)
{
    return context == current_context() ? cuCtxPopCurrent(NULL) : SUCCESS;
}

PRETEND_EXPORT int cuCtxGetFlags(unsigned *ret)
{
    *ret = 0;
    return SUCCESS;
}

PRETEND_EXPORT int cuCtxGetDevice(int *ret)
{
    *ret = pretend_current_device();
    return SUCCESS;
}

/* A device's context reaches another's; it never ceases to. */
PRETEND_EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    (void)flags;
    if (!pretend_reaches_peers())
        return PEER_ACCESS_UNSUPPORTED;
    for (int i = 0; i < PRETEND_DEVICES; i++)
        if (context_of(i) == context)
            pretend_reach(pretend_current_device(), i);
    return SUCCESS;
}

PRETEND_EXPORT int cuCtxDisablePeerAccess(void *context)
{
    (void)context;
    return SUCCESS;
}

PRETEND_EXPORT int cuDeviceCanAccessPeer(int *ret, int device, int peer)
{
    return cudaDeviceCanAccessPeer(ret, device, peer);
}

PRETEND_EXPORT int cuDeviceGetP2PAttribute(int *ret, int attribute, int source, int target)
{
    return cudaDeviceGetP2PAttribute(ret, attribute, source, target);
}

PRETEND_EXPORT int cuCtxSynchronize(void)
{
    return cudaDeviceSynchronize();
}

PRETEND_EXPORT int cuCtxGetLimit(size_t *ret, int limit)
{
    return cudaDeviceGetLimit(ret, limit);
}

PRETEND_EXPORT int cuCtxSetLimit(int limit, size_t value)
{
    (void)limit, (void)value;
    return SUCCESS;
}

PRETEND_EXPORT int cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    return cudaDeviceGetStreamPriorityRange(ret_least, ret_greatest);
}

PRETEND_EXPORT int cuProfilerStart(void)
{
    return SUCCESS;
}

PRETEND_EXPORT int cuProfilerStop(void)
{
    return SUCCESS;
}

PRETEND_EXPORT int cuLogsRegisterCallback(void)
{
    return SUCCESS;
}

PRETEND_EXPORT int cuLogsUnregisterCallback(void)
{
    return SUCCESS;
}

PRETEND_EXPORT int cuGetErrorString(int error, const char **ret)
{
    *ret = cudaGetErrorString(error);
    return SUCCESS;
}

PRETEND_EXPORT int cuGetErrorName(int error, const char **ret)
{
    switch (error) {
    case SUCCESS: *ret = "CUDA_SUCCESS"; break;
    case INVALID_VALUE: *ret = "CUDA_ERROR_INVALID_VALUE"; break;
    case OUT_OF_MEMORY: *ret = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case NOT_FOUND: *ret = "CUDA_ERROR_NOT_FOUND"; break;
    case PEER_ACCESS_UNSUPPORTED: *ret = "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"; break;
    case NOT_SUPPORTED: *ret = "CUDA_ERROR_NOT_SUPPORTED"; break;
    default: *ret = "CUDA_ERROR_UNKNOWN"; break;
    }
    return SUCCESS;
}

/* ---- memory ---- */

/* CUmemAllocationProp and CUmemPoolProps begin alike. */
typedef struct {
    int type, handle_types;
    struct {
        int type, id;
    } location;
} AllocationProperties;

PRETEND_EXPORT int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    return cudaMemGetInfo(ret_free, ret_total);
}

PRETEND_EXPORT int cuMemAlloc_v2(void **ret, size_t bytes)
{
    return cudaMalloc(ret, bytes);
}

PRETEND_EXPORT int cuMemFree_v2(void *address)
{
    return cudaFree(address);
}

PRETEND_EXPORT int cuMemAllocHost_v2(void **ret, size_t bytes)
{
    return cudaMallocHost(ret, bytes);
}

PRETEND_EXPORT int cuMemFreeHost(void *address)
{
    return cudaFreeHost(address);
}

PRETEND_EXPORT int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    return cudaHostAlloc(ret, bytes, flags);
}

PRETEND_EXPORT int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    return cudaHostRegister(address, bytes, flags);
}

PRETEND_EXPORT int cuMemHostUnregister(void *address)
{
    return cudaHostUnregister(address);
}

PRETEND_EXPORT int cuMemHostGetDevicePointer_v2(void **ret, void *host, unsigned flags)
{
    return cudaHostGetDevicePointer(ret, host, flags);
}

PRETEND_EXPORT int cuMemAllocManaged(void **ret, size_t bytes, unsigned flags)
{
    return cudaMallocManaged(ret, bytes, flags);
}

PRETEND_EXPORT int cuMemPrefetchAsync(const void *address, size_t bytes, int device, void *stream)
{
    return pretend_prefetch(address, bytes, device >= 0, stream) ? SUCCESS : INVALID_VALUE;
}

PRETEND_EXPORT int cuMemPrefetchAsync_v2(const void *address, size_t bytes, uint64_t location, unsigned flags, void *stream)
{
    return cudaMemPrefetchAsync_v2(address, bytes, location, flags, stream);
}

PRETEND_EXPORT int cuMemAdvise(const void *address, size_t bytes, int advice, int device)
{
    return pretend_advise(address, bytes, advice, device >= 0) ? SUCCESS : INVALID_VALUE;
}

PRETEND_EXPORT int cuMemAdvise_v2(const void *address, size_t bytes, int advice, uint64_t location)
{
    return cudaMemAdvise_v2(address, bytes, advice, location);
}

PRETEND_EXPORT int cuDeviceGetDefaultMemPool(void **ret, int device)
{
    return cudaDeviceGetDefaultMemPool(ret, device);
}

PRETEND_EXPORT int cuDeviceGetMemPool(void **ret, int device)
{
    return cudaDeviceGetMemPool(ret, device);
}

/* Ours keep nothing, whatever they were told: XLA and TensorFlow, which ask here, take as much as that at once when they begin, and give it back. */
PRETEND_EXPORT int cuMemPoolGetAttribute(void *pool, int attribute, void *ret)
{
    enum { POOL_KEEPS = 4 };
    if (attribute != POOL_KEEPS)
        return cudaMemPoolGetAttribute(pool, attribute, ret);
    memset(ret, 0, sizeof(uint64_t));
    return SUCCESS;
}

PRETEND_EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    return cudaMemPoolSetAttribute(pool, attribute, value);
}

PRETEND_EXPORT int cuMemPoolSetAccess(void *pool, const void *access, size_t n)
{
    return cudaMemPoolSetAccess(pool, access, n);
}

PRETEND_EXPORT int cuMemPoolTrimTo(void *pool, size_t keep)
{
    return cudaMemPoolTrimTo(pool, keep);
}

PRETEND_EXPORT int cuMemAllocAsync(void **ret, size_t bytes, void *stream)
{
    return cudaMallocAsync(ret, bytes, stream);
}

PRETEND_EXPORT int cuMemAllocFromPoolAsync(void **ret, size_t bytes, void *pool, void *stream)
{
    (void)pool;
    return cudaMallocAsync(ret, bytes, stream);
}

PRETEND_EXPORT int cuMemPoolCreate(void **ret, const AllocationProperties *properties)
{
    return cudaDeviceGetDefaultMemPool(ret, properties->location.id);
}

PRETEND_EXPORT int cuMemPoolDestroy(void *pool)
{
    (void)pool;
    return SUCCESS;
}

PRETEND_EXPORT int cuMemFreeAsync(void *address, void *stream)
{
    return cudaFreeAsync(address, stream);
}

PRETEND_EXPORT int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes)
{
    return cudaMemcpy(to, from, bytes, 4);
}

PRETEND_EXPORT int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes)
{
    return cudaMemcpy(to, from, bytes, 4);
}

PRETEND_EXPORT int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, 4, stream);
}

PRETEND_EXPORT int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, 4, stream);
}

PRETEND_EXPORT int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, 4, stream);
}

PRETEND_EXPORT int cuMemcpyDtoD_v2(void *to, const void *from, size_t bytes)
{
    return cudaMemcpy(to, from, bytes, 4);
}

PRETEND_EXPORT int cuMemcpyPeerAsync(void *to, void *to_context, const void *from, void *from_context, size_t bytes, void *stream)
{
    (void)to_context, (void)from_context;
    return cudaMemcpyAsync(to, from, bytes, 4, stream);
}

PRETEND_EXPORT int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, 4, stream);
}

PRETEND_EXPORT int cuMemcpy(void *to, const void *from, size_t bytes)
{
    return cudaMemcpy(to, from, bytes, 4);
}

PRETEND_EXPORT int cuMemcpyPeer(void *to, void *to_context, const void *from, void *from_context, size_t bytes)
{
    (void)to_context, (void)from_context;
    return cudaMemcpy(to, from, bytes, 4);
}

PRETEND_EXPORT int cuMemcpyBatchAsync_v2(void *const *to, const void *const *from, const size_t *bytes, size_t n, void *attributes, size_t *first_with,
                                         size_t n_attributes, void *stream)
{
    (void)attributes, (void)first_with, (void)n_attributes;
    for (size_t i = 0; i < n; i++)
        pretend_copy(to[i], from[i], bytes[i], stream, i == 0 ? PRETEND_ASYNC : PRETEND_BATCHED);
    return SUCCESS;
}

PRETEND_EXPORT int cuMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes, size_t n, void *attributes, size_t *first_with,
                                      size_t n_attributes, size_t *failed, void *stream)
{
    (void)failed;
    return cuMemcpyBatchAsync_v2(to, from, bytes, n, attributes, first_with, n_attributes, stream);
}

PRETEND_EXPORT int cuMemsetD8Async(void *to, unsigned char value, size_t n, void *stream)
{
    return cudaMemsetAsync(to, value, n, stream);
}

/* A value of unlike bytes is written as zeros, as results are. */
PRETEND_EXPORT int cuMemsetD32Async(void *to, unsigned value, size_t n, void *stream)
{
    return cudaMemsetAsync(to, value == (value & 0xff) * 0x01010101u ? (int)(value & 0xff) : 0, 4 * n, stream);
}

PRETEND_EXPORT int cuMemsetD16Async(void *to, unsigned short value, size_t n, void *stream)
{
    return cudaMemsetAsync(to, value == (value & 0xff) * 0x0101 ? value & 0xff : 0, 2 * n, stream);
}

PRETEND_EXPORT int cuMemsetD16_v2(void *to, unsigned short value, size_t n)
{
    return cuMemsetD16Async(to, value, n, NULL);
}

PRETEND_EXPORT int cuMemsetD8_v2(void *to, unsigned char value, size_t n)
{
    return cuMemsetD8Async(to, value, n, NULL);
}

PRETEND_EXPORT int cuMemsetD32_v2(void *to, unsigned value, size_t n)
{
    return cuMemsetD32Async(to, value, n, NULL);
}

/* Addresses, sizes, handles and numbers of blocks have 8 bytes, all else has 4. */
static size_t attribute_bytes(int attribute)
{
    static const bool wide[] = {[1] = true, [3] = true, [4] = true, [7] = true, [11] = true, [12] = true, [17] = true, [18] = true, [19] = true, [20] = true};
    return attribute >= 0 && (size_t)attribute < sizeof wide / sizeof *wide && wide[attribute] ? 8 : 4;
}

/* CUpointer_attribute: 2 memory type (1 host, 2 device), 3 and 4 addresses, 7 number of the block, 8 managed, 9 device, 11 and 12 the block. */
PRETEND_EXPORT int cuPointerGetAttribute(void *ret, int attribute, void *address)
{
    PretendBlock block;
    if (!pretend_find(address, &block))
        return INVALID_VALUE;
    bool on_device = block.kind == PRETEND_DEVICE || block.kind == PRETEND_MANAGED;
    uint64_t value = 0;
    switch (attribute) {
    case 1: value = (uint64_t)context_of(block.device); break;
    case 2: value = on_device ? 2 : 1; break;
    case 3:
    case 4: value = (uint64_t)address; break;
    case 7:
    case 11: value = block.address; break;
    case 8: value = block.kind == PRETEND_MANAGED; break;
    case 9: value = (uint64_t)block.device; break;
    case 12: value = block.bytes; break;
    default: break; /* what a block may be used for: none of it; nor is it of a pool's */
    }
    memcpy(ret, &value, attribute_bytes(attribute));
    return SUCCESS;
}

PRETEND_EXPORT int cuPointerGetAttributes(unsigned n, const int *attributes, void **ret, void *address)
{
    for (unsigned i = 0; i < n; i++) {
        if (cuPointerGetAttribute(ret[i], attributes[i], address) != SUCCESS)
            memset(ret[i], 0, attribute_bytes(attributes[i]));
    }
    return SUCCESS;
}

PRETEND_EXPORT int cuMemGetAddressRange_v2(void **ret, size_t *ret_bytes, void *address)
{
    PretendBlock block;
    if (!pretend_find(address, &block))
        return NOT_FOUND;
    if (ret)
        *ret = (void *)block.address;
    if (ret_bytes)
        *ret_bytes = block.bytes;
    return SUCCESS;
}

/* ---- addresses and memory apart (PyTorch: expandable_segments) ---- */

/* Memory of cuMemCreate: it is taken until it is released and mapped nowhere. */
typedef struct {
    uint64_t bytes;
    int device;
    unsigned uses; /* the handle, and each mapping */
} Memory;

typedef struct {
    uint64_t address, bytes;
    Memory *memory;
} Mapping;

static Mapping *mappings;
static size_t n_mappings, mapping_room;

static void let_go(Memory *memory)
{
    if (--memory->uses > 0)
        return;
    pretend_give_bytes(memory->device, memory->bytes);
    free(memory);
}

PRETEND_EXPORT int cuMemGetAllocationGranularity(size_t *ret, const AllocationProperties *properties, int option)
{
    (void)properties, (void)option;
    *ret = PAGE;
    return SUCCESS;
}

PRETEND_EXPORT int cuMemAddressReserve(void **ret, size_t bytes, size_t align, void *wanted, unsigned long long flags)
{
    (void)wanted, (void)flags;
    *ret = pretend_reserve(bytes, align);
    return *ret ? SUCCESS : OUT_OF_MEMORY;
}

PRETEND_EXPORT int cuMemAddressFree(void *address, size_t bytes)
{
    pretend_unreserve(address, bytes);
    return SUCCESS;
}

PRETEND_EXPORT int cuMemCreate(void **ret, size_t bytes, const AllocationProperties *properties, unsigned long long flags)
{
    (void)flags;
    int device = properties ? properties->location.id : pretend_current_device();
    if (bytes == 0 || bytes % PAGE != 0)
        return INVALID_VALUE;
    if (!pretend_take_bytes(device, bytes)) {
        pretend_event("refused", "%d 0 %zu", device, bytes);
        return OUT_OF_MEMORY;
    }
    Memory *memory = malloc(sizeof *memory);
    if (!memory) {
        pretend_give_bytes(device, bytes);
        return OUT_OF_MEMORY;
    }
    *memory = (Memory){.bytes = bytes, .device = device, .uses = 1};
    *ret = memory;
    return SUCCESS;
}

PRETEND_EXPORT int cuMemRelease(void *handle)
{
    pretend_lock();
    let_go(handle);
    pretend_unlock();
    return SUCCESS;
}

PRETEND_EXPORT int cuMemMap(void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags)
{
    (void)offset, (void)flags;
    Memory *memory = handle;
    pretend_lock();
    if (n_mappings == mapping_room) {
        size_t room = mapping_room ? 2 * mapping_room : 256;
        Mapping *larger = realloc(mappings, room * sizeof *larger);
        if (larger) {
            mappings = larger;
            mapping_room = room;
        }
    }
    bool mapped = n_mappings < mapping_room && pretend_map(address, bytes, memory->device);
    if (mapped) {
        mappings[n_mappings++] = (Mapping){(uint64_t)address, bytes, memory};
        memory->uses++;
    }
    pretend_unlock();
    return mapped ? SUCCESS : INVALID_VALUE;
}

PRETEND_EXPORT int cuMemSetAccess(void *address, size_t bytes, const void *access, size_t n)
{
    (void)address, (void)bytes, (void)access;
    if (n > 1 && pretend_reaches_peers())
        pretend_reach(-1, -1);
    return SUCCESS;
}

PRETEND_EXPORT int cuMemUnmap(void *address, size_t bytes)
{
    pretend_lock();
    pretend_unmap(address, bytes);
    for (size_t i = 0; i < n_mappings;) {
        if (mappings[i].address >= (uint64_t)address && mappings[i].address < (uint64_t)address + bytes) {
            let_go(mappings[i].memory);
            mappings[i] = mappings[--n_mappings];
        } else {
            i++;
        }
    }
    pretend_unlock();
    return SUCCESS;
}

/* ---- streams and events ---- */

PRETEND_EXPORT int cuStreamCreate(void **ret, unsigned flags)
{
    return cudaStreamCreateWithFlags(ret, flags);
}

PRETEND_EXPORT int cuStreamCreateWithPriority(void **ret, unsigned flags, int priority)
{
    return cudaStreamCreateWithPriority(ret, flags, priority);
}

PRETEND_EXPORT int cuStreamDestroy_v2(void *stream)
{
    return cudaStreamDestroy(stream);
}

PRETEND_EXPORT int cuStreamSynchronize(void *stream)
{
    return cudaStreamSynchronize(stream);
}

PRETEND_EXPORT int cuStreamQuery(void *stream)
{
    return cudaStreamQuery(stream);
}

PRETEND_EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return cudaStreamWaitEvent(stream, event, flags);
}

PRETEND_EXPORT int cuStreamGetPriority(void *stream, int *ret)
{
    return cudaStreamGetPriority(stream, ret);
}

PRETEND_EXPORT int cuStreamGetFlags(void *stream, unsigned *ret)
{
    return cudaStreamGetFlags(stream, ret);
}

PRETEND_EXPORT int cuStreamGetId(void *stream, unsigned long long *ret)
{
    return cudaStreamGetId(stream, ret);
}

PRETEND_EXPORT int cuStreamGetDevice(void *stream, int *ret)
{
    *ret = pretend_stream_device(stream);
    return SUCCESS;
}

PRETEND_EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    return cudaLaunchHostFunc(stream, function, data);
}

PRETEND_EXPORT int cuStreamAddCallback(void *stream, void (*callback)(void *, int, void *), void *data, unsigned flags)
{
    return cudaStreamAddCallback(stream, callback, data, flags);
}

PRETEND_EXPORT int cuStreamIsCapturing(void *stream, int *ret)
{
    return cudaStreamIsCapturing(stream, ret);
}

PRETEND_EXPORT int cuStreamGetCtx(void *stream, void **ret)
{
    *ret = context_of(pretend_stream_device(stream));
    return SUCCESS;
}

PRETEND_EXPORT int cuEventCreate(void **ret, unsigned flags)
{
    return cudaEventCreateWithFlags(ret, flags);
}

PRETEND_EXPORT int cuEventDestroy_v2(void *event)
{
    return cudaEventDestroy(event);
}

PRETEND_EXPORT int cuEventRecord(void *event, void *stream)
{
    return cudaEventRecord(event, stream);
}

PRETEND_EXPORT int cuEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    (void)flags;
    return cudaEventRecord(event, stream);
}

PRETEND_EXPORT int cuEventQuery(void *event)
{
    return cudaEventQuery(event);
}

PRETEND_EXPORT int cuEventSynchronize(void *event)
{
    return cudaEventSynchronize(event);
}

PRETEND_EXPORT int cuEventElapsedTime_v2(float *ret, void *begin, void *end)
{
    return cudaEventElapsedTime(ret, begin, end);
}

PRETEND_EXPORT int cuEventElapsedTime(float *ret, void *begin, void *end)
{
    return cudaEventElapsedTime(ret, begin, end);
}

/* ---- kernels compiled at run time: a function is its name ---- */

/* A module is what its code says. */
static int new_module(void **ret, const void *image)
{
    *ret = pretend_code_of_image(image);
    return *ret ? SUCCESS : OUT_OF_MEMORY;
}

static int new_function(void **ret, void *loaded, const char *name)
{
    char *kept = strdup(name);
    if (!kept)
        return OUT_OF_MEMORY;
    pretend_register_kernel(kept, kept, loaded);
    *ret = kept;
    return SUCCESS;
}

PRETEND_EXPORT int cuModuleLoad(void **ret, const char *path)
{
    *ret = pretend_code_of_file(path);
    return *ret ? SUCCESS : FILE_NOT_FOUND;
}

PRETEND_EXPORT int cuModuleLoadData(void **ret, const void *image)
{
    return new_module(ret, image);
}

PRETEND_EXPORT int cuModuleLoadFatBinary(void **ret, const void *image)
{
    return new_module(ret, image);
}

/* A module's variable takes memory of the device beside the program's allocator, as long as the process runs. */
PRETEND_EXPORT int cuModuleGetGlobal_v2(void **ret, size_t *ret_bytes, void *loaded, const char *name)
{
    uint64_t bytes;
    void *address = pretend_code_variable(loaded, name, &bytes);
    if (bytes == 0)
        return NOT_FOUND;
    if (!address)
        return OUT_OF_MEMORY;
    if (ret)
        *ret = address;
    if (ret_bytes)
        *ret_bytes = bytes;
    return SUCCESS;
}

PRETEND_EXPORT int cuModuleLoadDataEx(void **ret, const void *image, unsigned n, const void *options, void **values)
{
    (void)n, (void)options, (void)values;
    return new_module(ret, image);
}

PRETEND_EXPORT int cuModuleUnload(void *unloaded)
{
    (void)unloaded;
    return SUCCESS;
}

PRETEND_EXPORT int cuModuleGetFunction(void **ret, void *loaded, const char *name)
{
    return new_function(ret, loaded, name);
}

PRETEND_EXPORT int cuLibraryLoadData(void **ret, const void *image)
{
    return new_module(ret, image);
}

PRETEND_EXPORT int cuLibraryLoadFromFile(void **ret, const char *path)
{
    return cuModuleLoad(ret, path);
}

PRETEND_EXPORT int cuLibraryUnload(void *library)
{
    (void)library;
    return SUCCESS;
}

PRETEND_EXPORT int cuLibraryGetKernel(void **ret, void *library, const char *name)
{
    return new_function(ret, library, name);
}

PRETEND_EXPORT int cuLibraryGetKernelCount(unsigned *ret, void *library)
{
    *ret = (unsigned)pretend_code_kernels(library, NULL, 0);
    return SUCCESS;
}

/* The first @room of them; DeepGEMM takes the only one of what it has compiled so. */
PRETEND_EXPORT int cuLibraryEnumerateKernels(void **ret, unsigned room, void *library)
{
    const char **names = calloc(room > 0 ? room : 1, sizeof *names);
    if (!names)
        return OUT_OF_MEMORY;
    size_t n = pretend_code_kernels(library, names, room);
    int error = SUCCESS;
    for (size_t i = 0; i < n && i < room && error == SUCCESS; i++)
        error = new_function(&ret[i], library, names[i]);
    free(names);
    return error;
}

PRETEND_EXPORT int cuModuleGetFunctionCount(unsigned *ret, void *loaded)
{
    return cuLibraryGetKernelCount(ret, loaded);
}

PRETEND_EXPORT int cuModuleEnumerateFunctions(void **ret, unsigned room, void *loaded)
{
    return cuLibraryEnumerateKernels(ret, room, loaded);
}

PRETEND_EXPORT int cudaLibraryGetKernelCount(unsigned *ret, void *library)
{
    return cuLibraryGetKernelCount(ret, library);
}

PRETEND_EXPORT int cudaLibraryEnumerateKernels(void **ret, unsigned room, void *library)
{
    return cuLibraryEnumerateKernels(ret, room, library);
}

PRETEND_EXPORT int cuKernelGetFunction(void **ret, void *kernel)
{
    *ret = kernel;
    return SUCCESS;
}

PRETEND_EXPORT int cudaLibraryLoadData(void **ret, const void *image)
{
    return cuModuleLoadData(ret, image);
}

PRETEND_EXPORT int cudaLibraryLoadFromFile(void **ret, const char *path)
{
    return cuModuleLoad(ret, path);
}

PRETEND_EXPORT int cudaLibraryUnload(void *library)
{
    return cuLibraryUnload(library);
}

PRETEND_EXPORT int cudaLibraryGetKernel(void **ret, void *library, const char *name)
{
    return cuLibraryGetKernel(ret, library, name);
}

PRETEND_EXPORT int cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device)
{
    (void)kernel, (void)attribute, (void)value, (void)device;
    return SUCCESS;
}

PRETEND_EXPORT int cuFuncGetName(const char **ret, void *function)
{
    return cudaFuncGetName(ret, function);
}

PRETEND_EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *ret_offset, size_t *ret_size)
{
    return cudaFuncGetParamInfo(function, index, ret_offset, ret_size);
}

PRETEND_EXPORT int cuKernelGetParamInfo(void *kernel, size_t index, size_t *ret_offset, size_t *ret_size)
{
    return cudaFuncGetParamInfo(kernel, index, ret_offset, ret_size);
}

PRETEND_EXPORT int cuKernelGetParamCount(void *kernel, size_t *ret)
{
    return cudaFuncGetParamCount(kernel, ret);
}

PRETEND_EXPORT int cuKernelGetName(const char **ret, void *kernel)
{
    return cudaFuncGetName(ret, kernel);
}

PRETEND_EXPORT int cuFuncSetAttribute(void *function, int attribute, int value)
{
    return cudaFuncSetAttribute(function, attribute, value); /* CUfunction_attribute numbers it alike */
}

PRETEND_EXPORT int cuFuncSetCacheConfig(void *function, int config)
{
    (void)function, (void)config;
    return SUCCESS;
}

/* CUfunction_attribute, in the order of cudaFuncAttributes. */
PRETEND_EXPORT int cuFuncGetAttribute(int *ret, int attribute, void *function)
{
    PretendFunctionAttributes a;
    int error = cudaFuncGetAttributes(&a, function);
    if (error != SUCCESS)
        return error;
    const int values[] = {a.threads, (int)a.shared, (int)a.constant, (int)a.local, a.registers, a.ptx, a.binary, a.cache, a.dynamic_shared};
    *ret = attribute >= 0 && (size_t)attribute < sizeof values / sizeof *values ? values[attribute] : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cuKernelGetAttribute(int *ret, int attribute, void *kernel, int device)
{
    (void)device;
    return cuFuncGetAttribute(ret, attribute, kernel);
}

PRETEND_EXPORT int cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
    (void)device;
    return cuFuncSetAttribute(kernel, attribute, value);
}

typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream;
    const void *attributes;
    unsigned n_attributes;
} DriverLaunch;

PRETEND_EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                                  void **parameters, void **extra)
{
    (void)extra;
    return cudaLaunchKernel(function, (PretendDim){gx, gy, gz}, (PretendDim){bx, by, bz}, parameters, shared, stream);
}

PRETEND_EXPORT int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                             void *stream, void **parameters)
{
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, NULL);
}

PRETEND_EXPORT int cuLaunchKernelEx(const DriverLaunch *l, void *function, void **parameters, void **extra)
{
    return cuLaunchKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared, l->stream, parameters, extra);
}

PRETEND_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, void *function, int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(ret, function, threads, shared);
}

PRETEND_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, void *function, int threads, size_t shared, unsigned flags)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret, function, threads, shared, flags);
}

/* As many as there are multiprocessors: clusters of one block. */
PRETEND_EXPORT int cuOccupancyMaxActiveClusters(int *ret, void *function, const DriverLaunch *launch)
{
    (void)function, (void)launch;
    *ret = (int)pretend_device()->multiprocessors;
    return SUCCESS;
}

/* A descriptor of a tensor is only for the kernel, which it is a parameter of: 128 bytes, which are @tensor here. */
static int describe(void *ret, const PtxTensor *tensor)
{
    enum { DESCRIPTOR_BYTES = 128 };
    memset(ret, 0, DESCRIPTOR_BYTES);
    memcpy(ret, tensor, sizeof *tensor);
    return SUCCESS;
}

PRETEND_EXPORT int cuTensorMapEncodeTiled(void *ret, int type, unsigned rank, const void *address, const uint64_t *sizes, const uint64_t *apart,
                                          const uint32_t *box)
{
    static const uint8_t bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6}; /* CUtensorMapDataType */
    PtxTensor tensor = {.address = (uint64_t)(uintptr_t)address};
    if (rank < 1 || rank > 5 || type < 0 || (size_t)type >= sizeof bits)
        return INVALID_VALUE;
    tensor.dimensions = (uint8_t)rank;
    tensor.bits = bits[type];
    for (unsigned i = 0; i < rank; i++) {
        tensor.sizes[i] = sizes[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)sizes[i];
        tensor.box[i] = box[i];
        if (i > 0)
            tensor.apart[i - 1] = apart[i - 1];
    }
    return describe(ret, &tensor);
}

PRETEND_EXPORT int cuTensorMapEncodeIm2col(void *ret, int type, unsigned rank, const void *address)
{
    (void)type, (void)rank;
    return describe(ret, &(PtxTensor){.address = (uint64_t)(uintptr_t)address});
}

PRETEND_EXPORT int cuTensorMapEncodeIm2colWide(void *ret, int type, unsigned rank, const void *address)
{
    return cuTensorMapEncodeIm2col(ret, type, rank, address);
}

PRETEND_EXPORT int cuTensorMapReplaceAddress(void *map, const void *address)
{
    memcpy(map, &address, sizeof address);
    return SUCCESS;
}
