/* A CUPTI of our own for tests: on flush, or when a thread asks for it by fake_cupti_deliver(), it hands over one buffer of each kind of record.
 * ECH_FAKE_CUPTI_HELD=1: another profiler is there; ECH_FAKE_CUPTI_NO_GPU=1: the driver sees no GPU; ECH_FAKE_CUPTI_UNIFIED=N: the Nth request for the counters
 * of unified memory, from 1, is the first that it grants; ECH_FAKE_CUPTI_TAKEN=1: the program's own profiler registers behind the first copy, as Kineto did on
 * an H200, and gets every buffer from then on. */
#include "traces/capture/cupti_abi.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALIZED = 15 };
/* As CUPTI's own clock, which counts nanoseconds since 1970 (cuptiGetTimestamp of libcupti.so.12 and .13). */
#define BASE UINT64_C(1795473667000000000)

static BufferRequested requested;
static BufferCompleted completed;
static uint64_t enabled;

#define PROTOTYPE(member, symbol, parameters) __attribute__((visibility("default"))) CuptiResult symbol parameters;
CUPTI_FUNCTIONS(PROTOTYPE)
CUPTI_OPTIONAL_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

CuptiResult cuptiActivityRegisterCallbacks(BufferRequested on_request, BufferCompleted on_complete)
{
    requested = on_request;
    completed = on_complete;
    return getenv("ECH_FAKE_CUPTI_NO_GPU") ? CUPTI_UNKNOWN : getenv("ECH_FAKE_CUPTI_HELD") ? CUPTI_MULTIPLE_SUBSCRIBERS : 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *get_export_table);
int InitializeInjectionNvtx2(void *get_export_table)
{
    return get_export_table == (void *)&enabled ? 1 : 2;
}

CuptiResult cuptiActivityFlushPeriod(uint32_t milliseconds)
{
    return milliseconds > 0 ? 0 : 1;
}

CuptiResult cuptiGetResultString(CuptiResult result, const char **ret)
{
    *ret = result == CUPTI_UNKNOWN ? "CUPTI_ERROR_UNKNOWN" : result == NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED" : "CUPTI_ERROR_INVALID_KIND";
    return 0;
}

CuptiResult cuptiActivityEnable(CuptiKind kind)
{
    static unsigned asked;
    const char *granted = getenv("ECH_FAKE_CUPTI_UNIFIED");
    if (kind == RECORD_UNIFIED_MEMORY && granted && ++asked < strtoul(granted, NULL, 10))
        return NOT_INITIALIZED;
    enabled |= UINT64_C(1) << kind;
    return 0;
}

/* Records lie one after the other, each with its size before it. The last one asked for is remembered by the caller's pointer. */
CuptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CuptiRecord **record)
{
    uint8_t *next = buffer;
    if (*record) {
        uint64_t size;
        memcpy(&size, (uint8_t *)*record - sizeof size, sizeof size);
        next = (uint8_t *)*record + size;
    }
    if (next + sizeof(uint64_t) > buffer + valid)
        return CUPTI_MAX_LIMIT_REACHED;
    *record = next + sizeof(uint64_t);
    return 0;
}

CuptiResult cuptiActivityGetNumDroppedRecords(CuptiContext context, uint32_t stream, size_t *ret)
{
    (void)context, (void)stream;
    *ret = 7;
    return 0;
}

CuptiResult cuptiGetTimestamp(uint64_t *ret)
{
    *ret = BASE + 1000;
    return 0;
}

CuptiResult cuptiActivityConfigureUnifiedMemoryCounter(UnifiedMemoryConfig *configs, uint32_t n)
{
    return configs && n > 0 ? 0 : 1;
}

static uint8_t *put(uint8_t *at, const void *record, size_t size)
{
    uint64_t padded = (size + 7) / 8 * 8;
    memcpy(at, &padded, sizeof padded);
    memset(at + sizeof padded, 0, padded);
    memcpy(at + sizeof padded, record, size);
    return at + sizeof padded + padded;
}

