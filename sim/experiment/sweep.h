/** @file sweep.h
 * Runs all cases of an experiment, in this process or in forked workers, and collects what each says as JSON.
 */
#pragma once
#include "sim/experiment/experiment.h"

#include <signal.h>

/** What became of one case. */
typedef struct {
    char *json;       /**< The run as JSON text, or NULL. */
    char *error;      /**< Why there is none, or NULL. */
    bool interrupted; /**< There is none because an interrupt came before it. */
} EchSweepPoint;

/** The point of a case that an interrupt came before. */
EchSweepPoint ech_sweep_left_out(void);

/** Has an interrupt been asked for? @stop as in ech_sweep_run(). */
static inline bool ech_stopped(const volatile sig_atomic_t *stop)
{
    return stop && *stop != 0;
}
/** Called after every finished case. */
typedef void (*EchSweepProgress)(size_t done, size_t total, void *data);

/** Runs every case; @jobs workers (1: none). The result has n_cases points, in order whatever the workers did; a case that cannot run has its error and does
 * not stop the others. Once *@stop is not 0 (NULL: never) no case is begun any more, and those that were not have that for an error. Free with ech_sweep_free.
 * G_FILE_ERROR, or the error of the first import. */
EchSweepPoint *ech_sweep_run(EchExperiment *experiment, unsigned jobs, const volatile sig_atomic_t *stop, EchSweepProgress progress, void *data,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_sweep_free(EchSweepPoint *points, size_t n);
/** {title, axes, points: [{label, values, fits, makespan_ps, run} or {label, values, error}], changes: [{from, to, why: [sentences]}]}; from and to number
 * points, the first change is the start and has no from. Where cases were left out by an interrupt, they have, and it has, "interrupted": true. */
JsonNode *ech_sweep_json(const EchExperiment *experiment, const EchSweepPoint *points, GError **error) G_GNUC_WARN_UNUSED_RESULT;
