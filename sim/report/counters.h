/** @file counters.h
 * The hardware counters of a chip whose weights stay in its array (models/kernel/stationary.h), as lowering left them in the trace. */
#pragma once
#include "models/kernel/stationary.h"
#include "sim/report/report.h"

/** The counters of a run; false where its trace carries none. *ret_clock_hz: of the matrix unit. */
bool ech_report_counters(const EchReport *report, EchStationaryCounters *ret, double *ret_clock_hz);
/** The terminal's table of them, notes in lines of at most @columns; nothing where there is none. */
void ech_report_append_counters(GString *out, const EchReport *report, unsigned columns);
/** The member "matrix_counters" of an object that is being built; nothing where there is none. */
void ech_report_build_counters(JsonBuilder *b, const EchReport *report);
