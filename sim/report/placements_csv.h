/** @file placements_csv.h
 * Where an allocator put each allocation, as comma-separated values: event,id,requested,rounded,segment,offset,address. An allocation that failed, or that was
 * answered with a null pointer, has only the first three; an address in a reservation is written E<reservation>+<offset>.
 */
#pragma once
#include "models/alloc/events.h"
#include "sim/trace/trace.h"

/** @placed (EchPlacedEvent) of @events (EchAllocEvent). Ids are the events' numbers, or where @named is not NULL the names of its buffers of those numbers. */
GString *ech_placements_csv_print(const GArray *events, const GArray *placed, const EchTrace *named) G_GNUC_WARN_UNUSED_RESULT;
