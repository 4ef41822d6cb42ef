/* cuRAND: numbers that are written, and none of them random. A generator's own state, which takes memory of the device, is not told. */
#include "pretend.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    void *stream;
} Generator;

PRETEND_EXPORT int curandCreateGenerator(void **ret, int type)
{
    (void)type;
    *ret = calloc(1, sizeof(Generator));
    return *ret ? 0 : 102; /* CURAND_STATUS_ALLOCATION_FAILED */
}

PRETEND_EXPORT int curandDestroyGenerator(void *generator)
{
    free(generator);
    return 0;
}

PRETEND_EXPORT int curandSetStream(void *generator, void *stream)
{
    ((Generator *)generator)->stream = stream;
    return 0;
}

PRETEND_EXPORT int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed)
{
    (void)generator, (void)seed;
    return 0;
}

PRETEND_EXPORT int curandSetGeneratorOffset(void *generator, unsigned long long offset)
{
    (void)generator, (void)offset;
    return 0;
}

PRETEND_EXPORT int curandSetGeneratorOrdering(void *generator, int order)
{
    (void)generator, (void)order;
    return 0;
}

PRETEND_EXPORT int curandSetQuasiRandomGeneratorDimensions(void *generator, unsigned dimensions)
{
    (void)generator, (void)dimensions;
    return 0;
}

PRETEND_EXPORT int curandGenerateSeeds(void *generator)
{
    (void)generator;
    return 0;
}

static int write_numbers(const void *generator, const char *name, void *to, size_t n, unsigned bytes)
{
    char launch[96];
    snprintf(launch, sizeof launch, "elements=%zu operand_bytes=%u class=elementwise", n, bytes);
    pretend_use(PRETEND_WRITES, to, n * bytes);
    pretend_library_kernel(((const Generator *)generator)->stream, name, launch, 0, n * bytes, 0, NULL);
    return 0;
}

#define NUMBERS(name, bytes)                                                                                                                                   \
    PRETEND_EXPORT int name(void *generator, void *to, size_t n)                                                                                               \
    {                                                                                                                                                          \
        return write_numbers(generator, #name, to, n, bytes);                                                                                                  \
    }
NUMBERS(curandGenerate, 4)
NUMBERS(curandGenerateLongLong, 8)
NUMBERS(curandGenerateUniform, 4)
NUMBERS(curandGenerateUniformDouble, 8)

#define NORMAL(name, bytes, T)                                                                                                                                 \
    PRETEND_EXPORT int name(void *generator, void *to, size_t n, T mean, T deviation)                                                                          \
    {                                                                                                                                                          \
        (void)mean, (void)deviation;                                                                                                                           \
        return write_numbers(generator, #name, to, n, bytes);                                                                                                  \
    }
NORMAL(curandGenerateNormal, 4, float)
NORMAL(curandGenerateLogNormal, 4, float)
NORMAL(curandGenerateNormalDouble, 8, double)
NORMAL(curandGenerateLogNormalDouble, 8, double)

PRETEND_EXPORT int curandGeneratePoisson(void *generator, void *to, size_t n, double lambda)
{
    (void)lambda;
    return write_numbers(generator, "curandGeneratePoisson", to, n, 4);
}
