/** @file cuda_cli.h
 * What `validate --engine cuda` and `run --engine cuda` share.
 */
#pragma once
#include "sim/experiment/experiment.h"

/** Predicts and measures the one case of an experiment on the GPU that is here and prints both. @path and @overrides as for ech_experiment_load (the engine is
 * ignored); @spec: options of the CUDA engine, or NULL; @repeats: 0 for the engine's own. Returns an exit code; without a driver or a GPU one
 * message and ECH_EXIT_FAILED, before anything is read. */
int ech_cli_cuda(const char *path, const EchExperimentOverrides *overrides, const char *spec, unsigned repeats, bool json);
