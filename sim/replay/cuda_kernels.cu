// Kernels of the CUDA engine and of calibration: some that move bytes, some that do arithmetic, one that waits, one that checks.
// The program embeds cuda_kernels.ptx, which `nvcc -ptx -arch=compute_80 cuda_kernels.cu` makes; a test compares them where nvcc is. Its .version line is
// lowered by hand to 7.4, which every driver since CUDA 11.4 reads and ptxas takes.
#include <stdint.h>

// Reads `reads` and writes `writes` 16-byte words, all of the grid together, the smaller number of both copied. `sink` keeps the reads alive. Four words of
// every thread are on their way at a time: memory as far away as HBM3e's is not busy with fewer. Three blocks of 512 threads on a multiprocessor leave each
// thread the registers for that; told nothing, ptxas saves registers and has a thread wait after every second or third word.
extern "C" __global__ void __launch_bounds__(512, 3) echelon_stream(const uint4 *__restrict__ source, uint4 *__restrict__ target, uint64_t reads, uint64_t writes, uint32_t *sink)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x, i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t both = reads < writes ? reads : writes;
    uint4 sum = make_uint4(0, 0, 0, 0);
    for (; i + 3 * step < both; i += 4 * step) {
        uint4 a = source[i], b = source[i + step], c = source[i + 2 * step], d = source[i + 3 * step];
        target[i] = a;
        target[i + step] = b;
        target[i + 2 * step] = c;
        target[i + 3 * step] = d;
    }
    for (; i < both; i += step)
        target[i] = source[i];
    uint64_t w = i;
    for (; i + 3 * step < reads; i += 4 * step) {
        uint4 a = source[i], b = source[i + step], c = source[i + 2 * step], d = source[i + 3 * step];
        sum.x ^= a.x ^ b.x ^ c.x ^ d.x;
        sum.y ^= a.y ^ b.y ^ c.y ^ d.y;
        sum.z ^= a.z ^ b.z ^ c.z ^ d.z;
        sum.w ^= a.w ^ b.w ^ c.w ^ d.w;
    }
    for (; i < reads; i += step) {
        uint4 a = source[i];
        sum.x ^= a.x;
        sum.y ^= a.y;
        sum.z ^= a.z;
        sum.w ^= a.w;
    }
    for (; w < writes; w += step)
        target[w] = make_uint4((uint32_t)w, 1, 2, 3);
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u)
        *sink = sum.x;
}

static __device__ uint32_t folded(uint4 word)
{
    return word.x ^ word.y ^ word.z ^ word.w;
}

// Reads 16-byte words `stride` words apart, wrapping at mask + 1 words, a power of two: strided access, or a small range over and over.
extern "C" __global__ void echelon_strided(const uint4 *__restrict__ source, uint64_t mask, uint64_t stride, uint64_t reads, uint32_t *sink)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x, i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + 3 * step < reads; i += 4 * step) {
        uint4 a = __ldcg(&source[i * stride & mask]), b = __ldcg(&source[(i + step) * stride & mask]);
        uint4 c = __ldcg(&source[(i + 2 * step) * stride & mask]), d = __ldcg(&source[(i + 3 * step) * stride & mask]);
        sum ^= folded(a) ^ folded(b) ^ folded(c) ^ folded(d);
    }
    for (; i < reads; i += step)
        sum ^= folded(__ldcg(&source[i * stride & mask]));
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

static __device__ uint64_t hashed(uint64_t i)
{
    uint64_t x = i * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 29);
}

// Reads 16-byte words at hashed places of mask + 1: random access.
extern "C" __global__ void echelon_random(const uint4 *__restrict__ source, uint64_t mask, uint64_t reads, uint32_t *sink)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x, i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + 3 * step < reads; i += 4 * step) {
        uint4 a = __ldcg(&source[hashed(i) & mask]), b = __ldcg(&source[hashed(i + step) & mask]);
        uint4 c = __ldcg(&source[hashed(i + 2 * step) & mask]), d = __ldcg(&source[hashed(i + 3 * step) & mask]);
        sum ^= folded(a) ^ folded(b) ^ folded(c) ^ folded(d);
    }
    for (; i < reads; i += step)
        sum ^= folded(__ldcg(&source[hashed(i) & mask]));
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

// One thread follows `steps` links of a chain of word indices, from the one in `at`, where it leaves the last: latency. One run after the other so never comes
// to what those before it have left in the cache.
extern "C" __global__ void echelon_chase(const uint32_t *next, uint64_t steps, uint32_t *at)
{
    uint32_t place = *at;
    for (uint64_t i = 0; i < steps; i++)
        place = __ldcg(&next[place]);
    *at = place;
}

// `rounds` rounds of 16 float32 multiply-adds (32 operations) in every thread.
extern "C" __global__ void echelon_fma(uint64_t rounds, float factor, float *sink)
{
    float a[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        a[k] = (float)(threadIdx.x + k);
    for (uint64_t i = 0; i < rounds; i++) {
#pragma unroll
        for (int k = 0; k < 16; k++)
            a[k] = a[k] * factor + 0.5f;
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum += a[k];
    if (sum == 0.12345f)
        *sink = sum;
}

// The same in float64.
extern "C" __global__ void echelon_fma64(uint64_t rounds, double factor, double *sink)
{
    double a[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        a[k] = (double)(threadIdx.x + k);
    for (uint64_t i = 0; i < rounds; i++) {
#pragma unroll
        for (int k = 0; k < 16; k++)
            a[k] = a[k] * factor + 0.5;
    }
    double sum = 0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum += a[k];
    if (sum == 0.12345)
        *sink = sum;
}

// `rounds` rounds of 16 exponentials of special-function lanes in every thread.
extern "C" __global__ void echelon_exp(uint64_t rounds, float *sink)
{
    float a[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        a[k] = (float)(threadIdx.x + k) * 1e-3f;
    for (uint64_t i = 0; i < rounds; i++) {
#pragma unroll
        for (int k = 0; k < 16; k++)
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a[k]));
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum += a[k];
    if (sum == 0.12345f)
        *sink = sum;
}

// `rounds` rounds of 4 independent bf16 16x8x16 tensor-core products (4 x 4096 operations) in every warp.
extern "C" __global__ void echelon_mma(uint64_t rounds, float *sink)
{
    float c[4][4] = {};
    uint32_t a0 = 0x3f803f80u ^ threadIdx.x, a1 = a0 + 1, a2 = a0 + 2, a3 = a0 + 3, b0 = 0x3f003f00u, b1 = b0 + threadIdx.x;
    for (uint64_t i = 0; i < rounds; i++) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3])
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
        sum += c[k][0] + c[k][1] + c[k][2] + c[k][3];
    if (sum == 0.12345f)
        *sink = sum;
}

// Runs for `nanoseconds` by the device's own clock: a recorded duration.
extern "C" __global__ void echelon_spin(uint64_t nanoseconds)
{
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}

// Counts words that differ from `pattern`.
extern "C" __global__ void echelon_verify(const uint32_t *data, uint64_t words, uint32_t pattern, uint32_t *differing)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint32_t count = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        count += data[i] != pattern;
    if (count)
        atomicAdd(differing, count);
}

// Fills with noise that is a number in every format multiplied here: sign and mantissa by chance, magnitudes between 2^-7 and 2 (as bf16; float16: 1 to 2).
// What a matrix product costs in power, and so in time, depends on its data.
extern "C" __global__ void echelon_noise(uint32_t *target, uint64_t words, uint32_t seed)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        target[i] = ((uint32_t)hashed(i + seed) & 0x83ff83ffu) | 0x3c003c00u;
    }
}
