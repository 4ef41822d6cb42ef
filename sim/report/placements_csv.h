/** @file placements_csv.h
 * Where an allocator put each allocation, as comma-separated values: event,id,requested,rounded,segment,offset,address. An allocation that failed, or that was
 * answered with a null pointer, has only the first three; an address in a reservation is written E<reservation>+<offset>.
 */
#pragma once
#include "models/alloc/events.h"

/** @placed (EchPlacedEvent) of @events (EchAllocEvent). */
GString *ech_placements_csv_print(const GArray *events, const GArray *placed) G_GNUC_WARN_UNUSED_RESULT;
