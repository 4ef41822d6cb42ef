#!/usr/bin/env bash
# Our declarations of CUPTI's records against cupti.h: every field we read lies where CUPTI puts it. Skipped without the toolkit.
set -u
cd "$1" || exit 1
include=/usr/local/cuda/include
[ -f $include/cupti_activity.h ] || { echo "no cupti.h here"; exit 77; }
compile() {
  { echo '#include <stddef.h>'; echo '#include <cupti.h>'; echo '#include "traces/capture/cupti_abi.h"'
    while read -r ours field theirs their_field; do
      echo "_Static_assert(offsetof($ours, $field) == offsetof($theirs, $their_field), \"$ours.$field\");"
    done <<'TABLE'
MemcpyRecord copy_kind CUpti_ActivityMemcpy6 copyKind
MemcpyRecord source_kind CUpti_ActivityMemcpy6 srcKind
MemcpyRecord target_kind CUpti_ActivityMemcpy6 dstKind
MemcpyRecord flags CUpti_ActivityMemcpy6 flags
MemcpyRecord bytes CUpti_ActivityMemcpy6 bytes
MemcpyRecord start CUpti_ActivityMemcpy6 start
MemcpyRecord end CUpti_ActivityMemcpy6 end
MemcpyRecord device CUpti_ActivityMemcpy6 deviceId
MemcpyRecord stream CUpti_ActivityMemcpy6 streamId
MemcpyRecord correlation CUpti_ActivityMemcpy6 correlationId
MemsetRecord bytes CUpti_ActivityMemset4 bytes
MemsetRecord start CUpti_ActivityMemset4 start
MemsetRecord stream CUpti_ActivityMemset4 streamId
MemsetRecord correlation CUpti_ActivityMemset4 correlationId
KernelRecord start CUpti_ActivityKernel10 start
KernelRecord end CUpti_ActivityKernel10 end
KernelRecord device CUpti_ActivityKernel10 deviceId
KernelRecord stream CUpti_ActivityKernel10 streamId
KernelRecord grid CUpti_ActivityKernel10 gridX
KernelRecord block CUpti_ActivityKernel10 blockX
KernelRecord correlation CUpti_ActivityKernel10 correlationId
KernelRecord name CUpti_ActivityKernel10 name
KernelRecord start CUpti_ActivityKernel9 start
KernelRecord correlation CUpti_ActivityKernel9 correlationId
KernelRecord name CUpti_ActivityKernel9 name
MemoryRecord operation CUpti_ActivityMemory4 memoryOperationType
MemoryRecord memory_kind CUpti_ActivityMemory4 memoryKind
MemoryRecord correlation CUpti_ActivityMemory4 correlationId
MemoryRecord address CUpti_ActivityMemory4 address
MemoryRecord bytes CUpti_ActivityMemory4 bytes
MemoryRecord timestamp CUpti_ActivityMemory4 timestamp
MemoryRecord device CUpti_ActivityMemory4 deviceId
MemoryRecord stream CUpti_ActivityMemory4 streamId
MemoryRecord is_async CUpti_ActivityMemory4 isAsync
SynchronizationRecord type CUpti_ActivitySynchronization2 type
SynchronizationRecord start CUpti_ActivitySynchronization2 start
SynchronizationRecord stream CUpti_ActivitySynchronization2 streamId
SynchronizationRecord event CUpti_ActivitySynchronization2 cudaEventId
OverheadRecord overhead_kind CUpti_ActivityOverhead3 overheadKind
OverheadRecord start CUpti_ActivityOverhead3 start
MarkerRecord flags CUpti_ActivityMarker2 flags
MarkerRecord timestamp CUpti_ActivityMarker2 timestamp
MarkerRecord id CUpti_ActivityMarker2 id
MarkerRecord name CUpti_ActivityMarker2 name
UnifiedMemoryRecord counter CUpti_ActivityUnifiedMemoryCounter3 counterKind
UnifiedMemoryRecord value CUpti_ActivityUnifiedMemoryCounter3 value
UnifiedMemoryRecord start CUpti_ActivityUnifiedMemoryCounter3 start
UnifiedMemoryRecord address CUpti_ActivityUnifiedMemoryCounter3 address
UnifiedMemoryRecord source CUpti_ActivityUnifiedMemoryCounter3 srcId
PoolRecord operation CUpti_ActivityMemoryPool2 memoryPoolOperationType
PoolRecord pool_type CUpti_ActivityMemoryPool2 memoryPoolType
PoolRecord address CUpti_ActivityMemoryPool2 address
PoolRecord size CUpti_ActivityMemoryPool2 size
PoolRecord release_threshold CUpti_ActivityMemoryPool2 releaseThreshold
PoolRecord timestamp CUpti_ActivityMemoryPool2 timestamp
TABLE
    echo "_Static_assert(RECORD_MEMORY2 == CUPTI_ACTIVITY_KIND_MEMORY2 && RECORD_MEMORY_POOL == CUPTI_ACTIVITY_KIND_MEMORY_POOL, \"kinds\");"
    echo "_Static_assert(sizeof(UnifiedMemoryConfig) == sizeof(CUpti_ActivityUnifiedMemoryCounterConfig), \"config\");"
  } | gcc -std=c17 -I. -isystem $include -fsyntax-only -x c -
}
compile
