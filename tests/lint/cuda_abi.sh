#!/usr/bin/env bash
# Our declarations of the CUDA driver, of cuBLAS and of NVML against NVIDIA's headers: every function's type, every constant, every structure's layout; and
# that the driver's stub has every symbol. Once for each toolkit found (/usr/local/cuda*, or the folders in ECHELON_CUDA_INCLUDES). Skipped without one.
set -u
cd "$1" || exit 1
includes=$(for d in /usr/local/cuda*/include ${ECHELON_CUDA_INCLUDES:-}; do [ -f "$d/cuda.h" ] && readlink -f "$d"; done | sort -u)
[ -n "$includes" ] || { echo "no cuda.h here"; exit 77; }
glib=$(pkg-config --cflags glib-2.0)
source_text() {
  echo '#include "sim/replay/cuda_driver.h"'
  echo '#include <cuda.h>'
  cat <<'C'
#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
SAME(ECH_CU_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(ECH_CU_ERROR_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(ECH_CU_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(ECH_CU_ERROR_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(ECH_CU_ERROR_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(ECH_CU_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(ECH_CU_ERROR_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(ECH_CU_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(ECH_CU_ERROR_NO_COMPILER, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME(ECH_CU_ERROR_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(ECH_CU_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(ECH_CU_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN);
SAME(ECH_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(ECH_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(ECH_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(ECH_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(ECH_CU_ATTRIBUTE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(ECH_CU_ATTRIBUTE_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(ECH_CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(ECH_CU_ATTRIBUTE_BUS_BITS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(ECH_CU_ATTRIBUTE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(ECH_CU_ATTRIBUTE_ASYNC_ENGINES, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME(ECH_CU_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(ECH_CU_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(ECH_CU_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(ECH_CU_ATTRIBUTE_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(ECH_CU_POOL_REUSE_AFTER_EVENTS, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME(ECH_CU_POOL_REUSE_OPPORTUNISTIC, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
SAME(ECH_CU_POOL_REUSE_BY_WAITING, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME(ECH_CU_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME(ECH_CU_POOL_RESERVED_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME(ECH_CU_POOL_RESERVED_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME(ECH_CU_POOL_USED_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME(ECH_CU_POOL_USED_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME(ECH_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(ECH_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(ECH_CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(ECH_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(sizeof(EchCuAllocationProp), sizeof(CUmemAllocationProp));
SAME(offsetof(EchCuAllocationProp, type), offsetof(CUmemAllocationProp, type));
SAME(offsetof(EchCuAllocationProp, handle_types), offsetof(CUmemAllocationProp, requestedHandleTypes));
SAME(offsetof(EchCuAllocationProp, location), offsetof(CUmemAllocationProp, location));
SAME(offsetof(EchCuAllocationProp, win32), offsetof(CUmemAllocationProp, win32HandleMetaData));
SAME(offsetof(EchCuAllocationProp, flags), offsetof(CUmemAllocationProp, allocFlags));
SAME(offsetof(EchCuLocation, id), offsetof(CUmemLocation, id));
SAME(sizeof(EchCuLocation), sizeof(CUmemLocation));
SAME(sizeof(EchCuAccess), sizeof(CUmemAccessDesc));
SAME(offsetof(EchCuAccess, flags), offsetof(CUmemAccessDesc, flags));
SAME(sizeof(EchCuUuid), sizeof(CUuuid));
SAME(sizeof(EchCuPointer), sizeof(CUdeviceptr));
SAME(sizeof(EchCuDevice), sizeof(CUdevice));
SAME(sizeof(EchCuResult), sizeof(CUresult));
SAME(sizeof(EchCuAttribute), sizeof(CUdevice_attribute));
SAME(sizeof(EchCuPoolAttribute), sizeof(CUmemPool_attribute));
SAME(sizeof(EchCuCaptureMode), sizeof(CUstreamCaptureMode));
SAME(sizeof(EchCuGranularity), sizeof(CUmemAllocationGranularity_flags));
/* From here on our names mean NVIDIA's types, so that the table of functions can be compared with the header's own declarations. */
#define EchCuResult CUresult
#define EchCuDevice CUdevice
#define EchCuAttribute CUdevice_attribute
#define EchCuPoolAttribute CUmemPool_attribute
#define EchCuCaptureMode CUstreamCaptureMode
#define EchCuGranularity CUmemAllocationGranularity_flags
#define EchCuPointer CUdeviceptr
#define EchCuContext CUcontext
#define EchCuStream CUstream
#define EchCuEvent CUevent
#define EchCuModule CUmodule
#define EchCuFunction CUfunction
#define EchCuGraph CUgraph
#define EchCuGraphExec CUgraphExec
#define EchCuPool CUmemoryPool
#define EchCuUuid CUuuid
#define EchCuAllocationProp CUmemAllocationProp
#define EchCuAccess CUmemAccessDesc
#define CHECK(member, symbol, parameters) _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) parameters), #symbol);
ECH_CU_FUNCTIONS(CHECK)
ECH_CU_OPTIONAL_FUNCTIONS(CHECK)
C
}
blas_text() {
  echo '#include "sim/replay/cuda_blas.h"'
  echo '#include <cublas_v2.h>'
  cat <<'C'
#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
SAME(ECH_CUBLAS_BF16, CUDA_R_16BF);
SAME(ECH_CUBLAS_F16, CUDA_R_16F);
SAME(ECH_CUBLAS_F32, CUDA_R_32F);
SAME(ECH_CUBLAS_F64, CUDA_R_64F);
SAME(ECH_CUBLAS_S8, CUDA_R_8I);
SAME(ECH_CUBLAS_S32, CUDA_R_32I);
SAME(ECH_CUBLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(ECH_CUBLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(ECH_CUBLAS_COMPUTE_F64, CUBLAS_COMPUTE_64F);
SAME(ECH_CUBLAS_COMPUTE_S32, CUBLAS_COMPUTE_32I);
SAME(ECH_CUBLAS_PLAIN, CUBLAS_OP_N);
SAME(ECH_CUBLAS_TRANSPOSED, CUBLAS_OP_T);
SAME(ECH_CUBLAS_DEFAULT, CUBLAS_GEMM_DEFAULT);
#define EchCuBlasStatus cublasStatus_t
#define EchCuBlasHandle cublasHandle_t
#define EchCuBlasTranspose cublasOperation_t
#define EchCuBlasType cudaDataType
#define EchCuBlasCompute cublasComputeType_t
#define EchCuBlasAlgorithm cublasGemmAlgo_t
#define EchCuStream cudaStream_t
#define CHECK(member, symbol, parameters) _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), cublasStatus_t(*) parameters), #symbol);
ECH_CUBLAS_FUNCTIONS(CHECK)
C
}
nvml_text() {
  echo '#include <nvml.h>'
  cat <<'C'
enum { THEIR_SM = NVML_CLOCK_SM, THEIR_MEMORY = NVML_CLOCK_MEM, THEIR_SENSOR = NVML_TEMPERATURE_GPU };
#define NVML_CLOCK_SM OUR_SM
#define NVML_TEMPERATURE_GPU OUR_SENSOR
#include "sim/replay/cuda_state.c"
#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
SAME(OUR_SM, THEIR_SM);
SAME(NVML_CLOCK_MEMORY, THEIR_MEMORY);
SAME(OUR_SENSOR, THEIR_SENSOR);
SAME(sizeof(NvmlMemory), sizeof(nvmlMemory_t));
SAME(offsetof(NvmlMemory, used), offsetof(nvmlMemory_t, used));
SAME(sizeof(NvmlClock), sizeof(nvmlClockType_t));
SAME(sizeof(NvmlSensor), sizeof(nvmlTemperatureSensors_t));
SAME(sizeof(NvmlState), sizeof(nvmlEnableState_t));
SAME(sizeof(NvmlResult), sizeof(nvmlReturn_t));
SAME(0x1, nvmlClocksThrottleReasonGpuIdle);
SAME(0x2, nvmlClocksThrottleReasonApplicationsClocksSetting);
SAME(0x4, nvmlClocksThrottleReasonSwPowerCap);
SAME(0x8, nvmlClocksThrottleReasonHwSlowdown);
SAME(0x10, nvmlClocksThrottleReasonSyncBoost);
SAME(0x20, nvmlClocksThrottleReasonSwThermalSlowdown);
SAME(0x40, nvmlClocksThrottleReasonHwThermalSlowdown);
SAME(0x80, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
#define NvmlDevice nvmlDevice_t
#define NvmlClock nvmlClockType_t
#define NvmlSensor nvmlTemperatureSensors_t
#define NvmlState nvmlEnableState_t
#define NvmlMemory nvmlMemory_t
#define CHECK(member, symbol, parameters) _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), nvmlReturn_t(*) parameters), #symbol);
NVML_FUNCTIONS(CHECK)
C
}
failed=0
for include in $includes; do
  # shellcheck disable=SC2086
  source_text | gcc -std=gnu17 -I. $glib -isystem "$include" -fsyntax-only -x c - || { echo "differs from $include/cuda.h"; failed=1; }
  # shellcheck disable=SC2086
  [ ! -f "$include/cublas_v2.h" ] || blas_text | gcc -std=gnu17 -I. $glib -isystem "$include" -fsyntax-only -x c - || { echo "differs from $include/cublas_v2.h"; failed=1; }
  # shellcheck disable=SC2086
  [ ! -f "$include/nvml.h" ] || nvml_text | gcc -std=gnu17 -D_GNU_SOURCE -I. $glib -isystem "$include" -Wno-deprecated-declarations -fsyntax-only -x c - || { echo "differs from $include/nvml.h"; failed=1; }
  for stub in "$include"/../lib64/stubs/libcuda.so "$include"/../lib/stubs/libcuda.so; do
    [ -f "$stub" ] || continue
    exported=$(nm -D --defined-only "$stub" | sed 's/.* //; s/@.*//')
    for symbol in $(grep -oE 'X\([a-z_0-9]+, *cu[A-Za-z0-9_]+' sim/replay/cuda_driver.h | sed 's/.*, *//'); do
      grep -qx "$symbol" <<<"$exported" || { echo "$stub has no $symbol"; failed=1; }
    done
    break
  done
done
exit $failed
