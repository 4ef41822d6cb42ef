/* Several captures: ranks of one program, a capture each; or the devices of one. */
#include "sim/cli/ranks_cli.h"

#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/run_folder.h"
#include "sim/experiment/devices.h"
#include "sim/import/import.h"
#include "sim/report/json_out.h"
#include "sim/report/ranks.h"
#include "sim/trace/select.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    EchResult *results[ECH_MAX_RANKS];
    EchReport reports[ECH_MAX_RANKS];
    size_t n;
    EchRanks *ranks; /* of the reports */
} Together;

static void together_clear(Together *together)
{
    ech_ranks_free(together->ranks);
    for (size_t i = 0; i < together->n; i++)
        ech_result_free(together->results[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Together, together_clear)

/* Those that say no number stay in the order in which they are given. */
static int by_rank(const void *a, const void *b, void *user)
{
    uint64_t x = ech_trace_number((*(EchResult *const *)a)->trace, 0), y = ech_trace_number((*(EchResult *const *)b)->trace, 0);
    (void)user;
    return (x > y) - (x < y);
}

/* Takes what ran, in order of the numbers. */
static void take_results(Together *ret, size_t n)
{
    ret->n = n;
    g_qsort_with_data(ret->results, (gint)ret->n, sizeof *ret->results, by_rank, NULL);
    for (size_t i = 0; i < ret->n; i++)
        ret->reports[i] = ech_result_report(ret->results[i]);
    ret->ranks = ech_ranks_new(ret->reports, ret->n);
}

static bool run_together(GPtrArray *experiments, EchTogether how, Together *ret, GError **error)
{
    if (!ech_experiment_run_together((EchExperiment *const *)(void *)experiments->pdata, experiments->len, how, ret->results, error))
        return false;
    take_results(ret, experiments->len);
    return true;
}

static bool run_devices(EchExperiment *experiment, const EchCase *c, Together *ret, GError **error)
{
    GPtrArray *results = ech_experiment_run_whole(experiment, c, error);
    if (!results)
        return false;
    memcpy(ret->results, results->pdata, results->len * sizeof *ret->results);
    take_results(ret, results->len);
    g_free(g_ptr_array_steal(results, NULL));
    g_ptr_array_unref(results);
    return true;
}

/* ---- what is one rank's alone ---- */

/* What is behind "ranks.2."; *ret_rank: 2. NULL: it is every rank's. */
static const char *setting_of_rank(const char *setting, uint64_t *ret_rank)
{
    char *end = NULL;
    if (!g_str_has_prefix(setting, "ranks.") || !g_ascii_isdigit(setting[6]))
        return NULL;
    *ret_rank = g_ascii_strtoull(setting + 6, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

static bool any_of_rank(const char *const *settings)
{
    uint64_t rank;
    bool any = false;
    for (; settings && *settings; settings++)
        any = any || setting_of_rank(*settings, &rank);
    return any;
}

/* Settings of every rank and, where @own, those of rank @number; all of them are noted in @used. Owned by the caller, the texts borrowed. */
static const char **settings_of(const char *const *settings, bool own, uint64_t number, bool *used)
{
    g_autoptr(GPtrArray) its = g_ptr_array_new();
    for (size_t i = 0; settings && settings[i]; i++) {
        uint64_t rank;
        const char *rest = setting_of_rank(settings[i], &rank);
        if (rest && (!own || rank != number))
            continue;
        used[i] = true;
        g_ptr_array_add(its, (gpointer)(uintptr_t)(rest ? rest : settings[i]));
    }
    g_ptr_array_add(its, NULL);
    return (const char **)(void *)g_ptr_array_steal(its, NULL);
}

/* The capture at @path, the @place-th of those given. */
static EchExperiment *load_rank(const EchExperimentOverrides *overrides, const char *path, uint64_t place, bool *used, GError **error)
{
    EchExperimentOverrides own = *overrides;
    g_autofree const char **every = settings_of(overrides->settings, false, 0, used);
    own.trace = path;
    own.settings = every;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &own, error);
    if (!experiment || !any_of_rank(overrides->settings))
        return g_steal_pointer(&experiment);
    const EchImport *import = ech_experiment_import(experiment, error); /* whose they are, only the captures tell */
    if (!import)
        return NULL;
    g_autofree const char **its = settings_of(overrides->settings, true, ech_trace_number(import->trace, place), used);
    own.settings = its;
    EchExperiment *with_its = ech_experiment_load(NULL, &own, error);
    if (with_its)
        ech_experiment_take_imports(with_its, experiment);
    return with_its;
}

static bool load_ranks(const EchExperimentOverrides *overrides, char **more, GPtrArray *experiments, GError **error)
{
    const char *const *settings = overrides->settings;
    size_t n_settings = settings ? g_strv_length((char **)(uintptr_t)settings) : 0;
    g_autofree bool *used = g_new0(bool, n_settings + 1);
    for (const char *path = overrides->trace; path; path = *more++) {
        EchExperiment *experiment = load_rank(overrides, path, experiments->len, used, error);
        if (!experiment)
            return false;
        g_ptr_array_add(experiments, experiment);
        if (experiment->n_cases > 1) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                        "sweep: varies runs of one trace; of several ranks, which are replayed together, expected one run each, and "
                        "'echelon compare' of their folders");
            return false;
        }
    }
    for (size_t i = 0; i < n_settings; i++)
        if (!used[i]) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--set %s: no capture of that rank is given", settings[i]);
            return false;
        }
    return true;
}

/* ---- what is told ---- */

