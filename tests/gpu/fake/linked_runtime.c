/* What a CUDA runtime looks like that is linked into a program, as far as the pretending library looks: functions by their names, which find no driver. */
#include <stddef.h>

#define FUNCTION __attribute__((visibility("hidden"), aligned(16))) int
enum { INSUFFICIENT_DRIVER = 35 };

#ifdef FORWARDS
__attribute__((used)) static void *_cudart_tramp_table[1]; /* as where the shared runtime is looked for by each function: those are left as they are */
#endif

FUNCTION cudaGetExportTable(void);
FUNCTION cudaGetExportTable(void)
{
    return INSUFFICIENT_DRIVER;
}

FUNCTION cudaRuntimeGetVersion(int *ret);
FUNCTION cudaRuntimeGetVersion(int *ret)
{
    *ret = 12040;
    return 0;
}

FUNCTION cudaGetDeviceCount(int *ret);
FUNCTION cudaGetDeviceCount(int *ret)
{
    *ret = 0;
    return INSUFFICIENT_DRIVER;
}

FUNCTION cudaMalloc(void **ret, size_t bytes);
FUNCTION cudaMalloc(void **ret, size_t bytes)
{
    (void)bytes;
    *ret = NULL;
    return INSUFFICIENT_DRIVER;
}

FUNCTION cudaLaunchKernel(void);
FUNCTION cudaLaunchKernel(void)
{
    return INSUFFICIENT_DRIVER;
}

FUNCTION __cudaRegisterFunction(void);
FUNCTION __cudaRegisterFunction(void)
{
    __asm__ volatile(".skip 16, 0x90"); /* what stands last has no more room than it takes */
    return INSUFFICIENT_DRIVER;
}
