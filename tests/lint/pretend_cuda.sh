#!/usr/bin/env bash
# CUDA C++ on an NVIDIA GPU that is not there: what nvcc's PTX of each kernel is told to read, to write and to compute, beside what its source says, from arrays in
# one allocation; and that machine code alone is said to be that. Skipped (77) without nvcc and python3.
set -u
command -v nvcc >/dev/null && command -v python3 >/dev/null || { echo "no nvcc or python3 here"; exit 77; }
echelon=${2:?usage: pretend_cuda.sh SOURCE ECHELON}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

cat >kernels.cu <<'CU'
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
namespace cg = cooperative_groups;

struct Arrays { const float *a; float *b; int n; float scale; };

__global__ void stream(Arrays x) // a grid-stride loop over four floats at a time
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < x.n / 4; i += gridDim.x * blockDim.x) {
        float4 v = reinterpret_cast<const float4 *>(x.a)[i];
        v.x *= x.scale, v.y *= x.scale, v.z *= x.scale, v.w *= x.scale;
        reinterpret_cast<float4 *>(x.b)[i] = v;
    }
}
template <int TILE> __global__ void product(const float *a, const float *b, float *c, int n)
{
    __shared__ float p[TILE][TILE], q[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        p[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        q[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += p[threadIdx.y][i] * q[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
__global__ void tensor_cores(const half *a, const half *b, float *c, int n)
{
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> p;
    fragment<matrix_b, 16, 16, 16, half, col_major> q;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(p, a + blockIdx.y * 16 * n + k, n);
        load_matrix_sync(q, b + blockIdx.x * 16 * n + k, n);
        mma_sync(sum, p, q, sum);
    }
    store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, mem_row_major);
}
__global__ void softmax(float *x, int columns) // a row a block, read twice
{
    extern __shared__ float scratch[];
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float *row = x + (size_t)blockIdx.x * columns, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += expf(row[i]);
    for (int d = 16; d > 0; d /= 2)
        sum += warp.shfl_down(sum, d);
    if (warp.thread_rank() == 0)
        scratch[threadIdx.x / 32] = sum;
    block.sync();
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        row[i] = expf(row[i]) / scratch[0];
}
__global__ void gather(const float *table, const int *which, float *to, int columns)
{
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        to[blockIdx.x * columns + i] = table[(size_t)which[blockIdx.x] * columns + i];
}
__global__ void histogram(const unsigned char *from, unsigned *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&bins[from[i]], 1u);
}
__global__ void doubles(const double *a, double *b) { b[threadIdx.x] = a[threadIdx.x] * 3 + 1; }

int main()
{
    char *arena;
    if (cudaMalloc(&arena, 1 << 30) != cudaSuccess)
        return 1;
    char *a = arena + (64 << 20), *b = arena + (128 << 20), *c = arena + (256 << 20);
    int which[256];
    for (int i = 0; i < 256; i++)
        which[i] = i % 8 * 3;
    cudaMemcpy(c, which, sizeof which, cudaMemcpyHostToDevice);
    stream<<<432, 256>>>(Arrays{(float *)a, (float *)b, 10000000, 2});
    product<16><<<dim3(64, 64), dim3(16, 16)>>>((float *)a, (float *)b, (float *)c, 1024);
    tensor_cores<<<dim3(32, 32), 32>>>((half *)a, (half *)b, (float *)c, 512);
    softmax<<<1000, 256, 32>>>((float *)a, 4096);
    cudaMemcpy(c, which, sizeof which, cudaMemcpyHostToDevice);
    gather<<<256, 128>>>((float *)a, (int *)c, (float *)b, 1024);
    histogram<<<4096, 256>>>((unsigned char *)a, (unsigned *)b, 1 << 20);
    doubles<<<1, 64>>>((double *)a, (double *)b);
    printf("%d\n", (int)cudaDeviceSynchronize());
}
CU

nvcc -O3 -std=c++17 -arch=sm_80 kernels.cu -o told || exit 1
"$echelon" capture --pretend a100-80 -o told -- ./told 2>log || { cat log; exit 1; }
grep -q "without PTX" log && { cat log; exit 1; }
python3 - told.*.pretend <<'PY' || exit 1
import sys

# Bytes read and written, operations of lanes on 32 and 64 bits, of tensor cores; how far each may be off (what a sample of the blocks tells).
expected = {
    "stream": (40e6, 40e6, 10e6, 0, 0, 0.001),
    "product": (8 << 20, 4 << 20, 2 * 1024**3, 0, 0, 0.001),
    "tensor_cores": (1 << 20, 1 << 20, 0, 0, 2 * 512**3, 0.001),
    "softmax": (16384000, 16384000, None, 0, 0, 0.001),
    "gather": (22 * 4096 + 1024, 1 << 20, 0, 0, 0, 0.001),  # eight rows, and what lies between them
    "histogram": ((1 << 20) + 1024, 1024, 0, 0, 0, 0.02),  # bytes that are not known may be any
    "doubles": (512, 512, 0, 128, 0, 0),
}
names, found, kernel = {}, {}, None
for line in open(sys.argv[1]):
    word, *rest = line.split()
    if word == "name":
        names[rest[0]] = line.split('"')[1]
    elif word == "kernel":
        kernel = next(k for k in expected if k in names[rest[3]].split("(")[0])
        found[kernel] = [0, 0, 0, 0, 0]
    elif word == "uses" and kernel:
        for how, bytes_ in zip(rest[::3], rest[2::3]):
            found[kernel][int(how) - 1] += int(bytes_)
    elif word == "lanes":
        found[kernel][2:4] = map(int, rest[:2])
    elif word == "products":
        found[kernel][4] = int(rest[1])
    else:
        kernel = kernel if word == "args" else None
bad = [(k, found.get(k), e) for k, e in expected.items()
       if k not in found or any(w is not None and abs(f - w) > e[5] * w for f, w in zip(found[k], e))]
for row in bad:
    print("told and expected:", *row)
sys.exit(bool(bad))
PY

"$echelon" run --trace told.*.pretend --device a100-80 >log || { cat log; exit 1; }
grep -q "Kernel times: 7 own code" log && grep -q "own code: by accesses" log || { cat log; exit 1; }

nvcc -O3 -std=c++17 -gencode arch=compute_80,code=sm_80 kernels.cu -o untold || exit 1
"$echelon" capture --pretend a100-80 -o untold -- ./untold 2>log || { cat log; exit 1; }
grep -q "7 launches of kernels without PTX are given places within larger allocations" log || { cat log; exit 1; }

# Between GPUs that the program tells to reach one another copies go straight, else over the host's memory.
cat >peers.cu <<'CU'
#include <cuda_runtime.h>
int main(int n, char **)
{
    void *x, *y;
    cudaSetDevice(0);
    cudaMalloc(&x, 1 << 28);
    if (n > 1 && cudaDeviceEnablePeerAccess(1, 0) != cudaSuccess)
        return 1;
    cudaSetDevice(1);
    cudaMalloc(&y, 1 << 28);
    cudaMemcpyPeerAsync(y, 1, x, 0, 1 << 28, 0);
    return cudaDeviceSynchronize();
}
CU
nvcc -gencode arch=compute_80,code=sm_80 peers.cu -o peers || exit 1
for how in "" straight; do
  "$echelon" capture --pretend a100-80 --gpus 2 -o "peers$how" -- ./peers $how 2>log || { cat log; exit 1; }
  "$echelon" run --trace "peers$how".*.pretend --device a100-80 >log || { cat log; exit 1; }
  [ "$(grep -c 'after cudaDeviceEnablePeerAccess() of either they would go straight' <(tr -s '\n ' ' ' <log))" = "$([ "$how" ] && echo 0 || echo 1)" ] || { cat log; exit 1; }
done
