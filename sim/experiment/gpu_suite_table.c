/* What was found of the cases: kept in files from one call to the next, printed as a table. */
#include "sim/experiment/gpu_suite_private.h"
#include "sim/experiment/validate.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

bool ech_gpu_misses(const EchGpuCase *row)
{
    if (row->error)
        return true;
    bool makespan = row->goal_makespan > 0 && fabs(ech_relative_error(row->predicted, row->measured)) > row->goal_makespan;
    return makespan || (row->goal_copies > 0 && row->copies > row->goal_copies) || (row->goal_kernels > 0 && row->kernels > row->goal_kernels);
}

/* @interval: of what was measured itself; not above 0: not told. */
static void add_percent(GString *text, double error, double interval, double goal)
{
    if (error < 0) {
        g_string_append(text, " – |");
        return;
    }
    g_string_append_printf(text, " %.1f %%", 100 * error);
    if (interval > 0)
        g_string_append_printf(text, ", ± %.1f", 100 * interval);
    if (goal > 0)
        g_string_append_printf(text, " (%s %.0f %%)", error <= goal ? "within" : "**beyond**", 100 * goal);
    g_string_append(text, " |");
}

static void add_row(GString *text, const EchGpuCase *row)
{
    if (row->error || row->left) {
        g_string_append_printf(text, "| %s | %s | %s | | | | | | | |\n", row->name, row->allocator, row->left ? "not reached in the budget" : row->error);
        return;
    }
    g_autofree char *measured = ech_format_time(row->measured), *low = ech_format_time(row->low), *high = ech_format_time(row->high);
    g_autofree char *predicted = ech_format_time(row->predicted), *used = ech_format_bytes(row->memory_measured),
                    *modelled = ech_format_bytes(row->memory_predicted);
    g_string_append_printf(text, "| %s%s | %s | %s [%s, %s] | %s |", row->name, row->scale < 1 ? " (scaled)" : "", row->allocator, measured, low, high,
                           predicted);
    double error = ech_relative_error(row->predicted, row->measured);
    g_string_append_printf(text, " %+.1f %%%s |", 100 * error,
                           row->goal_makespan <= 0             ? ""
                           : fabs(error) <= row->goal_makespan ? " (within 5 %)"
                                                               : " (**beyond** 5 %)");
    add_percent(text, row->copies, row->copies_interval, row->goal_copies);
    add_percent(text, row->kernels, 0, row->goal_kernels);
    g_string_append_printf(text, " %s | %s |", used, modelled);
    if (row->memory_measured > 0)
        g_string_append_printf(text, " %+.1f %% |\n", 100 * ech_relative_error((int64_t)row->memory_predicted, (int64_t)row->memory_measured));
    else
        g_string_append(text, " – |\n");
}

/* Programs that differ only in where they keep things: on the device, on the host, and there with the copies beside the kernels. */
enum { VARIANTS = 3 };
static const struct {
    const char *program, *cases[VARIANTS];
} offloads[] = {
    {"GPT, unrolled", {"gpt_unrolled_kept.h100", "gpt_unrolled_offload.h100", "gpt_unrolled_overlap.h100"}},
    {"GPT, 6 layers unrolled", {"gpt6_unrolled_save.h100.off", "gpt6_unrolled_offload.h100.off", "gpt6_unrolled_offload.h100.on"}},
    {"GPT, 6 layers in a loop", {"gpt6_base.h100.off", "gpt6_offload.h100.off", "gpt6_offload.h100.on"}},
    {"MLP, activations", {"mlp10_base.h100.off", "mlp10_act.h100.off", "mlp10_act.h100.on"}},
    {"MLP, activations and parameters", {"mlp10_base.h100.off", "mlp10_act_param.h100.off", "mlp10_act_param.h100.on"}},
    {"Adam, moments", {"adam4_base.h100.off", "adam4_offload.h100.off", "adam4_offload.h100.on"}},
};

static const EchGpuCase *find_done(const EchGpuSuite *suite, const char *name)
{
    for (size_t i = 0; i < suite->n_cases; i++) {
        const EchGpuCase *row = &suite->cases[i];
        if (g_strcmp0(row->name, name) == 0 && !row->error && !row->left && row->measured > 0)
            return row;
    }
    return NULL;
}

static void add_offload(GString *text, const char *program, const EchGpuCase *const cases[VARIANTS])
{
    static const char *const lines[] = {"time measured", "time predicted", "memory measured", "memory predicted"};
    for (size_t l = 0; l < G_N_ELEMENTS(lines); l++) {
        g_string_append_printf(text, "| %s | %s |", l == 0 ? program : "", lines[l]);
        for (size_t i = 0; i < VARIANTS; i++) {
            const EchGpuCase *row = cases[i];
            g_autofree char *value = !row     ? g_strdup("–")
                                     : l == 0 ? ech_format_time(row->measured)
                                     : l == 1 ? ech_format_time(row->predicted)
                                     : l == 2 ? ech_format_bytes(row->memory_measured)
                                              : ech_format_bytes(row->memory_predicted);
            g_string_append_printf(text, " %s%s |", value, row && row->scale < 1 ? " (scaled)" : "");
        }
        g_string_append_c(text, '\n');
    }
}

static void add_offloads(GString *text, const EchGpuSuite *suite)
{
    bool begun = false;
    for (size_t i = 0; i < G_N_ELEMENTS(offloads); i++) {
        const EchGpuCase *cases[VARIANTS];
        for (size_t k = 0; k < VARIANTS; k++)
            cases[k] = find_done(suite, offloads[i].cases[k]);
        if (!cases[1] || !cases[2])
            continue;
        if (!begun)
            g_string_append(text, "\nWhat overlap costs and saves, side by side:\n\n| program | | kept on the device | offloaded | offloaded, with overlap |\n"
                                  "|---|---|---|---|---|\n");
        begun = true;
        add_offload(text, offloads[i].program, cases);
    }
}

