/** @file ranks_cli.h
 * `echelon run` of several captures: ranks of one program, replayed together; and of one capture of a program on several devices.
 */
#pragma once
#include "sim/experiment/experiment.h"

/** Replays the --trace and those of @more (NULL-terminated), tells it, and writes the folder @output where that is not NULL. Settings "ranks.2.PATH=VALUE" are
 * that rank's alone. Returns an exit code. */
int ech_cli_ranks(const EchExperimentOverrides *overrides, char **more, const char *output, bool json);

/** Devices that a capture without measured times holds, owned by the caller; NULL where that is one, or @experiment is of another kind or cannot be read. */
uint32_t *ech_cli_devices(EchExperiment *experiment, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** Appends to @experiments one of each of @devices[n] of the capture that @whole has read, which has to outlive them. */
bool ech_cli_load_devices(const EchExperimentOverrides *overrides, const EchExperiment *whole, const uint32_t *devices, size_t n, GPtrArray *experiments,
                          GError **error);
/** As ech_cli_ranks() of @devices[n] of the capture that @whole, of the same @overrides, has read. */
int ech_cli_run_devices(const EchExperimentOverrides *overrides, const EchExperiment *whole, const uint32_t *devices, size_t n, const char *output, bool json);
