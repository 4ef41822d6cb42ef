/* Of CUDA's runtime what the pretending library asks it for, whose name this has: its release. As CUDA 11's it asks of the driver first, and must not be asked
 * again by that. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int cudaRuntimeGetVersion(int *ret);

int cudaRuntimeGetVersion(int *ret)
{
    static int asked;
    void *pretend = dlopen(ECH_PRETEND, RTLD_NOW | RTLD_NOLOAD), *symbol = pretend ? dlsym(pretend, "cuDriverGetVersion") : NULL;
    int (*driver_version)(int *), driver = 0;
    memcpy(&driver_version, &symbol, sizeof symbol);
    if (!symbol || asked++)
        abort();
    driver_version(&driver);
    *ret = driver >= 12000 ? 13000 : 0;
    return 0;
}
