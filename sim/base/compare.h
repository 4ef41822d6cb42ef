/** @file compare.h
 * Orders of plain numbers, for qsort() and g_array_sort(), and the search of what is in order.
 */
#pragma once

#include <stdint.h>

static inline int ech_compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/** Of byte counts as well. */
static inline int ech_compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/** Of times as well. */
static inline int ech_compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static inline int ech_compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Leaves @low at the first place @at of [low, high) of which @before does not hold, at @high where there is none. It holds up to some place, and nowhere
 * after. */
#define ECH_SEARCH(low, high, at, before)                                                                                                                      \
    while ((low) < (high)) {                                                                                                                                   \
        const __typeof__(low) at = (low) + ((high) - (low)) / 2;                                                                                               \
        if (before)                                                                                                                                            \
            (low) = at + 1;                                                                                                                                    \
        else                                                                                                                                                   \
            (high) = at;                                                                                                                                       \
    }
