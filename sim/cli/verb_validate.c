/* echelon validate: predicted against recorded times, or against the compiler's own estimates. */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/cuda_cli.h"
#include "sim/experiment/validate.h"
#include "sim/import/import.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void member_int(JsonBuilder *json, const char *name, int64_t value)
{
    json_builder_set_member_name(json, name);
    json_builder_add_int_value(json, value);
}

static void print_json(const EchValidation *validation, const char *device)
{
    g_autoptr(JsonBuilder) json = json_builder_new();
    json_builder_begin_object(json);
    json_builder_set_member_name(json, "device");
    json_builder_add_string_value(json, device);
    json_builder_set_member_name(json, "pairs");
    json_builder_begin_array(json);
    for (size_t i = 0; i < validation->n_pairs; i++) {
        const EchValidatePair *pair = &validation->pairs[i];
        json_builder_begin_object(json);
        json_builder_set_member_name(json, "name");
        json_builder_add_string_value(json, pair->name);
        json_builder_set_member_name(json, "kind");
        json_builder_add_string_value(json, pair->kind);
        member_int(json, "measured_ps", pair->measured);
        member_int(json, "predicted_ps", pair->predicted);
        if (pair->cost.time > 0) {
            member_int(json, "compute_ps", pair->cost.compute);
            member_int(json, "hbm_ps", pair->cost.hbm);
            member_int(json, "latency_ps", pair->cost.latency);
            member_int(json, "fill_ps", pair->cost.fill);
            member_int(json, "overhead_ps", pair->cost.overhead);
            member_int(json, "steps", (int64_t)MIN(pair->cost.blocks.steps, (uint64_t)INT64_MAX));
        }
        if (pair->vmem_measured > 0) {
            member_int(json, "measured_vmem_bytes", (int64_t)MIN(pair->vmem_measured, (uint64_t)INT64_MAX));
            member_int(json, "predicted_vmem_bytes", (int64_t)MIN(pair->vmem_predicted, (uint64_t)INT64_MAX));
        }
        json_builder_end_object(json);
    }
    json_builder_end_array(json);
    json_builder_set_member_name(json, "makespan");
    json_builder_begin_object(json);
    if (validation->makespan_measured != ECH_TIME_NONE) {
        member_int(json, "measured_ps", validation->makespan_measured);
        member_int(json, "predicted_ps", validation->makespan_predicted);
        json_builder_set_member_name(json, "error");
        json_builder_add_double_value(json, validation->makespan_measured > 0 ? (double)validation->makespan_predicted / (double)validation->makespan_measured - 1 : 0);
    }
    json_builder_end_object(json);
    json_builder_set_member_name(json, "mape");
    json_builder_begin_object(json);
    double all = ech_validation_mape(validation, NULL);
    static const char *const kinds[] = {"copy", "kernel"};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        double mape = ech_validation_mape(validation, kinds[i]);
        if (mape >= 0) {
            json_builder_set_member_name(json, kinds[i]);
            json_builder_add_double_value(json, mape);
        }
    }
    if (all >= 0) {
        json_builder_set_member_name(json, "all");
        json_builder_add_double_value(json, all);
    }
    json_builder_end_object(json);
    json_builder_end_object(json);
    g_autoptr(JsonGenerator) generator = json_generator_new();
    g_autoptr(JsonNode) root = json_builder_get_root(json);
    json_generator_set_root(generator, root);
    json_generator_set_pretty(generator, TRUE);
    g_autofree char *text = json_generator_to_data(generator, NULL);
    g_autofree char *line = g_strconcat(text, "\n", NULL);
    ech_cli_print(line);
}