char *ech_gpu_table(const EchGpuSuite *suite, const EchGpuSuiteOptions *options)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text,
                           "%s, %s, by `%s`.\n"
                           "Measured on the GPU and predicted with the device file calibrated in the same run (device.yaml). Medians with their 95 %% "
                           "confidence interval (of fewer than six repeats: the least and the most); copies: mean\n"
                           "error of those of 1 MiB and more, behind it half of what lies between the ends of their own intervals. A program's kernels are "
                           "replayed as their bytes or operations, not as themselves.\n\n",
                           suite->gpu, options->date, options->command);
    if (suite->kept > 0)
        g_string_append_printf(text, "%zu of the cases are those of earlier calls, which had budgets of their own.\n\n", suite->kept);
    g_string_append(text, "| case | allocator | measured | predicted | error | copies | kernels | memory measured | predicted | error |\n"
                          "|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < suite->n_cases; i++)
        add_row(text, &suite->cases[i]);
    add_offloads(text, suite);
    return g_string_free(text, FALSE);
}

char *ech_gpu_outcome(const EchGpuCase *row)
{
    if (row->error)
        return g_strdup(row->error);
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "makespan %+.1f %%", 100 * ech_relative_error(row->predicted, row->measured));
    if (row->copies >= 0)
        g_string_append_printf(text, ", copies %.1f %%", 100 * row->copies);
    if (row->kernels >= 0)
        g_string_append_printf(text, ", kernels %.1f %%", 100 * row->kernels);
    g_string_append_printf(text, "%s", ech_gpu_misses(row) ? ": beyond its goal" : "");
    return g_string_free(text, FALSE);
}

char *ech_gpu_file(const EchGpuSuiteOptions *options, const char *name, const char *suffix)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    return g_build_filename(options->folder, file, NULL);
}

bool ech_gpu_write_row(const EchGpuSuiteOptions *options, const EchGpuCase *row, GError **error)
{
    g_autoptr(GKeyFile) keys = g_key_file_new();
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"copies", row->copies}, {"copies_interval", row->copies_interval}, {"kernels", row->kernels}, {"scale", row->scale}, {"seconds", row->seconds}};
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {{"measured_ps", row->measured},
                    {"low_ps", row->low},
                    {"high_ps", row->high},
                    {"predicted_ps", row->predicted},
                    {"memory_measured_bytes", (int64_t)row->memory_measured},
                    {"memory_predicted_bytes", (int64_t)row->memory_predicted},
                    {"tries", (int64_t)row->tries}};
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        g_key_file_set_double(keys, "row", numbers[i].name, numbers[i].value);
    for (size_t i = 0; i < G_N_ELEMENTS(integers); i++)
        g_key_file_set_int64(keys, "row", integers[i].name, integers[i].value);
    if (row->error)
        g_key_file_set_string(keys, "row", "error", row->error);
    g_key_file_set_string(keys, "row", "file", row->file);
    g_autofree char *path = ech_gpu_file(options, row->name, ".row");
    return g_key_file_save_to_file(keys, path, error);
}

/* What an earlier call, or a child, has found of the same file; false where there is nothing. */
bool ech_gpu_read_row(const EchGpuSuiteOptions *options, EchGpuCase *row)
{
    g_autoptr(GKeyFile) keys = g_key_file_new();
    g_autofree char *path = ech_gpu_file(options, row->name, ".row");
    if (!g_key_file_load_from_file(keys, path, G_KEY_FILE_NONE, NULL))
        return false;
    g_autofree char *file = g_key_file_get_string(keys, "row", "file", NULL);
    if (strcmp(file ? file : "", row->file) != 0)
        return false;
    row->copies = g_key_file_get_double(keys, "row", "copies", NULL);
    row->copies_interval = g_key_file_get_double(keys, "row", "copies_interval", NULL);
    row->kernels = g_key_file_get_double(keys, "row", "kernels", NULL);
    row->scale = g_key_file_get_double(keys, "row", "scale", NULL);
    row->seconds = g_key_file_get_double(keys, "row", "seconds", NULL);
    row->measured = g_key_file_get_int64(keys, "row", "measured_ps", NULL);
    row->low = g_key_file_get_int64(keys, "row", "low_ps", NULL);
    row->high = g_key_file_get_int64(keys, "row", "high_ps", NULL);
    row->predicted = g_key_file_get_int64(keys, "row", "predicted_ps", NULL);
    row->memory_measured = (EchBytes)g_key_file_get_int64(keys, "row", "memory_measured_bytes", NULL);
    row->memory_predicted = (EchBytes)g_key_file_get_int64(keys, "row", "memory_predicted_bytes", NULL);
    row->tries = (uint64_t)MAX(g_key_file_get_int64(keys, "row", "tries", NULL), 0);
    g_free(row->error);
    row->error = g_key_file_get_string(keys, "row", "error", NULL);
    return true;
}

/* Rows measured on another GPU, or before the calibration was made anew, are no rows of this table. */
void ech_gpu_forget_rows(const EchGpuSuiteOptions *options)
{
    g_autoptr(GDir) dir = g_dir_open(options->folder, 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(options->folder, name, NULL);
        if (g_str_has_suffix(name, ".row"))
            g_unlink(path);
    }
}
