/** @file devices.h
 * Devices of one process that were replayed together, told as one run.
 */
#pragma once
#include "sim/report/report.h"

/** Of @reports[n], the place of the device that has no room, of several the one that needs most, else of the fullest. */
size_t ech_report_fullest_device(const EchReport *reports, size_t n);
/** What ech_report_json() says of the fullest device, but of all: fits, completed, makespan_ps and steps (from the first that begins to the last that
 * ends), needs of the host's memories, remarks; that a pass left it as it is only where it left all of them so. Beside it devices[]: {device, fits, hbm_bytes,
 * available_bytes}, and fullest_device. */
JsonNode *ech_report_devices_json(const EchReport *reports, size_t n) G_GNUC_WARN_UNUSED_RESULT;
