/* echelon calibrate: measures the GPU that is here and writes a device file of it. */
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/experiment/calibrate.h"
#include "sim/experiment/output.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void show_progress(unsigned done, unsigned total, void *data)
{
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

int ech_verb_calibrate(int argc, char **argv)
{
    g_autofree char *output = NULL, *name = NULL;
    gint gpu = 0;
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "device file to write; without it the file goes to the terminal", "DEVICE.yaml"},
        {"name", 'n', 0, G_OPTION_ARG_STRING, &name, "name of the device (default: the file's, else the GPU's)", "NAME"},
        {"gpu", 'g', 0, G_OPTION_ARG_INT, &gpu, "ordinal of the GPU", "N"},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (rest[0] || gpu < 0) {
        fprintf(stderr, "echelon calibrate: %s\n", gpu < 0 ? "--gpu: expected 0 or more" : "no arguments are expected; the file goes after -o");
        return ECH_EXIT_USAGE;
    }
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
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *date = g_date_time_format(now, "%Y-%m-%d");
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
