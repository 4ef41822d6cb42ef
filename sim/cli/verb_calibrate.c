/* echelon calibrate: measures the GPU that is here and writes a device file of it; with --suite also how well predictions with it do. */
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/experiment/gpu_suite.h"
#include "sim/experiment/output.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void show_progress(unsigned done, unsigned total, const char *what, void *data)
{
    (void)what;
    ech_cli_progress(data, done, total);
}

/* "NVIDIA H100 80GB HBM3" -> "nvidia-h100-80gb-hbm3"; the file's own name where there is one. */
static char *name_of(const char *gpu, const char *output)
{
    g_autofree char *base = output ? g_path_get_basename(output) : g_strdup(gpu);
    if (g_str_has_suffix(base, ".yaml"))
        base[strlen(base) - strlen(".yaml")] = '\0';
    GString *name = g_string_new(NULL);
    for (const char *at = base; *at; at++) {
        if (g_ascii_isalnum(*at) || *at == '.' || *at == '_')
            g_string_append_c(name, g_ascii_tolower(*at));
        else if (name->len > 0 && name->str[name->len - 1] != '-')
            g_string_append_c(name, '-');
    }
    if (name->len == 0)
        g_string_append(name, "gpu");
    return g_string_free(name, FALSE);
}

static char *today(void)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    return g_date_time_format(now, "%Y-%m-%d");
}

static void show_step(const char *what, unsigned done, unsigned total, void *data)
{
    (void)data;
    fprintf(stderr, "%u of %u: %s\n", done + 1, total, what);
}

/* What `echelon capture` sees of one of the cases; what it says goes to stderr. */
static void capture_case(const EchGpuSuiteOptions *options, const char *device)
{
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL), *trace = g_build_filename(options->folder, "streaming-2-buffers.ech", NULL);
    g_autofree char *out = g_build_filename(options->folder, "streaming-2-buffers", NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GSubprocess) child = program ? g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_SILENCE, &error, program, "capture", "-o", out, "--", program,
                                                              "validate", trace, "--device", device, "--engine", "cuda", "--repeat", "2", NULL)
                                           : NULL;
    if (!child || !g_subprocess_wait_check(child, NULL, &error))
        fprintf(stderr, "echelon calibrate: no capture: %s\n", error ? error->message : "the program does not find itself");
}

static int run_suite(EchGpuSuiteOptions *options)
{
    GError *error = NULL;
    g_autofree char *date = today(), *command = g_strconcat("echelon ", options->command, NULL);
    /* The GPU's name is only known inside; a device needs a name before. */
    g_autofree char *own = name_of(options->name ? options->name : "calibrated-gpu", NULL);
    options->name = own;
    options->date = date;
    options->command = command;
    g_autoptr(EchGpuSuite) suite = ech_gpu_suite_run(options, show_step, NULL, &error);
    if (!suite) {
        g_prefix_error(&error, "calibrate: ");
        return ech_cli_fail(error);
    }
    capture_case(options, suite->device_path);
    g_autofree char *text = g_strdup_printf("%s\n%s", suite->calibration, suite->table);
    ech_cli_print(text);
    fprintf(stderr, "wrote %s: device.yaml, table.md, traces (.ech), comparisons (.json); %zu of %zu cases missed their goal\n", options->folder, suite->missed,
            suite->n_cases);
    return suite->missed > 0 ? ECH_EXIT_FAILED : ECH_EXIT_DONE;
}

int ech_verb_calibrate(int argc, char **argv)
{
    g_autofree char *output = NULL, *name = NULL, *suite = NULL;
    gint gpu = 0, repeats = 0;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "device file to write; without it the file goes to the terminal", "DEVICE.yaml"},
        {"name", 'n', 0, G_OPTION_ARG_STRING, &name, "name of the device (default: the file's, else the GPU's)", "NAME"},
        {"gpu", 'g', 0, G_OPTION_ARG_INT, &gpu, "ordinal of the GPU", "N"},
        {"suite", 's', 0, G_OPTION_ARG_FILENAME, &suite,
         "also replay a set of traces and the programs given, and leave file, traces, captures and a table in a folder", "DIR"},
        {"repeat", 0, 0, G_OPTION_ARG_INT, &repeats, "suite: measured replays of each (10)", "N"},
        G_OPTION_ENTRY_NULL,
    };
    g_autofree char *command = g_strjoinv(" ", argv);
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if ((rest[0] && !suite) || gpu < 0 || repeats < 0 || (suite && output)) {
        fprintf(stderr, "echelon calibrate: %s\n",
                gpu < 0 || repeats < 0 ? "--gpu and --repeat: expected 0 or more"
                : suite && output      ? "-o and --suite: the suite's device file goes to its folder"
                                       : "arguments are programs for --suite DIR; the file goes after -o");
        return ECH_EXIT_USAGE;
    }
    if (suite)
        return run_suite(&(EchGpuSuiteOptions){
            .gpu = (uint64_t)gpu, .folder = suite, .name = name, .command = command, .programs = (const char *const *)rest, .repeats = (uint64_t)repeats});
    GError *error = NULL;
    g_autofree char *folder = output ? g_path_get_dirname(output) : NULL;
    if (folder && g_access(folder, W_OK) != 0)
        return ech_cli_fail(g_error_new(G_FILE_ERROR, g_file_error_from_errno(errno), "%s: cannot be written: %s", folder, g_strerror(errno)));
    char label[] = "measuring";
    g_autoptr(EchCalibration) calibration = ech_calibrate((uint64_t)gpu, show_progress, label, &error);
    if (!calibration) {
        g_prefix_error(&error, "calibrate: ");
        return ech_cli_fail(error);
    }
    g_autofree char *own = name_of(name ? name : calibration->gpu, name ? NULL : output);
    g_autofree char *date = today();
    g_autofree char *yaml = ech_calibration_yaml(calibration, own, date, &error);
    if (!yaml)
        return ech_cli_fail(error);
    g_autofree char *text = ech_calibration_text(calibration);
    if (!output) {
        fputs(text, stderr);
        ech_cli_print(yaml);
        return ECH_EXIT_DONE;
    }
    /* All at once or not at all. */
    if (!ech_output_file(output, yaml, strlen(yaml), &error))
        return ech_cli_fail(error);
    ech_cli_print(text);
    fprintf(stderr, "wrote %s; now: echelon run --device %s --trace FILE\n", output, output);
    return ECH_EXIT_DONE;
}
