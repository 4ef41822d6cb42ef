/* echelon advise: what would make it fit, each measure tried. */
#include "sim/cli/cli.h"

#include "sim/base/units.h"
#include "sim/cli/interrupt.h"
#include "sim/experiment/advise.h"
#include "sim/report/json_out.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    char *trace, *device, *memory, *allocator, *format, *beside, *step;
    char **passes, **settings, **also;
    gint jobs;
    gboolean json;
} AdviseOptions;

static void options_clear(AdviseOptions *options)
{
    g_free(options->trace);
    g_free(options->device);
    g_free(options->memory);
    g_free(options->allocator);
    g_free(options->format);
    g_free(options->beside);
    g_free(options->step);
    g_strfreev(options->passes);
    g_strfreev(options->settings);
    g_strfreev(options->also);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(AdviseOptions, options_clear)

static void progress(size_t done, size_t total, void *data)
{
    ech_cli_progress(data, done, total);
}

static int advise(const AdviseOptions *options)
{
    GError *error = NULL;
    EchBytes memory = 0;
    if (options->memory && !ech_parse_bytes(options->memory, &memory, &error)) {
        g_prefix_error(&error, "--memory: ");
        return ech_cli_fail(error);
    }
    /* A number without a unit is bytes, which nobody means. */
    if (options->memory && memory < 1 << 20) {
        g_autofree char *meant = ech_format_bytes(memory);
        fprintf(stderr, "echelon advise: --memory: '%s' is %s; expected something like 16GiB\n", options->memory, meant);
        return ECH_EXIT_USAGE;
    }
    const EchExperimentOverrides overrides = {
        .trace = options->trace,
        .device = options->device,
        .allocator = options->allocator,
        .format = options->format,
        .beside = options->beside,
        .step = options->step,
        .passes = (const char *const *)options->passes,
        .settings = (const char *const *)options->settings,
    };
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    if (!experiment)
        return ech_cli_fail(error);
    char label[] = "trying";
    const volatile sig_atomic_t *stop = ech_interrupt_hold(); /* what was tried by then is told */
    g_autoptr(EchAdvice) advice =
        ech_advise(experiment, options->memory, (const char *const *)options->also, (unsigned)options->jobs, stop, progress, label, &error);
    ech_interrupt_release();
    if (!advice)
        return ech_cli_fail(error);
    if (options->json) {
        g_autoptr(JsonNode) node = ech_advice_json(advice);
        g_autofree char *text = ech_json_print(node);
        ech_cli_print(text);
    } else {
        g_autoptr(GString) text = ech_advice_text(advice, ech_cli_columns());
        ech_cli_print(text->str);
    }
    ech_interrupt_end();
    return ech_advice_helps(advice) ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}

/* Moves the words of @rest from @first on behind those of @list. */
static void take_rest(char ***list, char **rest, size_t first)
{
    size_t n = g_strv_length(*list), more = g_strv_length(rest);
    if (more <= first)
        return;
    *list = g_renew(char *, *list, n + more - first + 1);
    memcpy(*list + n, rest + first, (more - first + 1) * sizeof *rest);
    rest[first] = NULL;
}

int ech_verb_advise(int argc, char **argv)
{
    g_auto(AdviseOptions) options = {.jobs = 1};
    const GOptionEntry entries[] = {
        {"trace", 't', 0, G_OPTION_ARG_FILENAME, &options.trace, "captured file, or a trace of ours", "FILE"},
        {"device", 'd', 0, G_OPTION_ARG_STRING, &options.device, "device to run it on, by name or file ('echelon list devices')", "NAME"},
        {"memory", 'm', 0, G_OPTION_ARG_STRING, &options.memory, "how much of hbm it may take; the device's if not given", "SIZE"},
        {"set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &options.settings, "change anything, as for run; may be given again", "PATH=VALUE"},
        {"pass", 'p', 0, G_OPTION_ARG_STRING_ARRAY, &options.passes, "transformation that holds for all; may be given again", "SPEC"},
        {"allocator", 'a', 0, G_OPTION_ARG_STRING, &options.allocator, "allocator of the device's memory; not given: as for run", "SPEC"},
        {"format", 'f', 0, G_OPTION_ARG_STRING, &options.format, "format of the captured file, where its content should not decide", "NAME"},
        {"also", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options.also,
         "another capture of the program, with a measure that it does not have itself (capture --with); may be given again", "FILE"},
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &options.beside, ECH_CLI_BESIDE, "FILE"},
        {"step", 0, 0, G_OPTION_ARG_STRING, &options.step,
         "of a capture that tells steps, one alone: 2, 2..3, last or usual, the last with as large a batch as most", "N"},
        {"jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "processes", "N"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &options.json, "print one JSON document", NULL},
        {NULL, 0, 0, 0, NULL, NULL, NULL},
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (options.also) /* --also with.*.pretend */
        take_rest(&options.also, rest, options.trace ? 0 : 1);
    const char *more = !rest[0] ? NULL : options.trace ? rest[0] : rest[1];
    if (more && !g_file_test(more, G_FILE_TEST_EXISTS)) {
        fprintf(stderr, "echelon advise: '%s' is no file, and one trace is expected (a size is one word: 24GiB)\n", more);
        return ECH_EXIT_USAGE;
    }
    if (rest[0] && (rest[1] || options.trace)) {
        fprintf(stderr,
                "echelon advise: expected one trace; of several ranks the one that does not fit, or the fullest: 'echelon run --trace A B ...' tells which\n");
        return ECH_EXIT_USAGE;
    }
    if (rest[0])
        options.trace = g_strdup(rest[0]);
    if (!options.trace || !options.device || options.jobs < 1 || options.jobs > 256) {
        fprintf(stderr, "echelon advise: expected one trace and --device NAME%s\n", options.jobs < 1 || options.jobs > 256 ? ", --jobs 1 to 256" : "");
        return ECH_EXIT_USAGE;
    }
    return advise(&options);
}
