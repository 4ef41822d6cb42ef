/** @file ranks_cli.h
 * `echelon run` of several captures: ranks of one program, replayed together.
 */
#pragma once
#include "sim/experiment/experiment.h"

/** Replays the --trace and those of @more (NULL-terminated), tells it, and writes the folder @output where that is not NULL. Settings "ranks.2.PATH=VALUE" are
 * that rank's alone. Returns an exit code. */
int ech_cli_ranks(const EchExperimentOverrides *overrides, char **more, const char *output, bool json);
