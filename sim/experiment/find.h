/** @file find.h
 * Where does it tip? The number between two bounds at which an experiment begins or ceases to do what is asked: the least memory that it fits into, the slowest
 * link that does not slow it down.
 *
 *     find: {path: device.memories.hbm.capacity, values: 1GiB..16GiB}                      # for: fits
 *     find: {path: [device.links.host.to_device, device.links.host.from_device], values: x0.1..x1, for: time<=x1.05}
 *     find: {name: budget, path: passes, values: "prefetch:budget={1MiB..2GiB}", for: [time<=10ms, host<=4GiB]}
 *
 * The bounds are numbers of one kind: whole numbers, decimal ones, factors, or with a unit; what stands around them in braces stays. Asked for is `fits`, or
 * WHAT<=LIMIT: `time`, or the bytes that a memory needs; a limit is a time or a size, or xNUMBER of what it is without the edit. A run that does not fit
 * answers nothing. Both bounds are run, then halves of the interval, down to neighbours (whole numbers) or four digits: what is asked for is taken to hold on
 * one side of one point. Under a sweep, every combination has its own answer.
 */
#pragma once
#include "sim/experiment/sweep.h"

/** What is looked for; of an experiment. */
typedef struct EchFind EchFind;

/** Reads the map `find:`. ECH_ERROR_CONFIG with the place. */
EchFind *ech_find_read(const EchYamlNode *node, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_find_free(EchFind *find);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchFind, ech_find_free)
/** Paths that are edited, NULL-terminated; borrowed. */
char **ech_find_paths(const EchFind *find);
/** True where what is tried are factors of what stands there (x0.5..x2). */
bool ech_find_multiplies(const EchFind *find);

/** What was found. */
typedef struct {
    EchExperiment *experiment; /**< The runs to show: all that were tried, in ascending order; or of each combination of a sweep the one at its answer. */
    EchSweepPoint *points;     /**< Of these. */
    char **labels;             /**< labels[n_cases]: of rows; NULL-terminated. */
    char *heading;             /**< What labels are. */
    char *text;                /**< What was asked and the answers, in lines. */
    JsonNode *json; /**< {name, paths, values, for, answers: [{label, holds, found, beyond, up_and_down, text}]}; holds is "from", "up to", "throughout" or
                       "nowhere"; "unknown" where it was interrupted too soon, and where "error" says why nothing could be found. */
    size_t at[2];   /**< Without a sweep: the run at the answer and the nearest where it does not hold; SIZE_MAX where there is none. */
    bool *close;    /**< close[n_cases]: runs so near the answer that a table for people can do without them; NULL where all runs are answers. */
    bool somewhere; /**< It holds somewhere in every combination. */
} EchFound;

/** Looks; @experiment has a find. A combination of a sweep that cannot be run has its error and does not stop the others; where none can, the first's is
 * it. @stop: as for ech_sweep_run; at least one run is made. */
EchFound *ech_find_run(EchExperiment *experiment, const volatile sig_atomic_t *stop, EchSweepProgress progress, void *data,
                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_found_free(EchFound *found);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchFound, ech_found_free)
