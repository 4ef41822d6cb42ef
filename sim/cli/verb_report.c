/* echelon report: the HTML page of a finished run. */
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/run_folder.h"
#include "sim/experiment/output.h"
#include "sim/report/report.h"

#include <stdbool.h>
#include <stdio.h>

static const char of_a_sweep[] = "sweep.json";

static GString *page_of_sweep(const char *path, GError **error)
{
    g_autoptr(JsonParser) parser = ech_cli_read_sweep(path, error);
    if (!parser)
        return NULL;
    JsonObject *sweep = json_node_get_object(json_parser_get_root(parser));
    JsonNode *points = json_object_get_member(sweep, "points");
    if (!(points && JSON_NODE_HOLDS_ARRAY(points))) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: is no sweep of echelon; expected an object with a list 'points'", path);
        return NULL;
    }
    return ech_report_sweep_html(sweep);
}

/* Of the run, or ranks, that @path says. */
static GString *page_of_run(const char *folder, const char *path, GError **error)
{
    g_autofree char *beside = g_build_filename(folder, "details.json", NULL), *run = NULL, *details = NULL;
    g_autoptr(JsonParser) parser = ech_cli_read_json(path, true, &run, error);
    if (!parser)
        return NULL;
    if (!g_file_test(beside, G_FILE_TEST_EXISTS)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s holds a run's numbers alone, as a sweep keeps them, and nothing to draw; 'echelon run' with its values as --set, and -o, makes a page",
                    folder);
        return NULL;
    }
    g_autoptr(JsonParser) charts = ech_cli_read_json(beside, false, &details, error);
    return charts ? ech_report_html(run, details) : NULL;
}

int ech_verb_report(int argc, char **argv)
{
    g_autofree char *output = NULL;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "where to write the page (RUN_DIR/report.html)", "FILE"},
        {NULL, 0, 0, 0, NULL, NULL, NULL},
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (!rest[0] || rest[1]) {
        fprintf(stderr, "echelon report: expected one result folder (made by 'echelon run ... -o DIR')\n");
        return ECH_EXIT_USAGE;
    }
    GError *error = NULL;
    static const char *const names[] = {of_a_sweep, "ranks.json", "run.json"};
    const char *name = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(names) && !name; i++) {
        g_autofree char *path = g_build_filename(rest[0], names[i], NULL);
        name = g_file_test(path, G_FILE_TEST_EXISTS) ? names[i] : NULL;
    }
    if (!name) {
        fprintf(stderr, "echelon report: %s holds no finished run; expected a folder made by 'echelon run ... -o DIR'\n", rest[0]);
        return ECH_EXIT_FAILED;
    }
    g_autofree char *file = g_build_filename(rest[0], name, NULL);
    g_autoptr(GString) page = name == of_a_sweep ? page_of_sweep(file, &error) : page_of_run(rest[0], file, &error);
    if (!page)
        return ech_cli_fail(error);
    g_autofree char *path = output ? g_strdup(output) : g_build_filename(rest[0], "report.html", NULL);
    if (!ech_output_file(path, page->str, page->len, &error))
        return ech_cli_fail(error);
    g_autofree char *line = g_strdup_printf("%s\n", path);
    ech_cli_print(line);
    return ECH_EXIT_DONE;
}
