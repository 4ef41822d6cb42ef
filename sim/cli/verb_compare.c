/* echelon compare: finished runs side by side, and what changed from the first to each other; of captures, who holds their memory. */
#include "sim/cli/cli.h"
#include "sim/cli/run_folder.h"

#include "sim/base/error.h"
#include "sim/experiment/alloc_compare.h"
#include "sim/import/import.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/ranks.h"

#include <stdint.h>
#include <stdio.h>

/* run.json of a result folder, ranks.json of several ranks, or the file itself. Sweeps are told apart by their name. */
static JsonParser *load_run(const char *path, GError **error)
{
    bool is_folder = g_file_test(path, G_FILE_TEST_IS_DIR);
    g_autofree char *of_ranks = is_folder ? g_build_filename(path, "ranks.json", NULL) : NULL;
    bool several = of_ranks && g_file_test(of_ranks, G_FILE_TEST_EXISTS);
    g_autofree char *file = several ? g_strdup(of_ranks) : is_folder ? g_build_filename(path, "run.json", NULL) : g_strdup(path);
    g_autofree char *sweep = is_folder ? g_build_filename(path, "sweep.json", NULL) : NULL;
    if (sweep && g_file_test(sweep, G_FILE_TEST_EXISTS)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: holds a sweep; give the folders of its runs (%s/000, ...)", path, path);
        return NULL;
    }
    if (!g_file_test(file, G_FILE_TEST_EXISTS)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT, "%s holds no finished run; expected a folder made by 'echelon run ... -o DIR'", path);
        return NULL;
    }
    return ech_cli_read_json(file, true, NULL, error);
}

/* From the first run to each other. */
static EchExplainStep *steps_from_first(size_t n)
{
    EchExplainStep *steps = g_new(EchExplainStep, n);
    for (size_t i = 0; i < n; i++)
        steps[i] = (EchExplainStep){i ? 0 : SIZE_MAX, i};
    return steps;
}

