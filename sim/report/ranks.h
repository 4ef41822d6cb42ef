/** @file ranks.h
 * Several ranks of a program that were replayed together: what each needs and where its time goes, its bubble too.
 */
#pragma once
#include "sim/report/report.h"

/** Of a rank, in one step of the program, or in all of the run where there are no steps. The times are apart, and kernels + alone + waits + rest = time. */
typedef struct {
    uint64_t rank;   /**< As the capture says it, else its place among those given. */
    EchTime time;    /**< Of the step. */
    EchTime kernels; /**< At least one kernel or copy ran. */
    EchTime alone;   /**< None did, and a collective or a message was on its way. */
    EchTime waits;   /**< Nothing ran, and a collective or a message waited for another rank: the bubble. */
    EchTime rest;    /**< Nothing ran otherwise: the host's launches, mostly. */
} EchRankStep;

/** The same step of all of the @reports[n]: the middle one of those that all have. *ret_of: of how many, 0 where it is all of the run. g_free. */
EchRankStep *ech_report_rank_steps(const EchReport *reports, size_t n, size_t *ret_which, size_t *ret_of) G_GNUC_WARN_UNUSED_RESULT;
/** The terminal's text; @plain: the same without what the command line changed, or NULL. */
GString *ech_report_ranks_text(const char *title, const EchReport *reports, const EchReport *plain, size_t n, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
/** One document: `ranks[]` of `{rank, trace, step{...}, run{...}}`, `makespan_ps`, `step_ps`, `waits_share`, `fits`. */
JsonNode *ech_report_ranks_json(const char *title, const EchReport *reports, const EchReport *plain, size_t n) G_GNUC_WARN_UNUSED_RESULT;
