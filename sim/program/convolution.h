/** @file convolution.h
 * What XLA writes beside a convolution: which dimension is what, and its window.
 */
#pragma once
#include "sim/program/program.h"

typedef struct {
    uint64_t size[8], stride[8], lhs_dilate[8], rhs_dilate[8]; /**< By dimension of the window; 1 where nothing is said. */
    int64_t pad[8];                                            /**< Of both ends together; negative where they are cut off. */
    unsigned n;
} EchHloWindow;

/** "window={size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=..}"; no dimensions where there is none. */
EchHloWindow ech_hlo_window(const EchInstruction *convolution);

/** What the dimensions of a convolution's two sides and of its result are: "b01f_01io->b01f". Borrowed, not terminated. */
typedef struct {
    const char *l, *r, *o;
    size_t ln, rn, on;
} EchHloLabels;

bool ech_hlo_labels(const EchInstruction *convolution, EchHloLabels *ret);
/** Position of @label among @labels[n], or -1. */
int ech_hlo_label_at(const char *labels, size_t n, char label);
/** The logical dimension that lies @position places from the lanes, sizes of 1 skipped: they take no part in the tile's orientation. -1 where there is none. */
int ech_hlo_physical(const EchLayout *layout, unsigned position);
/** What "feature_group_count" or "batch_group_count" (@name) says; 1 where nothing does. */
uint64_t ech_hlo_groups(const EchInstruction *convolution, const char *name);
