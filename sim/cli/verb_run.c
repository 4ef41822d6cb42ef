/* echelon run: what-if, one run or a sweep. */
#include "sim/cli/cli.h"

#include "sim/base/error.h"
#include "sim/base/param.h"
#include "sim/cli/cuda_cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/ranks_cli.h"
#include "sim/cli/run_folder.h"
#include "sim/experiment/devices.h"
#include "sim/experiment/find.h"
#include "sim/experiment/output.h"
#include "sim/experiment/sweep.h"
#include "sim/import/folder.h"
#include "sim/replay/replay.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/table.h"
#include "sim/report/text.h"
#include "sim/trace/select.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    char *trace, *device, *allocator, *host_allocator, *engine, *format, *beside, *step, *output, *find;
    char **traces, **passes, **settings, **goals;
    gint jobs;
    gboolean json;
} RunOptions;

static void options_clear(RunOptions *options)
{
    g_free(options->trace);
    g_strfreev(options->traces);
    g_free(options->device);
    g_free(options->allocator);
    g_free(options->host_allocator);
    g_free(options->engine);
    g_free(options->format);
    g_free(options->beside);
    g_free(options->step);
    g_free(options->output);
    g_strfreev(options->passes);
    g_strfreev(options->settings);
    g_free(options->find);
    g_strfreev(options->goals);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(RunOptions, options_clear)

static void run_progress(uint64_t done, uint64_t total, void *data)
{
    ech_cli_progress(data, done, total);
}

static void sweep_progress(size_t done, size_t total, void *data)
{
    ech_cli_progress(data, done, total);
}

static int run_one(EchExperiment *experiment, const RunOptions *options)
{
    GError *error = NULL;
    char label[] = "replaying";
    ech_replay_set_progress(run_progress, label);
    g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, &error);
    ech_replay_set_progress(NULL, NULL);
    ech_cli_progress(label, 1, 1);
    if (!result)
        return ech_cli_fail(error);
    EchReport report = ech_result_report(result);
    /* What the changes on the command line are worth; where it does not run without them there is nothing to say. */
    g_autoptr(EchResult) plain = experiment->plain ? ech_experiment_run_plain(experiment, NULL) : NULL;
    EchReport plain_report = plain ? ech_result_report(plain) : (EchReport){0};
    plain_report.brief = true;
    g_autoptr(JsonNode) plain_json = plain ? ech_report_json(&plain_report) : NULL;
    report.plain = plain_json ? json_node_get_object(plain_json) : NULL;
    g_autoptr(JsonNode) node = experiment->brief ? NULL : ech_report_json(&report);
    g_autofree char *json = node ? ech_json_print(node) : NULL;
    g_autoptr(GString) summary = options->json ? NULL : ech_report_summary(&report, ech_cli_columns());
    if (options->output) {
        g_autoptr(GString) kept = ech_report_summary(&report, 0); /* The same bytes from every terminal. */
        g_autoptr(EchOutput) output = ech_output_new(options->output, &error);
        if (!output || !ech_cli_write_run(output, "", &report, json, kept->str, &error) || !ech_cli_write_timelines(output, &report, &error) ||
            !ech_output_commit(output, &error))
            return ech_cli_fail(error);
    }
    ech_cli_print(options->json ? json : summary->str);
    if (options->output)
        fprintf(stderr, "wrote %s: report.html, timeline.json.gz and timeline.pftrace (ui.perfetto.dev), run.json, summary.txt, *.pprof.gz\n", options->output);
    bool fits = ech_report_fits(&report);
    if (!fits && options->json)
        ech_cli_say("echelon: %s does not fit on %s\n", report.title, report.device->name);
    return fits ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}

/* The runs of a sweep, or of a search. */
typedef struct {
    const char *title, *heading, *answer; /* answer: of a search, or NULL */
    const EchTableRow *rows;
    size_t n;
    const bool *close; /* Rows that the table leaves out; or NULL. */
    bool most;         /* The steps are those that tell most of very many. */
    const EchExplainStep *steps;
    size_t n_steps;
} Sweep;

