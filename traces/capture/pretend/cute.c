/* CUTLASS's CuTe DSL (FlashAttention 4, FlashInfer, quack): its kernels' hosts' code is compiled at run time and calls CUDA under names of its own, which a
 * library of its own answers by a runtime that is linked into it. Those of them that are a function of CUDA's with "_" before it are found as that (symbols.c).
 */
#include "pretend.h"

#include <pthread.h>

/* Loads a module when its first kernel is asked for: @load makes it, @prepare sets its kernels' attributes on each device, both CUDA's errors; enough that one
 * device took it. @fail makes an exception of a kind and a text. */
PRETEND_EXPORT int cuda_dialect_init_library_once(void **library, int (*load)(void **), int (*prepare)(void **, int), void (*fail)(const char *, const char *))
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int error = 0;
    pthread_mutex_lock(&lock);
    if (!*library) {
        void *loaded = NULL;
        int devices = (int)pretend_device()->devices, refused = 0, last = 0;
        error = load(&loaded);
        for (int device = 0; error == 0 && prepare && device < devices; device++) {
            int code = prepare(&loaded, device);
            refused += code != 0;
            last = code != 0 ? code : last;
        }
        if (error == 0 && refused == devices)
            error = last;
        if (error == 0)
            *library = loaded;
    }
    pthread_mutex_unlock(&lock);
    if (error != 0 && fail)
        fail("RuntimeError", cudaGetErrorString(error));
    return error == 0 ? 0 : -1;
}

PRETEND_EXPORT void cuda_dialect_unload_library_once(void **library)
{
    *library = NULL;
}
