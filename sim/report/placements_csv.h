/** @file placements_csv.h
 * Where an allocator put each allocation, as comma-separated values: event,id,requested,rounded,segment,offset,address. An allocation that failed, or that was
 * answered with a null pointer, has only the first three; an address in a reservation is written E<reservation>+<offset>.
 */
#pragma once
#include "models/alloc/events.h"

/** Writes @placed (EchPlacedEvent) of @events (EchAllocEvent) to @path. G_FILE_ERROR. */
bool ech_placements_csv_write(const char *path, const GArray *events, const GArray *placed, GError **error);
