/** @file meetings.h
 * Who met whom in a recording of several devices that does not say so: collectives and kernels that communicate, by their names and their recorded times. All
 * who take part in one run it at the same time, under the same name, and are through with it together; where all devices run the same, each as often, and that
 * holds for turn after turn, the turns tell it, of broadcasts too, whose root is through early.
 */
#pragma once
#include "sim/import/capture.h"

/** Lets items of @items (EchItem) that are of one meeting say so (EchItem.meets); a kernel becomes a collective of unknown bytes then. What says whom it meets
 * is left alone. @devices: of each queue. How many of them do now. */
uint64_t ech_meetings_find(EchTraceBuilder *builder, GArray *items, const uint32_t *devices);
