/* A framework's own function of a CUDA library's name, as TensorFlow has them: it looks for the library's when it is called. */
#include <dlfcn.h>
#include <string.h>

int cudaRuntimeGetVersion(int *ret);

int cudaRuntimeGetVersion(int *ret)
{
    void *library = dlopen("libm.so.6", RTLD_NOW), *found = library ? dlsym(library, "cudaRuntimeGetVersion") : NULL;
    int (*real)(int *);
    memcpy(&real, &found, sizeof real);
    return found ? real(ret) : 100; /* cudaErrorNoDevice */
}
