/** @file pytorch_conf.h
 * PYTORCH_CUDA_ALLOC_CONF, read as PyTorch reads it: "KEY:VALUE,KEY:VALUE". With "release:2.N" in front, settings that came later are refused.
 */
#pragma once
#include "sim/base/units.h"

enum {
    ECH_PYTORCH_DIVISIONS = 16,
    ECH_PYTORCH_MIN_BLOCK = 512, /**< Sizes are multiples of it (CUDACachingAllocator.cpp of PyTorch 2.6.0, line 121). */
};

/** Segments and pages of the small pool, and no others' (kSmallBuffer of CUDACachingAllocator.cpp). */
#define ECH_PYTORCH_SMALL_BUFFER (UINT64_C(2) << 20)

/** What the settings say, defaults included. */
typedef struct {
    EchBytes max_split;                        /**< Larger blocks are never split; UINT64_MAX: no limit. */
    EchBytes max_non_split_rounding;           /**< A request of max_split and more takes no free block that is larger by so much. */
    EchBytes large_buffer;                     /**< Segment for requests between 1 MiB and 10 MiB, and pages of expandable segments. */
    double gc_threshold;                       /**< Of the memory it may use, 0 to 1, above which cached blocks are collected; 0: never. */
    double fraction;                           /**< per_process_memory_fraction, 0 to 1. */
    bool has_fraction;                         /**< It is given. */
    bool reject;                               /**< throw_on_cudamalloc_oom */
    double reserve;                            /**< expandable_segments_reserve: addresses of a segment, of the memory or in GiB; 0: 9/8 of the memory. */
    bool reserve_in_gib;                       /**< reserve is in GiB. */
    EchBytes pinned_round;                     /**< pinned_max_round_threshold_mb: larger pinned blocks are not rounded; UINT64_MAX: all are. */
    EchBytes pinned_cached;                    /**< pinned_max_cached_size_mb: larger pinned blocks are neither rounded nor kept; UINT64_MAX: all are. */
    EchBytes pinned_reserve;                   /**< pinned_reserve_segment_size_mb: taken at first for small pinned blocks; 0: nothing. */
    unsigned release;                          /**< N of "release:2.N"; 0: none told, which stands for 2.6 with the settings of later ones. */
    bool expandable;                           /**< expandable_segments */
    uint64_t divisions[ECH_PYTORCH_DIVISIONS]; /**< Steps between powers of two that sizes round to: [i] from 2^i MiB on, [0] below too; 0: none. */
    char *idle;                                /**< Settings among them that change no placement of device memory, "a, b", or NULL. */
    char *native;                              /**< Settings among them that only the native allocator heeds, "a, b", or NULL. */
} EchPyTorchConf;

/** Reads @text (NULL: nothing set) into *ret, which ech_pytorch_conf_clear() empties; untouched on failure. ECH_ERROR_CONFIG. */
bool ech_pytorch_conf_read(const char *text, EchPyTorchConf *ret, GError **error);
/** Frees what it owns. */
void ech_pytorch_conf_clear(EchPyTorchConf *conf);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EchPyTorchConf, ech_pytorch_conf_clear)
/** True for the name of a setting. */
bool ech_pytorch_is_setting(const char *name);

/** What a request of @bytes bytes takes at least (CUDACachingAllocator.cpp of PyTorch 2.6.0, lines 2043 to 2074; CUDAAllocatorConfig.cpp, 26 to 43). */
static inline EchBytes ech_pytorch_round(const EchPyTorchConf *conf, EchBytes bytes)
{
    const EchBytes least = ECH_PYTORCH_MIN_BLOCK;
    if (bytes < least)
        return least;
    unsigned log2 = 63u - (unsigned)__builtin_clzll(bytes);
    uint64_t divisions = conf->divisions[CLAMP((int)log2 - 20, 0, ECH_PYTORCH_DIVISIONS - 1)];
    if (divisions > 1 && bytes > least * divisions) {
        if ((bytes & (bytes - 1)) == 0)
            return bytes;
        EchBytes floor = UINT64_C(1) << log2, step = floor >> (63u - (unsigned)__builtin_clzll(divisions));
        return step ? ech_round_up(bytes, step) : floor << 1;
    }
    return (bytes + least - 1) & ~(least - 1);
}
