/** @file run_folder.h
 * The folder of one run: what scripts, viewers and `echelon report` take.
 */
#pragma once
#include "sim/experiment/output.h"
#include "sim/report/report.h"

#include <json-glib/json-glib.h>

/** Most spans that a page draws. */
enum { ECH_HTML_SPANS = 20000 };

/** Reads a file that echelon wrote as JSON: an object, of a run (@is_run) one that says how long it takes. @ret_text: as it stands there, or NULL. */
JsonParser *ech_cli_read_json(const char *path, bool is_run, char **ret_text, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** Reads a sweep's. Of each point's run only what its page draws is kept: 10,000 whole ones are gigabytes. */
JsonParser *ech_cli_read_sweep(const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** Writes the folder @folder, "" or "NAME/" of @output, but for timelines; @json and @summary: the run as both. */
bool ech_cli_write_run(EchOutput *output, const char *folder, const EchReport *report, const char *json, const char *summary, GError **error);
/** Its timelines, which several ranks share one of. */
bool ech_cli_write_timelines(EchOutput *output, const EchReport *report, GError **error);
