/** @file run_folder.h
 * The folder of one run: what scripts, viewers and `echelon report` take.
 */
#pragma once
#include "sim/experiment/output.h"
#include "sim/report/report.h"

/** Most spans that a page draws. */
enum { ECH_HTML_SPANS = 20000 };

/** Writes the folder @folder, "" or "NAME/" of @output, but for timelines; @json and @summary: the run as both. */
bool ech_cli_write_run(EchOutput *output, const char *folder, const EchReport *report, const char *json, const char *summary, GError **error);
/** Its timelines, which several ranks share one of. */
bool ech_cli_write_timelines(EchOutput *output, const EchReport *report, GError **error);
