/** @file gaps.h
 * A set of free address ranges that answers "the lowest range at or above A with at least N bytes" in logarithmic time:
 * a treap by address, each node knowing the longest range below it. First fit, next fit and the simulated device stand on it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t address, bytes; /**< The free range. */
    uint64_t longest;        /**< Most bytes of a range in this subtree. */
    uint32_t left, right;    /**< Node numbers, 0 none; left also links spare nodes. */
    uint32_t priority;
} EchGap;

/** Zero-initialised is an empty set. */
typedef struct {
    EchGap *nodes; /**< nodes[0] is unused. */
    uint32_t n_nodes, allocated, spare, root;
    uint32_t seed;
} EchGaps;

/** Frees what it holds; the set is empty afterwards. */
void ech_gaps_clear(EchGaps *gaps);
/** Adds a range that overlaps none there, joined with the ranges it touches. */
void ech_gaps_add(EchGaps *gaps, uint64_t address, uint64_t bytes);
/** Lowest address >= @from in a range with at least @bytes bytes from there (a range that begins below @from is used from its own
 * beginning only). False if none. */
bool ech_gaps_find(const EchGaps *gaps, uint64_t from, uint64_t bytes, uint64_t *ret_address);
/** Takes @bytes bytes at @address, which must lie in one range. */
void ech_gaps_take(EchGaps *gaps, uint64_t address, uint64_t bytes);
/** The range that begins at or below @address and is the last such; false if none. */
bool ech_gaps_at(const EchGaps *gaps, uint64_t address, uint64_t *ret_address, uint64_t *ret_bytes);
/** Calls @fn for each range in address order. */
void ech_gaps_each(const EchGaps *gaps, void (*fn)(uint64_t address, uint64_t bytes, void *data), void *data);
