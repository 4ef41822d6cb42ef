#!/usr/bin/env bash
# Our declarations of CUPTI against its headers: every field we read lies where every version of the record that the header knows puts it, every constant and
# every function's type is the header's. Once for each toolkit found (/usr/local/cuda*, or the folders in ECHELON_CUDA_INCLUDES; CUDA 12.1, 12.9, 13.0 and
# 13.5 were compared). Skipped without one.
set -u
cd "$1" || exit 1
includes=$(for d in /usr/local/cuda*/include /usr/local/cuda*/extras/CUPTI/include ${ECHELON_CUDA_INCLUDES:-}; do
  [ -f "$d/cupti_activity.h" ] && readlink -f "$d"
done | sort -u)
[ -n "$includes" ] || { echo "no cupti.h here"; exit 77; }
rows() {
  cat <<'TABLE'
MemcpyRecord copy_kind CUpti_ActivityMemcpy copyKind
MemcpyRecord source_kind CUpti_ActivityMemcpy srcKind
MemcpyRecord target_kind CUpti_ActivityMemcpy dstKind
MemcpyRecord flags CUpti_ActivityMemcpy flags
MemcpyRecord bytes CUpti_ActivityMemcpy bytes
MemcpyRecord start CUpti_ActivityMemcpy start
MemcpyRecord end CUpti_ActivityMemcpy end
MemcpyRecord device CUpti_ActivityMemcpy deviceId
MemcpyRecord stream CUpti_ActivityMemcpy streamId
MemcpyRecord correlation CUpti_ActivityMemcpy correlationId
PeerMemcpyRecord bytes CUpti_ActivityMemcpyPtoP bytes
PeerMemcpyRecord flags CUpti_ActivityMemcpyPtoP flags
PeerMemcpyRecord start CUpti_ActivityMemcpyPtoP start
PeerMemcpyRecord end CUpti_ActivityMemcpyPtoP end
PeerMemcpyRecord device CUpti_ActivityMemcpyPtoP deviceId
PeerMemcpyRecord context CUpti_ActivityMemcpyPtoP contextId
PeerMemcpyRecord stream CUpti_ActivityMemcpyPtoP streamId
PeerMemcpyRecord source_device CUpti_ActivityMemcpyPtoP srcDeviceId
PeerMemcpyRecord target_device CUpti_ActivityMemcpyPtoP dstDeviceId
PeerMemcpyRecord correlation CUpti_ActivityMemcpyPtoP correlationId
MemsetRecord bytes CUpti_ActivityMemset bytes
MemsetRecord start CUpti_ActivityMemset start
MemsetRecord stream CUpti_ActivityMemset streamId
MemsetRecord correlation CUpti_ActivityMemset correlationId
KernelRecord start CUpti_ActivityKernel start
KernelRecord end CUpti_ActivityKernel end
KernelRecord device CUpti_ActivityKernel deviceId
KernelRecord stream CUpti_ActivityKernel streamId
KernelRecord grid CUpti_ActivityKernel gridX
KernelRecord block CUpti_ActivityKernel blockX
KernelRecord correlation CUpti_ActivityKernel correlationId
KernelRecord name CUpti_ActivityKernel name
MemoryRecord operation CUpti_ActivityMemory memoryOperationType
MemoryRecord memory_kind CUpti_ActivityMemory memoryKind
MemoryRecord correlation CUpti_ActivityMemory correlationId
MemoryRecord address CUpti_ActivityMemory address
MemoryRecord bytes CUpti_ActivityMemory bytes
MemoryRecord timestamp CUpti_ActivityMemory timestamp
MemoryRecord device CUpti_ActivityMemory deviceId
MemoryRecord stream CUpti_ActivityMemory streamId
MemoryRecord is_async CUpti_ActivityMemory isAsync
SynchronizationRecord type CUpti_ActivitySynchronization type
SynchronizationRecord start CUpti_ActivitySynchronization start
SynchronizationRecord stream CUpti_ActivitySynchronization streamId
SynchronizationRecord event CUpti_ActivitySynchronization cudaEventId
OverheadRecord overhead_kind CUpti_ActivityOverhead overheadKind
OverheadRecord start CUpti_ActivityOverhead start
MarkerRecord flags CUpti_ActivityMarker flags
MarkerRecord timestamp CUpti_ActivityMarker timestamp
MarkerRecord id CUpti_ActivityMarker id
MarkerRecord name CUpti_ActivityMarker name
UnifiedMemoryRecord counter CUpti_ActivityUnifiedMemoryCounter counterKind
UnifiedMemoryRecord value CUpti_ActivityUnifiedMemoryCounter value
UnifiedMemoryRecord start CUpti_ActivityUnifiedMemoryCounter start
UnifiedMemoryRecord address CUpti_ActivityUnifiedMemoryCounter address
UnifiedMemoryRecord source CUpti_ActivityUnifiedMemoryCounter srcId
PoolRecord operation CUpti_ActivityMemoryPool memoryPoolOperationType
PoolRecord pool_type CUpti_ActivityMemoryPool memoryPoolType
PoolRecord address CUpti_ActivityMemoryPool address
PoolRecord size CUpti_ActivityMemoryPool size
PoolRecord release_threshold CUpti_ActivityMemoryPool releaseThreshold
PoolRecord timestamp CUpti_ActivityMemoryPool timestamp
MemcpyRecord context CUpti_ActivityMemcpy contextId
MemsetRecord kind CUpti_ActivityMemset kind
MemsetRecord end CUpti_ActivityMemset end
MemsetRecord device CUpti_ActivityMemset deviceId
MemoryRecord pc CUpti_ActivityMemory PC
MemoryRecord process CUpti_ActivityMemory processId
SynchronizationRecord end CUpti_ActivitySynchronization end
SynchronizationRecord correlation CUpti_ActivitySynchronization correlationId
OverheadRecord end CUpti_ActivityOverhead end
UnifiedMemoryRecord end CUpti_ActivityUnifiedMemoryCounter end
UnifiedMemoryRecord target CUpti_ActivityUnifiedMemoryCounter dstId
TABLE
}
# The first version of each record whose fields we read; records of CUDA 11 and older lie otherwise.
first() {
  case $1 in
    MemcpyRecord) echo 4 ;;
    PeerMemcpyRecord) echo 1 ;;
    MemsetRecord) echo 3 ;;
    KernelRecord) echo 8 ;;
    MemoryRecord) echo 3 ;;
    PoolRecord) echo 2 ;;
    SynchronizationRecord) echo 1 ;;
    OverheadRecord) echo 1 ;;
    MarkerRecord) echo 2 ;;
    UnifiedMemoryRecord) echo 2 ;;
  esac
}
source_text() { # INCLUDE
  echo '#include <stddef.h>'
  echo '#include <cupti.h>'
  [ ! -f "$1/cupti_activity_deprecated.h" ] || echo '#include <cupti_activity_deprecated.h>'
  echo '#include "traces/capture/cupti_abi.h"'
  versions=$(cat "$1"/cupti_activity.h "$1"/cupti_activity_deprecated.h 2>/dev/null | grep -oE '^} CUpti_Activity[A-Za-z]+[0-9]*;' | sed 's/^} //; s/;//' | sort -u)
  rows | while read -r ours field base their_field; do
    least=$(first "$ours")
    [ "$least" = 1 ] && grep -qx "$base" <<<"$versions" && echo "_Static_assert(offsetof($ours, $field) == offsetof($base, $their_field), \"$base.$their_field\");"
    for version in $(grep -oxE "$base[0-9]+" <<<"$versions"); do
      [ "${version#"$base"}" -lt "$least" ] || echo "_Static_assert(offsetof($ours, $field) == offsetof($version, $their_field), \"$version.$their_field\");"
    done
  done
  cat <<'C'
#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
SAME(RECORD_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME(RECORD_MEMCPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME(RECORD_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
SAME(RECORD_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME(RECORD_MARKER, CUPTI_ACTIVITY_KIND_MARKER);
SAME(RECORD_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME(RECORD_UNIFIED_MEMORY, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
SAME(RECORD_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME(RECORD_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME(RECORD_MEMORY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME(CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_NO_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(CUPTI_UNKNOWN, CUPTI_ERROR_UNKNOWN);
SAME(MARKER_INSTANT, CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS);
SAME(MARKER_BEGIN, CUPTI_ACTIVITY_FLAG_MARKER_START);
SAME(MARKER_END, CUPTI_ACTIVITY_FLAG_MARKER_END);
SAME(MEMORY_ALLOCATED, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
SAME(MEMORY_RELEASED, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
SAME(COPY_ASYNCHRONOUS, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
SAME(UNIFIED_ALL_DEVICES, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES);
SAME(UNIFIED_TO_DEVICE, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD);
SAME(UNIFIED_TO_HOST, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH);
SAME(UNIFIED_CPU_FAULTS, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT);
SAME(UNIFIED_GPU_FAULTS, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT);
SAME(sizeof(UnifiedMemoryConfig), sizeof(CUpti_ActivityUnifiedMemoryCounterConfig));
SAME(offsetof(UnifiedMemoryConfig, kind), offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, kind));
SAME(offsetof(UnifiedMemoryConfig, device), offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, deviceId));
SAME(offsetof(UnifiedMemoryConfig, enable), offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, enable));
SAME(sizeof(CuptiResult), sizeof(CUptiResult));
/* From here on our names mean CUPTI's types. */
#define CuptiResult CUptiResult
#define BufferRequested CUpti_BuffersCallbackRequestFunc
#define BufferCompleted CUpti_BuffersCallbackCompleteFunc
#define CuptiKind CUpti_ActivityKind
#define CuptiRecord CUpti_Activity
#define CuptiContext CUcontext
#define UnifiedMemoryConfig CUpti_ActivityUnifiedMemoryCounterConfig
#define CHECK(member, symbol, parameters) _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUptiResult(*) parameters), #symbol);
CUPTI_FUNCTIONS(CHECK)
CUPTI_OPTIONAL_FUNCTIONS(CHECK)
C
}
failed=0
for include in $includes; do
  # cupti.h includes cuda.h, which a Python wheel keeps elsewhere.
  more=$(for d in "$include" "$include"/../../*/include; do [ -f "$d/cuda.h" ] && printf ' -isystem %s' "$d"; done)
  # shellcheck disable=SC2086
  source_text "$include" | gcc -std=gnu17 -I. -isystem "$include" $more -fsyntax-only -x c - || { echo "differs from $include"; failed=1; }
done
exit $failed
