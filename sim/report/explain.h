/** @file explain.h
 * What changed between two runs and why, in sentences computed from their JSON: the resource whose share of the critical path moved most and
 * what it had to do, the memory whose need moved most and what it held at its fullest, what offloading saved and what it cost.
 */
#pragma once
#include "sim/report/report.h"
#include "sim/report/table.h"

/** Bytes of a memory that a run needs: of a program by its plan, else the most that is live. */
gint64 ech_run_memory_bytes(JsonObject *run, const char *name);
/** Sentences, most telling first; owned, elements freed with the array. Empty where either run is missing. */
GPtrArray *ech_explain_change(JsonObject *a, JsonObject *b) G_GNUC_WARN_UNUSED_RESULT;
/** What changes from EchReport.plain to the run, or one sentence that nothing does; empty without it. Elements freed with the array. */
GPtrArray *ech_report_changes(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
/** One run on its own, as a start: what it takes, what bounds it, what its fullest memory holds. */
GPtrArray *ech_explain_run(JsonObject *run) G_GNUC_WARN_UNUSED_RESULT;

/** A step of an explanation: from row @from to row @to; @from is SIZE_MAX for the start. */
typedef struct {
    size_t from, to;
} EchExplainStep;
/** An axis of more values than these has more steps than anyone reads. */
enum { ECH_EXPLAIN_VALUES = 16 };
/** The steps that explain a grid of runs: the first run, then along each axis, with the others at the values at which it matters most (of @rows, one a run),
 * from @bases[axis][value] to each value (where that is itself: a start); of an axis of more than ECH_EXPLAIN_VALUES the whole way and the steps that tell
 * most. Rows that are left out have none. @sizes[n_axes], last axis fastest. Free with g_free. */
EchExplainStep *ech_explain_steps(const EchTableRow *rows, const size_t *sizes, const size_t *const *bases, size_t n_axes,
                                  size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;
/** The run that run @index of such a grid is compared with: the one where its last axis that is not at its own base is there. */
size_t ech_explain_base(const size_t *sizes, const size_t *const *bases, size_t n_axes, size_t index);

/** The steps as the member "changes" of the object that is open: from which row to which, and the sentences. */
void ech_explain_json(JsonBuilder *b, const EchTableRow *rows, const EchExplainStep *steps, size_t n);
/** The steps as text in lines of at most @columns (0: ECH_TEXT_COLUMNS), each under the labels of its rows; neighbours that say the same are taken together.
 * Starts with an empty line; empty without steps. */
GString *ech_explain_text(const EchTableRow *rows, const EchExplainStep *steps, size_t n, unsigned columns) G_GNUC_WARN_UNUSED_RESULT;
