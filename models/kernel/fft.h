/** @file fft.h
 * How cuFFT goes about transforms: kernels one after another, each of which takes all points through shared memory once. NVIDIA documents which lengths have
 * kernels (cuFFT, accuracy and performance), not how long a length one kernel does: that shows in published times (validation/gpu_times.md). Without GLib, for
 * the capture library counts by it too.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/** Points of complex f32 numbers that a block holds at most (128 KiB), and those of a kernel of a longer length's. A length of 16384 is one kernel on a V100,
 * an RTX 3080 and an RTX 4070 Ti SUPER, one of 32768 two; up to 2^22 two are enough. */
enum { ECH_FFT_BLOCK = 16384, ECH_FFT_LONG_BLOCK = 4096 };

typedef struct {
    uint64_t points;       /**< Complex ones between kernels, of all transforms. */
    uint32_t passes;       /**< Kernels, at least 1. */
    uint32_t block;        /**< Points that a block takes at once, in the kernel that takes most. */
    uint32_t instructions; /**< Of a point, in all passes together. */
    uint64_t work;         /**< Bytes of the work area. */
} EchFft;

static inline uint64_t ech_fft_times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/** Transforms of @rank (1 to 3) lengths, the fastest last, each at least 1, of complex numbers of @bytes (8: f32). @real: the numbers on one side are real;
 * @batch: how many transforms. */
static inline EchFft ech_fft_of(const uint64_t *lengths, unsigned rank, uint64_t batch, unsigned bytes, bool real)
{
    /* Of a point for every doubling of the length: 5 operations (cuFFT's own count), about as many for addresses, twiddles and exchanges. A prime factor above
     * 7 is a kernel of its own, which takes every point together with each of its others: fitted to 46189 x 48 points in f32 on an A100 (flagos-ai/FlagFFT),
     * eleven other transforms of that length are within 16 %. */
    enum { DOUBLING = 8, DIRECT = 30, LARGEST_FAST = 7, LARGEST = 127, MOST_DOUBLINGS = 62 };
    /* Of halves no more points than of doubles are one kernel's. */
    const uint64_t wide = bytes > 8 ? bytes : 8, most = (uint64_t)ECH_FFT_BLOCK * 8 / (bytes < 8 ? 16 : wide),
                   several = (uint64_t)ECH_FFT_LONG_BLOCK * 8 / wide;
    EchFft fft = {.points = batch, .block = 1};
    bool odd = false, convolved = false;
    for (unsigned d = 0; d < rank; d++) {
        uint64_t rest = lengths[d], fast = 1, own = 0;
        for (uint64_t factor = 2; factor <= LARGEST; factor++) {
            for (; rest > 1 && rest % factor == 0; rest /= factor) {
                if (factor <= LARGEST_FAST) {
                    fast *= factor;
                } else {
                    own++;
                    fft.instructions += (uint32_t)(DIRECT * factor);
                }
            }
        }
        /* Other lengths become a convolution: two transforms of at least twice the length, and a product between. */
        bool prime = rest > 1;
        unsigned doublings = 0, kernels = 1;
        uint64_t length = prime ? ech_fft_times(2, lengths[d]) : fast;
        while (doublings < MOST_DOUBLINGS && (UINT64_C(1) << doublings) < length)
            doublings++;
        for (uint64_t at = several; length > most && at < length && at <= UINT64_MAX / several; at *= several)
            kernels++;
        uint64_t block = length > most ? several : length;
        fft.block = block > fft.block ? (uint32_t)block : fft.block;
        convolved = convolved || prime;
        fft.passes += prime ? 4 * kernels + 1 : (uint32_t)own + (fast > 1 ? kernels : 0);
        fft.instructions += DOUBLING * doublings * (prime ? 4 : 1);
        /* Of an even length of real numbers pairs make complex ones. */
        odd = odd || (real && d == rank - 1 && lengths[d] % 2 == 1);
        fft.points = ech_fft_times(fft.points, real && d == rank - 1 && !odd ? lengths[d] / 2 + 1 : lengths[d]);
    }
    fft.passes = fft.passes > 0 ? fft.passes : 1;
    /* All points once, whatever the passes; twice of halves, and of an odd length of real numbers (gearshifft's results with CUDA 8; with 11.7 what nvidia-smi
     * showed, oleitersdorf/FourierPIM; arrayfire issue 1443, CUDA.jl issue 894). Of a convolution its padded signals and what they are multiplied by, each of
     * twice the length or somewhat more (powers of 19 of real numbers, gearshifft). */
    fft.work = ech_fft_times(ech_fft_times(fft.points, bytes), (bytes < 8 ? 2U : 1U) * (convolved ? 4U : odd ? 2U : 1U));
    return fft;
}
