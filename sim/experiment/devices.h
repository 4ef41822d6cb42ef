/** @file devices.h
 * A case over all devices of one process, where its capture holds several: replayed together, and told as one run.
 */
#pragma once
#include "sim/experiment/experiment.h"

/** Devices that the capture of @c holds, and that are to be run together: owned by the caller. NULL where that is one, where they are more than ECH_MAX_RANKS,
 * where the case chooses one (capture_device) or a program, or cannot be read. */
uint32_t *ech_experiment_devices(EchExperiment *experiment, const EchCase *c, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Runs @c, all devices of its process together: EchResult, one for each device in their order, or one alone. Owned by the caller. Errors as
 * ech_experiment_run() has them. */
GPtrArray *ech_experiment_run_whole(EchExperiment *experiment, const EchCase *c, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** What such @results say, as ech_report_json() has it, of several devices as ech_report_devices_json(). */
JsonNode *ech_results_json(const GPtrArray *results, bool brief) G_GNUC_WARN_UNUSED_RESULT;