static char *sweep_text(const Sweep *sweep, unsigned columns)
{
    g_autofree EchTableRow *shown = g_new0(EchTableRow, sweep->n);
    g_autofree size_t *place = g_new(size_t, sweep->n); /* Of each row in the table; SIZE_MAX: not there. */
    size_t n_shown = 0, n_close = 0, n_left = 0;
    for (size_t i = 0; i < sweep->n; i++) {
        bool close = sweep->close && sweep->close[i], left = sweep->rows[i].left_out;
        n_close += close;
        n_left += left;
        place[i] = close || left ? SIZE_MAX : n_shown;
        if (!close && !left)
            shown[n_shown++] = sweep->rows[i];
    }
    for (size_t i = 0; i < n_shown; i++)
        shown[i].base = place[shown[i].base];
    g_autoptr(GString) table = ech_report_table(sweep->heading, shown, n_shown, columns);
    if (n_close)
        g_string_append_printf(table, "  (%zu more were tried, closer to it; --json tells them)\n", n_close);
    g_autoptr(GString) changes = ech_explain_text(sweep->rows, sweep->steps, sweep->n_steps, columns);
    g_autoptr(GString) answer = g_string_new(NULL);
    if (n_left)
        g_string_append_printf(answer, "  Interrupted: %zu of %zu runs were made.\n", sweep->n - n_left, sweep->n);
    g_auto(GStrv) lines = g_strsplit(sweep->answer ? sweep->answer : "", "\n", -1);
    for (char **line = lines; *line; line++) {
        if (**line)
            ech_text_wrap(answer, "  ", *line, columns ? columns : ECH_TEXT_COLUMNS);
    }
    if (answer->len)
        g_string_append_c(answer, '\n');
    return g_strdup_printf("%s\n\n%s%s\n  What changed%s, and why\n%s", sweep->title, answer->str, table->str, sweep->most ? " most" : "", changes->str);
}

/* Why nothing ran, where that is the same of all points; else NULL. */
static const char *error_of_all(const EchSweepPoint *points, size_t n)
{
    bool same = true;
    for (size_t i = 0; same && i < n; i++)
        same = points[i].error && !points[i].interrupted && strcmp(points[i].error, points[0].error) == 0;
    return same ? points[0].error : NULL;
}

static bool write_sweep(EchOutput *output, JsonNode *sweep, const EchSweepPoint *points, size_t n, GError **error)
{
    static const char name[] = "sweep.json";
    char writing[] = "writing";
    FILE *file = ech_output_open(output, name, error);
    return file && ech_output_close(output, name, file, ech_sweep_write(sweep, points, n, false, file, sweep_progress, writing), error);
}

/* What the runs say, to the terminal and to the folder. @found: they are a search's, or NULL. */
static int tell_sweep(const EchExperiment *experiment, const EchSweepPoint *points, const EchFound *found, const RunOptions *options)
{
    GError *error = NULL;
    size_t n = experiment->n_cases;
    char comparing[] = "comparing", writing[] = "writing";
    g_autoptr(EchSweepRows) runs = ech_sweep_rows(experiment, points, sweep_progress, comparing);
    g_autoptr(JsonNode) node = experiment->brief ? NULL : ech_sweep_json(experiment, points, runs);
    if (node && found)
        json_object_set_member(json_node_get_object(node), "find", json_node_copy(found->json));
    EchTableRow *rows = runs->rows;
    g_autoptr(GPtrArray) labels = g_ptr_array_new_with_free_func(g_free);
    size_t failed = 0, fitting = 0;
    for (size_t i = 0; i < n; i++) {
        g_ptr_array_add(labels, found ? g_strdup(found->labels[i]) : g_strjoinv(", ", experiment->cases[i].values));
        rows[i].label = labels->pdata[i];
        failed += points[i].error && !(found && points[i].interrupted);
        fitting += ech_member_bool(rows[i].run, "fits") ? 1 : 0;
    }
    g_autofree char *heading = found ? g_strdup(found->heading) : g_strjoinv(", ", experiment->axes);
    EchExplainStep *steps = runs->steps;
    size_t n_steps = runs->n_steps;
    /* Of a search only what changes at the answer is told. */
    if (found && found->at[0] < n && found->at[1] < n && found->at[0] != found->at[1]) {
        steps[0].to = found->at[1];
        steps[1] = (EchExplainStep){found->at[1], found->at[0]};
        n_steps = 2;
        for (size_t k = 0; k < n_steps; k++)
            ech_sweep_rows_whole(runs, points, found->at[k]);
    }
    const char *why = found ? NULL : error_of_all(points, n);
    bool most = false;
    for (size_t i = 0; !found && experiment->axes[i]; i++)
        most = most || experiment->axis_sizes[i] > ECH_EXPLAIN_VALUES + 1;
    if (why && !options->json) {
        ech_cli_say("echelon: %s\n", why);
        return ECH_EXIT_FAILED;
    }
    const Sweep sweep = {experiment->title, heading, found ? found->text : NULL, rows, n, found ? found->close : NULL, most, steps, n_steps};
    bool ok = true;
    if (options->output) {
        g_autoptr(EchOutput) output = ech_output_new(options->output, &error);
        g_autoptr(GString) html = ech_report_sweep_html(json_node_get_object(node));
        g_autofree char *told = sweep_text(&sweep, 0), *text = ech_plain(told); /* The same bytes from every terminal. */
        ok = output && write_sweep(output, node, points, n, &error) && ech_output_write(output, "report.html", html->str, html->len, &error) &&
             ech_output_write(output, "summary.txt", text, strlen(text), &error);
        for (size_t i = 0; ok && i < n; i++) {
            g_autofree char *name = g_strdup_printf("%03zu/run.json", i);
            g_autofree char *run = ech_sweep_point_text(&points[i]);
            ok = !run || ech_output_write(output, name, run, strlen(run), &error);
            ech_cli_progress(writing, i + 1, n);
        }
        ok = ok && ech_output_commit(output, &error);
    }
    if (!ok)
        return ech_cli_fail(error);
    if (options->json) {
        ech_cli_printed(ech_sweep_write(node, points, n, true, stdout, NULL, NULL));
    } else {
        g_autofree char *text = sweep_text(&sweep, ech_cli_columns());
        ech_cli_print(text);
    }
    if (options->output)
        fprintf(stderr, "wrote %s: report.html, sweep.json, summary.txt and a folder for each run\n", options->output);
    if (found && !failed)
        return found->somewhere ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
    return failed ? ECH_EXIT_FAILED : fitting ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}

