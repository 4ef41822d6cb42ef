/* echelon report: the HTML page of a finished run. */
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/run_folder.h"
#include "sim/experiment/output.h"
#include "sim/report/report.h"

#include <stdbool.h>
#include <stdio.h>

/* What the charts draw. The folders of a sweep's runs have it not. */
static bool has_details(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, "details.json", NULL);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static const char of_a_sweep[] = "sweep.json";

/* A file of a result folder: one JSON object; a sweep's with its points, a run's with its time. *ret_text: what it says, as it is. */
static JsonParser *read_json(const char *folder, const char *name, bool is_run, char **ret_text, GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    g_autoptr(JsonParser) parser = ech_cli_read_json(path, is_run, &text, error);
    if (!parser)
        return NULL;
    JsonNode *points = json_object_get_member(json_node_get_object(json_parser_get_root(parser)), "points");
    if (name == of_a_sweep && !(points && JSON_NODE_HOLDS_ARRAY(points))) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: is no sweep of echelon; expected an object with a list 'points'", path);
        return NULL;
    }
    *ret_text = g_steal_pointer(&text);
    return g_steal_pointer(&parser);
}

static GString *page_of_run(const char *folder, const char *run, GError **error)
{
    g_autofree char *details = NULL;
    g_autoptr(JsonParser) parser = read_json(folder, "details.json", false, &details, error);
    return parser ? ech_report_html(run, details) : NULL;
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
    g_autofree char *run = NULL;
    bool sweep = name == of_a_sweep;
    g_autoptr(JsonParser) parser = read_json(rest[0], name, !sweep, &run, &error);
    if (run && !sweep && !has_details(rest[0])) {
        fprintf(
            stderr,
            "echelon report: %s holds a run's numbers alone, as a sweep keeps them, and nothing to draw; 'echelon run' with its values as --set, and -o, makes "
            "a page\n",
            rest[0]);
        return ECH_EXIT_FAILED;
    }
    g_autoptr(GString) page = !run    ? NULL
                              : sweep ? ech_report_sweep_html(json_node_get_object(json_parser_get_root(parser)))
                                      : page_of_run(rest[0], run, &error);
    if (!page)
        return ech_cli_fail(error);
    g_autofree char *path = output ? g_strdup(output) : g_build_filename(rest[0], "report.html", NULL);
    if (!ech_output_file(path, page->str, page->len, &error))
        return ech_cli_fail(error);
    g_autofree char *line = g_strdup_printf("%s\n", path);
    ech_cli_print(line);
    return ECH_EXIT_DONE;
}
