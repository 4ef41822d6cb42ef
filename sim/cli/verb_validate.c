/* echelon validate: predicted against recorded times, or against the compiler's own estimates. */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/cuda_cli.h"
#include "sim/experiment/output.h"
#include "sim/experiment/validate.h"
#include "sim/import/import.h"
#include "sim/report/json_out.h"
#include "sim/report/report.h"

#include <stdio.h>
#include <string.h>

static bool write_output(const EchValidation *validation, const EchDevice *device, const char *title, const char *path, GError **error)
{
    g_autoptr(GString) text = NULL;
    if (g_str_has_suffix(path, ".html"))
        text = ech_validation_html(validation, device, title);
    else if (g_str_has_suffix(path, ".svg"))
        text = ech_validation_svg(validation, device, title);
    else if (g_str_has_suffix(path, ".csv"))
        text = ech_validation_csv(validation);
    else if (g_str_has_suffix(path, ".json")) {
        JsonNode *node = ech_validation_json(validation, device);
        g_autofree char *json = ech_json_print(node);
        json_node_unref(node);
        text = g_string_new(json);
    } else {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: the ending says what to write; expected .html, .svg, .json or .csv", path);
        return false;
    }
    return ech_output_file(path, text->str, text->len, error);
}

static EchValidation *validate(const char *path, const char *format, const EchDevice *device, bool own_tiles, GError **error)
{
    if (!format && !g_file_test(path, G_FILE_TEST_IS_DIR)) {
        g_autoptr(EchSource) source = ech_source_open(path, error);
        if (source == NULL)
            return NULL;
        size_t n;
        const uint8_t *head = ech_source_head(source, &n);
        if (ech_validate_is_table((const char *)head, n)) {
            g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
            return bytes ? ech_validate_table(path, g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes), device, own_tiles, error) : NULL;
        }
    }
    EchImportOptions options = {.device = device->name};
    g_autoptr(EchImport) import = ech_import_file(path, format, &options, error);
    if (import == NULL)
        return NULL;
    EchValidation *validation = !import->program                                ? ech_validate_trace(import->trace, device, error)
                                : import->program->platform == ECH_PLATFORM_GPU ? ech_validate_gpu_program(import->program, device, error)
                                                                                : ech_validate_program(import->program, device, own_tiles, error);
    if (!validation)
        g_prefix_error(error, "%s: ", path);
    return validation;
}

int ech_verb_validate(int argc, char **argv)
{
    g_autofree char *device_name = NULL, *engine = NULL, *cuda = NULL, *allocator = NULL, *output = NULL, *format = NULL;
    g_auto(GStrv) settings = NULL;
    gboolean json = FALSE, own_tiles = FALSE;
    gint repeats = 0;
    const GOptionEntry entries[] = {
        {"device", 'd', 0, G_OPTION_ARG_STRING, &device_name, "device to predict for", "NAME"},
        {"own-tiles", 0, 0, G_OPTION_ARG_NONE, &own_tiles, "choose the tiles of kernels ourselves instead of reading the table's windows", NULL},
        {"set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &settings, "change a number of the device", "PATH=VALUE"},
        {"engine", 'e', 0, G_OPTION_ARG_STRING, &engine, "cuda: replay on the GPU that is here and compare", "cuda"},
        {"repeat", 'n', 0, G_OPTION_ARG_INT, &repeats, "cuda: measured replays", "N"},
        {"allocator", 'a', 0, G_OPTION_ARG_STRING, &allocator, "cuda: who allocates: platform, cuda_async, vmm, or an allocator of ours over an arena", "SPEC"},
        {"cuda", 0, 0, G_OPTION_ARG_STRING, &cuda, "cuda: options of the engine ('echelon list engines')", "KEY=VALUE,..."},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "write a page with the scatter, the scatter alone, or all pairs, by the file's ending", "FILE"},
        {"json", 'j', 0, G_OPTION_ARG_NONE, &json, "print one JSON document", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || device_name == NULL) {
        fputs("echelon validate: one FILE and --device NAME are needed\n", stderr);
        return ECH_EXIT_USAGE;
    }
    ech_cli_find_trace(&rest[0]);
    if (engine && strcmp(engine, "cuda") != 0) {
        fprintf(stderr, "echelon validate: --engine %s: expected cuda; leave it out to compare with recorded times or the compiler's estimates\n", engine);
        return ECH_EXIT_USAGE;
    }
    if (repeats < 0 || ((repeats > 0 || cuda || allocator) && !engine)) {
        fputs("echelon validate: --repeat, --cuda and --allocator belong to --engine cuda; --repeat is at least 1\n", stderr);
        return ECH_EXIT_USAGE;
    }
    if (engine && (output || format)) {
        fputs("echelon validate: --output and --format do not go with --engine cuda\n", stderr);
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
    g_autoptr(EchValidation) validation = validate(rest[0], format, device, own_tiles, &error);
    if (validation == NULL)
        return ech_cli_fail(error);
    g_autofree char *title = g_path_get_basename(rest[0]);
    if (output) {
        if (!write_output(validation, device, title, output, &error))
            return ech_cli_fail(error);
        fprintf(stderr, "wrote %s\n", output);
    }
    if (json) {
        JsonNode *node = ech_validation_json(validation, device);
        g_autofree char *text = ech_json_print(node);
        json_node_unref(node);
        ech_cli_print(text);
    } else {
        g_autoptr(GString) text = ech_validation_text(validation, device, title, ech_cli_columns());
        ech_cli_print(text->str);
    }
    g_autofree char *nothing = ech_validation_nothing(validation);
    if (nothing) {
        fprintf(stderr, "echelon: %s: %s\n", rest[0], nothing);
        return ECH_EXIT_FAILED;
    }
    return ECH_EXIT_DONE;
}
