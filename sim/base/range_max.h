/** @file range_max.h
 * The largest of many values, of which whole ranges are raised and lowered together: what a memory holds at each moment, while arrays come and go. Each call
 * takes time that grows with the logarithm of their number.
 */
#pragma once
#include <glib.h>
#include <stdint.h>

typedef struct EchRangeMax EchRangeMax;

/** Over a copy of @values[@n], n >= 1. Sums that do not fit stay at the largest or the lowest there is. Owned by the caller. */
EchRangeMax *ech_range_max_new(const int64_t *values, size_t n) G_GNUC_WARN_UNUSED_RESULT;
void ech_range_max_free(EchRangeMax *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchRangeMax, ech_range_max_free)
/** Adds @more to each of [@first, @end), which may be empty. */
void ech_range_max_add(EchRangeMax *self, size_t first, size_t end, int64_t more);
/** The largest value; *@ret_at, if not NULL, the first place that has it. */
int64_t ech_range_max_peak(const EchRangeMax *self, size_t *ret_at);
/** The last place before @end whose value is above @limit; SIZE_MAX: none. */
size_t ech_range_max_last_above(const EchRangeMax *self, size_t end, int64_t limit);
/** All of them, into @ret_values[n]. */
void ech_range_max_values(const EchRangeMax *self, int64_t *ret_values);