static int run_sweep(EchExperiment *experiment, const RunOptions *options)
{
    GError *error = NULL;
    char label[] = "sweeping";
    const volatile sig_atomic_t *stop = ech_interrupt_hold(); /* what has run by then is told */
    EchSweepPoint *points = ech_sweep_run(experiment, (unsigned)MAX(options->jobs, 1), stop, sweep_progress, label, &error);
    ech_interrupt_release();
    if (!points)
        return ech_cli_fail(error);
    int code = tell_sweep(experiment, points, NULL, options);
    ech_sweep_free(points, experiment->n_cases);
    ech_interrupt_end();
    return code;
}

static int run_find(EchExperiment *experiment, const RunOptions *options)
{
    GError *error = NULL;
    char label[] = "searching";
    const volatile sig_atomic_t *stop = ech_interrupt_hold(); /* what was tried by then is told */
    g_autoptr(EchFound) found = ech_find_run(experiment, stop, sweep_progress, label, &error);
    ech_interrupt_release();
    int code = found ? tell_sweep(found->experiment, found->points, found, options) : ech_cli_fail(error);
    ech_interrupt_end();
    return code;
}

/* The file that @name means: shipped experiments and traces may be called by their names. False, and said so, where there is none. */
static bool find_file(char **name)
{
    if (strcmp(*name, "-") == 0) /* a captured file from standard input, as --trace - */
        return true;
    g_autofree char *found = ech_experiment_find(*name);
    if (!g_file_test(found, G_FILE_TEST_EXISTS)) {
        g_free(found);
        found = ech_trace_find(*name, NULL);
    }
    if (g_file_test(found, G_FILE_TEST_EXISTS)) {
        g_free(*name);
        *name = g_steal_pointer(&found);
        return true;
    }
    g_auto(GStrv) names = ech_experiment_list();
    g_autofree char *trace = ech_experiment_nearest_trace(*name);
    const char *experiment = ech_nearest_name(*name, (const char *const *)names), *nearest = experiment ? experiment : trace;
    fprintf(stderr, "echelon run: '%s' is no file, no experiment and no shipped trace; %s%s%s'echelon list experiments' shows them\n", *name,
            nearest ? "did you mean '" : "", nearest ? nearest : "", nearest ? "'? " : "");
    return false;
}

static bool is_experiment(const char *name)
{
    return g_str_has_suffix(name, ".yaml") || g_str_has_suffix(name, ".yml");
}

/* --trace given again is as more files behind the first. */
static void take_traces(RunOptions *options, char ***rest)
{
    if (!options->traces)
        return;
    options->trace = g_strdup(options->traces[0]);
    g_autoptr(GStrvBuilder) files = g_strv_builder_new();
    for (char **file = options->traces + 1; *file; file++)
        g_strv_builder_add(files, *file);
    for (char **file = *rest; *file; file++)
        g_strv_builder_add(files, *file);
    g_strfreev(*rest);
    *rest = g_strv_builder_end(files);
}

