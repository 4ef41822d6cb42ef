/* Memory that processes hand to one another (cudaIpc...): another's, on its own device, at addresses of this process. It takes nothing of this process's
 * devices. And events, of which this process knows no more than that they are over. */
#include "pretend.h"

#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };

/* What a handle's 64 bytes hold here. */
typedef union {
    struct {
        uint64_t address, bytes;
        int64_t process;
        int device; /* as the host counts */
    };
    char handle[64];
} Handed;

PRETEND_EXPORT int cudaIpcGetMemHandle(Handed *ret, void *address)
{
    PretendBlock block;
    if (!pretend_find(address, &block) || block.kind != PRETEND_DEVICE)
        return pretend_fail(INVALID_VALUE);
    *ret = (Handed){.address = block.address, .bytes = block.bytes, .process = getpid(), .device = pretend_on_host(block.device)};
    return SUCCESS;
}

/* @handed's process need not be there any more: nothing is read. */
PRETEND_EXPORT int cudaIpcOpenMemHandle(void **ret, Handed handed, unsigned flags)
{
    (void)flags;
    if (handed.process == getpid())
        return pretend_fail(INVALID_VALUE);
    int device = (int)pretend_device()->devices - 1;
    while (device >= 0 && pretend_on_host(device) != handed.device)
        device--;
    *ret = pretend_see(handed.bytes, device >= 0 ? device : pretend_current_device());
    return *ret ? SUCCESS : pretend_fail(OUT_OF_MEMORY);
}

/* The addresses stay reserved: how many there are is not said. */
PRETEND_EXPORT int cudaIpcCloseMemHandle(void *address)
{
    (void)address;
    return SUCCESS;
}

/* What the handle of an event holds. */
typedef union {
    int64_t process;
    char handle[64];
} HandedEvent;

PRETEND_EXPORT int cudaIpcGetEventHandle(HandedEvent *ret, void *event)
{
    if (!event)
        return pretend_fail(INVALID_VALUE);
    *ret = (HandedEvent){.process = getpid()};
    return SUCCESS;
}

PRETEND_EXPORT int cudaIpcOpenEventHandle(void **ret, HandedEvent handed)
{
    return handed.process == getpid() ? pretend_fail(INVALID_VALUE) : cudaEventCreateWithFlags(ret, 0);
}

PRETEND_EXPORT int cuIpcGetEventHandle(HandedEvent *ret, void *event)
{
    return cudaIpcGetEventHandle(ret, event);
}

PRETEND_EXPORT int cuIpcOpenEventHandle(void **ret, HandedEvent handed)
{
    return cudaIpcOpenEventHandle(ret, handed);
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
