/** @file fnv.h
 * FNV-1a: a hash that is the same in every process, for what is written and printed. Tables in memory take hash.h's.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/** Of nothing: what to begin with. */
#define ECH_FNV UINT64_C(14695981039346656037)

/** @hash with @bytes[n] behind what it is of. */
static inline uint64_t ech_fnv(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}