/* Whether @name is a memory snapshot that is read with another capture of the same process, one of @files: "step.77.pickle", "step.77.pretend". */
static bool is_beside(const char *name, char *const *files)
{
    g_autofree char *plain = g_str_has_suffix(name, ".gz") ? g_strndup(name, strlen(name) - 3) : g_strdup(name);
    if (!g_str_has_suffix(plain, ".pickle"))
        return false;
    plain[strlen(plain) - strlen("pickle")] = '\0';
    for (; *files; files++) {
        if (g_str_has_prefix(*files, plain) && g_str_has_prefix(*files + strlen(plain), "pretend"))
            return true;
    }
    return false;
}

/* Of "--trace step.*" snapshots are no ranks of their own: each is read with the capture beside it. */
static void leave_out_snapshots(RunOptions *options, char **rest)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new(), kept = g_ptr_array_new(), left = g_ptr_array_new();
    if (options->trace)
        g_ptr_array_add(all, options->trace);
    for (char **file = rest; *file; file++)
        g_ptr_array_add(all, *file);
    g_ptr_array_add(all, NULL);
    for (guint i = 0; i + 1 < all->len; i++)
        g_ptr_array_add(is_beside(all->pdata[i], (char *const *)all->pdata) ? left : kept, all->pdata[i]);
    if (left->len == 0)
        return;
    fprintf(stderr, "note %s%s: read beside the capture%s of the same name, not as%s\n", (char *)left->pdata[0], left->len > 1 ? " and its like" : "",
            left->len > 1 ? "s" : "", left->len > 1 ? " ranks" : " a rank");
    g_ptr_array_foreach(left, (GFunc)(void (*)(void))g_free, NULL);
    guint next = 0;
    if (options->trace)
        options->trace = kept->pdata[next++];
    for (; next < kept->len; next++)
        *rest++ = kept->pdata[next];
    *rest = NULL;
}

/* A captured file in place of an experiment means --trace; several of them are ranks of one program, which it tells, and the first is the trace. */
static bool take_captures(RunOptions *options, char **rest)
{
    bool ranks = rest[0] && (rest[1] || options->trace);
    for (char **name = rest; *name; name++)
        ranks = ranks && !is_experiment(*name);
    if (rest[0] && (!rest[1] || ranks) && !options->trace && !is_experiment(rest[0])) {
        options->trace = rest[0];
        memmove(rest, rest + 1, g_strv_length(rest) * sizeof *rest);
    }
    return ranks;
}

/* A folder of a program's ranks means all of them, where what else is asked for can be answered of several. */
static bool take_folder(RunOptions *options, char ***rest)
{
    bool alone = options->beside || options->find || g_strcmp0(options->engine, "simgrid") == 0 || g_strcmp0(options->engine, "cuda") == 0;
    if (!options->trace || (*rest)[0] || alone)
        return false;
    g_autofree char *folder = ech_trace_find(options->trace, NULL);
    char **ranks = ech_import_ranks_in(folder);
    if (!ranks)
        return false;
    fprintf(stderr, "note %s: the captures of %u ranks in it are replayed together\n", options->trace, g_strv_length(ranks));
    g_free(options->trace);
    options->trace = ranks[0];
    g_free(*rest);
    *rest = g_memdup2(ranks + 1, g_strv_length(ranks + 1) * sizeof *ranks + sizeof *ranks);
    g_free(ranks);
    return true;
}

/* Those of replays, and the GPU itself. */
static bool check_engine(const char *engine, GError **error)
{
    const EchParam *param = ech_replay_params;
    while (strcmp(param->name, "engine") != 0)
        param++;
    if (strcmp(engine, "cuda") == 0 || g_strv_contains(param->values, engine))
        return true;
    g_autoptr(GString) names = g_string_new(NULL);
    for (const char *const *name = param->values; *name; name++)
        g_string_append_printf(names, "%s, ", *name);
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--engine: '%s' is unknown; expected one of %scuda", engine, names->str);
    return false;
}

