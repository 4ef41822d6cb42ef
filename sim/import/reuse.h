/** @file reuse.h
 * Which bytes a program used a short while ago: a cache may still have them.
 */
#pragma once
#include "models/kernel/gpu.h"

#include <glib.h>

/** What a device used last, by address: each byte once, the newest use of it, back to ECH_GPU_NEAR_MOST bytes. */
typedef struct EchReuse EchReuse;

EchReuse *ech_reuse_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_reuse_free(EchReuse *reuse);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchReuse, ech_reuse_free)

/** [@address, @address + @bytes) is read or @written now. Adds to @near[i] what of it was used before, with no more than ech_gpu_near_limit(i) bytes used
 * since, the rest of the range that it was used with among them (the stack distance of Mattson et al., 1970, in bytes): where it is read, each such byte; where
 * it is written, those that had been written, which a cache that writes back need not have brought to memory meanwhile. Only the newest thousand ranges are
 * known. */
void ech_reuse_take(EchReuse *reuse, uint64_t address, uint64_t bytes, bool written, uint64_t near[ECH_GPU_NEAR]);