__attribute__((visibility("default"))) CuptiResult fake_cupti_deliver(void);
CuptiResult fake_cupti_deliver(void)
{
    uint8_t *buffer = NULL;
    size_t size = 0, records = 0;
    requested(&buffer, &size, &records);
    if (!buffer)
        return 1;
    uint8_t *at = buffer;
    MemoryRecord memory = {
        .kind = RECORD_MEMORY2, .operation = 1, .memory_kind = 3, .address = 0x7f0000000000, .bytes = 1 << 21, .timestamp = BASE + 1500, .stream = 7};
    at = put(at, &memory, sizeof memory);
    MemcpyRecord copy = {.kind = RECORD_MEMCPY,
                         .copy_kind = 1,
                         .source_kind = 2,
                         .target_kind = 3,
                         .flags = 1,
                         .bytes = 4096,
                         .start = BASE + 2000,
                         .end = BASE + 2600,
                         .stream = 7};
    at = put(at, &copy, sizeof copy);
    PeerMemcpyRecord peer = {.kind = RECORD_MEMCPY_PEER,
                             .copy_kind = 10,
                             .flags = 1,
                             .bytes = 8192,
                             .start = BASE + 5200,
                             .end = BASE + 5300,
                             .stream = 7,
                             .target_device = 1,
                             .correlation = 21};
    if (enabled & UINT64_C(1) << RECORD_MEMCPY_PEER)
        at = put(at, &peer, sizeof peer);
    if (getenv("ECH_FAKE_CUPTI_TAKEN")) {
        completed(NULL, 0, buffer, size, (size_t)(at - buffer));
        requested(&buffer, &size, &records); /* which the other one gets */
        return 0;
    }
    KernelRecord kernel = {.kind = RECORD_CONCURRENT_KERNEL,
                           .start = BASE + 3000,
                           .end = BASE + 4500,
                           .device = 1,
                           .context = 2,
                           .stream = 7,
                           .grid = {4, 1, 1},
                           .block = {128, 1, 1},
                           .name = "add(float \"x\")"};
    at = put(at, &kernel, sizeof kernel);
    kernel.start = kernel.end = BASE + 4550;
    kernel.name = "_ZN2at6native4fillIfEEvPT_i"; /* As CUPTI has it */
    at = put(at, &kernel, sizeof kernel);
    MarkerRecord begin = {.kind = RECORD_MARKER, .flags = 2, .timestamp = BASE + 1200, .id = 5, .name = "step"};
    at = put(at, &begin, sizeof begin);
    MarkerRecord end = {.kind = RECORD_MARKER, .flags = 4, .timestamp = BASE + 5200, .id = 5};
    at = put(at, &end, sizeof end);
    SynchronizationRecord sync = {.kind = RECORD_SYNCHRONIZATION, .type = 4, .context = 2, .start = BASE + 4600, .end = BASE + 5000};
    at = put(at, &sync, sizeof sync);
    if (getenv("ECH_FAKE_CUPTI_UNIFIED") && (enabled & UINT64_C(1) << RECORD_UNIFIED_MEMORY)) {
        UnifiedMemoryRecord moved = {
            .kind = RECORD_UNIFIED_MEMORY, .counter = UNIFIED_TO_DEVICE, .value = 65536, .start = BASE + 5000, .end = BASE + 5100, .target = 1};
        at = put(at, &moved, sizeof moved);
    }
    memory.operation = 2;
    memory.timestamp = BASE + 6000;
    at = put(at, &memory, sizeof memory);
    completed(NULL, 0, buffer, size, (size_t)(at - buffer));
    return (enabled & (UINT64_C(1) << RECORD_CONCURRENT_KERNEL)) ? 0 : 1;
}

CuptiResult cuptiActivityFlushAll(uint32_t flags)
{
    if (flags == 0) /* Nothing of ours is complete before the end */
        return 0;
    return flags == CUPTI_FLUSH_FORCED ? fake_cupti_deliver() : 1;
}