/* @node: the document, @json as text. */
static bool write_ranks(const char *folder, const Together *together, JsonNode *node, const char *json, const char *summary, GError **error)
{
    JsonArray *runs = json_object_get_array_member(json_node_get_object(node), "ranks");
    const size_t most = MAX(ECH_HTML_SPANS / together->n, 1000);
    g_autoptr(EchOutput) output = ech_output_new(folder, error);
    g_autoptr(GString) details = ech_report_ranks_details(together->ranks, most);
    g_autoptr(GString) html = ech_report_html(json, details->str);
    g_autoptr(GByteArray) perfetto = ech_report_ranks_perfetto(together->ranks);
    g_autofree char *plain = ech_plain(summary);
    bool ok = output && ech_output_write(output, "ranks.json", json, strlen(json), error) &&
              ech_output_write(output, "summary.txt", plain, strlen(plain), error) && ech_output_write(output, "report.html", html->str, html->len, error) &&
              ech_output_write(output, "details.json", details->str, details->len, error) &&
              ech_output_write(output, "timeline.pftrace", perfetto->data, perfetto->len, error);
    for (size_t i = 0; ok && i < together->n; i++) {
        g_autofree char *name = g_strdup_printf("%03zu/", i);
        g_autofree char *own = ech_json_print(json_object_get_member(json_array_get_object_element(runs, (guint)i), "run"));
        g_autoptr(GString) text = ech_report_summary(&together->reports[i], 0);
        ok = ech_cli_write_run(output, name, &together->reports[i], own, text->str, error);
    }
    return ok && ech_output_commit(output, error);
}

static int tell_ranks(const char *title, const Together *together, const Together *plain, const char *output, bool json)
{
    GError *error = NULL;
    g_autoptr(JsonNode) node = ech_report_ranks_json(title, together->ranks, plain->ranks);
    g_autofree char *document = ech_json_print(node);
    bool fits = json_object_get_boolean_member(json_node_get_object(node), "fits");
    if (output) {
        g_autoptr(GString) kept = ech_report_ranks_text(title, together->ranks, plain->ranks, 0); /* The same bytes from every terminal. */
        if (!write_ranks(output, together, node, document, kept->str, &error))
            return ech_cli_fail(error);
    }
    g_autoptr(GString) text = ech_report_ranks_text(title, together->ranks, plain->ranks, ech_cli_columns());
    ech_cli_print(json ? document : text->str);
    if (output)
        fprintf(stderr, "wrote %s: report.html and timeline.pftrace (ui.perfetto.dev) of all ranks, ranks.json, summary.txt and a folder for each rank\n",
                output);
    return fits ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}

/* Whether @trace is a rank's, by what it says or does. */
static bool is_of_rank(const EchTrace *trace)
{
    return ech_trace_get_property(trace, "rank") != NULL || ech_trace_has_op(trace, ECH_OP_COLLECTIVE);
}

/* "step.*.pretend" of a program of one process that ran twice. */
static void say_strangers(const Together *together)
{
    bool any = false;
    for (size_t i = 0; i < together->n && !any; i++)
        any = is_of_rank(together->results[i]->trace);
    if (!any)
        fprintf(stderr, "note these captures know of no rank and meet nowhere: were they several runs of one program, each is given alone\n");
}

/* Replays @experiments, of ranks, and tells it. */
static int run_and_tell(GPtrArray *experiments, const char *title, const char *output, bool json)
{
    GError *error = NULL;
    g_auto(Together) together = {.n = 0}, plain = {.n = 0};
    if (!run_together(experiments, ECH_TOGETHER_ASKED, &together, &error))
        return ech_cli_fail(error);
    bool shared = together.ranks->share != ECH_SHARE_NONE;
    if (!shared)
        say_strangers(&together);
    bool changed = shared;
    for (guint i = 0; i < experiments->len; i++)
        changed = changed || ((const EchExperiment *)experiments->pdata[i])->plain;
    if (changed)
        (void)run_together(experiments, shared ? ECH_TOGETHER_APART : ECH_TOGETHER_PLAIN, &plain,
                           NULL); /* where they do not run without them there is nothing to say */
    return tell_ranks(title, &together, &plain, output, json);
}

int ech_cli_run_devices(EchExperiment *experiment, const char *output, bool json)
{
    GError *error = NULL;
    g_auto(Together) together = {.n = 0}, plain = {.n = 0};
    if (!run_devices(experiment, &experiment->cases[0], &together, &error))
        return ech_cli_fail(error);
    if (experiment->plain)
        (void)run_devices(experiment, experiment->plain, &plain, NULL);
    return tell_ranks(experiment->title, &together, &plain, output, json);
}

int ech_cli_ranks(const EchExperimentOverrides *overrides, char **more, const char *output, bool json)
{
    GError *error = NULL;
    const char *refused =
        g_strv_length(more) >= ECH_MAX_RANKS ? "more than 64 ranks"
        : overrides->find   ? "--find: searches with one trace; of several ranks, which are replayed together, try values by --set, one run each, "
                              "and 'echelon compare' their folders"
        : overrides->beside ? "--beside: of several ranks each has its own; expected it beside the capture under the same stem (STEM.pickle)"
        : overrides->engine && strcmp(overrides->engine, "simgrid") == 0 ? "--engine simgrid: replays one trace; several ranks share the native engine"
                                                                         : NULL;
    if (refused) {
        fprintf(stderr, "echelon run: %s\n", refused);
        return ECH_EXIT_USAGE;
    }
    g_autoptr(GPtrArray) experiments = g_ptr_array_new_with_free_func((GDestroyNotify)ech_experiment_free);
    if (!load_ranks(overrides, more, experiments, &error))
        return ech_cli_fail(error);
    g_autofree char *title = g_strdup_printf("%s and %u more", ((const EchExperiment *)experiments->pdata[0])->title, experiments->len - 1);
    return run_and_tell(experiments, title, output, json);
}
