/** @file sweep.h
 * Runs all cases of an experiment, in this process or in forked workers, and collects what each says as JSON.
 */
#pragma once
#include "sim/experiment/experiment.h"
#include "sim/report/explain.h"

#include <signal.h>
#include <stdio.h>

/** What became of one case. */
typedef struct {
    GBytes *run; /**< What the run says, packed: as text it takes some 20 times as much, as objects 100 times. ech_sweep_point_text() unpacks it. Or NULL. */
    char *error; /**< Why there is none, or NULL. */
    bool interrupted; /**< There is none because an interrupt came before it. */
} EchSweepPoint;

/** The run as JSON text; owned by the caller. NULL where there is none. */
char *ech_sweep_point_text(const EchSweepPoint *point) G_GNUC_WARN_UNUSED_RESULT;
/** The same, read. */
JsonNode *ech_sweep_point_json(const EchSweepPoint *point) G_GNUC_WARN_UNUSED_RESULT;
/** The point of a run that says @run. */
EchSweepPoint ech_sweep_point(JsonNode *run) G_GNUC_WARN_UNUSED_RESULT;
void ech_sweep_point_clear(EchSweepPoint *point);

/** The point of a case that an interrupt came before. */
EchSweepPoint ech_sweep_left_out(void);

/** Has an interrupt been asked for? @stop as in ech_sweep_run(). */
static inline bool ech_stopped(const volatile sig_atomic_t *stop)
{
    return stop && *stop != 0;
}
/** Called after every finished case, and for each that is told. */
typedef void (*EchSweepProgress)(size_t done, size_t total, void *data);

/** Runs every case; @jobs workers (1: none). The result has n_cases points, in order whatever the workers did; a case that cannot run has its error and does
 * not stop the others. Once *@stop is not 0 (NULL: never) no case is begun any more, and those that were not have that for an error. Free with ech_sweep_free.
 * G_FILE_ERROR, or the error of the first import. */
EchSweepPoint *ech_sweep_run(EchExperiment *experiment, unsigned jobs, const volatile sig_atomic_t *stop, EchSweepProgress progress, void *data,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_sweep_free(EchSweepPoint *points, size_t n);

/** The points side by side. Of most of the runs only what tables and pages say of any is there, for 10,000 whole ones are gigabytes. */
typedef struct {
    size_t n;
    EchTableRow *rows;     /**< rows[n], without labels; runs are what ech_report_table_run() leaves of them, of the rows of steps whole. */
    EchExplainStep *steps; /**< steps[n_steps] */
    size_t n_steps;
} EchSweepRows;

/** @points stay, and are borrowed. */
EchSweepRows *ech_sweep_rows(const EchExperiment *experiment, const EchSweepPoint *points, EchSweepProgress progress, void *data) G_GNUC_WARN_UNUSED_RESULT;
/** Has row @index's run whole. */
void ech_sweep_rows_whole(EchSweepRows *rows, const EchSweepPoint *points, size_t index);
void ech_sweep_rows_free(EchSweepRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchSweepRows, ech_sweep_rows_free)

/** {title, axes, points: [{label, values, fits, makespan_ps, run} or {label, values, error}], changes: [{from, to, why: [sentences]}]}; from and to number
 * points, the first change is the start and has no from. Where cases were left out by an interrupt, they have, and it has, "interrupted": true. Runs are as
 * in @rows. */
JsonNode *ech_sweep_json(const EchExperiment *experiment, const EchSweepPoint *points, const EchSweepRows *rows) G_GNUC_WARN_UNUSED_RESULT;
/** Writes @sweep, which ech_sweep_json() made, as text, but with all runs whole: one point after the other. @plain: for a terminal (ech_plain). False: errno
 * says why. */
bool ech_sweep_write(JsonNode *sweep, const EchSweepPoint *points, size_t n, bool plain, FILE *out, EchSweepProgress progress, void *data);