int ech_verb_run(int argc, char **argv)
{
    g_auto(RunOptions) options = {.jobs = 1};
    const GOptionEntry entries[] = {
        {"trace", 't', 0, G_OPTION_ARG_FILENAME_ARRAY, &options.traces,
         "captured file, or a trace of ours; more of them: ranks of one program, or processes on one GPU (replay.share), replayed together", "FILE"},
        {"device", 'd', 0, G_OPTION_ARG_STRING, &options.device, "device to run it on, by name or file ('echelon list devices')", "NAME"},
        {"allocator", 'a', 0, G_OPTION_ARG_STRING, &options.allocator,
         "allocator of the device's memory ('echelon list allocators'); not given: of captures of PyTorch the recorded one, settings included", "SPEC"},
        {"host-allocator", 0, 0, G_OPTION_ARG_STRING, &options.host_allocator, "allocator of every other memory", "SPEC"},
        {"pass", 'p', 0, G_OPTION_ARG_STRING_ARRAY, &options.passes, "transformation to apply first; may be given again ('echelon list passes')", "SPEC"},
        {"set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &options.settings,
         "change anything: device.links.host.to_device=x0.5, of one of several ranks: ranks.2.device...; may be given again (the last value counts, factors "
         "multiply)",
         "PATH=VALUE"},
        {"find", 0, 0, G_OPTION_ARG_STRING, &options.find,
         "the number at which it tips, between two: device.memories.hbm.capacity=1GiB..16GiB ('echelon help experiment')", "PATH=FROM..TO"},
        {"for", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.goals, "what --find asks for: fits, time<=x1.05, hbm<=4GiB; may be given again", "GOAL"},
        {"engine", 'e', 0, G_OPTION_ARG_STRING, &options.engine, "auto, native, simgrid, or cuda: for real, on the GPU that is here", "NAME"},
        {"format", 'f', 0, G_OPTION_ARG_STRING, &options.format, "format of the captured file, where its content should not decide", "NAME"},
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &options.beside, ECH_CLI_BESIDE, "FILE"},
        {"step", 0, 0, G_OPTION_ARG_STRING, &options.step,
         "of a capture that tells steps, one alone: 2, 2..3, last or usual, the last with as large a batch as most", "N"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "write report, timelines and figures to a folder", "DIR"},
        {"jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "processes for a sweep", "N"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &options.json, "print one JSON document", NULL},
        {NULL, 0, 0, 0, NULL, NULL, NULL},
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    take_traces(&options, &rest);
    leave_out_snapshots(&options, rest);
    if (rest[0] && !find_file(&rest[0]))
        return ECH_EXIT_FAILED;
    const bool ranks = take_captures(&options, rest) || take_folder(&options, &rest);
    const char *wrong = g_strv_length(rest) > 1 && !ranks        ? "more than one experiment file"
                        : !rest[0] && !options.trace             ? "expected an experiment file, or --trace FILE --device NAME"
                        : options.jobs < 1 || options.jobs > 256 ? "--jobs: expected 1 to 256"
                                                                 : NULL;
    if (wrong) {
        fprintf(stderr, "echelon run: %s\n", wrong);
        return ECH_EXIT_USAGE;
    }
    const EchExperimentOverrides overrides = {
        .trace = options.trace,
        .device = options.device,
        .allocator = options.allocator,
        .host_allocator = options.host_allocator,
        .engine = options.engine,
        .format = options.format,
        .beside = options.beside,
        .step = options.step,
        .passes = (const char *const *)options.passes,
        .settings = (const char *const *)options.settings,
        .find = options.find,
        .goals = (const char *const *)options.goals,
    };
    GError *error = NULL;
    if (options.engine && !check_engine(options.engine, &error))
        return ech_cli_fail(error);
    if (g_strcmp0(options.engine, "cuda") == 0) {
        const char *cannot = options.output ? "--output: engine cuda writes no folder; expected --json"
                             : ranks        ? "engine cuda replays one capture on one GPU; ranks run together on the other engines"
                                            : NULL;
        return cannot ? ech_cli_fail(g_error_new(ECH_ERROR, ECH_ERROR_CONFIG, "%s", cannot)) : ech_cli_cuda(rest[0], &overrides, NULL, 0, options.json);
    }
    if (options.output && !ech_output_check(options.output, &error))
        return ech_cli_fail(error);
    if (ranks)
        return ech_cli_ranks(&overrides, rest, options.output, options.json);
    g_autoptr(EchExperiment) experiment = ech_experiment_load(rest[0], &overrides, &error);
    if (!experiment)
        return ech_cli_fail(error);
    experiment->brief = !options.json && !options.output;
    if (experiment->find)
        return run_find(experiment, &options);
    if (experiment->n_cases > 1)
        return run_sweep(experiment, &options);
    size_t n;
    g_autofree uint32_t *devices = ech_experiment_devices(experiment, &experiment->cases[0], &n);
    return devices ? ech_cli_run_devices(experiment, options.output, options.json) : run_one(experiment, &options);
}
