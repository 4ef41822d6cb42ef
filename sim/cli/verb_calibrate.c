/* echelon calibrate: measures the GPU that is here and writes a device file of it; with --suite also how well predictions with it do. */
#include "sim/cli/cli.h"
#include "sim/experiment/gpu_suite.h"
#include "sim/experiment/output.h"
#include "sim/replay/cuda_driver.h"
#include "sim/report/text.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
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

static void show_step(const char *stage, const char *outcome, unsigned done, unsigned total, double elapsed, void *data)
{
    (void)data;
    if (outcome)
        fprintf(stderr, "[%4.0f s]     %s: %s\n", elapsed, stage, outcome);
    else
        fprintf(stderr, "[%4.0f s] %u of %u: %s\n", elapsed, done, total, stage);
}

/* The child's own group, so that all of it can be ended. */
static void own_group(gpointer unused)
{
    (void)unused;
    setpgid(0, 0);
}

/* What `echelon capture` sees of one of the cases; what it says goes to stderr. At most @seconds. */
static void capture_case(const EchGpuSuiteOptions *options, const char *device, double seconds)
{
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL), *trace = g_build_filename(options->folder, "streaming-2-buffers.ech", NULL);
    g_autofree char *out = g_build_filename(options->folder, "streaming-2-buffers", NULL);
    if (!program || !g_file_test(trace, G_FILE_TEST_EXISTS))
        return;
    char *command[] = {program,    "capture", "-o",       out, "--", program, "validate", trace, "--device", (char *)(uintptr_t)device,
                       "--engine", "cuda",    "--repeat", "2", NULL};
    g_autoptr(GError) error = NULL;
    GPid child;
    if (!g_spawn_async(NULL, command, NULL, G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL, own_group, NULL, &child, &error)) {
        fprintf(stderr, "echelon calibrate: no capture: %s\n", error->message);
        return;
    }
    int status = 0;
    pid_t ended = 0;
    for (unsigned tenths = 0; tenths < (unsigned)(10 * seconds) && (ended = waitpid(child, &status, WNOHANG)) == 0; tenths++)
        g_usleep(100000);
    if (ended == 0) {
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
        fprintf(stderr, "echelon calibrate: no capture: it did not end in %.0f s\n", seconds);
    } else if (status != 0) {
        fprintf(stderr, "echelon calibrate: no capture: the command failed\n");
    }
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
    double left = options->budget > 0 ? MIN(options->budget - suite->seconds, 60) : 60;
    if (suite->left == 0 && suite->kept < suite->n_cases && left >= 5)
        capture_case(options, suite->device_path, left);
    g_autofree char *text = g_strdup_printf("%s\n%s", suite->calibration, suite->table);
    ech_cli_print(text);
    fprintf(stderr, "%s: device.yaml, table.md, traces (.ech), comparisons (.json); of %zu cases %zu missed their goal, %zu were done by an earlier call\n",
            options->folder, suite->n_cases, suite->missed, suite->kept);
    if (suite->left > 0)
        fprintf(stderr, "%zu cases were not reached in %.0f s; the same command goes on with them\n", suite->left, suite->seconds);
    return suite->missed > 0 || suite->left > 0 ? ECH_EXIT_FAILED : ECH_EXIT_DONE;
}

/* With what there is to do where there is nothing to measure. Frees the error. */
static int fail_to_measure(GError *error)
{
    int code = ech_cli_fail(error);
    g_autoptr(GString) text = g_string_new(NULL);
    if (ech_cuda_driver(NULL))
        return code;
    ech_text_wrap(text, "",
                  "Without the GPU: 'echelon list devices' shows those that are described, 'echelon run --trace FILE --device NAME' takes one of them, "
                  "--set device.PATH=VALUE with any number of it as you know it, and 'echelon help device' tells how to write a file for another. "
                  "Nothing here measures GPUs other than NVIDIA's.",
                  ech_cli_columns());
    fputs(text->str, stderr);
    return code;
}

int ech_verb_calibrate(int argc, char **argv)
{
    g_autofree char *output = NULL, *name = NULL, *suite = NULL, *budget = NULL;
    gint gpu = 0, repeats = 0;
    EchTime time = 0;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "device file to write; without it the file goes to the terminal", "DEVICE.yaml"},
        {"name", 'n', 0, G_OPTION_ARG_STRING, &name, "name of the device (default: the file's, else the GPU's)", "NAME"},
        {"gpu", 'g', 0, G_OPTION_ARG_INT, &gpu, "ordinal of the GPU", "N"},
        {"suite", 's', 0, G_OPTION_ARG_FILENAME, &suite,
         "also replay a set of traces and the programs given, and leave file, traces, captures and a table in a folder", "DIR"},
        {"repeat", 0, 0, G_OPTION_ARG_INT, &repeats, "suite: measured replays of each (10)", "N"},
        {"budget", 0, 0, G_OPTION_ARG_STRING, &budget, "suite: time for all of it, the most valuable first (540s, 9min); called again it goes on", "TIME"},
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
    GError *bad = NULL;
    g_autofree char *minutes = budget && g_str_has_suffix(budget, "min") ? g_strndup(budget, strlen(budget) - 3) : NULL;
    uint64_t count = 0;
    bool ok = !budget || (minutes ? ech_parse_u64(minutes, &count, &bad) : ech_parse_time(budget, &time, &bad));
    if (!ok) {
        fprintf(stderr, "echelon calibrate: --budget: %s\n", bad->message);
        g_error_free(bad);
        return ECH_EXIT_USAGE;
    }
    /* A table that says which two dozen files it was given says nothing else. */
    char *first = rest[0] && rest[1] ? strstr(command, rest[0]) : NULL;
    if (first) {
        *first = '\0';
        char *brief = g_strdup_printf("%s... (%u programs)", command, g_strv_length(rest));
        g_free(command);
        command = brief;
    }
    double seconds = minutes ? (double)MIN(count, 100000) * 60 : (double)time / (double)ECH_PS_PER_S;
    if (suite)
        return run_suite(&(EchGpuSuiteOptions){.gpu = (uint64_t)gpu,
                                               .folder = suite,
                                               .name = name,
                                               .command = command,
                                               .programs = (const char *const *)rest,
                                               .repeats = (uint64_t)repeats,
                                               .budget = seconds});
    GError *error = NULL;
    g_autofree char *folder = output ? g_path_get_dirname(output) : NULL;
    if (folder && g_access(folder, W_OK) != 0)
        return ech_cli_fail(g_error_new(G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: cannot be written: %s", folder, g_strerror(errno)));
    char label[] = "measuring";
    g_autoptr(EchCalibration) calibration = ech_calibrate((uint64_t)gpu, NULL, show_progress, label, &error);
    if (!calibration) {
        g_prefix_error(&error, "calibrate: ");
        return fail_to_measure(error);
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
