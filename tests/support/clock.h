/** @file clock.h
 * Seconds, for benchmarks.
 */
#pragma once
#include <time.h>

/** Processor time of this process: what else the machine does then counts little. */
static inline double ech_test_cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/** Wall time, for what happens in another process. */
static inline double ech_test_wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