static JsonNode *compare_json(const EchTableRow *rows, size_t n)
{
    static const char *const members[] = {"may_fit", "completed", "bound_by", "critical_path", "needs", "links"}; /* as the run has them */
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_begin_array(b, "runs");
    gint64 first = ech_member_bool(rows[0].run, "completed") ? ech_member_int(rows[0].run, "makespan_ps") : 0;
    for (size_t i = 0; i < n; i++) {
        bool comparable = first > 0 && ech_member_bool(rows[i].run, "completed"); /* a run that stopped has no time of its own */
        gint64 makespan = ech_member_int(rows[i].run, "makespan_ps");
        json_builder_begin_object(b);
        ech_json_add_text(b, "label", rows[i].label);
        ech_json_add_text(b, "title", ech_member_text(rows[i].run, "title"));
        ech_json_add_bool(b, "fits", ech_member_bool(rows[i].run, "fits"));
        ech_json_add_int(b, "makespan_ps", makespan);
        ech_json_add_mean(b, "relative", comparable ? (double)makespan / (double)first : -1);
        for (size_t m = 0; m < G_N_ELEMENTS(members); m++) {
            JsonNode *node = json_object_dup_member(rows[i].run, members[m]);
            if (!node)
                continue;
            json_builder_set_member_name(b, members[m]);
            json_builder_add_value(b, node);
        }
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    g_autofree EchExplainStep *steps = steps_from_first(n);
    ech_explain_json(b, rows, steps, n);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}

/* Whether a path is of a finished run, not of a capture: a folder, or the document of a run. */
static bool is_run(const char *path)
{
    if (g_file_test(path, G_FILE_TEST_IS_DIR))
        return true;
    g_autoptr(EchSource) source = ech_source_open(path, NULL);
    size_t n = 0;
    const uint8_t *head = source ? ech_source_head(source, &n) : NULL;
    return !n || ech_head_has(head, n, "\"makespan_ps\"");
}

/* Captures: who holds their memory. */
static int compare_captures(char **paths, size_t n, bool json)
{
    g_autoptr(GPtrArray) studies = g_ptr_array_new_with_free_func((GDestroyNotify)(void (*)(void))ech_alloc_study_free);
    for (size_t i = 0; i < n; i++) {
        GError *error = NULL;
        EchAllocStudy *study = ech_alloc_study_read(paths[i], &(EchAllocStudyOptions){0}, &error);
        if (!study)
            return ech_cli_fail(error);
        g_ptr_array_add(studies, study);
        if (!study->trace)
            return ech_cli_fail(
                g_error_new(ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: does not say who asked for what: there is nothing to compare it by", paths[i]));
    }
    EchAllocStudy *const *all = (EchAllocStudy *const *)studies->pdata;
    if (json) {
        g_autofree char *text = ech_alloc_compare_json(all, paths, n);
        ech_cli_print(text);
    } else {
        g_autoptr(GString) text = ech_alloc_compare_text(all, paths, n, ech_cli_columns());
        ech_cli_print(text->str);
    }
    return ECH_EXIT_DONE;
}

int ech_verb_compare(int argc, char **argv)
{
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "print one JSON document", NULL},
        {NULL, 0, 0, 0, NULL, NULL, NULL},
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    size_t n = g_strv_length(rest);
    if (n < 2) {
        fprintf(stderr, "echelon compare: expected two or more result folders, or captures\n");
        return ECH_EXIT_USAGE;
    }
    size_t n_runs = 0;
    for (size_t i = 0; i < n; i++)
        n_runs += is_run(rest[i]);
    if (n_runs == 0)
        return compare_captures(rest, n, json);
    for (size_t i = 0; i < n && n_runs < n; i++) {
        if (!is_run(rest[i]))
            return ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_CONFIG,
                                            "%s: no finished run, which others here are; 'echelon run --trace FILE --device NAME -o DIR' makes one", rest[i]));
    }
    g_autofree EchTableRow *rows = g_new0(EchTableRow, n);
    g_autoptr(GPtrArray) parsers = g_ptr_array_new_with_free_func(g_object_unref);
    for (size_t i = 0; i < n; i++) {
        GError *error = NULL;
        JsonParser *parser = load_run(rest[i], &error);
        if (!parser)
            return ech_cli_fail(error);
        g_ptr_array_add(parsers, parser);
        rows[i] = (EchTableRow){.label = rest[i], .run = json_node_get_object(json_parser_get_root(parser))};
    }
    bool of_ranks = ech_report_is_of_ranks(rows[0].run);
    for (size_t i = 1; i < n; i++)
        if (ech_report_is_of_ranks(rows[i].run) != of_ranks) {
            const char *several = of_ranks ? rest[0] : rest[i];
            return ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_CONFIG,
                                            "%s: holds a run of several ranks, %s one of a single trace; compare one of its ranks (%s/000, ...)", several,
                                            of_ranks ? rest[i] : rest[0], several));
        }
    if (json) {
        JsonNode *node = of_ranks ? ech_report_ranks_compared_json(rows, n) : compare_json(rows, n);
        g_autofree char *text = ech_json_print(node);
        json_node_unref(node);
        ech_cli_print(text);
        return ECH_EXIT_DONE;
    }
    if (of_ranks) {
        g_autoptr(GString) text = ech_report_ranks_compared(rows, n);
        ech_cli_print(text->str);
        return ECH_EXIT_DONE;
    }
    g_autoptr(GString) out = ech_report_table("run", rows, n, ech_cli_columns());
    g_autofree EchExplainStep *steps = steps_from_first(n);
    g_autoptr(GString) changes = ech_explain_text(rows, steps, n, ech_cli_columns());
    g_string_append_printf(out, "\n  What changed, and why\n%s", changes->str);
    for (size_t i = 1; i < n; i++) {
        g_autoptr(GString) difference = ech_report_difference(rows[0].label, rows[0].run, rows[i].label, rows[i].run);
        g_string_append(out, difference->str);
    }
    ech_cli_print(out->str);
    return ECH_EXIT_DONE;
}
