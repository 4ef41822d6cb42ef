/** @file cupti_abi.h
 * The part of CUPTI's binary interface that the capture library uses: functions by dlopen, and the leading fields of the activity records,
 * which have stayed in place from CUDA 12 to 13 (the records only grow at their ends). Own declarations, so that no toolkit is needed to
 * build; tests/lint/cupti_abi.sh compares every offset with cupti.h where that is installed. Source: cupti_activity.h of CUDA 12.1 to 13.5.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int CuptiResult; /* 0 is success */
typedef int CuptiKind;
typedef void CuptiRecord;
typedef void *CuptiContext;
enum { CUPTI_MAX_LIMIT_REACHED = 12, CUPTI_NO_PRIVILEGES = 35, CUPTI_MULTIPLE_SUBSCRIBERS = 39, CUPTI_UNKNOWN = 999, CUPTI_FLUSH_FORCED = 1 };
enum { MARKER_INSTANT = 1, MARKER_BEGIN = 2, MARKER_END = 4, MEMORY_ALLOCATED = 1, MEMORY_RELEASED = 2, COPY_ASYNCHRONOUS = 1 };
enum { UNIFIED_ALL_DEVICES = 2, UNIFIED_TO_DEVICE = 1, UNIFIED_TO_HOST = 2, UNIFIED_CPU_FAULTS = 3, UNIFIED_GPU_FAULTS = 4 };
enum {
    RECORD_MEMCPY = 1,
    RECORD_MEMSET = 2,
    RECORD_CONCURRENT_KERNEL = 10,
    RECORD_MARKER = 12,
    RECORD_OVERHEAD = 17,
    RECORD_MEMCPY_PEER = 22,
    RECORD_UNIFIED_MEMORY = 25,
    RECORD_SYNCHRONIZATION = 38,
    RECORD_MEMORY2 = 49,
    RECORD_MEMORY_POOL = 50,
};

#pragma pack(push, 8)
typedef struct {
    uint32_t kind;
    uint8_t copy_kind, source_kind, target_kind, flags; /* flags bit 0: asynchronous */
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
} MemcpyRecord;
typedef struct {
    uint32_t kind;
    uint8_t copy_kind, source_kind, target_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, source_device, source_context, target_device, target_context, correlation;
} PeerMemcpyRecord;
typedef struct {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
} MemsetRecord;
typedef struct {
    uint32_t kind;
    uint8_t cache[4];
    uint16_t partition[2];
    uint16_t registers, padding;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t shared_static, shared_dynamic;
    uint32_t local_per_thread, local_total, correlation;
    int64_t grid_id;
    const char *name;
} KernelRecord;
typedef struct {
    uint32_t kind, operation, memory_kind, correlation; /* operation: 1 allocate, 2 release */
    uint64_t address, bytes, timestamp, pc;
    uint32_t process, device, context, stream;
    const char *name;
    uint32_t is_async;
} MemoryRecord;
typedef struct {
    uint32_t kind, type; /* type: 1 event, 2 stream wait event, 3 stream, 4 context */
    uint64_t start, end;
    uint32_t correlation, context, stream, event;
} SynchronizationRecord;
typedef struct {
    uint32_t kind, overhead_kind, object_kind;
    uint32_t object[3];
    uint64_t start, end;
} OverheadRecord;
typedef struct {
    uint32_t kind, flags; /* flags: 1 instant, 2 begin, 4 end */
    uint64_t timestamp;
    uint32_t id, object_kind;
    uint32_t object[3], padding;
    const char *name;
} MarkerRecord;
typedef struct {
    uint32_t kind, counter;
    uint64_t value, start, end, address;
    uint32_t source, target;
} UnifiedMemoryRecord;
typedef struct {
    uint32_t kind, operation, pool_type, correlation; /* operation: 1 created, 2 destroyed, 3 trimmed */
    uint32_t process, device;
    uint64_t minimum_bytes;
    uint64_t address, size, release_threshold, timestamp;
} PoolRecord;
#pragma pack(pop)

typedef void (*BufferRequested)(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_max_records);
typedef void (*BufferCompleted)(CuptiContext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef struct {
    int scope, kind; /* scope 1: one device, 2: all */
    uint32_t device, enable;
} UnifiedMemoryConfig;

/* CUPTI_FUNCTIONS(X): every function in use; X(member, symbol, parameters). */
#define CUPTI_FUNCTIONS(X)                                                                                                                                     \
    X(register_callbacks, cuptiActivityRegisterCallbacks, (BufferRequested, BufferCompleted))                                                                  \
    X(enable, cuptiActivityEnable, (CuptiKind kind))                                                                                                           \
    X(next_record, cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, CuptiRecord * *record))                                                        \
    X(dropped, cuptiActivityGetNumDroppedRecords, (CuptiContext context, uint32_t stream, size_t * ret))                                                       \
    X(flush, cuptiActivityFlushAll, (uint32_t flags))                                                                                                          \
    X(timestamp, cuptiGetTimestamp, (uint64_t * ret))                                                                                                          \
    X(configure_unified, cuptiActivityConfigureUnifiedMemoryCounter, (UnifiedMemoryConfig * configs, uint32_t n))

/* What may be missing. */
#define CUPTI_OPTIONAL_FUNCTIONS(X)                                                                                                                            \
    X(flush_period, cuptiActivityFlushPeriod, (uint32_t milliseconds))                                                                                         \
    X(result_string, cuptiGetResultString, (CuptiResult result, const char **ret))
