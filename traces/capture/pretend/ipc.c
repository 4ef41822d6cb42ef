/* Memory that processes hand to one another (cudaIpc...): another's, on its own device, at addresses of this process. It takes nothing of this process's
 * devices. */
#include "pretend.h"

#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };

/* What a handle's 64 bytes hold here. */
typedef union {
    struct {
        uint64_t address, bytes;
        int64_t process;
        int device; /* as that process counts */
    };
    char handle[64];
} Handed;

PRETEND_EXPORT int cudaIpcGetMemHandle(Handed *ret, void *address)
{
    PretendBlock block;
    if (!pretend_find(address, &block) || block.kind != PRETEND_DEVICE)
        return pretend_fail(INVALID_VALUE);
    *ret = (Handed){.address = block.address, .bytes = block.bytes, .process = getpid(), .device = block.device};
    return SUCCESS;
}

/* @handed's process need not be there any more: nothing is read. */
PRETEND_EXPORT int cudaIpcOpenMemHandle(void **ret, Handed handed, unsigned flags)
{
    (void)flags;
    if (handed.process == getpid())
        return pretend_fail(INVALID_VALUE);
    uint32_t devices = pretend_device()->devices;
    *ret = pretend_see(handed.bytes, (uint32_t)handed.device < devices ? handed.device : pretend_current_device());
    return *ret ? SUCCESS : pretend_fail(OUT_OF_MEMORY);
}

/* The addresses stay reserved: how many there are is not said. */
PRETEND_EXPORT int cudaIpcCloseMemHandle(void *address)
{
    (void)address;
    return SUCCESS;
}

PRETEND_EXPORT int cuIpcGetMemHandle(Handed *ret, void *address)
{
    return cudaIpcGetMemHandle(ret, address);
}

PRETEND_EXPORT int cuIpcOpenMemHandle_v2(void **ret, Handed handed, unsigned flags)
{
    return cudaIpcOpenMemHandle(ret, handed, flags);
}

PRETEND_EXPORT int cuIpcCloseMemHandle(void *address)
{
    return cudaIpcCloseMemHandle(address);
}
