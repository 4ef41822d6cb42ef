/** @file ranks.h
 * Several ranks of a program that were replayed together: what each needs and where its time goes, its bubble too; one timeline of all of them.
 */
#pragma once
#include "sim/report/rank_times.h"
#include "sim/report/table.h"

/** The terminal's text; @plain: the same without what the command line changed, or NULL. */
GString *ech_report_ranks_text(const char *title, const EchRanks *ranks, const EchRanks *plain, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
/** One document: `ranks[]` of `{rank, trace, fits, memory{...}, step{...}, waits_for[]{...}, run{...}}`, `makespan_ps`, `step_ps`, `waits_share`, `fits`,
 * `share`
 * ("mps", "slices": processes on one device; `fullest_bytes` is what they have of its memory together then)... */
JsonNode *ech_report_ranks_json(const char *title, const EchRanks *ranks, const EchRanks *plain) G_GNUC_WARN_UNUSED_RESULT;
/** What the HTML page of all ranks draws, beside their JSON: what each does when, as one compact JSON object. Where a rank has more than @most stretches, those
 * of a moment too short to be seen become the longest of them. */
GString *ech_report_ranks_details(const EchRanks *ranks, size_t most) G_GNUC_WARN_UNUSED_RESULT;
/** Perfetto's timeline of all ranks: a process each, with its queues and links, its waiting, its memories; arrows between those who take part in a collective
 * or a message. */
GByteArray *ech_report_ranks_perfetto(const EchRanks *ranks) G_GNUC_WARN_UNUSED_RESULT;

/** Whether a run's JSON is of several ranks. */
bool ech_report_is_of_ranks(JsonObject *run);
/** Finished runs of several ranks side by side, and what changed from the first to each other, rank by rank: text, and JSON. */
GString *ech_report_ranks_compared(const EchTableRow *rows, size_t n) G_GNUC_WARN_UNUSED_RESULT;
JsonNode *ech_report_ranks_compared_json(const EchTableRow *rows, size_t n) G_GNUC_WARN_UNUSED_RESULT;
