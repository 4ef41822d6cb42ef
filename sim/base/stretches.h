/** @file stretches.h
 * Stretches of time on which something worked, put in order and without overlaps: how much of them lies before a time.
 */
#pragma once
#include "sim/base/units.h"

#include <glib.h>

typedef struct {
    EchTime begin, end;
    EchTime before; /**< Time of all stretches before this one; set by ech_stretches_merge(). */
} EchStretch;

/** Sorts @stretches (EchStretch), joins those that touch or overlap, and sums up what lies before each. */
void ech_stretches_merge(GArray *stretches);
/** Time of merged @stretches that lies before @time. */
EchTime ech_stretches_before(const GArray *stretches, EchTime time);
