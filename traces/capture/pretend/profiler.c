/* CUPTI, which does not survive a driver that is not NVIDIA's: it says its version, and no to profilers. */
#include "pretend.h"

/* CUPTI_API_VERSION of the runtime's own toolkit: 130001 of 13.0; before, it was counted. */
PRETEND_EXPORT int cuptiGetVersion(uint32_t *ret)
{
    int runtime = pretend_runtime_version();
    *ret = runtime >= 13000 ? (uint32_t)runtime * 10 + 1 : 18 + (uint32_t)(runtime - 12000) / 10;
    return 0;
}