static gint compare_doubles(gconstpointer a, gconstpointer b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_text(const EchValidation *validation)
{
    g_autoptr(GString) text = g_string_new("kind                        pairs    mean  median     90 %   worst\n");
    g_autoptr(GPtrArray) kinds = g_ptr_array_new();
    for (size_t i = 0; i < validation->n_pairs; i++)
        if (!g_ptr_array_find_with_equal_func(kinds, validation->pairs[i].kind, g_str_equal, NULL))
            g_ptr_array_add(kinds, validation->pairs[i].kind);
    g_ptr_array_add(kinds, NULL);
    for (guint k = 0; k < kinds->len; k++) {
        const char *kind = g_ptr_array_index(kinds, k);
        g_autoptr(GArray) errors = g_array_new(FALSE, FALSE, sizeof(double));
        const char *worst = "";
        double most = -1, sum = 0;
        for (size_t i = 0; i < validation->n_pairs; i++) {
            const EchValidatePair *pair = &validation->pairs[i];
            if (pair->measured <= 0 || (kind != NULL && strcmp(pair->kind, kind) != 0))
                continue;
            double error = fabs((double)pair->predicted / (double)pair->measured - 1);
            g_array_append_val(errors, error);
            sum += error;
            if (error > most) {
                most = error;
                worst = pair->name;
            }
        }
        if (errors->len == 0)
            continue;
        g_array_sort(errors, compare_doubles);
        const double *sorted = (const double *)(const void *)errors->data;
        g_string_append_printf(text, "%-24s %8u %6.1f%% %6.1f%% %7.1f%% %6.1f%% %s\n", kind != NULL ? kind : "all", errors->len, 100 * sum / errors->len, 100 * sorted[errors->len / 2],
                               100 * sorted[MIN(errors->len - 1, (guint)(0.9 * errors->len))], 100 * most, worst);
    }
    if (validation->makespan_measured != ECH_TIME_NONE) {
        g_autofree char *measured = ech_format_time(validation->makespan_measured), *predicted = ech_format_time(validation->makespan_predicted);
        g_string_append_printf(text, "whole run: measured %s, predicted %s (%+.1f%%)\n", measured, predicted,
                               validation->makespan_measured > 0 ? 100 * ((double)validation->makespan_predicted / (double)validation->makespan_measured - 1) : 0);
    }
    ech_cli_print(text->str);
}

int ech_verb_validate(int argc, char **argv)
{
    g_autofree char *device_name = NULL, *engine = NULL, *cuda = NULL, *allocator = NULL;
    g_auto(GStrv) settings = NULL;
    gboolean json = FALSE, own_tiles = FALSE;
    gint repeats = 0;
    const GOptionEntry entries[] = {
        {"device", 'd', 0, G_OPTION_ARG_STRING, &device_name, "Device to predict for", "NAME"},
        {"own-tiles", 0, 0, G_OPTION_ARG_NONE, &own_tiles, "Choose the tiles of kernels ourselves instead of reading the table's windows", NULL},
        {"set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &settings, "Change a number of the device", "PATH=VALUE"},
        {"engine", 'e', 0, G_OPTION_ARG_STRING, &engine, "cuda: replay on the GPU that is here and compare", "cuda"},
        {"repeat", 'n', 0, G_OPTION_ARG_INT, &repeats, "cuda: measured replays", "N"},
        {"allocator", 'a', 0, G_OPTION_ARG_STRING, &allocator, "cuda: who allocates: platform, cuda_async, vmm, or an allocator of ours over an arena", "SPEC"},
        {"cuda", 0, 0, G_OPTION_ARG_STRING, &cuda, "cuda: options of the engine ('echelon list engines')", "KEY=VALUE,..."},
        {"json", 'j', 0, G_OPTION_ARG_NONE, &json, "Print one JSON document", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || device_name == NULL) {
        fputs("echelon validate: one FILE and --device NAME are needed\n", stderr);
        return ECH_EXIT_USAGE;
    }
    if (engine && strcmp(engine, "cuda") != 0) {
        fprintf(stderr, "echelon validate: --engine %s: expected cuda; leave it out to compare with recorded times or the compiler's estimates\n", engine);
        return ECH_EXIT_USAGE;
    }
    if (repeats < 0 || ((repeats > 0 || cuda || allocator) && !engine)) {
        fputs("echelon validate: --repeat, --cuda and --allocator belong to --engine cuda; --repeat is at least 1\n", stderr);
        return ECH_EXIT_USAGE;
    }
    if (engine) {
        const EchExperimentOverrides overrides = {.trace = rest[0], .device = device_name, .allocator = allocator, .settings = (const char *const *)settings};
        return ech_cli_cuda(NULL, &overrides, cuda, (unsigned)repeats, json);
    }
    GError *error = NULL;
    g_autoptr(EchDevice) device = ech_device_load(device_name, (const char *const *)settings, &error);
    if (device == NULL)
        return ech_cli_fail(error);
    g_autoptr(GMappedFile) file = g_mapped_file_new(rest[0], FALSE, &error);
    if (file == NULL)
        return ech_cli_fail(error);
    const char *data = g_mapped_file_get_contents(file);
    size_t size = g_mapped_file_get_length(file);
    g_autoptr(EchValidation) validation = NULL;
    if (ech_validate_is_table(data, size)) {
        validation = ech_validate_table(rest[0], data, size, device, own_tiles, &error);
    } else {
        EchImportOptions options = {.device = device->name};
        g_autoptr(EchImport) import = ech_import_file(rest[0], NULL, &options, &error);
        if (import == NULL)
            return ech_cli_fail(error);
        if (import->program != NULL)
            validation = ech_validate_program(import->program, device, own_tiles, &error);
        else
            g_set_error(&error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: traces cannot be validated yet; expected a table of kernels or a compiled program", rest[0]);
    }
    if (validation == NULL)
        return ech_cli_fail(error);
    if (json)
        print_json(validation, device->name);
    else
        print_text(validation);
    return ECH_EXIT_DONE;
}
