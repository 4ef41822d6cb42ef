/* A program for CUDA, as far as the verb's golden needs one: it asks the preloaded library for memory and launches a kernel. No GPU, no CUDA. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned x, y, z;
} Dim;

/* Of the library that a framework has for it (tests/gpu/fake/stub.c), or of who is loaded before. */
int cudaRuntimeGetVersion(int *ret);

static void *found(const char *name)
{
    void *at = dlsym(RTLD_DEFAULT, name);
    if (!at)
        printf("no %s: nobody pretends\n", name);
    return at;
}

/* As JAX's plugin finds its libraries: opened by itself, functions asked for by name. What a library has of its own stays, and so does the next one of a name.
 */
static int ask_by_name(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW), *ours = library ? dlsym(library, "cuMemAlloc_v2") : NULL, *at, *next = dlsym(RTLD_NEXT, "malloc");
    int (*allocate)(void **, size_t);
    memcpy(&allocate, &ours, sizeof allocate);
    int error = ours ? allocate(&at, (size_t)1 << 30) : -1, version = 0;
    printf("runtime: %d, ", cudaRuntimeGetVersion(&version));
    printf("%d\n", version);
    printf("allocated: %d; cos %s; malloc %s; cuNoSuchName %s\n", error, library && dlsym(library, "cos") ? "there" : "gone", next ? "there" : "gone",
           library && dlsym(library, "cuNoSuchName") ? "there"
           : dlerror()                               ? "missing"
                                                     : "missing without an error");
    printf("CuTe's names: cudaMalloc %s, a launch %s, cudaNoSuchName %s\n",
           library && dlsym(library, "_cudaMalloc") && dlsym(library, "_cudaMalloc") == dlsym(library, "cudaMalloc") ? "there" : "gone",
           library && dlsym(library, "_cudaLaunchKernelEx") ? "there" : "gone", library && dlsym(library, "_cudaNoSuchName") ? "there" : "gone");
    return 0;
}

/* Gives back what it kept when the device has no more room, asks again, and ends for a reason of its own. */
static int keep_and_give_back(void)
{
    int (*allocate)(void **, size_t), (*release)(void *);
    void *names[] = {found("cudaMalloc"), found("cudaFree")}, *at;
    if (!names[0] || !names[1])
        return 1;
    memcpy(&allocate, &names[0], sizeof allocate);
    memcpy(&release, &names[1], sizeof release);
    if (allocate(&at, (size_t)70 << 30) != 0)
        return 1;
    void *more;
    printf("20 GiB beside 70: %s", allocate(&more, (size_t)20 << 30) == 0 ? "there is room" : "no room");
    release(at);
    printf(", alone: %s\n", allocate(&more, (size_t)20 << 30) == 0 ? "there is room" : "no room");
    return 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "by-name") == 0)
        return ask_by_name();
    if (argc > 1 && strcmp(argv[1], "keeps") == 0)
        return keep_and_give_back();
    static const char function;
    void (*register_kernel)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
    int (*allocate)(void **, size_t), (*launch)(const void *, Dim, Dim, void **, size_t, void *), (*copy)(void *, const void *, size_t, int), answer = 1;
    void *names[] = {found("__cudaRegisterFunction"), found("cudaMalloc"), found("cudaLaunchKernel"), found("cudaMemcpy")}, *at,
         *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!names[0] || !names[1] || !names[2] || !names[3] || !driver)
        return 1;
    memcpy(&register_kernel, &names[0], sizeof register_kernel);
    memcpy(&allocate, &names[1], sizeof allocate);
    memcpy(&launch, &names[2], sizeof launch);
    memcpy(&copy, &names[3], sizeof copy);
    register_kernel(NULL, &function, NULL, "_Z5scalePff", -1, NULL, NULL, NULL, NULL, NULL);
    size_t gib = argc > 2 && strcmp(argv[1], "gib") == 0 ? strtoul(argv[2], NULL, 10) : argc > 1 && strcmp(argv[1], "large") == 0 ? 79 : 1;
    if (allocate(&at, gib << 30) != 0) {
        printf("no room for %zu GiB\n", gib);
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "smi") == 0) /* what others are told of it */
        return system("nvidia-smi --query-gpu=memory.used --format=csv; nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader");
    launch(&function, (Dim){1024, 1, 1}, (Dim){256, 1, 1}, NULL, 0, NULL);
    copy(&answer, at, sizeof answer, 2);
    printf("the answer is %d\n", answer);
    if (argc > 3 && strcmp(argv[3], "two") == 0) { /* and then as much again, on another device */
        int (*set)(int), (*reaches)(int *, int, int), (*enable)(int, unsigned), peers = 0;
        void *more[] = {found("cudaSetDevice"), found("cudaDeviceCanAccessPeer"), found("cudaDeviceEnablePeerAccess")};
        if (!more[0] || !more[1] || !more[2])
            return 1;
        memcpy(&set, &more[0], sizeof set);
        memcpy(&reaches, &more[1], sizeof reaches);
        memcpy(&enable, &more[2], sizeof enable);
        if (set(1) != 0 || allocate(&at, gib << 30) != 0 || reaches(&peers, 1, 0) != 0)
            return 1;
        printf("peers: %d, error %d\n", peers, enable(0, 0));
        launch(&function, (Dim){1024, 1, 1}, (Dim){256, 1, 1}, NULL, 0, NULL);
        copy(&answer, at, sizeof answer, 2);
    }
    return 0;
}
