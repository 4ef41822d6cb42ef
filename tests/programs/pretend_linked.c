/* A program with CUDA's runtime linked into it (tests/gpu/fake/linked_runtime.c), and, built as a module, what such a program opens when it runs. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    unsigned x, y, z;
} Dim;

int cudaRuntimeGetVersion(int *ret);
int cudaGetDeviceCount(int *ret);
int cudaMalloc(void **ret, size_t bytes);
int cudaLaunchKernel(const void *function, Dim grid, Dim block, void **arguments, size_t shared, void *stream);
int __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *thread, void *block, void *dim, void *grid,
                           int *warp);

static const char kernel[] = NAME;

/* As nvcc writes and names it. */
void __sti____cudaRegisterAll(void);
__attribute__((constructor, visibility("hidden"), aligned(16))) void __sti____cudaRegisterAll(void)
{
    __cudaRegisterFunction(NULL, kernel, NULL, NAME, -1, NULL, NULL, NULL, NULL, NULL);
}

int use_linked(void);
int use_linked(void)
{
    int devices = -1, version = 0;
    void *at = NULL;
    int counted = cudaGetDeviceCount(&devices), allocated = cudaMalloc(&at, (size_t)1 << 30);
    int launched = cudaLaunchKernel(kernel, (Dim){1024, 1, 1}, (Dim){256, 1, 1}, NULL, 0, NULL);
    cudaRuntimeGetVersion(&version);
    printf("%s: %d devices (%d), allocated: %d, launched: %d, built for %d\n", NAME, devices, counted, allocated, launched, version);
    return 0;
}

int main(int argc, char **argv)
{
    use_linked();
    for (int i = 1; i < argc; i++) {
        void *late = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL), *found = late ? dlsym(late, "use_linked") : NULL;
        int (*use)(void);
        memcpy(&use, &found, sizeof use);
        if (!found || use() != 0)
            return 1;
    }
    return 0;
}
