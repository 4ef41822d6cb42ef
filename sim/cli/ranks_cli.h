/** @file ranks_cli.h
 * `echelon run` of several captures: ranks of one program, replayed together; and of one capture of a program on several devices.
 */
#pragma once
#include "sim/experiment/experiment.h"

/** Replays the --trace and those of @more (NULL-terminated), tells it, and writes the folder @output where that is not NULL. Settings "ranks.2.PATH=VALUE" are
 * that rank's alone. Returns an exit code. */
int ech_cli_ranks(const EchExperimentOverrides *overrides, char **more, const char *output, bool json);

/** The first case of @experiment, whose capture is of several devices of one process (ech_experiment_devices()), likewise. */
int ech_cli_run_devices(EchExperiment *experiment, const char *output, bool json);
