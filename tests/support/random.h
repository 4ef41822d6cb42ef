/** @file random.h
 * Random numbers of property tests and benchmarks: a seed gives the same ones on every machine.
 */
#pragma once
#include <glib.h>
#include <stdint.h>
#include <stdio.h>

/** Xorshift (Marsaglia, 2003, 13-7-17). @state is never 0. */
static inline uint64_t ech_test_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/** The seed of a whole run: ECH_SEED, else always the same. */
static inline uint64_t ech_test_seed(void)
{
    const char *given = g_getenv("ECH_SEED");
    return given ? g_ascii_strtoull(given, NULL, 0) : 20261121;
}

/** A state to draw round number @round from. */
static inline uint64_t ech_test_seed_of(int round)
{
    return (ech_test_seed() + (uint64_t)round + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

/** Says what to set to see a failure again. */
static inline void ech_test_print_seed(void)
{
    printf("seeds come from %" G_GUINT64_FORMAT " (ECH_SEED sets it)\n", ech_test_seed());
    fflush(stdout);
}
