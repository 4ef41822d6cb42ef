/** @file coarsen.h
 * Smaller placement problems whose plans are plans of the whole: what lives through the same time is stacked, what follows without a
 * gap at the same size is chained. Programs reuse memory that way, and a search over a third of the items often ends at once where the
 * whole does not end at all. Nothing follows from a coarse problem that has no plan. Not for callers of planners.
 */
#pragma once
#include "models/alloc/plan_internal.h"

/** An item with one life and one size. */
typedef struct {
    int64_t begin, end; /**< Half-open, not empty; only order and equality count. */
    EchBytes bytes;     /**< Not 0. */
    EchBytes alignment; /**< At least 1. */
    bool fixed;         /**< Has a shape of its own (several sizes): it is only carried over. */
} EchBar;

/** Where an item of one problem lies in the next. */
typedef struct {
    uint32_t bar;
    EchBytes above; /**< That far above the start of the bar. */
} EchBarPlace;

/** Stacks items of equal life, if one's size does not spoil the next one's alignment. Fills ret_bars[<= n] and ret_places[n]; returns how
 * many bars there are. */
size_t ech_coarsen_stack(const EchBar *bars, size_t n, EchBar *ret_bars, EchBarPlace *ret_places);
/** Chains items of equal size, and of alignments that agree, where one begins as another ends. The same results. */
size_t ech_coarsen_chain(const EchBar *bars, size_t n, EchBar *ret_bars, EchBarPlace *ret_places);
